"""Permissions: what a user may do, and how each protocol refuses it. One client is pika, the others are ours."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Literal

import pytest

from lib.loopback import HOST, run
from lib.skips import imported
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq
from wirefmt.broker import Broker, Options
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker.permissions import Permissions, covers
from wirefmt.errors import ConnectionLost, Refused

USERS = {"ann": "secret", "eve": "other"}

TABLE: dict[str, Any] = {
    "ann": {
        "amqp": {"configure": "^orders$", "write": [r"^amq\.default$", "^orders$"], "read": "^orders$"},
        "mqtt": {"publish": ["plant/+", "state/ann"], "subscribe": "plant/#"},
        "nsq": {"publish": "^orders$", "subscribe": "^orders$"},
        "rocketmq": {"publish": "^Orders$", "subscribe": "^Orders$"},
    }
}


def broker(*protocols: str) -> Broker:
    return Broker(ports=dict.fromkeys(protocols, 0), users=USERS, permissions=TABLE)


def url(b: Broker, protocol: str, user: str) -> str:
    return b.url(protocol).replace("://", f"://{user}:{USERS[user]}@")


# ---- the decision


@pytest.mark.parametrize(
    ("pattern", "asked", "covered"),
    [
        ("plant/+", "plant/one", True),
        ("plant/+", "plant/+", True),
        ("plant/+", "plant/#", False),
        ("plant/+", "plant", False),
        ("plant/+", "plant/one/two", False),
        ("plant/#", "plant", True),
        ("plant/#", "plant/+/two", True),
        ("plant/#", "+/one", False),
        ("plant/one", "plant/+", False),
        ("+/one", "plant/one", True),
        ("#", "#", True),
        ("#", "$SYS/broker", False),
        ("+/broker", "$SYS/broker", False),
        ("$SYS/#", "$SYS/broker", True),
        ("plant/", "plant/", True),
        ("plant/+", "plant/", True),
    ],
)
def test_a_filter_covers_another(pattern: str, asked: str, covered: bool) -> None:
    assert covers(pattern, asked) is covered
    if "+" not in asked and "#" not in asked:
        assert mqtt.matches(pattern, asked) is covered


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        ("orders", "my-orders-2", True),  # it is searched, as in RabbitMQ
        ("^orders$", "orders-2", False),
        ("^$", "orders", False),
        ("", "orders", False),  # the same as ^$
        (".*", "", True),
    ],
)
def test_a_regular_expression(pattern: str, name: str, allowed: bool) -> None:
    assert Permissions({"ann": {"amqp": {"read": pattern}}}).may("ann", "amqp.read", name) is allowed


def test_what_is_not_listed_is_refused() -> None:
    permissions = Permissions(TABLE)
    assert permissions.may("ann", "mqtt.publish", "plant/one")
    for user, action, name in (
        ("eve", "mqtt.publish", "plant/one"),
        ("ann", "mqtt.publish", "x"),
        ("", "amqp.read", "orders"),
    ):
        assert not permissions.may(user, action, name)
    assert not Permissions({"ann": {}}).may("ann", "amqp.read", "orders")


@pytest.mark.parametrize(
    ("user", "action", "name", "allowed"),
    [
        ("ann", "mqtt.subscribe", "plant/one", True),
        ("ann", "mqtt.subscribe", "plant/secret", False),
        ("ann", "mqtt.publish", "plant/secret", False),
        ("ann", "mqtt.subscribe", "plant/secret/#", False),  # it matches nothing else
        ("ann", "mqtt.subscribe", "plant/+", True),  # it matches other topics, too
        ("ann", "mqtt.subscribe", "#", True),
        ("ann", "mqtt.subscribe", "a/plant/secret", True),
        ("ann", "amqp.read", "orders", True),
        ("ann", "amqp.read", "orders-secret", False),
        ("ann", "amqp.write", "orders", False),  # a name that is not denied is not allowed yet
        ("ann", "nsq.publish", "orders", False),  # she has a table of her own, where this is not listed
        ("eve", "nsq.publish", "orders", True),
        ("", "nsq.publish", "orders", True),
        ("eve", "mqtt.publish", "plant/one", False),
    ],
)
def test_what_is_denied_comes_first(user: str, action: str, name: str, allowed: bool) -> None:
    permissions = Permissions(
        {
            "ann": {
                "mqtt": {"deny": "plant/secret/#", "publish": "#", "subscribe": "#"},
                "amqp": {"read": "^orders", "deny": "secret$"},
            },
            "*": {"nsq": {"publish": ".*"}},
        }
    )
    assert permissions.may(user, action, name) is allowed


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"ann": {"amqq": {}}}, "unknown protocol 'amqq' in permissions; did you mean amqp"),
        ({"ann": {"amqp": {"reed": "x"}}}, "unknown right 'reed' for amqp; did you mean read"),
        ({"ann": {"amqp": {"read": "("}}}, "'(' is not a regular expression"),
        ({"ann": {"mqtt": {"publish": "a/#/b"}}}, "'a/#/b' is not a topic filter"),
        ({"ann": {"mqtt": {"publish": 7}}}, "mqtt.publish of 'ann' must be a pattern or a list of patterns, not 7"),
        ({"ann": "all"}, "permissions of 'ann' must be a table, not 'all'"),
        ([], "permissions must be a table, not []"),
        ({"ann": {"mqtt": {"deny": "a/#/b"}}}, "'a/#/b' is not a topic filter"),
        ({"ann": {"mqtt": {"denny": "a"}}}, "unknown right 'denny' for mqtt; did you mean deny"),
        ({"bob": {}}, "permissions for an unknown user 'bob'; there are ann, eve"),
    ],
)
def test_a_wrong_table(table: Any, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        Options(users=USERS, permissions=table)


def test_permissions_without_users() -> None:
    Options(permissions={"*": {}})
    with pytest.raises(ValueError, match="permissions for 'ann' need users; those for all clients are for '\\*'"):
        Options(permissions={"*": {}, "ann": {}})


# ---- AMQP 0.9.1: 403, access-refused, closes the channel


async def refused_091(client: amqp091.Client, name: str, *arguments: Any, **more: Any) -> None:
    channel = await client.channel(confirms=True)
    with pytest.raises(Refused) as refused:
        await getattr(channel, name)(*arguments, **more)
    assert refused.value.code == 403


def test_amqp091() -> None:
    """As RabbitMQ's table: configure to declare and delete, write to publish and be bound, read to consume and to bind to."""

    async def test() -> None:
        async with broker("amqp") as b:
            async with amqp091.connect(url(b, "amqp", "ann")) as client:
                channel = await client.channel(confirms=True)
                await channel.declare_queue("orders")
                await channel.publish(b"one", routing_key="orders")
                assert (await channel.get("orders", no_ack=True)) is not None
                await channel.declare_queue("orders", passive=True)
                await refused_091(client, "declare_queue", "bills")
                await refused_091(client, "declare_queue", "")  # amq.gen-...
                await refused_091(client, "declare_exchange", "bills", "direct")
                await refused_091(client, "publish", b"", exchange="amq.topic", routing_key="x")
                await refused_091(client, "bind_queue", "orders", "amq.topic", "x")
                await refused_091(client, "declare_queue", "orders", arguments={"x-dead-letter-exchange": "amq.topic"})
                b.router.make_queue("bills")
                for name in ("get", "consume", "purge_queue", "delete_queue"):
                    await refused_091(client, name, "bills")
                await channel.delete_queue("orders")
            async with amqp091.connect(url(b, "amqp", "eve")) as client:
                await refused_091(client, "declare_queue", "orders")

    run(test())


