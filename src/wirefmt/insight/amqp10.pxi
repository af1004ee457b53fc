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
cdef StructField A10_NEXT_IN = field("amqp10", "next_incoming_id"), A10_NEXT_OUT = field("amqp10", "next_outgoing_id")
cdef StructField A10_WINDOW_IN = field("amqp10", "incoming_window"), A10_TRANSFERS = field("amqp10", "transfers")
cdef StructField A10_TARGET = field("amqp10", "target"), A10_STATE_FIELDS = field("amqp10", "state_fields")

cdef enum:
    COORDINATES = 1                     # Known.number of a link that controls transactions


#: States that are outcomes.
cdef const char* A10_OUTCOME_NAME[5]
A10_OUTCOME_NAME[:] = [b"accepted", b"rejected", b"released", b"modified", b"declared"]
cdef int[5] A10_OUTCOME
A10_OUTCOME = [E_ACKNOWLEDGED, E_REJECTED, E_RELEASED, E_MODIFIED, E_ACKNOWLEDGED]


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


cdef int amqp10_outcome(const Row* r) noexcept nogil:
    """Of a delivery state. E_NONE: the state is not an outcome."""
    cdef Span s = field_text(r, A10_STATE), fields
    cdef int i
    if s.size == 0:
        return E_NONE
    if is_text(&s, b"transactional-state"):             # what it will be if the transaction succeeds (transactions 4.5.8)
        fields = field_text(r, A10_STATE_FIELDS)
        s = amqp10_named(&fields, b'"type":"')
    for i in range(5):
        if is_text(&s, A10_OUTCOME_NAME[i]):
            return A10_OUTCOME[i]
    return E_NONE


cdef size_t json_token(const Span* json, size_t at) noexcept nogil:
    """The end of the value that begins at `at`: a string, or a list or map of values."""
    cdef bint quoted = False
    cdef int depth = 0
    while at < json.size:
        if json.at[at] == c"\\" and quoted:
            at += 1
        elif json.at[at] == c'"':
            quoted = not quoted
        elif not quoted and (json.at[at] == c"{" or json.at[at] == c"["):
            depth += 1
        elif not quoted and (json.at[at] == c"}" or json.at[at] == c"]"):
            depth -= 1
        at += 1
        if not quoted and depth <= 0:
            break
    return min(at, <size_t>json.size)


cdef uint64_t amqp10_hash_of(const Span* json, size_t begin) noexcept nogil:
    """Of the identifier of a transaction, as it stands in JSON; never 0."""
    cdef Span s
    s.at = json.at + begin
    s.size = <uint32_t>(json_token(json, begin) - begin)
    return hash_span(K_10_TRANSFER, &s) | 1


cdef uint64_t amqp10_transaction(const Row* r) noexcept nogil:
    """Of the transaction that a transfer or disposition belongs to; 0: none."""
    cdef Span s = field_text(r, A10_STATE)
    cdef Span name
    if not is_text(&s, b"transactional-state"):
        return 0
    s = field_text(r, A10_STATE_FIELDS)
    name.at = <const uint8_t*>b'"txn_id":'
    name.size = 9
    if s.size <= name.size + 1 or memcmp(s.at + 1, name.at, name.size) != 0:
        return 1                                        # it names none
    return amqp10_hash_of(&s, name.size + 1)


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
        amqp10_window(e, c, r, direction, channel)
    elif kind == K_10_HEADER:
        c.begun = True
    elif kind == K_10_EMPTY:
        begin_op(o, c, r, O_HEARTBEAT, kind)
        e.emit_alone(o)
    elif kind == K_SASL_INIT:
        c.numbers[N_LOGIN] = number_of(r, T_TS_NS, -1)
        s = field_text(r, A10_MECHANISM)
        keep_span(&c.texts[Y_MECHANISM], &s)
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
            if c.numbers[N_LOGIN] < 0:                  # without SASL
                c.numbers[N_LOGIN] = number_of(r, T_TS_NS, -1)
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
        amqp10_windows(e, c, r, direction, channel, n)
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
        n = amqp10_channel(e, c, direction, channel)
        found = e.find_op(c, S_REQUEST, 1 - direction, <int32_t>n, <uint64_t>kind)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
            amqp10_end_session(e, c, direction, channel)
            amqp10_end_session(e, c, 1 - direction, <int32_t>n)
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


cdef void amqp10_end_session(OpenOperations e, Conn* c, int direction, int32_t channel) noexcept nogil:
    """Both sides have ended it: what is open in it stays without an answer, and the numbers are used again."""
    cdef int[5] spaces = [S_REQUEST, S_NUMBERED, S_DELIVER if direction else S_PUBLISH, S_TX_PUBLISH, S_TX_ACK]
    cdef int i
    for i in range(5):
        e.complete_all(e.space_of(c, spaces[i], direction, channel, False), E_LOST, NULL)


