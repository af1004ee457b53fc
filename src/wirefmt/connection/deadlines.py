"""Named timers of one connection, and keep-alive in both directions."""

from __future__ import annotations


class Deadlines:
    """Named timers. `clock` is the latest time that was passed in.

    Calls without a time (`send`, an answer) use `start`. Such a timer begins with the next call that has a time; until
    then `next` returns the latest known time, so the driver calls `handle_timeout` at once.
    """

    __slots__ = ("_at", "_in", "clock")

    def __init__(self, now: float) -> None:
        self.clock = now
        self._at: dict[str, float] = {}
        self._in: dict[str, float] = {}  # seconds, for timers that have not begun

    def __contains__(self, name: str) -> bool:
        return name in self._at or name in self._in

    def advance(self, now: float) -> None:
        """Set the clock. A clock that goes back is treated as standing still."""
        if now > self.clock:
            self.clock = now
        if self._in:
            for name, seconds in self._in.items():
                self._at[name] = self.clock + seconds
            self._in.clear()

    def start(self, name: str, seconds: float) -> None:
        """Set the timer to `seconds` after the next time that is passed in."""
        self._at.pop(name, None)
        self._in[name] = seconds

    def set(self, name: str, when: float) -> None:
        """Set the timer to a time."""
        self._in.pop(name, None)
        self._at[name] = when

    def cancel(self, name: str) -> None:
        """Stop the timer, if it runs."""
        self._at.pop(name, None)
        self._in.pop(name, None)

    def clear(self) -> None:
        """Stop all timers."""
        self._at.clear()
        self._in.clear()

    def next(self) -> float | None:
        """The earliest time; None: no timer runs."""
        if self._in:
            return self.clock
        return min(self._at.values()) if self._at else None

    def due(self, now: float) -> list[str]:
        """Set the clock; stop the timers that are due and return their names, the earliest first."""
        self.advance(now)
        names = sorted((name for name, when in self._at.items() if when <= self.clock), key=lambda n: self._at[n])
        for name in names:
            del self._at[name]
        return names


class Keepalive:
    """Keep-alive of a connection, with two timers among its Deadlines: "keepalive-send" and "keepalive-expect".

    Neither `sent` nor `received` touches a timer, since they are called for every message. The timers check the past period
    when they are due.

    Args:
        send_every: the longest time in seconds without a message of ours; None: no limit.
        expect_within: the longest time in seconds without bytes of the peer; None: no limit.
    """

    SEND = "keepalive-send"
    EXPECT = "keepalive-expect"

    __slots__ = ("_deadlines", "_received_at", "_sent", "expect_within", "send_every")

    def __init__(
        self, deadlines: Deadlines, *, send_every: float | None = None, expect_within: float | None = None
    ) -> None:
        self._deadlines = deadlines
        self._sent = False
        self._received_at = deadlines.clock
        self.send_every = send_every
        self.expect_within = expect_within
        if send_every is not None:
            deadlines.start(self.SEND, send_every / 2)
        if expect_within is not None:
            deadlines.start(self.EXPECT, expect_within)

    def sent(self) -> None:
        """A message has been queued."""
        self._sent = True

    def received(self) -> None:
        """Bytes were received, at the time of the Deadlines' clock."""
        self._received_at = self._deadlines.clock

    def suspend(self) -> None:
        """Stop the expectation while we do not read."""
        self._deadlines.cancel(self.EXPECT)

    def expect_again(self) -> None:
        """Reading continues: the peer has its full period from now on."""
        if self.expect_within is not None:
            self._received_at = self._deadlines.clock
            self._deadlines.start(self.EXPECT, self.expect_within)

    def must_send(self) -> bool:
        """The send timer is due: True if something must be sent now. Sets the timer again.

        The times of messages are unknown: one may have been sent right after the check before. So the next check comes sooner
        if there was one, and the gap is at most three quarters of the period. A peer that allows no more than the period has
        the rest for the way.
        """
        assert self.send_every is not None
        idle = not self._sent
        self._sent = False
        self._deadlines.set(self.SEND, self._deadlines.clock + self.send_every / (2 if idle else 4))
        return idle

    def is_lost(self) -> bool:
        """The expect timer is due: True if the peer was silent too long; otherwise sets the timer again."""
        assert self.expect_within is not None
        limit = self._received_at + self.expect_within
        if limit <= self._deadlines.clock:
            return True
        self._deadlines.set(self.EXPECT, limit)
        return False
