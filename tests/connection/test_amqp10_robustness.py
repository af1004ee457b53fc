"""AMQP 1.0 connections under any bytes: they end in order, within their limits, and what they write can be read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.amqp10_driven import connection, drive
from lib.amqp10_pair import Pair, message
from lib.kinds import only
from lib.steps import steps
from wirefmt import amqp10
from wirefmt.amqp10.reported import SPARE

ROLES = ("client", "server")
HANDLES = st.integers(0, 5)
SMALL = st.integers(0, 9)
WINDOW = st.sampled_from((0, 1, 5, 2**31, 2**32 - 1))
IDS = st.integers(0, 12) | st.sampled_from((2**31, 2**32 - 1))
CHANNELS = st.integers(0, 3)
STATES = st.sampled_from(
    (
        None,
        amqp10.Accepted(),
        amqp10.Rejected(),
        amqp10.Received(section_number=0, section_offset=3),
        amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Accepted()),
    )
)
FLAGS = st.sampled_from((None, False, True))
UNSETTLED = st.none() | st.dictionaries(st.binary(min_size=1, max_size=2), STATES, max_size=3)
FRAMES = st.one_of(
    st.builds(
        amqp10.Begin,
        remote_channel=st.none() | CHANNELS,
        next_outgoing_id=IDS,
        incoming_window=WINDOW,
        outgoing_window=WINDOW,
        handle_max=st.none() | SMALL,
        channel=CHANNELS,
    ),
    st.builds(
        amqp10.Attach,
        name=st.integers(0, 4).map(str),
        handle=HANDLES,
        role=st.booleans(),
        source=st.sampled_from((None, amqp10.Source(address="q"))),
        target=st.sampled_from((None, amqp10.Target(address="q"), amqp10.Coordinator())),
        snd_settle_mode=st.sampled_from((None, 0, 1, 2)),
        rcv_settle_mode=st.sampled_from((None, 0, 1)),
        initial_delivery_count=st.none() | IDS,
        max_message_size=st.sampled_from((None, 0, 100)),
        unsettled=UNSETTLED,
        incomplete_unsettled=FLAGS,
        channel=CHANNELS,
    ),
    st.builds(
        amqp10.Flow,
        next_incoming_id=st.none() | IDS,
        incoming_window=WINDOW,
        next_outgoing_id=IDS,
        outgoing_window=WINDOW,
        handle=st.none() | HANDLES,
        delivery_count=st.none() | IDS,
        link_credit=st.none() | IDS,
        drain=FLAGS,
        echo=FLAGS,
        channel=CHANNELS,
    ),
    st.builds(
        amqp10.Transfer,
        handle=HANDLES,
        delivery_id=st.none() | st.integers(0, 6),
        delivery_tag=st.none() | st.binary(min_size=1, max_size=1),
        settled=FLAGS,
        more=FLAGS,
        aborted=FLAGS,
        resume=FLAGS,
        state=STATES,
        rcv_settle_mode=st.sampled_from((None, 0, 1)),
        payload=st.integers(0, 400).map(bytes),
        channel=CHANNELS,
    ),
    st.builds(
        amqp10.Disposition,
        role=st.booleans(),
        first=IDS,
        last=st.none() | IDS,
        settled=FLAGS,
        state=STATES,
        channel=CHANNELS,
    ),
    st.builds(amqp10.Detach, handle=HANDLES, closed=FLAGS, channel=CHANNELS),
    st.builds(amqp10.End, channel=CHANNELS),
    st.just(amqp10.EmptyFrame()),
)
BEGUN = amqp10.Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9).encode()


@pytest.mark.parametrize("role", ROLES)
@given(data=st.binary(max_size=200), seed=st.integers(0, 1000))
def test_any_bytes(role: str, data: bytes, seed: int) -> None:
    random_ = random.Random(seed)
    made, opening = connection(role, random_)
    drive(role, made, bytearray(b"".join(opening) + data), random_)


@pytest.mark.parametrize("role", ROLES)
@given(frames=st.lists(FRAMES, max_size=25), seed=st.integers(0, 1000))
def test_any_frames(role: str, frames: list[amqp10.Performative], seed: int) -> None:
    random_ = random.Random(seed)
    made, opening = connection(role, random_)
    begun = BEGUN if random_.random() < 0.8 else b""
    drive(role, made, bytearray(b"".join(opening) + begun + b"".join(frame.encode() for frame in frames)), random_)


def delivered(count: int, role: bool) -> tuple[Pair, amqp10.Session]:
    """A pair in which the client has sent `count` messages that are not settled, and the session of the end that hears of it.

    role: that of a disposition to this end: True: it is the sender's end.
    """
    pair = Pair()
    ours, theirs = pair.session()
    link, _ = pair.sender(ours, credit=count)
    for _ in range(count):
        link.send(message())
    pair.carry()
    return pair, ours if role else theirs


def cost(count: int, role: bool, before: range = range(0), **fields: object) -> int:
    """Steps for a disposition, after a range of deliveries has been settled. It is sent twice; the second time counts."""
    pair, session = delivered(count, role)
    to = pair.client if role else pair.server
    if before:
        pair.tell(amqp10.Disposition(role=role, first=before[0], last=before[-1], settled=True), to=to)
    frame = amqp10.Disposition(role=role, **fields).encode()  # type: ignore[arg-type]
    to.receive(frame, pair.now)
    left = len(session.outgoing if role else session.incoming)
    taken = steps(lambda: to.receive(frame, pair.now))
    assert len(session.outgoing if role else session.incoming) == left == count - len(before)
    return taken


@pytest.mark.parametrize("role", [False, True])
def test_a_disposition_that_settles_nothing_costs_nothing(role: bool) -> None:
    """2.7.6: one small frame can name any range of deliveries."""
    few, many = 20, 900
    ranges: tuple[dict[str, Any], ...] = (
        {"first": 0, "last": 2**31 - 1},  # of those that are there, without a state
        {"first": 5000, "last": 2**31, "settled": True},  # after all of them
        {"first": 2**31 + 5000, "last": 2**32 - 1, "settled": True},  # before all of them
    )
    for fields in ranges:
        assert cost(many, role, **fields) < 2 * cost(few, role, **fields), fields
    between = [
        cost(count, role, range(5, count - 5), first=5, last=count - 6, settled=True) for count in (few, many)
    ]  # what it names has been settled
    assert between[1] < 2 * between[0]


@pytest.mark.parametrize("role", [False, True])
def test_a_disposition_costs_what_it_settles(role: bool) -> None:
    taken = []
    for count in (100, 900):
        pair, _ = delivered(count, role)
        to = pair.client if role else pair.server
        frame = amqp10.Disposition(role=role, first=10, last=29, settled=True).encode()
        taken.append(steps(lambda to=to, frame=frame: to.receive(frame, 0.0)))  # type: ignore[misc]
    # the first range of a session looks once at each delivery that came after it
    assert taken[1] - taken[0] < 25 * 800
    pair, _ = delivered(900, role)
    to = pair.client if role else pair.server
    first, second = (amqp10.Disposition(role=role, first=n, last=n + 19, settled=True).encode() for n in (10, 40))
    to.receive(first, 0.0)
    assert steps(lambda: to.receive(second, 0.0)) < 1.5 * taken[0]


def test_a_state_that_is_known_is_told_once() -> None:
    pair, _ = delivered(3, True)
    told = amqp10.Disposition(role=True, first=0, last=2, state=amqp10.Received(section_number=0, section_offset=1))
    (event,) = pair.tell(told, to=pair.client)
    assert [handle.delivery_id for handle in event.handles] == [0, 1, 2]
    assert pair.tell(told, to=pair.client) == []


def received(offset: int, first: int, last: int) -> bytes:
    state = amqp10.Received(section_number=0, section_offset=offset)
    return amqp10.Disposition(role=True, first=first, last=last, state=state).encode()


def test_a_state_that_is_no_outcome_does_not_cost_the_deliveries_that_it_names() -> None:
    """3.4.1: each of these frames names all deliveries, and changes the state of all."""
    taken = []
    for count in (20, 900):
        pair, _ = delivered(count, True)
        pair.client.receive(received(0, 0, 2**31 - 1), 0.0)
        frames = b"".join(received(n, 0, 2**31 - 1) for n in range(1, 50))
        taken.append(steps(lambda pair=pair, frames=frames: pair.client.receive(frames, 0.0)))  # type: ignore[misc]
    assert taken[1] < 2 * taken[0]


@pytest.mark.parametrize("start", [0, 2**32 - 40, 2**31 - 40])
def test_states_of_ranges_against_a_plain_list(start: int) -> None:
    random_ = random.Random(start)
    pair = Pair()
    ours, _ = pair.session(next_outgoing_id=start)
    link, _ = pair.sender(ours, credit=10_000)
    model: dict[int, object] = {}
    handles: dict[int, amqp10.Outgoing] = {}
    sent = 0
    for n in range(600):
        match random_.randrange(5):
            case 0 | 1:
                handles[sent] = link.send(message())
                model[sent] = None
                sent += 1
            case 2 if model:
                settled = random_.choice(list(model))
                wire = (start + settled) % 2**32
                pair.client.receive(amqp10.Disposition(role=True, first=wire, settled=True).encode(), 0.0)
                assert handles.pop(settled).state == model.pop(settled)
            case _:
                low = random_.randrange(sent + 1)
                high = low + random_.randrange(40)
                first, last = ((start + at) % 2**32 for at in (low, high))
                named = [at for at in model if low <= at <= high]
                offset = random_.choice((1, 2, n))
                state = amqp10.Received(section_number=0, section_offset=offset)
                events = pair.client.receive(received(offset, first, last), 0.0)
                if any(model[at] != state for at in named):
                    event = only(events, amqp10.Updated)
                    assert list(event.handles) == [handles[at] for at in named]
                    assert event.state == state
                for at in named:
                    model[at] = state
        pair.client.data_to_send()
        assert {at: handle.state for at, handle in handles.items()} == model
        if ours.reported is not None:
            assert len(ours.reported) <= 2 * len(model) + SPARE + 2


def test_states_of_ranges_are_kept_when_a_link_leaves() -> None:
    pair, ours = delivered(3, True)
    pair.client.receive(received(7, 1, 1), 0.0)
    handles = list(ours.outgoing)
    ours.end()
    assert [handle.state and handle.state.section_offset for handle in handles] == [None, 7, None]
    pair.carry()
    assert [handle.state and handle.state.section_offset for handle in handles] == [None, 7, None]
