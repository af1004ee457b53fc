# What packets contain, as Python objects (properties, filters, codes, subscriptions, wills), and values written as fields of
# packets.
from cpython.dict cimport PyDict_GetItemWithError
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject, PyObject_Hash, PyObject_RichCompare, Py_EQ, Py_NE
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE

from collections.abc import Sequence
from sys import intern

from wirefmt.mqtt.spec import SECRETS as MQTT_SECRET_ROWS


# ------------------------------------------------------------------------------------------------ names

cdef tuple make_property_names():
    """Interned, like names in the caller's source code, so that a dict finds them by their pointer."""
    cdef int i
    return tuple([intern(mqtt_property_name[i].decode("ascii")) for i in range(MQTT_PROPERTY_TOP)])


cdef tuple PROPERTY_NAMES = make_property_names()           # by identifier; "": undefined
cdef list PROPERTY_PATHS = [f"properties.{name}" for name in PROPERTY_NAMES]
cdef list WILL_PROPERTY_PATHS = [f"will.properties.{name}" for name in PROPERTY_NAMES]
cdef dict PROPERTY_IDENTIFIERS = {name: i for i, name in enumerate(PROPERTY_NAMES) if name}

cdef tuple FORMS = (None, "short", "reason_only", "full")   # by MqttForm
cdef frozenset SECRET_PROPERTIES = frozenset([field for _, field in MQTT_SECRET_ROWS])
cdef uint8_t[64] MQTT_PROPERTY_SECRET                       # by identifier


cdef int fill_secret_properties() except -1:
    cdef int i
    for i in range(MQTT_PROPERTY_TOP):
        MQTT_PROPERTY_SECRET[i] = PROPERTY_NAMES[i] in SECRET_PROPERTIES
    return 0


fill_secret_properties()


# ------------------------------------------------------------------------------------------------ octets -> values

@cython.final
@cython.freelist(512)
@cython.no_gc
@cython.collection_type("sequence")
cdef class Properties:
    """The properties of a packet or a Will (5.0, 2.2.2.2): a read-only sequence of (name, value) pairs in wire order.

    It equals a tuple of equal pairs. `get` and `get_all` find values by name. The values of a decoded packet become objects when
    they are read, and iterating keeps none of them. `Properties(pairs)` takes any (name, value) pairs; they are checked when
    a packet is built with them.
    """
    cdef bytes block            # None: only `pairs` has them
    cdef Span area              # valid properties
    cdef uint32_t size
    cdef tuple pairs            # None: not made yet

    def __init__(self, pairs=(), /):
        self.pairs = frozen_pairs(pairs)
        self.size = <uint32_t>PyTuple_GET_SIZE(self.pairs)

    cdef PropertiesIterator iterate(self):
        cdef PropertiesIterator made = PropertiesIterator.__new__(PropertiesIterator)
        made.block = self.block
        made.at = self.area.at
        made.count = self.size
        return made

    cdef tuple as_tuple(self):
        if self.pairs is None:
            self.pairs = tuple(self.iterate())
        return self.pairs

    def get(self, name, default=None, /):
        """The value of the first property with this name; `default` if no property has it. That of a User Property is a
        pair of str."""
        cdef MqttProperty v
        cdef const uint8_t* at = self.area.at
        cdef int identifier
        cdef bint secret = False
        cdef uint32_t i
        if self.pairs is not None:
            for key, value in self.pairs:
                if key == name:
                    return value
            return default
        identifier = property_identifier(name)
        for i in range(self.size):
            at = mqtt_next_property(at, &v)
            if v.identifier == <uint32_t>identifier:
                return property_value(&v, i, &secret)
        return default

    def get_all(self, name, /):
        """The values of all properties with this name, a tuple. User Property may repeat, and Subscription Identifier."""
        return tuple([value for key, value in self if key == name])

    def __len__(self):
        return self.size

    def __iter__(self):
        return self.iterate() if self.pairs is None else iter(self.pairs)

    def __getitem__(self, index):
        return self.as_tuple()[index]

    def __contains__(self, pair):
        return pair in self.as_tuple()

    def index(self, value, *bounds):
        """Like tuple."""
        return self.as_tuple().index(value, *bounds)

    def count(self, value):
        """Like tuple."""
        return self.as_tuple().count(value)

    def __eq__(self, other):
        cdef Properties that
        if not isinstance(other, Properties):
            return self.as_tuple() == other if isinstance(other, tuple) else NotImplemented
        that = <Properties>other
        if self.block is not None and that.block is not None and self.area.size == that.area.size and \
                memcmp(self.area.at, that.area.at, self.area.size) == 0:
            return True
        return self.as_tuple() == that.as_tuple()

    def __hash__(self):
        return hash(self.as_tuple())

    def __repr__(self):
        return f"mqtt.Properties({self.as_tuple()!r})"

    def __reduce__(self):
        return Properties, (self.as_tuple(),)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


