"""What every column says of AMQP 1.0's frames. See lib/columns.py."""

from __future__ import annotations

import uuid
from typing import Any

from lib.column_values import Json, Members, Number, Row, digits, text, wrapped
from lib.kinds import all_of
from wirefmt import amqp10
from wirefmt.amqp10 import columns

VERSION = "1.0"
STRUCT = {c.name: c.type for c in columns.FIELDS}
APART = ("source", "target", "state", "error", "role")
SHOWN_REPEATS = 16
PROPERTIES_COMMON = ("message_id", "correlation_id", "reply_to", "content_type")


def as_json(value: Any, *, named: bool = False) -> Any:
    """As JSON. `named`: composites are shown by type and names of fields."""
    if value is None or type(value) is bool:
        return value
    if isinstance(value, amqp10.Composite):
        if named:
            return Members([("type", kind_of(value)), *members_of(value)])
        return Members([("descriptor", as_json(value.descriptor)), ("value", as_json(value.value))])
    if isinstance(value, amqp10.Described):
        return Members([("descriptor", as_json(value.descriptor)), ("value", as_json(value.value))])
    if isinstance(value, amqp10.Array) and value.constructor in (0x40, 0x41, 0x42, 0x43, 0x44, 0x45):
        if len(value) > SHOWN_REPEATS:
            return Members([("repeat", Number(len(value))), ("of", as_json(value[0]))])
        return [as_json(item) for item in value]
    if isinstance(value, (amqp10.List, amqp10.Array)):
        return [as_json(item) for item in value]
    if isinstance(value, amqp10.Map):
        return Members((as_text(key), as_json(item)) for key, item in value.pairs)
    if isinstance(value, float):
        return digits(value, narrow=isinstance(value, amqp10.Float))
    if isinstance(value, int):
        return Number(int(value))
    return as_text(value)


def members_of(value: Any) -> list[tuple[str, Any]]:
    return [
        (name, as_json(getattr(value, name), named=True))
        for name in type(value).__match_args__
        if getattr(value, name) is not None
    ]


def kind_of(value: Any) -> str:
    """The specification's word for a composite: SaslInit is sasl-init."""
    name = type(value).__name__
    return "".join(("-" if i and c.isupper() else "") + c.lower() for i, c in enumerate(name))


def as_text(value: Any) -> Any:
    """As text of its own column."""
    if value is None:
        return ""
    if isinstance(value, (amqp10.Decimal32, amqp10.Decimal64, amqp10.Decimal128)):
        return value.hex()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return text(value)
    return str(value) if isinstance(value, uuid.UUID) else Json(as_json(value))


