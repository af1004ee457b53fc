# Readers of conversions: the codec of each protocol checks a message; a reader passes it to the rules field by field.
#
# The order of fields matters to the result: correlation_id comes before message_id, annotations before properties, and values
# that become headers before the headers themselves, because RabbitMQ writes them in this order.


cdef enum:
    CONVERT_SECTIONS_MAX = 10000


cdef inline int convert_absent(Converter* x, int field) noexcept nogil:
    """An absent field, for rows with a default."""
    cdef ConvertValue v
    if x.pair.first[field][CONVERT_ABSENT] == 0:
        return OK
    memset(&v, 0, sizeof(v))
    v.type = CONVERT_ABSENT
    return convert_take(x, field, &v)


cdef inline int convert_refuse(Converter* x, int why) noexcept nogil:
    x.refused = <uint8_t>why
    return CONVERT_REFUSED


# ------------------------------------------------------------------------------------------------ AMQP 1.0

cdef int convert_read_amqp10(Converter* x, const uint8_t* p, size_t n) noexcept nogil:
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef int status
    memset(&o, 0, sizeof(o))
    convert_give(x, BUFFER_OCTETS, p, n)
    status = amqp10_parse_message(p, n, &o, &m, &x.fault)
    if status != OK:
        return CONVERT_UNDECODABLE
    status = convert_check_sections(x, &m)
    if status == OK:
        status = convert_take_header(x, &m)
    if status == OK:
        status = convert_take_entries(x, &m, AMQP10_SECTION_DELIVERY_ANNOTATIONS, C10_DELIVERY_ANNOTATIONS)
    if status == OK:
        status = convert_take_entries(x, &m, AMQP10_SECTION_MESSAGE_ANNOTATIONS, C10_MESSAGE_ANNOTATIONS)
    if status == OK and m.properties.shape:
        status = convert_take_properties(x, &m.properties)
    if status == OK:
        status = convert_take_entries(x, &m, AMQP10_SECTION_APPLICATION_PROPERTIES, C10_APPLICATION_PROPERTIES)
    return convert_take_body(x, &m) if status == OK else status


cdef int convert_check_sections(Converter* x, Amqp10MessageView* m) noexcept nogil:
    """Check order and number of the sections; find the body; check keys of annotations if the dialect is strict."""
    cdef const uint8_t* at = m.octets
    cdef const uint8_t* end = m.octets + m.size
    cdef const uint8_t* start
    cdef Amqp10Section section
    cdef int before = 0, count = 0
    cdef bint ordered = True
    if m.body == 0 and x.sections_checked:
        return convert_refuse(x, REFUSED_BODY_MISSING)
    while at < end:
        start = at
        amqp10_next_section(&at, end, &section)
        count += 1
        if section.code == 0:
            return convert_refuse(x, REFUSED_SECTION_UNKNOWN)
        if count > CONVERT_SECTIONS_MAX:
            return convert_refuse(x, REFUSED_SECTION_COUNT)
        if not convert_may_follow(section.code, before):
            if x.sections_checked and not x.entry:
                return convert_refuse(x, REFUSED_SECTION_ORDER)
            ordered = False
        before = section.code
        if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
            if x.body.at == NULL:
                x.body.at = x.rest.at = start
                x.body.size = <uint32_t>(end - start)
            x.rest.size = <uint32_t>(at - x.rest.at)
        elif section.code == AMQP10_SECTION_FOOTER and (m.body != AMQP10_SECTION_DATA or x.source == x.target):
            continue                            # unused
        elif x.annotation_keys and not convert_keys_allowed(&section):
            return convert_refuse(x, REFUSED_ANNOTATION_KEY)
        elif x.short_arrays and not convert_arrays_readable(section.at):
            return convert_refuse(x, REFUSED_ARRAY)
    if not ordered:
        convert_choose_sections(x, m)
    return OK


