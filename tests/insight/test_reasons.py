"""Why connections ended, where the server said nothing: from times, and from what its other connections do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs NumPy (pip install numpy)")

from wirefmt.insight._engine import CONNECTION_FACTS
from wirefmt.insight.reasons import reasons

SECOND = 1_000_000_000
NAMES = [column.name for column in CONNECTION_FACTS]


def connection(first: float, closed: float | None = None, by: str | None = None, **facts: Any) -> dict[str, Any]:
    """A connection of an MQTT client that has logged in. Times are seconds."""
    row: dict[str, Any] = dict.fromkeys(NAMES)
    begin, end = int(first * SECOND), None if closed is None else int(closed * SECOND)
    row |= {"protocol": "mqtt", "client_ip": "10.0.0.2", "client_port": 40000 + int(first * 1000)}
    row |= {
        "server_ip": "10.0.0.1",
        "server_port": 1883,
        "client_id": f"c{first}",
        "first_ns": begin,
        "login_ns": begin,
    }
    row |= {"closed_ns": end, "closed_by": by, "how": "open" if end is None else "fin", "logged_in": True}
    row |= {"login_refused": False, "failed": False, "malformed": 0, "unconfirmed": 0, "unsettled": 0}
    row |= {"client_messages": 2, "client_silence_ns": 10 * SECOND, "client_last_ns": begin, "server_last_ns": begin}
    return row | facts


def found(*rows: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.reason, one.text) for one in reasons(rows)]


def words(*rows: dict[str, Any]) -> list[str]:
    return [reason for reason, _ in found(*rows)]


SAID = {"ended_by": "server", "failed": True, "end_kind": "DISCONNECT"}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], "unknown"),
        ([connection(2, 50.5, "server")], "shutdown"),
        ([connection(2, 53, "server")], "unknown"),  # later
        ([connection(2, 50.5, "client")], "unknown"),
        ([connection(2, 50.5, "server", server_ip="10.0.0.9")], "unknown"),
        ([connection(2, 50.5, "server", server_port=8883)], "shutdown"),  # another port of the same server
        ([connection(2, 50.5, "server"), connection(3)], "unknown"),  # the server keeps the third
        ([connection(2, 50.5, "server"), connection(3, server_port=5672)], "shutdown"),  # perhaps another server
        ([connection(2, 50.5, "server"), connection(52)], "shutdown"),  # a client that returned
        ([connection(2, 50.5, "server", code=0x8B, **SAID)], "shutdown"),
        ([connection(2, 50.5, "server", code=0x95, **SAID)], "unknown"),  # another reason
        ([connection(2, 50.5, "server", code=0x87, login_refused=True, **SAID)], "unknown"),
    ],
)
def test_a_server_that_ends_connections_without_a_word(others: Sequence[dict[str, Any]], expected: str) -> None:
    assert words(connection(1, 50, "server"), *others)[0] == expected


def test_what_the_client_said_just_before() -> None:
    """It may be the cause: the text has it, the reason stays unknown."""
    silent, late = connection(1, 50, "server", client_silence_ns=2_000_000, unconfirmed=1), connection(1, 50, "server")
    assert found(silent) == [
        ("unknown", "the server closed without a word 2 ms after a message of the client, which has no answer")
    ]
    assert found(late) == [("unknown", "the server closed without a word")]


@pytest.mark.parametrize(
    ("said", "login", "expected"),
    [
        ({"code": 0x8E, **SAID}, 49.9, "taken-over"),
        ({**SAID, "failed": False}, 49.9, "taken-over"),  # a DISCONNECT of MQTT 3.1.1 has no code
        ({"code": 0x8E, **SAID}, 50.05, "taken-over"),
        ({**SAID, "failed": False}, 50.05, "orderly"),  # it came back afterwards
        ({"code": 0x8B, **SAID}, 49.9, "shutdown"),
        ({"code": 0x87, **SAID}, 49.9, "refused"),
    ],
)
def test_a_takeover_that_the_server_says(said: dict[str, Any], login: float, expected: str) -> None:
    """The sentence names the connection that took over, if it came before the server's words."""
    (reason, text), _ = found(connection(1, 50, "server", client_id="a", **said), connection(login, client_id="a"))
    assert reason == expected
    other = f"from 10.0.0.2:{40000 + int(login * 1000)}"
    assert (other in text) == (expected == "taken-over" and login < 50)
