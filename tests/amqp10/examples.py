"""AMQP 1.0 for the tests that go over all protocols. lib/protocols.py says what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lib import amqp10_vectors
from lib.planted_secret import CLIENT, MARKER, OCTETS, SERVER, nested, secret_fields
from wirefmt import amqp10
from wirefmt.amqp10 import spec

OPENING = (
    amqp10.ProtocolHeader().encode() + amqp10.Open(container_id="c").encode(),
    amqp10.ProtocolHeader().encode() + amqp10.Open(container_id="s").encode(),
    ["protocol-header", "open"],
)

USES = (
    amqp10.encode_value,
    lambda thing: amqp10.encode_value([thing, {"x": thing}]),
    lambda thing: amqp10.Message(body=thing, application_properties={"x": thing}, header=thing),
    lambda thing: amqp10.Open(container_id="x", properties={"x": thing}, offered_capabilities=thing),
    lambda thing: amqp10.Array("uint", [thing]),
    lambda thing: amqp10.Assembler().feed(thing),
)


def samples() -> Iterator[Callable[..., Any]]:
    for v in amqp10_vectors.load()[:600]:
        for octets in amqp10_vectors.octets_of(v.value) if hasattr(v, "value") else [v.octets]:
            yield lambda octets=octets: amqp10.decode_value(octets, strictness="lax")
            yield lambda octets=octets: amqp10.decode(octets, strictness="lax")
            yield lambda octets=octets: amqp10.decode_message(octets, strictness="lax")
    transfer = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", payload=amqp10.Message(body=b"x"))
    yield lambda: amqp10.Assembler().feed(transfer.encode())[0]


# ---- secrets


def plants() -> list[tuple[int, Any]]:
    secret = secret_fields("amqp10")
    found: list[tuple[int, Any]] = []
    given: dict[str, dict[str, Any]] = {
        "open": {"container_id": "c"}, "begin": {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9},
        "attach": {"name": "l", "handle": 0, "role": False, "initial_delivery_count": 0},
        "flow": {"incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9},
        "disposition": {"role": False, "first": 0}, "detach": {"handle": 0}, "sasl-init": {"mechanism": "PLAIN"},
        "sasl-outcome": {"code": 0},
    }  # fmt: skip
    planted = amqp10.Map({amqp10.Symbol(key): value for key, value in nested("password").items()})
    error = amqp10.Error(condition=amqp10.Symbol("amqp:internal-error"), info=planted)
    source = amqp10.Source(
        address="a",
        filter={amqp10.Symbol("f"): amqp10.Described(amqp10.Symbol("f"), {"token": MARKER})},
        dynamic_node_properties=planted,
    )
    states = (
        amqp10.Rejected(error=error),
        amqp10.Modified(message_annotations=planted),
        amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Rejected(error=error)),
    )
    order = ("sasl-init", "sasl-challenge", "sasl-response", "sasl-outcome", "open", "begin", "attach", "flow",
             "disposition", "detach", "end", "close")  # fmt: skip
    for name in order:
        (row,) = (row for row in spec.COMPOSITES if row.name == name)
        fields = dict(given.get(name, {}))
        for field in row.fields:
            attribute = field.name.replace("-", "_")
            if (name, attribute) in secret:
                fields[attribute] = OCTETS
            elif attribute == "properties":
                fields[attribute] = planted
            elif attribute == "error":
                fields[attribute] = error
            elif attribute == "source":
                fields[attribute] = source
            elif attribute == "target":
                fields[attribute] = amqp10.Target(address="a", dynamic_node_properties=planted)
        cls = getattr(amqp10, "".join(word.capitalize() for word in name.split("-")))
        for state in states if name == "disposition" else (None,):
            more = {} if state is None else {"state": state}
            found.append((SERVER if name in ("sasl-challenge", "sasl-outcome") else CLIENT, cls(**fields, **more)))
        if name == "attach":
            for section in ("application_properties", "message_annotations", "delivery_annotations", "footer"):
                value = {"password": MARKER, "apiKey": MARKER} if section == "application_properties" else planted
                message = amqp10.Message(**{section: value}, body=b"21.5")  # type: ignore[arg-type]
                found.append((CLIENT, amqp10.Transfer(
                    handle=0, delivery_id=len(found), delivery_tag=b"%d" % len(found), message_format=0, settled=True,
                    payload=message.encode())))  # fmt: skip
    return found


def before(message: Any) -> bytes:
    if isinstance(message, amqp10.SaslInit):
        return amqp10.ProtocolHeader(protocol_id=3).encode()
    return amqp10.ProtocolHeader().encode() if isinstance(message, amqp10.Open) else b""
