"""A buffer that somebody else may write to is copied before it is read; bytes are read where they lie.

Threads and processes can write to a bytearray, an array or shared memory while a decoder reads it. No contents, changing or
not, may make a decoder read outside its buffers, so every entry point reads bytes, or a copy.
"""

from __future__ import annotations

import mmap
import os
import random
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from lib.wire import Tcp, pcap
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.capture import _engine as capture_engine
from wirefmt.convert import _engine as convert_engine
from wirefmt.convert.dialects import compiled
from wirefmt.errors import WireError

SIZE = 1 << 20
BODY = b"x" * SIZE
FIELDS = {f"k{i}": "v" * 20 for i in range(30)}


class Entry(NamedTuple):
    call: Callable[[Any], object]
    large: bytes  # of more than SIZE bytes, most of them one payload
    many: bytes  # many small messages with lengths within lengths


def _mqtt() -> tuple[bytes, bytes]:
    small = mqtt.Publish(
        topic_name="a", payload=b"", version=5, properties=[("user_property", ("k" * 10, "v" * 10))] * 20
    )
    return mqtt.Publish(topic_name="a", payload=BODY, version=5).encode(), small.encode() * 300


def _amqp091() -> tuple[bytes, bytes]:
    def message(body: bytes, **headers: str) -> bytes:
        method = amqp091.BasicPublish(channel=1, exchange="e", routing_key="k")
        return amqp091.BasicMessage(method, amqp091.BasicProperties(headers=headers), body).encode()

    return message(BODY), message(b"x", **FIELDS) * 100


def _amqp10() -> tuple[bytes, bytes]:
    def transfer(message: amqp10.Message) -> bytes:
        return amqp10.Transfer(
            handle=0, delivery_id=0, delivery_tag=b"t", settled=True, payload=message.encode()
        ).encode()

    return transfer(amqp10.Message(body=BODY)), transfer(amqp10.Message(application_properties=FIELDS, body=b"x")) * 100


def _rocketmq() -> tuple[bytes, bytes]:
    small = [
        rocketmq.RemotingCommand(code=10, ext_fields=FIELDS, body=b"x", serialize_type=kind).encode()
        for kind in ("JSON", "ROCKETMQ")
    ]
    return rocketmq.RemotingCommand(code=10, body=BODY).encode(), b"".join(small) * 50


def _nsq() -> tuple[bytes, bytes]:
    many = nsq.MultiPublish(topic="topic", bodies=[b"x" * 9] * 20).encode() + nsq.Publish(topic="t", body=b"y").encode()
    return nsq.Publish(topic="t", body=BODY).encode(), many * 100


def _phpmq() -> tuple[bytes, bytes]:
    def message(content: bytes) -> bytes:
        return phpmq.MessageClientToServer(queue_name="queue", content=content).encode()

    return message(BODY), message(b"x") * 300


def _capture() -> tuple[bytes, bytes]:
    large, many = _mqtt()
    tcp = Tcp()
    return pcap([*tcp.open(), *tcp.send(0, large, 60_000)]), pcap([*tcp.open(), *tcp.send(0, many, 100)])


def _segments(octets: bytes) -> bytes:
    scanner = capture.PacketScanner()
    scanner.begin_file("a")
    scanner.feed(octets)
    batch = scanner.take(True)
    return b"".join(batch["segment"]) if batch is not None else b""


def captured(octets: Any) -> None:
    decoder = capture.CaptureDecoder()
    decoder.begin_file("a")
    view, at = memoryview(octets), 0
    while at < len(view):
        at += decoder.feed(view[at:])
        decoder.take()
    decoder.end_file()


def unpacked(octets: Any) -> None:
    decoder = capture.CaptureDecoder()
    decoder.begin_file("a")
    decoder.feed_segments(octets)


def scanned(octets: Any) -> None:
    scanner = capture.PacketScanner()
    scanner.begin_file("a")
    scanner.feed(octets)
    scanner.end_file()


def read_packets(octets: Any) -> None:
    capture_engine.PcapReader().feed(octets)


def traced(octets: Any) -> None:
    capture_engine.PacketTrace(tunnels=True).parse(1, octets)


def found(octets: Any) -> None:
    capture_engine.find_record(HEAD, octets, 10_000, False, 20_000)


def ranged(octets: Any) -> None:
    capture_engine.PacketScanner().begin_file("a", prefix=octets)


