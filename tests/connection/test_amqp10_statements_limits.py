"""Guarantees of AMQP 1.0 connections for their host, beyond the specification: limits, order, pauses."""

from __future__ import annotations

import pytest

from lib.amqp10_pair import PLENTY, Pair, frames, kinds, message, of
from wirefmt import amqp10
from wirefmt.amqp10 import Attaching, ConnectionOptions, Incoming, LinkDetached, SessionEnded
from wirefmt.connection import WindowOpened
from wirefmt.errors import LocalProtocolError


def test_calls_after_the_end_raise() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours)
    sender.send(message())
    _, (delivery,) = pair.carry()
    pair.client.close()
    pair.carry()
    for call in (
        lambda: pair.client.receive(b"", 1.0),
        lambda: pair.client.receive_eof(1.0),
        lambda: pair.client.handle_timeout(1.0),
        pair.client.close,
        pair.client.begin,
        pair.client.pause,
        lambda: sender.send(message()),
        sender.detach,
        ours.end,
        lambda: receiver.grant(1),
    ):
        with pytest.raises(LocalProtocolError):
            call()
    pair.server.accept(delivery)  # the host may not know of the end yet
    assert pair.client.data_to_send() == pair.server.data_to_send() == b""


def test_unsettled_deliveries_are_bounded_in_both_directions() -> None:
    options = ConnectionOptions(unsettled=5, incoming_window=100, idle_timeout=None)
    pair = Pair(options, PLENTY)
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    for _ in range(5):
        sender.send(message())
    with pytest.raises(LocalProtocolError, match="not settled"):
        sender.send(message())
    _, deliveries = pair.carry()
    pair.server.accept(deliveries[0])
    events, _ = pair.carry()
    assert kinds(events) == ["Acknowledged", "WindowOpened"]
    sender.send(message())


def test_bytes_of_unfinished_messages_are_bounded() -> None:
    pair = Pair(server=ConnectionOptions(unfinished_bytes=1000, idle_timeout=None))
    ours, _ = pair.session()
    first, _ = pair.sender(ours, name="1")
    second, _ = pair.sender(ours, name="2")
    first.send(bytes(600), more=True)
    assert pair.carry() == ([], [])
    second.send(bytes(600), more=True)
    _, (gone,) = pair.carry()
    assert gone.link.name == "2"
    assert gone.error.condition == "amqp:resource-limit-exceeded"
    assert pair.server.unfinished == 600


def test_queued_bytes_are_bounded() -> None:
    pair = Pair(ConnectionOptions(pending_bytes=1000, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message(bytes(900)))
    with pytest.raises(LocalProtocolError, match="queued"):
        sender.send(message(bytes(900)))
    assert sender.credit == 99
    pair.carry()
    sender.send(message(bytes(900)))


def test_attaches_that_wait_are_bounded() -> None:
    pair = Pair(server=ConnectionOptions(undecided=2, idle_timeout=None), accept=False)
    ours, _ = pair.session()
    for n in range(3):
        ours.sender(str(n), "q")
    events, asked = pair.carry()
    assert len(of(asked, Attaching)) == 2
    assert of(events, LinkDetached)[0].error.condition == "amqp:resource-limit-exceeded"


def test_parts_wait_for_the_window_and_go_on() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, incoming_window=2, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    octets = message(bytes(4000)).encode()
    handle = sender.send(octets[:2000], more=True)
    with pytest.raises(LocalProtocolError, match="waits"):
        sender.send_more(handle, octets[2000:], more=False)
    events, _ = pair.carry()
    assert events == [WindowOpened(1, sender)]
    sender.send_more(handle, octets[2000:], more=False)
    _, (delivery,) = pair.carry()
    assert delivery.message == message(bytes(4000))


def test_a_sender_that_overruns_its_credit_may_be_tolerated() -> None:
    pair = Pair(server=ConnectionOptions(overrun=1, idle_timeout=None))
    ours, _ = pair.session()
    pair.sender(ours, credit=1)
    transfers = [amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n, payload=b"") for n in range(3)]
    assert kinds(pair.tell(*transfers)) == ["Incoming", "Incoming", "LinkDetached"]


def test_a_detach_ends_what_waits_for_the_window() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, incoming_window=2, idle_timeout=None))
    for close in ("detach", "end"):
        ours, _ = pair.session()
        sender, _ = pair.sender(ours)
        sender.send(message(bytes(4000)))
        getattr(sender if close == "detach" else ours, close)()
        said = frames(pair.client.data_to_send())
        assert [type(frame).__name__ for frame in said[-3:]] == ["Transfer", "Transfer", close.title()]
        pair.tell(*said)
        pair.carry()
        assert ours.job is None


def test_pause_and_resume() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message())
    pair.server.pause()
    assert not pair.server.wants_read
    data = pair.client.data_to_send()
    assert pair.server.receive(data, 0.0) == []
    assert pair.server.trailing_data == data
    assert kinds(pair.server.resume(0.0)) == ["Incoming"]
    assert pair.server.wants_read


def test_an_end_names_the_handles() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, _ = pair.sender(ours)
    handles = tuple(sender.send(message()) for _ in range(2))
    _, deliveries = pair.carry()
    theirs.end()
    (mine,), (other,) = pair.carry()
    assert (mine.lost, mine.resumable) == (handles, ())
    assert other.returned == tuple(deliveries)
    assert isinstance(mine, SessionEnded)


def test_2_8_7_a_delivery_tag_may_be_empty() -> None:
    """Artemis sends settled messages with an empty tag."""
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"", settled=True, payload=message().encode())
    (event,) = pair.tell(transfer)
    assert isinstance(event, Incoming)


@pytest.mark.parametrize("size", [*range(440, 520), *range(900, 1020)])
def test_a_message_takes_no_more_frames_than_it_needs(size: int) -> None:
    """2.7.5: `more` means that the message continues. A transfer that fills a frame exactly is the last one."""
    pair = Pair(server=ConnectionOptions(idle_timeout=None, frame_size=512))
    session, _ = pair.session()
    link, _ = pair.sender(session)
    link.send(message(bytes(size)))
    sent = frames(pair.client.data_to_send())
    assert all(isinstance(frame, amqp10.Transfer) and frame.payload for frame in sent)
    assert [bool(frame.more) for frame in sent] == [True] * (len(sent) - 1) + [False]
    assert [len(frame.encode()) for frame in sent[:-1]] == [512] * (len(sent) - 1)
