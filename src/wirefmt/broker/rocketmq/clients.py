"""The connections of the broker's clients: whose they are, answers and questions to them; and timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.shares import Holder, Shares
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.server import Peer


class Timers:
    """Calls to come. The broker ends them when it is closed."""

    def __init__(self) -> None:
        self._handles: set[asyncio.TimerHandle] = set()

    def later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        def run() -> None:
            self._handles.discard(timer)
            call(*arguments)

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._handles.add(timer)
        return timer

    def stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
            self._handles.discard(timer)

    def close(self) -> None:
        for timer in self._handles:
            timer.cancel()
        self._handles.clear()


class Clients:
    """The connections that have sent a request.

    Attributes:
        shares: of all clients and accounts.
        holders: by connection.
        asked: what is called with the response to a request of ours, by the handle of the request.
    """

    def __init__(self, options: BrokerOptions) -> None:
        self.options = options
        self.shares = Shares(options.client_share, options.user_share)
        self.holders: dict[Peer, Holder] = {}
        self.asked: dict[Any, Callable[[RemotingCommand | None], None]] = {}

    def greet(self, peer: Peer, user: str | None) -> None:
        """A client has sent its first request. `user`: its account; None: there are none."""
        self.holders[peer] = self.shares.holder(user)

    def answer(self, peer: Peer, event: RemotingCommand, answer: Answer) -> None:
        if not event.is_oneway:
            try:
                peer.respond(event, answer.code, answer.header, answer.body, remark=answer.remark)
            except LocalProtocolError:
                pass  # the connection has ended; `Disconnected` follows

    def ask(
        self,
        peer: Peer,
        code: int,
        header: Any,
        body: bytes | None,
        then: Callable[[RemotingCommand | None], None],
        *,
        ext_fields: Mapping[str, str | None] | None = None,
    ) -> bool:
        """Ask a client, and call `then` with its response; None: it has not answered. False: it cannot be asked."""
        try:
            handle = peer.request(code, header, body, ext_fields=ext_fields, timeout=self.options.ask)
        except LocalProtocolError:
            return False
        assert handle is not None
        self.asked[handle] = then
        return True

    def outcome(self, handle: Any, response: RemotingCommand | None) -> None:
        then = self.asked.pop(handle, None)
        if then is not None:
            then(response)
