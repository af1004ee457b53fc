# The kernel for other modules: types, functions called across modules, and small inline functions, which are compiled into
# the modules that use them, so that no call per field crosses a module. One section per room of _core.pyx, in its order.
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject, newfunc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy, strlen

from wirefmt._core.be cimport store_u16, store_u32
from wirefmt._core.cursor cimport Span
from wirefmt._core.octets cimport BLOCK_OCTETS, Octets, add_octets, add_u8
from wirefmt._core.status cimport Fault
from wirefmt._core.utf8 cimport UTF8_OK, check_utf8
from wirefmt._core.utf8 cimport is_utf8
from wirefmt._core.varint cimport store_varint, varint_size
from wirefmt._core.words cimport hash_octets, is_ascii, same_octets


# ---- faults

ctypedef const char* CText


cdef struct ProtocolTables:     # what a protocol knows of its checks and fields; C strings that live for ever
    const char* name
    const CText* text                                       # by check: what is wrong
    const CText* path                                       # by field: `subscriptions[].topic_filter`
    const CText* spec                                       # by check: statement or section
    const char* (*spec_of)(const Fault* f) noexcept nogil   # NULL: `spec` says it
    int (*reply_to)(const Fault* f) noexcept nogil          # what a receiver answers; -1, or NULL: nothing
    const CText* replies                                    # NULL: the number is the answer; else the number's text is


cdef tuple FAULT_CLASSES
cdef inline const char* spec_of(const ProtocolTables* t, const Fault* f) noexcept nogil:
    """The statement or section that a fault breaks."""
    return t.spec[f.check] if t.spec_of == NULL else t.spec_of(f)


cdef int fault_text(const ProtocolTables* t, const Fault* f, int64_t base_offset, char* out,
                    size_t room) noexcept nogil
cdef str field_path(const ProtocolTables* t, int field, int index)
cdef object make_fault(const ProtocolTables* t, const Fault* f, int64_t base_offset)
cdef int raise_fault(const ProtocolTables* t, const Fault* f, int64_t base_offset) except -1

# ---- seed

cdef enum:
    HASH_KEYS = 8

cdef uint64_t[HASH_KEYS] HASH_KEY      # odd numbers
cdef inline uint32_t keyed_place(uint64_t v, uint32_t places) noexcept nogil:
    """The place of a number in a table, 0 to places - 1; `places` is a power of two. Multiply-shift (Dietzfelbinger et
    al.): the probability that two numbers have the same place is at most 2 / places."""
    return <uint32_t>((v * HASH_KEY[0] >> 32) * places >> 32)


# ---- calls

cdef inline int begin_call(bint* busy) except -1:
    if busy[0]:
        raise RuntimeError("the object is in use: a call in another thread, or around this one, has not returned")
    busy[0] = True
    return 0


# ---- writer

cdef extern from *:
    """
    /* The octets of a str that is ASCII and of no derived class; NULL: it is none such. */
    static inline const uint8_t *wirefmt_ascii_octets(PyObject *text, Py_ssize_t *size) {
        if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text))
            return NULL;
        *size = PyUnicode_GET_LENGTH(text);
        return (const uint8_t *)PyUnicode_DATA(text);
    }
    """
    const uint8_t* ascii_octets "wirefmt_ascii_octets"(PyObject* text, Py_ssize_t* size) noexcept


cdef const uint8_t* any_utf8_behind(object text, Py_ssize_t* size, str field) except NULL
cdef inline const uint8_t* utf8_behind(object text, Py_ssize_t* size, str field) except NULL:
    """A str as UTF-8. The octets live as long as it. Raises TypeError for what is no str, EncodeError for surrogates."""
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, size)
    return p if p != NULL else any_utf8_behind(text, size, field)


cdef int refuse_size16(Py_ssize_t size, str field) except -1
cdef inline int check_size16(Py_ssize_t size, str field) except -1:
    return refuse_size16(size, field) if size > 65535 else 0


cdef inline bytes new_octets(size_t size):
    """Bytes that are to be filled before anybody sees them."""
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)


cdef enum:
    WRITER_START = 248


@cython.final
cdef class Writer:
    cdef uint8_t* p
    cdef size_t size, room
    cdef uint8_t start[WRITER_START]
    cdef int enlarge(self, size_t n) except -1

    cdef inline uint8_t* grow(self, size_t n) except NULL:
        """`n` octets more; where they begin."""
        if n > self.room - self.size:
            self.enlarge(n)
        self.size += n
        return self.p + self.size - n

    cdef inline int put_u8(self, uint8_t v) except -1:
        self.grow(1)[0] = v
        return 0

    cdef inline int put_u16(self, uint16_t v) except -1:
        store_u16(self.grow(2), v)
        return 0

    cdef inline int put_u32(self, uint32_t v) except -1:
        store_u32(self.grow(4), v)
        return 0

    cdef inline int put_varint(self, uint32_t v) except -1:
        store_varint(self.grow(<size_t>varint_size(v)), v)
        return 0

    cdef inline int put_octets(self, const uint8_t* p, size_t n) except -1:
        cdef uint8_t* to = self.grow(n)
        if n:
            memcpy(to, p, n)
        return 0

    cdef int put_buffer(self, object data, bint sized, str field) except -1
    cdef int put_text16(self, object text, str field) except -1

    cdef inline int put_size16(self, Py_ssize_t size, str field) except -1:
        check_size16(size, field)
        return self.put_u16(<uint16_t>size)

    cdef int insert_varint(self, size_t at) except -1

cdef Writer new_writer()
cdef int64_t any_whole_number(object value, int64_t top, str field) except -1
cdef inline int64_t whole_number(object value, int64_t top, str field) except -1:
    """An int of 0 to `top`, or an object with __index__ (NumPy's integers)."""
    cdef int overflow = 0
    cdef long long plain
    if PyLong_CheckExact(value):
        plain = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and 0 <= plain <= top:
            return plain
    return any_whole_number(value, top, field)


# ---- secrets

# GENERATED from wirefmt/spec/secrets.py
include "_core/secrets_table.pxi"

