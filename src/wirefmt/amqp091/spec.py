"""Names and numbers of AMQP 0.9.1, one literal table for each table of the specification.

Sources: AMQP 0-9-1 (13 November 2008): the protocol specification ("general", sections 2.x and 4.x) and the class and
method reference (1.x); RabbitMQ 4.x: its extensions of classes and methods, its errata of field table types, and what
it does where the specification is silent.

Names are written as Python names: `delivery-tag` is `delivery_tag`, and `global`, a keyword of Python, is `global_`.
`reserved-1` of the specification is `ticket` where RabbitMQ and all clients call it that.

The C tables of the compiled core are generated from this module: after a change run `python tools/gen_tables.py`.
"""

from typing import Final, NamedTuple

from wirefmt.spec.checks import Check

#: general 4.2.2: "AMQP", 0, major, minor, revision.
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"

#: general 4.2.3: the last octet of a frame.
FRAME_END: Final = 0xCE

#: Bytes of a frame other than its payload: type, channel and size before it, frame-end after it.
FRAME_OVERHEAD: Final = 8

#: RabbitMQ's frame-max before negotiation, and its default in negotiation. 0 means no limit.
FRAME_MAX_DEFAULT: Final = 131_072

#: general 1.4.2.5: the smallest frame-max that a peer may ask for.
FRAME_MIN: Final = 4096

#: RabbitMQ accepts larger payloads from clients that do not count the bytes of the frame itself.
FRAME_MAX_TOLERANCE: Final = 8

#: RabbitMQ 4.x: the largest body-size of a content header.
BODY_MAX_DEFAULT: Final = 536_870_912

#: Levels of tables and arrays in a table; deeper ones are refused.
NESTING_MAX: Final = 64

#: general 4.2.3 and 4.2.7.
FRAME_TYPES: Final[dict[int, str]] = {1: "method", 2: "header", 3: "body", 8: "heartbeat"}


class DataType(NamedTuple):
    """A type of method arguments and properties: general 4.2.5."""

    name: str
    size: int | None  # bytes; None: has a length prefix


DATA_TYPES: Final[tuple[DataType, ...]] = (
    DataType("bit", 0),  # packed into octets with its neighbours, general 4.2.5.2
    DataType("octet", 1),
    DataType("short", 2),
    DataType("long", 4),
    DataType("longlong", 8),
    DataType("timestamp", 8),
    DataType("shortstr", None),
    DataType("longstr", None),
    DataType("table", None),
)


class Argument(NamedTuple):
    name: str
    type: str
    default: object = None  # None: required


class Method(NamedTuple):
    """A method. `senders` is client, server or both; `responses` are the methods that answer it."""

    name: str
    id: int
    senders: str
    arguments: tuple[Argument, ...] = ()
    responses: tuple[str, ...] = ()
    content: bool = False
    section: str = ""  # of the class and method reference; empty: of RabbitMQ
    extension: bool = False  # RabbitMQ's, or its use of a method by a sender that the specification does not name


class Class(NamedTuple):
    name: str
    id: int
    section: str
    methods: tuple[Method, ...]


TICKET = Argument("ticket", "short", 0)
QUEUE = Argument("queue", "shortstr", "")
NOWAIT = Argument("nowait", "bit", False)
ARGUMENTS = Argument("arguments", "table", {})

