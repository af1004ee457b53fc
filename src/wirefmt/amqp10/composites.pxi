# Composite types of AMQP 1.0 (part 1, section 1.4) as Python objects: fields, constructors, attributes from the tables.
from wirefmt.amqp10.spec import SECRETS as AMQP10_SECRET_ROWS


cdef Factory[AMQP10_SHAPES] AMQP10_COMPOSITE_FACTORIES     # by shape; filled after the classes
cdef dict AMQP10_SHAPE_OF_CLASS = {}
cdef list AMQP10_FIELD_NAMES = [                   # interned, like the names of keywords in a call
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


fill_amqp10_secrets()
cdef PyMemberDef* AMQP10_FIELD_MEMBERS = <PyMemberDef*>calloc(len(AMQP10_FIELD_NAMES), sizeof(PyMemberDef))


cdef int amqp10_add_composite(object cls, int shape) except -1:
    """Add the attributes of a composite type to its class: one for each field, and __match_args__. Fields are members, which
    Python reads without a call."""
    cdef const Amqp10ShapeRow* row = &amqp10_shapes[shape]
    cdef PyObject** first = (<Composite>AMQP10_ANY_COMPOSITE).fields
    cdef int i
    if AMQP10_FIELD_MEMBERS == NULL or AMQP10_RECENT_FIELDS == NULL:
        raise MemoryError
    for i in range(row.count):
        AMQP10_RECENT_FIELDS[row.first + i].secret = AMQP10_SECRET[shape][i]
        add_member(cls, &AMQP10_FIELD_MEMBERS[row.first + i], amqp10_field_name[row.first + i],
                   <size_t>&first[i] - <size_t><void*>AMQP10_ANY_COMPOSITE)
    names = AMQP10_FIELD_NAMES[row.first:row.first + row.count]
    wirefmt_set_attribute(cls, "__match_args__", tuple(names + list(getattr(cls, "__match_args__", ()))))
    AMQP10_COMPOSITE_FACTORIES[shape] = factory_of(cls)
    AMQP10_SHAPE_OF_CLASS[cls] = shape
    set_vectorcall(cls, <void*>amqp10_construct)
    return 0


cdef object amqp10_construct(object cls, PyObject** args, size_t nargsf, PyObject* kwnames):
    """Call a composite's class."""
    cdef PyObject* values[AMQP10_FIELDS_MAX + AMQP10_OF_FRAME]
    cdef int shape = AMQP10_SHAPE_OF_CLASS[cls]
    cdef int count = amqp10_shapes[shape].count
    cdef bint is_frame = amqp10_shapes[shape].provides & (AMQP10_PROVIDES_FRAME | AMQP10_PROVIDES_SASL_FRAME) != 0
    cdef int take = 0 if not is_frame else AMQP10_OF_FRAME if shape == AMQP10_TRANSFER else AMQP10_OF_TRANSFER
    cdef PyObject** of_frame = values + count
    cdef Composite made
    memset(values, 0, sizeof(values))
    if not take_keywords(args, nargsf, kwnames, AMQP10_KEYWORDS[shape], count + take, &AMQP10_KEYWORD_ORDER[shape],
                         values):
        return construct_slowly(cls, args, nargsf, kwnames)
    made = <Composite>bare_object(&AMQP10_COMPOSITE_FACTORIES[shape])
    if is_frame:
        made.build_frame(shape, values, None, 0 if of_frame[0] == NULL else <object>of_frame[0],
                         b"" if of_frame[1] == NULL else <object>of_frame[1],
                         b"" if of_frame[2] == NULL else <object>of_frame[2])
    else:
        made.build_value(shape, values, None)
    return made


cdef enum:                      # keywords of frames that are not fields, in the order of AMQP10_FRAME_KEYWORDS
    AMQP10_OF_TRANSFER = 2      # only transfers have this one
    AMQP10_OF_FRAME = 3


cdef tuple AMQP10_FRAME_KEYWORDS = (intern("channel"), intern("extended_header"), intern("payload"))
# by shape: its fields, then AMQP10_FRAME_KEYWORDS
cdef PyObject* AMQP10_KEYWORDS[AMQP10_SHAPES][AMQP10_FIELDS_MAX + AMQP10_OF_FRAME]
cdef KeywordOrder AMQP10_KEYWORD_ORDER[AMQP10_SHAPES]


cdef int fill_amqp10_keywords() except -1:
    """The names of keywords as pointers, which the two lists of names keep alive."""
    cdef int shape, i
    for shape in range(1, AMQP10_SHAPES):
        for i in range(amqp10_shapes[shape].count):
            AMQP10_KEYWORDS[shape][i] = <PyObject*>AMQP10_FIELD_NAMES[amqp10_shapes[shape].first + i]
        for i in range(AMQP10_OF_FRAME):
            AMQP10_KEYWORDS[shape][amqp10_shapes[shape].count + i] = <PyObject*>AMQP10_FRAME_KEYWORDS[i]
    return 0


fill_amqp10_keywords()


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
    cdef object channel_number  # member of performatives
    cdef uint8_t shape
    cdef uint8_t noted          # LAX accepted a violation
    cdef uint8_t strict         # of performatives: decoded in STRICT, or built
    cdef uint8_t built          # set by its constructor: its octets are valid by construction
    cdef Span payload_span
    cdef PyObject* fields[AMQP10_FIELDS_MAX]    # owned

    def __init__(self, **fields):
        cdef PyObject* values[AMQP10_FIELDS_MAX]
        cdef int shape = self.check_new()
        self.build_value(shape, values, fields if amqp10_take_names(shape, fields, values) else None)

    cdef int build_value(self, int shape, PyObject** values, dict surplus) except -1:
        """Write a composite that is not a frame with these values, and adopt it. `surplus`: see amqp10_put_fields."""
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
            return 0
        amqp10_strict_options(&options)
        amqp10_begin(&x, self.begin, &options, &f)
        if amqp10_take_composite(&x, x.base, x.base + PyBytes_GET_SIZE(octets), 0, 0xFFFF, True, NULL) == NULL:
            raise encode_error(&AMQP10_TABLES, &f)
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
        """Make the objects of all fields that the constructor has not kept."""
        cdef const Amqp10ShapeRow* shape = &amqp10_shapes[self.shape]
        cdef const Amqp10FieldRow* row = &amqp10_fields[shape.first]
        cdef const uint8_t* at
        cdef Amqp10ValueView v
        cdef int i, present
        self.read_list(&v)
        at = v.body
        present = min(<int>v.count, shape.count)
        for i in range(present):
            if self.fields[i] != NULL:
                at = amqp10_skip(at)
            elif at[0] == AMQP10_CODE_NULL:
                at += 1
                Py_INCREF(None)
                self.fields[i] = <PyObject*>None
            else:
                value = amqp10_take_field_object(self.block, &row[i], &at)
                Py_INCREF(value)
                self.fields[i] = <PyObject*>value
        for i in range(present, shape.count):
            if self.fields[i] == NULL:
                Py_INCREF(None)
                self.fields[i] = <PyObject*>None
        return 0

    cdef bint same(self, Composite other):
        cdef Amqp10ValueView a, b
        amqp10_read(self.begin, &a)
        amqp10_read(other.begin, &b)
        return amqp10_compare(&a, &b) == 0

    cdef list shown(self):
        """Constructor arguments in the order of the specification, without absent ones."""
        values = [<object>self.fields[i] for i in range(amqp10_shapes[self.shape].count)]
        first = amqp10_shapes[self.shape].first
        return [f"{AMQP10_FIELD_NAMES[first + i]}={amqp10_shown_field(self.shape, i, value)}"
                for i, value in enumerate(values) if value is not None]


# an object in which the offset of the first member is found
cdef object AMQP10_ANY_COMPOSITE = Composite.__new__(Composite)


cdef str amqp10_shown_field(int shape, int i, object value):
    """A field in a repr, which shows no secrets and few octets of long values."""
    if AMQP10_SECRET[shape][i]:
        return repr(SECRET_SHOWN_OCTETS)
    return shown_octets(value) if isinstance(value, bytes) else repr(value)


cdef Recent* AMQP10_RECENT_FIELDS = <Recent*>calloc(len(AMQP10_FIELD_NAMES), sizeof(Recent))     # by row of amqp10_fields


cdef inline object amqp10_take_field_object(bytes block, const Amqp10FieldRow* row, const uint8_t** at):
    """The object of the field at `at`, which moves past it. A value of another type, which LAX accepted, keeps its type."""
    cdef const uint8_t* begin = at[0]
    cdef Recent* recent
    cdef bint irregular = False
    cdef int shape = 0
    if begin[0] == AMQP10_CODE_STR8 and row.requires & AMQP10_PROVIDES_MESSAGE_ID:
        at[0] = begin + 2 + begin[1]            # nearly every message has another one, so it is not shared
        return amqp10_single_string_of(begin + 2, begin[1])
    if begin[0] == AMQP10_CODE_STR8 or begin[0] == AMQP10_CODE_SYM8 or begin[0] == AMQP10_CODE_VBIN8:
        recent = &AMQP10_RECENT_FIELDS[row - &amqp10_fields[0]]
        if recent.secret:
            return amqp10_take_object(block, at, row.type)
        if is_recent(recent, begin, 2 + <size_t>begin[1]):
            at[0] = begin + 2 + begin[1]
            return <object>recent.value
        value = amqp10_take_object(block, at, row.type)
        if will_keep_recent(recent, 2 + <size_t>begin[1]):
            keep_recent(recent, begin, 2 + <size_t>begin[1], value)
        return value
    if begin[0] == 0 and row.requires & AMQP10_COMPOSITES_PROVIDE:
        shape = amqp10_shape_of(begin + 1, &irregular)
        if amqp10_shapes[shape].provides & row.requires:
            at[0] = amqp10_skip(begin)
            return amqp10_composite_of(block, begin, shape)
    return amqp10_take_object(block, at, row.type)


cdef object amqp10_composite_of(bytes block, const uint8_t* begin, int shape):
    """The object of a (checked) described list in `block`."""
    cdef Composite composite = <Composite>bare_object(&AMQP10_COMPOSITE_FACTORIES[shape])
    composite.block = block
    composite.begin = begin
    composite.shape = <uint8_t>shape
    composite.decode_fields()
    return composite


cdef Recent AMQP10_RECENT_HEADER


cdef object amqp10_header_of(bytes block, const uint8_t* begin):
    """The object of a header section in `block`. Messages that have the same header share it."""
    cdef size_t size = <size_t>(amqp10_skip(begin) - begin)
    cdef bytes octets
    if is_recent(&AMQP10_RECENT_HEADER, begin, size):
        return <object>AMQP10_RECENT_HEADER.value
    if not will_keep_recent(&AMQP10_RECENT_HEADER, size):
        return amqp10_composite_of(block, begin, AMQP10_HEADER)
    octets = octets_of(begin, <uint32_t>size)       # so that it does not keep the block
    header = amqp10_composite_of(octets, <const uint8_t*>PyBytes_AS_STRING(octets), AMQP10_HEADER)
    keep_recent(&AMQP10_RECENT_HEADER, begin, size, header)
    return header


cdef int amqp10_put_composite(Octets* o, Composite composite) except -1:
    add_octets(o, composite.begin, <size_t>(amqp10_skip(composite.begin) - composite.begin))
    return 0


cdef bint amqp10_take_names(int shape, dict fields, PyObject** values) except -1:
    """The values of a shape's fields by number, borrowed from the dict; NULL: not given. Returns whether it has other names."""
    cdef const Amqp10ShapeRow* row = &amqp10_shapes[shape]
    cdef int i
    cdef Py_ssize_t found = 0
    for i in range(row.count):
        values[i] = PyDict_GetItemWithError(fields, AMQP10_FIELD_NAMES[row.first + i])
        found += values[i] != NULL
    return found != len(fields)


cdef int amqp10_put_fields(Octets* o, int shape, PyObject** values, PyObject** kept, dict surplus) except -1:
    """Write a composite with these values by number, without nulls at the end. Returns True if all are plain: then the octets are
    valid by construction.

    `kept`: gets the values that decoding would return for null and for plain values. `surplus`: names and
    values that include names of other fields, which is an error; None: there are no other names.
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
            Py_INCREF(None)
            kept[i] = <PyObject*>None
            continue
        if not amqp10_put_plain(o, &field[i], <object>values[i]):
            plain = False
            amqp10_put_field(o, &field[i], <object>values[i], AMQP10_FIELD_NAMES[row.first + i])
        else:
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
    """The Symbol that decoding returns for a str of ASCII."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, &size)
    return amqp10_symbol_of(p, <uint32_t>size)


cdef inline bint amqp10_put_plain(Octets* o, const Amqp10FieldRow* row, object value) noexcept:
    """Write a plain value: of the class that decoding returns for a field of this type (a str for a symbol), and allowed for the
    field. False: nothing was written."""
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
    """Write a map of ASCII names and of scalars, which is valid as application properties by construction. False: nothing was
    written."""
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
    """Write a value for a field. If the specification fixes its type, Python objects of any matching type are accepted."""
    try:
        if row.multiple:
            if isinstance(value, Array):
                amqp10_put_value(o, value, 0)
            else:
                amqp10_put_symbols(o, value)
        elif row.type == AMQP10_STRING or row.type == AMQP10_BOOLEAN:
            amqp10_put_value(o, value, 0)              # parsing checks it
        elif row.type == AMQP10_MAP or row.type == AMQP10_ANY:
            if row.requires & AMQP10_PROVIDES_MESSAGE_ID and type(value) is int:
                value = ULong(value)            # the only integer type of an identifier
            amqp10_put_value(o, value, 0)
        else:
            amqp10_put_typed(o, row.type, value)
    except EncodeError as error:
        raise EncodeError(f"{name}: {error}") from None
    except (TypeError, BufferError) as error:
        raise TypeError(f"{name}: {error}") from None
    return 0


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
