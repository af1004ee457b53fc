# The row of a connection that has ended.
from wirefmt.spec.insight import (
    CONNECTIONS as CONNECTION_COLUMNS, OPERATIONS as OPERATION_COLUMNS, TRANSPORT as TRANSPORT_COLUMNS,
)

#: Columns that an Insight fills: all of CONNECTIONS but what depends on other connections, and facts for those.
CONNECTION_FACTS = (
    *(column for column in CONNECTION_COLUMNS if column.name not in ("community_id", "reason", "reason_text")),
    *(column for column in TRANSPORT_COLUMNS if column.name in (
        "first_ns", "closed_ns", "client_last_ns", "server_last_ns", "client_data_ns", "server_data_ns", "truncated",
        "backwards_ns")),
    CONNECTION_COLUMNS[0]._replace(name="login_ns", meaning="time of the client's login"),
    CONNECTION_COLUMNS[0]._replace(name="ended_ns", meaning="time of the end that the protocol knows"),
    CONNECTION_COLUMNS[0]._replace(name="client_message_ns", meaning="time of the client's last message"),
    CONNECTION_COLUMNS[0]._replace(name="server_message_ns", meaning="time of the server's last message"),
    CONNECTION_COLUMNS[0]._replace(name="logged_in", type="boolean", meaning="the server has accepted the login"),
    CONNECTION_COLUMNS[0]._replace(name="login_refused", type="boolean", meaning="the server has refused the login"),
    CONNECTION_COLUMNS[0]._replace(name="failed", type="boolean", meaning="the end names an error"),
    CONNECTION_COLUMNS[0]._replace(name="malformed", type="int64", meaning="messages that are not valid, of both sides"),
    CONNECTION_COLUMNS[0]._replace(name="fault", type="string", meaning="what is wrong with the first of them"),
    CONNECTION_COLUMNS[0]._replace(name="fault_direction", meaning="0: the client sent it"),
    CONNECTION_COLUMNS[0]._replace(name="fault_ns", meaning="its time"),
    CONNECTION_COLUMNS[0]._replace(name="fault_frame", meaning="its packet"),
    CONNECTION_COLUMNS[0]._replace(name="ended_frame", meaning="packet of the end that the protocol knows"),
    CONNECTION_COLUMNS[0]._replace(name="secret_ns", meaning="time of a login with a password that is not hashed"),
    CONNECTION_COLUMNS[0]._replace(name="most_unsettled", meaning="open deliveries of a channel, the most at once"),
    *(CONNECTION_COLUMNS[0]._replace(name=f"{kind}_{name}", type="int64", meaning=meaning)
      for kind in ("publish", "deliver") for name, meaning in (
          ("largest", "octets of the largest payload"), ("answers", "those that were acknowledged at a known time"),
          ("half", "the step in which half of the answers had arrived (answers.pxi)"), ("late", "99 % of them"),
          ("most", "all of them"), ("received", "when the latest QoS 2 message that has a PUBREC began, ns"))),
    CONNECTION_COLUMNS[0]._replace(name="window_full_ns", meaning="the longest time for which as many deliveries as "
                                   "allowed had no answer, while messages waited"),
    CONNECTION_COLUMNS[0]._replace(name="window_full_at_ns", meaning="when that began"),
    CONNECTION_COLUMNS[0]._replace(name="no_credit_ns", meaning="the longest time without credit, or with RDY 0, while messages "
                                   "waited"),
    CONNECTION_COLUMNS[0]._replace(name="no_credit_at_ns", meaning="when that began"),
    CONNECTION_COLUMNS[0]._replace(name="waited_for", type="string", meaning="destination of the message that waited"),
    CONNECTION_COLUMNS[0]._replace(name="violations", meaning="messages that were not allowed then, of both sides"),
    CONNECTION_COLUMNS[0]._replace(name="violation", type="string", meaning="the first of them, and the rule"),
    CONNECTION_COLUMNS[0]._replace(name="violation_direction", meaning="0: the client sent it"),
    CONNECTION_COLUMNS[0]._replace(name="violation_ns", meaning="its time"),
    CONNECTION_COLUMNS[0]._replace(name="violation_frame", meaning="its packet"),
    CONNECTION_COLUMNS[0]._replace(name="misuses", meaning="MQTT 5.0: packets that the other side does not take, as it "
                                   "has said"),
    CONNECTION_COLUMNS[0]._replace(name="misuse", type="string", meaning="what is wrong with the first of them"),
    CONNECTION_COLUMNS[0]._replace(name="misuse_direction", meaning="0: the client sent it"),
    CONNECTION_COLUMNS[0]._replace(name="misuse_ns", meaning="its time"),
    CONNECTION_COLUMNS[0]._replace(name="misuse_frame", meaning="its packet"),
    CONNECTION_COLUMNS[0]._replace(name="mechanism", type="string", meaning="SASL mechanism; authentication method of MQTT"),
    CONNECTION_COLUMNS[0]._replace(name="session_full_ns", meaning="AMQP 1.0: the longest time for which messages waited for the "
                                   "client's session window"),
    CONNECTION_COLUMNS[0]._replace(name="session_full_at_ns", meaning="when that began"),
    CONNECTION_COLUMNS[0]._replace(name="held_ns", meaning="AMQP 1.0: the longest time for which publishes had no credit"),
    CONNECTION_COLUMNS[0]._replace(name="held_at_ns", meaning="when that began"),
    CONNECTION_COLUMNS[0]._replace(name="held_session_ns", meaning="AMQP 1.0: the longest time for which publishes waited for "
                                   "the server's session window"),
    CONNECTION_COLUMNS[0]._replace(name="held_session_at_ns", meaning="when that began"),
    CONNECTION_COLUMNS[0]._replace(name="held_for", type="string", meaning="destination of the publish that waited"),
)
cdef dict FACT = {column.name: i for i, column in enumerate(CONNECTION_FACTS)}

