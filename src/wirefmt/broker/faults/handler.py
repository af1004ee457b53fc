"""Faults that act on messages: what lies between a server and its broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from wirefmt.broker.faults.control import Active, Faults, block
from wirefmt.broker.faults.protocols import PROTOCOLS
from wirefmt.broker.views import Message
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import DecodeError, EncodeError


class FaultyHandler:
    """The handler of a server, with faults: it decides which events the broker receives.

    Args:
        handler: the broker.
        name: the protocol.
        counts: counts the messages that clients publish, by protocol.
        remember: gets each message and its size; None: nobody wants them.
    """

    def __init__(
        self,
        handler: Any,
        name: str,
        faults: Faults,
        counts: dict[str, int],
        remember: Callable[[Message, int], None] | None = None,
    ) -> None:
        self.handler = handler
        self._name = name
        self._rules = PROTOCOLS[name]
        self._active = faults.active[name]
        self._counts = counts
        self._remember = remember
        handle_run = getattr(handler, "handle_run", None)
        if handle_run is not None:
            self.handle_run = partial(self._run, handle_run)

    def _run(self, handle_run: Callable[[Any, list[Any], int], int], peer: Any, events: list[Any], at: int) -> int:
        """Several events of one kind at once (`wirefmt.connection.aio.Host`): not while a fault is active."""
        if self._active:
            return at
        end = handle_run(peer, events, at)
        if self._rules.is_publication(events[at]):
            self._count(*events[at:end])
        return end

    def _count(self, *events: Any) -> None:
        """These are publications."""
        self._counts[self._name] += len(events)
        if self._remember is not None:
            for event in events:
                try:
                    for message, size in self._rules.messages(event):
                        self._remember(message, size)
                except (DecodeError, EncodeError):
                    pass  # the broker refuses it

    def handle(self, peer: Any, event: Any) -> None:
        publication = self._rules.is_publication(event)
        if self._active:
            if isinstance(event, Disconnected):
                for active in self._active:
                    active.kept.pop(peer, None)
            elif self._is_stopped(peer, event, publication):
                return
        if publication:
            self._count(event)
        self.handler.handle(peer, event)
        for active in self._active:
            if active.fault.duplicate and publication:
                active.taken += 1
                if active.taken % active.fault.duplicate == 0:
                    active.happened += 1
                    self._rules.again(self.handler, peer, event)

    def _is_stopped(self, peer: Any, event: Any, publication: bool) -> bool:
        """True if the broker does not receive the event, or not now."""
        for active in self._active:
            if active.fault.refuse and isinstance(event, self._rules.opening):
                active.happened += 1
                self._rules.refuse(peer, event)
                return True
            if active.fault.full and self._rules.full is not None and publication:
                active.happened += 1
                self._count(event)
                self._rules.full(peer, event, active.fault.full)
                return True
            if active.fault.full and self._rules.full is None and (publication or peer in active.kept):
                self._keep(active, peer, event, publication)
                return True
        return False

    def _keep(self, active: Active, peer: Any, event: Any, publication: bool) -> None:
        """The message waits for the end of the fault, with all events that follow it, and nothing more is read. Now its client
        gets connection.blocked, not when the fault begins: so does RabbitMQ."""
        if publication:
            active.happened += 1
            block(peer.driver, active)
        active.kept.setdefault(peer, []).append(event)
        peer.driver.pause()

    def writable(self, peer: Any) -> None:
        self.handler.writable(peer)

    def closed(self, peer: Any) -> None:
        self.handler.closed(peer)
