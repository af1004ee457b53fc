"""PHPMQ: clients and a server in one process, and a network that cuts and delays at any byte.

Connections die at any moment and are made again; hosts decide at random, late and out of order. Every run has a seed:
`SIMULATE_STEPS=1000000 SIMULATE_SEED=7 pytest tests/connection/test_phpmq_simulation.py` runs more, or runs one again.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any, Literal

import pytest

from lib.kinds import all_of, checked
from lib.simulated import PARTS, RUN, run_part
from wirefmt import phpmq
from wirefmt.connection import Acknowledged, Disconnected, WindowOpened
from wirefmt.errors import LocalProtocolError
from wirefmt.phpmq import ClientConnection, ConnectionOptions, Delivery, ServerConnection
from wirefmt.phpmq.events import Returned

SETTLE = 5000  # steps in which a world must come to rest


class Link:
    """One connection, with what is on its way in both directions."""

    def __init__(self, options: ConnectionOptions, now: float) -> None:
        self.client, self.server = ClientConnection(now, options), ServerConnection(now, options)
        self.to_server, self.to_client = bytearray(), bytearray()
        self.held: list[phpmq.MessageServerToClient] = []  # at the client's host
        self.open: set[Any] = set()  # handles of the server that are not finished


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"phpmq {seed}")
        self.profile: Literal["early", "present"] = "present" if seed % 2 else "early"
        self.options = ConnectionOptions(profile=self.profile, pending_bytes=5000)
        self.links: list[Link] = []
        self.queue: deque[str] = deque()  # of the server's host
        self.bodies: dict[str, bytes] = {}  # what has arrived there
        self.done: set[str] = set()
        self.published: set[bytes] = set()
        self.ends: Counter[str] = Counter()
        self.now = 0.0

    # ---- the hosts

    def at_client(self, link: Link, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, Disconnected):
                assert event.error is None, event
            else:
                assert bytes(event.content) == self.bodies[event.message_id]
                # it comes again if it crossed a consume request: the later one counts
                link.held = [held for held in link.held if held.message_id != event.message_id]
                link.held.append(event)

    def at_server(self, link: Link, events: list[Any]) -> None:
        for event in events:
            match event:
                case phpmq.MessageClientToServer():
                    message_id = f"{len(self.bodies):032x}"
                    self.bodies[message_id] = bytes(checked(event.content, memoryview))
                    self.queue.append(message_id)
                case Acknowledged():
                    self.finish(link, event.handle)
                    self.settle(checked(event.handle, Delivery).message_id, event.message, returned=True)
                case phpmq.Acknowledgement() | phpmq.DeadLetter() | phpmq.ReQueue():
                    self.ends["of another"] += 1  # it was sent before the server had taken it back
                    self.settle(checked(event.message_id, str), event, returned=False)
                case Returned():
                    for handle in event.handles:
                        self.finish(link, handle)
                        self.give_back(handle.message_id, "returned")
                case Disconnected():
                    assert event.error is None, event
                    for handle in all_of(event.lost, Delivery):
                        self.finish(link, handle)
                        self.give_back(handle.message_id, "lost")
                    assert not link.open, "a delivery without an end"
                case _:
                    assert isinstance(event, phpmq.ConsumeRequest | WindowOpened)

    def finish(self, link: Link, handle: Any) -> None:
        assert handle in link.open, "a delivery with two ends"
        link.open.remove(handle)

    def settle(self, message_id: str, said: Any, *, returned: bool) -> None:
        if isinstance(said, phpmq.ReQueue):
            if returned:
                self.give_back(message_id, "re-queued")
            return
        self.ends["dead" if isinstance(said, phpmq.DeadLetter) else "acknowledged"] += 1
        self.done.add(message_id)
        if message_id in self.queue:
            self.queue.remove(message_id)

    def give_back(self, message_id: str, why: str) -> None:
        self.ends[why] += 1
        if message_id not in self.done:
            self.queue.appendleft(message_id)

    # ---- the network

    def carry(self, link: Link, settle: bool) -> None:
        link.to_server += link.client.data_to_send()
        link.to_client += link.server.data_to_send()
        for way, end, take in (
            (link.to_server, link.server, self.at_server),
            (link.to_client, link.client, self.at_client),
        ):
            size = len(way) if settle else self.random.choice((0, 1, 31, 300, len(way)))
            data = bytes(way[:size])
            del way[:size]
            take(link, end.receive(data, self.now))
        request = link.server.request
        assert link.server.in_flight <= (request.message_count or 0 if request else 0), "more than the window"
        assert link.client.pending_bytes <= 5000 + 2000

    def cut(self, link: Link) -> None:
        """The transport ends; the server may have read a part of what was on its way."""
        part = bytes(link.to_server[: self.random.randrange(len(link.to_server) + 1)])
        self.at_server(link, link.server.receive(part, self.now))
        self.at_server(link, link.server.receive_eof(self.now))
        self.at_client(link, link.client.receive_eof(self.now))
        self.links.remove(link)

    # ---- steps

    def step(self, settle: bool) -> None:
        random_ = self.random
        self.now += random_.random()
        if len(self.links) < 3:
            self.links.append(Link(self.options, self.now))
        link = random_.choice(self.links)
        try:
            self.act(link, settle)
        except LocalProtocolError as error:
            assert "queued and not taken" in str(error)
        if link in self.links:
            self.carry(link, settle)

    def act(self, link: Link, settle: bool) -> None:
        random_ = self.random
        match random_.randrange(7):
            case 0 if not settle:
                body = b"%d %b" % (len(self.published), bytes(random_.choice((0, 50, 1500))))
                link.client.publish("q", body)
                self.published.add(body)
            case 1 if not settle or not link.client.count:
                link.client.consume("q", random_.randrange(1 if settle else 0, 5))
                link.held.clear()
            case 2 | 3 if link.held:
                message = link.held.pop(random_.randrange(len(link.held)))
                if self.profile == "early" or settle or random_.random() < 0.6:
                    link.client.acknowledge(message)
                elif random_.random() < 0.5:
                    link.client.requeue(message, 5)
                else:
                    link.client.dead_letter(message)
            case 4 | 5 if self.queue and link.server.send_quota:
                message_id = self.queue[0]
                assert message_id not in self.done, "delivered after it was settled"
                handle = link.server.deliver("q", self.bodies[message_id], message_id)
                self.queue.popleft()
                link.open.add(handle)
            case 6 if not settle and random_.random() < 0.1:
                self.cut(link)
                self.links.append(Link(self.options, self.now))

    def at_rest(self) -> bool:
        return len(self.done) == len(self.bodies) and not any(link.to_server or link.to_client for link in self.links)


def run(seed: int) -> World:
    world = World(seed)
    for _ in range(RUN):
        world.step(settle=False)
    for _ in range(SETTLE):
        world.step(settle=True)
        if world.at_rest():
            break
    else:
        raise AssertionError(f"no rest: {len(world.queue)} queued, {len(world.bodies) - len(world.done)} not done")
    assert set(world.bodies.values()) <= world.published
    assert len(set(world.bodies.values())) == len(world.bodies), "a message has arrived twice"
    return world


@pytest.mark.parametrize("part", PARTS)
def test_simulation(part: int) -> None:
    run_part(run, part)


def test_the_simulation_meets_every_end() -> None:
    ends: Counter[str] = Counter()
    for seed in range(6):
        ends += run(seed).ends
    assert set(ends) == {"acknowledged", "dead", "re-queued", "returned", "lost", "of another"}
