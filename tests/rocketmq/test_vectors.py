"""Every vector, compared as the real Java code has it; frames four ways."""

from __future__ import annotations

import json
import pickle

import pytest

from lib.groups import each_vector
from lib.rocketmq_vectors import FRAMES, Vector, commands_of, load, message_fields, of, rebuilt, shown
from wirefmt import rocketmq
from wirefmt.errors import DecodeError, Truncated
from wirefmt.framing import NEED_DATA

#: Where a HashMap's order depends on what the Java program did before: the order in which it put in two fields of one
#: place, or how it made the map (edge-ext: a map of its own).
OTHER_ORDER = {"rmq-cap-json-031", "rmq-cmd-create-topic-json", "rmq-edge-ext-json"}
#: A value without octets is null once read: it is not written again.
LOSSY = {"rmq-edge-ext-rocketmq"}
#: Binary headers cut the code to 16 bits: no header class is known, and the order is that of a map.
CUT = {v.id for v in load() if "wraps to" in v.row.get("note", "") and v.id.endswith("rocketmq")}


def test_there_are_vectors() -> None:
    kinds = {v.kind for v in load()}
    assert len(load()) == 314
    assert kinds >= FRAMES | {"frame-accepted", "malformed-frame", "stored-message", "batch-body", "captured-session"}


def feed_one_by_one(decoder: rocketmq.Decoder, octets: bytes) -> None:
    for octet in octets:
        decoder.feed(bytes((octet,)))


# ---- frames


@each_vector(of(*FRAMES, "frame-accepted"))
def test_frame_whole(vector: Vector) -> None:
    decoder = rocketmq.Decoder()
    commands = decoder.feed(vector.octets)
    decoder.close()
    for command, decoded in zip(commands, commands_of(vector), strict=True):
        ours = shown(command)
        assert {k: v for k, v in ours.items() if k in decoded} == {k: v for k, v in decoded.items() if k in ours}
    if vector.kind in FRAMES:
        assert commands == [rocketmq.decode(vector.octets)]
        assert rocketmq.frame_size(vector.octets) == len(vector.octets)


@each_vector(of(*FRAMES, "frame-accepted"))
def test_frame_octet_by_octet(vector: Vector) -> None:
    decoder = rocketmq.Decoder()
    commands = [c for octet in vector.octets for c in decoder.feed(bytes((octet,)))]
    decoder.close()
    assert commands == rocketmq.Decoder().feed(vector.octets)
    for n in range(4):
        assert rocketmq.frame_size(vector.octets[:n]) is NEED_DATA
    assert rocketmq.frame_size(vector.octets[:4]) == 4 + int.from_bytes(vector.octets[:4], "big")


@each_vector(of(*FRAMES, "frame-accepted"))
def test_frame_with_octets_behind(vector: Vector) -> None:
    decoder = rocketmq.Decoder()
    commands = decoder.feed(vector.octets + b"\0\0\1\0\1")
    assert commands == rocketmq.Decoder().feed(vector.octets)
    assert decoder.pending == 5
    with pytest.raises(Truncated):
        decoder.close()
    if vector.kind in FRAMES:
        with pytest.raises(DecodeError, match="bytes after the frame"):
            rocketmq.decode(vector.octets + b"\0")


