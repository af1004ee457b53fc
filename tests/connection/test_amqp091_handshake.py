"""The handshake of an AMQP 0.9.1 connection and what it negotiates, for clients and servers.

Sections are those of the specification (2.x, 4.x) and of its reference (1.x). RabbitMQ decides what they leave open. The other
files about connections of AMQP 0.9.1 do the same.
"""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_channel import frames, names
from lib.amqp091_driven import HEADER, Pair, client_in, method, octets, server_in
from lib.kinds import checked, only
from wirefmt import amqp091
from wirefmt.amqp091.events import CLIENT_CAPABILITIES
from wirefmt.amqp091.sasl import credentials
from wirefmt.amqp091.states import State
from wirefmt.connection import Connected, Disconnected
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

OPTIONS = amqp091.ConnectionOptions


# ---- the handshake (2.2.4, 1.4.2)


def test_everything_up_to_channel_open_in_one_write() -> None:
    """RabbitMQ: everything from the header to channel.open may come in one write. The server answers in order."""
    server = amqp091.ServerConnection(0.0)
    said = HEADER + b"".join(
        octets(n) for n in ("connection.start-ok", "connection.tune-ok", "connection.open", "channel.open")
    )
    (start_ok,) = server.receive(said, 0.0)
    (opening,) = server.accept(start_ok)
    connected, opened = server.accept(opening)
    assert isinstance(connected, Connected)
    assert opened == amqp091.ChannelOpened(1)
    assert names(server.data_to_send()) == [
        "connection.start",
        "connection.tune",
        "connection.open-ok",
        "channel.open-ok",
    ]


def test_what_is_pipelined_after_a_refusal_is_dropped() -> None:
    server = amqp091.ServerConnection(0.0)
    (start_ok,) = server.receive(HEADER + octets("connection.start-ok") + octets("connection.tune-ok"), 0.0)
    (gone,) = server.refuse(start_ok)
    assert isinstance(gone, Disconnected)
    assert gone.code == 403
    (_start, close) = frames(server.data_to_send())
    assert (close.reply_code, close.class_id, close.method_id) == (403, 0, 0)  # the text does not say why
    assert server.should_close


def test_a_client_without_the_capability_gets_no_connection_close() -> None:
    server = amqp091.ServerConnection(0.0)
    (start_ok,) = server.receive(HEADER + octets("connection.start-ok", client_properties={}), 0.0)
    gone = only(server.refuse(start_ok), Disconnected)
    assert gone.code is None
    assert names(server.data_to_send()) == ["connection.start"]


def test_a_virtual_host_is_refused_with_530() -> None:
    server = server_in(State.OPENING)
    (opening,) = server.receive(octets("connection.open"), 0.0)
    gone = only(server.refuse(opening), Disconnected)
    assert gone.code == 530
    (close,) = frames(server.data_to_send())
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x01\x01\x00\x0a"])
def test_another_header_is_answered_with_ours(said: bytes) -> None:
    """4.2.2."""
    server = amqp091.ServerConnection(0.0)
    gone = only(server.receive(said, 0.0), Disconnected)
    assert isinstance(gone.error, DecodeError)
    assert server.data_to_send() == HEADER
    assert server.should_close


def test_a_server_of_another_version() -> None:
    client = client_in(State.STARTING)
    gone = only(client.receive(HEADER, 0.0), Disconnected)
    assert gone.by == "peer"
    client = client_in(State.STARTING)
    gone = only(client.receive(b"AMQP\x00\x01\x00\x00", 0.0), Disconnected)
    assert gone.error is not None
    assert not client.data_to_send()


def test_the_end_of_the_stream_after_start_ok_means_that_credentials_are_refused() -> None:
    """pika and RabbitMQ's Java client interpret it so."""
    gone = only(client_in(State.SECURING).receive_eof(0.0), Disconnected)
    assert (gone.by, gone.code) == ("transport", 403)
    gone = only(client_in(State.OPENING).receive_eof(0.0), Disconnected)
    assert (gone.by, gone.code) == ("transport", None)


def test_the_end_of_the_stream_after_start_ok_of_a_server_that_would_say_it() -> None:
    """With authentication_failure_close a server answers refused credentials with connection.close: so it has gone away."""
    client = client_in(State.STARTING)
    client.receive(
        octets("connection.start", server_properties={"capabilities": {"authentication_failure_close": True}}), 0.0
    )
    gone = only(client.receive_eof(0.0), Disconnected)
    assert (gone.by, gone.code) == ("transport", None)


