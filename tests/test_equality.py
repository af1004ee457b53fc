"""Messages are equal if all of their fields are: one that differs in a field differs, and its repr says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import VECTORS

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.errors import WireError

MODULES = {"mqtt": mqtt, "amqp091": amqp091, "amqp10": amqp10, "nsq": nsq, "phpmq": phpmq, "rocketmq": rocketmq}
PER_CLASS = 6
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
        yield from module.Assembler(frame_max=0).feed(octets) if protocol == "amqp091" else module.Decoder().feed(octets)
    else:
        yield module.decode(octets, **({"version": row["version"]} if protocol == "mqtt" else {}))


def parts(value: Any) -> Iterator[Any]:
    """Objects of the package: one, and those it is made of."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from parts(item)
    elif type(value).__module__.startswith("wirefmt") and getattr(type(value), "__match_args__", ()):
        yield value
        for name in type(value).__match_args__:
            yield from parts(getattr(value, name))


def examples(protocol: str) -> dict[type, list[Any]]:
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
                if len(kept) < PER_CLASS and one not in kept:
                    kept.append(one)
    return found


def others(value: Any) -> list[Any]:
    """Values near one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [type(value)(n) for n in (max(value, 1) - 1, value ^ 2, value >> 1)]
    if isinstance(value, str):
        return [type(value)(value + "x"), type(value)("")]
    if isinstance(value, (bytes, memoryview)):
        return [bytes(value) + b"x", b""]
    return [()] if isinstance(value, tuple) else [None]


def variants(one: Any) -> Iterator[tuple[str, Any]]:
    """The same with another field each."""
    fields = {name: getattr(one, name) for name in type(one).__match_args__}
    for name, value in fields.items():
        for other in [*others(value), *((True, 1, "x", b"x") if value is None else ())]:
            try:
                yield name, type(one)(**fields | {name: other})
            except REFUSED:
                continue


@pytest.mark.parametrize("protocol", MODULES)
def test_what_differs_in_a_field_differs(protocol: str) -> None:
    compared = 0
    for cls, messages in examples(protocol).items():
        for one in messages:
            for name, other in variants(one):
                if getattr(one, name) == getattr(other, name) or one != one:  # NaN is in it
                    continue
                assert one != other, f"{cls.__name__}.{name}: {one!r}, {other!r}"
                assert repr(one) != repr(other) or "more'" in repr(one) or "***" in repr(one), f"{cls.__name__}.{name}"
                compared += 1
    assert compared > {"nsq": 30, "phpmq": 20}.get(protocol, 150), compared


@pytest.mark.parametrize("protocol", MODULES)
def test_what_is_the_same_in_all_fields_is_the_same(protocol: str) -> None:
    compared = 0
    for messages in examples(protocol).values():
        for one in messages:
            try:
                again = type(one)(**{name: getattr(one, name) for name in type(one).__match_args__})
            except REFUSED:
                continue  # what was read cannot always be written
            if one == one and type(one) is not amqp091.FieldTable:
                assert again == one
                assert hash(again) == hash(one)
                assert repr(again) == repr(one) or protocol == "rocketmq"  # its header has names in another order
                compared += 1
    assert compared > 10, compared