cdef inline bint is_secret_name(const uint8_t* p, size_t n) noexcept nogil:
    """Is an entry of this name secret? Only letters count. Nearly all names are decided by their last two or three."""
    cdef uint32_t node = 0
    cdef uint8_t letter
    if n < SECRET_SHORTEST:
        return False
    while n:
        n -= 1
        letter = secret_letter[p[n]]
        if letter == 0:
            continue
        node = secret_next[node][letter]
        if node == 0:
            return False
        if secret_end[node] == 2:
            return True
    return secret_end[node] != 0


cdef bint holds_secret_word(const uint8_t* p, size_t n) noexcept nogil
cdef bint holds_secret_member(const uint8_t* p, size_t n) noexcept nogil
cdef bint is_secret_text(str name) except -1
cdef frozenset secret_fields(str protocol)
cdef str SECRET_SHOWN
cdef bytes SECRET_SHOWN_OCTETS
cdef object hidden(object value)
cdef object shown_entry(object name, object value)

# ---- buffers

cdef enum:
    INPUT_HEAD = 16             # bytes that input_head copies: more than any frame needs to tell its size


@cython.final
cdef class Input:
    cdef bytes held
    cdef const uint8_t* at
    cdef Py_ssize_t size

cdef Input take_input(object data)
cdef size_t input_head(object data, uint8_t* room) except? 0
cdef bytes take_block(object data)
cdef extern from *:
    """
    /* A read-only view for __getbuffer__. Cython begins that with a reference to None in view->obj, which
       PyBuffer_FillInfo would overwrite and so leak. */
    static inline int wirefmt_fill_view(Py_buffer *view, PyObject *owner, const void *at, Py_ssize_t size, int flags) {
        Py_CLEAR(view->obj);
        return PyBuffer_FillInfo(view, owner, (void *)at, size, 1, flags);
    }
    """
    int fill_view "wirefmt_fill_view"(Py_buffer* view, object owner, const void* at, Py_ssize_t size, int flags) except -1


# ---- message

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text)
    void PyObject_GC_UnTrack(void* o)       # for tuples that cannot form a cycle; saves the collector a scan


cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define WIREFMT_SHARES_VALUES 0
    #else
    #define WIREFMT_SHARES_VALUES 1
    #endif
    """
    enum: WIREFMT_SHARES_VALUES


cdef enum:
    SHARED_SLOTS = 1024         # a power of two
    SHARED_OCTETS = 54          # longer values are not kept


cdef struct SharedSlot:
    PyObject* value             # owned; NULL: free
    uint8_t kind, size
    uint8_t octets[SHARED_OCTETS]


cdef SharedSlot[SHARED_SLOTS] SHARED_VALUES
cdef inline SharedSlot* shared_slot(int kind, const uint8_t* p, size_t size) noexcept nogil:
    """The slot of a value that is made of `size` octets (at most SHARED_OCTETS); `kind` tells apart what they mean."""
    return &SHARED_VALUES[hash_octets(HASH_KEY[1] ^ (<uint64_t>kind << 8 | size), p, size) >> 54]


cdef inline bint is_held(const SharedSlot* slot, int kind, const uint8_t* p, size_t size) noexcept nogil:
    return slot.value != NULL and slot.size == size and slot.kind == kind and same_octets(slot.octets, p, size)


cdef void share(SharedSlot* slot, int kind, const uint8_t* p, size_t size, object value) noexcept
cdef inline str text_of(const uint8_t* p, uint32_t size):
    """A string whose UTF-8 has been checked. Most are ASCII, and short: those are copied without more ado."""
    if not is_ascii(p, size):
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    return ascii_text(p, size)


cdef inline str ascii_text(const uint8_t* p, uint32_t size):
    """A string that is known to be ASCII."""
    cdef object text
    if size < 2:                            # those exist already
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    text = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(text), p, size)
    return <str>text


cdef inline bytes octets_of(const uint8_t* p, uint32_t size):
    return PyBytes_FromStringAndSize(<const char*>p, size)


cdef enum:
    SHARED_TEXT = 0             # kind of values that are the text of their octets; the other kinds are the protocols'


cdef inline str shared_text(const uint8_t* p, uint32_t size):
    """As text_of, for text that streams repeat: one object for many messages, if it is short."""
    cdef SharedSlot* slot
    if size == 0 or size > SHARED_OCTETS or not WIREFMT_SHARES_VALUES:
        return text_of(p, size)
    slot = shared_slot(SHARED_TEXT, p, size)
    if is_held(slot, SHARED_TEXT, p, size):
        return <str>slot.value
    text = text_of(p, size)
    share(slot, SHARED_TEXT, p, size, text)
    return text


cdef str shown_octets(object octets)
cdef str shown_encoded(object octets)
cdef extern from *:
    """
    static inline int wirefmt_set_attribute(PyObject *type, PyObject *name, PyObject *value) {
        int done = PyDict_SetItem(((PyTypeObject *)type)->tp_dict, name, value);
        PyType_Modified((PyTypeObject *)type);
        return done;
    }
    """
    int wirefmt_set_attribute(object cls, object name, object value) except -1     # of a class of the core


cdef extern from "Python.h":
    ctypedef struct PyGetSetDef:
        const char* name
        object (*get)(object self, void* closure)
        void* closure
    object PyDescr_NewGetSet(PyTypeObject* type, PyGetSetDef* definition)


cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        const char* name
        int type
        Py_ssize_t offset
        int flags
    object PyDescr_NewMember(PyTypeObject* type, PyMemberDef* definition)
    enum: T_OBJECT_EX
    enum: READONLY


cdef struct Factory:
    PyObject* cls               # lives for ever
    newfunc make                # allocates; all fields are zero


cdef int set_factories(Factory* out, tuple classes) except -1
cdef Factory factory_of(object cls) noexcept
cdef inline object bare_object(const Factory* f):
    return f.make(<type>f.cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef object bare_subclass(const Factory* f, object cls)
cdef tuple NO_ARGUMENTS

cdef extern from *:
    """
    static inline void wirefmt_set_vectorcall(PyObject *cls, void *call) {
        ((PyTypeObject *)cls)->tp_vectorcall = (vectorcallfunc)call;
    }
    """
    void set_vectorcall "wirefmt_set_vectorcall"(object cls, void* call) noexcept


cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t nargsf)
    PyObject* borrowed_item "PyTuple_GET_ITEM"(PyObject* t, Py_ssize_t i) noexcept
    Py_ssize_t length_of "PyTuple_GET_SIZE"(PyObject* t) noexcept


cdef object construct_slowly(object cls, PyObject** args, Py_ssize_t count, PyObject* kwnames)
cdef enum:
    NOTES_SHOWN = 64            # of what LAX accepted in one message


cdef object STRICT_MODE
cdef bint is_strict(object strictness) except? -1
cdef uint32_t DEFAULT_FRAME_SIZE
cdef uint32_t DEFAULT_ELEMENTS

# ---- framer

cdef object NO_MESSAGE      # decode_frame: the frame was taken, but its message is not complete

cdef class FrameDecoder:
    cdef const ProtocolTables* tables
    cdef uint8_t* kept          # a frame of which more is to come
    cdef size_t kept_size, kept_room
    cdef size_t frame_octets    # of that frame; 0: not known yet
    cdef int64_t begin          # octets of the stream before it
    cdef bytes unread_block     # holds bytes that a feed() with a count has left unread; None: there are none
    cdef size_t unread_at       # where they begin
    cdef object error           # what ended this decoder
    cdef bint busy
    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept
    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f)
    cdef int look(self, const uint8_t* p, size_t n, size_t size, Fault* f) noexcept
    cdef int leave_block(self) except -1
    cdef int check_end(self) except -1
    cdef int check_open(self) except -1
    cdef const uint8_t* decode_whole(self, bytes block, const uint8_t* p, const uint8_t* end, list out,
                                     Py_ssize_t most) except NULL
    cdef const uint8_t* complete(self, const uint8_t* p, const uint8_t* end, list out) except NULL
    cdef int keep(self, const uint8_t* p, size_t n) except -1
    cdef int fail(self, const Fault* f, str reason, list out) except -1


# ---- arrow

cdef extern from *:
    """
    /* memcpy, without a call for the short strings that columns are full of: two copies that may overlap */
    static inline void wirefmt_copy(unsigned char *to, const unsigned char *from, size_t n) {
        if (n > 32) memcpy(to, from, n);
        else if (n >= 16) { memcpy(to, from, 16); memcpy(to + n - 16, from + n - 16, 16); }
        else if (n >= 8) { memcpy(to, from, 8); memcpy(to + n - 8, from + n - 8, 8); }
        else if (n >= 4) { memcpy(to, from, 4); memcpy(to + n - 4, from + n - 4, 4); }
        else if (n) { to[0] = from[0]; to[n >> 1] = from[n >> 1]; to[n - 1] = from[n - 1]; }
    }
    """
    void copy_octets "wirefmt_copy"(uint8_t* to, const uint8_t* at, size_t n) noexcept nogil


cdef enum ColumnKind:
    KIND_BOOL = 0
    KIND_FIXED = 1              # `width` octets
    KIND_OCTETS = 2             # string, binary
    KIND_LIST = 3               # list, map
    KIND_STRUCT = 4

cdef enum:
    FIRST_ROOM = 1024           # rows
    FIRST_OCTETS = 16384
    OFFSET_MAX = 0x7FFFFFFF     # 32-bit offsets: octets (or children) of one column of a batch
    ELEMENT_OCTETS = 8          # what an element of a list counts apart from its octets: an empty one takes memory, too


cdef struct Tally:              # shared by the columns of a set
    bint exposed                # secrets are shown (secrets.pxi)
    bint no_memory
    bint full                   # a column would pass OFFSET_MAX: the value was left null
    int64_t octets              # of strings, binaries and list elements so far: where a batch is cut


cdef struct Col:
    uint8_t kind, on, width
    int64_t rows                # filled, nulls included
    int64_t room                # rows there is room for
    int64_t nulls
    uint8_t* validity           # bits; NULL until the first null
    uint8_t* data               # values, bits, or octets
    int64_t used, size          # octets in `data`, for KIND_OCTETS
    int32_t* offsets            # room + 1, for KIND_OCTETS and KIND_LIST
    int64_t first_room          # rows and octets to begin with: what the batch before had
    int64_t first_size
    int children_count
    Col* children
    Tally* tally


cdef inline void set_bit(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] |= <uint8_t>(1 << (i & 7))


cdef bint reach_row(Col* c, int64_t row) noexcept nogil
cdef inline bint at_row(Col* c, int64_t row) noexcept nogil:
    """Make `row` the next one to fill. False: the column is off, or there is no memory."""
    if row != c.rows or row >= c.room:      # a column that is off has no room
        return c.on and reach_row(c, row)
    if c.validity != NULL:
        set_bit(c.validity, row)
    c.rows = row + 1
    return True


cdef inline void put_i64(Col* c, int64_t row, int64_t v) noexcept nogil:
    if at_row(c, row):
        (<int64_t*>c.data)[row] = v


cdef inline void put_i32(Col* c, int64_t row, int32_t v) noexcept nogil:
    if at_row(c, row):
        (<int32_t*>c.data)[row] = v


cdef inline void put_i16(Col* c, int64_t row, int16_t v) noexcept nogil:
    if at_row(c, row):
        (<int16_t*>c.data)[row] = v


cdef inline void put_i8(Col* c, int64_t row, int8_t v) noexcept nogil:
    if at_row(c, row):
        (<int8_t*>c.data)[row] = v


cdef inline void put_bool(Col* c, int64_t row, bint v) noexcept nogil:
    if at_row(c, row) and v:
        set_bit(c.data, row)


cdef bint grow_octets(Col* c, int64_t n) noexcept nogil
cdef bint reserve(Col* c, int64_t rows, int64_t octets) noexcept nogil
cdef inline void put_octets(Col* c, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
    """A string (valid UTF-8, the caller has seen to it) or a binary."""
    if not c.on or (n > c.size - c.used and not grow_octets(c, n)) or not at_row(c, row):
        return
    copy_octets(c.data + c.used, p, <size_t>n)
    c.used += n
    c.tally.octets += n
    c.offsets[row + 1] = <int32_t>c.used


cdef inline void put_octets2(Col* c, int64_t row, const uint8_t* p, int64_t n,
                             const uint8_t* q, int64_t m) noexcept nogil:
    """A binary of two parts."""
    if not c.on or (n + m > c.size - c.used and not grow_octets(c, n + m)) or not at_row(c, row):
        return
    memcpy(c.data + c.used, p, <size_t>n)
    memcpy(c.data + c.used + n, q, <size_t>m)
    c.used += n + m
    c.tally.octets += n + m
    c.offsets[row + 1] = <int32_t>c.used


cdef struct Text:               # octets of our own that many rows repeat, with TEXT_PAD readable ones after them
    const uint8_t* at
    int64_t size


cdef enum:
    TEXT_PAD = 32


cdef inline void put_text(Col* c, int64_t row, const Text* t) noexcept nogil:
    """put_octets for short texts: copies a fixed number of octets, of which the next put overwrites the surplus."""
    if not c.on:
        return
    if t.size > TEXT_PAD or c.size - c.used < TEXT_PAD:
        put_octets(c, row, t.at, t.size)
    elif at_row(c, row):
        memcpy(c.data + c.used, t.at, TEXT_PAD)
        c.used += t.size
        c.tally.octets += t.size
        c.offsets[row + 1] = <int32_t>c.used


cdef Text pad_text(bytes octets)
cdef inline int64_t text_octets(const Text* t) noexcept nogil:
    """Memory of a Text that is allocated with its TEXT_PAD and not empty; else 0."""
    return t.size + TEXT_PAD + BLOCK_OCTETS if t.size else 0


cdef Text NO_TEXT
cdef Text SECRET_SHOWN_TEXT      # in place of a secret
cdef inline void put_span(Col* c, int64_t row, const Span* s) noexcept nogil:
    """put_octets, but an absent span leaves the row null."""
    if s.at != NULL:
        put_octets(c, row, s.at, s.size)


cdef enum:
    HEX_OCTETS = 1024           # octets that are no text: how many of them are shown where a column has text
    HEX_ROOM = 2 * HEX_OCTETS + 32


cdef void text_or_hex(const Span* octets, uint8_t* room, Span* out) noexcept nogil
cdef uint32_t hex_text(const uint8_t* p, uint32_t size, uint8_t* room) noexcept nogil
cdef inline uint8_t hex_digit(uint8_t c) noexcept nogil:
    """The value of a digit as hex_text writes it; 255: not a digit."""
    return c - c"0" if c"0" <= c <= c"9" else c - c"a" + 10 if c"a" <= c <= c"f" else 255


cdef inline bint is_hex(const Span* text) noexcept nogil:
    """Could hex_text have written it, with all octets?"""
    cdef uint32_t i
    if text.size == 0 or text.size & 1 or text.size > 2 * HEX_OCTETS:
        return False
    for i in range(text.size):
        if hex_digit(text.at[i]) == 255:
            return False
    return True


cdef inline void store_hex(const Span* text, uint8_t* out) noexcept nogil:
    """The octets of text that is_hex."""
    cdef uint32_t i
    for i in range(text.size // 2):
        out[i] = <uint8_t>(hex_digit(text.at[2 * i]) << 4 | hex_digit(text.at[2 * i + 1]))


cdef inline Span octets_shown(const Span* text, uint8_t* room) noexcept nogil:
    """The octets that a column shows as `text`: what is not UTF-8 is shown in hexadecimal. `room`: HEX_OCTETS."""
    cdef Span octets = text[0]
    cdef size_t bad = 0
    if is_hex(text):
        store_hex(text, room)
        if check_utf8(room, text.size // 2, &bad) != UTF8_OK:
            octets.at = room
            octets.size = text.size // 2
    return octets


cdef inline bint decimal_of(const Span* text, uint64_t* v) noexcept nogil:
    """A number of 64 bits as snprintf writes it. False: not such a number."""
    cdef uint64_t n = 0
    cdef uint32_t i
    cdef uint8_t digit
    if text.size == 0 or (text.at[0] == c"0" and text.size > 1):
        return False
    for i in range(text.size):
        digit = text.at[i] - c"0"
        if digit > 9 or n > (<uint64_t>0xFFFFFFFFFFFFFFFF - digit) // 10:
            return False
        n = 10 * n + digit
    v[0] = n
    return True


cdef inline void put_struct(Col* c, int64_t row) noexcept nogil:
    """The row is not null. Its fields are put to the children at the same row."""
    at_row(c, row)


cdef inline int64_t open_list(Col* c, int64_t row) noexcept nogil:
    """Begin the row's list: put the elements to `c.children` from the row answered on, then close_list. -1: no list."""
    if not at_row(c, row):
        return -1
    c.offsets[row + 1] = c.offsets[row]
    return c.offsets[row]


