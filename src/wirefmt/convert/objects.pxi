# Conversions as Python calls: octets in, octets out. The broker's additions on delivery are merged between reader and writer.
from wirefmt.errors import ConversionError


cdef enum:
    CONVERT_START = 1024            # octets of a result that need no allocation


@cython.final
cdef class Delivery:
    """The broker's knowledge of a message, which is added to the message on delivery.

    `annotations` are pairs of a key and a str, int, bool or (b"timestamp", milliseconds), the broker's first; `deaths` are
    tuples (queue, reason, count, first_time_ms, last_time_ms, exchange, routing_keys, ttl_ms | None), latest first. A negative
    number means unknown.
    """
    cdef int durable, priority, qos
    cdef int64_t ttl_ms, expiry_s
    cdef uint64_t timestamp_s
    cdef bint has_timestamp
    cdef uint32_t delivery_count
    cdef bint first_acquirer, redelivered, stored, entry, keeps_expiry, retain, clears_ttl
    cdef bytes entries10, entries091
    cdef uint32_t count10, count091

    def __init__(self, known, dict said, bint redelivered, uint32_t delivery_count, int qos, retain, waited_ms,
                 bint stream, bint published, bint keeps_expiry, /):
        """known: Annotations. said: the result of essentials_of. stream: the message is an entry of a stream. published: it
        becomes one. Other arguments: as in Container.deliver."""
        cdef object value = known.durable
        cdef object extra = known.extra
        cdef list annotations = [(key, extra[key]) for key in sorted(extra, reverse=True)] if extra else []
        cdef list deaths = [(d.queue, d.reason, d.count, d.first_time_ms, d.last_time_ms, d.exchange, d.routing_keys, d.ttl_ms)
                            for d in known.deaths]
        self.durable = -1 if value is None else value
        value = known.priority
        self.priority = -1 if value is None else value
        value = known.ttl_ms
        self.ttl_ms = -1 if value is None else value
        self.clears_ttl = value is not None and self.ttl_ms == -1
        value = said.get("expiry_s")
        self.expiry_s = -1 if value is None else max(0, value - -(-waited_ms // 1000)) if waited_ms else value
        value = known.timestamp_ms
        self.has_timestamp = value is not None
        if value is not None:
            seconds = abs(value) // 1000
            self.timestamp_s = <uint64_t>((seconds if value >= 0 else -seconds) & 0xFFFFFFFFFFFFFFFF)
        self.delivery_count = delivery_count
        self.first_acquirer = not redelivered and delivery_count == 0 and not deaths
        self.redelivered = redelivered
        self.stored = not stream and not published
        self.entry = stream
        self.keeps_expiry = keeps_expiry
        self.retain = said.get("retain") if retain is None else retain
        self.qos = qos
        # in RabbitMQ's order
        value = known.received_ms
        if value is not None and not stream:            # a stream entry has it in its own annotations
            annotations.append(("x-opt-rabbitmq-received-time", (b"timestamp", value)))
        annotations.append(("x-exchange", known.exchange))
        annotations.append(("x-routing-key", known.routing_keys[0]))
        self.write(annotations, deaths)

    cdef int write(self, list annotations, list deaths) except -1:
        """The annotations and deaths as entries of AMQP 1.0 annotations and of AMQP 0.9.1 headers."""
        cdef Octets a, b
        memset(&a, 0, sizeof(a))
        memset(&b, 0, sizeof(b))
        try:
            for key, value in annotations:
                self.count10 += 1
                add_symbol10(&a, key)
                if isinstance(value, tuple):
                    amqp10_add_fixed(&a, AMQP10_CODE_TIMESTAMP, <uint64_t><int64_t>value[1])
                elif isinstance(value, bool):
                    convert_add_number(&a, AMQP10_BOOLEAN, value)
                elif isinstance(value, int):
                    amqp10_add_long(&a, value)
                else:
                    add_string10(&a, value)
                if key == "x-exchange" or key == "x-routing-key":
                    continue                # basic.deliver has them
                self.count091 += 1
                if isinstance(value, tuple):
                    add_name091(&b, "timestamp_in_ms")
                    amqp091_add_i64(&b, c"l", value[1])
                    continue
                add_name091(&b, key)
                if isinstance(value, bool):
                    amqp091_add_i64(&b, c"t", value)
                elif isinstance(value, int):
                    amqp091_add_i64(&b, c"l", value)
                else:
                    add_longstr091(&b, value)
            if deaths:
                self.count10 += 1
                self.count091 += 1
                add_deaths10(&a, deaths)
                add_deaths091(&b, deaths)
            self.entries10 = taken_octets(&a)
            self.entries091 = taken_octets(&b)
        finally:
            free_octets(&a)
            free_octets(&b)
        return 0


cdef bytes utf8_of(object text):
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = ascii_octets(<PyObject*>text, &size)
    if p != NULL:
        return octets_of(p, <uint32_t>size)
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


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


cdef int add_deaths10(Octets* o, list deaths) except -1:
    """x-opt-deaths: an array of maps."""
    cdef size_t array, at
    add_symbol10(o, "x-opt-deaths")
    array = amqp10_open(o)
    add_u8(o, AMQP10_CODE_MAP32)
    for queue, reason, count, first_time, last_time, exchange, keys, ttl in deaths:
        extend_octets(o, 4)
        at = o.size
        add_u32(o, 14 if ttl is None else 16)
        if ttl is not None:
            add_symbol10(o, "ttl")
            convert_add_number(o, AMQP10_UINT, ttl)
        add_symbol10(o, "queue")
        add_string10(o, queue)
        add_symbol10(o, "reason")
        add_symbol10(o, reason)
        add_symbol10(o, "count")
        amqp10_add_ulong(o, count)
        add_symbol10(o, "first-time")
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, first_time)
        add_symbol10(o, "last-time")
        amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, last_time)
        add_symbol10(o, "exchange")
        add_string10(o, exchange)
        add_symbol10(o, "routing-keys")
        add_keys10(o, keys)
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


