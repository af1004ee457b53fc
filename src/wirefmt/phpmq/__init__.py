"""PHPMQ: bytes to messages and back.

>>> from wirefmt import phpmq
>>> phpmq.Acknowledgement(queue_name="Foo", message_id="7").encode()
b'H0100402P0100000000000000000000000000003FooP03000000000000000000000000000017'
"""

from wirefmt.phpmq import _codec

Acknowledgement = _codec.PhpmqAcknowledgement
ConsumeRequest = _codec.PhpmqConsumeRequest
DeadLetter = _codec.PhpmqDeadLetter
Decoder = _codec.PhpmqDecoder
Message = _codec.PhpmqObject
MessageClientToServer = _codec.PhpmqMessageClientToServer
MessageServerToClient = _codec.PhpmqMessageServerToClient
ReQueue = _codec.PhpmqReQueue
decode = _codec.decode_phpmq
decode_batch = _codec.phpmq_decode_batch
encode = _codec.encode_phpmq
frame_size = _codec.phpmq_size

# what pickles name
restore_phpmq = _codec.restore_phpmq

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
