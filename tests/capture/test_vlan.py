"""The column `vlan`: the VLAN identifiers of the packet that began a message."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from lib.captures import live
from lib.packets import ethernet, fragments4, ip4, tcp
from lib.vlan import number_at, number_of, numbered, records_of, tagged
from lib.wire import Tcp, connack, connect, pcap, publish
from wirefmt import capture
from wirefmt.capture._engine import CaptureDecoder, PacketScanner

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

TSHARK = shutil.which("tshark")

#: Tags (EtherType, priority and identifier; IEEE 802.1Q, 9.6) and the identifiers that they name.
STACKS: tuple[tuple[list[tuple[int, int]], list[int] | None], ...] = (
    ([], None),
    ([(0x8100, 10)], [10]),
    ([(0x8100, 0xFFFE)], [0xFFE]),  # without priority 7 and DEI
    ([(0x8100, 0x2000)], [0]),  # a priority tag
    ([(0x88A8, 20), (0x8100, 30)], [20, 30]),
    ([(0x88A8, 21), (0x88A8, 22), (0x8100, 23)], [21, 22, 23]),
    ([(0x9100, 40), (0x8100, 50)], [40, 50]),
    ([(0x8100, i) for i in range(1, 6)], [1, 2, 3, 4, 5]),
)
LIVE = (
    "mosquitto-paho-v5.pcap",
    "mosquitto-paho-v311-lossy-outoforder.pcap",
    "rabbitmq-proton.pcap",
    "rabbitmq-pyamqp.pcap",
)


def rows(data: Any, **options: Any) -> list[dict[str, Any]]:
    with capture.read(io.BytesIO(data) if isinstance(data, bytes) else data, **options) as reader:
        return list(pa.table(reader).to_pylist())


def connection(tags: Any, port: int) -> list[bytes]:
    client = Tcp(client_port=port)
    return [tagged(frame, tags) for frame in [*client.open(), client.segment(0, connect())]]


@pytest.fixture
def stacks() -> bytes:
    """A connection for each of STACKS."""
    return pcap([frame for i, (tags, _) in enumerate(STACKS) for frame in connection(tags, 20_000 + i)])


def tshark(path: Path, *fields: str) -> list[list[str]]:
    names = [part for field in fields for part in ("-e", field)]
    command = [str(TSHARK), "-n", "-r", str(path), "-T", "fields", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.split("\n")[:-1]]


def test_identifiers_come_in_the_order_of_the_tags(stacks: bytes) -> None:
    assert [row["vlan"] for row in rows(stacks, columns=["vlan"])] == [said for _, said in STACKS]


@pytest.mark.skipif(TSHARK is None, reason="needs tshark (apt install tshark)")
def test_tshark_reads_the_same_ones(stacks: bytes, tmp_path: Path) -> None:
    """Tags of 802.1ad, which are outside those of 802.1Q here, have fields of their own; two of them are a pair."""
    (tmp_path / "x.pcap").write_bytes(stacks)
    found = tshark(tmp_path / "x.pcap", "ieee8021ad.svid", "ieee8021ad.cvid", "ieee8021ad.id", "vlan.id")
    theirs = [[int(i) for field in fields if field for i in field.split(",")] or None for fields in found]
    assert [row["vlan"] for row in rows(stacks, vlan=True)] == theirs[3::4]


def test_other_tags_have_none_and_five_are_kept() -> None:
    """802.1BR and VN-TAG name no VLAN; neither does the service of 802.1ah, inside a tag that does."""
    client = Tcp()
    frame = client.segment(0, connect())
    body = frame[12:]
    made: dict[bytes, list[int] | None] = {
        frame[:12] + bytes.fromhex("893f 0000 0000 0001") + body: None,
        frame[:12] + bytes.fromhex("893f 0000 0000 0001 8100 0007") + body: [7],
        frame[:12] + bytes.fromhex("8926 0000 0001") + body: None,
        frame[:12] + bytes.fromhex("88a8 0064 88e7 0000 2710") + frame[:12] + bytes.fromhex("8100 0007") + body: [
            100,
            7,
        ],
        tagged(frame, [(0x9200, i) for i in range(1, 9)]): [1, 2, 3, 4, 5],
    }

    for octets, said in made.items():
        assert [row["vlan"] for row in rows(pcap([octets]), vlan=True)] == [said]


@pytest.mark.parametrize("size", [5, 100, 65535])
@pytest.mark.parametrize("name", LIVE)
def test_it_is_that_of_the_packet_that_began_the_message(name: str, size: int) -> None:
    """Each packet has tags of its own: a message in several frames and packets has the first one's."""
    found = rows(numbered(live(name).read_bytes(), size), columns=["ts", "ts_first", "kind", "vlan"])
    assert len(found) > 100
    assert [number_of(row["vlan"]) for row in found] == [number_at(row["ts_first"]) for row in found]
    assert size > 5 or sum(row["ts_first"] != row["ts"] for row in found) > 50


