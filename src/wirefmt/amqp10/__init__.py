"""AMQP 1.0: bytes to frames, messages and values, and back.

>>> from wirefmt import amqp10
>>> message = amqp10.Message(application_properties={"site": "north"}, body=b"21.5")
>>> octets = amqp10.Transfer(handle=0, delivery_id=7, payload=message).encode()
>>> amqp10.decode(octets).message.application_properties["site"]
'north'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.amqp10._codec import (
    Accepted as Accepted,
    AmqpSequence as AmqpSequence,
    AmqpValue as AmqpValue,
    Array as Array,
    Assembler as Assembler,
    Attach as Attach,
    Begin as Begin,
    Byte as Byte,
    Char as Char,
    Close as Close,
    Composite as Composite,
    Coordinator as Coordinator,
    Data as Data,
    Decimal32 as Decimal32,
    Decimal64 as Decimal64,
    Decimal128 as Decimal128,
    Declare as Declare,
    Declared as Declared,
    Decoder as Decoder,
    DeleteOnClose as DeleteOnClose,
    DeleteOnNoLinks as DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages as DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages as DeleteOnNoMessages,
    Delivery as Delivery,
    Described as Described,
    Detach as Detach,
    Discharge as Discharge,
    Disposition as Disposition,
    EmptyFrame as EmptyFrame,
    End as End,
    Error as Error,
    Float as Float,
    Flow as Flow,
    Header as Header,
    Incoming as Incoming,
    Int as Int,
    List as List,
    Map as Map,
    Message as Message,
    Modified as Modified,
    Open as Open,
    Outgoing as Outgoing,
    Performative as Performative,
    Properties as Properties,
    ProtocolHeader as ProtocolHeader,
    Received as Received,
    Rejected as Rejected,
    Released as Released,
    SaslChallenge as SaslChallenge,
    SaslInit as SaslInit,
    SaslMechanisms as SaslMechanisms,
    SaslOutcome as SaslOutcome,
    SaslResponse as SaslResponse,
    Short as Short,
    Source as Source,
    Symbol as Symbol,
    Target as Target,
    Timestamp as Timestamp,
    TransactionalState as TransactionalState,
    Transfer as Transfer,
    UByte as UByte,
    UInt as UInt,
    ULong as ULong,
    UShort as UShort,
    Value as Value,
    decode as decode,
    decode_batch as decode_batch,
    decode_message as decode_message,
    decode_value as decode_value,
    encode as encode,
    encode_batch as encode_batch,
    encode_value as encode_value,
    frame_size as frame_size,
    restore_composite as restore_composite,
    restore_delivery as restore_delivery,
    restore_frame as restore_frame,
    restore_message as restore_message,
    restore_value as restore_value,
)
from wirefmt.loading import lazy

if TYPE_CHECKING:
    from wirefmt.amqp10.client import Client as Client, connect as connect
    from wirefmt.amqp10.codes import ErrorCondition as ErrorCondition, SaslCode as SaslCode
    from wirefmt.amqp10.connection import ClientConnection as ClientConnection, ServerConnection as ServerConnection
    from wirefmt.amqp10.ends import Transaction as Transaction
    from wirefmt.amqp10.events import (
        ClientEvent as ClientEvent,
        ServerEvent as ServerEvent,
        Aborted as Aborted,
        Attaching as Attaching,
        Change as Change,
        ConnectionOptions as ConnectionOptions,
        Drained as Drained,
        DrainRequested as DrainRequested,
        Flowed as Flowed,
        LinkAttached as LinkAttached,
        LinkDetached as LinkDetached,
        Login as Login,
        Negotiated as Negotiated,
        Part as Part,
        SessionBegun as SessionBegun,
        SessionEnded as SessionEnded,
        Settled as Settled,
        Updated as Updated,
    )
    from wirefmt.amqp10.links import Link as Link
    from wirefmt.amqp10.receiver import Receiver as Receiver
    from wirefmt.amqp10.sender import Sender as Sender
    from wirefmt.amqp10.server import Handler as Handler, Peer as Peer, Server as Server, serve as serve
    from wirefmt.amqp10.sessions import Session as Session
    from wirefmt.amqp10.states import (
        LinkState as LinkState,
        SaslState as SaslState,
        SessionState as SessionState,
        State as State,
    )
    from wirefmt.amqp10.terminus import Terminus as Terminus
    from wirefmt.connection.aio import Backoff as Backoff

#: Modules of the connections. They are loaded when one of their names is first used.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.connection.aio": "Backoff",
        "wirefmt.amqp10.client": "Client connect",
        "wirefmt.amqp10.ends": "Transaction",
        "wirefmt.amqp10.server": "Handler Peer Server serve",
        "wirefmt.amqp10.connection": "ClientConnection ServerConnection",
        "wirefmt.amqp10.events": (
            "Aborted Attaching Change ClientEvent ConnectionOptions DrainRequested Drained Flowed "
            "LinkAttached LinkDetached Login Negotiated Part ServerEvent SessionBegun SessionEnded Settled "
            "Updated"
        ),
        "wirefmt.amqp10.links": "Link",
        "wirefmt.amqp10.receiver": "Receiver",
        "wirefmt.amqp10.sender": "Sender",
        "wirefmt.amqp10.sessions": "Session",
        "wirefmt.amqp10.states": "LinkState SaslState SessionState State",
        "wirefmt.amqp10.terminus": "Terminus",
        "wirefmt.amqp10.codes": "ErrorCondition SaslCode",
    },
)
