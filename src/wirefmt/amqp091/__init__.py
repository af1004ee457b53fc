"""AMQP 0.9.1 with RabbitMQ's extensions: bytes to frames and back, field tables, methods with their contents.

>>> from wirefmt import amqp091
>>> octets = amqp091.BasicAck(channel=1, delivery_tag=7).encode()
>>> amqp091.decode(octets).delivery_tag
7
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.amqp091._codec import (
    AccessRequest as AccessRequest,
    AccessRequestOk as AccessRequestOk,
    Assembler as Assembler,
    BasicAck as BasicAck,
    BasicCancel as BasicCancel,
    BasicCancelOk as BasicCancelOk,
    BasicConsume as BasicConsume,
    BasicConsumeOk as BasicConsumeOk,
    BasicDeliver as BasicDeliver,
    BasicGet as BasicGet,
    BasicGetEmpty as BasicGetEmpty,
    BasicGetOk as BasicGetOk,
    BasicMessage as BasicMessage,
    BasicNack as BasicNack,
    BasicProperties as BasicProperties,
    BasicPublish as BasicPublish,
    BasicQos as BasicQos,
    BasicQosOk as BasicQosOk,
    BasicRecover as BasicRecover,
    BasicRecoverAsync as BasicRecoverAsync,
    BasicRecoverOk as BasicRecoverOk,
    BasicReject as BasicReject,
    BasicReturn as BasicReturn,
    Body as Body,
    ChannelClose as ChannelClose,
    ChannelCloseOk as ChannelCloseOk,
    ChannelFlow as ChannelFlow,
    ChannelFlowOk as ChannelFlowOk,
    ChannelOpen as ChannelOpen,
    ChannelOpenOk as ChannelOpenOk,
    ConfirmSelect as ConfirmSelect,
    ConfirmSelectOk as ConfirmSelectOk,
    ConnectionBlocked as ConnectionBlocked,
    ConnectionClose as ConnectionClose,
    ConnectionCloseOk as ConnectionCloseOk,
    ConnectionOpen as ConnectionOpen,
    ConnectionOpenOk as ConnectionOpenOk,
    ConnectionSecure as ConnectionSecure,
    ConnectionSecureOk as ConnectionSecureOk,
    ConnectionStart as ConnectionStart,
    ConnectionStartOk as ConnectionStartOk,
    ConnectionTune as ConnectionTune,
    ConnectionTuneOk as ConnectionTuneOk,
    ConnectionUnblocked as ConnectionUnblocked,
    ConnectionUpdateSecret as ConnectionUpdateSecret,
    ConnectionUpdateSecretOk as ConnectionUpdateSecretOk,
    Consumer as Consumer,
    ContentHeader as ContentHeader,
    Decoder as Decoder,
    Delivery as Delivery,
    ExchangeBind as ExchangeBind,
    ExchangeBindOk as ExchangeBindOk,
    ExchangeDeclare as ExchangeDeclare,
    ExchangeDeclareOk as ExchangeDeclareOk,
    ExchangeDelete as ExchangeDelete,
    ExchangeDeleteOk as ExchangeDeleteOk,
    ExchangeUnbind as ExchangeUnbind,
    ExchangeUnbindOk as ExchangeUnbindOk,
    FieldArray as FieldArray,
    FieldTable as FieldTable,
    FieldValue as FieldValue,
    Frame as Frame,
    Heartbeat as Heartbeat,
    Method as Method,
    ProtocolHeader as ProtocolHeader,
    Publication as Publication,
    QueueBind as QueueBind,
    QueueBindOk as QueueBindOk,
    QueueDeclare as QueueDeclare,
    QueueDeclareOk as QueueDeclareOk,
    QueueDelete as QueueDelete,
    QueueDeleteOk as QueueDeleteOk,
    QueuePurge as QueuePurge,
    QueuePurgeOk as QueuePurgeOk,
    QueueUnbind as QueueUnbind,
    QueueUnbindOk as QueueUnbindOk,
    Timestamp as Timestamp,
    TxCommit as TxCommit,
    TxCommitOk as TxCommitOk,
    TxRollback as TxRollback,
    TxRollbackOk as TxRollbackOk,
    TxSelect as TxSelect,
    TxSelectOk as TxSelectOk,
    decode as decode,
    decode_batch as decode_batch,
    encode as encode,
    encode_batch as encode_batch,
    frame_size as frame_size,
    restore as restore,
    restore_content as restore_content,
    restore_properties as restore_properties,
    restore_value as restore_value,
)
from wirefmt.loading import lazy

if TYPE_CHECKING:
    from wirefmt.amqp091.aio_channel import Channel as Channel, Message as Message
    from wirefmt.amqp091.client import Client as Client, connect as connect
    from wirefmt.amqp091.client_channel import ClientChannel as ClientChannel
    from wirefmt.amqp091.codes import ReplyCode as ReplyCode
    from wirefmt.amqp091.connection import ClientConnection as ClientConnection, ServerConnection as ServerConnection
    from wirefmt.amqp091.events import (
        ClientEvent as ClientEvent,
        ServerEvent as ServerEvent,
        Call as Call,
        ChannelClosed as ChannelClosed,
        ChannelOpened as ChannelOpened,
        ChannelWaits as ChannelWaits,
        Confirmed as Confirmed,
        ConnectionOptions as ConnectionOptions,
        Negotiated as Negotiated,
        Returned as Returned,
        Settled as Settled,
    )
    from wirefmt.amqp091.sasl import AmqPlain as AmqPlain, RabbitCrDemo as RabbitCrDemo, credentials as credentials
    from wirefmt.amqp091.server import Handler as Handler, Peer as Peer, Server as Server, serve as serve
    from wirefmt.amqp091.server_channel import ServerChannel as ServerChannel
    from wirefmt.amqp091.session import Session as Session
    from wirefmt.amqp091.states import ChannelState as ChannelState, State as State
    from wirefmt.connection.aio import Backoff as Backoff
    from wirefmt.connection.sasl import (
        Anonymous as Anonymous,
        External as External,
        Mechanism as Mechanism,
        Plain as Plain,
    )

#: Modules of the connections. They are loaded when one of their names is first used.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.connection.aio": "Backoff",
        "wirefmt.amqp091.aio_channel": "Channel Message",
        "wirefmt.amqp091.client": "Client connect",
        "wirefmt.amqp091.server": "Handler Peer Server serve",
        "wirefmt.amqp091.connection": "ClientConnection ServerConnection",
        "wirefmt.amqp091.client_channel": "ClientChannel",
        "wirefmt.amqp091.server_channel": "ServerChannel",
        "wirefmt.amqp091.events": (
            "Call ChannelClosed ChannelOpened ChannelWaits ClientEvent Confirmed ConnectionOptions "
            "Negotiated Returned ServerEvent Settled"
        ),
        "wirefmt.amqp091.sasl": "AmqPlain RabbitCrDemo credentials",
        "wirefmt.connection.sasl": "Anonymous External Mechanism Plain",
        "wirefmt.amqp091.session": "Session",
        "wirefmt.amqp091.states": "ChannelState State",
        "wirefmt.amqp091.codes": "ReplyCode",
    },
)
