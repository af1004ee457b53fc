"""Targets of connections: any bytes for a client, a server and the broker, with any splits and decisions. See targets.py.

The first octets seed the random numbers: splits and decisions of the host.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

from lib import rocketmq_driven
from lib.kinds import checked
from lib.mqtt_conversations import made
from lib.mqtt_driven import OPTIONS, compare_cuts, compare_paths, connection, drive
from lib.rocketmq_vectors import load
from wirefmt import mqtt, rocketmq
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.mqtt import Broker, BrokerOptions
from wirefmt.broker.rocketmq.log import ENTRY
from wirefmt.connection.aio import Peer, Server
from wirefmt.connection.carriers import WebSocket


def sequence_seeds(role: str) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        for k, case in enumerate(made(role)):
            yield k.to_bytes(2) + b"".join(step.octets for step in case.steps if step.do == "send")

    return seeds


def either(role: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        random_ = random.Random(data[:2])
        connection_, opening = connection(role, random_)
        drive(role, connection_, bytearray(b"".join(opening) + data[2:]), random_)

    return run


def rocketmq_either(role: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        random_ = random.Random(data[:2])
        rocketmq_driven.drive(rocketmq_driven.connection(role, random_), bytearray(data[2:]), random_)

    return run


def rocketmq_seeds() -> Iterator[bytes]:
    """Frames of the real code, and responses to the first requests of ours."""
    frames = [vector.octets for vector in load() if vector.kind in ("request", "response", "captured-frame")]
    for k in range(0, len(frames), 5):
        yield k.to_bytes(2) + b"".join(frames[k : k + 5])
    answers = b"".join(rocketmq.RemotingCommand(code=0, flag=1, opaque=opaque).encode() for opaque in range(1, 6))
    for k, preface in enumerate((b"", b"\x16\x03\x01", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n")):
        yield k.to_bytes(2) + preface + answers + frames[0]


class Transport(asyncio.Transport):
    """Accepts writes, and is full from time to time."""

    def __init__(self, random_: random.Random) -> None:
        super().__init__()
        self.random = random_
        self.driver: Any = None
        self.over = False

    def write(self, data: Any) -> None:
        if self.random.random() < 0.1 and not self.over:
            self.driver.pause_writing()
            asyncio.get_running_loop().call_soon(self.driver.resume_writing)

    def writelines(self, buffers: Any) -> None:
        for data in buffers:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        if not self.over:
            self.over = True
            asyncio.get_running_loop().call_soon(self.driver.connection_lost, None)

    abort = close


async def two_clients(
    make: Callable[[Server, float], Peer], data: bytes, random_: random.Random, websocket: WebSocket | None = None
) -> None:
    """Two clients of one server; the bytes go to them in turns. websocket: masks most of what they send."""
    server = Server(make, 10)
    drivers = []
    for _ in range(2):
        driver = make(server, asyncio.get_running_loop().time()).driver
        if websocket is not None:
            driver._carrier = WebSocket()
        transport = Transport(random_)
        transport.driver = driver
        driver.server = server
        driver.connection_made(transport)
        drivers.append(driver)
    rest = data[2:]
    while rest:
        size = random_.choice((1, 10, 100, len(rest)))
        piece, rest = rest[:size], rest[size:]
        if websocket is not None and random_.random() < 0.95:
            piece = websocket.send(piece)
        driver = drivers[random_.random() < 0.2]
        if not checked(driver.transport, Transport).over:
            driver.get_buffer(-1)[: len(piece)] = piece
            driver.buffer_updated(len(piece))
        if random_.random() < 0.5:
            await asyncio.sleep(0)
    for driver in drivers:
        if not checked(driver.transport, Transport).over:
            driver.eof_received()
            checked(driver.transport, Transport).close()
    for _ in range(4):
        await asyncio.sleep(0)
    assert not server.drivers, "a driver is left"


async def clients(data: bytes) -> None:
    """Two clients of one broker; they get the bytes in turns. An exception of the broker is a bug of ours."""
    random_ = random.Random(data[:2])
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    policy = BrokerOptions(
        overlap=random_.choice(("merged", "each")),
        overflow=random_.choice(("drop_oldest", "refuse", "disconnect")),
        queue_messages=3,
        retained_messages=3,
        subscriptions=4,
    )
    broker = Broker(policy, random=random_)

    def make(server: Server, now: float) -> mqtt.Peer:
        return mqtt.Peer(broker, server, mqtt.ServerConnection(now, OPTIONS))

    websocket = WebSocket(mask=lambda: b"mask") if random_.random() < 0.2 else None
    await two_clients(make, data, random_, websocket)
    assert not [s for s in broker.subscribers.values() if s.peer is not None], "a client is left"
    assert all(len(s.queue) <= 3 for s in broker.subscribers.values())
    broker.close()
    assert not faults, faults


def broker(data: bytes) -> None:
    asyncio.run(clients(data))


def broker_seeds() -> Iterator[bytes]:
    yield from sequence_seeds("server")()
    packets = [
        mqtt.Connect(client_identifier="c", properties=[("session_expiry_interval", 60)]),
        mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription("#", qos=2), mqtt.Subscription("$share/g/a")]
        ),
        mqtt.Publish(topic_name="a", payload=b"x", qos=2, packet_identifier=1, retain=True),
        mqtt.Pubrel(packet_identifier=1),
        mqtt.Publish(topic_name="a", payload=b"x", qos=1, packet_identifier=2),
    ]
    for k in range(50):
        yield k.to_bytes(2) + b"".join(packet.encode() for packet in packets) + packets[-1].encode() * (k % 9)


async def rocketmq_clients(data: bytes) -> None:
    """Two clients of one RocketMQ broker; the bytes go to them in turns. An exception of the broker's is a fault of ours."""
    random_ = random.Random(data[:2])
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["exception"]))
    limits = rocketmq_broker.BrokerOptions(
        queues=2,
        topics=4,
        groups=3,
        queue_messages=3,
        memory=20_000,
        waiting=2,
        delay=0.0,
        check_after=0.0,
        checks=2,
    )
    broker = rocketmq_broker.Broker(limits)

    def make(server: Server, now: float) -> rocketmq.Peer:
        return rocketmq.Peer(broker, server, rocketmq.ServerConnection(now, rocketmq_driven.OPTIONS))

    await two_clients(make, data, random_)
    assert not any(clients for groups in (broker.consumers, broker.producers) for clients in groups.values())
    assert not broker._waits.waiting, "a pull of nobody waits"
    assert len(broker.topics) <= limits.topics
    assert all(len(queue.messages) <= 3 for queues in broker.topics.values() for queue in queues)
    held = [len(m.frame) for queues in broker.topics.values() for q in queues for m in q.messages]
    held += [len(half.message.encode()) for half in broker._transactions.halves.values()]
    assert broker.shares.bytes == sum(held) + len(held) * ENTRY
    broker.close()
    assert not faults, faults


