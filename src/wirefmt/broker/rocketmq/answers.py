"""What the broker answers to a request (docs/rocketmq.md, section 5)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from wirefmt.rocketmq.codes import ResponseCode


class Answer(NamedTuple):
    """A response: its code, its typed header, its body, and its remark."""

    code: int = ResponseCode.SUCCESS
    header: Any = None
    body: bytes | None = None
    remark: str | None = None


#: What a request raises in which a field is missing or wrong. DecodeError is a ValueError.
FAULTS: Final = (KeyError, TypeError, ValueError, AttributeError)


def failed(error: Exception) -> Answer:
    """The answer to a request that has raised one of FAULTS."""
    return Answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


#: Steps of a request that is served in several, and its answer: see `wirefmt.connection.aio.Driver.later`.
Steps = Generator[int, None, Answer]
