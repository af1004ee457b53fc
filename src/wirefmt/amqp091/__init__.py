"""AMQP 0.9.1 with RabbitMQ's extensions: bytes to frames and back, field tables, methods with their contents.

>>> from wirefmt import amqp091
>>> octets = amqp091.BasicAck(channel=1, delivery_tag=7).encode()
>>> amqp091.decode(octets).delivery_tag
7
"""

from wirefmt.amqp091 import _codec

AccessRequest = _codec.Amqp091AccessRequest
AccessRequestOk = _codec.Amqp091AccessRequestOk
Assembler = _codec.Amqp091Assembler
BasicAck = _codec.Amqp091BasicAck
BasicCancel = _codec.Amqp091BasicCancel
BasicCancelOk = _codec.Amqp091BasicCancelOk
BasicConsume = _codec.Amqp091BasicConsume
BasicConsumeOk = _codec.Amqp091BasicConsumeOk
BasicDeliver = _codec.Amqp091BasicDeliver
BasicGet = _codec.Amqp091BasicGet
BasicGetEmpty = _codec.Amqp091BasicGetEmpty
BasicGetOk = _codec.Amqp091BasicGetOk
BasicMessage = _codec.Amqp091BasicMessage
BasicNack = _codec.Amqp091BasicNack
BasicProperties = _codec.Amqp091BasicProperties
BasicPublish = _codec.Amqp091BasicPublish
BasicQos = _codec.Amqp091BasicQos
BasicQosOk = _codec.Amqp091BasicQosOk
BasicRecover = _codec.Amqp091BasicRecover
BasicRecoverAsync = _codec.Amqp091BasicRecoverAsync
BasicRecoverOk = _codec.Amqp091BasicRecoverOk
BasicReject = _codec.Amqp091BasicReject
BasicReturn = _codec.Amqp091BasicReturn
Body = _codec.Amqp091Body
ChannelClose = _codec.Amqp091ChannelClose
ChannelCloseOk = _codec.Amqp091ChannelCloseOk
ChannelFlow = _codec.Amqp091ChannelFlow
ChannelFlowOk = _codec.Amqp091ChannelFlowOk
ChannelOpen = _codec.Amqp091ChannelOpen
ChannelOpenOk = _codec.Amqp091ChannelOpenOk
ConfirmSelect = _codec.Amqp091ConfirmSelect
ConfirmSelectOk = _codec.Amqp091ConfirmSelectOk
ConnectionBlocked = _codec.Amqp091ConnectionBlocked
ConnectionClose = _codec.Amqp091ConnectionClose
ConnectionCloseOk = _codec.Amqp091ConnectionCloseOk
ConnectionOpen = _codec.Amqp091ConnectionOpen
ConnectionOpenOk = _codec.Amqp091ConnectionOpenOk
ConnectionSecure = _codec.Amqp091ConnectionSecure
ConnectionSecureOk = _codec.Amqp091ConnectionSecureOk
ConnectionStart = _codec.Amqp091ConnectionStart
ConnectionStartOk = _codec.Amqp091ConnectionStartOk
ConnectionTune = _codec.Amqp091ConnectionTune
ConnectionTuneOk = _codec.Amqp091ConnectionTuneOk
ConnectionUnblocked = _codec.Amqp091ConnectionUnblocked
ConnectionUpdateSecret = _codec.Amqp091ConnectionUpdateSecret
ConnectionUpdateSecretOk = _codec.Amqp091ConnectionUpdateSecretOk
ContentHeader = _codec.Amqp091ContentHeader
Decoder = _codec.Amqp091Decoder
ExchangeBind = _codec.Amqp091ExchangeBind
ExchangeBindOk = _codec.Amqp091ExchangeBindOk
ExchangeDeclare = _codec.Amqp091ExchangeDeclare
ExchangeDeclareOk = _codec.Amqp091ExchangeDeclareOk
ExchangeDelete = _codec.Amqp091ExchangeDelete
ExchangeDeleteOk = _codec.Amqp091ExchangeDeleteOk
ExchangeUnbind = _codec.Amqp091ExchangeUnbind
ExchangeUnbindOk = _codec.Amqp091ExchangeUnbindOk
FieldArray = _codec.Amqp091Array
FieldTable = _codec.Amqp091Table
FieldValue = _codec.Amqp091FieldValue
Frame = _codec.Amqp091Message
Heartbeat = _codec.Amqp091Heartbeat
Method = _codec.Amqp091Method
ProtocolHeader = _codec.Amqp091ProtocolHeader
QueueBind = _codec.Amqp091QueueBind
QueueBindOk = _codec.Amqp091QueueBindOk
QueueDeclare = _codec.Amqp091QueueDeclare
QueueDeclareOk = _codec.Amqp091QueueDeclareOk
QueueDelete = _codec.Amqp091QueueDelete
QueueDeleteOk = _codec.Amqp091QueueDeleteOk
QueuePurge = _codec.Amqp091QueuePurge
QueuePurgeOk = _codec.Amqp091QueuePurgeOk
QueueUnbind = _codec.Amqp091QueueUnbind
QueueUnbindOk = _codec.Amqp091QueueUnbindOk
Timestamp = _codec.Amqp091Timestamp
TxCommit = _codec.Amqp091TxCommit
TxCommitOk = _codec.Amqp091TxCommitOk
TxRollback = _codec.Amqp091TxRollback
TxRollbackOk = _codec.Amqp091TxRollbackOk
TxSelect = _codec.Amqp091TxSelect
TxSelectOk = _codec.Amqp091TxSelectOk
decode = _codec.decode_amqp091
decode_batch = _codec.amqp091_decode_batch
encode = _codec.encode_amqp091
frame_size = _codec.amqp091_size

