"""The column `detail`: what a row says of each kind of message, written out by hand from what the message holds; and what
holds for any message: at most 200 bytes of UTF-8, no control character, no secret, nothing unless asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.connection_rows import CLIENT, SERVER, rows
from lib.paths import DATA, ROOT
from lib.wire import packet, string
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.amqp091 import columns as amqp091_columns
from wirefmt.amqp091 import detail as amqp091_detail
from wirefmt.amqp10 import columns as amqp10_columns
from wirefmt.amqp10 import detail as amqp10_detail
from wirefmt.mqtt import columns as mqtt_columns
from wirefmt.mqtt import detail as mqtt_detail
from wirefmt.nsq import columns as nsq_columns
from wirefmt.nsq import detail as nsq_detail
from wirefmt.phpmq import columns as phpmq_columns
from wirefmt.phpmq import detail as phpmq_detail
from wirefmt.rocketmq import detail as rocketmq_detail

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")


def details(protocol: str, *said: tuple[int, bytes], **options: Any) -> list[str | None]:
    return [row["detail"] for row in rows(protocol, *said, **options)]


# ---- MQTT


CONNECT5 = mqtt.Connect(
    client_identifier="press-7", keep_alive=30, clean_start=True, user_name="ada", password=b"lovelace", version=5,
    will=mqtt.Will(topic="plant/status", payload=b"gone", qos=1, retain=True),
    properties=(("session_expiry_interval", 3600), ("user_property", ("a", "b")), ("user_property", ("c", "d"))),
)  # fmt: skip


def v5(packet: Any) -> list[str | None]:
    side = SERVER if isinstance(packet, mqtt.Connack | mqtt.Suback | mqtt.Unsuback) else CLIENT
    return details("mqtt", (CLIENT, mqtt.Connect(version=5).encode()), (side, packet.encode()))[1:]


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (
            CONNECT5,
            "version=5.0 keep_alive=30 clean_start client_id=press-7 will=plant/status will_qos=1 will_retain will_size=4 "
            "session_expiry_interval=3600 user_properties=2",
        ),
        (
            mqtt.Connack(reason_code=0x87, version=5, properties=(("reason_string", 'user "ada" is not known'),)),
            r'Not authorized (0x87) "user \"ada\" is not known"',
        ),
        (
            mqtt.Connack(session_present=True, version=5, properties=(("server_keep_alive", 10), ("maximum_qos", 1))),
            "Success session_present server_keep_alive=10 maximum_qos=1",
        ),
        (
            mqtt.Publish(
                topic_name="plant/line 1", payload=b"21.5", qos=1, retain=True, dup=True, packet_identifier=9, version=5,
                properties=(
                    ("content_type", "text/plain"), ("response_topic", "answers"), ("correlation_data", b"\0\1\2\xff"),
                    ("message_expiry_interval", 60), ("user_property", ("token", "s3cret")),
                ),
            ),
            '"plant/line 1" qos=1 retain dup id=9 size=4 content_type=text/plain response_topic=answers '
            "correlation_data=0x000102ff message_expiry_interval=60 user_properties=1",
        ),
        (
            mqtt.Subscribe(
                packet_identifier=3, version=5, properties=(("subscription_identifier", 7),),
                subscriptions=(
                    mqtt.Subscription("a/#", qos=2, no_local=True, retain_as_published=True, retain_handling=2),
                    mqtt.Subscription("b", qos=0),
                ),
            ),
            "id=3 a/# qos=2 no_local retain_as_published retain_handling=2, b qos=0 subscription_identifier=7",
        ),
        (
            mqtt.Subscribe(
                packet_identifier=4, version=5,
                subscriptions=(mqtt.Subscription("a", qos=1, retain_handling=1), mqtt.Subscription("b", no_local=True)),
            ),
            "id=4 a qos=1 retain_handling=1, b qos=0 no_local",
        ),
        (
            mqtt.Suback(packet_identifier=3, reason_codes=(2, 0x97, 0x80), version=5),
            "id=3 Granted QoS 2, Quota exceeded (0x97), Unspecified error (0x80)",
        ),
        (mqtt.Unsubscribe(packet_identifier=4, topic_filters=("a/#", "b"), version=5), "id=4 a/#, b"),
        (
            mqtt.Unsuback(packet_identifier=4, reason_codes=(0, 0x11), version=5),
            "id=4 Success, No subscription existed",
        ),
        (mqtt.Puback(packet_identifier=9, reason_code=0x10, version=5), "id=9 No matching subscribers"),
        (
            mqtt.Disconnect(reason_code=0x8E, version=5, properties=(("reason_string", "other client"),)),
            'Session taken over (0x8e) "other client"',
        ),
        (mqtt.Pingreq(), None),
    ],
)  # fmt: skip
def test_mqtt_5(packet: Any, told: str | None) -> None:
    assert v5(packet) == [told]


def test_mqtt_3_1_1() -> None:
    """Codes have the names of the version; what a packet cannot say is not said."""
    connect = mqtt.Connect(client_identifier="c", keep_alive=60, clean_start=False, version=4)
    told = details(
        "mqtt",
        (CLIENT, connect.encode()),
        (SERVER, mqtt.Connack(reason_code=5, version=4).encode()),
        (
            CLIENT,
            mqtt.Subscribe(packet_identifier=1, version=4, subscriptions=(mqtt.Subscription("a", qos=1),)).encode(),
        ),
        (SERVER, mqtt.Suback(packet_identifier=1, reason_codes=(1, 0x80), version=4).encode()),
        (SERVER, mqtt.Puback(packet_identifier=2, version=4).encode()),
        (CLIENT, mqtt.Disconnect(version=4).encode()),
    )
    assert told == [
        "version=3.1.1 keep_alive=60 client_id=c", "not authorized (0x05)", "id=1 a qos=1",
        "id=1 Maximum QoS 1, Failure (0x80)", "id=2", None,
    ]  # fmt: skip


def test_a_topic_alias_is_told_by_its_topic() -> None:
    first = mqtt.Publish(topic_name="t/1", version=5, properties=(("topic_alias", 3),))
    second = mqtt.Publish(topic_name="", payload=b"xy", version=5, properties=(("topic_alias", 3),))
    unknown = mqtt.Publish(topic_name="", payload=b"z", version=5, properties=(("topic_alias", 4),))
    said = [(CLIENT, p.encode()) for p in (mqtt.Connect(version=5), first, second, unknown)]
    assert details("mqtt", *said)[1:] == [
        "t/1 qos=0 size=0 topic_alias=3", "t/1 qos=0 size=2 topic_alias=3", "qos=0 size=1 topic_alias=4"
    ]  # fmt: skip


# ---- AMQP 0.9.1


PROPERTIES = amqp091.BasicProperties(
    content_type="text/plain", delivery_mode=2, priority=4, correlation_id="c 1", reply_to="box", expiration="5000",
    message_id="m1", type="order", app_id="shop", user_id="guest", headers={"password": "x", "b": 1},
)  # fmt: skip


@pytest.mark.parametrize(
    ("side", "method", "told"),
    [
        (
            SERVER,
            amqp091.ConnectionStart(
                server_properties={"product": "RabbitMQ", "version": "4.0.2", "cluster_name": "r@1"},
                mechanisms=b"PLAIN AMQPLAIN", locales=b"en_US",
            ),
            'product=RabbitMQ version=4.0.2 cluster_name=r@1 mechanisms="PLAIN AMQPLAIN" locales=en_US',
        ),
        (
            CLIENT,
            amqp091.ConnectionStartOk(
                client_properties={"product": "pika", "connection_name": "orders 7", "password": "pw"},
                mechanism="PLAIN", response=b"\0ada\0lovelace", locale="en_US",
            ),
            'connection_name="orders 7" product=pika mechanism=PLAIN locale=en_US',
        ),
        (SERVER, amqp091.ConnectionTune(channel_max=2047, frame_max=131072, heartbeat=60),
         "channel_max=2047 frame_max=131072 heartbeat=60"),
        (CLIENT, amqp091.ConnectionOpen(virtual_host="/"), "virtual_host=/"),
        (
            SERVER,
            amqp091.ConnectionClose(reply_code=530, reply_text="NOT_ALLOWED - no", class_id=10, method_id=40),
            '530 "NOT_ALLOWED - no" method=connection.open',
        ),
        (CLIENT, amqp091.ConnectionClose(reply_code=200, reply_text="bye", class_id=0, method_id=0), "200 bye"),
        (CLIENT, amqp091.ConnectionUpdateSecret(new_secret=b"lovelace", reason="old one expired"), '"old one expired"'),
        (CLIENT, amqp091.ChannelFlow(channel=1, active=False), "active=false"),
        (
            CLIENT,
            amqp091.QueueDeclare(
                channel=1, queue="jobs", durable=True,
                arguments={"x-queue-type": "quorum", "x-message-ttl": 60000, "secret": "x", "x-deep": {"a": 1}},
            ),
            "queue=jobs durable x-queue-type=quorum x-message-ttl=60000 x-deep=…",
        ),
        (SERVER, amqp091.QueueDeclareOk(channel=1, queue="jobs", message_count=3, consumer_count=0),
         "queue=jobs messages=3 consumers=0"),
        (CLIENT, amqp091.QueueBind(channel=1, queue="jobs", exchange="shop", routing_key="a.#"),
         "queue=jobs exchange=shop key=a.#"),
        (CLIENT, amqp091.BasicQos(channel=1, prefetch_count=20, global_=True), "prefetch_count=20 global"),
        (CLIENT, amqp091.BasicConsume(channel=1, queue="jobs", consumer_tag="", no_ack=True),
         'queue=jobs consumer_tag="" no_ack'),
        (CLIENT, amqp091.BasicAck(channel=1, delivery_tag=2**64 - 1, multiple=True),
         "delivery_tag=18446744073709551615 multiple"),
        (CLIENT, amqp091.BasicNack(channel=1, delivery_tag=5, requeue=True), "delivery_tag=5 requeue"),
        (CLIENT, amqp091.ChannelOpen(channel=1), None),
    ],
)  # fmt: skip
def test_amqp_091_methods(side: int, method: Any, told: str | None) -> None:
    assert details("amqp091", (side, method.encode())) == [told]


def test_amqp_091_contents() -> None:
    """A method with its content: the size behind where it went, then the properties; of headers how many there are."""
    header = amqp091.ContentHeader(channel=1, body_size=2, properties=PROPERTIES).encode()
    body = bytes.fromhex("03 0001 00000002") + b"hi\xce"
    content = "persistent content_type=text/plain type=order message_id=m1 correlation_id=\"c 1\" reply_to=box " \
        "expiration=5000 priority=4 app_id=shop headers=2"  # fmt: skip
    for side, method, told in (
        (CLIENT, amqp091.BasicPublish(channel=1, exchange="", routing_key="jobs", mandatory=True),
         'exchange="" key=jobs size=2 mandatory'),
        (SERVER, amqp091.BasicDeliver(channel=1, consumer_tag="t", delivery_tag=7, redelivered=True, exchange="shop",
                                      routing_key="a"), "exchange=shop key=a size=2 delivery_tag=7 redelivered consumer_tag=t"),
        (SERVER, amqp091.BasicReturn(channel=1, reply_code=312, reply_text="NO_ROUTE", exchange="shop", routing_key="a"),
         "312 NO_ROUTE exchange=shop key=a size=2"),
    ):  # fmt: skip
        expected = f"{told} {content}"
        assert details("amqp091", (side, method.encode() + header + body)) == [
            expected if len(expected) <= 200 else expected[:197] + "…"
        ]


def test_a_content_that_is_not_whole_is_told_as_far_as_it_goes() -> None:
    method = amqp091.BasicPublish(channel=1, exchange="x", routing_key="k").encode()
    header = amqp091.ContentHeader(channel=1, body_size=9).encode()
    [row] = rows("amqp091", (CLIENT, method + header))
    assert (row["status"], row["detail"]) == ("partial", "exchange=x key=k size=9")
    [row] = rows("amqp091", (CLIENT, method))
    assert (row["status"], row["detail"]) == ("partial", "exchange=x key=k")


# ---- AMQP 1.0


def performative(p: Any, side: int = CLIENT) -> list[str | None]:
    return details("amqp10", (side, p.encode()))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            amqp10.Open(
                container_id="orders-7", hostname="vhost", max_frame_size=65536, channel_max=255, idle_time_out=30000,
                properties={amqp10.Symbol("product"): "rhea", amqp10.Symbol("password"): "x"},
            ),
            "container_id=orders-7 hostname=vhost max_frame_size=65536 channel_max=255 idle_time_out=30000 product=rhea",
        ),
        (
            amqp10.Attach(
                name="link 1", handle=0, role=True, snd_settle_mode=1, rcv_settle_mode=0,
                source=amqp10.Source(address="/queues/q"), target=amqp10.Target(),
            ),
            'receiver name="link 1" handle=0 source=/queues/q target=(null) snd_settle_mode=settled rcv_settle_mode=first',
        ),
        (
            amqp10.Attach(
                name="tx", handle=1, role=False, source=amqp10.Source(dynamic=True), target=amqp10.Coordinator()
            ),
            "sender name=tx handle=1 source=(dynamic) target=coordinator",
        ),
        (
            amqp10.Flow(
                next_incoming_id=1, incoming_window=10, next_outgoing_id=2, outgoing_window=20, handle=0,
                delivery_count=3, link_credit=100, drain=True,
            ),
            "link_credit=100 handle=0 delivery_count=3 drain next_incoming_id=1 incoming_window=10 next_outgoing_id=2 "
            "outgoing_window=20",
        ),
        (amqp10.Disposition(role=True, first=4, last=9, settled=True, state=amqp10.Accepted()),
         "receiver first=4 last=9 settled state=accepted"),
        (
            amqp10.Disposition(
                role=True, first=4,
                state=amqp10.Rejected(error=amqp10.Error(condition="amqp:invalid-field", description="no such thing")),
            ),
            'receiver first=4 state=rejected amqp:invalid-field "no such thing"',
        ),
        (
            amqp10.Disposition(
                role=True, first=4, state=amqp10.Modified(delivery_failed=True, undeliverable_here=True)
            ),
            "receiver first=4 state=modified delivery_failed undeliverable_here",
        ),
        (
            amqp10.Disposition(
                role=True, first=4, state=amqp10.TransactionalState(txn_id=b"\1", outcome=amqp10.Released())
            ),
            "receiver first=4 state=transactional-state released",
        ),
        (
            amqp10.Detach(
                handle=0, closed=True, error=amqp10.Error(condition="amqp:not-found", description="no queue 'q'")
            ),
            "error=amqp:not-found \"no queue 'q'\" handle=0 closed",
        ),
        (amqp10.Close(error=amqp10.Error(condition="amqp:connection:forced")), "error=amqp:connection:forced"),
        (amqp10.End(), None),
    ],
)  # fmt: skip
def test_amqp_10_performatives(value: Any, told: str | None) -> None:
    assert performative(value) == [told]


def test_amqp_10_messages() -> None:
    """The detail of a transfer has the address of its link and its message, however many frames it came in."""
    attach = amqp10.Attach(
        name="l", handle=3, role=False, source=amqp10.Source(), target=amqp10.Target(address="/exchanges/shop/a")
    )
    message = amqp10.Message(
        header=amqp10.Header(durable=True, ttl=60000, delivery_count=2),
        properties=amqp10.Properties(
            message_id=amqp10.ULong(77), subject="order", reply_to="box", correlation_id=b"\xff\0",
            content_type=amqp10.Symbol("text/plain"), user_id=b"guest",
        ),
        application_properties={"token": "s3cret", "b": amqp10.UInt(1)},
        body=(amqp10.Data(b"abc"), amqp10.Data(b"de")),
    ).encode()  # fmt: skip
    whole = amqp10.Transfer(handle=3, delivery_id=5, delivery_tag=b"\0\0\0\5", settled=True, payload=message)
    first = amqp10.Transfer(handle=3, delivery_id=6, delivery_tag=b"t6", more=True, payload=message[:20])
    last = amqp10.Transfer(handle=3, payload=message[20:])
    said = [(CLIENT, p.encode()) for p in (attach, whole, first, last)]
    text = (
        "durable ttl=60000 delivery_count=2 message_id=77 subject=order correlation_id=0xff00 reply_to=box "
        "content_type=text/plain application_properties=2"
    )
    one = f"/exchanges/shop/a size=5 delivery_id=5 delivery_tag=0x00000005 settled handle=3 {text}"
    two = f"/exchanges/shop/a size=5 delivery_id=6 delivery_tag=t6 transfers=2 handle=3 {text}"
    assert details("amqp10", *said)[1:] == [t if len(t) <= 200 else t[:197] + "…" for t in (one, two)]


def test_amqp_10_sasl() -> None:
    sasl = b"AMQP\3\1\0\0"
    told = details(
        "amqp10",
        (CLIENT, sasl),
        (SERVER, sasl),
        (SERVER, amqp10.SaslMechanisms(sasl_server_mechanisms=("PLAIN", "EXTERNAL")).encode()),
        (CLIENT, amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0ada\0lovelace", hostname="h").encode()),
        (SERVER, amqp10.SaslChallenge(challenge=b"lovelace").encode()),
        (CLIENT, amqp10.SaslResponse(response=b"lovelace").encode()),
        (SERVER, amqp10.SaslOutcome(code=1, additional_data=b"lovelace").encode()),
        begin=False,
    )
    assert told == [
        "SASL 1.0.0", "SASL 1.0.0", "PLAIN,EXTERNAL", "mechanism=PLAIN hostname=h", None, None, "auth"
    ]  # fmt: skip


# ---- RocketMQ


def command(code: int, fields: dict[str, str] | None = None, **more: Any) -> bytes:
    return rocketmq.RemotingCommand(code=code, opaque=1, ext_fields=fields, **more).encode()


def test_rocketmq_requests_and_responses() -> None:
    """A response has the name of its code and its remark, and the topic of what it answers."""
    properties = "TAGS\1red\2KEYS\1k1 k2\2UNIQ_KEY\1ID1\2DELAY\1" + "3\2"
    send = {"a": "producers", "b": "orders", "e": "2", "f": "0", "g": "0", "h": "0", "i": properties, "j": "0"}
    remark = "CODE: 17  DESC: topic[orders] not exist, apply first please!\nSee elsewhere"
    assert details(
        "rocketmq",
        (CLIENT, command(310, send | {"Signature": "lovelace", "AccessKey": "ada"}, body=b"abc")),
        (SERVER, command(17, remark=remark, flag=1)),
        (CLIENT, command(310, send, body=b"abc")),
        (SERVER, command(0, {"msgId": "ID2", "queueId": "2", "queueOffset": "9"}, flag=1)),
        (CLIENT, command(11, {"consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "4",
                              "maxMsgNums": "32", "commitOffset": "3", "suspendTimeoutMillis": "15000",
                              "subscription": "*"})),
        (SERVER, command(19, {"nextBeginOffset": "4", "minOffset": "0", "maxOffset": "4"}, flag=1)),
        (CLIENT, command(37, {"producerGroup": "g", "commitOrRollback": "12", "msgId": "ID3", "commitLogOffset": "5"})),
        (CLIENT, command(3001, {"username": "ada"}, body=b'{"password":"lovelace"}')),
        (CLIENT, command(12345, {"topic": "orders", "x": "y"})),
        (SERVER, command(4711, flag=1)),
    ) == [
        'orders queueId=2 producerGroup=producers size=3 tags=red keys="k1 k2" delay=3 msgId=ID1',
        'TOPIC_NOT_EXIST (17) "CODE: 17  DESC: topic[orders] not exist, apply first please!\\nSee elsewhere" topic=orders',
        'orders queueId=2 producerGroup=producers size=3 tags=red keys="k1 k2" delay=3 msgId=ID1',
        "SUCCESS queueId=2 queueOffset=9 msgId=ID2 topic=orders",
        "orders queueId=0 queueOffset=4 consumerGroup=g maxMsgNums=32 subscription=* commitOffset=3 "
        "suspendTimeoutMillis=15000",
        "PULL_NOT_FOUND (19) nextBeginOffset=4 minOffset=0 maxOffset=4 topic=orders consumerGroup=g",
        "commitOrRollback=ROLLBACK producerGroup=g msgId=ID3 commitLogOffset=5",
        "username=ada size=23",
        "topic=orders",
        "4711 topic=orders",
    ]  # fmt: skip


def test_rocketmq_stored_messages() -> None:
    stored = rocketmq.MessageExt(
        topic="orders", queue_id=2, queue_offset=9, body=b"abcd", reconsume_times=1, store_host=("192.0.2.1", 10911),
        properties="TAGS\1red\2UNIQ_KEY\1ID1\2",
    ).encode()  # fmt: skip
    pull = {"consumerGroup": "g", "topic": "orders", "queueId": "2", "queueOffset": "9"}
    told = details("rocketmq", (CLIENT, command(11, pull)), (SERVER, command(0, flag=1, body=stored + stored)))
    assert told[1:] == ["orders queueId=2 queueOffset=9 consumerGroup=g size=4 tags=red reconsumeTimes=1 msgId=ID1"] * 2


# ---- NSQ, PHPMQ


def test_nsq() -> None:
    answer = {"max_rdy_count": 2500, "version": "1.3.0", "msg_timeout": 60000, "deflate": False, "snappy": False,
              "tls_v1": False, "auth_required": True}  # fmt: skip
    told = details(
        "nsq",
        (CLIENT, nsq.Identify(client_id="w 1", hostname="h", user_agent="t/1", heartbeat_interval=1000,
                              feature_negotiation=True).encode()),
        (SERVER, nsq.Response(members=answer).encode()),
        (CLIENT, nsq.Auth(secret=b"lovelace").encode()),
        (SERVER, nsq.Error(b"E_AUTH_FAILED no such user").encode()),
        (CLIENT, nsq.Sub(topic="orders", channel="mail").encode() + nsq.Ready(count=5).encode()),
        (CLIENT, nsq.Publish(topic="orders", body=b"abc").encode()),
        (CLIENT, nsq.MultiPublish(topic="orders", bodies=(b"a", b"bc")).encode()),
        (SERVER, nsq.Response(b"OK").encode()),
        (SERVER, nsq.MessageFrame(timestamp=1, attempts=3, message_id=b"0123456789abcdef", body=b"abc").encode()),
        (CLIENT, nsq.Requeue(message_id=b"0123456789abcdef", timeout=90).encode()),
        (CLIENT, nsq.Finish(message_id=b"0123456789abcdef").encode()),
        (SERVER, nsq.Error(b"E_FIN_FAILED FIN 0123 failed ID not in flight").encode()),
    )  # fmt: skip
    assert told == [
        'client_id="w 1" hostname=h user_agent=t/1 heartbeat_interval=1000 feature_negotiation',
        "version=1.3.0 max_rdy_count=2500 msg_timeout=60000 auth_required",
        None,
        'E_AUTH_FAILED "no such user" fatal',
        "topic=orders channel=mail",
        "count=5",
        "orders size=3",
        "orders messages=2 size=3",
        "OK",
        "message_id=0123456789abcdef attempts=3 size=3 topic=orders channel=mail",
        "message_id=0123456789abcdef timeout_ms=90 topic=orders channel=mail",
        "message_id=0123456789abcdef topic=orders channel=mail",
        'E_FIN_FAILED "FIN 0123 failed ID not in flight"',
    ]


def test_phpmq() -> None:
    told = details(
        "phpmq",
        (CLIENT, phpmq.MessageClientToServer(queue_name="orders", content=b"abc", ttl=60).encode()),
        (CLIENT, phpmq.ConsumeRequest(queue_name="orders", message_count=5).encode()),
        (SERVER, phpmq.MessageServerToClient(queue_name="orders", content=b"abc", message_id="m 1", ttl=60).encode()),
        (CLIENT, phpmq.Acknowledgement(queue_name="orders", message_id="m 1").encode()),
    )
    assert told == [
        "queue=orders size=3 ttl=60", "queue=orders messages=5", 'queue=orders size=3 message_id="m 1" ttl=60',
        'queue=orders message_id="m 1"',
    ]  # fmt: skip


# ---- what holds for any message


def test_detail_is_there_when_asked_for() -> None:
    said = (CLIENT, CONNECT5.encode())
    assert [row["detail"] for row in rows("mqtt", said, detail=False)] == [None]
    assert "detail" not in rows("mqtt", said, columns=("kind",))[0]
    with_, without = rows("mqtt", said)[0], rows("mqtt", said, detail=False)[0]
    assert with_.pop("detail")
    assert without.pop("detail") is None
    assert with_ == without


def test_every_kind_of_message_has_a_row() -> None:
    assert mqtt_detail.KINDS.keys() == mqtt_columns.OPERATIONS.keys()
    assert amqp091_detail.KINDS.keys() - {"header"} == amqp091_columns.OPERATIONS.keys()
    assert amqp10_detail.KINDS.keys() == amqp10_columns.OPERATIONS.keys()
    assert nsq_detail.KINDS.keys() - {"", "frame"} == nsq_columns.OPERATIONS.keys() - {"heartbeat"}
    assert phpmq_detail.KINDS.keys() - {""} == phpmq_columns.OPERATIONS.keys()


CREDENTIALS = ("user_name", "password", "authentication_data", "response", "new_secret", "challenge", "additional_data",
               "initial_response", "secret", "user_id", "AccessKey", "SecretKey", "Signature", "SecurityToken")  # fmt: skip


def test_no_row_names_a_credential() -> None:
    tables = (
        mqtt_detail.KINDS,
        amqp091_detail.KINDS,
        amqp10_detail.KINDS,
        rocketmq_detail.REQUEST,
        nsq_detail.KINDS,
        phpmq_detail.KINDS,
    )
    words = {w.rstrip("?!").rpartition("=")[2] for rows in tables for row in rows.values() for w in row.split()}
    words |= {
        w.rstrip("?!").rpartition("=")[2]
        for row in (amqp091_detail.CONTENT, amqp10_detail.MESSAGE)
        for w in row.split()
    }
    words.discard("response")  # RocketMQ: the response code by name; NSQ: the text of a response
    assert not words & set(CREDENTIALS)
    assert "response" not in " ".join((*amqp091_detail.KINDS.values(), *amqp10_detail.KINDS.values()))
    assert {"client_id", "reply_text", "container_id", "error_code"} <= words  # so that the test sees words


def test_no_secret_is_told() -> None:
    """User names, passwords, SASL and authentication data, values of headers and properties: nowhere in any detail."""
    secret = b"lovelace"
    auth = mqtt.Auth(
        reason_code=0x18, version=5,
        properties=(
            ("authentication_method", "SCRAM"), ("authentication_data", secret), ("user_property", ("k", "lovelace")),
        ),
    )  # fmt: skip
    told = [
        *details("mqtt", (CLIENT, CONNECT5.encode()), (CLIENT, auth.encode())),
        *details("amqp091", (CLIENT, amqp091.ConnectionStartOk(
            client_properties={"password": "lovelace", "secret": "lovelace"}, mechanism="AMQPLAIN", response=secret,
        ).encode())),
        *details("amqp091", (CLIENT, amqp091.ConnectionSecureOk(response=secret).encode())),
        *details("amqp091", (CLIENT, amqp091.ConnectionUpdateSecret(new_secret=secret, reason="r").encode())),
        *details("nsq", (CLIENT, nsq.Auth(secret=secret).encode())),
        *details("rocketmq", (CLIENT, command(310, {"SecretKey": "lovelace", "signature": "lovelace", "b": "t"}))),
    ]  # fmt: skip
    assert len(told) == 7
    assert not [line for line in told if line and ("lovelace" in line or "ada" in line)]
    assert details("mqtt", (CLIENT, CONNECT5.encode()), (CLIENT, auth.encode()))[1] == (
        "Continue authentication authentication_method=SCRAM user_properties=1"
    )


def cancel_ok(tag: bytes) -> bytes:
    """AMQP 0.9.1, 1.8.3.6: a consumer tag of any octets."""
    method = bytes.fromhex("003c001f") + bytes((len(tag),)) + tag
    return b"\1\0\1" + len(method).to_bytes(4, "big") + method + b"\xce"


def channel_close(text: str) -> bytes:
    return amqp091.ChannelClose(channel=1, reply_code=404, reply_text=text, class_id=0, method_id=0).encode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"plain/text-1", "plain/text-1"),
        (b"", '""'),
        (b"two words", '"two words"'),
        (b'say "yes"', r'"say \"yes\""'),
        (b"back\\slash", r'"back\\slash"'),
        (b"tab\tline\ncr\r", r'"tab\tline\ncr\r"'),
        (b"\x1b[31m\x7f", r'"\x1b[31m\x7f"'),
        ("é☃🦉".encode(), "é☃🦉"),
        ("\u0085\u202e\u2028\ufeff\u200b".encode(), r'"\u0085\u202e\u2028\ufeff\u200b"'),
        ("\u2060\u2066\u206f".encode(), r'"\u2060\u2066\u206f"'),
        (b"a\x80b\xbf", r'"a\x80b\xbf"'),
        ("\U000e0041".encode(), r'"\U000e0041"'),
        (b"\xff\xc3(\xe2\x82", r'"\xff\xc3(\xe2\x82"'),
        (b"\xed\xa0\x80", r'"\xed\xa0\x80"'),
    ],
)
def test_values_are_quoted_where_they_must_be(text: bytes, told: str) -> None:
    """A consumer tag may be any octets: nothing of it steers a terminal, and what was there can be told."""
    assert details("amqp091", (SERVER, cancel_ok(text))) == [f"consumer_tag={told}"]


def test_a_line_is_cut_at_a_character_and_says_so() -> None:
    for n in range(60, 110):
        [told] = details("amqp091", (SERVER, channel_close("é" * n)))
        assert told is not None
        size = len(told.encode())
        if 4 + 2 * n <= 200:
            assert told == "404 " + "é" * n
        else:
            assert told.endswith("é…")
            assert 197 <= size <= 200


def test_a_long_name_leaves_room_for_what_follows() -> None:
    [told] = details("mqtt", (CLIENT, mqtt.Publish(topic_name="t" * 5000, payload=b"x", qos=1, packet_identifier=4,
                                                   version=4).encode()))  # fmt: skip
    assert told == "t" * 100 + "… qos=1 id=4 size=1"


def check_line(told: str | None) -> None:
    if told is None:
        return
    assert 0 < len(told.encode()) <= 200
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]", told)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.binary(max_size=40))
def test_any_octets_make_a_good_line(texts: list[bytes], data: bytes) -> None:
    """Arrow has checked nothing of a string column: to_pylist() decodes every octet of it."""
    filters = b"".join(string(t) + b"\1" for t in texts)
    client = texts[0][:250]
    connect = packet(0x10, string("MQTT") + bytes((5, 2, 0, 60)) + b"\0" + string(client))
    publish = packet(0x30, string(texts[-1]) + bytes((len(data) + 3,)) + b"\x09" + string(data) + b"payload")
    for row in rows("mqtt", (CLIENT, connect), (CLIENT, packet(0x82, b"\0\1\0" + filters)), (CLIENT, publish)):
        check_line(row["detail"])
    for row in rows("amqp091", (SERVER, cancel_ok(client))):
        check_line(row["detail"])
    close = amqp10.Close(error=amqp10.Error(condition="a:b", description=texts[0].decode("utf-8", "replace")))
    for row in rows("amqp10", (CLIENT, close.encode())):
        check_line(row["detail"])
    for row in rows(
        "nsq", (SERVER, nsq.Error(b"E_INVALID " + texts[0]).encode()), (SERVER, nsq.Response(data).encode())
    ):
        check_line(row["detail"])
    for row in rows(
        "rocketmq", (CLIENT, command(11, {"topic": texts[0].decode("latin-1"), "subscription": "x" * 300}))
    ):
        check_line(row["detail"])
    for row in rows(
        "phpmq",
        (CLIENT, phpmq.MessageClientToServer(queue_name=texts[0].decode("latin-1"), content=data, ttl=1).encode()),
    ):
        check_line(row["detail"])


#: Folders of captures of a protocol that the tutorial adds, and of those without messages, as their secrets are not given.
OTHERS = {"stomp", "tls"}
CAPTURES = sorted(
    path
    for path in [*(ROOT / "samples").glob("*.pcap*"), *DATA.rglob("*.pcap.gz")]
    if OTHERS.isdisjoint(path.relative_to(ROOT).parts)
)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.name)
def test_every_message_of_real_captures_has_a_good_line(path: Any) -> None:
    """Only messages that say nothing beyond their kind have none."""
    silent = {
        "PINGREQ", "PINGRESP", "DISCONNECT", "heartbeat", "empty", "end", "close", "MAGIC", "AUTH", "NOP", "CLS",
        "sasl-challenge", "sasl-response", "connection.secure", "connection.secure-ok", "channel.open",
    }  # fmt: skip
    with capture.read(path, detail=True, columns=("kind", "status", "detail", "protocol", "payload_size")) as reader:
        table_ = pa.table(reader).to_pylist()
    assert table_
    for row in table_:
        check_line(row["detail"])
        said = row["detail"] is not None
        if row["status"] == "ok" and row["protocol"] != "rocketmq" and not (row["kind"] or "").endswith("-ok"):
            quiet = row["kind"] in silent or row["kind"] in {
                "basic.get-empty", "connection.unblocked", "confirm.select", "tx.select", "tx.commit", "tx.rollback"
            }  # fmt: skip
            assert said or quiet, row
    assert any(row["detail"] for row in table_)


# ---- what another program says


def info(path: Any, protocol: str) -> list[str]:
    """tshark's Info column, one line per frame."""
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("needs tshark (apt install tshark)")
    command_ = [tshark, "-r", str(path), "-Y", protocol, "-T", "fields", "-e", "_ws.col.Info"]
    return subprocess.run(command_, capture_output=True, text=True, check=True).stdout.splitlines()


