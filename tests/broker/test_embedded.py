"""All six protocols in one broker: listeners, users, views, reset. Clients are our own unless stated otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lib.kinds import checked
from lib.loopback import HOST, OPENSSL, certificate, run, until
from lib.ports import free_port
from wirefmt import amqp091, amqp10, broker, mqtt, nsq, phpmq, rocketmq
from wirefmt.amqp091.aio_channel import Link
from wirefmt.broker import Broker, Message, NotSeen, Options
from wirefmt.broker import amqp10 as amqp10_broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.connection import aio
from wirefmt.connection.sasl import Scram
from wirefmt.errors import ConnectionLost, Refused

ALL = ("mqtt", "amqp", "amqp10", "nsq", "rocketmq", "phpmq")


def message(text: str) -> amqp10.Message:
    return amqp10.Message(body=text.encode())


@pytest.mark.parametrize("target", ["/queues/q", None])
def test_application_properties_that_are_no_simple_values_are_taken(target: str | None) -> None:
    """3.2.5 forbids lists, maps and arrays; RabbitMQ keeps them. A message that breaks another rule is rejected."""
    properties = b"\0\x53\x73\xc0\x0e\x03\x40\x40\xa1\x09/queues/q"  # `to`
    compound = (
        b"\xa1\x04list\xc0\x04\x02\x41\x54\x07"  # [true, int 7]
        b"\xa1\x03map\xc1\x06\x02\xa1\x01k\x54\x07"  # {"k": int 7}
        b"\xa1\x05array\xe0\x04\x02\x54\x01\x02"  # of int: [1, 2]
    )
    section = b"\0\x53\x74\xc1" + bytes((len(compound) + 1, 6)) + compound
    data = b"\0\x53\x75\xa0\x01x"

    async def test() -> None:
        async with Broker(ports={"amqp10": 0}) as b, amqp10.connect(b.url("amqp10")) as client:
            sender = await client.sender(target or amqp10.Target())
            assert await sender.post(properties + section + data) == amqp10.Accepted()
            broken = properties + b"\0\x53\x75\x40"  # data is binary, not null
            with pytest.raises(Refused, match=r"amqp:decode-error"):
                await sender.post(broken)
            assert b.queue("q")[0].body == b"x"
            receiver = await client.receiver("/queues/q")
            delivery = await receiver.receive()
            assert bytes(delivery.payload).endswith(properties + section + data)

    run(test())


@pytest.mark.parametrize("without_body", ["null", "reject"])
@pytest.mark.parametrize(
    "sections", [b"", b"\0\x53\x70\x45", b"\0\x53\x73\xc0\x04\x01\xa1\x01i"], ids=["empty", "header", "properties"]
)
def test_a_message_without_a_body(without_body: Any, sections: bytes) -> None:
    """3.2 wants a body; a plain proton.Message() has none, and Artemis takes it."""

    async def test() -> None:
        options = amqp10_broker.BrokerOptions(without_body=without_body)
        async with (
            Broker(ports={"amqp10": 0, "amqp": 0}, amqp10=options) as b,
            amqp10.connect(b.url("amqp10")) as client,
        ):
            sender = await client.sender("/queues/q")
            if without_body == "reject":
                with pytest.raises(Refused, match=r"amqp:decode-error message: message has no body .*\[3.2\]"):
                    await sender.post(sections)
                return
            entry = amqp10.Map({amqp10.Symbol("x"): amqp10.Int(1)})
            long = b"\xd1\0\0\0\x0c\0\0\0\2\xa3\1x\x71\0\0\0\1"  # the same with the long forms
            footers = (
                b"",
                *(form + entry.encode() for form in amqp10_broker._FOOTERS),
                amqp10_broker._FOOTERS[1] + long,
            )
            for footer in footers:
                assert await sender.post(sections + footer) == amqp10.Accepted()
            receiver = await client.receiver("/queues/q")
            for footer in footers:
                delivery = await receiver.receive()
                assert delivery.message.notes == ()
                assert delivery.message.body == (amqp10.AmqpValue(None),)
                assert delivery.message.footer == (entry if footer else None)
                assert bytes(delivery.payload).endswith(amqp10_broker.NULL_BODY + footer)

    run(test())


def test_all_six_are_served_and_seen() -> None:
    async def test() -> None:
        async with Broker() as b:
            assert len({b.port(name) for name in ALL}) == 6
            async with mqtt.connect(b.url("mqtt"), client_identifier="meter") as client:
                await client.publish("plant/line-1", b"21.5", qos=1)
                await client.publish("office", b"0", qos=1)
                assert [(c.protocol, c.name) for c in await b.clients.wait(1)] == [("mqtt", "meter")]
                assert b.topic("plant/+").messages[0].body == b"21.5"
                assert b.topic("plant/+").last == (await b.topic("#").wait(2))[0]
            async with amqp091.connect(b.url("amqp")) as client:
                channel = await client.channel()
                await channel.declare_queue("orders")
                await channel.publish(b"one", routing_key="orders")
                assert (await b.queue("orders").wait(1))[0].body == b"one"
            async with amqp10.connect(b.url("amqp10")) as client:
                sender = await client.sender("/queues/ten")
                await sender.send(message("two"))
                assert b.queue("ten")[0].body == b"two"
            async with nsq.connect(b.url("nsq")) as client:
                await client.publish("topic", b"three")
                assert [m.body for m in b.queue("topic", "nsq")] == [b"three"]
            async with rocketmq.connect(b.url("rocketmq")) as client:
                await client.producer("group").send("Topic", b"four")
                assert checked(b.topic("Topic", "rocketmq").last, Message).body == b"four"
            async with phpmq.connect(b.url("phpmq")) as client:
                await client.publish("list", b"five")
                assert (await b.queue("list", "phpmq").wait(1))[0].body == b"five"
            await until(lambda: not b.clients)

    run(test())


def test_waiting_ends_and_says_what_was_there() -> None:
    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b:
            assert set(b.servers) == {"mqtt"}
            with pytest.raises(KeyError):
                b.url("amqp")
            async with mqtt.connect(b.url("mqtt")) as client:
                await client.publish("a", b"seen", qos=1)
                with pytest.raises(
                    NotSeen, match=r"topic 'a': 2 expected within 0.01 s, 1 found:\n  mqtt a qos 1 'seen'"
                ):
                    await b.topic("a").wait(2, timeout=0.01)

    run(test())


def test_synchronous_programs() -> None:
    with broker.running(history=2) as b:
        with socket.create_connection((HOST, b.port("mqtt"))) as client:
            client.sendall(mqtt.Connect(client_identifier="c", version=4).encode())
            assert client.recv(4) == mqtt.Connack(version=4).encode()
            for n in range(3):
                client.sendall(mqtt.Publish(topic_name="t", payload=b"%d" % n, version=4).encode())
            client.sendall(mqtt.Pingreq().encode())
            assert client.recv(2) == mqtt.Pingresp().encode()
            assert [m.body for m in b.topic("t").wait(2)] == [b"1", b"2"]
            with pytest.raises(NotSeen, match="3 expected"):
                b.topic("t").wait(3, timeout=0.01)
            assert b.clients[0].address == client.getsockname()
            b.reset()
            assert client.recv(1) == b""  # dropped
            assert b.clients == [] == b.topic("#")
        socket.create_connection((HOST, b.port("mqtt"))).close()  # the port is the same
        thread = b._loop
    assert not any(t.name == "wirefmt broker" for t in threading.enumerate())
    assert thread.is_closed()


def test_a_port_that_is_taken() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"), broker.running(ports={"mqtt": 0, "nsq": port}):
            pytest.fail("it is not running")

        async def test() -> None:
            one = Broker(ports={"mqtt": 0, "nsq": port})
            with pytest.raises(OSError, match="in use"):
                await one.start()
            assert not one.servers

        run(test())


def test_reset_drops_the_state_of_every_protocol() -> None:
    async def test() -> None:
        async with Broker() as b:
            ports = [b.port(name) for name in ALL]
            async with mqtt.connect(b.url("mqtt"), client_identifier="c", session_expiry_interval=100) as client:
                await client.subscribe("#")
                await client.publish("t", b"kept", qos=1, retain=True)
            async with amqp091.connect(b.url("amqp")) as client:
                channel = await client.channel()
                await channel.declare_exchange("e", "fanout")
                await channel.declare_queue("q")
            async with amqp10.connect(b.url("amqp10")) as client:
                await (await client.sender("/queues/ten")).send(message("x"))
            async with nsq.connect(b.url("nsq")) as client:
                await client.publish("topic", b"x")
            async with rocketmq.connect(b.url("rocketmq")) as client:
                await client.producer("group").send("Topic", b"x")
            async with phpmq.connect(b.url("phpmq")) as client:
                await client.publish("list", b"x")
                await b.queue("list", "phpmq").wait(1)
            await b.reset()
            assert ports == [b.port(name) for name in ALL]
            assert not b.mqtt.subscribers and not len(b.mqtt.retained)
            assert not b.topic("#") and not b.queue("ten") and not b.queue("topic", "nsq")
            assert not b.topic("Topic", "rocketmq") and not b.queue("list", "phpmq")
            async with amqp091.connect(b.url("amqp")) as client:
                with pytest.raises(Refused, match="no queue 'q'"):
                    await (await client.channel()).declare_queue("q", passive=True)
                with pytest.raises(Refused, match="no exchange 'e'"):
                    await (await client.channel()).publish(b"", exchange="e", routing_key="q")

    run(test())


@pytest.mark.parametrize("subscribed", [False, True])
def test_a_topic_shows_what_amqp_clients_publish(subscribed: bool) -> None:
    """A view has each message once, with or without a matching subscription or queue."""

    async def test() -> None:
        async with (
            Broker(ports=dict.fromkeys(("mqtt", "amqp", "amqp10"), 0)) as b,
            contextlib.AsyncExitStack() as stack,
        ):
            client = await stack.enter_async_context(mqtt.connect(b.url("mqtt")))
            old = await stack.enter_async_context(amqp091.connect(b.url("amqp")))
            new = await stack.enter_async_context(amqp10.connect(b.url("amqp10")))
            channel = await old.channel(confirms=True)
            if subscribed:
                await client.subscribe("plant/#")
                await channel.declare_queue("q")
                await channel.bind_queue("q", "amq.topic", "plant.#")
            await client.publish("plant/mqtt", b"1", qos=1)
            await channel.publish(b"2", exchange="amq.topic", routing_key="plant.old")
            await channel.publish(b"hidden", exchange="amq.topic", routing_key="plant.+.#")  # no topic of MQTT
            await channel.publish(b"hidden", exchange="amq.fanout", routing_key="plant.old")
            sender = await new.sender("/exchanges/amq.topic/plant.new")
            if subscribed:
                await sender.send(message("3"))
            else:
                with pytest.raises(Refused):  # released
                    await sender.send(message("3"))
            found = await b.topic("plant/+").wait(3)
            assert [(m.body, m.name, m.protocol, m.exchange) for m in found] == [
                (b"1", "plant/mqtt", "mqtt", ""),
                (b"2", "plant/old", "amqp", "amq.topic"),
                (b"3", "plant/new", "amqp10", "amq.topic"),
            ]
            assert b.topic("plant/new").last == found[2]

    run(test())


def test_messages_from_amqp_do_not_exceed_a_queue_of_mqtt_that_refuses() -> None:
    """The publisher in AMQP is not told; what has no space is counted."""

    async def test() -> None:
        policy = mqtt_broker.BrokerOptions(overflow="refuse", queue_messages=3)
        async with Broker(ports=dict.fromkeys(("mqtt", "amqp"), 0), mqtt=policy) as b:
            async with mqtt.connect(b.url("mqtt"), client_identifier="slow", session_expiry_interval=600) as client:
                await client.subscribe("f", qos=1)
            await until(lambda: b.mqtt.subscribers["slow"].peer is None)
            async with amqp091.connect(b.url("amqp")) as old:
                channel = await old.channel(confirms=True)
                durable = amqp091.BasicProperties(delivery_mode=2)
                for _ in range(5):
                    await channel.publish(b"x", exchange="amq.topic", routing_key="f", properties=durable)
            assert (len(b.mqtt.subscribers["slow"].queue), b.mqtt.counts["dropped"]) == (3, 2)

    run(test())


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_full_queue_of_amqp_refuses_for_itself(version: Any, qos: Any) -> None:
    """RabbitMQ: the other queues and the subscribers get the message. It is retained. Its publisher receives 0x97 (5.0)."""

    async def test() -> None:
        async with (
            Broker(ports=dict.fromkeys(("mqtt", "amqp"), 0)) as b,
            amqp091.connect(b.url("amqp")) as amqp,
            mqtt.connect(b.url("mqtt"), version=version) as client,
        ):
            channel = await amqp.channel(confirms=True)
            for name, arguments in (("small", {"x-max-length": 1, "x-overflow": "reject-publish"}), ("large", {})):
                await channel.declare_queue(name, arguments=arguments)
                await channel.bind_queue(name, "amq.topic", "plant.#")
            await client.subscribe("plant/#", qos=qos)
            messages = client.messages()
            await client.publish("plant/1", b"first", qos=qos, retain=True)
            if version == 5 and qos:
                with pytest.raises(Refused) as refused:
                    await client.publish("plant/1", b"second", qos=qos, retain=True)
                assert refused.value.code == 0x97
            else:
                await client.publish("plant/1", b"second", qos=qos, retain=True)
            assert [bytes((await anext(messages)).payload) for _ in range(2)] == [b"first", b"second"]
            assert [m.body for m in await b.queue("large").wait(2)] == [b"first", b"second"]
            assert [m.body for m in b.queue("small")] == [b"first"]
            assert [m.payload for _, m in b.mqtt.retained.match("plant/1")] == [b"second"]
            assert b.mqtt.counts["dropped"] == (0 if qos else 1)
            await channel.delete_queue("small")
            await client.publish("plant/1", b"third", qos=qos)
            await b.queue("large").wait(3)

    run(test())


def test_users() -> None:
    async def test() -> None:
        async with Broker(users={"ann": "secret"}) as b:
            for name in ("amqp", "amqp10"):
                package: Any = {"amqp": amqp091, "amqp10": amqp10}[name]
                url = b.url(name).replace("://", "://ann:{}@")
                async with package.connect(url.format("secret")):
                    pass
                with pytest.raises(Refused):
                    await package.connect(url.format("wrong")).open()
            async with mqtt.connect(b.url("mqtt"), user_name="ann", password="secret"):
                pass
            with pytest.raises(Refused) as refused:
                await mqtt.connect(b.url("mqtt"), user_name="ann", password="wrong").open()
            assert refused.value.code == 0x86
            async with nsq.connect(b.url("nsq").replace("://", "://:secret@")) as client:
                await client.publish("t", b"x")
            with pytest.raises(Refused, match="E_AUTH"):
                await nsq.connect(b.url("nsq").replace("://", "://:wrong@")).open()

    run(test())


def test_scram_is_offered_to_amqp_1_0() -> None:
    async def test() -> None:
        async with Broker(users={"ann": "secret"}, ports={"amqp10": 0}) as b:
            for password, right in (("secret", True), ("wrong", False)):
                client = amqp10.connect(b.url("amqp10"), sasl=Scram("ann", password, "nonce"))
                if right:
                    async with client:
                        pass
                else:
                    with pytest.raises(Refused):
                        await client.open()

    run(test())


async def both_amqps(**options: Any) -> Broker:
    """A broker that has started, with AMQP 0.9.1 and 1.0 on one port. A port that was free a moment ago may be in use."""
    for _ in range(100):
        port = free_port()
        with contextlib.suppress(OSError):
            b = Broker(ports={"amqp": port, "amqp10": port}, **options)
            await b.start()
            return b
    raise AssertionError("no free port")


def test_both_amqps_on_one_port() -> None:
    async def test() -> None:
        b = await both_amqps()
        port = b.port("amqp")
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(b.close)
            assert b.url("amqp") == b.url("amqp10")
            async with amqp091.connect(b.url("amqp")) as old, amqp10.connect(b.url("amqp10")) as new:
                await (await old.channel()).declare_queue("q")
                await (await new.sender("/queues/ten")).send(message("x"))
                assert {c.protocol for c in b.clients} == {"amqp", "amqp10"}
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"GET / HT")
            assert await reader.read() == b"AMQP\0\0\x09\x01"  # 4.2.2: the header of the supported version
            writer.close()

    run(test())


def test_clients_of_the_shared_port_count_before_their_header() -> None:
    """There is space for two clients. The third is disconnected; when one of the two leaves, there is space again."""

    async def test() -> None:
        b = await both_amqps(connections=2)
        port = b.port("amqp")
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(b.close)
            shared = b._shared
            assert shared is not None
            _, silent = await asyncio.open_connection(HOST, port)
            silent.write(b"AMQP\0\0")
            await until(lambda: len(shared.undecided) == 1)
            async with amqp091.connect(b.url("amqp")):
                third, writer = await asyncio.open_connection(HOST, port)
                with contextlib.suppress(ConnectionResetError):
                    assert await third.read() == b""
                writer.close()
                assert shared.turned_away == 1
                silent.close()
                await until(lambda: not shared.undecided)
                async with amqp10.connect(b.url("amqp10")):
                    assert {c.protocol for c in b.clients} == {"amqp", "amqp10"}

    run(test())


@pytest.mark.parametrize("how", ["close", "reset", "restart"])
def test_clients_of_the_shared_port_without_a_header_are_dropped_with_the_others(how: str) -> None:
    async def test() -> None:
        b = await both_amqps()
        shared = b._shared
        assert shared is not None
        reader, writer = await asyncio.open_connection(HOST, b.port("amqp"))
        writer.write(b"AMQP")
        await until(lambda: shared.undecided)
        await (b.restart(keep_state=True) if how == "restart" else getattr(b, how)())
        assert not shared.undecided
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        await b.close()

    run(test())


def test_a_client_of_the_shared_port_that_sends_no_header_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirefmt.broker.listeners.HEADER_TIMEOUT", 0.01)

    async def test() -> None:
        b = await both_amqps()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(b.close)
            reader, writer = await asyncio.open_connection(HOST, b.port("amqp"))
            writer.write(b"AMQP\0\0\x09")
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    run(test())


def test_nsqlookupd_drops_clients_that_say_nothing() -> None:
    """It has the limit of the listeners. When the broker is closed, none of its connections is left."""

    async def test() -> None:
        async with Broker(ports={"nsq": 0, "nsqlookupd": 0}, connections=1) as b:
            silent, first = await asyncio.open_connection(HOST, b.port("nsqlookupd"))
            first.write(b"GET /ping")
            await until(lambda: b._lookup is not None and b._lookup._tasks)
            reader, second = await asyncio.open_connection(HOST, b.port("nsqlookupd"))
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            first.write(b" HTTP/1.1\r\n\r\n")
            assert (await silent.read()).endswith(b"OK")
            _, third = await asyncio.open_connection(HOST, b.port("nsqlookupd"))
            third.write(b"GET")
            await until(lambda: b._lookup is not None and b._lookup._tasks)
        for writer in (first, second, third):
            writer.close()

    run(test())


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_tls_and_websockets(tmp_path: Path) -> None:
    server, client = certificate(tmp_path)

    async def test() -> None:
        names = ("mqtt+tls", "mqtt+ws", "mqtt+wss", "amqp+tls", "amqp10+tls", "amqp10+ws", "phpmq+tls", "rocketmq+tls")
        async with Broker(ports=dict.fromkeys(names, 0), tls=server) as b:
            for name in names:
                package: Any = {"mqtt": mqtt, "amqp": amqp091, "amqp10": amqp10}.get(name.partition("+")[0])
                if package is not None:
                    context: ssl.SSLContext | None = client if name.endswith(("tls", "wss")) else None
                    async with package.connect(b.url(name), ssl=context):
                        await b.clients.wait(1)
                    await until(lambda: not b.clients)
            async with rocketmq.connect(b.url("rocketmq+tls"), ssl=client) as java:
                await java.producer("group").send("Topic", b"x")
                assert checked(b.topic("Topic", "rocketmq").last, Message).body == b"x"
            _, writer = await asyncio.open_connection(
                HOST, b.port("phpmq+tls"), ssl=client, server_hostname="localhost"
            )
            writer.close()
            await writer.wait_closed()

    run(test())


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
@pytest.mark.parametrize("tapped", [False, True])
def test_a_message_for_many_reaches_them_by_every_way(tmp_path: Path, tapped: bool) -> None:
    """Plain, over TLS and over WebSocket; with and without a tap; before, during and after a fault; one client and several."""
    server, client_tls = certificate(tmp_path)

    async def test() -> None:
        names = ("mqtt", "mqtt+tls", "mqtt+ws", "mqtt+wss")
        tap = (lambda name, inner: aio.Tap(inner)) if tapped else None
        async with (
            Broker(ports=dict.fromkeys(names, 0), tls=server, tap=tap) as b,
            contextlib.AsyncExitStack() as stack,
        ):
            subscribers: list[tuple[int, Any]] = []
            versions: tuple[Any, ...] = (4, 5)
            for name in names:
                context: ssl.SSLContext | None = client_tls if name.endswith(("tls", "wss")) else None
                for version in versions:
                    client = await stack.enter_async_context(mqtt.connect(b.url(name), ssl=context, version=version))
                    granted = version - 4
                    await client.subscribe("plant/+", qos=granted)
                    subscribers.append((granted, client.messages()))
            publisher = await stack.enter_async_context(mqtt.connect(b.url("mqtt")))

            async def reach(*texts: bytes) -> None:
                await asyncio.gather(*(publisher.publish("plant/1", text, qos=1) for text in texts))
                for granted, messages in subscribers:
                    for text in texts:
                        message = await anext(messages)
                        assert (message.payload_bytes(), message.qos) == (text, granted)

            await reach(b"one")
            await reach(b"two", b"three", b"x" * 10_000, b"four")
            with b.fault("mqtt", delay=0.001):
                await reach(b"five")
                await reach(b"six", b"seven")
            await reach(b"eight")

    run(test())


class Counting(aio.Tap):
    """Counts the bytes of both directions, and replaces one byte by another."""

    made_for: ClassVar[list[Counting]] = []

    def __init__(self, name: str, inner: asyncio.BaseProtocol) -> None:
        super().__init__(inner)
        self.name = name
        self.bytes = [0, 0]
        self.over = False
        self.made_for.append(self)

    def received(self, data: bytes) -> None:
        self.bytes[0] += len(data)
        self.deliver(data.replace(b"\xfe", b"\xfd"))

    def sent(self, data: bytes) -> None:
        self.bytes[1] += len(data)
        self.forward(data)

    def lost(self, error: Exception | None) -> None:
        self.over = True
        super().lost(error)


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_a_tap_sees_and_changes_what_passes(tmp_path: Path) -> None:
    server, client = certificate(tmp_path)

    def nested(name: str, inner: asyncio.BaseProtocol) -> aio.Tap:
        return Counting(name, aio.Tap(inner))

    async def test() -> None:
        Counting.made_for.clear()
        async with Broker(ports={"mqtt": 0, "nsq": 0}, tap=nested, tls=server) as b:
            async with mqtt.connect(b.url("mqtt")) as one:
                await one.publish("t", b"\xfe" * 1_000_000, qos=1)
                assert checked(b.topic("t").last, Message).body == b"\xfd" * 1_000_000
            secure = nsq.connect(b.url("nsq").replace("nsq:", "nsqs:"), ssl=client)  # TLS in the middle of the stream
            async with secure as two:
                await two.publish("t", b"\xfe")
                assert b.queue("t", "nsq")[0].body == b"\xfd"
        assert [tap.name for tap in Counting.made_for] == ["mqtt", "nsq"]
        assert all(tap.over and all(tap.bytes) for tap in Counting.made_for)
        assert Counting.made_for[0].bytes[0] > 1_000_000

    run(test())


def test_a_client_that_does_not_answer_does_not_hold_the_end_up() -> None:
    async def test() -> None:
        b = Broker(ports={"amqp": 0, "mqtt": 0}, grace=0.01)
        await b.start()
        async with amqp091.connect(b.url("amqp")) as client:
            checked(client._link, Link).driver.pause()  # it does not read the server's close
            with socket.create_connection((HOST, b.port("mqtt"))) as silent:
                silent.sendall(mqtt.Connect(client_identifier="c").encode())
                await b.clients.wait(2)
                await b.close()
                assert not b.servers
            checked(client._link, Link).driver.resume()

    run(test())


def test_a_client_that_takes_no_bytes_is_dropped() -> None:
    async def test() -> None:
        options = mqtt_broker.BrokerOptions(queue_messages=10, queue_bytes=1 << 24)
        async with Broker(ports={"mqtt": 0}, mqtt=options, stalled=0.05, history=0) as b:
            with socket.create_connection((HOST, b.port("mqtt"))) as slow:
                slow.sendall(mqtt.Connect(client_identifier="slow").encode())
                asked = mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("t")])
                slow.sendall(asked.encode())
                async with mqtt.connect(b.url("mqtt"), client_identifier="fast") as fast:
                    while [c.name for c in b.clients] != ["fast"]:
                        await fast.publish("t", bytes(1 << 20), qos=1)

    run(test())


def test_nothing_is_left_of_clients_that_are_gone() -> None:
    """Clients of every protocol consume, and their connections break in the middle of it, repeatedly."""

    cut: list[int] = []

    async def consume(b: Broker) -> None:
        async with contextlib.AsyncExitStack() as stack:
            old = await stack.enter_async_context(amqp091.connect(b.url("amqp")))
            channel = await old.channel()
            await channel.declare_queue("mine", exclusive=True)
            await channel.declare_queue("auto", auto_delete=True)
            await channel.consume("auto")
            await channel.publish(b"x", routing_key="auto")
            new = await stack.enter_async_context(amqp10.connect(b.url("amqp10")))
            await new.receiver(amqp10.Source(dynamic=True))
            await new.sender("/exchanges/amq.topic/k")
            meter = await stack.enter_async_context(mqtt.connect(b.url("mqtt"), session_expiry_interval=0))
            await meter.subscribe("#")
            queue = await stack.enter_async_context(nsq.connect(b.url("nsq")))
            consuming = queue.consume("t#ephemeral", "c#ephemeral")
            await stack.enter_async_context(consuming)
            await until(lambda: b.nsq.topics)
            list_ = await stack.enter_async_context(phpmq.connect(b.url("phpmq")))
            await list_.publish("list", b"x")
            remote = await stack.enter_async_context(rocketmq.connect(b.url("rocketmq")))
            await remote.producer("P").send("Topic", b"x")
            assert {c.protocol for c in await b.clients.wait(6)} == set(ALL)
            cut.append(len(b.clients))
            for driver in [driver for server in b.servers.values() for driver in server.drivers]:
                driver.abort()
            await until(lambda: not b.clients)

    async def test() -> None:
        async with Broker() as b:
            for _ in range(3):
                with contextlib.suppress(ConnectionLost):
                    await consume(b)
                await until(lambda: not b.clients)
                assert not b.amqp._sessions and not b.amqp10._clients and not b.router.queues
                assert (
                    not b.mqtt.subscribers
                    and not b.mqtt._clients.by_peer
                    and not b.mqtt._subscriptions.index.match("t")
                )
                assert not b.nsq.topics and not b.nsq._channels
                assert not b.phpmq._by_peer
                assert not b.rocketmq._waits.waiting
                assert not any(group for group in b.rocketmq.producers.values())
                assert b.router.shares.bytes == 0
            assert len(cut) == 3

    run(test())


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="unknown listeners: http; there are mqtt"):
        Options(ports={"http": 80})
    with pytest.raises(ValueError, match="need `tls`"):
        Options(ports={"mqtt+tls": 0})
    with pytest.raises(ValueError, match="unknown protocols: smtp"):
        Options(connection={"smtp": None})
