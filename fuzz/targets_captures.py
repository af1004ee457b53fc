"""Fuzz targets of captures: files, packets, segments, layers and tunnels, pcapng, WebSockets, compressed streams."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
from captures import (
    capture_of,
    conversation,
    layered,
    odd_files,
    odd_packet_captures,
    odd_snappy,
    packets_of,
    pcapng,
    sample_captures,
    written,
)
from common import pyarrow, rows, same

from lib.protocols import PORTS
from lib.wire import connack, connect, socket_frame
from wirefmt import mqtt, nsq, rocketmq
from wirefmt.capture import Options
from wirefmt.capture._engine import CaptureDecoder, Dispatcher, PacketScanner, Share, find_record
from wirefmt.spec.table import COLUMNS

NAMES = [c.name for c in COLUMNS if c.name != "raw"]
#: Columns that NumPy has without pyarrow.
PLAIN = ["ts_ns", "frame_no", "byte_offset", "flow_id", "direction", "kind", "payload", "wire_size", "status", "error"]
DETAIL_OCTETS = 200
BATCH_BYTES = 1 << 20
#: Size of a batch: the requested size, plus its last rows, which may contain a large decompressed message.
BATCH_MOST, BATCH_RATIO = 24 << 20, 128


# ------------------------------------------------------------------------------------------------ rows


def decoded(
    octets: bytes, step: int, *, names: list[str] | None = None, dispatched: bool = False, **options: Any
) -> Any:
    """All rows of a capture file fed in chunks of `step` octets, with every column but `raw` or with the named columns; a
    table of Arrow's if there is one. `dispatched`: a dispatcher reads the chunks, as for several threads."""
    names = names or (NAMES if pyarrow is not None else PLAIN)
    decoder = CaptureDecoder(columns=names, batch_rows=16, batch_bytes=BATCH_BYTES, detail=True, **options)
    batches: list[Any] = []

    def take(final: bool = False) -> None:
        batch = decoder.take(final)
        if decoder.counts_traffic:
            decoder.take_transport()
        if batch is not None:
            if batch.nbytes > BATCH_MOST + BATCH_RATIO * len(octets):
                raise AssertionError(f"a batch of {batch.nbytes} octets from {len(octets)}")
            batches.append(batch)

    def take_shares(shares: tuple[Share, ...]) -> None:
        while not decoder.feed_share(shares[0]):
            take()
        take()

    dispatcher = Dispatcher(Options(tunnels=options.get("tunnels", False)))
    decoder.begin_file("fuzz", 0)
    for at in range(0, len(octets), step):
        chunk = memoryview(octets)[at : at + step]
        if dispatched:
            take_shares(dispatcher.dispatch(chunk))
            continue
        while len(chunk):
            chunk = chunk[decoder.feed(chunk) :]
            take()
    if dispatched:
        take_shares(dispatcher.end_file())
    while not decoder.end_file():
        take()
    while not decoder.finish():
        take()
    take(final=True)
    json.dumps(decoder.stats)
    count = sum(len(batch) for batch in batches)
    if count > 4 * len(octets) + 64:
        raise AssertionError(f"{count} rows from {len(octets)} octets")
    if pyarrow is None:
        return [tuple(row) for b in batches for row in zip(*(b[name].tolist() for name in PLAIN), strict=True)]
    found = [pyarrow.record_batch(batch) for batch in batches]
    for batch in found:
        batch.validate(full=True)
        details = [text for text in batch["detail"].to_pylist() if text is not None]
        same(all(0 < len(text.encode()) <= DETAIL_OCTETS for text in details), True, "detail")
    return pyarrow.Table.from_batches(found) if found else None


def same_rows(a: Any, b: Any, what: str, but: tuple[str, ...] = ()) -> None:
    """Tables that are equal in all columns except some."""
    if pyarrow is None:
        if not but:
            same(a, b, what)
        return
    if a is None or b is None:
        same(a is None, b is None, what)
        return
    a, b = (t.drop_columns(list(but)) for t in (a, b))
    if not a.equals(b):
        for name in a.column_names:
            same(a[name].to_pylist(), b[name].to_pylist(), f"{what}: {name}")
        same(a.num_rows, b.num_rows, what)


LIMITS: tuple[dict[str, int], ...] = (
    {}, {"max_flows": 2}, {"max_buffered": 5000}, {"max_message": 300}, {"max_pending": 1},
    {"max_flows": 1, "max_buffered": 2000}, {"max_message": 64, "max_pending": 2},
)  # fmt: skip