def column(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_ == "list<string>":
        return [as_text(v) for v in value] if isinstance(value, amqp10.Array) else [as_text(value)]
    if type_ == "map<string,string>":
        return [(as_text(k), as_text(v)) for k, v in value.pairs]
    if type_ == "string":
        return as_text(value)
    return wrapped(int(value)) if type_.startswith("int") else value


def fields_of(value: Any) -> Row:
    """The fields of a performative or section that have a column of the struct, as they are."""
    found = {}
    for name in type(value).__match_args__:
        place = "mechanisms" if name == "sasl_server_mechanisms" else name
        if place in STRUCT and place not in APART and name not in ("channel", "payload"):
            found[place] = column(getattr(value, name), STRUCT[place])
    return found


def error_of(value: Any) -> Row:
    if not isinstance(value, amqp10.Error):
        return {}
    return {
        "error_condition": column(value.condition, "string"),
        "error_description": column(value.description, "string"),
        "error_info": column(value.info, "map<string,string>"),
    }


def state_of(value: Any) -> Row:
    if value is None:
        return {}
    if not isinstance(value, amqp10.Composite):
        return {"state_fields": Json(as_json(value))}
    found: Row = {"state": kind_of(value)}
    if members_of(value):
        found["state_fields"] = Json(Members(members_of(value)))
    return found | (error_of(value.error) if isinstance(value, amqp10.Rejected) else {})


def row_of_frame(frame: Any, direction: int) -> Row:
    if isinstance(frame, amqp10.ProtocolHeader):
        numbers = {
            "protocol_id": frame.protocol_id, "version_major": frame.major, "version_minor": frame.minor,
            "version_revision": frame.revision,
        }  # fmt: skip
        return {"kind": "protocol-header", "operation": "connect", "amqp10": numbers}
    if isinstance(frame, amqp10.EmptyFrame):
        return {"channel": frame.channel, "kind": "empty", "operation": "ping", "amqp10": {}}
    kind = kind_of(frame)
    row: Row = {"kind": kind, "operation": columns.OPERATIONS[kind][direction]}
    row["amqp10"] = fields = fields_of(frame)
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
            row["destination"] = column(about.address, "string")
        for name in ("source", "target"):
            value = getattr(frame, name)
            if isinstance(value, (amqp10.Source, amqp10.Target)):
                fields[f"{name}_address"] = column(value.address, "string")
            if value is not None:
                whole = isinstance(value, amqp10.Composite) and name == "source"
                fields[name] = Json(Members(members_of(value)) if whole else as_json(value, named=True))
    elif kind == "disposition":
        row["sequence"] = frame.first
        fields |= {"role": "receiver" if frame.role else "sender", **state_of(frame.state)}
    elif kind in ("detach", "end", "close"):
        fields |= error_of(frame.error)
    elif kind == "transfer":
        row["sequence"] = frame.delivery_id
        fields |= state_of(frame.state) | {"transfers": 1}
    return row


def message_row(message: amqp10.Message) -> Row:
    """What a transfer's message adds to its row."""
    fields: Row = {}
    row: Row = {"amqp10": fields}
    if message.header is not None:
        fields |= fields_of(message.header)
        row["ttl_ms"] = message.header.ttl
        count = message.header.delivery_count
        if count is not None and count < 2**31 - 1:
            row |= {"redelivered": count > 0, "attempts": count + 1}
    if message.properties is not None:
        fields |= fields_of(message.properties)
        row |= {name: column(getattr(message.properties, name), "string") for name in PROPERTIES_COMMON}
        row["destination"] = column(message.properties.to, "string")
    for name in ("delivery_annotations", "message_annotations", "footer"):
        fields[name] = column(getattr(message, name), "map<string,string>")
    row["headers"] = column(message.application_properties, "map<string,string>")
    if message.body:
        fields |= {"body": kind_of(message.body[0]), "body_sections": len(message.body)}
        row["payload"] = body_of(message)
        row["payload_size"] = None if isinstance(row["payload"], Json) else len(row["payload"])
    return row


def body_of(message: amqp10.Message) -> Any:
    if isinstance(message.body[0], amqp10.Data):
        return b"".join(bytes(section.payload) for section in all_of(message.body, amqp10.Data))
    if isinstance(message.body[0], amqp10.AmqpValue):
        value = message.body[0].value
        if isinstance(value, bytes) and type(value) is bytes:
            return value
        found = as_text(value)
        return found if isinstance(found, Json) else found.encode()
    if len(message.body) > 1:
        return Lines([as_json(section.items) for section in all_of(message.body, amqp10.AmqpSequence)])
    return Json(as_json(message.body[0].items))


class Lines(Json):
    """JSON, one a line."""

    def __eq__(self, other: object) -> bool:
        lines = other.split(b"\n") if isinstance(other, bytes) else []
        return len(lines) == len(self.value) and all(Json(v) == line for v, line in zip(self.value, lines, strict=True))

    __hash__ = None


TRANSFER_COLUMNS = ("handle", "delivery_id", "delivery_tag", "message_format", "settled")
BATCH_TYPES = {c.name: c.type for c in columns.BATCH}


def batch_row(frame: Any, content: amqp10.Message | None = None) -> Row:
    if isinstance(frame, amqp10.ProtocolHeader):
        return {"kind": "protocol-header"}
    if isinstance(frame, amqp10.EmptyFrame):
        return {"channel": frame.channel, "kind": "empty"}
    row: Row = {"channel": frame.channel, "kind": kind_of(frame)}
    if row["kind"].startswith("sasl-"):
        row["channel"] = None  # 5.3.1: its octets are ignored
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
            entries.append((name, as_text(value)))
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
            elif value is not None and BATCH_TYPES.get(name) == "string":
                # a message-id, or what LAX accepts in place of a string
                value = str(int(value)) if isinstance(value, amqp10.ULong) else as_text(value)
            row["ttl_ms" if name == "ttl" else name] = value
    for name in ("delivery_annotations", "message_annotations", "application_properties", "footer"):
        row["headers" if name == "application_properties" else name] = column(
            getattr(content, name), "map<string,string>"
        )
    if content.body:
        row |= {"body": kind_of(content.body[0]), "body_sections": len(content.body), "payload": body_of(content)}
    return row


def row(frame: Any, direction: int, *, content: amqp10.Message | None = None) -> Row:
    """`content`: the message of a transfer."""
    found = {"version": VERSION, **row_of_frame(frame, direction)}
    if content is None:
        return found
    more = message_row(content)
    return found | more | {"amqp10": found["amqp10"] | more["amqp10"]}


def opening(version: int) -> bytes:
    """What a client says first."""
    return b"AMQP\0\1\0\0"
