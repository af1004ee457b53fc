"""Paths: which publish a delivery is a copy of, and which message is the next hop of which."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import run
from lib.path_truth import paths, wrong_claims
from lib.paths import DATA
from lib.wire import START, Tcp
from wirefmt import amqp091, capture, mqtt
from wirefmt.broker import Broker
from wirefmt.broker.recording import Recorder
from wirefmt.spec.insight import PATHS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CAPTURES = sorted((DATA / "insight").glob("*.pcap.gz"))
SECOND = 1_000_000_000


class Clients:
    """Clients of an MQTT server, and what was captured of them, at times that a test gives in seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0.0
        self._count = 0
        self._of: dict[str, Tcp] = {}
        self._packets: list[tuple[int, bytes]] = []

    def connect(self, name: str, client: int = 0x0A000002) -> None:
        """A new connection; one of the same name ends."""
        if name in self._of:
            self._add(self._of[name].close())
        tcp = self._of[name] = Tcp(client=client, client_port=40000 + self._count)
        self._count += 1
        self._add(tcp.open())
        self._say(name, 0, mqtt.Connect(client_identifier=name, clean_start=True, version=5))
        self._say(name, 1, mqtt.Connack(version=5))

    def publish(self, name: str, topic: str, payload: bytes, at: float | None = None, **fields: Any) -> None:
        self._message(name, 0, topic, payload, at, fields)

    def deliver(self, name: str, topic: str, payload: bytes, at: float | None = None, **fields: Any) -> None:
        self._message(name, 1, topic, payload, at, fields)

    def paths(self, **limits: int) -> list[dict[str, Any]]:
        self.write()
        return paths(self.path, limits=limits)

    def write(self) -> None:
        octets = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
        for us, packet in self._packets:
            seconds, part = divmod(us, 1_000_000)
            octets += struct.pack("<IIII", START + seconds, part, len(packet), len(packet)) + packet
        self.path.write_bytes(octets)

    def _message(
        self, name: str, side: int, topic: str, payload: bytes, at: float | None, fields: dict[str, Any]
    ) -> None:
        """Without a time: a millisecond after the last one."""
        self.at = self.at + 0.001 if at is None else at
        self._say(name, side, mqtt.Publish(topic_name=topic, payload=payload, version=5, **fields))

    def _say(self, name: str, side: int, packet: Any) -> None:
        self._add(self._of[name].send(side, packet.encode()))

    def _add(self, frames: list[bytes]) -> None:
        self._packets += [(round(self.at * 1_000_000), frame) for frame in frames]


@pytest.fixture
def clients(tmp_path: Path) -> Any:
    made = Clients(tmp_path / "a.pcap")
    for name in "abc":
        made.connect(name)
    return made


def shown(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".")[0])
def test_paths_are_what_the_scripts_of_real_brokers_did(path: Path) -> None:
    assert wrong_claims(path.with_name(path.name.replace(".pcap.gz", ".truth.jsonl")), paths(path)) == []


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".")[0])
@pytest.mark.parametrize("options", [{"batch_rows": 1}, {"batch_rows": 7}, {"threads": 3}])
def test_neither_batches_nor_threads_change_a_row(path: Path, options: dict[str, int]) -> None:
    assert paths(path, **options) == paths(path)


def test_the_table_has_the_columns_of_the_specification() -> None:
    path = DATA / "insight" / "crossing.pcap.gz"
    table = pa.table(capture.read(path, table="paths"))
    assert table.column_names == [column.name for column in PATHS]
    named = capture.read(path, table="paths", columns=["hop", "latency_ns"], filter="hop == 2")
    assert set(pa.table(named)["hop"].to_pylist()) == {2}


def test_a_publish_that_nobody_receives_is_a_path_without_a_deliver_side(clients: Clients) -> None:
    clients.publish("a", "x", b"1")
    clients.deliver("b", "y", b"1")  # its publish was not captured: MQTT delivers with the topic of the publish
    (row,) = clients.paths()
    assert (row["publish_client_id"], row["copies"], row["hop"]) == ("a", 0, 1)
    sides = [row[name] for name in row if name.startswith("deliver_") and name != "deliver_payload"]
    assert {*sides, row["latency_ns"], row["matched_by"], row["candidates"], row["redelivered"]} == {None}


