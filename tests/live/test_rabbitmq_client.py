"""A client made of wirefmt's own frames at a real RabbitMQ: the broker reads every method, property and type of field value
that wirefmt writes, and pika and py-amqp at the other end have what was meant; and the other way round."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import pytest

from lib.amqp091_vectors import built, shown
from lib.ports import HOST
from lib.rabbitmq import PASSWORD, USER, Broker
from lib.skips import imported
from wirefmt import amqp091
from wirefmt.amqp091 import spec

pytestmark = pytest.mark.live

PATIENCE = 15.0  # seconds for something that must come
MOMENT = datetime(2026, 11, 21, 8, 30, 1, tzinfo=UTC)
M = TypeVar("M")
V = amqp091.FieldValue


class Client:
    """A connection: sends frames, gives those that come, all of them read under STRICT."""

    def __init__(self, port: int, *, frame_max: int = 131072, mechanism: str = "PLAIN", **more: Any) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE)
        self.assembler = amqp091.Assembler(side="server", frame_max=frame_max)
        self.waiting: list[Any] = []
        self.sent: set[str] = set()
        self.seen: set[str] = set()
        self.send(amqp091.ProtocolHeader())
        self.start = self.expect(amqp091.ConnectionStart)
        response: Any = f"\0{USER}\0{PASSWORD}"
        if mechanism == "AMQPLAIN":
            response = amqp091.FieldTable({"LOGIN": USER, "PASSWORD": PASSWORD}).encode()[4:]
        capabilities = dict.fromkeys(
            ("basic.nack", "connection.blocked", "consumer_cancel_notify", "authentication_failure_close"), True
        )
        self.send(
            amqp091.ConnectionStartOk(
                client_properties={"product": "wirefmt", "capabilities": capabilities},
                mechanism=mechanism,
                response=more.get("response", response),
                locale="en_US",
            )
        )
        if "response" in more:
            return
        tune = self.expect(amqp091.ConnectionTune)
        self.send(
            amqp091.ConnectionTuneOk(channel_max=tune.channel_max, frame_max=frame_max, heartbeat=more.get("beat", 0)),
            amqp091.ConnectionOpen(virtual_host=more.get("host", "/")),
        )
        if "host" not in more:
            self.expect(amqp091.ConnectionOpenOk)

    def send(self, *messages: Any) -> None:
        self.sent |= {m.name for m in (getattr(m, "method", m) for m in messages) if isinstance(m, amqp091.Method)}
        self.socket.sendall(b"".join(m.encode() for m in messages))

    def receive(self) -> Any:
        while not self.waiting:
            octets = self.socket.recv(65536)
            if not octets:
                self.assembler.close()
                raise EOFError("the other side closed")
            self.waiting += self.assembler.feed(octets)
        message = self.waiting.pop(0)
        method = getattr(message, "method", message)
        assert built(shown(method)).encode() == method.encode()
        if isinstance(method, amqp091.Method):
            self.seen.add(method.name)
        return message

    def expect(self, kind: type[M]) -> Any:
        """The next message, which is a `kind`."""
        message = self.receive()
        assert isinstance(getattr(message, "method", message), kind), message
        return message

    def ask(self, request: Any, kind: type[M]) -> Any:
        self.send(request)
        return self.expect(kind)

    def channel(self, number: int = 1) -> int:
        self.ask(amqp091.ChannelOpen(channel=number), amqp091.ChannelOpenOk)
        return number

    def queue(self, name: str = "", **more: Any) -> str:
        request = amqp091.QueueDeclare(channel=1, queue=name, exclusive=not name, **more)
        return str(self.ask(request, amqp091.QueueDeclareOk).queue)

    def publish(self, routing_key: str, body: bytes, exchange: str = "", mandatory: bool = False, **more: Any) -> None:
        method = amqp091.BasicPublish(channel=1, exchange=exchange, routing_key=routing_key, mandatory=mandatory)
        self.send(amqp091.BasicMessage(method, amqp091.BasicProperties(**more), body))

    def get(self, queue: str) -> Any:
        return self.ask(amqp091.BasicGet(channel=1, queue=queue, no_ack=True), amqp091.BasicGetOk)

    def close(self) -> None:
        self.send(amqp091.ConnectionClose(reply_code=200, reply_text="done", class_id=0, method_id=0))
        self.expect(amqp091.ConnectionCloseOk)
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.fixture
def client(rabbitmq: Broker) -> Iterator[Client]:
    with Client(rabbitmq.port) as client:
        client.channel()
        yield client


#: A value of every type that can be written.
TABLE: list[tuple[str, Any]] = [
    ("t", V("t", True)),
    ("f", V("t", False)),
    ("b", V("b", -128)),
    ("B", V("B", 255)),
    ("s", V("s", -32768)),
    ("u", V("u", 65535)),
    ("I", V("I", -(2**31))),
    ("i", V("i", 2**32 - 1)),
    ("l", V("l", -(2**63))),
    ("float", V("f", 2.0)),
    ("double", V("d", -4.0)),
    ("D", V("D", Decimal("1234.567"))),
    ("S", "grüße"),
    ("S of octets", V("S", b"\x00\xff")),
    ("T", amqp091.Timestamp.of(MOMENT)),
    ("V", None),
    ("x", b"\x00\xff"),
    ("F", {"a": {"b": [1, None, {"c": "d"}]}, "e": {}}),
    ("A", [1, "x", True, [], [V("u", 7)]]),
    ("é" * 127, ""),
]
#: What pika and py-amqp make of it.
VALUES: dict[str, Any] = {
    "t": True,
    "f": False,
    "b": -128,
    "B": 255,
    "s": -32768,
    "u": 65535,
    "I": -(2**31),
    "i": 2**32 - 1,
    "l": -(2**63),
    "float": 2.0,
    "double": -4.0,
    "D": Decimal("1234.567"),
    "S": "grüße",
    "S of octets": b"\x00\xff",
    "T": MOMENT,
    "V": None,
    "x": b"\x00\xff",
    "F": {"a": {"b": [1, None, {"c": "d"}]}, "e": {}},
    "A": [1, "x", True, [], [7]],
    "é" * 127: "",
}
PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "identity",
    "delivery_mode": 1,
    "priority": 9,
    "correlation_id": "c-1",
    "reply_to": "answers/é",
    "expiration": "600000",
    "message_id": "m-1",
    "timestamp": 2**40,
    "type": "kind",
    "user_id": USER,
    "app_id": "wirefmt",
    "cluster_id": "none",
}
BODIES = [b"", b"\x00\xce", b"x" * (131072 - 8), b"y" * (131072 - 7), bytes(range(256)) * 2000]


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_connect_and_close(rabbitmq: Broker, mechanism: str) -> None:
    with Client(rabbitmq.port, mechanism=mechanism) as client:
        assert client.start.server_properties["product"] == "RabbitMQ"
        client.close()


def test_secure(rabbitmq: Broker) -> None:
    """connection.secure and secure-ok: a mechanism of RabbitMQ's that asks back."""
    with Client(rabbitmq.port, mechanism="RABBIT-CR-DEMO", response=USER.encode()) as client:
        assert client.expect(amqp091.ConnectionSecure).challenge == b"Please tell me your password"
        client.send(amqp091.ConnectionSecureOk(response=f"My password is {PASSWORD}".encode()))
        client.expect(amqp091.ConnectionTune)


