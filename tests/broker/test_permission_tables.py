"""What each request needs is declared: every request of a specification has a row, and every row holds in conversation.

A conversation is made from the row: a user who has all rights but one of them is refused, one who has exactly these is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from lib.loopback import HOST, run
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq
from wirefmt.amqp091 import spec as amqp091_spec
from wirefmt.amqp10 import spec as amqp10_spec
from wirefmt.broker import Broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker.permissions import RIGHTS, USER, Free, Need, Nobody, Permissions
from wirefmt.broker.requests import amqp091 as amqp091_requests
from wirefmt.broker.requests import amqp10 as amqp10_requests
from wirefmt.broker.requests import mqtt as mqtt_requests
from wirefmt.broker.requests import nsq as nsq_requests
from wirefmt.broker.requests import rocketmq as rocketmq_requests
from wirefmt.errors import Refused
from wirefmt.mqtt import spec as mqtt_spec
from wirefmt.nsq import spec as nsq_spec
from wirefmt.rocketmq import spec as rocketmq_spec

USERS = {name: f"secret-of-{name}" for name in ("root", "ann")}

EVERYTHING = {
    "root": {
        protocol: dict.fromkeys(rights, "#" if protocol == "mqtt" else ".*") for protocol, rights in RIGHTS.items()
    }
}


# ---- every request has a row


def camel(*words: str) -> str:
    return "".join(part.capitalize() for word in words for part in re.split("[-_]", word))


def specified() -> dict[str, tuple[set[Any], set[Any]]]:
    """The requests of each specification, and the rows of its table."""
    methods = {camel(c.name, m.name) for c in amqp091_spec.CLASSES for m in c.methods}
    frames = {camel(c.name) for c in amqp10_spec.COMPOSITES if {"frame", "sasl-frame"}.intersection(c.provides)}
    names = {"PUB": "Publish", "MPUB": "MultiPublish", "DPUB": "DeferredPublish", "RDY": "Ready", "FIN": "Finish",
             "REQ": "Requeue", "CLS": "Close"}  # fmt: skip
    of: dict[str, tuple[set[Any], Any]] = {
        "amqp091": (methods | {"BasicMessage"}, amqp091_requests.REQUESTS),
        "amqp10": (frames | {"Coordinator", "Declare", "Discharge"}, amqp10_requests.REQUESTS),
        "mqtt": ({camel(p.name) for p in mqtt_spec.PACKET_TYPES}, mqtt_requests.REQUESTS),
        "nsq": ({names.get(c.name, camel(c.name.lower())) for c in nsq_spec.COMMANDS}, nsq_requests.REQUESTS),
        "rocketmq": ({c.code for c in rocketmq_spec.REQUEST_CODES}, rocketmq_requests.REQUESTS),
    }
    return {
        protocol: (wanted, {row.__name__ if isinstance(row, type) else row for row in rows})
        for protocol, (wanted, rows) in of.items()
    }


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10", "mqtt", "nsq", "rocketmq"])
def test_every_request_of_the_specification_has_a_row(protocol: str) -> None:
    requests, rows = specified()[protocol]
    assert rows == requests


def test_what_the_brokers_do_is_declared() -> None:
    """No handler has a row that says that nobody may send it; other handlers are for no requests."""
    for handlers, base, rows in (
        (mqtt_broker.Broker()._handlers, mqtt.Packet, mqtt_requests.REQUESTS),
        (nsq_broker.Broker._handlers, nsq.Command, nsq_requests.REQUESTS),
    ):
        for kind in handlers:
            assert not issubclass(kind, base) or not isinstance(rows[kind], Nobody)
    served = Broker().rocketmq._codes
    assert {code for code, rule in rocketmq_requests.REQUESTS.items() if not isinstance(rule, Nobody)} == set(served)


def test_a_request_without_a_row_is_refused() -> None:
    lacking = Permissions(EVERYTHING).lacks("root", {}, 4711, None)
    assert lacking is not None
    assert lacking.action == "nobody"
    assert not Permissions(EVERYTHING).may("root", "nobody", "")


def test_rules_without_a_right_say_why() -> None:
    for module in (amqp091_requests, amqp10_requests, mqtt_requests, nsq_requests, rocketmq_requests):
        for rule in module.REQUESTS.values():
            assert not isinstance(rule, Free | Nobody) or rule.why


# ---- rights that are made from needs


def flat(need: Need) -> list[Need]:
    return [need, *(each for other in need.others for each in flat(other))]


def said(needs: Iterable[Need]) -> set[str]:
    """Needs as text."""
    return {"|".join(f"{each.right} {each.name}" for each in flat(need)) for need in needs}


def rights(wanted: str) -> set[str]:
    return set(wanted.split("; ")) if wanted else set()


def shown(value: Any) -> str:
    """The name of a case."""
    text = value if isinstance(value, str | int) else type(value).__name__
    return str(text)[:40]


def table(needs: Iterable[Need]) -> dict[str, Any]:
    """Permissions of ann: these rights, and groups and channels only as far as they are in them."""
    rights: dict[str, dict[str, list[str]]] = {"nsq": {"channel": []}, "rocketmq": {"group": []}}
    for need in needs:
        if need.action != USER:
            protocol, right = need.action.split(".")
            pattern = need.name if protocol == "mqtt" else f"^{re.escape(need.name)}$"
            rights.setdefault(protocol, {}).setdefault(right, []).append(pattern)
    return {**EVERYTHING, "ann": rights}


def tables(needs: list[Need]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Tables of permissions, and whether they allow what has these needs: with all rights but one, with exactly these, and with
    each of those that are enough in place of another."""
    for missing in dict.fromkeys(needs):
        if missing.action != USER:
            yield table(each for need in needs if need != missing for each in flat(need) if each != missing), False
    yield table(needs), all(need.name == "ann" for need in needs if need.action == USER)
    for need in needs:
        for other in need.others:
            yield table([*(each for each in needs if each != need), other]), True


