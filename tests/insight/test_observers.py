"""Messages that the tables of states forbid are findings: what our connections refuse is what an observer reports."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

import pyarrow as pa

from lib.insight_tables import Sent, client, server, tables_of, transfer
from lib.paths import ROOT
from lib.wire import ACK, FIN, Tcp, connack, connect, pcap
from wirefmt import amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.connection.states import Role, Violation
from wirefmt.mqtt import states as mqtt_states


def violations(port: int, said: Sequence[Sent]) -> list[str]:
    return [row["text"] for row in tables_of(port, said)["findings"] if row["rule"] == "protocol-violation"]


# ---- MQTT: one connection for each row of the table that a packet from each side can reach

METHOD = (("authentication_method", "m"),)
PUBLISH = mqtt.Publish(topic_name="t", payload=b"x", qos=0, version=5)
PACKETS: dict[str, Any] = {
    "CONNECT": mqtt.Connect(client_identifier="c", clean_start=True, version=5),
    "CONNACK accepted": mqtt.Connack(version=5),
    "CONNACK refused": mqtt.Connack(reason_code=0x87, version=5),
    "PUBLISH": PUBLISH,
    "PUBACK": mqtt.Puback(packet_identifier=1, version=5),
    "PUBREC": mqtt.Pubrec(packet_identifier=1, version=5),
    "PUBREL": mqtt.Pubrel(packet_identifier=1, version=5),
    "PUBCOMP": mqtt.Pubcomp(packet_identifier=1, version=5),
    "SUBSCRIBE": mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("t")], version=5),
    "SUBACK": mqtt.Suback(packet_identifier=1, reason_codes=[0], version=5),
    "UNSUBSCRIBE": mqtt.Unsubscribe(packet_identifier=1, topic_filters=["t"], version=5),
    "UNSUBACK": mqtt.Unsuback(packet_identifier=1, reason_codes=[0], version=5),
    "PINGREQ": mqtt.Pingreq(version=5),
    "PINGRESP": mqtt.Pingresp(version=5),
    "DISCONNECT": mqtt.Disconnect(version=5),
    "AUTH success": mqtt.Auth(reason_code=0, properties=METHOD, version=5),
    "AUTH continue": mqtt.Auth(reason_code=0x18, properties=METHOD, version=5),
    "AUTH re-authenticate": mqtt.Auth(reason_code=0x19, properties=METHOD, version=5),
}
STATE, ROLE = mqtt_states.State, Role
BEGUN = {
    STATE.IDLE: [],
    STATE.CONNECTING: [client(PACKETS["CONNECT"])],
    STATE.CONNECTED: [client(PACKETS["CONNECT"]), server(PACKETS["CONNACK accepted"])],
    STATE.REAUTHENTICATING: [
        client(PACKETS["CONNECT"]),
        server(PACKETS["CONNACK accepted"]),
        client(PACKETS["AUTH re-authenticate"]),
    ],
    STATE.CLOSED: [
        client(PACKETS["CONNECT"]),
        server(PACKETS["CONNACK accepted"]),
        client(PACKETS["DISCONNECT"]),
    ],
}


#: (role of the side that the packet comes to, state, kind). Without CONNECT it is not recognised as MQTT, and a server's CONNECT
#: is not valid, whatever the state.
REACHED = [
    (role, state, kind)
    for role in ROLE
    for state in BEGUN
    for kind in mqtt_states.KINDS
    if (kind == "CONNECT" or state is not STATE.IDLE) and not (role is ROLE.CLIENT and kind == "CONNECT")
]


@pytest.mark.parametrize(("role", "state", "kind"), REACHED)
def test_mqtt(role: Any, state: Any, kind: str) -> None:
    expected = mqtt_states.RECEIVES[role, state, kind]
    say = server if role is ROLE.CLIENT else client
    found = violations(1883, [*BEGUN[state], say(PACKETS[kind])])
    if isinstance(expected, Violation):
        assert len(found) == 1
        assert f"{kind.split()[0]}: {expected.rule}" in found[0]
        assert ("the server sent" if role is ROLE.CLIENT else "the client sent") in found[0]
    else:
        assert not found


def test_mqtt_the_server_closes_at_once() -> None:
    """The reason is then known, although it said nothing."""
    tcp = Tcp(1883)
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(1, connack()), *tcp.send(0, connect())]
    frames += [tcp.segment(1, flags=FIN | ACK), tcp.segment(0), tcp.segment(0, flags=FIN | ACK), tcp.segment(1)]
    with capture.read(io.BytesIO(pcap(frames)), table="connections") as reader:
        (row,) = pa.Table.from_batches(map(pa.record_batch, reader)).to_pylist()
    assert row["reason"] == "protocol-error"
    assert "CONNECT: a second CONNECT [MQTT-3.1.0-2]" in row["reason_text"]


# ---- AMQP 0.9.1


def on(channel: int, method: type, **fields: Any) -> Any:
    return method(channel=channel, **fields)


HANDSHAKE = [
    client(b"AMQP\0\0\x09\x01"),
    server(amqp091.ConnectionStart(channel=0, server_properties={}, mechanisms="PLAIN", locales="en_US")),
    client(amqp091.ConnectionStartOk(channel=0, client_properties={}, mechanism="PLAIN", response="", locale="en_US")),
    server(amqp091.ConnectionTune(channel=0, channel_max=9, frame_max=4096, heartbeat=0)),
    client(amqp091.ConnectionTuneOk(channel=0, channel_max=9, frame_max=4096, heartbeat=0)),
    client(amqp091.ConnectionOpen(channel=0, virtual_host="/")),
]
OPEN_OK = server(amqp091.ConnectionOpenOk(channel=0))
OPENED = [*HANDSHAKE, OPEN_OK]
CHANNEL = [*OPENED, client(on(1, amqp091.ChannelOpen)), server(on(1, amqp091.ChannelOpenOk))]
CLOSE = on(1, amqp091.ChannelClose, reply_code=200, reply_text="", class_id=0, method_id=0)
QOS = on(1, amqp091.BasicQos, prefetch_count=1)


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ([*OPENED, client(QOS)], "basic.qos: the channel is not open"),
        ([*CHANNEL, client(on(1, amqp091.ChannelOpen))], "channel.open: channel.open on a channel that is open"),
        ([*CHANNEL, server(QOS)], "basic.qos: only a client sends this method"),
        ([*CHANNEL, client(on(1, amqp091.BasicQosOk))], "basic.qos-ok: only a server sends this method"),
        ([*CHANNEL, client(on(1, amqp091.ChannelCloseOk))], "channel.close-ok: channel.close-ok without channel.close"),
        ([*CHANNEL, client(amqp091.ConnectionOpen(channel=0))], "connection.open: the handshake is over"),
        ([*CHANNEL, client(CLOSE), server(on(1, amqp091.ChannelCloseOk)), client(QOS)], "the channel is not open"),
        ([*HANDSHAKE[:2], client(amqp091.ConnectionOpen(channel=0))], "connection.open: the handshake expects"),
    ],
)
def test_amqp091(said: list[Sent], rule: str) -> None:
    (found,) = violations(5672, said)
    assert rule in found


@pytest.mark.parametrize(
    "said",
    [
        [
            *HANDSHAKE,
            client(on(1, amqp091.ChannelOpen), QOS),
            OPEN_OK,
            server(on(1, amqp091.ChannelOpenOk)),
        ],  # pipelined
        [*CHANNEL, client(CLOSE), server(on(1, amqp091.BasicQosOk)), server(on(1, amqp091.ChannelCloseOk))],  # crossing
        [*CHANNEL, server(CLOSE), client(QOS), client(on(1, amqp091.ChannelCloseOk))],
        [*CHANNEL, server(CLOSE), client(on(1, amqp091.ChannelCloseOk)), client(on(1, amqp091.ChannelOpen))],  # again
        [
            *CHANNEL,
            server(CLOSE),
            client(CLOSE),
            server(on(1, amqp091.ChannelCloseOk)),
            client(on(1, amqp091.ChannelCloseOk)),
        ],
    ],
)
def test_amqp091_what_is_allowed(said: list[Sent]) -> None:
    assert violations(5672, said) == []


# ---- what is not known is not judged


def found_in(frames: list[bytes]) -> list[str]:
    with capture.read(io.BytesIO(pcap(frames)), table="findings") as reader:
        rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    return [row["rule"] for row in rows if row["rule"] == "protocol-violation"]


def second_connect(tcp: Tcp) -> list[bytes]:
    return [*tcp.send(0, connect()), *tcp.send(1, connack()), *tcp.send(0, connect())]


def test_a_capture_that_begins_in_the_middle() -> None:
    tcp = Tcp(1883)
    opened = tcp.open()
    said = second_connect(tcp)
    assert found_in([*opened, *said]) == ["protocol-violation"]
    assert found_in(said) == []


def test_a_gap() -> None:
    """What was not captured may have been the end of an exchange."""
    tcp = Tcp(1883)
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(1, connack())]
    tcp.send(0, PUBLISH.encode() * 3)  # not captured
    frames += [*tcp.send(0, connect()), *tcp.send(1, PUBLISH.encode()), *tcp.close()]
    assert found_in(frames) == []


# ---- AMQP 1.0

AMQP_HEADER, SASL_HEADER = amqp10.ProtocolHeader(0), amqp10.ProtocolHeader(3)
OPEN = amqp10.Open(container_id="c")
CLOSE_10 = amqp10.Close()
END = amqp10.End(channel=0)
MECHANISMS = amqp10.SaslMechanisms(sasl_server_mechanisms=["ANONYMOUS"])
INIT = amqp10.SaslInit(mechanism="ANONYMOUS")
OUTCOME = amqp10.SaslOutcome(code=0)


def begin(channel: int = 0, remote: int | None = None) -> Any:
    return amqp10.Begin(
        channel=channel, remote_channel=remote, next_outgoing_id=0, incoming_window=9, outgoing_window=9
    )


def attach(role: str, *, channel: int = 0, handle: int = 0, name: str = "l") -> Any:
    count = 0 if role == "sender" else None
    return amqp10.Attach(
        channel=channel, name=name, handle=handle, role=role == "receiver", initial_delivery_count=count
    )


def flow(handle: int | None = 0, channel: int = 0) -> Any:
    link: dict[str, Any] = {} if handle is None else {"handle": handle, "delivery_count": 0, "link_credit": 9}
    return amqp10.Flow(
        channel=channel, next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, **link
    )


def detach(handle: int = 0) -> Any:
    return amqp10.Detach(channel=0, handle=handle, closed=True)


SASL = [client(SASL_HEADER), server(SASL_HEADER, MECHANISMS)]
OPENED_10 = [client(AMQP_HEADER, OPEN), server(AMQP_HEADER, OPEN)]
MAPPED = [*OPENED_10, client(begin()), server(begin(0, 0))]
#: A link to the server, and one to the client.
SENDING = [*MAPPED, client(attach("sender")), server(attach("receiver"), flow())]
RECEIVING = [*MAPPED, client(attach("receiver"), flow()), server(attach("sender"))]


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        # transport 2.4.1: the first frame is open, and there is one
        ([client(AMQP_HEADER), server(AMQP_HEADER), client(begin())], "the client sent|begin: the first frame is open"),
        ([client(AMQP_HEADER, OPEN), server(AMQP_HEADER, begin(0, 0))], "the server sent|begin: the first frame is"),
        ([*OPENED_10, client(OPEN)], "the client sent|open: a second open"),
        ([*OPENED_10, server(OPEN)], "the server sent|open: a second open"),
        # 2.2: one protocol header
        ([*OPENED_10, client(AMQP_HEADER)], "the client sent|a second protocol header"),
        # read after the server's host has decided
        ([client(AMQP_HEADER, OPEN, OPEN), server(AMQP_HEADER, OPEN)], "the client sent|open: a second open"),
        # 2.5.1: sessions
        ([*OPENED_10, client(END)], "the client sent|end: no session on this channel"),
        ([*OPENED_10, server(flow(None))], "the server sent|flow: no session on this channel"),
        ([*MAPPED, client(begin())], "the client sent|begin: the channel has a session"),
        ([*MAPPED, server(begin(0))], "the server sent|begin: the channel has a session"),
        ([*MAPPED, client(END), server(END), client(flow(None))], "the client sent|flow: no session"),
        ([*MAPPED, client(flow(None, channel=1))], "the client sent|flow: no session on this channel"),
        # 2.6.2: links
        ([*MAPPED, client(transfer(0))], "the client sent|transfer: no link with this handle"),
        ([*MAPPED, server(flow())], "the server sent|flow: no link with this handle"),
        ([*MAPPED, client(detach())], "the client sent|detach: no link with this handle"),
        ([*SENDING, client(attach("sender", name="m"))], "the client sent|attach: the handle has a link"),
        ([*SENDING, server(attach("sender", name="m"))], "the server sent|attach: the handle has a link"),
        ([*SENDING, client(detach()), server(detach()), client(transfer(0))], "the client sent|transfer: no link"),
        ([*SENDING, client(END), server(END), client(begin()), server(begin(0, 0)), client(transfer(0))],
         "the client sent|transfer: no link with this handle"),
        # 2.6.1: a sender sends; 2.6.7: with credit
        ([*RECEIVING, client(transfer(0))], "the client sent|transfer: a transfer to a sender"),
        ([*SENDING, server(transfer(0))], "the server sent|transfer: a transfer to a sender"),
        ([*MAPPED, client(attach("sender"), transfer(0))], "the client sent|transfer: no credit has been given"),
        # 5.3.2: SASL
        ([client(SASL_HEADER), server(SASL_HEADER, OUTCOME)], "the server sent|sasl-outcome: not in the order"),
        ([*SASL, client(INIT), server(OUTCOME), server(MECHANISMS)], "the server sent|sasl-mechanisms: the SASL layer"),
        ([*SASL, client(amqp10.SaslResponse(response=b""))], "the client sent|sasl-response: not in the order"),
        ([client(AMQP_HEADER), server(MECHANISMS)], "the server sent|sasl-mechanisms: the protocol header comes first"),
    ],
)  # fmt: skip
def test_amqp10(said: list[Sent], rule: str) -> None:
    (found,) = violations(5672, said)
    for part in rule.split("|"):
        assert part in found


@pytest.mark.parametrize(
    "said",
    [
        [*SASL, client(INIT), server(OUTCOME), *SENDING, client(transfer(0)), client(detach()), server(detach())],
        [client(SASL_HEADER, INIT, AMQP_HEADER, OPEN), server(SASL_HEADER, MECHANISMS, OUTCOME, AMQP_HEADER, OPEN)],
        [*SASL, client(INIT), server(OUTCOME, AMQP_HEADER), client(AMQP_HEADER, OPEN), server(OPEN)],  # the server first
        # 2.4.4: all of it before the first answer
        [client(AMQP_HEADER, OPEN, begin(), attach("receiver"), flow()), server(AMQP_HEADER, OPEN, begin(0, 0)),
         server(attach("sender"), transfer(0))],
        [client(AMQP_HEADER, OPEN, CLOSE_10), server(AMQP_HEADER, OPEN, CLOSE_10)],
        [*OPENED_10, client(begin(), END), server(begin(0, 0), END), client(begin()), server(begin(0, 0))],
        [*OPENED_10, client(begin(3)), server(begin(7, 3)), client(flow(None, channel=3)), server(flow(None, channel=7))],
        [*OPENED_10, server(begin(2)), client(begin(5, 2)), server(flow(None, channel=2)), client(flow(None, channel=5))],
        # both ends of a link have a handle, and a name in each direction
        [*MAPPED, client(attach("sender", handle=1)), server(attach("receiver", handle=4), flow(4)),
         client(attach("receiver", handle=2), flow(2)), server(attach("sender", handle=5)), client(transfer(0, handle=1)),
         server(transfer(0, handle=5))],
        [*SENDING, client(detach(), attach("sender", name="m")), server(detach(), attach("receiver", name="m"), flow()),
         client(transfer(0))],
        # what was on its way when the other side ended
        [*RECEIVING, client(detach()), server(transfer(0), flow(), detach())],
        [*RECEIVING, client(END), server(transfer(0), END)],
        [*RECEIVING, client(CLOSE_10), server(transfer(0), END, CLOSE_10)],
        [*SENDING, server(detach()), client(transfer(0), detach(), attach("sender")), server(attach("receiver"))],
        [*SENDING, client(detach()), server(detach())],
        [*MAPPED, server(END), client(flow(None)), client(END)],
        [*MAPPED, client(attach("sender")), server(attach("receiver")), server(detach()), client(detach())],  # refused
    ],
)  # fmt: skip
def test_amqp10_what_is_allowed(said: list[Sent]) -> None:
    assert violations(5672, said) == []


def test_amqp10_more_than_is_kept_unread() -> None:
    """What a server has not read yet is not judged if there is too much of it."""
    ahead = client(AMQP_HEADER, OPEN, *(begin(i) for i in range(20)), OPEN)
    assert violations(5672, [ahead, server(AMQP_HEADER, OPEN)]) == []


# ---- NSQ

OK, HEARTBEAT = nsq.Response(b"OK"), nsq.Response(b"_heartbeat_")
MAGIC, SUB, RDY, CLS = nsq.Magic(), nsq.Sub(topic="t", channel="c"), nsq.Ready(count=1), nsq.Close()
IDENTIFY = nsq.Identify(feature_negotiation=True)
AGREED = nsq.Response(b'{"version":"1.3.0","tls_v1":false,"deflate":false,"snappy":false}')
PUB = nsq.Publish(topic="t", body=b"x")
GIVEN = nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"0123456789abcdef", body=b"x")
FINISH = nsq.Finish(message_id=b"0123456789abcdef")
SUBSCRIBED = [client(MAGIC, SUB), server(OK)]


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ([client(MAGIC, RDY)], "the client sent|RDY: the command needs a subscription"),
        ([client(MAGIC, FINISH)], "the client sent|FIN: the command needs a subscription"),
        ([client(MAGIC, CLS)], "the client sent|CLS: the command needs a subscription"),
        ([*SUBSCRIBED, client(SUB)], "the client sent|SUB: the command is not possible after SUB"),
        ([*SUBSCRIBED, client(IDENTIFY)], "the client sent|IDENTIFY: the command is not possible after SUB"),
        ([*SUBSCRIBED, client(CLS, CLS)], "the client sent|CLS: CLS has been sent before"),
        ([client(MAGIC, IDENTIFY, SUB, SUB), server(AGREED, OK)], "the client sent|SUB: the command is not possible"),
        ([client(MAGIC, PUB), server(OK, GIVEN)], "the server sent|message: a message before SUB"),
        ([client(MAGIC, IDENTIFY), server(AGREED, AGREED)], "the server sent|response: no command awaits"),
        ([*SUBSCRIBED, server(nsq.Response(b"hello"))], "the server sent|a response that the protocol does not have"),
        ([*SUBSCRIBED, server(AGREED)], "the server sent|response: no command awaits this response"),
    ],
)
def test_nsq(said: list[Sent], rule: str) -> None:
    (found,) = violations(4150, said)
    for part in rule.split("|"):
        assert part in found


@pytest.mark.parametrize(
    "said",
    [
        [client(MAGIC, IDENTIFY), server(AGREED), client(SUB), server(OK), client(RDY), server(GIVEN), client(FINISH)],
        [client(MAGIC, IDENTIFY, SUB, RDY), server(AGREED, OK, GIVEN), client(FINISH, CLS), server(nsq.Response(b"CLOSE_WAIT"))],
        [client(MAGIC, PUB, PUB, SUB, RDY), server(OK, OK, OK, GIVEN)],
        [client(MAGIC, PUB, IDENTIFY), server(OK, AGREED)],
        [*SUBSCRIBED, client(RDY), server(HEARTBEAT), client(nsq.Nop()), client(CLS), server(GIVEN), client(FINISH)],
        [*SUBSCRIBED, client(CLS), client(RDY), server(nsq.Response(b"CLOSE_WAIT"))],
        [*SUBSCRIBED, client(FINISH), server(nsq.Error(b"E_FIN_FAILED FIN 0123 failed ID not in flight")), client(RDY)],
        [client(MAGIC, nsq.Sub(topic="t", channel="c")), server(nsq.Error(b"E_BAD_TOPIC SUB")), client(RDY, CLS)],
    ],
)  # fmt: skip
def test_nsq_what_is_allowed(said: list[Sent]) -> None:
    assert [text for text in violations(4150, said) if "must not send" in text] == []


# ---- RocketMQ, PHPMQ


def command(code: int, flag: int = 0, opaque: int = 1) -> Any:
    return rocketmq.RemotingCommand(code=code, flag=flag, opaque=opaque, language="JAVA", version=0, body=None)


HEART_BEAT, RESPONSE = command(34), command(0, flag=1)


def test_rocketmq() -> None:
    """It may begin with TLS, so the client speaks first. A client that begins with a response is not taken for RocketMQ's."""
    (found,) = violations(10911, [server(HEART_BEAT), server(HEART_BEAT)])
    assert "the server sent" in found
    assert "HEART_BEAT: the client speaks first" in found


