# AMQP 0.9.1: what its methods mean (amqp-xml-doc 0-9-1 1.7, 1.8; RabbitMQ's confirms and basic.nack).
# Delivery tags belong to a channel and the direction of the deliveries; confirms count the publishes of a channel.

cdef StructField A9_SERVER_PROPERTIES = field("amqp091", "server_properties")
cdef StructField A9_CLIENT_PROPERTIES = field("amqp091", "client_properties")
cdef StructField A9_HEARTBEAT = field("amqp091", "heartbeat"), A9_FRAME_MAX = field("amqp091", "frame_max")
cdef StructField A9_VIRTUAL_HOST = field("amqp091", "virtual_host"), A9_REPLY_TEXT = field("amqp091", "reply_text")
cdef StructField A9_CLASS = field("amqp091", "class_id"), A9_METHOD = field("amqp091", "method_id")
cdef StructField A9_QUEUE = field("amqp091", "queue")
cdef StructField A9_NOWAIT = field("amqp091", "nowait")
cdef StructField A9_CONSUMER_TAG = field("amqp091", "consumer_tag"), A9_NO_ACK = field("amqp091", "no_ack")
cdef StructField A9_MANDATORY = field("amqp091", "mandatory"), A9_MULTIPLE = field("amqp091", "multiple")
cdef StructField A9_REQUEUE = field("amqp091", "requeue"), A9_REASON = field("amqp091", "reason")
cdef StructField A9_PREFETCH = field("amqp091", "prefetch_count"), A9_MODE = field("amqp091", "delivery_mode")
cdef StructField A9_MECHANISM = field("amqp091", "mechanism")

cdef enum:
    AMQP_PERSISTENT = 2             # delivery mode
    AMQP_REPLY_SUCCESS = 200

#: Requests that the server answers in order, with the kind of their operation; the answer is the next Kind.
cdef int[K_COUNT] A9_REQUEST
for _kind in range(K_COUNT):
    A9_REQUEST[<int>_kind] = -1
for _kind, _operation in (
        (K_CHANNEL_OPEN, O_OPEN), (K_EXCHANGE_DECLARE, O_DECLARE), (K_EXCHANGE_DELETE, O_DELETE), (K_EXCHANGE_BIND, O_BIND),
        (K_EXCHANGE_UNBIND, O_UNBIND), (K_QUEUE_DECLARE, O_DECLARE), (K_QUEUE_BIND, O_BIND), (K_QUEUE_UNBIND, O_UNBIND),
        (K_QUEUE_PURGE, O_PURGE), (K_QUEUE_DELETE, O_DELETE), (K_QOS, O_REQUEST), (K_CONSUME, O_CONSUME), (K_CANCEL, O_CANCEL),
        (K_GET, O_GET), (K_RECOVER, O_REQUEST), (K_CONFIRM_SELECT, O_REQUEST), (K_TX_SELECT, O_REQUEST),
        (K_TX_COMMIT, O_TRANSACTION), (K_TX_ROLLBACK, O_TRANSACTION), (K_CHANNEL_CLOSE, O_CLOSE), (K_CHANNEL_FLOW, O_FLOW)):
    A9_REQUEST[<int>_kind] = _operation

#: Class and method of a request, for the error of a channel that names it: the Kind.
cdef dict _METHODS = {
    (20, 10): K_CHANNEL_OPEN, (20, 20): K_CHANNEL_FLOW, (40, 10): K_EXCHANGE_DECLARE, (40, 20): K_EXCHANGE_DELETE,
    (40, 30): K_EXCHANGE_BIND, (40, 40): K_EXCHANGE_UNBIND, (50, 10): K_QUEUE_DECLARE, (50, 20): K_QUEUE_BIND,
    (50, 30): K_QUEUE_PURGE, (50, 40): K_QUEUE_DELETE, (50, 50): K_QUEUE_UNBIND, (60, 10): K_QOS, (60, 20): K_CONSUME,
    (60, 30): K_CANCEL, (60, 40): K_BASIC_PUBLISH, (60, 70): K_GET, (60, 80): K_ACK, (60, 90): K_REJECT, (60, 110): K_RECOVER,
    (60, 120): K_NACK, (85, 10): K_CONFIRM_SELECT, (90, 10): K_TX_SELECT, (90, 20): K_TX_COMMIT, (90, 30): K_TX_ROLLBACK,
}
cdef enum:
    METHODS_MAX = 100 * 128
