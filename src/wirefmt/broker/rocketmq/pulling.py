"""Pulls: messages of a queue from an offset on."""

from __future__ import annotations

from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Clients
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.log import Log, Queue
from wirefmt.broker.rocketmq.offsets import Offsets
from wirefmt.broker.rocketmq.selecting import LOOKS_MAX, Wants, wants
from wirefmt.broker.rocketmq.waits import Waits
from wirefmt.rocketmq import PullMessageRequestHeader, PullMessageResponseHeader, RemotingCommand
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.pull_consumer import COMMIT_OFFSET, SUBSCRIPTION, SUSPEND
from wirefmt.rocketmq.server import Peer

#: Messages and octets of one response.
MESSAGES_MAX = 1024
OCTETS_MAX = 1 << 18


class Pulling:
    """A pull that finds nothing waits, if it says so."""

    def __init__(self, clients: Clients, log: Log, waits: Waits, groups: Groups, offsets: Offsets) -> None:
        self._clients = clients
        self._log = log
        self._waits = waits
        self._groups = groups
        self._offsets = offsets

    def pull(self, peer: Peer, event: RemotingCommand) -> Answer | None:
        header = event.decode_header(PullMessageRequestHeader)
        queues = self._log.topics.get(header.topic)
        if queues is None:
            return Answer(ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{header.topic}] not exist")
        if not 0 <= header.queue_id < len(queues):
            return Answer(ResponseCode.SYSTEM_ERROR, remark=f"queueId[{header.queue_id}] is illegal")
        wanted = self._wanted(peer, header)
        if isinstance(wanted, Answer):
            return wanted
        if header.sys_flag & COMMIT_OFFSET and header.commit_offset > 0:
            offset, holder = header.commit_offset, self._clients.holders[peer]
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, offset, holder)
        queue = queues[header.queue_id]

        def look() -> Answer | None:
            return self._look(queue, header.queue_offset, header.max_msg_nums, wanted)

        answer = look()
        if answer is not None:
            return answer
        seconds = header.suspend_timeout_millis / 1000 if header.sys_flag & SUSPEND else 0.0
        end = _pulled(ResponseCode.PULL_NOT_FOUND, queue, header.queue_offset)
        return self._waits.wait(peer, event, header.topic, header.queue_id, None, seconds, look, end)

    def _wanted(self, peer: Peer, header: PullMessageRequestHeader) -> Wants | Answer:
        """What the pull wants by its own expression, or by the heartbeats of its group."""
        if header.sys_flag & SUBSCRIPTION:
            try:
                return wants(header.subscription, header.expression_type)
            except ValueError:
                return Answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark="parse the consumer's subscription failed")
        found = self._groups.subscription(peer, header.consumer_group, header.topic)
        if found is None:
            return Answer(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark="the consumer's subscription not exist")
        if found.version < header.sub_version:
            return Answer(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark="the consumer's subscription not latest")
        if found.wrong:
            return Answer(
                ResponseCode.FILTER_DATA_NOT_EXIST, remark="the filter expression of the heartbeat cannot be parsed"
            )
        return found.wants

    def _look(self, queue: Queue, begin: int, count: int, wanted: Wants) -> Answer | None:
        """What the queue has from an offset on; None: nothing has arrived since."""
        if begin > queue.end or begin < queue.base:
            return _pulled(ResponseCode.PULL_OFFSET_MOVED, queue, queue.end if begin > queue.end else queue.base)
        most = max(1, min(count, MESSAGES_MAX))
        found: list[bytes] = []
        size, at, vain = 0, begin, 0
        while at < queue.end and len(found) < most and size < OCTETS_MAX and vain < LOOKS_MAX:
            stored = queue.at(at)
            at += 1
            if wanted is None or wanted(stored):
                found.append(stored.frame)
                size += len(stored.frame)
            else:
                vain += 1
        if found:
            return _pulled(ResponseCode.SUCCESS, queue, at, b"".join(found))
        return _pulled(ResponseCode.PULL_RETRY_IMMEDIATELY, queue, at) if at > begin else None


def _pulled(code: int, queue: Queue, following: int, body: bytes | None = None) -> Answer:
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0, next_begin_offset=following, min_offset=queue.base, max_offset=queue.end
    )
    return Answer(code, header, body)
