# MQTT packets -> the column `detail`. detail.py lists the fields and their order.
from wirefmt.mqtt.detail import KINDS as MQTT_DETAIL_ROWS
from wirefmt.mqtt.spec import CONNACK_RETURN_CODES, REASON_CODES, SUBACK_RETURN_CODES


cdef enum MqttDetail:               # fields that are not properties; a property is numbered by its identifier
    MQTT_DETAIL_CLIENT_ID = 64
    MQTT_DETAIL_VERSION
    MQTT_DETAIL_KEEP_ALIVE
    MQTT_DETAIL_CLEAN_START
    MQTT_DETAIL_WILL
    MQTT_DETAIL_WILL_QOS
    MQTT_DETAIL_WILL_RETAIN
    MQTT_DETAIL_WILL_SIZE
    MQTT_DETAIL_SESSION_PRESENT
    MQTT_DETAIL_REASON
    MQTT_DETAIL_TOPIC
    MQTT_DETAIL_QOS
    MQTT_DETAIL_RETAIN
    MQTT_DETAIL_DUP
    MQTT_DETAIL_ID
    MQTT_DETAIL_SIZE
    MQTT_DETAIL_FILTERS
    MQTT_DETAIL_CODES


cdef enum:
    MQTT_CODE_NAMES = 192           # at least the number of fields


cdef struct MqttCodeName:
    uint8_t type, code
    uint8_t versions                # bit n: version n
    Text name


cdef DetailForm[16] MQTT_DETAIL_FORM        # by packet type
cdef MqttCodeName[MQTT_CODE_NAMES] MQTT_CODE_NAME
cdef int mqtt_code_names = 0


cdef int mqtt_add_code(str packet, int code, int versions, str name) except -1:
    global mqtt_code_names
    cdef MqttCodeName* row
    if mqtt_code_names >= MQTT_CODE_NAMES:
        raise IndexError("MQTT_CODE_NAMES is too small")
    row = &MQTT_CODE_NAME[mqtt_code_names]
    row.type = <uint8_t>[mqtt_packet_name[i].decode("ascii") for i in range(16)].index(packet)
    row.code = <uint8_t>code
    row.versions = <uint8_t>versions
    row.name = pad_text(name.encode())
    mqtt_code_names += 1
    return 0


cdef int fill_mqtt_detail() except -1:
    cdef int i
    cdef dict fields = {row.name: row.identifier for row in MQTT_PROPERTY_ROWS}
    del fields["authentication_data"]
    fields |= {
        "client_id": MQTT_DETAIL_CLIENT_ID, "version": MQTT_DETAIL_VERSION, "keep_alive": MQTT_DETAIL_KEEP_ALIVE,
        "clean_start": MQTT_DETAIL_CLEAN_START, "will": MQTT_DETAIL_WILL, "will_qos": MQTT_DETAIL_WILL_QOS,
        "will_retain": MQTT_DETAIL_WILL_RETAIN, "will_size": MQTT_DETAIL_WILL_SIZE,
        "session_present": MQTT_DETAIL_SESSION_PRESENT, "reason": MQTT_DETAIL_REASON, "topic": MQTT_DETAIL_TOPIC,
        "qos": MQTT_DETAIL_QOS, "retain": MQTT_DETAIL_RETAIN, "dup": MQTT_DETAIL_DUP, "id": MQTT_DETAIL_ID,
        "size": MQTT_DETAIL_SIZE, "filters": MQTT_DETAIL_FILTERS, "codes": MQTT_DETAIL_CODES,
        "user_properties": MQTT_PROPERTY_USER_PROPERTY,
    }
    for i in range(1, 16):
        detail_form(MQTT_DETAIL_ROWS[mqtt_packet_name[i].decode("ascii")], fields, &MQTT_DETAIL_FORM[i])
    for row in REASON_CODES:
        for packet in row.packets:
            mqtt_add_code(packet, row.code, 1 << 5, row.name)
    for code, name in CONNACK_RETURN_CODES.items():
        mqtt_add_code("CONNACK", code, 1 << 3 | 1 << 4, name)
    for version, names in SUBACK_RETURN_CODES.items():
        for code, name in names.items():
            mqtt_add_code("SUBACK", code, 1 << version, name)
    return 0