Sequence.register(Properties)
cdef Properties NO_PROPERTIES = Properties()


cdef inline Properties properties_of(bytes block, const Span* area, uint32_t count, bint apart):
    """Properties that mqtt_parse has checked. apart: they do not keep the block, nor octets that only LAX accepts."""
    cdef Properties made
    if count == 0:
        return NO_PROPERTIES
    made = Properties.__new__(Properties)
    made.block = block
    made.area = area[0]
    made.size = count
    if apart:
        made.as_tuple()
        made.block = None
    return made


@cython.final
@cython.freelist(16)
@cython.no_gc
cdef class PropertiesIterator:
    """Makes the pairs of Properties one after the other."""
    cdef bytes block
    cdef const uint8_t* at
    cdef uint32_t next, count
    cdef tuple last             # see next_pair

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.count - self.next

    def __next__(self):
        cdef Recent* recent = &RECENT_PROPERTIES[self.next & (RECENT_PLACES - 1)]
        cdef const uint8_t* begin = self.at
        cdef MqttProperty v
        cdef bint secret = False
        cdef size_t size
        if self.next == self.count:
            raise StopIteration
        self.at = mqtt_next_property(begin, &v)
        size = <size_t>(self.at - begin)
        self.next += 1
        if is_recent(recent, begin, size):
            return <object>recent.value
        value = property_value(&v, self.next - 1, &secret)
        name = <object>borrowed_item(<PyObject*>PROPERTY_NAMES, v.identifier)
        if will_keep_recent(recent, size) and not secret:
            pair = next_pair(NULL, name, value)
            keep_recent(recent, begin, size, pair)
            return pair
        self.last = next_pair(<PyObject*>self.last, name, value)
        return self.last


cdef Recent[RECENT_PLACES] RECENT_PROPERTIES        # pairs, by the place of a property in its packet
cdef Recent[RECENT_PLACES] RECENT_NAMES             # names of User Properties


cdef inline object property_value(const MqttProperty* v, uint32_t place, bint* secret):
    """The value of a property. secret: False; it is True afterwards if the value is one."""
    cdef int type = mqtt_properties[v.identifier].type
    if type == MQTT_STRING:
        return text_of(v.value.at, v.value.size)
    if type == MQTT_PAIR:
        return property_pair(v, &RECENT_NAMES[place & (RECENT_PLACES - 1)], secret)
    if type == MQTT_BINARY:
        value = octets_of(v.value.at, v.value.size)
        secret[0] = MQTT_PROPERTY_SECRET[v.identifier]
        return hidden(value) if secret[0] else value
    return v.number