def test_amqp091_as_pika_sees_it() -> None:
    pika = imported("pika")
    from wirefmt.broker import running

    with running(ports={"amqp": 0}, users=USERS, permissions=TABLE) as b:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(HOST, b.port("amqp"), credentials=pika.PlainCredentials("ann", "secret"))
        )
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            connection.channel().queue_declare("bills")
        assert closed.value.reply_code == 403
        assert "refused for user 'ann'" in closed.value.reply_text
        connection.channel().queue_declare("orders")
        connection.close()


# ---- AMQP 1.0: amqp:unauthorized-access detaches the link, or rejects the message


def test_amqp10() -> None:
    async def test() -> None:
        async with broker("amqp10") as b, amqp10.connect(url(b, "amqp10", "ann")) as client:
            sender = await client.sender("/queues/orders")
            await sender.send(amqp10.Message(body=b"one"))
            await client.receiver("/queues/orders")
            b.router.make_queue("bills")
            for attach, address in (
                (client.receiver, "/queues/bills"),
                (client.sender, "/queues/new"),
                (client.sender, "/exchanges/amq.topic/x"),
            ):
                with pytest.raises(Refused) as refused:
                    await attach(address)
                assert refused.value.code == "amqp:unauthorized-access"
            assert "new" not in b.router.queues
            anonymous = await client.sender(amqp10.Target())
            await anonymous.send(amqp10.Message(body=b"two", properties=amqp10.Properties(to="/queues/orders")))
            with pytest.raises(Refused, match="unauthorized-access"):
                await anonymous.send(
                    amqp10.Message(body=b"", properties=amqp10.Properties(to="/exchanges/amq.topic/x"))
                )

    run(test())


# ---- MQTT: PUBACK 0x87, SUBACK 0x87 or 0x80, CONNACK 0x87 or 5 for a will


def test_mqtt() -> None:
    async def test() -> None:
        async with broker("mqtt") as b:
            for version, code in ((5, 0x87), (4, 0x80)):
                async with mqtt.connect(b.url("mqtt"), user_name="ann", password="secret", version=version) as client:
                    await client.publish("plant/one", b"1", qos=1)
                    assert await client.subscribe("plant/#", "#") == (0, code)
                    if version == 5:
                        assert await client.subscribe("$share/all/plant/+", "$share/all/+") == (0, code)
                    if version == 5:
                        with pytest.raises(Refused) as refused:
                            await client.publish("state/eve", b"1", qos=1)
                        assert refused.value.code == 0x87
                    else:  # 3.1.1 has no code: the message is acknowledged and dropped
                        await client.publish("state/eve", b"1", qos=1)
            assert {m.name for m in b.topic("#")} == {"plant/one"}
            for will, allowed in (("state/ann", True), ("state/eve", False)):
                client = mqtt.connect(b.url("mqtt"), user_name="ann", password="secret", will=mqtt.Will(will, b"gone"))
                if allowed:
                    async with client:
                        pass
                else:
                    with pytest.raises(Refused) as refused:
                        await client.open()
                    assert refused.value.code == 0x87

    run(test())


