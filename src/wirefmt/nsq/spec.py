"""Names and numbers of NSQ's TCP protocol V2, as literal tables.

Sources: the TCP protocol specification of nsq.io (`spec` of a check is one of its headings); where it is silent or differs
from the server, nsqd 1.3.0. docs/nsq.md lists the differences.

The C tables of the compiled core are generated from this module: after a change run `python tools/gen_tables.py`.
"""

from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from wirefmt.spec.checks import Check

#: The first four bytes of a client.
MAGIC: Final = b"  V2"

#: Bytes of a command line with its newline: the size of nsqd's buffer.
LINE_MAX: Final = 16384

#: Bytes of the name of a topic or channel, including `#ephemeral`.
NAME_MAX: Final = 64

MESSAGE_ID_SIZE: Final = 16

#: Bytes of a message frame's data before the body: timestamp, attempts, message id.
MESSAGE_HEADER_SIZE: Final = 26


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of an nsqd that limit what it accepts, with the names and defaults of its flags.

    Sizes are in bytes, times in milliseconds. `deflate` and `snappy` are true if the server offers them.
    """

    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    max_rdy_count: int = 2500
    max_req_timeout: int = 3_600_000
    max_heartbeat_interval: int = 60_000
    max_msg_timeout: int = 900_000
    max_output_buffer_size: int = 64 * 1024
    min_output_buffer_timeout: int = 25
    max_output_buffer_timeout: int = 30_000
    deflate: bool = True
    snappy: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or not 0 <= value < 1 << 48:
                raise ValueError(f"{field.name} must be an integer from 0 to 2**48 - 1, not {value!r}")


class Command(NamedTuple):
    """A command. `words` follow the name, each after one space; the last `optional` of them may be omitted."""

    name: str
    words: tuple[str, ...] = ()  # topic, channel, message_id, count, milliseconds
    optional: int = 0
    body: str = ""  # data after the line and a size of four bytes: message, messages, json, secret
    size_check: str = ""  # the row of CHECKS for a size that is not positive,
    limit_check: str = ""  # and for one above `limit`
    limit: str = ""  # of ServerOptions
    states: tuple[str, ...] = ("init", "subscribed", "closing")  # states in which nsqd accepts it
    response: str = ""  # empty: none


COMMANDS: Final[tuple[Command, ...]] = (
    Command("IDENTIFY", (), 0, "json", "BODY", "BODY_TOO_BIG", "max_body_size", ("init",), "OK or JSON"),
    Command("AUTH", (), 0, "secret", "BODY", "BODY_TOO_BIG", "max_body_size", ("init",), "JSON"),
    Command("SUB", ("topic", "channel"), states=("init",), response="OK"),
    Command("PUB", ("topic",), 0, "message", "MESSAGE", "MESSAGE_TOO_BIG", "max_msg_size", response="OK"),
    Command("MPUB", ("topic",), 0, "messages", "BODY", "BODY_TOO_BIG", "max_body_size", response="OK"),
    Command(
        "DPUB", ("topic", "milliseconds"), 0, "message", "MESSAGE", "MESSAGE_TOO_BIG", "max_msg_size", response="OK"
    ),
    Command("RDY", ("count",), 1, states=("subscribed", "closing")),
    Command("FIN", ("message_id",), states=("subscribed", "closing")),
    Command("REQ", ("message_id", "milliseconds"), states=("subscribed", "closing")),
    Command("TOUCH", ("message_id",), states=("subscribed", "closing")),
    Command("CLS", states=("subscribed",), response="CLOSE_WAIT"),
    Command("NOP"),
)

#: Kind of a word -> the row of CHECKS for an invalid one.
WORD_CHECKS: Final[dict[str, str]] = {
    "topic": "TOPIC_NAME",
    "channel": "CHANNEL_NAME",
    "message_id": "MESSAGE_ID",
    "count": "NUMBER",
    "milliseconds": "NUMBER",
}

FRAME_TYPES: Final[dict[int, str]] = {0: "response", 1: "error", 2: "message"}

#: Responses that are not JSON.
RESPONSES: Final[tuple[str, ...]] = ("OK", "CLOSE_WAIT", "_heartbeat_")


class ErrorRow(NamedTuple):
    """The first word of an error frame. After a fatal one the connection is closed."""

    name: str
    fatal: bool
    when: str


ERROR_CODES: Final[tuple[ErrorRow, ...]] = (
    ErrorRow("E_INVALID", True, "bad command, parameters or state"),
    ErrorRow("E_BAD_PROTOCOL", True, "the first four bytes are not the magic; no text follows"),
    ErrorRow("E_BAD_TOPIC", True, "invalid topic name"),
    ErrorRow("E_BAD_CHANNEL", True, "invalid channel name"),
    ErrorRow("E_BAD_BODY", True, "IDENTIFY, AUTH, MPUB: size, JSON, value or count"),
    ErrorRow("E_BAD_MESSAGE", True, "PUB, DPUB, messages of MPUB: size"),
    ErrorRow("E_IDENTIFY_FAILED", True, "both compressions asked for, or the TLS handshake failed"),
    ErrorRow("E_SUB_FAILED", True, "channel full, or topic or channel being deleted"),
    ErrorRow("E_PUB_FAILED", True, "topic is exiting"),
    ErrorRow("E_MPUB_FAILED", True, "topic is exiting"),
    ErrorRow("E_DPUB_FAILED", True, "topic is exiting"),
    ErrorRow("E_AUTH_DISABLED", True, "the server has no authentication"),
    ErrorRow("E_AUTH_FAILED", True, "the authentication server cannot be asked"),
    ErrorRow("E_UNAUTHORIZED", True, "no permission"),
    ErrorRow("E_AUTH_FIRST", True, "SUB, PUB, MPUB, DPUB before AUTH"),
    ErrorRow("E_AUTH_ERROR", True, "internal"),
    ErrorRow("E_FIN_FAILED", False, "the message is not in flight for this client"),
    ErrorRow("E_REQ_FAILED", False, "the message is not in flight for this client"),
    ErrorRow("E_TOUCH_FAILED", False, "the message is not in flight for this client"),
)


class Member(NamedTuple):
    """A member of IDENTIFY's JSON. Times are in milliseconds, sizes in bytes."""

    name: str
    type: str  # string, boolean, int (64 bits), int32
    default: object
    low: int | str = 0  # accepted range: numbers, or names of server options
    high: int | str = 0  # both 0: any value
    special: tuple[int, ...] = ()  # further accepted values
    check: str = ""  # the row of CHECKS


