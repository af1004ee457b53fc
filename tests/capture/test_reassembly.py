"""TCP reassembly as a table: packets in; octets, holes and ends out. Rules: RFC 9293, head of reassembly.pxi."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from wirefmt.capture._engine import StreamTrace

FIN, SYN, RST, ACK = 1, 2, 4, 16
CLIENT, SERVER = (0x0A000001, 40000), (0x0A000002, 1883)
CLIENT_ISN, SERVER_ISN = 1000, 5000
SECOND = 10**9


@dataclass(frozen=True)
class P:
    """One packet. `seq` and `ack` count from the initial sequence numbers: 1 is the first octet."""

    side: str
    seq: int
    payload: bytes = b""
    ack: int | None = None
    flags: int = 0
    size: int | None = None
    at: float = 0.0


def run(packets: list[P], isn: tuple[int, int] = (CLIENT_ISN, SERVER_ISN), **options: Any) -> StreamTrace:
    trace = StreamTrace(**options)
    for number, p in enumerate(packets, 1):
        ours, theirs = (isn[0], isn[1]) if p.side == "c" else (isn[1], isn[0])
        ends = (CLIENT, SERVER) if p.side == "c" else (SERVER, CLIENT)
        trace.segment_in(
            *ends,
            p.flags | (ACK if p.ack is not None else 0),
            ours + p.seq,
            theirs + p.ack if p.ack is not None else 0,
            p.payload,
            size=p.size,
            ts_ns=int(p.at * SECOND),
            frame_no=number,
        )
    trace.finish()
    return trace


def squeeze(events: list[tuple[Any, ...]], side: object) -> list[Any]:
    """What one side sent: octets joined, ("gap", size, why), ("end", why)."""
    out: list[Any] = []
    for kind, end, *rest in events:
        if end != side:
            continue
        if kind == "octets" and out and isinstance(out[-1], bytes):
            out[-1] += rest[0]
        elif kind == "octets":
            out.append(rest[0])
        elif kind == "gap":
            out.append(("gap", *rest))
        else:
            out.append(("end", rest[0]))
    return out


OPEN = [P("c", 0, flags=SYN), P("s", 0, ack=1, flags=SYN), P("c", 1, ack=1)]
END = ("end", "capture end")

#: name, packets after the handshake, what the client sent
AFTER_HANDSHAKE: list[tuple[str, list[P], list[Any]]] = [
    ("in order", [P("c", 1, b"abc"), P("c", 4, b"def")], [b"abcdef", END]),
    ("swapped", [P("c", 4, b"def"), P("c", 1, b"abc")], [b"abcdef", END]),
    ("backwards", [P("c", 5, b"e"), P("c", 4, b"d"), P("c", 3, b"c"), P("c", 1, b"ab")], [b"abcde", END]),
    ("sent again", [P("c", 1, b"abc"), P("c", 1, b"abc"), P("c", 4, b"d")], [b"abcd", END]),
    ("sent again, longer", [P("c", 1, b"abc"), P("c", 1, b"abcdef")], [b"abcdef", END]),
    ("sent again, from within", [P("c", 1, b"abcd"), P("c", 3, b"cdef")], [b"abcdef", END]),
    ("overlap of stored octets, front", [P("c", 4, b"def"), P("c", 3, b"cde"), P("c", 1, b"ab")], [b"abcdef", END]),
    ("overlap of stored octets, back", [P("c", 4, b"def"), P("c", 5, b"efgh"), P("c", 1, b"abc")], [b"abcdefgh", END]),
    ("overlap of stored octets, around", [P("c", 4, b"d"), P("c", 3, b"cde"), P("c", 1, b"ab")], [b"abcde", END]),
    (
        "one segment fills many holes",
        [P("c", 3, b"c"), P("c", 5, b"e"), P("c", 7, b"g"), P("c", 1, b"abcdefgh")],
        [b"abcdefgh", END],
    ),
    (
        "stored segment around many stored ones",
        [P("c", 4, b"d"), P("c", 6, b"f"), P("c", 3, b"cdefgh"), P("c", 1, b"ab")],
        [b"abcdefgh", END],
    ),
    ("the first copy counts", [P("c", 1, b"abc"), P("c", 2, b"XYZ")], [b"abcZ", END]),
    ("the first copy counts, stored", [P("c", 3, b"c"), P("c", 2, b"XYZ"), P("c", 1, b"a")], [b"aXcZ", END]),
    ("keep-alive without an octet", [P("c", 1, b"abc"), P("c", 3), P("c", 4, b"d")], [b"abcd", END]),
    ("keep-alive with an octet", [P("c", 1, b"abc"), P("c", 3, b"\0"), P("c", 4, b"d")], [b"abcd", END]),
    ("everything twice", [p for p in (P("c", 1, b"ab"), P("c", 3, b"cd")) for _ in "12"], [b"abcd", END]),
    ("SYN again", [P("c", 1, b"ab"), P("c", 0, flags=SYN), P("c", 3, b"cd")], [b"abcd", END]),
    (
        "hole at the end of the capture",
        [P("c", 1, b"ab"), P("c", 5, b"ef")],
        [b"ab", ("gap", 2, "capture end"), b"ef", END],
    ),
    (
        "two holes",
        [P("c", 2, b"b"), P("c", 6, b"fg")],
        [("gap", 1, "capture end"), b"b", ("gap", 3, "capture end"), b"fg", END],
    ),
    (
        "hole acknowledged, a second later",
        [P("c", 1, b"ab"), P("c", 5, b"ef"), P("s", 1, ack=7), P("s", 1, ack=7, at=1.5), P("c", 7, b"g", at=1.6)],
        [b"ab", ("gap", 2, "lost"), b"efg", END],
    ),
    (
        "hole acknowledged, 32 packets later",
        [P("c", 1, b"ab"), P("c", 5, b"ef"), *[P("s", 1, ack=7)] * 34, P("c", 3, b"late")],
        [b"ab", ("gap", 2, "lost"), b"ef", END],
    ),
    (
        "acknowledgement shown before its data",
        [P("c", 1, b"ab"), P("c", 5, b"ef"), P("s", 1, ack=7), P("c", 3, b"cd")],
        [b"abcdef", END],
    ),
    (
        "hole nobody acknowledged",
        [P("c", 1, b"ab"), P("c", 5, b"ef"), P("s", 1, ack=3, at=29), P("s", 1, ack=3, at=31)],
        [b"ab", ("gap", 2, "timeout"), b"ef", END],
    ),
    (
        "acknowledged, nothing captured after it",
        [P("c", 1, b"ab"), P("s", 1, ack=11)],
        [b"ab", ("gap", 8, "lost"), END],
    ),
    ("acknowledged one more: a FIN not captured", [P("c", 1, b"ab"), P("s", 1, ack=4)], [b"ab", END]),
    (
        "truncated by the snapshot length",
        [P("c", 1, b"ab", size=5), P("c", 6, b"f")],
        [b"ab", ("gap", 3, "truncated"), b"f", END],
    ),
    ("cut to nothing", [P("c", 1, b"", size=5), P("c", 6, b"f")], [("gap", 5, "truncated"), b"f", END]),
    (
        "cut and out of order",
        [P("c", 6, b"fg", size=4), P("c", 1, b"abcde"), P("c", 10, b"j")],
        [b"abcdefg", ("gap", 2, "truncated"), b"j", END],
    ),
    (
        "sent again over the cut part",
        [P("c", 1, b"ab", size=4), P("c", 3, b"cdef")],
        [b"ab", ("gap", 2, "truncated"), b"ef", END],
    ),
    ("FIN", [P("c", 1, b"ab"), P("c", 3, flags=FIN), P("c", 3, b"zz")], [b"ab", ("end", "fin")]),
    ("FIN with data", [P("c", 1, b"ab", flags=FIN)], [b"ab", ("end", "fin")]),
    ("FIN before its data", [P("c", 3, b"cd", flags=FIN), P("c", 1, b"ab")], [b"abcd", ("end", "fin")]),
    (
        "FIN, data never came",
        [P("c", 1, b"ab"), P("c", 5, flags=FIN)],
        [b"ab", ("gap", 2, "lost"), END],
    ),
    ("RST", [P("c", 1, b"ab"), P("c", 3, b"no data", flags=RST)], [b"ab", ("end", "reset")]),
    (
        "RST far outside the window is ignored",
        [P("c", 1, b"ab"), P("c", 1 << 31, flags=RST), P("c", 3, b"cd")],
        [b"abcd", END],
    ),
]


@pytest.mark.parametrize(("packets", "expected"), [c[1:] for c in AFTER_HANDSHAKE], ids=[c[0] for c in AFTER_HANDSHAKE])
@pytest.mark.parametrize("isn", [(1000, 5000), (2**32 - 3, 2**32 - 1), (2**31 - 2, 7)], ids=["low", "wraps", "sign"])
def test_what_the_client_sent(packets: list[P], expected: list[Any], isn: tuple[int, int]) -> None:
    trace = run(OPEN + packets, isn)
    assert squeeze(trace.events, "client") == expected
    assert trace.stats["buffered"] == 0


WHOLE: list[tuple[str, list[P], list[Any], list[Any]]] = [
    (
        "no SYN: the end that is not known by name begins where it is first seen",
        [P("c", 51, b"late"), P("c", 55, b"r")],
        [b"later", END],
        [],
    ),
    ("only the SYN-ACK", [P("s", 0, ack=1, flags=SYN), P("c", 3, b"cd"), P("c", 1, b"ab")], [b"abcd", END], [END]),
    (
        "the SYN-ACK is missing",
        [P("c", 0, flags=SYN), P("c", 1, ack=1), P("s", 3, b"cd"), P("s", 1, b"ab")],
        [END],
        [b"abcd", END],
    ),
    ("SYN-ACK before SYN", [P("s", 0, ack=1, flags=SYN), P("c", 0, flags=SYN), P("c", 1, b"a")], [b"a", END], [END]),
    ("data in the SYN", [P("c", 0, b"ab", flags=SYN), P("c", 3, b"cd")], [b"abcd", END], []),
    ("data before its SYN", [P("c", 3, b"cd"), P("c", 0, flags=SYN), P("c", 1, b"ab")], [b"abcd", END], []),
    (
        "both sides end",
        [*OPEN, P("c", 1, b"q", flags=FIN), P("s", 1, b"a", ack=3, flags=FIN), P("c", 3, ack=3)],
        [b"q", ("end", "fin")],
        [b"a", ("end", "fin")],
    ),
    (
        "data on its way when the other side resets still counts",
        [*OPEN, P("c", 1, b"q", ack=1), P("c", 2, flags=RST), P("s", 1, b"a", ack=2)],
        [b"q", ("end", "reset")],
        [b"a", ("end", "reset")],
    ),
]


@pytest.mark.parametrize(("packets", "client", "server"), [c[1:] for c in WHOLE], ids=[c[0] for c in WHOLE])
def test_both_sides(packets: list[P], client: list[Any], server: list[Any]) -> None:
    events = run(packets).events
    known = any(p.flags & SYN for p in packets)
    assert squeeze(events, "client" if known or client == [] else CLIENT[1]) == client or (
        # a stream may begin unnamed and be named by a SYN that comes late
        squeeze(events, CLIENT[1]) + squeeze(events, "client") == client
    )
    assert squeeze(events, "server") == server


#: The capture begins inside the stream: packets, what the client sent, octets from before the beginning.
LATE: list[tuple[str, list[P], list[Any], list[Any]]] = [
    ("swapped", [P("c", 55, b"5"), P("c", 51, b"1234")], [b"12345", END], []),
    ("backwards", [P("c", 55, b"5"), P("c", 53, b"34"), P("c", 51, b"12")], [b"12345", END], []),
    ("swapped, later ones between", [P("c", 55, b"5"), P("c", 56, b"6"), P("c", 51, b"1234")], [b"123456", END], []),
    (
        "the other side repeats what it waits for",
        [P("c", 55, b"5"), P("s", 9, ack=51), P("c", 51, b"1234"), P("s", 9, ack=56)],
        [b"12345", END],
        [],
    ),
    (
        "acknowledged before it was captured",
        [P("c", 55, b"5"), P("s", 9, ack=56), P("c", 51, b"1234"), P("c", 51, b"1234")],
        [b"5", END],
        [(-4, b"1234")],
    ),
    (
        "one after another, and in one with what is known",
        [P("c", 55, b"5"), P("s", 9, ack=56), P("c", 53, b"3456"), P("c", 51, b"12")],
        [b"56", END],
        [(-2, b"34"), (-4, b"12")],
    ),
    (
        "a keep-alive is not an octet",
        [P("c", 55, b"5"), P("s", 9, ack=56), P("c", 54, b"\0"), P("c", 56, b"6")],
        [b"56", END],
        [],
    ),
    (
        "the other side has acknowledged what is before it: nothing waits",
        [P("s", 8, b"q", ack=55), P("c", 55, b"5"), P("c", 51, b"1234")],
        [b"5", END],
        [(-4, b"1234")],
    ),
    (
        "32 packets later",
        [P("c", 55, b"5"), *[P("c", 55, b"5")] * 32, P("c", 51, b"1234")],
        [b"5", END],
        [(-4, b"1234")],
    ),
    ("a second later", [P("c", 55, b"5"), P("c", 56, b"6", at=1), P("c", 51, b"1234")], [b"56", END], [(-4, b"1234")]),
    (
        "a hole",
        [P("c", 59, b"9"), P("c", 51, b"1234"), P("c", 55, b"5")],
        [b"12345", ("gap", 3, "capture end"), b"9", END],
        [],
    ),
    ("FIN", [P("c", 55, b"5", flags=FIN), P("c", 51, b"1234"), P("s", 9, ack=57)], [b"12345", ("end", "fin")], []),
    (
        "its SYN",
        [P("c", 5, b"56"), P("c", 0, flags=SYN), P("s", 0, ack=1, flags=SYN), P("c", 1, b"1234")],
        [b"123456", END],
        [],
    ),
    (
        "the SYN-ACK alone says where it begins",
        [P("c", 5, b"56"), P("s", 0, ack=1, flags=SYN), P("c", 1, b"1234")],
        [b"123456", END],
        [],
    ),
    ("cut", [P("c", 57, b"9"), P("c", 51, b"1234", size=6)], [b"1234", ("gap", 2, "truncated"), b"9", END], []),
]


@pytest.mark.parametrize(("packets", "client", "fronts"), [c[1:] for c in LATE], ids=[c[0] for c in LATE])
@pytest.mark.parametrize("isn", [(1000, 5000), (2**32 - 53, 2**32 - 1), (2**31 - 54, 7)], ids=["low", "wraps", "sign"])
def test_a_stream_that_began_before_the_capture(
    packets: list[P], client: list[Any], fronts: list[Any], isn: tuple[int, int]
) -> None:
    trace = run(packets, isn)
    events = [e for e in trace.events if e[0] != "front"]
    assert squeeze(events, CLIENT[1]) + squeeze(events, "client") == client
    assert [tuple(e[2:]) for e in trace.events if e[0] == "front"] == fronts
    assert trace.stats["buffered"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_late_start_in_any_order_loses_no_octet(seed: int) -> None:
    """The first packets come in any order, acknowledgements among them: every octet is handed on once, in its place."""
    chance = random.Random(seed)
    stream = chance.randbytes(400)
    packets = []
    for i in range(0, 400, 20):
        packets += [P("c", 51 + i, stream[i : i + 20]), P("s", 9, ack=51 + i + 20)]
    block = packets[:10]
    chance.shuffle(block)
    trace = run(block + packets[10:])
    fronts = [(e[2], e[3]) for e in trace.events if e[0] == "front"]
    first = sum(len(octets) for _, octets in fronts)  # where the stream begins: nothing is missing
    at = first
    for kind, _, *rest in trace.events:
        assert kind != "gap"
        if kind == "octets":
            assert stream[at : at + len(rest[0])] == rest[0]
            at += len(rest[0])
    assert at == 400
    assert sorted(place for offset, octets in fronts for place in range(offset, offset + len(octets))) == [
        *range(-first, 0)
    ]
    for offset, octets in fronts:
        assert stream[first + offset :].startswith(octets)


def test_every_captured_octet_is_handed_on_or_counted() -> None:
    """Any packets at all: octets in the packets = octets handed on + sent again + outside of the streams."""
    chance = random.Random(8)
    for _ in range(300):
        packets = []
        for _ in range(chance.randrange(1, 40)):
            size = chance.choice((0, 1, 7, 30))
            kept = chance.choice((size, size, chance.randint(0, size)))
            packets.append(
                P(
                    chance.choice("cs"),
                    chance.randint(0, 120),
                    b"x" * kept,
                    ack=chance.choice((None, chance.randint(0, 150))),
                    flags=chance.choice((0, 0, 0, 0, 0, SYN, FIN, RST)),
                    size=size,
                    at=chance.choice((0, 0, 0, 5, 500)),
                )
            )
        trace = run(packets)
        stats = trace.stats
        handed = sum(len(e[-1] if e[0] == "front" else e[2]) for e in trace.events if e[0] in ("octets", "front"))
        assert handed == stats["stream_bytes"]
        assert sum(len(p.payload) for p in packets) == handed + stats["retransmitted_bytes"] + stats["outside_bytes"]


def connections(trace: StreamTrace) -> list[int]:
    return list(dict.fromkeys(e[3] for e in trace.events if e[0] == "end"))


def test_ports_used_again_with_a_syn() -> None:
    first = [*OPEN, P("c", 1, b"one", ack=1)]
    again = [P("c", 90000, flags=SYN, at=1), P("c", 90001, b"two", at=1)]
    trace = run(first + again)
    assert squeeze(trace.events, "client") == [b"one", ("end", "replaced"), b"two", END]
    assert len(connections(trace)) == 2
    assert trace.stats["flows"] == 2


@pytest.mark.parametrize(
    ("again", "count"),
    [
        (P("c", 1 << 30, b"two", ack=1 << 30, at=1), 2),  # both numbers far off: another connection
        (P("c", 1 << 27, b"two", ack=1), 1),  # only one: the capture lost much of this direction
        (P("c", 4, b"two", ack=1, at=4 * 3600), 2),  # silent for longer than the limit
        (P("c", 4, b"two", ack=1, at=2 * 3600), 1),
    ],
)
def test_ports_used_again_without_a_syn(again: P, count: int) -> None:
    trace = run([*OPEN, P("c", 1, b"one", ack=1), again])
    assert len(connections(trace)) == count
    assert trace.stats["flows"] == count


def test_a_closed_flow_swallows_what_is_sent_again_and_then_makes_room() -> None:
    closed = [*OPEN, P("c", 1, b"q", ack=1, flags=FIN), P("s", 1, b"a", ack=3, flags=FIN), P("c", 3, ack=3)]
    trace = run([*closed, P("s", 1, b"a", ack=3, flags=FIN, at=1)])
    assert trace.stats["flows"] == 1
    trace = run([*closed, P("c", 1, b"q", ack=1, at=300)])
    assert trace.stats["flows"] == 2
    trace = run([*closed, P("c", 0, flags=SYN, at=0.5)])
    assert trace.stats["flows"] == 1
    trace = run([*closed, P("c", 0, flags=SYN, at=2)])
    assert trace.stats["flows"] == 2


@pytest.mark.parametrize("first", ["c", "s"])
def test_one_side_may_end_long_before_the_other(first: str) -> None:
    """RFC 9293, 3.6: a side that has closed goes on receiving until the other closes as well, however long that takes."""
    other, name = ("s", "server") if first == "c" else ("c", "client")
    trace = run([
        *OPEN, P(first, 1, b"bye", flags=FIN), P(other, 1, b"one"), P(other, 4, b"two", at=1000),
        P(other, 7, flags=FIN, at=1000),
    ])  # fmt: skip
    assert squeeze(trace.events, name) == [b"onetwo", ("end", "fin")]
    assert trace.stats["flows"] == 1


def test_a_syn_right_before_what_was_seen_is_late() -> None:
    trace = run([P("c", 1, b"abc"), P("c", 0, flags=SYN), P("s", 0, ack=1, flags=SYN), P("c", 4, b"d")])
    assert squeeze(trace.events, "client") == [b"abcd", END]
    assert trace.stats["flows"] == 1


def test_a_syn_right_before_what_was_acknowledged_is_late() -> None:
    for first in (P("s", 1, b"x", ack=1), P("s", 1, ack=1), P("s", 0, ack=1, flags=SYN)):
        trace = run([first, P("c", 0, flags=SYN), P("c", 1, b"abc")])
        assert squeeze(trace.events, "client") == [b"abc", END]
        assert trace.stats["flows"] == 1


def test_flows_that_stay_are_found_when_others_are_removed() -> None:
    """A table of flows with 500 of them, of which each new one removes the oldest: the others go on as they were."""
    trace = StreamTrace(max_flows=500)
    began = 0
    for turn in range(20):
        for _ in range(100):
            trace.segment_in((1, 1000 + began), SERVER, SYN, 9, ts_ns=began, frame_no=began + 1)
            began += 1
        for number in range(max(0, began - 500), began):
            trace.segment_in((1, 1000 + number), SERVER, ACK, 10 + turn, 1, b"x", ts_ns=began, frame_no=began + 1)
        assert trace.stats["flows"] == began


def test_flow_id_depends_on_the_ends_and_the_first_time_alone() -> None:
    def flow_id(at: float, source: tuple[int, int] = CLIENT, vni: int = 0, other: bool = False) -> int:
        trace = StreamTrace()
        if other:
            trace.segment_in((1, 1), (2, 2), SYN, 5)
        trace.segment_in(source, SERVER, SYN, 1, ts_ns=int(at * SECOND), frame_no=99 if other else 1, vni=vni)
        trace.finish()
        return int(trace.events[-1][3])

    one = flow_id(7.0)
    assert one > 0
    assert flow_id(7.0, other=True) == one
    assert len({one, flow_id(7.1), flow_id(7.0, (CLIENT[0], 40001)), flow_id(7.0, (CLIENT[0] + 1, 40000))}) == 4


def test_the_packet_that_completes() -> None:
    """A filled hole completes what waited behind it; after a lost one each octet is as late as its own packet."""
    trace = run([*OPEN, P("c", 2, b"b"), P("c", 3, b"c"), P("c", 1, b"a")])
    assert [(e[2], e[3]) for e in trace.events if e[0] == "octets"] == [(b"a", 6), (b"b", 6), (b"c", 6)]
    trace = run([*OPEN, P("c", 3, b"c"), P("c", 2, b"b")])
    assert [(e[2], e[3]) for e in trace.events if e[0] == "octets"] == [(b"b", 5), (b"c", 5)]


def test_limit_of_stored_octets() -> None:
    trace = run([*OPEN, P("c", 2, b"x" * 60), P("c", 102, b"y" * 60)], max_out_of_order=100)
    assert squeeze(trace.events, "client") == [
        ("gap", 1, "limit"),
        b"x" * 60,
        ("gap", 40, "capture end"),
        b"y" * 60,
        END,
    ]
    assert trace.stats["gaps_limited"] == 1


def test_limit_of_stored_octets_of_all_flows() -> None:
    trace = StreamTrace(max_buffered=110_000)
    for port in range(10):
        trace.segment_in((1, port), SERVER, SYN, 0)
        trace.segment_in((1, port), SERVER, ACK, 2, payload=b"x" * 30_000)
        assert trace.stats["buffered"] <= 110_000
    assert trace.stats["gaps_limited"] == 7
    assert trace.stats["flows_evicted"] == 0


def test_what_describes_flows_and_stored_octets_counts() -> None:
    trace = StreamTrace(max_buffered=1 << 20)
    for port in range(2000):
        trace.segment_in((1, port), SERVER, SYN, 0)
        for k in range(200):
            trace.segment_in((1, port), SERVER, ACK, 2 + 2 * k, payload=b"x")
        assert trace.stats["buffered"] <= 1 << 20
    assert trace.stats["flows_evicted"] > 1900


def test_limit_of_flows() -> None:
    trace = StreamTrace(max_flows=3)
    for port in range(10):
        trace.segment_in((1, port), SERVER, SYN, 0, ts_ns=port)
    assert trace.stats["open_flows"] == 3
    assert trace.stats["flows_evicted"] == 7
    assert [e[1:3] for e in trace.events] == [("client", "limit")] * 7


def test_silent_flows_leave_the_table() -> None:
    trace = StreamTrace(idle_seconds=100)
    for number in range(1000):
        trace.segment_in((1, number), SERVER, SYN, 0, ts_ns=number * SECOND)
    assert trace.stats["open_flows"] <= 100 + 60 + 1
    assert trace.stats["flows_evicted"] == 0


def test_times_as_far_apart_as_numbers_go() -> None:
    """Longer than any silence, whatever the sign: the second packet begins another connection; a step back in time does not."""
    first, last = -(2**63) / SECOND, (2**63 - 2048) / SECOND
    trace = run([P("c", 1, b"one", at=first), P("c", 1, b"two", at=last), P("c", 4, b"three", at=first)])
    octets = [event[2] for event in trace.events if event[0] == "octets"]
    assert octets == [b"one", b"two", b"three"]
    assert len({event[3] for event in trace.events if event[0] == "end"}) == 2  # flow ids


def test_many_flows_are_told_apart() -> None:
    trace = StreamTrace()
    ends = [((address, port), SERVER) for address in range(60) for port in range(60)]
    for source, destination in ends:
        trace.segment_in(source, destination, SYN, 0)
    for source, destination in reversed(ends):
        trace.segment_in(source, destination, ACK, 1, payload=b"%d:%d" % source)
    assert trace.stats["flows"] == trace.stats["open_flows"] == len(ends)
    assert {e[2] for e in trace.events} == {b"%d:%d" % e[0] for e in ends}
    trace.finish()
    assert trace.stats["open_flows"] == 0


@pytest.mark.parametrize("seed", range(30))
def test_any_cutting_repeating_and_local_shuffling_gives_the_stream(seed: int) -> None:
    chance = random.Random(seed)
    stream = chance.randbytes(5000)
    packets = []
    at = 0
    while at < len(stream):
        size = chance.randint(1, 60)
        begin = max(0, at - chance.choice((0, 0, 0, 5, 40)))
        packets += [P("c", 1 + begin, stream[begin : at + size])] * chance.choice((1, 1, 1, 2))
        at += size
    for i in range(0, len(packets), 12):
        block = packets[i : i + 12]
        chance.shuffle(block)
        packets[i : i + 12] = block
    trace = run(OPEN + packets, (2**32 - 2500, 1))
    assert squeeze(trace.events, "client") == [stream, END]


@pytest.mark.parametrize("seed", range(10))
def test_with_losses_every_octet_is_in_its_place(seed: int) -> None:
    """Octets handed on and holes together are the stream, whatever was lost."""
    chance = random.Random(seed)
    stream = chance.randbytes(4000)
    kept = [(i, stream[i : i + 20]) for i in range(0, 4000, 20) if chance.random() < 0.8]
    packets = [p for i, octets in kept for p in (P("c", 1 + i, octets), P("s", 1, ack=i + 21))]
    at = 0
    for event in run(OPEN + packets).events:
        if event[0] == "octets":
            assert stream[at : at + len(event[2])] == event[2]
            at += len(event[2])
        elif event[0] == "gap":
            at += event[2]
    assert at == kept[-1][0] + 20


def test_any_packets_at_all() -> None:
    chance = random.Random(5)
    trace = StreamTrace(max_flows=20, max_buffered=5000, max_out_of_order=1000, idle_seconds=50)
    now = 0
    for number in range(30000):
        one, other = ((chance.randint(1, 3), chance.randint(1, 4)) for _ in "12")
        now += chance.choice((0, SECOND, -SECOND, 20 * SECOND, 400 * SECOND if chance.random() < 0.01 else 0))
        payload = chance.randbytes(chance.choice((0, 1, 50, 300)))
        trace.segment_in(
            one,
            other,
            chance.choice((0, ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST, 31)),
            chance.choice((chance.getrandbits(32), chance.randint(0, 900), 2**32 - chance.randint(0, 500))),
            chance.choice((chance.getrandbits(32), chance.randint(0, 900))),
            payload,
            size=chance.choice((None, len(payload) + 10)),
            ts_ns=now,
            frame_no=number,
        )
        assert trace.stats["buffered"] <= 5000
        assert trace.stats["open_flows"] <= 20
    trace.finish()
    assert trace.stats["buffered"] == trace.stats["open_flows"] == 0
    assert trace.stats["gaps"] > 100


def joined(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Octets of one packet and direction that come one after another, in one event."""
    out: list[tuple[Any, ...]] = []
    for event in events:
        if event[0] == "octets" and out and out[-1][0] == "octets" and (out[-1][1], out[-1][3]) == (event[1], event[3]):
            event = ("octets", event[1], out.pop()[2] + event[2], event[3])
        out.append(event)
    return out


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_events_do_not_depend_on_when_the_sink_is_full(at_once: int) -> None:
    """What it refuses or does not finish is passed on in order, across flows, before the next packet."""
    found = []
    for trace in (StreamTrace(max_flows=6), StreamTrace(max_flows=6, at_once=at_once)):
        chance = random.Random(at_once)
        for number in range(3000):
            client, server = (1, chance.randint(1, 8)), (2, 1883)
            ends = (client, server) if chance.random() < 0.5 else (server, client)
            trace.segment_in(
                *ends,
                chance.choice((ACK, ACK, ACK, ACK, SYN, FIN | ACK, RST)),
                chance.randint(0, 400),
                chance.randint(0, 400),
                chance.randbytes(chance.choice((0, 1, 40))),
                size=chance.choice((None, None, 50)),
                ts_ns=number * SECOND,
                frame_no=number,
            )
        trace.finish()
        assert trace.stats["buffered"] == 0
        found.append(joined(trace.events))
    assert found[0] == found[1]
    assert {event[0] for event in found[0]} == {"octets", "front", "gap", "end"}


def test_repeated_segments_behind_a_hole_cost_no_more_each() -> None:
    """A hole, then the same segments over and over: stored once each, however often they come."""
    trace = StreamTrace()
    trace.segment_in(CLIENT, SERVER, SYN, 0)
    stored = set()
    for turn in range(50):
        for i in range(500):
            trace.segment_in(CLIENT, SERVER, ACK, 2 + 2 * i, payload=b"zz", ts_ns=turn)
        stored.add(trace.stats["buffered"])
    assert len(stored) == 1
