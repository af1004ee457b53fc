"""What the broker answers to a request, and the codes of it (docs/rocketmq.md, section 5)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from wirefmt.rocketmq.events import SUCCESS

MESSAGE_ILLEGAL: Final = 13
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
PULL_NOT_FOUND: Final = 19
PULL_RETRY_IMMEDIATELY: Final = 20
PULL_OFFSET_MOVED: Final = 21
QUERY_NOT_FOUND: Final = 22
SUBSCRIPTION_PARSE_FAILED: Final = 23
SUBSCRIPTION_NOT_EXIST: Final = 24
SUBSCRIPTION_NOT_LATEST: Final = 25
FILTER_DATA_NOT_EXIST: Final = 27
CONSUME_MSG_TIMEOUT: Final = 207
NO_MESSAGE: Final = 208
POLLING_TIMEOUT: Final = 210


class Answer(NamedTuple):
    """A response: its code, its typed header, its body, and its remark."""

    code: int = SUCCESS
    header: Any = None
    body: bytes | None = None
    remark: str | None = None


#: Steps of a request that is served in several, and its answer: see `wirefmt.connection.aio.Driver.later`.
Steps = Generator[int, None, Answer]