@asynccontextmanager
async def broker(protocol: str) -> AsyncIterator[tuple[Broker, Callable[[Any], None]]]:
    """A broker, and what replaces its permissions."""
    async with Broker(ports={protocol: 0}, users=USERS, permissions=EVERYTHING) as b:
        one = getattr(b, protocol)

        def permit(permissions: Any) -> None:
            one.options = replace(one.options, permissions=Permissions(permissions))

        yield b, permit


def url(b: Broker, protocol: str, user: str) -> str:
    return b.url(protocol).replace("://", f"://{user}:{USERS[user]}@")


# ---- AMQP 0.9.1


class Plain091:
    """A client that sends one method on a channel, and sees whether it is refused."""

    def __init__(self, port: int, user: str) -> None:
        self.port, self.user = port, user

    async def sends(self, *methods: Any) -> int:
        """The code with which the last one is refused; 0: it is not."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        decoder, events = amqp091.Decoder(), deque[Any]()

        async def until(*kinds: type[Any]) -> Any:
            while True:
                while events:
                    if isinstance(event := events.popleft(), kinds):
                        return event
                data = await reader.read(65536)
                assert data
                events.extend(decoder.feed(data))

        writer.write(b"AMQP\0\0\x09\1")
        await until(amqp091.ConnectionStart)
        response = f"\0{self.user}\0{USERS[self.user]}".encode()
        login = amqp091.ConnectionStartOk(client_properties={}, mechanism="PLAIN", response=response)
        writer.write(login.encode())
        tune = await until(amqp091.ConnectionTune)
        tuned = amqp091.ConnectionTuneOk(channel_max=tune.channel_max, frame_max=tune.frame_max, heartbeat=0)
        writer.write(tuned.encode() + amqp091.ConnectionOpen(virtual_host="/").encode())
        writer.write(amqp091.ChannelOpen(channel=1).encode())
        await until(amqp091.ChannelOpenOk)
        for method in methods:
            writer.write(method.encode())
        closing = (amqp091.ChannelClose, amqp091.ConnectionClose)
        for _ in range(2):  # it is answered at once; the second answer comes after those to the methods
            writer.write(amqp091.ChannelFlow(channel=1, active=True).encode())
            answer = await until(amqp091.ChannelFlowOk, *closing)
            if isinstance(answer, closing):
                break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        return answer.reply_code if isinstance(answer, closing) else 0


def message091(exchange: str) -> amqp091.BasicMessage:
    return amqp091.BasicMessage(amqp091.BasicPublish(channel=1, exchange=exchange, routing_key="q"), body=b"x")


#: What a client may send after it has opened a channel, one or more of each kind, and what it needs (RabbitMQ, access control).
METHODS: list[tuple[str, Any]] = [
    ("", amqp091.AccessRequest(channel=1, realm="/")),
    ("", amqp091.BasicAck(channel=1, delivery_tag=0, multiple=True)),
    ("", amqp091.BasicCancel(channel=1, consumer_tag="gone")),
    ("read q", amqp091.BasicConsume(channel=1, queue="q")),
    ("", amqp091.BasicConsume(channel=1, queue="amq.rabbitmq.reply-to", no_ack=True)),
    ("read q", amqp091.BasicGet(channel=1, queue="q")),
    ("", amqp091.BasicNack(channel=1, delivery_tag=0, multiple=True)),
    ("", amqp091.BasicQos(channel=1, prefetch_count=1)),
    ("", amqp091.BasicRecover(channel=1, requeue=True)),
    ("", amqp091.BasicRecoverAsync(channel=1, requeue=True)),
    ("", amqp091.BasicReject(channel=1, delivery_tag=1)),
    ("", amqp091.ChannelFlow(channel=1, active=True)),
    ("", amqp091.ConfirmSelect(channel=1)),
    ("write e; read f", amqp091.ExchangeBind(channel=1, destination="e", source="f")),
    ("configure new", amqp091.ExchangeDeclare(channel=1, exchange="new", type="direct")),
    (
        "configure new; read new; write f",
        amqp091.ExchangeDeclare(channel=1, exchange="new", arguments={"alternate-exchange": "f"}),
    ),
    (
        "configure new; read new; write amq.default",
        amqp091.ExchangeDeclare(channel=1, exchange="new", arguments={"alternate-exchange": ""}),
    ),
    ("read e|write e|configure e", amqp091.ExchangeDeclare(channel=1, exchange="e", passive=True)),
    ("configure e", amqp091.ExchangeDelete(channel=1, exchange="e")),
    ("write e; read f", amqp091.ExchangeUnbind(channel=1, destination="e", source="f")),
    ("write q; read e", amqp091.QueueBind(channel=1, queue="q", exchange="e", routing_key="k")),
    ("configure amq.gen", amqp091.QueueDeclare(channel=1, queue="")),
    ("configure new", amqp091.QueueDeclare(channel=1, queue="new")),
    (
        "configure new; read new; write e",
        amqp091.QueueDeclare(channel=1, queue="new", arguments={"x-dead-letter-exchange": "e"}),
    ),
    (
        "configure new; read new; write amq.default",
        amqp091.QueueDeclare(channel=1, queue="new", arguments={"x-dead-letter-exchange": ""}),
    ),
    ("read q|write q|configure q|write amq.default", amqp091.QueueDeclare(channel=1, queue="q", passive=True)),
    ("configure q", amqp091.QueueDelete(channel=1, queue="q")),
    ("read q", amqp091.QueuePurge(channel=1, queue="q")),
    ("write q; read e", amqp091.QueueUnbind(channel=1, queue="q", exchange="e", routing_key="k")),
    ("", amqp091.TxSelect(channel=1)),
    ("write e", message091("e")),
    ("write amq.default", message091("")),
]

#: Those of the connection, which each conversation begins or ends with, and those that belong to a sequence.
NOT_ALONE = {
    "ConnectionStartOk", "ConnectionSecureOk", "ConnectionTuneOk", "ConnectionOpen", "ConnectionClose", "ConnectionCloseOk",
    "ConnectionUpdateSecret", "ChannelOpen", "ChannelClose", "ChannelCloseOk", "ChannelFlowOk", "BasicCancelOk", "BasicPublish",
    "TxCommit", "TxRollback",
}  # fmt: skip


def test_amqp091_all_methods_are_tried() -> None:
    rows = amqp091_requests.REQUESTS.items()
    assert {type(method).__name__ for _, method in METHODS} == {
        kind.__name__ for kind, rule in rows if not isinstance(rule, Nobody)
    } - NOT_ALONE


@pytest.mark.parametrize(("wanted", "method"), METHODS, ids=shown)
def test_amqp091(wanted: str, method: Any) -> None:
    """403, access-refused (RabbitMQ), and nothing has been done."""
    needs = list(amqp091_requests.REQUESTS[type(method)](method, str))
    assert said(needs) == rights(wanted)

    async def test() -> None:
        async with broker("amqp") as (b, permit):

            def state() -> Any:
                return set(b.router.queues), {n: list(e.bindings) for n, e in b.router.exchanges.items()}

            for permissions, allowed in tables(needs):
                permit(permissions)
                b.router.close()
                for name in ("e", "f"):
                    declare = amqp091.ExchangeDeclare(channel=1, exchange=name, type="fanout")
                    assert await Plain091(b.port("amqp"), "root").sends(declare) == 0
                b.router.make_queue("q")
                before = state()
                code = await Plain091(b.port("amqp"), "ann").sends(method)
                assert (code != 403) is allowed, (permissions, code)
                assert allowed or state() == before

    run(test())


# ---- AMQP 1.0

#: What is needed (as for 0.9.1) by a link or a message to the anonymous terminus, and where it leads.
REACHES: list[tuple[str, str, Any, amqp10_requests.Reach]] = [
    ("write amq.default", "sender", "/queues/q", amqp10_requests.Reach("", "q", "write")),
    ("write amq.default", "sender", "q", amqp10_requests.Reach("", "q", "write")),
    (
        "configure new; write amq.default",
        "sender",
        "/queues/new",
        amqp10_requests.Reach("", "new", "write", makes=True),
    ),
    ("write amq.topic", "sender", "/exchanges/amq.topic/k", amqp10_requests.Reach("amq.topic", "k", "write")),
    (
        "configure dynamic-1; write amq.default",
        "sender",
        amqp10.Target(dynamic=True),
        amqp10_requests.Reach("", "dynamic-1", "write", makes=True),
    ),
    ("read q", "receiver", "/queues/q", amqp10_requests.Reach("", "q", "read")),
    ("configure new; read new", "receiver", "/queues/new", amqp10_requests.Reach("", "new", "read", makes=True)),
    (
        "configure dynamic-1; read dynamic-1",
        "receiver",
        amqp10.Source(dynamic=True),
        amqp10_requests.Reach("", "dynamic-1", "read", makes=True),
    ),
    ("write amq.default", "message", "/queues/q", amqp10_requests.Reach("", "q", "write")),
    (
        "configure new; write amq.default",
        "message",
        "/queues/new",
        amqp10_requests.Reach("", "new", "write", makes=True),
    ),
    ("write amq.topic", "message", "/exchanges/amq.topic/k", amqp10_requests.Reach("amq.topic", "k", "write")),
]


@pytest.mark.parametrize(("wanted", "what", "address", "reach"), REACHES, ids=shown)
def test_amqp10(wanted: str, what: str, address: Any, reach: amqp10_requests.Reach) -> None:
    """amqp:unauthorized-access (RabbitMQ)."""
    request = amqp10.Transfer if what == "message" else amqp10.Attach
    needs = list(amqp10_requests.REQUESTS[request](reach, None))
    assert said(needs) == rights(wanted)

    async def test() -> None:
        for permissions, allowed in tables(needs):
            async with broker("amqp10") as (b, permit):
                permit(permissions)
                b.router.make_queue("q")
                refused = ""
                async with amqp10.connect(url(b, "amqp10", "ann")) as client:
                    try:
                        if what == "message":
                            sender = await client.sender(amqp10.Target())
                            message = amqp10.Message(properties=amqp10.Properties(to=address), body=b"x")
                            await sender.send(message)
                        else:
                            await getattr(client, what)(address)
                    except Refused as error:
                        refused = str(error)
                assert ("unauthorized-access" not in refused) is allowed, (permissions, refused)
                assert allowed or set(b.router.queues) == {"q"}

    run(test())


def test_amqp10_a_message_on_a_link_needs_its_right_again() -> None:
    async def test() -> None:
        async with broker("amqp10") as (b, permit), amqp10.connect(url(b, "amqp10", "root")) as client:
            sender = await client.sender("/queues/q")
            await sender.send(amqp10.Message(body=b"x"))
            permit({"root": {"amqp": {"configure": ".*", "read": ".*"}}})
            with pytest.raises(Refused, match="unauthorized-access"):
                await sender.send(amqp10.Message(body=b"y"))
            assert len(b.queue("q")) == 1
            async with client.transaction() as transaction:  # it is checked message by message, too
                with pytest.raises(Refused, match="unauthorized-access"):
                    await sender.send(amqp10.Message(body=b"z"), transaction=transaction)
            assert len(b.queue("q")) == 1

    run(test())


# ---- MQTT

PACKETS: list[tuple[str, Any]] = [
    ("publish a/will", mqtt.Connect(client_identifier="c", version=5, will=mqtt.Will("a/will", b"x"))),
    ("", mqtt.Connect(client_identifier="c", version=5)),
    ("publish a/b", mqtt.Publish(topic_name="a/b", payload=b"x", qos=1, packet_identifier=1, version=5)),
    ("publish a/b", mqtt.Publish(topic_name="a/b", payload=b"x", qos=1, packet_identifier=1, retain=True, version=5)),
    ("subscribe a/+", mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("a/+")], version=5)),
    (
        "subscribe a/+",
        mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("$share/g/a/+")], version=5),
    ),
    ("", mqtt.Unsubscribe(packet_identifier=1, topic_filters=["a/+"], version=5)),
    ("", mqtt.Pingreq(version=5)),
]


@pytest.mark.parametrize(("wanted", "packet"), PACKETS, ids=shown)
def test_mqtt(wanted: str, packet: Any) -> None:
    """0x87, not authorized, in the acknowledgement."""
    needs = list(mqtt_requests.REQUESTS[type(packet)](packet, None))
    assert said(needs) == rights(wanted)

    async def converse(port: int) -> int:
        reader, writer = await asyncio.open_connection(HOST, port)
        decoder = mqtt.Decoder(version=5)

        async def answer() -> Any:
            while data := await reader.read(65536):
                for event in decoder.feed(data):
                    return event
            raise EOFError

        login: dict[str, Any] = {"user_name": "ann", "password": USERS["ann"].encode()}
        connect = mqtt.Connect(client_identifier="c", version=5, **login)
        if isinstance(packet, mqtt.Connect):
            connect = mqtt.Connect(client_identifier="c", version=5, will=packet.will, **login)
        writer.write(connect.encode())
        got = await answer()
        if not isinstance(packet, mqtt.Connect):
            writer.write(packet.encode())
            got = await answer()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        codes: Any = getattr(got, "reason_codes", None) or [getattr(got, "reason_code", 0) or 0]
        return int(codes[0])

    async def test() -> None:
        async with broker("mqtt") as (b, permit):
            for permissions, allowed in tables(needs):
                permit(permissions)
                assert (await converse(b.port("mqtt")) != 0x87) is allowed, permissions
                assert allowed or not len(list(b.mqtt.retained.match("#")))

    run(test())


# ---- NSQ

COMMANDS: list[tuple[str, Any]] = [
    ("channel c; subscribe t", nsq.Sub(topic="t", channel="c")),
    ("publish t", nsq.Publish(topic="t", body=b"x")),
    ("publish t", nsq.MultiPublish(topic="t", bodies=[b"x"])),
    ("publish t", nsq.DeferredPublish(topic="t", defer_time=1, body=b"x")),
    ("", nsq.Nop()),
]


@pytest.mark.parametrize(("wanted", "command"), COMMANDS, ids=shown)
def test_nsq(wanted: str, command: Any) -> None:
    """E_UNAUTHORIZED (nsqd)."""
    needs = list(nsq_requests.REQUESTS[type(command)](command, None))
    assert said(needs) == rights(wanted)

    async def converse(port: int) -> bytes:
        reader, writer = await asyncio.open_connection(HOST, port)
        secret = USERS["ann"].encode()
        writer.write(b"  V2IDENTIFY\n" + struct.pack(">I", 2) + b"{}")
        writer.write(b"AUTH\n" + struct.pack(">I", len(secret)) + secret + command.encode() + b"RDY x\n")  # an error
        writer.write_eof()
        said = await reader.read()
        writer.close()
        return said

    async def test() -> None:
        for permissions, allowed in tables(needs):
            async with broker("nsq") as (b, permit):
                permit(permissions)
                said = await converse(b.port("nsq"))
                assert (b"E_UNAUTHORIZED" not in said) is allowed, said
                assert allowed or not b.nsq.topics

    run(test())


# ---- RocketMQ


class Rocketmq:
    """A connection whose requests are signed."""

    def __init__(self, port: int, user: str) -> None:
        self.port, self.user = port, user

    async def __aenter__(self) -> Rocketmq:
        self.reader, self.writer = await asyncio.open_connection(HOST, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def call(self, code: int, fields: dict[str, str], body: bytes = b"") -> Any:
        command = rocketmq.RemotingCommand(code=code, opaque=code, ext_fields=fields, body=body)
        signed = rocketmq.sign(command, access_key=self.user, secret_key=USERS[self.user])
        self.writer.write(signed.encode())
        decoder = rocketmq.Decoder()
        while True:
            for answer in decoder.feed(await asyncio.wait_for(self.reader.read(65536), 10)):
                if answer.is_response:
                    return answer


SEND = {"producerGroup": "P", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "PGROUP\1P\2", "reconsumeTimes": "0",
        "batch": "false"}  # fmt: skip
SEND_V2 = dict(zip("abcdefghijm", SEND.values(), strict=True))
PULL = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG"}  # fmt: skip
QUEUE = {"consumerGroup": "G", "topic": "T", "queueId": "0"}
POP = {**QUEUE, "maxMsgNums": "1", "invisibleTime": "1000", "pollTime": "0", "bornTime": "1", "initMode": "0"}
POPPED = {**QUEUE, "offset": "0", "extraInfo": "0 1 1000 0 0 b 0 0"}
MESSAGE_ID = rocketmq.encode_message_id("127.0.0.1", 9876, 0)
HEARTBEAT = (
    b'{"clientID":"%b","producerDataSet":[{"groupName":"P"}],'
    b'"consumerDataSet":[{"groupName":"%b","subscriptionDataSet":[%b]}]}'
)
LOCKS = b'{"consumerGroup":"G","clientId":"%b","mqSet":[{"topic":"T","brokerName":"broker-a","queueId":0}]}'


def subscriptions(*topics: str) -> bytes:
    return b",".join(b'{"topic":"%b","subString":"*","subVersion":1}' % topic.encode() for topic in topics)


#: What is needed (RocketMQ 5), and code, fields and body of one or more requests for each that is served. Message 0 is in T, and
#: the group G has consumed T and U.
CALLS: list[tuple[str, int, dict[str, str], bytes]] = [
    ("publish T", 10, SEND, b"x"),
    ("group G; subscribe T; subscribe U", 10, {**SEND, "topic": "%RETRY%G"}, b"x"),
    ("publish %RETRY%unknown", 10, {**SEND, "topic": "%RETRY%unknown"}, b"x"),
    ("publish %DLQ%G", 10, {**SEND, "topic": "%DLQ%G"}, b"x"),
    ("group G; subscribe T", 11, PULL, b""),
    ("group G; subscribe T; subscribe U", 11, {**PULL, "sysFlag": "5", "commitOffset": "1"}, b""),
    ("group G; subscribe T; subscribe U", 11, {**PULL, "topic": "%RETRY%G"}, b""),
    ("group G; subscribe T; subscribe U", 14, QUEUE, b""),
    ("group G; subscribe T; subscribe U", 15, {**QUEUE, "commitOffset": "1"}, b""),
    ("subscribe T", 29, {**QUEUE, "timestamp": "1"}, b""),
    ("subscribe T", 30, QUEUE, b""),
    ("subscribe T", 31, QUEUE, b""),
    ("subscribe T", 33, {"offset": "0", "topic": "other"}, b""),
    ("group mine; subscribe T; subscribe V", 34, {}, HEARTBEAT % (b"mine", b"mine", subscriptions("T", "V", "%RETRY%mine"))),
    ("group G; subscribe T; subscribe U; subscribe V", 34, {}, HEARTBEAT % (b"mine", b"G", subscriptions("V", "%RETRY%G"))),
    ("group G; group mine; subscribe T; subscribe U", 34, {}, HEARTBEAT % (b"mine", b"mine", subscriptions("%RETRY%G"))),
    ("", 35, {"clientID": "mine", "consumerGroup": "G"}, b""),
    ("user root", 35, {"clientID": "roots", "consumerGroup": "G", "producerGroup": "P"}, b""),
    ("user root; group mine", 34, {}, HEARTBEAT % (b"roots", b"mine", b"")),
    ("group mine; subscribe T", 36, {"group": "mine", "offset": "0", "delayLevel": "0", "originTopic": "other"}, b""),
    ("group G; subscribe T; subscribe U", 36, {"group": "G", "offset": "0", "delayLevel": "-1"}, b""),
    ("publish T", 37, {"producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": "HALF", "commitOrRollback": "12",
          "msgId": "x", "topic": "other"}, b""),
    ("group G; subscribe T; subscribe U", 38, {"consumerGroup": "G"}, b""),
    ("group G; subscribe T; subscribe U", 41, {}, LOCKS % b"mine"),
    ("group G; subscribe T; subscribe U", 42, {}, LOCKS % b"mine"),
    ("user root; group G; subscribe T; subscribe U", 41, {}, LOCKS % b"roots"),
    ("user root; group G; subscribe T; subscribe U", 42, {}, LOCKS % b"roots"),
    ("", 46, {}, b'{"subscriptionData":{"subString":"*"}}'),
    ("publish T|subscribe T", 105, {"topic": "T"}, b""),
    ("", 105, {"topic": "TBW102"}, b""),
    ("group G; subscribe T; subscribe U", 105, {"topic": "%RETRY%G"}, b""),
    ("group G; subscribe T; subscribe U", 307, {"consumerGroup": "G", "clientId": "gone"}, b""),
    ("group G; subscribe T; subscribe U", 309, {"consumerGroup": "G", "clientId": "gone", "msgId": MESSAGE_ID}, b""),
    ("publish T", 310, SEND_V2, b"x"),
    ("publish T", 320, SEND_V2, b"x"),
    ("publish wirefmt_REPLY_TOPIC", 324, {**SEND, "topic": "wirefmt_REPLY_TOPIC"}, b"x"),
    ("publish T; publish wirefmt_REPLY_TOPIC", 324, {**SEND, "properties": "REPLY_TO_CLIENT\1gone\2"}, b"x"),
    ("publish T; publish wirefmt_REPLY_TOPIC", 325, SEND_V2, b"x"),
    ("group G; subscribe T", 361, PULL, b""),
    ("group G; subscribe T; subscribe U", 200050, POP, b""),
    ("group G; subscribe T; subscribe U", 200051, POPPED, b""),
    ("group G; subscribe T; subscribe U", 200053, {**POPPED, "invisibleTime": "1"}, b""),
]  # fmt: skip


def test_rocketmq_all_requests_are_tried() -> None:
    assert {code for _, code, _, _ in CALLS} == {
        code for code, rule in rocketmq_requests.REQUESTS.items() if not isinstance(rule, Nobody)
    }


async def prepare(b: Broker, root: Rocketmq) -> int:
    """Two messages, a half message, whose offset is returned, and the members and offsets of G."""
    for topic in ("T", "U"):
        assert (await root.call(10, {**SEND, "topic": topic}, b"secret")).code == 0
    assert (await root.call(10, {**SEND, "sysFlag": "4"}, b"half")).code == 0
    assert (await root.call(34, {}, HEARTBEAT % (b"roots", b"G", subscriptions("U", "%RETRY%G")))).code == 0
    assert (await root.call(15, {**QUEUE, "commitOffset": "0"})).code == 0
    (half,) = b.rocketmq._transactions.halves
    return half


def state(b: Broker) -> Any:
    r = b.rocketmq
    stored = {topic: [queue.end for queue in queues] for topic, queues in r.topics.items()}
    members = {group: set(some) for group, some in {**r.consumers, **r.producers}.items()}
    return (
        stored,
        r.offsets.copy(),
        members,
        set(r._locks.locks),
        set(r._transactions.halves),
        set(r._popping.popped),
        dict(r._popping.following),
    )


@pytest.mark.parametrize(("wanted", "code", "fields", "body"), CALLS, ids=shown)
def test_rocketmq(wanted: str, code: int, fields: dict[str, str], body: bytes) -> None:
    """16, NO_PERMISSION, and nothing has been done or said."""

    async def test() -> None:
        async with broker("rocketmq") as (b, permit):
            count = 1
            while count:
                b.rocketmq.close()
                permit(EVERYTHING)
                async with Rocketmq(b.port("rocketmq"), "root") as root, Rocketmq(b.port("rocketmq"), "ann") as ann:
                    half = await prepare(b, root)
                    sent = {k: str(half) if v == "HALF" else v for k, v in fields.items()}
                    request = rocketmq.RemotingCommand(code=code, ext_fields=sent, body=body)
                    needs = list(rocketmq_requests.REQUESTS[code](request, b.rocketmq))
                    assert said(needs) == rights(wanted)
                    each = list(tables(needs))
                    permissions, allowed = each[count - 1]
                    permit(permissions)
                    before = state(b)
                    answer = await ann.call(code, sent, body)
                    assert (answer.code != 16) is allowed, (permissions, answer.remark)
                    if not allowed:
                        assert state(b) == before
                        assert not answer.body
                        assert "16" not in (answer.ext_fields or {})
                    count = count + 1 if count < len(each) else 0

    run(test())


def test_rocketmq_what_is_not_served_is_refused() -> None:
    async def test() -> None:
        async with broker("rocketmq") as (b, _), Rocketmq(b.port("rocketmq"), "root") as root:
            nobody = [code for code, rule in rocketmq_requests.REQUESTS.items() if isinstance(rule, Nobody)]
            for code in (*nobody, 4711):
                assert (await root.call(code, {"topic": "T"})).code == 16

    run(test())
