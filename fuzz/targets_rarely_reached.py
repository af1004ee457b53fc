"""Fuzz targets of rarely reached code: disorder and limits of captures, other formats of files, Python values,
texts of RocketMQ, objects in every way that Python allows."""

from __future__ import annotations

import copy
import pickle
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from captures import conversation, packets_of
from common import rows, same
from targets_captures import decoded, known_limits, same_rows, streams, tiny_captures
from targets_objects import ERRORS, Source, value

from lib import core_walk
from lib.protocols import PORTS
from lib.wire import ACK, FIN, SYN, Tcp, pcap, publish
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq
from wirefmt.capture import CaptureDecoder
from wirefmt.capture._engine import PcapReader, StreamTrace
from wirefmt.errors import DecodeError, LimitExceeded

# ------------------------------------------------------------------------------------------------ disorder and limits

RST = 4


def disorder(frames: list[bytes], r: random.Random, others: list[bytes]) -> list[bytes]:
    """Lost, repeated, late, overlapping, truncated, reset, and from other connections."""
    out = list(frames)
    for _ in range(r.choice((0, 1, 2, 4, 8, 20))):
        if len(out) < 2:
            break
        i, j = r.randrange(len(out)), r.randrange(len(out))
        frame = bytearray(out[i])
        kind = r.randrange(11) if len(frame) >= 54 else r.randrange(4)
        if kind == 0:
            del out[i]
        elif kind == 1:
            out.insert(j, out[i])
        elif kind == 2:
            out[i], out[j] = out[j], out[i]
        elif kind == 3:
            out.insert(j, out.pop(i))
        elif kind in (4, 5) and len(frame) > 58:  # the same octets or others, in other pieces
            cut = r.randrange(1, len(frame) - 54)
            (seq,) = struct.unpack_from(">I", frame, 38)
            struct.pack_into(">I", frame, 38, seq + cut & 0xFFFFFFFF)
            struct.pack_into(">H", frame, 16, len(frame) - 14 - cut)
            del frame[54 : 54 + cut]
            if kind == 5:
                frame[54:] = r.randbytes(len(frame) - 54)
            out.insert(j, bytes(frame))
        elif kind == 6:  # flags of its own
            frame[47] = r.choice((RST, RST | ACK, SYN, SYN | ACK, FIN, FIN | ACK, SYN | FIN, 0))
            out.insert(j, bytes(frame))
        elif kind == 7:  # truncated by the snapshot length
            out[i] = bytes(frame[: r.randrange(14, len(frame) + 1)])
        elif kind == 8:  # far away
            struct.pack_into(">I", frame, 38, r.getrandbits(32))
            out.insert(j, bytes(frame))
        elif kind == 9:  # an octet of nothing, to keep the connection
            (seq,) = struct.unpack_from(">I", frame, 38)
            struct.pack_into(">I", frame, 38, seq - 1 & 0xFFFFFFFF)
            struct.pack_into(">H", frame, 16, 41)
            out.insert(j, bytes(frame[:54]) + b"\0")
        else:
            out.insert(j, r.choice(others) if others else b"\0" * 60)
    return out


def tcp(data: bytes) -> None:
    """Connections in disorder, with small limits: the same rows for any chunks, and never more than was sent."""
    if len(data) < 8:
        return
    r = random.Random(data[2:])
    frames: list[bytes] = []
    for number in range(1 + data[0] % 4):
        protocol, said = streams(r, data[1] + number)
        if data[1] & 0x80:
            said += [(r.randrange(2), data[8:])]
        found = conversation(PORTS[protocol], said, r.choice((1, 7, 100, 1448)))[:120]
        frames += disorder(found, r, frames)
    if data[0] & 0x40:
        r.shuffle(frames)
    options: dict[str, Any] = {
        "limits": known_limits(data[0] >> 2 & 7),
        "strictness": ("lax", "strict")[data[1] >> 6 & 1],
    }
    if data[0] & 0x20:
        options |= {"flows": "across-files", "slice": (r.randrange(2), 2)}
    octets = pcap(frames)
    whole = decoded(octets, len(octets), **options)
    same_rows(decoded(octets, r.choice((7, 60, 1000)), **options), whole, "rows for other chunks")


def tcp_seeds() -> Iterator[bytes]:
    r = random.Random(9)
    for number in range(400):
        yield bytes((number * 5 % 256, number % 256)) + r.randbytes(6) + r.randbytes(number % 5 * 9)
    yield from late_beginnings()


