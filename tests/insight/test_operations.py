"""Operations of each protocol, from conversations made by hand: which messages open them, and which settle them."""

from __future__ import annotations

import io
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

from lib.insight_tables import AMQP10, client, disposition, outcomes, server, tables_of, transfer
from lib.wire import Tcp, connack, connect, pcap
from wirefmt import amqp091, amqp10, capture, insight, mqtt, nsq, phpmq, rocketmq

# ---- MQTT


def publish(identifier: int, *, qos: int = 1, dup: bool = False, payload: bytes = b"x") -> mqtt.Publish:
    return mqtt.Publish(
        topic_name="t", payload=payload, qos=qos, dup=dup, packet_identifier=identifier if qos else None, version=4
    )


MQTT = [client(connect()), server(connack())]


def test_mqtt_identifiers_of_both_sides_are_different() -> None:
    said = [*MQTT, client(publish(1)), server(publish(1)), client(mqtt.Puback(packet_identifier=1, version=4))]
    assert outcomes(1883, said, "publish", "deliver") == [("publish", 1, "lost"), ("deliver", 1, "acknowledged")]


def test_mqtt_a_packet_sent_again_is_one_operation() -> None:
    said = [
        *MQTT,
        client(publish(1)),
        client(publish(1, dup=True)),
        server(mqtt.Puback(packet_identifier=1, version=4)),
    ]
    (row,) = [row for row in tables_of(1883, said)["operations"] if row["kind"] == "publish"]
    assert (row["outcome"], row["transmissions"]) == ("acknowledged", 2)


def test_mqtt_an_identifier_that_is_used_again() -> None:
    said = [
        *MQTT,
        client(publish(1)),
        client(publish(1, payload=b"y")),
        server(mqtt.Puback(packet_identifier=1, version=4)),
    ]
    assert outcomes(1883, said, "publish") == [("publish", 1, "superseded"), ("publish", 1, "acknowledged")]


def test_mqtt_qos_2_has_the_times_of_its_steps() -> None:
    said = [
        *MQTT,
        client(publish(7, qos=2)),
        server(mqtt.Pubrec(packet_identifier=7, version=4)),
        client(mqtt.Pubrel(packet_identifier=7, version=4)),
        server(mqtt.Pubcomp(packet_identifier=7, version=4)),
    ]
    (row,) = [row for row in tables_of(1883, said)["operations"] if row["kind"] == "publish"]
    assert row["outcome"] == "acknowledged"
    assert row["started"] < row["received"] < row["released"] < row["completed"]


@pytest.mark.parametrize(("closed", "outcome"), [(True, "lost"), (False, "unanswered")])
def test_mqtt_qos_2_that_stops(closed: bool, outcome: str) -> None:
    said = [*MQTT, server(publish(7, qos=2)), client(mqtt.Pubrec(packet_identifier=7, version=4))]
    assert outcomes(1883, said, "deliver", closed=closed) == [("deliver", 7, outcome)]


def test_mqtt_an_answer_without_its_request() -> None:
    """The request was sent before the capture: the operation has no time of its own."""
    said = [*MQTT, server(mqtt.Puback(packet_identifier=9, version=4))]
    (row,) = [row for row in tables_of(1883, said)["operations"] if row["kind"] == "publish"]
    assert (row["outcome"], row["request_frame"], row["started"], row["duration_ns"]) == (
        "acknowledged",
        None,
        None,
        None,
    )
    assert row["response_frame"] is not None


@pytest.mark.parametrize(
    ("pubrec", "pubcomp", "code", "outcome"),
    [(0x10, 0, 0x10, "acknowledged"), (0, 0x92, 0x92, "refused"), (0x10, 0x92, 0x92, "refused")],
)
def test_mqtt_qos_2_has_one_code(pubrec: int, pubcomp: int, code: int, outcome: str) -> None:
    """MQTT 5.0, 3.5.2.1, 3.7.2.1: PUBREC may say that nobody subscribes; PUBCOMP's own code is the last word."""
    said = [
        client(mqtt.Connect(client_identifier="c", version=5)),
        server(mqtt.Connack(version=5)),
        client(mqtt.Publish(topic_name="t", payload=b"x", qos=2, packet_identifier=7, version=5)),
        server(mqtt.Pubrec(packet_identifier=7, reason_code=pubrec, version=5)),
        client(mqtt.Pubrel(packet_identifier=7, version=5)),
        server(mqtt.Pubcomp(packet_identifier=7, reason_code=pubcomp, version=5)),
    ]
    (row,) = [row for row in tables_of(1883, said)["operations"] if row["kind"] == "publish"]
    assert (row["code"], row["outcome"]) == (code, outcome)