cdef int16_t[METHODS_MAX] A9_KIND_OF
for (_class, _method), _kind in _METHODS.items():
    A9_KIND_OF[_class * 128 + _method] = _kind


cdef const char* A9_NAME[K_COUNT]
cdef list _NAMES = [name.encode() for name in KIND_NAMES[1]]
for _kind in range(len(_NAMES)):
    A9_NAME[<int>K_START + <int>_kind] = <const char*>_NAMES[_kind]


cdef void amqp091_message(OpenOperations e, Conn* c, const Row* r, int kind, int direction, Op* o) noexcept nogil:
    cdef int32_t channel = <int32_t>number_of(r, T_CHANNEL, 0)
    cdef int64_t code = number_of(r, T_CODE, ABSENT)
    cdef uint64_t tag = <uint64_t>number_of(r, T_SEQUENCE, 0)
    cdef Space* s
    cdef Known* k
    cdef Op* found
    cdef Span text, kind_text
    cdef int outcome
    if kind == K_DELIVER:
        begin_op(o, c, r, O_DELIVER, kind)
        amqp091_properties(r, o)
        c.numbers[N_DELIVERED] += 1
        text = field_text(r, A9_CONSUMER_TAG)
        o.texts[Z_LINK] = text
        k = e.known_of(c, W_CONSUMER, 0, channel, hash_span(0, &text), False)
        if k != NULL:
            o.texts[Z_QUEUE] = k.text
            if k.number:
                e.emit_alone(o)
                return
        e.open_op(o, S_DELIVER, channel, tag)
    elif kind == K_BASIC_PUBLISH:
        begin_op(o, c, r, O_PUBLISH, kind)
        amqp091_properties(r, o)
        c.numbers[N_PUBLISHED] += 1
        s = e.space_of(c, S_PUBLISH, 0, channel, True)
        if s == NULL:
            return
        if s.confirms:
            s.counter += 1
            o.sequence = s.counter
            e.open_op(o, S_PUBLISH, channel, <uint64_t>s.counter)
        elif s.transacts:
            s.counter += 1
            e.open_op(o, S_TX_PUBLISH, channel, <uint64_t>s.counter)
        elif field_true(r, A9_MANDATORY):
            s.counter += 1
            e.open_op(o, S_MANDATORY, channel, <uint64_t>s.counter)
        else:
            e.emit_alone(o)
    elif kind == K_ACK or kind == K_NACK or kind == K_REJECT:
        if direction:
            outcome = E_ACKNOWLEDGED if kind == K_ACK else E_REJECTED
        else:
            outcome = (E_ACKNOWLEDGED if kind == K_ACK else
                       E_REQUEUED if field_true(r, A9_REQUEUE) or not field_set(r, A9_REQUEUE) else E_REJECTED)
        amqp091_settle(e, c, r, channel, S_PUBLISH if direction else S_DELIVER, 1 - direction, tag,
                       field_true(r, A9_MULTIPLE), outcome)
    elif kind == K_RETURN:
        amqp091_returned(e, c, r, channel, code)
    elif kind == K_GET_OK:
        found = amqp091_answered(e, c, channel, K_GET)
        begin_op(o, c, r, O_DELIVER, kind)
        amqp091_properties(r, o)
        c.numbers[N_DELIVERED] += 1
        if found != NULL:
            o.texts[Z_QUEUE] = found.texts[Z_QUEUE]
            if found.no_ack:
                e.emit_alone(o)
            else:
                e.open_op(o, S_DELIVER, channel, tag)
            if amqp091_answered(e, c, channel, K_GET) == found:     # otherwise it was the oldest, and has ended for a limit
                e.complete(found, E_ACKNOWLEDGED, r)
        else:
            e.open_op(o, S_DELIVER, channel, tag)
    elif kind == K_GET_EMPTY:
        found = amqp091_answered(e, c, channel, K_GET)
        if found != NULL:
            text.at = <const uint8_t*>b"empty"
            text.size = 5
            e.answer(found, E_ACKNOWLEDGED, r, ABSENT, &text)
    elif kind == K_CHANNEL_CLOSE:
        amqp091_close_channel(e, c, r, direction, channel, code, o)
    elif kind == K_CHANNEL_CLOSE_OK:
        found = e.find_op(c, S_REQUEST, 1 - direction, channel, K_CHANNEL_CLOSE)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
        amqp091_end_channel(e, c, channel)
    elif kind == K_CLOSE:
        text = field_text(r, A9_REPLY_TEXT)
        kind_text = text_of(r, T_KIND)
        end_connection(c, r, direction, code > 0 and code != AMQP_REPLY_SUCCESS, &kind_text, &text, code, code != ABSENT)
        found = e.find_op(c, S_LOGIN, 0, 0, 0)
        if found != NULL:
            c.login_refused = direction == 1
            e.answer(found, E_REFUSED if direction else E_CANCELLED, r, code, &text)
    elif kind == K_PROTOCOL_HEADER:
        c.begun = True
    elif kind == K_HEARTBEAT:
        begin_op(o, c, r, O_HEARTBEAT, kind)
        e.emit_alone(o)
    elif kind == K_START:
        text = entry_of(field_of(r, A9_SERVER_PROPERTIES), r.at, b"product")
        keep_span(&c.texts[Y_SERVER_PRODUCT], &text)
    elif kind == K_START_OK:
        c.numbers[N_LOGIN] = number_of(r, T_TS_NS, -1)
        text = entry_of(field_of(r, A9_CLIENT_PROPERTIES), r.at, b"product")
        keep_span(&c.texts[Y_CLIENT_PRODUCT], &text)
        text = field_text(r, A9_MECHANISM)
        keep_span(&c.texts[Y_MECHANISM], &text)
        if is_text(&text, b"PLAIN") or is_text(&text, b"AMQPLAIN"):
            c.numbers[N_SECRET] = c.numbers[N_LOGIN]
        begin_op(o, c, r, O_LOGIN, kind)
        e.open_op(o, S_LOGIN, 0, 0)
    elif kind == K_TUNE_OK:
        if field_number(r, A9_HEARTBEAT, 0) > 0:
            c.numbers[N_KEEP_ALIVE] = 1000000000 * field_number(r, A9_HEARTBEAT, 0)
        c.numbers[N_FRAME_MAX] = field_number(r, A9_FRAME_MAX, -1)
    elif kind == K_OPEN:
        text = field_text(r, A9_VIRTUAL_HOST)
        keep_span(&c.texts[Y_VIRTUAL_HOST], &text)
    elif kind == K_OPEN_OK:
        c.logged_in = True
        found = e.find_op(c, S_LOGIN, 0, 0, 0)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
    elif kind == K_BLOCKED:
        begin_op(o, c, r, O_BLOCKED, kind)
        text = field_text(r, A9_REASON)
        o.texts[Z_DESTINATION] = text
        if e.find_op(c, S_BLOCKED, 1, 0, 0) == NULL:
            e.open_op(o, S_BLOCKED, 0, 0)
    elif kind == K_UNBLOCKED:
        found = e.find_op(c, S_BLOCKED, 1, 0, 0)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
    elif A9_REQUEST[kind] >= 0:
        amqp091_request(e, c, r, kind, direction, channel, o)
    elif kind == K_RECOVER_ASYNC:
        e.complete_all(e.space_of(c, S_DELIVER, 1, channel, False), E_REQUEUED, r)
    elif kind and A9_REQUEST[kind - 1] >= 0:
        amqp091_reply(e, c, r, kind - 1, direction, channel)