IDENTIFY_MEMBERS: Final[tuple[Member, ...]] = (
    Member("client_id", "string", ""),
    Member("hostname", "string", ""),
    Member("user_agent", "string", ""),
    Member("feature_negotiation", "boolean", False),
    Member("heartbeat_interval", "int", 30_000, 1000, "max_heartbeat_interval", (-1, 0), "HEARTBEAT_INTERVAL"),
    Member(
        "output_buffer_timeout",
        "int",
        250,
        "min_output_buffer_timeout",
        "max_output_buffer_timeout",
        (-1, 0),
        "OUTPUT_BUFFER_TIMEOUT",
    ),
    Member("output_buffer_size", "int", 16384, 64, "max_output_buffer_size", (-1, 0), "OUTPUT_BUFFER_SIZE"),
    Member("sample_rate", "int32", 0, 0, 99, (), "SAMPLE_RATE"),
    Member("msg_timeout", "int", 60_000, 1000, "max_msg_timeout", (0,), "MSG_TIMEOUT"),
    Member("tls_v1", "boolean", False),
    Member("deflate", "boolean", False),
    Member("deflate_level", "int", 6),  # out of range: reduced, not refused
    Member("snappy", "boolean", False),
    Member("topology_region", "string", ""),  # added after 1.3.0
    Member("topology_zone", "string", ""),
)


