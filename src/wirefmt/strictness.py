"""STRICT and LAX: which violations a decoder accepts.

STRICT enforces every rule of the specification that bytes can break; it is the default on connections. LAX reads
what can be framed and adds a note for each violation it accepts; it is the default on captures. Memory safety, lengths,
UTF-8 and limits are the same in both: there is no unchecked level. `wirefmt.protocols.skippable()` lists the rules.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class Strictness(enum.StrEnum):
    STRICT = "strict"
    LAX = "lax"


STRICT: Final = Strictness.STRICT
LAX: Final = Strictness.LAX


class Note(NamedTuple):
    """A violation that LAX accepted in one message."""

    check: str  # name of the row in the specification's CHECKS
    path: str  # the field, for example `subscriptions[1].options`
    offset: int  # bytes from the start of the message
    reason: str  # what is wrong, as text
    spec: str  # statement id or section
