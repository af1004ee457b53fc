# AMQP 1.0 scalars as Python objects, and Python objects as AMQP 1.0 scalars.
#
#     null None          boolean bool        long int       the other integers UByte ... Int (subclasses of int)
#     double float       float Float         char Char      timestamp Timestamp (int, milliseconds since 1970)
#     binary bytes       string str          symbol Symbol  uuid uuid.UUID      decimals Decimal32 ... (bytes)
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong, PyLong_FromUnsignedLongLong

from datetime import datetime, timedelta, timezone
from uuid import SafeUUID, UUID


# ------------------------------------------------------------------------------------------------ scalars

class Integer(int):
    """Base of the integer types except long, which is int."""
    __slots__ = ()
    lowest = 0
    highest = 0

    def __new__(cls, value=0, /):
        number = PyNumber_Index(value)
        if not cls.lowest <= number <= cls.highest:
            raise EncodeError(f"{number} is not a {cls.__name__}: {cls.lowest} to {cls.highest} [1.6]")
        return int.__new__(cls, number)

    def __repr__(self):
        return f"amqp10.{type(self).__name__}({int(self)})"

    def __str__(self):
        return int.__repr__(self)


class UByte(Integer):
    """ubyte: 0 to 255 (1.6.3)."""
    __slots__ = ()
    highest = 0xFF


class UShort(Integer):
    """ushort: 0 to 65535 (1.6.4)."""
    __slots__ = ()
    highest = 0xFFFF


class UInt(Integer):
    """uint: 0 to 2^32 - 1 (1.6.5)."""
    __slots__ = ()
    highest = 0xFFFFFFFF


class ULong(Integer):
    """ulong: 0 to 2^64 - 1 (1.6.6)."""
    __slots__ = ()
    highest = 0xFFFFFFFFFFFFFFFF


class Byte(Integer):
    """byte: -128 to 127 (1.6.7)."""
    __slots__ = ()
    lowest = -0x80
    highest = 0x7F


class Short(Integer):
    """short: -32768 to 32767 (1.6.8)."""
    __slots__ = ()
    lowest = -0x8000
    highest = 0x7FFF


class Int(Integer):
    """int: -2^31 to 2^31 - 1 (1.6.9)."""
    __slots__ = ()
    lowest = -0x80000000
    highest = 0x7FFFFFFF


class Timestamp(Integer):
    """timestamp: milliseconds since 1970 (UTC), negative before (1.6.17). Also takes an aware datetime."""
    __slots__ = ()
    lowest = -0x8000000000000000
    highest = 0x7FFFFFFFFFFFFFFF

    @classmethod
    def of(cls, moment, /):
        """The timestamp of an aware datetime, truncated to milliseconds."""
        return cls(amqp10_milliseconds(moment))

    def to_datetime(self):
        """The same as an aware datetime. Raises ValueError beyond the years 1 to 9999, which are datetime's."""
        try:
            return AMQP10_EPOCH + timedelta(milliseconds=int(self))
        except OverflowError:
            raise ValueError(f"datetime has no time {int(self)} ms from 1970: use int(timestamp)") from None


cdef object AMQP10_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
cdef object AMQP10_MILLISECOND = timedelta(milliseconds=1)


