"""Captures of brokers at work, for the benchmarks of insight: what publishers send, a server acknowledges, delivers to a consumer
of its own connection, and gets acknowledged. Every payload is another one. Seeded: the same octets on every machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import inputs

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq

PAIRS = 50
PAYLOAD = 64

#: What one message makes: (connection of the publisher or of the consumer, side, octets), in this order.
Said = list[tuple[int, int, bytes]]
PUBLISHER, CONSUMER = 0, 1
CLIENT, SERVER = 0, 1


class Protocol:
    """How a protocol begins connections, and sends a message.

    Attributes:
        port: of the server.
        begin: what is said first on the connection of a publisher (0) or consumer (1) of a pair.
        send: what one message of a pair makes: its number among those of the pair, and a payload.
    """

    def __init__(
        self, port: int, begin: Callable[[int, int], list[tuple[int, bytes]]], send: Callable[[int, int, bytes], Said]
    ) -> None:
        self.port, self.begin, self.send = port, begin, send


def _mqtt_begin(pair: int, end: int) -> list[tuple[int, bytes]]:
    said = [(CLIENT, inputs.connect(f"{'ab'[end]}{pair}", 5)), (SERVER, inputs.mqtt_packet(0x20, b"\0\0\0"))]
    if end == CONSUMER:
        subscribe = mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription(f"site/{pair}/+", qos=1)], version=5
        )
        said += [(CLIENT, subscribe.encode()), (SERVER, inputs.mqtt_packet(0x90, b"\0\1\0\1"))]
    return said


def _mqtt_send(qos: int, pair: int, number: int, payload: bytes) -> Said:
    identifier = (number % 65535 + 1).to_bytes(2, "big") if qos else b""
    packet = inputs.mqtt_packet(
        0x30 | qos << 1, inputs.string(f"site/{pair}/{number % 20}") + identifier + b"\0" + payload
    )
    said = [(PUBLISHER, CLIENT, packet), (CONSUMER, SERVER, packet)]
    if qos:
        said.insert(1, (PUBLISHER, SERVER, b"\x40\2" + identifier))
        said.append((CONSUMER, CLIENT, b"\x40\2" + identifier))
    return said


def _amqp091_begin(pair: int, end: int) -> list[tuple[int, bytes]]:
    said: list[tuple[int, bytes]] = [
        (CLIENT, b"AMQP\0\0\x09\x01"),
        (SERVER, amqp091.ConnectionStart(server_properties={"product": "bench"}, mechanisms=b"PLAIN", locales=b"en_US").encode()),
        (CLIENT, amqp091.ConnectionStartOk(client_properties={}, mechanism="EXTERNAL", response=b"", locale="en_US").encode()),
        (SERVER, amqp091.ConnectionTune(channel_max=2047, frame_max=131072, heartbeat=60).encode()),
        (CLIENT, amqp091.ConnectionTuneOk(channel_max=2047, frame_max=131072, heartbeat=60).encode()),
        (CLIENT, amqp091.ConnectionOpen(virtual_host="/").encode()),
        (SERVER, amqp091.ConnectionOpenOk().encode()),
        (CLIENT, amqp091.ChannelOpen(channel=1).encode()),
        (SERVER, amqp091.ChannelOpenOk(channel=1).encode()),
    ]  # fmt: skip
    if end == PUBLISHER:
        said += [
            (CLIENT, amqp091.ConfirmSelect(channel=1).encode()),
            (SERVER, amqp091.ConfirmSelectOk(channel=1).encode()),
        ]
    else:
        said += [
            (CLIENT, amqp091.BasicConsume(channel=1, queue=f"orders-{pair}", consumer_tag="c").encode()),
            (SERVER, amqp091.BasicConsumeOk(channel=1, consumer_tag="c").encode()),
        ]
    return said


def _amqp091_send(pair: int, number: int, payload: bytes) -> Said:
    properties = amqp091.BasicProperties(content_type="application/json", delivery_mode=2)
    publish = amqp091.BasicPublish(channel=1, routing_key=f"orders-{pair}")
    deliver = amqp091.BasicDeliver(
        channel=1, consumer_tag="c", delivery_tag=number + 1, exchange="", routing_key=f"orders-{pair}"
    )
    return [
        (PUBLISHER, CLIENT, amqp091.BasicMessage(publish, properties, payload).encode()),
        (PUBLISHER, SERVER, amqp091.BasicAck(channel=1, delivery_tag=number + 1).encode()),
        (CONSUMER, SERVER, amqp091.BasicMessage(deliver, properties, payload).encode()),
        (CONSUMER, CLIENT, amqp091.BasicAck(channel=1, delivery_tag=number + 1).encode()),
    ]


def _amqp10_begin(pair: int, end: int) -> list[tuple[int, bytes]]:
    role = ("sender", "receiver")[end]
    queue = f"/queues/orders-{pair}"

    def attach(role: str) -> bytes:
        return amqp10.Attach(
            channel=0,
            name="link",
            handle=0,
            role=role == "receiver",
            source=amqp10.Source(address=queue),
            target=amqp10.Target(address=queue),
            initial_delivery_count=0 if role == "sender" else None,
        ).encode()

    def begin(remote: int | None) -> bytes:
        return amqp10.Begin(
            channel=0, remote_channel=remote, next_outgoing_id=0, incoming_window=1 << 20, outgoing_window=1 << 20
        ).encode()

    return [
        (CLIENT, b"AMQP\0\1\0\0"),
        (SERVER, b"AMQP\0\1\0\0"),
        (CLIENT, amqp10.Open(container_id=f"{'ab'[end]}{pair}", idle_time_out=60_000).encode()),
        (SERVER, amqp10.Open(container_id="server").encode()),
        (CLIENT, begin(None)),
        (SERVER, begin(0)),
        (CLIENT, attach(role)),
        (SERVER, attach("sender" if role == "receiver" else "receiver")),
    ]


def _amqp10_send(pair: int, number: int, payload: bytes) -> Said:
    message = amqp10.Message(properties=amqp10.Properties(content_type="a/b"), body=payload).encode()
    transfer = amqp10.Transfer(
        channel=0,
        handle=0,
        delivery_id=number,
        delivery_tag=number.to_bytes(4, "big"),
        message_format=0,
        payload=message,
    ).encode()

    def accepted(receiver: bool) -> bytes:
        return amqp10.Disposition(
            channel=0, role=receiver, first=number, settled=True, state=amqp10.Accepted()
        ).encode()

    return [
        (PUBLISHER, CLIENT, transfer), (PUBLISHER, SERVER, accepted(True)),
        (CONSUMER, SERVER, transfer), (CONSUMER, CLIENT, accepted(True)),
    ]  # fmt: skip


def _nsq_begin(pair: int, end: int) -> list[tuple[int, bytes]]:
    if end == PUBLISHER:
        return [(CLIENT, b"  V2")]
    return [
        (CLIENT, b"  V2" + f"SUB orders-{pair} work\n".encode()),
        (SERVER, b"\0\0\0\x06\0\0\0\0OK"),
        (CLIENT, b"RDY 100\n"),
    ]


def _nsq_send(pair: int, number: int, payload: bytes) -> Said:
    identifier = b"%016x" % (pair << 32 | number)
    message = nsq.MessageFrame(
        timestamp=1_700_000_000_000_000_000 + number, attempts=1, message_id=identifier, body=payload
    ).encode()
    return [
        (PUBLISHER, CLIENT, nsq.Publish(topic=f"orders-{pair}", body=payload).encode()),
        (PUBLISHER, SERVER, b"\0\0\0\x06\0\0\0\0OK"),
        (CONSUMER, SERVER, message),
        (CONSUMER, CLIENT, b"FIN %s\n" % identifier),
    ]


def _rocketmq_send(pair: int, number: int, payload: bytes) -> Said:
    """Published and answered; what a broker delivers with one answer to a PULL_MESSAGE is left out."""
    unique = f"{pair:08X}{number:024X}"
    properties = rocketmq.encode_properties({"UNIQ_KEY": unique, "WAIT": "true"})
    header = rocketmq.SendMessageRequestHeaderV2(
        a="producers", b=f"orders-{pair}", c="TBW102", d=4, e=number % 4, f=0, g=1_700_000_000_000 + number, h=0,
        i=properties, j=0, k=False, m=False, n="broker-a",
    )  # fmt: skip
    request = rocketmq.RemotingCommand(code=310, opaque=number, header=header, body=payload, language="JAVA")
    fields = {"msgId": unique, "queueId": "2", "queueOffset": str(number)}
    answer = rocketmq.RemotingCommand(code=0, flag=1, opaque=number, ext_fields=fields, language="JAVA")
    return [(PUBLISHER, CLIENT, request.encode()), (PUBLISHER, SERVER, answer.encode())]


def _phpmq_begin(pair: int, end: int) -> list[tuple[int, bytes]]:
    if end == PUBLISHER:
        return []
    return [(CLIENT, phpmq.ConsumeRequest(queue_name=f"orders-{pair}", message_count=100).encode())]


def _phpmq_send(pair: int, number: int, payload: bytes) -> Said:
    queue, identifier = f"orders-{pair}", f"{pair:08x}{number:024x}"
    deliver = phpmq.MessageServerToClient(queue_name=queue, content=payload, message_id=identifier, ttl=0)
    return [
        (PUBLISHER, CLIENT, phpmq.MessageClientToServer(queue_name=queue, content=payload).encode()),
        (CONSUMER, SERVER, deliver.encode()),
        (CONSUMER, CLIENT, phpmq.Acknowledgement(queue_name=queue, message_id=identifier).encode()),
    ]


PROTOCOLS = {
    "mqtt, QoS 0": Protocol(1883, _mqtt_begin, partial(_mqtt_send, 0)),
    "mqtt, QoS 1": Protocol(1883, _mqtt_begin, partial(_mqtt_send, 1)),
    "amqp091": Protocol(5672, _amqp091_begin, _amqp091_send),
    "amqp10": Protocol(5672, _amqp10_begin, _amqp10_send),
    "rocketmq": Protocol(10911, lambda pair, end: [], _rocketmq_send),
    "nsq": Protocol(4150, _nsq_begin, _nsq_send),
    "phpmq": Protocol(9991, _phpmq_begin, _phpmq_send),
}


def packets(name: str, messages: int, *, pairs: int = PAIRS, payload: int = PAYLOAD, turn: int = 4) -> Iterator[bytes]:
    """Of `pairs` publishers and as many consumers; each turn up to `turn` messages of one pair."""
    protocol, chance = PROTOCOLS[name], random.Random(1)
    clients = [[inputs.Connection(2 * i + end, chance, protocol.port) for end in range(2)] for i in range(pairs)]
    for i, ends in enumerate(clients):
        for end, connection in enumerate(ends):
            yield from connection.open()
            for side, octets in protocol.begin(i, end):
                yield connection.segment(side, 24, octets)
    numbers, sent = [0] * pairs, 0
    while sent < messages:
        pair = chance.randrange(pairs)
        steps: dict[tuple[int, int], bytearray] = {}
        for _ in range(min(chance.randint(1, turn), messages - sent)):
            for end, side, octets in protocol.send(
                pair, numbers[pair], sent.to_bytes(8, "big") + chance.randbytes(payload - 8)
            ):
                steps.setdefault((end, side), bytearray()).extend(octets)
            numbers[pair] += 1
            sent += 1
        for (end, side), stream in steps.items():
            for at in range(0, len(stream), inputs.MTU_PAYLOAD):
                yield clients[pair][end].segment(side, 24, bytes(stream[at : at + inputs.MTU_PAYLOAD]))
    for ends in clients:
        for connection in ends:
            yield from connection.close()
