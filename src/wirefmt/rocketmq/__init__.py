"""RocketMQ's remoting protocol: octets to commands and back, typed headers, stored messages, JSON bodies.

>>> from wirefmt import rocketmq
>>> header = rocketmq.QueryConsumerOffsetRequestHeader(consumer_group="CG", topic="T", queue_id=2)
>>> octets = rocketmq.RemotingCommand(code=14, opaque=7, header=header, serialize_type="ROCKETMQ").encode()
>>> rocketmq.decode(octets).header.topic
'T'
"""

from wirefmt import _core
from wirefmt.rocketmq.spec import ExtraInfo

AckMessageRequestHeader = _core.AckMessageRequestHeader
AddBrokerRequestHeader = _core.AddBrokerRequestHeader
AddWritePermOfBrokerRequestHeader = _core.AddWritePermOfBrokerRequestHeader
AddWritePermOfBrokerResponseHeader = _core.AddWritePermOfBrokerResponseHeader
AlterSyncStateSetRequestHeader = _core.AlterSyncStateSetRequestHeader
AlterSyncStateSetResponseHeader = _core.AlterSyncStateSetResponseHeader
ApplyBrokerIdRequestHeader = _core.ApplyBrokerIdRequestHeader
ApplyBrokerIdResponseHeader = _core.ApplyBrokerIdResponseHeader
BatchAck = _core.BatchAck
BatchAckMessageRequestBody = _core.BatchAckMessageRequestBody
BrokerData = _core.BrokerData
BrokerHeartbeatRequestHeader = _core.BrokerHeartbeatRequestHeader
ChangeInvisibleTimeRequestHeader = _core.ChangeInvisibleTimeRequestHeader
ChangeInvisibleTimeResponseHeader = _core.ChangeInvisibleTimeResponseHeader
CheckRocksdbCqWriteProgressRequestHeader = _core.CheckRocksdbCqWriteProgressRequestHeader
CheckTransactionStateRequestHeader = _core.CheckTransactionStateRequestHeader
CheckTransactionStateResponseHeader = _core.CheckTransactionStateResponseHeader
CleanControllerBrokerDataRequestHeader = _core.CleanControllerBrokerDataRequestHeader
CloneGroupOffsetRequestHeader = _core.CloneGroupOffsetRequestHeader
ClusterInfo = _core.ClusterInfo
CommandCustomHeader = _core.RocketmqHeader
ConsumeMessageDirectlyResultRequestHeader = _core.ConsumeMessageDirectlyResultRequestHeader
ConsumerData = _core.ConsumerData
ConsumerSendMsgBackRequestHeader = _core.ConsumerSendMsgBackRequestHeader
CreateAclRequestHeader = _core.CreateAclRequestHeader
CreateTopicListRequestHeader = _core.CreateTopicListRequestHeader
CreateTopicRequestHeader = _core.CreateTopicRequestHeader
CreateUserRequestHeader = _core.CreateUserRequestHeader
DataVersion = _core.DataVersion
Decoder = _core.RocketmqDecoder
DeleteAclRequestHeader = _core.DeleteAclRequestHeader
DeleteKVConfigRequestHeader = _core.DeleteKVConfigRequestHeader
DeleteSubscriptionGroupRequestHeader = _core.DeleteSubscriptionGroupRequestHeader
DeleteTopicFromNamesrvRequestHeader = _core.DeleteTopicFromNamesrvRequestHeader
DeleteTopicRequestHeader = _core.DeleteTopicRequestHeader
DeleteUserRequestHeader = _core.DeleteUserRequestHeader
ElectMasterRequestHeader = _core.ElectMasterRequestHeader
ElectMasterResponseHeader = _core.ElectMasterResponseHeader
EndTransactionRequestHeader = _core.EndTransactionRequestHeader
EndTransactionResponseHeader = _core.EndTransactionResponseHeader
ExchangeHAInfoRequestHeader = _core.ExchangeHAInfoRequestHeader
ExchangeHAInfoResponseHeader = _core.ExchangeHAInfoResponseHeader
ExportRocksDBConfigToJsonRequestHeader = _core.ExportRocksDBConfigToJsonRequestHeader
GetAclRequestHeader = _core.GetAclRequestHeader
GetAllProducerInfoRequestHeader = _core.GetAllProducerInfoRequestHeader
GetAllSubscriptionGroupRequestHeader = _core.GetAllSubscriptionGroupRequestHeader
GetAllSubscriptionGroupResponseHeader = _core.GetAllSubscriptionGroupResponseHeader
GetAllTopicConfigRequestHeader = _core.GetAllTopicConfigRequestHeader
GetAllTopicConfigResponseHeader = _core.GetAllTopicConfigResponseHeader
GetBrokerConfigResponseHeader = _core.GetBrokerConfigResponseHeader
GetBrokerMemberGroupRequestHeader = _core.GetBrokerMemberGroupRequestHeader
GetConsumeStatsInBrokerHeader = _core.GetConsumeStatsInBrokerHeader
GetConsumeStatsRequestHeader = _core.GetConsumeStatsRequestHeader
GetConsumerConnectionListRequestHeader = _core.GetConsumerConnectionListRequestHeader
GetConsumerListByGroupRequestHeader = _core.GetConsumerListByGroupRequestHeader
GetConsumerListByGroupResponseBody = _core.GetConsumerListByGroupResponseBody
GetConsumerListByGroupResponseHeader = _core.GetConsumerListByGroupResponseHeader
GetConsumerRunningInfoRequestHeader = _core.GetConsumerRunningInfoRequestHeader
GetConsumerStatusRequestHeader = _core.GetConsumerStatusRequestHeader
GetEarliestMsgStoretimeRequestHeader = _core.GetEarliestMsgStoretimeRequestHeader
GetEarliestMsgStoretimeResponseHeader = _core.GetEarliestMsgStoretimeResponseHeader
GetKVConfigRequestHeader = _core.GetKVConfigRequestHeader
GetKVConfigResponseHeader = _core.GetKVConfigResponseHeader
GetKVListByNamespaceRequestHeader = _core.GetKVListByNamespaceRequestHeader
GetMaxOffsetRequestHeader = _core.GetMaxOffsetRequestHeader
GetMaxOffsetResponseHeader = _core.GetMaxOffsetResponseHeader
GetMetaDataResponseHeader = _core.GetMetaDataResponseHeader
GetMinOffsetRequestHeader = _core.GetMinOffsetRequestHeader
GetMinOffsetResponseHeader = _core.GetMinOffsetResponseHeader
GetNextBrokerIdRequestHeader = _core.GetNextBrokerIdRequestHeader
GetNextBrokerIdResponseHeader = _core.GetNextBrokerIdResponseHeader
GetProducerConnectionListRequestHeader = _core.GetProducerConnectionListRequestHeader
GetReplicaInfoRequestHeader = _core.GetReplicaInfoRequestHeader
GetReplicaInfoResponseHeader = _core.GetReplicaInfoResponseHeader
GetRouteInfoRequestHeader = _core.GetRouteInfoRequestHeader
GetSubscriptionGroupConfigRequestHeader = _core.GetSubscriptionGroupConfigRequestHeader
GetTopicConfigRequestHeader = _core.GetTopicConfigRequestHeader
GetTopicStatsInfoRequestHeader = _core.GetTopicStatsInfoRequestHeader
GetTopicsByClusterRequestHeader = _core.GetTopicsByClusterRequestHeader
GetUserRequestHeader = _core.GetUserRequestHeader
HeartbeatData = _core.HeartbeatData
HeartbeatRequestHeader = _core.HeartbeatRequestHeader
InitConsumerOffsetRequestHeader = _core.InitConsumerOffsetRequestHeader
KVTable = _core.KVTable
ListAclsRequestHeader = _core.ListAclsRequestHeader
ListUsersRequestHeader = _core.ListUsersRequestHeader
LockBatchMqRequestHeader = _core.LockBatchMqRequestHeader
LockBatchRequestBody = _core.LockBatchRequestBody
LockBatchResponseBody = _core.LockBatchResponseBody
Message = _core.RocketmqBatchMessage
MessageExt = _core.RocketmqMessageExt
MessageQueue = _core.MessageQueue
NotificationRequestHeader = _core.NotificationRequestHeader
NotificationResponseHeader = _core.NotificationResponseHeader
NotifyBrokerRoleChangedRequestHeader = _core.NotifyBrokerRoleChangedRequestHeader
NotifyConsumerIdsChangedRequestHeader = _core.NotifyConsumerIdsChangedRequestHeader
NotifyMinBrokerIdChangeRequestHeader = _core.NotifyMinBrokerIdChangeRequestHeader
PeekMessageRequestHeader = _core.PeekMessageRequestHeader
PollingInfoRequestHeader = _core.PollingInfoRequestHeader
PollingInfoResponseHeader = _core.PollingInfoResponseHeader
PopMessageRequestHeader = _core.PopMessageRequestHeader
PopMessageResponseHeader = _core.PopMessageResponseHeader
ProducerData = _core.ProducerData
PullMessageRequestHeader = _core.PullMessageRequestHeader
PullMessageResponseHeader = _core.PullMessageResponseHeader
PutKVConfigRequestHeader = _core.PutKVConfigRequestHeader
QueryConsumeQueueRequestHeader = _core.QueryConsumeQueueRequestHeader
QueryConsumeTimeSpanRequestHeader = _core.QueryConsumeTimeSpanRequestHeader
QueryConsumerOffsetRequestHeader = _core.QueryConsumerOffsetRequestHeader
QueryConsumerOffsetResponseHeader = _core.QueryConsumerOffsetResponseHeader
QueryCorrectionOffsetHeader = _core.QueryCorrectionOffsetHeader
QueryDataVersionRequestHeader = _core.QueryDataVersionRequestHeader
QueryDataVersionResponseHeader = _core.QueryDataVersionResponseHeader
QueryMessageRequestHeader = _core.QueryMessageRequestHeader
QueryMessageResponseHeader = _core.QueryMessageResponseHeader
QuerySubscriptionByConsumerRequestHeader = _core.QuerySubscriptionByConsumerRequestHeader
QueryTopicConsumeByWhoRequestHeader = _core.QueryTopicConsumeByWhoRequestHeader
QueryTopicsByConsumerRequestHeader = _core.QueryTopicsByConsumerRequestHeader
QueueData = _core.QueueData
RecallMessageRequestHeader = _core.RecallMessageRequestHeader
RecallMessageResponseHeader = _core.RecallMessageResponseHeader
RegisterBrokerRequestHeader = _core.RegisterBrokerRequestHeader
RegisterBrokerResponseHeader = _core.RegisterBrokerResponseHeader
RegisterBrokerToControllerRequestHeader = _core.RegisterBrokerToControllerRequestHeader
RegisterBrokerToControllerResponseHeader = _core.RegisterBrokerToControllerResponseHeader
RegisterOrderTopicRequestHeader = _core.RegisterOrderTopicRequestHeader
RegisterTopicRequestHeader = _core.RegisterTopicRequestHeader
RemotingCommand = _core.RocketmqCommand
RemotingSerializable = _core.RocketmqBody
RemoveBrokerRequestHeader = _core.RemoveBrokerRequestHeader
ReplyMessageRequestHeader = _core.ReplyMessageRequestHeader
ResetMasterFlushOffsetHeader = _core.ResetMasterFlushOffsetHeader
ResetOffsetRequestHeader = _core.ResetOffsetRequestHeader
ResumeCheckHalfMessageRequestHeader = _core.ResumeCheckHalfMessageRequestHeader
RpcRequestHeader = _core.RpcRequestHeader
SearchOffsetRequestHeader = _core.SearchOffsetRequestHeader
SearchOffsetResponseHeader = _core.SearchOffsetResponseHeader
SendMessageRequestHeader = _core.SendMessageRequestHeader
SendMessageRequestHeaderV2 = _core.SendMessageRequestHeaderV2
SendMessageResponseHeader = _core.SendMessageResponseHeader
StatisticsMessagesRequestHeader = _core.StatisticsMessagesRequestHeader
SubscriptionData = _core.SubscriptionData
TopicConfig = _core.TopicConfig
TopicConfigSerializeWrapper = _core.TopicConfigSerializeWrapper
TopicList = _core.TopicList
TopicRequestHeader = _core.TopicRequestHeader
TopicRouteData = _core.TopicRouteData
UnRegisterBrokerRequestHeader = _core.UnRegisterBrokerRequestHeader
UnlockBatchMqRequestHeader = _core.UnlockBatchMqRequestHeader
UnlockBatchRequestBody = _core.UnlockBatchRequestBody
UnregisterClientRequestHeader = _core.UnregisterClientRequestHeader
UnregisterClientResponseHeader = _core.UnregisterClientResponseHeader
UpdateAclRequestHeader = _core.UpdateAclRequestHeader
UpdateConsumerOffsetRequestHeader = _core.UpdateConsumerOffsetRequestHeader
UpdateConsumerOffsetResponseHeader = _core.UpdateConsumerOffsetResponseHeader
UpdateGroupForbiddenRequestHeader = _core.UpdateGroupForbiddenRequestHeader
UpdateUserRequestHeader = _core.UpdateUserRequestHeader
ViewBrokerStatsDataRequestHeader = _core.ViewBrokerStatsDataRequestHeader
ViewMessageRequestHeader = _core.ViewMessageRequestHeader
ViewMessageResponseHeader = _core.ViewMessageResponseHeader
WipeWritePermOfBrokerRequestHeader = _core.WipeWritePermOfBrokerRequestHeader
WipeWritePermOfBrokerResponseHeader = _core.WipeWritePermOfBrokerResponseHeader
body_class = _core.rocketmq_body_class
compress = _core.rocketmq_compress
decode = _core.decode_rocketmq
decode_batch = _core.rocketmq_decode_batch
decode_batch_messages = _core.rocketmq_decode_batch_messages
decode_extra_info = _core.rocketmq_decode_extra_info
decode_json = _core.rocketmq_decode_json
decode_message_id = _core.rocketmq_decode_message_id
decode_messages = _core.rocketmq_decode_messages
decode_msg_offset_info = _core.rocketmq_decode_msg_offset_info
decode_order_count_info = _core.rocketmq_decode_order_count_info
decode_properties = _core.rocketmq_decode_properties
decode_start_offset_info = _core.rocketmq_decode_start_offset_info
decode_unique_id = _core.rocketmq_decode_unique_id
encode = _core.encode_rocketmq
encode_batch_messages = _core.rocketmq_encode_batch_messages
encode_extra_info = _core.rocketmq_encode_extra_info
encode_json = _core.rocketmq_encode_json
encode_message_id = _core.rocketmq_encode_message_id
encode_properties = _core.rocketmq_encode_properties
encode_unique_id = _core.rocketmq_encode_unique_id
frame_size = _core.rocketmq_size
hash_code = _core.rocketmq_hash_code
header_class = _core.rocketmq_header_class
send_v1 = _core.rocketmq_send_v1
send_v2 = _core.rocketmq_send_v2
sign = _core.rocketmq_sign
signature = _core.rocketmq_signature
signed_octets = _core.rocketmq_signed_octets

