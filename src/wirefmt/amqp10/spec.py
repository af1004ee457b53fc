"""Names and numbers of AMQP 1.0, one literal table for each table of the specification.

Source: OASIS Standard AMQP 1.0 (29 October 2012), parts 1 to 5; section numbers are prefixed with the part: `2.7.5` is
part 2, section 7.5. Additions of brokers (filters of RabbitMQ and of the AMQP filter expressions) have a separate table.

The C tables of the compiled core are generated from this module: after a change run `python tools/gen_tables.py`.
"""

from typing import Final, NamedTuple

from wirefmt.spec.checks import Check

#: Part 1, 1.1 does not limit how deeply values nest; this is our limit.
NESTING_MAX: Final = 64

#: Part 2, 2.3: the first octets of every protocol header.
PROTOCOL_HEADER: Final = b"AMQP"

#: Part 2, 2.2 (table of protocol ids) and part 5, 5.2 and 5.3.
PROTOCOL_IDS: Final[dict[int, str]] = {0: "AMQP", 2: "TLS", 3: "SASL"}

#: major, minor, revision of every protocol header.
VERSION: Final[tuple[int, int, int]] = (1, 0, 0)

#: Part 2, 2.3.1 and part 5, 5.3.1.
FRAME_TYPES: Final[dict[int, str]] = {0: "AMQP", 1: "SASL"}

#: Part 2, 2.8: constants.
PORT: Final = 5672

# ------------------------------------------------------------------------------------------------ part 1, types

#: Part 1, 1.6, in its order; `any` is `*` in the fields of composites, `described` is a described type (1.3.2).
TYPES: Final[tuple[str, ...]] = (
    "any",
    "null",
    "boolean",
    "ubyte",
    "ushort",
    "uint",
    "ulong",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "decimal32",
    "decimal64",
    "decimal128",
    "char",
    "timestamp",
    "uuid",
    "binary",
    "string",
    "symbol",
    "list",
    "map",
    "array",
    "described",
)


class Constructor(NamedTuple):
    """A row of part 1's table of primitive type encodings (1.6)."""

    code: int
    name: str
    type: str
    width: int  # bytes of the value; of its size (and of its count) if `category` is not fixed
    category: str = "fixed"  # fixed, variable, compound, array: 1.2


CONSTRUCTORS: Final[tuple[Constructor, ...]] = (
    Constructor(0x40, "null", "null", 0),
    Constructor(0x41, "true", "boolean", 0),
    Constructor(0x42, "false", "boolean", 0),
    Constructor(0x43, "uint0", "uint", 0),
    Constructor(0x44, "ulong0", "ulong", 0),
    Constructor(0x45, "list0", "list", 0),
    Constructor(0x50, "ubyte", "ubyte", 1),
    Constructor(0x51, "byte", "byte", 1),
    Constructor(0x52, "smalluint", "uint", 1),
    Constructor(0x53, "smallulong", "ulong", 1),
    Constructor(0x54, "smallint", "int", 1),
    Constructor(0x55, "smalllong", "long", 1),
    Constructor(0x56, "boolean", "boolean", 1),
    Constructor(0x60, "ushort", "ushort", 2),
    Constructor(0x61, "short", "short", 2),
    Constructor(0x70, "uint", "uint", 4),
    Constructor(0x71, "int", "int", 4),
    Constructor(0x72, "float", "float", 4),
    Constructor(0x73, "char", "char", 4),
    Constructor(0x74, "decimal32", "decimal32", 4),
    Constructor(0x80, "ulong", "ulong", 8),
    Constructor(0x81, "long", "long", 8),
    Constructor(0x82, "double", "double", 8),
    Constructor(0x83, "timestamp", "timestamp", 8),
    Constructor(0x84, "decimal64", "decimal64", 8),
    Constructor(0x94, "decimal128", "decimal128", 16),
    Constructor(0x98, "uuid", "uuid", 16),
    Constructor(0xA0, "vbin8", "binary", 1, "variable"),
    Constructor(0xA1, "str8", "string", 1, "variable"),
    Constructor(0xA3, "sym8", "symbol", 1, "variable"),
    Constructor(0xB0, "vbin32", "binary", 4, "variable"),
    Constructor(0xB1, "str32", "string", 4, "variable"),
    Constructor(0xB3, "sym32", "symbol", 4, "variable"),
    Constructor(0xC0, "list8", "list", 1, "compound"),
    Constructor(0xC1, "map8", "map", 1, "compound"),
    Constructor(0xD0, "list32", "list", 4, "compound"),
    Constructor(0xD1, "map32", "map", 4, "compound"),
    Constructor(0xE0, "array8", "array", 1, "array"),
    Constructor(0xF0, "array32", "array", 4, "array"),
)

