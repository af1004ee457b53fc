"""The secret that `secret_plants` plants, and the places in which any protocol can have it. Nothing else contains it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from wirefmt.spec.secrets import fields

MARKER = "q7Zk4"
OCTETS = MARKER.encode()
CLIENT, SERVER = 0, 1

#: Names as real programs write them.
NAMES = ("password", "X-Auth-Token", "secretKey", "api_key", "Authorization", "SIGNATURE")


def forms() -> Iterator[str]:
    """The marker as text shows it: itself, hexadecimal, base64 at each of three alignments."""
    yield MARKER
    yield OCTETS.hex()
    yield OCTETS.hex(" ")
    yield OCTETS.hex().upper()
    for before in range(3):
        # the letters of base64 that all of the marker's octets decide
        text = base64.b64encode(b"\0" * before + OCTETS).decode().rstrip("=")
        yield text[-(-before * 8 // 6) : (before + len(OCTETS)) * 8 // 6]


def shows(text: str) -> bool:
    return any(form in text for form in forms())


def nested(name: str) -> dict[str, Any]:
    """A map with the secret in it, in a map within it, in a list of maps, and in a map that is secret as a whole."""
    return {
        name: MARKER,
        "inner": {name: OCTETS, "deeper": [{name: MARKER}]},
        "credentials": {"user": MARKER, "parts": [MARKER]},
        "site": "north",
    }


def secret_fields(protocol: str) -> set[tuple[str, str]]:
    """(message, field)"""
    return {(row.message, row.field) for row in fields() if row.protocol == protocol}
