"""asyncio: one driver for the connections of all protocols, and a server that makes one for each client.

The driver does the input and output of one connection (`wirefmt.connection.Connection`) and calls its host for each event.
"""

from wirefmt.connection.aio.dial import Backoff, open_transport
from wirefmt.connection.aio.driver import Closable, Driver, Host
from wirefmt.connection.aio.server import Handler, Listening, Peer, Server, listen, serving
from wirefmt.connection.aio.transports import Tap, TapFactory, hand_over

__all__ = [
    "Backoff",
    "Closable",
    "Driver",
    "Handler",
    "Host",
    "Listening",
    "Peer",
    "Server",
    "Tap",
    "TapFactory",
    "hand_over",
    "listen",
    "open_transport",
    "serving",
]