cdef inline tuple property_pair(const MqttProperty* v, Recent* recent, bint* secret):
    """The name and value of a User Property. recent: of its name; secret: as property_value."""
    value = text_of(v.value.at, v.value.size)
    if v.name.size and is_recent(recent, v.name.at, v.name.size):
        name = <object>recent.value
        secret[0] = recent.secret
    else:
        name = text_of(v.name.at, v.name.size)
        secret[0] = is_secret_name(v.name.at, v.name.size)
        if v.name.size and will_keep_recent(recent, v.name.size):
            keep_recent(recent, v.name.at, v.name.size, name)
            recent.secret = secret[0]
    return next_pair(NULL, name, hidden(value) if secret[0] else value)


cdef tuple subscriptions_of(const MqttPacketView* m):
    cdef const uint8_t* p = m.list.at
    cdef uint8_t options
    cdef uint32_t i
    cdef list out = []
    for i in range(m.list_count):
        options = p[2 + load_u16(p)]
        # before 5.0 the other bits are unused (3.1) or reserved (3.1.1): ignore them
        out.append(make_subscription(text_of(p + 2, load_u16(p)), options if m.version == 5 else options & 3))
        p += 3 + load_u16(p)
    return tuple(out)


cdef tuple filters_of(const MqttPacketView* m):
    cdef const uint8_t* p = m.list.at
    cdef uint32_t i
    cdef list out = []
    for i in range(m.list_count):
        out.append(text_of(p + 2, load_u16(p)))
        p += 2 + load_u16(p)
    return tuple(out)


# ------------------------------------------------------------------------------------------------ repr

cdef str shown_value(str name, object value):
    if name == "password":
        return repr(SECRET_SHOWN_OCTETS)
    if name == "payload":
        return shown_octets(value)
    if name == "properties":
        return repr((<Properties?>value).as_tuple())
    return repr(value)


cdef str shown_fields(object message):
    """Constructor arguments; None, False or empty ones are omitted if that is the default."""
    return ", ".join(
        f"{name}={shown_value(name, value)}"
        for name in type(message).__match_args__
        if not ((value := getattr(message, name)) is None or value == () or (value is False and name != "clean_start"))
    )


# ------------------------------------------------------------------------------------------------ values within packets

@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class Subscription:
    """A topic filter of SUBSCRIBE with its options (5.0, 3.8.3.1). Before 5.0 only `qos` is on the wire.

    `qos` is 0 to 2, `retain_handling` 0 to 2. Values are checked when a Subscribe is built.
    """
    cdef readonly str topic_filter
    cdef readonly int qos, retain_handling
    cdef readonly bint no_local, retain_as_published

    __match_args__ = ("topic_filter", "qos", "no_local", "retain_as_published", "retain_handling")

    def __init__(self, str topic_filter not None, qos=0, no_local=False, retain_as_published=False, retain_handling=0):
        self.qos = <int>whole_number(qos, 3, "qos")
        self.retain_handling = <int>whole_number(retain_handling, 3, "retain_handling")
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.topic_filter = topic_filter

    cdef tuple values(self):
        return (self.topic_filter, self.qos, self.no_local, self.retain_as_published, self.retain_handling)

    def __eq__(self, other):
        if not isinstance(other, Subscription):
            return NotImplemented
        return self.values() == (<Subscription>other).values()

    def __hash__(self):
        return hash(self.values())

    def __repr__(self):
        return f"mqtt.Subscription({shown_fields(self)})"

    def __reduce__(self):
        return Subscription, self.values()


cdef Subscription make_subscription(str topic_filter, uint8_t options):
    cdef Subscription s = Subscription.__new__(Subscription)
    s.topic_filter = topic_filter
    s.qos = options & 3
    s.no_local = options >> 2 & 1
    s.retain_as_published = options >> 3 & 1
    s.retain_handling = options >> 4 & 3
    return s


cdef uint8_t subscription_options(Subscription s, int version) except? 0xFF:
    if version < 5:
        if s.no_local or s.retain_as_published or s.retain_handling:
            raise EncodeError("subscriptions: only MQTT 5.0 has options other than qos")
        return <uint8_t>s.qos
    return <uint8_t>(s.qos | s.no_local << 2 | s.retain_as_published << 3 | s.retain_handling << 4)