def test_mqtt_without_an_answer_that_is_asked_for() -> None:
    said = [*MQTT, client(publish(0, qos=0))]
    assert outcomes(1883, said, "publish") == [("publish", None, "none")]
    (row,) = [row for row in tables_of(1883, said)["operations"] if row["kind"] == "publish"]
    assert row["qos"] == 0


# ---- AMQP 0.9.1


def content(method: Any, body: bytes = b"b") -> amqp091.BasicMessage:
    return amqp091.BasicMessage(method=method, body=body)


def amqp_publish(key: str = "q", **arguments: Any) -> amqp091.BasicMessage:
    return content(amqp091.BasicPublish(channel=1, routing_key=key, **arguments))


def amqp_deliver(tag: int) -> amqp091.BasicMessage:
    return content(amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=tag, exchange="", routing_key="q"))


AMQP091 = [
    client(b"AMQP\0\0\x09\x01"),
    client(amqp091.ChannelOpen(channel=1)),
    server(amqp091.ChannelOpenOk(channel=1)),
]
CONSUMING = [
    *AMQP091,
    client(amqp091.BasicConsume(channel=1, queue="q", consumer_tag="c")),
    server(amqp091.BasicConsumeOk(channel=1, consumer_tag="c")),
]


@pytest.mark.parametrize(
    ("settlements", "expected"),
    [
        ([amqp091.BasicAck(channel=1, delivery_tag=2)], ["lost", "acknowledged", "lost"]),
        ([amqp091.BasicAck(channel=1, delivery_tag=2, multiple=True)], ["acknowledged", "acknowledged", "lost"]),
        ([amqp091.BasicAck(channel=1, delivery_tag=0, multiple=True)], ["acknowledged"] * 3),
        ([amqp091.BasicNack(channel=1, delivery_tag=3, multiple=True, requeue=False)], ["rejected"] * 3),
        ([amqp091.BasicNack(channel=1, delivery_tag=1, requeue=True)], ["requeued", "lost", "lost"]),
        ([amqp091.BasicReject(channel=1, delivery_tag=3, requeue=False)], ["lost", "lost", "rejected"]),
        ([amqp091.BasicAck(channel=2, delivery_tag=1)], ["lost"] * 3),
        ([amqp091.BasicAck(channel=1, delivery_tag=9)], ["lost"] * 3),
        ([amqp091.BasicRecoverAsync(channel=1, requeue=True)], ["requeued"] * 3),
    ],
)
def test_amqp091_settlements(settlements: list[Any], expected: list[str]) -> None:
    said = [*CONSUMING, server(amqp_deliver(1), amqp_deliver(2), amqp_deliver(3)), client(*settlements)]
    assert outcomes(5672, said, "deliver") == [("deliver", i + 1, outcome) for i, outcome in enumerate(expected)]


def test_amqp091_deliveries_name_their_queue() -> None:
    rows = tables_of(5672, [*CONSUMING, server(amqp_deliver(1))])["operations"]
    assert [row["queue"] for row in rows if row["kind"] == "deliver"] == ["q"]


def test_amqp091_confirms_count_from_one_in_each_channel() -> None:
    said = [
        *AMQP091,
        client(amqp_publish()),
        client(amqp091.ConfirmSelect(channel=1)),
        server(amqp091.ConfirmSelectOk(channel=1)),
        client(amqp_publish(), amqp_publish(), amqp_publish()),
        server(amqp091.BasicAck(channel=1, delivery_tag=2, multiple=True)),
        server(amqp091.BasicNack(channel=1, delivery_tag=3)),
    ]
    assert outcomes(5672, said, "publish") == [
        ("publish", None, "none"),
        ("publish", 1, "acknowledged"),
        ("publish", 2, "acknowledged"),
        ("publish", 3, "rejected"),
    ]