def known_limits(choice: int) -> dict[str, int]:
    return {name: n for name, n in LIMITS[choice % len(LIMITS)].items() if name in Options.LIMITS}


def options_of(octet: int) -> dict[str, Any]:
    return {
        "strictness": "strict" if octet & 0x80 else "lax", "tunnels": bool(octet & 0x40),
        "expose_credentials": bool(octet & 0x20), "payload_max": 5 if octet & 0x10 else None,
        "protocols": ["mqtt", "nsq", "rocketmq"] if octet & 8 else None,
    }  # fmt: skip


def capture(data: bytes) -> None:
    """A capture file: rows, never an exception; the same rows for any chunks, also if they are dispatched."""
    if not data:
        return
    octets, options = data[1:], options_of(data[0])
    whole = decoded(octets, max(1, len(octets)), **options)
    step = (1, 7, 64, 1000)[data[0] % 4]
    same_rows(decoded(octets, step, **options), whole, "rows for other chunks")
    same_rows(decoded(octets, step, dispatched=True, **options), whole, "rows of dispatched segments")


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
    """A capture file: its packets, the same for any chunks; the second stage reads their segments."""
    if not data:
        return
    octets, options = data[1:], {"tunnels": bool(data[0] & 0x40)}
    whole = scanned(octets, max(1, len(octets)), **options)
    same(scanned(octets, (1, 7, 64, 1000)[data[0] % 4], **options), whole, "packets for other chunks")
    segments(b"".join(row[-1] for row in whole if row[-1]))
    split(octets, int.from_bytes(data[1:3], "big"))


def split(octets: bytes, at: int) -> None:
    """Find record boundaries inside a file: a valid position, or none in the available part."""
    prefix = octets[: 24 if octets[:4] != b"\x1c\0\1\xac" else 28]
    at = 24 + at % max(1, len(octets))
    for last in (True, False):
        try:
            found = find_record(prefix, octets[at:], at, last, at + 100)
        except ValueError:
            return
        same(found == -1 or at <= found <= len(octets) + (1 << 18), True, f"record at {found}")
        if found >= 0:
            scanner = PacketScanner(columns=PACKET_COLUMNS, ports=(1883, 5672))
            scanner.begin_file("fuzz", 0, prefix=prefix, offset=found, first_frame=7)
            scanner.feed(octets[found:])
            scanner.end_file()
            while scanner.take(True) is not None:
                pass
            json.dumps(scanner.stats)


def segments(data: bytes) -> None:
    """Octets of the packets table's `segment` column, valid or not: rows, or a ValueError."""
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
    for data in capture_seeds():
        yield b"".join(row[-1] for row in scanned(data[1:], len(data), tunnels=True) if row[-1])[: 12 << 10]


def capture_seeds() -> Iterator[bytes]:
    yield from tiny_captures()
    for octets in odd_packet_captures():
        yield b"\x40" + octets
        yield b"\0" + octets
    for number, octets in enumerate((*odd_files(), *odd_snappy())):
        yield bytes([0x40 | number % 4]) + octets
    for octets in sample_captures():
        yield b"\x40" + octets
    for choice in range(64):
        octets, _ = pcapng(
            [p for seed in list(tiny_captures())[choice : choice + 1] for p in packets_of(seed[1:])], choice
        )
        yield bytes([choice]) + octets


# ------------------------------------------------------------------------------------------------ connections by chance


def frames_of(protocol: str) -> list[bytes]:
    """Valid frames or messages of a protocol's vectors."""
    found = []
    for row in rows(protocol):
        if row.get("hex") and row.get("valid", True) and row.get("kind") in KINDS[protocol] and len(row["hex"]) < 800:
            found.append(bytes.fromhex(row["hex"]))
    return found


KINDS = {
    "amqp091": ("frame", "sequence"), "amqp10": ("frame", "sequence", "sasl"), "phpmq": ("message",),
    "nsq": ("command",), "rocketmq": ("request", "captured-frame"),
}  # fmt: skip
OPENINGS = {"amqp091": b"AMQP\0\0\x09\1", "amqp10": b"AMQP\0\1\0\0", "nsq": b"  V2"}


