"""How an MQTT connection begins: a CONNACK in the form of another version, and a client that has no Client Identifier."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from lib.kinds import checked, only
from lib.loopback import HOST, run
from wirefmt import mqtt
from wirefmt.connection import Connected, Disconnected
from wirefmt.errors import ConnectionLost, DecodeError, LocalProtocolError, Refused
from wirefmt.mqtt.states import State

#: Version of the client, CONNACK, code, and words of the reason: 3.1.1, 3.2.2.3; 5.0, 3.2.2.2 and 4.13.1.
REFUSALS = [
    (5, "20020001", 1, "does not speak MQTT 5.0"),
    (5, "20020002", 2, "identifier rejected"),
    (5, "20020003", 3, "server unavailable"),
    (5, "20020004", 4, "bad user name or password"),
    (5, "20020005", 5, "not authorized"),
    (5, "2003008400", 0x84, "does not speak MQTT 5.0"),
    (4, "20020001", 1, "does not speak MQTT 3.1.1"),
    (3, "20020001", 1, "does not speak MQTT 3.1"),
    (4, "2003008400", 0x84, "does not speak MQTT 3.1.1"),
    (3, "2003008400", 0x84, "does not speak MQTT 3.1"),
    (4, "2003008700", 0x87, "Not authorized"),
    (4, "200a0084071f00046f6e6c79", 0x84, "does not speak MQTT 3.1.1: only"),  # Reason String
    (3, "20020005", 5, "not authorized"),
]

#: What does not count as a refusal: no code of that version, Session Present, too long, accepted in another form, no CONNACK.
FAULTS = [
    (5, "20020006"),
    (5, "20020100"),
    (5, "20020101"),
    (5, "2003000100"),
    (5, "20020000"),
    (4, "2003000000"),
    (4, "2003018400"),
    (4, "2003009100"),
    (4, "200400840000"),
    (5, "d000"),
    (4, "30020000"),
]


def opening(version: int) -> mqtt.ClientConnection:
    client = mqtt.ClientConnection(0.0)
    client.send(mqtt.Connect(client_identifier="c", version=version))
    client.data_to_send()
    return client


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(("version", "connack", "code", "words"), REFUSALS)
def test_a_refusal_is_read_in_whatever_version_it_is(
    version: int, connack: str, code: int, words: str, size: int
) -> None:
    client = opening(version)
    data = bytes.fromhex(connack)
    events: list[Any] = []
    for at in range(0, len(data), size):
        events += client.receive(data[at : at + size], 0.0)
    (ended,) = events
    assert isinstance(ended, Disconnected)
    assert (ended.by, ended.code, ended.error, ended.message.reason_code) == ("peer", code, None, code)
    assert words in ended.reason
    assert client.data_to_send() == b""
    assert client.state is State.CLOSED


@pytest.mark.parametrize(("version", "data"), FAULTS)
def test_what_is_no_refusal_is_a_fault(version: int, data: str) -> None:
    ended = only(opening(version).receive(bytes.fromhex(data), 0.0), Disconnected)
    assert (ended.by, ended.message) == ("local", None)
    assert ended.error is not None


def test_another_versions_connack_counts_as_the_first_packet_only() -> None:
    client = opening(5)
    (connected,) = client.receive(mqtt.Connack().encode(), 0.0)
    assert isinstance(connected, Connected)
    ended = only(client.receive(bytes.fromhex("20020001"), 0.0), Disconnected)
    assert isinstance(ended.error, DecodeError)
    assert client.data_to_send() == bytes.fromhex("e00181")


@pytest.mark.parametrize(("version", "connack", "code", "words"), REFUSALS)
def test_the_client_raises_refused_and_does_not_come_back_in_vain(
    version: int, connack: str, code: int, words: str
) -> None:
    """Code 3, server unavailable, can pass."""

    async def test() -> None:
        count = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            await reader.read(999)
            writer.write(bytes.fromhex(connack))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        url = f"mqtt://{HOST}:{server.sockets[0].getsockname()[1]}"
        client = mqtt.connect(url, version=version, client_identifier="c", clean_start=False)
        with pytest.raises(Refused, match=words) as caught:
            await client.open()
        assert caught.value.code == code
        assert client._is_final(caught.value) is (code != 3)
        assert not isinstance(caught.value, ConnectionLost)
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)
        assert count == 1

    run(test())


# ---- clients without an identifier


def asked(version: int = 5, clean: bool = True, **more: Any) -> tuple[Any, Any]:
    server = mqtt.ServerConnection(0.0, None, random.Random(1))
    connect = mqtt.Connect(client_identifier="", clean_start=clean, version=version, **more)
    (event,) = server.receive(connect.encode(), 0.0)
    return server, event


def test_a_client_without_an_identifier_is_assigned_one() -> None:
    """[MQTT-3.1.3-6, MQTT-3.1.3-7, MQTT-3.2.2-16]"""
    server, event = asked()
    (connected,) = server.accept(event)
    name = connected.negotiated.client_identifier
    assert len(name) == 20 and name.isalnum()  # each server has to take it: [MQTT-3.1.3-5]
    assert (
        dict(checked(mqtt.decode(server.data_to_send(), version=5), mqtt.Connack).properties)[
            "assigned_client_identifier"
        ]
        == name
    )
    assert server.session.client_identifier == name


def test_the_hosts_own_choice_comes_first() -> None:
    server, event = asked()
    server.accept(event, properties=[("assigned_client_identifier", "mine")])
    assert server.session.client_identifier == "mine"
    connack = checked(mqtt.decode(server.data_to_send(), version=5), mqtt.Connack)
    assert [value for name, value in connack.properties if name == "assigned_client_identifier"] == ["mine"]


def test_a_client_with_an_identifier_keeps_it() -> None:
    server = mqtt.ServerConnection(0.0, None, random.Random(1))
    event = only(server.receive(mqtt.Connect(client_identifier="own").encode(), 0.0), mqtt.Connect)
    server.accept(event)
    assert server.session is not None
    assert server.session.client_identifier == "own"
    assert "assigned_client_identifier" not in dict(
        checked(mqtt.decode(server.data_to_send(), version=5), mqtt.Connack).properties
    )


def test_it_is_assigned_at_the_end_of_an_authentication() -> None:
    server, event = asked(properties=[("authentication_method", "m")])
    server.continue_authentication(event, b"?")
    answer = mqtt.Auth(reason_code=0x18, properties=[("authentication_method", "m")])
    server.data_to_send()
    (auth,) = server.receive(answer.encode(), 0.0)
    server.accept(auth)
    assert dict(checked(mqtt.decode(server.data_to_send(), version=5), mqtt.Connack).properties)[
        "assigned_client_identifier"
    ]


def test_before_5_0_the_server_uses_one_that_the_client_does_not_learn() -> None:
    """3.1.1: [MQTT-3.1.3-6]; an empty one with Clean Session 0 is refused with 0x02 [MQTT-3.1.3-8]."""
    server, event = asked(4)
    server.accept(event)
    assert len(server.session.client_identifier) == 20
    assert server.data_to_send() == bytes.fromhex("20020000")
    server = mqtt.ServerConnection(0.0, None, random.Random(1))
    server.receive(mqtt.Connect(client_identifier="", clean_start=False, version=4).encode(), 0.0)
    assert server.data_to_send() == bytes.fromhex("20020002")


def test_without_randomness_the_host_gives_one() -> None:
    server = mqtt.ServerConnection(0.0)
    event = only(server.receive(mqtt.Connect(client_identifier="").encode(), 0.0), mqtt.Connect)
    with pytest.raises(LocalProtocolError, match=r"3\.2\.2-16"):
        server.accept(event)


@pytest.mark.parametrize("version", [4, 5])
def test_a_handler_need_not_care(version: int) -> None:
    async def handler(peer: mqtt.Peer) -> None:
        async for event in peer:
            match event:
                case mqtt.Connect():
                    peer.accept(event)

    async def test() -> None:
        async with await mqtt.serve(handler, HOST, 0, random=random.Random(1)) as server:
            names = []
            for _ in range(2):
                async with mqtt.connect(f"mqtt://{HOST}:{server.port}", version=version) as client:
                    assert client.negotiated is not None
                    names.append(client.negotiated.client_identifier)
        assert len(set(names)) == (2 if version == 5 else 1)

    run(test())
