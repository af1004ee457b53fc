"""The hashes of flows: the one that deals flows out is the same in every process, the flow table's cannot be foreseen."""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
import warnings
from typing import Any

import pytest

from lib.paths import ROOT
from lib.wire import SYN, pcap
from wirefmt import capture
from wirefmt.capture._engine import PacketTrace

MASK = (1 << 64) - 1
FACTOR = 0xD6E8FEB86659FD93
SOURCE = bytes(15) + b"\1"


def avalanche(h: int) -> int:
    """The last step of flow hashes and of flow_id; Spark jobs and slices rely on them."""
    for _ in "12":
        h = (h ^ h >> 32) * FACTOR & MASK
    return h ^ h >> 32


def avalanche_inverse(h: int) -> int:
    inverse = pow(FACTOR, -1, 1 << 64)
    h ^= h >> 32
    for _ in "12":
        h = h * inverse & MASK
        h ^= h >> 32
    return h


def end_hash(address: bytes, port: int) -> int:
    low, high = struct.unpack("<QQ", address)
    return avalanche(low ^ avalanche(high ^ port))


def flow_hash(a: tuple[bytes, int], b: tuple[bytes, int], ip_version: int, vni: int = 0) -> int:
    return avalanche((end_hash(*a) + end_hash(*b) + (vni << 20) + ip_version) & MASK)


def syn(destination: bytes, source: bytes = SOURCE) -> bytes:
    """An Ethernet frame: a SYN over IPv6 from port 40000 to port 1883."""
    segment = struct.pack(">HHIIBBHHH", 40000, 1883, 1, 0, 0x50, SYN, 65535, 0, 0)
    ip = b"\x60\0\0\0" + len(segment).to_bytes(2, "big") + b"\6\x40" + source + destination
    return bytes.fromhex("020000000002 020000000001 86dd") + ip + segment


def colliding(count: int) -> list[bytes]:
    """Addresses whose end hash with port 1883 is one number, as who knows the function can choose them."""
    chance = random.Random(1)
    wanted = avalanche_inverse(0x1234567890ABCDEF)
    highs = [chance.getrandbits(64) for _ in range(count)]
    addresses = [struct.pack("<QQ", wanted ^ avalanche(high ^ 1883), high) for high in highs]
    assert len({flow_hash((SOURCE, 40000), (a, 1883), 6) for a in addresses}) == 1
    return addresses


def stats_of(frames: list[bytes]) -> dict[str, Any]:
    with capture.read(io.BytesIO(pcap(frames))) as reader:
        assert sum(len(batch) for batch in reader) == 0
    return reader.stats


def test_flows_of_equal_hash_do_not_meet_in_the_flow_table() -> None:
    """The table of an unkeyed hash looked at all flows before, for every one: 200 million slots."""
    count = 20_000
    chosen = stats_of([syn(address) for address in colliding(count)])
    assert chosen["flows"] == count
    # in a table at most half full the mean is below one slot; chance may double it, not more
    assert chosen["flow_table_probes"] < 4 * count
    assert chosen["equal_flow_hashes"] == count - 1


def test_flows_of_equal_hash_are_counted_and_others_are_not() -> None:
    chance = random.Random(2)
    fair = stats_of([syn(chance.randbytes(16)) for _ in range(1000)])
    assert (fair["flows"], fair["equal_flow_hashes"]) == (1000, 0)
    again = stats_of([syn(bytes(15) + b"\2")] * 3)
    assert (again["flows"], again["equal_flow_hashes"]) == (1, 0)


