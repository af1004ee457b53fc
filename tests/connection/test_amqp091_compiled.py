"""What is compiled of an AMQP 0.9.1 connection, against models written here."""

from __future__ import annotations

import gc
import random
from collections import OrderedDict
from typing import Any

import pytest

from lib.amqp091_channel import client_channel
from lib.amqp091_driven import Pair, octets, proceeded, server_in
from wirefmt import amqp091
from wirefmt.amqp091._codec import Tags
from wirefmt.amqp091.states import State
from wirefmt.errors import LocalProtocolError

OPTIONS = amqp091.ConnectionOptions


def frames(data: bytes) -> list[Any]:
    return amqp091.Assembler(frame_max=0).feed(data)


@pytest.mark.parametrize("seed", range(30))
def test_tags_are_an_ordered_dict(seed: int) -> None:
    random_ = random.Random(seed)
    tags: Tags[Any] = Tags()
    model: OrderedDict[int, Any] = OrderedDict()
    number = 0
    for _ in range(600):
        match random_.randrange(8):
            case 0 | 1 | 2 | 3:
                number += random_.choice((1, 1, 1, 2, 1 << 33))
                record = random_.choice((None, object()))
                tags.add(number, record)
                model[number] = record
            case 4 | 5 if model:
                tag = random_.choice((*model, *range(3)))
                assert tags.get(tag) is model.get(tag)
                if tag in model:
                    assert tags.pop(tag) is model.pop(tag)
            case 6 if random_.random() < 0.3:
                tag = random_.choice((*model, number, 0))
                assert tags.settle_up_to(tag) == [model.pop(k) for k in list(model) if k <= tag]
            case 7 if random_.random() < 0.03:
                tags.clear()
                model.clear()
        assert len(tags) == len(model)
        assert tags.values() == list(model.values())
        for tag in (*list(model)[:3], number, number + 1, 0, -1, 1 << 70, None):
            assert (tag in tags) is (tag in model)
    with pytest.raises(KeyError):
        tags.pop(number + 1)
    tags.add(number + 1, None)
    with pytest.raises(ValueError, match="is not above"):
        tags.add(number + 1, None)


def test_a_number_that_never_leaves_costs_no_memory_for_others() -> None:
    tags: Tags[Any] = Tags()
    tags.add(1, "stays")
    for number in range(2, 20_000):
        tags.add(number, "goes")
        assert tags.pop(number) == "goes"
    (records,) = (held for held in gc.get_referents(tags) if isinstance(held, list))
    assert len(records) < 100
    assert tags.values() == ["stays"]


@pytest.mark.parametrize("seed", range(30))
def test_acks_of_a_turn_name_what_was_acknowledged_and_nothing_else(seed: int) -> None:
    """1.8.3.13: `multiple` acknowledges everything up to the tag that is outstanding."""
    random_ = random.Random(seed)
    client, channel = client_channel()
    channel.consume("q", "c")
    client.receive(octets("basic.consume-ok", consumer_tag="c"), 0.0)
    client.data_to_send()
    outstanding: list[int] = []
    tag = 0
    for _ in range(20):
        for _ in range(random_.randrange(12)):
            tag += 1
            outstanding.append(tag)
            client.receive(
                amqp091.BasicMessage(
                    amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=tag, exchange="", routing_key="q")
                ).encode(),
                0.0,
            )
        settled = random_.sample(outstanding, random_.randrange(len(outstanding) + 1))
        for each in settled:
            channel.ack(each)
        with pytest.raises(LocalProtocolError):
            channel.ack(tag + 1)
        said = frames(client.data_to_send())
        named = set()
        left = list(outstanding)
        for ack in said:
            assert isinstance(ack, amqp091.BasicAck)
            taken = [t for t in left if t == ack.delivery_tag or (ack.multiple and t < ack.delivery_tag)]
            assert ack.delivery_tag in taken
            named.update(taken)
            left = [t for t in left if t not in named]
        assert named == set(settled)
        outstanding = left
        assert channel.unacknowledged == len(outstanding)


@pytest.mark.parametrize("tag", [1, 1 << 32, (1 << 33) + 5, (1 << 64) - 1])
def test_a_large_delivery_tag_is_written_whole(tag: int) -> None:
    """1.1: a delivery tag has 64 bits."""
    client, channel = client_channel()
    channel.consume("q", "c")
    client.receive(octets("basic.consume-ok", consumer_tag="c"), 0.0)
    client.data_to_send()
    deliver = amqp091.BasicDeliver(channel=1, consumer_tag="c", delivery_tag=tag, exchange="", routing_key="q")
    client.receive(amqp091.BasicMessage(deliver).encode(), 0.0)
    channel.ack(tag)
    assert client.data_to_send() == amqp091.BasicAck(channel=1, delivery_tag=tag).encode()


