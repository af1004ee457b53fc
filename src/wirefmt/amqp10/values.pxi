# AMQP 1.0 values as Python objects, and Python objects as AMQP 1.0 values: lists, maps, arrays and described
# values. The room scalars has scalars, the room composites composites.
#
# List, Map, Array, Described and the composites keep their octets: their elements become objects on access, and they are written
# again unchanged. Encoders also accept Python's list, tuple and dict.
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError, PyDict_SetItem
from cpython.float cimport PyFloat_CheckExact
from wirefmt._core.octets cimport Octets, add_octets, add_u8, free_octets, octets_over

cdef extern from *:
    dict __Pyx_PyDict_NewPresized(Py_ssize_t n)     # Cython's own: with space for n entries


from collections.abc import ItemsView, Mapping, Sequence
from sys import intern
from types import MappingProxyType


# ------------------------------------------------------------------------------------------------ octets -> objects

cdef object amqp10_value_of(bytes block, const Amqp10ValueView* v, bint plain):
    """The object of a (checked) value in `block`. `plain`: the specification fixes the type, so integers are int, not a typed
    subclass."""
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


cdef inline object amqp10_take_object(bytes block, const uint8_t** at, int type):
    """The object of the (checked) value at `at`, which moves past it. `type`: the specification fixes this one, see
    amqp10_value_of; 0: it fixes none. Usual constructors need no view."""
    cdef const uint8_t* p = at[0] + 1
    cdef uint8_t code = at[0][0]
    cdef Amqp10ValueView v
    if code == AMQP10_CODE_NULL:
        at[0] = p
        return None
    elif code == AMQP10_CODE_STR8:
        at[0] = p + 1 + p[0]
        return amqp10_string_of(p + 1, p[0])
    elif code == AMQP10_CODE_SYM8:
        at[0] = p + 1 + p[0]
        return amqp10_symbol_of(p + 1, p[0])
    elif code == AMQP10_CODE_VBIN8:
        at[0] = p + 1 + p[0]
        return octets_of(p + 1, p[0])
    elif code == AMQP10_CODE_TRUE:
        at[0] = p
        return True
    elif code == AMQP10_CODE_FALSE:
        at[0] = p
        return False
    elif code == AMQP10_CODE_SMALLLONG:
        at[0] = p + 1
        return PyLong_FromLong(<int8_t>p[0])
    elif code == AMQP10_CODE_LONG:
        at[0] = p + 8
        return PyLong_FromLongLong(<int64_t>load_u64(p))
    elif code == AMQP10_CODE_DOUBLE:
        at[0] = p + 8
        return amqp10_double_of(load_u64(p))
    if type and type == amqp10_constructors[code].type:
        if code == AMQP10_CODE_UBYTE or code == AMQP10_CODE_SMALLUINT or code == AMQP10_CODE_SMALLULONG:
            at[0] = p + 1
            return PyLong_FromLong(p[0])
        elif code == AMQP10_CODE_UINT0 or code == AMQP10_CODE_ULONG0:
            at[0] = p
            return PyLong_FromLong(0)
        elif code == AMQP10_CODE_UINT:
            at[0] = p + 4
            return PyLong_FromLongLong(load_u32(p))
        elif code == AMQP10_CODE_TIMESTAMP:
            at[0] = p + 8
            return PyLong_FromLongLong(<int64_t>load_u64(p))
    amqp10_read(at[0], &v)
    at[0] = v.end
    return amqp10_value_of(block, &v, v.type == type)