cdef inline void close_list(Col* c, int64_t child_rows) noexcept nogil:
    """`child_rows`: all rows of the child, those of earlier lists included."""
    if child_rows > OFFSET_MAX:
        c.tally.full = True
    elif c.on and c.rows:
        c.tally.octets += ELEMENT_OCTETS * (child_rows - c.offsets[c.rows])
        c.offsets[c.rows] = <int32_t>child_rows


cdef inline void put_map(Col* c, int64_t row, const uint8_t* k, int64_t kn,
                         const uint8_t* v, int64_t vn) noexcept nogil:
    """One more entry of the row's map; a key may come again."""
    cdef Col* entries = c.children
    cdef int64_t at
    if not c.on:
        return
    if c.rows == row + 1:
        at = c.offsets[c.rows]
    else:
        at = open_list(c, row)
        if at < 0:
            return
    put_struct(entries, at)
    put_octets(&entries.children[0], at, k, kn)
    if not c.tally.exposed and is_secret_name(k, <size_t>kn):
        put_octets(&entries.children[1], at, SECRET_SHOWN_TEXT.at, SECRET_SHOWN_TEXT.size)
    else:
        put_octets(&entries.children[1], at, v, vn)
    close_list(c, at + 1)


cdef inline void put_secret_entry(Col* c, int64_t row, const uint8_t* k, int64_t kn,
                                  const uint8_t* v, int64_t vn) noexcept nogil:
    """put_map of a value that is secret whatever its name."""
    if c.tally.exposed:
        put_map(c, row, k, kn, v, vn)
    else:
        put_map(c, row, k, kn, SECRET_SHOWN_TEXT.at, SECRET_SHOWN_TEXT.size)


