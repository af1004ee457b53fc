"""What groups have consumed of each queue."""

from __future__ import annotations

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.clients import Clients
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.log import Log
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.broker.shares import Holder
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.server import Peer


class Offsets:
    """The offsets, by group, topic and queue id."""

    def __init__(self, options: BrokerOptions, clients: Clients, log: Log, groups: Groups) -> None:
        self.options = options
        self._clients = clients
        self._log = log
        self._groups = groups
        self.offsets: dict[tuple[str, str, int], int] = {}
        self._holders: dict[tuple[str, str, int], Holder] = {}  # who has committed them first

    def query(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.QueryConsumerOffsetRequestHeader)
        offset = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if offset is None:
            # a new group starts with the first message as long as that is there, whatever the consumer would choose
            queues = self._log.topics.get(header.topic, ())
            queue = queues[header.queue_id] if 0 <= header.queue_id < len(queues) else None
            if header.set_zero_if_not_found is False or queue is None or queue.base or not len(queue):
                return Answer(ResponseCode.QUERY_NOT_FOUND, remark="Not found, maybe this group consumer boot first")
            offset = 0
        return Answer(header=rocketmq.QueryConsumerOffsetResponseHeader(offset=offset))

    def update(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.UpdateConsumerOffsetRequestHeader)
        if not self.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset, self._clients.holders[peer]
        ):
            return Answer(ResponseCode.SYSTEM_BUSY, remark="too many offsets")
        return Answer()

    def commit(self, group: str, topic: str, queue_id: int, offset: int, holder: Holder) -> bool:
        """Keep an offset of a queue that there is. False: there are too many."""
        if not 0 <= queue_id < len(self._log.topics.get(topic, ())):
            return True
        key, most = (group, topic, queue_id), self.options.groups * 100
        if key not in self.offsets:
            if len(self.offsets) >= most or self._clients.shares.lacks(holder, "offsets", most):
                return False
            self._holders[key] = holder
            holder.count("offsets")
        self.offsets[key] = offset
        self._groups.consumes(group, topic)
        return True

    def maximum(self, peer: Peer, event: RemotingCommand) -> Answer:
        queue = self._log.queue_of(event.decode_header(rocketmq.GetMaxOffsetRequestHeader))
        return Answer(header=rocketmq.GetMaxOffsetResponseHeader(offset=queue.end))

    def minimum(self, peer: Peer, event: RemotingCommand) -> Answer:
        queue = self._log.queue_of(event.decode_header(rocketmq.GetMinOffsetRequestHeader))
        return Answer(header=rocketmq.GetMinOffsetResponseHeader(offset=queue.base))

    def search(self, peer: Peer, event: RemotingCommand) -> Answer:
        header = event.decode_header(rocketmq.SearchOffsetRequestHeader)
        queue = self._log.queue_of(header)
        return Answer(header=rocketmq.SearchOffsetResponseHeader(offset=queue.since(header.timestamp / 1000)))