def returned(key: str) -> amqp091.BasicMessage:
    return content(amqp091.BasicReturn(channel=1, reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key=key))


def test_amqp091_returns_with_and_without_confirms() -> None:
    plain = [
        *AMQP091,
        client(amqp_publish("a", mandatory=True)),
        client(amqp_publish("b", mandatory=True)),
        server(returned("b")),
    ]
    assert [outcome for *_, outcome in outcomes(5672, plain, "publish")] == ["none", "returned"]
    confirmed = [
        *AMQP091,
        client(amqp091.ConfirmSelect(channel=1)),
        client(amqp_publish("a", mandatory=True)),
        server(returned("a")),
        server(amqp091.BasicAck(channel=1, delivery_tag=1)),
    ]
    rows = [row for row in tables_of(5672, confirmed)["operations"] if row["kind"] == "publish"]
    assert [(row["outcome"], row["code"]) for row in rows] == [("returned", 312)]


@pytest.mark.parametrize(
    ("end", "published", "settled"),
    [
        ((amqp091.TxCommit, amqp091.TxCommitOk), "acknowledged", "acknowledged"),
        ((amqp091.TxRollback, amqp091.TxRollbackOk), "cancelled", "lost"),
    ],
)
def test_amqp091_transactions(end: Any, published: str, settled: str) -> None:
    """Publishes and acknowledgements complete at the outcome; a rollback leaves a delivery as it was."""
    said = [
        *CONSUMING,
        client(amqp091.TxSelect(channel=1)),
        server(amqp091.TxSelectOk(channel=1)),
        server(amqp_deliver(1)),
        client(amqp_publish(), amqp091.BasicAck(channel=1, delivery_tag=1)),
        client(end[0](channel=1)),
        server(end[1](channel=1)),
    ]
    assert outcomes(5672, said, "publish", "deliver") == [("deliver", 1, settled), ("publish", None, published)]


def test_amqp091_a_channel_error_refuses_the_request_that_it_names() -> None:
    said = [
        *AMQP091,
        client(amqp091.QueueDeclare(channel=1, queue="q", passive=True)),
        server(amqp091.ChannelClose(channel=1, reply_code=404, reply_text="NOT_FOUND", class_id=50, method_id=10)),
        client(amqp091.ChannelCloseOk(channel=1)),
    ]
    rows = {row["kind"]: row for row in tables_of(5672, said)["operations"]}
    assert (rows["declare"]["outcome"], rows["declare"]["code"], rows["declare"]["text"]) == (
        "refused",
        404,
        "NOT_FOUND",
    )
    assert (rows["close"]["direction"], rows["close"]["text"]) == (1, "queue.declare: NOT_FOUND")


def test_amqp091_get() -> None:
    message = content(amqp091.BasicGetOk(channel=1, delivery_tag=1, exchange="", routing_key="q", message_count=0))
    said = [
        *AMQP091,
        client(amqp091.BasicGet(channel=1, queue="q")),
        server(message),
        client(amqp091.BasicGet(channel=1, queue="q")),
        server(amqp091.BasicGetEmpty(channel=1)),
        client(amqp091.BasicAck(channel=1, delivery_tag=1)),
    ]
    rows = tables_of(5672, said)["operations"]
    assert [(row["outcome"], row["text"]) for row in rows if row["kind"] == "get"] == [
        ("acknowledged", None),
        ("acknowledged", "empty"),
    ]
    assert [(row["queue"], row["outcome"]) for row in rows if row["kind"] == "deliver"] == [("q", "acknowledged")]


def test_amqp091_the_time_for_which_prefetch_was_used_up() -> None:
    """Deliveries 1 and 2 are as many as may be open, until 1 is settled and 3 comes."""
    said = [
        *AMQP091,
        client(amqp091.BasicQos(channel=1, prefetch_count=2)),
        server(amqp091.BasicQosOk(channel=1)),
        *CONSUMING[len(AMQP091) :],
        server(amqp_deliver(1)),
        server(amqp_deliver(2)),
        client(amqp091.Heartbeat()),
        client(amqp091.BasicAck(channel=1, delivery_tag=1)),
        server(amqp_deliver(3)),
    ]
    engine = insight.Insight()
    tcp = Tcp(5672)
    frames = [*tcp.open(), *(frame for side, octets in said for frame in tcp.send(side, octets))]
    with capture.read(io.BytesIO(pcap(frames))) as reader:
        for batch in reader:
            engine.messages(batch)
    engine.finish()
    facts = engine.take_connections()
    assert facts is not None
    (client_window,) = facts["client_window"].tolist()
    (full,) = facts["window_full_ns"].tolist()
    assert client_window == 2
    assert full > 0


