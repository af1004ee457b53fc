"""Windows: how many messages may be in flight."""

from __future__ import annotations


class Window:
    """A limit and how much of it is used. Receive Maximum, prefetch and link credit are windows.

    `limit` may be changed at any time, also to less than the used part.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int, used: int = 0) -> None:
        self.limit = limit
        self.used = used

    @property
    def available(self) -> int:
        """What is available; never negative."""
        return max(self.limit - self.used, 0)

    def take(self, count: int = 1) -> bool:
        """Use `count`. False, and nothing changes, if less is available."""
        if self.used + count > self.limit:
            return False
        self.used += count
        return True

    def give(self, count: int = 1) -> bool:
        """Free `count`, or all that is used if that is less. True if the window was closed and is open now."""
        closed = self.used >= self.limit
        self.used = max(self.used - count, 0)
        return closed and self.used < self.limit
