"""What every column says of NSQ's commands and frames. See lib/columns.py."""

from __future__ import annotations

from typing import Any

from lib.column_values import Row, text
from wirefmt import nsq
from wirefmt.nsq import columns

IN_JSON = [c.name for c in columns.FIELDS]
IN_JSON = IN_JSON[IN_JSON.index("hostname") : IN_JSON.index("permission_count") + 1]
TYPES = {c.name: {"string": str, "boolean": bool, "int64": int}.get(c.type) for c in columns.FIELDS}


def struct_of(message: Any) -> Row:
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
        if place in IN_JSON and type(value) is TYPES[place]:
            fields[place] = value if type(value) is not int or -(2**63) <= value < 2**63 else None
    return fields


def row(message: Any, direction: int) -> Row:
    row: Row = {"version": "V2", "kind": message.kind, "operation": columns.OPERATIONS.get(message.kind)}
    row["nsq"] = struct_of(message)
    if message.kind == "response" and message.is_heartbeat:
        row["operation"] = columns.OPERATIONS["heartbeat"]
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


def batch_row(message: Any) -> Row:
    row: Row = {"kind": message.kind, "nsq": struct_of(message)}
    row |= {
        "destination": text(getattr(message, "topic", None)),
        "consumer_group": text(getattr(message, "channel", None)),
    }
    row["message_id"] = getattr(message, "message_id", None)
    if message.kind == "message":
        row |= {"timestamp_ns": message.timestamp, "attempts": message.attempts}
    if message.kind in ("message", "PUB", "DPUB"):
        row["payload"] = message.body_bytes()
    return row


def opening(version: int) -> bytes:
    """What a client says first."""
    return b"  V2"
