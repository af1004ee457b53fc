# MQTT 3.1, 3.1.1 and 5.0: the octets of one packet -> MqttPacketView, checked. Objects and columns both use this room.
#
# MQTT 5.0  https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html
# MQTT 3.1.1  https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/mqtt-v3.1.1.html
# MQTT 3.1  https://public.dhe.ibm.com/software/dw/webservices/ws-mqtt/mqtt-v3r1.html
#
# Structure is always checked in full: every length against its bound, every string as UTF-8, every property.
# Further prohibitions of a specification are rules of its CHECKS table. `mqtt_violation` decides by the table whether the
# rule exists in this version and whether it ends the decoder or, in LAX, leaves a note.
from wirefmt.mqtt.topics cimport (
    TOPIC_EMPTY, TOPIC_MULTI_LEVEL, TOPIC_OK, TOPIC_SHARE, TOPIC_SINGLE_LEVEL, TOPIC_WILDCARD,
    check_topic_filter, check_topic_name, is_shared,
)


cdef enum MqttForm:             # how much of an acknowledgement, DISCONNECT or AUTH of 5.0 is present
    MQTT_FORM_NONE = 0          # other packets, and before 5.0
    MQTT_FORM_SHORT = 1         # no Reason Code: 0
    MQTT_FORM_REASON_ONLY = 2   # no Property Length: no properties
    MQTT_FORM_FULL = 3


cdef struct MqttReader:         # state shared by the functions below
    const MqttOptions* o
    MqttPacketView* m
    Fault* f
    Cursor c                    # the octets after the fixed header
    uint32_t elements


# ------------------------------------------------------------------------------------------------ fixed header

cdef int mqtt_frame_size(const uint8_t* p, size_t n, uint32_t max_packet_size, size_t* size, Fault* f) noexcept nogil:
    """Size of the packet that begins at `p`, from as few octets as possible.

    octet 1     packet type, flags
    octet 2-5   Remaining Length, a variable byte integer
    """
    cdef uint32_t remaining = 0
    cdef int used
    if n == 0:
        return NEED_DATA
    if p[0] < 0x10:
        return mqtt_fault(f, MQTT_CHECK_PACKET_TYPE_RESERVED, MQTT_FIELD_PACKET_TYPE, 0, 0, 0, 0)
    used = read_varint(p + 1, n - 1, &remaining)
    if used == VARINT_SHORT:
        return NEED_DATA
    if used == VARINT_TOO_LONG:
        return mqtt_fault(f, MQTT_CHECK_REMAINING_LENGTH_TOO_LONG, MQTT_FIELD_REMAINING_LENGTH, 1, 0, 0, 0)
    size[0] = <size_t>1 + <size_t>used + remaining
    if max_packet_size and size[0] > max_packet_size:
        return mqtt_fault(f, MQTT_CHECK_FRAME_SIZE, MQTT_FIELD_REMAINING_LENGTH, 1,
                          <int64_t>size[0], max_packet_size, 0)
    return OK


cdef int mqtt_parse(const uint8_t* p, size_t n, const MqttOptions* o, MqttPacketView* out, Fault* f) noexcept nogil:
    """Read exactly one whole packet. OK, or the fault's status."""
    cdef MqttReader x
    cdef int status
    memset(out, 0, sizeof(MqttPacketView))
    x.o = o
    x.m = out
    x.f = f
    x.elements = 0
    out.frame = p
    out.size = <uint32_t>n
    out.version = o.version
    status = mqtt_read_packet(&x, p, n)
    if status != OK:
        f.kind = out.type
        f.version = out.version
    return status


cdef inline int mqtt_read_packet(MqttReader* x, const uint8_t* p, size_t n) noexcept nogil:
    cdef MqttPacketView* m = x.m
    cdef size_t size = 0
    cdef int used, status
    x.c = cursor_over(p, n)
    status = mqtt_frame_size(p, n, x.o.common.max_frame_size, &size, x.f)
    if status == NEED_DATA or (status == OK and size > n and not x.o.common.cut):
        return mqtt_fault(x.f, MQTT_CHECK_FIELD_TRUNCATED, MQTT_FIELD_REMAINING_LENGTH, 1 if n else 0,
                          <int64_t>size if status == OK else 2, <int64_t>n, 0)
    if status != OK:
        return status
    if size < n:
        return mqtt_fault(x.f, MQTT_CHECK_TRAILING_OCTETS, MQTT_FIELD_REMAINING_LENGTH, <int64_t>size,
                          <int64_t>size, <int64_t>n, 0)
    m.type = p[0] >> 4
    m.flags = p[0] & 0x0F
    used = 2
    while p[used - 1] & 0x80:
        used += 1
    x.c.at = p + used
    if m.type != MQTT_PUBLISH:
        status = mqtt_check_fixed_header(x)
        if status != OK:
            return status
    elif not m.version:
        return mqtt_violation(x, MQTT_CHECK_VERSION_UNKNOWN, MQTT_FIELD_PACKET_TYPE, -1, p)
    if p[used - 1] == 0 and used > 2:
        status = mqtt_violation(x, MQTT_CHECK_REMAINING_LENGTH_NOT_SHORTEST, MQTT_FIELD_REMAINING_LENGTH, -1, p + 1)
        if status != OK:
            return status
    status = mqtt_read_body(x)
    if status != OK:
        return status
    return mqtt_check_end(x) if x.c.at != x.c.end else OK


cdef inline int mqtt_read_body(MqttReader* x) noexcept nogil:
    cdef int type = x.m.type
    if type == MQTT_PUBLISH:
        return mqtt_read_publish(x)
    if type == MQTT_CONNECT:
        return mqtt_read_connect(x)
    if type == MQTT_CONNACK:
        return mqtt_read_connack(x)
    if type <= MQTT_PUBCOMP:
        return mqtt_read_acknowledgement(x)
    if type == MQTT_SUBSCRIBE:
        return mqtt_read_subscribe(x)
    if type == MQTT_UNSUBSCRIBE:
        return mqtt_read_unsubscribe(x)
    if type == MQTT_SUBACK or type == MQTT_UNSUBACK:
        return mqtt_read_suback(x)
    if type == MQTT_DISCONNECT or type == MQTT_AUTH:
        return mqtt_read_reason(x)
    return OK                               # PINGREQ, PINGRESP: nothing follows