@pytest.mark.parametrize("name", LIVE)
def test_rows_do_not_depend_on_how_they_are_read(name: str, tmp_path: Path) -> None:
    octets = numbered(live(name).read_bytes(), 100)
    columns = ["flow_id", "byte_offset", "direction", "frame_no", "kind", "error", "vlan"]
    whole = rows(octets, columns=columns)

    def by_flow(found: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
        flows = defaultdict(list)
        for row in found:
            flows[row["flow_id"]].append(row)
        return flows

    assert rows(octets, columns=columns, batch_rows=1) == whole
    assert by_flow(rows(octets, columns=columns, threads=3, batch_rows=7)) == by_flow(whole)
    sliced = [row for i in range(3) for row in rows(octets, columns=columns, slice=(i, 3))]
    assert by_flow(sliced) == by_flow(whole)
    assert scanned(octets, columns=columns) == whole
    records = records_of(octets)
    size = len(records) // 3 + 1
    files = []
    for i in range(3):
        files.append(tmp_path / f"x_{i:05}.pcap")
        files[-1].write_bytes(octets[:24] + b"".join(records[i * size : (i + 1) * size]))
    at = [name for name in columns if name != "frame_no"]
    assert rows([str(file) for file in files], columns=at, flows="across-files") == rows(octets, columns=at)


def scanned(octets: bytes, **options: Any) -> list[dict[str, Any]]:
    """Rows by way of the packets table, as on Spark."""
    scanner = PacketScanner(columns=["segment"])
    scanner.begin_file("x")
    scanner.feed(octets)
    scanner.end_file()
    decoder = CaptureDecoder(**options)
    decoder.begin_file("x")
    batches = []
    packets = scanner.take(final=True)
    assert packets is not None
    for segment in packets["segment"]:
        decoder.feed_segments(segment)
    while not decoder.finish():
        batches.append(decoder.take())
    batches.append(decoder.take(final=True))
    return list(pa.Table.from_batches([pa.record_batch(batch) for batch in batches]).to_pylist())


def test_a_datagram_in_fragments_has_those_of_the_packet_that_completes_it() -> None:
    parts = fragments4(tcp(connect()), 24)
    assert len(parts) == 2
    for order, said in (((0, 1), [71]), ((1, 0), [70])):
        octets = pcap([tagged(ethernet(0x0800, parts[i]), [(0x8100, 70 + i)]) for i in order])
        assert [row["vlan"] for row in rows(octets, vlan=True)] == [said]
        assert [row["vlan"] for row in scanned(octets, vlan=True)] == [said]


def test_a_packet_without_a_tag_follows_one_with_a_tag() -> None:
    client = Tcp()
    frames = [*client.open(), client.segment(0, connect()), client.segment(1, connack())]
    frames += [client.segment(0, publish("t", bytes(i))) for i in range(4)]
    tags: list[list[tuple[int, int]]] = [[], [], [], [(0x8100, 1)], [], [], [(0x8100, 2)], [], []]
    octets = pcap([tagged(frame, of) for frame, of in zip(frames, tags, strict=True)])
    expected = [[1], None, None, [2], None, None]
    assert [row["vlan"] for row in rows(octets, vlan=True)] == expected
    assert [row["vlan"] for row in rows(octets, vlan=True, threads=2)] == expected
    assert [row["vlan"] for row in scanned(octets, vlan=True)] == expected


def test_segments_of_the_packets_table_are_checked() -> None:
    """A row with tags says so in one octet; its identifiers are the last eight of the head."""
    scanner = PacketScanner(columns=["segment"])
    scanner.begin_file("x")
    scanner.feed(pcap([tagged(Tcp().segment(0, connect()), [(0x8100, 9)]), Tcp().segment(0, connect())]))
    packets = scanner.take(final=True)
    assert packets is not None
    with_tag, plain = packets["segment"]
    assert len(with_tag) == len(plain) + 8
    head = len(with_tag) - len(connect())
    assert with_tag[head - 8 : head] == struct.pack("<Q", 1 << 60 | 9)
    wrong = (
        with_tag[: head - 8] + struct.pack("<Q", 6 << 60) + with_tag[head:],
        with_tag[: head - 1],
        with_tag[: head + 3],
    )
    for row in wrong:
        decoder = CaptureDecoder(vlan=True)
        decoder.begin_file("x")
        with pytest.raises(ValueError, match="not a row of the packets table"):
            decoder.feed_segments(row)


def test_it_is_null_unless_it_is_asked_for(stacks: bytes) -> None:
    assert [row["vlan"] for row in rows(stacks)] == [None] * len(STACKS)
    assert [row["vlan"] for row in rows(stacks, columns=["vlan"], vlan=False)] == [None] * len(STACKS)
    assert rows(stacks) == [row | {"vlan": None} for row in rows(stacks, vlan=True)]


def test_a_filter_may_ask_for_it(stacks: bytes) -> None:
    def kept(text: str) -> list[int]:
        return [row["src_port"] - 20_000 for row in rows(stacks, columns=["src_port"], filter=text)]

    tags = [said for _, said in STACKS]
    assert kept("30 in vlan") == [i for i, said in enumerate(tags) if said and 30 in said]
    assert kept("vlan is None") == [0]
    assert kept("len(vlan) > 2") == [i for i, said in enumerate(tags) if said and len(said) > 2]
    assert kept("vlan is not None and not 1 in vlan and 0 in vlan") == [3]


def one_of_two() -> bytes:
    """Each packet of a connection in two VLANs, as a port that mirrors a router's both sides sends it."""
    return pcap(
        [
            frame
            for pair in zip(connection([(0x8100, 10)], 1), connection([(0x8100, 20)], 1), strict=True)
            for frame in pair
        ]
    )


def test_one_connection_in_two_vlans_is_one() -> None:
    """Directions of a connection may be in different VLANs, and a packet may be captured in both."""
    assert [row["vlan"] for row in rows(one_of_two(), vlan=True)] == [[10]]
    client = Tcp()
    frames = [*client.open(), client.segment(0, connect()), client.segment(1, connack())]
    octets = pcap([tagged(frame, [(0x8100, 10 if frame[26:30] == b"\n\0\0\x02" else 20)]) for frame in frames])
    found = rows(octets, vlan=True)
    assert [(row["kind"], row["vlan"]) for row in found] == [("CONNECT", [10]), ("CONNACK", [20])]
    assert len({row["flow_id"] for row in found}) == 1


@pytest.mark.skipif(TSHARK is None, reason="needs tshark (apt install tshark)")
def test_two_vlans_are_one_stream_of_tshark(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(one_of_two())
    found = tshark(tmp_path / "x.pcap", "tcp.stream", "vlan.id")
    assert found == [["0", vlan] for _ in range(4) for vlan in ("10", "20")]


def test_tags_outside_and_inside_a_tunnel() -> None:
    inner = tagged(Tcp().segment(0, connect()), [(0x8100, 7)])
    head = struct.pack(">HHHH", 5555, 4789, 16 + len(inner), 0) + b"\x08\x00\x00\x00\x00\x12\x34\x00"
    octets = pcap([tagged(ethernet(0x0800, ip4(head + inner, 17)), [(0x88A8, 5), (0x8100, 6)])])
    assert [row["vlan"] for row in rows(octets, vlan=True, tunnels=True)] == [[5, 6, 7]]
