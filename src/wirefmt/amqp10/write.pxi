# AMQP 1.0 values written as octets, each in its smallest encoding. Nogil and without Python objects: for our own
# encoders and for whoever makes values out of values.
#
# A list, map or array is opened, its elements are written, and it is closed: then its size and count are known.
#
#     mark = amqp10_open(o); amqp10_add_symbol(o, ...); amqp10_add_uint(o, 5); amqp10_close(o, mark, AMQP10_CODE_MAP8, 2)
#
# Running out of memory, and sizes that 32 bits cannot say, make the octets `failed`: ask once, at the end.
#
# Uses: be, octets, cursor, amqp10_table, amqp10_types. Included by _core.pyx.
from wirefmt._core.octets cimport Octets, add_octets, add_u8, add_u16, add_u32, add_u64, extend_octets


cdef enum:
    AMQP10_HEAD = 9             # the largest: constructor, four octets of size, four of count
    AMQP10_WIDE = 0x10          # between the constructors with one octet of size and those with four


# ------------------------------------------------------------------------------------------------ scalars

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


cdef inline void amqp10_add_descriptor(Octets* o, uint64_t code) noexcept nogil:
    """What makes the value written next a described one."""
    add_u8(o, 0)
    amqp10_add_ulong(o, code)


# ------------------------------------------------------------------------------------------------ lists, maps, arrays

cdef inline size_t amqp10_open(Octets* o) noexcept nogil:
    """Begin a list, map or array. Of an array, its constructor (with descriptors) is to be written next."""
    cdef size_t mark = o.size
    extend_octets(o, AMQP10_HEAD)
    return mark


cdef inline void amqp10_close(Octets* o, size_t mark, uint8_t code, size_t count) noexcept nogil:
    """End what was opened at `mark`: AMQP10_CODE_LIST8, _MAP8 or _ARRAY8, with `count` elements."""
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


# ------------------------------------------------------------------------------------------------ values as they are

cdef void amqp10_add_value(Octets* o, const Amqp10Value* v) noexcept nogil:
    """A value with the encoding it has. (An element of an array gets its constructor.)"""
    cdef const uint8_t* content
    cdef const uint8_t* primitive
    if v.type == AMQP10_DESCRIBED:
        primitive = amqp10_primitive(v.inner)
        content = primitive + 1 if v.body == NULL else v.body
    else:
        primitive = v.constructor
        content = amqp10_content(v)
    add_octets(o, v.constructor, <size_t>(primitive + 1 - v.constructor))
    add_octets(o, content, <size_t>(v.end - content))


cdef inline const uint8_t* amqp10_content(const Amqp10Value* v) noexcept nogil:
    """What stands behind the constructor of a value that is not described: size and count, where it has them, too."""
    cdef const Amqp10ConstructorRow* row = &amqp10_constructors[v.code]
    if row.category == AMQP10_CATEGORY_FIXED:
        return v.body
    if row.category == AMQP10_CATEGORY_VARIABLE:
        return v.body - row.width
    return (v.inner if row.category == AMQP10_CATEGORY_ARRAY else v.body) - 2 * row.width


# ------------------------------------------------------------------------------------------------ elements of arrays

cdef uint8_t amqp10_element_code(const Amqp10Value* v, uint8_t before) noexcept nogil:
    """The narrowest constructor of some octets that serves for a value and those that `before` serves for (0: none)."""
    cdef uint8_t narrow = amqp10_narrow_code(v.type)
    cdef uint8_t wide = amqp10_wide_code(narrow)
    cdef size_t n = 0
    if narrow == 0:                         # types of one encoding, but for null
        return v.code
    if wide == narrow or before == wide:
        return wide
    if v.type == AMQP10_UINT or v.type == AMQP10_ULONG:
        return narrow if amqp10_unsigned(v) < 256 else wide
    if v.type == AMQP10_INT or v.type == AMQP10_LONG:
        return narrow if -128 <= amqp10_signed(v) < 128 else wide
    if v.type == AMQP10_ARRAY:
        n = <size_t>(v.end - v.inner) + 1
    elif v.type >= AMQP10_LIST:
        n = v.size + 1
    else:
        n = v.size
    return narrow if n < 256 and v.count < 256 else wide


cdef uint8_t amqp10_narrow_code(int type) noexcept nogil:
    """The narrowest constructor of a type whose elements take octets; 0: the type has but one constructor."""
    if type == AMQP10_BOOLEAN:
        return AMQP10_CODE_BOOLEAN
    if type == AMQP10_UINT:
        return AMQP10_CODE_SMALLUINT
    if type == AMQP10_ULONG:
        return AMQP10_CODE_SMALLULONG
    if type == AMQP10_INT:
        return AMQP10_CODE_SMALLINT
    if type == AMQP10_LONG:
        return AMQP10_CODE_SMALLLONG
    if type == AMQP10_BINARY:
        return AMQP10_CODE_VBIN8
    if type == AMQP10_STRING:
        return AMQP10_CODE_STR8
    if type == AMQP10_SYMBOL:
        return AMQP10_CODE_SYM8
    if type == AMQP10_LIST:
        return AMQP10_CODE_LIST8
    if type == AMQP10_MAP:
        return AMQP10_CODE_MAP8
    return AMQP10_CODE_ARRAY8 if type == AMQP10_ARRAY else 0


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


cdef void amqp10_add_element(Octets* o, uint8_t code, const Amqp10Value* v) noexcept nogil:
    """The content of a value under a constructor of its type, which has room for it."""
    cdef const Amqp10ConstructorRow* row = &amqp10_constructors[code]
    cdef const uint8_t* body = v.inner if v.type == AMQP10_ARRAY else v.body
    cdef size_t n = <size_t>(v.end - body)
    if row.width == 16:
        add_octets(o, v.body, 16)
    elif row.category == AMQP10_CATEGORY_FIXED:
        amqp10_add_bits(o, row.width, <uint64_t>amqp10_signed(v) if AMQP10_BYTE <= v.type <= AMQP10_LONG
                        else amqp10_unsigned(v))
    else:
        if n > <size_t>0xFFFFFFFB:
            o.failed = True
        if row.category != AMQP10_CATEGORY_VARIABLE:
            amqp10_add_bits(o, row.width, n + row.width)
        amqp10_add_bits(o, row.width, n if row.category == AMQP10_CATEGORY_VARIABLE else v.count)
        add_octets(o, body, n)


cdef inline void amqp10_add_bits(Octets* o, int width, uint64_t v) noexcept nogil:
    if width == 1:
        add_u8(o, <uint8_t>v)
    elif width == 2:
        add_u16(o, <uint16_t>v)
    elif width == 4:
        add_u32(o, <uint32_t>v)
    elif width == 8:
        add_u64(o, v)


cdef uint8_t amqp10_common_code(const Octets* written) noexcept nogil:
    """The narrowest constructor that serves for all values of one type, written one behind another."""
    cdef const uint8_t* at = written.at
    cdef Amqp10Value v
    cdef uint8_t code = 0
    while at < written.at + written.size:
        amqp10_read(at, &v)
        code = amqp10_element_code(&v, code)
        at = v.end
    return code


cdef void amqp10_add_elements(Octets* o, const Octets* written, uint8_t code) noexcept nogil:
    """The elements of an array: a constructor, and the contents of values written one behind another."""
    cdef const uint8_t* at = written.at
    cdef Amqp10Value v
    add_u8(o, code)
    while at < written.at + written.size:
        amqp10_read(at, &v)
        amqp10_add_element(o, code, &v)
        at = v.end
    if written.failed:
        o.failed = True
