"""The contents of the column `detail` for each kind of message of RocketMQ. src/wirefmt/_core/detail.pxi describes the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wirefmt.rocketmq.spec import HEADERS, REQUEST_CODES, SEND_MESSAGE_V2_LETTERS

#: Fields of headers that are omitted: of little interest, long, or with arbitrary contents.
_LEFT_OUT: Final = frozenset((
    *SEND_MESSAGE_V2_LETTERS, "properties", "defaultTopic", "defaultTopicQueueNums", "sysFlag", "flag", "bornTimestamp",
    "unitMode", "batch", "subVersion", "extraInfo", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo", "recallHandle",
    "registerCheckCode", "bornTime", "value", "exp", "tranStateTableOffset", "storeTimestamp", "topicSysFlag",
    "groupSysFlag", "requestSource", "attributes",
))  # fmt: skip
_SEND = "=topic queueId producerGroup size tags=TAGS keys=KEYS delay=DELAY reconsumeTimes? msgId=UNIQ_KEY"

#: Requests with other fields than those of their header. TAGS and others in capitals are properties of the message;
#: `commitOrRollback` is written by name.
_REQUESTS: Final[dict[str, str]] = {
    "SEND_MESSAGE": _SEND,
    "SEND_MESSAGE_V2": _SEND,
    "SEND_BATCH_MESSAGE": "=topic queueId producerGroup messages size",
    "SEND_REPLY_MESSAGE": _SEND,
    "SEND_REPLY_MESSAGE_V2": _SEND,
    "PUSH_REPLY_MESSAGE_TO_CLIENT": _SEND,
    "PULL_MESSAGE": "=topic queueId queueOffset consumerGroup maxMsgNums subscription commitOffset suspendTimeoutMillis",
    "LITE_PULL_MESSAGE": "=topic queueId queueOffset consumerGroup maxMsgNums subscription commitOffset "
    "suspendTimeoutMillis",
    "UPDATE_CONSUMER_OFFSET": "=topic queueId commitOffset consumerGroup",
    "QUERY_CONSUMER_OFFSET": "=topic queueId consumerGroup",
    "POP_MESSAGE": "=topic queueId consumerGroup maxMsgNums invisibleTime pollTime order",
    "ACK_MESSAGE": "=topic queueId offset consumerGroup",
    "HEART_BEAT": "clientID size",
    "END_TRANSACTION": "commitOrRollback topic producerGroup msgId commitLogOffset fromTransactionCheck transactionId",
    "CHECK_TRANSACTION_STATE": "topic msgId transactionId commitLogOffset",
}

#: A stored message in the body of a response, and of the two requests that have them.
STORED: Final = "=topic queueId queueOffset consumerGroup size tags=TAGS keys=KEYS reconsumeTimes? msgId=UNIQ_KEY"
#: A request whose code or header is unknown.
OTHER_REQUEST: Final = "topic queueId group producerGroup size?"
#: A response to an unknown request. Every response begins with its code by name and its remark.
OTHER_RESPONSE: Final = "=response =remark topic msgId queueId queueOffset nextBeginOffset minOffset maxOffset size?"


def _fields(header: str) -> Iterator[str]:
    """The fields of a header class of RocketMQ, without the inherited ones."""
    for row in HEADERS:
        if row.name == header:
            yield from (name for name in (f.split(":")[0] for f in row.fields.split()) if name not in _LEFT_OUT)


def _requests() -> Iterator[tuple[str, str]]:
    for row in REQUEST_CODES:
        if row.name in _REQUESTS:
            yield row.name, _REQUESTS[row.name]
        elif row.header:
            yield row.name, " ".join([*_fields(row.header), "size?"])
        else:
            yield row.name, OTHER_REQUEST


def _responses() -> Iterator[tuple[str, str]]:
    for row in REQUEST_CODES:
        own = [name for name in _fields(row.response_header) if name not in ("topic", "consumerGroup", "group")]
        if row.response_header == "SendMessageResponseHeader":
            own = ["queueId", "queueOffset", "msgId", "transactionId"]
        yield row.name, " ".join(["=response", "=remark", *own, "topic", "consumerGroup", "size?"])


#: By the code of the request.
REQUEST: Final[dict[str, str]] = dict(_requests())
RESPONSE: Final[dict[str, str]] = dict(_responses())
