"""Captures packet by packet, against tshark's decode of them: how many,
when, how long, which addresses, ports, sequence numbers, flags and payload. And captures that are damaged: read what
can be read, never raise, the same for any chunks."""

from __future__ import annotations

import hashlib
import random
from decimal import Decimal
from ipaddress import ip_address
from typing import Any

import pytest

from lib.captures import Row, frames_name, lines_in, manifest, name_of, octets_of, parameters
from wirefmt.capture._engine import PacketScanner, PacketTrace, PcapReader

#: Captures of which there is a decode packet by packet.
ROWS = parameters([row for row in manifest() if frames_name(row)])

#: Frames on which tshark 4.0.17 and we differ, and why.
ORACLE_FAULTS: dict[tuple[str, int], str] = {
    ("the-tcpdump-group__bigtcp-ipv4-vxlan-ipv4.pcap", 1): "it does not look into UDP of length 0 (offload)",
    ("the-tcpdump-group__bigtcp-ipv6-geneve-ipv6.pcap", 1): "the same; both files' names say what is inside",
    ("the-tcpdump-group__timestamp_invalid_nano.pcap", 2): "it prints 10^9 ns as ten digits behind the point",
    ("the-tcpdump-group__timestamp_invalid_nano.pcap", 3): "it takes 2^31 ns as a negative number",
    ("gopacket__linux_sll_oversized_addr.pcapng", 95): "its data offset is 0, less than a TCP header: no segment",
    # the fragment at offset 24 comes last and covers octets that are there; RFC 791 leaves it open which
    # copy counts. tshark takes those of the lower offset, we the first to come.
    ("zeek__fragmented-4.pcap", 5): "overlapping fragments",
}
#: Times beyond what 64 bits of nanoseconds hold (the year 2262) are the largest such number.
LAST_NS = 2**63 - 1
#: It lists custom blocks of pcapng among the packets, as `data` without a time.
CUSTOM_BLOCKS = {
    "google__test018.pcapng", "google__test102.pcapng", "google__test202.pcapng", "google__test202-045e5b.pcapng",
}  # fmt: skip
#: It stops at a pcapng section of version 2; the packets of the section of version 1 behind it can be read (4.1).
STOPS_EARLY = {"google__test901.pcapng": 1}
RST = 4
#: Layers behind which TCP headers are quoted, not sent.
QUOTING = {"icmp", "icmpv6", "sflow"}


def packets_of(octets: bytes) -> list[tuple[int, int, int, int, bytes]]:
    reader = PcapReader()
    return reader.feed(octets) + reader.close()


def innermost_tcp(frame: dict[str, Any]) -> dict[str, Any] | None:
    """What tshark says of the innermost TCP segment, if there is one that is not quoted in an ICMP error."""
    layers = frame["protocols"].split(":")
    if "tcp" not in layers or QUOTING & set(layers[: layers.index("tcp")]) or "sport" not in frame:
        return None

    def last(name: str) -> str:
        return str(frame.get(name, "")).split(",")[-1]

    before = layers[: len(layers) - layers[::-1].index("tcp")]
    family = [name for name in before if name in ("ip", "ipv6")][-1]
    number = "4" if family == "ip" else "6"
    return {
        "src_ip": str(ip_address(last(f"ip{number}src"))),
        "dst_ip": str(ip_address(last(f"ip{number}dst"))),
        "src_port": int(last("sport")),
        "dst_port": int(last("dport")),
        "seq": int(last("seq")),
        "ack": int(last("ack") or 0),
        "flags": int(last("flags") or "0", 16) & 0xFF,
        "size": int(last("tcplen") or 0),
        "payload": frame.get("payload", {}).get("sha1"),
    }


def ours(fields: dict[str, Any]) -> dict[str, Any]:
    payload = fields["payload"]
    return {
        name: str(ip_address(fields[name])) if name.endswith("_ip") else fields[name]
        for name in ("src_ip", "dst_ip", "src_port", "dst_port", "seq", "ack", "flags", "size")
    } | {"payload": hashlib.sha1(payload).hexdigest() if payload else None}


