"""Producer and consumer groups: their members, what these subscribe to, locks of queues, and offsets."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.requests.rocketmq import user_of
from wirefmt.broker.rocketmq.answers import QUERY_NOT_FOUND, SUBSCRIPTION_PARSE_FAILED, Answer
from wirefmt.broker.rocketmq.core import Core
from wirefmt.broker.rocketmq.selecting import Wants, wants
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import RemotingCommand, SubscriptionData
from wirefmt.rocketmq.events import SYSTEM_BUSY, SYSTEM_ERROR
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import RETRY_PREFIX
from wirefmt.rocketmq.subscriptions import retry_topic


class Subscription(NamedTuple):
    """What a member wants of a topic. `wrong`: its expression is invalid."""

    expression: str
    kind: str | None
    version: int
    wants: Wants
    wrong: bool

    @classmethod
    def of(cls, data: SubscriptionData) -> Subscription:
        expression, kind = data.sub_string or "*", data.expression_type
        try:
            return cls(expression, kind, data.sub_version or 0, wants(expression, kind), False)
        except ValueError:
            return cls(expression, kind, data.sub_version or 0, None, True)


class Member:
    """One client of a group. `topics`: its subscriptions. `user`: whose access key its heartbeat had."""

    __slots__ = ("peer", "topics", "user")

    def __init__(self, peer: Peer, topics: dict[str, Subscription], user: str) -> None:
        self.peer = peer
        self.topics = topics
        self.user = user

    def wants_as(self, other: Member) -> bool:
        """True if both subscribe to the same."""
        return {t: s[:2] for t, s in self.topics.items()} == {t: s[:2] for t, s in other.topics.items()}


Members = dict[str, dict[str, Member]]  # group -> client id -> member


class Groups(Core):
    """Heartbeats add members; the end of their connection removes them."""

    def _start(self) -> None:
        super()._start()
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.consumers: Members = {}
        self.producers: Members = {}
        self._locks: dict[tuple[str, str, int], tuple[str, float]] = {}
        self._owners: dict[str, tuple[Peer, str]] = {}  # client id -> the connection that has it, and its user
        self._client_ids: dict[Peer, set[str]] = {}
        self._consumed: dict[str, set[str]] = {}  # group -> topics, but for its retry topic

    # ---- what permissions are about

    def topics_of(self, group: str) -> Collection[str]:
        """The topics that a consumer group has consumed, and those that its members subscribe to."""
        found = {topic for member in self.consumers.get(group, {}).values() for topic in member.topics}
        found.discard(retry_topic(group))
        return found | self._consumed.get(group, set())

    def owner_of(self, client: str) -> str | None:
        """The user of the connection that has this client id; None: there is none."""
        found = self._owners.get(client)
        return None if found is None else found[1]

    def _consumes(self, group: str, topic: str) -> None:
        """A group consumes from a topic that there is."""
        if not topic.startswith(RETRY_PREFIX):
            self._consumed.setdefault(group, set()).add(topic)

    def _own(self, peer: Peer, client: str, user: str) -> None:
        """A connection has a client id."""
        self._owners[client] = (peer, user)
        self._client_ids.setdefault(peer, set()).add(client)

    def _disown(self, peer: Peer) -> None:
        """A connection has its client ids no more."""
        for client in self._client_ids.pop(peer, ()):
            if client in self._owners and self._owners[client][0] is peer:
                del self._owners[client]

    # ---- members

    def _heartbeat(self, peer: Peer, event: RemotingCommand) -> Answer:
        data = rocketmq.HeartbeatData.decode(event.body_bytes() or b"")
        client, user = data.client_id or "", user_of(event)
        if client and (data.producer_data_set or data.consumer_data_set):
            self._own(peer, client, user)
        for producer in data.producer_data_set or ():
            if not self._join(self.producers, producer.group_name or "", client, Member(peer, {}, user)):
                return Answer(SYSTEM_BUSY, remark="too many groups")
        for consumer in data.consumer_data_set or ():
            group = consumer.group_name or ""
            wanted = {s.topic or "": Subscription.of(s) for s in consumer.subscription_data_set or ()}
            member = Member(peer, wanted, user)
            known = self.consumers.get(group, {}).get(client)
            if not self._join(self.consumers, group, client, member):
                return Answer(SYSTEM_BUSY, remark="too many groups")
            if retry_topic(group) in member.topics:
                self.topic(retry_topic(group), 1)
            if known is None or not known.wants_as(member):
                self._notify(group)
        return Answer()

    def _join(self, groups: Members, group: str, client: str, member: Member) -> bool:
        if group not in groups and len(groups) >= self.options.groups:
            return False
        groups.setdefault(group, {})[client] = member
        return True

    def _unregister(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.UnregisterClientRequestHeader)
        if header.producer_group:
            self._leave_producers(header.producer_group, header.client_id)
        if header.consumer_group:
            self._leave(header.consumer_group, header.client_id)
        return Answer()

    def _leave(self, group: str, client: str) -> None:
        members = self.consumers.get(group, {})
        if members.pop(client, None) is not None:
            for key in [k for k, (owner, _) in self._locks.items() if k[0] == group and owner == client]:
                del self._locks[key]
            if not members:
                del self.consumers[group]
            self._notify(group)

    def _leave_producers(self, group: str, client: str) -> None:
        members = self.producers.get(group, {})
        if members.pop(client, None) is not None and not members:
            del self.producers[group]

    def _gone(self, peer: Peer) -> None:
        """Remove a client that is gone from its groups."""
        self._disown(peer)
        for groups, leave in ((self.consumers, self._leave), (self.producers, self._leave_producers)):
            for group, client in [(g, c) for g, some in groups.items() for c, m in some.items() if m.peer is peer]:
                leave(group, client)

    def _notify(self, group: str) -> None:
        """Tell the members of a group to rebalance."""
        for member in self.consumers.get(group, {}).values():
            try:
                member.peer.request(
                    40, rocketmq.NotifyConsumerIdsChangedRequestHeader(consumer_group=group), oneway=True
                )
            except LocalProtocolError:
                continue  # its connection is ending

    def _members(self, peer: Peer, event: RemotingCommand) -> Answer:
        group = event.decode_header(rocketmq.GetConsumerListByGroupRequestHeader).consumer_group
        clients = list(self.consumers.get(group, ()))
        if not clients:
            return Answer(SYSTEM_ERROR, remark=f"no consumer for this group, {group}")
        return Answer(body=rocketmq.GetConsumerListByGroupResponseBody(consumer_id_list=clients).encode())

    # ---- subscriptions

    def _subscription(self, group: str, topic: str) -> Subscription | None:
        """The latest subscription of a group to a topic."""
        found = [m.topics[topic] for m in self.consumers.get(group, {}).values() if topic in m.topics]
        return max(found, key=lambda each: each.version) if found else None

    def _check_client(self, peer: Peer, event: RemotingCommand) -> Answer:
        """A consumer asks whether its filter expression can be parsed."""
        asked = rocketmq.decode_json(event.body_bytes() or b"{}").get("subscriptionData") or {}
        try:
            wants(asked.get("subString"), asked.get("expressionType"))
        except ValueError as error:
            return Answer(SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        return Answer()

    # ---- locks of queues

    def _lock(self, peer: Peer, event: RemotingCommand) -> Answer:
        body = rocketmq.LockBatchRequestBody.decode(event.body_bytes() or b"{}")
        group, client, now = body.consumer_group or "", body.client_id or "", time.monotonic()
        got = []
        for queue in body.mq_set or ():
            key = (group, queue.topic or "", queue.queue_id or 0)
            owner, until = self._locks.get(key, (client, 0.0))
            free = owner == client or until < now
            room = key in self._locks or len(self._locks) < self.options.groups * 100
            if free and room and 0 <= key[2] < len(self.topics.get(key[1], ())):
                self._locks[key] = (client, now + self.options.lock)
                got.append(queue)
        return Answer(body=rocketmq.LockBatchResponseBody(lock_okmqset=got).encode())

    def _unlock(self, peer: Peer, event: RemotingCommand) -> Answer:
        body = rocketmq.UnlockBatchRequestBody.decode(event.body_bytes() or b"{}")
        for queue in body.mq_set or ():
            key = (body.consumer_group or "", queue.topic or "", queue.queue_id or 0)
            if self._locks.get(key, ("", 0.0))[0] == body.client_id:
                del self._locks[key]
        return Answer()

    # ---- offsets

    def _query_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.QueryConsumerOffsetRequestHeader)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            # a new group starts with the first message as long as that is there, whatever the consumer would choose
            queues = self.topics.get(header.topic, ())
            queue = queues[header.queue_id] if 0 <= header.queue_id < len(queues) else None
            if header.set_zero_if_not_found is False or queue is None or queue.base or not queue.messages:
                return Answer(QUERY_NOT_FOUND, remark="Not found, maybe this group consumer boot first")
            offset = 0
        return Answer(header=rocketmq.QueryConsumerOffsetResponseHeader(offset=offset))

    def _update_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.UpdateConsumerOffsetRequestHeader)
        self._commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return Answer()

    def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        room = (group, topic, queue_id) in self.offsets or len(self.offsets) < self.options.groups * 100
        if room and 0 <= queue_id < len(self.topics.get(topic, ())):
            self.offsets[group, topic, queue_id] = offset
            self._consumes(group, topic)

    def _max_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        queue = self._queue_of(event.decode_header(rocketmq.GetMaxOffsetRequestHeader))
        return Answer(header=rocketmq.GetMaxOffsetResponseHeader(offset=queue.end))

    def _min_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        queue = self._queue_of(event.decode_header(rocketmq.GetMinOffsetRequestHeader))
        return Answer(header=rocketmq.GetMinOffsetResponseHeader(offset=queue.base))

    def _search_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.SearchOffsetRequestHeader)
        queue = self._queue_of(header)
        wanted = header.timestamp / 1000
        place = next((n for n, stored in enumerate(queue.messages) if stored.time >= wanted), len(queue.messages))
        return Answer(header=rocketmq.SearchOffsetResponseHeader(offset=queue.base + place))