def test_rocketmq_what_is_allowed() -> None:
    asked = [client(HEART_BEAT), server(RESPONSE), server(command(40)), client(RESPONSE)]
    assert violations(10911, asked) == []
    assert violations(10911, [client(HEART_BEAT), server(command(1500, flag=1)), client(HEART_BEAT)]) == []


CONSUME = phpmq.ConsumeRequest(queue_name="q", message_count=1)
PUSHED = phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="7", ttl=1)
TAKEN = phpmq.Acknowledgement(queue_name="q", message_id="7")
SENT_ON = phpmq.MessageClientToServer(queue_name="q", content=b"x")


def test_phpmq() -> None:
    (found,) = violations(7001, [client(SENT_ON), server(PUSHED)])
    assert "the server sent" in found
    assert "MESSAGE_SERVER_TO_CLIENT: a message before a consume request" in found


def test_phpmq_what_is_allowed() -> None:
    """Another connection may have got the message that is acknowledged."""
    assert violations(7001, [client(SENT_ON, TAKEN, CONSUME), server(PUSHED), client(TAKEN, CONSUME)]) == []


# ---- captures of real peers


@pytest.mark.parametrize(
    "path",
    sorted(path for folder in ("samples", "tests/data") for path in (ROOT / folder).rglob("*.pcap*")),
    ids=lambda path: path.name,
)
def test_nobody_in_a_real_capture_sent_what_it_must_not_send(path: Path) -> None:
    with capture.read(path, table="findings") as reader:
        rows = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    assert not [row["text"] for row in rows if "must not send" in row["text"]]
