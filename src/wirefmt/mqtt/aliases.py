"""Topic aliases of one connection, in each direction (MQTT 5.0, 3.3.2.3.4)."""

from __future__ import annotations

from typing import NamedTuple


class Alias(NamedTuple):
    """An alias for a topic that is about to be sent. `known`: the receiver has the mapping already."""

    number: int
    known: bool


class OutgoingAliases:
    """Aliases that we set, at most as many as the receiver allows. The topic used least recently gives way."""

    __slots__ = ("_numbers", "_topics", "maximum")

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._numbers: dict[str, int] = {}  # by topic; the one used last is at the end
        self._topics: dict[int, str] = {}

    def topic_of(self, number: int) -> str | None:
        return self._topics.get(number)

    def choose(self, topic: str) -> Alias | None:
        """The alias to send this topic with; None: there are no aliases. Changes nothing."""
        if not self.maximum:
            return None
        number = self._numbers.get(topic)
        if number is not None:
            return Alias(number, True)
        if len(self._numbers) < self.maximum:
            number = len(self._topics) + 1
            while number in self._topics:  # the host has chosen some numbers itself
                number = number % self.maximum + 1
            return Alias(number, False)
        return Alias(next(iter(self._numbers.values())), False)

    def use(self, topic: str, number: int) -> None:
        """The topic is sent with this alias."""
        old = self._topics.get(number)
        if old is not None and old != topic:
            del self._numbers[old]
        before = self._numbers.pop(topic, None)
        if before is not None and before != number:
            del self._topics[before]  # the receiver keeps it, but we do not use it any more
        self._numbers[topic] = number
        self._topics[number] = topic