def test_pika_has_what_was_published(client: Client, rabbitmq: Broker) -> None:
    pika = imported("pika")
    client.ask(amqp091.QueueDeclare(channel=1, queue="to pika"), amqp091.QueueDeclareOk)
    for body in BODIES:
        client.publish("to pika", body, headers=TABLE, **PROPERTIES)
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, rabbitmq.port))
    channel = connection.channel()
    for expected in BODIES:
        method, properties, body = next(channel.consume("to pika", auto_ack=True, inactivity_timeout=PATIENCE))
        assert (method.routing_key, body) == ("to pika", expected)
        assert properties.headers == VALUES
        for name, value in PROPERTIES.items():
            assert getattr(properties, name) == value, name
    connection.close()


def test_py_amqp_has_what_was_published(client: Client, rabbitmq: Broker) -> None:
    amqp = pytest.importorskip("amqp", reason="needs py-amqp (pip install amqp)")
    client.ask(amqp091.QueueDeclare(channel=1, queue="to py-amqp"), amqp091.QueueDeclareOk)
    headers = [*TABLE, ("third", V("f", 1.5)), ("pi", 3.14159), ("L", V("L", 2**62))]
    for body in BODIES:
        client.publish("to py-amqp", body, headers=headers, **PROPERTIES)
    # the answer to this comes when everything before it was taken
    client.ask(amqp091.QueueDeclare(channel=1, queue="to py-amqp", passive=True), amqp091.QueueDeclareOk)
    connection = amqp.Connection(f"{HOST}:{rabbitmq.port}", USER, PASSWORD, login_method="PLAIN")
    connection.connect()
    channel = connection.channel()
    for expected in BODIES:
        message = channel.basic_get("to py-amqp", no_ack=True)
        body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
        assert body == expected
        table: dict[str, Any] = {k: bytes(v) if isinstance(v, memoryview) else v for k, v in message.headers.items()}
        table["T"] = table["T"].replace(tzinfo=UTC)
        assert table == VALUES | {"third": 1.5, "pi": 3.14159, "L": 2**62}
        for name, value in PROPERTIES.items():
            assert message.properties[name] == value, name
    connection.close()


