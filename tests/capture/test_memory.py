"""Memory of captures: batches are bounded within one packet, too, and everything that flows make the decoder remember
counts towards `max_buffered`."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib import amqp_wire as amqp
from lib.paths import ROOT
from lib.websocket import REQUEST, RESPONSE
from lib.wire import ACK, PSH, SYN, Tcp, connack, connect, packet, pcap, publish, socket_frame
from wirefmt import capture, nsq, rocketmq
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.spec.table import COLUMNS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

MIB = 1 << 20
LONG = "x" * 60_000  # a client identifier that every row repeats
PING = packet(0xC0)
CLIENT, SERVER = 0, 1

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

# ---- batches


def last_first(frames: list[bytes]) -> list[bytes]:
    """The first one comes last: it fills the gap before all others."""
    return frames[1:] + frames[:1]


def pull(count: int, body: bytes, **header: str) -> tuple[bytes, bytes]:
    """PULL_MESSAGE and its answer, `count` messages whose bodies are compressed with zlib (a system flag of 1)."""
    asked = rocketmq.RemotingCommand(code=11, opaque=7, ext_fields={"topic": "T", "consumerGroup": "g"}).encode()
    one = rocketmq.MessageExt(
        topic="T", body=zlib.compress(body, 9), sys_flag=1, store_host=("192.0.2.1", 10911)
    ).encode()
    answer = rocketmq.RemotingCommand(code=0, flag=1, opaque=7, ext_fields=header or None, body=one * count).encode()
    return asked, answer


def identify(**features: Any) -> bytes:
    return b"  V2" + nsq.Identify(client_id=LONG, feature_negotiation=True, **features).encode()


def reply(**features: bool) -> bytes:
    members: dict[str, Any] = {"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": False}
    return nsq.Response(members=members | features).encode()


def deflated(octets: bytes) -> bytes:
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    return c.compress(octets) + c.flush(zlib.Z_SYNC_FLUSH)


def snappy(octets: bytes) -> bytes:
    cramjam = pytest.importorskip("cramjam", reason="needs cramjam (pip install cramjam)")
    return bytes(cramjam.snappy.compress(octets))


def filled_gap(pings: int) -> tuple[list[bytes], int]:
    tcp = Tcp()
    return [*tcp.open(), *tcp.send(0, connect(LONG)), *last_first(tcp.send(0, PING * pings))], 1 + pings


def one_segment(pings: int) -> tuple[list[bytes], int]:
    tcp = Tcp()
    return [*tcp.open(), *tcp.send(0, connect(LONG)), *tcp.send(0, PING * pings, 60_000)], 1 + pings


def gap_given_up(pings: int) -> tuple[list[bytes], int]:
    """Its first segment is missing: boundaries are searched when the connection, or the capture, ends."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect(LONG))]
    return [*frames, *tcp.send(0, PING * pings)[1:]], 1 + 1 + pings - 1448 // 2