def late_beginnings() -> Iterator[bytes]:
    """The first segment of a connection comes last: the other side's data must wait."""
    for number in range(20):
        yield bytes((0x40, 0x80 | number)) + bytes(6) + publish("a", bytes(number * 9))


def twisted(data: bytes) -> None:
    """A connection whose directions are captured separately: one side whole before the other, or its beginning last."""
    if len(data) < 4:
        return
    protocol, said = streams(random.Random(data[:3]), data[0])
    said = [*said, (data[1] & 1, data[3:])]
    talk = Tcp(PORTS[protocol])
    opened = talk.open()
    sides: list[list[bytes]] = [[], []]
    for side, octets in said:
        sides[side] += talk.send(side, octets, 1 + data[2] * 8)
    order = (sides[0] + sides[1], sides[1] + sides[0], sides[0][1:] + sides[1] + sides[0][:1], sides[1])[
        data[1] >> 1 & 3
    ]
    octets = pcap([*opened, *order, *talk.close()] if data[1] & 8 else order)
    options: dict[str, Any] = {"limits": known_limits(data[1] >> 4)}
    whole = decoded(octets, max(1, len(octets)), **options)
    same_rows(decoded(octets, 50, **options), whole, "rows for other chunks")


def twisted_seeds() -> Iterator[bytes]:
    for number in range(160):
        yield bytes((number, number * 7 % 256, number % 13)) + b"\x30\4\0\1ab" * (number % 3)


