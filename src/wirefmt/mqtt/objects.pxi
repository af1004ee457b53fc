# The fifteen packets of MQTT as Python objects, their encoders, and the Decoder.
#
# A packet exists only as its octets. A constructor writes them and reads them back with mqtt_parse, so everything that
# can be built can be decoded, one place checks packets, and encode() returns existing octets. A PUBLISH
# of plain values that is valid by construction is not read back.
# Objects keep the block (bytes) that contains them; strings, properties and lists become objects on access.
from cpython.dict cimport PyDict_GetItemWithError
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject, PyObject_Hash, PyObject_RichCompare, Py_EQ, Py_NE
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM

from sys import intern


# ------------------------------------------------------------------------------------------------ names

cdef list make_property_names():
    """Interned, like names in the caller's source code, so that a dict finds them by their pointer."""
    cdef int i
    return [intern(mqtt_property_name[i].decode("ascii")) for i in range(MQTT_PROPERTY_TOP)]


cdef list PROPERTY_NAMES = make_property_names()            # by identifier; "": undefined
cdef list PROPERTY_PATHS = [f"properties.{name}" for name in PROPERTY_NAMES]
cdef list WILL_PROPERTY_PATHS = [f"will.properties.{name}" for name in PROPERTY_NAMES]
cdef dict PROPERTY_IDENTIFIERS = {name: i for i, name in enumerate(PROPERTY_NAMES) if name}

cdef tuple FORMS = (None, "short", "reason_only", "full")   # by MqttForm
cdef frozenset SECRET_PROPERTIES = frozenset([field for _, field in secret_fields("mqtt")])
cdef uint8_t[64] MQTT_PROPERTY_SECRET                       # by identifier


cdef int fill_secret_properties() except -1:
    cdef int i
    for i in range(MQTT_PROPERTY_TOP):
        MQTT_PROPERTY_SECRET[i] = PROPERTY_NAMES[i] in SECRET_PROPERTIES
    return 0


fill_secret_properties()


# ------------------------------------------------------------------------------------------------ octets -> values

cdef tuple properties_of(const Span* area, uint32_t count):
    """(name, value) pairs in the order of the octets, which mqtt_parse has checked.

    The tuples cannot be part of a cycle, so they are untracked.
    """
    cdef const uint8_t* p = area.at
    cdef const uint8_t* end = p + area.size
    cdef const uint8_t* value
    cdef SharedSlot* slot
    cdef uint32_t identifier = 0, i
    cdef size_t size
    cdef tuple out, pair
    if count == 0:
        return ()
    out = PyTuple_New(count)
    for i in range(count):
        value = p + read_varint(p, <size_t>(end - p), &identifier)
        size = property_size(<int>identifier, value, end)
        if size > SHARED_OCTETS or mqtt_properties[identifier].type == MQTT_BINARY or not WIREFMT_SHARES_VALUES:
            pair = property_pair(<int>identifier, value)
        else:
            slot = shared_slot(<int>identifier, value, size)
            if is_held(slot, <int>identifier, value, size):
                pair = <tuple>slot.value
            else:
                pair = property_pair(<int>identifier, value)
                share(slot, <int>identifier, value, size, pair)
        p = value + size
        Py_INCREF(pair)
        PyTuple_SET_ITEM(out, i, pair)
    PyObject_GC_UnTrack(<void*>out)
    return out


