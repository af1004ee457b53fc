# Header of the kernel: columns while they are filled.

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
    /* The same where up to 16 octets after the end may be read and written */
    static inline void wirefmt_copy_ahead(unsigned char *to, const unsigned char *from, size_t n) {
        memcpy(to, from, 16);
        if (n > 16) {
            if (n > 48) memcpy(to + 16, from + 16, n - 16);
            else { memcpy(to + 16, from + 16, 16); if (n > 32) memcpy(to + 32, from + 32, 16); }
        }
    }
    """
    void copy_octets "wirefmt_copy"(uint8_t* to, const uint8_t* at, size_t n) noexcept nogil
    void copy_ahead "wirefmt_copy_ahead"(uint8_t* to, const uint8_t* at, size_t n) noexcept nogil


cdef enum ColumnKind:
    KIND_BOOL = 0
    KIND_FIXED = 1              # `width` octets
    KIND_OCTETS = 2             # string, binary
    KIND_LIST = 3               # list, map
    KIND_STRUCT = 4

cdef enum:
    FIRST_CAPACITY = 1024           # rows
    FIRST_OCTETS = 16384
    SHORT_OCTETS = 32           # copy_octets copies them without a call
    AHEAD_OCTETS = 16           # copy_ahead reads and writes so many after the end
    AHEAD_MOST = 48             # octets that copy_ahead copies without a call
    SHORT_GAP = 8               # nulls between two values whose offsets at_row writes
    OFFSET_MAX = 0x7FFFFFFF     # 32-bit offsets: octets (or children) of one column of a batch
    ELEMENT_OCTETS = 8          # counted for an element of a list besides its octets, because an empty one takes memory, too


cdef struct ColumnsShared:      # by the columns of a set
    bint exposed                # secrets are shown (secrets.pxi)
    bint no_memory
    bint full                   # a column would exceed OFFSET_MAX: the value is null
    int64_t octets              # of strings, binaries and list elements so far; they limit a batch
    int64_t read, whole         # octets of the input, if it is known as a whole: so far, and all. 0: not known


cdef struct Col:
    uint8_t kind, on, width
    int64_t rows                # filled, nulls included
    int64_t capacity                # rows that may be filled
    uint8_t* validity           # bits; NULL until the first null
    uint8_t* data               # values, bits, or octets
    int64_t used, size          # octets in `data`, for KIND_OCTETS
    int32_t* offsets            # kept + SHORT_GAP, for KIND_OCTETS and KIND_LIST
    ColumnsShared* shared
    Col* children
    int children_count
    # members that few puts need
    int64_t nulls               # of a finished column
    int64_t kept                # rows with memory; `capacity` of a column with nulls follows in steps (grow_rows)
    int64_t first_capacity          # rows and octets to begin with: those of the previous batch
    int64_t first_size
    uint16_t* numbers           # of texts, while a column of strings has no others (put_text); 0: null
    int64_t numbers_kept        # rows with memory for one. Such a column has no other memory; `used` are the octets of its texts


cdef inline void set_bit(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] |= <uint8_t>(1 << (i & 7))


cdef bint reach_row(Col* c, int64_t row) noexcept nogil
cdef inline bint at_row(Col* c, int64_t row) noexcept nogil:
    """Make `row` of a column with offsets the next row to fill. False: the column is off, or out of memory. In a capture of
    several protocols the columns of each have nulls before nearly every row."""
    cdef int32_t* at
    if row < c.rows or row >= c.capacity or row - c.rows > (0 if c.validity == NULL else SHORT_GAP):
        return c.on and reach_row(c, row)       # a column that is off has no space
    if c.validity != NULL:
        at = c.offsets + c.rows                 # of the nulls; later puts overwrite the surplus, for which there is memory
        at[1] = at[2] = at[3] = at[4] = at[5] = at[6] = at[7] = at[8] = at[0]
        set_bit(c.validity, row)
    c.rows = row + 1
    return True


cdef inline bint at_value(Col* c, int64_t row) noexcept nogil:
    """at_row of a column without offsets: nothing is written for the nulls before the row, which are counted at the end."""
    if c.validity == NULL:
        if row != c.rows or row >= c.capacity:
            return c.on and reach_row(c, row)
    elif row < c.rows or row >= c.capacity:
        return reach_row(c, row)
    else:
        set_bit(c.validity, row)
    c.rows = row + 1
    return True


cdef inline void put_i64(Col* c, int64_t row, int64_t v) noexcept nogil:
    if at_value(c, row):
        (<int64_t*>c.data)[row] = v


cdef inline void put_i32(Col* c, int64_t row, int32_t v) noexcept nogil:
    if at_value(c, row):
        (<int32_t*>c.data)[row] = v


cdef inline void put_i16(Col* c, int64_t row, int16_t v) noexcept nogil:
    if at_value(c, row):
        (<int16_t*>c.data)[row] = v


cdef inline void put_i8(Col* c, int64_t row, int8_t v) noexcept nogil:
    if at_value(c, row):
        (<int8_t*>c.data)[row] = v


cdef inline void put_bool(Col* c, int64_t row, bint v) noexcept nogil:
    if at_value(c, row) and v:
        set_bit(c.data, row)


# As put_..., in a row that at_row would be true for.
cdef inline void set_i64(Col* c, int64_t row, int64_t v) noexcept nogil:
    if c.on:
        (<int64_t*>c.data)[row] = v
        c.rows = row + 1


cdef inline void set_i32(Col* c, int64_t row, int32_t v) noexcept nogil:
    if c.on:
        (<int32_t*>c.data)[row] = v
        c.rows = row + 1


cdef inline void set_i8(Col* c, int64_t row, int8_t v) noexcept nogil:
    if c.on:
        (<int8_t*>c.data)[row] = v
        c.rows = row + 1


# Rows in a run: all of them have a value, which the caller writes to `data` and `offsets`.
cdef int64_t begin_run(Col* c, int64_t row) noexcept nogil
cdef void end_run(Col* c, int64_t row) noexcept nogil
cdef bint grow_octets(Col* c, int64_t n) noexcept nogil
cdef bint reserve(Col* c, int64_t rows, int64_t octets) noexcept nogil
cdef void put_octets_checked(Col* c, int64_t row, const uint8_t* p, int64_t n) noexcept nogil
cdef inline void put_octets(Col* c, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
    """A string (the caller has checked that it is UTF-8) or a binary. Whatever needs a call is done by put_octets_checked, so a
    short one needs none."""
    cdef int64_t used = c.used
    if <size_t>n > <size_t>SHORT_OCTETS or n > c.size - used or row != c.rows or row >= c.capacity:
        if c.on:                            # otherwise it has no space
            put_octets_checked(c, row, p, n)
        return
    if c.validity != NULL:
        set_bit(c.validity, row)
    copy_octets(c.data + used, p, <size_t>n)
    used += n
    c.rows = row + 1
    c.used = used
    c.offsets[row + 1] = <int32_t>used
    c.shared.octets += n


cdef inline void put_octets2(Col* c, int64_t row, const uint8_t* p, int64_t n,
                             const uint8_t* q, int64_t m) noexcept nogil:
    """A binary of two parts."""
    if not c.on or (n + m > c.size - c.used and not grow_octets(c, n + m)) or not at_row(c, row):
        return
    memcpy(c.data + c.used, p, <size_t>n)
    memcpy(c.data + c.used + n, q, <size_t>m)
    c.used += n + m
    c.shared.octets += n + m
    c.offsets[row + 1] = <int32_t>c.used


cdef struct Text:               # a constant text that many rows repeat; TEXT_PAD readable octets follow it
    const uint8_t* at
    int32_t size
    int32_t number              # of a text that is never freed (pad_text); 0: any other


cdef enum:
    TEXT_PAD = 32


cdef void put_text_checked(Col* c, int64_t row, const Text* t) noexcept nogil
cdef inline void put_text(Col* c, int64_t row, const Text* t) noexcept nogil:
    """put_octets for short texts. Of a text that is never freed a row keeps the number: offsets and octets of the whole column
    are written when it is finished, or when it gets another value."""
    cdef int64_t n = t.size
    cdef int64_t used = c.used
    if row < c.numbers_kept and row >= c.rows and t.number:
        c.numbers[row] = <uint16_t>t.number
        c.rows = row + 1
        c.used = used + n
        c.shared.octets += n
        return
    if n > TEXT_PAD or c.size - used < TEXT_PAD or row != c.rows or row >= c.capacity:
        if c.on:
            put_text_checked(c, row, t)
        return
    if c.validity != NULL:
        set_bit(c.validity, row)
    memcpy(c.data + used, t.at, TEXT_PAD)       # a fixed number of octets; the next put overwrites the surplus
    used += n
    c.rows = row + 1
    c.used = used
    c.offsets[row + 1] = <int32_t>used
    c.shared.octets += n


cdef inline void set_text(Col* c, int64_t row, const Text* t) noexcept nogil:
    cdef int64_t n = t.size
    cdef int64_t used = c.used
    if not c.on or (max(n, <int64_t>TEXT_PAD) > c.size - used and not grow_octets(c, max(n, <int64_t>TEXT_PAD))):
        return
    memcpy(c.data + used, t.at, TEXT_PAD)
    if n > TEXT_PAD:
        memcpy(c.data + used + TEXT_PAD, t.at + TEXT_PAD, <size_t>(n - TEXT_PAD))
    used += n
    c.rows = row + 1
    c.used = used
    c.offsets[row + 1] = <int32_t>used
    c.shared.octets += n


cdef Text pad_text(bytes octets)
cdef Text NO_TEXT
cdef Text SECRET_SHOWN_TEXT      # in place of a secret
cdef inline void put_span(Col* c, int64_t row, const Span* s) noexcept nogil:
    """put_octets, but an absent span leaves the row null."""
    if s.at != NULL:
        put_octets(c, row, s.at, s.size)


cdef enum:
    HEX_OCTETS = 1024           # octets of a value that is not text which a column of text shows
    HEX_SIZE = 2 * HEX_OCTETS + 32


cdef void text_or_hex(const Span* octets, uint8_t* scratch, Span* out) noexcept nogil
cdef uint32_t hex_text(const uint8_t* p, uint32_t size, uint8_t* scratch) noexcept nogil
cdef inline bint is_hex(const Span* text) noexcept nogil:
    """Could hex_text have written this for a whole value?"""
    cdef uint32_t i
    if text.size == 0 or text.size & 1 or text.size > 2 * HEX_OCTETS:
        return False
    for i in range(text.size):
        if hex_digit(text.at[i]) == NOT_HEX or c"A" <= text.at[i] <= c"F":
            return False
    return True


cdef inline void store_hex(const Span* text, uint8_t* out) noexcept nogil:
    """The octets of text that is_hex."""
    cdef uint32_t i
    for i in range(text.size // 2):
        out[i] = <uint8_t>(hex_digit(text.at[2 * i]) << 4 | hex_digit(text.at[2 * i + 1]))


cdef inline Span octets_shown(const Span* text, uint8_t* scratch) noexcept nogil:
    """The octets that a column shows as `text`, which is hexadecimal if they are not UTF-8. `scratch`: HEX_OCTETS."""
    cdef Span octets = text[0]
    cdef size_t bad = 0
    if is_hex(text):
        store_hex(text, scratch)
        if check_utf8(scratch, text.size // 2, &bad) != UTF8_OK:
            octets.at = scratch
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
    """The row is not null. Its fields are put to the children in the same row."""
    at_value(c, row)


cdef inline int64_t open_list(Col* c, int64_t row) noexcept nogil:
    """Begin the row's list. Returns the first row of its elements in `c.children`: put them, then call close_list. -1: the
    column takes no list."""
    if not at_row(c, row):
        return -1
    c.offsets[row + 1] = c.offsets[row]
    return c.offsets[row]


cdef inline void close_list(Col* c, int64_t child_rows) noexcept nogil:
    """`child_rows`: all rows of the child, including those of earlier lists."""
    if child_rows > OFFSET_MAX:
        c.shared.full = True
    elif c.on and c.rows:
        c.shared.octets += ELEMENT_OCTETS * (child_rows - c.offsets[c.rows])
        c.offsets[c.rows] = <int32_t>child_rows


cdef inline void add_octets_at(Col* c, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
    """put_octets to the next row of a column without nulls, which has space for both."""
    cdef int64_t used = c.used
    copy_octets(c.data + used, p, <size_t>n)
    c.rows = row + 1
    c.used = used + n
    c.offsets[row + 1] = <int32_t>(used + n)


cdef inline void put_map(Col* c, int64_t row, const uint8_t* k, int64_t kn,
                         const uint8_t* v, int64_t vn) noexcept nogil:
    """Add an entry to the row's map; keys may repeat."""
    cdef Col* entries = c.children
    cdef Col* keys = entries.children
    cdef Col* values = keys + 1
    cdef int64_t at
    if not c.on:
        return
    if c.rows == row + 1:
        at = c.offsets[c.rows]
    else:
        at = open_list(c, row)
        if at < 0:
            return
    if not c.shared.exposed and is_secret_name(k, <size_t>kn):
        v = SECRET_SHOWN_TEXT.at
        vn = SECRET_SHOWN_TEXT.size
    put_struct(entries, at)
    if (at == keys.rows and at == values.rows and at < keys.capacity and at < values.capacity and keys.validity == NULL
            and values.validity == NULL and kn <= keys.size - keys.used and vn <= values.size - values.used):
        add_octets_at(keys, at, k, kn)
        add_octets_at(values, at, v, vn)
        c.shared.octets += kn + vn
    else:
        put_octets(keys, at, k, kn)
        put_octets(values, at, v, vn)
    close_list(c, at + 1)