cdef void amqp091_properties(const Row* r, Op* o) noexcept nogil:
    """Of a message. The headers of dead letters are RabbitMQ's."""
    o.persistent = field_number(r, A9_MODE, 0) == AMQP_PERSISTENT
    if o.direction and is_set(r.cols + T_HEADERS, r.at):
        o.texts[Z_DEATH_REASON] = entry_of(r.cols + T_HEADERS, r.at, b"x-last-death-reason")
        o.texts[Z_DEATH_QUEUE] = entry_of(r.cols + T_HEADERS, r.at, b"x-last-death-queue")
        if o.texts[Z_DEATH_REASON].at == NULL:          # before RabbitMQ 3.13
            o.texts[Z_DEATH_REASON] = entry_of(r.cols + T_HEADERS, r.at, b"x-first-death-reason")
            o.texts[Z_DEATH_QUEUE] = entry_of(r.cols + T_HEADERS, r.at, b"x-first-death-queue")


cdef void amqp091_request(OpenOperations e, Conn* c, const Row* r, int kind, int direction, int32_t channel,
                          Op* o) noexcept nogil:
    cdef Space* s
    cdef Span text
    cdef Known* k
    begin_op(o, c, r, A9_REQUEST[kind], kind)
    text = field_text(r, A9_QUEUE)
    o.texts[Z_QUEUE] = text
    o.no_ack = field_true(r, A9_NO_ACK)
    text = field_text(r, A9_CONSUMER_TAG)
    if text.size:
        o.texts[Z_LINK] = text
    if kind == K_QOS:
        o.number = o.sequence = field_number(r, A9_PREFETCH, 0)
        s = e.space_of(c, S_DELIVER, 1, channel, True)
        if s != NULL:
            s.window = o.number
        c.numbers[N_CLIENT_WINDOW] = max(c.numbers[N_CLIENT_WINDOW], o.number)
    elif kind == K_CONFIRM_SELECT or kind == K_TX_SELECT:
        s = e.space_of(c, S_PUBLISH, 0, channel, True)
        if s != NULL and not s.confirms and not s.transacts:
            s.confirms = kind == K_CONFIRM_SELECT
            s.transacts = kind == K_TX_SELECT
            s.counter = 0
            e.complete_all(e.space_of(c, S_MANDATORY, 0, channel, False), E_NONE, NULL)
    elif kind == K_CANCEL and direction:                # the server cancels the consumer
        amqp091_cancelled(e, c, channel)
        k = e.known_of(c, W_CONSUMER, 0, channel, hash_span(0, &text), False)
        if k != NULL:
            o.texts[Z_QUEUE] = k.text
    if field_true(r, A9_NOWAIT):
        if kind == K_CONSUME:
            amqp091_consumer(e, c, channel, &text, &o.texts[Z_QUEUE], o.no_ack)
        elif kind == K_CANCEL and direction == 0:
            amqp091_cancelled(e, c, channel)
        e.emit_alone(o)
        return
    if kind == K_CONSUME and text.size:                 # deliveries may come before consume-ok
        k = e.known_of(c, W_CONSUMER, 0, channel, hash_span(0, &text), True)
        if k != NULL:
            keep_span(&k.text, &o.texts[Z_QUEUE])
            k.number = o.no_ack
    if kind == K_CHANNEL_OPEN:
        amqp091_end_channel(e, c, channel)              # close-ok was not captured
        c.channels += 1
        most(c, N_CHANNELS, c.channels)
    e.open_op(o, S_REQUEST, channel, <uint64_t>kind)