cdef void convert_choose_sections(Converter* x, Amqp10MessageView* m) noexcept nogil:
    """Of repeated sections RabbitMQ uses the last; use it, and note the others."""
    cdef const uint8_t* at = m.octets
    cdef const uint8_t* end = m.octets + m.size
    cdef const uint8_t** last
    cdef Amqp10Section section
    cdef Amqp10ValueView v
    while amqp10_next_section(&at, end, &section):
        if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
            continue
        last = &m.at[section.code - AMQP10_SECTION_FIRST]
        if last[0] == section.at:
            continue
        convert_leave_section(x, section.code, last[0])
        last[0] = section.at
        if section.code == AMQP10_SECTION_HEADER or section.code == AMQP10_SECTION_PROPERTIES:
            amqp10_read(section.at, &v)
            amqp10_fields_of(&v, &m.header if section.code == AMQP10_SECTION_HEADER else &m.properties)
    convert_choose_body(x, m.octets, end, NULL, m)


cdef inline bint convert_may_follow(int code, int before) noexcept nogil:
    """Amqp 1.0, 3.2: sections are in order; only data and amqp-sequence repeat, and bodies do not mix."""
    if AMQP10_SECTION_DATA <= before <= AMQP10_SECTION_AMQP_VALUE and code <= AMQP10_SECTION_AMQP_VALUE:
        return code == before and code != AMQP10_SECTION_AMQP_VALUE
    return code > before


cdef inline bint convert_is_stored(const Converter* x, int i) noexcept nogil:
    """A queue keeps no header: the broker stored durable, priority and ttl, and returns them with the message (to
    MQTT only durable)."""
    return x.stored and i <= (0 if x.target == CONVERT_MQTT5 else 2)


cdef int convert_take_header(Converter* x, const Amqp10MessageView* m) noexcept nogil:
    cdef ConvertValue v
    cdef Amqp10ValueView field
    cdef int status, i
    convert_plain(&v)
    for i in range(5):
        status = OK
        if m.header.shape and not convert_is_stored(x, i) and amqp10_field(&m.header, i, &field):
            convert_of_amqp10(&field, &v)
            status = convert_take(x, C10_DURABLE + i, &v)
        elif i == 0:
            status = convert_absent(x, C10_DURABLE)
        if status != OK:
            return status
    return OK


cdef int convert_take_entries(Converter* x, const Amqp10MessageView* m, int code, int field) noexcept nogil:
    """Annotations, or application properties."""
    cdef const uint8_t* at = m.at[code - AMQP10_SECTION_FIRST]
    cdef Amqp10Items items
    cdef Amqp10ValueView key, value
    cdef ConvertValue v
    cdef int type = AMQP10_STRING if field == C10_APPLICATION_PROPERTIES else AMQP10_SYMBOL
    cdef int status = OK
    if at == NULL:
        return OK
    amqp10_read(at, &value)
    items = amqp10_items(&value)
    while status == OK and amqp10_next(&items, &key):
        amqp10_next(&items, &value)
        convert_of_amqp10(&value, &v)
        v.key = convert_key_octets(&key)
        if key.type != type:
            convert_note(x, NULL, field, &v, CONVERT_DROPPED, REASON_KEY)
            continue
        if type == AMQP10_SYMBOL and key.size == 18 and value.type == AMQP10_BYTE and \
                memcmp(key.body, b"x-opt-jms-reply-to", 18) == 0:
            x.jms_topic = v.number == 1 or v.number == 3        # topic, temporary topic
        status = convert_take(x, field, &v)
    return status


cdef int convert_take_properties(Converter* x, const Amqp10CompositeView* properties) noexcept nogil:
    cdef ConvertValue v
    cdef Amqp10ValueView field
    cdef int status = OK, i
    convert_plain(&v)
    if amqp10_field(properties, AMQP10_PROPERTIES_CORRELATION_ID, &field):
        convert_of_amqp10(&field, &v)
        status = convert_take(x, C10_CORRELATION_ID, &v)
    for i in range(13):
        if status != OK:
            return status
        if i != AMQP10_PROPERTIES_CORRELATION_ID and amqp10_field(properties, i, &field):
            convert_of_amqp10(&field, &v)
            status = convert_take(x, C10_MESSAGE_ID + i, &v)
    return status


