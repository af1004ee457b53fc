# Field values of AMQP 0.9.1 as Python objects, in both directions: tables and arrays, which keep their octets and make objects on
# access, and types that determine the letter with which a value is written.
from cpython.dict cimport PyDict_CheckExact, PyDict_Contains, PyDict_SetItem
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_FromDouble
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from datetime import datetime as DATETIME, timedelta as TIMEDELTA, timezone as TIMEZONE
from decimal import Decimal as DECIMAL
from collections.abc import Mapping as MAPPING, Sequence as SEQUENCE

from wirefmt.amqp091.spec import FIELD_TYPES as AMQP091_FIELD_TYPE_ROWS


cdef enum:
    WRITE_START = 480           # octets that can be written without an allocation
    WALKED_OCTETS = 512         # tables up to this size are searched in place


cdef object AMQP091_TOP_U64 = (1 << 64) - 1


cdef dict amqp091_integer_ranges():
    """Smallest and largest value by letter."""
    cdef dict out = {}
    for row in AMQP091_FIELD_TYPE_ROWS:
        if "int" in row.name or row.name == "timestamp":
            bits = int(row.size * 8)
            out[ord(row.letter)] = (-2 ** (bits - 1), 2 ** (bits - 1) - 1) if row.name[0] == "i" else (0, 2 ** bits - 1)
    return out


cdef dict AMQP091_INTEGER_RANGES = amqp091_integer_ranges()
cdef object AMQP091_EPOCH = DATETIME(1970, 1, 1, tzinfo=TIMEZONE.utc)
cdef object AMQP091_SECOND = TIMEDELTA(seconds=1)


class Timestamp(int):
    """Seconds since 1970, 64 bits: an int that is written as a field value of type T.

    `to_datetime()` is the time in UTC; ValueError: it is after the year 9999, which datetime does not have.
    `Timestamp.of(datetime)` drops fractions of a second.
    """

    __slots__ = ()

    @classmethod
    def of(cls, moment):
        return cls(seconds_of(moment))

    def to_datetime(self):
        try:
            return AMQP091_EPOCH + int(self) * AMQP091_SECOND
        except OverflowError:
            raise ValueError(f"datetime has no time {int(self)} s after 1970: use int(timestamp)") from None

    def __repr__(self):
        return f"amqp091.Timestamp({int(self)})"


cdef object seconds_of(object moment):
    if moment.tzinfo is None:
        raise EncodeError("a datetime needs a time zone to be a timestamp")
    return (moment - AMQP091_EPOCH) // AMQP091_SECOND


# ------------------------------------------------------------------------------------------------ octets -> values

cdef inline object unique_text_or_octets(const uint8_t* p, uint32_t size):
    """A str; bytes if it is not UTF-8, so that it can be written back. For text that streams do not repeat."""
    cdef size_t bad = 0
    if is_ascii(p, size):
        return ascii_text(p, size)
    if not is_utf8(p, size, &bad):
        return octets_of(p, size)
    return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)


cdef inline object text_or_octets(const uint8_t* p, uint32_t size):
    """The same for text that streams repeat: short text is one object for many messages."""
    cdef SharedSlot* slot
    if size == 0 or size > SHARED_OCTETS or not WIREFMT_SHARES_VALUES:
        return unique_text_or_octets(p, size)
    slot = shared_slot(SHARED_TEXT, p, size)
    if is_held(slot, SHARED_TEXT, p, size):
        return <object>slot.value
    text = unique_text_or_octets(p, size)
    if isinstance(text, str):
        share(slot, SHARED_TEXT, p, size, text)
    return text


