# Header of the kernel: faults, values, and what message objects, Decoders and connections share.

# ---- clearing memory

cdef extern from *:
    """
    /* For a constant size of a few hundred octets the compiler writes `rep stos` in place of memset, which takes longer to start
       than a call takes. Cython clears every new object with memset. Without this, objects of AMQP 1.0 take 1.2 times as long,
       and constructors of MQTT 1.07. */
    static inline void wirefmt_clear(void *p, size_t n) {
        __asm__("" : "+r"(n));
        memset(p, 0, n);
    }
    #undef memset
    #define memset(p, c, n) \\
        (__builtin_constant_p(n) && (n) > 128 && (c) == 0 ? (wirefmt_clear(p, n), (void *)(p)) : memset(p, c, n))
    """


# ---- faults

ctypedef const char* CText


cdef struct ProtocolTables:     # a protocol's checks and fields, as C strings that are never freed
    const char* name
    const CText* names                                      # by check
    const CText* text                                       # by check: what is wrong
    const CText* path                                       # by field: `subscriptions[].topic_filter`
    const CText* spec                                       # by check: statement or section
    const char* (*spec_of)(const Fault* f) noexcept nogil   # NULL: `spec` says it
    int (*reply_to)(const Fault* f) noexcept nogil          # the receiver's answer; -1, or NULL: no answer
    const CText* replies                                    # texts of the answers; NULL: the answer is the number


cdef tuple FAULT_CLASSES
cdef inline const char* spec_of(const ProtocolTables* t, const Fault* f) noexcept nogil:
    """The statement or section of the specification that a fault violates."""
    return t.spec[f.check] if t.spec_of == NULL else t.spec_of(f)


cdef int fault_text(const ProtocolTables* t, const Fault* f, int64_t base_offset, char* out,
                    size_t capacity) noexcept nogil
cdef int note_text(const ProtocolTables* t, const Notes* notes, int64_t base_offset, char* out, size_t capacity) noexcept nogil
cdef int violation(const CommonOptions* o, Notes* notes, Fault* f, int status, bint lax, int check, int field, int index,
                   int64_t offset) noexcept nogil