cdef int mqtt_check_fixed_header(MqttReader* x) noexcept nogil:
    """Type, flags and sender. PUBLISH checks its own flags, and both sides may send it."""
    cdef MqttPacketView* m = x.m
    cdef const MqttPacketRow* row = &mqtt_packets[m.type]
    cdef uint8_t mask = 0x0F, senders = row.senders
    cdef int status
    if m.type == MQTT_CONNECT:
        m.version = mqtt_peek_level(x)           # so that faults before the level name the right statements
    elif m.version == 0:
        return mqtt_violation(x, MQTT_CHECK_VERSION_UNKNOWN, MQTT_FIELD_PACKET_TYPE, -1, m.frame)
    if m.version < row.first_version:
        return mqtt_violation(x, MQTT_CHECK_PACKET_TYPE_RESERVED, MQTT_FIELD_PACKET_TYPE, -1, m.frame)
    if m.version == 3:
        mask = 0x06                         # 3.1: QoS 1 in PUBREL, SUBSCRIBE, UNSUBSCRIBE; DUP may be set, RETAIN is unused
    if m.flags & mask != row.flags & mask:
        status = mqtt_violation(x, row.flags_check, MQTT_FIELD_FLAGS, -1, m.frame)
        if status != OK:
            return status
    if m.type == MQTT_DISCONNECT and m.version < 5:
        senders = 1
    if x.o.common.side >= 0 and not senders & (1 << x.o.common.side):
        return mqtt_violation(x, MQTT_CHECK_PACKET_TYPE_SENDER, MQTT_FIELD_PACKET_TYPE, -1, m.frame)
    return OK


cdef int mqtt_peek_level(MqttReader* x) noexcept nogil:
    """The version that a CONNECT declares, if it can be read, otherwise the expected version."""
    cdef Cursor c = x.c
    cdef uint16_t size = 0
    cdef uint8_t level = 0
    cdef Span name
    if not x.o.only_version and read_u16(&c, &size) and read_span(&c, size, &name) and read_u8(&c, &level):
        level &= 0x7F
        if 3 <= level <= 5:
            return level
    return x.o.version if x.o.version else 5


cdef int mqtt_check_end(MqttReader* x) noexcept nogil:
    """Octets are left after the last field."""
    cdef MqttPacketView* m = x.m
    if m.type == MQTT_CONNECT:
        if m.version == 3:
            # 3.1, section 1.1: a server of V3 follows Remaining Length and ignores unknown bytes
            return OK
        if not m.connect_flags & 0x80:
            return mqtt_violation(x, MQTT_CHECK_USER_NAME_UNANNOUNCED, MQTT_FIELD_USER_NAME, -1, x.c.at)
        if not m.connect_flags & 0x40:
            return mqtt_violation(x, MQTT_CHECK_PASSWORD_UNANNOUNCED, MQTT_FIELD_PASSWORD, -1, x.c.at)
    return mqtt_violation(x, MQTT_CHECK_TRAILING_OCTETS, MQTT_FIELD_PACKET, -1, x.c.at)


# ------------------------------------------------------------------------------------------------ faults and notes

cdef int mqtt_fault(Fault* f, int check, int field, int64_t offset, int64_t need, int64_t have,
                    int limited_by) noexcept nogil:
    return fault(f, mqtt_checks[check].status, check, field, offset, need, have, limited_by)


cdef int mqtt_violation(MqttReader* x, int check, int field, int index, const uint8_t* at) noexcept nogil:
    """Report a violation at `at`. OK: continue, because the version has no such rule or LAX noted it."""
    cdef const MqttCheckRow* row = &mqtt_checks[check]
    if x.m.version and not row.versions >> x.m.version & 1:
        return OK
    return violation(&x.o.common, &x.m.notes, x.f, row.status, row.lax, check, field, index, <int64_t>(at - x.m.frame))


cdef int mqtt_cut(MqttReader* x, const Cursor* c, int check, int field, int index, int64_t need, int by) noexcept nogil:
    """A field needs more octets than its bound `by` has left."""
    mqtt_fault(x.f, check, field, <int64_t>(c.at - x.m.frame), need, <int64_t>left(c), by)
    x.f.index = index
    return x.f.status


cdef inline int mqtt_count_element(MqttReader* x, int field, int index, const uint8_t* at) noexcept nogil:
    x.elements += 1
    if x.o.common.max_elements and x.elements > x.o.common.max_elements:
        mqtt_fault(x.f, MQTT_CHECK_ELEMENTS, field, <int64_t>(at - x.m.frame), x.elements, x.o.common.max_elements, 0)
        x.f.index = index
        return LIMIT
    return OK


# ------------------------------------------------------------------------------------------------ basic types

cdef inline int mqtt_take_u8(MqttReader* x, int field, uint8_t* v) noexcept nogil:
    if not read_u8(&x.c, v):
        return mqtt_cut(x, &x.c, MQTT_CHECK_FIELD_TRUNCATED, field, -1, 1, MQTT_FIELD_REMAINING_LENGTH)
    return OK


cdef inline int mqtt_take_u16(MqttReader* x, int field, uint16_t* v) noexcept nogil:
    if not read_u16(&x.c, v):
        return mqtt_cut(x, &x.c, MQTT_CHECK_FIELD_TRUNCATED, field, -1, 2, MQTT_FIELD_REMAINING_LENGTH)
    return OK