cdef inline void put_secret(Col* c, int64_t row, const Span* value) noexcept nogil:
    """put_span of a secret: null unless secrets are shown."""
    if c.tally.exposed:
        put_span(c, row, value)


cdef class Field:
    cdef readonly str name, type
    cdef bytes name_octets, format
    cdef readonly bint nullable
    cdef uint8_t kind, width
    cdef list children
    cdef bint same_children(self, Field other)


cdef class Batch


cdef class ColumnSet:
    cdef Col* cols              # one for each row of the table of columns, chosen or not
    cdef int n
    cdef Tally* tally
    cdef list fields, chosen    # all; indices of the chosen ones
    cdef void expose(self, bint exposed) noexcept
    cdef int set_columns(self, columns, names) except -1
    cdef Field row_type(self)
    cdef Batch finish(self, int64_t rows)


cdef class Batch:
    cdef Col* cols
    cdef int n
    cdef uint8_t* zeros
    cdef Field field
    cdef readonly int64_t num_rows
    cdef readonly int64_t rest
    cdef int index(self, name) except -1


# ---- batch

cdef class FrameBatch(ColumnSet):
    cdef const ProtocolTables* tables
    cdef int64_t row            # rows so far
    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil
    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil
    cdef void put_unfinished(self, int64_t at) noexcept nogil
    cdef int64_t run(self, const uint8_t* data, int64_t size) noexcept nogil
    cdef inline void put_place(self, int64_t at, int64_t size) noexcept nogil:
        """Offset and size of the row."""
        put_i64(self.cols, self.row, at)
        if self.cols[1].width == 8:
            put_i64(self.cols + 1, self.row, size)
        else:
            put_i32(self.cols + 1, self.row, <int32_t>min(size, <int64_t>0x7FFFFFFF))

    cdef void put_fault(self, int64_t at, const Fault* f) noexcept nogil
    cdef void put_error(self, int64_t at, int64_t size, const Fault* f) noexcept nogil
    cdef Batch decode(self, const ProtocolTables* tables, Input octets, int payload)


# ---- source

cdef enum SourceForm:           # how strings, binaries and lists say where they lie
    SOURCE_NARROW = 0           # offsets of 32 bits
    SOURCE_WIDE                 # of 64 bits
    SOURCE_FIXED_SIZE           # `width` octets each
    SOURCE_VIEW                 # views of 16 octets in `data`


cdef struct SourceCol:             # a column (or child) of a caller's Arrow arrays: views, nothing owned but `children`
    uint8_t kind                # a ColumnKind
    uint8_t on                  # False: no row has a value
    uint8_t binary              # any octets; False: strings, which are UTF-8
    uint8_t form                # a SourceForm
    uint8_t is_signed           # of integers
    int32_t width               # of integers and of SOURCE_FIXED_SIZE: octets
    int64_t begin               # where row 0 is in the buffers
    int64_t top                 # the last offset: octets in `data`, or elements
    const uint8_t* validity     # bits; NULL: every row has a value
    const uint8_t* data
    const uint8_t* offsets
    const void** pieces         # of SOURCE_VIEW: the buffers that long values lie in, and then the buffer of their sizes
    int64_t piece_count
    int children_count
    SourceCol* children
    const char* path            # `mqtt.topic_filters`


cdef enum Refused:
    REFUSED_NOT = 0
    REFUSED_NULL                # a value is needed
    REFUSED_RANGE               # `have` is not `low` to `high`
    REFUSED_SIZE                # `have` octets or elements, at most `high`
    REFUSED_OFFSETS
    REFUSED_TEXT                # `text` says why
    REFUSED_FAULT               # `fault`: what a decoder would say of the frame
    REFUSED_MEMORY


cdef struct Problem:            # why a row cannot be written
    int why                     # a Refused
    const SourceCol* column        # NULL: the row as a whole
    int64_t row                 # of the array
    int64_t have, low, high
    const char* text
    Fault fault


cdef int refuse(Problem* x, int why, const SourceCol* column) noexcept nogil
cdef int refuse_text(Problem* x, const SourceCol* column, const char* text) noexcept nogil
cdef int refuse_range(Problem* x, const SourceCol* column, int64_t have, int64_t low, int64_t high) noexcept nogil
cdef int refuse_size(Problem* x, const SourceCol* column, int64_t have, int64_t high) noexcept nogil

cdef inline int32_t source_i32(const uint8_t* p) noexcept nogil:
    cdef int32_t v
    memcpy(&v, p, 4)
    return v


cdef inline bint source_has(const SourceCol* s, int64_t row) noexcept nogil:
    """Does the row have a value? Its parent does."""
    cdef int64_t i = s.begin + row
    return s.on and (s.validity == NULL or s.validity[i >> 3] >> (i & 7) & 1)


cdef inline int64_t source_integer(const SourceCol* s, int64_t row) noexcept nogil:
    """An integer that is there. One of 64 bits without sign is negative from 2^63 on."""
    cdef int64_t v = 0
    cdef int32_t v32 = 0
    cdef int16_t v16 = 0
    cdef const uint8_t* p = s.data + (s.begin + row) * s.width
    if s.width == 8:
        memcpy(&v, p, 8)
        return v
    if s.width == 4:
        memcpy(&v32, p, 4)
        return v32 if s.is_signed else <int64_t><uint32_t>v32
    if s.width == 2:
        memcpy(&v16, p, 2)
        return v16 if s.is_signed else <int64_t><uint16_t>v16
    return <int8_t>p[0] if s.is_signed else <int64_t>p[0]


cdef inline bint source_bit(const SourceCol* s, int64_t row) noexcept nogil:
    """A boolean that is there."""
    cdef int64_t i = s.begin + row
    return s.data[i >> 3] >> (i & 7) & 1


cdef inline bint source_flag(const SourceCol* s, int64_t row) noexcept nogil:
    """A boolean; False if it is null."""
    return source_has(s, row) and source_bit(s, row)


