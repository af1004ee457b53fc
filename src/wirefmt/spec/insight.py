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
    Column("sequence", "int64", "packet identifier, delivery tag, delivery-id, opaque; publishing number of a confirm"),
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
TABLES: Final[Mapping[str, tuple[Column, ...]]] = _Tables({"connections": CONNECTIONS, "operations": OPERATIONS})
