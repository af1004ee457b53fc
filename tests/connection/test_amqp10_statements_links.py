"""Statements of AMQP 1.0, part 2, on links and their credit (2.6.1 to 2.6.10). Test names begin with the section."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp10_pair import ERROR, Pair, frames, kinds, message, of
from lib.kinds import checked
from wirefmt import amqp10
from wirefmt.amqp10 import (
    Attaching,
    ConnectionOptions,
    Drained,
    DrainRequested,
    Flowed,
    LinkAttached,
    LinkDetached,
    LinkState,
    SessionEnded,
    SessionState,
    State,
)
from wirefmt.connection import WindowOpened
from wirefmt.errors import LocalProtocolError

# ---- links


def test_2_6_1_a_name_in_both_directions_is_two_links() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    pair.sender(ours, name="x", credit=0)
    pair.receiver(ours, name="x")
    assert len(ours.links) == len(theirs.links) == 2
    with pytest.raises(LocalProtocolError, match="in use"):
        ours.sender("x", "q")


def test_2_6_1_a_name_used_again_steals_the_link() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    pair.sender(ours, name="x")
    attach = amqp10.Attach(name="x", handle=9, role=False, initial_delivery_count=0)
    gone, asked = pair.tell(attach)
    assert isinstance(gone, LinkDetached)
    assert gone.error is not None
    assert gone.error.condition == "amqp:link:stolen"
    assert isinstance(asked, Attaching)
    pair.server.accept(asked)
    assert asked.link.attached
    assert theirs.find("x", False) is asked.link


def test_2_6_2_handles() -> None:
    pair = Pair(server=ConnectionOptions(links=3, idle_timeout=None))
    ours, theirs = pair.session()
    links = [pair.sender(ours, name=str(n), credit=0)[0] for n in range(3)]
    with pytest.raises(LocalProtocolError, match="handle"):
        ours.sender("3", "q")
    links[1].detach()
    pair.carry()
    assert sorted(ours.links) == sorted(theirs.links) == [0, 2]
    assert pair.sender(ours, name="4", credit=0)[0].handle == 1
    (gone,) = pair.tell(amqp10.Attach(name="y", handle=3, role=True))
    assert gone.code == "amqp:connection:framing-error"


def test_2_6_2_a_handle_in_use() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    (gone,) = pair.tell(amqp10.Attach(name="y", handle=0, role=True))
    assert gone.error.condition == "amqp:session:handle-in-use"


def test_2_6_2_a_handle_without_a_link() -> None:
    for frame in (
        amqp10.Transfer(handle=4, delivery_id=0, delivery_tag=b"t", payload=b""),
        amqp10.Flow(next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=0, handle=4),
        amqp10.Detach(handle=4),
    ):
        pair = Pair()
        pair.session()
        (gone,) = pair.tell(frame)
        assert gone.error.condition == "amqp:session:unattached-handle"


def test_2_6_3_a_refused_link() -> None:
    pair = Pair(accept=False)
    ours, theirs = pair.session()
    ours.sender("a", "nowhere")
    ours.receiver("b", "nowhere")
    _, asked = pair.carry()
    for attaching in of(asked, Attaching):
        pair.server.refuse(attaching, amqp10.Error(condition="amqp:not-found"))
        with pytest.raises(LocalProtocolError, match="answer"):
            pair.server.accept(attaching)
    answers = frames(pair.server.data_to_send())
    assert [type(frame).__name__ for frame in answers] == ["Attach", "Detach", "Attach", "Detach"]
    assert answers[0].target is None
    assert answers[2].source is None
    events = pair.tell(*answers, to=pair.client)
    assert kinds(events) == ["LinkDetached", "LinkDetached"]  # never reported as attached
    assert [event.error.condition for event in events] == ["amqp:not-found"] * 2
    pair.carry()
    assert ours.links == theirs.links == {}


def test_2_6_3_the_actual_termini() -> None:
    pair = Pair()
    pair.answers = {"source": amqp10.Source(address="made-1"), "target": None}
    ours, _ = pair.session()
    receiver, _ = pair.receiver(ours)
    assert receiver.source.address == "made-1"


def test_2_6_3_a_dynamic_node() -> None:
    pair = Pair(accept=False)
    ours, _ = pair.session()
    link = ours.receiver("r", amqp10.Source(dynamic=True))
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    assert asked.message.source.dynamic is True
    pair.server.accept(asked, source=amqp10.Source(address="temporary-1", dynamic=True))
    events, _ = pair.carry()
    assert isinstance(events[-1], LinkAttached)
    assert link.source.address == "temporary-1"


def test_2_6_4_attaches_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    mine = ours.sender("x", "q")
    other = theirs.receiver("x", "q")
    events, others = pair.carry()
    assert kinds(events) == kinds(others) == ["LinkAttached"]
    assert mine.state is other.state is LinkState.ATTACHED


def test_2_6_5_detaches_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours)
    sender.detach(closed=False)
    receiver.detach(ERROR)
    (mine,), (other,) = pair.carry()
    assert (mine.by, mine.closed, other.by, other.error) == ("local", True, "local", ERROR)
    assert ours.links == theirs.links == {}


def test_2_6_5_a_detach_before_the_peers_attach() -> None:
    for error in (None, ERROR):
        pair = Pair()
        ours, theirs = pair.session()
        link = ours.sender("x", "q")
        link.detach(error)
        events, _ = pair.carry()
        assert kinds(events) == ["LinkDetached"]
        assert ours.links == theirs.links == {}
        assert pair.sender(ours, name="x")[0].handle == 0


def test_2_6_5_an_attach_is_withdrawn() -> None:
    pair = Pair(accept=False)
    ours, theirs = pair.session()
    link = ours.sender("x", "q")
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    assert pair.server.undecided == 1
    link.detach()
    _, (gone,) = pair.carry()
    assert isinstance(gone, LinkDetached)
    assert pair.server.undecided == 0
    assert theirs.links == {}
    assert pair.server.accept(asked) == []
    assert pair.server.data_to_send() == b""


def test_2_6_5_detach_keeps_the_answers_before_it() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours)
    sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    receiver.detach()
    assert [type(frame).__name__ for frame in frames(pair.server.data_to_send())] == ["Disposition", "Detach"]


def test_2_6_5_transfers_under_way_count_in_the_window_only() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours)
    other, _ = pair.sender(ours, name="2")
    receiver.detach()
    sender.send(message(), settled=True)
    before = theirs.incoming_window
    pair.server.receive(pair.client.data_to_send(), 0.0)
    assert theirs.incoming_window == before - 1
    other.send(message(), settled=True)  # its delivery-id follows that of the dropped one
    _, events = pair.carry()
    assert kinds(events) == ["LinkDetached", "Incoming"] or kinds(events) == ["Incoming", "LinkDetached"]


def late(sessions: tuple[Any, Any], kind: str) -> Any:
    """A performative for handle 0 that the client sends before it knows of the server's detach."""
    ours, _ = sessions
    window = {
        "incoming_window": 9,
        "outgoing_window": 9,
        "next_incoming_id": 0,
        "next_outgoing_id": ours.next_outgoing_id,
    }
    return {
        "attach": amqp10.Attach(name="other", handle=0, role=False, initial_delivery_count=0),
        "flow": amqp10.Flow(handle=0, link_credit=5, delivery_count=0, **window),
        "transfer": amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"0", settled=True),
        "detach": amqp10.Detach(handle=0, closed=True),
    }[kind]


