# The fifteen packets of MQTT as Python objects, and their encoders.
#
# A packet exists only as its octets. A constructor writes them and reads them back with mqtt_parse, so everything that
# can be built can be decoded, one place checks packets, and encode() returns existing octets. A PUBLISH
# of plain values that is valid by construction is not read back.
# Objects keep the block (bytes) that contains them. Members of PUBLISH become objects with it, all other fields on access.


# ------------------------------------------------------------------------------------------------ packets

@cython.freelist(512)
@cython.no_gc
cdef class Packet:
    """Base of the fifteen packets. Immutable; equal by value; keeps the input block it was decoded from.

    Attributes of every packet: `version` (3, 4, 5: MQTT 3.1, 3.1.1, 5.0), `flags` (low four bits of the first byte),
    `remaining_length`, `notes` (violations that LAX accepted). Fields that a version lacks are None, properties are empty.
    """
    cdef bytes block
    cdef const uint8_t* frame
    cdef uint32_t size, property_count
    cdef uint16_t packet_identifier_
    cdef uint8_t version_, first_octet, form_, reason_code_, acknowledge_flags
    cdef uint8_t noted          # LAX accepted a violation
    cdef int8_t side            # the version passed to the decoder
    cdef Span topic, payload_span, properties_span
    cdef Properties cached_properties       # after the first access
    cdef object cached          # the same: list, or tuple of CONNECT's values; topic name of PUBLISH, set when it is made
    # Further members of Publish. Objects that are never freed are borrowed.
    cdef PyObject* qos_
    cdef PyObject* dup_
    cdef PyObject* retain_
    cdef object identifier_

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
        return message_octets(self.block, self.frame, self.size)

    def detach(self):
        """An equal packet that holds only its own bytes, not the larger input block."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self
        return restore(self.encode(), self.version_, self.side, self.noted)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef MqttOptions o
        if not self.noted:
            return ()
        plain_options(&o, self.version_, self.side, 0)
        return message_notes(&MQTT_OPS, self.frame, self.size, &o.common)

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

    cdef int adopt(self, bytes octets, int version) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them as a packet."""
        cdef MqttOptions o
        cdef MqttPacketView m
        cdef Fault f
        plain_options(&o, version, -1, 1)
        o.only_version = 1
        if mqtt_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
            raise encode_error(&MQTT_TABLES, &f)
        cache_fields(self, octets, &m, -1)
        return 0

    cdef Properties own_properties(self):
        if self.cached_properties is None:
            self.cached_properties = properties_of(self.block, &self.properties_span, self.property_count, self.noted)
        return self.cached_properties

    cdef object reason_or_none(self):
        return self.reason_code_ if self.version_ == 5 else None


cdef inline void cache_fields(Packet self, bytes block, const MqttPacketView* m, int side) noexcept:
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
    self.noted = m.notes.count != 0
    self.side = <int8_t>side
    self.topic = m.topic
    self.properties_span = m.properties
    self.property_count = m.property_count
    self.payload_span = m.payload if m.type == MQTT_PUBLISH else m.list


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
        self.adopt(close_packet(w, MQTT_CONNECT, 0), v)

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
                make_will(self.block, &m),
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
        return self.own_properties()


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
        self.adopt(close_packet(w, MQTT_CONNACK, 0), v)

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
        return self.own_properties()


