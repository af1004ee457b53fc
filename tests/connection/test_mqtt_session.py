"""Sessions as values: snapshot, journal, and bytes that are neither."""

from __future__ import annotations

import asyncio
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.kinds import exactly, only
from lib.mqtt_driven import drive, flow_packets, resumed
from lib.mqtt_strategies import PAYLOAD
from wirefmt import mqtt
from wirefmt.connection import Acknowledged, Change
from wirefmt.errors import DecodeError, LocalProtocolError
from wirefmt.mqtt.events import Dropped, Released
from wirefmt.mqtt.journal import Journal
from wirefmt.mqtt.session import NEVER, Held


def packet(identifier: int = 1, qos: int = 1, payload: bytes = b"x", version: int = 5) -> bytes:
    return mqtt.Publish(
        topic_name="a/b", payload=payload, qos=qos, packet_identifier=identifier, version=version
    ).encode()


def filled(journaled: bool = False) -> mqtt.Session:
    session = mqtt.Session("café", expiry_interval=NEVER, established=True, journaled=journaled)
    session.identifiers.next = 65534
    session.add(packet(9), 5)
    session.receive_pubrec(session.add(packet(9, 2), 5))
    session.add(packet(9, 2, bytes(5000), version=4), 4)
    session.discard(session.add(packet(9), 5))
    session.hold(7)
    session.hold(8, Held(5, packet(8, 2)))
    session.hold(10, Held(4, packet(10, 2, b"\x00\x01\x02", version=4)))
    session.hold(9)
    session.release(9)
    return session


def described(session: mqtt.Session) -> object:
    return (
        session.client_identifier,
        session.expiry_interval,
        session.established,
        [(d.number, d.packet_identifier, d.qos, d.version, d.received, d.packet) for d in session.outgoing.values()],
        session.incoming,
        session.identifiers.next,
        session.next_number(),
    )


def test_a_snapshot_is_the_session() -> None:
    session = filled()
    again = mqtt.Session.restore(session.snapshot())
    assert again.snapshot() == session.snapshot()
    assert described(again) == described(session)
    assert [d.packet_identifier for d in again.outgoing.values()] == [65534, 65535, 1]
    assert all(d.transmitted for d in again.outgoing.values())
    assert again.identifiers.take() == 3


def test_packets_are_kept_with_their_own_identifier_and_without_dup() -> None:
    session = mqtt.Session()
    received = mqtt.Publish(topic_name="t", payload=bytes(9000), qos=2, packet_identifier=500, dup=True)
    delivery = session.add(received.encode(), 5)
    assert delivery.message == mqtt.Publish(topic_name="t", payload=bytes(9000), qos=2, packet_identifier=1)
    session.receive_pubrec(delivery)
    assert (delivery.message, delivery.packet, delivery.size) == (None, b"", 0)  # type: ignore[comparison-overlap]


def test_the_journal_tells_the_same_as_the_snapshot() -> None:
    session = filled(journaled=True)
    changes = session.changes()
    assert session.changes() == []
    assert described(mqtt.Session.replay(changes))[:5] == described(session)[:5]  # type: ignore[index]
    session.clear()
    changes += session.changes()
    empty = mqtt.Session.replay(changes)
    assert (empty.outgoing, empty.incoming, empty.established) == ({}, {}, False)


def test_numbers_and_identifiers_go_on_behind_what_the_journal_has() -> None:
    session = mqtt.Session(journaled=True)
    for _ in range(3):
        session.add(packet(), 5)
    again = mqtt.Session.replay(session.changes(), journaled=True)
    assert again.changes() == []
    delivery = again.add(packet(), 5)
    assert (delivery.number, delivery.packet_identifier) == (4, 4)
    assert [change.key for change in again.changes()] == [4]