def test_pika_published(client: Client, rabbitmq: Broker) -> None:
    pika = imported("pika")
    queue = client.ask(amqp091.QueueDeclare(channel=1, queue="from pika"), amqp091.QueueDeclareOk).queue
    consume = amqp091.BasicConsume(channel=1, queue=queue, consumer_tag="tag", no_ack=False)
    assert client.ask(consume, amqp091.BasicConsumeOk).consumer_tag == "tag"
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, rabbitmq.port))
    headers = {"n": 7, "text": "é", "list": [1, {"a": None}], "when": MOMENT}
    for body in BODIES:
        connection.channel().basic_publish("", queue, body, pika.BasicProperties(headers=headers, **PROPERTIES))
    for tag, expected in enumerate(BODIES, 1):
        got = client.expect(amqp091.BasicDeliver)
        assert (got.method.consumer_tag, got.method.delivery_tag, got.method.redelivered) == ("tag", tag, False)
        assert got.body_bytes() == expected
        assert got.properties.headers["n"] == 7
        assert got.properties.headers["list"] == [1, {"a": None}]
        assert got.properties.headers["when"].to_datetime() == MOMENT
        for name, value in PROPERTIES.items():
            assert getattr(got.properties, name) == value, name
        client.send(amqp091.BasicAck(channel=1, delivery_tag=tag))
    assert client.ask(amqp091.BasicCancel(channel=1, consumer_tag="tag"), amqp091.BasicCancelOk).consumer_tag == "tag"
    connection.close()


def test_the_broker_reads_and_writes_every_type(client: Client) -> None:
    """A message that dies is written anew, its headers from what the broker read: the same, but `L` is `l` then."""
    grave = client.queue()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave, "x-message-ttl": V("u", 0)}
    queue = client.queue(arguments=arguments)
    table = [*TABLE, ("third", V("f", 1.5)), ("L", V("L", 2**62))]
    client.publish(queue, b"dead", headers=table, **{**PROPERTIES, "expiration": "0"})
    client.ask(amqp091.BasicConsume(channel=1, queue=grave, no_ack=True, consumer_tag="c"), amqp091.BasicConsumeOk)
    got = client.expect(amqp091.BasicDeliver)
    assert got.body_bytes() == b"dead"
    wanted = amqp091.FieldTable([*TABLE, ("third", V("f", 1.5)), ("L", V("l", 2**62))])
    own = [entry for entry in got.properties.headers.entries if not entry[0].startswith("x-")]
    assert sorted(own, key=lambda entry: entry[0]) == sorted(wanted.entries, key=lambda entry: entry[0])
    (death,) = got.properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["original-expiration"]) == ("expired", queue, "0")


