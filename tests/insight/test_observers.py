"""Messages that the tables of states forbid are findings: what our connections refuse is what an observer reports."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

import pyarrow as pa

from lib.insight_tables import Sent, client, server, tables_of
from lib.wire import ACK, FIN, Tcp, connack, connect, pcap
from wirefmt import amqp091, capture, mqtt
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