def streams(r: random.Random, number: int) -> tuple[str, list[tuple[int, bytes]]]:
    """A conversation on a connection: frames of one protocol's vectors in any order."""
    protocol = ("mqtt", "mqtt", *KINDS)[number % 7]
    if protocol == "mqtt":
        version = 3 + number % 3
        packets = MQTT[version]
        said = [
            (0, r.choice([o for _, o in packets if o[0] == 0x10] or [connect("c", version)])),
            (1, connack(version)),
        ]
        for _ in range(r.randint(1, 6)):
            side, octets = r.choice(packets)
            if octets[0] != 0x10:
                said.append((side, octets))
        return protocol, said
    found = FRAMES[protocol]
    said = [(0, OPENINGS[protocol])] if protocol in OPENINGS else []
    return protocol, said + [(r.randrange(2), r.choice(found)) for _ in range(r.randint(1, 8))]


def mqtt_by_version() -> dict[int, list[tuple[int, bytes]]]:
    found: dict[int, list[tuple[int, bytes]]] = {3: [], 4: [], 5: []}
    for row in rows("mqtt"):
        if row.get("hex") and row["valid"] and len(row["hex"]) < 400 and row["version"] in found:
            found[row["version"]].append((row["direction"] == "s2c", bytes.fromhex(row["hex"])))
    return found


MQTT = mqtt_by_version()
FRAMES = {protocol: frames_of(protocol) for protocol in KINDS}


def tiny_captures() -> Iterator[bytes]:
    """Captures of one connection each, with segments swapped, repeated or lost at random."""
    r = random.Random(4)
    for number in range(210):
        protocol, said = streams(r, number)
        frames = conversation(PORTS[protocol], said, r.choice((1, 3, 20, 100, 1000)))[: 3 + r.choice((6, 60, 100))]
        if number % 2:
            frames = frames[3:]  # the capture began late
        for _ in range(min(r.choice((0, 0, 1, 3)), len(frames) - 1)):
            i = r.randrange(len(frames))
            if r.random() < 0.5:
                frames.insert(i, frames[-1])
            else:
                del frames[i]
        yield bytes([number % 64]) + capture_of(frames)


# ------------------------------------------------------------------------------------------------ layers, pcapng

FLOW = ("flow_id",)  # what a tunnel is part of
WHEN = ("ts", "ts_ns", "ts_first")
PLACE = (*WHEN, "frame_no", "byte_offset", "wire_size")


def layers(data: bytes) -> None:
    """A connection has the same rows in any layers and tunnels. The first octets: link, two layers, the octet to change."""
    if len(data) < 6:
        return
    frames = conversation(1883, [(0, connect("c", 4)), (1, connack(4)), (0, data[5:])], 1 + 10 * data[3])[:80]
    found = layered(frames, data[:3])
    if not found:
        return
    octets = written(found)
    whole = decoded(octets, len(octets), tunnels=True)
    if not data[0] & 0x80:  # otherwise fragments are frames by themselves
        plain = capture_of(frames)
        same_rows(whole, decoded(plain, len(plain)), "in layers", (*FLOW, "frame_no", "vlan"))
    spoilt = bytearray(octets)
    spoilt[24 + data[4] * 7 % (len(octets) - 24)] ^= 1 << data[3] % 8
    capture(b"\x40" + spoilt)


def layer_seeds() -> Iterator[bytes]:
    publish = mqtt.Publish(topic_name="a/b", payload=b"0123456789" * 5, version=4).encode()
    for link in range(7):
        for a in range(12):
            yield bytes((link | (a % 2) << 7, a, (a * 5 + link) % 12, 20 + a, 40)) + publish * 3


def pcapng_file(data: bytes) -> None:
    """Packets are the same in pcapng as in pcap, with any blocks between them."""
    if len(data) < 2:
        return
    found = packets_of(data[2:])[:100]
    octets, kept = pcapng([p._replace(octets=p.octets[:2000]) for p in found], data[0])
    same([p.ts_ns for p in packets_of(octets)], [p.ts_ns for p in kept], "time")
    plain = written(kept)
    if len({p.link_type for p in kept}) == 1 and all(0 <= p.ts_ns < 1 << 62 for p in kept):
        same_rows(decoded(octets, len(octets)), decoded(plain, len(plain)), "pcapng")
    spoilt = bytearray(octets)
    spoilt[data[1] * 11 % len(octets)] ^= 1 << data[0] % 8
    capture(bytes([data[1] & 0x43]) + spoilt)


def pcapng_seeds() -> Iterator[bytes]:
    for number, seed in enumerate(tiny_captures()):
        if number % 3 == 0:
            yield bytes((number, number * 7 % 256)) + seed[1:]


# ------------------------------------------------------------------------------------------------ WebSocket

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n",
)


#: A SOCKS5 proxy before the connection: RFC 1928.
TUNNEL = (
    (0, b"\5\2\0\2\1\1u\1p\5\1\0\3\1h\0\x50"),
    (1, b"\5\2\1\0\5\0\0\1" + bytes(6)),
)


