# The row of an operation.
from wirefmt.spec.insight import KINDS as OPERATION_KINDS, OUTCOMES as OUTCOME_NAMES

if len(OPERATION_KINDS) != O_COUNT or len(OUTCOME_NAMES) != E_COUNT:
    raise SystemError("an enum and its names differ")

cdef list _BYTES = [name.encode() for name in (*OPERATION_KINDS, *OUTCOME_NAMES)]      # keeps the texts alive
cdef Text[O_COUNT] KIND_TEXT
cdef Text[E_COUNT] OUTCOME_TEXT


cdef int fill_names() except -1:
    cdef int i
    cdef bytes text
    for i, text in enumerate(_BYTES):
        if i < O_COUNT:
            KIND_TEXT[i] = pad_text(text)
        else:
            OUTCOME_TEXT[i - O_COUNT] = pad_text(text)
    return 0


fill_names()

cdef dict _O = {column.name: i for i, column in enumerate(OPERATION_COLUMNS)}

cdef int[Z_COUNT] OP_TEXT
OP_TEXT = [_O[name] for name in (
    "capture", "client_id", "client_ip", "link", "destination", "routing_key", "queue", "consumer_group", "operation",
    "message_kind", "message_id", "correlation_id", "reply_to", "traceparent", "death_reason",
    "death_queue", "text")]
cdef int OC_FLOW_ID = _O["flow_id"], OC_PROTOCOL = _O["protocol"], OC_CLIENT_PORT = _O["client_port"]
cdef int OC_DIRECTION = _O["direction"], OC_CHANNEL = _O["channel"], OC_SEQUENCE = _O["sequence"], OC_KIND = _O["kind"]
cdef int OC_PAYLOAD_SIZE = _O["payload_size"], OC_PAYLOAD_HASH = _O["payload_hash"], OC_REDELIVERED = _O["redelivered"]
cdef int OC_ATTEMPTS = _O["attempts"], OC_TRANSMISSIONS = _O["transmissions"], OC_STARTED = _O["started"]
cdef int OC_STARTED_NS = _O["started_ns"], OC_COMPLETED = _O["completed"], OC_DURATION = _O["duration_ns"]
cdef int OC_RECEIVED = _O["received"], OC_RELEASED = _O["released"], OC_REQUEST_FRAME = _O["request_frame"]
cdef int OC_QOS = _O["qos"], OC_RETAINED = _O["retained"], OC_PERSISTENT = _O["persistent"], OC_TTL = _O["ttl_ms"]
cdef int OC_RESUMED_FROM = _O["resumed_from"]
cdef int OC_RESPONSE_FRAME = _O["response_frame"], OC_OUTCOME = _O["outcome"], OC_CODE = _O["code"]

cdef void begin_op(Op* o, Conn* c, const Row* r, int kind, int request) noexcept nogil:
    """An operation that this message opens, with what all protocols say of it. Its texts lie in the batch."""
    cdef Span s
    memset(o, 0, sizeof(Op))
    o.conn = c
    o.flow_id = c.flow_id
    o.protocol = <int8_t>c.protocol
    o.kind = <uint8_t>kind
    o.request = <int16_t>request
    o.direction = <int8_t>number_of(r, T_DIRECTION, 0)
    o.channel = <int32_t>number_of(r, T_CHANNEL, ABSENT)
    o.client_port = <int32_t>number_of(r, T_DST_PORT if o.direction else T_SRC_PORT, ABSENT)
    o.code = ABSENT
    o.sequence = number_of(r, T_SEQUENCE, ABSENT)
    o.redelivered = o.retained = o.persistent = <int8_t>-1
    o.qos = <int8_t>number_of(r, T_QOS, -1)
    o.ttl_ms = number_of(r, T_TTL_MS, -1)
    if is_set(r.cols + T_REDELIVERED, r.at):
        o.redelivered = true_at(r.cols + T_REDELIVERED, r.at)
    o.attempts = <int32_t>number_of(r, T_ATTEMPTS, ABSENT)
    o.transmissions = 1
    o.payload_size = number_of(r, T_PAYLOAD_SIZE, -1)
    o.started_ns = number_of(r, T_TS_NS, 0)
    o.received_ns = o.released_ns = -1
    o.frame = number_of(r, T_FRAME_NO, -1)
    s = text_of(r, T_PAYLOAD)
    if s.at != NULL and s.size == o.payload_size:
        o.has_hash = True
        o.hash = hash_span(0, &s)
    o.texts[Z_CAPTURE] = text_of(r, T_CAPTURE)
    o.texts[Z_CLIENT_ID] = c.texts[Y_CLIENT_ID]
    o.texts[Z_CLIENT_IP] = text_of(r, T_DST_IP if o.direction else T_SRC_IP)
    o.texts[Z_DESTINATION] = text_of(r, T_DESTINATION)
    o.texts[Z_ROUTING_KEY] = text_of(r, T_ROUTING_KEY)
    o.texts[Z_GROUP] = text_of(r, T_CONSUMER_GROUP)
    o.texts[Z_OPERATION] = text_of(r, T_OPERATION)
    o.texts[Z_MESSAGE_KIND] = text_of(r, T_KIND)
    o.texts[Z_MESSAGE_ID] = text_of(r, T_MESSAGE_ID)
    o.texts[Z_CORRELATION_ID] = text_of(r, T_CORRELATION_ID)
    o.texts[Z_REPLY_TO] = text_of(r, T_REPLY_TO)
    if o.payload_size >= 0:
        o.texts[Z_TRACEPARENT] = entry_of(r.cols + T_HEADERS, r.at, b"traceparent")


