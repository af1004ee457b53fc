"""Nothing is left of what was decoded: memory and references are the same after a thousand messages as after ten.

What is measured: octets that malloc has given out (C's), blocks that Python has given out, references to None and to
classes. A round makes texts that no round made before, so that what is shared between messages is not found again.
"""

from __future__ import annotations

import gc
import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lib.heap
from lib.columns import Case, opening
from lib.examples import REFUSED, examples
from lib.kinds import checked
from lib.packets import ethernet, fragments4
from lib.packets import tcp as tcp_segment
from lib.protocols import PORTS
from lib.wire import RST, SYN, Tcp, pcap
from wirefmt import amqp091, amqp10, convert, mqtt, nsq, phpmq, rocketmq
from wirefmt.capture._engine import BoundarySearch, CaptureDecoder, Dispatcher, PcapReader, find_record
from wirefmt.convert import dialects
from wirefmt.convert._engine import convert_rows
from wirefmt.errors import DecodeError, WireError
from wirefmt.spec.options import Options

try:
    import pyarrow as pa
except ImportError:
    pa = None

ROUNDS = 40


def heap() -> int:
    """Octets that malloc has given out."""
    octets = lib.heap.heap()
    if octets == 0:
        pytest.skip("needs glibc 2.33 or later (it has mallinfo2)")
    return octets


