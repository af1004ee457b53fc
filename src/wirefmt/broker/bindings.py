"""What is bound to an exchange, found by routing key or headers. Sections are those of AMQP 0.9.1.

A binding is its destination, its routing key and its arguments, encoded. A lookup in a direct, fanout or topic exchange takes
no longer when there are more bindings that do not match. A headers exchange looks at all of its bindings, and a
topic exchange at all of its shapes and at patterns with words between two `#`: see `Table.cost` and `Limits.steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

Binding = tuple[Any, str, bytes]

#: What x-match can be (RabbitMQ); without it "all" is meant.
HOW_TO_MATCH: Final = ("all", "any", "all-with-x", "any-with-x")


#: What a look at a shape of patterns costs, and at a binding of a headers exchange, beside that of one of its arguments.
SHAPE: Final = 20
HEADERS: Final = 10

#: Bytes of arguments that cost as much to compare as an argument.
COMPARED_BYTES: Final = 64


class Table(Protocol):
    """The bindings of one exchange.

    Attributes:
        cost: what one message may cost at most, besides its destinations, in steps of about 50 ns.
    """

    @property
    def cost(self) -> int: ...

    def add(self, binding: Binding, arguments: Mapping[str, Any]) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def find(self, routing_key: str, headers: Callable[[], Mapping[Any, Any]]) -> Iterator[Any]:
        """The destinations of a message. One that is bound several times may come several times."""
        ...


class _Destinations(dict[Any, int]):
    """Destinations, and how often each is bound."""

    def add(self, destination: Any) -> None:
        self[destination] = self.get(destination, 0) + 1

    def remove(self, destination: Any) -> None:
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1


class Fanout:
    """All destinations (3.1.3.2)."""

    cost = 0

    def __init__(self) -> None:
        self._destinations = _Destinations()

    def add(self, binding: Binding, arguments: Mapping[str, Any]) -> None:
        self._destinations.add(binding[0])

    def remove(self, binding: Binding) -> None:
        self._destinations.remove(binding[0])

    def find(self, routing_key: str, headers: Callable[[], Mapping[Any, Any]]) -> Iterator[Any]:
        yield from self._destinations


class Direct:
    """Destinations that are bound with the message's routing key (3.1.3.1)."""

    cost = 0

    def __init__(self) -> None:
        self._by_key: dict[str, _Destinations] = {}

    def add(self, binding: Binding, arguments: Mapping[str, Any]) -> None:
        self._by_key.setdefault(binding[1], _Destinations()).add(binding[0])

    def remove(self, binding: Binding) -> None:
        destinations = self._by_key[binding[1]]
        destinations.remove(binding[0])
        if not destinations:
            del self._by_key[binding[1]]

    def find(self, routing_key: str, headers: Callable[[], Mapping[Any, Any]]) -> Iterator[Any]:
        yield from self._by_key.get(routing_key, ())


class _Shape(NamedTuple):
    """Where a pattern has its wildcards. Patterns of one shape are found by their other words.

    Attributes:
        least: words that a matching key has at least; without `open` it has exactly so many.
        open: there is a `#`.
        places: of the words before the first `#` and, negative, after the last one that are not `*`.
        inner: there is a word between two `#`. The first of these words may be anywhere in the key.
        exact: a key that has the words in their places matches; otherwise `topic_matches` decides.
    """

    least: int
    open: bool
    places: tuple[int, ...]
    inner: bool
    exact: bool


def _shape_of(pattern: str) -> tuple[_Shape, tuple[str, ...]]:
    """The shape of a pattern, and the words by which it is found."""
    words = pattern.split(".") if pattern else []
    count = len(words)
    least = count - words.count("#")
    if least == count:
        places = tuple(k for k, word in enumerate(words) if word != "*")
        return _Shape(count, False, places, False, True), tuple(words[k] for k in places)
    first, last = words.index("#"), count - 1 - words[::-1].index("#")
    fixed = (*range(first), *range(last + 1 - count, 0))
    places = tuple(k for k in fixed if words[k] != "*")
    inner = [word for word in words[first:last] if word not in ("*", "#")]
    return (
        _Shape(least, True, places, bool(inner), not inner),
        (*(words[k] for k in places), *inner[:1]),
    )