@each_vector(of(*FRAMES, "frame-accepted"))
def test_frame_split(vector: Vector) -> None:
    whole = rocketmq.Decoder().feed(vector.octets)
    for at in range(0, len(vector.octets), max(1, len(vector.octets) // 40)):
        decoder = rocketmq.Decoder()
        assert decoder.feed(vector.octets[:at]) + decoder.feed(vector.octets[at:]) == whole


@each_vector(of(*FRAMES))
def test_frame_again(vector: Vector) -> None:
    """Octets, pickles and values make the same command; values make the same octets."""
    command = rocketmq.decode(bytearray(vector.octets))
    assert rocketmq.encode(command) == vector.octets
    assert pickle.loads(pickle.dumps(command)) == command == command.detach()
    assert hash(command) == hash(rocketmq.decode(vector.octets))
    again = rebuilt(command)
    if vector.id in LOSSY:
        assert again != command
        return
    assert again == command
    if vector.id not in OTHER_ORDER | CUT:
        assert again.encode() == vector.octets


@each_vector(of("malformed-frame"))
def test_malformed_frame(vector: Vector) -> None:
    with pytest.raises(DecodeError) as caught:
        rocketmq.Decoder().feed(vector.octets)
    assert caught.value.protocol == "rocketmq"
    assert 0 <= caught.value.offset <= len(vector.octets)
    assert caught.value.reply is None
    with pytest.raises(DecodeError) as one_by_one:
        feed_one_by_one(rocketmq.Decoder(), vector.octets)
    assert str(one_by_one.value) == str(caught.value)
    with pytest.raises(DecodeError):
        rocketmq.decode(vector.octets)


@each_vector(of("frame-incomplete"))
def test_incomplete_frame(vector: Vector) -> None:
    decoder = rocketmq.Decoder()
    assert decoder.feed(vector.octets) == []
    assert decoder.pending == len(vector.octets)
    with pytest.raises(Truncated):
        rocketmq.decode(vector.octets)


@each_vector(of(*FRAMES, "frame-accepted"))
def test_frame_as_columns(vector: Vector) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
    batch = rocketmq.decode_batch(vector.octets, expose_credentials=True)
    rows = pa.table(batch).to_pylist()
    assert batch.rest == 0
    for row, command in zip(rows, rocketmq.Decoder().feed(vector.octets), strict=True):
        fields = command.ext_fields
        assert row["error"] is None
        assert row["sequence"] == command.opaque
        for name in ("code", "flag", "language", "version", "serialize_type", "remark"):
            assert row[name] == getattr(command, name)
        assert row["payload"] == command.body_bytes()
        assert (row["ext_fields"] is None) == (fields is None)
        if fields is not None:
            said = {k: v for k, v in fields.items() if k is not None and v is not None}
            assert dict(row["ext_fields"]) == said
            letters = command.code in (310, 320, 325)
            assert row["destination"] == said.get("b" if letters else "topic")
            assert row["properties"] == said.get("i" if letters else "properties")


@each_vector(of("captured-session"))
def test_session(vector: Vector) -> None:
    """Both directions of a real connection: every frame, its code, and which request a response answers."""
    decoders = {"c2s": rocketmq.Decoder(), "s2c": rocketmq.Decoder()}
    asked: dict[tuple[str, int | None], int] = {}
    for frame in vector.row["frames"]:
        if frame.get("eof"):
            continue
        (command,) = decoders[frame["dir"]].feed(bytes.fromhex(frame["hex"]))
        assert (command.code, command.opaque, command.flag) == (frame["code"], frame["opaque"], frame["flag"])
        if not command.is_response:
            asked[frame["dir"], command.opaque] = command.code
            assert frame["responds_to"] is None
            continue
        other = "s2c" if frame["dir"] == "c2s" else "c2s"
        assert asked.get((other, command.opaque)) == frame["responds_to"]
        if frame["responds_to"] is not None:
            body = command.decode_body(request=frame["responds_to"])
            if frame["responds_to"] == 11 and command.code == 0:
                assert body
                assert b"".join(m.encode() for m in body) == command.body_bytes()
            if rocketmq.header_class(frame["responds_to"], response=True) and command.code in (0, 19):
                command.decode_header(request=frame["responds_to"])


@each_vector(of("server-transcript"))
def test_transcript(vector: Vector) -> None:
    """What real servers answered is read as they meant it; what they closed the connection for, we refuse."""
    decoded = vector.decoded
    replies = rocketmq.Decoder().feed(bytes.fromhex(decoded["reply_hex"]))
    for reply, said in zip(replies, decoded["responses"], strict=True):
        assert (reply.code, reply.flag, reply.version) == (said["code"], said["flag"], said["version"])
        if said["opaque"] is not None:
            assert reply.opaque == said["opaque"]
        assert reply.remark == said.get("remark") or said["remark"].endswith("...")
        assert reply.serialize_type == ("JSON", "ROCKETMQ")[said["serialize"]]
        if said.get("extFields"):
            assert reply.ext_fields == said["extFields"]
        body = b"" if reply.body is None else bytes(reply.body)
        assert body.hex() == said["body_hex"] or said["body_hex"].endswith("...")
    if decoded["connection_closed_by_server"] and "short-first" not in vector.id and "split" not in vector.id:
        prefaces = ("http", "tls", "proxy")
        decoder = rocketmq.Decoder()
        if any(word in vector.id for word in prefaces) or "after" in vector.id or not decoded["responses"]:
            with pytest.raises(DecodeError):
                decoder.feed(vector.octets)


# ---- bodies


@each_vector(of("stored-message"))
def test_stored_message(vector: Vector) -> None:
    messages = rocketmq.decode_messages(vector.octets, check_crc=True)
    for message, decoded in zip(messages, vector.decoded["messages"], strict=True):
        for name, value in message_fields(decoded).items():
            assert getattr(message, name) == value, name
        assert pickle.loads(pickle.dumps(message)) == message
    assert b"".join(m.encode() for m in messages) == vector.octets
    stored = rocketmq.decode_messages(vector.octets, decompress=False)
    for message in stored:
        fields = {name: getattr(message, name) for name in message.__match_args__}
        again = rocketmq.MessageExt(**fields)
        assert again == message
        assert again.encode() == message.encode()


@each_vector(of("malformed-stored-message"))
def test_malformed_stored_message(vector: Vector) -> None:
    expected = vector.decoded.get("messages", [])
    messages = rocketmq.decode_messages(vector.octets, strictness="lax")
    for message, decoded in zip(messages, expected, strict=True):
        for name, value in message_fields(decoded).items():
            assert getattr(message, name) == value, name
    assert sum(m.total_size for m in messages) == sum(d["storeSize"] for d in expected)
    if not expected or "then-bad" in vector.id:
        with pytest.raises(DecodeError) as caught:
            rocketmq.decode_messages(vector.octets)
        assert len(caught.value.messages) == len(expected)
    if vector.decoded.get("with_crc_check") == "rejected":
        with pytest.raises(DecodeError):
            rocketmq.decode_messages(vector.octets, check_crc=True)


@each_vector(of("batch-body"))
def test_batch_body(vector: Vector) -> None:
    messages = rocketmq.decode_batch_messages(vector.octets)
    assert [
        {"flag": m.flag, "body_hex": m.body.hex(), "properties": dict(m.properties)} for m in messages
    ] == vector.decoded["messages"]
    built = [rocketmq.Message(body=m.body, properties=m.properties, flag=m.flag) for m in messages]
    assert rocketmq.encode_batch_messages(built) == vector.octets


@each_vector(of("properties-string"))
def test_properties_string(vector: Vector) -> None:
    assert rocketmq.decode_properties(vector.octets) == vector.decoded["properties"]
    assert rocketmq.decode_properties(vector.octets.decode()) == vector.decoded["properties"]


@each_vector(of("properties-encode"))
def test_properties_encode(vector: Vector) -> None:
    given = dict(pair.split("=", 1) for pair in vector.decoded["input_order"])
    properties = {name: None if value == "null" else value for name, value in given.items()}
    assert rocketmq.encode_properties(properties).encode() == vector.octets
    assert rocketmq.decode_properties(vector.octets) == vector.decoded["reparsed"]


@each_vector(of("offset-message-id"))
def test_offset_message_id(vector: Vector) -> None:
    decoded = vector.decoded
    address, port, offset = rocketmq.decode_message_id(decoded["text"])
    assert bytes.fromhex(decoded["text"]) == vector.octets
    assert (port, offset) == (decoded["port"], decoded["offset"])
    assert rocketmq.encode_message_id(decoded["host"], port, offset) == decoded["text"]
    assert rocketmq.encode_message_id(address, port, offset) == decoded["text"]


@each_vector(of("client-unique-id"))
def test_client_unique_id(vector: Vector) -> None:
    parts = rocketmq.decode_unique_id(vector.decoded["text"])
    assert parts[1] == vector.decoded["pid"]
    assert rocketmq.encode_unique_id(vector.decoded["ip"], *parts[1:]) == vector.decoded["text"]


@each_vector(of("acl-signed-request"))
def test_acl(vector: Vector) -> None:
    command = rocketmq.decode(vector.octets)
    assert rocketmq.signed_bytes(command).hex() == vector.decoded["signed_bytes_hex"]
    assert rocketmq.signature(command, vector.decoded["secret_key"]) == vector.decoded["signature"]
    plain = rebuilt(command)
    fields = {k: v for k, v in (plain.ext_fields or {}).items() if k not in ("AccessKey", "Signature", "SecurityToken")}
    unsigned = rocketmq.RemotingCommand(
        code=command.code,
        opaque=command.opaque,
        ext_fields=fields,
        body=command.body_bytes(),
        language="JAVA",
        version=0,
    )
    signed = rocketmq.sign(
        unsigned,
        access_key=vector.decoded["access_key"],
        secret_key=vector.decoded["secret_key"],
        security_token=vector.decoded["security_token"],
    )
    assert signed == command
    assert signed.encode() == vector.octets
    assert vector.decoded["signature"] not in repr(command)


def test_every_json_body_is_what_its_class_says() -> None:
    """Bodies of the real programs: the object of the class encodes to the same JSON."""
    seen = set()
    for vector in of("request", "captured-frame"):
        command = rocketmq.decode(vector.octets)
        found = rocketmq.body_class(command.code)
        if command.is_response or found is None or command.body is None:
            continue
        body = found.decode(command.body)
        ours, theirs = json.loads(body.encode()), json.loads(bytes(command.body))
        assert ours == theirs
        assert pickle.loads(pickle.dumps(body)) == body
        seen.add(found.__name__)
    assert {"HeartbeatData", "LockBatchRequestBody", "BatchAckMessageRequestBody"} <= seen
