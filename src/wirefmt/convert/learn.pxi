# What a broker learns from a message when it arrives: properties and annotations that decide how it is delivered.


cdef struct ConvertKnown:           # what a broker knows of a message, besides texts
    int durable                     # -1: unknown
    int priority                    # -1: unknown
    bint has_ttl, clears_ttl, has_timestamp, has_received
    bint retain                     # of a PUBLISH
    uint64_t ttl_ms
    uint64_t timestamp_s            # as AMQP 0.9.1 writes it
    int64_t timestamp_ms            # not of AMQP 0.9.1, whose timestamps are seconds
    int64_t received_ms
    int64_t expiry_s                # of a PUBLISH; -1: it never expires


cdef int convert_learn(Container c) except -1:
    """Derive the broker's knowledge from the message. ConversionError: the message is refused."""
    cdef const uint8_t* p
    cdef size_t n
    if c.octets_ is None:
        raise TypeError("a message must be bytes, not None")
    p = begin_of(c.octets_)
    n = <size_t>PyBytes_GET_SIZE(c.octets_)
    memset(&c.known, 0, sizeof(c.known))
    c.known.priority = -1
    c.known.expiry_s = -1
    c.exchange = utf8_of(c.given_exchange)
    c.routing_key = utf8_of(c.given_routing_key)
    if c.source == CONVERT_AMQP10:
        return convert_learn_10(c, p, n)
    if c.source == CONVERT_AMQP091:
        return convert_learn_091(c, p, n)
    return convert_learn_5(c, p, n)


cdef inline void convert_learn_time(ConvertKnown* k, int64_t ms) noexcept:
    k.has_timestamp = True
    k.timestamp_ms = ms
    k.timestamp_s = <uint64_t>(ms / 1000)       # rounded toward zero


cdef inline void convert_learn_ttl(ConvertKnown* k, uint64_t ms) noexcept:
    k.has_ttl = True
    k.ttl_ms = ms


# ------------------------------------------------------------------------------------------------ AMQP 1.0

cdef int convert_learn_10(Container c, const uint8_t* p, size_t n) except -1:
    cdef ConvertKnown* k = &c.known
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef Amqp10ValueView v, key
    cdef Amqp10Items items
    cdef Fault f
    cdef int64_t ms = 0
    memset(&o, 0, sizeof(o))
    if amqp10_parse_message(p, n, &o, &m, &f) != OK:
        cause = make_fault(&AMQP10_TABLES, &f, 0)
        raise ConversionError(str(cause), rule="amqp10:undecodable") from cause
    k.durable = -1
    if m.header.shape:
        if amqp10_field(&m.header, AMQP10_HEADER_DURABLE, &v):
            k.durable = amqp10_unsigned(&v) != 0
        if amqp10_field(&m.header, AMQP10_HEADER_PRIORITY, &v):
            k.priority = <int>amqp10_unsigned(&v)
        if amqp10_field(&m.header, AMQP10_HEADER_TTL, &v):
            convert_learn_ttl(k, amqp10_unsigned(&v))
    if m.properties.shape and amqp10_field_timestamp(&m.properties, AMQP10_PROPERTIES_CREATION_TIME, &ms):
        convert_learn_time(k, ms)
    if m.at[AMQP10_SECTION_MESSAGE_ANNOTATIONS - AMQP10_SECTION_FIRST] != NULL:
        amqp10_read(m.at[AMQP10_SECTION_MESSAGE_ANNOTATIONS - AMQP10_SECTION_FIRST], &v)
        items = amqp10_items(&v)
        while amqp10_next(&items, &key):
            amqp10_next(&items, &v)
            if key.size > 2 and key.body[0] == c"x" and key.body[1] == c"-":
                convert_learn_annotation(c, &key, &v)
    if k.durable < 0:
        k.durable = 0
    return 0


cdef inline bint convert_key_is(const Amqp10ValueView* key, const char* name) noexcept:
    return key.size == strlen(name) and memcmp(key.body, name, key.size) == 0


cdef int convert_learn_annotation(Container c, const Amqp10ValueView* key, const Amqp10ValueView* v) except -1:
    """Annotations that describe how the message was published; in an entry of a stream, how it was routed."""
    cdef ConvertKnown* k = &c.known
    cdef Span s
    cdef uint64_t number = 0
    if convert_key_is(key, b"x-cc"):
        c.cc = convert_strings_of(v, c.stream)
    elif convert_key_is(key, b"x-basic-delivery-mode"):
        if v.type == AMQP10_UBYTE and k.durable < 0:
            k.durable = amqp10_unsigned(v) == 2
    elif convert_key_is(key, b"x-basic-priority"):
        if AMQP10_UBYTE <= v.type <= AMQP10_LONG and k.priority < 0:
            number = amqp10_unsigned(v) if v.type <= AMQP10_ULONG else <uint64_t>amqp10_signed(v)
            if number < 256:
                k.priority = <int>number
    elif convert_key_is(key, b"x-basic-expiration"):
        s = amqp10_octets(v)
        if v.type == AMQP10_STRING and not k.has_ttl and convert_number(&s, &number):
            convert_learn_ttl(k, number)
    elif not c.stream:
        return 0
    elif convert_key_is(key, b"x-exchange"):
        if v.type == AMQP10_STRING:
            c.exchange = octets_of(v.body, v.size)
    elif convert_key_is(key, b"x-routing-key"):
        if v.type == AMQP10_STRING:
            c.routing_key = octets_of(v.body, v.size)
    elif convert_key_is(key, b"x-opt-rabbitmq-received-time") and v.type == AMQP10_TIMESTAMP:
        k.has_received = True
        k.received_ms = amqp10_signed(v)
    return 0


