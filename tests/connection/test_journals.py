"""Journals of the clients of five protocols: a disk that is full, locks, modes of files, and files that are not journals."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.loopback import run, until
from wirefmt import amqp091, amqp10, broker, mqtt, nsq, rocketmq
from wirefmt.amqp10 import journal as amqp10_journal
from wirefmt.connection import journal as journals
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Change
from wirefmt.connection.journal import Store
from wirefmt.errors import DecodeError, JournalError
from wirefmt.mqtt.session import Held
from wirefmt.rocketmq import journal as rocketmq_journal

QUICK = Backoff(first=0.01, most=0.05)
BIG = bytes(200_000)

Publish = Callable[[bytes], Awaitable[Any]]


class Case(NamedTuple):
    """How a protocol's client is made, publishes, and what has arrived."""

    broker: str
    owner: str
    connect: Callable[..., Any]  # (url, path, reconnect) -> client
    publisher: Callable[[Any, Any], Awaitable[Publish]]  # (client, path)
    store: Callable[[Any], Store]
    arrived: Callable[[broker.Broker], list[bytes]]


async def mqtt_publisher(client: mqtt.Client, path: Any) -> Publish:
    return lambda body: client.publish("t", body, qos=1)


async def amqp091_publisher(client: amqp091.Client, path: Any) -> Publish:
    channel = await client.channel()
    await channel.declare_queue("q")
    return lambda body: channel.publish(body, routing_key="q")


async def amqp10_publisher(client: amqp10.Client, path: Any) -> Publish:
    sender = await client.sender("/queues/q")
    return lambda body: sender.send(amqp10.Message(body=body))


async def nsq_publisher(client: nsq.Client, path: Any) -> Publish:
    return lambda body: client.publish("t", body)


PRODUCERS: dict[int, Any] = {}


async def rocketmq_publisher(client: rocketmq.Client, path: Any) -> Publish:
    producer = PRODUCERS[id(client)] = client.producer("group", journal=path)
    return lambda body: producer.send("t", body)


CASES = {
    "mqtt": Case(
        "mqtt",
        "mqtt meter",
        lambda url, path, reconnect: mqtt.connect(url, client_identifier="meter", journal=path, reconnect=reconnect),
        mqtt_publisher,
        lambda client: client._store,
        lambda b: [m.body for m in b.topic("t")],
    ),
    "amqp091": Case(
        "amqp",
        "amqp091 meter",
        lambda url, path, reconnect: amqp091.connect(url, name="meter", journal=path, reconnect=reconnect),
        amqp091_publisher,
        lambda client: client._store,
        lambda b: [m.body for m in b.queue("q")],
    ),
    "amqp10": Case(
        "amqp10",
        "amqp10 meter",
        lambda url, path, reconnect: amqp10.connect(url, container_id="meter", journal=path, reconnect=reconnect),
        amqp10_publisher,
        lambda client: client._store,
        lambda b: [m.body for m in b.queue("q")],
    ),
    "nsq": Case(
        "nsq",
        "nsq",
        lambda url, path, reconnect: nsq.connect(url, journal=path, reconnect=reconnect),
        nsq_publisher,
        lambda client: client._store,
        lambda b: [m.body for m in b.queue("t", "nsq")],
    ),
    "rocketmq": Case(
        "rocketmq",
        "rocketmq group",
        lambda url, path, reconnect: rocketmq.connect(url),
        rocketmq_publisher,
        lambda client: PRODUCERS[id(client)].journal._store,
        lambda b: [m.body for m in b.topic("t", "rocketmq")],
    ),
}


@asynccontextmanager
async def served(case: Case) -> AsyncIterator[tuple[broker.Broker, str]]:
    async with broker.Broker(ports={case.broker: 0}) as b:
        url = b.url(case.broker)
        yield b, url.removeprefix("rocketmq://") if case.broker == "rocketmq" else url


@asynccontextmanager
async def opened(
    case: Case, url: str, path: Any, reconnect: Backoff | None = None
) -> AsyncIterator[tuple[Any, Publish]]:
    client = case.connect(url, path, reconnect)
    async with client:
        yield client, await case.publisher(client, path)