cdef inline size_t property_size(int identifier, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Octets of a property's value."""
    cdef uint32_t value = 0
    cdef size_t size
    cdef int type = mqtt_properties[identifier].type
    if type == MQTT_STRING or type == MQTT_BINARY:
        return <size_t>2 + load_u16(p)
    if type == MQTT_PAIR:
        size = <size_t>2 + load_u16(p)
        return size + 2 + load_u16(p + size)
    if type == MQTT_VARINT:
        return <size_t>read_varint(p, <size_t>(end - p), &value)
    return 1 if type == MQTT_BYTE else 2 if type == MQTT_TWO else 4


cdef tuple property_pair(int identifier, const uint8_t* p):
    """One property as (name, value); its value begins at `p`."""
    cdef uint32_t number = 0
    cdef const uint8_t* second
    cdef int type = mqtt_properties[identifier].type
    cdef tuple pair
    if type == MQTT_STRING:
        value = text_of(p + 2, load_u16(p))
    elif type == MQTT_PAIR:
        second = p + 2 + load_u16(p)
        value = text_of(second + 2, load_u16(second))
        value = (text_of(p + 2, load_u16(p)), hidden(value) if is_secret_name(p + 2, load_u16(p)) else value)
        PyObject_GC_UnTrack(<void*>value)
    elif type == MQTT_BINARY:
        value = octets_of(p + 2, load_u16(p))
        if MQTT_PROPERTY_SECRET[identifier]:
            value = hidden(value)
    elif type == MQTT_BYTE:
        value = p[0]
    elif type == MQTT_TWO:
        value = load_u16(p)
    elif type == MQTT_FOUR:
        value = load_u32(p)
    else:
        read_varint(p, 4, &number)
        value = number
    pair = (<object>PROPERTY_NAMES[identifier], value)
    PyObject_GC_UnTrack(<void*>pair)
    return pair


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


# ------------------------------------------------------------------------------------------------ values -> octets

cdef int write_properties(Writer w, object properties, int version, bint of_will) except -1:
    """Property Length and properties; nothing before 5.0."""
    cdef size_t at = w.size
    cdef list paths = WILL_PROPERTY_PATHS if of_will else PROPERTY_PATHS
    cdef PyObject* found
    cdef int identifier, type
    cdef str where
    if version < 5:
        if properties:
            raise EncodeError("properties: only MQTT 5.0 has them")
        return 0
    for name, value in properties:
        found = PyDict_GetItemWithError(PROPERTY_IDENTIFIERS, name)
        if found == NULL:
            raise EncodeError(f"properties: {name!r} is not a property [2.2.2.2]")
        identifier = <object>found
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


# Most properties of a PUBLISH need neither errors nor parsing: exact tuples, strings of ASCII, small
# numbers, in an allowed order and number. All other properties go through write_properties and settle.

cdef enum:
    NAME_SLOTS = 256            # a power of two, several times the number of properties
    LENGTH_ROOM = 4             # octets of Property Length, which is written last


cdef PyObject* NAME_OBJECTS[NAME_SLOTS]         # names of properties by their pointer; PROPERTY_NAMES owns them
cdef uint8_t NAME_IDENTIFIERS[NAME_SLOTS]


cdef inline size_t name_slot(PyObject* name) noexcept:
    """The slot of a name, or the free slot for it."""
    cdef size_t at = (<size_t>name >> 4) * <size_t>0x9E3779B1 >> 8 & (NAME_SLOTS - 1)
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


cdef bytes new_packet(int first, size_t remaining, uint8_t** at):
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
    cdef bytes octets = new_packet(type << 4 | flags, w.size, &at)
    memcpy(at, w.p, w.size)
    return octets


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

    `topic` str, `payload` bytes, `qos` 0 to 2, `retain` bool, `properties` (name, value) pairs (5.0 only).
    Values are checked when a Connect is built.
    """
    cdef readonly str topic
    cdef readonly bytes payload
    cdef readonly int qos
    cdef readonly bint retain
    cdef readonly tuple properties

    __match_args__ = ("topic", "payload", "qos", "retain", "properties")

    def __init__(self, str topic not None, payload=b"", qos=0, retain=False, properties=()):
        self.payload = take_block(payload)
        self.qos = <int>whole_number(qos, 3, "will.qos")
        self.retain = retain
        self.properties = frozen_pairs(properties)
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


cdef tuple frozen_pairs(object properties):
    """Properties as a tuple of tuples of immutable values."""
    cdef list out = []
    for name, value in properties:
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


cdef Will make_will(const MqttPacketView* m):
    cdef Will w
    if not m.connect_flags & 0x04:
        return None
    w = Will.__new__(Will)
    w.topic = text_of(m.will_topic.at, m.will_topic.size)
    w.payload = octets_of(m.will_payload.at, m.will_payload.size)
    w.qos = m.connect_flags >> 3 & 3
    w.retain = m.connect_flags >> 5 & 1
    w.properties = properties_of(&m.will_properties, m.will_property_count)
    return w


# ------------------------------------------------------------------------------------------------ repr

cdef str shown_value(str name, object value):
    if name == "password":
        return repr(SECRET_SHOWN_OCTETS)
    if name == "payload":
        return shown_octets(value)
    return repr(value)


cdef str shown_fields(object message):
    """Constructor arguments; None, False or empty ones are omitted if that is the default."""
    return ", ".join(
        f"{name}={shown_value(name, value)}"
        for name in type(message).__match_args__
        if not ((value := getattr(message, name)) is None or value == () or (value is False and name != "clean_start"))
    )


# ------------------------------------------------------------------------------------------------ packets

@cython.freelist(512)
@cython.no_gc
cdef class Packet:
    """Base of the fifteen packets. Immutable; equal by value; keeps the input block it was decoded from.

    Attributes of every packet: `version` (3, 4, 5: MQTT 3.1, 3.1.1, 5.0), `flags` (low four bits of the first byte),
    `remaining_length`, `notes` (violations that LAX accepted). Fields that a version lacks are None, properties ().
    """
    cdef bytes block
    cdef const uint8_t* frame
    cdef uint32_t size, property_count
    cdef uint16_t packet_identifier_
    cdef uint8_t version_, first_octet, form_, reason_code_, acknowledge_flags
    cdef uint8_t noted          # LAX accepted a violation
    cdef int8_t side            # the version passed to the decoder
    cdef Span topic, payload_span, properties_span
    cdef object cached          # topic name, list or tuple of CONNECT's values, after the first access
    cdef object cached_properties

    def __init__(self):
        raise TypeError("Packet is a base class: use the class of a packet type")

    # ---- octets

    @property
    def version(self):
        return self.version_

    @property
    def flags(self):
        return self.first_octet & 0x0F

    @property
    def remaining_length(self):
        cdef uint32_t remaining = 0
        read_varint(self.frame + 1, self.size - 1, &remaining)
        return remaining

    def encode(self):
        """The bytes of the packet: those it was decoded from, or the canonical form of a new packet."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self.block
        return octets_of(self.frame, self.size)

    def detach(self):
        """An equal packet that holds only its own bytes, not the larger input block."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self
        return restore(self.encode(), self.version_, self.side, self.noted)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef MqttOptions o
        cdef MqttPacketView m
        cdef Fault f
        cdef MqttNote found[NOTES_SHOWN]
        cdef int i
        if not self.noted:
            return ()
        plain_options(&o, self.version_, self.side, 0)
        o.notes = found
        o.notes_room = NOTES_SHOWN
        mqtt_parse(self.frame, self.size, &o, &m, &f)
        out = []
        for i in range(min(m.note_count, NOTES_SHOWN)):
            f.check, f.field, f.kind, f.version = found[i].check, found[i].field, m.type, m.version
            out.append(Note(
                mqtt_check_name[f.check].decode("ascii"), field_path(&MQTT_TABLES, f.field, found[i].index),
                found[i].offset, mqtt_check_text[f.check].decode("utf-8"), mqtt_spec_of(&f).decode("ascii")))
        return tuple(out)

    # ---- value

    cdef tuple values(self):
        return tuple([getattr(self, name) for name in type(self).__match_args__])

    def __eq__(self, other):
        cdef Packet that
        if type(self) is not type(other):
            return NotImplemented
        that = <Packet>other
        if self.size == that.size and self.version_ == that.version_ and \
                (self.frame == that.frame or memcmp(self.frame, that.frame, self.size) == 0):
            return True
        return self.values() == that.values()

    def __hash__(self):
        return hash(self.values())

    def __repr__(self):
        return f"mqtt.{type(self).__name__}({shown_fields(self)})"

    def __reduce__(self):
        return restore, (self.encode(), self.version_, self.side, self.noted)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # ---- for the classes below

    cdef int parsed(self, MqttPacketView* m) except -1:
        """Parse the packet again, for fields that are not cached."""
        cdef MqttOptions o
        cdef Fault f
        plain_options(&o, self.version_, -1, 0)
        if mqtt_parse(self.frame, self.size, &o, m, &f) != OK:
            raise_fault(&MQTT_TABLES, &f, 0)
        return 0

    cdef int settle(self, bytes octets, int version) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them as a packet."""
        cdef MqttOptions o
        cdef MqttPacketView m
        cdef Fault f
        plain_options(&o, version, -1, 1)
        o.only_version = 1
        if mqtt_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
            raise encode_error(&f)
        hold(self, octets, &m, -1)
        return 0

    cdef object properties_tuple(self):
        if self.cached_properties is None:
            self.cached_properties = properties_of(&self.properties_span, self.property_count)
        return self.cached_properties

    cdef object reason_or_none(self):
        return self.reason_code_ if self.version_ == 5 else None


cdef inline void hold(Packet self, bytes block, const MqttPacketView* m, int side) noexcept:
    """Cache the fields of a parsed packet that its getters need."""
    self.block = block
    self.frame = m.frame
    self.size = m.size
    self.packet_identifier_ = m.packet_identifier
    self.version_ = m.version
    self.first_octet = m.frame[0]
    self.form_ = m.form
    self.reason_code_ = m.reason_code
    self.acknowledge_flags = m.acknowledge_flags
    self.noted = m.note_count != 0
    self.side = <int8_t>side
    self.topic = m.topic
    self.properties_span = m.properties
    self.property_count = m.property_count
    self.payload_span = m.payload if m.type == MQTT_PUBLISH else m.list


cdef object encode_error(const Fault* f):
    cdef char text[256]
    return EncodeError(text[:fault_text(&MQTT_TABLES, f, 0, text, sizeof(text))].decode("utf-8"))


@cython.final
cdef class Connect(Packet):
    """CONNECT (5.0, 3.1). `clean_start` is Clean Session before 5.0; both names work.

    `keep_alive` is in seconds; `password` is bytes. `connect_flags` is optional, since it follows from the other fields; but
    3.1 allows a client to announce a user name and password without sending them. A repr shows no password.
    """
    __match_args__ = ("connect_flags", "clean_start", "keep_alive", "properties", "client_identifier", "will",
                      "user_name", "password", "version")

    def __init__(self, *, client_identifier="", clean_start=True, keep_alive=0, Will will=None, user_name=None,
                 password=None, properties=(), connect_flags=None, version=5):
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        cdef int flags = ((user_name is not None) << 7 | (password is not None) << 6 | bool(clean_start) << 1)
        if will is not None:
            flags |= will.retain << 5 | will.qos << 3 | 4
        if connect_flags is not None:
            flags = given_flags(<int>whole_number(connect_flags, 0xFF, "connect_flags"), flags, v, password is None)
        w.put_text16("MQIsdp" if v == 3 else "MQTT", "protocol_name")
        w.put_u8(<uint8_t>v)
        w.put_u8(<uint8_t>flags)
        w.put_u16(<uint16_t>whole_number(keep_alive, 0xFFFF, "keep_alive"))
        write_properties(w, properties, v, False)
        w.put_text16(client_identifier, "client_identifier")
        if will is not None:
            write_properties(w, will.properties, v, True)
            w.put_text16(will.topic, "will.topic")
            w.put_buffer(will.payload, True, "will.payload")
        if user_name is not None:
            w.put_text16(user_name, "user_name")
        if password is not None:
            w.put_buffer(password, True, "password")
        self.settle(close_packet(w, MQTT_CONNECT, 0), v)

    cdef tuple connect_values(self):
        """protocol name, level, flags, keep alive, client identifier, will, user name, password"""
        cdef MqttPacketView m
        if self.cached is None:
            self.parsed(&m)
            self.cached = (
                text_of(m.protocol_name.at, m.protocol_name.size),
                m.protocol_level,
                m.connect_flags,
                m.keep_alive,
                text_of(m.client_identifier.at, m.client_identifier.size),
                make_will(&m),
                text_of(m.user_name.at, m.user_name.size) if m.user_name.at != NULL else None,
                octets_of(m.password.at, m.password.size) if m.password.at != NULL else None,
            )
        return <tuple>self.cached

    cdef int derived_flags(self):
        """Connect flags according to the other fields."""
        cdef tuple v = self.connect_values()
        cdef Will will = v[5]
        cdef int flags = (v[7] is not None) << 6 | (v[6] is not None) << 7 | (v[2] & 2)
        return flags if will is None else flags | will.retain << 5 | will.qos << 3 | 4

    def __repr__(self):
        cdef str text = Packet.__repr__(self)
        if self.connect_flags == self.derived_flags():
            text = text.replace(f"connect_flags={self.connect_flags}, ", "", 1)
        return text

    @property
    def protocol_name(self):
        return self.connect_values()[0]

    @property
    def protocol_version(self):
        """The Protocol Level byte; `version` is the version the packet was decoded as."""
        return self.connect_values()[1]

    @property
    def connect_flags(self):
        return self.connect_values()[2]

    @property
    def clean_start(self):
        return bool(self.connect_values()[2] & 2)

    @property
    def clean_session(self):
        return bool(self.connect_values()[2] & 2)

    @property
    def keep_alive(self):
        return self.connect_values()[3]

    @property
    def client_identifier(self):
        return self.connect_values()[4]

    @property
    def will(self):
        return self.connect_values()[5]

    @property
    def user_name(self):
        return self.connect_values()[6]

    @property
    def password(self):
        return self.connect_values()[7]

    @property
    def properties(self):
        return self.properties_tuple()


cdef int given_flags(int given, int derived, int version, bint no_password) except -1:
    """Connect flags given by the caller: they must agree with the fields, except where 3.1 leaves them open."""
    cdef int free = 0
    if version == 3:
        free = 0x01 | (0 if derived & 0x04 else 0x38)       # unused; without a will its QoS and retain are ignored
        # announced strings may be missing (3.1, section 3.1) if no later field would be read in their place
        free |= 0xC0 if not derived & 0xC0 else 0x40 if no_password else 0
    if (given ^ derived) & ~free or derived & ~given:
        raise EncodeError(f"connect_flags: 0x{given:02x} contradicts the other fields, which make 0x{derived:02x}")
    return given


@cython.final
cdef class Connack(Packet):
    """CONNACK (5.0, 3.2). `reason_code` is the Connect Return Code before 5.0; both names work."""
    __match_args__ = ("session_present", "reason_code", "properties", "version")

    def __init__(self, *, session_present=False, reason_code=0, properties=(), version=5):
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        if v == 3 and session_present:
            raise EncodeError("session_present: MQTT 3.1 does not have it")
        w.put_u8(1 if session_present else 0)
        w.put_u8(<uint8_t>whole_number(reason_code, 0xFF, "reason_code"))
        write_properties(w, properties, v, False)
        self.settle(close_packet(w, MQTT_CONNACK, 0), v)

    @property
    def session_present(self):
        """None in 3.1, where the byte is reserved."""
        return bool(self.acknowledge_flags & 1) if self.version_ > 3 else None

    @property
    def reason_code(self):
        return self.reason_code_

    @property
    def return_code(self):
        return self.reason_code_

    @property
    def properties(self):
        return self.properties_tuple()


@cython.final
cdef class Publish(Packet):
    """PUBLISH (5.0, 3.3). Also a buffer: its payload.

    `payload` is a read-only memoryview into the bytes the packet was decoded from; `payload_bytes()` copies it.
    `packet_identifier` is None for QoS 0, and required for QoS 1 and 2.
    """
    __match_args__ = ("dup", "qos", "retain", "topic_name", "packet_identifier", "properties", "payload", "version")

    def __init__(self, *, topic_name, payload=b"", qos=0, retain=False, dup=False, packet_identifier=None,
                 properties=(), version=5):
        cdef uint8_t start[WRITER_START]
        cdef Octets o = octets_over(start, WRITER_START)
        cdef Writer w
        cdef const uint8_t* area = NULL     # Property Length and properties
        cdef size_t area_size = 0
        cdef size_t length_size = 0         # of Property Length
        cdef int count = -1                 # of properties, if they are plain
        cdef Py_ssize_t topic_size = 0
        cdef const uint8_t* topic
        cdef uint16_t identifier = 0
        cdef bytes block, octets
        cdef uint8_t* p = NULL
        cdef int v = known_mqtt_version(version)
        cdef int level = <int>whole_number(qos, 3, "qos")
        cdef int first = MQTT_PUBLISH << 4 | level << 1
        topic = utf8_behind(topic_name, &topic_size, "topic_name")
        check_size16(topic_size, "topic_name")
        if (packet_identifier is None) == (level > 0):
            raise EncodeError("packet_identifier: required for QoS 1 and 2, not allowed for QoS 0 [MQTT-2.2.1-2]")
        if level:
            identifier = <uint16_t>whole_number(packet_identifier, 0xFFFF, "packet_identifier")
        try:
            if PyTuple_CheckExact(properties) and (v == 5 or PyTuple_GET_SIZE(properties) == 0):
                extend_octets(&o, LENGTH_ROOM)
                count = write_plain_properties(&o, <PyObject*>properties, MQTT_PUBLISH)
            if count < 0:
                w = new_writer()
                write_properties(w, properties, v, False)
                area = w.p
                area_size = w.size
            elif v == 5:
                area_size = o.size - LENGTH_ROOM
                length_size = <size_t>varint_size(<uint32_t>area_size)
                area = o.at + LENGTH_ROOM - length_size
                store_varint(o.at + LENGTH_ROOM - length_size, <uint32_t>area_size)
                area_size += length_size
            block = take_block(payload)
            if dup:
                first |= 0x08
            if retain:
                first |= 0x01
            octets = new_packet(first, 2 + <size_t>topic_size + (2 if level else 0) + area_size +
                                <size_t>PyBytes_GET_SIZE(block), &p)
            store_u16(p, <uint16_t>topic_size)
            memcpy(p + 2, topic, <size_t>topic_size)
            topic = p + 2
            p += 2 + topic_size
            if level:
                store_u16(p, identifier)
                p += 2
            if area_size:
                memcpy(p, area, area_size)
        finally:
            free_octets(&o)
        memcpy(p + area_size, PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block))
        if count < 0 or not mqtt_is_plain_publish(first, topic, <size_t>topic_size, identifier):
            self.settle(octets, v)
            return
        self.block = octets
        self.frame = <const uint8_t*>PyBytes_AS_STRING(octets)
        self.size = <uint32_t>PyBytes_GET_SIZE(octets)
        self.packet_identifier_ = identifier
        self.version_ = <uint8_t>v
        self.first_octet = <uint8_t>first
        self.side = -1
        self.topic.at = topic
        self.topic.size = <uint32_t>topic_size
        self.payload_span.at = p + area_size
        self.payload_span.size = <uint32_t>PyBytes_GET_SIZE(block)
        if v == 5:
            self.properties_span.at = p + length_size
            self.properties_span.size = <uint32_t>(area_size - length_size)
            self.property_count = <uint32_t>count

    cdef tuple values(self):
        # hashing a memoryview would hash its exporter, which is this object
        return (self.first_octet & 0x0F, self.topic_name, self.packet_identifier, self.properties_tuple(),
                self.payload_bytes(), self.version_)

    @property
    def dup(self):
        return self.first_octet & 0x08 != 0

    @property
    def qos(self):
        return self.first_octet >> 1 & 3

    @property
    def retain(self):
        return self.first_octet & 0x01 != 0

    @property
    def topic_name(self):
        if self.cached is None:
            self.cached = shared_text(self.topic.at, self.topic.size)
        return self.cached

    @property
    def packet_identifier(self):
        return self.packet_identifier_ if self.first_octet & 0x06 else None

    @property
    def properties(self):
        return self.properties_tuple()

    @property
    def payload(self):
        return PyMemoryView_FromObject(self)

    def payload_bytes(self):
        """The payload, copied."""
        return octets_of(self.payload_span.at, self.payload_span.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.payload_span.at, self.payload_span.size, flags)


