# Cells of a finished batch of the message table.
from wirefmt.protocols import PROTOCOLS as PROTOCOL_ROWS
from wirefmt.spec.table import COLUMNS as MESSAGE_COLUMNS

cdef dict MESSAGE_COLUMN = {column.name: i for i, column in enumerate(MESSAGE_COLUMNS)}
cdef dict STRUCT_FIELDS = {row.name: [field.name for field in row.columns().FIELDS] for row in PROTOCOL_ROWS}


cdef struct StructField:             # of the struct of a protocol
    int column, child


cdef StructField field(str protocol, str name):
    cdef StructField f
    f.column = MESSAGE_COLUMN[protocol]
    f.child = STRUCT_FIELDS[protocol].index(name)
    return f


cdef extern from *:
    """
    /* memcmp() == 0, without a call for short texts: words that may overlap */
    static inline int wirefmt_same(const unsigned char *a, const unsigned char *b, size_t n) {
        unsigned long long p, q, r, s;
        if (n > 16) return memcmp(a, b, n) == 0;
        if (n >= 8) {
            memcpy(&p, a, 8); memcpy(&q, b, 8); memcpy(&r, a + n - 8, 8); memcpy(&s, b + n - 8, 8);
            return ((p ^ q) | (r ^ s)) == 0;
        }
        if (n >= 4) {
            unsigned int t, u, v, w;
            memcpy(&t, a, 4); memcpy(&u, b, 4); memcpy(&v, a + n - 4, 4); memcpy(&w, b + n - 4, 4);
            return ((t ^ u) | (v ^ w)) == 0;
        }
        return n == 0 || (a[0] == b[0] && a[n >> 1] == b[n >> 1] && a[n - 1] == b[n - 1]);
    }
    """
    bint same_octets "wirefmt_same"(const uint8_t* a, const uint8_t* b, size_t n) noexcept nogil


cdef const char* NO_CHARS = ""


cdef struct Row:
    const Col* cols             # of the batch
    int64_t at


cdef inline bint bit_at(const uint8_t* bits, int64_t i) noexcept nogil:
    return bits[i >> 3] >> (i & 7) & 1


cdef inline bint is_set(const Col* c, int64_t row) noexcept nogil:
    return c.rows != 0 and (c.validity == NULL or bit_at(c.validity, row))


cdef inline int64_t number_at(const Col* c, int64_t row, int64_t absent) noexcept nogil:
    if not is_set(c, row):
        return absent
    if c.width == 8:
        return (<const int64_t*>c.data)[row]
    if c.width == 4:
        return (<const int32_t*>c.data)[row]
    if c.width == 2:
        return (<const int16_t*>c.data)[row]
    return (<const int8_t*>c.data)[row]


cdef inline Span octets_at(const Col* c, int64_t row) noexcept nogil:
    """The octets of a string or binary; `at` is NULL if it is null."""
    cdef Span s
    s.at = NULL
    s.size = 0
    if is_set(c, row):
        if c.data == NULL:                              # all are empty
            s.at = <const uint8_t*>NO_CHARS
            return s
        s.at = c.data + c.offsets[row]
        s.size = <uint32_t>(c.offsets[row + 1] - c.offsets[row])
    return s


cdef inline bint true_at(const Col* c, int64_t row) noexcept nogil:
    return is_set(c, row) and bit_at(c.data, row)


cdef inline int64_t number_of(const Row* r, int column, int64_t absent) noexcept nogil:
    return number_at(r.cols + column, r.at, absent)


cdef inline Span text_of(const Row* r, int column) noexcept nogil:
    return octets_at(r.cols + column, r.at)


cdef inline const Col* field_of(const Row* r, StructField f) noexcept nogil:
    return r.cols[f.column].children + f.child


cdef inline int64_t field_number(const Row* r, StructField f, int64_t absent) noexcept nogil:
    return number_at(field_of(r, f), r.at, absent)


cdef inline Span field_text(const Row* r, StructField f) noexcept nogil:
    return octets_at(field_of(r, f), r.at)


cdef inline bint field_true(const Row* r, StructField f) noexcept nogil:
    return true_at(field_of(r, f), r.at)


cdef inline bint field_set(const Row* r, StructField f) noexcept nogil:
    return is_set(field_of(r, f), r.at)


cdef Span entry_of(const Col* c, int64_t row, const char* name) noexcept nogil:
    """The first value of a name in a map."""
    cdef const Col* keys
    cdef size_t n = strlen(name)
    cdef int64_t i
    cdef Span s
    s.at = NULL
    s.size = 0
    if not is_set(c, row):
        return s
    keys = c.children.children
    for i in range(c.offsets[row], c.offsets[row + 1]):
        s = octets_at(keys, i)
        if s.size == n and same_octets(s.at, <const uint8_t*>name, n):
            return octets_at(keys + 1, i)
    s.at = NULL
    s.size = 0
    return s


cdef inline const char* chars_of(const Span* s) noexcept nogil:
    """For "%.*s" of printf, which must not get NULL."""
    return <const char*>s.at if s.at != NULL else NO_CHARS


cdef inline uint32_t whole_text(const Span* s, uint32_t capacity) noexcept nogil:
    """Octets of a text that fit into `capacity`, without a part of a character."""
    cdef uint32_t n = s.size
    if n > capacity:
        n = capacity
        while n and s.at[n] & 0xC0 == 0x80:
            n -= 1
    return n


cdef inline bint is_text(const Span* s, const char* text) noexcept nogil:
    return s.at != NULL and s.size == strlen(text) and same_octets(s.at, <const uint8_t*>text, s.size)


cdef inline uint64_t hash_span(uint64_t h, const Span* s) noexcept nogil:
    return avalanche(hash_octets(avalanche(h ^ s.size), s.at, s.size)) if s.size else avalanche(h)


cdef int64_t decimal_of(const Span* s, int64_t absent) noexcept nogil:
    """A number in decimal digits."""
    cdef int64_t n = 0
    cdef uint32_t i
    if s.size == 0 or s.size > 18:
        return absent
    for i in range(s.size):
        if not c"0" <= s.at[i] <= c"9":
            return absent
        n = 10 * n + (s.at[i] - c"0")
    return n
