"""Messages in: from producers, and back from consumers that have failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from wirefmt import rocketmq
from wirefmt.broker.rocketmq.answers import Answer, Steps
from wirefmt.broker.rocketmq.clients import Clients
from wirefmt.broker.rocketmq.groups import Groups
from wirefmt.broker.rocketmq.log import ENTRY, Log, fields_of
from wirefmt.broker.rocketmq.options import DELAYS, FIRST_RETRY_LEVEL, MOST_RETRIES, BrokerOptions
from wirefmt.broker.rocketmq.transactions import PREPARED, Transactions
from wirefmt.broker.shares import Holder
from wirefmt.rocketmq import Message, MessageExt, RemotingCommand
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.server import Peer
from wirefmt.rocketmq.spec import DLQ_PREFIX, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, SYS_FLAG_TRANSACTION
from wirefmt.rocketmq.subscriptions import retry_topic

NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,255}\Z")

#: Messages of a batch that are read in one step, what storing one costs (`Driver.spend`), and the bytes of its frame that the
#: batch does not have.
TOGETHER: Final = 256
ALONE: Final = 8
FRAME: Final = 80

#: Octets of a message's properties (section 8), and queues of a topic that a producer makes.
PROPERTIES_MAX: Final = 32767
QUEUES_MAX: Final = 16


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


def _queues(asked: str | None) -> int:
    """How many queues a topic gets."""
    return max(1, min(int(asked or ""), QUEUES_MAX))


def parts_of(body: bytes) -> Iterator[bytes]:
    """A batch in parts of TOGETHER messages, each of which begins with its size. What is not plain is part of the last one."""
    begin = at = count = 0
    while at + 4 <= len(body) and 4 <= (size := int.from_bytes(body[at : at + 4], "big")) <= len(body) - at:
        at += size
        count += 1
        if count == TOGETHER:
            yield body[begin:at]
            begin, count = at, 0
    if begin < len(body):
        yield body[begin:]


def sent(message: MessageExt, identifiers: str, transaction_id: str | None) -> Answer:
    """The answer to a message, or to a batch of them of which this is the first."""
    header = rocketmq.SendMessageResponseHeader(
        msg_id=identifiers,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        transaction_id=transaction_id,
    )
    return Answer(header=header)


class Sending:
    """What is stored has the property CLUSTER, as the real broker adds it: replies are sent by it."""

    def __init__(
        self, options: BrokerOptions, clients: Clients, log: Log, groups: Groups, transactions: Transactions
    ) -> None:
        self.options = options
        self._clients = clients
        self._log = log
        self._groups = groups
        self._transactions = transactions

    def send(self, peer: Peer, event: RemotingCommand) -> Answer | Steps:
        given = event.ext_fields or {}
        field = SEND_LONG if event.code == RequestCode.SEND_MESSAGE else SEND_SHORT
        topic, properties = given[field.topic] or "", given.get(field.properties) or ""
        body = event.body_bytes() or b""
        if topic not in self._log.topics and not NAME.match(topic):
            return Answer(
                ResponseCode.SYSTEM_ERROR, remark="the topic has characters that are not of ^[%|a-zA-Z0-9_-]+$"
            )
        if properties and properties[-1] != PROPERTY_SEPARATOR:
            properties += PROPERTY_SEPARATOR
        properties += f"CLUSTER{NAME_VALUE_SEPARATOR}{self.options.cluster}{PROPERTY_SEPARATOR}"
        if len(body) > self.options.message_bytes or len(properties) > PROPERTIES_MAX:
            return Answer(ResponseCode.MESSAGE_ILLEGAL, remark="the message is too large")
        holder = self._clients.holders[peer]
        if not self._log.has_capacity(len(body) + len(properties) + ENTRY, holder):
            return Answer(ResponseCode.SYSTEM_BUSY, remark="the memory for messages is full")
        queue_id, sys_flag = int(given[field.queue_id] or ""), int(given[field.sys_flag] or "")
        queues = self._log.topics.get(topic) or self._log.topic(
            topic, _queues(given[field.default_topic_queue_nums]), holder
        )
        if queues is None:
            return Answer(ResponseCode.SYSTEM_BUSY, remark="too many topics")
        if queue_id < 0:
            queue_id = self._log.position % len(queues)
        if queue_id >= len(queues):
            return Answer(ResponseCode.SYSTEM_ERROR, remark=f"queueId[{queue_id}] is illegal")
        address = peer.address
        base: dict[str, Any] = {
            "topic": topic,
            "queue_id": queue_id,
            "born_timestamp": int(given[field.born_timestamp] or ""),
            "born_host": (address[0], address[1]) if isinstance(address, tuple) else ("127.0.0.1", 0),
            "reconsume_times": int(given.get(field.reconsume_times) or 0),
        }
        if event.code == RequestCode.SEND_BATCH_MESSAGE or given.get(field.batch) == "true":
            return self._send_batch(base, body, holder)
        fields = {
            **base,
            "body": body,
            "properties": properties,
            "flag": int(given[field.flag] or ""),
            "sys_flag": sys_flag,
        }
        named = rocketmq.decode_properties(properties)
        if sys_flag & SYS_FLAG_TRANSACTION == PREPARED:
            message = self._transactions.hold(fields, holder)
        elif (level := named.get("DELAY")) is not None and level.isascii() and level.isdigit() and int(level):
            message = self._log.placed(fields, 0)
            self._log.store_later(DELAYS[min(int(level), len(DELAYS)) - 1] * self.options.delay, fields, holder)
        else:
            message = self._log.store(fields, holder)
        return sent(message, self._log.id_of(message), named.get("UNIQ_KEY"))

    def _send_batch(self, base: dict[str, Any], body: bytes, holder: Holder) -> Steps:
        messages: list[Message] = []
        for part in parts_of(body):
            messages += rocketmq.decode_batch_messages(part)
            yield len(messages)
        if not messages:
            return Answer(ResponseCode.MESSAGE_ILLEGAL, remark="a batch without messages")
        cluster = {"CLUSTER": self.options.cluster}
        count, first = len(messages), messages[0].properties.get("UNIQ_KEY")
        if not self._log.has_capacity(len(body) + count * (ENTRY + FRAME), holder):
            return Answer(ResponseCode.SYSTEM_BUSY, remark="the memory for messages is full")
        stored: list[MessageExt] = []
        for m in messages:
            fields = {**base, "body": m.body, "properties": {**m.properties, **cluster}, "flag": m.flag}
            stored.append(self._log.store(fields, holder))
            yield ALONE
        return sent(stored[0], ",".join(map(self._log.id_of, stored)), first)

    def view(self, peer: Peer, event: RemotingCommand) -> Answer:
        message = self._log.find(event.decode_header(rocketmq.ViewMessageRequestHeader).offset)
        if message is None:
            return Answer(ResponseCode.SYSTEM_ERROR, remark="can not find message by the offset")
        return Answer(body=message.encode())

    def send_back(self, peer: Peer, event: RemotingCommand) -> Answer:
        """A consumer has failed: deliver the message again later, or put it to the dead letters."""
        header = event.decode_header(rocketmq.ConsumerSendMsgBackRequestHeader)
        message = self._log.find(header.offset)
        if message is None:
            return Answer(ResponseCode.SYSTEM_ERROR, remark="can not find message by the offset")
        holder = self._clients.holders[peer]
        if not self._log.has_capacity(len(message.body or b"") + ENTRY, holder):
            return Answer(ResponseCode.SYSTEM_BUSY, remark="the memory for messages is full")
        most = MOST_RETRIES if header.max_reconsume_times is None else header.max_reconsume_times
        dead = message.reconsume_times >= most or header.delay_level < 0
        topic = f"{DLQ_PREFIX}{header.group}" if dead else retry_topic(header.group)
        if self._log.topic(topic, 1, holder) is None:
            return Answer(ResponseCode.SYSTEM_BUSY, remark="too many topics")
        self._groups.consumes(header.group, message.topic)
        properties = dict(message.properties or {})
        properties.setdefault("RETRY_TOPIC", message.topic)
        properties.setdefault("ORIGIN_MESSAGE_ID", message.offset_msg_id)
        properties.pop("DELAY", None)
        again = {
            **fields_of(message),
            "topic": topic,
            "queue_id": 0,
            "properties": properties,
            "reconsume_times": message.reconsume_times + 1,
        }
        if dead:
            self._log.store(again, holder)
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
            self._log.store_later(DELAYS[min(level, len(DELAYS)) - 1] * self.options.delay, again, holder)
        return Answer()
