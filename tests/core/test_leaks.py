"""Nothing that is called again and again grows: neither memory of C, nor Python objects, nor references."""

from __future__ import annotations

import copy
import ctypes
import gzip
import inspect
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.convert_vectors import octets
from lib.heap import heap
from lib.leaks import leaks
from lib.paths import ROOT, VECTORS
from lib.protocols import MODULES
from wirefmt import _core, amqp091, amqp10, capture, convert, mqtt, nsq, phpmq, rocketmq
from wirefmt.batch import csv_lines, json_lines
from wirefmt.capture import _engine as capture_engine
from wirefmt.errors import WireError

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class of Python; compiled ones are static


def tried(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a call answers; None where it raises what public functions raise."""
    try:
        return call(*args, **options)
    except (
        WireError,
        TypeError,
        ValueError,
        BufferError,
        AttributeError,
        OverflowError,
        LookupError,
        pickle.PicklingError,
    ):
        return None


# ------------------------------------------------------------------------------------------------ the means find leaks


def test_a_leak_is_found() -> None:
    libc = ctypes.CDLL(None)
    kept: list[object] = []
    if sys.getallocatedblocks():  # 0 with PYTHONMALLOC=malloc
        assert "objects" in leaks(lambda: kept.append(object()))
    if heap():
        libc.malloc.restype = ctypes.c_void_p
        assert "heap" in leaks(lambda: libc.malloc(ctypes.c_size_t(1)))
    shared = b"octets of a message"
    assert leaks(lambda: ctypes.pythonapi.Py_IncRef(ctypes.py_object(shared)), (shared,))
    assert leaks(lambda: bytearray(1000)) == {}


# ------------------------------------------------------------------------------------------------ everything public


def look(value: Any, deep: int = 2) -> None:
    """Everything a message can be asked."""
    if isinstance(value, (tuple, list, frozenset)) and deep:
        for one in value:
            look(one, deep)
        return
    if isinstance(value, dict) and deep:
        look(list(value.items()), deep)
        return
    if not type(value).__module__.startswith("wirefmt"):
        return
    tried(repr, value), tried(hash, value), tried(lambda: value == value), tried(len, value), tried(bytes, value)
    tried(lambda: memoryview(value).nbytes)
    tried(lambda: value == pickle.loads(pickle.dumps(value)))
    copy.copy(value)
    for name in dir(type(value)):
        if name.startswith("_"):
            continue
        found = tried(getattr, value, name)
        if callable(found):
            if name in ("encode", "detach", "items", "keys", "values") or name.endswith("_bytes"):
                tried(found)
        elif deep:
            look(found, deep - 1)


def entry_points(protocol: str) -> Iterator[tuple[str, Callable[[bytes], Any]]]:
    """Every public function of a protocol and every constructor of a compiled class from octets, by name."""
    module = MODULES[protocol]
    options: dict[str, Any]
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.iscoroutinefunction(found) or (isinstance(found, type) and found.__flags__ & HEAP_TYPE):
            continue  # of Python, and needs a loop or a clock
        if name == "Decoder" or name.endswith("Assembler"):
            for options in ({}, {"strictness": "lax"}, {"side": "server"}, {"version": 5}):
                yield f"{name} {options}", lambda octets, c=found, o=options: fed(c, o, octets)  # type: ignore[misc]
        elif isinstance(found, type):
            if hasattr(found, "decode"):
                yield f"{name}.decode", lambda octets, c=found: look(tried(c.decode, octets))  # type: ignore[misc]
            yield name, lambda octets, c=found: tried(c, octets)  # type: ignore[misc]
        elif callable(found):
            for options in (
                {},
                {"strictness": "lax"},
                {"version": 5},
                {"version": 3, "strictness": "lax"},
                {"side": "server"},
            ):
                yield f"{name} {options}", lambda octets, c=found, o=options: called(c, o, octets)  # type: ignore[misc]


def called(function: Callable[..., Any], options: dict[str, Any], octets: bytes) -> None:
    answer = tried(function, octets, **options)
    if isinstance(answer, _core.Batch):
        for name in answer.names:
            tried(lambda n: answer[n], name), tried(answer.validity, name)
        answer.__arrow_c_array__(), answer.__arrow_c_stream__(), answer.nbytes
    else:
        look(answer)


def fed(decoder: type, options: dict[str, Any], octets: bytes) -> None:
    """In two pieces, and closed where the stream may not end; deliveries and contents too."""
    stream = tried(decoder, **options)
    if stream is None:
        return
    for piece in (octets[:7], octets[7:]):
        for frame in tried(getattr(stream, "feed", lambda _: ()), piece) or ():
            look(frame, 1)
    if hasattr(stream, "receive"):
        for frame in tried(amqp10.Decoder(strictness="lax").feed, octets) or ():
            look(tried(stream.receive, frame))
    tried(getattr(stream, "close", bool))


def samples(protocol: str) -> list[bytes]:
    """Of each sort of vectors a few, of each way to be wrong one."""
    seen: dict[object, int] = {}
    out = []
    with open(VECTORS / protocol / "public.jsonl", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            decoded = row.get("decoded")
            kind = (
                row.get("reason"),
                row.get("kind"),
                row.get("class"),
                decoded.get("type") if isinstance(decoded, dict) else 0,
            )
            octets = bytes.fromhex(row["hex"]) if row.get("hex") else b""
            if octets and len(octets) < 20_000 and seen.setdefault(kind, 0) < 2:
                seen[kind] += 1
                out.append(octets)
    return out


@pytest.mark.parametrize("protocol", MODULES)
def test_public_functions(protocol: str) -> None:
    every = samples(protocol)
    assert len(every) > 15
    some = every[:: max(1, len(every) // 12)]
    found = {
        name: leak
        for name, call in entry_points(protocol)
        if (leak := leaks(lambda c=call: [c(octets) for octets in some], tuple(some)))  # type: ignore[misc]
    }
    assert found == {}


# ------------------------------------------------------------------------------------------------ what has leaked before


def test_deliveries_that_are_never_completed() -> None:
    def transfer(handle: int, more: bool) -> amqp10.Transfer:
        return amqp10.Transfer(handle=handle, delivery_id=handle, delivery_tag=b"t", more=more, payload=b"p" * 500)

    frames = [transfer(0, True), transfer(1, True), transfer(2, True), transfer(1, False)]
    octets = b"".join(frame.encode() for frame in frames)

    def assemble(*more: amqp10.Performative) -> None:
        assembler = amqp10.Assembler()
        for frame in (*frames, *more):
            assembler.feed(frame.encode())

    assert leaks(lambda: amqp10.decode_batch(octets), (octets,)) == {}
    assert leaks(assemble) == {}
    assert leaks(lambda: assemble(amqp10.Transfer(handle=0, aborted=True), amqp10.Detach(handle=2))) == {}
    assert leaks(lambda: assemble(amqp10.Close())) == {}
    assert leaks(lambda: tried(assemble, amqp10.Transfer(handle=0, delivery_id=9))) == {}  # contradicts the first


def test_frames_of_a_conversion() -> None:
    packet = mqtt.Publish(topic_name="a/b", payload=b"p" * 5000, version=5)
    wire = convert.convert(packet, to="amqp091").wire
    assert len(wire.frames()) > 5000
    assert leaks(wire.frames) == {}


VIEWS: list[Any] = [
    mqtt.Publish(topic_name="a", payload=b"p", version=5),
    amqp091.Body(channel=1, payload=b"p"),
    amqp091.BasicMessage(amqp091.BasicPublish(channel=1), amqp091.BasicProperties(), b"p"),
    amqp10.Transfer(handle=0, payload=b"p"),
    amqp10.Data(b"p"),
    amqp10.Message(body=b"p"),
    rocketmq.RemotingCommand(code=10, body=b"p"),
    nsq.Publish(topic="a", body=b"p"),
    nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"0123456789abcdef", body=b"p"),
    phpmq.MessageClientToServer(queue_name="q", content=b"p"),
]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from 3.12 on, references are not counted")
@pytest.mark.parametrize("message", VIEWS, ids=lambda m: type(m).__name__)
def test_views(message: Any) -> None:
    assert bytes(message) == b"p"
    assert leaks(lambda: memoryview(message)) == {}
    assert leaks(lambda: tried(lambda: memoryview(message).cast("B")[0:1])) == {}
    assert leaks(lambda: tried(bytearray(1).__class__.join, b"", [message])) == {}


# ------------------------------------------------------------------------------------------------ conversions, captures


def test_conversions() -> None:
    with open(VECTORS / "conversions" / "public.jsonl", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines][::90]

    def run(dialect: str) -> None:
        for case in cases:
            source = octets(case["from"], case["input_hex"])
            made = tried(convert.convert, source, source=case["from"], to=case["to"], dialect=dialect, routing_key="a")
            look(made)
            look(getattr(made, "losses", ()))
            container = tried(convert.Container, source, source=case["from"], routing_key="a", dialect=dialect)
            if container is not None:
                look(tried(container.to, case["to"]))
                look(tried(container.deliver, case["to"]))
                tried(container.stream_entry)

    assert len(cases) > 50
    for dialect in convert.DIALECTS:
        assert leaks(lambda d=dialect: run(d)) == {}  # type: ignore[misc]


CAPTURES = [
    "samples/mosquitto-paho-v5-snaplen128.pcap",
    "samples/rabbitmq-pyamqp-amqp091.pcap",
    "samples/rabbitmq-rhea-amqp10.pcap.gz",
    "samples/mosquitto-paho-v311-lossy-outoforder.pcap.gz",
]


@pytest.mark.parametrize("name", CAPTURES)
def test_captures(name: str) -> None:
    path = str(ROOT / name)

    def read(**options: Any) -> None:
        with capture.read(path, **options) as reader:
            for batch in reader:
                batch["kind"], batch.validity("payload"), batch.__arrow_c_array__()
            assert reader.stats

    def scan() -> None:
        scanner = capture.PacketScanner()
        scanner.begin_file("a", 0)
        decoder = capture.CaptureDecoder()
        decoder.begin_file("a", 0)
        with capture.read(path) as reader:
            assert reader.schema
        data = (gzip.decompress if path.endswith("gz") else bytes)((ROOT / name).read_bytes())
        packets = capture_engine.PcapReader()
        packets.feed(data), packets.close(), packets.faults
        scanner.feed(data)
        scanner.end_file()
        while (batch := scanner.take(True)) is not None:
            rows = b"".join(batch["segment"])
            at = 0
            while at < len(rows):
                at += decoder.feed_segments(rows[at:])
                decoder.take()
        decoder.finish(), decoder.take(True)

    assert leaks(read) == {}
    assert leaks(lambda: read(strictness="strict", raw=True, expose_credentials=True, batch_rows=3)) == {}
    assert leaks(lambda: read(threads=2)) == {}
    assert leaks(scan) == {}


def test_encode_batch_leaks_nothing() -> None:
    """Columns that are written as frames or text, refused in a row, refused as a whole, and with JSON among them."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    text_map = pa.map_(pa.string(), pa.string())
    packets = mqtt.decode_batch(mqtt.Publish(topic_name="a", payload=b"x" * 50).encode() * 200, version=5)
    table = pa.table({"packet_type": [3] * 100, "destination": ["a"] * 99 + ["#"], "payload": [b""] * 100})
    declare = pa.table(
        {
            "kind": ["queue.declare"],
            "channel": [1],
            "queue": ["q"],
            "arguments": pa.array([[("arguments", '{"a":{"b":[1,2.5,"x"]}}')]], text_map),
        }
    )
    attach = pa.table(
        {
            "kind": ["attach"],
            "channel": [1],
            "fields": pa.array(
                [[("name", "n"), ("handle", "1"), ("role", "true"), ("source", '{"descriptor":40,"value":["q"]}')]],
                text_map,
            ),
        }
    )

    def refused(columns: Any) -> None:
        with pytest.raises(ValueError, match=r"row 99|no column|null"):
            mqtt.encode_batch(columns, version=5)

    calls: list[Callable[[], object]] = [
        lambda: mqtt.encode_batch(packets, version=5),
        lambda: mqtt.encode_batch(table.slice(0, 99), version=5),
        lambda: refused(table),
        lambda: refused(table.rename_columns(["packet_type", "topic", "payload"])),
        lambda: amqp091.encode_batch(declare),
        lambda: amqp10.encode_batch(attach),
        lambda: json_lines(packets),
        lambda: csv_lines(declare),
        lambda: tried(json_lines, pa.table({"x": [1.5]})),
        lambda: tried(csv_lines, pa.table({"x": pa.array(["a"]).cast(pa.dictionary(pa.int8(), pa.string()))})),
    ]
    for call in calls:
        assert leaks(call) == {}
