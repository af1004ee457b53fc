"""What connections of all protocols share: the contract, its events, and small tools without input or output.

A connection is a state machine. Bytes from the peer go in, events come out; messages go in, bytes for the peer come
out. It opens no socket, reads no clock and starts no thread. docs/connections.md describes the contract.
"""

from wirefmt.connection.contract import (
    Acknowledged,
    Change,
    Connected,
    Connection,
    Disconnected,
    Handle,
    StartTls,
    WindowOpened,
)
from wirefmt.connection.recovery import ConnectionDown, ConnectionUp, NotRestored, OnRefused, RecoveryEvent

__all__ = [
    "Acknowledged",
    "Change",
    "Connected",
    "Connection",
    "ConnectionDown",
    "ConnectionUp",
    "Disconnected",
    "Handle",
    "NotRestored",
    "OnRefused",
    "RecoveryEvent",
    "StartTls",
    "WindowOpened",
]