# what pickles name
restore_amqp091 = _codec.restore_amqp091
restore_amqp091_content = _codec.restore_amqp091_content
restore_amqp091_properties = _codec.restore_amqp091_properties
restore_amqp091_value = _codec.restore_amqp091_value

__all__ = [
    "AccessRequest",
    "AccessRequestOk",
    "Assembler",
    "BasicAck",
    "BasicCancel",
    "BasicCancelOk",
    "BasicConsume",
    "BasicConsumeOk",
    "BasicDeliver",
    "BasicGet",
    "BasicGetEmpty",
    "BasicGetOk",
    "BasicMessage",
    "BasicNack",
    "BasicProperties",
    "BasicPublish",
    "BasicQos",
    "BasicQosOk",
    "BasicRecover",
    "BasicRecoverAsync",
    "BasicRecoverOk",
    "BasicReject",
    "BasicReturn",
    "Body",
    "ChannelClose",
    "ChannelCloseOk",
    "ChannelFlow",
    "ChannelFlowOk",
    "ChannelOpen",
    "ChannelOpenOk",
    "ConfirmSelect",
    "ConfirmSelectOk",
    "ConnectionBlocked",
    "ConnectionClose",
    "ConnectionCloseOk",
    "ConnectionOpen",
    "ConnectionOpenOk",
    "ConnectionSecure",
    "ConnectionSecureOk",
    "ConnectionStart",
    "ConnectionStartOk",
    "ConnectionTune",
    "ConnectionTuneOk",
    "ConnectionUnblocked",
    "ConnectionUpdateSecret",
    "ConnectionUpdateSecretOk",
    "ContentHeader",
    "Decoder",
    "ExchangeBind",
    "ExchangeBindOk",
    "ExchangeDeclare",
    "ExchangeDeclareOk",
    "ExchangeDelete",
    "ExchangeDeleteOk",
    "ExchangeUnbind",
    "ExchangeUnbindOk",
    "FieldArray",
    "FieldTable",
    "FieldValue",
    "Frame",
    "Heartbeat",
    "Method",
    "ProtocolHeader",
    "QueueBind",
    "QueueBindOk",
    "QueueDeclare",
    "QueueDeclareOk",
    "QueueDelete",
    "QueueDeleteOk",
    "QueuePurge",
    "QueuePurgeOk",
    "QueueUnbind",
    "QueueUnbindOk",
    "Timestamp",
    "TxCommit",
    "TxCommitOk",
    "TxRollback",
    "TxRollbackOk",
    "TxSelect",
    "TxSelectOk",
    "decode",
    "decode_batch",
    "encode",
    "frame_size",
]
