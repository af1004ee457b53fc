"""Channels of an AMQP 0.9.1 client on asyncio: calls, publishing with confirms, consumers, transactions. With them the connection
of a client, which knows its channels by number."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.connection import ClientConnection
from wirefmt.amqp091.events import Call, ConnectionOptions
from wirefmt.amqp091.session import Session
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.amqp091.topology import Topology
from wirefmt.connection import client as connecting
from wirefmt.connection.client import Receivers
from wirefmt.connection.recovery import OnRefused, check_on_refused
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

#: Deliveries of consumers with no_ack that may wait for the host, as a multiple of `inbox`, while calls wait; then they are
#: dropped and counted.
STRETCH: Final = 10


class Parent(Protocol):
    """What channels, their consumers and connections may ask of their client.

    Attributes:
        _link: the connection that is up, with all channels restored.
        _channels: those that are not closed, by id.
        _left: the channel that sends what an earlier process has left; the others wait for it.
        _topology: what was declared.
        _unconfirmed: what was sent.
        _progress: who waits until there is space to publish, or until the end of a channel has been handled.
        _options: of the connections.
        _inbox_limit: messages that may wait for the host.
        _random: for consumer tags and requests.
    """

    _channels: dict[int, Channel]
    _left: Channel | None
    _topology: Topology
    _unconfirmed: Unconfirmed
    _progress: Receivers
    _options: ConnectionOptions
    _inbox_limit: int
    _random: Random

    @property
    def _link(self) -> Link | None: ...

    async def _connection(self) -> None:
        """Wait for a connection. Raises what has ended the client."""

    def _check_open(self) -> None:
        """Raises what has ended the client, and JournalError while the journal cannot be written."""

    def _check_reading(self, more: int = 0) -> None:
        """Stop or go on reading. `more`: so many more messages wait for the host."""

    def _pump(self) -> None:
        """Let all channels send what waits."""

    def _handle(self, link: Link, event: Any) -> None:
        """An event of a connection."""


class Link(connecting.Link):
    """The host of one connection of a client.

    Attributes:
        calls: those whose reply is awaited: what waits for it, and what takes a reply that nobody wants any more.
        blamed: the call for which the server has ended the connection; others come back.
        channels: by number, also the number of a channel that a consumer has for itself.
        beside: consumers that have a channel for themselves, by its number.
        closings: channels whose close-ok is awaited.
    """

    connection: ClientConnection

    def __init__(self, client: Parent) -> None:
        super().__init__()
        self.client = client
        self.calls: dict[Call, tuple[asyncio.Future[Any], Callable[[Any], None] | None]] = {}
        self.blamed: Call | None = None
        self.channels: dict[int, Channel] = {}
        self.beside: dict[int, Consumer] = {}
        self.closings: dict[ClientChannel, asyncio.Future[None]] = {}

    def lost(self) -> Exception:
        error = super().lost()
        return ConnectionLost(str(error), self.event) if self.blamed is not None else error

    def handle(self, event: Any) -> None:
        self.client._handle(self, event)

    def writable(self) -> None:
        self.client._pump()

    async def reply(self, call: Call, too_late: Callable[[Any], None] | None = None) -> Any:
        """Wait for the reply to a call. `too_late`: takes it if this is cancelled."""
        future = asyncio.get_running_loop().create_future()
        self.calls[call] = (future, too_late)
        self.client._check_reading()
        self.driver.update()
        return await future

    def note(self, call: Call) -> None:
        """Register a call whose reply is not awaited by itself."""
        self.calls[call] = (asyncio.get_running_loop().create_future(), None)

    async def open(self, channel: Channel, again: bool = False) -> None:
        """Open a channel of the client on this connection. Raises Refused, ConnectionLost, LocalProtocolError."""
        view = self.connection.open_channel()
        channel._view = view
        channel._attached = self
        self.channels[view.number] = channel
        assert view.opened is not None
        calls = [view.opened]
        if channel._confirms:
            calls.append(view.confirm_select())
        elif again and channel._transactional:
            call = view.call(amqp091.TxSelect)
            assert call is not None
            calls.append(call)
        if channel._prefetch:
            calls.append(view.qos(channel._prefetch))
        for call in calls[:-1]:
            self.note(call)
        await self.reply(calls[-1])


class Batch:
    """Publishes whose confirms one call waits for."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future
        self.left = 0
        self.complete = False
        self.error: Exception | None = None

    def done(self, error: Exception | None) -> None:
        self.left -= 1
        self.error = self.error or error
        self.check()

    def check(self) -> None:
        if self.complete and not self.left and not self.future.done():
            if self.error is not None:
                connecting.fail(self.future, self.error)
            else:
                self.future.set_result(None)


