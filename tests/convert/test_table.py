"""Messages of captures in another protocol: the column `raw`, and `convert_table` on it.

What is in `raw` is compared with other libraries' reading of it; what converting a column gives, with converting the
messages one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.kinds import checked
from lib.paths import DATA, ROOT
from wirefmt import amqp10, capture, convert, mqtt
from wirefmt.convert import _engine, table
from wirefmt.convert.dialects import compiled
from wirefmt.convert.messages import wire_of
from wirefmt.errors import ConversionError
from wirefmt.spec.columns import CONVERTED_FIELDS
from wirefmt.spec.table import COLUMNS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SAMPLES = ROOT / "samples"
V5, V311, V31 = (SAMPLES / f"mosquitto-paho-{v}.pcap" for v in ("v5", "v311", "v31"))
AMQP091 = SAMPLES / "rabbitmq-pyamqp-amqp091.pcap"
AMQP10 = SAMPLES / "rabbitmq-rhea-amqp10.pcap.gz"
LARGE_AMQP091, LARGE_AMQP10 = (DATA / f"rabbitmq-{name}.pcap.gz" for name in ("amqp091", "amqp10"))
EVERY = (V5, V311, V31, AMQP091, AMQP10, LARGE_AMQP091)


@cache
def rows(path: Any, **options: Any) -> Any:
    """A capture's table, in one batch."""
    with capture.read(path, **{"raw": True, "batch_rows": 1 << 20, **options}) as reader:
        return pa.record_batch(next(iter(reader)))


def messages(batch: Any) -> list[dict[str, Any]]:
    return [row for row in batch.to_pylist() if row["raw"] is not None]


# ---- the column octets


@pytest.mark.parametrize("path", [V5, V311, V31], ids=lambda p: p.stem)
def test_octets_of_mqtt_are_the_packet_on_the_wire(path: Any) -> None:
    recorded = path.read_bytes()
    found = messages(rows(path))
    assert len(found) == sum(row["kind"] == "PUBLISH" and row["status"] == "ok" for row in rows(path).to_pylist()) > 100
    assert {row["kind"] for row in found} == {"PUBLISH"}
    assert all(row["wire_size"] == len(row["raw"]) for row in found)
    whole = [row["raw"] in recorded for row in found if len(row["raw"]) < 500]
    assert sum(whole) > 0.9 * len(whole) > 50  # the others lie in two packets
    assert all(row["raw"].endswith(row["payload"]) for row in found)


@pytest.mark.parametrize(("path", "count"), [(AMQP091, 21), (LARGE_AMQP091, 56)], ids=["small", "large"])
def test_octets_of_amqp091_are_frames_that_pamqp_reads(path: Any, count: int) -> None:
    frame = pytest.importorskip("pamqp.frame", reason="needs pamqp (pip install pamqp)")
    found = messages(rows(path))
    assert len(found) == count
    for row in found:
        octets, parts = row["raw"], []
        while octets:
            size, channel, part = frame.unmarshal(octets)
            assert (channel, size <= 131072) == (row["channel"], True)
            parts.append(part)
            octets = octets[size:]
        assert parts[0].body_size == row["payload_size"]
        assert b"".join(part.value for part in parts[1:]) == row["payload"]
        assert parts[0].properties.content_type == row["content_type"]
        assert parts[0].properties.message_id == row["message_id"]


def test_octets_of_amqp10_are_messages_that_proton_reads() -> None:
    proton = pytest.importorskip("proton", reason="needs python-qpid-proton (pip install python-qpid-proton)")
    found = [
        row for path in (AMQP10, LARGE_AMQP10) for row in messages(rows(path)) if row["amqp10"]["body_sections"] == 1
    ]
    assert max(row["amqp10"]["transfers"] for row in found) > 1
    bodies = 0
    for row in found:
        message = proton.Message()
        message.decode(row["raw"])
        if row["amqp10"]["body"] == "data":
            bodies += 1
            assert bytes(message.body) == row["payload"]
        assert message.subject == row["amqp10"]["subject"]
        assert (message.reply_to, message.content_type) == (
            row["reply_to"],
            row["content_type"] or "None",
        )  # as proton says it
    assert bodies >= 16