def websocket(pings: int) -> tuple[list[bytes], int]:
    tcp = Tcp(port=80)
    frames = [*tcp.open(), *tcp.send(0, REQUEST), *tcp.send(1, RESPONSE)]
    frames += tcp.send(0, socket_frame(connect(LONG), mask=b"abcd"))
    many = socket_frame(PING * (pings // 2), mask=b"wxyz") * 2
    return [*frames, *last_first(tcp.send(0, many))], 1 + pings // 2 * 2


def carried(pings: int, mode: str, pack: Callable[[bytes], bytes]) -> tuple[list[bytes], int]:
    tcp = Tcp(port=4150)
    frames = [*tcp.open(), *tcp.send(CLIENT, identify(**{mode: True})), *tcp.send(SERVER, reply(**{mode: True}))]
    return [*frames, *tcp.send(CLIENT, pack(b"NOP\n" * pings), 60_000)], 3 + pings


def compressed_messages(count: int) -> tuple[list[bytes], int]:
    tcp = Tcp(port=10911)
    asked, answer = pull(count, bytes(MIB))
    return [*tcp.open(), *tcp.send(0, asked), *tcp.send(1, answer, 60_000)], 1 + count


def stored_messages_behind_a_long_header(count: int) -> tuple[list[bytes], int]:
    tcp = Tcp(port=10911)
    asked, answer = pull(count, b"", note=LONG)
    return [*tcp.open(), *tcp.send(0, asked), *tcp.send(1, answer)], 1 + count


def a_response_that_is_cut(count: int) -> tuple[list[bytes], int]:
    """The last message is not whole: a row says so, behind those that are."""
    tcp = Tcp(port=10911)
    asked, answer = pull(count, b"", note=LONG)
    return [*tcp.open(), *tcp.send(0, asked), *tcp.send(1, answer[:-20])], 1 + count


def start_ok(name: str) -> bytes:
    """connection.start-ok with client-properties {connection_name: S}; reference 1.4.2.2."""
    table = amqp.short("connection_name") + b"S" + len(name).to_bytes(4, "big") + name.encode()
    arguments = len(table).to_bytes(4, "big") + table + amqp.short("PLAIN") + bytes(4) + amqp.short("en_US")
    return amqp.frame(1, 0, bytes.fromhex("000a000b") + arguments)


def contents_that_end(count: int) -> tuple[list[bytes], int]:
    """A content on every channel, none complete: as many partial rows when the connection ends."""
    tcp = Tcp(port=5672)
    sent = amqp.HEADER_091 + start_ok(LONG)
    sent += b"".join(amqp.publish(c, "x", "k") + amqp.header(c, 9) for c in range(1, count + 1))
    return [*tcp.open(), *tcp.send(0, sent), *tcp.close()], 2 + count


def open_(name: str) -> bytes:
    container = b"\xb1" + len(name).to_bytes(4, "big") + name.encode()
    fields = b"\xd0" + (len(container) + 4).to_bytes(4, "big") + (1).to_bytes(4, "big") + container
    return amqp.performative(0x10, fields)


def deliveries_that_end(count: int, last: bytes) -> tuple[list[bytes], int]:
    """A delivery on every link, none complete; `close` ends them in the midst of a packet, or the connection does."""
    tcp = Tcp(port=5672)
    sent = amqp.HEADER_10 + open_(LONG)
    for k in range(count):
        fields = b"\x70" + k.to_bytes(4, "big"), b"\x52" + bytes((k,)), b"\xa0\1t", b"\x43", b"\x42", b"\x41"
        sent += amqp.performative(0x14, amqp.list8(*fields), amqp.data(b"abc")[:-1])
    return [*tcp.open(), *tcp.send(0, sent + last), *tcp.close()], 2 + count + bool(last)


CLOSE_10 = amqp.performative(0x18, b"\x45")

#: name -> (frames, rows that they are) for a size
PACKETS_OF_MANY_ROWS: dict[str, tuple[Callable[[int], tuple[list[bytes], int]], int]] = {
    "filled gap": (filled_gap, 6000),
    "one segment": (one_segment, 6000),
    "gap given up": (gap_given_up, 6000),
    "websocket": (websocket, 6000),
    "deflate": (lambda n: carried(n, "deflate", deflated), 6000),
    "snappy": (lambda n: carried(n, "snappy", snappy), 6000),
    "compressed messages": (compressed_messages, 140),
    "stored messages": (stored_messages_behind_a_long_header, 2000),
    "cut response": (a_response_that_is_cut, 2000),
    "contents": (contents_that_end, 250),
    "deliveries": (lambda n: deliveries_that_end(n, b""), 250),
    "deliveries, closed": (lambda n: deliveries_that_end(n, CLOSE_10), 250),
}


def compare(data: bytes, whole: Any, **options: Any) -> int:
    """The batches are the rows of `whole`, in order. Answers the rows of the largest."""
    at = most = 0
    for batch in capture.read(io.BytesIO(data), **options):
        assert pa.Table.from_batches([pa.record_batch(batch)]) == whole.slice(at, len(batch))
        at += len(batch)
        most = max(most, len(batch))
    assert at == whole.num_rows
    return most


@pytest.mark.parametrize("flows", ["in-file", "across-files"])
@pytest.mark.parametrize("name", PACKETS_OF_MANY_ROWS)
def test_a_batch_is_bounded_within_one_packet(name: str, flows: Any) -> None:
    """With "across-files" the connection ends in finish()."""
    make, size = PACKETS_OF_MANY_ROWS[name]
    frames, count = make(size)
    limit = MIB // 2
    sizes, rows = [], 0
    with capture.read(io.BytesIO(pcap(frames)), batch_bytes=limit, flows=flows) as reader:
        for batch in reader:
            sizes.append(batch.nbytes)
            rows += len(batch)
    assert rows == count
    # one row more may be as large as a message and the identifier; what is of fixed width is not part of the limit
    assert max(sizes) < 4 * limit
    assert sum(sizes) > 10 * limit
    assert reader.stats["buffered"] == 0


@pytest.mark.parametrize("name", PACKETS_OF_MANY_ROWS)
def test_rows_do_not_depend_on_where_batches_end(name: str) -> None:
    make, size = PACKETS_OF_MANY_ROWS[name]
    frames, _ = make({"filled gap": 1500, "gap given up": 2000, "compressed messages": 40}.get(name, min(size, 300)))
    data = pcap(frames)
    columns = [c.name for c in COLUMNS if c.name not in ("client_id", "rocketmq")]
    whole = pa.table(capture.read(io.BytesIO(data), columns=columns, batch_rows=1 << 30, batch_bytes=1 << 30))
    whole = whole.combine_chunks()
    for options in ({"batch_rows": 1}, {"batch_rows": 7}, {"batch_bytes": 1}, {"batch_bytes": 3000}):
        most = compare(data, whole, columns=columns, **options)
        if "batch_rows" in options:
            # a frame that does not stop has at most three rows: a content that ends, and the frame itself
            assert most < options["batch_rows"] + 3


def test_what_a_decoder_has_not_put_yet_goes_with_it() -> None:
    frames, _ = gap_given_up(5000)
    decoder = CaptureDecoder(batch_rows=10)
    decoder.begin_file("f")
    data = pcap(frames)
    at = 0
    while at < len(data):
        at += decoder.feed(data[at:])
        decoder.take()
    assert not decoder.end_file()
    assert decoder.stats["buffered"] > 1000
    del decoder


def test_a_report_comes_behind_what_waits() -> None:
    """A file that breaks off while a batch is full: its error row is the last one."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect() + PING * 50)]
    decoder = CaptureDecoder(batch_rows=10, columns=["kind", "error"])
    decoder.begin_file("f")
    data = pcap(frames)
    assert decoder.feed(data) == len(data)
    decoder.report("broken")
    rows = []
    while not decoder.finish():
        rows += pa.record_batch(decoder.take()).to_pylist()
    rows += pa.record_batch(decoder.take(final=True)).to_pylist()
    assert [r["kind"] for r in rows] == ["CONNECT", *["PINGREQ"] * 50, None]
    assert rows[-1]["error"] == "broken"


PEAK = """
import sys
from wirefmt import capture
octets = rows = 0
with open(sys.argv[1], "rb") as file, capture.read(file) as reader:
    for batch in reader:
        octets += batch.nbytes
        rows += len(batch)
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
print(rows, octets >> 20, peak >> 10)
"""


def peak_of(frames: list[bytes], path: Any) -> tuple[int, int, int]:
    """Rows, MiB of all batches, MiB of memory at the peak, in a process of its own."""
    path.write_bytes(pcap(frames))
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True)
    rows, octets, peak = map(int, done.stdout.split())
    return rows, octets, peak


@LINUX
@pytest.mark.parametrize(
    ("name", "size"), [("filled gap", 36_000), ("gap given up", 36_000), ("compressed messages", 2100)]
)
def test_two_gigabytes_from_one_packet_take_little_memory(name: str, size: int, tmp_path: Any) -> None:
    """A column of a batch could not even hold them: they made read() raise OverflowError, after taking 2 GiB."""
    frames, count = PACKETS_OF_MANY_ROWS[name][0](size)
    assert sum(map(len, frames)) < 3 * MIB
    rows, octets, peak = peak_of(frames, tmp_path / "c.pcap")
    assert rows == count
    assert octets > 2000
    assert peak < 400


def test_a_message_beyond_the_limit_when_nothing_more_may_be_stored() -> None:
    """Not even its beginning can be kept then, and the next message is where its length says."""
    tcp = Tcp()
    big = publish("big", bytes(3000))
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(0, big + publish("next", b""), 1000)]
    limits = {"max_message": 2000, "max_buffered": 10}
    rows = pa.table(capture.read(io.BytesIO(pcap(frames)), limits=limits)).to_pylist()
    assert [(r["status"], r["kind"], r["destination"]) for r in rows if r["status"] != "gap"] == [
        ("ok", "CONNECT", None),
        ("ok", "PUBLISH", "next"),
    ]
    assert sum(r["wire_size"] for r in rows if r["status"] == "gap") == len(big)


def test_a_limit_of_messages_beyond_what_a_column_takes() -> None:
    with pytest.raises(ValueError, match="max_message must be at most"):
        CaptureDecoder(limits={"max_message": 1 << 29})


# ---- what flows make the decoder remember


def client(number: int, port: int) -> Tcp:
    return Tcp(port=port, client_port=1024 + number % 60_000, client=0x0A000002 + number // 60_000)


def silent(number: int) -> Iterator[bytes]:
    yield client(number, 1883).segment(0, flags=SYN)


def not_recognised(number: int) -> Iterator[bytes]:
    tcp = client(number, 6000)
    yield from (*tcp.open(), *tcp.send(0, b"hello"))


def client_id(number: int) -> Iterator[bytes]:
    tcp = client(number, 1883)
    yield from (*tcp.open(), *tcp.send(0, connect(LONG)))


def aliases(number: int) -> Iterator[bytes]:
    tcp = client(number, 1883)
    sent = connect("c", 5)
    sent += b"".join(publish(f"{a:0200}", b"", 5, b"\x23" + a.to_bytes(2, "big")) for a in range(1, 400))
    yield from (*tcp.open(), *tcp.send(0, sent))


def pieces(number: int) -> Iterator[bytes]:
    """A gap and a thousand octets behind it, each with another gap before it."""
    tcp = client(number, 1883)
    yield from tcp.open()
    tcp.seq[0] = 5000
    for _ in range(1000):
        tcp.seq[0] += 1
        yield tcp.segment(0, b"x")


def unfinished_message(number: int) -> Iterator[bytes]:
    tcp = client(number, 1883)
    yield from (*tcp.open(), *tcp.send(0, connect() + publish("t", bytes(50_000))[:30_000]))


def search(number: int) -> Iterator[bytes]:
    """Captured without its beginning, in small packets: they may be a message, which is believed once it is whole."""
    tcp = client(number, 1883)
    yield from tcp.send(0, publish("t", bytes(250_000))[:60_000], 100)


def contents(number: int) -> Iterator[bytes]:
    tcp = client(number, 5672)
    sent = amqp.HEADER_091 + start_ok(LONG[:1000])
    sent += b"".join(amqp.publish(c, "x", "k") + amqp.header(c, 9) + amqp.body(c, b"abc") for c in range(1, 200))
    yield from (*tcp.open(), *tcp.send(0, sent))


def links(number: int) -> Iterator[bytes]:
    tcp = client(number, 5672)
    sent = amqp.HEADER_10 + open_(LONG) + b"".join(amqp.attach(h, "/queues/" + "q" * 60) for h in range(200))
    yield from (*tcp.open(), *tcp.send(0, sent))


def deliveries(number: int) -> Iterator[bytes]:
    yield from deliveries_that_end(200, b"")[0][:-3]


def requests(number: int) -> Iterator[bytes]:
    tcp = client(number, 10911)
    sent = b"".join(
        rocketmq.RemotingCommand(
            code=11, opaque=k, ext_fields={"topic": "t" * 200, "consumerGroup": "g" * 200}
        ).encode()
        for k in range(300)
    )
    yield from (*tcp.open(), *tcp.send(0, sent, 60_000))


def rocketmq_client(number: int) -> Iterator[bytes]:
    tcp = client(number, 10911)
    sent = rocketmq.RemotingCommand(code=34, opaque=1, body=b'{"clientID":"' + LONG.encode() + b'"}').encode()
    yield from (*tcp.open(), *tcp.send(0, sent, 60_000))


def rocketmq_escapes(number: int) -> Iterator[bytes]:
    """A text that must be unescaped, once: where that was done is not kept."""
    tcp = client(number, 10911)
    sent = rocketmq.RemotingCommand(code=10, opaque=1, ext_fields={"topic": "\t" * 60_000}).encode()
    yield from (*tcp.open(), *tcp.send(0, sent, 60_000))


def nsq_client(number: int) -> Iterator[bytes]:
    tcp = client(number, 4150)
    yield from (*tcp.open(), *tcp.send(0, identify()))


def nsq_deflate(number: int) -> Iterator[bytes]:
    tcp = client(number, 4150)
    yield from (*tcp.open(), *tcp.send(CLIENT, identify(deflate=True)), *tcp.send(SERVER, reply(deflate=True)))
    yield from (*tcp.send(CLIENT, deflated(b"NOP\n")), *tcp.send(SERVER, deflated(nsq.Response(b"OK").encode())))


#: name -> (frames of the flow of a number, how many flows are worth some MiB)
REMEMBERED: dict[str, tuple[Callable[[int], Iterator[bytes]], int]] = {
    "silent": (silent, 60_000),
    "not recognised": (not_recognised, 30_000),
    "client id": (client_id, 400),
    "aliases": (aliases, 200),
    "pieces": (pieces, 200),
    "unfinished message": (unfinished_message, 600),
    "search": (search, 300),
    "contents": (contents, 100),
    "links": (links, 150),
    "requests": (requests, 100),
    "rocketmq client": (rocketmq_client, 400),
    "rocketmq escapes": (rocketmq_escapes, 800),
    "nsq client": (nsq_client, 400),
    "nsq deflate": (nsq_deflate, 120),
}


def fed(decoder: CaptureDecoder, make: Callable[[int], Iterator[bytes]], flows: int) -> None:
    """Feed the frames of so many flows, and give the batches away."""
    decoder.begin_file("f")
    decoder.feed(pcap([]))
    for number in range(flows):
        data = pcap(list(make(number)), first=number)[24:]
        at = 0
        while at < len(data):
            at += decoder.feed(data[at:])
            decoder.take()


GROWTH = """
import sys
sys.path[:0] = sys.argv[2:]
import test_memory as t
from wirefmt.capture._engine import CaptureDecoder
make, flows = t.REMEMBERED[sys.argv[1]]
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
t.fed(CaptureDecoder(columns=["kind"]), make, max(2, flows // 50))
before = resident()
decoder = CaptureDecoder(columns=["kind"])
t.fed(decoder, make, flows)
print(resident() - before, decoder.stats["buffered"], decoder.stats["open_flows"])
"""


@LINUX
@pytest.mark.parametrize("name", REMEMBERED)
def test_what_is_counted_is_what_memory_grows_by(name: str) -> None:
    command = [sys.executable, "-c", GROWTH, name, str(ROOT / "tests"), str(ROOT / "tests" / "capture")]
    done = subprocess.run(command, check=True, capture_output=True)
    grown, counted, flows = map(int, done.stdout.split())
    assert flows == REMEMBERED[name][1]
    assert grown < 1.5 * counted + 8 * MIB
    if name != "rocketmq escapes":
        assert counted > 8 * MIB
    assert counted < 4 * grown + 8 * MIB


@pytest.mark.parametrize("name", REMEMBERED)
def test_max_buffered_holds_for_everything(name: str) -> None:
    make, flows = REMEMBERED[name]
    flows //= 4
    limit = MIB
    whole = CaptureDecoder(columns=["kind"])
    fed(whole, make, flows)
    decoder = CaptureDecoder(columns=["kind", "status", "error"], limits={"max_buffered": limit})
    fed(decoder, make, flows)
    stats = decoder.stats
    assert stats["buffered"] <= limit
    assert stats["most_buffered"] <= limit + MIB // 2  # before flows are ended for it: one packet's growth
    if whole.stats["buffered"] > limit:
        assert stats["flows_evicted"] + stats["gaps_limited"] + stats["messages_limited"] > 0
    assert stats["flows"] >= flows
    while not decoder.end_file():
        decoder.take()
    assert decoder.stats["buffered"] == 0


def test_fragments_are_counted() -> None:
    """First fragments of datagrams that never become whole: 64 KiB each, 64 of them at most."""
    frames = []
    for number in range(200):
        payload = bytes(64)
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(payload), number, 0x2000, 64, 6, 0, 0x0A000001, 0x0A000002)
        frames.append(bytes.fromhex("020000000002 020000000001 0800") + ip + payload)
    decoder = CaptureDecoder()
    decoder.begin_file("f")
    decoder.feed(pcap(frames))
    assert 4 * MIB <= decoder.stats["buffered"] < 5 * MIB
    assert decoder.end_file()
    decoder.begin_file("g", 1)
    assert decoder.stats["buffered"] == 0


def test_the_flow_longest_silent_ends_for_max_buffered() -> None:
    """A message that it has begun is a partial row; the others go on."""
    tcps = [client(number, 1883) for number in range(4)]
    whole = publish("t", bytes(60_000))
    frames = []
    for tcp in tcps[:3]:
        frames += [*tcp.open(), *tcp.send(0, connect() + whole[:50_000], 20_000)]
    frames += [*tcps[3].open(), *tcps[3].send(0, connect(LONG), 65_000)]
    for tcp in tcps[1:3]:
        frames += tcp.send(0, whole[50_000:])
    with capture.read(io.BytesIO(pcap(frames)), limits={"max_buffered": 220_000}) as reader:
        rows = pa.table(reader).to_pylist()
    assert reader.stats["flows_evicted"] == 1
    assert [(r["src_port"], r["status"]) for r in rows if r["kind"] == "PUBLISH"] == [
        (1024, "partial"), (1025, "ok"), (1026, "ok"),
    ]  # fmt: skip


def test_gaps_that_end_with_a_packet_are_in_order() -> None:
    """Many connections end at once while the batch is full: rows are those of one large batch, in the same order."""
    chance = random.Random(1)
    frames = []
    for number in range(30):
        tcp = client(number, 1883)
        frames += [*tcp.open(), *tcp.send(0, connect(f"c{number}"))]
        sent = tcp.send(0, b"".join(publish(f"t{k}", bytes(chance.randrange(300))) for k in range(60)), 400)
        del sent[chance.randrange(len(sent))]
        frames += [*sent, tcp.segment(1, connack(), ACK | PSH)]
    data = pcap(frames)
    limits: dict[str, Any] = {"limits": {"max_flows": 3}}
    whole = pa.table(capture.read(io.BytesIO(data), batch_rows=1 << 30, **limits)).combine_chunks()
    assert whole.num_rows > 1500
    for batch_rows in (1, 5):
        assert compare(data, whole, batch_rows=batch_rows, **limits) <= batch_rows + 1


def test_nothing_is_kept_of_a_connection_that_is_none_of_ours() -> None:
    """What the server said first waits for the client; as soon as that has said something else too, it is dropped."""
    frames = []
    for port in range(20000, 20100):
        tcp = Tcp(port=9999, client_port=port)
        frames += [*tcp.open(), *tcp.send(SERVER, b"\xff" * 10_000), *tcp.send(CLIENT, b"\xff" * 10)]
    reader = capture.read(io.BytesIO(pcap(frames)))
    assert list(reader) == []
    assert reader.stats["not_decoded"]["not_recognised"] == {"connections": 100, "packets": 1100, "bytes": 1_001_000}
    assert 10_000 <= reader.stats["most_buffered"] < 500_000
