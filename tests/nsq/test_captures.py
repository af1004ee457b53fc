"""NSQ in captures: sessions of real clients, compressed or not, holes, TLS, bombs."""

from __future__ import annotations

import re
import zlib
from typing import Any

import pytest

from lib.batches import rows_of, talk
from lib.json_vectors import ids
from lib.kinds import all_of
from lib.nsq_vectors import frame_of, of_kind
from lib.websocket import REQUEST, RESPONSE
from lib.wire import Tcp, pcap, socket_frame
from wirefmt import nsq

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SESSIONS = of_kind("client-session")
CLIENT, SERVER = 0, 1
PLAIN_REPLY = b'{"max_rdy_count":2500,"version":"1.3.0","tls_v1":false,"deflate":false,"snappy":false}'


def identify(**features: Any) -> bytes:
    return b"  V2" + nsq.Identify(client_id="c", feature_negotiation=True, **features).encode()


def reply(**features: bool) -> bytes:
    members: dict[str, Any] = {"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": False}
    return nsq.Response(members=members | features).encode()


class Deflate:
    """Raw deflate, flushed behind each write, as nsqd and its clients do."""

    def __init__(self) -> None:
        self.stream = zlib.compressobj(6, zlib.DEFLATED, -15)

    def __call__(self, octets: bytes) -> bytes:
        return self.stream.compress(octets) + self.stream.flush(zlib.Z_SYNC_FLUSH)


OK = nsq.Response(b"OK").encode()


@pytest.mark.parametrize("size", [1448, 1])
@pytest.mark.parametrize("port", [4150, 4777])
@pytest.mark.parametrize("session", SESSIONS, ids=ids(SESSIONS))
def test_sessions_of_go_nsq(session: dict[str, Any], port: int, size: int) -> None:
    """Every command and frame, whatever it was compressed with, and on whatever port."""
    if session["mode"] == "snappy":
        pytest.importorskip("cramjam", reason="needs cramjam (pip install cramjam)")
    said = [(0 if e["dir"] == "c2s" else 1, bytes.fromhex(e["hex"])) for e in session["events"] if "hex" in e]
    rows = talk(*said, port=port, size=size)
    assert {(row["protocol"], row["status"], row["error"]) for row in rows} == {("nsq", "ok", None)}
    sent = [row for row in rows if row["direction"] == CLIENT]
    came = [row for row in rows if row["direction"] == SERVER]
    plain = bytes.fromhex(session["decoded"].get("client_plain_after_identify_hex") or "")
    commands = nsq.Decoder(side="client", magic=False).feed(plain)
    assert [row["kind"] for row in sent] == [
        "MAGIC",
        "IDENTIFY",
        *(command.name for command in all_of(commands, nsq.Command)),
    ]
    for row, command in zip(sent[2:], commands, strict=True):
        assert row["wire_size"] == len(command.encode())
        if isinstance(command, nsq.Publish):
            assert (row["destination"], row["payload"]) == (command.topic, command.body_bytes())
        if isinstance(command, nsq.MultiPublish):
            assert (row["nsq"]["bodies"], row["nsq"]["message_count"]) == (list(command.bodies), len(command.bodies))
    frames = session["decoded"]["server_frames_after_identify"]
    assert len(came) == 1 + len(frames)
    for row, frame in zip(came[1:], frames, strict=True):
        if frame["type"] == 2:
            fields = frame_of(frame)
            assert (row["nsq"]["timestamp_ns"], row["attempts"]) == (fields["timestamp"], fields["attempts"])
            assert (row["message_id"].encode(), row["payload"]) == (fields["message_id"], fields["body"])
            assert row["redelivered"] == (fields["attempts"] > 1)
        else:
            assert row["nsq"]["response"] == frame["text"]
    mode = None if session["mode"] == "plain" else session["mode"]
    assert {row["nsq"]["compression"] for row in sent[2:] + came[1:]} == {mode}
    assert sent[1]["nsq"]["compression"] is came[0]["nsq"]["compression"] is None
    asked = session["decoded"]["identify"]
    assert {name: sent[1]["nsq"][name] for name in ("hostname", "user_agent", "heartbeat_interval", "snappy")} == {
        name: asked[name] for name in ("hostname", "user_agent", "heartbeat_interval", "snappy")
    }
    assert {row["client_id"] for row in rows[1:]} == {asked["client_id"]}
    subscribed = [row for row in rows if row["kind"] in ("message", "FIN", "REQ", "TOUCH", "SUB")]
    assert len({(row["destination"], row["consumer_group"]) for row in subscribed}) <= 1