@cython.final
cdef class Publish(Packet):
    """PUBLISH (5.0, 3.3). Also a buffer: its payload.

    `payload` is a read-only memoryview into the bytes the packet was decoded from; `payload_bytes()` copies it.
    `packet_identifier` is None for QoS 0, and required for QoS 1 and 2.
    """
    __match_args__ = ("dup", "qos", "retain", "topic_name", "packet_identifier", "properties", "payload", "version")

    def __init__(self, *, topic_name, payload=b"", qos=0, retain=False, dup=False, packet_identifier=None,
                 properties=(), version=5):
        self.build(topic_name, payload, qos, retain, dup, packet_identifier, properties, version)

    cdef int build(self, object topic_name, object payload, object qos, object retain, object dup, object packet_identifier,
                   object properties, object version) except -1:
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
        topic = utf8_view(topic_name, &topic_size, "topic_name")
        check_size16(topic_size, "topic_name")
        if (packet_identifier is None) == (level > 0):
            raise EncodeError("packet_identifier: required for QoS 1 and 2, not allowed for QoS 0 [MQTT-2.2.1-2]")
        if level:
            identifier = <uint16_t>whole_number(packet_identifier, 0xFFFF, "packet_identifier")
        if type(properties) is Properties and (<Properties>properties).block is None:
            properties = (<Properties>properties).pairs
        try:
            if PyTuple_CheckExact(properties) and (v == 5 or PyTuple_GET_SIZE(properties) == 0):
                extend_octets(&o, LENGTH_CAPACITY)
                count = write_plain_properties(&o, <PyObject*>properties, MQTT_PUBLISH)
            if count < 0:
                w = new_writer()
                write_properties(w, properties, v, False)
                area = w.out.at
                area_size = w.out.size
            elif v == 5:
                area_size = o.size - LENGTH_CAPACITY
                length_size = <size_t>varint_size(<uint32_t>area_size)
                area = o.at + LENGTH_CAPACITY - length_size
                store_varint(o.at + LENGTH_CAPACITY - length_size, <uint32_t>area_size)
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
            self.adopt(octets, v)
        else:
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
        return self.keep_members(topic_name, packet_identifier)

    cdef inline int keep_members(self, object topic_name, object packet_identifier) except -1:
        """Set what Python reads as members. The arguments are objects of a caller, kept if decoding would make equal ones; None:
        there is no caller."""
        self.cached = topic_name if PyUnicode_CheckExact(topic_name) else shared_text(self.topic.at, self.topic.size)
        self.qos_ = borrowed_item(<PyObject*>QOS_NUMBERS, self.first_octet >> 1 & 3)
        self.dup_ = borrowed_item(<PyObject*>FLAGS, self.first_octet >> 3 & 1)
        self.retain_ = borrowed_item(<PyObject*>FLAGS, self.first_octet & 1)
        if self.first_octet & 0x06:
            self.identifier_ = packet_identifier if PyLong_CheckExact(packet_identifier) else self.packet_identifier_
        return 0

    cdef tuple values(self):
        # hashing a memoryview would hash its exporter, which is this object
        return (self.first_octet & 0x0F, self.cached, self.identifier_, self.own_properties(),
                self.payload_bytes(), self.version_)

    @property
    def properties(self):
        return self.own_properties()

    @property
    def payload(self):
        return PyMemoryView_FromObject(self)

    def payload_bytes(self):
        """The payload, copied."""
        return octets_of(self.payload_span.at, self.payload_span.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.payload_span.at, self.payload_span.size, flags)


cdef tuple QOS_NUMBERS = (0, 1, 2, 3)
cdef tuple FLAGS = (False, True)
cdef PyMemberDef[5] PUBLISH_MEMBERS


cdef int add_publish_members() except -1:
    cdef Publish sample = Publish.__new__(Publish)
    cdef const char** names = ["topic_name", "packet_identifier", "qos", "dup", "retain"]
    cdef int i
    sample.cached, sample.identifier_, qos, dup, retain = places = [object() for _ in range(5)]
    sample.qos_, sample.dup_, sample.retain_ = <PyObject*>qos, <PyObject*>dup, <PyObject*>retain
    for i in range(5):
        add_member(Publish, &PUBLISH_MEMBERS[i], names[i], place_in(sample, places[i]))
    return 0


add_publish_members()


# what Publish.__init__ takes, in its order
cdef enum:
    PUBLISH_ARGUMENTS = 8
cdef tuple PUBLISH_NAMES = tuple([intern(name) for name in (
    "topic_name", "payload", "qos", "retain", "dup", "packet_identifier", "properties", "version")])
cdef tuple PUBLISH_DEFAULTS = (None, b"", 0, False, False, None, (), 5)
cdef PyObject* PUBLISH_KEYWORDS[PUBLISH_ARGUMENTS]
cdef PyObject* PUBLISH_VALUES[PUBLISH_ARGUMENTS]        # PUBLISH_DEFAULTS; NULL: topic_name has no default
cdef KeywordOrder PUBLISH_ORDER


