"""PHPMQ: bytes to messages and back.

>>> from wirefmt import phpmq
>>> phpmq.Acknowledgement(queue_name="Foo", message_id="7").encode()
b'H0100402P0100000000000000000000000000003FooP03000000000000000000000000000017'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import lazy
from wirefmt.phpmq._codec import (
    Acknowledgement as Acknowledgement,
    ConsumeRequest as ConsumeRequest,
    DeadLetter as DeadLetter,
    Decoder as Decoder,
    Message as Message,
    MessageClientToServer as MessageClientToServer,
    MessageServerToClient as MessageServerToClient,
    ReQueue as ReQueue,
    decode as decode,
    decode_batch as decode_batch,
    encode as encode,
    encode_batch as encode_batch,
    frame_size as frame_size,
    restore as restore,
)

if TYPE_CHECKING:
    from wirefmt.connection.aio import Backoff as Backoff
    from wirefmt.phpmq.client import Client as Client, connect as connect
    from wirefmt.phpmq.connection import ClientConnection as ClientConnection, ServerConnection as ServerConnection
    from wirefmt.phpmq.events import (
        ClientEvent as ClientEvent,
        ServerEvent as ServerEvent,
        ConnectionOptions as ConnectionOptions,
        Delivery as Delivery,
        Returned as Returned,
    )
    from wirefmt.phpmq.server import Handler as Handler, Peer as Peer, Server as Server, serve as serve
    from wirefmt.phpmq.states import State as State

#: Modules of the connections. They are loaded when one of their names is first used.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.connection.aio": "Backoff",
        "wirefmt.phpmq.client": "Client connect",
        "wirefmt.phpmq.server": "Handler Peer Server serve",
        "wirefmt.phpmq.connection": "ClientConnection ServerConnection",
        "wirefmt.phpmq.events": "ClientEvent ConnectionOptions Delivery Returned ServerEvent",
        "wirefmt.phpmq.states": "State",
    },
)
