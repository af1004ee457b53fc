"""An AMQP 0.9.1 client on asyncio.

docs/amqp091-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication
from wirefmt.amqp091.address import OPTIONS, REPEATED, SCHEMES, settings
from wirefmt.amqp091.aio_channel import Channel, Link, Message, Unconfirmed, returned
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.connection import ClientConnection
from wirefmt.amqp091.events import ChannelClosed, Confirmed, ConnectionOptions, Negotiated, Returned
from wirefmt.amqp091.requester import Requester
from wirefmt.amqp091.restoring import Restoration, is_limit
from wirefmt.amqp091.session import Session
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.amqp091.topology import Topology
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, read_urls
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.journal import Store
from wirefmt.connection.recovery import NotRestored
from wirefmt.connection.sasl import Mechanism
from wirefmt.errors import ConnectionLost, DecodeError, JournalError, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Codes of connection.close after which the client does not connect again: another attempt would end alike. A limit that is
#: reached (530 as well) can pass.
FINAL_CODES: Final = frozenset(
    (
        ReplyCode.ACCESS_REFUSED,
        ReplyCode.NOT_ALLOWED,
        ReplyCode.FRAME_ERROR,
        ReplyCode.SYNTAX_ERROR,
        ReplyCode.COMMAND_INVALID,
        ReplyCode.CHANNEL_ERROR,
        ReplyCode.UNEXPECTED_FRAME,
        ReplyCode.NOT_IMPLEMENTED,
    )
)

_LOST_IN_CALL = "the connection was lost before the reply"


@connecting.complete
class Client(connecting.Client[Link]):
    """An AMQP 0.9.1 client, made by `amqp091.connect`. `async with` connects and closes it; so do `open` and `close`.

    ::

        async with amqp091.connect("amqp://guest:guest@broker/") as client:
            channel = await client.channel(prefetch=100)
            await channel.declare_queue("orders", durable=True)
            await channel.publish(b"12 chairs", routing_key="orders")     # returns when confirmed
            async for message in await channel.consume("orders"):
                message.ack()

    Args:
        url: `amqp://user:password@host:5672/virtual-host?heartbeat=7`, `amqps://` (TLS), `amqp+unix:///path`. No virtual host is
            "/". docs/amqp091-asyncio.md has the options. Several: they are tried in turn.
        virtual_host: in place of the one in the URL.
        mechanisms: of SASL, the best first; None: PLAIN with the credentials of the URL, guest and guest without.
        properties: client-properties, for example connection_name.
        session: messages of an earlier client that are not confirmed.
        journal: path of a SQLite database that keeps them: they survive the process, and are sent again.
        name: whose messages in the journal.
        reconnect: connect again when the connection is lost: exchanges, queues, bindings and consumers are restored, and what
            is not confirmed is sent again, in order. None: the end of the connection ends the client.
        inbox: messages that may wait for the host before reading stops.
        options: limits and times of each connection.

    Raises ValueError for a URL that cannot be used.

    Attributes:
        connections: how many connections there have been.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        virtual_host: str | None = None,
        mechanisms: Sequence[Mechanism] | None = None,
        properties: Mapping[str, Any] | None = None,
        session: Session | None = None,
        journal: str | Path | None = None,
        name: str = "",
        inbox: int = 1000,
        options: ConnectionOptions | None = None,
        **more: Unpack[connecting.Connecting],
    ) -> None:
        super().__init__(read_urls(url, SCHEMES, OPTIONS, REPEATED), **more)
        if session is not None and journal is not None:
            raise ValueError("a session or a journal: a journal has its session")
        self._virtual_host = virtual_host
        self._mechanisms = mechanisms
        self._properties = dict(properties or {})
        self._journal_path = journal
        self._name = name
        self._inbox_limit = inbox
        self._options = options or ConnectionOptions()
        for address in self._addresses:
            said = settings(address, self._options)
            if said.has_tls and self._ssl is not None:
                raise ValueError("TLS is described twice: by `ssl` and by options of the URL")
            if "auth_mechanism" in address.options and mechanisms is not None:
                raise ValueError("mechanisms are given twice: by `mechanisms` and by auth_mechanism in the URL")

        # what channels may ask for as well: see aio_channel.Parent
        self._unconfirmed = Unconfirmed(session if session is not None else Session())
        self._channels: dict[int, Channel] = {}
        self._left: Channel | None = None
        self._topology = Topology()
        self._requesters: dict[str, Requester] = {}  # by exchange
        self._requesting = asyncio.Lock()
        self._waiting_messages = 0
        self._states: list[asyncio.Future[None]] = []  # who waits for a connection
        self._progress = connecting.Receivers()

    # ---- opening and closing

    async def _begin(self) -> Link:
        if self._journal_path is not None:
            self._store = Store(self._journal_path, f"amqp091 {self._name}")
            self._unconfirmed.session = await self._store.restore(partial(Session.replay, journaled=True))
        return await self._try_servers()

    def _not_kept(self, numbers: set[int], error: JournalError) -> None:
        self._unconfirmed.withdraw(numbers, error)
        for channel in list(self._channels.values()):
            channel._fail_queue(error)

    @property
    def session(self) -> Session:
        """Messages that are not confirmed."""
        return self._unconfirmed.session

    @property
    def lost(self) -> int:
        """Messages whose end is not known and for which no call waits."""
        return self._unconfirmed.lost

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
            await link.open(channel)
        except BaseException:
            self._channels.pop(id(channel), None)
            view = channel._view
            channel._view = None
            if view is not None:
                link.channels.pop(view.number, None)
                opened = view.state in (ChannelState.OPENING, ChannelState.OPEN)
                if self._link is link and opened and link.connection.state is State.OPEN:
                    link.driver.update(view.close())
            raise
        return channel

    async def request(
        self,
        body: Buffer | str = b"",
        *,
        exchange: str = "",
        routing_key: str = "",
        properties: amqp091.BasicProperties | None = None,
        timeout: float | None = 30.0,
    ) -> Message:
        """Publish a request and wait for its reply, which is returned; by direct reply-to (RabbitMQ).

        The server of the request publishes its reply to the default exchange, with `reply_to` as the routing key and with the
        same `correlation_id`. Any number of requests may wait at a time. A reply that comes too late is dropped.

        Args:
            properties: `reply_to` is set, and `correlation_id` if there is none.
            timeout: seconds until the reply must be here; None: for ever.

        Raises:
            TimeoutError: there is no reply in time.
            Refused: the server cannot route the request (code 312), refuses it, or has no direct reply-to.
            ConnectionLost: the connection has ended, and it is not known whether the request has been handled.
            ValueError: `reply_to` is given, or the `correlation_id` of a request that waits.
        """
        try:
            async with asyncio.timeout(timeout) as limit:
                async with self._requesting:
                    requester = self._requesters.get(exchange)
                    if requester is None:
                        channel = await self.channel(confirms=False, prefetch=0)
                        requester = await Requester.begin(channel, exchange, self._requesters)
                return await requester.request(body, routing_key, properties)
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"no reply to the request to {routing_key!r} within {timeout} s") from None
            raise

    async def update_secret(self, secret: bytes | str, reason: str = "") -> None:
        """Give the server a new secret for this connection (RabbitMQ). Raises Refused, ConnectionLost."""
        await self._connection()
        link = self._link
        assert link is not None
        await link.reply(link.connection.update_secret(secret, reason))

    # ---- below

    async def _connection(self) -> None:
        """Wait for a connection."""
        while (
            self._link is None or self._link.connection.state is State.CLOSED
        ):  # its end may not have been handled yet
            if self._ended or self._closing:
                raise self._error or ConnectionLost("the client is not open")
            waiter = asyncio.get_running_loop().create_future()
            self._states.append(waiter)
            await waiter
        if self._closing:
            raise ConnectionLost("the client is closed")

    def _check_open(self) -> None:
        if self._ended or self._closing:
            raise self._error or LocalProtocolError("the channel is closed")
        if self._store is not None:
            self._check_journal()

    def _check_reading(self, more: int = 0) -> None:
        """Stop reading while too many messages wait, but never while a call waits for its reply, or a message for a confirm or
        for its turn: that would wait for ever."""
        self._waiting_messages += more
        link = self._link
        if link is None or link.event is not None:
            return
        stop = (
            self._waiting_messages >= self._inbox_limit
            and not link.calls
            and not link.closings
            and not self._unconfirmed.entries
            and not any(channel.busy for channel in self._channels.values())
        )
        if stop and not link.driver.paused:
            link.driver.pause()
        elif not stop and link.driver.paused:
            link.driver.resume()

    def _pump(self) -> None:
        for channel in list(self._channels.values()):
            channel._pump()

    # ---- events

    def _handle(self, link: Link, event: Any) -> None:
        match event:
            case amqp091.BasicMessage():
                self._deliver(link, event)
            case Acknowledged():
                self._answered(link, event)
            case Confirmed():
                self._confirmed(event)
                if self._left is not None and not self._left.busy:
                    left, self._left = self._left, None
                    left._drop()
                self._pump()
                self._check_reading()
            case Returned():
                owner = link.channels.get(event.message.channel)
                if event.handle is None and owner is not None and owner._on_returned is not None:
                    owner._on_returned(event.message)
            case amqp091.ChannelFlow() | amqp091.ChannelFlowOk() | amqp091.ConnectionBlocked():
                pass
            case WindowOpened() | amqp091.ConnectionUnblocked():
                self._pump()
            case amqp091.BasicCancel():
                self._cancelled(link, event)
            case ChannelClosed():
                self._channel_closed(link, event)
            case Connected():
                self.connections += 1
                link.accepted()
            case Disconnected():
                self._disconnected(link, event)

    def _deliver(self, link: Link, event: amqp091.BasicMessage) -> None:
        channel = link.channels.get(event.channel)
        consumer = channel._consumers.get(event.method.consumer_tag) if channel is not None else None
        if channel is None or channel._view is None:
            return  # its channel is closed: the server delivers it again
        view = channel._view if consumer is None or consumer._view is None else consumer._view
        message = Message(channel, view, event, consumer.no_ack if consumer is not None else False)
        if consumer is not None:
            consumer._arrive(message)
        elif channel._view.state is ChannelState.OPEN:
            try:
                message.nack()
            except LocalProtocolError:
                pass  # it needs no acknowledgement

    def _answered(self, link: Link, event: Acknowledged) -> None:
        future, too_late = link.calls.pop(event.handle, (None, None))  # type: ignore[call-overload]
        if future is None:
            return
        if not future.done():
            future.set_result(event.message)
        elif too_late is not None:
            too_late(event.message)
        self._check_reading()

    def _confirmed(self, event: Confirmed) -> None:
        for publication in event.handles:
            error: Exception | None = None
            if publication.returned is not None:
                error = returned(publication.returned)
            elif not event.accepted:
                error = Refused("the server has not taken the message", 0)
            self._unconfirmed.finish(publication, error)

    def _cancelled(self, link: Link, event: amqp091.BasicCancel) -> None:
        channel = link.channels.get(event.channel)
        consumer = channel._consumers.pop(text_of(event.consumer_tag), None) if channel is not None else None
        if consumer is not None:
            self._topology.deleted("queue", consumer.queue)
            consumer._end(Refused("the server has ended the consumer", 0, event))

    def _channel_closed(self, link: Link, event: ChannelClosed) -> None:
        channel = link.channels.pop(event.channel, None)
        beside = link.beside.pop(event.channel, None)
        for view, closed in list(link.closings.items()):
            if view.state is ChannelState.CLOSED:
                del link.closings[view]
                connecting.release([closed])
        error: Exception
        if event.by == "peer":
            error = Refused(f"the server has closed the channel: {event.code} {event.reason}", event.code, event)
        else:
            error = ConnectionLost("the channel was closed", event)
        for call in event.lost:
            future, _ = link.calls.pop(call, (None, None))
            if future is not None:
                connecting.fail(future, error)
        if beside is not None:
            if not beside._asking:
                beside.channel._consumers.pop(beside.tag, None)
                beside._end(error)
        elif channel is not None and channel._asking:
            channel._closed_again()
        elif channel is not None and channel is self._left:
            self._left_refused(link, channel, event, error)
        else:
            for publication in event.resumable:
                self._unconfirmed.settle(publication, error)
            if channel is not None:
                channel._fail(error)
        self._check_reading()

    def _disconnected(self, link: Link, event: Disconnected) -> None:
        if event.by == "peer" and self._reconnect is not None and isinstance(event.message, amqp091.ConnectionClose):
            guilty = (event.message.class_id, event.message.method_id)
            link.blamed = next((call for call in link.calls if call.message.ids == guilty), None)
        link.ended(event)
        refused = connecting.Link.lost(link)
        lost = link.lost()
        calls, link.calls = link.calls, {}
        reason: Exception = lost if isinstance(lost, Refused) else ConnectionLost(f"{_LOST_IN_CALL}: {lost}", event)
        for call, (future, _) in calls.items():
            connecting.fail(future, refused if call is link.blamed else reason)
        connecting.release(link.closings.values())
        link.closings.clear()
        if self._link is link:
            self._link = None
        if isinstance(event.error, DecodeError) and event.message is not None:
            self._unreadable(link.channels.get(event.message.channel), event)
        closed = ConnectionLost(f"the channel was closed, and the connection lost: {lost}", event)
        self._unconfirmed.settle_if(lambda owner: owner._closed, closed)
        link.channels.clear()
        link.beside.clear()
        for channel in self._channels.values():
            channel._detach()

    def _unreadable(self, channel: Channel | None, event: Disconnected) -> None:
        """A message that the server sent cannot be read, for it is larger than our limits or malformed. It would come again on
        each connection, so the consumer or the publish that it belongs to ends."""
        method, error = event.message, event.error
        if isinstance(method, amqp091.BasicDeliver):
            consumer = channel._consumers.pop(text_of(method.consumer_tag), None) if channel is not None else None
            if consumer is not None:
                lost = ConnectionLost(f"a message of the queue {consumer.queue!r} cannot be read: {error}", event)
                lost.__cause__ = error
                consumer._end(lost)
        elif isinstance(method, amqp091.BasicReturn):
            for publication in list(self.session.outgoing.values()):
                sent = publication.message
                if (
                    sent.method.mandatory
                    and (sent.method.exchange, sent.method.routing_key) == (method.exchange, method.routing_key)
                    and getattr(error, "need", None) in (None, len(sent.body_bytes()))
                ):
                    self._unconfirmed.settle(publication, returned(method))
                    break

    def _comes_back(self, link: Link) -> bool:
        event = link.event
        assert event is not None
        error = link.lost()
        final = event.by != "local" and isinstance(error, Refused) and self._is_final(error)
        return super()._comes_back(link) and not final

    def _is_final(self, refused: Refused) -> bool:
        if refused.code == ReplyCode.NOT_ALLOWED:
            return not is_limit(str(refused))
        # a server that only closes while it looks at credentials that it has taken before: it may be going down
        guessed = (
            self.connections > 0 and isinstance(refused.message, Disconnected) and refused.message.by == "transport"
        )
        return refused.code in FINAL_CODES and not guessed

    # ---- messages of an earlier connection or process

    def _send_again(self, link: Link) -> None:
        """Let each channel send what is not confirmed, before anything new."""
        again: dict[Channel | None, deque[Publication]] = {}
        for publication in self.session.outgoing.values():
            owner, _ = self._unconfirmed.entries.get(publication, (None, None))
            again.setdefault(owner, deque()).append(publication)
        for owner, publications in again.items():
            if owner is None:
                self._send_left(link, publications)
            else:
                owner._again = publications

    def _send_left(self, link: Link, publications: deque[Publication]) -> None:
        """Send them again, on a channel of their own."""
        if self._left is None:
            self._left = Channel(self, True, 0)
            self._channels[id(self._left)] = self._left
        self._left._again = publications
        if self._left._view is None:
            link.spawn(self._open_left(link, self._left))

    def _drop_left(self, left: Channel) -> None:
        """What it has not sent waits for the next connection. Others need not wait for it any more."""
        left._drop()
        if self._left is left:
            self._left = None
            self._pump()

    async def _open_left(self, link: Link, left: Channel) -> None:
        try:
            await link.open(left)
        except (Refused, ConnectionLost, LocalProtocolError):
            if link.event is None:
                self._drop_left(left)
            return
        left._pump()

    def _left_refused(self, link: Link, left: Channel, event: ChannelClosed, error: Exception) -> None:
        """The server has closed the channel for one of the messages. From now on they are sent one at a time, so that it is known
        for which one."""
        left._closed_again()
        if len(event.resumable) == 1:
            guilty = event.resumable[0]
            self._unconfirmed.settle(guilty, error)
            if isinstance(error, Refused):
                self._tell(NotRestored(guilty, error, "fail", None))
        elif not event.resumable:
            return  # the channel itself is refused, see _open_left
        left._one_by_one = True
        rest = deque(p for p in self.session.outgoing.values() if p not in self._unconfirmed.entries)
        if rest:
            self._send_left(link, rest)
        else:
            self._drop_left(left)

    # ---- connections

    async def _connect(self, address: Address) -> Link:
        """One attempt: transport, handshake, and everything that has to be restored."""
        link = Link(self)
        said = settings(address, self._options)
        link.connection = ClientConnection(asyncio.get_running_loop().time(), self.session, said.options)
        store = self._store.put if self._store is not None else None
        link.driver = aio.Driver(link.connection, link, store=store)
        try:
            async with link.attempt(said.timeout or self._timeout):
                link.connection.open(
                    said.virtual_host if self._virtual_host is None else self._virtual_host,
                    said.mechanisms if self._mechanisms is None else self._mechanisms,
                    {"connection_name": said.name, **self._properties} if said.name is not None else self._properties,
                )
                await aio.open_transport(
                    link.driver,
                    address.host,
                    address.port,
                    path=address.path,
                    ssl=self._logged(said.context()) if said.has_tls else self._context(address.scheme.tls),
                    server_name=said.server_name,
                )
                link.driver.update()
                await link.up
                await Restoration(self, link, self._topology, self._channels).run()
        except BaseException:
            self.session.held = False
            if link.tasks:
                await asyncio.wait(link.tasks)
            raise
        if link.event is not None:
            raise link.lost()
        self._send_again(link)
        self._link = link
        states, self._states = self._states, []
        connecting.release(states)
        self._pump()
        return link

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        self._unconfirmed.fail(reason)
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
        self._progress.wake_all()


connect = connecting.verb(Client, 'amqp091.connect("amqp://guest:guest@broker/")')
