"""Both ways with pika, pamqp and py-amqp: what wirefmt writes they read as it was meant, and the other way round, for every
method, every property and every type of field value.

Where a peer is known to read or write a type otherwise, `DIFFERS` says so.
"""

from __future__ import annotations

import datetime
import math
import struct
import warnings
from decimal import Decimal
from typing import Any

import pytest

from wirefmt import amqp091
from wirefmt.amqp091 import spec

METHODS = [(c, m) for c in spec.CLASSES for m in c.methods]
IDS = [f"{c.name}.{m.name}" for c, m in METHODS]
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 45, tzinfo=datetime.UTC)

#: A table of what all clients write the same way.
PLAIN: dict[str, Any] = {
    "x-max-length": 1000,
    "x-queue-type": "quorum",
    "x-single-active-consumer": True,
    "x-void": None,
}
#: A value of each type of argument.
SAMPLES: dict[str, Any] = {
    "bit": True,
    "octet": 200,
    "short": 60000,
    "long": 4_000_000_000,
    "longlong": 2**63 - 1,
    "shortstr": "naïve-name",
    "longstr": b"PLAIN AMQPLAIN",
    "table": PLAIN,
}


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def ours(c: spec.Class, m: spec.Method) -> amqp091.Method:
    cls = getattr(amqp091, camel(c.name) + camel(m.name))
    made: amqp091.Method = cls(
        channel=0 if c.name == "connection" else 7, **{a.name: SAMPLES[a.type] for a in m.arguments}
    )
    return made


def as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


# ---- pika


@pytest.mark.parametrize(("c", "m"), METHODS, ids=IDS)
def test_methods_with_pika(c: spec.Class, m: spec.Method) -> None:
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    mine = ours(c, m)
    names = {"global_": "global_qos"}
    values = {names.get(a.name, a.name): as_text(SAMPLES[a.type]) for a in m.arguments}
    theirs = pika.spec.methods[c.id << 16 | m.id](**values)
    assert pika.frame.Method(mine.channel, theirs).marshal() == mine.encode()
    if m.name == "update-secret":
        with pytest.raises(TypeError):
            pika.frame.decode_frame(mine.encode())
        return
    used, frame = pika.frame.decode_frame(mine.encode())
    assert used == len(mine.encode())
    assert (frame.channel_number, type(frame.method)) == (mine.channel, type(theirs))
    for a in m.arguments:
        got = getattr(frame.method, names.get(a.name, a.name))
        if a.type == "longstr":
            got = got if isinstance(got, bytes) else eval(got) if got[:2] == "b'" else got.encode()
        assert got == SAMPLES[a.type], a.name


def test_content_with_pika() -> None:
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    values = {p.name: SAMPLES.get(p.type, 1_700_000_000) for p in spec.PROPERTIES}
    theirs = pika.spec.BasicProperties(**values)
    header = pika.frame.Header(7, 5, theirs).marshal()
    mine = amqp091.ContentHeader(channel=7, body_size=5, properties=amqp091.BasicProperties(**values))
    assert header == mine.encode()
    _, frame = pika.frame.decode_frame(mine.encode())
    assert frame.body_size == 5
    for name, value in values.items():
        assert getattr(frame.properties, name) == value == getattr(mine.properties, name), name
    body = pika.frame.Body(7, b"12345").marshal()
    assert body == amqp091.Body(channel=7, payload=b"12345").encode()
    assert pika.frame.decode_frame(body)[1].fragment == b"12345"
    assert pika.frame.Heartbeat().marshal() == amqp091.Heartbeat().encode()
    assert pika.frame.ProtocolHeader().marshal() == amqp091.ProtocolHeader().encode()


# ---- pamqp


#: What pamqp insists on: it refuses other values of arguments that are reserved.
PAMQP_SAMPLES: dict[str, Any] = {
    "ticket": 0,
    "capabilities": "",
    "insist": False,
    "known_hosts": "",
    "out_of_band": "0",
    "channel_id": b"0",
    "internal": False,
    "cluster_id": "",
}


