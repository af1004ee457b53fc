"""Fuzz targets of AMQP 0.9.1: single frames, streams of frames and contents, tables, batches."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

from common import Case, check_columns, check_counted, check_rebuilt, feed, pyarrow, read, rows, same

from wirefmt import amqp091
from wirefmt.errors import DecodeError, EncodeError


def whole(row: dict[str, Any]) -> bytes:
    """A vector as frames: parts of frames are put into a frame."""
    octets = bytes.fromhex(row["hex"])
    if row["kind"] in ("frame", "sequence"):
        return octets
    kind, channel = 2, 1
    if row["kind"] == "method":
        kind, channel = 1, int(octets[:2] != b"\0\x0a")
    else:
        flags = b"" if row["kind"] == "properties" else b"\x20\0"
        octets = b"\0\x3c" + bytes(10) + flags + octets
    return bytes((kind, 0, channel)) + len(octets).to_bytes(4, "big") + octets + b"\xce"


SIDES = ("client", "server", None)


def options_of(octet: int) -> dict[str, Any]:
    return {"side": SIDES[octet % 3], "frame_max": 0 if octet & 0x20 else 131072}


def seeds() -> Iterator[bytes]:
    sides = {"client": 0, "server": 1, "both": 2}
    for row in rows("amqp091"):
        yield bytes([sides[row["side"]]]) + whole(row)


def stream_seeds() -> Iterator[bytes]:
    kept = b""
    for row in rows("amqp091"):
        if row["kind"] == "sequence":
            yield bytes([2, len(row["hex"]) % 40]) + whole(row)
        elif row["valid"] and len(row["hex"]) < 400:
            kept += whole(row)
            if len(kept) > 500:
                yield bytes([2, len(kept) % 40]) + kept
                kept = b""


def table_seeds() -> Iterator[bytes]:
    yield from (bytes.fromhex(row["hex"]) for row in rows("amqp091") if row["kind"] == "table")


def touch(message: Any) -> None:
    """Every field, as a reader sees it."""
    repr(message), hash(message)
    for name in type(message).__match_args__:
        getattr(message, name)
    if isinstance(message, amqp091.ContentHeader):
        touch_table(message.properties.headers)
    for name in ("arguments", "client_properties", "server_properties"):
        touch_table(getattr(message, name, None))


def touch_table(table: Any) -> None:
    if isinstance(table, amqp091.FieldTable):
        entries = table.entries
        same([(n, v) for n, _, v in entries] == list(table.pairs) or "nan" in repr(entries), True, "entries, pairs")
        written = [(name, amqp091.FieldValue(letter, value)) for name, letter, value in entries if letter != "f"]
        if len(written) == len(entries) and "F" not in (e[1] for e in entries):
            same(len(amqp091.FieldTable(written).encode()), len(table.encode()), "octets of a table")


def frame(data: bytes) -> None:
    if not data:
        return
    options, octets = options_of(data[0]), data[1:]
    strict, lax = read(amqp091, octets, **options), read(amqp091, octets, **options, strictness="lax")
    if not isinstance(strict, DecodeError):
        same(strict, lax, "STRICT and LAX")
        check_rebuilt(strict, lambda again: amqp091.decode(again, **options))
        same(strict.notes, (), "notes")
        columns(octets, strict, options["side"])
    if isinstance(lax, DecodeError):
        return
    touch(lax)
    lax.notes  # noqa: B018
    try:
        size = amqp091.frame_size(octets, frame_max=options["frame_max"], strictness="lax")
    except DecodeError as error:
        raise AssertionError("frame_size refuses what decode reads") from error
    same(size, len(octets), "frame_size")


def columns(octets: bytes, frame: Any, known: str | None) -> None:
    """For a frame that is a message by itself, or a content header, with a method before and a body after it."""
    if isinstance(frame, amqp091.ContentHeader):
        if frame.body_size > 3:
            return
        octets = amqp091.BasicPublish(channel=frame.channel, exchange="e", routing_key="k").encode() + octets
        if frame.body_size:
            octets += amqp091.Body(channel=frame.channel, payload=b"abc"[: frame.body_size]).encode()
    elif isinstance(frame, amqp091.Body) or (isinstance(frame, amqp091.Method) and frame.has_content):
        return
    for direction, side in enumerate(SIDES[:2]):
        found, error = feed(amqp091.Assembler, octets, [], side=side)
        if known in (side, None) and len(found) == 1 and not error:
            bodies = int(frame.body_size > 0) if isinstance(frame, amqp091.ContentHeader) else None
            batch = {"side": side, "expose_credentials": True}
            check_columns("amqp091", amqp091, Case(octets, direction), found[0], batch, body_frames=bodies)


def stream(data: bytes) -> None:
    if len(data) < 2:
        return
    options, step, octets = options_of(data[0]), data[1] % 40 + 1, data[2:]
    if data[0] & 0x80:
        options["strictness"] = "lax"
    cuts = list(range(step, len(octets), step))
    for kind in (amqp091.Decoder, amqp091.Assembler):
        all_at_once, parts = feed(kind, octets, [], **options), feed(kind, octets, cuts, **options)
        same(parts[0][: len(all_at_once[0])], all_at_once[0], "messages of a stream in parts")
        same(parts[1], all_at_once[1], "error of a stream in parts")
    check_counted(amqp091.Decoder, octets, feed(amqp091.Decoder, octets, [], **options)[0], **options)
    for message in parts[0]:
        again, _ = feed(amqp091.Assembler, message.encode(), [], frame_max=0)
        if options.get("strictness") != "lax":
            same(again, [message], "a message, encoded and decoded")
            check_rebuilt(message, lambda octets: feed(amqp091.Assembler, octets, [], frame_max=0)[0][0])
        if isinstance(message, amqp091.BasicMessage):
            content(message)


def content(message: Any) -> None:
    """A method with its content equals its copy, the same content in other frames, and its detached form."""
    body = message.body_bytes()
    repr(message)
    same((bytes(message.body), bytes(memoryview(message)), sum(message.body_sizes)), (body, body, len(body)), "body")
    same((message.header.body_size, message.header.channel), (len(body), message.channel), "header")
    same(message.header.properties, message.properties, "properties of the header")
    for made in (message.detach(), pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        same((made, hash(made), made.body_sizes), (message, hash(message), message.body_sizes), "copied")
        same(made.encode(), message.encode(), "octets of a copy")
    for frame_max in (0, 9, 4096):
        (again,), error = feed(
            amqp091.Assembler, message.encode(frame_max=frame_max), [], frame_max=0, strictness="lax"
        )
        same((again, error), (message, ""), f"in frames of {frame_max}")
        made = amqp091.BasicMessage(message.method, message.properties, body, frame_max=frame_max)
        same((made, made.body_sizes), (message, again.body_sizes), "built in frames")
        same(made.header, again.header, "its header")
    assembler = amqp091.Assembler(strictness="lax")
    assembler.frame_max = 9
    same(assembler.frame_max, 9, "frame_max")
    for refused in (lambda: amqp091.BasicMessage(amqp091.BasicAck(channel=1)), lambda: message.encode(frame_max=8)):
        try:
            refused()
        except EncodeError:
            continue
        raise AssertionError("not refused")
    try:
        restore: Any = message.__reduce__()[0]
        restore(message.method, message.header, body + b"x", message.body_sizes)
    except ValueError:
        return
    raise AssertionError("a body that is not of its header")


def table(data: bytes) -> None:
    try:
        found = amqp091.FieldTable.decode(data)
    except DecodeError as error:
        str(error)
        same(0 <= error.offset <= len(data), True, f"offset {error.offset}")
        return
    made = amqp091.FieldTable([(name, amqp091.FieldValue(letter, value)) for name, letter, value in found.entries])
    if "nan" not in repr(found.entries):
        same(made.entries, found.entries, "a table of its entries")
    touch_table(found)
    hash(found), repr(found)
    try:
        amqp091.FieldTable([("deeper", found)])
    except EncodeError as error:
        same("nested" in str(error), True, str(error))


def batch(data: bytes) -> None:
    """Rows equal an Assembler's messages, up to the first error."""
    if not data:
        return
    options, octets = options_of(data[0]), data[1:]
    columns = amqp091.decode_batch(octets, **options)
    if pyarrow is not None and len(octets) % 4 == 0:
        pyarrow.record_batch(columns).validate(full=True)
    found, error = feed(amqp091.Assembler, octets, [], **options, strictness="lax", pending_max=0)
    if error:
        return
    same(columns.num_rows, len(found), "rows")
    same(bool(columns.validity("error").any()), False, "errors")
    for row, message in enumerate(found):
        if isinstance(message, amqp091.BasicMessage):
            same(columns["payload"][row], message.body_bytes(), "payload")
        elif isinstance(message, amqp091.Method):
            same(columns["kind"][row], message.name, "kind")


TARGETS = {
    "amqp091_frame": (frame, seeds),
    "amqp091_stream": (stream, stream_seeds),
    "amqp091_table": (table, table_seeds),
    "amqp091_batch": (batch, stream_seeds),
}