@cython.final
@cython.no_gc
cdef class Will:
    """The Will of a CONNECT (5.0, 3.1.2.5 and 3.1.3): what a server publishes if the client is lost.

    `topic` str, `payload` bytes, `qos` 0 to 2, `retain` bool, `properties` Properties (5.0 only).
    Values are checked when a Connect is built.
    """
    cdef readonly str topic
    cdef readonly bytes payload
    cdef readonly int qos
    cdef readonly bint retain
    cdef readonly Properties properties

    __match_args__ = ("topic", "payload", "qos", "retain", "properties")

    def __init__(self, str topic not None, payload=b"", qos=0, retain=False, properties=()):
        self.payload = take_block(payload)
        self.qos = <int>whole_number(qos, 3, "will.qos")
        self.retain = retain
        self.properties = properties if type(properties) is Properties else Properties(properties)
        self.topic = topic

    cdef tuple values(self):
        return (self.topic, self.payload, self.qos, self.retain, self.properties)

    def __eq__(self, other):
        if not isinstance(other, Will):
            return NotImplemented
        return self.values() == (<Will>other).values()

    def __hash__(self):
        return hash(self.values())

    def __repr__(self):
        return f"mqtt.Will({shown_fields(self)})"

    def __reduce__(self):
        return Will, self.values()


cdef object property_pairs(object properties):
    """Properties that a caller gives, which may be a mapping: the error of unpacking its keys would not say what is wrong."""
    if isinstance(properties, dict):
        raise TypeError(f"properties are pairs of name and value, since names may repeat: "
                        f"properties=[{', '.join(f'({name!r}, ...)' for name in list(properties)[:1])}], not a dict")
    return properties


cdef tuple frozen_pairs(object properties):
    """Properties as a tuple of tuples of immutable values."""
    cdef list out = []
    for name, value in property_pairs(properties):
        if isinstance(value, (list, tuple)):
            value = tuple(value)
        elif not isinstance(value, (str, int)):
            value = take_block(value)
        if name in SECRET_PROPERTIES:
            value = hidden(value)
        elif name == "user_property" and len(value) == 2 and secret_name(value[0]):
            value = (value[0], hidden(value[1]))
        out.append((name, value))
    return tuple(out)


cdef Will make_will(bytes block, const MqttPacketView* m):
    cdef Will w
    if not m.connect_flags & 0x04:
        return None
    w = Will.__new__(Will)
    w.topic = text_of(m.will_topic.at, m.will_topic.size)
    w.payload = octets_of(m.will_payload.at, m.will_payload.size)
    w.qos = m.connect_flags >> 3 & 3
    w.retain = m.connect_flags >> 5 & 1
    w.properties = properties_of(block, &m.will_properties, m.will_property_count, True)
    return w


# ------------------------------------------------------------------------------------------------ values -> octets

cdef int write_properties(Writer w, object properties, int version, bint of_will) except -1:
    """Property Length and properties; nothing before 5.0."""
    cdef size_t at = w.out.size
    cdef list paths = WILL_PROPERTY_PATHS if of_will else PROPERTY_PATHS
    cdef Properties decoded
    cdef int identifier, type
    cdef str where
    if version < 5:
        if properties:
            raise EncodeError("properties: only MQTT 5.0 has them")
        return 0
    if isinstance(properties, Properties):
        decoded = <Properties>properties
        if decoded.block is not None:
            memcpy(w.grow(decoded.area.size), decoded.area.at, decoded.area.size)
            properties = ()
    for name, value in property_pairs(properties):
        identifier = property_identifier(name)
        if identifier == 0:
            raise EncodeError(f"properties: {name!r} is not a property [2.2.2.2]")
        type = mqtt_properties[identifier].type
        where = paths[identifier]
        w.put_u8(<uint8_t>identifier)
        if type == MQTT_STRING:
            w.put_text16(value, where)
        elif type == MQTT_PAIR:
            key, text = value
            w.put_text16(key, where)
            w.put_text16(text, where)
        elif type == MQTT_BINARY:
            w.put_buffer(value, True, where)
        elif type == MQTT_BYTE:
            w.put_u8(<uint8_t>whole_number(value, 0xFF, where))
        elif type == MQTT_TWO:
            w.put_u16(<uint16_t>whole_number(value, 0xFFFF, where))
        elif type == MQTT_FOUR:
            w.put_u32(<uint32_t>whole_number(value, 0xFFFFFFFF, where))
        else:
            w.put_varint(<uint32_t>whole_number(value, VARINT_MAX, where))
    w.insert_varint(at)
    return 0


