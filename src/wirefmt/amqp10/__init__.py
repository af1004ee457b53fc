"""AMQP 1.0: octets to frames, messages and values, and back.

>>> from wirefmt import amqp10
>>> message = amqp10.Message(application_properties={"site": "north"}, body=b"21.5")
>>> octets = amqp10.Transfer(handle=0, delivery_id=7, payload=message).encode()
>>> amqp10.decode(octets).message.application_properties["site"]
'north'
"""

from wirefmt import _core

Accepted = _core.Amqp10Accepted
AmqpSequence = _core.Amqp10AmqpSequence
AmqpValue = _core.Amqp10AmqpValue
Array = _core.Amqp10Array
Attach = _core.Amqp10Attach
Begin = _core.Amqp10Begin
Byte = _core.Amqp10Byte
Char = _core.Amqp10Char
Close = _core.Amqp10Close
Composite = _core.Amqp10CompositeValue
Coordinator = _core.Amqp10Coordinator
Data = _core.Amqp10Data
Decimal128 = _core.Amqp10Decimal128
Decimal32 = _core.Amqp10Decimal32
Decimal64 = _core.Amqp10Decimal64
Declare = _core.Amqp10Declare
Declared = _core.Amqp10Declared
Decoder = _core.Amqp10Decoder
DeleteOnClose = _core.Amqp10DeleteOnClose
DeleteOnNoLinks = _core.Amqp10DeleteOnNoLinks
DeleteOnNoLinksOrMessages = _core.Amqp10DeleteOnNoLinksOrMessages
DeleteOnNoMessages = _core.Amqp10DeleteOnNoMessages
Delivery = _core.Amqp10DeliveryValue
Described = _core.Amqp10Described
Detach = _core.Amqp10Detach
Discharge = _core.Amqp10Discharge
Disposition = _core.Amqp10Disposition
EmptyFrame = _core.Amqp10EmptyFrame
End = _core.Amqp10End
Error = _core.Amqp10Error
Float = _core.Amqp10Float
Flow = _core.Amqp10Flow
Header = _core.Amqp10Header
Int = _core.Amqp10Int
List = _core.Amqp10List
Map = _core.Amqp10Map
Message = _core.Amqp10AnnotatedMessage
Modified = _core.Amqp10Modified
Open = _core.Amqp10Open
Performative = _core.Amqp10Performative
Properties = _core.Amqp10Properties
ProtocolHeader = _core.Amqp10ProtocolHeader
Received = _core.Amqp10Received
Rejected = _core.Amqp10Rejected
Released = _core.Amqp10Released
SaslChallenge = _core.Amqp10SaslChallenge
SaslInit = _core.Amqp10SaslInit
SaslMechanisms = _core.Amqp10SaslMechanisms
SaslOutcome = _core.Amqp10SaslOutcome
SaslResponse = _core.Amqp10SaslResponse
Short = _core.Amqp10Short
Source = _core.Amqp10Source
Symbol = _core.Amqp10Symbol
Target = _core.Amqp10Target
Timestamp = _core.Amqp10Timestamp
TransactionalState = _core.Amqp10TransactionalState
Transfer = _core.Amqp10Transfer
TransferAssembler = _core.Amqp10TransferAssembler
UByte = _core.Amqp10UByte
UInt = _core.Amqp10UInt
ULong = _core.Amqp10ULong
UShort = _core.Amqp10UShort
Value = _core.Amqp10Held
decode = _core.decode_amqp10
decode_batch = _core.amqp10_decode_batch
decode_message = _core.decode_amqp10_message
decode_value = _core.decode_amqp10_value
encode = _core.encode_amqp10
encode_value = _core.encode_amqp10_value
frame_size = _core.amqp10_size

__all__ = [
    "Accepted",
    "AmqpSequence",
    "AmqpValue",
    "Array",
    "Attach",
    "Begin",
    "Byte",
    "Char",
    "Close",
    "Composite",
    "Coordinator",
    "Data",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Declare",
    "Declared",
    "Decoder",
    "DeleteOnClose",
    "DeleteOnNoLinks",
    "DeleteOnNoLinksOrMessages",
    "DeleteOnNoMessages",
    "Delivery",
    "Described",
    "Detach",
    "Discharge",
    "Disposition",
    "EmptyFrame",
    "End",
    "Error",
    "Float",
    "Flow",
    "Header",
    "Int",
    "List",
    "Map",
    "Message",
    "Modified",
    "Open",
    "Performative",
    "Properties",
    "ProtocolHeader",
    "Received",
    "Rejected",
    "Released",
    "SaslChallenge",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "SaslResponse",
    "Short",
    "Source",
    "Symbol",
    "Target",
    "Timestamp",
    "TransactionalState",
    "Transfer",
    "TransferAssembler",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "Value",
    "decode",
    "decode_batch",
    "decode_message",
    "decode_value",
    "encode",
    "encode_value",
    "frame_size",
]
