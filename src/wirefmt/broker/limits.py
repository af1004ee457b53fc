"""Limits of exchanges and queues, refusals, and open transactions. Sections are those of AMQP 0.9.1."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wirefmt.amqp091.codes import ReplyCode
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.errors import check_choice

if TYPE_CHECKING:
    from wirefmt.broker.routing import Router

#: Bytes that an entry of a queue costs besides its message, and one of a transaction. They count in `Router.shares`.
ENTRY: Final = 300
TRANSACTED: Final = 700

Overflow = Literal["refuse", "drop_oldest"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the memory of a router, and how it converts.

    Attributes:
        exchanges, queues, bindings: how many there may be.
        steps: what the bindings of one exchange may cost a message, in steps of about 50 ns: an argument of a headers exchange is
            one, a word of a topic exchange's pattern with words between two `#` is two, a shape of patterns 20. A binding that
            exceeds it is refused. A message that goes through several exchanges or has several keys may cost twice that.
        queue_messages, queue_bytes: messages, and bytes of them, that wait in one queue, or in one open transaction, where a
            message counts as often as there are queues that it goes to.
        memory: bytes of all queues and open transactions together, with what the objects of messages and their entries cost. A
            message that exceeds it is refused.
        client_share, user_share: the part of `exchanges`, `queues`, `bindings`, `steps` and `memory` that one client, and one
            user, may have (`wirefmt.broker.shares`). Bytes are those of the messages that it has published.
        overflow: what happens to a message for a queue that is full: "refuse": it is refused, as far as the protocol can say so.
            "drop_oldest": the oldest message of the queue is dropped, or dead-lettered. A queue's x-overflow comes first.
        dialect: of `wirefmt.convert`, for consumers of other protocols than the publisher's.
    """

    exchanges: int = 10_000
    queues: int = 10_000
    bindings: int = 100_000
    steps: int = 1_000_000
    queue_messages: int = 100_000
    queue_bytes: int = 1 << 28
    memory: int = 1 << 30
    client_share: float = 0.25
    user_share: float = 0.5
    overflow: Overflow = "refuse"
    dialect: str = "documented"

    def __post_init__(self) -> None:
        check_choice("overflow", self.overflow, Overflow)


class Refusal(Exception):
    """A request is refused. `code`: of AMQP 0.9.1."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Transaction:
    """Messages that wait for the end of a transaction, in order. They have the limits of a queue, and count among the bytes of
    all queues.

    Args:
        holder: whose it is.

    Attributes:
        messages: what the host has added, each with the bytes that it counts.
        bytes: of them.
    """

    def __init__(self, router: Router, holder: Holder = UNOWNED) -> None:
        self.router = router
        self.holder = holder
        self.messages: deque[tuple[Any, int]] = deque()
        self.bytes = 0
        self._copies = 0

    def add(self, message: Any, size: int, copies: int = 1) -> None:
        """Add a message of this size, for so many queues. Raises Refusal if it is too much."""
        router, limits = self.router, self.router.limits
        size += TRANSACTED
        if (
            len(self.messages) >= limits.queue_messages
            or (self._copies and self._copies + copies > limits.queue_messages)
            or self.bytes + size > limits.queue_bytes
            or not router.shares.fits(self.holder, limits.memory, size)
        ):
            raise Refusal(ReplyCode.PRECONDITION_FAILED, "the messages of the transaction are too many or too large")
        self.messages.append((message, size))
        self._copies += max(copies, 1)
        self._count(size)

    def _count(self, size: int) -> None:
        self.bytes += size
        self.router.shares.keep(self.holder, size)

    def end(self) -> list[Any]:
        """Roll back, or commit all of it at once: the messages, which count no more. The next transaction begins."""
        return list(self.take())

    def take(self) -> Iterator[Any]:
        """Commit in steps: each message counts until it is taken. The next transaction begins when the last one is, or when
        nobody takes them any more."""
        try:
            while self.messages:
                message, size = self.messages.popleft()
                self._count(-size)
                yield message
        finally:
            self._count(-self.bytes)
            self.messages.clear()
            self._copies = 0


def check_equal(what: str, name: str, received: Any, current: Any) -> None:
    """Something is declared again, with a value that has to be the same. Integers of all sizes are one type (RabbitMQ)."""
    if type(received) is not type(current) or received != current:
        raise Refusal(
            ReplyCode.PRECONDITION_FAILED,
            f"inequivalent arg '{name}' for {what}: received {_value(received)} but current is {_value(current)}",
        )


def _value(value: Any) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower() if isinstance(value, bool) else value}'"