@pytest.mark.parametrize("kind", ["attach", "flow", "transfer"])
def test_2_6_5_input_for_a_link_that_was_detached_with_an_error_ends_the_session(kind: str) -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    receiver = pair.sender(ours)[1]
    receiver.detach(ERROR)
    assert receiver.state is LinkState.ERRORED
    (gone,) = pair.tell(late(sessions, kind))
    detach, end = frames(pair.server.data_to_send())
    assert isinstance(gone, SessionEnded)
    assert (detach.error.condition, end.error.condition) == (ERROR.condition, "amqp:session:errant-link")
    assert theirs.state is SessionState.DISCARDING
    assert pair.server.state is State.OPENED


def test_2_6_5_so_does_input_after_a_violation_of_the_link() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, credit=1)
    transfers = [
        amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=bytes([n]), settled=True, payload=message().encode())
        for n in range(3)
    ]
    incoming, gone, ended = pair.tell(*transfers)
    assert kinds([incoming, gone, ended]) == ["Incoming", "LinkDetached", "SessionEnded"]
    assert (gone.error.condition, ended.error.condition) == (
        "amqp:link:transfer-limit-exceeded",
        "amqp:session:errant-link",
    )


def test_2_6_5_a_disposition_for_a_link_that_was_detached_with_an_error_ends_nothing() -> None:
    """Its range may have deliveries of other links. What has been decided counts until the peer's detach; then it is unknown, and
    skipped, as RabbitMQ and Proton skip what they do not know."""
    pair = Pair()
    ours, theirs = pair.session()
    _, first = pair.receiver(ours, window=5, name="first")
    _, other = pair.receiver(ours, window=5, name="other")
    decided, lost, kept = first.send(message()), first.send(message()), other.send(message())
    first.detach(ERROR)
    accepted: dict[str, Any] = {"role": True, "settled": True, "state": amqp10.Accepted()}
    (event,) = pair.tell(amqp10.Disposition(first=0, **accepted))
    assert event.handle is decided
    (gone,) = pair.tell(amqp10.Detach(handle=0, closed=True))
    assert gone.lost == (lost,)
    (event,) = pair.tell(amqp10.Disposition(first=0, last=2, **accepted))
    assert event.handle is kept
    assert theirs.state is SessionState.MAPPED