cdef int convert_take_body(Converter* x, const Amqp10MessageView* m) noexcept nogil:
    cdef ConvertValue v
    cdef Amqp10ValueView value
    cdef int field = (C10_AMQP_VALUE if m.body == AMQP10_SECTION_AMQP_VALUE else
                      C10_AMQP_SEQUENCE if m.body == AMQP10_SECTION_AMQP_SEQUENCE else
                      C10_DATA_MULTIPLE if m.body_count > 1 else C10_DATA)
    cdef const uint8_t* footer = m.at[AMQP10_SECTION_FOOTER - AMQP10_SECTION_FIRST]
    cdef int status
    if m.body:
        amqp10_read(m.at[m.body - AMQP10_SECTION_FIRST], &value)
        convert_of_amqp10(&value, &v)
    else:
        field = C10_DATA_MULTIPLE               # a message without a body is handled as one with several sections
        memset(&v, 0, sizeof(v))
        v.type = AMQP10_NULL
        v.octets.at = m.octets
    convert_plain(&v)
    status = convert_take(x, field, &v)
    # not if the payload is the encoded body, with the footer
    if status == OK and footer != NULL and (x.payload.at != x.body.at or footer < x.body.at):
        status = convert_take_entries(x, m, AMQP10_SECTION_FOOTER, C10_FOOTER)
    return status


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1

cdef int convert_read_amqp091(Converter* x, const uint8_t* p, size_t n, Span body) noexcept nogil:
    """Property flags and properties, and the body."""
    cdef Amqp091Options o
    cdef Amqp091PropertiesView m
    cdef ConvertValue v
    cdef const uint8_t* at
    cdef int status = OK, i
    memset(&o, 0, sizeof(o))
    convert_give(x, BUFFER_OCTETS, p, n)
    convert_give(x, BUFFER_BODY, body.at, body.size)
    if amqp091_parse_properties(p, n, &o, &m, &x.fault) != OK:
        return CONVERT_UNDECODABLE
    convert_plain(&v)
    at = amqp091_property(&m, AMQP091_PROPERTY_TYPE)
    if at != NULL:
        x.amqp_encoded = at[0] == 8 and memcmp(at + 1, b"amqp-1.0", 8) == 0
        convert_of_property(at, AMQP091_PROPERTY_TYPE, &v)
        status = convert_take(x, C91_TYPE, &v)
    for i in range(AMQP091_PROPERTY_COUNT):
        if status != OK:
            return status
        if i == AMQP091_PROPERTY_TYPE or i == AMQP091_PROPERTY_HEADERS:
            continue
        at = amqp091_property(&m, i)
        if at == NULL:
            status = convert_absent(x, C91_CONTENT_TYPE + i)
        else:
            convert_of_property(at, i, &v)
            status = convert_take(x, C91_CONTENT_TYPE + i, &v)
    at = amqp091_property(&m, AMQP091_PROPERTY_HEADERS)
    if status == OK and at != NULL:
        status = convert_take_headers(x, at)
    if status != OK:
        return status
    v.type = C91T_BINARY
    v.octets = body
    return convert_take(x, C91_PAYLOAD, &v)


cdef void convert_of_property(const uint8_t* at, int i, ConvertValue* v) noexcept nogil:
    v.number = 0
    if i == AMQP091_PROPERTY_TIMESTAMP:
        v.type = C91T_TIMESTAMP
        v.octets.at = at
        v.octets.size = 8
        v.number = load_u64(at)
    elif i == AMQP091_PROPERTY_DELIVERY_MODE or i == AMQP091_PROPERTY_PRIORITY:
        v.type = C91T_OCTET
        v.octets.at = at
        v.octets.size = 1
        v.number = at[0]
    else:
        v.type = C91T_SHORTSTR
        v.octets = amqp091_shortstr_at(at)


cdef int convert_take_headers(Converter* x, const uint8_t* at) noexcept nogil:
    cdef Cursor c = amqp091_entries(at)
    cdef Amqp091Entry e
    cdef ConvertValue v
    cdef int status = OK
    while status == OK and amqp091_next_entry(&c, True, &e):
        convert_of_entry(&e, &v)
        v.key = e.name
        status = convert_take(x, C91_HEADERS, &v)
    return status


# ------------------------------------------------------------------------------------------------ MQTT 5.0

cdef struct ConvertPairs:           # User Properties
    Span* keys
    Span* values
    uint8_t* again                  # the key occurred before
    uint32_t count