def rocketmq_served(data: bytes) -> None:
    asyncio.run(rocketmq_clients(data))


def rocketmq_broker_seeds() -> Iterator[bytes]:
    """All that the broker serves, in an order that means something."""
    said: list[rocketmq.RemotingCommand] = []

    def say(code: int, header: Any = None, body: bytes | None = None) -> None:
        said.append(rocketmq.RemotingCommand(code=code, opaque=len(said), header=header, body=body))

    subscription = rocketmq.SubscriptionData(topic="t", sub_string="*", sub_version=1)
    group = rocketmq.ConsumerData(group_name="g", subscription_data_set=[subscription])
    heart = rocketmq.HeartbeatData(
        client_id="c", producer_data_set=[rocketmq.ProducerData(group_name="p")], consumer_data_set=[group]
    )
    say(34, None, heart.encode())
    for flag, properties in ((0, "TAGS\x01a\x02"), (4, "PGROUP\x01p\x02TRAN_MSG\x01true\x02"), (0, "DELAY\x011\x02")):
        say(
            310,
            rocketmq.SendMessageRequestHeaderV2(a="p", b="t", c="TBW102", d=2, e=0, f=flag, g=1, h=0, i=properties),
            b"x",
        )
    say(105, rocketmq.GetRouteInfoRequestHeader(topic="t"))
    say(
        11,
        rocketmq.PullMessageRequestHeader(
            consumer_group="g", topic="t", queue_id=0, queue_offset=0, max_msg_nums=3, sys_flag=3, commit_offset=1,
            suspend_timeout_millis=10, sub_version=1,
        ),
    )  # fmt: skip
    say(36, rocketmq.ConsumerSendMsgBackRequestHeader(offset=0, group="g", delay_level=0))
    say(
        200050,
        rocketmq.PopMessageRequestHeader(
            consumer_group="g",
            topic="t",
            queue_id=-1,
            max_msg_nums=3,
            invisible_time=1,
            poll_time=5,
            born_time=1,
            init_mode=0,
        ),
    )
    lock = rocketmq.LockBatchRequestBody(
        consumer_group="g", client_id="c", mq_set=[rocketmq.MessageQueue(topic="t", broker_name="broker-a", queue_id=0)]
    )
    for code in (41, 42):
        say(code, None, lock.encode())
    say(30, rocketmq.GetMaxOffsetRequestHeader(topic="t", queue_id=0))
    say(35, rocketmq.UnregisterClientRequestHeader(client_id="c", producer_group="p", consumer_group="g"))
    for k in range(20):
        yield k.to_bytes(2) + b"".join(command.encode() for command in said[: 4 + k])
    yield from rocketmq_seeds()


def paths(data: bytes) -> None:
    """The compiled part of a connection against its readable part, and cuts of the same octets; the octets are the seed."""
    compare_paths(data)
    compare_cuts(data)


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "mqtt_client_connection": (either("client"), sequence_seeds("client")),
    "mqtt_server_connection": (either("server"), sequence_seeds("server")),
    "mqtt_broker": (broker, broker_seeds),
    "mqtt_connection_paths": (paths, lambda: (k.to_bytes(2) for k in range(100))),
    "rocketmq_client_connection": (rocketmq_either("client"), rocketmq_seeds),
    "rocketmq_broker": (rocketmq_served, rocketmq_broker_seeds),
    "rocketmq_server_connection": (rocketmq_either("server"), rocketmq_seeds),
}
