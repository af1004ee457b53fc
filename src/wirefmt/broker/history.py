"""The last messages of a kind, for those who look at a broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

_T = TypeVar("_T")


class History(Generic[_T]):
    """The last things: so many, and so many bytes of them together. The oldest are forgotten first.

    Args:
        most: how many; 0: none.
        most_bytes: bytes of all of them. One that is larger is not remembered.
    """

    def __init__(self, most: int = 0, most_bytes: int = 0) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.bytes = 0
        self._things: deque[tuple[_T, int]] = deque()

    def add(self, thing: _T, size: int) -> None:
        things = self._things
        things.append((thing, size))
        self.bytes += size
        while len(things) > self.most or self.bytes > self.most_bytes:
            self.bytes -= things.popleft()[1]

    def clear(self) -> None:
        self._things.clear()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[_T]:
        return iter([thing for thing, _ in self._things])
