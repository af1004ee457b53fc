"""Vectors of tests/vectors/phpmq: octets of the PHP library, in its present and its early form, and of the PHP server."""

from __future__ import annotations

from typing import Any

from lib import json_vectors


def load() -> tuple[dict[str, Any], ...]:
    return json_vectors.load("phpmq")


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [row for row in load() if row["kind"] in kinds]


def packets_of(row: dict[str, Any]) -> tuple[tuple[int, bytes], ...]:
    return tuple((p["type"], bytes.fromhex(p["content_hex"])) for p in row["decoded"]["packets"])


#: The README's six messages, with the line breaks it prints.
README = {
    "MessageClientToServer": "H0100103\nP0100000000000000000000000000003\nFoo\nP0200000000000000000000000000011\n"
    "Hello World\nP0500000000000000000000000000004\n3600\n",
    "ConsumeRequest": "H0100202\nP0100000000000000000000000000003\nFoo\nP0400000000000000000000000000001\n5\n",
    "MessageServerToClient": "H0100304\nP0100000000000000000000000000003\nFoo\nP0200000000000000000000000000011\n"
    "Hello World\nP0300000000000000000000000000032\nd7e7f68761d34838494b233148b5486c\n"
    "P0500000000000000000000000000004\n3300\n",
    "Acknowledgement": "H0100402\nP0100000000000000000000000000003\nFoo\nP0300000000000000000000000000032\n"
    "d7e7f68761d34838494b233148b5486c\n",
    "ReQueue": "H0100503\nP0100000000000000000000000000003\nFoo\nP0300000000000000000000000000032\n"
    "d7e7f68761d34838494b233148b5486c\nP0500000000000000000000000000004\n3600\n",
    "DeadLetter": "H0100602\nP0100000000000000000000000000003\nFoo\nP0300000000000000000000000000032\n"
    "d7e7f68761d34838494b233148b5486c\n",
}
