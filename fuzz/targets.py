"""One fuzz target for each decoder. A target takes any octets; whatever it raises is a bug of ours.

The first octet of an input chooses options, the rest is for the decoder. Besides "a message or a DecodeError, never
anything else" a target checks what must hold for any octets: that LAX takes what STRICT takes, that a Decoder gives the
same for any cutting of a stream, that a batch has the rows of the messages.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import targets_amqp091
import targets_amqp10
import targets_convert
import targets_nsq
import targets_rocketmq
from common import feed, same

from wirefmt import mqtt
from wirefmt._core import CaptureDecoder, PacketScanner
from wirefmt.errors import DecodeError, EncodeError

try:
    import pyarrow
except ImportError:
    pyarrow = None

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"
DATA = ROOT / "tests" / "data"
SHARED = ROOT.parent / "shared"


class Target(NamedTuple):
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


def vectors(name: str) -> Iterator[dict[str, Any]]:
    """Rows of a file of vectors: the repository's, and the shared ones beside the checkout where they are."""
    for folder in (VECTORS / "mqtt", SHARED / "vectors" / "mqtt"):
        path = folder / name
        if path.exists():
            with open(path, encoding="utf-8") as lines:
                yield from map(json.loads, lines)
            return


# ------------------------------------------------------------------------------------------------ one MQTT packet


