"""Arrow arrays that encode_batch is given: of other libraries, with other types of offsets, and arrays that are wrong."""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lib.encoded import columns_of
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.batch import csv_lines, json_lines

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

#: A PUBLISH of MQTT 3.1.1 with topic "a" and payload "xy" (3.3).
PACKET = bytes.fromhex("30 05 00 01 61 78 79")


class Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
    ]  # fmt: skip


class Array(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64), ("buffers", ctypes.c_void_p), ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
    ]  # fmt: skip


def child_of(struct: Any, i: int) -> Any:
    return type(struct).from_address(ctypes.cast(struct.children, ctypes.POINTER(ctypes.c_void_p))[i])


@contextmanager
def buffer_changed(array: Array, i: int, address: int | None) -> Iterator[None]:
    """A buffer of an array is another meanwhile."""
    buffers = ctypes.cast(array.buffers, ctypes.POINTER(ctypes.c_void_p))
    before, buffers[i] = buffers[i], address
    try:
        yield
    finally:
        buffers[i] = before


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Forged:
    """A record batch whose C structs can be changed before they are handed over."""

    def __init__(self, **columns: Any) -> None:
        self.capsules = pa.record_batch(columns).__arrow_c_array__()
        self.schema = Schema.from_address(pointer_of(self.capsules[0], b"arrow_schema"))
        self.array = Array.from_address(pointer_of(self.capsules[1], b"arrow_array"))

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.capsules

    @contextmanager
    def changed(self, struct: Any, **fields: Any) -> Iterator[None]:
        """Fields of a struct are others meanwhile: it is released as it was."""
        before = {name: getattr(struct, name) for name in fields}
        for name, value in fields.items():
            setattr(struct, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(struct, name, value)


def forged() -> Forged:
    return Forged(
        packet_type=pa.array([3, 3], pa.int8()), destination=pa.array(["a", "a"]), payload=pa.array([b"xy", b"xy"]),
        mqtt=pa.array([{"topic_filters": ["f"]}, None]),
    )  # fmt: skip


def test_a_forged_array_that_is_right() -> None:
    assert mqtt.encode_batch(forged(), version=4) == 2 * PACKET


@pytest.mark.parametrize(
    "fields",
    [
        {"length": -1}, {"length": 3}, {"length": 2**62}, {"offset": -1}, {"offset": 1}, {"offset": 2**62}, {"n_buffers": 0},
        {"n_buffers": 9}, {"n_children": 0}, {"n_children": 1}, {"n_children": -1}, {"release": None},
        {"buffers": None}, {"children": None},
    ],
    ids=str,
)  # fmt: skip
def test_structs_that_contradict_themselves(fields: dict[str, Any]) -> None:
    made = forged()
    with made.changed(made.array, **fields), pytest.raises(ValueError, match=r"rows|buffers|children|released"):
        mqtt.encode_batch(made, version=4)


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("fields", [{"length": 1}, {"length": -1}, {"offset": -1}, {"n_buffers": 7}, {"n_children": 5}])
def test_columns_that_contradict_themselves(column: int, fields: dict[str, int]) -> None:
    made = forged()
    struct = child_of(made.array, column)
    with made.changed(struct, **fields), pytest.raises(ValueError, match=r"row|buffers|children"):
        mqtt.encode_batch(made, version=4)


@pytest.mark.parametrize("column", [1, 2])
@pytest.mark.parametrize(
    ("offsets", "at"),
    [((-1, 1, 2), 0), ((0, -1, 2), 0), ((0, 2, 1), 0), ((0, 1, -1), None), ((0, 7, 4), 0), ((3, 2, 4), 0)],
)
def test_offsets_that_are_wrong(column: int, offsets: tuple[int, ...], at: int | None) -> None:
    made = forged()
    wrong = (ctypes.c_int32 * 3)(*offsets)
    said = "offsets out of range" if at is None else f"row {at}: offsets out of range"
    with (
        buffer_changed(child_of(made.array, column), 1, ctypes.addressof(wrong)),
        pytest.raises(ValueError, match=said),
    ):
        mqtt.encode_batch(made, version=4)


def test_buffers_that_are_missing() -> None:
    for column, buffer in ((0, 1), (1, 1), (1, 2), (2, 2), (3, 0)):
        made = forged()
        with buffer_changed(child_of(made.array, column), buffer, None):
            if column == 3:  # no bitmap: all rows have a value
                assert mqtt.encode_batch(made, version=4) == 2 * PACKET
            else:
                with pytest.raises(ValueError, match=r"missing|offsets"):
                    mqtt.encode_batch(made, version=4)


def test_a_schema_that_is_wrong() -> None:
    made = forged()
    with made.changed(made.schema, release=None), pytest.raises(ValueError, match="released"):
        mqtt.encode_batch(made, version=4)
    with made.changed(made.schema, format=b"+l"), pytest.raises(ValueError, match="columns must be"):
        mqtt.encode_batch(made, version=4)
    with made.changed(made.schema, n_children=3), pytest.raises(ValueError, match="children"):
        mqtt.encode_batch(made, version=4)
    child = child_of(made.schema, 1)
    for format_ in (b"", b"w:", b"w:-1", b"w:99999999999", b"+s", b"+m", b"vz", b"\xff"):
        with made.changed(child, format=format_), pytest.raises(ValueError, match="destination"):
            mqtt.encode_batch(made, version=4)
    with made.changed(child, name=b"\xff"), pytest.raises(ValueError, match="no column"):
        mqtt.encode_batch(made, version=4)


@pytest.mark.parametrize("lines", [json_lines, csv_lines])
def test_a_schema_that_is_wrong_for_lines(lines: Any) -> None:
    made = forged()
    assert len(lines(made).splitlines()) in (2, 3)
    child = child_of(made.schema, 1)
    formats = (
        b"",
        b"w:",
        b"w:-1",
        b"+s",
        b"+m",
        b"+l",
        b"g",
        b"\xff",
        b"ts",
        b"tsx:UTC",
        b"tsu:",
        b"tsu:UTC",
        b"tsu:utc",
    )
    for format_ in formats:
        with made.changed(child, format=format_), pytest.raises(ValueError, match="destination"):
            lines(made)
    with made.changed(child, format=None), pytest.raises(ValueError, match="destination"):
        lines(made)
    with made.changed(child, name=b"\xff"):
        assert "\ufffd" in lines(made).decode()
    with made.changed(made.schema, release=None), pytest.raises(ValueError, match="released"):
        lines(made)


@pytest.mark.parametrize("wrong", [None, 5, b"octets", [{"packet_type": 3}], {"packet_type": [3]}, object()])
def test_what_is_no_arrow(wrong: Any) -> None:
    for module in (mqtt, amqp091, amqp10, rocketmq, nsq, phpmq):
        with pytest.raises(TypeError, match="__arrow_c_array__"):
            module.encode_batch(wrong)


def test_what_only_looks_like_arrow() -> None:
    class Liar:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __arrow_c_array__(self) -> Any:
            return self.answer

    for answer in (None, (), (1, 2), ("a", "b"), forged().capsules[::-1], (forged().capsules[0],)):
        with pytest.raises((TypeError, ValueError, IndexError)):
            mqtt.encode_batch(Liar(answer))


def test_a_stream_that_fails() -> None:
    def batches() -> Iterator[Any]:
        yield pa.record_batch({"packet_type": pa.array([3])})
        raise RuntimeError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("packet_type", pa.int64())]), batches())
    with pytest.raises(ValueError, match=r"row 0|the disk is gone"):
        mqtt.encode_batch(reader, version=4)
    good = forged()

    def more() -> Iterator[Any]:
        yield pa.record_batch({"packet_type": [3], "destination": ["a"], "payload": [b"xy"]})
        raise RuntimeError("the disk is gone")

    schema = pa.schema([("packet_type", pa.int64()), ("destination", pa.string()), ("payload", pa.binary())])
    with pytest.raises(ValueError, match="the disk is gone"):
        mqtt.encode_batch(pa.RecordBatchReader.from_batches(schema, more()), version=4)
    assert mqtt.encode_batch(good, version=4) == 2 * PACKET


