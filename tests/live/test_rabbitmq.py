"""A real RabbitMQ on loopback, AMQP 0.9.1: what pika, py-amqp and the broker say to each other is read under STRICT and
written again octet by octet, and means what they meant by it; and a client made of wirefmt's own frames, with pika and
py-amqp at the other end. AMQP 1.0 stands in test_rabbitmq_amqp10.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal

import pytest

from lib.amqp091_vectors import built, shown
from lib.proxy import CLIENT, HOST, SERVER, Conversation, Proxy
from lib.rabbitmq import PASSWORD, USER, Broker
from lib.skips import imported
from wirefmt import amqp091

pytestmark = pytest.mark.live

PATIENCE = 15.0  # seconds for something that must come
SIDES: Final[tuple[Literal["client"], Literal["server"]]] = ("client", "server")
MOMENT = datetime(2026, 11, 21, 8, 30, 1, tzinfo=UTC)
SECONDS = int(MOMENT.timestamp())


# ---- what was recorded


class Dialogue:
    """A recorded connection, read. Making one checks what is true of all: every frame is read under STRICT as its octets
    came, is written as it was, and can be built from its values; contents joined by the Assembler are the frames of
    their channel."""

    def __init__(self, conversation: Conversation) -> None:
        self.frames = [self.read(conversation, side) for side in (CLIENT, SERVER)]
        self.messages = [self.assemble(conversation, side) for side in (CLIENT, SERVER)]

    def read(self, conversation: Conversation, side: int) -> list[Any]:
        decoder = amqp091.Decoder(side=SIDES[side])
        frames = [f for sender, octets in conversation.chunks if sender == side for f in decoder.feed(octets)]
        decoder.close()
        assert b"".join(frame.encode() for frame in frames) == conversation.octets(side)
        for frame in frames:
            assert built(shown(frame)).encode() == frame.encode(), frame
        return frames

    def assemble(self, conversation: Conversation, side: int) -> list[Any]:
        assembler = amqp091.Assembler(side=SIDES[side])
        messages = [m for sender, octets in conversation.chunks if sender == side for m in assembler.feed(octets)]
        assembler.close()
        for channel in {frame.channel for frame in self.frames[side]}:
            parts = [b"".join(m.encode() for m in all if m.channel == channel) for all in (messages, self.frames[side])]
            assert parts[0] == parts[1]
        return messages

    def sent(self, kind: type[amqp091.Frame]) -> list[Any]:
        """Methods of the client; those with content have it."""
        return self.of(kind, CLIENT)

    def received(self, kind: type[amqp091.Frame]) -> list[Any]:
        return self.of(kind, SERVER)

    def of(self, kind: type[amqp091.Frame], side: int) -> list[Any]:
        return [m for m in self.messages[side] if type(getattr(m, "method", m)) is kind]

    def names(self, side: int) -> set[str]:
        return {m.name for m in self.frames[side] if isinstance(m, amqp091.Method)}


def dialogue(proxy: Proxy) -> Dialogue:
    """The only one."""
    (conversation,) = proxy.finish()
    return Dialogue(conversation)


def wait(step: Callable[[], Any], done: Callable[[], bool]) -> None:
    """Steps until it is done."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it does not come"
        step()


def plain(value: Any) -> Any:
    """Of a table, as Python's clients have it: dicts, lists, datetimes."""
    if isinstance(value, amqp091.FieldTable):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, amqp091.FieldArray):
        return [plain(item) for item in value]
    return value.to_datetime() if isinstance(value, amqp091.Timestamp) else value


def letters(table: amqp091.FieldTable) -> dict[Any, str]:
    return {name: letter for name, letter, _ in table.entries}


