"""Transactions: half messages, until their producers decide."""

from __future__ import annotations

import asyncio
from typing import Any

from wirefmt import rocketmq
from wirefmt.broker.requests.rocketmq import PUBLISH
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Timers
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.log import ENTRY, Log, fields_of
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.shares import Holder
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import MessageExt, RemotingCommand
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import SYS_FLAG_TRANSACTION, SYS_FLAGS

#: States of a transaction, in the bits SYS_FLAG_TRANSACTION of sysFlag.
PREPARED, COMMIT, ROLLBACK = (SYS_FLAGS[f"TRANSACTION_{name}"] for name in ("PREPARED", "COMMIT", "ROLLBACK"))


class Half:
    """A half message. `checks`: how often its producer has been asked. `holder`: who has sent it. `size`: what it counts."""

    __slots__ = ("checks", "holder", "message", "size", "timer")

    def __init__(self, message: MessageExt, size: int, holder: Holder) -> None:
        self.message = message
        self.size = size
        self.holder = holder
        self.checks = 0
        self.timer: asyncio.TimerHandle | None = None


class Transactions:
    """The half messages.

    Attributes:
        halves: by their physical offsets.
    """

    def __init__(self, options: BrokerOptions, timers: Timers, log: Log, groups: Groups) -> None:
        self.options = options
        self._timers = timers
        self._log = log
        self._groups = groups
        self.halves: dict[int, Half] = {}

    def hold(self, fields: dict[str, Any], holder: Holder) -> MessageExt:
        """Keep a half message. Returns it with its place in the log."""
        placed = self._log.placed(fields, len(self.halves))
        size = len(placed.encode())
        self._log.position += size
        half = self.halves[placed.physical_offset] = Half(placed, size + ENTRY, holder)
        self._log.shares.keep(holder, half.size)
        half.timer = self._timers.later(self.options.check_after, self._check, placed.physical_offset)
        return placed

    def half_topic(self, physical: int) -> str | None:
        """The topic of a half message by its physical offset; None: there is none."""
        half = self.halves.get(physical)
        return None if half is None else half.message.topic

    def end(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.EndTransactionRequestHeader)
        half = self.halves.get(header.commit_log_offset)
        if half is None:
            return Answer(ResponseCode.SYSTEM_ERROR, remark="there is no such half message")
        if header.commit_or_rollback in (COMMIT, ROLLBACK):
            self._finish(header.commit_log_offset, half, commit=header.commit_or_rollback == COMMIT)
        return Answer()

    def _finish(self, physical: int, half: Half, *, commit: bool) -> None:
        del self.halves[physical]
        self._timers.stop(half.timer)
        self._log.shares.keep(half.holder, -half.size)
        if commit:
            flags = half.message.sys_flag & ~SYS_FLAG_TRANSACTION | COMMIT
            self._log.store({**fields_of(half.message), "sys_flag": flags}, half.holder)

    def _check(self, physical: int) -> None:
        """Ask one producer of the group, who may publish to the topic. Without one, it does not count as a check."""
        half = self.halves[physical]
        if half.checks >= self.options.checks:
            self._finish(physical, half, commit=False)
            return
        half.timer = self._timers.later(self.options.check_after, self._check, physical)
        properties = half.message.properties or {}
        permissions, topic = self.options.permissions, half.message.topic
        for member in self._groups.producers.get(properties.get("PGROUP", ""), {}).values():
            if permissions is not None and not permissions.may(member.user, PUBLISH, topic):
                continue
            header = rocketmq.CheckTransactionStateRequestHeader(
                topic=topic,
                tran_state_table_offset=half.message.queue_offset,
                commit_log_offset=physical,
                msg_id=properties.get("UNIQ_KEY"),
                transaction_id=properties.get("UNIQ_KEY"),
                offset_msg_id=half.message.offset_msg_id,
            )
            try:
                member.peer.request(RequestCode.CHECK_TRANSACTION_STATE, header, half.message.encode(), oneway=True)
            except LocalProtocolError:
                continue
            half.checks += 1
            return
