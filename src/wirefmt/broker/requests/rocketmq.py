"""What the requests of RocketMQ need. The rules are called with the request, and with a `Knowing`: what the broker knows.

As with RocketMQ's access control there are topics and consumer groups. A request that is about a stored message needs a right
to the topic that this message is in, whatever topic the request says. A group needs the right `group`; and since a group has what
it has consumed of its topics, who changes it or asks about it needs `subscribe` for all of these. Retry topics belong to their
groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

from wirefmt import rocketmq
from wirefmt.broker.permissions import USER, Free, Need, Nobody, Requests, Rule
from wirefmt.rocketmq import RemotingCommand
from wirefmt.rocketmq.client import DEFAULT_TOPIC
from wirefmt.rocketmq.pull_consumer import COMMIT_OFFSET
from wirefmt.rocketmq.spec import RETRY_PREFIX

PUBLISH: Final = "rocketmq.publish"
SUBSCRIBE: Final = "rocketmq.subscribe"
GROUP: Final = "rocketmq.group"


class Knowing(Protocol):
    """What the rules ask the broker."""

    def topic_at(self, physical: int) -> str | None:
        """The topic of a stored message by its physical offset; None: there is none."""
        ...

    def half_topic(self, physical: int) -> str | None:
        """The topic of a half message by its physical offset; None: there is none."""
        ...

    def topics_of(self, group: str) -> Iterable[str]:
        """The topics that a consumer group has subscribed to or consumed."""
        ...

    @property
    def reply_topic(self) -> str:
        """The topic to which replies go."""
        ...

    def owner_of(self, client: str) -> str | None:
        """The user of the connection that has this client id; None: there is none."""
        ...


def user_of(request: RemotingCommand) -> str:
    """Who has sent a request: its access key."""
    return (request.ext_fields or {}).get("AccessKey") or ""


# ---- what is asked about


def _topic(topic: str | None, known: Knowing, *actions: str) -> Iterator[Need]:
    """One of these rights to a topic. A retry topic needs the right to its group, if the group is known."""
    name = topic or ""
    group = name.removeprefix(RETRY_PREFIX)
    if group != name and known.topics_of(group):
        yield from _group(group, known)
    else:
        yield Need(actions[0], name, tuple(Need(action, name) for action in actions[1:]))


def _group(group: str | None, known: Knowing) -> Iterator[Need]:
    """A group, and all that it has consumed."""
    name = group or ""
    yield Need(GROUP, name)
    for topic in known.topics_of(name):
        yield Need(SUBSCRIBE, topic)


def _client(client: str | None, known: Knowing) -> Iterator[Need]:
    """A client id that nobody else has."""
    owner = known.owner_of(client or "")
    if owner is not None:
        yield Need(USER, owner)


def _message(physical: int, known: Knowing) -> Iterator[Need]:
    """A stored message. Without one there is nothing to see."""
    topic = known.topic_at(physical)
    if topic is not None:
        yield from _topic(topic, known, SUBSCRIBE)


# ---- rules


def _fields(*, topic: str | None = None, action: tuple[str, ...] = (SUBSCRIBE,), group: str | None = None) -> Rule:
    """A request whose fields name a topic, and a group that it changes or shows."""

    def rule(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
        fields = request.ext_fields or {}
        if topic is not None:
            yield from _topic(fields.get(topic), known, *action)
        if group is not None:
            yield from _group(fields.get(group), known)

    return rule


def _reply(send: Rule) -> Rule:
    """A reply is pushed to the client that it names: a right to any topic is not enough."""

    def rule(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
        yield from send(request, known)
        yield Need(PUBLISH, known.reply_topic)

    return rule


def _pull(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    header = request.decode_header(rocketmq.PullMessageRequestHeader)
    yield from _topic(header.topic, known, SUBSCRIBE)
    if header.sys_flag & COMMIT_OFFSET:
        yield from _group(header.consumer_group, known)
    else:
        yield Need(GROUP, header.consumer_group)


def _view(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    return _message(request.decode_header(rocketmq.ViewMessageRequestHeader).offset, known)


def _heartbeat(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    data = rocketmq.HeartbeatData.decode(request.body_bytes() or b"")
    yield from _client(data.client_id, known)
    for consumer in data.consumer_data_set or ():
        yield from _group(consumer.group_name, known)
        own = f"{RETRY_PREFIX}{consumer.group_name or ''}"
        for subscription in consumer.subscription_data_set or ():
            if subscription.topic != own:
                yield from _topic(subscription.topic, known, SUBSCRIBE)


def _unregister(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    return _client(request.decode_header(rocketmq.UnregisterClientRequestHeader).client_id, known)


def _send_back(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    header = request.decode_header(rocketmq.ConsumerSendMsgBackRequestHeader)
    yield from _message(header.offset, known)
    yield from _group(header.group, known)


def _end_transaction(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    header = request.decode_header(rocketmq.EndTransactionRequestHeader)
    topic = known.half_topic(header.commit_log_offset)
    return _topic(topic, known, PUBLISH) if topic is not None else iter(())


def _locks(body_class: type[Any]) -> Rule:
    def rule(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
        body = body_class.decode(request.body_bytes() or b"{}")
        yield from _client(body.client_id, known)
        yield from _group(body.consumer_group, known)
        for queue in body.mq_set or ():
            yield from _topic(queue.topic, known, SUBSCRIBE)

    return rule


def _route(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    topic = (request.ext_fields or {}).get("topic") or ""
    if topic != DEFAULT_TOPIC:  # that of topics which are not there yet says nothing
        yield from _topic(topic, known, PUBLISH, SUBSCRIBE)


def _consume_directly(request: RemotingCommand, known: Knowing) -> Iterator[Need]:
    fields = request.ext_fields or {}
    yield from _group(fields.get("consumerGroup"), known)
    yield from _message(rocketmq.decode_message_id(fields["msgId"] or "")[2], known)


_SEND: Final = _fields(topic="topic", action=(PUBLISH,))
_SEND_V2: Final = _fields(topic="b", action=(PUBLISH,))
_OFFSET: Final = _fields(topic="topic")
_CONSUMED: Final = _fields(topic="topic", group="consumerGroup")
_GROUP_ONLY: Final = _fields(group="consumerGroup")


def _nobody(why: str, *codes: int) -> dict[int, Rule]:
    return dict.fromkeys(codes, Nobody(why))


#: By request code.
REQUESTS: Final[Requests] = {
    10: _SEND,  # SEND_MESSAGE
    11: _pull,  # PULL_MESSAGE
    14: _CONSUMED,  # QUERY_CONSUMER_OFFSET
    15: _CONSUMED,  # UPDATE_CONSUMER_OFFSET
    29: _OFFSET,  # SEARCH_OFFSET_BY_TIMESTAMP
    30: _OFFSET,  # GET_MAX_OFFSET
    31: _OFFSET,  # GET_MIN_OFFSET
    33: _view,  # VIEW_MESSAGE_BY_ID
    34: _heartbeat,  # HEART_BEAT
    35: _unregister,  # UNREGISTER_CLIENT
    36: _send_back,  # CONSUMER_SEND_MSG_BACK
    37: _end_transaction,  # END_TRANSACTION
    38: _GROUP_ONLY,  # GET_CONSUMER_LIST_BY_GROUP
    41: _locks(rocketmq.LockBatchRequestBody),  # LOCK_BATCH_MQ
    42: _locks(rocketmq.UnlockBatchRequestBody),  # UNLOCK_BATCH_MQ
    46: Free("it asks whether an expression can be parsed"),  # CHECK_CLIENT_CONFIG
    105: _route,  # GET_ROUTEINFO_BY_TOPIC
    307: _GROUP_ONLY,  # GET_CONSUMER_RUNNING_INFO
    309: _consume_directly,  # CONSUME_MESSAGE_DIRECTLY
    310: _SEND_V2,  # SEND_MESSAGE_V2
    320: _SEND_V2,  # SEND_BATCH_MESSAGE
    324: _reply(_SEND),  # SEND_REPLY_MESSAGE
    325: _reply(_SEND_V2),  # SEND_REPLY_MESSAGE_V2
    361: _pull,  # LITE_PULL_MESSAGE
    200050: _CONSUMED,  # POP_MESSAGE
    200051: _CONSUMED,  # ACK_MESSAGE
    200053: _CONSUMED,  # CHANGE_MESSAGE_INVISIBLETIME
    **_nobody("only brokers send it to clients", 39, 40, 211, 220, 221, 326),
    **_nobody(
        "only brokers, name servers and controllers send it to each other",
        103, 104, 217, 301, 322, 901, 902, 903, 904, 905, 906, 907, 908, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1011,
        1012, 1013, 1014, 1015, 1016, 1017, 1018,
    ),
    **_nobody(
        "administration is not served here",
        17, 18, 21, 22, 23, 25, 26, 27, 28, 43, 45, 47, 50, 51, 52, 53, 54, 60, 61, 100, 101, 102, 106, 200, 201, 202, 203, 204,
        205, 206, 207, 208, 209, 210, 212, 213, 214, 215, 216, 219, 222, 223, 224, 225, 300, 302, 303, 304, 305, 306, 308, 311,
        312, 313, 314, 315, 316, 317, 318, 319, 321, 323, 327, 328, 329, 343, 345, 351, 352, 353, 354, 355, 401, 402, 513, 1009,
        1010, 2001, 2002, 2003, 2004, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3009, 3010,
    ),
    **_nobody("it is not served here", 12, 13, 32, 370, 400, 200052, 200054, 200055, 200056, 200151),
}  # fmt: skip
