"""amqp091.encode_batch: columns to frames, against what RabbitMQ and clients wrote."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.amqp091_strategies import methods, streams
from lib.amqp091_vectors import Vector, depth_of, frame, load
from lib.encoded import again, rows_of
from lib.groups import each_vector
from lib.kinds import only
from wirefmt import amqp091
from wirefmt.errors import EncodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

PUBLISH = amqp091.BasicPublish(channel=1, exchange="e", routing_key="k").encode()
TABLES = [v for v in load() if v.kind == "table" and v.valid and depth_of(v) <= 64]
NO_CONTENT = frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0))
#: Short strings that are not text are hexadecimal in columns, and stay so.
METHODS = [
    v for v in load() if v.kind == "method" and v.valid and v.rule not in ("shortstr-not-utf8", "shortstr-with-nul")
]


def decode(strictness: str, **options: Any) -> Any:
    return lambda octets: amqp091.decode_batch(octets, strictness=strictness, expose_credentials=True, **options)


def encode(strictness: str, **options: Any) -> Any:
    return lambda columns: amqp091.encode_batch(columns, strictness=strictness, frame_max=0, **options)


def whole(vector: Vector) -> bytes:
    """As rows without error: content headers after a method."""
    return PUBLISH + vector.whole if vector.kind in ("properties", "table") else vector.whole


@each_vector(list(load()))
def test_what_was_decoded_is_encoded_again(vector: Vector) -> None:
    for strictness in ("strict", "lax"):
        side = vector.side if vector.kind not in ("properties", "table") else None
        again(whole(vector), decode(strictness, side=side), encode(strictness, side=side))


@each_vector(METHODS)
def test_methods_without_tables_come_back(vector: Vector) -> None:
    """Types of values within tables are all that the columns lose."""
    batch = decode("strict", side=vector.side)(vector.whole)
    content = b""
    if batch["error"][0] is not None:
        content = NO_CONTENT
        batch = decode("strict", side=vector.side)(vector.whole + content)
    if any("{" in value for row in pa.record_batch(batch).to_pylist() for _, value in row["arguments"] or ()):
        return
    made = encode("strict", side=vector.side)(batch)
    assert made.endswith(content)
    assert len(made) == len(vector.whole + content)
    back = amqp091.decode(made[: len(vector.whole)], side=vector.side)
    assert back == amqp091.decode(vector.whole, side=vector.side)


@each_vector(TABLES)
def test_tables_among_arguments(vector: Vector) -> None:
    """queue.declare with the table of the vector as its arguments (1.7.2.1)."""
    table = vector.octets
    head = struct.pack(">HHH", 50, 10, 0) + b"\1q" + b"\0"
    octets = frame(1, 1, head + table)
    batch = decode("strict")(octets)
    if batch["error"][0] is not None:
        return
    again(octets, decode("strict"), encode("strict"))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(streams())
def test_any_stream(made: tuple[list[Any], bytes]) -> None:
    again(made[1], decode("lax"), encode("lax"), other_forms=False)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(st.lists(methods(), max_size=4))
def test_any_methods(made: list[Any]) -> None:
    octets = b"".join(m.encode() for m in made)
    again(octets, decode("strict"), encode("strict"))


@pytest.mark.parametrize(
    "said", ["0.0", "1.50", "100.0", "0.10", "4294967295.0", "0.00000000000000000005", "1e3", "1E-7"]
)
def test_numbers_of_tables(said: str) -> None:
    """A decimal (general 4.2.5.5, D) has a scale; a number that a double would show otherwise is one, if it fits."""
    made = amqp091.encode_batch(
        columns(kind="queue.declare", channel=1, queue="q", arguments=[("arguments", f'{{"k":{said}}}')])
    )
    method = only(amqp091.Decoder().feed(made), amqp091.QueueDeclare)
    value = method.arguments["k"]
    assert isinstance(value, float if "e" in said.lower() else Decimal if said != "4294967295.0" else float), value
    assert value == (float(said) if isinstance(value, float) else Decimal(said))
    if isinstance(value, Decimal):
        again(made, decode("strict"), encode("strict"))
        assert f'{{"k":{said}}}' in str(rows_of(decode("strict")(made)))


def columns(**given: Any) -> Any:
    return pa.table(
        {
            name: pa.array([value], pa.map_(pa.string(), pa.string())) if isinstance(value, list) else pa.array([value])
            for name, value in given.items()
        }
    )


def publish(**given: Any) -> Any:
    usual = {"kind": "basic.publish", "channel": 1, "exchange": "e", "routing_key": "k", "payload": b"hello"}
    return columns(**{name: value for name, value in (usual | given).items() if value is not None})


def test_a_message() -> None:
    """4.2.3: frames are type, channel, size, payload, 0xCE; 4.2.6: method, content header, body."""
    made = amqp091.encode_batch(publish(content_type="t", headers=[("n", "v")], delivery_mode=2))
    assert made == (
        frame(1, 1, struct.pack(">HHH", 60, 40, 0) + b"\1e\1k\0")
        + frame(2, 1, struct.pack(">HHQH", 60, 0, 5, 0xB000) + b"\1t" + struct.pack(">I", 8) + b"\1nS\0\0\0\1v" + b"\2")
        + frame(3, 1, b"hello")
    )


def test_bodies_are_cut() -> None:
    made = amqp091.encode_batch(publish(payload=bytes(range(256)) * 40), frame_max=4096)
    bodies = [f for f in amqp091.Decoder().feed(made) if isinstance(f, amqp091.Body)]
    assert [len(bytes(f.payload)) for f in bodies] == [4088, 4088, 2064]
    assert b"".join(bytes(f.payload) for f in bodies) == bytes(range(256)) * 40
    one = amqp091.encode_batch(publish(payload=bytes(300_000)), frame_max=0)
    assert one.endswith(frame(3, 1, bytes(300_000)))
    assert amqp091.encode_batch(publish(payload=b"")).endswith(struct.pack(">HHQH", 60, 0, 0, 0) + b"\xce")


def test_arguments_that_are_absent_are_zero() -> None:
    made = amqp091.encode_batch(columns(kind="queue.declare", channel=1, queue="q", arguments=[("durable", "true")]))
    assert made == frame(1, 1, struct.pack(">HHH", 50, 10, 0) + b"\1q\2\0\0\0\0")


def test_tables_are_json() -> None:
    arguments = [("arguments", '{"x-max-length":1000,"x-queue-type":"quorum","deep":{"a":[1,true,null,1.5]}}')]
    made = amqp091.encode_batch(columns(kind="queue.declare", channel=1, queue="q", arguments=arguments))
    declare: Any = amqp091.decode(made)
    assert declare.arguments == {"x-max-length": 1000, "x-queue-type": "quorum", "deep": {"a": [1, True, None, 1.5]}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (publish(kind=None), "column 'kind', row 0: null"),
        (publish(kind="basic.published"), "column 'kind', row 0: no name"),
        (publish(channel=None), "column 'channel', row 0: null"),
        (publish(channel=65536), "column 'channel', row 0: 65536, not 0 to 65535"),
        (publish(channel=0), "row 0: channel: "),
        (publish(exchange=None), "column 'exchange', row 0: null"),
        (publish(routing_key=None), "column 'routing_key', row 0: null"),
        (publish(routing_key="k" * 256), "column 'routing_key', row 0: 256 bytes or elements, at most 255"),
        (publish(payload=None), "column 'payload', row 0: null"),
        (publish(body_size=4), "column 'body_size', row 0: the body is of another size"),
        (publish(priority=256), "column 'priority', row 0: 256, not 0 to 255"),
        (publish(headers=[("n" * 256, "v")]), "column 'headers.entries.key', row 0: 256"),
        (publish(headers=[("n", None)]), "column 'headers.entries.value', row 0: null"),
        (publish(arguments=[("mandatory", "yes")]), "column 'arguments', row 0: mandatory: neither true nor false"),
        (publish(arguments=[("nothing", "1")]), "column 'arguments', row 0: an argument that the method does not have"),
        (publish(arguments=[("ticket", "x")]), "column 'arguments', row 0: ticket: no number"),
        (publish(arguments=[("ticket", "65536")]), "column 'arguments', row 0: ticket: a number that is too large"),
        (publish(error="bad"), "column 'error', row 0"),
        (columns(kind="basic.ack", channel=1), "column 'sequence', row 0: null"),
        (columns(kind="channel.close", channel=1, reply_text="x"), "column 'code', row 0: null"),
        (columns(kind="heartbeat", channel=1), "row 0: channel: "),
        (columns(kind="protocol-header", channel=1), "column 'channel', row 0: a protocol header has no channel"),
        (columns(kind="queue.declare", channel=1, queue="q", arguments=[("arguments", "[1]")]), "no JSON object"),
        (columns(kind="queue.declare", channel=1, queue="q", arguments=[("arguments", "{")]), "no JSON object"),
        (
            columns(kind="queue.declare", channel=1, queue="q", arguments=[("arguments", '{"a":1e400000}')]),
            "no JSON|value",
        ),
    ],
)
def test_a_wrong_row_is_named(given: Any, said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        amqp091.encode_batch(given)


def test_options() -> None:
    with pytest.raises(ValueError, match="frame_max must be 0 or more than 8"):
        amqp091.encode_batch(publish(), frame_max=8)
    with pytest.raises(EncodeError, match="row 0: "):
        amqp091.encode_batch(publish(), side="server")
    with pytest.raises(EncodeError, match="row 0: channel: "):
        amqp091.encode_batch(publish(channel=9), channel_max=8)
