# AMQP 1.0: what other modules may use of the codec.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memmove

from wirefmt._core cimport CText, ProtocolTables
from wirefmt._core.be cimport load_u16, load_u32, load_u64, store_u32
from wirefmt._core.cursor cimport Span, left
from wirefmt._core.octets cimport Octets, add_octets, add_u16, add_u32, add_u64, add_u8, extend_octets
from wirefmt._core.status cimport CommonOptions, Fault, Notes

# GENERATED from wirefmt/amqp10/spec.py and wirefmt/amqp10/columns.py
include "table.pxi"
include "columns.pxi"


# ---- types

cdef struct Amqp10Options:
    CommonOptions common        # `side` has no effect: both peers may send every frame


cdef struct Amqp10ValueView:    # a value in place; it owns nothing
    const uint8_t* constructor  # its first octet; of an array's element: in the array's head
    const uint8_t* body         # its content, after size and count. Described: NULL, or the element's content
    const uint8_t* end          # where the next value begins
    const uint8_t* inner        # array: constructor of its elements; described: constructor of the described value
    uint32_t size               # octets of `body`; 0 if described
    uint32_t count              # elements of a list or array; of a map: keys and values
    uint8_t type                # an Amqp10Type, AMQP10_DESCRIBED too
    uint8_t code                # the constructor's octet


cdef struct Amqp10Items:        # elements still to come
    const uint8_t* at
    const uint8_t* constructor  # shared by all elements; NULL: each has its own
    uint32_t left


cdef inline const uint8_t* amqp10_skip(const uint8_t* at) noexcept nogil:
    """Where the next value begins."""
    if at[0] == 0:
        at = amqp10_primitive(at)
    return amqp10_skip_content(at[0], at + 1)


cdef const uint8_t* amqp10_primitive(const uint8_t* constructor) noexcept nogil
cdef inline const uint8_t* amqp10_skip_content(uint8_t code, const uint8_t* at) noexcept nogil:
    cdef const Amqp10ConstructorRow* row = &amqp10_constructors[code]
    if row.category == AMQP10_CATEGORY_FIXED:
        return at + row.width
    return at + 1 + at[0] if row.width == 1 else at + 4 + load_u32(at)


cdef inline void amqp10_read(const uint8_t* at, Amqp10ValueView* v) noexcept nogil:
    """The value at `at`, which amqp10_check has accepted."""
    amqp10_read_content(at, NULL, v)


cdef inline void amqp10_read_content(const uint8_t* constructor, const uint8_t* at, Amqp10ValueView* v) noexcept nogil:
    """The value of a constructor whose content is at `at`; NULL: directly after the constructor."""
    cdef const Amqp10ConstructorRow* row
    v.constructor = constructor
    v.code = constructor[0]
    if v.code == 0:
        amqp10_read_described(at, v)
        return
    if at == NULL:
        at = constructor + 1
    row = &amqp10_constructors[v.code]
    v.type = row.type
    v.inner = NULL
    v.count = 0
    if row.category == AMQP10_CATEGORY_FIXED:
        v.body = at
        v.size = row.width
        v.end = at + row.width
        return
    v.size = at[0] if row.width == 1 else load_u32(at)
    at += row.width
    v.body = at
    v.end = at + v.size
    if row.category != AMQP10_CATEGORY_VARIABLE:
        v.count = at[0] if row.width == 1 else load_u32(at)
        v.body = at + row.width
        v.size -= row.width
        if row.category == AMQP10_CATEGORY_ARRAY:
            v.inner = v.body
            v.body = amqp10_primitive(v.inner) + 1
            v.size = <uint32_t>(v.end - v.body)


cdef void amqp10_read_described(const uint8_t* at, Amqp10ValueView* v) noexcept nogil
cdef inline void amqp10_described(const Amqp10ValueView* v, Amqp10ValueView* inner) noexcept nogil:
    """The value inside a described value."""
    amqp10_read_content(v.inner, v.body, inner)


cdef inline Amqp10Items amqp10_items(const Amqp10ValueView* v) noexcept nogil:
    """The elements of a list, map (key, value, key ...) or array."""
    cdef Amqp10Items items
    items.at = v.body
    items.constructor = v.inner
    items.left = v.count
    return items


cdef inline bint amqp10_next(Amqp10Items* items, Amqp10ValueView* v) noexcept nogil:
    """The next element; False: at the end."""
    if items.left == 0:
        return False
    items.left -= 1
    if items.constructor == NULL:
        amqp10_read_content(items.at, NULL, v)
    else:
        amqp10_read_content(items.constructor, items.at, v)
    items.at = v.end
    return True