cdef object amqp10_milliseconds(object value):
    """An int of milliseconds, from such or from an aware datetime."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TypeError("a datetime needs a time zone to be a timestamp")
        return (value - AMQP10_EPOCH) // AMQP10_MILLISECOND
    return value


class Float(float):
    """float: 32 bits (1.6.11). A Python number is rounded to 32 bits."""
    __slots__ = ()

    def __new__(cls, value=0.0, /):
        return float.__new__(cls, <double><float>(<double>float(value)))

    def __repr__(self):
        return f"amqp10.Float({float.__repr__(self)})"

    def __str__(self):
        return float.__repr__(self)


class Char(str):
    """char: one character (1.6.16)."""
    __slots__ = ()

    def __new__(cls, value, /):
        if isinstance(value, int):
            value = chr(value)
        if not isinstance(value, str) or len(value) != 1:
            raise EncodeError(f"{value!r} is not one character [1.6.16]")
        return str.__new__(cls, value)

    def __repr__(self):
        return f"amqp10.Char({str.__repr__(self)})"


class Symbol(str):
    """symbol: ASCII text, a name of some domain (1.6.21)."""
    __slots__ = ()

    def __repr__(self):
        return f"amqp10.Symbol({str.__repr__(self)})"


class Decimal(bytes):
    """Base of the decimal types: their bytes in IEEE 754 encoding, not interpreted."""
    __slots__ = ()
    width = 0

    def __new__(cls, value, /):
        octets = take_block(value)
        if len(octets) != cls.width:
            raise EncodeError(f"{cls.__name__} has {cls.width} bytes, not {len(octets)} [1.6]")
        return bytes.__new__(cls, octets)

    def __repr__(self):
        return f"amqp10.{type(self).__name__}({bytes.__repr__(self)})"


class Decimal32(Decimal):
    """decimal32 (1.6.13)."""
    __slots__ = ()
    width = 4


class Decimal64(Decimal):
    """decimal64 (1.6.14)."""
    __slots__ = ()
    width = 8


class Decimal128(Decimal):
    """decimal128 (1.6.15)."""
    __slots__ = ()
    width = 16


#: By Amqp10Type: the class of values of the type; None for Python's own classes, and for types that are not scalars.
cdef tuple AMQP10_SCALARS = (
    None, None, None, UByte, UShort, UInt, ULong, Byte, Short, Int, None,
    Float, None, Decimal32, Decimal64, Decimal128, Char, Timestamp, None, None, None,
    Symbol, None, None, None, None,
)
cdef dict AMQP10_TYPE_OF_CLASS = {cls: type for type, cls in enumerate(AMQP10_SCALARS) if cls is not None}
cdef dict AMQP10_TYPE_OF_NAME = {amqp10_type_name[i].decode("ascii"): i for i in range(AMQP10_NULL, AMQP10_DESCRIBED)}

cdef dict AMQP10_CODE_OF_NAME = {
    amqp10_constructor_name[i].decode("ascii"): i for i in range(256) if amqp10_constructor_name[i][0]
}

cdef object amqp10_new_int = int.__new__
cdef object amqp10_new_float = float.__new__
cdef object amqp10_new_str = str.__new__
cdef object amqp10_new_bytes = bytes.__new__
cdef object amqp10_new_uuid = UUID.__new__
cdef object amqp10_set_slot = object.__setattr__
cdef object AMQP10_UNKNOWN_SAFETY = SafeUUID.unknown


# ------------------------------------------------------------------------------------------------ octets -> objects

cdef object amqp10_shared_scalar(const Amqp10ValueView* v):
    """A scalar of a typed class: one object for all values with the same octets."""
    cdef SharedSlot* slot
    if not WIREFMT_SHARES_VALUES:
        return amqp10_scalar_of(v)
    slot = shared_slot(v.code, v.body, v.size)
    if is_held(slot, v.code, v.body, v.size):
        return <object>slot.value
    value = amqp10_scalar_of(v)
    share(slot, v.code, v.body, v.size, value)
    return value


cdef object amqp10_scalar_of(const Amqp10ValueView* v):
    cdef object cls = AMQP10_SCALARS[v.type]
    if AMQP10_UBYTE <= v.type <= AMQP10_ULONG:
        return amqp10_new_int(cls, amqp10_unsigned(v))
    if AMQP10_BYTE <= v.type <= AMQP10_LONG or v.type == AMQP10_TIMESTAMP:
        return amqp10_new_int(cls, amqp10_signed(v))
    if v.type == AMQP10_FLOAT:
        return amqp10_new_float(cls, amqp10_float_of(<uint32_t>amqp10_unsigned(v)))
    if v.type == AMQP10_CHAR:
        return amqp10_new_str(cls, chr(amqp10_unsigned(v)))
    return amqp10_new_bytes(cls, octets_of(v.body, v.size))


cdef inline double amqp10_double_of(uint64_t bits) noexcept nogil:
    cdef double d
    memcpy(&d, &bits, 8)
    return d


cdef inline double amqp10_float_of(uint32_t bits) noexcept nogil:
    cdef float f
    memcpy(&f, &bits, 4)
    return f


cdef object amqp10_uuid_of(const uint8_t* p):
    value = amqp10_new_uuid(UUID)
    amqp10_set_slot(value, "int", int.from_bytes(octets_of(p, 16), "big"))
    amqp10_set_slot(value, "is_safe", AMQP10_UNKNOWN_SAFETY)
    return value


cdef inline object amqp10_string_of(const uint8_t* p, uint32_t size):
    """A string. Octets that are not UTF-8, which LAX accepts, become lone surrogates; such strings are not shared."""
    cdef SharedSlot* slot = NULL
    if 0 < size <= SHARED_OCTETS and WIREFMT_SHARES_VALUES:
        slot = shared_slot(SHARED_TEXT, p, size)
        if is_held(slot, SHARED_TEXT, p, size):
            return <object>slot.value
    if not is_ascii(p, size):
        return amqp10_wide_string_of(p, size)
    text = ascii_text(p, size)
    if slot != NULL:
        share(slot, SHARED_TEXT, p, size, text)
    return text


cdef inline object amqp10_single_string_of(const uint8_t* p, uint32_t size):
    """amqp10_string_of for a string that messages do not repeat."""
    return ascii_text(p, size) if is_ascii(p, size) else amqp10_wide_string_of(p, size)


cdef object amqp10_wide_string_of(const uint8_t* p, uint32_t size):
    try:
        return shared_text(p, size)
    except UnicodeDecodeError:
        return PyUnicode_DecodeUTF8(<const char*>p, size, "surrogateescape")


cdef object amqp10_symbol_of(const uint8_t* p, uint32_t size):
    cdef SharedSlot* slot
    if size == 0 or size > SHARED_OCTETS or not WIREFMT_SHARES_VALUES:
        return amqp10_new_str(Symbol, octets_of(p, size).decode("utf-8", "surrogateescape"))
    slot = shared_slot(AMQP10_CODE_SYM8, p, size)
    if is_held(slot, AMQP10_CODE_SYM8, p, size):
        return <object>slot.value
    value = amqp10_new_str(Symbol, octets_of(p, size).decode("utf-8", "surrogateescape"))
    share(slot, AMQP10_CODE_SYM8, p, size, value)
    return value


# ------------------------------------------------------------------------------------------------ objects -> octets

cdef int amqp10_put_string(Octets* o, object text) except -1:
    cdef Py_ssize_t size = 0
    cdef const char* p
    try:
        p = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        raise EncodeError("a surrogate has no UTF-8 form [1.6.20]") from None
    amqp10_add_variable(o, AMQP10_CODE_STR8, <const uint8_t*>p, <size_t>size)
    return 0


cdef int amqp10_put_symbol(Octets* o, object text) except -1:
    cdef Py_ssize_t size = 0
    cdef const char* p
    if not isinstance(text, str):
        raise TypeError(f"a symbol must be a str, not {type(text).__name__}")
    if not text.isascii():
        raise EncodeError(f"{str(text)!r} is not ASCII [1.6.21]")
    p = PyUnicode_AsUTF8AndSize(text, &size)
    amqp10_add_variable(o, AMQP10_CODE_SYM8, <const uint8_t*>p, <size_t>size)
    return 0


cdef int amqp10_put_binary(Octets* o, object value) except -1:
    cdef Py_buffer view
    if PyBytes_CheckExact(value):
        amqp10_add_variable(o, AMQP10_CODE_VBIN8, <const uint8_t*>PyBytes_AS_STRING(value),
                            <size_t>PyBytes_GET_SIZE(value))
        return 0
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    amqp10_add_variable(o, AMQP10_CODE_VBIN8, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return 0


cdef int amqp10_put_long(Octets* o, object value) except -1:
    cdef int overflow = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise EncodeError(f"{value} is not a long; a ulong is ULong [1.6.10]")
    amqp10_add_long(o, number)
    return 0


cdef int amqp10_put_double(Octets* o, double value) except -1:
    cdef uint64_t bits
    memcpy(&bits, &value, 8)
    amqp10_add_fixed(o, AMQP10_CODE_DOUBLE, bits)
    return 0


cdef int amqp10_put_scalar(Octets* o, int type, object value) except -1:
    """Write a value of one of AMQP10_SCALARS, or an object that a field of the type accepts, which is checked here."""
    cdef float single
    cdef uint32_t bits
    if type == AMQP10_UINT:
        amqp10_add_uint(o, <uint32_t>whole_number(value, 0xFFFFFFFF, "uint"))
    elif type == AMQP10_ULONG:
        amqp10_add_ulong(o, ULong(value))
    elif type == AMQP10_SYMBOL:
        amqp10_put_symbol(o, value)
    elif type == AMQP10_UBYTE:
        amqp10_add_fixed(o, AMQP10_CODE_UBYTE, <uint64_t>whole_number(value, 0xFF, "ubyte"))
    elif type == AMQP10_USHORT:
        amqp10_add_fixed(o, AMQP10_CODE_USHORT, <uint64_t>whole_number(value, 0xFFFF, "ushort"))
    elif type == AMQP10_BYTE:
        amqp10_add_fixed(o, AMQP10_CODE_BYTE, <uint64_t><int64_t>Byte(value))
    elif type == AMQP10_SHORT:
        amqp10_add_fixed(o, AMQP10_CODE_SHORT, <uint64_t><int64_t>Short(value))
    elif type == AMQP10_INT:
        amqp10_add_int(o, <int32_t><int64_t>Int(value))
    elif type == AMQP10_TIMESTAMP:
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, <uint64_t><int64_t>int(Timestamp(amqp10_milliseconds(value))))
    elif type == AMQP10_FLOAT:
        single = <float><double>value
        memcpy(&bits, &single, 4)
        amqp10_add_fixed(o, AMQP10_CODE_FLOAT, bits)
    elif type == AMQP10_CHAR:
        amqp10_add_fixed(o, AMQP10_CODE_CHAR, <uint64_t>ord(value))
    elif type == AMQP10_DECIMAL32:
        amqp10_add_sized(o, AMQP10_CODE_DECIMAL32, value, 4)
    elif type == AMQP10_DECIMAL64:
        amqp10_add_sized(o, AMQP10_CODE_DECIMAL64, value, 8)
    else:
        amqp10_add_sized(o, AMQP10_CODE_DECIMAL128, value, 16)
    return 0


cdef int amqp10_add_sized(Octets* o, uint8_t code, object octets, Py_ssize_t size) except -1:
    """Write a constructor and its octets, after a check of their size: bytes.__new__ or a caller's class may have any size."""
    if not isinstance(octets, bytes) or PyBytes_GET_SIZE(octets) != size:
        raise EncodeError(f"{amqp10_constructor_name[code].decode('ascii')} has {size} bytes [1.6]")
    add_u8(o, code)
    add_octets(o, <const uint8_t*>PyBytes_AS_STRING(octets), <size_t>size)
    return 0
