"""The protocols, one row each. Everything that lists protocols reads these rows: captures, command line, generator, tests.

A row names the parts of a protocol; a part is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.framing import NeedData


class Protocol(NamedTuple):
    name: str  # in the column `protocol`; the package is wirefmt.NAME
    title: str
    ports: tuple[int, ...]  # TCP ports, for captures. TLS on them is recognised by its first bytes
    versions: tuple[str, ...]  # versions of the specification

    @property
    def codec(self) -> str:
        """The compiled module. Its PROTOCOL has the functions that captures call."""
        return f"wirefmt.{self.name}._codec"

    def spec(self) -> ModuleType:
        """Names and numbers of the specification. CHECKS are the rules that a decoder checks."""
        return import_module(f"wirefmt.{self.name}.spec")

    def columns(self) -> ModuleType:
        """FIELDS of its struct in the message table, BATCH of decode_batch, OPERATIONS by kind of message. KINDS, if
        OPERATIONS does not have all of them."""
        return import_module(f"wirefmt.{self.name}.columns")

    def codes(self) -> ModuleType:
        """Codes of the specification as enums."""
        return import_module(f"wirefmt.{self.name}.codes")

    def states(self) -> ModuleType:
        """What may be said when: the tables of states of its connections."""
        return import_module(f"wirefmt.{self.name}.states")


#: If protocols share a port and the bytes fit several, captures ask the earlier row first.
PROTOCOLS: Final[tuple[Protocol, ...]] = (
    Protocol("mqtt", "MQTT", (1883, 8883), ("3.1", "3.1.1", "5.0")),
    Protocol("amqp091", "AMQP 0.9.1", (5672, 5671), ("0-9-1",)),
    Protocol("amqp10", "AMQP 1.0", (5672, 5671), ("1.0",)),
    Protocol("rocketmq", "RocketMQ", (9876, 10911, 10909), ("5",)),
    Protocol("nsq", "NSQ", (4150,), ("V2",)),
    Protocol("phpmq", "PHPMQ", (), ("01",)),
)


def sniff(data: Buffer) -> str | Literal[NeedData.NEED_DATA] | None:
    """Name the protocol whose client begins a connection with `data`, as captures recognise it.

    One port can so serve several protocols: ask again with all bytes so far until the answer is not NEED_DATA, then give
    them to a connection of that protocol. 129 KiB are enough for an answer; pass no more, since what is not
    bytes is copied.

    Returns:
        "mqtt", "amqp091", "amqp10", "rocketmq", "nsq" or "phpmq"; NEED_DATA if more bytes are needed; None if no client
        of these begins so. TLS, WebSockets and PROXY headers have to be taken off before. Compare by `is`: NEED_DATA and
        None are both false.
    """
    engine = import_module("wirefmt.capture._engine")  # it knows the codecs, which are imported on first use
    found: str | Literal[NeedData.NEED_DATA] | None = engine.sniff(data)
    return found


class Skippable(NamedTuple):
    protocol: str
    check: str
    text: str
    specs: dict[str, str]  # version -> statement id or section


def skippable() -> tuple[Skippable, ...]:
    """Every check that LAX may skip. The protocols' pages in docs/ give the reasons, if known."""
    return tuple(
        Skippable(row.name, check.name, check.text, check.specs(row.versions))
        for row in PROTOCOLS
        for check in row.spec().CHECKS
        if check.lax
    )
