# MQTT: what its packets mean for operations and connections (5.0 4.3, 4.4; 3.1.1 4.3, 4.4).
# A packet identifier belongs to the side that sent the PUBLISH, or to the client's SUBSCRIBE and UNSUBSCRIBE.

cdef StructField MQ_KEEP_ALIVE = field("mqtt", "keep_alive"), MQ_USER_NAME = field("mqtt", "user_name")
cdef StructField MQ_SESSION_PRESENT = field("mqtt", "session_present"), MQ_SERVER_KEEP_ALIVE = field("mqtt", "server_keep_alive")
cdef StructField MQ_SESSION_EXPIRY = field("mqtt", "session_expiry_interval")
cdef StructField MQ_RECEIVE_MAXIMUM = field("mqtt", "receive_maximum")
cdef StructField MQ_PACKET_MAXIMUM = field("mqtt", "maximum_packet_size"), MQ_REASON = field("mqtt", "reason_string")
cdef StructField MQ_ASSIGNED = field("mqtt", "assigned_client_identifier"), MQ_FILTERS = field("mqtt", "topic_filters")
cdef StructField MQ_CODES = field("mqtt", "reason_codes"), MQ_RETAIN = field("mqtt", "retain")
cdef StructField MQ_FLAGS = field("mqtt", "connect_flags"), MQ_METHOD = field("mqtt", "authentication_method")
cdef StructField MQ_ALIAS_MAXIMUM = field("mqtt", "topic_alias_maximum"), MQ_ALIAS = field("mqtt", "topic_alias")
cdef StructField MQ_QOS_MAXIMUM = field("mqtt", "maximum_qos"), MQ_RETAIN_AVAILABLE = field("mqtt", "retain_available")
cdef StructField MQ_WILDCARDS = field("mqtt", "wildcard_subscription_available")
cdef StructField MQ_SHARED = field("mqtt", "shared_subscription_available")
cdef StructField MQ_IDENTIFIERS = field("mqtt", "subscription_identifier_available")
cdef StructField MQ_IDENTIFIER = field("mqtt", "subscription_identifiers")
cdef int T_WIRE_SIZE = MESSAGE_COLUMN["wire_size"]

cdef enum:
    MQTT_ERROR = 0x80               # the first reason code of a failure
    MQTT_HAS_PASSWORD = 0x40        # of the Connect Flags


cdef void mqtt_takes(Taken* t, const Row* r) noexcept nogil:
    """What the side that sent this CONNECT or CONNACK takes (5.0 3.1.2.11, 3.2.2.3)."""
    cdef Span version = text_of(r, T_VERSION)
    t.said = is_text(&version, b"5.0")
    t.packet = field_number(r, MQ_PACKET_MAXIMUM, <int64_t>1 << 32)
    t.window = <int32_t>field_number(r, MQ_RECEIVE_MAXIMUM, 65535)
    t.aliases = <int32_t>field_number(r, MQ_ALIAS_MAXIMUM, 0)
    t.qos = <int8_t>field_number(r, MQ_QOS_MAXIMUM, 2)
    t.retain = field_number(r, MQ_RETAIN_AVAILABLE, 1) != 0
    t.wildcards = field_number(r, MQ_WILDCARDS, 1) != 0
    t.shared = field_number(r, MQ_SHARED, 1) != 0
    t.identifiers = field_number(r, MQ_IDENTIFIERS, 1) != 0


cdef void put_misuse(Conn* c, const Row* r, int direction, const char* text) noexcept nogil:
    """The first is remembered."""
    cdef Span kind = text_of(r, T_KIND), s
    cdef char[256] words
    if c.unobserved:
        return
    if c.numbers[N_MISUSES] == 0:
        s.at = <const uint8_t*>words
        s.size = <uint32_t>snprintf(words, sizeof(words), "%.*s: %s", <int>whole_text(&kind, 60), chars_of(&kind), text)
        keep_span(&c.texts[Y_MISUSE], &s)
        c.numbers[N_MISUSE_AT] = number_of(r, T_TS_NS, 0)
        c.numbers[N_MISUSE_DIRECTION] = direction
        c.numbers[N_MISUSE_FRAME] = number_of(r, T_FRAME_NO, -1)
    c.numbers[N_MISUSES] += 1


