"""What every column says of a message, worked out from the fields of its object.

The core writes columns from octets and never from objects, so the two must be compared: `row_of` gives a message's row of
the message table, `batch_row_of` its row of `decode_batch`, both without what is null. `captured` puts messages into a
made-up TCP capture and gives their rows. The tests take the public vectors, the fuzz targets whatever they find.

Rules of columns are those of docs/message-table.md and of wirefmt.spec.table. Credentials are exposed everywhere.
"""

from __future__ import annotations

import io
import ipaddress
import json
import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lib.protocols import PORTS
from lib.wire import START, Tcp, connect, pcap
from wirefmt import amqp091, amqp10, capture, nsq
from wirefmt.amqp091 import columns as amqp091_columns
from wirefmt.amqp10 import columns as amqp10_columns
from wirefmt.mqtt import columns as mqtt_columns
from wirefmt.nsq import columns as nsq_columns
from wirefmt.phpmq import columns as phpmq_columns
from wirefmt.rocketmq import columns as rocketmq_columns
from wirefmt.rocketmq import spec as rocketmq_spec
from wirefmt.spec import table

HEX_OCTETS = 1024  # octets that are not text: so many are shown
#: What a row says of the capture and of its connection, and not of the message.
CONTEXT = tuple(c.name for c in table.COLUMNS[: [c.name for c in table.COLUMNS].index("protocol")])
#: Columns that this page says nothing of: they are asked for by options of their own.
APART = ("raw", "detail")

Row = dict[str, Any]


def sparse(row: Row) -> Row:
    """Without what is null, in structs as well."""
    return {k: sparse(v) if isinstance(v, dict) else v for k, v in row.items() if v is not None and k not in APART}


def text(value: str | bytes | None, *, nul: bool = False) -> str | None:
    """Octets in a column of text: as they are if they are text, else in hexadecimal."""
    if value is None:
        return None
    octets = value.encode() if isinstance(value, str) else bytes(value)
    try:
        found = octets.decode()
    except UnicodeDecodeError:
        return octets[:HEX_OCTETS].hex()
    return found if nul or "\0" not in found else octets[:HEX_OCTETS].hex()


def wrapped(value: int | None) -> int | None:
    """An unsigned number of 64 bits in a column of signed ones."""
    return value - 2**64 if value is not None and value >= 2**63 else value


# ------------------------------------------------------------------------------------------------ values as JSON


class Number(str):
    """A number of JSON, by its digits."""


class Json:
    """Equal to any text that is this JSON: names in order, with repeats."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bytes):
            other = other.decode()
        if not isinstance(other, str):
            return NotImplemented
        try:
            found = json.loads(
                other, object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=Number
            )
        except ValueError:
            return False
        return alike(found, self.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Json({self.value!r})"


class Members(list[tuple[Any, Any]]):
    """Of a JSON object."""


def alike(a: Any, b: Any) -> bool:
    if (type(a) is str and isinstance(b, Json)) or isinstance(b, Floating):
        return bool(b == a)
    if type(a) is not type(b):
        return False
    if isinstance(a, Members):
        return len(a) == len(b) and all(alike(k, n) and alike(v, w) for (k, v), (n, w) in zip(a, b, strict=True))
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


class Floating:
    """Equal to digits of JSON that are read back as the same number, and are no more than such numbers need."""

    def __init__(self, value: float, narrow: bool) -> None:
        self.value, self.narrow = value, narrow

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return NotImplemented
        significant = other.lower().partition("e")[0].lstrip("-0.").replace(".", "")
        return len(significant) <= (9 if self.narrow else 17) and same_number(float(other), self.value, self.narrow)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Floating({self.value!r})"


def digits(value: float, *, narrow: bool) -> Any:
    """A number as JSON has it: NaN and infinities are strings."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return Floating(value, narrow)


def same_number(a: float, b: float, narrow: bool) -> bool:
    try:
        return struct.pack(">f", a) == struct.pack(">f", b) if narrow else a == b
    except OverflowError:  # rounds to more than the largest
        return False


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1

AMQP091_COMMON = {
    "routing_key": "routing_key", "delivery_tag": "sequence", "redelivered": "redelivered", "reply_code": "code",
    "content_type": "content_type", "headers": "headers", "correlation_id": "correlation_id", "reply_to": "reply_to",
    "message_id": "message_id",
}  # fmt: skip
AMQP091_STRUCT = {c.name for c in amqp091_columns.FIELDS}
#: Arguments with a column of their own in decode_batch; all others are in its map.
AMQP091_OWN = (
    "exchange", "routing_key", "queue", "consumer_tag", "delivery_tag", "redelivered", "reply_code", "reply_text",
)  # fmt: skip
#: Long strings that are octets, and not text.
AMQP091_OCTETS = ("challenge", "response", "new_secret", "channel_id")


def json091(letter: str, value: Any) -> Any:
    if letter == "F":
        return Members((text(name), json091(*item)) for name, *item in value.entries)
    if letter == "A":
        return [json091(*item) for item in value.items]
    if letter == "S":
        return text(value)
    if letter == "x":
        return value.hex()
    if letter in "tV":
        return value
    if letter == "D":
        return Number(format(value, "f"))
    return digits(value, narrow=letter == "f") if letter in "fd" else Number(int(value))


def text091(letter: str, value: Any) -> Any:
    if letter == "V":
        return ""
    found = json091(letter, value)
    return found if type(found) is str and letter in "Sx" else Json(found)