cdef inline uint64_t amqp10_unsigned(const Amqp10ValueView* v) noexcept nogil:
    """ubyte, ushort, uint, ulong, boolean (0, 1), char; the bits of every other fixed type of at most eight octets."""
    if v.size == 0:
        return v.code == AMQP10_CODE_TRUE
    if v.size == 1:
        return v.body[0] if v.code != AMQP10_CODE_BOOLEAN else v.body[0] != 0
    return load_u16(v.body) if v.size == 2 else load_u32(v.body) if v.size == 4 else load_u64(v.body)


cdef inline int64_t amqp10_signed(const Amqp10ValueView* v) noexcept nogil:
    """byte, short, int, long, timestamp (milliseconds since 1970)."""
    if v.size == 1:
        return <int8_t>v.body[0]
    return (<int16_t>load_u16(v.body) if v.size == 2 else <int32_t>load_u32(v.body) if v.size == 4
            else <int64_t>load_u64(v.body))


cdef inline Span amqp10_octets(const Amqp10ValueView* v) noexcept nogil:
    """The octets of a binary, string or symbol, and of uuids and decimals."""
    cdef Span s
    s.at = v.body
    s.size = v.size
    return s


# ---- write

cdef enum:
    AMQP10_HEAD = 9             # the largest: constructor, four octets of size, four of count
    AMQP10_WIDE = 0x10          # between the constructors with one octet of size and those with four


cdef inline void amqp10_add_null(Octets* o) noexcept nogil:
    add_u8(o, AMQP10_CODE_NULL)


cdef inline void amqp10_add_boolean(Octets* o, bint v) noexcept nogil:
    add_u8(o, AMQP10_CODE_TRUE if v else AMQP10_CODE_FALSE)


cdef inline void amqp10_add_uint(Octets* o, uint32_t v) noexcept nogil:
    if v == 0:
        add_u8(o, AMQP10_CODE_UINT0)
    elif v < 256:
        add_u8(o, AMQP10_CODE_SMALLUINT)
        add_u8(o, <uint8_t>v)
    else:
        add_u8(o, AMQP10_CODE_UINT)
        add_u32(o, v)


cdef inline void amqp10_add_ulong(Octets* o, uint64_t v) noexcept nogil:
    if v == 0:
        add_u8(o, AMQP10_CODE_ULONG0)
    elif v < 256:
        add_u8(o, AMQP10_CODE_SMALLULONG)
        add_u8(o, <uint8_t>v)
    else:
        add_u8(o, AMQP10_CODE_ULONG)
        add_u64(o, v)


cdef inline void amqp10_add_int(Octets* o, int32_t v) noexcept nogil:
    if -128 <= v < 128:
        add_u8(o, AMQP10_CODE_SMALLINT)
        add_u8(o, <uint8_t>v)
    else:
        add_u8(o, AMQP10_CODE_INT)
        add_u32(o, <uint32_t>v)


cdef inline void amqp10_add_long(Octets* o, int64_t v) noexcept nogil:
    if -128 <= v < 128:
        add_u8(o, AMQP10_CODE_SMALLLONG)
        add_u8(o, <uint8_t>v)
    else:
        add_u8(o, AMQP10_CODE_LONG)
        add_u64(o, <uint64_t>v)


cdef inline void amqp10_add_fixed(Octets* o, uint8_t code, uint64_t bits) noexcept nogil:
    """Types of one encoding: ubyte, byte, ushort, short, float, char, timestamp, decimals ... as their bits."""
    cdef int width = amqp10_constructors[code].width
    add_u8(o, code)
    if width == 1:
        add_u8(o, <uint8_t>bits)
    elif width == 2:
        add_u16(o, <uint16_t>bits)
    elif width == 4:
        add_u32(o, <uint32_t>bits)
    else:
        add_u64(o, bits)


cdef inline void amqp10_add_wide(Octets* o, uint8_t code, const uint8_t* p) noexcept nogil:
    """uuid, decimal128: sixteen octets."""
    add_u8(o, code)
    add_octets(o, p, 16)


cdef inline void amqp10_add_variable(Octets* o, uint8_t code, const uint8_t* p, size_t n) noexcept nogil:
    """binary, string, symbol, by the constructor of their short form: AMQP10_CODE_VBIN8, _STR8, _SYM8."""
    if n < 256:
        add_u8(o, code)
        add_u8(o, <uint8_t>n)
    else:
        add_u8(o, code + AMQP10_WIDE)
        add_u32(o, <uint32_t>n)
        if n > <size_t>0xFFFFFFFF:
            o.failed = True
    add_octets(o, p, n)