def test_octets_are_there_when_asked_for() -> None:
    names = [column.name for column in COLUMNS]
    assert "raw" in names
    assert rows(V5, raw=False).column("raw").null_count == rows(V5).num_rows
    assert rows(V5, columns=("kind", "raw")) == rows(V5).select(["kind", "raw"])


@pytest.mark.parametrize("path", EVERY, ids=lambda p: p.stem)
@pytest.mark.parametrize("options", [{"payload": False}, {"payload_max": 2}, {"payload_max": 0}], ids=str)
def test_octets_do_not_depend_on_the_payload_column(path: Any, options: Any) -> None:
    assert rows(path, **options).column("raw") == rows(path).column("raw")


def test_what_is_cut_by_a_limit_has_no_octets() -> None:
    whole = messages(rows(LARGE_AMQP091))
    with capture.read(LARGE_AMQP091, raw=True, limits={"max_message": 200_000}, payload=False) as reader:
        cut = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    # a body in one frame is not put together
    small = [row["raw"] for row in whole if row["payload_size"] <= 200_000]
    assert len(small) < len(whole)
    assert [row["raw"] for row in cut if row["raw"] is not None] == small


# ---- converting it


def one_by_one(row: dict[str, Any], to: str, dialect: str) -> dict[str, Any] | None:
    """What converting the row's message alone gives, as a value of the column `converted`."""
    if row["raw"] is None:
        return None
    none = {field.name: None for field in CONVERTED_FIELDS}
    key = row["routing_key"] or ""
    if row["protocol"] == "mqtt":
        version = {"3.1": 3, "3.1.1": 4, "5.0": 5}[row["version"]]
        wire = wire_of(mqtt.decode(row["raw"], version=version, strictness="lax"))
    elif row["protocol"] == "amqp091":
        wire = convert.Wire.from_frames(row["raw"])
    else:
        wire = convert.Wire("amqp10", row["raw"])
        key = table.routing_key_of_address(row["destination"])
    if wire.protocol == to:
        return none | {"raw": row["raw"] if row["protocol"] != "mqtt" else wire.octets}
    if to == "mqtt5" and not key:
        return none | {"rule": "mqtt5:no-topic", "error": "no routing key to become the topic"}
    try:
        result = convert.convert(wire, to=to, dialect=dialect, routing_key=key)  # type: ignore[arg-type]
    except ConversionError as refused:
        return none | {"rule": refused.rule, "error": refused.reason}
    losses = [str(loss) for loss in result.losses]
    return none | {"raw": result.wire.frames(), "losses": losses or None}


@pytest.mark.parametrize("dialect", list(convert.DIALECTS))
@pytest.mark.parametrize("to", convert.PROTOCOLS)
@pytest.mark.parametrize("path", EVERY, ids=lambda p: p.stem)
def test_a_column_is_as_its_messages_one_by_one(path: Any, to: Any, dialect: Any) -> None:
    batch = rows(path)
    made = convert.convert_table(batch, to=to, dialect=dialect)
    assert made.schema.names == [*batch.schema.names, "converted"]
    assert made.select(batch.schema.names) == batch
    assert made.column("converted").to_pylist() == [one_by_one(row, to, dialect) for row in batch.to_pylist()]
    assert sum(row is not None and row["raw"] is not None for row in made.column("converted").to_pylist()) > 20


def test_a_packet_of_3_1_1_by_hand() -> None:
    # PUBLISH QoS 1, retain, topic a/b, identifier 7, payload hi; then header {durable: true}, data "hi"
    row = made_row("mqtt", "3.1.1", bytes.fromhex("3309 0003612f62 0007 6869"))
    converted = convert_one(row, "amqp10")
    assert converted["raw"].hex() == "005370c0020141" + "005375a0026869"
    assert [text.partition(":")[0] for text in converted["losses"]] == ["Retain dropped"]
    assert convert_one(row, "mqtt5")["raw"].hex() == "330a0003612f620007006869"


