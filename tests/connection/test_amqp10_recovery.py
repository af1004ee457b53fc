"""The AMQP 1.0 client beside servers that end sessions, refuse and detach links, close windows and drop connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from lib.amqp10_pair import Pair, of
from lib.kinds import all_of, checked
from lib.loopback import HOST, run, until
from wirefmt import amqp10
from wirefmt.broker.amqp10 import Broker
from wirefmt.connection import WindowOpened
from wirefmt.connection.recovery import ConnectionDown, NotRestored
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

QUICK = amqp10.Backoff(first=0.01, most=0.05)


def message(text: str) -> amqp10.Message:
    return amqp10.Message(body=text.encode())


def packed() -> bytes:
    return message("x").encode()


def text(delivery: Any) -> str:
    return bytes(delivery.message.payload).decode()


def url(server: amqp10.Server, rest: str = "") -> str:
    return f"amqp://{HOST}:{server.port}{rest}"


def bodies(broker: Broker, queue: str) -> list[str]:
    return [
        bytes(checked(amqp10.decode_message(item.body).payload, memoryview)).decode()
        for item in sorted(broker.queue(queue).messages)
    ]


class Faulty:
    """The broker, and what it does beside.

    Attributes:
        missing: words of addresses whose attach ends the session, as RabbitMQ 4.0 does.
        refused: words of addresses whose attach is refused -> the condition.
        closing: the condition with which each connection is refused.
        begun: sessions that clients have begun.
        attached: how often each address was asked for.
        peers: those that are there.
        links: of clients, by address.
    """

    def __init__(self) -> None:
        self.broker = Broker()
        self.missing: set[str] = set()
        self.refused: dict[str, str] = {}
        self.closing: str | None = None
        self.begun = 0
        self.attached: Counter[str] = Counter()
        self.peers: list[amqp10.Peer] = []
        self.links: dict[str, Any] = {}
        self.mute: set[str] = set()

    def handle(self, peer: amqp10.Peer, event: Any) -> None:
        match event:
            case amqp10.Open() if self.closing is not None:
                peer.refuse(event, amqp10.Error(condition=self.closing))
                return
            case amqp10.Open():
                self.peers.append(peer)
            case amqp10.SessionBegun():
                self.begun += 1
            case amqp10.Attaching():
                terminus = event.link.source if event.link.sends else event.link.target
                name = str(terminus.address)
                self.attached[name] += 1
                if any(word in name for word in self.missing):
                    if event.link.session.mapped:
                        event.link.session.end(error=amqp10.Error(condition="amqp:not-found", description=name))
                        peer.update()
                    return
                for word, condition in self.refused.items():
                    if word in name:
                        peer.refuse(event, amqp10.Error(condition=condition))
                        return
                self.links[name] = event.link
            case amqp10.Incoming() if str(event.link.target.address) in self.mute:
                return
        self.broker.handle(peer, event)

    def writable(self, peer: amqp10.Peer) -> None:
        self.broker.writable(peer)

    def closed(self, peer: amqp10.Peer) -> None:
        self.broker.closed(peer)
        if peer in self.peers:
            self.peers.remove(peer)

    def drop(self) -> None:
        for peer in list(self.peers):
            peer.driver.abort()


@contextlib.asynccontextmanager
async def served(handler: Any, **options: Any) -> AsyncIterator[amqp10.Server]:
    async with await amqp10.serve(handler, HOST, 0, options=amqp10.ConnectionOptions(**options)) as server:
        yield server


# ---- windows


@pytest.mark.parametrize(("window", "senders", "each"), [(1, 1, 9), (1, 7, 9), (3, 2, 30), (400, 3, 300), (64, 40, 20)])
def test_all_senders_go_on_when_the_window_of_their_session_opens(window: int, senders: int, each: int) -> None:
    """2.5.6: the window is the session's, so that all senders that find it closed wait, not only the one that has closed it."""

    async def test() -> None:
        async with served(Broker(), incoming_window=window) as server, amqp10.connect(url(server)) as client:
            made = [await client.sender(f"/queues/q{n}") for n in range(senders)]
            sent = [sender.post(message("x")) for _ in range(each) for sender in made]
            assert set(await asyncio.gather(*sent)) == {amqp10.Accepted()}

    run(test())


@pytest.mark.parametrize(("limit", "senders", "each"), [(1, 1, 5), (1, 5, 5), (10, 2, 50), (100, 3, 300)])
def test_all_senders_go_on_when_deliveries_are_settled(limit: int, senders: int, each: int) -> None:
    async def test() -> None:
        options = amqp10.ConnectionOptions(unsettled=limit)
        async with served(Broker()) as server, amqp10.connect(url(server), options=options) as client:
            made = [await client.sender(f"/queues/q{n}") for n in range(senders)]
            sent = [sender.post(message("x")) for _ in range(each) for sender in made]
            assert set(await asyncio.gather(*sent)) == {amqp10.Accepted()}

    run(test())