cdef class Acknowledgement(Packet):
    """Base class of PUBACK, PUBREC, PUBREL and PUBCOMP (5.0, 3.4 to 3.7).

    `form` is the form in 5.0: "short" (without Reason Code 0), "reason_only" (no Property Length),
    "full". By default a constructor takes the shortest form that holds the values.
    """
    __match_args__ = ("packet_identifier", "reason_code", "properties", "form", "version")

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def reason_code(self):
        """None before 5.0."""
        return self.reason_or_none()

    @property
    def properties(self):
        return self.properties_tuple()

    @property
    def form(self):
        return FORMS[self.form_]

    cdef int build(self, int type, int flags, object packet_identifier, object reason_code, object properties,
                   object form, object version) except -1:
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        write_packet_identifier(w, packet_identifier)
        write_reason(w, reason_code, properties, form, v)
        self.settle(close_packet(w, type, flags), v)
        return 0


@cython.final
cdef class Puback(Acknowledgement):
    """PUBACK (5.0, 3.4): the answer to a PUBLISH of QoS 1."""

    def __init__(self, *, packet_identifier, reason_code=None, properties=(), form=None, version=5):
        self.build(MQTT_PUBACK, 0, packet_identifier, reason_code, properties, form, version)


@cython.final
cdef class Pubrec(Acknowledgement):
    """PUBREC (5.0, 3.5): the first answer to a PUBLISH of QoS 2."""

    def __init__(self, *, packet_identifier, reason_code=None, properties=(), form=None, version=5):
        self.build(MQTT_PUBREC, 0, packet_identifier, reason_code, properties, form, version)


