"""NSQ's TCP protocol V2: bytes to commands and frames and back.

>>> from wirefmt import nsq
>>> nsq.Publish(topic="t", body=b"hello").encode()
b'PUB t\\n\\x00\\x00\\x00\\x05hello'
>>> nsq.decode(b"\\0\\0\\0\\6\\0\\0\\0\\0OK")
nsq.Response(data=b'OK')
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import on_first_use
from wirefmt.nsq._codec import (
    Auth,
    Close,
    Command,
    Decoder,
    DeferredPublish,
    Delivery,
    Error,
    Finish,
    Frame,
    Identify,
    Magic,
    MessageFrame,
    MultiPublish,
    Nop,
    Publish,
    Ready,
    Request,
    Requeue,
    Response,
    Sub,
    Touch,
    decode,
    decode_batch,
    encode,
    encode_batch,
    frame_size,
)
from wirefmt.nsq._codec import restore as restore  # pickles name it
from wirefmt.nsq.spec import ServerOptions

if TYPE_CHECKING:
    from wirefmt.connection.aio import Backoff
    from wirefmt.nsq.client import Client, connect
    from wirefmt.nsq.client_connection import ClientConnection
    from wirefmt.nsq.consumer import Consumer, Message, lookup
    from wirefmt.nsq.events import ConnectionOptions, Negotiated, Requeued, TimedOut
    from wirefmt.nsq.server import Handler, Peer, Server, serve
    from wirefmt.nsq.server_connection import ServerConnection
    from wirefmt.nsq.session import Session
    from wirefmt.nsq.states import State

#: Modules of the connections. They are loaded when one of their names is first used.
_MODULES = {
    "wirefmt.connection.aio": ("Backoff",),
    "wirefmt.nsq.client": ("Client", "connect"),
    "wirefmt.nsq.consumer": ("Consumer", "Message", "lookup"),
    "wirefmt.nsq.server": ("Handler", "Peer", "Server", "serve"),
    "wirefmt.nsq.client_connection": ("ClientConnection",),
    "wirefmt.nsq.server_connection": ("ServerConnection",),
    "wirefmt.nsq.events": ("ConnectionOptions", "Negotiated", "Requeued", "TimedOut"),
    "wirefmt.nsq.session": ("Session",),
    "wirefmt.nsq.states": ("State",),
}


__getattr__, __dir__ = on_first_use(__name__, _MODULES)

__all__ = [
    "Auth",
    "Backoff",
    "Client",
    "ClientConnection",
    "Close",
    "Command",
    "ConnectionOptions",
    "Consumer",
    "Decoder",
    "DeferredPublish",
    "Delivery",
    "Error",
    "Finish",
    "Frame",
    "Handler",
    "Identify",
    "Magic",
    "Message",
    "MessageFrame",
    "MultiPublish",
    "Negotiated",
    "Nop",
    "Peer",
    "Publish",
    "Ready",
    "Request",
    "Requeue",
    "Requeued",
    "Response",
    "Server",
    "ServerConnection",
    "ServerOptions",
    "Session",
    "State",
    "Sub",
    "TimedOut",
    "Touch",
    "connect",
    "decode",
    "decode_batch",
    "encode",
    "encode_batch",
    "frame_size",
    "lookup",
    "serve",
]