cdef int convert_read_mqtt5(Converter* x, const uint8_t* p, size_t n) noexcept nogil:
    cdef MqttPacketView m
    cdef ConvertValue v
    cdef int status = convert_parse_publish(x, p, n, &m)
    if status != OK:
        return status
    convert_plain(&v)
    x.sorted = x.rows[x.pair.item[C5T_UTF8_PAIR]].how == HOW_SORTED
    return convert_take_packet(x, &m, &v)


cdef int convert_parse_publish(Converter* x, const uint8_t* p, size_t n, MqttPacketView* m) noexcept nogil:
    """Parse the packet, which must be a PUBLISH. A dialect of RabbitMQ accepts strings that are not UTF-8, as the server does:
    then the packet is parsed from a copy in which those octets are replaced."""
    cdef MqttOptions o
    cdef uint8_t* copy = NULL
    memset(&o, 0, sizeof(o))
    convert_give(x, BUFFER_OCTETS, p, n)
    o.version = 5
    o.common.side = -1
    if mqtt_parse(p, n, &o, m, &x.fault) != OK:
        if x.valid or not convert_is_bad_string(x.fault.check):
            return CONVERT_UNDECODABLE
        copy = convert_reserve(x, n)
        if copy == NULL:
            return CONVERT_UNDECODABLE
        memcpy(copy, p, n)
        convert_mask_strings(copy, n)
        if mqtt_parse(copy, n, &o, m, &x.fault) != OK:
            return CONVERT_UNDECODABLE
    if m.type != MQTT_PUBLISH:
        fault(&x.fault, UNSUPPORTED, 0, 0, 0, 0, 0, 0)
        return CONVERT_UNDECODABLE
    if copy != NULL:                            # now nothing points into the copy
        m.frame = p
        m.properties.at = p + (m.properties.at - copy)
        m.payload.at = p + (m.payload.at - copy)
        m.topic.at = p + (m.topic.at - copy)
    return OK


cdef void convert_mask_strings(uint8_t* p, size_t n) noexcept nogil:
    """Replace non-ASCII octets in the strings of a PUBLISH by question marks, as far as it can be parsed."""
    cdef uint32_t number = 0
    cdef size_t at = 1, end = n
    cdef int type
    if not convert_skip_varint(p, &at, end, &number):
        return
    at = convert_mask_sized(p, at, end, True) + (2 if p[0] & 6 else 0)
    if not convert_skip_varint(p, &at, end, &number):
        return
    end = at + min(<size_t>number, n - at)
    while convert_skip_varint(p, &at, end, &number) and number < MQTT_PROPERTY_TOP:
        type = mqtt_properties[number].type
        if type == MQTT_STRING or type == MQTT_PAIR:
            at = convert_mask_sized(p, at, end, True)
        if type == MQTT_BINARY or type == MQTT_PAIR:
            at = convert_mask_sized(p, at, end, type == MQTT_PAIR)
        elif type == MQTT_VARINT:
            convert_skip_varint(p, &at, end, &number)
        elif type != MQTT_STRING:
            at += 1 if type == MQTT_BYTE else 2 if type == MQTT_TWO else 4


cdef bint convert_skip_varint(const uint8_t* p, size_t* at, size_t end, uint32_t* number) noexcept nogil:
    """Read it. False: absent."""
    cdef int size = read_varint(p + at[0], end - at[0], number) if at[0] < end else 0
    if size <= 0:
        return False
    at[0] += <size_t>size
    return True


cdef size_t convert_mask_sized(uint8_t* p, size_t at, size_t end, bint mask) noexcept nogil:
    """The position after a length and its octets; at most `end`."""
    cdef size_t size, i
    if at > end or end - at < 2:
        return end
    size = load_u16(p + at)
    at += 2
    if size > end - at:
        return end
    for i in range(size):
        if mask and (p[at + i] == 0 or p[at + i] >= 0x80):
            p[at + i] = c"?"
    return at + size


cdef inline bint convert_is_bad_string(int check) noexcept nogil:
    return check == MQTT_CHECK_STRING_UTF8 or check == MQTT_CHECK_STRING_NUL or check == MQTT_CHECK_USER_PROPERTY_UTF8 or \
        check == MQTT_CHECK_USER_PROPERTY_NUL


cdef int convert_take_flag(Converter* x, int field, uint64_t n, const uint8_t* at, ConvertValue* v) noexcept nogil:
    v.type = C5T_BITS
    v.number = n
    v.octets.at = at
    v.octets.size = 1
    return convert_take(x, field, v)


