"""Connections give back what they hold: memory, messages that wait for their turn, answers that were written for them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lib.heap import heap
from wirefmt import mqtt
from wirefmt.connection.outbox import Outbox
from wirefmt.mqtt.connection import ServerConnection

ROUNDS = 30


def held() -> tuple[int, int]:
    """Bytes of C and blocks of Python that are in use."""
    return heap(), sys.getallocatedblocks()


def publish(identifier: int, qos: int) -> bytes:
    return mqtt.Publish(topic_name="a/b", payload=b"!" * 50, qos=qos, packet_identifier=identifier).encode()


def queued() -> None:
    """More than an outbox keeps room for, and what an outbox holds when it goes."""
    outbox = Outbox()
    for _ in range(200):
        outbox.put(b"x" * 1000)
    assert len(outbox.take()) == 200_000
    outbox.put(b"x" * 1000)


def arrived(qos: int, answered: int) -> None:
    """Messages whose answers, the last one first, have a code and a property; the connection ends before all have one."""
    server = ServerConnection(0.0)
    (connect,) = server.receive(mqtt.Connect(client_identifier="c", clean_start=True).encode(), 0.0)
    server.accept(connect)
    server.data_to_send()
    events: list[Any] = server.receive(b"".join(publish(i, qos) for i in range(1, 41)), 0.0)
    messages = [event for event in events if isinstance(event, mqtt.Publish)]
    assert len(messages) == 40
    for message in messages[::-1][:answered]:
        server.acknowledge(message, 0x10, [("reason_string", "no subscribers")])
    assert bool(server.data_to_send()) == (answered == 40)


@pytest.mark.parametrize(
    "call",
    [queued, *(lambda q=q, n=n: arrived(q, n) for q in (1, 2) for n in (0, 20, 40))],
    ids=["outbox", *(f"qos {q}, {n} answered" for q in (1, 2) for n in (0, 20, 40))],
)
def test_nothing_is_left(call: Callable[[], None]) -> None:
    """A leak grows in each round by as many chunks or objects as there are calls; what is kept for later use grows once."""
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