__all__ = [
    "AckMessageRequestHeader",
    "AddBrokerRequestHeader",
    "AddWritePermOfBrokerRequestHeader",
    "AddWritePermOfBrokerResponseHeader",
    "AlterSyncStateSetRequestHeader",
    "AlterSyncStateSetResponseHeader",
    "ApplyBrokerIdRequestHeader",
    "ApplyBrokerIdResponseHeader",
    "BatchAck",
    "BatchAckMessageRequestBody",
    "BrokerData",
    "BrokerHeartbeatRequestHeader",
    "ChangeInvisibleTimeRequestHeader",
    "ChangeInvisibleTimeResponseHeader",
    "CheckRocksdbCqWriteProgressRequestHeader",
    "CheckTransactionStateRequestHeader",
    "CheckTransactionStateResponseHeader",
    "CleanControllerBrokerDataRequestHeader",
    "CloneGroupOffsetRequestHeader",
    "ClusterInfo",
    "CommandCustomHeader",
    "ConsumeMessageDirectlyResultRequestHeader",
    "ConsumerData",
    "ConsumerSendMsgBackRequestHeader",
    "CreateAclRequestHeader",
    "CreateTopicListRequestHeader",
    "CreateTopicRequestHeader",
    "CreateUserRequestHeader",
    "DataVersion",
    "Decoder",
    "DeleteAclRequestHeader",
    "DeleteKVConfigRequestHeader",
    "DeleteSubscriptionGroupRequestHeader",
    "DeleteTopicFromNamesrvRequestHeader",
    "DeleteTopicRequestHeader",
    "DeleteUserRequestHeader",
    "ElectMasterRequestHeader",
    "ElectMasterResponseHeader",
    "EndTransactionRequestHeader",
    "EndTransactionResponseHeader",
    "ExchangeHAInfoRequestHeader",
    "ExchangeHAInfoResponseHeader",
    "ExportRocksDBConfigToJsonRequestHeader",
    "ExtraInfo",
    "GetAclRequestHeader",
    "GetAllProducerInfoRequestHeader",
    "GetAllSubscriptionGroupRequestHeader",
    "GetAllSubscriptionGroupResponseHeader",
    "GetAllTopicConfigRequestHeader",
    "GetAllTopicConfigResponseHeader",
    "GetBrokerConfigResponseHeader",
    "GetBrokerMemberGroupRequestHeader",
    "GetConsumeStatsInBrokerHeader",
    "GetConsumeStatsRequestHeader",
    "GetConsumerConnectionListRequestHeader",
    "GetConsumerListByGroupRequestHeader",
    "GetConsumerListByGroupResponseBody",
    "GetConsumerListByGroupResponseHeader",
    "GetConsumerRunningInfoRequestHeader",
    "GetConsumerStatusRequestHeader",
    "GetEarliestMsgStoretimeRequestHeader",
    "GetEarliestMsgStoretimeResponseHeader",
    "GetKVConfigRequestHeader",
    "GetKVConfigResponseHeader",
    "GetKVListByNamespaceRequestHeader",
    "GetMaxOffsetRequestHeader",
    "GetMaxOffsetResponseHeader",
    "GetMetaDataResponseHeader",
    "GetMinOffsetRequestHeader",
    "GetMinOffsetResponseHeader",
    "GetNextBrokerIdRequestHeader",
    "GetNextBrokerIdResponseHeader",
    "GetProducerConnectionListRequestHeader",
    "GetReplicaInfoRequestHeader",
    "GetReplicaInfoResponseHeader",
    "GetRouteInfoRequestHeader",
    "GetSubscriptionGroupConfigRequestHeader",
    "GetTopicConfigRequestHeader",
    "GetTopicStatsInfoRequestHeader",
    "GetTopicsByClusterRequestHeader",
    "GetUserRequestHeader",
    "HeartbeatData",
    "HeartbeatRequestHeader",
    "InitConsumerOffsetRequestHeader",
    "KVTable",
    "ListAclsRequestHeader",
    "ListUsersRequestHeader",
    "LockBatchMqRequestHeader",
    "LockBatchRequestBody",
    "LockBatchResponseBody",
    "Message",
    "MessageExt",
    "MessageQueue",
    "NotificationRequestHeader",
    "NotificationResponseHeader",
    "NotifyBrokerRoleChangedRequestHeader",
    "NotifyConsumerIdsChangedRequestHeader",
    "NotifyMinBrokerIdChangeRequestHeader",
    "PeekMessageRequestHeader",
    "PollingInfoRequestHeader",
    "PollingInfoResponseHeader",
    "PopMessageRequestHeader",
    "PopMessageResponseHeader",
    "ProducerData",
    "PullMessageRequestHeader",
    "PullMessageResponseHeader",
    "PutKVConfigRequestHeader",
    "QueryConsumeQueueRequestHeader",
    "QueryConsumeTimeSpanRequestHeader",
    "QueryConsumerOffsetRequestHeader",
    "QueryConsumerOffsetResponseHeader",
    "QueryCorrectionOffsetHeader",
    "QueryDataVersionRequestHeader",
    "QueryDataVersionResponseHeader",
    "QueryMessageRequestHeader",
    "QueryMessageResponseHeader",
    "QuerySubscriptionByConsumerRequestHeader",
    "QueryTopicConsumeByWhoRequestHeader",
    "QueryTopicsByConsumerRequestHeader",
    "QueueData",
    "RecallMessageRequestHeader",
    "RecallMessageResponseHeader",
    "RegisterBrokerRequestHeader",
    "RegisterBrokerResponseHeader",
    "RegisterBrokerToControllerRequestHeader",
    "RegisterBrokerToControllerResponseHeader",
    "RegisterOrderTopicRequestHeader",
    "RegisterTopicRequestHeader",
    "RemotingCommand",
    "RemotingSerializable",
    "RemoveBrokerRequestHeader",
    "ReplyMessageRequestHeader",
    "ResetMasterFlushOffsetHeader",
    "ResetOffsetRequestHeader",
    "ResumeCheckHalfMessageRequestHeader",
    "RpcRequestHeader",
    "SearchOffsetRequestHeader",
    "SearchOffsetResponseHeader",
    "SendMessageRequestHeader",
    "SendMessageRequestHeaderV2",
    "SendMessageResponseHeader",
    "StatisticsMessagesRequestHeader",
    "SubscriptionData",
    "TopicConfig",
    "TopicConfigSerializeWrapper",
    "TopicList",
    "TopicRequestHeader",
    "TopicRouteData",
    "UnRegisterBrokerRequestHeader",
    "UnlockBatchMqRequestHeader",
    "UnlockBatchRequestBody",
    "UnregisterClientRequestHeader",
    "UnregisterClientResponseHeader",
    "UpdateAclRequestHeader",
    "UpdateConsumerOffsetRequestHeader",
    "UpdateConsumerOffsetResponseHeader",
    "UpdateGroupForbiddenRequestHeader",
    "UpdateUserRequestHeader",
    "ViewBrokerStatsDataRequestHeader",
    "ViewMessageRequestHeader",
    "ViewMessageResponseHeader",
    "WipeWritePermOfBrokerRequestHeader",
    "WipeWritePermOfBrokerResponseHeader",
    "body_class",
    "compress",
    "decode",
    "decode_batch",
    "decode_batch_messages",
    "decode_extra_info",
    "decode_json",
    "decode_message_id",
    "decode_messages",
    "decode_msg_offset_info",
    "decode_order_count_info",
    "decode_properties",
    "decode_start_offset_info",
    "decode_unique_id",
    "encode",
    "encode_batch_messages",
    "encode_extra_info",
    "encode_json",
    "encode_message_id",
    "encode_properties",
    "encode_unique_id",
    "frame_size",
    "hash_code",
    "header_class",
    "send_v1",
    "send_v2",
    "sign",
    "signature",
    "signed_octets",
]
