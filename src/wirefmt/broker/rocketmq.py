"""A RocketMQ name server and broker in memory, the handler of `wirefmt.rocketmq.serve`. One port is both.

::

    broker = Broker()
    async with await rocketmq.serve(broker, "127.0.0.1", 9876) as server:
        broker.address = f"127.0.0.1:{server.port}"
        ...
    broker.close()

Sections are those of docs/rocketmq.md.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.permissions import Permissions, rocketmq_refused
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import DecodeError, LocalProtocolError
from wirefmt.rocketmq import MessageExt, RemotingCommand
from wirefmt.rocketmq.events import (
    SUCCESS,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    Event,
    is_signed,
)
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import ExtraInfo

# Response codes
MESSAGE_ILLEGAL: Final = 13
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
PULL_NOT_FOUND: Final = 19
PULL_RETRY_IMMEDIATELY: Final = 20
PULL_OFFSET_MOVED: Final = 21
QUERY_NOT_FOUND: Final = 22
SUBSCRIPTION_NOT_EXIST: Final = 24
POLLING_TIMEOUT: Final = 210

# Bits of sysFlag
SUSPEND, SUBSCRIPTION = 2, 4
TRANSACTION_BITS, PREPARED, COMMIT, ROLLBACK = 0xC, 0x4, 0x8, 0xC

DEFAULT_TOPIC: Final = "TBW102"
NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,255}\Z")

#: Seconds of the delay levels 1 to 18.
DELAYS: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)

#: Deliveries of a message that have failed, before it becomes a dead letter.
MOST_RETRIES: Final = 16

#: The level of the first delivery after one that has failed.
FIRST_RETRY_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policies and limits of a broker. What clients can make it remember is bounded by them.

    Attributes:
        name, cluster: of the broker, as routes say them.
        queues: of a topic that a producer makes.
        topics, groups: how many there may be.
        queue_messages: of one queue; above it the oldest is dropped.
        stored_bytes: of all messages; above it a message is refused with SYSTEM_BUSY.
        message_bytes: of one body; above it a message is refused with MESSAGE_ILLEGAL.
        popped: messages that may be invisible at a time. Above it a pop gets none.
        waiting: pulls and pops that may wait for messages; above it they are answered at once.
        delay: a factor of the delays of DELAYS. Tests make it small.
        lock: seconds that a queue stays locked.
        check_after, checks: seconds after which the producer of a half message is asked, and how often before it is rolled back.
        accounts: access key -> secret key. None: requests need no signature.
        permissions: what the accounts may do; None: everything.
    """

    name: str = "broker-a"
    cluster: str = "wirefmt"
    queues: int = 4
    topics: int = 1000
    groups: int = 1000
    queue_messages: int = 100_000
    stored_bytes: int = 1 << 28
    message_bytes: int = 1 << 22
    popped: int = 100_000
    waiting: int = 10_000
    delay: float = 1.0
    lock: float = 60.0
    check_after: float = 6.0
    checks: int = 15
    accounts: Mapping[str, str] | None = field(default=None, repr=False)
    permissions: Permissions | None = None


class SendFields(NamedTuple):
    """Names of the fields of a message's header. They are read one by one, since this is done for every message."""

    topic: str
    default_topic_queue_nums: str
    queue_id: str
    sys_flag: str
    born_timestamp: str
    flag: str
    properties: str
    reconsume_times: str
    batch: str


SEND_LONG: Final = SendFields(
    "topic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "batch",
)
SEND_SHORT: Final = SendFields("b", "d", "e", "f", "g", "h", "i", "j", "m")


class Answer(NamedTuple):
    code: int = SUCCESS
    header: Any = None
    body: bytes | None = None
    remark: str | None = None


class Stored(NamedTuple):
    frame: bytes
    tags: str | None
    physical: int
    time: float  # seconds since 1970


class Queue:
    """Messages in order; the first has the offset `base`."""

    __slots__ = ("base", "messages")

    def __init__(self) -> None:
        self.base = 0
        self.messages: deque[Stored] = deque()

    @property
    def end(self) -> int:
        return self.base + len(self.messages)