cdef void mqtt_misuse(Conn* c, const Row* r, int kind, int direction) noexcept nogil:
    """What the other side does not take, as it has said. Before the CONNACK the client does not know it."""
    cdef const Taken* t = &c.takes[1 - direction]
    cdef Span s
    if not t.said:
        return
    if number_of(r, T_WIRE_SIZE, 0) > t.packet:
        put_misuse(c, r, direction, b"the packet is larger than the Maximum Packet Size [MQTT-3.1.2-24, MQTT-3.2.2-15]")
    if kind == K_PUBLISH:
        s = text_of(r, T_DESTINATION)
        if field_number(r, MQ_ALIAS, 0) > t.aliases:
            put_misuse(c, r, direction, b"the Topic Alias is above the Topic Alias Maximum [MQTT-3.3.2-9, MQTT-3.3.2-11]")
        elif s.size == 0:
            put_misuse(c, r, direction, b"no topic, and a Topic Alias that has not been set (3.3.2.3.4)")
        if number_of(r, T_QOS, 0) > t.qos:
            put_misuse(c, r, direction, b"the QoS is above the Maximum QoS [MQTT-3.2.2-11]")
        if direction == 0 and field_true(r, MQ_RETAIN) and not t.retain:
            put_misuse(c, r, direction, b"RETAIN, which the server does not support [MQTT-3.2.2-14]")
    elif kind == K_SUBSCRIBE and direction == 0:
        if not t.identifiers and field_set(r, MQ_IDENTIFIER):
            put_misuse(c, r, direction, b"a Subscription Identifier, which the server does not support (3.2.2.3.12)")
        if not t.wildcards and mqtt_has_filter(r, b"+", b"#"):
            put_misuse(c, r, direction, b"a wildcard, which the server does not support (3.2.2.3.11)")
        if not t.shared and mqtt_has_filter(r, b"$share/", NULL):
            put_misuse(c, r, direction, b"a shared subscription, which the server does not support (3.2.2.3.13)")


cdef bint mqtt_has_filter(const Row* r, const char* first, const char* second) noexcept nogil:
    """Is there a filter with one of these in it? `second` NULL: one that begins with `first`."""
    cdef const Col* c = field_of(r, MQ_FILTERS)
    cdef Span s
    cdef int64_t i
    cdef uint32_t j
    if not is_set(c, r.at):
        return False
    for i in range(c.offsets[r.at], c.offsets[r.at + 1]):
        s = octets_at(c.children, i)
        if second == NULL:
            if s.size >= strlen(first) and memcmp(s.at, first, strlen(first)) == 0:
                return True
            continue
        for j in range(s.size):
            if s.at[j] == <uint8_t>first[0] or s.at[j] == <uint8_t>second[0]:
                return True
    return False