def entries091(found: amqp091.FieldTable) -> list[tuple[Any, Any]]:
    return [(text(name), text091(letter, value)) for name, letter, value in found.entries]


def column091(name: str, value: Any) -> Any:
    if isinstance(value, amqp091.FieldTable):
        return entries091(value)
    if isinstance(value, bytes) and name in AMQP091_OCTETS:
        return value
    if isinstance(value, (str, bytes)):
        return text(value)
    return wrapped(int(value)) if type(value) is not bool and isinstance(value, int) else value


def arguments091(message: Any) -> Iterable[tuple[str, Any]]:
    for name in type(message).__match_args__:
        if name not in ("channel", "properties", "body"):
            yield name, getattr(message, name)


def is_milliseconds(value: Any) -> bool:
    """`expiration`: RabbitMQ wants digits alone; a column has room for eighteen."""
    return isinstance(value, str) and 0 < len(value) <= 18 and value.isascii() and value.isdigit()


def amqp091_row(message: Any, direction: int) -> Row:
    if isinstance(message, amqp091.ProtocolHeader):
        numbers = dict(zip(("version_major", "version_minor", "version_revision"), message.octets[1:], strict=True))
        return {"kind": "protocol-header", "operation": "connect", "amqp091": numbers}
    row: Row = {"channel": message.channel}
    if isinstance(message, amqp091.Heartbeat):
        return row | {"kind": "heartbeat", "operation": "ping", "amqp091": {}}
    method = message.method if isinstance(message, amqp091.BasicMessage) else message
    name = method.name
    row |= {"kind": name, "operation": amqp091_columns.OPERATIONS[name][direction], "amqp091": (fields := {})}
    arguments = dict(arguments091(method))
    for key, value in arguments.items():
        place = key.rstrip("_")
        if place in AMQP091_COMMON:
            row[AMQP091_COMMON[place]] = column091(place, value)
        elif place in AMQP091_STRUCT:
            fields[place] = column091(place, value)
    for key in ("queue", "destination", "exchange"):
        if key in arguments:
            about = arguments[key] or (arguments["routing_key"] if method.has_content else "")
            if about:
                row["destination"] = text(about)
            break
    if name == "connection.start-ok":
        names = [v for n, letter, v in arguments["client_properties"].entries if n == "connection_name"][:1]
        letters = [letter for n, letter, v in arguments["client_properties"].entries if n == "connection_name"][:1]
        if names and letters == ["S"] and names[0]:
            row["client_id"] = text(names[0])
    if isinstance(message, amqp091.BasicMessage):
        row |= {"payload": message.body_bytes(), "payload_size": len(message.body_bytes())}
        fields |= {"body_size": len(message.body_bytes())}
        for key in amqp091.BasicProperties.__match_args__:
            value = getattr(message.properties, key)
            if value is None:
                continue
            if key in AMQP091_COMMON:
                row[AMQP091_COMMON[key]] = column091(key, value)
            else:
                fields[key] = column091(key, value)
        if is_milliseconds(message.properties.expiration):
            row["ttl_ms"] = int(message.properties.expiration)
        if message.properties.headers is not None and name in ("basic.deliver", "basic.get-ok"):
            counts = [(letter, v) for n, letter, v in message.properties.headers.entries if n == "x-delivery-count"]
            if counts and counts[0][0] in "bBsuIilL" and 0 <= counts[0][1] < 2**31 - 1:
                row["attempts"] = counts[0][1] + 1
    return row


def amqp091_batch_row(message: Any) -> Row:
    if isinstance(message, (amqp091.ProtocolHeader, amqp091.Heartbeat)):
        kind = "heartbeat" if isinstance(message, amqp091.Heartbeat) else "protocol-header"
        return {"channel": message.channel, "kind": kind}
    method = message.method if isinstance(message, amqp091.BasicMessage) else message
    row: Row = {"channel": message.channel, "kind": method.name}
    for key, value in arguments091(method):
        if key in AMQP091_OWN:
            row[key] = column091(key, value)
        else:
            if type(value) is bool:
                shown: Any = "true" if value else "false"
            elif isinstance(value, amqp091.FieldTable):
                shown = Json(json091("F", value))
            else:
                shown = text(value) if isinstance(value, (str, bytes)) else str(int(value))
            row.setdefault("arguments", []).append((key, shown))
    if isinstance(message, amqp091.BasicMessage):
        row |= {"body": message.body_bytes(), "body_size": len(message.body_bytes())}
        for key in amqp091.BasicProperties.__match_args__:
            if getattr(message.properties, key) is not None:
                row[key] = column091(key, getattr(message.properties, key))
    return row


# ------------------------------------------------------------------------------------------------ AMQP 1.0

AMQP10_STRUCT = {c.name: c.type for c in amqp10_columns.FIELDS}
AMQP10_APART = ("source", "target", "state", "error", "role")
SHOWN_REPEATS = 16
PROPERTIES_COMMON = ("message_id", "correlation_id", "reply_to", "content_type")


