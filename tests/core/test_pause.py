"""A Decoder stops between two messages, and hands over what follows: for each protocol."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.errors import DecodeError

PUBLISHES = [mqtt.Publish(topic_name="t", payload=b"x" * n).encode() for n in (0, 5, 300, 1)]
METHODS = [amqp091.ChannelOpen(channel=n).encode() for n in (1, 2, 3)]
OPENS = [amqp10.ProtocolHeader().encode()] + [amqp10.Open(container_id="c" * n).encode() for n in (1, 50)]
COMMANDS = [rocketmq.RemotingCommand(code=1, opaque=n, body=b"x" * n).encode() for n in (0, 1, 900)]
RESPONSES = [nsq.Response(b"OK").encode(), nsq.Response(b"x" * 500).encode(), nsq.Response(b"CLOSE_WAIT").encode()]
CONSUMES = [phpmq.ConsumeRequest(queue_name="q" * n, message_count=5).encode() for n in (1, 60, 2)]

#: What makes a decoder, and messages for it, as bytes.
STREAMS: dict[str, tuple[Callable[[], Any], list[bytes]]] = {
    "mqtt": (lambda: mqtt.Decoder(version=5), PUBLISHES),
    "amqp091": (lambda: amqp091.Decoder(), METHODS),
    "amqp091 assembled": (lambda: amqp091.Assembler(), METHODS),
    "amqp10": (lambda: amqp10.Decoder(), OPENS),
    "rocketmq": (lambda: rocketmq.Decoder(), COMMANDS),
    "nsq": (lambda: nsq.Decoder(side="server"), RESPONSES),
    "phpmq": (lambda: phpmq.Decoder(), CONSUMES),
}
each = pytest.mark.parametrize(("make", "messages"), STREAMS.values(), ids=STREAMS)


@each
def test_count_stops_after_so_many_messages(make: Callable[[], Any], messages: list[bytes]) -> None:
    whole = make().feed(b"".join(messages))
    assert len(whole) == len(messages)
    decoder = make()
    data = b"".join(messages)
    assert decoder.feed(data, 0) == []
    assert decoder.unread == len(data)
    assert decoder.feed(b"", 1) == whole[:1]
    assert decoder.unread == len(data) - len(messages[0])
    assert decoder.offset == len(messages[0])
    with pytest.raises(ValueError, match="unread"):
        decoder.close()
    assert decoder.feed(b"", 2) == whole[1:3]
    assert decoder.feed(b"") == whole[3:]
    assert decoder.unread == 0
    decoder.close()


@each
@pytest.mark.parametrize("seed", range(30))
def test_pieces_and_counts_of_any_size_give_the_same_messages(
    make: Callable[[], Any], messages: list[bytes], seed: int
) -> None:
    random_ = random.Random(seed)
    data = b"".join(messages)
    whole = make().feed(data)
    decoder, out, at = make(), [], 0
    while at < len(data) or decoder.unread:
        size = random_.choice((0, 1, 2, 7, 100, 1000))
        count = random_.choice((None, 0, 1, 2))
        got = decoder.feed(data[at : at + size], count)
        assert count is None or len(got) <= count
        at = min(at + size, len(data))
        out += got
        assert decoder.offset + decoder.pending + decoder.unread == at
    assert out == whole
    decoder.close()


@each
def test_rest_hands_over_what_follows(make: Callable[[], Any], messages: list[bytes]) -> None:
    data, tail = b"".join(messages), b"\x16\x03\x01 not of this protocol"
    decoder = make()
    first = decoder.feed(messages[0][:-1], 1)
    assert first == []
    assert len(decoder.feed(data[len(messages[0]) - 1 :] + tail, len(messages))) == len(messages)
    assert decoder.unread == len(tail)
    assert decoder.rest() == tail
    assert (decoder.rest(), decoder.unread, decoder.pending) == (b"", 0, 0)
    decoder.close()


@each
def test_rest_has_the_bytes_of_an_unfinished_frame_too(make: Callable[[], Any], messages: list[bytes]) -> None:
    for cut in range(1, min(len(messages[1]), 40)):
        decoder = make()
        decoder.feed(messages[0] + messages[1][:cut])
        assert decoder.pending == cut
        decoder.feed(messages[1][cut:], 0)
        assert decoder.rest() == messages[1]
        assert len(decoder.feed(messages[1])) == 1


@each
def test_a_fault_behind_the_count_is_not_met(make: Callable[[], Any], messages: list[bytes]) -> None:
    bad = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
    decoder = make()
    assert len(decoder.feed(messages[0] + bad, 1)) == 1
    with pytest.raises(DecodeError) as fault:
        decoder.feed(b"")
    assert fault.value.messages == ()
    assert fault.value.offset >= len(messages[0])
    with pytest.raises(DecodeError):
        decoder.feed(b"")
    with pytest.raises(ValueError, match="count"):
        make().feed(b"", -1)


def test_messages_read_one_at_a_time_share_the_block() -> None:
    decoder = mqtt.Decoder(version=5)
    block = b"".join(PUBLISHES) * 100
    decoder.feed(block, 0)
    messages = []
    while decoder.unread:
        messages += decoder.feed(b"", 1)
    assert len(messages) == 400
    before = sys.getrefcount(block)
    del messages
    assert sys.getrefcount(block) == before - 400