cdef inline size_t amqp10_open(Octets* o) noexcept nogil:
    """Begin a list, map or array. For an array, write its constructor (with descriptors) next."""
    cdef size_t mark = o.size
    extend_octets(o, AMQP10_HEAD)
    return mark


cdef inline void amqp10_close(Octets* o, size_t mark, uint8_t code, size_t count) noexcept nogil:
    """End the value that was begun at `mark`: AMQP10_CODE_LIST8, _MAP8 or _ARRAY8, with `count` elements."""
    cdef size_t n
    cdef uint8_t* p
    if o.failed:
        return
    n = o.size - mark - AMQP10_HEAD
    p = o.at + mark
    if n < 255 and count < 256:
        if count == 0 and code == AMQP10_CODE_LIST8:
            p[0] = AMQP10_CODE_LIST0
            o.size = mark + 1
            return
        p[0] = code
        p[1] = <uint8_t>(n + 1)
        p[2] = <uint8_t>count
        memmove(p + 3, p + AMQP10_HEAD, n)
        o.size = mark + 3 + n
        return
    if n > <size_t>0xFFFFFFFB or count > <size_t>0xFFFFFFFF:
        o.failed = True
    p[0] = code + AMQP10_WIDE
    store_u32(p + 1, <uint32_t>(n + 4))
    store_u32(p + 5, <uint32_t>count)


cdef void amqp10_add_value(Octets* o, const Amqp10ValueView* v) noexcept nogil
cdef uint8_t amqp10_narrow_code(int type) noexcept nogil
cdef inline uint8_t amqp10_wide_code(uint8_t narrow) noexcept nogil:
    if narrow >= 0xA0:
        return narrow + AMQP10_WIDE
    if narrow == AMQP10_CODE_SMALLUINT:
        return AMQP10_CODE_UINT
    if narrow == AMQP10_CODE_SMALLULONG:
        return AMQP10_CODE_ULONG
    if narrow == AMQP10_CODE_SMALLINT:
        return AMQP10_CODE_INT
    return AMQP10_CODE_LONG if narrow == AMQP10_CODE_SMALLLONG else narrow


cdef void amqp10_add_element(Octets* o, uint8_t code, const Amqp10ValueView* v) noexcept nogil

# ---- parse

cdef struct Amqp10CompositeView:    # spans of checked octets
    const uint8_t* at[AMQP10_FIELDS_MAX]    # by field: its value; NULL: absent or null
    const uint8_t* begin            # the described value
    uint32_t count                  # encoded fields, including nulls
    uint32_t plain                  # bit n: field n is a number, a binary, or a text that is known to be ASCII
    uint8_t shape                   # an Amqp10Shape; 0: none


cdef struct Amqp10Section:
    const uint8_t* at               # its value, after the descriptor
    const uint8_t* end              # where the next section begins
    uint8_t code                    # AMQP10_SECTION_...; 0: an unknown one that LAX accepted


cdef struct Amqp10MessageView:      # spans of the octets; it owns nothing
    const uint8_t* octets
    uint32_t size
    # by code - AMQP10_SECTION_FIRST: the value of the first section of its kind; NULL: absent
    const uint8_t* at[AMQP10_SECTION_LAST - AMQP10_SECTION_FIRST + 1]
    Amqp10CompositeView header, properties  # shape 0: absent
    uint8_t plain                   # by code - AMQP10_SECTION_FIRST, a bit: all keys and texts of that map are known to be ASCII
    uint8_t body                    # code of the first body section; 0: none
    uint32_t body_count             # body sections
    Span payload                    # of the only data section; absent for any other body
    Notes notes


cdef inline bint amqp10_field(const Amqp10CompositeView* c, int i, Amqp10ValueView* v) noexcept nogil:
    """Field `i` (AMQP10_OPEN_HOSTNAME ...) of any type."""
    if c.at[i] == NULL:
        return False
    amqp10_read(c.at[i], v)
    return True


cdef inline bint amqp10_field_timestamp(const Amqp10CompositeView* c, int i, int64_t* out) noexcept nogil:
    """Milliseconds since 1970."""
    cdef Amqp10ValueView v
    if not amqp10_field(c, i, &v) or v.type != AMQP10_TIMESTAMP:
        return False
    out[0] = amqp10_signed(&v)
    return True


cdef void amqp10_fields_of(const Amqp10ValueView* list, Amqp10CompositeView* out) noexcept nogil
cdef int amqp10_parse_message(const uint8_t* p, size_t n, const Amqp10Options* o, Amqp10MessageView* out,
                              Fault* f) noexcept nogil
cdef bint amqp10_next_section(const uint8_t** at, const uint8_t* end, Amqp10Section* out) noexcept nogil
cdef ProtocolTables AMQP10_TABLES
