# The usual PUBLISH and acknowledgement: forms that can violate no rule, read in one pass. These functions can only accept;
# mqtt_parse reads every other packet from its start and finds every violation.
from wirefmt.mqtt.topics cimport is_plain_name

cdef enum:
    MQTT_USUAL_PROPERTIES = 16


cdef struct MqttUsual:              # spans of the octets
    uint8_t flags
    uint16_t packet_identifier      # if the QoS is not 0
    Span topic, payload, area       # area: the properties
    uint64_t seen                   # bit n: property n is there
    uint32_t property_count
    MqttProperty[MQTT_USUAL_PROPERTIES] properties


cdef inline size_t mqtt_read_usual(const uint8_t* p, size_t n, const MqttOptions* o, MqttUsual* out) noexcept nogil:
    """Read a PUBLISH. Returns its size; 0: mqtt_parse must decide."""
    cdef const uint8_t* at = p + 2
    cdef const uint8_t* end
    cdef size_t size
    cdef int qos
    if n < 5 or p[0] >> 4 != MQTT_PUBLISH or o.version == 0:
        return 0
    size = p[1]
    if size & 0x80:                             # at most two octets, the second not zero
        if p[2] & 0x80 or p[2] == 0:
            return 0
        size = (size & 0x7F) | <size_t>p[2] << 7
        at += 1
    size += <size_t>(at - p)
    end = p + size
    if size > n or end - at < 2 or (o.common.max_frame_size and size > o.common.max_frame_size):
        return 0
    out.flags = p[0] & 0x0F
    out.property_count = 0
    out.seen = 0
    out.topic.size = load_u16(at)
    out.topic.at = at + 2
    at += 2
    if end - at < out.topic.size or not is_plain_name(at, out.topic.size):
        return 0
    at += out.topic.size
    qos = out.flags >> 1 & 3
    if qos:
        if qos == 3 or end - at < 2:
            return 0
        out.packet_identifier = load_u16(at)
        if out.packet_identifier == 0:
            return 0
        at += 2
    elif out.flags & 8:
        return 0
    if o.version == 5:
        if at == end:
            return 0
        if at[0] == 0:
            at += 1
        else:
            at = mqtt_read_usual_properties(at, end, o, out)
            if at == NULL:
                return 0
    if out.topic.size == 0 and not out.seen >> MQTT_PROPERTY_TOPIC_ALIAS & 1:
        return 0
    out.payload.at = at
    out.payload.size = <uint32_t>(end - at)
    return size


cdef inline bint mqtt_usual_acknowledgement(const uint8_t* p, size_t n, int version) noexcept nogil:
    """Does p[:n] begin with an acknowledgement that ends after its packet identifier (four octets) and violates no rule?"""
    cdef int type
    if n < 4 or p[1] != 2 or version == 0:
        return False
    type = p[0] >> 4
    return MQTT_PUBACK <= type <= MQTT_PUBCOMP and p[0] & 0x0F == mqtt_packets[type].flags and load_u16(p + 2) != 0


cdef bint mqtt_view_usual(const uint8_t* p, size_t n, const MqttOptions* o, MqttPacketView* out) noexcept nogil:
    """What mqtt_parse reads of a usual PUBLISH or acknowledgement. p[:n]: a whole packet. False: mqtt_parse must decide."""
    cdef MqttUsual m
    if n == 4 and mqtt_usual_acknowledgement(p, n, o.version):
        clear_octets(out, sizeof(MqttPacketView))
        out.packet_identifier = load_u16(p + 2)
        out.has_packet_identifier = 1
        out.has_reason_code = o.version == 5            # it is omitted: 0
        out.form = MQTT_FORM_SHORT if o.version == 5 else out.form
    elif mqtt_read_usual(p, n, o, &m) == n:
        clear_octets(out, sizeof(MqttPacketView))
        out.topic = m.topic
        out.payload = m.payload
        if m.flags & 6:
            out.packet_identifier = m.packet_identifier
            out.has_packet_identifier = 1
        if m.property_count:
            out.properties = m.area
            out.properties_seen = m.seen
            out.property_count = m.property_count
    else:
        return False
    out.frame = p
    out.size = <uint32_t>n
    out.version = o.version
    out.type = p[0] >> 4
    out.flags = p[0] & 0x0F
    return True


cdef inline const uint8_t* mqtt_read_usual_properties(const uint8_t* at, const uint8_t* end, const MqttOptions* o,
                                                      MqttUsual* out) noexcept nogil:
    """Property Length, which is not 0, and the properties. Returns where the payload begins; NULL: mqtt_parse must decide."""
    cdef const MqttPropertyRow* row
    cdef MqttProperty* v
    cdef uint64_t seen = 0
    cdef uint32_t count = 0, size = at[0]
    at += 1
    if size & 0x80:
        if at == end or at[0] & 0x80 or at[0] == 0:
            return NULL
        size = (size & 0x7F) | <uint32_t>at[0] << 7
        at += 1
    if end - at < size:
        return NULL
    end = at + size
    out.area.at = at
    out.area.size = size
    while at < end:
        row = &mqtt_properties[at[0] if at[0] < MQTT_PROPERTY_TOP else 0]
        if count == MQTT_USUAL_PROPERTIES or not mqtt_is_plain_property(MQTT_PUBLISH, row, at[0], seen):
            return NULL
        v = &out.properties[count]
        v.identifier = at[0]
        seen |= <uint64_t>1 << v.identifier
        at = mqtt_read_usual_value(at + 1, end, row, v)
        if at == NULL:
            return NULL
        count += 1
    if o.common.max_elements and count > o.common.max_elements:
        return NULL
    if o.common.side == 0 and seen >> MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER & 1:
        return NULL
    out.property_count = count
    out.seen = seen
    return end


cdef inline const uint8_t* mqtt_read_usual_value(const uint8_t* at, const uint8_t* end, const MqttPropertyRow* row,
                                                 MqttProperty* v) noexcept nogil:
    """The value of one property. Returns where the next one begins; NULL: mqtt_parse must decide."""
    cdef int used
    v.value.at = NULL
    if row.type == MQTT_PAIR:
        at = mqtt_read_usual_text(at, end, row, &v.name)
        return mqtt_read_usual_text(at, end, row, &v.value) if at != NULL else NULL
    if row.type == MQTT_STRING or row.type == MQTT_BINARY:
        return mqtt_read_usual_text(at, end, row, &v.value)
    if row.type == MQTT_VARINT:
        used = read_varint(at, <size_t>(end - at), &v.number)
        if used <= 0 or (used > 1 and at[used - 1] == 0):
            return NULL
    else:
        used = 1 if row.type == MQTT_BYTE else 2 if row.type == MQTT_TWO else 4
        if end - at < used:
            return NULL
        v.number = at[0] if used == 1 else load_u16(at) if used == 2 else load_u32(at)
    return at + used if mqtt_is_plain_number(row, v.number) else NULL


cdef inline const uint8_t* mqtt_read_usual_text(const uint8_t* at, const uint8_t* end, const MqttPropertyRow* row,
                                                Span* out) noexcept nogil:
    """A string or binary with its length. Returns what follows; NULL: mqtt_parse must decide."""
    cdef size_t size
    if end - at < 2:
        return NULL
    size = load_u16(at)
    at += 2
    if <size_t>(end - at) < size:
        return NULL
    if row.rule == MQTT_RULE_TOPIC:
        if size == 0 or not is_plain_name(at, size):
            return NULL
    elif row.type != MQTT_BINARY and not is_plain_text(at, size):
        return NULL
    out.at = at
    out.size = <uint32_t>size
    return at + size