cdef void begin_unseen(Op* o, Conn* c, const Row* r, int direction, int request, const char* kind) noexcept nogil:
    """A publish or delivery of this direction, of which only what follows it was captured: the message in this row."""
    begin_op(o, c, r, O_DELIVER if direction else O_PUBLISH, request)
    o.direction = <int8_t>direction
    o.frame = -1
    o.payload_size = -1
    o.texts[Z_MESSAGE_KIND].at = <const uint8_t*>kind
    o.texts[Z_MESSAGE_KIND].size = <uint32_t>strlen(kind)
    o.texts[Z_OPERATION].at = <const uint8_t*>(b"receive" if direction else b"send")
    o.texts[Z_OPERATION].size = 7 if direction else 4


cdef inline bint began_before(const Conn* c) noexcept nogil:
    """Did the connection begin before the capture?"""
    return not c.begun and c.numbers[N_LOGIN] < 0


cdef void put_operation(Col* c, int64_t row, const Op* o, int outcome, int64_t completed_ns,
                        int64_t response_frame) noexcept nogil:
    """completed_ns, response_frame: -1 if no answer was seen."""
    cdef int i
    put_i64(c + OC_FLOW_ID, row, o.flow_id)
    if o.resumed_from:
        put_i64(c + OC_RESUMED_FROM, row, o.resumed_from)
    put_text(c + OC_PROTOCOL, row, &PROTOCOL_PADDED[o.protocol])
    for i in range(Z_COUNT):
        put_span(c + OP_TEXT[i], row, &o.texts[i])
    put_i8(c + OC_DIRECTION, row, o.direction)
    if o.client_port != ABSENT:
        put_i32(c + OC_CLIENT_PORT, row, o.client_port)
    if o.channel != ABSENT:
        put_i32(c + OC_CHANNEL, row, o.channel)
    if o.sequence != ABSENT:
        put_i64(c + OC_SEQUENCE, row, o.sequence)
    put_text(c + OC_KIND, row, &KIND_TEXT[o.kind])
    if o.payload_size >= 0:
        put_i64(c + OC_PAYLOAD_SIZE, row, o.payload_size)
    if o.has_hash:
        put_i64(c + OC_PAYLOAD_HASH, row, <int64_t>o.hash)
    if o.redelivered >= 0:
        put_bool(c + OC_REDELIVERED, row, o.redelivered)
    if o.attempts != ABSENT:
        put_i32(c + OC_ATTEMPTS, row, o.attempts)
    put_i32(c + OC_TRANSMISSIONS, row, o.transmissions)
    if o.qos >= 0:
        put_i8(c + OC_QOS, row, o.qos)
    if o.retained >= 0:
        put_bool(c + OC_RETAINED, row, o.retained)
    if o.persistent >= 0:
        put_bool(c + OC_PERSISTENT, row, o.persistent)
    if o.ttl_ms >= 0:
        put_i64(c + OC_TTL, row, o.ttl_ms)
    if o.frame >= 0:                                    # the request was captured
        put_i64(c + OC_REQUEST_FRAME, row, o.frame)
        put_us(c + OC_STARTED, row, o.started_ns)
        put_i64(c + OC_STARTED_NS, row, o.started_ns)
    if completed_ns >= 0:
        put_us(c + OC_COMPLETED, row, completed_ns)
        put_i64(c + OC_RESPONSE_FRAME, row, response_frame)
        if o.frame >= 0:
            put_i64(c + OC_DURATION, row, completed_ns - o.started_ns)
    if o.received_ns >= 0:
        put_us(c + OC_RECEIVED, row, o.received_ns)
    if o.released_ns >= 0:
        put_us(c + OC_RELEASED, row, o.released_ns)
    put_text(c + OC_OUTCOME, row, &OUTCOME_TEXT[outcome])
    if o.code != ABSENT:
        put_i32(c + OC_CODE, row, o.code)