@pytest.mark.parametrize("state", [State.SECURING, State.OPENING])
def test_a_client_takes_close_in_the_handshake(state: State) -> None:
    client = client_in(state)
    gone = only(client.receive(octets("connection.close", reply_code=530, reply_text="no"), 0.0), Disconnected)
    assert (gone.by, gone.code, gone.reason) == ("peer", 530, "no")
    assert names(client.data_to_send()) == ["connection.close-ok"]


def test_the_first_of_our_mechanisms_that_the_server_has() -> None:
    client = amqp091.ClientConnection(0.0)
    client.open(
        "/v", [amqp091.External(), amqp091.AmqPlain("u", "p"), amqp091.Plain("u", "p")], {"connection_name": "n"}
    )
    client.data_to_send()
    client.receive(octets("connection.start", mechanisms=b"PLAIN AMQPLAIN"), 0.0)
    (start_ok,) = frames(client.data_to_send())
    assert start_ok.mechanism == "AMQPLAIN"
    assert credentials(start_ok) == ("u", "p")
    assert start_ok.client_properties["connection_name"] == "n"
    assert dict(start_ok.client_properties["capabilities"].items()) == CLIENT_CAPABILITIES


def test_plain() -> None:
    """RFC 4616; AMQP 0.9.1 has no authorization identity."""
    assert amqp091.Plain("guest", "guest").start() == b"\0guest\0guest"
    assert credentials(method("connection.start-ok", response=b"\0u\0p")) == ("u", "p")
    with pytest.raises(RemoteProtocolError) as raised:
        credentials(method("connection.start-ok", response=b"up"))
    assert raised.value.reply == 502


def test_no_mechanism_in_common() -> None:
    client = client_in(State.STARTING)
    gone = only(client.receive(octets("connection.start", mechanisms=b"SCRAM"), 0.0), Disconnected)
    assert gone.by == "local"
    assert "SCRAM" in gone.reason


def test_challenge_and_response() -> None:
    """1.4.2.3, 1.4.2.4, with RabbitMQ's mechanism for demonstrations."""
    client = amqp091.ClientConnection(0.0)
    client.open(mechanisms=[amqp091.RabbitCrDemo("guest", "guest")])
    server = amqp091.ServerConnection(0.0, mechanisms=["RABBIT-CR-DEMO"])
    server.receive(client.data_to_send(), 0.0)
    client.receive(server.data_to_send(), 0.0)
    start_ok = only(server.receive(client.data_to_send(), 0.0), amqp091.ConnectionStartOk)
    assert start_ok.response == b"guest"
    server.challenge(start_ok, b"Please tell me your password")
    with pytest.raises(LocalProtocolError):
        server.accept(start_ok)
    client.receive(server.data_to_send(), 0.0)
    secure_ok = only(server.receive(client.data_to_send(), 0.0), amqp091.ConnectionSecureOk)
    assert secure_ok.response == b"My password is guest"
    server.accept(secure_ok)
    client.receive(server.data_to_send(), 0.0)
    (opening,) = server.receive(client.data_to_send(), 0.0)
    server.accept(opening)
    assert checked(client.receive(server.data_to_send(), 0.0)[0], Connected).negotiated.mechanism == "RABBIT-CR-DEMO"


def test_a_mechanism_that_was_not_offered() -> None:
    server = server_in(State.STARTING)
    gone = only(server.receive(octets("connection.start-ok", mechanism="EXTERNAL"), 0.0), Disconnected)
    assert isinstance(gone.error, RemoteProtocolError)


# ---- negotiation (1.4.2.5, 1.4.2.6)


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        ((2047, 131072, 60), (2047, 131072, 60), (2047, 131072, 60)),
        ((10, 8192, 20), (2047, 131072, 60), (10, 8192, 20)),
        ((2047, 131072, 60), (10, 8192, 20), (10, 8192, 20)),
        ((0, 0, 0), (10, 8192, 20), (10, 8192, 20)),
        ((10, 8192, 20), (0, 0, 0), (10, 8192, 20)),
        ((0, 0, 0), (0, 0, 0), (65535, 0, 0)),
    ],
)
def test_the_smaller_of_both_or_the_one_that_is_not_0(ours: Any, theirs: Any, agreed: Any) -> None:
    def options(values: tuple[int, int, int]) -> amqp091.ConnectionOptions:
        return OPTIONS(channel_max=values[0], frame_max=values[1], heartbeat=values[2])

    pair = Pair(options(ours), options(theirs))
    for side in (pair.client, pair.server):
        found = side.negotiated
        assert found is not None
        assert (found.channel_max, found.frame_max, found.heartbeat) == agreed