def test_equal_payloads_are_delivered_in_the_order_of_their_publishes(clients: Clients) -> None:
    for _ in range(3):
        clients.publish("a", "x", b"1")
    for name in "bcbcbc":
        clients.deliver(name, "x", b"1")
    rows = clients.paths()
    assert shown(rows, "deliver_client_id", "copies", "candidates", "latency_ns") == [
        ("b", 2, 3, 3_000_000),
        ("c", 2, 3, 4_000_000),
        ("b", 2, 2, 4_000_000),
        ("c", 2, 2, 5_000_000),
        ("b", 2, 1, 5_000_000),
        ("c", 2, 1, 6_000_000),
    ]
    assert {row["redelivered"] for row in rows} == {False}


def test_a_message_that_was_passed_is_not_expected_any_more(clients: Clients) -> None:
    """Messages of a publisher reach a consumer in their order: the first was lost if a later one, which differs, was received."""
    clients.publish("a", "x", b"on")
    clients.publish("a", "x", b"off")
    clients.deliver("b", "x", b"off")
    clients.publish("a", "x", b"on")
    clients.deliver("b", "x", b"on")
    assert shown(clients.paths(), "deliver_client_id", "latency_ns") == [
        (None, None),
        ("b", 1_000_000),
        ("b", 1_000_000),
    ]


def test_what_was_published_before_the_login_of_a_client_is_not_for_it(clients: Clients) -> None:
    clients.publish("a", "x", b"1")
    clients.at = 1
    clients.connect("late")
    clients.publish("a", "x", b"1")
    clients.deliver("late", "x", b"1")
    assert shown(clients.paths(), "deliver_client_id", "candidates") == [(None, None), ("late", 1)]


def test_a_retained_message_is_one_of_before_the_login(clients: Clients) -> None:
    clients.publish("a", "x", b"1")
    clients.at = 1
    clients.connect("late")
    clients.deliver("late", "x", b"1")
    assert shown(clients.paths(), "deliver_client_id", "copies", "candidates") == [("late", 1, 1)]


def test_the_same_message_to_the_same_client_again_is_a_further_copy(clients: Clients) -> None:
    clients.publish("a", "x", b"1")
    for _ in range(7):
        clients.deliver("b", "x", b"1")
    rows = clients.paths()
    assert shown(rows, "copies", "attempt", "redelivered") == [(7, n, n > 1) for n in range(1, 8)]


def test_a_packet_that_a_session_sends_again_is_the_same_message(clients: Clients) -> None:
    clients.publish("a", "x", b"1")
    clients.publish("a", "x", b"1")
    for packet_identifier in (5, 6):
        clients.deliver("b", "x", b"1", qos=1, packet_identifier=packet_identifier)
    clients.deliver("b", "x", b"1", qos=1, packet_identifier=6, dup=True)
    clients.connect("b")
    for packet_identifier in (6, 5):
        clients.deliver("b", "x", b"1", qos=1, packet_identifier=packet_identifier, dup=True)
    assert shown(clients.paths(), "attempt", "redelivered", "matched_by", "latency_ns") == [
        (1, False, "payload+destination", 2_000_000),
        (2, True, "transport id", 6_000_000),
        (1, False, "payload+destination", 2_000_000),
        (2, True, "transport id", 4_000_000),
    ]


def test_a_publish_that_a_client_sends_again_is_one_publish(clients: Clients) -> None:
    clients.publish("a", "x", b"1", qos=1, packet_identifier=9)
    clients.connect("a")
    clients.publish("a", "x", b"1", qos=1, packet_identifier=9, dup=True)
    clients.deliver("b", "x", b"1")
    assert shown(clients.paths(), "deliver_client_id", "latency_ns") == [("b", 2_000_000)]


@pytest.mark.parametrize(("early", "latency"), [(0.0019, -1_900_000), (0.0021, None)])
def test_a_delivery_may_be_captured_a_little_before_its_publish(
    clients: Clients, early: float, latency: int | None
) -> None:
    clients.deliver("b", "x", b"1", at=1.0)
    clients.publish("a", "x", b"1", at=1.0 + early)
    assert shown(clients.paths(), "latency_ns") == [(latency,)]