cdef inline int mqtt_take_binary(MqttReader* x, Cursor* c, int field, int index, int truncated, int by,
                            Span* v) noexcept nogil:
    """Two octets of length, then as many octets (5.0, 1.5.6)."""
    cdef size_t size
    if left(c) < 2:
        return mqtt_cut(x, c, truncated, field, index, 2, by)
    size = load_u16(c.at)
    if left(c) - 2 < size:
        return mqtt_cut(x, c, truncated, field, index, <int64_t>size + 2, by)
    v.at = c.at + 2
    v.size = <uint32_t>size
    c.at += size + 2
    return OK


cdef inline int mqtt_check_string(MqttReader* x, const Span* v, int field, int index, int ill_formed,
                                  int nul) noexcept nogil:
    """A string is UTF-8 and has no U+0000 (5.0, 1.5.4)."""
    cdef size_t bad = 0, at = 0
    cdef int found = check_utf8(v.at, v.size, &bad)
    cdef int status
    while found != UTF8_OK:
        at += bad
        status = mqtt_violation(x, ill_formed if found == UTF8_ILL_FORMED else nul, field, index, v.at + at)
        if status != OK:
            return status
        at += 1                             # after a U+0000 that is accepted
        found = check_utf8(v.at + at, v.size - at, &bad)
    return OK


cdef inline int mqtt_take_string(MqttReader* x, int field, int index, int nul, Span* v) noexcept nogil:
    cdef int status = mqtt_take_binary(x, &x.c, field, index, MQTT_CHECK_FIELD_TRUNCATED,
                                       MQTT_FIELD_REMAINING_LENGTH, v)
    return mqtt_check_string(x, v, field, index, MQTT_CHECK_STRING_UTF8, nul) if status == OK else status


cdef inline int mqtt_take_packet_identifier(MqttReader* x, int zero) noexcept nogil:
    cdef int status = mqtt_take_u16(x, MQTT_FIELD_PACKET_IDENTIFIER, &x.m.packet_identifier)
    if status != OK:
        return status
    x.m.has_packet_identifier = 1
    if x.m.packet_identifier == 0:
        return mqtt_violation(x, zero, MQTT_FIELD_PACKET_IDENTIFIER, -1, x.c.at - 2)
    return OK


cdef inline bint mqtt_is_code(int version, int type, uint8_t code) noexcept nogil:
    return mqtt_codes[version - 3][type][code >> 5] >> (code & 31) & 1


cdef int mqtt_check_topic_name(MqttReader* x, const Span* v, int field, int index, int empty,
                               int wildcard) noexcept nogil:
    """A topic name is not empty and has no wildcard (5.0, 4.7)."""
    cdef size_t bad = 0
    cdef int rule = check_topic_name(v.at, v.size, &bad)
    if rule == TOPIC_OK:
        return OK
    return mqtt_violation(x, empty if rule == TOPIC_EMPTY else wildcard, field, index, v.at + bad)


cdef inline int mqtt_topic_check(int rule) noexcept nogil:
    """The check of a TopicRule, for a filter or a topic by itself."""
    if rule == TOPIC_EMPTY:
        return MQTT_CHECK_TOPIC_EMPTY
    if rule == TOPIC_WILDCARD:
        return MQTT_CHECK_TOPIC_NAME_WILDCARD
    if rule == TOPIC_MULTI_LEVEL:
        return MQTT_CHECK_FILTER_MULTI_LEVEL
    if rule == TOPIC_SINGLE_LEVEL:
        return MQTT_CHECK_FILTER_SINGLE_LEVEL
    return MQTT_CHECK_FILTER_SHARE if rule == TOPIC_SHARE else MQTT_CHECK_FILTER_SHARE_NAME


cdef int mqtt_check_topic_filter(MqttReader* x, const Span* v, int field, int index) noexcept nogil:
    """Check that wildcards of a topic filter are in allowed places, and that `$share` is well-formed (5.0, 4.7.1 and 4.8.2)."""
    cdef size_t bad = 0
    cdef int rule = check_topic_filter(v.at, v.size, x.m.version, &bad)
    if rule == TOPIC_OK:
        return OK
    return mqtt_violation(x, mqtt_topic_check(rule), field, index, v.at + bad)


# ------------------------------------------------------------------------------------------------ properties

cdef int mqtt_take_properties(MqttReader* x, int packet, Span* area, uint64_t* seen) noexcept nogil:
    """Property Length and the properties of a packet of 5.0 (2.2.2); `packet` 0: will properties."""
    cdef Cursor* c = &x.c
    cdef Cursor p
    cdef uint32_t size = 0
    cdef int length_field = MQTT_FIELD_PROPERTY_LENGTH if packet else MQTT_FIELD_WILL_PROPERTY_LENGTH
    cdef int used, status
    area.at = c.at
    if c.at == c.end:
        return mqtt_violation(x, MQTT_CHECK_PROPERTY_LENGTH_MISSING, length_field, -1, c.at)
    if c.at[0] == 0:
        c.at += 1
        area.at = c.at
        return OK
    used = read_varint(c.at, left(c), &size)
    if used == VARINT_SHORT:
        return mqtt_cut(x, c, MQTT_CHECK_FIELD_TRUNCATED, length_field, -1, <int64_t>left(c) + 1,
                        MQTT_FIELD_REMAINING_LENGTH)
    if used == VARINT_TOO_LONG:
        return mqtt_violation(x, MQTT_CHECK_PROPERTY_LENGTH_TOO_LONG, length_field, -1, c.at)
    if used > 1 and c.at[used - 1] == 0:
        status = mqtt_violation(x, MQTT_CHECK_VARINT_NOT_SHORTEST, length_field, -1, c.at)
        if status != OK:
            return status
    c.at += used
    area.at = c.at
    if left(c) < size:
        return mqtt_cut(x, c, MQTT_CHECK_PROPERTY_LENGTH_BEYOND, length_field, -1, size, MQTT_FIELD_REMAINING_LENGTH)
    area.size = size
    c.at += size
    p.base = c.base
    p.at = area.at
    p.end = c.at
    return mqtt_read_properties(x, &p, packet, seen)