cdef void amqp10_credit(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel) noexcept nogil:
    """flow of a link: what the sender has sent, or up to where the receiver lets it send."""
    cdef Known* k = e.known_of(c, W_LINK, direction, channel, <uint64_t>field_number(r, A10_HANDLE, -1), False)
    cdef Known* credit = NULL
    cdef int64_t now = number_of(r, T_TS_NS, 0)
    if k == NULL or not field_set(r, A10_HANDLE):
        return
    if k.credit != NULL:
        if field_set(r, A10_DELIVERY_COUNT):
            k.credit.sent = <uint32_t>field_number(r, A10_DELIVERY_COUNT, 0)
        return
    credit = e.known_of(c, W_CREDIT, direction, channel, hash_span(0, &k.text), False)
    if credit == NULL or not field_set(r, A10_CREDIT):
        return
    credit.number = 1                                   # its limit is known
    credit.limit = <uint32_t>(field_number(r, A10_DELIVERY_COUNT, credit.sent) + field_number(r, A10_CREDIT, 0))
    if <int32_t>(credit.limit - credit.sent) > 0:
        open_gate(&credit.gate, now)
    else:
        close_gate(&credit.gate, now)


cdef void amqp10_sent(Conn* c, Known* of, uint32_t transfers, const Op* o) noexcept nogil:
    """A message has used up credit, or the session's window."""
    cdef int number = N_SESSION_FULL if o.direction else N_HELD_SESSION
    if of.what == W_CREDIT:
        number = N_NO_CREDIT if o.direction else N_HELD
    of.sent += transfers
    if of.number:
        message_came(c, &of.gate, o.started_ns, AT_ONCE_NS, number, &o.texts[Z_DESTINATION],
                     Y_WAITED_FOR if o.direction else Y_HELD_FOR)
        if <int32_t>(of.limit - of.sent) <= 0:
            close_gate(&of.gate, o.started_ns)


cdef void amqp10_windows(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel, int64_t remote) noexcept nogil:
    """begin: the first transfer-id of this side, and how many transfers it takes (2.5.6). Those of both sides are known with the
    second one."""
    cdef Known* own = e.known_of(c, W_WINDOW, direction, channel, 0, True)
    cdef Known* other = e.known_of(c, W_WINDOW, 1 - direction, <int32_t>remote, 0, False) if remote >= 0 else NULL
    if own == NULL:
        return
    own.sent = own.limit = <uint32_t>field_number(r, A10_NEXT_OUT, 0)
    own.window = <uint32_t>field_number(r, A10_WINDOW_IN, 0)
    own.number = 0
    memset(&own.gate, 0, sizeof(Gate))
    if other != NULL:
        own.limit += other.window
        other.limit += own.window
        own.number = other.number = 1


cdef void amqp10_window(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel) noexcept nogil:
    """flow: up to which transfer the other side may send."""
    cdef Known* other = e.known_of(c, W_WINDOW, 1 - direction, amqp10_channel(e, c, direction, channel), 0, False)
    cdef int64_t now = number_of(r, T_TS_NS, 0)
    if other == NULL or not field_set(r, A10_NEXT_IN):
        return
    other.number = 1
    other.limit = <uint32_t>(field_number(r, A10_NEXT_IN, 0) + field_number(r, A10_WINDOW_IN, 0))
    if <int32_t>(other.limit - other.sent) > 0:
        open_gate(&other.gate, now)
    else:
        close_gate(&other.gate, now)


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
        free(<void*>k.text2.at)                         # of an earlier link with this handle
        k.text2.at = NULL
        k.text2.size = 0
        keep_span(&k.text2, &s)
        s = field_text(r, A10_TARGET)
        k.number = COORDINATES if s.size >= 21 and memcmp(s.at, b'{"type":"coordinator"', 21) == 0 else 0
        k.credit = NULL
        s = field_text(r, A10_ROLE)
        if is_text(&s, b"sender"):
            k.credit = e.known_of(c, W_CREDIT, 1 - direction, amqp10_channel(e, c, direction, channel), hash_span(0, &name), True)
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


cdef void amqp10_control(const Row* r, Op* o) noexcept nogil:
    """declare and discharge: messages to a coordinator (transactions 4.5.2, 4.5.3)."""
    cdef Span body = text_of(r, T_PAYLOAD)
    cdef const char* name = '"value":['
    cdef size_t n = strlen(name), i, end
    o.kind = O_TRANSACTION
    for i in range(body.size - n if body.size > n else 0):
        if memcmp(body.at + i, name, n) == 0:
            i += n
            if body.at[i] == c'"' or body.at[i] == c"{":    # a discharge begins with the identifier; declare has null or nothing
                o.transaction = amqp10_hash_of(&body, i)
                end = json_token(&body, i)
                o.no_ack = end + 5 <= body.size and memcmp(body.at + end, b",true", 5) == 0
            break


