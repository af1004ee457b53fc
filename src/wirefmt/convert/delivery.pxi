# What a broker adds to a message on delivery, merged between reader and writer.


cdef enum ConvertPurpose:           # what a container converts its message for
    PURPOSE_TO = 0                  # the message alone
    PURPOSE_DELIVER = 1             # for a consumer
    PURPOSE_ENTRY = 2               # as the entry of a stream


cdef struct ConvertDelivery:        # one use of a container; its octets are the key in the container's cache
    uint8_t purpose                 # a ConvertPurpose
    uint8_t target                  # a ConvertProtocol
    uint8_t explain
    uint8_t redelivered
    int8_t retain                   # -1: as published
    uint16_t packet_identifier
    uint32_t delivery_count
    int qos                         # of an MQTT consumer's subscription
    int64_t waited_ms               # in the queue


# ------------------------------------------------------------------------------------------------ annotations

cdef int convert_prepare(Converter* x, Container c, const ConvertDelivery* d) except -1:
    """Before the message is read: the broker's annotations, which precede the message's own."""
    cdef ConvertValue v
    cdef bint of_stream = c.stream
    x.stored = not of_stream and d.purpose != PURPOSE_ENTRY and x.source == CONVERT_AMQP10
    x.entry = of_stream
    if x.target == CONVERT_MQTT5:
        return 0
    memset(&v, 0, sizeof(v))
    v.type = CONVERT_ABSENT                     # not from the source
    # in RabbitMQ's order
    if c.extra:
        for key in sorted(c.extra, reverse=True):
            convert_add_annotation(x, key, c.extra[key], &v)
    if c.known.has_received and not of_stream:  # a stream entry has it in its own annotations
        convert_add_received(x, c.known.received_ms, &v)
    if x.target == CONVERT_AMQP10:              # basic.deliver has them
        convert_add_text_annotation(x, b"x-exchange", c.exchange, &v)
        convert_add_text_annotation(x, b"x-routing-key", c.routing_key, &v)
    if c.deaths:
        convert_keep(x, 0, x.lists[0].size, NULL, 0, &v)
        if x.target == CONVERT_AMQP10:
            add_deaths10(&x.lists[0], c.deaths)
        else:
            add_deaths091(&x.lists[0], c.deaths)
    if x.target == CONVERT_AMQP10:
        x.broker = x.counts[0]
    else:
        x.sorted = True
    return 0


cdef int convert_add_annotation(Converter* x, object key, object value, const ConvertValue* v) except -1:
    """An annotation with a str, int or bool."""
    cdef Octets* o = &x.lists[0]
    convert_keep(x, 0, o.size, NULL, 0, v)
    if x.target == CONVERT_AMQP10:
        add_symbol10(o, key)
        if isinstance(value, bool):
            convert_add_number(o, AMQP10_BOOLEAN, value)
        elif isinstance(value, int):
            amqp10_add_long(o, value)
        else:
            add_string10(o, value)
        return 0
    add_name091(o, key)
    if isinstance(value, bool):
        amqp091_add_i64(o, c"t", value)
    elif isinstance(value, int):
        amqp091_add_i64(o, c"l", value)
    else:
        add_longstr091(o, value)
    return 0


cdef void convert_add_received(Converter* x, int64_t ms, const ConvertValue* v) noexcept:
    cdef Octets* o = &x.lists[0]
    convert_keep(x, 0, o.size, NULL, 0, v)
    if x.target == CONVERT_AMQP10:
        amqp10_add_variable(o, AMQP10_CODE_SYM8, <const uint8_t*>b"x-opt-rabbitmq-received-time", 28)
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, <uint64_t>ms)
    else:
        amqp091_add_name(o, <const uint8_t*>b"timestamp_in_ms", 15)
        amqp091_add_i64(o, c"l", ms)


cdef void convert_add_text_annotation(Converter* x, const char* key, bytes text, const ConvertValue* v) noexcept:
    """A string of AMQP 1.0."""
    cdef Octets* o = &x.lists[0]
    convert_keep(x, 0, o.size, NULL, 0, v)
    amqp10_add_variable(o, AMQP10_CODE_SYM8, <const uint8_t*>key, strlen(key))
    amqp10_add_variable(o, AMQP10_CODE_STR8, begin_of(text), <size_t>PyBytes_GET_SIZE(text))


