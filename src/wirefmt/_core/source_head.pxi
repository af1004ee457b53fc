# Header of the kernel: columns of the caller, to be encoded.

# ---- source

cdef enum SourceForm:           # how strings, binaries and lists refer to their contents
    SOURCE_NARROW = 0           # offsets of 32 bits
    SOURCE_WIDE                 # of 64 bits
    SOURCE_FIXED_SIZE           # `width` octets each
    SOURCE_VIEW                 # views of 16 octets in `data`


cdef struct SourceCol:             # a column (or child) of a caller's Arrow arrays: views; it owns only `children`
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
    const void** pieces         # of SOURCE_VIEW: the buffers of long values, then the buffer of their sizes
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
    REFUSED_FAULT               # `fault`: what a decoder would report for the frame
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
    """Does the row have a value? Its parent must have one."""
    cdef int64_t i = s.begin + row
    return s.on and (s.validity == NULL or s.validity[i >> 3] >> (i & 7) & 1)


cdef inline int64_t source_integer(const SourceCol* s, int64_t row) noexcept nogil:
    """An integer that is present. An unsigned one of 64 bits is negative from 2^63 on."""
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
    """A boolean that is present."""
    cdef int64_t i = s.begin + row
    return s.data[i >> 3] >> (i & 7) & 1


cdef inline bint source_flag(const SourceCol* s, int64_t row) noexcept nogil:
    """A boolean; False if it is null."""
    return source_has(s, row) and source_bit(s, row)


cdef inline int source_range(Problem* x, const SourceCol* s, int64_t row, int64_t* begin, int64_t* end) noexcept nogil:
    """Begin and end of a string, a binary or a list that is present. -1: refused."""
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
    """A string or binary that is present. -1: refused."""
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
    """source_span of a required value."""
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
    """source_number of a required value."""
    if not source_has(s, row):
        return refuse(x, REFUSED_NULL, s)
    return source_number(x, s, row, low, high, v)


cdef inline int source_name(Problem* x, const SourceCol* s, int64_t row, const Text* names, int count, int* which) noexcept nogil:
    """Find a required string among the names. `which` is the index for the previous row, which is tried first, and gets the
    index for this one. -1: refused."""
    cdef Span v
    cdef int i
    if source_needed_span(x, s, row, 0xFFFF, &v):
        return -1
    if v.size and <uint32_t>names[which[0]].size == v.size and same_octets(names[which[0]].at, v.at, v.size):
        return 0
    for i in range(count):
        if names[i].size and <uint32_t>names[i].size == v.size and same_octets(names[i].at, v.at, v.size):
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
    cdef PyObject* block        # the output: bytes of `capacity`, filled up to `size`
    cdef uint8_t* at
    cdef size_t size, capacity
    cdef Octets scratch         # for a frame whose size is not known in advance
    cdef int prepare(self, SourceCol* s, Field field, str above) except -1
    cdef bytes encode(self, data)
    cdef uint8_t* grow(self, size_t n) noexcept nogil
    cdef bytes result(self)
    cdef void begin(self) noexcept nogil
    cdef int put_rows(self, int64_t rows) noexcept nogil
    cdef int raise_problem(self) except -1

    cdef inline uint8_t* need(self, size_t n) noexcept nogil:
        """Make space for `n` more octets. Returns where to write them; NULL: out of memory."""
        return self.at + self.size if n <= self.capacity - self.size and self.at != NULL else self.grow(n)
