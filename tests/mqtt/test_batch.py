"""mqtt.decode_batch: columns say what the vectors say; faults are rows; whole streams at once."""

from __future__ import annotations

from typing import Any

import pytest

from lib.groups import each_vector
from lib.kinds import checked
from lib.mqtt_vectors import Vector, expected, load
from wirefmt import mqtt
from wirefmt.errors import DecodeError
from wirefmt.mqtt import spec

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

VALID = [v for v in load("public") if v.valid]
INVALID = [v for v in load("public") if v.valid is False and not v.incomplete]
NUMBERS = {p.name: p.number for p in spec.PACKET_TYPES}
#: Fields and properties whose column has another name.
COLUMN_OF = {
    "packet_identifier": "sequence",
    "topic_name": "destination",
    "subscription_identifier": "subscription_identifiers",
    "subscription_identifiers_available": "subscription_identifier_available",
}
CREDENTIALS = ("password", "authentication_data")


def rows(octets: bytes, **options: Any) -> list[dict[str, Any]]:
    """Rows with the mqtt struct's fields among them, null fields left out."""
    batch = pa.record_batch(mqtt.decode_batch(octets, **options))
    batch.validate(full=True)
    out = []
    for row in batch.to_pylist():
        further = row.pop("mqtt") or {}
        out.append({k: v for k, v in (*row.items(), *further.items()) if v is not None})
    return out


def wanted(vector: Vector) -> dict[str, Any]:
    """The row that the vector's own fields make, written down here once more and apart from the core."""
    fields = expected(vector)
    decoded = vector.decoded
    assert decoded is not None
    kind = decoded["type"]
    row: dict[str, Any] = {"byte_offset": 0, "wire_size": len(vector.octets), "packet_type": NUMBERS[kind]}
    for name in ("dup", "qos", "retain", "packet_identifier", "topic_name", "payload", "keep_alive", "user_name"):
        if fields.get(name) is not None:
            row[COLUMN_OF.get(name, name)] = fields[name]
    if kind == "CONNECT":
        row |= {"protocol_name": fields["protocol_name"], "protocol_level": fields["protocol_version"]}
        row |= {"client_id": fields["client_identifier"], "connect_flags": fields["connect_flags"]}
        row["clean_start"] = decoded.get("clean_start", decoded.get("clean_session"))
        if fields["password"] is not None:
            row["password"] = fields["password"]
        if (will := fields["will"]) is not None:
            row |= {"will_topic": will.topic, "will_payload": bytes(will.payload)}
            row |= {"will_qos": will.qos, "will_retain": will.retain}
            row |= {name: value for name, value in will.properties if name == "will_delay_interval"}
    if kind == "CONNACK" and "session_present" in fields:
        row["session_present"] = fields["session_present"]
    for name in ("reason_code", "return_code"):
        if name in fields:
            row["code"] = fields[name]
    for name in ("reason_codes", "return_codes"):
        if name in fields:
            row["reason_codes"] = list(fields[name])
    if "subscriptions" in fields:
        row["topic_filters"] = [s.topic_filter for s in fields["subscriptions"]]
        row["subscription_options"] = [
            s.qos | s.no_local << 2 | s.retain_as_published << 3 | s.retain_handling << 4
            for s in fields["subscriptions"]
        ]
    if "topic_filters" in fields:
        row["topic_filters"] = list(fields["topic_filters"])
    for name, value in fields.get("properties", ()):
        if name == "user_property":
            row.setdefault("headers", []).append(value)
        elif name == "subscription_identifier":
            row.setdefault("subscription_identifiers", []).append(value)
        else:
            row[COLUMN_OF.get(name, name)] = value
    return row


@each_vector(VALID)
def test_columns_say_what_the_vectors_say(vector: Vector) -> None:
    (row,) = rows(vector.octets, strictness="strict", expose_credentials=True, **vector.options)
    row.pop("flags", None)
    row.pop("will_properties", None)
    assert row == wanted(vector)
    (hidden,) = rows(vector.octets, **vector.options)
    assert not set(CREDENTIALS) & set(hidden)