#: The first octet of a described type (1.2).
DESCRIBED: Final = 0x00


# ------------------------------------------------------------------------------------------------ composite types


class Field(NamedTuple):
    """A field of a composite type (1.4). Restricted types are given by their source: `milliseconds` is `uint`."""

    name: str
    type: str  # a row of TYPES
    mandatory: bool = False
    multiple: bool = False  # null, one value, or an array of them
    requires: str = ""  # what the described type of an `any` must provide; message-id: one of MESSAGE_ID_TYPES
    default: str = ""  # the meaning of null, as the specification writes it


class Composite(NamedTuple):
    """A composite type: a described list (1.4)."""

    name: str
    code: int  # descriptor: the domain is 0, so 32 of the 64 bits are enough
    section: str
    provides: tuple[str, ...]
    fields: tuple[Field, ...] = ()

    @property
    def symbol(self) -> str:
        """The symbolic descriptor."""
        return f"amqp:{self.name}:list"


#: Types of a message-id and a correlation-id: 3.2.11 to 3.2.14.
MESSAGE_ID_TYPES: Final[tuple[str, ...]] = ("ulong", "uuid", "binary", "string")

_CAPABILITIES = (
    Field("offered-capabilities", "symbol", multiple=True),
    Field("desired-capabilities", "symbol", multiple=True),
    Field("properties", "map"),
)

