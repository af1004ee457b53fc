"""The search for a frame boundary, without flows: the rule at the top of resync.pxi, one sentence after the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.wire import packet, publish, socket_frame
from wirefmt.capture._engine import BoundarySearch

PING = packet(0xC0)
NOISE = b"\x01"  # no packet of MQTT begins with it, and as a Remaining Length it contradicts PINGREQ
FULL = 1460  # bytes of a packet that need not end a write
MIB = 1 << 20


def found(
    *packets: bytes | tuple[bytes, bool], names: tuple[str, ...] = ("mqtt",), end: bool = False, **how: object
) -> object:
    """What a search gives in the end; a packet may come with its push flag."""
    search = BoundarySearch(*names, **how)  # type: ignore[arg-type]
    for item in packets:
        payload, push = item if isinstance(item, tuple) else (item, False)
        answer = search.packet(payload, push=push)
        if answer is not None:
            return answer
    return search.end() if end else None


def test_one_frame_from_a_packets_first_byte_to_the_end_of_a_write() -> None:
    assert found(PING) == (0, "mqtt")


def test_one_frame_within_a_packet_is_not_enough() -> None:
    assert found(NOISE + PING) is None
    assert found(NOISE + PING, end=True) is None


def test_two_frames_within_a_packet_up_to_the_end_of_a_write() -> None:
    assert found(NOISE + PING * 2) == (1, "mqtt")


def test_a_chain_may_cross_packets() -> None:
    whole = publish("a", bytes(100))
    assert found(NOISE * 7 + whole[:50], whole[50:] + PING) == (7, "mqtt")


@pytest.mark.parametrize("short", [0, 1])
def test_a_packet_that_is_not_smaller_than_others_ends_no_write(short: int) -> None:
    """RFC 9293, 3.7.1: 536 bytes is the segment size that every host takes. A smaller packet is the last of a write."""
    octets = publish("a", bytes(FULL - 6 - short))
    assert len(octets) == FULL - short
    assert found(NOISE * FULL, octets) == ((FULL, "mqtt") if short else None)
    assert found(NOISE * FULL, (octets, True)) == (FULL, "mqtt")


@pytest.mark.parametrize("size", [535, 536])
def test_a_packet_below_the_smallest_segment_size_ends_a_write(size: int) -> None:
    octets = publish("a", bytes(size - 6))
    assert len(octets) == size
    assert found(octets) == ((0, "mqtt") if size < 536 else None)


def test_frames_inside_a_payload_are_not_believed() -> None:
    """The chain of those breaks where the payload ends; what follows is the boundary."""
    inside = PING * 600 + NOISE * 3
    assert found(NOISE + inside[: FULL - 1], (inside[FULL - 1 :] + PING * 2, True)) == (1 + len(inside), "mqtt")


def test_a_long_chain_needs_no_end_of_a_write() -> None:
    """64 KiB and three frames: fewer or smaller ones are not believed."""
    frame = publish("a", bytes(30_000))
    octets = NOISE * 5 + frame * 4
    pieces = [octets[at : at + FULL] for at in range(0, len(octets), FULL)]
    assert len(frame) * 2 < 65536 < len(frame) * 3
    search = BoundarySearch("mqtt")
    answers = [search.packet(piece) for piece in pieces[:-1]]  # the last is smaller, so that it ends a write
    enough = (5 + 3 * len(frame) - 1) // FULL
    assert answers.index((5, "mqtt")) == enough


def test_three_frames_from_a_packets_first_byte_do_where_nothing_follows() -> None:
    cut = publish("a", bytes(2 * FULL))
    for frames, answer in ((3, (0, "mqtt")), (2, None)):
        octets = (PING * frames + cut)[:FULL]
        assert found(octets) is None
        assert found(octets, end=True) == answer


def test_of_several_protocols_the_first_boundary_counts() -> None:
    names = ("mqtt", "nsq")
    command = b"PUB topic\n\0\0\0\1x"
    assert found(NOISE + command * 2, names=names) == (1, "nsq")
    assert found(NOISE + PING * 2, names=names) == (1, "mqtt")


@pytest.mark.parametrize("direction", [0, 1])
def test_messages_of_a_websocket(direction: int) -> None:
    """RFC 6455, 5.1: frames of a client are masked, those of a server are not."""
    ping = PING if direction == 0 else packet(0xD0)
    mask = b"\x11\x22\x33\x44" if direction == 0 else None
    message = socket_frame(ping * 2, mask=mask)
    how: dict[str, Any] = {"websocket": True, "direction": direction}
    assert found(NOISE + message * 2, **how) == (1, "mqtt")
    assert found(NOISE + message, **how) is None
    assert found(message, **how) == (0, "mqtt")
    assert found(socket_frame(ping + NOISE, mask=mask) * 2, **how) is None, "its payload is not only frames"
    assert found(socket_frame(b"", first=0x89, mask=mask) * 2, **how) is None, "control frames are not evidence"
    assert found(socket_frame(ping, mask=None if mask else b"abcd") * 2, **how) is None, "the other side's"


def test_the_window_is_bounded() -> None:
    """Bytes that hold no boundary leave it; so do those of a message whose end does not arrive."""
    search = BoundarySearch("mqtt")
    for payload in (NOISE * FULL, publish("a", bytes(200_000))[:FULL], *[b"\x30" * FULL] * (MIB // FULL)):
        assert search.packet(payload) is None
        assert search.size <= (1 << 18) + FULL
    fed = search.skipped + search.size
    assert search.skipped > 0
    answers = (search.packet(PING * 2, push=True) for _ in range(MIB // FULL))
    assert next(filter(None, answers)) == (fed, "mqtt"), "frames after it are found in the end"


def boundary(packets: list[tuple[bytes, bool]]) -> int | None:
    """The rule for PINGREQ and NOISE: the first offset from which frames lead to the end of a write."""
    octets = b"".join(payload for payload, _ in packets)
    starts, ends = set(), set()
    at = largest = 0
    for payload, push in packets:
        starts.add(at)
        at += len(payload)
        if push or len(payload) < 536 or len(payload) < largest:
            ends.add(at)
        largest = max(largest, len(payload))
    for first in range(len(octets)):
        reach, frames = first, 0
        while octets[reach : reach + 2] == PING:
            reach += 2
            frames += 1
            if reach in ends and frames >= (1 if first in starts else 2):
                return first
    return None


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from((PING, NOISE, PING[:1])), max_size=4).map(b"".join),
            st.sampled_from((0, 700)),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_the_rule_for_any_packets(made: list[tuple[bytes, int, bool]]) -> None:
    """A packet of 700 bytes ends a write only with push. However many packets a chain takes, the same boundary is found."""
    packets = [(octets.rjust(size, NOISE), push) for octets, size, push in made if octets or size]
    answer = found(*packets)
    assert answer == (None if boundary(packets) is None else (boundary(packets), "mqtt"))


def test_options() -> None:
    with pytest.raises(ValueError, match="not in list"):
        BoundarySearch("smtp")


@pytest.mark.parametrize("skipped", [(1 << 16) - 1, 1 << 16])
def test_the_window_is_moved_in_steps(skipped: int) -> None:
    """Behind octets that hold no boundary a message is waited for: they leave when they are 64 KiB."""
    search = BoundarySearch("mqtt")
    assert search.packet(NOISE * skipped + publish("a", bytes(5000))[:100]) is None
    assert search.skipped == (skipped if skipped == 1 << 16 else 0)
    assert search.size == 100 + skipped - search.skipped


def test_a_message_is_waited_for_in_so_many_packets() -> None:
    """8192, however small they are."""
    octets = publish("a", bytes(20_000))
    search = BoundarySearch("mqtt")
    for at in range(8191):
        assert search.packet(octets[at : at + 1]) is None
    assert (search.skipped, search.size) == (0, 8191)
    assert search.packet(b"\0") is None
    assert (search.skipped, search.size) == (8192, 0)