class Topic:
    """Destinations that are bound with a pattern that matches the routing key (3.1.3.3)."""

    def __init__(self) -> None:
        self._by_shape: dict[_Shape, dict[tuple[str, ...], dict[str, _Destinations]]] = {}
        self._inexact = 0  # words of patterns that `topic_matches` decides about

    @property
    def cost(self) -> int:
        return SHAPE * len(self._by_shape) + 2 * self._inexact

    def add(self, binding: Binding, arguments: Mapping[str, Any]) -> None:
        shape, words = _shape_of(binding[1])
        patterns = self._by_shape.setdefault(shape, {}).setdefault(words, {})
        if binding[1] not in patterns:
            patterns[binding[1]] = _Destinations()
            self._inexact += _inexact(shape, binding[1])
        patterns[binding[1]].add(binding[0])

    def remove(self, binding: Binding) -> None:
        shape, words = _shape_of(binding[1])
        by_words = self._by_shape[shape]
        patterns = by_words[words]
        patterns[binding[1]].remove(binding[0])
        if not patterns[binding[1]]:
            del patterns[binding[1]]
            self._inexact -= _inexact(shape, binding[1])
        if not patterns:
            del by_words[words]
        if not by_words:
            del self._by_shape[shape]

    def find(self, routing_key: str, headers: Callable[[], Mapping[Any, Any]]) -> Iterator[Any]:
        words = routing_key.split(".") if routing_key else []
        count, places = len(words), _places_of(words)
        for shape, by_words in self._by_shape.items():
            if count < shape.least or (count > shape.least and not shape.open):
                continue
            fixed = tuple([words[k] for k in shape.places])
            for wanted in [(*fixed, word) for word in dict.fromkeys(words)] if shape.inner else (fixed,):
                for pattern, destinations in by_words.get(wanted, {}).items():
                    if shape.exact or _matches(pattern, places, count):
                        yield from destinations


class _Wanted:
    """The arguments of a binding of a headers exchange: names that have to be there, and values that have to be equal."""

    __slots__ = ("any", "cost", "equal", "present")

    def __init__(self, arguments: Mapping[str, Any], size: int = 0) -> None:
        how = arguments.get("x-match", "all")
        with_x = how in ("all-with-x", "any-with-x")
        wanted = {k: v for k, v in arguments.items() if k != "x-match" and (with_x or not k.startswith("x-"))}
        self.any = how in ("any", "any-with-x")
        self.equal = {k: v for k, v in wanted.items() if v is not None}
        self.present = wanted.keys() - self.equal.keys()
        self.cost = HEADERS + len(wanted) + size // COMPARED_BYTES

    def match(self, given: dict[Any, Any]) -> bool:
        equal, present = self.equal, self.present
        if not self.any:  # `==` of the values, as those of all pairs
            return equal.items() <= given.items() and present <= given.keys()
        few, many = (equal, given) if len(equal) < len(given) else (given, equal)
        return any(k in many and many[k] == v for k, v in few.items()) or not present.isdisjoint(given)


class Headers:
    """Destinations that are bound with arguments that match the message's headers (3.1.3.4)."""

    def __init__(self) -> None:
        self._bindings: dict[Binding, _Wanted] = {}
        self.cost = 0

    def add(self, binding: Binding, arguments: Mapping[str, Any]) -> None:
        wanted = self._bindings[binding] = _Wanted(arguments, len(binding[2]))
        self.cost += wanted.cost

    def remove(self, binding: Binding) -> None:
        self.cost -= self._bindings.pop(binding).cost

    def find(self, routing_key: str, headers: Callable[[], Mapping[Any, Any]]) -> Iterator[Any]:
        if self._bindings:
            given = dict(headers())
            for (destination, _, _), wanted in self._bindings.items():
                if wanted.match(given):
                    yield destination


#: The table of each type of exchange.
TABLES: Final[Mapping[str, Callable[[], Table]]] = {
    "direct": Direct,
    "fanout": Fanout,
    "topic": Topic,
    "headers": Headers,
}


def topic_matches(pattern: str, routing_key: str) -> bool:
    """Does a binding of a topic exchange match (3.1.3.3)? `*` is one word, `#` any number of words."""
    words = routing_key.split(".") if routing_key else []
    return _matches(pattern, _places_of(words), len(words))


def _places_of(words: list[str]) -> dict[str, int]:
    """Where each word of a routing key is: a bit for each place."""
    places: dict[str, int] = {}
    for k, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << k
    return places


def _matches(pattern: str, places: dict[str, int], count: int) -> bool:
    """Does a pattern match the routing key of so many words? In time of the pattern, whatever it is."""
    all_places = (1 << count) - 1
    reached = 1  # bit n: after the words of the pattern so far, n words of the key may be used
    for part in pattern.split(".") if pattern else []:
        if part == "#":
            reached = (2 << count) - (reached & -reached)  # all from the lowest bit on
        else:
            reached = (reached & (all_places if part == "*" else places.get(part, 0))) << 1
            if not reached:
                return False
    return bool(reached >> count)


def _inexact(shape: _Shape, pattern: str) -> int:
    return 0 if shape.exact else pattern.count(".") + 1


def headers_match(arguments: Mapping[str, Any], headers: Mapping[Any, Any]) -> bool:
    """Does a binding of a headers exchange match (3.1.3.4)? x-match is all or any; the -with-x forms (RabbitMQ) look at names
    that begin with x-, too."""
    return _Wanted(arguments).match(dict(headers))