COMPOSITES: Final[tuple[Composite, ...]] = (
    # ---- performatives, 2.7
    Composite(
        "open",
        0x10,
        "2.7.1",
        ("frame",),
        (
            Field("container-id", "string", mandatory=True),
            Field("hostname", "string"),
            Field("max-frame-size", "uint", default="4294967295"),
            Field("channel-max", "ushort", default="65535"),
            Field("idle-time-out", "uint"),
            Field("outgoing-locales", "symbol", multiple=True),
            Field("incoming-locales", "symbol", multiple=True),
            *_CAPABILITIES,
        ),
    ),
    Composite(
        "begin",
        0x11,
        "2.7.2",
        ("frame",),
        (
            Field("remote-channel", "ushort"),
            Field("next-outgoing-id", "uint", mandatory=True),
            Field("incoming-window", "uint", mandatory=True),
            Field("outgoing-window", "uint", mandatory=True),
            Field("handle-max", "uint", default="4294967295"),
            *_CAPABILITIES,
        ),
    ),
    Composite(
        "attach",
        0x12,
        "2.7.3",
        ("frame",),
        (
            Field("name", "string", mandatory=True),
            Field("handle", "uint", mandatory=True),
            Field("role", "boolean", mandatory=True),
            Field("snd-settle-mode", "ubyte", default="mixed"),
            Field("rcv-settle-mode", "ubyte", default="first"),
            Field("source", "any", requires="source"),
            Field("target", "any", requires="target"),
            Field("unsettled", "map"),
            Field("incomplete-unsettled", "boolean", default="false"),
            Field("initial-delivery-count", "uint"),
            Field("max-message-size", "ulong"),
            *_CAPABILITIES,
        ),
    ),
    Composite(
        "flow",
        0x13,
        "2.7.4",
        ("frame",),
        (
            Field("next-incoming-id", "uint"),
            Field("incoming-window", "uint", mandatory=True),
            Field("next-outgoing-id", "uint", mandatory=True),
            Field("outgoing-window", "uint", mandatory=True),
            Field("handle", "uint"),
            Field("delivery-count", "uint"),
            Field("link-credit", "uint"),
            Field("available", "uint"),
            Field("drain", "boolean", default="false"),
            Field("echo", "boolean", default="false"),
            Field("properties", "map"),
        ),
    ),
    Composite(
        "transfer",
        0x14,
        "2.7.5",
        ("frame", "payload"),
        (
            Field("handle", "uint", mandatory=True),
            Field("delivery-id", "uint"),
            Field("delivery-tag", "binary"),
            Field("message-format", "uint"),
            Field("settled", "boolean"),
            Field("more", "boolean", default="false"),
            Field("rcv-settle-mode", "ubyte"),
            Field("state", "any", requires="delivery-state"),
            Field("resume", "boolean", default="false"),
            Field("aborted", "boolean", default="false"),
            Field("batchable", "boolean", default="false"),
        ),
    ),
    Composite(
        "disposition",
        0x15,
        "2.7.6",
        ("frame",),
        (
            Field("role", "boolean", mandatory=True),
            Field("first", "uint", mandatory=True),
            Field("last", "uint"),
            Field("settled", "boolean", default="false"),
            Field("state", "any", requires="delivery-state"),
            Field("batchable", "boolean", default="false"),
        ),
    ),
    Composite(
        "detach",
        0x16,
        "2.7.7",
        ("frame",),
        (
            Field("handle", "uint", mandatory=True),
            Field("closed", "boolean", default="false"),
            Field("error", "any", requires="error"),
        ),
    ),
    Composite("end", 0x17, "2.7.8", ("frame",), (Field("error", "any", requires="error"),)),
    Composite("close", 0x18, "2.7.9", ("frame",), (Field("error", "any", requires="error"),)),
    # ---- SASL frames, 5.3.3
    Composite(
        "sasl-mechanisms",
        0x40,
        "5.3.3.1",
        ("sasl-frame",),
        (Field("sasl-server-mechanisms", "symbol", mandatory=True, multiple=True),),
    ),
    Composite(
        "sasl-init",
        0x41,
        "5.3.3.2",
        ("sasl-frame",),
        (
            Field("mechanism", "symbol", mandatory=True),
            Field("initial-response", "binary"),
            Field("hostname", "string"),
        ),
    ),
    Composite("sasl-challenge", 0x42, "5.3.3.3", ("sasl-frame",), (Field("challenge", "binary", mandatory=True),)),
    Composite("sasl-response", 0x43, "5.3.3.4", ("sasl-frame",), (Field("response", "binary", mandatory=True),)),
    Composite(
        "sasl-outcome",
        0x44,
        "5.3.3.5",
        ("sasl-frame",),
        (Field("code", "ubyte", mandatory=True), Field("additional-data", "binary")),
    ),
    # ---- definitions, 2.8.14
    Composite(
        "error",
        0x1D,
        "2.8.14",
        ("error",),
        (Field("condition", "symbol", mandatory=True), Field("description", "string"), Field("info", "map")),
    ),
    # ---- sections of a message that are lists, 3.2
    Composite(
        "header",
        0x70,
        "3.2.1",
        ("section",),
        (
            Field("durable", "boolean", default="false"),
            Field("priority", "ubyte", default="4"),
            Field("ttl", "uint"),
            Field("first-acquirer", "boolean", default="false"),
            Field("delivery-count", "uint", default="0"),
        ),
    ),
    Composite(
        "properties",
        0x73,
        "3.2.4",
        ("section",),
        (
            Field("message-id", "any", requires="message-id"),
            Field("user-id", "binary"),
            Field("to", "any", requires="address"),
            Field("subject", "string"),
            Field("reply-to", "any", requires="address"),
            Field("correlation-id", "any", requires="message-id"),
            Field("content-type", "symbol"),
            Field("content-encoding", "symbol"),
            Field("absolute-expiry-time", "timestamp"),
            Field("creation-time", "timestamp"),
            Field("group-id", "string"),
            Field("group-sequence", "uint"),
            Field("reply-to-group-id", "string"),
        ),
    ),
    # ---- delivery states, 3.4
    Composite(
        "received",
        0x23,
        "3.4.1",
        ("delivery-state",),
        (Field("section-number", "uint", mandatory=True), Field("section-offset", "ulong", mandatory=True)),
    ),
    Composite("accepted", 0x24, "3.4.2", ("delivery-state", "outcome")),
    Composite("rejected", 0x25, "3.4.3", ("delivery-state", "outcome"), (Field("error", "any", requires="error"),)),
    Composite("released", 0x26, "3.4.4", ("delivery-state", "outcome")),
    Composite(
        "modified",
        0x27,
        "3.4.5",
        ("delivery-state", "outcome"),
        (
            Field("delivery-failed", "boolean"),
            Field("undeliverable-here", "boolean"),
            Field("message-annotations", "map"),
        ),
    ),
    # ---- sources and targets, 3.5
    Composite(
        "source",
        0x28,
        "3.5.3",
        ("source",),
        (
            Field("address", "any", requires="address"),
            Field("durable", "uint", default="none"),
            Field("expiry-policy", "symbol", default="session-end"),
            Field("timeout", "uint", default="0"),
            Field("dynamic", "boolean", default="false"),
            Field("dynamic-node-properties", "map"),
            Field("distribution-mode", "symbol"),
            Field("filter", "map"),
            Field("default-outcome", "any", requires="outcome"),
            Field("outcomes", "symbol", multiple=True),
            Field("capabilities", "symbol", multiple=True),
        ),
    ),
    Composite(
        "target",
        0x29,
        "3.5.4",
        ("target",),
        (
            Field("address", "any", requires="address"),
            Field("durable", "uint", default="none"),
            Field("expiry-policy", "symbol", default="session-end"),
            Field("timeout", "uint", default="0"),
            Field("dynamic", "boolean", default="false"),
            Field("dynamic-node-properties", "map"),
            Field("capabilities", "symbol", multiple=True),
        ),
    ),
    # ---- lifetime policies, 3.5.10 to 3.5.13
    Composite("delete-on-close", 0x2B, "3.5.10", ("lifetime-policy",)),
    Composite("delete-on-no-links", 0x2C, "3.5.11", ("lifetime-policy",)),
    Composite("delete-on-no-messages", 0x2D, "3.5.12", ("lifetime-policy",)),
    Composite("delete-on-no-links-or-messages", 0x2E, "3.5.13", ("lifetime-policy",)),
    # ---- transactions, 4.5
    Composite("coordinator", 0x30, "4.5.1", ("target",), (Field("capabilities", "symbol", multiple=True),)),
    Composite("declare", 0x31, "4.5.2", ("transaction",), (Field("global-id", "any"),)),
    Composite(
        "discharge",
        0x32,
        "4.5.3",
        ("transaction",),
        (Field("txn-id", "binary", mandatory=True), Field("fail", "boolean")),
    ),
    Composite("declared", 0x33, "4.5.5", ("delivery-state", "outcome"), (Field("txn-id", "binary", mandatory=True),)),
    Composite(
        "transactional-state",
        0x34,
        "4.5.8",
        ("delivery-state",),
        (Field("txn-id", "binary", mandatory=True), Field("outcome", "any", requires="outcome")),
    ),
)

