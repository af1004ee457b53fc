"""Statements of AMQP 1.0, part 5, on SASL. Test names begin with the section."""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp10_pair import HEADER, PLENTY, SASL_HEADER, frames
from lib.kinds import only
from wirefmt import amqp10
from wirefmt.amqp10 import ClientConnection, Login, ServerConnection, State
from wirefmt.connection import Connected, Disconnected
from wirefmt.connection.sasl import Anonymous, External, Plain, Scram, ScramCredentials
from wirefmt.errors import LocalProtocolError


def test_5_3_1_sasl_may_be_demanded_or_allowed() -> None:
    server = ServerConnection(0.0, mechanisms=["PLAIN"])
    gone = only(server.receive(HEADER, 0.0), Disconnected)
    assert "SASL" in gone.reason
    assert server.data_to_send() == SASL_HEADER
    server = ServerConnection(0.0, mechanisms=["PLAIN"], without_sasl=True)
    assert server.receive(HEADER, 0.0) == []
    assert server.data_to_send() == HEADER
    client = ClientConnection(0.0)
    client.open()
    gone = only(client.receive(SASL_HEADER, 0.0), Disconnected)
    assert "demands" in gone.reason


def login(
    sasl: Any, mechanisms: list[str], **answer: Any
) -> tuple[ClientConnection, ServerConnection, list[Any], Login]:
    client = ClientConnection(0.0, "c", sasl=sasl, options=PLENTY)
    server = ServerConnection(0.0, "s", mechanisms=mechanisms, options=PLENTY)
    client.open(hostname="h")
    events: list[Any] = []
    asked: Any = None
    for _ in range(8):
        for event in server.receive(client.data_to_send(), 0.0) if server.state is not State.END else ():
            if isinstance(event, Login):
                asked = event
                refusal = answer.get("refuse")
                server.refuse(event, refusal) if refusal else server.accept(event, **answer)
            elif isinstance(event, amqp10.Open):
                server.accept(event)
        data = server.data_to_send()
        if data and client.state is not State.END:
            events += client.receive(data, 0.0)
    return client, server, events, asked


@pytest.mark.parametrize(
    ("sasl", "expected"),
    [
        (Anonymous("t"), {"mechanism": "ANONYMOUS", "response": b"t"}),
        (Plain("u", "p", "z"), {"user_name": "u", "password": "p", "authorization": "z"}),
        (External("z"), {"authorization": "z"}),
    ],
)
def test_5_3_2_an_exchange(sasl: Any, expected: dict[str, Any]) -> None:
    client, server, events, asked = login(sasl, ["ANONYMOUS", "PLAIN", "EXTERNAL"])
    assert isinstance(events[-1], Connected)
    assert client.state is server.state is State.OPENED
    assert asked.hostname == "h"
    assert {name: getattr(asked, name) for name in expected} == expected
    assert server.login is asked
    assert "'p'" not in repr(asked)


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-1"])
def test_5_3_2_scram(name: str) -> None:
    credentials = ScramCredentials.of("pencil", b"salt", name=name)
    client, _, events, asked = login(
        Scram("user", "pencil", "a", name=name), [name], credentials=credentials, nonce="b"
    )
    assert isinstance(events[-1], Connected)
    assert asked.user_name == "user"
    client, server, events, _ = login(Scram("user", "pen", "a", name=name), [name], credentials=credentials, nonce="b")
    (gone,) = events
    assert (gone.by, gone.code) == ("peer", 1)
    assert client.state is server.state is State.END


def test_5_3_3_6_a_refused_login() -> None:
    _, server, (gone,), _ = login(Plain("u", "p"), ["PLAIN"], refuse=4)
    assert isinstance(gone, Disconnected)
    assert gone.code == 4
    assert server.should_close
    assert server.data_to_send() == b""


def test_5_3_2_only_a_mechanism_that_is_offered() -> None:
    _, _, (gone,), asked = login([External(), Plain("u", "p")], ["ANONYMOUS"])
    assert "ANONYMOUS" in gone.reason
    assert asked is None
    _client, _, _events, asked = login([External(), Plain("u", "p")], ["PLAIN", "ANONYMOUS"])
    assert asked.mechanism == "PLAIN"
    server = ServerConnection(0.0, mechanisms=["PLAIN"])
    init = amqp10.SaslInit(mechanism="ANONYMOUS")
    (gone,) = server.receive(SASL_HEADER + init.encode(), 0.0)
    assert gone.code == 1
    assert frames(server.data_to_send())[-1] == amqp10.SaslOutcome(code=1)


def test_5_3_2_mechanisms_of_the_host() -> None:
    server = ServerConnection(0.0, mechanisms=["MINE"], options=PLENTY)
    init = amqp10.SaslInit(mechanism="MINE", initial_response=b"1")
    first = only(server.receive(SASL_HEADER + init.encode(), 0.0), Login)
    server.challenge(first, b"2")
    second = only(server.receive(amqp10.SaslResponse(response=b"3").encode(), 0.0), Login)
    assert (first.response, second.response, second.mechanism) == (b"1", b"3", "MINE")
    with pytest.raises(LocalProtocolError, match="answer"):
        server.accept(first)
    server.accept(second, data=b"4")
    assert [type(frame).__name__ for frame in frames(server.data_to_send())] == [
        "ProtocolHeader",
        "SaslMechanisms",
        "SaslChallenge",
        "SaslOutcome",
    ]