def test_the_topic_is_the_routing_key() -> None:
    body = bytes.fromhex("005375a0026869")
    for address, topic in (
        ("/exchanges/amq.topic/a.b%2Fc", "a/b/c"),
        ("/queues/q%20r", "q r"),
        ("/topic/x.y", "x/y"),
    ):
        converted = convert_one(made_row("amqp10", "1.0", body, destination=address), "mqtt5")
        assert checked(mqtt.decode(converted["raw"], version=5), mqtt.Publish).topic_name == topic
    wild = made_row("amqp10", "1.0", body, destination="/exchanges/amq.topic/a.%2A")
    assert convert_one(wild, "mqtt5")["rule"] == "mqtt5:topic"
    assert b"a/+" in convert_one(wild, "mqtt5", dialect="rabbitmq-4.3")["raw"]
    content = convert.Wire("amqp091", b"\0\0", b"hi").frames()
    converted = convert_one(made_row("amqp091", "0.9.1", content, routing_key="x.y"), "mqtt5")
    assert converted["raw"].hex() == "30080003782f79006869"
    assert convert_one(made_row("amqp091", "0.9.1", content), "mqtt5")["rule"] == "mqtt5:no-topic"


def test_addresses() -> None:
    """As RabbitMQ documents them: version 2, then version 1."""
    for address, key in {
        "/queues/q": "q", "/queues/a%2Fb": "a/b", "/exchanges/x/k": "k", "/exchanges/x/k%20l": "k l", "/exchanges/x": "",
        "/queue/q": "q", "/amq/queue/q": "q", "/topic/a.b": "a.b", "/exchange/x/a.b": "a.b", "/exchange/x": "", "q": "q",
    }.items():  # fmt: skip
        assert table.routing_key_of_address(address) == key, address


def test_what_is_not_converted_says_why() -> None:
    made = convert.convert_table(
        pa.RecordBatch.from_pylist(
            [
                made_row("mqtt", "5.0", b"\x30\xff"),
                made_row("mqtt", "3.1.1", b"\x30\x01\x00"),
                made_row("amqp091", "0.9.1", b"\x02\x00"),
                made_row("nsq", "V2", b"x"),
                made_row("mqtt", "5.0", None),
                made_row(None, None, b"x"),
            ],
            schema=SCHEMA,
        ),
        to="amqp10",
    ).column("converted")
    told = made.to_pylist()
    assert [row and (row["rule"], row["raw"], bool(row["error"])) for row in told] == [
        ("mqtt5:undecodable", None, True),
        ("mqtt5:undecodable", None, True),
        ("amqp091:undecodable", None, True),
        None,
        None,
        None,
    ]


def test_any_batch_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = rows(AMQP091)
    whole = convert.convert_table(batch, to="amqp10").column("converted")
    monkeypatch.setattr(table, "ROWS", 7)
    assert convert.convert_table(batch, to="amqp10").column("converted") == whole
    assert convert.convert_table(batch.slice(30, 40), to="amqp10").column("converted") == whole.slice(30, 40)
    assert convert.convert_table(batch.slice(0, 0), to="mqtt5").num_rows == 0
    least = batch.select(list(table.NEEDED))
    wider = {"raw": pa.large_binary()}
    wide = least.cast(pa.schema([(name, wider.get(name, pa.large_string())) for name in least.schema.names]))
    for to in convert.PROTOCOLS:
        assert convert.convert_table(wide, to=to).column("converted") == convert.convert_table(least, to=to).column(
            "converted"
        )