#: What composites can provide, and fields require: terms of the specification, except `payload` (bytes may follow) and
#: `transaction` (the value of a message to a coordinator). The last two concern primitive types.
ARCHETYPES: Final[tuple[str, ...]] = (
    "",
    "frame",
    "payload",
    "sasl-frame",
    "section",
    "error",
    "source",
    "target",
    "delivery-state",
    "outcome",
    "lifetime-policy",
    "transaction",
    "message-id",
    "address",
)


class Section(NamedTuple):
    """A section of a message, in the order of 3.2."""

    name: str
    code: int
    symbol: str
    type: str  # what is described
    section: str


SECTIONS: Final[tuple[Section, ...]] = (
    Section("header", 0x70, "amqp:header:list", "list", "3.2.1"),
    Section("delivery-annotations", 0x71, "amqp:delivery-annotations:map", "map", "3.2.2"),
    Section("message-annotations", 0x72, "amqp:message-annotations:map", "map", "3.2.3"),
    Section("properties", 0x73, "amqp:properties:list", "list", "3.2.4"),
    Section("application-properties", 0x74, "amqp:application-properties:map", "map", "3.2.5"),
    Section("data", 0x75, "amqp:data:binary", "binary", "3.2.6"),
    Section("amqp-sequence", 0x76, "amqp:amqp-sequence:list", "list", "3.2.7"),
    Section("amqp-value", 0x77, "amqp:amqp-value:*", "any", "3.2.8"),
    Section("footer", 0x78, "amqp:footer:map", "map", "3.2.9"),
)

# ------------------------------------------------------------------------------------------------ names of values

#: 2.8.1: the boolean of a role.
ROLES: Final[dict[bool, str]] = {False: "sender", True: "receiver"}

#: 5.3.3.6
SASL_CODES: Final[dict[int, str]] = {0: "ok", 1: "auth", 2: "sys", 3: "sys-perm", 4: "sys-temp"}

