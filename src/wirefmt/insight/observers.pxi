# The tables of states of the connections (states.py), as observers: what a connection of ours refuses is what a finding reports.
# An observer sees both sides. A message is judged by the table of the side that it comes to; the states of both sides follow.
# What a side has sent before was captured before, so its state is known when something comes; `observed` has the messages.

cdef enum:
    V_MQTT = 0
    V_AMQP091
    V_CHANNEL                   # of AMQP 0.9.1
    V_SASL                      # the levels of AMQP 1.0
    V_AMQP10
    V_SESSION
    V_LINK
    V_NSQ
    V_ROCKETMQ
    V_PHPMQ
    V_COUNT

cdef enum:
    V_STATES = 16
    V_KINDS = 80

cdef enum:                      # what becomes of a message, if it is not the number of the next state
    V_NO_CHANGE = -1            # it is dropped or refused
    V_UNREAD = -2               # it is read when the host has decided
    V_TO_CHANNEL = -3           # the table of channels says it
    V_VIOLATION = -8            # this one and smaller numbers: of the rule

#: [observer][role][state][kind]; roles: 0 client or sender, 1 server or receiver. The first state of each is 0.
cdef int16_t[V_COUNT][2][V_STATES][V_KINDS] RECEIVES
cdef int16_t[V_COUNT][2][V_STATES][V_KINDS] SENDS

#: The kind in a table, by Kind; -1: it has none.
cdef int16_t[V_COUNT][K_COUNT] OBSERVED
cdef int V_CONNACK_REFUSED, V_AUTH_CONTINUE, V_AUTH_AGAIN, V_CHANNEL_FRAME, V_ON_ZERO, V_ZERO_ONLY
cdef int V_SASL_HEADER, V_SASL_OUTCOME, V_AMQP_HEADER, V_FATAL
cdef int[5] V_NSQ_RESPONSE       # OK, CLOSE_WAIT, JSON, with TLS, with compression
cdef int V_NSQ_OTHER
cdef int[5] V_COMMAND            # of RocketMQ, by the lowest bits of its flag; GO_AWAY

#: Kinds of the tables, as texts.
cdef list KIND_BYTES = []
cdef Span[V_COUNT][V_KINDS] TABLE_KIND

cdef list RULE_BYTES = []       # texts of rules
cdef enum:
    RULES_MAX = 256

cdef const char* RULE_TEXT[RULES_MAX]


cdef int16_t transition_number(transition, list states, rules) except -32768:
    if transition in states:
        return <int16_t>states.index(transition)
    name = getattr(transition, "name", None)
    if name is not None:
        return <int16_t>(V_TO_CHANNEL if name == "CHANNEL" else V_UNREAD if name == "UNREAD" else V_NO_CHANGE)
    return <int16_t>(V_VIOLATION - rules.setdefault(transition.rule, len(rules)))


cdef int fill_observer(int observer, receives, sends, kinds, states, rules) except -1:
    """kinds: names in the tables."""
    cdef int role, state, kind
    cdef bytes text
    places = {name: i for i, name in enumerate(kinds)}
    if len(places) > V_KINDS or len(states) > V_STATES:
        raise SystemError("a table of states is too large")
    for role in range(2):
        for state in range(V_STATES):
            for kind in range(V_KINDS):
                RECEIVES[observer][role][state][kind] = SENDS[observer][role][state][kind] = V_NO_CHANGE
    for name, kind in places.items():
        text = name.encode()
        KIND_BYTES.append(text)                         # keeps it alive
        TABLE_KIND[observer][kind].at = <const uint8_t*><const char*>text
        TABLE_KIND[observer][kind].size = <uint32_t>len(text)
    for (whose, at, name), transition in receives.items():
        role, state, kind = whose.value in ("server", "receiver"), states.index(at), places[name]
        RECEIVES[observer][role][state][kind] = transition_number(transition, states, rules)
    for (whose, at, name), transition in sends.items():
        role, state, kind = whose.value in ("server", "receiver"), states.index(at), places[name]
        SENDS[observer][role][state][kind] = transition_number(transition, states, rules)
    return 0


cdef int name_kinds(int observer, tuple names, int first, kinds, dict others) except -1:
    """names: of the kinds of messages from `first` on. others: name of a message: name in the table."""
    cdef int i
    places = {name: i for i, name in enumerate(kinds)}
    for i in range(len(names)):
        OBSERVED[observer][first + i] = places.get(others.get(names[i], names[i]), -1)
    return 0


