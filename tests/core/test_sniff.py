"""`wirefmt.sniff` names the protocol whose client begins so."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirefmt
from lib.captures import octets_of, parameters, recorded
from lib.conversations import CLIENT, segments
from lib.openings import OTHERS, OURS
from wirefmt import mqtt, phpmq
from wirefmt.protocols import PROTOCOLS

PORTS = {"mqtt": 1883, "amqp091": 5672, "amqp10": 5672}
RECORDED = parameters(
    [
        row
        for row in recorded()
        if len(row["protocols"]) == 1 and row["protocols"][0] in PORTS and "snaplen" not in row["file"]
    ]
)


def answers(opening: bytes) -> list[Any]:
    """Of every beginning, the shortest first."""
    return [wirefmt.sniff(opening[:size]) for size in range(len(opening) + 1)]


def check_named(name: str, opening: bytes) -> None:
    """It wants more until it knows, and then stays with it."""
    said = answers(opening)
    known = said.index(name)
    assert all(answer is wirefmt.NEED_DATA for answer in said[:known])
    assert said[known:] == [name] * (len(said) - known)


def test_every_protocol_is_known() -> None:
    assert set(OURS) == {row.name for row in PROTOCOLS}


@pytest.mark.parametrize("name", OURS)
def test_openings(name: str) -> None:
    check_named(name, OURS[name][0])


@pytest.mark.parametrize("version", [3, 4, 5])
def test_every_version_of_mqtt(version: Any) -> None:
    check_named("mqtt", mqtt.Connect(client_identifier="c", version=version).encode())


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("amqp091", b"AMQP\0\0\x09\1"),
        ("amqp091", b"AMQP\1\1\0\x09"),
        ("amqp10", b"AMQP\0\1\0\0"),
        ("amqp10", b"AMQP\2\1\0\0"),
        ("amqp10", b"AMQP\3\1\0\0"),
    ],
)
def test_headers_of_amqp(name: str, header: bytes) -> None:
    check_named(name, header)


@pytest.mark.parametrize("row", RECORDED)
def test_real_clients(row: dict[str, Any]) -> None:
    (name,) = row["protocols"]
    first: dict[int, bytes] = {}
    for port, speaker, octets in segments(octets_of(row), PORTS[name]):
        if speaker == CLIENT and octets:
            first.setdefault(port, octets)
    assert first
    for opening in first.values():
        check_named(name, opening)


@pytest.mark.parametrize("name", OTHERS)
def test_other_protocols(name: str) -> None:
    assert wirefmt.sniff(OTHERS[name][0]) is None


def test_a_server_is_no_client() -> None:
    opening = phpmq.MessageServerToClient(queue_name="q", content=b"x", message_id="1", ttl=None).encode()
    assert wirefmt.sniff(opening) is None


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind: Any) -> None:
    assert wirefmt.sniff(kind(b"AMQP\0\1\0\0")) == "amqp10"
    assert wirefmt.sniff(kind(b"")) is wirefmt.NEED_DATA


def test_no_buffer() -> None:
    with pytest.raises(TypeError):
        wirefmt.sniff("AMQP")  # type: ignore[arg-type]


@given(st.sampled_from([b"", *(opening[:12] for opening, *_ in OURS.values())]), st.binary(max_size=40))
def test_any_bytes(head: bytes, tail: bytes) -> None:
    """An answer is final unless it is NEED_DATA. The exception is NSQ: octets after its magic may show that it is not NSQ."""
    said = answers(head + tail)
    names = {row.name for row in PROTOCOLS}
    for before, after in pairwise(said):
        assert after is wirefmt.NEED_DATA or after is None or after in names
        if before is None:
            assert after is None
        elif before is not wirefmt.NEED_DATA and before != "nsq":
            assert after == before


#: What may stand before RocketMQ's first frame: the PROXY protocol, versions 1 and 2.
PREFACES = (b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff")


@pytest.mark.parametrize("head", [b"", *(opening[:8] for opening, *_ in OURS.values()), *PREFACES])
def test_it_does_not_wait_for_ever(head: bytes) -> None:
    for fill in (b"\0", b"0", b" ", b"\xff"):
        assert wirefmt.sniff(head + fill * (129 << 10)) is not wirefmt.NEED_DATA


def test_the_package_stays_light() -> None:
    code = "import sys, wirefmt; print([m for m in sys.modules if m.endswith(('_codec', '_engine', 'wirefmt._core'))])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.strip() == b"[]"
