"""Single packets through the headers: every link layer, IPv4 and IPv6, fragments, tunnels, cut and padded ones. Packets
are written here field by field as the RFCs say."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from lib.packets import A4, A6, B4, B6, FLOW, OUTER, PAYLOAD, ethernet, fragments4, fragments6, ip4, ip6, tcp, udp
from lib.wire import Tcp, connect, pcap
from wirefmt.capture._engine import CaptureDecoder, PacketScanner, PacketTrace


def parsed(link_type: int, octets: bytes, *, tunnels: bool = False, **how: Any) -> tuple[str, dict[str, Any] | None]:
    return PacketTrace(tunnels=tunnels).parse(link_type, octets, **how)


def check(
    link_type: int, octets: bytes, ends: tuple[str, str] = (A4, B4), *, tunnels: bool = False, **how: Any
) -> dict[str, Any]:
    what, fields = parsed(link_type, octets, tunnels=tunnels, **how)
    assert what == "tcp"
    assert fields is not None
    assert (fields["src_ip"], fields["dst_ip"]) == ends
    assert {name: fields[name] for name in FLOW} == FLOW
    return fields


def pktap(link_type: int) -> bytes:
    """Length, record type (1: a packet), link type, then the interface and the process: 108 octets."""
    return struct.pack("<III", 108, 1, link_type) + b"en0".ljust(24, b"\0") + bytes(72)


LABEL, BOTTOM = b"\x00\x01\x00\x40", b"\x00\x01\x01\x40"
LINKS = {
    "ethernet": (1, ethernet(0x0800, ip4(tcp()))),
    "802.1Q": (1, ethernet(0x8100, b"\x00\x07\x08\x00" + ip4(tcp()))),
    "QinQ 88a8": (1, ethernet(0x88A8, b"\x00\x07\x81\x00\x00\x08\x08\x00" + ip4(tcp()))),
    "QinQ 9100": (1, ethernet(0x9100, b"\x00\x07\x81\x00\x00\x08\x08\x00" + ip4(tcp()))),
    "LLC and SNAP": (1, ethernet(60, b"\xaa\xaa\x03\x00\x00\x00\x08\x00" + ip4(tcp()))),
    "PPPoE": (1, ethernet(0x8864, b"\x11\x00\x00\x01\x00\x2f\x00\x21" + ip4(tcp()))),
    "MPLS": (1, ethernet(0x8847, LABEL + BOTTOM + ip4(tcp()))),
    "MPLS pseudowire": (1, ethernet(0x8847, LABEL + BOTTOM + bytes(4) + ethernet(0x0800, ip4(tcp())))),
    "Linux SLL": (113, struct.pack(">HHH8sH", 0, 1, 6, bytes(8), 0x0800) + ip4(tcp())),
    "Linux SLL2": (276, struct.pack(">HHIHBB8s", 0x0800, 0, 2, 1, 0, 6, bytes(8)) + ip4(tcp())),
    "null, little-endian": (0, struct.pack("<I", 2) + ip4(tcp())),
    "null, big-endian": (0, struct.pack(">I", 2) + ip4(tcp())),
    "loop": (108, struct.pack(">I", 2) + ip4(tcp())),
    "raw": (101, ip4(tcp())),
    "raw, BSD": (12, ip4(tcp())),
    "raw, OpenBSD": (14, ip4(tcp())),
    "IPv4": (228, ip4(tcp())),
    "PPP": (9, b"\xff\x03\x00\x21" + ip4(tcp())),
    "PPP, compressed": (9, b"\x21" + ip4(tcp())),
    "Cisco HDLC": (104, b"\x0f\x00\x08\x00" + ip4(tcp())),
    "NFLOG": (239, b"\x02\x00\x00\x00" + struct.pack("<HHI", 8, 1, 9)
              + struct.pack("<HH", 4 + len(ip4(tcp())), 9) + ip4(tcp())),
    # https://www.tcpdump.org/linktypes.html; tshark 4.0 reads these packets, but not files of 166, 205 and 219
    "PPP with a direction": (204, b"\x00\xff\x03\x00\x21" + ip4(tcp())),
    "PPP of pppd": (166, b"\x01\x03\x00\x21" + ip4(tcp())),
    "Cisco HDLC with a direction": (205, b"\x00\x0f\x00\x08\x00" + ip4(tcp())),
    "MPLS alone": (219, LABEL + BOTTOM + ip4(tcp())),
    "BSD enc": (109, struct.pack("<III", 2, 1, 0) + ip4(tcp())),
    "BSD pflog": (117, bytes((61, 2, 0, 0)) + b"em0".ljust(60, b"\0") + ip4(tcp())),
    "netANALYZER": (240, b"\x00\x04\x3c\x00" + ethernet(0x0800, ip4(tcp()))),
    "PKTAP of Ethernet": (258, pktap(1) + ethernet(0x0800, ip4(tcp()))),
    "PKTAP of raw IP": (258, pktap(12) + ip4(tcp())),
    "PKTAP as USER2": (149, pktap(0) + struct.pack("<I", 2) + ip4(tcp())),
    "802.1BR": (1, ethernet(0x893F, bytes(6) + b"\x08\x00" + ip4(tcp()))),
    "VN-TAG": (1, ethernet(0x8926, bytes(4) + b"\x08\x00" + ip4(tcp()))),
    "802.1ah": (1, ethernet(0x88E7, bytes(4) + ethernet(0x0800, ip4(tcp())))),
}  # fmt: skip


@pytest.mark.parametrize("name", LINKS)
def test_link_layers(name: str) -> None:
    fields = check(*LINKS[name])
    assert (fields["payload"], fields["size"], fields["vni"]) == (PAYLOAD, len(PAYLOAD), 0)


@pytest.mark.parametrize("name", LINKS)
def test_a_packet_cut_anywhere_is_counted_or_has_less_payload(name: str) -> None:
    link_type, octets = LINKS[name]
    for size in range(len(octets)):
        what, fields = parsed(link_type, octets[:size], original_size=len(octets))
        if fields is None:
            # where headers are cut nothing is made up
            assert what in ("truncated", "other_network", "malformed")
        else:
            assert fields["size"] == len(PAYLOAD)
            assert PAYLOAD.startswith(fields["payload"])
            assert {n: fields[n] for n in FLOW} == FLOW


@pytest.mark.parametrize("family", [10, 24, 28, 30])
@pytest.mark.parametrize("order", ["<", ">"])
def test_null_has_several_numbers_for_ipv6(family: int, order: str) -> None:
    check(0, struct.pack(order + "I", family) + ip6(tcp()), (A6, B6))


def test_padding_behind_the_ip_packet_is_no_payload() -> None:
    fields = check(1, ethernet(0x0800, ip4(tcp(b""))) + b"\x55" * 6)
    assert (fields["payload"], fields["size"]) == (b"", 0)
    fields = check(1, ethernet(0x86DD, ip6(tcp(b"x"))) + b"\x55" * 6, (A6, B6))
    assert (fields["payload"], fields["size"]) == (b"x", 1)


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("padding", [1, 6, 46, 300])
def test_padding_behind_any_link_layer(name: str, padding: int) -> None:
    link_type, octets = LINKS[name]
    fields = check(link_type, octets + b"\x55" * padding)
    assert (fields["payload"], fields["size"]) == (PAYLOAD, len(PAYLOAD))


def test_padding_behind_ipv6() -> None:
    fields = check(101, ip6(tcp()) + b"\x55" * 6, (A6, B6))
    assert (fields["payload"], fields["size"]) == (PAYLOAD, len(PAYLOAD))


#: Every layer that has a length of its own: link type, and what it makes of the octets inside it, which its length counts.
LENGTHS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "802.3": (1, lambda b: bytes(12) + struct.pack(">H", 8 + len(b)) + b"\xaa\xaa\x03\x00\x00\x00\x08\x00" + b),
    "802.3 after a VLAN tag": (
        1,
        lambda b: ethernet(0x8100, b"\x00\x07" + struct.pack(">H", 8 + len(b)) + b"\xaa\xaa\x03\x00\x00\x00\x08\x00" + b),
    ),
    "PPPoE": (1, lambda b: ethernet(0x8864, b"\x11\x00\x00\x01" + struct.pack(">H", 2 + len(b)) + b"\x00\x21" + b)),
    "PPPoE as link type": (51, lambda b: b"\x11\x00\x00\x01" + struct.pack(">H", 2 + len(b)) + b"\x00\x21" + b),
    "NFLOG": (239, lambda b: b"\x02\x00\x00\x00" + struct.pack("<HH", 4 + len(b), 9) + b),
    "4 in 4": (101, lambda b: ip4(b, 4, ends=OUTER)),
    "4 in 6": (101, lambda b: ip6(b, 4)),
    "GRE in 4": (101, lambda b: ip4(b"\x00\x00\x08\x00" + b, 47, ends=OUTER)),
    "GRE in 6": (101, lambda b: ip6(b"\x00\x00\x08\x00" + b, 47)),
    "PPTP": (  # the length is its own: the datagram around it has octets behind it
        101,
        lambda b: ip4(b"\x20\x01\x88\x0b" + struct.pack(">HH", 2 + len(b), 1) + b"\x00\x21" + b + bytes(9), 47, ends=OUTER),
    ),
    "VXLAN": (
        101,
        lambda b: ip4(udp(4789, b"\x08\x00\x00\x00\x00\x12\x34\x00" + ethernet(0x0800, b)) + bytes(9), 17, ends=OUTER),
    ),
    "GENEVE": (
        101,
        lambda b: ip4(udp(6081, b"\x00\x00\x65\x58\x00\x00\x07\x00" + ethernet(0x0800, b)) + bytes(9), 17, ends=OUTER),
    ),
    "4 in IPv6 jumbogram": (
        101,
        lambda b: ip6(b"\x04\x00\xc2\x04" + struct.pack(">I", 8 + len(b)) + b, 0, size=0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("claimed", [0, 6])
def test_the_length_of_every_layer_ends_what_is_inside_it(name: str, claimed: int) -> None:
    """Padding stands after a layer, and the IP header inside says that `claimed` octets of it are its own."""
    link_type, around = LENGTHS[name]
    inner = ip4(tcp(), total=len(ip4(tcp())) + claimed)
    fields = check(link_type, around(inner) + b"\x55" * 12, tunnels=True)
    assert (fields["payload"], fields["size"]) == (PAYLOAD, len(PAYLOAD))


@pytest.mark.parametrize("size", [4 + 14 + 45])
def test_the_length_in_the_control_word_of_a_pseudowire(size: int) -> None:
    """RFC 4385, 3: payloads that may have been padded to Ethernet's least size say how long they are."""
    word = bytes((0, size, 0, 0))
    inner = ethernet(0x0800, ip4(tcp(), total=len(ip4(tcp())) + 6))
    fields = check(1, ethernet(0x8847, BOTTOM + word + inner + b"\x55" * 6))
    assert (fields["payload"], fields["size"]) == (PAYLOAD, len(PAYLOAD))


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_say_more_than_was_captured(name: str) -> None:
    """The snapshot length cut the packet: the segment has its true size, and fewer octets of it."""
    link_type, around = LENGTHS[name]
    octets = around(ip4(tcp(b"0123456789")))
    at = octets.index(b"0123456789")
    fields = check(link_type, octets[: at + 4], tunnels=True, original_size=len(octets))
    assert (fields["payload"], fields["size"]) == (b"0123", 10)