DENYING: dict[str, Any] = {
    "ann": {"mqtt": {"publish": "#", "subscribe": "#", "deny": ["secret/#", "+/hidden"]}},
    "*": {"mqtt": {"publish": "#", "subscribe": "#"}},
}


@pytest.mark.parametrize("overlap", ["merged", "each"])
@pytest.mark.parametrize(("version", "code"), [(5, 0x87), (4, 0x80)])
def test_mqtt_topics_that_are_denied(overlap: Literal["merged", "each"], version: Literal[4, 5], code: int) -> None:
    """A filter that matches only denied topics is refused. Others get no messages of denied topics, as from mosquitto with
    `topic deny`."""

    async def test() -> None:
        options = Options(
            ports={"mqtt": 0}, users=USERS, permissions=DENYING, mqtt=mqtt_broker.BrokerOptions(overlap=overlap)
        )
        async with (
            Broker(options) as b,
            mqtt.connect(url(b, "mqtt", "ann"), version=version) as ann,
            mqtt.connect(url(b, "mqtt", "eve"), version=version) as eve,
        ):
            assert await eve.subscribe("secret/#") == (0,)
            filters = ("secret/a", "secret/#", "+/hidden", "a/hidden", "secret/+/b")
            assert await ann.subscribe(*filters) == (code,) * len(filters)
            await eve.publish("secret/kept", b"", qos=1, retain=True)
            await eve.publish("plant/kept", b"1", qos=1, retain=True)
            await eve.publish("secret/kept", b"1", qos=1, retain=True)
            assert await ann.subscribe("#", "plant/+", "+/a") == (0, 0, 0)
            for qos in (0, 1):
                for topic in ("secret/a", "secret", "a/hidden", "a/b/hidden", "plant/a"):
                    await eve.publish(topic, b"1", qos=qos)
            await eve.publish("last", b"1", qos=1)
            got = []
            async for message in ann.messages():
                got.append(message.topic_name)
                if got[-1] == "last":
                    break
            assert set(got) == {"plant/kept", "a/b/hidden", "plant/a", "last"}

    run(test())


def test_mqtt_shared_subscriptions_and_denied_topics() -> None:
    """Members who may have a topic get its messages."""

    async def test() -> None:
        async with (
            Broker(ports={"mqtt": 0}, users=USERS, permissions=DENYING) as b,
            mqtt.connect(url(b, "mqtt", "ann")) as ann,
            mqtt.connect(url(b, "mqtt", "eve")) as eve,
        ):
            assert await ann.subscribe("$share/all/secret/+", "$share/all/#") == (0x87, 0)
            assert await eve.subscribe("$share/all/#") == (0,)
            for number in range(10):
                await eve.publish(f"secret/{number}", b"1", qos=1)
            messages = eve.messages()
            assert {(await anext(messages)).topic_name for _ in range(10)} == {f"secret/{n}" for n in range(10)}
            await eve.unsubscribe("$share/all/#")
            await eve.publish("secret/lost", b"1", qos=1)
            await eve.publish("last", b"1", qos=1)
            assert (await anext(ann.messages())).topic_name == "last"

    run(test())


# ---- NSQ: E_UNAUTHORIZED ends the connection, as in nsqd


def test_nsq() -> None:
    async def test() -> None:
        async with broker("nsq") as b:
            async with nsq.connect(b.url("nsq"), secret="secret") as client:
                await client.publish("orders", b"one")
                async with client.consume("orders", "c") as messages:
                    assert (await anext(messages)).body == b"one"
            with contextlib.suppress(ConnectionLost):
                async with nsq.connect(b.url("nsq"), secret="secret") as client:
                    with pytest.raises(Refused, match="E_UNAUTHORIZED"):
                        await client.publish("bills", b"x")
            with contextlib.suppress(ConnectionLost):
                async with nsq.connect(b.url("nsq"), secret="other") as client:
                    with pytest.raises(Refused, match="E_UNAUTHORIZED"):
                        await client.publish("orders", b"x")
            assert not b.nsq._users

    run(test())


# ---- RocketMQ: response code 16, NO_PERMISSION


def test_rocketmq() -> None:
    async def test() -> None:
        async with broker("rocketmq") as b:
            credentials = rocketmq.Credentials("ann", "secret")
            async with rocketmq.connect(b.url("rocketmq"), credentials=credentials) as client:
                producer = client.producer("group")
                await producer.send("Orders", b"one")
                with pytest.raises(Refused) as refused:
                    await producer.send("Bills", b"two")
                assert refused.value.code == 16
            assert len(b.topic("Orders", "rocketmq")) == 1

    run(test())