@cython.final
cdef class Pubrel(Acknowledgement):
    """PUBREL (5.0, 3.6): the answer to a PUBREC. `dup` has a meaning in 3.1 only."""
    __match_args__ = ("dup", "packet_identifier", "reason_code", "properties", "form", "version")

    def __init__(self, *, packet_identifier, reason_code=None, properties=(), form=None, dup=False, version=5):
        self.build(MQTT_PUBREL, 0x0A if dup else 0x02, packet_identifier, reason_code, properties, form, version)

    @property
    def dup(self):
        return self.first_octet & 0x08 != 0


@cython.final
cdef class Pubcomp(Acknowledgement):
    """PUBCOMP (5.0, 3.7): the answer to a PUBREL."""

    def __init__(self, *, packet_identifier, reason_code=None, properties=(), form=None, version=5):
        self.build(MQTT_PUBCOMP, 0, packet_identifier, reason_code, properties, form, version)


@cython.final
cdef class Subscribe(Packet):
    """SUBSCRIBE (5.0, 3.8). `subscriptions` is a tuple of Subscription; `dup` has a meaning in 3.1 only."""
    __match_args__ = ("dup", "packet_identifier", "properties", "subscriptions", "version")

    def __init__(self, *, packet_identifier, subscriptions, properties=(), dup=False, version=5):
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        cdef Subscription s
        write_packet_identifier(w, packet_identifier)
        write_properties(w, properties, v, False)
        for item in subscriptions:
            s = <Subscription?>item
            w.put_text16(s.topic_filter, "subscriptions.topic_filter")
            w.put_u8(subscription_options(s, v))
        self.settle(close_packet(w, MQTT_SUBSCRIBE, 0x0A if dup else 0x02), v)

    @property
    def dup(self):
        return self.first_octet & 0x08 != 0

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def properties(self):
        return self.properties_tuple()

    @property
    def subscriptions(self):
        cdef MqttPacketView m
        if self.cached is None:
            self.parsed(&m)
            self.cached = subscriptions_of(&m)
        return self.cached


