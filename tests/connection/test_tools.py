"""The tools that connections share, each against a plain model of it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import pytest

from lib.skips import imported
from wirefmt.connection.carriers import PIECE, Deflate, Plain, Snappy, WebSocket
from wirefmt.connection.deadlines import Deadlines, Keepalive
from wirefmt.connection.outbox import KEEP_FROM, Outbox
from wirefmt.connection.outstanding import Identifiers, InOrder, Outstanding, serial_distance
from wirefmt.connection.windows import Window
from wirefmt.errors import LimitExceeded, Malformed

# ---- outbox


def test_bytes_leave_in_the_order_they_came() -> None:
    random_ = random.Random(1)
    outbox, expected, taken = Outbox(), b"", b""
    for _ in range(300):
        data = random_.randbytes(random_.choice((0, 1, 5, 100, KEEP_FROM - 1, KEEP_FROM, 9000)))
        outbox.put(data)
        expected += data
        match random_.randrange(6):
            case 0:
                taken += outbox.take()
            case 1:
                taken += b"".join(outbox.take_buffers())
        assert outbox.pending == len(expected) - len(taken)
        assert (outbox.position, outbox.taken) == (len(expected), len(taken))
    assert taken + outbox.take() == expected
    assert outbox.take() == b""
    assert outbox.take_buffers() == []


def test_a_large_buffer_is_not_copied_and_small_ones_are_joined() -> None:
    large = bytes(KEEP_FROM)
    view = memoryview(bytearray(KEEP_FROM)).toreadonly()
    outbox = Outbox()
    for data in (b"a", b"b", large, b"c", view, b"d", b"e"):
        outbox.put(data)
    buffers = outbox.take_buffers()
    assert [bytes(b) for b in buffers] == [b"ab", large, b"c", bytes(KEEP_FROM), b"de"]
    assert buffers[1] is large
    assert buffers[3] is view


def test_what_was_taken_does_not_change_afterwards() -> None:
    outbox = Outbox()
    outbox.put(b"one")
    buffers = outbox.take_buffers()
    outbox.put(b"two")
    assert [bytes(b) for b in buffers] == [b"one"]
    assert outbox.take() == b"two"


def test_dropped_bytes_do_not_count_as_taken() -> None:
    outbox = Outbox()
    outbox.put(b"abc")
    outbox.take()
    outbox.put(b"defg")
    mark = outbox.position
    outbox.put(bytes(KEEP_FROM))
    outbox.clear()
    assert (outbox.pending, outbox.taken, outbox.take()) == (0, 3, b"")
    assert outbox.taken < mark


# ---- deadlines


def test_timers_are_due_in_order_of_time_once() -> None:
    deadlines = Deadlines(100.0)
    assert deadlines.next() is None
    deadlines.set("b", 107.0)
    deadlines.set("a", 105.0)
    deadlines.set("c", 110.0)
    deadlines.cancel("never set")
    assert deadlines.next() == 105.0
    assert deadlines.due(104.9) == []
    assert deadlines.due(108.0) == ["a", "b"]
    assert deadlines.due(108.0) == []
    assert "c" in deadlines
    assert "a" not in deadlines
    deadlines.clear()
    assert deadlines.next() is None


def test_a_timer_started_without_a_time_begins_with_the_next_time() -> None:
    deadlines = Deadlines(100.0)
    deadlines.start("x", 5.0)
    assert "x" in deadlines
    assert deadlines.next() == 100.0  # call at once
    assert deadlines.due(150.0) == []
    assert deadlines.next() == 155.0
    deadlines.start("x", 1.0)
    deadlines.set("x", 200.0)
    assert deadlines.due(160.0) == []
    assert deadlines.next() == 200.0
    deadlines.start("x", 1.0)
    deadlines.cancel("x")
    assert deadlines.next() is None


def test_a_clock_that_goes_back_stands_still() -> None:
    deadlines = Deadlines(100.0)
    deadlines.set("x", 90.0)
    assert deadlines.due(50.0) == ["x"]
    assert deadlines.clock == 100.0


@pytest.mark.parametrize("seed", range(20))
def test_keepalive_never_leaves_a_gap_longer_than_the_period(seed: int) -> None:
    """Messages are sent at random times that the tool is not told; the driver wakes when `next` says."""
    random_ = random.Random(seed)
    deadlines = Deadlines(0.0)
    keepalive = Keepalive(deadlines, send_every=10.0)
    deadlines.advance(0.0)
    sends, last = sorted(random_.uniform(0, 500) for _ in range(30)), 0.0
    pings = 0
    while (now := deadlines.next()) is not None and now < 500:
        while sends and sends[0] <= now:
            when = sends.pop(0)
            assert when - last <= 10.0
            last = when
            keepalive.sent()
        for name in deadlines.due(now):
            assert name == Keepalive.SEND
            if keepalive.must_send():
                assert now - last <= 7.5  # a quarter is left for the way and for a timer that is late
                last = now
                pings += 1
                keepalive.sent()
    assert 500 / 10 - 31 < pings < 500 / 5


def test_silence_is_noticed_after_the_whole_time_only() -> None:
    deadlines = Deadlines(0.0)
    keepalive = Keepalive(deadlines, expect_within=15.0)
    deadlines.advance(0.0)
    deadlines.advance(14.0)
    keepalive.received()
    assert deadlines.due(15.0) == [Keepalive.EXPECT]
    assert not keepalive.is_lost()
    assert deadlines.next() == 29.0
    assert deadlines.due(29.0) == [Keepalive.EXPECT]
    assert keepalive.is_lost()


def test_silence_while_we_do_not_read_does_not_count() -> None:
    deadlines = Deadlines(0.0)
    keepalive = Keepalive(deadlines, expect_within=15.0)
    keepalive.suspend()
    assert deadlines.next() is None
    deadlines.advance(100.0)
    keepalive.expect_again()
    assert deadlines.due(101.0) == []
    assert deadlines.next() == 116.0
    Keepalive(deadlines).expect_again()  # nothing is expected: no timer
    assert deadlines.next() == 116.0


# ---- windows


def test_a_window() -> None:
    window = Window(3)
    assert window.take(2)
    assert window.available == 1
    assert not window.take(2)
    assert window.used == 2
    assert not window.give()  # it was open before
    assert window.take(2)
    assert window.give()
    assert not window.give(10)
    assert (window.used, window.available) == (0, 3)


def test_a_window_made_smaller_opens_only_below_its_new_limit() -> None:
    window = Window(3)
    window.take(3)
    window.limit = 1
    assert window.available == 0
    assert not window.give()
    assert not window.give()
    assert window.give()
    assert window.available == 1


# ---- outstanding


def test_identifiers_count_up_and_skip_those_in_use() -> None:
    identifiers = Identifiers(last=4)
    assert [identifiers.take() for _ in range(3)] == [1, 2, 3]
    identifiers.release(2)
    assert identifiers.peek() == 4
    assert [identifiers.take() for _ in range(2)] == [4, 2]
    assert identifiers.take() is None
    assert identifiers.peek() is None
    assert identifiers.free == 0
    identifiers.release(1)
    identifiers.release(1)
    assert len(identifiers) == 3
    identifiers.reserve(1)
    assert identifiers.take() is None
    assert 1 in identifiers


def test_counting_goes_on_where_it_is_told() -> None:
    identifiers = Identifiers()
    identifiers.next = 65535
    assert [identifiers.take(), identifiers.take()] == [65535, 1]
    assert identifiers.next == 2
    for wrong in (0, 65536):
        with pytest.raises(ValueError, match="1 to 65535"):
            identifiers.next = wrong


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_serial_numbers_as_rfc_1982_has_them(bits: int) -> None:
    top = (1 << bits) - 1
    assert serial_distance(top - 1, 2, bits) == 4
    assert serial_distance(top, 1, bits) == 2
    assert serial_distance(1, top, bits) == -2
    assert serial_distance(3, 3, bits) == 0


def test_rfc_1982_section_5_1() -> None:
    """The RFC's example with 2 bits: 1 > 0, 2 > 1, 3 > 2, 0 > 3; 0 and 2, 1 and 3 are not ordered."""
    distances = {(a, b): serial_distance(a, b, 2) for a in range(4) for b in range(4)}
    assert {pair for pair, distance in distances.items() if distance == 1} == {(0, 1), (1, 2), (2, 3), (3, 0)}
    assert {pair for pair, distance in distances.items() if distance == -1} == {(1, 0), (2, 1), (3, 2), (0, 3)}


