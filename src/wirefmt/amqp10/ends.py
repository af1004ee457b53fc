"""The ends of links of an AMQP 1.0 client on asyncio: senders, receivers, transactions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Final

from wirefmt.amqp10._codec import (
    Accepted,
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Incoming,
    Message,
    Outgoing,
    Source,
    Target,
    TransactionalState,
    encode_value,
)
from wirefmt.amqp10.events import (
    CODES,
    Part,
    State,
)
from wirefmt.amqp10.journal import Record
from wirefmt.amqp10.sender import Sender as SenderLink
from wirefmt.amqp10.sessions import Session
from wirefmt.connection import client as connecting
from wirefmt.connection.contract import Acknowledged
from wirefmt.errors import ConnectionLost, JournalError, LocalProtocolError, Refused

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

    from wirefmt.amqp10.client import Client

#: Bytes of a part of a streamed message.
PART: Final = 1 << 16


class Entry:
    """A message of the host: it waits to be sent, or for its outcome."""

    __slots__ = ("fields", "future", "number", "payload")

    def __init__(self, payload: bytes, fields: dict[str, Any], future: asyncio.Future[Any]) -> None:
        self.payload = payload
        self.fields = fields
        self.future = future
        self.number: int | None = None  # in the journal

    @property
    def given_up(self) -> bool:
        """Nobody waits for it, and no journal has it."""
        return self.number is None and self.future.done()


class End:
    """One end of a link as the host has it. It outlives connections."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.link: Any = None  # the link of the connection that is up
        self.error: Exception | None = None  # why it is over
        self.ready: asyncio.Future[None] | None = None  # its attach is awaited
        self.closing: asyncio.Future[None] | None = None

    def attach(self, session: Session) -> None:
        raise NotImplementedError

    def attached(self) -> None:
        """The peer has answered."""
        if self.ready is not None and not self.ready.done():
            self.ready.set_result(None)

    def lost(self, error: Exception, *, final: bool) -> None:
        """The link is gone. `final`: it will not be attached again."""
        self.link = None
        if final:
            self.error = error
            self.client._ends.pop((self.name, isinstance(self, Sender)), None)
            if self.ready is not None:
                connecting.fail(self.ready, error)
            if self.closing is not None and not self.closing.done():
                self.closing.set_result(None)

    @property
    def source(self) -> Any:
        """The source as attached; None while there is no connection."""
        return self.link.source if self.link is not None else None

    @property
    def target(self) -> Any:
        """The target as attached; None while there is no connection."""
        return self.link.target if self.link is not None else None

    async def close(self, *, closed: bool = True) -> None:
        """Detach the link, and wait until the server has answered. closed: False keeps the terminus."""
        if self.error is not None:
            return
        link = self.link
        self.closing = asyncio.get_running_loop().create_future()
        if link is not None and link.attached:
            link.detach(closed=closed)
            self.client._update()
            await self.closing
        else:
            self.lost(ConnectionLost("the link is closed"), final=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.client.is_open:
            if kind is None:
                self.finish()
            await self.close()

    def finish(self) -> None:
        """The `async with` block ended without an exception: the last delivery counts as accepted."""

    def check(self) -> None:
        if self.error is not None:
            raise self.error
        if self.closing is not None:
            raise ConnectionLost("the link is closed")


class Sender(End):
    """A link that sends, made by `Client.sender`."""

    def __init__(
        self,
        client: Client,
        name: str,
        target: Any,
        source: Source | None,
        settled: bool | None,
        fields: dict[str, Any],
    ) -> None:
        super().__init__(client, name)
        self._target = Target(address=target) if isinstance(target, str) else target
        self._source = source
        self._settled = settled
        self._fields = fields
        self._queue: deque[Entry] = deque()  # not sent
        self._waiting: dict[Outgoing, Entry] = {}  # sent, in that order
        self._streaming: asyncio.Lock = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None  # a streamed message waits for the window
        self._broken: set[Outgoing] = set()

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
        async with self._streaming:
            self.check()
            cut = _cut(parts)
            held = await anext(cut, b"")  # one part is held back, since the last transfer says that it is the last
            while self._queue or self._held or self.link is None or not self.link.send_quota or not self.client._ready:
                await self._wait_room()
            link = self.link
            future: asyncio.Future[State] = asyncio.get_running_loop().create_future()
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
                    held = part
            except BaseException:
                if link.open is handle and link.attached and link.session.job is None:
                    link.abort(handle)
                    self._waiting.pop(handle, None)
                    self.client._update()
                raise
            await self._send_part(link, handle, held, more=False)
            if handle.settled and handle not in self._waiting and not future.done():
                return None
            return await future

    async def _send_part(self, link: SenderLink, handle: Outgoing, part: bytes, *, more: bool = True) -> None:
        while link.open is handle and (link.session.job is not None or not self.client._ready):
            await self._wait_room()
        if link.open is handle:  # else the receiver has settled it
            link.send_more(handle, part, more=more)
            self.client._update()

    async def _wait_room(self) -> None:
        self.check()
        if self._room is None or self._room.done():
            self._room = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._room)
        self.check()

    def pump(self) -> None:
        """Send what waits, as far as credit, window and transport allow."""
        link, queue = self.link, self._queue
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if link is None or self._held:
            return
        sent = False
        while queue and link.send_quota and self.client._ready:
            entry = queue.popleft()
            if entry.given_up:
                continue
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
        if link.draining and not queue and link.attached:
            link.drained()
            sent = True
        if sent:
            self.client._update()

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
        self._queue.extendleft(reversed(again))
        super().lost(error, final=final)
        if final:
            for entry in self._queue:
                connecting.fail(entry.future, error)
            self._queue.clear()
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