cdef Op* amqp091_answered(OpenOperations e, Conn* c, int32_t channel, int request) noexcept nogil:
    """The oldest open request of this kind of the client; NULL: not found."""
    cdef Space* s = e.space_of(c, S_REQUEST, 0, channel, False)
    cdef Op* o = s.first if s != NULL else NULL
    cdef int steps = 0
    while o != NULL and o.request != request:
        steps += 1
        o = o.after if steps < STEPS_MAX else NULL
    return o


cdef void amqp091_reply(OpenOperations e, Conn* c, const Row* r, int request, int direction, int32_t channel) noexcept nogil:
    cdef Op* found
    cdef Space* s
    cdef Span text
    if direction == 0:                                  # a client's answer: cancel-ok, flow-ok
        found = e.find_op(c, S_REQUEST, 1, channel, <uint64_t>request)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
        return
    e.complete_all(e.space_of(c, S_MANDATORY, 0, channel, False), E_NONE, NULL)     # a return comes before it
    found = amqp091_answered(e, c, channel, request)
    if request == K_TX_COMMIT or request == K_TX_ROLLBACK:
        s = e.space_of(c, S_TX_PUBLISH, 0, channel, False)
        while s != NULL and s.first != NULL:
            e.complete(s.first, E_CANCELLED if request == K_TX_ROLLBACK else
                       s.first.pending if s.first.pending else E_ACKNOWLEDGED, r)
        s = e.space_of(c, S_TX_ACK, 1, channel, False)
        while s != NULL and s.first != NULL:
            if request == K_TX_COMMIT:
                e.complete(s.first, s.first.pending, r)
            else:
                s.first.pending = E_NONE
                e.move(s.first, S_DELIVER)              # it is not settled
    elif request == K_RECOVER:
        e.complete_all(e.space_of(c, S_DELIVER, 1, channel, False), E_REQUEUED, r)
    elif request == K_QUEUE_DECLARE and found != NULL and found.texts[Z_QUEUE].size == 0:
        text = field_text(r, A9_QUEUE)                  # the server has named it
        found.texts[Z_QUEUE] = text
        found.texts[Z_DESTINATION] = text
    elif request == K_CONSUME:
        text = field_text(r, A9_CONSUMER_TAG)
        if found != NULL:
            amqp091_consumer(e, c, channel, &text, &found.texts[Z_QUEUE], found.no_ack)
            found.texts[Z_LINK] = text
    elif request == K_CANCEL:
        amqp091_cancelled(e, c, channel)
    if found != NULL:
        e.complete(found, E_ACKNOWLEDGED, r)


