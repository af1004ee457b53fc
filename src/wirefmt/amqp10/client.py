"""An AMQP 1.0 client on asyncio.

docs/amqp10-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Unpack

from wirefmt.amqp10._codec import (
    Coordinator,
    Incoming,
    Message,
    Outgoing,
    Source,
    Target,
    encode_value,
)
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.amqp10.connection import ClientConnection
from wirefmt.amqp10.ends import Earlier, End, Sender, Transaction
from wirefmt.amqp10.events import (
    ConnectionOptions,
    Drained,
    DrainRequested,
    LinkAttached,
    LinkDetached,
    Part,
    SessionBegun,
    SessionEnded,
)
from wirefmt.amqp10.journal import Journal, Record
from wirefmt.amqp10.links import Link
from wirefmt.amqp10.places import Places
from wirefmt.amqp10.receiving import Receiver
from wirefmt.amqp10.requests import Requests
from wirefmt.amqp10.sources import source_of
from wirefmt.amqp10.urls import read_servers, wanted
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.deflate import Deflate
from wirefmt.connection.recovery import NotRestored, OnRefused
from wirefmt.connection.sasl import Mechanism
from wirefmt.errors import ConnectionLost, JournalError, LocalProtocolError, Refused, check_choice

#: Conditions of a refused link that do not pass by waiting, so that it is not asked for again unless the program says so.
LASTING: Final = frozenset(
    (
        ErrorCondition.DECODE_ERROR,
        ErrorCondition.INVALID_FIELD,
        ErrorCondition.LINK_MESSAGE_SIZE_EXCEEDED,
        ErrorCondition.NOT_ALLOWED,
        ErrorCondition.NOT_IMPLEMENTED,
        ErrorCondition.PRECONDITION_FAILED,
        ErrorCondition.LINK_STOLEN,
        ErrorCondition.LINK_TRANSFER_LIMIT_EXCEEDED,
        ErrorCondition.UNAUTHORIZED_ACCESS,
        ErrorCondition.RESOURCE_DELETED,
        ErrorCondition.LINK_REDIRECT,
    )
)
#: Codes of a refused connection after which the client does not connect again: another attempt would end alike. Numbers are
#: of sasl-outcome (5.3.3.6): auth, sys-perm.
FINAL: Final = frozenset(
    (
        1,
        3,
        ErrorCondition.INVALID_FIELD,
        ErrorCondition.NOT_ALLOWED,
        ErrorCondition.NOT_IMPLEMENTED,
        ErrorCondition.UNAUTHORIZED_ACCESS,
    )
)

#: Messages beyond the credit that are tolerated unless the options say otherwise: RabbitMQ 3.10 sends them.
OVERRUN: Final = 1000

Settle = Literal["automatic", "manual"]


class _Host(connecting.Link):
    """The host of one connection of a client."""

    connection: ClientConnection

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.places: Places

    def handle(self, event: Any) -> None:
        self.client._handle(self, event)

    def writable(self) -> None:
        self.client._pump()


@connecting.complete
class Client(connecting.Client[_Host]):
    """An AMQP 1.0 client, made by `amqp10.connect`. `async with` opens and closes it; so do its methods `open` and `close`.

    ::

        async with amqp10.connect("amqp://user:secret@broker") as client:
            sender = await client.sender("/queues/readings")
            await sender.send(amqp10.Message(body=b"21.5"))           # returns when accepted
            receiver = await client.receiver("/queues/readings", credit=100)
            async for delivery in receiver: ...

    Args:
        url: `amqp://host:5672`, `amqps://` (TLS), `ws://host/path`, `wss://` (WebSocket). User name and password may be in it,
            and options: docs/amqp10-asyncio.md. The path of `amqp` and `amqps` is the virtual host of RabbitMQ. Several: they are
            tried in turn.
        container_id: ours; "": that of the URL, or a random one. With a journal: whose messages in it.
        hostname: what is asked for in SASL and open; None: what the URL says, or else its host.
        sasl: mechanisms in the order in which they are preferred. None: what the URL says, or else PLAIN if there are
            credentials, ANONYMOUS if not. An empty sequence: without the SASL layer.
        reconnect: connect again when the connection is lost, and attach all links again. Messages without an outcome are
            sent again, in order. None: the end of the connection ends the client.
        journal: path of a SQLite database that keeps messages without an outcome: they survive the process. The next client
            with this container_id sends them again, in order, before what it sends itself to the same target. Messages of
            a transaction, settled and streamed ones are not kept.
        options: limits and times of each connection.
        properties: of open.
        deflate: offer compression (permessage-deflate) over WebSocket; None: do not.

    Raises ValueError for a URL that cannot be used.

    Every coroutine can be cancelled; the client stays usable. A call that is cancelled after its message has been sent takes
    nothing back.

    Attributes:
        connections: how many connections there have been.
        lost: messages of an earlier process, from the journal, that the server has not accepted. Those whose link it refuses
            stay in the journal and do not count.
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        container_id: str = "",
        hostname: str | None = None,
        sasl: Mechanism | Sequence[Mechanism] | None = None,
        journal: str | Path | None = None,
        options: ConnectionOptions | None = None,
        properties: dict[str, Any] | None = None,
        deflate: Deflate | None = None,
        **more: Unpack[connecting.Connecting],
    ) -> None:
        addresses, container_id = read_servers(url, container_id)
        super().__init__(addresses, deflate=deflate, **more)
        self._sasl = sasl
        self._owner = container_id
        self._container_id = container_id or f"wirefmt-{self._random.getrandbits(64):016x}"
        self._hostname = hostname
        self._options = options or ConnectionOptions(overrun=OVERRUN)
        self._properties = properties
        self._journal_path = journal
        self.lost = 0
        self._journal: Journal | None = None
        self._earlier: dict[bytes, Earlier] = {}  # by encoded target
        self._ends: dict[tuple[str, bool], Sender | Receiver] = {}
        self._names = 0
        self._turn_of_senders = 0
        self._controller: Sender | None = None
        self._requests = Requests(self)

    # ---- opening and closing

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            for end in list(self._ends.values()):
                end.finish()
        await super().__aexit__(kind)

    @property
    def is_open(self) -> bool:
        return not self._ended and not self._closing

    async def _begin(self) -> _Host:
        self._requests = Requests(self)
        if self._journal_path is not None:
            self._store = self._journal = Journal(self._journal_path, self._owner)
            for record in await self._journal.open():
                self._resume(record)
        return await self._try_servers()

    async def _close_journal(self) -> None:
        self._journal = None
        await super()._close_journal()

    def _not_kept(self, numbers: set[int], error: JournalError) -> None:
        for end in list(self._ends.values()):
            if isinstance(end, Sender):
                end.not_kept(numbers, error)

    def _resume(self, record: Record) -> None:
        """A message of an earlier process."""
        sender = self._earlier.get(encode_value(record.target))
        if sender is None:
            sender = Earlier(self, self._name(None), record.target)
            self._ends[sender.name, True] = sender
        sender.add(record)

    # ---- links

    async def sender(
        self,
        target: str | Target | Coordinator | None,
        *,
        source: Source | None = None,
        name: str | None = None,
        settled: bool | None = None,
        on_refused: OnRefused | None = None,
        **fields: Any,
    ) -> Sender:
        """Attach a link that sends, and wait for the server.

        Args:
            target: an address, a Target, or a Coordinator.
            source: where messages come from, for the server's information.
            name: the link's; None: one is made.
            settled: True: no outcome is wanted (at most once). None: each message decides.
            on_refused: what becomes of the link if the server detaches it later, or refuses it when it is to be attached again:
                "retry", "skip" (until the next connection) or "fail". None: with `reconnect` it is asked for again if the cause
                can pass, otherwise it is over.
            fields: further fields of attach.

        Raises Refused if the server refuses, LocalProtocolError, ConnectionLost.
        """
        end = Sender(self, self._name(name), target, source, settled, fields, on_refused)
        await self._attach(end)
        return end

    async def receiver(
        self,
        source: str | Source | None,
        *,
        selector: str | None = None,
        filter: Mapping[str, Any] | None = None,
        browse: bool = False,
        target: Target | None = None,
        name: str | None = None,
        credit: int = 100,
        settle: Settle = "automatic",
        streamed: bool = False,
        on_refused: OnRefused | None = None,
        **fields: Any,
    ) -> Receiver:
        """Attach a link that receives, and wait for the server.

        Args:
            source: an address, or a Source, which may ask for a dynamic node (`receiver.source` has its address then).
            selector: only messages for which this JMS message selector is true, as `"colour = 'red' AND JMSPriority > 4"`.
            filter: only messages that pass these filters (3.5.8), by their types: `{"amqp:sql-filter": "p.subject = 'x'"}`,
                `{"amqp:application-properties-filter": {"colour": "red"}}`. The value of one whose key is a name is `Described`.
            browse: look at the messages of a queue and leave them there: distribution mode `copy` (3.5.3).
            target: where messages go, for the server's information.
            name: the link's; None: one is made.
            credit: messages that may be unsettled here; renewed. 0: `grant` gives it.
            settle: "automatic": accepted when the next one is asked for. "manual": by `accept` and its like.
            streamed: messages come in parts and are not held whole.
            on_refused: as for `sender`.
            fields: further fields of attach, as snd_settle_mode=1 for messages without settlement.

        Raises Refused if the server refuses, also if its answer says that it ignores one of these filters or browsing: the
        messages would be others (amqp:not-implemented). Filters of a `Source` are not checked: see `receiver.source`. Raises
        LocalProtocolError, ConnectionLost.
        """
        check_choice("settle", settle, Settle)
        made, names = source_of(source, selector, filter, browse)
        checked = (made, names) if made is not None and (names or browse) else None
        automatic = settle == "automatic"
        end = Receiver(self, self._name(name), made, target, credit, automatic, streamed, fields, on_refused, checked)
        await self._attach(end)
        return end

    async def request(self, address: str | Target, message: Message, *, timeout: float | None = 30.0) -> Message:
        """Send a request, and wait for its reply.

        All requests of a client share one link for replies, whose node the server makes (a dynamic source). The request has its
        address in `reply-to`, and a `message-id` and `correlation-id` of its own unless the message has one; the reply has it in
        `correlation-id`. A reply that comes too late is dropped.

        Args:
            address: where the request goes.
            message: the request. Its other properties stay as they are.
            timeout: seconds until the reply must have arrived; None: no limit.

        Returns the reply.

        Raises:
            TimeoutError: no reply has arrived in time.
            Refused: the server refuses a link or the request, for example because nobody takes it.
            ConnectionLost: the connection, the link for replies or its session has ended after the request was sent. It is not
                known whether it has been answered; it is not sent again.
            LocalProtocolError: the request cannot be sent, or its `message-id` is in use.
        """
        return await self._requests.ask(address, message, timeout)

    def transaction(self) -> Transaction:
        """A local transaction, if the server has a coordinator."""
        return Transaction(self._coordinator)

    async def _coordinator(self) -> Sender:
        if self._controller is None or self._controller.error is not None:
            self._controller = await self.sender(Coordinator())
        return self._controller

    def _name(self, name: str | None) -> str:
        self._names += 1
        return name if name is not None else f"{self._container_id}-{self._names}"

    async def _attach(self, end: End) -> None:
        assert isinstance(end, (Sender, Receiver))
        if not self.is_open:
            raise self._error or ConnectionLost("the client is not open")
        key = end.name, isinstance(end, Sender)
        if key in self._ends:
            raise LocalProtocolError(f"the name {end.name!r} is in use (2.6.1)")
        end.asked = asyncio.get_running_loop().create_future()
        self._ends[key] = end
        self._put(end)
        try:
            await end.asked
        except asyncio.CancelledError:
            if end.error is None:
                end.leave()
            raise

    def _put(self, end: Sender | Receiver) -> None:
        """Attach a link, if there is a connection."""
        if self._link is not None:
            self._link.places.put(end)
            self._update()

    def _displaced(self, end: End, *, final: bool) -> None:
        if final:
            self._ends.pop((end.name, isinstance(end, Sender)), None)
        if self._link is not None:
            self._link.places.leave(end)

    # ---- links that are attached again

    def _again(self, host: _Host, end: Sender | Receiver) -> None:
        """Attach a link again, after its session or connection has ended."""
        if end.known and (end.asked is None or end.asked.done()):
            host.spawn(self._restore(host, end))
        else:
            self._put(end)

    async def _restore(
        self, host: _Host, end: Sender | Receiver, error: Refused | None = None, failed: int = 0
    ) -> None:
        """Attach a link again until the server takes it, as `on_refused` says.

        Args:
            error: why the server has detached it.
            failed: how often it has done so a moment after it had attached it.
        """

        async def ask() -> None:
            nonlocal error
            end.check()
            if error is not None:
                refused, error = error, None
                raise refused
            end.asked = asyncio.get_running_loop().create_future()
            self._put(end)
            await end.asked

        try:
            await self._restore_one(host, end, ask, end.on_refused, self._can_pass, failed)
        except (Refused, LocalProtocolError, ConnectionLost, TypeError, ValueError) as failed:
            if host.event is None and end.error is None:
                end.lost(failed, final=True)

    def _can_pass(self, refused: Refused) -> bool:
        return self._reconnect is not None and refused.code not in LASTING

    def _refused(self, host: _Host, end: Sender | Receiver, error: Refused) -> None:
        """The server has refused or detached a link."""
        if end.closing is not None or not end.known:
            end.lost(error, final=True)
            return
        lost = ConnectionLost(str(error), error.message)
        if end.asked is not None and not end.asked.done():
            end.lost(lost, final=False)
            connecting.fail(end.asked, error)
            return
        lasted = asyncio.get_running_loop().time() - end.since
        if lasted >= (self._reconnect or Backoff()).stable:
            end.falls = 0
        end.falls += 1
        retried = end.on_refused is not None or self._can_pass(error)
        end.lost(lost if retried else error, final=not retried)
        if retried:
            host.spawn(self._restore(host, end, error, end.falls - 1))
        else:
            self._tell(NotRestored(end, error, "fail", None))

    def _not_placed(self, host: _Host, end: End, error: Exception) -> None:
        assert isinstance(end, (Sender, Receiver))
        if isinstance(error, Refused):
            self._refused(host, end, error)
        else:
            end.lost(error, final=True)

    def _detached(self, host: _Host, end: Sender | Receiver, event: LinkDetached) -> None:
        error = event.error
        if end.closing is not None and error is None:
            end.lost(ConnectionLost("the link is closed"), final=True)
            return
        condition = str(error.condition) if error is not None else ""
        text = (error.description or "") if error is not None else "the server has detached the link"
        self._refused(host, end, Refused(f"{condition or 'detached'}: {text}", condition, event))

    def _session_ended(self, host: _Host, event: SessionEnded) -> None:
        """The links of the session are attached again in others. The one at fault, if it is known, is refused."""
        error = event.error
        condition = str(error.condition) if error is not None else ""
        who = (
            "the server has ended the session"
            if event.by == "peer"
            else "the server has broken the protocol in the session"
        )
        text = f"{who}: {condition} {(error.description or '') if error is not None else ''}".rstrip(": ")
        ends, fault = host.places.ended(event)
        for end in ends:
            assert isinstance(end, (Sender, Receiver))
            if end.closing is not None:
                end.lost(ConnectionLost("the link is closed"), final=True)
            elif end is fault:
                self._refused(host, end, Refused(text, condition, event))
            else:
                end.lost(ConnectionLost(text, event), final=False)
                self._again(host, end)
        host.places.go_on()
        self._update()

    # ---- the connection

    async def _connect(self, address: Address) -> _Host:
        host = _Host(self)
        asked = wanted(address, self._hostname, self._sasl, self._options)
        now = asyncio.get_running_loop().time()
        host.connection = ClientConnection(now, self._container_id, sasl=asked.sasl, options=asked.options)
        host.connection.open(hostname=asked.hostname, properties=self._properties)
        host.places = Places(host.connection, lambda end, error: self._not_placed(host, end, error))
        store = self._journal.put if self._journal is not None else None
        host.driver = aio.Driver(host.connection, host, store=store, **self._websocket(address, "amqp", "/"))
        async with host.attempt(self._timeout):
            await self._dial(host, address)
            await host.up
            if host.event is not None:  # a server that refuses sends open, and close behind it (2.4.1)
                raise host.lost()
        self.connections += 1
        self._link = host
        for end in list(self._ends.values()):
            self._again(host, end)
        host.driver.update()
        return host

    def _is_final(self, refused: Refused) -> bool:
        return refused.code in FINAL

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        for end in list(self._ends.values()):
            end.lost(reason, final=True)

    @property
    def _ready(self) -> bool:
        return self._link is not None and self._link.driver.ready

    def _update(self, events: list[Any] | tuple[Any, ...] = ()) -> None:
        if self._link is not None:
            self._link.driver.update(events)

    def _pump(self) -> None:
        """The transport takes bytes again: all senders go on, each time another one first."""
        senders = [end for end in self._ends.values() if isinstance(end, Sender)]
        first = self._turn_of_senders % len(senders) if senders else 0
        self._turn_of_senders += 1
        for sender in senders[first:] + senders[:first]:
            sender.pump()

    def _end_of(self, link: Link) -> Any:
        end = self._ends.get((link.name, link.sends))
        return end if end is not None and end.link is link else None

    def _handle(self, host: _Host, event: Any) -> None:
        match event:
            case Connected():
                host.accepted()
            case Disconnected():
                host.ended(event)
                if self._link is host:
                    self._link = None
                    if self._comes_back(host):
                        for end in list(self._ends.values()):
                            end.place = end.group = None
                            end.lost(host.lost(), final=end.closing is not None)
            case Acknowledged():
                assert isinstance(event.handle, Outgoing)
                link = event.handle.link
                if link is not None and (end := self._end_of(link)) is not None:
                    end.acknowledged(event)
            case Incoming():
                if (end := self._end_of(event.link)) is not None:
                    end.arrive(event)
            case Part():
                if (end := self._end_of(event.delivery.link)) is not None:
                    end.arrive(event)
            case WindowOpened():
                if (end := self._end_of(event.view)) is not None:
                    end.pump()
            case DrainRequested():
                if (end := self._end_of(event.link)) is not None:
                    end.drain()
            case Drained():
                if (end := self._end_of(event.link)) is not None:
                    end.drained()
            case LinkAttached():
                if (end := self._end_of(event.link)) is not None:
                    end.attached()
                    host.places.attached(end)
                    self._update()
            case LinkDetached():
                if (end := self._end_of(event.link)) is not None:
                    self._detached(host, end, event)
            case SessionEnded():
                self._session_ended(host, event)
            case SessionBegun():
                host.places.begun(event.session)
                self._update()


connect = connecting.verb(Client, 'amqp10.connect("amqp://user:secret@broker")')
