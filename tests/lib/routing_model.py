"""Exchanges and queues by the rules of AMQP 0.9.1 and RabbitMQ, written down as plainly as they can be: the opposite of an
implementation that is fast. What `wirefmt.broker.routing` does is held against it.

Messages are numbers. Dead letters are published in the order in which messages die.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def pattern_matches(pattern: list[str], words: list[str]) -> bool:
    """AMQP 0.9.1, 3.1.3.3."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return pattern_matches(pattern[1:], words) or bool(words and pattern_matches(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and pattern_matches(pattern[1:], words[1:])


def words_of(text: str) -> list[str]:
    return text.split(".") if text else []


def arguments_match(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    """AMQP 0.9.1, 3.1.3.4; RabbitMQ for names that begin with x-."""
    how = arguments.get("x-match", "all")
    results = []
    for name, value in arguments.items():
        if name == "x-match" or (name.startswith("x-") and not how.endswith("-with-x")):
            continue
        results.append(name in headers and (value is None or headers[name] == value))
    return all(results) if how.startswith("all") else any(results)


@dataclass
class Copy:
    """A message in a queue."""

    number: int
    size: int
    exchange: str
    keys: list[str]
    bcc: list[str]
    headers: dict[str, Any]
    priority: int
    ttl: float | None
    deaths: list[tuple[str, str]] = field(default_factory=list)  # queue and reason, latest first
    place: tuple[int, int] = (0, 0)
    expires: float | None = None


@dataclass
class ModelExchange:
    kind: str
    alternate: str | None = None
    auto_delete: bool = False


@dataclass
class ModelQueue:
    arguments: dict[str, Any]
    waiting: list[Copy] = field(default_factory=list)
    dropped: int = 0


class Model:
    def __init__(self, exchanges: dict[str, str]) -> None:
        self.exchanges = {name: ModelExchange(kind) for name, kind in exchanges.items()}
        self.queues: dict[str, ModelQueue] = {}
        #: source, kind of the destination, destination, routing key, arguments
        self.bindings: list[tuple[str, str, str, str, dict[str, Any]]] = []
        self.now = 0.0
        self._places = 0
        self._dead: list[tuple[str, Copy, str]] = []
        self._dead_lettering = False

    # ---- routing

    def route_keys(self, exchange: str, keys: list[str], headers: dict[str, Any], seen: set[str]) -> set[str]:
        """Every exchange on the way looks at all keys; its alternate is for messages of which it has matched none."""
        if exchange == "":
            return set(keys) & self.queues.keys()
        if exchange in seen:
            return set()
        seen.add(exchange)
        kind = self.exchanges[exchange].kind
        matching = [
            (what, destination)
            for source, what, destination, bound, arguments in self.bindings
            for key in keys
            if source == exchange
            and (
                kind == "fanout"
                or (kind == "direct" and bound == key)
                or (kind == "topic" and pattern_matches(words_of(bound), words_of(key)))
                or (kind == "headers" and arguments_match(arguments, headers))
            )
        ]
        alternate = self.exchanges[exchange].alternate
        if not matching and alternate in self.exchanges:
            matching = [("exchange", alternate)]
        found = {name for what, name in matching if what == "queue"}
        for what, name in matching:
            if what == "exchange":
                found |= self.route_keys(name, keys, headers, seen)
        return found

    def route(self, exchange: str, copy: Copy) -> set[str]:
        return self.route_keys(exchange, [*copy.keys, *copy.bcc], copy.headers, set())

    # ---- queues

    def full_for(self, name: str, copy: Copy) -> bool:
        queue = self.queues[name]
        size = sum(each.size for each in queue.waiting) + copy.size
        most, most_bytes = queue.arguments.get("x-max-length"), queue.arguments.get("x-max-length-bytes")
        return (most is not None and len(queue.waiting) + 1 > most) or (most_bytes is not None and size > most_bytes)

    def rejects(self, name: str) -> bool:
        return self.queues[name].arguments.get("x-overflow", "drop-head").startswith("reject-publish")

    def publish(self, exchange: str, copy: Copy, order: list[str]) -> bool:
        """`order`: in which its queues get it. Returns False if one of them refuses."""
        refusing = [name for name in order if self.rejects(name) and self.full_for(name, copy)]
        for name in refusing:
            if self.queues[name].arguments["x-overflow"] == "reject-publish-dlx":
                self.die(name, copy, "maxlen")
        for name in order:
            if name not in refusing:
                self.put(name, copy)
        return not refusing

    def put(self, name: str, copy: Copy) -> None:
        queue = self.queues[name]
        times = [ttl for ttl in (copy.ttl, queue.arguments.get("x-message-ttl")) if ttl is not None]
        self._places += 1
        made = Copy(
            copy.number,
            copy.size,
            copy.exchange,
            copy.keys,
            copy.bcc,
            copy.headers,
            copy.priority,
            copy.ttl,
            copy.deaths,
        )
        made.place = (-min(copy.priority, queue.arguments.get("x-max-priority", 0)), self._places)
        made.expires = self.now + min(times) / 1000 if times else None
        self.insert(name, made)
        most, most_bytes = queue.arguments.get("x-max-length"), queue.arguments.get("x-max-length-bytes")
        while queue.waiting and (
            (most is not None and len(queue.waiting) > most)
            or (most_bytes is not None and sum(each.size for each in queue.waiting) > most_bytes)
        ):
            self.die(name, queue.waiting.pop(0), "maxlen")

    def insert(self, name: str, copy: Copy) -> None:
        self.queues[name].waiting.append(copy)
        self.queues[name].waiting.sort(key=lambda each: each.place)

    def expire(self, name: str) -> None:
        """Only the head of a queue expires (RabbitMQ, classic queues)."""
        queue = self.queues[name]
        while queue.waiting and queue.waiting[0].expires is not None and queue.waiting[0].expires <= self.now:
            self.die(name, queue.waiting.pop(0), "expired")

    # ---- dead letters

    def die(self, name: str, copy: Copy, reason: str) -> None:
        self._dead.append((name, copy, reason))
        if self._dead_lettering:
            return
        self._dead_lettering = True
        while self._dead:
            self.dead_letter_one(*self._dead.pop(0))
        self._dead_lettering = False

    def dead_letter_one(self, name: str, copy: Copy, reason: str) -> None:
        arguments = self.queues[name].arguments
        exchange = arguments.get("x-dead-letter-exchange")
        if exchange not in self.exchanges:
            self.queues[name].dropped += 1
            return
        key = arguments.get("x-dead-letter-routing-key")
        letter = Copy(
            copy.number,
            copy.size,
            exchange,
            copy.keys if key is None else [key],
            copy.bcc if key is None else [],
            copy.headers,
            copy.priority,
            None,
            [(name, reason), *(death for death in copy.deaths if death != (name, reason))],
        )
        targets = self.route(exchange, letter)
        if not targets:
            self.queues[name].dropped += 1
        for target in self.order(targets):
            if self.cycles(target, letter) or (self.rejects(target) and self.full_for(target, letter)):
                self.queues[target].dropped += 1
            else:
                self.put(target, letter)

    @staticmethod
    def order(names: set[str]) -> list[str]:
        """In which queues get a message: the rules leave it open."""
        return sorted(names)

    @staticmethod
    def cycles(target: str, letter: Copy) -> bool:
        """It has died in the target before, and no client has rejected it since."""
        queues = [queue for queue, _ in letter.deaths]
        if target not in queues:
            return False
        return all(reason != "rejected" for _, reason in letter.deaths[: queues.index(target) + 1])

    # ---- deleting

    def unbind(self, keep: Any) -> None:
        """Remove the bindings that are not kept. An exchange with auto-delete goes with its last binding."""
        before = {source for source, *_ in self.bindings}
        self.bindings = [binding for binding in self.bindings if keep(binding)]
        for source in sorted(before - {source for source, *_ in self.bindings}):
            if source in self.exchanges and self.exchanges[source].auto_delete:
                self.delete_exchange(source)

    def delete_exchange(self, name: str) -> None:
        del self.exchanges[name]
        self.bindings = [binding for binding in self.bindings if binding[0] != name]
        self.unbind(lambda binding: binding[1:3] != ("exchange", name))

    def delete_queue(self, name: str) -> None:
        del self.queues[name]
        self.unbind(lambda binding: binding[1:3] != ("queue", name))
