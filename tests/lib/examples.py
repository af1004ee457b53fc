"""Objects of every class that the public vectors have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lib.paths import VECTORS
from lib.protocols import MODULES
from wirefmt import amqp091, amqp10, rocketmq
from wirefmt.errors import WireError

#: What a constructor raises for what cannot be.
REFUSED = (WireError, TypeError, ValueError, OverflowError, AttributeError, LookupError)


def read(protocol: str, row: dict[str, Any], octets: bytes) -> Iterator[Any]:
    module = MODULES[protocol]
    if row.get("kind") == "message" and protocol == "amqp10":
        yield amqp10.decode_message(octets)
    elif row.get("kind") == "table":
        yield amqp091.FieldTable.decode(octets)
    elif row.get("kind") == "properties":
        yield amqp091.BasicProperties.decode(octets)
    elif row.get("kind") == "stored-message":
        yield from rocketmq.decode_messages(octets)
    elif row.get("kind") == "sequence":
        yield from (
            module.Assembler(frame_max=0).feed(octets) if protocol == "amqp091" else module.Decoder().feed(octets)
        )
    else:
        yield module.decode(octets, **({"version": row["version"]} if protocol == "mqtt" else {}))


def parts(value: Any) -> Iterator[Any]:
    """Objects of the package: one, and those it is made of."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from parts(item)
    elif type(value).__module__.startswith("wirefmt") and getattr(type(value), "__match_args__", False):
        yield value
        for name in type(value).__match_args__:
            yield from parts(getattr(value, name))


def examples(protocol: str, most: int = 6) -> dict[type, list[Any]]:
    """Classes, and so many objects of each."""
    found: dict[type, list[Any]] = {}
    with open(VECTORS / protocol / "public.jsonl", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            octets = bytes.fromhex(row.get("hex") or "")
            if not 0 < len(octets) < 2000:
                continue
            try:
                messages = list(read(protocol, row, octets))
            except REFUSED:
                continue
            for one in parts(messages):
                kept = found.setdefault(type(one), [])
                if len(kept) < most and one not in kept:
                    kept.append(one)
    return found
