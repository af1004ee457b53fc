"""Windows: how many messages may be in flight. Compiled: `wirefmt._core`, room `connection`."""

from wirefmt._core import Window

__all__ = ["Window"]
