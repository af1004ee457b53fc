"""What an AMQP 0.9.1 client has declared, to be declared again on the next connection: exchanges, queues, bindings.

The server removes some of it by itself; what it has removed does not come back without an owner:

- an auto-delete queue, when its last consumer goes (RabbitMQ: queues, temporary queues). One that has had no consumer stays.
- an auto-delete exchange, when the last binding that it is the source of goes. One that has had none stays.
- a queue with x-expires that is not used for so long: no consumer, no basic.get, not declared again.
- a binding, when one of its ends goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wirefmt import amqp091
from wirefmt.connection.recovery import OnRefused

Key = tuple[str, ...]


@dataclass(eq=False, slots=True)
class Entry:
    """One declaration.

    Attributes:
        key: what is replaced by it: kind and name, or all that makes up a binding.
        cls, fields: the method.
        on_refused: what becomes of it if the server refuses it later.
        ends: of a binding: the keys of source and destination.
        used: True: it has had a consumer of this client, or a binding that it is the source of.
        last: of a queue: when it was used last without a consumer.
    """

    key: Key
    cls: type[Any]
    fields: dict[str, Any]
    on_refused: OnRefused | None = None
    ends: tuple[Key, ...] = ()
    used: bool = False
    last: float = 0.0

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def expires(self) -> float | None:
        """Seconds of x-expires; None: it does not expire."""
        value = (self.fields.get("arguments") or {}).get("x-expires")
        value = value.value if isinstance(value, amqp091.FieldValue) else value
        return value / 1000 if isinstance(value, int) else None


class Topology:
    """The declarations of a client, by key.

    Attributes:
        names: of queues that the server has named: the first name -> the name on this connection.
        asking: held while the server is asked to declare something again, or to remove something.
    """

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self.names: dict[str, str] = {}
        self.asking = asyncio.Lock()
        self._consumers: dict[str, set[Any]] = {}  # by queue

    def __iter__(self) -> Iterator[Entry]:
        """In the order of declaring them again: a binding after its ends."""
        order = ("exchange", "queue", "bind exchange", "bind queue")
        return iter(sorted(self.entries.values(), key=lambda entry: order.index(entry.key[0])))

    def name(self, queue: str) -> str:
        """The name that a queue has on this connection."""
        return self.names.get(queue, queue)

    def method(self, entry: Entry) -> dict[str, Any]:
        """The fields of the method that declares it on this connection."""
        fields = {**entry.fields, "nowait": False}
        if entry.cls is not amqp091.QueueDeclare and "queue" in fields:
            fields["queue"] = self.name(fields["queue"])
        return fields

    # ---- declarations of the program

    def declared(
        self,
        kind: Literal["exchange", "queue"],
        name: str,
        cls: type[Any],
        fields: dict[str, Any],
        on_refused: OnRefused | None,
        now: float,
    ) -> None:
        """The server has taken the declaration of an exchange or a queue."""
        entry = Entry((kind, name), cls, fields, on_refused, last=now)
        before = self.entries.get(entry.key)
        entry.used = before.used if before is not None else self._has_users(entry)
        self.entries[entry.key] = entry

    def bound(self, cls: type[Any], fields: dict[str, Any], on_refused: OnRefused | None) -> None:
        """The server has taken a binding."""
        key, ends = binding(fields)
        self.entries[key] = Entry(key, cls, fields, on_refused, ends)
        source = self.entries.get(ends[0])
        if source is not None:
            source.used = True

    def unbound(self, fields: Mapping[str, Any]) -> None:
        """A binding is gone."""
        self._remove(binding(fields)[0])

    def deleted(self, kind: Literal["exchange", "queue"], name: str) -> None:
        """An exchange or a queue is gone, and with it its bindings."""
        self._remove((kind, name))
        self.names.pop(name, None)

    def consumed(self, queue: str, consumer: Any) -> None:
        """A consumer has begun."""
        self._consumers.setdefault(queue, set()).add(consumer)
        entry = self.entries.get(("queue", queue))
        if entry is not None:
            entry.used = True

    def released(self, queue: str, consumer: Any, now: float) -> None:
        """A consumer has ended."""
        consumers = self._consumers.get(queue, set())
        if consumer in consumers:
            consumers.discard(consumer)
            if not consumers:
                del self._consumers[queue]
            self.touched(queue, now)
            self._forget_unused(("queue", queue))

    def touched(self, queue: str, now: float) -> None:
        """A queue has been used by basic.get, or has lost a consumer."""
        entry = self.entries.get(("queue", queue))
        if entry is not None:
            entry.last = now

    # ---- what the server does

    def expire(self, now: float) -> None:
        """Forget the queues that have not been used as long as x-expires says."""
        for entry in list(self.entries.values()):
            expires = entry.expires if entry.key[0] == "queue" else None
            if expires is not None and now - entry.last >= expires and not self._has_users(entry):
                self.deleted("queue", entry.name)

    def drop(self, entry: Entry) -> None:
        """The server does not take it any more."""
        if self.entries.get(entry.key) is entry:
            self._remove(entry.key)

    def clear(self) -> None:
        """There is no further connection."""
        self.entries.clear()
        self.names.clear()
        self._consumers.clear()

    def _remove(self, key: Key) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None and entry.ends:
            self._forget_unused(entry.ends[0])
            return
        for other in [other for other in self.entries.values() if key in other.ends]:
            self._remove(other.key)

    def _forget_unused(self, key: Key) -> None:
        entry = self.entries.get(key)
        if entry is not None and entry.fields.get("auto_delete") and entry.used and not self._has_users(entry):
            self.deleted("exchange" if key[0] == "exchange" else "queue", entry.name)

    def _has_users(self, entry: Entry) -> bool:
        if entry.key[0] == "queue":
            return entry.name in self._consumers
        return any(other.ends and other.ends[0] == entry.key for other in self.entries.values())


def binding(fields: Mapping[str, Any]) -> tuple[Key, tuple[Key, Key]]:
    """The key of a binding, and those of its source and its destination."""
    arguments = fields.get("arguments")
    table = amqp091.FieldTable(arguments).encode().hex() if arguments else ""
    if "queue" in fields:
        source, destination = fields["exchange"], ("queue", str(fields["queue"]))
    else:
        source, destination = fields["source"], ("exchange", str(fields["destination"]))
    key = (f"bind {destination[0]}", destination[1], str(source), str(fields.get("routing_key", "")), table)
    return key, (("exchange", str(source)), destination)
