"""Input and output of conversions: messages of the protocols, or their bytes.

The engine imports this module, so functions that need the engine import it when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .. import amqp091, amqp10, mqtt

Protocol = Literal["amqp10", "amqp091", "mqtt5"]

PROTOCOLS: Final[tuple[Protocol, ...]] = ("amqp10", "amqp091", "mqtt5")


@dataclass(frozen=True, slots=True)
class Wire:
    """An encoded message: its protocol, its bytes and, for AMQP 0.9.1, its body.

    `from_frames` and `frames` read and write an AMQP 0.9.1 message as it is on the wire: content header and body as frames.
    """

    protocol: Protocol
    octets: bytes
    body: bytes | None = None

    def __repr__(self) -> str:
        return f"Wire({self.protocol!r}, {len(self.octets) + len(self.body or b'')} bytes)"

    @staticmethod
    def from_frames(octets: bytes) -> Wire:
        """Read an AMQP 0.9.1 content header frame and body frames, with or without their method frame. Raises DecodeError."""
        from ._engine import split_content

        return Wire("amqp091", *split_content(octets))

    def frames(self, channel: int = 1) -> bytes:
        """Content header and body of AMQP 0.9.1 as frames; the bytes of other protocols unchanged."""
        if self.protocol != "amqp091":
            return self.octets
        from ._engine import join_content

        return join_content(self.octets, self.body or b"", channel=channel)

    def message(self) -> object:
        """The message as an object of its protocol; of AMQP 0.9.1 with a basic.publish on channel 1, whose names are empty."""
        if self.protocol == "amqp10":
            return amqp10.Message.decode(self.octets, strictness="lax")
        if self.protocol == "mqtt5":
            return mqtt.decode(self.octets, version=5, strictness="lax")
        method = amqp091.BasicPublish(channel=1, exchange="", routing_key="")
        return amqp091.BasicMessage(method, amqp091.BasicProperties.decode(self.octets), self.body or b"")


def wire_of(message: object, protocol: str | None = None) -> Wire:
    """Encode a message.

    It may be an amqp10.Message, an mqtt.Publish (3.1 and 3.1.1 become 5.0), an amqp091.BasicMessage, a Wire, or bytes with the
    name of their protocol.
    """
    if isinstance(message, Wire):
        return message
    if isinstance(message, mqtt.Publish):
        return Wire("mqtt5", _publish_of_5(message).encode())
    if isinstance(message, amqp10.Message):
        return Wire("amqp10", message.encode())
    if isinstance(message, amqp091.BasicMessage):
        return Wire("amqp091", message.properties.encode(), message.body_bytes())
    if protocol is None:
        raise TypeError(f"{type(message).__name__} needs the name of its protocol")
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
    octets = bytes(message)  # type: ignore[call-overload]
    return Wire(protocol, octets, b"" if protocol == "amqp091" else None)


def _publish_of_5(packet: mqtt.Publish) -> mqtt.Publish:
    if packet.version == 5:
        return packet
    from ..mqtt.session import changed  # a part of the connections, which most conversions do not load

    return changed(packet, version=5)