def test_what_is_published_and_delivered_is_what_was_given() -> None:
    """Methods are kept from one message to the next: a change of any argument shows."""
    random_ = random.Random(1)
    pair = Pair()
    channel, server = pair.channel(1)
    for tag in ("c", "é"):
        pair.call(channel.consume("q", tag, no_ack=True))
    keys = ("", "a", "a.b", "ключ", b"\xff")
    sent = []
    for _ in range(300):
        exchange, key = random_.choice(keys), random_.choice(keys)
        body = random_.randbytes(random_.choice((0, 1, 300, 2000, 2048, 5000)))
        properties = random_.choice(
            (None, amqp091.BasicProperties(), amqp091.BasicProperties(type="t", headers={"a": 1}))
        )
        flag, consumer = random_.random() < 0.5, random_.choice(("c", "é"))
        channel.publish(exchange, key, body, properties, mandatory=flag)
        server.deliver(consumer, exchange, key, body, properties, redelivered=flag)
        sent.append((exchange, key, body, properties or amqp091.BasicProperties(), flag, consumer))
    delivered, published = pair.run()
    assert [
        (m.method.exchange, m.method.routing_key, m.body_bytes(), m.properties, m.method.mandatory) for m in published
    ] == [one[:5] for one in sent]
    assert [
        (
            m.method.exchange,
            m.method.routing_key,
            m.body_bytes(),
            m.properties,
            m.method.redelivered,
            m.method.consumer_tag,
        )
        for m in delivered
    ] == sent
    assert [m.method.delivery_tag for m in delivered] == list(range(1, 301))


@pytest.mark.parametrize("size", [4088, 4089, 20_000])
def test_a_large_body_is_cut_and_not_copied(size: int) -> None:
    client, channel = client_channel()
    client.frame_max = 4096
    channel.confirm_select()
    client.data_to_send()
    body = bytes(range(256)) * 79
    body = body[:size]
    handle = channel.publish("e", "k", body, amqp091.BasicProperties(type="t"))
    buffers = client.buffers_to_send()
    method = amqp091.BasicPublish(channel=1, exchange="e", routing_key="k")
    message = amqp091.BasicMessage(method, amqp091.BasicProperties(type="t"), body, frame_max=4096)
    assert b"".join(buffers) == message.encode()
    assert all(frame[3:7] == (len(frame) - 8).to_bytes(4) for frame in map(bytes, amqp091_frames(b"".join(buffers))))
    assert sum(len(b) for b in buffers if b is body or (isinstance(b, memoryview) and b.obj is body)) > size - 2048
    assert handle.message == message
    assert handle.message.body_sizes == message.body_sizes


def amqp091_frames(data: bytes) -> list[bytes]:
    return [frame.encode() for frame in amqp091.Decoder(frame_max=4096).feed(data)]


def test_a_content_header_above_frame_max_is_refused() -> None:
    """4.2.3: a peer must not send frames larger than the size agreed on."""
    client, channel = client_channel()
    client.frame_max = 4096
    channel.confirm_select()
    client.data_to_send()
    with pytest.raises(LocalProtocolError):
        channel.publish("e", "k", b"", amqp091.BasicProperties(headers={"x": "y" * 5000}))
    assert client.data_to_send() == b""
    assert channel.unconfirmed == 0
    assert not client.session.outgoing


def test_a_handle_has_its_message() -> None:
    client, channel = client_channel()
    channel.confirm_select()
    body = bytearray(b"one")
    first = channel.publish("e", "k", body)
    body[:] = b"two"
    assert first.message.body_bytes() == b"one"
    assert first.message is first.message
    given = amqp091.BasicMessage(amqp091.BasicPublish(channel=1, exchange="e", routing_key="k"), None, b"x")
    assert channel.publish_message(given).message is given
    for wrong in ("text", 5, None):
        with pytest.raises(LocalProtocolError):
            channel.publish("e", "k", wrong)
        with pytest.raises(LocalProtocolError):
            channel.publish("e", "k", b"", 5)
    assert client.session.outgoing == {1: first, 2: client.session.outgoing[2]}


def test_a_fault_on_one_channel_leaves_the_messages_of_others() -> None:
    server = server_in(State.OPEN)
    server.receive(octets("channel.open", 1) + octets("channel.open", 2), 0.0)
    message = amqp091.BasicMessage(amqp091.BasicPublish(channel=1, exchange="", routing_key="q"), None, b"b").encode()
    other = amqp091.BasicMessage(amqp091.BasicPublish(channel=2, exchange="", routing_key="q"), None, b"b").encode()
    unknown = octets("basic.ack", 1, delivery_tag=9)
    events = proceeded(server, server.receive(message + other + unknown + message + other, 0.0))
    assert [getattr(e, "channel", None) for e in events] == [1, 2, 1, 2]
    closed = events[2]
    assert isinstance(closed, amqp091.ChannelClosed)
    assert closed.code == 406