# ---- AMQP 1.0


@pytest.mark.parametrize(("ours", "theirs", "seconds"), [(10, 60, 10), (60, 10, 10), (None, 30, 30), (30, None, 30)])
def test_amqp10_the_shorter_time_counts(ours: int | None, theirs: int | None, seconds: int) -> None:
    """2.4.5: each side says how long it waits; the connection's row has what both have to keep."""
    said = [
        client(
            b"AMQP\0\x01\0\0",
            amqp10.Open(channel=0, container_id="c", idle_time_out=None if ours is None else 1000 * ours),
        ),
        server(
            b"AMQP\0\x01\0\0",
            amqp10.Open(channel=0, container_id="s", idle_time_out=None if theirs is None else 1000 * theirs),
        ),
    ]
    (row,) = tables_of(5672, said)["connections"]
    assert row["keep_alive_ns"] == seconds * 10**9


def test_amqp10_a_session_is_opened_and_closed_by_both() -> None:
    said = [*AMQP10, client(amqp10.End(channel=0)), server(amqp10.End(channel=0))]
    rows = tables_of(5672, said)["operations"]
    assert [(row["kind"], row["message_kind"], row["outcome"]) for row in rows if row["message_kind"] != "open"] == [
        ("open", "begin", "acknowledged"),
        ("close", "end", "acknowledged"),
    ]


@pytest.mark.parametrize("start", [0, 0xFFFFFFFE], ids=["", "serial numbers begin again"])
@pytest.mark.parametrize("count", [3, 100])
def test_amqp10_ranges(start: int, count: int) -> None:
    """A disposition names a range of serial numbers; both sides may send one for the same deliveries."""
    said = [
        *AMQP10,
        server(*(transfer(start + i) for i in range(count))),
        client(disposition("receiver", start + 1, start + count - 2, settled=True, state=amqp10.Accepted())),
        client(disposition("receiver", start + count - 1, settled=True, state=amqp10.Released())),
    ]
    rows = [
        outcome for *_, outcome in sorted(outcomes(5672, said, "deliver"), key=lambda row: row[1] - start & 0xFFFFFFFF)
    ]
    assert rows == ["lost", *["acknowledged"] * (count - 2), "released"]


def test_amqp10_settled_transfers_need_no_answer() -> None:
    assert outcomes(5672, [*AMQP10, client(transfer(0, settled=True))], "publish") == [("publish", 0, "none")]


def test_amqp10_both_sides_number_their_deliveries() -> None:
    said = [
        *AMQP10,
        client(transfer(0)),
        server(transfer(0)),
        server(disposition("receiver", 0, settled=True, state=amqp10.Rejected())),
    ]
    assert outcomes(5672, said, "publish", "deliver") == [("publish", 0, "rejected"), ("deliver", 0, "lost")]


# ---- NSQ

ID = b"0123456789abcdef"


def nsq_message(attempts: int = 1) -> nsq.MessageFrame:
    return nsq.MessageFrame(timestamp=1, attempts=attempts, message_id=ID, body=b"x")


NSQ = [client(nsq.Magic(), nsq.Sub(topic="t", channel="c")), server(nsq.Response(b"OK"))]


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (nsq.Finish(message_id=ID), "acknowledged"),
        (nsq.Requeue(message_id=ID, timeout=0), "requeued"),
        (nsq.Nop(), "lost"),
    ],
)
def test_nsq_settlements(command: Any, outcome: str) -> None:
    assert outcomes(4150, [*NSQ, server(nsq_message()), client(command)], "deliver") == [("deliver", None, outcome)]


def test_nsq_the_same_message_again_was_not_finished_in_time() -> None:
    said = [*NSQ, server(nsq_message()), server(nsq_message(2)), client(nsq.Finish(message_id=ID))]
    rows = [row for row in tables_of(4150, said)["operations"] if row["kind"] == "deliver"]
    assert [(row["attempts"], row["outcome"]) for row in rows] == [(1, "timed-out"), (2, "acknowledged")]


