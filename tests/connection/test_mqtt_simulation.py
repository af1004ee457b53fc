"""A client and a server in one process, under a virtual clock and a network that cuts and delays at any byte.

Either side may be killed at any moment: it starts again from what was durable. Hosts decide at random, late and out of
order. A watcher reads what is on the wire and knows nothing of the connections' insides.

Every run has a seed. `SIMULATE_STEPS=1000000 SIMULATE_SEED=7 pytest tests/connection/test_mqtt_simulation.py` runs more, or
runs one again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, Literal

import pytest

from lib.kinds import checked
from wirefmt import mqtt
from wirefmt.connection import Acknowledged, Change, Connected, Disconnected, WindowOpened
from wirefmt.connection.outstanding import Identifiers
from wirefmt.errors import DecodeError, LocalProtocolError
from wirefmt.mqtt import ClientConnection, ServerConnection
from wirefmt.mqtt.events import ConnectionOptions, Released, Request
from wirefmt.mqtt.receiving import Receiving
from wirefmt.mqtt.sending import Sending
from wirefmt.mqtt.session import NEVER, Session
from wirefmt.mqtt.states import State

STEPS = int(os.environ.get("SIMULATE_STEPS", "21000"))
SEED = int(os.environ.get("SIMULATE_SEED", "0"))
RUN = 700  # steps with disturbances in one world, before it is left to settle

Side = Literal["client", "server"]
OTHER: dict[Side, Side] = {"client": "server", "server": "client"}


class Killed(Exception):
    """The process dies here."""


class Watcher:
    """What has been seen of one side's messages, over all connections. Messages are known by their payload."""

    def __init__(self) -> None:
        self.on_wire: set[bytes] = set()  # messages that have been written
        self.released: set[bytes] = set()  # QoS 2 messages whose PUBREL has been written
        self.in_flight: dict[int, bytes] = {}  # packet identifier -> message, until the sender has the last answer


class Direction:
    """Reads what one side writes on one connection, and the answers that reach it."""

    def __init__(self, watcher: Watcher, side: Side, version: int) -> None:
        self.watcher = watcher
        self.window = 65535  # the other side's Receive Maximum
        self.unanswered: set[int] = set()
        self.order: dict[int, list[int]] = {1: [], 2: []}  # identifiers in the order of PUBLISH, until the first answer
        self.writes = mqtt.Decoder(version=version, side=side)
        self.answers = mqtt.Decoder(version=version, side=OTHER[side])

    def written(self, data: bytes) -> None:
        for packet in self.writes.feed(data):
            match packet:
                case mqtt.Publish() if packet.qos:
                    self.publish(packet)
                case mqtt.Subscribe() | mqtt.Unsubscribe():
                    assert packet.packet_identifier not in self.watcher.in_flight, "identifier in use"
                case mqtt.Pubrel():
                    name = self.watcher.in_flight.get(packet.packet_identifier)
                    if name is not None:
                        self.watcher.released.add(name)

    def publish(self, packet: mqtt.Publish) -> None:
        identifier = packet.packet_identifier
        name = packet.payload_bytes()
        watcher = self.watcher
        assert identifier
        assert watcher.in_flight.get(identifier, name) == name, "identifier in use"
        assert packet.dup or name not in watcher.on_wire, "sent again without DUP"
        assert name not in watcher.released, "PUBLISH after PUBREL [MQTT-4.3.3-6]"
        watcher.on_wire.add(name)
        watcher.in_flight[identifier] = name
        self.unanswered.add(identifier)
        self.order[packet.qos].append(identifier)
        assert len(self.unanswered) <= self.window, "window exceeded"

    def delivered(self, data: bytes) -> None:
        """Bytes that have reached the sender."""
        for packet in self.answers.feed(data):
            match packet:
                case mqtt.Connect() | mqtt.Connack() if packet.version == 5:
                    self.window = dict(packet.properties).get("receive_maximum", 65535)
                case mqtt.Puback():
                    assert self.order[1].pop(0) == packet.packet_identifier, "PUBACK out of order [MQTT-4.6.0-2]"
                case mqtt.Pubrec() if packet.packet_identifier in self.order[2]:
                    assert self.order[2].pop(0) == packet.packet_identifier, "PUBREC out of order [MQTT-4.6.0-3]"
            if isinstance(packet, mqtt.Puback | mqtt.Pubcomp) or (
                isinstance(packet, mqtt.Pubrec) and (packet.reason_code or 0) >= 0x80
            ):
                self.unanswered.discard(packet.packet_identifier)
                self.watcher.in_flight.pop(packet.packet_identifier, None)


