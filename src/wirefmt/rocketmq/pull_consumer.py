"""The pull consumer of RocketMQ on asyncio: it asks for messages of a queue; the caller manages the offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wirefmt.rocketmq._codec import (
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    MessageExt,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    RemotingCommand,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
    decode_messages,
)
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.remote import check
from wirefmt.rocketmq.routes import Queue
from wirefmt.rocketmq.subscriptions import Expression, text_and_type, with_wanted_tags

if TYPE_CHECKING:
    from wirefmt.rocketmq.client import Client

# Request codes


# Bits of a pull's sysFlag
COMMIT_OFFSET, SUSPEND, SUBSCRIPTION = 1, 2, 4

#: Seconds that we wait for the response to a long poll beyond the poll's own time. The real client: 15.
POLL_MARGIN: Final = 15.0

PullStatus = Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]

#: What the codes of a pull's response mean.
_STATUS: Final[dict[int, PullStatus]] = {0: "FOUND", 19: "NO_NEW_MSG", 20: "NO_MATCHED_MSG", 21: "OFFSET_ILLEGAL"}


@dataclass(frozen=True, slots=True)
class PullResult:
    """A broker's answer to a pull.

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
    """Asks for messages of queues. `Client.pull_consumer` makes it. The caller keeps the offsets, and stores them by `commit`."""

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
        expression: Expression = "*",
        wait: float = 0.0,
        commit: int = 0,
        version: int = 0,
        subscribed: bool = False,
    ) -> PullResult:
        """Messages of a queue from an offset on.

        Args:
            queue, offset: where.
            count: how many at most; the broker may give fewer.
            expression: tags, as "a || b"; "*": all; or `Sql`.
            wait: seconds that the broker may wait for a message.
            commit: an offset to store for the group; 0: none.
            version: of the subscription.
            subscribed: True: the broker knows the subscription by our heartbeats.

        Raises Refused with code 23 if the broker cannot parse the expression.
        """
        text, kind = text_and_type(expression)
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
            subscription=None if subscribed else text,
            sub_version=version,
            expression_type=kind,
            bname=queue.broker,
        )
        timeout = wait + POLL_MARGIN if wait > 0 else None
        response = check(await remote.call(RequestCode.PULL_MESSAGE, header, timeout=timeout), *_STATUS)
        answer = response.decode_header(PullMessageResponseHeader)
        messages: tuple[MessageExt, ...] = ()
        if response.code == ResponseCode.SUCCESS:
            messages = with_wanted_tags(decode_messages(response.body_bytes() or b""), expression)
        return PullResult(
            _STATUS[response.code], messages, answer.next_begin_offset, answer.min_offset, answer.max_offset
        )

    async def offset(self, queue: Queue) -> int | None:
        """The offset stored for the group; None: nothing is stored."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
            bname=queue.broker,
        )
        remote = await self.client.broker(queue.broker, queue.topic)
        response = check(await remote.call(RequestCode.QUERY_CONSUMER_OFFSET, header), ResponseCode.QUERY_NOT_FOUND)
        if response.code:
            return None
        return int(response.decode_header(QueryConsumerOffsetResponseHeader).offset)

    async def commit(self, queue: Queue, offset: int) -> None:
        """Store an offset for the group; return when the broker has it."""
        remote = await self.client.broker(queue.broker, queue.topic)
        check(await remote.call(RequestCode.UPDATE_CONSUMER_OFFSET, self._commit(queue, offset)))

    async def commit_oneway(self, queue: Queue, offset: int) -> None:
        """Store an offset for the group, without an answer, as the real push consumer does."""
        remote = await self.client.broker(queue.broker, queue.topic)
        await remote.send_oneway(RequestCode.UPDATE_CONSUMER_OFFSET, self._commit(queue, offset))

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
        response = await self._ask(queue, RequestCode.GET_MIN_OFFSET, header)
        return int(response.decode_header(GetMinOffsetResponseHeader).offset)

    async def max_offset(self, queue: Queue) -> int:
        """The offset of the next message that will be stored."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker)
        response = await self._ask(queue, RequestCode.GET_MAX_OFFSET, header)
        return int(response.decode_header(GetMaxOffsetResponseHeader).offset)

    async def search(self, queue: Queue, timestamp: float) -> int:
        """The offset of the first message stored at this time (seconds since 1970) or later."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=int(timestamp * 1000), bname=queue.broker
        )
        response = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return int(response.decode_header(SearchOffsetResponseHeader).offset)

    async def _ask(self, queue: Queue, code: int, header: Any) -> RemotingCommand:
        remote = await self.client.broker(queue.broker, queue.topic)
        return check(await remote.call(code, header))