CLASSES: Final[tuple[Class, ...]] = (
    Class(
        "connection",
        10,
        "1.4",
        (
            Method(
                "start",
                10,
                "server",
                (
                    Argument("version_major", "octet", 0),
                    Argument("version_minor", "octet", 9),
                    Argument("server_properties", "table"),
                    Argument("mechanisms", "longstr", b"PLAIN"),
                    Argument("locales", "longstr", b"en_US"),
                ),
                ("start-ok",),
                section="1.4.2.1",
            ),
            Method(
                "start-ok",
                11,
                "client",
                (
                    Argument("client_properties", "table"),
                    Argument("mechanism", "shortstr", "PLAIN"),
                    Argument("response", "longstr"),
                    Argument("locale", "shortstr", "en_US"),
                ),
                section="1.4.2.2",
            ),
            Method("secure", 20, "server", (Argument("challenge", "longstr"),), ("secure-ok",), section="1.4.2.3"),
            Method("secure-ok", 21, "client", (Argument("response", "longstr"),), section="1.4.2.4"),
            Method(
                "tune",
                30,
                "server",
                (
                    Argument("channel_max", "short", 0),
                    Argument("frame_max", "long", 0),
                    Argument("heartbeat", "short", 0),
                ),
                ("tune-ok",),
                section="1.4.2.5",
            ),
            Method(
                "tune-ok",
                31,
                "client",
                (
                    Argument("channel_max", "short", 0),
                    Argument("frame_max", "long", 0),
                    Argument("heartbeat", "short", 0),
                ),
                section="1.4.2.6",
            ),
            Method(
                "open",
                40,
                "client",
                (
                    Argument("virtual_host", "shortstr", "/"),
                    Argument("capabilities", "shortstr", ""),  # reserved-1
                    Argument("insist", "bit", False),  # reserved-2
                ),
                ("open-ok",),
                section="1.4.2.7",
            ),
            Method("open-ok", 41, "server", (Argument("known_hosts", "shortstr", ""),), section="1.4.2.8"),
            Method(
                "close",
                50,
                "both",
                (
                    Argument("reply_code", "short"),
                    Argument("reply_text", "shortstr", ""),
                    Argument("class_id", "short"),
                    Argument("method_id", "short"),
                ),
                ("close-ok",),
                section="1.4.2.9",
            ),
            Method("close-ok", 51, "both", section="1.4.2.10"),
            Method("blocked", 60, "server", (Argument("reason", "shortstr", ""),), extension=True),
            Method("unblocked", 61, "server", extension=True),
            Method(
                "update-secret",
                70,
                "client",
                (Argument("new_secret", "longstr"), Argument("reason", "shortstr")),
                ("update-secret-ok",),
                extension=True,
            ),
            Method("update-secret-ok", 71, "server", extension=True),
        ),
    ),
    Class(
        "channel",
        20,
        "1.5",
        (
            Method("open", 10, "client", (Argument("out_of_band", "shortstr", ""),), ("open-ok",), section="1.5.2.1"),
            Method("open-ok", 11, "server", (Argument("channel_id", "longstr", b""),), section="1.5.2.2"),
            Method("flow", 20, "both", (Argument("active", "bit"),), ("flow-ok",), section="1.5.2.3"),
            Method("flow-ok", 21, "both", (Argument("active", "bit"),), section="1.5.2.4"),
            Method(
                "close",
                40,
                "both",
                (
                    Argument("reply_code", "short"),
                    Argument("reply_text", "shortstr", ""),
                    Argument("class_id", "short"),
                    Argument("method_id", "short"),
                ),
                ("close-ok",),
                section="1.5.2.5",
            ),
            Method("close-ok", 41, "both", section="1.5.2.6"),
        ),
    ),
    # a class of AMQP 0-8 that clients may still use; RabbitMQ answers
    Class(
        "access",
        30,
        "",
        (
            Method(
                "request",
                10,
                "client",
                (
                    Argument("realm", "shortstr", "/data"),
                    Argument("exclusive", "bit", False),
                    Argument("passive", "bit", True),
                    Argument("active", "bit", True),
                    Argument("write", "bit", True),
                    Argument("read", "bit", True),
                ),
                ("request-ok",),
                extension=True,
            ),
            Method("request-ok", 11, "server", (Argument("ticket", "short", 1),), extension=True),
        ),
    ),
    Class(
        "exchange",
        40,
        "1.6",
        (
            Method(
                "declare",
                10,
                "client",
                (
                    TICKET,
                    Argument("exchange", "shortstr"),
                    Argument("type", "shortstr", "direct"),
                    Argument("passive", "bit", False),
                    Argument("durable", "bit", False),
                    Argument("auto_delete", "bit", False),  # reserved-2
                    Argument("internal", "bit", False),  # reserved-3
                    NOWAIT,
                    ARGUMENTS,
                ),
                ("declare-ok",),
                section="1.6.2.1",
            ),
            Method("declare-ok", 11, "server", section="1.6.2.2"),
            Method(
                "delete",
                20,
                "client",
                (TICKET, Argument("exchange", "shortstr"), Argument("if_unused", "bit", False), NOWAIT),
                ("delete-ok",),
                section="1.6.2.3",
            ),
            Method("delete-ok", 21, "server", section="1.6.2.4"),
            Method(
                "bind",
                30,
                "client",
                (
                    TICKET,
                    Argument("destination", "shortstr"),
                    Argument("source", "shortstr"),
                    Argument("routing_key", "shortstr", ""),
                    NOWAIT,
                    ARGUMENTS,
                ),
                ("bind-ok",),
                extension=True,
            ),
            Method("bind-ok", 31, "server", extension=True),
            Method(
                "unbind",
                40,
                "client",
                (
                    TICKET,
                    Argument("destination", "shortstr"),
                    Argument("source", "shortstr"),
                    Argument("routing_key", "shortstr", ""),
                    NOWAIT,
                    ARGUMENTS,
                ),
                ("unbind-ok",),
                extension=True,
            ),
            Method("unbind-ok", 51, "server", extension=True),
        ),
    ),
    Class(
        "queue",
        50,
        "1.7",
        (
            Method(
                "declare",
                10,
                "client",
                (
                    TICKET,
                    QUEUE,
                    Argument("passive", "bit", False),
                    Argument("durable", "bit", False),
                    Argument("exclusive", "bit", False),
                    Argument("auto_delete", "bit", False),
                    NOWAIT,
                    ARGUMENTS,
                ),
                ("declare-ok",),
                section="1.7.2.1",
            ),
            Method(
                "declare-ok",
                11,
                "server",
                (Argument("queue", "shortstr"), Argument("message_count", "long"), Argument("consumer_count", "long")),
                section="1.7.2.2",
            ),
            Method(
                "bind",
                20,
                "client",
                (
                    TICKET,
                    QUEUE,
                    Argument("exchange", "shortstr"),
                    Argument("routing_key", "shortstr", ""),
                    NOWAIT,
                    ARGUMENTS,
                ),
                ("bind-ok",),
                section="1.7.2.3",
            ),
            Method("bind-ok", 21, "server", section="1.7.2.4"),
            Method("purge", 30, "client", (TICKET, QUEUE, NOWAIT), ("purge-ok",), section="1.7.2.7"),
            Method("purge-ok", 31, "server", (Argument("message_count", "long"),), section="1.7.2.8"),
            Method(
                "delete",
                40,
                "client",
                (TICKET, QUEUE, Argument("if_unused", "bit", False), Argument("if_empty", "bit", False), NOWAIT),
                ("delete-ok",),
                section="1.7.2.9",
            ),
            Method("delete-ok", 41, "server", (Argument("message_count", "long"),), section="1.7.2.10"),
            Method(
                "unbind",
                50,
                "client",
                (
                    TICKET,
                    QUEUE,
                    Argument("exchange", "shortstr"),
                    Argument("routing_key", "shortstr", ""),
                    ARGUMENTS,
                ),
                ("unbind-ok",),
                section="1.7.2.5",
            ),
            Method("unbind-ok", 51, "server", section="1.7.2.6"),
        ),
    ),
    Class(
        "basic",
        60,
        "1.8",
        (
            Method(
                "qos",
                10,
                "client",
                (
                    Argument("prefetch_size", "long", 0),
                    Argument("prefetch_count", "short", 0),
                    Argument("global_", "bit", False),
                ),
                ("qos-ok",),
                section="1.8.3.1",
            ),
            Method("qos-ok", 11, "server", section="1.8.3.2"),
            Method(
                "consume",
                20,
                "client",
                (
                    TICKET,
                    QUEUE,
                    Argument("consumer_tag", "shortstr", ""),
                    Argument("no_local", "bit", False),
                    Argument("no_ack", "bit", False),
                    Argument("exclusive", "bit", False),
                    NOWAIT,
                    ARGUMENTS,
                ),
                ("consume-ok",),
                section="1.8.3.3",
            ),
            Method("consume-ok", 21, "server", (Argument("consumer_tag", "shortstr"),), section="1.8.3.4"),
            # a server sends it, too: consumer cancel notify
            Method(
                "cancel",
                30,
                "both",
                (Argument("consumer_tag", "shortstr"), NOWAIT),
                ("cancel-ok",),
                section="1.8.3.5",
                extension=True,
            ),
            Method("cancel-ok", 31, "both", (Argument("consumer_tag", "shortstr"),), section="1.8.3.6", extension=True),
            Method(
                "publish",
                40,
                "client",
                (
                    TICKET,
                    Argument("exchange", "shortstr", ""),
                    Argument("routing_key", "shortstr", ""),
                    Argument("mandatory", "bit", False),
                    Argument("immediate", "bit", False),
                ),
                content=True,
                section="1.8.3.7",
            ),
            Method(
                "return",
                50,
                "server",
                (
                    Argument("reply_code", "short"),
                    Argument("reply_text", "shortstr", ""),
                    Argument("exchange", "shortstr"),
                    Argument("routing_key", "shortstr"),
                ),
                content=True,
                section="1.8.3.8",
            ),
            Method(
                "deliver",
                60,
                "server",
                (
                    Argument("consumer_tag", "shortstr"),
                    Argument("delivery_tag", "longlong"),
                    Argument("redelivered", "bit", False),
                    Argument("exchange", "shortstr"),
                    Argument("routing_key", "shortstr"),
                ),
                content=True,
                section="1.8.3.9",
            ),
            Method(
                "get",
                70,
                "client",
                (TICKET, QUEUE, Argument("no_ack", "bit", False)),
                ("get-ok", "get-empty"),
                section="1.8.3.10",
            ),
            Method(
                "get-ok",
                71,
                "server",
                (
                    Argument("delivery_tag", "longlong"),
                    Argument("redelivered", "bit", False),
                    Argument("exchange", "shortstr"),
                    Argument("routing_key", "shortstr"),
                    Argument("message_count", "long"),
                ),
                content=True,
                section="1.8.3.11",
            ),
            Method("get-empty", 72, "server", (Argument("cluster_id", "shortstr", ""),), section="1.8.3.12"),
            # a server sends it, too: publisher confirms
            Method(
                "ack",
                80,
                "both",
                (Argument("delivery_tag", "longlong", 0), Argument("multiple", "bit", False)),
                section="1.8.3.13",
                extension=True,
            ),
            Method(
                "reject",
                90,
                "client",
                (Argument("delivery_tag", "longlong"), Argument("requeue", "bit", True)),
                section="1.8.3.14",
            ),
            Method("recover-async", 100, "client", (Argument("requeue", "bit", False),), section="1.8.3.15"),
            Method("recover", 110, "client", (Argument("requeue", "bit", False),), ("recover-ok",), section="1.8.3.16"),
            Method("recover-ok", 111, "server", section="1.8.3.17"),
            Method(
                "nack",
                120,
                "both",
                (
                    Argument("delivery_tag", "longlong", 0),
                    Argument("multiple", "bit", False),
                    Argument("requeue", "bit", True),
                ),
                extension=True,
            ),
        ),
    ),
    Class(
        "confirm",
        85,
        "",
        (
            Method("select", 10, "client", (NOWAIT,), ("select-ok",), extension=True),
            Method("select-ok", 11, "server", extension=True),
        ),
    ),
    Class(
        "tx",
        90,
        "1.9",
        (
            Method("select", 10, "client", responses=("select-ok",), section="1.9.2.1"),
            Method("select-ok", 11, "server", section="1.9.2.2"),
            Method("commit", 20, "client", responses=("commit-ok",), section="1.9.2.3"),
            Method("commit-ok", 21, "server", section="1.9.2.4"),
            Method("rollback", 30, "client", responses=("rollback-ok",), section="1.9.2.5"),
            Method("rollback-ok", 31, "server", section="1.9.2.6"),
        ),
    ),
)