def test_parts_of_messages_and_whole_ones_share_a_window() -> None:
    async def test() -> None:
        broker = Broker()
        large = amqp10.Message(body=bytes(70_000)).encode()
        async with served(broker, incoming_window=2, frame_size=4096) as server, amqp10.connect(url(server)) as client:
            made = [await client.sender(f"/queues/q{n}") for n in range(3)]
            parts = [large[at : at + 5000] for at in range(0, len(large), 5000)]
            streams = [sender.stream(parts) for sender in made for _ in range(2)]
            posts = [sender.post(message("x" * 9000)) for sender in made for _ in range(5)]
            assert set(await asyncio.gather(*streams, *posts)) == {amqp10.Accepted()}
            assert [broker.queue(f"q{n}").count for n in range(3)] == [7, 7, 7]

    run(test())


def test_no_sender_starves_while_another_has_more_than_the_window() -> None:
    async def test() -> None:
        async with served(Broker(), incoming_window=2) as server, amqp10.connect(url(server)) as client:
            greedy, modest = await client.sender("/queues/a"), await client.sender("/queues/b")
            many = [greedy.post(message("x")) for _ in range(400)]
            await modest.send(message("y"))
            assert sum(future.done() for future in many) < 100
            await asyncio.gather(*many)

    run(test())


def test_a_cancelled_stream_gives_its_turn_to_the_next() -> None:
    """Before its first part, between parts, and while a part waits for the window."""

    async def test() -> None:
        handler = Faulty()
        async with served(handler, incoming_window=1, frame_size=4096) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")

            async def slow() -> AsyncIterator[bytes]:
                yield amqp10.Message(body=bytes(50_000)).encode()[:40_000]
                await asyncio.sleep(60)

            for moment in range(0, 40, 3):
                first = asyncio.ensure_future(sender.stream(slow()))
                second = asyncio.ensure_future(sender.stream([message("never").encode()]))
                after = sender.post(message("after"))
                for _ in range(moment):
                    await asyncio.sleep(0)
                second.cancel()
                first.cancel()
                assert await after == amqp10.Accepted()
                await asyncio.gather(first, second, return_exceptions=True)

    run(test())


@pytest.mark.parametrize("closed", ["credit", "window", "unsettled"])
def test_a_host_that_has_asked_for_the_quota_is_told(closed: str) -> None:
    """`send_quota` 0 is enough, whatever is closed: the credit, the window, the quota of deliveries that are not settled."""
    pair = Pair(
        amqp10.ConnectionOptions(unsettled=2),
        amqp10.ConnectionOptions(incoming_window=2 if closed == "window" else 9),
    )
    ours, _ = pair.session()
    links = [pair.sender(ours, 0 if closed == "credit" else 9, f"s{n}") for n in range(3)]
    if closed != "credit":
        for _ in range(2):
            links[0][0].send(packed(), settled=closed == "window")
    assert [sender.send_quota for sender, _ in links] == [0, 0, 0]
    before, incoming = pair.carry()
    for event in of(incoming, amqp10.Incoming):
        if closed == "unsettled":
            pair.server.accept(event)
    for _, receiver in links:
        if closed == "credit":
            receiver.grant(1)
    events, _ = pair.carry()
    opened = [event.view for event in of(before + events, WindowOpened)]
    assert Counter(opened) == Counter(sender for sender, _ in links)


def test_each_time_another_sender_is_told_first() -> None:
    pair = Pair(server=amqp10.ConnectionOptions(incoming_window=1))
    ours, _ = pair.session()
    links = [pair.sender(ours, 9, f"s{n}")[0] for n in range(3)]
    first = []
    for _ in range(6):
        assert all(sender.send_quota for sender in links)
        links[0].send(packed(), settled=True)
        assert not any(sender.send_quota for sender in links)
        events, _ = pair.carry()
        first.append(of(events, WindowOpened)[0].view)
    assert Counter(first) == Counter(links * 2)


def test_a_link_that_leaves_makes_room_for_the_others() -> None:
    """Its deliveries do not count any more (`ConnectionOptions.unsettled`)."""
    pair = Pair(amqp10.ConnectionOptions(unsettled=1))
    ours, _ = pair.session()
    (full, theirs), (other, _) = pair.sender(ours, 5, "full"), pair.sender(ours, 5, "other")
    full.send(packed())
    assert other.send_quota == 0
    pair.carry()
    theirs.detach()
    events, _ = pair.carry()
    assert [event.view for event in of(events, WindowOpened)] == [other]
    part, _ = pair.sender(ours, 5, "part")
    begun = part.send(packed(), more=True)
    assert other.send_quota == 0
    assert other in [event.view for event in of(part.abort(begun), WindowOpened)]


# ---- sessions that the server ends


@pytest.mark.parametrize("reconnect", [None, QUICK])
@pytest.mark.parametrize("kind", ["sender", "receiver"])
@pytest.mark.parametrize("others", [0, 1, 5])
def test_a_link_that_ends_its_session_is_refused_alone(kind: str, others: int, reconnect: Any) -> None:
    async def test() -> None:
        handler = Faulty()
        handler.missing.add("missing")
        async with served(handler) as server, amqp10.connect(url(server), reconnect=reconnect) as client:
            senders = [await client.sender(f"/queues/{n}") for n in range(others)]
            receivers = [await client.receiver(f"/queues/{n}") for n in range(others)]
            for _ in range(3):
                with pytest.raises(Refused, match="not-found"):
                    await getattr(client, kind)("/queues/missing")
                for n in range(others):
                    assert await senders[n].send(message(f"{n}")) == amqp10.Accepted()
                    assert text(await receivers[n].receive()) == f"{n}"
            fine = await client.sender("/queues/new")
            assert await fine.send(message("x")) == amqp10.Accepted()
            assert client.connections == 1
            assert handler.begun <= 10
            assert handler.attached["/queues/missing"] <= 6

    run(test())


