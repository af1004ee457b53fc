"""An AMQP 0.9.1 client and server in one process, under a virtual clock and a network that cuts and delays at any byte.

Either side may be killed at any moment: the client starts again from its journal, the server from what it has confirmed. Hosts
decide at random, late and out of order; channels are closed from both sides.

Every run has a seed. `SIMULATE_STEPS=1000000 SIMULATE_SEED=7 pytest tests/connection/test_amqp091_simulation.py` runs more, or
runs one again.
"""

from __future__ import annotations

import os
import random
from collections import deque
from typing import Any, Literal

import pytest

from wirefmt import amqp091
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.connection import Acknowledged, Change, Connected, Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError

STEPS = int(os.environ.get("SIMULATE_STEPS", "21000"))
SEED = int(os.environ.get("SIMULATE_SEED", "0"))
RUN = 700  # steps with disturbances in one world, before it is left to settle
MESSAGES = 60  # that a client publishes in one world
CHANNELS = (1, 2, 3)

Side = Literal["client", "server"]
OPTIONS = amqp091.ConnectionOptions(
    channel_max=3,
    frame_max=4096,
    heartbeat=20,
    undecided=6,
    unacknowledged=5,
    unconfirmed=6,
    pending_bytes=60_000,
    unread_bytes=100_000,
    handshake_timeout=30,
    close_timeout=30,
)