@pytest.mark.parametrize("start", [0, 1000, 2**32 - 3])
def test_outstanding_against_a_plain_list(start: int) -> None:
    random_ = random.Random(start)
    outstanding: Outstanding[int, int] = Outstanding(bits=32)
    model: list[int] = []
    added = 0

    def number_of(position: int) -> int:
        return (start + position) % 2**32

    for _ in range(2000):
        match random_.randrange(4):
            case 0 | 1:
                outstanding.add(number_of(added), added)
                model.append(added)
                added += 1
            case 2:
                position = random_.randrange(added + 1)
                assert outstanding.settle(number_of(position)) == (position if position in model else None)
                model = [p for p in model if p != position]
            case 3:
                low = max(added - random_.randrange(1, 20), 0)
                high = low + random_.randrange(10)
                expected = [p for p in model if low <= p <= high]
                assert outstanding.range(number_of(low), number_of(high)) == [number_of(p) for p in expected]
        assert list(outstanding) == model
        assert len(outstanding) == len(model)


def test_records_in_order_against_a_plain_list() -> None:
    random_ = random.Random(1)
    outstanding: InOrder[int] = InOrder()
    model: list[int] = []
    for number in range(2000):
        outstanding[number] = number
        model.append(number)
        chosen = random_.randrange(number + 1)
        if random_.randrange(3):
            assert outstanding.pop(chosen, None) == (chosen if chosen in model else None)
            model = [n for n in model if n != chosen]
        if not random_.randrange(4):
            limit = number - random_.randrange(30)
            assert outstanding.settle_up_to(limit) == [n for n in model if n <= limit]
            model = [n for n in model if n > limit]
        assert list(outstanding) == model