cdef class Codes(Packet):
    """Base class of SUBACK and UNSUBACK: `reason_codes`, a tuple of ints, one for each filter."""
    __match_args__ = ("packet_identifier", "properties", "reason_codes", "version")

    cdef int build(self, int type, object packet_identifier, object reason_codes, object properties,
                   object version) except -1:
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        write_packet_identifier(w, packet_identifier)
        write_properties(w, properties, v, False)
        for code in reason_codes:
            w.put_u8(<uint8_t>whole_number(code, 0xFF, "reason_codes"))
        self.settle(close_packet(w, type, 0), v)
        return 0

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def properties(self):
        return self.properties_tuple()

    @property
    def reason_codes(self):
        if self.cached is None:
            self.cached = tuple(octets_of(self.payload_span.at, self.payload_span.size))
        return self.cached


@cython.final
cdef class Suback(Codes):
    """SUBACK (5.0, 3.9). `reason_codes` are the return codes before 5.0; both names work."""

    def __init__(self, *, packet_identifier, reason_codes, properties=(), version=5):
        self.build(MQTT_SUBACK, packet_identifier, reason_codes, properties, version)

    @property
    def return_codes(self):
        return self.reason_codes


@cython.final
cdef class Unsubscribe(Packet):
    """UNSUBSCRIBE (5.0, 3.10). `topic_filters` is a tuple of str; `dup` has a meaning in 3.1 only."""
    __match_args__ = ("dup", "packet_identifier", "properties", "topic_filters", "version")

    def __init__(self, *, packet_identifier, topic_filters, properties=(), dup=False, version=5):
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        write_packet_identifier(w, packet_identifier)
        write_properties(w, properties, v, False)
        for topic_filter in topic_filters:
            w.put_text16(topic_filter, "topic_filters")
        self.settle(close_packet(w, MQTT_UNSUBSCRIBE, 0x0A if dup else 0x02), v)

    @property
    def dup(self):
        return self.first_octet & 0x08 != 0

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def properties(self):
        return self.properties_tuple()

    @property
    def topic_filters(self):
        cdef MqttPacketView m
        if self.cached is None:
            self.parsed(&m)
            self.cached = filters_of(&m)
        return self.cached