def test_wrong_usage() -> None:
    batch = rows(AMQP091)
    with pytest.raises(ValueError, match=r"missing: raw"):
        convert.convert_table(batch.drop_columns(["raw"]), to="amqp10")
    wrong: Any
    for wrong in ({"to": "amqp1"}, {"to": "amqp10", "dialect": "x"}, {"to": "amqp10", "topics": "x"}):
        with pytest.raises(ValueError, match="is not one of"):
            convert.convert_table(batch, **wrong)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_octets_are_converted_or_say_why(data: st.DataObject) -> None:
    """Messages of the captures with octets changed, cut and added, as any protocol."""
    rows_ = []
    for _ in range(data.draw(st.integers(1, 4))):
        octets = bytearray(data.draw(st.sampled_from(seeds())))
        for _ in range(data.draw(st.integers(0, 4))):
            at = data.draw(st.integers(0, len(octets)))
            octets[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        protocol, version = data.draw(st.sampled_from(VERSIONS))
        rows_.append(made_row(protocol, version, bytes(octets), routing_key="k", destination="/queues/q"))
    batch = pa.RecordBatch.from_pylist(rows_, schema=SCHEMA)
    for to in convert.PROTOCOLS:
        for dialect in convert.DIALECTS:
            made = convert.convert_table(batch, to=to, dialect=dialect).column("converted")
            made.validate(full=True)
            for row, source in zip(made.to_pylist(), rows_, strict=True):
                assert (row["raw"] is None) == (row["error"] is not None) == (row["rule"] is not None)
                if row["raw"] is not None and dialect == "documented" and not to.startswith(source["protocol"]):
                    DECODE[to](row["raw"])


VERSIONS = [("mqtt", "5.0"), ("mqtt", "3.1.1"), ("amqp091", "0.9.1"), ("amqp10", "1.0")]
DECODE: dict[str, Callable[[bytes], object]] = {
    "mqtt5": lambda octets: mqtt.decode(octets, version=5),
    "amqp10": lambda octets: amqp10.decode_message(octets),
    "amqp091": lambda octets: convert.Wire.from_frames(octets).message(),
}


@cache
def seeds() -> list[bytes]:
    found = [row["raw"] for path in (V5, V311, AMQP091, AMQP10) for row in messages(rows(path))]
    return [octets for octets in found if len(octets) < 2000]


def test_columns_that_lie_are_refused() -> None:
    rules = compiled("documented")
    good: list[Any] = [b"\2", np.array([0, 3], np.int32), b"abc", np.array([0, 0], np.int32), b""]
    convert_rows = _engine.convert_rows
    assert convert_rows(rules, 0, *good).num_rows == 1
    for at, value in ((1, [0, 4]), (1, [-1, 3]), (1, [3, 0]), (1, [0]), (3, [0, 1]), (3, [0, 0, 0])):
        wrong = list(good)
        wrong[at] = np.array(value, np.int32)
        with pytest.raises(ValueError, match=r"outside its column|different lengths"):
            convert_rows(rules, 0, *wrong)
    with pytest.raises(ValueError, match="no such protocol"):
        convert_rows(rules, 7, *good)


def test_options_reach_the_rules() -> None:
    packet = mqtt.Publish(topic_name="a", version=5, properties=[("response_topic", "spBv1.0/g/é")])
    row = made_row("mqtt", "5.0", packet.encode())
    made = convert_one(row, "amqp10", mqtt_exchange="mine", topics="sparkplug", percent_encoding=False)
    assert "/exchanges/mine/spBv1___0.g.é".encode() in made["raw"]


SCHEMA = pa.schema([(name, pa.binary() if name == "raw" else pa.string()) for name in table.NEEDED])


def made_row(protocol: str | None, version: str | None, octets: bytes | None, **others: str) -> dict[str, Any]:
    return {"protocol": protocol, "version": version, "raw": octets, **others}


def convert_one(row: dict[str, Any], to: Any, **options: Any) -> Any:
    return (
        convert.convert_table(pa.RecordBatch.from_pylist([row], schema=SCHEMA), to=to, **options)
        .column("converted")[0]
        .as_py()
    )