class Link:
    """One network connection: bytes in flight in each direction."""

    def __init__(
        self, client: ClientConnection, server: ServerConnection, watchers: dict[Side, Watcher], version: int
    ) -> None:
        self.ends: dict[Side, Any] = {"client": client, "server": server}
        self.under_way: dict[Side, bytearray] = {"client": bytearray(), "server": bytearray()}  # by writer
        self.ended: set[Side] = set()  # who writes nothing more
        self.directions = {side: Direction(watcher, side, version) for side, watcher in watchers.items()}


class Node:
    """A process with a host in it. What is durable survives a kill."""

    def __init__(self, world: World, side: Side) -> None:
        self.world = world
        self.side = side
        self.messages: list[tuple[int, str, bytes]] = []  # QoS, topic, payload: what this host wants to send
        self.next = 0
        self.seen: list[bytes] = []  # every message event, in order; survives kills, since it is the judge's
        self.inbox: list[bytes] = []
        self.finished: list[bytes] = []
        self.refused: set[bytes] = set()
        self.handles: dict[Any, bytes] = {}
        self.undecided: list[tuple[Link, Any]] = []
        self.journal: list[Change] = []
        self.session: Session | None = Session("sim", established=True, journaled=True) if side == "client" else None
        self.subscribed = 0
        self.durable: tuple[int, int, int] = (0, 0, 0)
        self.persist()

    def persist(self) -> None:
        if self.session is not None:
            self.journal += self.session.changes()
        self.durable = (self.next, len(self.inbox), len(self.finished))

    def restart(self) -> None:
        self.next, inbox, finished = self.durable
        del self.inbox[inbox:]
        del self.finished[finished:]
        self.undecided.clear()
        self.handles.clear()
        self.session = None
        if self.journal:
            self.session = Session.replay(self.journal, journaled=True)
            again = Session.restore(self.session.snapshot())
            assert again.snapshot() == self.session.snapshot()
            self.journal = shortened(self.journal)


def shortened(journal: list[Change]) -> list[Change]:
    """A journal with the last record of each table and key alone."""
    last: dict[tuple[str, int], Change] = {}
    for change in journal:
        if change.op == "clear":
            last = {key: value for key, value in last.items() if key[0] != change.table}
        else:
            last[change.table, change.key] = change
    return [change for change in last.values() if change.op == "put"]


