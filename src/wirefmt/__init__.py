"""Wire formats of message brokers, read and written at native speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.errors import (
    CaptureError,
    ConnectionLost,
    ConversionError,
    DecodeError,
    EncodeError,
    JournalError,
    LimitExceeded,
    LocalProtocolError,
    Malformed,
    ProtocolError,
    Refused,
    RemoteProtocolError,
    Truncated,
    Unsupported,
    WireError,
)
from wirefmt.framing import NEED_DATA, Limits
from wirefmt.loading import on_first_use
from wirefmt.protocols import sniff
from wirefmt.strictness import LAX, STRICT, Strictness

if TYPE_CHECKING:
    from wirefmt import amqp091 as amqp091
    from wirefmt import amqp10 as amqp10
    from wirefmt import broker as broker
    from wirefmt import capture as capture
    from wirefmt import connection as connection
    from wirefmt import convert as convert
    from wirefmt import mqtt as mqtt
    from wirefmt import nsq as nsq
    from wirefmt import phpmq as phpmq
    from wirefmt import rocketmq as rocketmq

#: `import wirefmt` loads none of them.
_PACKAGES = ("amqp091", "amqp10", "broker", "capture", "connection", "convert", "mqtt", "nsq", "phpmq", "rocketmq")

__getattr__, __dir__ = on_first_use(__name__, {}, _PACKAGES)

__all__ = [
    "LAX",
    "NEED_DATA",
    "STRICT",
    "CaptureError",
    "ConnectionLost",
    "ConversionError",
    "DecodeError",
    "EncodeError",
    "JournalError",
    "LimitExceeded",
    "Limits",
    "LocalProtocolError",
    "Malformed",
    "ProtocolError",
    "Refused",
    "RemoteProtocolError",
    "Strictness",
    "Truncated",
    "Unsupported",
    "WireError",
    "sniff",
]

__version__ = "0.1.0"