cdef inline void put_secret_entry(Col* c, int64_t row, const uint8_t* k, int64_t kn,
                                  const uint8_t* v, int64_t vn) noexcept nogil:
    """put_map of a value that is secret under any name."""
    if c.shared.exposed:
        put_map(c, row, k, kn, v, vn)
    else:
        put_map(c, row, k, kn, SECRET_SHOWN_TEXT.at, SECRET_SHOWN_TEXT.size)


# The entries of one map in a row: begin_map finds out once how much space there is, add_entry copies, and end_map sets what the
# columns count. Between them nothing else is put to the map. An entry without space, or of a column with nulls, put_map puts,
# so the columns are the same. Without end_map, the entries since begin_map (or since the last put_map) are not part of the map.
cdef struct MapWriter:
    Col* map
    int64_t row
    int64_t first, at, most     # rows of entries: the first one, the next one, and where the space ends
    int64_t spare               # octets for which both keys and values have space
    int64_t octets              # `spare` at the beginning
    uint8_t* keys               # data and offsets of the children
    uint8_t* values
    int32_t* key_offsets
    int32_t* value_offsets
    int64_t key_end, value_end  # octets of the children
    const uint8_t* ahead        # octets before it may be read by copy_ahead: AHEAD_OCTETS before the end of memory
    bint exposed