def test_a_journal_counts_messages_whose_records_are_gone(tmp_path: Path) -> None:
    """A process that is killed after all its messages were acknowledged leaves only their number."""

    async def written(journal: Journal, session: mqtt.Session) -> None:
        future = journal.put(session.changes())
        assert future is not None
        await future

    async def process(messages: int) -> int:
        journal = Journal(tmp_path / "journal.db", "meter")
        session = await journal.open() or mqtt.Session("meter", journaled=True)
        before = journal.count
        for _ in range(messages):
            delivery = session.add(packet(), 5)
            await written(journal, session)
            session.finish(delivery)
            await written(journal, session)
        return before  # killed: nothing is closed

    assert [asyncio.run(process(messages)) for messages in (3, 1, 2, 0)] == [0, 3, 4, 6]


def test_a_session_without_a_journal_keeps_no_changes() -> None:
    assert filled().changes() == []


def test_a_delivery_is_discarded_once() -> None:
    session = mqtt.Session()
    delivery = session.add(packet(), 5)
    session.discard(delivery)
    with pytest.raises(LocalProtocolError):
        session.discard(delivery)


def test_nothing_is_discarded_while_a_connection_has_the_session() -> None:
    session = mqtt.Session()
    delivery = session.add(packet(), 5)
    client = mqtt.ClientConnection(0.0, session)
    with pytest.raises(LocalProtocolError):
        session.discard(delivery)
    client.close()
    session.discard(delivery)
    assert not session.outgoing


def test_a_session_has_one_connection_at_a_time() -> None:
    session = mqtt.Session()
    client = mqtt.ClientConnection(0.0, session)
    with pytest.raises(LocalProtocolError):
        mqtt.ClientConnection(0.0, session)
    client.close()
    mqtt.ClientConnection(0.0, session)


def damaged(random_: random.Random) -> bytes:
    data = bytearray(filled().snapshot())
    big = data.find(bytes(100))  # most of it is one payload
    for _ in range(random_.randrange(1, 4)):
        match random_.randrange(12):
            case 0:
                del data[random_.randrange(len(data)) :]
            case 1:
                data += random_.randbytes(random_.randrange(5))
            case _ if data:
                at = random_.randrange(len(data))
                at = at if at < big else len(data) - 1 - random_.randrange(80)
                data[at] = random_.choice((0, 1, 2, 3, 4, 5, 7, 8, 10, random_.randrange(256)))
    return bytes(data)


@pytest.mark.parametrize("seed", range(300))
def test_bytes_that_are_no_snapshot_raise_decode_error(seed: int) -> None:
    """Cut, changed and lengthened snapshots: a session or DecodeError, and never anything else."""
    data = damaged(random.Random(seed))
    try:
        session = mqtt.Session.restore(bytes(data))
    except DecodeError as error:
        assert error.protocol == "mqtt session"
    else:
        assert mqtt.Session.restore(session.snapshot()).snapshot() == session.snapshot()


OPTIONS = mqtt.ConnectionOptions(
    receive_maximum=5, undecided=4, pending_bytes=100_000, unread_bytes=5000, packet_size=6000, qos2_event="release"
)


@pytest.mark.parametrize("seed", range(300))
def test_a_session_that_was_restored_works_for_any_conversation(seed: int) -> None:
    """Whatever the damage that is not noticed: connections of each role and version that resume the session raise nothing."""
    random_ = random.Random(f"restored {seed}")
    data = filled().snapshot() if seed % 3 == 0 else damaged(random_)
    try:
        session = mqtt.Session.restore(data)
    except DecodeError:
        return
    role, version = random_.choice(("client", "server")), random_.choice((3, 4, 5))
    packets = flow_packets(random_, version, 20)
    packets += [mqtt.Pubrel(packet_identifier=n, version=version).encode() for n in (7, 8, 10)]
    random_.shuffle(packets)
    drive(role, resumed(role, version, session, OPTIONS), bytearray(b"".join(packets)), random_)


