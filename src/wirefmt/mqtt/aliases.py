"""Topic aliases of one connection, in each direction (MQTT 5.0, 3.3.2.3.4)."""

from __future__ import annotations

from typing import NamedTuple


class Alias(NamedTuple):
    """An alias for a topic that is about to be sent. `known`: the receiver has the mapping already."""

    number: int
    known: bool


class OutgoingAliases:
    """Aliases that we set. The topic used least recently gives way.

    Args:
        maximum: aliases that the receiver allows. The host may choose each of them itself.
        most: aliases up to which one is chosen for it.
    """

    __slots__ = ("_numbers", "_topics", "maximum", "most")

    def __init__(self, maximum: int, most: int = 65535) -> None:
        self.maximum = maximum
        self.most = min(most, maximum)
        self._numbers: dict[str, int] = {}  # by topic; the one used last is at the end
        self._topics: dict[int, str] = {}

    def topic_of(self, number: int) -> str | None:
        return self._topics.get(number)

    def choose(self, topic: str) -> Alias | None:
        """The alias to send this topic with; None: none is chosen. Changes nothing."""
        if not self.most:
            return None
        number = self._numbers.get(topic)
        if number is not None:
            return Alias(number, True)
        if len(self._numbers) < self.most:
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