cdef int fill_observers() except -1:
    global V_CONNACK_REFUSED, V_AUTH_CONTINUE, V_AUTH_AGAIN, V_CHANNEL_FRAME, V_ON_ZERO, V_ZERO_ONLY
    global V_SASL_HEADER, V_SASL_OUTCOME, V_AMQP_HEADER, V_FATAL, V_NSQ_OTHER
    cdef int i, j
    rules = {}
    for i in range(<int>V_COUNT):
        for j in range(<int>K_COUNT):
            OBSERVED[i][j] = -1
    mqtt, amqp, amqp10, rocketmq, nsq, phpmq = (row.states() for row in PROTOCOL_ROWS[:6])
    fill_observer(V_MQTT, mqtt.RECEIVES, mqtt.SENDS, mqtt.KINDS, list(mqtt.State), rules)
    name_kinds(V_MQTT, KIND_NAMES[0], K_CONNECT, mqtt.KINDS, {"CONNACK": "CONNACK accepted", "AUTH": "AUTH success"})
    fill_observer(V_AMQP091, amqp.RECEIVES, amqp.SENDS, amqp.KINDS, list(amqp.State), rules)
    name_kinds(V_AMQP091, KIND_NAMES[1], K_START, amqp.KINDS, {"protocol-header": amqp.HEADER})
    fill_observer(V_CHANNEL, amqp.CHANNEL_RECEIVES, amqp.CHANNEL_SENDS, amqp.CHANNEL_KINDS, list(amqp.ChannelState), rules)
    name_kinds(V_CHANNEL, KIND_NAMES[1], K_START, amqp.CHANNEL_KINDS, {})
    V_CONNACK_REFUSED = mqtt.KINDS.index("CONNACK refused")
    V_AUTH_CONTINUE = mqtt.KINDS.index("AUTH continue")
    V_AUTH_AGAIN = mqtt.KINDS.index("AUTH re-authenticate")
    V_CHANNEL_FRAME = amqp.KINDS.index(amqp.CHANNEL_FRAME)
    V_ON_ZERO = amqp.KINDS.index(amqp.CHANNEL_ON_ZERO)
    V_ZERO_ONLY = amqp.CHANNEL_KINDS.index(amqp.ON_CHANNEL_ZERO_ONLY)
    for i, level in zip((V_SASL, V_AMQP10, V_SESSION, V_LINK), amqp10.LEVELS):
        fill_observer(i, level.receives, level.sends, level.kinds, list(level.states), rules)
        name_kinds(i, KIND_NAMES[2], K_SASL_INIT, level.kinds, {"empty": "empty frame"})
    V_SASL_HEADER = amqp10.SASL_KINDS.index("SASL header")
    V_SASL_OUTCOME = amqp10.SASL_KINDS.index("sasl-outcome ok")
    if amqp10.SASL_KINDS[V_SASL_OUTCOME + 1] != "sasl-outcome failed":
        raise SystemError("the kinds of outcomes differ")
    V_AMQP_HEADER = amqp10.KINDS.index("AMQP header")
    kinds = nsq.COMMANDS + nsq.FRAMES
    fill_observer(V_NSQ, nsq.RECEIVES, nsq.SENDS, kinds, list(nsq.State), rules)
    name_kinds(V_NSQ, KIND_NAMES[3], K_IDENTIFY, kinds, {"MAGIC": "magic"})
    for i, name in enumerate(("OK", "CLOSE_WAIT", "JSON", "JSON with tls_v1", "JSON with compression")):
        V_NSQ_RESPONSE[i] = kinds.index(name)
    V_NSQ_OTHER = kinds.index("other response")
    V_FATAL = kinds.index("fatal error")
    fill_observer(V_ROCKETMQ, rocketmq.RECEIVES, rocketmq.SENDS, rocketmq.KINDS, list(rocketmq.State), rules)
    for i, name in enumerate(("request", "response", "one-way request", "response", "response GO_AWAY")):
        V_COMMAND[i] = rocketmq.KINDS.index(name)
    kinds = phpmq.FROM_CLIENT + phpmq.FROM_SERVER
    fill_observer(V_PHPMQ, phpmq.RECEIVES, phpmq.SENDS, kinds, list(phpmq.State), rules)
    name_kinds(V_PHPMQ, KIND_NAMES[4], K_PHP_SEND, kinds, {
        "MESSAGE_CLIENT_TO_SERVER": "publish", "CONSUME_REQUEST": "consume", "MESSAGE_SERVER_TO_CLIENT": "message",
        "ACKNOWLEDGEMENT": "acknowledge", "REQUEUE": "re-queue", "DEAD_LETTER": "dead letter"})
    if len(rules) > RULES_MAX:
        raise SystemError("there are too many rules")
    RULE_BYTES.extend(rule.encode() for rule in rules)
    for i in range(len(RULE_BYTES)):
        RULE_TEXT[i] = <const char*>(<bytes>RULE_BYTES[i])
    return 0


fill_observers()


