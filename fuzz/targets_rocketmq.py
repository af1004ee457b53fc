"""Fuzz targets of RocketMQ: frames, streams, columns, bodies, captures."""

from __future__ import annotations

import contextlib
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any

from common import Case, check_columns, check_counted, feed, rows, same

from lib.protocols import part
from wirefmt import rocketmq
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.errors import DecodeError, EncodeError
from wirefmt.framing import Limits


def octets_of(*kinds: str) -> Iterator[bytes]:
    yield from (bytes.fromhex(row["hex"]) for row in rows("rocketmq") if row["kind"] in kinds and row["hex"])


def frame_seeds() -> Iterator[bytes]:
    yield from octets_of("request", "response", "captured-frame", "frame-accepted", "malformed-frame")
    for form in ("JSON", "ROCKETMQ"):
        for body in (b"", b'{"password":"p"}', b"x"):
            for fields in (EXTRA, EXTRA | {"topic": "t", "queueId": "1", "unitMode": "true"}, {"a": "\u00e9\n"}):
                command = rocketmq.RemotingCommand(
                    code=10, opaque=3, ext_fields=fields, body=body, remark="r", serialize_type=form
                )
                yield command.encode()
    for text in (
        b"[" * 5000,
        b'{"a":' * 500,
        b'{"extFields":{' + b'"a":"b",' * 2000 + b"}}",
        b'{"code":1e99}',
        b"{" + b"," * 4000,
    ):
        yield struct.pack(">II", len(text) + 4, len(text)) + text
    yield struct.pack(">II", 100, 0xFFFFFF)
    yield struct.pack(">IIhbhiii", 25, 1 << 24 | 21, 10, 0, 0, 1, 0, -1) + bytes(4)
    yield struct.pack(">I", 1 << 31)