@cython.final
cdef class Unsuback(Codes):
    """UNSUBACK (5.0, 3.11). `reason_codes` is empty before 5.0."""

    def __init__(self, *, packet_identifier, reason_codes=(), properties=(), version=5):
        self.build(MQTT_UNSUBACK, packet_identifier, reason_codes, properties, version)


@cython.final
cdef class Pingreq(Packet):
    """PINGREQ (5.0, 3.12)."""
    __match_args__ = ("version",)

    def __init__(self, *, version=5):
        self.settle(close_packet(new_writer(), MQTT_PINGREQ, 0), known_mqtt_version(version))


@cython.final
cdef class Pingresp(Packet):
    """PINGRESP (5.0, 3.13)."""
    __match_args__ = ("version",)

    def __init__(self, *, version=5):
        self.settle(close_packet(new_writer(), MQTT_PINGRESP, 0), known_mqtt_version(version))


cdef class Reason(Packet):
    """Base class of DISCONNECT and AUTH: `reason_code`, `properties`, and `form` as in acknowledgements."""
    __match_args__ = ("reason_code", "properties", "form", "version")

    cdef int build(self, int type, object reason_code, object properties, object form, object version) except -1:
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        write_reason(w, reason_code, properties, form, v)
        self.settle(close_packet(w, type, 0), v)
        return 0

    @property
    def reason_code(self):
        """None before 5.0."""
        return self.reason_or_none()

    @property
    def properties(self):
        return self.properties_tuple()

    @property
    def form(self):
        return FORMS[self.form_]


