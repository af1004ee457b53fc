"""Pulls and pops that wait for messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from wirefmt.broker.rocketmq.answers import FAULTS, Answer, failed
from wirefmt.broker.rocketmq.clients import Clients, Timers
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.server import Peer

#: The longest time that a request waits, in seconds.
LONGEST_WAIT: Final = 60.0

#: Requests that have waited for messages and are answered before the event loop goes on; the rest waits for its next iteration.
WOKEN: Final = 256


class Waiting:
    """A pull or a pop that waits for messages. `again`: answers it, or returns None to wait on."""

    __slots__ = ("again", "event", "group", "peer", "queue_id", "timer", "topic")

    def __init__(
        self,
        peer: Peer,
        event: RemotingCommand,
        topic: str,
        queue_id: int,
        group: str | None,
        again: Callable[[], Answer | None],
    ) -> None:
        self.peer = peer
        self.event = event
        self.topic = topic
        self.queue_id = queue_id
        self.group = group
        self.again = again
        self.timer: asyncio.TimerHandle | None = None


class Waits:
    """The requests that wait.

    Attributes:
        count: how many there are.
        waiting: by topic, queue id (-1: all queues), group of a pop (None: pulls), identity of the event.
        of_peer: by connection, and identity of the event.
    """

    def __init__(self, options: BrokerOptions, timers: Timers, clients: Clients) -> None:
        self.options = options
        self._timers = timers
        self._clients = clients
        self.count = 0
        self.waiting: dict[str, dict[int, dict[str | None, dict[int, Waiting]]]] = {}
        self.of_peer: dict[Peer, dict[int, Waiting]] = {}
        self._ready: dict[tuple[str, int, str | None], None] = {}  # there may be something for these
        self._answers = WOKEN  # that may be sent before the loop goes on
        self._pause: asyncio.Handle | None = None

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()

    def wake(self, topic: str, queue_id: int) -> None:
        """A message has arrived: answer the pulls that wait for its queue, and one pop of each group, or more as long as there is
        something for them."""
        for number in (queue_id, -1):
            for group in self.waiting.get(topic, {}).get(number, ()):
                self._ready[topic, number, group] = None
        self._wake_ready()

    def wake_group(self, topic: str, group: str) -> None:
        """There is something for the pops of a group."""
        for queue_id in self.waiting.get(topic, ()):
            self._ready[topic, queue_id, group] = None
        self._wake_ready()

    def _wake_ready(self) -> None:
        """Answer those that there is something for, as many as one iteration of the event loop takes."""
        if self._pause is not None:
            return
        while self._ready:
            if self._answers <= 0:
                self._pause = asyncio.get_running_loop().call_soon(self._after_pause)
                return
            topic, queue_id, group = place = next(iter(self._ready))
            some = self.waiting.get(topic, {}).get(queue_id, {}).get(group)
            waiting = next(iter(some.values())) if some else None
            try:
                answer = waiting.again() if waiting is not None else None
            except FAULTS as error:  # this one's alone: the others are looked at
                answer = failed(error)
            self._answers -= 1
            if waiting is None or answer is None:  # the others would see the same
                del self._ready[place]
            else:
                self._forget(waiting)
                self._clients.answer(waiting.peer, waiting.event, answer)

    def _after_pause(self) -> None:
        self._pause, self._answers = None, WOKEN
        self._wake_ready()

    def wait(
        self,
        peer: Peer,
        event: RemotingCommand,
        topic: str,
        queue_id: int,
        group: str | None,
        seconds: float,
        again: Callable[[], Answer | None],
        end: Answer,
    ) -> Answer | None:
        """Let a request wait for messages of a topic. Returns `end` if it cannot wait.

        Args:
            queue_id: of the queue that it asks for; -1: all.
            group: of a pop; None: it is a pull.
        """
        most, holder = self.options.waiting, self._clients.holders[peer]
        if seconds <= 0 or self.count >= most or self._clients.shares.lacks(holder, "waiting", most):
            return end
        holder.count("waiting")
        waiting = Waiting(peer, event, topic, queue_id, group, again)
        groups = self.waiting.setdefault(topic, {}).setdefault(queue_id, {})
        groups.setdefault(group, {})[id(event)] = waiting
        self.of_peer.setdefault(peer, {})[id(event)] = waiting
        self.count += 1
        waiting.timer = self._timers.later(min(seconds, LONGEST_WAIT), self._over, waiting, end)
        return None

    def _over(self, waiting: Waiting, end: Answer) -> None:
        self._forget(waiting)
        self._clients.answer(waiting.peer, waiting.event, end)

    def _forget(self, waiting: Waiting) -> None:
        queues = self.waiting.get(waiting.topic, {})
        groups = queues.get(waiting.queue_id, {})
        some = groups.get(waiting.group, {})
        if some.pop(id(waiting.event), None) is not None:
            self.count -= 1
            self._clients.holders[waiting.peer].count("waiting", -1)
            of_peer = self.of_peer[waiting.peer]
            del of_peer[id(waiting.event)]
            levels: tuple[tuple[dict[Any, Any], dict[Any, Any], Any], ...] = (
                (some, groups, waiting.group),
                (groups, queues, waiting.queue_id),
                (queues, self.waiting, waiting.topic),
                (of_peer, self.of_peer, waiting.peer),
            )
            for inner, outer, key in levels:
                if not inner:
                    del outer[key]
        self._timers.stop(waiting.timer)

    def stop(self, peer: Peer) -> None:
        """Drop the waiting requests of a client that is gone."""
        for waiting in list(self.of_peer.get(peer, {}).values()):
            self._forget(waiting)
