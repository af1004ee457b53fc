"""Requests of an AMQP 1.0 client, and their replies."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from wirefmt.amqp10._codec import Incoming, Message, Properties, Source, Symbol, Target, encode_value
from wirefmt.amqp10.ends import End, Entry, Parent, Sender
from wirefmt.amqp10.events import SETTLED, Part
from wirefmt.amqp10.receiving import Receiver
from wirefmt.connection import client as connecting
from wirefmt.errors import ConnectionLost, DecodeError, LocalProtocolError

#: Links for requests that are kept when no request uses them.
KEPT: Final = 16
#: Replies that the server may send ahead; renewed.
CREDIT: Final = 100
#: Of the node for replies: what RabbitMQ 4.2 asks for; what brokers of JMS know.
CAPABILITIES: Final = ("rabbitmq:volatile-queue", "temporary-queue")


class Requester(Sender):
    """A link for requests. They are not kept in a journal, since their address for replies ends with the connection."""

    def _keep(self, entry: Entry) -> None:
        pass


class Replies(Receiver):
    """The link for replies.

    Attributes:
        waiting: the replies that are waited for, by the encoded correlation-id.
    """

    def __init__(self, client: Parent) -> None:
        source = Source(
            dynamic=True,
            expiry_policy="link-detach",
            timeout=0,
            capabilities=[Symbol(name) for name in CAPABILITIES],
        )
        # settled: RabbitMQ sends all replies so, and nobody could deliver one again
        super().__init__(client, client._name(None), source, None, CREDIT, False, False, {"snd_settle_mode": SETTLED})
        self.waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._up = connecting.Receivers()

    async def address(self) -> Any:
        """Where replies go, once the link is attached. Raises what has ended it."""
        while not (self.known and self.link is not None and self.link.attached):
            self.check()
            await self._up.wait()
        return self.link.source.address

    def attached(self) -> None:
        super().attached()
        self._up.wake_all()

    def arrive(self, item: Incoming | Part) -> None:
        assert isinstance(item, Incoming)
        try:
            reply = item.message
        except DecodeError:
            if not item.settled:
                self.reject(item)
            return
        if not item.settled:
            self.accept(item)
        if reply.properties is not None and reply.properties.correlation_id is not None:
            future = self.waiting.get(encode_value(reply.properties.correlation_id))
            if future is not None and not future.done():
                future.set_result(reply)

    def lost(self, error: Exception, *, final: bool) -> None:
        super().lost(error, final=final)
        why = f"the link for replies was lost ({error}): it is not known whether the request was answered"
        for future in self.waiting.values():
            connecting.fail(future, ConnectionLost(why, error))
        self._up.wake_all()


class _Line:
    """A link that requests share, attached by the first one."""

    def __init__(self, client: Parent, make: Callable[[], Any]) -> None:
        self.users = 0
        self.end: End | None = None
        self._client = client
        self._make = make
        self._lock = asyncio.Lock()

    async def attached(self) -> Any:
        async with self._lock:
            end = self.end
            if end is None or end.error is not None or end.closing is not None:
                self.end = None
                end = self._make()
                await self._client._attach(end)
                self.end = end
            return end


class Requests:
    """What `Client.request` does: a link for replies, and one for each address."""

    def __init__(self, client: Parent) -> None:
        self._client = client
        self._replies = _Line(client, lambda: Replies(client))
        self._lines: OrderedDict[bytes, _Line] = OrderedDict()
        self._prefix = f"{client._random.getrandbits(96):024x}"
        self._number = 0

    async def ask(self, address: str | Target, message: Message, timeout: float | None) -> Message:
        client = self._client
        target = Target(address=address) if isinstance(address, str) else address
        key = encode_value(target)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(
                client, lambda: Requester(client, client._name(None), target, None, False, {})
            )
        line.users += 1
        self._lines.move_to_end(key)
        try:
            async with asyncio.timeout(timeout):
                sender = await line.attached()
                replies = await self._replies.attached()
                return await self._exchange(sender, replies, message, await replies.address())
        finally:
            line.users -= 1
            self._drop_some()

    async def _exchange(self, sender: Requester, replies: Replies, message: Message, reply_to: Any) -> Message:
        loop = asyncio.get_running_loop()
        properties = dict(_items(message.properties))
        if properties.get("message_id") is None:
            self._number += 1
            properties["message_id"] = f"{self._prefix}-{self._number}"
        if properties.get("correlation_id") is None:
            properties["correlation_id"] = properties["message_id"]
        properties["reply_to"] = reply_to
        # a responder answers with the correlation-id of the request, or with its message-id
        keys = {encode_value(properties[name]) for name in ("message_id", "correlation_id")}
        if any(key in replies.waiting for key in keys):
            raise LocalProtocolError("another request with this message-id or correlation-id waits for its reply")
        made = Message(
            header=message.header,
            delivery_annotations=message.delivery_annotations,
            message_annotations=message.message_annotations,
            properties=Properties(**properties),
            application_properties=message.application_properties,
            body=message.body,
            footer=message.footer,
        )
        reply: asyncio.Future[Message] = loop.create_future()
        for key in keys:
            replies.waiting[key] = reply
        sent: asyncio.Future[Any] | None = None
        try:
            sent = sender.post(made)
            await asyncio.wait([sent, reply], return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                sent.result()  # raises if the request was not accepted
            return await reply
        finally:
            for key in keys:
                replies.waiting.pop(key, None)
            if sent is not None:
                sent.cancel()  # what is not sent is not wanted any more

    def _drop_some(self) -> None:
        """Detach links for requests that nobody uses."""
        for key, line in list(self._lines.items()):
            gone = line.end is None or line.end.error is not None
            if not line.users and (gone or len(self._lines) > KEPT):
                del self._lines[key]
                if line.end is not None and not gone:
                    line.end.leave()


def _items(properties: Properties | None) -> list[tuple[str, Any]]:
    """The fields that are set."""
    if properties is None:
        return []
    return [(name, value) for name in Properties.__match_args__ if (value := getattr(properties, name)) is not None]
