"""NSQ: a producer, consumers and a server in one process, under a virtual clock and a network that cuts and delays at any byte.

Any side may be killed at any moment: it starts again from what was durable. Hosts decide at random, late and out of order.
What is on the wire is counted apart from the connections' insides.

Every run has a seed. `SIMULATE_STEPS=1000000 SIMULATE_SEED=7 pytest tests/connection/test_nsq_simulation.py` runs more, or
runs one again.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, deque
from typing import Any

import pytest

from lib.simulated import PARTS, RUN, run_part
from wirefmt import nsq
from wirefmt.connection import Acknowledged, Change, Connected, Disconnected, StartTls, WindowOpened
from wirefmt.errors import LocalProtocolError
from wirefmt.nsq import ClientConnection, ServerConnection
from wirefmt.nsq.spec import ServerOptions
from wirefmt.nsq.states import State

SETTLE = 6000  # steps in which a world must come to rest
OPTIONS = nsq.ConnectionOptions(
    unanswered=8,
    undecided=5,
    pending_bytes=50_000,
    tls="offered",
    server=ServerOptions(max_rdy_count=9, max_msg_timeout=5000),
)


class Wire:
    """Counts on the server's side of one connection what its client may have in flight."""

    def __init__(self, plain: bool) -> None:
        self.plain = plain
        self.reads, self.writes = nsq.Decoder(side="client", magic=True), nsq.Decoder(side="server")
        self.ready = 0
        self.in_flight: set[bytes] = set()

    def came(self, data: bytes) -> None:
        for command in self.reads.feed(data) if self.plain else ():
            if isinstance(command, nsq.Ready):
                self.ready = command.count or 0
            elif isinstance(command, nsq.Finish | nsq.Requeue):
                self.in_flight.discard(command.message_id or b"")

    def written(self, data: bytes) -> None:
        for frame in self.writes.feed(data) if self.plain else ():
            if isinstance(frame, nsq.MessageFrame):
                assert frame.message_id not in self.in_flight, "in flight twice"
                self.in_flight.add(frame.message_id)
                assert len(self.in_flight) <= self.ready, "more in flight than RDY"


class Link:
    """One connection: both machines, and what is pending between them."""

    def __init__(self, world: World, role: str, session: nsq.Session | None) -> None:
        self.world, self.role = world, role
        self.client = ClientConnection(world.now, session, OPTIONS)
        self.server = ServerConnection(world.now, OPTIONS)
        self.pipes: dict[str, deque[tuple[float, bytes]]] = {"client": deque(), "server": deque()}  # by the sender
        self.dead = {"client": False, "server": False}
        compression = world.random.choice((None, None, "deflate"))
        tls = world.random.random() < 0.3
        self.wire = Wire(plain=not compression and not tls)
        self.waiting: list[Any] = []  # at the server
        self.messages: list[nsq.MessageFrame] = []  # at the client
        features: dict[str, Any] = {compression: True} if compression else {}
        self.client.send(nsq.Identify(
            feature_negotiation=True, heartbeat_interval=1000, msg_timeout=2000, tls_v1=tls, **features
        ))  # fmt: skip

    def machine(self, side: str) -> Any:
        return self.client if side == "client" else self.server

    def flush(self, side: str) -> None:
        """What one side has queued goes into the pipe, in pieces, once what is to be durable is."""
        random_ = self.world.random
        if side == "client" and self.role == "producer":
            self.world.durable += self.client.changes()
        data = self.machine(side).data_to_send()
        if side == "server" and data:
            self.wire.written(data)
        due = max(self.world.now, self.pipes[side][-1][0] if self.pipes[side] else 0.0)
        while data:
            size = random_.choice((1, 3, 17, 100, 1000, len(data)))
            piece, data = data[:size], data[size:]
            due += random_.choice((0.0, 0.0, 0.001, 0.01, 0.2)) * self.world.trouble
            self.pipes[side].append((due, piece))
        if self.machine(side).should_close:
            self.pipes[side].append((due, b""))
            self.dead[side] = True

    def carry(self, side: str) -> None:
        """The first pending piece of one side reaches the other."""
        other = "server" if side == "client" else "client"
        due, piece = self.pipes[side][0]
        if due > self.world.now or (
            self.machine(other).state is not State.CLOSED and not self.machine(other).wants_read
        ):
            if due <= self.world.now and not self.machine(other).wants_read:
                self.world.undisturbed(self)
            return
        self.pipes[side].popleft()
        machine = self.machine(other)
        if self.dead[other] or machine.state is State.CLOSED:
            return
        if other == "server" and piece:
            self.wire.came(piece)
        events = machine.receive(piece, self.world.now) if piece else machine.receive_eof(self.world.now)
        self.world.take(self, other, events)

    def kill(self, side: str) -> None:
        """The process of one side dies: what it has queued is gone; the other side hears of it, or only of silence."""
        if not self.dead[side] and self.machine(side).state is not State.CLOSED:
            self.world.take(self, side, self.machine(side).close(immediate=True))
        self.dead[side] = True
        if self.world.random.random() < 0.7:
            self.pipes[side].append((self.world.now, b""))
        else:
            self.pipes[side].clear()


