"""Permissions as clients meet them: conversations with the rights that are needed and no more, and what belongs to users."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import replace
from typing import Any, Literal

import pytest

from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.credentials import scram_credentials
from wirefmt.broker.limits import Limits
from wirefmt.broker.permissions import Permissions
from wirefmt.connection.sasl import Plain, Scram
from wirefmt.errors import ConnectionLost, Refused
from wirefmt.rocketmq import MessageExt

USERS = {"ann": "ann-ann", "bob": "bob-bob"}


def url(b: Broker, protocol: str, user: str) -> str:
    return b.url(protocol).replace("://", f"://{user}:{USERS[user]}@")


# ---- MQTT: a session belongs to its user

MQTT: dict[str, Any] = {
    "ann": {"mqtt": {"publish": "#", "subscribe": "#"}},
    "bob": {"mqtt": {"publish": "bob/#", "subscribe": "bob/#"}},
}


def client(b: Broker, user: str, identifier: str, version: Literal[4, 5] = 5, **more: Any) -> mqtt.Client:
    return mqtt.connect(
        url(b, "mqtt", user), client_identifier=identifier, version=version, session_expiry_interval=60, **more
    )


@pytest.mark.parametrize("permissions", [MQTT, None], ids=["permissions", "users alone"])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(("version", "code"), [(5, 0x85), (4, 2)])
def test_mqtt_a_session_belongs_to_its_user(version: Any, code: int, clean: bool, permissions: Any) -> None:
    """Nobody else gets it, ends it, or takes the place of its client: CONNACK 0x85, Client Identifier not valid; before 5.0
    return code 2, identifier rejected."""

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}, users=USERS, permissions=permissions) as b:

            async def bob_is_refused() -> None:
                with pytest.raises(Refused) as refused:
                    await client(b, "bob", "meter", version, clean_start=clean).open()
                assert refused.value.code == code

            async with client(b, "ann", "publisher") as publisher:
                async with client(b, "ann", "meter", version, clean_start=False) as ann:
                    await ann.subscribe("secret/#", qos=1)
                    await bob_is_refused()
                    await publisher.publish("secret/1", b"1", qos=1)
                    assert (await anext(ann.messages())).topic_name == "secret/1"
                await until(lambda: b.mqtt.subscribers["meter"].peer is None)
                await bob_is_refused()
                await publisher.publish("secret/2", b"2", qos=1)
                async with client(b, "ann", "meter", version, clean_start=False) as ann:
                    assert (await anext(ann.messages())).topic_name == "secret/2"
            await until(lambda: b.mqtt.subscribers["meter"].peer is None)
            b.mqtt._sessions.end(b.mqtt.subscribers["meter"])
            async with client(b, "bob", "meter", version, clean_start=clean):  # no user has it now
                assert b.mqtt.subscribers["meter"].user == "bob"

    run(test())


def test_mqtt_without_users_a_name_is_no_owner() -> None:
    """Names that nobody has checked decide nothing."""

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b:
            sessions = []
            for user in ("ann", "bob"):
                async with client(b, user, "meter", clean_start=False):
                    sessions.append(b.mqtt.subscribers["meter"])
            assert sessions[0] is sessions[1]

    run(test())


def test_mqtt_rights_are_asked_again() -> None:
    """When a session goes on, when messages are delivered, and when a will is published: what was allowed may not be any more."""

    async def test() -> None:
        async with (
            Broker(ports={"mqtt": 0}, users=USERS, permissions=MQTT) as b,
            client(b, "ann", "publisher") as publisher,
        ):
            willing = client(b, "bob", "willing", will=mqtt.Will("bob/will", b"gone"))
            await willing.open()
            online = client(b, "bob", "online")
            await online.open()
            await online.subscribe("bob/#", qos=1)
            async with client(b, "bob", "meter") as bob:
                await bob.subscribe("bob/+", "bob/a/+", "$share/all/bob/b/+", qos=1)
            for topic in ("bob/1", "bob/a/1"):
                await publisher.publish(topic, b"1", qos=1)
            narrow = {**MQTT, "bob": {"mqtt": {"subscribe": ["bob/+", "bob/b/+"]}}}
            b.mqtt.options = replace(b.mqtt.options, permissions=Permissions(narrow))
            assert b.mqtt.subscribers["willing"].peer is not None
            b.mqtt.subscribers["willing"].peer.abort()
            await publisher.publish("bob/a/2", b"2", qos=1)
            async with client(b, "bob", "meter", clean_start=False) as bob:
                assert set(b.mqtt.subscribers["meter"].subscriptions) == {"bob/+", "$share/all/bob/b/+"}
                for topic in ("bob/a/3", "bob/b/3", "bob/last"):
                    await publisher.publish(topic, b"3", qos=1)
                for one, topics in (
                    (bob, {"bob/1", "bob/b/3", "bob/last"}),
                    (online, {"bob/1", "bob/a/1", "bob/b/3", "bob/last"}),
                ):
                    got: set[str] = set()
                    async for message in one.messages():
                        got.add(message.topic_name)
                        if message.topic_name == "bob/last":
                            break
                    assert got == topics
            assert not {m.name for m in b.topic("#")} & {"bob/will"}
            await online.close()
            with contextlib.suppress(ConnectionLost):
                await willing.close()

    run(test())


def test_mqtt_topics_of_the_server_do_not_come_from_amqp() -> None:
    async def test() -> None:
        quiet = mqtt_broker.BrokerOptions(sys_interval=0)
        async with Broker(ports={"mqtt": 0, "amqp": 0}, mqtt=quiet) as b, mqtt.connect(b.url("mqtt")) as subscriber:
            await subscriber.subscribe("$SYS/#", "last")
            async with amqp091.connect(b.url("amqp")) as publisher:
                channel = await publisher.channel(confirms=True)
                for key in ("$SYS.broker.uptime", "last"):
                    await channel.publish(b"x", exchange="amq.topic", routing_key=key)
            assert (await anext(subscriber.messages())).topic_name == "last"

    run(test())


# ---- AMQP 1.0: who a message and a user say that they are


def test_amqp10_user_id() -> None:
    """3.2.4, as RabbitMQ: amqp:unauthorized-access, in a transaction and on the anonymous terminus, too."""

    def message(user: bytes | None) -> amqp10.Message:
        return amqp10.Message(properties=amqp10.Properties(user_id=user, to="/queues/q"), body=b"x")

    async def test() -> None:
        async with Broker(ports={"amqp10": 0}, users=USERS) as b, amqp10.connect(url(b, "amqp10", "ann")) as ann:
            for target in ("/queues/q", amqp10.Target()):
                sender = await ann.sender(target)
                for user in (None, b"ann"):
                    await sender.send(message(user))
                for user in (b"bob", b"", b"ann\0"):
                    with pytest.raises(Refused, match="unauthorized-access"):
                        await sender.send(message(user))
                async with ann.transaction() as transaction:
                    with pytest.raises(Refused, match="unauthorized-access"):
                        await sender.send(message(b"bob"), transaction=transaction)
            assert len(b.queue("q")) == 4
        async with Broker(ports={"amqp10": 0}) as b, amqp10.connect(b.url("amqp10")) as anybody:
            await (await anybody.sender("/queues/q")).send(message(b"bob"))  # nobody is authenticated

    run(test())


@pytest.mark.parametrize("dialect", ["documented", "rabbitmq-4.3", "rabbitmq-3.13"])
def test_amqp091_user_id_in_a_section(dialect: str) -> None:
    """406, as for the property: a header or a body from which the conversion makes properties of AMQP 1.0."""

    def forged(user: bytes) -> list[tuple[amqp091.BasicProperties, bytes]]:
        section = amqp10.Properties(user_id=user).encode()
        whole = amqp10.Message(properties=amqp10.Properties(user_id=user), body=b"x").encode()
        return [
            (amqp091.BasicProperties(headers={"x-amqp-1.0-properties": section}), b"x"),
            (amqp091.BasicProperties(type="amqp-1.0"), whole),
        ]

    async def test() -> None:
        limits = Limits(dialect=dialect)
        async with (
            Broker(ports={"amqp": 0}, users=USERS, limits=limits) as b,
            amqp091.connect(url(b, "amqp", "ann")) as ann,
        ):
            await (await ann.channel()).declare_queue("q")
            refused = 0
            for properties, body in [*forged(b"ann"), *forged(b"bob")]:
                channel = await ann.channel(confirms=True)
                try:
                    await channel.publish(body, routing_key="q", properties=properties)
                except Refused as error:
                    assert error.code == 406
                    refused += 1
            kept = [item.published.container.to("amqp10").message.properties for item in b.router.queues["q"].messages]
            assert {bytes(p.user_id) for p in kept if p is not None and p.user_id is not None} == {b"ann"}
            assert refused == 4 - len(kept) >= 1

    run(test())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_amqp10_nobody_acts_for_another_user(mechanism: str) -> None:
    """RFC 4616, 2 and RFC 5802, 5.1: an authorization identity that the user may not have."""

    async def test() -> None:
        async with Broker(ports={"amqp10": 0}, users=USERS) as b:
            for authorization, refused in (("", False), ("ann", False), ("bob", True)):
                sasl: Any = Plain("ann", USERS["ann"], authorization)
                if mechanism != "PLAIN":
                    sasl = Scram("ann", USERS["ann"], "nonce", authorization=authorization)
                with pytest.raises(Refused) if refused else contextlib.nullcontext():
                    async with amqp10.connect(b.url("amqp10"), sasl=sasl):
                        pass

    run(test())


async def scram(b: Broker, user: str, password: str) -> tuple[bytes, int]:
    """An exchange of SCRAM: the challenge, without the nonces, and the code of the outcome."""
    reader, writer = await asyncio.open_connection(HOST, b.port("amqp10"))
    decoder = amqp10.Decoder()

    async def until(kind: type[Any]) -> Any:
        while data := await reader.read(65536):
            for event in decoder.feed(data):
                if isinstance(event, kind):
                    return event
        raise EOFError

    mechanism = Scram(user, password, "nonce")
    init = amqp10.SaslInit(mechanism=mechanism.name, initial_response=mechanism.start())
    writer.write(b"AMQP\3\1\0\0" + init.encode())
    challenge = bytes((await until(amqp10.SaslChallenge)).challenge)
    writer.write(amqp10.SaslResponse(response=mechanism.respond(challenge)).encode())
    outcome = await until(amqp10.SaslOutcome)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return challenge[challenge.index(b",s=") :], outcome.code


def test_scram_answers_unknown_users_like_known_ones() -> None:
    """The same messages, which end in the same way; each name always has the same salt (RFC 5802, 9)."""

    async def test() -> None:
        async with Broker(ports={"amqp10": 0}, users=USERS) as b:
            said = {user: [await scram(b, user, "wrong") for _ in range(2)] for user in ("ann", "bob", "eve", "mal")}
            assert all(first == second for first, second in said.values())
            assert len({first[0] for first, _ in said.values()}) == 4
            assert {len(first[0]) for first, _ in said.values()} == {len(said["ann"][0][0])}
            assert {first[0].rpartition(b",i=")[2] for first, _ in said.values()} == {b"4096"}
            assert {first[1] for first, _ in said.values()} == {1}  # auth
            assert (await scram(b, "ann", USERS["ann"]))[1] == 0

    run(test())


def test_scram_of_a_password_that_saslprep_prohibits() -> None:
    """It is as an unknown user's: no client can have it (RFC 5802, 2.2)."""
    credentials = scram_credentials({"ann": "\ufdd0"}, "ann")
    assert (len(credentials.salt), credentials.iterations) == (16, 4096)
    assert credentials == scram_credentials({}, "ann")


