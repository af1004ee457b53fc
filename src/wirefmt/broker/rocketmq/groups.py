"""Producer and consumer groups: their members, and what these subscribe to."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection
from typing import Final, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.requests.rocketmq import user_of
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Clients
from wirefmt.broker.rocketmq.locks import Locks
from wirefmt.broker.rocketmq.log import Log
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.rocketmq.selecting import Wants, wants
from wirefmt.broker.rocketmq.waits import WOKEN
from wirefmt.broker.shares import Holder
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import RemotingCommand, SubscriptionData
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import RETRY_PREFIX
from wirefmt.rocketmq.subscriptions import INNER_GROUP, retry_topic


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
    """One client of a group. `topics`: its subscriptions. `user`: whose access key its heartbeat had. `holder`: whose it is.
    `cost`: what it counts among all members."""

    __slots__ = ("cost", "holder", "peer", "topics", "user")

    def __init__(self, peer: Peer, topics: dict[str, Subscription], user: str, holder: Holder) -> None:
        self.peer = peer
        self.holder = holder
        self.topics = topics
        self.user = user
        self.cost = 1 + sum(1 + (len(topic) + len(s.expression)) // 64 for topic, s in topics.items())

    def wants_as(self, other: Member) -> bool:
        """True if both subscribe to the same."""
        return {t: s[:2] for t, s in self.topics.items()} == {t: s[:2] for t, s in other.topics.items()}


Members = dict[str, dict[str, Member]]  # group -> client id -> member

#: What groups are counted as, by whether they consume.
_GROUPS: Final = {False: "producer groups", True: "consumer groups"}


#: Members of a group that a request may look at for one unit of work (`Driver.spend`).
LOOKED: Final = 16


def _members(group: str) -> str:
    """What members of a group are counted as."""
    return f"members of {group}"


class Groups:
    """Heartbeats add members; the end of their connection removes them.

    Attributes:
        consumers, producers: group -> client id -> member.
        joined: what each connection has joined: is it a consumer? group, client id.
        producing: client id -> group -> member.
        memberships: what members and their subscriptions cost.
        notifying: a call that asks the next members to rebalance; None: none is due.
    """

    def __init__(self, options: BrokerOptions, clients: Clients, log: Log, locks: Locks) -> None:
        self.options = options
        self._clients = clients
        self._log = log
        self._locks = locks
        self.consumers: Members = {}
        self.producers: Members = {}
        self.joined: dict[Peer, set[tuple[bool, str, str]]] = {}
        self.producing: dict[str, dict[str, Member]] = {}
        self.memberships = 0
        self.notifying: asyncio.Handle | None = None
        self._holders: dict[tuple[bool, str], Holder] = {}  # is it a consumer group? its first member's
        self._notified: dict[str, None] = {}  # groups whose members are to be told
        self._to_notify: deque[tuple[str, Peer]] = deque()  # members of the first of them
        self._owners: dict[str, tuple[Peer, str]] = {}  # client id -> the connection that has it, and its user
        self._client_ids: dict[Peer, set[str]] = {}
        self._consumed: dict[str, set[str]] = {}  # group -> topics, except its retry topic

    def close(self) -> None:
        if self.notifying is not None:
            self.notifying.cancel()

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

    def consumes(self, group: str, topic: str) -> None:
        """A group consumes from a topic that there is."""
        if not topic.startswith(RETRY_PREFIX):
            self._consumed.setdefault(group, set()).add(topic)

    def _own(self, peer: Peer, client: str, user: str) -> bool:
        """A connection has a client id. False: it has too many."""
        owned = self._client_ids.setdefault(peer, set())
        if client not in owned and len(owned) >= self.options.members:
            return False
        self._owners[client] = (peer, user)
        owned.add(client)
        return True

    def _disown(self, peer: Peer) -> None:
        """A connection has its client ids no more."""
        for client in self._client_ids.pop(peer, ()):
            if client in self._owners and self._owners[client][0] is peer:
                del self._owners[client]

    # ---- members

    def heartbeat(self, peer: Peer, event: RemotingCommand) -> Answer:
        data = rocketmq.HeartbeatData.decode(event.body_bytes() or b"")
        client, user, holder = data.client_id or "", user_of(event), self._clients.holders[peer]
        if client and (data.producer_data_set or data.consumer_data_set) and not self._own(peer, client, user):
            return Answer(ResponseCode.SYSTEM_BUSY, remark="too many client ids")
        for producer in data.producer_data_set or ():
            if not self._join(self.producers, producer.group_name or "", client, Member(peer, {}, user, holder)):
                return Answer(ResponseCode.SYSTEM_BUSY, remark="too many groups or members")
        for consumer in data.consumer_data_set or ():
            group = consumer.group_name or ""
            wanted = {s.topic or "": Subscription.of(s) for s in consumer.subscription_data_set or ()}
            member = Member(peer, wanted, user, holder)
            known = self.consumers.get(group, {}).get(client)
            if not self._join(self.consumers, group, client, member):
                return Answer(ResponseCode.SYSTEM_BUSY, remark="too many groups or members")
            if retry_topic(group) in member.topics:
                self._log.topic(retry_topic(group), 1, holder)
            if known is None or not known.wants_as(member):
                self._notify(group)
        return Answer()

    def _join(self, groups: Members, group: str, client: str, member: Member) -> bool:
        members = groups.get(group, {})
        known = members.get(client)
        before = known.cost if known is not None else 0
        holder, options, lacks = member.holder, self.options, self._clients.shares.lacks
        consumes = groups is self.consumers
        limited = consumes or group != INNER_GROUP  # every client is in that one, and nobody looks through it
        more = member.cost - (before if known is not None and known.holder is holder else 0)
        if (
            (
                group not in groups
                and (len(groups) >= options.groups or lacks(holder, _GROUPS[consumes], options.groups))
            )
            or (limited and known is None and len(members) >= options.members)
            or (
                limited
                and (known is None or known.holder is not holder)
                and lacks(holder, _members(group), options.members)
            )
            or self.memberships - before + member.cost > options.groups * 100
            or lacks(holder, "members", options.groups * 100, more)
        ):
            return False
        if known is not None:
            self._drop(groups, group, client)
        if group not in groups:
            self._holders[consumes, group] = holder
            holder.count(_GROUPS[consumes])
        groups.setdefault(group, {})[client] = member
        self.memberships += member.cost
        holder.count("members", member.cost)
        holder.count(_members(group))
        self.joined.setdefault(member.peer, set()).add((consumes, group, client))
        if groups is self.producers:
            self.producing.setdefault(client, {})[group] = member
        return True

    def _drop(self, groups: Members, group: str, client: str) -> bool:
        """Remove a member. False: there is none."""
        members = groups.get(group, {})
        member = members.pop(client, None)
        if member is None:
            return False
        if not members:
            del groups[group]
            consumes = groups is self.consumers
            self._holders.pop((consumes, group)).count(_GROUPS[consumes], -1)
        self.memberships -= member.cost
        member.holder.count("members", -member.cost)
        member.holder.count(_members(group), -1)
        joined = self.joined[member.peer]
        joined.discard((groups is self.consumers, group, client))
        if not joined:
            del self.joined[member.peer]
        if groups is self.producers:
            producing = self.producing[client]
            del producing[group]
            if not producing:
                del self.producing[client]
        return True

    def unregister(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.UnregisterClientRequestHeader)
        if header.producer_group:
            self._drop(self.producers, header.producer_group, header.client_id)
        if header.consumer_group:
            self._leave(header.consumer_group, header.client_id)
        return Answer()

    def _leave(self, group: str, client: str) -> None:
        if self._drop(self.consumers, group, client):
            self._locks.release(group, client)
            self._notify(group)

    def gone(self, peer: Peer) -> None:
        """Remove a client that is gone from its groups."""
        self._disown(peer)
        for consumes, group, client in list(self.joined.get(peer, ())):
            if consumes:
                self._leave(group, client)
            else:
                self._drop(self.producers, group, client)

    def _notify(self, group: str) -> None:
        """Tell the members of a group to rebalance: once for all that this iteration of the loop brings, and as many of them as
        one iteration takes."""
        self._notified[group] = None
        if self.notifying is None:
            self.notifying = asyncio.get_running_loop().call_soon(self._notify_some)

    def _notify_some(self) -> None:
        self.notifying = None
        for _ in range(WOKEN):
            if not self._to_notify:
                if not self._notified:
                    return
                group = next(iter(self._notified))
                del self._notified[group]
                self._to_notify.extend((group, member.peer) for member in self.consumers.get(group, {}).values())
                continue
            group, peer = self._to_notify.popleft()
            header = rocketmq.NotifyConsumerIdsChangedRequestHeader(consumer_group=group)
            with contextlib.suppress(LocalProtocolError):  # its connection is ending
                peer.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, oneway=True)
        self.notifying = asyncio.get_running_loop().call_soon(self._notify_some)

    def members(self, peer: Peer, event: RemotingCommand) -> Answer:
        group = event.decode_header(rocketmq.GetConsumerListByGroupRequestHeader).consumer_group
        clients = list(self.consumers.get(group, ()))
        peer.driver.spend(len(clients) // LOOKED)
        if not clients:
            return Answer(ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {group}")
        return Answer(body=rocketmq.GetConsumerListByGroupResponseBody(consumer_id_list=clients).encode())

    # ---- subscriptions

    def subscription(self, peer: Peer, group: str, topic: str) -> Subscription | None:
        """The latest subscription of a group to a topic."""
        members = self.consumers.get(group, {})
        peer.driver.spend(len(members) // LOOKED)
        found = [m.topics[topic] for m in members.values() if topic in m.topics]
        return max(found, key=lambda each: each.version) if found else None

    def check_client(self, peer: Peer, event: RemotingCommand) -> Answer:
        """A consumer asks whether its filter expression can be parsed."""
        asked = rocketmq.decode_json(event.body_bytes() or b"{}").get("subscriptionData") or {}
        try:
            wants(asked.get("subString"), asked.get("expressionType"))
        except ValueError as error:
            return Answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        return Answer()