def test_null_rows_of_an_array_of_structs() -> None:
    rows = [{"packet_type": 3, "destination": "a", "payload": b"xy"}, None]
    with pytest.raises(ValueError, match="row 1: null"):
        mqtt.encode_batch(pa.array(rows), version=4)
    assert mqtt.encode_batch(pa.array(rows)[:1], version=4) == PACKET


# ---- other libraries, other forms


def test_views() -> None:
    texts = ["", "a", "twelve bytes", "more than twelve bytes", "é" * 20] * 3
    plain = {"packet_type": pa.array([3] * 15), "destination": pa.array([t or "x" for t in texts])}
    views = plain | {"destination": pa.array([t or "x" for t in texts], pa.string_view())}
    payload = [t.encode() for t in texts]
    plain["payload"], views["payload"] = pa.array(payload), pa.array(payload, pa.binary_view())
    assert mqtt.encode_batch(pa.table(views), version=5) == mqtt.encode_batch(pa.table(plain), version=5)
    for begin, rows in ((0, 7), (4, 5), (14, 1), (15, 0)):
        part = mqtt.encode_batch(pa.table(views).slice(begin, rows), version=5)
        assert part == mqtt.encode_batch(pa.table(plain).slice(begin, rows), version=5)


def test_views_that_are_wrong() -> None:
    text = "more than twelve bytes"
    for view in ((-1, 0, 0, 0), (22, 0, 1, 0), (22, 0, -1, 0), (22, 0, 0, 1), (22, 0, 0, -1), (2**31 - 1, 0, 0, 0)):
        made = Forged(
            packet_type=pa.array([3]), destination=pa.array([text], pa.string_view()), payload=pa.array([b""])
        )
        wrong = (ctypes.c_int32 * 4)(*view)
        with (
            buffer_changed(child_of(made.array, 1), 1, ctypes.addressof(wrong)),
            pytest.raises(ValueError, match="column 'destination', row 0: offsets out of range"),
        ):
            mqtt.encode_batch(made, version=4)