cdef inline bint begin_map(MapWriter* w, Col* c, int64_t row, const uint8_t* end) noexcept nogil:
    """Begin to write entries of the row's map. `end` of the readable memory from which add_entry copies; NULL: not known. False:
    the column is off, and nothing need be added. A map without entries stays null; open_list before makes it empty."""
    cdef Col* entries = c.children
    cdef Col* keys = entries.children
    cdef Col* values = keys + 1
    w.map = c
    w.row = row
    w.exposed = c.shared.exposed
    w.ahead = end - AHEAD_OCTETS if end != NULL else NULL
    w.first = w.at = w.most = entries.rows
    w.octets = w.spare = 0
    if (c.on and c.rows <= row + 1 and w.at == (c.offsets[c.rows] if c.capacity else 0) and w.at == keys.rows
            and w.at == values.rows and entries.validity == NULL and keys.validity == NULL and values.validity == NULL):
        w.most = min(entries.capacity, keys.capacity, values.capacity)
        w.octets = w.spare = min(keys.size - keys.used, values.size - values.used) - AHEAD_OCTETS
        w.keys = keys.data
        w.values = values.data
        w.key_offsets = keys.offsets + 1
        w.value_offsets = values.offsets + 1
        w.key_end = keys.used
        w.value_end = values.used
    return c.on


