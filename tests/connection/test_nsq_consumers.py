"""Consumers of NSQ with several servers, look-ups, and servers that fail: max_in_flight, TOUCH, back-off, errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import nsq
from wirefmt.broker.nsq import Broker
from wirefmt.connection import Disconnected
from wirefmt.connection.recovery import ConnectionDown, ConnectionUp
from wirefmt.errors import ConnectionLost, LimitExceeded, Refused
from wirefmt.nsq import consumer

pytestmark = pytest.mark.filterwarnings("error")

QUICK = nsq.Backoff(first=0.01, most=0.02)


def url(server: nsq.Server) -> str:
    return f"nsq://{HOST}:{server.port}"


@contextlib.asynccontextmanager
async def brokers(*timeouts: int) -> AsyncIterator[tuple[list[Broker], list[nsq.Server]]]:
    """Brokers; for each the milliseconds that a message may be in flight."""
    made = [Broker() for _ in timeouts]
    servers = [
        await nsq.serve(broker, port=0, options=nsq.ConnectionOptions(msg_timeout=timeout))
        for broker, timeout in zip(made, timeouts, strict=True)
    ]
    yield made, servers
    for broker, server in zip(made, servers, strict=True):
        await server.close()
        broker.close()


@dataclass
class Judge:
    """A handler that counts how many run at once, and what the servers have in flight meanwhile."""

    servers: list[nsq.Server]
    seconds: float = 0.0
    now: int = 0
    most: int = 0
    most_at_servers: int = 0
    seen: Counter[bytes] = field(default_factory=Counter)

    async def __call__(self, message: nsq.Message) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        connections: list[Any] = [driver.connection for server in self.servers for driver in server.drivers]
        self.most_at_servers = max(self.most_at_servers, sum(connection.in_flight for connection in connections))
        self.seen[message.body] += 1
        await asyncio.sleep(self.seconds)
        self.now -= 1


@pytest.mark.parametrize("limit", [1, 2])
def test_max_in_flight_holds_over_all_servers_and_each_has_its_turn(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a turn is over while the handler works: the next server waits for its end."""
    monkeypatch.setattr(consumer, "TURN", 0.1)
    monkeypatch.setattr(consumer, "IDLE", 0.02)

    async def main() -> None:
        async with brokers(*[60_000] * 4) as (made, servers), nsq.connect(*map(url, servers)) as client:
            for number, broker in enumerate(made):
                broker.publish("t", *[b"%d" % number] * 2)
            judge = Judge(servers, 0.15)
            async with client.consume("t", "c", max_in_flight=limit) as messages:
                task = asyncio.create_task(messages.run(judge, concurrency=8))
                await until(lambda: sum(judge.seen.values()) == 8)
                await until(lambda: not judge.now)
                task.cancel()
            assert judge.seen == {b"%d" % number: 2 for number in range(4)}
            assert (judge.most, judge.most_at_servers) == (limit, limit)

    run(main())


def test_a_server_that_is_never_empty_lets_the_others_have_their_turn() -> None:
    async def main() -> None:
        async with brokers(60_000, 60_000) as (made, servers), nsq.connect(*map(url, servers)) as client:
            made[0].publish("t", *[b"0"] * 5_000)
            made[1].publish("t", b"1")
            judge = Judge(servers, 0.002)
            async with client.consume("t", "c", max_in_flight=1) as messages:
                await until(lambda: messages.connections == 2)
                task = asyncio.create_task(messages.run(judge))
                await until(lambda: judge.seen[b"1"])
                assert judge.seen[b"0"] < 5_000
                task.cancel()
            assert judge.most == 1

    run(main())


def test_a_message_beyond_max_in_flight_waits_here() -> None:
    """A server may have sent one before it has seen RDY 0 (nsqd 1.3 does, protocol_v2.go, messagePump)."""

    async def main() -> None:
        peers: list[nsq.Peer] = []

        async def serve(peer: nsq.Peer) -> None:
            async for event in peer:
                if isinstance(event, nsq.Identify | nsq.Sub):
                    peer.accept(event)
                if isinstance(event, nsq.Sub):
                    peers.append(peer)

        async with await nsq.serve(serve, port=0) as one, await nsq.serve(serve, port=0) as two:
            client = nsq.connect(url(one), url(two))
            async with client, client.consume("t", "c", max_in_flight=1) as messages:
                await until(lambda: len(peers) == 2 and messages.connections == 2)
                await until(lambda: all(link.turn for link in messages._links))  # each has had a turn
                for number, peer in enumerate(peers):
                    peer.connection.ready_count = 1  # of a turn before, whose end it has not seen
                    peer.connection.deliver(b"%016d" % number, b"x")
                    peer.driver.update()
                await until(lambda: messages._in_flight() == 2)
                seen = []
                for _ in range(2):
                    message = await messages.get()
                    seen.append(message.frame.message_id)
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(messages.get(), 0.01)
                    assert message.finish()
                assert sorted(seen) == [b"%016d" % n for n in range(2)]

    run(main())