cdef int mqtt_read_properties(MqttReader* x, Cursor* p, int packet, uint64_t* seen) noexcept nogil:
    cdef const MqttPropertyRow* row
    cdef const uint8_t* at
    cdef uint32_t identifier = 0, order = 0
    cdef int index[2]                       # number of User Properties and Subscription Identifiers so far
    cdef int by = MQTT_FIELD_PROPERTY_LENGTH if packet else MQTT_FIELD_WILL_PROPERTY_LENGTH
    cdef int item = MQTT_FIELD_PROPERTIES_ITEM if packet else MQTT_FIELD_WILL_PROPERTIES_ITEM
    cdef int used, status, nth, field
    index[0] = index[1] = 0
    while p.at < p.end:
        at = p.at
        status = mqtt_count_element(x, item, <int>order, at)
        if status != OK:
            return status
        identifier = at[0]
        used = 1
        if identifier & 0x80:
            used = read_varint(at, left(p), &identifier)
            if used == VARINT_SHORT:
                return mqtt_cut(x, p, MQTT_CHECK_PROPERTY_TRUNCATED, item, <int>order, <int64_t>left(p) + 1, by)
            status = (mqtt_violation(x, MQTT_CHECK_VARINT_TOO_LONG, item, <int>order, at) if used == VARINT_TOO_LONG else
                      mqtt_violation(x, MQTT_CHECK_VARINT_NOT_SHORTEST, item, <int>order, at) if at[used - 1] == 0 else OK)
            if status != OK:
                return status
        row = &mqtt_properties[identifier if identifier < MQTT_PROPERTY_TOP else 0]     # row 0 is not a property
        if row.type == 0:
            return mqtt_violation(x, MQTT_CHECK_PROPERTY_UNKNOWN, item, <int>order, at)
        field = row.field if packet else row.will_field
        nth = -1
        if identifier == MQTT_PROPERTY_USER_PROPERTY or identifier == MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER:
            nth = index[identifier == MQTT_PROPERTY_USER_PROPERTY]
            index[identifier == MQTT_PROPERTY_USER_PROPERTY] += 1
        if not row.packets >> packet & 1:
            status = mqtt_violation(x, MQTT_CHECK_PROPERTY_NOT_ALLOWED, field, nth, at)
            if status != OK:
                return status
        if seen[0] >> identifier & 1 and not row.repeats >> packet & 1:
            status = mqtt_violation(x, MQTT_CHECK_PROPERTY_TWICE, field, nth, at)
            if status != OK:
                return status
        seen[0] |= <uint64_t>1 << identifier
        p.at += used
        status = mqtt_take_property(x, p, packet, <int>identifier, row, field, nth, by)
        if status != OK:
            return status
        order += 1
    if packet:
        x.m.property_count = order
    else:
        x.m.will_property_count = order
    return mqtt_check_properties(x, packet, seen[0], p.end)


cdef inline int mqtt_take_property(MqttReader* x, Cursor* p, int packet, int identifier, const MqttPropertyRow* row,
                              int field, int nth, int by) noexcept nogil:
    """The value of one property, whose identifier has been read."""
    cdef const uint8_t* at = p.at
    cdef Span text
    cdef uint32_t value = 0
    cdef int used, status, type = row.type
    text.at = NULL
    text.size = 0
    if type == MQTT_STRING or type == MQTT_BINARY:
        status = mqtt_take_binary(x, p, field, nth, MQTT_CHECK_PROPERTY_TRUNCATED, by, &text)
        if status == OK and type == MQTT_STRING:
            status = mqtt_check_string(x, &text, field, nth, MQTT_CHECK_STRING_UTF8, MQTT_CHECK_STRING_NUL)
        if status == OK and row.rule == MQTT_RULE_TOPIC:
            status = mqtt_check_topic_name(x, &text, field, nth, MQTT_CHECK_TOPIC_EMPTY,
                                           MQTT_CHECK_RESPONSE_TOPIC_WILDCARD)
        return status
    if type == MQTT_PAIR:
        return mqtt_take_pair(x, p, packet, nth, by)
    if type == MQTT_VARINT:
        used = read_varint(at, left(p), &value)
        if used == VARINT_SHORT:
            return mqtt_cut(x, p, MQTT_CHECK_PROPERTY_TRUNCATED, field, nth, <int64_t>left(p) + 1, by)
        status = (mqtt_violation(x, MQTT_CHECK_VARINT_TOO_LONG, field, nth, at) if used == VARINT_TOO_LONG else
                  OK if used == 1 or at[used - 1] else
                  mqtt_violation(x, MQTT_CHECK_VARINT_NOT_SHORTEST, field, nth, at))
        if status != OK:
            return status
    else:
        used = 1 if type == MQTT_BYTE else 2 if type == MQTT_TWO else 4
        if left(p) < <size_t>used:
            return mqtt_cut(x, p, MQTT_CHECK_PROPERTY_TRUNCATED, field, nth, used, by)
        value = at[0] if used == 1 else load_u16(at) if used == 2 else load_u32(at)
    p.at += used
    if row.rule == MQTT_RULE_BOOLEAN and value > 1:
        return mqtt_violation(x, MQTT_CHECK_PROPERTY_BOOLEAN, field, nth, at)
    if row.rule == MQTT_RULE_NON_ZERO and value == 0:
        return mqtt_violation(x, MQTT_CHECK_TOPIC_ALIAS_ZERO if identifier == MQTT_PROPERTY_TOPIC_ALIAS
                      else MQTT_CHECK_PROPERTY_ZERO, field, nth, at)
    return OK