@pytest.mark.parametrize("row", ROWS)
def test_packets_are_those_of_tshark(row: Row) -> None:
    octets = octets_of(row)
    name = name_of(row)
    expected = lines_in(row, frames_name(row))
    if name in CUSTOM_BLOCKS:
        expected = [f for f in expected if "t" in f or f["protocols"] != "data"]
    packets = packets_of(octets)
    assert len(packets) == len(expected) + STOPS_EARLY.get(name, 0)
    trace = PacketTrace(tunnels=True)
    different = {}
    for frame, (number, ts_ns, link_type, original_size, data) in zip(expected, packets, strict=False):
        what, fields = trace.parse(link_type, data, original_size=original_size, ts_ns=ts_ns)
        wanted: dict[str, Any] = {"caplen": int(frame["caplen"]), "len": int(frame["len"]), "ts_ns": 0}
        if "t" in frame:
            wanted["ts_ns"] = min(int(Decimal(frame["t"]) * 10**9), LAST_NS)
        wanted["tcp"] = innermost_tcp(frame)
        seen: dict[str, Any] = {
            "caplen": len(data),
            "len": original_size,
            "ts_ns": ts_ns,
            "tcp": ours(fields) if fields else None,
        }
        if fields and wanted["tcp"] and wanted["tcp"]["size"] == len(fields["payload"]) < fields["size"]:
            # The IP header tells of more octets than the frame had: the writer of the file cut it, and its length
            # (the sequence numbers of deepflowio__xiangdao-retrans follow the IP header). tshark takes that.
            assert len(data) == original_size
            wanted["tcp"]["size"] = fields["size"]
        if fields and wanted["tcp"] and fields["flags"] & RST and fields["payload"]:
            wanted["tcp"]["payload"] = seen["tcp"]["payload"]  # of a RST it gives only the number of octets
        if seen != wanted and (name, number) not in ORACLE_FAULTS:
            different[number] = (what, seen, wanted, frame["protocols"])
    assert not different


def scanned(octets: bytes | bytearray, chunk: int) -> tuple[list[Any], dict[str, int]]:
    scanner = PacketScanner(tunnels=True, columns=["file_index", "frame_no", "flow_hash", "segment"])
    scanner.begin_file("x", 3)
    for at in range(0, len(octets), chunk):
        scanner.feed(octets[at : at + chunk])
    scanner.end_file()
    batch = scanner.take(final=True)
    if batch is None:
        return [], scanner.stats
    assert batch.names == ["file_index", "frame_no", "flow_hash", "segment"]
    rows = list(zip(*(list(batch[name]) for name in batch.names), strict=True))
    return rows, scanner.stats


@pytest.mark.parametrize("row", ROWS)
def test_chunks_do_not_matter(row: Row) -> None:
    octets = octets_of(row)[:100_000]
    whole = scanned(octets, max(1, len(octets)))
    for chunk in (1, 7, 4096):
        assert scanned(octets, chunk) == whole


SMALL = parameters([row for row in manifest() if frames_name(row) and len(octets_of(row)) < 20_000])


@pytest.mark.parametrize("row", SMALL)
def test_a_cut_file_gives_the_packets_before_the_cut(row: Row) -> None:
    octets = octets_of(row)
    whole = packets_of(octets)
    chance = random.Random(row["file"])
    for cut in [0, 3, 23, 24, *(chance.randrange(len(octets)) for _ in range(40))]:
        reader = PcapReader()
        found = reader.feed(octets[:cut]) + reader.close()
        assert found == whole[: len(found)]
        # what is lost was cut: the octets of the packets found and of the next one do not fit
        behind = sum(len(p[4]) for p in whole[: len(found) + 1])
        if octets[:4] != b"\x0a\x0d\x0d\x0a":
            assert len(found) == len(whole) or behind + 16 * (len(found) + 1) > cut - 24 or reader.faults


@pytest.mark.parametrize("row", SMALL)
def test_flipped_octets_raise_nothing_and_chunks_do_not_matter(row: Row) -> None:
    octets = octets_of(row)
    chance = random.Random(row["file"])
    for _ in range(30):
        damaged = bytearray(octets)
        for _ in range(chance.randrange(1, 8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        assert scanned(damaged, len(damaged)) == scanned(damaged, chance.randrange(1, 700))


def test_random_octets_are_no_capture() -> None:
    chance = random.Random(1)
    for size in range(0, 300, 7):
        reader = PcapReader()
        assert reader.feed(chance.randbytes(size)) + reader.close() == []
        assert len(reader.faults) == 1
