# The tables of states of the connections (states.py), as observers: what a connection of ours refuses is what a finding reports.
# An observer sees both sides. A message is judged by the table of the side that it comes to; the states of both sides follow.

cdef enum:
    V_MQTT = 0
    V_AMQP091
    V_CHANNEL                   # of AMQP 0.9.1
    V_COUNT

cdef enum:
    V_STATES = 16
    V_KINDS = 80

cdef enum:                      # what becomes of a message, if it is not the number of the next state
    V_NO_CHANGE = -1            # it is dropped or refused
    V_UNREAD = -2               # it is read when the host has decided
    V_TO_CHANNEL = -3           # the table of channels says it
    V_VIOLATION = -8            # this one and smaller numbers: of the rule

#: [observer][role][state][kind]; roles: 0 client, 1 server. The first state of each is 0.
cdef int16_t[V_COUNT][2][V_STATES][V_KINDS] RECEIVES
cdef int16_t[V_COUNT][2][V_STATES][V_KINDS] SENDS

#: The kind in a table, by Kind; -1: it has none.
cdef int16_t[V_COUNT][K_COUNT] OBSERVED
cdef int V_CONNACK_REFUSED, V_AUTH_CONTINUE, V_AUTH_AGAIN, V_CHANNEL_FRAME, V_ON_ZERO, V_ZERO_ONLY

cdef list RULE_BYTES = []       # texts of rules
cdef const char* RULE_TEXT[256]


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
    places = {name: i for i, name in enumerate(kinds)}
    if len(places) > V_KINDS or len(states) > V_STATES:
        raise SystemError("a table of states is too large")
    for role in range(2):
        for state in range(V_STATES):
            for kind in range(V_KINDS):
                RECEIVES[observer][role][state][kind] = SENDS[observer][role][state][kind] = V_NO_CHANGE
    for (whose, at, name), transition in receives.items():
        role, state, kind = whose.value == "server", states.index(at), places[name]
        RECEIVES[observer][role][state][kind] = transition_number(transition, states, rules)
    for (whose, at, name), transition in sends.items():
        role, state, kind = whose.value == "server", states.index(at), places[name]
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
    cdef int i, j
    rules = {}
    for i in range(V_COUNT):
        for j in range(<int>K_COUNT):
            OBSERVED[i][j] = -1
    mqtt, amqp = (row.states() for row in PROTOCOL_ROWS[:2])
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
    RULE_BYTES.extend(rule.encode() for rule in rules)
    for i in range(len(RULE_BYTES)):
        RULE_TEXT[i] = <const char*>(<bytes>RULE_BYTES[i])
    return 0


fill_observers()


cdef inline int watch(int observer, uint8_t* states, int direction, int kind) noexcept nogil:
    """A message of this side: the states of both follow. Returns what becomes of it."""
    cdef int came = RECEIVES[observer][1 - direction][states[1 - direction]][kind]
    cdef int sent = SENDS[observer][direction][states[direction]][kind]
    if came >= 0:
        states[1 - direction] = <uint8_t>came
    if sent >= 0:
        states[direction] = <uint8_t>sent
    return came


cdef void put_violation(Conn* c, const Row* r, int direction, int rule) noexcept nogil:
    """The first is remembered."""
    cdef Span kind = text_of(r, T_KIND), s
    cdef char[512] words
    if c.numbers[N_VIOLATIONS] == 0:
        s.at = <const uint8_t*>words
        s.size = <uint32_t>snprintf(words, sizeof(words), "%.*s: %s", <int>whole_text(&kind, 60), chars_of(&kind),
                                    RULE_TEXT[rule])
        keep_span(&c.texts[Y_VIOLATION], &s)
        c.numbers[N_VIOLATION_AT] = number_of(r, T_TS_NS, 0)
        c.numbers[N_VIOLATION_DIRECTION] = direction
        c.numbers[N_VIOLATION_FRAME] = number_of(r, T_FRAME_NO, -1)
    c.numbers[N_VIOLATIONS] += 1


cdef void observe(OpenOperations e, Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    """Messages of MQTT and AMQP 0.9.1, in order, from the first of the connection on."""
    cdef int64_t code, channel
    cdef int became, what
    cdef Space* s
    if c.protocol == P_MQTT:
        what = OBSERVED[V_MQTT][kind]
        if what < 0:
            return
        if kind == K_CONNACK or kind == K_MQTT_AUTH:
            code = number_of(r, T_CODE, 0)
            if kind == K_CONNACK:
                what = V_CONNACK_REFUSED if code else what
            else:
                what = V_AUTH_CONTINUE if code == 0x18 else V_AUTH_AGAIN if code == 0x19 else what
        became = watch(V_MQTT, c.states, direction, what)
    else:
        channel = number_of(r, T_CHANNEL, 0)
        what = OBSERVED[V_CHANNEL][kind]
        if channel == 0:
            became = watch(V_AMQP091, c.states, direction, V_ON_ZERO if what >= 0 else OBSERVED[V_AMQP091][kind])
        else:
            became = watch(V_AMQP091, c.states, direction, V_CHANNEL_FRAME)
            if became == V_TO_CHANNEL or became == V_UNREAD:
                s = e.space_of(c, S_REQUEST, 0, <int32_t>channel, True)
                if s == NULL:
                    return
                became = watch(V_CHANNEL, s.states, direction, what if what >= 0 else V_ZERO_ONLY)
    if became <= V_VIOLATION:
        put_violation(c, r, direction, V_VIOLATION - became)
