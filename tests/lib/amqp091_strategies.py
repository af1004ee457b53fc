"""Hypothesis strategies of AMQP 0.9.1: field values of every type, tables, properties, methods, messages, streams."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any, cast

from hypothesis import strategies as st

from wirefmt import amqp091
from wirefmt.amqp091 import spec

METHODS = [(c, m) for c in spec.CLASSES for m in c.methods]


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def class_of(c: spec.Class, m: spec.Method) -> type[amqp091.Method]:
    found: type[amqp091.Method] = getattr(amqp091, camel(c.name) + camel(m.name))
    return found


text = st.text(max_size=20)
shortstr = st.text(max_size=60).filter(lambda s: len(s.encode()) <= 255) | st.sampled_from(["", "x" * 255, "amq.topic"])


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high) | st.sampled_from([low, high, 0, 1])


def narrow(value: float) -> float:
    (out,) = struct.unpack(">f", struct.pack(">f", value))
    return float(out)


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "t": st.booleans(),
    "b": integers(8, True),
    "B": integers(8, False),
    "s": integers(16, True),
    "u": integers(16, False),
    "I": integers(32, True),
    "i": integers(32, False),
    "l": integers(64, True),
    "L": integers(64, True),
    "f": st.floats(width=32, allow_nan=False),
    "d": st.floats(allow_nan=False),
    "D": st.builds(
        lambda n, scale: Decimal((0, tuple(map(int, str(n))), -scale)), integers(32, False), st.integers(0, 255)
    ),
    "S": text | st.binary(max_size=20),
    "T": integers(64, False),
    "V": st.none(),
    "x": st.binary(max_size=20),
}
scalars = st.one_of([st.builds(amqp091.FieldValue, st.just(letter), values) for letter, values in SCALARS.items()])
names = st.text(max_size=12) | st.binary(max_size=12)
values = st.recursive(
    scalars,
    lambda inner: (
        st.builds(amqp091.FieldValue, st.just("F"), st.lists(st.tuples(names, inner), max_size=4))
        | st.builds(amqp091.FieldValue, st.just("A"), st.lists(inner, max_size=4))
    ),
    max_leaves=12,
)
tables = st.builds(amqp091.FieldTable, st.lists(st.tuples(names, values), max_size=6))

#: What people write: values of plain Python types.
plain = st.recursive(
    st.none() | st.booleans() | integers(64, True) | st.floats(allow_nan=False) | text | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
plain_tables = st.dictionaries(st.text(max_size=12), plain, max_size=6)

ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": integers(8, False),
    "short": integers(16, False),
    "long": integers(32, False),
    "longlong": integers(64, False),
    "timestamp": integers(64, False),
    "shortstr": shortstr,
    "longstr": st.binary(max_size=40),
    "table": tables,
}
channels = st.integers(1, 65535) | st.integers(1, 3)


@st.composite
def methods(draw: st.DrawFn, content: bool | None = None) -> amqp091.Method:
    c, m = draw(st.sampled_from([(c, m) for c, m in METHODS if content in (None, m.content)]))
    given = {a.name: draw(ARGUMENTS[a.type]) for a in m.arguments}
    kind: Any = class_of(c, m)
    return cast(amqp091.Method, kind(channel=0 if c.name == "connection" else draw(channels), **given))


@st.composite
def properties(draw: st.DrawFn) -> amqp091.BasicProperties:
    given = draw(st.fixed_dictionaries({}, optional={p.name: ARGUMENTS[p.type] for p in spec.PROPERTIES}))
    return amqp091.BasicProperties(**given)


headers = st.builds(
    lambda channel, size, p: amqp091.ContentHeader(channel=channel, body_size=size, properties=p),
    channels,
    integers(64, False),
    properties(),
)
bodies = st.builds(
    lambda channel, payload: amqp091.Body(channel=channel, payload=payload), channels, st.binary(max_size=50)
)
frames = methods() | headers | bodies | st.builds(amqp091.Heartbeat) | st.builds(amqp091.ProtocolHeader)


@st.composite
def messages(draw: st.DrawFn) -> amqp091.BasicMessage:
    frame_max = draw(st.integers(9, 40))
    return amqp091.BasicMessage(
        draw(methods(content=True)), draw(properties()), draw(st.binary(max_size=100)), frame_max=frame_max
    )


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Any], bytes]:
    """Messages on several channels and what they are as one stream, frames of different channels shuffled."""
    wanted = draw(st.lists(messages() | methods(content=False) | st.builds(amqp091.Heartbeat), max_size=8))
    waiting: dict[int, list[tuple[bytes, Any]]] = {}
    for message in wanted:
        queue = waiting.setdefault(message.channel, [])
        parts = cut(message.encode())
        queue += [(part, None) for part in parts[:-1]]
        queue.append((parts[-1], message))
    octets, complete = b"", []
    while waiting:
        channel = draw(st.sampled_from(sorted(waiting)))
        part, message = waiting[channel].pop(0)
        octets += part
        if message is not None:
            complete.append(message)
        if not waiting[channel]:
            del waiting[channel]
    return complete, octets


def cut(octets: bytes) -> list[bytes]:
    out = []
    while octets:
        size = struct.unpack(">I", octets[3:7])[0] + 8
        out.append(octets[:size])
        octets = octets[size:]
    return out
