"""Any bytes at any moment, with any decisions of the host: a defined answer, one Disconnected, bounded memory."""

from __future__ import annotations

import random

import pytest

from lib.kinds import only
from lib.mqtt_conversations import made
from lib.mqtt_driven import OPTIONS, connection, drive
from wirefmt import mqtt
from wirefmt.mqtt.states import State


def sent(role: str) -> list[bytes]:
    """Packets that the judge sends, good and bad."""
    return sorted({step.octets for case in made(role) for step in case.steps})


PIECES = {role: sent(role) for role in ("client", "server")}


@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize("seed", range(250))
def test_any_bytes_at_any_moment(role: str, seed: int) -> None:
    random_ = random.Random(f"{role} {seed}")
    connection_, opening = connection(role, random_)
    data = bytearray(b"".join(opening))
    for _ in range(random_.randrange(1, 12)):
        piece = bytearray(random_.choice(PIECES[role]))
        if piece and random_.random() < 0.3:
            piece[random_.randrange(len(piece))] = random_.randrange(256)
        data += piece
    drive(role, connection_, data, random_)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    "flood", ["c000", "6202 ffff", "5002 ffff", "3204 0001 61"], ids=["PINGREQ", "PUBREL", "PUBREC", "cut PUBLISH"]
)
def test_a_peer_that_floods_and_does_not_read_is_given_up(version: int, flood: str) -> None:
    server = mqtt.ServerConnection(0.0, OPTIONS)
    connect = only(server.receive(mqtt.Connect(client_identifier="c", version=version).encode(), 0.0), mqtt.Connect)
    server.accept(connect)
    chunk = bytes.fromhex(flood) * 10_000
    for _ in range(100):
        server.receive(chunk, 0.0)
        assert server.pending_bytes < OPTIONS.pending_bytes + (1 << 20) + len(chunk) * 2
        if server.state is State.CLOSED:
            break
    assert server.state is State.CLOSED