cdef void amqp10_discharged(OpenOperations e, Conn* c, const Row* r, uint64_t transaction, bint succeeded) noexcept nogil:
    """A transaction has ended: what belongs to it has its outcome, or is rolled back; deliveries are then as before."""
    cdef Space* s = c.spaces
    cdef Op* o
    cdef Op* following
    cdef int[2] steps = [0, 0]                          # in spaces of transactions; in others
    cdef int visited = 0, other
    while s != NULL and visited < STEPS_MAX:
        visited += 1
        other = s.what == S_PUBLISH
        o = s.first if other or s.what == S_TX_PUBLISH or s.what == S_TX_ACK else NULL
        while o != NULL and steps[other] < STEPS_MAX:
            following = o.after
            if o.transaction != transaction or o.kind == O_TRANSACTION:
                steps[other] += 1
            elif succeeded:
                e.complete(o, o.pending if o.pending else E_ACKNOWLEDGED, r)
            elif o.kind == O_DELIVER:
                o.pending = E_NONE
                o.transaction = 0
                e.move(o, S_DELIVER)
            else:
                e.complete(o, E_CANCELLED, r)
            o = following
        s = s.following


cdef void amqp10_transfer(OpenOperations e, Conn* c, const Row* r, int direction, int32_t channel, Op* o) noexcept nogil:
    cdef int64_t id = field_number(r, A10_HANDLE, -1)
    cdef Known* k = e.known_of(c, W_LINK, direction, channel, <uint64_t>id, False) if id >= 0 else NULL
    cdef Op* found
    cdef int what = S_DELIVER if direction else S_PUBLISH
    cdef int outcome
    begin_op(o, c, r, O_DELIVER if direction else O_PUBLISH, K_10_TRANSFER)
    o.persistent = field_true(r, A10_DURABLE)
    if direction:
        amqp10_death(r, o)
    if k != NULL:
        o.texts[Z_LINK] = k.text
        if direction and k.text2.size:
            o.texts[Z_QUEUE] = k.text2
        if k.credit != NULL:
            amqp10_sent(c, k.credit, 1, o)
        if k.number == COORDINATES:
            amqp10_control(r, o)
    elif direction:
        o.texts[Z_QUEUE] = o.texts[Z_DESTINATION]
    k = e.known_of(c, W_WINDOW, direction, channel, 0, False)
    if k != NULL:
        amqp10_sent(c, k, <uint32_t>field_number(r, A10_TRANSFERS, 1), o)
    id = field_number(r, A10_DELIVERY_COUNT, -1)
    if id >= 0:
        o.attempts = <int32_t>min(id + 1, <int64_t>0x7FFFFFFF)
        o.redelivered = id > 0
    if o.kind != O_TRANSACTION:
        c.numbers[N_DELIVERED if direction else N_PUBLISHED] += 1
        o.transaction = amqp10_transaction(r)
    if o.transaction and o.kind == O_PUBLISH and field_true(r, A10_SETTLED):
        o.pending = E_ACKNOWLEDGED                      # if the transaction succeeds
        e.open_op(o, S_TX_PUBLISH, channel, <uint64_t>o.sequence)
        return
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
    cdef uint64_t transaction = amqp10_transaction(r)
    cdef Op* o
    cdef Op* following
    cdef Op unseen
    cdef int steps = 0
    if began_before(c) and outcome and not transaction and e.find_op(c, what, sender, of, last) == NULL:
        begin_unseen(&unseen, c, r, sender, K_10_TRANSFER, b"transfer")     # sent before the capture; of a range the last
        unseen.channel = of
        unseen.sequence = last
        e.emit(&unseen, outcome, number_of(r, T_TS_NS, -1), number_of(r, T_FRAME_NO, -1))
    if s == NULL:
        return
    if last - first < 64:
        for i in range(last - first + 1):
            o = e.find_op(c, what, sender, of, <uint32_t>(first + i))
            if o != NULL:
                amqp10_settled(e, o, r, outcome, settled, transaction)
        return
    o = s.first
    while o != NULL and steps < STEPS_MAX:
        following = o.after
        if <uint32_t>o.key - first > last - first or not amqp10_settled(e, o, r, outcome, settled, transaction):
            steps += 1
        o = following


cdef bint amqp10_settled(OpenOperations e, Op* o, const Row* r, int outcome, bint settled, uint64_t transaction) noexcept nogil:
    """False: it is not settled yet."""
    cdef Span text
    cdef Conn* c = o.conn
    cdef uint64_t ended
    cdef bint succeeded
    if outcome:
        o.pending = <uint8_t>outcome
    if not settled and not o.pending:
        return False                                    # `received`: a part of it has arrived
    if transaction:                                     # it waits for the outcome of the transaction
        o.transaction = transaction
        o.pending = o.pending if o.pending else <uint8_t>E_ACKNOWLEDGED
        e.move(o, S_TX_ACK if o.kind == O_DELIVER else S_TX_PUBLISH)
        return True
    text = amqp10_error(r)
    ended = o.transaction if o.kind == O_TRANSACTION else 0
    if ended:
        succeeded = o.pending != E_REJECTED and not o.no_ack
        e.answer(o, o.pending if o.pending else E_ACKNOWLEDGED, r, ABSENT, &text)
        amqp10_discharged(e, c, r, ended, succeeded)
        return True
    # an outcome counts from when it is said: the sender's settlement, which may follow, changes nothing
    e.answer(o, o.pending if o.pending else E_ACKNOWLEDGED, r, ABSENT, &text)
    return True
