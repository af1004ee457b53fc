"""PHPMQ for the tests that go over all protocols. lib/protocols.py says what is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lib import phpmq_vectors
from wirefmt import phpmq

OPENING = (
    phpmq.ConsumeRequest(queue_name="q", message_count=5).encode(),
    phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="1", ttl=None).encode(),
    ["CONSUME_REQUEST", "MESSAGE_SERVER_TO_CLIENT"],
)

USES = (lambda thing: phpmq.Message(message_type=7, packets=[(1, thing)]),)


def samples() -> Iterator[Callable[..., Any]]:
    for row in phpmq_vectors.load()[:100]:
        yield lambda row=row: phpmq.decode(bytes.fromhex(row["hex"]), strictness="lax")