def test_every_method(rabbitmq: Broker) -> None:
    """The broker takes every method a client may send, and answers."""
    a = amqp091
    with Client(rabbitmq.port) as client:
        client.channel(1)
        assert client.ask(a.AccessRequest(channel=1, realm="/data", active=True), a.AccessRequestOk).ticket >= 0
        assert client.ask(a.ChannelFlow(channel=1, active=True), a.ChannelFlowOk).active
        client.ask(a.ExchangeDeclare(channel=1, exchange="e1", type="topic", arguments=TABLE), a.ExchangeDeclareOk)
        client.ask(a.ExchangeDeclare(channel=1, exchange="e2", type="fanout"), a.ExchangeDeclareOk)
        bind: dict[str, Any] = {
            "channel": 1,
            "destination": "e2",
            "source": "e1",
            "routing_key": "k.#",
            "arguments": TABLE,
        }
        client.ask(a.ExchangeBind(**bind), a.ExchangeBindOk)
        queue = client.queue()
        bound: dict[str, Any] = {"channel": 1, "queue": queue, "exchange": "e2", "routing_key": "r", "arguments": TABLE}
        client.ask(a.QueueBind(**bound), a.QueueBindOk)
        client.ask(a.ConfirmSelect(channel=1), a.ConfirmSelectOk)
        client.publish("k.1", b"one", "e1", mandatory=True)
        assert client.expect(a.BasicAck).delivery_tag == 1
        client.publish("nowhere", b"two", "e1", mandatory=True, message_id="m")
        returned = client.expect(a.BasicReturn)
        assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
        assert (returned.body_bytes(), returned.properties.message_id) == (b"two", "m")
        assert client.expect(a.BasicAck).delivery_tag == 2
        client.ask(a.BasicQos(channel=1, prefetch_count=10, global_=True), a.BasicQosOk)
        for settle in (
            a.BasicReject(channel=1, delivery_tag=1, requeue=True),
            a.BasicNack(channel=1, delivery_tag=2, multiple=True, requeue=True),
        ):
            assert client.ask(a.BasicGet(channel=1, queue=queue), a.BasicGetOk).body_bytes() == b"one"
            client.send(settle)
        assert client.ask(a.BasicGet(channel=1, queue=queue), a.BasicGetOk).method.redelivered
        client.ask(a.BasicRecover(channel=1, requeue=True), a.BasicRecoverOk)
        assert client.ask(a.BasicGet(channel=1, queue=queue), a.BasicGetOk).method.delivery_tag == 4
        client.send(a.BasicRecoverAsync(channel=1, requeue=True))
        consumer = a.BasicConsume(channel=1, queue=queue, consumer_tag="c", exclusive=True, arguments=TABLE[:8])
        client.ask(consumer, a.BasicConsumeOk)
        client.send(a.BasicAck(channel=1, delivery_tag=client.expect(a.BasicDeliver).method.delivery_tag))
        client.ask(a.BasicCancel(channel=1, consumer_tag="c"), a.BasicCancelOk)
        client.ask(a.BasicGet(channel=1, queue=queue), a.BasicGetEmpty)
        client.ask(a.QueuePurge(channel=1, queue=queue), a.QueuePurgeOk)
        client.ask(a.QueueUnbind(**bound), a.QueueUnbindOk)
        client.ask(a.ExchangeUnbind(**bind), a.ExchangeUnbindOk)
        client.ask(a.QueueDelete(channel=1, queue=queue), a.QueueDeleteOk)
        for name in ("e1", "e2"):
            client.ask(a.ExchangeDelete(channel=1, exchange=name), a.ExchangeDeleteOk)
        client.channel(2)
        client.ask(a.TxSelect(channel=2), a.TxSelectOk)
        client.ask(a.TxCommit(channel=2), a.TxCommitOk)
        client.ask(a.TxRollback(channel=2), a.TxRollbackOk)
        close: dict[str, Any] = {"reply_code": 200, "reply_text": "done", "class_id": 0, "method_id": 0}
        client.ask(a.ChannelClose(channel=2, **close), a.ChannelCloseOk)
        client.ask(a.ConnectionUpdateSecret(new_secret=b"\0secret", reason="expired"), a.ConnectionUpdateSecretOk)
        client.ask(a.ExchangeDeclare(channel=1, exchange="absent", passive=True), a.ChannelClose)
        client.send(a.ChannelCloseOk(channel=1))
        client.channel(1)
        client.close()
        sent, seen = client.sent, client.seen
    # what a client has no occasion to send here, and the broker none to say; most of the latter is in other tests
    silent = {"channel.flow-ok", "connection.secure-ok", "connection.close-ok", "basic.cancel-ok"}
    assert of_side("client") - sent == silent
    unsaid = {"connection.blocked", "connection.unblocked", "connection.close", "connection.secure"}
    assert of_side("server") - seen == unsaid | {"basic.cancel", "basic.nack", "channel.flow"}


def of_side(side: str) -> set[str]:
    """Methods that this side may send."""
    return {f"{c.name}.{m.name}" for c in spec.CLASSES for m in c.methods if m.senders in (side, "both")}


def test_frames_of_channels_interleaved(client: Client) -> None:
    """Contents on two channels, frame by frame in turn: the broker puts each together."""
    client.channel(2)
    queue = client.queue()
    bodies = {n: bytes([n]) * 300_000 for n in (1, 2)}
    frames = [
        amqp091.Decoder(side="client").feed(
            amqp091.BasicMessage(amqp091.BasicPublish(channel=n, routing_key=queue), body=body).encode()
        )
        for n, body in bodies.items()
    ]
    client.send(*(frame for pair in zip(*frames, strict=True) for frame in pair))
    client.ask(amqp091.ChannelFlow(channel=2, active=True), amqp091.ChannelFlowOk)
    got = [client.get(queue).body_bytes() for _ in bodies]
    assert sorted(got) == sorted(bodies.values())


