"""Requests of an AMQP 0.9.1 client and their replies, by direct reply-to (RabbitMQ)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from wirefmt import amqp091
from wirefmt.amqp091.aio_channel import Channel, Consumer, Message, returned
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.connection import client as connecting
from wirefmt.errors import ConnectionLost, Refused

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

#: The name from which replies are consumed, and which is the `reply_to` of a request: on the same channel.
REPLY_TO: Final = "amq.rabbitmq.reply-to"


class Requester:
    """Sends the requests to one exchange, on a channel of its own: a refusal is of that exchange, and other requests go on.

    Args:
        known: the requesters of the client, by exchange. This one leaves them when it is over.
    """

    def __init__(self, channel: Channel, exchange: str, known: dict[str, Requester]) -> None:
        self.channel = channel
        self.exchange = exchange
        self.known = known
        #: By correlation-id: the future of the reply, and the properties of the request.
        self.waiting: dict[str, tuple[asyncio.Future[Message], amqp091.BasicProperties]] = {}
        channel._on_returned = self.returned

    @classmethod
    async def begin(cls, channel: Channel, exchange: str, known: dict[str, Requester]) -> Self:
        """Consume the replies. Raises Refused, ConnectionLost."""
        requester = cls(channel, exchange, known)
        try:
            await channel._start(Replies(requester))
        except BaseException as error:
            channel._drop()
            if isinstance(error, Refused) and error.code == ReplyCode.NOT_FOUND:
                raise Refused(f"the server has no direct reply-to: {error}", error.code, error.message) from error
            raise
        known[exchange] = requester
        return requester

    async def request(
        self, body: Buffer | str, routing_key: str, properties: amqp091.BasicProperties | None
    ) -> Message:
        """Send a request and wait for its reply. See `Client.request`."""
        properties = properties or amqp091.BasicProperties()
        if properties.reply_to:
            raise ValueError("reply_to is set by request()")
        given = properties.correlation_id
        identifier = text_of(given) if given else f"{self.channel._client._random.getrandbits(64):x}"
        if identifier in self.waiting:
            raise ValueError(f"a request with the correlation_id {identifier!r} waits for its reply")
        fields = {name: getattr(properties, name) for name in properties.__match_args__}
        properties = amqp091.BasicProperties(**{**fields, "reply_to": REPLY_TO, "correlation_id": identifier})
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.waiting[identifier] = future, properties
        try:
            await self.channel.publish(
                body, exchange=self.exchange, routing_key=routing_key, properties=properties, mandatory=True
            )
            return await future
        finally:
            del self.waiting[identifier]

    def reply(self, message: Message) -> None:
        """A reply has arrived."""
        future = self._future(message.properties)
        if future is not None and not future.done():
            future.set_result(message)

    def returned(self, message: amqp091.BasicMessage) -> None:
        """The server cannot route a request."""
        future = self._future(message.properties)
        if future is not None:
            connecting.fail(future, returned(message))

    def lost(self) -> None:
        """The connection is gone: the requests that have been sent have no reply."""
        unsent = {id(entry.fields[3]) for entry in self.channel._queue}
        for future, properties in self.waiting.values():
            if id(properties) not in unsent:
                text = "the connection was lost before the reply: it is not known whether the request has been handled"
                connecting.fail(future, ConnectionLost(text))

    def over(self, error: Exception | None) -> None:
        """The channel is over, or no more replies come. The next request begins another one."""
        if self.known.get(self.exchange) is self:
            del self.known[self.exchange]
        for future, _ in self.waiting.values():
            connecting.fail(future, error or ConnectionLost("the client was closed"))
        if not self.channel._closed:
            self.channel._drop()

    def _future(self, properties: amqp091.BasicProperties) -> asyncio.Future[Message] | None:
        identifier = properties.correlation_id
        future, _ = self.waiting.get(text_of(identifier), (None, None)) if identifier else (None, None)
        return future


class Replies(Consumer):
    """The consumer of replies."""

    def __init__(self, requester: Requester) -> None:
        fields: dict[str, Any] = {"no_ack": True, "exclusive": False, "arguments": {}}
        super().__init__(requester.channel, REPLY_TO, True, fields, "fail")
        self._requester = requester

    @property
    def bound(self) -> bool:
        return True

    def _arrive(self, message: Message) -> None:
        self._requester.reply(message)

    def _forget(self) -> None:
        super()._forget()
        self._requester.lost()

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            super()._end(error)
            self._requester.over(error)
