# MQTT in captures: how to recognise and frame its streams, and how to put packets into the message table.

cdef enum:
    MQTT_PART_MAX = 4096        # octets: packets other than PUBLISH that claim to be larger do not begin at a boundary
    MQTT_SEARCH_MAX = 1 << 18   # octets: the search for a boundary waits for no larger packet


cdef struct MqttConnection:     # what a capture knows about one connection: a ProtocolState; flow.buffered comes first
    MqttFlow flow
    uint8_t known               # version, from CONNECT; 0: the capture has no CONNECT
    uint8_t likely              # version of the last packet that is valid in one version only; 0: none yet


cdef int mqtt_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """CONNECT with one of its two protocol names (5.0, 3.1.2.1; 3.1, 3.1)."""
    cdef uint32_t remaining = 0
    cdef int used
    cdef const char* name
    cdef size_t size
    if n == 0:
        return MORE
    if p[0] != 0x10:
        return NO
    used = read_varint(p + 1, n - 1, &remaining)
    if used == VARINT_SHORT:
        return MORE
    if used == VARINT_TOO_LONG or remaining < 10:
        return NO
    p += 1 + used
    n -= <size_t>(1 + used)
    if n < 2:
        return MORE
    name = b"\0\x04MQTT" if p[1] == 4 else b"\0\x06MQIsdp"
    size = 6 if p[1] == 4 else 8
    if memcmp(p, name, min(n, size)) != 0:
        return NO
    if n <= size:
        return MORE
    return YES if 3 <= p[size] & 0x7F <= 5 else NO


cdef int mqtt_next_size(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                        Fault* f) noexcept nogil:
    return mqtt_frame_size(p, n, limit, size, f)