@given(
    st.sampled_from([3, 4, 5]), st.sampled_from([3, 4, 5]), PAYLOAD, st.sampled_from(["memory", "snapshot", "journal"])
)
def test_a_message_is_released_as_it_was_sent(version: int, later: int, payload: bytes, kept: str) -> None:
    """On this connection or, if its session was kept in between, on one of another version."""
    options = mqtt.ConnectionOptions(qos2_event="release", journaled=True)
    session = mqtt.Session("c", journaled=True)
    first = resumed("server", version, session, options)
    (event,) = first.receive(packet(7, 2, payload, version), 0.0)
    first.acknowledge(event)
    last, changes = first, session.changes()
    if kept != "memory":
        first.close(immediate=True)
        again = mqtt.Session.restore(session.snapshot()) if kept == "snapshot" else mqtt.Session.replay(changes)
        last = resumed("server", later, again, options)
    (released,) = last.receive(mqtt.Pubrel(packet_identifier=7, version=last.version).encode(), 0.0)
    assert isinstance(released, Released)
    assert (released.message.version, released.message.payload_bytes()) == (version, payload)
    assert released.message.topic_name == "a/b"
    assert released.message.properties == ()


@given(st.sampled_from([3, 4, 5]), st.sampled_from([3, 4, 5]), PAYLOAD)
def test_a_message_is_sent_again_as_it_was_published(version: int, later: int, payload: bytes) -> None:
    session = mqtt.Session("c", expiry_interval=NEVER, established=True)
    first = resumed("client", version, session, mqtt.ConnectionOptions())
    first.publish("a/b", payload, qos=2)
    first.data_to_send()
    first.close()
    client = resumed("client", later, mqtt.Session.restore(session.snapshot()), mqtt.ConnectionOptions())
    _, again = exactly(
        mqtt.Decoder(version=later, side="client").feed(client.data_to_send()), mqtt.Connect, mqtt.Publish
    )
    assert (again.topic_name, again.payload_bytes(), again.qos, again.dup) == ("a/b", payload, 2, True)


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("later", [3, 4, 5])
def test_a_session_goes_on_in_another_version(role: str, version: int, later: int) -> None:
    """What is kept knows the version it was said in: each packet of it is sent in the version of the connection, with the
    properties that this version has, and answers have reason codes in 5.0 only."""
    properties = (("content_type", "text"), ("user_property", ("k", "v"))) if version == 5 else ()
    session = mqtt.Session("c", expiry_interval=NEVER, established=True, journaled=True)
    first = resumed(role, version, session, mqtt.ConnectionOptions())
    handles = [
        first.publish("a/b", bytes((at,)) * 3, qos=qos, properties=properties) for at, qos in enumerate((1, 2, 2))
    ]
    first.data_to_send()
    first.receive(mqtt.Pubrec(packet_identifier=handles[2].packet_identifier, version=version).encode(), 0.0)
    (refused,) = first.receive(packet(7, 2, b"in", version), 0.0)
    first.acknowledge(refused)
    first.data_to_send()
    first.close(immediate=True)
    if role == "server" and version == 5:
        session.expiry_interval = NEVER  # the host decides it

    connection = resumed(role, later, mqtt.Session.replay(session.changes()), mqtt.ConnectionOptions())
    side: Any = role
    decoder = mqtt.Decoder(version=later, side=side)
    _, one, two, released = decoder.feed(connection.data_to_send())
    for again, at, qos in ((one, 0, 1), (two, 1, 2)):
        assert isinstance(again, mqtt.Publish)
        assert (again.qos, again.dup, again.topic_name, again.payload_bytes()) == (qos, True, "a/b", bytes((at,)) * 3)
        assert tuple(again.properties) == (properties if later == 5 else ())
    assert isinstance(released, mqtt.Pubrel)
    assert (released.packet_identifier, released.reason_code or 0) == (handles[2].packet_identifier, 0)

    # the identifier of the message that has arrived is still held, and answered in this version
    assert connection.receive(packet(7, 2, b"in", later), 0.0) == []
    connection.receive(mqtt.Pubrel(packet_identifier=7, version=later).encode(), 0.0)
    connection.receive(mqtt.Pubrel(packet_identifier=8, version=later).encode(), 0.0)
    *_, stray = exactly(decoder.feed(connection.data_to_send()), mqtt.Pubrec, mqtt.Pubcomp, mqtt.Pubcomp)
    assert (stray.reason_code or 0) == (0x92 if later == 5 else 0)

    # and the answers to what was sent again finish it, with the reason of this version
    code = 0x10 if later == 5 else None
    answers = [
        mqtt.Puback(packet_identifier=handles[0].packet_identifier, reason_code=code, version=later),
        mqtt.Pubrec(packet_identifier=handles[1].packet_identifier, version=later),
        *(mqtt.Pubcomp(packet_identifier=handle.packet_identifier, version=later) for handle in handles[1:]),
    ]
    events = connection.receive(b"".join(answer.encode() for answer in answers), 0.0)
    assert [(event.handle.number, event.code) for event in events if isinstance(event, Acknowledged)] == [
        (handles[0].number, code or 0), (handles[1].number, 0), (handles[2].number, 0)
    ]  # fmt: skip
    assert connection.session is not None
    assert not connection.session.outgoing
    assert not connection.session.incoming


