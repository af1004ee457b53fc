"""Rows of the packets table: each part of a packet's head is there when it says something, and is read back."""

from __future__ import annotations

from typing import Any

import pytest

from lib.packets import OUTER, ethernet, ip4, ip6, tcp, udp
from lib.vlan import tagged
from lib.wire import Tcp, connect, pcap
from wirefmt.capture._engine import CaptureDecoder, PacketScanner

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

HEAD = 40
CONNECT = connect()
PLAIN = Tcp().segment(0, CONNECT)
VXLAN = ethernet(0x0800, ip4(udp(4789, b"\x08\0\0\0\x00\x12\x34\0" + PLAIN), 17, ends=OUTER))
SIX = ethernet(0x86DD, ip6(tcp(CONNECT)))
INNER = tagged(SIX, [(0x8100, 8)])
ALL = tagged(ethernet(0x0800, ip4(udp(4789, b"\x08\0\0\0\0\1\0\0" + INNER), 17, ends=OUTER)), [(0x8100, 9)])

#: A capture of one packet, and the octets between the head and the payload of its row.
ROWS: dict[str, tuple[bytes, int]] = {
    "IPv4": (pcap([PLAIN]), 8),
    "IPv6": (pcap([SIX]), 32),
    "cut by the snapshot length": (pcap([PLAIN], snaplen=60), 8 + 4),
    "in a network of VXLAN": (pcap([VXLAN]), 8 + 4),
    "with a VLAN": (pcap([tagged(PLAIN, [(0x8100, 7)])]), 8 + 8),
    "all of it": (pcap([ALL], snaplen=145), 32 + 4 + 4 + 8),
}


def row_of(octets: bytes) -> bytes:
    scanner = PacketScanner(columns=["segment"], tunnels=True)
    scanner.begin_file("x", 3)
    scanner.feed(octets)
    scanner.end_file()
    batch = scanner.take(final=True)
    assert batch is not None
    (row,) = batch["segment"]
    return bytes(row)


def decoded(feed: str, octets: bytes) -> list[dict[str, Any]]:
    decoder = CaptureDecoder(tunnels=True, vlan=True, flows="across-files")
    for index in range(4):
        decoder.begin_file("x", index)
    getattr(decoder, feed)(octets)
    if feed == "feed":
        decoder.end_file()
    assert decoder.finish()
    batch = decoder.take(final=True)
    return [] if batch is None else list(pa.record_batch(batch).to_pylist())


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_parts_that_say_something(name: str) -> None:
    octets, parts = ROWS[name]
    row = row_of(octets)
    captured = min(len(CONNECT), 6) if "cut" in name else len(row) - HEAD - parts
    assert len(row) == HEAD + parts + captured
    assert CONNECT.startswith(row[HEAD + parts :])
    found = decoded("feed_segments", row)
    assert found == decoded("feed", octets)
    assert found


@pytest.mark.parametrize("name", ROWS)
def test_what_is_no_whole_row_is_refused(name: str) -> None:
    row = row_of(ROWS[name][0])
    wrong = [row[:size] for size in range(1, len(row))]
    wrong += [row[:1] + bytes([parts]) + row[2:] for parts in (0, row[1] | 3, 0x20 | row[1], 0xFF)]
    for octets in wrong:
        with pytest.raises(ValueError, match="not a row of the packets table at offset 0"):
            decoded("feed_segments", octets)


def test_rows_lie_one_after_another() -> None:
    rows = [row_of(octets) for octets, _ in ROWS.values()]
    decoder = CaptureDecoder(tunnels=True)
    decoder.begin_file("x", 3)
    assert decoder.feed_segments(b"".join(rows)) == sum(map(len, rows))
