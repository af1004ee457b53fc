"""What a broker knows about a message. The engine makes these values; this module does not use the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

Annotation = str | int | bool


@dataclass(frozen=True, slots=True)
class Death:
    """An entry of the dead-letter history: queue, reason, count and times in milliseconds since 1970."""

    queue: str
    reason: str
    count: int
    first_time_ms: int
    last_time_ms: int
    exchange: str
    routing_keys: tuple[str, ...]
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Annotations:
    """A broker's knowledge about a message. None: unknown.

    Attributes:
        exchange, routing_keys: how the message was published, or last routed.
        durable, priority, ttl_ms, timestamp_ms: derived from the message once, when it arrives.
        received_ms: when it arrived, if an interceptor records it.
        deaths: latest first.
        extra: the broker's own annotations, with keys that begin with x-.
    """

    exchange: str = ""
    routing_keys: tuple[str, ...] = ("",)
    bcc: tuple[str, ...] = ()
    durable: bool | None = None
    priority: int | None = None
    ttl_ms: int | None = None
    timestamp_ms: int | None = None
    received_ms: int | None = None
    deaths: tuple[Death, ...] = ()
    extra: Mapping[str, Annotation] = field(default_factory=dict)


def after_death(
    known: Annotations, queue: str, reason: str, exchange: str, routing_key: str | None, now_ms: int, clear_ttl: bool
) -> Annotations:
    """The annotations of a message that died in a queue and was published to another exchange."""
    deaths = list(known.deaths)
    found = next((d for d in deaths if (d.queue, d.reason) == (queue, reason)), None)
    if found:
        deaths.remove(found)
        death = replace(found, count=found.count + 1, last_time_ms=now_ms)
    else:
        death = Death(queue, reason, 1, now_ms, now_ms, known.exchange, known.routing_keys, known.ttl_ms)
    extra = dict(known.extra)
    if not known.deaths:
        extra |= {
            "x-first-death-exchange": known.exchange,
            "x-first-death-queue": queue,
            "x-first-death-reason": reason,
        }
    extra |= {"x-last-death-exchange": known.exchange, "x-last-death-queue": queue, "x-last-death-reason": reason}
    return replace(
        known,
        exchange=exchange,
        routing_keys=known.routing_keys if routing_key is None else (routing_key,),
        bcc=known.bcc if routing_key is None else (),
        deaths=(death, *deaths),
        extra=extra,
        ttl_ms=-1 if clear_ttl else known.ttl_ms,
    )