def test_2_6_5_the_peers_detach_is_the_answer() -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    _, receiver = pair.sender(ours)
    receiver.detach(ERROR)
    (gone,) = pair.tell(late(sessions, "detach"))
    assert (gone.link, gone.error) == (receiver, ERROR)
    assert theirs.state is SessionState.MAPPED
    assert theirs.links == {}


@pytest.mark.parametrize("error", [None, ERROR], ids=["detached", "detached with an error"])
@pytest.mark.parametrize("kind", ["flow", "transfer", "detach"])
def test_2_6_2_input_on_a_handle_that_both_have_detached(kind: str, error: Any) -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    pair.sender(ours)[1].detach(error)
    pair.carry()
    assert theirs.links == {}
    (gone,) = pair.tell(late(sessions, kind))
    assert gone.error.condition == "amqp:session:unattached-handle"
    (end,) = frames(pair.server.data_to_send())
    assert end.error == gone.error


def test_2_6_4_a_detach_without_an_error_drops_what_was_under_way() -> None:
    pair = Pair()
    sessions = ours, theirs = pair.session()
    pair.sender(ours)[1].detach()
    assert pair.tell(late(sessions, "flow"), late(sessions, "transfer")) == []
    assert theirs.state is SessionState.MAPPED
    (gone,) = pair.tell(late(sessions, "attach"))
    assert gone.error.condition == "amqp:session:handle-in-use"


@pytest.mark.parametrize("kind", ["flow", "transfer"])
def test_2_6_3_what_follows_an_attach_that_is_refused_is_dropped(kind: str) -> None:
    """The peer may send credit after its attach, before it has the answer. The link never had an endpoint that failed."""
    pair = Pair(accept=False)
    sessions = ours, theirs = pair.session()
    ours.sender("x", "q")
    _, (asked,) = pair.carry()
    pair.server.refuse(asked, ERROR)
    assert pair.tell(late(sessions, kind)) == []
    assert theirs.state is SessionState.MAPPED
    pair.tell(late(sessions, "detach"))
    assert theirs.links == {}


# ---- credit


def test_2_6_7_the_formula_with_messages_under_way() -> None:
    pair = Pair()
    ours, _ = pair.session()
    start = (1 << 32) - 2
    sender, receiver = pair.sender(ours, credit=0, initial_delivery_count=start)
    receiver.grant(5)
    pair.carry()
    assert sender.credit == 5
    for _ in range(3):
        sender.send(message(), settled=True)
    assert (sender.delivery_count, sender.credit) == (1, 2)
    receiver.grant(4)  # the receiver has not received the three messages
    flow = pair.server.data_to_send()
    pair.client.receive(flow, 0.0)
    assert sender.credit == 1
    pair.carry()
    assert (receiver.delivery_count, receiver.credit) == (1, 1)
    receiver.grant(0)
    pair.carry()
    assert sender.credit == 0


def test_2_6_7_credit_that_is_taken_back_may_be_negative() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours, credit=5)
    for _ in range(3):
        sender.send(message(), settled=True)
    receiver.grant(1)
    pair.client.receive(pair.server.data_to_send(), 0.0)
    assert sender.credit == -2
    with pytest.raises(LocalProtocolError, match="credit"):
        sender.send(message())
    _, events = pair.carry()
    assert kinds(events) == ["Incoming"] * 3  # the earlier messages are accepted


def test_2_6_7_messages_beyond_the_credit() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    _, _receiver = pair.sender(ours, credit=1)
    transfers = [amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=b"%d" % n, payload=b"") for n in range(2)]
    events = pair.tell(*transfers)
    assert kinds(events) == ["Incoming", "LinkDetached"]
    assert events[1].error.condition == "amqp:link:transfer-limit-exceeded"
    assert events[1].returned == (events[0],)
    assert theirs.state is SessionState.MAPPED
    pair.server.data_to_send()
    pair.server.accept(events[0])  # the host cannot know yet
    assert pair.server.data_to_send() == b""
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.accept(events[0])


def test_2_6_7_the_window_opens_once() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours, credit=0)
    receiver.grant(2)
    (event,), _ = pair.carry()
    assert event == WindowOpened(2, sender)
    receiver.grant(3)
    assert pair.carry()[0] == []
    for _ in range(3):
        sender.send(message(), settled=True)
    pair.carry()
    receiver.grant(1)
    assert pair.carry()[0] == [WindowOpened(1, sender)]


