"""Consumers of RocketMQ on asyncio: push (which polls, too, but by itself), pull and pop."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wirefmt.errors import ConnectionLost, DecodeError, LocalProtocolError, Refused
from wirefmt.rocketmq._codec import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    ConsumerData,
    ConsumerSendMsgBackRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerListByGroupResponseBody,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageExt,
    MessageQueue,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    RemotingCommand,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    SubscriptionData,
    UnlockBatchRequestBody,
    UpdateConsumerOffsetRequestHeader,
    decode_extra_info,
    decode_messages,
    decode_start_offset_info,
    encode_extra_info,
    hash_code,
)
from wirefmt.rocketmq.client import Client, Queue, check
from wirefmt.rocketmq.spec import ExtraInfo

if TYPE_CHECKING:
    from typing import Self

# Request codes
PULL_MESSAGE: Final = 11
QUERY_CONSUMER_OFFSET: Final = 14
UPDATE_CONSUMER_OFFSET: Final = 15
SEARCH_OFFSET: Final = 29
GET_MAX_OFFSET: Final = 30
GET_MIN_OFFSET: Final = 31
CONSUMER_SEND_MSG_BACK: Final = 36
GET_CONSUMER_LIST: Final = 38
LOCK_BATCH_MQ: Final = 41
UNLOCK_BATCH_MQ: Final = 42
POP_MESSAGE: Final = 200050
ACK_MESSAGE: Final = 200051
CHANGE_INVISIBLE_TIME: Final = 200053

# Response codes
NOT_FOUND, RETRY_IMMEDIATELY, OFFSET_MOVED, QUERY_NOT_FOUND = 19, 20, 21, 22
POLLING_FULL, POLLING_TIMEOUT = 209, 210

# Bits of a pull's sysFlag
COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4

#: Seconds of a long poll, and how much longer we wait for its response. The real client: 15 and 15.
POLL_TIME: Final = 15.0
POLL_MARGIN: Final = 15.0

Listener = Callable[[MessageExt], Awaitable[bool | None] | bool | None]
PullStatus = Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]
_STATUS: Final[dict[int, PullStatus]] = {
    0: "FOUND",
    NOT_FOUND: "NO_NEW_MSG",
    RETRY_IMMEDIATELY: "NO_MATCHED_MSG",
    OFFSET_MOVED: "OFFSET_ILLEGAL",
}


def retry_topic(group: str) -> str:
    """Where messages of a group come again that it has failed to consume."""
    return f"%RETRY%{group}"


def tags_of(expression: str) -> tuple[str, ...]:
    """The tags that an expression like "a || b" names; none: all messages."""
    if expression.strip() in ("", "*"):
        return ()
    return tuple(tag for part in expression.split("||") if (tag := part.strip()))


def subscription(topic: str, expression: str, version: int) -> SubscriptionData:
    """A subscription as heartbeats have it."""
    tags = tags_of(expression)
    return SubscriptionData(
        class_filter_mode=False,
        topic=topic,
        sub_string=expression if tags else "*",
        tags_set=list(tags),
        code_set=[hash_code(tag) for tag in tags],
        sub_version=version,
        expression_type="TAG",
    )


def allocate(queues: Sequence[Queue], members: Sequence[str], member: str) -> list[Queue]:
    """The queues of one member of a group: contiguous parts of equal size, as the real client's default allocates them.

    All members give the same arguments in the same order, so that no queue has two of them.
    """
    if member not in members:
        return []
    index, rest = members.index(member), len(queues) % len(members)
    size = len(queues) // len(members)
    begin = index * size + min(index, rest)
    return list(queues[begin : begin + size + (index < rest)])


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a broker has answered to a pull.

    Attributes:
        status: "FOUND"; "NO_NEW_MSG"; "NO_MATCHED_MSG": go on at `next_offset`; "OFFSET_ILLEGAL": there is no such offset, go
            on at `next_offset`.
        messages: in the order of their offsets.
        next_offset: where to pull next.
        min_offset, max_offset: of the queue.
    """

    status: PullStatus
    messages: tuple[MessageExt, ...]
    next_offset: int
    min_offset: int
    max_offset: int


