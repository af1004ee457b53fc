"""What brokers that are put together of parts share."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

_O = TypeVar("_O")


class _Part(Protocol):
    options: Any


class Assembly(Generic[_O]):
    """A broker whose parts each have its options. The class derived from it sets `_options`, and `_parts` when it has them."""

    _options: _O
    _parts: tuple[_Part, ...]

    @property
    def options(self) -> _O:
        """Policies and limits. They can be replaced while the broker runs, except shares and MQTT's `sys_interval`."""
        return self._options

    @options.setter
    def options(self, options: _O) -> None:
        self._options = options
        for part in self._parts:
            part.options = options
