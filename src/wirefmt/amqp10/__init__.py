"""AMQP 1.0: bytes to frames, messages and values, and back.

>>> from wirefmt import amqp10
>>> message = amqp10.Message(application_properties={"site": "north"}, body=b"21.5")
>>> octets = amqp10.Transfer(handle=0, delivery_id=7, payload=message).encode()
>>> amqp10.decode(octets).message.application_properties["site"]
'north'
"""

from wirefmt.amqp10 import _codec

Accepted = _codec.Amqp10Accepted
AmqpSequence = _codec.Amqp10AmqpSequence
AmqpValue = _codec.Amqp10AmqpValue
Array = _codec.Amqp10Array
Attach = _codec.Amqp10Attach
Begin = _codec.Amqp10Begin
Byte = _codec.Amqp10Byte
Char = _codec.Amqp10Char
Close = _codec.Amqp10Close
Composite = _codec.Amqp10CompositeValue
Coordinator = _codec.Amqp10Coordinator
Data = _codec.Amqp10Data
Decimal128 = _codec.Amqp10Decimal128
Decimal32 = _codec.Amqp10Decimal32
Decimal64 = _codec.Amqp10Decimal64
Declare = _codec.Amqp10Declare
Declared = _codec.Amqp10Declared
Decoder = _codec.Amqp10Decoder
DeleteOnClose = _codec.Amqp10DeleteOnClose
DeleteOnNoLinks = _codec.Amqp10DeleteOnNoLinks
DeleteOnNoLinksOrMessages = _codec.Amqp10DeleteOnNoLinksOrMessages
DeleteOnNoMessages = _codec.Amqp10DeleteOnNoMessages
Delivery = _codec.Amqp10DeliveryValue
Described = _codec.Amqp10Described
Detach = _codec.Amqp10Detach
Discharge = _codec.Amqp10Discharge
Disposition = _codec.Amqp10Disposition
EmptyFrame = _codec.Amqp10EmptyFrame
End = _codec.Amqp10End
Error = _codec.Amqp10Error
Float = _codec.Amqp10Float
Flow = _codec.Amqp10Flow
Header = _codec.Amqp10Header
Int = _codec.Amqp10Int
List = _codec.Amqp10List
Map = _codec.Amqp10Map
Message = _codec.Amqp10AnnotatedMessage
Modified = _codec.Amqp10Modified
Open = _codec.Amqp10Open
Performative = _codec.Amqp10Performative
Properties = _codec.Amqp10Properties
ProtocolHeader = _codec.Amqp10ProtocolHeader
Received = _codec.Amqp10Received
Rejected = _codec.Amqp10Rejected
Released = _codec.Amqp10Released
SaslChallenge = _codec.Amqp10SaslChallenge
SaslInit = _codec.Amqp10SaslInit
SaslMechanisms = _codec.Amqp10SaslMechanisms
SaslOutcome = _codec.Amqp10SaslOutcome
SaslResponse = _codec.Amqp10SaslResponse
Short = _codec.Amqp10Short
Source = _codec.Amqp10Source
Symbol = _codec.Amqp10Symbol
Target = _codec.Amqp10Target
Timestamp = _codec.Amqp10Timestamp
TransactionalState = _codec.Amqp10TransactionalState
Transfer = _codec.Amqp10Transfer
TransferAssembler = _codec.Amqp10TransferAssembler
UByte = _codec.Amqp10UByte
UInt = _codec.Amqp10UInt
ULong = _codec.Amqp10ULong
UShort = _codec.Amqp10UShort
Value = _codec.Amqp10Held
decode = _codec.decode_amqp10
decode_batch = _codec.amqp10_decode_batch
decode_message = _codec.decode_amqp10_message
decode_value = _codec.decode_amqp10_value
encode = _codec.encode_amqp10
encode_value = _codec.encode_amqp10_value
frame_size = _codec.amqp10_size

# what pickles name
restore_amqp10_composite = _codec.restore_amqp10_composite
restore_amqp10_delivery = _codec.restore_amqp10_delivery
restore_amqp10_frame = _codec.restore_amqp10_frame
restore_amqp10_message = _codec.restore_amqp10_message
restore_amqp10_value = _codec.restore_amqp10_value

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