cdef int property_identifier(object name) except -1:
    """The identifier of a property; 0: no property has this name."""
    cdef PyObject* found = PyDict_GetItemWithError(PROPERTY_IDENTIFIERS, name)
    return 0 if found == NULL else <object>found


# Most properties of a PUBLISH need neither errors nor parsing: exact tuples, strings of ASCII, small
# numbers, in an allowed order and number. All other properties go through write_properties and Packet.adopt.

cdef enum:
    NAME_SLOTS = 256            # a power of two, several times the number of properties
    LENGTH_CAPACITY = 4             # octets of Property Length, which is written last


cdef PyObject* NAME_OBJECTS[NAME_SLOTS]         # names of properties by their pointer; PROPERTY_NAMES owns them
cdef uint8_t NAME_IDENTIFIERS[NAME_SLOTS]


cdef inline size_t name_slot(PyObject* name) noexcept:
    """The slot of a name, or the free slot for it."""
    cdef size_t at = mix(0, <size_t>name) >> 56 & (NAME_SLOTS - 1)
    while NAME_OBJECTS[at] != NULL and NAME_OBJECTS[at] != name:
        at = (at + 1) & (NAME_SLOTS - 1)
    return at


cdef int fill_name_slots() except -1:
    cdef size_t at
    for name, identifier in PROPERTY_IDENTIFIERS.items():
        at = name_slot(<PyObject*>PROPERTY_NAMES[identifier])
        NAME_OBJECTS[at] = <PyObject*>PROPERTY_NAMES[identifier]
        NAME_IDENTIFIERS[at] = identifier
    return 0


fill_name_slots()


cdef int write_plain_properties(Octets* o, PyObject* properties, int packet) noexcept:
    """Write (name, value) pairs of an exact tuple. Returns their number; -1: not all are plain."""
    cdef Py_ssize_t i, size = 0, count = length_of(properties)
    cdef const MqttPropertyRow* row
    cdef const uint8_t* p
    cdef PyObject* pair
    cdef PyObject* value
    cdef uint64_t seen = 0
    cdef int64_t number
    cdef int overflow = 0, identifier
    for i in range(count):
        pair = borrowed_item(properties, i)
        if not PyTuple_CheckExact(<object>pair) or length_of(pair) != 2:
            return -1
        identifier = NAME_IDENTIFIERS[name_slot(borrowed_item(pair, 0))]
        value = borrowed_item(pair, 1)
        row = &mqtt_properties[identifier]                  # row 0 is not a property
        if not mqtt_is_plain_property(packet, row, identifier, seen):
            return -1
        seen |= <uint64_t>1 << identifier
        add_u8(o, <uint8_t>identifier)
        if row.type == MQTT_STRING:
            if not add_plain_text(o, row, value):
                return -1
        elif row.type == MQTT_PAIR:
            if not PyTuple_CheckExact(<object>value) or length_of(value) != 2 or \
                    not add_plain_text(o, row, borrowed_item(value, 0)) or \
                    not add_plain_text(o, row, borrowed_item(value, 1)):
                return -1
        elif row.type == MQTT_BINARY:
            if not PyBytes_CheckExact(<object>value) or PyBytes_GET_SIZE(<object>value) > 0xFFFF:
                return -1
            add_u16(o, <uint16_t>PyBytes_GET_SIZE(<object>value))
            add_octets(o, <const uint8_t*>PyBytes_AS_STRING(<object>value), <size_t>PyBytes_GET_SIZE(<object>value))
        else:
            if not PyLong_CheckExact(<object>value):
                return -1
            number = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
            if overflow or number < 0 or number > 0xFFFFFFFF or not mqtt_is_plain_number(row, <uint32_t>number):
                return -1
            if row.type == MQTT_FOUR:
                add_u32(o, <uint32_t>number)
            elif row.type == MQTT_TWO and number <= 0xFFFF:
                add_u16(o, <uint16_t>number)
            elif row.type == MQTT_BYTE and number <= 0xFF:
                add_u8(o, <uint8_t>number)
            else:                                           # no frequent packet has a varint
                return -1
    return -1 if o.failed or o.size > VARINT_MAX else <int>count