@pytest.mark.parametrize("role", ["client", "server"])
def test_what_does_not_fit_into_another_version_is_dropped(role: str) -> None:
    """A message of 3.1.1 takes an octet more in 5.0, where the peer may have announced less."""
    session = mqtt.Session("c", expiry_interval=NEVER, established=True)
    first = resumed(role, 4, session, mqtt.ConnectionOptions())
    handle = first.publish("a", bytes(100), qos=1)
    first.close(immediate=True)
    size = handle.size
    properties = [("maximum_packet_size", size), ("session_expiry_interval", 100)]
    connect = mqtt.Connect(client_identifier="c", clean_start=False, properties=properties)
    if role == "client":
        client = mqtt.ClientConnection(0.0, session)
        client.send(mqtt.Connect(client_identifier="c", clean_start=False, properties=properties[1:]))
        events: list[Any] = client.receive(mqtt.Connack(session_present=True, properties=properties[:1]).encode(), 0.0)
    else:
        server = mqtt.ServerConnection(0.0)
        events = server.accept(only(server.receive(connect.encode(), 0.0), mqtt.Connect), session)
    assert [event.handle for event in events if isinstance(event, Dropped)] == [handle]
    assert not session.outgoing


def test_what_a_connection_tolerates_is_kept_and_released() -> None:
    options = mqtt.ConnectionOptions(qos2_event="release", tolerate=frozenset(("PUBLISH TOPIC_NAME_WILDCARD",)))
    session = mqtt.Session("c")
    server = resumed("server", 4, session, options)
    (event,) = server.receive(packet(7, 2, b"x", 4).replace(b"a/b", b"a/#"), 0.0)
    server.acknowledge(event)
    server.close(immediate=True)
    again = resumed("server", 4, mqtt.Session.restore(session.snapshot()), options)
    (released,) = again.receive(mqtt.Pubrel(packet_identifier=7, version=4).encode(), 0.0)
    assert released.message.topic_name == "a/#"


def test_what_is_held_counts_on_the_next_connection_of_both_roles() -> None:
    for role in ("client", "server"):
        session = mqtt.Session("c")
        session.hold(8, Held(5, packet(8, 2, bytes(100))))
        options = mqtt.ConnectionOptions(qos2_event="release", released_bytes=150)
        connection = resumed(role, 5, session, options)
        *_, last = connection.receive(packet(9, 2, bytes(60)), 0.0)
        assert last.code == 0x97, role