cdef list convert_strings_of(const Amqp10ValueView* v, bint routed):
    """The strings of x-cc. A message that is not `routed` yet is refused if it has anything else."""
    cdef Amqp10Items items = amqp10_items(v)
    cdef Amqp10ValueView item
    cdef list keys = []
    while v.type == AMQP10_LIST and amqp10_next(&items, &item):
        if item.type != AMQP10_STRING:
            break
        keys.append(octets_of(item.body, item.size))
    if not routed and v.type != AMQP10_NULL and (v.type != AMQP10_LIST or <uint32_t>len(keys) != v.count):
        raise ConversionError(CONVERT_REFUSALS[REFUSED_CC][1], rule=CONVERT_REFUSALS[REFUSED_CC][0])
    return keys


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1

cdef int convert_learn_091(Container c, const uint8_t* p, size_t n) except -1:
    cdef ConvertKnown* k = &c.known
    cdef Amqp091Options o
    cdef Amqp091PropertiesView m
    cdef Fault f
    cdef Span s
    cdef uint64_t number = 0
    cdef const uint8_t* at
    memset(&o, 0, sizeof(o))
    if amqp091_parse_properties(p, n, &o, &m, &f) != OK:
        cause = make_fault(&AMQP091_TABLES, &f, 0)
        raise ConversionError(str(cause), rule="amqp091:undecodable") from cause
    at = amqp091_property(&m, AMQP091_PROPERTY_DELIVERY_MODE)
    k.durable = at != NULL and at[0] == 2
    at = amqp091_property(&m, AMQP091_PROPERTY_PRIORITY)
    if at != NULL:
        k.priority = at[0]
    at = amqp091_property(&m, AMQP091_PROPERTY_TIMESTAMP)
    if at != NULL:
        k.has_timestamp = True
        k.timestamp_s = load_u64(at)
    at = amqp091_property(&m, AMQP091_PROPERTY_EXPIRATION)
    if at != NULL:
        s = amqp091_shortstr_at(at)
        if convert_number(&s, &number):
            convert_learn_ttl(k, number)
    at = amqp091_property(&m, AMQP091_PROPERTY_HEADERS)
    if at != NULL:
        c.cc = convert_longstrs_of(at, b"CC")
        c.bcc = convert_longstrs_of(at, b"BCC")
    return 0


cdef list convert_longstrs_of(const uint8_t* headers, const char* name):
    """The long strings of a header that is an array; None: there is no such header."""
    cdef Amqp091Entry entry, e
    cdef Cursor c
    cdef list out = []
    if not amqp091_find_entry(headers, name, strlen(name), &entry):
        return None
    if entry.letter != c"A":
        text = name.decode()
        raise ConversionError(f"{text} is not an array", rule=f"amqp091:headers-{text.lower()}-type")
    c = cursor_over(entry.at, entry.size)
    while amqp091_next_entry(&c, False, &e):
        if e.letter == c"S":
            out.append(octets_of(e.at, e.size))
    return out


# ------------------------------------------------------------------------------------------------ MQTT 5.0

cdef int convert_learn_5(Container c, const uint8_t* p, size_t n) except -1:
    cdef ConvertKnown* k = &c.known
    cdef MqttPacketView m
    cdef Converter x
    cdef MqttProperty expiry
    cdef int status
    memset(&expiry, 0, sizeof(expiry))
    convert_begin(&x, c.rules, CONVERT_MQTT5, CONVERT_MQTT5)
    try:
        status = convert_parse_publish(&x, p, n, &m)
        if status != OK:
            raise_refused(c.rules, &x, status)
    finally:
        convert_end(&x)
    if m.topic.size == 0:
        raise ConversionError("the topic is a Topic Alias, which only its connection can resolve", rule="mqtt5:topic-alias")
    c.topic = octets_of(m.topic.at, m.topic.size)
    c.exchange = convert_exchange_of(c.mqtt_exchange)
    c.routing_key = convert_topic_octets(c.topic, False, c.translation)
    k.durable = (m.flags >> 1 & 3) > 0
    k.retain = m.flags & 1
    if m.properties_seen >> MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL & 1 and \
            mqtt_find_property(&m.properties, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL, &expiry):
        k.expiry_s = expiry.number
        convert_learn_ttl(k, <uint64_t>k.expiry_s * 1000)
        convert_learn_time(k, c.arrival_ms)
    return 0
