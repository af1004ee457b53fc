"""AMQP 0.9.1 for the tests that go over all protocols. lib/protocols.py says what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lib import amqp091_vectors
from lib.planted_secret import CLIENT, MARKER, NAMES, OCTETS, SERVER, nested, secret_fields
from wirefmt import amqp091
from wirefmt.amqp091 import spec

OPENING = (
    amqp091.ProtocolHeader().encode() + amqp091.ConnectionOpen(virtual_host="/").encode(),
    amqp091.ConnectionOpenOk().encode(),
    ["protocol-header", "connection.open", "connection.open-ok"],
)

USES = (
    lambda thing: amqp091.FieldTable({"x": thing}),
    lambda thing: amqp091.FieldArray([thing]),
    lambda thing: amqp091.BasicMessage(thing, thing, thing),
    lambda thing: amqp091.ContentHeader(channel=1, properties=thing),
)


def samples() -> Iterator[Callable[..., Any]]:
    for v in amqp091_vectors.load()[:400]:
        yield lambda v=v: amqp091.decode(v.octets, strictness="lax")
    content = amqp091.BasicMessage(
        amqp091.BasicPublish(channel=1), amqp091.BasicProperties(headers={"a": [1]}), b"body"
    )
    yield lambda: content
    yield lambda: amqp091.BasicMessage(content.method, content.properties, b"x" * 100, frame_max=50)
    yield lambda: amqp091.FieldValue("l", 5)


# ---- secrets


def plants() -> list[tuple[int, Any]]:
    secret = secret_fields("amqp091")
    found: list[tuple[int, Any]] = []
    for cls in spec.CLASSES:
        for method in cls.methods:
            kind = f"{cls.name}.{method.name}"
            fields: dict[str, Any] = {}
            for argument in method.arguments:
                if (kind, argument.name.replace("-", "_")) in secret:
                    fields[argument.name] = OCTETS
                elif argument.type == "table":
                    fields[argument.name] = nested(NAMES[len(found) % len(NAMES)])
                elif argument.default is None:
                    fields[argument.name] = 1 if "str" not in argument.type else "x"
            if not any(MARKER in str(v) or v == OCTETS for v in fields.values()):
                continue
            name = "".join(word.capitalize() for word in kind.replace(".", "-").split("-"))
            channel = {} if cls.name == "connection" else {"channel": 1}
            fields = {key if hasattr(getattr(amqp091, name), key) else key + "_": v for key, v in fields.items()}
            found.append(
                (SERVER if method.senders == "server" else CLIENT, getattr(amqp091, name)(**fields, **channel))
            )
    headers = dict.fromkeys(NAMES, MARKER) | nested("password")
    message = amqp091.BasicMessage(
        amqp091.BasicPublish(channel=1, exchange="e", routing_key="k"),
        amqp091.BasicProperties(headers=headers),
        b"21.5",
    )
    return [*found, (CLIENT, message)]


def before(message: Any) -> bytes:
    return amqp091.ProtocolHeader().encode() if isinstance(message, amqp091.ConnectionStart) else b""
