"""PHPMQ: bytes to messages and back.

>>> from wirefmt import phpmq
>>> phpmq.Acknowledgement(queue_name="Foo", message_id="7").encode()
b'H0100402P0100000000000000000000000000003FooP03000000000000000000000000000017'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import on_first_use
from wirefmt.phpmq._codec import (
    Acknowledgement,
    ConsumeRequest,
    DeadLetter,
    Decoder,
    Message,
    MessageClientToServer,
    MessageServerToClient,
    ReQueue,
    decode,
    decode_batch,
    encode,
    encode_batch,
    frame_size,
)
from wirefmt.phpmq._codec import restore as restore  # pickles name it

if TYPE_CHECKING:
    from wirefmt.connection.aio import Backoff
    from wirefmt.phpmq.client import Client, connect
    from wirefmt.phpmq.connection import ClientConnection, ServerConnection
    from wirefmt.phpmq.events import ConnectionOptions, Delivery, Returned
    from wirefmt.phpmq.server import Handler, Peer, Server, serve
    from wirefmt.phpmq.states import State

#: Modules of the connections. They are loaded when one of their names is first used.
_MODULES = {
    "wirefmt.connection.aio": ("Backoff",),
    "wirefmt.phpmq.client": ("Client", "connect"),
    "wirefmt.phpmq.server": ("Handler", "Peer", "Server", "serve"),
    "wirefmt.phpmq.connection": ("ClientConnection", "ServerConnection"),
    "wirefmt.phpmq.events": ("ConnectionOptions", "Delivery", "Returned"),
    "wirefmt.phpmq.states": ("State",),
}


__getattr__, __dir__ = on_first_use(__name__, _MODULES)

__all__ = [
    "Acknowledgement",
    "Backoff",
    "Client",
    "ClientConnection",
    "ConnectionOptions",
    "ConsumeRequest",
    "DeadLetter",
    "Decoder",
    "Delivery",
    "Handler",
    "Message",
    "MessageClientToServer",
    "MessageServerToClient",
    "Peer",
    "ReQueue",
    "Returned",
    "Server",
    "ServerConnection",
    "State",
    "connect",
    "decode",
    "decode_batch",
    "encode",
    "encode_batch",
    "frame_size",
    "serve",
]