def test_an_ip_length_beyond_the_frame_says_that_the_frame_was_cut() -> None:
    octets = ip4(tcp(b"0123456789"))
    for around, ends in ((ethernet(0x0800, octets), (A4, B4)), (ethernet(0x86DD, ip6(tcp(b"0123456789"))), (A6, B6))):
        fields = check(1, around[:-4], ends)
        assert (fields["payload"], fields["size"]) == (b"012345", 10)


def test_a_length_that_leaves_no_room_for_a_header() -> None:
    pppoe = ethernet(0x8864, b"\x11\x00\x00\x01\x00\x16\x00\x21" + ip4(tcp()))
    assert parsed(1, pppoe) == ("malformed", None)
    assert parsed(101, ip4(struct.pack(">HHHH", 5, 4789, 9, 0) + bytes(60), 17), tunnels=True) == ("malformed", None)


def test_the_last_fragment_is_not_longer_than_its_layer_says() -> None:
    """Padding that the IP header claims would make the datagram longer."""
    trace = PacketTrace()
    first, last = fragments4(tcp(b"x" * 20), 32)
    last = last[:2] + struct.pack(">H", len(last) + 8) + last[4:]
    for octets in (first, last):
        head = b"\x11\x00\x00\x01" + struct.pack(">H", 2 + len(octets)) + b"\x00\x21"
        what, fields = trace.parse(1, ethernet(0x8864, head + octets + bytes(8)))
    assert what == "tcp"
    assert fields is not None
    assert fields["payload"] == b"x" * 20