cdef inline int source_range(Problem* x, const SourceCol* s, int64_t row, int64_t* begin, int64_t* end) noexcept nogil:
    """Where a string, a binary or a list that is there begins and ends. -1: refused."""
    cdef int64_t i = s.begin + row
    if s.form == SOURCE_NARROW:
        begin[0] = source_i32(s.offsets + 4 * i)
        end[0] = source_i32(s.offsets + 4 * i + 4)
    elif s.form == SOURCE_WIDE:
        memcpy(begin, s.offsets + 8 * i, 8)
        memcpy(end, s.offsets + 8 * i + 8, 8)
    else:
        begin[0] = i * s.width
        end[0] = begin[0] + s.width
    if 0 <= begin[0] <= end[0] <= s.top:
        return 0
    return refuse(x, REFUSED_OFFSETS, s)


cdef int source_view(Problem* x, const SourceCol* s, int64_t row, const uint8_t** at, int64_t* size) noexcept nogil

cdef inline int source_octets(Problem* x, const SourceCol* s, int64_t row, const uint8_t** at, int64_t* size) noexcept nogil:
    """A string or binary that is there. -1: refused."""
    cdef int64_t begin = 0, end = 0
    if s.form == SOURCE_VIEW:
        return source_view(x, s, row, at, size)
    if source_range(x, s, row, &begin, &end):
        return -1
    at[0] = s.data + begin if end > begin else <const uint8_t*>b""
    size[0] = end - begin
    return 0


cdef inline int source_span(Problem* x, const SourceCol* s, int64_t row, int64_t most, Span* out) noexcept nogil:
    """A string or binary of at most `most` octets; absent if it is null. -1: refused."""
    cdef int64_t size = 0
    out.at = NULL
    out.size = 0
    if not source_has(s, row):
        return 0
    if source_octets(x, s, row, &out.at, &size):
        return -1
    if size > most:
        return refuse_size(x, s, size, most)
    out.size = <uint32_t>size
    return 0


cdef inline int source_needed_span(Problem* x, const SourceCol* s, int64_t row, int64_t most, Span* out) noexcept nogil:
    """source_span of a value that is to be there."""
    if source_span(x, s, row, most, out):
        return -1
    return 0 if out.at != NULL else refuse(x, REFUSED_NULL, s)


cdef inline int source_number(Problem* x, const SourceCol* s, int64_t row, int64_t low, int64_t high,
                              int64_t* v) noexcept nogil:
    """An integer of `low` to `high`; null leaves `v` unchanged. -1: refused."""
    if not source_has(s, row):
        return 0
    v[0] = source_integer(s, row)
    return 0 if low <= v[0] <= high else refuse_range(x, s, v[0], low, high)


cdef inline int source_needed_number(Problem* x, const SourceCol* s, int64_t row, int64_t low, int64_t high,
                                     int64_t* v) noexcept nogil:
    """source_number of a value that is to be there."""
    if not source_has(s, row):
        return refuse(x, REFUSED_NULL, s)
    return source_number(x, s, row, low, high, v)


cdef inline bint add_json_string(Octets* o, const Span* text) noexcept nogil:
    """A string of JSON (RFC 8259, 7). False: ill-formed UTF-8."""
    cdef uint32_t i, begin = 0
    cdef size_t bad = 0
    cdef uint8_t c
    if not is_utf8(text.at, text.size, &bad):
        return False
    add_u8(o, c"\"")
    for i in range(text.size):
        c = text.at[i]
        if c >= 0x20 and c != c"\"" and c != c"\\":
            continue
        add_octets(o, text.at + begin, i - begin)
        begin = i + 1
        add_u8(o, c"\\")
        if c >= 0x20:
            add_u8(o, c)
        elif c == 0x08 or c == 0x09 or c == 0x0A or c == 0x0C or c == 0x0D:
            add_u8(o, c"b" if c == 0x08 else c"t" if c == 0x09 else c"n" if c == 0x0A else c"f" if c == 0x0C else c"r")
        else:
            add_octets(o, b"u00", 3)
            add_u8(o, c"0" + (c >> 4))
            add_u8(o, b"0123456789abcdef"[c & 15])
    add_octets(o, text.at + begin, text.size - begin)
    add_u8(o, c"\"")
    return True


cdef inline int source_name(Problem* x, const SourceCol* s, int64_t row, const Text* names, int count, int* which) noexcept nogil:
    """Which of the names a string that has to be there is. `which` is the one of the row before: most often the same. -1:
    refused."""
    cdef Span v
    cdef int i
    if source_needed_span(x, s, row, 0xFFFF, &v):
        return -1
    if v.size and names[which[0]].size == v.size and same_octets(names[which[0]].at, v.at, v.size):
        return 0
    for i in range(count):
        if names[i].size and names[i].size == v.size and same_octets(names[i].at, v.at, v.size):
            which[0] = i
            return 0
    return refuse_text(x, s, "no name of a kind")


cdef class BatchEncoder:
    cdef SourceCol* cols           # one for each row of the table of columns
    cdef int n
    cdef list fields, paths
    cdef const ProtocolTables* tables
    cdef Problem problem
    cdef int64_t first_row      # rows of arrays before this one
    cdef PyObject* block        # the output: bytes of `room`, filled up to `size`
    cdef uint8_t* at
    cdef size_t size, room
    cdef Octets scratch         # for a frame whose size is not known beforehand
    cdef int prepare(self, SourceCol* s, Field field, str above) except -1
    cdef bytes encode(self, data)
    cdef uint8_t* grow(self, size_t n) noexcept nogil
    cdef bytes result(self)
    cdef void begin(self) noexcept nogil
    cdef int put_rows(self, int64_t rows) noexcept nogil
    cdef int raise_problem(self) except -1

    cdef inline uint8_t* need(self, size_t n) noexcept nogil:
        """Room for `n` octets more; where they begin. NULL: out of memory."""
        return self.at + self.size if n <= self.room - self.size and self.at != NULL else self.grow(n)


# ---- table

# GENERATED from wirefmt/spec/columns.py
include "_core/table_columns.pxi"

cdef enum RowStatus:
    ROW_OK = 0
    ROW_PARTIAL = 1             # the stream or the capture ended inside the message
    ROW_GAP = 2                 # octets that were not captured, or that no frame could be found in
    ROW_MALFORMED = 3


cdef struct MessageContext:     # what the capture knows about a message, apart from its octets
    int64_t ts_ns, ts_first_ns, frame_no, byte_offset, flow_id, wire_size
    int8_t direction            # 0 client to server
    uint16_t src_port, dst_port
    Text src_ip, dst_ip         # written out; size 0: not known
    Text capture


