# One message: the reader of its source, the writer of its target, and why it is refused. Objects, containers and columns
# convert with these.


cdef int convert_read(Converter* x, Span message, Span body) noexcept nogil:
    """Read a message of `x.source`. AMQP 0.9.1: `message` is property flags and properties. OK, or a ConvertStatus."""
    cdef bint same = x.source == x.target
    if not same and not x.pair.there:
        return convert_refuse(x, REFUSED_NO_RULES)
    if x.source == CONVERT_AMQP10:
        return convert_same_10(x, message.at, message.size) if same else convert_read_amqp10(x, message.at, message.size)
    if x.source == CONVERT_AMQP091:
        return (convert_same_091(x, message.at, message.size, body) if same else
                convert_read_amqp091(x, message.at, message.size, body))
    return convert_same_5(x, message.at, message.size) if same else convert_read_mqtt5(x, message.at, message.size)


cdef int convert_write(Converter* x, Octets* o, const Span* topic, bint redelivered, uint16_t packet_identifier) noexcept nogil:
    """Write what was read as a message of `x.target`. AMQP 0.9.1: property flags and properties; the body is `x.payload`. The
    last three arguments are for a PUBLISH. OK, or a ConvertStatus."""
    if x.target == CONVERT_AMQP10:
        convert_write_amqp10(x, o)
        if x.source == CONVERT_AMQP10:          # the sections that stay as they are
            add_octets(o, x.payload.at, x.payload.size)
    elif x.target == CONVERT_AMQP091:
        convert_write_amqp091(x, o)
    else:
        x.refused = convert_topic_refused(x, topic)
        if not x.refused and not convert_write_mqtt5(x, o, topic, redelivered, packet_identifier):
            x.refused = REFUSED_TOO_LARGE
        if x.refused:
            return CONVERT_REFUSED
    return OK


cdef uint8_t convert_topic_refused(const Converter* x, const Span* topic) noexcept nogil:
    """Why a routing key cannot be the topic of a PUBLISH, if only valid values are converted; 0: it can."""
    if not x.valid:
        return 0
    if topic.size == 0:
        return REFUSED_NO_TOPIC                 # [MQTT-4.7.3-1]
    if not convert_is_text(topic) or memchr(topic.at, c"+", topic.size) != NULL or memchr(topic.at, c"#", topic.size) != NULL:
        return REFUSED_TOPIC                    # [MQTT-3.3.2-2], [MQTT-1.5.4-1]
    return 0


cdef bint convert_no_memory(const Converter* x) noexcept nogil:
    return x.failed or x.lists[0].failed or x.lists[1].failed


cdef tuple convert_refusal(ConvertRules rules, Converter* x, int status):
    """Why a message is refused: the rule, the reason, and the DecodeError of its protocol or None."""
    if status == CONVERT_UNDECODABLE:
        if x.fault.status == UNSUPPORTED and x.fault.check == 0:
            return "mqtt5:not-publish", "not a PUBLISH", None
        cause = make_fault(&AMQP10_TABLES if x.source == CONVERT_AMQP10 else &AMQP091_TABLES
                           if x.source == CONVERT_AMQP091 else &MQTT_TABLES, &x.fault, 0)
        return f"{CONVERT_PROTOCOL_NAMES[x.source]}:undecodable", str(cause), cause
    if x.refused:
        return *CONVERT_REFUSALS[x.refused], None
    return rules.ids[x.number], "the message is refused", None


cdef int raise_refused(ConvertRules rules, Converter* x, int status) except -1:
    rule, reason, cause = convert_refusal(rules, x, status)
    raise ConversionError(reason, rule=rule) from cause
