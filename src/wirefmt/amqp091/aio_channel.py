"""Channels of an AMQP 0.9.1 client on asyncio: calls, publishing with confirms, consumers, transactions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication
from wirefmt.amqp091.channel import text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.consumer import Consumer, Message
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.amqp091.topology import Topology
from wirefmt.connection import client as connecting
from wirefmt.connection.recovery import OnRefused
from wirefmt.errors import ConnectionLost, LocalProtocolError

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

    from wirefmt.amqp091.client import Client, Link
    from wirefmt.amqp091.requester import Requester


class Batch:
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


class Channel:
    """A channel of a client, made by `Client.channel`.

    Its methods have the names and arguments of AMQP's; `call` sends any other one. A call that is refused by the server closes
    the channel (AMQP): it raises Refused with the code, and so do all later calls.

    Every coroutine can be cancelled; the channel stays usable. A call that is cancelled after its method has been sent takes
    nothing back, except `get` and `consume`, whose messages go back to the queue.
    """

    def __init__(self, client: Client, confirms: bool, prefetch: int) -> None:
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
        self._requester: Requester | None = None

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
        return await self._client._reply(link, handle)

    async def _remove(self, cls: type[Any], **fields: Any) -> Any:
        """Let the server remove something, while no restoration is about to declare it."""
        while True:
            view = await self._ready()
            async with self._topology.asking:
                if self._view is view:
                    return await self._send(view, cls, fields)

    async def _ready(self) -> ClientChannel:
        while True:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise LocalProtocolError("the channel is closed")
            await self._client._connection()
            if self._view is not None and self._view.state in (ChannelState.OPENING, ChannelState.OPEN):
                return self._view
            await self._client._progress()  # its end has not been handled yet

    async def declare_exchange(
        self, exchange: str, type: str = "direct", *, on_refused: OnRefused | None = None, **fields: Any
    ) -> None:
        """exchange.declare: `durable`, `auto_delete`, `internal`, `passive`, `arguments`. Restored with `reconnect`.

        `on_refused` says what to do if the server refuses it then: "retry", "skip" (until the next connection), "fail" (for
        good); None: retry if the cause can pass, else fail. The same for queues, bindings and consumers.
        """
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
                await self._client._reply(link, view.recover())

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
            ConnectionLost: the connection has ended, and it is not known whether the server has the message.
            LocalProtocolError: it cannot be sent.
            JournalError: the journal cannot keep it. It was not sent.
        """
        await self.publish_many([(body, exchange, routing_key, properties, mandatory)])

    async def publish_many(
        self, messages: Iterable[tuple[Buffer | str, str, str, amqp091.BasicProperties | None, bool]]
    ) -> None:
        """Publish messages, and wait once for all of their confirms. Each is (body, exchange, routing_key, properties,
        mandatory). Raises as `publish` for the first one that fails, after all have been answered."""
        client = self._client
        loop = asyncio.get_running_loop()
        batch = Batch(loop.create_future())
        try:
            for body, exchange, routing_key, properties, mandatory in messages:
                if self._error is not None:
                    raise self._error
                if self._closed or client._ended or client._closing:
                    raise client._error or LocalProtocolError("the channel is closed")
                client._check_journal()
                data = body.encode() if isinstance(body, str) else body
                self._queue.append(Entry((exchange, routing_key, data, properties, mandatory), batch))
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
        """Send the messages that wait, while the windows and the transport allow it."""
        view, link = self._view, self._client._link
        if view is None or link is None:
            return
        queue, again = self._queue, self._again
        if not again and self._client._left_first(self):
            return
        sends_again, sent = bool(again), False
        while (queue or again) and link.driver.ready:
            if again:
                if self._one_by_one and view.unconfirmed:
                    break
                if not view.send_quota:
                    view._full = True
                    break
                publication = again.popleft()
                if self._client.session.outgoing.get(publication.number) is not publication:
                    continue  # it has been given up
                try:
                    view.resend(publication)
                except LocalProtocolError as error:
                    self._client._settle(publication, error)
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
                self._client._entries[made] = (self, entry)
        if sent:
            link.driver.update()
        if sends_again and not again and self is self._client._left:
            self._client._pump()  # others have waited for it
        self._client._check_reading()
        self._client._note_progress()

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

        answer = await self._client._reply(link, handle, too_late)
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
        client._note_progress()
        if view is None or link is None:
            client._settle_all(self, ConnectionLost("the channel was closed"))
            return
        closings = []
        for each in (view, *self._beside):
            if each.state is ChannelState.OPEN and link.connection.state is State.OPEN:
                closed = client._closings[each] = asyncio.get_running_loop().create_future()
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
        self._client._settle_all(self, error)
        link = self._client._link
        for beside in self._beside:
            if link is not None and beside.state is ChannelState.OPEN:
                link.driver.update(beside.close())
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer._end(error)
            consumer._forget()
        self._client._note_progress()

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