cdef void amqp091_consumer(OpenOperations e, Conn* c, int32_t channel, const Span* tag, const Span* queue,
                           bint no_ack) noexcept nogil:
    cdef Known* k = e.known_of(c, W_CONSUMER, 0, channel, hash_span(0, tag), True)
    if k != NULL:
        keep_span(&k.text, queue)
        k.number = no_ack
    cdef Space* s = e.space_of(c, S_DELIVER, 1, channel, True)
    if s != NULL:
        s.counter += 1
        c.consumers += 1
        most(c, N_CONSUMERS, c.consumers)


cdef void amqp091_cancelled(OpenOperations e, Conn* c, int32_t channel) noexcept nogil:
    """The name stays: deliveries may be on their way."""
    cdef Space* s = e.space_of(c, S_DELIVER, 1, channel, False)
    if s != NULL and s.counter:
        s.counter -= 1
        c.consumers -= 1


cdef void amqp091_settle(OpenOperations e, Conn* c, const Row* r, int32_t channel, int what, int direction, uint64_t tag,
                         bint multiple, int outcome) noexcept nogil:
    """basic.ack, nack and reject: one tag, or all up to it; 0 with `multiple` is all."""
    cdef Space* s = e.space_of(c, what, direction, channel, False)
    cdef Space* publishes = e.space_of(c, S_PUBLISH, 0, channel, False)
    cdef bint transacts = what == S_DELIVER and publishes != NULL and publishes.transacts
    cdef Op* o = e.find_op(c, what, direction, channel, tag) if tag else NULL
    cdef Op unseen
    cdef Op* following
    cdef int steps = 0
    if o == NULL and tag and began_before(c):           # what it names was sent before the capture; of `multiple` the last
        begin_unseen(&unseen, c, r, direction, K_DELIVER if direction else K_BASIC_PUBLISH,
                     b"basic.deliver" if direction else b"basic.publish")
        unseen.sequence = <int64_t>tag
        e.emit(&unseen, outcome, number_of(r, T_TS_NS, -1), number_of(r, T_FRAME_NO, -1))
    if s == NULL:
        return
    if not multiple:
        if o != NULL:
            amqp091_settled(e, o, transacts, outcome, r)
        return
    o = s.first
    while o != NULL and (tag == 0 or o.key <= tag or (s.unordered and steps < STEPS_MAX)):
        following = o.after
        if tag and o.key > tag:                         # smaller ones follow it, which a rollback has brought back
            steps += 1
        else:
            amqp091_settled(e, o, transacts, outcome, r)
        o = following


cdef void amqp091_settled(OpenOperations e, Op* o, bint transacts, int outcome, const Row* r) noexcept nogil:
    if transacts:
        o.pending = <uint8_t>outcome
        e.move(o, S_TX_ACK)
    else:
        e.complete(o, o.pending if o.pending and outcome == E_ACKNOWLEDGED else outcome, r)


