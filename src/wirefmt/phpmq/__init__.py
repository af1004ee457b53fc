"""PHPMQ: bytes to messages and back.

>>> from wirefmt import phpmq
>>> phpmq.Acknowledgement(queue_name="Foo", message_id="7").encode()
b'H0100402P0100000000000000000000000000003FooP03000000000000000000000000000017'
"""

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

__all__ = [
    "Acknowledgement",
    "ConsumeRequest",
    "DeadLetter",
    "Decoder",
    "Message",
    "MessageClientToServer",
    "MessageServerToClient",
    "ReQueue",
    "decode",
    "decode_batch",
    "encode",
    "encode_batch",
    "frame_size",
]