class Property(NamedTuple):
    """A property of class basic: reference 1.8.1. `bit` is its flag in the property flags, general 4.2.6.1."""

    name: str
    type: str
    bit: int


PROPERTIES: Final[tuple[Property, ...]] = (
    Property("content_type", "shortstr", 15),
    Property("content_encoding", "shortstr", 14),
    Property("headers", "table", 13),
    Property("delivery_mode", "octet", 12),
    Property("priority", "octet", 11),
    Property("correlation_id", "shortstr", 10),
    Property("reply_to", "shortstr", 9),
    Property("expiration", "shortstr", 8),
    Property("message_id", "shortstr", 7),
    Property("timestamp", "timestamp", 6),
    Property("type", "shortstr", 5),
    Property("user_id", "shortstr", 4),
    Property("app_id", "shortstr", 3),
    Property("cluster_id", "shortstr", 2),  # reserved
)

#: Unused bits of the property flags: bit 0 announces another word of flags, which class basic never needs.
PROPERTY_FLAGS_UNASSIGNED: Final = 0b11


class FieldType(NamedTuple):
    """A type of field values, as RabbitMQ reads and writes it; the specification's own letters differ.

    `size` is the number of bytes after the letter; None: a length of four bytes, then that many bytes.
    """

    letter: str
    name: str
    size: int | None
    specification: str  # meaning of the letter in general 4.2.1; empty: not defined there


