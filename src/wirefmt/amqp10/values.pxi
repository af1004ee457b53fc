# AMQP 1.0 values as Python objects, and Python objects as AMQP 1.0 values: lists, maps, arrays, described values and
# composites. Scalars: amqp10_scalars.
#
# List, Map, Array, Described and the composites keep the octets they lie in: what they hold becomes objects when it is
# asked for, and they are written again as they were. What Python calls list, tuple and dict is taken where values go in.
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError, PyDict_SetItem
from cpython.float cimport PyFloat_CheckExact
from wirefmt._core.octets cimport Octets, add_octets, add_u8, free_octets, octets_over

cdef extern from *:
    dict __Pyx_PyDict_NewPresized(Py_ssize_t n)     # Cython's own: with room for n entries


from collections.abc import Mapping, Sequence
from sys import intern
from types import MappingProxyType


# ------------------------------------------------------------------------------------------------ octets -> objects

cdef object amqp10_value_of(bytes block, const Amqp10ValueView* v, bint plain):
    """The object of a (checked) value that lies in `block`. `plain`: its type is known beforehand, so that integers
    need not bear theirs."""
    cdef int type = v.type
    if type == AMQP10_STRING:
        return amqp10_string_of(v.body, v.size)
    if type == AMQP10_NULL:
        return None
    if type == AMQP10_BOOLEAN:
        return amqp10_unsigned(v) != 0
    if type == AMQP10_SYMBOL:
        return amqp10_symbol_of(v.body, v.size)
    if type == AMQP10_BINARY:
        return octets_of(v.body, v.size)
    if type == AMQP10_LONG or (plain and (AMQP10_BYTE <= type <= AMQP10_INT or type == AMQP10_TIMESTAMP)):
        return PyLong_FromLongLong(amqp10_signed(v))
    if plain and AMQP10_UBYTE <= type <= AMQP10_ULONG:
        return PyLong_FromUnsignedLongLong(amqp10_unsigned(v))
    if type == AMQP10_DOUBLE:
        return amqp10_double_of(amqp10_unsigned(v))
    if type == AMQP10_LIST:
        return amqp10_hold_value(List.__new__(List), block, v)
    if type == AMQP10_MAP:
        return amqp10_hold_value(Map.__new__(Map), block, v)
    if type == AMQP10_ARRAY:
        return amqp10_hold_value(Array.__new__(Array), block, v)
    if type == AMQP10_DESCRIBED:
        return amqp10_described_of(block, v)
    if type == AMQP10_UUID:
        return amqp10_uuid_of(v.body)
    return amqp10_shared_scalar(v)


cdef object amqp10_described_of(bytes block, const Amqp10ValueView* v):
    """A composite's class where the value is one, in every rule of STRICT; else a Described."""
    cdef Amqp10Reader x
    cdef Amqp10Options o
    cdef Fault f
    cdef bint irregular = False
    cdef int shape = 0
    if v.body == NULL:
        shape = amqp10_shape_of(amqp10_descriptor(v), &irregular)
    if shape:
        amqp10_strict_options(&o)
        amqp10_begin(&x, v.constructor, &o, &f)
        if amqp10_take_composite(&x, v.constructor, v.end, 0, AMQP10_VALUES_PROVIDE, True, NULL) != NULL:
            return amqp10_composite_of(block, v.constructor, shape)
    return amqp10_hold_value(Described.__new__(Described), block, v)


cdef enum:
    AMQP10_VALUES_PROVIDE = (AMQP10_COMPOSITES_PROVIDE | AMQP10_PROVIDES_LIFETIME_POLICY |
                             AMQP10_PROVIDES_TRANSACTION)


# ------------------------------------------------------------------------------------------------ objects -> octets

cdef int amqp10_put_value(Octets* o, object value, int depth) except -1:
    """Write a Python object as the matching AMQP value, in the smallest encoding; values that were decoded, in the
    encoding they have."""
    cdef object kind = type(value)
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p
    if depth > AMQP10_NESTING_MAX:
        raise EncodeError(f"values nest deeper than {AMQP10_NESTING_MAX} levels [1.6]")
    p = ascii_octets(<PyObject*>value, &size)
    if p != NULL:
        amqp10_add_variable(o, AMQP10_CODE_STR8, p, <size_t>size)
    elif kind is str:
        amqp10_put_string(o, value)
    elif kind is int:
        amqp10_put_long(o, value)
    elif value is None:
        amqp10_add_null(o)
    elif kind is bool:
        amqp10_add_boolean(o, value is True)
    elif kind is bytes:
        amqp10_add_variable(o, AMQP10_CODE_VBIN8, <const uint8_t*>PyBytes_AS_STRING(value),
                            <size_t>PyBytes_GET_SIZE(value))
    elif kind is float:
        amqp10_put_double(o, value)
    elif kind in AMQP10_TYPE_OF_CLASS:
        amqp10_put_scalar(o, AMQP10_TYPE_OF_CLASS[kind], value)
    elif isinstance(value, Value):
        amqp10_add_value(o, &(<Value>value).v)
    elif isinstance(value, Composite):
        amqp10_put_composite(o, <Composite>value)
    elif kind is list or kind is tuple:
        amqp10_put_list(o, value, depth)
    elif kind is dict:
        amqp10_put_dict(o, <dict>value, depth)
    else:
        amqp10_put_other(o, value, depth)
    return 0


cdef int amqp10_put_other(Octets* o, object value, int depth) except -1:
    """Objects that are asked what they are like."""
    if isinstance(value, UUID):
        amqp10_add_sized(o, AMQP10_CODE_UUID, value.bytes, 16)
    elif isinstance(value, datetime):
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, <uint64_t><int64_t>int(Timestamp(amqp10_milliseconds(value))))
    elif isinstance(value, str):
        amqp10_put_string(o, value)
    elif isinstance(value, float):
        amqp10_put_double(o, value)
    elif isinstance(value, (list, tuple)):
        amqp10_put_list(o, value, depth)
    elif hasattr(value, "items"):
        amqp10_put_map(o, value.items(), depth)
    elif PyIndex_Check(value):
        amqp10_put_long(o, PyNumber_Index(value))
    elif isinstance(value, (bytes, bytearray, memoryview)):
        amqp10_put_binary(o, value)
    else:
        raise TypeError(f"no AMQP 1.0 type for {type(value).__name__}")
    return 0