#: `{command}` is replaced by the heading of the command, `reply` is the error code that nsqd answers.
CHECKS: Final[tuple[Check, ...]] = (
    # ---- limits of the caller
    Check("FRAME_SIZE", "larger than the caller's limit", "Data Format", status="LIMIT"),
    Check("ELEMENTS", "more elements than the caller's limit", "{command}", "E_BAD_BODY", status="LIMIT"),
    Check("FIELD_TRUNCATED", "truncated", "Data Format", status="TRUNCATED"),
    Check("TRAILING_OCTETS", "bytes after the end", "Data Format"),
    # ---- commands
    Check(
        "MAGIC", "not the magic of V2, two spaces and V2", "Protocol Overview", "E_BAD_PROTOCOL", status="UNSUPPORTED"
    ),
    Check("LINE_TOO_LONG", "command line longer than 16384 bytes", "Commands", status="LIMIT"),
    Check("COMMAND_UNKNOWN", "invalid command", "Commands", "E_INVALID", lax=True),
    Check("WORDS_MISSING", "insufficient number of parameters", "{command}", "E_INVALID", lax=True),
    Check("WORDS_TOO_MANY", "invalid number of parameters", "{command}", "E_INVALID", lax=True),
    Check("TOPIC_NAME", "topic name is not valid", "{command}", "E_BAD_TOPIC", lax=True),
    Check("CHANNEL_NAME", "channel name is not valid", "{command}", "E_BAD_CHANNEL", lax=True),
    Check("MESSAGE_ID", "message id is not 16 bytes", "{command}", "E_INVALID", lax=True),
    Check("NUMBER", "not a number", "{command}", "E_INVALID", lax=True),
    Check("RDY_RANGE", "count out of range", "RDY", "E_INVALID", lax=True, status="LIMIT"),
    Check("DPUB_RANGE", "timeout out of range", "DPUB", "E_INVALID", lax=True, status="LIMIT"),
    Check("BODY_EMPTY", "invalid body size 0", "{command}", "E_BAD_BODY", lax=True),
    Check("BODY_NEGATIVE", "invalid body size, negative", "{command}", "E_BAD_BODY"),
    Check("BODY_TOO_BIG", "body too big for the server", "{command}", "E_BAD_BODY", status="LIMIT"),
    Check("MESSAGE_EMPTY", "invalid message body size 0", "{command}", "E_BAD_MESSAGE", lax=True),
    Check("MESSAGE_NEGATIVE", "invalid message body size, negative", "{command}", "E_BAD_MESSAGE"),
    Check("MESSAGE_TOO_BIG", "message too big for the server", "{command}", "E_BAD_MESSAGE", status="LIMIT"),
    Check("MPUB_NO_COUNT", "no message count", "MPUB", "E_BAD_BODY", status="TRUNCATED"),
    Check("MPUB_EMPTY", "invalid message count 0", "MPUB", "E_BAD_BODY", lax=True),
    Check("MPUB_COUNT", "more messages than the body can hold, or a negative count", "MPUB", "E_BAD_BODY"),
    Check("MPUB_CUT", "runs past the body", "MPUB", "E_BAD_MESSAGE", status="TRUNCATED"),
    Check("MPUB_TRAILING", "bytes of the body after the last message", "MPUB", "E_BAD_BODY"),
    # ---- IDENTIFY's JSON
    Check("JSON_SYNTAX", "failed to decode JSON body", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("JSON_OBJECT", "JSON body is not an object", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("JSON_TYPE", "wrong JSON type", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("JSON_NESTING", "JSON nested deeper than 64", "IDENTIFY", "E_BAD_BODY", status="LIMIT"),
    Check("JSON_NUMBER", "JSON number of more than 1024 bytes", "IDENTIFY", "E_BAD_BODY", status="LIMIT"),
    Check("HEARTBEAT_INTERVAL", "heartbeat interval is invalid", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("OUTPUT_BUFFER_TIMEOUT", "output buffer timeout is invalid", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("OUTPUT_BUFFER_SIZE", "output buffer size is invalid", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("SAMPLE_RATE", "sample rate is invalid", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check("MSG_TIMEOUT", "msg timeout is invalid", "IDENTIFY", "E_BAD_BODY", lax=True),
    Check(
        "BOTH_COMPRESSIONS",
        "cannot enable both deflate and snappy compression",
        "IDENTIFY",
        "E_IDENTIFY_FAILED",
        lax=True,
    ),
    # ---- frames
    Check("SIZE_TOO_SMALL", "frame size below 4", "Data Format"),
    Check("SIZE_NEGATIVE", "frame size is negative", "Data Format"),
    Check("MESSAGE_TOO_SHORT", "not enough data for a message", "Data Format", status="TRUNCATED"),
)

#: Values of `reply` of a DecodeError.
REPLIES: Final[tuple[str, ...]] = tuple(code.name for code in ERROR_CODES)

#: Paths of fields in errors; the first is the whole frame.
FIELDS: Final[tuple[str, ...]] = (
    "",
    "magic",
    "command",
    "parameters",
    "topic",
    "channel",
    "message_id",
    "count",
    "milliseconds",
    "body_size",
    "body",
    "message_count",
    "bodies",
    "bodies[]",
    "size",
    "frame_type",
    "data",
    "members",
    *(f"members.{m.name}" for m in IDENTIFY_MEMBERS),
)

#: Secret fields, as (message, field); message "": every message. wirefmt.spec.secrets has the rule.
SECRETS: Final[tuple[tuple[str, str], ...]] = (("AUTH", "secret"),)