cdef void put_violation(Conn* c, const Span* kind, int64_t ns, int64_t frame, int direction, int rule) noexcept nogil:
    """The first is remembered."""
    cdef Span s
    cdef char[512] words
    if c.numbers[N_VIOLATIONS] == 0:
        s.at = <const uint8_t*>words
        s.size = <uint32_t>snprintf(words, sizeof(words), "%.*s: %s", <int>whole_text(kind, 60), chars_of(kind), RULE_TEXT[rule])
        keep_span(&c.texts[Y_VIOLATION], &s)
        c.numbers[N_VIOLATION_AT] = ns
        c.numbers[N_VIOLATION_DIRECTION] = direction
        c.numbers[N_VIOLATION_FRAME] = frame
    c.numbers[N_VIOLATIONS] += 1


cdef inline int watch(int observer, uint8_t* states, int direction, int kind) noexcept nogil:
    """A message of this side: the states of both follow. Returns what becomes of it."""
    cdef int came = RECEIVES[observer][1 - direction][states[1 - direction]][kind]
    cdef int sent = SENDS[observer][direction][states[direction]][kind]
    if came >= 0:
        states[1 - direction] = <uint8_t>came
    if sent >= 0:
        states[direction] = <uint8_t>sent
    return came


cdef inline int watch_both(Conn* c, int observer, uint8_t* states, int direction, int kind, int first) noexcept nogil:
    """The same where a side may be ahead of the other: what the sender's table allows is not reported, and if the receiver's
    forbids it, it is not known any more in which state they are. first: the side that has the first role."""
    cdef int came = RECEIVES[observer][1 - direction ^ first][states[1 - direction]][kind]
    cdef int sent = SENDS[observer][direction ^ first][states[direction]][kind]
    if came >= 0:
        states[1 - direction] = <uint8_t>came
    if sent >= 0:
        states[direction] = <uint8_t>sent
    if came <= V_VIOLATION and sent >= 0:
        c.unobserved = True
        return V_NO_CHANGE
    return came


cdef bint put_unread(OpenOperations e, Conn* c, const Row* r, int direction, int kind, bint allowed) noexcept nogil:
    """A message that its receiver reads when its host has decided. False: there are too many of them."""
    cdef Waiting* w
    if c.unread == NULL:
        c.unread = <Unread*>calloc(1, sizeof(Unread))
        if c.unread == NULL:
            e.no_memory += 1
            return False
        e.octets += <int64_t>sizeof(Unread) + BLOCK_OCTETS
    if c.unread.count[1 - direction] == UNREAD_MAX:
        return False
    w = &c.unread.at[1 - direction][c.unread.count[1 - direction]]
    c.unread.count[1 - direction] += 1
    w.ns = number_of(r, T_TS_NS, 0)
    w.frame = number_of(r, T_FRAME_NO, -1)
    w.kind = <int16_t>kind
    w.allowed = allowed
    return True


cdef void read_unread(Conn* c, int observer, int receiver) noexcept nogil:
    """The state of this side has changed: it reads what waits."""
    cdef Waiting* w
    cdef int i = 0, came
    while i < c.unread.count[receiver]:
        w = &c.unread.at[receiver][i]
        came = RECEIVES[observer][receiver][c.states[receiver]][w.kind]
        if came == V_UNREAD:
            break
        if came >= 0:
            c.states[receiver] = <uint8_t>came
        elif came <= V_VIOLATION and w.allowed:
            c.unobserved = True
        elif came <= V_VIOLATION:
            put_violation(c, &TABLE_KIND[observer][w.kind], w.ns, w.frame, 1 - receiver, V_VIOLATION - came)
        i += 1
    c.unread.count[receiver] -= i
    memmove(&c.unread.at[receiver][0], &c.unread.at[receiver][i], <size_t>c.unread.count[receiver] * sizeof(Waiting))


cdef int watch_in_order(OpenOperations e, Conn* c, int observer, const Row* r, int direction, int kind) noexcept nogil:
    """As `watch_both`, of a connection; what a side does not read yet waits."""
    cdef int receiver = 1 - direction, came
    cdef int sent = SENDS[observer][direction][c.states[direction]][kind]
    if RECEIVES[observer][receiver][c.states[receiver]][kind] == V_UNREAD or (
            c.unread != NULL and c.unread.count[receiver]):
        if not put_unread(e, c, r, direction, kind, sent >= 0):
            c.unobserved = True
        came = V_UNREAD
        if sent >= 0:
            c.states[direction] = <uint8_t>sent
    else:
        came = watch_both(c, observer, c.states, direction, kind, 0)
    if sent >= 0 and c.unread != NULL and c.unread.count[direction]:
        read_unread(c, observer, direction)
    return came
