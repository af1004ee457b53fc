"""Normative statements on the behaviour of MQTT clients and servers, each shown on the connections without I/O.

A statement is named "5 3.1.0-2" for [MQTT-3.1.0-2] of MQTT 5.0, and "4 ..." for MQTT 3.1.1. tests/data/mqtt/behaviour.txt
lists them all; those that no test here names are explained in docs/mqtt-statements.md, which the last test checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from lib.kinds import all_of, checked, exactly, only
from wirefmt import mqtt
from wirefmt.connection import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.mqtt import ClientConnection, ServerConnection
from wirefmt.mqtt.events import ConnectionOptions, Dropped, Released
from wirefmt.mqtt.session import NEVER, Session
from wirefmt.mqtt.states import State

ROOT = Path(__file__).resolve().parents[2]
BEHAVIOUR = {
    f"{version} {name}"
    for version, name, _ in (
        line.split() for line in (ROOT / "tests/data/mqtt/behaviour.txt").read_text().splitlines() if line[0] != "#"
    )
}
NAMED: set[str] = set()
PLAIN = ConnectionOptions(receive_maximum=65535, packet_size=268_435_460)  # announces nothing
_Test = TypeVar("_Test", bound=Callable[..., None])


def statement(*names: str) -> Callable[[_Test], _Test]:
    """The test shows these statements."""
    assert set(names) <= BEHAVIOUR, set(names) - BEHAVIOUR
    NAMED.update(names)
    return lambda test: test


both_versions = pytest.mark.parametrize("version", [4, 5])
all_versions = pytest.mark.parametrize("version", [3, 4, 5])


METHOD = ("authentication_method", "SCRAM")


class Pair:
    """A client and a server, wired together. `pump` carries bytes until both are silent."""

    def __init__(
        self,
        version: int = 5,
        *,
        connect: Any = (),
        connack: Any = (),
        clean: bool = True,
        keep_alive: int = 0,
        will: mqtt.Will | None = None,
        identifier: str = "c",
        client_session: Session | None = None,
        server_session: Session | None = None,
        client_options: ConnectionOptions = PLAIN,
        server_options: ConnectionOptions = PLAIN,
    ) -> None:
        self.now = 0.0
        self.client = ClientConnection(0.0, client_session, client_options)
        self.server = ServerConnection(0.0, server_options)
        self.client.send(
            mqtt.Connect(
                client_identifier=identifier,
                clean_start=clean,
                keep_alive=keep_alive,
                will=will,
                properties=connect,
                version=version,
            )
        )
        (self.connect,) = self.server.receive(self.client.data_to_send(), 0.0)
        self.accepted = self.server.accept(checked(self.connect, mqtt.Connect), server_session, connack)
        self.connack = self.server.data_to_send()
        self.connected = self.client.receive(self.connack, 0.0)

    def pump(self) -> tuple[list[Any], list[Any]]:
        """Events of the client and of the server."""
        to_client: list[Any] = []
        to_server: list[Any] = []
        while True:
            up, down = self.client.data_to_send(), self.server.data_to_send()
            if not up and not down:
                return to_client, to_server
            if up and self.server.state is not State.CLOSED:
                to_server += self.server.receive(up, self.now)
            if down and self.client.state is not State.CLOSED:
                to_client += self.client.receive(down, self.now)


def wire(connection: Any, version: int = 5) -> list[Any]:
    """What the connection has queued, as packets."""
    side: Any = "client" if isinstance(connection, ClientConnection) else "server"
    return mqtt.Decoder(version=version, side=side).feed(connection.data_to_send())


def server_with(connect: mqtt.Connect, options: ConnectionOptions = PLAIN) -> tuple[ServerConnection, Any]:
    server = ServerConnection(0.0, options)
    (event,) = server.receive(connect.encode(), 0.0)
    return server, event


def connected_client(
    version: int = 5, connack: Any = (), options: ConnectionOptions = PLAIN, **connect: Any
) -> ClientConnection:
    """A client that has got a CONNACK with these properties."""
    client = ClientConnection(0.0, options=options)
    client.send(mqtt.Connect(client_identifier="c", version=version, **connect))
    client.receive(mqtt.Connack(properties=connack, version=version).encode(), 0.0)
    client.data_to_send()
    return client


def publish(
    identifier: int | None = None, qos: int = 0, *, version: int = 5, payload: bytes = b"!", **fields: Any
) -> bytes:
    """A PUBLISH of a peer."""
    fields = {"topic_name": "a/b", **fields}
    return mqtt.Publish(packet_identifier=identifier, qos=qos, payload=payload, version=version, **fields).encode()


def gone(events: list[Any]) -> Disconnected:
    """The last event, which is a Disconnected; no other is."""
    assert [type(event) is Disconnected for event in events] == [False] * (len(events) - 1) + [True]
    return events[-1]


# ---- packet identifiers (2.2.1)


@both_versions
@statement("5 2.2.1-3", "4 2.3.1-2", "4 2.3.1-3", "5 4.3.2-1", "5 4.3.3-1")
def test_a_client_takes_a_free_identifier_for_each_message(version: int) -> None:
    pair = Pair(version)
    handles = [
        pair.client.publish("a", qos=1),
        pair.client.subscribe([mqtt.Subscription("a")]),
        pair.client.publish("a", qos=2),
    ]
    assert [handle.packet_identifier for handle in handles] == [1, 2, 3]  # type: ignore[union-attr]
    pair.client.session.identifiers.next = 65535
    assert pair.client.unsubscribe(["a"]).packet_identifier == 65535
    assert pair.client.unsubscribe(["a"]).packet_identifier == 4  # 1 to 3 are in use
    sent = wire(pair.client, version)
    assert [packet.packet_identifier for packet in sent] == [1, 2, 3, 65535, 4]


@both_versions
@statement("5 2.2.1-4", "4 2.3.1-4")
def test_a_server_does_the_same_in_a_space_of_its_own(version: int) -> None:
    pair = Pair(version)
    pair.client.publish("a", qos=1)
    ours = [pair.server.publish("a", qos=1), pair.server.publish("a", qos=2)]
    assert [handle.packet_identifier for handle in ours if handle] == [1, 2]
    to_client, to_server = pair.pump()
    assert [e.packet_identifier for e in to_client] == [1, 2]
    assert [e.packet_identifier for e in to_server] == [1]


def test_when_all_identifiers_are_in_use_send_refuses_and_changes_nothing() -> None:
    pair = Pair(5)
    for _ in range(65535):
        pair.client.subscribe([mqtt.Subscription("a")])
    before = pair.client.pending_bytes
    assert pair.client.send_quota == 0
    with pytest.raises(LocalProtocolError, match="in use"):
        pair.client.subscribe([mqtt.Subscription("a")])
    with pytest.raises(LocalProtocolError, match="window"):
        pair.client.publish("a", qos=1)
    assert pair.client.pending_bytes == before


@both_versions
@statement(
    "5 2.2.1-5", "4 2.3.1-6", "5 3.3.4-1", "4 3.3.4-1", "5 4.3.2-4", "5 4.3.3-8", "5 4.3.3-4", "5 4.3.3-11", "4 4.3.2-2"
)
def test_answers_follow_the_qos_and_repeat_the_identifier(version: int) -> None:
    pair = Pair(version)
    pair.server.receive(publish(version=version) + publish(7, 1, version=version), 0.0)
    second = only(pair.server.receive(publish(8, 2, version=version), 0.0), mqtt.Publish)
    assert pair.server.data_to_send() == b""  # nothing before the host has the messages
    pair.server.acknowledge(pair.server._arrivals[7].message)
    assert pair.server.data_to_send() == bytes.fromhex("4002 0007")
    pair.server.acknowledge(second)
    assert pair.server.data_to_send() == bytes.fromhex("5002 0008")
    pair.server.receive(bytes.fromhex("6202 0008"), 0.0)
    assert pair.server.data_to_send() == bytes.fromhex("7002 0008")
    # and the sender's side of QoS 2
    handle = pair.client.publish("a", qos=2)
    pair.client.data_to_send()
    assert handle is not None
    assert pair.client.receive(bytes.fromhex("5002 0001"), 0.0) == []
    assert pair.client.data_to_send() == bytes.fromhex("6202 0001")
    done = only(pair.client.receive(bytes.fromhex("7002 0001"), 0.0), Acknowledged)
    assert done.handle is handle


@both_versions
@statement("5 2.2.1-6", "4 2.3.1-7", "5 3.8.4-1", "5 3.8.4-2", "5 3.8.4-5", "5 3.8.4-6", "5 3.8.4-7", "5 3.9.3-1")
@statement("4 3.8.4-1", "4 3.8.4-2", "4 3.8.4-4", "4 3.8.4-5", "4 3.9.3-1")
def test_a_subscribe_is_answered_by_one_suback_with_a_code_for_each_filter(version: int) -> None:
    pair = Pair(version)
    request = pair.client.subscribe([mqtt.Subscription("a", 2), mqtt.Subscription("b", 1), mqtt.Subscription("c", 0)])
    _, (event,) = pair.pump()
    for wrong in ((), (0,), (0, 0, 0, 0), (0, 0, 7)):
        with pytest.raises(LocalProtocolError):
            pair.server.grant(event, wrong)
    pair.server.grant(event, (2, 0x87, 0))
    with pytest.raises(LocalProtocolError):
        pair.server.grant(event, (2, 0x87, 0))
    (answer,), _ = pair.pump()
    assert answer.handle is request
    assert answer.message.reason_codes == ((2, 0x87, 0) if version == 5 else (2, 0x80, 0))
    assert answer.message.packet_identifier == request.packet_identifier


@both_versions
@statement("5 3.10.4-4", "5 3.10.4-5", "5 3.10.4-6", "5 3.11.3-1", "4 3.10.4-4", "4 3.10.4-5", "4 3.10.4-6")
def test_an_unsubscribe_is_answered_by_one_unsuback(version: int) -> None:
    pair = Pair(version)
    request = pair.client.unsubscribe(["a", "b"])
    _, (event,) = pair.pump()
    pair.server.grant(event, (0x11, 0) if version == 5 else ())
    (answer,), _ = pair.pump()
    assert answer.handle is request
    assert answer.message.reason_codes == ((0x11, 0) if version == 5 else ())


# ---- opening (3.1, 3.2)


@all_versions
@statement("5 3.1.0-1", "4 3.1.0-1", "5 3.1.0-2", "4 3.1.0-2", "4 4.8.0-1")
def test_connect_comes_first_and_once(version: int) -> None:
    server = ServerConnection(0.0)
    ended = gone(server.receive(mqtt.Pingreq(version=version).encode(), 0.0))
    assert isinstance(ended.error, DecodeError)
    assert (server.data_to_send(), server.should_close) == (b"", True)
    pair = Pair(version)
    ended = gone(pair.server.receive(mqtt.Connect(client_identifier="c", version=version).encode(), 0.0))
    assert isinstance(ended.error, RemoteProtocolError)
    assert pair.server.data_to_send() == (bytes.fromhex("e00182") if version == 5 else b"")
    client = ClientConnection(0.0)
    with pytest.raises(LocalProtocolError, match=r"3\.1\.0-1"):
        client.send(mqtt.Pingreq(version=version))
    with pytest.raises(LocalProtocolError, match=r"3\.1\.0-2"):
        pair.client.send(mqtt.Connect(client_identifier="c", version=version))


@pytest.mark.parametrize(
    ("connect", "said"),
    [
        ("100d 0004 4d515454 06 02 003c 00 0000", "2003 008400"),  # a level that nobody knows
        ("100d 0004 4d515454 02 02 003c 00 0000", "2003 008400"),
        ("100c 0004 4d515454 03 02 003c 0000", "2002 0001"),  # 3.1 under the name of 3.1.1
        ("100f 0006 4d5149736470 05 02 003c 00 0000", "2003 008400"),
        ("100d 0004 4d515454 05 03 003c 00 0000", "2003 008100"),  # a reserved flag, 5.0
        ("100c 0004 4d515454 04 03 003c 0000", ""),  # the same in 3.1.1
        ("100c 0004 4d515454 05 02 003c 00 00", "2003 008100"),  # cut
        ("100b 0004 4d515454 04 02 003c 00", ""),
        ("3003 0001 61", ""),  # no CONNECT
    ],
)
@statement(
    "5 3.1.2-1", "5 3.1.2-2", "4 3.1.2-1", "4 3.1.2-2", "5 3.1.4-1", "4 3.1.4-1", "4 3.2.2-6", "4 2.2.2-2", "5 4.13.1-1"
)
def test_a_connect_that_cannot_be_read_is_refused_in_the_version_it_shows(connect: str, said: str) -> None:
    for cut in (False, True):
        server = ServerConnection(0.0)
        data = bytes.fromhex(connect)
        pieces = [data[i : i + 1] for i in range(len(data))] if cut else [data]
        events: list[Any] = []
        for piece in pieces:
            if server.state is not State.CLOSED:
                events += server.receive(piece, 0.0)
        assert isinstance(gone(events).error, DecodeError)
        assert server.data_to_send() == bytes.fromhex(said)
        assert server.should_close


@both_versions
@statement("5 3.1.2-4", "4 3.1.2-6", "5 3.1.4-4", "4 3.1.4-3", "5 3.2.2-2", "4 3.2.2-1", "5 3.1.2-6", "4 3.2.2-3")
def test_clean_start_throws_the_old_session_away_on_both_sides(version: int) -> None:
    stored, own = Session("c"), Session("c", established=True)
    own.add(publish(1, 1, version=version), version)
    with pytest.raises(LocalProtocolError, match=r"3\.1\.2-4"):
        Pair(version, clean=True, server_session=stored)
    pair = Pair(version, clean=True, client_session=Session("c", established=True))
    assert pair.connack[2] == 0
    assert pair.server.session is not stored
    client = ClientConnection(0.0, own)
    client.send(mqtt.Connect(client_identifier="c", clean_start=True, version=version))
    client.data_to_send()
    event = only(client.receive(mqtt.Connack(version=version).encode(), 0.0), Connected)
    assert (event.resumed, len(event.lost)) == (False, 1)
    assert client.data_to_send() == b""
    # Clean Start 0 without a stored session begins a new one
    pair = Pair(version, clean=False)
    assert pair.connack[2] == 0
    assert checked(pair.accepted[0], Connected).resumed is False


@both_versions
@statement("5 3.1.2-5", "4 3.1.2-4", "5 3.2.2-3", "4 3.2.2-2", "5 3.1.2-23", "5 4.1.0-1", "4 4.1.0-1", "4 4.1.0-2")
def test_clean_start_0_goes_on_with_the_stored_session(version: int) -> None:
    keep = [("session_expiry_interval", 100)] if version == 5 else []
    client_session, pair = Session(), None
    pair = Pair(version, clean=False, connect=keep, client_session=client_session)
    server_session = pair.server.session
    assert server_session is not None
    assert server_session.expiry_interval == (100 if version == 5 else NEVER)
    lost = pair.client.publish("a", qos=1)
    assert gone(pair.client.close(immediate=True)).resumable == (lost,)
    gone(pair.server.receive_eof(0.0))
    pair = Pair(version, clean=False, connect=keep, client_session=client_session, server_session=server_session)
    assert pair.connack[2] == 1
    assert checked(pair.connected[0], Connected).resumed
    assert pair.server.session is server_session
    _, (event,) = pair.pump()
    assert event.packet_identifier == 1


@both_versions
@statement("5 4.1.0-2", "5 3.1.2-23", "4 3.1.2-6")
def test_a_session_that_does_not_outlive_its_connection_is_empty_afterwards(version: int) -> None:
    pair = Pair(version, clean=True)
    handle = pair.server.publish("a", qos=2)
    ended = gone(pair.server.receive_eof(0.0))
    assert (ended.resumable, ended.lost) == ((), (handle,))
    assert pair.server.session is not None
    assert not pair.server.session.outgoing


@statement("5 3.1.2-23")
def test_disconnect_may_change_the_session_expiry_interval_but_not_raise_it_from_0() -> None:
    keep = [("session_expiry_interval", 100)]
    pair = Pair(connect=keep, clean=False)
    pair.client.close(properties=[("session_expiry_interval", 7)])
    assert pair.client.session.expiry_interval == 7
    _, (event,) = pair.pump()
    assert event.error is None
    assert pair.server.session is not None
    assert pair.server.session.expiry_interval == 7
    pair = Pair()
    with pytest.raises(LocalProtocolError):
        pair.client.close(properties=keep)
    ended = gone(pair.server.receive(mqtt.Disconnect(properties=keep).encode(), 0.0))
    assert ended.code == 0x82
    assert wire(pair.server) == [mqtt.Disconnect(reason_code=0x82)]


@statement("5 3.2.2-4")
def test_session_present_without_own_state_closes() -> None:
    for session, clean in ((None, False), (Session("c", established=True), True)):
        client = ClientConnection(0.0, session)
        client.send(mqtt.Connect(client_identifier="c", clean_start=clean))
        client.data_to_send()
        ended = gone(client.receive(mqtt.Connack(session_present=True).encode(), 0.0))
        assert isinstance(ended.error, RemoteProtocolError)
        assert client.data_to_send() == bytes.fromhex("e00182")


@statement("5 3.2.2-5", "4 3.2.2-3")
def test_session_present_0_drops_own_state() -> None:
    session = Session("c", established=True)
    handle = session.add(publish(1, 1), 5)
    session.hold(9)
    client = ClientConnection(0.0, session)
    client.send(mqtt.Connect(client_identifier="c", clean_start=False))
    client.data_to_send()
    event = only(client.receive(mqtt.Connack().encode(), 0.0), Connected)
    assert event.lost == (handle,)
    assert (session.outgoing, session.incoming) == ({}, {})
    assert client.data_to_send() == b""
    assert client.publish("a", qos=1).packet_identifier == 2  # type: ignore[union-attr]


@both_versions
@statement(
    "5 3.2.2-6", "5 3.2.2-7", "4 3.2.2-4", "4 3.2.2-5", "5 3.1.4-2", "5 3.1.3-8", "4 3.1.3-9", "5 3.1.4-6", "4 3.1.4-5"
)
@statement("5 4.13.2-1")
def test_a_refusal_has_session_present_0_and_closes_and_what_follows_is_dropped(version: int) -> None:
    server, event = server_with(mqtt.Connect(client_identifier="c", version=version))
    assert server.receive(publish(version=version), 0.0) == []
    code = 0x85 if version == 5 else 2
    ended = gone(server.refuse(event, code))
    assert (ended.by, ended.code) == ("local", code)
    said = server.data_to_send()
    assert said == (bytes.fromhex("2003 008500") if version == 5 else bytes.fromhex("2002 0002"))
    assert server.should_close
    with pytest.raises(LocalProtocolError):
        server.receive(b"", 0.0)
    client = ClientConnection(0.0)
    client.send(mqtt.Connect(client_identifier="c", version=version))
    client.data_to_send()
    ended = gone(client.receive(said, 0.0))
    assert (ended.by, ended.code, ended.error) == ("peer", code, None)
    assert client.should_close
    with pytest.raises(LocalProtocolError):
        server_with(mqtt.Connect(client_identifier="c"))[0].refuse(event, 0)


@both_versions
@statement("5 3.1.4-5", "4 3.1.4-4", "4 3.2.0-1", "5 3.2.0-1", "5 3.2.0-2")
def test_an_accepted_connect_gets_one_connack_before_anything_else(version: int) -> None:
    server, event = server_with(mqtt.Connect(client_identifier="c", version=version))
    with pytest.raises(LocalProtocolError):
        server.publish("a")
    assert server.data_to_send() == b""
    server.accept(event)
    with pytest.raises(LocalProtocolError):
        server.accept(event)
    with pytest.raises(LocalProtocolError):
        server.refuse(event, 0x87)
    assert server.data_to_send() == (bytes.fromhex("2003 000000") if version == 5 else bytes.fromhex("2002 0000"))
    client = connected_client(version)
    ended = gone(client.receive(mqtt.Connack(version=version).encode(), 0.0))
    assert isinstance(ended.error, RemoteProtocolError)


def test_what_was_pipelined_behind_connect_is_read_after_accept() -> None:
    server = ServerConnection(0.0, PLAIN)
    connect = mqtt.Connect(client_identifier="c").encode()
    event = only(server.receive(connect + publish(payload=b"1"), 0.0), mqtt.Connect)
    assert (server.undecided, server.wants_read) == (1, False)
    assert server.receive(publish(payload=b"2") + mqtt.Disconnect().encode(), 0.0) == []
    assert server.receive_eof(0.0) == []
    first, one, two, last = exactly(server.accept(event), Connected, mqtt.Publish, mqtt.Publish, Disconnected)
    assert isinstance(first, Connected)
    assert [bytes(one.payload), bytes(two.payload)] == [b"1", b"2"]
    assert (last.by, last.code) == ("peer", 0)


def test_bytes_behind_connect_are_kept_up_to_a_limit() -> None:
    server = ServerConnection(0.0, ConnectionOptions(unread_bytes=1000))
    server.receive(mqtt.Connect(client_identifier="c").encode(), 0.0)
    assert server.receive(bytes(1000), 0.0) == []
    ended = gone(server.receive(b"\x00", 0.0))
    assert ended.code == 0x97
    assert server.data_to_send() == mqtt.Connack(reason_code=0x97).encode()


@statement("5 3.1.3-6", "5 3.1.3-7", "5 3.2.2-16")
def test_an_assigned_client_identifier_is_returned_and_used() -> None:
    server, event = server_with(mqtt.Connect(client_identifier=""))
    with pytest.raises(LocalProtocolError, match=r"3\.2\.2-16"):
        server.accept(event)
    pair = Pair(identifier="", connack=[("assigned_client_identifier", "made-up")])
    assert pair.client.session.client_identifier == "made-up"
    assert pair.server.session is not None
    assert pair.server.session.client_identifier == "made-up"


@pytest.mark.parametrize(("version", "clean"), [(3, True), (3, False), (4, False)])
@statement("4 3.1.3-7", "4 3.1.3-8")
def test_an_empty_identifier_is_refused_where_the_version_says_so(version: int, clean: bool) -> None:
    server = ServerConnection(0.0)
    connect = mqtt.Connect(client_identifier="", clean_start=clean, version=version)
    ended = gone(server.receive(connect.encode(), 0.0))
    assert ended.code == 2
    assert server.data_to_send() == bytes.fromhex("2002 0002")
    with pytest.raises(LocalProtocolError):
        ClientConnection(0.0).send(connect)


@statement("4 3.1.3-6")
def test_3_1_1_with_clean_session_takes_an_empty_identifier() -> None:
    assert checked(Pair(4, identifier="", clean=True).accepted[0], Connected).negotiated.client_identifier == ""


@both_versions
@statement("5 3.1.4-3", "4 3.1.4-2")
def test_a_session_is_taken_over_after_the_old_connection_is_closed(version: int) -> None:
    keep = [("session_expiry_interval", 100)] if version == 5 else []
    old = Pair(version, clean=False, connect=keep)
    stored = old.server.session
    assert stored is not None
    server, event = server_with(
        mqtt.Connect(client_identifier="c", clean_start=False, properties=keep, version=version)
    )
    with pytest.raises(LocalProtocolError, match=r"3\.1\.4-3"):
        server.accept(event, stored)
    gone(old.server.close(0x8E))
    assert old.server.data_to_send() == (bytes.fromhex("e0018e") if version == 5 else b"")
    assert checked(server.accept(event, stored)[0], Connected).resumed


# ---- what CONNECT and CONNACK announce


@statement("5 3.1.2-20", "4 3.1.2-23")
def test_a_silent_client_sends_pingreq_in_time() -> None:
    for version in (3, 4, 5):
        client = connected_client(version, keep_alive=10)
        now, sent = 0.0, 0.0
        while now < 100:
            when = client.next_timeout()
            assert when is not None
            now = when
            assert client.handle_timeout(now) == []
            if data := client.data_to_send():
                assert data == bytes.fromhex("c000")
                assert now - sent <= 10
                sent = now
                assert client.receive(bytes.fromhex("d000"), now) == []
        assert sent > 80
    client = connected_client(5)
    client.handle_timeout(10.0**6)
    assert client.data_to_send() == b""


def test_a_client_that_gets_no_answer_to_pingreq_gives_up() -> None:
    client = connected_client(5, keep_alive=10)
    events: list[Any] = []
    when = 0.0
    while not events:
        when = checked(client.next_timeout(), float)
        events = client.handle_timeout(when)
    assert gone(events).by == "local"
    assert 10 < when <= 20


@statement("5 3.1.2-21", "5 3.2.2-21")
def test_server_keep_alive_replaces_the_clients_own() -> None:
    pair = Pair(keep_alive=100, connack=[("server_keep_alive", 4)])
    assert pair.client.negotiated is not None
    assert pair.client.negotiated.keep_alive == 4
    pair.client.handle_timeout(0.0)
    pair.client.handle_timeout(4.0)
    assert pair.client.data_to_send() == bytes.fromhex("c000")
    pair.server.handle_timeout(0.0)
    assert pair.server.next_timeout() == 6.0


@all_versions
@statement("5 3.1.2-22", "4 3.1.2-24", "5 3.2.2-22")
def test_a_server_closes_after_one_and_a_half_keep_alive(version: int) -> None:
    pair = Pair(version, keep_alive=10)
    assert pair.server.handle_timeout(0.0) == []
    pair.server.receive(mqtt.Pingreq(version=version).encode()[:1], 8.0)  # half a packet is a sign of life, too
    assert pair.server.handle_timeout(15.0) == []
    assert pair.server.handle_timeout(22.9) == []
    ended = gone(pair.server.handle_timeout(23.0))
    assert (ended.by, ended.code) == ("local", 0x8D if version == 5 else None)
    assert pair.server.data_to_send() == (bytes.fromhex("e0018d") if version == 5 else b"")
    quiet = Pair(version)
    quiet.server.handle_timeout(0.0)
    assert quiet.server.next_timeout() is None


def test_keep_alive_does_not_run_while_the_server_does_not_read() -> None:
    pair = Pair(4, keep_alive=10, server_options=ConnectionOptions(undecided=1))
    first = only(pair.server.receive(publish(1, 1, version=4) + publish(2, 1, version=4), 5.0), mqtt.Publish)
    assert not pair.server.wants_read
    assert pair.server.next_timeout() is None
    pair.server.handle_timeout(1000.0)
    (second,) = pair.server.acknowledge(first)
    pair.server.acknowledge(second)
    assert pair.server.handle_timeout(1000.0) == []
    assert pair.server.next_timeout() == 1015.0


@statement("5 3.1.2-24", "5 3.1.2-25", "5 3.2.2-15")
def test_nobody_sends_more_than_the_peers_maximum_packet_size() -> None:
    small = ConnectionOptions(packet_size=40)
    pair = Pair(client_options=small, server_options=small)
    for connection in (pair.client, pair.server):
        assert connection.publish("a", bytes(40 - 2 - 3 - 1)) is None
        with pytest.raises(LocalProtocolError) as refused:
            connection.publish("a", bytes(40 - 2 - 3), qos=0)
        assert refused.value.reply == 0x95
        with pytest.raises(LocalProtocolError):
            connection.publish("a", bytes(40), qos=1)
        assert connection.session is not None
        assert not connection.session.outgoing  # nothing was taken
        assert len(connection.data_to_send()) == 40
    with pytest.raises(LocalProtocolError):
        pair.client.subscribe([mqtt.Subscription("a" * 40)])


@statement("5 3.1.2-25")
def test_a_stored_message_too_large_for_the_new_connection_is_dropped_and_told() -> None:
    for dropped_by in ("client", "server"):
        session = Session("c", established=True)
        large = session.add(publish(1, 1, payload=bytes(100)), 5)
        small = session.add(publish(2, 1, payload=b"s"), 5)
        limit = ConnectionOptions(packet_size=60)
        keep = [("session_expiry_interval", 100)]
        if dropped_by == "server":
            other = Session("c", established=True)
            pair = Pair(clean=False, connect=keep, client_session=other, server_session=session, client_options=limit)
            events: list[Any] = list(pair.accepted)
        else:
            other = Session("c", established=True)
            pair = Pair(clean=False, connect=keep, client_session=session, server_session=other, server_options=limit)
            events = list(pair.connected)
        (told,) = [event for event in events if isinstance(event, Dropped)]
        assert told.handle is large
        assert list(session.outgoing.values()) == [small]


@statement("5 3.1.2-26", "5 3.1.2-27", "5 3.2.2-17", "5 3.2.2-18", "5 3.3.2-9", "5 3.3.2-11")
def test_aliases_stay_within_the_receivers_maximum() -> None:
    pair = Pair(
        client_options=ConnectionOptions(topic_alias_maximum=2), server_options=ConnectionOptions(topic_alias_maximum=0)
    )
    pair.client.publish("topic/a")
    assert all(not packet.properties for packet in wire(pair.client))  # the server allows none
    with pytest.raises(LocalProtocolError) as refused:
        pair.client.publish("topic/a", properties=[("topic_alias", 1)])
    assert refused.value.reply == 0x94
    for topic in ("topic/a", "topic/b", "topic/a", "topic/c", "topic/b", "topic/a"):
        pair.server.publish(topic)
    data = pair.server.data_to_send()
    seen = [
        (p.topic_name, dict(p.properties)["topic_alias"])
        for p in all_of(mqtt.Decoder(version=5).feed(data), mqtt.Publish)
    ]
    # a is used again last, so c takes b's alias, b takes a's, a takes c's
    assert seen == [("topic/a", 1), ("topic/b", 2), ("", 1), ("topic/c", 2), ("topic/b", 1), ("topic/a", 2)]
    events = pair.client.receive(data, 0.0)
    assert [e.topic_name for e in all_of(events, mqtt.Publish)] == [
        "topic/a",
        "topic/b",
        "topic/a",
        "topic/c",
        "topic/b",
        "topic/a",
    ]
    assert all(e.properties == () for e in all_of(events, mqtt.Publish))
    with pytest.raises(LocalProtocolError):
        pair.server.publish("topic/a", properties=[("topic_alias", 3)])


def test_a_client_uses_no_aliases_unless_it_is_asked_to() -> None:
    """Nor does it offer any. An alias that the host chooses needs no option."""
    offered = ConnectionOptions(topic_alias_maximum=5)
    for asked, topics in ((None, 0), (0, 0), (1, 1), (9, 5)):
        options = ConnectionOptions(topic_aliases=asked)
        pair = Pair(client_options=options, server_options=offered)
        assert "topic_alias_maximum" not in dict(checked(pair.connect, mqtt.Connect).properties)
        for number in range(12):
            pair.client.publish(f"topic/{number % 6}", b"x", qos=number % 3)
        packets = wire(pair.client)
        assert len({dict(p.properties).get("topic_alias") for p in packets} - {None}) == topics, asked
    pair = Pair(server_options=offered)
    pair.client.publish("topic/a", properties=[("topic_alias", 4)])
    pair.client.publish("", properties=[("topic_alias", 4)])
    assert [e.topic_name for e in pair.pump()[1]] == ["topic/a", "topic/a"]


def test_a_server_uses_the_aliases_that_its_client_has_asked_for_or_fewer() -> None:
    for asked, topics in ((None, 2), (0, 0), (1, 1)):
        pair = Pair(
            client_options=ConnectionOptions(topic_alias_maximum=2),
            server_options=ConnectionOptions(topic_aliases=asked),
        )
        for number in range(6):
            pair.server.publish(f"topic/{number % 3}")
        aliases = {dict(p.properties).get("topic_alias") for p in wire(pair.server)}
        assert len(aliases - {None}) == topics, asked


def test_qos_3_is_never_tolerated_and_a_wildcard_with_an_alias_is_a_fault() -> None:
    """Packets that a connection may tolerate otherwise: there is no flow of QoS 3, and a resolved alias is a new packet."""
    with pytest.raises(ValueError, match="PUBLISH_QOS"):
        ConnectionOptions(tolerate=frozenset(("PUBLISH PUBLISH_QOS",)))
    options = ConnectionOptions(
        topic_alias_maximum=3, tolerate=frozenset(("PUBLISH TOPIC_NAME_WILDCARD", "PUBLISH PUBLISH_DUP"))
    )
    packet = publish(properties=[("topic_alias", 1)]).replace(b"a/b", b"a/#")
    assert gone(Pair(server_options=options).server.receive(packet, 0.0)).code == 0x81


@statement("5 3.3.2-10", "5 3.3.2-12")
def test_every_alias_up_to_our_maximum_is_accepted_and_none_above() -> None:
    limit = ConnectionOptions(topic_alias_maximum=3)
    for alias in (1, 2, 3):
        pair = Pair(client_options=limit, server_options=limit)
        for connection in (pair.client, pair.server):
            first = publish(topic_name="x/y", properties=[("topic_alias", alias), ("content_type", "t")])
            again = publish(topic_name="", properties=[("topic_alias", alias)])
            moved = publish(topic_name="z", properties=[("topic_alias", alias)])
            one, two, three, four = exactly(
                connection.receive(first + again + moved + again, 0.0),
                mqtt.Publish,
                mqtt.Publish,
                mqtt.Publish,
                mqtt.Publish,
            )
            assert [e.topic_name for e in all_of((one, two, three, four), mqtt.Publish)] == ["x/y", "x/y", "z", "z"]
            assert one.properties == (("content_type", "t"),)
    for packet, code in (
        (publish(properties=[("topic_alias", 4)]), 0x94),
        (publish(topic_name="", properties=[("topic_alias", 2)]), 0x82),
    ):
        pair = Pair(client_options=limit, server_options=limit)
        for connection in (pair.client, pair.server):
            assert gone(connection.receive(packet, 0.0)).code == code
            assert connection.data_to_send() == bytes((0xE0, 1, code))


@statement("5 3.3.2-7")
def test_aliases_end_with_the_connection_and_are_not_in_what_is_kept() -> None:
    limit = ConnectionOptions(topic_alias_maximum=3)
    keep = [("session_expiry_interval", 100)]
    mine, theirs = Session("c", established=True), Session("c")
    first = Pair(
        clean=False,
        connect=keep,
        client_session=mine,
        server_session=theirs,
        client_options=ConnectionOptions(topic_aliases=3),
        server_options=limit,
    )
    for _ in range(2):
        first.client.publish("topic/a", qos=1)
    assert [p.topic_name for p in wire(first.client)] == ["topic/a", ""]
    first.client.close(immediate=True)
    first.server.receive_eof(0.0)
    again = Pair(clean=False, connect=keep, client_session=mine, server_session=theirs, server_options=limit)
    sent = wire(again.client)
    assert [(p.topic_name, p.properties, p.dup) for p in sent] == [("topic/a", (), True)] * 2
    # a receiver has forgotten as well
    server = again.server
    assert gone(server.receive(publish(topic_name="", properties=[("topic_alias", 1)]), 0.0)).code == 0x82


@statement("5 3.1.2-28")
def test_response_information_is_given_to_those_who_ask() -> None:
    for asked in (0, 1):
        pair = Pair(connect=[("request_response_information", asked)], connack=[("response_information", "r")])
        assert (b"r" in pair.connack[4:]) is bool(asked)


def refuse_all(pair: Pair, reasons: list[tuple[str, Any]]) -> None:
    """The server refuses two messages, a subscription and its removal, with 0x87 and these properties."""
    pair.client.publish("a", qos=1)
    pair.client.publish("a", qos=2)
    pair.client.subscribe([mqtt.Subscription("a")])
    pair.client.unsubscribe(["a"])
    _, (one, two, three, four) = pair.pump()
    for message in (one, two):
        pair.server.acknowledge(message, 0x87, reasons)
    for request in (three, four):
        pair.server.grant(request, [0x87], reasons)


@statement("5 3.1.2-29")
def test_without_problem_information_reasons_stand_in_few_packets() -> None:
    reasons = [("reason_string", "why"), ("user_property", ("k", "v"))]
    pair = Pair(connect=[("request_problem_information", 0)], connack=reasons)
    assert b"why" in pair.connack
    refuse_all(pair, reasons)
    answers = wire(pair.server)
    assert [type(a).__name__ for a in answers] == ["Puback", "Pubrec", "Suback", "Unsuback"]
    assert all(a.properties == () for a in answers)
    pair.server.publish("a", properties=[("user_property", ("k", "v"))])
    pair.server.close(0x8B, reasons)
    message, last = wire(pair.server)
    assert message.properties == (("user_property", ("k", "v")),)
    assert last.properties == tuple(reasons)


REASONS = [("reason_string", "r" * 30), ("user_property", ("k", "v" * 30)), ("user_property", ("k", "v"))]


@pytest.mark.parametrize(("room", "left"), [(200, 3), (60, 1), (30, 0)])
@statement("5 3.4.2-2", "5 3.4.2-3", "5 3.5.2-2", "5 3.5.2-3", "5 3.9.2-1", "5 3.9.2-2", "5 3.11.2-1", "5 3.11.2-2")
@statement("5 3.14.2-3", "5 3.14.2-4", "5 3.2.2-19", "5 3.2.2-20")
def test_reasons_are_left_out_of_packets_that_would_be_too_large(room: int, left: int) -> None:
    limit = ConnectionOptions(packet_size=room)
    pair = Pair(client_options=limit, server_options=limit, connack=REASONS)
    accepted = mqtt.decode(pair.connack, version=5)
    assert isinstance(accepted, mqtt.Connack)
    assert sum(name in ("reason_string", "user_property") for name, _ in accepted.properties) == (
        3 if room == 200 else left
    )
    refuse_all(pair, REASONS)
    pair.server.close(0x8B, REASONS)
    packets = wire(pair.server)
    assert len(packets) == 5
    for packet in packets:
        assert len(packet.properties) == left
        assert len(packet.encode()) <= room
    # a client does the same
    server = Pair(client_options=limit, server_options=limit)
    server.server.publish("a", qos=1)
    (event,), _ = server.pump()
    server.client.acknowledge(event, 0x87, REASONS)
    server.client.close(0x04, REASONS)
    for packet in wire(server.client):
        assert len(packet.properties) == left


@pytest.mark.parametrize(("room", "left"), [(200, 3), (60, 1), (30, 0)])
@statement("5 3.15.2-2", "5 3.15.2-3")
def test_reasons_are_left_out_of_auth_too(room: int, left: int) -> None:
    limit = ConnectionOptions(packet_size=room)
    server = ServerConnection(0.0, PLAIN)
    connect = [METHOD, ("maximum_packet_size", room)]
    event = only(server.receive(mqtt.Connect(client_identifier="c", properties=connect).encode(), 0.0), mqtt.Connect)
    server.continue_authentication(event, properties=REASONS)
    (question,) = wire(server)
    assert len(question.properties) == 1 + left
    pair = Pair(connect=[METHOD], server_options=limit)
    pair.client.send(mqtt.Auth(reason_code=0x19, properties=[METHOD, *REASONS]))
    (question,) = wire(pair.client)
    assert len(question.properties) == 1 + left


@statement("5 3.2.2-19")
def test_a_refusal_keeps_to_the_maximum_packet_size_of_connect() -> None:
    server, event = server_with(mqtt.Connect(client_identifier="c", properties=[("maximum_packet_size", 10)]))
    server.refuse(event, 0x87, REASONS)
    assert server.data_to_send() == bytes.fromhex("2003 008700")


@statement("5 3.2.2-11", "5 3.2.2-14")
def test_a_client_keeps_to_maximum_qos_and_retain_available() -> None:
    client = connected_client(connack=[("maximum_qos", 1), ("retain_available", 0)])
    assert client.publish("a", qos=1)
    for fields, code in (({"qos": 2}, 0x9B), ({"retain": True}, 0x9A)):
        with pytest.raises(LocalProtocolError) as refused:
            client.publish("a", **fields)
        assert refused.value.reply == code
    for packet, code in ((publish(1, 2), 0x9B), (publish(retain=True), 0x9A)):
        pair = Pair(connack=[("maximum_qos", 1), ("retain_available", 0)])
        assert gone(pair.server.receive(packet, 0.0)).code == code


def test_subscriptions_keep_to_what_the_server_has_announced() -> None:
    for announced, subscription, properties, code in (
        ("wildcard_subscription_available", "a/#", [], 0xA2),
        ("shared_subscription_available", "$share/g/a", [], 0x9E),
        ("subscription_identifiers_available", "a", [("subscription_identifier", 1)], 0xA1),
    ):
        pair = Pair(connack=[(announced, 0)])
        pair.client.subscribe([mqtt.Subscription("a")])
        with pytest.raises(LocalProtocolError) as refused:
            pair.client.subscribe([mqtt.Subscription(subscription)], properties)
        assert refused.value.reply == code
        packet = mqtt.Subscribe(
            packet_identifier=1, subscriptions=[mqtt.Subscription(subscription)], properties=properties
        )
        assert gone(pair.server.receive(packet.encode(), 0.0)).code == code


@statement("5 3.2.2-12", "5 3.2.2-13")
def test_a_will_beyond_what_is_announced_cannot_be_accepted() -> None:
    for will, announced, code in (
        (mqtt.Will("w", qos=2), ("maximum_qos", 1), 0x9B),
        (mqtt.Will("w", retain=True), ("retain_available", 0), 0x9A),
    ):
        server, event = server_with(mqtt.Connect(client_identifier="c", will=will))
        with pytest.raises(LocalProtocolError) as refused:
            server.accept(event, properties=[announced])
        assert refused.value.reply == code
        server.refuse(event, code)
        assert server.data_to_send() == bytes((0x20, 3, 0, code, 0))


# ---- PUBLISH flows (4.3)


@both_versions
@statement("5 4.3.1-1", "4 4.3.1-1", "5 4.3.2-2", "5 4.3.3-2", "4 4.3.2-1")
def test_first_copies_have_their_qos_and_dup_0(version: int) -> None:
    pair = Pair(version)
    for connection in (pair.client, pair.server):
        for qos in (0, 1, 2):
            connection.publish("a", qos=qos)
        assert [(p.qos, p.dup, p.packet_identifier) for p in wire(connection, version)] == [
            (0, False, None),
            (1, False, 1),
            (2, False, 2),
        ]


@statement("5 3.3.1-3", "4 3.3.1-3")
def test_dup_is_the_connections_own() -> None:
    pair = Pair()
    received = mqtt.decode(publish(9, 1, dup=True), version=5)
    with pytest.raises(LocalProtocolError, match="DUP"):
        pair.server.send(received)
    assert pair.server.data_to_send() == b""


def test_a_packet_received_is_forwarded_with_an_identifier_of_our_own() -> None:
    for size in (10, 10_000):
        pair = Pair()
        received = mqtt.decode(publish(9, 2, payload=bytes(size), properties=[("content_type", "t")]), version=5)
        handle = pair.server.send(received)
        assert handle is not None
        (sent,) = wire(pair.server)
        assert sent == mqtt.decode(publish(1, 2, payload=bytes(size), properties=[("content_type", "t")]), version=5)
        assert handle.message == sent


@both_versions
@statement("5 4.3.2-3", "5 4.3.3-3", "5 4.3.3-5", "4 4.3.3-1", "5 4.3.3-6")
def test_a_delivery_is_outstanding_until_its_last_acknowledgement(version: int) -> None:
    pair = Pair(version)
    client = pair.client
    one, two = client.publish("a", b"1", qos=1), client.publish("a", b"2", qos=2)
    assert one is not None
    assert two is not None
    assert list(client.session.outgoing.values()) == [one, two]
    client.receive(bytes.fromhex("4002 0001"), 0.0)
    assert list(client.session.outgoing.values()) == [two]
    assert two.message is not None
    client.receive(bytes.fromhex("5002 0002"), 0.0)
    assert list(client.session.outgoing.values()) == [two]
    assert two.message is None  # only PUBREL can be sent again
    client.receive(bytes.fromhex("7002 0002"), 0.0)
    assert client.session.outgoing == {}


@both_versions
@statement("5 4.3.2-5", "4 4.3.2-2", "5 4.3.3-12", "4 4.3.3-2", "5 4.3.3-10")
def test_a_receiver_knows_copies_from_new_messages(version: int) -> None:
    server = Pair(version).server

    def take(data: bytes) -> list[Any]:
        return server.receive(data, 0.0)

    (first,) = take(publish(1, 1, version=version))
    assert take(publish(1, 1, version=version, dup=True)) == []  # undecided: a copy
    server.acknowledge(first)
    assert server.data_to_send() == bytes.fromhex("4002 0001")
    (new,) = take(publish(1, 1, version=version, dup=True))  # after PUBACK: new, whatever DUP says
    server.acknowledge(new)
    server.data_to_send()
    (first,) = take(publish(2, 2, version=version))
    assert take(publish(2, 2, version=version, dup=True)) == []
    assert server.data_to_send() == b""  # the host has not decided
    server.acknowledge(first)
    assert server.data_to_send() == bytes.fromhex("5002 0002")
    for dup in (True, False, True):
        assert take(publish(2, 2, version=version, dup=dup)) == []
        assert server.data_to_send() == bytes.fromhex("5002 0002")
    assert take(bytes.fromhex("6202 0002")) == []
    assert server.data_to_send() == bytes.fromhex("7002 0002")
    (new,) = take(publish(2, 2, version=version, dup=True))
    assert server.undecided == 1


@statement("5 4.3.3-7", "5 4.3.3-13")
def test_a_qos_2_flow_goes_on_after_the_message_has_expired() -> None:
    expiry = [("message_expiry_interval", 1)]
    pair = Pair(
        server_session=(theirs := Session("c")),
        client_session=(mine := Session("c", established=True)),
        clean=False,
        connect=[("session_expiry_interval", 99)],
    )
    pair.client.publish("a", qos=2, properties=expiry)
    _, (event,) = pair.pump()
    pair.now = 100.0
    assert pair.server.handle_timeout(100.0) == []
    pair.server.acknowledge(event)
    (done,), _ = pair.pump()
    assert isinstance(done, Acknowledged)
    pair.client.publish("a", qos=2, properties=expiry)
    pair.client.data_to_send()
    pair.client.close(immediate=True)
    pair.server.close(immediate=True)
    again = Pair(server_session=theirs, client_session=mine, clean=False, connect=[("session_expiry_interval", 99)])
    assert [(p.qos, p.dup) for p in wire(again.client)] == [(2, True)]


@statement("5 4.3.3-9", "5 4.4.0-2")
def test_a_refused_message_frees_its_identifier_on_both_sides() -> None:
    pair = Pair()
    handles = [pair.client.publish("a", qos=1), pair.client.publish("a", qos=2)]
    _, events = pair.pump()
    for event in events:
        pair.server.acknowledge(event, 0x97)
    to_client, to_server = pair.pump()
    assert [(e.handle, e.code) for e in to_client] == [(h, 0x97) for h in handles]
    assert to_server == []
    assert pair.client.session.outgoing == {}
    assert pair.server.session is not None
    assert pair.server.session.incoming == {}
    event = only(pair.server.receive(publish(2, 2, dup=True), 0.0), mqtt.Publish)  # the identifier means a new message
    assert event.packet_identifier == 2
    assert pair.client.data_to_send() == b""  # no PUBREL


@statement("4 3.3.5-2")
def test_3_1_1_acknowledges_what_the_host_refuses() -> None:
    pair = Pair(4)
    pair.client.publish("a", qos=1)
    pair.client.publish("a", qos=2)
    _, (one, two) = pair.pump()
    pair.server.acknowledge(one, 0x87)
    pair.server.acknowledge(two, 0x87, [("reason_string", "no")])
    assert pair.server.data_to_send() == bytes.fromhex("4002 0001 5002 0002")


@pytest.mark.parametrize(
    ("before", "packet"),
    [
        ("1", "5002 0001"),  # PUBREC for QoS 1
        ("1", "7002 0001"),
        ("2", "4002 0001"),  # PUBACK for QoS 2
        ("2", "7002 0001"),  # PUBCOMP before PUBREC
        ("r", "4002 0001"),
        ("s", "4002 0001"),  # for a SUBSCRIBE
        ("s", "b003 0001 0000"),  # UNSUBACK for a SUBSCRIBE
        ("s", "9005 0001 00 0000"),  # two codes for one filter
        ("1", "9004 0001 00 00"),  # SUBACK for a PUBLISH
    ],
)
def test_an_acknowledgement_of_the_wrong_kind_is_a_protocol_error(before: str, packet: str) -> None:
    client = connected_client()
    if before == "s":
        client.subscribe([mqtt.Subscription("a")])
    else:
        client.publish("a", qos=1 if before == "1" else 2)
    if before == "r":
        client.receive(bytes.fromhex("5002 0001"), 0.0)
    client.data_to_send()
    data = bytes.fromhex(packet)
    if packet.startswith("b003"):
        data = bytes.fromhex("b004 0001 00 00")
    assert gone(client.receive(data, 0.0)).code == 0x82
    assert client.data_to_send() == bytes.fromhex("e00182")


def test_wrong_kinds_from_a_sender_are_protocol_errors() -> None:
    for packets in (
        publish(1, 2) + publish(1, 1),
        publish(1, 1) + publish(1, 2),
        publish(1, 2) + bytes.fromhex("6202 0001"),  # PUBREL before PUBREC
    ):
        events = Pair().server.receive(packets, 0.0)
        assert gone(events).code == 0x82
        assert len(events) == 2
    pair = Pair()
    event = only(pair.server.receive(publish(1, 2), 0.0), mqtt.Publish)
    pair.server.acknowledge(event)
    assert gone(pair.server.receive(publish(1, 1), 0.0)).code == 0x82


def test_acknowledgements_for_nothing_are_ignored_and_counted() -> None:
    client = connected_client()
    assert client.receive(bytes.fromhex("4002 0009 7002 0009 9004 0009 0000"), 0.0) == []
    assert client.data_to_send() == b""
    assert client.strays == 3
    assert client.receive(bytes.fromhex("5002 0009"), 0.0) == []
    assert wire(client) == [mqtt.Pubrel(packet_identifier=9, reason_code=0x92)]
    client.receive(bytes.fromhex("5003 0009 80"), 0.0)
    assert client.data_to_send() == b""
    client.receive(bytes.fromhex("6202 0009"), 0.0)
    assert wire(client) == [mqtt.Pubcomp(packet_identifier=9, reason_code=0x92)]
    old = connected_client(4)
    old.receive(bytes.fromhex("5002 0009 6202 0008"), 0.0)
    assert old.data_to_send() == bytes.fromhex("6202 0009 7002 0008")


@both_versions
@statement("5 4.6.0-2", "5 4.6.0-3", "4 4.6.0-2", "4 4.6.0-3", "5 4.6.0-4", "4 4.6.0-4", "5 4.5.0-2", "4 4.5.0-2")
def test_acknowledgements_leave_in_the_order_of_their_messages(version: int) -> None:
    pair = Pair(version)
    sent = [(1, 1), (2, 2), (3, 1), (4, 2), (5, 1)]
    for connection in (pair.client, pair.server):
        events = connection.receive(b"".join(publish(i, q, version=version) for i, q in sent), 0.0)
        for event in all_of(reversed(events), mqtt.Publish):
            connection.acknowledge(event)
        answers = wire(connection, version)
        assert [a.packet_identifier for a in answers if isinstance(a, mqtt.Puback)] == [1, 3, 5]
        assert [a.packet_identifier for a in answers if isinstance(a, mqtt.Pubrec)] == [2, 4]
        for event in all_of(events, mqtt.Publish):
            with pytest.raises(LocalProtocolError):
                connection.acknowledge(event)
    for _ in range(3):
        pair.client.publish("a", qos=2)
    pair.client.data_to_send()
    pair.client.receive(b"".join(b"\x50\x02\x00" + bytes((i,)) for i in (2, 1, 3)), 0.0)
    assert [p.packet_identifier for p in wire(pair.client, version)] == [2, 1, 3]


@both_versions
@statement("5 3.3.1-1", "4 3.3.1-1", "5 4.4.0-1", "4 4.4.0-1", "5 4.6.0-1", "4 4.6.0-1")
def test_a_resumed_session_sends_again_what_is_not_finished_in_order(version: int) -> None:
    keep = [("session_expiry_interval", 100)] if version == 5 else []
    for sender in ("client", "server"):
        mine, theirs = Session("c", established=True), Session("c")
        first = Pair(version, clean=False, connect=keep, client_session=mine, server_session=theirs)
        connection: Any = first.client if sender == "client" else first.server
        connection.session.identifiers.next = 65534  # the order is that of time, not of identifiers
        for number, qos in enumerate((2, 1, 2, 1)):
            connection.publish("a", str(number).encode(), qos=qos)
        connection.data_to_send()
        connection.receive(bytes.fromhex("5002 fffe 4002 ffff"), 0.0)  # the first has PUBREC, the second is finished
        connection.data_to_send()
        never_left = connection.publish("a", b"4", qos=1)
        assert never_left.packet_identifier == 3
        first.client.close(immediate=True)
        first.server.close(immediate=True)
        second = Pair(version, clean=False, connect=keep, client_session=mine, server_session=theirs)
        if sender == "client":
            sent = wire(second.client, version)
        else:
            sent = mqtt.Decoder(version=version, side="server").feed(second.connack)[1:]
        assert [type(p) for p in sent] == [mqtt.Pubrel, mqtt.Publish, mqtt.Publish, mqtt.Publish]
        assert [p.packet_identifier for p in sent] == [65534, 1, 2, 3]
        assert [(bytes(p.payload), p.dup) for p in sent[1:]] == [(b"2", True), (b"3", True), (b"4", False)]
        new: Any = second.client if sender == "client" else second.server
        assert new.receive(b"", 0.0) == []
        assert new.data_to_send() == b""  # and never again on this connection


def test_a_resumed_session_speaks_the_version_of_its_new_connection() -> None:
    mine, theirs = Session("c", established=True), Session("c")
    first = Pair(5, clean=False, connect=[("session_expiry_interval", 9)], client_session=mine, server_session=theirs)
    first.client.publish("a", b"x", qos=1, properties=[("content_type", "t")])
    first.client.publish("a", b"y", qos=2)
    first.client.data_to_send()
    first.client.close(immediate=True)
    first.server.close(immediate=True)
    second = Pair(4, clean=False, client_session=mine, server_session=theirs)
    assert wire(second.client, 4) == [
        mqtt.Publish(topic_name="a", payload=b"x", qos=1, dup=True, packet_identifier=1, version=4),
        mqtt.Publish(topic_name="a", payload=b"y", qos=2, dup=True, packet_identifier=2, version=4),
    ]


def test_3_1_resumes_without_session_present_and_sets_dup_in_pubrel() -> None:
    session = Session("c", established=True)
    session.receive_pubrec(session.add(publish(1, 2, version=3), 3))
    client = ClientConnection(0.0, session)
    client.send(mqtt.Connect(client_identifier="c", clean_start=False, version=3))
    client.data_to_send()
    client.receive(mqtt.Connack(version=3).encode(), 0.0)
    assert client.data_to_send() == bytes.fromhex("6a02 0001")


def test_qos_2_at_release_hands_the_message_over_at_pubrel() -> None:
    options = ConnectionOptions(qos2_event="release", released_bytes=40)
    keep = [("session_expiry_interval", 100)]
    session = Session("c")
    pair = Pair(
        clean=False,
        connect=keep,
        server_session=session,
        client_session=Session(established=True),
        server_options=options,
    )
    event = only(pair.server.receive(publish(1, 2, payload=b"later"), 0.0), mqtt.Publish)
    assert pair.server.acknowledge(event) == []
    restored = Session.restore(session.snapshot())
    pair.server.close(immediate=True)
    again = Pair(
        clean=False,
        connect=keep,
        server_session=restored,
        client_session=Session(established=True),
        server_options=options,
    )
    (released,) = again.server.receive(bytes.fromhex("6202 0001"), 0.0)
    assert isinstance(released, Released)
    assert bytes(released.message.payload) == b"later"
    assert again.server.receive(bytes.fromhex("6202 0001"), 0.0) == []
    assert gone(again.server.receive(publish(1, 2, payload=bytes(40)), 0.0)).code == 0x97


# ---- windows (3.3.4, 4.9)


@statement("5 3.3.4-7", "5 3.3.4-9", "5 4.9.0-1", "5 4.9.0-2", "5 4.9.0-3", "5 3.3.4-8", "5 3.3.4-10")
def test_the_send_quota_is_the_peers_receive_maximum_and_delays_publish_only() -> None:
    two = ConnectionOptions(receive_maximum=2)
    pair = Pair(client_options=two, server_options=two)
    for here, there in ((pair.client, pair.server), (pair.server, pair.client)):
        assert here.send_quota == 2
        handles = [here.publish("a", qos=1), here.publish("a", qos=2)]
        assert here.send_quota == 0
        before = here.pending_bytes
        with pytest.raises(LocalProtocolError) as refused:
            here.publish("a", qos=1)
        assert refused.value.reply == 0x93
        assert here.pending_bytes == before
        here.publish("a", qos=0)
        if here is pair.client:
            pair.client.send(mqtt.Pingreq())
            pair.client.subscribe([mqtt.Subscription("a")])
        events = there.receive(here.data_to_send(), 0.0)
        one, two_ = (e for e in events if isinstance(e, mqtt.Publish) and e.qos)
        there.acknowledge(two_)
        there.acknowledge(one)
        got = here.receive(there.data_to_send(), 0.0)
        acknowledged, opened = (e for e in got if not isinstance(e, mqtt.Pingresp))
        assert isinstance(acknowledged, Acknowledged)
        assert isinstance(opened, WindowOpened)
        assert (acknowledged.handle, opened.available) == (handles[0], 1)
        there.receive(here.data_to_send(), 0.0)  # PUBREL
        last = only(here.receive(there.data_to_send(), 0.0), Acknowledged)
        assert last.handle is handles[1]
        assert here.send_quota == 2  # it opens once


@statement("5 3.3.4-7", "5 3.3.4-9")
def test_more_than_receive_maximum_is_a_fault() -> None:
    two = ConnectionOptions(receive_maximum=2)
    pair = Pair(client_options=two, server_options=two)
    for connection in (pair.client, pair.server):
        events = connection.receive(publish(1, 1) + publish(2, 2) + publish(1, 1, dup=True) + publish(3, 1), 0.0)
        assert [e.packet_identifier for e in all_of(events[:-1], mqtt.Publish)] == [1, 2]
        assert gone(events).code == 0x93
        assert connection.data_to_send() == bytes.fromhex("e00193")


def test_a_resumed_session_keeps_to_a_smaller_receive_maximum() -> None:
    keep = [("session_expiry_interval", 100)]
    mine, theirs = Session("c", established=True), Session("c")
    handles = [mine.add(publish(1, 1, payload=bytes((n,))), 5) for n in range(3)]
    mine.receive_pubrec(mine.add(publish(1, 2), 5))
    two = ConnectionOptions(receive_maximum=2)
    pair = Pair(clean=False, connect=keep, client_session=mine, server_session=theirs, server_options=two)
    assert pair.client.send_quota == 0
    with pytest.raises(LocalProtocolError):
        pair.client.publish("new", qos=1)
    first = wire(pair.client)
    assert [(type(p), p.packet_identifier) for p in first] == [(mqtt.Publish, 1), (mqtt.Publish, 2)]
    done = only(pair.client.receive(bytes.fromhex("4002 0001"), 0.0), Acknowledged)
    assert done.handle is handles[0]
    assert [(type(p), p.packet_identifier) for p in wire(pair.client)] == [(mqtt.Publish, 3), (mqtt.Pubrel, 4)]
    done, opened = exactly(pair.client.receive(bytes.fromhex("4002 0002"), 0.0), Acknowledged, WindowOpened)
    assert opened == WindowOpened(1)
    pair.client.publish("new", qos=1)


def test_before_5_0_undecided_messages_stop_reading() -> None:
    pair = Pair(4, server_options=ConnectionOptions(undecided=2))
    data = b"".join(publish(n, 1, version=4) for n in range(1, 6)) + bytes.fromhex("c000")
    one, two = exactly(pair.server.receive(data, 0.0), mqtt.Publish, mqtt.Publish)
    assert (pair.server.undecided, pair.server.wants_read) == (2, False)
    assert pair.server.acknowledge(two) == []  # it waits behind the first
    three, four = pair.server.acknowledge(one)
    assert not pair.server.wants_read
    (five,) = pair.server.acknowledge(three)
    assert pair.server.acknowledge(four) == []
    assert pair.server.data_to_send()[-2:] == bytes.fromhex("d000")
    assert pair.server.wants_read
    assert [e.packet_identifier for e in (one, two, three, four, five)] == [1, 2, 3, 4, 5]


# ---- PINGREQ, DISCONNECT, faults


@all_versions
@statement("5 3.12.4-1", "4 3.12.4-1")
def test_pingreq_is_answered_by_pingresp(version: int) -> None:
    pair = Pair(version)
    pair.client.send(mqtt.Pingreq(version=version))
    (answer,), events = pair.pump()
    assert events == []
    assert isinstance(answer, mqtt.Pingresp)
    assert pair.client.receive(bytes.fromhex("d000"), 0.0) == []  # unasked: nothing


@statement("5 3.14.0-1")
def test_a_server_says_nothing_with_disconnect_before_connack() -> None:
    server, _ = server_with(mqtt.Connect(client_identifier="c"))
    gone(server.close(0x8B))
    assert server.data_to_send() == b""
    assert gone(ServerConnection(0.0).close()).code is None


@all_versions
@statement("5 3.14.4-1", "5 3.14.4-2", "4 3.14.4-1", "4 3.14.4-2")
def test_nothing_follows_disconnect(version: int) -> None:
    pair = Pair(version)
    gone(pair.client.close())
    assert pair.client.data_to_send() == bytes.fromhex("e000")
    assert pair.client.should_close
    for call in (
        lambda: pair.client.publish("a"),
        lambda: pair.client.send(mqtt.Pingreq(version=version)),
        lambda: pair.client.close(),
        lambda: pair.client.receive(b"", 0.0),
        lambda: pair.client.receive_eof(0.0),
        lambda: pair.client.handle_timeout(0.0),
        lambda: pair.client.pause(),
        lambda: pair.client.resume(0.0),
    ):
        with pytest.raises(LocalProtocolError):
            call()
    assert pair.client.next_timeout() is None
    ended = gone(pair.server.receive(bytes.fromhex("e000 c000"), 0.0))
    assert (ended.by, ended.error) == ("peer", None)
    assert pair.server.data_to_send() == b""  # a DISCONNECT has no answer


@all_versions
@statement("5 4.13.1-1", "4 4.8.0-1", "4 2.2.2-2")
def test_a_malformed_packet_ends_the_connection_after_what_came_before(version: int) -> None:
    pair = Pair(version)
    for connection in (pair.client, pair.server):
        bad = publish(version=version, payload=b"good") + bytes.fromhex("6002 0001")
        event, last = exactly(connection.receive(bad, 0.0), mqtt.Publish, Disconnected)
        assert bytes(event.payload) == b"good"
        assert isinstance(last.error, DecodeError)
        assert connection.data_to_send() == (bytes.fromhex("e00181") if version == 5 else b"")
        assert connection.should_close


def test_a_packet_above_our_maximum_is_refused_once_its_length_is_known() -> None:
    limit = ConnectionOptions(packet_size=100)
    pair = Pair(client_options=limit, server_options=limit)
    for connection in (pair.client, pair.server):
        assert gone(connection.receive(bytes.fromhex("30 ffff03"), 0.0)).code == 0x95
        assert connection.data_to_send() == bytes.fromhex("e00195")


@all_versions
def test_wills_are_published_unless_a_normal_disconnect_has_removed_them(version: int) -> None:
    will = mqtt.Will("w", b"gone")
    ends: tuple[tuple[Callable[[Pair], list[Any]], bool], ...] = (
        (lambda p: p.server.receive(bytes.fromhex("e000"), 0.0), False),
        (lambda p: p.server.receive(bytes.fromhex("e00104") if version == 5 else b"\x00", 0.0), True),
        (lambda p: p.server.receive_eof(0.0), True),
        (lambda p: p.server.receive(bytes.fromhex("0000"), 0.0), True),
        (lambda p: p.server.close(), True),
    )
    for end, published in ends:
        assert gone(end(Pair(version, will=will))).will == (will if published else None)
    server, event = server_with(mqtt.Connect(client_identifier="c", will=will, version=version))
    assert gone(server.refuse(event, 0x87 if version == 5 else 5)).will is None


@pytest.mark.parametrize("waiting", ["server", "client"])
def test_who_does_not_open_in_time_is_left(waiting: str) -> None:
    connection: Any = ServerConnection(5.0) if waiting == "server" else ClientConnection(5.0)
    if waiting == "client":
        connection.send(mqtt.Connect(client_identifier="c"))
        connection.handle_timeout(5.0)
    assert connection.next_timeout() == 35.0
    assert gone(connection.handle_timeout(35.0)).error is None
    assert connection.should_close or waiting == "client"


# ---- authentication (4.12)


def auth(code: int, *properties: tuple[str, Any]) -> bytes:
    return mqtt.Auth(reason_code=code, properties=[METHOD, *properties]).encode()


@statement("5 4.12.0-2", "5 4.12.0-3", "5 4.12.0-5", "5 3.1.2-30")
def test_an_exchange_before_connack() -> None:
    client, server = ClientConnection(0.0, options=PLAIN), ServerConnection(0.0, PLAIN)
    client.send(mqtt.Connect(client_identifier="c", properties=[METHOD, ("authentication_data", b"1")]))
    event = only(server.receive(client.data_to_send(), 0.0), mqtt.Connect)
    server.continue_authentication(event, b"2")
    question = only(client.receive(server.data_to_send(), 0.0), mqtt.Auth)
    assert (question.reason_code, dict(question.properties)) == (0x18, dict([METHOD, ("authentication_data", b"2")]))
    calls: list[Callable[[], object]] = [
        lambda: client.publish("a"),
        lambda: client.send(mqtt.Pingreq()),
        lambda: client.subscribe([mqtt.Subscription("a")]),
    ]
    for call in calls:
        with pytest.raises(LocalProtocolError):
            call()
    assert client.undecided == 1
    client.continue_authentication(question, b"3")
    with pytest.raises(LocalProtocolError):
        client.continue_authentication(question, b"3")
    answer = only(server.receive(client.data_to_send(), 0.0), mqtt.Auth)
    assert dict(answer.properties)["authentication_data"] == b"3"
    with pytest.raises(LocalProtocolError):
        server.accept(event)  # the CONNECT has been answered; the AUTH waits
    server.accept(answer, authentication_data=b"4")
    connected = only(client.receive(server.data_to_send(), 0.0), Connected)
    assert checked(connected.message, mqtt.Connack).properties == (METHOD, ("authentication_data", b"4"))


@statement("5 4.12.0-1", "5 4.12.0-4", "5 4.12.1-2")
def test_authentication_may_be_refused_at_any_point() -> None:
    connect = mqtt.Connect(client_identifier="c", properties=[METHOD])
    server, event = server_with(connect)
    gone(server.refuse(event, 0x8C))
    assert server.data_to_send() == bytes.fromhex("2003 008c00")
    server, event = server_with(connect)
    server.continue_authentication(event)
    answer = only(server.receive(auth(0x18), 0.0), mqtt.Auth)
    server.data_to_send()
    gone(server.refuse(answer, 0x87))
    assert server.data_to_send() == bytes.fromhex("2003 008700")
    server, event = server_with(connect)
    server.accept(event)
    again = only(server.receive(auth(0x19), 0.0), mqtt.Auth)
    server.data_to_send()
    gone(server.refuse(again, 0x87))
    assert server.data_to_send() == bytes.fromhex("e00187")
    server, event = server_with(connect)
    server.continue_authentication(event)
    server.handle_timeout(0.0)
    server.data_to_send()
    gone(server.handle_timeout(30.0))
    assert server.data_to_send() == bytes.fromhex("2003 008700")


@statement("5 4.12.0-6", "5 4.12.0-7")
def test_without_a_method_there_is_no_auth() -> None:
    server, event = server_with(mqtt.Connect(client_identifier="c"))
    with pytest.raises(LocalProtocolError):
        server.continue_authentication(event)
    with pytest.raises(LocalProtocolError):
        server.accept(event, authentication_data=b"x")
    server.accept(event)
    assert b"SCRAM" not in server.data_to_send()
    assert gone(server.receive(auth(0x19), 0.0)).code == 0x82
    client = connected_client()
    with pytest.raises(LocalProtocolError):
        client.send(mqtt.Auth(reason_code=0x19, properties=[METHOD]))
    assert client.data_to_send() == b""


@statement("5 4.12.0-5", "5 4.12.1-1")
def test_the_method_never_changes() -> None:
    connect = mqtt.Connect(client_identifier="c", properties=[METHOD])
    other = mqtt.Auth(reason_code=0x18, properties=[("authentication_method", "other")]).encode()
    server, event = server_with(connect)
    server.continue_authentication(event)
    assert gone(server.receive(other, 0.0)).code == 0x82
    for packet in (other, mqtt.Connack().encode()):
        client = ClientConnection(0.0)
        client.send(connect)
        assert isinstance(gone(client.receive(packet, 0.0)).error, RemoteProtocolError)
    client = ClientConnection(0.0)
    client.send(connect)
    client.receive(mqtt.Connack(properties=[METHOD]).encode(), 0.0)
    client.data_to_send()
    with pytest.raises(LocalProtocolError):
        client.send(mqtt.Auth(reason_code=0x19, properties=[("authentication_method", "other")]))
    client.send(mqtt.Auth(reason_code=0x19, properties=[METHOD]))
    assert client.data_to_send() == auth(0x19)


def test_other_traffic_goes_on_during_re_authentication_and_one_runs_at_a_time() -> None:
    pair = Pair(connect=[METHOD])
    pair.client.send(mqtt.Auth(reason_code=0x19, properties=[METHOD]))
    with pytest.raises(LocalProtocolError):
        pair.client.send(mqtt.Auth(reason_code=0x19, properties=[METHOD]))
    pair.client.publish("a", qos=1)
    _, (question, message) = pair.pump()
    pair.server.acknowledge(message)
    pair.server.publish("b")
    pair.server.continue_authentication(question, b"?")
    (done, event, more), _ = pair.pump()
    assert isinstance(done, Acknowledged)
    pair.client.continue_authentication(more, b"!")
    _, (last,) = pair.pump()
    assert event.topic_name == "b"
    pair.server.accept(last)
    (success,), _ = pair.pump()
    assert (success.reason_code, pair.client.state, pair.server.state) == (0, State.CONNECTED, State.CONNECTED)
    assert gone(pair.server.receive(auth(0x19) + auth(0x18), 0.0)).code == 0x82


# ---- all of them


def explained() -> dict[str, str]:
    """Statements of docs/mqtt-statements.md: name -> reason."""
    page = (ROOT / "docs/mqtt-statements.md").read_text()
    found: dict[str, str] = {}
    for level, names, reason in re.findall(r"^\| (5\.0|3\.1\.1) \| ([\d., -]+) \| (.+) \|$", page, re.M):
        for name in names.replace(",", " ").split():
            key = f"{5 if level == '5.0' else 4} {name}"
            assert key not in found, f"{key} twice"
            found[key] = reason
    return found


def test_every_statement_on_behaviour_is_shown_or_explained() -> None:
    page = explained()
    assert len(BEHAVIOUR) == 291
    assert set(page) <= BEHAVIOUR, set(page) - BEHAVIOUR
    assert not set(page) & NAMED, sorted(set(page) & NAMED)
    assert not BEHAVIOUR - NAMED - set(page), sorted(BEHAVIOUR - NAMED - set(page))
