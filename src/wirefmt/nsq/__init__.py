"""NSQ's TCP protocol V2: bytes to commands and frames and back.

>>> from wirefmt import nsq
>>> nsq.Publish(topic="t", body=b"hello").encode()
b'PUB t\n\x00\x00\x00\x05hello'
>>> nsq.decode(b"\0\0\0\6\0\0\0\0OK")
nsq.Response(data=b'OK')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import lazy
from wirefmt.nsq._codec import (
    Auth as Auth,
    Close as Close,
    Command as Command,
    Decoder as Decoder,
    DeferredPublish as DeferredPublish,
    Delivery as Delivery,
    Error as Error,
    Finish as Finish,
    Frame as Frame,
    Identify as Identify,
    Magic as Magic,
    MessageFrame as MessageFrame,
    MultiPublish as MultiPublish,
    Nop as Nop,
    Publish as Publish,
    Ready as Ready,
    Request as Request,
    Requeue as Requeue,
    Response as Response,
    Sub as Sub,
    Touch as Touch,
    decode as decode,
    decode_batch as decode_batch,
    encode as encode,
    encode_batch as encode_batch,
    frame_size as frame_size,
    restore as restore,
)
from wirefmt.nsq.spec import (
    ServerOptions as ServerOptions,
)

if TYPE_CHECKING:
    from wirefmt.connection.aio import Backoff as Backoff
    from wirefmt.nsq.client import Client as Client, connect as connect
    from wirefmt.nsq.client_connection import ClientConnection as ClientConnection
    from wirefmt.nsq.codes import ErrorCode as ErrorCode
    from wirefmt.nsq.consumer import Consumer as Consumer, Message as Message, lookup as lookup
    from wirefmt.nsq.events import (
        ClientEvent as ClientEvent,
        ServerEvent as ServerEvent,
        ConnectionOptions as ConnectionOptions,
        Negotiated as Negotiated,
        Requeued as Requeued,
        TimedOut as TimedOut,
    )
    from wirefmt.nsq.server import Handler as Handler, Peer as Peer, Server as Server, serve as serve
    from wirefmt.nsq.server_connection import ServerConnection as ServerConnection
    from wirefmt.nsq.session import Session as Session
    from wirefmt.nsq.states import State as State

#: Modules of the connections. They are loaded when one of their names is first used.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.connection.aio": "Backoff",
        "wirefmt.nsq.client": "Client connect",
        "wirefmt.nsq.consumer": "Consumer Message lookup",
        "wirefmt.nsq.server": "Handler Peer Server serve",
        "wirefmt.nsq.client_connection": "ClientConnection",
        "wirefmt.nsq.server_connection": "ServerConnection",
        "wirefmt.nsq.events": "ClientEvent ConnectionOptions Negotiated Requeued ServerEvent TimedOut",
        "wirefmt.nsq.session": "Session",
        "wirefmt.nsq.states": "State",
        "wirefmt.nsq.codes": "ErrorCode",
    },
)