def converted(octets: Any) -> None:
    offsets: Any = np.array([0, len(octets) // 2, len(octets)], np.int32)
    keys: Any = np.zeros(3, np.int32)
    convert_engine.convert_rows(compiled("documented"), 0, b"\2\2", offsets, octets, keys, b"")


def keyed(octets: Any) -> None:
    """The same buffer as kinds, offsets and keys."""
    convert_engine.convert_rows(compiled("documented"), 2, octets, octets, b"", octets, octets)


def fed(decoder: Callable[..., Any], **options: Any) -> Callable[[Any], object]:
    return lambda octets: decoder(**options).feed(octets)


HEAD = _capture()[0][:24]
PACKETS = (_segments(_capture()[0]), _segments(_capture()[1]))
#: A record that never ends: a header that needs more bytes than there are.
UNFINISHED = (_capture()[0][:24] + b"\0" * 8 + b"\0\0\x10\0" * 2 + b"x" * SIZE, _capture()[1])
NO_OFFSETS = (b"\xff" * (SIZE + 4), bytes(400))

ENTRIES = {
    "mqtt.decode_batch": Entry(lambda o: mqtt.decode_batch(o, version=5), *_mqtt()),
    "amqp091.decode_batch": Entry(amqp091.decode_batch, *_amqp091()),
    "amqp10.decode_batch": Entry(amqp10.decode_batch, *_amqp10()),
    "rocketmq.decode_batch": Entry(rocketmq.decode_batch, *_rocketmq()),
    "nsq.decode_batch": Entry(nsq.decode_batch, *_nsq()),
    "phpmq.decode_batch": Entry(phpmq.decode_batch, *_phpmq()),
    "mqtt.Decoder": Entry(fed(mqtt.Decoder, version=5), *_mqtt()),
    "amqp091.Decoder": Entry(fed(amqp091.Decoder), *_amqp091()),
    "amqp091.Assembler": Entry(fed(amqp091.Assembler), *_amqp091()),
    "amqp10.Decoder": Entry(fed(amqp10.Decoder), *_amqp10()),
    "rocketmq.Decoder": Entry(fed(rocketmq.Decoder), *_rocketmq()),
    "nsq.Decoder": Entry(fed(nsq.Decoder, side="client"), *_nsq()),
    "phpmq.Decoder": Entry(fed(phpmq.Decoder), *_phpmq()),
    "mqtt.decode": Entry(lambda o: mqtt.decode(o, version=5), *_mqtt()),
    "amqp10.decode": Entry(amqp10.decode, *_amqp10()),
    "rocketmq.decode": Entry(rocketmq.decode, *_rocketmq()),
    "nsq.decode": Entry(lambda o: nsq.decode(o, side="client"), *_nsq()),
    "phpmq.decode": Entry(phpmq.decode, *_phpmq()),
    "nsq.frame_size": Entry(lambda o: nsq.frame_size(o, side="client"), *_nsq()),
    "phpmq.frame_size": Entry(phpmq.frame_size, *_phpmq()),
    "CaptureDecoder.feed": Entry(captured, *_capture()),
    "CaptureDecoder.feed_segments": Entry(unpacked, *PACKETS),
    "PacketScanner.feed": Entry(scanned, *_capture()),
    "PacketScanner.begin_file": Entry(ranged, *UNFINISHED),
    "PcapReader.feed": Entry(read_packets, *UNFINISHED),
    "PacketTrace.parse": Entry(traced, UNFINISHED[0], _capture()[1][40:2000]),
    "find_record": Entry(found, *_capture()),
    "convert_rows, octets": Entry(converted, *_amqp10()),
    "convert_rows, offsets": Entry(keyed, *NO_OFFSETS),
}


def tried(call: Callable[[Any], object], octets: Any) -> None:
    try:
        call(octets)
    except (WireError, ValueError):
        pass


def copied(call: Callable[[Any], object], octets: Any) -> bool:
    """Does Python allocate as much as the buffer holds? Columns, flows and records are C's and not counted."""
    size = memoryview(octets).nbytes
    assert size > SIZE
    tried(call, octets)
    tracemalloc.start()
    tried(call, octets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak >= size


@pytest.mark.parametrize("name", ENTRIES)
def test_what_may_change_is_copied(name: str, tmp_path: Path) -> None:
    call, large, _ = ENTRIES[name]
    assert not copied(call, large)
    makes_messages = name.endswith((".decode", ".Decoder", ".Assembler"))  # they keep bytes, not a view of others'
    assert copied(call, memoryview(large)) == makes_messages
    assert copied(call, memoryview(b"\0" + large)[1:]) == makes_messages
    assert copied(call, bytearray(large))
    assert copied(call, memoryview(bytearray(large)))
    assert copied(call, memoryview(bytearray(large)).toreadonly())
    assert copied(call, np.frombuffer(large, np.uint8))
    (tmp_path / "file").write_bytes(large)
    with open(tmp_path / "file", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert copied(call, mapped)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_buffer_that_changes_meanwhile(name: str) -> None:
    """Another thread writes without the GIL. Nothing is asserted but that the process lives: sanitizers see the rest."""
    call, _, many = ENTRIES[name]
    chance = random.Random(name)
    buffer = bytearray(many)
    over = threading.Event()
    with tempfile.TemporaryFile() as variants:
        for _ in range(8):
            variant = bytearray(many)
            for _ in range(len(many) // 20):
                variant[chance.randrange(len(many))] = chance.choice(b"\xff\x7f\x80\0\x0a0")
            variants.write(variant + many)

        def write() -> None:
            while not over.is_set():
                for place in range(16):
                    os.preadv(variants.fileno(), [buffer], place * len(many))

        variants.flush()
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(40):
                tried(call, buffer)
        finally:
            over.set()
            writer.join()


def test_frames_are_measured_in_a_copy() -> None:
    """frame_size of the binary protocols copies the few bytes that tell a size, however large the buffer is."""
    buffer: Any
    for call, octets in (
        (mqtt.frame_size, _mqtt()[0]),
        (amqp10.frame_size, _amqp10()[0]),
        (rocketmq.frame_size, _rocketmq()[0]),
        (amqp091.frame_size, _amqp091()[0]),
    ):
        for buffer in (octets, bytearray(octets), np.frombuffer(octets, np.uint8)):
            assert not copied(call, buffer)
            assert call(buffer) == call(octets[:20])