def as_text(value: Any) -> str:
    """How a map of text shows a property: binary that is not text in hexadecimal."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        if b"\0" not in value:
            return value.decode()
    except UnicodeDecodeError:
        pass
    return value[:1024].hex()


def test_will_properties() -> None:
    seen = 0
    for vector in VALID:
        if (vector.decoded or {}).get("will"):
            pairs = expected(vector)["will"].properties
            (row,) = rows(vector.octets, **vector.options)
            want = [value if name == "user_property" else (name, as_text(value)) for name, value in pairs]
            assert row.get("will_properties", []) == want
            seen += bool(pairs)
    assert seen > 20


def test_the_options_byte_of_3_1_is_as_it_was_sent() -> None:
    """MQTT 3.1, 3.8: six bits of it are not used, whatever they are; an object has only the QoS."""
    octets = bytes.fromhex("82 06 000b 0001 23 7e")
    message = checked(mqtt.decode(octets, version=3), mqtt.Subscribe)
    assert message.subscriptions == (mqtt.Subscription("#", qos=2),)
    (row,) = rows(octets, version=3, strictness="strict")
    assert row["subscription_options"] == [0x7E]
    assert mqtt.encode_batch(pa.record_batch(mqtt.decode_batch(octets, version=3)), version=3) == octets


def test_one_stream_of_all_vectors_of_a_version() -> None:
    for version in (3, 4, 5):
        vectors = [v for v in VALID if v.version == version and (v.decoded or {})["type"] != "CONNECT"]
        batch = mqtt.decode_batch(b"".join(v.octets for v in vectors), version=version)
        assert batch.num_rows == len(vectors)
        assert batch.rest == 0
        assert batch["packet_type"].tolist() == [NUMBERS[(v.decoded or {})["type"]] for v in vectors]
        assert batch["wire_size"].tolist() == [len(v.octets) for v in vectors]
        starts = [0]
        for v in vectors:
            starts.append(starts[-1] + len(v.octets))
        assert batch["byte_offset"].tolist() == starts[:-1]


def framed(vector: Vector) -> bool:
    """Do the octets end where the Remaining Length says?"""
    try:
        return mqtt.frame_size(vector.octets) == len(vector.octets)
    except DecodeError:
        return False


def test_a_bad_packet_is_a_row_and_the_next_one_follows() -> None:
    ping = b"\xd0\x00"
    bad = [v for v in INVALID if framed(v)]
    assert len(bad) > 700
    for vector in bad:
        if vector.side == "client":
            continue  # PINGRESP comes from a server
        got = rows(ping + vector.octets + ping, strictness="strict", version=vector.version)
        if len(got[1]) > 3:
            continue  # wrong only because of who sent it, which was not said here
        with pytest.raises(DecodeError) as caught:
            mqtt.decode(vector.octets, strictness="strict", version=vector.version)
        assert got[1].keys() == {"byte_offset", "wire_size", "error"}
        assert (got[1]["byte_offset"], got[1]["wire_size"]) == (2, len(vector.octets))
        assert caught.value.reason in got[1]["error"]
        assert f"offset {caught.value.offset + 2}" in got[1]["error"]
        assert got[2]["packet_type"] == NUMBERS["PINGRESP"]


def test_where_the_length_cannot_be_read_the_rest_is_one_row() -> None:
    first, rest = rows(b"\xc0\x00" + b"\x30\xff\xff\xff\xff\x01" + b"\xc0\x00" * 5, version=4)
    assert first["packet_type"] == NUMBERS["PINGREQ"]
    assert (rest["byte_offset"], rest["wire_size"]) == (2, 16)
    assert "four bytes" in rest["error"]


def test_the_rest_of_a_last_packet_is_counted() -> None:
    packet = mqtt.Publish(topic_name="a", payload=b"0123456789", version=4).encode()
    for n in range(len(packet)):
        batch = mqtt.decode_batch(packet + packet[:n], version=4)
        assert (batch.num_rows, batch.rest) == (1, n)


def test_any_buffer_and_nothing_at_all() -> None:
    numpy = pytest.importorskip("numpy", reason="needs numpy (pip install numpy)")
    packet = mqtt.Publish(topic_name="a", payload=b"xyz", version=4).encode()
    for data in (packet, bytearray(packet), memoryview(packet), numpy.frombuffer(packet, "u1"), pa.py_buffer(packet)):
        assert mqtt.decode_batch(data, version=4)["payload"].tolist() == [b"xyz"]
    assert mqtt.decode_batch(b"").num_rows == 0
    with pytest.raises(BufferError, match="contiguous"):
        mqtt.decode_batch(memoryview(packet)[::2], version=4)


def test_the_version_is_learned_from_connect() -> None:
    stream = (
        mqtt.Connect(client_identifier="c", version=5).encode()
        + mqtt.Publish(topic_name="t", payload=b"p", properties=(("content_type", "x"),), version=5).encode()
    )
    assert mqtt.decode_batch(stream)["content_type"].tolist() == [None, "x"]
    assert "version" in rows(mqtt.Publish(topic_name="t", payload=b"p", version=5).encode())[0]["error"]


def test_options() -> None:
    packet = mqtt.Publish(topic_name="a", payload=b"xyz", version=4).encode()
    assert "payload" not in rows(packet, version=4, payload=False)[0]
    assert mqtt.decode_batch(packet, version=4, columns=("wire_size", "destination")).names == [
        "wire_size",
        "destination",
    ]
    with pytest.raises(ValueError, match="no column 'topic'"):
        mqtt.decode_batch(packet, version=4, columns=("topic",))
    with pytest.raises(ValueError, match="version"):
        mqtt.decode_batch(packet, version=6)