cdef inline bint add_plain_text(Octets* o, const MqttPropertyRow* row, PyObject* text) noexcept:
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(text, &size)
    if p == NULL or size > 0xFFFF or not mqtt_is_plain_string(row, p, <size_t>size):
        return False
    add_u16(o, <uint16_t>size)
    add_octets(o, p, <size_t>size)
    return True


cdef int write_packet_identifier(Writer w, object identifier) except -1:
    w.put_u16(<uint16_t>whole_number(identifier, 0xFFFF, "packet_identifier"))
    return 0


cdef int write_reason(Writer w, object reason_code, object properties, object form, int version) except -1:
    """Reason Code and properties of acknowledgements, DISCONNECT and AUTH, in the requested form or the shortest."""
    cdef int code
    if type(properties) is not Properties:
        properties = tuple(properties)
    if version < 5:
        if reason_code is not None or properties or form is not None:
            raise EncodeError("reason_code, properties and form: only MQTT 5.0 has them here")
        return 0
    code = 0 if reason_code is None else <int>whole_number(reason_code, 0xFF, "reason_code")
    if form is None:
        form = "full" if properties else "reason_only" if code else "short"
    if form == "short":
        if code or properties:
            raise EncodeError("form 'short' cannot hold a reason_code other than 0 or properties")
        return 0
    w.put_u8(<uint8_t>code)
    if form == "reason_only":
        if properties:
            raise EncodeError("form 'reason_only' cannot hold properties")
        return 0
    if form != "full":
        raise EncodeError(f"form must be 'short', 'reason_only' or 'full', not {form!r}")
    return write_properties(w, properties, 5, False)


cdef inline int known_mqtt_version(object version) except -1:
    if version is MQTT_5:
        return 5
    if version not in (3, 4, 5):
        raise EncodeError(f"version must be 3 (MQTT 3.1), 4 (3.1.1) or 5 (5.0), not {version!r}")
    return version


cdef object MQTT_5 = 5          # the default of all constructors: a small integer is always the same object


cdef inline bytes new_packet(int first, size_t remaining, uint8_t** at):
    """A packet with its fixed header (2.1.4); the caller writes the `remaining` octets to `at`."""
    cdef bytes octets
    cdef uint8_t* p
    cdef size_t used
    if remaining > VARINT_MAX:
        raise EncodeError(f"a packet of {remaining} bytes, the limit is {VARINT_MAX} [2.1.4]")
    used = <size_t>varint_size(<uint32_t>remaining)
    octets = new_octets(1 + used + remaining)
    p = <uint8_t*>PyBytes_AS_STRING(octets)
    p[0] = <uint8_t>first
    store_varint(p + 1, <uint32_t>remaining)
    at[0] = p + 1 + used
    return octets


cdef bytes close_packet(Writer w, int type, int flags):
    """The packet of the octets written after its fixed header."""
    cdef uint8_t* at = NULL
    cdef bytes octets = new_packet(type << 4 | flags, w.out.size, &at)
    memcpy(at, w.out.at, w.out.size)
    return octets