#: What a client sends, and the type it chooses for it: facts of pika/data.py and amqp/serialization.py.
PIKA_TYPES = {
    "text": ("grüße", "S"),
    "no text": ("", "S"),
    "octets": (b"\x00\xff", "x"),
    "yes": (True, "t"),
    "no": (False, "t"),
    "int": (-(2**31), "I"),
    "more": (2**31, "l"),
    "least": (-(2**63), "l"),
    "decimal": (Decimal("1234.5"), "D"),
    "whole": (Decimal(7), "D"),
    "moment": (MOMENT, "T"),
    "table": ({"a": {"b": [1, None, {"c": "d"}]}, "e": {}}, "F"),
    "array": (["x", True, None, [], [b"", [2**40]]], "A"),
    "nothing": (None, "V"),
}
PY_AMQP_TYPES = {
    "text": ("grüße", "S"),
    "octets": (b"\x00\xff", "S"),
    "yes": (True, "t"),
    "int": (2**31 - 1, "I"),
    "more": (2**31, "L"),
    "less": (-(2**31), "L"),
    "double": (1.1, "d"),
    "decimal": (Decimal("1234.5"), "D"),
    "moment": (MOMENT.replace(tzinfo=None), "T"),
    "table": ({"a": {"b": [1, None, {"c": "d"}]}, "e": {}}, "F"),
    "array": (["x", True, None, [], [2**40]], "A"),
    "nothing": (None, "V"),
}
PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "identity",
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "c-1",
    "reply_to": "answers/é",
    "expiration": "600000",
    "message_id": "m-1",
    "timestamp": SECONDS,
    "type": "kind",
    "user_id": USER,
    "app_id": "wirefmt",
    "cluster_id": "none",
}
BODIES = [b"", b"\x00\xce", b"x" * (131072 - 8), b"y" * (131072 - 7), bytes(range(256)) * 2000]


def same_moments(value: Any) -> Any:
    """py-amqp's datetimes know no zone."""
    return {k: v.replace(tzinfo=UTC) if isinstance(v, datetime) else v for k, v in value.items()}


# ---- pika


@contextlib.contextmanager
def pika_connection(port: int, **more: Any) -> Iterator[Any]:
    pika = imported("pika")
    more.setdefault("credentials", pika.PlainCredentials(USER, PASSWORD))
    more.setdefault("socket_timeout", PATIENCE)
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, port, **more))
    try:
        yield connection
    finally:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def pika_properties(headers: Any = None, **fields: Any) -> Any:
    import pika

    return pika.BasicProperties(headers=headers, **fields)


def test_pika_handshake(proxy: Proxy) -> None:
    with pika_connection(proxy.port, client_properties={"connection_name": "näme", "n": [1]}, frame_max=8192):
        pass
    talk = dialogue(proxy)
    header = talk.frames[CLIENT][0]
    assert isinstance(header, amqp091.ProtocolHeader)
    assert header.octets == b"\x00\x00\x09\x01"
    (start,) = talk.received(amqp091.ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.server_properties["product"] == "RabbitMQ"
    assert start.server_properties["capabilities"]["consumer_cancel_notify"] is True
    assert b"PLAIN" in start.mechanisms.split(b" ")
    (start_ok,) = talk.sent(amqp091.ConnectionStartOk)
    assert (start_ok.mechanism, start_ok.response, start_ok.locale) == ("PLAIN", b"\0guest\0guest", "en_US")
    assert plain(start_ok.client_properties)["n"] == [1]
    assert start_ok.client_properties["connection_name"] == "näme"
    (tune,), (tune_ok,) = talk.received(amqp091.ConnectionTune), talk.sent(amqp091.ConnectionTuneOk)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)
    assert (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat) == (2047, 8192, 60)
    (opened,) = talk.sent(amqp091.ConnectionOpen)
    assert opened.virtual_host == "/"
    (close,) = talk.sent(amqp091.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (200, "Normal shutdown")
    assert talk.received(amqp091.ConnectionOpenOk)
    assert talk.received(amqp091.ConnectionCloseOk)


def test_pika_properties_and_bodies(proxy: Proxy) -> None:
    headers = {name: value for name, (value, _) in PIKA_TYPES.items()}
    came = []
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True, arguments={"x-max-priority": 9}).method.queue
        for body in BODIES:
            channel.basic_publish("", queue, body, pika_properties(headers, **PROPERTIES))
        for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE):
            came.append((method, properties, body))
            channel.basic_ack(method.delivery_tag)
            if len(came) == len(BODIES):
                break
        channel.cancel()
    talk = dialogue(proxy)
    published, delivered = talk.sent(amqp091.BasicPublish), talk.received(amqp091.BasicDeliver)
    assert [m.body_bytes() for m in published] == BODIES
    assert [m.body_bytes() for m in delivered] == BODIES
    assert [len(m.body_sizes) for m in published] == [0, 1, 1, 2, 4]
    assert [a.delivery_tag for a in talk.sent(amqp091.BasicAck)] == [1, 2, 3, 4, 5]
    for message in published:
        assert (message.method.exchange, message.method.routing_key, message.method.mandatory) == ("", queue, False)
    for message, (method, properties, body) in zip(delivered, came, strict=True):
        deliver = message.method
        assert (deliver.consumer_tag, deliver.delivery_tag, deliver.redelivered, deliver.exchange) == (
            method.consumer_tag,
            method.delivery_tag,
            method.redelivered,
            method.exchange,
        )
        assert deliver.routing_key == method.routing_key == queue
        assert message.body_bytes() == body
        assert plain(message.properties.headers) == properties.headers == headers
    for message in published + delivered:
        assert letters(message.properties.headers) == {name: letter for name, (_, letter) in PIKA_TYPES.items()}
        for name, value in PROPERTIES.items():
            assert getattr(message.properties, name) == value, name


