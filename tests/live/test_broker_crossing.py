"""One broker, three client libraries: what paho (MQTT 5.0), pika (AMQP 0.9.1) and proton (AMQP 1.0) publish, the two others
consume. Every property of the conversion tables that the publishing library can set is set, and the values expected of the
others are written down here from RabbitMQ's tables."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lib.loopback import HOST, PATIENCE
from wirefmt import broker
from wirefmt.broker.routing import Limits

pytestmark = pytest.mark.live

TOPIC, KEY = "plant/line/1", "plant.line.1"
BODY = b"\x0021.5\xff"
IDENTIFIER = uuid.UUID("6c0f9e1a-4f1d-4b7e-9a3f-0d5f5c0e7b11")


# ---- paho, MQTT 5.0


@contextmanager
def paho_client(b: broker.Running, got: queue.Queue[Any] | None = None) -> Iterator[Any]:
    mqtt = pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt (pip install paho-mqtt)")
    ready: queue.Queue[Any] = queue.Queue()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_connect = lambda *_: client.subscribe("plant/#", qos=1) if got is not None else ready.put(None)
    client.on_subscribe = lambda *_: ready.put(None)
    client.on_message = lambda _c, _u, message: got.put(message) if got is not None else None
    client.connect(HOST, b.port("mqtt"))
    client.loop_start()
    try:
        ready.get(timeout=PATIENCE)
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def publish_paho(b: broker.Running) -> None:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.PUBLISH)
    properties.MessageExpiryInterval = 600
    properties.ResponseTopic = "answers/1"
    properties.CorrelationData = b"c-17"
    properties.ContentType = "application/x-reading"
    properties.UserProperty = [("unit", "°C"), ("x-trace", "t-1"), ("unit", "second")]
    with paho_client(b) as client:
        client.publish(TOPIC, BODY, qos=1, properties=properties).wait_for_publish(PATIENCE)


class Paho:
    """A subscriber. `receive` returns topic, payload, QoS and properties."""

    def __init__(self, b: broker.Running) -> None:
        self._got: queue.Queue[Any] = queue.Queue()
        self._client = paho_client(b, self._got)
        self._client.__enter__()

    def receive(self) -> dict[str, Any]:
        message = self._got.get(timeout=PATIENCE)
        properties = message.properties.json()
        return {"topic": message.topic, "body": message.payload, "qos": message.qos, **properties}

    def close(self) -> None:
        self._client.__exit__(None, None, None)


# ---- pika, AMQP 0.9.1


def pika_connection(b: broker.Running) -> Any:
    pika = pytest.importorskip("pika", reason="needs pika (pip install pika)")
    return pika.BlockingConnection(pika.URLParameters(b.url("amqp")))


def publish_pika(b: broker.Running) -> None:
    connection = pika_connection(b)
    import pika

    channel = connection.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        content_type="application/x-reading",
        content_encoding="identity",
        headers={"unit": "°C", "count": 3, "ok": True, "x-trace": "t-1", "deep": {"no": "table"}},
        delivery_mode=2,
        priority=7,
        correlation_id="c-17",
        reply_to="answers",
        expiration="600000",
        message_id=f"urn:uuid:{IDENTIFIER}",
        timestamp=1_750_000_000,
        type="reading",
        user_id="guest",
        app_id="meter",
    )
    channel.basic_publish("amq.topic", KEY, BODY, properties, mandatory=True)
    connection.close()


class Pika:
    """A consumer of a queue that is bound to amq.topic. `receive` returns what basic.deliver and the properties say."""

    def __init__(self, b: broker.Running) -> None:
        self._connection = pika_connection(b)
        self._channel = self._connection.channel()
        self._channel.queue_declare("for pika")
        self._channel.queue_bind("for pika", "amq.topic", "plant.#")

    def receive(self) -> dict[str, Any]:
        for method, properties, body in self._channel.consume("for pika", inactivity_timeout=PATIENCE):
            assert method is not None
            self._channel.basic_ack(method.delivery_tag)
            said = {name: value for name, value in vars(properties).items() if value is not None}
            if said.get("timestamp", 0) > 1_750_000_000:
                said["timestamp"] = "when it came"
            return {"exchange": method.exchange, "routing_key": method.routing_key, "body": body, **said}
        raise AssertionError("nothing came")

    def close(self) -> None:
        self._connection.close()


# ---- proton, AMQP 1.0


def proton_connection(b: broker.Running) -> Any:
    pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    from proton.utils import BlockingConnection

    return BlockingConnection(b.url("amqp10"), timeout=PATIENCE)


def publish_proton(b: broker.Running) -> None:
    connection = proton_connection(b)
    import proton

    message = proton.Message(
        id=IDENTIFIER,
        user_id=b"guest",
        subject="s",
        reply_to="/exchanges/amq.topic/answers.1",
        correlation_id="c-17",
        content_type=proton.symbol("application/x-reading"),
        content_encoding=proton.symbol("identity"),
        creation_time=1_750_000_000.0,
        group_id="meter",
        durable=True,
        priority=7,
        ttl=600.0,
        properties={"unit": "°C", "count": 3, "ok": True},
        annotations={proton.symbol("x-trace"): "t-1", proton.symbol("x-basic-type"): "reading"},
        body=BODY,
        inferred=True,
    )
    sender = connection.create_sender(f"/exchanges/amq.topic/{KEY}")
    sender.send(message)
    connection.close()


class Proton:
    """A receiver from a queue that is bound to amq.topic. `receive` returns the fields of the sections."""

    def __init__(self, b: broker.Running) -> None:
        import pika  # AMQP 1.0 itself cannot bind

        with pika.BlockingConnection(pika.URLParameters(b.url("amqp"))) as connection:
            channel = connection.channel()
            channel.queue_declare("for proton")
            channel.queue_bind("for proton", "amq.topic", "plant.#")
        self._connection = proton_connection(b)
        self._receiver = self._connection.create_receiver("/queues/for%20proton", credit=1)

    def receive(self) -> dict[str, Any]:
        message = self._receiver.receive(timeout=PATIENCE)
        self._receiver.accept()
        names = (
            "id user_id subject reply_to correlation_id content_type content_encoding creation_time group_id durable "
            "priority ttl properties annotations body"
        )
        said = {name: getattr(message, name) for name in names.split()}
        return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in said.items()}

    def close(self) -> None:
        self._connection.close()


PUBLISHERS = {"paho": publish_paho, "pika": publish_pika, "proton": publish_proton}
CONSUMERS: dict[str, Any] = {"paho": Paho, "pika": Pika, "proton": Proton}

ROUTED = {"exchange": "amq.topic", "routing_key": KEY, "body": BODY}
ANNOTATIONS = {"x-exchange": "amq.topic", "x-routing-key": KEY, "x-trace": "t-1"}
#: What proton says of fields that are absent.
ABSENT = {
    "id": None, "user_id": b"", "subject": None, "content_encoding": "None", "creation_time": 0.0, "group_id": None,
    "priority": 4, "ttl": 0.0, "body": BODY,
}  # fmt: skip

EXPECTED: dict[tuple[str, str], dict[str, Any]] = {
    ("paho", "pika"): {
        **ROUTED,
        "delivery_mode": 2,
        "expiration": "600000",
        "timestamp": "when it came",  # RabbitMQ adds it to a message with an expiry
        "content_type": "application/x-reading",
        "correlation_id": "c-17",
        "headers": {"unit": "°C", "x-trace": "t-1", "x-reply-to-topic": "answers.1"},
    },
    ("paho", "proton"): {
        **ABSENT,
        "reply_to": "/exchanges/amq.topic/answers.1",
        "correlation_id": b"c-17",
        "content_type": "application/x-reading",
        "durable": True,
        "ttl": 600.0,
        "properties": {"unit": "°C"},
        "annotations": ANNOTATIONS,
    },
    ("pika", "paho"): {
        "topic": TOPIC,
        "body": BODY,
        "qos": 1,
        "ContentType": "application/x-reading",
        "CorrelationData": "632d3137",
        "MessageExpiryInterval": 600,
        "UserProperty": [("unit", "°C"), ("count", "3"), ("ok", "true"), ("x-trace", "t-1")],
    },
    ("pika", "proton"): {
        **ABSENT,
        "id": IDENTIFIER,
        "user_id": b"guest",
        "reply_to": "answers",
        "correlation_id": "c-17",
        "content_type": "application/x-reading",
        "content_encoding": "identity",
        "creation_time": 1_750_000_000.0,
        "group_id": "meter",
        "durable": True,
        "priority": 7,
        "ttl": 600.0,
        "properties": {"unit": "°C", "count": 3, "ok": True},
        "annotations": {**ANNOTATIONS, "x-basic-type": "reading"},
    },
    ("proton", "paho"): {
        "topic": TOPIC,
        "body": BODY,
        "qos": 1,
        "ContentType": "application/x-reading",
        "ResponseTopic": "answers/1",
        "CorrelationData": "632d3137",
        "UserProperty": [
            ("x-trace", "t-1"),
            ("x-basic-type", "reading"),
            ("unit", "°C"),
            ("count", "3"),
            ("ok", "true"),
        ],
    },
    ("proton", "pika"): {
        **ROUTED,
        "content_type": "application/x-reading",
        "content_encoding": "identity",
        "headers": {"unit": "°C", "count": 3, "ok": True, "x-trace": "t-1", "x-basic-type": "reading"},
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": "c-17",
        "reply_to": "/exchanges/amq.topic/answers.1",
        "expiration": "600000",
        "message_id": f"urn:uuid:{IDENTIFIER}",
        "timestamp": 1_750_000_000,
        "user_id": "guest",
        "app_id": "meter",
    },
}


@pytest.mark.parametrize(("publisher", "consumer"), list(EXPECTED))
def test_a_message_crosses(publisher: str, consumer: str) -> None:
    with broker.running() as b:
        consuming = CONSUMERS[consumer](b)
        try:
            PUBLISHERS[publisher](b)
            assert consuming.receive() == EXPECTED[publisher, consumer]
        finally:
            consuming.close()


def test_the_dialect_is_chosen() -> None:
    """RabbitMQ's tables say that x- annotations become headers; RabbitMQ 4 itself makes a type of this one."""
    with broker.running(limits=Limits(dialect="rabbitmq-4.3")) as b:
        consumer = Pika(b)
        try:
            publish_proton(b)
            got = consumer.receive()
            assert got["type"] == "reading"
            assert "x-basic-type" not in got["headers"]
        finally:
            consumer.close()


@pytest.mark.parametrize("name", list(CONSUMERS))
def test_a_message_comes_back_to_its_own_protocol_and_to_all_others_at_once(name: str) -> None:
    with broker.running() as b:
        consuming = [make(b) for make in CONSUMERS.values()]
        try:
            PUBLISHERS[name](b)
            assert [consumer.receive()["body"] for consumer in consuming] == [BODY] * 3
        finally:
            for consumer in consuming:
                consumer.close()