cdef object amqp10_described_of(bytes block, const Amqp10ValueView* v):
    """A composite if the value is one that STRICT accepts, otherwise a Described."""
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
    """Write a Python object as the matching AMQP value in the smallest encoding; decoded values keep their encoding."""
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
    """Write an object of another class, by its interface: a mapping, a sequence, a number."""
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
    cdef bint secret            # it has a secret name

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

    cdef int adopt(self, Octets* o, int type) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them as a value."""
        cdef Amqp10Options options
        cdef Fault f
        cdef bytes octets
        octets = amqp10_written_octets(o)
        amqp10_strict_options(&options)
        if amqp10_parse_value(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &options,
                              &f) != OK:
            raise encode_error(&AMQP10_TABLES, &f)
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
    o.common.strict = 1


@cython.collection_type("sequence")
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
                if self.v.type == AMQP10_ARRAY and self.v.size == 0:
                    out *= self.v.count         # elements without octets: all are one object
                    break
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
        """Like tuple."""
        return self.items().index(value, *bounds)

    def count(self, value):
        """Like tuple."""
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
    """The hash of the tuple, except that NaN has one hash, because it may be part of equal values."""
    return hash(tuple([None if isinstance(item, float) and item != item else item for item in items]))


@cython.final
cdef class List(BaseSequence):
    """list (1.6.22): `List([1, "a", None])`. It can be read like a tuple."""

    def __init__(self, items=(), /):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        try:
            amqp10_put_list(&o, items, 0)
            self.adopt(&o, AMQP10_LIST)
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
            self.adopt(&o, AMQP10_ARRAY)
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
            array.adopt(&o, AMQP10_ARRAY)
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
        # more than a tuple can have: none is equal
        return <Py_hash_t>(amqp10_hash(&self.v, 0) >> 1) if self.v.count > 1_000_000 else amqp10_hash_of(self.items())

    def __eq__(self, other):
        # all elements are the same object: compare without making them
        return BaseSequence.__eq__(self, other)

    def __iter__(self):
        return iter(self.items()) if self.v.count <= 1_000_000 else self.walk()

    def __getitem__(self, index):
        if self.v.size or self.v.count == 0:
            return self.items()[index]
        if isinstance(index, slice):            # elements without octets are not made to choose among them
            return (next(self.walk()),) * len(range(self.v.count)[index])
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
    """Write the constructor `code` (0: the smallest that fits all) and the contents of the written values."""
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
    """The narrowest constructor of a type whose elements have octets; for null, its only one."""
    cdef int code
    cdef uint8_t narrow = amqp10_narrow_code(type)
    if narrow:
        return narrow
    for code in range(256):
        if amqp10_constructors[code].category and amqp10_constructors[code].type == type:
            break
    return <uint8_t>code


cdef int amqp10_put_typed(Octets* o, int type, object value) except -1:
    """Write a Python object as a value of a known type: 1 may be a uint."""
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
@cython.collection_type("mapping")
cdef class Map(Value):
    """map (1.6.23): `Map({"a": 1})` or `Map([("a", 1)])`. It can be read like a dict, and equals dicts of equal entries.

    Entries keep their order, which is part of the value. `pairs` has them all: keys that are equal in Python (UInt(1)
    and ULong(1)) are one key for a dict, and LAX accepts equal keys; the last one counts.
    """
    cdef bint plain             # its keys are texts, all different

    def __init__(self, entries=(), /):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        try:
            amqp10_put_map(&o, entries.items() if hasattr(entries, "items") else entries, 0)
            self.adopt(&o, AMQP10_MAP)
        finally:
            free_octets(&o)

    cdef dict entries(self):
        cdef const uint8_t* at = self.v.body
        cdef bint secret = False
        cdef uint32_t i
        cdef dict out
        if self.cached is None:
            out = __Pyx_PyDict_NewPresized(self.v.count >> 1)
            for i in range(self.v.count >> 1):
                key = amqp10_take_key(self.block, i, &at, &secret)
                PyDict_SetItem(out, key, amqp10_take_entry(self.block, &at, secret))
            self.cached = out
        return <dict>self.cached

    @property
    def pairs(self):
        """All entries as a tuple of (key, value)."""
        cdef const uint8_t* at = self.v.body
        cdef bint secret = False
        cdef uint32_t i
        cdef list out = []
        for i in range(self.v.count >> 1):
            key = amqp10_take_key(self.block, i, &at, &secret)
            out.append((key, amqp10_take_entry(self.block, &at, secret)))
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
        """Like dict."""
        return self.entries().get(key, default)

    def keys(self):
        """Like dict."""
        return MappingProxyType(self.entries()).keys()

    def values(self):
        """Like dict."""
        return MappingProxyType(self.entries()).values()

    def items(self):
        """Like dict."""
        cdef MapItems made
        if self.cached is not None or not self.plain:
            return self.entries().items()
        made = MapItems.__new__(MapItems)
        made.owner = self
        return made

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


@cython.final
@cython.freelist(16)
@cython.no_gc
@cython.c_api_binop_methods(True)
cdef class MapItems:
    """The view of a plain map that items() returns, like that of a dict. Iterating makes no dict."""
    cdef Map owner

    def __iter__(self):
        cdef MapIterator made
        if self.owner.cached is not None:
            return iter(amqp10_plain_view(self))
        made = MapIterator.__new__(MapIterator)
        made.block = self.owner.block
        made.at = self.owner.v.body
        made.count = self.owner.v.count >> 1
        return made

    def __len__(self):
        return self.owner.v.count >> 1

    def __contains__(self, pair):
        return pair in amqp10_plain_view(self)

    def __reversed__(self):
        return reversed(amqp10_plain_view(self))

    def __repr__(self):
        return f"amqp10.Map.items({self.owner!r})"

    def __richcmp__(self, other, int operation):
        return PyObject_RichCompare(amqp10_plain_view(self), amqp10_plain_view(other), operation)

    def __and__(left, right):
        return amqp10_plain_view(left) & amqp10_plain_view(right)

    def __or__(left, right):
        return amqp10_plain_view(left) | amqp10_plain_view(right)

    def __sub__(left, right):
        return amqp10_plain_view(left) - amqp10_plain_view(right)

    def __xor__(left, right):
        return amqp10_plain_view(left) ^ amqp10_plain_view(right)

    def isdisjoint(self, other, /):
        """Like that of a dict's view."""
        return amqp10_plain_view(self).isdisjoint(amqp10_plain_view(other))


