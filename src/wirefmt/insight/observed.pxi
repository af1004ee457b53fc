# Messages in order, from the first of the connection on: may they come then? The tables are in `observers`.

cdef StructField A10_PROTOCOL_ID = field("amqp10", "protocol_id")
cdef StructField NS_TLS = field("nsq", "tls_v1")
cdef StructField NS_DEFLATE = field("nsq", "deflate"), NS_SNAPPY = field("nsq", "snappy")

cdef enum:
    A10_SASL = 3                    # protocol id of a header
    A10_AMQP = 0
    RM_GO_AWAY = 1500


cdef void observe(OpenOperations e, Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    cdef int became = V_NO_CHANGE
    cdef Span name
    if c.protocol == P_MQTT:
        became = observe_mqtt(c, r, kind, direction)
    elif c.protocol == P_AMQP091:
        became = observe_amqp091(e, c, r, kind, direction)
    elif c.protocol == P_AMQP10:
        became = observe_amqp10(e, c, r, kind, direction)
    elif c.protocol == P_NSQ:
        became = observe_nsq(e, c, r, kind, direction)
    elif c.protocol == P_ROCKETMQ:
        became = observe_rocketmq(c, r, direction)
    elif c.protocol == P_PHPMQ and OBSERVED[V_PHPMQ][kind] >= 0:
        became = watch(V_PHPMQ, c.states, direction, OBSERVED[V_PHPMQ][kind])
    if became <= V_VIOLATION:
        name = text_of(r, T_KIND)
        put_violation(c, &name, number_of(r, T_TS_NS, 0), number_of(r, T_FRAME_NO, -1), direction, V_VIOLATION - became)


cdef int observe_mqtt(Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    cdef int what = OBSERVED[V_MQTT][kind]
    cdef int64_t code
    if what < 0:
        return V_NO_CHANGE
    if kind == K_CONNACK or kind == K_MQTT_AUTH:
        code = number_of(r, T_CODE, 0)
        if kind == K_CONNACK:
            what = V_CONNACK_REFUSED if code else what
        else:
            what = V_AUTH_CONTINUE if code == 0x18 else V_AUTH_AGAIN if code == 0x19 else what
    return watch(V_MQTT, c.states, direction, what)


cdef int observe_amqp091(OpenOperations e, Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    cdef int64_t channel = number_of(r, T_CHANNEL, 0)
    cdef int what = OBSERVED[V_CHANNEL][kind], became
    cdef Space* s
    if channel == 0:
        return watch(V_AMQP091, c.states, direction, V_ON_ZERO if what >= 0 else OBSERVED[V_AMQP091][kind])
    became = watch(V_AMQP091, c.states, direction, V_CHANNEL_FRAME)
    if became != V_TO_CHANNEL and became != V_UNREAD:
        return became
    s = e.space_of(c, S_REQUEST, 0, <int32_t>channel, True)
    if s == NULL:
        return V_NO_CHANGE
    return watch(V_CHANNEL, s.states, direction, what if what >= 0 else V_ZERO_ONLY)


# ---- AMQP 1.0: SASL, the connection, sessions, links

cdef int observe_amqp10(OpenOperations e, Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    cdef int what = OBSERVED[V_SASL][kind], became
    cdef int64_t id
    if kind == K_10_HEADER:
        id = field_number(r, A10_PROTOCOL_ID, -1)
        if id == A10_AMQP:
            return watch_in_order(e, c, V_AMQP10, r, direction, V_AMQP_HEADER)
        what = V_SASL_HEADER if id == A10_SASL else -1
    elif kind == K_SASL_OUTCOME:
        what = V_SASL_OUTCOME + (number_of(r, T_CODE, 0) != 0)
    if what >= 0:
        return watch(V_SASL, c.sasl_states, direction, what)
    what = OBSERVED[V_AMQP10][kind]
    if what < 0:
        return V_NO_CHANGE
    became = watch_in_order(e, c, V_AMQP10, r, direction, what)
    what = OBSERVED[V_SESSION][kind]
    if what < 0 or c.unobserved or (became < 0 and became != V_UNREAD):
        return became
    return observe_session(e, c, r, kind, direction, what)


cdef Space* session_of(OpenOperations e, Conn* c, int64_t number) noexcept nogil:
    """number: 1 + the channel of the side that began it, with bit 16 if that is the server."""
    return e.space_of(c, S_SESSION, <int>((number - 1) >> 16), <int32_t>(number - 1 & 0xFFFF), True)


cdef int observe_session(OpenOperations e, Conn* c, const Row* r, int kind, int direction, int what) noexcept nogil:
    cdef int32_t channel = <int32_t>(number_of(r, T_CHANNEL, 0) & 0xFFFF)
    cdef Known* own = e.known_of(c, W_SESSION, direction, channel, 0, kind == K_10_BEGIN)
    cdef Known* other
    cdef Space* s = NULL
    cdef int64_t remote, number
    cdef int became
    if kind == K_10_BEGIN:
        if own == NULL:
            c.unobserved = True                         # a limit
            return V_NO_CHANGE
        remote = field_number(r, A10_REMOTE, -1)
        number = 1 + (direction << 16 | channel)
        if remote >= 0:
            other = e.known_of(c, W_SESSION, 1 - direction, <int32_t>remote, 0, False)
            number = other.number if other != NULL else 1 + (1 - direction << 16 | remote & 0xFFFF)
        if own.number and own.number != number:
            s = session_of(e, c, own.number)
        if s == NULL or s.states[1 - direction] == 0:   # the channel is free
            own.number = number
    elif own == NULL:
        return RECEIVES[V_SESSION][1 - direction][0][what]
    s = session_of(e, c, own.number)
    if s == NULL:
        c.unobserved = True
        return V_NO_CHANGE
    if kind == K_10_BEGIN and s.states[1 - direction] == 0:
        s.counter += 1                                  # the links of an earlier one are forgotten
    became = watch_both(c, V_SESSION, s.states, direction, what, 0)
    what = OBSERVED[V_LINK][kind]
    if became < 0 or what < 0 or not field_set(r, A10_HANDLE):
        return became
    return observe_link(e, c, r, s, <int32_t>own.number, direction, what, kind == K_10_ATTACH)


cdef int observe_link(OpenOperations e, Conn* c, const Row* r, const Space* session, int32_t number, int direction, int what,
                      bint attaches) noexcept nogil:
    cdef Known* h = e.known_of(c, W_HANDLE, direction, number, <uint64_t>field_number(r, A10_HANDLE, 0),
                               attaches)
    cdef uint32_t began = <uint32_t>session.counter
    cdef Known* link
    cdef Span s
    cdef int sender
    link = NULL if h == NULL or h.credit == NULL or h.sent != began or h.credit.sent != began else h.credit
    if not attaches:
        if link == NULL:
            return RECEIVES[V_LINK][1][0][what]         # a receiver that is detached
        return watch_both(c, V_LINK, link.states, direction, what, link.direction)
    if link == NULL or link.states[1 - direction] == 0:
        s = field_text(r, A10_ROLE)
        sender = direction if is_text(&s, b"sender") else 1 - direction
        s = field_text(r, A10_NAME)
        link = e.known_of(c, W_LINK_STATES, sender, number, hash_span(0, &s), True)
        if h == NULL or link == NULL:
            c.unobserved = True                         # a limit
            return V_NO_CHANGE
        if link.sent != began or RECEIVES[V_LINK][1 - direction ^ sender][link.states[1 - direction]][what] < 0:
            link.states[0] = link.states[1] = 0         # of an earlier session, or it moves to another handle
        link.sent = h.sent = began
        h.credit = link
    return watch_both(c, V_LINK, link.states, direction, what, link.direction)


# ---- NSQ, RocketMQ

cdef int observe_nsq(OpenOperations e, Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    cdef int what = OBSERVED[V_NSQ][kind]
    cdef const Col* fatal
    cdef Space* waiting
    cdef Span s
    if kind == K_NSQ_RESPONSE:
        s = field_text(r, NS_RESPONSE)
        if is_text(&s, b"OK"):
            waiting = e.space_of(c, S_REQUEST, 0, 0, False)
            if waiting != NULL and waiting.first != NULL and waiting.first.kind == O_PUBLISH:
                return V_NO_CHANGE                      # the answer to it, whatever has been sent since
            what = V_NSQ_RESPONSE[0]
        elif is_text(&s, b"CLOSE_WAIT"):
            what = V_NSQ_RESPONSE[1]
        elif s.size == 0 or s.at[0] != c"{":
            what = V_NSQ_OTHER
        elif field_true(r, NS_TLS):
            what = V_NSQ_RESPONSE[3]
        else:
            what = V_NSQ_RESPONSE[4 if field_true(r, NS_DEFLATE) or field_true(r, NS_SNAPPY) else 2]
    elif kind == K_NSQ_ERROR:
        fatal = field_of(r, NS_FATAL)
        if not is_set(fatal, r.at) or field_true(r, NS_FATAL):
            what = V_FATAL
    return watch_in_order(e, c, V_NSQ, r, direction, what) if what >= 0 else V_NO_CHANGE


cdef int observe_rocketmq(Conn* c, const Row* r, int direction) noexcept nogil:
    """A receiver takes every command. What a side must not send before anything has come to it is a violation: that is certain,
    since it cannot have received before what was captured later."""
    cdef int what = V_COMMAND[field_number(r, RM_FLAG, 0) & 3]
    cdef int sent
    if field_number(r, RM_MESSAGE_INDEX, 0) > 0:
        return V_NO_CHANGE                              # of a batch
    if what == V_COMMAND[1] and field_number(r, RM_CODE, 0) == RM_GO_AWAY:
        what = V_COMMAND[4]
    sent = SENDS[V_ROCKETMQ][direction][c.states[direction]][what] if c.states[direction] == 0 else V_NO_CHANGE
    watch(V_ROCKETMQ, c.states, direction, what)
    return sent if sent <= V_VIOLATION else V_NO_CHANGE