FIELD_TYPES: Final[tuple[FieldType, ...]] = (
    FieldType("t", "boolean", 1, "boolean"),
    FieldType("b", "int8", 1, "short-short-int"),
    FieldType("B", "uint8", 1, "short-short-uint"),
    FieldType("s", "int16", 2, "short-string"),
    FieldType("u", "uint16", 2, "short-uint"),
    FieldType("I", "int32", 4, "long-int"),
    FieldType("i", "uint32", 4, "long-uint"),
    FieldType("l", "int64", 8, "long-long-uint"),
    FieldType("L", "int64", 8, "long-long-int"),  # py-amqp writes it; RabbitMQ reads it, and writes l
    FieldType("f", "float", 4, "float"),
    FieldType("d", "double", 8, "double"),
    FieldType("D", "decimal", 5, "decimal-value"),  # scale, then an unsigned number
    FieldType("S", "string", None, "long-string"),
    FieldType("A", "array", None, "field-array"),
    FieldType("T", "timestamp", 8, "timestamp"),
    FieldType("F", "table", None, "field-table"),
    FieldType("V", "void", 0, "no-field"),
    FieldType("x", "binary", None, ""),
)


class ReplyRow(NamedTuple):
    """A row of the reference's constants. `kind`: soft errors close the channel, hard errors the connection."""

    code: int
    name: str
    kind: str  # success, soft, hard


