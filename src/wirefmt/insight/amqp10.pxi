# AMQP 1.0: what its performatives mean (transport 2.6, messaging 3.4, transactions 4.4).
# A delivery-id belongs to a session and the side that sends the transfers. A disposition of the receiver names deliveries of the
# other side, whose channel for the same session `begin` has told.

cdef StructField A10_HOSTNAME = field("amqp10", "hostname")
cdef StructField A10_IDLE = field("amqp10", "idle_time_out"), A10_FRAME_MAX = field("amqp10", "max_frame_size")
cdef StructField A10_PROPERTIES = field("amqp10", "properties"), A10_REMOTE = field("amqp10", "remote_channel")
cdef StructField A10_NAME = field("amqp10", "name"), A10_HANDLE = field("amqp10", "handle"), A10_ROLE = field("amqp10", "role")
cdef StructField A10_CONDITION = field("amqp10", "error_condition"), A10_DESCRIPTION = field("amqp10", "error_description")
cdef StructField A10_SETTLED = field("amqp10", "settled")
cdef StructField A10_ABORTED = field("amqp10", "aborted")
cdef StructField A10_FIRST = field("amqp10", "first"), A10_LAST = field("amqp10", "last"), A10_STATE = field("amqp10", "state")
cdef StructField A10_CREDIT = field("amqp10", "link_credit")
cdef StructField A10_DELIVERY_COUNT = field("amqp10", "delivery_count"), A10_MECHANISM = field("amqp10", "mechanism")
cdef StructField A10_DURABLE = field("amqp10", "durable"), A10_INITIAL = field("amqp10", "initial_delivery_count")
cdef StructField A10_ANNOTATIONS = field("amqp10", "message_annotations")


cdef int amqp10_outcome(const Row* r) noexcept nogil:
    """Of a delivery state. E_NONE: the state is not an outcome."""
    cdef Span s = field_text(r, A10_STATE)
    if s.size == 0:
        return E_NONE
    if is_text(&s, b"accepted"):
        return E_ACKNOWLEDGED
    if is_text(&s, b"rejected"):
        return E_REJECTED
    if is_text(&s, b"released"):
        return E_RELEASED
    if is_text(&s, b"modified"):
        return E_MODIFIED
    if is_text(&s, b"declared"):
        return E_ACKNOWLEDGED
    return E_NONE


cdef inline bint is_transactional(const Row* r) noexcept nogil:
    cdef Span s = field_text(r, A10_STATE)
    return is_text(&s, b"transactional-state")


cdef Span amqp10_error(const Row* r) noexcept nogil:
    """The condition of an error; its description if it has one and no condition."""
    cdef Span s = field_text(r, A10_CONDITION)
    return s if s.size else field_text(r, A10_DESCRIPTION)