cdef void mqtt_message(OpenOperations e, Conn* c, const Row* r, int kind, int direction, Op* o) noexcept nogil:
    cdef int64_t code = number_of(r, T_CODE, ABSENT)
    cdef uint64_t identifier = <uint64_t>number_of(r, T_SEQUENCE, 0)
    cdef int other = 1 - direction
    cdef int what
    cdef Span s, kind_text
    cdef Op* found
    cdef Space* space
    s = field_text(r, MQ_REASON)
    mqtt_misuse(c, r, kind, direction)
    if kind == K_PUBLISH:
        begin_op(o, c, r, O_DELIVER if direction else O_PUBLISH, kind)
        o.retained = field_true(r, MQ_RETAIN)
        what = S_DELIVER if direction else S_PUBLISH
        c.numbers[N_DELIVERED if direction else N_PUBLISHED] += 1
        if number_of(r, T_QOS, 0) == 0:
            e.emit_alone(o)
            return
        found = e.find_op(c, what, direction, 0, identifier)
        if found != NULL:
            if o.redelivered == 1:                      # sent again on the same connection
                found.transmissions += 1
                return
            e.complete(found, E_SUPERSEDED, NULL)
        e.open_op(o, what, 0, identifier)
        space = e.space_of(c, what, direction, 0, False)
        if c.takes[other].said and space != NULL and space.count > c.takes[other].window:
            put_misuse(c, r, direction, b"more PUBLISH packets without an answer than the Receive Maximum allows "
                       b"[MQTT-3.3.4-7, MQTT-3.3.4-9]")
    elif kind == K_PUBACK or kind == K_PUBREC or kind == K_PUBCOMP:
        what = S_PUBLISH if direction else S_DELIVER
        found = e.find_op(c, what, other, 0, identifier)
        if found == NULL:
            found = mqtt_resumed(e, c, r, o, other, identifier)
            if found == NULL:
                return
        if kind == K_PUBREC and (code == ABSENT or code < MQTT_ERROR):
            found.received_ns = number_of(r, T_TS_NS, -1)
            if code != ABSENT and code:
                found.code = <int32_t>code
            return
        if kind == K_PUBCOMP and found.code != ABSENT and (code == ABSENT or code == 0):
            code = found.code                           # what PUBREC said
        e.answer(found, E_REFUSED if code != ABSENT and code >= MQTT_ERROR else E_ACKNOWLEDGED, r, code, &s)
    elif kind == K_PUBREL:
        found = e.find_op(c, S_DELIVER if direction else S_PUBLISH, direction, 0, identifier)
        if found == NULL:
            found = mqtt_resumed(e, c, r, o, direction, identifier)
        if found != NULL:
            found.released_ns = number_of(r, T_TS_NS, -1)
    elif kind == K_CONNECT:
        c.numbers[N_LOGIN] = number_of(r, T_TS_NS, -1)
        s = field_text(r, MQ_USER_NAME)
        keep_span(&c.texts[Y_USER_NAME], &s)
        if field_number(r, MQ_KEEP_ALIVE, 0) > 0:
            c.numbers[N_KEEP_ALIVE] = 1000000000 * field_number(r, MQ_KEEP_ALIVE, 0)
        if field_set(r, MQ_SESSION_EXPIRY):
            c.numbers[N_SESSION_EXPIRY] = 1000000000 * field_number(r, MQ_SESSION_EXPIRY, 0)
        c.numbers[N_CLIENT_WINDOW] = field_number(r, MQ_RECEIVE_MAXIMUM, -1)
        space = e.space_of(c, S_DELIVER, 1, 0, True)
        if space != NULL:
            space.window = max(<int64_t>0, c.numbers[N_CLIENT_WINDOW])
        if field_number(r, MQ_FLAGS, 0) & MQTT_HAS_PASSWORD:
            c.numbers[N_SECRET] = c.numbers[N_LOGIN]
        c.numbers[N_FRAME_MAX] = field_number(r, MQ_PACKET_MAXIMUM, -1)
        s = field_text(r, MQ_METHOD)
        keep_span(&c.texts[Y_MECHANISM], &s)
        mqtt_takes(&c.takes[0], r)
        begin_op(o, c, r, O_LOGIN, kind)
        e.open_op(o, S_LOGIN, 0, 0)
    elif kind == K_CONNACK:
        c.session_present = field_true(r, MQ_SESSION_PRESENT)
        c.numbers[N_SERVER_WINDOW] = field_number(r, MQ_RECEIVE_MAXIMUM, -1)
        if field_set(r, MQ_SERVER_KEEP_ALIVE):
            c.numbers[N_KEEP_ALIVE] = 1000000000 * field_number(r, MQ_SERVER_KEEP_ALIVE, 0)
        if field_set(r, MQ_SESSION_EXPIRY):
            c.numbers[N_SESSION_EXPIRY] = 1000000000 * field_number(r, MQ_SESSION_EXPIRY, 0)
        kind_text = field_text(r, MQ_ASSIGNED)
        keep_span(&c.texts[Y_CLIENT_ID], &kind_text)
        c.logged_in = code == 0
        mqtt_takes(&c.takes[1], r)
        c.login_refused = not c.logged_in
        if c.login_refused:
            kind_text = text_of(r, T_KIND)
            end_connection(c, r, 1, True, &kind_text, &s, code, True)
        found = e.find_op(c, S_LOGIN, 0, 0, 0)
        if found != NULL:
            e.answer(found, E_ACKNOWLEDGED if c.logged_in else E_REFUSED, r, code, &s)
    elif kind == K_SUBSCRIBE or kind == K_UNSUBSCRIBE:
        begin_op(o, c, r, O_SUBSCRIBE if kind == K_SUBSCRIBE else O_UNSUBSCRIBE, kind)
        o.number = mqtt_filters(r)
        if o.texts[Z_DESTINATION].at == NULL:
            o.texts[Z_DESTINATION] = mqtt_filter(r)
        e.open_op(o, S_NUMBERED, 0, identifier)
    elif kind == K_SUBACK or kind == K_UNSUBACK:
        found = e.find_op(c, S_NUMBERED, 0, 0, identifier)
        code = mqtt_worst_code(r, code)
        if found != NULL:
            if kind == K_SUBACK and (code == ABSENT or code < MQTT_ERROR):
                c.subscriptions += found.number
                most(c, N_SUBSCRIPTIONS, c.subscriptions)
            elif kind == K_UNSUBACK:
                c.subscriptions = max(<int64_t>0, c.subscriptions - found.number)
            e.answer(found, E_REFUSED if code != ABSENT and code >= MQTT_ERROR else E_ACKNOWLEDGED, r, code, &s)
    elif kind == K_PINGREQ:
        begin_op(o, c, r, O_HEARTBEAT, kind)
        e.open_op(o, S_PING, 0, 0)
    elif kind == K_PINGRESP:
        found = e.find_op(c, S_PING, 0, 0, 0)
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
    elif kind == K_DISCONNECT:
        kind_text = text_of(r, T_KIND)
        end_connection(c, r, direction, code != ABSENT and code >= MQTT_ERROR, &kind_text, &s,
                       code, code != ABSENT)