cdef enum:
    MAX_MESSAGE = 16 << 20      # default limit of a message, in octets


cdef struct TableOptions:
    uint8_t payload             # 0: payload column stays null; payload_size is filled
    uint8_t raw, detail         # 0: that column stays null
    int64_t payload_max         # octets of a payload that are kept; -1: all
    uint64_t max_message        # octets of a payload that is put together from several frames


cdef Text[4] STATUS_TEXT
cdef const char* HIDDEN_OCTETS
cdef inline int64_t floor_us(int64_t ns) noexcept nogil:
    return ns // 1000 if ns >= 0 or ns % 1000 == 0 else ns // 1000 - 1      # C's division: towards zero


cdef class MessageTable(ColumnSet):
    cdef int64_t rows
    cdef int64_t all_rows                       # since the table was made
    cdef int64_t[4] status_rows                 # ... of each RowStatus
    cdef int64_t batch_rows, batch_bytes        # a batch with one of them is full
    cdef TableOptions options

    cdef inline bint is_full(self) noexcept nogil:
        """Take the rows before any more are put."""
        return self.rows >= self.batch_rows or self.tally.octets >= self.batch_bytes

    cdef Batch take(self)

    cdef inline int64_t next_row(self) noexcept nogil:
        """A row of which nothing is known."""
        cdef int64_t row = self.rows
        self.rows += 1
        self.all_rows += 1
        return row

    cdef inline int64_t begin_row(self, const MessageContext* m) noexcept nogil:
        """Write what the capture knows; answers the row for the rest."""
        cdef Col* c = self.cols
        cdef int64_t row = self.next_row()
        put_i64(c + T_TS, row, floor_us(m.ts_ns))
        put_i64(c + T_TS_NS, row, m.ts_ns)
        put_i64(c + T_TS_FIRST, row, floor_us(m.ts_first_ns))
        put_text(c + T_CAPTURE, row, &m.capture)
        put_i64(c + T_FRAME_NO, row, m.frame_no)
        put_i64(c + T_BYTE_OFFSET, row, m.byte_offset)
        put_i64(c + T_WIRE_SIZE, row, m.wire_size)
        if m.src_ip.size:
            put_i64(c + T_FLOW_ID, row, m.flow_id)
            put_i8(c + T_DIRECTION, row, m.direction)
            put_text(c + T_SRC_IP, row, &m.src_ip)
            put_i32(c + T_SRC_PORT, row, m.src_port)
            put_text(c + T_DST_IP, row, &m.dst_ip)
            put_i32(c + T_DST_PORT, row, m.dst_port)
        return row

    cdef inline void put_status(self, int64_t row, int status, const char* error, int64_t size) noexcept nogil:
        """`error`, of `size` octets: why; NULL where there is nothing to say. Once for every row."""
        self.status_rows[status] += 1
        put_text(self.cols + T_STATUS, row, &STATUS_TEXT[status])
        if error != NULL:
            put_octets(self.cols + T_ERROR, row, <const uint8_t*>error, size)

    cdef inline bint hides_octets(self) noexcept nogil:
        """Are the octets of messages wanted, but not of those that hold a secret?"""
        return self.options.raw and not self.tally.exposed

    cdef inline void put_message(self, int64_t row, const uint8_t* p, size_t n) noexcept nogil:
        """The octets of a message that is whole and well-formed."""
        if self.options.raw:
            put_octets(self.cols + T_RAW, row, p, <int64_t>n)

    cdef inline void put_payload(self, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
        put_i64(self.cols + T_PAYLOAD_SIZE, row, n)
        if self.options.payload:
            put_octets(self.cols + T_PAYLOAD, row, p,
                       n if self.options.payload_max < 0 else min(n, self.options.payload_max))


# ---- detail

cdef enum:
    LINE_MAX = 200                  # octets
    LINE_CUT = 197                  # ... before the ellipsis of a line that is cut
    LINE_VALUE = 100                # octets of a value that is a name; explanatory texts may fill the line
    LINE_HEX = 16                   # octets of a binary value that are written
    DETAIL_FIELDS = 2048            # of all kinds of messages


cdef struct DetailLine:
    int size
    int safe                        # where it may be cut: at most LINE_CUT, not inside a character or an escape
    bint cut
    uint8_t[LINE_MAX] at


cdef struct DetailField:
    Text label                      # with its `=`; size 0: the value stands without one
    int16_t what                    # which field, in the protocol's numbers
    uint8_t some                    # it is left out where it is zero or empty
    uint8_t both                    # a flag that is written where it is false, too


cdef struct DetailForm:             # the fields of one kind of message, rows of DETAIL_FIELD
    int first, count


cdef DetailField[DETAIL_FIELDS] DETAIL_FIELD
cdef int detail_form(str words, dict fields, DetailForm* form) except -1
cdef inline void line_begin(DetailLine* l) noexcept nogil:
    l.size = l.safe = 0
    l.cut = False


cdef inline void line_piece(DetailLine* l, const void* p, int n) noexcept nogil:
    """Octets that stay together: a character, an escape."""
    if l.cut:
        return
    if n > LINE_MAX - l.size:
        memcpy(l.at + l.safe, b"\xe2\x80\xa6", 3)
        l.size = l.safe + 3
        l.cut = True
        return
    memcpy(l.at + l.size, p, <size_t>n)
    l.size += n
    if l.size <= LINE_CUT:
        l.safe = l.size


cdef inline void line_ascii(DetailLine* l, const uint8_t* p, int64_t n) noexcept nogil:
    """Octets that are ASCII and need no escape: our own words."""
    cdef int64_t i
    if not l.cut and n <= LINE_CUT - l.size:
        memcpy(l.at + l.size, p, <size_t>n)
        l.size += <int>n
        l.safe = l.size
        return
    for i in range(n):
        line_piece(l, p + i, 1)


cdef inline void line_words(DetailLine* l, const char* text) noexcept nogil:
    line_ascii(l, <const uint8_t*>text, <int64_t>strlen(text))


cdef inline void line_space(DetailLine* l) noexcept nogil:
    """Between two fields."""
    if l.size:
        line_piece(l, b" ", 1)


cdef void line_field(DetailLine* l, const DetailField* f) noexcept nogil
cdef void line_number(DetailLine* l, const DetailField* f, bint negative, uint64_t v) noexcept nogil
cdef void line_digits(DetailLine* l, bint negative, uint64_t v) noexcept nogil
cdef inline void line_signed(DetailLine* l, const DetailField* f, int64_t v) noexcept nogil:
    line_number(l, f, v < 0, <uint64_t>0 - <uint64_t>v if v < 0 else <uint64_t>v)


cdef void line_flag(DetailLine* l, const DetailField* f, bint set_) noexcept nogil
cdef void line_name(DetailLine* l, const DetailField* f, const Text* name) noexcept nogil
cdef inline void line_text(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil:
    """A field that is a name, as far as LINE_VALUE octets. Absent: it is left out."""
    line_value(l, f, s, LINE_VALUE)


cdef inline void line_prose(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil:
    """A field with explanatory text, as much of it as fits the line."""
    line_value(l, f, s, LINE_MAX)


cdef void line_value(DetailLine* l, const DetailField* f, const Span* s, int most) noexcept nogil
cdef void line_string(DetailLine* l, const Span* s, int most) noexcept nogil
cdef void line_binary(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil
cdef void line_octets(DetailLine* l, const Span* s) noexcept nogil
cdef inline Span span_of(const uint8_t* at, size_t size) noexcept nogil:
    cdef Span s
    s.at = at
    s.size = <uint32_t>min(size, <size_t>0xFFFFFFFF)
    return s


cdef inline void put_line(MessageTable t, int64_t row, const DetailLine* l) noexcept nogil:
    """The row's `detail`; null where there is nothing to say."""
    if l.size:
        put_octets(t.cols + T_DETAIL, row, l.at, l.size)


# ---- protocol

cdef enum Verdict:
    NO = 0
    YES = 1
    MORE = 2                    # not decided by the octets there are
    SERVERS = 3                 # sniff: yes, and these are a server's


cdef enum Carrier:              # what the octets of a stream lie in
    CARRIER_PLAIN = 0
    CARRIER_DEFLATE             # RFC 1951, one stream a direction
    CARRIER_SNAPPY              # the framing format
    CARRIER_TLS                 # not decoded


cdef struct ProtocolState:      # what every protocol's state begins with
    int64_t held                # octets of memory that the state has allocated, its own included: counted in max_buffered


cdef struct Protocol:           # `state` is one connection's; direction: 0 client to server
    Text name
    Text subprotocol            # Sec-WebSocket-Protocol; size 0: not carried by WebSockets
    bint both_open              # a server's first octets may be those of a client
    # do a client's first octets open a connection? SERVERS: a server's do
    int (*sniff)(const uint8_t* p, size_t n) noexcept nogil
    # a Status; NEED_DATA until the size of the frame can be told, `size` may then be how many octets that takes.
    # `limit`: octets of a frame; 0: the usual
    int (*frame_size)(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                      Fault* f) noexcept nogil
    # could a frame begin here? YES: a whole, valid one of `size` octets; MORE: once `size` octets are there.
    # `state` may be NULL: nothing is known of the connection
    int (*plausible)(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil
    # called for every whole frame found after a gap, before any of them becomes a row: infer the state of the connection.
    # NULL: frames stand alone
    void (*learn)(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil
    # put, put_part and flush answer False where the table became full before their last row. Then they are called again
    # with the same arguments once the batch has been taken, and continue; nothing else of the connection happens between.
    # Whatever puts more than a few rows stops so. A protocol with a `carrier` never does.
    #
    # the rows that exactly one whole frame completes: none (it is part of a message that goes on), one or several. A
    # message of several frames has `ts_first_ns` and `byte_offset` of the first, the rest of the last, and the sum of
    # the sizes; what a protocol keeps for it is bounded
    bint (*put)(MessageTable t, const MessageContext* m, void* state, bint strict, const uint8_t* p, size_t n) noexcept nogil
    # a row for a frame of which only the first `n` octets are there; `text` says why. NULL: a row without fields
    bint (*put_part)(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                     const char* text, size_t text_size) noexcept nogil
    # a hole, or the end: `partial` rows for what this direction has begun; NULL: every frame is a message
    bint (*flush)(MessageTable t, void* state, int direction, const char* text, size_t text_size) noexcept nogil
    # what carries both directions from here on, as the frames that were put have agreed; NULL: always CARRIER_PLAIN
    int (*carrier)(void* state) noexcept nogil
    size_t state_size                       # octets of the state of one connection, which begins with a ProtocolState
    void (*clear)(void* state) noexcept nogil       # free what the state holds; NULL: nothing
    const ProtocolTables* tables            # of the faults of frame_size()


cdef object protocol_capsule(const Protocol* row)
cdef const Protocol* protocol_row(object capsule) except NULL
cdef void* open_state(const Protocol* protocol) noexcept nogil
cdef void close_state(const Protocol* protocol, void* state) noexcept nogil


# ---- connection

cdef enum:
    KEEP_FROM = 2048            # octets: buffers of so many are queued by reference, smaller ones are copied together
    OUTBOX_KEPT = 1 << 16       # octets of memory that an outbox keeps when it is emptied


cdef class Outbox:
    cdef readonly int64_t position, taken
    cdef list buffers
    cdef uint8_t* at            # small buffers that follow the last of `buffers`
    cdef size_t size, room
    cdef int put_block(self, bytes block) except -1
    cdef bytes take_tail(self)
    cdef int close_tail(self) except -1
    cdef int enlarge(self, size_t n) except -1

    cdef inline uint8_t* grow(self, size_t n) except NULL:
        """`n` octets more, fewer than KEEP_FROM; where to write them."""
        if n > self.room - self.size:
            self.enlarge(n)
        self.size += n
        self.position += <int64_t>n
        return self.at + self.size - n


cdef class Identifiers:
    cdef uint32_t last, following
    cdef set used
    cpdef object take(self)
    cpdef release(self, identifier)


cdef class Window:
    cdef public int64_t limit, used
    cpdef bint take(self, int64_t count=?) except -1
    cpdef bint give(self, int64_t count=?) except -1


# ---- seal

cdef int seal(dict space, str package=*, tuple inner=*, tuple bases=*) except -1
