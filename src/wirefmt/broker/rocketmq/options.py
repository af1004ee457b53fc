"""Policies and limits of a RocketMQ broker in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from wirefmt.broker.permissions import Permissions

#: Seconds of the delay levels 1 to 18.
DELAYS: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

#: Deliveries of a message that have failed, before it becomes a dead letter.
MOST_RETRIES: Final = 16

#: The level of the first delivery after one that has failed.
FIRST_RETRY_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policies and limits of a broker. They bound what clients can make it remember.

    Attributes:
        name, cluster: of the broker, as routes say them.
        queues: of a topic that a producer makes.
        topics, groups: how many there may be. A group has up to 100 offsets, locks, places of pops, and members with their
            subscriptions, on average.
        members: of one group, and client ids of one connection. Every client is a member of CLIENT_INNER_PRODUCER, which is
            not limited by itself.
        queue_messages: of one queue; above it the oldest is dropped.
        memory: bytes of all messages, with log.ENTRY bytes for each; above it a message is refused with SYSTEM_BUSY.
        message_bytes: of one body; above it a message is refused with MESSAGE_ILLEGAL.
        popped: messages that may be invisible at a time; above it a pop gets none. Apart from them as many may wait to be
            delivered again; above it the account or client that has popped most of them loses its first one, which becomes a dead
            letter.
        waiting: pulls and pops that may wait for messages; above it they are answered at once.
        client_share, user_share: the part of `topics`, `groups` (and of what comes with them), `members`, `memory`,
            `popped` and `waiting` that one client, and one account, may have (`wirefmt.broker.shares`). Stored messages are
            their sender's, a group is its first member's, an offset and a place of pops his who came first.
        delay: a factor of the delays of DELAYS. Tests make it small.
        lock: seconds that a queue stays locked.
        check_after, checks: seconds after which the producer of a half message is asked, and how often before it is rolled back.
        ask: seconds that a client may take to answer a request that the broker hands on to it.
        accounts: access key -> secret key. None: requests need no signature.
        permissions: what the accounts may do; None: everything.
    """

    name: str = "broker-a"
    cluster: str = "wirefmt"
    queues: int = 4
    topics: int = 1000
    groups: int = 1000
    members: int = 1000
    queue_messages: int = 100_000
    memory: int = 1 << 28
    message_bytes: int = 1 << 22
    popped: int = 100_000
    waiting: int = 10_000
    client_share: float = 0.25
    user_share: float = 0.5
    delay: float = 1.0
    lock: float = 60.0
    check_after: float = 6.0
    checks: int = 15
    ask: float = 10.0
    accounts: Mapping[str, str] | None = field(default=None, repr=False)
    permissions: Permissions | None = None