def test_pika_confirms_returns_and_nacks(proxy: Proxy) -> None:
    pika = imported("pika")
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        full = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = channel.queue_declare("", exclusive=True, arguments=full).method.queue
        channel.basic_publish("", queue, b"kept", mandatory=True)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", queue, b"refused")
        with pytest.raises(pika.exceptions.UnroutableError) as caught:
            channel.basic_publish("", "nobody", b"back", pika_properties({"h": 1}, message_id="m"), mandatory=True)
    (back,) = caught.value.messages
    talk = dialogue(proxy)
    assert talk.sent(amqp091.ConfirmSelect)
    assert talk.received(amqp091.ConfirmSelectOk)
    assert [m.method.mandatory for m in talk.sent(amqp091.BasicPublish)] == [True, False, True]
    (nack,) = talk.received(amqp091.BasicNack)
    assert nack.delivery_tag == 2
    assert [a.delivery_tag for a in talk.received(amqp091.BasicAck)] == [1, 3]
    (returned,) = talk.received(amqp091.BasicReturn)
    method = returned.method
    assert (method.reply_code, method.reply_text, method.exchange, method.routing_key) == (
        back.method.reply_code,
        back.method.reply_text,
        "",
        "nobody",
    )
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (returned.body_bytes(), returned.properties.message_id) == (b"back", "m")
    assert returned.properties.headers == {"h": 1}


