"""What a peer sends cannot make operations grow without bound, nor end a reading."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

import pyarrow as pa

from lib.wire import Tcp, connack, connect, pcap
from wirefmt import amqp091, capture, insight, mqtt, nsq

CLIENT, SERVER = 0, 1


def messages_of(port: int, said: Sequence[tuple[int, bytes]]) -> list[Any]:
    """Batches of the message table."""
    tcp = Tcp(port)
    frames = tcp.open()
    for side, octets in said:
        frames += tcp.send(side, octets)
    with capture.read(io.BytesIO(pcap(frames))) as reader:
        return list(reader)


def rows_of(engine: insight.Insight) -> list[dict[str, Any]]:
    batch = engine.take_operations()
    if batch is None:
        return []
    made = pa.record_batch(batch)
    made.validate(full=True)
    return list(made.to_pylist())


def publishes(count: int, topic: str) -> bytes:
    return b"".join(
        mqtt.Publish(topic_name=topic, payload=b"x", qos=1, packet_identifier=i + 1, version=4).encode()
        for i in range(count)
    )


def test_memory_of_what_a_session_may_have_brought_is_bounded_in_octets() -> None:
    """DUP and Session Present: their rows wait for the end, when all connections are known."""
    again = b"".join(
        mqtt.Publish(
            topic_name="t" * 10_000, payload=b"x", qos=1, dup=True, packet_identifier=i + 1, version=4
        ).encode()
        for i in range(500)
    )
    said = [
        (CLIENT, mqtt.Connect(client_identifier="c", clean_start=False, version=4).encode()),
        (SERVER, mqtt.Connack(session_present=True, version=4).encode()),
        (CLIENT, again),
    ]
    engine = insight.Insight(max_octets=1 << 20)
    for batch in messages_of(1883, said):
        engine.messages(batch)
    engine.finish()
    assert engine.stats["buffered"] <= 1 << 20
    assert len([row for row in rows_of(engine) if row["kind"] == "publish"]) == 500


def test_memory_of_open_operations_is_bounded_in_octets() -> None:
    said = [(CLIENT, connect()), (SERVER, connack()), (CLIENT, publishes(500, "t" * 10_000))]
    engine = insight.Insight(max_octets=1 << 20)
    for batch in messages_of(1883, said):
        engine.messages(batch)
    assert engine.stats["buffered"] <= 1 << 20
    assert engine.stats["operations_evicted"] > 300
    engine.finish()
    rows = [row for row in rows_of(engine) if row["kind"] == "publish"]
    assert sorted(row["sequence"] for row in rows) == list(range(1, 501))  # each has a row
    assert {row["outcome"] for row in rows} == {"unanswered"}


def test_memory_that_comes_and_goes_in_other_sizes_is_bounded() -> None:
    """Many operations of one size are open at a time, then as many of another size: what was given back is not kept for each."""
    engine = insight.Insight(paths=True, path_seconds=0)
    for size in range(32, 1000, 32):
        said = [(CLIENT, connect()), (SERVER, connack()), (CLIENT, publishes(4000, "t" * size))]
        said.append((SERVER, b"".join(mqtt.Puback(packet_identifier=i + 1, version=4).encode() for i in range(4000))))
        for batch in messages_of(1883, said):
            engine.messages(batch)
        rows_of(engine)
        engine.take_paths()
    engine.finish()
    while not engine.finish_paths(1000):
        engine.take_paths()
    assert engine.stats["buffered"] < 1 << 20
    assert 0 < engine.stats["spare"] < 2 * ((1 << 20) + 1024), "of a hundred MiB that came and went"


@pytest.mark.parametrize("max_operations", [1, 2, 3])
def test_an_operation_that_a_limit_ends_is_not_answered_later(max_operations: int) -> None:
    """get-ok opens a delivery, which may end the get that it answers."""
    got = amqp091.BasicGetOk(channel=1, delivery_tag=1, exchange="", routing_key="q", message_count=0)
    said = [
        (CLIENT, b"AMQP\0\0\x09\x01" + amqp091.BasicGet(channel=1, queue="q").encode()),
        (SERVER, amqp091.BasicMessage(method=got, body=b"b").encode()),
    ]
    engine = insight.Insight(max_operations=max_operations)
    for batch in messages_of(5672, said):
        engine.messages(batch)
    engine.finish()
    outcomes = {row["kind"]: row["outcome"] for row in rows_of(engine)}
    assert outcomes == {"get": "unanswered" if max_operations == 1 else "acknowledged", "deliver": "unanswered"}


def test_names_of_a_connection_are_bounded() -> None:
    tags = (
        amqp091.BasicConsume(channel=1, queue="q", consumer_tag=f"c{i}", nowait=True).encode() for i in range(66_000)
    )
    engine = insight.Insight()
    for batch in messages_of(5672, [(CLIENT, b"AMQP\0\0\x09\x01" + b"".join(tags))]):
        engine.messages(batch)
    assert engine.stats["names"] == 1 << 16
    engine.finish()
    assert (engine.stats["names"], engine.stats["buffered"]) == (0, 0)


@pytest.mark.parametrize("text", ["é" * 300, "x" + "é" * 300, "ab" + "語" * 300])
def test_a_text_is_cut_between_characters(text: str) -> None:
    said = [
        (CLIENT, nsq.Magic().encode() + nsq.Publish(topic="t", body=b"x").encode()),
        (SERVER, nsq.Error(b"E_BAD_MESSAGE " + text.encode()).encode()),
    ]
    engine = insight.Insight()
    for batch in messages_of(4150, said):
        engine.messages(batch)
    (row,) = [row for row in rows_of(engine) if row["kind"] == "publish"]
    assert row["outcome"] == "refused"
    assert f"E_BAD_MESSAGE {text}".startswith(row["text"])
    assert len(row["text"].encode()) > 400


def test_a_long_client_identifier_is_cut() -> None:
    engine = insight.Insight()
    for batch in messages_of(1883, [(CLIENT, connect("語" * 5_000))]):
        engine.messages(batch)
    engine.finish()
    made = engine.take_connections()
    assert made is not None
    batch = pa.record_batch(made)
    batch.validate(full=True)
    assert batch["client_id"].to_pylist() == ["語" * 341]


def test_returns_are_matched_in_order_and_once() -> None:
    """Equal messages: each return is of the next one."""
    publish = amqp091.BasicMessage(
        method=amqp091.BasicPublish(channel=1, routing_key="q", mandatory=True), body=b"b"
    ).encode()
    back = amqp091.BasicReturn(channel=1, reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="q")
    said = [
        (CLIENT, b"AMQP\0\0\x09\x01" + amqp091.ConfirmSelect(channel=1).encode() + publish * 5),
        (
            SERVER,
            amqp091.ConfirmSelectOk(channel=1).encode() + amqp091.BasicMessage(method=back, body=b"b").encode() * 2,
        ),
        (SERVER, amqp091.BasicAck(channel=1, delivery_tag=5, multiple=True).encode()),
    ]
    engine = insight.Insight()
    for batch in messages_of(5672, said):
        engine.messages(batch)
    rows = [row for row in rows_of(engine) if row["kind"] == "publish"]
    assert [row["outcome"] for row in sorted(rows, key=lambda row: row["sequence"])] == ["returned"] * 2 + [
        "acknowledged"
    ] * 3


def test_a_call_during_another_one_is_refused() -> None:
    """Reading a batch releases the GIL: nothing else may touch the engine then."""
    said = [(CLIENT, connect()), (SERVER, connack()), (CLIENT, publishes(60_000, "t"))]
    batches = messages_of(1883, said)
    engine = insight.Insight()
    faults: list[str] = []
    done = threading.Event()

    def other() -> None:
        while not done.is_set():
            try:
                engine.take_operations()
                engine.take_connections()
            except RuntimeError as fault:
                faults.append(str(fault))

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for _ in range(20):
            for batch in batches:
                for _ in range(50):
                    try:
                        engine.messages(batch)
                        break
                    except RuntimeError as fault:
                        faults.append(str(fault))
    finally:
        done.set()
        thread.join()
    assert all("another" in fault for fault in faults), set(faults)
    engine.finish()


def test_a_connection_with_very_many_open_operations_ends_its_own() -> None:
    """Those of other connections stay, although they are older, and those that begin later."""
    engine = insight.Insight(max_operations=100)

    def read(port: int, said: Sequence[tuple[int, bytes]]) -> list[Any]:
        tcp = Tcp(1883, client_port=port)
        frames = tcp.open()
        for side, octets in said:
            frames += tcp.send(side, octets)
        with capture.read(io.BytesIO(pcap(frames))) as reader:
            return list(reader)

    login = [(CLIENT, connect()), (SERVER, connack())]
    batches = [
        *read(40001, [*login, (CLIENT, publishes(10, "older"))]),
        *read(40002, [*login, (CLIENT, publishes(5_000, "many"))]),
        *read(40003, [*login, (CLIENT, publishes(10, "later"))]),
    ]
    for batch in batches:
        engine.messages(batch)
    evicted = {(row["destination"], row["outcome"]) for row in rows_of(engine) if row["kind"] == "publish"}
    assert evicted == {("many", "unanswered")}
    assert engine.stats["open_operations"] == 100
    engine.finish()
    left = [row["destination"] for row in rows_of(engine) if row["kind"] == "publish"]
    assert (left.count("older"), left.count("later")) == (10, 10)


def test_many_connections_with_an_operation_each_are_bounded_too() -> None:
    engine = insight.Insight(max_operations=3)
    for port in range(40001, 40021):
        tcp = Tcp(1883, client_port=port)
        frames = [*tcp.open(), *tcp.send(CLIENT, connect()), *tcp.send(SERVER, connack())]
        frames += tcp.send(CLIENT, publishes(1, "t"))
        with capture.read(io.BytesIO(pcap(frames))) as reader:
            for batch in reader:
                engine.messages(batch)
        assert engine.stats["open_operations"] <= 3
    ended = [row["client_port"] for row in rows_of(engine) if row["kind"] == "publish"]
    assert ended == list(range(40001, 40018))  # the oldest, each once