@pytest.mark.parametrize("sessions", [1, 2, 3, 256])
@pytest.mark.parametrize(("good", "bad"), [(1, 1), (3, 5), (12, 1), (1, 12)])
def test_links_that_are_attached_at_once_and_bad_ones_among_them(good: int, bad: int, sessions: int) -> None:
    """The end of a session names no link: none is blamed that is not at fault."""

    async def test() -> None:
        handler = Faulty()
        handler.missing.add("missing")
        async with served(handler, sessions=sessions) as server, amqp10.connect(url(server)) as client:
            first = await client.sender("/queues/first")
            names = [f"/queues/{n}" for n in range(good)] + [f"/queues/missing{n}" for n in range(bad)]
            names = names[::2] + names[1::2]
            found = await asyncio.gather(*(client.sender(name) for name in names), return_exceptions=True)
            for name, end in zip(names, found, strict=True):
                if "missing" in name:
                    assert isinstance(end, Refused)
                    assert name in str(end)
                else:
                    assert not isinstance(end, BaseException), end
                    assert await end.send(message("x")) == amqp10.Accepted()
            assert await first.send(message("x")) == amqp10.Accepted()
            assert client.connections == 1
            assert handler.begun <= 4 * (good + bad)

    run(test())


@pytest.mark.parametrize("most", [1, 3, 256])
def test_links_spread_over_sessions(most: int) -> None:
    """handle-max (2.7.2) limits the links of a session, not of a client."""

    async def test() -> None:
        handler = Faulty()
        async with served(handler, links=most) as server, amqp10.connect(url(server), reconnect=QUICK) as client:
            count = min(3 * most + 1, 300)
            senders = await asyncio.gather(*(client.sender(f"/queues/{n}") for n in range(count)))
            assert handler.begun == -(-count // most)
            handler.drop()
            assert set(await asyncio.gather(*(sender.send(message("x")) for sender in senders))) == {amqp10.Accepted()}
            assert client.connections == 2

    run(test())


def test_no_more_links_than_sessions_and_handles() -> None:
    async def test() -> None:
        async with served(Broker(), links=2, sessions=2) as server, amqp10.connect(url(server)) as client:
            senders = [await client.sender(f"/queues/{n}") for n in range(4)]
            with pytest.raises(LocalProtocolError, match="in use"):
                await client.sender("/queues/5")
            await senders[1].close()
            await client.sender("/queues/5")

    run(test())


def test_messages_without_an_outcome_are_sent_again_in_order_in_another_session() -> None:
    async def test() -> None:
        handler = Faulty()
        handler.missing.add("missing")
        handler.mute.add("/queues/slow")
        async with served(handler) as server, amqp10.connect(url(server)) as client:
            slow, quick = await client.sender("/queues/slow"), await client.sender("/queues/quick")
            waiting = [slow.post(message(str(n))) for n in range(50)]
            await quick.send(message("before"))
            handler.mute.clear()
            with pytest.raises(Refused):
                await client.receiver("/queues/missing")
            waiting += [slow.post(message(str(n))) for n in range(50, 60)]
            assert set(await asyncio.gather(*waiting)) == {amqp10.Accepted()}
            assert bodies(handler.broker, "slow") == [str(n) for n in range(60)]

    run(test())


@pytest.mark.parametrize("error", [None, "amqp:internal-error"])
@pytest.mark.parametrize("links", [1, 2, 5])
def test_a_session_that_ends_for_no_link_comes_back(links: int, error: str | None) -> None:
    async def test() -> None:
        handler = Faulty()
        told: list[Any] = []
        async with (
            served(handler) as server,
            amqp10.connect(url(server), reconnect=QUICK, on_event=told.append) as client,
        ):
            senders = [await client.sender(f"/queues/{n}") for n in range(links)]
            for _ in range(3):
                for session in {link.session for link in handler.links.values()}:
                    session.end(amqp10.Error(condition=error) if error else None)
                handler.peers[0].update()
                assert set(await asyncio.gather(*(s.send(message("x")) for s in senders))) == {amqp10.Accepted()}
            assert client.connections == 1
            assert all(not isinstance(event, ConnectionDown) for event in told)

    run(test())


def test_a_session_that_ends_each_time_makes_no_storm() -> None:
    """The links of a server that takes them and ends their session at once come back later and later."""

    async def test() -> None:
        told: list[Any] = []

        class Ending(Faulty):
            def handle(self, peer: amqp10.Peer, event: Any) -> None:
                super().handle(peer, event)
                if isinstance(event, amqp10.Attaching):
                    event.link.session.end(amqp10.Error(condition="amqp:internal-error"))
                    peer.update()

        handler = Ending()
        backoff = amqp10.Backoff(first=0.01, most=10.0, jitter=0.0)
        async with (
            served(handler) as server,
            amqp10.connect(url(server), reconnect=backoff, on_event=told.append) as client,
        ):
            with contextlib.suppress(Refused):
                await client.sender("/queues/a")
            with contextlib.suppress(Refused):
                await client.sender("/queues/b")
            await asyncio.sleep(0.5)
            waits = [event.wait for event in told if isinstance(event, NotRestored)]
            assert handler.begun < 30
            assert client.connections == 1
            assert waits[:1] == [] or max(wait or 0.0 for wait in waits) > 0.04

    run(test())


def test_a_streamed_message_whose_session_ends_raises() -> None:
    async def test() -> None:
        handler = Faulty()
        handler.missing.add("missing")
        async with served(handler) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            going = asyncio.Event()

            async def parts() -> AsyncIterator[bytes]:
                whole = amqp10.Message(body=bytes(100_000)).encode()
                yield whole[:70_000]
                yield whole[70_000:80_000]
                going.set()
                await asyncio.sleep(0.05)
                yield whole[80_000:]

            stream = asyncio.ensure_future(sender.stream(parts()))
            await going.wait()
            after = sender.post(message("after"))
            with pytest.raises(Refused):
                await client.receiver("/queues/missing")
            with pytest.raises(ConnectionLost):
                await stream
            assert await after == amqp10.Accepted()
            assert bodies(handler.broker, "a") == ["after"]

    run(test())


def test_close_while_a_session_ends() -> None:
    """At any moment: of the link, and of the client."""

    async def test() -> None:
        handler = Faulty()
        handler.missing.add("missing")
        for moment in range(30):
            async with served(handler) as server, amqp10.connect(url(server), reconnect=QUICK) as client:
                sender = await client.sender("/queues/a")
                receiver = await client.receiver("/queues/b")
                waiting = asyncio.ensure_future(receiver.receive())
                bad = asyncio.ensure_future(client.receiver("/queues/missing"))
                for _ in range(moment):
                    await asyncio.sleep(0)
                await asyncio.gather(sender.close(), receiver.close(), receiver.close())
                with pytest.raises(ConnectionLost):
                    await waiting
                if moment % 2:
                    with pytest.raises(Refused):
                        await bad
            await asyncio.gather(bad, return_exceptions=True)

    run(test())


# ---- links that are refused when they come back, or detached


def gone(told: list[Any]) -> list[tuple[str, Any]]:
    return [(event.action, event.entity) for event in told if isinstance(event, NotRestored)]


@pytest.mark.parametrize(
    ("policy", "condition", "action", "ends_session"),
    [
        (None, "amqp:not-found", "retry", False),
        (None, "amqp:not-found", "retry", True),
        (None, "amqp:resource-locked", "retry", False),
        (None, "amqp:unauthorized-access", "fail", False),
        ("retry", "amqp:unauthorized-access", "retry", False),
        ("skip", "amqp:not-found", "skip", False),
        ("skip", "amqp:not-found", "skip", True),
        ("fail", "amqp:not-found", "fail", False),
        ("fail", "amqp:not-found", "fail", True),
    ],
)
def test_a_link_that_is_refused_when_it_comes_back(
    policy: Any, condition: str, action: str, ends_session: bool
) -> None:
    async def test() -> None:
        handler = Faulty()
        told: list[Any] = []
        backoff = amqp10.Backoff(first=0.01, most=0.02)
        async with (
            served(handler) as server,
            amqp10.connect(url(server), reconnect=backoff, on_event=told.append) as client,
        ):
            sender = await client.sender("/queues/a", on_refused=policy)
            receiver = await client.receiver("/queues/a", on_refused=policy)
            good = await client.sender("/queues/good")
            waiting = asyncio.ensure_future(receiver.receive())
            await asyncio.sleep(0)
            if ends_session:
                handler.missing.add("/a")
            else:
                handler.refused["/a"] = condition
            handler.drop()
            late = sender.post(message("late"))
            assert await good.send(message("x")) == amqp10.Accepted()
            await until(lambda: {entity for _, entity in gone(told)} == {sender, receiver})
            assert {one for one, _ in gone(told)} == {action}
            assert await good.send(message("y")) == amqp10.Accepted()
            if action == "fail":
                for one in (late, waiting):
                    with pytest.raises(Refused, match=condition):
                        await one
                with pytest.raises(Refused, match=condition):
                    await sender.send(message("z"))
            handler.refused.clear()
            handler.missing.clear()
            if action == "skip":
                await asyncio.sleep(0.05)
                assert not late.done()
                handler.drop()
            if action != "fail":
                assert await late == amqp10.Accepted()
                assert text(await waiting) == "late"

    run(test())


@pytest.mark.parametrize(
    ("condition", "reconnect", "policy", "comes_back"),
    [
        ("amqp:link:detach-forced", QUICK, None, True),
        (None, QUICK, None, True),
        ("amqp:internal-error", QUICK, None, True),
        ("amqp:link:stolen", QUICK, None, False),
        ("amqp:link:redirect", QUICK, None, False),
        ("amqp:resource-deleted", QUICK, None, False),
        ("amqp:resource-deleted", QUICK, "retry", True),
        ("amqp:link:detach-forced", QUICK, "fail", False),
        ("amqp:link:detach-forced", None, None, False),
        ("amqp:link:detach-forced", None, "retry", True),
    ],
)
def test_a_link_that_the_server_detaches(condition: str | None, reconnect: Any, policy: Any, comes_back: bool) -> None:
    async def test() -> None:
        handler = Faulty()
        handler.mute.add("/queues/a")
        async with served(handler) as server, amqp10.connect(url(server), reconnect=reconnect) as client:
            if reconnect is None:
                client._reconnect = None
            sender = await client.sender("/queues/a", on_refused=policy)
            waiting = [sender.post(message(str(n))) for n in range(3)]
            await until(lambda: not sender._queue and handler.peers[0].connection.undecided == 3)
            handler.mute.clear()
            handler.links["/queues/a"].detach(amqp10.Error(condition=condition) if condition else None)
            handler.peers[0].update()
            if comes_back:
                assert set(await asyncio.gather(*waiting)) == {amqp10.Accepted()}
                assert bodies(handler.broker, "a") == ["0", "1", "2"]
                assert client.connections == 1
            else:
                for one in waiting:
                    with pytest.raises(Refused):
                        await one
                with pytest.raises(Refused):
                    await sender.send(message("x"))

    run(test())


def test_a_link_that_is_detached_each_time_comes_back_later_and_later() -> None:
    async def test() -> None:
        told: list[Any] = []

        class Detaching(Faulty):
            def handle(self, peer: amqp10.Peer, event: Any) -> None:
                super().handle(peer, event)
                if isinstance(event, amqp10.Attaching):
                    event.link.detach(amqp10.Error(condition="amqp:link:detach-forced"))
                    peer.update()

        backoff = amqp10.Backoff(first=0.01, most=10.0, jitter=0.0, attempts=5)
        async with (
            served(Detaching()) as server,
            amqp10.connect(url(server), reconnect=backoff, on_event=told.append) as client,
        ):
            sender = await client.sender("/queues/a")
            with pytest.raises(Refused, match="forced"):
                await sender.send(message("x"))
            waits = [event.wait for event in told if isinstance(event, NotRestored)]
            assert waits[-1] is None
            assert len(waits) == 6
            assert all(later >= 2 * earlier for earlier, later in pairwise(all_of(waits[:-1], float)))

    run(test())


# ---- several tasks on one receiver


def test_each_message_wakes_one_of_the_tasks_that_wait() -> None:
    async def test() -> None:
        async with served(Broker()) as server, amqp10.connect(url(server)) as client:
            sender, receiver = await client.sender("/queues/w"), await client.receiver("/queues/w", settle="manual")
            tasks = [asyncio.ensure_future(receiver.receive()) for _ in range(6)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            for n in range(3):
                await sender.send(message(str(n)))
            await until(lambda: sum(task.done() for task in tasks) == 4)
            assert sorted(text(task.result()) for task in tasks if task.done() and not task.cancelled()) == [
                "0",
                "1",
                "2",
            ]
            await receiver.close()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(one, ConnectionLost) for one in ended) == 2

    run(test())


@pytest.mark.parametrize("way", ["receive", "loop", "shared loop"])
def test_a_task_accepts_only_what_it_has_had_itself(way: str) -> None:
    async def test() -> None:
        broker = Broker()
        async with served(broker) as server, amqp10.connect(url(server)) as client:
            sender, receiver = await client.sender("/queues/w"), await client.receiver("/queues/w", credit=10)
            shared = aiter(receiver)
            go = {name: asyncio.Semaphore(0) for name in "AB"}
            seen: dict[str, list[str]] = {"A": [], "B": []}

            async def work(name: str) -> None:
                loop = {"receive": None, "loop": aiter(receiver), "shared loop": shared}[way]
                while True:
                    delivery = await (receiver.receive() if loop is None else anext(loop))
                    seen[name].append(text(delivery))
                    await go[name].acquire()

            workers = [asyncio.create_task(work(name)) for name in "AB"]
            for n in range(4):
                await sender.send(message(str(n)))
            await until(lambda: seen == {"A": ["0"], "B": ["1"]})
            go["B"].release()
            await until(lambda: seen["B"] == ["1", "2"])
            # B has asked for the next one: its first one is accepted, A's is not
            peer: Any = next(iter(server.drivers)).connection
            await until(lambda: peer.sessions[0].outgoing.records and len(peer.sessions[0].outgoing) == 3)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            # what they had is given back
            again = [text(await receiver.receive()) for _ in range(3)]
            assert sorted(again) == ["0", "2", "3"]

    run(test())


def test_what_becomes_of_the_delivery_of_a_task_that_ends() -> None:
    async def test() -> None:
        broker = Broker()
        async with served(broker) as server, amqp10.connect(url(server)) as client:
            sender, receiver = await client.sender("/queues/w"), await client.receiver("/queues/w", credit=1)

            async def work(error: Exception | None) -> str:
                delivery = await receiver.receive()
                if error is not None:
                    raise error
                return text(delivery)

            await sender.send(message("0"))
            with pytest.raises(ValueError, match="no"):
                await asyncio.create_task(work(ValueError("no")))
            delivery = await receiver.receive()  # it was given back
            assert (text(delivery), delivery.message.header.delivery_count) == ("0", 1)
            receiver.accept(delivery)
            await sender.send(message("1"))
            assert await asyncio.create_task(work(None)) == "1"
            await sender.send(message("2"))
            assert text(await receiver.receive()) == "2"  # credit 1: the one before is accepted now
            await sender.send(message("3"))
            async for last in receiver:  # the next one: this task has had the one before
                assert text(last) == "3"
                break
            working = asyncio.create_task(work(None))
            await asyncio.sleep(0.05)
            assert not working.done()
            await sender.send(message("4"))
            assert await working == "4"
        assert bodies(broker, "w") == []  # leaving the block accepts what is left

    run(test())


@pytest.mark.parametrize("way", ["task", "loop"])
def test_what_nobody_has_any_more_is_accepted_while_another_task_waits(way: str) -> None:
    """It would use the credit for ever: the task that waits has asked before."""

    async def test() -> None:
        async with served(Broker()) as server, amqp10.connect(url(server)) as client:
            sender, receiver = await client.sender("/queues/w"), await client.receiver("/queues/w", credit=1)

            async def take_one() -> None:
                if way == "task":
                    await receiver.receive()
                    return
                async for _ in receiver:
                    break
                await asyncio.sleep(1)

            first = asyncio.create_task(take_one())
            await asyncio.sleep(0.01)
            second = asyncio.create_task(receiver.receive())
            await asyncio.sleep(0)
            for n in range(2):
                sender.post(message(str(n)))
            assert text(await second) == "1"
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    run(test())


def test_leaving_the_block_accepts_only_what_this_task_has_had() -> None:
    async def test() -> None:
        broker = Broker()
        async with served(broker) as server:
            async with amqp10.connect(url(server)) as client:
                sender, receiver = await client.sender("/queues/w"), await client.receiver("/queues/w")
                for n in range(2):
                    await sender.send(message(str(n)))
                assert text(await receiver.receive()) == "0"

                async def work() -> None:
                    await receiver.receive()
                    await asyncio.sleep(60)

                worker = asyncio.create_task(work())
                await asyncio.sleep(0.02)
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            await until(lambda: broker.queue("w").count == 1)
            assert bodies(broker, "w") == ["1"]

    run(test())


# ---- connections that are refused


def test_a_server_that_refuses_the_connection_says_why() -> None:
    """2.4.1: it sends open, and close with the error behind it."""

    async def test() -> None:
        handler = Faulty()
        handler.closing = "amqp:connection:forced"
        async with served(handler) as server:
            client = amqp10.connect(url(server))
            with pytest.raises(Refused, match="forced") as refused:
                await client.open()
            assert refused.value.code == "amqp:connection:forced"
            assert not client.connected
            await client.close()

    run(test())


@pytest.mark.parametrize(
    ("condition", "final"),
    [
        ("amqp:connection:forced", False),
        ("amqp:resource-limit-exceeded", False),
        ("amqp:internal-error", False),
        ("amqp:connection:redirect", False),
        ("vendor:busy", False),
        ("amqp:unauthorized-access", True),
        ("amqp:not-allowed", True),
    ],
)
def test_a_reconnection_goes_on_if_the_cause_can_pass(condition: str, final: bool) -> None:
    async def test() -> None:
        handler = Faulty()
        told: list[Any] = []
        async with (
            served(handler) as server,
            amqp10.connect(url(server), reconnect=QUICK, on_event=told.append) as client,
        ):
            sender = await client.sender("/queues/a")
            handler.closing = condition
            handler.drop()
            await until(lambda: sum(isinstance(event, ConnectionDown) for event in told) >= (2 if final else 4))
            late = None
            if not final:
                late = sender.post(message("x"))
            handler.closing = None
            if late is not None:
                assert await late == amqp10.Accepted()
            else:
                await until(lambda: not client.is_open)
                assert not client.connected
                with pytest.raises(Refused, match=condition):
                    await sender.send(message("x"))
                with pytest.raises(Refused, match=condition):
                    await client.receiver("/queues/a")

    run(test())


# ---- what the program has set by hand


def test_credit_that_was_given_by_hand_holds_after_a_reconnection() -> None:
    async def test() -> None:
        handler = Faulty()
        async with served(handler) as server, amqp10.connect(url(server), reconnect=QUICK) as client:
            sender = await client.sender("/queues/a")
            receiver = await client.receiver("/queues/a", credit=0, settle="manual")
            receiver.grant(3)
            await sender.send(message("0"))
            receiver.accept(await receiver.receive())
            await client.sender("/queues/other")  # the answer has arrived
            handler.drop()
            for n in range(1, 5):
                await sender.send(message(str(n)))
            got = [text(await receiver.receive()) for _ in range(2)]
            assert got == ["1", "2"]
            await asyncio.sleep(0.02)
            assert not receiver._inbox
            handler.drop()
            await until(lambda: not client.connected)
            receiver.grant(2)  # it is given once there is a link
            assert {text(await receiver.receive()) for _ in range(2)} <= {"1", "2", "3", "4"}

    run(test())


def test_messages_that_were_lost_with_the_connection_do_not_use_credit() -> None:
    """They had arrived, but the program had not taken them: they come again."""

    async def test() -> None:
        handler = Faulty()
        async with served(handler) as server, amqp10.connect(url(server), reconnect=QUICK) as client:
            sender = await client.sender("/queues/a")
            receiver = await client.receiver("/queues/a", credit=0)
            receiver.grant(2)
            for n in range(2):
                await sender.send(message(str(n)))
            await until(lambda: len(receiver._inbox) == 2)
            handler.drop()
            await until(lambda: not client.connected)
            assert [text(await receiver.receive()) for _ in range(2)] == ["0", "1"]

    run(test())


@pytest.mark.parametrize("credit", [0, 10])
def test_a_drain_that_waits_is_asked_again_after_a_reconnection(credit: int) -> None:
    async def test() -> None:
        handler = Faulty()
        drains = 0

        class Slow(Faulty):
            def handle(self, peer: amqp10.Peer, event: Any) -> None:
                nonlocal drains
                if isinstance(event, amqp10.DrainRequested):
                    drains += 1
                    if drains == 1:
                        peer.driver.abort()
                        return
                super().handle(peer, event)

        handler = Slow()
        async with served(handler) as server, amqp10.connect(url(server), reconnect=QUICK) as client:
            receiver = await client.receiver("/queues/a", credit=credit)
            if not credit:
                receiver.grant(5)
            await receiver.drain()
            assert drains == 2
            assert client.connections == 2
            if not credit:
                assert receiver.link.credit == 0
            receiver.grant(1)

    run(test())


def test_a_drain_that_waits_ends_with_the_connection() -> None:
    async def test() -> None:
        class Ending(Faulty):
            def handle(self, peer: amqp10.Peer, event: Any) -> None:
                if isinstance(event, amqp10.DrainRequested):
                    peer.driver.abort()
                else:
                    super().handle(peer, event)

        async with served(Ending()) as server, amqp10.connect(url(server)) as client:
            receiver = await client.receiver("/queues/a", credit=0)
            receiver.grant(5)
            with pytest.raises(ConnectionLost):
                await receiver.drain()

    run(test())


def test_a_sender_answers_drain_once_and_whatever_waits() -> None:
    """2.6.7: also without credit; and what it sends later brings no further flows."""

    async def test() -> None:
        peers: list[Any] = []
        drained = 0

        async def handler(peer: amqp10.Peer) -> None:
            nonlocal drained
            async for event in peer:
                match event:
                    case amqp10.Login() | amqp10.Open():
                        peer.accept(event)
                    case amqp10.Attaching():
                        peer.accept(event)
                        peers.append((peer, event.link))
                    case amqp10.Incoming():
                        peer.accept(event)
                    case amqp10.Drained():
                        drained += 1

        async with await amqp10.serve(handler, HOST, 0) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("anything")
            waiting = [sender.post(message(str(n))) for n in range(3)]
            peer, link = peers[0]
            link.grant(2)
            link.drain()
            peer.update()
            await until(lambda: drained == 1)
            await asyncio.gather(*waiting[:2])
            link.drain()  # there is no credit
            peer.update()
            await until(lambda: drained == 2)
            link.grant(5)
            peer.update()
            await asyncio.gather(*waiting, *(sender.post(message("x")) for _ in range(3)))
            assert link.credit == 1
            assert drained == 2

    run(test())


# ---- messages that violate 3.2.5


def test_a_delivery_with_nested_application_properties_can_be_read() -> None:
    """3.2.5: simple values only. RabbitMQ passes on others; its receiver cannot change it."""
    nested = b"\x00\x53\x74" + amqp10.encode_value(amqp10.Map({"a": amqp10.List([1, 2])}))
    payload = nested + message("x").encode()

    async def test() -> None:
        async with served(Broker()) as server, amqp10.connect(url(server)) as client:
            sender, receiver = await client.sender("/queues/a"), await client.receiver("/queues/a")
            for large in (b"", bytes(200_000)):
                sent = nested + amqp10.Message(body=b"x" + large).encode()
                assert await sender.send(sent) == amqp10.Accepted()
                read = (await receiver.receive()).message
                assert list(read.application_properties["a"]) == [1, 2]
                assert [note.check for note in read.notes] == ["PROPERTY_VALUE"]

    run(test())
    with pytest.raises(ValueError, match="simple type"):
        amqp10.decode_message(payload)
    with pytest.raises(ValueError, match="simple type"):
        amqp10.Message(application_properties={"a": amqp10.List([1])}, body=b"")


# ---- calls at the wrong moment


def test_links_that_wait_for_the_session_can_be_given_up() -> None:
    """For the peer's begin, which says how many links there may be; and until another one of the session is attached."""

    async def test() -> None:
        handler = Faulty()
        async with served(handler) as server, amqp10.connect(url(server)) as client:
            found = [asyncio.ensure_future(client.sender(f"/queues/{n}")) for n in range(4)]
            await asyncio.sleep(0)
            found[2].cancel()
            await asyncio.wait(found)
            assert [one.cancelled() for one in found] == [False, False, True, False]
            assert handler.attached["/queues/2"] == 0
        handler.missing.add("missing")
        async with served(handler, sessions=1) as server, amqp10.connect(url(server)) as client:
            with pytest.raises(Refused):
                await client.sender("/queues/missing")
            found = [asyncio.ensure_future(client.sender(f"/queues/{n}")) for n in range(4)]
            await asyncio.sleep(0)
            found[2].cancel()
            await asyncio.wait(found)
            assert [one.cancelled() for one in found] == [False, False, True, False]

    run(test())


def test_a_session_of_the_server_itself_is_no_concern_of_the_client() -> None:
    async def test() -> None:
        handler = Faulty()
        async with served(handler) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            theirs = handler.peers[0].connection.begin()
            handler.peers[0].update()
            await sender.send(message("x"))
            theirs.end(amqp10.Error(condition="amqp:internal-error"))
            handler.peers[0].update()
            await sender.send(message("y"))

    run(test())


def test_an_attach_that_cannot_be_sent_raises() -> None:
    async def test() -> None:
        async with served(Broker(), frame_size=512) as server, amqp10.connect(url(server)) as client:
            before = await client.sender("/queues/a")
            with pytest.raises(LocalProtocolError, match="fit"):
                await client.sender("/queues/" + "x" * 600)
            with pytest.raises(TypeError):
                await client.receiver("/queues/a", rcv_settle_mode="second")
            assert len(client._ends) == 1
            await before.send(message("x"))
            await (await client.sender("/queues/b")).send(message("x"))
            with pytest.raises(LocalProtocolError, match="32 bytes"):
                await before.send(message("x"), delivery_tag=bytes(33))

    run(test())


def test_settled_messages_in_parts() -> None:
    async def test() -> None:
        handler = Faulty()
        async with served(handler) as server, amqp10.connect(url(server), reconnect=QUICK) as client:
            sender = await client.sender("/queues/a", settled=True)
            assert sender.target.address == "/queues/a"
            whole = amqp10.Message(body=bytes(100_000)).encode()
            assert await sender.stream([whole[:60_000], whole[60_000:]], settled=True) is None
            await until(lambda: handler.broker.queue("a").count == 1)

            async def cut() -> AsyncIterator[bytes]:
                yield whole[:60_000]
                yield whole[60_000:70_000]
                handler.drop()
                await until(lambda: not client.connected)
                yield whole[70_000:]

            with pytest.raises(ConnectionLost, match="all parts"):
                await sender.stream(cut(), settled=True)
            assert sender.target is None or client.connected
            assert await sender.send(message("x")) is None
            await until(lambda: handler.broker.queue("a").count == 2)

    run(test())


def test_blocks_and_loops_end_with_their_receiver() -> None:
    async def test() -> None:
        broker = Broker()
        async with served(broker) as server, amqp10.connect(url(server)) as client:
            sender = await client.sender("/queues/a")
            for n in range(3):
                await sender.send(message(str(n)))
            async with await client.receiver("/queues/a", credit=1) as receiver:
                assert text(await receiver.receive()) == "0"
            assert broker.queue("a").count == 2  # accepted

            async def failing() -> None:
                async with await client.receiver("/queues/a", credit=1) as receiver:
                    assert text(await receiver.receive()) == "1"
                    raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                await failing()
            await until(lambda: broker.queue("a").count == 2)  # not accepted
            receiver = await client.receiver("/queues/a")
            seen = []

            async def work() -> None:
                async for delivery in receiver:
                    seen.append(text(delivery))

            worker = asyncio.create_task(work())
            await until(lambda: len(seen) == 2)
            await receiver.close()
            await worker
            await receiver.close()
            with pytest.raises(ConnectionLost):
                await receiver.receive()
            receiver = await client.receiver("/queues/a")
            worker = asyncio.create_task(work())
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(ConnectionLost):
                await worker

    run(test())


def test_credit_that_cannot_be_given() -> None:
    async def test() -> None:
        handler = Faulty()

        class Quiet(Faulty):
            def handle(self, peer: amqp10.Peer, event: Any) -> None:
                if not isinstance(event, amqp10.DrainRequested):
                    super().handle(peer, event)

        handler = Quiet()
        async with served(handler) as server, amqp10.connect(url(server)) as client:
            receiver = await client.receiver("/queues/a", credit=0)
            with pytest.raises(LocalProtocolError, match="credit"):
                receiver.grant(-1)
            receiver.grant(1)
            drains = [asyncio.ensure_future(receiver.drain()) for _ in range(2)]
            await asyncio.sleep(0.01)
            with pytest.raises(LocalProtocolError, match="drain"):
                receiver.grant(1)
            handler.links["/queues/a"].drained()
            handler.peers[0].update()
            await asyncio.gather(*drains)
            receiver.grant(1)

    run(test())


def test_a_link_whose_place_another_one_has_taken_waits_for_one() -> None:
    """It was detached, and all handles are in use when it comes back."""

    async def test() -> None:
        handler = Faulty()
        told: list[Any] = []
        async with (
            served(handler, links=2, sessions=1) as server,
            amqp10.connect(url(server), reconnect=QUICK, on_event=told.append) as client,
        ):
            first, _ = await client.sender("/queues/a"), await client.sender("/queues/b")
            handler.links["/queues/a"].detach(amqp10.Error(condition="amqp:link:detach-forced"))
            handler.peers[0].update()
            await until(lambda: told[1:])
            other = await client.sender("/queues/c")
            waiting = first.post(message("x"))
            await until(lambda: any("in use" in str(event.error) for event in told[1:]))
            await other.close()
            assert await waiting == amqp10.Accepted()

    run(test())
