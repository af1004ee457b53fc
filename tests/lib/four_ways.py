"""One message, fed to a Decoder in four ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def four_ways(make: Callable[..., Any], octets: bytes, after: bytes, **options: Any) -> list[list[Any]]:
    """What Decoders give for these octets whole, octet by octet, with the beginning of another message after them (`after`),
    and cut in the middle."""
    whole = make(**options).feed(octets)

    singly = make(**options)
    one_by_one = [message for i in range(len(octets)) for message in singly.feed(octets[i : i + 1])]
    singly.close()

    followed = make(**options)
    trailing = followed.feed(octets + after)
    assert followed.pending == len(after)

    middle = len(octets) // 2
    split = make(**options)
    halves = split.feed(octets[:middle]) + split.feed(octets[middle:])
    split.close()
    return [whole, one_by_one, trailing, halves]
