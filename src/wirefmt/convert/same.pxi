# Messages for their own protocol: written again as RabbitMQ does, without what concerns one connection only.

cdef int convert_same_10(Converter* x, const uint8_t* p, size_t n) noexcept nogil:
    """Write header and annotations again; keep the bare message and the footer. `x.anew`: also write properties again."""
    cdef Amqp10Options options
    cdef Amqp10MessageView m
    cdef Amqp10Section section
    cdef ConvertValue v
    cdef const uint8_t* at = p
    cdef const uint8_t* start
    cdef int status
    memset(&options, 0, sizeof(options))
    convert_give(x, BUFFER_OCTETS, p, n)
    if amqp10_parse_message(p, n, &options, &m, &x.fault) != OK:
        return CONVERT_UNDECODABLE
    status = convert_check_sections(x, &m)
    if status != OK:
        return status
    memset(&v, 0, sizeof(v))
    v.type = CONVERT_ABSENT                     # unselected sections have been noted
    while at < p + n:
        start = at
        amqp10_next_section(&at, p + n, &section)
        if section.code < AMQP10_SECTION_DATA and x.anew:
            if section.code >= AMQP10_SECTION_PROPERTIES:
                convert_set_section(x, &section, NULL, &v)
        elif section.code > AMQP10_SECTION_MESSAGE_ANNOTATIONS:
            x.payload.at = start
            x.payload.size = <uint32_t>(p + n - start)
            break
    if m.header.shape:
        convert_keep_header(x, &m.header)
    start = m.at[AMQP10_SECTION_DELIVERY_ANNOTATIONS - AMQP10_SECTION_FIRST]
    if start != NULL:
        convert_leave_section(x, AMQP10_SECTION_DELIVERY_ANNOTATIONS, start)
    start = m.at[AMQP10_SECTION_MESSAGE_ANNOTATIONS - AMQP10_SECTION_FIRST]
    if start != NULL:
        convert_keep_annotations(x, start)
    return OK


cdef void convert_keep_header(Converter* x, const Amqp10CompositeView* header) noexcept nogil:
    """The fields of a header, unchanged."""
    cdef Amqp10ValueView field
    cdef ConvertValue v
    cdef int i
    convert_plain(&v)
    x.has_header = not x.stored
    for i in range(5):
        if convert_is_stored(x, i) or not amqp10_field(header, i, &field):
            continue
        convert_of_amqp10(&field, &v)
        x.field = <uint8_t>(C10_DURABLE + i)
        if AMQP10_BOOLEAN <= field.type <= AMQP10_ULONG:
            convert_fill(x, C10_DURABLE + i, field.type, v.octets, v.number, NULL, &v)
        else:
            convert_note(x, NULL, x.field, &v, CONVERT_DROPPED, REASON_INVALID)


cdef void convert_keep_annotations(Converter* x, const uint8_t* at) noexcept nogil:
    """The message's annotations, unchanged, after the broker's; those with keys of the broker are removed."""
    cdef Amqp10Items items
    cdef Amqp10ValueView section, key, value
    cdef ConvertValue v
    cdef Span name
    cdef size_t begin
    amqp10_read(at, &section)
    items = amqp10_items(&section)
    while amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        convert_of_amqp10(&value, &v)
        v.key = convert_key_octets(&key)
        name = amqp10_octets(&key)
        if x.broker and convert_has_key(x, &name):
            convert_note(x, NULL, C10_MESSAGE_ANNOTATIONS, &v, CONVERT_DROPPED, REASON_REPLACED)
            continue
        begin = x.lists[0].size
        convert_rewrite(x, &x.lists[0], &key)
        convert_rewrite(x, &x.lists[0], &value)
        convert_keep(x, 0, begin, NULL, C10_MESSAGE_ANNOTATIONS, &v)


