"""Statements of AMQP 1.0, parts 2 and 3, on transfers, settlement and resuming (2.6.11 to 2.7.7, 3.4).

Test names begin with the section.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from lib.amqp10_pair import ERROR, Pair, frames, kinds, message, of
from wirefmt import amqp10
from wirefmt.amqp10 import (
    Aborted,
    Attaching,
    ConnectionOptions,
    Incoming,
    LinkDetached,
    LinkState,
    Part,
    SessionEnded,
    Settled,
    Terminus,
    Updated,
)
from wirefmt.connection import Acknowledged
from wirefmt.errors import LocalProtocolError

# ---- transfers


def test_2_6_12_delivery_ids_follow_each_other_over_all_links() -> None:
    pair = Pair()
    ours, _ = pair.session(next_outgoing_id=(1 << 32) - 2)
    links = [pair.sender(ours, name=str(n))[0] for n in range(2)]
    ids = [links[n % 2].send(message()).delivery_id for n in range(4)]
    assert ids == [(1 << 32) - 2, (1 << 32) - 1, 0, 1]
    _, events = pair.carry()
    assert kinds(events) == ["Incoming"] * 4


@pytest.mark.parametrize(
    ("second", "condition"),
    [
        ({"delivery_id": 2, "delivery_tag": b"b"}, "amqp:invalid-field"),
        ({"delivery_id": 0, "delivery_tag": b"b"}, "amqp:invalid-field"),
        ({"delivery_id": 1}, "amqp:invalid-field"),
        ({"delivery_tag": b"b"}, "amqp:invalid-field"),
    ],
)
def test_2_7_5_first_transfers(second: dict[str, Any], condition: str) -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"a", payload=b"")
    events = pair.tell(first, amqp10.Transfer(handle=0, payload=b"", **second))
    assert events[-1].error.condition == condition
    assert isinstance(events[-1], SessionEnded)


def test_2_7_5_a_tag_is_unique_among_the_unsettled() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message(), delivery_tag=b"x")
    with pytest.raises(LocalProtocolError, match="unique"):
        sender.send(message(), delivery_tag=b"x")
    with pytest.raises(LocalProtocolError, match="32"):
        sender.send(message(), delivery_tag=bytes(33))
    _, (delivery,) = pair.carry()
    repeated = amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"x", payload=b"")
    (gone,) = pair.tell(repeated)
    assert gone.error.condition == "amqp:not-allowed"
    assert gone.returned == (delivery,)


def test_2_7_5_an_aborted_delivery() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, receiver = pair.sender(ours, credit=2)
    handle = sender.send(b"\0Su\xa0\x04ab", more=True)
    with pytest.raises(LocalProtocolError, match="part"):
        sender.send(message())
    sender.send_more(handle, b"c", more=True)
    sender.abort(handle)
    _, (event,) = pair.carry()
    assert isinstance(event, Aborted)
    assert (receiver.credit, receiver.unsettled, sender.unsettled) == (1, {}, {})
    assert pair.server.unfinished == 0
    sender.send(message())
    _, events = pair.carry()
    assert kinds(events) == ["Incoming"]


def test_2_7_5_parts_belong_together() -> None:
    for more in ({"delivery_id": 1}, {"delivery_tag": b"y"}):
        pair = Pair()
        ours, _ = pair.session()
        pair.sender(ours)
        first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=True, payload=b"a")
        (gone,) = pair.tell(first, amqp10.Transfer(handle=0, payload=b"b", **more))
        assert gone.error.condition == "amqp:invalid-field"


def test_2_6_14_parts_of_several_links_may_mix() -> None:
    pair = Pair()
    ours, _ = pair.session()
    first, _ = pair.sender(ours, name="1")
    second, _ = pair.sender(ours, name="2")
    octets = message(b"0123456789").encode()
    handles = [first.send(octets[:5], more=True), second.send(octets[:7], more=True)]
    first.send_more(handles[0], octets[5:], more=False)
    second.send_more(handles[1], octets[7:], more=False)
    _, events = pair.carry()
    assert [delivery.message for delivery in events] == [message(b"0123456789")] * 2
    assert [delivery.link.name for delivery in events] == ["1", "2"]


def test_2_6_14_a_message_in_parts_as_they_come() -> None:
    pair = Pair(ConnectionOptions(frame_size=512, idle_timeout=None))
    ours, _ = pair.session()
    _receiver, sender = pair.receiver(ours, window=5, streamed=True)
    sender.send(message(bytes(2000)))
    events, _ = pair.carry()
    parts = of(events, Part)
    assert len(parts) > 3
    assert b"".join(part.payload for part in parts) == message(bytes(2000)).encode()
    delivery = events[-1]
    assert isinstance(delivery, Incoming)
    assert bytes(delivery.payload) == b""
    assert pair.client.unfinished == 0
    pair.client.accept(delivery)
    assert of(pair.carry()[1], Acknowledged)


def test_2_7_5_settled_on_any_transfer_counts() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    frames_ = [
        amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=True, payload=b"\0Su"),
        amqp10.Transfer(handle=0, settled=True, payload=b"\xa0\x00"),
    ]
    (delivery,) = pair.tell(*frames_)
    assert delivery.settled
    pair.server.accept(delivery)
    assert pair.server.data_to_send() == b""


def test_2_7_5_no_part_of_a_delivery_settles_it_and_the_mode_is_settled() -> None:
    """With snd-settle-mode settled, at least one transfer of each delivery is settled."""
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, snd_settle_mode=1)
    first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", more=True, payload=b"\0Su")
    assert pair.tell(first) == []
    (gone,) = pair.tell(amqp10.Transfer(handle=0, payload=b"\xa0\x00"))
    assert isinstance(gone, LinkDetached)
    assert gone.error is not None
    assert gone.error.condition == "amqp:not-allowed"


def test_2_7_5_a_resumed_delivery_that_is_not_known_is_ignored_with_all_its_parts() -> None:
    pair = Pair()
    ours, _ = pair.session()
    _, receiver = pair.sender(ours)
    parts = [
        amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", resume=True, more=True, payload=b"\0Su"),
        amqp10.Transfer(handle=0, more=True, payload=b"\xa0"),
        amqp10.Transfer(handle=0, payload=b"\x00"),
    ]
    assert pair.tell(*parts) == []
    assert (receiver.unsettled, receiver.credit, pair.server.unfinished) == ({}, 99, 0)
    (delivery,) = pair.tell(
        amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"y", payload=message().encode()),
    )
    assert delivery.message == message()


def test_2_7_3_max_message_size() -> None:
    pair = Pair(ConnectionOptions(), ConnectionOptions(message_size=1000, frame_size=512, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    assert sender.max_message_size == 1000
    with pytest.raises(LocalProtocolError, match="1000"):
        sender.send(message(bytes(1001)))
    assert sender.credit == 100
    sender.send(message(bytes(900)))
    pair.carry()
    sender.max_message_size = 0  # as in a peer without the limit
    sender.send(message(bytes(1200)))
    _, (gone,) = pair.carry()
    assert gone.error.condition == "amqp:link:message-size-exceeded"
    assert pair.server.unfinished == 0


# ---- settlement


def test_2_8_2_sender_settle_modes() -> None:
    pair = Pair()
    ours, _ = pair.session()
    settled, _ = pair.sender(ours, name="s", snd_settle_mode=1)
    unsettled, _ = pair.sender(ours, name="u", snd_settle_mode=0)
    assert settled.send(message()).settled
    assert not unsettled.send(message()).settled
    with pytest.raises(LocalProtocolError, match="settled"):
        settled.send(message(), settled=False)
    with pytest.raises(LocalProtocolError, match="unsettled"):
        unsettled.send(message(), settled=True)
    _, events = pair.carry()
    assert [delivery.settled for delivery in events] == [True, False]


@pytest.mark.parametrize(("mode", "wrong"), [(0, True), (1, False)])
def test_2_8_2_a_transfer_against_the_mode(mode: int, wrong: bool) -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, snd_settle_mode=mode)
    (gone,) = pair.tell(amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", settled=wrong, payload=b""))
    assert gone.error.condition == "amqp:not-allowed"


def test_2_6_12_at_least_once() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours)
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    (disposition,) = frames(pair.server.data_to_send())
    assert (disposition.role, disposition.settled, disposition.state) == (True, True, amqp10.Accepted())
    (event,) = pair.tell(disposition, to=pair.client)
    assert event == Acknowledged(handle, amqp10.Accepted(), 0)
    assert pair.client.data_to_send() == b""
    assert (sender.unsettled, receiver.unsettled, ours.outgoing.records, theirs.incoming.records) == ({}, {}, {}, {})
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.accept(delivery)


def test_2_6_12_exactly_once() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, receiver = pair.sender(ours, rcv_settle_mode=1)
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    (first,) = frames(pair.server.data_to_send())
    assert (first.role, first.settled, first.state) == (True, False, amqp10.Accepted())
    assert receiver.unsettled
    (event,) = pair.tell(first, to=pair.client)
    assert (event.handle, event.code) == (handle, 0)
    (second,) = frames(pair.client.data_to_send())
    assert (second.role, second.first, second.settled) == (False, 0, True)
    (done,) = pair.tell(second)
    assert isinstance(done, Settled)
    assert (done.delivery, done.state) == (delivery, amqp10.Accepted())
    assert pair.server.data_to_send() == b""
    assert (receiver.unsettled, theirs.incoming.records) == ({}, {})


def test_2_7_5_the_mode_of_one_delivery() -> None:
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours, rcv_settle_mode=1)
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", rcv_settle_mode=0, payload=b"")
    (delivery,) = pair.tell(transfer)
    pair.server.accept(delivery)
    assert frames(pair.server.data_to_send())[0].settled is True
    pair = Pair()
    ours, _ = pair.session()
    pair.sender(ours)
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"x", rcv_settle_mode=1, payload=b"")
    (gone,) = pair.tell(transfer)
    assert gone.error.condition == "amqp:invalid-field"


def test_2_6_12_the_sender_settles_what_the_receiver_has_only_decided() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)  # receiver-settle-mode first
    handle = sender.send(message())
    answer = amqp10.Disposition(role=True, first=0, settled=False, state=amqp10.Released())
    (event,) = pair.tell(answer, to=pair.client)
    assert (event.handle, event.code) == (handle, 0x26)
    (settling,) = frames(pair.client.data_to_send()[-0:])[-1:]
    assert (settling.role, settling.settled) == (False, True)


def test_3_4_all_outcomes() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handles = [sender.send(message()) for _ in range(5)]
    _, deliveries = pair.carry()
    server = pair.server
    server.accept(deliveries[0])
    server.reject(deliveries[1], ERROR)
    server.release(deliveries[2])
    server.modify(deliveries[3], delivery_failed=True, message_annotations={"x-a": 1})
    server.settle(deliveries[4], None, settled=True)
    events, _ = pair.carry()
    assert [event.handle for event in events] == handles
    assert [event.code for event in events] == [0, 0x25, 0x26, 0x27, 0]
    assert events[1].message.error == ERROR
    assert events[3].message.delivery_failed is True
    assert events[4].message is None


def test_3_4_1_received_is_no_outcome() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handle = sender.send(message())
    state = amqp10.Received(section_number=0, section_offset=3)
    (event,) = pair.tell(amqp10.Disposition(role=True, first=0, state=state), to=pair.client)
    assert isinstance(event, Updated)
    assert (list(event.handles), event.state, handle.state) == ([handle], state, state)
    assert not handle.settled
    assert sender.unsettled


def test_2_7_6_a_turns_answers_are_merged() -> None:
    pair = Pair()
    ours, _ = pair.session(next_outgoing_id=(1 << 32) - 3)
    links = [pair.sender(ours, name=str(n))[0] for n in range(2)]
    for n in range(10):
        links[n % 2].send(message())
    _, deliveries = pair.carry()
    order = list(deliveries)
    random.Random(1).shuffle(order)
    for delivery in order:
        n = deliveries.index(delivery)
        pair.server.release(delivery) if n == 6 else pair.server.accept(delivery)
    said = frames(pair.server.data_to_send())
    top = 1 << 32
    assert [(d.first, d.last, type(d.state).__name__) for d in said] == [
        (top - 3, 2, "Accepted"),
        (3, None, "Released"),
        (4, 6, "Accepted"),
    ]


def test_2_7_6_ranges_name_what_is_not_there() -> None:
    pair = Pair()
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    handles = [sender.send(message()) for _ in range(3)]
    everything = amqp10.Disposition(role=True, first=0, last=(1 << 31) - 1, settled=True, state=amqp10.Accepted())
    events = pair.tell(everything, to=pair.client)
    assert [event.handle for event in events] == handles
    assert pair.tell(everything, to=pair.client) == []
    backwards = amqp10.Disposition(role=True, first=5, last=4, settled=True)
    (gone,) = pair.tell(backwards, to=pair.client)
    assert isinstance(gone, SessionEnded)


def test_2_6_12_the_sender_may_settle_unasked() -> None:
    pair = Pair()
    ours, theirs = pair.session()
    sender, _ = pair.sender(ours)
    sender.send(message())
    _, (delivery,) = pair.carry()
    (event,) = pair.tell(amqp10.Disposition(role=False, first=0, settled=True))
    assert event.delivery is delivery
    assert theirs.incoming.records == {}
    pair.server.accept(delivery)
    assert pair.server.data_to_send() == b""
    with pytest.raises(LocalProtocolError, match="answered"):
        pair.server.accept(delivery)


# ---- resuming


def resumable(rcv_settle_mode: int = 0) -> tuple[Pair, Any, Any, Any, Any]:
    """A pair with a link. Both ends have a Terminus."""
    pair = Pair()
    ours, _ = pair.session()
    outgoing, incoming = Terminus("l", "sender"), Terminus("l", "receiver")
    pair.answers = {"terminus": incoming}
    sender, receiver = pair.sender(ours, terminus=outgoing, rcv_settle_mode=rcv_settle_mode)
    return pair, sender, receiver, outgoing, incoming


def again(
    outgoing: Terminus, incoming: Terminus, rcv_settle_mode: int = 0
) -> tuple[Pair, Any, Any, list[Any], list[Any]]:
    """A new connection on which the link is resumed."""
    pair = Pair(accept=False)
    ours, _ = pair.session(next_outgoing_id=100)
    sender = ours.sender("l", "q", terminus=outgoing, rcv_settle_mode=rcv_settle_mode)
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    theirs = pair.server.accept(asked, terminus=incoming)
    asked.link.grant(100)
    mine, more = pair.carry()
    return pair, sender, asked.link, mine, theirs + more


def cut(pair: Pair) -> tuple[list[Any], list[Any]]:
    """Break the connection. The bytes between client and server are lost."""
    pair.client.data_to_send()
    pair.server.data_to_send()
    return pair.client.receive_eof(1.0), pair.server.receive_eof(1.0)


def test_2_6_13_a_new_link_has_no_unsettled_map_and_a_resumed_one_has() -> None:
    pair, _, _, outgoing, incoming = resumable()
    attaches = [f for data in (*pair.said, *pair.answered) for f in frames(data) if isinstance(f, amqp10.Attach)]
    assert attaches[0].unsettled is None
    cut(pair)
    pair, *_ = again(outgoing, incoming)
    attaches = [f for data in (*pair.said, *pair.answered) for f in frames(data) if isinstance(f, amqp10.Attach)]
    assert [attach.unsettled for attach in attaches] == [amqp10.Map(), amqp10.Map()]


def test_2_6_13_what_never_arrived_is_sent_again() -> None:
    pair, sender, _, outgoing, incoming = resumable()
    handles = [sender.send(message(b"%d" % n)) for n in range(3)]
    (gone,), _ = cut(pair)
    assert gone.resumable == tuple(handles)
    assert gone.lost == ()
    pair, sender, _, _, events = again(outgoing, incoming)
    deliveries = of(events, Incoming)
    assert [delivery.message for delivery in deliveries] == [message(b"%d" % n) for n in range(3)]
    assert not any(delivery.transfer.resume for delivery in deliveries)
    for delivery in deliveries:
        pair.server.accept(delivery)
    mine, _ = pair.carry()
    assert [event.handle for event in of(mine, Acknowledged)] == handles
    assert outgoing.outgoing == incoming.incoming == {}


def test_2_6_13_what_the_host_still_has_goes_on_without_coming_again() -> None:
    pair, sender, _, outgoing, incoming = resumable()
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    _, (_gone,) = cut(pair)
    pair, sender, _, _, events = again(outgoing, incoming)
    assert of(events, Incoming) == []
    pair.server.accept(delivery)
    mine, _ = pair.carry()
    assert of(mine, Acknowledged)[0].handle is handle
    assert outgoing.outgoing == incoming.incoming == {}


@pytest.mark.parametrize("arrives", [True, False])
def test_2_6_13_exactly_once_over_a_break(arrives: bool) -> None:
    """The receiver has decided. The connection breaks before or after the sender receives the outcome."""
    pair, sender, _, outgoing, incoming = resumable(rcv_settle_mode=1)
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    pair.server.accept(delivery)
    if arrives:
        events = pair.client.receive(pair.server.data_to_send(), 0.0)
        assert of(events, Acknowledged)[0].handle is handle  # the answer of the client is lost
    cut(pair)
    assert incoming.incoming == {delivery.delivery_tag: amqp10.Accepted()}
    pair, sender, receiver, mine, theirs = again(outgoing, incoming, rcv_settle_mode=1)
    assert of(theirs, Incoming) == []
    assert [event.delivery_tag for event in of(theirs, Settled)] == [delivery.delivery_tag]
    assert [event.handle for event in of(mine, Acknowledged)] == ([] if arrives else [handle])
    assert outgoing.outgoing == incoming.incoming == receiver.unsettled == sender.unsettled == {}


def test_2_6_13_only_the_receiver_has_it() -> None:
    outgoing, incoming = Terminus("l", "sender", established=True), Terminus("l", "receiver", established=True)
    incoming.incoming[b"x"] = amqp10.Accepted()
    _, _, _, _, theirs = again(outgoing, incoming)
    (event,) = of(theirs, Settled)
    assert (event.delivery, event.delivery_tag, event.state) == (None, b"x", amqp10.Accepted())
    assert incoming.incoming == {}


def test_2_6_13_a_message_goes_on_where_the_receiver_has_stopped() -> None:
    pair, sender, _, outgoing, _ = resumable()
    sent = amqp10.Message(properties=amqp10.Properties(message_id="m"), body=b"0123456789")
    sender.send(sent)
    cut(pair)
    server = Pair(accept=False)
    session, _ = server.session()
    sender = session.sender("l", "q", terminus=outgoing)
    _, events = server.carry()
    (asked,) = of(events, Attaching)
    state = amqp10.Received(section_number=1, section_offset=9)  # the properties, and nine bytes of the body's section
    server.answers = {}
    answer = amqp10.Attach(
        name="l",
        handle=0,
        role=True,
        target=amqp10.Target(address="q"),
        unsettled={b"\0\0\0\0": state},
    )
    flow = amqp10.Flow(
        next_incoming_id=0,
        incoming_window=9,
        next_outgoing_id=0,
        outgoing_window=0,
        handle=0,
        delivery_count=0,
        link_credit=5,
    )
    server.tell(answer, flow, to=server.client)
    (transfer,) = frames(server.client.data_to_send())
    assert transfer.resume is True
    assert transfer.payload_bytes() == b"456789"  # 5 bytes before the body, then "0123"
    assert asked.link.state is LinkState.ATTACH_RCVD


def test_2_6_13_a_terminus_is_a_value() -> None:
    pair, sender, _, outgoing, incoming = resumable(rcv_settle_mode=1)
    for n in range(3):
        sender.send(message(b"%d" % n))
    _, deliveries = pair.carry()
    pair.server.accept(deliveries[0])
    for terminus in (outgoing, incoming):
        made = Terminus.restore(terminus.snapshot())
        assert made.snapshot() == terminus.snapshot()
        assert (made.name, made.role, made.established) == (terminus.name, terminus.role, True)
    outgoing, incoming = Terminus.restore(outgoing.snapshot()), Terminus.restore(incoming.snapshot())
    cut(pair)
    pair, _, _, mine, theirs = again(outgoing, incoming, rcv_settle_mode=1)
    # after a crash the host has no deliveries: those without an outcome are sent again
    assert [delivery.message for delivery in of(theirs, Incoming)] == [message(b"1"), message(b"2")]
    assert len(of(mine, Acknowledged)) == 1


def test_2_6_13_a_journal_has_the_same_as_a_snapshot() -> None:
    options = ConnectionOptions(idle_timeout=None, journaled=True)
    pair = Pair(options, options)
    ours, _ = pair.session()
    outgoing, incoming = Terminus("l", "sender"), Terminus("l", "receiver")
    pair.answers = {"terminus": incoming}
    sender, _ = pair.sender(ours, terminus=outgoing, rcv_settle_mode=1)
    logs: dict[str, list[Any]] = {"sender": [], "receiver": []}

    def keep() -> None:
        logs["sender"] += pair.client.changes()
        logs["receiver"] += pair.server.changes()

    for n in range(4):
        sender.send(message(b"%d" % n))
        keep()
    _, deliveries = pair.carry()
    keep()
    for delivery in deliveries[1:3]:
        pair.server.accept(delivery)
        keep()
    pair.client.receive(pair.server.data_to_send(), 0.0)
    keep()
    for terminus in (outgoing, incoming):
        made = Terminus.replay("l", terminus.role, logs[terminus.role])
        assert made.snapshot() == Terminus.restore(terminus.snapshot()).snapshot()
    assert pair.client.changes() == []


def test_2_6_13_a_closed_link_forgets() -> None:
    pair, sender, receiver, outgoing, incoming = resumable()
    handle = sender.send(message())
    _, (delivery,) = pair.carry()
    receiver.detach()
    (mine,), (theirs,) = pair.carry()
    assert mine.lost == (handle,)
    assert theirs.returned == (delivery,)
    assert outgoing.outgoing == incoming.incoming == {}
    assert not outgoing.established


def test_2_7_3_an_unsettled_map_that_does_not_fit() -> None:
    outgoing = Terminus("l", "sender", established=True)
    _pair, sender, _, _, _ = resumable()
    for n in range(40):
        sender.send(message(b"%d" % n), delivery_tag=b"%032d" % n)
    outgoing = Terminus.restore(sender.terminus.snapshot())
    small = Pair(server=ConnectionOptions(frame_size=512, idle_timeout=None), accept=False)
    ours, _ = small.session()
    link = ours.sender("l", "q", terminus=outgoing)
    (attach,) = frames(small.client.data_to_send())
    assert len(attach.encode()) <= 512
    assert attach.incomplete_unsettled is True
    assert 0 < len(attach.unsettled) < 40
    assert link.incomplete
    small.tell(attach)


def test_2_7_3_after_an_incomplete_map_only_resumed_deliveries_may_come() -> None:
    """The receiver, which has sent the map, detaches with an error."""
    incoming = Terminus("l", "receiver", established=True)
    for n in range(40):
        incoming.incoming[b"%032d" % n] = None
    pair = Pair(ConnectionOptions(frame_size=512, idle_timeout=None), accept=False)
    pair.session()
    source, target = amqp10.Source(address="q"), amqp10.Target(address="q")
    attach = amqp10.Attach(
        name="l", handle=0, role=False, initial_delivery_count=0, unsettled={}, source=source, target=target
    )
    (attaching,) = pair.tell(attach)
    pair.server.accept(attaching, terminus=incoming)
    attaching.link.grant(5)
    answer = frames(pair.server.data_to_send())[0]
    assert answer.incomplete_unsettled is True
    (gone,) = pair.tell(amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"new", payload=message().encode()))
    assert isinstance(gone, LinkDetached)
    assert gone.error is not None
    assert gone.error.condition == "amqp:not-allowed"
