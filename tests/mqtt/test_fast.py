"""mqtt.decode_batch reads a PUBLISH by the fast path, in runs, and decode() by the same: both say what
the general path says, which reads a PUBLISH between two other packets."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from lib.column_values import Row
from lib.columns import agree, batch_row_of, sparse
from wirefmt import mqtt
from wirefmt.errors import DecodeError
from wirefmt.framing import Limits

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

TOPIC = "sensors/room07/temperature"
PROPERTIES: tuple[tuple[str, Any], ...] = (
    ("payload_format_indicator", 1),
    ("message_expiry_interval", 3600),
    ("content_type", "application/json"),
    ("response_topic", "answers/7"),
    ("correlation_data", b"\x00\xff7"),
    ("subscription_identifier", 300),
    ("topic_alias", 9),
    ("user_property", ("origin", "hall")),
    ("user_property", ("password", "swordfish")),
    ("user_property", ("origin", "")),
)
#: Values that rules speak of: zero, wildcards, the ends of ASCII, the beginning of a character, no UTF-8 at all.
OCTETS = (0x00, 0x01, 0x02, 0x23, 0x2B, 0x7F, 0x80, 0xC3, 0xFF)


PINGREQ = mqtt.Pingreq().encode()


def publish(version: int, *properties: tuple[str, Any], **fields: Any) -> bytes:
    given: dict[str, Any] = {"topic_name": TOPIC, "payload": b"21.5", "qos": 1, "packet_identifier": 77} | fields
    return mqtt.Publish(version=version, properties=properties, **given).encode()


def changed(packet: bytes) -> list[bytes]:
    """The packet, and every packet that differs from it in one octet after the fixed header, or in its flags."""
    out = [packet] + [bytes([packet[0] ^ flags]) + packet[1:] for flags in range(1, 16)]
    for i in range(3 if packet[1] & 0x80 else 2, len(packet)):
        for octet in {*OCTETS, packet[i] ^ 1, (packet[i] + 1) & 0xFF, (packet[i] - 1) & 0xFF} - {packet[i]}:
            out.append(packet[:i] + bytes([octet]) + packet[i + 1 :])
    return out


def check(
    packets: list[bytes], version: int, *, payload: bool = True, strictness: str = "strict", **options: Any
) -> int:
    """Compare the rows of the packets with their objects, and with rows of the general path. Returns how many are malformed."""
    options["strictness"] = strictness

    def rows(data: bytes) -> list[Row]:
        batch = pa.record_batch(
            mqtt.decode_batch(data, version=version, payload=payload, expose_credentials=True, **options)
        )
        batch.validate(full=True)
        return [sparse(row) for row in batch.to_pylist()]

    at = faults = 0
    in_runs, alone = rows(b"".join(packets)), rows(b"".join(octets + PINGREQ for octets in packets))[::2]
    for octets, got, general in zip(packets, in_runs, alone, strict=True):
        assert (got.pop("byte_offset"), got.pop("wire_size")) == (at, len(octets))
        at += len(octets)
        del general["byte_offset"], general["wire_size"]
        if "error" in got:
            assert list(general) == ["error"]
        else:
            assert got == general
        try:
            message = mqtt.decode(octets, version=version, **options)
        except DecodeError:
            assert list(got) == ["error"], octets.hex()
            faults += 1
            continue
        want = batch_row_of("mqtt", message)
        if not payload:
            want.pop("payload", None)
        assert agree(got, want) == [], octets.hex()
    return faults


@pytest.mark.parametrize("strictness", ["lax", "strict"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_one_octet_changed(version: int, strictness: str) -> None:
    packets = changed(publish(version)) + changed(publish(version, qos=0, packet_identifier=None, payload=b""))
    assert 0 < check(packets, version, strictness=strictness) < len(packets)


@pytest.mark.parametrize("side", [None, "client", "server"])
@pytest.mark.parametrize("strictness", ["lax", "strict"])
def test_one_octet_of_properties_changed(strictness: str, side: str | None) -> None:
    packets = changed(publish(5, *PROPERTIES))
    for one in PROPERTIES:
        packets += changed(publish(5, one, topic_name="t", payload=b""))
    packets += changed(publish(5, ("topic_alias", 9), topic_name=""))
    assert 0 < check(packets, 5, strictness=strictness, side=side) < len(packets)


def test_as_many_properties_as_there_may_be() -> None:
    users = [("user_property", (f"name{i}", "v" * i)) for i in range(40)]
    packets = [publish(5, *users[:n]) for n in range(41)]
    assert check(packets, 5) == 0
    assert check(packets, 5, limits=Limits(elements=20)) == 20


def test_limit_of_a_frame() -> None:
    sizes = [*range(120, 136), *range(16380, 16390)]
    packets = [publish(4, payload=bytes(n)) for n in sizes]
    assert check(packets, 4) == 0
    batch = mqtt.decode_batch(b"".join(packets), version=4, limits=Limits(frame_size=len(packets[7])))
    assert [e is None for e in batch["error"]] == [True] * 8 + [False]


@pytest.mark.parametrize("payload", [True, False])
def test_runs_of_every_length_among_other_packets(payload: bool) -> None:
    chance = random.Random(11)
    others = [mqtt.Puback(packet_identifier=5).encode(), mqtt.Pingreq().encode(), b"\x36\x05\x00\x01t\x00\x00"]
    packets = []
    for length in itertools.chain(range(70), (1500, 1, 2, 3)):
        for _ in range(length):
            qos = chance.randrange(3)
            packets.append(
                publish(
                    5,
                    *chance.sample(PROPERTIES, chance.choice((0, 0, 2))),
                    topic_name="t" * chance.randrange(1, 60),
                    payload=bytes(chance.randrange(70)),
                    qos=qos,
                    packet_identifier=(qos and 1 + chance.randrange(65535)) or None,
                    dup=bool(qos and chance.randrange(2)),
                    retain=bool(chance.randrange(2)),
                )
            )
        packets.append(others[length % 3])
    assert check(packets, 5, payload=payload) == sum(p == others[2] for p in packets)


def test_few_columns() -> None:
    packets = [publish(5, *PROPERTIES[: i % 8]) for i in range(3000)]
    whole = pa.record_batch(mqtt.decode_batch(b"".join(packets), version=5))
    for names in (["destination"], ["payload", "retain"], ["byte_offset", "mqtt"], ["headers"], ["qos", "error"]):
        batch = pa.record_batch(mqtt.decode_batch(b"".join(packets), version=5, columns=names))
        assert batch.equals(whole.select(names))