ItemsView.register(MapItems)


cdef object amqp10_plain_view(object view):
    """The dict's view for a MapItems; any other object is returned."""
    return (<MapItems>view).owner.entries().items() if isinstance(view, MapItems) else view


@cython.final
@cython.freelist(16)
@cython.no_gc
cdef class MapIterator:
    """Makes the entries of a plain map one after the other."""
    cdef bytes block
    cdef const uint8_t* at
    cdef uint32_t next, count
    cdef tuple last             # see next_pair

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.count - self.next

    def __next__(self):
        cdef bint secret = False
        if self.next == self.count:
            raise StopIteration
        key = amqp10_take_key(self.block, self.next, &self.at, &secret)
        self.next += 1
        self.last = next_pair(<PyObject*>self.last, key, amqp10_take_entry(self.block, &self.at, secret))
        return self.last


cdef Recent[RECENT_PLACES] AMQP10_RECENT_KEYS      # by the place of an entry in its map


cdef inline object amqp10_take_key(bytes block, uint32_t place, const uint8_t** at, bint* secret):
    """The key at `at`, which moves past it, of an entry of a map. secret: its value is."""
    cdef Recent* recent = &AMQP10_RECENT_KEYS[place & (RECENT_PLACES - 1)]
    cdef const uint8_t* begin = at[0]
    cdef bint is_short = begin[0] == AMQP10_CODE_STR8 or begin[0] == AMQP10_CODE_SYM8
    cdef Span name
    if is_short and is_recent(recent, begin, 2 + <size_t>begin[1]):
        at[0] = begin + 2 + begin[1]
        secret[0] = recent.secret
        return <object>recent.value
    key = amqp10_take_object(block, at, 0)
    secret[0] = amqp10_ascii_at(begin, True, &name) and is_secret_name(name.at, name.size)
    if is_short and will_keep_recent(recent, 2 + <size_t>begin[1]):
        keep_recent(recent, begin, 2 + <size_t>begin[1], key)
        recent.secret = secret[0]
    return key


cdef inline object amqp10_take_entry(bytes block, const uint8_t** at, bint secret):
    """The value at `at`, which moves past it, of an entry of a map."""
    value = amqp10_take_object(block, at, 0)
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
            self.adopt(&o, AMQP10_DESCRIBED)
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
    return take_common_options(&o.common, None, strictness, limits)


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