@pytest.mark.parametrize(("c", "m"), METHODS, ids=IDS)
def test_methods_with_pamqp(c: spec.Class, m: spec.Method) -> None:
    commands = pytest.importorskip("pamqp.commands", reason="needs pamqp (pip install pamqp)")
    from pamqp import frame

    if c.name == "access":
        assert c.id << 16 | m.id not in commands.INDEX_MAPPING
        return
    cls = commands.INDEX_MAPPING[c.id << 16 | m.id]
    values = {a.name: PAMQP_SAMPLES.get(a.name, SAMPLES[a.type]) for a in m.arguments}
    values |= {a.name: "plain-name" for a in m.arguments if a.type == "shortstr" and a.name not in PAMQP_SAMPLES}
    mine = getattr(amqp091, camel(c.name) + camel(m.name))(channel=0 if c.name == "connection" else 7, **values)
    renamed = dict(zip((a.name for a in m.arguments), cls.attributes(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        used, channel, theirs = frame.unmarshal(mine.encode())
        made = cls(**{renamed[name]: as_text(value) for name, value in values.items()})
    assert (used, channel, type(theirs)) == (len(mine.encode()), mine.channel, cls)
    for name, value in values.items():
        assert getattr(theirs, renamed[name]) == as_text(value), name
    written = amqp091.decode(frame.marshal(made, mine.channel))
    assert type(written) is type(mine)
    for name, value in values.items():
        assert getattr(written, name) == value, name


def test_content_with_pamqp() -> None:
    pytest.importorskip("pamqp", reason="needs pamqp (pip install pamqp)")
    from pamqp import body, commands, frame, header, heartbeat

    values = {p.name: SAMPLES.get(p.type, MOMENT) for p in spec.PROPERTIES} | {"delivery_mode": 2}
    del values["cluster_id"]  # pamqp wants it empty
    mine = amqp091.ContentHeader(channel=7, body_size=5, properties=amqp091.BasicProperties(**values))
    renamed = {"message_type" if n == "type" else n: v for n, v in values.items()}
    octets = frame.marshal(header.ContentHeader(0, 5, commands.Basic.Properties(**renamed)), 7)
    read = amqp091.decode(octets)
    _, _, theirs = frame.unmarshal(mine.encode())
    assert theirs.body_size == read.body_size == 5
    for name, value in renamed.items():
        assert getattr(theirs.properties, name) == value, name
    for name, value in values.items():
        assert getattr(read.properties, name) == (MOMENT.timestamp() if name == "timestamp" else value), name
    assert frame.marshal(body.ContentBody(b"12345"), 7) == amqp091.Body(channel=7, payload=b"12345").encode()
    assert frame.marshal(heartbeat.Heartbeat(), 0) == amqp091.Heartbeat().encode()


# ---- py-amqp

#: py-amqp's letters for types of arguments.
PY_AMQP = {
    "bit": "b",
    "octet": "o",
    "short": "B",
    "long": "l",
    "longlong": "L",
    "shortstr": "s",
    "longstr": "S",
    "table": "F",
    "timestamp": "T",
}


@pytest.mark.parametrize(("c", "m"), METHODS, ids=IDS)
def test_arguments_with_py_amqp(c: spec.Class, m: spec.Method) -> None:
    serialization = pytest.importorskip("amqp.serialization", reason="needs py-amqp (pip install amqp)")
    mine = ours(c, m)
    arguments = mine.encode()[11:-1]
    form = "".join(PY_AMQP[a.type] for a in m.arguments)
    values = [SAMPLES[a.type] for a in m.arguments]
    assert serialization.dumps(form, values) == arguments
    read, used = serialization.loads(form, arguments, 0)
    assert [as_text(v) for v in read] == [as_text(v) for v in values]
    assert used == len(arguments)


def test_properties_with_py_amqp() -> None:
    pytest.importorskip("amqp", reason="needs py-amqp (pip install amqp)")
    from amqp.basic_message import Message

    values = {p.name: SAMPLES.get(p.type, 1_700_000_000) for p in spec.PROPERTIES}
    message = Message(body=b"", **{n: v for n, v in values.items() if n != "headers"}, application_headers=PLAIN)
    theirs = message._serialize_properties()
    mine = amqp091.BasicProperties(**values)
    assert theirs == mine.encode()
    read = Message()
    read._load_properties(60, mine.encode(), 0)
    for name, value in values.items():
        got = read.properties["application_headers" if name == "headers" else name]
        assert got == value, name


# ---- types of field values

NUMBERS: dict[str, list[Any]] = {
    "t": [True, False],
    "b": [-128, -1, 127],
    "B": [0, 255],
    "s": [-(2**15), 2**15 - 1],
    "u": [0, 2**16 - 1],
    "I": [-(2**31), -1, 2**31 - 1],
    "i": [0, 2**32 - 1],
    "l": [-(2**63), -1, 2**63 - 1],
    "L": [-(2**63), -1, 2**63 - 1],
    "d": [0.1, -1e300, math.inf],
    "f": [1.5, -0.25],
    "T": [MOMENT],
    "D": [Decimal("123.45"), Decimal(0)],
    "S": ["text", "日本"],
    "x": [b"\x00\xff"],
    "V": [None],
    "F": [{"k": "v", "n": {"deep": 1}}],
    "A": [["v", 1, ["w"]]],
}
#: letter -> peers that read it otherwise than RabbitMQ does.
DIFFERS = {"f": {"pika"}, "d": {"pika"}}


def readers() -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        import pika.data

        found["pika"] = lambda octets: pika.data.decode_table(octets, 0)[0]
    except ImportError:
        pass
    try:
        import pamqp.decode

        found["pamqp"] = lambda octets: pamqp.decode.field_table(octets)[1]
    except ImportError:
        pass
    try:
        from amqp import serialization

        found["py-amqp"] = lambda octets: serialization.loads("F", octets, 0)[0][0]
    except ImportError:
        pass
    return found


def plainly(value: Any) -> Any:
    """Values of different readers, comparable: moments in UTC, octets as bytes, containers as dict and list."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC)
    if isinstance(value, amqp091.Timestamp):
        return value.to_datetime()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (dict, amqp091.FieldTable)):
        return {k: plainly(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, amqp091.FieldArray)):
        return [plainly(v) for v in value]
    return value


@pytest.mark.parametrize("letter", NUMBERS)
def test_peers_read_every_type(letter: str) -> None:
    found = readers()
    if not found:
        pytest.skip("needs pika, pamqp or py-amqp (pip install pika pamqp amqp)")
    for value in NUMBERS[letter]:
        table = amqp091.FieldTable({"key": amqp091.FieldValue(letter, value), "behind": 7})
        for name, read in found.items():
            if math.inf in (value,) and name == "pika":
                continue  # it raises: its float becomes an int
            theirs = read(table.encode())
            assert theirs["behind"] == 7, f"{name} loses its place behind {letter}"
            if name in DIFFERS.get(letter, ()):
                assert theirs["key"] == int(value)
            else:
                assert plainly(theirs["key"]) == plainly(value), f"{name} reads {letter} as {theirs['key']!r}"


def test_tables_of_pika_are_read() -> None:
    data = pytest.importorskip("pika.data", reason="needs pika (pip install pika)")
    written: dict[str, Any] = {
        **PLAIN,
        "bytes": b"\x00\xff",
        "long": 2**40,
        "own long": data.long(5),
        "decimal": Decimal("123.45"),
        "time": MOMENT.replace(tzinfo=None),
        "table": {"a": {"b": 1}},
        "list": [1, "two", [3]],
    }
    pieces: list[bytes] = []
    data.encode_table(pieces, written)
    table = amqp091.FieldTable.decode(b"".join(pieces))
    assert plainly(table) == plainly(written)
    assert [letter for _, letter, _ in table.entries] == list("IStVxllDTFA")
    assert amqp091.FieldTable(written | {"own long": amqp091.FieldValue("l", 5), "time": MOMENT}) == table


def test_tables_of_pamqp_are_read() -> None:
    encode = pytest.importorskip("pamqp.encode", reason="needs pamqp (pip install pamqp)")
    written: dict[str, Any] = {
        "byte": 5,
        "bytes": bytearray(b"\x00\xff"),
        "decimal": Decimal("123.45"),
        "double": 1.5,
        "int": 70000,
        "list": [1, "two", [3]],
        "long": 2**40,
        "short": 300,
        "table": {"a": {"b": 1}},
        "time": MOMENT,
        "true": True,
        "unsigned": 40000,
        "void": None,
        "wide": 3_000_000_000,
    }
    table = amqp091.FieldTable.decode(encode.field_table(written))
    assert plainly(table) == plainly(written)
    assert [letter for _, letter, _ in table.entries] == list("bxDfIAlsFTtuVi")


def test_tables_of_py_amqp_are_read() -> None:
    serialization = pytest.importorskip("amqp.serialization", reason="needs py-amqp (pip install amqp)")
    written: dict[str, Any] = {
        **PLAIN,
        "long": 2**40,
        "edge": -(2**31),
        "double": 0.1,
        "decimal": Decimal("123.45"),
        "time": MOMENT.replace(tzinfo=None),
        "table": {"a": {"b": 1}},
        "list": [1, "two", [3]],
    }
    table = amqp091.FieldTable.decode(serialization.dumps("F", [written]))
    assert plainly(table) == plainly(written)
    assert [letter for _, letter, _ in table.entries] == list("IStVLLdDTFA")


def test_a_whole_delivery_of_each_peer() -> None:
    """Frames as the peers write them, through an Assembler."""
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    deliver = pika.spec.Basic.Deliver("tag", 5, False, "exchange", "key")
    properties = pika.spec.BasicProperties(content_type="a/b", headers={"k": 1})
    body = bytes(range(256)) * 2
    octets = pika.frame.Method(3, deliver).marshal() + pika.frame.Header(3, len(body), properties).marshal()
    for at in range(0, len(body), 200):
        octets += pika.frame.Body(3, body[at : at + 200]).marshal()
    (message,) = amqp091.Assembler(side="server").feed(octets)
    assert isinstance(message, amqp091.BasicMessage)
    assert (message.method.delivery_tag, message.properties.headers, message.body_bytes()) == (5, {"k": 1}, body)  # type: ignore[comparison-overlap]
    assert message.body_sizes == (200, 200, 112)
    assert message.encode() == octets
    assert struct.unpack(">Q", octets[octets.index(b"\x02\x00\x03") + 11 :][:8]) == (len(body),)