class Waiting:
    """A pull or a pop that waits for messages. `again`: answers it, or returns None to wait on."""

    __slots__ = ("again", "event", "peer", "timer", "topic")

    def __init__(self, peer: Peer, event: RemotingCommand, topic: str, again: Callable[[], Answer | None]) -> None:
        self.peer = peer
        self.event = event
        self.topic = topic
        self.again = again
        self.timer: asyncio.TimerHandle | None = None


class Member:
    """One client of a group. `topics`: its subscriptions."""

    __slots__ = ("peer", "topics")

    def __init__(self, peer: Peer, topics: dict[str, str]) -> None:
        self.peer = peer
        self.topics = topics


class Popped:
    """A message that is invisible to its group. `timer` brings it back."""

    __slots__ = ("message", "timer")

    def __init__(self, message: MessageExt, timer: asyncio.TimerHandle) -> None:
        self.message = message
        self.timer = timer


class Half:
    """A half message, until the producer decides."""

    __slots__ = ("checks", "message", "timer")

    def __init__(self, message: MessageExt) -> None:
        self.message = message
        self.checks = 0
        self.timer: asyncio.TimerHandle | None = None


_FIELDS: Final = tuple(name for name in MessageExt.__match_args__ if name != "version")


def _fields(message: MessageExt) -> dict[str, Any]:
    """What a message like this one is made of."""
    return {name: getattr(message, name) for name in _FIELDS}


