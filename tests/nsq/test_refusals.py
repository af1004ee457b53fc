"""What a server says when it refuses a command: word for word what nsqd 1.3.0 said (recorded in `data/nsq/refusals.json`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lib.kinds import only
from lib.paths import DATA
from wirefmt import nsq
from wirefmt.connection import Disconnected
from wirefmt.connection.carriers import Deflate

RECORDED: list[dict[str, str]] = json.loads((DATA / "nsq" / "refusals.json").read_text())
SENT = {row["name"]: (row["sent"].encode("latin-1"), row["error"]) for row in RECORDED}


def errors(octets: bytes) -> list[str]:
    frames = nsq.Decoder(side="server").feed(octets)
    return [bytes(frame.data).decode() for frame in frames if isinstance(frame, nsq.Error)]


def said(octets: bytes, size: int) -> tuple[list[str], list[Any]]:
    """The errors of a server that accepts everything, and the events at the end. The bytes come in pieces of this size."""
    server = nsq.ServerConnection(0.0)
    octets = b"  V2" + octets
    last: list[Any] = []
    for at in range(0, len(octets), size):
        if not server.wants_read and last and isinstance(last[-1], Disconnected):
            break
        waiting = server.receive(octets[at : at + size], 0.0)
        while waiting:
            last.append(waiting.pop(0))
            if isinstance(last[-1], nsq.Identify | nsq.Sub | nsq.Auth):
                waiting += server.accept(last[-1])
    return errors(server.data_to_send()), last


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", SENT)
def test_a_refusal_has_the_words_of_nsqd(name: str, size: int) -> None:
    octets, error = SENT[name]
    told, events = said(octets, size)
    assert told == [error]
    fatal = not error.startswith(("E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"))
    assert isinstance(events[-1] if events else None, Disconnected) == fatal


def test_a_refusal_under_compression() -> None:
    """The bytes of the command come out of the compression, and so does what is said about them."""
    server = nsq.ServerConnection(0.0)
    identify = only(
        server.receive(b"  V2" + nsq.Identify(feature_negotiation=True, deflate=True).encode(), 0.0), nsq.Identify
    )
    server.accept(identify)
    data = server.data_to_send()
    plain = 4 + int.from_bytes(data[:4], "big")  # the answer to IDENTIFY; what follows is compressed
    (gone,) = server.receive(Deflate().send(b"PUB t*\n\0\0\0\1x"), 0.0)
    assert isinstance(gone, Disconnected)
    carrier = Deflate()
    carrier.feed(data[plain:] + server.data_to_send())
    assert errors(carrier.read())[-1:] == ['E_BAD_TOPIC PUB topic name "t*" is not valid']
