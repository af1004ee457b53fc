"""Every column of every public vector: from `decode_batch`, from a made-up capture, and worked out from the object."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, Literal

import pytest

from lib.columns import (
    APART,
    CONTEXT,
    Case,
    agree,
    batch_row_of,
    captured,
    row_of,
    sparse,
)
from lib.paths import VECTORS
from lib.protocols import MODULES, part
from wirefmt import amqp091, amqp10, mqtt, rocketmq
from wirefmt.errors import DecodeError
from wirefmt.protocols import PROTOCOLS
from wirefmt.spec import table

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

SIDES: Final[tuple[Literal["client", "server"], ...]] = ("client", "server")
is_plain_command, stored_row = part("rocketmq", "rows").is_plain_command, part("rocketmq", "rows").stored_row


def vectors(protocol: str) -> Iterator[dict[str, Any]]:
    with open(VECTORS / protocol / "public.jsonl", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read(protocol: str, octets: bytes, **options: Any) -> Any:
    try:
        return MODULES[protocol].decode(octets, **options)
    except DecodeError:
        return None


def mqtt_messages() -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    for row in vectors("mqtt"):
        if not row.get("hex") or row["version"] not in (3, 4, 5):
            continue
        octets = bytes.fromhex(row["hex"])
        for direction, side in enumerate(SIDES):
            message = read("mqtt", octets, version=row["version"], side=side)
            if message is None or (isinstance(message, mqtt.Connect) and message.version != row["version"]):
                continue
            alias = dict(getattr(message, "properties", ())).get("topic_alias")
            if isinstance(message, mqtt.Publish) and alias is not None and not message.topic_name:
                continue  # what its topic is, is not said here
            yield Case(octets, direction, row["version"]), message, {}


def amqp091_messages() -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    publish = amqp091.BasicPublish(channel=1, exchange="e", routing_key="k").encode()
    deliver = amqp091.BasicDeliver(channel=1, consumer_tag="t", delivery_tag=7, exchange="", routing_key="q").encode()
    for row in vectors("amqp091"):
        octets = bytes.fromhex(row["hex"])
        methods: tuple[bytes, ...] = (b"",)
        if row["kind"] == "method":
            octets = frame(1, int(octets[:2] != b"\0\x0a"), octets)
        elif row["kind"] in ("properties", "table"):
            flags = b"" if row["kind"] == "properties" else b"\x20\0"
            octets = frame(2, 1, b"\0\x3c" + bytes(10) + flags + octets)
            methods = (publish, deliver)
        for direction, side in enumerate(SIDES):
            for method in methods:
                assembler = amqp091.Assembler(side=side, frame_max=0)
                try:
                    found = assembler.feed(method + octets)
                    assembler.close()
                except DecodeError:
                    continue
                if len(found) == 1 and not is_unfinished(found[0]):
                    frames = amqp091.Decoder(side=side, frame_max=0).feed(method + octets)
                    bodies = sum(isinstance(f, amqp091.Body) for f in frames)
                    more = {"body_frames": bodies} if isinstance(found[0], amqp091.BasicMessage) else {}
                    yield Case(method + octets, direction), found[0], more


def is_unfinished(message: Any) -> bool:
    """A method whose content does not come."""
    return isinstance(message, amqp091.Method) and message.has_content


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes((kind, 0, channel)) + len(payload).to_bytes(4, "big") + payload + b"\xce"


def amqp10_messages() -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    for row in vectors("amqp10"):
        octets = bytes.fromhex(row["hex"])
        more: dict[str, Any] = {}
        if row["kind"] == "message":
            try:
                more["content"] = amqp10.decode_message(octets)
            except DecodeError:
                continue
            octets = amqp10.Transfer(handle=3, delivery_id=5, delivery_tag=b"t", payload=octets).encode()
        elif row["kind"] not in ("frame", "sasl"):
            continue
        message = read("amqp10", octets)
        if message is None:
            continue
        if isinstance(message, amqp10.Transfer) and "content" not in more:
            if message.more or message.aborted:
                continue
            # of the vector its fields; what it carries is ours
            fields = {name: getattr(message, name) for name in type(message).__match_args__}
            more["content"] = amqp10.Message(body=b"x")
            message = amqp10.Transfer(**fields | {"payload": more["content"].encode()})
            octets = message.encode()
        for direction in range(2):
            yield Case(octets, direction), message, more


def nsq_messages() -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    seen = set()
    for row in vectors("nsq"):
        said = [(row.get("hex"), int(row["kind"] in ("frame", "message-frame"))), (row.get("server_hex"), 1)]
        said += [(step[name], i) for step in row.get("steps", ()) for i, name in enumerate(("send_hex", "reply_hex"))]
        for text, direction in said:
            decoder = MODULES["nsq"].Decoder(side=SIDES[direction], magic=False if direction == 0 else None)
            try:
                found = decoder.feed(bytes.fromhex(text or ""))
            except DecodeError as error:
                found = error.messages
            for message in found:
                octets = message.encode()
                if message.kind != "MAGIC" and octets not in seen:
                    seen.add(octets)
                    yield Case(octets, direction), message, {}


def phpmq_messages() -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    for row in vectors("phpmq"):
        octets = bytes.fromhex(row["hex"])
        for direction, side in enumerate(SIDES):
            message = read("phpmq", octets, side=side)
            if message is not None:
                yield Case(octets, direction), message, {}


def rocketmq_messages() -> Iterator[tuple[Case, Any, dict[str, Any]]]:
    pull = {"consumerGroup": "g", "topic": "t", "queueId": "1", "queueOffset": "2", "subscription": "TagA || TagB"}
    message = rocketmq.RemotingCommand(code=11, opaque=3, ext_fields=pull)
    yield Case(message.encode(), 0), message, {}
    for row in vectors("rocketmq"):
        if row["kind"] not in ("request", "response", "captured-frame", "frame-accepted"):
            continue
        octets = bytes.fromhex(row["hex"])
        message = read("rocketmq", octets)
        if message is not None and is_plain_command(message):
            yield Case(octets, int(message.is_response)), message, {}


MESSAGES = {
    "mqtt": (mqtt_messages, 1700), "amqp091": (amqp091_messages, 700), "amqp10": (amqp10_messages, 600),
    "nsq": (nsq_messages, 50), "phpmq": (phpmq_messages, 40), "rocketmq": (rocketmq_messages, 80),
}  # fmt: skip


def batch_rows(protocol: str, case: Case) -> list[dict[str, Any]]:
    options: dict[str, Any] = {} if protocol in ("phpmq",) else {"expose_credentials": True}
    if protocol == "mqtt":
        options["version"] = case.version
    if protocol not in ("amqp10", "rocketmq"):
        options["side"] = SIDES[case.direction]
    batch = pa.record_batch(MODULES[protocol].decode_batch(case.octets, strictness="strict", **options))
    batch.validate(full=True)
    return [sparse(row) for row in batch.to_pylist()]


@pytest.mark.parametrize("protocol", MESSAGES)
def test_decode_batch_and_captures_say_what_objects_say(protocol: str) -> None:
    made, least = MESSAGES[protocol]
    found = list(made())
    assert len(found) >= least
    wrong = []
    cases = [case for case, *_ in found]
    rows = [row for at in range(0, len(cases), 500) for row in captured(protocol, cases[at : at + 500])]
    for (case, message, more), captured_rows in zip(found, rows, strict=True):
        where = {"byte_offset": 0, "wire_size": len(case.octets)}
        for name, got, want in (
            ("capture", captured_rows, where | row_of(protocol, message, case.direction, **more)),
            (
                "batch",
                batch_rows(protocol, case),
                {"byte_offset": 0, "wire_size": len(case.octets)}
                | batch_row_of(protocol, message, content=more.get("content")),
            ),
        ):
            lines = agree(got[0], want) if len(got) == 1 else [f"{len(got)} rows"]
            if lines:
                wrong.append(f"{name}: {'; '.join(lines)}; {case}")
    assert not wrong, f"{len(wrong)} of {len(found)}:\n" + "\n".join(wrong[:20])


#: Columns of decode_batch that the message table does not have, or shows in another form (""). All others have the same name
#: there, or in the struct of the protocol.
OTHER_NAMES: dict[str, dict[str, str]] = {
    "mqtt": {"packet_type": ""},
    "amqp091": {"arguments": ""},
    "amqp10": {"fields": ""},
    "rocketmq": {"version": "", "properties": ""},
    "nsq": {},
    "phpmq": {},
}
#: Fields in the maps `arguments` and `fields` whose names are others in the message table; "": shown in another form there.
IN_MAPS = {
    "internal": "", "ticket": "", "role": "", "source": "", "target": "", "state": "", "error": "", "code": "code",
    "sasl_server_mechanisms": "mechanisms", "nowait": "",
}  # fmt: skip
#: What is empty in decode_batch and null in the message table.
EMPTY = {"mqtt": ("destination", "client_id"), "phpmq": ("kind",)}

#: Columns that are null in decode_batch where the message table has what it knows of the connection or of other packets.
ELSEWHERE = {"mqtt": ("client_id", "destination"), "rocketmq": ("destination",)}


def shown(value: Any) -> str:
    """A value of the message table as text of a map of decode_batch."""
    if isinstance(value, bytes):
        return part("amqp10", "rows").text(value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def differing(protocol: str, batch: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Columns of decode_batch that say something else than the same columns of the message table."""
    struct, wrong = row[protocol], []
    in_map = {key for name in ("arguments", "fields") for key, _ in batch.get(name) or ()}
    for column in MODULES[protocol].columns.BATCH:
        name = column.name
        if name in ("byte_offset", "wire_size", "error") or (protocol, name) == ("nsq", "message_id"):
            continue  # message_id: bytes there, text here
        place = OTHER_NAMES[protocol].get(name, name)
        got = batch.get(name)
        if name in ("arguments", "fields"):
            for key, value in got or ():
                field = IN_MAPS.get(key.rstrip("_"), key.rstrip("_"))
                want = row.get(field, struct.get(field)) if field in (*row, *struct) else None
                if field and not isinstance(want, list) and shown("" if want is None else want) != value:
                    wrong.append(f"{name}.{key}: {value!r}, captures say {want!r}")
            continue
        if not place:
            continue
        holder, _, field = place.rpartition(".")
        found = struct if holder or any(c.name == field for c in MODULES[protocol].columns.FIELDS) else row
        assert holder or found is struct or field in {c.name for c in table.COLUMNS}, (
            f"{protocol}: no column for {name}"
        )
        want = found.get(field)
        if got is None and (name in in_map or name in ELSEWHERE.get(protocol, ())):
            continue
        if got == "" and name in EMPTY.get(protocol, ()):
            got = None
        if got != want:
            wrong.append(f"{name}: {got!r}, captures say {want!r}")
    return wrong


