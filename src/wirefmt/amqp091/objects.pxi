# The frames of AMQP 0.9.1 as Python objects: their base, content headers, bodies, heartbeats, protocol headers.
# The classes of the methods are generated (methods.pxi).
#
# A frame exists only as its octets. A constructor writes them and reads them back with amqp091_parse, so everything that can be
# built can be decoded. Objects keep the block (bytes) that contains them, and the positions of their values; strings and tables
# become objects on access.
from cpython.memoryview cimport PyMemoryView_FromObject

from wirefmt.amqp091.spec import SECRETS as AMQP091_SECRET_ROWS


cdef frozenset AMQP091_SECRETS = frozenset([field for _, field in AMQP091_SECRET_ROWS])     # arguments


cdef tuple c_names(const CText* names, int count):
    return tuple([names[i].decode("ascii") for i in range(count)])


cdef tuple AMQP091_ARGUMENT_NAMES = c_names(amqp091_argument_name, AMQP091_ARGUMENT_NAME_COUNT)
cdef tuple AMQP091_PROPERTY_NAMES = c_names(amqp091_property_name, AMQP091_PROPERTY_COUNT)
cdef uint8_t[AMQP091_ARGUMENT_NAME_COUNT] AMQP091_ARGUMENT_SECRET       # by Amqp091ArgumentName


cdef int fill_amqp091_secrets() except -1:
    cdef int i
    for i in range(AMQP091_ARGUMENT_NAME_COUNT):
        AMQP091_ARGUMENT_SECRET[i] = AMQP091_ARGUMENT_NAMES[i] in AMQP091_SECRETS
    return 0


fill_amqp091_secrets()


# ------------------------------------------------------------------------------------------------ values of frames

cdef inline object amqp091_typed_value(const uint8_t* p, int type):
    """The value of an argument or property at `p`, except bits and tables."""
    if type == AMQP091_SHORTSTR:
        return text_or_octets(p + 1, p[0])
    if type == AMQP091_OCTET:
        return p[0]
    if type == AMQP091_SHORT:
        return load_u16(p)
    if type == AMQP091_LONG:
        return load_u32(p)
    if type == AMQP091_LONGSTR:
        return octets_of(p + 4, load_u32(p))
    return load_u64(p)                      # longlong, timestamp


cdef int amqp091_write_argument(Octets* o, int type, object value, str name) except -1:
    """An argument or property of any type except bit."""
    if type == AMQP091_SHORTSTR:
        return amqp091_write_shortstr(o, value, name)
    if type == AMQP091_LONGSTR:
        return amqp091_write_longstr(o, value, name)
    if type == AMQP091_TABLE:
        return amqp091_write_table(o, () if value is None else value, name, 0)
    if type == AMQP091_OCTET:
        add_u8(o, <uint8_t>whole_number(value, 0xFF, name))
    elif type == AMQP091_SHORT:
        add_u16(o, <uint16_t>whole_number(value, 0xFFFF, name))
    elif type == AMQP091_LONG:
        add_u32(o, <uint32_t>whole_number(value, 0xFFFFFFFF, name))
    else:
        if type == AMQP091_TIMESTAMP and isinstance(value, DATETIME):
            value = seconds_of(value)
        amqp091_write_u64(o, value, name)
    return 0


cdef int amqp091_write_u64(Octets* o, object value, str name) except -1:
    if not PyIndex_Check(value):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    number = PyNumber_Index(value)
    if not 0 <= number <= 0xFFFFFFFFFFFFFFFF:
        raise EncodeError(f"{name}: {number} is out of range (0 to {0xFFFFFFFFFFFFFFFF})")
    add_u64(o, <uint64_t>number)
    return 0


cdef str shown_value_of(str name, object value):
    if name in AMQP091_SECRETS:
        return repr(SECRET_SHOWN_OCTETS)
    if name == "payload" or name == "body":
        return shown_octets(value)
    return repr(value)


cdef str shown_arguments(object message, tuple defaults):
    """Constructor arguments that differ from their defaults."""
    cdef list out = []
    for name, default in zip(type(message).__match_args__, defaults):
        value = getattr(message, name)
        if default is None and value is None or default is not None and value == default:
            continue
        out.append(f"{name}={shown_value_of(name, value)}")
    return ", ".join(out)