def test_an_answer_names_no_client() -> None:
    """Only IDENTIFY sets `client_id`. A member of that name in an answer of nsqd does not."""
    answer = nsq.Response(data=b'{"client_id":"other","max_rdy_count":2500}').encode()
    rows = talk((CLIENT, identify()), (SERVER, answer), (CLIENT, b"NOP\n"))
    assert [row["kind"] for row in rows] == ["MAGIC", "IDENTIFY", "response", "NOP"]
    assert [row["client_id"] for row in rows] == [None, "c", "c", "c"]
    assert rows[2]["nsq"]["max_rdy_count"] == 2500


def test_tls_ends_decoding_with_a_row_that_says_so() -> None:
    hello = bytes.fromhex("1603010200010001fc0303") + bytes(100)
    rows = talk((CLIENT, identify(tls_v1=True)), (SERVER, reply(tls_v1=True)), (CLIENT, hello), (SERVER, hello))
    assert [row["kind"] for row in rows] == ["MAGIC", "IDENTIFY", "response", None]
    assert (rows[-1]["status"], rows[-1]["error"]) == ("gap", "TLS from here on: not decoded")


def test_without_an_agreement_nothing_is_unpacked() -> None:
    """snappy was asked for, without feature negotiation: the answer is OK and the stream goes on as it is."""
    octets = b"  V2" + nsq.Identify(snappy=True).encode()
    rows = talk((CLIENT, octets), (SERVER, OK), (CLIENT, b"NOP\n"))
    assert [row["kind"] for row in rows] == ["MAGIC", "IDENTIFY", "response", "NOP"]


def test_a_long_reason_is_shown_whole() -> None:
    """A chunk of snappy with a wrong checksum comes while a command is incomplete."""
    snappy = pytest.importorskip("cramjam", reason="needs cramjam (pip install cramjam)").snappy
    begun = bytes(snappy.compress(b"PUB t\n\0\0\1\0abc"))
    chunk = bytes(snappy.compress(b"d" * 30))[10:]  # without the identifier of a stream
    wrong = chunk[:4] + b"\xff\xff\xff\xff" + chunk[8:]
    rows = talk((CLIENT, identify(snappy=True)), (SERVER, reply(snappy=True)), (CLIENT, begun), (CLIENT, wrong))
    (row,) = [row for row in rows if row["status"] == "partial"]
    assert row["error"].startswith("compressed: snappy: corrupt input (bad checksum; expected: 4294967295, got: ")
    assert row["error"].endswith("): 13 of 266 bytes read")


@pytest.mark.parametrize("size", [1448, 1])
def test_a_compressed_stream_in_websockets(size: int) -> None:
    """The handshake names no subprotocol: the port says the protocol, and what it negotiates is in the payload of frames."""
    request, response = (re.sub(rb"Sec-WebSocket-Protocol: mqtt\r\n", b"", text) for text in (REQUEST, RESPONSE))
    client, server = Deflate(), Deflate()
    published = [nsq.Publish(topic="t", body=body).encode() for body in (b"one", b"two" * 1000, b"three")]
    said = [(CLIENT, request), (SERVER, response), (CLIENT, socket_frame(identify(deflate=True), mask=b"mask"))]
    # the first compressed bytes follow in the same frame
    said += [(SERVER, socket_frame(reply(deflate=True) + server(OK)))]
    for octets in published:
        said += [(CLIENT, socket_frame(client(octets), mask=b"mask")), (SERVER, socket_frame(server(OK)))]
    rows = talk(*said, size=size)
    assert {(row["protocol"], row["status"]) for row in rows} == {("nsq", "ok")}
    sent = [row for row in rows if row["direction"] == CLIENT]
    assert [row["kind"] for row in sent] == ["MAGIC", "IDENTIFY", "PUB", "PUB", "PUB"]
    assert [row["payload"] for row in sent[2:]] == [b"one", b"two" * 1000, b"three"]
    assert [row["kind"] for row in rows if row["direction"] == SERVER] == ["response"] * 5
    assert {row["nsq"]["compression"] for row in sent[2:]} == {"deflate"}


