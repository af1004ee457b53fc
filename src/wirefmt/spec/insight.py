"""Columns of the tables that are made of the message table: connections, operations, paths, findings. Types as in columns.py.

`TRANSPORT` is what the reassembly of a capture knows of a TCP connection; it becomes a part of `CONNECTIONS`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from wirefmt.spec.columns import Column

#: Of each direction of a TCP connection; the names begin with `client_` or `server_`.
_TRAFFIC: Final[tuple[Column, ...]] = (
    Column("packets", "int64", "packets of this side"),
    Column("bytes", "int64", "payload bytes of this side, with those sent again"),
    Column("retransmitted_bytes", "int64", "payload bytes of this side that had been captured before"),
    Column("missing_bytes", "int64", "bytes of this side's stream that were not captured"),
    Column("zero_windows", "int64", "packets of this side that say that it takes no more bytes"),
    Column("longest_silence_ns", "int64", "the longest time without payload of this side"),
    Column(
        "mss",
        "int64",
        "bytes of a segment that this side takes at most, as its SYN says; null: it does not, or was not captured",
    ),
)


def _each(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(column._replace(name=f"{side}_{column.name}") for side in ("client", "server") for column in columns)


_ENDS: Final[tuple[Column, ...]] = (
    Column("flow_id", "int64", "identifies the TCP connection, as in the message table"),
    Column("community_id", "string", "Community ID, version 1, seed 0"),
    Column("capture", "string", "capture file with its last packet"),
    Column("client_ip", "string", ""),
    Column("client_port", "int32", ""),
    Column("server_ip", "string", ""),
    Column("server_port", "int32", ""),
    Column("protocol", "string", "null: not decoded"),
)

#: Why TLS is not decrypted, in the order of the counters: their names, and what is said.
TLS_REASONS: Final[Mapping[str, str]] = {
    "decrypted": "decrypted",
    "no_secrets": "neither a key log nor a secrets block",
    "no_secret": "no secret for the client random",
    "handshake_not_captured": "handshake not captured",
    "cipher_not_supported": "cipher suite not supported",
    "version_not_supported": "version not supported",
    "wrong_secret": "the secret does not fit",
    "no_library": "needs the package cryptography (wirefmt[tls])",
    "limit": "limit of memory",
    "no_data": "no application data",
}

#: What a TLS handshake says. In TLS 1.3 the server's certificate and its choice of a protocol are encrypted.
TLS_COLUMNS: Final[tuple[Column, ...]] = (
    Column(
        "tls_version",
        "string",
        "TLS 1.3, TLS 1.2, TLS 1.1, TLS 1.0, SSL 3.0; null: it is not TLS, or the server's hello was not captured",
    ),
    Column("tls_cipher", "string", "cipher suite, as IANA names it"),
    Column("tls_server_name", "string", "the server that the client asks for (SNI)"),
    Column(
        "tls_alpn",
        "string",
        "the protocol that the server has chosen; where that is encrypted, those that the client offers, with commas (ALPN)",
    ),
    Column(
        "tls_subject",
        "string",
        "subject of the server's certificate (RFC 4514); null also if it was encrypted or not sent",
    ),
    Column("tls_not_before", "timestamp", "begin of the certificate's validity"),
    Column("tls_not_after", "timestamp", "end of the certificate's validity"),
    Column(
        "tls_undecrypted", "string", "why the connection is not decrypted: " + ", ".join([*TLS_REASONS.values()][1:])
    ),
)

#: A TCP connection as the reassembly knows it. Times are nanoseconds since 1970; null: not seen.
TRANSPORT: Final[tuple[Column, ...]] = (
    *(column for column in _ENDS if column.name != "community_id"),
    Column("carrier", "string", "plain, websocket, tls, deflate, snappy"),
    Column("syn_ns", "int64", "SYN"),
    Column("handshake_ns", "int64", "duration"),
    Column("first_ns", "int64", "first packet"),
    Column("closed_ns", "int64", "first FIN or RST"),
    Column("closed_by", "int8", "0 client, 1 server"),
    Column("how", "string", "fin, rst, open, idle, evicted, reused"),
    *_each(_TRAFFIC),
    Column("client_last_ns", "int64", "last packet"),
    Column("server_last_ns", "int64", "last packet"),
    Column("client_data_ns", "int64", "last packet with payload before the end"),
    Column("server_data_ns", "int64", "last packet with payload before the end"),
    Column("truncated", "int64", "packets of which not all payload was captured"),
    Column("backwards_ns", "int64", "the longest step back of time from a packet to a later one"),
    *TLS_COLUMNS,
)

#: Why a connection ended.
REASONS: Final = (
    "orderly", "refused", "protocol-error", "resource-error", "keep-alive", "taken-over", "shutdown", "abandoned", "reset",
    "vanished", "half-open", "open", "unknown",
)  # fmt: skip

#: One row for each TCP connection, when it has ended.
CONNECTIONS: Final[tuple[Column, ...]] = (
    *_ENDS,
    Column("version", "string", "protocol version"),
    Column("carrier", "string", "plain, websocket, tls, deflate, snappy: what the messages are in"),
    Column("proxied_client", "string", "address and port of the client, as a PROXY header says"),
    Column("proxied_server", "string", "host and port that a PROXY header, SOCKS5 or HTTP CONNECT leads to"),
    Column("client_id", "string", "client identifier, container, connection name"),
    Column("user_name", "string", "null if it was not sent, or only inside a secret"),
    Column("virtual_host", "string", "AMQP 0.9.1: virtual host. AMQP 1.0: hostname"),
    Column("client_product", "string", "what the client says it is"),
    Column("server_product", "string", "what the server says it is"),
    # ---- when
    Column("opened", "timestamp", "time of the SYN; null if the connection began before the capture"),
    Column("first", "timestamp", "time of the first packet"),
    Column("last", "timestamp", "time of the last packet"),
    Column("closed", "timestamp", "time of the first FIN or RST"),
    Column("duration_ns", "int64", "from the first packet to the first FIN or RST, or to the last packet"),
    # ---- TCP
    Column(
        "how",
        "string",
        "fin, rst: by which packet it was closed; open: still open at the end of the capture; idle; evicted: a limit ended it; "
        "reused: another connection between the same ends began",
    ),
    Column("closed_by", "string", "client or server: who sent the first FIN or RST"),
    Column("handshake_ns", "int64", "from the SYN to the client's first ACK"),
    *_each(_TRAFFIC),
    # ---- TLS
    *TLS_COLUMNS,
    # ---- traffic
    Column("client_messages", "int64", "messages that the client sent"),
    Column("server_messages", "int64", "messages that the server sent"),
    Column("published", "int64", "messages that the client published"),
    Column("delivered", "int64", "messages that were delivered to the client"),
    Column("confirmed", "int64", "publishes that the server has acknowledged"),
    Column("acknowledged", "int64", "deliveries that the client has acknowledged"),
    Column("subscriptions", "int64", "the most at one time"),
    Column("channels", "int64", "the most at one time: channels of AMQP 0.9.1, sessions of AMQP 1.0"),
    Column("links", "int64", "the most at one time: AMQP 1.0"),
    Column("consumers", "int64", "the most at one time"),
    # ---- agreed
    Column(
        "keep_alive_ns", "int64", "how often each side has to be heard, as agreed: keep alive, heartbeat, idle time-out"
    ),
    Column("frame_max", "int64", "bytes: the largest frame or packet that was agreed or asked for"),
    Column(
        "client_window", "int64", "deliveries that the client takes at a time: Receive Maximum, prefetch, credit, RDY"
    ),
    Column("server_window", "int64", "publishes that the server takes at a time"),
    Column("session_expiry_ns", "int64", "MQTT 5.0: Session Expiry Interval"),
    Column("session_present", "boolean", "MQTT: the server had a session of this client"),
    # ---- end
    Column("ended_by", "string", "client or server: who said in the protocol that it ends"),
    Column("end_kind", "string", "DISCONNECT, connection.close, close ...; a refused login: CONNACK ..."),
    Column("code", "int32", "reason or reply code of the end"),
    Column("text", "string", "what the end says"),
    Column("unconfirmed", "int64", "publishes without their acknowledgement"),
    Column("unsettled", "int64", "deliveries without their acknowledgement"),
    Column("client_silence_ns", "int64", "time without payload of the client before the end"),
    Column("server_silence_ns", "int64", "time without payload of the server before the end"),
    # ---- why
    Column("reason", "string", ", ".join(REASONS)),
    Column("reason_text", "string", "the evidence, in a sentence"),
)

#: Kinds of operations.
KINDS: Final = (
    "login", "publish", "deliver", "subscribe", "unsubscribe", "consume", "cancel", "get", "open", "close", "declare", "bind",
    "unbind", "delete", "purge", "request", "transaction", "heartbeat", "blocked", "flow",
)  # fmt: skip

#: How an operation ended.
OUTCOMES: Final = (
    "none", "acknowledged", "rejected", "requeued", "released", "modified", "returned", "refused", "timed-out", "cancelled",
    "superseded", "lost", "unanswered",
)  # fmt: skip

#: One row for each request with its outcome, when it has one.
OPERATIONS: Final[tuple[Column, ...]] = (
    # ---- who and where
    Column("flow_id", "int64", "the TCP connection, as in the message table"),
    Column("capture", "string", "capture file of the request"),
    Column("protocol", "string", ""),
    Column("client_id", "string", "client identifier of the connection"),
    Column("client_ip", "string", ""),
    Column("client_port", "int32", ""),
    Column("direction", "int8", "of the request: 0 client to server, 1 server to client"),
    Column("channel", "int32", "AMQP channel"),
    Column("link", "string", "AMQP 1.0: name of the link; AMQP 0.9.1: consumer tag"),
    Column(
        "sequence",
        "int64",
        "packet identifier, delivery tag, delivery-id, opaque; number of a confirm; RDY, prefetch",
    ),
    Column("destination", "string", "topic, queue, exchange or address"),
    Column("routing_key", "string", "AMQP 0.9.1"),
    Column(
        "queue",
        "string",
        "the queue of a delivery: AMQP 0.9.1's consumer, AMQP 1.0's source, RocketMQ's broker and queue",
    ),
    Column("consumer_group", "string", "RocketMQ group, NSQ channel, MQTT share name"),
    # ---- what
    Column("kind", "string", ", ".join(KINDS)),
    Column(
        "operation",
        "string",
        "OpenTelemetry's create, send, receive, process, settle; otherwise as in the message table",
    ),
    Column("message_kind", "string", "kind of the request in the message table: PUBLISH, basic.deliver ..."),
    Column("message_id", "string", ""),
    Column("correlation_id", "string", ""),
    Column("reply_to", "string", ""),
    Column("traceparent", "string", "header traceparent (W3C Trace Context)"),
    Column("payload_size", "int64", "bytes"),
    Column(
        "payload_hash",
        "int64",
        "64 bits of the payload: equal for equal payloads, on every machine; null if it has none",
    ),
    Column("redelivered", "boolean", "DUP, redelivered, attempts above 1"),
    Column("attempts", "int32", "deliveries of the message, as the server counts them"),
    Column("transmissions", "int32", "how often the request was sent on this connection"),
    Column("qos", "int8", "MQTT: 0, 1, 2"),
    Column("retained", "boolean", "MQTT: RETAIN"),
    Column("persistent", "boolean", "AMQP: delivery mode 2, durable"),
    Column("ttl_ms", "int64", "milliseconds that the message may wait: Message Expiry Interval, expiration, ttl"),
    Column("death_reason", "string", "AMQP: why the server moved the message to this queue: rejected, expired ..."),
    Column("death_queue", "string", "AMQP: the queue from which it was moved"),
    # ---- when
    Column("started", "timestamp", "time of the request"),
    Column("started_ns", "int64", "the same, nanoseconds since 1970"),
    Column("completed", "timestamp", "time of the answer; null if none was seen"),
    Column("duration_ns", "int64", "from the request to its answer"),
    Column("received", "timestamp", "QoS 2: time of PUBREC"),
    Column("released", "timestamp", "QoS 2: time of PUBREL"),
    Column(
        "request_frame", "int64", "number of the packet with the request, in its capture; null if it was not captured"
    ),
    Column("response_frame", "int64", "number of the packet with the answer, in its capture"),
    # ---- outcome
    Column("outcome", "string", ", ".join(OUTCOMES)),
    Column("code", "int32", "reason, reply or response code of the answer"),
    Column("text", "string", "what the answer says"),
    Column("resumed_from", "int64", "flow_id of the client's connection before, on which this began: MQTT sessions"),
)

#: How a delivery was matched with its publish, the surest first.
MATCHES: Final = ("transport id", "message-id", "payload+destination", "payload")

#: Of each side of a path; the names begin with `publish_` or `deliver_`.
_SIDE: Final[tuple[Column, ...]] = (
    Column("flow_id", "int64", "the TCP connection, as in the message table"),
    Column("client_id", "string", "client identifier of the connection"),
    Column("client_ip", "string", ""),
    Column("client_port", "int32", ""),
    Column("protocol", "string", ""),
    Column("capture", "string", "capture file of the message"),
    Column("frame", "int64", "number of the packet that completed the message, in its capture"),
    Column("ts", "timestamp", "time of that packet"),
    Column("ts_ns", "int64", "the same, nanoseconds since 1970"),
    Column("destination", "string", "topic, queue, exchange or address"),
    Column("routing_key", "string", "AMQP 0.9.1"),
    Column("message_id", "string", ""),
    Column("queue", "string", "AMQP 0.9.1's consumer, AMQP 1.0's source, RocketMQ's broker"),
    Column("consumer_group", "string", "RocketMQ group, NSQ channel, MQTT share name"),
    Column("payload_size", "int64", "bytes"),
    Column("payload_hash", "int64", "64 bits of the payload: equal for equal payloads; null if it has none"),
)


def _side(name: str) -> tuple[Column, ...]:
    return tuple(column._replace(name=f"{name}_{column.name}") for column in _SIDE)


#: One row for each copy of a published message that reached a consumer. A publish that reached nobody within `path_seconds` has
#: one row, without its deliver side. A delivery whose publish was not captured has none.
PATHS: Final[tuple[Column, ...]] = (
    *_side("publish"),
    *_side("deliver"),
    Column("latency_ns", "int64", "from the publish to this delivery"),
    Column("copies", "int64", "deliveries of this publish, all of them"),
    Column(
        "attempt", "int32", "deliveries of it to this consumer or queue so far: as the server counts, otherwise as seen"
    ),
    Column("redelivered", "boolean", "the message says so, or it was delivered to this consumer or queue before"),
    Column("matched_by", "string", f"{', '.join(MATCHES)}: the surest that fits"),
    Column(
        "candidates",
        "int32",
        "publishes that fit this delivery equally well; if it is more than 1, the match is a guess by order",
    ),
    Column("converted", "boolean", "it was published with one protocol and delivered with another"),
    Column(
        "trace_id",
        "string",
        "the same for all hops of a message: the trace id of the first traceparent, otherwise made of the first publish",
    ),
    Column(
        "hop", "int32", "1; or one more than that of the message which the publisher had received and published again"
    ),
    Column("capture", "string", "capture file of the publish"),
)

#: One row for each diagnosis, at the end of the capture.
FINDINGS: Final[tuple[Column, ...]] = (
    Column("ts", "timestamp", "when it began"),
    Column("severity", "string", "error, warning, note"),
    Column("rule", "string", "id of the rule"),
    # ---- who
    Column("protocol", "string", ""),
    Column("flow_id", "int64", "the TCP connection, or the first of them"),
    Column("client_ip", "string", ""),
    Column("client_port", "int32", ""),
    Column("client_id", "string", ""),
    Column("server_ip", "string", ""),
    Column("server_port", "int32", ""),
    Column("destination", "string", "topic, queue, exchange or address of the first message"),
    Column("queue", "string", "queue of the first message"),
    Column("message_id", "string", "of the first message"),
    # ---- what
    Column("text", "string", "a sentence: the cause and the next step"),
    Column("count", "int64", "how often: messages, connections, deliveries, as the rule says"),
    # ---- evidence
    Column("capture", "string", "capture file of the frames"),
    Column("frames", "list<int64>", "numbers of packets, in order, at most 10"),
)


class _Tables(Mapping[str, tuple[Column, ...]]):
    """The message table, and those that are made of it. Its columns are those of all protocols' packages, which load compiled
    code: they are imported when somebody asks for them."""

    def __init__(self, made: Mapping[str, tuple[Column, ...]]) -> None:
        self._made = made

    def __getitem__(self, name: str) -> tuple[Column, ...]:
        if name == "messages":
            from wirefmt.spec.table import COLUMNS

            return COLUMNS
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield "messages"
        yield from self._made

    def __len__(self) -> int:
        return 1 + len(self._made)

    def __contains__(self, name: object) -> bool:
        return name == "messages" or name in self._made


#: The tables of captures, by name.
TABLES: Final[Mapping[str, tuple[Column, ...]]] = _Tables(
    {"connections": CONNECTIONS, "operations": OPERATIONS, "paths": PATHS, "findings": FINDINGS}
)