cdef object amqp091_field_value(bytes block, const Amqp091Entry* e):
    """The value of an entry in `block`."""
    cdef const uint8_t* p = e.at
    cdef uint8_t letter = e.letter
    cdef uint64_t bits
    cdef uint32_t half
    cdef double number
    cdef float narrow
    if letter == c"S":
        return text_or_octets(p, e.size)
    if letter == c"I":
        return <int32_t>load_u32(p)
    if letter == c"t":
        return p[0] != 0
    if letter == c"l" or letter == c"L":
        return <int64_t>load_u64(p)
    if letter == c"F":
        return amqp091_table_at(block, p - 4)
    if letter == c"A":
        return amqp091_array_at(block, p - 4)
    if letter == c"V":
        return None
    if letter == c"x":
        return octets_of(p, e.size)
    if letter == c"T":
        return Timestamp(load_u64(p))
    if letter == c"d":
        bits = load_u64(p)
        memcpy(&number, &bits, 8)
        return number
    if letter == c"f":
        half = load_u32(p)
        memcpy(&narrow, &half, 4)
        return PyFloat_FromDouble(narrow)
    if letter == c"D":
        return DECIMAL((0, tuple([int(digit) for digit in str(load_u32(p + 1))]), -<int>p[0]))
    if letter == c"b":
        return <int8_t>p[0]
    if letter == c"B":
        return p[0]
    if letter == c"s":
        return <int16_t>load_u16(p)
    if letter == c"u":
        return load_u16(p)
    return load_u32(p)                      # i


cdef enum:
    SHARED_ENTRY = 201          # kind of shared values: (name, value) of an entry of a table


cdef tuple entry_pair(bytes block, const Amqp091Entry* e):
    """(name, value) of a table's entry. A short one is one object for many messages, because streams repeat headers."""
    cdef const uint8_t* p = e.name.at - 1
    cdef size_t size = <size_t>(e.at - p) + e.size
    cdef SharedSlot* slot = NULL
    cdef tuple pair
    if size <= SHARED_OCTETS and WIREFMT_SHARES_VALUES and e.letter != c"F" and e.letter != c"A":
        slot = shared_slot(SHARED_ENTRY, p, size)
        if is_held(slot, SHARED_ENTRY, p, size):
            return <tuple>slot.value
    pair = (text_or_octets(e.name.at, e.name.size), amqp091_entry_value(block, e))
    PyObject_GC_UnTrack(<void*>pair)
    if slot != NULL:
        share(slot, SHARED_ENTRY, p, size, pair)
    return pair


cdef object amqp091_entry_value(bytes block, const Amqp091Entry* e):
    """The value of a table's entry."""
    value = amqp091_field_value(block, e)
    if not is_secret_name(e.name.at, e.name.size):
        return value
    if isinstance(value, FieldTable):
        (<FieldTable>value).secret = True
    elif isinstance(value, FieldArray):
        (<FieldArray>value).secret = True
    return hidden(value)


cdef str letter_of(const Amqp091Entry* e):
    return (<const char*>&e.letter)[:1].decode("ascii")


# ------------------------------------------------------------------------------------------------ values -> octets

cdef bytes taken_octets(Octets* o):
    """The written octets."""
    if o.failed:
        raise MemoryError
    return PyBytes_FromStringAndSize(<const char*>o.at, <Py_ssize_t>o.size)


cdef inline const uint8_t* octets_view(object value, Py_ssize_t* size, str field) except NULL:
    """The octets of a str (as UTF-8) or bytes, which live as long as the value."""
    cdef const uint8_t* p = ascii_octets(<PyObject*>value, size)
    return p if p != NULL else any_octets_view(value, size, field)


cdef const uint8_t* any_octets_view(object value, Py_ssize_t* size, str field) except NULL:
    if PyBytes_CheckExact(value):
        size[0] = PyBytes_GET_SIZE(value)
        return <const uint8_t*>PyBytes_AS_STRING(value)
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a str or bytes, not {type(value).__name__}")
    return any_utf8_view(value, size, field)


cdef int amqp091_write_shortstr(Octets* o, object value, str field) except -1:
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = octets_view(value, &size, field)
    if size > 255:
        raise EncodeError(f"{field}: {size} bytes, the limit is 255 [4.2.5.3]")
    amqp091_add_name(o, p, <uint8_t>size)
    return 0


cdef int amqp091_write_longstr(Octets* o, object value, str field) except -1:
    cdef Py_buffer view
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p
    if isinstance(value, (str, bytes)):
        p = octets_view(value, &size, field)
        return amqp091_write_sized(o, p, size, field)
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        return amqp091_write_sized(o, <const uint8_t*>view.buf, view.len, field)
    finally:
        PyBuffer_Release(&view)


