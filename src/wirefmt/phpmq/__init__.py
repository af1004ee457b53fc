"""PHPMQ: octets to messages and back.

>>> from wirefmt import phpmq
>>> phpmq.Acknowledgement(queue_name="Foo", message_id="7").encode()
b'H0100402P0100000000000000000000000000003FooP03000000000000000000000000000017'
"""

from wirefmt import _core

Acknowledgement = _core.PhpmqAcknowledgement
ConsumeRequest = _core.PhpmqConsumeRequest
DeadLetter = _core.PhpmqDeadLetter
Decoder = _core.PhpmqDecoder
Message = _core.PhpmqObject
MessageClientToServer = _core.PhpmqMessageClientToServer
MessageServerToClient = _core.PhpmqMessageServerToClient
ReQueue = _core.PhpmqReQueue
decode = _core.decode_phpmq
decode_batch = _core.phpmq_decode_batch
encode = _core.encode_phpmq
frame_size = _core.phpmq_size

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
    "frame_size",
]