def json10(value: Any, *, named: bool = False) -> Any:
    """As JSON. `named`: composites are shown by type and names of fields."""
    if value is None or type(value) is bool:
        return value
    if isinstance(value, amqp10.Composite):
        if named:
            return Members([("type", kind10(value)), *members10(value)])
        return Members([("descriptor", json10(value.descriptor)), ("value", json10(value.value))])
    if isinstance(value, amqp10.Described):
        return Members([("descriptor", json10(value.descriptor)), ("value", json10(value.value))])
    if isinstance(value, amqp10.Array) and value.constructor in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45):
        if len(value) > SHOWN_REPEATS:
            return Members([("repeat", Number(len(value))), ("of", json10(value[0]))])
        return [json10(item) for item in value]
    if isinstance(value, (amqp10.List, amqp10.Array)):
        return [json10(item) for item in value]
    if isinstance(value, amqp10.Map):
        return Members((text10(key), json10(item)) for key, item in value.pairs)
    if isinstance(value, float):
        return digits(value, narrow=isinstance(value, amqp10.Float))
    if isinstance(value, int):
        return Number(int(value))
    return text10(value)


def members10(value: Any) -> list[tuple[str, Any]]:
    return [
        (name, json10(getattr(value, name), named=True))
        for name in type(value).__match_args__
        if getattr(value, name) is not None
    ]


def kind10(value: Any) -> str:
    """The specification's word for a composite: SaslInit is sasl-init."""
    name = type(value).__name__
    return "".join(("-" if i and c.isupper() else "") + c.lower() for i, c in enumerate(name))


def text10(value: Any) -> Any:
    """As text of its own column."""
    if value is None:
        return ""
    if isinstance(value, (amqp10.Decimal32, amqp10.Decimal64, amqp10.Decimal128)):
        return value.hex()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return text(value)
    return str(value) if isinstance(value, uuid.UUID) else Json(json10(value))


