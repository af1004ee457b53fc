"""Fuzz targets of AMQP 1.0: values, frames, messages, streams with deliveries in several transfers, batches."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from common import Case, check_columns, pyarrow, rebuilt, rows, same

from wirefmt import amqp10
from wirefmt.errors import DecodeError, EncodeError
from wirefmt.framing import Limits

LIMITS = (Limits(frame_size=131072), Limits(frame_size=131072, elements=50), Limits(frame_size=1 << 20, elements=0))


def octets_of(*kinds: str) -> Iterator[bytes]:
    yield from (bytes.fromhex(row["hex"]) for row in rows("amqp10") if row["kind"] in kinds)


def bombs() -> Iterator[bytes]:
    """Expensive values: nesting of every kind, arrays of elements without octets, wrong sizes and counts."""
    for depth in (60, 64, 65, 200, 5000):
        yield b"\xd0\0\0\x10\0\0\0\0\1" * depth + b"\x40"
        yield b"\0" * depth + b"\x40" * (depth + 1)
        yield b"\0\x53\1" * depth + b"\x40"
        yield b"\xf0\0\0\x10\0\0\0\0\1" * depth + b"\x40"
    for code in b"\x40\x41\x42\x43\x44\x45\x56\xc0\xf0\0":
        yield b"\xf0\0\0\0\5\xff\xff\xff\xff" + bytes([code])
        yield b"\xd0\0\0\1\0\0\0\0\x10" + (b"\xf0\0\0\0\5\0\1\0\0" + bytes([code])) * 16
    yield b"\xd1\xff\xff\xff\xff\xff\xff\xff\xfe"
    yield b"\xd1\0\0\x20\4\0\0\x20\0" + b"\x40" * 8192
    yield b"\xd1\0\0\x20\4\0\0\x20\0" + b"\x45" * 8192


def value_seeds() -> Iterator[bytes]:
    for octets in (*octets_of("value"), *bombs()):
        yield b"\0" + octets


def frame_seeds() -> Iterator[bytes]:
    for octets in octets_of("frame", "sasl"):
        yield b"\0" + octets
    for octets in bombs():
        body = b"\0\x53\x10" + octets
        yield b"\0" + (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body


def message_seeds() -> Iterator[bytes]:
    for octets in octets_of("message"):
        yield b"\0" + octets
    for octets in bombs():
        yield b"\0\0\x53\x77" + octets
        yield b"\0\0\x53\x74" + octets + b"\0\x53\x75\xa0\0"


def stream_seeds() -> Iterator[bytes]:
    kept = b""
    for octets in (*octets_of("frame", "sequence"), *octets_of("message")):
        if octets[:2] == b"\0\x53":  # a message, in a transfer or in two
            half = len(octets) // 2
            pieces = [octets] if half % 2 else [octets[:half], octets[half:]]
            octets = b"".join(
                amqp10.Transfer(
                    handle=half % 3, delivery_id=half if i == 0 else None, more=i < len(pieces) - 1, payload=piece
                ).encode()
                for i, piece in enumerate(pieces)
            )
        kept += octets
        if len(kept) > 400:
            yield bytes([0, len(kept) % 40]) + kept
            kept = b""


def either(decode: Callable[..., Any], octets: bytes, octet: int) -> list[Any]:
    """The results of STRICT and LAX. LAX accepts what STRICT accepts, with the same result."""
    out = []
    for strictness in ("strict", "lax"):
        try:
            out.append(decode(octets, strictness=strictness, limits=LIMITS[octet % 3]))
        except DecodeError as error:
            if not (0 <= error.offset <= len(octets) and error.reason and str(error)):
                raise AssertionError(f"{error!r} says too little") from error
            out.append(None)
    if out[0] is not None and out[0] == out[0]:
        same(out[1], out[0], "LAX differs")
    return [value for value in out if value is not None]


def check(value: Any, octets: bytes) -> None:
    """Properties of everything that was decoded."""
    if isinstance(value, amqp10.Value) and value.encode() != octets and octets[0]:
        raise AssertionError("a value is not written as it was read")
    repr(value)
    if value == value:
        again = pickle.loads(pickle.dumps(value))
        same(again, value, "pickled")
        same(hash(again), hash(value), "hash")
        same(copy.deepcopy(value), value, "copied")


def walk(value: Any) -> None:
    """Access everything in a value; elements without octets one at a time, and not all."""
    if isinstance(value, amqp10.Array) and value.constructor < 0x50:
        len(value), [value[i] for i in range(min(len(value), 3))]
    elif isinstance(value, amqp10.List | amqp10.Array):
        for item in value:
            walk(item)
    elif isinstance(value, amqp10.Map):
        for key, item in value.pairs:
            walk(key)
            walk(item)
        if len(value) > len(value.pairs):
            raise AssertionError("more keys than pairs")
    elif isinstance(value, amqp10.Described):
        walk(value.descriptor)
        walk(value.value)
    elif isinstance(value, amqp10.Composite):
        for name in type(value).__match_args__:  # type: ignore[attr-defined]
            walk(getattr(value, name))
        walk(value.value)


def amqp10_value(data: bytes) -> None:
    if not data:
        return
    for value in either(amqp10.decode_value, data[1:], data[0]):
        check(value, data[1:])
        walk(value)
        try:
            fresh = amqp10.encode_value(list(value) if isinstance(value, amqp10.List) else value)
        except EncodeError:
            continue  # values that only LAX accepts cannot be written
        if value == value:
            same(amqp10.decode_value(fresh, strictness="lax", limits=LIMITS[2]), value, "written again")


def amqp10_frame(data: bytes) -> None:
    if not data:
        return
    for frame in either(amqp10.decode, data[1:], data[0]):
        check(frame, data[1:])
        walk(frame)
        if isinstance(frame, amqp10.Transfer):
            bytes(frame.payload)
            try:
                check(frame.message, b"\0")
            except DecodeError:
                pass
    columns(data[1:])
    try:
        amqp10.frame_size(data[1:])
    except DecodeError:
        pass


def columns(octets: bytes) -> None:
    """A frame that STRICT accepts, rebuilt from its fields; and its columns, if it is a message by itself."""
    try:
        frame = amqp10.decode(octets)
    except DecodeError:
        return
    more = {"extended_header": frame.extended_header} if isinstance(frame, amqp10.Performative) else {}
    made = rebuilt(frame, **more)
    if frame == frame:
        same(made, frame, "rebuilt from its fields")
        same(amqp10.decode(made.encode()), frame, "rebuilt from its fields, written and read")
    if not isinstance(frame, amqp10.Transfer):  # those with a message: message_columns
        for direction in range(2):
            check_columns("amqp10", amqp10, Case(octets, direction), frame, {"expose_credentials": True})


def message_columns(octets: bytes, message: Any) -> None:
    """In a transfer of its own."""
    try:
        same(amqp10.decode_message(octets), message, "again")
    except DecodeError:
        return
    frame = amqp10.Transfer(handle=3, delivery_id=5, delivery_tag=b"t", payload=octets)
    case = Case(frame.encode(), 0)
    check_columns("amqp10", amqp10, case, frame, {"expose_credentials": True}, content=message)


def amqp10_message(data: bytes) -> None:
    if not data:
        return
    for message in either(amqp10.decode_message, data[1:], data[0]):
        check(message, data[1:])
        if message == message:
            message_columns(data[1:], message)
        for name in type(message).__match_args__:
            section = getattr(message, name)
            for part in section if name == "body" else (section,):
                walk(part)
        try:
            fields = {name: getattr(message, name) for name in type(message).__match_args__}
            fresh = amqp10.Message(**fields)
        except EncodeError:
            continue
        same(fresh, message, "built again")
        if message == message:
            same(amqp10.decode_message(fresh.encode(), strictness="lax", limits=LIMITS[2]), message, "written again")


def feed(octets: bytes, step: int, octet: int) -> tuple[list[Any], str]:
    """Frames, and the fault that ended them, fed `step` octets at a time."""
    decoder = amqp10.Decoder(strictness=("strict", "lax")[octet & 1], limits=LIMITS[octet % 3])
    frames: list[Any] = []
    try:
        for at in range(0, len(octets), step):
            frames += decoder.feed(octets[at : at + step])
        decoder.close()
    except DecodeError as error:
        return frames + list(error.messages), str(error)
    return frames, ""


def amqp10_stream(data: bytes) -> None:
    """The same frames however a stream is split, and deliveries joined as in a batch."""
    if len(data) < 3:
        return
    octet, step, octets = data[0], data[1] % 40 + 1, data[2:]
    whole = feed(octets, len(octets), octet)
    same(feed(octets, step, octet), whole, "cut")
    strictness = ("strict", "lax")[octet & 1]
    assembler = amqp10.Assembler(strictness=strictness, limits=LIMITS[octet % 3])
    sizes = []
    for frame in whole[0]:
        try:
            found = assembler.feed(frame.encode())
        except DecodeError:
            return
        for delivery in found:
            if not isinstance(delivery, amqp10.Delivery):
                continue
            sizes.append(len(delivery.payload))
            try:
                check(delivery.message, b"\0")
            except DecodeError:
                pass
    batch = amqp10.decode_batch(octets, strictness=strictness, limits=LIMITS[octet % 3])
    if pyarrow is not None:
        table = pyarrow.record_batch(batch)
        table.validate(full=True)
        valid = [r for r in table.select(["transfers", "error"]).to_pylist() if r["transfers"] and not r["error"]]
        if len(valid) > len(sizes) and not whole[1]:
            raise AssertionError(f"{len(valid)} deliveries in columns, {len(sizes)} as objects")


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "amqp10_value": (amqp10_value, value_seeds),
    "amqp10_frame": (amqp10_frame, frame_seeds),
    "amqp10_message": (amqp10_message, message_seeds),
    "amqp10_stream": (amqp10_stream, stream_seeds),
}