cdef void amqp10_message(OpenOperations e, Conn* c, const Row* r, int kind, int direction, Op* o) noexcept nogil:
    cdef int32_t channel = <int32_t>number_of(r, T_CHANNEL, 0)
    cdef int64_t code = number_of(r, T_CODE, ABSENT)
    cdef int64_t n
    cdef Known* k
    cdef Op* found
    cdef Span s, kind_text
    cdef char[512] words
    if kind == K_10_TRANSFER:
        amqp10_transfer(e, c, r, direction, channel, o)
    elif kind == K_10_DISPOSITION:
        amqp10_disposition(e, c, r, direction, channel)
    elif kind == K_10_FLOW:
        if direction == 0 and field_set(r, A10_HANDLE) and field_set(r, A10_CREDIT):
            c.numbers[N_CLIENT_WINDOW] = max(c.numbers[N_CLIENT_WINDOW], field_number(r, A10_CREDIT, 0))
        elif direction and field_set(r, A10_HANDLE) and field_set(r, A10_CREDIT):
            c.numbers[N_SERVER_WINDOW] = max(c.numbers[N_SERVER_WINDOW], field_number(r, A10_CREDIT, 0))
        amqp10_credit(e, c, r, direction, channel)
    elif kind == K_10_EMPTY:
        begin_op(o, c, r, O_HEARTBEAT, kind)
        e.emit_alone(o)
    elif kind == K_SASL_INIT:
        c.numbers[N_LOGIN] = number_of(r, T_TS_NS, -1)
        s = field_text(r, A10_MECHANISM)
        if is_text(&s, b"PLAIN"):
            c.numbers[N_SECRET] = c.numbers[N_LOGIN]
        begin_op(o, c, r, O_LOGIN, kind)
        e.open_op(o, S_LOGIN, 0, 0)
    elif kind == K_SASL_OUTCOME:
        found = e.find_op(c, S_LOGIN, 0, 0, 0)
        c.login_refused = code != ABSENT and code != 0
        if c.login_refused:
            kind_text = text_of(r, T_KIND)
            s.at = NULL
            s.size = 0
            end_connection(c, r, 1, True, &kind_text, &s, code, True)
        if found != NULL:
            e.answer(found, E_REFUSED if c.login_refused else E_ACKNOWLEDGED, r, code, NULL)
    elif kind == K_10_OPEN:
        n = field_number(r, A10_IDLE, 0)
        if n > 0:                                       # how often the other side has to be heard; the shorter one is kept
            n *= 1000000
            if c.numbers[N_KEEP_ALIVE] < 0 or n < c.numbers[N_KEEP_ALIVE]:
                c.numbers[N_KEEP_ALIVE] = n
        n = field_number(r, A10_FRAME_MAX, -1)
        if n >= 0 and (c.numbers[N_FRAME_MAX] < 0 or n < c.numbers[N_FRAME_MAX]):
            c.numbers[N_FRAME_MAX] = n
        s = entry_of(field_of(r, A10_PROPERTIES), r.at, b"product")
        keep_span(&c.texts[Y_SERVER_PRODUCT if direction else Y_CLIENT_PRODUCT], &s)
        if direction == 0:
            s = field_text(r, A10_HOSTNAME)
            keep_span(&c.texts[Y_VIRTUAL_HOST], &s)
            begin_op(o, c, r, O_OPEN, kind)
            e.open_op(o, S_REQUEST, -1, <uint64_t>kind)
        else:
            c.logged_in = True
            found = e.find_op(c, S_REQUEST, 0, -1, <uint64_t>kind)
            if found != NULL:
                e.complete(found, E_ACKNOWLEDGED, r)
    elif kind == K_10_BEGIN:
        n = field_number(r, A10_REMOTE, -1)
        if n >= 0:                                      # both sides' channels of this session
            k = e.known_of(c, W_CHANNEL, direction, channel, 0, True)
            if k != NULL:
                k.number = n
            k = e.known_of(c, W_CHANNEL, 1 - direction, <int32_t>n, 0, True)
            if k != NULL:
                k.number = channel
            found = e.find_op(c, S_REQUEST, 1 - direction, <int32_t>n, <uint64_t>kind)
            if found != NULL:
                e.complete(found, E_ACKNOWLEDGED, r)
        else:
            c.channels += 1
            most(c, N_CHANNELS, c.channels)
            begin_op(o, c, r, O_OPEN, kind)
            e.open_op(o, S_REQUEST, channel, <uint64_t>kind)
    elif kind == K_10_ATTACH:
        amqp10_attach(e, c, r, direction, channel, o)
    elif kind == K_10_DETACH:
        amqp10_detach(e, c, r, direction, channel, o)
    elif kind == K_10_END:
        found = e.find_op(c, S_REQUEST, 1 - direction, amqp10_channel(e, c, direction, channel), <uint64_t>kind)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
        else:
            c.channels = max(<int64_t>0, c.channels - 1)
            begin_op(o, c, r, O_CLOSE, kind)
            o.texts[Z_TEXT] = amqp10_error(r)
            e.open_op(o, S_REQUEST, channel, <uint64_t>kind)
    elif kind == K_10_CLOSE:
        s = field_text(r, A10_CONDITION)
        kind_text = field_text(r, A10_DESCRIPTION)
        if s.size and kind_text.size:
            s.size = <uint32_t>snprintf(words, sizeof(words), "%.*s: %.*s", <int>whole_text(&s, 100), chars_of(&s),
                                        <int>whole_text(&kind_text, 400), chars_of(&kind_text))
            s.at = <const uint8_t*>words
        kind_text = text_of(r, T_KIND)
        end_connection(c, r, direction, s.size != 0, &kind_text, &s, 0, False)


cdef void amqp10_credit(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel) noexcept nogil:
    """flow of a link: what the sender has sent, or up to where the client lets it send."""
    cdef Known* k = e.known_of(c, W_LINK, direction, channel, <uint64_t>field_number(r, A10_HANDLE, -1), False)
    cdef Known* credit = NULL
    cdef int64_t now = number_of(r, T_TS_NS, 0)
    if k == NULL or not field_set(r, A10_HANDLE):
        return
    if direction:
        if k.credit != NULL and field_set(r, A10_DELIVERY_COUNT):
            k.credit.sent = <uint32_t>field_number(r, A10_DELIVERY_COUNT, 0)
        return
    credit = e.known_of(c, W_CREDIT, 0, channel, hash_span(0, &k.text), False)
    if credit == NULL or not field_set(r, A10_CREDIT):
        return
    credit.number = 1                                   # its limit is known
    credit.limit = <uint32_t>(field_number(r, A10_DELIVERY_COUNT, credit.sent) + field_number(r, A10_CREDIT, 0))
    if <int32_t>(credit.limit - credit.sent) > 0:
        open_gate(&credit.gate, now)
    else:
        close_gate(&credit.gate, now)