def test_the_snapshot_length_cuts_payload_not_its_size() -> None:
    fields = check(1, ethernet(0x0800, ip4(tcp(b"0123456789")))[:-4], original_size=64)
    assert (fields["payload"], fields["size"]) == (b"012345", 10)


def test_options() -> None:
    fields = check(101, ip4(tcp(b"x", options=bytes(40)), options=bytes(40)))
    assert fields["payload"] == b"x"


def test_total_length_zero_is_segmentation_offload() -> None:
    fields = check(101, ip4(tcp(b"x" * 70000), total=0))
    assert fields["size"] == len(fields["payload"]) == 70000
    fields = check(101, ip6(tcp(b"x" * 70000), size=0), (A6, B6))
    assert fields["size"] == len(fields["payload"]) == 70000


def test_a_jumbogram() -> None:
    body = tcp(b"x" * 70000)
    hop_by_hop = bytes([6, 0, 0xC2, 4]) + struct.pack(">I", len(body) + 8)
    fields = check(101, ip6(hop_by_hop + body, 0, size=0), (A6, B6))
    assert len(fields["payload"]) == 70000


@pytest.mark.parametrize(
    "before", [b"\x05\2\x09\x09\1\0", b"\x1e\4\x09\x09\x09\x09", b"\0\x1e\3\x09\x09\x09", b"\0" * 6]
)
def test_the_length_of_a_jumbogram_behind_other_options(before: bytes) -> None:
    """RFC 8200, 4.2: a router alert, options of no name, Pad1 and PadN stand before it; each says how long it is."""
    body = tcp(b"x" * 70000)
    hop_by_hop = bytes([6, 1]) + before + b"\xc2\4" + struct.pack(">I", len(body) + 16) + b"\1\0"
    fields = check(101, ip6(hop_by_hop + body, 0, size=0) + b"\x55" * 9, (A6, B6))
    assert fields["size"] == 70000


