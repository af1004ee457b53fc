"""How much a decoder forgives, and the list of what LAX does.

STRICT enforces every rule of the specification that octets can break; it is the default on connections. LAX reads
what can be framed and keeps a note of each rule it let pass; it is the default on captures. Memory safety, lengths,
UTF-8 and limits are the same in both: there is no unchecked level.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from wirefmt.amqp091 import spec as amqp091
from wirefmt.amqp10 import spec as amqp10
from wirefmt.mqtt import spec as mqtt
from wirefmt.nsq import spec as nsq
from wirefmt.phpmq import spec as phpmq


class Strictness(enum.StrEnum):
    STRICT = "strict"
    LAX = "lax"


STRICT: Final = Strictness.STRICT
LAX: Final = Strictness.LAX


class Note(NamedTuple):
    """A rule that LAX let pass in one message."""

    check: str  # name of the row in the specification's CHECKS
    path: str  # the field, as `subscriptions[1].options`
    offset: int  # octets from the start of the message
    reason: str  # what is wrong, in words
    spec: str  # statement id or section


class Skippable(NamedTuple):
    protocol: str
    check: str
    text: str
    specs: dict[str, str]  # version -> statement id or section


def _mqtt() -> tuple[Skippable, ...]:
    return tuple(
        Skippable(
            "mqtt",
            check.name,
            check.text,
            {
                name: spec
                for name, spec in zip(mqtt.VERSIONS.values(), (check.v3, check.v4, check.v5), strict=True)
                if spec
            },
        )
        for check in mqtt.CHECKS
        if check.lax
    )


def _amqp091() -> tuple[Skippable, ...]:
    return tuple(Skippable("amqp091", c.name, c.text, {"0-9-1": c.spec}) for c in amqp091.CHECKS if c.lax)


def _amqp10() -> tuple[Skippable, ...]:
    return tuple(Skippable("amqp10", c.name, c.text, {"1.0": c.spec}) for c in amqp10.CHECKS if c.lax)


def _nsq() -> tuple[Skippable, ...]:
    return tuple(Skippable("nsq", c.name, c.text, {"V2": c.spec}) for c in nsq.CHECKS if c.lax)


def _phpmq() -> tuple[Skippable, ...]:
    return tuple(Skippable("phpmq", c.name, c.text, {"01": c.spec}) for c in phpmq.CHECKS if c.lax)


#: Every check that LAX may skip. Who made it necessary, where known: the protocols' pages in docs/.
SKIPPABLE: Final[tuple[Skippable, ...]] = _mqtt() + _amqp091() + _amqp10() + _nsq() + _phpmq()
