"""Which messages a consumer wants: by tags, or by a filter expression."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from wirefmt.broker.rocketmq.log import Stored
from wirefmt.rocketmq.sql import SqlFilter
from wirefmt.rocketmq.subscriptions import SQL92, TAG, tags_of

#: True: the consumer wants the message. None: it wants all.
Wants = Callable[[Stored], bool] | None

#: Messages that one pull or pop examines without a match, as in the real broker. The client must ask again then.
LOOKS_MAX: Final = 800


@lru_cache(128)
def _parsed(expression: str) -> SqlFilter:
    return SqlFilter(expression)


def wants(expression: str | None, kind: str | None) -> Wants:
    """What an expression of a type ("TAG", "SQL92") selects. Raises ValueError for an invalid expression."""
    if kind in (None, "", TAG):
        tags = frozenset(tags_of(expression or "*"))
        return (lambda stored: stored.message().tags in tags) if tags else None
    if kind != SQL92 or not expression:
        raise ValueError(f"there is no filter of type {kind}, or no expression")
    matches = _parsed(expression).matches
    return lambda stored: matches(stored.message().properties or {})