cdef int[Y_COUNT] FACT_TEXT
FACT_TEXT = [FACT[name] for name in (
    "version", "client_id", "user_name", "virtual_host", "client_product", "server_product", "end_kind", "text",
    "fault", "waited_for", "violation", "misuse", "mechanism", "held_for",
    "proxied_client", "proxied_server")]

cdef int[N_COUNT] FACT_NUMBER
FACT_NUMBER = [FACT[name] for name in (
    "client_messages", "server_messages", "published", "delivered", "confirmed", "acknowledged", "subscriptions", "channels",
    "links", "consumers", "keep_alive_ns", "frame_max", "client_window", "server_window", "session_expiry_ns", "unconfirmed",
    "unsettled", "login_ns", "ended_ns", "client_message_ns", "server_message_ns", "malformed", "fault_direction", "fault_ns",
    "fault_frame", "ended_frame", "secret_ns", "most_unsettled", "window_full_ns", "window_full_at_ns", "no_credit_ns",
    "no_credit_at_ns", "violations", "violation_ns", "violation_direction", "violation_frame",
    "misuses", "misuse_ns", "misuse_direction", "misuse_frame", "session_full_ns", "session_full_at_ns", "held_ns", "held_at_ns",
    "held_session_ns", "held_session_at_ns")]

cdef int F_SESSION_PRESENT = FACT["session_present"], F_ENDED_BY = FACT["ended_by"], F_CODE = FACT["code"]
cdef int F_LOGGED_IN = FACT["logged_in"], F_LOGIN_REFUSED = FACT["login_refused"], F_FAILED = FACT["failed"]
cdef int F_FLOW_ID = FACT["flow_id"]

cdef int[2] F_LARGEST = [FACT["publish_largest"], FACT["deliver_largest"]]
cdef int[2] F_ANSWERS = [FACT["publish_answers"], FACT["deliver_answers"]]
cdef int[2] F_HALF = [FACT["publish_half"], FACT["deliver_half"]]
cdef int[2] F_LATE = [FACT["publish_late"], FACT["deliver_late"]]
cdef int[2] F_RECEIVED = [FACT["publish_received"], FACT["deliver_received"]]
cdef int[2] F_MOST = [FACT["publish_most"], FACT["deliver_most"]]

cdef list _SAME = [column.name for column in TRANSPORT_COLUMNS if column.name in FACT]
cdef enum:
    SAME_MAX = 64
cdef int SAME_COUNT = len(_SAME)
cdef int[SAME_MAX] SAME_FROM, SAME_TO       # columns of TRANSPORT that connections repeat
cdef dict _X = {column.name: i for i, column in enumerate(TRANSPORT_COLUMNS)}
for _i, _name in enumerate(_SAME):
    SAME_FROM[<int>_i] = _X[_name]
    SAME_TO[<int>_i] = FACT[_name]