cdef int amqp091_write_sized(Octets* o, const uint8_t* p, Py_ssize_t size, str field) except -1:
    """Write octets after four octets with their length."""
    if size > <Py_ssize_t>AMQP091_FRAME_TOP:
        raise EncodeError(f"{field}: {size} bytes, the limit is {AMQP091_FRAME_TOP} [4.2.5.3]")
    add_u32(o, <uint32_t>size)
    add_octets(o, p, <size_t>size)
    return 0


cdef int amqp091_write_table(Octets* o, object source, str field, int depth) except -1:
    """A table from a FieldTable, a mapping or (name, value) pairs."""
    cdef size_t opened
    if isinstance(source, FieldTable):
        add_octets(o, (<FieldTable>source).at, <size_t>4 + load_u32((<FieldTable>source).at))
        return 0
    opened = amqp091_open(o)
    name = None
    try:
        if PyDict_CheckExact(source):
            for name, value in (<dict>source).items():
                amqp091_write_shortstr(o, name, field)
                amqp091_write_value(o, value, field, depth)
        else:
            for name, value in (source.items() if isinstance(source, MAPPING) else source):
                amqp091_write_shortstr(o, name, field)
                amqp091_write_value(o, value, field, depth)
    except (EncodeError, TypeError) as error:
        amqp091_name_place(error, field, name)
        raise
    return amqp091_close_sized(o, opened, field)


cdef int amqp091_name_place(object error, str field, object place) except -1:
    """An error of a value in a table or an array tells its key or index, after the field; the outer ones come before it."""
    text = error.args[0]
    shown = repr(place)
    if isinstance(text, str) and text.startswith(field):
        error.args = (f"{field}[{shown if len(shown) <= 60 else shown[:60] + '...'}]{text[len(field):]}", *error.args[1:])
    return 0


cdef int amqp091_write_plain_table(Octets* o, dict source) except -1:
    """Write a table of values that are valid by construction: str of ASCII, int of 64 bits, bool. False: a value is another one,
    and nothing was written."""
    cdef size_t start = o.size
    cdef size_t opened = amqp091_open(o)
    cdef Py_ssize_t size = 0
    cdef int overflow = 0
    cdef int64_t number
    cdef const uint8_t* p
    for name, value in source.items():
        p = ascii_octets(<PyObject*>name, &size)
        if p == NULL or size > 255:
            break
        amqp091_add_name(o, p, <uint8_t>size)
        p = ascii_octets(<PyObject*>value, &size)
        if p != NULL and size <= <Py_ssize_t>AMQP091_FRAME_TOP:
            amqp091_add_value(o, c"S", p, <uint32_t>size)
        elif PyLong_CheckExact(value):
            number = PyLong_AsLongLongAndOverflow(value, &overflow)
            if overflow:
                break
            amqp091_add_i64(o, c"I" if -0x80000000 <= number <= 0x7FFFFFFF else c"l", number)
        elif value is True or value is False:
            amqp091_add_i64(o, c"t", value is True)
        else:
            break
    else:
        if o.size - opened <= AMQP091_FRAME_TOP:
            amqp091_close(o, opened)
            return True
    o.size = start
    return False


cdef int amqp091_write_array(Octets* o, object source, str field, int depth) except -1:
    cdef size_t opened
    if isinstance(source, FieldArray):
        add_octets(o, (<FieldArray>source).at, <size_t>4 + load_u32((<FieldArray>source).at))
        return 0
    cdef Py_ssize_t i = 0
    opened = amqp091_open(o)
    try:
        for value in source:
            amqp091_write_value(o, value, field, depth)
            i += 1
    except (EncodeError, TypeError) as error:
        amqp091_name_place(error, field, i)
        raise
    return amqp091_close_sized(o, opened, field)


cdef int amqp091_close_sized(Octets* o, size_t opened, str field) except -1:
    if o.size - opened > AMQP091_FRAME_TOP:
        raise EncodeError(f"{field}: {o.size - opened} bytes, the limit is {AMQP091_FRAME_TOP} [4.2.5.5]")
    amqp091_close(o, opened)
    return 0