def test_settling_from_the_front_costs_what_is_settled() -> None:
    """A look-up of the oldest that passes the gaps of records gone would make this take minutes."""
    outstanding: InOrder[int] = InOrder()
    for number in range(50_000):
        outstanding[number] = number
    for number in range(50_000):
        assert outstanding.settle_up_to(number) == [number]
    assert not outstanding


def test_outstanding_numbers_are_used_once_at_a_time() -> None:
    outstanding: Outstanding[int, str] = Outstanding()
    outstanding.add(1, "a")
    with pytest.raises(KeyError):
        outstanding.add(1, "b")
    assert outstanding[1] == "a"
    assert outstanding.get(2) is None
    assert 1 in outstanding
    assert outstanding.records == {1: "a"}
    assert outstanding.range(5, 2) == []


def test_a_huge_range_of_a_peer_costs_nothing() -> None:
    outstanding: Outstanding[int, int] = Outstanding(bits=32)
    for number in (5, 6, 9):
        outstanding.add(number, number)
    assert outstanding.range(6, 2**31) == [6, 9]


def test_ranges_of_a_long_life() -> None:
    """Numbers wrap more than once between two ranges."""
    outstanding: Outstanding[int, int] = Outstanding(bits=32)
    for start in (0, 2**31 + 50, 2**32 + 100, 7 * 2**30):
        for number in range(start, start + 10):
            outstanding.add(number % 2**32, number)
        assert outstanding.range((start + 2) % 2**32, (start + 4) % 2**32) == [
            n % 2**32 for n in range(start + 2, start + 5)
        ]
        for number in range(start, start + 10):
            outstanding.settle(number % 2**32)
        assert outstanding.range(0, 2**31) == []


# ---- carriers


def test_plain_changes_nothing() -> None:
    assert Plain().receive(b"a") == b"a"
    assert Plain().send(b"b") == b"b"


def test_deflate_both_ways_and_against_zlib() -> None:
    here, there = Deflate(), Deflate()
    for data in (b"", b"abc" * 100, bytes(5000)):
        carried = here.send(data)
        cut = len(carried) // 2
        assert there.receive(carried[:cut]) + there.receive(carried[cut:]) == data
    assert zlib.decompressobj(wbits=-15).decompress(Deflate(level=9).send(b"x" * 999)) == b"x" * 999


def test_compressed_bytes_are_read_in_pieces() -> None:
    carrier = Deflate()
    carrier.feed(Deflate().send(bytes(300_000)))
    sizes = []
    while piece := carrier.read():
        sizes.append(len(piece))
        assert piece == bytes(len(piece))
    assert sum(sizes) == 300_000
    assert max(sizes) <= PIECE
    assert carrier.unread == 0