cdef int mqtt_probe(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is this a valid packet from the side that may send it? If the version is unknown, 5.0 or 3.1.1."""
    cdef uint8_t known = (<MqttConnection*>state).known if state != NULL else 0
    cdef MqttOptions o
    cdef MqttPacketView m
    cdef Fault f
    cdef int status = mqtt_frame_size(p, n, MQTT_SEARCH_MAX, size, &f)
    if status == NEED_DATA:
        size[0] = n + 1
        return MORE if n == 0 or mqtt_senders(p[0]) >> direction & 1 else NO
    if status != OK or not mqtt_senders(p[0]) >> direction & 1:
        return NO
    if size[0] > n:
        return MORE if mqtt_may_begin(p, n, size[0]) else NO
    mqtt_options(&o, 1, direction)
    if known:
        o.version = known
        return YES if mqtt_parse(p, size[0], &o, &m, &f) == OK else NO
    o.version = 5
    if mqtt_parse(p, size[0], &o, &m, &f) == OK:
        return YES
    o.version = 4
    return YES if mqtt_parse(p, size[0], &o, &m, &f) == OK else NO


cdef inline int mqtt_senders(uint8_t first) noexcept nogil:
    """Who may send a packet with this first octet: bit 0 the client, bit 1 the server. 0: not a packet."""
    cdef int type = first >> 4
    if type == MQTT_PUBLISH:
        return 0 if first & 6 == 6 or first & 0x0E == 8 else 3
    return mqtt_packets[type].senders if first & 0x0F == mqtt_packets[type].flags else 0


cdef bint mqtt_may_begin(const uint8_t* p, size_t n, size_t size) noexcept nogil:
    """Can p[:n] be the beginning of a packet of `size` octets?"""
    cdef size_t at = 2, topic, bad = 0
    cdef int type = p[0] >> 4
    if type == MQTT_PINGREQ or type == MQTT_PINGRESP:
        return size == 2
    if type != MQTT_PUBLISH:
        return size <= MQTT_PART_MAX
    while p[at - 1] & 0x80:
        at += 1
    if size - at < 2:
        return False
    if n - at < 2:
        return True
    topic = load_u16(p + at)
    at += 2
    if topic > size - at:
        return False
    topic = min(topic, n - at)
    if check_utf8(p + at, topic, &bad) == UTF8_OK:
        return True
    return topic == n - at and p[at + bad] != 0 and topic - bad < 4       # may end inside a character


cdef inline void mqtt_options(MqttOptions* o, bint strict, int direction) noexcept nogil:
    memset(o, 0, sizeof(MqttOptions))
    o.common.strict = strict
    o.common.side = <int8_t>direction


cdef uint8_t mqtt_version(MqttConnection* c, int direction, const uint8_t* p, size_t n) noexcept nogil:
    """The version of a packet of a connection whose CONNECT was not captured.

    Packets that are valid in one version only (SUBACK, UNSUBACK and SUBSCRIBE nearly always; PUBLISH with a payload that
    is not valid as properties, or with properties) decide, also for later packets that are valid in both versions. Before
    the first of these, PUBLISH is 5.0 (otherwise its payload would have to begin with an octet 0) and the rest 3.1.1.
    """
    cdef MqttOptions o
    cdef MqttPacketView m
    cdef Fault f
    cdef bint five, four
    if c.known or p[0] >> 4 == MQTT_CONNECT:
        return c.known
    mqtt_options(&o, 1, direction)
    o.version = 4
    four = mqtt_parse(p, n, &o, &m, &f) == OK
    o.version = 5
    five = mqtt_parse(p, n, &o, &m, &f) == OK
    if five and (not four or m.properties_seen):
        c.likely = 5
    elif four and not five:
        c.likely = 4
    if c.likely:
        return c.likely
    return 5 if p[0] >> 4 == MQTT_PUBLISH else 4


cdef void mqtt_observe(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil:
    mqtt_version(<MqttConnection*>state, direction, p, n)


cdef bint mqtt_put(MessageTable t, const MessageContext* m, void* state, bint strict,
                   const uint8_t* p, size_t n) noexcept nogil:
    cdef MqttConnection* c = <MqttConnection*>state
    cdef MqttOptions o
    cdef MqttPacketView packet
    cdef Fault f
    cdef int64_t row
    cdef bint secret = False
    mqtt_options(&o, strict, m.direction)
    o.version = c.known if c.known else mqtt_version(c, m.direction, p, n)
    row = t.begin_row(m)
    if not mqtt_view_fast(p, n, &o, &packet) and mqtt_parse(p, n, &o, &packet, &f) != OK:
        mqtt_put_kind(t, row, p[0])
        t.put_malformed(row, &MQTT_TABLES, &f)
        return True
    if packet.type == MQTT_CONNECT:
        c.known = packet.version
    mqtt_put_row(t, row, &packet, &c.flow, m.direction)
    if t.options.detail:
        mqtt_put_detail(t, row, &packet, &c.flow, m.direction)
    if packet.type == MQTT_PUBLISH:
        secret = t.hides_octets() and holds_secret_property(&packet.properties)
        if not secret:
            t.put_message(row, p, n)
    if secret and not packet.notes.check:
        t.put_status(row, ROW_OK, HIDDEN_OCTETS, <int64_t>strlen(HIDDEN_OCTETS))
    else:
        t.put_accepted(row, &MQTT_TABLES, &packet.notes)
    return True


cdef size_t mqtt_put_fast(MessageTable t, MessageContext* m, void* state, bint strict, const uint8_t* p,
                          size_t n) noexcept nogil:
    """Put a packet that stands alone: it changes nothing that is known about the connection."""
    cdef MqttConnection* c = <MqttConnection*>state
    cdef MqttOptions o
    cdef MqttFastView u
    cdef size_t size = 4
    cdef int64_t row
    if t.options.raw or t.options.detail:
        return 0
    if mqtt_fast_acknowledgement(p, n, c.known):
        m.wire_size = 4
        row = t.begin_row(m)
        mqtt_put_acknowledgement(t, row, p, c.known, &c.flow, m.direction)
    else:
        mqtt_options(&o, strict, m.direction)
        o.version = c.known
        size = mqtt_read_fast(p, n, &o, &u)
        if size == 0 or u.seen >> MQTT_PROPERTY_TOPIC_ALIAS & 1:
            return 0
        m.wire_size = <int64_t>size
        row = t.begin_row(m)
        mqtt_put_publish(t, row, &u, c.known, &c.flow, m.direction)
    t.put_status(row, ROW_OK, NULL, 0)
    return size


cdef inline void mqtt_put_kind(MessageTable t, int64_t row, uint8_t first) noexcept nogil:
    put_text(t.cols + T_PROTOCOL, row, &MQTT_PROTOCOL_TEXT)
    put_text(t.cols + T_KIND, row, &MQTT_KIND_TEXT[first >> 4])


cdef bint mqtt_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                        const char* text, size_t text_size) noexcept nogil:
    """Read the available part of a PUBLISH; the payload ends where the octets end (`cut`)."""
    cdef MqttConnection* c = <MqttConnection*>state
    cdef MqttOptions o
    cdef MqttPacketView packet
    cdef Fault f
    cdef int64_t row = t.begin_row(m)
    cdef bint read = False
    if p[0] >> 4 == MQTT_PUBLISH:
        mqtt_options(&o, 0, m.direction)
        o.common.cut = 1
        o.version = c.known if c.known else c.likely if c.likely else 4
        read = mqtt_parse(p, n, &o, &packet, &f) == OK
    if read:
        mqtt_put_row(t, row, &packet, &c.flow, m.direction)
        if t.options.detail:
            mqtt_put_detail(t, row, &packet, &c.flow, m.direction)
    else:
        mqtt_put_kind(t, row, p[0])
    t.put_status(row, ROW_PARTIAL, text, text_size)
    return True


cdef void mqtt_clear_state(void* state) noexcept nogil:
    mqtt_flow_clear(&(<MqttConnection*>state).flow)


cdef Protocol mqtt_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = MQTT_PROTOCOL_TEXT
    row.subprotocol = MQTT_PROTOCOL_TEXT
    row.sniff = mqtt_sniff
    row.frame_size = mqtt_next_size
    row.probe = mqtt_probe
    row.observe = mqtt_observe
    row.put = mqtt_put
    row.put_fast = mqtt_put_fast
    row.put_part = mqtt_put_part
    row.state_size = sizeof(MqttConnection)
    row.clear = mqtt_clear_state
    row.tables = &MQTT_TABLES
    return row


cdef Protocol MQTT_PROTOCOL = mqtt_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&MQTT_PROTOCOL)
