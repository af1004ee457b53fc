"""What every column says of PHPMQ's messages. See lib/columns.py."""

from __future__ import annotations

from typing import Any

from lib.column_values import Row, text
from wirefmt.phpmq import columns


def struct_of(message: Any) -> Row:
    fields = {"message_type": message.message_type, "packet_count": len(message.packets)}
    fields |= {"message_count": number_of(message, 4, "message_count"), "ttl": number_of(message, 5, "ttl")}
    fields["line_broken"] = any(octet in message.encode()[:20] for octet in b"\r\n")
    return fields


def number_of(message: Any, kind: int, name: str) -> Any:
    """A field, or the number in its packet where the type of the message is unknown."""
    content = packet(message, kind)
    if content is None or hasattr(message, name) or not content.removeprefix(b"-").isdigit():
        return getattr(message, name, None)
    return int(content)


def row(message: Any, direction: int) -> Row:
    row: Row = {"version": "01" if message.version == 1 else None, "kind": message.kind or None}
    row |= {"operation": columns.OPERATIONS.get(message.kind), "phpmq": struct_of(message)}
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


def batch_row(message: Any) -> Row:
    row: Row = {"kind": message.kind, "destination": text(queue_name(message)), "message_id": text(packet(message, 3))}
    return row | {"payload": packet(message, 2), "phpmq": struct_of(message)}


def opening(version: int) -> bytes:
    """What a client says first."""
    return b""
