"""TLS in captures: real connections and their secrets (tests/data/tls), compared with what an independent decryption and tshark
say of them; key logs; hostile handshakes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lib.paths import DATA
from lib.wire import Tcp, connect, packet, pcap, publish
from wirefmt import capture
from wirefmt.capture import tls
from wirefmt.capture._engine import KeyLogIndex, SecretsScan
from wirefmt.capture.keylog import Secrets
from wirefmt.errors import CaptureError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")

from lib.tls_peer import SUITES, Peers, record  # noqa: E402

TLS = DATA / "tls"
SCENES = [json.loads(line) for line in (TLS / "MANIFEST.jsonl").read_text().splitlines()]
BY_NAME = {scene["file"].split(".")[0]: scene for scene in SCENES}

LABELS = (
    "CLIENT_RANDOM", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0", "EXPORTER_SECRET",
)  # fmt: skip


def noisy(text: bytes, count: int) -> bytes:
    """A key log with lines that belong to nothing before and after `text`."""
    r = random.Random(7)
    lines = [f"{LABELS[i % 6]} {r.randbytes(32).hex()} {r.randbytes(48).hex()}\n".encode() for i in range(count)]
    return b"".join(lines[: count // 2]) + text.rstrip(b"\n") + b"\n" + b"".join(lines[count // 2 :])


def keylog_of(scene: dict[str, Any], folder: Path) -> str | None:
    if scene["keys"] is None:
        return None
    path = TLS / scene["keys"]
    if "noise_lines" in scene:
        noise = folder / "noisy.log"
        noise.write_bytes(noisy(path.read_bytes(), scene["noise_lines"]))
        path = noise
    return str(path)


def read(scene: dict[str, Any], folder: Path, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    reader = capture.read(str(TLS / scene["file"]), keylog=keylog_of(scene, folder), **options)
    rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    return rows, reader.stats


def expected_of(scene: dict[str, Any]) -> list[dict[str, Any]]:
    if scene["expected"] is None:
        return []
    with gzip.open(TLS / scene["expected"], "rt") as file:
        return [json.loads(line) for line in file]


#: Where the message table has what the expected rows name, by protocol.
COLUMNS: dict[str, dict[str, Any]] = {
    "mqtt": {
        "topic": lambda r: r["destination"],
        "qos": lambda r: r["qos"],
        "packet_id": lambda r: r["sequence"],
        "client_id": lambda r: r["client_id"],
        "topics": lambda r: r["mqtt"]["topic_filters"],
    },
    "amqp091": {
        "channel": lambda r: r["channel"] or 0,
        "exchange": lambda r: r["amqp091"]["exchange"] or "",
        "routing_key": lambda r: r["routing_key"] or "",
        "delivery_tag": lambda r: r["sequence"],
    },
    "amqp10": {
        "channel": lambda r: r["channel"],
        "delivery_id": lambda r: r["amqp10"]["delivery_id"],
        "protocol_id": lambda r: r["amqp10"]["protocol_id"],
    },
    "nsq": {
        "topic": lambda r: r["destination"],
        "message_id": lambda r: r["message_id"],
        "text": lambda r: r["nsq"]["response"],
    },
}


def told(row: dict[str, Any], names: set[str]) -> tuple[Any, ...]:
    """A row of the message table as the expected one of these names."""
    side = (f"{row['src_ip']}:{row['src_port']}", f"{row['dst_ip']}:{row['dst_port']}")
    said: dict[str, Any] = {
        "frame": row["frame_no"],
        "src": side[0],
        "dst": side[1],
        "dir": ("c2s", "s2c")[row["direction"]],
        "proto": row["protocol"],
        "kind": row["kind"],
        "wire_size": row["wire_size"],
    }
    for name in names - said.keys():
        if name == "payload":
            payload = row["payload"] or b""
            said[name] = {"len": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        elif name != "count":  # of MPUB's messages
            said[name] = COLUMNS[row["protocol"]][name](row)
    return as_tuple(said)


def as_tuple(said: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((name, json.dumps(value)) for name, value in said.items()))


MARKS = {"after_gap", "optional", "count"}


def compare(rows: list[dict[str, Any]], scene: dict[str, Any]) -> None:
    """In each direction of each connection: the same rows in the same order; after a gap rows may be absent, never wrong."""
    expected = expected_of(scene)
    directions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for e in expected:
        directions.setdefault((e["src"], e["dst"]), []).append(e)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault((f"{row['src_ip']}:{row['src_port']}", f"{row['dst_ip']}:{row['dst_port']}"), []).append(
                row
            )
    assert set(found) <= set(directions)
    for side, wanted in directions.items():
        have = found.get(side, [])
        at = 0
        for e in wanted:
            may_be_absent = e.get("after_gap") or e.get("optional")
            says = as_tuple({name: value for name, value in e.items() if name not in MARKS})
            got = told(have[at], set(e) - MARKS) if at < len(have) else None
            if got == says:
                at += 1
            else:
                assert may_be_absent, (side, says, got)
        assert at == len(have), (side, told(have[at], set()))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_capture_gives_the_rows_that_were_in_it(name: str, threads: int, tmp_path: Path) -> None:
    scene = BY_NAME[name]
    rows, stats = read(scene, tmp_path, threads=threads)
    problems = Counter((row["status"], row["error"]) for row in rows if row["status"] != "ok")
    if scene["mode"] == "all_or_nothing" and not rows:
        assert stats["not_decoded"]["tls"]["connections"] == 1
        return
    compare(rows, scene)
    if scene["mode"] == "gap":
        assert any(status == "gap" for status, _ in problems)
    else:
        assert not problems
    for reason, count in scene.get("not_decoded", {}).items():
        assert stats["not_decoded"][reason]["connections"] == count


# ---- key logs


RANDOM = bytes(range(32))
LINE = f"CLIENT_RANDOM {RANDOM.hex()} {'ab' * 48}\n"


@pytest.mark.parametrize(
    "text",
    [
        LINE,
        LINE.rstrip("\n"),
        LINE.replace("\n", "\r\n"),
        LINE.upper(),
        "  " + LINE.replace(" ", "  \t"),
        "# comment\n\n" + LINE + "CLIENT_RANDOM 00\n",
        "\0\xff" * 40 + "\n" + LINE,
        LINE * 100,
    ],
)
def test_a_key_log_is_read_however_untidy_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.log"
    path.write_text(text)
    secrets = Secrets(path)
    assert secrets.find(RANDOM) == {"CLIENT_RANDOM": b"\xab" * 48}
    assert secrets.find(RANDOM[:8] + bytes(24)) == {}
    assert secrets.find(b"") == {}


@pytest.mark.parametrize(
    "line", ["CLIENT_RANDOM", "CLIENT_RANDOM zz", "RSA 0011 22", "x" * 5000, f"A {RANDOM.hex()[:16]}", " \t "]
)
def test_other_lines_are_not_secrets(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys.log"
    path.write_text(line + "\n" + LINE + line)
    assert Secrets(path).find(RANDOM) == {"CLIENT_RANDOM": b"\xab" * 48}


def test_a_key_log_that_grows_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_text("# nothing yet\n" + LINE[:60])
    secrets = Secrets(path)
    assert secrets.find(RANDOM) == {}
    path.write_text("# nothing yet\n" + LINE + LINE.replace("CLIENT_RANDOM", "OTHER"))
    assert secrets.find(RANDOM) == {"CLIENT_RANDOM": b"\xab" * 48, "OTHER": b"\xab" * 48}
    path.write_text(LINE)  # a new one
    assert secrets.find(RANDOM) == {"CLIENT_RANDOM": b"\xab" * 48}


def test_a_key_log_costs_memory_for_its_index_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(noisy(LINE.encode(), 50_000))
    secrets = Secrets(path)
    assert secrets.find(RANDOM) == {"CLIENT_RANDOM": b"\xab" * 48}


def test_lines_of_one_client_random_are_bounded() -> None:
    index = KeyLogIndex()
    index.add(LINE.encode() * 100_000, 0, True)
    assert len(index) == len(index.find(RANDOM)) <= 64


def test_an_absent_key_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"cannot read the key log .*absent\.log"):
        capture.read(str(TLS / SCENES[0]["file"]), keylog=str(tmp_path / "absent.log"))


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("size", [1 << 30, 7])
@pytest.mark.parametrize("noise", [0, 3000], ids=["small", "of 500 KB"])
def test_secrets_blocks_are_read_wherever_they_are(order: Any, size: int, noise: int) -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        total = (12 + len(body)).to_bytes(4, order)
        return kind.to_bytes(4, order) + total + body + total

    text = noisy(LINE.encode(), noise)
    section = block(0x0A0D0D0A, 0x1A2B3C4D.to_bytes(4, order) + (1).to_bytes(2, order) + bytes(2) + b"\xff" * 8)
    secrets = Secrets()
    scan = SecretsScan(secrets)
    octets = section + block(10, 0x544C534B.to_bytes(4, order) + len(text).to_bytes(4, order) + text)
    octets += section + block(10, 0x57474B4C.to_bytes(4, order) + len(text).to_bytes(4, order) + text)  # WireGuard's
    for i in range(0, len(octets), size):
        scan.feed(octets[i : i + size])
    assert secrets.find(RANDOM) == {"CLIENT_RANDOM": b"\xab" * 48}


# ---- what both sides may do, of TLS 1.3


def numbered(number: int, size: int = 10) -> bytes:
    return publish(f"t/{number}", bytes(size))


CONNECT, CONNACK = connect("tls"), packet(0x20, b"\0\0")


def topics(frames: list[bytes], keys: str, tmp_path: Path, **options: Any) -> tuple[list[str], dict[str, Any]]:
    path = tmp_path / "keys.log"
    path.write_text(keys)
    reader = capture.read(io.BytesIO(pcap(frames)), keylog=str(path), **options)
    rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    assert reader.stats["buffered"] == 0
    return [r["destination"] or r["kind"] or r["status"] for r in rows], reader.stats


def begun(tcp: Tcp, peers: Peers, size: int = 1448) -> list[bytes]:
    frames = [*tcp.open(), *tcp.send(0, peers.hello, size), *tcp.send(1, peers.answer, size)]
    frames += tcp.send(0, peers.finished + peers.sides[0].write(CONNECT), size)
    return frames + tcp.send(1, peers.sides[1].write(CONNACK), size)


@pytest.mark.parametrize("batch_rows", [1, 100])
@pytest.mark.parametrize("size", [1, 1448])
@pytest.mark.parametrize("suite", SUITES)
def test_records_of_every_suite_with_padding_and_key_updates(
    suite: int, size: int, batch_rows: int, tmp_path: Path
) -> None:
    peers, tcp = Peers(suite), Tcp(port=40001)
    frames = begun(tcp, peers, size)
    client = peers.sides[0]
    frames += tcp.send(0, client.write(numbered(1), padding=100) + client.write(b"", padding=3), size)
    for number in range(2, 4):
        update, client = client.update()
        frames += tcp.send(0, update + client.write(numbered(number)), size)
    frames += tcp.send(0, client.write(b"\1\0", 21), size)
    found, stats = topics([*frames, *tcp.close()], peers.keylog, tmp_path, batch_rows=batch_rows)
    assert found == ["CONNECT", "CONNACK", "t/1", "t/2", "t/3"]
    assert stats["tls"]["decrypted"] == 1


def test_a_large_record_wherever_it_is_cut(tmp_path: Path) -> None:
    """What follows a cut looks like the header of a short record at some of the places."""
    peers = Peers()
    tcp = Tcp(port=1883)
    start = begun(tcp, peers)
    whole = peers.sides[0].write(numbered(1, 16_000))
    short = [
        at for at in range(1, len(whole) - 5)
        if 5 + int.from_bytes(whole[at + 3 : at + 5], "big") <= len(whole) - at
    ]  # fmt: skip
    assert len(short) > 100
    for at in short[:: len(short) // 20]:
        seq = list(tcp.seq)
        frames = [*start, tcp.segment(0, whole[:at]), tcp.segment(0, whole[at:])]
        found, _ = topics([*frames, *tcp.close()], peers.keylog, tmp_path)
        assert found == ["CONNECT", "CONNACK", "t/1"]
        tcp.seq = seq


@pytest.mark.parametrize("batch_rows", [1, 100])
@pytest.mark.parametrize("count", [1, 3, 300])
@pytest.mark.parametrize("updated", [False, True])
def test_whole_records_that_are_missing(count: int, updated: bool, batch_rows: int, tmp_path: Path) -> None:
    peers, tcp = Peers(), Tcp(port=1883)
    frames = begun(tcp, peers)
    client = peers.sides[0]
    lost = b"".join(client.write(numbered(1)) for _ in range(count))
    if updated:
        update, client = client.update()
        lost += update
    tcp.send(0, lost, len(lost))
    for number in range(2, 5):
        frames += tcp.send(0, client.write(numbered(number)))
        frames += [tcp.segment(1)]
    found, stats = topics([*frames, *tcp.close()], peers.keylog, tmp_path, batch_rows=batch_rows)
    assert found[:2] == ["CONNECT", "CONNACK"]
    assert found[2:] == ["gap", "t/2", "t/3", "t/4"]
    assert stats["tls"]["decrypted"] == 1


def test_only_secrets_of_the_traffic(tmp_path: Path) -> None:
    """Some logs have no secrets of the handshake: its records are skipped."""
    peers, tcp = Peers(), Tcp()
    keys = "".join(line for line in peers.keylog.splitlines(True) if "HANDSHAKE" not in line)
    found, _ = topics([*begun(tcp, peers), *tcp.close()], keys, tmp_path)
    assert found == ["CONNECT", "CONNACK"]


def test_the_server_s_packets_before_the_client_s(tmp_path: Path) -> None:
    peers, tcp = Peers(), Tcp()
    frames = begun(tcp, peers)
    frames[3], frames[4] = frames[4], frames[3]
    found, _ = topics([*frames, *tcp.close()], peers.keylog, tmp_path)
    assert found == ["CONNECT", "CONNACK"]


REASONS = [
    ("no_secret", lambda keys: ""),
    ("no_secret", lambda keys: keys.replace("CLIENT_TRAFFIC_SECRET_0", "X")),
    ("wrong_secret", lambda keys: keys.replace(keys.split()[2], "00" * 32)),
    ("wrong_secret", lambda keys: keys.replace(keys.split()[8], "00" * 32)),
]


@pytest.mark.parametrize(("reason", "change"), REASONS)
def test_why_a_connection_is_not_decrypted(reason: str, change: Any, tmp_path: Path) -> None:
    peers, tcp = Peers(), Tcp()
    found, stats = topics([*begun(tcp, peers), *tcp.close()], change(peers.keylog), tmp_path)
    assert found == []
    assert {name: n for name, n in stats["tls"].items() if n} == {reason: 1}
    assert stats["not_decoded"]["tls"]["connections"] == 1


def test_a_port_of_decode_as_says_what_is_in_tls(tmp_path: Path) -> None:
    peers, tcp = Peers(), Tcp(port=9999)
    frames = [*begun(tcp, peers), *tcp.close()]
    assert topics(frames, peers.keylog, tmp_path, decode_as="tcp.port==9999,mqtt")[0] == ["CONNECT", "CONNACK"]


# ---- hostile octets


def test_a_handshake_that_ends_anywhere(tmp_path: Path) -> None:
    peers = Peers()
    for side, flight in enumerate((peers.hello, peers.answer)):
        for size in range(0, len(flight), 3):
            tcp = Tcp()
            frames = tcp.open()
            if side:
                frames += tcp.send(0, peers.hello)
            frames += tcp.send(side, flight[:size])
            found, _ = topics([*frames, *tcp.close()], peers.keylog, tmp_path)
            assert found == []


def test_a_handshake_with_changed_octets(tmp_path: Path) -> None:
    """Its rows are those of the handshake as it was, or there are none."""
    peers, r = Peers(), random.Random(5)
    rest = begun(Tcp(), peers)[5:]
    for _ in range(300):
        flights = [bytearray(peers.hello), bytearray(peers.answer)]
        flight = r.choice(flights)
        for _ in range(r.choice((1, 1, 4))):
            flight[r.randrange(len(flight))] = r.randrange(256)
        tcp = Tcp()
        frames = [*tcp.open(), *tcp.send(0, bytes(flights[0])), *tcp.send(1, bytes(flights[1])), *rest, *tcp.close()]
        found, _ = topics(frames, peers.keylog, tmp_path)
        assert set(found) <= {"CONNECT", "CONNACK", "gap"}


def test_what_waits_for_a_secret_is_bounded(tmp_path: Path) -> None:
    peers, tcp = Peers(), Tcp()
    path = tmp_path / "keys.log"
    path.write_text("")
    frames = [*tcp.open(), *tcp.send(0, peers.hello), *tcp.send(1, peers.answer)]
    frames += tcp.send(1, b"".join(record(23, bytes(16000)) for _ in range(30)))
    decoder = capture.CaptureDecoder(keylog=str(path))
    decoder.begin_file("x")
    decoder.feed(pcap(frames))
    assert decoder.stats["most_buffered"] < 1 << 20
    assert decoder.stats["tls"]["no_secret"] == 1


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_secrets_that_are_written_later(size: int, tmp_path: Path) -> None:
    """Of a capture that is read as it comes."""
    peers, tcp = Peers(), Tcp()
    path = tmp_path / "keys.log"
    path.write_text("")
    octets = pcap([*begun(tcp, peers), *tcp.send(0, peers.sides[0].write(numbered(1)))])
    decoder = capture.CaptureDecoder(keylog=str(path))
    decoder.begin_file("x")
    for i in range(0, len(octets), size):
        if i + size >= len(octets) - 100:
            path.write_text(peers.keylog)
        decoder.feed(octets[i : i + size])
    while not decoder.end_file() or not decoder.finish():
        pass
    batch = decoder.take(final=True)
    assert batch is not None
    rows = pa.record_batch(batch).to_pylist()
    assert [(r["direction"], r["destination"] or r["kind"], r["frame_no"]) for r in rows if r["direction"] == 0] == [
        (0, "CONNECT", 6),
        (0, "t/1", 8),
    ]


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_nsq_that_compresses_under_tls(batch_rows: int, tmp_path: Path) -> None:
    """nsqd says OK under TLS, then both sides compress, and it says OK again."""
    peers, tcp = Peers(), Tcp(port=4150)
    client, server = peers.sides
    packed = [zlib.compressobj(wbits=-15) for _ in range(2)]

    def frame(text: bytes) -> bytes:
        return (len(text) + 4).to_bytes(4, "big") + bytes(4) + text

    def deflated(side: int, octets: bytes) -> bytes:
        return packed[side].compress(octets) + packed[side].flush(zlib.Z_SYNC_FLUSH)

    asked = b'{"feature_negotiation":true,"tls_v1":true,"deflate":true}'
    frames = [*tcp.open(), *tcp.send(0, b"  V2IDENTIFY\n" + len(asked).to_bytes(4, "big") + asked)]
    frames += tcp.send(1, frame(b'{"max_rdy_count":2500,"tls_v1":true,"deflate":true,"snappy":false}'))
    frames += [*tcp.send(0, peers.hello), *tcp.send(1, peers.answer), *tcp.send(0, peers.finished)]
    frames += tcp.send(1, server.write(frame(b"OK")))
    frames += tcp.send(1, server.write(deflated(1, frame(b"OK"))))
    frames += tcp.send(0, client.write(deflated(0, b"PUB t\n" + (3).to_bytes(4, "big") + b"abc")))
    frames += tcp.send(1, server.write(deflated(1, frame(b"OK"))))
    found, stats = topics([*frames, *tcp.close()], peers.keylog, tmp_path, batch_rows=batch_rows)
    assert found == ["MAGIC", "IDENTIFY", "response", "response", "response", "t", "response"]
    assert stats["carrier_bytes"]


def test_the_trace_of_rfc_8448(tmp_path: Path) -> None:
    """Section 3: a handshake, 50 octets in each direction, close_notify."""
    trace = json.loads((TLS / "rfc8448.json").read_text())
    octets = {name: bytes.fromhex(value) for name, value in trace.items() if name not in ("source", "secrets")}
    random = octets["client_hello"][11:43]
    keys = "".join(f"{label} {random.hex()} {secret}\n" for label, secret in trace["secrets"].items())
    for label, iv in (
        ("SERVER_HANDSHAKE_TRAFFIC_SECRET", "server_handshake_iv"),
        ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "client_handshake_iv"),
        ("SERVER_TRAFFIC_SECRET_0", "server_iv"),
        ("CLIENT_TRAFFIC_SECRET_0", "client_iv"),
    ):
        assert tls.keys_13(tls.SUITES_13[0x1301], bytes.fromhex(trace["secrets"][label])).iv == octets[iv]
    said = bytes(range(50)) + b"\x17"
    for label, name, sequence in (
        ("CLIENT_TRAFFIC_SECRET_0", "client_data", 0),
        ("SERVER_TRAFFIC_SECRET_0", "server_data", 1),
    ):
        opened = tls.keys_13(tls.SUITES_13[0x1301], bytes.fromhex(trace["secrets"][label]))
        nonce = (int.from_bytes(opened.iv, "big") ^ sequence).to_bytes(12, "big")
        assert opened.open(nonce, octets[name][5:], octets[name][:5]) == said
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, octets["client_hello"]), *tcp.send(1, octets["server_hello"])]
    frames += [*tcp.send(1, octets["server_handshake"]), *tcp.send(0, octets["client_finished"])]
    frames += [*tcp.send(1, octets["ticket"]), *tcp.send(0, octets["client_data"]), *tcp.send(1, octets["server_data"])]
    frames += [*tcp.send(0, octets["client_alert"]), *tcp.send(1, octets["server_alert"]), *tcp.close()]
    found, stats = topics(frames, keys, tmp_path)
    assert found == []  # 50 octets of none of the protocols
    assert {name: n for name, n in stats["tls"].items() if n} == {"decrypted": 1}
    assert stats["not_decoded"]["not_recognised"]["connections"] == 1


@pytest.mark.parametrize("slices", [1, 8])
@pytest.mark.parametrize("name", ["mqtt-tls12-ticket", "mqtt-tls12-sessionid"])
def test_resumed_sessions_without_lines_of_their_own(name: str, slices: int, tmp_path: Path) -> None:
    """Go writes none. The connection that began the session may be in another slice."""
    scene = BY_NAME[name]
    keys = tmp_path / "keys.log"
    lines = (TLS / scene["keys"]).read_text().splitlines(True)
    first = next(line for line in lines if line.startswith("CLIENT_RANDOM"))
    assert sum(line.split()[0] == "CLIENT_RANDOM" for line in lines) == len(scene["connections"])
    keys.write_bytes(noisy(first.encode(), 100))
    found: list[dict[str, Any]] = []
    for i in range(slices):
        reader = capture.read(str(TLS / scene["file"]), keylog=str(keys), slice=(i, slices))
        found += [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
        assert not any(n for reason, n in reader.stats["tls"].items() if reason != "decrypted")
    compare(sorted(found, key=lambda r: r["frame_no"]), scene)


def test_sessions_whose_master_secret_is_not_in_the_key_log(tmp_path: Path) -> None:
    """The first connection has no line, so the others, which resume its session, have none of theirs."""
    scene = BY_NAME["mqtt-tls12-ticket"]
    keys = tmp_path / "keys.log"
    keys.write_bytes(noisy(b"# nothing", 500))
    reader = capture.read(str(TLS / scene["file"]), keylog=str(keys))
    assert list(reader) == []
    assert {name: n for name, n in reader.stats["tls"].items() if n} == {"no_secret": len(scene["connections"])}


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("before", [0, 4])
def test_secrets_behind_the_packets_of_an_open_file(compressed: bool, before: int) -> None:
    """It is read once more from where it was, and goes on."""
    octets = (TLS / "dsb-after-packets.pcapng.gz").read_bytes()
    file = io.BytesIO(bytes(before) + (octets if compressed else gzip.decompress(octets)))
    file.seek(before)
    reader = capture.read(file)
    rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    compare(rows, BY_NAME["dsb-after-packets"])
    assert len(rows) == BY_NAME["dsb-after-packets"]["rows"]