cdef int amqp10_put_list(Octets* o, object items, int depth) except -1:
    cdef size_t mark = amqp10_open(o)
    cdef size_t count = 0
    for item in items:
        amqp10_put_value(o, item, depth + 1)
        count += 1
    amqp10_close(o, mark, AMQP10_CODE_LIST8, count)
    return 0


cdef int amqp10_put_map(Octets* o, object pairs, int depth) except -1:
    cdef size_t mark = amqp10_open(o)
    cdef size_t count = 0
    for key, item in pairs:
        amqp10_put_value(o, key, depth + 1)
        amqp10_put_value(o, item, depth + 1)
        count += 2
    amqp10_close(o, mark, AMQP10_CODE_MAP8, count)
    return 0


cdef int amqp10_put_dict(Octets* o, dict entries, int depth) except -1:
    cdef size_t mark = amqp10_open(o)
    cdef size_t count = 0
    for key, item in entries.items():
        amqp10_put_value(o, key, depth + 1)
        amqp10_put_value(o, item, depth + 1)
        count += 2
    amqp10_close(o, mark, AMQP10_CODE_MAP8, count)
    return 0


cdef int amqp10_put_symbols(Octets* o, object names) except -1:
    """A field that is `multiple`: one symbol, or an array of them."""
    cdef Octets written
    cdef size_t mark
    cdef Py_ssize_t count = 0
    if isinstance(names, str):
        return amqp10_put_symbol(o, names)
    memset(&written, 0, sizeof(Octets))
    try:
        for name in names:
            amqp10_put_symbol(&written, name)
            count += 1
        mark = amqp10_open(o)
        if count:
            amqp10_add_elements(o, &written, amqp10_common_code(&written))
        else:
            add_u8(o, AMQP10_CODE_SYM8)
        amqp10_close(o, mark, AMQP10_CODE_ARRAY8, <size_t>count)
        if written.failed:
            o.failed = True
    finally:
        free_octets(&written)
    return 0


cdef bytes amqp10_written_octets(const Octets* o):
    if o.failed:
        raise MemoryError
    return PyBytes_FromStringAndSize(<const char*>o.at, <Py_ssize_t>o.size)


# ------------------------------------------------------------------------------------------------ lists, maps, arrays

