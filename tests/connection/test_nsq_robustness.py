"""Any bytes at any moment, with any decisions of the host: a defined answer, one Disconnected, bounded memory."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from lib.kinds import only
from lib.nsq_driven import COMMANDS, FRAMES, connection, drive
from wirefmt import nsq
from wirefmt.connection.contract import Disconnected

PIECES = {"client": FRAMES, "server": COMMANDS}


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("seed", range(300))
def test_any_bytes_at_any_moment(role: str, seed: int) -> None:
    random_ = random.Random(f"{role} {seed}")
    subject, opening = connection(role, random_)
    data = bytearray(opening)
    for _ in range(random_.randrange(1, 20)):
        piece = bytearray(random_.choice(PIECES[role]))
        if random_.random() < 0.1:
            piece[random_.randrange(len(piece))] = random_.randrange(256)
        data += piece
    drive(subject, bytes(data), random_)


def driven(stream: bytes, pieces: int) -> list[str]:
    """The names of a server's events for a stream in pieces, each answered before the next piece."""
    connection = nsq.ServerConnection(0.0)
    waiting: deque[Any] = deque()
    names: list[Any] = []
    for at in range(0, len(stream), pieces):
        if connection.should_close or (names and names[-1] == "Disconnected"):
            break
        waiting += connection.receive(stream[at : at + pieces], 0.0)
        for _ in range(100):
            if not waiting:
                break
            event = waiting.popleft()
            names.append(type(event).__name__)
            match event:
                case nsq.Identify():
                    waiting += connection.accept(event)
                case nsq.Publish():
                    waiting += connection.acknowledge(event)
    return names


@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_fault_after_commands_that_wait_is_reported_once(pieces: int) -> None:
    """Commands after an undecided IDENTIFY wait, and so does the fault after them. Each command is an event once."""
    identify = nsq.Identify(members={"feature_negotiation": True}).encode()
    publish = nsq.Publish(topic="t", body=b"x").encode()
    names = driven(b"  V2" + publish + identify + publish + identify + b"no command\n" + publish, pieces)
    assert [n for n in names if n != "Connected"] == ["Publish", "Identify", "Publish", "Identify", "Disconnected"]


def test_bytes_after_a_fault_that_waits_are_not_read() -> None:
    """A fault waits until earlier commands are answered. Bytes that come meanwhile bring no event, and none again."""
    publish = nsq.Publish(topic="t", body=b"x").encode()
    connection = nsq.ServerConnection(0.0)
    event = only(connection.receive(b"  V2" + publish + b"no command\n", 0.0), nsq.Publish)
    assert connection.receive(publish, 0.0) == connection.receive(b"no command\n", 0.0) == []
    (ended,) = connection.acknowledge(event)
    assert isinstance(ended, Disconnected)
    assert connection.data_to_send().count(b"OK") == 1