cdef object mqtt_construct_publish(object cls, PyObject** args, size_t nargsf, PyObject* kwnames):
    """Call Publish."""
    cdef PyObject* values[PUBLISH_ARGUMENTS]
    cdef Publish made
    memcpy(values, PUBLISH_VALUES, sizeof(values))
    if not take_keywords(args, nargsf, kwnames, PUBLISH_KEYWORDS, PUBLISH_ARGUMENTS, &PUBLISH_ORDER, values) or values[0] == NULL:
        return construct_slowly(cls, args, nargsf, kwnames)
    made = Publish.__new__(Publish)
    made.build(<object>values[0], <object>values[1], <object>values[2], <object>values[3], <object>values[4],
               <object>values[5], <object>values[6], <object>values[7])
    return made


cdef int fill_publish_keywords() except -1:
    cdef int i
    for i in range(PUBLISH_ARGUMENTS):
        PUBLISH_KEYWORDS[i] = borrowed_item(<PyObject*>PUBLISH_NAMES, i)
        PUBLISH_VALUES[i] = borrowed_item(<PyObject*>PUBLISH_DEFAULTS, i) if i else NULL
    set_vectorcall(Publish, <void*>mqtt_construct_publish)
    return 0


fill_publish_keywords()


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
        return self.own_properties()

    @property
    def form(self):
        return FORMS[self.form_]

    cdef int build(self, int type, int flags, object packet_identifier, object reason_code, object properties,
                   object form, object version) except -1:
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        write_packet_identifier(w, packet_identifier)
        write_reason(w, reason_code, properties, form, v)
        self.adopt(close_packet(w, type, flags), v)
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
        self.adopt(close_packet(w, MQTT_SUBSCRIBE, 0x0A if dup else 0x02), v)

    @property
    def dup(self):
        return self.first_octet & 0x08 != 0

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def properties(self):
        return self.own_properties()

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
        self.adopt(close_packet(w, type, 0), v)
        return 0

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def properties(self):
        return self.own_properties()

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
        self.adopt(close_packet(w, MQTT_UNSUBSCRIBE, 0x0A if dup else 0x02), v)

    @property
    def dup(self):
        return self.first_octet & 0x08 != 0

    @property
    def packet_identifier(self):
        return self.packet_identifier_

    @property
    def properties(self):
        return self.own_properties()

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
        self.adopt(close_packet(new_writer(), MQTT_PINGREQ, 0), known_mqtt_version(version))


@cython.final
cdef class Pingresp(Packet):
    """PINGRESP (5.0, 3.13)."""
    __match_args__ = ("version",)

    def __init__(self, *, version=5):
        self.adopt(close_packet(new_writer(), MQTT_PINGRESP, 0), known_mqtt_version(version))


cdef class Reason(Packet):
    """Base class of DISCONNECT and AUTH: `reason_code`, `properties`, and `form` as in acknowledgements."""
    __match_args__ = ("reason_code", "properties", "form", "version")

    cdef int build(self, int type, object reason_code, object properties, object form, object version) except -1:
        cdef Writer w = new_writer()
        cdef int v = known_mqtt_version(version)
        write_reason(w, reason_code, properties, form, v)
        self.adopt(close_packet(w, type, 0), v)
        return 0

    @property
    def reason_code(self):
        """None before 5.0."""
        return self.reason_or_none()

    @property
    def properties(self):
        return self.own_properties()

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
        cache_fields(message, block, m, side)
        (<Publish>message).keep_members(None, None)
    else:
        message = <Packet>bare_object(&MQTT_FACTORIES[m.type])
        cache_fields(message, block, m, side)
    return message


cdef void mqtt_review(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil:
    cdef MqttPacketView m
    mqtt_parse(p, n, <const MqttOptions*>o, &m, f)
    notes[0] = m.notes
    f.kind = m.type
    f.version = m.version


cdef object mqtt_object_of(bytes block, const uint8_t* p, size_t n, const CommonOptions* o, Fault* f):
    cdef MqttPacketView m
    return make_message(block, &m, o.side) if mqtt_parse(p, n, <const MqttOptions*>o, &m, f) == OK else None


cdef MessageOps MQTT_OPS
MQTT_OPS.tables = &MQTT_TABLES
MQTT_OPS.review = mqtt_review
MQTT_OPS.read = mqtt_object_of
