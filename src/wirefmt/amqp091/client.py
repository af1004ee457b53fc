"""An AMQP 0.9.1 client on asyncio.

docs/amqp091-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.connection import ClientConnection
from wirefmt.amqp091.events import (
    ACCESS_REFUSED,
    NOT_ALLOWED,
    Call,
    ChannelClosed,
    Confirmed,
    ConnectionOptions,
    Negotiated,
    Returned,
)
from wirefmt.amqp091.session import Session
from wirefmt.amqp091.states import ChannelState
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.journal import Store
from wirefmt.connection.sasl import Mechanism, Plain
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

#: URL scheme -> TLS, usual port.
SCHEMES: Final[dict[str, tuple[bool, int]]] = {
    "amqp": (False, 5672),
    "amqps": (True, 5671),
    "amqp+unix": (False, 0),
}

#: Codes of connection.close after which the client does not connect again: another attempt would end alike.
FINAL_CODES: Final = frozenset((ACCESS_REFUSED, NOT_ALLOWED, 501, 502, 503, 504, 505, 540))

#: Deliveries of consumers with no_ack that may wait for the host, as a multiple of `inbox`, while calls wait; then they are
#: dropped and counted.
STRETCH: Final = 10

_LOST_IN_CALL = "the connection was lost before the reply"


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
        link = self.channel._link
        if link is None or self.channel._view is not self._view or self._view.state is not ChannelState.OPEN:
            return False
        link.driver.update(act(self._view))
        return True


class Consumer:
    """Messages of a queue, in order: `async for message in consumer`. Made by `Channel.consume`.

    The iteration ends when the consumer is cancelled, and raises what ended it otherwise: the server has cancelled it, or its
    channel or the client is closed by an error. With reconnection it goes on on the next connection.
    """

    def __init__(self, channel: Channel, queue: str, no_ack: bool, fields: dict[str, Any]) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.tag = ""
        #: Messages without acknowledgement that were dropped because too many waited.
        self.dropped = 0
        self._fields = fields
        self._inbox: deque[Message] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._ended = False
        self._error: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while not self._inbox:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # it was meant for another one
                raise
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
        if channel._view is not None and self.tag in channel._view.consumers:
            try:
                await channel.call(amqp091.BasicCancel, consumer_tag=self.tag)
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
        self._wake()
        client._check_reading()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

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
        self._ended = True
        self._error = error
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class _Batch:
    """Publishes whose confirms one call waits for."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future
        self.left = 0
        self.sealed = False
        self.error: Exception | None = None

    def done(self, error: Exception | None) -> None:
        self.left -= 1
        self.error = self.error or error
        self.check()

    def check(self) -> None:
        if self.sealed and not self.left and not self.future.done():
            if self.error is not None:
                connecting.fail(self.future, self.error)
            else:
                self.future.set_result(None)


class _Entry:
    """A message that waits to be sent, or for its confirm."""

    __slots__ = ("batch", "fields", "publication", "waiters")

    def __init__(self, fields: tuple[Any, ...], batch: _Batch) -> None:
        self.fields = fields
        self.batch = batch
        self.publication: Publication | None = None
        batch.left += 1

    @property
    def given_up(self) -> bool:
        return self.batch.future.cancelled()


