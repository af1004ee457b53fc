"""mqtt.encode_batch: columns to packets, against vectors, constructors and the specification."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.encoded import again, columns_of, rows_of
from lib.groups import each_vector
from lib.mqtt_strategies import arguments
from lib.mqtt_vectors import Vector, load
from wirefmt import mqtt
from wirefmt.errors import EncodeError
from wirefmt.mqtt import spec

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

VECTORS = [v for name in ("public", "ambiguous") for v in load(name)]
VALID = [v for v in load("public") if v.valid]
IDENTIFIERS = {p.name: p.identifier for p in spec.PROPERTIES}
CONNECT, PUBLISH = 1, 3


def announces_absent_password(v: Vector) -> bool:
    """3.1 lets a CONNECT end before the password that its flags announce. In columns it looks like one that is hidden.
    If the user name is missing, too, the CONNECT ended before it."""
    if not v.octets or v.octets[0] >> 4 != CONNECT:
        return False
    rows = rows_of(mqtt.decode_batch(v.octets, version=v.version, expose_credentials=True))
    fields = rows[0]["mqtt"] if rows else None
    if fields is None:
        return False
    announced = fields["connect_flags"] & 0x40 and fields["password"] is None
    return bool(announced and (fields["user_name"] is not None or fields["connect_flags"] & 0x80 == 0))


@each_vector(VECTORS)
def test_what_was_decoded_is_encoded_again(vector: Vector) -> None:
    def decode(octets: bytes) -> Any:
        return mqtt.decode_batch(octets, version=vector.version, expose_credentials=True)

    def encode(columns: Any) -> bytes:
        return mqtt.encode_batch(columns, version=vector.version, strictness="lax")

    if announces_absent_password(vector):
        with pytest.raises(EncodeError, match=r"column 'mqtt\.password', row 0"):
            encode(decode(vector.octets))
        return
    again(vector.octets, decode, encode)


def is_canonical(vector: Vector) -> bool:
    """Properties in the order of their identifiers, no length or reason code that could be left out."""
    packet: Any = mqtt.decode(vector.octets, **vector.options, strictness="lax")
    names = [IDENTIFIERS[name] for name, _ in getattr(packet, "properties", ())]
    will = getattr(packet, "will", None)
    names_of_will = [IDENTIFIERS[name] for name, _ in will.properties] if will is not None else []
    rest = vector.octets[2:]
    form = getattr(packet, "form", None)
    longer_than_needed = vector.version == 5 and (
        (form == "full" and not names) or (form == "reason_only" and packet.reason_code == 0)
    )
    return names == sorted(names) and len(names_of_will) < 2 and len(rest) < 128 and not longer_than_needed


@each_vector(VALID)
def test_canonical_octets_come_back(vector: Vector) -> None:
    if announces_absent_password(vector) or not is_canonical(vector):
        return
    batch = mqtt.decode_batch(vector.octets, **vector.options, expose_credentials=True)
    assert mqtt.encode_batch(batch, **vector.options) == vector.octets


def test_most_vectors_are_canonical() -> None:
    assert sum(not announces_absent_password(v) and is_canonical(v) for v in VALID) > 0.75 * len(VALID)


@given(st.data())
def test_any_packets(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from([3, 4, 5]))
    packets = [p.build() for p in data.draw(st.lists(arguments(version), max_size=6))]
    octets = b"".join(p.encode() for p in packets)

    def decode(octets: bytes) -> Any:
        return mqtt.decode_batch(octets, version=version, expose_credentials=True)

    batch = decode(octets)
    assert not batch["error"].any()
    again(octets, decode, lambda columns: mqtt.encode_batch(columns, version=version))


def test_version_comes_from_connect() -> None:
    packets = [
        mqtt.Connect(client_identifier="c", clean_start=True, version=5),
        mqtt.Publish(topic_name="a", payload=b"x", properties=(("content_type", "t"),), version=5),
        mqtt.Connect(client_identifier="c", clean_start=True, version=4),
        mqtt.Publish(topic_name="a", payload=b"x", version=4),
    ]
    octets = b"".join(p.encode() for p in packets)
    assert mqtt.encode_batch(mqtt.decode_batch(octets)) == octets


# ---- columns made by hand

#: 3.3: fixed header 0x30, Remaining Length 5, topic of 1 byte, payload of 2.
AS_311 = bytes.fromhex("30 05 00 01 61 78 79")


def publish(rows: int = 1, **columns: Any) -> dict[str, Any]:
    """Columns of PUBLISH packets, with others in place of the usual; None leaves a column out."""
    made: dict[str, Any] = {
        "packet_type": pa.array([PUBLISH] * rows, pa.int8()),
        "destination": pa.array(["a"] * rows),
        "payload": pa.array([b"xy"] * rows),
    } | columns
    return {name: column for name, column in made.items() if column is not None}


def encode(columns: dict[str, Any], version: int = 4, **options: Any) -> bytes:
    return mqtt.encode_batch(pa.table(columns), version=version, **options)


def test_few_columns_are_enough() -> None:
    assert encode(publish()) == AS_311
    assert encode(publish(3)) == 3 * AS_311
    assert encode(publish(), version=5) == bytes.fromhex("30 06 00 01 61 00 78 79")


def test_every_width_of_integers() -> None:
    for type_ in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
        columns = publish(2, packet_type=pa.array([3, 3], type_), qos=pa.array([1, 2], type_))
        columns["sequence"] = pa.array([7, 100], type_)
        assert encode(columns) == bytes.fromhex("32 07 00 01 61 00 07 78 79  34 07 00 01 61 00 64 78 79")


def test_binary_of_fixed_size_strings_as_binary_and_columns_of_nulls() -> None:
    assert encode(publish(payload=pa.array([b"xy"], pa.binary(2)))) == AS_311
    assert encode(publish(payload=pa.array(["xy"]))) == AS_311
    assert encode(publish(mqtt=pa.nulls(1), qos=pa.nulls(1))) == AS_311
    empty = pa.array([b"", b""], pa.binary(0))
    assert encode(publish(2, payload=empty)) == 2 * bytes.fromhex("30 03 00 01 61")


def test_no_rows() -> None:
    assert mqtt.encode_batch(mqtt.decode_batch(b"")) == b""
    assert encode({}) == b""
    assert encode(publish(0)) == b""
    reader = pa.RecordBatchReader.from_batches(pa.schema([("packet_type", pa.int8())]), [])
    assert mqtt.encode_batch(reader) == b""


def test_every_arrow_object() -> None:
    table = pa.table(publish(4))
    batch = table.to_batches()[0]
    reader = pa.RecordBatchReader.from_batches(table.schema, [batch, batch.slice(1, 2)])
    array = batch.to_struct_array()
    for data, count in ((table, 4), (batch, 4), (reader, 6), (array, 4), (pa.chunked_array([array, array[1:]]), 7)):
        assert mqtt.encode_batch(data, version=4) == count * AS_311


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (publish(packet_type=None), "column 'packet_type', row 0: null, where a value is needed"),
        (publish(destination=None), "column 'destination', row 0: null, where a value is needed"),
        (publish(payload=None), "column 'payload', row 0: null, where a value is needed"),
        (publish(2, payload=pa.array([b"", None])), "column 'payload', row 1: null, where a value is needed"),
        (publish(packet_type=pa.array([0])), "column 'packet_type', row 0: 0, not 1 to 15"),
        (publish(packet_type=pa.array([-1])), "column 'packet_type', row 0: -1, not 1 to 15"),
        (
            publish(packet_type=pa.array([2**63], pa.uint64())),
            "column 'packet_type', row 0: -9223372036854775808, not 1",
        ),
        (publish(qos=pa.array([4])), "column 'qos', row 0: 4, not 0 to 3"),
        (publish(qos=pa.array([3]), sequence=pa.array([1])), "qos: QoS 3"),
        (publish(qos=pa.array([1])), "column 'sequence', row 0: null, where a value is needed"),
        (publish(sequence=pa.array([1])), "column 'sequence', row 0: a PUBLISH of QoS 0 has none"),
        (publish(qos=pa.array([1]), sequence=pa.array([0])), "row 0: packet_identifier: .*MQTT-2.3.1-1"),
        (
            publish(qos=pa.array([1]), sequence=pa.array([65536])),
            "sequence', row 0: 65536, not 0 to 65535",
        ),
        (publish(dup=pa.array([True])), "row 0: dup: .*MQTT-3.3.1-2"),
        (publish(destination=pa.array(["a/#"])), "row 0: topic_name: .*MQTT-3.3.2-2"),
        (publish(destination=pa.array([""])), "row 0: topic_name: .*MQTT-4.7.3-1"),
        (publish(destination=pa.array(["a\0b"])), "row 0: topic_name: .*MQTT-1.5.3-2"),
        (
            publish(destination=pa.array(["a" * 65536])),
            "destination', row 0: 65536 bytes or elements, at most 65535 fit",
        ),
        (publish(content_type=pa.array(["t"])), "column 'content_type', row 0: properties are of MQTT 5.0"),
        (publish(error=pa.array(["bad"])), "column 'error', row 0: the row is not a packet"),
        ({"packet_type": pa.array([8])}, "column 'sequence', row 0: null"),
        (
            {"packet_type": pa.array([8]), "sequence": pa.array([1])},
            "column 'mqtt.topic_filters', row 0: null",
        ),
        ({"packet_type": pa.array([1])}, "column 'client_id', row 0: null"),
        ({"packet_type": pa.array([15])}, "row 0: packet_type: "),
    ],
)
def test_a_wrong_row_is_named(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        encode(columns)


def test_rows_are_counted_across_chunks() -> None:
    table = pa.concat_tables([pa.table(publish(3)), pa.table(publish(2, destination=pa.array(["b", "+"])))])
    with pytest.raises(EncodeError, match="row 4: topic_name: "):
        mqtt.encode_batch(table, version=4)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (publish(topic=pa.array(["a"])), "no column 'topic'"),
        (publish(mqtt=pa.array([{"nothing": 1}])), "no column 'mqtt.nothing'"),
        (publish(destination=pa.array([1])), "column 'destination' is of Arrow format 'l', not string"),
        (publish(destination=pa.array([b"a"])), "column 'destination' is of Arrow format 'z', not string"),
        (publish(packet_type=pa.array([3.0])), "column 'packet_type' is of Arrow format 'g', not int8"),
        (publish(retain=pa.array([1])), "column 'retain' is of Arrow format 'l', not boolean"),
        (publish(destination=pa.array(["a"]).dictionary_encode()), "column 'destination' is dictionary-encoded"),
        (publish(headers=pa.array([["a"]])), "column 'headers'"),
        (publish(mqtt=pa.array(["a"])), "column 'mqtt' is of Arrow format 'u'"),
    ],
)
def test_a_wrong_column_is_named(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encode(columns)


def test_lists_must_be_of_one_length() -> None:
    fields = {"topic_filters": ["a", "b"], "subscription_options": [0]}
    columns = {"packet_type": pa.array([8]), "sequence": pa.array([1]), "mqtt": pa.array([fields])}
    with pytest.raises(EncodeError, match=r"column 'mqtt\.subscription_options', row 0: there are not as many"):
        encode(columns)


@pytest.mark.parametrize("level", [0, 1, 2, 6, 127, 128, 255])
@pytest.mark.parametrize("version", [None, 5])
@pytest.mark.parametrize("strictness", ["strict", "lax"])
def test_a_level_that_no_version_has(level: int, version: int | None, strictness: str) -> None:
    fields = pa.array([{"protocol_level": level}])
    columns = pa.table({"packet_type": pa.array([1]), "client_id": ["c"], "mqtt": fields})
    with pytest.raises(EncodeError, match=r"column 'mqtt\.protocol_level', row 0: "):
        mqtt.encode_batch(columns, version=version, strictness=strictness)


def test_without_a_version() -> None:
    with pytest.raises(EncodeError, match="row 0: the version is not known"):
        mqtt.encode_batch(pa.table(publish()))
    with pytest.raises(ValueError, match="version must be"):
        mqtt.encode_batch(pa.table(publish()), version=2)


@pytest.mark.parametrize(("user_name", "password", "flags"), [(None, b"p", 0x42), ("u", None, 0x82), ("u", b"p", 0xC2)])
def test_a_password_needs_no_user_name(user_name: str | None, password: bytes | None, flags: int) -> None:
    """3.1.2.8 and 3.1.2.9 of MQTT 5.0: either may be there without the other. The flags are octet 8 of a CONNECT of 5.0 here."""
    packet = mqtt.Connect(client_identifier="c", clean_start=True, user_name=user_name, password=password)
    columns = columns_of(mqtt.decode_batch(packet.encode(), expose_credentials=True))
    (row,) = columns.to_pylist()
    row["mqtt"]["connect_flags"] = None  # then the fields say it
    for batch in (columns, pa.RecordBatch.from_pylist([row], columns.schema)):
        octets = mqtt.encode_batch(batch)
        assert octets[9] == flags
        assert octets == packet.encode()


def test_a_hidden_password_is_no_password() -> None:
    packet = mqtt.Connect(client_identifier="c", clean_start=True, user_name="u", password=b"p")
    with pytest.raises(EncodeError, match="expose_credentials"):
        mqtt.encode_batch(mqtt.decode_batch(packet.encode()))
    shown = mqtt.decode_batch(packet.encode(), expose_credentials=True)
    assert mqtt.encode_batch(shown) == packet.encode()


def test_null_structs_hide_what_is_in_them() -> None:
    fields = pa.array([{"topic_alias": 7}, {"topic_alias": 7}])
    hidden = pa.StructArray.from_arrays([fields.field(0)], ["topic_alias"], mask=pa.array([True, False]))
    made = encode(publish(2, mqtt=hidden), version=5)
    assert made == bytes.fromhex("30 06 00 01 61 00 78 79  30 09 00 01 61 03 23 00 07 78 79")


def test_columns_are_those_of_the_table() -> None:
    whole = columns_of(mqtt.decode_batch(AS_311, version=4))
    assert mqtt.encode_batch(whole.select(["destination", "packet_type", "payload"]), version=4) == AS_311