async def pages(store: Store, most: int) -> None:
    """From now on the database has this many pages at most: SQLite says that the disk is full."""
    await store._call(lambda: store._connection.execute(f"PRAGMA max_page_count = {most}").fetchall())


def no_room(store: Store) -> None:
    """From now on nothing is written. `del store._write` makes space."""

    def write(changes: list[Change], also: list[Any]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    store._write = write  # type: ignore[method-assign]


def rows(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT tbl, key, value FROM wirefmt_records WHERE tbl = 'outgoing'").fetchall()


# ---- a disk that is full


@pytest.mark.parametrize("name", CASES)
def test_a_full_disk_is_told_to_the_calls(name: str, tmp_path: Path) -> None:
    """What cannot be kept is not sent, and its call raises. Nothing is connected meanwhile; with room it goes on."""
    case, path = CASES[name], tmp_path / "journal.db"

    async def test() -> None:
        async with served(case) as (b, url), opened(case, url, path, QUICK) as (client, publish):
            await publish(b"1")
            store = case.store(client)
            no_room(store)
            calls = [asyncio.ensure_future(publish(BIG)) for _ in range(3)]
            for call in calls:
                with pytest.raises(JournalError, match="full") as raised:
                    await call
                assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
            if name != "rocketmq":
                await asyncio.sleep(0.2)
                with pytest.raises(JournalError, match="full"):
                    await publish(b"2")
                assert client.connections == 1
            del store._write
            if name != "rocketmq":
                await until(lambda: store.error is None)
            await publish(b"3")
            assert store.error is None
            await until(lambda: case.arrived(b) == [b"1", b"3"])
            if name != "rocketmq":
                assert client.connections == 2
        assert rows(path) == []

    run(test())


@pytest.mark.parametrize("name", [name for name in CASES if name != "rocketmq"])
def test_without_reconnection_a_full_disk_ends_the_client(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "journal.db"

    async def test() -> None:
        async with served(case) as (b, url):
            client = case.connect(url, path, None)
            await client.open()
            publish = await case.publisher(client, path)
            await pages(case.store(client), 1)
            for body in (BIG, b"2"):
                with pytest.raises(JournalError, match="full"):
                    await publish(body)
            await until(lambda: not client.connected)
            await client.close()
            async with opened(case, url, path) as (_, publish):
                await publish(b"3")
            assert case.arrived(b) == [b"3"]

    run(test())


@pytest.mark.parametrize("name", CASES)
def test_a_journal_that_cannot_be_written_to_its_end_is_closed_all_the_same(name: str, tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "journal.db"

    async def test() -> None:
        async with served(case) as (_, url):
            client = case.connect(url, path, None)
            await client.__aenter__()
            publish = await case.publisher(client, path)
            await publish(b"1")
            store = case.store(client)
            await pages(store, 1)
            store.add("CREATE TABLE more (x)")
            store.add("INSERT INTO more VALUES (?)", (BIG,))
            with pytest.raises(JournalError, match="full"):
                await client.close()
            async with opened(case, url, path) as (_, publish):
                await publish(b"2")

    run(test())


def test_a_message_that_is_on_disk_is_not_given_up_with_its_update(tmp_path: Path) -> None:
    """MQTT, QoS 2: PUBREC comes, and what it changes cannot be written. The message goes on when there is space."""

    async def test() -> None:
        case, path = CASES["mqtt"], tmp_path / "journal.db"
        async with served(case) as (b, url), opened(case, url, path, QUICK) as (client, publish):
            await publish(b"1")
            store, write, failures = case.store(client), Store._write, iter(range(3))

            def fails(changes: list[Change], also: list[Any]) -> None:
                if (
                    any(c.table == "outgoing" and c.op == "put" and len(c.value) < 10 for c in changes)
                    and next(failures, 9) < 3
                ):
                    raise sqlite3.OperationalError("database or disk is full")
                write(store, changes, also)

            store._write = fails  # type: ignore[method-assign]
            await client.publish("t", b"twice", qos=2)
            assert [m.body for m in b.topic("t")] == [b"1", b"twice"]
            assert client.connections == 2

    run(test())


def test_the_count_of_a_journal_is_that_of_messages_it_has_kept(tmp_path: Path) -> None:
    async def test() -> None:
        case, path = CASES["mqtt"], tmp_path / "journal.db"
        async with served(case) as (_, url):
            async with opened(case, url, path, QUICK) as (client, publish):
                await publish(b"1")
                no_room(case.store(client))
                with pytest.raises(JournalError):
                    await publish(BIG)
                del case.store(client)._write
                assert client.journal.count == 1
            async with opened(case, url, path) as (client, publish):
                assert client.journal.count == 1

    run(test())


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [("INSERT INTO nowhere VALUES (1)", ()), ("SELECT ?", (object(),)), ("SELECT ?", (1 << 64,))],
)
def test_a_statement_of_the_program_that_fails_ends_the_client(statement: str, parameters: Any, tmp_path: Path) -> None:
    """The other records of its transaction are written."""

    async def test() -> None:
        case, path = CASES["mqtt"], tmp_path / "journal.db"
        async with served(case) as (_, url):
            async with opened(case, url, path, QUICK) as (client, publish):
                client.journal.add("CREATE TABLE mine (x)")
                client.journal.add(statement, parameters)
                with pytest.raises(JournalError) as raised:
                    await publish(b"1")
                assert raised.value.statement == statement
                assert not client.connected
            async with opened(case, url, path) as (client, publish):
                assert await client.journal.read("SELECT * FROM mine") == []
                with pytest.raises(JournalError, match="no such table"):
                    await client.journal.read("SELECT * FROM nowhere")

    run(test())


# ---- transactions


def test_calls_with_nothing_new_share_the_transaction_that_waits(tmp_path: Path) -> None:
    """While the disk stalls, a driver asks once in each iteration of the loop. Who stops waiting does not cancel it."""

    async def test() -> None:
        store = Store(tmp_path / "journal.db", "me")
        await store.restore(list)
        begun, disk = threading.Event(), threading.Event()

        def stall() -> None:
            begun.set()
            disk.wait(60)

        stalled = asyncio.ensure_future(store._call(stall))
        await asyncio.to_thread(begun.wait, 60)
        first = store.put([Change("put", "outgoing", 1, b"1")])
        assert first is not None
        assert store.put([]) is first
        second = store.put([Change("put", "outgoing", 2, b"2")])
        assert second is not first
        assert store.put([]) is second
        leaver = asyncio.ensure_future(store.flush())
        await asyncio.sleep(0)
        leaver.cancel()
        await asyncio.wait([leaver])
        assert leaver.cancelled()
        assert store._thread._work_queue.qsize() == 2
        disk.set()
        await store.flush()
        assert first.done()
        assert [change.key for change in await store.records()] == [1, 2]
        assert store.put([]) is None
        await stalled
        await store.close()

    run(test())


def test_what_could_not_be_written_is_tried_again_with_nothing_new(tmp_path: Path) -> None:
    async def test() -> None:
        store = Store(tmp_path / "journal.db", "me")
        await store.restore(list)
        await pages(store, 1)
        failed = store.put([Change("put", "outgoing", 1, BIG)])
        assert failed is not None
        with pytest.raises(JournalError, match="full"):
            await failed
        await pages(store, 1 << 20)
        again = store.put([])
        assert again is not None
        assert again is not failed
        await again
        assert [change.key for change in await store.records()] == [1]
        await store.close()

    run(test())


# ---- locks


@pytest.mark.parametrize("name", CASES)
def test_a_journal_is_opened_by_one_client_at_a_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, path = CASES[name], tmp_path / "journal.db"
    monkeypatch.setattr(journals, "LOCK_WAIT", 0.05)
    (tmp_path / "link.db").symlink_to(path)

    async def test() -> None:
        async with served(case) as (_, url):
            async with opened(case, url, path) as (_, publish):
                await publish(b"1")
                for same in (path, tmp_path / "link.db"):
                    with pytest.raises(
                        JournalError, match=f"{case.owner!r} is open since 20.*Z, in process {os.getpid()} "
                    ) as e:
                        async with opened(case, url, same) as (_, other):
                            await other(b"2")
                    assert e.value.pid == os.getpid()
                another = Store(path, f"{case.owner} too")  # another owner's records
                await another.restore(list)
                await another.close()
                await publish(b"3")
            async with opened(case, url, path) as (_, publish):
                await publish(b"4")

    run(test())


HOLDER = """
import asyncio, sys
from wirefmt.connection.journal import Store

async def main():
    store = Store(sys.argv[1], "me")
    await store.restore(list)
    print("open", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"open\n"

            async def refused() -> None:
                with pytest.raises(JournalError, match=f"in process {child.pid} on ") as raised:
                    await Store(path, "me").restore(list)
                assert raised.value.pid == child.pid

            run(refused())
        finally:
            child.kill()

    async def test() -> None:
        store = Store(path, "me")
        await store.restore(list)
        await store.close()

    run(test())


# ---- files


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files (POSIX)")
@pytest.mark.parametrize("name", CASES)
def test_files_are_private(name: str, tmp_path: Path) -> None:
    """Those of a new journal from the beginning, and those of an old one."""
    case, path = CASES[name], tmp_path / "journal.db"

    def modes() -> set[int]:
        return {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}

    async def test() -> None:
        async with served(case) as (_, url):
            async with opened(case, url, path) as (_, publish):
                await publish(b"1")
                assert len(list(tmp_path.iterdir())) == 4  # database, -wal, -shm, lock
                assert modes() == {0o600}
            for file in tmp_path.iterdir():
                file.chmod(0o664)
            async with opened(case, url, path) as (_, publish):
                await publish(b"1")
                assert modes() == {0o600}

    before = os.umask(0)
    try:
        run(test())
    finally:
        os.umask(before)


def a_folder(path: Path) -> None:
    path.mkdir()


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database, but text" * 100)


def a_newer_format(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE wirefmt_format (version); INSERT INTO wirefmt_format VALUES (2)")


def another_table(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE wirefmt_records (x)")


def no_number(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE wirefmt_count (client, last, messages); INSERT INTO wirefmt_count VALUES ('meter', 'x', NULL)"
        )


def not_writable(path: Path) -> None:
    sqlite3.connect(path).close()
    path.chmod(0o400)
    path.parent.chmod(0o500)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "make", [a_folder, no_database, a_newer_format, another_table, *([not_writable] if os.geteuid() else [])]
)
def test_what_cannot_be_opened(name: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    case, path = CASES[name], tmp_path / "sub" / "journal.db"
    path.parent.mkdir()
    make(path)

    async def test() -> None:
        async with served(case) as (_, url):
            for file in (path, tmp_path / "nowhere" / "journal.db"):
                with pytest.raises(JournalError, match=str(file)):
                    async with opened(case, url, file) as (_, publish):
                        await publish(b"1")

    run(test())
    path.parent.chmod(0o700)


def test_a_count_that_is_no_number(tmp_path: Path) -> None:
    no_number(tmp_path / "journal.db")

    async def test() -> None:
        with pytest.raises(JournalError, match="not a number"):
            await mqtt.Journal(tmp_path / "journal.db", "meter").open()

    run(test())


# ---- records


def good_records(name: str) -> list[Change]:
    """Records of each kind that a journal of the protocol has."""
    if name == "mqtt":
        session = mqtt.Session("meter", journaled=True)
        for number in (1, 2):
            packet = mqtt.Publish(topic_name="t", payload=b"x", qos=number, packet_identifier=number).encode()
            session.add(packet, 5)
        held = mqtt.Publish(topic_name="t", payload=b"x", qos=2, packet_identifier=7).encode()
        session.hold(7, Held(5, held))
        return session.changes()
    if name == "amqp091":
        method = amqp091.BasicPublish(channel=1, exchange="", routing_key="q")
        message = amqp091.BasicMessage(method, amqp091.BasicProperties(), b"x")
        return [Change("put", "outgoing", 1, message.encode())]
    if name == "amqp10":
        return [Change("put", "outgoing", 1, amqp10.encode_value(amqp10.List(["q", 0, b"tag", b"\0Su\xa0\1x"])))]
    if name == "nsq":
        return [Change("put", "outgoing", 1, nsq.Publish(topic="t", body=b"x").encode())]
    return [Change("put", "outgoing", 1, b'["t", 0, {"k": "v"}]\nbody')]


async def read(name: str, path: Path) -> None:
    """Open the journal, as a client does."""
    if name == "mqtt":
        journal = mqtt.Journal(path, "meter")
        await journal.open()
        await journal.close()
    elif name == "amqp10":
        of_amqp10 = amqp10_journal.Journal(path, "meter")
        await of_amqp10.open()
        await of_amqp10.close()
    elif name == "rocketmq":
        of_rocketmq = rocketmq.Journal(path, "group")
        try:
            await of_rocketmq.left()
        finally:
            await of_rocketmq.close()
    else:
        store = Store(path, CASES[name].owner)
        await store.restore((amqp091 if name == "amqp091" else nsq).Session.replay)
        await store.close()


WRONG = [
    "UPDATE wirefmt_records SET value = 'text'",
    "UPDATE wirefmt_records SET value = 5",
    "UPDATE wirefmt_records SET value = 1.5",
    "UPDATE wirefmt_records SET value = NULL",
    "UPDATE wirefmt_records SET value = x''",
    "UPDATE wirefmt_records SET key = 'text' || key",
    "UPDATE wirefmt_records SET key = x'00' WHERE key = (SELECT max(key) FROM wirefmt_records)",
    "UPDATE wirefmt_records SET key = key + 0.5",
    "UPDATE wirefmt_records SET key = -1 - key",
    "UPDATE wirefmt_records SET tbl = 'nothing'",
    "UPDATE wirefmt_records SET tbl = x'ff'",
    "UPDATE wirefmt_records SET tbl = 5",
    "UPDATE wirefmt_records SET tbl = cast(x'ff' AS TEXT)",
]


@pytest.mark.parametrize("statement", WRONG)
@pytest.mark.parametrize("name", CASES)
def test_records_of_a_wrong_type(name: str, statement: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def test() -> None:
        store = Store(path, CASES[name].owner)
        await store.restore(list)
        written = store.put(good_records(name))
        assert written is not None
        await written
        await store.close()
        await read(name, path)
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(statement)
            database.commit()
        with pytest.raises(JournalError, match=str(path)):
            await read(name, path)

    run(test())


LOADERS: dict[str, Callable[[list[Change]], Any]] = {
    "mqtt": mqtt.Session.replay,
    "amqp091": amqp091.Session.replay,
    "amqp10": amqp10_journal._records,
    "nsq": nsq.Session.replay,
    "rocketmq": rocketmq_journal._entries,
}


@pytest.mark.parametrize("name", CASES)
def test_records_that_are_cut_or_changed_or_in_another_place(name: str) -> None:
    """They are read, or they are a DecodeError, which `Store.restore` makes a JournalError."""
    good, load = good_records(name), LOADERS[name]
    assert load(good)
    for n, change in enumerate(good):
        values = [change.value[:size] for size in range(len(change.value))]
        values += [
            change.value[:at] + bytes((octet ^ 0xFF,)) + change.value[at + 1 :] for at, octet in enumerate(change.value)
        ]
        changed = [change._replace(value=value) for value in values]
        changed += [change._replace(table=other.table, key=other.key) for other in good]
        for other in changed:
            with contextlib.suppress(DecodeError):
                load([*good[:n], other, *good[n + 1 :]])


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=20),
    st.lists(st.integers()),
)


@given(
    st.sampled_from(sorted(LOADERS)),
    st.data(),
)
def test_replay_raises_nothing_else(name: str, data: st.DataObject) -> None:
    """Changes of which one part is anything."""
    changes: list[Any] = good_records(name)
    n = data.draw(st.integers(0, len(changes) - 1))
    part = data.draw(st.sampled_from(["op", "table", "key", "value", "all"]))
    anything = data.draw(ANYTHING)
    changes[n] = anything if part == "all" else changes[n]._replace(**{part: anything})
    with contextlib.suppress(DecodeError):
        loaded = LOADERS[name](changes)
        if name in ("mqtt", "amqp091", "nsq"):
            type(loaded).restore(loaded.snapshot())


@pytest.mark.parametrize("journal", [mqtt.Journal, amqp10_journal.Journal, Store, rocketmq.Journal])
def test_a_journal_that_was_not_made_ends_in_silence(journal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with pytest.raises(TypeError):
        journal()
    gc.collect()
    assert not unraisable