def column10(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_ == "list<string>":
        return [text10(v) for v in value] if isinstance(value, amqp10.Array) else [text10(value)]
    if type_ == "map<string,string>":
        return [(text10(k), text10(v)) for k, v in value.pairs]
    if type_ == "string":
        return text10(value)
    return wrapped(int(value)) if type_.startswith("int") else value


def fields10(value: Any) -> Row:
    """The fields of a performative or section that have a column of the struct, as they are."""
    found = {}
    for name in type(value).__match_args__:
        place = "mechanisms" if name == "sasl_server_mechanisms" else name
        if place in AMQP10_STRUCT and place not in AMQP10_APART and name not in ("channel", "payload"):
            found[place] = column10(getattr(value, name), AMQP10_STRUCT[place])
    return found


def error10(value: Any) -> Row:
    if not isinstance(value, amqp10.Error):
        return {}
    return {
        "error_condition": column10(value.condition, "string"),
        "error_description": column10(value.description, "string"),
        "error_info": column10(value.info, "map<string,string>"),
    }


def state10(value: Any) -> Row:
    if value is None:
        return {}
    if not isinstance(value, amqp10.Composite):
        return {"state_fields": Json(json10(value))}
    found: Row = {"state": kind10(value)}
    if members10(value):
        found["state_fields"] = Json(Members(members10(value)))
    return found | (error10(value.error) if isinstance(value, amqp10.Rejected) else {})


def amqp10_row(frame: Any, direction: int) -> Row:
    if isinstance(frame, amqp10.ProtocolHeader):
        numbers = {
            "protocol_id": frame.protocol_id, "version_major": frame.major, "version_minor": frame.minor,
            "version_revision": frame.revision,
        }  # fmt: skip
        return {"kind": "protocol-header", "operation": "connect", "amqp10": numbers}
    if isinstance(frame, amqp10.EmptyFrame):
        return {"channel": frame.channel, "kind": "empty", "operation": "ping", "amqp10": {}}
    kind = kind10(frame)
    row: Row = {"kind": kind, "operation": amqp10_columns.OPERATIONS[kind][direction]}
    row["amqp10"] = fields = fields10(frame)
    if not kind.startswith("sasl-"):
        row["channel"] = frame.channel
    if kind == "open":
        row["client_id"] = frame.container_id if direction == 0 and frame.container_id else None
    elif kind == "sasl-outcome":
        row["code"] = frame.code
    elif kind == "attach":
        fields |= {"role": "receiver" if frame.role else "sender"}
        about = frame.source if frame.role == (direction == 0) else frame.target  # the server's end
        if isinstance(about, (amqp10.Source, amqp10.Target)):
            row["destination"] = column10(about.address, "string")
        for name in ("source", "target"):
            value = getattr(frame, name)
            if isinstance(value, (amqp10.Source, amqp10.Target)):
                fields[f"{name}_address"] = column10(value.address, "string")
            if value is not None:
                whole = isinstance(value, amqp10.Composite) and name == "source"
                fields[name] = Json(Members(members10(value)) if whole else json10(value, named=True))
    elif kind == "disposition":
        row["sequence"] = frame.first
        fields |= {"role": "receiver" if frame.role else "sender", **state10(frame.state)}
    elif kind in ("detach", "end", "close"):
        fields |= error10(frame.error)
    elif kind == "transfer":
        row["sequence"] = frame.delivery_id
        fields |= state10(frame.state) | {"transfers": 1}
    return row


def amqp10_message_row(message: amqp10.Message) -> Row:
    """What a transfer's message adds to its row."""
    fields: Row = {}
    row: Row = {"amqp10": fields}
    if message.header is not None:
        fields |= fields10(message.header)
        row["ttl_ms"] = message.header.ttl
        count = message.header.delivery_count
        if count is not None and count < 2**31 - 1:
            row |= {"redelivered": count > 0, "attempts": count + 1}
    if message.properties is not None:
        fields |= fields10(message.properties)
        row |= {name: column10(getattr(message.properties, name), "string") for name in PROPERTIES_COMMON}
        row["destination"] = column10(message.properties.to, "string")
    for name in ("delivery_annotations", "message_annotations", "footer"):
        fields[name] = column10(getattr(message, name), "map<string,string>")
    row["headers"] = column10(message.application_properties, "map<string,string>")
    if message.body:
        fields |= {"body": kind10(message.body[0]), "body_sections": len(message.body)}
        row["payload"] = body10(message)
        row["payload_size"] = None if isinstance(row["payload"], Json) else len(row["payload"])
    return row


def body10(message: amqp10.Message) -> Any:
    if isinstance(message.body[0], amqp10.Data):
        return b"".join(map(bytes, message.body))
    if isinstance(message.body[0], amqp10.AmqpValue):
        value = message.body[0].value
        if isinstance(value, bytes) and type(value) is bytes:
            return value
        found = text10(value)
        return found if isinstance(found, Json) else found.encode()
    if len(message.body) > 1:
        return Lines([json10(section.items) for section in message.body])
    return Json(json10(message.body[0].items))


class Lines(Json):
    """JSON, one a line."""

    def __eq__(self, other: object) -> bool:
        lines = other.split(b"\n") if isinstance(other, bytes) else []
        return len(lines) == len(self.value) and all(Json(v) == line for v, line in zip(self.value, lines, strict=True))

    __hash__ = None  # type: ignore[assignment]


TRANSFER_COLUMNS = ("handle", "delivery_id", "delivery_tag", "message_format", "settled")
AMQP10_BATCH_TYPES = {c.name: c.type for c in amqp10_columns.BATCH}


def amqp10_batch_row(frame: Any, content: amqp10.Message | None = None) -> Row:
    if isinstance(frame, amqp10.ProtocolHeader):
        return {"kind": "protocol-header"}
    if isinstance(frame, amqp10.EmptyFrame):
        return {"channel": frame.channel, "kind": "empty"}
    row: Row = {"channel": frame.channel, "kind": kind10(frame)}
    if isinstance(frame, amqp10.Transfer):
        row["transfers"] = 1
    entries = []
    for name in type(frame).__match_args__:
        value = getattr(frame, name)
        if name in ("channel", "payload") or value is None:
            continue
        if isinstance(frame, amqp10.Transfer) and name in TRANSFER_COLUMNS:
            row[name] = value
        else:
            entries.append((name, text10(value)))
    if entries:
        row["fields"] = entries
    if content is None:
        return row
    for section in (content.header, content.properties):
        for name in type(section).__match_args__ if section is not None else ():
            value = getattr(section, name)
            if type(value) is bytes and name != "user_id":
                value = text(value)
            elif isinstance(value, (str, uuid.UUID)):
                value = str(value)
            elif value is not None and AMQP10_BATCH_TYPES[name] == "string":
                # a message-id, or what LAX accepts in place of a string
                value = str(int(value)) if isinstance(value, amqp10.ULong) else text10(value)
            row[name] = value
    for name in ("delivery_annotations", "message_annotations", "application_properties", "footer"):
        row[name] = column10(getattr(content, name), "map<string,string>")
    if content.body:
        row |= {"body_type": kind10(content.body[0]), "body_sections": len(content.body), "body": body10(content)}
    return row


# ------------------------------------------------------------------------------------------------ MQTT

MQTT_STRUCT = {c.name for c in mqtt_columns.FIELDS}
MQTT_KINDS = {name: number for number, name in enumerate(mqtt_columns.OPERATIONS, 1)}
MQTT_RENAMED = {
    "subscription_identifier": "subscription_identifiers",
    "subscription_identifiers_available": "subscription_identifier_available",
}
MQTT_VERSIONS = {3: "3.1", 4: "3.1.1", 5: "5.0"}


def bytes_after_filters(message: Any) -> list[int]:
    """The options bytes of a SUBSCRIBE: 3.1 gives the upper six bits no meaning, so an object does not have them."""
    octets, sizes = message.encode(), [2 + len(s.topic_filter.encode()) for s in message.subscriptions]
    at = len(octets) - sum(sizes) - len(sizes)
    options = []
    for size in sizes:
        at += size
        options.append(octets[at])
        at += 1
    return options


def mqtt_struct(message: Any) -> Row:
    kind = type(message).__name__.upper()
    fields: Row = {"flags": message.flags}
    if kind == "CONNECT":
        for name in ("protocol_name", "connect_flags", "clean_start", "keep_alive", "user_name", "password"):
            fields[name] = getattr(message, name)
        fields["protocol_level"] = message.protocol_version
        if message.will is not None:
            will = message.will
            fields |= {"will_topic": will.topic, "will_payload": will.payload}
            fields |= {"will_qos": will.qos, "will_retain": will.retain}
            if will.properties:
                fields["will_delay_interval"] = dict(will.properties).get("will_delay_interval")
                fields["will_properties"] = [
                    value if name == "user_property" else (name, shown(value)) for name, value in will.properties
                ]
    elif kind == "CONNACK":
        fields["session_present"] = message.session_present
    elif kind == "SUBSCRIBE":
        fields["topic_filters"] = [s.topic_filter for s in message.subscriptions]
        fields["subscription_options"] = [
            s.qos | s.no_local << 2 | s.retain_as_published << 3 | s.retain_handling << 4 for s in message.subscriptions
        ]
        if message.version == 3:
            fields["subscription_options"] = bytes_after_filters(message)
    elif kind == "UNSUBSCRIBE":
        fields["topic_filters"] = list(message.topic_filters)
    elif kind == "SUBACK" or (kind == "UNSUBACK" and message.reason_codes):
        fields["reason_codes"] = list(message.reason_codes)
    for name, value in getattr(message, "properties", ()):
        place = MQTT_RENAMED.get(name, name)
        if place == "subscription_identifiers":
            fields.setdefault(place, []).append(value)
        elif place in MQTT_STRUCT:
            fields.setdefault(place, value)
    return fields


def shown(value: Any) -> Any:
    return text(value) if isinstance(value, bytes) else str(value)


def user_properties(message: Any) -> list[tuple[str, str]] | None:
    return [value for name, value in getattr(message, "properties", ()) if name == "user_property"] or None


def mqtt_row(message: Any, direction: int) -> Row:
    kind = type(message).__name__.upper()
    properties: Row = {}
    for name, value in getattr(message, "properties", ()):
        properties.setdefault(name, value)
    row: Row = {"version": MQTT_VERSIONS[message.version], "kind": kind, "client_id": "c"}
    row["operation"] = mqtt_columns.OPERATIONS[kind][direction]
    row |= {"sequence": getattr(message, "packet_identifier", None), "code": getattr(message, "reason_code", None)}
    row |= {"headers": user_properties(message), "content_type": properties.get("content_type")}
    row |= {"reply_to": properties.get("response_topic"), "correlation_id": text(properties.get("correlation_data"))}
    if (seconds := properties.get("message_expiry_interval")) is not None:
        row["ttl_ms"] = seconds * 1000
    row["mqtt"] = fields = mqtt_struct(message)
    if kind == "PUBLISH" or (message.version == 3 and kind in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE")):
        fields["dup"] = row["redelivered"] = message.dup
    if kind == "PUBLISH":
        row |= {"qos": message.qos, "payload": message.payload_bytes(), "payload_size": len(message.payload_bytes())}
        row |= {"destination": message.topic_name or None}
        fields["retain"] = message.retain
    elif kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
        first = fields["topic_filters"][0]
        parts = first.split("/", 2)
        if message.version == 5 and parts[0] == "$share":
            row |= {"consumer_group": parts[1], "destination": parts[2]}
        else:
            row["destination"] = first
    elif kind == "CONNECT":
        row["client_id"] = message.client_identifier or None
    elif kind == "CONNACK":
        row["client_id"] = properties.get("assigned_client_identifier") or "c"
    return row


def mqtt_batch_row(message: Any) -> Row:
    kind = type(message).__name__.upper()
    row: Row = {"packet_type": MQTT_KINDS[kind], "packet_identifier": getattr(message, "packet_identifier", None)}
    if kind == "PUBLISH":
        row |= {"qos": message.qos, "dup": message.dup, "retain": message.retain, "topic_name": message.topic_name}
        row["payload"] = message.payload_bytes()
    elif message.version == 3 and kind in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE"):
        row["dup"] = message.dup
    row["reason_code"] = getattr(message, "reason_code", None)
    row["client_identifier"] = getattr(message, "client_identifier", None)
    row["content_type"] = dict(getattr(message, "properties", ())).get("content_type")
    row["user_properties"] = user_properties(message)
    if kind != "PUBLISH" or message.properties:
        row["mqtt"] = mqtt_struct(message)
    return row


# ------------------------------------------------------------------------------------------------ NSQ

NSQ_JSON = [c.name for c in nsq_columns.FIELDS]
NSQ_JSON = NSQ_JSON[NSQ_JSON.index("hostname") : NSQ_JSON.index("permission_count") + 1]
NSQ_TYPES = {c.name: {"string": str, "boolean": bool, "int64": int}.get(c.type) for c in nsq_columns.FIELDS}


def nsq_struct(message: Any) -> Row:
    kind = message.kind
    fields: Row = {}
    if isinstance(message, nsq.Frame):
        fields["frame_type"] = message.frame_type
    if kind == "message":
        fields["timestamp_ns"] = message.timestamp
    elif kind == "RDY":
        fields["rdy_count"] = message.count
    elif kind == "DPUB":
        fields["timeout_ms"] = message.defer_time
    elif kind == "REQ":
        fields["timeout_ms"] = message.timeout
    elif kind == "MPUB":
        fields |= {"message_count": len(message.bodies), "bodies": list(message.bodies)}
    elif kind == "AUTH":
        fields["secret"] = message.secret
    elif kind == "response":
        fields["response"] = text(message.data)
    elif kind == "error":
        code, space, rest = message.data.partition(b" ")
        fields |= {"error_code": text(code), "fatal": message.fatal}
        if space:
            fields["error_text"] = text(rest)
    for name, value in getattr(message, "members", None) or ():
        folded = name.lower() if name.isascii() else name
        place = {"version": "server_version", "server_version": ""}.get(folded, folded)
        if place in NSQ_JSON and type(value) is NSQ_TYPES[place]:
            fields[place] = value if type(value) is not int or -(2**63) <= value < 2**63 else None
    return fields


def nsq_row(message: Any, direction: int) -> Row:
    row: Row = {"version": "V2", "kind": message.kind, "operation": nsq_columns.OPERATIONS.get(message.kind)}
    row["nsq"] = nsq_struct(message)
    if message.kind == "response" and message.is_heartbeat:
        row["operation"] = nsq_columns.OPERATIONS["heartbeat"]
    row["destination"] = text(getattr(message, "topic", None))
    row["message_id"] = text(getattr(message, "message_id", None))
    if message.kind == "SUB":
        row["consumer_group"] = text(message.channel)
    if message.kind == "IDENTIFY":
        row["client_id"] = message.client_id or None
    if message.kind == "message":
        row |= {"attempts": message.attempts, "redelivered": message.attempts > 1}
    if message.kind in ("message", "PUB", "DPUB"):
        row |= {"payload": message.body_bytes(), "payload_size": len(message.body_bytes())}
    elif message.kind == "MPUB":
        row["payload_size"] = sum(map(len, message.bodies))
    return row


def nsq_batch_row(message: Any) -> Row:
    row: Row = {"kind": message.kind, "nsq": nsq_struct(message)}
    row |= {name: text(getattr(message, name, None)) for name in ("topic", "channel")}
    row["message_id"] = getattr(message, "message_id", None)
    if message.kind == "message":
        row |= {"timestamp": message.timestamp, "attempts": message.attempts}
    if message.kind in ("message", "PUB", "DPUB"):
        row["body"] = message.body_bytes()
    return row


# ------------------------------------------------------------------------------------------------ PHPMQ


def phpmq_struct(message: Any) -> Row:
    fields = {"message_type": message.message_type, "packet_count": len(message.packets)}
    fields |= {"message_count": phpmq_number(message, 4, "message_count"), "ttl": phpmq_number(message, 5, "ttl")}
    fields["line_broken"] = any(octet in message.encode()[:20] for octet in b"\r\n")
    return fields


def phpmq_number(message: Any, kind: int, name: str) -> Any:
    """A field, or the number in its packet where the type of the message is unknown."""
    content = packet(message, kind)
    if content is None or hasattr(message, name) or not content.removeprefix(b"-").isdigit():
        return getattr(message, name, None)
    return int(content)


def phpmq_row(message: Any, direction: int) -> Row:
    row: Row = {"version": "01" if message.version == 1 else None, "kind": message.kind or None}
    row |= {"operation": phpmq_columns.OPERATIONS.get(message.kind), "phpmq": phpmq_struct(message)}
    row |= {"destination": text(queue_name(message)), "message_id": text(packet(message, 3))}
    if (seconds := getattr(message, "ttl", None)) is not None and abs(seconds) <= 2**63 // 1000:
        row["ttl_ms"] = seconds * 1000
    if (content := packet(message, 2)) is not None:
        row |= {"payload": content, "payload_size": len(content)}
    return row


def packet(message: Any, kind: int) -> bytes | None:
    """The contents of the last packet of a type."""
    return next((content for k, content in reversed(message.packets) if k == kind), None)


def queue_name(message: Any) -> bytes | None:
    return packet(message, 1)


def phpmq_batch_row(message: Any) -> Row:
    row: Row = {"kind": message.kind, "queue_name": text(queue_name(message)), "message_id": text(packet(message, 3))}
    return row | {"content": packet(message, 2), "phpmq": phpmq_struct(message)}


# ------------------------------------------------------------------------------------------------ RocketMQ

ROCKETMQ_KINDS = {row.code: row.name for row in rocketmq_spec.REQUEST_CODES}


def rocketmq_batch_row(command: Any) -> Row:
    fields = command.ext_fields
    row: Row = {name: getattr(command, name) for name in ("code", "flag", "opaque", "language", "version", "remark")}
    row |= {"serialize_type": command.serialize_type, "body": command.body_bytes()}
    if fields is not None:
        known = [(k, v) for k, v in fields.items() if k is not None and v is not None]
        row["ext_fields"] = known
        letters = command.code in (310, 320, 325)
        row |= {name: dict(known).get(key) for name, key in zip(
            ("topic", "properties"), ("b", "i") if letters else ("topic", "properties"), strict=True
        )}  # fmt: skip
    return row


#: Fields of headers that have a column of their own, whatever the header is; of several the first that is there. `-`: of
#: the message table, the others of the struct.
ROCKETMQ_COLUMNS = {
    "-destination": ("topic",), "-consumer_group": ("consumerGroup", "group"), "-message_id": ("msgId",),
    "producer_group": ("producerGroup",), "broker_name": ("bname", "brokerName"), "queue_id": ("queueId",),
    "queue_offset": ("queueOffset", "offset", "commitOffset"), "physical_offset": ("commitLogOffset",),
    "sys_flag": ("sysFlag",), "message_flag": ("flag",), "born_timestamp": ("bornTimestamp",),
    "store_timestamp": ("storeTimestamp",), "reconsume_times": ("reconsumeTimes",),
    "transaction_id": ("transactionId",), "subscription": ("subscription",),
    "next_begin_offset": ("nextBeginOffset",), "min_offset": ("minOffset",), "max_offset": ("maxOffset",),
}  # fmt: skip
ROCKETMQ_TYPES = {c.name: c.type for c in rocketmq_columns.FIELDS}
#: Properties of a message that have a column of their own.
ROCKETMQ_PROPERTIES = {
    "UNIQ_KEY": "-message_id", "CORRELATION_ID": "-correlation_id", "REPLY_TO_CLIENT": "-reply_to", "TTL": "-ttl_ms",
    "TAGS": "tags", "KEYS": "keys", "PGROUP": "producer_group",
}  # fmt: skip
STORED_MAGIC = (bytes.fromhex("daa320a7"), bytes.fromhex("daa320ab"))
STORED_REQUESTS = (39, 309)


def is_plain_command(command: Any) -> bool:
    """Is it one row that its header and body alone tell? Not stored messages, nor compressed bodies, nor doubled names."""
    body = command.body_bytes() or b""
    if (command.is_response and body[4:8] in STORED_MAGIC) or (
        not command.is_response and command.code in STORED_REQUESTS
    ):
        return False
    fields = dict(command.ext_fields or {})
    if body and any((whole(fields.get(name), "int64") or 0) & 1 for name in ("sysFlag", "f")):
        return False
    names = [tuple(n for n in names if n in fields) for names in ROCKETMQ_COLUMNS.values()]
    return command.code not in (34, 35, 320) and all(len(n) < 2 for n in names)


def whole(value: str | None, type_: str) -> int | None:
    """The number of a field that is one and for which the column has room."""
    if (
        value is None
        or not value.removeprefix("-").isdigit()
        or not value.isascii()
        or len(value) > 19 + (value[0] == "-")
    ):
        return None
    top = 2**31 if type_ == "int32" else 2**63
    return int(value) if -top <= int(value) < top else None


def rocketmq_row(command: Any, direction: int) -> Row:
    row: Row = {
        "version": rocketmq_spec.VERSIONS.get(command.version, str(command.version)),
        "sequence": command.opaque,
    }
    fields: Row = {"code": command.code, "flag": command.flag, "oneway": command.is_oneway and not command.is_response}
    fields |= {"language": command.language, "serialize_type": command.serialize_type, "remark": command.remark}
    row["rocketmq"] = fields
    if command.is_response:
        row |= {"kind": "RESPONSE", "code": command.code}
    else:
        row["kind"] = kind = ROCKETMQ_KINDS.get(command.code, str(command.code))
        row["operation"] = rocketmq_columns.OPERATIONS.get(kind, ("manage", "manage"))[0]
    header = {}
    if command.ext_fields is not None:
        header = {k: v for k, v in command.ext_fields.items() if k is not None and v is not None}
        fields["ext_fields"] = list(header.items())
        if not command.is_response and command.code in (310, 320, 325):
            letters = rocketmq_spec.SEND_MESSAGE_V2_LETTERS
            header = {letters.get(k, k): v for k, v in header.items() if len(k) == 1} | {
                k: v for k, v in header.items() if len(k) > 1
            }
    for name, value in properties_of(header.get("properties")):
        row.setdefault("headers", []).append((name, value))
        put(row, fields, ROCKETMQ_PROPERTIES.get(name), value)
    for place, names in ROCKETMQ_COLUMNS.items():
        put(row, fields, place, next((header[n] for n in names if n in header), None))
    body = command.body_bytes()
    if body is not None:
        row |= {"payload": body, "payload_size": len(body)}
    return row


def stored_row(message: Any, raw: Any) -> Row:
    """What a stored message adds to its row; `raw`: the same, its body not decompressed."""
    host, port = message.store_host
    address = ipaddress.ip_address(host).packed
    identifier = (address + port.to_bytes(4, "big") + message.physical_offset.to_bytes(8, "big")).hex().upper()
    row: Row = {"destination": message.topic, "payload": bytes(message.body), "attempts": message.reconsume_times + 1}
    row |= {"payload_size": len(message.body), "redelivered": message.reconsume_times > 0}
    fields: Row = {"sys_flag": raw.sys_flag, "message_flag": message.flag, "offset_message_id": identifier}
    for name in (
        "queue_id", "queue_offset", "physical_offset", "body_crc", "born_timestamp", "store_timestamp",
        "reconsume_times", "prepared_transaction_offset",
    ):  # fmt: skip
        fields[name] = getattr(message, name)
    for name in ("born_host", "store_host"):
        fields[name] = shown_host(*getattr(message, name))
    for name, value in (message.properties or {}).items():
        row.setdefault("headers", []).append((name, value))
        put(row, fields, ROCKETMQ_PROPERTIES.get(name), value)
    row.setdefault("message_id", identifier)
    return row | {"rocketmq": fields}


def shown_host(host: str, port: int) -> str:
    """address:port; of IPv6 in brackets, every group written out without leading zeros."""
    address = ipaddress.ip_address(host)
    if address.version == 4:
        return f"{host}:{port}"
    return "[" + ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":")) + f"]:{port}"


