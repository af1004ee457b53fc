"""Pops: messages of a topic, each invisible to its group until it is acknowledged or its time is over."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.core import Queue, fields_of, place_of
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.options import MOST_RETRIES
from wirefmt.broker.rocketmq.selecting import LOOKS_MAX, Wants, wants
from wirefmt.rocketmq import MessageExt, PopMessageRequestHeader, RemotingCommand
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import DLQ_PREFIX, ExtraInfo

#: Messages of one response, as of the real broker.
MESSAGES_MAX = 32

Key = tuple[str, str, int, int, int]  # group, topic, queue id, offset, pop time


class Popped:
    """A message that is invisible to its group. `timer` brings it back."""

    __slots__ = ("message", "timer")

    def __init__(self, message: MessageExt, timer: asyncio.TimerHandle) -> None:
        self.message = message
        self.timer = timer


class Popping(Groups):
    """The broker keeps the next offset of each group."""

    def _start(self) -> None:
        super()._start()
        self._last_pop_time = 0
        self._pop_next: dict[tuple[str, str, int], int] = {}
        self._popped: dict[Key, Popped] = {}
        self._revived: dict[tuple[str, str], deque[MessageExt]] = {}

    def _pop(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        header = event.decode_header(PopMessageRequestHeader)
        group, topic, queues = header.consumer_group, header.topic, self.topics.get(header.topic)
        if queues is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{topic}] not exist")
        try:
            wanted = wants(header.exp, header.exp_type) if header.exp else None
        except ValueError:
            return Answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark="parse the consumer's subscription failed")
        ids = (
            range(len(queues)) if header.queue_id < 0 else range(header.queue_id, min(header.queue_id + 1, len(queues)))
        )
        new = sum((group, topic, queue_id) not in self._pop_next for queue_id in ids)
        if len(self._pop_next) + new > self.options.groups * 100:
            return Answer(ResponseCode.SYSTEM_BUSY, remark="too many groups pop")
        invisible = max(header.invisible_time, 1)

        def look() -> Answer | None:
            most = max(0, min(max(header.max_msg_nums, 1), MESSAGES_MAX, self.options.popped - len(self._popped)))
            found, all_seen = self._take_next(group, topic, queues, ids, most, wanted, header.init_mode)
            if not found:
                return None if all_seen else Answer(ResponseCode.PULL_NOT_FOUND, remark="no message of these matches")
            now = self._pop_time()
            body = b"".join(self._hide(group, topic, m, now, invisible).encode() for m in found)
            answer = rocketmq.PopMessageResponseHeader(
                pop_time=now,
                invisible_time=invisible,
                revive_qid=0,
                rest_num=0,
                start_offset_info="",
                msg_offset_info="",
            )
            return Answer(ResponseCode.SUCCESS, answer, body)

        answer = look()
        if answer is not None:
            return answer
        seconds, end = header.poll_time / 1000, Answer(ResponseCode.POLLING_TIMEOUT)
        return self._wait(peer, event, topic, max(header.queue_id, -1), group, seconds, look, end)

    def _take_next(
        self, group: str, topic: str, queues: list[Queue], ids: Iterable[int], most: int, wanted: Wants, mode: int
    ) -> tuple[list[MessageExt], bool]:
        """The next messages of a group: first those that are delivered again. False: some messages were not looked at."""
        found: list[MessageExt] = []
        revived = self._revived.get((group, topic))
        while revived and len(found) < most:
            found.append(revived.popleft())
        if revived is not None and not revived:
            del self._revived[group, topic]
        vain = 0
        for queue_id in ids:
            queue, key = queues[queue_id], (group, topic, queue_id)
            at = max(self._pop_next.get(key, 0 if mode == 0 else queue.end), queue.base)
            while at < queue.end and len(found) < most and vain < LOOKS_MAX:
                stored = queue.at(at)
                at += 1
                if wanted is None or wanted(stored):
                    found.append(stored.message())
                else:
                    vain += 1
            self._pop_next[key] = at
            self._consumes(group, topic)
        return found, vain < LOOKS_MAX

    def _pop_time(self) -> int:
        """Milliseconds since 1970, never the same twice: an acknowledgement names its pop by it."""
        self._last_pop_time = max(int(time.time() * 1000), self._last_pop_time + 1)
        return self._last_pop_time

    def _hide(self, group: str, topic: str, message: MessageExt, now: int, invisible: int) -> MessageExt:
        """Make a message invisible for a time. Returns it with the property that its acknowledgement needs."""
        info = ExtraInfo(
            message.queue_offset, now, invisible, 0, "0", self.options.name, message.queue_id, message.queue_offset
        )
        properties = {**(message.properties or {}), "POP_CK": rocketmq.encode_extra_info(info)}
        key = (group, topic, message.queue_id, message.queue_offset, now)
        self._popped[key] = Popped(message, self._later(invisible / 1000, self._revive, key))
        return MessageExt(**{**fields_of(message), **place_of(message), "properties": properties})

    def _revive(self, key: Key) -> None:
        """Deliver a message again whose invisible time is over."""
        message = self._popped.pop(key).message
        fields = {**fields_of(message), "reconsume_times": message.reconsume_times + 1}
        if message.reconsume_times >= MOST_RETRIES:
            if self.topic(f"{DLQ_PREFIX}{key[0]}", 1) is not None:
                self._store({**fields, "topic": f"{DLQ_PREFIX}{key[0]}", "queue_id": 0})
            return
        self._revived.setdefault((key[0], key[1]), deque()).append(MessageExt(**fields, **place_of(message)))
        self._wake_group(key[1], key[0])

    def _take(self, header: Any) -> tuple[Key, Popped] | None:
        """Remove the invisible message that a header names, and return it."""
        info = rocketmq.decode_extra_info(header.extra_info)
        key = (header.consumer_group, header.topic, header.queue_id, header.offset, info.pop_time)
        popped = self._popped.pop(key, None)
        if popped is None:
            return None
        self._stop(popped.timer)
        return key, popped

    def _ack(self, peer: Peer, event: RemotingCommand) -> Answer:
        if self._take(event.decode_header(rocketmq.AckMessageRequestHeader)) is None:
            return Answer(ResponseCode.NO_MESSAGE, remark="the message is not invisible")
        return Answer()

    def _change_invisible(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.ChangeInvisibleTimeRequestHeader)
        taken = self._take(header)
        if taken is None:
            return Answer(ResponseCode.NO_MESSAGE, remark="the message is not invisible")
        (group, topic, _, _, _), popped = taken
        now, invisible = self._pop_time(), max(header.invisible_time, 1)
        self._hide(group, topic, popped.message, now, invisible)
        answer = rocketmq.ChangeInvisibleTimeResponseHeader(pop_time=now, invisible_time=invisible, revive_qid=0)
        return Answer(header=answer)
