# NSQ: commands that are answered are answered in order (protocol V2); FIN, REQ and TOUCH name a message and have no answer but an
# error. A message that is not finished within the connection's timeout is given to another consumer.

cdef StructField NS_ERROR = field("nsq", "error_code")
cdef StructField NS_TEXT = field("nsq", "error_text")
cdef StructField NS_FATAL = field("nsq", "fatal")
cdef StructField NS_AGENT = field("nsq", "user_agent")
cdef StructField NS_VERSION = field("nsq", "server_version")
cdef StructField NS_HEARTBEAT = field("nsq", "heartbeat_interval"), NS_TIMEOUT = field("nsq", "msg_timeout")
cdef StructField NS_RDY = field("nsq", "rdy_count"), NS_COUNT = field("nsq", "message_count")
cdef StructField NS_BODIES = field("nsq", "bodies"), NS_RESPONSE = field("nsq", "response")


cdef inline int nsq_kind(const Row* r, int kind) noexcept nogil:
    """A heartbeat is a response; it answers nothing."""
    cdef Span s
    if kind == K_NSQ_RESPONSE:
        s = field_text(r, NS_RESPONSE)
        if is_text(&s, b"_heartbeat_"):
            return K_NSQ_HEARTBEAT
    return kind


cdef void nsq_message(OpenOperations e, Conn* c, const Row* r, int kind, int direction, Op* o) noexcept nogil:
    cdef int64_t now = number_of(r, T_TS_NS, 0)
    cdef Span id = text_of(r, T_MESSAGE_ID), s, kind_text
    cdef uint64_t key = hash_span(0, &id)
    cdef Op* found
    cdef Space* space
    cdef Known* k
    cdef int operation = -1
    if kind == K_NSQ_MESSAGE:
        begin_op(o, c, r, O_DELIVER, kind)
        c.numbers[N_DELIVERED] += 1
        found = e.find_op(c, S_DELIVER, 1, 0, key)
        if found != NULL:
            e.complete(found, E_TIMED_OUT, NULL)        # the same message again: it was not finished in time
        k = e.known_of(c, W_CREDIT, 0, 0, 0, False)
        if k != NULL:
            message_came(c, &k.gate, now, AT_ONCE_NS, N_NO_CREDIT, &o.texts[Z_DESTINATION])
        if c.timeout_ns:
            o.expires_ns = now + c.timeout_ns
        e.open_op(o, S_DELIVER, 0, key)
    elif kind == K_FIN or kind == K_REQ or kind == K_TOUCH:
        found = e.find_op(c, S_DELIVER, 1, 0, key)
        if found == NULL:
            return
        if found.expires_ns and found.expires_ns < now:
            e.complete(found, E_TIMED_OUT, NULL)
        elif kind == K_TOUCH:
            found.expires_ns = now + c.timeout_ns if c.timeout_ns else 0
        else:
            e.complete(found, E_ACKNOWLEDGED if kind == K_FIN else E_REQUEUED, r)
    elif kind == K_PUB or kind == K_MPUB or kind == K_DPUB:
        operation = O_PUBLISH
        c.numbers[N_PUBLISHED] += max(<int64_t>1, field_number(r, NS_COUNT, 1))
    elif kind == K_SUB:
        operation = O_SUBSCRIBE
    elif kind == K_IDENTIFY:
        operation = O_REQUEST
        c.numbers[N_LOGIN] = now
        s = field_text(r, NS_AGENT)
        keep_span(&c.texts[Y_CLIENT_PRODUCT], &s)
        if field_number(r, NS_HEARTBEAT, 0) > 0:
            c.numbers[N_KEEP_ALIVE] = 1000000 * field_number(r, NS_HEARTBEAT, 0)
    elif kind == K_AUTH:
        operation = O_LOGIN
        c.numbers[N_SECRET] = now
    elif kind == K_CLS:
        operation = O_CLOSE
        kind_text = text_of(r, T_KIND)
        s.at = NULL
        s.size = 0
        end_connection(c, r, direction, False, &kind_text, &s, 0, False)
    elif kind == K_RDY:
        c.numbers[N_CLIENT_WINDOW] = max(c.numbers[N_CLIENT_WINDOW], field_number(r, NS_RDY, 0))
        begin_op(o, c, r, O_FLOW, kind)
        o.sequence = field_number(r, NS_RDY, 0)
        k = e.known_of(c, W_CREDIT, 0, 0, 0, True)
        if k != NULL and o.sequence:
            open_gate(&k.gate, now)
        elif k != NULL:
            close_gate(&k.gate, now)
        space = e.space_of(c, S_DELIVER, 1, 0, True)
        if space != NULL:
            space.window = o.sequence
            space.gate.closed_ns = 0
        e.emit_alone(o)
    elif kind == K_NSQ_HEARTBEAT:
        found = e.find_op(c, S_PING, 1, 0, 0)
        if found != NULL:
            e.complete(found, E_UNANSWERED, NULL)
        begin_op(o, c, r, O_HEARTBEAT, kind)
        e.open_op(o, S_PING, 0, 0)
    elif kind == K_NSQ_RESPONSE:
        if field_set(r, NS_VERSION):
            s = field_text(r, NS_VERSION)
            keep_span(&c.texts[Y_SERVER_PRODUCT], &s)
            c.timeout_ns = 1000000 * max(<int64_t>0, field_number(r, NS_TIMEOUT, 0))
            c.logged_in = True
        space = e.space_of(c, S_REQUEST, 0, 0, False)
        if space != NULL and space.first != NULL:
            if space.first.kind == O_SUBSCRIBE:
                c.subscriptions += 1
                most(c, N_SUBSCRIPTIONS, c.subscriptions)
            e.complete(space.first, E_ACKNOWLEDGED, r)
    elif kind == K_NSQ_ERROR:
        nsq_error(e, c, r)
    if direction == 0:                                  # any command answers a heartbeat
        found = e.find_op(c, S_PING, 1, 0, 0)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
    if operation >= 0:
        begin_op(o, c, r, operation, kind)
        e.open_op(o, S_REQUEST, 0, <uint64_t>kind)
        if kind == K_MPUB and e.paths.wanted:
            nsq_bodies(e, r, o)


