"""Cases of MQTT written by hand: octets put together part by part, and what a decoder is to make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lib.wire import varint
from wirefmt import mqtt
from wirefmt.errors import DecodeError

# ---- octets


def x(digits: str) -> bytes:
    """Octets in hexadecimal; spaces as one likes."""
    return bytes.fromhex(digits)


def properties(*parts: bytes) -> bytes:
    """A Property Length and properties (5.0)."""
    body = b"".join(parts)
    return varint(len(body)) + body


NONE = properties()
#: Octets that are not UTF-8 as MQTT defines it ([MQTT-1.5.3-1], [MQTT-1.5.4-1]).
BAD_STRINGS = {
    "surrogate D800": x("61 eda080"),
    "surrogate DFFF": x("edbfbf"),
    "overlong": x("c080"),
    "beyond U+10FFFF": x("f4908080"),
    "lone continuation": x("80"),
    "truncated": x("61 e282"),
    "not an octet of UTF-8": x("ff"),
}


# ---- cases


@dataclass(frozen=True)
class Refused:
    """Octets that STRICT refuses."""

    id: str  # statement or section
    what: str
    octets: bytes
    spec: str = ""  # what the error names, where that is another statement with the same meaning
    path: str = ""  # the field at fault
    side: str | None = None
    reply: int | None = None


@dataclass(frozen=True)
class Read:
    """Octets that are read, and that a packet built from the same values has too."""

    id: str
    what: str
    octets: bytes
    fields: dict[str, Any] = field(default_factory=dict)  # path -> value; `subscriptions.0.qos`
    side: str | None = None
    built: bytes | None = None  # the octets of that packet, where they are not those that were read


Case = Refused | Read


def parameters(cases: Iterable[Case]) -> list[Any]:
    return [pytest.param(case, id=f"{case.id} {case.what}") for case in cases]


def at_path(message: Any, path: str) -> Any:
    for part in path.split("."):
        message = message[int(part)] if part.isdigit() else getattr(message, part)
    return message


#: by packet type; 3.1 section 2.1, 5.0 section 2.1.2
CLASSES = (
    None,
    mqtt.Connect,
    mqtt.Connack,
    mqtt.Publish,
    mqtt.Puback,
    mqtt.Pubrec,
    mqtt.Pubrel,
    mqtt.Pubcomp,
    mqtt.Subscribe,
    mqtt.Suback,
    mqtt.Unsubscribe,
    mqtt.Unsuback,
    mqtt.Pingreq,
    mqtt.Pingresp,
    mqtt.Disconnect,
    mqtt.Auth,
)


def rebuilt(message: Any) -> Any:
    """A packet built from the values of another: its octets come from the encoder."""
    return type(message)(**{name: getattr(message, name) for name in type(message).__match_args__})


def run(case: Case, version: int) -> None:
    options: dict[str, Any] = {"version": version}
    if case.side:
        options["side"] = case.side
    if isinstance(case, Refused):
        refuse(case, options)
    else:
        read(case, options)


def refuse(case: Refused, options: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as whole:
        mqtt.decode(case.octets, **options)
    error = whole.value
    assert type(error) is not DecodeError
    assert (case.spec or case.id) in error.spec.split("/"), error
    assert case.path in error.path, error
    assert 0 <= error.offset <= len(case.octets)
    if case.reply is not None:
        assert error.reply == case.reply
    decoder = mqtt.Decoder(**options)
    with pytest.raises(DecodeError) as by_octet:
        feed_by_octet(decoder, case.octets)
    assert by_octet.value.spec == error.spec


def feed_by_octet(decoder: Any, octets: bytes) -> list[Any]:
    """Messages of a Decoder that gets one octet at a time; none before the last octet."""
    found: list[Any] = []
    for k in range(len(octets)):
        assert found == []
        found = decoder.feed(octets[k : k + 1])
    decoder.close()
    return found


def read(case: Read, options: dict[str, Any]) -> None:
    message = mqtt.decode(case.octets, **options)
    assert type(message) is CLASSES[case.octets[0] >> 4]
    for path, expected in case.fields.items():
        found = at_path(message, path)
        assert found == expected, f"{path} is {found!r}"
        assert type(found) is type(expected) or isinstance(found, (memoryview, int, mqtt.Properties)), (
            f"{path} is {found!r}"
        )
    assert message.encode() == case.octets
    assert rebuilt(message).encode() == (case.octets if case.built is None else case.built)
    assert feed_by_octet(mqtt.Decoder(**options), case.octets) == [message]
    assert mqtt.decode(case.octets, **options, strictness="lax") == message
