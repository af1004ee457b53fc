"""The tables of wirefmt.amqp091.spec against those of pamqp and pika, and against themselves."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lib.kinds import checked
from wirefmt import amqp091
from wirefmt.amqp091 import spec

METHODS = [(c, m) for c in spec.CLASSES for m in c.methods]
#: Reserved arguments for which pamqp writes "0"; RabbitMQ and pika leave them empty.
PAMQP_DEFAULTS = {"out_of_band": "0", "channel_id": "0"}


def label(c: spec.Class, m: spec.Method) -> str:
    return f"{c.name}.{m.name}"


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def test_counts() -> None:
    assert len(spec.CLASSES) == 8
    assert len(METHODS) == 66
    assert len(spec.PROPERTIES) == 14
    assert len(spec.FIELD_TYPES) == 18
    assert len(spec.REPLY_CODES) == 19


def test_nothing_twice() -> None:
    for values in (
        [(c.id, m.id) for c, m in METHODS],
        [label(c, m) for c, m in METHODS],
        [p.bit for p in spec.PROPERTIES],
        [p.name for p in spec.PROPERTIES],
        [t.letter for t in spec.FIELD_TYPES],
        [r.code for r in spec.REPLY_CODES],
        [r.name for r in spec.REPLY_CODES],
        [c.name for c in spec.CHECKS],
        list(spec.FIELDS),
    ):
        assert len(set(values)) == len(values)


def test_properties_are_the_upper_fourteen_bits_in_order() -> None:
    assert [p.bit for p in spec.PROPERTIES] == list(range(15, 1, -1))
    assert sum(1 << p.bit for p in spec.PROPERTIES) | spec.PROPERTY_FLAGS_UNASSIGNED == 0xFFFF


def test_responses_exist_and_come_from_the_other_side() -> None:
    other = {"client": "server", "server": "client", "both": "both"}
    for c in spec.CLASSES:
        methods = {m.name: m for m in c.methods}
        for m in c.methods:
            for name in m.responses:
                assert methods[name].senders == other[m.senders]


@pytest.mark.parametrize(("c", "m"), METHODS, ids=[label(c, m) for c, m in METHODS])
def test_a_class_for_each_method(c: spec.Class, m: spec.Method) -> None:
    found: Any = getattr(amqp091, camel(c.name) + camel(m.name))
    assert found.__match_args__ == ("channel", *(a.name for a in m.arguments))
    assert issubclass(found, amqp091.Method)
    assert found.__doc__.startswith(f"{c.name}.{m.name} (")
    assert f"{found.__module__}.{found.__qualname__}" == f"wirefmt.amqp091.{camel(c.name)}{camel(m.name)}"
    example = {"shortstr": "x", "longstr": b"x", "table": {}, "bit": True}
    required = {a.name: example.get(a.type, 1) for a in m.arguments if a.default is None}
    made = found(channel=0 if c.name == "connection" else 1, **required)
    assert (made.name, made.ids, made.has_content) == (label(c, m), (c.id, m.id), m.content)
    assert made.synchronous == bool(m.responses)
    for a in m.arguments:
        assert getattr(made, a.name) == required.get(a.name, a.default), a.name
    if required:
        with pytest.raises(TypeError):
            found(channel=1)


# ---- pamqp


@pytest.mark.parametrize(("c", "m"), METHODS, ids=[label(c, m) for c, m in METHODS])
def test_method_as_pamqp_has_it(c: spec.Class, m: spec.Method) -> None:
    commands = pytest.importorskip("pamqp.commands", reason="needs pamqp (pip install pamqp)")
    index = c.id << 16 | m.id
    if c.name == "access":
        assert index not in commands.INDEX_MAPPING
        return
    theirs = commands.INDEX_MAPPING[index]
    assert theirs.name == f"{camel(c.name)}.{camel(m.name)}"
    names = [a.name for a in m.arguments]
    types = {a: theirs.amqp_type(a) for a in theirs.attributes()}
    assert [n if n in types else n.replace("type", "exchange_type") for n in names] == list(types)
    assert [a.type for a in m.arguments] == list(types.values())
    assert theirs.synchronous == bool(m.responses)
    answers = [f"{camel(c.name)}.{camel(r)}" for r in m.responses]
    assert list(theirs.valid_responses) == answers
    given = inspect.signature(theirs.__init__).parameters
    for a, name in zip(m.arguments, types, strict=True):
        default: Any = given[name].default
        if a.default is None or a.type == "table":
            assert default in (None, "", {}), f"{a.name}: {default!r}"
        elif a.name in PAMQP_DEFAULTS:
            assert (default, a.default) in ((PAMQP_DEFAULTS[a.name], ""), (PAMQP_DEFAULTS[a.name], b""))
        elif a.type == "longstr":
            assert (default or "") == str(checked(a.default, bytes), "ascii")
        else:
            assert (default or type(a.default)()) == a.default, a.name


def test_every_method_of_pamqp_is_here() -> None:
    commands = pytest.importorskip("pamqp.commands", reason="needs pamqp (pip install pamqp)")
    assert set(commands.INDEX_MAPPING) <= {c.id << 16 | m.id for c, m in METHODS}


def test_properties_as_pamqp_has_them() -> None:
    commands = pytest.importorskip("pamqp.commands", reason="needs pamqp (pip install pamqp)")
    theirs = commands.Basic.Properties
    assert {n.replace("message_type", "type"): flag for n, flag in theirs.flags.items()} == {
        p.name: 1 << p.bit for p in spec.PROPERTIES
    }
    assert [theirs.amqp_type(a) for a in theirs.attributes()] == [p.type for p in spec.PROPERTIES]


def test_reply_codes_as_pamqp_has_them() -> None:
    exceptions = pytest.importorskip("pamqp.exceptions", reason="needs pamqp (pip install pamqp)")
    ours = {r.code: r for r in spec.REPLY_CODES if r.kind != "success"}
    assert {code: e.__name__.removeprefix("AMQP") for code, e in exceptions.CLASS_MAPPING.items()} == {
        code: camel(r.name) for code, r in ours.items()
    }
    hard = {code for code, e in exceptions.CLASS_MAPPING.items() if issubclass(e, exceptions.AMQPHardError)}
    assert hard == {code for code, r in ours.items() if r.kind == "hard"}


# ---- pika


@pytest.mark.parametrize(("c", "m"), METHODS, ids=[label(c, m) for c, m in METHODS])
def test_method_as_pika_has_it(c: spec.Class, m: spec.Method) -> None:
    pika = pytest.importorskip("pika.spec", reason="needs pika (pip install pika)")
    theirs = pika.methods[c.id << 16 | m.id]
    assert f"{camel(c.name)}.{camel(m.name)}" == theirs.NAME
    parameters = list(inspect.signature(theirs.__init__).parameters.values())[1:]
    renamed = {"global_qos": "global_"}
    assert [renamed.get(p.name, p.name) for p in parameters] == [a.name for a in m.arguments]
    made = theirs(**{p.name: 1 for p in parameters})
    assert made.synchronous == bool(m.responses)
    assert (theirs in (pika.Basic.Publish, pika.Basic.Return, pika.Basic.Deliver, pika.Basic.GetOk)) == m.content
    assert pika.has_content(theirs.INDEX) == m.content


def test_every_method_of_pika_is_here() -> None:
    pika = pytest.importorskip("pika.spec", reason="needs pika (pip install pika)")
    assert set(pika.methods) == {c.id << 16 | m.id for c, m in METHODS}


def test_constants_as_pika_has_them() -> None:
    pika = pytest.importorskip("pika.spec", reason="needs pika (pip install pika)")
    for row in spec.REPLY_CODES:
        assert getattr(pika, row.name.replace("-", "_").upper()) == row.code
    for number, name in spec.FRAME_TYPES.items():
        assert getattr(pika, f"FRAME_{name.upper()}") == number
    assert (pika.FRAME_END, pika.FRAME_MAX_SIZE, pika.FRAME_MIN_SIZE) == (
        spec.FRAME_END,
        spec.FRAME_MAX_DEFAULT,
        spec.FRAME_MIN,
    )
    flags = {n.removeprefix("FLAG_").lower(): v for n, v in vars(pika.BasicProperties).items() if n.startswith("FLAG_")}
    assert flags == {p.name: 1 << p.bit for p in spec.PROPERTIES}


# ---- RabbitMQ


def test_capabilities_as_a_server_sends_them() -> None:
    """Of the vectors: a table of a real server's handshake."""
    from lib.amqp091_vectors import load

    (vector,) = [v for v in load() if v.rule == "server-properties"]
    capabilities = amqp091.FieldTable.decode(vector.octets)["capabilities"]
    assert capabilities == {"per_consumer_qos": True, "direct_reply_to": True}
    assert {name for name, sides in spec.CAPABILITIES.items() if sides == ("server",)} > set(capabilities)