def test_every_cut_is_noticed() -> None:
    data = filled().snapshot()
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            mqtt.Session.restore(data[:size])
    with pytest.raises(DecodeError):
        mqtt.Session.restore(data + b"\0")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [Change("put", "session", 0, b"short")],
        [Change("put", "session", 0, bytes(15) + b"\xff")],
        [Change("put", "what", 0)],
        [Change("what", "session", 0)],  # type: ignore[arg-type]
    ],
)
def test_changes_that_are_no_journal_raise_decode_error(changes: list[Change]) -> None:
    with pytest.raises(DecodeError):
        mqtt.Session.replay(changes)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        bytes((0, 5, 1, 0, 9)) + b"\xc0\x00",  # PINGREQ
        bytes((0, 5, 1, 0, 8)) + packet(9),
        bytes((0, 9, 1, 0, 9)) + packet(9),
        bytes((1, 5, 1, 0, 9)),
        bytes((1, 5, 2, 0, 9)) + b"x",
        bytes((1, 5, 2, 0, 0)),  # a packet identifier of 0
        bytes((1, 6, 2, 0, 9)),  # no such version
        bytes((2, 5, 2, 0, 9)),
        bytes((0, 5, 2, 0, 9)) + packet(9),  # another QoS
        bytes((0, 4, 1, 0, 9)) + packet(9)[:-2],  # of 5.0, cut; of 3.1.1 it would be well-formed with another length
        bytes((0, 5, 1, 0, 9))
        + mqtt.Publish(topic_name="a", qos=1, packet_identifier=9, properties=[("topic_alias", 1)]).encode(),
    ],
)
def test_records_that_are_no_deliveries_raise_decode_error(value: bytes) -> None:
    journal = mqtt.Session(journaled=True).changes()
    with pytest.raises(DecodeError):
        mqtt.Session.replay([*journal, Change("put", "outgoing", 1, value)])
    with pytest.raises(DecodeError):
        mqtt.Session.replay([*journal, Change("put", "incoming", 0, b"")])
    good = bytes((0, 5, 1, 0, 9)) + packet(9)
    with pytest.raises(DecodeError):
        mqtt.Session.replay([*journal, Change("put", "outgoing", 1, good), Change("put", "outgoing", 2, good)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (7, b"\x01garbage"),
        (7, b"\5"),
        (7, b"\6" + packet(7, 2)),  # no such version
        (7, b"\5" + packet(8, 2)),  # another packet identifier
        (7, b"\5" + packet(7, 1)),  # another QoS
        (7, b"\5" + packet(7, 2) + b"x"),
        (7, b"\5" + packet(7, 2)[:-1]),
        (7, b"\5\xc0\0"),  # PINGREQ
        (65536, b""),
        (0, b""),
        (-1, b""),
        ("7", b""),
        (7, "text"),
        (7, None),
    ],
)
def test_records_that_are_no_held_messages_raise_decode_error(key: Any, value: Any) -> None:
    journal = mqtt.Session(journaled=True).changes()
    with pytest.raises(DecodeError):
        mqtt.Session.replay([*journal, Change("put", "incoming", key, value)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (0, struct.pack(">BIHQ", 1, 0, 0, 1)),  # the next packet identifier
        (0, struct.pack(">BIHQ", 1, 0, 1, 0)),  # the next number
        (0, struct.pack(">BIHQ", 1, 0, 1, 1 << 63)),
        (0, struct.pack(">BIHQ", 1, 0, 1, 1) + b"a\0b"),  # no Client Identifier
        (0, struct.pack(">BIHQ", 1, 0, 1, 1) + bytes(70_000)),
        (1, struct.pack(">BIHQ", 1, 0, 1, 1)),
    ],
)
def test_a_sessions_own_record_that_is_none_raises_decode_error(key: int, value: bytes) -> None:
    with pytest.raises(DecodeError):
        mqtt.Session.replay([Change("put", "session", key, value)])


@pytest.mark.parametrize("number", [0, -1, 1 << 62, 1 << 64])
def test_numbers_of_deliveries_are_checked(number: int) -> None:
    journal = mqtt.Session(journaled=True).changes()
    with pytest.raises(DecodeError):
        mqtt.Session.replay([*journal, Change("put", "outgoing", number, bytes((0, 5, 1, 0, 9)) + packet(9))])


def test_a_snapshot_with_one_record_twice_is_refused() -> None:
    session = mqtt.Session("c")
    session.hold(7)
    one = session.snapshot()
    entry = struct.pack(">QI", 7, 0)
    assert one.endswith(struct.pack(">I", 1) + entry)
    with pytest.raises(DecodeError, match="two records"):
        mqtt.Session.restore(one[: -len(entry) - 4] + struct.pack(">I", 2) + entry * 2)


def test_importing_the_codec_loads_no_connection() -> None:
    code = "import sys, wirefmt.mqtt; print([m for m in sys.modules if 'connection' in m and 'wirefmt' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    with pytest.raises(AttributeError):
        mqtt.Nothing  # noqa: B018