# properties of a PUBLISH in the order of the fields from C5_PAYLOAD_FORMAT_INDICATOR on; 0: User Properties are a list
cdef uint8_t* convert_publish_properties = [
    MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL, MQTT_PROPERTY_TOPIC_ALIAS,
    MQTT_PROPERTY_RESPONSE_TOPIC, MQTT_PROPERTY_CORRELATION_DATA, 0, MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER,
    MQTT_PROPERTY_CONTENT_TYPE]


cdef int convert_take_packet(Converter* x, const MqttPacketView* m, ConvertValue* v) noexcept nogil:
    cdef Span values[MQTT_PROPERTY_TOP]
    cdef ConvertPairs pairs
    cdef int status, i, identifier
    memset(values, 0, sizeof(values))
    if not convert_collect(x, &m.properties, m.property_count, values, &pairs):
        return convert_refuse(x, REFUSED_TOO_LARGE)
    status = convert_take_flag(x, C5_QOS, m.flags >> 1 & 3, m.frame, v)
    if status == OK and m.flags & 8:
        status = convert_take_flag(x, C5_DUP, 1, m.frame, v)
    if status == OK and m.flags & 1:
        status = convert_take_flag(x, C5_RETAIN, 1, m.frame, v)
    for i in range(8):
        if status != OK:
            return status
        identifier = convert_publish_properties[i]
        if values[identifier].at != NULL:
            convert_of_mqtt(identifier, values[identifier], v)
            if identifier == MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR:
                x.formatted = v.number == 1
            status = convert_take(x, C5_PAYLOAD_FORMAT_INDICATOR + i, v)
    if status == OK and pairs.count:
        status = convert_take_pairs(x, &pairs)
    if status != OK:
        return status
    convert_plain(v)
    v.type = C5T_BINARY
    v.octets = m.payload
    return convert_take(x, C5_PAYLOAD, v)


cdef void convert_of_mqtt(int identifier, Span s, ConvertValue* v) noexcept nogil:
    cdef uint32_t n = 0
    cdef int type = mqtt_properties[identifier].type
    v.octets = s
    v.type = C5T_UTF8 if type == MQTT_STRING else C5T_BINARY
    if type == MQTT_STRING or type == MQTT_BINARY:
        return
    v.type = C5T_UINT
    if s.size == 1 and type != MQTT_VARINT:
        v.type = C5T_BITS
        n = s.at[0]
    elif type == MQTT_VARINT:
        read_varint(s.at, s.size, &n)
    elif s.size == 2:
        v.type = C5T_USHORT
        n = load_u16(s.at)
    else:
        n = load_u32(s.at)
    v.number = n


cdef bint convert_collect(Converter* x, const Span* area, uint32_t count, Span* values, ConvertPairs* pairs) noexcept nogil:
    """Find the value of each property, and the User Properties in order. Values without a place are noted: repeated
    values, and properties of other packets, which LAX accepts. False: no memory."""
    cdef const uint8_t* p = area.at
    cdef const uint8_t* end = p + area.size
    cdef MqttProperty v
    cdef Span s
    memset(&v, 0, sizeof(v))
    memset(pairs, 0, sizeof(ConvertPairs))
    if count:
        pairs.keys = <Span*>convert_reserve(x, count * sizeof(Span))
        pairs.values = <Span*>convert_reserve(x, count * sizeof(Span))
        pairs.again = convert_reserve(x, (count + 15) & ~<uint32_t>15)
        if pairs.keys == NULL or pairs.values == NULL or pairs.again == NULL:
            return False
        memset(pairs.again, 0, count)
    while p < end:
        p = mqtt_next_property(p, &v)
        if v.identifier == MQTT_PROPERTY_USER_PROPERTY:
            pairs.keys[pairs.count] = v.name
            pairs.values[pairs.count] = v.value
            pairs.count += 1
            continue
        s = v.value
        if s.at == NULL:
            s.at = v.at
            s.size = <uint32_t>(p - v.at)
        if values[v.identifier].at == NULL and mqtt_properties[v.identifier].packets >> MQTT_PUBLISH & 1:
            values[v.identifier] = s
        else:
            convert_leave_property(x, <int>v.identifier, s)
    return True