def websocket(data: bytes) -> None:
    """MQTT in WebSocket frames of any sizes, with control frames between them, perhaps in compressed messages, has the rows of
    MQTT."""
    if len(data) < 4:
        return
    r = random.Random(data[:3])
    stream = connect("c", 4) + data[3:]
    fresh = data[0] & 4 != 0
    deflate = Deflate() if data[0] & 2 else None
    agreed = (
        b"Sec-WebSocket-Extensions: permessage-deflate"
        + (b"; client_no_context_takeover" if fresh else b"")
        + b"\r\n\r\n"
    )
    frames = [(0, UPGRADE[0]), (1, UPGRADE[1] if deflate is None else UPGRADE[1][:-2] + agreed)]
    plain = []
    at = 0
    while at < len(stream):
        size = r.choice((1, 5, 125, 126, 1000, 70000))
        if r.random() < 0.2:
            frames.append((0, socket_frame(b"ping"[: r.randint(0, 4)], first=r.choice((0x89, 0x8A)), mask=b"wxyz")))
        part = stream[at : at + size]
        if deflate is not None and r.random() < 0.8:
            deflate = Deflate() if fresh else deflate
            part = deflate(part)[:-4]  # RFC 7692, 7.2.1
            cut = r.randint(0, len(part))
            if r.random() < 0.5:
                frames.append((0, socket_frame(part[:cut], first=0x42, mask=r.randbytes(4))))
                frames.append((0, socket_frame(part[cut:], first=0x80, mask=r.randbytes(4))))
            else:
                frames.append((0, socket_frame(part, first=0xC2, mask=r.randbytes(4))))
        else:
            first = 0x82 if at == 0 or deflate is not None else r.choice((0x82, 0x80, 0x00))
            frames.append((0, socket_frame(part, first=first, mask=r.randbytes(4))))
        plain.append((0, stream[at : at + size]))
        at += size
    frames.append((1, socket_frame(connack(4))))
    plain.append((1, connack(4)))
    tunnel = data[0] & 8 != 0
    octets = capture_of(conversation(80, [*TUNNEL, *frames] if tunnel else frames, r.choice((7, 100, 1448))))
    whole = decoded(octets, len(octets))
    if tunnel and whole is not None:
        whole = whole.slice(1)
    direct = capture_of(conversation(80, plain))
    but = (*PLACE, *FLOW)
    found = decoded(direct, len(direct))
    if data[0] & 1 and found is not None and set(found["status"].to_pylist()) == {"ok"}:
        same_rows(whole, found, "in a WebSocket", but)
    spoilt = bytearray(octets)
    spoilt[24 + data[1] * 13 % (len(octets) - 24)] ^= 1 << data[2] % 8
    capture(bytes([data[2] & 0xC3]) + spoilt)


def websocket_seeds() -> Iterator[bytes]:
    r = random.Random(5)
    for number in range(60):
        said = b"".join(octets for side, octets in r.sample(MQTT[4], 5) if side == 0 and octets[0] != 0x10)
        yield r.randbytes(3) + said + (b"\x30\xf0\x01\0\1a" + bytes(237) if number % 5 == 0 else b"")


# ------------------------------------------------------------------------------------------------ compressed streams


class Deflate:
    """Raw deflate, flushed after each write, as nsqd does."""

    def __init__(self) -> None:
        self.stream = zlib.compressobj(6, zlib.DEFLATED, -15)

    def __call__(self, octets: bytes) -> bytes:
        return self.stream.compress(octets) + self.stream.flush(zlib.Z_SYNC_FLUSH)


class Snappy:
    """The framing format, beginning with its stream identifier."""

    def __init__(self) -> None:
        self.begun = False

    def __call__(self, octets: bytes) -> bytes:
        out = bytes(cramjam.snappy.compress(octets))
        self.begun, begun = True, self.begun
        return out[10:] if begun else out