class World:
    """A topic with one channel, a producer and two consumers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.trouble = 1.0
        self.durable: list[Change] = []  # of the producer
        self.links: list[Link] = []
        self.published = 0
        self.answered: set[int] = set()  # handles
        self.queue: deque[list[Any]] = deque()  # [message id, body, attempts]
        self.counter = 0
        self.bodies: Counter[bytes] = Counter()  # taken by the server
        self.open: dict[int, list[Any]] = {}  # deliveries without an end, by id of the handle
        self.handles: list[Any] = []  # keeps them alive
        self.finished: set[bytes] = set()  # message ids
        self.trace = hashlib.sha256()
        self.ends: Counter[str] = Counter()

    # ---- hosts

    def take(self, link: Link, side: str, events: list[Any]) -> None:
        for event in events:
            self.trace.update(f"{self.now} {side} {type(event).__name__}\n".encode())
            if side == "server":
                self.at_server(link, event)
            else:
                self.at_client(link, event)

    def at_client(self, link: Link, event: Any) -> None:
        client = link.client
        if isinstance(event, StartTls):
            link.flush("client")
            self.take(link, "client", client.secured(self.now))
        elif isinstance(event, Connected) and link.role == "consumer":
            client.subscribe("t", "c")
        elif isinstance(event, Acknowledged) and isinstance(event.handle.command, nsq.Sub):  # type: ignore[attr-defined]
            client.ready(self.random.randrange(1, 10))
        elif isinstance(event, Acknowledged) and isinstance(event.message, nsq.Response):
            assert event.handle.number not in self.answered, "answered twice"
            self.answered.add(event.handle.number)
        elif isinstance(event, nsq.MessageFrame):
            link.messages.append(event)
        elif isinstance(event, nsq.TimedOut):
            link.messages = [m for m in link.messages if m is not event.handle]
        elif isinstance(event, Disconnected):
            assert event.error is None, event
            link.messages.clear()

    def at_server(self, link: Link, event: Any) -> None:
        server = link.server
        match event:
            case StartTls():
                link.flush("server")
                self.take(link, "server", server.secured(self.now))
            case nsq.Identify() | nsq.Sub() | nsq.Publish() | nsq.MultiPublish():
                link.waiting.append(event)
            case Acknowledged():
                message = self.end(event.handle, "finished")
                assert message[0] not in self.finished
                self.finished.add(message[0])
            case nsq.Requeued():
                self.queue.append(self.end(event.handle, "requeued"))
            case nsq.TimedOut():
                link.wire.in_flight.discard(event.handle.message_id)
                self.queue.append(self.end(event.handle, "timed out"))
            case Disconnected():
                assert event.error is None, event
                link.waiting.clear()
                for handle in event.lost:
                    self.queue.append(self.end(handle, "lost"))
            case Connected() | WindowOpened() | nsq.Close():
                pass
            case _:
                raise AssertionError(event)

    def end(self, handle: Any, how: str) -> list[Any]:
        """A delivery has one end."""
        assert id(handle) in self.open, f"{how}: the delivery has ended before"
        self.ends[how] += 1
        return self.open.pop(id(handle))

    def decide(self, link: Link) -> None:
        """The server's host answers one thing, any of those that wait."""
        if not link.waiting or link.server.state is State.CLOSED:
            return
        event = link.waiting.pop(self.random.randrange(len(link.waiting)))
        if isinstance(event, nsq.Identify | nsq.Sub):
            self.take(link, "server", link.server.accept(event))
            return
        for body in event.bodies if isinstance(event, nsq.MultiPublish) else (event.body_bytes(),):
            self.counter += 1
            self.bodies[bytes(body)] += 1
            self.queue.append([b"%016x" % self.counter, bytes(body), 0])
        self.take(link, "server", link.server.acknowledge(event))

    def deliver(self, link: Link) -> None:
        server = link.server
        while self.queue and server.send_quota and server.pending_bytes < 10_000:
            message = self.queue.popleft()
            message[2] += 1
            assert message[0] not in self.finished, "a finished message is delivered again"
            handle = server.deliver(message[0], message[1], 1, message[2])
            self.handles.append(handle)
            self.open[id(handle)] = message
            if self.random.random() < 0.3:
                break

    def consume(self, link: Link, settle: bool) -> None:
        client = link.client
        if client.state is not State.SUBSCRIBED:
            return
        if not settle and self.random.random() < 0.1:
            client.ready(self.random.randrange(0, 10))
        elif settle and not client.ready_count:
            client.ready(3)
        if link.messages and (settle or self.random.random() < 0.5):
            message = link.messages[self.random.randrange(len(link.messages))]
            what = "finish" if settle else self.random.choice(("finish", "finish", "requeue", "touch", "forget"))
            if what in ("finish", "requeue"):
                link.messages.remove(message)
            if what != "forget":
                getattr(client, what)(message)

    def publish(self, link: Link) -> None:
        client = link.client
        if client.state is not State.INIT or client.negotiated is None or not client.send_quota:
            return
        body = b"%d " % self.published + b"x" * self.random.choice((1, 10, 3000))
        try:
            if self.random.random() < 0.3:
                client.publish_many("t", [body, body + b"+"])
            else:
                client.publish("t", body)
        except LocalProtocolError:
            assert client.pending_bytes
            return
        self.published += 1

    # ---- time and trouble

    def undisturbed(self, link: Link) -> None:
        self.decide(link)

    def step(self, settle: bool) -> None:
        self.links = [link for link in self.links if not (link.dead["client"] and link.dead["server"])]
        alive = Counter(link.role for link in self.links if not link.dead["client"])
        if not alive["producer"]:
            session = nsq.Session.replay(self.durable, journaled=True)
            assert len(session.pending) <= OPTIONS.unanswered
            self.durable = [
                Change("put", "outgoing", number, request.command.encode())
                for number, request in session.pending.items()
            ]
            session._number = (
                self.published + 1000 * len(self.handles) + len(self.answered) + 1
            )  # handles are not used again
            self.links.append(Link(self, "producer", session))
        while alive["consumer"] < 2:
            self.links.append(Link(self, "consumer", None))
            alive["consumer"] += 1
        link = self.random.choice(self.links)
        if not settle and self.random.random() < 0.01:
            link.kill(self.random.choice(("client", "server")))
        for side in ("client", "server"):
            if self.pipes_due(link, side):
                link.carry(side)
        if not link.dead["server"] and link.server.state is not State.CLOSED:
            if settle or self.random.random() < 0.5:
                self.decide(link)
            if settle or self.random.random() < 0.5:
                self.deliver(link)
        if not link.dead["client"] and link.client.state is not State.CLOSED:
            if link.role == "consumer":
                self.consume(link, settle)
            elif not settle:
                self.publish(link)
        for side in ("client", "server"):
            machine = link.machine(side)
            if link.dead[side]:
                continue
            when = machine.next_timeout() if machine.state is not State.CLOSED else None
            if when is not None and when <= self.now:
                self.take(link, side, machine.handle_timeout(self.now))
            link.flush(side)
            assert machine.pending_bytes == 0
        self.now += self.random.choice((0.0, 0.0, 0.001, 0.01, 0.05 if settle else 0.3))

    def pipes_due(self, link: Link, side: str) -> bool:
        return bool(link.pipes[side]) and link.pipes[side][0][0] <= self.now

    def at_rest(self) -> bool:
        producers = [link for link in self.links if link.role == "producer" and not link.dead["client"]]
        return (
            bool(producers)
            and all(link.client.session is not None and not link.client.session.pending for link in producers)
            and not self.queue
            and not self.open
            and len(self.finished) == self.counter
        )


def run(seed: int) -> World:
    world = World(seed)
    for _ in range(RUN):
        world.step(settle=False)
    world.trouble = 0.1
    for _ in range(SETTLE):
        world.step(settle=True)
        if world.at_rest():
            break
    else:
        raise AssertionError(f"seed {seed}: no rest: {len(world.queue)} queued, {len(world.open)} open")
    # every message that was published has arrived, at least once
    missing = [n for n in range(world.published) if not any(body.startswith(b"%d " % n) for body in world.bodies)]
    assert not missing, f"seed {seed}: lost {missing}"
    return world


@pytest.mark.parametrize("part", PARTS)
def test_simulation(part: int) -> None:
    run_part(run, part)


def test_a_seed_gives_the_same_run() -> None:
    assert run(4711).trace.digest() == run(4711).trace.digest()


def test_the_simulation_meets_every_end() -> None:
    ends: Counter[str] = Counter()
    for seed in range(5):
        ends += run(seed).ends
    assert set(ends) == {"finished", "requeued", "timed out", "lost"}
