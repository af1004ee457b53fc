"""NSQ's TCP protocol V2: octets to commands and frames and back.

>>> from wirefmt import nsq
>>> nsq.Publish(topic="t", body=b"hello").encode()
b'PUB t\\n\\x00\\x00\\x00\\x05hello'
>>> nsq.decode(b"\\0\\0\\0\\6\\0\\0\\0\\0OK")
nsq.Response(data=b'OK')
"""

from wirefmt import _core
from wirefmt.nsq.spec import ServerOptions

Auth = _core.NsqAuth
Close = _core.NsqClose
Command = _core.NsqCommand
Decoder = _core.NsqDecoder
DeferredPublish = _core.NsqDeferredPublish
Error = _core.NsqError
Finish = _core.NsqFinish
Frame = _core.NsqFrame
Identify = _core.NsqIdentify
Magic = _core.NsqMagic
MessageFrame = _core.NsqMessageFrame
MultiPublish = _core.NsqMultiPublish
Nop = _core.NsqNop
Publish = _core.NsqPublish
Ready = _core.NsqReady
Requeue = _core.NsqRequeue
Response = _core.NsqResponse
Sub = _core.NsqSub
Touch = _core.NsqTouch
decode = _core.decode_nsq
decode_batch = _core.nsq_decode_batch
encode = _core.encode_nsq
frame_size = _core.nsq_size

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
