"""PHPMQ: bytes to messages and back.

>>> from wirefmt import phpmq
>>> phpmq.Acknowledgement(queue_name="Foo", message_id="7").encode()
b'H0100402P0100000000000000000000000000003FooP03000000000000000000000000000017'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    from wirefmt.phpmq.connection import ClientConnection, ServerConnection
    from wirefmt.phpmq.events import ConnectionOptions, Delivery, Returned
    from wirefmt.phpmq.states import State

#: Modules of the connections. They are loaded when one of their names is first used.
_MODULES = {
    "wirefmt.phpmq.connection": ("ClientConnection", "ServerConnection"),
    "wirefmt.phpmq.events": ("ConnectionOptions", "Delivery", "Returned"),
    "wirefmt.phpmq.states": ("State",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Acknowledgement",
    "ClientConnection",
    "ConnectionOptions",
    "ConsumeRequest",
    "DeadLetter",
    "Decoder",
    "Delivery",
    "Message",
    "MessageClientToServer",
    "MessageServerToClient",
    "ReQueue",
    "Returned",
    "ServerConnection",
    "State",
    "decode",
    "decode_batch",
    "encode",
    "encode_batch",
    "frame_size",
]