cdef int amqp091_write_value(Octets* o, object value, str field, int depth) except -1:
    """Write a letter and a value; the Python type selects the type."""
    cdef int64_t number
    cdef int overflow = 0
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>value, &size)
    if p != NULL:
        add_u8(o, c"S")
        return amqp091_write_sized(o, p, size, field)
    if isinstance(value, str):
        return amqp091_write_typed(o, c"S", value, field, depth)
    if value is True or value is False:
        amqp091_add_i64(o, c"t", value is True)
        return 0
    if isinstance(value, int):
        if not PyLong_CheckExact(value) and isinstance(value, Timestamp):
            return amqp091_write_typed(o, c"T", value, field, depth)
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            raise EncodeError(f"{field}: no integer type holds {value}")
        amqp091_add_i64(o, c"I" if -0x80000000 <= number <= 0x7FFFFFFF else c"l", number)
        return 0
    if value is None:
        add_u8(o, c"V")
        return 0
    if isinstance(value, FieldValue):
        return amqp091_write_typed(o, (<FieldValue>value).code, (<FieldValue>value).value, field, depth)
    return amqp091_write_typed(o, amqp091_default_letter(value, field), value, field, depth)


cdef uint8_t amqp091_default_letter(object value, str field) except 0:
    """The type of less frequent values."""
    if isinstance(value, float):
        return c"d"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return c"x"
    if isinstance(value, (FieldTable, MAPPING)):
        return c"F"
    if isinstance(value, (FieldArray, list, tuple)):
        return c"A"
    if isinstance(value, DATETIME):
        return c"T"
    if isinstance(value, DECIMAL):
        return c"D"
    if PyIndex_Check(value):
        number = PyNumber_Index(value)      # NumPy's integers
        return c"I" if -0x80000000 <= number <= 0x7FFFFFFF else c"l"
    raise TypeError(f"{field}: no type of field values holds a {type(value).__name__}")


cdef int amqp091_write_typed(Octets* o, uint8_t letter, object value, str field, int depth) except -1:
    """A letter, and a value as that type."""
    cdef double number
    cdef float narrow
    cdef uint64_t bits
    cdef uint32_t half
    add_u8(o, letter)
    if letter == c"S" or letter == c"x":
        amqp091_write_longstr(o, value, field)
    elif letter == c"F" or letter == c"A":
        if depth == AMQP091_NESTING_MAX:
            raise EncodeError(f"{field}: tables and arrays nested deeper than {depth}")
        if letter == c"F":
            amqp091_write_table(o, value, field, depth + 1)
        else:
            amqp091_write_array(o, value, field, depth + 1)
    elif letter == c"t":
        add_u8(o, 1 if value else 0)
    elif letter == c"d":
        number = value
        memcpy(&bits, &number, 8)
        add_u64(o, bits)
    elif letter == c"f":
        narrow = <float><double>value
        memcpy(&half, &narrow, 4)
        add_u32(o, half)
    elif letter == c"D":
        amqp091_write_decimal(o, value, field)
    elif letter != c"V":
        amqp091_write_integer(o, letter, value, field)
    elif value is not None:
        raise EncodeError(f"{field}: void must be None, not {value!r}")
    return 0


cdef int amqp091_write_integer(Octets* o, uint8_t letter, object value, str field) except -1:
    """Write an integer or a timestamp in the size of its type."""
    if isinstance(value, DATETIME) and letter == c"T":
        value = seconds_of(value)
    if not PyIndex_Check(value):
        raise TypeError(f"{field}: type {chr(letter)} holds an int, not {type(value).__name__}")
    number = PyNumber_Index(value)
    low, high = <tuple>AMQP091_INTEGER_RANGES[letter]
    if not low <= number <= high:
        raise EncodeError(f"{field}: {number} is out of range ({low} to {high}) for type {chr(letter)}")
    amqp091_add_number(o, amqp091_letter_size[letter], <uint64_t>(number & AMQP091_TOP_U64))
    return 0