def test_mpls_before_ipv6() -> None:
    """RFC 4928, section 2: the first four bits behind the labels are 6."""
    check(1, ethernet(0x8847, LABEL + BOTTOM + ip6(tcp())), (A6, B6))


def test_extension_headers() -> None:
    chain = (
        bytes([43, 0]) + bytes(6)  # hop by hop
        + bytes([60, 2]) + bytes(22)  # routing
        + bytes([51, 1]) + bytes(14)  # destination options
        + bytes([135, 4]) + bytes(22)  # authentication: words, less two
        + bytes([44, 0]) + bytes(6)  # mobility
        + bytes([6, 0, 0, 0, 0, 0, 0, 9])  # fragment: atomic, the whole packet
    )  # fmt: skip
    assert check(101, ip6(chain + tcp(), 0), (A6, B6))["payload"] == PAYLOAD


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (ip4(bytes(20), 17), "udp"),
        (ip4(bytes(20), 1), "icmp"),
        (ip6(bytes(20), 58), "icmp"),
        (ip4(bytes(20), 132), "other_transport"),
        (ip6(b"", 59), "other_transport"),
        (ip4(ip4(tcp()), 4), "tunnels_not_opened"),
        (ip4(bytes(24), 47), "tunnels_not_opened"),
        (ip4(tcp(), total=19), "malformed"),
        (b"\x44" + ip4(tcp())[1:], "malformed"),
        (ip4(tcp()[:12] + b"\x40" + tcp()[13:]), "malformed"),  # data offset of 16 octets
        (ip4(tcp(b"")[:12] + b"\xf0" + tcp(b"")[13:]), "malformed"),  # and one beyond the packet
        (b"\x70" + bytes(50), "other_network"),
    ],
)
def test_what_is_no_segment_is_counted_by_reason(octets: bytes, what: str) -> None:
    assert parsed(101, octets) == (what, None)


