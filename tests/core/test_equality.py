"""Messages are equal if all of their fields are: one that differs in a field differs, and its repr says so."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.examples import REFUSED, examples
from lib.protocols import MODULES
from wirefmt import amqp091, amqp10


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


KINDS: dict[str, Any] = {
    "symbol": lambda n: amqp10.Symbol(f"s{n}"), "string": lambda n: f"s{n}", "binary": lambda n: b"b%d" % n,
    "uuid": lambda n: uuid.UUID(int=n << 64 | 5), "end of a uuid": lambda n: uuid.UUID(int=5 << 64 | n),
    "decimal32": lambda n: amqp10.Decimal32(n.to_bytes(4, "big")),
    "decimal64": lambda n: amqp10.Decimal64(n.to_bytes(8, "little")),
    "decimal128": lambda n: amqp10.Decimal128(bytes(4) + n.to_bytes(4, "big") + bytes(8)),
    "end of a decimal128": lambda n: amqp10.Decimal128(n.to_bytes(16, "big")),
    "end of a string": lambda n: f"a string {n}", "end of a binary": lambda n: b"a binary %d" % n,
    "end of a symbol": lambda n: amqp10.Symbol(f"a symbol {n}"),
    "char": lambda n: amqp10.Char(chr(0x4E00 + n)), "timestamp": amqp10.Timestamp, "double": lambda n: n / 7,
    "float": lambda n: amqp10.Float(n), "int": lambda n: amqp10.Int(-n), "long": lambda n: -n, "uint": amqp10.UInt,
    "ulong": amqp10.ULong, "ushort": amqp10.UShort, "short": lambda n: amqp10.Short(-n), "list": lambda n: [n],
    "map": lambda n: {"k": n}, "array": lambda n: amqp10.Array("uint", [n]),
    "described": lambda n: amqp10.Described(amqp10.ULong(n), None), "value": lambda n: amqp10.Described(amqp10.ULong(5), n),
    "composite": lambda n: amqp10.Source(address=f"a{n}"),
}  # fmt: skip


#: A list is hashed by its items, as objects of Python; a composite by its octets.
HOLDERS: list[Callable[[Any], Any]] = [
    lambda value: amqp10.List([value]),
    lambda value: amqp10.Source(filter={amqp10.Symbol("f"): value}),
]


@pytest.mark.parametrize("holder", HOLDERS, ids=["list", "composite"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_is_spread_over_hashes(kind: str, holder: Callable[[Any], Any]) -> None:
    """What is looked up by hash takes linear time."""
    values = [holder(KINDS[kind](n)) for n in range(200)]
    assert len({hash(value) for value in values}) >= 199  # those of -1 and -2 are the same in Python
    assert len(set(values)) == 200