cdef int amqp091_write_decimal(Octets* o, object value, str field) except -1:
    """Scale, then an unsigned number of four octets, as RabbitMQ reads them."""
    try:
        number = DECIMAL(value)
    except ArithmeticError:                     # of text that is not a number
        raise EncodeError(f"{field}: type D holds a number, not {value!r}") from None
    sign, digits, exponent = number.as_tuple()
    if not number.is_finite() or (sign and number):
        raise EncodeError(f"{field}: type D holds only non-negative numbers, not {number}")
    unscaled = int("".join(map(str, digits[:11])))      # 32 bits are ten digits
    if exponent > 0:
        unscaled *= 10 ** min(exponent, 10)
        exponent = 0
    if -exponent > 255 or unscaled > 0xFFFFFFFF:
        raise EncodeError(f"{field}: {number} exceeds 255 decimals or 32 bits, the limits of type D")
    add_u8(o, <uint8_t>-exponent)
    add_u32(o, <uint32_t>unscaled)
    return 0


# ------------------------------------------------------------------------------------------------ types

cdef dict AMQP091_FIELD_TYPE_NAMES = {row.letter: row.name for row in AMQP091_FIELD_TYPE_ROWS}


@cython.final
@cython.no_gc
cdef class FieldValue:
    """A value with its type letter, to use another letter than the default of its Python type.

    By default str is written as S, bytes as x, bool as t, int as I or l, float as d, None as V,
    decimal.Decimal as D, datetime and Timestamp as T, mappings as F, lists and tuples as A. Raises EncodeError if the
    type cannot hold the value.
    """
    cdef uint8_t code
    cdef readonly object value

    __match_args__ = ("letter", "value")

    def __init__(self, str letter not None, value):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        if letter not in AMQP091_FIELD_TYPE_NAMES:
            raise EncodeError(f"{letter!r} is not a type of field values")
        if letter == "F":
            value = value if isinstance(value, FieldTable) else FieldTable(value)
        elif letter == "A":
            value = value if isinstance(value, FieldArray) else FieldArray(value)
        elif letter in "Sx" and not isinstance(value, (str, bytes)):
            value = take_block(value)
        o = octets_over(start, WRITE_START)
        try:
            amqp091_write_typed(&o, <uint8_t>ord(letter), value, "value", 0)
        finally:
            free_octets(&o)
        self.value = value
        self.code = <uint8_t>ord(letter)

    @property
    def letter(self):
        return chr(self.code)

    @property
    def type(self):
        """The letter's name: int8, uint8, int16, ..."""
        return AMQP091_FIELD_TYPE_NAMES[self.letter]

    def __eq__(self, other):
        if not isinstance(other, FieldValue):
            return NotImplemented
        return self.code == (<FieldValue>other).code and self.value == (<FieldValue>other).value

    def __hash__(self):
        return hash((self.code, self.value))

    def __repr__(self):
        return f"amqp091.FieldValue({self.letter!r}, {self.value!r})"

    def __reduce__(self):
        return FieldValue, (self.letter, self.value)


cdef object amqp091_shown_entry(object value, str letter):
    """A value whose repr names its type, if its Python type alone would select another type."""
    cdef uint8_t default
    if isinstance(value, bool):
        default = c"t"
    elif isinstance(value, Timestamp):
        default = c"T"
    elif isinstance(value, int):
        default = c"I" if -0x80000000 <= value <= 0x7FFFFFFF else c"l"
    elif isinstance(value, str):
        default = c"S"
    elif value is None:
        default = c"V"
    else:
        default = amqp091_default_letter(value, "")
    return value if chr(default) == letter else FieldValue(letter, value)


