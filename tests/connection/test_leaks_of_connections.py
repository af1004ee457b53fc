"""Connections give back what they hold: memory, messages that wait for their turn, answers that were written for them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lib import amqp10_pair
from lib.amqp091_driven import Pair
from lib.heap import heap
from lib.kinds import only
from wirefmt import amqp091, mqtt
from wirefmt.connection.outbox import Outbox
from wirefmt.mqtt import ServerConnection

ROUNDS = 30


def held() -> tuple[int, int]:
    """Bytes of C and blocks of Python that are in use."""
    return heap(), sys.getallocatedblocks()


def publish(identifier: int, qos: int) -> bytes:
    return mqtt.Publish(topic_name="a/b", payload=b"!" * 50, qos=qos, packet_identifier=identifier).encode()


def queued() -> None:
    """More than an outbox keeps space for, and what an outbox holds when it goes."""
    outbox = Outbox()
    for _ in range(200):
        outbox.put(b"x" * 1000)
    assert len(outbox.take()) == 200_000
    outbox.put(b"x" * 1000)


def arrived(qos: int, answered: int) -> None:
    """Messages whose answers, the last one first, have a code and a property; the connection ends before all have one."""
    server = ServerConnection(0.0)
    connect = only(server.receive(mqtt.Connect(client_identifier="c", clean_start=True).encode(), 0.0), mqtt.Connect)
    server.accept(connect)
    server.data_to_send()
    events: list[Any] = server.receive(b"".join(publish(i, qos) for i in range(1, 41)), 0.0)
    messages = [event for event in events if isinstance(event, mqtt.Publish)]
    assert len(messages) == 40
    for message in messages[::-1][:answered]:
        server.acknowledge(message, 0x10, [("reason_string", "no subscribers")])
    assert bool(server.data_to_send()) == (answered == 40)


def channels(by: str) -> Callable[[], None]:
    """Opens five channels of a connection that goes on, leaves calls, publishes, consumers and deliveries open on them, and has
    them closed by one side, or by both at a time."""
    pair = Pair(amqp091.ConnectionOptions(channel_max=8))

    def call() -> None:
        for _ in range(5):
            ours, theirs = pair.channel()
            ours.confirm_select()
            ours.consume("q", "c")
            _, (consume,) = pair.run()
            pair.server.reply(consume)
            pair.run()
            for _ in range(3):
                theirs.deliver("c", "", "q", b"body")
                ours.publish("", "q", b"body", mandatory=True)
            ours.get("q")
            events, requests = pair.run()
            ours.ack(events[0].method.delivery_tag)  # its ack is noted, and the channel closed before it is written
            pair.server.acknowledge(requests[0])
            if by != "server":
                ours.close()
            if by != "client":
                theirs.close(404, "gone")
            pair.run()
            pair.server.reply(
                requests[-1]
            )  # the client's close has arrived behind this request, and waits for its answer
            pair.run()
        for end in (pair.client, pair.server):
            assert (end.channels, end.undecided, end.pending_bytes, end._marked) == ({}, 0, 0, [])
        for publication in list(pair.client._session.outgoing.values()):
            pair.client._session.forget(publication)  # they are the host's to send again or to drop

    return call


def many_acknowledged() -> Callable[[], None]:
    """Acknowledges, from the last to the first, so many deliveries that the memory of their numbers is not kept."""
    deliveries = 3000

    def call() -> None:
        pair = Pair(amqp091.ConnectionOptions(channel_max=8))
        ours, theirs = pair.channel()
        ours.qos(prefetch_count=deliveries)
        ours.consume("q", "c")
        _, requests = pair.run()
        pair.server.reply(requests[-1])
        pair.run()
        for _ in range(deliveries):
            theirs.deliver("c", "", "q", b"")
        events, _ = pair.run()
        for event in reversed(events[1:]):  # the first one stays, so that each of the others has an ack of its own
            ours.ack(event.method.delivery_tag)
        pair.run()
        assert (ours.unacknowledged, theirs.unacknowledged) == (1, 1)

    return call


def links(by: str) -> Callable[[], None]:
    """Attaches ten links in a connection of AMQP 1.0 that goes on, leaves credit and deliveries open on them, and has them
    closed by one side, or by both, or with their session."""
    pair = amqp10_pair.Pair()

    def call() -> None:
        ours, theirs = pair.session()
        for n in range(5):
            sender, receiver = pair.sender(ours, name=f"s{n}")
            back, forth = pair.receiver(ours, window=5, name=f"r{n}")
            for _ in range(3):
                sender.send(b"body")
                forth.send(b"body")
            pair.carry()
            if by in ("client", "both"):
                sender.detach()
                back.detach(closed=False)
            if by in ("server", "both"):
                receiver.detach(closed=False)
                forth.detach()
            pair.carry()
        if by != "session":
            assert (ours.links, theirs.links) == ({}, {})
        ours.end()
        pair.carry()
        for end in (pair.client, pair.server):
            assert (end.sessions, end.undecided, end.pending_bytes) == ({}, 0, 0)
        pair.said.clear()
        pair.answered.clear()

    return call


CASES: dict[str, Callable[[], Callable[[], None]]] = {
    "outbox": lambda: queued,
    "many acknowledged": many_acknowledged,
    **{
        f"qos {q}, {n} answered": lambda q=q, n=n: lambda: arrived(q, n)  # type: ignore[misc]
        for q in (1, 2)
        for n in (0, 20, 40)
    },
    **{
        f"channels closed by {by}": lambda by=by: channels(by)  # type: ignore[misc]
        for by in ("client", "server", "both")
    },
    **{
        f"links closed by {by}": lambda by=by: links(by)  # type: ignore[misc]
        for by in ("client", "server", "both", "session")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left(name: str) -> None:
    """A leak grows in each round by as many chunks or objects as there are calls; what is kept for later use grows once."""
    call = CASES[name]()
    for _ in range(12):
        call()
        gc.collect()
        before = held()
        for _ in range(ROUNDS):
            call()
        gc.collect()
        heap, blocks = (after - b for after, b in zip(held(), before, strict=True))
        if heap < ROUNDS * 24 and blocks < ROUNDS:
            return
    pytest.fail(f"{ROUNDS} calls leave {heap} octets and {blocks} objects")