def mqtt_options(octet: int) -> dict[str, Any]:
    return {"version": 3 + octet % 3, "side": ("client", "server", None)[octet // 3 % 3]}


def mqtt_seeds() -> Iterator[bytes]:
    for name in ("public.jsonl", "ambiguous.jsonl"):
        for row in vectors(name):
            if row.get("hex"):
                side = {"c2s": 0, "s2c": 1}.get(row["direction"], 2)
                yield bytes([row["version"] - 3 + 3 * side]) + bytes.fromhex(row["hex"])


def decode_or_error(octets: bytes, **options: Any) -> Any:
    """A message, or the error; errors are compared by what they say."""
    try:
        return mqtt.decode(octets, **options)
    except DecodeError as error:
        str(error)
        same(0 <= error.offset <= len(octets), True, f"offset {error.offset}")
        return error


def mqtt_packet(data: bytes) -> None:
    if not data:
        return
    options, octets = mqtt_options(data[0]), data[1:]
    strict = decode_or_error(octets, **options)
    lax = decode_or_error(octets, **options, strictness="lax")
    if not isinstance(strict, DecodeError):
        same(strict, lax, "STRICT and LAX")
    if isinstance(lax, DecodeError):
        return
    repr(lax), hash(lax)
    for field in type(lax).__match_args__:
        getattr(lax, field)
    if not isinstance(strict, DecodeError):
        again = strict.encode()
        same(mqtt.decode(again, **options).encode(), again, "encoding is settled after one turn")
    try:
        size = mqtt.frame_size(octets)
    except DecodeError as error:
        raise AssertionError("frame_size refuses what decode reads") from error
    same(size, len(octets), "frame_size")


# ------------------------------------------------------------------------------------------------ a stream of them


def mqtt_stream(data: bytes) -> None:
    if len(data) < 2:
        return
    options, step, octets = mqtt_options(data[0]), data[1] % 32 + 1, data[2:]
    if data[0] & 0x40:
        options["version"] = None  # learned from CONNECT
    if data[0] & 0x80:
        options["strictness"] = "lax"
    cuts = list(range(step, len(octets), step))
    whole, parts = (feed(mqtt.Decoder, octets, pieces, **options) for pieces in ([], cuts))
    same(parts[0][: len(whole[0])], whole[0], "messages of a stream in parts")
    same(parts[1], whole[1], "error of a stream in parts")


def mqtt_stream_seeds() -> Iterator[bytes]:
    packets: dict[int, bytes] = {}
    for seed in mqtt_seeds():
        key = seed[0]
        packets[key] = packets.get(key, b"") + seed[1:]
        if len(packets[key]) > 400:
            yield bytes([key, len(packets[key]) % 32]) + packets.pop(key)


# ------------------------------------------------------------------------------------------------ batches


def sometimes(octets: bytes) -> bool:
    """For what costs more than decoding; the same answer for the same octets."""
    return zlib.crc32(octets) % 8 == 0


def check_batch(batch: Any) -> None:
    """Arrow finds offsets, lengths and UTF-8 in order."""
    if pyarrow is not None:
        pyarrow.record_batch(batch).validate(full=True)


def mqtt_batch(data: bytes) -> None:
    """Rows are the packets one by one: what frame_size cuts off and decode reads, or an error in its place."""
    if not data:
        return
    options, octets = mqtt_options(data[0]), data[1:]
    options["strictness"] = "lax" if data[0] & 0x80 else "strict"
    batch = mqtt.decode_batch(octets, **options)
    if sometimes(octets):
        check_batch(batch)
    at = row = 0
    while at < len(octets):
        try:
            size = mqtt.frame_size(octets[at:])
        except DecodeError:
            size = len(octets) - at
        if not isinstance(size, int) or size > len(octets) - at:
            break
        message = decode_or_error(octets[at : at + size], **options)
        same(batch["offset"][row], at, "offset")
        same(batch["size"][row], size, "size")
        same(bool(batch.validity("error")[row]), isinstance(message, DecodeError), "error")
        if isinstance(message, mqtt.Publish):
            same(batch["topic_name"][row], message.topic_name, "topic")
            same(batch["payload"][row], message.payload_bytes(), "payload")
        if isinstance(message, mqtt.Connect):
            options["version"] = message.version
        at += size
        row += 1
    same((batch.num_rows, batch.rest), (row, len(octets) - at), "rows, octets left")


# ------------------------------------------------------------------------------------------------ topics


def naive_match(filter: str, topic: str, version: int) -> bool:
    if version == 5 and filter.startswith("$share/"):
        filter = filter.split("/", 2)[2]
    if version > 3 and topic.startswith("$") and filter[0] in "+#":
        return False
    levels, names = filter.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels.pop()
        names = names[: len(levels)]
    return len(levels) == len(names) and all(a in ("+", b) for a, b in zip(levels, names, strict=True))


def topics(data: bytes) -> None:
    """Lines: the first is a topic, the others are filters; all go into one index, and every second one out again."""
    if not data:
        return
    version = 3 + data[0] % 3
    topic, *filters = data[1:].split(b"\n")
    index: mqtt.TopicIndex[bytes] = mqtt.TopicIndex(version)
    good = []
    for line in filters:
        try:
            mqtt.validate_topic_filter(line, version)
        except EncodeError:
            continue
        index.add(line, line)
        good.append(line)
    try:
        mqtt.validate_topic_name(topic, version)
    except EncodeError:
        index.match(topic)
        return
    expected = {f for f in good if naive_match(f.decode(), topic.decode(), version)}
    same({f for f in good if mqtt.matches(f, topic, version)}, expected, "matches")
    same(set(index.match(topic)), expected, "index")
    for line in good[::2]:
        index.discard(line, line)
    same(set(index.match(topic)), expected - set(good[::2]), "index after discarding")
    for line in good[1::2]:
        index.discard(line, line)
    same((len(index), index.match(topic)), (0, []), "emptied index")


def topic_seeds() -> Iterator[bytes]:
    rows = [r for r in vectors("topics.jsonl") if r["kind"] == "match" and isinstance(r["topic"], str)]
    for k, row in enumerate(rows):
        filters = [r["filter"] for r in rows[k : k + 20] if isinstance(r["filter"], str)]
        yield bytes([row["version"] - 3]) + "\n".join([row["topic"], *filters]).encode()


# ------------------------------------------------------------------------------------------------ captures


def rows_of(octets: bytes, step: int, **options: Any) -> list[Any]:
    """All rows of a capture file fed in chunks of `step` octets, as lists of columns, batch after batch."""
    decoder = CaptureDecoder(columns=CAPTURE_COLUMNS, batch_rows=16, detail=True, **options)
    found: list[Any] = []

    def take(final: bool = False) -> None:
        batch = decoder.take(final)
        if batch is not None:
            if sometimes(octets):
                check_batch(batch)
            found.extend(zip(*(batch[name].tolist() for name in CAPTURE_COLUMNS), strict=True))

    decoder.begin_file("fuzz", 0)
    for at in range(0, len(octets), step):
        chunk = memoryview(octets)[at : at + step]
        while len(chunk):
            chunk = chunk[decoder.feed(chunk) :]
            take()
    while not decoder.end_file():
        take()
    while not decoder.finish():
        take()
    take(final=True)
    return found


CAPTURE_COLUMNS = [
    "ts_ns",
    "frame_no",
    "byte_offset",
    "flow_id",
    "direction",
    "kind",
    "payload",
    "wire_size",
    "status",
    "error",
    "detail",
]


def capture(data: bytes) -> None:
    """A capture file: rows, never an exception; the same rows for any chunks."""
    if not data:
        return
    octets = data[1:]
    options: dict[str, Any] = {"strictness": "strict" if data[0] & 0x80 else "lax", "tunnels": bool(data[0] & 0x40)}
    whole = rows_of(octets, max(1, len(octets)), **options)
    same(rows_of(octets, (1, 7, 64, 1000)[data[0] % 4], **options), whole, "rows for other chunks")
    same(all(0 < len(row[-1].encode()) <= 200 for row in whole if row[-1] is not None), True, "detail")


def scanned(octets: bytes, step: int, **options: Any) -> list[Any]:
    """Rows of the packets table."""
    scanner = PacketScanner(columns=PACKET_COLUMNS, batch_rows=16, **options)
    found: list[Any] = []

    def take(final: bool = False) -> None:
        while (batch := scanner.take(final)) is not None:
            found.extend(zip(*(batch[name].tolist() for name in PACKET_COLUMNS), strict=True))

    scanner.begin_file("fuzz", 0)
    for at in range(0, len(octets), step):
        scanner.feed(octets[at : at + step])
        take()
    scanner.end_file()
    take(final=True)
    return found


PACKET_COLUMNS = ["frame_no", "ts_ns", "flow_hash", "pair_hash", "seq", "payload_size", "segment"]


def packets(data: bytes) -> None:
    """A capture file: its packets, the same for any chunks; their segments are taken by the second stage."""
    if not data:
        return
    octets, options = data[1:], {"tunnels": bool(data[0] & 0x40)}
    whole = scanned(octets, max(1, len(octets)), **options)
    same(scanned(octets, (1, 7, 64, 1000)[data[0] % 4], **options), whole, "packets for other chunks")
    segments(b"".join(row[-1] for row in whole if row[-1]))


def segments(data: bytes) -> None:
    """Octets of the packets table's `segment` column, or what claims to be: rows, or a ValueError."""
    decoder = CaptureDecoder(batch_rows=16, flows="across-files")
    decoder.begin_file("fuzz", 0)
    at = 0
    try:
        while at < len(data):
            at += decoder.feed_segments(data[at:])
            decoder.take()
    except ValueError:
        pass
    while not decoder.finish():
        decoder.take()
    decoder.take(final=True)


def segment_seeds() -> Iterator[bytes]:
    for data in tiny_captures():
        yield b"".join(row[-1] for row in scanned(data[1:], len(data)) if row[-1])


def capture_seeds() -> Iterator[bytes]:
    yield from tiny_captures()
    for folder in (DATA, ROOT / "samples", SHARED / "captures" / "live"):
        for path in sorted([*folder.rglob("*.pcap"), *folder.rglob("*.pcapng")]):
            if path.stat().st_size <= 1 << 15:
                yield b"\3" + path.read_bytes()


def tiny_captures() -> Iterator[bytes]:
    """Captures of one connection each: raw IPv4 and TCP, its segments cut, swapped, doubled or lost by chance."""
    r = random.Random(4)
    by_version: dict[int, list[tuple[int, bytes]]] = {3: [], 4: [], 5: []}
    for row in vectors("public.jsonl"):
        if row.get("hex") and row["valid"] and len(row["hex"]) < 400:
            by_version[row["version"]].append((row["direction"] == "s2c", bytes.fromhex(row["hex"])))
    for k in range(120):
        rows = by_version[3 + k % 3]
        if not rows:
            return
        connect = r.choice([o for side, o in rows if o[0] == 0x10])
        streams = [connect, x_connack(3 + k % 3)]
        for _ in range(r.randint(1, 6)):
            side, octets = r.choice(rows)
            if octets[0] != 0x10:
                streams[side] += octets
        segments = []
        for side, stream in enumerate(streams):
            at = 0
            while at < len(stream):
                size = r.choice((1, 3, 20, 100, 1000))
                segments.append((side, at, stream[at : at + size]))
                at += size
        for _ in range(min(r.choice((0, 0, 1, 3)), len(segments) - 1)):
            i = r.randrange(len(segments))
            if r.random() < 0.5:
                segments.insert(i, segments[-1])
            else:
                del segments[i]
        yield bytes([k]) + pcap([tcp(side, 1000 + at, part) for side, at, part in segments])
    yield from tiny_amqp_captures(r)


def tiny_amqp_captures(r: random.Random) -> Iterator[bytes]:
    """The same of AMQP, both versions: a protocol header, then frames of the vectors in any order."""
    for name, header in (("amqp091", b"AMQP\0\0\x09\1"), ("amqp10", b"AMQP\0\1\0\0")):
        path = VECTORS / name / "public.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        frames = [bytes.fromhex(v["hex"]) for v in map(json.loads, lines) if v["kind"] in ("frame", "sequence", "sasl")]
        frames = [octets for octets in frames if len(octets) < 400]
        for k in range(60 if frames else 0):
            packets = [tcp(0, 1000, header, 5672)]
            at = [1000 + len(header), 1000]
            for _ in range(r.randint(1, 8)):
                side, octets = r.randrange(2), r.choice(frames)
                if r.random() < 0.9:  # else it is lost
                    packets.append(tcp(side, at[side], octets, 5672))
                at[side] += len(octets)
            yield bytes([k]) + pcap(packets)


def x_connack(version: int) -> bytes:
    return bytes.fromhex("2003000000" if version == 5 else "20020000")


def tcp(side: int, sequence: int, payload: bytes, port: int = 1883) -> bytes:
    """An IPv4 packet with a TCP segment: 40000 to `port`, or back."""
    ports, addresses = [(40000).to_bytes(2, "big"), port.to_bytes(2, "big")], [b"\x0a\0\0\1", b"\x0a\0\0\2"]
    segment = ports[side] + ports[1 - side] + sequence.to_bytes(4, "big") + bytes(4) + b"\x50\x18\xff\xff" + bytes(4)
    total = (40 + len(payload)).to_bytes(2, "big")
    header = b"\x45\0" + total + bytes(4) + b"\x40\6\0\0" + addresses[side] + addresses[1 - side]
    return header + segment + payload


def pcap(packets: list[bytes]) -> bytes:
    """A capture file of raw IP packets, one a millisecond."""
    out = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 00000400 65000000")
    for k, octets in enumerate(packets):
        size = len(octets).to_bytes(4, "little")
        out += (1_700_000_000).to_bytes(4, "little") + (k * 1000).to_bytes(4, "little") + size * 2 + octets
    return out


TARGETS: dict[str, Target] = {
    "mqtt_packet": Target(mqtt_packet, mqtt_seeds),
    "mqtt_stream": Target(mqtt_stream, mqtt_stream_seeds),
    "mqtt_batch": Target(mqtt_batch, mqtt_stream_seeds),
    "topics": Target(topics, topic_seeds),
    "capture": Target(capture, capture_seeds),
    "packets": Target(packets, capture_seeds),
    "segments": Target(segments, segment_seeds),
    **{name: Target(*pair) for name, pair in targets_amqp091.TARGETS.items()},
    **{name: Target(*pair) for name, pair in targets_rocketmq.TARGETS.items()},
    **{name: Target(*pair) for name, pair in targets_amqp10.TARGETS.items()},
    **{name: Target(*pair) for name, pair in targets_nsq.TARGETS.items()},
    **{name: Target(*pair) for name, pair in targets_convert.TARGETS.items()},
}