def test_amqp_091_says_what_wireshark_says() -> None:
    """Exchange, routing key, queue, virtual host and reply text of every method, in order."""
    path = ROOT / "samples" / "rabbitmq-pyamqp-amqp091.pcap"
    labels = {"x": "exchange", "rk": "key", "bk": "key", "q": "queue", "vhost": "virtual_host"}
    theirs = [
        (method.lower(), f"{labels[label]}={value}")
        for line in info(path, "amqp")
        for method, rest in re.findall(r"([A-Z][a-z]+\.[A-Z][A-Za-z-]+)((?: (?:x|rk|bk|q|vhost)=\S*)*)", line)
        for label, value in re.findall(r" (x|rk|bk|q|vhost)=(\S*)", rest)
        if value
    ]
    with capture.read(path, detail=True, columns=("kind", "detail")) as reader:
        ours = [
            (row["kind"], word)
            for row in pa.table(reader).to_pylist()
            for word in (row["detail"] or "").split()
            if word.partition("=")[:2] in {(label, "=") for label in labels.values()} and not word.endswith('=""')
        ]
    assert len(theirs) > 50
    assert sorted(theirs) == sorted(ours)


def test_mqtt_says_what_wireshark_says() -> None:
    """Packet identifier and topics of every packet, in order."""
    path = ROOT / "samples" / "mosquitto-paho-v5.pcap"
    theirs = [
        (int(found["id"] or 0), re.findall(r"\[([^\]]*)\]", found["topics"]))
        for line in info(path, "mqtt")
        for found in re.finditer(r"(?:Message|Request)(?: \(id=(?P<id>\d+)\))?(?P<topics>(?: \[[^\]]*\])+)", line)
    ]
    ours = []
    with capture.read(path, detail=True, columns=("kind", "detail")) as reader:
        for row in pa.table(reader).to_pylist():
            if row["kind"] not in ("PUBLISH", "SUBSCRIBE"):  # of UNSUBSCRIBE tshark says no topics
                continue
            number = re.search(r"\bid=(\d+)", row["detail"])
            text = re.sub(r"^id=\d+ ", "", row["detail"])
            topics = (
                [part.split(" ")[0] for part in text.split(", ")] if row["kind"] != "PUBLISH" else [text.split(" ")[0]]
            )
            ours.append((int(number[1]) if number else 0, topics))
    assert len(theirs) == 298
    assert theirs == ours
