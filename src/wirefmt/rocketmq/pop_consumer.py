"""The pop consumer of RocketMQ on asyncio: the broker chooses the queues, and each message is acknowledged."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wirefmt.errors import ConnectionLost
from wirefmt.rocketmq._codec import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    MessageExt,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
    decode_extra_info,
    decode_messages,
    decode_start_offset_info,
    encode_extra_info,
)
from wirefmt.rocketmq.codes import RequestCode
from wirefmt.rocketmq.pull_consumer import POLL_MARGIN
from wirefmt.rocketmq.remote import check
from wirefmt.rocketmq.spec import RETRY_PREFIX, ExtraInfo
from wirefmt.rocketmq.subscriptions import Expression, text_and_type

if TYPE_CHECKING:
    from wirefmt.rocketmq.client import Client

# Request codes

# Response codes: nothing has arrived
NOT_FOUND, POLLING_FULL, POLLING_TIMEOUT = 19, 209, 210


@dataclass(frozen=True, slots=True)
class Popped:
    """A popped message. It is delivered again after its invisible time, unless it is acknowledged.

    Attributes:
        message: the message.
        extra_info: a text that the acknowledgement returns to the broker.
        topic: where it was popped; a retry topic, if it is delivered again.
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
        wait: float = 15.0,
        expression: Expression = "*",
        broker: str | None = None,
        queue_id: int = -1,
        earliest: bool = True,
    ) -> list[Popped]:
        """Messages of a topic at one broker.

        Args:
            topic: the topic.
            count: how many at most.
            invisible: seconds until they are delivered again.
            wait: seconds that the broker may wait for a message.
            expression: tags, as "a || b"; "*": all; or `Sql`.
            broker: its name; None: one of the route.
            queue_id: -1: all queues of the broker.
            earliest: where a new group begins: at the first message, or after the last one.

        Raises Refused with code 23 if the broker cannot parse the expression.
        """
        text, kind = text_and_type(expression)
        if broker is None:
            route = await self.client.route(topic)
            if not route.read:
                self.client.forget_route(topic)
                raise ConnectionLost(f"no queue of topic {topic} can be read")
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
            exp_type=kind,
            exp=text,
            order=False,
            bname=broker,
        )
        response = check(
            await remote.call(RequestCode.POP_MESSAGE, header, timeout=wait + POLL_MARGIN),
            NOT_FOUND,
            POLLING_FULL,
            POLLING_TIMEOUT,
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
        check(await remote.call(RequestCode.ACK_MESSAGE, header))

    async def change_invisible(self, popped: Popped, seconds: float) -> Popped:
        """Set the invisible time, counted from now. Returns what replaces `popped` in the acknowledgement."""
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
        response = check(await remote.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header))
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
            retry = message.topic.startswith(RETRY_PREFIX)
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