class PullConsumer:
    """Asks for messages of queues. `Client.pull_consumer` makes it. Offsets are the caller's until `commit`."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group

    async def queues(self, topic: str) -> tuple[Queue, ...]:
        """The queues of a topic that may be read. Raises Refused with code 17 if there is no such topic."""
        return (await self.client.route(topic)).read

    async def pull(
        self,
        queue: Queue,
        offset: int,
        count: int = 32,
        *,
        expression: str = "*",
        wait: float = 0.0,
        commit: int = 0,
        version: int = 0,
        subscribed: bool = False,
    ) -> PullResult:
        """Messages of a queue from an offset on.

        Args:
            queue, offset: where.
            count: how many at most; the broker may give fewer.
            expression: tags, as "a || b"; "*": all.
            wait: seconds that the broker may wait for a message.
            commit: an offset to store with it; 0: none.
            version: of the subscription.
            subscribed: True: the broker knows the subscription by our heartbeats.
        """
        remote = await self.client.broker(queue.broker, queue.topic, any_of=True)
        header = PullMessageRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=(COMMIT_OFFSET if commit > 0 else 0)
            | (SUSPEND if wait > 0 else 0)
            | (0 if subscribed else SUBSCRIPTION),
            commit_offset=commit,
            suspend_timeout_millis=int(wait * 1000),
            subscription=None if subscribed else expression,
            sub_version=version,
            expression_type="TAG",
            bname=queue.broker,
        )
        timeout = wait + POLL_MARGIN if wait > 0 else None
        response = check(await remote.call(PULL_MESSAGE, header, timeout=timeout), *_STATUS)
        answer = response.decode_header(PullMessageResponseHeader)
        messages: tuple[MessageExt, ...] = ()
        if response.code == 0:
            messages = decode_messages(response.body_bytes() or b"")
            tags = tags_of(expression)
            if tags:  # a broker filters by hash codes alone
                messages = tuple(m for m in messages if m.tags in tags)
        return PullResult(
            _STATUS[response.code], messages, answer.next_begin_offset, answer.min_offset, answer.max_offset
        )

    async def offset(self, queue: Queue) -> int | None:
        """The offset stored for the group; None: there is none."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
            bname=queue.broker,
        )
        remote = await self.client.broker(queue.broker, queue.topic)
        response = check(await remote.call(QUERY_CONSUMER_OFFSET, header), QUERY_NOT_FOUND)
        if response.code:
            return None
        return int(response.decode_header(QueryConsumerOffsetResponseHeader).offset)

    async def commit(self, queue: Queue, offset: int) -> None:
        """Store an offset for the group; return when the broker has it."""
        remote = await self.client.broker(queue.broker, queue.topic)
        check(await remote.call(UPDATE_CONSUMER_OFFSET, self._commit(queue, offset)))

    async def commit_oneway(self, queue: Queue, offset: int) -> None:
        """Store an offset for the group, without an answer, as the real push consumer does."""
        remote = await self.client.broker(queue.broker, queue.topic)
        await remote.tell(UPDATE_CONSUMER_OFFSET, self._commit(queue, offset))

    def _commit(self, queue: Queue, offset: int) -> UpdateConsumerOffsetRequestHeader:
        return UpdateConsumerOffsetRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker,
        )

    async def min_offset(self, queue: Queue) -> int:
        """The first offset that the queue still has."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker)
        response = await self._ask(queue, GET_MIN_OFFSET, header)
        return int(response.decode_header(GetMinOffsetResponseHeader).offset)

    async def max_offset(self, queue: Queue) -> int:
        """The offset of the next message that will be stored."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker)
        response = await self._ask(queue, GET_MAX_OFFSET, header)
        return int(response.decode_header(GetMaxOffsetResponseHeader).offset)

    async def search(self, queue: Queue, timestamp: float) -> int:
        """The offset of the first message stored at this time (seconds since 1970) or later."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=int(timestamp * 1000), bname=queue.broker
        )
        response = await self._ask(queue, SEARCH_OFFSET, header)
        return int(response.decode_header(SearchOffsetResponseHeader).offset)

    async def _ask(self, queue: Queue, code: int, header: Any) -> RemotingCommand:
        remote = await self.client.broker(queue.broker, queue.topic)
        return check(await remote.call(code, header))


@dataclass(frozen=True, slots=True)
class Popped:
    """A message that has been popped: it comes again after its invisible time, unless it is acknowledged.

    Attributes:
        message: the message.
        extra_info: what the broker wants back with the acknowledgement.
        topic: where it was popped; a retry topic, if it has come again.
    """

    message: MessageExt
    extra_info: str
    topic: str


class PopConsumer:
    """Asks for messages of a topic; the broker chooses the queues and counts deliveries. `Client.pop_consumer` makes it."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group

    async def pop(
        self,
        topic: str,
        count: int = 32,
        *,
        invisible: float = 60.0,
        wait: float = POLL_TIME,
        expression: str = "*",
        broker: str | None = None,
        queue_id: int = -1,
        earliest: bool = True,
    ) -> list[Popped]:
        """Messages of a topic at one broker.

        Args:
            topic: the topic.
            count: how many at most.
            invisible: seconds until they come again.
            wait: seconds that the broker may wait for a message.
            expression: tags, as "a || b"; "*": all.
            broker: its name; None: one of the route.
            queue_id: -1: all queues of the broker.
            earliest: where a new group begins: at the first message, or behind the last one.
        """
        if broker is None:
            route = await self.client.route(topic)
            broker = self.client.random.choice(sorted({queue.broker for queue in route.read}))
        remote = await self.client.broker(broker, topic)
        header = PopMessageRequestHeader(
            consumer_group=self.group,
            topic=topic,
            queue_id=queue_id,
            max_msg_nums=count,
            invisible_time=int(invisible * 1000),
            poll_time=int(wait * 1000),
            born_time=int(time.time() * 1000),
            init_mode=0 if earliest else 1,
            exp_type="TAG",
            exp=expression,
            order=False,
            bname=broker,
        )
        response = check(
            await remote.call(POP_MESSAGE, header, timeout=wait + POLL_MARGIN), NOT_FOUND, POLLING_FULL, POLLING_TIMEOUT
        )
        if response.code:
            return []
        answer = response.decode_header(PopMessageResponseHeader)
        begins = decode_start_offset_info(answer.start_offset_info or "")
        return [self._popped(m, answer, begins, broker) for m in decode_messages(response.body_bytes() or b"")]

    async def ack(self, popped: Popped) -> None:
        """Acknowledge a message. Raises Refused if its invisible time is over."""
        info = decode_extra_info(popped.extra_info)
        header = AckMessageRequestHeader(
            consumer_group=self.group,
            topic=popped.topic,
            queue_id=info.queue_id,
            extra_info=popped.extra_info,
            offset=_offset(info, popped.message),
            bname=info.broker_name,
        )
        remote = await self.client.broker(info.broker_name, self._routed(popped))
        check(await remote.call(ACK_MESSAGE, header))

    async def change_invisible(self, popped: Popped, seconds: float) -> Popped:
        """Set the invisible time anew, from now on. Returns what is acknowledged in place of `popped`."""
        info = decode_extra_info(popped.extra_info)
        offset = _offset(info, popped.message)
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group=self.group,
            topic=popped.topic,
            queue_id=info.queue_id,
            extra_info=popped.extra_info,
            offset=offset,
            invisible_time=int(seconds * 1000),
            bname=info.broker_name,
        )
        remote = await self.client.broker(info.broker_name, self._routed(popped))
        response = check(await remote.call(CHANGE_INVISIBLE_TIME, header))
        answer = response.decode_header(ChangeInvisibleTimeResponseHeader)
        again = encode_extra_info(
            info._replace(
                ck_offset=offset,
                pop_time=answer.pop_time,
                invisible_time=answer.invisible_time,
                revive_queue_id=answer.revive_qid,
                message_queue_offset=offset,
            )
        )
        return Popped(popped.message, again, popped.topic)

    def _routed(self, popped: Popped) -> str:
        """A topic with a route: retry topics of pop have none."""
        return (popped.message.properties or {}).get("RETRY_TOPIC") or popped.message.topic

    def _popped(
        self,
        message: MessageExt,
        answer: PopMessageResponseHeader,
        begins: Mapping[tuple[str, int], int],
        broker: str,
    ) -> Popped:
        given = (message.properties or {}).get("POP_CK")
        if given is None:
            retry = message.topic.startswith("%RETRY%")
            flags = ("1", "2") if retry else ("0",)
            flag = next((f for f in flags if (f, message.queue_id) in begins), flags[0])
            given = encode_extra_info(
                ExtraInfo(
                    begins.get((flag, message.queue_id), message.queue_offset),
                    answer.pop_time,
                    answer.invisible_time,
                    answer.revive_qid,
                    flag,
                    broker,
                    message.queue_id,
                    message.queue_offset,
                )
            )
        return Popped(message, given, message.topic)