class Entry:
    """A message that waits to be sent, or for its confirm."""

    __slots__ = ("batch", "fields", "publication", "waiters")

    def __init__(self, fields: tuple[Any, ...], batch: Batch) -> None:
        self.fields = fields
        self.batch = batch
        self.publication: Publication | None = None
        batch.left += 1

    @property
    def given_up(self) -> bool:
        return self.batch.future.cancelled()


class Unconfirmed:
    """Messages of a client that were sent and are not confirmed.

    Attributes:
        session: all of them, also those that an earlier process has left.
        entries: those for which a call of this client waits, and their channel.
        lost: messages whose end is not known and for which no call waits.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.entries: dict[Publication, tuple[Channel, Entry]] = {}
        self.lost = 0

    def finish(self, publication: Publication, error: Exception | None) -> None:
        """A message has its end: its call goes on, or raises the error."""
        _, entry = self.entries.pop(publication, (None, None))
        if entry is not None:
            entry.batch.done(error)
        elif error is not None:
            self.lost += 1

    def settle(self, publication: Publication, error: Exception) -> None:
        """A message is not sent again: whether the server has it is not known, or it is refused."""
        self.session.forget(publication)
        self.finish(publication, error)

    def settle_if(self, chosen: Callable[[Channel], bool], error: Exception) -> None:
        """The same for all messages of some channels."""
        for publication in [p for p, (owner, _) in self.entries.items() if chosen(owner)]:
            self.settle(publication, error)

    def withdraw(self, numbers: set[int], error: Exception) -> None:
        """The journal cannot keep these, and they have not been sent."""
        for publication in [p for number, p in self.session.outgoing.items() if number in numbers]:
            self.session.forget(publication)
            _, entry = self.entries.pop(publication, (None, None))
            if entry is not None:
                entry.batch.done(error)

    def fail(self, reason: Exception) -> None:
        """There is no further connection: the calls raise. The session keeps the messages."""
        entries, self.entries = self.entries, {}
        for _, entry in entries.values():
            entry.batch.done(reason)


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
        self.channel._client._check_reading(-1)
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
                await link.reply(call)
            except ConnectionLost:
                pass  # it has ended with the connection
        self._give_back()

    def _arrive(self, message: Message) -> None:
        client = self.channel._client
        if self.no_ack and len(self._inbox) >= STRETCH * client._inbox_limit:
            self.dropped += 1
            return
        self._inbox.append(message)
        self._receivers.wake()
        client._check_reading(1)

    def _give_back(self) -> None:
        inbox, self._inbox = self._inbox, deque()
        for message in inbox:
            if not message.no_ack:
                message.nack()
        self.channel._client._check_reading(-len(inbox))

    def _forget(self) -> None:
        """The connection is gone: what waits is delivered again, unless it needs no acknowledgement."""
        kept = deque(message for message in self._inbox if message.no_ack)
        dropped, self._inbox = len(self._inbox) - len(kept), kept
        self.channel._client._check_reading(-dropped)

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self._receivers.wake_all()
            self.channel._client._topology.released(self.queue, self, asyncio.get_running_loop().time())


class Channel:
    """A channel of a client, made by `Client.channel`.

    Its methods have the names and arguments of AMQP's; `call` sends any other one. A call that is refused by the server closes
    the channel (AMQP): it raises Refused with the code, and so do all later calls.

    Every coroutine can be cancelled; the channel stays usable. A call that is cancelled after its method has been sent takes
    nothing back, except `get` and `consume`, whose messages go back to the queue.
    """

    def __init__(self, client: Parent, confirms: bool, prefetch: int) -> None:
        self._client = client
        self._confirms = confirms
        self._prefetch = prefetch
        self._view: ClientChannel | None = None
        self._attached: Link | None = None  # the connection of the view
        self._consumers: dict[str, Consumer] = {}
        self._queue: deque[Entry] = deque()  # not sent
        self._again: deque[Publication] = deque()  # of an earlier connection, to be sent again before the queue
        self._one_by_one = False  # send again when the one before is confirmed
        self._beside: list[ClientChannel] = []  # channels of consumers that could not be restored at once
        self._last_queue = ""  # declared last: what an empty name means
        self._error: Exception | None = None
        self._closed = False
        self._transactional = False
        self._asking = False  # a consumer is being restored on it: if that is refused, it is opened again
        self._on_returned: Callable[[amqp091.BasicMessage], None] | None = None  # called with what the server returns

    def __repr__(self) -> str:
        return f"<Channel {self._view!r}>"

    @property
    def _link(self) -> Link | None:
        return self._attached if self._view is not None else None

    @property
    def number(self) -> int | None:
        """Its number on this connection; None: there is no connection."""
        return self._view.number if self._view is not None else None

    # ---- calls

    async def call(self, cls: type[Any], **fields: Any) -> Any:
        """Send a method and wait for its reply, which is returned: `await channel.call(amqp091.QueuePurge, queue="q")`.
        A queue that the server has named is meant by its first name.

        With `nowait` it returns None at once. With `reconnect` it waits for the connection.

        Raises:
            Refused: the server has closed the channel or the connection for it; `code` is the reply code.
            ConnectionLost: the connection has ended, and it is not known whether the server has done it.
            LocalProtocolError: it is not legal now. Nothing was sent.
        """
        return await self._send(await self._ready(), cls, fields)

    async def _send(self, view: ClientChannel, cls: type[Any], fields: dict[str, Any]) -> Any:
        link = self._link
        assert link is not None
        if "queue" in fields:  # now, for it may have another name on this connection
            fields["queue"] = self._topology.name(fields["queue"])
        handle = view.call(cls, **fields)
        if handle is None:
            link.driver.update()
            return None
        return await link.reply(handle)

    async def _remove(self, cls: type[Any], **fields: Any) -> Any:
        """Let the server remove something, while no restoration is about to declare it."""
        while True:
            view = await self._ready()
            async with self._topology.asking:
                if self._view is view:
                    return await self._send(view, cls, fields)

    async def _ready(self) -> ClientChannel:
        while True:
            self._check_usable()
            await self._client._connection()
            self._check_usable()  # it may have ended meanwhile, and then nobody wakes us up
            if self._view is not None and self._view.state in (ChannelState.OPENING, ChannelState.OPEN):
                return self._view
            await self._client._progress.wait()  # its end has not been handled yet

    def _check_usable(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closed:
            raise LocalProtocolError("the channel is closed")

    async def declare_exchange(
        self, exchange: str, type: str = "direct", *, on_refused: OnRefused | None = None, **fields: Any
    ) -> None:
        """exchange.declare: `durable`, `auto_delete`, `internal`, `passive`, `arguments`. Restored with `reconnect`.

        `on_refused` says what to do if the server refuses it then: "retry", "skip" (until the next connection), "fail" (for
        good); None: retry if the cause can pass, else fail. The same for queues, bindings and consumers.
        """
        check_on_refused(on_refused)
        fields = {"exchange": exchange, "type": type, **fields}
        await self.call(amqp091.ExchangeDeclare, **fields)
        if not fields.get("passive"):
            self._topology.declared("exchange", exchange, amqp091.ExchangeDeclare, fields, on_refused, self._now())

    async def delete_exchange(self, exchange: str, *, if_unused: bool = False) -> None:
        """exchange.delete."""
        await self._remove(amqp091.ExchangeDelete, exchange=exchange, if_unused=if_unused)
        self._topology.deleted("exchange", exchange)

    async def bind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        *,
        on_refused: OnRefused | None = None,
        **fields: Any,
    ) -> None:
        """exchange.bind (RabbitMQ): messages of `source` go to `destination`. Restored with `reconnect`."""
        check_on_refused(on_refused)
        fields = {"destination": destination, "source": source, "routing_key": routing_key, **fields}
        await self.call(amqp091.ExchangeBind, **fields)
        self._topology.bound(amqp091.ExchangeBind, fields, on_refused)

    async def unbind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        """exchange.unbind (RabbitMQ)."""
        fields = {"destination": destination, "source": source, "routing_key": routing_key, **fields}
        await self._remove(amqp091.ExchangeUnbind, **fields)
        self._topology.unbound(fields)

    async def declare_queue(
        self, queue: str = "", *, on_refused: OnRefused | None = None, **fields: Any
    ) -> amqp091.QueueDeclareOk:
        """queue.declare: `durable`, `exclusive`, `auto_delete`, `passive`, `arguments`. Restored with `reconnect`.

        Returns declare-ok: `queue` is the name (the server's, if none is given), `message_count`, `consumer_count`. A queue
        that the server has named gets another name on the next connection; the client goes on to use the first one.
        """
        check_on_refused(on_refused)
        topology = self._topology
        answer: amqp091.QueueDeclareOk = await self.call(amqp091.QueueDeclare, **{"queue": queue, **fields})
        self._last_queue = queue or (text_of(answer.queue) if answer is not None else "")
        if not fields.get("passive"):
            fields = {"queue": queue, **fields}
            topology.declared("queue", self._last_queue, amqp091.QueueDeclare, fields, on_refused, self._now())
        return answer

    async def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """queue.delete. Returns how many messages it had."""
        queue = queue or self._last_queue
        answer = await self._remove(amqp091.QueueDelete, queue=queue, if_unused=if_unused, if_empty=if_empty)
        self._topology.deleted("queue", queue)
        count: int = answer.message_count
        return count

    async def purge_queue(self, queue: str) -> int:
        """queue.purge. Returns how many messages it had."""
        answer = await self.call(amqp091.QueuePurge, queue=queue or self._last_queue)
        count: int = answer.message_count
        return count

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, on_refused: OnRefused | None = None, **fields: Any
    ) -> None:
        """queue.bind. Restored with `reconnect`."""
        check_on_refused(on_refused)
        fields = self._binding(queue, exchange, routing_key, fields)
        await self.call(amqp091.QueueBind, **fields)
        self._topology.bound(amqp091.QueueBind, fields, on_refused)

    async def unbind_queue(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        """queue.unbind."""
        fields = self._binding(queue, exchange, routing_key, fields)
        await self._remove(amqp091.QueueUnbind, **fields)
        self._topology.unbound(fields)

    def _binding(self, queue: str, exchange: str, routing_key: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of a binding. Without a name of the queue it is the last one, also for an empty routing key (1.7.2.3)."""
        if not queue:
            queue = self._last_queue
            routing_key = routing_key or self._topology.name(queue)
        return {"queue": queue, "exchange": exchange, "routing_key": routing_key, **fields}

    @property
    def _topology(self) -> Topology:
        return self._client._topology

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def qos(self, prefetch: int) -> None:
        """basic.qos for consumers started later: how many messages may be unacknowledged; 0: any number."""
        await self.call(amqp091.BasicQos, prefetch_count=prefetch)
        self._prefetch = prefetch

    async def recover(self) -> None:
        """basic.recover: messages that are not acknowledged are delivered again."""
        await self.call(amqp091.BasicRecover, requeue=True)
        for view in self._beside:
            if view.state is ChannelState.OPEN and (link := self._link) is not None:
                await link.reply(view.recover())

    # ---- publishing

    async def publish(
        self,
        body: Buffer | str = b"",
        *,
        exchange: str | bytes = "",
        routing_key: str | bytes = "",
        properties: amqp091.BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publish a message: basic.publish. `exchange` and `routing_key` are bytes where they are not UTF-8, as in a method that
        was received.

        Returns when the server has confirmed it; on a channel without confirms when it is given to the transport. Waits while
        the server has blocked the connection or too much is unconfirmed, and, with `reconnect`, for the next connection, on which
        what is not confirmed is sent again, in order.

        Raises:
            Refused: the server has not taken it (basic.nack), has returned it (`mandatory`; code 312), or has closed the channel.
            ConnectionLost: the connection has ended, and it is not known whether the server has the message.
            LocalProtocolError: it cannot be sent.
            JournalError: the journal cannot keep it. It was not sent.
        """
        await self.publish_many([(body, exchange, routing_key, properties, mandatory)])

    async def publish_many(
        self, messages: Iterable[tuple[Buffer | str, str | bytes, str | bytes, amqp091.BasicProperties | None, bool]]
    ) -> None:
        """Publish messages, and wait once for all of their confirms. Each is (body, exchange, routing_key, properties,
        mandatory). Raises as `publish` for the first one that fails, after all have been answered."""
        client = self._client
        loop = asyncio.get_running_loop()
        batch = Batch(loop.create_future())
        try:
            for body, exchange, routing_key, properties, mandatory in messages:
                self._check_usable()
                client._check_open()
                data = body.encode() if isinstance(body, str) else body
                self._queue.append(Entry((exchange, routing_key, data, properties, mandatory), batch))
                self._pump()
                while len(self._queue) >= client._options.unconfirmed and not self._closed:
                    await client._progress.wait()
            batch.complete = True
            batch.check()
            await batch.future
        except BaseException:
            batch.future.cancel()
            raise

    def _pump(self) -> None:
        """Send the messages that wait, while the windows and the transport allow it."""
        client = self._client
        view, link, left = self._view, client._link, client._left
        if view is None or link is None:
            return
        queue, again = self._queue, self._again
        if not again and left is not None and left is not self and left._again:
            return  # what an earlier process has left is sent before anything new
        unconfirmed = client._unconfirmed
        sends_again, sent = bool(again), False
        while (queue or again) and link.driver.ready:
            if again:
                if self._one_by_one and view.unconfirmed:
                    break
                if not view.send_quota:
                    view._full = True
                    break
                publication = again.popleft()
                if unconfirmed.session.outgoing.get(publication.number) is not publication:
                    continue  # it has been given up
                try:
                    view.resend(publication)
                except LocalProtocolError as error:
                    unconfirmed.settle(publication, error)
                else:
                    sent = True
                continue
            entry = queue[0]
            if entry.given_up:
                queue.popleft()
                continue
            if not view.send_quota:
                view._full = True  # WindowOpened comes
                break
            queue.popleft()
            exchange, routing_key, body, properties, mandatory = entry.fields
            try:
                made = view.publish(exchange, routing_key, body, properties, mandatory=mandatory)
            except LocalProtocolError as error:
                entry.batch.done(error)
                continue
            sent = True
            if made is None:
                entry.batch.done(None)
            else:
                entry.publication = made
                unconfirmed.entries[made] = (self, entry)
        if sent:
            link.driver.update()
        if sends_again and not again and self is left:
            client._pump()  # others have waited for it
        client._check_reading()
        client._progress.wake_all()

    # ---- consuming

    async def consume(
        self,
        queue: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Mapping[str, Any] | None = None,
        on_refused: OnRefused | None = None,
    ) -> Consumer:
        """Start a consumer: basic.consume. Iterate over what is returned. Restored with `reconnect`, see `declare_exchange`.

        How many messages come before they are acknowledged is the channel's prefetch. Raises as `call`.
        """
        check_on_refused(on_refused)
        fields = {"no_ack": no_ack, "exclusive": exclusive, "arguments": arguments or {}}
        consumer = Consumer(self, queue or self._last_queue, no_ack, fields, on_refused)
        await self._start(consumer)
        return consumer

    async def _start(self, consumer: Consumer) -> None:
        client = self._client
        await self._ready()  # before the consumer is one of those that are restored
        consumer.tag = f"ctag-{client._random.getrandbits(64):x}"
        self._consumers[consumer.tag] = consumer
        try:
            await self.call(
                amqp091.BasicConsume,
                queue=consumer.queue,
                consumer_tag=consumer.tag,
                **consumer._fields,
            )
        except BaseException as error:
            self._consumers.pop(consumer.tag, None)
            consumer._end(error if isinstance(error, Exception) else None)
            consumer._give_back()
            view, link = self._view, self._client._link
            if isinstance(error, asyncio.CancelledError) and view is not None and link is not None:
                try:
                    view.cancel(consumer.tag, nowait=True)
                    link.driver.update()
                except LocalProtocolError:
                    pass
            raise
        if not consumer._ended:
            self._topology.consumed(consumer.queue, consumer)

    async def get(self, queue: str, *, no_ack: bool = False) -> Message | None:
        """One message of a queue; None: it is empty. Raises as `call`."""
        view = await self._ready()
        link = self._link
        assert link is not None
        queue = queue or self._last_queue
        handle = view.get(self._topology.name(queue), no_ack=no_ack)

        def too_late(answer: Any) -> None:
            if isinstance(answer, amqp091.BasicMessage) and not no_ack:
                Message(self, view, answer, no_ack).nack()

        answer = await link.reply(handle, too_late)
        self._topology.touched(queue, self._now())
        return Message(self, view, answer, no_ack) if isinstance(answer, amqp091.BasicMessage) else None

    # ---- transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with channel.transaction()`: messages published and acknowledged in it count at its end (tx.commit), or not at
        all if its body raises (tx.rollback). The channel has no confirms: `client.channel(confirms=False)`."""
        if self._confirms:
            raise LocalProtocolError("a channel with confirms has no transactions")
        if not self._transactional:
            await self.call(amqp091.TxSelect)
            self._transactional = True
        view = await self._ready()
        try:
            yield
        except BaseException:
            if self._view is view:
                await self.call(amqp091.TxRollback)
            raise
        if self._view is not view:
            raise ConnectionLost("the connection was lost in the transaction, which is rolled back")
        await self.call(amqp091.TxCommit)

    # ---- closing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel. Consumers end; publishes that wait raise ConnectionLost."""
        if self._closed or self._error is not None:
            return
        self._closed = True
        client, view, link = self._client, self._view, self._link
        client._channels.pop(id(self), None)
        for consumer in self._consumers.values():
            consumer._end(None)
        self._fail_queue(ConnectionLost("the channel was closed"))
        client._progress.wake_all()
        if view is None or link is None:
            client._unconfirmed.settle_if(lambda owner: owner is self, ConnectionLost("the channel was closed"))
            return
        closings = []
        for each in (view, *self._beside):
            if each.state is ChannelState.OPEN and link.connection.state is State.OPEN:
                closed = link.closings[each] = asyncio.get_running_loop().create_future()
                closings.append(closed)
                link.driver.update(each.close())
        if closings:
            client._check_reading()
            await asyncio.wait(closings)

    def _drop(self) -> None:
        """Close it, and do not wait."""
        self._closed = True
        self._client._channels.pop(id(self), None)
        link = self._attached
        for view in (self._view, *self._beside):
            if view is None or link is None or link.connection.state is not State.OPEN:
                continue
            if view.state in (ChannelState.OPENING, ChannelState.OPEN):
                link.driver.update(view.close())

    @property
    def busy(self) -> bool:
        """There is something to send, or to be confirmed."""
        view = self._view
        return bool(
            self._queue or self._again or view is None or view.state is not ChannelState.OPEN or view.unconfirmed
        )

    def _fail_queue(self, error: Exception) -> None:
        queue, self._queue = self._queue, deque()
        for entry in queue:
            entry.batch.done(error)

    def _fail(self, error: Exception) -> None:
        """The channel is over by an error."""
        self._error = error
        self._view = None
        self._client._channels.pop(id(self), None)
        self._fail_queue(error)
        self._again.clear()
        self._client._unconfirmed.settle_if(lambda owner: owner is self, error)
        link = self._client._link
        for beside in self._beside:
            if link is not None and beside.state is ChannelState.OPEN:
                link.driver.update(beside.close())
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer._end(error)
            consumer._forget()
        self._client._progress.wake_all()

    def _detach(self) -> None:
        """The connection is gone; another one comes."""
        self._beside.clear()
        for consumer in self._consumers.values():
            consumer._view = None
        self._closed_again()

    def _closed_again(self) -> None:
        """The channel is gone, without the consumers that have one of their own; it is opened again."""
        self._view = None
        self._again.clear()
        for consumer in self._consumers.values():
            if consumer._view is None:
                consumer._forget()
