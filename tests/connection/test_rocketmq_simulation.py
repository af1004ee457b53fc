"""RocketMQ clients and a server in one process, under a virtual clock and a network that cuts and delays at any byte.

Both sides ask and answer at random, late, out of order or not at all; either side may be killed at any moment. A watcher reads
what is on the wire and knows nothing of the connections' insides.

Every run has a seed. `SIMULATE_STEPS=1000000 SIMULATE_SEED=7 pytest tests/connection/test_rocketmq_simulation.py` runs more, or
runs one again.
"""

from __future__ import annotations

import os
import random
from typing import Any, Literal

import pytest

from wirefmt import rocketmq
from wirefmt.connection import Acknowledged, Connected, Disconnected
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import ClientConnection, ConnectionOptions, RemotingCommand, ServerConnection, State, TimedOut

STEPS = int(os.environ.get("SIMULATE_STEPS", "21000"))
SEED = int(os.environ.get("SIMULATE_SEED", "0"))
RUN = 700  # steps with disturbances in one world, before it is left to settle

Side = Literal["client", "server"]
OTHER: dict[Side, Side] = {"client": "server", "server": "client"}
SIDES: tuple[Side, Side] = ("client", "server")


class Watcher:
    """Reads what one side writes: opaques of its requests are not used again while the other side may answer them."""

    def __init__(self) -> None:
        self.decoder = rocketmq.Decoder()
        self.open: set[int] = set()  # opaques of requests on the wire that nobody has answered
        self.asked: list[int] = []

    def written(self, data: bytes, other: Watcher) -> None:
        for command in self.decoder.feed(data):
            assert command.opaque is not None
            if command.is_response:
                assert command.opaque in other.open, "a response to no request, or a second one"
                other.open.remove(command.opaque)
            elif not command.is_oneway:
                assert command.opaque not in self.open, "an opaque that is in use"
                self.open.add(command.opaque)
                self.asked.append(command.opaque)