def test_other_links_are_counted() -> None:
    assert parsed(1, ethernet(0x0806, bytes(28))) == ("arp", None)
    assert parsed(1, ethernet(0x88CC, bytes(28))) == ("other_network", None)
    assert parsed(105, bytes(100)) == ("link_type_unknown", None)


# ---- fragments


@pytest.mark.parametrize("version", [4, 6])
def test_fragments_in_any_order(version: int) -> None:
    body = tcp(bytes(range(75)))
    make, ends = (fragments4, (A4, B4)) if version == 4 else (fragments6, (A6, B6))
    for order in permutations(make(body, 32)):
        trace = PacketTrace()
        seen = [trace.parse(101, octets) for octets in order]
        assert [what for what, _ in seen] == ["fragments_held"] * (len(order) - 1) + ["tcp"]
        fields = seen[-1][1]
        assert fields is not None
        assert (fields["src_ip"], fields["dst_ip"], fields["payload"]) == (*ends, bytes(range(75)))


def test_repeated_and_overlapping_fragments_the_first_copy_counts() -> None:
    body = tcp(b"a" * 60)
    first, second, third = fragments4(body, 32)
    other = ip4(b"z" * 40, fragment=0x2000 | 3)  # octets 24 to 63: over the end of the first, all of the second
    trace = PacketTrace()
    seen = [trace.parse(101, o) for o in (first, first, second, other, third)]
    assert seen[-1][1] is not None
    assert seen[-1][1]["payload"] == b"a" * 60


def test_fragments_of_different_datagrams_do_not_mix() -> None:
    one, two = fragments4(tcp(b"1" * 50), 32, 1), fragments4(tcp(b"2" * 50), 32, 2)
    trace = PacketTrace()
    payloads = [f["payload"] for pair in zip(one, two, strict=True) for o in pair if (f := trace.parse(101, o)[1])]
    assert payloads == [b"1" * 50, b"2" * 50]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("end", [0, 1])
def test_fragments_of_other_ends_do_not_mix(version: int, end: int) -> None:
    """RFC 791, 3.2 and RFC 8200, 4.5: source, destination and identification say which fragments are together; the protocol
    too, in IPv4."""
    make, ends = (fragments4, (A4, B4)) if version == 4 else (fragments6, (A6, B6))
    other = list(ends)
    other[end] = "10.9.9.9" if version == 4 else "2001:db8::9"
    one, two = make(tcp(b"1" * 50), 32, 7, ends), make(tcp(b"2" * 50), 32, 7, (other[0], other[1]))
    trace = PacketTrace()
    payloads = [f["payload"] for pair in zip(one, two, strict=True) for o in pair if (f := trace.parse(101, o)[1])]
    assert payloads == [b"1" * 50, b"2" * 50]


def test_fragments_of_other_protocols_do_not_mix() -> None:
    one = fragments4(tcp(b"1" * 50), 32, 7)
    trace = PacketTrace()
    assert trace.parse(101, one[0])[0] == "fragments_held"
    assert trace.parse(101, ip4(udp(9, bytes(40))[:32], 17, fragment=0x2000, number=7))[0] == "fragments_held"
    payloads = [f["payload"] for o in one[1:] if (f := trace.parse(101, o)[1])]
    assert payloads == [b"1" * 50]


def test_a_datagram_is_given_up_by_the_time_of_packets() -> None:
    first, second = fragments4(tcp(b"x" * 20), 32)
    trace = PacketTrace()
    trace.parse(101, first, ts_ns=0)
    assert trace.parse(101, second, ts_ns=31 * 10**9)[0] == "fragments_held"


