"""Faults count messages: the frames in the bytes of a connection are found for every split into chunks."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.loopback import HOST, PATIENCE, run, until
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker.faults.frames import HELD_BYTES, FrameSplitter
from wirefmt.broker.faults.protocols import PROTOCOLS
from wirefmt.broker.thread import Running
from wirefmt.connection import aio

#: 3.1.1, client identifier "c"; and its answer.
CONNECT, CONNACK = bytes.fromhex("100d00044d51545404020000000163"), bytes.fromhex("20020000")


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Broker, aio.Driver]]:
    """An MQTT broker with one client, and the driver of its connection, which accepts chunks of any size."""
    async with Broker(ports={"mqtt": 0}) as b:
        reader, writer = await asyncio.open_connection(HOST, b.port("mqtt"))
        writer.write(CONNECT)
        assert await reader.readexactly(4) == CONNACK
        (driver,) = b.servers["mqtt"].drivers
        yield b, driver
        writer.close()


#: A payload that looks like the beginnings of PUBLISH packets with 16,383 bytes.
MISLEADING = b"\x30\xff\x7f" * 20_000


def mqtt_publish(payload: bytes) -> bytes:
    return mqtt.Publish(topic_name="t", payload=payload, version=4).encode()


#: Whole frames of a client, of each protocol.
FRAMES = {
    "mqtt": [mqtt.Pingreq().encode(), mqtt_publish(b""), mqtt_publish(MISLEADING[:300])],
    "amqp": [b"AMQP\0\0\x09\x01", amqp091.ConnectionOpen(virtual_host="/").encode(), amqp091.Heartbeat().encode()],
    "amqp10": [b"AMQP\0\1\0\0", amqp10.Open(container_id="c").encode(), amqp10.End().encode()],
    "nsq": [nsq.Nop().encode(), nsq.Publish(topic="t", body=MISLEADING[:300]).encode()],
    "rocketmq": [rocketmq.RemotingCommand(code=105, opaque=1, ext_fields={"topic": "T"}, body=b"x").encode()],
    "phpmq": [phpmq.MessageClientToServer(queue_name="list", content=MISLEADING[:300], ttl=0).encode()],
}


@pytest.mark.parametrize("protocol", FRAMES)
@given(data=st.data())
def test_a_stream_is_split_where_frames_end(protocol: str, data: st.DataObject) -> None:
    """For every split no byte is lost, and each frame ends a piece. An incomplete frame is passed on without its end."""
    frames = data.draw(st.lists(st.sampled_from(FRAMES[protocol]), max_size=8))
    stream = b"".join(frames)
    end = data.draw(st.integers(0, len(stream)))
    cuts = sorted(data.draw(st.lists(st.integers(0, end), max_size=12)))
    splitter = FrameSplitter(lambda buffer: PROTOCOLS[protocol].size(buffer, "client"))
    pieces: list[bytes] = []
    for at, after in pairwise([0, *cuts, end]):
        pieces += splitter.split(stream[at:after])
    rest = splitter.rest()
    assert b"".join(pieces) + rest == stream[:end]
    assert b"" not in pieces
    ends = set(accumulate(map(len, pieces)))
    assert {at for at in accumulate(map(len, frames)) if at <= end} <= ends
    assert not splitter.lost
    if protocol != "phpmq":  # its frames consist of parts with sizes
        assert len(rest) < 12  # a header


@pytest.mark.parametrize("protocol", FRAMES)
@given(chunks=st.lists(st.binary(max_size=64), max_size=12))
def test_a_stream_of_anything_loses_no_byte(protocol: str, chunks: list[bytes]) -> None:
    splitter = FrameSplitter(lambda buffer: PROTOCOLS[protocol].size(buffer, "client"))
    pieces = [piece for chunk in chunks for piece in splitter.split(chunk)]
    assert b"".join(pieces) + splitter.rest() == b"".join(chunks)


def test_a_frame_that_is_too_long_to_hold_is_passed_on() -> None:
    """The content of a PHPMQ message hides where the message ends."""
    whole = phpmq.MessageClientToServer(queue_name="list", content=bytes(HELD_BYTES), ttl=0).encode()
    splitter = FrameSplitter(lambda buffer: PROTOCOLS["phpmq"].size(buffer, "client"))
    begin = whole.index(bytes(100))
    assert splitter.split(whole[:begin]) == []
    pieces = [splitter.split(whole[at : at + 4096]) for at in range(begin, begin + HELD_BYTES - 1, 4096)]
    assert pieces[-1] == [whole[: begin + HELD_BYTES]]
    assert not any(pieces[:-1])
    assert splitter.lost


@pytest.mark.parametrize("chunk", [1, 7, 1000, 16_383, 60_000])
def test_a_frame_that_comes_in_chunks_is_one_message(chunk: int) -> None:
    """The first message ends the connection for every split. No later message of the same chunk is passed on."""

    async def test() -> None:
        async with connected() as (b, driver):
            with b.fault("mqtt", cut_after=1) as fault:
                data = mqtt_publish(MISLEADING)
                data = data + data[:-1]  # the second one is never complete, so nothing but the first may be counted
                data += mqtt_publish(b"later") * 3
                at = 0
                while at < len(data) and not fault.happened:
                    aio.hand_over(driver, data[at : at + chunk])
                    at += chunk
                assert fault.happened == 1
                assert [len(m.body) for m in b.topic("t")] == [len(MISLEADING)]
                assert at - chunk < len(mqtt_publish(MISLEADING)) <= at

    run(test())


def test_a_chunk_in_the_middle_of_a_message_hides_no_other_message() -> None:
    """The rest of the first message comes in one chunk with two more: cut_after=2 passes on the second one and not the third."""

    async def test() -> None:
        async with connected() as (b, driver):
            with b.fault("mqtt", cut_after=2):
                data = mqtt_publish(MISLEADING) + mqtt_publish(b"second") + mqtt_publish(b"third")
                for piece in (data[:30_000], data[30_000:]):
                    aio.hand_over(driver, piece)
                assert [m.body[:6] for m in b.topic("t")] == [MISLEADING[:6], b"second"]

    run(test())


def test_bytes_that_are_held_keep_their_order() -> None:
    """The connection stalls after the first of three messages, which came in one chunk with the beginning of a fourth."""

    async def test() -> None:
        async with connected() as (b, driver):
            data = b"".join(mqtt_publish(b"%d" % n) for n in range(4))
            with b.fault("mqtt", stall_after=1):
                aio.hand_over(driver, data[:-4])
                assert [m.body for m in b.topic("t")] == [b"0"]
            assert [m.body for m in b.topic("t")] == [b"0", b"1", b"2"]
            aio.hand_over(driver, data[-4:])
            assert [m.body for m in b.topic("t")] == [b"0", b"1", b"2", b"3"]

    run(test())


def test_deliveries_after_a_stall_are_not_lost() -> None:
    """The broker sends three messages at once. The connection stalls after the first; when the stall ends, the others arrive."""

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b:
            reader, writer = await asyncio.open_connection(HOST, b.port("mqtt"))
            asked = mqtt.Subscribe(packet_identifier=1, subscriptions=[mqtt.Subscription("t")], version=4)
            writer.write(CONNECT + asked.encode())
            assert (
                await reader.readexactly(9)
                == CONNACK + mqtt.Suback(packet_identifier=1, reason_codes=[0], version=4).encode()
            )
            whole = b"".join(mqtt_publish(b"%d" % n) for n in range(3))
            with b.fault("mqtt", stall_after=1) as fault:
                for n in range(3):
                    b.mqtt.publish(mqtt_broker.Message("t", b"%d" % n))
                await until(lambda: fault.happened)
                assert await reader.readexactly(len(whole) // 3) == whole[: len(whole) // 3]
            assert await reader.readexactly(len(whole) * 2 // 3) == whole[len(whole) // 3 :]
            writer.close()

    run(test())


def test_many_small_frames_take_linear_time(b: Running) -> None:
    """Messages are counted in a chunk of 20,000 PINGREQs, and the connection goes on."""
    with b.fault("mqtt", stall_after=1), socket.create_connection((HOST, b.port("mqtt")), PATIENCE) as client:
        client.sendall(bytes.fromhex("100d00044d51545404020000000163") + bytes.fromhex("c000") * 20_000)
        expected = 4 + 2 * 20_000
        got = 0
        while got < expected:
            got += len(client.recv(1 << 16))
