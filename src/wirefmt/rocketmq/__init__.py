"""RocketMQ's remoting protocol: bytes to commands and back, typed headers, stored messages, JSON bodies.

>>> from wirefmt import rocketmq
>>> header = rocketmq.QueryConsumerOffsetRequestHeader(consumer_group="CG", topic="T", queue_id=2)
>>> octets = rocketmq.RemotingCommand(code=14, opaque=7, header=header, serialize_type="ROCKETMQ").encode()
>>> rocketmq.decode(octets).header.topic
'T'
"""

from wirefmt.rocketmq import _codec
from wirefmt.rocketmq.spec import ExtraInfo

AckMessageRequestHeader = _codec.AckMessageRequestHeader
AddBrokerRequestHeader = _codec.AddBrokerRequestHeader
AddWritePermOfBrokerRequestHeader = _codec.AddWritePermOfBrokerRequestHeader
AddWritePermOfBrokerResponseHeader = _codec.AddWritePermOfBrokerResponseHeader
AlterSyncStateSetRequestHeader = _codec.AlterSyncStateSetRequestHeader
AlterSyncStateSetResponseHeader = _codec.AlterSyncStateSetResponseHeader
ApplyBrokerIdRequestHeader = _codec.ApplyBrokerIdRequestHeader
ApplyBrokerIdResponseHeader = _codec.ApplyBrokerIdResponseHeader
BatchAck = _codec.BatchAck
BatchAckMessageRequestBody = _codec.BatchAckMessageRequestBody
BrokerData = _codec.BrokerData
BrokerHeartbeatRequestHeader = _codec.BrokerHeartbeatRequestHeader
ChangeInvisibleTimeRequestHeader = _codec.ChangeInvisibleTimeRequestHeader
ChangeInvisibleTimeResponseHeader = _codec.ChangeInvisibleTimeResponseHeader
CheckRocksdbCqWriteProgressRequestHeader = _codec.CheckRocksdbCqWriteProgressRequestHeader
CheckTransactionStateRequestHeader = _codec.CheckTransactionStateRequestHeader
CheckTransactionStateResponseHeader = _codec.CheckTransactionStateResponseHeader
CleanControllerBrokerDataRequestHeader = _codec.CleanControllerBrokerDataRequestHeader
CloneGroupOffsetRequestHeader = _codec.CloneGroupOffsetRequestHeader
ClusterInfo = _codec.ClusterInfo
CommandCustomHeader = _codec.RocketmqHeader
ConsumeMessageDirectlyResultRequestHeader = _codec.ConsumeMessageDirectlyResultRequestHeader
ConsumerData = _codec.ConsumerData
ConsumerSendMsgBackRequestHeader = _codec.ConsumerSendMsgBackRequestHeader
CreateAclRequestHeader = _codec.CreateAclRequestHeader
CreateTopicListRequestHeader = _codec.CreateTopicListRequestHeader
CreateTopicRequestHeader = _codec.CreateTopicRequestHeader
CreateUserRequestHeader = _codec.CreateUserRequestHeader
DataVersion = _codec.DataVersion
Decoder = _codec.RocketmqDecoder
DeleteAclRequestHeader = _codec.DeleteAclRequestHeader
DeleteKVConfigRequestHeader = _codec.DeleteKVConfigRequestHeader
DeleteSubscriptionGroupRequestHeader = _codec.DeleteSubscriptionGroupRequestHeader
DeleteTopicFromNamesrvRequestHeader = _codec.DeleteTopicFromNamesrvRequestHeader
DeleteTopicRequestHeader = _codec.DeleteTopicRequestHeader
DeleteUserRequestHeader = _codec.DeleteUserRequestHeader
ElectMasterRequestHeader = _codec.ElectMasterRequestHeader
ElectMasterResponseHeader = _codec.ElectMasterResponseHeader
EndTransactionRequestHeader = _codec.EndTransactionRequestHeader
EndTransactionResponseHeader = _codec.EndTransactionResponseHeader
ExchangeHAInfoRequestHeader = _codec.ExchangeHAInfoRequestHeader
ExchangeHAInfoResponseHeader = _codec.ExchangeHAInfoResponseHeader
ExportRocksDBConfigToJsonRequestHeader = _codec.ExportRocksDBConfigToJsonRequestHeader
GetAclRequestHeader = _codec.GetAclRequestHeader
GetAllProducerInfoRequestHeader = _codec.GetAllProducerInfoRequestHeader
GetAllSubscriptionGroupRequestHeader = _codec.GetAllSubscriptionGroupRequestHeader
GetAllSubscriptionGroupResponseHeader = _codec.GetAllSubscriptionGroupResponseHeader
GetAllTopicConfigRequestHeader = _codec.GetAllTopicConfigRequestHeader
GetAllTopicConfigResponseHeader = _codec.GetAllTopicConfigResponseHeader
GetBrokerConfigResponseHeader = _codec.GetBrokerConfigResponseHeader
GetBrokerMemberGroupRequestHeader = _codec.GetBrokerMemberGroupRequestHeader
GetConsumeStatsInBrokerHeader = _codec.GetConsumeStatsInBrokerHeader
GetConsumeStatsRequestHeader = _codec.GetConsumeStatsRequestHeader
GetConsumerConnectionListRequestHeader = _codec.GetConsumerConnectionListRequestHeader
GetConsumerListByGroupRequestHeader = _codec.GetConsumerListByGroupRequestHeader
GetConsumerListByGroupResponseBody = _codec.GetConsumerListByGroupResponseBody
GetConsumerListByGroupResponseHeader = _codec.GetConsumerListByGroupResponseHeader
GetConsumerRunningInfoRequestHeader = _codec.GetConsumerRunningInfoRequestHeader
GetConsumerStatusRequestHeader = _codec.GetConsumerStatusRequestHeader
GetEarliestMsgStoretimeRequestHeader = _codec.GetEarliestMsgStoretimeRequestHeader
GetEarliestMsgStoretimeResponseHeader = _codec.GetEarliestMsgStoretimeResponseHeader
GetKVConfigRequestHeader = _codec.GetKVConfigRequestHeader
GetKVConfigResponseHeader = _codec.GetKVConfigResponseHeader
GetKVListByNamespaceRequestHeader = _codec.GetKVListByNamespaceRequestHeader
GetMaxOffsetRequestHeader = _codec.GetMaxOffsetRequestHeader
GetMaxOffsetResponseHeader = _codec.GetMaxOffsetResponseHeader
GetMetaDataResponseHeader = _codec.GetMetaDataResponseHeader
GetMinOffsetRequestHeader = _codec.GetMinOffsetRequestHeader
GetMinOffsetResponseHeader = _codec.GetMinOffsetResponseHeader
GetNextBrokerIdRequestHeader = _codec.GetNextBrokerIdRequestHeader
GetNextBrokerIdResponseHeader = _codec.GetNextBrokerIdResponseHeader
GetProducerConnectionListRequestHeader = _codec.GetProducerConnectionListRequestHeader
GetReplicaInfoRequestHeader = _codec.GetReplicaInfoRequestHeader
GetReplicaInfoResponseHeader = _codec.GetReplicaInfoResponseHeader
GetRouteInfoRequestHeader = _codec.GetRouteInfoRequestHeader
GetSubscriptionGroupConfigRequestHeader = _codec.GetSubscriptionGroupConfigRequestHeader
GetTopicConfigRequestHeader = _codec.GetTopicConfigRequestHeader
GetTopicStatsInfoRequestHeader = _codec.GetTopicStatsInfoRequestHeader
GetTopicsByClusterRequestHeader = _codec.GetTopicsByClusterRequestHeader
GetUserRequestHeader = _codec.GetUserRequestHeader
HeartbeatData = _codec.HeartbeatData
HeartbeatRequestHeader = _codec.HeartbeatRequestHeader
InitConsumerOffsetRequestHeader = _codec.InitConsumerOffsetRequestHeader
KVTable = _codec.KVTable
ListAclsRequestHeader = _codec.ListAclsRequestHeader
ListUsersRequestHeader = _codec.ListUsersRequestHeader
LockBatchMqRequestHeader = _codec.LockBatchMqRequestHeader
LockBatchRequestBody = _codec.LockBatchRequestBody
LockBatchResponseBody = _codec.LockBatchResponseBody
Message = _codec.RocketmqBatchMessage
MessageExt = _codec.RocketmqMessageExt
MessageQueue = _codec.MessageQueue
NotificationRequestHeader = _codec.NotificationRequestHeader
NotificationResponseHeader = _codec.NotificationResponseHeader
NotifyBrokerRoleChangedRequestHeader = _codec.NotifyBrokerRoleChangedRequestHeader
NotifyConsumerIdsChangedRequestHeader = _codec.NotifyConsumerIdsChangedRequestHeader
NotifyMinBrokerIdChangeRequestHeader = _codec.NotifyMinBrokerIdChangeRequestHeader
PeekMessageRequestHeader = _codec.PeekMessageRequestHeader
PollingInfoRequestHeader = _codec.PollingInfoRequestHeader
PollingInfoResponseHeader = _codec.PollingInfoResponseHeader
PopMessageRequestHeader = _codec.PopMessageRequestHeader
PopMessageResponseHeader = _codec.PopMessageResponseHeader
ProducerData = _codec.ProducerData
PullMessageRequestHeader = _codec.PullMessageRequestHeader
PullMessageResponseHeader = _codec.PullMessageResponseHeader
PutKVConfigRequestHeader = _codec.PutKVConfigRequestHeader
QueryConsumeQueueRequestHeader = _codec.QueryConsumeQueueRequestHeader
QueryConsumeTimeSpanRequestHeader = _codec.QueryConsumeTimeSpanRequestHeader
QueryConsumerOffsetRequestHeader = _codec.QueryConsumerOffsetRequestHeader
QueryConsumerOffsetResponseHeader = _codec.QueryConsumerOffsetResponseHeader
QueryCorrectionOffsetHeader = _codec.QueryCorrectionOffsetHeader
QueryDataVersionRequestHeader = _codec.QueryDataVersionRequestHeader
QueryDataVersionResponseHeader = _codec.QueryDataVersionResponseHeader
QueryMessageRequestHeader = _codec.QueryMessageRequestHeader
QueryMessageResponseHeader = _codec.QueryMessageResponseHeader
QuerySubscriptionByConsumerRequestHeader = _codec.QuerySubscriptionByConsumerRequestHeader
QueryTopicConsumeByWhoRequestHeader = _codec.QueryTopicConsumeByWhoRequestHeader
QueryTopicsByConsumerRequestHeader = _codec.QueryTopicsByConsumerRequestHeader
QueueData = _codec.QueueData
RecallMessageRequestHeader = _codec.RecallMessageRequestHeader
RecallMessageResponseHeader = _codec.RecallMessageResponseHeader
RegisterBrokerRequestHeader = _codec.RegisterBrokerRequestHeader
RegisterBrokerResponseHeader = _codec.RegisterBrokerResponseHeader
RegisterBrokerToControllerRequestHeader = _codec.RegisterBrokerToControllerRequestHeader
RegisterBrokerToControllerResponseHeader = _codec.RegisterBrokerToControllerResponseHeader
RegisterOrderTopicRequestHeader = _codec.RegisterOrderTopicRequestHeader
RegisterTopicRequestHeader = _codec.RegisterTopicRequestHeader
RemotingCommand = _codec.RocketmqCommand
RemotingSerializable = _codec.RocketmqBody
RemoveBrokerRequestHeader = _codec.RemoveBrokerRequestHeader
ReplyMessageRequestHeader = _codec.ReplyMessageRequestHeader
ResetMasterFlushOffsetHeader = _codec.ResetMasterFlushOffsetHeader
ResetOffsetRequestHeader = _codec.ResetOffsetRequestHeader
ResumeCheckHalfMessageRequestHeader = _codec.ResumeCheckHalfMessageRequestHeader
RpcRequestHeader = _codec.RpcRequestHeader
SearchOffsetRequestHeader = _codec.SearchOffsetRequestHeader
SearchOffsetResponseHeader = _codec.SearchOffsetResponseHeader
SendMessageRequestHeader = _codec.SendMessageRequestHeader
SendMessageRequestHeaderV2 = _codec.SendMessageRequestHeaderV2
SendMessageResponseHeader = _codec.SendMessageResponseHeader
StatisticsMessagesRequestHeader = _codec.StatisticsMessagesRequestHeader
SubscriptionData = _codec.SubscriptionData
TopicConfig = _codec.TopicConfig
TopicConfigSerializeWrapper = _codec.TopicConfigSerializeWrapper
TopicList = _codec.TopicList
TopicRequestHeader = _codec.TopicRequestHeader
TopicRouteData = _codec.TopicRouteData
UnRegisterBrokerRequestHeader = _codec.UnRegisterBrokerRequestHeader
UnlockBatchMqRequestHeader = _codec.UnlockBatchMqRequestHeader
UnlockBatchRequestBody = _codec.UnlockBatchRequestBody
UnregisterClientRequestHeader = _codec.UnregisterClientRequestHeader
UnregisterClientResponseHeader = _codec.UnregisterClientResponseHeader
UpdateAclRequestHeader = _codec.UpdateAclRequestHeader
UpdateConsumerOffsetRequestHeader = _codec.UpdateConsumerOffsetRequestHeader
UpdateConsumerOffsetResponseHeader = _codec.UpdateConsumerOffsetResponseHeader
UpdateGroupForbiddenRequestHeader = _codec.UpdateGroupForbiddenRequestHeader
UpdateUserRequestHeader = _codec.UpdateUserRequestHeader
ViewBrokerStatsDataRequestHeader = _codec.ViewBrokerStatsDataRequestHeader
ViewMessageRequestHeader = _codec.ViewMessageRequestHeader
ViewMessageResponseHeader = _codec.ViewMessageResponseHeader
WipeWritePermOfBrokerRequestHeader = _codec.WipeWritePermOfBrokerRequestHeader
WipeWritePermOfBrokerResponseHeader = _codec.WipeWritePermOfBrokerResponseHeader
body_class = _codec.rocketmq_body_class
compress = _codec.rocketmq_compress
decode = _codec.decode_rocketmq
decode_batch = _codec.rocketmq_decode_batch
decode_batch_messages = _codec.rocketmq_decode_batch_messages
decode_extra_info = _codec.rocketmq_decode_extra_info
decode_json = _codec.rocketmq_decode_json
decode_message_id = _codec.rocketmq_decode_message_id
decode_messages = _codec.rocketmq_decode_messages
decode_msg_offset_info = _codec.rocketmq_decode_msg_offset_info
decode_order_count_info = _codec.rocketmq_decode_order_count_info
decode_properties = _codec.rocketmq_decode_properties
decode_start_offset_info = _codec.rocketmq_decode_start_offset_info
decode_unique_id = _codec.rocketmq_decode_unique_id
encode = _codec.encode_rocketmq
encode_batch_messages = _codec.rocketmq_encode_batch_messages
encode_extra_info = _codec.rocketmq_encode_extra_info
encode_json = _codec.rocketmq_encode_json
encode_message_id = _codec.rocketmq_encode_message_id
encode_properties = _codec.rocketmq_encode_properties
encode_unique_id = _codec.rocketmq_encode_unique_id
frame_size = _codec.rocketmq_size
hash_code = _codec.rocketmq_hash_code
header_class = _codec.rocketmq_header_class
send_v1 = _codec.rocketmq_send_v1
send_v2 = _codec.rocketmq_send_v2
sign = _codec.rocketmq_sign
signature = _codec.rocketmq_signature
signed_octets = _codec.rocketmq_signed_octets

# what pickles name
restore_rocketmq = _codec.restore_rocketmq
restore_rocketmq_body = _codec.restore_rocketmq_body
restore_rocketmq_header = _codec.restore_rocketmq_header
restore_rocketmq_item = _codec.restore_rocketmq_item
restore_rocketmq_message = _codec.restore_rocketmq_message

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
