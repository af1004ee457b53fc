"""The ends of links of an AMQP 1.0 client on asyncio that send, and transactions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from wirefmt.amqp10._codec import (
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    Outgoing,
    Source,
    Target,
    TransactionalState,
    encode_value,
)
from wirefmt.amqp10.events import CODES, State
from wirefmt.amqp10.journal import Journal, Record
from wirefmt.amqp10.sender import Sender as SenderLink
from wirefmt.amqp10.sessions import Session
from wirefmt.connection import client as connecting
from wirefmt.connection.contract import Acknowledged
from wirefmt.connection.recovery import OnRefused, check_on_refused
from wirefmt.errors import ConnectionLost, JournalError, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

#: Bytes of a part of a streamed message.
PART: Final = 1 << 16


class Parent(Protocol):
    """What the ends of links, and requests, may ask of their client.

    Attributes:
        lost: messages of an earlier process that the server has not accepted.
        _journal: what keeps messages; None: they are not kept.
        _earlier: what sends the messages of an earlier process, by encoded target: before all others.
        _random: for names.
    """

    lost: int
    _journal: Journal | None
    _earlier: dict[bytes, Earlier]
    _random: Random

    @property
    def is_open(self) -> bool:
        """False: no link can be attached any more."""

    @property
    def _ready(self) -> bool:
        """There is a connection, and the transport takes bytes."""

    def _update(self, events: list[Any] | tuple[Any, ...] = ()) -> None:
        """Write what the connection has, and handle the events of a call."""

    def _pump(self) -> None:
        """Let all senders send what waits."""

    def _displaced(self, end: End, *, final: bool) -> None:
        """A link is gone: there is space for another one."""

    def _check_journal(self) -> None:
        """Raises JournalError while the journal cannot be written."""

    def _name(self, name: str | None) -> str:
        """The name of a new link; None: one is made."""

    async def _attach(self, end: End) -> None:
        """Attach a link, and wait for the server. Raises Refused, LocalProtocolError, ConnectionLost."""


class Entry:
    """A message of the host: it waits to be sent, or for its outcome."""

    __slots__ = ("fields", "future", "number", "payload", "streamed")

    def __init__(
        self, payload: bytes, fields: dict[str, Any], future: asyncio.Future[Any], *, streamed: bool = False
    ) -> None:
        self.streamed = streamed  # it comes in parts: the future is done when it is its turn
        self.payload = payload
        self.fields = fields
        self.future = future
        self.number: int | None = None  # in the journal

    @property
    def given_up(self) -> bool:
        """Nobody waits for it, and no journal has it."""
        return self.number is None and self.future.done()


class Place:
    """A session, and the ends of links in it.

    Attributes:
        session: None: it has not been begun.
        ends: of links that are attached, are being attached, or wait for the peer's begin.
        attached: those of them that the peer has attached.
        waiting: those that wait for the peer's begin, which says how many links there may be.
    """

    __slots__ = ("attached", "ends", "session", "waiting")

    def __init__(self) -> None:
        self.session: Session | None = None
        self.ends: dict[End, None] = {}
        self.attached: set[End] = set()
        self.waiting: list[End] = []


class End:
    """One end of a link as the program has it. It outlives connections and sessions.

    Attributes:
        name: the link's name.
        error: why it is over; None: it is not.
    """

    def __init__(self, client: Parent, name: str, on_refused: OnRefused | None) -> None:
        check_on_refused(on_refused)
        self.client = client
        self.name = name
        self.on_refused = on_refused
        self.link: Any = None  # the link of the session that it is in
        self.error: Exception | None = None
        self.known = False  # it has been attached
        self.asked: asyncio.Future[None] | None = None  # its attach is awaited
        self.closing: asyncio.Future[None] | None = None
        self.place: Place | None = None
        self.group: Place | None = None  # where it is attached next
        self.shares = False
        self.falls = 0  # how often it was lost a moment after it was attached
        self.since = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def attach(self, session: Session) -> None:
        raise NotImplementedError

    def attached(self) -> None:
        """The peer has answered."""
        self.known = True
        self.since = asyncio.get_running_loop().time()
        if self.asked is not None and not self.asked.done():
            self.asked.set_result(None)

    def lost(self, error: Exception, *, final: bool) -> None:
        """The link is gone. `final`: it will not be attached again."""
        self.link = None
        if final:
            self.error = error
            if self.asked is not None:
                connecting.fail(self.asked, error)
            if self.closing is not None and not self.closing.done():
                self.closing.set_result(None)
        self.client._displaced(self, final=final)

    @property
    def source(self) -> Any:
        """The source as attached; None while there is no link."""
        return self.link.source if self.link is not None else None

    @property
    def target(self) -> Any:
        """The target as attached; None while there is no link."""
        return self.link.target if self.link is not None else None

    async def close(self, *, closed: bool = True) -> None:
        """Detach the link, and wait until the server has answered. closed: False keeps the terminus."""
        if self.error is None:
            await asyncio.shield(self.leave(closed))

    def leave(self, closed: bool = True) -> asyncio.Future[None]:
        """Detach the link. The future is done when the server has answered."""
        if self.closing is None:
            self.closing = asyncio.get_running_loop().create_future()
            if self.usable("detach"):
                self.link.detach(closed=closed)
                self.client._update()
            else:
                self.lost(ConnectionLost("the link is closed"), final=True)
        return self.closing

    def usable(self, kind: str) -> bool:
        """True: this performative of the link can be sent now. False: there is no link, or it is over and the event that says
        so is about to come."""
        if self.link is None:
            return False
        try:
            self.link.check(kind)
        except LocalProtocolError:
            return False
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.client.is_open:
            if kind is None:
                self.finish()
            await self.close()

    def finish(self) -> None:
        """The `async with` block ended without an exception: what it has had counts as accepted."""

    def check(self) -> None:
        if self.error is not None:
            raise self.error
        if self.closing is not None:
            raise ConnectionLost("the link is closed")


class Sender(End):
    """A link that sends, made by `Client.sender`."""

    def __init__(
        self,
        client: Parent,
        name: str,
        target: Any,
        source: Source | None,
        settled: bool | None,
        fields: dict[str, Any],
        on_refused: OnRefused | None = None,
    ) -> None:
        super().__init__(client, name, on_refused)
        self._target = Target(address=target) if isinstance(target, str) else target
        self._source = source
        self._settled = settled
        self._fields = fields
        self._queue: deque[Entry] = deque()  # not sent
        self._waiting: dict[Outgoing, Entry] = {}  # sent, in that order
        self._broken: set[Outgoing] = set()  # streamed messages: they are not sent again
        self._stream: Entry | None = None  # the streamed message whose turn it is
        self._aborted: Outgoing | None = None  # it was given up, and the receiver does not know it yet
        self._capacity: asyncio.Future[None] | None = None  # it waits for the window
        self._draining = False  # the receiver wants its credit back

    async def send(self, message: Message | Buffer, *, transaction: Transaction | None = None, **fields: Any) -> State:
        """Send a message, and wait for its outcome (if it is sent settled, until it is sent).

        Args:
            message: a message, or its encoded bytes.
            transaction: post it in this transaction.
            fields: as of `amqp10.Sender.send`: settled, delivery_tag, message_format, batchable.

        Returns the receiver's state: `Accepted`; in a transaction a `TransactionalState`.

        Raises:
            Refused: the outcome is another: rejected, released or modified; its `message` is the outcome.
            LocalProtocolError: the message cannot be sent on this link. Nothing was sent.
            ConnectionLost: the connection or link has ended; it is not known whether the message has arrived.
            JournalError: the journal cannot keep the message. It was not sent.
        """
        return await self.post(message, transaction=transaction, **fields)

    def post(
        self, message: Message | Buffer, *, transaction: Transaction | None = None, **fields: Any
    ) -> asyncio.Future[State]:
        """As `send`, without waiting: for batches. The future has the outcome."""
        self.check()
        self.client._check_journal()
        payload = message.encode() if isinstance(message, Message) else bytes(message)
        if transaction is not None:
            fields["state"] = transaction.state()
        if self._settled is not None:
            fields.setdefault("settled", self._settled)
        future: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        self._queue.append(Entry(payload, fields, future))
        self.pump()
        return future

    async def stream(self, parts: AsyncIterable[bytes] | Iterable[bytes], **fields: Any) -> State:
        """Send one message whose encoded bytes come in parts; no more than a part is held.

        Raises as `send`. If `parts` raises, the message is aborted. It is not sent again by a reconnection.
        """
        self.check()
        cut = _cut(parts)
        held = await anext(cut, b"")  # one part is held back, since the last transfer says that it is the last
        loop = asyncio.get_running_loop()
        turn = Entry(b"", fields, loop.create_future(), streamed=True)
        self.check()
        self._queue.append(turn)
        self.pump()
        try:
            await turn.future  # those before it are sent
            while not (self.link is not None and self.client._ready and self.link.send_quota):
                await self._wait_for_window()
            future: asyncio.Future[State] = loop.create_future()
            return await self._send_parts(cut, held, fields, future)
        finally:
            turn.future.cancel()
            if self._stream is turn and self._aborted is None:
                self._stream = None
                self.pump()

    async def _send_parts(
        self, cut: AsyncIterator[bytes], held: bytes, fields: dict[str, Any], future: asyncio.Future[State]
    ) -> State:
        link: SenderLink = self.link
        handle = link.send(held, more=True, **fields)
        held = b""
        self.client._update()
        if not handle.settled:
            self._waiting[handle] = Entry(b"", fields, future)
            self._broken.add(handle)
        try:
            async for part in cut:
                if held:
                    await self._send_part(link, handle, held)
                if future.done() or self.link is not link:  # the receiver has decided, or the link is lost
                    break
                held = part
            if not future.done():
                await self._send_part(link, handle, held, more=False)
        except BaseException:
            if link.open is handle and link.attached:
                self._aborted = handle
                self._abort()
            raise
        if handle.settled and not future.done():
            if self.link is not link:
                raise self.error or ConnectionLost("the link was lost before all parts were sent")
            return None
        return await future

    def _abort(self) -> None:
        """Abort the message of which a part was sent, as soon as the window lets it through. Its turn ends then."""
        link, handle = self.link, self._aborted
        assert handle is not None
        if link is not None and link.open is handle:
            try:
                self.client._update(link.abort(handle))
            except LocalProtocolError:  # `WindowOpened` comes
                return
        self._aborted = self._stream = None
        self._broken.discard(handle)
        self._waiting.pop(handle, None)

    async def _send_part(self, link: SenderLink, handle: Outgoing, part: bytes, *, more: bool = True) -> None:
        while link.open is handle and not (self.client._ready and link.takes_part):
            await self._wait_for_window()
        if link.open is handle:  # else the receiver has settled it
            link.send_more(handle, part, more=more)
            self.client._update()

    async def _wait_for_window(self) -> None:
        self.check()
        self._capacity = asyncio.get_running_loop().create_future()
        await self._capacity
        self.check()

    def pump(self) -> None:
        """Send what waits, as far as credit, window and transport allow."""
        link, queue = self.link, self._queue
        if self._capacity is not None and not self._capacity.done():
            self._capacity.set_result(None)
        if self._aborted is not None:
            self._abort()
        if link is None or self._held:
            return
        sent = False
        while queue and self._stream is None and link.send_quota and self.client._ready:
            entry = queue.popleft()
            if entry.given_up:
                continue
            if entry.streamed:
                self._stream = entry
                entry.future.set_result(None)
                break
            try:
                handle = link.send(entry.payload, **entry.fields)
            except LocalProtocolError as error:
                self._give(entry, error)
                continue
            sent = True
            if handle.settled:
                entry.future.set_result(None)
            else:
                self._waiting[handle] = entry
                self._keep(entry)
        if self._draining and link.attached and (link.credit <= 0 or not (queue or self._stream)):
            self._draining = False
            link.drained()
            sent = True
        if sent:
            self.client._update()

    def drain(self) -> None:
        """The receiver wants what there is now, and its credit back (2.6.7)."""
        self._draining = True
        self.pump()

    @property
    def _held(self) -> bool:
        """True while messages of an earlier process for the same target have to be sent first."""
        earlier = self.client._earlier
        return bool(earlier) and earlier.get(encode_value(self._target), self) is not self

    def _keep(self, entry: Entry) -> None:
        """It has been sent: put it into the journal, unless it is there or part of a transaction."""
        journal, fields = self.client._journal, entry.fields
        if (
            journal is not None
            and entry.number is None
            and fields.get("state") is None
            and not isinstance(self._target, Coordinator)
        ):
            form, tag = fields.get("message_format", 0), fields.get("delivery_tag")
            entry.number = journal.keep(self._target, form, tag, entry.payload)

    def not_kept(self, numbers: set[int], error: JournalError) -> None:
        """The journal cannot keep these messages, nor those that have not been sent: they are given up."""
        waiting, self._queue = self._queue, deque()
        for entry in waiting:
            if entry.number is None or entry.number in numbers:
                entry.number = None
                connecting.fail(entry.future, error)
            else:
                self._queue.append(entry)

    def _give(self, entry: Entry, answer: Any) -> None:
        """A message has its outcome, or cannot be sent."""
        if entry.number is not None and self.client._journal is not None:
            self.client._journal.forget(entry.number)
        if entry.future.done():
            return
        if isinstance(answer, Exception):
            connecting.fail(entry.future, answer)
        else:
            entry.future.set_result(answer)

    def attach(self, session: Session) -> None:
        mode = {None: 2, False: 0, True: 1}[self._settled]
        self.link = session.sender(self.name, self._target, self._source, **{"snd_settle_mode": mode, **self._fields})

    def attached(self) -> None:
        super().attached()
        self.pump()

    def acknowledged(self, event: Acknowledged) -> None:
        handle = event.handle
        assert isinstance(handle, Outgoing)
        entry = self._waiting.pop(handle, None)
        self._broken.discard(handle)
        if entry is None:
            return
        outcome = event.message.outcome if isinstance(event.message, TransactionalState) else event.message
        self._give(entry, _refused(outcome, event.code, event.message) if event.code else event.message)

    def lost(self, error: Exception, *, final: bool) -> None:
        again: list[Entry] = []
        for handle, entry in self._waiting.items():
            if entry.given_up:
                continue
            if not (final or handle in self._broken or entry.fields.get("state") is not None):
                again.append(entry)
            else:
                connecting.fail(entry.future, error)  # it is not known whether it has arrived
        self._waiting.clear()
        self._broken.clear()
        if self._aborted is not None:
            self._aborted = self._stream = None
        self._queue.extendleft(reversed(again))
        self._draining = False
        super().lost(error, final=final)
        if final:
            for entry in self._queue:
                connecting.fail(entry.future, error)
            self._queue.clear()
        if self._capacity is not None and not self._capacity.done():
            self._capacity.set_result(None)


class Earlier(Sender):
    """Sends the messages of an earlier process in the journal for one target. Other senders of the target wait until it ends."""

    def __init__(self, client: Parent, name: str, target: Any) -> None:
        super().__init__(client, name, target, None, False, {})
        client._earlier[encode_value(target)] = self

    def add(self, record: Record) -> None:
        fields: dict[str, Any] = {"message_format": record.message_format}
        if record.delivery_tag is not None:
            fields["delivery_tag"] = record.delivery_tag
        future: asyncio.Future[State] = asyncio.get_running_loop().create_future()
        future.add_done_callback(self._count)
        entry = Entry(record.payload, fields, future)
        entry.number = record.number
        self._queue.append(entry)

    def _count(self, future: asyncio.Future[State]) -> None:
        if future.exception() is not None and self.error is None:
            self.client.lost += 1

    def acknowledged(self, event: Acknowledged) -> None:
        super().acknowledged(event)
        if not self._queue and not self._waiting:
            self.leave()
            self._release()

    def lost(self, error: Exception, *, final: bool) -> None:
        super().lost(error, final=final)
        if final:
            self._release()

    def _release(self) -> None:
        if self.client._earlier.pop(encode_value(self._target), None) is not None:
            self.client._pump()


class Transaction:
    """A local transaction (part 4): `async with client.transaction() as transaction`. Leaving the block commits it, an
    exception rolls it back.

    Args:
        coordinator: gives the link to the server's coordinator.

    Attributes:
        txn_id: what the server calls it.
    """

    def __init__(self, coordinator: Callable[[], Awaitable[Sender]]) -> None:
        self._coordinator = coordinator
        self._controller: Sender | None = None
        self.txn_id = b""

    async def __aenter__(self) -> Self:
        controller = self._controller = await self._coordinator()
        declared = await controller.send(Message(body=AmqpValue(Declare())), settled=False)
        if not isinstance(declared, Declared) or declared.txn_id is None:
            raise Refused("the coordinator has not declared a transaction", message=declared)
        self.txn_id = bytes(declared.txn_id)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._controller is not None  # the one that has declared it (4.3)
        body = AmqpValue(Discharge(txn_id=self.txn_id, fail=kind is not None))
        await self._controller.send(Message(body=body), settled=False)

    def state(self) -> TransactionalState:
        """The state of a message that is posted in it."""
        return TransactionalState(txn_id=self.txn_id)


async def _cut(parts: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in parts of at most PART."""
    if isinstance(parts, AsyncIterable):
        async for part in parts:
            for at in range(0, len(part), PART):
                yield part[at : at + PART]
    else:
        for part in parts:
            for at in range(0, len(part), PART):
                yield part[at : at + PART]


def _refused(outcome: Any, code: int, message: Any) -> Refused:
    error = getattr(outcome, "error", None)
    why = f": {error.condition} {error.description or ''}" if error is not None else ""
    assert code in CODES.values()
    return Refused(f"the message is {type(outcome).__name__.lower()}{why}", code, message)
