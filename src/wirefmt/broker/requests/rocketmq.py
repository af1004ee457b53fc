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
from wirefmt.rocketmq.codes import RequestCode
from wirefmt.rocketmq.pull_consumer import COMMIT_OFFSET
from wirefmt.rocketmq.routes import DEFAULT_TOPIC
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


def _nobody(why: str, names: str) -> dict[int, Rule]:
    return dict.fromkeys((RequestCode[name] for name in names.split()), Nobody(why))


#: By request code.
REQUESTS: Final[Requests] = {
    RequestCode.SEND_MESSAGE: _SEND,
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.QUERY_CONSUMER_OFFSET: _CONSUMED,
    RequestCode.UPDATE_CONSUMER_OFFSET: _CONSUMED,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _OFFSET,
    RequestCode.GET_MAX_OFFSET: _OFFSET,
    RequestCode.GET_MIN_OFFSET: _OFFSET,
    RequestCode.VIEW_MESSAGE_BY_ID: _view,
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.END_TRANSACTION: _end_transaction,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _GROUP_ONLY,
    RequestCode.LOCK_BATCH_MQ: _locks(rocketmq.LockBatchRequestBody),
    RequestCode.UNLOCK_BATCH_MQ: _locks(rocketmq.UnlockBatchRequestBody),
    RequestCode.CHECK_CLIENT_CONFIG: Free("it asks whether an expression can be parsed"),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_CONSUMER_RUNNING_INFO: _GROUP_ONLY,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _consume_directly,
    RequestCode.SEND_MESSAGE_V2: _SEND_V2,
    RequestCode.SEND_BATCH_MESSAGE: _SEND_V2,
    RequestCode.SEND_REPLY_MESSAGE: _reply(_SEND),
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply(_SEND_V2),
    RequestCode.LITE_PULL_MESSAGE: _pull,
    RequestCode.POP_MESSAGE: _CONSUMED,
    RequestCode.ACK_MESSAGE: _CONSUMED,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _CONSUMED,
    **_nobody(
        "only brokers send it to clients",
        """
        CHECK_TRANSACTION_STATE NOTIFY_CONSUMER_IDS_CHANGED RESET_CONSUMER_OFFSET_IN_CONSUMER RESET_CONSUMER_CLIENT_OFFSET
        GET_CONSUMER_STATUS_FROM_CLIENT PUSH_REPLY_MESSAGE_TO_CLIENT
        """,
    ),
    **_nobody(
        "only brokers, name servers and controllers send it to each other",
        """
        REGISTER_BROKER UNREGISTER_BROKER REGISTER_TOPIC_IN_NAMESRV REGISTER_FILTER_SERVER QUERY_DATA_VERSION
        GET_BROKER_MEMBER_GROUP ADD_BROKER REMOVE_BROKER BROKER_HEARTBEAT NOTIFY_MIN_BROKER_ID_CHANGE EXCHANGE_BROKER_HA_INFO
        GET_BROKER_HA_STATUS RESET_MASTER_FLUSH_OFFSET CONTROLLER_ALTER_SYNC_STATE_SET CONTROLLER_ELECT_MASTER
        CONTROLLER_REGISTER_BROKER CONTROLLER_GET_REPLICA_INFO CONTROLLER_GET_METADATA_INFO CONTROLLER_GET_SYNC_STATE_DATA
        GET_BROKER_EPOCH_CACHE NOTIFY_BROKER_ROLE_CHANGED CLEAN_BROKER_DATA CONTROLLER_GET_NEXT_BROKER_ID
        CONTROLLER_APPLY_BROKER_ID BROKER_CLOSE_CHANNEL_REQUEST CHECK_NOT_ACTIVE_BROKER_REQUEST GET_BROKER_LIVE_INFO_REQUEST
        GET_SYNC_STATE_DATA_REQUEST RAFT_BROKER_HEART_BEAT_EVENT_REQUEST
        """,
    ),
    **_nobody(
        "administration is not served here",
        """
        UPDATE_AND_CREATE_TOPIC UPDATE_AND_CREATE_TOPIC_LIST GET_ALL_TOPIC_CONFIG GET_TOPIC_CONFIG_LIST GET_TOPIC_NAME_LIST
        UPDATE_BROKER_CONFIG GET_BROKER_CONFIG TRIGGER_DELETE_FILES GET_BROKER_RUNTIME_INFO GET_ALL_CONSUMER_OFFSET
        GET_ALL_DELAY_OFFSET GET_CLIENT_CONFIG UPDATE_AND_CREATE_ACL_CONFIG DELETE_ACL_CONFIG GET_BROKER_CLUSTER_ACL_INFO
        UPDATE_GLOBAL_WHITE_ADDRS_CONFIG GET_BROKER_CLUSTER_ACL_CONFIG GET_TIMER_CHECK_POINT GET_TIMER_METRICS PUT_KV_CONFIG
        GET_KV_CONFIG DELETE_KV_CONFIG GET_BROKER_CLUSTER_INFO UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG GET_TOPIC_STATS_INFO GET_CONSUMER_CONNECTION_LIST GET_PRODUCER_CONNECTION_LIST
        WIPE_WRITE_PERM_OF_BROKER GET_ALL_TOPIC_LIST_FROM_NAMESERVER DELETE_SUBSCRIPTIONGROUP GET_CONSUME_STATS
        SUSPEND_CONSUMER RESUME_CONSUMER RESET_CONSUMER_OFFSET_IN_BROKER ADJUST_CONSUMER_THREAD_POOL WHO_CONSUME_THE_MESSAGE
        DELETE_TOPIC_IN_BROKER DELETE_TOPIC_IN_NAMESRV GET_KVLIST_BY_NAMESPACE INVOKE_BROKER_TO_RESET_OFFSET
        INVOKE_BROKER_TO_GET_CONSUMER_STATUS GET_TOPICS_BY_CLUSTER UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        QUERY_TOPIC_CONSUME_BY_WHO REGISTER_MESSAGE_FILTER_CLASS QUERY_CONSUME_TIME_SPAN GET_SYSTEM_TOPIC_LIST_FROM_NS
        GET_SYSTEM_TOPIC_LIST_FROM_BROKER CLEAN_EXPIRED_CONSUMEQUEUE QUERY_CORRECTION_OFFSET GET_UNIT_TOPIC_LIST
        GET_HAS_UNIT_SUB_TOPIC_LIST GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST CLONE_GROUP_OFFSET VIEW_BROKER_STATS_DATA
        CLEAN_UNUSED_TOPIC GET_BROKER_CONSUME_STATS UPDATE_NAMESRV_CONFIG GET_NAMESRV_CONFIG QUERY_CONSUME_QUEUE
        RESUME_CHECK_HALF_MESSAGE ADD_WRITE_PERM_OF_BROKER GET_ALL_PRODUCER_INFO DELETE_EXPIRED_COMMITLOG
        QUERY_TOPICS_BY_CONSUMER QUERY_SUBSCRIPTION_BY_CONSUMER GET_TOPIC_CONFIG GET_SUBSCRIPTIONGROUP_CONFIG
        UPDATE_AND_GET_GROUP_FORBIDDEN CHECK_ROCKSDB_CQ_WRITE_PROGRESS EXPORT_ROCKSDB_CONFIG_TO_JSON SET_MESSAGE_REQUEST_MODE
        GET_ALL_MESSAGE_REQUEST_MODE UPDATE_AND_CREATE_STATIC_TOPIC UPDATE_CONTROLLER_CONFIG GET_CONTROLLER_CONFIG
        UPDATE_COLD_DATA_FLOW_CTR_CONFIG REMOVE_COLD_DATA_FLOW_CTR_CONFIG GET_COLD_DATA_FLOW_CTR_INFO SET_COMMITLOG_READ_MODE
        AUTH_CREATE_USER AUTH_UPDATE_USER AUTH_DELETE_USER AUTH_GET_USER AUTH_LIST_USER AUTH_CREATE_ACL AUTH_UPDATE_ACL
        AUTH_DELETE_ACL AUTH_GET_ACL AUTH_LIST_ACL
        """,
    ),
    **_nobody(
        "it is not served here",
        """
        QUERY_MESSAGE QUERY_BROKER_OFFSET GET_EARLIEST_MSG_STORETIME RECALL_MESSAGE QUERY_ASSIGNMENT PEEK_MESSAGE NOTIFICATION
        POLLING_INFO POP_ROLLBACK BATCH_ACK_MESSAGE
        """,
    ),
}