cdef inline int mqtt_take_pair(MqttReader* x, Cursor* p, int packet, int nth, int by) noexcept nogil:
    """A UTF-8 String Pair (5.0, 1.5.7)."""
    cdef Span text
    cdef int field = (MQTT_FIELD_PROPERTIES_USER_PROPERTY_NAME if packet else
                      MQTT_FIELD_WILL_PROPERTIES_USER_PROPERTY_NAME)
    cdef int half, status
    text.at = NULL
    text.size = 0
    for half in range(2):
        status = mqtt_take_binary(x, p, field + half, nth, MQTT_CHECK_PROPERTY_TRUNCATED, by, &text)
        if status == OK:
            status = mqtt_check_string(x, &text, field + half, nth,
                                MQTT_CHECK_USER_PROPERTY_UTF8, MQTT_CHECK_USER_PROPERTY_NUL)
        if status != OK:
            return status
    return OK


cdef inline int mqtt_check_properties(MqttReader* x, int packet, uint64_t seen, const uint8_t* at) noexcept nogil:
    """Rules on properties together, and on who sends them."""
    if packet == MQTT_CONNECT and seen >> MQTT_PROPERTY_AUTHENTICATION_DATA & 1 \
            and not seen >> MQTT_PROPERTY_AUTHENTICATION_METHOD & 1:
        return mqtt_violation(x, MQTT_CHECK_AUTHENTICATION_DATA_ALONE, MQTT_FIELD_PROPERTIES_AUTHENTICATION_DATA, -1, at)
    if packet == MQTT_PUBLISH and x.o.common.side == 0 and seen >> MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER & 1:
        return mqtt_violation(x, MQTT_CHECK_SUBSCRIPTION_IDENTIFIER_SENT,
                      MQTT_FIELD_PROPERTIES_SUBSCRIPTION_IDENTIFIER_ITEM, 0, at)
    if packet == MQTT_DISCONNECT and x.o.common.side == 1 and seen >> MQTT_PROPERTY_SESSION_EXPIRY_INTERVAL & 1:
        return mqtt_violation(x, MQTT_CHECK_SESSION_EXPIRY_SENT, MQTT_FIELD_PROPERTIES_SESSION_EXPIRY_INTERVAL, -1, at)
    return OK


# ------------------------------------------------------------------------------------------------ packets, in order

cdef int mqtt_read_connect(MqttReader* x) noexcept nogil:
    """3.1: protocol name, level, connect flags, keep alive, properties (5.0), then the payload."""
    cdef MqttPacketView* m = x.m
    cdef const uint8_t* flags_at
    cdef int status, qos
    status = mqtt_take_string(x, MQTT_FIELD_PROTOCOL_NAME, -1, MQTT_CHECK_STRING_NUL, &m.protocol_name)
    if status == OK:
        status = mqtt_take_level(x)
    flags_at = x.c.at
    if status == OK:
        status = mqtt_take_u8(x, MQTT_FIELD_CONNECT_FLAGS, &m.connect_flags)
    if status == OK:
        status = mqtt_check_connect_flags(x, flags_at)
    if status == OK:
        status = mqtt_take_u16(x, MQTT_FIELD_KEEP_ALIVE, &m.keep_alive)
    if status == OK and m.version == 5:
        status = mqtt_take_properties(x, MQTT_CONNECT, &m.properties, &m.properties_seen)
    if status == OK and left(&x.c) == 0:
        status = mqtt_violation(x, MQTT_CHECK_CLIENT_IDENTIFIER_MISSING, MQTT_FIELD_CLIENT_IDENTIFIER, -1, x.c.at)
    if status == OK:
        status = mqtt_take_string(x, MQTT_FIELD_CLIENT_IDENTIFIER, -1, MQTT_CHECK_STRING_NUL, &m.client_identifier)
    if status == OK and m.connect_flags & 0x04:
        status = mqtt_take_will(x)
    # 3.1, section 3.1: Remaining Length has precedence over the user name and password flags
    if status == OK and m.connect_flags & 0x80 and not (m.version == 3 and left(&x.c) == 0):
        if left(&x.c) == 0:
            return mqtt_violation(x, MQTT_CHECK_USER_NAME_MISSING, MQTT_FIELD_USER_NAME, -1, x.c.at)
        status = mqtt_take_string(x, MQTT_FIELD_USER_NAME, -1, MQTT_CHECK_STRING_NUL, &m.user_name)
    if status == OK and m.connect_flags & 0x40 and not (m.version == 3 and left(&x.c) == 0):
        if left(&x.c) == 0:
            return mqtt_violation(x, MQTT_CHECK_PASSWORD_MISSING, MQTT_FIELD_PASSWORD, -1, x.c.at)
        status = mqtt_take_binary(x, &x.c, MQTT_FIELD_PASSWORD, -1, MQTT_CHECK_FIELD_TRUNCATED,
                             MQTT_FIELD_REMAINING_LENGTH, &m.password)
    return status


cdef int mqtt_take_level(MqttReader* x) noexcept nogil:
    """Protocol Version, and whether the preceding name fits. The version decides how the rest is parsed."""
    cdef MqttPacketView* m = x.m
    cdef const uint8_t* at = x.c.at
    cdef const char* name
    cdef int status = mqtt_take_u8(x, MQTT_FIELD_PROTOCOL_VERSION, &m.protocol_level)
    cdef int level = m.protocol_level & 0x7F
    if status != OK:
        return status
    # check the name first: a packet with another name belongs to another protocol, whatever its level
    name = b"MQIsdp" if m.version == 3 else b"MQTT"
    if m.protocol_name.size != (6 if m.version == 3 else 4) or \
            memcmp(m.protocol_name.at, name, m.protocol_name.size) != 0:
        status = mqtt_violation(x, MQTT_CHECK_PROTOCOL_NAME, MQTT_FIELD_PROTOCOL_NAME, -1, m.protocol_name.at)
        if status != OK:
            return status
    if level < 3 or level > 5 or (x.o.only_version and level != x.o.version):
        return mqtt_violation(x, MQTT_CHECK_PROTOCOL_LEVEL, MQTT_FIELD_PROTOCOL_VERSION, -1, at)
    m.version = <uint8_t>level
    if m.protocol_level & 0x80:
        return mqtt_violation(x, MQTT_CHECK_BRIDGE, MQTT_FIELD_PROTOCOL_VERSION, -1, at)
    return OK