def test_what_is_older_than_path_seconds_is_not_matched(clients: Clients) -> None:
    clients.publish("a", "x", b"1", at=1)
    clients.deliver("b", "x", b"1", at=11)
    clients.deliver("c", "x", b"1", at=11.001)
    assert shown(clients.paths(path_seconds=10), "deliver_client_id", "copies") == [("b", 1)]


@pytest.mark.parametrize("most", [1, 4, 10])
def test_the_oldest_leave_when_there_are_too_many(clients: Clients, most: int) -> None:
    for n in range(30):
        clients.publish("a", "x", b"%d" % n)
        clients.deliver("b", "x", b"%d" % n)
    rows = clients.paths(max_paths=most)
    assert [row["payload"] for row in rows] == [[str(n)] for n in range(30)]
    if most > 1:
        assert set(shown(rows, "deliver_client_id", "copies", "latency_ns")) == {("b", 1, 1_000_000)}


def test_what_leaves_is_counted(clients: Clients) -> None:
    for n in range(10):
        clients.publish("a", "x", b"%d" % n)
    clients.deliver("b", "y", b"?")
    clients.write()
    with capture.read(clients.path, table="paths", limits={"max_paths": 4}) as reader:
        assert sum(batch.num_rows for batch in reader) == 10
        stats = reader.stats["insight"]
    assert stats["paths_evicted"] > 4
    assert (stats["deliveries_without_publish"], stats["paths_late"], stats["buffered"]) == (1, 0, 0)


@pytest.mark.parametrize("address", [0x0A000009, 0x0A000002])
def test_a_hop_by_correlation_id_may_be_published_on_another_connection(clients: Clients, address: int) -> None:
    clients.connect("worker-in", address)
    clients.connect("worker-out", address)
    told: dict[str, Any] = {"properties": (("correlation_data", b"job 1"),)}
    clients.publish("a", "in", b"1", **told)
    clients.deliver("worker-in", "in", b"1", **told)
    clients.publish("worker-out", "out", b"2", **told)
    clients.deliver("c", "out", b"2", **told)
    rows = clients.paths()
    assert shown(rows, "publish_client_id", "hop") == [("a", 1), ("worker-out", 2)]
    assert rows[0]["trace_id"] == rows[1]["trace_id"]


def test_two_clients_with_the_same_correlation_ids_are_two_origins(clients: Clients) -> None:
    told: dict[str, Any] = {"properties": (("correlation_data", b"1"),)}
    for name in "ab":
        clients.publish(name, "q", b"1" + name.encode(), **told)
        clients.deliver("c", "q", b"1" + name.encode(), **told)
    rows = clients.paths()
    assert shown(rows, "hop") == [(1,), (1,)]
    assert len({row["trace_id"] for row in rows}) == 2


@pytest.mark.parametrize("payloads", [(b"1", b"2"), (b"", b"")])
def test_a_trace_id_of_the_application_is_the_trace_id(clients: Clients, payloads: tuple[bytes, bytes]) -> None:
    first, second = payloads
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    def told(span: str) -> Any:
        return {"properties": (("user_property", ("traceparent", f"00-{trace}-{span}-01")),)}

    clients.publish("a", "in", first, **told("00f067aa0ba902b7"))
    clients.deliver("b", "in", first, **told("00f067aa0ba902b7"))
    clients.publish("b", "out", second, **told("b7ad6b7169203331"))
    clients.deliver("c", "out", second, **told("b7ad6b7169203331"))
    assert shown(clients.paths(), "trace_id", "hop") == [(trace, 1), (trace, 2)]


def test_a_hop_by_payload_is_what_the_same_client_publishes_again(clients: Clients) -> None:
    clients.publish("a", "in", b"value")
    clients.deliver("b", "in", b"value")
    clients.deliver("a", "in", b"value")  # an own message
    clients.publish("b", "out", b"value")
    clients.publish("c", "out", b"value")  # did not receive it
    clients.publish("a", "in", b"value")
    assert sorted(set(shown(clients.paths(), "publish_client_id", "hop"))) == [("a", 1), ("b", 2), ("c", 1)]