class End:
    """One side of a network connection, with its host."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.watcher = Watcher()
        self.under_way = bytearray()  # written, and not delivered
        self.ended = False  # writes nothing more
        self.asked: dict[Any, tuple[int, float, float]] = {}  # handle -> (number in ext fields, when, timeout)
        self.outcomes: dict[int, str] = {}
        self.cancelled: set[int] = set()
        self.undecided: list[RemotingCommand] = []
        self.opened = 0


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.disturbed = True
        self.number = 0
        self.worth = 0  # responses that have arrived
        self.counts: dict[str, int] = {}
        self.connect()

    def connect(self) -> None:
        form: Any = self.random.choice(("JSON", "ROCKETMQ"))
        options = ConnectionOptions(
            serialize_type=form,
            pending=self.random.choice((3, 50)),
            undecided=self.random.choice((2, 30)),
            pending_bytes=20_000,
            remembered=10_000,  # no opaque is used again while its response may come, so the watcher need not forgive
            timeout=5.0,
            idle_timeout=self.random.choice((None, 60.0)),
        )
        self.options = options
        self.ends: dict[Side, End] = {
            "client": End(ClientConnection(self.now, options)),
            "server": End(ServerConnection(self.now, options)),
        }

    def step(self) -> None:
        side = self.random.choice(SIDES)
        weights = {
            self.deliver: 40,
            self.ask: 20 if self.disturbed else 3,  # hosts that ask faster than they answer see timeouts alone
            self.decide: 25,
            self.tick: 8,
            self.cancel: 1,
            self.cut: 0.4 if self.disturbed else 0,
            self.kill: 0.4 if self.disturbed else 0,
            self.drain: 0.3 if self.disturbed else 0,
            self.pause: 1 if self.disturbed else 0,
        }
        action = self.random.choices(list(weights), list(weights.values()))[0]
        self.counts[action.__name__] = self.counts.get(action.__name__, 0) + 1
        action(side)
        if all(end.connection is None or end.connection.state is State.CLOSED for end in self.ends.values()):
            self.finish()

    def finish(self) -> None:
        """Every request of this network connection has had its one outcome, unless its process was killed."""
        for end in self.ends.values():
            if end.connection is not None:
                assert end.asked == {}, "a request without an outcome"
        self.connect()

    # ---- one side

    def turn(self, side: Side, call: Any) -> None:
        end = self.ends[side]
        connection = end.connection
        if connection is None or connection.state is State.CLOSED:
            return
        for event in call(connection) or []:
            self.take(end, event)
        assert connection.undecided <= self.options.undecided
        assert connection.pending <= self.options.pending
        if connection.state is not State.CLOSED:
            assert connection.pending == len(end.asked)
            when = connection.next_timeout()
            assert when is not None or not end.asked, "a request waits and no timer runs"
        data = connection.data_to_send()
        end.watcher.written(data, self.ends[OTHER[side]].watcher)
        end.under_way += data
        if connection.state is State.CLOSED:
            assert connection.should_close
            end.ended = True
            end.undecided.clear()

    def take(self, end: End, event: Any) -> None:
        match event:
            case RemotingCommand():
                assert not event.is_response
                if not event.is_oneway:
                    end.undecided.append(event)
            case Acknowledged():
                number, _, _ = end.asked.pop(event.handle)
                self.outcome(end, number, "response")
                if event.code != 1500:
                    fields = event.message.ext_fields
                    assert fields is not None
                    assert fields["n"] == str(number), "the response to another request"
                self.worth += 1
            case TimedOut():
                number, when, timeout = end.asked.pop(event.handle)
                assert self.now >= when + timeout, "too early"
                self.outcome(end, number, "timeout")
            case Disconnected():
                assert event.error is None, event
                assert set(event.lost) == set(end.asked)
                assert [h.number for h in event.lost] == sorted(h.number for h in event.lost)
                for handle in event.lost:
                    self.outcome(end, end.asked.pop(handle)[0], "lost")
            case Connected():
                end.opened += 1
                assert end.opened == 1
            case _:
                raise AssertionError(event)

    def outcome(self, end: End, number: int, what: str) -> None:
        assert number not in end.outcomes, "a second outcome"
        assert number not in end.cancelled, "an outcome of a request that was cancelled"
        end.outcomes[number] = what

    # ---- actions

    def deliver(self, side: Side) -> None:
        end, other = self.ends[side], self.ends[OTHER[side]]
        wire = end.under_way
        if other.connection is None or other.connection.state is State.CLOSED:
            wire.clear()
            return
        if not other.connection.wants_read and self.random.random() < 0.9:
            return
        if wire:
            size = self.random.choice((1, 7, 100, len(wire)))
            piece = bytes(wire[:size])
            if len(wire) - len(piece) and not other.connection.wants_read:
                return
            del wire[:size]
            self.turn(OTHER[side], lambda connection: connection.receive(piece, self.now))
        elif end.ended:
            self.turn(OTHER[side], lambda connection: connection.receive_eof(self.now))

    def ask(self, side: Side) -> None:
        end = self.ends[side]

        def call(connection: Any) -> None:
            for _ in range(self.random.choice((1, 1, 5))):
                self.number += 1
                oneway = self.random.random() < 0.1
                timeout = self.random.choice((0.5, 5.0, 30.0)) if self.disturbed else 1000.0
                body = bytes(self.random.choice((0, 10, 3000)))
                try:
                    handle = connection.request(
                        310, ext_fields={"n": str(self.number)}, body=body, timeout=timeout, oneway=oneway,
                        now=self.random.choice((None, self.now)),
                    )  # fmt: skip
                except LocalProtocolError:
                    return
                if handle is not None:
                    end.asked[handle] = (self.number, self.now, timeout)

        self.turn(side, call)

    def decide(self, side: Side) -> None:
        end = self.ends[side]
        if end.undecided:
            event = end.undecided.pop(self.random.randrange(len(end.undecided)))
            fields = event.ext_fields or {}
            code = self.random.choice((0, 1, 19))
            if self.random.random() < 0.02:
                self.turn(side, lambda connection: connection.ignore(event))
            else:
                self.turn(side, lambda connection: connection.respond(event, code, ext_fields={"n": fields["n"]}))

    def tick(self, side: Side) -> None:
        self.now += self.random.choice((0.01, 0.1, 1.0, 4.0))
        for whose in SIDES:
            self.turn(whose, lambda connection: connection.handle_timeout(self.now))

    def cancel(self, side: Side) -> None:
        end = self.ends[side]
        if end.asked and end.connection is not None and end.connection.state is not State.CLOSED:
            handle = self.random.choice(list(end.asked))
            end.cancelled.add(end.asked.pop(handle)[0])
            self.turn(side, lambda connection: connection.cancel(handle))

    def pause(self, side: Side) -> None:
        self.turn(side, lambda connection: connection.pause())

    def cut(self, side: Side) -> None:
        for whose in SIDES:
            self.ends[whose].under_way.clear()
            self.turn(whose, lambda connection: connection.resume(self.now))
            self.turn(whose, lambda connection: connection.receive_eof(self.now))
            # what it left unread, since too much waits for the host, is lost
            self.turn(whose, lambda connection: connection.close(immediate=True))

    def kill(self, side: Side) -> None:
        """The process of one side dies; the other sees the end of the stream, at once or later."""
        end = self.ends[side]
        end.connection = None
        end.ended = True
        end.undecided.clear()
        if self.random.random() < 0.5:
            end.under_way.clear()

    def drain(self, side: Side) -> None:
        self.turn(side, lambda connection: connection.close(wait=self.random.choice((0.0, 2.0, 20.0))))

    def settle(self) -> None:
        """No more disturbance: all that is asked has an outcome, and responses come."""
        self.disturbed = False
        for side in SIDES:
            self.turn(side, lambda connection: connection.resume(self.now))
        worth = self.worth
        for _ in range(4000):
            self.step()
            if self.worth > worth + 20:
                break
        else:
            raise AssertionError("no response comes any more")
        for _ in range(60):
            self.now += 20.0
            for side in SIDES:
                self.turn(side, lambda connection: connection.handle_timeout(self.now))
        for side in SIDES:
            assert self.ends[side].asked == {}


@pytest.mark.parametrize("run", range(max(STEPS // RUN, 1)))
def test_every_request_has_one_outcome(run: int) -> None:
    world = World(SEED * 1_000_003 + run)
    for _ in range(RUN):
        world.step()
    world.settle()


def test_the_same_seed_is_the_same_run() -> None:
    runs = []
    for _ in range(2):
        world = World(SEED)
        for _ in range(RUN):
            world.step()
        runs.append((world.counts, world.now, world.number, world.worth))
    assert runs[0] == runs[1]
