"""PHPMQ in captures: messages of both sides, broken lines, a message that is cut."""

from __future__ import annotations

import pytest

from lib.batches import talk
from lib.phpmq_vectors import README, of_kind

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1


@pytest.mark.parametrize("size", [1448, 1])
def test_messages_of_both_sides(size: int) -> None:
    messages = of_kind("message")
    sent = [bytes.fromhex(row["hex"]) for row in messages if row["decoded"]["message_type"] != 3]
    came = [bytes.fromhex(row["hex"]) for row in messages if row["decoded"]["message_type"] == 3]
    rows = talk((CLIENT, b"".join(sent)), (SERVER, b"".join(came)), port=9100 + size, size=size)
    assert {(row["protocol"], row["version"], row["status"], row["error"]) for row in rows} == {
        ("phpmq", "01", "ok", None)
    }
    for side, octets in ((CLIENT, sent), (SERVER, came)):
        mine = [row for row in rows if row["direction"] == side]
        assert [row["wire_size"] for row in mine] == [len(o) for o in octets]
    publishes = [row for row in rows if row["kind"] == "MESSAGE_CLIENT_TO_SERVER"]
    assert publishes[0]["operation"] == "send"
    assert {row["ttl_ms"] for row in publishes} == {None, 0, 3_600_000}


def test_messages_as_the_readme_prints_it() -> None:
    rows = talk(
        (CLIENT, "".join(text for name, text in README.items() if "Server" not in name[:13]).encode()), port=9101
    )
    assert {row["phpmq"]["line_broken"] for row in rows if row["status"] == "ok"} == {True}
    assert [row["kind"] for row in rows if row["status"] == "ok"][:2] == ["MESSAGE_CLIENT_TO_SERVER", "CONSUME_REQUEST"]


def test_a_message_that_is_cut() -> None:
    octets = bytes.fromhex(of_kind("message")[7]["hex"])
    rows = talk(
        (CLIENT, octets + b"H0100102P0100000000000000000000000000003FooP0200000000000000000000000000100part"), port=9100
    )
    assert rows[-1]["status"] == "partial"
    assert (rows[-1]["destination"], rows[-1]["payload"]) == ("Foo", b"part")