@cython.final
cdef class Disconnect(Reason):
    """DISCONNECT (5.0, 3.14)."""

    def __init__(self, *, reason_code=None, properties=(), form=None, version=5):
        self.build(MQTT_DISCONNECT, reason_code, properties, form, version)


@cython.final
cdef class Auth(Reason):
    """AUTH (5.0, 3.15). A repr shows no authentication data."""

    def __init__(self, *, reason_code=None, properties=(), form=None, version=5):
        self.build(MQTT_AUTH, reason_code, properties, form, version)


cdef Factory[16] MQTT_FACTORIES         # by packet type
set_factories(MQTT_FACTORIES, (
    None, Connect, Connack, Publish, Puback, Pubrec, Pubrel, Pubcomp, Subscribe,
    Suback, Unsubscribe, Unsuback, Pingreq, Pingresp, Disconnect, Auth,
))


cdef inline object make_message(bytes block, const MqttPacketView* m, int side):
    """The object of a parsed packet in `block`."""
    cdef Packet message
    if m.type == MQTT_PUBLISH:
        message = Publish.__new__(Publish)
    else:
        message = <Packet>bare_object(&MQTT_FACTORIES[m.type])
    hold(message, block, m, side)
    return message


# ------------------------------------------------------------------------------------------------ decode, encode