def test_a_task_that_iterates_finishes_what_it_has_had_itself() -> None:
    async def main() -> None:
        async with brokers(60_000) as (made, servers), nsq.connect(url(servers[0])) as client:
            (broker,) = made
            async with client.consume("t", "c", max_in_flight=3) as messages:
                had: list[nsq.Message] = []
                gate = asyncio.Event()

                async def slow() -> None:
                    async for message in messages:
                        had.append(message)
                        await gate.wait()

                async def quick() -> None:
                    async for _ in messages:
                        pass

                tasks = [asyncio.create_task(slow())]
                broker.publish("t", b"0")
                await until(lambda: had)
                tasks.append(asyncio.create_task(quick()))
                broker.publish("t", *[b"1"] * 9)
                await until(lambda: broker.counts["finished"] == 9)
                assert had[0].in_flight
                gate.set()
                broker.publish("t", *[b"2"] * 9)
                await until(lambda: not had[0].in_flight)
                await until(lambda: broker.counts["finished"] >= 17)  # each iterator may have one in hand
            await asyncio.gather(*tasks)
            await until(lambda: broker.counts["finished"] == 19)

    run(main())


def test_more_handlers_run_once_max_in_flight_has_grown() -> None:
    async def main() -> None:
        async with brokers(60_000) as (made, servers), nsq.connect(url(servers[0])) as client:
            made[0].publish("t", *[b"x"] * 8)
            gate = asyncio.Event()
            running = 0

            async def handler(message: nsq.Message) -> None:
                nonlocal running
                running += 1
                await gate.wait()

            async with client.consume("t", "c", max_in_flight=1) as messages:
                task = asyncio.create_task(messages.run(handler, concurrency=4))
                await until(lambda: running)
                await asyncio.sleep(0.02)
                assert running == 1
                messages.change_max_in_flight(3)
                await until(lambda: running == 3)
                await asyncio.sleep(0.02)
                assert running == 3
                gate.set()
                await until(lambda: made[0].counts["finished"] == 8)
                task.cancel()

    run(main())


@pytest.mark.parametrize("interrupted", [False, True])
def test_touch_at_half_of_the_timeout_of_each_server(interrupted: bool) -> None:
    """Whatever the connections were when the consumer began, and after each of them has been made again."""

    async def main() -> None:
        again = nsq.Backoff(first=0.25, jitter=0.0)  # longer than half of a timeout
        async with brokers(200, 600) as (made, servers), nsq.connect(*map(url, servers), reconnect=again) as client:
            judge = Judge(servers, 0.8)
            async with client.consume("t", "c", max_in_flight=6) as messages:
                task = asyncio.create_task(messages.run(judge, concurrency=6))
                await until(lambda: messages.connections == 2)
                if interrupted:
                    for driver in [driver for server in servers for driver in server.drivers]:
                        driver.abort()
                    await until(lambda: not messages.connections)
                    await until(lambda: messages.connections == 2)
                for number, broker in enumerate(made):
                    broker.publish("t", b"%d a" % number, b"%d b" % number)
                await until(lambda: sum(broker.counts["finished"] for broker in made) == 4)
                task.cancel()
            assert judge.seen == {b"0 a": 1, b"0 b": 1, b"1 a": 1, b"1 b": 1}

    run(main())


class Lookup:
    """An nsqlookupd that names what a test says. `silent`: it accepts, and does not answer."""

    def __init__(self) -> None:
        self.producers: list[int] = []
        self.silent = False
        self.asked = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Lookup:
        self.server = await asyncio.start_server(self._on, HOST, 0)
        self.url = f"http://{HOST}:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self.server.wait_closed()

    async def _on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()  # the client has been closed meanwhile
            return
        assert request.startswith(b"GET /lookup?topic=t HTTP/1.0\r\n")
        self.asked += 1
        if self.silent:
            return
        found = [{"broadcast_address": HOST, "tcp_port": port} for port in self.producers]
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps({"channels": [], "producers": found}).encode())
        writer.close()


def test_a_topic_that_was_deleted_is_not_made_again() -> None:
    """SUB makes a topic, so there is no connection to a server that the look-up does not name any more (as with go-nsq)."""

    async def main() -> None:
        events: list[Any] = []
        async with brokers(60_000) as (made, servers), Lookup() as lookup:
            (broker,), (server,) = made, servers
            lookup.producers = [server.port]
            client = nsq.connect(lookup=[lookup.url], lookup_interval=0.02, reconnect=QUICK, on_event=events.append)
            async with client, client.consume("t", "c") as messages:
                await until(lambda: messages.connections == 1 and broker.topics)
                lookup.producers = []
                asked = lookup.asked
                await until(lambda: lookup.asked > asked + 3)
                assert messages.connections == 1  # one that is up stays, as the look-up may be wrong
                del broker.topics["t"]
                for driver in list(server.drivers):
                    driver.abort()
                await until(lambda: any(isinstance(e, ConnectionDown) and e.wait is None for e in events))
                asked = lookup.asked
                await until(lambda: lookup.asked > asked + 3)
                assert broker.topics == {}
                assert not messages.connections
                lookup.producers = [server.port]
                await until(lambda: messages.connections == 1)  # type: ignore[comparison-overlap]
                broker.publish("t", b"x")
                assert (await messages.get()).body == b"x"

    run(main())


