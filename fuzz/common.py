"""What the targets of all protocols share: seeds, the same message in several forms, bounds."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(1, str(ROOT / "tests"))

from lib.columns import Case as Case  # noqa: E402
from lib.columns import agree, batch_row_of, captured, row_of, sparse  # noqa: E402
from wirefmt.errors import DecodeError  # noqa: E402

try:
    import pyarrow as pyarrow
except ImportError:
    pyarrow = None


def same(a: object, b: object, what: str) -> None:
    if a != b:
        raise AssertionError(f"{what}: {a!r} is not {b!r}")


def rows(protocol: str) -> Iterator[dict[str, Any]]:
    """Rows of a protocol's public vectors."""
    with open(ROOT / "tests" / "vectors" / protocol / "public.jsonl", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def feed(decoder: Callable[..., Any], octets: bytes, cuts: list[int], **options: Any) -> tuple[list[Any], str]:
    """What a decoder of these options makes of octets that come in pieces, and how it ends."""
    stream = decoder(**options)
    found: list[Any] = []
    at = 0
    try:
        for cut in [*cuts, len(octets)]:
            found += stream.feed(octets[at:cut])
            at = max(at, cut)
        stream.close()
    except DecodeError as error:
        return found + list(error.messages), f"{type(error).__name__} {error.path} {error.reason}"
    return found, ""


def check_counted(decoder: Callable[..., Any], octets: bytes, whole: list[Any], **options: Any) -> None:
    """Messages come one at a time as they come at once, and what is left unread can be handed over."""
    one, two = decoder(**options), decoder(**options)
    found: list[Any] = []
    try:
        found += one.feed(octets[: len(octets) // 2], 1)
        found += one.feed(octets[len(octets) // 2 :], 1)
        while one.unread:
            found += one.feed(b"", 1)
    except DecodeError as error:
        same(found + list(error.messages), whole, "one at a time")
        return
    same(found, whole, "one at a time")
    same(one.offset + one.pending, len(octets), "octets taken")
    first = two.feed(octets, 1)
    if two.unread:
        try:
            two.close()
        except ValueError:
            pass
        else:
            raise AssertionError("closed while octets are unread")
    at, rest = two.offset, two.rest()
    same((rest, two.rest(), two.unread, two.pending), (octets[at:], b"", 0, 0), "handed over")
    same(first + two.feed(rest), whole, "after handing over")


def rebuilt(message: Any, **more: Any) -> Any:
    """A message made of the fields of another: nothing of its octets is kept."""
    return type(message)(**{name: getattr(message, name) for name in type(message).__match_args__}, **more)


def check_rebuilt(message: Any, decode: Callable[[bytes], Any], **more: Any) -> Any:
    """What STRICT has read can be made of its fields, is equal, and is read back as equal."""
    made = rebuilt(message, **more)
    if message == message:  # no NaN in it
        same(made, message, "rebuilt from its fields")
        same(decode(made.encode()), message, "rebuilt from its fields, written and read")
    return made


def sometimes(octets: bytes, one_in: int = 8) -> bool:
    """For what costs more than decoding; the same answer for the same octets."""
    return zlib.crc32(octets) % one_in == 0


def check_columns(protocol: str, module: Any, case: Case, message: Any, options: dict[str, Any], **more: Any) -> None:
    """A message that STRICT has read has the columns that its object says, in decode_batch and in a capture."""
    if pyarrow is None or not sometimes(case.octets, 24):
        return
    batch = pyarrow.record_batch(module.decode_batch(case.octets, strictness="strict", **options))
    batch.validate(full=True)
    (row,) = map(sparse, batch.to_pylist())
    want = {"byte_offset": 0, "wire_size": len(case.octets)} | batch_row_of(protocol, message, more.get("content"))
    same(agree(row, want), [], "decode_batch")
    ((row,),) = captured(protocol, [case])
    want = {"byte_offset": 0, "wire_size": len(case.octets)} | row_of(protocol, message, case.direction, **more)
    same(agree(row, want), [], "capture")


# ------------------------------------------------------------------------------------------------ targets of a whole codec


def read(protocol: Any, octets: bytes, **options: Any) -> Any:
    """A message, or the error."""
    try:
        return protocol.decode(octets, **options)
    except DecodeError as error:
        str(error)
        same(0 <= error.offset <= len(octets), True, f"offset {error.offset}")
        return error


def check_message(protocol: Any, octets: bytes, **options: Any) -> tuple[Any, Any]:
    """One message, strict and lax: the message that STRICT reads and the same rebuilt from its fields, or two None."""
    strict = read(protocol, octets, **options)
    lax = read(protocol, octets, **options, strictness="lax")
    if isinstance(lax, DecodeError):
        same(isinstance(strict, DecodeError), True, "LAX takes what STRICT takes")
        return None, None
    repr(lax), hash(lax), lax.notes, lax.kind
    for field in type(lax).__match_args__:
        getattr(lax, field)
    if isinstance(strict, DecodeError):
        return None, None
    same(strict, lax, "STRICT and LAX")
    same(strict.notes, (), "notes of STRICT")
    return strict, check_rebuilt(strict, lambda again: protocol.decode(again, **options))


def check_stream(protocol: Any, data: bytes, options: dict[str, Any]) -> None:
    """A stream, whole and in parts of one size."""
    step, octets = data[1] % 32 + 1, data[2:]
    if data[0] & 0x80:
        options["strictness"] = "lax"
    cuts = list(range(step, len(octets), step))
    whole, parts = feed(protocol.Decoder, octets, [], **options), feed(protocol.Decoder, octets, cuts, **options)
    same(parts, whole, "a stream in parts")
    check_counted(protocol.Decoder, octets, whole[0], **options)


def check_rows(protocol: Any, octets: bytes, options: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Rows of a batch are the messages one by one. Returns the columns, and the message of each row."""
    columns = protocol.decode_batch(octets, **options, strictness="lax")
    if pyarrow is not None and len(octets) % 8 == 0:
        pyarrow.record_batch(columns).validate(full=True)
    found, error = feed(protocol.Decoder, octets[: len(octets) - columns.rest], [], **options, strictness="lax")
    same(columns.num_rows >= len(found), True, "rows")
    for row, message in enumerate(found):
        same(columns["wire_size"][row], len(message.encode()), "wire_size")
        same(bool(columns.validity("error")[row]), False, error)
    return columns, found


def stream_seeds(seeds: Callable[[], Iterator[bytes]]) -> Callable[[], Iterator[bytes]]:
    """Seeds of one message each, joined to streams."""

    def joined() -> Iterator[bytes]:
        kept: dict[int, bytes] = {}
        for seed in seeds():
            kept[seed[0]] = kept.get(seed[0], b"") + seed[1:]
            if len(kept[seed[0]]) > 300:
                yield bytes([seed[0], len(kept[seed[0]]) % 32]) + kept.pop(seed[0])

    return joined
