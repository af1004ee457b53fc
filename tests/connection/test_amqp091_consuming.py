"""AMQP 0.9.1: consumers and their deliveries, and transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lib.amqp091_channel import client_channel, consuming, deliver, frames, names, server_channel, transactional
from lib.amqp091_driven import Pair, method, octets, server_in
from lib.kinds import exactly, only
from wirefmt import amqp091
from wirefmt.amqp091.states import State
from wirefmt.connection import Acknowledged, Disconnected
from wirefmt.errors import LocalProtocolError, RemoteProtocolError

OPTIONS = amqp091.ConnectionOptions


# ---- consuming (1.8.3)


def test_deliveries_together() -> None:
    """The channel delivers as many messages as the window allows, each with its own properties and context."""
    pair, ours, theirs = consuming(prefetch=3)
    bodies = [b"%d" % k for k in range(5)]
    properties = [None, amqp091.BasicProperties(message_id="1"), *[None] * 3]
    assert theirs.deliver_all("c", "e", "q", bodies, properties, redelivered=True, contexts=[*range(5)]) == 3
    got, _ = pair.run()
    assert [message.body_bytes() for message in got] == bodies[:3]
    assert [message.method.delivery_tag for message in got] == [1, 2, 3]
    assert all(message.method.redelivered and message.method.exchange == "e" for message in got)
    assert [message.properties.message_id for message in got] == [None, "1", None]
    with pytest.raises(LocalProtocolError):
        theirs.deliver_all("c", "e", "q", bodies, properties)
    ours.ack(2, multiple=True)
    _, (settled,) = pair.run()
    assert [delivery.context for delivery in settled.deliveries] == [0, 1]
    assert theirs.deliver_all("c", "e", "q", bodies[3:], properties[3:]) == 2
    got, _ = pair.run()
    assert [message.body_bytes() for message in got] == bodies[3:]
    assert not any(message.method.redelivered for message in got)
    wrong: dict[str, Any]
    for wrong in ({"contexts": [1]}, {"properties": []}, {"bodies": ["text"]}):
        with pytest.raises(LocalProtocolError):
            theirs.deliver_all("c", "e", "q", **{"bodies": [b""] * 2, "properties": [None] * 2, **wrong})


def test_deliveries_together_end_at_what_is_queued() -> None:
    pair, _, theirs = consuming(no_ack=True)
    assert theirs.deliver_all("c", "", "q", [bytes(1000)] * 10, [None] * 10, pending_bytes=2500) == 3
    assert pair.server.pending_bytes >= 2500
    large = amqp091.BasicProperties(
        headers={"h": bytes(pair.server.frame_max)}
    )  # a header cannot be split: RabbitMQ sends it
    assert theirs.deliver_all("c", "", "q", [b""] * 3, [None, large, None]) == 3


def test_messages_that_may_be_handled_together() -> None:
    pair = Pair()
    first, _ = pair.channel()
    second, _ = pair.channel()
    for routing_key in ("a", "a", "b"):
        first.publish("", routing_key, b"x")
    second.publish("", "b")
    second.confirm_select()
    for _ in range(3):
        second.publish("", "b")
    first.publish("", "b", mandatory=True)
    _, events = pair.run()
    runs, at = [], 0
    while at < len(events):
        end = pair.server.run_of(events, at)
        runs.append(end - at)
        at = end
    assert runs == [2, 1, 1, 3, 1]
    for wrong in (-1, len(events), 1 << 40):
        with pytest.raises(IndexError):
            pair.server.run_of(events, wrong)
    with pytest.raises(TypeError):
        pair.server.run_of([amqp091.Heartbeat()], 0)
    pair.server.acknowledge(*events[4:7])
    (confirmed,), _ = pair.run()
    assert len(confirmed.handles) == 3
    with pytest.raises(LocalProtocolError):
        pair.server.acknowledge(*events[4:7])
    with pytest.raises(LocalProtocolError):
        pair.server.acknowledge(events[0])


def test_acks_of_one_turn_become_one() -> None:
    pair, ours, theirs = consuming()
    handles = [theirs.deliver("c", "", "q", b"", context=k) for k in range(6)]
    deliveries, _ = pair.run()
    for k in (0, 2, 1, 4):
        ours.ack(deliveries[k].method.delivery_tag)
    said = pair.client.data_to_send()
    assert [(frame.delivery_tag, frame.multiple) for frame in frames(said)] == [(3, True), (5, False)]
    first, second = exactly(pair.server.receive(said, 0.0), amqp091.Settled, amqp091.Settled)
    assert first.deliveries == handles[:3]
    assert [delivery.context for delivery in second.deliveries] == [4]
    ours.ack(0, multiple=True)
    _, (rest,) = pair.run()
    assert rest.deliveries == [handles[3], handles[5]]
    assert ours.ack(0, multiple=True) == []  # allowed without deliveries
    assert not pair.client.data_to_send()


def test_acks_are_written_before_what_follows_them() -> None:
    pair, ours, theirs = consuming()
    theirs.deliver("c", "", "q", b"")
    (delivery,), _ = pair.run()
    ours.ack(delivery.method.delivery_tag)
    ours.close()
    assert names(pair.client.data_to_send()) == ["basic.ack", "channel.close"]


def test_no_delivery_is_acknowledged_twice() -> None:
    pair, ours, theirs = consuming()
    for _ in range(4):
        theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.ack(2)
    for call in (ours.ack, ours.reject, ours.nack):
        with pytest.raises(LocalProtocolError):
            call(2)
        with pytest.raises(LocalProtocolError):
            call(9)
    with pytest.raises(LocalProtocolError):
        ours.ack(2, multiple=True)
    ours.reject(3, requeue=False)
    ours.nack(4, multiple=True)
    _, events = pair.run()
    assert [(event.outcome, [d.tag for d in event.deliveries]) for event in events] == [
        ("ack", [2]),
        ("discard", [3]),
        ("requeue", [1, 4]),
    ]


def test_one_ack_for_many_does_not_include_what_is_given_back() -> None:
    """Of deliveries 1 to 5, 1 and 3 are acknowledged, then 2 is requeued, then 5 and all up to 4 are acknowledged."""
    ways: list[Callable[[amqp091.ClientChannel], object]] = [
        lambda channel: channel.nack(2),
        lambda channel: channel.reject(2),
    ]
    for give_back in ways:
        pair, ours, theirs = consuming()
        for _ in range(5):
            theirs.deliver("c", "", "q", b"")
        pair.run()
        ours.ack(1)
        ours.ack(3)
        give_back(ours)
        ours.ack(5)
        ours.ack(4, multiple=True)
        _, events = pair.run()
        settled = {d.tag: event.outcome for event in events for d in event.deliveries}
        assert settled == {1: "ack", 2: "requeue", 3: "ack", 4: "ack", 5: "ack"}


def test_deliveries_without_acknowledgement_take_numbers() -> None:
    """RabbitMQ: they have delivery tags. Acknowledging one is an error, 406."""
    pair, ours, theirs = consuming(no_ack=True)
    assert theirs.deliver("c", "", "q", b"") is None
    (delivery,), _ = pair.run()
    assert delivery.method.delivery_tag == 1
    with pytest.raises(LocalProtocolError):
        ours.ack(1)
    closed = only(pair.server.receive(octets("basic.ack", delivery_tag=1, multiple=False), 0.0), amqp091.ChannelClosed)
    assert closed.code == 406


def test_prefetch_of_consumers_started_later() -> None:
    """RabbitMQ: without `global` the limit is per consumer. basic.get does not count."""
    pair, ours, theirs = consuming(prefetch=2)
    ours.qos(5)
    pair.run()
    assert theirs.credit("c") == 2
    for _ in range(2):
        theirs.deliver("c", "", "q", b"")
    assert theirs.credit("c") == 0
    with pytest.raises(LocalProtocolError):
        theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.get("q")
    _, (get,) = pair.run()
    theirs.get_ok(get, "", "q", b"")
    pair.run()
    ours.ack(1)
    pair.run()
    assert theirs.credit("c") == 1


def test_prefetch_shared_by_a_channel() -> None:
    pair, ours, theirs = consuming(prefetch=3, shared=True)
    ours.consume("q", "d")
    _, (consume,) = pair.run()
    pair.server.reply(consume)
    theirs.deliver("c", "", "q", b"")
    theirs.deliver("d", "", "q", b"")
    assert (theirs.credit("c"), theirs.credit("d")) == (1, 1)
    theirs.deliver("d", "", "q", b"")
    assert (theirs.credit("c"), theirs.credit("d")) == (0, 0)
    ours.qos(0, shared=True)
    pair.run()
    assert theirs.credit("c") > 1000


def test_recover() -> None:
    """RabbitMQ: recover-ok, then the messages are delivered again. The old tags are invalid."""
    pair, ours, theirs = consuming()
    handles = [theirs.deliver("c", "", "q", b"") for _ in range(3)]
    pair.run()
    call = ours.recover()
    theirs.deliver("c", "", "q", b"")  # sent before the server receives recover
    _, (settled,) = pair.run()
    assert settled.outcome == "requeue"
    assert settled.deliveries[:3] == handles
    with pytest.raises(LocalProtocolError):
        ours.ack(1)
    assert ours.unacknowledged == 0
    theirs.deliver("c", "", "q", b"", redelivered=True)
    (again,), _ = pair.run()
    assert again.method.redelivered
    ours.ack(again.method.delivery_tag)
    _, (acked,) = pair.run()
    assert acked.outcome == "ack"
    assert call.message.name == "basic.recover"


def test_cancel_by_the_client() -> None:
    """RabbitMQ: cancel-ok also for an unknown consumer. Deliveries before cancel-ok are valid."""
    pair, ours, theirs = consuming()
    theirs.deliver("c", "", "q", b"")
    call = ours.cancel("c")
    _, (event,) = pair.run()
    assert event.consumer_tag == "c"
    assert not theirs.consumers
    assert not ours.consumers
    ours.ack(1)
    _, (settled,) = pair.run()
    assert len(settled.deliveries) == 1
    again = ours.cancel("c")
    (answer,), events = pair.run()
    assert (answer.handle, events) == (again, [])
    assert call is not again
    with pytest.raises(LocalProtocolError):
        theirs.deliver("c", "", "q", b"")


def test_deliveries_pending_after_a_cancel_without_reply() -> None:
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    channel.cancel("c", nowait=True)
    (delivery,) = client.receive(deliver(1), 0.0)
    channel.nack(delivery.method.delivery_tag)


def test_cancel_by_the_server() -> None:
    """RabbitMQ: it is sent only with consumer_cancel_notify, with nowait. It has no answer."""
    pair, ours, theirs = consuming()
    theirs.cancel("c")
    (cancel,), _ = pair.run()
    assert isinstance(cancel, amqp091.BasicCancel)
    assert cancel.nowait
    assert not ours.consumers
    assert not pair.client.data_to_send()
    plain = server_in(State.OPEN, capable=False)
    plain.receive(octets("channel.open"), 0.0)
    (consume,) = plain.receive(octets("basic.consume"), 0.0)
    plain.reply(consume)
    plain.data_to_send()
    plain.channels[1].cancel("c")
    assert not plain.data_to_send()


def test_a_consumer_tag_used_twice() -> None:
    server, _channel = server_channel()
    (first,) = server.receive(octets("basic.consume"), 0.0)
    server.reply(first)
    gone = only(server.receive(octets("basic.consume"), 0.0), Disconnected)
    assert gone.code == 530


def test_a_delivery_for_a_consumer_that_is_not_there() -> None:
    client, _channel = client_channel()
    (gone,) = client.receive(deliver(1), 0.0)
    assert isinstance(gone.error, RemoteProtocolError)


def test_tags_of_deliveries_rise() -> None:
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    gone = client.receive(deliver(2) + deliver(2), 0.0)[-1]
    assert isinstance(gone.error, RemoteProtocolError)


@pytest.mark.parametrize("nowait", [False, True])
def test_a_cancel_that_follows_its_consume_at_once(nowait: bool) -> None:
    """4.7: methods of a channel take effect in their order, also if the host decides late about the first one."""
    server, channel = server_channel()
    consume = octets("basic.consume", queue="q", consumer_tag="c", nowait=nowait)
    cancel = octets("basic.cancel", consumer_tag="c")
    events = server.receive(consume + cancel + consume + cancel, 0.0)
    assert server.data_to_send() == b""
    begun = [] if nowait else ["basic.consume-ok"]
    for rest in ([amqp091.BasicConsume], []):
        cancelled, *events = server.reply(events[0])
        assert type(cancelled) is amqp091.BasicCancel
        assert [type(event) for event in events] == rest
        assert names(server.data_to_send()) == [*begun, "basic.cancel-ok"]
        assert not channel.consumers
    with pytest.raises(LocalProtocolError):
        channel.deliver("c", "", "q")
    (third,) = server.receive(consume, 0.0)
    assert server.reply(third) == []
    assert list(channel.consumers) == ["c"]


# ---- transactions (1.9)


def test_acknowledgements_wait_for_commit() -> None:
    pair, ours, theirs = transactional()
    handle = theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.ack(1)
    assert pair.run()[1] == []
    ours.call(amqp091.TxCommit)
    _, (settled, commit) = pair.run()
    assert settled.deliveries == [handle]
    pair.server.reply(commit)
    (done,), _ = pair.run()
    assert isinstance(done, Acknowledged)


def test_rollback_undoes_acknowledgements() -> None:
    """RabbitMQ: the deliveries stay unacknowledged."""
    pair, ours, theirs = transactional()
    for _ in range(3):
        theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.ack(2)
    ours.call(amqp091.TxRollback)
    _, (rollback,) = pair.run()
    assert isinstance(rollback, amqp091.TxRollback)
    assert theirs.unacknowledged == 3
    (settled, _) = exactly(
        pair.server.receive(octets("basic.ack", delivery_tag=0) + octets("tx.commit"), 0.0),
        amqp091.Settled,
        amqp091.TxCommit,
    )
    assert [delivery.tag for delivery in settled.deliveries] == [1, 2, 3]


def test_the_host_learns_where_a_transaction_begins() -> None:
    """1.9.2.1: messages before tx.select in the same bytes are not part of the transaction."""
    pair = Pair()
    ours, _ = pair.channel()
    ours.publish("", "q", b"before")
    ours.call(amqp091.TxSelect)
    ours.publish("", "q", b"after")
    _, (before, select, after) = pair.run()
    assert [before.body_bytes(), type(select), after.body_bytes()] == [b"before", amqp091.TxSelect, b"after"]


def test_commit_is_refused_without_select() -> None:
    _client, channel = client_channel()
    for name in ("tx.commit", "tx.rollback"):
        with pytest.raises(LocalProtocolError):
            channel.send(method(name))
    channel.confirm_select()
    with pytest.raises(LocalProtocolError):
        channel.call(amqp091.TxSelect)


def test_tags_of_direct_replies_repeat() -> None:
    """RabbitMQ gives a reply of amq.rabbitmq.reply-to the tag of the channel's next delivery, which does not count as used."""
    client, channel = client_channel()
    channel.consume("amq.rabbitmq.reply-to", "c", no_ack=True, nowait=True)
    channel.consume("q", "d", nowait=True)
    stream = deliver(1) + deliver(1) + deliver(1, consumer="d") + deliver(2) + deliver(2, consumer="d")
    assert [event.method.delivery_tag for event in client.receive(stream, 0.0)] == [1, 1, 1, 2, 2]
    assert channel.unacknowledged == 2
    (ended,) = client.receive(deliver(2, consumer="d"), 0.0)
    assert "tags rise" in ended.reason
