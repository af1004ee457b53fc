"""What was said on the connections of a capture: a small reader beside ours, for tests in which captures are witnesses."""

from __future__ import annotations

import struct
from collections.abc import Iterator

CLIENT, SERVER = 0, 1
#: Bytes before the IP header by link type: Ethernet, Linux cooked capture, and its second version.
LINK_HEADERS = {1: 14, 113: 16, 276: 20}


def segments(pcap: bytes, server: int) -> Iterator[tuple[int, int, bytes]]:
    """Port of the client, speaker, bytes as its TCP hands them out: in order and once, though they come late or twice.
    No bytes: the speaker has closed.

    The capture is a pcap file of whole packets over IPv4, from the first segment of each connection, or a later one, to
    the last.
    `server`: the port of the server.
    """
    order = "<" if pcap[:1] in (b"\xd4", b"\x4d") else ">"
    (link,) = struct.unpack_from(order + "I", pcap, 20)
    at = 24
    expected: dict[tuple[int, int], int] = {}
    early: dict[tuple[int, int], dict[int, bytes]] = {}
    while at < len(pcap):
        size, original = struct.unpack_from(order + "8xII", pcap, at)
        assert size == original, "a packet is cut"
        packet = pcap[at + 16 : at + 16 + size]
        at += 16 + size
        ip = packet[LINK_HEADERS[link] :]
        assert ip[0] >> 4 == 4
        assert ip[9] == 6
        tcp = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4])]
        source, target, number = struct.unpack_from(">HHI", tcp)
        way = source, target
        if tcp[13] & 2 or way not in early:  # SYN takes a number
            expected[way] = number + (tcp[13] >> 1 & 1) & 0xFFFFFFFF
            early[way] = {}
        payload = tcp[(tcp[12] >> 4) * 4 :]
        held = early[way]
        if len(payload) > len(held.get(number, b"")):
            held[number] = payload
        while held:
            # how far each begins behind what is expected; what begins before it has arrived already, at least in part
            ahead = {begin: (begin - expected[way] + (1 << 31) & 0xFFFFFFFF) - (1 << 31) for begin in held}
            begin = min(held, key=ahead.__getitem__)
            if ahead[begin] > 0:
                break
            new = held.pop(begin)[-ahead[begin] :]
            if new:
                expected[way] = expected[way] + len(new) & 0xFFFFFFFF
                yield (target, SERVER, new) if source == server else (source, CLIENT, new)
        if tcp[13] & 5 and not held:  # FIN or RST
            yield (target, SERVER, b"") if source == server else (source, CLIENT, b"")
    assert not any(early.values()), "a segment is missing"
