"""A client made of wirefmt's own AMQP 1.0 frames at a real RabbitMQ: the broker reads every type that wirefmt writes, and
proton and pika at the other end have what was meant; and the other way round."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lib.amqp10_peer import HOST, PATIENCE, Client
from lib.amqp10_vectors import build, node, same
from lib.kinds import checked
from lib.rabbitmq import PASSWORD, USER, Broker
from lib.skips import imported
from wirefmt import amqp10

pytestmark = pytest.mark.live

#: Values by their nodes (amqp10_vectors). RabbitMQ has no arrays of smalluint and the like: those name their constructor.
SCALARS: list[Any] = [
    *(["null", None], ["boolean", True], ["boolean", False], ["ubyte", 255], ["ushort", 65535], ["uint", 0]),
    *(["uint", 255], ["uint", 2**32 - 1], ["ulong", 0], ["ulong", 255], ["ulong", 2**64 - 1], ["byte", -128]),
    *(["short", -32768], ["int", -1], ["int", -(2**31)], ["long", -1], ["long", 2**63 - 1], ["float", 1.5]),
    *(["double", -0.0], ["decimal32", {"bits": "00000007"}], ["decimal64", {"bits": "00" * 8}]),
    *(["decimal128", {"bits": "0f" * 16}], ["char", 0x1F600], ["timestamp", -1], ["uuid", "ab" * 16]),
    *(["binary", ""], ["binary", "00ff" * 200], ["string", ""], ["string", "grüße" * 60], ["symbol", "amqp:s"]),
]
COMPOUNDS: list[Any] = [
    ["list", []],
    ["list", [["string", "a"]]],
    ["map", [[["string", "a"], ["long", 1]], [["symbol", "b"], ["null", None]]]],
    ["described", ["symbol", "x:y"], ["string", "value"]],
    ["described", ["ulong", 2**40], ["list", [["long", 1]]]],
]
ARRAYS = [
    amqp10.Array("uint", [amqp10.UInt(1)] * 2 + [amqp10.UInt(2**31)]),
    amqp10.Array("string", ["a", "é" * 200]),
    amqp10.Array("symbol", [amqp10.Symbol("a"), amqp10.Symbol("b")]),
    amqp10.Array("boolean", [True, False]),
]


@pytest.fixture
def client(rabbitmq: Broker) -> Iterator[Client]:
    with Client(rabbitmq.port) as client:
        yield client


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
def test_connect_and_close(rabbitmq: Broker, mechanism: str) -> None:
    with Client(rabbitmq.port, mechanism, b"\0guest\0guest" if mechanism == "PLAIN" else b"anybody") as client:
        assert {"PLAIN", "ANONYMOUS"} <= set(client.mechanisms)
        assert checked(client.opened.properties, amqp10.Map)["product"] == "RabbitMQ"
        client.close()


def test_challenge_and_response(rabbitmq: Broker) -> None:
    """The broker asks back. Its plugin of 3.10 reads the response, and then has no clause for it: its log has what it read."""
    answer = b"My password is " + PASSWORD.encode()
    try:
        client = Client(rabbitmq.port, "RABBIT-CR-DEMO", USER.encode(), {b"Please tell me your password": answer})
    except (OSError, EOFError):
        end = time.monotonic() + PATIENCE
        while answer not in (rabbitmq.folder / "node.log").read_bytes() and time.monotonic() < end:
            time.sleep(0.1)
        assert answer in (rabbitmq.folder / "node.log").read_bytes()
    else:
        assert client.outcome == 0
        client.socket.close()


def test_wrong_password(rabbitmq: Broker) -> None:
    with Client(rabbitmq.port, response=b"\0guest\0wrong") as client:
        assert client.outcome == 1


def test_every_value(client: Client) -> None:
    values = [build(value) for value in SCALARS + COMPOUNDS] + ARRAYS
    nodes = SCALARS + COMPOUNDS + [node(array) for array in ARRAYS]
    sender, _ = client.sender("/queue/values10"), client.receiver("/queue/values10", 500)
    for value, expected in zip(values, nodes, strict=True):
        message = amqp10.Message(body=amqp10.AmqpValue(value))
        client.send(*client.transfers(sender, message))
        got = [client.receive(), client.receive()]  # a disposition and the message, in either order
        transfer = next(frame for frame in got if isinstance(frame, amqp10.Transfer))
        (state,) = [frame.state for frame in got if isinstance(frame, amqp10.Disposition)]
        assert state == amqp10.Accepted()
        (section,) = transfer.message.body
        assert same(node(checked(section, amqp10.AmqpValue).value), expected)
        client.send(amqp10.Disposition(role=True, first=transfer.delivery_id, settled=True, state=amqp10.Accepted()))
    client.close()


def test_pika_has_what_was_published(client: Client, rabbitmq: Broker) -> None:
    """AMQP 1.0 in, AMQP 0.9.1 out."""
    pika = imported("pika")
    bodies = [b"\x00\xff", b"x" * 50_000]
    sender = client.sender("/queue/1.0 to pika")
    for body in bodies:
        message = amqp10.Message(
            header=amqp10.Header(durable=True, priority=5),
            properties=amqp10.Properties(message_id="m-1", content_type="text/plain", reply_to="/queue/answers"),
            application_properties={"text": "é", "n": amqp10.Int(-7), "yes": True},
            body=amqp10.Data(body),
        )
        assert client.publish(sender, message) == amqp10.Accepted()
    client.close()
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, rabbitmq.port))
    channel = connection.channel()
    for expected in bodies:
        _, properties, body = channel.basic_get("1.0 to pika", auto_ack=True)
        assert body == expected
        assert (properties.delivery_mode, properties.priority) == (2, 5)
        assert (properties.message_id, properties.content_type) == ("m-1", "text/plain")
        # the section as it was, in a header of RabbitMQ's own
        section = properties.headers["x-amqp-1.0-app-properties"]
        assert amqp10.decode_value(section).value == {"text": "é", "n": -7, "yes": True}
    connection.close()


def test_pika_published(client: Client, rabbitmq: Broker) -> None:
    """AMQP 0.9.1 in, AMQP 1.0 out, in frames of 4096 octets."""
    pika = imported("pika")
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, rabbitmq.port))
    channel = connection.channel()
    channel.queue_declare("pika to 1.0", durable=True)
    bodies = [b"", b"\x00\xff", b"x" * 50_000]
    properties = pika.BasicProperties(message_id="m-1", delivery_mode=2, priority=3)
    for body in bodies:
        channel.basic_publish("", "pika to 1.0", body, properties)
    connection.close()
    client.receiver("/amq/queue/pika to 1.0", 100)
    for body in bodies:
        delivery = client.delivery()
        message = delivery.message
        assert bytes(message.payload) == body
        assert (message.header.durable, message.header.priority) == (True, 3)
        assert message.properties.message_id == "m-1"
    assert delivery.transfers > 50_000 // 4096
    client.close()


def test_proton_has_what_was_published(client: Client, rabbitmq: Broker) -> None:
    proton = imported("proton")
    from proton.utils import BlockingConnection

    from lib.proton_values import node_of

    bodies = [value for value in SCALARS if value[0] not in ("binary", "null")] + COMPOUNDS
    sender = client.sender("/queue/1.0 to proton")
    for value in bodies:
        assert client.publish(sender, amqp10.Message(body=amqp10.AmqpValue(build(value)))) == amqp10.Accepted()
    client.close()
    connection = BlockingConnection(f"amqp://{USER}:{PASSWORD}@{HOST}:{rabbitmq.port}", timeout=PATIENCE)
    receiver = connection.create_receiver("/queue/1.0 to proton", credit=len(bodies))
    for value in bodies:
        came = receiver.receive(PATIENCE).body
        receiver.accept()
        assert same(node_of(came), value)
    with contextlib.suppress(proton.ConnectionException):
        connection.close()


# ---- what the broker thinks of mistakes


def test_unknown_address(client: Client) -> None:
    client.attach(
        role=False, source=amqp10.Source(), target=amqp10.Target(address="/nowhere"), initial_delivery_count=0
    )
    end = client.expect(amqp10.End)
    assert end.error.condition.startswith("amqp:")
    assert end.error.description


def test_unknown_outcome(client: Client) -> None:
    sender, _ = client.sender("/queue/unknown outcome"), client.receiver("/queue/unknown outcome", 5)
    client.send(*client.transfers(sender, amqp10.Message(body=amqp10.Data(b"x"))))
    (transfer,) = [f for f in (client.receive(), client.receive()) if isinstance(f, amqp10.Transfer)]
    state = amqp10.Received(section_number=0, section_offset=0)
    client.send(amqp10.Disposition(role=True, first=transfer.delivery_id, settled=True, state=state))
    assert client.expect(amqp10.End).error.condition.startswith("amqp:")


def test_transfer_without_a_link(client: Client) -> None:
    client.send(*client.transfers(7, amqp10.Message(body=amqp10.Data(b"x"))))
    end = client.expect(amqp10.End)
    assert end.error.condition == "amqp:illegal-state"
    assert end.error.description.startswith("Unknown link handle")


def test_wrong_protocol_header(rabbitmq: Broker) -> None:
    """The broker says what it speaks: SASL, then AMQP 1.0."""
    with socket.create_connection((HOST, rabbitmq.port), timeout=PATIENCE) as connection:
        connection.sendall(b"AMQP\x07\x01\x00\x00")
        assert amqp10.Decoder().feed(connection.recv(64)) == [amqp10.ProtocolHeader(3)]