def nsq_session(data: bytes) -> None:
    """A compressed session has the rows of an uncompressed one. Then one octet of it is changed."""
    if len(data) < 5:
        return
    mode = ("deflate", "snappy")[data[0] & 1]
    step = 1 + data[1] * 5
    said = []
    for at in range(4, len(data), step):
        said.append((data[at] >> 6 & 1, data[at : at + step]))
    features: dict[str, Any] = {mode: True}
    identify = b"  V2" + nsq.Identify(client_id="c", feature_negotiation=True, **features).encode()
    members = {"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": False}
    captures = []
    for packed in (True, False):
        pack = [(Deflate if mode == "deflate" else Snappy)() if packed else bytes for _ in range(2)]
        answer = nsq.Response(members=members | ({mode: True} if packed else {})).encode()
        ok = nsq.Response(b"OK").encode()
        sent = [(0, identify), (1, answer), (1, pack[1](ok))]
        sent += [(side, pack[side](octets)) for side, octets in said]
        captures.append(capture_of(conversation(4150, sent, 1448 if data[0] & 2 else 50)))
    found = [decoded(octets, len(octets)) for octets in captures]
    if pyarrow is not None and len(data) < 4096:
        kinds = [[(r["kind"], r["direction"], r["payload"], r["status"]) for r in t.to_pylist()] for t in found]
        ended = any(status != "ok" for rows_ in kinds for *_, status in rows_)
        if not ended:
            same(sorted(map(repr, kinds[0])), sorted(map(repr, kinds[1])), f"compressed by {mode}")
    spoilt = bytearray(captures[0])
    spoilt[24 + int.from_bytes(data[2:4], "big") % (len(spoilt) - 24)] ^= 1 << data[1] % 8
    capture(bytes([data[2] & 0x83]) + spoilt)


def nsq_session_seeds() -> Iterator[bytes]:
    r = random.Random(6)
    client = [o for o in FRAMES["nsq"] if o[:4] != b"  V2"]
    for number in range(60):
        yield bytes((number, r.randrange(256))) + r.randbytes(2) + b"".join(r.sample(client, 5))
    for octets in (b"NOP\n" * 500, b"PUB t\n\0\0\x27\x10" + b"a" * 10000, b"PUB t\n\0\0\x27\x10" + r.randbytes(10000)):
        yield b"\0\xff\1\2" + octets
        yield b"\1\xff\1\2" + octets


PACKERS: tuple[tuple[int, Callable[[bytes], bytes]], ...] = (
    (0x001, lambda o: zlib.compress(o)),
    (0x301, lambda o: zlib.compress(o)),
    (0x101, lambda o: bytes(cramjam.lz4.compress(o))),
    (0x201, lambda o: bytes(cramjam.zstd.compress(o))),
    (0x401, lambda o: o),
)


def rocketmq_inflate(data: bytes) -> None:
    """Compressed bodies of sent and of stored messages are decompressed; damaged ones are shown unchanged."""
    if len(data) < 4:
        return
    flag, pack = PACKERS[data[0] % len(PACKERS)]
    body = data[4:] * (1 + data[1] % 8 * 40)
    packed = bytearray(pack(body))
    spoilt = data[0] & 0x40 and len(packed)
    if spoilt:
        packed[int.from_bytes(data[2:4], "big") % len(packed)] ^= 1 << data[1] % 8
    fields = {"topic": "t", "sysFlag": str(flag), "properties": "KEYS\1k\2"}
    send = rocketmq.RemotingCommand(code=10, opaque=1, ext_fields=fields, body=bytes(packed)).encode()
    plain = rocketmq.MessageExt(topic="t", body=bytes(packed)).encode()
    stored = plain[:36] + flag.to_bytes(4, "big") + plain[40:]  # SYSFLAG
    answer = rocketmq.RemotingCommand(code=0, flag=1, opaque=9, body=stored * (1 + data[1] % 3)).encode()
    octets = capture_of(conversation(10911, [(0, send), (1, answer)]))
    found = decoded(octets, len(octets), decode_as="tcp.port==10911,rocketmq")
    if not spoilt and flag < 0x400 and pyarrow is not None:
        same(set(found["payload"].to_pylist()), {body}, f"inflated, {flag:#x}")
    for unpack in (True, False):
        try:
            for message in rocketmq.decode_messages(stored, decompress=unpack):
                repr(message), message.body
        except ValueError:
            same(bool(spoilt) or flag >= 0x400, True, "refused")


def inflate_seeds() -> Iterator[bytes]:
    for number in range(40):
        yield bytes((number | (number & 8) << 3, number * 7 % 256, 0, number)) + bytes(range(32, 32 + number * 2))


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "capture": (capture, capture_seeds),
    "packets": (packets, capture_seeds),
    "segments": (segments, segment_seeds),
    "layers": (layers, layer_seeds),
    "pcapng": (pcapng_file, pcapng_seeds),
    "websocket": (websocket, websocket_seeds),
    "nsq_session": (nsq_session, nsq_session_seeds),
    "rocketmq_inflate": (rocketmq_inflate, inflate_seeds),
}
