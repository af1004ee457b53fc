"""Targets of NSQ and PHPMQ: one command, frame or message; a stream of them; a batch. See targets.py."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import Case, check_columns, check_counted, check_rebuilt, feed, pyarrow, rows, same

from wirefmt import nsq, phpmq
from wirefmt.errors import DecodeError, EncodeError
from wirefmt.framing import Limits

TTL = 5  # number of a packet of PHPMQ's
ROOT = Path(__file__).resolve().parent.parent


#: Bodies of IDENTIFY and of its answer, valid and invalid.
JSON = (
    '{"client_id":"a\\u00e9\\ud83d\\ude00\\n\\"\\\\","hostname":"h\\/\\b\\f\\r\\t","DEFLATE":true,"\\u212aey":1}',
    '{"msg_timeout":-1,"sample_rate":1e2,"deflate_level":1.5E-3,"heartbeat_interval":99999999999999999999}',
    '{"a":[1,[2,{"b":null}],"x"],"tls_v1":false,"max_rdy_count":2500,"version":"1","snappy":true,"auth_required":true}',
    '{"a":1,}', '{"a" 1}', "{", "[]", '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":01}', '{"a":-}', '{"a":nul}', '{"a":1}x', " {} ",
    '{"identity":"i","identity_url":"u","permission_count":3,"topology_zone":"z","topology_region":"r"}', "[" * 70 + "]" * 70,
)  # fmt: skip


def nsq_seeds() -> Iterator[bytes]:
    for row in rows("nsq"):
        for name, side in (("hex", 0), ("server_hex", 1)):
            if row.get(name):
                yield bytes([1 if row["kind"] in ("frame", "message-frame") else side]) + bytes.fromhex(row[name])
    for text in JSON:
        body = text.encode()
        yield b"\0IDENTIFY\n" + len(body).to_bytes(4, "big") + body
        yield b"\1" + (len(body) + 4).to_bytes(4, "big") + bytes(4) + body
    for row in rows("nsq"):
        for step in row.get("steps", ()):
            yield b"\0" + bytes.fromhex(step["send_hex"])
            yield b"\1" + bytes.fromhex(step["reply_hex"])


def phpmq_seeds() -> Iterator[bytes]:
    for row in rows("phpmq"):
        yield b"\2" + bytes.fromhex(row["hex"])


def nsq_options(octet: int) -> dict[str, Any]:
    options: dict[str, Any] = {"side": ("client", "server", None)[octet % 3]}
    if octet & 0x40:
        options["server"] = nsq.ServerOptions(max_msg_size=100, max_body_size=300)
    if octet & 0x20:
        options["limits"] = Limits(frame_size=200, elements=3)
    return options


def phpmq_options(octet: int) -> dict[str, Any]:
    limits = Limits(frame_size=200) if octet & 0x20 else None
    return {"side": ("client", "server", None)[octet % 3], "limits": limits}


def read(protocol: Any, octets: bytes, **options: Any) -> Any:
    """A message, or the error."""
    try:
        return protocol.decode(octets, **options)
    except DecodeError as error:
        str(error)
        same(0 <= error.offset <= len(octets), True, f"offset {error.offset}")
        return error


def one(protocol: Any, octets: bytes, **options: Any) -> None:
    strict = read(protocol, octets, **options)
    lax = read(protocol, octets, **options, strictness="lax")
    if isinstance(lax, DecodeError):
        same(isinstance(strict, DecodeError), True, "LAX takes what STRICT takes")
        return
    repr(lax), hash(lax), lax.notes, lax.kind
    for field in type(lax).__match_args__:
        getattr(lax, field)
    if not isinstance(strict, DecodeError):
        same(strict, lax, "STRICT and LAX")
        same(strict.notes, (), "notes of STRICT")
        made = check_rebuilt(strict, lambda again: protocol.decode(again, **options))
        if protocol is phpmq:
            same(made.kind, strict.kind, "kind")
        if octets != b"  V2":
            columns(protocol, octets, strict, options)


def columns(protocol: Any, octets: bytes, message: Any, options: dict[str, Any]) -> None:
    """As one side sends it."""
    name = "nsq" if protocol is nsq else "phpmq"
    exposed = {"expose_credentials": True} if protocol is nsq else {}
    for direction, side in enumerate(("client", "server")):
        if options["side"] not in (side, None):
            continue
        if protocol is nsq and direction != isinstance(message, nsq.Frame):
            continue
        if isinstance(read(protocol, octets, side=side), DecodeError):
            continue
        check_columns(name, protocol, Case(octets, direction), message, {"side": side, **exposed})


def nsq_message(data: bytes) -> None:
    if data:
        one(nsq, data[1:], **nsq_options(data[0]))


def phpmq_message(data: bytes) -> None:
    if not data:
        return
    one(phpmq, data[1:], **phpmq_options(data[0]))
    message = read(phpmq, data[1:], strictness="lax")
    if not isinstance(message, DecodeError):
        profiles(message)


def profiles(message: Any) -> None:
    """In each form that the library and the programs write: the same kind, with no new contents."""
    same(phpmq.encode(message), message.encode(), "as it is")
    for profile in ("present", "early"):
        try:
            made = phpmq.decode(phpmq.encode(message, profile=profile))
        except EncodeError as error:
            same(bool(str(error)), True, "says why")
            continue
        except DecodeError:  # LAX accepted contents that STRICT refuses in every form
            same(isinstance(read(phpmq, message.encode()), DecodeError), True, f"{message!r} in the {profile} form")
            continue
        same((made.kind, made.message_type), (message.kind, message.message_type), "kind")
        same(set(made.packets) - set(message.packets) <= {(TTL, b"0")}, True, "packets")
    for build in (
        lambda: phpmq.Message(message_type=message.message_type, packets=message.packets),
        lambda: phpmq.Message(message_type=90 + message.message_type % 900, packets=message.packets),
    ):
        try:
            made = build()
        except EncodeError:
            continue
        again = phpmq.decode(made.encode(), strictness="lax")
        same((again, hash(again), repr(again)), (made, hash(made), repr(made)), "of an unknown type")
        same((made.detach(), pickle.loads(pickle.dumps(made)), copy.copy(made)), (made, made, made), "copied")


def stream(protocol: Any, data: bytes, options: dict[str, Any]) -> None:
    step, octets = data[1] % 32 + 1, data[2:]
    if data[0] & 0x80:
        options["strictness"] = "lax"
    cuts = list(range(step, len(octets), step))
    whole, parts = feed(protocol.Decoder, octets, [], **options), feed(protocol.Decoder, octets, cuts, **options)
    same(parts, whole, "a stream in parts")
    check_counted(protocol.Decoder, octets, whole[0], **options)


def nsq_stream(data: bytes) -> None:
    if len(data) > 1:
        stream(nsq, data, nsq_options(data[0]))


def phpmq_stream(data: bytes) -> None:
    if len(data) > 1:
        stream(phpmq, data, phpmq_options(data[0]))


def batch(protocol: Any, octets: bytes, options: dict[str, Any]) -> None:
    """Rows are the messages one by one."""
    columns = protocol.decode_batch(octets, **options, strictness="lax")
    if pyarrow is not None and len(octets) % 8 == 0:
        pyarrow.record_batch(columns).validate(full=True)
    found, error = feed(protocol.Decoder, octets[: len(octets) - columns.rest], [], **options, strictness="lax")
    same(columns.num_rows >= len(found), True, "rows")
    for row, message in enumerate(found):
        same(columns["size"][row], len(message.encode()), "size")
        same(bool(columns.validity("error")[row]), False, error)
        if isinstance(message, nsq.MessageFrame):
            same(columns["body"][row], message.body_bytes(), "body")
            same(columns["timestamp"][row], message.timestamp, "timestamp")


def nsq_batch(data: bytes) -> None:
    if data:
        batch(nsq, data[1:], nsq_options(data[0]))


def phpmq_batch(data: bytes) -> None:
    if data:
        batch(phpmq, data[1:], phpmq_options(data[0]))


def stream_seeds(seeds: Callable[[], Iterator[bytes]]) -> Callable[[], Iterator[bytes]]:
    def joined() -> Iterator[bytes]:
        kept: dict[int, bytes] = {}
        for seed in seeds():
            kept[seed[0]] = kept.get(seed[0], b"") + seed[1:]
            if len(kept[seed[0]]) > 300:
                yield bytes([seed[0], len(kept[seed[0]]) % 32]) + kept.pop(seed[0])

    return joined


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "nsq_message": (nsq_message, nsq_seeds),
    "nsq_stream": (nsq_stream, stream_seeds(nsq_seeds)),
    "nsq_batch": (nsq_batch, stream_seeds(nsq_seeds)),
    "phpmq_message": (phpmq_message, phpmq_seeds),
    "phpmq_stream": (phpmq_stream, stream_seeds(phpmq_seeds)),
    "phpmq_batch": (phpmq_batch, stream_seeds(phpmq_seeds)),
}