def test_snappy_both_ways_in_any_pieces() -> None:
    cramjam = imported("cramjam")
    here, there = Snappy(), Snappy()
    random_ = random.Random(1)
    said, sent = b"", b""
    for size in (1, 10, 65_536, 65_537, 200_000):
        body = random_.randbytes(size // 2) + bytes(size - size // 2)
        said += body
        sent += here.send(body)
    assert sent.count(Snappy.IDENTIFIER) == 1
    assert bytes(cramjam.snappy.decompress(sent)) == said
    sent = sent[:10] + b"\xfe\x03\x00\x00pad" + sent[10:]  # padding may come anywhere
    came = b""
    while sent:
        size = random_.choice((1, 3, 1000, 100_000))
        came += there.receive(sent[:size])
        sent = sent[size:]
    assert came == said


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x05\x00\x00abcde",  # no identifier
        Snappy.IDENTIFIER + b"\x02\x01\x00\x00x",  # a chunk that may not be skipped
        Snappy.IDENTIFIER + b"\x01\x05\x00\x00abcdx",  # a wrong checksum
        Snappy.IDENTIFIER + b"\x01\xff\xff\xff",  # larger than a chunk may be
        b"\xff\x06\x00\x00sNaPpX",
    ],
)
def test_snappy_refuses_what_is_none(data: bytes) -> None:
    imported("cramjam")
    with pytest.raises(Malformed):
        Snappy().receive(data)


def test_deflate_refuses_what_is_none_and_what_grows_too_much() -> None:
    with pytest.raises(Malformed):
        Deflate().receive(b"\xff\xff\xff")
    with pytest.raises(LimitExceeded):
        Deflate(limit=1000).receive(Deflate().send(bytes(100_000)))
    end = zlib.compressobj(wbits=-15)
    with pytest.raises(Malformed):
        Deflate().receive(end.compress(b"a") + end.flush() + b"more")


def masks(seed: int) -> Callable[[], bytes]:
    random_ = random.Random(seed)
    return lambda: random_.randbytes(4)


#: RFC 6455, 5.7: the examples, as binary messages (first byte 82 for 81, and 02 for 01).
EXAMPLES = [
    ("server", "8205 48656c6c6f", b"Hello", ""),
    ("client", "8285 37fa213d 7f9f4d5158", b"Hello", ""),
    ("server", "0203 48656c 8002 6c6f", b"Hello", ""),
    ("server", "8905 48656c6c6f", b"", "8a85"),
    ("client", "8a85 37fa213d 7f9f4d5158", b"", ""),
    ("server", "827e0100" + "61" * 256, b"a" * 256, ""),
    ("server", "827f0000000000010000" + "61" * 65536, b"a" * 65536, ""),
]


@pytest.mark.parametrize(("sender", "frames", "payload", "reply"), EXAMPLES, ids=range(len(EXAMPLES)))
@pytest.mark.parametrize("piece", [1, 3, 1 << 20])
def test_websocket_frames_of_the_rfc(sender: str, frames: str, payload: bytes, reply: str, piece: int) -> None:
    data = bytes.fromhex(frames)
    if len(data) > 1000 and piece < 10:
        piece = 5000
    socket = WebSocket(masks(1) if sender == "server" else None)
    got = b"".join(socket.receive(data[i : i + piece]) for i in range(0, len(data), piece))
    assert got == payload
    assert socket.replies[:2].hex() == reply


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536])
def test_websocket_both_ways(size: int) -> None:
    client, server = WebSocket(masks(2)), WebSocket()
    data = random.Random(size).randbytes(size)
    assert server.receive(client.send(data)) == data
    assert client.receive(server.send(data)) == data


def test_a_websocket_close_is_answered_and_ends_it() -> None:
    client, server = WebSocket(masks(3)), WebSocket()
    assert server.receive(client.send(b"last") + client.close(1001) + b"dropped") == b"last"
    assert server.closed
    assert server.replies == bytes.fromhex("8802 03e9")
    assert client.receive(bytes(server.replies)) == b""
    assert client.closed


