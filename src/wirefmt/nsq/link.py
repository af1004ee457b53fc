"""One connection of an NSQ client: its address, then IDENTIFY, TLS, AUTH and SUB."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from wirefmt import nsq
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, Scheme
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, StartTls, WindowOpened
from wirefmt.connection.journal import Store
from wirefmt.connection.recovery import RecoveryEvent
from wirefmt.errors import ConnectionLost, Refused
from wirefmt.nsq._codec import Request
from wirefmt.nsq.client_connection import ClientConnection
from wirefmt.nsq.codes import ErrorCode
from wirefmt.nsq.events import ConnectionOptions, TimedOut
from wirefmt.nsq.session import Session

#: With nsqs, TLS is asked for in IDENTIFY.
SCHEMES: Final = {"nsq": Scheme(4150), "nsqs": Scheme(4150, tls=True), "nsq+unix": Scheme(unix=True)}


class Settings(Protocol):
    """What connections and consumers may ask of their client: what the program has given it. `nsq.Client` documents each.

    Attributes:
        _addresses: of the servers.
        _store: the journal, while the client is open.
        _tls: True: a server is asked for TLS, and so are those that a look-up names.
    """

    _addresses: list[Address]
    _lookups: tuple[str, ...]
    _lookup_interval: float
    _store: Store | None
    _secret: bytes | None
    _tls: bool
    _ssl: tls.SSLContext | None
    _keylog: str | Path | None
    _timeout: float
    _reconnect: Backoff | None
    _options: ConnectionOptions
    _random: Random
    _on_event: Callable[[RecoveryEvent], None] | None

    def _identify(self, secure: bool) -> nsq.Identify:
        """What is sent first. `secure`: TLS is asked for."""

    def _secure_context(self) -> tls.SSLContext:
        """The context of TLS."""


class Owner(Protocol):
    """The producer or the consumer of a connection."""

    def _up(self, link: Link) -> None:
        """The connection can be used."""

    def _take(self, link: Link, events: list[Any], at: int) -> int:
        """Take events: see `Host.handle_run`."""

    def _handle(self, link: Link, event: Any) -> None:
        """TimedOut, WindowOpened, Acknowledged or Disconnected."""

    def _writable(self, link: Link) -> None:
        """The transport takes bytes again."""


class Link(connecting.Link):
    """The host of one connection.

    Attributes:
        turn: of a consumer: when its turn began, in the loop's time.
        last: of a consumer: when a message came last, or its turn began.
        before: of a consumer: how many messages might be in flight by an earlier RDY.
        settled: of a consumer: when the server has surely seen the last one.
    """

    connection: ClientConnection

    def __init__(
        self,
        owner: Owner,
        settings: Settings,
        address: Address,
        session: Session | None,
        options: ConnectionOptions,
    ) -> None:
        super().__init__()
        self.turn = self.last = self.settled = 0.0
        self.before = 0
        self.owner = owner
        self.settings = settings
        self.address = address
        self.request: Request | None = None  # AUTH or SUB, whose answer is awaited
        self.subscribe: tuple[str, str] | None = None
        self.connection = ClientConnection(asyncio.get_running_loop().time(), session, options)
        store = settings._store
        self.driver = aio.Driver(
            self.connection, self, store=store.put if store is not None and session is not None else None
        )

    async def open(self) -> None:
        """Connect, IDENTIFY, TLS, compression, AUTH, SUB. Raises OSError, Refused, ConnectionLost."""
        address = self.address
        async with self.attempt(self.settings._timeout):
            self.connection.send(self.settings._identify(address.scheme.tls))
            await aio.open_transport(self.driver, address.host, address.port, path=address.path)
            self.driver.update()
            await self.up

    def handle_run(self, events: list[Any], at: int) -> int:
        return self.owner._take(self, events, at)

    def handle(self, event: Any) -> None:
        match event:
            case TimedOut() | WindowOpened():
                self.owner._handle(self, event)
            case Acknowledged() if event.handle is self.request:
                self.request = None
                self._answered(event)
            case Acknowledged():
                self.owner._handle(self, event)
            case StartTls():
                self.driver.start_tls(self.settings._secure_context(), self.address.host)
            case Connected():
                self._connected(event)
            case Disconnected():
                self.ended(event)
                self.owner._handle(self, event)

    def writable(self) -> None:
        self.owner._writable(self)

    def _connected(self, event: Connected) -> None:
        negotiated = event.negotiated
        if self.address.scheme.tls and not negotiated.tls:
            self.driver.abort(ConnectionError("the server does not offer TLS"))
        elif negotiated.auth_required:
            password = self.address.password
            secret = password.encode() if password is not None else self.settings._secret
            if secret is None:
                self.driver.abort(PermissionError("the server requires AUTH, and there is no secret"))
                return
            self.request = self.connection.send(nsq.Auth(secret=secret))
            self.driver.update()
        else:
            self._ready()

    def _answered(self, event: Acknowledged) -> None:
        if isinstance(event.message, nsq.Error):
            return  # Disconnected follows
        if isinstance(event.handle.command, nsq.Auth):  # type: ignore[attr-defined]
            self._ready()
        else:
            self._is_up()

    def _ready(self) -> None:
        if self.subscribe is not None:
            self.request = self.connection.subscribe(*self.subscribe)
            self.driver.update()
        else:
            self._is_up()

    def _is_up(self) -> None:
        self.accepted()
        self.owner._up(self)

    def lost(self) -> Exception:
        error, event = self.driver.error, self.event
        if event is not None and event.code and self.up.done() and self.up.exception() is None:
            # one command was refused, and its caller knows; all others have lost the connection
            return ConnectionLost(f"the server has ended the connection: {event.code} {event.reason}".rstrip(), event)
        return (
            Refused(str(error), ErrorCode.E_AUTH_FIRST, self.event)
            if isinstance(error, PermissionError)
            else super().lost()
        )

    def _refused(self, event: Disconnected) -> Refused:
        return Refused(f"the server says {event.code} {event.reason}".rstrip(), event.code or 0, event.message)