cdef void amqp091_returned(OpenOperations e, Conn* c, const Row* r, int32_t channel, int64_t code) noexcept nogil:
    """basic.return comes in the order of the publishes, before their confirm."""
    cdef int[3] spaces = [S_PUBLISH, S_MANDATORY, S_TX_PUBLISH]
    cdef Space* s
    cdef Op* o
    cdef Span text = field_text(r, A9_REPLY_TEXT)
    cdef Span key = text_of(r, T_ROUTING_KEY), payload = text_of(r, T_PAYLOAD)
    cdef uint64_t hash = hash_span(0, &payload)
    cdef int i, steps = 0
    for i in range(3):
        s = e.space_of(c, spaces[i], 0, channel, False)
        if s == NULL:
            continue
        o = s.returned if s.returned != NULL else s.first
        while o != NULL and steps < STEPS_MAX:
            steps += 1
            if (o.pending != E_RETURNED and o.texts[Z_ROUTING_KEY].size == key.size and (not o.has_hash or o.hash == hash)
                    and (key.size == 0 or memcmp(o.texts[Z_ROUTING_KEY].at, key.at, key.size) == 0)):
                if code != ABSENT:
                    o.code = <int32_t>code
                if spaces[i] == S_MANDATORY:
                    e.answer(o, E_RETURNED, r, code, &text)
                else:                                   # its confirm, or the commit, follows
                    o.pending = E_RETURNED
                    s.returned = o
                return
            o = o.after


cdef void amqp091_end_channel(OpenOperations e, Conn* c, int32_t channel) noexcept nogil:
    """The number of the channel is free: all that was agreed in it is over."""
    cdef int[6] spaces = [S_REQUEST, S_PUBLISH, S_DELIVER, S_TX_PUBLISH, S_TX_ACK, S_MANDATORY]
    cdef Space* s
    cdef int i, direction
    for i in range(6):
        direction = spaces[i] == S_DELIVER or spaces[i] == S_TX_ACK
        s = e.space_of(c, spaces[i], direction, channel, False)
        if s == NULL:
            continue
        e.complete_all(s, E_NONE if spaces[i] == S_MANDATORY else E_LOST, NULL)
        if spaces[i] == S_DELIVER:
            c.consumers -= s.counter
        s.confirms = s.transacts = False
        s.counter = s.window = 0
        memset(&s.gate, 0, sizeof(Gate))


cdef void amqp091_close_channel(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel, int64_t code,
                                Op* o) noexcept nogil:
    """channel.close: the request that it names is refused. Everything else in the channel is lost at close-ok: what the other
    side has sent before it has seen channel.close counts."""
    cdef int[3] spaces = [S_PUBLISH, S_TX_PUBLISH, S_MANDATORY]
    cdef int64_t number = field_number(r, A9_CLASS, 0) * 128 + field_number(r, A9_METHOD, 0)
    cdef int kind = A9_KIND_OF[number] if 0 <= number < METHODS_MAX and field_number(r, A9_METHOD, 0) < 128 else 0
    cdef Span text = field_text(r, A9_REPLY_TEXT)
    cdef Space* s
    cdef Op* found
    cdef int i
    cdef const char* name
    cdef char[512] words
    begin_op(o, c, r, O_CLOSE, K_CHANNEL_CLOSE)
    o.code = <int32_t>code
    o.texts[Z_TEXT] = text
    if kind:                                            # the text names the method that failed
        name = A9_NAME[kind]
        o.texts[Z_TEXT].at = <const uint8_t*>words
        o.texts[Z_TEXT].size = <uint32_t>snprintf(words, sizeof(words), "%s: %.*s", name, <int>whole_text(&text, 400),
                                                chars_of(&text))
    if direction and code != AMQP_REPLY_SUCCESS and kind:
        found = amqp091_answered(e, c, channel, kind)
        if found == NULL and kind == K_BASIC_PUBLISH:
            for i in range(3):
                s = e.space_of(c, spaces[i], 0, channel, False)
                if s != NULL and s.first != NULL and s.first.kind == O_PUBLISH:
                    found = s.first
                    break
        if found != NULL:
            e.answer(found, E_REFUSED, r, code, &text)
    c.channels = max(<int64_t>0, c.channels - 1)
    e.open_op(o, S_REQUEST, channel, K_CHANNEL_CLOSE)