cdef MapWriter add_entry_checked(MapWriter w, const uint8_t* k, int64_t kn, const uint8_t* v, int64_t vn) noexcept nogil
cdef inline void add_entry_of(MapWriter* w, const uint8_t* k, int64_t kn, const uint8_t* v, int64_t vn) noexcept nogil:
    """put_map of an entry whose texts are anywhere."""
    if not w.exposed and is_secret_name(k, <size_t>kn):
        v = SECRET_SHOWN_TEXT.at
        vn = SECRET_SHOWN_TEXT.size
    if w.at >= w.most or kn + vn > w.spare:
        w[0] = add_entry_checked(w[0], k, kn, v, vn)
        return
    w.spare -= kn + vn
    copy_octets(w.keys + w.key_end, k, <size_t>kn)
    copy_octets(w.values + w.value_end, v, <size_t>vn)
    w.key_end += kn
    w.value_end += vn
    w.key_offsets[w.at] = <int32_t>w.key_end
    w.value_offsets[w.at] = <int32_t>w.value_end
    w.at += 1


cdef inline void add_entry(MapWriter* w, const uint8_t* k, int64_t kn, const uint8_t* v, int64_t vn) noexcept nogil:
    """put_map of an entry whose texts are in the memory of begin_map. Short ones need no call, so no register is saved."""
    cdef int64_t at = w.at
    cdef int64_t key_end, value_end
    if (at >= w.most or kn + vn > w.spare or k + kn > w.ahead or v + vn > w.ahead or <size_t>kn > <size_t>AHEAD_MOST
            or <size_t>vn > <size_t>AHEAD_MOST or (not w.exposed and is_secret_name(k, <size_t>kn))):
        add_entry_of(w, k, kn, v, vn)
        return
    key_end = w.key_end + kn
    value_end = w.value_end + vn
    w.at = at + 1
    w.spare -= kn + vn
    w.key_offsets[at] = <int32_t>key_end
    w.value_offsets[at] = <int32_t>value_end
    copy_ahead(w.keys + key_end - kn, k, <size_t>kn)
    copy_ahead(w.values + value_end - vn, v, <size_t>vn)
    w.key_end = key_end
    w.value_end = value_end


