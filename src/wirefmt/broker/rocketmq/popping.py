"""Pops: messages of a topic, each invisible to its group until it is acknowledged or its time is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Clients, Timers
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.log import ENTRY, Log, Queue, fields_of, place_of
from wirefmt.broker.rocketmq.options import MOST_RETRIES, BrokerOptions
from wirefmt.broker.rocketmq.reviving import Revived, Taken
from wirefmt.broker.rocketmq.selecting import LOOKS_MAX, Wants, wants
from wirefmt.broker.rocketmq.waits import Waits
from wirefmt.broker.shares import Holder
from wirefmt.errors import EncodeError
from wirefmt.rocketmq import MessageExt, PopMessageRequestHeader, RemotingCommand
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import DLQ_PREFIX, ExtraInfo

#: Messages of one response, as of the real broker.
MESSAGES_MAX = 32

Key = tuple[str, str, int, int, int]  # group, topic, queue id, offset, pop time


class Popped(NamedTuple):
    """A message that is invisible to its group. `timer` brings it back."""

    taken: Taken
    timer: asyncio.TimerHandle


class Popping:
    """The broker keeps the next offset of each group.

    Attributes:
        following: group, topic, queue id -> the next offset.
        popped: messages that are invisible.
        revived: those that wait to be delivered again.
    """

    def __init__(
        self, options: BrokerOptions, timers: Timers, clients: Clients, log: Log, waits: Waits, groups: Groups
    ) -> None:
        self.options = options
        self._timers = timers
        self._clients = clients
        self._log = log
        self._waits = waits
        self._groups = groups
        self.following: dict[tuple[str, str, int], int] = {}
        self.popped: dict[Key, Popped] = {}
        self.revived = Revived()
        self._last_pop_time = 0
        self._holders: dict[tuple[str, str, int], Holder] = {}  # who has popped there first

    def pop(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        header = event.decode_header(PopMessageRequestHeader)
        group, topic, queues = header.consumer_group, header.topic, self._log.topics.get(header.topic)
        if queues is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{topic}] not exist")
        try:
            wanted = wants(header.exp, header.exp_type) if header.exp else None
        except ValueError:
            return Answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark="parse the consumer's subscription failed")
        ids = (
            range(len(queues)) if header.queue_id < 0 else range(header.queue_id, min(header.queue_id + 1, len(queues)))
        )
        new = [key for queue_id in ids if (key := (group, topic, queue_id)) not in self.following]
        places, holder = self.options.groups * 100, self._clients.holders[peer]
        if len(self.following) + len(new) > places or (
            new and self._clients.shares.lacks(holder, "places of pops", places, len(new))
        ):
            return Answer(ResponseCode.SYSTEM_BUSY, remark="too many groups pop")
        invisible = max(header.invisible_time, 1)

        seconds, end = header.poll_time / 1000, Answer(ResponseCode.POLLING_TIMEOUT)
        nothing = Answer(ResponseCode.PULL_NOT_FOUND, remark="no message of these matches")

        def look() -> Answer | None:
            limit = self.options.popped
            capacity = min(limit - len(self.popped), self._clients.shares.left(holder, "popped", limit))
            if capacity <= 0:
                return end  # another client of the group may have space
            most = min(max(header.max_msg_nums, 1), MESSAGES_MAX, capacity)
            found, all_seen = self._take_next(group, topic, queues, ids, most, wanted, header.init_mode, holder)
            if not found:
                return None if all_seen else nothing
            now = self._pop_time()
            frames = []
            for m in found:
                taken = Taken(m.queue_id, m.queue_offset, m.reconsume_times, holder)
                try:
                    frames.append(self._checked(m, now, invisible).encode())
                except EncodeError:  # its properties have no space for that of a pop, so no pop can have it
                    self._dead_letter(group, topic, taken)
                else:
                    self._hide(group, topic, taken, now, invisible)
            if not frames:
                return nothing
            body = b"".join(frames)
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
        if answer is not None and answer is not end:
            return answer
        return self._waits.wait(peer, event, topic, max(header.queue_id, -1), group, seconds, look, end)

    def _take_next(
        self,
        group: str,
        topic: str,
        queues: list[Queue],
        ids: Iterable[int],
        most: int,
        wanted: Wants,
        mode: int,
        holder: Holder,
    ) -> tuple[list[MessageExt], bool]:
        """The next messages of a group: first those that are delivered again. `holder`: who pops. False: some messages were not
        looked at."""
        found: list[MessageExt] = []
        while len(found) < most and (taken := self.revived.pop((group, topic))) is not None:
            message = self._message(topic, taken)
            if message is not None:
                found.append(message)
        vain = 0
        for queue_id in ids:
            queue, key = queues[queue_id], (group, topic, queue_id)
            at = max(self.following.get(key, 0 if mode == 0 else queue.end), queue.base)
            while at < queue.end and len(found) < most and vain < LOOKS_MAX:
                stored = queue.at(at)
                at += 1
                if wanted is None or wanted(stored):
                    found.append(stored.message())
                else:
                    vain += 1
            if key not in self.following:
                self._holders[key] = holder
                holder.count("places of pops")
            self.following[key] = at
            self._groups.consumes(group, topic)
        return found, vain < LOOKS_MAX

    def _pop_time(self) -> int:
        """Milliseconds since 1970, never the same twice: an acknowledgement names its pop by it."""
        self._last_pop_time = max(int(time.time() * 1000), self._last_pop_time + 1)
        return self._last_pop_time

    def _checked(self, message: MessageExt, now: int, invisible: int) -> MessageExt:
        """A message with the property that its acknowledgement needs."""
        info = ExtraInfo(
            message.queue_offset, now, invisible, 0, "0", self.options.name, message.queue_id, message.queue_offset
        )
        properties = {**(message.properties or {}), "POP_CK": rocketmq.encode_extra_info(info)}
        return MessageExt(**{**fields_of(message), **place_of(message), "properties": properties})

    def _message(self, topic: str, taken: Taken) -> MessageExt | None:
        """A popped message, with its failed deliveries; None: its queue has dropped it."""
        queue = self._log.topics[topic][taken.queue_id]
        if taken.offset < queue.base:
            return None
        message = queue.at(taken.offset).message()
        return MessageExt(**{**fields_of(message), **place_of(message), "reconsume_times": taken.failed})

    def _hide(self, group: str, topic: str, taken: Taken, now: int, invisible: int) -> None:
        """Make a message invisible for a time."""
        key = (group, topic, taken.queue_id, taken.offset, now)
        self.popped[key] = Popped(taken, self._timers.later(invisible / 1000, self._revive, key))
        taken.holder.count("popped")

    def _revive(self, key: Key) -> None:
        """Deliver a message again whose invisible time is over. It does not count as popped while it waits for that, or a group
        that is gone would shut out others. If too many wait, the user or client that has popped most of them loses one."""
        group, topic = key[:2]
        taken = self._unhide(key).taken
        taken = taken._replace(failed=taken.failed + 1)
        if taken.failed > MOST_RETRIES:
            self._dead_letter(group, topic, taken)
            return
        self.revived.add((group, topic), taken)
        self._waits.wake_group(topic, group)
        if len(self.revived) > self.options.popped:
            (group, topic), taken = self.revived.drop()
            self._dead_letter(group, topic, taken)

    def _dead_letter(self, group: str, topic: str, taken: Taken) -> None:
        """A message becomes a dead letter. It is dropped if who has popped it has no space."""
        message, dead, holder = self._message(topic, taken), f"{DLQ_PREFIX}{group}", taken.holder
        if message is None:
            return
        if (
            self._log.has_capacity(len(message.body or b"") + ENTRY, holder)
            and self._log.topic(dead, 1, holder) is not None
        ):
            self._log.store({**fields_of(message), "topic": dead, "queue_id": 0}, holder)
        else:
            self._log.dropped += 1

    def _unhide(self, key: Key) -> Popped:
        """A message is invisible no more."""
        popped = self.popped.pop(key)
        popped.taken.holder.count("popped", -1)
        return popped

    def _take(self, header: Any) -> tuple[Key, Taken] | None:
        """Remove the invisible message that a header names, and return it."""
        info = rocketmq.decode_extra_info(header.extra_info)
        key = (header.consumer_group, header.topic, header.queue_id, header.offset, info.pop_time)
        if key not in self.popped:
            return None
        popped = self._unhide(key)
        self._timers.stop(popped.timer)
        return key, popped.taken

    def ack(self, peer: Peer, event: RemotingCommand) -> Answer:
        if self._take(event.decode_header(rocketmq.AckMessageRequestHeader)) is None:
            return Answer(ResponseCode.NO_MESSAGE, remark="the message is not invisible")
        return Answer()

    def change_invisible(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.ChangeInvisibleTimeRequestHeader)
        found = self._take(header)
        if found is None:
            return Answer(ResponseCode.NO_MESSAGE, remark="the message is not invisible")
        (group, topic, _, _, _), taken = found
        now, invisible = self._pop_time(), max(header.invisible_time, 1)
        self._hide(group, topic, taken, now, invisible)
        answer = rocketmq.ChangeInvisibleTimeResponseHeader(pop_time=now, invisible_time=invisible, revive_qid=0)
        return Answer(header=answer)
