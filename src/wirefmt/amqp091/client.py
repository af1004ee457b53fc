"""An AMQP 0.9.1 client on asyncio.

docs/amqp091-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication
from wirefmt.amqp091.aio_channel import Channel, Entry
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.connection import ClientConnection
from wirefmt.amqp091.consumer import Message
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
from wirefmt.connection.address import Address, Scheme, read_urls
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.journal import Store
from wirefmt.connection.recovery import RecoveryEvent
from wirefmt.connection.sasl import Mechanism, Plain
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

SCHEMES: Final = {
    "amqp": Scheme(5672),
    "amqps": Scheme(5671, tls=True),
    "amqp+unix": Scheme(unix=True),
}

#: Codes of connection.close after which the client does not connect again: another attempt would end alike.
FINAL_CODES: Final = frozenset((ACCESS_REFUSED, NOT_ALLOWED, 501, 502, 503, 504, 505, 540))

_LOST_IN_CALL = "the connection was lost before the reply"


class Link(connecting.Link):
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
        url: `amqp://user:password@host:5672/virtual-host`, `amqps://` (TLS), `amqp+unix:///path`. No virtual host is "/".
            Several: they are tried in turn.
        virtual_host: in place of the one in the URL.
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
        shuffle: True: several servers are tried in an order made by chance.
        on_event: called with each event of `wirefmt.connection.recovery`.

    Raises ValueError for a URL that cannot be used.

    Attributes:
        session: messages that are not confirmed.
        connections: how many connections there have been.
        lost: messages whose end is not known and for which no call waits.
    """

    def __init__(
        self,
        url: str | Iterable[str],
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
        shuffle: bool = False,
        on_event: Callable[[RecoveryEvent], None] | None = None,
    ) -> None:
        super().__init__(
            read_urls(url, SCHEMES),
            reconnect,
            random,
            ssl=ssl,
            timeout=timeout,
            shuffle=shuffle,
            on_event=on_event,
        )
        if session is not None and journal is not None:
            raise ValueError("a session or a journal: a journal has its session")
        self._virtual_host = virtual_host
        self._mechanisms = mechanisms
        self._properties = dict(properties or {})
        self._journal_path = journal
        self._name = name
        self._inbox_limit = inbox
        self._options = options or ConnectionOptions()

        self.session = session if session is not None else Session()
        self._store: Store | None = None
        self.lost = 0
        self._channels: dict[int, Channel] = {}  # by id
        self._by_number: dict[int, Channel] = {}
        self._closings: dict[ClientChannel, asyncio.Future[None]] = {}
        self._entries: dict[Publication, tuple[Channel, Entry]] = {}  # sent, and not confirmed
        self._topology: dict[tuple[str, ...], tuple[type[Any], dict[str, Any]]] = {}
        self._names: dict[str, str] = {}  # of queues that the server has named: first name -> name now
        self._waiting_messages = 0
        self._states: list[asyncio.Future[None]] = []  # who waits for a connection
        self._progressing: list[asyncio.Future[None]] = []  # who waits for room to publish

    # ---- opening and closing

    async def _begin(self) -> Link:
        if self._journal_path is not None:
            self._store = Store(self._journal_path, f"amqp091 {self._name}")
            self.session = Session.replay(await self._store.open(), journaled=True)
        return await self._try_servers()

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

    async def _reply(self, link: Link, call: Call, too_late: Callable[[Any], None] | None = None) -> Any:
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

    def _handle(self, link: Link, event: Any) -> None:
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

    def _answered(self, link: Link, event: Acknowledged) -> None:
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

    def _channel_closed(self, link: Link, event: ChannelClosed) -> None:
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

    def _disconnected(self, link: Link, event: Disconnected) -> None:
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

    def _comes_back(self, link: Link) -> bool:
        event = link.event
        assert event is not None
        final = event.by != "local" and event.code in FINAL_CODES
        return super()._comes_back(link) and not final

    def _is_final(self, refused: Refused) -> bool:
        return refused.code in FINAL_CODES or isinstance(refused.message, ChannelClosed)

    # ---- connections

    async def _connect(self, address: Address) -> Link:
        """One attempt: transport, handshake, and everything that has to be restored."""
        link = Link(self)
        loop = asyncio.get_running_loop()
        link.connection = ClientConnection(loop.time(), self.session, self._options)
        store = self._store.put if self._store is not None else None
        link.driver = aio.Driver(link.connection, link, store=store)
        try:
            async with link.attempt(self._timeout):
                virtual_host = self._virtual_host if self._virtual_host is not None else address.place or "/"
                mechanisms = self._mechanisms
                if mechanisms is None:
                    user = address.user if address.user is not None else "guest"
                    password = address.password if address.password is not None else "guest"
                    mechanisms = [Plain(user, password)]
                link.connection.open(virtual_host, mechanisms, self._properties)
                await self._dial(link, address)
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

    async def _restore(self, link: Link) -> None:
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

    async def _resend(self, link: Link, view: ClientChannel, publications: list[Publication]) -> None:
        for publication in publications:
            while not view.send_quota or not link.driver.ready:
                if link.event is not None:
                    raise link.lost()
                link.driver.update()
                await asyncio.sleep(0.01)
            view.resend(publication)
        link.driver.update()

    async def _open_channel(self, link: Link, channel: Channel, again: bool = False) -> None:
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

    def _note(self, link: Link, call: Call) -> None:
        """Register a call whose reply is not awaited by itself."""
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
