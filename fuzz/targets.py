"""One fuzz target for each decoder. A target takes any octets; any exception is a bug of ours.

The first octet of an input chooses options, the rest is the decoder's input. Besides "a message or a DecodeError, never
anything else" a target checks properties of all inputs: LAX accepts what STRICT accepts, a Decoder's result does not
depend on how a stream is split, and a batch has the rows of the messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from common import Case, check_columns, check_counted, check_rebuilt, feed, pyarrow, read, same, sometimes

from wirefmt import mqtt
from wirefmt.errors import DecodeError, EncodeError
from wirefmt.protocols import PROTOCOLS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
VECTORS = ROOT / "tests" / "vectors"


class Target(NamedTuple):
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]


def vectors(name: str) -> Iterator[dict[str, Any]]:
    """Rows of a file of MQTT's vectors."""
    with open(VECTORS / "mqtt" / name, encoding="utf-8") as lines:
        yield from map(json.loads, lines)


# ------------------------------------------------------------------------------------------------ one MQTT packet


def mqtt_options(octet: int) -> dict[str, Any]:
    return {"version": 3 + octet % 3, "side": ("client", "server", None)[octet // 3 % 3]}


def mqtt_seeds() -> Iterator[bytes]:
    for name in ("public.jsonl", "ambiguous.jsonl"):
        for row in vectors(name):
            if row.get("hex"):
                side = {"c2s": 0, "s2c": 1}.get(row["direction"], 2)
                yield bytes([row["version"] - 3 + 3 * side]) + bytes.fromhex(row["hex"])


def mqtt_packet(data: bytes) -> None:
    if not data:
        return
    options, octets = mqtt_options(data[0]), data[1:]
    strict = read(mqtt, octets, **options)
    lax = read(mqtt, octets, **options, strictness="lax")
    if not isinstance(strict, DecodeError):
        same(strict, lax, "STRICT and LAX")
    if isinstance(lax, DecodeError):
        return
    repr(lax), hash(lax)
    for field in type(lax).__match_args__:
        getattr(lax, field)
    if not isinstance(strict, DecodeError):
        made = check_rebuilt(strict, lambda again: mqtt.decode(again, **options))
        if options["version"] == 5:  # earlier versions have several encodings of a length, and unused bits
            same(made.encode(), octets, "octets rebuilt from fields")
        columns(octets, strict, options)
    try:
        size = mqtt.frame_size(octets)
    except DecodeError as error:
        raise AssertionError("frame_size refuses what decode reads") from error
    same(size, len(octets), "frame_size")


def columns(octets: bytes, message: Any, options: dict[str, Any]) -> None:
    """For a packet on a connection of its version. A packet alone does not define its Topic Alias."""
    properties = dict(getattr(message, "properties", ()))
    if message.version != options["version"] or (properties.get("topic_alias") and not message.topic_name):
        return
    for direction, side in enumerate(("client", "server")):
        if options["side"] in (side, None) and not (
            isinstance(read(mqtt, octets, version=message.version, side=side), DecodeError)
        ):
            batch = {"version": message.version, "side": side, "expose_credentials": True}
            check_columns("mqtt", mqtt, Case(octets, direction, message.version), message, batch)


# ------------------------------------------------------------------------------------------------ a stream of them


def mqtt_stream(data: bytes) -> None:
    if len(data) < 2:
        return
    options, step, octets = mqtt_options(data[0]), data[1] % 32 + 1, data[2:]
    if data[0] & 0x40:
        options["version"] = None  # learned from CONNECT
    if data[0] & 0x80:
        options["strictness"] = "lax"
    cuts = list(range(step, len(octets), step))
    whole, parts = (feed(mqtt.Decoder, octets, pieces, **options) for pieces in ([], cuts))
    same(parts[0][: len(whole[0])], whole[0], "messages of a stream in parts")
    same(parts[1], whole[1], "error of a stream in parts")
    check_counted(mqtt.Decoder, octets, whole[0], **options)


def mqtt_stream_seeds() -> Iterator[bytes]:
    packets: dict[int, bytes] = {}
    for seed in mqtt_seeds():
        key = seed[0]
        packets[key] = packets.get(key, b"") + seed[1:]
        if len(packets[key]) > 400:
            yield bytes([key, len(packets[key]) % 32]) + packets.pop(key)
    large = mqtt.Publish(topic_name="a", payload=bytes(70000), version=4).encode()
    yield b"\x01\x1f" + large + mqtt.Pingreq(version=4).encode() * 3


# ------------------------------------------------------------------------------------------------ batches


def check_batch(batch: Any) -> None:
    """Arrow accepts offsets, lengths and UTF-8."""
    if pyarrow is not None:
        pyarrow.record_batch(batch).validate(full=True)


def mqtt_batch(data: bytes) -> None:
    """Rows are the packets one by one: frame_size finds the end and decode reads it, or there is an error row."""
    if not data:
        return
    options, octets = mqtt_options(data[0]), data[1:]
    options["strictness"] = "lax" if data[0] & 0x80 else "strict"
    batch = mqtt.decode_batch(octets, **options)
    if sometimes(octets):
        check_batch(batch)
    at = row = 0
    while at < len(octets):
        try:
            size = mqtt.frame_size(octets[at:])
        except DecodeError:
            size = len(octets) - at
        if not isinstance(size, int) or size > len(octets) - at:
            break
        message = read(mqtt, octets[at : at + size], **options)
        same(batch["byte_offset"][row], at, "byte_offset")
        same(batch["wire_size"][row], size, "wire_size")
        same(bool(batch.validity("error")[row]), isinstance(message, DecodeError), "error")
        if isinstance(message, mqtt.Publish):
            same(batch["destination"][row], message.topic_name, "topic")
            same(batch["payload"][row], message.payload_bytes(), "payload")
        if isinstance(message, mqtt.Connect):
            options["version"] = message.version
        at += size
        row += 1
    same((batch.num_rows, batch.rest), (row, len(octets) - at), "rows, octets left")


# ------------------------------------------------------------------------------------------------ topics


def naive_match(filter: str, topic: str, version: int) -> bool:
    if version == 5 and filter.startswith("$share/"):
        filter = filter.split("/", 2)[2]
    if version > 3 and topic.startswith("$") and filter[0] in "+#":
        return False
    levels, names = filter.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels.pop()
        names = names[: len(levels)]
    return len(levels) == len(names) and all(a in ("+", b) for a, b in zip(levels, names, strict=True))


def topics(data: bytes) -> None:
    """Lines: the first is a topic, the others are filters; all are added to one index, and every second one is removed."""
    if not data:
        return
    version = 3 + data[0] % 3
    topic, *filters = data[1:].split(b"\n")
    index: mqtt.TopicIndex[bytes] = mqtt.TopicIndex(version)
    good = []
    for line in filters:
        try:
            mqtt.validate_topic_filter(line, version)
        except EncodeError:
            continue
        index.add(line, line)
        good.append(line)
    try:
        mqtt.validate_topic_name(topic, version)
    except EncodeError:
        index.match(topic)
        return
    expected = {f for f in good if naive_match(f.decode(), topic.decode(), version)}
    same({f for f in good if mqtt.matches(f, topic, version)}, expected, "matches")
    same(set(index.match(topic)), expected, "index")
    for line in good[::2]:
        index.discard(line, line)
    same(set(index.match(topic)), expected - set(good[::2]), "index after discarding")
    for line in good[1::2]:
        index.discard(line, line)
    same((len(index), index.match(topic)), (0, []), "emptied index")


def topic_seeds() -> Iterator[bytes]:
    rows = [r for r in vectors("topics.jsonl") if r["kind"] == "match" and isinstance(r["topic"], str)]
    for k, row in enumerate(rows):
        filters = [r["filter"] for r in rows[k : k + 20] if isinstance(r["filter"], str)]
        yield bytes([row["version"] - 3]) + "\n".join([row["topic"], *filters]).encode()


# ------------------------------------------------------------------------------------------------ all of them

#: What each protocol of the registry has: targets_NAME.py, targets_NAME_connections.py. The codec of MQTT is on this page.
OF_PROTOCOLS = [
    name
    for row in PROTOCOLS
    for name in (f"targets_{row.name}", f"targets_{row.name}_connections")
    if (HERE / f"{name}.py").exists()
]
#: `connections`: of MQTT and RocketMQ.
OF_SEVERAL = [
    f"targets_{name}"
    for name in (
        "captures",
        "insight",
        "tls",
        "connections",
        "convert",
        "encode_batch",
        "arrow",
        "columns",
        "objects",
        "rarely_reached",
    )
]
MODULES = [import_module(name) for name in (*OF_PROTOCOLS, *OF_SEVERAL)]

TARGETS: dict[str, Target] = {
    "mqtt_packet": Target(mqtt_packet, mqtt_seeds),
    "mqtt_stream": Target(mqtt_stream, mqtt_stream_seeds),
    "mqtt_batch": Target(mqtt_batch, mqtt_stream_seeds),
    "topics": Target(topics, topic_seeds),
    **{name: Target(*pair) for module in MODULES for name, pair in module.TARGETS.items()},
}
