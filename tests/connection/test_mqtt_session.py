"""Sessions as values: snapshot, journal, and bytes that are neither."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from wirefmt import mqtt
from wirefmt.connection import Change
from wirefmt.errors import DecodeError, LocalProtocolError
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
    assert (delivery.message, delivery.packet, delivery.size) == (None, b"", 0)


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


@pytest.mark.parametrize("seed", range(300))
def test_bytes_that_are_no_snapshot_raise_decode_error(seed: int) -> None:
    """Cut, changed and lengthened snapshots: a session or DecodeError, and never anything else."""
    random_ = random.Random(seed)
    data = bytearray(filled().snapshot())
    for _ in range(random_.randrange(1, 4)):
        match random_.randrange(3):
            case 0:
                del data[random_.randrange(len(data)) :]
            case 1 if data:
                data[random_.randrange(len(data))] = random_.randrange(256)
            case _:
                data += random_.randbytes(random_.randrange(5))
    try:
        session = mqtt.Session.restore(bytes(data))
    except DecodeError as error:
        assert error.protocol == "mqtt session"
    else:
        assert mqtt.Session.restore(session.snapshot()).snapshot() == session.snapshot()


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
        [Change("put", "what", 0)],  # type: ignore[arg-type]
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


def test_importing_the_codec_loads_no_connection() -> None:
    code = "import sys, wirefmt.mqtt; print([m for m in sys.modules if 'connection' in m and 'wirefmt' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    with pytest.raises(AttributeError):
        mqtt.Nothing  # type: ignore[attr-defined] # noqa: B018