def put(row: Row, fields: Row, place: str | None, value: str | None) -> None:
    """A value in the column of its name, unless something is there."""
    if place is None or value is None:
        return
    name = place.removeprefix("-")
    cell: Any = value
    if place == "-ttl_ms":
        cell = whole(value, "int64")
    elif ROCKETMQ_TYPES.get(name, "").startswith("int"):
        cell = whole(value, ROCKETMQ_TYPES[name])
    into = row if place.startswith("-") else fields
    if into.get(name) is None:
        into[name] = cell


def properties_of(found: str | None) -> list[tuple[str, str]]:
    """name 0x01 value 0x02 ...; the last may lack its end."""
    items = [item.split("\x01", 1) for item in (found or "").split("\x02")]
    return [(item[0], item[1]) for item in items if len(item) == 2]


# ------------------------------------------------------------------------------------------------ what a row says

ROWS = {
    "mqtt": mqtt_row,
    "amqp091": amqp091_row,
    "nsq": nsq_row,
    "phpmq": phpmq_row,
    "amqp10": amqp10_row,
    "rocketmq": rocketmq_row,
}
BATCH_ROWS = {
    "mqtt": mqtt_batch_row, "amqp091": amqp091_batch_row, "amqp10": amqp10_batch_row, "nsq": nsq_batch_row,
    "phpmq": phpmq_batch_row, "rocketmq": rocketmq_batch_row,
}  # fmt: skip