class Channel:
    """A channel of a client, made by `Client.channel`.

    Its methods have the names and arguments of AMQP's; `call` sends any other one. A call that is refused by the server closes
    the channel, as AMQP has it: it raises Refused with the code, and so do all later calls.

    Every coroutine can be cancelled; the channel stays usable. A call that is cancelled after its method has been sent takes
    nothing back, except `get` and `consume`, whose messages go back to the queue.
    """

    def __init__(self, client: Client, confirms: bool, prefetch: int) -> None:
        self._client = client
        self._confirms = confirms
        self._prefetch = prefetch
        self._view: ClientChannel | None = None
        self._attached: _Link | None = None  # the connection of the view
        self._consumers: dict[str, Consumer] = {}
        self._queue: deque[_Entry] = deque()  # not sent
        self._error: Exception | None = None
        self._closed = False
        self._transactional = False

    def __repr__(self) -> str:
        return f"<Channel {self._view!r}>"

    @property
    def _link(self) -> _Link | None:
        return self._attached if self._view is not None else None

    @property
    def number(self) -> int | None:
        """Its number on this connection; None: there is no connection."""
        return self._view.number if self._view is not None else None

    # ---- calls

    async def call(self, cls: type[Any], **fields: Any) -> Any:
        """Send a method and wait for its reply, which is returned: `await channel.call(amqp091.QueuePurge, queue="q")`.

        With `nowait` it returns None at once. With `reconnect` it waits for the connection.

        Raises:
            Refused: the server has closed the channel or the connection for it; `code` is the reply code.
            ConnectionLost: the connection has ended, and it is not known whether the server has done it.
            LocalProtocolError: it is not legal now. Nothing was sent.
        """
        view = await self._ready()
        link = self._link
        assert link is not None
        handle = view.call(cls, **fields)
        if handle is None:
            link.driver.update()
            return None
        return await self._client._reply(link, handle)

    async def _ready(self) -> ClientChannel:
        while True:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise LocalProtocolError("the channel is closed")
            if self._view is not None and self._client._link is not None:
                return self._view
            await self._client._connection()

    async def declare_exchange(self, exchange: str, type: str = "direct", **fields: Any) -> None:
        """exchange.declare: `durable`, `auto_delete`, `internal`, `passive`, `arguments`. Restored with `reconnect`."""
        fields = {"exchange": exchange, "type": type, **fields}
        await self.call(amqp091.ExchangeDeclare, **fields)
        if not fields.get("passive"):
            self._client._keep_topology(("exchange", exchange), amqp091.ExchangeDeclare, fields)

    async def delete_exchange(self, exchange: str, *, if_unused: bool = False) -> None:
        """exchange.delete."""
        await self.call(amqp091.ExchangeDelete, exchange=exchange, if_unused=if_unused)
        self._client._drop_topology("exchange", exchange)

    async def bind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        """exchange.bind (RabbitMQ): messages of `source` go to `destination`."""
        fields = {"destination": destination, "source": source, "routing_key": routing_key, **fields}
        await self.call(amqp091.ExchangeBind, **fields)
        self._client._keep_topology(("bind exchange", *_binding(fields)), amqp091.ExchangeBind, fields)

    async def unbind_exchange(self, destination: str, source: str, routing_key: str = "", **fields: Any) -> None:
        """exchange.unbind (RabbitMQ)."""
        fields = {"destination": destination, "source": source, "routing_key": routing_key, **fields}
        await self.call(amqp091.ExchangeUnbind, **fields)
        self._client._topology.pop(("bind exchange", *_binding(fields)), None)

    async def declare_queue(self, queue: str = "", **fields: Any) -> amqp091.QueueDeclareOk:
        """queue.declare: `durable`, `exclusive`, `auto_delete`, `passive`, `arguments`. Restored with `reconnect`.

        Returns declare-ok: `queue` is the name (the server's, if none is given), `message_count`, `consumer_count`. A queue
        that the server has named gets another name on the next connection; the client goes on to use the first one.
        """
        named = self._client._names.get(queue, queue)
        answer: amqp091.QueueDeclareOk = await self.call(amqp091.QueueDeclare, **{"queue": named, **fields})
        if not fields.get("passive"):
            name = text_of(answer.queue)
            self._client._keep_topology(("queue", queue or name), amqp091.QueueDeclare, {"queue": queue, **fields})
        return answer

    async def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """queue.delete. Returns how many messages it had."""
        named = self._client._names.get(queue, queue)
        answer = await self.call(amqp091.QueueDelete, queue=named, if_unused=if_unused, if_empty=if_empty)
        self._client._drop_topology("queue", queue)
        count: int = answer.message_count
        return count

    async def purge_queue(self, queue: str) -> int:
        """queue.purge. Returns how many messages it had."""
        answer = await self.call(amqp091.QueuePurge, queue=self._client._names.get(queue, queue))
        count: int = answer.message_count
        return count

    async def bind_queue(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        """queue.bind. Restored with `reconnect`."""
        fields = {"queue": queue, "exchange": exchange, "routing_key": routing_key, **fields}
        await self.call(amqp091.QueueBind, **{**fields, "queue": self._client._names.get(queue, queue)})
        self._client._keep_topology(("bind queue", *_binding(fields)), amqp091.QueueBind, fields)

    async def unbind_queue(self, queue: str, exchange: str, routing_key: str = "", **fields: Any) -> None:
        """queue.unbind."""
        fields = {"queue": queue, "exchange": exchange, "routing_key": routing_key, **fields}
        await self.call(amqp091.QueueUnbind, **{**fields, "queue": self._client._names.get(queue, queue)})
        self._client._topology.pop(("bind queue", *_binding(fields)), None)

    async def qos(self, prefetch: int) -> None:
        """basic.qos for consumers started later: how many messages may be unacknowledged; 0: any number."""
        await self.call(amqp091.BasicQos, prefetch_count=prefetch)
        self._prefetch = prefetch

    async def recover(self) -> None:
        """basic.recover: messages that are not acknowledged are delivered again."""
        await self.call(amqp091.BasicRecover, requeue=True)

    # ---- publishing

    async def publish(
        self,
        body: Buffer | str = b"",
        *,
        exchange: str = "",
        routing_key: str = "",
        properties: amqp091.BasicProperties | None = None,
        mandatory: bool = False,
    ) -> None:
        """Publish a message: basic.publish.

        Returns when the server has confirmed it; on a channel without confirms when it is given to the transport. Waits while
        the server has blocked the connection or too much is unconfirmed, and, with `reconnect`, for the next connection, on which
        what is not confirmed is sent again, in order.

        Raises:
            Refused: the server has not taken it (basic.nack), has returned it (`mandatory`; code 312), or has closed the channel.
            ConnectionLost: the connection has ended, and it is not known whether the server has it.
            LocalProtocolError: it cannot be sent.
        """
        await self.publish_many([(body, exchange, routing_key, properties, mandatory)])

    async def publish_many(
        self, messages: Iterable[tuple[Buffer | str, str, str, amqp091.BasicProperties | None, bool]]
    ) -> None:
        """Publish messages, and wait once for all of their confirms. Each is (body, exchange, routing_key, properties,
        mandatory). Raises as `publish` for the first one that fails, after all have been answered."""
        client = self._client
        loop = asyncio.get_running_loop()
        batch = _Batch(loop.create_future())
        try:
            for body, exchange, routing_key, properties, mandatory in messages:
                if self._error is not None:
                    raise self._error
                if self._closed or client._ended or client._closing:
                    raise client._error or LocalProtocolError("the channel is closed")
                data = body.encode() if isinstance(body, str) else body
                self._queue.append(_Entry((exchange, routing_key, data, properties, mandatory), batch))
                self._pump()
                while len(self._queue) >= client._options.unconfirmed and not self._closed:
                    await client._progress()
            batch.sealed = True
            batch.check()
            await batch.future
        except BaseException:
            batch.future.cancel()
            raise

    def _pump(self) -> None:
        """Send what waits, as far as the windows and the transport allow."""
        view, link = self._view, self._client._link
        if view is None or link is None:
            return
        queue = self._queue
        sent = False
        while queue and link.driver.ready:
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
                publication = view.publish(exchange, routing_key, body, properties, mandatory=mandatory)
            except LocalProtocolError as error:
                entry.batch.done(error)
                continue
            sent = True
            if publication is None:
                entry.batch.done(None)
            else:
                entry.publication = publication
                self._client._entries[publication] = (self, entry)
        if sent:
            link.driver.update()
        self._client._note_progress()

    # ---- consuming

    async def consume(
        self,
        queue: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> Consumer:
        """Start a consumer: basic.consume. Iterate over what is returned.

        How many messages come before they are acknowledged is the channel's prefetch. Raises as `call`.
        """
        fields = {"no_ack": no_ack, "exclusive": exclusive, "arguments": arguments or {}}
        consumer = Consumer(self, queue, no_ack, fields)
        client = self._client
        consumer.tag = f"ctag-{client._random.getrandbits(64):x}"
        self._consumers[consumer.tag] = consumer
        try:
            await self.call(
                amqp091.BasicConsume, queue=client._names.get(queue, queue), consumer_tag=consumer.tag, **fields
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
        return consumer

    async def get(self, queue: str, *, no_ack: bool = False) -> Message | None:
        """One message of a queue; None: it is empty. Raises as `call`."""
        view = await self._ready()
        link = self._link
        assert link is not None
        handle = view.get(self._client._names.get(queue, queue), no_ack=no_ack)

        def too_late(answer: Any) -> None:
            if isinstance(answer, amqp091.BasicMessage) and not no_ack:
                Message(self, view, answer, no_ack).nack()

        answer = await self._client._reply(link, handle, too_late)
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
        client, view, link = self._client, self._view, self._client._link
        client._channels.pop(id(self), None)
        for consumer in self._consumers.values():
            consumer._end(None)
        self._fail_queue(ConnectionLost("the channel was closed"))
        if view is not None and link is not None and view.state is ChannelState.OPEN:
            closed = asyncio.get_running_loop().create_future()
            client._closings[view] = closed
            link.driver.update(view.close())
            await closed

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
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer._forget()
            consumer._end(error)
        self._client._note_progress()

    def _detach(self) -> None:
        """The connection is gone; another one comes."""
        self._view = None
        for consumer in self._consumers.values():
            consumer._forget()


def _binding(fields: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("queue", "exchange", "destination", "source", "routing_key")
    arguments = fields.get("arguments")
    key = amqp091.FieldTable(arguments).encode().hex() if arguments else ""
    return (*(str(fields.get(name, "")) for name in names), key)


class _Link(connecting.Link):
    """The host of one connection of a client."""

    connection: ClientConnection

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.calls: dict[Call, tuple[asyncio.Future[Any], Callable[[Any], None] | None]] = {}

    def handle(self, event: Any) -> None:
        self.client._handle(self, event)

    def writable(self) -> None:
        self.client._pump()


class Client(connecting.Client[_Link]):
    """An AMQP 0.9.1 client, made by `amqp091.connect`. `async with` connects and closes it; so do `open` and `close`.

    ::

        async with amqp091.connect("amqp://guest:guest@broker/") as client:
            channel = await client.channel(prefetch=100)
            await channel.declare_queue("orders", durable=True)
            await channel.publish(b"12 chairs", routing_key="orders")     # returns when confirmed
            async for message in await channel.consume("orders"):
                message.ack()

    Args:
        url: `amqp://user:password@host:5672/virtual-host`, `amqps://` (TLS), `amqp+unix:///path`. No virtual host is "/".
        virtual_host: in place of that of the URL.
        mechanisms: of SASL, the best first; None: PLAIN with the credentials of the URL, guest and guest without.
        properties: client-properties, for example connection_name.
        ssl: TLS with this context; None: the default one with `amqps`.
        session: messages of an earlier client that are not confirmed.
        journal: path of a SQLite database that keeps them: they survive the process, and are sent again.
        name: whose messages in the journal.
        reconnect: connect again when the connection is lost: exchanges, queues, bindings and consumers are restored, and what
            is not confirmed is sent again, in order. None: the end of the connection ends the client.
        inbox: messages that may wait for the host before reading stops.
        timeout: seconds that an attempt to connect may take.
        options: limits and times of each connection.
        random: for back-off and consumer tags; None: the system's.

    Attributes:
        session: messages that are not confirmed.
        connections: how many connections there have been.
        lost: messages whose end is not known and for which no call waits.
    """

    def __init__(
        self,
        url: str,
        *,
        virtual_host: str | None = None,
        mechanisms: Sequence[Mechanism] | None = None,
        properties: Mapping[str, Any] | None = None,
        ssl: tls.SSLContext | None = None,
        session: Session | None = None,
        journal: str | Path | None = None,
        name: str = "",
        reconnect: Backoff | None = None,
        inbox: int = 1000,
        timeout: float = 30.0,
        options: ConnectionOptions | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(reconnect, random)
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"the scheme of {parts.scheme + ':'!r} is not one of {', '.join(SCHEMES)}")
        secure, port = SCHEMES[parts.scheme]
        self._path = unquote(parts.path) if parts.scheme == "amqp+unix" else None
        self._host, self._port = parts.hostname or "localhost", parts.port or port
        in_url = "" if self._path is not None else unquote(parts.path[1:])
        self._virtual_host = virtual_host if virtual_host is not None else in_url or "/"
        if mechanisms is None:
            user = unquote(parts.username) if parts.username is not None else "guest"
            password = unquote(parts.password) if parts.password is not None else "guest"
            mechanisms = [Plain(user, password)]
        if session is not None and journal is not None:
            raise ValueError("a session or a journal: a journal has its session")
        self._mechanisms = mechanisms
        self._properties = dict(properties or {})
        self._ssl = ssl if ssl is not None or not secure else tls.create_default_context()
        self._journal_path = journal
        self._name = name
        self._inbox_limit = inbox
        self._timeout = timeout
        self._options = options or ConnectionOptions()

        self.session = session if session is not None else Session()
        self._store: Store | None = None
        self.lost = 0
        self._channels: dict[int, Channel] = {}  # by id
        self._by_number: dict[int, Channel] = {}
        self._closings: dict[ClientChannel, asyncio.Future[None]] = {}
        self._entries: dict[Publication, tuple[Channel, _Entry]] = {}  # sent, and not confirmed
        self._topology: dict[tuple[str, ...], tuple[type[Any], dict[str, Any]]] = {}
        self._names: dict[str, str] = {}  # of queues that the server has named: first name -> name now
        self._waiting_messages = 0
        self._states: list[asyncio.Future[None]] = []  # who waits for a connection
        self._progressing: list[asyncio.Future[None]] = []  # who waits for room to publish

    # ---- opening and closing

    async def _begin(self) -> _Link:
        if self._journal_path is not None:
            self._store = Store(self._journal_path, f"amqp091 {self._name}")
            self.session = Session.replay(await self._store.open(), journaled=True)
        return await self._connect()

    async def _close_journal(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()

    @property
    def blocked(self) -> bool:
        """True while the server has blocked the connection: `publish` waits."""
        return self._link is not None and self._link.connection.blocked

    @property
    def negotiated(self) -> Negotiated | None:
        """What this connection has agreed on; None: there is no connection."""
        return self._link.connection.negotiated if self._link is not None else None

    async def channel(self, *, confirms: bool = True, prefetch: int = 100) -> Channel:
        """Open a channel.

        Args:
            confirms: the server confirms what is published (RabbitMQ); needed to send it again.
            prefetch: messages that each consumer may have unacknowledged; 0: any number.
        """
        await self._connection()
        channel = Channel(self, confirms, prefetch)
        link = self._link
        assert link is not None
        self._channels[id(channel)] = channel
        try:
            await self._open_channel(link, channel)
        except BaseException:
            self._channels.pop(id(channel), None)
            view = channel._view
            channel._view = None
            if view is not None:
                self._by_number.pop(view.number, None)
                if self._link is link and view.state in (ChannelState.OPENING, ChannelState.OPEN):
                    link.driver.update(view.close())
            raise
        return channel

    async def update_secret(self, secret: bytes | str, reason: str = "") -> None:
        """Give the server a new secret for this connection (RabbitMQ). Raises Refused, ConnectionLost."""
        await self._connection()
        link = self._link
        assert link is not None
        await self._reply(link, link.connection.update_secret(secret, reason))

    # ---- below

    async def _connection(self) -> None:
        """Wait for a connection."""
        while self._link is None:
            if self._ended or self._closing:
                raise self._error or ConnectionLost("the client is not open")
            waiter = asyncio.get_running_loop().create_future()
            self._states.append(waiter)
            await waiter
        if self._closing:
            raise ConnectionLost("the client is closed")

    async def _progress(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._progressing.append(waiter)
        await waiter

    def _note_progress(self) -> None:
        waiters, self._progressing = self._progressing, []
        connecting.release(waiters)

    async def _reply(self, link: _Link, call: Call, too_late: Callable[[Any], None] | None = None) -> Any:
        future = asyncio.get_running_loop().create_future()
        link.calls[call] = (future, too_late)
        self._check_reading()
        link.driver.update()
        return await future

    def _check_reading(self) -> None:
        """Stop reading while too many messages wait, but never while a call waits for its reply: that would wait for ever."""
        link = self._link
        if link is None or link.event is not None:
            return
        stop = self._waiting_messages >= self._inbox_limit and not link.calls and not self._entries
        if stop and not link.driver.paused:
            link.driver.pause()
        elif not stop and link.driver.paused:
            link.driver.resume()

    def _pump(self) -> None:
        for channel in list(self._channels.values()):
            channel._pump()

    def _keep_topology(self, key: tuple[str, ...], cls: type[Any], fields: dict[str, Any]) -> None:
        self._topology.pop(key, None)
        self._topology[key] = (cls, fields)

    def _drop_topology(self, kind: str, name: str) -> None:
        """An exchange or queue is deleted, and its bindings with it."""
        self._names.pop(name, None)
        ends = ("exchange", "source", "destination") if kind == "exchange" else ("queue",)
        for key, (_, fields) in list(self._topology.items()):
            if key == (kind, name) or (key[0].startswith("bind") and any(fields.get(end) == name for end in ends)):
                del self._topology[key]

    # ---- events

    def _handle(self, link: _Link, event: Any) -> None:
        match event:
            case amqp091.BasicMessage():
                self._deliver(event)
            case Acknowledged():
                self._answered(link, event)
            case Confirmed():
                for publication in event.handles:
                    self._confirmed(publication, event.accepted)
                self._pump()
                self._check_reading()
            case Returned() | amqp091.ChannelFlow() | amqp091.ChannelFlowOk() | amqp091.ConnectionBlocked():
                pass
            case WindowOpened() | amqp091.ConnectionUnblocked():
                self._pump()
            case amqp091.BasicCancel():
                self._cancelled(event)
            case ChannelClosed():
                self._channel_closed(link, event)
            case Connected():
                self.connections += 1
                link.accepted()
            case Disconnected():
                self._disconnected(link, event)

    def _deliver(self, event: amqp091.BasicMessage) -> None:
        channel = self._by_number.get(event.channel)
        consumer = channel._consumers.get(event.method.consumer_tag) if channel is not None else None
        if channel is None or channel._view is None:
            return  # its channel is closed: the server delivers it again
        message = Message(channel, channel._view, event, consumer.no_ack if consumer is not None else False)
        if consumer is not None:
            consumer._arrive(message)
        elif channel._view.state is ChannelState.OPEN:
            try:
                message.nack()
            except LocalProtocolError:
                pass  # it needs no acknowledgement

    def _answered(self, link: _Link, event: Acknowledged) -> None:
        future, too_late = link.calls.pop(event.handle, (None, None))  # type: ignore[call-overload]
        if future is None:
            return
        if not future.done():
            future.set_result(event.message)
        elif too_late is not None:
            too_late(event.message)
        self._check_reading()

    def _confirmed(self, publication: Publication, accepted: bool) -> None:
        _, entry = self._entries.pop(publication, (None, None))
        error: Exception | None = None
        if publication.returned is not None:
            method = publication.returned.method
            error = Refused(
                f"the server returns the message: {method.reply_code} {text_of(method.reply_text)}",
                method.reply_code,
                publication.returned,
            )
        elif not accepted:
            error = Refused("the server has not taken the message", 0)
        if entry is not None:
            entry.batch.done(error)
        elif error is not None:
            self.lost += 1

    def _cancelled(self, event: amqp091.BasicCancel) -> None:
        channel = self._by_number.get(event.channel)
        consumer = channel._consumers.pop(text_of(event.consumer_tag), None) if channel is not None else None
        if consumer is not None:
            consumer._end(Refused("the server has ended the consumer", 0, event))

    def _channel_closed(self, link: _Link, event: ChannelClosed) -> None:
        channel = self._by_number.pop(event.channel, None)
        for view, closed in list(self._closings.items()):
            if view.state is ChannelState.CLOSED:
                del self._closings[view]
                if not closed.done():
                    closed.set_result(None)
        error: Exception
        if event.by == "peer":
            error = Refused(f"the server has closed the channel: {event.code} {event.reason}", event.code, event)
        else:
            error = ConnectionLost("the channel was closed", event)
        for call in event.lost:
            future, _ = link.calls.pop(call, (None, None))
            if future is not None:
                connecting.fail(future, error)
        for publication in event.resumable:
            self.session.forget(publication)
            _, entry = self._entries.pop(publication, (None, None))
            if entry is not None:
                entry.batch.done(error)
            else:
                self.lost += 1
        if channel is not None:
            channel._fail(error)
        self._check_reading()

    def _disconnected(self, link: _Link, event: Disconnected) -> None:
        link.ended(event)
        lost = link.lost()
        calls, link.calls = link.calls, {}
        reason: Exception = lost if isinstance(lost, Refused) else ConnectionLost(f"{_LOST_IN_CALL}: {lost}", event)
        for future, _ in calls.values():
            connecting.fail(future, reason)
        closings, self._closings = self._closings, {}
        connecting.release(closings.values())
        if self._link is link:
            self._link = None
        self._by_number.clear()
        for channel in self._channels.values():
            channel._detach()

    def _comes_back(self, link: _Link) -> bool:
        event = link.event
        assert event is not None
        final = event.by != "local" and event.code in FINAL_CODES
        return super()._comes_back(link) and not final

    def _is_final(self, refused: Refused) -> bool:
        return refused.code in FINAL_CODES or isinstance(refused.message, ChannelClosed)

    # ---- connections

    async def _connect(self) -> _Link:
        """One attempt: transport, handshake, and everything that has to be restored."""
        link = _Link(self)
        loop = asyncio.get_running_loop()
        link.connection = ClientConnection(loop.time(), self.session, self._options)
        store = self._store.put if self._store is not None else None
        link.driver = aio.Driver(link.connection, link, store=store)
        try:
            async with link.attempt(self._timeout):
                link.connection.open(self._virtual_host, self._mechanisms, self._properties)
                await aio.open_transport(link.driver, self._host, self._port, path=self._path, ssl=self._ssl)
                link.driver.update()
                await link.up
                await self._restore(link)
        except BaseException:
            self.session.held = False
            raise
        if link.event is not None:
            raise link.lost()
        self._link = link
        states, self._states = self._states, []
        connecting.release(states)
        self._pump()
        return link

    async def _restore(self, link: _Link) -> None:
        """Topology first, then channels, then what is not confirmed, in order, then consumers."""
        if self._topology:
            view = link.connection.open_channel()
            for (_, *names), (cls, fields) in list(self._topology.items()):
                fields = dict(fields)
                if cls is not amqp091.QueueDeclare and "queue" in fields:
                    fields["queue"] = self._names.get(fields["queue"], fields["queue"])
                call = view.call(cls, **{**fields, "nowait": False})
                assert call is not None
                answer = await self._reply(link, call)
                if cls is amqp091.QueueDeclare and not fields["queue"]:
                    self._names[names[0]] = text_of(answer.queue)
            link.driver.update(view.close())
        for channel in list(self._channels.values()):
            await self._open_channel(link, channel, again=True)
        left = [p for p in self.session.outgoing.values() if p not in self._entries]
        mine: dict[Channel | None, list[Publication]] = {}
        for publication in self.session.outgoing.values():
            owner = self._entries[publication][0] if publication in self._entries else None
            mine.setdefault(owner, []).append(publication)
        if left:
            # of an earlier process: on a channel of their own
            view = link.connection.open_channel()
            view.confirm_select()
            await self._resend(link, view, left)
        for owner, publications in mine.items():
            if owner is not None and owner._view is not None:
                await self._resend(link, owner._view, publications)
        for channel in list(self._channels.values()):
            for consumer in list(channel._consumers.values()):
                restored = channel._view
                assert restored is not None
                queue = self._names.get(consumer.queue, consumer.queue)
                call = restored.consume(queue, consumer.tag, **consumer._fields)
                assert call is not None
                await self._reply(link, call)

    async def _resend(self, link: _Link, view: ClientChannel, publications: list[Publication]) -> None:
        for publication in publications:
            while not view.send_quota or not link.driver.ready:
                if link.event is not None:
                    raise link.lost()
                link.driver.update()
                await asyncio.sleep(0.01)
            view.resend(publication)
        link.driver.update()

    async def _open_channel(self, link: _Link, channel: Channel, again: bool = False) -> None:
        view = link.connection.open_channel()
        channel._view = view
        channel._attached = link
        self._by_number[view.number] = channel
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
        for call in calls:
            await self._reply(link, call) if call is calls[-1] else self._note(link, call)

    def _note(self, link: _Link, call: Call) -> None:
        """A call whose reply nobody waits for alone."""
        future = asyncio.get_running_loop().create_future()
        link.calls[call] = (future, None)

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        entries, self._entries = self._entries, {}
        for _, entry in entries.values():
            entry.batch.done(reason)
        for channel in list(self._channels.values()):
            channel._fail_queue(reason)
            for consumer in channel._consumers.values():
                consumer._end(error)
            channel._consumers.clear()
            channel._error = error
            channel._closed = True
        self._channels.clear()
        self._topology.clear()
        states, self._states = self._states, []
        connecting.release(states)
        self._note_progress()


connect = connecting.verb(Client, 'amqp091.connect("amqp://guest:guest@broker/")')
