"""Nothing is left of what was decoded: memory and references are the same after a thousand messages as after ten.

What is measured: octets that malloc has given out (C's), blocks that Python has given out, references to None and to
classes. A round makes texts that no round made before, so that what is shared between messages is not found again.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.columns import Case, opening
from lib.wire import Tcp, pcap
from wirefmt import amqp091, amqp10, convert, mqtt, nsq, phpmq, rocketmq
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.errors import DecodeError

ROUNDS = 40


class Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def heap() -> int:
    """Octets that malloc has given out."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("needs glibc 2.33 or later (it has mallinfo2)")
    library.mallinfo2.restype = Mallinfo
    info = library.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def grown(action: Callable[[int], Any]) -> tuple[float, float, float]:
    """Octets, blocks and references to None that a round leaves behind; the least of several measurements."""
    number = iter(range(1 << 30))
    for _ in range(ROUNDS):  # caches fill: they are no leak
        action(next(number))
    least = (1e9, 1e9, 1e9)
    for _ in range(4):
        gc.collect()
        before = heap(), sys.getallocatedblocks(), sys.getrefcount(None)
        for _ in range(ROUNDS):
            action(next(number))
        gc.collect()
        after = heap(), sys.getallocatedblocks(), sys.getrefcount(None)
        least = tuple(min(x, (b - a) / ROUNDS) for x, a, b in zip(least, before, after, strict=True))  # type: ignore[assignment]
    return least


def ask(value: Any) -> None:
    """Every field of a message, and its repr, hash and octets."""
    for name in getattr(type(value), "__match_args__", ()):
        found = getattr(value, name)
        if isinstance(found, tuple | list):
            for item in found:
                repr(item)
    repr(value), hash(value)
    value.encode()


def mqtt_messages(n: int) -> Iterator[bytes]:
    t = f"topic/{n}"
    properties = (
        ("user_property", (f"name{n}", f"value{n}")),
        ("content_type", f"type{n}"),
        ("topic_alias", 1 + n % 9),
    )
    will = mqtt.Will(t, b"w", properties=(("user_property", (f"k{n}", f"v{n}")),))
    yield mqtt.Connect(client_identifier=f"client{n}", user_name=f"user{n}", password=b"p", will=will).encode()
    yield mqtt.Publish(topic_name=t, payload=b"p" * 100, qos=1, packet_identifier=5, properties=properties).encode()
    yield mqtt.Publish(topic_name=f"täpic/{n}", payload=b"p").encode()
    subscriptions = [mqtt.Subscription(f"{t}/+", 1), mqtt.Subscription(f"{t}/#", 2)]
    yield mqtt.Subscribe(packet_identifier=1, subscriptions=subscriptions).encode()
    yield mqtt.Unsubscribe(packet_identifier=1, topic_filters=[f"{t}/+"]).encode()


TABLE = [("s", "x"), ("d", 1.5), ("t", {"deep": {"deeper": [1, "two"]}}), ("a", [1, [2, {"x": None}]])]


def amqp091_messages(n: int) -> Iterator[bytes]:
    properties = amqp091.BasicProperties(
        headers=[(f"name{n}", f"value{n}"), *TABLE], content_type=f"type{n}", message_id=f"id{n}", expiration="5"
    )
    client = {"product": f"p{n}", "connection_name": f"name{n}"}
    yield amqp091.ConnectionStartOk(client_properties=client, response=b"\0u\0p").encode()
    yield amqp091.QueueDeclare(channel=1, queue=f"queue{n}", arguments={"x-max-length": n, f"x{n}": True}).encode()
    yield amqp091.BasicPublish(channel=1, exchange=f"exchange{n}", routing_key=f"key{n}").encode()
    yield amqp091.ContentHeader(channel=1, body_size=2000, properties=properties).encode()
    yield amqp091.Body(channel=1, payload=b"b" * 1500).encode()
    yield amqp091.Body(channel=1, payload=b"b" * 500).encode()


