"""What every column says of RocketMQ's commands. See lib/columns.py."""

from __future__ import annotations

import ipaddress
from typing import Any

from lib.column_values import Json, Row
from wirefmt.rocketmq import columns, spec

KINDS = {row.code: row.name for row in spec.REQUEST_CODES}


class Fields(Json):
    """The fields of a header in a column: the same in order; of a name that is there again, the last one is the command's."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list):
            return NotImplemented
        last = dict(other)
        return other == self.value if len(last) == len(other) else last == dict(self.value)

    __hash__ = None


def batch_row(command: Any) -> Row:
    fields = command.ext_fields
    row: Row = {name: getattr(command, name) for name in ("code", "flag", "language", "version", "remark")}
    row |= {"sequence": command.opaque, "serialize_type": command.serialize_type, "payload": command.body_bytes()}
    if fields is not None:
        known = [(k, v) for k, v in fields.items() if k is not None and v is not None]
        row["ext_fields"] = Fields(known)
        letters = command.code in (310, 320, 325)
        row |= {name: dict(known).get(key) for name, key in zip(
            ("destination", "properties"), ("b", "i") if letters else ("topic", "properties"), strict=True
        )}  # fmt: skip
    return row


#: Fields of headers that have a column of their own, whatever the header is; of several the first that is there. `-`: of
#: the message table, the others of the struct.
COLUMNS = {
    "-destination": ("topic",), "-consumer_group": ("consumerGroup", "group"), "-message_id": ("msgId",),
    "producer_group": ("producerGroup",), "broker_name": ("bname", "brokerName"), "queue_id": ("queueId",),
    "queue_offset": ("queueOffset", "offset", "commitOffset"), "physical_offset": ("commitLogOffset",),
    "sys_flag": ("sysFlag",), "message_flag": ("flag",), "born_timestamp": ("bornTimestamp",),
    "store_timestamp": ("storeTimestamp",), "reconsume_times": ("reconsumeTimes",),
    "transaction_id": ("transactionId",), "subscription": ("subscription",),
    "next_begin_offset": ("nextBeginOffset",), "min_offset": ("minOffset",), "max_offset": ("maxOffset",),
}  # fmt: skip
TYPES = {c.name: c.type for c in columns.FIELDS}
#: Properties of a message that have a column of their own.
PROPERTIES = {
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
    names = [tuple(n for n in names if n in fields) for names in COLUMNS.values()]
    return command.code not in (34, 35, 320) and all(len(n) < 2 for n in names)


def whole(value: str | None, type_: str) -> int | None:
    """The number of a field that is one and for which the column has space."""
    if (
        value is None
        or not value.removeprefix("-").isdigit()
        or not value.isascii()
        or len(value) > 19 + (value[0] == "-")
    ):
        return None
    top = 2**31 if type_ == "int32" else 2**63
    return int(value) if -top <= int(value) < top else None


def row(command: Any, direction: int) -> Row:
    row: Row = {
        "version": spec.VERSIONS.get(command.version, str(command.version)),
        "sequence": command.opaque,
    }
    fields: Row = {"code": command.code, "flag": command.flag, "oneway": command.is_oneway and not command.is_response}
    fields |= {"language": command.language, "serialize_type": command.serialize_type, "remark": command.remark}
    row["rocketmq"] = fields
    if command.is_response:
        row |= {"kind": "RESPONSE", "code": command.code}
    else:
        row["kind"] = kind = KINDS.get(command.code, str(command.code))
        row["operation"] = columns.OPERATIONS.get(kind, ("manage", "manage"))[0]
    header = {}
    if command.ext_fields is not None:
        header = {k: v for k, v in command.ext_fields.items() if k is not None and v is not None}
        fields["ext_fields"] = Fields(list(header.items()))
        if not command.is_response and command.code in (310, 320, 325):
            letters = spec.SEND_MESSAGE_V2_LETTERS
            header = {letters.get(k, k): v for k, v in header.items() if len(k) == 1} | {
                k: v for k, v in header.items() if len(k) > 1
            }
    for name, value in properties_of(header.get("properties")):
        row.setdefault("headers", []).append((name, value))
        put(row, fields, PROPERTIES.get(name), value)
    for place, names in COLUMNS.items():
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
        put(row, fields, PROPERTIES.get(name), value)
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
    elif TYPES.get(name, "").startswith("int"):
        cell = whole(value, TYPES[name])
    into = row if place.startswith("-") else fields
    if into.get(name) is None:
        into[name] = cell


def properties_of(found: str | None) -> list[tuple[str, str]]:
    """name 0x01 value 0x02 ...; the last may lack its end."""
    items = [item.split("\x01", 1) for item in (found or "").split("\x02")]
    return [(item[0], item[1]) for item in items if len(item) == 2]


def opening(version: int) -> bytes:
    """What a client says first."""
    return b""
