"""Wire formats of message brokers, read and written at native speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.errors import (
    CaptureError as CaptureError,
    ConnectionLost as ConnectionLost,
    ConversionError as ConversionError,
    DecodeError as DecodeError,
    EncodeError as EncodeError,
    JournalError as JournalError,
    LimitExceeded as LimitExceeded,
    LocalProtocolError as LocalProtocolError,
    Malformed as Malformed,
    ProtocolError as ProtocolError,
    Refused as Refused,
    RemoteProtocolError as RemoteProtocolError,
    Truncated as Truncated,
    Unsupported as Unsupported,
    WireError as WireError,
)
from wirefmt.framing import NEED_DATA as NEED_DATA, Limits as Limits
from wirefmt.loading import lazy
from wirefmt.protocols import sniff as sniff
from wirefmt.strictness import LAX as LAX, STRICT as STRICT, Strictness as Strictness

if TYPE_CHECKING:
    from wirefmt import (
        amqp091 as amqp091,
        amqp10 as amqp10,
        broker as broker,
        capture as capture,
        connection as connection,
        convert as convert,
        mqtt as mqtt,
        nsq as nsq,
        phpmq as phpmq,
        rocketmq as rocketmq,
    )

#: `import wirefmt` loads none of them.
__getattr__, __dir__ = lazy(__name__, {"": "amqp091 amqp10 broker capture connection convert mqtt nsq phpmq rocketmq"})

__version__ = "0.1.0"