cdef void amqp10_sent(Conn* c, Known* credit, const Op* o) noexcept nogil:
    """A delivery to the client has used up credit."""
    credit.sent += 1
    if credit.number:
        message_came(c, &credit.gate, o.started_ns, AT_ONCE_NS, N_NO_CREDIT, &o.texts[Z_DESTINATION])
        if <int32_t>(credit.limit - credit.sent) <= 0:
            close_gate(&credit.gate, o.started_ns)


cdef int32_t amqp10_channel(OpenOperations e, Conn* c, int direction, int32_t channel) noexcept nogil:
    """The other side's channel for the session of this channel."""
    cdef Known* k = e.known_of(c, W_CHANNEL, direction, channel, 0, False)
    return <int32_t>k.number if k != NULL else channel


cdef void amqp10_attach(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel, Op* o) noexcept nogil:
    cdef Span name = field_text(r, A10_NAME), s
    cdef uint64_t key = hash_span(K_10_ATTACH, &name)
    cdef Op* found = e.find_op(c, S_NUMBERED, 1 - direction, amqp10_channel(e, c, direction, channel), key)
    cdef Known* k = e.known_of(c, W_LINK, direction, channel, <uint64_t>field_number(r, A10_HANDLE, 0), True)
    if k != NULL:
        keep_span(&k.text, &name)
        s = text_of(r, T_DESTINATION)
        keep_span(&k.text2, &s)
        s = field_text(r, A10_ROLE)
        if direction and is_text(&s, b"sender"):
            k.credit = e.known_of(c, W_CREDIT, 0, amqp10_channel(e, c, direction, channel), hash_span(0, &name), True)
            if k.credit != NULL:
                k.credit.sent = <uint32_t>field_number(r, A10_INITIAL, 0)
    if found != NULL:
        e.complete(found, E_ACKNOWLEDGED, r)            # a refusal is a detach that follows
        return
    s = field_text(r, A10_ROLE)
    begin_op(o, c, r, O_CONSUME if is_text(&s, b"receiver") and direction == 0 else O_OPEN, K_10_ATTACH)
    o.texts[Z_LINK] = name
    if o.kind == O_CONSUME:
        o.texts[Z_QUEUE] = o.texts[Z_DESTINATION]
        c.consumers += 1
        most(c, N_CONSUMERS, c.consumers)
    c.links += 1
    most(c, N_LINKS, c.links)
    e.open_op(o, S_NUMBERED, channel, key)


cdef void amqp10_detach(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel, Op* o) noexcept nogil:
    cdef uint64_t handle = <uint64_t>field_number(r, A10_HANDLE, 0)
    cdef Known* k = e.known_of(c, W_LINK, direction, channel, handle, False)
    cdef uint64_t key = hash_span(K_10_DETACH, &k.text) if k != NULL else handle
    cdef Op* found = e.find_op(c, S_NUMBERED, 1 - direction, amqp10_channel(e, c, direction, channel), key)
    if found != NULL:
        e.complete(found, E_ACKNOWLEDGED, r)
        return
    c.links = max(<int64_t>0, c.links - 1)
    begin_op(o, c, r, O_CLOSE, K_10_DETACH)
    if k != NULL:
        o.texts[Z_LINK] = k.text
        if k.text2.size:
            o.texts[Z_DESTINATION] = k.text2
    o.texts[Z_TEXT] = amqp10_error(r)
    e.open_op(o, S_NUMBERED, channel, key)


cdef Span amqp10_named(const Span* json, const char* name) noexcept nogil:
    """The first string with this name, which has its quotes and colon, in JSON; `at` is NULL: there is no such string."""
    cdef size_t n = strlen(name), i, end
    cdef Span s
    s.at = NULL
    s.size = 0
    for i in range(json.size - n if json.size > n else 0):
        if memcmp(json.at + i, name, n) == 0:
            end = i + n
            while end < json.size and json.at[end] != c'"':
                end += 1
            s.at = json.at + i + n
            s.size = <uint32_t>(end - i - n)
            break
    return s


