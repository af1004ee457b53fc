"""What a consumer wants of a topic: tags, or a filter expression; and which queues are whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wirefmt.rocketmq._codec import MessageExt, SubscriptionData, hash_code
from wirefmt.rocketmq.spec import RETRY_PREFIX

if TYPE_CHECKING:
    from wirefmt.rocketmq.routes import Queue

TAG: Final = "TAG"
SQL92: Final = "SQL92"

#: The real client lists this group in every heartbeat.
INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"


@dataclass(frozen=True, slots=True)
class Sql:
    """A subscription by a filter expression in SQL92 over the properties of messages, such as "amount > 100 AND colour = 'red'".

    The broker parses and evaluates it: `SqlFilter` has the grammar.
    """

    expression: str


#: What messages of a topic a consumer wants: tags, as "a || b"; "*": all; or a filter expression.
Expression = str | Sql


def retry_topic(group: str) -> str:
    """The topic by which messages are delivered again that the group has failed to consume."""
    return f"{RETRY_PREFIX}{group}"


def tags_of(expression: str) -> tuple[str, ...]:
    """The tags that an expression like "a || b" names; none: all messages."""
    if expression.strip() in ("", "*"):
        return ()
    return tuple(tag for part in expression.split("||") if (tag := part.strip()))


def text_and_type(expression: Expression) -> tuple[str, str]:
    """The expression and its type, as headers have them."""
    return (expression.expression, SQL92) if isinstance(expression, Sql) else (expression, TAG)


def with_wanted_tags(messages: tuple[MessageExt, ...], expression: Expression) -> tuple[MessageExt, ...]:
    """The messages that have one of the tags. A broker compares hash codes alone. A filter expression leaves nothing to do."""
    tags = tags_of(expression) if isinstance(expression, str) else ()
    return tuple(m for m in messages if m.tags in tags) if tags else messages


def subscription(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """A subscription as heartbeats have it."""
    text, kind = text_and_type(expression)
    tags = tags_of(text) if kind == TAG else ()
    return SubscriptionData(
        class_filter_mode=False,
        topic=topic,
        sub_string=text if tags or kind != TAG else "*",
        tags_set=list(tags),
        code_set=[hash_code(tag) for tag in tags],
        sub_version=version,
        expression_type=kind,
    )


def allocate(queues: Sequence[Queue], members: Sequence[str], member: str) -> list[Queue]:
    """The queues of one member of a group: contiguous parts of equal size, as the real client's default allocates them.

    All members give the same arguments in the same order, so that no queue has two of them.
    """
    if member not in members:
        return []
    index, rest = members.index(member), len(queues) % len(members)
    size = len(queues) // len(members)
    begin = index * size + min(index, rest)
    return list(queues[begin : begin + size + (index < rest)])