cdef int X_FLOW_ID = _X["flow_id"], X_SYN = _X["syn_ns"], X_FIRST = _X["first_ns"], X_CLOSED = _X["closed_ns"]
cdef int X_CLOSED_BY = _X["closed_by"], X_HOW = _X["how"], X_PROTOCOL = _X["protocol"]
cdef int[2] X_LAST = [_X["client_last_ns"], _X["server_last_ns"]]
cdef int[2] X_DATA = [_X["client_data_ns"], _X["server_data_ns"]]
cdef int F_OPENED = FACT["opened"], F_FIRST = FACT["first"], F_LAST = FACT["last"], F_CLOSED = FACT["closed"]
cdef int F_DURATION = FACT["duration_ns"], F_CLOSED_BY = FACT["closed_by"]
cdef int[2] F_SILENCE = [FACT["client_silence_ns"], FACT["server_silence_ns"]]

cdef void put_side(Col* c, int64_t row, int64_t direction) noexcept nogil:
    if direction >= 0:
        put_octets(c, row, <const uint8_t*>(b"server" if direction else b"client"), 6)


cdef void put_us(Col* c, int64_t row, int64_t ns) noexcept nogil:
    """A timestamp: microseconds, rounded down."""
    cdef int64_t us = ns // 1000                        # as C divides: towards 0
    put_i64(c, row, us - (us * 1000 > ns))


cdef void put_facts(Col* c, int64_t row, const Conn* conn, const Row* x) noexcept nogil:
    """The row of a connection that has ended. x: its row of the transport table; NULL: the messages are all that is known."""
    cdef int64_t first, last, closed, data
    cdef int i
    if x != NULL:
        for i in range(SAME_COUNT):
            if SAME_FROM[i] != X_CLOSED_BY:
                copy_value(c + SAME_TO[i], row, x.cols + SAME_FROM[i], x.at)
        first = number_of(x, X_FIRST, 0)
        last = max(number_of(x, X_LAST[0], 0), number_of(x, X_LAST[1], 0))
        closed = number_of(x, X_CLOSED, -1)
        if is_set(x.cols + X_SYN, x.at):
            put_us(c + F_OPENED, row, number_of(x, X_SYN, 0))
        put_us(c + F_FIRST, row, first)
        put_us(c + F_LAST, row, last)
        put_side(c + F_CLOSED_BY, row, number_of(x, X_CLOSED_BY, -1))
        if is_set(x.cols + X_CLOSED, x.at):
            put_us(c + F_CLOSED, row, closed)
            last = closed
        put_i64(c + F_DURATION, row, last - first)
        for i in range(2):
            data = number_of(x, X_DATA[i], last)
            put_i64(c + F_SILENCE[i], row, max(<int64_t>0, last - data))
    if conn == NULL:
        return
    if x == NULL:
        put_i64(c + F_FLOW_ID, row, conn.flow_id)
    for i in range(Y_COUNT):
        put_span(c + FACT_TEXT[i], row, &conn.texts[i])
    for i in range(N_COUNT):
        if conn.numbers[i] >= 0:
            put_i64(c + FACT_NUMBER[i], row, conn.numbers[i])
    for i in range(2):
        if conn.largest[i] >= 0:
            put_i64(c + F_LARGEST[i], row, conn.largest[i])
        if conn.received_ns[i] >= 0:
            put_i64(c + F_RECEIVED[i], row, conn.received_ns[i])
        if conn.answers[i].total:
            put_i64(c + F_ANSWERS[i], row, conn.answers[i].total)
            put_i64(c + F_HALF[i], row, step_at(&conn.answers[i], 0.5))
            put_i64(c + F_LATE[i], row, step_at(&conn.answers[i], 0.99))
            put_i64(c + F_MOST[i], row, step_at(&conn.answers[i], 1))
    if conn.session_present >= 0:
        put_bool(c + F_SESSION_PRESENT, row, conn.session_present)
    put_side(c + F_ENDED_BY, row, conn.ended_by)
    if conn.has_code:
        put_i32(c + F_CODE, row, <int32_t>conn.code)
    put_bool(c + F_LOGGED_IN, row, conn.logged_in)
    put_bool(c + F_LOGIN_REFUSED, row, conn.login_refused)
    put_bool(c + F_FAILED, row, conn.failed)