fill_mqtt_detail()


cdef void mqtt_line_code(DetailLine* l, const MqttPacketView* p, uint8_t code) noexcept nogil:
    """A reason or return code by name; the number follows the name of a failure, or stands alone if the code has no name."""
    cdef char[8] number
    cdef int i
    snprintf(number, sizeof(number), "0x%02x", <unsigned int>code)
    for i in range(mqtt_code_names):
        if MQTT_CODE_NAME[i].type == p.type and MQTT_CODE_NAME[i].code == code and \
                MQTT_CODE_NAME[i].versions >> p.version & 1:
            line_ascii(l, MQTT_CODE_NAME[i].name.at, MQTT_CODE_NAME[i].name.size)
            if code >= MQTT_FAILURE or (code and p.type == MQTT_CONNACK):
                line_words(l, b" (")
                line_words(l, number)
                line_words(l, b")")
            return
    line_words(l, number)


cdef void mqtt_line_list(DetailLine* l, const MqttPacketView* p) noexcept nogil:
    """Topic filters, for SUBSCRIBE with their options; or the codes of SUBACK and UNSUBACK."""
    cdef const uint8_t* c = p.list.at
    cdef Span filter
    cdef uint32_t i
    for i in range(p.list_count):
        if l.cut:
            return
        if i:
            line_words(l, b", ")
        if p.type == MQTT_SUBACK or p.type == MQTT_UNSUBACK:
            mqtt_line_code(l, p, c[i])
            continue
        filter = span_of(c + 2, load_u16(c))
        line_string(l, &filter, LINE_VALUE)
        c += 2 + filter.size
        if p.type == MQTT_SUBSCRIBE:
            mqtt_line_options(l, p, c[0])
            c += 1


cdef void mqtt_line_options(DetailLine* l, const MqttPacketView* p, uint8_t options) noexcept nogil:
    """Subscription Options (5.0, 3.8.3.1): the requested QoS, and the options of 5.0 that are set."""
    line_words(l, b" qos=")
    line_digits(l, False, options & 3)
    if p.version < 5:
        return
    if options & 4:
        line_words(l, b" no_local")
    if options & 8:
        line_words(l, b" retain_as_published")
    if options >> 4 & 3:
        line_words(l, b" retain_handling=")
        line_digits(l, False, options >> 4 & 3)


cdef void mqtt_line_property(DetailLine* l, const DetailField* f, const MqttProperty* v) noexcept nogil:
    """A property's first value; for User Properties their number, since only their receivers know their meaning."""
    cdef int type = mqtt_properties[v.identifier].type
    if v.identifier == MQTT_PROPERTY_USER_PROPERTY:
        line_number(l, f, False, v.number)
    elif v.identifier == MQTT_PROPERTY_REASON_STRING:
        line_prose(l, f, &v.value)
    elif type == MQTT_BINARY:
        line_binary(l, f, &v.value)
    elif v.value.at != NULL:
        line_text(l, f, &v.value)
    else:
        line_number(l, f, False, v.number)


cdef void mqtt_line_topic(DetailLine* l, const DetailField* f, const MqttPacketView* p, const MqttFlow* flow,
                          int direction, const MqttProperty* alias) noexcept nogil:
    """The topic; if the packet has none, the topic of its Topic Alias, if known."""
    cdef const MqttAlias* known
    cdef Span topic = p.topic
    if topic.size == 0 and alias.identifier:
        known = find_alias(&flow.aliases[direction], alias.number)
        if known == NULL or known.size == 0:
            return
        topic = span_of(known.topic, known.size)
    line_text(l, f, &topic)