# ---- NSQ


def test_nsq_channels() -> None:
    """`channel` limits `subscribe`, as in the answers of nsqd's auth server; without it all channels are allowed."""
    permissions = {
        "ann": {"nsq": {"subscribe": "^t$", "channel": "^mine$", "deny": "^m"}},
        "bob": {"nsq": {"subscribe": "^t$"}},
    }

    async def test() -> None:
        async with Broker(ports={"nsq": 0}, users=USERS, permissions=permissions) as b:
            for user, channel, allowed in (("ann", "mine", True), ("ann", "other", False), ("bob", "other", True)):
                with contextlib.suppress(ConnectionLost):
                    async with nsq.connect(b.url("nsq"), secret=USERS[user]) as one:
                        with contextlib.nullcontext() if allowed else pytest.raises(Refused, match="E_UNAUTHORIZED"):
                            async with one.consume("t", channel):
                                pass
            assert set(b.nsq.topics["t"].channels) == {"mine", "other"}

    run(test())


# ---- RocketMQ

ROCKETMQ: dict[str, Any] = {
    "ann": {"rocketmq": {"publish": ["^T$", "^wirefmt_REPLY_TOPIC$"], "subscribe": "^T$", "group": "^ann"}},
    "bob": {"rocketmq": {"publish": "^Bob$", "subscribe": "^Bob$"}},
}
FAST: Any = {"begin": "first", "poll_time": 0.2, "store_interval": 0.02, "pause": 0.01, "rebalance_interval": 0.1}