def _offset(info: ExtraInfo, message: MessageExt) -> int:
    return message.queue_offset if info.message_queue_offset is None else info.message_queue_offset


class _Work:
    """A queue of ours: what has been pulled, and what of it is not consumed yet."""

    def __init__(self, queue: Queue, offset: int) -> None:
        self.queue = queue
        self.next = offset  # where to pull
        self.open: dict[int, int] = {}  # number of arrival -> offset: what is not consumed, in order
        self.arrivals = 0
        self.committed = offset  # the offset up to which all is consumed
        self.stored = offset  # what the broker has been told
        self.dropped = False
        self.locked = False
        self.room = asyncio.Event()
        self.room.set()
        self.task: asyncio.Task[None] | None = None

    def came(self, message: MessageExt) -> int:
        """A message has been pulled; the number by which it is known."""
        self.arrivals += 1
        self.open[self.arrivals] = message.queue_offset
        return self.arrivals

    def done(self, number: int) -> None:
        """A message has been consumed."""
        self.open.pop(number, None)
        self.advance()

    def advance(self) -> None:
        """`committed` never goes back, and skips nothing that is open."""
        reached = min(next(iter(self.open.values())), self.next) if self.open else self.next
        self.committed = max(self.committed, reached)


class PushConsumer:
    """Calls a listener with each message. `Client.push_consumer` makes it; `async with` starts and closes it.

    It shares the queues of its topics with the other members of its group, as the real client does, polls its queues, and
    stores offsets behind what is consumed. A message that the listener refuses (returns False or raises) comes again later by
    way of the group's retry topic, after `most_attempts` it goes to the dead letters; in an orderly consumer it comes again at
    once, before the others of its queue; a broadcasting one drops it.

    Args:
        client: the client.
        group: the consumer group. One client has one consumer of a group.
        subscriptions: topic -> tags, as "a || b"; "*": all.
        listener: called with each message; it may be a coroutine function.
        model: "clustering": the members share the queues. "broadcasting": each has them all, and keeps its own offsets.
        orderly: True: the messages of a queue one after the other, under a lock of the broker.
        begin: where a queue begins for which no offset is stored: "last" (behind its last message), "first", or seconds since
            1970. Retry topics begin at their first message.
        workers: messages that are consumed at the same time; orderly: one of each queue.
        batch: messages of one pull.
        cached: messages of one queue that are pulled and not consumed; above it pulling stops.
        most_attempts: deliveries of one message before it goes to the dead letters.
        poll_time: seconds of a long poll.
        rebalance_interval, store_interval, lock_interval, pause: seconds between rebalances, between two times that offsets are
            stored, between renewals of locks, and after a failure.
        offsets: of a broadcasting consumer: offsets by queue, read at the start and written as messages are consumed.

    Attributes:
        assigned: the queues that are ours now.
        failed: messages that were refused by the listener.
        dropped: messages of a broadcasting consumer that were refused, and so dropped.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        subscriptions: Mapping[str, str],
        listener: Listener,
        *,
        model: Literal["clustering", "broadcasting"] = "clustering",
        orderly: bool = False,
        begin: Literal["last", "first"] | float = "last",
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
        self.client = client
        self.group = group
        self.failed = 0
        self.dropped = 0
        self.offsets = offsets if offsets is not None else {}
        self._version = int(time.time() * 1000)
        self._subscriptions = dict(subscriptions)
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
            subscription_data_set=[subscription(t, e, self._version) for t, e in self._subscriptions.items()],
            unit_mode=False,
        )

    async def start(self) -> None:
        """Join the group and begin. Raises LocalProtocolError if the client has a consumer of the group."""
        if self._tasks or self.group in self.client._consumers:
            raise LocalProtocolError(f"there is a consumer of the group {self.group}")
        self.client._consumers[self.group] = self
        try:
            await self.client.greet_all(self._subscriptions)
        except BaseException:
            del self.client._consumers[self.group]
            raise
        spawn = self.client.spawn
        rebalance, store, lock = self._intervals
        self._tasks = [spawn(self._rebalance(rebalance)), spawn(self._every(store, self._store))]
        if self._orderly:
            self._tasks.append(spawn(self._every(lock, self._lock_all)))
        else:
            self._tasks += [spawn(self._work()) for _ in range(self._workers)]

    async def close(self) -> None:
        """Stop, store offsets, unlock, and leave the group. What the listener has not finished comes again, to another
        member."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        works, self._works = list(self._works.values()), {}
        for work in works:
            await self._drop(work)
        if self.client._consumers.get(self.group) is self:
            del self.client._consumers[self.group]
        await self.client.leave(consumer=self.group)

    def rebalance_soon(self) -> None:
        """See who has which queue, now."""
        self._again.set()

    # ---- which queues

    async def _rebalance(self, interval: float) -> None:
        while True:
            self._again.clear()
            for topic in self._subscriptions:
                try:
                    await self._rebalance_topic(topic)
                except (ConnectionLost, TimeoutError, Refused, DecodeError):
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
            if refused.code != 17:
                raise
            queues = ()  # there is no such topic: a retry topic begins with the first message that comes again
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
            work = _Work(queue, await self._first_offset(queue))
            work.locked = True
            self._works[queue] = work
            work.task = self.client.spawn(self._poll(work))

    async def _members(self, topic: str, queues: Sequence[Queue]) -> list[str]:
        remote = await self.client.broker(queues[0].broker, topic)
        header = GetConsumerListByGroupRequestHeader(consumer_group=self.group)
        response = check(await remote.call(GET_CONSUMER_LIST, header))
        body = GetConsumerListByGroupResponseBody.decode(response.body_bytes() or b"{}")
        return sorted(body.consumer_id_list or ())

    async def _first_offset(self, queue: Queue) -> int:
        stored = await self._pull.offset(queue) if self._clustering else self.offsets.get(queue)
        if stored is not None:
            return stored
        if queue.topic.startswith("%RETRY%") or self._begin == "first":
            return 0
        if self._begin == "last":
            return await self._pull.max_offset(queue)
        return await self._pull.search(queue, float(self._begin))

    async def _drop(self, work: _Work) -> None:
        """Give a queue up: nothing more of it is begun; its offset is stored, its lock given back."""
        work.dropped = True
        if work.task is not None and work.task is not asyncio.current_task():
            work.task.cancel()
            await asyncio.gather(work.task, return_exceptions=True)
        try:
            await self._store_one(work, dropped=True)
            if self._orderly and self._clustering:
                body = UnlockBatchRequestBody(
                    consumer_group=self.group, client_id=self.client.client_id, mq_set=[_named(work.queue)]
                )
                remote = await self.client.broker(work.queue.broker, work.queue.topic)
                await remote.call(UNLOCK_BATCH_MQ, None, body.encode())
        except (ConnectionLost, TimeoutError, Refused):
            pass  # another member begins at the offset stored last

    async def _lock(self, queues: Sequence[Queue]) -> list[Queue]:
        """Those of the queues whose lock we get."""
        locked: list[Queue] = []
        for broker in sorted({queue.broker for queue in queues}):
            asked = [queue for queue in queues if queue.broker == broker]
            body = LockBatchRequestBody(
                consumer_group=self.group,
                client_id=self.client.client_id,
                mq_set=[_named(queue) for queue in asked],
            )
            try:
                remote = await self.client.broker(broker, asked[0].topic)
                response = check(await remote.call(LOCK_BATCH_MQ, None, body.encode()))
            except (ConnectionLost, TimeoutError, Refused):
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

    # ---- messages

    async def _poll(self, work: _Work) -> None:
        """Pull messages of a queue, for as long as it is ours."""
        queue = work.queue
        expression = self._subscriptions[queue.topic]
        while not work.dropped:
            if len(work.open) >= self._cached:
                work.room.clear()
                await work.room.wait()
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
            except (ConnectionLost, TimeoutError, Refused, DecodeError):
                await asyncio.sleep(self._pause)
                continue
            if committed > 0:  # else the pull does not say it
                work.stored = max(work.stored, committed)
            if result.status == "OFFSET_ILLEGAL":
                work.next = result.next_offset
                work.open.clear()
                work.committed = work.next
                work.stored = -1  # the broker receives it, even if this goes back
                continue
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
        """It could neither be consumed nor sent back: it is tried again here."""
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
            attempts += 1
            if attempts >= self._most_attempts and await self._send_back(work, message, attempts):
                break
            await asyncio.sleep(self._pause)
        else:
            return
        self._finish(work, number)

    def _finish(self, work: _Work, number: int) -> None:
        if not work.dropped:
            work.done(number)
            if not self._clustering:
                self.offsets[work.queue] = work.committed
            work.room.set()

    async def _listen(self, message: MessageExt) -> bool:
        """True: consumed."""
        try:
            result = self._listener(_as_sent(message))
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler({"message": "a listener raised", "exception": error})
            result = False
        if result is False:
            self.failed += 1
            return False
        return True

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
            check(await remote.call(CONSUMER_SEND_MSG_BACK, header, timeout=5.0))
        except (ConnectionLost, TimeoutError, Refused):
            return False
        return True

    # ---- offsets

    async def _store(self) -> None:
        for work in list(self._works.values()):
            await self._store_one(work)

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

    def reset_or_status(self, request: RemotingCommand, topic: str) -> bytes | None:
        """RESET_CONSUMER_CLIENT_OFFSET (220): go on at other offsets. GET_CONSUMER_STATUS_FROM_CLIENT (221): our offsets."""
        if request.code == 221:
            table = ",".join(
                f"{_named(q).encode().decode()}:{work.committed}" for q, work in self._works.items() if q.topic == topic
            )
            return f'{{"messageQueueTable":{{{table}}}}}'.encode()
        for queue, offset in reset_offsets(request.body_bytes() or b"").items():
            work = self._works.pop(queue, None)
            if work is not None:
                work.dropped = True
                if work.task is not None:
                    work.task.cancel()
                fresh = _Work(queue, offset)
                fresh.locked = work.locked
                fresh.stored = -1  # the broker receives it even if nothing comes
                self._works[queue] = fresh
                fresh.task = self.client.spawn(self._poll(fresh))
        return None

    async def _every(self, seconds: float, call: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await call()
            except (ConnectionLost, TimeoutError, Refused):
                continue


#: A member of a map whose names are objects, as fastjson writes them.
_OBJECT_NAME: Final = re.compile(rb"\{([^{}]*)\}\s*:\s*(-?[0-9]+)")


def reset_offsets(body: bytes) -> dict[Queue, int]:
    """The offsets in the body of RESET_CONSUMER_CLIENT_OFFSET: a map whose names are objects, or (for C clients) a list.

    What cannot be read is left out.
    """
    found: dict[Queue, int] = {}
    for match in _OBJECT_NAME.finditer(body):
        try:
            members = json.loads(b"{" + match[1] + b"}")
            queue = Queue(str(members["topic"]), str(members["brokerName"]), int(members["queueId"]))
        except (ValueError, KeyError, TypeError):
            continue
        found[queue] = int(match[2])
    if not found:
        try:
            for item in json.loads(body)["offsetTable"]:
                queue = Queue(str(item["topic"]), str(item["brokerName"]), int(item["queueId"]))
                found[queue] = int(item["offset"])
        except (ValueError, KeyError, TypeError):
            pass
    return found


def _named(queue: Queue) -> MessageQueue:
    return MessageQueue(topic=queue.topic, broker_name=queue.broker, queue_id=queue.queue_id)


def _as_sent(message: MessageExt) -> MessageExt:
    """A message that has come again by a retry topic, with the topic it was sent to."""
    origin = (message.properties or {}).get("RETRY_TOPIC")
    if origin is None or not message.topic.startswith("%RETRY%"):
        return message
    fields = {name: getattr(message, name) for name in MessageExt.__match_args__ if name != "version"}
    return MessageExt(**{**fields, "topic": origin})