cdef int mqtt_check_connect_flags(MqttReader* x, const uint8_t* at) noexcept nogil:
    """bit 7 user name, 6 password, 5 Will Retain, 4-3 Will QoS, 2 Will Flag, 1 Clean Start, 0 reserved"""
    cdef uint8_t flags = x.m.connect_flags
    cdef int status = OK
    if flags & 0x01:
        status = mqtt_violation(x, MQTT_CHECK_CONNECT_FLAG_RESERVED, MQTT_FIELD_CONNECT_FLAGS, -1, at)
    if status == OK and flags & 0x04 and flags & 0x18 == 0x18:
        status = mqtt_violation(x, MQTT_CHECK_WILL_QOS, MQTT_FIELD_WILL_QOS, -1, at)
    if status == OK and not flags & 0x04 and flags & 0x18:
        status = mqtt_violation(x, MQTT_CHECK_WILL_QOS_ALONE, MQTT_FIELD_WILL_QOS, -1, at)
    if status == OK and not flags & 0x04 and flags & 0x20:
        status = mqtt_violation(x, MQTT_CHECK_WILL_RETAIN_ALONE, MQTT_FIELD_WILL_RETAIN, -1, at)
    if status == OK and flags & 0xC0 == 0x40:
        status = mqtt_violation(x, MQTT_CHECK_PASSWORD_ALONE, MQTT_FIELD_CONNECT_FLAGS, -1, at)
    return status


cdef int mqtt_take_will(MqttReader* x) noexcept nogil:
    cdef MqttPacketView* m = x.m
    cdef int status = OK
    if left(&x.c) == 0:
        return mqtt_violation(x, MQTT_CHECK_WILL_MISSING, MQTT_FIELD_WILL, -1, x.c.at)
    if m.version == 5:
        status = mqtt_take_properties(x, 0, &m.will_properties, &m.will_properties_seen)
    if status == OK:
        status = mqtt_take_string(x, MQTT_FIELD_WILL_TOPIC, -1, MQTT_CHECK_TOPIC_NUL, &m.will_topic)
    if status == OK:
        status = mqtt_check_topic_name(x, &m.will_topic, MQTT_FIELD_WILL_TOPIC, -1,
                            MQTT_CHECK_TOPIC_EMPTY, MQTT_CHECK_WILL_TOPIC_WILDCARD)
    if status == OK and left(&x.c) == 0:
        return mqtt_violation(x, MQTT_CHECK_WILL_MISSING, MQTT_FIELD_WILL_PAYLOAD, -1, x.c.at)
    if status == OK:
        status = mqtt_take_binary(x, &x.c, MQTT_FIELD_WILL_PAYLOAD, -1, MQTT_CHECK_FIELD_TRUNCATED,
                             MQTT_FIELD_REMAINING_LENGTH, &m.will_payload)
    return status


cdef int mqtt_read_connack(MqttReader* x) noexcept nogil:
    """3.2: acknowledge flags, code, properties (5.0)."""
    cdef MqttPacketView* m = x.m
    cdef const uint8_t* at = x.c.at
    cdef int code_field = MQTT_FIELD_REASON_CODE if m.version == 5 else MQTT_FIELD_RETURN_CODE
    cdef int status = mqtt_take_u8(x, MQTT_FIELD_ACKNOWLEDGE_FLAGS, &m.acknowledge_flags)
    if status == OK:
        status = mqtt_take_u8(x, code_field, &m.reason_code)
    if status != OK:
        return status
    m.has_reason_code = 1
    if m.acknowledge_flags & 0xFE:
        status = mqtt_violation(x, MQTT_CHECK_CONNACK_FLAGS, MQTT_FIELD_ACKNOWLEDGE_FLAGS, -1, at)
    if status == OK and not mqtt_is_code(m.version, MQTT_CONNACK, m.reason_code):
        status = mqtt_violation(x, MQTT_CHECK_CONNACK_CODE, code_field, -1, at + 1)
    if status == OK and m.acknowledge_flags & 1 and m.reason_code:
        status = mqtt_violation(x, MQTT_CHECK_SESSION_PRESENT_REFUSED, MQTT_FIELD_SESSION_PRESENT, -1, at)
    if status == OK and m.version == 5:
        status = mqtt_take_properties(x, MQTT_CONNACK, &m.properties, &m.properties_seen)
    return status


cdef inline int mqtt_read_publish(MqttReader* x) noexcept nogil:
    """3.3: topic name, packet identifier unless QoS is 0, properties (5.0); the rest is the payload."""
    cdef MqttPacketView* m = x.m
    cdef int status = OK
    cdef int qos = m.flags >> 1 & 3
    if qos == 3:
        status = mqtt_violation(x, MQTT_CHECK_PUBLISH_QOS, MQTT_FIELD_QOS, -1, m.frame)
    elif qos == 0 and m.flags & 8:
        status = mqtt_violation(x, MQTT_CHECK_PUBLISH_DUP, MQTT_FIELD_DUP, -1, m.frame)
    if status == OK:
        status = mqtt_take_string(x, MQTT_FIELD_TOPIC_NAME, -1, MQTT_CHECK_TOPIC_NUL, &m.topic)
    if status == OK and m.topic.size:
        status = mqtt_check_topic_name(x, &m.topic, MQTT_FIELD_TOPIC_NAME, -1,
                            MQTT_CHECK_TOPIC_NAME_EMPTY, MQTT_CHECK_TOPIC_NAME_WILDCARD)
    if status == OK and qos:
        status = mqtt_take_packet_identifier(x, MQTT_CHECK_PACKET_IDENTIFIER_ZERO_PUBLISH)
    if status == OK and m.version == 5:
        status = mqtt_take_properties(x, MQTT_PUBLISH, &m.properties, &m.properties_seen)
    if status == OK and m.topic.size == 0 and not m.properties_seen >> MQTT_PROPERTY_TOPIC_ALIAS & 1:
        status = mqtt_violation(x, MQTT_CHECK_TOPIC_NAME_EMPTY, MQTT_FIELD_TOPIC_NAME, -1, m.topic.at)
    if status == OK:
        read_span(&x.c, left(&x.c), &m.payload)
    return status