@pytest.mark.parametrize(
    "tune_ok",
    [
        {"channel_max": 0},
        {"channel_max": 3000},
        {"frame_max": 4095},
        {"frame_max": 0},
        {"frame_max": 131073},
    ],
)
def test_a_tune_ok_that_tune_does_not_allow(tune_ok: dict[str, int]) -> None:
    server = server_in(State.TUNING)
    gone = only(server.receive(octets("connection.tune-ok", **tune_ok), 0.0), Disconnected)
    assert isinstance(gone.error, RemoteProtocolError)
    assert gone.error.reply == 530
    # before open, RabbitMQ closes the stream without connection.close (tests/live/test_amqp091_wrong_states.py)
    assert gone.code is None
    assert server.data_to_send() == b""


@pytest.mark.parametrize("heartbeat", [0, 600])
def test_a_server_takes_the_heartbeat_of_the_client(heartbeat: int) -> None:
    server = server_in(State.TUNING)
    server.receive(octets("connection.tune-ok", heartbeat=heartbeat), 0.0)
    (opening,) = server.receive(octets("connection.open"), 0.0)
    assert checked(server.accept(opening)[0], Connected).negotiated.heartbeat == heartbeat


def test_frames_are_small_before_tune_ok() -> None:
    """RabbitMQ 4.1 takes up to 8192 bytes before tune, by `initial_frame_max`, and closes without a word for more."""
    size = len(octets("connection.start-ok", client_properties={"x": ""}))
    server = server_in(State.STARTING)
    fits = octets("connection.start-ok", client_properties={"x": "y" * (8192 - size)})
    assert len(fits) == 8192
    (start_ok,) = server.receive(fits, 0.0)
    assert isinstance(start_ok, amqp091.ConnectionStartOk)
    for length in (8193, 100_000_000):
        server = server_in(State.STARTING)
        server.data_to_send()
        begin = b"\x01\x00\x00" + (length - 8).to_bytes(4, "big")  # the header of the frame is enough
        gone = only(server.receive(begin, 0.0), Disconnected)
        assert isinstance(gone.error, DecodeError)
        assert server.data_to_send() == b""
        assert server.should_close


def test_numbers_of_channels_stay_below_channel_max() -> None:
    """1.4.2.5: channel-max is the highest number. RabbitMQ only counts channels, other servers need not."""
    pair = Pair(OPTIONS(channel_max=3))
    kept, _ = pair.channel(2)
    for expected in (1, 3, 1, 3, 1):
        ours, _ = pair.channel()
        assert ours.number == expected
        ours.close()
        pair.run()
    numbers = [pair.channel()[0].number for _ in range(2)]
    assert sorted([kept.number, *numbers]) == [1, 2, 3]


def test_channel_max_counts_channels() -> None:
    """RabbitMQ: with a channel-max of 2, the numbers 1 and 5 may be opened. A third channel is an error, 530."""
    server = server_in(State.OPEN, OPTIONS(channel_max=2))
    server.receive(octets("channel.open", 1) + octets("channel.open", 5), 0.0)
    assert set(server.channels) == {1, 5}
    gone = only(server.receive(octets("channel.open", 2), 0.0), Disconnected)
    assert gone.code == 530
    client = client_in(State.OPEN, OPTIONS(channel_max=2))
    client.open_channel(3000)
    client.open_channel()
    with pytest.raises(LocalProtocolError):
        client.open_channel()


def test_bodies_are_cut_to_frame_max() -> None:
    """4.2.6.2; frame-max counts the 8 bytes around the payload."""
    pair = Pair(OPTIONS(frame_max=8192))
    channel, _ = pair.channel()
    channel.publish("", "q", b"x" * 20_000)
    said = pair.client.data_to_send()
    assert [len(frame.payload) for frame in frames(said) if isinstance(frame, amqp091.Body)] == [8184, 8184, 3632]
    message = only(pair.server.receive(said, 0.0), amqp091.BasicMessage)
    assert message.body_bytes() == b"x" * 20_000
