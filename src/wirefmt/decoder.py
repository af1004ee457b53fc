"""`FrameDecoder`: the base of every protocol's `Decoder`. Code for the decoder of any protocol can name it as the type."""

from wirefmt._core import FrameDecoder

__all__ = ["FrameDecoder"]
