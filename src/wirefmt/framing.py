"""What all decoders share: NEED_DATA and limits."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class NeedData(enum.Enum):
    """The type of NEED_DATA."""

    NEED_DATA = "NEED_DATA"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NEED_DATA"

    __str__ = __repr__


#: frame_size() returns this if it needs more bytes. It is a value, not an error, and it is false.
NEED_DATA: Final = NeedData.NEED_DATA


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a decoder, whatever the specification allows. They apply in STRICT and in LAX.

    Attributes:
        frame_size: bytes of one frame (MQTT: of one packet, including its header). 0: only the protocol's own limit.
        elements: list entries in one frame (MQTT: properties, topic filters and reason codes together). 0: no limit.
    """

    frame_size: int = 268_435_460
    elements: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("frame_size", "elements"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value < 1 << 32:
                raise ValueError(f"{name} must be an integer from 0 to 4294967295, not {value!r}")