cdef inline void end_map(MapWriter* w) noexcept nogil:
    """The entries that were added become part of the map."""
    cdef Col* entries = w.map.children
    cdef Col* keys = entries.children
    cdef Col* values = keys + 1
    if w.at == w.first or (w.map.rows != w.row + 1 and open_list(w.map, w.row) < 0):
        return
    entries.rows = keys.rows = values.rows = w.at
    keys.used = w.key_end
    values.used = w.value_end
    w.map.shared.octets += w.octets - w.spare
    close_list(w.map, w.at)


cdef inline void put_secret(Col* c, int64_t row, const Span* value) noexcept nogil:
    """put_span of a secret: null unless secrets are shown."""
    if c.shared.exposed:
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
    cdef ColumnsShared* shared
    cdef void* shapes           # what a reader knows of the form of earlier messages; free() frees it
    cdef list fields, chosen    # all; indices of the chosen ones
    cdef void expose(self, bint exposed) noexcept
    cdef int set_columns(self, columns, names) except -1
    cdef Field row_type(self)
    cdef Batch finish(self, int64_t rows)


cdef struct BatchMemory:        # of a Batch and the Arrow arrays made of it; the last user frees it
    int users                   # changed by add_user and drop_user only
    int n
    Col* cols
    uint8_t* zeros              # for columns that are all null
    uint8_t* part               # of a slab, where all buffers of `cols` are (settle); NULL: each has a block of its own
    size_t part_size
    int slab


cdef void copy_value(Col* to, int64_t row, const Col* of, int64_t old) noexcept nogil
cdef class Batch:
    cdef BatchMemory* memory
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
    cdef int64_t put_fast(self, const uint8_t* data, int64_t at, int64_t size) noexcept nogil
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