#: 2.8.15 to 2.8.18 and 4.5.9.
ERROR_CONDITIONS: Final[tuple[str, ...]] = (
    "amqp:internal-error",
    "amqp:not-found",
    "amqp:unauthorized-access",
    "amqp:decode-error",
    "amqp:resource-limit-exceeded",
    "amqp:not-allowed",
    "amqp:invalid-field",
    "amqp:not-implemented",
    "amqp:resource-locked",
    "amqp:precondition-failed",
    "amqp:resource-deleted",
    "amqp:illegal-state",
    "amqp:frame-size-too-small",
    "amqp:connection:forced",
    "amqp:connection:framing-error",
    "amqp:connection:redirect",
    "amqp:session:window-violation",
    "amqp:session:errant-link",
    "amqp:session:handle-in-use",
    "amqp:session:unattached-handle",
    "amqp:link:detach-forced",
    "amqp:link:transfer-limit-exceeded",
    "amqp:link:message-size-exceeded",
    "amqp:link:redirect",
    "amqp:link:stolen",
    "amqp:transaction:unknown-id",
    "amqp:transaction:rollback",
    "amqp:transaction:timeout",
)

#: Known filters of a source (3.5.8), symbol -> code: those registered by Apache, those of the AMQP filter
#: expressions, and those of RabbitMQ (which have no code).
FILTERS: Final[dict[str, int | None]] = {
    "apache.org:selector-filter:string": 0x0000468C00000004,
    "apache.org:no-local-filter:list": 0x0000468C00000003,
    "apache.org:legacy-amqp-direct-binding:string": 0x0000468C00000000,
    "apache.org:legacy-amqp-topic-binding:string": 0x0000468C00000001,
    "apache.org:legacy-amqp-headers-binding:map": 0x0000468C00000002,
    "amqp:sql-filter": 0x120,
    "amqp:properties-filter": 0x173,
    "amqp:application-properties-filter": 0x174,
    "rabbitmq:stream-offset-spec": None,
    "rabbitmq:stream-filter": None,
    "rabbitmq:stream-match-unfiltered": None,
}


# ------------------------------------------------------------------------------------------------ checks


def _check(
    name: str,
    text: str,
    spec: str,
    reply: str | None = "amqp:decode-error",
    lax: bool = False,
    status: str = "MALFORMED",
) -> Check:
    """A Check; reply: error condition that a receiver answers."""
    return Check(name, text, spec, reply, lax, status)


_FRAMING = "amqp:connection:framing-error"
_LIMIT = "amqp:resource-limit-exceeded"