def test_nsq_answers_come_in_the_order_of_the_commands() -> None:
    publish = nsq.Publish(topic="t", body=b"x")
    said = [*NSQ, client(publish, publish), server(nsq.Response(b"OK")), server(nsq.Error(b"E_PUB_FAILED why"))]
    rows = [row for row in tables_of(4150, said)["operations"] if row["kind"] == "publish"]
    assert [(row["outcome"], row["text"]) for row in rows] == [("acknowledged", None), ("refused", "E_PUB_FAILED why")]


def test_nsq_a_heartbeat_answers_no_publish() -> None:
    publish, heartbeat = nsq.Publish(topic="t", body=b"x"), nsq.Response(b"_heartbeat_")
    said = [
        *NSQ,
        client(publish),
        server(heartbeat),
        client(nsq.Nop()),
        server(heartbeat, nsq.Error(b"E_PUB_FAILED why")),
    ]
    assert outcomes(4150, said, "publish", "heartbeat", closed=False) == [
        ("publish", None, "refused"),
        ("heartbeat", None, "acknowledged"),
        ("heartbeat", None, "unanswered"),
    ]


def test_nsq_a_failed_finish_answers_no_publish() -> None:
    said = [
        *NSQ,
        client(nsq.Finish(message_id=ID)),
        client(nsq.Publish(topic="t", body=b"x")),
        server(nsq.Error(b"E_FIN_FAILED why")),
        server(nsq.Response(b"OK")),
    ]
    assert outcomes(4150, said, "publish") == [("publish", None, "acknowledged")]


# ---- PHPMQ


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (phpmq.Acknowledgement(queue_name="Foo", message_id="7"), "acknowledged"),
        (phpmq.ReQueue(queue_name="Foo", message_id="7", ttl=1), "requeued"),
        (phpmq.DeadLetter(queue_name="Foo", message_id="7"), "rejected"),
        (b"", "lost"),
    ],
)
def test_phpmq_settlements(answer: Any, outcome: str) -> None:
    said = [
        client(phpmq.ConsumeRequest(queue_name="Foo", message_count=5)),
        server(phpmq.MessageServerToClient(queue_name="Foo", content=b"x", message_id="7", ttl=1)),
        client(answer),
    ]
    rows = [row for row in tables_of(9100, said)["operations"] if row["kind"] == "deliver"]
    assert [(row["queue"], row["message_id"], row["outcome"]) for row in rows] == [("Foo", "7", outcome)]


# ---- RocketMQ


def rocketmq_command(code: int, opaque: int, **fields: Any) -> bytes:
    return rocketmq.RemotingCommand(code=code, opaque=opaque, ext_fields=fields).encode()


@pytest.mark.parametrize(
    ("sys_flag", "commit", "expected"),
    [
        ("1", "2", ["acknowledged", "acknowledged", "lost"]),
        ("3", "3", ["acknowledged", "acknowledged", "acknowledged"]),
        ("2", "2", ["lost", "lost", "lost"]),  # the bit of the offset is not set
    ],
)
def test_rocketmq_a_pull_that_commits(sys_flag: str, commit: str, expected: list[str]) -> None:
    """A push consumer commits with its next pull, before UPDATE_CONSUMER_OFFSET (PullSysFlag, bit 0)."""
    place = {"consumerGroup": "g", "topic": "t", "queueId": "0"}
    pull = rocketmq_command(11, 1, **place, queueOffset="0", sysFlag="2", commitOffset="0")
    message = [
        rocketmq.MessageExt(topic="t", body=b"x", queue_id=0, queue_offset=n, store_host=("127.0.0.1", 10911))
        for n in range(3)
    ]
    found = rocketmq.RemotingCommand(code=0, opaque=1, flag=1, body=b"".join(m.encode() for m in message)).encode()
    again = rocketmq_command(11, 2, **place, queueOffset="3", sysFlag=sys_flag, commitOffset=commit)
    assert outcomes(10911, [client(pull), server(found), client(again)], "deliver") == [
        ("deliver", n, outcome) for n, outcome in enumerate(expected)
    ]
