"""One queue of bytes for the peer, in order. It is compiled: `wirefmt._core`, room `connection`."""

from typing import Final

from wirefmt._core import Outbox

__all__ = ["KEEP_FROM", "Outbox"]

#: Buffers of at least so many bytes are kept by reference; smaller ones are copied together.
KEEP_FROM: Final = 2048