def amqp10_messages(n: int) -> Iterator[bytes]:
    message = amqp10.Message(
        header=amqp10.Header(ttl=5, delivery_count=1),
        message_annotations={amqp10.Symbol(f"x-opt-{n}"): n},
        properties=amqp10.Properties(message_id=f"id{n}", to=f"address{n}", subject=f"täxt{n}"),
        application_properties={f"name{n}": f"value{n}", "l": 1.5},
        body=b"b" * 700,
    ).encode()
    value = amqp10.Message(body=amqp10.AmqpValue({f"key{n}": [1, f"value{n}", {"x": 1.25}]})).encode()
    yield amqp10.Open(container_id=f"container{n}", properties={amqp10.Symbol(f"p{n}"): n}).encode()
    yield amqp10.Attach(
        name=f"link{n}", handle=0, role=False, initial_delivery_count=0,
        source=amqp10.Source(address=f"source{n}"), target=amqp10.Target(address=f"target{n}"),
    ).encode()  # fmt: skip
    yield amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"t%d" % n, payload=message).encode()
    yield amqp10.Transfer(handle=0, delivery_id=2, delivery_tag=b"u", more=True, payload=value[:20]).encode()
    yield amqp10.Transfer(handle=0, payload=value[20:]).encode()
    yield amqp10.Transfer(handle=0, delivery_id=3, delivery_tag=b"v", more=True, payload=message).encode()
    error = amqp10.Error(condition=f"amqp:internal-error{n}", description=f"text{n}")
    yield amqp10.Detach(handle=0, closed=True, error=error).encode()


def nsq_messages(n: int) -> Iterator[bytes]:
    yield nsq.Identify(client_id=f"client{n}", hostname=f"host\u00e9{n}").encode()
    yield nsq.Sub(topic=f"topic{n}", channel=f"channel{n}").encode()
    yield nsq.Publish(topic=f"topic{n}", body=b"b" * 600).encode()
    yield nsq.MultiPublish(topic=f"topic{n}", bodies=[b"a" * 600, b"b%d" % n]).encode()
    yield nsq.DeferredPublish(topic=f"topic{n}", defer_time=n, body=b"b").encode()


def phpmq_messages(n: int) -> Iterator[bytes]:
    yield phpmq.MessageClientToServer(queue_name=f"queue{n}", content=b"c" * 600, ttl=n).encode()
    yield phpmq.ConsumeRequest(queue_name=f"queue{n}", message_count=n + 1).encode()
    yield phpmq.Acknowledgement(queue_name=f"queue{n}", message_id=f"id{n}").encode()


def rocketmq_messages(n: int) -> Iterator[bytes]:
    fields = {"a": f"group{n}", "b": f"topic{n}", "e": "1", "i": f"KEYS\x01k{n}\x02TAGS\x01t\u00e9\x02"}
    for form in ("JSON", "ROCKETMQ"):
        yield rocketmq.RemotingCommand(
            code=310, opaque=n, remark=f"r{n}", ext_fields=fields, body=b"b" * 600, serialize_type=form
        ).encode()
    heart = rocketmq.HeartbeatData(client_id=f"client{n}").encode()
    yield rocketmq.RemotingCommand(code=34, opaque=n + 1, body=heart).encode()
    stored = rocketmq.MessageExt(topic=f"topic{n}", body=b"b" * 600, properties={f"name{n}": f"value{n}"}).encode()
    yield rocketmq.RemotingCommand(code=0, flag=1, opaque=n, body=stored * 2).encode()


PROTOCOLS: dict[str, tuple[Any, Callable[[int], Iterator[bytes]], dict[str, Any]]] = {
    "mqtt": (mqtt, mqtt_messages, {"version": 5}), "amqp091": (amqp091, amqp091_messages, {}),
    "amqp10": (amqp10, amqp10_messages, {}), "nsq": (nsq, nsq_messages, {"side": "client"}),
    "phpmq": (phpmq, phpmq_messages, {}), "rocketmq": (rocketmq, rocketmq_messages, {}),
}  # fmt: skip
PORTS = {"mqtt": 1883, "amqp091": 5672, "amqp10": 5672, "nsq": 4150, "phpmq": 9300, "rocketmq": 10911}


@pytest.fixture(scope="module", autouse=True)
def _shared_values_are_full() -> None:
    """The table of values that messages share is full, with kinds of values as they come: a new one takes the place of
    another from now on."""
    for n in range(1 << 20, (1 << 20) + 1500):
        objects("mqtt", n)


def objects(protocol: str, n: int) -> None:
    module, messages, options = PROTOCOLS[protocol]
    for octets in messages(n):
        ask(module.decode(octets, **options))
        with_fault = octets[:-1]
        for strictness in ("strict", "lax"):
            try:
                ask(module.decode(with_fault, strictness=strictness, **options))
            except DecodeError as error:
                str(error)