class Watcher:
    """Reads what is on the wire of one connection, and knows nothing of the connections' insides."""

    def __init__(self) -> None:
        self.written = {side: amqp091.Assembler(side=side, frame_max=4096) for side in ("client", "server")}
        self.began = {"client": False, "server": True}
        self.delivered: dict[int, int] = {}  # channel -> highest delivery-tag, of the channel that is open
        self.settled: dict[int, set[int]] = {}
        self.open: dict[int, set[str]] = {}  # channel -> whose close is not answered
        self.over: set[str] = set()

    def wrote(self, side: Side, data: bytes) -> None:
        for message in self.written[side].feed(data):
            assert side not in self.over, "bytes after the last close"
            if isinstance(message, amqp091.ConnectionCloseOk):
                self.over.add(side)
            number = message.channel
            if not number:
                continue
            method = message.method if isinstance(message, amqp091.BasicMessage) else message
            match method:
                case amqp091.ChannelOpen():
                    assert number not in self.open, f"channel {number} is opened while an old one is there"
                    self.open[number] = set()
                    self.delivered[number] = 0
                    self.settled[number] = set()
                case amqp091.ChannelClose():
                    self.open[number].add(side)
                case amqp091.ChannelCloseOk():
                    other = "server" if side == "client" else "client"
                    assert other in self.open[number], "close-ok without close"
                    self.open[number].discard(other)
                    self.open[number].add("done")
                    if not self.open[number] & {"client", "server"}:
                        del self.open[number]
                case amqp091.BasicDeliver():
                    assert method.delivery_tag == self.delivered[number] + 1, "delivery-tags have a gap"
                    self.delivered[number] = method.delivery_tag
                case amqp091.BasicAck() | amqp091.BasicNack() | amqp091.BasicReject() if side == "client":
                    self.settle(number, method)

    def settle(self, number: int, method: Any) -> None:
        assert 0 < method.delivery_tag <= self.delivered[number], "a tag that was not delivered on this channel"
        assert method.delivery_tag not in self.settled[number], "acknowledged twice"
        if getattr(method, "multiple", False):
            self.settled[number].update(range(1, method.delivery_tag + 1))
        self.settled[number].add(method.delivery_tag)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.disturbed = True
        # the client's host
        self.journal: list[Change] = []
        self.published = 0
        self.confirmed: dict[int, bool] = {}  # number of the publication -> accepted
        self.done: set[bytes] = set()  # messages that the client has acknowledged
        # the server's host: what survives a kill
        self.stored: list[bytes] = []
        self.queue: deque[bytes] = deque()
        self.incarnations = 0
        self.connect()

    # ---- connections

    def connect(self) -> None:
        session = amqp091.Session.replay(self.journal, journaled=True)
        self.client = amqp091.ClientConnection(self.now, session, OPTIONS)
        self.server = amqp091.ServerConnection(self.now, OPTIONS)
        self.ends: dict[Side, Any] = {"client": self.client, "server": self.server}
        self.gone: dict[Side, bool] = {"client": False, "server": False}
        self.pipes: dict[Side, bytearray] = {"client": bytearray(), "server": bytearray()}  # by writer
        self.ended: set[Side] = set()  # who writes nothing more
        self.watcher = Watcher()
        self.again = deque(session.outgoing.values())
        self.mine: dict[int, int] = {}  # channel -> incarnation, at the client
        self.theirs: dict[int, int] = {}  # at the server
        self.waiting: list[Any] = []  # events of the server that wait
        self.in_hand: list[tuple[Any, int, int, bytes]] = []  # deliveries of the client: channel, incarnation, tag
        self.delivered: dict[Any, bytes] = {}  # handles of the server
        self.client.open()

    def kill(self, side: Side) -> None:
        """The process of this side dies, and starts again. Its peer sees the end of the stream, perhaps inside a frame."""
        other: Side = "server" if side == "client" else "client"
        pipe = self.pipes[side]
        del pipe[self.random.randrange(len(pipe) + 1) :]
        if not self.gone[other]:
            if pipe:
                self.take(other, self.ends[other].receive(bytes(pipe), self.now))
            if not self.gone[other]:
                self.take(other, self.ends[other].receive_eof(self.now))
            if not self.gone[other]:
                self.take(other, self.ends[other].close(immediate=True))
        if side == "client":
            self.server_forgets()
            for change in self.client.changes():  # not durable: it has not happened
                if change.op == "put":
                    self.published -= 1
                elif not self.confirmed.pop(change.key):
                    self.published += 1
        else:
            self.queue.extend(self.delivered.values())
            self.delivered.clear()
            self.journal += self.client.changes()
        self.connect()

    def server_forgets(self) -> None:
        assert not self.delivered, "deliveries that no event has given back"

    def after_the_end(self) -> None:
        """Both have seen the end: connect again."""
        if self.gone["client"] and self.gone["server"]:
            self.server_forgets()
            self.journal += self.client.changes()
            self.connect()

    # ---- the network

    def write(self, side: Side) -> None:
        if side in self.ended:
            return
        end = self.ends[side]
        data = b"".join(bytes(b) for b in end.buffers_to_send()) if self.random.random() < 0.5 else end.data_to_send()
        if side == "client":
            self.journal += end.changes()  # durable, then written
        if data:
            self.watcher.wrote(side, data)
            self.pipes[side] += data
        if end.should_close:
            self.ended.add(side)
        assert end.pending_bytes == 0

    def carry(self, writer: Side) -> None:
        reader: Side = "server" if writer == "client" else "client"
        pipe = self.pipes[writer]
        if self.gone[reader]:
            pipe.clear()
            return
        end = self.ends[reader]
        if not end.wants_read and self.random.random() < 0.9:
            return
        if pipe:
            size = self.random.choice((1, 2, 7, 30, 300, len(pipe)))
            piece = bytes(pipe[:size])
            del pipe[:size]
            self.take(reader, end.receive(piece, self.now))
        elif writer in self.ended:
            self.take(reader, end.receive_eof(self.now))
            if not self.gone[reader]:
                self.take(reader, end.close(immediate=True))

    def tick(self) -> None:
        self.now += self.random.choice((0.0, 0.01, 0.1, 1.0))
        for side in ("client", "server"):
            when = self.ends[side].next_timeout()
            if not self.gone[side] and when is not None and when <= self.now:
                self.take(side, self.ends[side].handle_timeout(self.now))

    # ---- events

    def take(self, side: Side, events: list[Any]) -> None:
        for k, event in enumerate(events):
            if isinstance(event, Disconnected):
                assert k == len(events) - 1, "events after Disconnected"
                assert not self.gone[side]
                assert event.error is None, event.error
                self.gone[side] = True
            (self.client_event if side == "client" else self.server_event)(event)
        assert self.ends[side].undecided <= OPTIONS.undecided + 2
        assert self.ends[side].pending_bytes <= OPTIONS.pending_bytes + (1 << 16)

    def client_event(self, event: Any) -> None:
        match event:
            case amqp091.Confirmed():
                for handle in event.handles:
                    assert handle.number not in self.confirmed, "confirmed twice"
                    self.confirmed[handle.number] = event.accepted
                    if event.accepted:
                        assert handle.message.body_bytes() in self.stored, "confirmed, and not stored"
                    else:
                        self.published -= 1  # a further one in its place
            case amqp091.BasicMessage():
                body = event.body_bytes()
                incarnation, _, text = body.partition(b" ")
                assert int(incarnation) == self.mine[event.channel], "a delivery of another channel with this number"
                channel = self.client.channels.get(event.channel)
                if channel is not None:  # else the channel is closed by what follows in the same bytes
                    self.in_hand.append((channel, int(incarnation), event.method.delivery_tag, text))
            case amqp091.ChannelClosed():
                del self.mine[event.channel]
                self.again = deque(h for h in self.client.session.outgoing.values() if not self.is_sent(h))
            case (
                amqp091.Returned()
                | Acknowledged()
                | WindowOpened()
                | Connected()
                | Disconnected()
                | amqp091.BasicCancel()
                | amqp091.ConnectionBlocked()
                | amqp091.ConnectionUnblocked()
            ):
                pass
            case _:
                raise AssertionError(event)

    def is_sent(self, handle: Any) -> bool:
        channel = self.client.channels.get(handle.channel)
        return channel is not None and channel._unconfirmed.get(handle.tag) is handle

    def server_event(self, event: Any) -> None:
        match event:
            case amqp091.ChannelOpened():
                assert event.channel not in self.theirs
                self.theirs[event.channel] = 0
            case amqp091.ChannelClosed():
                del self.theirs[event.channel]
                self.give_back(event.lost)
                self.waiting = [e for e in self.waiting if e.channel != event.channel]
            case amqp091.Settled():
                assert event.deliveries
                for delivery in event.deliveries:
                    body = self.delivered.pop(delivery)
                    if event.outcome == "requeue":
                        self.queue.append(body)
            case Disconnected():
                self.give_back(event.lost)
                self.waiting.clear()
            case Connected() | amqp091.BasicQos() | amqp091.BasicCancel():
                pass
            case amqp091.Method() | amqp091.BasicMessage() | amqp091.ChannelWaits():
                self.waiting.append(event)
            case _:
                raise AssertionError(event)

    def give_back(self, handles: Any) -> None:
        for delivery in handles:
            self.queue.append(self.delivered.pop(delivery))

    # ---- the client's host

    def act_client(self) -> None:
        client, r = self.client, self.random
        if self.gone["client"] or client.state is not State.OPEN:
            return
        number = r.choice(CHANNELS)
        channel = client.channels.get(number)
        if channel is None:
            channel = client.open_channel(number)
            channel.confirm_select()
            channel.qos(r.choice((0, 1, 3)), shared=r.random() < 0.3)
            self.incarnations += 1
            self.mine[number] = self.incarnations
            self.consume(channel, nowait=r.random() < 0.3)
            return
        if channel.state is not ChannelState.OPEN:
            return
        choice = r.random()
        try:
            if choice < 0.45 and self.again:
                handle = self.again[0]
                channel.resend(handle)
                self.again.popleft()
            elif choice < 0.45 and self.published < MESSAGES:
                handle = channel.publish(
                    "", "q", b"%d" % r.getrandbits(60) + b"x" * r.choice((0, 10, 9000)), mandatory=r.random() < 0.2
                )
                self.published += 1
            elif choice < 0.8 and self.in_hand:
                self.settle(self.in_hand.pop(r.randrange(len(self.in_hand))))
            elif choice < 0.85:
                self.in_hand = [hand for hand in self.in_hand if hand[0].state is ChannelState.OPEN]
            elif choice < 0.87 and self.disturbed:
                self.take("client", channel.close())
            elif choice < 0.88 and self.disturbed:
                channel.cancel("c")
            elif choice < 0.89 and "c" not in channel.consumers:
                self.consume(channel)
        except LocalProtocolError:
            pass
        if not self.disturbed and "c" not in channel.consumers and channel.state is ChannelState.OPEN:
            try:
                self.consume(channel)
            except LocalProtocolError:
                pass  # it is asked for

    def consume(self, channel: Any, nowait: bool = False) -> None:
        """The server learns from the arguments which channel of this number it is."""
        channel.consume("q", "c", nowait=nowait, arguments={"incarnation": self.mine[channel.number]})

    def settle(self, hand: tuple[Any, int, int, bytes]) -> None:
        channel, _, tag, text = hand
        if channel.state is not ChannelState.OPEN:
            return  # the tag belongs to a channel that is gone
        if self.random.random() < 0.8 or not self.disturbed:
            self.take("client", channel.ack(tag))
            self.done.add(text)
        else:
            self.take("client", channel.reject(tag) if self.random.random() < 0.5 else channel.nack(tag))

    # ---- the server's host

    def act_server(self) -> None:
        server, r = self.server, self.random
        if self.gone["server"] or server.state is State.CLOSING:
            return
        if self.waiting and r.random() < 0.8:
            event = self.waiting.pop(r.randrange(len(self.waiting)) if server.state is State.OPEN else 0)
            self.decide(event)
            return
        if server.state is not State.OPEN:
            return
        if self.queue:
            number = r.choice(CHANNELS)
            channel = server.channels.get(number)
            if channel is not None and channel.state is ChannelState.OPEN and channel.credit("c"):
                body = self.queue[0]
                try:
                    delivery = channel.deliver("c", "", "q", b"%d " % self.theirs[number] + body)
                except LocalProtocolError:
                    return
                self.queue.popleft()
                assert delivery is not None
                self.delivered[delivery] = body
        if self.disturbed and r.random() < 0.02 and server.channels:
            channel = r.choice(list(server.channels.values()))
            if channel.state is ChannelState.OPEN:
                if r.random() < 0.5 and channel.consumers:
                    channel.cancel("c")
                else:
                    self.take("server", channel.close(r.choice((404, 406)), "disturbed"))
        elif self.disturbed and r.random() < 0.02:
            server.block("low") if r.random() < 0.5 else server.unblock()
        elif not self.disturbed and server.blocked:
            server.unblock()

    def decide(self, event: Any) -> None:
        server, r = self.server, self.random
        if isinstance(event, amqp091.ConnectionStartOk | amqp091.ConnectionOpen):
            self.take("server", server.accept(event))
        elif isinstance(event, amqp091.ChannelWaits):
            self.take("server", server.proceed(event))
        elif isinstance(event, amqp091.BasicMessage):
            body = event.body_bytes()
            if server.channels[event.channel].mode != "confirm":
                raise AssertionError("a publish on a channel that is not in confirm mode: another incarnation")
            if self.disturbed and r.random() < 0.1:
                self.take("server", server.reject(event))
                return
            if event.method.mandatory and r.random() < 0.3:
                server.return_message(event)
            if body not in self.stored:
                self.stored.append(body)
                self.queue.append(body)
            self.take("server", server.acknowledge(event))
        else:
            if isinstance(event, amqp091.BasicConsume):
                incarnation = event.arguments["incarnation"]
                assert self.theirs[event.channel] in (0, incarnation), "a consume of another channel with this number"
                self.theirs[event.channel] = incarnation
            self.take("server", server.reply(event))

    # ---- running

    def step(self) -> None:
        r = self.random
        choice = r.random()
        if choice < 0.3:
            self.write("client")
            self.write("server")
        elif choice < 0.6:
            self.carry(r.choice(("client", "server")))
        elif choice < 0.75:
            self.act_client()
        elif choice < 0.92:
            self.act_server()
        elif choice < 0.97:
            self.tick()
        elif self.disturbed and choice < 0.972:
            self.kill(r.choice(("client", "server")))
        elif self.disturbed and choice < 0.974:
            side: Side = r.choice(("client", "server"))
            if not self.gone[side]:
                self.take(side, self.ends[side].close(200, "bye", immediate=r.random() < 0.3))
        elif self.disturbed and choice < 0.98 and not self.gone["server"]:
            self.server.pause()
            self.take("server", self.server.resume(self.now))
        self.after_the_end()

    def settled(self) -> bool:
        return (
            self.published >= MESSAGES
            and not self.client.session.outgoing
            and not self.queue
            and not self.delivered
            and not self.waiting
        )


def run(seed: int) -> int:
    world = World(seed)
    steps = 0
    try:
        for _ in range(RUN):
            world.step()
            steps += 1
        world.disturbed = False
        for _ in range(60_000):
            if world.settled():
                break
            world.step()
            steps += 1
        else:
            raise AssertionError("no progress: a deadlock")
    except BaseException as error:
        error.add_note(f"SIMULATE_SEED={seed}, step {steps}")
        raise
    accepted = sum(world.confirmed.values())
    assert accepted == MESSAGES, "every message is confirmed once"
    assert len(world.stored) >= accepted
    assert set(world.stored) <= world.done, "every message that was confirmed has been consumed"
    return steps


PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_simulation(part: int) -> None:
    steps, seed = 0, SEED + part
    while steps < STEPS / PARTS:
        steps += run(seed)
        seed += PARTS


def test_a_seed_reproduces_its_run() -> None:
    assert run(12345) == run(12345)
