"""Names and numbers of RocketMQ's remoting protocol and of its bodies.

Sources: the project's description of the protocol, and the Java code of the 5.3 releases, which is the only complete
specification. `spec` of a check is a section of docs/rocketmq.md.

The C tables of the compiled core are generated from this module: after a change run `python tools/gen_tables.py`.
"""

from typing import Final, NamedTuple

from wirefmt.spec.checks import Check

#: The largest frame, including its length word (section 1).
FRAME_SIZE_MAX: Final = 16_777_216

#: Bits of `flag`.
FLAG_RESPONSE: Final = 0x1

LANGUAGES: Final[dict[int, str]] = {
    0: "JAVA",
    1: "CPP",
    2: "DOTNET",
    3: "PYTHON",
    4: "DELPHI",
    5: "ERLANG",
    6: "RUBY",
    7: "OTHER",
    8: "HTTP",
    9: "GO",
    10: "PHP",
    11: "OMS",
    12: "RUST",
    13: "NODE_JS",
}

#: The version of a frame is the position of a release in a list. The first sixteen positions:
FIRST_VERSIONS: Final[tuple[str, ...]] = (
    "V3_0_0_SNAPSHOT",
    "V3_0_0_ALPHA1",
    "V3_0_0_BETA1",
    "V3_0_0_BETA2",
    "V3_0_0_BETA3",
    "V3_0_0_BETA4",
    "V3_0_0_BETA5",
    "V3_0_0_BETA6_SNAPSHOT",
    "V3_0_0_BETA6",
    "V3_0_0_BETA7_SNAPSHOT",
    "V3_0_0_BETA7",
    "V3_0_0_BETA8_SNAPSHOT",
    "V3_0_0_BETA8",
    "V3_0_0_BETA9_SNAPSHOT",
    "V3_0_0_BETA9",
    "V3_0_0_FINAL",
)


class VersionRun(NamedTuple):
    """Releases major.minor.first to major.minor.9, each after its snapshot; `number` is that of the first snapshot."""

    number: int
    major: int
    minor: int
    first: int


VERSION_RUNS: Final[tuple[VersionRun, ...]] = (
    VersionRun(16, 3, 0, 1),  # to 3.0.15, the only longer run
    VersionRun(46, 3, 1, 0),
    VersionRun(66, 3, 2, 0),
    VersionRun(86, 3, 3, 1),
    VersionRun(104, 3, 4, 1),
    VersionRun(122, 3, 5, 1),
    VersionRun(140, 3, 6, 1),
    VersionRun(158, 3, 7, 1),
    VersionRun(176, 3, 8, 1),
    VersionRun(194, 3, 9, 1),
    VersionRun(212, 4, 0, 0),
    VersionRun(232, 4, 1, 0),
    VersionRun(252, 4, 2, 0),
    VersionRun(272, 4, 3, 0),
    VersionRun(292, 4, 4, 0),
    VersionRun(312, 4, 5, 0),
    VersionRun(332, 4, 6, 0),
    VersionRun(352, 4, 7, 0),
    VersionRun(372, 4, 8, 0),
    VersionRun(392, 4, 9, 0),
    VersionRun(412, 5, 0, 0),
    VersionRun(432, 5, 1, 0),
    VersionRun(452, 5, 2, 0),
    VersionRun(472, 5, 3, 0),
    VersionRun(492, 5, 4, 0),
    VersionRun(512, 5, 5, 0),
    VersionRun(532, 5, 6, 0),
    VersionRun(552, 5, 7, 0),
    VersionRun(572, 5, 8, 0),
    VersionRun(592, 5, 9, 0),
)

#: The number after the last release of VERSION_RUNS.
HIGHER_VERSION: Final = 612


def _versions() -> dict[int, str]:
    names = dict(enumerate(FIRST_VERSIONS))
    ends = [run.number for run in VERSION_RUNS[1:]] + [HIGHER_VERSION]
    for run, end in zip(VERSION_RUNS, ends, strict=True):
        for place in range(run.number, end):
            patch = run.first + (place - run.number) // 2
            names[place] = f"V{run.major}_{run.minor}_{patch}" + ("" if (place - run.number) % 2 else "_SNAPSHOT")
    return names


#: number -> name, as `479: "V5_3_3"`; a larger number is a release that is not in this list.
VERSIONS: Final[dict[int, str]] = _versions()

#: Version of messages that wirefmt builds: 5.3.3, the release of these tables.
CURRENT_VERSION: Final = 479


class RequestRow(NamedTuple):
    code: int
    name: str
    header: str = ""  # the row of HEADERS with its extFields; "": unknown
    response_header: str = ""  # the row for its response


