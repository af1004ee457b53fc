"""Conversions of single messages, and what they lose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .. import _core
from ..errors import ConversionError
from .dialects import DIALECTS, compiled
from .messages import Protocol, Wire, number_of, wire_of

What = Literal["taken", "dropped", "narrowed", "moved"]

_WHAT: tuple[What, ...] = ("taken", "dropped", "narrowed", "moved")


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


class Conversion:
    """A message in another protocol. `losses` tells what did not come over.

    `octets` are those of the result; of AMQP 0.9.1 property flags and properties, `body` apart. `message` is the result as an
    object of its protocol: amqp10.Message, mqtt.Publish, or a pair of amqp091.BasicProperties and body.
    """

    __slots__ = ("_converted", "_losses", "_message", "protocol")

    def __init__(self, protocol: Protocol, converted: _core.Converted) -> None:
        self.protocol = protocol
        self._converted = converted
        self._losses: tuple[Loss, ...] | None = None
        self._message: object = None

    @property
    def octets(self) -> bytes:
        return self._converted.octets

    @property
    def body(self) -> bytes | None:
        return self._converted.body

    @property
    def wire(self) -> Wire:
        return Wire(self.protocol, self._converted.octets, self._converted.body)

    @property
    def message(self) -> object:
        if self._message is None:
            self._message = self.wire.message()
        return self._message

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was dropped, narrowed or moved; where `explain` was asked for, every value and the row that took it."""
        if self._losses is None:
            self._losses = tuple(_loss(told) for told in self._converted.told)
        return self._losses

    def __repr__(self) -> str:
        return f"Conversion({self.protocol!r}, {len(self.octets)} octets, losses={len(self.losses)})"


def _loss(told: tuple[str, str, str, int, str, bytes | None, bytes]) -> Loss:
    rule, field, type_, what, reason, key, value = told
    name = None if key is None else key.decode("utf-8", "backslashreplace")
    return Loss(rule, field, name, type_, _WHAT[what], reason, value)


def convert(
    message: object,
    *,
    to: Protocol,
    source: Protocol | None = None,
    dialect: str = "documented",
    routing_key: str | bytes = "",
    mqtt_exchange: str | bytes = "amq.topic",
    packet_identifier: int = 1,
    lossless: bool = False,
    explain: bool = False,
) -> Conversion:
    """Convert one message, as RabbitMQ's tables have it: the bare conversion, without what a broker adds.

    Args:
        message: an amqp10.Message, mqtt.Publish or amqp091.BasicMessage; a pair (properties, body) of AMQP 0.9.1; octets, with
            `source`.
        to: "amqp10", "amqp091" or "mqtt5".
        dialect: "documented" is the published document, "rabbitmq-4.3" that server.
        routing_key: becomes the topic of a PUBLISH (dots are slashes there, * is +).
        mqtt_exchange: the exchange of MQTT topics in reply-to addresses.
        packet_identifier: of a PUBLISH of QoS 1.
        lossless: raise where anything would be lost.
        explain: let `losses` tell every value.

    Raises:
        ConversionError: the message is refused; `rule` says by which rule.
        ValueError: no such protocol or dialect.
    """
    wire = wire_of(message, source)
    target = number_of(to)
    rules = compiled(dialect)
    if wire.protocol == to and DIALECTS[dialect].same_is_identity:
        return Conversion(to, _core.unconverted(wire.octets, wire.body))
    converted = _core.convert_octets(
        rules,
        number_of(wire.protocol),
        wire.octets,
        wire.body,
        target,
        exchange=_octets(mqtt_exchange),
        topic=topic_of(routing_key),
        packet_identifier=packet_identifier,
        tell=explain,
    )
    result = Conversion(to, converted)
    if lossless:
        check_lossless(result)
    return result


def check_lossless(result: Conversion) -> None:
    """Raise ConversionError if anything was lost."""
    lost = tuple(loss for loss in result.losses if loss.what != "taken")
    if lost:
        raise ConversionError(f"{len(lost)} values would not come over as they are", rule=lost[0].rule, losses=lost)


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