cdef void plain_options(MqttOptions* o, int version, int side, bint strict) noexcept nogil:
    memset(o, 0, sizeof(MqttOptions))
    o.version = <uint8_t>version
    o.side = <int8_t>side
    o.strict = strict


cdef int take_options(MqttOptions* o, object version, object side, object strictness, object limits) except -1:
    """Options of decode() and Decoder as C."""
    if version is not None and version not in (3, 4, 5):
        raise ValueError(f"version must be 3 (MQTT 3.1), 4 (3.1.1), 5 (5.0) or None, not {version!r}")
    if side is not None and side != "client" and side != "server":
        raise ValueError(f"side must be 'client', 'server' or None, not {side!r}")
    plain_options(o, 0 if version is None else version, -1 if side is None else side == "server", is_strict(strictness))
    o.only_version = o.strict and version is not None
    o.max_packet_size = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    o.max_elements = DEFAULT_ELEMENTS if limits is None else limits.elements
    return 0


def decode(data, *, version=None, side=None, strictness=STRICT_MODE, limits=None):
    """Decode exactly one packet, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once.
    version: 3, 4 or 5 (MQTT 3.1, 3.1.1, 5.0). None: a CONNECT has its own version, other packets cannot be decoded.
        A CONNECT of another version is Unsupported in STRICT; in LAX its own version is used.
    side: the sender, "client" or "server"; None: unknown, and rules on the sender are not checked.
    strictness: "strict" or "lax" (wirefmt.strictness). limits: wirefmt.framing.Limits.

    Returns the packet. Raises DecodeError; Truncated if bytes are missing.
    """
    cdef MqttOptions o
    cdef MqttPacketView m
    cdef Fault f
    cdef bytes block = take_block(data)
    take_options(&o, version, side, strictness, limits)
    if mqtt_parse(<const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), &o, &m, &f) != OK:
        raise_fault(&MQTT_TABLES, &f, 0)
    return make_message(block, &m, o.side)


def frame_size(data, *, limits=None):
    """Size in bytes of the packet that `data` begins with, or NEED_DATA; it needs as few bytes as possible (5.0, 2.1.4).

    Raises DecodeError if no packet can begin this way, and LimitExceeded if it is too large.
    """
    cdef uint8_t head[INPUT_HEAD]
    cdef size_t n = input_head(data, head)
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    cdef uint32_t limit = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    status = mqtt_frame_size(head, n, limit, &size, &f)
    if status == OK:
        return size
    if status == NEED_DATA:
        return NEED_DATA_VALUE
    raise_fault(&MQTT_TABLES, &f, 0)


def encode(Packet message not None, /):
    """The bytes of a packet, as `message.encode()`."""
    return message.encode()


def restore(bytes octets not None, int version, int side, bint noted):
    """Unpickle a packet."""
    cdef MqttOptions o
    cdef MqttPacketView m
    cdef Fault f
    if not 3 <= version <= 5 or not -1 <= side <= 1:
        raise ValueError(f"no packet has version {version} and side {side}")
    plain_options(&o, version, side, not noted)
    if mqtt_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
        raise_fault(&MQTT_TABLES, &f, 0)
    return make_message(octets, &m, side)


@cython.final
cdef class Decoder(FrameDecoder):
    """Decodes the bytes of one direction of a connection to packets.

    version: 3, 4, 5, or None to take it from CONNECT, which must then come first. side, strictness, limits: as in
    decode(). `version` is the version of the connection, None while it is unknown.
    """
    cdef MqttOptions options

    def __init__(self, *, version=None, side=None, strictness=STRICT_MODE, limits=None):
        self.tables = &MQTT_TABLES
        take_options(&self.options, version, side, strictness, limits)

    @property
    def version(self):
        return self.options.version if self.options.version else None

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status = mqtt_frame_size(p, n, self.options.max_packet_size, size, f)
        if status > NEED_DATA:
            f.kind = p[0] >> 4
            f.version = self.options.version
        return status

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef MqttPacketView m
        if mqtt_parse(p, n, &self.options, &m, f) != OK:
            return None
        if m.type == MQTT_CONNECT:
            self.options.version = m.version
        return make_message(block, &m, self.options.side)
