# The fast path of MQTT: PUBLISH and acknowledgements of forms that can violate no rule are read in one pass. These functions can
# only accept; mqtt_parse reads every other packet from its start and finds every violation.
cdef enum:
    MQTT_FAST_PROPERTIES = 16


cdef enum MqttFastKind:
    MQTT_FAST_NUMBER = 1
    MQTT_FAST_TEXT = 2
    MQTT_FAST_TOPIC = 4
    MQTT_FAST_OCTETS = 8
    MQTT_FAST_PAIR = 16            # of texts
    MQTT_FAST_REPEATS = 32         # it may repeat


cdef struct MqttFastView:              # spans of the octets
    uint8_t flags
    uint16_t packet_identifier      # if the QoS is not 0
    Span topic, payload, area       # area: the properties
    uint64_t seen                   # bit n: property n is there
    uint32_t property_count
    MqttProperty[MQTT_FAST_PROPERTIES] properties


cdef uint8_t[256] MQTT_FAST_KINDS      # by identifier, of a PUBLISH: bits of MqttFastKind; 0: no such property


cdef int fill_mqtt_fast() except -1:
    cdef const MqttPropertyRow* row
    cdef int i
    for i in range(MQTT_PROPERTY_TOP):
        row = &mqtt_properties[i]
        if not mqtt_is_plain_property(MQTT_PUBLISH, row, i, 0):
            continue
        MQTT_FAST_KINDS[i] = (MQTT_FAST_PAIR if row.type == MQTT_PAIR else MQTT_FAST_OCTETS if row.type == MQTT_BINARY else
                              MQTT_FAST_NUMBER if row.type != MQTT_STRING else
                              MQTT_FAST_TOPIC if row.rule == MQTT_RULE_TOPIC else MQTT_FAST_TEXT)
        if mqtt_is_plain_property(MQTT_PUBLISH, row, i, <uint64_t>1 << i):
            MQTT_FAST_KINDS[i] |= MQTT_FAST_REPEATS
    return 0


fill_mqtt_fast()


cdef inline size_t mqtt_read_fast(const uint8_t* p, size_t n, const MqttOptions* o, MqttFastView* out) noexcept nogil:
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
    if end - at < out.topic.size or not unmarked_before(at, out.topic.size, end, True):
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
            at = mqtt_read_fast_properties(at, end, o, out)
            if at == NULL:
                return 0
    if out.topic.size == 0 and not out.seen >> MQTT_PROPERTY_TOPIC_ALIAS & 1:
        return 0
    out.payload.at = at
    out.payload.size = <uint32_t>(end - at)
    return size


cdef inline bint mqtt_fast_acknowledgement(const uint8_t* p, size_t n, int version) noexcept nogil:
    """Does p[:n] begin with an acknowledgement that ends after its packet identifier (four octets) and violates no rule?"""
    cdef int type
    if n < 4 or p[1] != 2 or version == 0:
        return False
    type = p[0] >> 4
    return MQTT_PUBACK <= type <= MQTT_PUBCOMP and p[0] & 0x0F == mqtt_packets[type].flags and load_u16(p + 2) != 0


cdef bint mqtt_view_fast(const uint8_t* p, size_t n, const MqttOptions* o, MqttPacketView* out) noexcept nogil:
    """Read PUBLISH or acknowledgement p[:n], a whole packet, into the view of mqtt_parse. False: mqtt_parse must decide."""
    cdef MqttFastView m
    if n == 4 and mqtt_fast_acknowledgement(p, n, o.version):
        memset(out, 0, sizeof(MqttPacketView))
        out.packet_identifier = load_u16(p + 2)
        out.has_packet_identifier = 1
        out.has_reason_code = o.version == 5            # it is omitted: 0
        out.form = MQTT_FORM_SHORT if o.version == 5 else out.form
    elif mqtt_read_fast(p, n, o, &m) == n:
        memset(out, 0, sizeof(MqttPacketView))
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


cdef inline const uint8_t* mqtt_read_fast_properties(const uint8_t* at, const uint8_t* last, const MqttOptions* o,
                                                     MqttFastView* out) noexcept nogil:
    """Property Length, which is not 0, and the properties of a packet that ends at `last`. Returns where the payload begins;
    NULL: mqtt_parse must decide."""
    cdef const uint8_t* end
    cdef MqttProperty* v = out.properties
    cdef Span* text
    cdef uint64_t seen = 0
    cdef uint32_t count = 0, size = at[0]
    cdef uint8_t kind
    at += 1
    if size & 0x80:
        if at == last or at[0] & 0x80 or at[0] == 0:
            return NULL
        size = (size & 0x7F) | <uint32_t>at[0] << 7
        at += 1
    if last - at < size:
        return NULL
    end = at + size
    out.area.at = at
    out.area.size = size
    while at < end:
        kind = MQTT_FAST_KINDS[at[0]]
        if kind == 0 or count == MQTT_FAST_PROPERTIES or (seen >> (at[0] & 63) & 1 and not kind & MQTT_FAST_REPEATS):
            return NULL
        seen |= <uint64_t>1 << (at[0] & 63)
        v.identifier = at[0]
        at += 1
        if kind & MQTT_FAST_NUMBER:
            at = mqtt_read_fast_number(at, end, v)
            if at == NULL:
                return NULL
        else:
            text = &v.name if kind & MQTT_FAST_PAIR else &v.value
            while True:
                if end - at < 2:
                    return NULL
                size = load_u16(at)
                at += 2
                if end - at < size or (size == 0 and kind & MQTT_FAST_TOPIC) or \
                        (not kind & MQTT_FAST_OCTETS and not unmarked_before(at, size, last, kind & MQTT_FAST_TOPIC)):
                    return NULL
                text.at = at
                text.size = size
                at += size
                if text == &v.value:
                    break
                text = &v.value
        count += 1
        v += 1
    if o.common.max_elements and count > o.common.max_elements:
        return NULL
    if o.common.side == 0 and seen >> MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER & 1:
        return NULL
    out.property_count = count
    out.seen = seen
    return end


cdef inline const uint8_t* mqtt_read_fast_number(const uint8_t* at, const uint8_t* end, MqttProperty* v) noexcept nogil:
    """The value of a property that is a number. Returns where the next one begins; NULL: mqtt_parse must decide."""
    cdef const MqttPropertyRow* row = &mqtt_properties[v.identifier]
    cdef int used
    v.value.at = NULL
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