cdef void amqp10_death(const Row* r, Op* o) noexcept nogil:
    """Why a message is in this queue: annotations of RabbitMQ and of ActiveMQ Artemis, which names no reason."""
    cdef const Col* annotations = field_of(r, A10_ANNOTATIONS)
    cdef Span deaths
    if not is_set(annotations, r.at):
        return
    deaths = entry_of(annotations, r.at, b"x-opt-deaths")
    if deaths.at != NULL:
        o.texts[Z_DEATH_REASON] = amqp10_named(&deaths, b'"reason":"')
        o.texts[Z_DEATH_QUEUE] = amqp10_named(&deaths, b'"queue":"')
    else:
        o.texts[Z_DEATH_QUEUE] = entry_of(annotations, r.at, b"x-opt-ORIG-QUEUE")


cdef void amqp10_transfer(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel, Op* o) noexcept nogil:
    cdef int64_t id = field_number(r, A10_HANDLE, -1)
    cdef Known* k = e.known_of(c, W_LINK, direction, channel, <uint64_t>id, False) if id >= 0 else NULL
    cdef Op* found
    cdef int what = S_DELIVER if direction else S_PUBLISH
    cdef int outcome
    begin_op(o, c, r, O_DELIVER if direction else O_PUBLISH, K_10_TRANSFER)
    c.numbers[N_DELIVERED if direction else N_PUBLISHED] += 1
    o.persistent = field_true(r, A10_DURABLE)
    if direction:
        amqp10_death(r, o)
    if k != NULL:
        o.texts[Z_LINK] = k.text
        if direction and k.text2.size:
            o.texts[Z_QUEUE] = k.text2
        if k.credit != NULL:
            amqp10_sent(c, k.credit, o)
    elif direction:
        o.texts[Z_QUEUE] = o.texts[Z_DESTINATION]
    id = field_number(r, A10_DELIVERY_COUNT, -1)
    if id >= 0:
        o.attempts = <int32_t>min(id + 1, <int64_t>0x7FFFFFFF)
        o.redelivered = id > 0
    if o.sequence == ABSENT or field_true(r, A10_SETTLED) or field_true(r, A10_ABORTED):
        e.emit(o, E_CANCELLED if field_true(r, A10_ABORTED) else E_NONE, -1, -1)
        return
    found = e.find_op(c, what, direction, channel, <uint64_t>o.sequence)
    if found != NULL:
        e.complete(found, E_SUPERSEDED, NULL)
    outcome = amqp10_outcome(r)
    o.pending = <uint8_t>outcome
    e.open_op(o, what, channel, <uint64_t>o.sequence)


cdef void amqp10_disposition(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel) noexcept nogil:
    """first..last, serial numbers of 32 bits."""
    cdef Span role = field_text(r, A10_ROLE)
    cdef bint receiver = is_text(&role, b"receiver")
    cdef int sender = 1 - direction if receiver else direction
    cdef int32_t of = amqp10_channel(e, c, direction, channel) if receiver else channel
    cdef int what = S_DELIVER if sender else S_PUBLISH
    cdef Space* s = e.space_of(c, what, sender, of, False)
    cdef uint32_t first = <uint32_t>field_number(r, A10_FIRST, 0)
    cdef uint32_t last = <uint32_t>field_number(r, A10_LAST, first)
    cdef uint32_t i
    cdef int outcome = amqp10_outcome(r)
    cdef bint settled = field_true(r, A10_SETTLED)
    cdef Op* o
    cdef Op* following
    cdef int steps = 0
    if s == NULL or is_transactional(r):
        return
    if last - first < 64:
        for i in range(last - first + 1):
            o = e.find_op(c, what, sender, of, <uint32_t>(first + i))
            if o != NULL:
                amqp10_settled(e, o, r, outcome, settled)
        return
    o = s.first
    while o != NULL and steps < STEPS_MAX:
        following = o.after
        if <uint32_t>o.key - first > last - first or not amqp10_settled(e, o, r, outcome, settled):
            steps += 1
        o = following


cdef bint amqp10_settled(OpenOperations e, Op* o, const Row* r, int outcome, bint settled) noexcept nogil:
    """False: it is not settled yet."""
    cdef Span text
    if outcome:
        o.pending = <uint8_t>outcome
    if not settled and not o.pending:
        return False                                    # `received`: a part of it has arrived
    text = amqp10_error(r)
    # an outcome counts from when it is said: the sender's settlement, which may follow, changes nothing
    e.answer(o, o.pending if o.pending else E_ACKNOWLEDGED, r, ABSENT, &text)
    return True