def test_pika_get_settle_and_recover(proxy: Proxy) -> None:
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7, global_qos=True)
        queue = channel.queue_declare("", exclusive=True).method.queue
        assert channel.basic_get(queue) == (None, None, None)
        for i in range(6):
            channel.basic_publish("", queue, str(i).encode())
        got = [channel.basic_get(queue)[0] for _ in range(6)]
        channel.basic_ack(got[1].delivery_tag, multiple=True)
        channel.basic_nack(got[3].delivery_tag, multiple=True, requeue=True)
        channel.basic_reject(got[4].delivery_tag, requeue=False)
        channel.basic_recover(requeue=True)
        left = channel.queue_declare(queue, passive=True).method.message_count
        again = channel.basic_get(queue, auto_ack=True)[0]
        channel.queue_purge(queue)
    assert left == 3
    talk = dialogue(proxy)
    (qos,) = talk.sent(amqp091.BasicQos)
    assert (qos.prefetch_size, qos.prefetch_count, qos.global_) == (0, 7, True)
    assert len(talk.received(amqp091.BasicQosOk)) == len(talk.received(amqp091.BasicGetEmpty)) == 1
    found = talk.received(amqp091.BasicGetOk)
    assert [m.method.message_count for m in found[:6]] == [5, 4, 3, 2, 1, 0]
    assert [m.body_bytes() for m in found] == [b"0", b"1", b"2", b"3", b"4", b"5", b"2"]
    assert [m.method.redelivered for m in found] == [False] * 6 + [again.redelivered]
    assert again.redelivered
    (ack,), (nack,), (reject,) = map(talk.sent, (amqp091.BasicAck, amqp091.BasicNack, amqp091.BasicReject))
    assert (ack.delivery_tag, ack.multiple) == (2, True)
    assert (nack.delivery_tag, nack.multiple, nack.requeue) == (4, True, True)
    assert (reject.delivery_tag, reject.requeue) == (5, False)
    assert [r.requeue for r in talk.sent(amqp091.BasicRecover)] == [True]
    assert talk.received(amqp091.BasicRecoverOk)
    assert [g.no_ack for g in talk.sent(amqp091.BasicGet)] == [False] * 7 + [True]
    counted = [(q.queue, q.message_count, q.consumer_count) for q in talk.received(amqp091.QueueDeclareOk)]
    assert counted == [(queue, 0, 0), (queue, 3, 0)]
    assert [p.message_count for p in talk.received(amqp091.QueuePurgeOk)] == [2]


def test_pika_topology(proxy: Proxy) -> None:
    arguments = {"x-match": "all", "n": 1, "list": ["a", None]}
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        channel.exchange_declare("here", "headers", durable=True, auto_delete=False, internal=False)
        channel.exchange_declare("there", "topic", internal=True, arguments={"alternate-exchange": "amq.fanout"})
        channel.exchange_declare("here", passive=True)
        channel.queue_declare("box", durable=True, auto_delete=True, arguments={"x-message-ttl": 60000})
        channel.queue_bind("box", "here", "key", arguments)
        channel.exchange_bind("there", "here", "a.#", arguments)
        channel.exchange_unbind("there", "here", "a.#", arguments)
        channel.queue_unbind("box", "here", "key", arguments)
        channel.queue_delete("box", if_unused=True, if_empty=True)
        channel.exchange_delete("there", if_unused=True)
        channel.exchange_delete("here")
        channel.flow(True)
        channel.close(320, "enough")
    talk = dialogue(proxy)
    exchanges = talk.sent(amqp091.ExchangeDeclare)
    assert [(e.exchange, e.type, e.passive, e.durable, e.internal) for e in exchanges] == [
        ("here", "headers", False, True, False),
        ("there", "topic", False, False, True),
        ("here", "direct", True, False, False),
    ]
    assert exchanges[1].arguments == {"alternate-exchange": "amq.fanout"}
    (queue,) = talk.sent(amqp091.QueueDeclare)
    assert (queue.queue, queue.durable, queue.auto_delete, queue.exclusive) == ("box", True, True, False)
    assert queue.arguments == {"x-message-ttl": 60000}
    for kind in (amqp091.ExchangeBind, amqp091.ExchangeUnbind):
        (bind,) = talk.sent(kind)
        assert (bind.destination, bind.source, bind.routing_key) == ("there", "here", "a.#")
        assert plain(bind.arguments) == arguments
    for of_queue in (amqp091.QueueBind, amqp091.QueueUnbind):
        (bound,) = talk.sent(of_queue)
        assert (bound.queue, bound.exchange, bound.routing_key) == ("box", "here", "key")
        assert plain(bound.arguments) == arguments
    (delete,) = talk.sent(amqp091.QueueDelete)
    assert (delete.if_unused, delete.if_empty) == (True, True)
    assert [(e.exchange, e.if_unused) for e in talk.sent(amqp091.ExchangeDelete)] == [("there", True), ("here", False)]
    (flow,), (flow_ok,) = talk.sent(amqp091.ChannelFlow), talk.received(amqp091.ChannelFlowOk)
    assert (flow.active, flow_ok.active) == (True, True)
    (close,) = talk.sent(amqp091.ChannelClose)
    assert (close.reply_code, close.reply_text) == (320, "enough")
    answers = {"exchange.bind-ok", "exchange.unbind-ok", "queue.bind-ok", "queue.unbind-ok", "queue.delete-ok"}
    assert answers | {"exchange.declare-ok", "exchange.delete-ok", "channel.close-ok"} <= talk.names(SERVER)


