"""The name server: where topics are."""

from __future__ import annotations

from typing import Final

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer
from wirefmt.broker.rocketmq.log import Log
from wirefmt.broker.rocketmq.options import BrokerOptions
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.codes import ResponseCode
from wirefmt.rocketmq.producer import reply_topic
from wirefmt.rocketmq.routes import DEFAULT_TOPIC, MASTER
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import PERMISSIONS

#: Releases from 4.9.4 on read strict JSON only; earlier ones want names of members that are bare numbers (section 7.3).
STRICT_FROM = 401

#: Permissions of a topic, and of the one that is a template for others.
USABLE: Final = PERMISSIONS["READ"] | PERMISSIONS["WRITE"]
TEMPLATE: Final = USABLE | PERMISSIONS["INHERIT"]


class Names:
    """Routes. The broker itself is the only one."""

    def __init__(self, options: BrokerOptions, log: Log) -> None:
        self.options = options
        self._log = log

    @property
    def reply_topic(self) -> str:
        """The topic to which replies go."""
        return reply_topic(self.options.cluster)

    def route(self, peer: Peer, event: RemotingCommand) -> Answer:
        fields = event.ext_fields or {}
        topic = fields.get("topic") or ""
        queues = self._log.topic(topic, 1) if topic == self.reply_topic else self._log.topics.get(topic)
        if queues is None and topic != DEFAULT_TOPIC:
            return Answer(
                ResponseCode.TOPIC_NOT_EXIST, remark=f"No topic route info in name server for the topic: {topic}"
            )
        count = len(queues) if queues is not None else self.options.queues
        route = rocketmq.TopicRouteData(
            broker_datas=[
                rocketmq.BrokerData(
                    cluster=self.options.cluster,
                    broker_name=self.options.name,
                    broker_addrs={MASTER: self._log.address},
                )
            ],
            queue_datas=[
                rocketmq.QueueData(
                    broker_name=self.options.name,
                    read_queue_nums=count,
                    write_queue_nums=count,
                    perm=TEMPLATE if topic == DEFAULT_TOPIC else USABLE,
                    topic_sys_flag=0,
                )
            ],
            filter_server_table={},
        )
        strict = fields.get("acceptStandardJsonOnly") == "true" or event.version >= STRICT_FROM
        return Answer(body=route.encode(loose=not strict))