#: Section 4. Requests without a header have no known field, or have all of them in the body.
REQUEST_CODES: Final[tuple[RequestRow, ...]] = (
    RequestRow(10, "SEND_MESSAGE", "SendMessageRequestHeader", "SendMessageResponseHeader"),
    RequestRow(11, "PULL_MESSAGE", "PullMessageRequestHeader", "PullMessageResponseHeader"),
    RequestRow(12, "QUERY_MESSAGE", "QueryMessageRequestHeader", "QueryMessageResponseHeader"),
    RequestRow(13, "QUERY_BROKER_OFFSET"),
    RequestRow(14, "QUERY_CONSUMER_OFFSET", "QueryConsumerOffsetRequestHeader", "QueryConsumerOffsetResponseHeader"),
    RequestRow(15, "UPDATE_CONSUMER_OFFSET", "UpdateConsumerOffsetRequestHeader", "UpdateConsumerOffsetResponseHeader"),
    RequestRow(17, "UPDATE_AND_CREATE_TOPIC", "CreateTopicRequestHeader"),
    RequestRow(18, "UPDATE_AND_CREATE_TOPIC_LIST", "CreateTopicListRequestHeader"),
    RequestRow(21, "GET_ALL_TOPIC_CONFIG", "GetAllTopicConfigRequestHeader", "GetAllTopicConfigResponseHeader"),
    RequestRow(22, "GET_TOPIC_CONFIG_LIST"),
    RequestRow(23, "GET_TOPIC_NAME_LIST"),
    RequestRow(25, "UPDATE_BROKER_CONFIG"),
    RequestRow(26, "GET_BROKER_CONFIG", "", "GetBrokerConfigResponseHeader"),
    RequestRow(27, "TRIGGER_DELETE_FILES"),
    RequestRow(28, "GET_BROKER_RUNTIME_INFO"),
    RequestRow(29, "SEARCH_OFFSET_BY_TIMESTAMP", "SearchOffsetRequestHeader", "SearchOffsetResponseHeader"),
    RequestRow(30, "GET_MAX_OFFSET", "GetMaxOffsetRequestHeader", "GetMaxOffsetResponseHeader"),
    RequestRow(31, "GET_MIN_OFFSET", "GetMinOffsetRequestHeader", "GetMinOffsetResponseHeader"),
    RequestRow(
        32,
        "GET_EARLIEST_MSG_STORETIME",
        "GetEarliestMsgStoretimeRequestHeader",
        "GetEarliestMsgStoretimeResponseHeader",
    ),
    RequestRow(33, "VIEW_MESSAGE_BY_ID", "ViewMessageRequestHeader", "ViewMessageResponseHeader"),
    RequestRow(34, "HEART_BEAT", "HeartbeatRequestHeader"),
    RequestRow(35, "UNREGISTER_CLIENT", "UnregisterClientRequestHeader", "UnregisterClientResponseHeader"),
    RequestRow(36, "CONSUMER_SEND_MSG_BACK", "ConsumerSendMsgBackRequestHeader"),
    RequestRow(37, "END_TRANSACTION", "EndTransactionRequestHeader", "EndTransactionResponseHeader"),
    RequestRow(
        38, "GET_CONSUMER_LIST_BY_GROUP", "GetConsumerListByGroupRequestHeader", "GetConsumerListByGroupResponseHeader"
    ),
    RequestRow(
        39, "CHECK_TRANSACTION_STATE", "CheckTransactionStateRequestHeader", "CheckTransactionStateResponseHeader"
    ),
    RequestRow(40, "NOTIFY_CONSUMER_IDS_CHANGED", "NotifyConsumerIdsChangedRequestHeader"),
    RequestRow(41, "LOCK_BATCH_MQ", "LockBatchMqRequestHeader"),
    RequestRow(42, "UNLOCK_BATCH_MQ", "UnlockBatchMqRequestHeader"),
    RequestRow(43, "GET_ALL_CONSUMER_OFFSET"),
    RequestRow(45, "GET_ALL_DELAY_OFFSET"),
    RequestRow(46, "CHECK_CLIENT_CONFIG"),
    RequestRow(47, "GET_CLIENT_CONFIG"),
    RequestRow(50, "UPDATE_AND_CREATE_ACL_CONFIG"),
    RequestRow(51, "DELETE_ACL_CONFIG"),
    RequestRow(52, "GET_BROKER_CLUSTER_ACL_INFO"),
    RequestRow(53, "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG"),
    RequestRow(54, "GET_BROKER_CLUSTER_ACL_CONFIG"),
    RequestRow(60, "GET_TIMER_CHECK_POINT"),
    RequestRow(61, "GET_TIMER_METRICS"),
    RequestRow(100, "PUT_KV_CONFIG", "PutKVConfigRequestHeader"),
    RequestRow(101, "GET_KV_CONFIG", "GetKVConfigRequestHeader", "GetKVConfigResponseHeader"),
    RequestRow(102, "DELETE_KV_CONFIG", "DeleteKVConfigRequestHeader"),
    RequestRow(103, "REGISTER_BROKER", "RegisterBrokerRequestHeader", "RegisterBrokerResponseHeader"),
    RequestRow(104, "UNREGISTER_BROKER", "UnRegisterBrokerRequestHeader"),
    RequestRow(105, "GET_ROUTEINFO_BY_TOPIC", "GetRouteInfoRequestHeader"),
    RequestRow(106, "GET_BROKER_CLUSTER_INFO"),
    RequestRow(200, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"),
    RequestRow(
        201,
        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
        "GetAllSubscriptionGroupRequestHeader",
        "GetAllSubscriptionGroupResponseHeader",
    ),
    RequestRow(202, "GET_TOPIC_STATS_INFO", "GetTopicStatsInfoRequestHeader"),
    RequestRow(203, "GET_CONSUMER_CONNECTION_LIST", "GetConsumerConnectionListRequestHeader"),
    RequestRow(204, "GET_PRODUCER_CONNECTION_LIST", "GetProducerConnectionListRequestHeader"),
    RequestRow(
        205, "WIPE_WRITE_PERM_OF_BROKER", "WipeWritePermOfBrokerRequestHeader", "WipeWritePermOfBrokerResponseHeader"
    ),
    RequestRow(206, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER"),
    RequestRow(207, "DELETE_SUBSCRIPTIONGROUP", "DeleteSubscriptionGroupRequestHeader"),
    RequestRow(208, "GET_CONSUME_STATS", "GetConsumeStatsRequestHeader"),
    RequestRow(209, "SUSPEND_CONSUMER"),
    RequestRow(210, "RESUME_CONSUMER"),
    RequestRow(211, "RESET_CONSUMER_OFFSET_IN_CONSUMER"),
    RequestRow(212, "RESET_CONSUMER_OFFSET_IN_BROKER"),
    RequestRow(213, "ADJUST_CONSUMER_THREAD_POOL"),
    RequestRow(214, "WHO_CONSUME_THE_MESSAGE"),
    RequestRow(215, "DELETE_TOPIC_IN_BROKER", "DeleteTopicRequestHeader"),
    RequestRow(216, "DELETE_TOPIC_IN_NAMESRV", "DeleteTopicFromNamesrvRequestHeader"),
    RequestRow(217, "REGISTER_TOPIC_IN_NAMESRV", "RegisterTopicRequestHeader"),
    RequestRow(219, "GET_KVLIST_BY_NAMESPACE", "GetKVListByNamespaceRequestHeader"),
    RequestRow(220, "RESET_CONSUMER_CLIENT_OFFSET"),
    RequestRow(221, "GET_CONSUMER_STATUS_FROM_CLIENT"),
    RequestRow(222, "INVOKE_BROKER_TO_RESET_OFFSET", "ResetOffsetRequestHeader"),
    RequestRow(223, "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", "GetConsumerStatusRequestHeader"),
    RequestRow(224, "GET_TOPICS_BY_CLUSTER", "GetTopicsByClusterRequestHeader"),
    RequestRow(225, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST"),
    RequestRow(300, "QUERY_TOPIC_CONSUME_BY_WHO", "QueryTopicConsumeByWhoRequestHeader"),
    RequestRow(301, "REGISTER_FILTER_SERVER"),
    RequestRow(302, "REGISTER_MESSAGE_FILTER_CLASS"),
    RequestRow(303, "QUERY_CONSUME_TIME_SPAN", "QueryConsumeTimeSpanRequestHeader"),
    RequestRow(304, "GET_SYSTEM_TOPIC_LIST_FROM_NS"),
    RequestRow(305, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER"),
    RequestRow(306, "CLEAN_EXPIRED_CONSUMEQUEUE"),
    RequestRow(307, "GET_CONSUMER_RUNNING_INFO", "GetConsumerRunningInfoRequestHeader"),
    RequestRow(308, "QUERY_CORRECTION_OFFSET", "QueryCorrectionOffsetHeader"),
    RequestRow(309, "CONSUME_MESSAGE_DIRECTLY", "ConsumeMessageDirectlyResultRequestHeader"),
    RequestRow(310, "SEND_MESSAGE_V2", "SendMessageRequestHeaderV2", "SendMessageResponseHeader"),
    RequestRow(311, "GET_UNIT_TOPIC_LIST"),
    RequestRow(312, "GET_HAS_UNIT_SUB_TOPIC_LIST"),
    RequestRow(313, "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST"),
    RequestRow(314, "CLONE_GROUP_OFFSET", "CloneGroupOffsetRequestHeader"),
    RequestRow(315, "VIEW_BROKER_STATS_DATA", "ViewBrokerStatsDataRequestHeader"),
    RequestRow(316, "CLEAN_UNUSED_TOPIC"),
    RequestRow(317, "GET_BROKER_CONSUME_STATS", "GetConsumeStatsInBrokerHeader"),
    RequestRow(318, "UPDATE_NAMESRV_CONFIG"),
    RequestRow(319, "GET_NAMESRV_CONFIG"),
    RequestRow(320, "SEND_BATCH_MESSAGE", "SendMessageRequestHeaderV2", "SendMessageResponseHeader"),
    RequestRow(321, "QUERY_CONSUME_QUEUE", "QueryConsumeQueueRequestHeader"),
    RequestRow(322, "QUERY_DATA_VERSION", "QueryDataVersionRequestHeader", "QueryDataVersionResponseHeader"),
    RequestRow(323, "RESUME_CHECK_HALF_MESSAGE", "ResumeCheckHalfMessageRequestHeader"),
    RequestRow(324, "SEND_REPLY_MESSAGE", "SendMessageRequestHeader", "SendMessageResponseHeader"),
    RequestRow(325, "SEND_REPLY_MESSAGE_V2", "SendMessageRequestHeaderV2", "SendMessageResponseHeader"),
    RequestRow(326, "PUSH_REPLY_MESSAGE_TO_CLIENT", "ReplyMessageRequestHeader"),
    RequestRow(
        327, "ADD_WRITE_PERM_OF_BROKER", "AddWritePermOfBrokerRequestHeader", "AddWritePermOfBrokerResponseHeader"
    ),
    RequestRow(328, "GET_ALL_PRODUCER_INFO", "GetAllProducerInfoRequestHeader"),
    RequestRow(329, "DELETE_EXPIRED_COMMITLOG"),
    RequestRow(343, "QUERY_TOPICS_BY_CONSUMER", "QueryTopicsByConsumerRequestHeader"),
    RequestRow(345, "QUERY_SUBSCRIPTION_BY_CONSUMER", "QuerySubscriptionByConsumerRequestHeader"),
    RequestRow(351, "GET_TOPIC_CONFIG", "GetTopicConfigRequestHeader"),
    RequestRow(352, "GET_SUBSCRIPTIONGROUP_CONFIG", "GetSubscriptionGroupConfigRequestHeader"),
    RequestRow(353, "UPDATE_AND_GET_GROUP_FORBIDDEN", "UpdateGroupForbiddenRequestHeader"),
    RequestRow(354, "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", "CheckRocksdbCqWriteProgressRequestHeader"),
    RequestRow(355, "EXPORT_ROCKSDB_CONFIG_TO_JSON", "ExportRocksDBConfigToJsonRequestHeader"),
    RequestRow(361, "LITE_PULL_MESSAGE", "PullMessageRequestHeader", "PullMessageResponseHeader"),
    RequestRow(370, "RECALL_MESSAGE", "RecallMessageRequestHeader", "RecallMessageResponseHeader"),
    RequestRow(400, "QUERY_ASSIGNMENT"),
    RequestRow(401, "SET_MESSAGE_REQUEST_MODE"),
    RequestRow(402, "GET_ALL_MESSAGE_REQUEST_MODE"),
    RequestRow(513, "UPDATE_AND_CREATE_STATIC_TOPIC"),
    RequestRow(901, "GET_BROKER_MEMBER_GROUP", "GetBrokerMemberGroupRequestHeader"),
    RequestRow(902, "ADD_BROKER", "AddBrokerRequestHeader"),
    RequestRow(903, "REMOVE_BROKER", "RemoveBrokerRequestHeader"),
    RequestRow(904, "BROKER_HEARTBEAT", "BrokerHeartbeatRequestHeader"),
    RequestRow(905, "NOTIFY_MIN_BROKER_ID_CHANGE", "NotifyMinBrokerIdChangeRequestHeader"),
    RequestRow(906, "EXCHANGE_BROKER_HA_INFO", "ExchangeHAInfoRequestHeader", "ExchangeHAInfoResponseHeader"),
    RequestRow(907, "GET_BROKER_HA_STATUS"),
    RequestRow(908, "RESET_MASTER_FLUSH_OFFSET", "ResetMasterFlushOffsetHeader"),
    RequestRow(
        1001, "CONTROLLER_ALTER_SYNC_STATE_SET", "AlterSyncStateSetRequestHeader", "AlterSyncStateSetResponseHeader"
    ),
    RequestRow(1002, "CONTROLLER_ELECT_MASTER", "ElectMasterRequestHeader", "ElectMasterResponseHeader"),
    RequestRow(
        1003,
        "CONTROLLER_REGISTER_BROKER",
        "RegisterBrokerToControllerRequestHeader",
        "RegisterBrokerToControllerResponseHeader",
    ),
    RequestRow(1004, "CONTROLLER_GET_REPLICA_INFO", "GetReplicaInfoRequestHeader", "GetReplicaInfoResponseHeader"),
    RequestRow(1005, "CONTROLLER_GET_METADATA_INFO", "", "GetMetaDataResponseHeader"),
    RequestRow(1006, "CONTROLLER_GET_SYNC_STATE_DATA"),
    RequestRow(1007, "GET_BROKER_EPOCH_CACHE"),
    RequestRow(1008, "NOTIFY_BROKER_ROLE_CHANGED", "NotifyBrokerRoleChangedRequestHeader"),
    RequestRow(1009, "UPDATE_CONTROLLER_CONFIG"),
    RequestRow(1010, "GET_CONTROLLER_CONFIG"),
    RequestRow(1011, "CLEAN_BROKER_DATA", "CleanControllerBrokerDataRequestHeader"),
    RequestRow(1012, "CONTROLLER_GET_NEXT_BROKER_ID", "GetNextBrokerIdRequestHeader", "GetNextBrokerIdResponseHeader"),
    RequestRow(1013, "CONTROLLER_APPLY_BROKER_ID", "ApplyBrokerIdRequestHeader", "ApplyBrokerIdResponseHeader"),
    RequestRow(1014, "BROKER_CLOSE_CHANNEL_REQUEST"),
    RequestRow(1015, "CHECK_NOT_ACTIVE_BROKER_REQUEST"),
    RequestRow(1016, "GET_BROKER_LIVE_INFO_REQUEST"),
    RequestRow(1017, "GET_SYNC_STATE_DATA_REQUEST"),
    RequestRow(1018, "RAFT_BROKER_HEART_BEAT_EVENT_REQUEST"),
    RequestRow(2001, "UPDATE_COLD_DATA_FLOW_CTR_CONFIG"),
    RequestRow(2002, "REMOVE_COLD_DATA_FLOW_CTR_CONFIG"),
    RequestRow(2003, "GET_COLD_DATA_FLOW_CTR_INFO"),
    RequestRow(2004, "SET_COMMITLOG_READ_MODE"),
    RequestRow(3001, "AUTH_CREATE_USER", "CreateUserRequestHeader"),
    RequestRow(3002, "AUTH_UPDATE_USER", "UpdateUserRequestHeader"),
    RequestRow(3003, "AUTH_DELETE_USER", "DeleteUserRequestHeader"),
    RequestRow(3004, "AUTH_GET_USER", "GetUserRequestHeader"),
    RequestRow(3005, "AUTH_LIST_USER", "ListUsersRequestHeader"),
    RequestRow(3006, "AUTH_CREATE_ACL", "CreateAclRequestHeader"),
    RequestRow(3007, "AUTH_UPDATE_ACL", "UpdateAclRequestHeader"),
    RequestRow(3008, "AUTH_DELETE_ACL", "DeleteAclRequestHeader"),
    RequestRow(3009, "AUTH_GET_ACL", "GetAclRequestHeader"),
    RequestRow(3010, "AUTH_LIST_ACL", "ListAclsRequestHeader"),
    RequestRow(200050, "POP_MESSAGE", "PopMessageRequestHeader", "PopMessageResponseHeader"),
    RequestRow(200051, "ACK_MESSAGE", "AckMessageRequestHeader"),
    RequestRow(200052, "PEEK_MESSAGE", "PeekMessageRequestHeader", "PopMessageResponseHeader"),
    RequestRow(
        200053, "CHANGE_MESSAGE_INVISIBLETIME", "ChangeInvisibleTimeRequestHeader", "ChangeInvisibleTimeResponseHeader"
    ),
    RequestRow(200054, "NOTIFICATION", "NotificationRequestHeader", "NotificationResponseHeader"),
    RequestRow(200055, "POLLING_INFO", "PollingInfoRequestHeader", "PollingInfoResponseHeader"),
    RequestRow(200056, "POP_ROLLBACK"),
    RequestRow(200151, "BATCH_ACK_MESSAGE"),
)

#: Section 5.
RESPONSE_CODES: Final[dict[int, str]] = {
    -1006: "RPC_TIME_OUT",
    -1004: "RPC_SEND_TO_CHANNEL_FAILED",
    -1002: "RPC_ADDR_IS_NULL",
    -1000: "RPC_UNKNOWN",
    0: "SUCCESS",
    1: "SYSTEM_ERROR",
    2: "SYSTEM_BUSY",
    3: "REQUEST_CODE_NOT_SUPPORTED",
    4: "TRANSACTION_FAILED",
    10: "FLUSH_DISK_TIMEOUT",
    11: "SLAVE_NOT_AVAILABLE",
    12: "FLUSH_SLAVE_TIMEOUT",
    13: "MESSAGE_ILLEGAL",
    14: "SERVICE_NOT_AVAILABLE",
    15: "VERSION_NOT_SUPPORTED",
    16: "NO_PERMISSION",
    17: "TOPIC_NOT_EXIST",
    18: "TOPIC_EXIST_ALREADY",
    19: "PULL_NOT_FOUND",
    20: "PULL_RETRY_IMMEDIATELY",
    21: "PULL_OFFSET_MOVED",
    22: "QUERY_NOT_FOUND",
    23: "SUBSCRIPTION_PARSE_FAILED",
    24: "SUBSCRIPTION_NOT_EXIST",
    25: "SUBSCRIPTION_NOT_LATEST",
    26: "SUBSCRIPTION_GROUP_NOT_EXIST",
    27: "FILTER_DATA_NOT_EXIST",
    28: "FILTER_DATA_NOT_LATEST",
    29: "INVALID_PARAMETER",
    200: "TRANSACTION_SHOULD_COMMIT",
    201: "TRANSACTION_SHOULD_ROLLBACK",
    202: "TRANSACTION_STATE_UNKNOW",
    203: "TRANSACTION_STATE_GROUP_WRONG",
    204: "NO_BUYER_ID",
    205: "NOT_IN_CURRENT_UNIT",
    206: "CONSUMER_NOT_ONLINE",
    207: "CONSUME_MSG_TIMEOUT",
    208: "NO_MESSAGE",
    209: "POLLING_FULL",
    210: "POLLING_TIMEOUT",
    211: "BROKER_NOT_EXIST",
    212: "BROKER_DISPATCH_NOT_COMPLETE",
    213: "BROADCAST_CONSUMPTION",
    215: "FLOW_CONTROL",
    501: "NOT_LEADER_FOR_QUEUE",
    604: "ILLEGAL_OPERATION",
    1500: "GO_AWAY",
    2000: "CONTROLLER_FENCED_MASTER_EPOCH",
    2001: "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH",
    2002: "CONTROLLER_INVALID_MASTER",
    2003: "CONTROLLER_INVALID_REPLICAS",
    2004: "CONTROLLER_MASTER_NOT_AVAILABLE",
    2005: "CONTROLLER_INVALID_REQUEST",
    2006: "CONTROLLER_BROKER_NOT_ALIVE",
    2007: "CONTROLLER_NOT_LEADER",
    2008: "CONTROLLER_BROKER_METADATA_NOT_EXIST",
    2009: "CONTROLLER_INVALID_CLEAN_BROKER_METADATA",
    2010: "CONTROLLER_BROKER_NEED_TO_BE_REGISTERED",
    2011: "CONTROLLER_MASTER_STILL_EXIST",
    2012: "CONTROLLER_ELECT_MASTER_FAILED",
    2013: "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED",
    2014: "CONTROLLER_BROKER_ID_INVALID",
    2015: "CONTROLLER_JRAFT_INTERNAL_ERROR",
    2016: "CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS",
    3001: "USER_NOT_EXIST",
    3002: "POLICY_NOT_EXIST",
}


#: Fields that headers of the 5.x releases inherit, for routing of requests (section 6).
RPC: Final = "ns:string? nsd:boolean? bname:string? oway:boolean?"
#: Those of requests on one topic.
TOPIC: Final = "lo:boolean? " + RPC


class Header(NamedTuple):
    """A header class: the fields of extFields, in the order of the Java writer where it has one.

    `fields`: `name:type` separated by spaces, with `?` after an optional field; types are string, int (32 bits), long
    (64) and boolean, all of them written as text.
    """

    name: str
    fields: str
    inherits: str = ""
    fast: bool = False  # the binary header has these fields first, in this order


class ExtraInfo(NamedTuple):
    """The property POP_CK, with which ACK_MESSAGE identifies a popped message (section 6): words separated by spaces."""

    ck_offset: int  # offset where the checkpoint of this pop begins
    pop_time: int  # milliseconds since 1970
    invisible_time: int  # milliseconds
    revive_queue_id: int
    retry_flag: str  # "0": the topic itself; "1", "2": its retry topic, `%RETRY%group_topic` or `%RETRY%group+topic`
    broker_name: str
    queue_id: int
    message_queue_offset: int | None = None  # the eighth word, which may be absent


#: Section 6.
HEADERS: Final[tuple[Header, ...]] = (
    Header(
        "SendMessageRequestHeader",
        "producerGroup:string topic:string defaultTopic:string defaultTopicQueueNums:int queueId:int "
        "sysFlag:int bornTimestamp:long flag:int properties:string? reconsumeTimes:int? "
        "unitMode:boolean? batch:boolean? maxReconsumeTimes:int?",
        inherits=TOPIC,
    ),
    Header(
        "SendMessageRequestHeaderV2",
        "a:string b:string c:string d:int e:int f:int g:long h:int i:string? j:int? k:boolean? l:int? "
        "m:boolean? n:string?",
        inherits=TOPIC,
        fast=True,
    ),
    Header(
        "SendMessageResponseHeader",
        "msgId:string queueId:int queueOffset:long transactionId:string? batchUniqId:string? recallHandle:string?",
        fast=True,
    ),
    Header(
        "PullMessageRequestHeader",
        "consumerGroup:string topic:string queueId:int queueOffset:long maxMsgNums:int sysFlag:int "
        "commitOffset:long suspendTimeoutMillis:long subscription:string? subVersion:long "
        "expressionType:string? maxMsgBytes:int? requestSource:int? proxyFrowardClientId:string?",
        inherits=TOPIC,
        fast=True,
    ),
    Header(
        "PullMessageResponseHeader",
        "suggestWhichBrokerId:long nextBeginOffset:long minOffset:long maxOffset:long "
        "offsetDelta:long? topicSysFlag:int? groupSysFlag:int? forbiddenType:int?",
        fast=True,
    ),
    Header(
        "QueryMessageRequestHeader",
        "topic:string key:string maxNum:int beginTimestamp:long endTimestamp:long",
        inherits=TOPIC,
    ),
    Header(
        "QueryMessageResponseHeader",
        "indexLastUpdateTimestamp:long indexLastUpdatePhyoffset:long",
    ),
    Header(
        "QueryConsumerOffsetRequestHeader",
        "consumerGroup:string topic:string queueId:int setZeroIfNotFound:boolean?",
        inherits=TOPIC,
    ),
    Header(
        "QueryConsumerOffsetResponseHeader",
        "offset:long",
    ),
    Header(
        "UpdateConsumerOffsetRequestHeader",
        "consumerGroup:string topic:string queueId:int commitOffset:long",
        inherits=TOPIC,
    ),
    Header(
        "HeartbeatRequestHeader",
        "",
        inherits=RPC,
    ),
    Header(
        "UnregisterClientRequestHeader",
        "clientID:string producerGroup:string? consumerGroup:string?",
        inherits=RPC,
    ),
    Header(
        "ConsumerSendMsgBackRequestHeader",
        "offset:long group:string delayLevel:int originMsgId:string? originTopic:string? "
        "unitMode:boolean? maxReconsumeTimes:int?",
        inherits=RPC,
    ),
    Header(
        "EndTransactionRequestHeader",
        "topic:string? producerGroup:string tranStateTableOffset:long commitLogOffset:long "
        "commitOrRollback:int fromTransactionCheck:boolean? msgId:string transactionId:string?",
        inherits=RPC,
    ),
    Header(
        "CheckTransactionStateRequestHeader",
        "topic:string? tranStateTableOffset:long commitLogOffset:long msgId:string? "
        "transactionId:string? offsetMsgId:string?",
        inherits=RPC,
    ),
    Header(
        "GetConsumerListByGroupRequestHeader",
        "consumerGroup:string",
        inherits=RPC,
    ),
    Header(
        "NotifyConsumerIdsChangedRequestHeader",
        "consumerGroup:string",
        inherits=RPC,
    ),
    Header(
        "LockBatchMqRequestHeader",
        "",
        inherits=RPC,
    ),
    Header(
        "UnlockBatchMqRequestHeader",
        "",
        inherits=RPC,
    ),
    Header(
        "GetMaxOffsetRequestHeader",
        "topic:string queueId:int committed:boolean?",
        inherits=TOPIC,
    ),
    Header(
        "GetMaxOffsetResponseHeader",
        "offset:long",
    ),
    Header(
        "GetMinOffsetRequestHeader",
        "topic:string queueId:int",
        inherits=TOPIC,
    ),
    Header(
        "GetMinOffsetResponseHeader",
        "offset:long",
    ),
    Header(
        "GetEarliestMsgStoretimeRequestHeader",
        "topic:string queueId:int",
        inherits=TOPIC,
    ),
    Header(
        "GetEarliestMsgStoretimeResponseHeader",
        "timestamp:long",
    ),
    Header(
        "SearchOffsetRequestHeader",
        "topic:string queueId:int timestamp:long boundaryType:string?",
        inherits=TOPIC,
    ),
    Header(
        "SearchOffsetResponseHeader",
        "offset:long",
    ),
    Header(
        "ViewMessageRequestHeader",
        "topic:string? offset:long",
    ),
    Header(
        "GetRouteInfoRequestHeader",
        "topic:string acceptStandardJsonOnly:boolean?",
        inherits=TOPIC,
    ),
    Header(
        "CreateTopicRequestHeader",
        "topic:string defaultTopic:string readQueueNums:int writeQueueNums:int perm:int "
        "topicFilterType:string topicSysFlag:int? order:boolean attributes:string? force:boolean?",
        inherits=TOPIC,
    ),
    Header(
        "GetAllTopicConfigRequestHeader",
        "topicSeq:int dataVersion:string? maxTopicNum:int?",
    ),
    Header(
        "GetAllTopicConfigResponseHeader",
        "totalTopicNum:int",
    ),
    Header(
        "PutKVConfigRequestHeader",
        "namespace:string key:string value:string",
    ),
    Header(
        "GetKVConfigRequestHeader",
        "namespace:string key:string",
    ),
    Header(
        "GetKVConfigResponseHeader",
        "value:string?",
    ),
    Header(
        "DeleteKVConfigRequestHeader",
        "namespace:string key:string",
    ),
    Header(
        "PopMessageRequestHeader",
        "consumerGroup:string topic:string queueId:int maxMsgNums:int invisibleTime:long "
        "pollTime:long bornTime:long initMode:int expType:string? exp:string? order:boolean? "
        "attemptId:string?",
        inherits=TOPIC,
    ),
    Header(
        "PopMessageResponseHeader",
        "popTime:long invisibleTime:long reviveQid:int restNum:long startOffsetInfo:string? "
        "msgOffsetInfo:string? orderCountInfo:string?",
    ),
    Header(
        "AckMessageRequestHeader",
        "consumerGroup:string topic:string queueId:int extraInfo:string offset:long",
        inherits=TOPIC,
    ),
    Header(
        "ChangeInvisibleTimeRequestHeader",
        "consumerGroup:string topic:string queueId:int extraInfo:string offset:long invisibleTime:long",
        inherits=TOPIC,
    ),
    Header(
        "ChangeInvisibleTimeResponseHeader",
        "popTime:long invisibleTime:long reviveQid:int",
    ),
    Header(
        "PeekMessageRequestHeader",
        "topic:string queueId:int maxMsgNums:int consumerGroup:string",
        inherits=TOPIC,
    ),
    Header(
        "NotificationRequestHeader",
        "consumerGroup:string topic:string queueId:int pollTime:long bornTime:long order:boolean? attemptId:string?",
        inherits=TOPIC,
    ),
    Header(
        "NotificationResponseHeader",
        "hasMsg:boolean pollingFull:boolean?",
    ),
    Header(
        "RecallMessageRequestHeader",
        "producerGroup:string? topic:string recallHandle:string",
        inherits=TOPIC,
    ),
    Header(
        "RecallMessageResponseHeader",
        "msgId:string",
    ),
    Header(
        "ReplyMessageRequestHeader",
        "producerGroup:string topic:string defaultTopic:string defaultTopicQueueNums:int queueId:int "
        "sysFlag:int bornTimestamp:long flag:int properties:string? reconsumeTimes:int? "
        "unitMode:boolean? bornHost:string storeHost:string storeTimestamp:long",
        inherits=TOPIC,
    ),
    Header(
        "RegisterBrokerRequestHeader",
        "brokerName:string brokerAddr:string clusterName:string haServerAddr:string brokerId:long "
        "heartbeatTimeoutMillis:long? enableActingMaster:boolean? compressed:boolean? bodyCrc32:int?",
    ),
    Header(
        "RegisterBrokerResponseHeader",
        "haServerAddr:string? masterAddr:string?",
    ),
    Header(
        "UnRegisterBrokerRequestHeader",
        "brokerName:string brokerAddr:string clusterName:string brokerId:long",
    ),
    Header(
        "BrokerHeartbeatRequestHeader",
        "clusterName:string brokerAddr:string brokerName:string brokerId:long? epoch:int? "
        "maxOffset:long? confirmOffset:long? heartbeatTimeoutMills:long? electionPriority:int?",
    ),
    Header(
        "QueryDataVersionRequestHeader",
        "brokerName:string brokerAddr:string clusterName:string brokerId:long",
    ),
    Header(
        "QueryDataVersionResponseHeader",
        "changed:boolean",
    ),
    Header(
        "AddBrokerRequestHeader",
        "configPath:string?",
    ),
    Header(
        "AddWritePermOfBrokerRequestHeader",
        "brokerName:string",
    ),
    Header(
        "AddWritePermOfBrokerResponseHeader",
        "addTopicCount:int",
    ),
    Header(
        "AlterSyncStateSetRequestHeader",
        "brokerName:string? masterBrokerId:long? masterEpoch:int? invokeTime:long?",
    ),
    Header(
        "AlterSyncStateSetResponseHeader",
        "newSyncStateSetEpoch:int?",
    ),
    Header(
        "ApplyBrokerIdRequestHeader",
        "clusterName:string? brokerName:string? appliedBrokerId:long? registerCheckCode:string?",
    ),
    Header(
        "ApplyBrokerIdResponseHeader",
        "clusterName:string? brokerName:string?",
    ),
    Header(
        "CheckRocksdbCqWriteProgressRequestHeader",
        "topic:string checkStoreTime:long?",
    ),
    Header(
        "CheckTransactionStateResponseHeader",
        "producerGroup:string tranStateTableOffset:long commitLogOffset:long commitOrRollback:int",
    ),
    Header(
        "CleanControllerBrokerDataRequestHeader",
        "clusterName:string? brokerName:string brokerControllerIdsToClean:string? "
        "isCleanLivingBroker:boolean? invokeTime:long?",
    ),
    Header(
        "CloneGroupOffsetRequestHeader",
        "srcGroup:string destGroup:string topic:string? offline:boolean?",
        inherits=RPC,
    ),
    Header(
        "ConsumeMessageDirectlyResultRequestHeader",
        "consumerGroup:string clientId:string? msgId:string? brokerName:string? topic:string? "
        "topicSysFlag:int? groupSysFlag:int?",
        inherits=TOPIC,
    ),
    Header(
        "CreateAclRequestHeader",
        "subject:string?",
    ),
    Header(
        "CreateTopicListRequestHeader",
        "",
        inherits=RPC,
    ),
    Header(
        "CreateUserRequestHeader",
        "username:string?",
    ),
    Header(
        "DeleteAclRequestHeader",
        "subject:string? policyType:string? resource:string?",
    ),
    Header(
        "DeleteSubscriptionGroupRequestHeader",
        "groupName:string cleanOffset:boolean?",
        inherits=RPC,
    ),
    Header(
        "DeleteTopicFromNamesrvRequestHeader",
        "topic:string clusterName:string?",
        inherits=TOPIC,
    ),
    Header(
        "DeleteTopicRequestHeader",
        "topic:string",
        inherits=TOPIC,
    ),
    Header(
        "DeleteUserRequestHeader",
        "username:string?",
    ),
    Header(
        "ElectMasterRequestHeader",
        "clusterName:string brokerName:string brokerId:long designateElect:boolean invokeTime:long?",
    ),
    Header(
        "ElectMasterResponseHeader",
        "masterBrokerId:long? masterAddress:string? masterEpoch:int? syncStateSetEpoch:int?",
    ),
    Header(
        "EndTransactionResponseHeader",
        "",
    ),
    Header(
        "ExchangeHAInfoRequestHeader",
        "masterHaAddress:string? masterFlushOffset:long? masterAddress:string?",
    ),
    Header(
        "ExchangeHAInfoResponseHeader",
        "masterHaAddress:string? masterFlushOffset:long? masterAddress:string?",
    ),
    Header(
        "ExportRocksDBConfigToJsonRequestHeader",
        "configType:string",
    ),
    Header(
        "GetAclRequestHeader",
        "subject:string?",
    ),
    Header(
        "GetAllProducerInfoRequestHeader",
        "",
    ),
    Header(
        "GetAllSubscriptionGroupRequestHeader",
        "groupSeq:int dataVersion:string? maxGroupNum:int?",
    ),
    Header(
        "GetAllSubscriptionGroupResponseHeader",
        "totalGroupNum:int",
    ),
    Header(
        "GetBrokerConfigResponseHeader",
        "version:string",
    ),
    Header(
        "GetBrokerMemberGroupRequestHeader",
        "clusterName:string brokerName:string",
    ),
    Header(
        "GetConsumeStatsInBrokerHeader",
        "isOrder:boolean",
    ),
    Header(
        "GetConsumeStatsRequestHeader",
        "consumerGroup:string topic:string? topicList:string?",
        inherits=TOPIC,
    ),
    Header(
        "GetConsumerConnectionListRequestHeader",
        "consumerGroup:string",
        inherits=RPC,
    ),
    Header(
        "GetConsumerListByGroupResponseHeader",
        "",
    ),
    Header(
        "GetConsumerRunningInfoRequestHeader",
        "consumerGroup:string clientId:string jstackEnable:boolean?",
        inherits=RPC,
    ),
    Header(
        "GetConsumerStatusRequestHeader",
        "topic:string group:string clientAddr:string?",
        inherits=TOPIC,
    ),
    Header(
        "GetKVListByNamespaceRequestHeader",
        "namespace:string",
    ),
    Header(
        "GetMetaDataResponseHeader",
        "group:string? controllerLeaderId:string? controllerLeaderAddress:string? isLeader:boolean? peers:string?",
    ),
    Header(
        "GetNextBrokerIdRequestHeader",
        "clusterName:string? brokerName:string?",
    ),
    Header(
        "GetNextBrokerIdResponseHeader",
        "clusterName:string? brokerName:string? nextBrokerId:long?",
    ),
    Header(
        "GetProducerConnectionListRequestHeader",
        "producerGroup:string",
        inherits=RPC,
    ),
    Header(
        "GetReplicaInfoRequestHeader",
        "brokerName:string?",
    ),
    Header(
        "GetReplicaInfoResponseHeader",
        "masterBrokerId:long? masterAddress:string? masterEpoch:int?",
    ),
    Header(
        "GetSubscriptionGroupConfigRequestHeader",
        "group:string",
        inherits=RPC,
    ),
    Header(
        "GetTopicConfigRequestHeader",
        "topic:string",
        inherits=TOPIC,
    ),
    Header(
        "GetTopicStatsInfoRequestHeader",
        "topic:string",
        inherits=TOPIC,
    ),
    Header(
        "GetTopicsByClusterRequestHeader",
        "cluster:string",
    ),
    Header(
        "GetUserRequestHeader",
        "username:string?",
    ),
    Header(
        "InitConsumerOffsetRequestHeader",
        "topic:string? initMode:int?",
        inherits=TOPIC,
    ),
    Header(
        "ListAclsRequestHeader",
        "subjectFilter:string? resourceFilter:string?",
    ),
    Header(
        "ListUsersRequestHeader",
        "filter:string?",
    ),
    Header(
        "NotifyBrokerRoleChangedRequestHeader",
        "masterAddress:string? masterEpoch:int? syncStateSetEpoch:int? masterBrokerId:long?",
    ),
    Header(
        "NotifyMinBrokerIdChangeRequestHeader",
        "minBrokerId:long? brokerName:string? minBrokerAddr:string? offlineBrokerAddr:string? haBrokerAddr:string?",
    ),
    Header(
        "PollingInfoRequestHeader",
        "consumerGroup:string topic:string queueId:int",
        inherits=TOPIC,
    ),
    Header(
        "PollingInfoResponseHeader",
        "pollingNum:int",
    ),
    Header(
        "QueryConsumeQueueRequestHeader",
        "topic:string? queueId:int? index:long? count:int? consumerGroup:string?",
        inherits=TOPIC,
    ),
    Header(
        "QueryConsumeTimeSpanRequestHeader",
        "topic:string group:string",
        inherits=TOPIC,
    ),
    Header(
        "QueryCorrectionOffsetHeader",
        "filterGroups:string? compareGroup:string topic:string",
        inherits=TOPIC,
    ),
    Header(
        "QuerySubscriptionByConsumerRequestHeader",
        "group:string topic:string?",
        inherits=TOPIC,
    ),
    Header(
        "QueryTopicConsumeByWhoRequestHeader",
        "topic:string",
        inherits=TOPIC,
    ),
    Header(
        "QueryTopicsByConsumerRequestHeader",
        "group:string",
        inherits=RPC,
    ),
    Header(
        "RegisterBrokerToControllerRequestHeader",
        "clusterName:string? brokerName:string? brokerId:long? brokerAddress:string? invokeTime:long?",
    ),
    Header(
        "RegisterBrokerToControllerResponseHeader",
        "clusterName:string? brokerName:string? masterBrokerId:long? masterAddress:string? "
        "masterEpoch:int? syncStateSetEpoch:int?",
    ),
    Header(
        "RegisterOrderTopicRequestHeader",
        "topic:string orderTopicString:string",
    ),
    Header(
        "RegisterTopicRequestHeader",
        "topic:string",
        inherits=TOPIC,
    ),
    Header(
        "RemoveBrokerRequestHeader",
        "brokerName:string brokerClusterName:string brokerId:long",
    ),
    Header(
        "ResetMasterFlushOffsetHeader",
        "masterFlushOffset:long",
    ),
    Header(
        "ResetOffsetRequestHeader",
        "group:string topic:string queueId:int? offset:long? timestamp:long isForce:boolean",
        inherits=TOPIC,
    ),
    Header(
        "ResumeCheckHalfMessageRequestHeader",
        "topic:string? msgId:string?",
    ),
    Header(
        "StatisticsMessagesRequestHeader",
        "consumerGroup:string topic:string queueId:int fromTime:long? toTime:long?",
        inherits=TOPIC,
    ),
    Header(
        "UnregisterClientResponseHeader",
        "",
    ),
    Header(
        "UpdateAclRequestHeader",
        "subject:string?",
    ),
    Header(
        "UpdateConsumerOffsetResponseHeader",
        "",
    ),
    Header(
        "UpdateGroupForbiddenRequestHeader",
        "group:string topic:string readable:boolean?",
        inherits=TOPIC,
    ),
    Header(
        "UpdateUserRequestHeader",
        "username:string?",
    ),
    Header(
        "ViewBrokerStatsDataRequestHeader",
        "statsName:string statsKey:string",
    ),
    Header(
        "ViewMessageResponseHeader",
        "",
    ),
    Header(
        "WipeWritePermOfBrokerRequestHeader",
        "brokerName:string",
    ),
    Header(
        "WipeWritePermOfBrokerResponseHeader",
        "wipeTopicCount:int",
    ),
)

#: Section 6: letter of SendMessageRequestHeaderV2 -> field of SendMessageRequestHeader ("": the broker's name).
SEND_MESSAGE_V2_LETTERS: Final[dict[str, str]] = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}

# ------------------------------------------------------------------------------------------------ bodies (section 7)

#: sysFlag of a message (7.1).
SYS_FLAGS: Final[dict[str, int]] = {
    "COMPRESSED": 0x1,
    "MULTI_TAGS": 0x2,
    "TRANSACTION_PREPARED": 0x4,
    "TRANSACTION_COMMIT": 0x8,
    "TRANSACTION_ROLLBACK": 0xC,
    "BORN_HOST_V6": 0x10,
    "STORE_HOST_V6": 0x20,
    "NEED_UNWRAP": 0x40,
    "INNER_BATCH": 0x80,
    "COMPRESSION_LZ4": 0x100,
    "COMPRESSION_ZSTD": 0x200,
    "COMPRESSION_ZLIB": 0x300,
}
SYS_FLAG_TRANSACTION: Final = 0xC

#: Bits 8 to 10 of sysFlag; producers before 5.0 wrote 0.
COMPRESSIONS: Final[dict[int, str]] = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}

#: commitOrRollback of END_TRANSACTION.
TRANSACTION_STATES: Final[dict[int, str]] = {0: "UNKNOWN", 8: "COMMIT", 12: "ROLLBACK"}

#: perm of a topic and of a queue.
PERMISSIONS: Final[dict[str, int]] = {"INHERIT": 1, "WRITE": 2, "READ": 4}

#: The separators of the properties string.
NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"

#: Properties with a meaning for servers and clients.
PROPERTY_NAMES: Final[tuple[str, ...]] = (
    "KEYS",
    "TAGS",
    "WAIT",
    "DELAY",
    "RETRY_TOPIC",
    "REAL_TOPIC",
    "REAL_QID",
    "TRAN_MSG",
    "PGROUP",
    "MIN_OFFSET",
    "MAX_OFFSET",
    "BUYER_ID",
    "ORIGIN_MESSAGE_ID",
    "TRANSFER_FLAG",
    "CORRECTION_FLAG",
    "MQ2_FLAG",
    "RECONSUME_TIME",
    "MSG_REGION",
    "TRACE_ON",
    "UNIQ_KEY",
    "EXTEND_UNIQ_INFO",
    "MAX_RECONSUME_TIMES",
    "CONSUME_START_TIME",
    "INNER_NUM",
    "INNER_BASE",
    "DUP_INFO",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "__transactionId__",
    "TRANSACTION_CHECK_TIMES",
    "INSTANCE_ID",
    "CORRELATION_ID",
    "REPLY_TO_CLIENT",
    "TTL",
    "ARRIVE_TIME",
    "PUSH_REPLY_TIME",
    "CLUSTER",
    "MSG_TYPE",
    "POP_CK",
    "POP_CK_OFFSET",
    "1ST_POP_TIME",
    "__SHARDINGKEY",
    "PROPERTY_FORWARD_QUEUE_ID",
    "REDIRECT",
    "INNER_MULTI_DISPATCH",
    "INNER_MULTI_QUEUE_OFFSET",
    "TRACE_CONTEXT",
    "TIMER_DELAY_SEC",
    "TIMER_DELIVER_MS",
    "__BORNHOST",
    "BORN_TIMESTAMP",
    "__RMQ.TRANSIENT.",
    "__RMQ.TRANSIENT.TOPIC_SYS_FLAG",
    "__RMQ.TRANSIENT.GROUP_SYS_FLAG",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    "TIMER_OUT_MS",
    "TIMER_DEL_UNIQKEY",
    "TIMER_DELAY_LEVEL",
    "TIMER_DELAY_MS",
    "__CRC32#",
    "DLQ_ORIGIN_TOPIC",
    "DLQ_ORIGIN_MESSAGE_ID",
)

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"


class Body(NamedTuple):
    """A class whose objects are bodies in JSON (7.3).

    `fields`: `name:type` separated by spaces. Types are string, int, long, boolean, another row's name, `[T]` for a
    list and `{K:T}` for a map. The Java reader requires none of them; an absent one is null.
    """

    name: str
    fields: str
    requests: tuple[str, ...] = ()  # names of REQUEST_CODES whose request has it
    responses: tuple[str, ...] = ()  # and whose successful response has it


BODIES: Final[tuple[Body, ...]] = (
    Body("ProducerData", "groupName:string"),
    Body(
        "SubscriptionData",
        "classFilterMode:boolean topic:string subString:string tagsSet:[string] codeSet:[int] subVersion:long "
        "expressionType:string",
    ),
    Body(
        "ConsumerData",
        "groupName:string consumeType:string messageModel:string consumeFromWhere:string "
        "subscriptionDataSet:[SubscriptionData] unitMode:boolean",
    ),
    Body(
        "HeartbeatData",
        "clientID:string producerDataSet:[ProducerData] consumerDataSet:[ConsumerData] heartbeatFingerprint:int "
        "withoutSub:boolean",
        requests=("HEART_BEAT",),
    ),
    Body("MessageQueue", "topic:string brokerName:string queueId:int"),
    Body(
        "LockBatchRequestBody",
        "consumerGroup:string clientId:string onlyThisBroker:boolean mqSet:[MessageQueue]",
        requests=("LOCK_BATCH_MQ",),
    ),
    Body("LockBatchResponseBody", "lockOKMQSet:[MessageQueue]", responses=("LOCK_BATCH_MQ",)),
    Body(
        "UnlockBatchRequestBody",
        "consumerGroup:string clientId:string onlyThisBroker:boolean mqSet:[MessageQueue]",
        requests=("UNLOCK_BATCH_MQ",),
    ),
    Body("GetConsumerListByGroupResponseBody", "consumerIdList:[string]", responses=("GET_CONSUMER_LIST_BY_GROUP",)),
    Body(
        "BrokerData",
        "cluster:string brokerName:string brokerAddrs:{long:string} zoneName:string enableActingMaster:boolean",
    ),
    Body("QueueData", "brokerName:string readQueueNums:int writeQueueNums:int perm:int topicSysFlag:int"),
    Body(
        "TopicRouteData",
        "orderTopicConf:string queueDatas:[QueueData] brokerDatas:[BrokerData] filterServerTable:{string:[string]}",
        responses=("GET_ROUTEINFO_BY_TOPIC",),
    ),
    Body(
        "ClusterInfo",
        "brokerAddrTable:{string:BrokerData} clusterAddrTable:{string:[string]}",
        responses=("GET_BROKER_CLUSTER_INFO",),
    ),
    Body("BatchAck", "c:string t:string r:string so:long q:int rq:int pt:long it:long b:string"),
    Body("BatchAckMessageRequestBody", "brokerName:string acks:[BatchAck]", requests=("BATCH_ACK_MESSAGE",)),
    Body(
        "TopicList",
        "topicList:[string] brokerAddr:string",
        responses=(
            "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
            "GET_TOPICS_BY_CLUSTER",
            "GET_SYSTEM_TOPIC_LIST_FROM_NS",
            "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
            "GET_UNIT_TOPIC_LIST",
        ),
    ),
    Body("KVTable", "table:{string:string}", responses=("GET_BROKER_RUNTIME_INFO", "GET_KVLIST_BY_NAMESPACE")),
    Body("DataVersion", "stateVersion:long timestamp:long counter:long"),
    Body(
        "TopicConfig",
        "topicName:string readQueueNums:int writeQueueNums:int perm:int topicFilterType:string topicSysFlag:int "
        "order:boolean attributes:{string:string}",
    ),
    Body(
        "TopicConfigSerializeWrapper",
        "topicConfigTable:{string:TopicConfig} dataVersion:DataVersion",
        responses=("GET_ALL_TOPIC_CONFIG",),
    ),
)

# ------------------------------------------------------------------------------------------------ checks


SYSTEM_ERROR: Final = 1

#: `spec` is a section of docs/rocketmq.md.
CHECKS: Final[tuple[Check, ...]] = (
    # ---- the frame
    Check("FRAME_TOO_LARGE", "frame larger than the limit", "1", status="LIMIT"),
    Check("FRAME_TOO_SHORT", "frame without a header word", "1", status="TRUNCATED"),
    Check("FRAME_TRUNCATED", "frame is truncated", "1", status="TRUNCATED"),
    Check("FRAME_TRAILING", "bytes after the frame", "1"),
    Check("HEADER_LENGTH", "header runs past the frame", "1", status="TRUNCATED"),
    Check("SERIALIZE_TYPE", "unknown serialize type", "1", status="UNSUPPORTED"),
    # ---- the JSON header
    Check("JSON_EMPTY", "no header", "2", status="TRUNCATED"),
    Check("JSON_UTF8", "ill-formed UTF-8", "2"),
    Check("JSON_OBJECT", "header is not a JSON object", "2"),
    Check("JSON_SYNTAX", "not JSON that the Java reader accepts", "2"),
    Check("JSON_TRUNCATED", "JSON is truncated", "2", status="TRUNCATED"),
    Check("JSON_TRAILING", "text after the JSON object", "2"),
    Check("JSON_NUMBER", "not a number of 32 bits", "2"),
    Check("JSON_LANGUAGE", "no language has this number", "2"),
    Check("JSON_NESTING", "JSON nested too deeply", "2", status="LIMIT"),
    Check("EXT_FIELDS_OBJECT", "extFields is not a JSON object", "2"),
    Check("ELEMENTS", "more fields than the limit", "2", status="LIMIT"),
    # ---- the binary header
    Check("HEADER_TRUNCATED", "field runs past the header", "3", status="TRUNCATED"),
    Check("LENGTH_NEGATIVE", "negative length", "3"),
    # ---- typed headers
    Check("FIELD_MISSING", "required field is missing", "6", lax=True, reply=SYSTEM_ERROR),
    Check("FIELD_VALUE", "value is not of the field's type", "6", lax=True, reply=SYSTEM_ERROR),
    # ---- stored messages and batches
    Check("MESSAGE_TRUNCATED", "message runs past its enclosing structure", "7.1", status="TRUNCATED"),
    Check("MESSAGE_MAGIC", "not the magic code of a message", "7.1"),
    Check("MESSAGE_TOPIC_LENGTH", "negative topic length", "7.1"),
    Check("MESSAGE_PORT", "not a port", "7.1"),
    Check("MESSAGE_COMPRESSION", "unknown compression type", "7.1", status="UNSUPPORTED"),
    Check("MESSAGE_CRC", "body CRC does not match", "7.1"),
    Check("MESSAGE_TRAILING", "bytes after the message", "7.1"),
    Check("BODY_COMPRESSED", "body cannot be decompressed", "7.1"),
    Check(
        "BODY_LIBRARY",
        "body compressed by a library that is not installed: pip install wirefmt[rocketmq]",
        "7.1",
        status="UNSUPPORTED",
    ),
    Check("BODY_TOO_LARGE", "body larger than the limit once decompressed", "7.1", status="LIMIT"),
    Check("BODIES_TOO_LARGE", "bodies larger than max_inflated once decompressed", "7.1", status="LIMIT"),
    Check("BATCH_LENGTH", "negative length", "7.2"),
    # ---- JSON bodies
    Check("BODY_JSON", "body is not JSON", "7.3", reply=SYSTEM_ERROR),
    Check("BODY_SHAPE", "JSON of another shape", "7.3", reply=SYSTEM_ERROR),
)

#: Paths of errors. The first is the frame itself.
FIELDS: Final[tuple[str, ...]] = (
    "",
    "length",
    "header_length",
    "serialize_type",
    "header",
    "code",
    "language",
    "version",
    "opaque",
    "flag",
    "remark",
    "ext_fields_length",
    "ext_fields",
    "ext_fields[].key",
    "ext_fields[].value",
    "body",
    "messages[]",
    "messages[].total_size",
    "messages[].magic_code",
    "messages[].body_crc",
    "messages[].sys_flag",
    "messages[].born_host",
    "messages[].store_host",
    "messages[].body_length",
    "messages[].body",
    "messages[].topic_length",
    "messages[].topic",
    "messages[].properties_length",
    "messages[].properties",
)