class Earlier(Sender):
    """Sends the messages of an earlier process in the journal for one target. Other senders of the target wait until it ends."""

    def __init__(self, client: Client, name: str, target: Any) -> None:
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
        if not self._queue and not self._waiting and self.link.attached:
            self.link.detach()
            self.closing = asyncio.get_running_loop().create_future()
            self._release()

    def lost(self, error: Exception, *, final: bool) -> None:
        super().lost(error, final=final)
        if final:
            self._release()

    def _release(self) -> None:
        if self.client._earlier.pop(encode_value(self._target), None) is not None:
            self.client._pump()


class Receiver(End):
    """A link that receives, made by `Client.receiver`: `async for delivery in receiver`.

    With `settle="automatic"` a delivery is accepted when the next one is asked for, or when the block of `async with` of
    the receiver or the client ends without an exception, unless it has been answered. A receiver
    with `streamed` gives `Part` objects before each delivery.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        source: Any,
        target: Any,
        credit: int,
        automatic: bool,
        streamed: bool,
        fields: dict[str, Any],
    ) -> None:
        super().__init__(client, name)
        self._source = source
        self._target = target
        self._credit = credit
        self._automatic = automatic
        self._streamed = streamed
        self._fields = fields
        self._inbox: deque[Incoming | Part] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._last: Incoming | None = None
        self._drained: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except ConnectionLost:
            if self.closing is not None:
                raise StopAsyncIteration from None
            raise

    def finish(self) -> None:
        last, self._last = self._last, None
        if last is not None and not last.decided and not last.settled:
            self.accept(last)

    async def receive(self) -> Any:
        """The next delivery. Raises what has ended the link."""
        self.finish()
        while not self._inbox:
            self.check()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._inbox.popleft()
        if self._automatic and isinstance(item, Incoming):
            self._last = item
        return item

    def accept(self, delivery: Incoming, *, transaction: Transaction | None = None) -> bool:
        """Accept a delivery. False: its link is gone, and the server delivers it again."""
        if transaction is not None:
            return self.settle(delivery, TransactionalState(txn_id=transaction.txn_id, outcome=Accepted()))
        return self._answer(delivery, lambda c: c.accept(delivery))

    def reject(self, delivery: Incoming, error: Error | None = None) -> bool:
        """Answer `rejected`: the message is invalid."""
        return self._answer(delivery, lambda c: c.reject(delivery, error))

    def release(self, delivery: Incoming) -> bool:
        """Answer `released`: the message was not processed and can be delivered again."""
        return self._answer(delivery, lambda c: c.release(delivery))

    def modify(self, delivery: Incoming, **fields: Any) -> bool:
        """Answer `modified`, with the fields `delivery_failed`, `undeliverable_here`, `message_annotations`."""
        return self._answer(delivery, lambda c: c.modify(delivery, **fields))

    def settle(self, delivery: Incoming, state: State, *, settled: bool | None = None) -> bool:
        """Answer with any state."""
        return self._answer(delivery, lambda c: c.settle(delivery, state, settled=settled))

    def _answer(self, delivery: Incoming, call: Any) -> bool:
        there: bool = delivery.link.attached
        call(delivery.link.session.connection)
        self.client._update()
        return there

    def grant(self, credit: int) -> None:
        """Set the credit: the number of messages that may arrive from now on. For receivers made with credit 0."""
        self.check()
        if self.link is None:
            raise ConnectionLost("there is no connection")
        self.link.grant(credit)
        self.client._update()

    async def drain(self) -> None:
        """Wait until the server has sent what it has for the credit given; then the credit is 0, or the window's again."""
        self.check()
        if self.link is None:
            raise ConnectionLost("there is no connection")
        if self._drained is None or self._drained.done():
            self._drained = asyncio.get_running_loop().create_future()
        self.link.drain()
        self.client._update()
        await asyncio.shield(self._drained)

    def attach(self, session: Session) -> None:
        self.link = session.receiver(
            self.name, self._source, self._target, window=self._credit, streamed=self._streamed, **self._fields
        )

    def arrive(self, item: Incoming | Part) -> None:
        self._inbox.append(item)
        self._wake()

    def drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def lost(self, error: Exception, *, final: bool) -> None:
        self._last = None
        if not final:  # they are delivered again
            self._inbox = deque(item for item in self._inbox if isinstance(item, Incoming) and item.transfer.settled)
        super().lost(error, final=final)
        if self._drained is not None:
            connecting.fail(self._drained, error)
        self._wake()


class Transaction:
    """A local transaction (part 4): `async with client.transaction() as transaction`. Leaving the block commits it, an
    exception rolls it back.

    Attributes:
        txn_id: what the server calls it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.txn_id = b""

    async def __aenter__(self) -> Self:
        controller = await self._client._coordinator()
        declared = await controller.send(Message(body=AmqpValue(Declare())), settled=False)
        if not isinstance(declared, Declared) or declared.txn_id is None:
            raise Refused("the coordinator has not declared a transaction", message=declared)
        self.txn_id = bytes(declared.txn_id)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        controller = await self._client._coordinator()
        body = AmqpValue(Discharge(txn_id=self.txn_id, fail=kind is not None))
        await controller.send(Message(body=body), settled=False)

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
