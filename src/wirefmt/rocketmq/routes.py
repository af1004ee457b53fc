"""Routes of topics, as name servers give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from wirefmt.errors import LimitExceeded
from wirefmt.rocketmq._codec import TopicRouteData
from wirefmt.rocketmq.spec import PERMISSIONS

#: Its route is a template for topics that do not exist.
DEFAULT_TOPIC: Final = "TBW102"

#: Queues of a topic that a producer makes.
DEFAULT_QUEUES: Final = 4

#: Queues of one topic at one broker that a route may name.
MOST_QUEUES: Final = 1 << 16

#: The broker id of a master.
MASTER: Final = 0


class Queue(NamedTuple):
    """A queue of a topic. Queues are ordered as the real client orders them, so that all members of a group agree."""

    topic: str
    broker: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a topic.

    Attributes:
        brokers: name -> broker id -> "host:port". Id 0 is the master.
        read, write: queues that may be read from and written to, in order.
    """

    brokers: Mapping[str, Mapping[int, str]]
    read: tuple[Queue, ...]
    write: tuple[Queue, ...]

    @classmethod
    def of(cls, topic: str, data: TopicRouteData) -> Route:
        """Raises LimitExceeded for more queues than MOST_QUEUES at one broker."""
        brokers = {b.broker_name or "": dict(b.broker_addrs or {}) for b in data.broker_datas or ()}
        read: list[Queue] = []
        write: list[Queue] = []
        for queues in data.queue_datas or ():
            name, perm = queues.broker_name or "", queues.perm or 0
            if max(queues.read_queue_nums or 0, queues.write_queue_nums or 0) > MOST_QUEUES:
                raise LimitExceeded("more queues than a route may name", protocol="rocketmq", have=MOST_QUEUES)
            if perm & PERMISSIONS["READ"]:
                read += [Queue(topic, name, n) for n in range(queues.read_queue_nums or 0)]
            if perm & PERMISSIONS["WRITE"] and MASTER in brokers.get(name, ()):
                write += [Queue(topic, name, n) for n in range(queues.write_queue_nums or 0)]
        return cls(brokers, tuple(sorted(read)), tuple(sorted(write)))

    def template(self, topic: str) -> Route:
        """The route that a topic will have once a broker has made it."""

        def of(queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
            return tuple(Queue(topic, q.broker, q.queue_id) for q in queues if q.queue_id < DEFAULT_QUEUES)

        return Route(self.brokers, of(self.read), of(self.write))