def test_pika_consumer_cancel_notify(proxy: Proxy) -> None:
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        cancelled: list[Any] = []
        channel.add_on_cancel_callback(cancelled.append)
        channel.queue_declare("going")
        tag = channel.basic_consume(
            "going", lambda *_: None, consumer_tag="täg", exclusive=True, arguments={"x-priority": 3}
        )
        channel.queue_delete("going")
        wait(lambda: connection.process_data_events(0.1), lambda: bool(cancelled))
    talk = dialogue(proxy)
    (consume,), (consume_ok,) = talk.sent(amqp091.BasicConsume), talk.received(amqp091.BasicConsumeOk)
    assert (consume.queue, consume.consumer_tag, consume.exclusive, consume.no_ack) == ("going", tag, True, False)
    assert consume.arguments == {"x-priority": 3}
    assert consume_ok.consumer_tag == tag == "täg"
    (cancel,) = talk.received(amqp091.BasicCancel)
    assert (cancel.consumer_tag, cancel.nowait) == (tag, True)


def test_pika_transactions(proxy: Proxy) -> None:
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.tx_select()
        channel.basic_publish("", queue, b"kept")
        channel.tx_commit()
        channel.basic_publish("", queue, b"forgotten")
        channel.tx_rollback()
        assert channel.basic_get(queue, auto_ack=True)[2] == b"kept"
        assert channel.basic_get(queue)[2] is None
    talk = dialogue(proxy)
    order = [m.name for m in talk.frames[CLIENT] if isinstance(m, amqp091.Method) and m.name.startswith("tx.")]
    assert order == ["tx.select", "tx.commit", "tx.rollback"]
    assert {"tx.select-ok", "tx.commit-ok", "tx.rollback-ok"} <= talk.names(SERVER)