class Broker:
    """A name server and broker in memory.

    Attributes:
        address: "host:port" that routes tell clients.
        topics: name -> queues.
        offsets: (group, topic, queue id) -> what the group has consumed.
        consumers, producers: group -> client id -> member.
    """

    def __init__(self, options: BrokerOptions | None = None, address: str = "127.0.0.1:9876") -> None:
        self.options = options or BrokerOptions()
        self.address = address
        self._timers: set[asyncio.TimerHandle] = set()
        self._start()
        self._codes: dict[int, Callable[[Peer, RemotingCommand], Answer | None]] = {
            10: self._send,
            11: self._pull,
            14: self._query_offset,
            15: self._update_offset,
            29: self._search_offset,
            30: self._max_offset,
            31: self._min_offset,
            33: self._view,
            34: self._heartbeat,
            35: self._unregister,
            36: self._send_back,
            37: self._end_transaction,
            38: self._members,
            41: self._lock,
            42: self._unlock,
            105: self._route,
            310: self._send,
            320: self._send,
            361: self._pull,  # LITE_PULL_MESSAGE
            200050: self._pop,
            200051: self._ack,
            200053: self._change_invisible,
        }

    def _start(self) -> None:
        """Nothing is stored, and nobody is there."""
        self.topics: dict[str, list[Queue]] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.consumers: dict[str, dict[str, Member]] = {}
        self.producers: dict[str, dict[str, Member]] = {}
        self.stored_bytes = 0
        self.dropped = 0
        self._position = 0
        self._places: dict[int, tuple[str, int, int]] = {}  # physical offset -> topic, queue id, offset
        self._waiting: dict[str, dict[int, Waiting]] = {}  # by topic and identity of the event
        self._waiters = 0
        self._locks: dict[tuple[str, str, int], tuple[str, float]] = {}
        self._halves: dict[int, Half] = {}
        self._last_pop_time = 0
        self._pop_next: dict[tuple[str, str, int], int] = {}
        self._popped: dict[tuple[str, str, int, int, int], Popped] = {}  # group, topic, queue id, offset, pop time
        self._revived: dict[tuple[str, str], deque[MessageExt]] = {}

    @property
    def address(self) -> str:
        return self._address

    @address.setter
    def address(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._host = (host, int(port))
        self._address = address

    def close(self) -> None:
        """Forget everything, and stop the timers. Close the servers first, or drop their clients."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._start()

    # ---- the host of all clients

    def handle(self, peer: Peer, event: Event) -> None:
        if isinstance(event, RemotingCommand):
            self._serve(peer, event)
        elif isinstance(event, Disconnected):
            self._gone(peer)

    def writable(self, peer: Peer) -> None:
        """Nothing waits for it: answers are bounded by requests."""

    def closed(self, peer: Peer) -> None:
        """`Disconnected` came before."""

    def _serve(self, peer: Peer, event: RemotingCommand) -> None:
        accounts = self.options.accounts
        serve = self._codes.get(event.code)
        answer: Answer | None
        if accounts is not None and not is_signed(event, accounts.get):
            answer = Answer(NO_PERMISSION, remark="the request has no valid signature")
        elif self.options.permissions is not None and (needs := rocketmq_refused(self.options.permissions, event)):
            answer = Answer(NO_PERMISSION, remark=needs)
        elif serve is None:
            answer = Answer(3, remark=f" request type {event.code} not supported")
        else:
            try:
                answer = serve(peer, event)
            except (
                DecodeError,
                KeyError,
                TypeError,
                ValueError,
                AttributeError,
            ) as error:  # a field is missing or wrong
                answer = Answer(SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        if answer is not None:
            self._answer(peer, event, answer)

    def _answer(self, peer: Peer, event: RemotingCommand, answer: Answer) -> None:
        if not event.is_oneway:
            try:
                peer.respond(event, answer.code, answer.header, answer.body, remark=answer.remark)
            except LocalProtocolError:
                pass  # its connection has ended, and `Disconnected` follows

    def _gone(self, peer: Peer) -> None:
        for waiting in [w for some in self._waiting.values() for w in some.values() if w.peer is peer]:
            self._forget(waiting)
        for group, clients in list(self.consumers.items()):
            for client in [c for c, member in clients.items() if member.peer is peer]:
                self._leave(group, client)
        for clients in self.producers.values():
            for client in [c for c, member in clients.items() if member.peer is peer]:
                del clients[client]

    # ---- time

    def _later(self, seconds: float, call: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        def run() -> None:
            self._timers.discard(timer)
            call(*arguments)

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)
        return timer

    def _stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
            self._timers.discard(timer)

    # ---- name server

    def _route(self, peer: Peer, event: RemotingCommand) -> Answer:
        topic = (event.ext_fields or {}).get("topic", "")
        queues = self.topics.get(topic)
        if queues is None and topic != DEFAULT_TOPIC:
            return Answer(TOPIC_NOT_EXIST, remark=f"No topic route info in name server for the topic: {topic}")
        count = len(queues) if queues is not None else self.options.queues
        route = rocketmq.TopicRouteData(
            broker_datas=[
                rocketmq.BrokerData(
                    cluster=self.options.cluster, broker_name=self.options.name, broker_addrs={0: self.address}
                )
            ],
            queue_datas=[
                rocketmq.QueueData(
                    broker_name=self.options.name,
                    read_queue_nums=count,
                    write_queue_nums=count,
                    perm=7 if topic == DEFAULT_TOPIC else 6,
                    topic_sys_flag=0,
                )
            ],
            filter_server_table={},
        )
        strict = (event.ext_fields or {}).get("acceptStandardJsonOnly") == "true" or event.version >= 401
        return Answer(body=route.encode(loose=not strict))

    # ---- groups

    def _heartbeat(self, peer: Peer, event: RemotingCommand) -> Answer:
        data = rocketmq.HeartbeatData.decode(event.body_bytes() or b"")
        client = data.client_id or ""
        for producer in data.producer_data_set or ():
            if not self._join(self.producers, producer.group_name or "", client, Member(peer, {})):
                return Answer(SYSTEM_BUSY, remark="too many groups")
        for consumer in data.consumer_data_set or ():
            group = consumer.group_name or ""
            topics = {s.topic or "": s.sub_string or "*" for s in consumer.subscription_data_set or ()}
            known = self.consumers.get(group, {}).get(client)
            if not self._join(self.consumers, group, client, Member(peer, topics)):
                return Answer(SYSTEM_BUSY, remark="too many groups")
            if f"%RETRY%{group}" in topics:
                self.topic(f"%RETRY%{group}", 1)
            if known is None or known.topics != topics:
                self._notify(group)
        return Answer()

    def _join(self, groups: dict[str, dict[str, Member]], group: str, client: str, member: Member) -> bool:
        if group not in groups and len(groups) >= self.options.groups:
            return False
        groups.setdefault(group, {})[client] = member
        return True

    def _unregister(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.UnregisterClientRequestHeader)
        if header.producer_group:
            self.producers.get(header.producer_group, {}).pop(header.client_id, None)
        if header.consumer_group:
            self._leave(header.consumer_group, header.client_id)
        return Answer()

    def _leave(self, group: str, client: str) -> None:
        if self.consumers.get(group, {}).pop(client, None) is not None:
            for key in [k for k, (owner, _) in self._locks.items() if k[0] == group and owner == client]:
                del self._locks[key]
            self._notify(group)

    def _notify(self, group: str) -> None:
        """Tell the members that they have to share the queues anew."""
        for member in self.consumers.get(group, {}).values():
            try:
                member.peer.request(
                    40, rocketmq.NotifyConsumerIdsChangedRequestHeader(consumer_group=group), oneway=True
                )
            except LocalProtocolError:
                continue  # it is ending

    def _members(self, peer: Peer, event: RemotingCommand) -> Answer:
        group = event.decode_header(rocketmq.GetConsumerListByGroupRequestHeader).consumer_group
        clients = list(self.consumers.get(group, ()))
        if not clients:
            return Answer(SYSTEM_ERROR, remark=f"no consumer for this group, {group}")
        return Answer(body=rocketmq.GetConsumerListByGroupResponseBody(consumer_id_list=clients).encode())

    def _lock(self, peer: Peer, event: RemotingCommand) -> Answer:
        body = rocketmq.LockBatchRequestBody.decode(event.body_bytes() or b"{}")
        group, client, now = body.consumer_group or "", body.client_id or "", time.monotonic()
        got = []
        for queue in body.mq_set or ():
            key = (group, queue.topic or "", queue.queue_id or 0)
            owner, until = self._locks.get(key, (client, 0.0))
            if (owner == client or until < now) and key[2] < len(self.topics.get(key[1], ())):
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

    # ---- messages in

    def topic(self, name: str, queues: int | None = None) -> list[Queue] | None:
        """The queues of a topic, which is made if there is none; None: there are too many topics."""
        found = self.topics.get(name)
        if found is None and len(self.topics) < self.options.topics:
            found = self.topics[name] = [Queue() for _ in range(queues or self.options.queues)]
        return found

    def _send(self, peer: Peer, event: RemotingCommand) -> Answer:
        given = event.ext_fields or {}
        field = SEND_LONG if event.code == 10 else SEND_SHORT
        topic, properties = given[field.topic], given.get(field.properties) or ""
        body = event.body_bytes() or b""
        if not NAME.match(topic):
            return Answer(SYSTEM_ERROR, remark="the topic has characters that are not of ^[%|a-zA-Z0-9_-]+$")
        if len(body) > self.options.message_bytes or len(properties) > 32767:
            return Answer(MESSAGE_ILLEGAL, remark="the message is too large")
        if self.stored_bytes + len(body) > self.options.stored_bytes:
            return Answer(SYSTEM_BUSY, remark="the memory for messages is full")
        queue_id, sys_flag = int(given[field.queue_id]), int(given[field.sys_flag])
        wanted = int(given[field.default_topic_queue_nums])
        queues = self.topic(topic, max(1, min(wanted, 16)))
        if queues is None:
            return Answer(SYSTEM_BUSY, remark="too many topics")
        if queue_id < 0:
            queue_id = self._position % len(queues)
        if queue_id >= len(queues):
            return Answer(SYSTEM_ERROR, remark=f"queueId[{queue_id}] is illegal")
        address = peer.address
        base: dict[str, Any] = {
            "topic": topic,
            "queue_id": queue_id,
            "born_timestamp": int(given[field.born_timestamp]),
            "born_host": (address[0], address[1]) if address else ("127.0.0.1", 0),
            "reconsume_times": int(given.get(field.reconsume_times) or 0),
        }
        if event.code == 320 or given.get(field.batch) == "true":
            stored = [
                self._store({**base, "body": m.body, "properties": m.properties, "flag": m.flag})
                for m in rocketmq.decode_batch_messages(body)
            ]
            if not stored:
                return Answer(MESSAGE_ILLEGAL, remark="a batch without messages")
        else:
            fields = {
                **base,
                "body": body,
                "properties": properties,
                "flag": int(given[field.flag]),
                "sys_flag": sys_flag,
            }
            if sys_flag & TRANSACTION_BITS == PREPARED:
                return self._hold(MessageExt(**fields))
            level = rocketmq.decode_properties(properties).get("DELAY") if "DELAY" in properties else None
            if level is not None and level.isascii() and level.isdigit() and int(level):
                seconds = DELAYS[min(int(level), len(DELAYS)) - 1] * self.options.delay
                stored = [self._placed(MessageExt(**fields), 0)]
                self._store_later(seconds, fields)
            else:
                stored = [self._store(fields)]
        identifiers = ",".join(m.offset_msg_id for m in stored)
        return Answer(header=self._sent(stored[0], identifiers))

    def _sent(self, message: MessageExt, identifiers: str) -> rocketmq.SendMessageResponseHeader:
        return rocketmq.SendMessageResponseHeader(
            msg_id=identifiers,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            transaction_id=(message.properties or {}).get("UNIQ_KEY"),
        )

    def _place(self, offset: int) -> dict[str, Any]:
        """Where the next message lies in the log."""
        return {
            "queue_offset": offset,
            "physical_offset": self._position,
            "store_timestamp": int(time.time() * 1000),
            "store_host": self._host,
        }

    def _placed(self, message: MessageExt, offset: int) -> MessageExt:
        """The message with the next place in the log, which is not taken."""
        return MessageExt(**{**_fields(message), **self._place(offset)})

    def _store(self, fields: dict[str, Any]) -> MessageExt:
        """Store a message, and serve those who wait for one."""
        topic, queue_id = fields["topic"], fields["queue_id"]
        queue = self.topics[topic][queue_id]
        message = MessageExt(**{**fields, **self._place(queue.end)})
        frame = message.encode()
        self._places[self._position] = (topic, queue_id, queue.end)
        queue.messages.append(Stored(frame, message.tags, self._position, time.time()))
        self._position += len(frame)
        self.stored_bytes += len(frame)
        if len(queue.messages) > self.options.queue_messages:
            oldest = queue.messages.popleft()
            queue.base += 1
            self.stored_bytes -= len(oldest.frame)
            self._places.pop(oldest.physical, None)
            self.dropped += 1
        if topic in self._waiting:
            self._wake(topic)
        return message

    def _find(self, physical: int) -> MessageExt | None:
        """A stored message by its physical offset."""
        place = self._places.get(physical)
        if place is None:
            return None
        topic, queue_id, offset = place
        queue = self.topics[topic][queue_id]
        (message,) = rocketmq.decode_messages(queue.messages[offset - queue.base].frame, decompress=False)
        return message

    def _view(self, peer: Peer, event: RemotingCommand) -> Answer:
        message = self._find(event.decode_header(rocketmq.ViewMessageRequestHeader).offset)
        if message is None:
            return Answer(SYSTEM_ERROR, remark="can not find message by the offset")
        return Answer(body=message.encode())

    def _send_back(self, peer: Peer, event: RemotingCommand) -> Answer:
        """A consumer has failed: deliver it again later, or put it to the dead letters."""
        header = event.decode_header(rocketmq.ConsumerSendMsgBackRequestHeader)
        message = self._find(header.offset)
        if message is None:
            return Answer(SYSTEM_ERROR, remark="can not find message by the offset")
        if self.stored_bytes + len(message.body or b"") > self.options.stored_bytes:
            return Answer(SYSTEM_BUSY, remark="the memory for messages is full")
        most = MOST_RETRIES if header.max_reconsume_times is None else header.max_reconsume_times
        dead = message.reconsume_times >= most or header.delay_level < 0
        topic = f"{'%DLQ%' if dead else '%RETRY%'}{header.group}"
        if self.topic(topic, 1) is None:
            return Answer(SYSTEM_BUSY, remark="too many topics")
        properties = dict(message.properties or {})
        properties.setdefault("RETRY_TOPIC", message.topic)
        properties.setdefault("ORIGIN_MESSAGE_ID", message.offset_msg_id)
        properties.pop("DELAY", None)
        again = {
            **_fields(message),
            "topic": topic,
            "queue_id": 0,
            "properties": properties,
            "reconsume_times": message.reconsume_times + 1,
        }
        if dead:
            self._store(again)
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
            self._store_later(DELAYS[min(level, len(DELAYS)) - 1] * self.options.delay, again)
        return Answer()

    def _store_later(self, seconds: float, fields: dict[str, Any]) -> None:
        """Store a message after a time. It counts as stored meanwhile."""
        size = len(fields["body"] or b"")
        self.stored_bytes += size

        def store() -> None:
            self.stored_bytes -= size
            self._store(fields)

        self._later(seconds, store)

    # ---- transactions

    def _hold(self, message: MessageExt) -> Answer:
        placed = self._placed(message, len(self._halves))
        size = len(placed.encode())
        self._position += size
        self.stored_bytes += size
        half = self._halves[placed.physical_offset] = Half(placed)
        half.timer = self._later(self.options.check_after, self._check, placed.physical_offset)
        return Answer(header=self._sent(placed, placed.offset_msg_id))

    def _end_transaction(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.EndTransactionRequestHeader)
        half = self._halves.get(header.commit_log_offset)
        if half is None:
            return Answer(SYSTEM_ERROR, remark="there is no such half message")
        if header.commit_or_rollback in (COMMIT, ROLLBACK):
            self._finish(header.commit_log_offset, half, commit=header.commit_or_rollback == COMMIT)
        return Answer()

    def _finish(self, physical: int, half: Half, *, commit: bool) -> None:
        del self._halves[physical]
        self._stop(half.timer)
        self.stored_bytes -= len(half.message.encode())
        if commit:
            flags = half.message.sys_flag & ~TRANSACTION_BITS | COMMIT
            self._store({**_fields(half.message), "sys_flag": flags})

    def _check(self, physical: int) -> None:
        """Ask a producer of the group."""
        half = self._halves[physical]
        if half.checks >= self.options.checks:
            self._finish(physical, half, commit=False)
            return
        half.timer = self._later(self.options.check_after, self._check, physical)
        properties = half.message.properties or {}
        for member in self.producers.get(properties.get("PGROUP", ""), {}).values():
            header = rocketmq.CheckTransactionStateRequestHeader(
                topic=half.message.topic,
                tran_state_table_offset=half.message.queue_offset,
                commit_log_offset=physical,
                msg_id=properties.get("UNIQ_KEY"),
                transaction_id=properties.get("UNIQ_KEY"),
                offset_msg_id=half.message.offset_msg_id,
            )
            try:
                member.peer.request(39, header, half.message.encode(), oneway=True)
            except LocalProtocolError:
                continue
            half.checks += 1
            return  # one of them; without any there is nobody to ask, and that does not count

    # ---- messages out

    def _wake(self, topic: str) -> None:
        for waiting in list(self._waiting.get(topic, {}).values()):
            answer = waiting.again()
            if answer is not None:
                self._forget(waiting)
                self._answer(waiting.peer, waiting.event, answer)

    def _wait(
        self,
        peer: Peer,
        event: RemotingCommand,
        topic: str,
        seconds: float,
        again: Callable[[], Answer | None],
        end: Answer,
    ) -> Answer | None:
        if seconds <= 0 or self._waiters >= self.options.waiting:
            return end
        waiting = Waiting(peer, event, topic, again)
        self._waiting.setdefault(topic, {})[id(event)] = waiting
        self._waiters += 1
        waiting.timer = self._later(min(seconds, 60.0), self._over, waiting, end)
        return None

    def _over(self, waiting: Waiting, end: Answer) -> None:
        self._forget(waiting)
        self._answer(waiting.peer, waiting.event, end)

    def _forget(self, waiting: Waiting) -> None:
        some = self._waiting.get(waiting.topic, {})
        if some.pop(id(waiting.event), None) is not None:
            self._waiters -= 1
            if not some:
                del self._waiting[waiting.topic]
        self._stop(waiting.timer)

    def _pull(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        header = event.decode_header(rocketmq.PullMessageRequestHeader)
        queues = self.topics.get(header.topic)
        if queues is None:
            return Answer(TOPIC_NOT_EXIST, remark=f"topic[{header.topic}] not exist")
        if not 0 <= header.queue_id < len(queues):
            return Answer(SYSTEM_ERROR, remark=f"queueId[{header.queue_id}] is illegal")
        if header.sys_flag & SUBSCRIPTION:
            expression = header.subscription or "*"
        else:
            member = next(iter(self.consumers.get(header.consumer_group, {}).values()), None)
            if member is None or header.topic not in member.topics:
                return Answer(SUBSCRIPTION_NOT_EXIST, remark="the consumer's subscription not exist")
            expression = member.topics[header.topic]
        if header.sys_flag & 1 and header.commit_offset > 0:
            self._commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        queue = queues[header.queue_id]
        tags = {tag.strip() for tag in expression.split("||")} if expression not in ("", "*") else set()
        most = max(1, min(header.max_msg_nums, 1024))

        def look() -> Answer | None:
            begin = header.queue_offset
            if begin > queue.end or begin < queue.base:
                return self._pulled(PULL_OFFSET_MOVED, queue, queue.end if begin > queue.end else queue.base)
            found: list[bytes] = []
            size, at = 0, begin
            while at < queue.end and len(found) < most and size < 1 << 18:
                stored = queue.messages[at - queue.base]
                at += 1
                if not tags or stored.tags in tags:
                    found.append(stored.frame)
                    size += len(stored.frame)
            if found:
                return self._pulled(SUCCESS, queue, at, b"".join(found))
            return self._pulled(PULL_RETRY_IMMEDIATELY, queue, at) if at > begin else None

        answer = look()
        if answer is not None:
            return answer
        seconds = header.suspend_timeout_millis / 1000 if header.sys_flag & SUSPEND else 0.0
        end = self._pulled(PULL_NOT_FOUND, queue, header.queue_offset)
        return self._wait(peer, event, header.topic, seconds, look, end)

    def _pulled(self, code: int, queue: Queue, following: int, body: bytes | None = None) -> Answer:
        header = rocketmq.PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=following, min_offset=queue.base, max_offset=queue.end
        )
        return Answer(code, header, body)

    # ---- offsets

    def _query_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.QueryConsumerOffsetRequestHeader)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            return Answer(QUERY_NOT_FOUND, remark="Not found, maybe this group consumer boot first")
        return Answer(header=rocketmq.QueryConsumerOffsetResponseHeader(offset=offset))

    def _update_offset(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.UpdateConsumerOffsetRequestHeader)
        self._commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return Answer()

    def _commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        room = (group, topic, queue_id) in self.offsets or len(self.offsets) < self.options.groups * 100
        if room and 0 <= queue_id < len(self.topics.get(topic, ())):
            self.offsets[group, topic, queue_id] = offset

    def _queue_of(self, header: Any) -> Queue:
        queues = self.topics.get(header.topic, [])
        if not 0 <= header.queue_id < len(queues):
            raise ValueError(f"topic {header.topic} has no queue {header.queue_id}")
        queue: Queue = queues[header.queue_id]
        return queue

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

    # ---- pop

    def _pop(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        header = event.decode_header(rocketmq.PopMessageRequestHeader)
        queues = self.topics.get(header.topic)
        if queues is None:
            return Answer(TOPIC_NOT_EXIST, remark=f"topic[{header.topic}] not exist")
        group, topic = header.consumer_group, header.topic
        wanted = (
            range(len(queues)) if header.queue_id < 0 else range(header.queue_id, min(header.queue_id + 1, len(queues)))
        )
        expression = header.exp or "*"
        tags = {tag.strip() for tag in expression.split("||")} if expression != "*" else set()
        most = max(0, min(header.max_msg_nums, 32, self.options.popped - len(self._popped)))
        invisible = max(header.invisible_time, 1)

        def look() -> Answer | None:
            found: list[MessageExt] = []
            revived = self._revived.get((group, topic))
            while revived and len(found) < most:
                found.append(revived.popleft())
            for queue_id in wanted:
                queue, key = queues[queue_id], (group, topic, queue_id)
                at = max(self._pop_next.get(key, 0 if header.init_mode == 0 else queue.end), queue.base)
                while at < queue.end and len(found) < most:
                    stored = queue.messages[at - queue.base]
                    at += 1
                    if not tags or stored.tags in tags:
                        found += rocketmq.decode_messages(stored.frame, decompress=False)
                self._pop_next[key] = at
            if not found:
                return None
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
            return Answer(SUCCESS, answer, body)

        answer = look()
        if answer is not None:
            return answer
        return self._wait(peer, event, topic, header.poll_time / 1000, look, Answer(POLLING_TIMEOUT))

    def _pop_time(self) -> int:
        """Milliseconds since 1970, never the same twice: an acknowledgement names its pop by it."""
        self._last_pop_time = max(int(time.time() * 1000), self._last_pop_time + 1)
        return self._last_pop_time

    def _hide(self, group: str, topic: str, message: MessageExt, now: int, invisible: int) -> MessageExt:
        """The message with what acknowledges it; it comes back when its time is over."""
        info = ExtraInfo(
            message.queue_offset, now, invisible, 0, "0", self.options.name, message.queue_id, message.queue_offset
        )
        properties = {**(message.properties or {}), "POP_CK": rocketmq.encode_extra_info(info)}
        key = (group, topic, message.queue_id, message.queue_offset, now)
        self._popped[key] = Popped(message, self._later(invisible / 1000, self._revive, key))
        return MessageExt(**{**_fields(message), "properties": properties})

    def _revive(self, key: tuple[str, str, int, int, int]) -> None:
        message = self._popped.pop(key).message
        fields = {**_fields(message), "reconsume_times": message.reconsume_times + 1}
        if message.reconsume_times >= MOST_RETRIES:
            if self.topic(f"%DLQ%{key[0]}", 1) is not None:
                self._store({**fields, "topic": f"%DLQ%{key[0]}", "queue_id": 0})
            return
        again = MessageExt(**fields)
        self._revived.setdefault((key[0], key[1]), deque()).append(again)
        self._wake(key[1])

    def _take(self, header: Any) -> tuple[tuple[str, str, int, int, int], Popped] | None:
        info = rocketmq.decode_extra_info(header.extra_info)
        key = (header.consumer_group, header.topic, header.queue_id, header.offset, info.pop_time)
        popped = self._popped.pop(key, None)
        if popped is None:
            return None
        self._stop(popped.timer)
        return key, popped

    def _ack(self, peer: Peer, event: RemotingCommand) -> Answer:
        if self._take(event.decode_header(rocketmq.AckMessageRequestHeader)) is None:
            return Answer(208, remark="the message is not invisible")  # NO_MESSAGE
        return Answer()

    def _change_invisible(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.ChangeInvisibleTimeRequestHeader)
        taken = self._take(header)
        if taken is None:
            return Answer(208, remark="the message is not invisible")
        (group, topic, _, _, _), popped = taken
        now = self._pop_time()
        self._hide(group, topic, popped.message, now, max(header.invisible_time, 1))
        answer = rocketmq.ChangeInvisibleTimeResponseHeader(
            pop_time=now, invisible_time=max(header.invisible_time, 1), revive_qid=0
        )
        return Answer(header=answer)
