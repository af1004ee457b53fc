"""A client and a server of AMQP 1.0 in one process, under a virtual clock and a network that cuts and delays at any byte.

Either side may be killed at any moment: it starts again from what was durable. Hosts decide at random, late and out of
order. A watcher reads what is on the wire and knows nothing of the connections' insides.

Every run has a seed. `SIMULATE_STEPS=1000000 SIMULATE_SEED=7 pytest tests/connection/test_amqp10_simulation.py` runs more, or
runs one again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, Literal

import pytest

from lib.kinds import checked
from wirefmt import amqp10
from wirefmt.amqp10 import (
    Aborted,
    Attaching,
    Change,
    ClientConnection,
    ConnectionOptions,
    Drained,
    DrainRequested,
    Incoming,
    LinkAttached,
    LinkDetached,
    Receiver,
    Sender,
    ServerConnection,
    SessionBegun,
    SessionEnded,
    SessionState,
    Settled,
    State,
    Terminus,
    Updated,
)
from wirefmt.amqp10.links import Link
from wirefmt.connection import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError

STEPS = int(os.environ.get("SIMULATE_STEPS", "20000"))
SEED = int(os.environ.get("SIMULATE_SEED", "0"))
RUN = 800  # steps with disturbances in one world, before it is left to settle
MASK = 0xFFFFFFFF

Side = Literal["client", "server"]
OTHER: dict[Side, Side] = {"client": "server", "server": "client"}


class Killed(Exception):
    """The process dies here."""


class Watcher:
    """Reads what one side writes on one connection, and what reaches it."""

    def __init__(self) -> None:
        self.writes = amqp10.Decoder()
        self.reads = amqp10.Decoder()
        self.closed = False
        self.sessions: dict[int, Watched] = {}  # by our channel
        self.by_remote: dict[int, Watched] = {}

    def written(self, data: bytes) -> None:
        for frame in self.writes.feed(data):
            assert not self.closed, "a frame after close (2.4.3)"
            self.closed = isinstance(frame, amqp10.Close)
            if isinstance(frame, amqp10.Begin):
                before = self.sessions.get(frame.channel)
                assert before is None or before.over == {"we", "they"}, "a channel in use"
                watched = self.sessions[frame.channel] = Watched(frame)
                if frame.remote_channel is not None:
                    watched.hears(self.pending.pop(frame.remote_channel))
                    self.by_remote[frame.remote_channel] = watched
            elif isinstance(frame, amqp10.Performative) and type(frame) not in (amqp10.Open, amqp10.Close):
                self.sessions[frame.channel].says(frame)

    def delivered(self, data: bytes) -> None:
        for watched in self.sessions.values():
            for link in watched.links.values():
                link["limit"] = link.pop("lower", link["limit"])
        for frame in self.reads.feed(data):
            if isinstance(frame, amqp10.Begin):
                if frame.remote_channel is None:
                    self.pending[frame.channel] = frame
                else:
                    watched = self.by_remote[frame.channel] = self.sessions[frame.remote_channel]
                    watched.hears(frame)
            elif isinstance(frame, amqp10.Performative) and frame.channel in self.by_remote:
                self.by_remote[frame.channel].hears(frame)

    @property
    def pending(self) -> dict[int, amqp10.Begin]:
        return self.__dict__.setdefault("_pending", {})


class Watched:
    """One session as one side says and hears it."""

    def __init__(self, begin: amqp10.Begin) -> None:
        self.next_id = begin.next_outgoing_id or 0
        self.first_id = self.next_id
        self.window_end = self.next_id  # the id that may not be sent
        self.last_delivery: int | None = None
        self.over: set[str] = set()
        self.links: dict[Any, dict[str, Any]] = {}  # by our handle
        self.remote: dict[Any, tuple[Any, bool]] = {}  # their handle -> name, do we send
        self.answered: set[int] = set()  # deliveries of theirs that we have settled
        self.settled: set[int] = set()  # deliveries of ours that they have settled

    def says(self, frame: Any) -> None:
        assert "we" not in self.over, "a frame after end (2.5.3)"
        match frame:
            case amqp10.End():
                self.over.add("we")
            case amqp10.Attach():
                link = self.links.get(frame.handle)
                assert link is None or link["over"] == {"we", "they"}, "a handle in use"
                key = (frame.name, not frame.role)
                self.links[frame.handle] = {
                    "key": key,
                    "over": set(),
                    "count": frame.initial_delivery_count,
                    "limit": frame.initial_delivery_count,
                    "open": False,
                }
                if key not in self.remote.values():
                    return
            case amqp10.Detach():
                link = self.links[frame.handle]
                assert "we" not in link["over"]
                link["over"].add("we")
            case amqp10.Transfer():
                link = self.links[frame.handle]
                assert not link["over"] & {"we"}, "a transfer after detach"
                assert self.window_end != self.next_id, "beyond the window (2.5.6)"
                assert (self.window_end - self.next_id) & MASK < 1 << 31
                self.next_id = (self.next_id + 1) & MASK
                if not link["open"]:
                    assert link["count"] != link["limit"], "beyond the credit (2.6.7)"
                    assert (link["limit"] - link["count"]) & MASK < 1 << 31
                    link["count"] = (link["count"] + 1) & MASK
                    if self.last_delivery is not None:
                        assert frame.delivery_id == (self.last_delivery + 1) & MASK, "delivery-ids count (2.6.12)"
                    self.last_delivery = frame.delivery_id
                link["open"] = bool(frame.more) and not frame.aborted
            case amqp10.Flow():
                assert frame.next_outgoing_id == self.next_id, "a stale flow"
                if frame.handle is not None and self.links[frame.handle]["key"][1]:
                    assert "we" not in self.links[frame.handle]["over"], "a flow after detach"
                    self.links[frame.handle]["count"] = frame.delivery_count
            case amqp10.Disposition() if frame.role:
                first = checked(frame.first, int)
                for number in range(first, (first if frame.last is None else frame.last) + 1):
                    if frame.settled:
                        assert number not in self.answered, "settled twice"
                        self.answered.add(number)

    def hears(self, frame: Any) -> None:
        match frame:
            case amqp10.Begin():
                self.window_end = (self.first_id + (frame.incoming_window or 0)) & MASK
            case amqp10.End():
                self.over.add("they")
            case amqp10.Attach():
                self.remote[frame.handle] = (frame.name, bool(frame.role))
            case amqp10.Detach():
                for link in self.links.values():
                    if link["key"] == self.remote.get(frame.handle) and "they" not in link["over"]:
                        link["over"].add("they")
                self.remote.pop(frame.handle, None)
            case amqp10.Flow():
                base = self.first_id if frame.next_incoming_id is None else frame.next_incoming_id
                self.window_end = (base + (frame.incoming_window or 0)) & MASK
                key = self.remote.get(frame.handle) if frame.handle is not None else None
                for link in self.links.values():
                    if link["key"] == key and key is not None and key[1] and not link["over"]:
                        limit = ((frame.delivery_count or 0) + (frame.link_credit or 0)) & MASK
                        if (limit - link["count"]) & MASK >= 1 << 31:
                            limit = link["count"]  # credit was taken back
                        link.pop("lower", None)
                        if (limit - link["limit"]) & MASK < 1 << 31:
                            link["limit"] = limit
                        else:  # what was sent at the frame before this one is not wrong
                            link["lower"] = limit


class Wire:
    """One network connection: bytes in flight in each direction."""

    def __init__(self, client: ClientConnection, server: ServerConnection) -> None:
        self.ends: dict[Side, Any] = {"client": client, "server": server}
        self.flying: dict[Side, bytearray] = {"client": bytearray(), "server": bytearray()}  # by writer
        self.ended: set[Side] = set()  # who writes nothing more
        self.watchers: dict[Side, Watcher] = {"client": Watcher(), "server": Watcher()}


class Node:
    """A process with a host in it. What is durable survives a kill."""

    def __init__(self, side: Side, names: dict[str, int]) -> None:
        self.side = side
        self.names = names  # of the links on which it sends -> rcv-settle-mode
        self.messages: dict[str, list[bytes]] = {}
        self.next: dict[str, int] = dict.fromkeys(names, 0)
        self.finished: list[bytes] = []  # messages whose outcome is known
        self.inbox: list[bytes] = []  # messages taken
        self.refused: list[bytes] = []
        self.termini: dict[str, Terminus] = {}
        self.journal: list[Change] = []
        self.known: set[str] = set()  # names of links that have been attached: their termini are established
        self.handles: dict[Any, bytes] = {}
        self.waiting: list[Incoming] = []
        self.durable: Any = None
        self.persist([])

    def persist(self, changes: list[Change]) -> None:
        self.journal += changes
        self.known |= {name for name, terminus in self.termini.items() if terminus.established}
        self.durable = (dict(self.next), len(self.finished), len(self.inbox), len(self.refused), set(self.known))

    def restart(self) -> None:
        self.next, finished, inbox, refused, self.known = self.durable
        self.next = dict(self.next)
        del self.finished[finished:], self.inbox[inbox:], self.refused[refused:]
        self.handles.clear()
        self.waiting.clear()
        names = list(self.termini)
        roles = {name: terminus.role for name, terminus in self.termini.items()}
        self.termini = {}
        for name in names:
            terminus = Terminus.replay(name, roles[name], self.journal)
            terminus.established = name in self.known or bool(terminus.outgoing or terminus.incoming)
            copy = Terminus.restore(terminus.snapshot())
            assert copy.snapshot() == terminus.snapshot()
            copy.next_number = max(copy.next_number, self.next.get(name, 0))
            self.termini[name] = copy
            for delivery in copy.outgoing.values():
                assert delivery.payload is not None
                if not isinstance(delivery.state, amqp10.Accepted | amqp10.Rejected):
                    self.handles[delivery] = delivery.payload

    def terminus(self, name: str, role: str) -> Terminus:
        return self.termini.setdefault(name, Terminus(name, role))


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.disturbed = True
        chance = self.random.choice
        self.options: dict[Side, ConnectionOptions] = {
            side: ConnectionOptions(
                frame_size=chance((512, 512, 4096)),
                incoming_window=chance((1, 2, 7, 50)),
                unsettled=chance((3, 20, 1000)),
                idle_timeout=chance((None, 30.0)),
                journaled=True,
            )
            for side in OTHER
        }
        self.nodes: dict[Side, Node] = {}
        for side in OTHER:
            names = {f"{side}-{n}": self.random.randrange(2) for n in range(2)}
            node = self.nodes[side] = Node(side, names)
            for name in names:
                node.messages[name] = [
                    amqp10.Message(
                        body=f"{name} {n} ".encode().ljust(
                            chance((0, 20, 400, 3000)) if self.random.random() < 0.3 else 0
                        )
                    ).encode()
                    for n in range(self.random.randrange(5, 25))
                ]
        self.wire: Wire | None = None
        self.old: list[Wire] = []
        self.session: Any = None  # the client's
        self.counts: dict[str, int] = {}

    # ---- what happens

    def step(self) -> None:
        side: Side = self.random.choice(("client", "server"))
        disturbing = 1.0 if self.disturbed else 0.0
        weights = {
            self.deliver: 40,
            self.decide: 20,
            self.send: 15,
            self.flow: 4,
            self.tick: 3,
            self.connect: 10,
            self.attach: 10,
            self.detach: disturbing * 0.6,
            self.end: disturbing * 0.2,
            self.cut: disturbing * 0.7,
            self.close: disturbing * 0.2,
            self.kill: disturbing * 0.3,
        }
        action = self.random.choices(list(weights), list(weights.values()))[0]
        self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
        action(side)

    def turn(self, wire: Wire, side: Side, call: Callable[[Any], list[Any] | None]) -> None:
        """Receive or answer, make changes durable, write bytes; the process may die in between."""
        connection = wire.ends[side]
        if connection is None or connection.state is State.END:
            return
        node = self.nodes[side]
        try:
            self.take(wire, node, call(connection) or [])
            self.check(connection)
            self.maybe_die()
            data = connection.data_to_send()
            node.persist(connection.changes())
            self.maybe_die()
            cut = self.random.randrange(len(data) + 1)
            for piece in (data[:cut], data[cut:]):
                wire.watchers[side].written(piece)
                wire.flying[side] += piece
                self.maybe_die()
        except Killed:
            self.kill(side)
            return
        if connection.state is State.END:
            assert connection.should_close
            wire.ended.add(side)
            wire.ends[side] = None

    def maybe_die(self) -> None:
        if self.disturbed and self.random.random() < 0.003:
            raise Killed

    def check(self, connection: Any) -> None:
        options = connection.options
        for session in connection.sessions.values():
            assert len(session.incoming) <= options.unsettled
            assert len(session.outgoing) <= options.unsettled
            assert 0 <= session.incoming_window <= options.incoming_window
        assert 0 <= connection.unfinished <= options.unfinished_bytes

    def take(self, wire: Wire, node: Node, events: list[Any]) -> None:
        for event in events:
            match event:
                case amqp10.Open():
                    self.take(wire, node, wire.ends[node.side].accept(event))
                case Attaching():
                    name, link = event.link.name, event.link
                    terminus = node.terminus(name, "sender" if link.sends else "receiver")
                    if terminus.held:  # the old connection has not ended here: the newer one has the link
                        for old in self.old:
                            self.turn(old, node.side, lambda c: c.close(immediate=True))
                        if wire.ends[node.side] is None:
                            raise Killed  # in one of those turns
                    self.take(wire, node, wire.ends[node.side].accept(event, terminus=terminus))
                    self.grant(link)
                case LinkAttached():
                    self.grant(event.link)
                case Incoming():
                    assert not event.settled
                    node.waiting.append(event)
                case Acknowledged():
                    payload = node.handles.pop(event.handle)
                    node.finished.append(payload)
                case DrainRequested():
                    if event.link.attached:
                        event.link.drained()
                case Drained():
                    self.grant(event.link)
                case Disconnected():
                    assert event.error is None, event
                    assert event.code is None or event.code == "amqp:resource-limit-exceeded", event
                    if node.side == "client" and wire is self.wire:
                        self.session = None
                case SessionEnded():
                    assert event.error is None, event
                    assert event.lost == ()
                    if node.side == "client":
                        self.session = None
                case LinkDetached():
                    assert event.error is None, event
                    assert not event.closed
                    assert event.lost == ()
                case Connected() | SessionBegun() | WindowOpened() | Settled() | Updated() | Aborted():
                    pass
                case _:
                    raise AssertionError(event)

    def grant(self, link: Link) -> None:
        if isinstance(link, Receiver) and link.attached and not link.draining:
            if self.random.random() < 0.5:
                link.keep(self.random.choice((1, 2, 9)))
            else:
                link.keep(0)
                link.grant(self.random.choice((1, 3, 8)))

    # ---- actions

    def wires(self) -> list[Wire]:
        return [*self.old, *([self.wire] if self.wire else [])]

    def deliver(self, side: Side) -> None:
        """Some bytes of `side` reach the other."""
        wires = [wire for wire in self.wires() if wire.flying[side] or side in wire.ended]
        if not wires:
            return
        wire = self.random.choice(wires)
        other = OTHER[side]
        flying = wire.flying[side]
        if wire.ends[other] is None:
            flying.clear()
            if wire.ends[side] is None:
                if wire is self.wire:
                    self.wire = None
                else:
                    self.old.remove(wire)
            return
        if not flying:
            self.turn(wire, other, lambda c: c.receive_eof(self.now))
            return
        size = self.random.choice((1, 5, 40, 300, len(flying)))
        data = bytes(flying[:size])
        del flying[:size]
        wire.watchers[other].delivered(data)
        self.turn(wire, other, lambda c: c.receive(data, self.now))

    def decide(self, side: Side) -> None:
        """The host answers a delivery, in any order."""
        node = self.nodes[side]
        if not node.waiting:
            return
        delivery = node.waiting.pop(self.random.randrange(len(node.waiting)))
        wire = next((w for w in self.wires() if w.ends[side] is delivery.link.session.connection), None)
        payload = bytes(delivery.payload)
        if wire is None or not delivery.link.attached:
            if delivery.delivery_tag in node.termini[delivery.link.name].undecided:
                node.waiting.append(delivery)  # the link may be resumed: the answer can wait
            return

        def answer(connection: Any) -> None:
            if self.random.random() < 0.9:
                connection.accept(delivery)
                node.inbox.append(payload)
            else:
                connection.reject(delivery)
                node.refused.append(payload)

        self.turn(wire, side, answer)

    def send(self, side: Side) -> None:
        node = self.nodes[side]
        wire = self.wire
        connection = wire.ends[side] if wire is not None else None
        if wire is None or connection is None:
            return
        senders = [
            link
            for session in connection.sessions.values()
            for link in session.links.values()
            if isinstance(link, Sender) and link.send_quota and node.next[link.name] < len(node.messages[link.name])
        ]
        if not senders:
            return
        link = self.random.choice(senders)

        def send(_: Any) -> None:
            payload = node.messages[link.name][node.next[link.name]]
            node.next[link.name] += 1
            node.handles[link.send(payload)] = payload

        self.turn(wire, side, send)

    def flow(self, side: Side) -> None:
        """Credit, drain and echo."""
        wire = self.wire
        connection = wire.ends[side] if wire is not None else None
        if wire is None or connection is None:
            return
        links = [link for session in connection.sessions.values() for link in session.links.values() if link.attached]
        if not links:
            return
        link = self.random.choice(links)

        def act(_: Any) -> None:
            if not isinstance(link, Receiver) or self.random.random() < 0.2:
                link.ask()
            elif self.random.random() < 0.3 and not link.draining:
                link.drain()
            else:
                self.grant(link)

        self.turn(wire, side, act)

    def tick(self, side: Side) -> None:
        self.now += self.random.choice((0.01, 1.0, 5.0))
        for wire in self.wires():
            for each in OTHER:
                connection = wire.ends[each]
                if connection is not None and connection.next_timeout() is not None:
                    self.turn(wire, each, lambda c: c.handle_timeout(self.now))

    def connect(self, side: Side) -> None:
        if self.wire is not None and self.wire.ends["client"] is not None:
            return
        if self.wire is not None:
            self.old.append(self.wire)
        client = ClientConnection(self.now, "c", options=self.options["client"])
        server = ServerConnection(self.now, "s", mechanisms=(), options=self.options["server"])
        self.wire = Wire(client, server)
        self.session = None
        self.turn(self.wire, "client", lambda c: c.open(pipelined=self.random.random() < 0.5))

    def attach(self, side: Side) -> None:
        """The client begins a session, or attaches a link that is missing."""
        wire = self.wire
        client = wire.ends["client"] if wire is not None else None
        if wire is None or client is None or client.state is not State.OPENED:
            return
        node = self.nodes["client"]

        def act(connection: Any) -> None:
            if self.session is None:
                start = self.random.choice((0, (1 << 32) - 3))
                self.session = connection.begin(next_outgoing_id=start)
                return
            sends = self.random.random() < 0.5
            names = self.nodes["client" if sends else "server"].names
            name = self.random.choice(list(names))
            terminus = node.terminus(name, "sender" if sends else "receiver")
            if terminus.held or connection.find(name, sends) is not None:
                return
            mode = {"rcv_settle_mode": names[name], "terminus": terminus}
            if sends:
                first = self.random.choice((0, (1 << 32) - 2))
                self.session.sender(name, "q", initial_delivery_count=first, **mode)
            else:
                self.session.receiver(name, "q", **mode)

        if self.session is None or self.session.state is SessionState.MAPPED:
            self.turn(wire, "client", act)

    def some_link(self, side: Side) -> tuple[Wire, Any] | None:
        wire = self.wire
        connection = wire.ends[side] if wire is not None else None
        if wire is None or connection is None:
            return None
        links = [link for session in connection.sessions.values() for link in session.links.values() if link.attached]
        return (wire, self.random.choice(links)) if links else None

    def detach(self, side: Side) -> None:
        if (found := self.some_link(side)) is not None:
            self.turn(found[0], side, lambda _: found[1].detach(closed=False))

    def end(self, side: Side) -> None:
        if (found := self.some_link(side)) is not None:
            self.turn(found[0], side, lambda _: found[1].session.end())

    def cut(self, side: Side) -> None:
        """The network drops the connection: bytes of both directions are lost from some point on."""
        if self.wire is None:
            return
        for each in OTHER:
            flying = self.wire.flying[each]
            del flying[self.random.randrange(len(flying) + 1) :]
            self.wire.ended.add(each)
        wire, self.wire, self.session = self.wire, None, None
        for each in OTHER:
            connection = wire.ends[each]
            if connection is not None:
                self.turn(wire, each, lambda c: c.receive_eof(self.now))
                wire.ends[each] = None

    def close(self, side: Side) -> None:
        if self.wire is not None:
            self.turn(self.wire, side, lambda c: c.close())

    def kill(self, side: Side) -> None:
        for wire in self.wires():
            wire.ends[side] = None
            wire.ended.add(side)
        if side == "client":
            self.session = None
        self.nodes[side].restart()

    # ---- the end

    def done(self) -> bool:
        return all(
            node.next[name] == len(node.messages[name]) and not any(n.termini.get(name, EMPTY).outgoing for n in [node])
            for node in self.nodes.values()
            for name in node.names
        ) and not any(terminus.incoming for node in self.nodes.values() for terminus in node.termini.values())

    def judge(self) -> None:
        """Nothing is lost; in mode second nothing comes twice; order on each link is kept where all are sent once."""
        for side, node in self.nodes.items():
            other = self.nodes[OTHER[side]]
            for name, mode in node.names.items():
                sent = node.messages[name]
                assert len(set(sent)) == len(sent)
                got = [payload for payload in (*other.inbox, *other.refused) if payload in set(sent)]
                assert set(got) == set(sent), f"lost: {set(sent) - set(got)}"
                if mode == 1:
                    assert len(got) == len(sent), "twice in mode second"
                ends = [payload for payload in node.finished if payload in set(sent)]
                assert len(ends) == len(set(ends)), "an outcome twice"

    def run(self) -> int:
        steps = 0
        for _ in range(RUN):
            self.step()
            steps += 1
        self.disturbed = False
        while not self.done():
            self.step()
            steps += 1
            assert steps < RUN + 60_000, "it does not settle"
        self.judge()
        return steps


EMPTY = Terminus("", "sender")


@pytest.mark.parametrize("part", range(4))
def test_simulation(part: int) -> None:
    steps, world = 0, 0
    counts: dict[str, int] = {}
    while steps < STEPS // 4:
        seed = SEED + part + 4 * world
        made = World(seed)
        try:
            steps += made.run()
        except BaseException as error:
            error.add_note(f"SIMULATE_SEED={seed}")
            raise
        for name, count in made.counts.items():
            counts[name] = counts.get(name, 0) + count
        world += 1
    assert world


def test_the_watcher_sees_what_is_wrong() -> None:
    begin = amqp10.Begin(next_outgoing_id=0, incoming_window=5, outgoing_window=5)
    answer = amqp10.Begin(remote_channel=0, next_outgoing_id=0, incoming_window=1, outgoing_window=5)
    attach = amqp10.Attach(name="l", handle=0, role=False, initial_delivery_count=0)
    theirs = amqp10.Attach(name="l", handle=0, role=True)
    flow = amqp10.Flow(
        next_incoming_id=0,
        incoming_window=1,
        next_outgoing_id=0,
        outgoing_window=0,
        handle=0,
        delivery_count=0,
        link_credit=9,
    )
    watcher = Watcher()
    watcher.written(begin.encode() + attach.encode())
    watcher.delivered(answer.encode() + theirs.encode() + flow.encode())
    transfers = [amqp10.Transfer(handle=0, delivery_id=n, delivery_tag=b"t", payload=b"").encode() for n in range(2)]
    watcher.written(transfers[0])
    with pytest.raises(AssertionError, match="window"):
        watcher.written(transfers[1])
    watcher.written(amqp10.Close().encode())
    with pytest.raises(AssertionError, match="close"):
        watcher.written(transfers[1])


def test_refused_calls_change_nothing() -> None:
    client = ClientConnection(0.0, "c")
    with pytest.raises(LocalProtocolError):
        client.begin()
    assert client.pending_bytes == 0
