"""What has arrived in part, over all connections of a server: packets, frames and messages that are not complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wirefmt.connection.aio.driver import Driver

#: Seconds without a byte after which a connection with something unfinished is silent.
SILENT: Final = 5.0

#: Bytes of unfinished packets that the connections of a server may have together, by default.
UNFINISHED: Final = 1 << 28


class Unfinished:
    """The bytes of what has arrived in part. Servers can share it.

    When they are too many, connections end as those of peers that cost too much memory, with the protocol's own code: first those
    that have been silent for SILENT seconds, the longest first, then the largest. The others go on.

    Args:
        most: bytes that there may be.

    Attributes:
        bytes: that there are.
        ended: connections that had to end.
    """

    def __init__(self, most: int = UNFINISHED) -> None:
        self.most = most
        self.bytes = 0
        self.ended = 0
        self._held: dict[
            Driver, tuple[int, float]
        ] = {}  # and when it last sent something: the longest silent come first

    def count(self, driver: Driver, size: int, now: float) -> None:
        """A connection has sent something, and has now so many bytes; 0: nothing is unfinished."""
        before = self._held.pop(driver, None)
        if before is not None:
            self.bytes -= before[0]
        if size:
            self._held[driver] = size, now
            self.bytes += size
        while self.bytes > self.most:
            victim = next(iter(self._held))
            if now - self._held[victim][1] < SILENT:
                victim = max(self._held, key=lambda each: self._held[each][0])
            self.bytes -= self._held.pop(victim)[0]
            self.ended += 1
            victim.give_up()
