"""The push consumer of RocketMQ on asyncio: it polls the queues that are its share, and calls a listener with each message."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused, check_choice
from wirefmt.rocketmq._codec import (
    ConsumerData,
    ConsumerSendMsgBackRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerListByGroupResponseBody,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageExt,
    SubscriptionData,
    UnlockBatchRequestBody,
    encode_json,
)
from wirefmt.rocketmq.asked import direct_body, named, reset_offsets, running_body, status_body
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.pull_consumer import PullConsumer
from wirefmt.rocketmq.remote import PASSING, check
from wirefmt.rocketmq.routes import Queue
from wirefmt.rocketmq.spec import RETRY_PREFIX, VERSIONS
from wirefmt.rocketmq.subscriptions import Expression, Sql, allocate, retry_topic, subscription

if TYPE_CHECKING:
    from typing import Self

    from wirefmt.rocketmq.client import Client

# Request codes

#: Seconds of a long poll, as of the real client.
POLL_TIME: Final = 15.0

Model = Literal["clustering", "broadcasting"]
Begin = Literal["last", "first"]

Listener = Callable[[MessageExt], Awaitable[bool | None] | bool | None]


class _Work:
    """A queue of ours: what was pulled and is not consumed yet. Times are seconds since 1970."""

    def __init__(self, queue: Queue, offset: int) -> None:
        self.queue = queue
        self.next = offset  # where to pull
        self.open: dict[
            int, tuple[int, int]
        ] = {}  # number of arrival -> offset, octets: what is not consumed, in order
        self.arrivals = 0
        self.committed = offset  # all offsets below it are consumed
        self.stored = offset  # the offset that was reported
        self.dropped = False
        self.locked = False
        self.locked_at = self.pulled_at = self.consumed_at = 0.0
        self.capacity = asyncio.Event()
        self.capacity.set()
        self.task: asyncio.Task[None] | None = None

    def came(self, message: MessageExt) -> int:
        """Add a pulled message. Returns its number of arrival."""
        self.arrivals += 1
        self.open[self.arrivals] = (message.queue_offset, len(message.body or b""))
        return self.arrivals

    def done(self, number: int) -> None:
        """Remove a consumed message."""
        self.open.pop(number, None)
        self.advance()

    def advance(self) -> None:
        """`committed` never goes back, and skips nothing that is open."""
        reached = min(next(iter(self.open.values()))[0], self.next) if self.open else self.next
        self.committed = max(self.committed, reached)

    def info(self) -> dict[str, Any]:
        """The queue as ProcessQueueInfo has it."""
        offsets = [offset for offset, _ in self.open.values()]
        return {
            "commitOffset": self.committed,
            "cachedMsgMinOffset": min(offsets, default=0),
            "cachedMsgMaxOffset": max(offsets, default=0),
            "cachedMsgCount": len(offsets),
            "cachedMsgSizeInMiB": sum(octets for _, octets in self.open.values()) >> 20,
            "transactionMsgMinOffset": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgCount": 0,
            "locked": self.locked,
            "tryUnlockTimes": 0,
            "lastLockTimestamp": int(self.locked_at * 1000),
            "droped": self.dropped,  # codespell:ignore droped
            "lastPullTimestamp": int(self.pulled_at * 1000),
            "lastConsumeTimestamp": int(self.consumed_at * 1000),
        }


class PushConsumer:
    """Calls a listener with each message. `Client.push_consumer` makes it; `async with` starts and closes it.

    It shares the queues of its topics with the other members of its group, as the real client does. It polls its queues, and
    stores the offset up to which all messages are consumed. A message that the listener refuses (returns False or raises) is
    delivered again later by the group's retry topic; after `most_attempts` retries it goes to the dead letters. An orderly
    consumer retries it before the other messages of its queue. A broadcasting consumer drops it.

    Args:
        client: the client.
        consumers: those of the client that have begun, by group.
        group: the consumer group. One client has one consumer of a group.
        subscriptions: topic -> tags, as "a || b"; "*": all; or `Sql`.
        listener: called with each message; it may be a coroutine function.
        model: "clustering": the members share the queues. "broadcasting": each has them all, and keeps its own offsets.
        orderly: True: the messages of a queue one after the other, under a lock of the broker.
        begin: where to start in a queue without a stored offset: "last" (after its last message), "first", or seconds since
            1970. Retry topics start at their first message.
        workers: messages that are consumed at the same time; orderly: one of each queue.
        batch: messages of one pull.
        cached: messages of one queue that are pulled and not consumed; above it pulling stops.
        most_attempts: retries of one message before it goes to the dead letters, as maxReconsumeTimes of the real client.
        poll_time: seconds of a long poll.
        rebalance_interval, store_interval, lock_interval, pause: seconds between rebalances, between stores of offsets, between
            renewals of locks, and after a failure.
        offsets: of a broadcasting consumer: offsets by queue, read at the start and written as messages are consumed.

    Attributes:
        assigned: the queues that are ours now.
        failed: messages that were refused by the listener.
        dropped: messages of a broadcasting consumer that were refused and dropped.
    """

    def __init__(
        self,
        client: Client,
        consumers: dict[str, PushConsumer],
        group: str,
        subscriptions: Mapping[str, Expression],
        listener: Listener,
        *,
        model: Model = "clustering",
        orderly: bool = False,
        begin: Begin | float = "last",
        workers: int = 20,
        batch: int = 32,
        cached: int = 1000,
        most_attempts: int = 16,
        poll_time: float = POLL_TIME,
        rebalance_interval: float = 20.0,
        store_interval: float = 5.0,
        lock_interval: float = 20.0,
        pause: float = 1.0,
        offsets: dict[Queue, int] | None = None,
    ) -> None:
        check_choice("model", model, Model)
        if not isinstance(begin, (int, float)):
            check_choice("begin", begin, Begin)
        self.client = client
        self._consumers = consumers
        self.group = group
        self.failed = 0
        self.dropped = 0
        self.offsets = offsets if offsets is not None else {}
        self._version = int(time.time() * 1000)
        self._subscriptions: dict[str, Expression] = dict(subscriptions)
        self._clustering = model == "clustering"
        if self._clustering:
            self._subscriptions[retry_topic(group)] = "*"
        self._listener = listener
        self._orderly = orderly
        self._begin = begin
        self._workers = workers
        self._batch = batch
        self._cached = cached
        self._most_attempts = most_attempts
        self._poll_time = poll_time
        self._intervals = (rebalance_interval, store_interval, lock_interval)
        self._pause = pause
        self._pull = PullConsumer(client, group)
        self._works: dict[Queue, _Work] = {}
        self._inbox: asyncio.Queue[tuple[_Work, int, MessageExt]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._again = asyncio.Event()
        self._closed = False
        self._started = 0.0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def assigned(self) -> tuple[Queue, ...]:
        return tuple(sorted(self._works))

    def data(self) -> ConsumerData:
        """The consumer as heartbeats have it."""
        return ConsumerData(
            group_name=self.group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING" if self._clustering else "BROADCASTING",
            consume_from_where={"last": "CONSUME_FROM_LAST_OFFSET", "first": "CONSUME_FROM_FIRST_OFFSET"}.get(
                str(self._begin), "CONSUME_FROM_TIMESTAMP"
            ),
            subscription_data_set=self._wanted(),
            unit_mode=False,
        )

    def _wanted(self) -> list[SubscriptionData]:
        return [subscription(topic, wanted, self._version) for topic, wanted in self._subscriptions.items()]

    async def start(self) -> None:
        """Join the group and begin.

        Raises:
            LocalProtocolError: the client has a consumer of the group.
            Refused: with code 23: a broker cannot parse a filter expression.
            ConnectionLost: no broker is reached, or the consumer was closed meanwhile.
        """
        if self._tasks or self.group in self._consumers:
            raise LocalProtocolError(f"there is a consumer of the group {self.group}")
        self._consumers[self.group] = self
        try:
            await self._check_expressions()
            await self.client.greet_all(self._subscriptions)
            if self._closed:
                raise ConnectionLost("the consumer was closed")
        except BaseException:
            if self._consumers.get(self.group) is self:
                del self._consumers[self.group]
            raise
        self._started = time.time()
        spawn = self.client.spawn
        rebalance, store, lock = self._intervals
        self._tasks = [spawn(self._rebalance(rebalance)), spawn(self._every(store, self._store))]
        if self._orderly:
            self._tasks.append(spawn(self._every(lock, self._lock_all)))
        else:
            self._tasks += [spawn(self._work()) for _ in range(self._workers)]

    async def _check_expressions(self) -> None:
        """Let a broker of each topic parse the filter expression, as the real client does."""
        for topic, wanted in self._subscriptions.items():
            if not isinstance(wanted, Sql):
                continue
            route = await self.client.write_route(topic)
            if not route.brokers:
                raise ConnectionLost(f"no broker of topic {topic} is known")
            body = b'{"clientId":%s,"group":%s,"subscriptionData":%s}' % (
                encode_json(self.client.client_id),
                encode_json(self.group),
                subscription(topic, wanted, self._version).encode(),
            )
            remote = await self.client.broker(min(route.brokers), topic, any_of=True)
            check(await remote.call(RequestCode.CHECK_CLIENT_CONFIG, None, body))

    async def close(self) -> None:
        """Stop, store offsets, unlock, and leave the group. Messages that the listener has not finished are delivered again."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        works, self._works = list(self._works.values()), {}
        for work in works:
            await self._drop(work)
        if self._consumers.get(self.group) is self:
            del self._consumers[self.group]
        await self.client.leave(consumer=self.group)

    def rebalance_soon(self) -> None:
        """Rebalance now."""
        self._again.set()

    # ---- which queues

    async def _rebalance(self, interval: float) -> None:
        while True:
            self._again.clear()
            for topic in self._subscriptions:
                try:
                    await self._rebalance_topic(topic)
                except PASSING:
                    continue  # next time
            try:
                async with asyncio.timeout(interval):
                    await self._again.wait()
            except TimeoutError:
                continue

    async def _rebalance_topic(self, topic: str) -> None:
        try:
            queues: Sequence[Queue] = (await self.client.route(topic)).read
        except Refused as refused:
            if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            queues = ()  # the topic does not exist; a retry topic is created with its first message
        if self._clustering and queues:
            queues = allocate(queues, await self._members(topic, queues), self.client.client_id)
        for queue, work in list(self._works.items()):
            if queue.topic == topic and queue not in queues:
                del self._works[queue]
                await self._drop(work)
        wanted = [queue for queue in queues if queue not in self._works]
        if self._orderly and self._clustering and wanted:
            wanted = await self._lock(wanted)
        for queue in wanted:
            try:
                work = _Work(queue, await self._first_offset(queue))
            except PASSING:
                continue  # next time; queues of other brokers go on
            work.locked = True
            work.locked_at = time.time()
            self._works[queue] = work
            work.task = self.client.spawn(self._poll(work))

    async def _members(self, topic: str, queues: Sequence[Queue]) -> list[str]:
        """The members of the group, as the first broker knows them that answers."""
        header = GetConsumerListByGroupRequestHeader(consumer_group=self.group)
        brokers = sorted({queue.broker for queue in queues}, key=lambda name: (self.client.resting(name, topic), name))
        for name in brokers:
            try:
                remote = await self.client.broker(name, topic)
                response = check(await remote.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header))
                break
            except PASSING:
                if name == brokers[-1]:
                    raise
        body = GetConsumerListByGroupResponseBody.decode(response.body_bytes() or b"{}")
        return sorted(body.consumer_id_list or ())

    async def _first_offset(self, queue: Queue) -> int:
        stored = await self._pull.offset(queue) if self._clustering else self.offsets.get(queue)
        if stored is not None:
            return stored
        if queue.topic.startswith(RETRY_PREFIX) or self._begin == "first":
            return 0
        if self._begin == "last":
            return await self._pull.max_offset(queue)
        return await self._pull.search(queue, float(self._begin))

    async def _drop(self, work: _Work) -> None:
        """Release a queue: stop polling it, store its offset, unlock it."""
        work.dropped = True
        if work.task is not None and work.task is not asyncio.current_task():
            work.task.cancel()
            await asyncio.gather(work.task, return_exceptions=True)
        try:
            await self._store_one(work, dropped=True)
            if self._orderly and self._clustering:
                body = UnlockBatchRequestBody(
                    consumer_group=self.group, client_id=self.client.client_id, mq_set=[named(work.queue)]
                )
                remote = await self.client.broker(work.queue.broker, work.queue.topic)
                await remote.call(RequestCode.UNLOCK_BATCH_MQ, None, body.encode())
        except PASSING:
            pass  # another member begins at the offset stored last

    async def _lock(self, queues: Sequence[Queue]) -> list[Queue]:
        """Lock queues. Returns those that we have."""
        locked: list[Queue] = []
        for broker in sorted({queue.broker for queue in queues}):
            asked = [queue for queue in queues if queue.broker == broker]
            body = LockBatchRequestBody(
                consumer_group=self.group,
                client_id=self.client.client_id,
                mq_set=[named(queue) for queue in asked],
            )
            try:
                remote = await self.client.broker(broker, asked[0].topic)
                response = check(await remote.call(RequestCode.LOCK_BATCH_MQ, None, body.encode()))
            except PASSING:
                continue
            answer = LockBatchResponseBody.decode(response.body_bytes() or b"{}")
            got = {(q.topic, q.broker_name, q.queue_id) for q in answer.lock_okmqset or ()}
            locked += [queue for queue in asked if tuple(queue) in got]
        return locked

    async def _lock_all(self) -> None:
        works = dict(self._works)
        locked = set(await self._lock(list(works))) if works and self._clustering else set(works)
        for queue, work in works.items():
            work.locked = queue in locked
            if work.locked:
                work.locked_at = time.time()

    # ---- messages

    async def _poll(self, work: _Work) -> None:
        """Pull messages of a queue while it is ours."""
        queue = work.queue
        expression = self._subscriptions[queue.topic]
        while not work.dropped:
            if len(work.open) >= self._cached:
                work.capacity.clear()
                await work.capacity.wait()
            if not work.locked:
                await asyncio.sleep(self._pause)
                continue
            try:
                await self.client.broker(queue.broker, queue.topic, any_of=True)  # the offset is read when it is sent
                committed = work.committed if self._clustering else 0
                result = await self._pull.pull(
                    queue,
                    work.next,
                    self._batch,
                    expression=expression,
                    wait=self._poll_time,
                    commit=committed,
                    version=self._version,
                    subscribed=True,
                )
            except PASSING:
                await asyncio.sleep(self._pause)
                continue
            if committed > 0:  # otherwise the pull does not carry it
                work.stored = max(work.stored, committed)
            if result.status == "OFFSET_ILLEGAL":
                work.next = result.next_offset
                work.open.clear()
                work.committed = work.next
                work.stored = -1  # report it, even if it is lower
                continue
            work.pulled_at = time.time()
            work.next = max(work.next, result.next_offset)
            numbered = [(work.came(message), message) for message in result.messages]
            work.advance()
            for number, message in numbered:
                if self._orderly:
                    await self._consume_in_order(work, number, message)
                else:
                    self._inbox.put_nowait((work, number, message))

    async def _work(self) -> None:
        while True:
            work, number, message = await self._inbox.get()
            if work.dropped or number not in work.open:
                continue  # it is another member's now, or the offset was reset
            if not await self._listen(message) and not await self._send_back(work, message):
                self.client.spawn(self._again_later(work, number, message))
                continue
            self._finish(work, number)

    async def _again_later(self, work: _Work, number: int, message: MessageExt) -> None:
        """Try a message again that could neither be consumed nor sent back."""
        await asyncio.sleep(self._pause * 5)
        self._inbox.put_nowait((work, number, message))

    async def _consume_in_order(self, work: _Work, number: int, message: MessageExt) -> None:
        attempts = message.reconsume_times
        while not work.dropped and number in work.open:
            if not work.locked:
                await asyncio.sleep(self._pause)
                continue
            if await self._listen(message):
                break
            if attempts >= self._most_attempts and await self._send_back(work, message, attempts):
                break
            attempts += 1
            await asyncio.sleep(self._pause)
        else:
            return
        self._finish(work, number)

    def _finish(self, work: _Work, number: int) -> None:
        work.consumed_at = time.time()
        if not work.dropped:
            work.done(number)
            if not self._clustering:
                self.offsets[work.queue] = work.committed
            work.capacity.set()

    async def _listen(self, message: MessageExt) -> bool:
        """True: consumed."""
        try:
            consumed = await self._call(message)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "a listener raised", "exception": error})
            consumed = False
        self.failed += not consumed
        return consumed

    async def _call(self, message: MessageExt) -> bool:
        result = self._listener(_as_sent(message))
        if inspect.isawaitable(result):
            result = await result
        return result is not False

    async def _send_back(self, work: _Work, message: MessageExt, attempts: int | None = None) -> bool:
        """Ask the broker to deliver a message again, later, or to put it to the dead letters. False: it has not."""
        if not self._clustering:
            self.dropped += 1
            return True
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.physical_offset,
            group=self.group,
            delay_level=0 if attempts is None else -1,  # 0: the broker chooses; -1: the dead letters
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            unit_mode=False,
            max_reconsume_times=self._most_attempts,
            bname=work.queue.broker,
        )
        try:
            remote = await self.client.broker(work.queue.broker, work.queue.topic)
            check(await remote.call(RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=5.0))
        except PASSING:
            return False
        return True

    # ---- offsets

    async def _store(self) -> None:
        for work in list(self._works.values()):
            try:
                await self._store_one(work)
            except PASSING:
                continue  # next time; those of other brokers are stored

    async def _store_one(self, work: _Work, *, dropped: bool = False) -> None:
        """Report our offset to the broker. It never goes back, except after a reset.

        `dropped`: the queue is given up. Its offset is another member's from then on.
        """
        if not self._clustering or work.committed <= work.stored:
            return
        await self.client.broker(work.queue.broker, work.queue.topic)  # the offset is read when it is sent
        offset = work.committed
        if offset > work.stored and work.dropped is dropped:
            await self._pull.commit_oneway(work.queue, offset)
            work.stored = max(work.stored, offset)

    # ---- what brokers ask

    def reset(self, body: bytes) -> None:
        """RESET_CONSUMER_CLIENT_OFFSET (220): go on at other offsets. They are reported even if no message comes."""
        for queue, offset in reset_offsets(body).items():
            work = self._works.pop(queue, None)
            if work is not None:
                work.dropped = True
                if work.task is not None:
                    work.task.cancel()
                fresh = _Work(queue, offset)
                fresh.locked, fresh.locked_at = work.locked, work.locked_at
                fresh.stored = -1
                self._works[queue] = fresh
                fresh.task = self.client.spawn(self._poll(fresh))

    def status(self, topic: str) -> bytes:
        """GET_CONSUMER_STATUS_FROM_CLIENT (221): our offsets of a topic."""
        return status_body({queue: work.committed for queue, work in self._works.items() if queue.topic == topic})

    def running_info(self) -> bytes:
        """GET_CONSUMER_RUNNING_INFO (307): what this consumer is and does."""
        properties = {
            "PROP_NAMESERVER_ADDR": "".join(f"{name};" for name in self.client.names),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": VERSIONS.get(self.client.version, str(self.client.version)),
            "PROP_CONSUMEORDERLY": str(self._orderly).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self._workers),
            "PROP_CONSUMER_START_TIMESTAMP": str(int(self._started * 1000)),
            "consumerGroup": self.group,
            "messageModel": "CLUSTERING" if self._clustering else "BROADCASTING",
        }
        return running_body(properties, self._wanted(), {queue: work.info() for queue, work in self._works.items()})

    async def consume_directly(self, message: MessageExt) -> bytes:
        """CONSUME_MESSAGE_DIRECTLY (309): call the listener with a message, whatever it says. Offsets stay as they are."""
        begin, remark = time.monotonic(), None
        try:
            result = "CR_SUCCESS" if await self._call(message) else "CR_LATER"
        except Exception as error:
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        return direct_body(result, orderly=self._orderly, seconds=time.monotonic() - begin, remark=remark)

    async def _every(self, seconds: float, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await call()
            except PASSING:
                continue


def _as_sent(message: MessageExt) -> MessageExt:
    """The message with the topic to which it was sent, if it was delivered by a retry topic."""
    origin = (message.properties or {}).get("RETRY_TOPIC")
    if origin is None or not message.topic.startswith(RETRY_PREFIX):
        return message
    fields = {name: getattr(message, name) for name in MessageExt.__match_args__ if name != "version"}
    return MessageExt(**{**fields, "topic": origin})