def test_a_look_up_that_does_not_answer_holds_nothing() -> None:
    async def main() -> None:
        async with brokers(60_000) as (made, servers), Lookup() as good, Lookup() as silent:
            good.producers = [servers[0].port]
            client = nsq.connect(lookup=[good.url, silent.url], lookup_interval=0.02, reconnect=QUICK)
            async with client, client.consume("t", "c") as messages:
                await until(lambda: messages.connections)
                silent.silent = True
                asked = silent.asked
                await until(lambda: silent.asked > asked)
                made[0].publish("t", b"x")
                assert (await messages.get()).finish()
                async with asyncio.timeout(5.0):  # it has 10 seconds for its answer
                    await messages.close()

    run(main())


def test_a_server_that_accepts_and_drops_is_asked_less_and_less_and_given_up() -> None:
    async def main() -> None:
        events: list[Any] = []

        async def serve(peer: nsq.Peer) -> None:
            async for event in peer:
                if isinstance(event, nsq.Identify | nsq.Sub):
                    peer.accept(event)
                if isinstance(event, nsq.Sub):
                    peer.driver.close()  # after OK

        async with await nsq.serve(serve, port=0) as server:
            backoff = nsq.Backoff(first=0.01, factor=2.0, jitter=0.0, attempts=4)
            client = nsq.connect(url(server), reconnect=backoff, on_event=events.append)
            async with client, client.consume("t", "c") as messages:
                with pytest.raises(ConnectionLost):
                    await messages.get()
                with pytest.raises(ConnectionLost):
                    await anext(messages)
        down = [event.wait for event in events if isinstance(event, ConnectionDown)]
        assert down == [0.01, 0.02, 0.04, 0.08, None]
        ups = [event for event in events if isinstance(event, ConnectionUp)]
        assert len(ups) <= 6  # the producer's, and the consumer's

    run(main())


def test_a_message_above_our_limit_is_told() -> None:
    """nsqd would send it again and again, so there is no further connection to that server."""

    async def main() -> None:
        async with brokers(60_000, 60_000) as (made, servers):
            options = nsq.ConnectionOptions(frame_size=1000)
            client = nsq.connect(*map(url, servers), reconnect=QUICK, options=options)
            async with client, client.consume("t", "c") as messages:
                await until(lambda: messages.connections == 2)
                made[0].publish("t", bytes(2000))
                with pytest.raises(ConnectionLost) as told:
                    await messages.get()
                assert isinstance(told.value.__cause__, LimitExceeded)
                made[1].publish("t", b"x")  # the other one goes on
                assert (await messages.get()).body == b"x"
                assert messages.connections == 1

    run(main())


@pytest.mark.parametrize("again", [False, True])
def test_a_refused_publication_is_one_of_many(again: bool) -> None:
    """nsqd ends the connection after a refusal. The others are sent again, or have lost their connection."""

    async def main() -> None:
        seen: list[bytes] = []

        async def serve(peer: nsq.Peer) -> None:
            held: list[nsq.Publish] = []
            async for event in peer:
                if isinstance(event, nsq.Identify):
                    peer.accept(event)
                elif isinstance(event, nsq.Publish):
                    held.append(event)
                    if event.body_bytes() == b"wrong":
                        peer.refuse(event, "E_BAD_MESSAGE", "PUB message too big")
                    elif event.body_bytes() == b"last" or peer is not first[0]:
                        for each in held:
                            if each.body_bytes() != b"wrong":
                                seen.append(each.body_bytes())
                                peer.acknowledge(each)
                        held.clear()
                elif isinstance(event, Disconnected):
                    return

        first: list[nsq.Peer] = []

        async def remember(peer: nsq.Peer) -> None:
            first.append(peer)
            await serve(peer)

        async with await nsq.serve(remember, port=0) as server:
            client = nsq.connect(url(server), reconnect=QUICK if again else None)
            async with client:
                bodies = [b"wrong", b"1", b"2"]
                results = await asyncio.gather(*(client.publish("t", body) for body in bodies), return_exceptions=True)
        assert isinstance(results[0], Refused)
        assert results[0].code == "E_BAD_MESSAGE"
        if again:
            assert results[1:] == [None, None]
            assert seen == [b"1", b"2"]
        else:
            assert [type(result) for result in results[1:]] == [ConnectionLost, ConnectionLost]

    run(main())
