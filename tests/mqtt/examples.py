"""MQTT for the tests that go over all protocols. lib/protocols.py says what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lib import mqtt_vectors
from lib.planted_secret import CLIENT, MARKER, NAMES, OCTETS, SERVER
from lib.wire import connect
from wirefmt import mqtt
from wirefmt.mqtt import spec

OPENING = (
    connect() + mqtt.Pingreq(version=4).encode(),
    mqtt.Connack(version=4).encode() + mqtt.Pingresp(version=4).encode(),
    ["CONNECT", "PINGREQ"],
)

USES = (
    lambda thing: mqtt.Subscribe(packet_identifier=1, subscriptions=[thing]),
    lambda thing: mqtt.Connect(will=thing),
    lambda thing: mqtt.Publish(topic_name=thing, payload=thing, properties=thing),
)


def samples() -> Iterator[Callable[..., Any]]:
    for v in mqtt_vectors.load("public")[:400]:
        yield lambda v=v: mqtt.decode(v.octets, version=v.version, strictness="lax")


# ---- secrets


def user_properties() -> tuple[tuple[str, Any], ...]:
    return tuple(("user_property", (name, MARKER)) for name in NAMES)


def plants() -> list[tuple[int, mqtt.Packet]]:
    """(side, packet) of 5.0, the session's CONNECT first."""
    will = mqtt.Will("w", b"bye", properties=user_properties())
    authentication = (("authentication_method", "SCRAM"), ("authentication_data", OCTETS))
    found: list[tuple[int, mqtt.Packet]] = [
        (
            CLIENT,
            mqtt.Connect(
                client_identifier="c", user_name="u", password=OCTETS, will=will,
                properties=authentication + user_properties(),
            ),
        ),
        (SERVER, mqtt.Connack(properties=authentication + user_properties())),
        (CLIENT, mqtt.Auth(reason_code=0x18, properties=authentication + user_properties())),
        (SERVER, mqtt.Auth(reason_code=0x18, properties=authentication)),
        (CLIENT, mqtt.Publish(topic_name="t", payload=b"21.5", properties=user_properties())),
        (SERVER, mqtt.Publish(topic_name="t", payload=b"21.5", qos=1, packet_identifier=9, properties=user_properties())),
    ]  # fmt: skip
    given: dict[str, dict[str, Any]] = {
        "Subscribe": {"subscriptions": [mqtt.Subscription("t")]},
        "Suback": {"reason_codes": [0]},
        "Unsubscribe": {"topic_filters": ["t"]},
        "Unsuback": {"reason_codes": [0]},
        "Disconnect": {},
    }
    (row,) = (row for row in spec.PROPERTIES if row.name == "user_property")
    for name in row.sections:
        cls = name.capitalize()
        if cls in ("Connect", "Connack", "Auth", "Publish", "Will"):
            continue
        fields = dict(given.get(cls, {}))
        if cls != "Disconnect":
            fields["packet_identifier"] = 7
        packet = getattr(mqtt, cls)(version=5, properties=user_properties(), **fields)
        found.append((SERVER if name in ("SUBACK", "UNSUBACK", "PUBACK", "PUBREC") else CLIENT, packet))
    return found
