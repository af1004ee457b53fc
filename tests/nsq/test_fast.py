"""The fast path of captures: frequent commands and frames in one pass. Their rows are those of the general path, which `detail`
takes."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.batches import talk, talk_both_ways
from wirefmt import nsq

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CLIENT, SERVER = 0, 1
ID = b"0123456789abcdef"
#: What rules speak of: ends of words and lines, signs of sizes, octets that no name has, and octets that are not text.
OCTETS = (0x00, 0x01, 0x02, 0x09, 0x0A, 0x0D, 0x20, 0x21, 0x23, 0x2D, 0x46, 0x50, 0x7F, 0x80, 0xFF)
IDENTIFIED = (
    (CLIENT, b"  V2" + nsq.Identify(client_id="c", feature_negotiation=True).encode()),
    (
        SERVER,
        nsq.Response(members={"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": False}).encode(),
    ),
    (CLIENT, nsq.Sub(topic="events", channel="ch").encode()),
    (SERVER, nsq.Response(data=b"OK").encode()),
)


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def frame(kind: int, data: bytes) -> bytes:
    return sized(kind.to_bytes(4, "big") + data)


SAID: dict[int, tuple[bytes, ...]] = {
    CLIENT: (
        b"PUB t\n" + sized(b"body"),
        b"PUB " + b"n" * 64 + b"\n" + sized(b"\xff" * 70),
        b"FIN " + ID + b"\n",
        *(b"PUB " + b"n" * 65 + b"\n" + sized(b"x"), b"PUB t#ephemeral\n" + sized(b"x"), b"PUB t\r\n" + sized(b"x")),
        *(b"PUB t\n" + sized(b""), b"PUB \n" + sized(b"x"), b"PUB t u\n" + sized(b"x"), b"PUB t\n\xff\0\0\1x"),
        *(b"FIN " + ID + b"\r\n", b"FIN " + ID[1:] + b"\n", b"FIN " + ID + b" 1\n"),
        b"FIN \xc3\xa9\0" + ID[3:] + b"\n",
        *(b"RDY 5\n", b"NOP\n", b"REQ " + ID + b" 10\n", b"TOUCH " + ID + b"\n", b"DPUB t 5\n" + sized(b"d")),
        b"MPUB t\n" + sized(b"\0\0\0\1" + sized(b"m")),
    ),
    SERVER: (
        frame(0, b"OK"),
        frame(0, b"_heartbeat_"),
        frame(2, bytes(8) + b"\0\1" + ID + b"body"),
        *(frame(0, b"OX"), frame(0, b""), frame(0, b"password=1"), frame(1, b"E_INVALID no")),
        *(frame(2, b"\xff" * 8 + b"\0\2" + ID), frame(2, bytes(10) + b"\xff" * 16 + b"x"), frame(2, bytes(25))),
        *(frame(3, b"OK"), frame(0, b'{"max_rdy_count":1}'), b"\x80\0\0\4", b"\0\0\0\3abc"),
    ),
}


@st.composite
def said(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    out = []
    for _ in range(draw(st.integers(1, 5))):
        side = draw(st.integers(0, 1))
        octets = bytearray(b"".join(draw(st.lists(st.sampled_from(SAID[side]), min_size=1, max_size=4))))
        for at in draw(st.lists(st.integers(0, len(octets) - 1), max_size=1)):
            octets[at] = draw(st.integers(0, 255) | st.sampled_from(OCTETS))
        out.append((side, bytes(octets)))
    return out


@settings(deadline=None, max_examples=150)
@given(said(), st.sampled_from([1448, 30]), st.sampled_from(["strict", "lax"]), st.integers(0, 4))
def test_both_ways(parts: list[tuple[int, bytes]], size: int, strictness: str, known: int) -> None:
    talk_both_ways(*(IDENTIFIED[:known] or [(CLIENT, b"  V2")]), *parts, size=size, strictness=strictness)


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_every_octet_changed(side: int) -> None:
    """Each octet in turn has other values; another command or frame follows."""
    chance = random.Random(side)
    for whole in SAID[side]:
        for at in range(min(len(whole), 40)):
            for octet in {chance.choice(OCTETS), whole[at] ^ 1} - {whole[at]}:
                octets = whole[:at] + bytes((octet,)) + whole[at + 1 :] + SAID[side][0]
                other = [talk(*IDENTIFIED, (side, octets), detail=detail) for detail in (False, True)]
                assert other[0] == [row | {"detail": None} for row in other[1]]


@pytest.mark.parametrize(
    ("side", "octets"),
    [
        *((CLIENT, octets) for octets in SAID[SERVER][:3]),
        *((SERVER, octets) for octets in SAID[CLIENT][:3]),
    ],
)
def test_what_only_the_other_side_says(side: int, octets: bytes) -> None:
    """A client sends no frames, and nsqd no commands."""
    rows = talk_both_ways(*IDENTIFIED, (side, octets))
    assert rows[-1]["kind"] not in {"response", "message", "PUB", "FIN"}
    assert rows[-1]["error"] is not None


def test_the_rows() -> None:
    rows = talk_both_ways(
        *IDENTIFIED, (CLIENT, SAID[CLIENT][0] + SAID[CLIENT][2]), (SERVER, SAID[SERVER][0] + SAID[SERVER][2])
    )
    pub, fin, ok, message = rows[-4:]
    assert (pub["kind"], pub["destination"], pub["payload"], pub["client_id"]) == ("PUB", "t", b"body", "c")
    assert (fin["kind"], fin["destination"], fin["consumer_group"], fin["message_id"]) == (
        "FIN",
        "events",
        "ch",
        ID.decode(),
    )
    assert (ok["kind"], ok["nsq"]["response"], ok["nsq"]["frame_type"]) == ("response", "OK", 0)
    assert (message["attempts"], message["payload"], message["redelivered"]) == (1, b"body", False)
    assert {row["status"] for row in rows} == {"ok"}


def test_a_change_of_the_carrier() -> None:
    """The octets after the answer that agrees on a compression are read as such, even between frames of the fast path."""
    agreed = nsq.Response(members={"max_rdy_count": 1, "tls_v1": False, "deflate": True, "snappy": False}).encode()
    stream: Any = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = stream.compress(SAID[SERVER][0] * 2) + stream.flush(zlib.Z_SYNC_FLUSH)
    rows = talk_both_ways(IDENTIFIED[0], (SERVER, SAID[SERVER][0] + agreed + packed))
    assert [row["kind"] for row in rows[2:]] == ["response"] * 4
    assert [row["nsq"]["compression"] for row in rows[2:]] == [None, None, "deflate", "deflate"]
