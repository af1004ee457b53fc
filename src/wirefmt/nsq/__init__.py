"""NSQ's TCP protocol V2: bytes to commands and frames and back.

>>> from wirefmt import nsq
>>> nsq.Publish(topic="t", body=b"hello").encode()
b'PUB t\\n\\x00\\x00\\x00\\x05hello'
>>> nsq.decode(b"\\0\\0\\0\\6\\0\\0\\0\\0OK")
nsq.Response(data=b'OK')
"""

from wirefmt.nsq import _codec
from wirefmt.nsq.spec import ServerOptions

Auth = _codec.NsqAuth
Close = _codec.NsqClose
Command = _codec.NsqCommand
Decoder = _codec.NsqDecoder
DeferredPublish = _codec.NsqDeferredPublish
Error = _codec.NsqError
Finish = _codec.NsqFinish
Frame = _codec.NsqFrame
Identify = _codec.NsqIdentify
Magic = _codec.NsqMagic
MessageFrame = _codec.NsqMessageFrame
MultiPublish = _codec.NsqMultiPublish
Nop = _codec.NsqNop
Publish = _codec.NsqPublish
Ready = _codec.NsqReady
Requeue = _codec.NsqRequeue
Response = _codec.NsqResponse
Sub = _codec.NsqSub
Touch = _codec.NsqTouch
decode = _codec.decode_nsq
decode_batch = _codec.nsq_decode_batch
encode = _codec.encode_nsq
frame_size = _codec.nsq_size

# what pickles name
restore_nsq = _codec.restore_nsq

__all__ = [
    "Auth",
    "Close",
    "Command",
    "Decoder",
    "DeferredPublish",
    "Error",
    "Finish",
    "Frame",
    "Identify",
    "Magic",
    "MessageFrame",
    "MultiPublish",
    "Nop",
    "Publish",
    "Ready",
    "Requeue",
    "Response",
    "ServerOptions",
    "Sub",
    "Touch",
    "decode",
    "decode_batch",
    "encode",
    "frame_size",
]