@pytest.mark.parametrize("ip_version", [4, 6])
def test_the_hash_that_deals_flows_out_is_fixed(ip_version: int) -> None:
    chance = random.Random(3)
    for _ in range(20):
        a, b = (chance.randbytes(16 if ip_version == 6 else 4) for _ in "ab")
        segment = struct.pack(">HHIIBBHHH", 40000, 1883, 1, 0, 0x50, SYN, 65535, 0, 0)
        if ip_version == 4:
            packet = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + a + b + segment
        else:
            packet = b"\x60\0\0\0\0\x14\6\x40" + a + b + segment
        what, fields = PacketTrace().parse(101, packet)
        assert what == "tcp" and fields is not None
        ends = (a.ljust(16, b"\0"), 40000), (b.ljust(16, b"\0"), 1883)
        assert fields["flow_hash"] == flow_hash(*ends, ip_version)


def test_the_flow_id_is_fixed() -> None:
    """It depends on the flow hash and the time of the first packet, alike in every process and version."""
    from lib.wire import START, Tcp, connect

    tcp = Tcp()
    with capture.read(io.BytesIO(pcap([*tcp.open(), *tcp.send(0, connect())]))) as reader:
        (found,) = [identifier for batch in reader for identifier in batch["flow_id"]]
    one, other = (
        (n.to_bytes(4, "big").ljust(16, b"\0"), port) for n, port in ((tcp.client, 40000), (tcp.server, 1883))
    )
    assert found == avalanche(flow_hash(one, other, 4) ^ avalanche(START * 10**9)) >> 1


def test_flow_identifiers_and_rows_are_the_same_in_every_process() -> None:
    """Each process draws other keys for its tables; nothing of them is to be seen."""
    program = (
        "import sys, pyarrow as pa; from wirefmt import capture; "
        "t = pa.table(capture.read(sys.argv[1])); "
        "print(t.num_rows, t['flow_id'].to_pylist() + t['destination'].to_pylist())"
    )
    path = str(ROOT / "samples" / "mosquitto-paho-v5.pcap")
    found = {
        subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, env=os.environ).stdout
        for _ in range(3)
    }
    assert len(found) == 1
    assert int(found.pop().split()[0]) > 100


def test_topic_aliases_of_any_choice_are_kept_apart() -> None:
    from lib.wire import Tcp, connect, publish

    chance = random.Random(4)
    aliases = [2**k for k in range(16)] + chance.sample(range(1, 65536), 3000)
    aliases = list(dict.fromkeys(aliases))
    sent = connect("c", 5)
    sent += b"".join(publish(f"t{a}", b"", 5, b"\x23" + a.to_bytes(2, "big")) for a in aliases)
    sent += b"".join(publish("", b"", 5, b"\x23" + a.to_bytes(2, "big")) for a in reversed(aliases))
    tcp = Tcp()
    with capture.read(io.BytesIO(pcap([*tcp.open(), *tcp.send(0, sent)])), columns=["destination"]) as reader:
        topics = [t for batch in reader for t in batch["destination"]]
    assert topics[1:] == [f"t{a}" for a in aliases] + [f"t{a}" for a in reversed(aliases)]


def test_a_partition_of_a_shuffle_warns_of_equal_hashes() -> None:
    """The decoder behind the shuffle, without Spark: rows of the packets table, sorted by flow."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")
    from pyspark_wirefmt import shuffle
    from pyspark_wirefmt.options import Options

    def decode(addresses: list[bytes]) -> None:
        scanner = capture.PacketScanner(columns=["flow_hash", "file_index", "frame_no", "segment"])
        scanner.begin_file("f")
        scanner.feed(pcap([syn(address) for address in addresses]))
        scanner.end_file()
        packets = pa.record_batch(scanner.take(final=True)).sort_by(
            [("flow_hash", "ascending"), ("frame_no", "ascending")]
        )
        function = shuffle._decoder("flow_hash", ["f"], Options.parse({}), ["kind"])
        assert sum(batch.num_rows for batch in function(iter([packets]))) == 0

    with pytest.warns(RuntimeWarning, match="^49 connections have the flow hash of another"):
        decode(colliding(50))
    chance = random.Random(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode([chance.randbytes(16) for _ in range(50)])