def test_a_message_that_a_worker_puts_back_each_time_goes_on_hopping(clients: Clients) -> None:
    clients.publish("a", "in", b"value")
    clients.deliver("b", "in", b"value")
    for _ in range(3):
        clients.publish("b", "retry", b"value")
        clients.deliver("b", "retry", b"value")
    rows = clients.paths()
    assert shown(rows, "hop", "copies") == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert len({row["trace_id"] for row in rows}) == 1


def test_a_client_with_two_connections_does_not_republish_its_own_messages(clients: Clients) -> None:
    clients.publish("a", "in", b"value")
    clients.connect("a")
    clients.deliver("a", "in", b"value")
    clients.publish("a", "in", b"value")
    assert shown(clients.paths(), "hop") == [(1,), (1,)]


@pytest.mark.parametrize("seed", range(20))
def test_paths_are_what_a_simulated_server_did(tmp_path: Path, seed: int) -> None:
    """Each subscriber gets the messages of its topics in their order, each after a time of its own; payloads repeat."""
    chance = random.Random(seed)
    clients = Clients(tmp_path / "a.pcap")
    names = [f"p{n}" for n in range(4)] + [f"s{n}" for n in range(5)]
    for name in names:
        clients.connect(name)
    follows = {name: chance.sample(range(6), 3) for name in names if name[0] == "s"}
    waiting: dict[str, list[tuple[str, bytes, int]]] = {name: [] for name in follows}
    expected: set[tuple[int, str | None, int | None]] = set()
    for number in range(300):
        at = 1 + number / 100
        topic = chance.randrange(6)
        payload = chance.choice([b"on", b"off", b"%d" % number])
        # each topic has one publisher: the order in which a server takes the messages of several is not on the wire
        clients.publish(f"p{topic % 4}", f"t/{topic}", payload, at)
        published = round(at * SECOND)
        reached = [name for name in follows if topic in follows[name]]
        for name in reached:
            waiting[name].append((f"t/{topic}", payload, published))
        if not reached:
            expected.add((published, None, None))
        for name, queue in waiting.items():
            for _ in range(chance.randint(0, 3) if chance.random() < 0.5 else 0):
                if queue:
                    at += 0.0001
                    clients.deliver(name, queue[0][0], queue[0][1], at)
                    expected.add((queue.pop(0)[2], name, round(at * SECOND)))
    for name, queue in waiting.items():
        for topic_name, payload, published in queue:
            clients.deliver(name, topic_name, payload)
            expected.add((published, name, round(clients.at * SECOND)))
    rows = clients.paths()
    zero = START * SECOND
    got = {
        (
            row["publish_ts_ns"] - zero,
            row["deliver_client_id"],
            row["deliver_ts_ns"] and row["deliver_ts_ns"] - zero,
        )
        for row in rows
    }
    assert (len(rows), got) == (len(expected), expected)


def test_messages_cross_from_one_protocol_to_another(tmp_path: Path) -> None:
    """MQTT to AMQP 0.9.1 and back at the broker in memory; its recording has a path for each copy."""

    async def test() -> None:
        recorder = Recorder(tmp_path / "a.pcapng")
        ports = {"mqtt": 1883, "amqp": 5672}
        async with (
            Broker(ports=dict.fromkeys(ports, 0), tap=lambda name, driver: recorder.tap(ports[name])(driver)) as b,
            mqtt.connect(b.url("mqtt"), client_identifier="sensor") as sensor,
            amqp091.connect(b.url("amqp")) as client,
        ):
            await sensor.subscribe("back/#", qos=1)
            channel = await client.channel()
            await channel.declare_queue("q")
            await channel.bind_queue("q", "amq.topic", "plant.*")
            for n in range(5):
                await sensor.publish("plant/w", b"%d" % n, qos=1)
            for _ in range(5):
                message = await channel.get("q", no_ack=True)
                assert message is not None
                await channel.publish(message.body, exchange="amq.topic", routing_key="back.w")
            messages = sensor.messages()
            for _ in range(5):
                await anext(messages)
        recorder.close()

    run(test())
    rows = paths(tmp_path / "a.pcapng")
    assert shown(rows, "publish_protocol", "deliver_protocol", "converted", "hop", "payload") == [
        *[("mqtt", "amqp091", True, 1, [str(n)]) for n in range(5)],
        *[("amqp091", "mqtt", True, 2, [str(n)]) for n in range(5)],
    ]
    assert len({row["trace_id"] for row in rows}) == 5
