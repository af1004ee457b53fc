"""An AMQP 1.0 client on asyncio.

docs/amqp10-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from wirefmt.amqp10._codec import (
    Coordinator,
    Incoming,
    Outgoing,
    Source,
    Target,
    encode_value,
)
from wirefmt.amqp10.connection import ClientConnection
from wirefmt.amqp10.ends import Earlier, Receiver, Sender, Transaction
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
from wirefmt.amqp10.sessions import Session
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, Scheme, read_urls
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.connection.recovery import RecoveryEvent
from wirefmt.connection.sasl import Anonymous, Mechanism, Plain
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

SCHEMES: Final = {
    "amqp": Scheme(5672),
    "amqps": Scheme(5671, tls=True),
    "ws": Scheme(80, websocket=True),
    "wss": Scheme(443, tls=True, websocket=True),
}

#: Messages beyond the credit that are tolerated unless the options say otherwise: RabbitMQ 3.10 sends them.
OVERRUN: Final = 1000


class _Host(connecting.Link):
    """The host of one connection of a client."""

    connection: ClientConnection

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.session_ended: SessionEnded | None = None  # the session was ended with an error

    def handle(self, event: Any) -> None:
        self.client._handle(self, event)

    def writable(self) -> None:
        self.client._pump()

    def lost(self) -> Exception:
        """Why this connection is over, as an exception for the host."""
        ended = self.session_ended
        if ended is None or ended.error is None:
            return super().lost()
        condition = str(ended.error.condition)
        text = f"{condition} {ended.error.description or ''}"
        if ended.by == "peer":
            return Refused(f"the server has ended the session: {text}", condition, ended)
        return ConnectionLost(f"the server has broken the protocol in the session: {text}", ended)


class Client(connecting.Client[_Host]):
    """An AMQP 1.0 client with one session, made by `amqp10.connect`. `async with` opens and closes it; so do its methods `open`
    and `close`.

    ::

        async with amqp10.connect("amqp://user:secret@broker") as client:
            sender = await client.sender("/queues/readings")
            await sender.send(amqp10.Message(body=b"21.5"))           # returns when accepted
            receiver = await client.receiver("/queues/readings", credit=100)
            async for delivery in receiver: ...

    Args:
        url: `amqp://host:5672`, `amqps://` (TLS), `ws://host/path`, `wss://` (WebSocket). User name and password may be in it.
            Several: they are tried in turn.
        container_id: ours; "": a random one. With a journal: whose messages in it.
        hostname: what is asked for in SASL and open; None: the URL's host.
        sasl: mechanisms in the order in which they are preferred. None: PLAIN if there are credentials, else ANONYMOUS. An
            empty sequence: without the SASL layer.
        ssl: TLS with this context; None: the default one with `amqps` and `wss`.
        reconnect: connect again when the connection is lost, and attach all links again. Messages without an outcome are
            sent again, in order. None: the end of the connection ends the client.
        journal: path of a SQLite database that keeps messages without an outcome: they survive the process. The next client
            with this container_id sends them again, in order, before what it sends itself to the same target. Messages of
            a transaction, settled and streamed ones are not kept.
        timeout: seconds that an attempt to connect may take.
        options: limits and times of each connection.
        random: for names, back-off and WebSocket; None: the system's.
        properties: of open.
        shuffle: True: several servers are tried in an order made by chance.
        on_event: called with each event of `wirefmt.connection.recovery`.

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
        ssl: tls.SSLContext | None = None,
        reconnect: Backoff | None = None,
        journal: str | Path | None = None,
        timeout: float = 30.0,
        options: ConnectionOptions | None = None,
        random: Random | None = None,
        properties: dict[str, Any] | None = None,
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
        self._session: Session | None = None
        self._ends: dict[tuple[str, bool], Sender | Receiver] = {}
        self._names = 0
        self._controller: Sender | None = None

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
        if self._journal_path is not None:
            self._journal = Journal(self._journal_path, self._owner)
            for record in await self._journal.open():
                self._resume(record)
        return await self._try_servers()

    async def _close_journal(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            await journal.close()

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
        **fields: Any,
    ) -> Sender:
        """Attach a link that sends, and wait for the server.

        Args:
            target: an address, a Target, or a Coordinator.
            source: where messages come from, for the server's information.
            name: the link's; None: one is made.
            settled: True: no outcome is wanted (at most once). None: each message decides.
            fields: further fields of attach.

        Raises Refused if the server refuses, LocalProtocolError, ConnectionLost.
        """
        end = Sender(self, self._name(name), target, source, settled, fields)
        await self._attach(end)
        return end

    async def receiver(
        self,
        source: str | Source | None,
        *,
        target: Target | None = None,
        name: str | None = None,
        credit: int = 100,
        settle: Literal["automatic", "manual"] = "automatic",
        streamed: bool = False,
        **fields: Any,
    ) -> Receiver:
        """Attach a link that receives, and wait for the server.

        Args:
            source: an address, or a Source, which may ask for a dynamic node (`receiver.source` has its address then).
            target: where messages go, for the server's information.
            name: the link's; None: one is made.
            credit: messages that may be unsettled here; renewed. 0: `grant` gives it.
            settle: "automatic": accepted when the next one is asked for. "manual": by `accept` and its like.
            streamed: messages come in parts and are not held whole.
            fields: further fields of attach, as snd_settle_mode=1 for messages without settlement.

        Raises Refused if the server refuses, LocalProtocolError, ConnectionLost.
        """
        end = Receiver(self, self._name(name), source, target, credit, settle == "automatic", streamed, fields)
        await self._attach(end)
        return end

    def transaction(self) -> Transaction:
        """A local transaction, if the server has a coordinator."""
        return Transaction(self)

    async def _coordinator(self) -> Sender:
        if self._controller is None or self._controller.error is not None:
            self._controller = await self.sender(Coordinator())
        return self._controller

    def _name(self, name: str | None) -> str:
        self._names += 1
        return name if name is not None else f"{self._container_id}-{self._names}"

    async def _attach(self, end: Sender | Receiver) -> None:
        if not self.is_open:
            raise self._error or ConnectionLost("the client is not open")
        key = end.name, isinstance(end, Sender)
        if key in self._ends:
            raise LocalProtocolError(f"the name {end.name!r} is in use (2.6.1)")
        end.ready = asyncio.get_running_loop().create_future()
        self._ends[key] = end
        if self._session is not None:
            try:
                end.attach(self._session)
            except LocalProtocolError:
                del self._ends[key]
                raise
            self._update()
        try:
            await end.ready
        except asyncio.CancelledError:
            if end.link is not None and end.error is None:
                end.closing = asyncio.get_running_loop().create_future()
                end.link.detach()
                self._update()
            raise

    # ---- the connection

    async def _connect(self, address: Address) -> _Host:
        host = _Host(self)
        sasl = self._sasl
        if sasl is None:
            sasl = Plain(address.user, address.password or "") if address.user else Anonymous()
        now = asyncio.get_running_loop().time()
        host.connection = ClientConnection(now, self._container_id, sasl=sasl, options=self._options)
        hostname = self._hostname if self._hostname is not None else address.host
        host.connection.open(hostname=hostname, properties=self._properties)
        store = self._journal.put if self._journal is not None else None
        host.driver = aio.Driver(host.connection, host, store=store, **self._websocket(address, "amqp", "/"))
        async with host.attempt(self._timeout):
            await self._dial(host, address)
            await host.up
        self.connections += 1
        self._link = host
        self._session = host.connection.begin()
        for end in list(self._ends.values()):
            end.attach(self._session)
        host.driver.update()
        return host

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        for end in list(self._ends.values()):
            end.lost(reason, final=True)

    @property
    def _ready(self) -> bool:
        return self._link is not None and self._link.driver.ready

    def _update(self) -> None:
        if self._link is not None:
            self._link.driver.update()

    def _pump(self) -> None:
        for end in list(self._ends.values()):
            if isinstance(end, Sender):
                end.pump()

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
                    self._link = self._session = None
                    if self._comes_back(host):
                        for end in list(self._ends.values()):
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
                    end.pump()
            case Drained():
                if (end := self._end_of(event.link)) is not None:
                    end.drained()
            case LinkAttached():
                if (end := self._end_of(event.link)) is not None:
                    end.attached()
            case LinkDetached():
                if (end := self._end_of(event.link)) is not None:
                    error = event.error
                    condition = str(error.condition) if error is not None else "detached"
                    text = (error.description or "") if error is not None else "the server has detached the link"
                    gone = end.closing is not None and error is None
                    end.lost(
                        ConnectionLost("the link is closed")
                        if gone
                        else Refused(f"{condition}: {text}", condition, event),
                        final=True,
                    )
            case SessionEnded():
                # All links have gone with it; the connection is of no more use.
                if event.error is not None:
                    host.session_ended = event
                    host.driver.update(host.connection.close())
            case SessionBegun():
                pass


connect = connecting.verb(Client, 'amqp10.connect("amqp://user:secret@broker")')