@pytest.mark.parametrize("protocol", MESSAGES)
def test_every_column_of_decode_batch_says_what_captures_say(protocol: str) -> None:
    import_module(f"wirefmt.{protocol}.columns")
    cases = [case for case, *_ in MESSAGES[protocol][0]()] + MADE.get(protocol, [])
    rows = [row for at in range(0, len(cases), 500) for row in captured(protocol, cases[at : at + 500])]
    wrong = []
    for case, captured_rows in zip(cases, rows, strict=True):
        for batch, row in zip(batch_rows(protocol, case), captured_rows, strict=True):
            if lines := differing(protocol, batch, {protocol: {}} | row):
                wrong.append(f"{'; '.join(lines)}; {case}")
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong[:20])


def transfers(*pieces: bytes, aborted: bool = False, **first: Any) -> bytes:
    """A delivery in as many transfers."""
    out = b""
    for i, piece in enumerate(pieces):
        last = i == len(pieces) - 1
        fields = {"delivery_id": 4, "delivery_tag": b"t", **first} if i == 0 else {}
        more, ends = (None, True) if last and aborted else (not last, None)
        out += amqp10.Transfer(handle=0, more=more, aborted=ends, payload=piece, **fields).encode()
    return out


BODY = amqp10.Message(body=b"payload").encode()
#: What no vector has: deliveries in several transfers, other message formats, protocol headers.
MADE = {
    "mqtt": [
        Case(mqtt.Publish(version=v, topic_name="t", payload=b"p", qos=1, packet_identifier=1, dup=d, retain=r).encode(), 0, v)
        for v in (3, 4, 5) for d in (False, True) for r in (False, True)
    ],
    "amqp091": [Case(b"AMQP\0\0\x09\1", 0), Case(amqp091.Heartbeat().encode(), 1)],
    "amqp10": [
        Case(transfers(BODY[:4], BODY[4:]), 0),
        Case(transfers(BODY[:4], BODY[4:], settled=True, message_format=0), 1),
        Case(transfers(BODY[:4], BODY[4:], aborted=True), 0),
        Case(transfers(b"opaque", message_format=0x80004200), 0),
        Case(transfers(b"", message_format=7), 0),
        Case(transfers(BODY, message_format=7), 1),
        Case(transfers(b"opa", b"que", message_format=7), 0),
        Case(b"AMQP\0\1\0\0", 0),
        Case(amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0u\0p").encode(), 0),
        Case(amqp10.EmptyFrame(channel=3).encode(), 1),
    ],
}  # fmt: skip


def stored_messages() -> Iterator[tuple[bytes, list[Any], list[Any]]]:
    """Responses with messages in them, and the messages: as they are, and not decompressed."""
    for row in vectors("rocketmq"):
        if row["kind"] == "stored-message":
            octets = bytes.fromhex(row["hex"])
            response = rocketmq.RemotingCommand(code=0, flag=1, opaque=7, body=octets, version=479).encode()
            unpacked, stored = (list(rocketmq.decode_messages(octets, decompress=unpack)) for unpack in (True, False))
            yield response, unpacked, stored


def test_rows_of_stored_messages() -> None:
    made = list(stored_messages())
    assert len(made) >= 7
    rows = captured("rocketmq", [Case(response, 1) for response, *_ in made])
    for (response, messages, raws), got in zip(made, rows, strict=True):
        assert len(got) == len(messages)
        header = row_of("rocketmq", rocketmq.decode(response), 1)
        header = {k: v for k, v in header.items() if not k.startswith("payload")}
        at = 0
        for i, (row, message, raw) in enumerate(zip(got, messages, raws, strict=True)):
            more = stored_row(message, raw)
            place = {"message_index": i, "message_count": len(messages)}
            want = header | more | {"rocketmq": header["rocketmq"] | more["rocketmq"] | place}
            size = raw.total_size + (len(response) - sum(m.total_size for m in raws) if i == 0 else 0)
            assert agree(row, want | {"byte_offset": at, "wire_size": size}) == []
            at += size


#: Columns that a message alone does not tell: what the connection has agreed on, what was asked before.
OF_CONNECTIONS = {"nsq": {"compression"}, "rocketmq": {"request_code"}}


def test_every_column_has_been_said() -> None:
    """By some vector: a column that none fills would not be looked at."""
    said: dict[str, set[str]] = {}
    for protocol, (made, _) in MESSAGES.items():
        for case, message, more in made():
            row = row_of(protocol, message, case.direction, **more)
            said.setdefault("", set()).update(row)
            said.setdefault(protocol, set()).update(row[protocol])
    for _, messages, raws in stored_messages():
        for message, raw in zip(messages, raws, strict=True):
            said["rocketmq"].update({"message_index", "message_count", *stored_row(message, raw)["rocketmq"]})
    columns = {c.name for c in table.COLUMNS} - {*CONTEXT, *APART, "wire_size", "error"}
    assert columns - said[""] == set()
    for each in [each for each in PROTOCOLS if each.name in MESSAGES]:
        assert {f.name for f in each.columns().FIELDS} - said[each.name] == OF_CONNECTIONS.get(each.name, set()), (
            each.name
        )


#: Numbers for which fifteen significant digits are not enough, and others; by IEEE 754 seventeen always are.
DOUBLES = (
    0.1, 0.3, 1e22, 123456789012345.0, 1 / 3, 9007199254740993.0, 0.1 + 0.2, 1.7976931348623157e308,
    2.2250738585072014e-308, 4503599627370497.5, -1.0000000000000002, 5e-324,
)  # fmt: skip
#: ... of 32 bits: six are not, nine are.
FLOATS = (0.1, 16777217.0, 1 / 3, 3.4028234663852886e38, 1.1754943508222875e-38, -8388609.0, 1.00000011920929)


def significant(text: str) -> int:
    return len(text.partition("e")[0].replace("-", "").replace(".", "").strip("0"))


@pytest.mark.parametrize("value", DOUBLES)
def test_doubles_are_read_back_as_they_were(value: float) -> None:
    headers = amqp091.BasicProperties(headers=[("d", amqp091.FieldValue("d", value)), ("nested", {"d": value})])
    octets = amqp091.BasicMessage(
        amqp091.BasicPublish(channel=1, exchange="", routing_key="q"), properties=headers, body=b""
    ).encode()
    message = amqp10.Message(application_properties={"d": value}, body=amqp10.AmqpValue([value])).encode()
    transfer = amqp10.Transfer(handle=0, delivery_id=0, payload=message).encode()
    for protocol, data in (("amqp091", octets), ("amqp10", transfer)):
        ((row,),) = captured(protocol, [Case(data, 0)])
        shown = dict(row["headers"])["d"]
        assert float(shown) == value
        assert significant(shown) <= 17
        nested = (
            json.loads(row["payload"])[0] if protocol == "amqp10" else json.loads(dict(row["headers"])["nested"])["d"]
        )
        assert nested == value
        (batch,) = batch_rows(protocol, Case(data, 0))
        assert float(dict(batch["headers"])["d"]) == value


@pytest.mark.parametrize("value", FLOATS)
def test_floats_are_read_back_as_they_were(value: float) -> None:
    narrow = struct.unpack(">f", struct.pack(">f", value))[0]
    headers = amqp091.BasicProperties(headers=[("f", amqp091.FieldValue("f", narrow))])
    octets = amqp091.BasicMessage(
        amqp091.BasicPublish(channel=1, exchange="", routing_key="q"), properties=headers, body=b""
    ).encode()
    message = amqp10.Message(application_properties={"f": amqp10.Float(narrow)}, body=b"").encode()
    transfer = amqp10.Transfer(handle=0, delivery_id=0, payload=message).encode()
    for protocol, data in (("amqp091", octets), ("amqp10", transfer)):
        ((row,),) = captured(protocol, [Case(data, 0)])
        shown = dict(row["headers"])["f"]
        assert struct.pack(">f", float(shown)) == struct.pack(">f", narrow)
        assert significant(shown) <= 9


@pytest.mark.parametrize(
    "char", ["\0", "\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0001f600", "\U0010ffff"]
)
def test_characters_are_utf8(char: str) -> None:
    """RFC 3629, 3: one to four octets."""
    message = amqp10.Message(
        application_properties={"c": amqp10.Char(char)}, body=amqp10.AmqpValue([amqp10.Char(char)])
    )
    transfer = amqp10.Transfer(handle=0, delivery_id=0, payload=message.encode()).encode()
    ((row,),) = captured("amqp10", [Case(transfer, 0)])
    assert dict(row["headers"]) == {"c": char}
    assert json.loads(row["payload"]) == [char]