# ------------------------------------------------------------------------------------------------ properties

cdef int write_properties_of(Octets* o, PyObject** values, Amqp091PropertiesView* p) except -1:
    """Write property flags and values; None: the property is absent. `p` gets their positions, except `at`. Returns True if
    parsing cannot find a violation: only a table may nest too deep, or have values that only LAX accepts."""
    cdef size_t at = o.size
    cdef bint plain = True
    cdef int i
    p.flags = 0
    add_u16(o, 0)
    for i in range(AMQP091_PROPERTY_COUNT):
        if <object>values[i] is None:
            continue
        p.flags |= amqp091_properties[i].flag
        p.value[i] = <uint32_t>(o.size - at)
        if amqp091_properties[i].type == AMQP091_TABLE:
            if PyDict_CheckExact(<object>values[i]) and amqp091_write_plain_table(o, <dict><object>values[i]):
                continue
            plain = False
        amqp091_write_argument(o, amqp091_properties[i].type, <object>values[i], <str>AMQP091_PROPERTY_NAMES[i])
    p.size = <uint32_t>(o.size - at)
    if not o.failed:
        store_u16(o.at + at, p.flags)
    return plain


@cython.final
@cython.freelist(512)
@cython.no_gc
cdef class BasicProperties:
    """The properties of a content of class basic (reference 1.8.1): None where a property is absent.

    `headers` is a FieldTable, `timestamp` an int of seconds since 1970 (a constructor also takes a datetime),
    `delivery_mode` and `priority` are ints, the others are str, or bytes if they are not UTF-8.
    """
    cdef bytes block
    cdef Amqp091PropertiesView p
    cdef object cached          # headers

    def __init__(self, *, content_type=None, content_encoding=None, headers=None, delivery_mode=None, priority=None,
                 correlation_id=None, reply_to=None, expiration=None, message_id=None, timestamp=None, type=None,
                 user_id=None, app_id=None, cluster_id=None):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        cdef Fault f
        cdef bint plain
        cdef PyObject* values[AMQP091_PROPERTY_COUNT]
        values[:] = [
            <PyObject*>content_type, <PyObject*>content_encoding, <PyObject*>headers, <PyObject*>delivery_mode,
            <PyObject*>priority, <PyObject*>correlation_id, <PyObject*>reply_to, <PyObject*>expiration,
            <PyObject*>message_id, <PyObject*>timestamp, <PyObject*>type, <PyObject*>user_id, <PyObject*>app_id,
            <PyObject*>cluster_id]
        o = octets_over(start, WRITE_START)
        try:
            plain = write_properties_of(&o, values, &self.p)
            octets = taken_octets(&o)
        finally:
            free_octets(&o)
        if plain:
            self.block = octets
            self.p.at = begin_of(octets)
        elif self.read(octets, True, &f) != OK:
            raise encode_error(&AMQP091_TABLES, &f)

    cdef int read(self, bytes octets, bint strict, Fault* f) except -1:
        """Parse exactly these octets as the properties. Returns a Status."""
        cdef Amqp091Options o
        cdef int status
        memset(&o, 0, sizeof(o))
        o.common.strict = strict
        status = amqp091_parse_properties(begin_of(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &self.p, f)
        if status == OK:
            self.block = octets
        return status

    @classmethod
    def decode(cls, data, /):
        """Decode properties from exactly these bytes: property flags, then the values. Raises DecodeError."""
        cdef BasicProperties made = BasicProperties.__new__(BasicProperties)
        cdef Fault f
        if made.read(take_block(data), True, &f) != OK:
            raise_fault(&AMQP091_TABLES, &f, 0)
        return made

    def encode(self):
        """Property flags, then the values."""
        return octets_of(self.p.at, self.p.size)

    cdef tuple all_values(self):
        return tuple([getattr(self, name) for name in AMQP091_PROPERTY_NAMES])

    def __eq__(self, other):
        cdef BasicProperties that
        if not isinstance(other, BasicProperties):
            return NotImplemented
        that = <BasicProperties>other
        if self.p.size == that.p.size and memcmp(self.p.at, that.p.at, self.p.size) == 0:
            return True
        return self.all_values() == that.all_values()

    def __hash__(self):
        return hash(self.all_values())

    def __repr__(self):
        return f"amqp091.BasicProperties({shown_arguments(self, (None,) * AMQP091_PROPERTY_COUNT)})"

    def __reduce__(self):
        return restore_properties, (self.encode(),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


cdef object get_property(object properties, void* closure):
    """The getter of all properties; `closure` is the Amqp091Property."""
    cdef BasicProperties self = <BasicProperties>properties
    cdef int i = <int><size_t>closure
    cdef const uint8_t* p = amqp091_property(&self.p, i)
    if p == NULL:
        return None
    if i == AMQP091_PROPERTY_CORRELATION_ID or i == AMQP091_PROPERTY_MESSAGE_ID:
        return unique_text_or_octets(p + 1, p[0])
    if i != AMQP091_PROPERTY_HEADERS:
        return amqp091_typed_value(p, amqp091_properties[i].type)
    if self.cached is None:
        self.cached = amqp091_table_at(self.block, p)
    return self.cached


cdef PyGetSetDef[AMQP091_PROPERTY_COUNT] AMQP091_PROPERTY_GETTERS


cdef int give_properties() except -1:
    """Make the properties attributes of BasicProperties."""
    cdef int i
    for i in range(AMQP091_PROPERTY_COUNT):
        AMQP091_PROPERTY_GETTERS[i].name = amqp091_property_name[i]
        AMQP091_PROPERTY_GETTERS[i].get = get_property
        AMQP091_PROPERTY_GETTERS[i].closure = <void*><size_t>i
        wirefmt_set_attribute(BasicProperties, AMQP091_PROPERTY_NAMES[i],
                              PyDescr_NewGetSet(<PyTypeObject*>BasicProperties, &AMQP091_PROPERTY_GETTERS[i]))
    wirefmt_set_attribute(BasicProperties, "__match_args__", AMQP091_PROPERTY_NAMES)
    return 0


give_properties()


def restore_properties(bytes octets not None):
    """Unpickle properties."""
    cdef BasicProperties made = BasicProperties.__new__(BasicProperties)
    cdef Fault f
    if made.read(octets, False, &f) != OK:
        raise_fault(&AMQP091_TABLES, &f, 0)
    return made


cdef inline BasicProperties properties_at(bytes block, const Amqp091PropertiesView* p):
    cdef BasicProperties made = BasicProperties.__new__(BasicProperties)
    made.block = block
    made.p = p[0]
    return made


# ------------------------------------------------------------------------------------------------ frames

@cython.freelist(512)
@cython.no_gc
cdef class Frame:
    """Base of all frames. Immutable; equal by value; keeps the input block it was decoded from.

    Attributes of every frame: `channel`, `notes` (violations that LAX accepted).
    """
    cdef bytes block
    cdef const uint8_t* frame
    cdef uint32_t size
    cdef uint16_t channel_
    cdef uint8_t method_        # row of amqp091_methods
    cdef uint8_t noted          # LAX accepted a violation
    cdef int8_t side            # the side passed to the decoder
    cdef uint32_t[AMQP091_SLOTS] value          # of a method: Amqp091FrameView.value
    cdef object cached          # table of a method, properties of a content header, after the first access

    def __init__(self):
        raise TypeError("Frame is a base class: use the class of a frame")

    # ---- octets

    @property
    def channel(self):
        return self.channel_

    def encode(self):
        """The bytes of the frame: those it was decoded from, or those its constructor wrote."""
        return message_octets(self.block, self.frame, self.size)

    def detach(self):
        """An equal frame that holds only its own bytes, not the larger input block."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self
        return read_amqp091(octets_of(self.frame, self.size), self.side, self.noted)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef Amqp091Options o
        if not self.noted:
            return ()
        plain_amqp091_options(&o, self.side, False)
        return message_notes(&AMQP091_OPS, self.frame, self.size, &o.common)

    # ---- value

    cdef tuple all_values(self):
        return tuple([getattr(self, name) for name in type(self).__match_args__])

    def __eq__(self, other):
        cdef Frame that
        if type(self) is not type(other):
            return NotImplemented
        that = <Frame>other
        if self.size == that.size and (self.frame == that.frame or memcmp(self.frame, that.frame, self.size) == 0):
            return True
        return self.all_values() == that.all_values()

    def __hash__(self):
        return hash(self.all_values())

    def __repr__(self):
        return f"amqp091.{type(self).__name__}({shown_arguments(self, (None,) * len(type(self).__match_args__))})"

    def __reduce__(self):
        return restore, (self.encode(), self.side, self.noted)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # ---- for the classes below

    cdef int parsed(self, Amqp091FrameView* m) except -1:
        """Parse the frame again, for fields that are not cached."""
        cdef Amqp091Options o
        cdef Fault f
        plain_amqp091_options(&o, -1, False)
        if amqp091_parse(self.frame, self.size, &o, m, &f) != OK:
            raise_fault(&AMQP091_TABLES, &f, 0)
        return 0

    cdef int adopt(self, Octets* written) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them as a frame."""
        cdef Amqp091Options o
        cdef Amqp091FrameView m
        cdef Fault f
        cdef bytes octets
        if written.size > AMQP091_FRAME_TOP:
            raise EncodeError(f"a frame of {written.size} bytes, the limit is {AMQP091_FRAME_TOP}")
        octets = taken_octets(written)
        plain_amqp091_options(&o, -1, True)
        if amqp091_parse(begin_of(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
            raise encode_error(&AMQP091_TABLES, &f)
        hold_amqp091(self, octets, &m, -1)
        return 0


cdef inline void hold_amqp091(Frame self, bytes block, const Amqp091FrameView* m, int side) noexcept:
    """Cache the fields of a parsed frame that its getters need."""
    self.block = block
    self.frame = m.frame
    self.size = m.size
    self.channel_ = m.channel
    self.method_ = m.method
    self.noted = m.notes.count != 0
    self.side = <int8_t>side
    if m.type == AMQP091_FRAME_METHOD:
        memcpy(self.value, m.value, sizeof(self.value))


cdef void plain_amqp091_options(Amqp091Options* o, int side, bint strict) noexcept nogil:
    memset(o, 0, sizeof(Amqp091Options))
    o.common.side = <int8_t>side
    o.common.strict = strict


cdef object read_amqp091(bytes octets, int side, bint noted):
    """The frame of exactly these octets, which have been parsed before."""
    cdef Amqp091Options o
    plain_amqp091_options(&o, side, not noted)
    return read_message(&AMQP091_OPS, octets, &o.common)


cdef void amqp091_review(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil:
    cdef Amqp091FrameView m
    amqp091_parse(p, n, <const Amqp091Options*>o, &m, f)
    notes[0] = m.notes


cdef object amqp091_object_of(bytes block, const uint8_t* p, size_t n, const CommonOptions* o, Fault* f):
    cdef Amqp091FrameView m
    return make_amqp091(block, &m, o.side) if amqp091_parse(p, n, <const Amqp091Options*>o, &m, f) == OK else None


cdef MessageOps AMQP091_OPS
AMQP091_OPS.tables = &AMQP091_TABLES
AMQP091_OPS.review = amqp091_review
AMQP091_OPS.read = amqp091_object_of


def restore(bytes octets not None, int side, bint noted):
    """Unpickle a frame."""
    if not -1 <= side <= 1:
        raise ValueError(f"no side {side}")
    return read_amqp091(octets, side, noted)


cdef class Method(Frame):
    """Base of all methods (general 4.2.4). `name` is as "basic.get-ok", `ids` as (60, 71); arguments are attributes.

    Bits are bool, short strings are str, or bytes if they are not UTF-8; long strings are bytes, tables FieldTable.
    A repr shows no secrets.
    """

    @property
    def ids(self):
        """Class and method identifier."""
        return amqp091_methods[self.method_].class_id, amqp091_methods[self.method_].method_id

    @property
    def name(self):
        return amqp091_methods[self.method_].name.decode("ascii")

    @property
    def has_content(self):
        """True if a content header and a body follow."""
        return amqp091_methods[self.method_].content != 0

    @property
    def synchronous(self):
        """True if the peer answers with a method."""
        return amqp091_methods[self.method_].synchronous != 0

    cdef int build(self, int method, object channel, PyObject** values) except -1:
        """Write the method with these arguments, in the order of the specification, and adopt it."""
        cdef const Amqp091MethodRow* row = &amqp091_methods[method]
        cdef const Amqp091ArgumentRow* a
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        cdef size_t opened
        cdef int i, bits = 0
        o = octets_over(start, WRITE_START)
        try:
            opened = amqp091_open_frame(&o, AMQP091_FRAME_METHOD, <uint16_t>whole_number(channel, 0xFFFF, "channel"))
            add_u16(&o, row.class_id)
            add_u16(&o, row.method_id)
            for i in range(row.count):
                a = &amqp091_arguments[row.first + i]
                if a.type != AMQP091_BIT:
                    amqp091_write_argument(&o, a.type, <object>values[i], <str>AMQP091_ARGUMENT_NAMES[a.name])
                    continue
                bits = (bits if a.bit else 0) | (1 if <object>values[i] else 0) << a.bit
                if i + 1 == row.count or amqp091_arguments[row.first + i + 1].slot != a.slot:
                    add_u8(&o, <uint8_t>bits)
            amqp091_close_frame(&o, opened)
            self.adopt(&o)
        finally:
            free_octets(&o)
        return 0


cdef object get_argument(object method, void* closure):
    """The getter of all arguments; `closure` is the row of amqp091_arguments."""
    cdef Method self = <Method>method
    cdef const Amqp091ArgumentRow* a = <const Amqp091ArgumentRow*>closure
    cdef const uint8_t* p
    p = self.frame + self.value[a.slot]
    if a.type == AMQP091_BIT:
        return (p[0] >> a.bit & 1) != 0
    if a.type != AMQP091_TABLE:
        return amqp091_typed_value(p, a.type)
    if self.cached is None:
        self.cached = amqp091_table_at(self.block, p)
    return self.cached


cdef PyGetSetDef[AMQP091_ARGUMENT_COUNT] AMQP091_ARGUMENT_GETTERS


cdef int give_arguments(object cls, int method) except -1:
    """Make the arguments of a method attributes of its class."""
    cdef const Amqp091MethodRow* row = &amqp091_methods[method]
    cdef int i
    for i in range(row.first, row.first + row.count):
        AMQP091_ARGUMENT_GETTERS[i].name = amqp091_argument_name[amqp091_arguments[i].name]
        AMQP091_ARGUMENT_GETTERS[i].get = get_argument
        AMQP091_ARGUMENT_GETTERS[i].closure = <void*>&amqp091_arguments[i]
        wirefmt_set_attribute(cls, AMQP091_ARGUMENT_NAMES[amqp091_arguments[i].name],
                              PyDescr_NewGetSet(<PyTypeObject*>cls, &AMQP091_ARGUMENT_GETTERS[i]))
    return 0


cdef Factory[AMQP091_METHOD_COUNT] AMQP091_METHOD_FACTORIES        # by row of amqp091_methods


cdef int add_method_class(int method, object cls) except -1:
    """Register a class of methods.pxi as the class of a method, and add its attributes."""
    AMQP091_METHOD_FACTORIES[method] = factory_of(cls)
    return give_arguments(cls, method)


@cython.final
cdef class ContentHeader(Frame):
    """A content header (general 4.2.6.1): the size of the body, and the properties."""
    __match_args__ = ("channel", "body_size", "properties")

    def __init__(self, *, channel, body_size=0, BasicProperties properties=None):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        cdef size_t opened
        o = octets_over(start, WRITE_START)
        try:
            opened = amqp091_open_frame(&o, AMQP091_FRAME_HEADER, <uint16_t>whole_number(channel, 0xFFFF, "channel"))
            add_u16(&o, AMQP091_CLASS_BASIC)
            add_u16(&o, 0)                  # weight
            amqp091_write_u64(&o, body_size, "body_size")
            write_known_properties(&o, properties)
            amqp091_close_frame(&o, opened)
            self.adopt(&o)
        finally:
            free_octets(&o)

    @property
    def class_id(self):
        return load_u16(self.frame + 7)

    @property
    def weight(self):
        """Always 0, unless LAX accepted another value."""
        return load_u16(self.frame + 9)

    @property
    def body_size(self):
        return load_u64(self.frame + 11)

    @property
    def properties(self):
        return self.properties_object()

    cdef BasicProperties properties_object(self):
        cdef Amqp091Options o
        cdef Amqp091PropertiesView p
        cdef Fault f
        if self.cached is None:
            plain_amqp091_options(&o, -1, False)
            if amqp091_parse_properties(self.frame + 19, self.size - 20, &o, &p, &f) != OK:
                raise_fault(&AMQP091_TABLES, &f, 0)
            self.cached = properties_at(self.block, &p)
        return <BasicProperties>self.cached


cdef int write_known_properties(Octets* o, BasicProperties properties) except -1:
    if properties is None:
        add_u16(o, 0)
    else:
        add_octets(o, properties.p.at, properties.p.size)
    return 0


@cython.final
cdef class Body(Frame):
    """A content body (general 4.2.6.2). Also a buffer: that of its payload.

    `payload` is a read-only memoryview into the bytes the frame was decoded from; `payload_bytes()` copies it.
    """
    __match_args__ = ("channel", "payload")

    def __init__(self, *, channel, payload):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        o = octets_over(start, WRITE_START)
        try:
            add_u8(&o, AMQP091_FRAME_BODY)
            add_u16(&o, <uint16_t>whole_number(channel, 0xFFFF, "channel"))
            amqp091_write_longstr(&o, payload, "payload")
            add_u8(&o, AMQP091_FRAME_END)
            self.adopt(&o)
        finally:
            free_octets(&o)

    cdef tuple all_values(self):
        return (self.channel_, self.payload_bytes())

    @property
    def payload(self):
        return PyMemoryView_FromObject(self)

    def payload_bytes(self):
        """The payload, copied."""
        return octets_of(self.frame + 7, self.size - AMQP091_OVERHEAD)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.frame + 7, self.size - AMQP091_OVERHEAD, flags)


@cython.final
cdef class Heartbeat(Frame):
    """A heartbeat (general 4.2.7)."""
    __match_args__ = ()

    def __init__(self):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        o = octets_over(start, WRITE_START)
        amqp091_close_frame(&o, amqp091_open_frame(&o, AMQP091_FRAME_HEARTBEAT, 0))
        self.adopt(&o)


@cython.final
cdef class ProtocolHeader(Frame):
    """The first data of a client; also the answer of a server that refuses the version (general 4.2.2).

    `octets` are the four bytes after "AMQP": 0, 0, 9, 1. LAX also reads those of other versions.
    """
    __match_args__ = ("octets",)

    def __init__(self, octets=b"\0\0\x09\x01"):
        cdef Octets o
        cdef uint8_t[WRITE_START] start
        cdef bytes four = take_block(octets)
        if len(four) != 4:
            raise EncodeError(f"octets: a protocol header has four bytes after \"AMQP\", not {len(four)}")
        o = octets_over(start, WRITE_START)
        add_octets(&o, <const uint8_t*>b"AMQP", 4)
        add_octets(&o, begin_of(four), 4)
        self.adopt(&o)

    @property
    def octets(self):
        return octets_of(self.frame + 4, 4)


cdef inline object make_amqp091(bytes block, const Amqp091FrameView* m, int side):
    """The object of a parsed frame in `block`."""
    cdef Frame message
    if m.type == AMQP091_FRAME_METHOD:
        message = <Frame>bare_object(&AMQP091_METHOD_FACTORIES[m.method])
    elif m.type == AMQP091_FRAME_BODY:
        message = Body.__new__(Body)
    elif m.type == AMQP091_FRAME_HEADER:
        message = ContentHeader.__new__(ContentHeader)
    elif m.type == AMQP091_FRAME_HEARTBEAT:
        message = Heartbeat.__new__(Heartbeat)
    else:
        message = ProtocolHeader.__new__(ProtocolHeader)
    hold_amqp091(message, block, m, side)
    return message