REPLY_CODES: Final[tuple[ReplyRow, ...]] = (
    ReplyRow(200, "reply-success", "success"),
    ReplyRow(311, "content-too-large", "soft"),
    ReplyRow(312, "no-route", "soft"),  # RabbitMQ's: the reply code of basic.return
    ReplyRow(313, "no-consumers", "soft"),
    ReplyRow(320, "connection-forced", "hard"),
    ReplyRow(402, "invalid-path", "hard"),
    ReplyRow(403, "access-refused", "soft"),
    ReplyRow(404, "not-found", "soft"),
    ReplyRow(405, "resource-locked", "soft"),
    ReplyRow(406, "precondition-failed", "soft"),
    ReplyRow(501, "frame-error", "hard"),
    ReplyRow(502, "syntax-error", "hard"),
    ReplyRow(503, "command-invalid", "hard"),
    ReplyRow(504, "channel-error", "hard"),
    ReplyRow(505, "unexpected-frame", "hard"),
    ReplyRow(506, "resource-error", "hard"),
    ReplyRow(530, "not-allowed", "hard"),
    ReplyRow(540, "not-implemented", "hard"),
    ReplyRow(541, "internal-error", "hard"),
)

#: Keys of the table `capabilities` in server_properties (server) and client_properties (client) of RabbitMQ's handshake.
CAPABILITIES: Final[dict[str, tuple[str, ...]]] = {
    "publisher_confirms": ("server", "client"),
    "exchange_exchange_bindings": ("server", "client"),
    "basic.nack": ("server", "client"),
    "consumer_cancel_notify": ("server", "client"),
    "connection.blocked": ("server", "client"),
    "consumer_priorities": ("server",),
    "authentication_failure_close": ("server", "client"),
    "per_consumer_qos": ("server",),
    "direct_reply_to": ("server",),
}


def _check(
    name: str, text: str, spec: str, reply: int | None = 501, lax: bool = False, status: str = "MALFORMED"
) -> Check:
    """A Check; reply: reply code of the connection.close that a receiver answers. The
    number of a section shows the document: 2.x and 4.x are of the general specification, 1.x of the reference."""
    return Check(name, text, spec, reply, lax, status)