BEGINNINGS = (b"", b"\0", b"\1", b"\2", b"\3", b"\2\1\1")


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.disturbed = True
        self.version = self.random.choice((3, 4, 5, 5))
        self.qos2_event: Literal["publish", "release"] = self.random.choice(("publish", "release"))
        self.nodes: dict[Side, Node] = {"client": Node(self, "client"), "server": Node(self, "server")}
        self.watchers: dict[Side, Watcher] = {"client": Watcher(), "server": Watcher()}
        self.link: Link | None = None
        self.old: list[Link] = []  # links that one side has given up
        self.counts: dict[str, int] = {}
        for node in self.nodes.values():
            for number in range(self.random.randrange(10, 60)):
                # many begin like the properties of 5.0
                payload = self.random.choice(BEGINNINGS) + f"{node.side} {number} ".encode()
                if self.random.random() < 0.1:
                    payload = payload.ljust(self.random.randrange(100, 6000), b".")
                node.messages.append((self.random.randrange(3), f"topic/{self.random.randrange(5)}", payload))

    # ---- what happens

    def step(self) -> None:
        side: Side = self.random.choice(("client", "server"))
        weights = {
            self.deliver: 40,
            self.decide: 20,
            self.send: 15,
            self.tick: 6,
            self.connect: 10,
            self.cut: 1 if self.disturbed else 0,
            self.close: 0.4 if self.disturbed else 0,
            self.kill_at_rest: 0.4 if self.disturbed else 0,
        }
        action = self.random.choices(list(weights), list(weights.values()))[0]
        self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
        action(side)

    def links(self) -> list[Link]:
        return [*self.old, *([self.link] if self.link else [])]

    def turn(self, link: Link, side: Side, call: Callable[[Any], list[Any] | None]) -> None:
        """Receive or answer, make changes durable, write bytes; the process may die in between."""
        connection = link.ends[side]
        if connection is None or connection.state is State.CLOSED:
            return
        node = self.nodes[side]
        try:
            for event in call(connection) or []:
                self.take(link, node, event)
            self.check(connection, node)
            self.maybe_die()
            node.persist()
            self.maybe_die()
            data = connection.data_to_send()
            if self.random.random() < 0.5:
                self.write(link, side, data)
            else:  # the same in two writes, and a death between them
                cut = self.random.randrange(len(data) + 1)
                self.write(link, side, data[:cut])
                self.maybe_die()
                self.write(link, side, data[cut:])
        except Killed:
            self.kill(side)
            return
        if connection.state is State.CLOSED:
            assert connection.should_close
            link.ended.add(side)
            link.ends[side] = None
            node.undecided = [(where, event) for where, event in node.undecided if where is not link]

    def maybe_die(self) -> None:
        if self.disturbed and self.random.random() < 0.004:
            raise Killed

    def write(self, link: Link, side: Side, data: bytes) -> None:
        link.directions[side].written(data)
        link.under_way[side] += data

    def take(self, link: Link, node: Node, event: Any) -> None:
        match event:
            case mqtt.Publish():
                node.seen.append(event.payload_bytes())
                if event.qos:
                    node.undecided.append((link, event))
                else:
                    node.inbox.append(event.payload_bytes())
            case Released():
                assert self.qos2_event == "release"
                node.inbox.append(event.message.payload_bytes())
            case mqtt.Connect() | mqtt.Subscribe() | mqtt.Unsubscribe():
                node.undecided.append((link, event))
            case Acknowledged():
                if not isinstance(event.handle, Request):
                    name = node.handles.pop(event.handle, None)
                    if name is not None and event.code < 0x80:
                        node.finished.append(name)
            case Disconnected():
                assert event.error is None, event
                assert event.code in (None, 0, 0x8D, 0x8E), event
            case Connected():
                assert event.lost == ()
            case WindowOpened():
                assert event.available > 0
            case _:
                raise AssertionError(event)

    def check(self, connection: Any, node: Node) -> None:
        """Memory is bounded by what was agreed on."""
        options = connection.options
        limit = options.undecided + (options.receive_maximum if self.version == 5 else 0)
        assert connection.undecided <= limit
        if connection.negotiated is not None and self.version == 5:
            assert connection.send_quota <= connection.negotiated.receive_maximum
        assert len(connection._arrivals) <= max(limit, 1)

    # ---- actions

    def deliver(self, side: Side) -> None:
        """Some bytes of `side` reach the other."""
        links = [link for link in self.links() if link.under_way[side] or side in link.ended]
        if not links:
            return
        link = self.random.choice(links)
        other = OTHER[side]
        wire, receiver = link.under_way[side], link.ends[other]
        if receiver is None:
            wire.clear()
            if link is self.link and link.ends[side] is None:
                self.link = None
            elif link in self.old and link.ends[side] is None:
                self.old.remove(link)
            return
        if not wire:
            self.turn(link, other, lambda c: c.receive_eof(self.now))
            return
        if not receiver.wants_read and self.random.random() < 0.9:
            return
        size = self.random.choice((1, 2, 5, 20, 200, len(wire)))
        data = bytes(wire[:size])
        del wire[:size]
        link.directions[other].delivered(data)
        self.turn(link, other, lambda c: c.receive(data, self.now))

    def decide(self, side: Side) -> None:
        """The host answers an event, in any order."""
        node = self.nodes[side]
        if not node.undecided:
            return
        link, event = node.undecided.pop(self.random.randrange(len(node.undecided)))
        match event:
            case mqtt.Connect():
                self.accept(link, event)
            case mqtt.Publish():
                name = event.payload_bytes()

                def acknowledge(connection: Any) -> list[Any]:
                    refuse = self.version == 5 and self.random.random() < 0.05
                    events: list[Any] = connection.acknowledge(event, 0x87 if refuse else 0)
                    if refuse:
                        node.refused.add(name)
                    elif event.qos == 1 or self.qos2_event == "publish":
                        node.inbox.append(name)
                    return events

                self.turn(link, side, acknowledge)
            case mqtt.Subscribe():
                self.turn(link, side, lambda c: c.grant(event, [2] * len(event.subscriptions)))
            case mqtt.Unsubscribe():
                self.turn(link, side, lambda c: c.grant(event))

    def accept(self, link: Link, event: mqtt.Connect) -> None:
        node = self.nodes["server"]
        for other in self.links():  # takeover [MQTT-3.1.4-3]
            old = other.ends["server"]
            if other is not link and old is not None and old.session is not None:
                self.turn(other, "server", lambda c: c.close(0x8E))
        if link.ends["server"] is None:
            return  # the server has been killed meanwhile

        def accept(connection: ServerConnection) -> list[Any]:
            events = connection.accept(event, session=node.session)
            node.session = connection.session
            return events

        self.turn(link, "server", accept)

    def send(self, side: Side) -> None:
        """The host sends some messages."""
        node, link = self.nodes[side], self.link
        if link is None:
            return

        def send(connection: Any) -> None:
            for _ in range(self.random.randrange(1, 4)):
                if node.next == len(node.messages) or connection.state is not State.CONNECTED:
                    break
                qos, topic, payload = node.messages[node.next]
                try:
                    handle = connection.publish(topic, payload, qos=qos, retain=False)
                except LocalProtocolError as error:
                    assert qos, error
                    assert connection.send_quota == 0, error
                    break
                node.next += 1
                if handle is not None:
                    node.handles[handle] = payload
            if side == "client" and connection.state is State.CONNECTED and self.random.random() < 0.1:
                if self.random.random() < 0.5:
                    connection.subscribe([mqtt.Subscription("topic/+", 2)])
                else:
                    connection.unsubscribe(["topic/+"])

        self.turn(link, side, send)

    def tick(self, side: Side) -> None:
        """Time passes, sometimes up to the next timer."""
        times = [c.next_timeout() for link in self.links() for c in link.ends.values() if c is not None]
        due = min((t for t in times if t is not None), default=self.now)
        self.now = max(self.now, due) if self.random.random() < 0.1 else self.now + self.random.random() * 0.2
        for link in self.links():
            for end in ("client", "server"):
                connection = link.ends[end]
                if connection is not None and (connection.next_timeout() or self.now + 1) <= self.now:
                    self.turn(link, end, lambda c: c.handle_timeout(self.now))

    def connect(self, side: Side) -> None:
        """The client connects, if it has no connection."""
        node = self.nodes["client"]
        if self.link is not None:
            if self.link.ends["client"] is not None:
                return
            self.old.append(self.link)
        assert node.session is not None

        def options() -> ConnectionOptions:
            return ConnectionOptions(
                receive_maximum=self.random.choice((1, 2, 5, 65535)),
                topic_alias_maximum=self.random.choice((0, 1, 3)),
                undecided=self.random.choice((1, 2, 10)),
                connect_timeout=20.0,
                qos2_event=self.qos2_event,
                journaled=True,
            )

        client = ClientConnection(self.now, node.session, options())
        server = ServerConnection(self.now, options())
        self.link = Link(client, server, self.watchers, self.version)
        message = mqtt.Connect(
            client_identifier="sim",
            clean_start=False,
            keep_alive=self.random.choice((0, 2, 10)),
            properties=[("session_expiry_interval", NEVER)] if self.version == 5 else (),
            version=self.version,
        )
        self.turn(self.link, "client", lambda c: c.send(message))

    def cut(self, side: Side) -> None:
        """The connection breaks. Bytes in flight are lost; the sides learn of it when they read."""
        if self.link is None:
            return
        for end in ("client", "server"):
            wire = self.link.under_way[end]
            del wire[self.random.randrange(len(wire) + 1) :]
            self.link.ended.add(end)
        connection = self.link.ends["client"]
        if connection is not None:  # the client knows at once
            self.turn(self.link, "client", lambda c: c.close(immediate=True))

    def close(self, side: Side) -> None:
        if self.link is not None:
            self.turn(self.link, "client", lambda c: c.close())

    def kill_at_rest(self, side: Side) -> None:
        self.kill(side)

    def kill(self, side: Side) -> None:
        self.counts["kills"] = self.counts.get("kills", 0) + 1
        node = self.nodes[side]
        for link in self.links():
            if link.ends[side] is not None:
                link.ends[side] = None
                link.ended.add(side)
                if self.random.random() < 0.5:
                    link.under_way[side].clear()
        node.restart()

    # ---- the end

    def settle(self) -> None:
        """Without disturbances everything comes to rest: no deadlock."""
        self.disturbed = False
        for _ in range(60_000):
            self.step()
            if self.at_rest():
                return
        raise AssertionError(
            "deadlock: " + ", ".join(f"{n.side}: {n.next}/{len(n.messages)}" for n in self.nodes.values())
        )

    def at_rest(self) -> bool:
        return all(
            node.next == len(node.messages)
            and node.session is not None
            and not node.session.outgoing
            and not node.session.incoming
            and not node.undecided
            for node in self.nodes.values()
        ) and not any(link.under_way[s] for link in self.links() for s in link.under_way)

    def judge(self) -> None:
        for side, node in self.nodes.items():
            receiver = self.nodes[OTHER[side]]
            firsts: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
            for qos, _, payload in node.messages:
                count = receiver.inbox.count(payload)
                if qos == 0:
                    assert count <= 1, (side, payload)
                elif payload not in receiver.refused:
                    assert count == 1 if qos == 2 else count >= 1, (side, qos, payload, count)
                else:
                    assert qos == 1 or count <= 1, (side, payload, count)
                if payload in receiver.seen:
                    firsts[qos].append(payload)
            for qos, sent in firsts.items():
                received = list(dict.fromkeys(p for p in receiver.seen if p in set(sent)))
                assert received == sent, f"{side}: QoS {qos} out of order"
            assert set(receiver.inbox) <= {payload for _, _, payload in node.messages}