cdef int add_symbol10(Octets* o, object text) except -1:
    cdef bytes octets = utf8_of(text)
    amqp10_add_variable(o, AMQP10_CODE_SYM8, begin_of(octets), <size_t>PyBytes_GET_SIZE(octets))
    return 0


cdef int add_string10(Octets* o, object text) except -1:
    cdef bytes octets = utf8_of(text)
    amqp10_add_variable(o, AMQP10_CODE_STR8, begin_of(octets), <size_t>PyBytes_GET_SIZE(octets))
    return 0


cdef int add_name091(Octets* o, object text) except -1:
    cdef bytes octets = utf8_of(text)
    if PyBytes_GET_SIZE(octets) > 255:
        raise EncodeError(f"annotation {text!r}: more than 255 bytes")
    amqp091_add_name(o, begin_of(octets), <uint8_t>PyBytes_GET_SIZE(octets))
    return 0


cdef int add_longstr091(Octets* o, object text) except -1:
    cdef bytes octets = utf8_of(text)
    amqp091_add_value(o, c"S", begin_of(octets), <uint32_t>PyBytes_GET_SIZE(octets))
    return 0


# ------------------------------------------------------------------------------------------------ deaths

cdef int add_deaths10(Octets* o, tuple deaths) except -1:
    """x-opt-deaths: an array of maps."""
    cdef size_t array, at
    add_symbol10(o, "x-opt-deaths")
    array = amqp10_open(o)
    add_u8(o, AMQP10_CODE_MAP32)
    for death in deaths:
        extend_octets(o, 4)
        at = o.size
        add_u32(o, 14 if death.ttl_ms is None else 16)
        if death.ttl_ms is not None:
            add_symbol10(o, "ttl")
            convert_add_number(o, AMQP10_UINT, death.ttl_ms)
        add_symbol10(o, "queue")
        add_string10(o, death.queue)
        add_symbol10(o, "reason")
        add_symbol10(o, death.reason)
        add_symbol10(o, "count")
        amqp10_add_ulong(o, death.count)
        add_symbol10(o, "first-time")
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, death.first_time_ms)
        add_symbol10(o, "last-time")
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, death.last_time_ms)
        add_symbol10(o, "exchange")
        add_string10(o, death.exchange)
        add_symbol10(o, "routing-keys")
        add_keys10(o, death.routing_keys)
        if not o.failed:
            store_u32(o.at + at - 4, <uint32_t>(o.size - at))
    amqp10_close(o, array, AMQP10_CODE_ARRAY8, <size_t>len(deaths))
    return 0


cdef int add_keys10(Octets* o, object keys) except -1:
    cdef size_t array = amqp10_open(o)
    cdef bytes octets
    add_u8(o, AMQP10_CODE_STR32)
    for key in keys:
        octets = utf8_of(key)
        add_u32(o, <uint32_t>PyBytes_GET_SIZE(octets))
        add_octets(o, begin_of(octets), <size_t>PyBytes_GET_SIZE(octets))
    amqp10_close(o, array, AMQP10_CODE_ARRAY8, <size_t>len(keys))
    return 0