cdef Op* mqtt_resumed(OpenOperations e, Conn* c, const Row* r, Op* o, int direction, uint64_t identifier) noexcept nogil:
    """The rest of a PUBLISH whose packet was sent before the capture, or on the connection of the session before."""
    begin_unseen(o, c, r, direction, K_PUBLISH, b"PUBLISH")
    return e.open_op(o, S_DELIVER if direction else S_PUBLISH, 0, identifier)


cdef int64_t mqtt_filters(const Row* r) noexcept nogil:
    """How many topic filters a packet has."""
    cdef const Col* c = field_of(r, MQ_FILTERS)
    return c.offsets[r.at + 1] - c.offsets[r.at] if is_set(c, r.at) else 0


cdef Span mqtt_filter(const Row* r) noexcept nogil:
    """The first topic filter."""
    cdef const Col* c = field_of(r, MQ_FILTERS)
    cdef Span s
    s.at = NULL
    s.size = 0
    return octets_at(c.children, c.offsets[r.at]) if mqtt_filters(r) else s


cdef int64_t mqtt_worst_code(const Row* r, int64_t code) noexcept nogil:
    """The first failure of a list of reason codes; otherwise the first of them."""
    cdef const Col* c = field_of(r, MQ_CODES)
    cdef int64_t i
    if is_set(c, r.at) and c.offsets[r.at + 1] > c.offsets[r.at]:
        code = number_at(c.children, c.offsets[r.at], code)
        for i in range(c.offsets[r.at], c.offsets[r.at + 1]):
            if number_at(c.children, i, 0) >= MQTT_ERROR:
                return number_at(c.children, i, 0)
    return code