def reassembly(data: bytes) -> None:
    """The reassembly alone: segments in any order and repeated give the octets that were sent; lost data is a gap."""
    if len(data) < 4:
        return
    r = random.Random(data)
    trace = StreamTrace(max_flows=(1 << 18, 5)[data[0] & 1], idle_seconds=(10800, 2)[data[0] >> 1 & 1])
    lossy, known = data[0] & 4, data[0] & 8
    for number in range((1, 3, 2000)[data[1] % 3]):
        ends = ((1, 1000 + number), (2, 1883))
        seq = [r.choice((5, 0xFFFFFFF0, 1 << 31)) for _ in ends]
        if known:
            trace.segment_in(*ends, SYN, seq[0], frame_no=1)
            trace.segment_in(*ends[::-1], SYN | ACK, seq[1], seq[0] + 1, frame_no=2)
        if data[1] % 3 == 2 and number:
            continue  # a table of many flows
        text = (data[2:], data[:1:-1])
        pieces = []
        for side in range(2):
            at = 0
            while at < len(text[side]):
                size = r.randint(1, 20)
                pieces.append((side, at, text[side][at : at + size]))
                at += size
        last = {side: max((p for p in pieces if p[0] == side), default=None) for side in range(2)}
        pieces += r.sample(pieces, len(pieces) // 3)
        if known:
            r.shuffle(pieces)
        if lossy:
            del pieces[:: r.randint(2, 5)]
        for frame_no, (side, at, octets) in enumerate(pieces, 3):
            flags = ACK | (FIN if (side, at, octets) == last[side] and data[0] & 16 else 0)
            cut = len(octets) + (lossy and r.randrange(2) * 3)
            trace.segment_in(
                ends[side], ends[1 - side], flags | 8 * r.randrange(2), seq[side] + 1 + at, seq[1 - side] + 1, octets,
                size=cut, ts_ns=frame_no * 10**9 * (data[3] % 4), frame_no=frame_no, capture=frame_no * (data[0] >> 5 & 1),
            )  # fmt: skip
        if data[0] & 64:
            trace.segment_in(*ends, RST, seq[0] + 1)
    trace.finish()
    repr(trace.events), repr(trace.stats)
    same(trace.stats["buffered"], 0, "octets held at the end")
    if known and not lossy and not data[0] & 0x62 and data[1] % 3 == 0 and data[3] % 4 == 0:
        for side, end in enumerate(("client", "server")):
            got = b"".join(event[2] for event in trace.events if event[:2] == ("octets", end))
            same(got, (data[2:], data[:1:-1])[side], f"octets of the {end}")


def reassembly_seeds() -> Iterator[bytes]:
    r = random.Random(13)
    for choice in range(128):
        for more in range(2):
            yield bytes((choice, choice % 3 * more, r.randrange(256), choice % 7 * more)) + r.randbytes(40 + choice * 2)


# ------------------------------------------------------------------------------------------------ formats of files


def reformed(packets: list[Any], choice: int) -> bytes:
    """Other forms of pcap: either byte order, Kuznetzov's and IXIA's records, sizes in the wrong order."""
    order = "<>"[choice & 1]
    magic, ticks, more = (
        (0xA1B2C3D4, 10**6, 0),
        (0xA1B23C4D, 10**9, 0),
        (0xA1B2CD34, 10**6, 8),
        (0x1C0001AC, 10**9, 0),
    )[choice >> 1 & 3]
    link_type = packets[0].link_type if packets else 1
    out = [struct.pack(order + "IHHiIII", magic, 543 if choice & 64 else 2, 4, 0, 0, 65535, link_type)]
    if magic == 0x1C0001AC:
        out.append(bytes(4))
    for p in packets:
        seconds, rest = divmod(p.ts_ns, 10**9)
        sizes = (len(p.octets), p.original) if not choice & 8 else (p.original, len(p.octets))
        head = struct.pack(order + "IIII", seconds & 0xFFFFFFFF, rest * ticks // 10**9, *sizes)
        out.append(head + bytes(more) + p.octets)
    return b"".join(out)


def file_format(data: bytes) -> None:
    """Any file: its format is reported, and its packets are those of the plain form."""
    if len(data) < 3:
        return
    packets = packets_of(data[2:])[:60]
    octets = reformed(packets, data[0])
    spoilt = bytearray(octets)
    if data[1]:
        spoilt[data[1] * 17 % len(spoilt)] ^= 1 << data[0] % 8
        del spoilt[len(spoilt) - data[1] % 30 :]
    for text in (octets, bytes(spoilt), bytes(data[2:40]), octets[: data[1]], octets + bytes(data[1])):
        reader = PcapReader()
        for at in range(0, len(text), 1 + data[0] * 4):
            reader.feed(text[at : at + 1 + data[0] * 4])
        reader.close()
        repr(reader.faults)
        decoder = CaptureDecoder()
        decoder.begin_file("x", 0)
        at = 0
        while at < len(text):
            at += decoder.feed(text[at:])
            decoder.take()
        while not decoder.end_file():
            decoder.take()
        repr(decoder.fault if hasattr(decoder, "fault") else None)
        decoder.report("no such file") if hasattr(decoder, "report") else None
        while not decoder.finish():
            decoder.take()
        decoder.take(final=True)


def format_seeds() -> Iterator[bytes]:
    for number, seed in enumerate(tiny_captures()):
        if number % 2 == 0:
            yield bytes((number * 3 % 256, number % 3 * number % 256)) + seed[1:]
    for magic in (
        "1f8b08",
        "28b52ffd",
        "504b0304",
        "52415731",
        "736e6f6f70",
        "0a0d0d0a",
        "5254535300",
        "00050001",
        "47",
        "7b",
    ):
        yield b"\0\0" + bytes.fromhex(magic) + bytes(60)


# ------------------------------------------------------------------------------------------------ values of Python's


def values(data: bytes) -> None:
    """A value for every parameter: it is refused, or read back."""
    s = Source(data)
    one = value(s)
    kinds = ("uint", "string", "symbol", "list", "map", "array", "binary", "long", "boolean", "double", "ubyte", "uuid")
    many = [one, one, *([value(s)] if s.octet() & 1 else [])]
    kind = s.choice(kinds)
    cases: tuple[tuple[Callable[[], Any], Callable[[Any], Any] | None], ...] = (
        (lambda: amqp10.encode_value(one), amqp10.decode_value),
        (lambda: amqp10.encode_value(amqp10.Array(kind, many)), amqp10.decode_value),
        (lambda: amqp10.encode_value(amqp10.List(many)), amqp10.decode_value),
        (lambda: amqp10.encode_value({"k": one, "l": many}), amqp10.decode_value),
        (lambda: amqp10.Message(application_properties={"k": one}, body=one).encode(), amqp10.decode_message),
        (
            lambda: amqp10.Open(container_id="c", offered_capabilities=one, properties={"k": one}).encode(),
            amqp10.decode,
        ),
        (lambda: amqp091.FieldTable({"k": one, "l": many}).encode(), amqp091.FieldTable.decode),
        (
            lambda: amqp091.FieldTable([("k", amqp091.FieldValue(chr(s.octet()), one))]).encode(),
            amqp091.FieldTable.decode,
        ),
        (lambda: amqp091.BasicProperties(headers={"k": one}, timestamp=one, priority=one).encode(), None),
        (lambda: amqp091.QueueDeclare(channel=1, queue="q", arguments={"k": one}).encode(), amqp091.decode),
        (lambda: nsq.Identify([("k", one), ("l", many)]).encode(), lambda o: nsq.decode(o, side="client")),
        (
            lambda: mqtt.Publish(topic_name="t", payload=one, properties=[("user_property", ("k", one))]).encode(),
            mqtt.decode,
        ),
        (lambda: rocketmq.encode_json(one), rocketmq.decode_json),
        (lambda: rocketmq.encode_properties({"k": one}).encode(), None),
        (lambda: rocketmq.MessageExt(topic="t", body=one, properties={"k": one}).encode(), rocketmq.decode_messages),
        (lambda: rocketmq.encode_batch_messages([rocketmq.Message(body=one)]), rocketmq.decode_batch_messages),
    )
    for make, read in cases:
        try:
            octets = make()
        except ERRORS:
            continue
        if read is not None:
            try:
                found = read(octets)
            except LimitExceeded:  # limits apply to readers; a writer does not know them
                continue
            repr(found)
            again = pickle.loads(pickle.dumps(found))
            if found == found:
                same(again, found, "pickled")
                same(copy.copy(found), found, "copied")


def value_seeds() -> Iterator[bytes]:
    r = random.Random(11)
    for kind in range(24):
        for number in range(25):
            yield bytes((kind,)) + r.randbytes(4 + number * 3)


# ------------------------------------------------------------------------------------------------ texts of RocketMQ

TEXTS: tuple[tuple[Callable[[str], Any], Callable[[Any], str] | None], ...] = (
    (rocketmq.decode_extra_info, rocketmq.encode_extra_info), (rocketmq.decode_start_offset_info, None),
    (rocketmq.decode_msg_offset_info, None), (rocketmq.decode_order_count_info, None),
    (rocketmq.decode_message_id, lambda found: rocketmq.encode_message_id(*found)),
    (rocketmq.decode_unique_id, lambda found: rocketmq.encode_unique_id(*found)),
    (rocketmq.decode_properties, rocketmq.encode_properties), (rocketmq.hash_code, None),
)  # fmt: skip


def texts(data: bytes) -> None:
    """Small texts within headers; commands whose header is a text; compressed bodies; signed commands."""
    if len(data) < 2:
        return
    text = data[1:].decode("utf-8", "surrogateescape" if data[0] & 1 else "replace")
    for decode, encode in TEXTS:
        try:
            found = decode(text)
            again: Any = None if encode is None else encode(found)
        except ERRORS as error:
            repr(error)
            continue
        if encode is not None and decode is not rocketmq.decode_properties:
            same(decode(again), found, f"{decode.__name__} again")
    head = data[1:]
    for lead in (b"", b'{"code":10,"extFields":'):
        octets = struct.pack(">II", len(lead + head) + 4, len(lead + head)) + lead + head
        for strictness in ("strict", "lax"):
            try:
                command = rocketmq.decode(octets)
                repr(command), repr(command.decode_header(request=10, strictness=strictness))
            except (DecodeError, ValueError) as error:
                repr(error)
    method: Any = ("zlib", "lz4", "zstd", "no such")[data[0] >> 1 & 3]
    try:
        packed, flag = rocketmq.compress(data[1:], method=method)
        stored = rocketmq.MessageExt(topic="t", body=packed, sys_flag=flag).encode()
        (message,) = rocketmq.decode_messages(stored)
        same(bytes(message.body or b""), data[1:], "compressed")
    except (ValueError, ImportError):
        pass
    try:
        command = rocketmq.RemotingCommand(code=10, opaque=1, ext_fields={"topic": text, "a": "b"}, body=data[1:])
        token = "token" if data[0] & 8 else None
        signed = rocketmq.sign(command, access_key="key", secret_key=text or "secret", security_token=token)
        same(rocketmq.signature(signed, text or "secret"), (signed.ext_fields or {})["Signature"], "signature")
        same(rocketmq.decode(signed.encode()), signed, "signed")
        repr(rocketmq.send_v1(rocketmq.send_v2(signed.header))) if signed.header is not None else None
    except ERRORS as error:
        repr(error)


#: JSON that the real reader accepts, and JSON that it refuses.
HEADERS = (
    '{"code":1,\'flag\':2,remark:"x",//c\n"opaque":+5,/* c */"version":0x10}', '{"code":1.5e3,"opaque":-0,"flag":"7"}',
    '{"code":null,"extFields":{"a":1,"b":true,"c":null,d:"\\u00e9\\ud83d\\ude00\\n\\t\\/\\x41","e":-1.5E-3,"f":[1],"g":{}}}',
    '{"code":1,"extFields":{"a":"\\ud83d","b":"\\u12","c":"\\q"}}', '{"code":{"a":[1,2,{"b":"c"}]},"flag":[[],[[]]]}',
    '{"language":"JAVA","version":"5","remark":"\u00e9\u6f22\U0001f600"}', '{"code":1}x', '{"code":1,}', '{"code" 1}', "[]", "{",
    '{"code":99999999999999999999,"opaque":2147483648}', '{"a":"b","a":"c","extFields":{"a":"b","a":"c"}}',
    '{a1_$:1,"b":new Date(5),"c":Set[1],"d":.5,"e":5.,"f":1e,"g":NaN,"h":undefined}', "{/*", '{"code":1;"flag":2}', "{//",
)  # fmt: skip
WORDS = (
    "1 2 3 0 b 4 5", "1 2 3 0 b 4 5 9", "1 2 3", "x 2 3 0 b 4 5", "0 1 5;1 2 6", "0 1 5;0 1 6", "0 1 5,6,7;0 2 8", "0 qo1%5 3",
    "0A0000010000277D00000000000000FF", "0a0000011f90000018b4aac2000000000001", "zz", "0A000001" * 4, "k\x01v\x02K\x01V\x02",
    "20010db8000000000000000000000001" + "1f90000018b4aac20000000000", "20010DB8000000000000000000000001" + "0" * 24,
    "", " ", ";", ",", "\x01\x02",
)  # fmt: skip


def text_seeds() -> Iterator[bytes]:
    for number, text in enumerate((*HEADERS, *WORDS)):
        for choice in (number, number + 5):
            yield bytes((choice % 16,)) + text.encode()
    for row in rows("rocketmq"):
        if row["kind"] in ("properties-string", "request") and row.get("hex"):
            octets = bytes.fromhex(row["hex"])
            yield b"\0" + octets[8:]


# ------------------------------------------------------------------------------------------------ whatever Python can do

FUNCTIONS = core_walk.functions()
SAMPLES: list[Any] = []


def walk(data: bytes) -> None:
    """An object in every way, a changed pickle of it, a class made in every way, a function with any arguments (core_walk.py)."""
    if len(data) < 3:
        return
    if not SAMPLES:
        SAMPLES.extend(core_walk.samples())
    r = random.Random(data)
    number = int.from_bytes(data[1:3], "big")
    kind = data[0] % 4
    thing = SAMPLES[number % len(SAMPLES)]
    if kind == 0:
        core_walk.use(copy.deepcopy(thing))
        core_walk.look(thing)
    elif kind == 1:
        reduced = thing.__reduce_ex__(4)
        for _ in range(10):
            args = core_walk.changed(reduced[1], r)
            core_walk.look(core_walk.attempt(reduced[0], *(args if isinstance(args, tuple) else (args,))))
    elif kind == 2:
        classes = core_walk.classes()
        cls = classes[number % len(classes)]
        for make in core_walk.makings(cls):
            core_walk.look(core_walk.attempt(make))
        for name, found in list(vars(cls).items()):
            if callable(found) and not isinstance(found, type) and name not in ("__class__", "__init_subclass__"):
                core_walk.attempt(
                    found, r.choice((*core_walk.ODD, thing)), *r.choices((*core_walk.ODD, thing), k=number % 3)
                )
    else:
        function = FUNCTIONS[number % len(FUNCTIONS)]
        things = (*core_walk.ODD, thing, r.choice(SAMPLES), data[3:])
        for count in (1, 2, 3, 5):
            core_walk.attempt(function, *r.choices(things, k=count))


def walk_seeds() -> Iterator[bytes]:
    for number in range(700):
        for kind in range(4):
            if number < (700, 700, 420, len(FUNCTIONS))[kind]:
                yield bytes((kind,)) + number.to_bytes(2, "big") + b"\0\1a"


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "tcp": (tcp, tcp_seeds),
    "twisted": (twisted, twisted_seeds),
    "reassembly": (reassembly, reassembly_seeds),
    "file_format": (file_format, format_seeds),
    "values": (values, value_seeds),
    "rocketmq_texts": (texts, text_seeds),
    "walk": (walk, walk_seeds),
}