cdef object make_fault(const ProtocolTables* t, const Fault* f, int64_t base_offset)
cdef int raise_fault(const ProtocolTables* t, const Fault* f, int64_t base_offset) except -1
cdef object size_found(const ProtocolTables* t, int status, size_t size, const Fault* f)
cdef object encode_error(const ProtocolTables* t, const Fault* f)


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
    /* The octets of an exact str that is ASCII; NULL for any other object. */
    static inline const uint8_t *wirefmt_ascii_octets(PyObject *text, Py_ssize_t *size) {
        if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text))
            return NULL;
        *size = PyUnicode_GET_LENGTH(text);
        return (const uint8_t *)PyUnicode_DATA(text);
    }
    """
    const uint8_t* ascii_octets "wirefmt_ascii_octets"(PyObject* text, Py_ssize_t* size) noexcept


cdef const uint8_t* any_utf8_view(object text, Py_ssize_t* size, str field) except NULL
cdef inline const uint8_t* utf8_view(object text, Py_ssize_t* size, str field) except NULL:
    """The UTF-8 form of a str, which lives as long as the str. Raises TypeError if `text` is not a str, EncodeError if it has
    surrogates."""
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, size)
    return p if p != NULL else any_utf8_view(text, size, field)


cdef int refuse_size16(Py_ssize_t size, str field) except -1
cdef inline int check_size16(Py_ssize_t size, str field) except -1:
    return refuse_size16(size, field) if size > 65535 else 0


cdef inline bytes new_octets(size_t size):
    """New bytes, which the caller fills before other code sees them."""
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)


cdef enum:
    WRITER_START = 248


@cython.final
cdef class Writer:
    cdef Octets out
    cdef uint8_t start[WRITER_START]
    cdef int enlarge(self, size_t n) except -1

    cdef inline uint8_t* grow(self, size_t n) except NULL:
        """Append `n` octets. Returns where to write them."""
        if n > self.out.capacity - self.out.size:
            self.enlarge(n)
        self.out.size += n
        return self.out.at + self.out.size - n

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
cdef extern from *:
    """
    /* An exact int that CPython keeps in one digit (30 bits); -1: any other object, or a negative int. */
    static inline int64_t wirefmt_small_int(PyObject *value) {
        if (!PyLong_CheckExact(value)) return -1;
    #if PY_VERSION_HEX >= 0x030C0000
        if (!PyUnstable_Long_IsCompact((PyLongObject *)value)) return -1;
        return PyUnstable_Long_CompactValue((PyLongObject *)value);
    #else
        if (Py_SIZE(value) == 1) return ((PyLongObject *)value)->ob_digit[0];
        return Py_SIZE(value) == 0 ? 0 : -1;
    #endif
    }
    """
    int64_t small_int "wirefmt_small_int"(PyObject* value) noexcept


cdef int64_t any_whole_number(object value, int64_t top, str field) except -1
cdef inline int64_t whole_number(object value, int64_t top, str field) except -1:
    """An int of 0 to `top`, or an object with __index__ (NumPy's integers)."""
    cdef int64_t small = small_int(<PyObject*>value)
    return small if 0 <= small <= top else any_whole_number(value, top, field)


# ---- secrets

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
cdef str SECRET_SHOWN
cdef bytes SECRET_SHOWN_OCTETS
cdef object hidden(object value)
cdef object shown_entry(object name, object value)


# ---- buffers

cdef enum:
    INPUT_HEAD = 16             # bytes that input_head copies: more than the size of any frame depends on


@cython.final
cdef class Input:
    cdef bytes held
    cdef const uint8_t* at
    cdef Py_ssize_t size

cdef Input take_input(object data)
cdef size_t input_head(object data, uint8_t* scratch) except? 0
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
    SHARED_OCTETS = 50          # longer values are not kept


cdef struct SharedSlot:
    PyObject* value             # owned; NULL: free
    uint16_t sought, missed     # tags: of the last value that was looked up here, and of the last that share() got
    uint8_t kind, size
    uint8_t octets[SHARED_OCTETS]


cdef SharedSlot[SHARED_SLOTS] SHARED_VALUES
cdef inline SharedSlot* shared_slot(int kind, const uint8_t* p, size_t size) noexcept nogil:
    """The slot of a value of `size` octets (at most SHARED_OCTETS); `kind` separates values of different meaning."""
    cdef uint64_t hash = hash_octets(HASH_KEY[1] ^ (<uint64_t>kind << 8 | size), p, size)
    cdef SharedSlot* slot = &SHARED_VALUES[hash >> 54]
    slot.sought = <uint16_t>(hash >> 38)
    return slot


cdef inline bint is_held(const SharedSlot* slot, int kind, const uint8_t* p, size_t size) noexcept nogil:
    return slot.value != NULL and slot.size == size and slot.kind == kind and same_octets(slot.octets, p, size)


cdef void share(SharedSlot* slot, int kind, const uint8_t* p, size_t size, object value) noexcept
cdef enum:
    RECENT_OCTETS = 48
    RECENT_MISSES = 32
    RECENT_PLACES = 16          # of the entries of a map, in a table; a power of two


cdef struct Recent:             # a value that was read at one place of a message: the next message often has the same there
    PyObject* value             # owned; NULL: none
    uint8_t size, misses        # misses: values in turn that differed
    uint8_t secret              # of a name: the values under it are secret; of a field: it is secret, and no value is kept
    uint8_t octets[RECENT_OCTETS]


cdef inline bint is_recent(Recent* r, const uint8_t* p, size_t size) noexcept nogil:
    """Is the value that of these octets, at least one?"""
    if r.size == size and same_octets(r.octets, p, size):
        r.misses = 0
        return True
    return False


cdef inline bint will_keep_recent(Recent* r, size_t size) noexcept nogil:
    """Should the caller keep another value, with octets of this size? Called after each is_recent() that was False."""
    if not WIREFMT_SHARES_VALUES or size > RECENT_OCTETS:
        return False
    r.misses += 1
    return r.value == NULL or r.misses >= RECENT_MISSES


cdef void keep_recent(Recent* r, const uint8_t* p, size_t size, object value) noexcept
cdef inline str text_of(const uint8_t* p, uint32_t size):
    """A str of valid UTF-8. Most texts are short ASCII, which is copied."""
    if not is_ascii(p, size):
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    return ascii_text(p, size)


cdef inline str ascii_text(const uint8_t* p, uint32_t size):
    """A str of ASCII."""
    cdef object text
    if size < 2:                            # Python shares these
        return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    text = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(text), p, size)
    return <str>text


