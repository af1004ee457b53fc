"""The engine leaves nothing behind: when a pass is over, when it is given up, and when limits end what waits."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from lib.insight_tables import AMQP10, Sent, client, server
from lib.leaks import leaks
from lib.paths import DATA
from lib.wire import Tcp, connack, pcap
from wirefmt import amqp091, amqp10, capture, insight, mqtt

CAPTURES = (
    "amqp-acks", "amqp-poison", "amqp-rpc", "amqp-tx", "amqp10-links", "amqp10-outcomes", "crossing", "mqtt-offline",
    "mqtt-qos2-stuck", "mqtt-resume", "mqtt-retained", "nsq-trouble", "rocketmq-talk",
)  # fmt: skip


def whole(batches: list[Any], **limits: Any) -> None:
    """A pass over all messages."""
    engine = insight.Insight(paths=True, **limits)
    for batch in batches:
        engine.messages(batch)
        engine.take_operations()
        engine.take_paths()
    engine.finish()
    engine.take_operations()
    engine.take_connections()
    while not engine.finish_paths(1):
        engine.take_paths()


def dropped(batches: list[Any]) -> None:
    """A pass that is given up: operations are open, publishes wait for their deliveries, and some deliveries for publishes."""
    for max_paths in (1 << 19, 4):
        engine = insight.Insight(paths=True, max_paths=max_paths)
        for batch in batches:
            engine.messages(batch)


def limited(batches: list[Any]) -> None:
    """A pass with so little memory that something ends at every step."""
    whole(batches, max_operations=3, max_paths=4, path_seconds=1)
    whole(batches, max_octets=1 << 14)


@pytest.mark.parametrize("use", [whole, dropped, limited])
@pytest.mark.parametrize("name", CAPTURES)
def test_nothing_is_left(name: str, use: Callable[[list[Any]], None]) -> None:
    (path,) = (DATA / "insight").glob(f"{name}.pcap*")
    with capture.read(path, batch_rows=200) as reader:
        batches = list(reader)[:5]
    assert batches
    assert leaks(lambda: use(batches)) == {}


def published(dup: bool) -> mqtt.Publish:
    return mqtt.Publish(topic_name="t", payload=b"x", qos=1, packet_identifier=1, dup=dup, version=4)


def consumer(queue: str) -> amqp091.BasicConsume:
    return amqp091.BasicConsume(channel=1, queue=queue, consumer_tag="c")


def link(name: str, queue: str) -> amqp10.Attach:
    return amqp10.Attach(channel=0, name=name, handle=0, role=True, source=amqp10.Source(address=queue))


#: What is named is named again, under the same number.
NAMED_AGAIN: dict[str, tuple[int, list[Sent]]] = {
    "mqtt": (1883, [
        client(mqtt.Connect(client_identifier="first", user_name="first", version=4)), server(connack()),
        client(mqtt.Connect(client_identifier="second", user_name="second", version=4)),
    ]),
    "amqp091": (5672, [
        client(b"AMQP\0\0\x09\x01", amqp091.ConnectionOpen(virtual_host="first")),
        client(amqp091.ConnectionOpen(virtual_host="second"), consumer("first"), consumer("second")),
    ]),
    "amqp10": (5672, [*AMQP10, client(link("first", "first"), link("second", "second"))]),
}  # fmt: skip


@pytest.mark.parametrize("use", [whole, dropped, limited])
def test_nothing_is_left_of_a_message_sent_again_on_the_next_connection(use: Callable[[list[Any]], None]) -> None:
    frames: list[bytes] = []
    for again in (False, True):
        tcp = Tcp(1883, client_port=40000 + again)
        frames += tcp.open()
        hello = mqtt.Connect(client_identifier="c", clean_start=False, version=4)
        for octets in (hello.encode(), published(again).encode()):
            frames += tcp.send(0, octets)
        frames += tcp.close()
    with capture.read(io.BytesIO(pcap(frames))) as reader:
        batches = list(reader)
    assert leaks(lambda: use(batches)) == {}


@pytest.mark.parametrize("use", [whole, dropped, limited])
@pytest.mark.parametrize("name", NAMED_AGAIN)
def test_nothing_is_left_of_what_is_named_again(name: str, use: Callable[[list[Any]], None]) -> None:
    port, said = NAMED_AGAIN[name]
    tcp = Tcp(port)
    frames = [*tcp.open(), *(frame for side, octets in said for frame in tcp.send(side, octets))]
    with capture.read(io.BytesIO(pcap(frames))) as reader:
        batches = list(reader)
    assert sum(batch.num_rows for batch in batches) >= 3
    assert leaks(lambda: use(batches)) == {}
