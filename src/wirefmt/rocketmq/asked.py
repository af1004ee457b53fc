"""What brokers ask of clients, in bytes: bodies of requests that are read, and of responses that are written.

Real clients and servers write maps whose names are objects, as fastjson does. Other JSON writers cannot.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wirefmt.rocketmq._codec import (
    MessageExt,
    MessageQueue,
    RemotingCommand,
    ReplyMessageRequestHeader,
    SubscriptionData,
    decode_messages,
    decode_properties,
    encode_json,
)
from wirefmt.rocketmq.routes import Queue

#: A member of a map whose names are objects, as fastjson writes them.
_OBJECT_NAME: Final = re.compile(rb"\{([^{}]*)\}\s*:\s*(-?[0-9]+)")


def reset_offsets(body: bytes) -> dict[Queue, int]:
    """The offsets in the body of RESET_CONSUMER_CLIENT_OFFSET: a map whose names are objects, or (for C clients) a list.

    What cannot be read is left out.
    """
    found: dict[Queue, int] = {}
    for match in _OBJECT_NAME.finditer(body):
        try:
            members = json.loads(b"{" + match[1] + b"}")
            queue = Queue(str(members["topic"]), str(members["brokerName"]), int(members["queueId"]))
        except (ValueError, KeyError, TypeError):
            continue
        found[queue] = int(match[2])
    if not found:
        try:
            for item in json.loads(body)["offsetTable"]:
                queue = Queue(str(item["topic"]), str(item["brokerName"]), int(item["queueId"]))
                found[queue] = int(item["offset"])
        except (ValueError, KeyError, TypeError):
            pass
    return found


def named(queue: Queue) -> MessageQueue:
    """A queue as bodies have it."""
    return MessageQueue(topic=queue.topic, broker_name=queue.broker, queue_id=queue.queue_id)


def _by_queue(table: Mapping[Queue, Any]) -> bytes:
    """A map whose names are queues."""
    return b"{%s}" % b",".join(named(queue).encode() + b":" + encode_json(value) for queue, value in table.items())


def status_body(offsets: Mapping[Queue, int]) -> bytes:
    """The body that answers GET_CONSUMER_STATUS_FROM_CLIENT (221): the offsets of our queues."""
    return b'{"messageQueueTable":%s}' % _by_queue(offsets)


def running_body(
    properties: Mapping[str, str],
    subscriptions: Sequence[SubscriptionData],
    queues: Mapping[Queue, Mapping[str, Any]],
) -> bytes:
    """The body that answers GET_CONSUMER_RUNNING_INFO (307).

    Args:
        properties: settings of the consumer, by the names that the real client uses.
        subscriptions: what it wants.
        queues: what is known of each of its queues: members of ProcessQueueInfo.
    """
    return (
        b'{"mqPopTable":{},"mqTable":%s,"properties":%s,"statusTable":{},"subscriptionSet":[%s],"userConsumerInfo":{}}'
        % (
            _by_queue(queues),
            encode_json(dict(properties)),
            b",".join(each.encode() for each in subscriptions),
        )
    )


def direct_body(result: str, *, orderly: bool, seconds: float, remark: str | None = None) -> bytes:
    """The body that answers CONSUME_MESSAGE_DIRECTLY (309).

    Args:
        result: "CR_SUCCESS", "CR_LATER" or "CR_THROW_EXCEPTION".
        orderly: True: the consumer is orderly.
        seconds: that the listener has taken.
        remark: what it has raised.
    """
    body: dict[str, Any] = {
        "autoCommit": True,
        "consumeResult": result,
        "order": orderly,
        "spentTimeMills": int(seconds * 1000),
    }
    return encode_json(body if remark is None else {**body, "remark": remark})


def _host(text: str | None) -> tuple[str, int]:
    address, _, port = (text or "").rpartition(":")
    return (address.strip("[]") or "0.0.0.0", int(port) if port.isdecimal() else 0)


def reply_of(request: RemotingCommand) -> MessageExt:
    """The message in PUSH_REPLY_MESSAGE_TO_CLIENT (326), with its body inflated and the time of its arrival as a property.

    Raises ValueError if it is absent or invalid (DecodeError is a ValueError).
    """
    header = request.decode_header(ReplyMessageRequestHeader)
    message = MessageExt(
        topic=header.topic,
        body=request.body_bytes(),
        properties={**decode_properties(header.properties or ""), "ARRIVE_TIME": str(int(time.time() * 1000))},
        queue_id=header.queue_id,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        born_host=_host(header.born_host),
        store_timestamp=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )
    (inflated,) = decode_messages(message.encode())
    return inflated