cdef int convert_field_of(int identifier) noexcept nogil:
    """The field of a property of a PUBLISH; 0: a property of other packets."""
    cdef int i
    for i in range(8):
        if convert_publish_properties[i] == identifier:
            return C5_PAYLOAD_FORMAT_INDICATOR + i
    return 0


cdef void convert_leave_property(Converter* x, int identifier, Span s) noexcept nogil:
    cdef ConvertValue v
    cdef int field = convert_field_of(identifier)
    cdef const char* path = mqtt_field_path[mqtt_properties[identifier].field]
    convert_of_mqtt(identifier, s, &v)
    convert_plain(&v)
    if field == 0:
        v.key.at = <const uint8_t*>path + 11    # after "properties."
        v.key.size = <uint32_t>strlen(path) - 11
    convert_note(x, NULL, field if field else C5_OTHER_PROPERTY, &v, CONVERT_DROPPED,
                 REASON_DUPLICATE if field else REASON_NO_ROW)


cdef int convert_take_pairs(Converter* x, ConvertPairs* pairs) noexcept nogil:
    """User Properties; only the first of each key, if the rows of types say so."""
    cdef const ConvertRow* row = &x.rows[x.pair.item[C5T_UTF8_PAIR]]
    cdef ConvertValue v
    cdef int status = OK
    cdef uint32_t i
    if x.pair.item[C5T_UTF8_PAIR]:
        convert_mark_again(x, pairs.keys, pairs.again, pairs.count)
    for i in range(pairs.count):
        v.type = C5T_UTF8_PAIR
        v.number = 0
        v.key = pairs.keys[i]
        v.octets = pairs.values[i]
        if pairs.again[i]:
            convert_note(x, row, C5_USER_PROPERTY, &v, CONVERT_DROPPED, REASON_DUPLICATE)
            continue
        status = convert_take(x, C5_USER_PROPERTY, &v)
        if status != OK:
            break
    return status


# ------------------------------------------------------------------------------------------------ what RabbitMQ refuses

cdef bint convert_keys_allowed(const Amqp10Section* section) noexcept nogil:
    """Keys of annotations and of a footer are symbols that begin with x-."""
    cdef Amqp10Items items
    cdef Amqp10ValueView v
    if section.code != AMQP10_SECTION_MESSAGE_ANNOTATIONS and section.code != AMQP10_SECTION_DELIVERY_ANNOTATIONS and \
            section.code != AMQP10_SECTION_FOOTER:
        return True
    amqp10_read(section.at, &v)
    items = amqp10_items(&v)
    while amqp10_next(&items, &v):
        if v.type != AMQP10_SYMBOL or v.size < 2 or v.body[0] != c"x" or v.body[1] != c"-":
            return False
        amqp10_next(&items, &v)
    return True


cdef bint convert_arrays_readable(const uint8_t* at) noexcept nogil:
    """False: an array within the value has elements with a constructor that RabbitMQ does not accept there."""
    cdef Amqp10ValueView v
    amqp10_read(at, &v)
    return v.type < AMQP10_LIST or convert_readable(&v)


cdef bint convert_readable(const Amqp10ValueView* v) noexcept nogil:
    cdef Amqp10Items items
    cdef Amqp10ValueView inner
    cdef uint8_t code
    if v.type == AMQP10_DESCRIBED:
        amqp10_described(v, &inner)
        return inner.type < AMQP10_LIST or convert_readable(&inner)
    if v.type == AMQP10_ARRAY:
        code = amqp10_primitive(v.inner)[0]
        if amqp10_constructors[code].zero:
            return True
        if AMQP10_CODE_SMALLUINT <= code <= AMQP10_CODE_SMALLLONG or amqp10_constructors[code].type == AMQP10_DECIMAL32 or \
                amqp10_constructors[code].type == AMQP10_DECIMAL64 or amqp10_constructors[code].type == AMQP10_DECIMAL128 or \
                code == AMQP10_CODE_LIST8 or code == AMQP10_CODE_MAP8 or code == AMQP10_CODE_ARRAY8:
            return False
        if amqp10_constructors[code].type < AMQP10_LIST:
            return True
    items = amqp10_items(v)
    while amqp10_next(&items, &inner):
        if inner.type >= AMQP10_LIST and not convert_readable(&inner):
            return False
    return True