VERSIONS = {"amqp091": "0.9.1", "amqp10": "1.0"}


def with_message(row: Row, more: Row) -> Row:
    """Of a transfer and its message."""
    return row | {k: v for k, v in more.items() if k != "amqp10"} | {"amqp10": row["amqp10"] | more["amqp10"]}


def row_of(protocol: str, message: Any, direction: int, *, content: Any = None, body_frames: int | None = None) -> Row:
    """The row of the message table, without what the capture says. `content`: the message of a transfer."""
    row = {"version": VERSIONS.get(protocol), **ROWS[protocol](message, direction)}
    if body_frames is not None:
        row["amqp091"]["body_frames"] = body_frames
    if content is not None:
        row = with_message(row, amqp10_message_row(content))
    return sparse({"protocol": protocol, "status": "ok", **row})


def batch_row_of(protocol: str, message: Any, content: Any = None) -> Row:
    """The row of decode_batch, but for offset and size."""
    return sparse(BATCH_ROWS[protocol](message, *(() if content is None else (content,))))


# ------------------------------------------------------------------------------------------------ made-up captures


class Case(NamedTuple):
    """Octets that one side sends, alone on a connection behind what opens it."""

    octets: bytes
    direction: int
    version: int = 0  # MQTT's


def opening(protocol: str, case: Case) -> bytes:
    """What a client says first."""
    if protocol == "mqtt":
        return connect("c", case.version)
    return {"amqp091": b"AMQP\0\0\x09\1", "amqp10": b"AMQP\0\1\0\0", "nsq": b"  V2"}.get(protocol, b"")