def test_polars() -> None:
    polars = pytest.importorskip("polars", reason="needs polars (pip install polars)")
    packets = [
        mqtt.Publish(topic_name=f"plant/line-{i}", payload=b"21.5" * i, qos=1, packet_identifier=i + 1, version=5)
        for i in range(20)
    ]
    octets = b"".join(p.encode() for p in packets)
    frame = polars.DataFrame(mqtt.decode_batch(octets, version=5))
    assert mqtt.encode_batch(frame, version=5) == octets
    assert mqtt.encode_batch(frame.filter(polars.col("sequence") > 10), version=5) == b"".join(
        p.encode() for p in packets[10:]
    )


def test_rows_in_any_order_and_number() -> None:
    """pyarrow's take, filter and concatenation give arrays of every shape."""
    r = random.Random(5)
    packets = [
        mqtt.Publish(
            topic_name="t" * r.randrange(1, 40), payload=r.randbytes(r.randrange(300)),
            properties=tuple(("user_property", ("k" * r.randrange(3), "v")) for _ in range(r.randrange(4))),
        ).encode()
        for _ in range(300)
    ]  # fmt: skip
    table = pa.Table.from_batches([columns_of(mqtt.decode_batch(b"".join(packets), version=5))])
    for _ in range(20):
        chosen = [r.randrange(300) for _ in range(r.randrange(400))]
        assert mqtt.encode_batch(table.take(chosen), version=5) == b"".join(packets[i] for i in chosen)
        begin = r.randrange(300)
        assert mqtt.encode_batch(table.slice(begin, 50), version=5) == b"".join(packets[begin : begin + 50])


def test_other_threads_run_meanwhile() -> None:
    """The GIL is released while rows are written."""
    table = pa.table({"packet_type": pa.array([3] * 2_000_000, pa.int8()), "destination": ["a"] * 2_000_000})
    table = table.append_column("payload", pa.array([b""] * 2_000_000))
    begun, seen = threading.Event(), []

    def encode() -> None:
        begun.set()
        seen.append(len(mqtt.encode_batch(table, version=4)))

    threads = [threading.Thread(target=encode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [5 * 2_000_000] * 2


def test_a_batch_is_encoded_many_times() -> None:
    batch = mqtt.decode_batch(PACKET * 1000, version=4)
    made = [mqtt.encode_batch(batch, version=4) for _ in range(50)]
    assert made == [PACKET * 1000] * 50
    assert [len(bytes(m)) for m in made] == [7000] * 50
    assert {hash(m) for m in made} == {hash(PACKET * 1000)}


@pytest.mark.parametrize("begin", range(10))
def test_a_slice_with_one_value_that_is_not_null(begin: int) -> None:
    """Arrow's validity bitmaps are read from any bit on: a value is found wherever it lies."""
    columns = columns_of(mqtt.decode_batch(mqtt.Publish(topic_name="t", payload=b"").encode() * 30, version=5))
    at = columns.schema.get_field_index("content_type")
    for place in range(begin, 30):
        types = pa.array(["x" if row == place else None for row in range(30)], pa.string())
        part = columns.set_column(at, "content_type", types).slice(begin)
        packets: list[Any] = mqtt.Decoder(version=5).feed(mqtt.encode_batch(part, version=5))
        said = [dict(p.properties).get("content_type") for p in packets]
        assert said == ["x" if row == place else None for row in range(begin, 30)]


NO_MEMORY = """
import json
import pyarrow as pa
from wirefmt import amqp091, amqp10


class Decoder:
    def __init__(self, **options): pass
    def decode(self, text): raise MemoryError


json.JSONDecoder = Decoder
rows = pa.record_batch({
    "amqp10": lambda: amqp10.decode_batch(amqp10.Open(container_id="c", properties={amqp10.Symbol("k"): 1}).encode()),
    "amqp091": lambda: amqp091.decode_batch(amqp091.QueueDeclare(channel=1, queue="q", arguments={"k": 1}).encode()),
}[NAME]())
try:
    {"amqp10": amqp10, "amqp091": amqp091}[NAME].encode_batch(rows)
except MemoryError:
    print("refused")
"""


@pytest.mark.parametrize("name", ["amqp091", "amqp10"])
def test_want_of_memory_is_no_other_value(name: str) -> None:
    """A value that cannot be read for want of memory is not written as a string instead."""
    done = subprocess.run([sys.executable, "-c", f"NAME = {name!r}\n{NO_MEMORY}"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("refused\n", "")
