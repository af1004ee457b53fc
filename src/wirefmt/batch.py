"""`Batch`: columns of decoded messages, as NumPy arrays and for Arrow. `decode_batch` of a protocol and captures return it."""

from wirefmt._core import Batch

__all__ = ["Batch"]
