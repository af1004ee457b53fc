"""What every decoder says and is told about frames: NEED_DATA, and limits."""

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


#: frame_size() answers this where more octets are needed to tell. A value, not an error, and false.
NEED_DATA: Final = NeedData.NEED_DATA


@dataclass(frozen=True, slots=True)
class Limits:
    """What a decoder accepts at most, whatever a specification allows. Kept in STRICT and in LAX.

    Attributes:
        frame_size: octets of one frame (MQTT: of one packet, header included). 0: no limit but the protocol's own.
        elements: entries of lists in one frame (MQTT: properties, topic filters, reason codes together). 0: no limit.
    """

    frame_size: int = 268_435_460
    elements: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("frame_size", "elements"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value < 1 << 32:
                raise ValueError(f"{name} is a number of 0 to 4294967295, not {value!r}")
