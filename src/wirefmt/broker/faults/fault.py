"""What a fault is: the table of all faults, and their values in Python, on the command line and in TOML."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from wirefmt.broker.listeners import NAMES
from wirefmt.errors import suggest


class Kind(NamedTuple):
    """One row of FAULTS.

    Attributes:
        name: the field of `Fault`.
        value: the unit or the possible values.
        effect: what happens.
        where: "bytes" (between driver and connection) or "messages" (between server and broker).
        least: the smallest value, for numbers.
    """

    name: str
    value: str
    effect: str
    where: str
    least: int = 0


#: All faults. All but `refuse`, `duplicate` and `full` count for each connection separately, from the moment the fault begins.
FAULTS: Final[tuple[Kind, ...]] = (
    Kind("cut_after", "messages", "The connection is dropped after this many messages, in both directions together.", "bytes"),
    Kind("cut_after_bytes", "bytes", "The connection is dropped after this many bytes, in both directions together.", "bytes"),
    Kind("delay", "seconds", "The broker's bytes are sent this much later.", "bytes"),
    Kind("stall_after", "messages", "After this many messages nothing is read or written. 0: immediately.", "bytes"),
    Kind("refuse", "true", "New clients are refused with the protocol's error, or dropped if it has none.", "messages"),
    Kind("lose_acknowledgements", "number", "This many acknowledgements of the broker do not reach the client.", "bytes", 1),
    Kind("duplicate", "number", "One in this many messages that clients publish is accepted twice. 1: each.", "messages", 1),
    Kind("reorder", "clients", "This many clients wait until each of them has sent data; then their order changes.", "bytes", 2),
    Kind("corrupt", "bytes", "About one in this many bytes that the broker sends has a wrong bit.", "bytes", 1),
    Kind("full", '"memory" or "disk"', "Messages are refused with the protocol's error for a lack of resources.", "messages"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Faults that begin and end together; FAULTS describes them. None: without this fault.

    Attributes:
        protocol: "mqtt", "amqp" (0.9.1), "amqp10", "nsq", "rocketmq" or "phpmq"; "*": all.

    Raises ValueError or TypeError for an invalid value.
    """

    protocol: str = "*"
    cut_after: int | None = None
    cut_after_bytes: int | None = None
    delay: float | None = None
    stall_after: int | None = None
    refuse: bool | None = None
    lose_acknowledgements: int | None = None
    duplicate: int | None = None
    reorder: int | None = None
    corrupt: int | None = None
    full: str | None = None

    def __post_init__(self) -> None:
        if self.protocol != "*" and self.protocol not in NAMES:
            raise ValueError(f"unknown protocol {self.protocol!r}; {suggest(self.protocol, NAMES)}")
        given = 0
        for kind in FAULTS:
            value = getattr(self, kind.name)
            given += value is not None
            if kind.name == "full":
                if value not in (None, "memory", "disk"):
                    raise ValueError(f'full must be "memory" or "disk", not {value!r}')
            elif kind.name == "refuse":
                if value is not None and value is not True:
                    raise ValueError(f"refuse must be true, not {value!r}")
            elif value is not None:
                whole = kind.name != "delay"
                if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                    raise TypeError(f"{kind.name} must be {'an integer' if whole else 'a number'}, not {value!r}")
                if not kind.least <= value < math.inf:
                    raise ValueError(f"{kind.name} must be at least {kind.least} and finite, not {value}")
        if not given:
            raise ValueError(f"no fault given; {suggest('', [kind.name for kind in FAULTS])}")

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From the form of the command line: `mqtt:cut_after=10,delay=0.2`. Raises ValueError, which says what is wrong."""
        protocol, colon, rest = text.partition(":")
        if not colon:
            protocol, rest = "*", text
        values: dict[str, Any] = {"protocol": protocol.strip()}
        for item in rest.split(","):
            name, equals, value = item.partition("=")
            name = name.strip()
            if name in values:
                raise ValueError(f"{name!r} is given twice")
            try:
                values[name] = tomllib.loads(f"v = {value if equals else 'true'}")["v"]
            except tomllib.TOMLDecodeError:
                values[name] = value.strip()
        return cls.of(values)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Fault:
        """From names and values. Raises ValueError, which says what is wrong."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise ValueError(f"unknown fault {name!r}; {suggest(name, known[1:])}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from None