cdef inline bint mqtt_is_plain_publish(int flags, const uint8_t* topic, size_t topic_size,
                                       uint16_t packet_identifier) noexcept nogil:
    """Whether mqtt_read_publish certainly finds no fault with a PUBLISH, apart from properties. False: it must check."""
    cdef int qos = flags >> 1 & 3
    cdef size_t bad = 0
    if qos == 3 or (packet_identifier == 0 if qos else flags & 8 != 0):
        return False
    if topic_size and unmarked(topic, topic_size, True):        # ASCII without a zero, and no wildcard
        return True
    return check_topic_name(topic, topic_size, &bad) == TOPIC_OK and check_utf8(topic, topic_size, &bad) == UTF8_OK


cdef inline bint mqtt_is_plain_property(int packet, const MqttPropertyRow* row, int identifier, uint64_t seen) noexcept nogil:
    """Whether mqtt_read_properties finds no fault with a property of a packet that has those `seen` before it, apart from its
    value, nor mqtt_check_properties if the packet is a PUBLISH of an unknown sender."""
    return row.type != 0 and row.packets >> packet & 1 and (row.repeats >> packet & 1 or not seen >> identifier & 1)


cdef inline bint mqtt_is_plain_number(const MqttPropertyRow* row, uint32_t value) noexcept nogil:
    """Whether mqtt_take_property finds no fault with a number."""
    return not ((row.rule == MQTT_RULE_BOOLEAN and value > 1) or (row.rule == MQTT_RULE_NON_ZERO and value == 0))


cdef inline bint mqtt_is_plain_string(const MqttPropertyRow* row, const uint8_t* p, size_t size) noexcept nogil:
    """Whether mqtt_take_property finds no fault with a string. May be False for a valid string."""
    cdef size_t bad = 0
    if not is_plain_text(p, size):
        return False
    return row.rule != MQTT_RULE_TOPIC or check_topic_name(p, size, &bad) == TOPIC_OK


cdef int mqtt_read_acknowledgement(MqttReader* x) noexcept nogil:
    """3.4 to 3.7: packet identifier, then in 5.0 as mqtt_read_reason."""
    cdef int status = mqtt_take_packet_identifier(x, MQTT_CHECK_PACKET_IDENTIFIER_ZERO_ACK)
    return mqtt_read_reason(x) if status == OK else status


cdef int mqtt_read_reason(MqttReader* x) noexcept nogil:
    """Reason Code and properties of 5.0; each may be omitted if it is 0 or empty and nothing follows (3.4.2.1, 3.14.2.1)."""
    cdef MqttPacketView* m = x.m
    cdef int status, check
    if m.version < 5:
        return OK
    m.form = MQTT_FORM_SHORT
    m.has_reason_code = 1
    if left(&x.c) == 0:
        return OK           # for AUTH too: 3.15.2.1 says so, though 3.15.2.2.2 requires a method in every AUTH
    status = mqtt_take_u8(x, MQTT_FIELD_REASON_CODE, &m.reason_code)
    if status == OK and not mqtt_is_code(5, m.type, m.reason_code):
        check = (MQTT_CHECK_DISCONNECT_CODE if m.type == MQTT_DISCONNECT else
                 MQTT_CHECK_AUTH_CODE if m.type == MQTT_AUTH else
                 MQTT_CHECK_PUBACK_CODE + (m.type - MQTT_PUBACK))
        status = mqtt_violation(x, check, MQTT_FIELD_REASON_CODE, -1, x.c.at - 1)
    if status != OK:
        return status
    if left(&x.c) == 0:
        m.form = MQTT_FORM_REASON_ONLY
    else:
        m.form = MQTT_FORM_FULL
        status = mqtt_take_properties(x, m.type, &m.properties, &m.properties_seen)
    if status == OK and m.type == MQTT_AUTH and not m.properties_seen >> MQTT_PROPERTY_AUTHENTICATION_METHOD & 1:
        status = mqtt_violation(x, MQTT_CHECK_AUTHENTICATION_METHOD_MISSING,
                        MQTT_FIELD_PROPERTIES_AUTHENTICATION_METHOD, -1, x.c.at)
    return status


cdef int mqtt_read_subscribe(MqttReader* x) noexcept nogil:
    """3.8: packet identifier, properties (5.0), then topic filters, each with an octet of options."""
    cdef MqttPacketView* m = x.m
    cdef Span filter
    cdef int status = mqtt_take_packet_identifier(x, MQTT_CHECK_PACKET_IDENTIFIER_ZERO)
    cdef int i = 0
    if status == OK and m.version == 5:
        status = mqtt_take_properties(x, MQTT_SUBSCRIBE, &m.properties, &m.properties_seen)
    m.list.at = x.c.at
    m.list.size = <uint32_t>left(&x.c)
    while status == OK and x.c.at < x.c.end:
        status = mqtt_take_filter(x, MQTT_FIELD_SUBSCRIPTIONS_TOPIC_FILTER, i, &filter)
        if status == OK and left(&x.c) == 0:
            return mqtt_cut(x, &x.c, MQTT_CHECK_FIELD_TRUNCATED, MQTT_FIELD_SUBSCRIPTIONS_OPTIONS, i, 1,
                       MQTT_FIELD_REMAINING_LENGTH)
        if status == OK:
            status = mqtt_check_options(x, &filter, x.c.at[0], i)
            x.c.at += 1
        i += 1
    m.list_count = <uint32_t>i
    if status == OK and i == 0:
        status = mqtt_violation(x, MQTT_CHECK_SUBSCRIBE_EMPTY, MQTT_FIELD_SUBSCRIPTIONS, -1, x.c.at)
    return status