def attempt(run: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A result, or None and a valid error."""
    try:
        return run(*args, **options)
    except DecodeError as error:
        str(error)
        same(error.protocol, "rocketmq", "protocol")
        same(error.offset >= 0, True, f"offset {error.offset}")
        return None


def command(data: bytes) -> None:
    """One frame: access everything; its octets give an equal one; its values make an equivalent one."""
    found = attempt(rocketmq.decode, data)
    if found is None:
        return
    same(rocketmq.decode(data), found, "again")
    repr(found), hash(found), found.header, found.name
    for request in (10, 11, 14, 34, 105, 200050):
        for strictness in ("strict", "lax"):
            with contextlib.suppress(ValueError):
                attempt(found.decode_header, request=request, strictness=strictness)
        attempt(found.decode_body, request=request)
    same(rocketmq.frame_size(data), len(data), "frame_size")
    same((found.detach(), pickle.loads(pickle.dumps(found))), (found, found), "copied")
    if found.header is not None:
        typed(found)
    fields = found.ext_fields
    known = None if fields is None else {k: v for k, v in fields.items() if k is not None}
    try:
        built = rocketmq.RemotingCommand(
            code=found.code, flag=found.flag, opaque=found.opaque, remark=found.remark, ext_fields=known,
            body=found.body_bytes(), language=found.language, version=found.version, serialize_type=found.serialize_type,
        )  # fmt: skip
    except EncodeError:
        return
    if found.serialize_type == "JSON":
        same(built.ext_fields, None if known is None else {k: v for k, v in known.items() if v is not None}, "fields")
    same((built.flag, built.version), (found.flag, found.version), "header")
    if found.language is not None:  # an unknown one cannot be written
        same(built.language, found.language, "language")
    same((built.code, built.opaque, built.remark), (found.code, found.opaque, found.remark), "header")
    same(built.body_bytes(), found.body_bytes(), "body")
    again = rocketmq.decode(built.encode())
    same(again, built, "rebuilt from its fields, written and read")
    if part("rocketmq", "rows").is_plain_command(found) and known is not None and len(known) == len(fields):
        case = Case(data, int(found.is_response))
        check_columns("rocketmq", rocketmq, case, found, {"expose_credentials": True})


def typed(found: Any) -> None:
    """A command of its typed header equals one of a mapping of the same fields."""
    header = found.header
    values = header.ext_fields()
    for form in ("JSON", "ROCKETMQ"):
        options = {"code": found.code, "opaque": found.opaque or 0, "serialize_type": form, "body": found.body_bytes()}
        try:
            given = rocketmq.RemotingCommand(header=header, **options)
            more = rocketmq.RemotingCommand(header=header, ext_fields={"more": "m", **EXTRA}, **options)
            mapped = rocketmq.RemotingCommand(ext_fields=values, **options)
        except EncodeError:
            continue
        same(given, mapped, f"a typed header as {form}")
        same((hash(given), given.ext_fields), (hash(mapped), mapped.ext_fields), "fields")
        for made in (given, more):
            again = rocketmq.decode(made.encode())
            same((again, again.header), (made, made.header), f"written as {form}")
        for name, value in EXTRA.items():
            same((more.ext_fields or {})[name], value, "a field beside the typed ones")


#: More fields than the initial capacity of a command.
EXTRA = {f"name{i}": str(i) for i in range(40)}


def stream(data: bytes) -> None:
    """A Decoder's result does not depend on the split; a batch has the rows of the commands."""

    for limits in (Limits(frame_size=300, elements=8), Limits()):
        parts = feed(rocketmq.Decoder, data, list(range(7, len(data), 7)), limits=limits)
        whole = feed(rocketmq.Decoder, data, [], limits=limits)
        same(parts, whole, "a stream in parts")
        check_counted(rocketmq.Decoder, data, whole[0], limits=limits)
    batch = rocketmq.decode_batch(data, expose_credentials=True)
    found = list(zip(batch["byte_offset"].tolist(), batch["code"].tolist(), batch["error"].tolist(), strict=True))
    good = [code for _, code, error in found if error is None]
    same(good[: len(whole[0])], [c.code for c in whole[0]], "rows")
    same(batch.rest <= len(data), True, "rest")


def bodies(data: bytes) -> None:
    """Stored messages, batches, properties, JSON bodies."""
    strict = attempt(rocketmq.decode_messages, data, body_size=1 << 20)
    lax = attempt(rocketmq.decode_messages, data, strictness="lax", body_size=1 << 20)
    if strict is not None:
        same(strict, lax, "lax")
    for message in lax or ():
        repr(message), hash(message), message.msg_id, message.properties, message.born_host
    for message in attempt(rocketmq.decode_messages, data, decompress=False) or ():
        fields = {name: getattr(message, name) for name in message.__match_args__}
        with contextlib.suppress(EncodeError):
            same(rocketmq.MessageExt(**fields).topic, message.topic, "topic")
    items = attempt(rocketmq.decode_batch_messages, data)
    if items:
        for item in items:
            repr(item), item.properties
    rocketmq.decode_properties(data)
    value = attempt(rocketmq.decode_json, data)
    with contextlib.suppress(EncodeError):
        rocketmq.encode_json(value)
    for found in (
        rocketmq.HeartbeatData,
        rocketmq.TopicRouteData,
        rocketmq.ClusterInfo,
        rocketmq.BatchAckMessageRequestBody,
    ):
        body = attempt(found.decode, data)
        if body is not None:
            repr(body), hash(body)
            with contextlib.suppress(EncodeError):
                same(found.decode(body.encode()), body, "body")


def body_seeds() -> Iterator[bytes]:
    yield from octets_of("stored-message", "malformed-stored-message", "batch-body", "properties-string")
    for row in octets_of("request", "response", "captured-frame"):
        body = rocketmq.decode(row).body_bytes()
        if body:
            yield body
    yield b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1"}}}}'
    yield b"[" * 64 + b"]" * 64


def flow(data: bytes) -> None:
    """Both directions of a connection in a capture, in pieces of 200 octets, one of them lost."""
    if len(data) < 2:
        return
    lost, data = data[0], data[1:]
    seq = [1000, 5000]
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)]
    for i, at in enumerate(range(0, len(data), 200)):
        side, payload = (data[at] >> 3) & 1, data[at : at + 200]
        ends = (0x0A000002, 40000), (0x0A000001, 10911)
        (src, sport), (dst, dport) = ends[side], ends[1 - side]
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, src, dst)
        tcp = struct.pack(">HHIIBBHHH", sport, dport, seq[side], seq[1 - side], 0x50, 0x18, 65535, 0, 0)
        seq[side] += len(payload)
        if i == lost:
            continue
        frame = bytes.fromhex("020000000002 020000000001 0800") + ip + tcp + payload
        out.append(struct.pack("<IIII", i, 0, len(frame), len(frame)) + frame)
    decoder = CaptureDecoder(decode_as="tcp.port==10911,rocketmq", detail=True)
    decoder.begin_file("c", 0)
    decoder.feed(b"".join(out))
    decoder.end_file()
    decoder.finish()
    batch = decoder.take(final=True)
    if batch is not None:
        same(set(batch["status"].tolist()) <= {"ok", "partial", "gap", "malformed"}, True, "status")
        same(
            all(0 < len(line.encode()) <= 200 for line in batch["detail"].tolist() if line is not None), True, "detail"
        )


def flow_seeds() -> Iterator[bytes]:
    for octets in octets_of("request", "response", "captured-frame"):
        yield b"\xff" + octets
        yield b"\x01" + octets * 3


TARGETS = {
    "rocketmq_command": (command, frame_seeds),
    "rocketmq_stream": (stream, frame_seeds),
    "rocketmq_bodies": (bodies, body_seeds),
    "rocketmq_capture": (flow, flow_seeds),
}
