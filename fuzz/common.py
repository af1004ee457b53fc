"""What the targets of all protocols share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wirefmt.errors import DecodeError

ROOT = Path(__file__).resolve().parent.parent


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
