"""Locks of queues: one client of a group consumes a queue in order."""

from __future__ import annotations

import time

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Clients
from wirefmt.broker.rocketmq.log import Log
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.shares import Holder
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.server import Peer


class Locks:
    """The locks, each of a group, a topic and a queue id.

    Attributes:
        locks: the client id that has it, until when, and whose it is.
    """

    def __init__(self, options: BrokerOptions, clients: Clients, log: Log) -> None:
        self.options = options
        self._clients = clients
        self._log = log
        self.locks: dict[tuple[str, str, int], tuple[str, float, Holder]] = {}
        self._locked: dict[tuple[str, str], set[tuple[str, str, int]]] = {}  # by group and client id

    def lock(self, peer: Peer, event: RemotingCommand) -> Answer:
        body = rocketmq.LockBatchRequestBody.decode(event.body_bytes() or b"{}")
        group, client, now = body.consumer_group or "", body.client_id or "", time.monotonic()
        got = []
        holder, most = self._clients.holders[peer], self.options.groups * 100
        for queue in body.mq_set or ():
            key = (group, queue.topic or "", queue.queue_id or 0)
            owner, until, whose = self.locks.get(key, (client, 0.0, None))
            free = owner == client or until < now
            capacity = whose is not None or len(self.locks) < most
            capacity = capacity and (whose is holder or not self._clients.shares.lacks(holder, "locks", most))
            if free and capacity and 0 <= key[2] < len(self._log.topics.get(key[1], ())):
                self._unlock_one(key)
                self.locks[key] = (client, now + self.options.lock, holder)
                holder.count("locks")
                self._locked.setdefault((group, client), set()).add(key)
                got.append(queue)
        return Answer(body=rocketmq.LockBatchResponseBody(lock_okmqset=got).encode())

    def unlock(self, peer: Peer, event: RemotingCommand) -> Answer:
        body = rocketmq.UnlockBatchRequestBody.decode(event.body_bytes() or b"{}")
        for queue in body.mq_set or ():
            key = (body.consumer_group or "", queue.topic or "", queue.queue_id or 0)
            if key in self.locks and self.locks[key][0] == body.client_id:
                self._unlock_one(key)
        return Answer()

    def _unlock_one(self, key: tuple[str, str, int]) -> None:
        lock = self.locks.pop(key, None)
        if lock is not None:
            owner, _, holder = lock
            holder.count("locks", -1)
            locked = self._locked[key[0], owner]
            locked.discard(key)
            if not locked:
                del self._locked[key[0], owner]

    def release(self, group: str, client: str) -> None:
        """A member of a group is gone."""
        for key in self._locked.pop((group, client), ()):
            self.locks.pop(key)[2].count("locks", -1)
