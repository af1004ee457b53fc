"""Conversions of single messages, and what they lose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .. import _core
from .dialects import compiled
from .messages import Wire, wire_of

Conversion = _core.Conversion
convert = _core.convert_message
check_lossless = _core.check_lossless

What = Literal["taken", "dropped", "narrowed", "moved"]


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of one value of the source.

    Attributes:
        rule: id of the row, as "amqp10>amqp091 user_id"; empty: no row matched.
        field: "properties.user_id", "message annotations" ...; empty: a value within a header, annotation or property.
        key: of a header, annotation or property; None: it is none.
        type: the value's, in its protocol's words.
        what: dropped, narrowed (a part of it is lost), moved (it is somewhere else); taken, where every row was asked for.
        reason: in words.
        value: its octets in the source, without length and type.
    """

    rule: str
    field: str
    key: str | None
    type: str
    what: What
    reason: str
    value: bytes


_TO_TOPIC = bytes.maketrans(b".*", b"/+")
_TO_KEY = bytes.maketrans(b"/+", b".*")


def topic_of(routing_key: str | bytes) -> bytes:
    """Routing key to MQTT topic."""
    return _octets(routing_key).translate(_TO_TOPIC)


def routing_key_of(topic: str | bytes) -> bytes:
    """MQTT topic to routing key."""
    return _octets(topic).translate(_TO_KEY)


def _octets(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


_core.set_convert_face(wire=Wire, loss=Loss, wire_of=wire_of, rules_of=compiled, topic_of=topic_of)
