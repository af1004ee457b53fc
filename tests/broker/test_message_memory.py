"""What a tiny message costs that waits is counted, by every protocol: limits of bytes hold for memory, too."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from lib.loopback import run
from wirefmt import amqp091, amqp10
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker import phpmq as phpmq_broker
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.limits import Transaction
from wirefmt.broker.messages import Envelope, Published
from wirefmt.broker.routing import Router
from wirefmt.convert import Container
from wirefmt.mqtt.session import Session

Made = tuple[Callable[[int], object], Callable[[], int]]
MESSAGES = 5000


def envelope() -> Envelope:
    octets = amqp091.BasicProperties(delivery_mode=2).encode()
    return Envelope(octets, "", "q", None, 0, amqp091.BasicProperties.decode(octets), "documented")


def amqp091_in_a_run() -> Made:
    router, shared = Router(), envelope()
    queue = router.make_queue("q")
    return lambda n: router.put([queue], Published(shared, b"%d" % n)), lambda: router.shares.bytes


def amqp091_alone() -> Made:
    router = Router()
    queue = router.make_queue("q")
    return lambda n: router.put([queue], Published(envelope(), b"%d" % n)), lambda: router.shares.bytes


def amqp091_transaction() -> Made:
    router = Router()
    transaction = Transaction(router)
    (event,) = amqp091.Assembler(side="client").feed(
        amqp091.BasicMessage(
            amqp091.BasicPublish(channel=1, exchange="", routing_key="q"), amqp091.BasicProperties(), b"x"
        ).encode()
    )  # fmt: skip

    def add(n: int) -> None:
        published = Published(envelope(), b"%d" % n)
        transaction.add((event.detach(), published), published.cost)

    return add, lambda: router.shares.bytes


def amqp10_message() -> Made:
    router = Router()
    queue = router.make_queue("q")

    def put(n: int) -> None:
        payload = amqp10.Message(body=b"%d" % n).encode()
        router.put([queue], Published.of(Container(payload, source="amqp10", exchange="", routing_key="q")))

    return put, lambda: router.shares.bytes


def mqtt() -> Made:
    broker = mqtt_broker.Broker(mqtt_broker.BrokerOptions(queue_messages=MESSAGES * 2))
    away: Any = mqtt_broker.Subscriber("c", Session(), broker.shares.holder(None))

    def put(n: int) -> None:
        message = mqtt_broker.Message("t", b"%d" % n, 1, holder=away.holder)
        broker._outgoing.deliver(away, mqtt_broker.Queued(message, 1, False, ()))

    return put, lambda: broker.shares.bytes


def nsq() -> Made:
    broker = nsq_broker.Broker()
    return lambda n: broker.publish("t", b"%d" % n), lambda: broker.shares.bytes


def rocketmq() -> Made:
    broker = rocketmq_broker.Broker()
    broker.topic("T", 1)
    fields = {
        "topic": "T", "queue_id": 0, "born_timestamp": 1, "born_host": ("127.0.0.1", 1), "reconsume_times": 0,
        "properties": "", "flag": 0, "sys_flag": 0,
    }  # fmt: skip
    return lambda n: broker._log.store({**fields, "body": b"%d" % n}), lambda: broker.shares.bytes


def phpmq() -> Made:
    broker = phpmq_broker.Broker()
    return lambda n: broker.publish("q", b"%d" % n), lambda: broker.shares.bytes


KINDS = (
    amqp091_in_a_run, amqp091_alone, amqp091_transaction, amqp10_message, mqtt, nsq, rocketmq, phpmq,
)  # fmt: skip


@pytest.mark.parametrize("make", KINDS)
def test_what_a_message_costs_is_counted(make: Callable[[], Made]) -> None:
    async def test() -> None:
        put, counted = make()
        put(0)
        gc.collect()
        tracemalloc.start()
        try:
            before, had = tracemalloc.get_traced_memory()[0], counted()
            for n in range(MESSAGES):
                put(n)
            gc.collect()
            used = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert counted() - had >= 0.95 * used, f"{used / MESSAGES} bytes each, {(counted() - had) / MESSAGES} counted"

    run(test())
