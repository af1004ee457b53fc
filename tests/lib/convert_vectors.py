"""The vectors of conversions: what RabbitMQ's own code made of wire octets. Read as their README says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, cast

from lib import paths
from wirefmt import mqtt
from wirefmt.convert import Container, Conversion, Wire, convert
from wirefmt.errors import ConversionError

VECTORS = paths.VECTORS / "conversions"

Case = dict[str, Any]


def cases(path: str = "") -> list[Case]:
    with (VECTORS / "public.jsonl").open() as lines:
        every = [json.loads(line) for line in lines]
    return [case for case in every if not path or case["path"] == path]


def octets(protocol: str, value: Any) -> Any:
    """Octets, or the Wire of AMQP 0.9.1."""
    if protocol == "amqp091":
        return Wire("amqp091", bytes.fromhex(value["properties_hex"]), bytes.fromhex(value["body_hex"]))
    return bytes.fromhex(value)


def run(case: Case, dialect: str) -> Conversion:
    """A case by its path; what it makes on the way to a stream is compared as well."""
    context = case["context"]
    exchange = context.get("mqtt_exchange") or "amq.topic"
    key = context.get("routing_key", "")
    source = octets(case["from"], case["input_hex"])
    if case["path"] == "convert":
        return convert(
            source, source=case["from"], to=case["to"], dialect=dialect, routing_key=key, mqtt_exchange=exchange
        )
    container = Container(
        source, source=case["from"], exchange=context.get("exchange", ""), routing_key=key, dialect=dialect,
        mqtt_exchange=exchange, now_ms=1700000000000,
    )  # fmt: skip
    if case["path"] == "deliver":
        container, delivery = brokered(container, context.get("broker_annotations") or [])
        return container.deliver(case["to"], waited_ms=1000, **delivery)
    entry = container.stream_entry()
    if case.get("stream_entry_hex"):
        assert entry.hex() == case["stream_entry_hex"]
    container = Container.from_stream_entry(
        entry, stream="stream-1", offset=42, dialect=dialect, mqtt_exchange=exchange
    )
    return container.deliver(case["to"])


def brokered(container: Container, said: list[str]) -> tuple[Container, dict[str, Any]]:
    """What queues and interceptors did, in the vectors' words."""
    delivery: dict[str, Any] = {}
    keys = {
        "acquired": "x-acquired-count", "xdelivery": "x-delivery-count", "clientid": "x-opt-mqtt-client-id",
        "routedby": "x-routed-by", "senttime": "x-opt-rabbitmq-sent-time",
    }  # fmt: skip
    died = False
    for text in said:
        name, *rest = text.split(":")
        if name == "death":
            reason, queue, exchange, key = rest
            container = container.dead_lettered(
                queue, reason, exchange=exchange, routing_key=key, now_ms=1700000001000, clear_ttl="clearttl" in said
            )
            died = True
        elif name == "delivery_count":
            delivery["delivery_count"] = int(rest[0])
        elif name == "redelivered":
            delivery["redelivered"] = True
        elif name == "tims":
            container = container.annotated(received_ms=int(rest[0]))
        elif name != "clearttl":
            value: Any = int(rest[0]) if rest[0].isdigit() else rest[0]
            container = container.annotated(**{keys[name]: value})
    if died:
        known = container.annotations
        deaths = tuple(dataclasses.replace(death, last_time_ms=1700000002500) for death in known.deaths)
        restore, state = cast(tuple[Any, Any], container.__reduce__())
        container = restore(*state[:-1], dataclasses.replace(known, deaths=deaths))
    return container, delivery


def packet(data: bytes) -> tuple[object, ...]:
    """A PUBLISH to compare: the order of different properties means nothing. Octets, since strings may be malformed UTF-8."""
    size = 2
    while data[size - 1] & 0x80:
        size += 1
    at = size
    topic, at = _sized(data, at)
    identifier, at = (data[at : at + 2], at + 2) if data[0] & 6 else (b"", at)
    length, shift = 0, 0
    while True:
        length |= (data[at] & 0x7F) << shift
        at += 1
        shift += 7
        if data[at - 1] < 0x80:
            break
    end = at + length
    single: list[tuple[int, bytes]] = []
    pairs: list[tuple[bytes, bytes]] = []
    while at < end:
        number, at = data[at], at + 1
        if number == 38:
            key, at = _sized(data, at)
            value, at = _sized(data, at)
            pairs.append((key, value))
        elif number in (3, 8, 9):
            value, at = _sized(data, at)
            single.append((number, value))
        else:
            width = {1: 1, 2: 4}[number]
            single.append((number, data[at : at + width]))
            at += width
    assert at == end
    return data[0], topic, identifier, sorted(single), pairs, data[at:]


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    return data[at + 2 : end], end


def equal(case: Case, got: Conversion) -> bool:
    want = octets(case["to"], case["output_hex"])
    if case["to"] == "mqtt5":
        return packet(got.octets) == packet(want)
    return (got.wire if case["to"] == "amqp091" else got.octets) == want


def is_valid(got: Conversion) -> bool:
    """The result decodes."""
    if got.protocol == "mqtt5":
        return isinstance(mqtt.decode(got.octets, version=5), mqtt.Publish)
    return got.message is not None


def failures(path: str, dialect: str) -> Iterator[str]:
    for case in cases(path):
        error = case.get("error")
        try:
            got = run(case, dialect)
        except ConversionError as refusal:
            if error is None or (error["kind"] == "crash" and not refusal.rule):
                yield f"{case['id']} {case['rule']}: {refusal}"
            continue
        if error is not None:
            if error["kind"] == "refused":
                yield f"{case['id']} {case['rule']}: not refused"
        elif not equal(case, got):
            yield f"{case['id']} {case['rule']}: {got.octets.hex()}"