def collect() -> None:
    """Garbage, and names of attributes that the interpreter keeps by their addresses."""
    gc.collect()
    (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()


def grown(action: Callable[[int], Any], before_that: int = ROUNDS, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Octets, blocks and references to None that a round leaves behind; the least of several measurements."""
    number = iter(range(1 << 30))
    for _ in range(before_that):  # caches fill: they are not a leak
        action(next(number))
    least = (1e9, 1e9, 1e9)
    for _ in range(16):  # a leak is in all of them; lists of free objects, and tables of shared values, fill
        collect()
        before = heap(), sys.getallocatedblocks(), sys.getrefcount(None)
        for _ in range(rounds):
            action(next(number))
        collect()
        after = heap(), sys.getallocatedblocks(), sys.getrefcount(None)
        least = tuple(min(x, (b - a) / rounds) for x, a, b in zip(least, before, after, strict=True))  # type: ignore[assignment]
        if least[0] < 8 and least[1] < 0.5 and least[2] < 0.5:
            break
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


TABLE = [
    ("long", {"octets": b"\0\xff" * 200, "text": ["t" * 600]}),
    ("s", "x"),
    ("d", 1.5),
    ("t", {"deep": {"deeper": [1, "two"]}}),
    ("a", [1, [2, {"x": None}]]),
]


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
    for channel in (2, 3):  # both are unfinished when the stream ends
        yield amqp091.BasicPublish(channel=channel, exchange=f"exchange{n}", routing_key=f"key{n}").encode()
        yield amqp091.ContentHeader(channel=channel, body_size=2000, properties=properties).encode()
        yield amqp091.Body(channel=channel, payload=b"b" * 1500).encode()
    for channel in range(4, 22):  # there are as many chains as unfinished contents: they double twice
        yield amqp091.BasicPublish(channel=channel, routing_key=f"key{n}").encode()


def amqp10_messages(n: int) -> Iterator[bytes]:
    message = amqp10.Message(
        header=amqp10.Header(ttl=5, delivery_count=1),
        message_annotations={amqp10.Symbol(f"x-opt-{n}"): n},
        properties=amqp10.Properties(message_id=f"id{n}", to=f"address{n}", subject=f"täxt{n}"),
        application_properties={f"name{n}": f"value{n}", "l": 1.5},
        body=b"b" * 700,
    ).encode()
    many = {f"key{n}": [1, f"value{n}", {"x": 1.25}], **{f"k{i}": i for i in range(300)}}
    value = amqp10.Message(body=amqp10.AmqpValue(many)).encode()
    yield amqp10.Open(container_id=f"container{n}", properties={amqp10.Symbol(f"p{n}"): n}).encode()
    yield amqp10.Attach(
        name=f"link{n}", handle=0, role=False, initial_delivery_count=0,
        source=amqp10.Source(address=f"source{n}"), target=amqp10.Target(address=f"target{n}"),
    ).encode()  # fmt: skip
    yield amqp10.Transfer(handle=0, delivery_id=1, delivery_tag=b"t%d" % n, payload=message).encode()
    yield amqp10.Transfer(handle=0, delivery_id=2, delivery_tag=b"u", more=True, payload=value[:20]).encode()
    yield amqp10.Transfer(handle=0, payload=value[20:]).encode()
    yield amqp10.Transfer(handle=0, delivery_id=3, delivery_tag=b"v", more=True, payload=message).encode()
    two = [
        amqp10.Transfer(handle=handle, delivery_id=3 + handle, delivery_tag=b"w", more=True, payload=message).encode()
        for handle in (1, 2)
    ]
    yield from two
    yield amqp10.End().encode()  # both end with it
    error = amqp10.Error(condition=f"amqp:internal-error{n}", description=f"text{n}")
    yield amqp10.Detach(handle=0, closed=True, error=error).encode()
    yield from two  # both are unfinished when the stream ends


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
    escaped = {"a": f"group\t{n}", "b": f"topic\t{n}", "e\t": "1\n", "i": "TAGS\x01t\x02"}  # of JSON: to be unescaped
    yield rocketmq.RemotingCommand(code=310, opaque=n + 2, remark=f"r\t{n}", ext_fields=escaped, body=b"b").encode()
    large = {"b": "topic\t" * 300, "i": "KEYS\x01" + "k\t" * 600 + "\x02"}  # unescaped, no space for it on the stack
    yield rocketmq.RemotingCommand(code=310, opaque=n + 3, remark="r\t" * 600, ext_fields=large, body=b"b").encode()
    for client in (f"client{n}", f"client\t{n}"):
        heart = rocketmq.HeartbeatData(client_id=client).encode()
        yield rocketmq.RemotingCommand(code=34, opaque=n + 1, body=heart).encode()
    packed, flag = rocketmq.compress(b"b" * 600)
    stored = rocketmq.MessageExt(topic=f"topic{n}", body=packed, sys_flag=flag).encode()
    yield rocketmq.RemotingCommand(code=0, flag=1, opaque=n + 2, body=stored).encode()
    stored = rocketmq.MessageExt(topic=f"topic{n}", body=b"b" * 600, properties={f"name{n}": f"value{n}"}).encode()
    yield rocketmq.RemotingCommand(code=0, flag=1, opaque=n, body=stored * 2).encode()


PROTOCOLS: dict[str, tuple[Any, Callable[[int], Iterator[bytes]], dict[str, Any]]] = {
    "mqtt": (mqtt, mqtt_messages, {"version": 5}), "amqp091": (amqp091, amqp091_messages, {}),
    "amqp10": (amqp10, amqp10_messages, {}), "nsq": (nsq, nsq_messages, {"side": "client"}),
    "phpmq": (phpmq, phpmq_messages, {}), "rocketmq": (rocketmq, rocketmq_messages, {}),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _shared_values_are_full() -> None:
    """The table of values that messages share is full, with kinds of values as they come: a new one takes the place of
    another from now on. A value enters it when it comes for the second time."""
    for n in range(1 << 20, (1 << 20) + 1500):
        for _ in range(2):
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
        repr(amqp10.Assembler().feed(octets))


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
        batch.__arrow_c_array__(), batch.__arrow_c_stream__(), batch.__arrow_c_schema__()
        if pa is not None:
            pa.record_batch(batch), pa.RecordBatchReader.from_stream(batch).read_all()


def encodings(protocol: str, n: int) -> None:
    """Rows encoded, in one go and where a row in the middle cannot be."""
    if pa is None:
        pytest.skip("needs pyarrow (pip install pyarrow)")
    module, messages, options = PROTOCOLS[protocol]
    sides = {"side": "client"} if protocol in ("mqtt", "nsq") else {}
    columns = pa.record_batch(module.decode_batch(b"".join(messages(n)), **options))
    parts = [columns.slice(at, 1) for at in range(len(columns))] + [columns, pa.concat_batches([columns] * 40)]
    for rows in parts:
        for more in ({}, sides, {"strictness": "lax"}):
            try:
                module.encode_batch(rows, **more)
            except REFUSED:
                continue


#: More octets than a writer has on the stack.
LARGE = 3000
KEPT: dict[str, list[tuple[type, dict[str, Any]]]] = {}
BUILT: dict[type, Any] = {}  # large ones, for what they are part of


def large(value: Any, n: int) -> list[Any]:
    """Values in place of one, of which some can be written and others cannot."""
    if isinstance(value, str):
        return ["x" * 250, "x" * LARGE + str(n), "\ud800"]
    if isinstance(value, bytes | memoryview):
        return [b"x" * LARGE, memoryview(b"x" * LARGE)]
    if isinstance(value, tuple) and value:
        return [value * 200, (*value * 200, object())]
    if type(value) in BUILT:
        return [BUILT[type(value)]]
    return [[("k" * 200, "v" * LARGE)], {"k" * 200: "v" * LARGE}, {"k" * LARGE: object()}, "x" * LARGE, b"x" * LARGE]


def constructors(protocol: str, n: int) -> None:
    """Objects of every class, with a large value in a field each, and with all fields that can be large at once."""
    if protocol not in KEPT:
        found: list[tuple[Any, Any]] = [(cls, one) for cls, made in examples(protocol, 2).items() for one in made]
        KEPT[protocol] = [(cls, {name: getattr(one, name) for name in cls.__match_args__}) for cls, one in found]
    for cls, fields in KEPT[protocol]:
        every: dict[str, Any] = {}
        for name, value in fields.items():
            for other in large(value, n):
                try:
                    cls(**fields | {name: other})
                except REFUSED:
                    continue
                every.setdefault(name, other)
        for more in ({}, {name: object() for name in fields}):
            try:
                made = cls(**fields | every | more)
                repr(made), hash(made)
                BUILT[cls] = made
                made.encode()
            except REFUSED:
                continue
    for make in VALUES.get(protocol, ()):
        for value in (
            "x" * LARGE,
            b"x" * LARGE,
            ["v" * LARGE, "w"],
            {"k": "v" * LARGE},
            ["v" * LARGE, 1j],
            {"k": ["v" * LARGE, 1j]},
        ):
            try:
                made = make(value)
                repr(made), hash(made)
                made.encode()
            except REFUSED:
                continue


#: Values that hold others, which messages of the vectors hardly have alone.
VALUES: dict[str, list[Callable[[Any], Any]]] = {
    "rocketmq": [lambda v: rocketmq.RemotingCommand(code=1, ext_fields={f"{k}": v for k in range(300)})],
    "mqtt": [lambda v: mqtt.Publish(topic_name="t", properties=(("user_property", ("k", v)),) * 3)],
    "amqp091": [
        lambda v: amqp091.FieldValue("S", v), lambda v: amqp091.FieldValue("x", v), lambda v: amqp091.FieldValue("F", v),
        lambda v: amqp091.FieldValue("A", v), lambda v: amqp091.FieldArray([v]), lambda v: amqp091.FieldTable({"k": v}),
    ],
    "amqp10": [
        amqp10.List, amqp10.Map, lambda v: amqp10.List([v]), lambda v: amqp10.Map({"k": v}), amqp10.encode_value,
        lambda v: amqp10.Array("string", [v, v]), lambda v: amqp10.Array("symbol", v), lambda v: amqp10.Array("list", [v]),
        lambda v: amqp10.Array("string", [v, 5]), lambda v: amqp10.Array.repeat(None, 5),
        lambda v: amqp10.Array.repeat(v, 5), lambda v: amqp10.Described(amqp10.ULong(5), v), amqp10.Data, amqp10.AmqpValue,
        lambda v: amqp10.Open(container_id="c", offered_capabilities=[amqp10.Symbol(w) for w in v]),
        lambda v: amqp10.Open(container_id="c", offered_capabilities=[*v, None]),  # type: ignore[list-item]
        lambda v: amqp10.AmqpSequence([v]),
        lambda v: amqp10.Open(container_id="c", properties={amqp10.Symbol("k"): v}),
        lambda v: amqp10.Message(application_properties={"k": v}, body=v), lambda v: amqp10.Message(footer={"k": v}),  # type: ignore[call-arg]
    ],
}  # fmt: skip
STRUCTS = ("mqtt", "nsq", "phpmq", "rocketmq")


def answers(protocol: str, n: int) -> bytes:
    """What the server says: of most protocols the same that a client may say."""
    if protocol == "mqtt":
        publish = mqtt.Publish(topic_name=f"to/{n}", payload=b"p" * 100, properties=(("topic_alias", 1 + n % 9),))
        again = mqtt.Publish(topic_name="", payload=b"p", properties=(("topic_alias", 1 + n % 9),))
        other = mqtt.Publish(topic_name=f"other/{n}", payload=b"p", properties=(("topic_alias", 1 + n % 9),))
        properties = (("assigned_client_identifier", f"assigned{n}"), ("topic_alias_maximum", 9))
        return mqtt.Connack(properties=properties).encode() + b"".join(p.encode() for p in (publish, again, other))
    if protocol == "nsq":
        held = nsq.MessageFrame(timestamp=n, attempts=1, message_id=b"%016d" % n, body=b"b" * 500)
        frames = (nsq.Response(b"OK"), nsq.Error(b"E_BAD_TOPIC text%d" % n), held, nsq.Response(b"_heartbeat_"))
        return b"".join(frame.encode() for frame in frames)
    if protocol == "phpmq":
        return phpmq.MessageServerToClient(queue_name=f"q{n}", message_id=f"id{n}", content=b"c" * 600, ttl=n).encode()
    return opening(protocol, Case(b"", 0)) + b"".join(PROTOCOLS[protocol][1](n))


def captures(protocol: str, n: int) -> None:
    """A connection whose last messages are cut, and one with a lost packet on each side."""
    _, messages, _ = PROTOCOLS[protocol]
    said = (opening(protocol, Case(b"", 0, 5)) + b"".join([*messages(n), *messages(n)])[:-3], answers(protocol, n)[:-1])
    frames = []
    for number, lost in enumerate((None, 2)):
        tcp = Tcp(PORTS[protocol], client_port=30000 + number)
        frames += tcp.open()
        for side, octets in enumerate(said):
            frames += [f for i, f in enumerate(tcp.send(side, octets, 400)) if i != lost]
        frames += tcp.close()
    frames += frames[-8:-4]
    data = pcap(frames)
    for columns in (None, ["kind", "payload"]):
        decoder = CaptureDecoder(
            columns=columns, decode_as=f"tcp.port=={PORTS[protocol]},{protocol}", raw=True, detail=columns is None
        )
        decoder.begin_file("x", 0)
        assert decoder.feed(data) == len(data)
        decoder.end_file()
        decoder.finish()
        batch = decoder.take(final=True)
        assert batch is not None
        assert batch.num_rows > 5
    unfinished = CaptureDecoder()
    unfinished.begin_file("x", 0)
    unfinished.feed(data[: len(data) // 2])


@pytest.mark.parametrize(
    "way", [objects, streams, batches, captures, encodings, constructors], ids=lambda way: way.__name__
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_left(protocol: str, way: Callable[[str, int], None]) -> None:
    octets, blocks, references = grown(lambda n: way(protocol, n))
    assert octets < 8, f"{octets} octets of malloc a round"
    assert blocks < 0.5, f"{blocks} blocks of Python a round"
    assert references < 0.5, f"{references} references to None a round"


def fed(data: bytes, **options: Any) -> CaptureDecoder:
    """A decoder with rows left in it, which is then forgotten."""
    decoder = CaptureDecoder(**options)
    decoder.begin_file("x", 0)
    decoder.feed(data)
    return decoder


def captures_in_disorder(n: int) -> None:
    """What a decoder keeps of packets that come late, in pieces, or before it is known what they are."""
    tcp = Tcp(1883, client_port=20000 + n % 1000)
    large = mqtt.Publish(topic_name="t", payload=bytes(9000), version=4).encode()
    said = [mqtt.Connect(client_identifier=f"c{n}", version=4).encode() + large, large]
    opened, client, server = tcp.open(), tcp.send(0, said[0], 700), tcp.send(1, said[1], 700)
    closed = [tcp.segment(side, flags=RST, advance=False) for side in (0, 1)]
    orders = [
        [*opened, *client, *server, *closed],
        [*opened, *client[1:], *server[1:], *closed],  # the first of each side is lost, the others wait for it
        [*opened, *client[1:], *server[1:]],
        [client[3], server[3], client[1], server[1], client[5], server[5]],  # without a SYN, the earlier ones later
        [client[3], server[3], client[1], server[1], *closed],
        [*opened, *client[3::2], *client[4::2], *server[3::2], *server[4::2]],
    ]
    amqp = Tcp(5672, client_port=20000 + n % 1000)  # of two protocols; it is not known which
    begun = [amqp.segment(side, bytes(40)) for side in (0, 1)]
    frames = amqp.send(0, b"".join(amqp091_messages(n)), 100)
    orders += [begun, [*begun, *frames], [*begun, *frames, amqp.segment(1, flags=RST)]]
    fragments = [ethernet(0x0800, part) for part in fragments4(tcp_segment(bytes(90)), 32)[:-1]]
    orders.append([*fragments, *opened])
    for order in orders:
        data = pcap(order)
        for limits in ({}, {"max_flows": 1}, {"max_buffered": 3000}):
            decoder = fed(data, limits=limits)
            if not limits:  # another file, and the end
                decoder.end_file()
                decoder.begin_file("y", 1)
                decoder.feed(data)
                decoder.end_file()
                decoder.finish()
                decoder.take(final=True)
        fed(data, batch_rows=1), fed(data, batch_rows=1, flows="across-files")  # more than a batch waits
    header = struct.pack("<HHI", 1, 0, 0)
    described = struct.pack("<II", 1, 20) + header + struct.pack("<I", 20)
    blocks = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28) + described * 9
    fed(blocks), PcapReader().feed(blocks)
    data = pcap(orders[0])
    find_record(data[:24], data[24:], 24, True, 30)


def many_flows(n: int) -> None:
    """More than the first table of flows has space for."""
    syns = [Tcp(1883, client_port=port).segment(0, flags=SYN) for port in range(1024, 2500)]
    fed(pcap(syns, first=n))


def dispatched(n: int) -> None:
    """Chunks that cut records, fragments, an error of the source; shares that are taken, and shares that nobody takes."""
    frames = [ethernet(0x0800, part) for part in fragments4(tcp_segment(bytes(90)), 32)]
    for port in range(3):
        tcp = Tcp(1883, client_port=20000 + n % 1000 + port)
        frames += tcp.open() + tcp.send(0, mqtt.Connect(client_identifier=f"c{n}", version=4).encode())
    data = pcap(frames * 30)[:-9]
    decoders = [CaptureDecoder(), CaptureDecoder()]
    dispatcher = Dispatcher(Options(threads=2))
    for number in range(3):
        dispatcher.begin_file(number)
        for decoder in decoders:
            decoder.begin_file("x", number)
        found = [dispatcher.dispatch(data[at : at + 2000]) for at in range(0, len(data), 2000)]
        for shares in [*found, dispatcher.end_file("an error")][: 3 * number]:
            for decoder, part in zip(decoders, shares, strict=True):
                assert decoder.feed_share(part)


def requests_of_rocketmq(n: int) -> None:
    """More requests at a time than a connection has space for at first, with long names; some are never answered."""
    commands = [
        rocketmq.RemotingCommand(code=15, opaque=i, ext_fields={"topic": f"T{n}" * 20, "consumerGroup": "g" * 90})
        for i in range(100)
    ]
    answers = [rocketmq.RemotingCommand(code=0, flag=1, opaque=i) for i in range(100)]
    for answered in (100, 60):
        tcp = Tcp(10911)
        frames = tcp.open() + tcp.send(0, b"".join(c.encode() for c in commands))
        fed(pcap(frames + tcp.send(1, b"".join(a.encode() for a in answers[:answered]))))


@pytest.mark.parametrize(
    ("action", "rounds"),
    [(captures_in_disorder, 20), (many_flows, 4), (dispatched, 20), (requests_of_rocketmq, 20)],
    ids=["captures-20", "many-flows-4", "dispatched-20", "requests-of-rocketmq-20"],
)
def test_nothing_is_left_of_captures_in_disorder(action: Callable[[int], None], rounds: int) -> None:
    octets, blocks, references = grown(action, rounds, rounds)
    assert (octets < 8, blocks < 0.5, references < 0.5) == (True, True, True), (octets, blocks, references)


def test_nothing_is_left_of_searches() -> None:
    def action(n: int) -> None:
        for names, options in ((["mqtt"], {}), (["mqtt", "nsq"], {}), (["mqtt"], {"websocket": True})):
            search = BoundarySearch(*names, **options)
            for _ in range(40):
                search.packet(b"\1" * 90)
                search.packet(b"\x30\x7f\0\1a")

    octets, blocks, references = grown(action)
    assert (octets < 8, blocks < 0.5, references < 0.5) == (True, True, True), (octets, blocks, references)


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
    octets, blocks, references = grown(conversions, 400)  # its kinds of values are in every slot of what is shared
    assert (octets < 8, blocks < 0.5, references < 0.5) == (True, True, True), (octets, blocks, references)


def large_conversions(n: int) -> None:
    """More entries, texts and octets than a conversion has space for on the stack."""
    many = {f"name{i}": f"value{i}" * 20 for i in range(150)}
    message = amqp10.Message(
        properties=amqp10.Properties(
            message_id=uuid.UUID(int=n), to=f"/exchanges/x{n}/" + "k%2E" * 60, user_id=b"u" * 900
        ),
        message_annotations={amqp10.Symbol(f"x-opt-{i}"): "v" * 90 for i in range(60)},
        application_properties=many | {"l": None, "u": uuid.UUID(int=n), "s": amqp10.Symbol("s" * 3000), "name1": 1},
        body=amqp10.AmqpValue([many, {"k": [1, 2.5, amqp10.Decimal128(bytes(16))]}, f"text{n}" * 300]),
    )
    headers = [
        *((f"name{i}", ["v" * 90, {"k": i}]) for i in range(100)),
        ("x-long", "v" * 4000),
        (f"n{n}", b"\xff" * 2000),
    ]
    content = amqp091.BasicMessage(
        amqp091.BasicPublish(channel=1, routing_key="k"),
        amqp091.BasicProperties(headers=[*headers, *headers], message_id="i" * 250, correlation_id="c" * 250),
        b"b" * 300_000,
    )
    properties = [("user_property", (f"name{i}", "v" * 90)) for i in range(150)]
    packet = mqtt.Publish(
        topic_name="a/b" * 300, payload=b"p" * 3000, properties=properties, qos=1, packet_identifier=3
    )
    for source in (message, content, packet):
        for to in ("amqp10", "amqp091", "mqtt5"):
            for dialect in ("documented", "rabbitmq-4.3"):
                for explain in (False, True):
                    try:
                        made = convert.convert(
                            source,
                            to=to,
                            dialect=dialect,
                            routing_key="k" * 200,
                            explain=explain,
                        )
                    except WireError:
                        continue
                    repr(made.losses), repr(made.wire)
                    made.wire.frames()
                    try:
                        container = convert.Container(
                            made.wire, exchange="x", routing_key="k", dialect=dialect, now_ms=n
                        )
                        container.deliver(to, delivery_count=2)
                        container.dead_lettered("q", "expired", exchange="", now_ms=1).deliver("amqp091")
                        convert.Container.from_stream_entry(container.stream_entry(), offset=7, dialect=dialect)
                    except WireError:
                        pass
    wires = [convert.convert(one, to="amqp10", routing_key="k").wire for one in (content, packet)]
    parts = [*(wire.octets for wire in wires), content.encode(), packet.encode(), content.encode()[:-9]]
    offsets: Any = np.cumsum([0, *map(len, parts)], dtype=np.int32)
    keys: Any = np.arange(6, dtype=np.int32)
    for target in range(3):
        rules = dialects.compile_tables(
            dialects.tables_of(convert.DIALECTS["documented"]), convert.DIALECTS["documented"]
        )
        columns = convert_rows(rules, target, bytes((0, 0, 1, 2, 1)), offsets, b"".join(parts), keys, b"kkkkk")
        for name in ("raw", "rule", "error"):
            columns[name]
    convert.Wire.from_frames(content.encode())
    for written in (b"\x26\0\1\xff\0\1\xfe\x13\0\x3c", b"\x0b\1\x0b\2"):  # ill-formed UTF-8, what STRICT refuses
        rest = b"\0\1t\0\7" + bytes([len(written)]) + written
        neither: tuple[convert.Protocol, ...] = ("amqp10", "amqp091")
        for to in neither:  # losses of what is in neither the source nor the result
            made = convert.convert(
                bytes([0x3D, len(rest)]) + rest, source="mqtt5", to=to, dialect="rabbitmq-3.13", explain=True
            )
            repr(made.losses)


def test_nothing_is_left_of_large_conversions() -> None:
    octets, blocks, references = grown(large_conversions, 3, rounds=4)
    assert (octets < 8, blocks < 0.8, references < 0.8) == (True, True, True), (octets, blocks, references)


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
        mqtt.Publish(topic_name="a" * 50, payload=b"", version=4),
    ):
        octets = message.encode()
        topic = checked(mqtt.decode(octets, version=message.version), mqtt.Publish).topic_name
        before = sys.getrefcount(topic)
        for _ in range(100):
            checked(mqtt.decode(octets, version=message.version), mqtt.Publish).topic_name  # noqa: B018
        assert sys.getrefcount(topic) == before


def test_what_comes_once_is_not_held() -> None:
    """A topic that was read once has no other owner than its reader; read twice, the table has it."""

    for i in range(20):
        octets = mqtt.Publish(topic_name=f"once/{i}").encode()
        once = checked(mqtt.decode(octets, version=5), mqtt.Publish).topic_name
        alone = f"{once}!"
        assert sys.getrefcount(once) == sys.getrefcount(alone)
        twice = checked(mqtt.decode(octets, version=5), mqtt.Publish).topic_name
        if not hasattr(sys, "_is_gil_enabled") or sys._is_gil_enabled():
            assert sys.getrefcount(twice) == sys.getrefcount(alone) + 1


@pytest.mark.skipif(
    hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled(), reason="nothing is shared without a GIL"
)
@pytest.mark.parametrize("size", [1, 2, 49, 50, 51, 300])
def test_what_streams_repeat_is_one_object(size: int) -> None:
    """Values of up to 50 octets, from the second time on; longer ones are made anew."""
    word = f"w{size}".ljust(size, "x")[:size]
    symbol = amqp10.Symbol(word)
    cases: tuple[tuple[bytes, Callable[[bytes], Any]], ...] = (
        (
            mqtt.Publish(topic_name=word, payload=b"").encode(),
            lambda o: checked(mqtt.decode(o, version=5), mqtt.Publish).topic_name,
        ),
        (
            amqp091.BasicPublish(channel=1, exchange=word[:200]).encode(),
            lambda o: checked(amqp091.decode(o), amqp091.BasicPublish).exchange,
        ),
        (amqp10.encode_value(symbol), lambda o: amqp10.decode_value(o + b"")),
        (amqp10.encode_value([symbol]), lambda o: amqp10.decode_value(o)[0]),
        (amqp10.encode_value([word]), lambda o: amqp10.decode_value(o)[0]),
    )
    for octets, read in cases:
        first, one, other = read(octets), read(octets), read(bytes(bytearray(octets)))
        assert first == one == other
        assert (one is other) == (size <= 50), (type(one), size)


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Whatever takes octets: of every protocol, and of captures."""
    for protocol, (module, _, options) in PROTOCOLS.items():
        yield f"{protocol}.decode", lambda b, m=module, o=options: m.decode(b, **o)
        yield f"{protocol}.decode_batch", lambda b, m=module, o=options: m.decode_batch(b, **o)
        yield f"{protocol}.feed", lambda b, m=module, o=options: m.Decoder(**o).feed(b)
        yield f"{protocol}.frame_size", lambda b, m=module: m.frame_size(b)
    yield "amqp10.decode_value", amqp10.decode_value
    yield "amqp10.decode_message", amqp10.decode_message
    yield "amqp10.Transfer", lambda b: amqp10.Transfer(handle=0, payload=b)
    yield "amqp091.FieldTable.decode", amqp091.FieldTable.decode
    yield "amqp091.BasicProperties.decode", amqp091.BasicProperties.decode
    yield "amqp091.Body", lambda b: amqp091.Body(channel=1, payload=b)
    yield "amqp091.FieldValue", lambda b: amqp091.FieldTable({"k": amqp091.FieldValue("S", b), "l": b})
    yield "mqtt.Publish", lambda b: mqtt.Publish(topic_name="a", payload=b, properties=(("correlation_data", b),))
    yield "mqtt.validate_topic_name", mqtt.validate_topic_name
    yield "nsq.Publish", lambda b: nsq.Publish(topic="a", body=b)
    yield "phpmq.MessageClientToServer", lambda b: phpmq.MessageClientToServer(queue_name="q", content=b, ttl=1)
    for name in ("decode_messages", "decode_batch_messages", "decode_properties", "decode_json", "compress"):
        yield f"rocketmq.{name}", getattr(rocketmq, name)
    yield "rocketmq.RemotingCommand", lambda b: rocketmq.RemotingCommand(code=1, body=b)
    yield "convert", lambda b: convert.convert(b, source="mqtt5", to="amqp10")
    yield "convert, two", lambda b: convert.convert(convert.Wire("amqp091", b, b), to="amqp10")
    yield "Wire.from_frames", convert.Wire.from_frames
    yield "CaptureDecoder.feed", fed_capture
    yield "feed_segments", lambda b: CaptureDecoder().feed_segments(b)
    yield "PcapReader", lambda b: PcapReader().feed(b)


def fed_capture(octets: Any) -> None:
    decoder = CaptureDecoder()
    decoder.begin_file("x", 0)
    decoder.feed(octets)
    decoder.end_file()


CALLS = dict(public_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_call_holds_a_buffer(name: str) -> None:
    """A bytearray can grow again, whether or not its octets were good."""
    for octets in (
        b"",
        b"\0",
        *mqtt_messages(1),
        *amqp10_messages(1),
        *amqp091_messages(1),
        *rocketmq_messages(1),
        b"\xff" * 70,
    ):
        data = bytearray(octets)
        try:
            CALLS[name](data)
        except REFUSED:
            pass
        data += b"more"
        view = memoryview(bytearray(octets))[:: 1 if len(octets) < 2 else 2]
        try:
            CALLS[name](view)
        except (*REFUSED, BufferError):
            pass
        view.release()
        whole = memoryview(bytes(octets))  # of bytes: read where they are
        try:
            CALLS[name](whole)
        except REFUSED:
            pass
        whole.release()