def captured(protocol: str, cases: Sequence[Case], **options: Any) -> list[list[Row]]:
    """The rows of each case, with what the capture says of them checked and taken off."""
    frames: list[bytes] = []
    began: list[int] = []
    for number, case in enumerate(cases):
        tcp = Tcp(PORTS[protocol], client_port=20000 + number)
        first = opening(protocol, case)
        frames += [*tcp.open(), *tcp.send(0, first)]
        began.append(len(frames) + 1)
        frames += [*tcp.send(case.direction, case.octets, 1 << 15), *tcp.close()]
    import pyarrow

    decode_as = f"tcp.port=={PORTS[protocol]},{protocol}"
    read = capture.read(
        io.BytesIO(pcap(frames)), decode_as=[decode_as], expose_credentials=True, strictness="strict", **options
    )
    found = pyarrow.table(read)
    found.validate(full=True)
    for name in ("ts", "ts_first"):  # pyarrow 23 leaks where it makes datetimes of them
        found = found.set_column(found.column_names.index(name), name, found[name].cast(pyarrow.int64()))
    rows: list[list[Row]] = [[] for _ in cases]
    for row in found.to_pylist():
        ports = (row["src_port"], row["dst_port"])
        number = ports[row["direction"]] - 20000
        case = cases[number]
        before = len(opening(protocol, case)) if case.direction == 0 else 0
        if row["frame_no"] < began[number]:
            continue  # what opens the connection
        context = {name: row.pop(name) for name in CONTEXT}
        last = row["frame_no"] if "frame_no" in row else context["frame_no"]
        assert context["ts_ns"] == START * 10**9 + (last - 1) * 10**6
        assert context["ts"] == context["ts_ns"] // 1000
        assert context["ts_first"] <= context["ts"]
        assert context["direction"] == case.direction
        assert context["byte_offset"] >= before
        assert context["flow_id"] is not None
        client, server = ("10.0.0.2", 20000 + number), ("10.0.0.1", PORTS[protocol])
        ends = (client, server) if case.direction == 0 else (server, client)
        assert ((context["src_ip"], context["src_port"]), (context["dst_ip"], context["dst_port"])) == ends
        row["byte_offset"] = context["byte_offset"] - before
        rows[number].append(sparse(row))
    return rows


def agree(got: Row, want: Row) -> list[str]:
    """Columns in which two rows differ, with what they say."""
    wrong = []
    if isinstance(want.get("payload"), Json) and got.get("payload") is not None:
        want = want | {"payload_size": len(got["payload"])}
    for name in sorted({*got, *want}):
        a, b = got.get(name), want.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            wrong += [f"{name}.{line}" for line in agree(a, b)]
        elif not same_cell(a, b):
            wrong.append(f"{name}: {a!r}, the object says {b!r}")
    return wrong


def same_cell(a: Any, b: Any) -> bool:
    if isinstance(b, list) and isinstance(a, list):
        return len(a) == len(b) and all(map(same_cell, a, b))
    if isinstance(b, tuple) and isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_cell, a, b))
    if isinstance(b, Json):
        return b == a
    return (type(a) is type(b) and bool(a == b)) or (type(a) in (int, str, bytes) and bool(a == b))