cdef int mqtt_check_options(MqttReader* x, const Span* filter, uint8_t options, int i) noexcept nogil:
    """5.0: bits 7-6 reserved, 5-4 Retain Handling, 3 Retain As Published, 2 No Local, 1-0 Maximum QoS.
    Before 5.0: bits 7-2 reserved, 1-0 Requested QoS."""
    cdef MqttPacketView* m = x.m
    cdef int status = OK
    if options & (0xC0 if m.version == 5 else 0xFC):
        status = mqtt_violation(x, MQTT_CHECK_OPTIONS_RESERVED, MQTT_FIELD_SUBSCRIPTIONS_OPTIONS, i, x.c.at)
    if status == OK and options & 3 == 3:
        status = mqtt_violation(x, MQTT_CHECK_OPTIONS_QOS, MQTT_FIELD_SUBSCRIPTIONS_OPTIONS, i, x.c.at)
    if m.version < 5 or status != OK:
        return status
    if options & 0x30 == 0x30:
        status = mqtt_violation(x, MQTT_CHECK_OPTIONS_RETAIN_HANDLING, MQTT_FIELD_SUBSCRIPTIONS_OPTIONS, i, x.c.at)
    if status == OK and options & 4 and is_shared(filter.at, filter.size, 5):
        status = mqtt_violation(x, MQTT_CHECK_OPTIONS_NO_LOCAL, MQTT_FIELD_SUBSCRIPTIONS_OPTIONS, i, x.c.at)
    return status


cdef int mqtt_take_filter(MqttReader* x, int field, int i, Span* filter) noexcept nogil:
    cdef int status = mqtt_count_element(x, field, i, x.c.at)
    if status == OK:
        status = mqtt_take_string(x, field, i, MQTT_CHECK_TOPIC_NUL, filter)
    return mqtt_check_topic_filter(x, filter, field, i) if status == OK else status


cdef int mqtt_read_suback(MqttReader* x) noexcept nogil:
    """3.9 and 3.11: packet identifier, properties (5.0), a code for each filter (UNSUBACK: 5.0 only)."""
    cdef MqttPacketView* m = x.m
    cdef int field = MQTT_FIELD_REASON_CODES_ITEM if m.version == 5 else MQTT_FIELD_RETURN_CODES_ITEM
    cdef int check = MQTT_CHECK_SUBACK_CODE if m.type == MQTT_SUBACK else MQTT_CHECK_UNSUBACK_CODE
    cdef int status = mqtt_take_packet_identifier(x, MQTT_CHECK_PACKET_IDENTIFIER_ZERO_SUBACK)
    cdef int i = 0
    if status == OK and m.version == 5:
        status = mqtt_take_properties(x, m.type, &m.properties, &m.properties_seen)
    if status != OK or (m.type == MQTT_UNSUBACK and m.version < 5):
        return status
    m.list.at = x.c.at
    m.list.size = <uint32_t>left(&x.c)
    while status == OK and x.c.at < x.c.end:
        status = mqtt_count_element(x, field, i, x.c.at)
        if status == OK and not mqtt_is_code(m.version, m.type, x.c.at[0]):
            status = mqtt_violation(x, check, field, i, x.c.at)
        x.c.at += 1
        i += 1
    m.list_count = <uint32_t>i
    if status == OK and i == 0:
        status = mqtt_violation(x, MQTT_CHECK_SUBACK_EMPTY if m.type == MQTT_SUBACK else MQTT_CHECK_UNSUBACK_EMPTY,
                        field - 1, -1, x.c.at)
    return status


cdef int mqtt_read_unsubscribe(MqttReader* x) noexcept nogil:
    """3.10: packet identifier, properties (5.0), topic filters."""
    cdef MqttPacketView* m = x.m
    cdef Span filter
    cdef int status = mqtt_take_packet_identifier(x, MQTT_CHECK_PACKET_IDENTIFIER_ZERO)
    cdef int i = 0
    if status == OK and m.version == 5:
        status = mqtt_take_properties(x, MQTT_UNSUBSCRIBE, &m.properties, &m.properties_seen)
    m.list.at = x.c.at
    m.list.size = <uint32_t>left(&x.c)
    while status == OK and x.c.at < x.c.end:
        status = mqtt_take_filter(x, MQTT_FIELD_TOPIC_FILTERS_ITEM, i, &filter)
        i += 1
    m.list_count = <uint32_t>i
    if status == OK and i == 0:
        status = mqtt_violation(x, MQTT_CHECK_UNSUBSCRIBE_EMPTY, MQTT_FIELD_TOPIC_FILTERS, -1, x.c.at)
    return status


# ------------------------------------------------------------------------------------------------ for faults.pxi

cdef const char* mqtt_spec_of(const Fault* f) noexcept nogil:
    """The statement or section that a fault violates."""
    cdef int version = f.version if 3 <= f.version <= 5 else 5
    cdef const char* spec = mqtt_check_spec[f.check][version - 3]
    cdef int identifier = mqtt_field_property[f.field]
    if spec[0] == c"{":                     # {section}: the section of the property in this packet, or in its will
        return mqtt_property_section[identifier][
            0 if f.field == mqtt_properties[identifier].will_field else f.kind]
    return spec


cdef int mqtt_reply_to(const Fault* f) noexcept nogil:
    """Reason Code (5.0) or Connect Return Code (before) to answer; -1: only close."""
    return mqtt_checks[f.check].return_code if 3 <= f.version < 5 else mqtt_checks[f.check].reply


cdef ProtocolTables MQTT_TABLES
MQTT_TABLES.name = "mqtt"
MQTT_TABLES.names = mqtt_check_name
MQTT_TABLES.text = mqtt_check_text
MQTT_TABLES.path = mqtt_field_path
MQTT_TABLES.spec_of = mqtt_spec_of
MQTT_TABLES.reply_to = mqtt_reply_to
