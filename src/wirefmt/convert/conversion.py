"""What conversions lose. The engine makes these values; this module does not use the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

What = Literal["taken", "dropped", "narrowed", "moved"]
Topics = Literal["translated", "sparkplug", "unchanged"]


@dataclass(frozen=True, slots=True)
class Loss:
    """The outcome of the conversion of one value of the source.

    Attributes:
        rule: id of the row, for example "amqp10>amqp091 user_id"; empty: no row matched, or the outcome does not depend on a row.
        field: "properties.user_id", "message annotations" ...; empty: a value inside a header, annotation or property.
            "Other Property": an MQTT property that a PUBLISH must not have; the key is its name.
        key: the key of a header, annotation or property, or of a value inside one; None: no key.
        type: the type of the value, as its protocol names it.
        what: dropped, narrowed (a part of it is lost), moved (to another field); with explain=True also taken (converted).
        reason: why, as text.
        value: its bytes in the source, without length and type. For QoS, DUP and RETAIN, the first byte of the packet.
    """

    rule: str
    field: str
    key: str | None
    type: str
    what: What
    reason: str
    value: bytes

    def __str__(self) -> str:
        key = "" if self.key is None else f"[{self.key}]"
        rule = f" ({self.rule})" if self.rule else ""
        return f"{self.field or 'value'}{key} {self.what}: {self.reason}{rule}"