def rocketmq_of(b: Broker, user: str, **more: Any) -> rocketmq.Client:
    return rocketmq.connect(b.url("rocketmq"), credentials=rocketmq.Credentials(user, USERS[user]), **more)


def brisk(permissions: Any = ROCKETMQ) -> Broker:
    options = rocketmq_broker.BrokerOptions(delay=0.001, check_after=0.02)
    return Broker(ports={"rocketmq": 0}, users=USERS, permissions=permissions, rocketmq=options)


@pytest.mark.parametrize("orderly", [False, True])
def test_rocketmq_a_client_needs_no_more(orderly: bool) -> None:
    """Sending, consuming with retries and dead letters, transactions with checks, requests and replies, and pops."""

    async def test() -> None:
        async with brisk() as b, rocketmq_of(b, "ann") as ann:
            got: list[bytes] = []
            producer = ann.producer("ann-producers", check=lambda half: "commit")

            async def listen(message: MessageExt) -> bool:
                got.append(bytes(message.body or b""))
                if message.body == b"request":
                    await producer.reply(message, b"reply")
                return message.body != b"again" or got.count(b"again") > 1

            async with ann.push_consumer("ann-pushed", {"T": "*"}, listen, orderly=orderly, **FAST):
                await producer.send("T", b"again")
                await until(lambda: got.count(b"again") == 2)
                await producer.send_transaction("T", b"half", lambda number: "unknown")
                await until(lambda: b"half" in got)
                reply = await producer.request("T", b"request", timeout=30.0)
                assert reply.body == b"reply"
            consumer = ann.pop_consumer("ann-popped")
            popped = await consumer.pop("T", invisible=30.0)
            assert popped
            await consumer.ack(popped[0])

    run(test())


