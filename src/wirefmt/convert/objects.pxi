# Conversions as Python calls: octets in, octets out.


cdef enum:
    CONVERT_START = 1024            # octets of a result that need no allocation


# ------------------------------------------------------------------------------------------------ results

@cython.final
@cython.freelist(64)
cdef class Conversion:
    """A message in another protocol. `losses` reports what was lost.

    `octets` are the bytes of the result; for AMQP 0.9.1 property flags and properties, and `body` (otherwise None). `message`
    is the result as an object of its protocol, which convert() takes: amqp10.Message, mqtt.Publish or amqp091.BasicMessage (its
    method is a basic.publish on channel 1 without exchange and routing key, which are not part of a message).
    """
    cdef readonly str protocol
    cdef readonly bytes octets, body
    cdef bytes notes
    cdef bytes given, given_body, derived   # what the notes refer to, by BUFFER_...
    cdef tuple ids, losses_
    cdef object message_
    cdef int source

    def __init__(self):
        raise TypeError("a Conversion comes from convert() or a Container")

    @property
    def wire(self):
        """The result as an input of convert()."""
        return Wire(self.protocol, self.octets, self.body)

    @property
    def message(self):
        if self.message_ is None:
            self.message_ = self.wire.message()
        return self.message_

    @property
    def losses(self):
        """What was dropped, narrowed or moved; with explain=True, every value and the row that converted it."""
        if self.losses_ is None:
            self.losses_ = self.report()
        return self.losses_

    cdef tuple report(self):
        cdef const ConvertNote* note
        cdef Span buffers[BUFFER_COUNT]
        cdef Span key, octets
        cdef list out = []
        cdef Py_ssize_t i
        if self.notes is None:
            return ()
        buffers[BUFFER_OCTETS] = span_of_bytes(self.given)
        buffers[BUFFER_BODY] = span_of_bytes(self.given_body)
        buffers[BUFFER_DERIVED] = span_of_bytes(self.derived)
        for i in range(PyBytes_GET_SIZE(self.notes) // <Py_ssize_t>sizeof(ConvertNote)):
            note = <const ConvertNote*>begin_of(self.notes) + i
            key = convert_octets_of(&note.key, buffers)
            octets = convert_octets_of(&note.octets, buffers)
            out.append(Loss(
                self.ids[note.number] if note.number else "",
                CONVERT_FIELD_NAMES[self.source][note.field],
                None if key.at == NULL else PyUnicode_DecodeUTF8(<const char*>key.at, key.size, "backslashreplace"),
                "" if note.type >= CONVERT_KEY_TYPE else CONVERT_TYPE_NAMES[self.source][note.type],
                CONVERT_WHATS[note.what], CONVERT_REASONS[note.reason],
                hidden_octets(note.type, key, octets, self.source)))
        return tuple(out)

    def __reduce__(self):
        return restore_conversion, (self.protocol, self.octets, self.body, self.losses)

    def __repr__(self):
        return f"Conversion({self.protocol!r}, {len(self.octets)} bytes, losses={len(self.losses)})"


def restore_conversion(str protocol not None, bytes octets not None, bytes body, tuple losses not None):
    """Unpickle a Conversion."""
    cdef Conversion made = Conversion.__new__(Conversion)
    made.protocol = CONVERT_PROTOCOL_NAMES[protocol_number(protocol)]
    made.octets = octets
    made.body = body
    made.losses_ = losses
    return made


cdef tuple CONVERT_WHATS = ("taken", "dropped", "narrowed", "moved")

cdef dict CONVERT_DIALECTS = {}         # name -> compiled rules


cdef ConvertRules convert_rules_of(object dialect):
    """The rules of a dialect: rows of Python modules, loaded and compiled on first use."""
    rules = CONVERT_DIALECTS.get(dialect)
    if rules is None:
        from wirefmt.convert.dialects import compiled
        rules = CONVERT_DIALECTS[dialect] = compiled(dialect)
    return rules


cdef bytes value_octets(int type, Span s, int source):
    """The octets of a value; one octet for an AMQP 1.0 boolean that has only a constructor."""
    if s.at == NULL:
        return b""
    if source == CONVERT_AMQP10 and type == AMQP10_BOOLEAN and s.size == 0:
        return b"\1" if (s.at - 1)[0] == AMQP10_CODE_TRUE else b"\0"
    return octets_of(s.at, s.size)


cdef frozenset CONVERT_COMPOUNDS = frozenset(("list", "map", "array", "described", "table"))


cdef object hidden_octets(int type, Span key, Span s, int source):
    """The octets of a note, which a repr hides if they are or may contain a secret."""
    cdef bytes octets = value_octets(type, s, source)
    if key.at != NULL and is_secret_name(key.at, key.size):
        return hidden(octets)
    if type < CONVERT_KEY_TYPE and CONVERT_TYPE_NAMES[source][type] in CONVERT_COMPOUNDS and \
            holds_secret_word(s.at, s.size):
        return hidden(octets)
    return octets


cdef Conversion convert_octets(ConvertRules rules, int source, bytes a, bytes b, bytes topic, bytes exchange, int topics,
                               bint percent_encoding, Container container, const ConvertDelivery* d):
    """Convert one message. With a `container`, add what a broker adds. Raises ConversionError if it is refused."""
    cdef Converter x
    cdef Octets o
    cdef uint8_t[CONVERT_START] start
    cdef Conversion out
    cdef Span to
    cdef int status
    if a is None or topic is None:
        raise TypeError("a message and its topic must be bytes, not None")
    if PyBytes_GET_SIZE(a) > 0x7FFFFFFF or (b is not None and PyBytes_GET_SIZE(b) > 0x7FFFFFFF):
        raise ConversionError("more than 2 GiB", rule="too-large")
    convert_begin(&x, rules, source, d.target)
    convert_choose(&x, topics, percent_encoding, exchange)
    x.explain = d.explain
    x.anew = container is None
    to = span_of_bytes(topic)
    o = octets_over(start, CONVERT_START)
    try:
        if container is not None:
            convert_prepare(&x, container, d)
        status = convert_read(&x, span_of_bytes(a), span_of_bytes(b))
        if status == OK:
            if container is not None:
                convert_deliver(&x, container, d)
            status = convert_write(&x, &o, &to, d.redelivered, d.packet_identifier)
        if status != OK:
            raise_refused(rules, &x, status)
        if convert_no_memory(&x) or o.failed:
            raise MemoryError
        out = Conversion.__new__(Conversion)
        out.protocol = CONVERT_PROTOCOL_NAMES[d.target]
        if d.target == CONVERT_AMQP091:
            out.body = b if b is not None and x.payload.at == begin_of(b) else octets_of(x.payload.at, x.payload.size)
        out.octets = octets_of(o.at, <uint32_t>o.size)
        if x.notes.size:
            if x.notes.size > 0x7FFFFFFF:
                raise MemoryError
            out.notes = octets_of(x.notes.at, <uint32_t>x.notes.size)
            out.given = a
            out.given_body = b
            if x.derived.size:
                out.derived = octets_of(x.derived.at, <uint32_t>x.derived.size)
            out.ids = rules.ids
            out.source = source
        return out
    finally:
        free_octets(&o)
        convert_end(&x)


cdef Conversion unconverted(object wire):
    """A message for its own protocol: the same bytes."""
    cdef Conversion out = Conversion.__new__(Conversion)
    if wire.octets is None:
        raise TypeError("a message must be bytes, not None")
    out.protocol = wire.protocol
    out.octets = wire.octets
    out.body = wire.body
    return out


cpdef int protocol_number(object protocol) except -1:
    """The index in CONVERT_PROTOCOL_NAMES. ValueError: unknown name."""
    cdef int i
    for i in range(<int>CONVERT_PROTOCOLS):
        if protocol is CONVERT_PROTOCOL_NAMES[i]:
            return i
    if protocol not in CONVERT_PROTOCOL_NAMES:
        raise ValueError(f"protocol {protocol!r} is not one of {', '.join(CONVERT_PROTOCOL_NAMES)}")
    return CONVERT_PROTOCOL_NAMES.index(protocol)


def convert(message, *, to, source=None, dialect="documented", routing_key="", mqtt_exchange=CONVERT_EXCHANGE,
            topics=CONVERT_TRANSLATED, bint percent_encoding=True, uint16_t packet_identifier=1, bint lossless=False,
            bint explain=False):
    """Convert one message by RabbitMQ's tables: the conversion alone, without what a broker adds.

    Args:
        message: an amqp10.Message, mqtt.Publish or amqp091.BasicMessage; a Wire; bytes, with `source`.
        to: "amqp10", "amqp091" or "mqtt5".
        dialect: "documented" is the published document, "rabbitmq-4.3" and "rabbitmq-3.13" are those servers.
        routing_key: becomes the topic of a PUBLISH.
        mqtt_exchange: the exchange of MQTT topics in reply-to addresses (RabbitMQ's mqtt.exchange).
        topics: "translated": a routing key has . for / and * for + of a topic; "sparkplug": also keeps the version in
            Sparkplug's namespaces (RabbitMQ's mqtt.sparkplug); "unchanged".
        percent_encoding: percent-encode names in AMQP 1.0 addresses; False: names are unchanged.
        packet_identifier: for a PUBLISH of QoS 1.
        lossless: raise ConversionError if anything would be lost.
        explain: `losses` reports every value.

    Raises:
        ConversionError: the message is refused; `rule` says by which rule.
        ValueError: unknown protocol, dialect or `topics`.
    """
    cdef ConvertRules rules = convert_rules_of(dialect)
    cdef int translation = convert_topics_of(topics)
    cdef int number
    cdef ConvertDelivery d
    cdef Conversion out
    memset(&d, 0, sizeof(d))
    d.target = <uint8_t>protocol_number(to)
    d.explain = explain
    d.packet_identifier = packet_identifier
    wire = message if type(message) is Wire else wire_of(message, source)
    number = protocol_number(wire.protocol)
    if number == d.target and rules.same_is_identity:
        return unconverted(wire)
    out = convert_octets(rules, number, wire.octets, wire.body,
                         convert_topic_octets(routing_key, True, translation) if routing_key else b"",
                         convert_exchange_of(mqtt_exchange), translation, percent_encoding, None, &d)
    if lossless:
        check_lossless(out)
    return out


cdef int check_lossless(Conversion result) except -1:
    """Raise ConversionError if anything was lost."""
    lost = tuple([loss for loss in result.losses if loss.what != "taken"])
    if lost:
        raise ConversionError(f"{len(lost)} values would be lost or changed", rule=lost[0].rule, losses=lost)
    return 0