#: Every check of the decoder. Replies are those of RabbitMQ 4.x where it sends one.
CHECKS: Final[tuple[Check, ...]] = (
    # ---- frames
    _check("FIELD_TRUNCATED", "field runs past its enclosing structure", "4.2.3", status="TRUNCATED"),
    _check("FRAME_TRUNCATED", "the input ends inside the frame", "4.2.3", status="TRUNCATED"),
    _check("TRAILING_FRAME", "bytes after the frame", "4.2.3"),
    _check("FRAME_TYPE", "unknown frame type", "4.2.3"),
    _check("FRAME_END", "frame does not end with 0xCE", "4.2.3"),
    _check("FRAME_MAX", "frame larger than frame-max", "1.4.2.6", status="LIMIT"),
    _check("CHANNEL_MAX", "channel above channel-max", "1.4.2.6", 504, status="LIMIT"),
    _check("HEARTBEAT_CHANNEL", "heartbeat on a channel other than 0", "4.2.7", 505, lax=True),
    _check("HEARTBEAT_PAYLOAD", "heartbeat with a payload", "4.2.7", lax=True),
    _check("CONTENT_CHANNEL", "content on channel 0", "4.2.6", 505, lax=True),
    # ---- protocol header
    _check("PROTOCOL_HEADER", "not a protocol header", "4.2.2", None, status="UNSUPPORTED"),
    _check("PROTOCOL_VERSION", "protocol header of another version", "4.2.2", None, lax=True, status="UNSUPPORTED"),
    # ---- methods
    _check("CLASS_UNKNOWN", "unknown class", "4.2.4", 540),
    _check("METHOD_UNKNOWN", "unknown method", "4.2.4", 540),
    _check("METHOD_SENDER", "method is not sent by this side", "2.2.4", 503, lax=True),
    _check("METHOD_CHANNEL_ZERO", "method of class connection must be on channel 0", "4.3", 503, lax=True),
    _check("METHOD_CHANNEL", "only methods of class connection may be on channel 0", "4.3", 503, lax=True),
    _check("TRAILING_ARGUMENTS", "bytes after the last argument", "4.2.4", lax=True),
    _check("SHORT_STRING_UTF8", "ill-formed UTF-8", "4.2.5.3", lax=True),
    # ---- field tables
    _check("TABLE_TRUNCATED", "entry runs past the end of its table", "4.2.5.5", status="TRUNCATED"),
    _check("FIELD_TYPE", "unknown type of field value", "4.2.5.5"),
    _check("NESTING", "tables and arrays nested too deep", "4.2.5.5", 541, status="LIMIT"),
    _check("ELEMENTS", "more table entries than the caller's limit", "4.2.5.5", 541, status="LIMIT"),
    _check("TRAILING_TABLE", "bytes after the table", "4.2.5.5"),
    # ---- content
    _check("CONTENT_CLASS", "content header of a class that has no content", "4.2.6.1", 505),
    _check("WEIGHT", "weight is not 0", "4.2.6.1", 505, lax=True),
    _check("PROPERTY_FLAGS", "property flags of properties that class basic does not have", "4.2.6.1", 541, lax=True),
    _check("TRAILING_PROPERTIES", "bytes after the last property", "4.2.6.1", 541, lax=True),
    _check("PROPERTY_TRUNCATED", "property runs past the end of the frame", "4.2.6.1", 541, status="TRUNCATED"),
    _check("BODY_MAX", "body larger than the caller's limit", "4.2.6.1", status="LIMIT"),
    _check("PENDING_MAX", "pending contents larger than the caller's limit", "4.2.6", 506, status="LIMIT"),
    # ---- content over several frames: which frame a channel expects
    _check("HEADER_UNEXPECTED", "content header without a preceding method with content", "4.2.6", 505),
    _check("BODY_UNEXPECTED", "unexpected content body", "4.2.6", 505),
    _check("METHOD_UNEXPECTED", "method inside a content", "4.2.6", 505),
    _check("HEADER_CLASS", "content header of another class than its method's", "4.2.6.1", 505),
    _check("BODY_EXCEEDS", "content bodies exceed the announced size", "4.2.6.2", 501),
    _check("CONTENT_UNFINISHED", "the stream ends inside a content", "4.2.6", 505, status="TRUNCATED"),
)


def _argument_names() -> tuple[str, ...]:
    names = dict.fromkeys(a.name for c in CLASSES for m in c.methods for a in m.arguments)
    return tuple(names)


#: Names of arguments, each once. Arguments of the same name may differ in type; `arguments` and `capabilities` do not.
ARGUMENT_NAMES: Final = _argument_names()

#: Paths of errors. `[]` is replaced by the index of a table entry, from 0. Row 0 is the frame itself.
FIELDS: Final[tuple[str, ...]] = (
    "",
    "type",
    "channel",
    "size",
    "payload",
    "frame_end",
    "protocol_header",
    "class_id",
    "method_id",
    "weight",
    "body_size",
    "property_flags",
    "properties",
    *(f"properties.{p.name}" for p in PROPERTIES),
    "properties.headers[]",
    "table",
    "table[]",
    *(f"arguments.{name}" for name in ARGUMENT_NAMES),
    *(
        f"arguments.{name}[]"
        for name in dict.fromkeys(a.name for c in CLASSES for m in c.methods for a in m.arguments if a.type == "table")
    ),
)

#: Secret fields, as (message, field); message "": every message. wirefmt.spec.secrets has the rule.
SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("connection.start-ok", "response"),
    ("connection.secure", "challenge"),
    ("connection.secure-ok", "response"),
    ("connection.update-secret", "new_secret"),
)
