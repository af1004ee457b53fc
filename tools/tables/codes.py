"""codes.py of a protocol: the codes of its spec.py as public enums."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import NamedTuple


class Enum(NamedTuple):
    name: str
    base: str  # IntEnum or StrEnum
    text: str
    rows: Callable[[ModuleType], Iterable[tuple[str, int | str]]]  # the name of the specification, and the value


ENUMS: dict[str, tuple[Enum, ...]] = {
    "mqtt": (
        Enum(
            "ReasonCode",
            "IntEnum",
            "Reason Codes of 5.0 (2.4, table 2-6). 0x00 has three names: which one is right, the packet says.",
            lambda spec: ((row.name, row.code) for row in spec.REASON_CODES),
        ),
        Enum(
            "ReturnCode",
            "IntEnum",
            "Return codes of CONNACK before 5.0 (3.1 section 3.2; 3.1.1 section 3.2.2.3, table 3.1).",
            lambda spec: ((name, code) for code, name in spec.CONNACK_RETURN_CODES.items()),
        ),
    ),
    "amqp091": (
        Enum(
            "ReplyCode",
            "IntEnum",
            "Reply codes of connection.close, channel.close and basic.return (reference, 1.2 Constants).",
            lambda spec: ((row.name, row.code) for row in spec.REPLY_CODES),
        ),
    ),
    "amqp10": (
        Enum(
            "ErrorCondition",
            "StrEnum",
            "Error conditions (2.8.15 to 2.8.18, 4.5.9), each named without `amqp:`.",
            lambda spec: ((condition.removeprefix("amqp:"), condition) for condition in spec.ERROR_CONDITIONS),
        ),
        Enum(
            "SaslCode",
            "IntEnum",
            "Codes of sasl-outcome (5.3.3.6).",
            lambda spec: ((name, code) for code, name in spec.SASL_CODES.items()),
        ),
    ),
    "rocketmq": (
        Enum(
            "RequestCode",
            "IntEnum",
            "Codes of requests (docs/rocketmq.md, section 4).",
            lambda spec: ((row.name, row.code) for row in spec.REQUEST_CODES),
        ),
        Enum(
            "ResponseCode",
            "IntEnum",
            "Codes of responses (docs/rocketmq.md, section 5).",
            lambda spec: ((name, code) for code, name in spec.RESPONSE_CODES.items()),
        ),
    ),
    "nsq": (
        Enum(
            "ErrorCode",
            "StrEnum",
            "The first word of an error frame.",
            lambda spec: ((row.name, row.name) for row in spec.ERROR_CODES),
        ),
    ),
}


def member(name: str) -> str:
    """`Re-authenticate` -> RE_AUTHENTICATE"""
    return re.sub(r"\W+", "_", name).upper()


def codes(name: str, spec: ModuleType) -> list[str]:
    """The lines of NAME/codes.py."""
    enums = ENUMS[name]
    bases = ", ".join(sorted({each.base for each in enums}))
    title = re.sub("Names and numbers of (.*?)(, (one|as) literal.*)?\\.?$", r"\1", spec.__doc__.splitlines()[0])
    lines = [f'"""Codes of {title}."""', "", f"from enum import {bases}"]
    for each in enums:
        lines += ["", "", f"class {each.name}({each.base}):", f'    """{each.text}"""', ""]
        for label, value in each.rows(spec):
            shown = f'"{value}"' if isinstance(value, str) else f"0x{value:02X}" if name == "mqtt" else str(value)
            lines.append(f"    {member(label)} = {shown}")
    return lines
