"""Messages that an AMQP 0.9.1 client on asyncio has received, and its consumers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from wirefmt import amqp091
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.connection.client import Receivers
from wirefmt.connection.recovery import OnRefused
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing import Self

    from wirefmt.amqp091.aio_channel import Channel

#: Deliveries of consumers with no_ack that may wait for the host, as a multiple of `inbox`, while calls wait; then they are
#: dropped and counted.
STRETCH: Final = 10


def returned(message: amqp091.BasicMessage | amqp091.BasicReturn) -> Refused:
    """The error for a message that the server has returned, with basic.return."""
    method = message.method if isinstance(message, amqp091.BasicMessage) else message
    text = f"the server returns the message: {method.reply_code} {text_of(method.reply_text)}"
    return Refused(text, method.reply_code, message)


class Message:
    """A message that has been delivered to a consumer, or that basic.get has returned.

    Attributes:
        message: the method with its content.
        channel: the channel it came on.
    """

    __slots__ = ("_view", "channel", "message", "no_ack")

    def __init__(self, channel: Channel, view: ClientChannel, message: amqp091.BasicMessage, no_ack: bool) -> None:
        self.channel = channel
        self.message = message
        self.no_ack = no_ack
        self._view = view

    def __repr__(self) -> str:
        return f"<Message {self.delivery_tag}: {self.message!r}>"

    @property
    def body(self) -> bytes:
        return self.message.body_bytes()

    @property
    def properties(self) -> amqp091.BasicProperties:
        return self.message.properties

    @property
    def exchange(self) -> str:
        return text_of(self.message.method.exchange)

    @property
    def routing_key(self) -> str:
        return text_of(self.message.method.routing_key)

    @property
    def redelivered(self) -> bool:
        """True: it may have been delivered before."""
        redelivered: bool = self.message.method.redelivered
        return redelivered

    @property
    def delivery_tag(self) -> int:
        """Its number on the channel of this connection."""
        tag: int = self.message.method.delivery_tag
        return tag

    def ack(self, *, multiple: bool = False) -> bool:
        """Acknowledge it; with `multiple` also all before it on the channel. It does not wait.

        Returns False if the channel it came on is gone: the server delivers it again, perhaps to another consumer.

        Raises LocalProtocolError if it has been acknowledged, or needs none.
        """
        return self._settle(lambda view: view.ack(self.delivery_tag, multiple))

    def nack(self, *, multiple: bool = False, requeue: bool = True) -> bool:
        """Give it back: to be delivered again, or without `requeue` to be dropped or dead-lettered. See `ack`."""
        return self._settle(lambda view: view.nack(self.delivery_tag, multiple, requeue))

    def reject(self, *, requeue: bool = False) -> bool:
        """Give it back alone: dropped or dead-lettered, or with `requeue` delivered again. See `ack`."""
        return self._settle(lambda view: view.reject(self.delivery_tag, requeue))

    def _settle(self, act: Callable[[ClientChannel], list[Any]]) -> bool:
        if self.no_ack:
            raise LocalProtocolError("this message needs no acknowledgement")
        link = self.channel._attached
        if link is None or link.connection.state is not State.OPEN or self._view.state is not ChannelState.OPEN:
            return False
        link.driver.update(act(self._view))
        return True


class Consumer:
    """Messages of a queue, in order: `async for message in consumer`. Made by `Channel.consume`.

    The iteration ends when the consumer is cancelled, and raises what ended it otherwise: the server has cancelled it, or its
    channel or the client is closed by an error; or a message cannot be read, as it is larger than our limits (ConnectionLost; it
    stays in its queue). With reconnection it goes on on the next connection.

    Attributes:
        channel: where it was started.
        queue: its name, or the first name that the server has given it.
        on_refused: what becomes of it if it cannot be restored.
        dropped: messages without acknowledgement that were dropped because too many waited.
    """

    def __init__(
        self, channel: Channel, queue: str, no_ack: bool, fields: dict[str, Any], on_refused: OnRefused | None = None
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.prefetch = channel._prefetch
        self.on_refused = on_refused
        self.tag = ""
        self.dropped = 0
        self._fields = fields
        self._inbox: deque[Message] = deque()
        self._receivers = Receivers()
        self._ended = False
        self._error: Exception | None = None
        self._view: ClientChannel | None = None  # its own on this connection; None: that of its channel
        self._asking = False

    @property
    def bound(self) -> bool:
        """It cannot be restored on a channel of its own."""
        return self.channel._transactional

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while not self._inbox:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._receivers.wait()
        message = self._inbox.popleft()
        client = self.channel._client
        client._waiting_messages -= 1
        client._check_reading()
        return message

    async def cancel(self) -> None:
        """End the consumer. Messages that wait are given back to the queue; those returned can still be acknowledged."""
        if self._ended:
            return
        channel = self.channel
        channel._consumers.pop(self.tag, None)
        self._end(None)
        view, link = self._view or channel._view, channel._attached
        if view is not None and link is not None and link.connection.state is State.OPEN and self.tag in view.consumers:
            call = view.cancel(self.tag)
            assert call is not None
            try:
                await channel._client._reply(link, call)
            except ConnectionLost:
                pass  # it has ended with the connection
        self._give_back()

    def _arrive(self, message: Message) -> None:
        client = self.channel._client
        if self.no_ack and len(self._inbox) >= STRETCH * client._inbox_limit:
            self.dropped += 1
            return
        self._inbox.append(message)
        client._waiting_messages += 1
        self._receivers.wake()
        client._check_reading()

    def _give_back(self) -> None:
        inbox, self._inbox = self._inbox, deque()
        self.channel._client._waiting_messages -= len(inbox)
        for message in inbox:
            if not message.no_ack:
                message.nack()
        self.channel._client._check_reading()

    def _forget(self) -> None:
        """The connection is gone: what waits is delivered again, unless it needs no acknowledgement."""
        kept = deque(message for message in self._inbox if message.no_ack)
        self.channel._client._waiting_messages -= len(self._inbox) - len(kept)
        self._inbox = kept

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self._receivers.wake_all()
            self.channel._client._topology.released(self.queue, self, asyncio.get_running_loop().time())
