"""NSQ for the tests that go over all protocols. lib/protocols.py says what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lib import nsq_vectors
from lib.planted_secret import CLIENT, MARKER, OCTETS, SERVER, nested
from wirefmt import nsq

OPENING = (b"  V2SUB t c\nRDY 1\n", nsq.Response(b"OK").encode(), ["MAGIC", "SUB"])

USES = (lambda thing: nsq.Identify({"x": thing}),)


def samples() -> Iterator[Callable[..., Any]]:
    for row in nsq_vectors.load()[:300]:
        for side in ("client", "server"):
            yield lambda row=row, side=side: nsq.decode(bytes.fromhex(row["hex"]), side=side, strictness="lax")


# ---- secrets


def plants() -> list[tuple[int, Any]]:
    members: dict[str, Any] = {
        "client_id": "c",
        "feature_negotiation": True,
        "auth": nested("password") | {"inner": {"token": 70417}},
    }
    members["auth"]["inner"]["password"] = MARKER
    members["secret"] = [MARKER, {"a": MARKER}]
    plain = {"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": False}
    return [
        (CLIENT, nsq.Identify(members=_plain(members))),
        (SERVER, nsq.Response(members=plain | {"session": {"access_token": MARKER}})),
        (CLIENT, nsq.Auth(secret=OCTETS)),
        (SERVER, nsq.Response(members={"identity": "i", "permission_count": 1, "password": MARKER})),
    ]


def _plain(value: Any) -> Any:
    """For JSON: bytes as text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def before(message: Any) -> bytes:
    return b"  V2" if isinstance(message, nsq.Identify) else b""