cdef int amqp091_check_table(bytes octets) except -1:
    """Check the octets of a table, and raise its fault."""
    cdef Amqp091Options o
    cdef Fault f
    memset(&o, 0, sizeof(o))
    o.common.strict = 1
    if amqp091_parse_table(begin_of(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &f) != OK:
        raise_fault(&AMQP091_TABLES, &f, 0)
    return 0


@cython.final
@cython.freelist(256)
@cython.no_gc
@cython.collection_type("mapping")
cdef class FieldTable:
    """A field table (general 4.2.5.5): an immutable mapping of names to values that keeps its bytes.

    FieldTable(source): a mapping or (name, value) pairs; FieldValue describes the types of values. A FieldTable
    in another message is written unchanged. Names and strings are str, or bytes if they are not UTF-8.

    A table may repeat a name: the mapping has the first entry, as in RabbitMQ; `pairs` and `entries` have all, in
    order. Two tables are equal if their bytes are equal; a table equals another mapping with the same names and values.
    """
    cdef bytes block
    cdef const uint8_t* at      # its length
    cdef tuple cached           # pairs
    cdef dict looked_up
    cdef bint secret            # the table has a secret name

    def __init__(self, source=(), /):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        o = octets_over(start, WRITE_START)
        try:
            amqp091_write_table(&o, source, "field table", 0)
            octets = taken_octets(&o)
        finally:
            free_octets(&o)
        amqp091_check_built_table(octets)
        self.block = octets
        self.at = begin_of(octets)

    @classmethod
    def decode(cls, data, /):
        """Decode a table from exactly these bytes: four bytes of length, then the entries. Raises DecodeError."""
        cdef bytes octets = take_block(data)
        amqp091_check_table(octets)
        return amqp091_table_at(octets, begin_of(octets))

    def encode(self):
        """Its bytes: four bytes of length, then the entries."""
        return octets_of(self.at, 4 + load_u32(self.at))

    @property
    def pairs(self):
        """(name, value) of every entry, in order."""
        return self.all_pairs()

    @property
    def entries(self):
        """(name, letter, value) of every entry, in order."""
        cdef Amqp091Entry e
        cdef list out = []
        cdef Cursor c = amqp091_entries(self.at)
        while amqp091_next_entry(&c, True, &e):
            out.append((text_or_octets(e.name.at, e.name.size), letter_of(&e), amqp091_entry_value(self.block, &e)))
        return tuple(out)

    cdef tuple all_pairs(self):
        cdef Amqp091Entry e
        cdef tuple out, pair
        cdef Cursor c
        cdef Py_ssize_t count = 0
        if self.cached is None:
            c = amqp091_entries(self.at)
            while amqp091_next_entry(&c, True, &e):
                count += 1
            out = PyTuple_New(count)
            c = amqp091_entries(self.at)
            count = 0
            while amqp091_next_entry(&c, True, &e):
                pair = entry_pair(self.block, &e)
                Py_INCREF(pair)
                PyTuple_SET_ITEM(out, count, pair)
                count += 1
            PyObject_GC_UnTrack(<void*>out)         # these values cannot form a cycle
            self.cached = out
        return self.cached

    cdef dict as_dict(self):
        """The first value of each name."""
        cdef dict found
        if self.looked_up is None:
            found = {}
            for name, value in self.all_pairs():
                if not PyDict_Contains(found, name):
                    PyDict_SetItem(found, name, value)
            self.looked_up = found
        return self.looked_up

    def __getitem__(self, name):
        cdef Amqp091Entry e
        cdef Py_ssize_t size = 0
        cdef const uint8_t* p
        if self.cached is None and isinstance(name, str) and load_u32(self.at) <= WALKED_OCTETS:
            p = octets_view(name, &size, "name")
            if amqp091_find_entry(self.at, <const char*>p, <size_t>size, &e):
                return amqp091_entry_value(self.block, &e)
            raise KeyError(name)
        return self.as_dict()[name]

    def get(self, name, default=None, /):
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name):
        return name in self.as_dict()

    def __len__(self):
        return len(self.as_dict())

    def __iter__(self):
        return iter(self.as_dict())

    def keys(self):
        return self.as_dict().keys()

    def values(self):
        return self.as_dict().values()

    def items(self):
        return self.as_dict().items()

    def __eq__(self, other):
        cdef uint32_t size
        if isinstance(other, FieldTable):
            size = load_u32(self.at)
            return size == load_u32((<FieldTable>other).at) and \
                memcmp(self.at, (<FieldTable>other).at, <size_t>4 + size) == 0
        if isinstance(other, MAPPING):
            return len(self.all_pairs()) == len(self.as_dict()) and self.as_dict() == other
        return NotImplemented

    def __hash__(self):
        return hash(self.encode())

    def __repr__(self):
        if self.secret:
            return f"amqp091.FieldTable({{{SECRET_SHOWN!r}: {SECRET_SHOWN!r}}})"
        cdef list shown = [(name, SECRET_SHOWN if secret_name(name) else amqp091_shown_entry(value, letter))
                           for name, letter, value in self.entries]
        if len(shown) == len(self):
            return f"amqp091.FieldTable({dict(shown)!r})"
        return f"amqp091.FieldTable({shown!r})"

    def __reduce__(self):
        return restore_value, (True, self.encode())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