def test_small_frames(rabbitmq: Broker) -> None:
    with Client(rabbitmq.port, frame_max=4096) as client:
        client.channel()
        queue = client.queue()
        method = amqp091.BasicPublish(channel=1, routing_key=queue)
        client.send(amqp091.BasicMessage(method, body=b"z" * 50_000, frame_max=4096))
        got = client.get(queue)
        assert got.body_bytes() == b"z" * 50_000
        assert max(got.body_sizes) == 4096 - 8


def test_heartbeats(rabbitmq: Broker) -> None:
    with Client(rabbitmq.port, beat=2) as client:
        client.expect(amqp091.Heartbeat)
        client.send(amqp091.Heartbeat())
        client.close()


def test_consumer_cancel_notify(client: Client) -> None:
    queue = client.queue("cancelled")
    client.ask(amqp091.BasicConsume(channel=1, queue=queue, consumer_tag="c"), amqp091.BasicConsumeOk)
    client.send(amqp091.QueueDelete(channel=1, queue=queue))
    kinds = {type(client.receive()) for _ in range(2)}
    assert kinds == {amqp091.QueueDeleteOk, amqp091.BasicCancel}


def test_refused_publish(client: Client) -> None:
    queue = client.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.ask(amqp091.ConfirmSelect(channel=1), amqp091.ConfirmSelectOk)
    client.publish(queue, b"1")
    client.expect(amqp091.BasicAck)
    client.publish(queue, b"2")
    assert client.expect(amqp091.BasicNack).delivery_tag == 2


# ---- what the broker thinks of mistakes


def body(channel: int, octets: bytes = b"x") -> amqp091.Body:
    return amqp091.Body(channel=channel, payload=octets)


def raw(type: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", type, channel, len(payload)) + payload + end


publish = amqp091.BasicPublish(channel=1)
CONNECTION_ERRORS: dict[str, tuple[int, list[Any]]] = {
    "body without header": (505, [publish, body(1)]),
    "body without method": (505, [body(1)]),
    "method within content": (505, [publish, amqp091.BasicQos(channel=1)]),
    "header on channel 0": (505, [amqp091.ContentHeader(channel=1, body_size=1)]),
    "open twice": (504, [amqp091.ChannelOpen(channel=1)]),
    "channel never opened": (504, [amqp091.BasicQos(channel=9)]),
    "flow stops": (540, [amqp091.ChannelFlow(channel=1, active=False)]),
    "immediate": (540, [amqp091.BasicMessage(amqp091.BasicPublish(channel=1, immediate=True))]),
    "unknown type of exchange": (503, [amqp091.ExchangeDeclare(channel=1, exchange="x", type="nonsense")]),
    "wrong end of frame": (501, [raw(1, 1, b"\0\x3c\0\x0a" + bytes(7), b"\0")]),
    "frame too large": (501, [body(1, b"x" * 200_000)]),
}


@pytest.mark.parametrize("case", CONNECTION_ERRORS)
def test_connection_errors(client: Client, case: str) -> None:
    code, messages = CONNECTION_ERRORS[case]
    names = {reply.code: reply.name.replace("-", "_").upper() for reply in spec.REPLY_CODES}
    client.socket.sendall(b"".join(m if isinstance(m, bytes) else m.encode() for m in messages))
    close = client.expect(amqp091.ConnectionClose)
    assert close.reply_code == code
    assert close.reply_text.startswith(names[code])
    client.send(amqp091.ConnectionCloseOk())


def test_unknown_host_and_wrong_password(rabbitmq: Broker) -> None:
    with Client(rabbitmq.port, host="nowhere") as client:
        assert client.expect(amqp091.ConnectionClose).reply_code == 530
    with Client(rabbitmq.port, response="\0guest\0wrong") as client:
        assert client.expect(amqp091.ConnectionClose).reply_code == 403


@pytest.mark.parametrize("octets", [b"AMQP\x00\x00\x09\x02", b"AMQP\x01\x01\x00\x0a", b"GET / HT"])
def test_wrong_protocol_header(rabbitmq: Broker, octets: bytes) -> None:
    """The broker says what it speaks."""
    with socket.create_connection((HOST, rabbitmq.port), timeout=PATIENCE) as connection:
        connection.sendall(octets)
        (header,) = amqp091.Decoder(side="server").feed(connection.recv(64))
        assert header == amqp091.ProtocolHeader()