def test_a_flood_of_fragments_is_bounded_and_the_newest_survives() -> None:
    trace = PacketTrace()
    for number in range(5000):
        assert trace.parse(101, ip4(bytes(8), fragment=0x2000, number=number), ts_ns=number)[0] == "fragments_held"
    first, second = fragments4(tcp(b"x" * 20), 32, 6000)
    trace.parse(101, first, ts_ns=5000)
    assert trace.parse(101, second, ts_ns=5001)[0] == "tcp"


def test_fragments_that_cannot_be() -> None:
    for octets in (
        ip4(bytes(9), fragment=0x2000),  # not of eight octets, and more follow
        ip4(bytes(16), fragment=0x1FFF),  # ends behind the largest datagram
        ip4(b"", fragment=0x0001),
    ):
        assert parsed(101, octets) == ("malformed", None)
    assert parsed(101, ip4(bytes(16), fragment=0x2000)[:-1]) == ("truncated", None)


# ---- tunnels


INNER = ethernet(0x0800, ip4(tcp()))
TUNNELS = {
    "4 in 4": (ip4(ip4(tcp()), 4, ends=OUTER), 0),
    "4 in 6": (ip6(ip4(tcp()), 4), 0),
    "GRE": (ip4(b"\x00\x00\x08\x00" + ip4(tcp()), 47, ends=OUTER), 0),
    "GRE, checksum key sequence": (ip4(b"\xb0\x00\x08\x00" + bytes(12) + ip4(tcp()), 47, ends=OUTER), 0),
    "GRE, Ethernet": (ip4(b"\x00\x00\x65\x58" + INNER, 47, ends=OUTER), 0),
    "GRE, PPTP": (ip4(b"\x30\x81\x88\x0b\x00\x31" + bytes(10) + b"\xff\x03\x00\x21" + ip4(tcp()), 47, ends=OUTER), 0),
    "ERSPAN I": (ip4(b"\x00\x00\x88\xbe" + INNER, 47, ends=OUTER), 0),
    "ERSPAN II": (ip4(b"\x10\x00\x88\xbe" + bytes(4) + bytes(8) + INNER, 47, ends=OUTER), 0),
    "ERSPAN III": (ip4(b"\x10\x00\x22\xeb" + bytes(4) + bytes(12) + INNER, 47, ends=OUTER), 0),
    "VXLAN": (ip4(udp(4789, b"\x08\x00\x00\x00\x00\x12\x34\x00" + INNER), 17, ends=OUTER), 0x1234),
    "GENEVE": (ip4(udp(6081, b"\x01\x00\x65\x58\x00\x00\x07\x00" + bytes(4) + INNER), 17, ends=OUTER), 7),
    "MPLS in GRE": (ip4(b"\x00\x00\x88\x47" + BOTTOM + ip4(tcp()), 47, ends=OUTER), 0),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_tunnels_are_opened_when_asked(name: str) -> None:
    octets, vni = TUNNELS[name]
    assert parsed(101, octets)[0] in ("tunnels_not_opened", "udp")
    fields = check(101, octets, tunnels=True)
    assert (fields["payload"], fields["vni"]) == (PAYLOAD, vni)


@pytest.mark.parametrize("flags", [0x00, 0x01, 0x80, 0xF7])
def test_vxlan_without_a_valid_identifier_is_udp(flags: int) -> None:
    """RFC 7348, section 5: the I flag must be 1 for a valid VNI."""
    octets = ip4(udp(4789, bytes([flags]) + b"\0\0\0\x00\x12\x34\0" + INNER), 17, ends=OUTER)
    assert parsed(101, octets, tunnels=True) == ("udp", None)


@pytest.mark.parametrize("flags", [0x08, 0x0C, 0x88, 0xFF])
def test_reserved_flags_of_vxlan_are_ignored(flags: int) -> None:
    """RFC 7348, section 5: reserved, ignored on receipt. The generic protocol extension has a port of its own."""
    octets = ip4(udp(4789, bytes([flags]) + b"\0\0\1\x00\x12\x34\0" + INNER), 17, ends=OUTER)
    assert check(101, octets, tunnels=True)["vni"] == 0x1234
    octets = ip4(udp(4790, b"\x0c\0\0\1\x00\x12\x34\0" + ip4(tcp())), 17, ends=OUTER)
    assert check(101, octets, tunnels=True)["vni"] == 0x1234


def test_six_in_four() -> None:
    check(101, ip4(ip6(tcp()), 41), (A6, B6), tunnels=True)


def test_a_tunnel_in_fragments() -> None:
    body = b"\x00\x00\x08\x00" + ip4(tcp(b"y" * 100))
    trace = PacketTrace(tunnels=True)
    first = ip4(body[:80], 47, fragment=0x2000, ends=OUTER)
    assert trace.parse(101, first)[0] == "fragments_held"
    what, fields = trace.parse(101, ip4(body[80:], 47, fragment=10, ends=OUTER))
    assert what == "tcp"
    assert fields is not None
    assert (fields["src_ip"], fields["payload"]) == (A4, b"y" * 100)


def test_nesting_is_bounded() -> None:
    octets = ip4(tcp())
    for _ in range(2000):
        octets = octets if len(octets) > 60000 else ip4(octets, 4)
    assert parsed(101, octets, tunnels=True) == ("too_many_layers", None)
    tags = ethernet(0x8100, b"\x00\x07\x81\x00" * 5000)
    assert parsed(1, tags) == ("too_many_layers", None)


# ---- flows


def test_a_flow_has_one_hash_in_both_directions() -> None:
    there = check(101, ip4(tcp()))
    _, back = parsed(101, ip4(tcp(source=1883, destination=40000), ends=(B4, A4)))
    _, other = parsed(101, ip4(tcp(source=40001)))
    _, tunnelled = parsed(101, TUNNELS["VXLAN"][0], tunnels=True)
    assert back is not None
    assert other is not None
    assert tunnelled is not None
    assert there["flow_hash"] == back["flow_hash"]
    assert there["pair_hash"] == back["pair_hash"] == other["pair_hash"]
    assert len({there["flow_hash"], other["flow_hash"], tunnelled["flow_hash"]}) == 3
    assert there["pair_hash"] != tunnelled["pair_hash"]


def test_the_hash_deals_flows_out_evenly() -> None:
    """Neighbouring addresses and ports over 16 buckets: each has its share (4 standard deviations are 5.2 % here)."""
    buckets = [0] * 16
    trace = PacketTrace()
    for host in range(100):
        for port in range(1000):
            _, fields = trace.parse(101, ip4(tcp(b"", source=30000 + port), ends=(f"10.0.0.{host}", B4)))
            assert fields is not None
            buckets[fields["flow_hash"] % 16] += 1
    assert max(buckets) < 6250 * 1.06
    assert min(buckets) > 6250 * 0.94


def test_any_octets_are_parsed_or_counted() -> None:
    chance = random.Random(3)
    trace = PacketTrace(tunnels=True)
    samples = [o for _, o in LINKS.values()] + [o for o, _ in TUNNELS.values()] + fragments4(tcp(), 8)
    for _ in range(20000):
        octets = bytearray(chance.choice(samples))
        for _ in range(chance.randrange(6)):
            octets[chance.randrange(len(octets))] = chance.randrange(256)
        link_type = chance.choice([0, 1, 9, 12, 51, 101, 104, 108, 113, 239, 276])
        cut = octets[: chance.randrange(len(octets) + 1)]
        what, fields = trace.parse(link_type, cut, original_size=chance.randrange(3000))
        assert (what == "tcp") == (fields is not None)
        if fields:
            assert len(fields["payload"]) <= fields["size"]


def test_the_scanner_gives_the_columns_it_is_asked_for() -> None:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    octets = b"".join(struct.pack("<IIII", 5, 6, len(o), len(o)) + o for o in [ip4(tcp()), *fragments4(tcp(), 16)[:1]])
    scanner = PacketScanner()
    scanner.begin_file("a.pcap", 4)
    scanner.feed(head + octets)
    scanner.end_file()
    batch = scanner.take(final=True)
    assert batch is not None
    row = {name: next(iter(batch[name])) for name in batch.names}
    assert {n: row[n] for n in ("file_index", "frame_no", "ts_ns", "src_ip", "src_port", "dst_ip", "dst_port")} == {
        "file_index": 4, "frame_no": 1, "ts_ns": 5_000_006_000,
        "src_ip": A4, "src_port": 40000, "dst_ip": B4, "dst_port": 1883,
    }  # fmt: skip
    assert {n: row[n] for n in ("tcp_flags", "seq", "payload_size", "fragment")} == {
        "tcp_flags": 0x18, "seq": 0xFFFFFFF0, "payload_size": 5, "fragment": False,
    }  # fmt: skip
    assert row["segment"].endswith(PAYLOAD)
    assert list(batch["fragment"]) == [False, True]
    assert list(batch["segment"])[1].endswith(fragments4(tcp(), 16)[0])


@pytest.mark.parametrize("port", [1881, 1882, 1883, 1884, 1885, 39999, 40000, 40001])
def test_the_scanner_gives_the_ports_it_is_asked_for(port: int) -> None:
    """Segments from or to one of them, and no others."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    octets = ip4(tcp())  # 40000 to 1883
    scanner = PacketScanner(ports=[port])
    scanner.begin_file("a.pcap", 0)
    scanner.feed(head + struct.pack("<IIII", 5, 6, len(octets), len(octets)) + octets)
    scanner.end_file()
    batch = scanner.take(final=True)
    assert (0 if batch is None else batch.num_rows) == (port in (1883, 40000))


def test_raw_ip_that_looks_like_ethernet() -> None:
    """From 8.0.69.1:16384 to 0.50.0.1:1798: these are the octets of an EtherType, an IPv4 header and TCP, 14 octets too late."""
    client = Tcp(client=0x08004501, client_port=16384, server=0x00320001, port=1798)
    frames = [*client.open(), client.segment(0, connect("a long client identifier"))]
    octets = bytearray(pcap([frame[14:] for frame in frames]))
    octets[20:24] = struct.pack("<I", 101)  # the link type of the file: raw IP
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    decoder = CaptureDecoder(columns=["frame_no", "status", "kind", "src_ip", "src_port", "dst_ip", "dst_port"])
    decoder.begin_file("a.pcap")
    assert decoder.feed(bytes(octets)) == len(octets)
    assert decoder.stats["packet_kinds"]["tcp"] == len(frames)
    (row,) = pa.record_batch(decoder.take(final=True)).to_pylist()
    assert tuple(row.values()) == (4, "ok", "CONNECT", "8.0.69.1", 16384, "0.50.0.1", 1798)


def test_addresses_are_written_as_usual() -> None:
    for address in ("0.0.0.0", "9.10.99.100", "255.254.200.1", "1.20.105.0"):
        check(101, ip4(tcp(), ends=(address, B4)), (address, B4))
    for address in ("::", "::1", "2001:db8::ff00:42:8329", "fe80::1:0:0:1", "::ffff:10.0.0.1"):
        check(101, ip6(tcp(), ends=(address, B6)), (address, B6))


@pytest.mark.parametrize(("window", "count"), [(0, 1), (1, 0), (0x100, 0), (0xFFFF, 0)])
def test_a_window_is_zero_if_both_of_its_octets_are(window: int, count: int) -> None:
    """The connections table counts packets that take no more bytes (RFC 9293, 3.8.6)."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect())]
    full = bytearray(tcp.segment(1))
    full[48:50] = window.to_bytes(2, "big")  # after 14 of Ethernet and 20 of IPv4: 14 of TCP before it
    decoder = CaptureDecoder(transport=True)
    decoder.begin_file("x", 0)
    decoder.feed(pcap([*frames, bytes(full)]))
    assert decoder.end_file()
    decoder.take(final=True)
    ended = decoder.take_transport()
    assert ended is not None
    assert ended["server_zero_windows"].tolist() == [count]