CHECKS: Final[tuple[Check, ...]] = (
    # ---- limits of the caller and of wirefmt
    _check("FRAME_SIZE", "larger than the caller's limit", "2.3.1", _FRAMING, status="LIMIT"),
    _check("ELEMENTS", "more elements than the caller's limit", "1.6", _LIMIT, status="LIMIT"),
    _check("NESTING", "values nest deeper than 64 levels", "1.6", _LIMIT, status="LIMIT"),
    _check("MEMORY", "not enough memory", "", _LIMIT, status="LIMIT"),
    _check(
        "MESSAGE_SIZE", "larger than the caller's limit", "2.6.14", "amqp:link:message-size-exceeded", status="LIMIT"
    ),
    _check(
        "MESSAGE_FORMAT",
        "not 0: the payload is not made of the sections of part 3",
        "3.2.16",
        "amqp:not-implemented",
        status="UNSUPPORTED",
    ),
    _check("DELIVERIES", "more pending deliveries than the caller's limit", "2.6.14", _LIMIT, status="LIMIT"),
    # ---- frames
    _check("FRAME_TRUNCATED", "frame is truncated", "2.3.1", _FRAMING, status="TRUNCATED"),
    _check("FRAME_TRAILING", "bytes after the frame", "2.3.1", _FRAMING),
    _check("FRAME_SIZE_BELOW_8", "frame size is below 8", "2.3.1", _FRAMING),
    _check("DOFF_BELOW_2", "data offset is below 2", "2.3.1", _FRAMING),
    _check("DOFF_BEYOND", "data offset is beyond the frame", "2.3.1", _FRAMING),
    _check("FRAME_TYPE", "frame type is neither AMQP nor SASL", "2.3.1", _FRAMING),
    _check("PROTOCOL_HEADER", "protocol header of another version", "2.2", None, lax=True, status="UNSUPPORTED"),
    _check("SASL_EMPTY", "SASL frame without a body", "5.3.1", _FRAMING, lax=True),
    # ---- values
    _check("TRUNCATED", "value runs past the end of its enclosing structure", "1.2", status="TRUNCATED"),
    _check("TRAILING", "bytes after the last value", "1.2", lax=True),
    _check("CONSTRUCTOR", "unknown constructor", "1.2"),
    _check("REST", "bytes after the last element", "1.2.3"),
    _check("ELEMENT_COUNT", "more elements than bytes", "1.2.3"),
    _check("MAP_ODD", "odd number of elements in a map", "1.6.23"),
    _check("MAP_DUPLICATE", "two equal keys in a map", "1.6.23", lax=True),
    _check("BOOLEAN", "boolean is neither 0 nor 1", "1.6.2", lax=True),
    _check("CHAR", "char above U+10FFFF", "1.6.16"),
    _check("CHAR_SURROGATE", "char is a surrogate", "1.6.16", lax=True),
    _check("STRING_UTF8", "ill-formed UTF-8", "1.6.20", lax=True),
    _check("SYMBOL_ASCII", "symbol is not ASCII", "1.6.21", lax=True),
    # ---- composites
    _check("NOT_DESCRIBED", "not a described value", "1.4"),
    _check("DESCRIPTOR", "unknown descriptor", "1.4"),
    _check("DESCRIPTOR_TYPE", "descriptor is neither ulong nor symbol", "1.4", lax=True),
    _check("NOT_A_LIST", "fields are not a list", "1.4"),
    _check("NOT_ALLOWED", "composite type is not allowed here", "2.7", "amqp:not-allowed"),
    _check("FIELD_COUNT", "more fields than are defined", "1.4", lax=True),
    _check("FIELD_MANDATORY", "mandatory field is missing", "1.4", "amqp:invalid-field", lax=True),
    _check("FIELD_TYPE", "field is of another type", "1.4", lax=True),
    _check("PROVIDES", "composite type is not allowed in this field", "1.4", lax=True),
    # ---- messages
    _check("SECTION_UNKNOWN", "unknown section", "3.2", lax=True),
    _check("SECTION_TYPE", "section is of another type", "3.2"),
    _check("SECTION_ORDER", "section is out of order or repeated", "3.2", lax=True),
    _check("BODY_MIXED", "body sections of several kinds", "3.2", lax=True),
    _check("BODY_MISSING", "message has no body", "3.2", lax=True),
    _check("ANNOTATION_KEY", "key is neither symbol nor ulong", "3.2.10", lax=True),
    _check("PROPERTY_KEY", "key is not a string", "3.2.5", lax=True),
    _check("PROPERTY_VALUE", "value is not of a simple type", "3.2.5", lax=True),
    # ---- deliveries
    _check("DELIVERY_FIRST", "delivery begins without delivery-id", "2.7.5", "amqp:invalid-field", lax=True),
    _check(
        "DELIVERY_CHANGED", "differs from the first transfer of the delivery", "2.7.5", "amqp:invalid-field", lax=True
    ),
)

#: Values of `reply` of a DecodeError.
REPLIES: Final[tuple[str, ...]] = ERROR_CONDITIONS


def attribute(name: str) -> str:
    """The Python name of a field."""
    return name.replace("-", "_")


#: Paths of errors. `[]` is replaced by the index of an element. Row 0 is the frame (or message, or value) itself.
FIELDS: Final[tuple[str, ...]] = (
    "",
    "value[]",
    "protocol_header",
    "size",
    "doff",
    "type",
    "performative",
    "payload",
    "section[]",
    "delivery_annotations[]",
    "message_annotations[]",
    "application_properties[]",
    "data",
    "amqp_sequence[]",
    "amqp_value[]",
    "footer[]",
    *(attribute(c.name) for c in COMPOSITES),
    *(
        f"{attribute(c.name)}.{attribute(f.name)}{'[]' if f.multiple or f.type in ('any', 'map') else ''}"
        for c in COMPOSITES
        for f in c.fields
    ),
)

#: Secret fields, as (message, field); message "": every message. wirefmt.spec.secrets has the rule.
SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("sasl-init", "initial_response"),
    ("sasl-challenge", "challenge"),
    ("sasl-response", "response"),
    ("sasl-outcome", "additional_data"),
)