cdef inline bytes octets_of(const uint8_t* p, uint32_t size):
    return PyBytes_FromStringAndSize(<const char*>p, size)


cdef extern from *:
    """
    /* Put (name, value) in the pair that an iterator made last, if nobody else has it, as zip() does. Returns 0: somebody has. */
    static inline int wirefmt_refill_pair(PyObject *pair, PyObject *name, PyObject *value) {
    #ifndef Py_GIL_DISABLED
        if (pair != NULL && Py_REFCNT(pair) == 1) {
            PyObject *last_name = PyTuple_GET_ITEM(pair, 0), *last_value = PyTuple_GET_ITEM(pair, 1);
            PyTuple_SET_ITEM(pair, 0, Py_NewRef(name));
            PyTuple_SET_ITEM(pair, 1, Py_NewRef(value));
            Py_DECREF(last_name);
            Py_DECREF(last_value);
    #if PY_VERSION_HEX >= 0x030E0000
            ((PyTupleObject *)pair)->ob_hash = -1;          /* a tuple keeps its hash from 3.14 on */
    #endif
            return 1;
        }
    #endif
        return 0;
    }
    """
    bint refill_pair "wirefmt_refill_pair"(PyObject* pair, PyObject* name, PyObject* value) noexcept


cdef inline tuple next_pair(PyObject* last, object name, object value):
    """The pair that an iterator makes after `last` (NULL or None: it is the first): the same object, if only the iterator has it.
    It cannot be part of a cycle, so it is untracked."""
    cdef tuple pair
    if refill_pair(last, <PyObject*>name, <PyObject*>value):
        return <tuple>last
    pair = (name, value)
    PyObject_GC_UnTrack(<void*>pair)
    return pair


cdef enum:
    SHARED_TEXT = 0             # the kind of text; protocols define the other kinds


cdef inline str shared_text(const uint8_t* p, uint32_t size):
    """text_of for text that streams repeat: short text is one object for many messages."""
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


cdef int add_member(object cls, PyMemberDef* member, const char* name, size_t offset) except -1
cdef size_t place_in(object owner, object value) except 0


cdef struct Factory:
    PyObject* cls               # never freed
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


cdef enum:
    KEYWORDS_MOST = 64          # of one class
cdef struct KeywordOrder:       # of the last call of a class with keywords
    PyObject* names             # a place in a program passes the same tuple at each call; NULL: there was no call
    uint8_t place[KEYWORDS_MOST]        # of each of the names


cdef extern from *:
    """
    /* Without a GIL another thread may read the places meanwhile, so nothing is kept then. */
    static inline int wirefmt_keep_names(PyObject **kept, PyObject *names) {
    #ifdef Py_GIL_DISABLED
        return 0;
    #else
        PyObject *before = *kept;
        Py_INCREF(names);
        *kept = names;
        Py_XDECREF(before);
        return 1;
    #endif
    }
    """
    bint keep_names "wirefmt_keep_names"(PyObject** kept, PyObject* names) noexcept


cdef inline bint take_keywords(PyObject** args, size_t nargsf, PyObject* kwnames, PyObject** names, int count,
                               KeywordOrder* last, PyObject** values) noexcept:
    """Read the values of keywords from the caller's stack. `values`, which the caller has filled with defaults, gets those
    that are given, each at the place of its name. False: there are positional arguments or other names, which construct_slowly
    handles."""
    cdef Py_ssize_t i, given
    cdef int k, tried, at = 0
    cdef uint8_t place[KEYWORDS_MOST]
    if PyVectorcall_NARGS(nargsf):
        return False
    if kwnames == NULL:
        return True
    given = length_of(kwnames)
    if kwnames == last.names:
        for i in range(given):
            values[last.place[i]] = args[i]
        return True
    if given > min(count, <int>KEYWORDS_MOST):
        return False
    for i in range(given):
        for tried in range(count):              # most callers keep the order of the names
            k = at
            at = at + 1 if at + 1 < count else 0
            if names[k] == borrowed_item(kwnames, i):
                values[k] = args[i]
                place[i] = <uint8_t>k
                break
        else:
            return False
    if keep_names(&last.names, kwnames):
        memcpy(last.place, place, <size_t>given)
    return True