@cython.freelist(256)
@cython.no_gc
cdef class Value:
    """Base of List, Map, Array and Described: a value in the input it was decoded from. Immutable.

    Two of them are equal if they are the same AMQP value, including types, however encoded. `encode()` returns the bytes
    of the value: those it was decoded from, or the smallest encoding of a new value.
    """
    cdef bytes block
    cdef Amqp10ValueView v
    cdef object cached
    cdef bint secret            # it lies under a secret name

    def __init__(self):
        raise TypeError("Value is a base class: use the class of a value")

    def encode(self):
        cdef Octets o
        memset(&o, 0, sizeof(Octets))
        amqp10_add_value(&o, &self.v)
        try:
            return amqp10_written_octets(&o)
        finally:
            free_octets(&o)

    def __reduce__(self):
        return restore_value, (self.encode(),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    cdef int settle(self, Octets* o, int type) except -1:
        """Take the octets that a constructor wrote, if they are a value of STRICT's."""
        cdef Amqp10Options options
        cdef Fault f
        cdef bytes octets
        octets = amqp10_written_octets(o)
        amqp10_strict_options(&options)
        if amqp10_parse_value(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &options,
                              &f) != OK:
            raise amqp10_encode_error(&f)
        amqp10_read(<const uint8_t*>PyBytes_AS_STRING(octets), &self.v)
        if self.v.type != type:
            raise EncodeError(f"{amqp10_type_name[self.v.type].decode('ascii')} where "
                              f"{amqp10_type_name[type].decode('ascii')} was to be")
        self.block = octets
        return 0

    cdef bint same(self, Value other):
        return amqp10_compare(&self.v, &other.v) == 0


cdef inline object amqp10_hold_value(Value held, bytes block, const Amqp10ValueView* v):
    held.block = block
    held.v = v[0]
    return held


cdef void amqp10_strict_options(Amqp10Options* o) noexcept nogil:
    memset(o, 0, sizeof(Amqp10Options))
    o.strict = 1


cdef object amqp10_encode_error(const Fault* f):
    cdef char text[256]
    return EncodeError(text[:fault_text(&AMQP10_TABLES, f, 0, text, sizeof(text))].decode("utf-8"))


cdef class BaseSequence(Value):
    """Base class of List and Array: they read like tuples, and equal tuples and lists of equal elements."""

    cdef tuple items(self):
        cdef Amqp10Items items
        cdef Amqp10ValueView v
        cdef list out
        if self.cached is None:
            items = self.elements()
            out = []
            while amqp10_next(&items, &v):
                out.append(amqp10_value_of(self.block, &v, False))
            self.cached = tuple(out)
        return <tuple>self.cached

    cdef Amqp10Items elements(self) noexcept:
        cdef Amqp10Items items = amqp10_items(&self.v)
        if items.constructor != NULL:
            items.constructor = amqp10_primitive(items.constructor)
        return items

    def __len__(self):
        return self.v.count

    def __iter__(self):
        return iter(self.items())

    def __getitem__(self, index):
        return self.items()[index]

    def __contains__(self, value):
        return value in self.items()

    def index(self, value, *bounds):
        """As in tuple."""
        return self.items().index(value, *bounds)

    def count(self, value):
        """As in tuple."""
        return self.items().count(value)

    def __eq__(self, other):
        if isinstance(other, BaseSequence):
            return type(self) is type(other) and self.same(<Value>other)
        if not isinstance(other, (tuple, list)):
            return NotImplemented
        return self.v.count == len(other) and self.items() == tuple(other)

    def __hash__(self):
        return amqp10_hash_of(self.items())


cdef Py_hash_t amqp10_hash_of(tuple items) except? -1:
    """That of the tuple; but NaN, which has another hash each time, is a part of equal values."""
    return hash(tuple([None if isinstance(item, float) and item != item else item for item in items]))


@cython.final
cdef class List(BaseSequence):
    """list (1.6.22): `List([1, "a", None])`. Reads as a tuple does."""

    def __init__(self, items=(), /):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        try:
            amqp10_put_list(&o, items, 0)
            self.settle(&o, AMQP10_LIST)
        finally:
            free_octets(&o)

    def __repr__(self):
        return f"amqp10.List({[SECRET_SHOWN] if self.secret else list(self.items())!r})"


@cython.final
cdef class Array(BaseSequence):
    """array (1.6.24): values of one type, `Array("uint", [1, 2])`.

    type: a name of wirefmt.amqp10.spec.TYPES, or the name of one constructor (CONSTRUCTORS there) for all elements:
    RabbitMQ does not read arrays of smalluint, smallulong, smallint, smalllong, list8, map8 and array8, which the
    smallest encoding uses for small values. descriptors: the descriptors of the elements, if they are described values;
    `values` are then the described values, and so are the elements on reading.
    The number of elements without bytes (null, true, uint0 ...) is not limited: `Array.repeat`.
    """

    def __init__(self, type, values=(), /, *, descriptors=()):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        try:
            amqp10_put_array(&o, type, values, descriptors)
            self.settle(&o, AMQP10_ARRAY)
        finally:
            free_octets(&o)

    @staticmethod
    def repeat(value, count, /):
        """An array of `count` times the same None, True, False, UInt(0), ULong(0) or empty list; it adds only five bytes."""
        cdef Octets o
        cdef Array array = Array.__new__(Array)
        cdef size_t mark
        memset(&o, 0, sizeof(Octets))
        try:
            mark = amqp10_open(&o)
            amqp10_put_value(&o, value, 0)
            if o.size != mark + AMQP10_HEAD + 1:
                raise EncodeError(f"{value!r} is not a value without bytes: write it as often as the array has it [1.6.24]")
            amqp10_close(&o, mark, AMQP10_CODE_ARRAY8, <size_t>whole_number(count, 0xFFFFFFFF, "count"))
            array.settle(&o, AMQP10_ARRAY)
        finally:
            free_octets(&o)
        return array

    @property
    def type(self):
        """The type of the elements, for example "uint"."""
        return amqp10_type_name[amqp10_constructors[amqp10_primitive(self.v.inner)[0]].type].decode("ascii")

    @property
    def constructor(self):
        """The constructor of the elements, for example 0x52 for smalluint."""
        return amqp10_primitive(self.v.inner)[0]

    @property
    def descriptors(self):
        """The descriptors of the elements, outermost first; () if they are not described."""
        cdef const uint8_t* at
        cdef Amqp10ValueView v
        cdef list out = []
        at = self.v.inner
        while at[0] == 0:
            amqp10_read(at + 1, &v)
            out.append(amqp10_value_of(self.block, &v, False))
            at = v.end
        return tuple(out)

    def __hash__(self):
        # more than can be: an equal tuple is not to be expected
        return <Py_hash_t>(amqp10_hash(&self.v, 0) >> 1) if self.v.count > 1_000_000 else amqp10_hash_of(self.items())

    def __eq__(self, other):
        # None is as good as None: comparing does not make the elements
        return BaseSequence.__eq__(self, other)

    def __iter__(self):
        return iter(self.items()) if self.v.count <= 1_000_000 else self.walk()

    def __getitem__(self, index):
        if self.v.size or not PyIndex_Check(index):
            return self.items()[index]
        number = PyNumber_Index(index)
        if not -<int64_t>self.v.count <= number < <int64_t>self.v.count:
            raise IndexError("array index out of range")
        return next(self.walk())

    def walk(self):
        """Iterate over the elements without caching them."""
        cdef Amqp10Items items
        cdef Amqp10ValueView v
        items = self.elements()
        while amqp10_next(&items, &v):
            yield amqp10_value_of(self.block, &v, False)

    def __repr__(self):
        if self.secret:
            return f"amqp10.Array('string', {[SECRET_SHOWN]!r})"
        descriptors = self.descriptors
        said = f", descriptors={descriptors!r}" if descriptors else ""
        if self.v.count > 1 and self.v.size == 0 and not descriptors:
            return f"amqp10.Array.repeat({next(self.walk())!r}, {self.v.count})"
        return f"amqp10.Array({self.type!r}, {list(self.items())!r}{said})"


cdef int amqp10_put_array(Octets* o, object name, object values, object descriptors) except -1:
    cdef size_t mark = amqp10_open(o)
    cdef int type, code = 0
    cdef Octets written
    cdef size_t count = 0
    if name in AMQP10_TYPE_OF_NAME:
        type = AMQP10_TYPE_OF_NAME[name]
    elif name in AMQP10_CODE_OF_NAME:
        code = AMQP10_CODE_OF_NAME[name]
        type = amqp10_constructors[code].type
    else:
        raise EncodeError(f"{name!r} is neither a type nor a constructor [1.6]")
    for descriptor in descriptors:
        add_u8(o, 0)
        amqp10_put_value(o, descriptor, 1)
    memset(&written, 0, sizeof(Octets))
    try:
        for value in values:
            amqp10_put_typed(&written, type, value)
            count += 1
        amqp10_put_elements(o, type, <uint8_t>code, &written, count)
    finally:
        free_octets(&written)
    amqp10_close(o, mark, AMQP10_CODE_ARRAY8, count)
    return 0


cdef int amqp10_put_elements(Octets* o, int type, uint8_t code, const Octets* written, size_t count) except -1:
    """The constructor `code` (0: the smallest that serves) and the contents of values that were written."""
    cdef const uint8_t* at = written.at
    cdef const uint8_t* end = at + written.size
    cdef Amqp10ValueView v
    cdef uint8_t needed = 0
    if written.failed:
        raise MemoryError
    while at < end:
        amqp10_read(at, &v)
        if v.type != type:
            raise EncodeError(f"{amqp10_type_name[v.type].decode('ascii')} in an array of "
                              f"{amqp10_type_name[type].decode('ascii')} [1.6.24]")
        needed = amqp10_element_code(&v, needed)
        at = v.end
    if code == 0:
        code = needed if count else amqp10_code_of_type(type)
    elif amqp10_constructors[code].zero:
        if count and not amqp10_all_are(written, code):
            raise EncodeError("elements do not match the constructor [1.6.24]")
    elif count and code != needed and code != amqp10_wide_code(needed):
        raise EncodeError("elements do not fit the constructor [1.6.24]")
    amqp10_add_elements(o, written, code)
    return 0


cdef bint amqp10_all_are(const Octets* written, uint8_t code) noexcept nogil:
    cdef size_t i
    for i in range(written.size):
        if written.at[i] != code:
            return False
    return True


cdef uint8_t amqp10_code_of_type(int type) noexcept nogil:
    """The narrowest constructor of a type whose elements take octets, but for null."""
    cdef int code
    cdef uint8_t narrow = amqp10_narrow_code(type)
    if narrow:
        return narrow
    for code in range(256):
        if amqp10_constructors[code].category and amqp10_constructors[code].type == type:
            break
    return <uint8_t>code


cdef int amqp10_put_typed(Octets* o, int type, object value) except -1:
    """A Python object as a value of a type that is known: 1 may be a uint."""
    if AMQP10_UBYTE <= type <= AMQP10_INT or type == AMQP10_TIMESTAMP or type == AMQP10_FLOAT or type == AMQP10_SYMBOL:
        return amqp10_put_scalar(o, type, value)
    if type == AMQP10_CHAR:
        return amqp10_put_scalar(o, type, Char(value))
    if AMQP10_DECIMAL32 <= type <= AMQP10_DECIMAL128:
        return amqp10_put_scalar(o, type, AMQP10_SCALARS[type](value))
    if type == AMQP10_BINARY:
        return amqp10_put_binary(o, value)
    if type == AMQP10_DOUBLE:
        return amqp10_put_double(o, value)
    return amqp10_put_value(o, value, 1)


@cython.final
cdef class Map(Value):
    """map (1.6.23): `Map({"a": 1})` or `Map([("a", 1)])`. Reads as a dict does, and equals dicts of equal entries.

    Entries keep their order, which is part of the value. `pairs` has them all: keys that are equal in Python (UInt(1)
    and ULong(1)) are one key for a dict, and LAX accepts equal keys; the last one counts.
    """

    def __init__(self, entries=(), /):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        try:
            amqp10_put_map(&o, entries.items() if hasattr(entries, "items") else entries, 0)
            self.settle(&o, AMQP10_MAP)
        finally:
            free_octets(&o)

    cdef dict entries(self):
        cdef Amqp10Items items
        cdef Amqp10ValueView v
        cdef dict out
        if self.cached is None:
            items = amqp10_items(&self.v)
            out = __Pyx_PyDict_NewPresized(items.left >> 1)
            while amqp10_next(&items, &v):
                key = amqp10_value_of(self.block, &v, False)
                PyDict_SetItem(out, key, amqp10_entry_value(self.block, &items, &v))
            self.cached = out
        return <dict>self.cached

    @property
    def pairs(self):
        """All entries as a tuple of (key, value)."""
        cdef Amqp10Items items
        cdef Amqp10ValueView v
        cdef list out = []
        items = amqp10_items(&self.v)
        while amqp10_next(&items, &v):
            key = amqp10_value_of(self.block, &v, False)
            out.append((key, amqp10_entry_value(self.block, &items, &v)))
        return tuple(out)

    def __len__(self):
        return len(self.entries())

    def __iter__(self):
        return iter(self.entries())

    def __contains__(self, key):
        return key in self.entries()

    def __getitem__(self, key):
        return self.entries()[key]

    def get(self, key, default=None, /):
        """As in dict."""
        return self.entries().get(key, default)

    def keys(self):
        """As in dict."""
        return MappingProxyType(self.entries()).keys()

    def values(self):
        """As in dict."""
        return MappingProxyType(self.entries()).values()

    def items(self):
        """As in dict."""
        return self.entries().items()

    def __eq__(self, other):
        if isinstance(other, Map):
            return self.same(<Value>other)
        if not isinstance(other, dict):
            return NotImplemented
        return self.entries() == other

    def __hash__(self):
        return hash(tuple([amqp10_hash_of(pair) for pair in self.pairs]))

    def __repr__(self):
        if self.secret:
            return f"amqp10.Map({ {SECRET_SHOWN: SECRET_SHOWN}!r})"
        pairs = [(key, shown_entry(key, value)) for key, value in self.pairs]
        return f"amqp10.Map({dict(pairs) if len(pairs) == len(self.entries()) else pairs!r})"


cdef object amqp10_entry_value(bytes block, Amqp10Items* items, Amqp10ValueView* v):
    """The value of a map's entry whose key is `v`, which becomes the value."""
    cdef bint secret = amqp10_is_text(v) and is_secret_name(v.body, v.size)
    amqp10_next(items, v)
    value = amqp10_value_of(block, v, False)
    if not secret:
        return value
    if isinstance(value, Value):
        (<Value>value).secret = True
    return hidden(value)


@cython.final
cdef class Described(Value):
    """A described value (1.3.2): `Described(Symbol("com.example:x"), 1)`."""
    __match_args__ = ("descriptor", "value")

    def __init__(self, descriptor, value, /):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        try:
            add_u8(&o, 0)
            amqp10_put_value(&o, descriptor, 1)
            amqp10_put_value(&o, value, 1)
            self.settle(&o, AMQP10_DESCRIBED)
        finally:
            free_octets(&o)

    @property
    def descriptor(self):
        cdef Amqp10ValueView v
        amqp10_read(amqp10_descriptor(&self.v), &v)
        return amqp10_value_of(self.block, &v, False)

    @property
    def value(self):
        cdef Amqp10ValueView v
        if self.cached is None:
            amqp10_described(&self.v, &v)
            self.cached = amqp10_value_of(self.block, &v, False)
        return self.cached

    def __eq__(self, other):
        if not isinstance(other, Described):
            return NotImplemented
        return self.same(<Value>other)

    def __hash__(self):
        return amqp10_hash_of((self.descriptor, self.value))

    def __repr__(self):
        return f"amqp10.Described({self.descriptor!r}, {SECRET_SHOWN if self.secret else self.value!r})"


Sequence.register(BaseSequence)
Mapping.register(Map)


# ------------------------------------------------------------------------------------------------ composites

cdef Factory[AMQP10_SHAPES] AMQP10_COMPOSITE_FACTORIES     # by shape; filled where the classes stand
cdef dict AMQP10_SHAPE_OF_CLASS = {}
cdef list AMQP10_FIELD_NAMES = [                   # interned, as the names of keywords in a call are
    intern(amqp10_field_name[i].decode("ascii"))
    for i in range(amqp10_shapes[AMQP10_SHAPES - 1].first + amqp10_shapes[AMQP10_SHAPES - 1].count)
]
cdef uint8_t[AMQP10_SHAPES][AMQP10_FIELDS_MAX] AMQP10_SECRET       # by shape and field: is it secret?


cdef int fill_amqp10_secrets() except -1:
    cdef int shape, i
    for shape in range(1, AMQP10_SHAPES):
        for i in range(amqp10_shapes[shape].count):
            row = (amqp10_shape_name[shape].decode("ascii"), AMQP10_FIELD_NAMES[amqp10_shapes[shape].first + i])
            AMQP10_SECRET[shape][i] = row in AMQP10_SECRET_ROWS
    return 0


cdef frozenset AMQP10_SECRET_ROWS = secret_fields("amqp10")
fill_amqp10_secrets()
cdef PyGetSetDef* AMQP10_FIELD_GETTERS = <PyGetSetDef*>calloc(len(AMQP10_FIELD_NAMES), sizeof(PyGetSetDef))
cdef PyMemberDef* AMQP10_FIELD_MEMBERS = <PyMemberDef*>calloc(len(AMQP10_FIELD_NAMES), sizeof(PyMemberDef))


cdef int amqp10_add_composite(object cls, int shape) except -1:
    """Give the class of a composite type its attributes: one for each field, and __match_args__.

    Frames are mostly routed by a field or two: theirs are getters, and become objects when one is asked for. The others
    exist because somebody asked for them: their fields are members, which Python reads without a call."""
    cdef const Amqp10ShapeRow* row = &amqp10_shapes[shape]
    cdef PyObject** first = (<Composite>AMQP10_ANY_COMPOSITE).fields
    cdef bint is_frame = row.provides & (AMQP10_PROVIDES_FRAME | AMQP10_PROVIDES_SASL_FRAME) != 0
    cdef PyGetSetDef* getter
    cdef PyMemberDef* member
    cdef int i
    if AMQP10_FIELD_GETTERS == NULL or AMQP10_FIELD_MEMBERS == NULL:
        raise MemoryError
    for i in range(row.count):
        if is_frame:
            getter = &AMQP10_FIELD_GETTERS[row.first + i]
            getter.name = amqp10_field_name[row.first + i]
            getter.get = amqp10_get_field
            getter.closure = <void*><size_t>i
            attribute = PyDescr_NewGetSet(<PyTypeObject*>cls, getter)
        else:
            member = &AMQP10_FIELD_MEMBERS[row.first + i]
            member.name = amqp10_field_name[row.first + i]
            member.type = T_OBJECT_EX
            member.offset = <Py_ssize_t>(<size_t>&first[i] - <size_t><void*>AMQP10_ANY_COMPOSITE)
            member.flags = READONLY
            attribute = PyDescr_NewMember(<PyTypeObject*>cls, member)
        wirefmt_set_attribute(cls, AMQP10_FIELD_NAMES[row.first + i], attribute)
    names = AMQP10_FIELD_NAMES[row.first:row.first + row.count]
    wirefmt_set_attribute(cls, "__match_args__", tuple(names + list(getattr(cls, "__match_args__", ()))))
    AMQP10_COMPOSITE_FACTORIES[shape] = factory_of(cls)
    AMQP10_SHAPE_OF_CLASS[cls] = shape
    set_vectorcall(cls, <void*>amqp10_construct)
    return 0


cdef object amqp10_construct(object cls, PyObject** args, size_t nargsf, PyObject* kwnames):
    """A call of a composite's class: the keywords' values go from the caller's stack to the fields, without a dict.

    What the class does not take goes the way of any other class, where the errors are raised.
    """
    cdef PyObject* values[AMQP10_FIELDS_MAX]
    cdef PyObject* of_frame[AMQP10_OF_FRAME]
    cdef PyObject* name
    cdef Composite made
    cdef int shape = AMQP10_SHAPE_OF_CLASS[cls]
    cdef const Amqp10ShapeRow* row = &amqp10_shapes[shape]
    cdef bint is_frame = row.provides & (AMQP10_PROVIDES_FRAME | AMQP10_PROVIDES_SASL_FRAME) != 0
    cdef int take = 0 if not is_frame else AMQP10_OF_FRAME if shape == AMQP10_TRANSFER else AMQP10_OF_TRANSFER
    cdef Py_ssize_t i, count = 0 if kwnames == NULL else length_of(kwnames)
    cdef int k, at = 0
    memset(values, 0, sizeof(values))
    memset(of_frame, 0, sizeof(of_frame))
    if PyVectorcall_NARGS(nargsf):
        return construct_slowly(cls, args, PyVectorcall_NARGS(nargsf), kwnames)
    for i in range(count):
        name = borrowed_item(kwnames, i)
        for _ in range(row.count):          # callers mostly keep the order of the fields
            k = at
            at = at + 1 if at + 1 < row.count else 0
            if AMQP10_FIELD_OBJECTS[row.first + k] == name:
                values[k] = args[i]
                break
        else:
            for k in range(take):
                if AMQP10_FRAME_NAMES[k] == name:
                    of_frame[k] = args[i]
                    break
            else:
                return construct_slowly(cls, args, 0, kwnames)
    made = <Composite>bare_object(&AMQP10_COMPOSITE_FACTORIES[shape])
    if is_frame:
        made.build_frame(shape, values, None, 0 if of_frame[0] == NULL else <object>of_frame[0],
                         b"" if of_frame[1] == NULL else <object>of_frame[1],
                         b"" if of_frame[2] == NULL else <object>of_frame[2])
    else:
        made.build_value(shape, values, None)
    return made


cdef enum:                      # keywords of frames that are no fields, in the order of AMQP10_FRAME_NAMES
    AMQP10_OF_TRANSFER = 2      # this one a transfer has only
    AMQP10_OF_FRAME = 3


cdef PyObject** AMQP10_FIELD_OBJECTS = <PyObject**>calloc(len(AMQP10_FIELD_NAMES), sizeof(PyObject*))
cdef PyObject* AMQP10_FRAME_NAMES[AMQP10_OF_FRAME]


cdef int fill_amqp10_names() except -1:
    """The names of keywords as pointers: both lists live for ever."""
    cdef int i
    if AMQP10_FIELD_OBJECTS == NULL:
        raise MemoryError
    for i in range(len(AMQP10_FIELD_NAMES)):
        AMQP10_FIELD_OBJECTS[i] = <PyObject*>AMQP10_FIELD_NAMES[i]
    for i in range(AMQP10_OF_FRAME):
        AMQP10_FRAME_NAMES[i] = <PyObject*>AMQP10_FRAME_KEYWORDS[i]
    return 0


cdef tuple AMQP10_FRAME_KEYWORDS = (intern("channel"), intern("extended_header"), intern("payload"))
fill_amqp10_names()


cdef object amqp10_get_field(object self, void* closure):
    cdef Composite composite = <Composite>self
    if not composite.decoded:
        composite.decode_fields()
    return <object>composite.fields[<size_t>closure]


@cython.freelist(256)
@cython.no_gc
cdef class Composite:
    """Base of the composite types: performatives, SASL frames, sections, delivery states, sources, targets, errors.

    Immutable; keeps the input block it was decoded from. It has an attribute for each field of the specification, in
    Python's case; None if the field is absent or null (its default is in wirefmt.amqp10.spec.COMPOSITES).
    Fields of a fixed integer type are int, fields of any type keep their type (UInt ...). Two are equal if they have the
    same class and equal fields, including types.
    """
    cdef bytes block
    cdef const uint8_t* begin   # the described value
    cdef const uint8_t* frame   # of performatives; NULL: none
    cdef uint32_t frame_size
    cdef uint16_t channel_
    cdef uint8_t shape
    cdef uint8_t noted          # LAX let something pass
    cdef uint8_t strict         # of performatives: decoded STRICT, or built
    cdef uint8_t decoded        # `fields` are there: of a frame not before one is asked for
    cdef uint8_t built          # by its constructor: STRICT finds no fault with its octets
    cdef Span payload_span
    cdef PyObject* fields[AMQP10_FIELDS_MAX]    # owned

    def __init__(self, **fields):
        cdef PyObject* values[AMQP10_FIELDS_MAX]
        cdef int shape = self.check_new()
        self.build_value(shape, values, fields if amqp10_take_names(shape, fields, values) else None)

    cdef int build_value(self, int shape, PyObject** values, dict surplus) except -1:
        """Be a composite that is no frame, of these values. `surplus`: as amqp10_put_fields has it."""
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        cdef Amqp10Options options
        cdef Amqp10Reader x
        cdef Fault f
        cdef bytes octets
        cdef bint plain
        self.shape = <uint8_t>shape
        try:
            plain = amqp10_put_fields(&o, shape, values, self.fields, surplus)
            octets = amqp10_written_octets(&o)
        finally:
            free_octets(&o)
        self.block = octets
        self.begin = <const uint8_t*>PyBytes_AS_STRING(octets)
        self.built = 1
        if plain:
            self.decoded = 1
            return 0
        amqp10_strict_options(&options)
        amqp10_begin(&x, self.begin, &options, &f)
        if amqp10_take_composite(&x, x.base, x.base + PyBytes_GET_SIZE(octets), 0, 0xFFFF, True, NULL) == NULL:
            raise amqp10_encode_error(&f)
        return self.decode_fields()

    def __dealloc__(self):
        cdef int i
        for i in range(amqp10_shapes[self.shape].count):
            Py_XDECREF(self.fields[i])

    @property
    def descriptor(self):
        """The descriptor as encoded: a ULong, or a Symbol."""
        cdef Amqp10ValueView v
        amqp10_read(self.begin + 1, &v)
        return amqp10_value_of(self.block, &v, False)

    @property
    def value(self):
        """The fields as encoded, a List, including nulls at the end."""
        cdef Amqp10ValueView v
        self.read_list(&v)
        value = amqp10_value_of(self.block, &v, False)
        if memchr(AMQP10_SECRET[self.shape], 1, AMQP10_FIELDS_MAX) != NULL:
            (<Value?>value).secret = True
        return value

    def encode(self):
        """The bytes: those it was decoded from, or the smallest encoding of a new one. For a performative, the whole frame."""
        if self.frame != NULL:
            return self.part(self.frame, self.frame_size)
        return self.part(self.begin, <size_t>(amqp10_skip(self.begin) - self.begin))

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self.same(<Composite>other)

    def __hash__(self):
        cdef Amqp10ValueView v
        amqp10_read(self.begin, &v)
        return <Py_hash_t>(amqp10_hash(&v, 0) >> 1)

    def __repr__(self):
        return f"amqp10.{type(self).__name__}({', '.join(self.shown())})"

    def __reduce__(self):
        return restore_composite, (self.encode(),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # ---- for the classes below

    cdef int build_frame(self, int shape, PyObject** values, dict surplus, object channel, object extended_header,
                         object payload) except -1:
        raise TypeError("only performatives are frames")

    cdef int check_new(self) except -1:
        shape = AMQP10_SHAPE_OF_CLASS.get(type(self))
        if shape is None:
            raise TypeError("Composite is a base class: use the class of a composite type")
        return shape

    cdef bytes part(self, const uint8_t* p, size_t n):
        if p == <const uint8_t*>PyBytes_AS_STRING(self.block) and n == <size_t>PyBytes_GET_SIZE(self.block):
            return self.block
        return PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n)

    cdef void read_list(self, Amqp10ValueView* v) noexcept:
        amqp10_read(amqp10_skip(self.begin + 1), v)

    cdef int decode_fields(self) except -1:
        cdef const Amqp10ShapeRow* shape = &amqp10_shapes[self.shape]
        cdef Amqp10Items items
        cdef Amqp10ValueView v
        cdef int i
        self.read_list(&v)
        items = amqp10_items(&v)
        for i in range(shape.count):
            value = None
            if amqp10_next(&items, &v):
                if self.fields[i] != NULL:      # the constructor kept it
                    continue
                value = amqp10_field_of(self.block, &amqp10_fields[shape.first + i], &v)
            if self.fields[i] == NULL:          # else another thread was here in the meantime
                Py_INCREF(value)
                self.fields[i] = <PyObject*>value
        self.decoded = 1
        return 0

    cdef bint same(self, Composite other):
        cdef Amqp10ValueView a, b
        amqp10_read(self.begin, &a)
        amqp10_read(other.begin, &b)
        return amqp10_compare(&a, &b) == 0

    cdef list shown(self):
        """Constructor arguments, in the order of the specification; absent ones are left out."""
        if not self.decoded:
            self.decode_fields()
        values = [<object>self.fields[i] for i in range(amqp10_shapes[self.shape].count)]
        first = amqp10_shapes[self.shape].first
        return [f"{AMQP10_FIELD_NAMES[first + i]}={amqp10_shown_field(self.shape, i, value)}"
                for i, value in enumerate(values) if value is not None]


cdef object AMQP10_ANY_COMPOSITE = Composite.__new__(Composite)                            # where members are in any


cdef str amqp10_shown_field(int shape, int i, object value):
    """A repr shows no secrets, and few octets of anything."""
    if AMQP10_SECRET[shape][i]:
        return repr(SECRET_SHOWN_OCTETS)
    return shown_octets(value) if isinstance(value, bytes) else repr(value)


cdef object amqp10_field_of(bytes block, const Amqp10FieldRow* row, const Amqp10ValueView* v):
    """The object of a field. A value of another type, which LAX accepted, keeps its type."""
    cdef bint irregular = False
    cdef int shape = 0
    if v.type == AMQP10_DESCRIBED and row.requires & AMQP10_COMPOSITES_PROVIDE:
        shape = amqp10_shape_of(amqp10_descriptor(v), &irregular)
        if amqp10_shapes[shape].provides & row.requires:
            return amqp10_composite_of(block, v.constructor, shape)
    return amqp10_value_of(block, v, v.type == row.type)


cdef object amqp10_composite_of(bytes block, const uint8_t* begin, int shape):
    """The object of a (checked) described list that lies in `block`."""
    cdef Composite composite = <Composite>bare_object(&AMQP10_COMPOSITE_FACTORIES[shape])
    composite.block = block
    composite.begin = begin
    composite.shape = <uint8_t>shape
    composite.decode_fields()
    return composite


cdef int amqp10_put_composite(Octets* o, Composite composite) except -1:
    add_octets(o, composite.begin, <size_t>(amqp10_skip(composite.begin) - composite.begin))
    return 0


cdef bint amqp10_take_names(int shape, dict fields, PyObject** values) except -1:
    """The values of a shape's fields, by number; NULL: not given. They are the dict's. Whether it has other names too."""
    cdef const Amqp10ShapeRow* row = &amqp10_shapes[shape]
    cdef int i
    cdef Py_ssize_t found = 0
    for i in range(row.count):
        values[i] = PyDict_GetItemWithError(fields, AMQP10_FIELD_NAMES[row.first + i])
        found += values[i] != NULL
    return found != len(fields)


cdef int amqp10_put_fields(Octets* o, int shape, PyObject** values, PyObject** kept, dict surplus) except -1:
    """A composite of the values given by number: nulls at the end are left out. Whether all are plain: then parsing finds
    no fault with what was written.

    `kept`: takes what decoding would give for null and for plain values; NULL: it is not wanted. `surplus`: names and
    values, some of fields that the shape does not have, an error; None: there is none such.
    """
    cdef const Amqp10ShapeRow* row = &amqp10_shapes[shape]
    cdef const Amqp10FieldRow* field = &amqp10_fields[row.first]
    cdef uint32_t missing = row.mandatory
    cdef size_t mark, last
    cdef int i, count = 0
    cdef bint plain = True
    amqp10_add_descriptor(o, row.code)
    mark = amqp10_open(o)
    last = o.size
    for i in range(row.count):
        if values[i] == NULL or <object>values[i] is None:
            add_u8(o, AMQP10_CODE_NULL)
            if kept != NULL:
                Py_INCREF(None)
                kept[i] = <PyObject*>None
            continue
        if not amqp10_put_plain(o, &field[i], <object>values[i]):
            plain = False
            amqp10_put_field(o, &field[i], <object>values[i], AMQP10_FIELD_NAMES[row.first + i])
        elif kept != NULL:
            value = amqp10_plain_symbol(<object>values[i]) if field[i].type == AMQP10_SYMBOL else <object>values[i]
            Py_INCREF(value)
            kept[i] = <PyObject*>value
        missing &= ~(<uint32_t>1 << i)
        last = o.size
        count = i + 1
    if surplus is not None:
        known = AMQP10_FIELD_NAMES[row.first:row.first + row.count]
        wrong = ", ".join(name for name in surplus if name not in known)
        raise TypeError(f"{amqp10_shape_class[shape].decode('ascii')} has no field {wrong}")
    o.size = last
    amqp10_close(o, mark, AMQP10_CODE_LIST8, <size_t>count)
    return plain and not missing


cdef object amqp10_plain_symbol(object text):
    """The Symbol that decoding gives for a str of ASCII."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, &size)
    return amqp10_symbol_of(p, <uint32_t>size)


cdef inline bint amqp10_put_plain(Octets* o, const Amqp10FieldRow* row, object value) noexcept:
    """Write a plain value: of the class that decoding gives for a field of this type (a str for a symbol), and with no
    octets or number that the field may not have. False: nothing was written."""
    cdef Py_ssize_t size = 0
    cdef int overflow = 0
    cdef int64_t number
    cdef int type = row.type
    cdef const uint8_t* p
    if row.multiple or row.requires & AMQP10_COMPOSITES_PROVIDE:
        return False
    p = ascii_octets(<PyObject*>value, &size)
    if p != NULL:
        if type != AMQP10_STRING and type != AMQP10_SYMBOL and type != AMQP10_ANY:
            return False
        amqp10_add_variable(o, AMQP10_CODE_SYM8 if type == AMQP10_SYMBOL else AMQP10_CODE_STR8, p, <size_t>size)
    elif PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow or (number < 0 and type != AMQP10_TIMESTAMP):
            return False
        if type == AMQP10_UINT and number <= 0xFFFFFFFF:
            amqp10_add_uint(o, <uint32_t>number)
        elif type == AMQP10_ULONG:
            amqp10_add_ulong(o, <uint64_t>number)
        elif type == AMQP10_TIMESTAMP:
            amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, <uint64_t>number)
        elif type == AMQP10_UBYTE and number <= 0xFF:
            amqp10_add_fixed(o, AMQP10_CODE_UBYTE, <uint64_t>number)
        elif type == AMQP10_USHORT and number <= 0xFFFF:
            amqp10_add_fixed(o, AMQP10_CODE_USHORT, <uint64_t>number)
        else:
            return False
    elif type == AMQP10_BINARY and PyBytes_CheckExact(value):
        amqp10_add_variable(o, AMQP10_CODE_VBIN8, <const uint8_t*>PyBytes_AS_STRING(value),
                            <size_t>PyBytes_GET_SIZE(value))
    elif type == AMQP10_BOOLEAN and (value is True or value is False):
        amqp10_add_boolean(o, value is True)
    else:
        return False
    return True


cdef int amqp10_put_plain_entries(Octets* o, dict entries) except -1:
    """Write a map of names that are ASCII and of scalars: parsing finds no fault with it as application properties.
    False: nothing was written."""
    cdef size_t mark = amqp10_open(o)
    cdef size_t count = 0
    cdef Py_ssize_t size = 0
    cdef int overflow = 0
    cdef int64_t number
    cdef const uint8_t* p
    for key, item in entries.items():
        p = ascii_octets(<PyObject*>key, &size)
        if p == NULL:
            break
        amqp10_add_variable(o, AMQP10_CODE_STR8, p, <size_t>size)
        p = ascii_octets(<PyObject*>item, &size)
        if p != NULL:
            amqp10_add_variable(o, AMQP10_CODE_STR8, p, <size_t>size)
        elif PyLong_CheckExact(item):
            number = PyLong_AsLongLongAndOverflow(item, &overflow)
            if overflow:
                break
            amqp10_add_long(o, number)
        elif item is True or item is False:
            amqp10_add_boolean(o, item is True)
        elif PyFloat_CheckExact(item):
            amqp10_put_double(o, item)
        else:
            break
        count += 2
    else:
        amqp10_close(o, mark, AMQP10_CODE_MAP8, count)
        return True
    o.size = mark
    return False


cdef int amqp10_put_field(Octets* o, const Amqp10FieldRow* row, object value, str name) except -1:
    """A value for a field: where the field's type is known, plain objects of Python do."""
    try:
        if row.multiple:
            if isinstance(value, Array):
                amqp10_put_value(o, value, 0)
            else:
                amqp10_put_symbols(o, value)
        elif row.type == AMQP10_STRING or row.type == AMQP10_BOOLEAN:
            amqp10_put_value(o, value, 0)              # parsing tells if it is one
        elif row.type == AMQP10_MAP or row.type == AMQP10_ANY:
            if row.requires & AMQP10_PROVIDES_MESSAGE_ID and type(value) is int:
                value = ULong(value)            # the only integer that an identifier may be
            amqp10_put_value(o, value, 0)
        else:
            amqp10_put_typed(o, row.type, value)
    except EncodeError as error:
        raise EncodeError(f"{name}: {error}") from None
    except (TypeError, BufferError) as error:
        raise TypeError(f"{name}: {error}") from None
    return 0


# ------------------------------------------------------------------------------------------------ single values

def decode_value(data, /, *, strictness=STRICT_MODE, limits=None):
    """Decode exactly one value (part 1, 1.2), which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once. strictness: "strict" or "lax".
    limits: wirefmt.framing.Limits; `elements` limits the elements of all lists, maps and arrays.

    Returns the type in the table "Values" of docs/amqp10.md. Raises DecodeError.
    """
    cdef Amqp10Options o
    cdef Amqp10ValueView v
    cdef Fault f
    cdef bytes block = take_block(data)
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(block)
    take_amqp10_options(&o, strictness, limits)
    if amqp10_parse_value(p, <size_t>PyBytes_GET_SIZE(block), &o, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    amqp10_read(p, &v)
    return amqp10_value_of(block, &v, False)


def encode_value(value, /):
    """The bytes of a value in the smallest encoding; decoded values keep their encoding.

    Raises EncodeError for values that AMQP 1.0 cannot express, TypeError for objects without an AMQP type.
    """
    cdef uint8_t start[WRITER_START]
    cdef Octets o = octets_over(start, WRITER_START)
    try:
        amqp10_put_value(&o, value, 0)
        return amqp10_written_octets(&o)
    finally:
        free_octets(&o)


cdef int take_amqp10_options(Amqp10Options* o, object strictness, object limits) except -1:
    memset(o, 0, sizeof(Amqp10Options))
    o.strict = is_strict(strictness)
    o.max_frame_size = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    o.max_elements = DEFAULT_ELEMENTS if limits is None else limits.elements
    return 0


def restore_value(bytes octets not None):
    """Unpickle a value, including one that only LAX accepts."""
    cdef Amqp10Options o
    cdef Amqp10ValueView v
    cdef Fault f
    memset(&o, 0, sizeof(Amqp10Options))
    if amqp10_parse_value(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    amqp10_read(<const uint8_t*>PyBytes_AS_STRING(octets), &v)
    return amqp10_value_of(octets, &v, False)


def restore_composite(bytes octets not None):
    """Unpickle a composite that is not a frame."""
    cdef Amqp10Options o
    cdef Amqp10Reader x
    cdef Amqp10CompositeView c
    cdef Fault f
    memset(&o, 0, sizeof(Amqp10Options))
    amqp10_begin(&x, <const uint8_t*>PyBytes_AS_STRING(octets), &o, &f)
    if amqp10_take_composite(&x, x.base, x.base + PyBytes_GET_SIZE(octets), 0, 0xFFFF, True, &c) == NULL:
        raise_fault(&AMQP10_TABLES, &f, 0)
    if amqp10_shapes[c.shape].provides & (AMQP10_PROVIDES_FRAME | AMQP10_PROVIDES_SASL_FRAME):
        raise ValueError("the bytes of a frame begin with its header")
    return amqp10_composite_of(octets, x.base, c.shape)