def test_a_hole_in_a_compressed_stream_ends_its_direction() -> None:
    client, server = Deflate(), Deflate()
    tcp = Tcp(port=4150)
    frames = tcp.open() + tcp.send(CLIENT, identify(deflate=True))
    frames += tcp.send(SERVER, reply(deflate=True)) + tcp.send(SERVER, server(OK))
    frames += tcp.send(CLIENT, client(nsq.Publish(topic="t", body=b"one").encode()))
    lost = tcp.send(CLIENT, client(nsq.Publish(topic="t", body=b"two").encode()))
    after = client(nsq.Publish(topic="t", body=b"three").encode())
    frames += tcp.send(CLIENT, after)
    frames += [tcp.segment(SERVER, server(OK) + server(OK)), *tcp.close()]
    rows, _ = rows_of(pcap(frames))
    assert [(row["kind"], row["status"]) for row in rows if row["direction"] == CLIENT] == [
        ("MAGIC", "ok"),
        ("IDENTIFY", "ok"),
        ("PUB", "ok"),
        (None, "gap"),
    ]
    (gap,) = [row for row in rows if row["status"] == "gap"]
    missing = sum(len(frame) - 54 for frame in lost)
    assert gap["error"] == f"not captured: {missing} bytes missing, {len(after)} more skipped"
    assert gap["wire_size"] == missing + len(after)
    assert [row["kind"] for row in rows if row["direction"] == SERVER] == ["response"] * 4


@pytest.mark.parametrize(
    ("mode", "octets", "says"),
    [
        ("deflate", b"\xff" * 40, "compressed: Error -3 while decompressing data"),
        ("snappy", b"\xff\x06\x00\x00sNaPpX", "compressed: not the stream identifier"),
        ("snappy", b"\x01\x05\x00\x00abcde", "compressed: no stream identifier"),
        ("snappy", b"\xff\x06\x00\x00sNaPpY\x02\x01\x00\x00a", "compressed: chunk type 2"),
        ("snappy", b"\xff\x06\x00\x00sNaPpY\x00\xff\xff\xff", "compressed: a chunk of 16777215 bytes"),
        ("snappy", b"\xff\x06\x00\x00sNaPpY\x01\x08\x00\x00\x00\x00\x00\x00NOP\n", "compressed: "),  # checksum
    ],
)
def test_what_is_no_such_stream(mode: str, octets: bytes, says: str) -> None:
    if mode == "snappy":
        pytest.importorskip("cramjam", reason="needs cramjam (pip install cramjam)")
    rows = talk((CLIENT, identify(**{mode: True})), (SERVER, reply(**{mode: True})), (CLIENT, octets + b"x" * 9))
    broken = [row for row in rows if row["status"] == "malformed"]
    assert len(broken) == 1
    assert broken[0]["error"].startswith(says)
    assert [row["kind"] for row in rows[:3]] == ["MAGIC", "IDENTIFY", "response"]


def test_a_bomb_is_bounded() -> None:
    """Sixteen MiB of NOPs in some 16 KiB: read as far as the limit lets them."""
    client = Deflate()
    bomb = client(b"NOP\n" * (4 << 20))
    assert len(bomb) < 32768
    said = ((CLIENT, identify(deflate=True)), (SERVER, reply(deflate=True)), (CLIENT, bomb))
    tcp = Tcp(port=4150)
    frames = tcp.open()
    for side, octets in said:
        frames += tcp.send(side, octets)
    limit = 1 << 20
    rows, stats = rows_of(
        pcap(frames + tcp.close()), limits={"max_inflated": limit}, columns=["kind", "status", "error"]
    )
    told = [row for row in rows if row["status"] == "malformed"]
    assert [row["error"] for row in told] == ["compressed: limit of the decompressed size"]
    nops = sum(row["kind"] == "NOP" for row in rows)
    assert limit // 8 < nops <= (limit + 65536 * 2) // 4 + 100 * len(bomb) // 4
    assert nops < 4 << 20
    assert stats["messages_limited"] == 1


