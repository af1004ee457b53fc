"""An NSQ client on asyncio: a producer; consumers are made by it.

docs/nsq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections import deque
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from wirefmt import nsq
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, read_url
from wirefmt.connection.aio import Backoff
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.connection.journal import Store
from wirefmt.errors import ConnectionLost, EncodeError, JournalError, LocalProtocolError, Refused
from wirefmt.nsq._codec import Request
from wirefmt.nsq.consumer import Consumer
from wirefmt.nsq.endpoint import build
from wirefmt.nsq.events import ConnectionOptions, Publication
from wirefmt.nsq.link import SCHEMES, Link
from wirefmt.nsq.session import Session

if TYPE_CHECKING:
    from typing_extensions import Buffer


@connecting.complete
class Client(connecting.Client[Link]):
    """An NSQ client, made by `nsq.connect`. `async with` connects and closes it; so do its methods `open` and `close`.

    ::

        async with nsq.connect("nsq://127.0.0.1:4150") as client:
            await client.publish("orders", b"one")                  # returns when the server has answered
            async with client.consume("orders", "billing") as messages:
                async for message in messages: ...

    Messages are published to the first server that takes a connection; when it is lost, the next ones are tried in turn.
    Consumers have connections of their own, to all servers.

    Args:
        urls: `nsq://host:4150`, `nsqs://` (TLS asked for in IDENTIFY, and required), `nsq+unix:///path`. A secret may be in it:
            `nsq://:secret@host`.
        lookup: URLs of nsqlookupd's HTTP: consumers connect to the servers that it names, too. With no `urls` there is no
            producer.
        secret: for AUTH, if the server requires it.
        deflate: True, or the level: asked for in IDENTIFY.
        snappy: asked for in IDENTIFY (needs cramjam: `wirefmt[snappy]`).
        identify: further members of IDENTIFY: `client_id`, `heartbeat_interval`, `msg_timeout`, `sample_rate` ...
        journal: path of a SQLite database: what was published and not answered outlives the process, and the next client with
            the journal publishes it again. Each message arrives at least once.
        reconnect: connect again when the producer's connection is lost; what was not answered is published again, so a message
            may arrive twice. None: the end of the connection ends the producer. Consumers always connect again.
        lookup_interval: seconds between two questions to each nsqlookupd.
        options: limits and times of each connection.

    Raises ValueError for a URL that cannot be used.

    Every coroutine can be cancelled; the client stays usable. A call that is cancelled after its command has been sent takes
    nothing back.

    Attributes:
        connections: how many connections the producer has had.
        lost: messages of which it is not known whether they have arrived and for which no call waits.
    """

    def __init__(
        self,
        *urls: str,
        lookup: Iterable[str] = (),
        secret: bytes | str | None = None,
        deflate: bool | int = False,
        snappy: bool = False,
        identify: dict[str, Any] | None = None,
        journal: str | Path | None = None,
        lookup_interval: float = 60.0,
        options: ConnectionOptions | None = None,
        **more: Unpack[connecting.Connecting],
    ) -> None:
        super().__init__([read_url(url, SCHEMES) for url in urls], **more)
        self._lookups = tuple(lookup)
        if not self._addresses and not self._lookups:
            raise ValueError("a URL of a server, or lookup")
        self._tls = any(address.scheme.tls for address in self._addresses)
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._features: dict[str, Any] = {"snappy": True} if snappy else {}
        if deflate:
            self._features["deflate"] = True
            if deflate is not True:
                self._features["deflate_level"] = deflate
        self._members = {"user_agent": "wirefmt", "feature_negotiation": True, **(identify or {})}
        self._journal_path = journal
        self._lookup_interval = lookup_interval
        self._options = options or ConnectionOptions()
        self._identify(self._tls)  # raises for an invalid value

        self.session: Session | None = Session() if self._reconnect is not None else None
        self.lost = 0
        # calls of `publish`: those not sent, and those whose answer is awaited
        self._queue: deque[tuple[Publication, asyncio.Future[None]]] = deque()
        self._waiting: dict[Request, asyncio.Future[None]] = {}
        self._drained: asyncio.Future[None] | None = None

    def _identify(self, secure: bool) -> nsq.Identify:
        try:
            return nsq.Identify({**self._members, **self._features, **({"tls_v1": True} if secure else {})})
        except EncodeError as error:
            raise ValueError(str(error)) from error

    def _secure_context(self) -> tls.SSLContext:
        context = self._context(True)
        assert context is not None
        return context

    # ---- opening and closing

    async def _begin(self) -> Link | None:
        """The producer connects, if there are servers for it."""
        if self._journal_path is not None:
            self._store = Store(self._journal_path, "nsq")
            self.session = await self._store.restore(partial(Session.replay, journaled=True))
        return await self._try_servers() if self._addresses else None

    async def close(self) -> None:
        """Wait until what was published is answered and sent, for at most the time of an attempt to connect, then close
        transport and journal. Calls that still wait raise ConnectionLost."""
        link = self._link
        try:
            if link is not None and (self._queue or self._waiting or self._unanswered()):
                self._drained = asyncio.get_running_loop().create_future()
                await asyncio.wait([self._drained, link.gone], timeout=self._timeout, return_when="FIRST_COMPLETED")
        finally:
            self._drained = None
            await super().close()

    def _unanswered(self) -> int:
        return len(self.session.pending) if self.session is not None else 0

    def _not_kept(self, numbers: set[int], error: JournalError) -> None:
        assert self.session is not None
        for request in [r for number, r in self.session.pending.items() if number in numbers]:
            self.session.discard(request)
            future = self._waiting.pop(request, None)
            if future is not None:
                connecting.fail(future, error)
        for _, future in self._queue:
            connecting.fail(future, error)
        self._queue.clear()

    # ---- requests

    async def publish(self, topic: str, body: Buffer | str, *, defer: float | None = None) -> None:
        """Publish a message. Returns when the server has answered.

        Calls need not wait for one another: what several tasks publish is sent together, and the answers come in order.

        Args:
            body: text is written in UTF-8.
            defer: seconds until it is delivered.

        Raises:
            Refused: the server refuses the message, and ends the connection.
            LocalProtocolError: it cannot be sent. Nothing was sent.
            ConnectionLost: the connection has ended, and the message is not sent again by this client.
            JournalError: the journal cannot keep the message. It was not sent.
        """
        data = body.encode() if isinstance(body, str) else body
        if defer is None:
            await self._request(build(nsq.Publish, topic=topic, body=data))
        else:
            await self._request(build(nsq.DeferredPublish, topic=topic, defer_time=int(defer * 1000), body=data))

    async def publish_many(self, topic: str, bodies: Iterable[Buffer]) -> None:
        """Publish messages together: all of them arrive, or none. As `publish` otherwise."""
        await self._request(build(nsq.MultiPublish, topic=topic, bodies=bodies))

    def consume(
        self,
        topic: str,
        channel: str,
        *,
        max_in_flight: int = 100,
        requeue_delay: float = 90.0,
        backoff: Backoff | None = None,
        touch: bool = True,
    ) -> Consumer:
        """Messages of a channel: see `Consumer`.

        Args:
            max_in_flight: messages that may be in flight on all connections together.
            requeue_delay: seconds for each attempt, until a message that has failed comes again.
            backoff: how long nothing is taken after a failure; None: from 1 second to 2 minutes.
            touch: ask for more time for messages that the host works on.

        Raises ValueError for an invalid name.
        """
        return Consumer(
            self,
            topic,
            channel,
            max_in_flight=max_in_flight,
            requeue_delay=requeue_delay,
            backoff=backoff or Backoff(first=1.0, most=120.0),
            touch=touch,
        )

    async def _request(self, command: Publication) -> None:
        if self._ended or self._closing or not self._addresses:
            raise self._error or ConnectionLost("the producer is not open")
        self._check_journal()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((command, future))
        self._pump()
        await future

    def _pump(self) -> None:
        """Send what waits, as far as the window and the transport allow."""
        link, queue = self._link, self._queue
        if link is None or link.connection.state is not nsq.State.INIT:
            return
        driver, connection = link.driver, link.connection
        while queue and driver.ready and connection.send_quota:
            command, future = queue.popleft()
            if future.done():
                continue
            try:
                handle = connection.send(command)
            except LocalProtocolError as error:
                connecting.fail(future, error)
                continue
            assert handle is not None
            self._waiting[handle] = future
        driver.queued()

    # ---- called by the link

    def _up(self, link: Link) -> None:
        self.connections += 1
        self._link = link
        self._pump()

    def _writable(self, link: Link) -> None:
        self._pump()

    def _take(self, link: Link, events: list[Any], at: int) -> int:
        """Take answers: see `Host.handle_run`."""
        begin, count, waiting = at, len(events), self._waiting
        if link.request is not None:  # AUTH
            return at
        while at < count:
            event = events[at]
            if type(event) is not Acknowledged or type(event.message) is not nsq.Response:
                break
            future = waiting.pop(event.handle, None)  # type: ignore[call-overload]
            if future is not None and not future.done():
                future.set_result(None)
            at += 1
        if at > begin:
            self._answered()
        return at

    def _handle(self, link: Link, event: Any) -> None:
        match event:
            case Acknowledged():
                self._refused(event)
            case WindowOpened():
                self._pump()
            case Disconnected() if self._link is link:
                self._link = None
                for handle in event.lost:
                    self._fail(handle, link.lost())  # type: ignore[arg-type]

    def _answered(self) -> None:
        """Answers have arrived: go on, or let `close` go on."""
        if self._queue:
            self._pump()
        drained = self._drained
        if drained is not None and not drained.done() and not (self._queue or self._waiting or self._unanswered()):
            drained.set_result(None)

    def _refused(self, event: Acknowledged) -> None:
        message = event.message
        self._fail(
            event.handle,  # type: ignore[arg-type]
            Refused(f"the server says {message.code} {message.text}".rstrip(), message.code, message),
        )
        self._answered()

    def _fail(self, handle: Request, reason: Exception) -> None:
        future = self._waiting.pop(handle, None)
        if future is None or future.done():
            self.lost += 1
        else:
            connecting.fail(future, reason)

    # ---- connections

    async def _connect(self, address: Address) -> Link:
        link = Link(self, self, address, self.session, self._options)
        await link.open()
        return link

    def _is_final(self, refused: Refused) -> bool:
        return False

    def _finish(self, error: Exception | None, reason: Exception) -> None:
        for future in [*self._waiting.values(), *(future for _, future in self._queue)]:
            if future.done():
                self.lost += 1
            else:
                connecting.fail(future, reason)
        self._waiting.clear()
        self._queue.clear()


connect = connecting.verb(Client, 'nsq.connect("nsq://127.0.0.1:4150")')