cdef int add_deaths091(Octets* o, tuple deaths) except -1:
    """x-death: an array of tables."""
    cdef size_t array, table, inner
    add_name091(o, "x-death")
    add_u8(o, c"A")
    array = amqp091_open(o)
    for death in deaths:
        add_u8(o, c"F")
        table = amqp091_open(o)
        if death.ttl_ms is not None:
            add_name091(o, "original-expiration")
            add_longstr091(o, str(death.ttl_ms))
        add_name091(o, "count")
        amqp091_add_i64(o, c"l", death.count)
        for name, value in (("reason", death.reason), ("queue", death.queue)):
            add_name091(o, name)
            add_longstr091(o, value)
        add_name091(o, "time")
        amqp091_add_i64(o, c"T", death.first_time_ms // 1000)
        add_name091(o, "exchange")
        add_longstr091(o, death.exchange)
        add_name091(o, "routing-keys")
        add_u8(o, c"A")
        inner = amqp091_open(o)
        for key in death.routing_keys:
            add_longstr091(o, key)
        amqp091_close(o, inner)
        amqp091_close(o, table)
    amqp091_close(o, array)
    return 0


# ------------------------------------------------------------------------------------------------ fields

cdef void convert_deliver(Converter* x, Container c, const ConvertDelivery* d) noexcept:
    """After the message was read: fields that the broker decides."""
    if x.target == CONVERT_AMQP10:
        convert_deliver_10(x, c, d)
    elif x.target == CONVERT_AMQP091:
        convert_deliver_091(x, &c.known)
    else:
        convert_deliver_5(x, c, d)


cdef void convert_open_sections(Converter* x) noexcept:
    """Split a header and annotations that were given as whole sections, because the broker's are inserted."""
    cdef Span* header = &x.sections[0]
    cdef Span* annotations = &x.sections[AMQP10_SECTION_MESSAGE_ANNOTATIONS - AMQP10_SECTION_FIRST]
    cdef Amqp10CompositeView fields
    cdef Amqp10ValueView fields_list
    cdef int i
    if header.at != NULL:
        for i in range(5):
            convert_displace(x, C10_DURABLE + i, REASON_REPLACED)
            x.slots[C10_DURABLE + i].type = 0
        fields.shape = AMQP10_HEADER
        amqp10_read(header.at, &fields_list)
        amqp10_fields_of(&fields_list, &fields)
        convert_keep_header(x, &fields)
        header.at = NULL
    if annotations.at != NULL:
        convert_drop_entries(x, 0, x.broker, REASON_REPLACED)
        convert_keep_annotations(x, annotations.at)
        annotations.at = NULL


cdef void convert_deliver_10(Converter* x, Container c, const ConvertDelivery* d) noexcept:
    cdef const ConvertKnown* k = &c.known
    convert_open_sections(x)
    if x.slots[C10_DURABLE].type == 0 and not x.has_header:
        convert_set(x, C10_DURABLE, AMQP10_BOOLEAN, k.durable != 0)
    if x.stored and k.priority >= 0:
        convert_set(x, C10_PRIORITY, AMQP10_UBYTE, <uint64_t>k.priority)
    if x.stored and k.has_ttl:
        convert_set(x, C10_TTL, AMQP10_UINT, k.ttl_ms & 0xFFFFFFFFU)
    convert_set(x, C10_FIRST_ACQUIRER, AMQP10_BOOLEAN,
                not d.redelivered and d.delivery_count == 0 and not c.deaths)
    convert_set(x, C10_DELIVERY_COUNT, AMQP10_UINT, d.delivery_count)


cdef void convert_deliver_091(Converter* x, const ConvertKnown* k) noexcept:
    if x.stored and k.durable > 0 and x.slots[C91_DELIVERY_MODE].type == 0:
        convert_set(x, C91_DELIVERY_MODE, C91T_OCTET, 2)
    if x.stored and k.priority >= 0 and x.slots[C91_PRIORITY].type == 0:
        convert_set(x, C91_PRIORITY, C91T_OCTET, <uint64_t>k.priority)
    if k.has_timestamp:
        convert_set(x, C91_TIMESTAMP, C91T_TIMESTAMP, k.timestamp_s)
    else:
        convert_clear(x, C91_TIMESTAMP)
    if k.clears_ttl:
        convert_clear(x, C91_EXPIRATION)
    elif k.has_ttl:
        convert_set_text(x, C91_EXPIRATION, C91T_SHORTSTR, convert_decimal(x, k.ttl_ms))


cdef void convert_deliver_5(Converter* x, Container c, const ConvertDelivery* d) noexcept:
    cdef const ConvertKnown* k = &c.known
    cdef uint64_t qos = x.slots[C5_QOS].number
    cdef int64_t waited_s = d.waited_ms / 1000 + (d.waited_ms % 1000 > 0)      # rounded up
    if x.source == CONVERT_AMQP10 and k.durable >= 0:
        qos = k.durable
    convert_set(x, C5_QOS, C5T_BITS, min(qos, <uint64_t>d.qos))
    convert_set(x, C5_RETAIN, C5T_BITS, k.retain if d.retain < 0 else d.retain)
    if k.clears_ttl or not (x.source == CONVERT_MQTT5 or c.rules.expiry_delivered):
        convert_clear(x, C5_MESSAGE_EXPIRY_INTERVAL)
    elif k.expiry_s >= 0 and x.slots[C5_MESSAGE_EXPIRY_INTERVAL].type:
        convert_set(x, C5_MESSAGE_EXPIRY_INTERVAL, C5T_UINT, <uint64_t>max(<int64_t>0, k.expiry_s - waited_s))
