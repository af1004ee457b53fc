# AMQP 1.0 values as octets, each in its smallest encoding. Nogil and without Python objects: for encoders, and for code that
# builds values from values.
#
# A list, map or array is opened, its elements are written, and closing it sets its size and count.
#
#     mark = amqp10_open(o); amqp10_add_symbol(o, ...); amqp10_add_uint(o, 5); amqp10_close(o, mark, AMQP10_CODE_MAP8, 2)
#
# When memory runs out, or a size does not fit 32 bits, `failed` of the octets is set: check it once, at the end.
from wirefmt._core.octets cimport Octets, add_octets, add_u8, add_u16, add_u32, add_u64, extend_octets


# ------------------------------------------------------------------------------------------------ scalars

cdef inline void amqp10_add_descriptor(Octets* o, uint64_t code) noexcept nogil:
    """Write the descriptor of the value that is written next."""
    add_u8(o, 0)
    amqp10_add_ulong(o, code)


# ------------------------------------------------------------------------------------------------ lists, maps, arrays

# ------------------------------------------------------------------------------------------------ values as they are

cdef void amqp10_add_value(Octets* o, const Amqp10ValueView* v) noexcept nogil:
    """Write a value in its encoding. (An element of an array gets its constructor.)"""
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


cdef inline const uint8_t* amqp10_content(const Amqp10ValueView* v) noexcept nogil:
    """The octets after the constructor of a value that is not described, including size and count."""
    cdef const Amqp10ConstructorRow* row = &amqp10_constructors[v.code]
    if row.category == AMQP10_CATEGORY_FIXED:
        return v.body
    if row.category == AMQP10_CATEGORY_VARIABLE:
        return v.body - row.width
    return (v.inner if row.category == AMQP10_CATEGORY_ARRAY else v.body) - 2 * row.width


# ------------------------------------------------------------------------------------------------ elements of arrays

cdef uint8_t amqp10_element_code(const Amqp10ValueView* v, uint8_t before) noexcept nogil:
    """The narrowest constructor that fits a value and all values that `before` fits (0: there are none)."""
    cdef uint8_t narrow = amqp10_narrow_code(v.type)
    cdef uint8_t wide = amqp10_wide_code(narrow)
    cdef size_t n = 0
    if narrow == 0:                         # types of one encoding, except null
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
    """The narrowest constructor of a type whose elements have octets; 0: the type has only one constructor."""
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


cdef void amqp10_add_element(Octets* o, uint8_t code, const Amqp10ValueView* v) noexcept nogil:
    """Write the content of a value for a constructor of its type that fits it."""
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
    """The narrowest constructor that fits all of several consecutive values of one type."""
    cdef const uint8_t* at = written.at
    cdef Amqp10ValueView v
    cdef uint8_t code = 0
    while at < written.at + written.size:
        amqp10_read(at, &v)
        code = amqp10_element_code(&v, code)
        at = v.end
    return code


cdef void amqp10_add_elements(Octets* o, const Octets* written, uint8_t code) noexcept nogil:
    """Write the elements of an array: a constructor, and the contents of consecutive values."""
    cdef const uint8_t* at = written.at
    cdef Amqp10ValueView v
    add_u8(o, code)
    while at < written.at + written.size:
        amqp10_read(at, &v)
        amqp10_add_element(o, code, &v)
        at = v.end
    if written.failed:
        o.failed = True