def test_2_6_7_credit_is_renewed_as_deliveries_are_settled() -> None:
    pair = Pair()
    ours, _ = pair.session()
    _receiver, sender = pair.receiver(ours, window=10)
    assert sender.credit == 10
    for _ in range(10):
        sender.send(message())
    events, _ = pair.carry()
    assert sender.credit == 0
    for delivery in events[:4]:
        pair.client.accept(delivery)
    pair.carry()
    assert sender.credit == 4
    for delivery in events[4:]:
        pair.client.accept(delivery)
    pair.carry()
    assert sender.credit == 10
    for _ in range(20):
        sender.send(message(), settled=True)
        pair.carry()
        assert 0 < sender.credit <= 10


def test_2_6_7_drain() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    receiver.grant(5)
    pair.carry()
    receiver.drain()
    with pytest.raises(LocalProtocolError, match="drain"):
        receiver.grant(1)
    _, (asked,) = pair.carry()
    assert asked == DrainRequested(sender, 5)
    sender.send(message(), settled=True)
    sender.drained()
    said = frames(pair.server.data_to_send())
    assert [type(frame).__name__ for frame in said] == ["Transfer", "Flow"]
    assert (said[1].delivery_count, said[1].link_credit, said[1].drain) == (5, 0, True)
    events = pair.tell(*said, to=pair.client)
    assert kinds(events) == ["Incoming", "Drained"]
    assert (receiver.delivery_count, receiver.credit) == (5, 0)
    receiver.grant(2)
    pair.carry()
    assert (sender.credit, sender.draining) == (2, False)


def test_2_6_7_drain_that_comes_before_the_attach_is_answered() -> None:
    pair = Pair(accept=False)
    ours, _ = pair.session()
    receiver = ours.receiver("r", "/queues/q")
    receiver.grant(5)
    receiver.drain()
    _, (attaching,) = pair.carry()
    events = pair.server.accept(attaching)
    assert events == [WindowOpened(5, attaching.link), DrainRequested(attaching.link, 5)]
    attaching.link.drained()
    assert kinds(pair.carry()[0]) == ["LinkAttached", "Drained"]
    assert receiver.credit == 0


def test_2_7_3_keys_of_unsettled_are_delivery_tags() -> None:
    pair = Pair()
    _, theirs = pair.session()
    attach = amqp10.Attach(
        name="l", handle=0, role=False, initial_delivery_count=0, unsettled={"not binary": None}, source=amqp10.Source()
    )
    (ended,) = pair.tell(attach)
    assert isinstance(ended, SessionEnded)
    assert (ended.session, str(checked(ended.error, amqp10.Error).condition)) == (theirs, "amqp:invalid-field")


def test_2_6_7_drain_is_answered_without_credit_too() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    receiver.drain()
    _, events = pair.carry()
    assert of(events, DrainRequested) == [DrainRequested(sender, 0)]
    sender.drained()
    events, _ = pair.carry()
    assert events == [Drained(receiver)]


def test_2_6_7_drained_waits_for_transfers_that_wait() -> None:
    pair = Pair(ConnectionOptions(frame_size=512, incoming_window=1, idle_timeout=None))
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    receiver.grant(5)
    receiver.drain()
    pair.carry()
    sender.send(message(bytes(3000)))
    sender.drained()
    events, _ = pair.carry()
    assert kinds(events) == ["Incoming", "Drained"]


def test_2_7_4_echo_available_and_properties() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours)
    sender.offer(17)
    pair.carry()
    assert receiver.available == 17
    receiver.ask()
    pair.server.receive(pair.client.data_to_send(), 0.0)
    (answer,) = frames(pair.server.data_to_send())
    assert (answer.handle, answer.echo, answer.available) == (0, None, 17)
    ours.ask()
    pair.server.receive(pair.client.data_to_send(), 0.0)
    (answer,) = frames(pair.server.data_to_send())
    assert (answer.handle, answer.echo) == (None, None)
    flow = amqp10.Flow(
        next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=0, handle=0, properties={"x": 1}
    )
    (event,) = pair.tell(flow)
    assert isinstance(event, Flowed)
    assert event.view is sender


def test_2_6_7_available_counts_down_to_zero_with_the_messages_that_come() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, sender = pair.receiver(ours, window=10)
    assert receiver.available is None
    sender.offer(2)
    pair.carry()
    seen: list[int | None] = []
    for _ in range(4):
        sender.send(message(), settled=True)
        pair.carry()
        seen.append(receiver.available)
    assert seen == [1, 0, 0, 0]


def test_2_7_4_a_flow_of_a_session_says_nothing_of_links() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, _ = pair.receiver(ours, window=10)
    receiver.drain()
    pair.carry()
    ours.ask()
    (flow,) = frames(pair.client.data_to_send())
    assert flow.handle is None
    assert [flow.delivery_count, flow.link_credit, flow.available, flow.drain] == [None] * 4