@pytest.mark.parametrize(
    ("sender", "frames"),
    [
        ("server", "c201 61"),  # a reserved bit
        ("client", "8201 61"),  # not masked
        ("server", "8281 00000000 61"),  # masked
        ("server", "8101 61"),  # text
        ("server", "8301 61"),  # an opcode that nobody knows
        ("server", "0901 61"),  # a ping in fragments
        ("server", "897e 0080"),  # a long ping
        ("server", "8001 61"),  # a fragment of nothing
        ("server", "0201 61 8201 62"),  # a message within a message
        ("server", "a201 61"),  # another reserved bit
        ("server", "9201 61"),  # and the third one
        *(
            ("server", f"8{opcode:x}00") for opcode in (3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF)
        ),  # opcodes without meaning
        ("server", "827e 007d" + "00" * 125),  # lengths that are longer than they have to be (5.2)
        ("server", "827f 000000000000007e" + "00" * 126),
        ("server", "827f 000000000000ffff" + "00" * 0xFFFF),
        ("server", "0801 61"),  # a close frame in fragments
        ("server", "0a00"),  # a pong in fragments
        ("server", "0201 61 0901 62"),  # a ping in fragments, in a message
        ("server", "0201 61 8901 62 0201 63"),  # a second message begins, after a ping
        ("server", "8801 03"),  # half a code (5.5.1)
        # codes that are not sent (7.4.1), reserved ones, and those without a meaning (7.4.2)
        *(
            ("server", f"8802 {code:04x}")
            for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
        ),
        ("server", "8806 03e8 cebaffe1"),  # a reason that is not UTF-8
    ],
)
def test_websocket_faults(sender: str, frames: str) -> None:
    with pytest.raises(Malformed):
        WebSocket(masks(4) if sender == "server" else None).receive(bytes.fromhex(frames))


@pytest.mark.parametrize("payload", ["", *(f"{code:04x}" for code in
    (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)), "03e8" + "c3a4" * 61])  # fmt: skip
def test_close_frames_of_the_rfc(payload: str) -> None:
    """5.5.1 and 7.4: the answer has the code, or none."""
    data = bytes.fromhex(payload)
    client = WebSocket(masks(6))
    assert client.receive(bytes((0x88, len(data))) + data + b"after") == b""
    assert client.closed
    assert WebSocket().receive(bytes(client.replies)) == b""
    assert client.replies[1] & 127 == len(data[:2])


@pytest.mark.parametrize("piece", [1, 4, 1 << 20])
def test_control_frames_between_fragments(piece: int) -> None:
    """5.4 and 5.5: a ping, a pong that nobody has asked for, and empty fragments; the ping of 125 bytes is answered."""
    ping = random.Random(7).randbytes(125)
    wire = b"\x02\x01a" + b"\x89\x7d" + ping + b"\x00\x00" + b"\x8a\x02ab" + b"\x00\x01b" + b"\x80\x00" + b"\x82\x01c"
    client, server = WebSocket(masks(8)), WebSocket()
    assert b"".join(client.receive(wire[at : at + piece]) for at in range(0, len(wire), piece)) == b"abc"
    assert client.replies[:2] == b"\x8a\xfd"
    assert server._frame(bytes(client.replies), 0) == (0x8A, ping, 2 + 4 + 125)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 125, 126, 127, 1023, 1024, 1025, 1027, 65535, 65536])
def test_masks_byte_by_byte(size: int) -> None:
    """5.3: octet i of the payload XOR octet i modulo 4 of the mask; the lengths of 5.2."""
    data, mask = random.Random(size).randbytes(size), bytes((0, 0x5A, 0xFF, 0x81))
    wire = WebSocket(lambda: mask).send(data)
    head = bytes((0x82, 0x80 | size)) if size < 126 else (
        b"\x82\xfe" + size.to_bytes(2) if size < 65536 else b"\x82\xff" + size.to_bytes(8)
    )  # fmt: skip
    if size:
        assert wire == head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        assert WebSocket().receive(wire) == data


def test_a_websocket_frame_above_the_limit_is_refused_by_its_length() -> None:
    with pytest.raises(LimitExceeded):
        WebSocket(masks(5), limit=1000).receive(bytes.fromhex("827e 03e9"))


@pytest.mark.parametrize("seed", range(50))
def test_websocket_pieces_of_any_size(seed: int) -> None:
    random_ = random.Random(seed)
    client, server = WebSocket(masks(seed)), WebSocket()
    sent = [random_.randbytes(random_.choice((0, 1, 50, 126, 70_000))) for _ in range(5)]
    wire = b"".join(client.send(data) for data in sent)
    got = b""
    while wire:
        size = random_.choice((1, 2, 3, 1000, 50_000))
        got, wire = got + server.receive(wire[:size]), wire[size:]
    assert got == b"".join(sent)
    assert not server._kept