def streams(protocol: str, n: int) -> None:
    module, messages, options = PROTOCOLS[protocol]
    octets = b"".join(messages(n))
    for size in (7, 100000):
        decoder = module.Decoder(**options)
        for at in range(0, len(octets) - 1, size):
            for message in decoder.feed(octets[at : at + size]):
                repr(message)
    if protocol == "amqp091":
        repr(amqp091.Assembler().feed(octets))
    elif protocol == "amqp10":
        assembler = amqp10.TransferAssembler()
        for frame in amqp10.Decoder().feed(octets):
            repr(assembler.receive(frame))


def batches(protocol: str, n: int) -> None:
    module, messages, options = PROTOCOLS[protocol]
    octets = b"".join(messages(n))
    for data in (octets, octets[:-1], octets[: len(octets) // 2] + b"\xff" * 40):
        batch = module.decode_batch(data, **options)
        for name in batch.names:
            if "struct" not in str(type(batch)) and name not in STRUCTS:
                try:
                    batch[name]
                except TypeError:  # a list, a map or a struct: Arrow's to read
                    pass
        batch.__arrow_c_array__()


STRUCTS = ("mqtt", "nsq", "phpmq", "rocketmq")


def captures(protocol: str, n: int) -> None:
    """A connection whose last message is cut, and one with a lost packet."""
    _, messages, _ = PROTOCOLS[protocol]
    octets = b"".join(messages(n))
    frames = []
    for number, lost in enumerate((None, 2)):
        tcp = Tcp(PORTS[protocol], client_port=30000 + number)
        sent = tcp.send(0, opening(protocol, Case(b"", 0, 5)) + octets[:-3], 400)
        frames += [*tcp.open(), *(f for i, f in enumerate(sent) if i != lost), *tcp.close()]
    frames += frames[-8:-4]
    data = pcap(frames)
    for columns in (None, ["kind", "payload"]):
        decoder = CaptureDecoder(columns=columns, decode_as=f"tcp.port=={PORTS[protocol]},{protocol}", octets=True)
        decoder.begin_file("x", 0)
        decoder.feed(data)
        decoder.end_file()
        decoder.finish()
        decoder.take(final=True)
    unfinished = CaptureDecoder()
    unfinished.begin_file("x", 0)
    unfinished.feed(data[: len(data) // 2])


@pytest.mark.parametrize("way", [objects, streams, batches, captures], ids=lambda way: way.__name__)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_left(protocol: str, way: Callable[[str, int], None]) -> None:
    octets, blocks, references = grown(lambda n: way(protocol, n))
    assert octets < 8, f"{octets} octets of malloc a round"
    assert blocks < 0.5, f"{blocks} blocks of Python a round"
    assert references < 0.5, f"{references} references to None a round"


def conversions(n: int) -> None:
    message = amqp10.Message(
        properties=amqp10.Properties(message_id=f"id{n}", content_type=f"type{n}", reply_to=f"/queues/q{n}"),
        application_properties={f"name{n}": f"value{n}", "x": 1.5},
        body=b"b" * 700,
    )
    for to in ("amqp091", "mqtt5"):
        made = convert.convert(message, to=to, routing_key=f"k{n}", explain=True)
        repr(made.losses), repr(made.wire)
        made.wire.frames()
        back = convert.convert(made.wire, to="amqp10", routing_key="k")
        repr(back.losses)


def test_nothing_is_left_of_conversions() -> None:
    octets, blocks, references = grown(conversions)
    assert (octets < 8, blocks < 0.5, references < 0.5) == (True, True, True), (octets, blocks, references)


def test_nothing_is_left_of_topics() -> None:
    def action(n: int) -> None:
        index: mqtt.TopicIndex[int] = mqtt.TopicIndex(5)
        for i in range(40):
            index.add(f"a{n}/{i}/+/#", i)
        index.match(f"a{n}/3/x/y")
        for i in range(0, 40, 2):
            index.discard(f"a{n}/{i}/+/#", i)

    octets, blocks, references = grown(action)
    assert (octets < 8, blocks < 0.5, references < 0.5) == (True, True, True), (octets, blocks, references)


def test_what_is_shared_between_messages_is_held_once() -> None:
    """A table of fixed size holds small values that streams repeat; every message that has one holds a reference more."""
    for message in (
        mqtt.Publish(topic_name="shared/topic", payload=b"", properties=(("content_type", "shared-type"),)),
        mqtt.Publish(topic_name="a" * 54, payload=b"", version=4),
    ):
        octets = message.encode()
        topic = mqtt.decode(octets, version=message.version).topic_name
        before = sys.getrefcount(topic)
        for _ in range(100):
            mqtt.decode(octets, version=message.version).topic_name  # noqa: B018
        assert sys.getrefcount(topic) == before