def test_pika_channels_at_once(proxy: Proxy) -> None:
    """Deliveries on several channels, in frames of the smallest size."""
    bodies = {f"large {n}": bytes([n]) * 100_000 for n in (1, 2, 3)}
    came: dict[str, bytes] = {}

    def keep(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        came[method.routing_key] = body

    with pika_connection(proxy.port, frame_max=4096) as connection:
        channels = [connection.channel() for _ in bodies]
        for channel, (queue, body) in zip(channels, bodies.items(), strict=True):
            channel.queue_declare(queue, exclusive=True)
            channel.basic_publish("", queue, body)
        for channel, queue in zip(channels, bodies, strict=True):
            channel.basic_consume(queue, keep, auto_ack=True)
        wait(lambda: connection.process_data_events(0.1), lambda: len(came) == len(bodies))
    assert came == bodies
    talk = dialogue(proxy)
    delivered = talk.received(amqp091.BasicDeliver)
    assert {m.method.routing_key: m.body_bytes() for m in delivered} == bodies
    assert all(max(m.body_sizes) == 4096 - 8 for m in delivered)


def test_pika_blocked(rabbitmq: Broker, proxy: Proxy) -> None:
    """A broker without memory: connection.blocked to who publishes, connection.unblocked later."""
    with pika_connection(proxy.port) as connection:
        said: list[Any] = []
        connection.add_on_connection_blocked_callback(lambda _, frame: said.append(frame.method))
        connection.add_on_connection_unblocked_callback(lambda _, frame: said.append(frame.method))
        channel = connection.channel()
        try:
            rabbitmq.control("set_vm_memory_high_watermark", "0.0000001")
            channel.basic_publish("", "nobody", b"x")
            wait(lambda: connection.process_data_events(0.1), lambda: len(said) == 1)
        finally:
            rabbitmq.control("set_vm_memory_high_watermark", "0.4")
        wait(lambda: connection.process_data_events(0.1), lambda: len(said) == 2)
    talk = dialogue(proxy)
    (blocked,) = talk.received(amqp091.ConnectionBlocked)
    assert blocked.reason == said[0].reason == "low on memory"
    assert len(talk.received(amqp091.ConnectionUnblocked)) == 1


def test_pika_heartbeats(proxy: Proxy) -> None:
    with pika_connection(proxy.port, heartbeat=2) as connection:
        connection.sleep(2.5)
    talk = dialogue(proxy)
    assert talk.sent(amqp091.ConnectionTuneOk)[0].heartbeat == 2
    assert talk.sent(amqp091.Heartbeat)
    assert talk.received(amqp091.Heartbeat)


def test_pika_update_secret(proxy: Proxy) -> None:
    pika = imported("pika")
    if not hasattr(pika.BlockingConnection, "update_secret"):
        pytest.skip("needs pika 1.4 (pip install -U pika)")
    with pika_connection(proxy.port) as connection:
        connection.update_secret("new\x00secret", "expired")
    talk = dialogue(proxy)
    (update,) = talk.sent(amqp091.ConnectionUpdateSecret)
    assert (update.new_secret, update.reason) == (b"new\x00secret", "expired")
    assert len(talk.received(amqp091.ConnectionUpdateSecretOk)) == 1


#: What a broker refuses on a channel: its reply code, words of its text, the method it blames.
CHANNEL_ERRORS: dict[str, tuple[int, str, tuple[int, int], Callable[[Any], Any]]] = {
    "not found": (404, "NOT_FOUND", (50, 10), lambda c: c.queue_declare("absent", passive=True)),
    "other type": (406, "PRECONDITION_FAILED", (40, 10), lambda c: c.exchange_declare("amq.direct", "fanout")),
    "reserved": (403, "ACCESS_REFUSED", (40, 10), lambda c: c.exchange_declare("amq.mine")),
    "locked": (405, "RESOURCE_LOCKED", (50, 10), lambda c: c.queue_declare("mine alone", passive=True)),
    "unknown tag": (406, "unknown delivery tag 7", (60, 80), lambda c: (c.basic_ack(7), c.queue_declare("x"))),
    "no exchange": (404, "no exchange", (60, 40), lambda c: (c.basic_publish("none", "", b""), c.queue_declare("x"))),
}


@pytest.mark.parametrize("case", CHANNEL_ERRORS)
def test_pika_channel_errors(rabbitmq: Broker, proxy: Proxy, case: str) -> None:
    pika = imported("pika")
    code, words, method, act = CHANNEL_ERRORS[case]
    with pika_connection(rabbitmq.port) as owner, pika_connection(proxy.port) as connection:
        owner.channel().queue_declare("mine alone", exclusive=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            act(connection.channel())
    talk = dialogue(proxy)
    (close,) = talk.received(amqp091.ChannelClose)
    assert (close.reply_code, close.reply_text) == (caught.value.reply_code, caught.value.reply_text)
    assert close.reply_code == code
    assert words in close.reply_text
    assert (close.class_id, close.method_id) == method
    assert talk.sent(amqp091.ChannelCloseOk)


def flow_stops(connection: Any) -> None:
    connection.channel().flow(False)


CONNECTION_ERRORS: dict[str, tuple[int, str, dict[str, Any], Callable[[Any], Any]]] = {
    "no such host": (530, "NOT_ALLOWED", {"virtual_host": "nowhere"}, lambda _: None),
    "not implemented": (540, "NOT_IMPLEMENTED", {}, flow_stops),
    "not let in": (403, "ACCESS_REFUSED", {"password": "wrong"}, lambda _: None),
}


@pytest.mark.parametrize("case", CONNECTION_ERRORS)
def test_pika_connection_errors(proxy: Proxy, case: str) -> None:
    pika = imported("pika")
    code, words, more, act = CONNECTION_ERRORS[case]
    if "password" in more:
        more = {"credentials": pika.PlainCredentials(USER, more["password"])}
    with pytest.raises(pika.exceptions.AMQPError), pika_connection(proxy.port, **more) as connection:
        act(connection)
    talk = dialogue(proxy)
    (close,) = talk.received(amqp091.ConnectionClose)
    assert close.reply_code == code
    assert close.reply_text.startswith(words)


def test_dead_letters(proxy: Proxy) -> None:
    """Content that the broker writes anew: what it read of every type, and the table of arrays of tables it adds."""
    headers = {name: value for name, (value, _) in PIKA_TYPES.items()}
    with pika_connection(proxy.port) as connection:
        channel = connection.channel()
        grave = channel.queue_declare("", exclusive=True).method.queue
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
        queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
        channel.basic_publish("", queue, b"dead", pika_properties(headers, **PROPERTIES))
        channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
        found: list[Any] = []
        wait(
            lambda: found.append(channel.basic_get(grave, auto_ack=True)), lambda: found[-1:] not in ([], [(None,) * 3])
        )
    talk = dialogue(proxy)
    got = talk.received(amqp091.BasicGetOk)[-1]
    assert got.body_bytes() == found[-1][2] == b"dead"
    assert plain(got.properties.headers) == found[-1][1].headers
    own = {name: letter for name, letter in letters(got.properties.headers).items() if name in PIKA_TYPES}
    assert own == {name: letter for name, (_, letter) in PIKA_TYPES.items()}
    (death,) = got.properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"], death["routing-keys"]) == ("rejected", queue, 1, [queue])
    assert letters(death)["time"] == "T"


# ---- py-amqp


@contextlib.contextmanager
def py_amqp_connection(port: int, **more: Any) -> Iterator[Any]:
    amqp = pytest.importorskip("amqp", reason="needs py-amqp (pip install amqp)")
    more = {"login_method": "PLAIN", "connect_timeout": PATIENCE, "read_timeout": PATIENCE, **more}
    connection = amqp.Connection(f"{HOST}:{port}", USER, PASSWORD, **more)
    connection.connect()
    try:
        yield connection
    finally:
        connection.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_py_amqp_handshake(proxy: Proxy, mechanism: str) -> None:
    with py_amqp_connection(proxy.port, login_method=mechanism, client_properties={"n": [1, 2.5]}, heartbeat=2) as c:
        c.send_heartbeat()
        wait(lambda: c.drain_events(PATIENCE) if c.bytes_recv else None, lambda: c.bytes_recv > 0)
    talk = dialogue(proxy)
    (start_ok,) = talk.sent(amqp091.ConnectionStartOk)
    assert start_ok.mechanism == mechanism
    if mechanism == "AMQPLAIN":
        login = amqp091.FieldTable.decode(len(start_ok.response).to_bytes(4, "big") + bytes(start_ok.response))
        assert login == {"LOGIN": USER, "PASSWORD": PASSWORD}
    assert plain(start_ok.client_properties)["n"] == [1, 2.5]
    assert plain(start_ok.client_properties)["capabilities"]["consumer_cancel_notify"] is True
    assert talk.sent(amqp091.Heartbeat)


def test_py_amqp_properties_and_bodies(proxy: Proxy) -> None:
    amqp = pytest.importorskip("amqp", reason="needs py-amqp (pip install amqp)")
    headers = {name: value for name, (value, _) in PY_AMQP_TYPES.items()}
    came: list[Any] = []
    with py_amqp_connection(proxy.port) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).queue
        for body in BODIES:
            channel.basic_publish(amqp.Message(body, application_headers=headers, **PROPERTIES), routing_key=queue)
        tag = channel.basic_consume(queue, callback=came.append)
        while len(came) < len(BODIES):
            connection.drain_events(PATIENCE)
        for message in came:
            channel.basic_ack(message.delivery_tag)
        channel.basic_cancel(tag)
    talk = dialogue(proxy)
    published, delivered = talk.sent(amqp091.BasicPublish), talk.received(amqp091.BasicDeliver)
    assert [m.body_bytes() for m in published] == [m.body_bytes() for m in delivered] == BODIES
    for message, theirs in zip(delivered, came, strict=True):
        assert same_moments(plain(message.properties.headers)) == same_moments(theirs.headers)
        assert message.method.delivery_tag == theirs.delivery_info["delivery_tag"]
    for message in published + delivered:
        assert letters(message.properties.headers) == {name: letter for name, (_, letter) in PY_AMQP_TYPES.items()}
        expected = same_moments(headers) | {"octets": b"\x00\xff"}
        assert plain(message.properties.headers) == expected
        for name, value in PROPERTIES.items():
            assert getattr(message.properties, name) == value, name
    assert [c.consumer_tag for c in talk.sent(amqp091.BasicCancel)] == [tag]
    assert [c.consumer_tag for c in talk.received(amqp091.BasicCancelOk)] == [tag]


def test_py_amqp_everything_else(proxy: Proxy) -> None:
    """Every other method that py-amqp sends, with its arguments."""
    amqp = pytest.importorskip("amqp", reason="needs py-amqp (pip install amqp)")
    with py_amqp_connection(proxy.port) as connection:
        channel = connection.channel()
        channel.exchange_declare("one", "topic", auto_delete=False, arguments={"x": 2**40})
        channel.exchange_declare("two", "fanout", auto_delete=False, durable=True)
        channel.exchange_bind("two", "one", "k.*", arguments={"a": 1.5})
        queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 100}).queue
        channel.queue_bind(queue, "two", "r", arguments={"b": None})
        channel.confirm_select()
        confirmed: list[int] = []
        channel.events["basic_ack"].add(lambda tag, _: confirmed.append(tag))
        channel.basic_publish(amqp.Message("1"), "one", "k.1", mandatory=True)
        channel.basic_publish(amqp.Message("2"), "one", "k.2")
        returned: list[Any] = []
        channel.events["basic_return"].add(lambda *args: returned.append(args))
        channel.basic_publish(amqp.Message("3"), "one", "other", mandatory=True)
        wait(lambda: connection.drain_events(PATIENCE), lambda: 3 in confirmed)
        channel.basic_qos(0, 5, a_global=True)
        first = channel.basic_get(queue)
        channel.basic_reject(first.delivery_tag, requeue=True)
        channel.basic_recover(requeue=True)
        assert channel.queue_purge(queue) == 2
        assert channel.basic_get(queue) is None
        channel.queue_unbind(queue, "two", "r", arguments={"b": None})
        channel.exchange_unbind("two", "one", "k.*", arguments={"a": 1.5})
        channel.queue_delete(queue)
        channel.exchange_delete("one")
        channel.exchange_delete("two")
        channel.flow(True)
        channel.close()
        other = connection.channel()
        other.tx_select()
        other.tx_commit()
        other.tx_rollback()
        other.close()
    talk = dialogue(proxy)
    assert talk.sent(amqp091.ExchangeDeclare)[0].arguments.entries == (("x", "L", 2**40),)
    assert talk.sent(amqp091.ExchangeBind)[0].arguments == {"a": 1.5}
    assert talk.sent(amqp091.QueueBind)[0].arguments == {"b": None}
    (back,) = talk.received(amqp091.BasicReturn)
    assert (back.method.reply_code, back.body_bytes()) == (returned[0][0].reply_code, b"3")
    assert (back.method.exchange, back.method.routing_key) == ("one", "other")
    assert max(confirmed) == 3
    sent = {"exchange.unbind", "queue.unbind", "basic.recover", "basic.reject", "tx.rollback", "channel.flow"}
    assert sent <= talk.names(CLIENT)
    answers = {"exchange.bind-ok", "exchange.unbind-ok", "queue.unbind-ok", "basic.recover-ok", "tx.rollback-ok"}
    assert answers <= talk.names(SERVER)
