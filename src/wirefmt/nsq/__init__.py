"""NSQ's TCP protocol V2: bytes to commands and frames and back.

>>> from wirefmt import nsq
>>> nsq.Publish(topic="t", body=b"hello").encode()
b'PUB t\\n\\x00\\x00\\x00\\x05hello'
>>> nsq.decode(b"\\0\\0\\0\\6\\0\\0\\0\\0OK")
nsq.Response(data=b'OK')
"""

from wirefmt.nsq._codec import (
    Auth,
    Close,
    Command,
    Decoder,
    DeferredPublish,
    Error,
    Finish,
    Frame,
    Identify,
    Magic,
    MessageFrame,
    MultiPublish,
    Nop,
    Publish,
    Ready,
    Requeue,
    Response,
    Sub,
    Touch,
    decode,
    decode_batch,
    encode,
    encode_batch,
    frame_size,
)
from wirefmt.nsq._codec import restore as restore  # pickles name it
from wirefmt.nsq.spec import ServerOptions

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
    "encode_batch",
    "frame_size",
]
