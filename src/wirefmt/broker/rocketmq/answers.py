"""What the broker answers to a request, and the codes of it (docs/rocketmq.md, section 5)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from wirefmt.rocketmq.codes import ResponseCode


class Answer(NamedTuple):
    """A response: its code, its typed header, its body, and its remark."""

    code: int = ResponseCode.SUCCESS
    header: Any = None
    body: bytes | None = None
    remark: str | None = None


#: Steps of a request that is served in several, and its answer: see `wirefmt.connection.aio.Driver.later`.
Steps = Generator[int, None, Answer]