cdef int convert_same_091(Converter* x, const uint8_t* p, size_t n, Span body) noexcept nogil:
    """Remove the header BCC."""
    cdef Amqp091Options o
    cdef Amqp091PropertiesView m
    cdef ConvertValue v
    cdef Cursor c
    cdef Amqp091Entry e
    cdef const uint8_t* at
    cdef size_t begin
    cdef int i
    memset(&o, 0, sizeof(o))
    convert_give(x, BUFFER_OCTETS, p, n)
    convert_plain(&v)
    if amqp091_parse_properties(p, n, &o, &m, &x.fault) != OK:
        return CONVERT_UNDECODABLE
    for i in range(AMQP091_PROPERTY_COUNT):
        at = amqp091_property(&m, i)
        if at != NULL and i != AMQP091_PROPERTY_HEADERS:
            convert_of_property(at, i, &v)
            if convert_admit(x, C91_CONTENT_TYPE + i, &v) != OK:
                return CONVERT_REFUSED
            x.field = <uint8_t>(C91_CONTENT_TYPE + i)
            convert_fill(x, C91_CONTENT_TYPE + i, v.type, v.octets, v.number, NULL, &v)
    at = amqp091_property(&m, AMQP091_PROPERTY_HEADERS)
    if at != NULL:
        x.headers = True
        c = amqp091_entries(at)
        while amqp091_next_entry(&c, True, &e):
            convert_of_entry(&e, &v)
            v.key = e.name
            if e.name.size == 3 and memcmp(e.name.at, b"BCC", 3) == 0:
                convert_note(x, NULL, C91_HEADERS, &v, CONVERT_DROPPED, REASON_WITHHELD)
                continue
            begin = x.lists[0].size
            amqp091_add_name(&x.lists[0], e.name.at, <uint8_t>e.name.size)
            convert_rewrite_entry(&x.lists[0], &e)
            convert_keep(x, 0, begin, NULL, C91_HEADERS, &v)
    x.payload = body
    return OK


cdef int convert_same_5(Converter* x, const uint8_t* p, size_t n) noexcept nogil:
    """Remove DUP, Topic Alias and Subscription Identifiers, which concern one connection; QoS 2 becomes 1."""
    cdef MqttPacketView m
    cdef ConvertPairs pairs
    cdef ConvertValue v
    cdef Span values[MQTT_PROPERTY_TOP]
    cdef uint32_t i
    cdef int identifier, field
    cdef int status = convert_parse_publish(x, p, n, &m)
    if status != OK:
        return status
    memset(values, 0, sizeof(values))
    convert_plain(&v)
    if not convert_collect(x, &m.properties, m.property_count, values, &pairs):
        return CONVERT_REFUSED
    for i in range(8):
        identifier = convert_publish_properties[i]
        if values[identifier].at == NULL:
            continue
        field = C5_PAYLOAD_FORMAT_INDICATOR + <int>i
        x.field = <uint8_t>field
        convert_of_mqtt(identifier, values[identifier], &v)
        if convert_admit(x, field, &v) != OK:
            return CONVERT_REFUSED
        if identifier == MQTT_PROPERTY_TOPIC_ALIAS or identifier == MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER:
            convert_note(x, NULL, field, &v, CONVERT_DROPPED, REASON_WITHHELD)
        else:
            convert_fill(x, field, v.type, v.octets, v.number, NULL, &v)
    for i in range(pairs.count):
        add_u8(&x.lists[0], MQTT_PROPERTY_USER_PROPERTY)
        add_octets(&x.lists[0], pairs.keys[i].at - 2, <size_t>pairs.keys[i].size + 2)
        add_octets(&x.lists[0], pairs.values[i].at - 2, <size_t>pairs.values[i].size + 2)
    convert_keep_flags(x, &m)
    x.payload = m.payload
    return OK


cdef void convert_keep_flags(Converter* x, const MqttPacketView* m) noexcept nogil:
    cdef ConvertValue v
    cdef int qos = m.flags >> 1 & 3
    convert_plain(&v)
    v.type = C5T_BITS
    v.octets.at = m.frame
    v.octets.size = 1
    if m.flags & 8:
        convert_note(x, NULL, C5_DUP, &v, CONVERT_DROPPED, REASON_WITHHELD)
    x.field = C5_QOS
    convert_fill(x, C5_QOS, C5T_BITS, v.octets, <uint64_t>min(qos, 1), NULL, &v)
    if qos > 1:
        convert_report(x, NULL, &v, CONVERT_NARROWED, REASON_VALUE)
    if m.flags & 1:
        x.field = C5_RETAIN
        convert_fill(x, C5_RETAIN, C5T_BITS, v.octets, 1, NULL, &v)
