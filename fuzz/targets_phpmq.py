"""Targets of PHPMQ: one message; a stream of them; a batch. See targets.py."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from common import Case, check_columns, check_message, check_rows, check_stream, read, rows, same, stream_seeds

from wirefmt import phpmq
from wirefmt.errors import DecodeError, EncodeError
from wirefmt.framing import Limits

TTL = 5  # number of a packet


def phpmq_seeds() -> Iterator[bytes]:
    for row in rows("phpmq"):
        yield b"\2" + bytes.fromhex(row["hex"])


def phpmq_options(octet: int) -> dict[str, Any]:
    limits = Limits(frame_size=200) if octet & 0x20 else None
    return {"side": ("client", "server", None)[octet % 3], "limits": limits}


def phpmq_message(data: bytes) -> None:
    if not data:
        return
    options, octets = phpmq_options(data[0]), data[1:]
    strict, made = check_message(phpmq, octets, **options)
    if strict is not None:
        same(made.kind, strict.kind, "kind")
        columns(octets, strict, options)
    message = read(phpmq, octets, strictness="lax")
    if not isinstance(message, DecodeError):
        profiles(message)


def columns(octets: bytes, message: phpmq.Message, options: dict[str, Any]) -> None:
    """As one side sends it."""
    for direction, side in enumerate(("client", "server")):
        if options["side"] in (side, None) and not isinstance(read(phpmq, octets, side=side), DecodeError):
            check_columns("phpmq", phpmq, Case(octets, direction), message, {"side": side})


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
    builds: list[Callable[[], phpmq.Message]] = [
        lambda: phpmq.Message(message_type=message.message_type, packets=message.packets),
        lambda: phpmq.Message(message_type=90 + message.message_type % 900, packets=message.packets),
    ]
    for build in builds:
        try:
            made = build()
        except EncodeError:
            continue
        again = phpmq.decode(made.encode(), strictness="lax")
        same((again, hash(again), repr(again)), (made, hash(made), repr(made)), "of an unknown type")
        same((made.detach(), pickle.loads(pickle.dumps(made)), copy.copy(made)), (made, made, made), "copied")


def phpmq_stream(data: bytes) -> None:
    if len(data) > 1:
        check_stream(phpmq, data, phpmq_options(data[0]))


def phpmq_batch(data: bytes) -> None:
    if data:
        check_rows(phpmq, data[1:], phpmq_options(data[0]))


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "phpmq_message": (phpmq_message, phpmq_seeds),
    "phpmq_stream": (phpmq_stream, stream_seeds(phpmq_seeds)),
    "phpmq_batch": (phpmq_batch, stream_seeds(phpmq_seeds)),
}
