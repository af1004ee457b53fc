"""AMQP 0.9.1 with RabbitMQ's extensions: octets to frames and back, field tables, methods with their contents.

>>> from wirefmt import amqp091
>>> octets = amqp091.BasicAck(channel=1, delivery_tag=7).encode()
>>> amqp091.decode(octets).delivery_tag
7
"""

from wirefmt import _core

AccessRequest = _core.Amqp091AccessRequest
AccessRequestOk = _core.Amqp091AccessRequestOk
Assembler = _core.Amqp091Assembler
BasicAck = _core.Amqp091BasicAck
BasicCancel = _core.Amqp091BasicCancel
BasicCancelOk = _core.Amqp091BasicCancelOk
BasicConsume = _core.Amqp091BasicConsume
BasicConsumeOk = _core.Amqp091BasicConsumeOk
BasicDeliver = _core.Amqp091BasicDeliver
BasicGet = _core.Amqp091BasicGet
BasicGetEmpty = _core.Amqp091BasicGetEmpty
BasicGetOk = _core.Amqp091BasicGetOk
BasicMessage = _core.Amqp091BasicMessage
BasicNack = _core.Amqp091BasicNack
BasicProperties = _core.Amqp091BasicProperties
BasicPublish = _core.Amqp091BasicPublish
BasicQos = _core.Amqp091BasicQos
BasicQosOk = _core.Amqp091BasicQosOk
BasicRecover = _core.Amqp091BasicRecover
BasicRecoverAsync = _core.Amqp091BasicRecoverAsync
BasicRecoverOk = _core.Amqp091BasicRecoverOk
BasicReject = _core.Amqp091BasicReject
BasicReturn = _core.Amqp091BasicReturn
Body = _core.Amqp091Body
ChannelClose = _core.Amqp091ChannelClose
ChannelCloseOk = _core.Amqp091ChannelCloseOk
ChannelFlow = _core.Amqp091ChannelFlow
ChannelFlowOk = _core.Amqp091ChannelFlowOk
ChannelOpen = _core.Amqp091ChannelOpen
ChannelOpenOk = _core.Amqp091ChannelOpenOk
ConfirmSelect = _core.Amqp091ConfirmSelect
ConfirmSelectOk = _core.Amqp091ConfirmSelectOk
ConnectionBlocked = _core.Amqp091ConnectionBlocked
ConnectionClose = _core.Amqp091ConnectionClose
ConnectionCloseOk = _core.Amqp091ConnectionCloseOk
ConnectionOpen = _core.Amqp091ConnectionOpen
ConnectionOpenOk = _core.Amqp091ConnectionOpenOk
ConnectionSecure = _core.Amqp091ConnectionSecure
ConnectionSecureOk = _core.Amqp091ConnectionSecureOk
ConnectionStart = _core.Amqp091ConnectionStart
ConnectionStartOk = _core.Amqp091ConnectionStartOk
ConnectionTune = _core.Amqp091ConnectionTune
ConnectionTuneOk = _core.Amqp091ConnectionTuneOk
ConnectionUnblocked = _core.Amqp091ConnectionUnblocked
ConnectionUpdateSecret = _core.Amqp091ConnectionUpdateSecret
ConnectionUpdateSecretOk = _core.Amqp091ConnectionUpdateSecretOk
ContentHeader = _core.Amqp091ContentHeader
Decoder = _core.Amqp091Decoder
ExchangeBind = _core.Amqp091ExchangeBind
ExchangeBindOk = _core.Amqp091ExchangeBindOk
ExchangeDeclare = _core.Amqp091ExchangeDeclare
ExchangeDeclareOk = _core.Amqp091ExchangeDeclareOk
ExchangeDelete = _core.Amqp091ExchangeDelete
ExchangeDeleteOk = _core.Amqp091ExchangeDeleteOk
ExchangeUnbind = _core.Amqp091ExchangeUnbind
ExchangeUnbindOk = _core.Amqp091ExchangeUnbindOk
FieldArray = _core.Amqp091Array
FieldTable = _core.Amqp091Table
FieldValue = _core.Amqp091FieldValue
Frame = _core.Amqp091Message
Heartbeat = _core.Amqp091Heartbeat
Method = _core.Amqp091Method
ProtocolHeader = _core.Amqp091ProtocolHeader
QueueBind = _core.Amqp091QueueBind
QueueBindOk = _core.Amqp091QueueBindOk
QueueDeclare = _core.Amqp091QueueDeclare
QueueDeclareOk = _core.Amqp091QueueDeclareOk
QueueDelete = _core.Amqp091QueueDelete
QueueDeleteOk = _core.Amqp091QueueDeleteOk
QueuePurge = _core.Amqp091QueuePurge
QueuePurgeOk = _core.Amqp091QueuePurgeOk
QueueUnbind = _core.Amqp091QueueUnbind
QueueUnbindOk = _core.Amqp091QueueUnbindOk
Timestamp = _core.Amqp091Timestamp
TxCommit = _core.Amqp091TxCommit
TxCommitOk = _core.Amqp091TxCommitOk
TxRollback = _core.Amqp091TxRollback
TxRollbackOk = _core.Amqp091TxRollbackOk
TxSelect = _core.Amqp091TxSelect
TxSelectOk = _core.Amqp091TxSelectOk
decode = _core.decode_amqp091
decode_batch = _core.amqp091_decode_batch
encode = _core.encode_amqp091
frame_size = _core.amqp091_size

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