@pytest.mark.parametrize("number", range(max(STEPS // RUN, 1)))
def test_simulation(number: int) -> None:
    seed = SEED + number
    print(f"seed {seed}")
    world = World(seed)
    for _ in range(RUN):
        world.step()
    world.settle()
    world.judge()


# ---- the simulation notices faults


def publish_after_pubrec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends PUBLISH again where PUBREL is due: QoS 2 goes out twice."""
    monkeypatch.setattr(Session, "receive_pubrec", lambda self, delivery: None)


def held_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgets at a kill which QoS 2 messages have arrived."""
    replay = Session.replay.__func__  # type: ignore[attr-defined]

    def forgetful(cls: type[Session], changes: Any, **options: Any) -> Session:
        return replay(cls, [c for c in changes if c.table != "incoming"], **options)

    monkeypatch.setattr(Session, "replay", classmethod(forgetful))  # type: ignore[arg-type]


def no_dup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends again without DUP."""
    monkeypatch.setattr(Sending, "_again", lambda self, delivery: delivery.buffers)


def window_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends more than Receive Maximum when a session is resumed."""
    limit = Sending._limit

    def generous(self: Any, negotiated: Any) -> None:
        limit(self, negotiated)
        self._quota.limit = 100

    monkeypatch.setattr(Sending, "_limit", generous)


def acknowledged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loses the copies that a resumed session has to send again."""
    monkeypatch.setattr(Sending, "_resume_session", lambda self, events: None)


def identifiers_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts identifiers 1 to 4, whether they are in use or not."""

    class Reused(Identifiers):
        def take(self) -> int:
            self.next = self.next % 4 + 1
            return self.next

    init = Session.__init__

    def careless(self: Session, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self.identifiers = Reused()

    monkeypatch.setattr(Session, "__init__", careless)


def pubrec_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers the copy of a message that is held without waiting for earlier messages."""
    on_publish = Receiving._on_publish

    def impatient(self: Any, message: mqtt.Publish, events: list[Any]) -> None:
        if message.packet_identifier in self._session.incoming and message.packet_identifier not in self._arrivals:
            self._put(b"\x50\x02" + checked(message.packet_identifier, int).to_bytes(2))
        else:
            on_publish(self, message, events)

    for cls in (mqtt.ClientConnection, mqtt.ServerConnection):
        monkeypatch.setattr(cls, "_run", lambda self, messages, at, events: at)  # what is compiled does not take it
        for handlers in cls._steady_in.values():
            if mqtt.Publish in handlers:
                monkeypatch.setitem(handlers, mqtt.Publish, impatient)


def out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends again in the order of packet identifiers downwards."""

    def resume(self: Any, events: list[Any]) -> None:
        self._replay.extend(d for _, d in sorted(self._session.outgoing.items(), reverse=True))
        self._send_again(events)
        self._window_closed = not self.send_quota

    monkeypatch.setattr(Sending, "_resume_session", resume)


@pytest.mark.parametrize(
    "plant",
    [
        publish_after_pubrec,
        held_is_not_kept,
        no_dup,
        window_ignored,
        acknowledged_early,
        identifiers_reused,
        out_of_order,
        pubrec_at_once,
    ],
)
def test_the_simulation_notices(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(40):
        world = World(seed)
        try:
            for _ in range(RUN):
                world.step()
            for _ in range(8000):
                if world.at_rest():
                    break
                world.disturbed = False
                world.step()
            else:
                return  # it never comes to rest
            world.judge()
        except (AssertionError, KeyError, LocalProtocolError, DecodeError):
            return
    pytest.fail("40 worlds, and nothing was noticed")