cdef int add_deaths091(Octets* o, list deaths) except -1:
    """x-death: an array of tables."""
    cdef size_t array, table, inner
    add_name091(o, "x-death")
    add_u8(o, c"A")
    array = amqp091_open(o)
    for queue, reason, count, first_time, _, exchange, keys, ttl in deaths:
        add_u8(o, c"F")
        table = amqp091_open(o)
        if ttl is not None:
            add_name091(o, "original-expiration")
            add_longstr091(o, str(ttl))
        add_name091(o, "count")
        amqp091_add_i64(o, c"l", count)
        for name, value in (("reason", reason), ("queue", queue)):
            add_name091(o, name)
            add_longstr091(o, value)
        add_name091(o, "time")
        amqp091_add_i64(o, c"T", first_time // 1000)
        add_name091(o, "exchange")
        add_longstr091(o, exchange)
        add_name091(o, "routing-keys")
        add_u8(o, c"A")
        inner = amqp091_open(o)
        for key in keys:
            add_longstr091(o, key)
        amqp091_close(o, inner)
        amqp091_close(o, table)
    amqp091_close(o, array)
    return 0


# ------------------------------------------------------------------------------------------------ results

@cython.final
@cython.freelist(64)
cdef class Conversion:
    """A message in another protocol. `losses` reports what was lost.

    `octets` are the bytes of the result; for AMQP 0.9.1 property flags and properties, and `body` (otherwise None). `message`
    is the result as an object of its protocol: amqp10.Message, mqtt.Publish, or a pair of amqp091.BasicProperties and body.
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
            self.losses_ = self.told()
        return self.losses_

    cdef tuple told(self):
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


cdef bytes told_octets(int type, Span s, int source):
    """The octets of a value; one octet for an AMQP 1.0 boolean that has only a constructor."""
    if s.at == NULL:
        return b""
    if source == CONVERT_AMQP10 and type == AMQP10_BOOLEAN and s.size == 0:
        return b"\1" if (s.at - 1)[0] == AMQP10_CODE_TRUE else b"\0"
    return octets_of(s.at, s.size)


cdef frozenset CONVERT_COMPOUNDS = frozenset(("list", "map", "array", "described", "table"))


cdef object hidden_octets(int type, Span key, Span s, int source):
    """The octets of a note, which a repr hides if they are or may contain a secret."""
    cdef bytes octets = told_octets(type, s, source)
    if key.at != NULL and is_secret_name(key.at, key.size):
        return hidden(octets)
    if type < CONVERT_KEY_TYPE and CONVERT_TYPE_NAMES[source][type] in CONVERT_COMPOUNDS and \
            holds_secret_word(s.at, s.size):
        return hidden(octets)
    return octets


cdef inline bytes bytes_of(object data):
    return <bytes>data if PyBytes_CheckExact(data) else bytes(data)


cdef Conversion convert_octets(ConvertRules rules, int source, bytes a, bytes b, int target, bytes exchange, bytes topic,
                               uint16_t packet_identifier, bint tell, Delivery delivery, int topics,
                               bint percent_encoding):
    """Convert one message. Raises ConversionError if it is refused."""
    cdef Converter x
    cdef Octets o
    cdef uint8_t[CONVERT_START] start
    cdef Conversion out
    cdef Span to
    cdef int status
    cdef bint same = source == target
    if a is None or topic is None:
        raise TypeError("a message and its topic must be bytes, not None")
    if PyBytes_GET_SIZE(a) > 0x7FFFFFFF or (b is not None and PyBytes_GET_SIZE(b) > 0x7FFFFFFF):
        raise ConversionError("more than 2 GiB", rule="too-large")
    convert_begin(&x, rules, source, target)
    x.tell = tell
    x.topics = <uint8_t>topics
    x.plain_addresses = not percent_encoding
    x.mqtt_exchange.at = begin_of(exchange)
    x.mqtt_exchange.size = <uint32_t>PyBytes_GET_SIZE(exchange)
    to.at = begin_of(topic)
    to.size = <uint32_t>PyBytes_GET_SIZE(topic)
    o = octets_over(start, CONVERT_START)
    try:
        if delivery is not None:
            convert_prepare(&x, delivery)
        if same:
            status = convert_same(&x, a, b, delivery, &o)
        else:
            status = convert_read(&x, a, b)
        if status != OK:
            raise_refused(rules, &x, status)
        if delivery is not None:
            convert_deliver(&x, delivery)
        out = Conversion.__new__(Conversion)
        out.protocol = CONVERT_PROTOCOL_NAMES[target]
        if target == CONVERT_AMQP10:
            if not same:
                convert_write_amqp10(&x, &o)
        elif target == CONVERT_AMQP091:
            convert_write_amqp091(&x, &o)
            out.body = b if b is not None and x.payload.at == begin_of(b) else octets_of(x.payload.at, x.payload.size)
        else:
            x.refused = convert_topic_refused(&x, &to)
            if not x.refused and not convert_write_mqtt5(&x, &o, &to, delivery is not None and delivery.redelivered,
                                                         packet_identifier):
                x.refused = REFUSED_TOO_LARGE
            if x.refused:
                raise_refused(rules, &x, CONVERT_REFUSED)
        if x.failed or o.failed or x.lists[0].failed or x.lists[1].failed:
            raise MemoryError
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


cdef uint8_t convert_topic_refused(const Converter* x, const Span* topic) noexcept nogil:
    """Why a routing key cannot be the topic of a PUBLISH, if only valid values are converted; 0: it can."""
    if not x.valid:
        return 0
    if topic.size == 0:
        return REFUSED_NO_TOPIC                 # [MQTT-4.7.3-1]
    if not convert_is_text(topic) or memchr(topic.at, c"+", topic.size) != NULL or memchr(topic.at, c"#", topic.size) != NULL:
        return REFUSED_TOPIC                    # [MQTT-3.3.2-2], [MQTT-1.5.4-1]
    return 0


cdef int convert_read(Converter* x, bytes a, bytes b) except -1:
    cdef MqttPacketView packet
    cdef Span body
    if not x.pair.there:
        x.refused = REFUSED_NO_RULES
        return CONVERT_REFUSED
    if x.source == CONVERT_AMQP10:
        return convert_read_amqp10(x, begin_of(a), <size_t>PyBytes_GET_SIZE(a))
    if x.source == CONVERT_MQTT5:
        return convert_read_mqtt5(x, begin_of(a), <size_t>PyBytes_GET_SIZE(a), &packet)
    body = span_of_bytes(b)
    return convert_read_amqp091(x, begin_of(a), <size_t>PyBytes_GET_SIZE(a), body)


cdef inline Span span_of_bytes(bytes b):
    cdef Span s
    s.at = <const uint8_t*>b"" if b is None else begin_of(b)
    s.size = 0 if b is None else <uint32_t>PyBytes_GET_SIZE(b)
    return s


cdef int raise_refused(ConvertRules rules, Converter* x, int status) except -1:
    if status == CONVERT_UNDECODABLE:
        name = CONVERT_PROTOCOL_NAMES[x.source]
        if x.fault.status == UNSUPPORTED and x.fault.check == 0:
            raise ConversionError("not a PUBLISH", rule="mqtt5:not-publish")
        cause = make_fault(&AMQP10_TABLES if x.source == CONVERT_AMQP10 else &AMQP091_TABLES
                           if x.source == CONVERT_AMQP091 else &MQTT_TABLES, &x.fault, 0)
        raise ConversionError(str(cause), rule=f"{name}:undecodable") from cause
    if x.refused:
        rule, text = CONVERT_REFUSALS[x.refused]
        raise ConversionError(text, rule=rule)
    raise ConversionError("the message is refused", rule=rules.ids[x.number])


# ------------------------------------------------------------------------------------------------ delivery

cdef int convert_prepare(Converter* x, Delivery d) except -1:
    """Before the message is read: additions that precede its own annotations and headers."""
    x.stored = d.stored and x.source == CONVERT_AMQP10
    x.entry = d.entry
    if x.target == CONVERT_AMQP10:
        convert_prepare_entries(x, d.entries10, d.count10)
        x.broker = d.count10
    elif x.target == CONVERT_AMQP091:
        convert_prepare_entries(x, d.entries091, d.count091)
        x.sorted = True
    return 0


cdef int convert_prepare_entries(Converter* x, bytes entries, uint32_t count) except -1:
    cdef const uint8_t* at = begin_of(entries)
    cdef Cursor c = cursor_over(at, <size_t>PyBytes_GET_SIZE(entries))
    cdef Amqp091Entry e
    cdef ConvertValue v
    cdef uint32_t i
    memset(&v, 0, sizeof(v))
    v.type = CONVERT_ABSENT                     # not from the source
    for i in range(count):
        convert_keep(x, 0, <size_t>(at - begin_of(entries)), NULL, 0, &v)
        if x.target == CONVERT_AMQP10:
            at = amqp10_skip(amqp10_skip(at))
        else:
            amqp091_next_entry(&c, True, &e)
            at = c.at
    add_octets(&x.lists[0], begin_of(entries), <size_t>PyBytes_GET_SIZE(entries))
    return 0


cdef int convert_deliver(Converter* x, Delivery d) except -1:
    """After the message was read: fields that the broker decides."""
    if x.target == CONVERT_AMQP10:
        convert_deliver_10(x, d)
    elif x.target == CONVERT_AMQP091:
        convert_deliver_091(x, d)
    else:
        convert_deliver_5(x, d)
    return 0


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


cdef void convert_deliver_10(Converter* x, Delivery d) noexcept:
    convert_open_sections(x)
    if x.slots[C10_DURABLE].type == 0 and not x.has_header:
        convert_set(x, C10_DURABLE, AMQP10_BOOLEAN, d.durable != 0)
    if x.stored and d.priority >= 0:
        convert_set(x, C10_PRIORITY, AMQP10_UBYTE, <uint64_t>d.priority)
    if x.stored and d.ttl_ms >= 0:
        convert_set(x, C10_TTL, AMQP10_UINT, <uint64_t>d.ttl_ms & 0xFFFFFFFFU)
    convert_set(x, C10_FIRST_ACQUIRER, AMQP10_BOOLEAN, d.first_acquirer)
    convert_set(x, C10_DELIVERY_COUNT, AMQP10_UINT, d.delivery_count)


cdef void convert_deliver_091(Converter* x, Delivery d) noexcept:
    if x.stored and d.durable > 0 and x.slots[C91_DELIVERY_MODE].type == 0:
        convert_set(x, C91_DELIVERY_MODE, C91T_OCTET, 2)
    if x.stored and d.priority >= 0 and x.slots[C91_PRIORITY].type == 0:
        convert_set(x, C91_PRIORITY, C91T_OCTET, <uint64_t>d.priority)
    if d.has_timestamp:
        convert_set(x, C91_TIMESTAMP, C91T_TIMESTAMP, d.timestamp_s)
    else:
        convert_clear(x, C91_TIMESTAMP)
    if d.clears_ttl:
        convert_clear(x, C91_EXPIRATION)
    elif d.ttl_ms >= 0:
        convert_set_text(x, C91_EXPIRATION, C91T_SHORTSTR, convert_decimal(x, <uint64_t>d.ttl_ms))


cdef void convert_deliver_5(Converter* x, Delivery d) noexcept:
    cdef uint64_t qos = x.slots[C5_QOS].number
    if x.source == CONVERT_AMQP10 and d.durable >= 0:
        qos = d.durable
    convert_set(x, C5_QOS, C5T_BITS, min(qos, <uint64_t>d.qos))
    convert_set(x, C5_RETAIN, C5T_BITS, d.retain)
    if d.clears_ttl or not d.keeps_expiry:
        convert_clear(x, C5_MESSAGE_EXPIRY_INTERVAL)
    elif d.expiry_s >= 0 and x.slots[C5_MESSAGE_EXPIRY_INTERVAL].type:
        convert_set(x, C5_MESSAGE_EXPIRY_INTERVAL, C5T_UINT, <uint64_t>d.expiry_s)


# ------------------------------------------------------------------------------------------------ one protocol

cdef int convert_same(Converter* x, bytes a, bytes b, Delivery d, Octets* o) except -1:
    """A broker's delivery to a consumer of the publisher's protocol."""
    cdef int status
    if x.source == CONVERT_AMQP10:
        status = convert_same_10(x, begin_of(a), <size_t>PyBytes_GET_SIZE(a), d is None)
        if status == OK:
            if d is not None:
                convert_deliver_10(x, d)
            convert_write_amqp10(x, o)
            add_octets(o, x.payload.at, x.payload.size)
        return status
    if x.source == CONVERT_AMQP091:
        return convert_same_091(x, begin_of(a), <size_t>PyBytes_GET_SIZE(a), span_of_bytes(b))
    return convert_same_5(x, begin_of(a), <size_t>PyBytes_GET_SIZE(a))


cdef int convert_same_10(Converter* x, const uint8_t* p, size_t n, bint anew) noexcept nogil:
    """Write header and annotations again; keep the bare message and the footer. `anew`: also write properties again."""
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
        if section.code < AMQP10_SECTION_DATA and anew:
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
    cdef Cursor c
    cdef uint32_t i
    cdef int identifier, field
    cdef int status = convert_parse_publish(x, p, n, &m)
    if status != OK:
        return status
    memset(values, 0, sizeof(values))
    convert_plain(&v)
    c = cursor_over(m.properties.at, m.properties.size)
    if not convert_collect(x, &c, m.property_count, values, &pairs):
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
        convert_tell(x, NULL, &v, CONVERT_NARROWED, REASON_VALUE)
    if m.flags & 1:
        x.field = C5_RETAIN
        convert_fill(x, C5_RETAIN, C5T_BITS, v.octets, 1, NULL, &v)


# ------------------------------------------------------------------------------------------------ what a broker learns

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object o, object name, object value) except -1


def frozen(cls, tuple names not None, *values):
    """An instance of a frozen dataclass with slots, made several times as fast as by its constructor. One value per
    name."""
    cdef Py_ssize_t i
    made = cls.__new__(cls)
    for i in range(len(names)):
        PyObject_GenericSetAttr(made, names[i], values[i])
    return made


def essentials_of(ConvertRules rules not None, int source, data, bint routed):
    """The properties that a broker derives from an arriving message: a dict with the known ones of durable, priority, ttl_ms,
    timestamp_ms, topic, retain, expiry_s, cc, bcc, exchange, routing_key, received_ms. `routed`: the message is from
    a stream and contains its routing. Raises ConversionError if it is refused."""
    cdef bytes a = bytes_of(data)
    cdef const uint8_t* p = begin_of(a)
    cdef size_t n = <size_t>PyBytes_GET_SIZE(a)
    if source == CONVERT_AMQP10:
        return essentials_of_10(p, n, routed)
    if source == CONVERT_AMQP091:
        return essentials_of_091(p, n)
    return essentials_of_5(rules, p, n)


cdef dict essentials_of_10(const uint8_t* p, size_t n, bint routed):
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef Amqp10ValueView v, key
    cdef Amqp10Items items
    cdef Fault f
    cdef int64_t ms = 0
    cdef dict out = {}
    memset(&o, 0, sizeof(o))
    if amqp10_parse_message(p, n, &o, &m, &f) != OK:
        cause = make_fault(&AMQP10_TABLES, &f, 0)
        raise ConversionError(str(cause), rule="amqp10:undecodable") from cause
    if m.header.shape:
        if amqp10_field(&m.header, AMQP10_HEADER_DURABLE, &v):
            out["durable"] = amqp10_unsigned(&v) != 0
        if amqp10_field(&m.header, AMQP10_HEADER_PRIORITY, &v):
            out["priority"] = amqp10_unsigned(&v)
        if amqp10_field(&m.header, AMQP10_HEADER_TTL, &v):
            out["ttl_ms"] = amqp10_unsigned(&v)
    if m.properties.shape and amqp10_field_timestamp(&m.properties, AMQP10_PROPERTIES_CREATION_TIME, &ms):
        out["timestamp_ms"] = ms
    if m.at[AMQP10_SECTION_MESSAGE_ANNOTATIONS - AMQP10_SECTION_FIRST] == NULL:
        return out
    amqp10_read(m.at[AMQP10_SECTION_MESSAGE_ANNOTATIONS - AMQP10_SECTION_FIRST], &v)
    items = amqp10_items(&v)
    while amqp10_next(&items, &key):
        amqp10_next(&items, &v)
        note_annotation(out, &key, &v, routed)
    return out


cdef int note_annotation(dict out, const Amqp10ValueView* key, const Amqp10ValueView* v, bint routed) except -1:
    """Annotations that describe how the message was routed."""
    cdef Amqp10Items items
    cdef Amqp10ValueView item
    cdef Span s
    cdef uint64_t number = 0
    name = octets_of(key.body, key.size)
    if name == b"x-cc":
        items = amqp10_items(v)
        keys = []
        while v.type == AMQP10_LIST and amqp10_next(&items, &item):
            if item.type != AMQP10_STRING:
                break
            keys.append(octets_of(item.body, item.size))
        if not routed and v.type != AMQP10_NULL and (v.type != AMQP10_LIST or <uint32_t>len(keys) != v.count):
            raise ConversionError(CONVERT_REFUSALS[REFUSED_CC][1], rule=CONVERT_REFUSALS[REFUSED_CC][0])
        out["cc"] = keys
    elif name == b"x-basic-delivery-mode" and v.type == AMQP10_UBYTE:
        out.setdefault("durable", amqp10_unsigned(v) == 2)
    elif name == b"x-basic-priority" and AMQP10_UBYTE <= v.type <= AMQP10_LONG:
        number = amqp10_unsigned(v) if v.type <= AMQP10_ULONG else <uint64_t>amqp10_signed(v)
        if number < 256:
            out.setdefault("priority", number)
    elif name == b"x-basic-expiration" and v.type == AMQP10_STRING:
        s = amqp10_octets(v)
        if convert_number(&s, &number):
            out.setdefault("ttl_ms", number)
    elif routed and v.type == AMQP10_STRING and (name == b"x-exchange" or name == b"x-routing-key"):
        out[name[2:].decode().replace("-", "_")] = octets_of(v.body, v.size)
    elif routed and name == b"x-opt-rabbitmq-received-time" and v.type == AMQP10_TIMESTAMP:
        out["received_ms"] = amqp10_signed(v)
    return 0


cdef dict essentials_of_091(const uint8_t* p, size_t n):
    cdef Amqp091Options o
    cdef Amqp091PropertiesView m
    cdef Amqp091Entry e
    cdef Fault f
    cdef Span s
    cdef uint64_t number = 0
    cdef const uint8_t* at
    cdef dict out = {}
    memset(&o, 0, sizeof(o))
    if amqp091_parse_properties(p, n, &o, &m, &f) != OK:
        cause = make_fault(&AMQP091_TABLES, &f, 0)
        raise ConversionError(str(cause), rule="amqp091:undecodable") from cause
    at = amqp091_property(&m, AMQP091_PROPERTY_DELIVERY_MODE)
    out["durable"] = at != NULL and at[0] == 2
    at = amqp091_property(&m, AMQP091_PROPERTY_PRIORITY)
    if at != NULL:
        out["priority"] = at[0]
    at = amqp091_property(&m, AMQP091_PROPERTY_TIMESTAMP)
    if at != NULL:
        out["timestamp_ms"] = load_u64(at) * <object>1000
    at = amqp091_property(&m, AMQP091_PROPERTY_EXPIRATION)
    if at != NULL:
        s = amqp091_shortstr_at(at)
        if convert_number(&s, &number):
            out["ttl_ms"] = number
    at = amqp091_property(&m, AMQP091_PROPERTY_HEADERS)
    for name in (b"CC", b"BCC"):
        if at != NULL and amqp091_find_entry(at, <const char*>name, <size_t>len(name), &e):
            if e.letter != c"A":
                raise ConversionError(f"{name.decode()} is not an array", rule=f"amqp091:headers-{name.decode().lower()}-type")
            out[name.decode().lower()] = longstrs_of(&e)
    return out


cdef list longstrs_of(const Amqp091Entry* entry):
    cdef Cursor c = cursor_over(entry.at, entry.size)
    cdef Amqp091Entry e
    cdef list out = []
    while amqp091_next_entry(&c, False, &e):
        if e.letter == c"S":
            out.append(octets_of(e.at, e.size))
    return out


cdef dict essentials_of_5(ConvertRules rules, const uint8_t* p, size_t n):
    cdef MqttPacketView m
    cdef Converter x
    cdef Cursor c
    cdef dict out = {}
    cdef int status
    convert_begin(&x, rules, CONVERT_MQTT5, CONVERT_MQTT5)
    try:
        status = convert_parse_publish(&x, p, n, &m)
        if status != OK:
            raise_refused(rules, &x, status)
    finally:
        convert_end(&x)
    if m.topic.size == 0:
        raise ConversionError("the topic is a Topic Alias, which only its connection can resolve", rule="mqtt5:topic-alias")
    out["topic"] = octets_of(m.topic.at, m.topic.size)
    out["durable"] = (m.flags >> 1 & 3) > 0
    out["retain"] = bool(m.flags & 1)
    c = cursor_over(m.properties.at, m.properties.size)
    if m.properties_seen >> MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL & 1:
        out["expiry_s"] = expiry_of(&c)
        out["ttl_ms"] = out["expiry_s"] * 1000
    return out


cdef object expiry_of(Cursor* c):
    cdef uint32_t identifier = 0, unused = 0
    cdef int type
    cdef Span s
    while c.at < c.end:
        c.at += read_varint(c.at, left(c), &identifier)
        type = mqtt_properties[identifier].type
        if identifier == MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL:
            return load_u32(c.at)
        if type == MQTT_STRING or type == MQTT_BINARY or type == MQTT_PAIR:
            convert_take_sized(c, &s)
            if type == MQTT_PAIR:
                convert_take_sized(c, &s)
        else:
            c.at += (read_varint(c.at, left(c), &unused) if type == MQTT_VARINT else 1 if type == MQTT_BYTE else
                     2 if type == MQTT_TWO else 4)
    return None


def unconverted(wire, /):
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


cdef str CONVERT_EXCHANGE = "amq.topic"
cdef str CONVERT_TRANSLATED = CONVERT_TOPICS[0]


cdef inline bytes convert_exchange_of(object exchange):
    return b"amq.topic" if exchange is CONVERT_EXCHANGE else utf8_of(exchange)


cdef int convert_topics_of(object topics) except -1:
    """The index in CONVERT_TOPICS. ValueError: unknown name."""
    if topics is CONVERT_TRANSLATED:
        return TOPICS_TRANSLATED
    if topics not in CONVERT_TOPICS:
        raise ValueError(f"topics {topics!r} is not one of {', '.join(CONVERT_TOPICS)}")
    return CONVERT_TOPICS.index(topics)


cdef bytes convert_topic_text(object text, bint topic, int topics):
    """Translate a routing key to a topic if `topic`, otherwise a topic to a routing key."""
    cdef Converter x
    cdef bytes a = utf8_of(text)
    cdef Span s = span_of_bytes(a)
    x.topics = <uint8_t>topics
    x.free_at = x.scratch
    x.free_size = CONVERT_SCRATCH
    x.chunks = NULL
    x.failed = False
    s = convert_topic(&x, s, topic)
    out = octets_of(s.at, s.size)
    convert_free_chunks(&x)
    if x.failed:
        raise MemoryError
    return out


def topic_of(routing_key, topics="translated", /):
    """Routing key to MQTT topic."""
    return convert_topic_text(routing_key, True, convert_topics_of(topics))


def routing_key_of(topic, topics="translated", /):
    """MQTT topic to routing key."""
    return convert_topic_text(topic, False, convert_topics_of(topics))


def convert(message, *, to, source=None, dialect="documented", routing_key="", mqtt_exchange=CONVERT_EXCHANGE,
            topics=CONVERT_TRANSLATED, bint percent_encoding=True, uint16_t packet_identifier=1, bint lossless=False,
            bint explain=False):
    """Convert one message by RabbitMQ's tables: the conversion alone, without what a broker adds.

    Args:
        message: an amqp10.Message, mqtt.Publish or amqp091.BasicMessage; a pair (properties, body) of AMQP 0.9.1; bytes, with
            `source`.
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
    cdef int target = protocol_number(to)
    cdef int translation = convert_topics_of(topics)
    cdef int number
    cdef Conversion out
    wire = message if type(message) is Wire else wire_of(message, source)
    number = protocol_number(wire.protocol)
    if number == target and rules.same_is_identity:
        return unconverted(wire)
    out = convert_octets(rules, number, wire.octets, wire.body, target, convert_exchange_of(mqtt_exchange),
                         convert_topic_text(routing_key, True, translation) if routing_key else b"", packet_identifier,
                         explain, None, translation, percent_encoding)
    if lossless:
        check_lossless(out)
    return out


def convert_wire(wire, *, to, dialect, bytes topic, mqtt_exchange, uint16_t packet_identifier, bint explain,
                 Delivery delivery=None, topics=CONVERT_TRANSLATED, bint percent_encoding=True):
    """Convert the message of a Container; with a `delivery`, add what a broker adds."""
    return convert_octets(convert_rules_of(dialect), protocol_number(wire.protocol), wire.octets, wire.body,
                          protocol_number(to), convert_exchange_of(mqtt_exchange), topic, packet_identifier, explain, delivery,
                          convert_topics_of(topics), percent_encoding)


def check_lossless(Conversion result not None, /):
    """Raise ConversionError if anything was lost."""
    lost = tuple([loss for loss in result.losses if loss.what != "taken"])
    if lost:
        raise ConversionError(f"{len(lost)} values would be lost or changed", rule=lost[0].rule, losses=lost)
