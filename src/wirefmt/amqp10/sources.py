"""What a receiver asks of its source: filters, and browsing (3.5.3, 3.5.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wirefmt.amqp10._codec import Described, Map, Source, Symbol

#: The filter of a JMS message selector.
SELECTOR: Final = "apache.org:selector-filter:string"

#: The name that a filter has in the filter set, where brokers look at it (Qpid JMS, RabbitMQ). Others are named as their type.
NAMES: Final = {SELECTOR: "jms-selector", "amqp:sql-filter": "sql-filter"}


def source_of(
    source: str | Source | None, selector: str | None, filters: Mapping[str, Any] | None, browse: bool
) -> tuple[Source | None, frozenset[str]]:
    """The source of an attach, and the names of the filters that it asks for. Arguments as of `Client.receiver`.

    Raises ValueError if there is no source.
    """
    made: dict[Any, Any] = {}
    for kind, value in {**({SELECTOR: selector} if selector is not None else {}), **(filters or {})}.items():
        if isinstance(value, Described):
            made[Symbol(kind)] = value
            continue
        if kind == "amqp:properties-filter" and not isinstance(value, Map):
            value = Map({Symbol(name): wanted for name, wanted in value.items()})
        elif isinstance(value, Mapping) and not isinstance(value, Map):
            value = Map(value)
        made[Symbol(NAMES.get(kind, kind))] = Described(Symbol(kind), value)
    if isinstance(source, str):
        source = Source(address=source)
    if not made and not browse:
        return source, frozenset()
    if source is None:
        raise ValueError("a filter and browsing are of a source")
    fields = {name: getattr(source, name) for name in Source.__match_args__}
    if made:
        fields["filter"] = Map({**(source.filter or {}), **made})
    if browse:
        fields["distribution_mode"] = "copy"
    return Source(**fields), frozenset(made)


def lacking(asked: Source, names: frozenset[str], answered: Source | None) -> str:
    """What the server does not do of what was asked for: filters of these names, and browsing. "": nothing."""
    found = answered.filter if answered is not None else None
    ignored = sorted(names - {str(name) for name in found or ()})
    if ignored:
        return f"the filter {ignored[0]}"
    if asked.distribution_mode == "copy" and (answered is None or answered.distribution_mode == "move"):
        return "browsing"
    return ""