def test_rocketmq_what_a_user_may_not_even_reach() -> None:
    """A user with rights to one topic has none to groups that consume others, to client ids, and to half messages of others."""

    async def test() -> None:
        async with (
            brisk() as b,
            rocketmq_of(b, "ann", client_id="a") as ann,
            rocketmq_of(b, "bob", client_id="b") as bob,
        ):
            asked: list[str] = []

            def decide(user: str) -> Any:
                def check(half: MessageExt) -> str:
                    asked.append(user)
                    return "commit"

                return check

            bobs = bob.producer("ann-producers", check=decide("bob"))  # the group of another user's producers
            await bobs.send("Bob", b"for bob")
            anns = ann.producer("ann-producers", check=decide("ann"))
            async with ann.push_consumer("ann-pushed", {"T": "*"}, lambda message: True, **FAST):
                await anns.send_transaction("T", b"half", lambda number: "unknown")
                await until(lambda: not b.rocketmq._transactions.halves)
                assert set(asked) == {"ann"}
                for topic, group in (("%RETRY%ann-pushed", "bobs"), ("T", "bobs"), ("Bob", "ann-pushed")):
                    with pytest.raises(Refused) as refused:
                        await bob.pop_consumer(group).pop(topic, wait=0.01)
                    assert refused.value.code == 16
                assert await bob.pop_consumer("bobs").pop("Bob", wait=0.01)

    run(test())


def test_rocketmq_a_client_id_belongs_to_its_user() -> None:
    async def test() -> None:
        everything = {user: {"rocketmq": {"publish": ".*", "subscribe": ".*"}} for user in USERS}
        async with brisk(everything) as b:
            same: Any = {"client_id": "the-same"}
            async with rocketmq_of(b, "ann", **same) as ann:
                await ann.producer("P").send("T", b"x")
                assert b.rocketmq.owner_of("the-same") == "ann"
                async with rocketmq_of(b, "bob", **same) as bob:
                    with contextlib.suppress(Refused):
                        await bob.producer("P").send("T", b"x")
                    assert b.rocketmq.producers["P"]["the-same"].user == "ann"
            await until(lambda: b.rocketmq.owner_of("the-same") is None)
            async with rocketmq_of(b, "bob", **same) as bob:
                await bob.producer("P").send("T", b"x")
                assert b.rocketmq.owner_of("the-same") == "bob"

    run(test())


# ---- decisions that are kept


def test_decisions_are_kept_within_bounds() -> None:
    permissions = Permissions({"ann": {"mqtt": {"publish": "a/+"}}})
    for number in itertools.count():
        assert permissions.may("ann", "mqtt.publish", f"a/{number}")
        assert not permissions.may("ann", "mqtt.publish", f"b/{number}")
        assert len(permissions._kept) <= 4096
        if number and len(permissions._kept) < number:
            break
    assert not permissions.may("ann", "mqtt.publish", "b" * 1000)
    assert not any(len(name) > 256 for _, _, name in permissions._kept)