cdef void nsq_bodies(OpenOperations e, const Row* r, Op* o) noexcept nogil:
    """Each message of an MPUB has paths of its own."""
    cdef const Col* c = field_of(r, NS_BODIES)
    cdef Span body
    cdef int64_t i
    o.request = K_PUB
    for i in range(c.offsets[r.at], c.offsets[r.at + 1] if is_set(c, r.at) else 0):
        body = octets_at(c.children, i)
        o.payload_size = body.size
        o.has_hash = body.at != NULL
        o.hash = hash_span(0, &body)
        add_side(&e.paths, o)


cdef void nsq_error(OpenOperations e, Conn* c, const Row* r) noexcept nogil:
    cdef Span code = field_text(r, NS_ERROR), text = field_text(r, NS_TEXT), kind_text = text_of(r, T_KIND)
    cdef Space* space = e.space_of(c, S_REQUEST, 0, 0, False)
    cdef char[512] words
    cdef Span s
    s.at = <const uint8_t*>words
    s.size = <uint32_t>snprintf(words, sizeof(words), "%.*s %.*s", <int>whole_text(&code, 60), chars_of(&code),
                                <int>whole_text(&text, 400), chars_of(&text))
    if field_true(r, NS_FATAL):
        c.login_refused = is_text(&code, b"E_AUTH_FAILED") or is_text(&code, b"E_UNAUTHORIZED")
        end_connection(c, r, 1, True, &kind_text, &s, 0, False)
    elif is_text(&code, b"E_FIN_FAILED") or is_text(&code, b"E_REQ_FAILED") or is_text(&code, b"E_TOUCH_FAILED"):
        return                                          # these have no answer
    if space != NULL and space.first != NULL:
        e.answer(space.first, E_REFUSED, r, ABSENT, &s)