cdef object construct_slowly(object cls, PyObject** args, size_t nargsf, PyObject* kwnames)
cdef object STRICT_MODE
cdef bint is_strict(object strictness) except? -1
cdef uint32_t DEFAULT_FRAME_SIZE
cdef uint32_t DEFAULT_ELEMENTS


cdef inline int take_common_options(CommonOptions* o, object side, object strictness, object limits) except -1:
    """Options that every decode() and Decoder has, as C. `side`: "client", "server", or None if it is unknown; `limits`: a
    Limits, or None for the default limits."""
    if side is not None and side != "client" and side != "server":
        raise ValueError(f"side must be 'client', 'server' or None, not {side!r}")
    o.side = -1 if side is None else side == "server"
    o.strict = is_strict(strictness)
    o.max_frame_size = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    o.max_elements = DEFAULT_ELEMENTS if limits is None else limits.elements
    return 0


cdef enum:
    NOTES_SHOWN = 64            # violations of one message that its `notes` lists


cdef struct MessageOps:         # how the kernel handles the messages of a protocol
    const ProtocolTables* tables
    # Parse one whole message only for its violations. `f` gets the kind and version that their `spec` depends on.
    void (*review)(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil
    # Parse one whole message in `block` and make its object. None: `f` has the fault.
    object (*read)(bytes block, const uint8_t* p, size_t n, const CommonOptions* o, Fault* f)


cdef tuple notes_of(const MessageOps* ops, const Violation* found, int count, const Fault* f)
cdef tuple message_notes(const MessageOps* ops, const uint8_t* p, size_t n, CommonOptions* o)
cdef object read_message(const MessageOps* ops, bytes block, const CommonOptions* o)


cdef inline bytes message_octets(bytes block, const uint8_t* p, uint32_t size):
    """The bytes of a message that lies in `block`: the block itself if it has nothing else."""
    return block if size == PyBytes_GET_SIZE(block) else PyBytes_FromStringAndSize(<const char*>p, size)


# ---- framer

cdef object NO_MESSAGE      # decode_frame: the frame was taken, but its message is not complete

cdef class FrameDecoder:
    cdef const ProtocolTables* tables
    cdef uint8_t* kept          # an incomplete frame
    cdef size_t kept_size, kept_capacity
    cdef size_t frame_octets    # of that frame; 0: not yet known
    cdef int64_t begin          # octets of the stream before it
    cdef bytes unread_block     # has the bytes that a feed() with a count left unread; None: no bytes are unread
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


# ---- connection

cdef enum:
    KEEP_FROM = 2048            # octets: a buffer of this size is queued by reference, smaller ones are copied
    OUTBOX_KEPT = 1 << 16       # octets of memory that an empty outbox keeps


cdef class Outbox:
    cdef readonly int64_t position, taken
    cdef list buffers
    cdef uint8_t* at            # small buffers that follow the last of `buffers`
    cdef size_t size, capacity
    cdef int put_block(self, bytes block) except -1
    cdef bytes take_tail(self)
    cdef int close_tail(self) except -1
    cdef int enlarge(self, size_t n) except -1

    cdef inline uint8_t* grow(self, size_t n) except NULL:
        """Append `n` octets, fewer than KEEP_FROM. Returns where to write them."""
        if n > self.capacity - self.size:
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


cdef class EndpointFlows:
    cdef readonly Outbox _outbox
    cdef public bint _reading, _over, _paused, _turn_over, _eof
    cdef public bytes _trailing
    cdef public object _decoder
    cdef int gather(self) except -1
    cdef int64_t gathered(self) except -1


# ---- constructors

cdef int finish_module(dict space, str package=*, tuple inner=*, tuple bases=*) except -1