cdef inline FieldTable amqp091_table_at(bytes block, const uint8_t* at):
    """The table whose length is at `at` in `block`."""
    cdef FieldTable t = FieldTable.__new__(FieldTable)
    t.block = block
    t.at = at
    return t


@cython.final
@cython.no_gc
@cython.collection_type("sequence")
cdef class FieldArray:
    """A field array: an immutable sequence of values that keeps its bytes; `items` is (letter, value) of each.

    FieldArray(values): any iterable. Equal to another array of the same bytes, and to a list or tuple of the same values.
    """
    cdef bytes block
    cdef const uint8_t* at      # its length
    cdef tuple cached
    cdef bint secret            # the array has a secret name

    def __init__(self, source=(), /):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        o = octets_over(start, WRITE_START)
        try:
            # as the only entry of a table, because tables can be checked
            opened = amqp091_open(&o)
            add_u8(&o, 0)
            amqp091_write_typed(&o, c"A", source, "field array", 0)
            amqp091_close_sized(&o, opened, "field array")
            octets = taken_octets(&o)
        finally:
            free_octets(&o)
        amqp091_check_built_table(octets)
        self.block = octets
        self.at = begin_of(octets) + 6

    def encode(self):
        """Its bytes: four bytes of length, then the items."""
        return octets_of(self.at, 4 + load_u32(self.at))

    @property
    def items(self):
        """(letter, value) of every item."""
        cdef Amqp091Entry e
        cdef list out = []
        cdef Cursor c = amqp091_entries(self.at)
        while amqp091_next_entry(&c, False, &e):
            out.append((letter_of(&e), amqp091_field_value(self.block, &e)))
        return tuple(out)

    cdef tuple all_values(self):
        if self.cached is None:
            self.cached = tuple([value for _, value in self.items])
        return self.cached

    def __getitem__(self, index):
        return self.all_values()[index]

    def __len__(self):
        return len(self.all_values())

    def __iter__(self):
        return iter(self.all_values())

    def __contains__(self, value):
        return value in self.all_values()

    def __eq__(self, other):
        cdef uint32_t size
        if isinstance(other, FieldArray):
            size = load_u32(self.at)
            return size == load_u32((<FieldArray>other).at) and \
                memcmp(self.at, (<FieldArray>other).at, <size_t>4 + size) == 0
        if isinstance(other, (list, tuple)):
            return self.all_values() == tuple(other)
        return NotImplemented

    def __hash__(self):
        return hash(self.encode())

    def __repr__(self):
        if self.secret:
            return f"amqp091.FieldArray([{SECRET_SHOWN!r}])"
        return f"amqp091.FieldArray({[amqp091_shown_entry(value, letter) for letter, value in self.items]!r})"

    def __reduce__(self):
        return restore_value, (False, self.encode())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


cdef inline FieldArray amqp091_array_at(bytes block, const uint8_t* at):
    cdef FieldArray a = FieldArray.__new__(FieldArray)
    a.block = block
    a.at = at
    return a


cdef int amqp091_check_built_table(bytes octets) except -1:
    """Check that the octets of a constructor can be read back: nested tables that were passed as objects may nest too deep."""
    cdef Amqp091Options o
    cdef Fault f
    memset(&o, 0, sizeof(o))
    o.common.strict = 1
    if amqp091_parse_table(begin_of(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &f) != OK:
        raise encode_error(&AMQP091_TABLES, &f)
    return 0


def restore_value(bint is_table, bytes octets not None):
    """Unpickle a table or an array."""
    if is_table:
        return FieldTable.decode(octets)
    table = b"\0A" + octets
    table = len(table).to_bytes(4, "big") + table
    amqp091_check_table(table)
    return amqp091_array_at(table, begin_of(table) + 6)


MAPPING.register(FieldTable)
SEQUENCE.register(FieldArray)