def test_many_compressed_streams_are_bounded() -> None:
    frames = []
    for k in range(8):
        tcp = Tcp(port=4150, client_port=41000 + k)
        frames += tcp.open() + tcp.send(CLIENT, identify(deflate=True)) + tcp.send(SERVER, reply(deflate=True))
    rows, stats = rows_of(pcap(frames), limits={"max_buffered": 150_000})
    assert stats["messages_limited"] > 0
    assert {row["error"] for row in rows if row["status"] == "malformed"} == {"compressed: limit"}


def test_a_message_that_is_cut_has_what_there_is_of_it() -> None:
    whole = nsq.MessageFrame(timestamp=5, attempts=2, message_id=b"0" * 16, body=b"a" * 3000).encode()
    tcp = Tcp(port=4150)
    frames = tcp.open() + tcp.send(CLIENT, b"  V2SUB t c\nRDY 1\n") + tcp.send(SERVER, OK + whole[:2000])
    rows, _ = rows_of(pcap(frames))
    assert (rows[-1]["kind"], rows[-1]["status"], rows[-1]["destination"]) == ("message", "partial", "t")
    assert rows[-1]["payload"] == b"a" * (2000 - 34)
    assert rows[-1]["error"] == "stream ended: 2000 of 3034 bytes read"
    frames = tcp.open() + tcp.send(CLIENT, b"  V2" + nsq.Publish(topic="t", body=b"b" * 500).encode()[:100])
    rows, _ = rows_of(pcap(frames))
    assert (rows[-1]["kind"], rows[-1]["destination"], rows[-1]["payload"]) == ("PUB", "t", b"b" * 90)


@pytest.mark.parametrize("size", [1448, 20, 1])
def test_a_fault_within_mpub_costs_that_row_alone(size: int) -> None:
    messages = b"".join(n.to_bytes(4, "big") + b"x" * 40 for n in (40, 99, 40))
    command = b"MPUB t\n" + (4 + len(messages)).to_bytes(4, "big") + b"\0\0\0\3" + messages
    rows = talk((CLIENT, b"  V2" + command + nsq.Publish(topic="t", body=b"next").encode()), size=size)
    assert [(row["kind"], row["status"]) for row in rows] == [("MAGIC", "ok"), ("MPUB", "malformed"), ("PUB", "ok")]
    assert rows[1]["error"].startswith("bodies[1]")
    assert rows[2]["payload"] == b"next"


def test_frames_again_behind_a_hole_and_in_a_capture_that_began_late() -> None:
    bodies = [b"%d" % k * 700 for k in range(10, 20)]
    frames_of_server = [
        nsq.MessageFrame(timestamp=10**18 + k, attempts=1, message_id=b"%016x" % k, body=body).encode()
        for k, body in enumerate(bodies)
    ]
    tcp = Tcp(port=4150)
    frames = [frame for octets in frames_of_server for frame in tcp.send(SERVER, octets)]
    rows, _ = rows_of(pcap(frames[:6] + frames[7:]))
    assert [row["kind"] for row in rows if row["status"] == "ok"] == ["message"] * sum(
        row["status"] == "ok" for row in rows
    )
    read = [row["payload"] for row in rows if row["status"] == "ok"]
    assert len(read) >= 7
    assert all(payload in bodies for payload in read)


def test_a_secret_is_shown_only_if_asked_for() -> None:
    said = ((CLIENT, b"  V2" + nsq.Auth(secret=b"hush").encode()),)
    assert talk(*said)[1]["nsq"]["secret"] is None
    assert talk(*said, expose_credentials=True)[1]["nsq"]["secret"] == b"hush"
    answer = nsq.Response(members={"identity": "me", "identity_url": "u", "permission_count": 2}).encode()
    row = talk(*said, (SERVER, answer))[2]
    assert (row["nsq"]["identity"], row["nsq"]["permission_count"]) == ("me", 2)


def test_errors_say_whether_they_are_fatal() -> None:
    frames = nsq.Error(b"E_FIN_FAILED FIN x failed").encode() + nsq.Error(b"E_BAD_PROTOCOL").encode()
    rows = talk((CLIENT, b"  V2NOP\n"), (SERVER, frames + nsq.Error(b"E_NEW something").encode()))
    told = [tuple(row["nsq"][name] for name in ("error_code", "error_text", "fatal")) for row in rows[2:]]
    assert told == [
        ("E_FIN_FAILED", "FIN x failed", False),
        ("E_BAD_PROTOCOL", None, True),
        ("E_NEW", "something", None),
    ]