cdef void mqtt_line_field(DetailLine* l, const DetailField* f, const MqttPacketView* p) noexcept nogil:
    """A field that is not a property."""
    cdef bint will = p.connect_flags & 4
    if f.what == MQTT_DETAIL_CLIENT_ID:
        line_text(l, f, &p.client_identifier)
    elif f.what == MQTT_DETAIL_VERSION:
        line_name(l, f, &MQTT_VERSION_TEXT[p.version])
    elif f.what == MQTT_DETAIL_KEEP_ALIVE:
        line_number(l, f, False, p.keep_alive)
    elif f.what == MQTT_DETAIL_CLEAN_START:
        line_flag(l, f, p.connect_flags & 2)
    elif f.what == MQTT_DETAIL_WILL and will:
        line_text(l, f, &p.will_topic)
    elif f.what == MQTT_DETAIL_WILL_QOS and will:
        line_number(l, f, False, p.connect_flags >> 3 & 3)
    elif f.what == MQTT_DETAIL_WILL_RETAIN and will:
        line_flag(l, f, p.connect_flags & 0x20)
    elif f.what == MQTT_DETAIL_WILL_SIZE and will:
        line_number(l, f, False, p.will_payload.size)
    elif f.what == MQTT_DETAIL_SESSION_PRESENT:
        line_flag(l, f, p.version >= 4 and p.acknowledge_flags & 1)
    elif f.what == MQTT_DETAIL_REASON and p.has_reason_code:
        line_field(l, f)
        mqtt_line_code(l, p, p.reason_code)
    elif f.what == MQTT_DETAIL_QOS:
        line_number(l, f, False, p.flags >> 1 & 3)
    elif f.what == MQTT_DETAIL_RETAIN:
        line_flag(l, f, p.flags & 1)
    elif f.what == MQTT_DETAIL_DUP:
        line_flag(l, f, has_dup(p.type, p.version) and p.flags & 8)
    elif f.what == MQTT_DETAIL_ID and p.has_packet_identifier:
        line_number(l, f, False, p.packet_identifier)
    elif f.what == MQTT_DETAIL_SIZE:
        line_number(l, f, False, p.payload.size)
    elif (f.what == MQTT_DETAIL_FILTERS or f.what == MQTT_DETAIL_CODES) and p.list_count:
        line_field(l, f)
        mqtt_line_list(l, p)


cdef void mqtt_put_detail(MessageTable t, int64_t row, const MqttPacketView* p, const MqttFlow* flow,
                          int direction) noexcept nogil:
    cdef MqttProperty[MQTT_PROPERTY_TOP] properties     # by identifier; 0 there: absent
    cdef const DetailForm* form = &MQTT_DETAIL_FORM[p.type]
    cdef const DetailField* f
    cdef const uint8_t* at = p.properties.at
    cdef const uint8_t* end = at + p.properties.size
    cdef MqttProperty v
    cdef uint32_t pairs = 0
    cdef DetailLine l
    cdef int i
    for i in range(MQTT_PROPERTY_TOP):
        properties[i].identifier = 0
    while at < end:
        at = mqtt_next_property(at, &v)
        if v.identifier == MQTT_PROPERTY_USER_PROPERTY:
            pairs += 1
            v.number = pairs
        elif properties[v.identifier].identifier:
            continue
        properties[v.identifier] = v
    line_begin(&l)
    for i in range(form.first, form.first + form.count):
        f = &DETAIL_FIELD[i]
        if f.what == MQTT_DETAIL_TOPIC:
            mqtt_line_topic(&l, f, p, flow, direction, &properties[<int>MQTT_PROPERTY_TOPIC_ALIAS])
        elif f.what >= MQTT_PROPERTY_TOP:
            mqtt_line_field(&l, f, p)
        elif properties[f.what].identifier:
            mqtt_line_property(&l, f, &properties[f.what])
    put_line(t, row, &l)
