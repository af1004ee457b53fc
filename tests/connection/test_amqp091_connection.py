"""What AMQP 0.9.1 and RabbitMQ say about connections and channels, between a client and a server and against written frames.

Sections are those of the specification (2.x, 4.x) and its reference (1.x); RabbitMQ where these are silent.
"""

from __future__ import annotations

from typing import Any

import pytest

from lib.amqp091_driven import HEADER, Pair, client_in, method, octets, server_in
from lib.steps import steps
from wirefmt import amqp091
from wirefmt.amqp091.events import CLIENT_CAPABILITIES
from wirefmt.amqp091.sasl import credentials
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.connection import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError

OPTIONS = amqp091.ConnectionOptions


def frames(data: bytes) -> list[Any]:
    return amqp091.Decoder(frame_max=0).feed(data)


def names(data: bytes) -> list[str]:
    return [frame.name if isinstance(frame, amqp091.Method) else type(frame).__name__ for frame in frames(data)]


def server_channel(
    options: amqp091.ConnectionOptions | None = None,
) -> tuple[amqp091.ServerConnection, amqp091.ServerChannel]:
    server = server_in(State.OPEN, options)
    server.receive(octets("channel.open"), 0.0)
    server.data_to_send()
    return server, server.channels[1]


def client_channel(options: amqp091.ConnectionOptions | None = None, session: Any = None) -> tuple[Any, Any]:
    client = client_in(State.OPEN, options)
    channel = client.open_channel(1)
    client.receive(octets("channel.open-ok"), 0.0)
    client.data_to_send()
    return client, channel


def publish(body: bytes = b"body", channel: int = 1, **fields: Any) -> bytes:
    return amqp091.BasicMessage(amqp091.BasicPublish(channel=channel, **fields), None, body).encode()


def deliver(tag: int, body: bytes = b"body", channel: int = 1, consumer: str = "c") -> bytes:
    deliver = amqp091.BasicDeliver(
        channel=channel, consumer_tag=consumer, delivery_tag=tag, exchange="", routing_key="q"
    )
    return amqp091.BasicMessage(deliver, None, body).encode()


# ---- the handshake (2.2.4, 1.4.2)


def test_everything_up_to_channel_open_in_one_write() -> None:
    """RabbitMQ: header to channel.open may come in one write; the server answers in order."""
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


def test_what_is_pipelined_behind_a_refusal_is_dropped() -> None:
    server = amqp091.ServerConnection(0.0)
    (start_ok,) = server.receive(HEADER + octets("connection.start-ok") + octets("connection.tune-ok"), 0.0)
    (gone,) = server.refuse(start_ok)
    assert isinstance(gone, Disconnected)
    assert gone.code == 403
    (_start, close) = frames(server.data_to_send())
    assert (close.reply_code, close.class_id, close.method_id) == (403, 0, 0)  # the text does not tell why
    assert server.should_close


def test_a_client_without_the_capability_is_refused_in_silence() -> None:
    server = amqp091.ServerConnection(0.0)
    (start_ok,) = server.receive(HEADER + octets("connection.start-ok", client_properties={}), 0.0)
    (gone,) = server.refuse(start_ok)
    assert gone.code is None
    assert names(server.data_to_send()) == ["connection.start"]


def test_a_virtual_host_is_refused_with_530() -> None:
    server = server_in(State.OPENING)
    (opening,) = server.receive(octets("connection.open"), 0.0)
    (gone,) = server.refuse(opening)
    assert gone.code == 530
    (close,) = frames(server.data_to_send())
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"AMQP\x01\x01\x00\x0a"])
def test_another_header_is_answered_with_ours(said: bytes) -> None:
    """4.2.2."""
    server = amqp091.ServerConnection(0.0)
    (gone,) = server.receive(said, 0.0)
    assert isinstance(gone.error, DecodeError)
    assert server.data_to_send() == HEADER
    assert server.should_close


def test_a_server_of_another_version() -> None:
    client = client_in(State.STARTING)
    (gone,) = client.receive(HEADER, 0.0)
    assert gone.by == "peer"
    client = client_in(State.STARTING)
    (gone,) = client.receive(b"AMQP\x00\x01\x00\x00", 0.0)
    assert gone.error is not None
    assert not client.data_to_send()


def test_the_end_of_the_stream_after_start_ok_means_that_credentials_are_refused() -> None:
    """pika and RabbitMQ's Java client read it so."""
    (gone,) = client_in(State.SECURING).receive_eof(0.0)
    assert (gone.by, gone.code) == ("transport", 403)
    (gone,) = client_in(State.OPENING).receive_eof(0.0)
    assert (gone.by, gone.code) == ("transport", None)


@pytest.mark.parametrize("state", [State.SECURING, State.OPENING])
def test_a_client_takes_close_in_the_handshake(state: State) -> None:
    client = client_in(state)
    (gone,) = client.receive(octets("connection.close", reply_code=530, reply_text="no"), 0.0)
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
    (gone,) = client.receive(octets("connection.start", mechanisms=b"SCRAM"), 0.0)
    assert gone.by == "local"
    assert "SCRAM" in gone.reason


def test_challenge_and_response() -> None:
    """1.4.2.3, 1.4.2.4, with RabbitMQ's demonstration of it."""
    client = amqp091.ClientConnection(0.0)
    client.open(mechanisms=[amqp091.RabbitCrDemo("guest", "guest")])
    server = amqp091.ServerConnection(0.0, mechanisms=["RABBIT-CR-DEMO"])
    server.receive(client.data_to_send(), 0.0)
    client.receive(server.data_to_send(), 0.0)
    (start_ok,) = server.receive(client.data_to_send(), 0.0)
    assert start_ok.response == b"guest"
    server.challenge(start_ok, b"Please tell me your password")
    with pytest.raises(LocalProtocolError):
        server.accept(start_ok)
    client.receive(server.data_to_send(), 0.0)
    (secure_ok,) = server.receive(client.data_to_send(), 0.0)
    assert secure_ok.response == b"My password is guest"
    server.accept(secure_ok)
    client.receive(server.data_to_send(), 0.0)
    (opening,) = server.receive(client.data_to_send(), 0.0)
    server.accept(opening)
    assert client.receive(server.data_to_send(), 0.0)[0].negotiated.mechanism == "RABBIT-CR-DEMO"


def test_a_mechanism_that_was_not_offered() -> None:
    server = server_in(State.STARTING)
    (gone,) = server.receive(octets("connection.start-ok", mechanism="EXTERNAL"), 0.0)
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
    (gone,) = server.receive(octets("connection.tune-ok", **tune_ok), 0.0)
    assert isinstance(gone.error, RemoteProtocolError)
    assert gone.error.reply == 530
    assert (
        gone.code is None
    )  # RabbitMQ ends the stream without a word before open (tests/live/test_amqp091_wrong_states.py)
    assert server.data_to_send() == b""


@pytest.mark.parametrize("heartbeat", [0, 600])
def test_a_server_takes_the_heartbeat_of_the_client(heartbeat: int) -> None:
    server = server_in(State.TUNING)
    server.receive(octets("connection.tune-ok", heartbeat=heartbeat), 0.0)
    (opening,) = server.receive(octets("connection.open"), 0.0)
    assert server.accept(opening)[0].negotiated.heartbeat == heartbeat


def test_frames_are_small_before_tune_ok() -> None:
    server = server_in(State.STARTING)
    large = octets("connection.start-ok", client_properties={"x": "y" * 9000})
    (gone,) = server.receive(large, 0.0)
    assert isinstance(gone.error, DecodeError)


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
    """RabbitMQ: under a channel-max of 2 the numbers 1 and 5 may be opened, a third channel is 530."""
    server = server_in(State.OPEN, OPTIONS(channel_max=2))
    server.receive(octets("channel.open", 1) + octets("channel.open", 5), 0.0)
    assert set(server.channels) == {1, 5}
    (gone,) = server.receive(octets("channel.open", 2), 0.0)
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
    (message,) = pair.server.receive(said, 0.0)
    assert message.body_bytes() == b"x" * 20_000


# ---- closing (1.4.2.9, 1.4.2.10, 2.2.4)


def test_close_waits_for_close_ok_and_drops_what_comes_before() -> None:
    client, channel = client_channel()
    assert client.close(200, "bye") == []
    assert client.receive(octets("channel.flow"), 0.0) == []
    (close,) = frames(client.data_to_send())
    assert (close.reply_code, close.reply_text) == (200, "bye")
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q")
    (gone,) = client.receive(octets("connection.close-ok"), 0.0)
    assert (gone.by, gone.code) == ("local", 200)


def test_closes_that_cross() -> None:
    pair = Pair()
    pair.client.close()
    pair.server.close()
    ours, theirs = pair.client.data_to_send(), pair.server.data_to_send()
    assert pair.client.receive(theirs, 0.0) == []
    assert pair.server.receive(ours, 0.0) == []
    (gone,) = pair.client.receive(pair.server.data_to_send(), 0.0)
    (also,) = pair.server.receive(pair.client.data_to_send(), 0.0)
    assert isinstance(gone, Disconnected)
    assert isinstance(also, Disconnected)


def test_no_close_ok_in_time() -> None:
    client = client_in(State.OPEN, OPTIONS(close_timeout=3, heartbeat=0))
    client.close()
    assert client.handle_timeout(1.0) == []
    assert client.handle_timeout(3.9) == []
    (gone,) = client.handle_timeout(4.0)
    assert gone.by == "local"


def test_connection_close_in_the_middle_of_a_content() -> None:
    """RabbitMQ: channels are independent of the connection's own methods."""
    server, _ = server_channel()
    begun = publish(b"x" * 100)[:-50]
    begun = begun[: begun.index(b"\x03")]  # method and header
    (gone,) = server.receive(begun + octets("connection.close"), 0.0)
    assert (gone.by, gone.code) == ("peer", 200)


def test_the_host_drops_the_connection() -> None:
    client, _ = client_channel()
    client.send(method("queue.declare"))
    (gone,) = client.close(immediate=True)
    assert not client.data_to_send()
    assert client.should_close
    assert [handle.message.name for handle in gone.lost] == ["queue.declare"]
    with pytest.raises(LocalProtocolError):
        client.receive(b"", 0.0)


def test_reply_texts_are_cut_to_255_bytes() -> None:
    server, channel = server_channel()
    channel.close(404, "é" * 300)
    (close,) = frames(server.data_to_send())
    assert close.reply_text.startswith("NOT_FOUND - é")
    assert len(close.reply_text.encode()) <= 255


# ---- channels (1.5)


def test_channel_closes_that_cross() -> None:
    pair = Pair()
    ours, theirs = pair.channel(1)
    ours.close()
    theirs.close(404, "gone")
    one, other = pair.client.data_to_send(), pair.server.data_to_send()
    assert pair.client.receive(other, 0.0) == []
    assert ours.state is ChannelState.CLOSING
    assert pair.server.receive(one, 0.0) == []
    assert theirs.state is ChannelState.CLOSING
    with pytest.raises(LocalProtocolError):
        pair.client.open_channel(1)
    (closed,) = pair.client.receive(pair.server.data_to_send(), 0.0)
    assert isinstance(closed, amqp091.ChannelClosed)
    pair.server.receive(pair.client.data_to_send(), 0.0)
    assert not pair.client.channels
    assert not pair.server.channels
    pair.channel(1)


def test_close_ok_and_open_in_one_write() -> None:
    """RabbitMQ: a number is free once close-ok has been written for the server's close."""
    client, _channel = client_channel()
    (closed,) = client.receive(octets("channel.close", reply_code=404, reply_text="NOT_FOUND - q"), 0.0)
    assert (closed.by, closed.code) == ("peer", 404)
    again = client.open_channel(1)
    again.send(method("queue.declare"))
    assert names(client.data_to_send()) == ["channel.close-ok", "channel.open", "queue.declare"]
    server, opened = server_channel()
    opened.close(404, "gone")
    events = server.receive(octets("channel.close-ok") + octets("channel.open") + octets("queue.declare"), 0.0)
    assert [type(event) for event in events] == [amqp091.ChannelOpened, amqp091.QueueDeclare]


def test_close_and_open_in_one_write() -> None:
    """RabbitMQ answers 504: the number is not free before close-ok has come."""
    client, channel = client_channel()
    channel.close()
    with pytest.raises(LocalProtocolError):
        client.open_channel(1)


def test_deliveries_behind_the_close_of_a_channel_are_dropped() -> None:
    """rabbitmq-server #13384: a server may send them; clients that answer with a fault end themselves."""
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    (closed,) = client.receive(octets("channel.close", reply_code=404) + deliver(1) + deliver(2), 0.0)
    assert isinstance(closed, amqp091.ChannelClosed)
    assert client.state is State.OPEN
    (gone,) = client.receive(deliver(1, channel=2), 0.0)  # a number that was never used
    assert gone.code == 504


def test_what_a_client_sends_behind_a_close_it_has_not_seen_is_dropped() -> None:
    server, channel = server_channel()
    channel.close(404, "gone")
    assert server.receive(publish() + octets("queue.declare") + octets("basic.qos-ok"), 0.0) == []
    server.receive(octets("channel.close-ok"), 0.0)
    (gone,) = server.receive(octets("queue.declare"), 0.0)
    assert gone.code == 504


def test_leftovers_of_a_channel_before_open_ok_are_dropped() -> None:
    client, channel = client_channel()
    channel.close()
    client.receive(octets("channel.close-ok"), 0.0)
    again = client.open_channel(1)
    assert client.receive(deliver(7) + octets("basic.ack", delivery_tag=1), 0.0) == []
    (opened,) = client.receive(octets("channel.open-ok"), 0.0)
    assert opened.handle is again.opened


def test_half_a_publish_and_channel_close_is_505() -> None:
    server, _ = server_channel()
    (gone,) = server.receive(method("basic.publish").method.encode() + octets("channel.close"), 0.0)
    assert gone.code == 505


def test_contents_of_several_channels_interleave() -> None:
    """4.2.6."""
    server = server_in(State.OPEN)
    server.receive(octets("channel.open", 1) + octets("channel.open", 2), 0.0)
    one, two = (amqp091.Decoder().feed(publish(bytes((k,)) * 10, channel=k)) for k in (1, 2))
    data = b"".join(frame.encode() for pair in zip(one, two, strict=True) for frame in (*pair, amqp091.Heartbeat()))
    assert [event.body_bytes() for event in server.receive(data, 0.0)] == [b"\1" * 10, b"\2" * 10]


def test_tags_and_numbers_start_at_1_when_a_channel_is_opened_again() -> None:
    pair = Pair()
    for _ in range(2):
        ours, theirs = pair.channel(1)
        ours.confirm_select()
        ours.consume("q", "c")
        _, (consume,) = pair.run()
        pair.server.reply(consume)
        assert theirs.deliver("c", "", "q", b"").tag == 1  # type: ignore[union-attr]
        pair.run()
        handle = ours.publish("", "q")
        assert handle is not None
        assert handle.tag == 1
        ours.close()
        _, events = pair.run()
        closed = events[-1]
        assert [delivery.tag for delivery in closed.lost] == [1]
        assert [consumer.tag for consumer in closed.consumers] == ["c"]


def test_flow() -> None:
    """1.5.2.3: content stops, other methods do not. A client that asks for it is refused, as RabbitMQ does."""
    client, channel = client_channel()
    (_flow,) = client.receive(octets("channel.flow", active=False), 0.0)
    assert client.data_to_send() == octets("channel.flow-ok", active=False)
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q")
    channel.send(method("queue.declare"))
    _, opened = client.receive(octets("channel.flow", active=True), 0.0)
    assert isinstance(opened, WindowOpened)
    assert opened.view is channel
    channel.publish("", "q")
    server, _ = server_channel()
    server.receive(octets("channel.flow", active=True), 0.0)
    assert server.data_to_send() == octets("channel.flow-ok", active=True)
    (gone,) = server.receive(octets("channel.flow", active=False), 0.0)
    assert gone.code == 540


# ---- calls and replies (4.7)


def test_replies_in_another_order_than_the_calls() -> None:
    """RabbitMQ answers consume, declare and qos in one write with declare-ok, qos-ok and consume-ok."""
    client, channel = client_channel()
    calls = [
        channel.consume("q", "a"),
        channel.consume("q"),
        channel.call(amqp091.QueueDeclare, queue="q"),
        channel.qos(1),
    ]
    said = (
        octets("queue.declare-ok"),
        octets("basic.qos-ok"),
        octets("basic.consume-ok", consumer_tag="amq.x"),
        octets("basic.consume-ok", consumer_tag="a"),
    )
    events = client.receive(b"".join(said), 0.0)
    assert [event.handle for event in events] == [calls[2], calls[3], calls[1], calls[0]]
    assert set(channel.consumers) == {"a", "amq.x"}


def test_a_reply_without_a_call() -> None:
    client, _ = client_channel()
    (gone,) = client.receive(octets("queue.declare-ok"), 0.0)
    assert gone.code == 503


@pytest.mark.parametrize(
    "name",
    [
        "exchange.declare",
        "exchange.delete",
        "exchange.bind",
        "exchange.unbind",
        "queue.declare",
        "queue.bind",
        "queue.purge",
        "queue.delete",
        "basic.consume",
        "basic.cancel",
        "confirm.select",
    ],
)
def test_nowait_has_no_reply(name: str) -> None:
    _client, channel = client_channel()
    assert channel.send(method(name, nowait=True)) is None
    server, _ = server_channel()
    for event in server.receive(octets(name, nowait=True), 0.0):
        server.reply(event)
    assert not server.data_to_send()
    assert server.undecided == 0


@pytest.mark.parametrize("name", ["queue.unbind", "basic.qos", "basic.recover", "tx.select", "basic.get"])
def test_methods_without_nowait(name: str) -> None:
    assert not hasattr(method(name), "nowait")


def test_a_nowait_that_fails_closes_the_channel() -> None:
    server, _ = server_channel()
    (declare,) = server.receive(octets("queue.declare", nowait=True, passive=True), 0.0)
    (closed,) = server.refuse(declare, 404, "no queue 'q' in vhost '/'")
    (close,) = frames(server.data_to_send())
    assert (close.reply_code, close.class_id, close.method_id) == (404, 50, 10)
    assert closed.by == "local"
    assert server.undecided == 0


def test_an_empty_queue_name_is_the_queue_declared_last() -> None:
    """1.7.2.1."""
    server, channel = server_channel()
    (declare,) = server.receive(octets("queue.declare", queue=""), 0.0)
    server.reply(declare, queue="amq.gen-1", message_count=0, consumer_count=0)
    (bind,) = server.receive(octets("queue.bind", queue=""), 0.0)
    assert channel.named(bind.queue) == "amq.gen-1"


@pytest.mark.parametrize(
    "name", ["queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.consume", "basic.get"]
)
def test_an_empty_queue_name_and_no_queue(name: str) -> None:
    server, _ = server_channel()
    (closed,) = server.receive(octets(name, queue=""), 0.0)
    assert (closed.code, closed.by) == (404, "local")
    assert server.state is State.OPEN


def test_deliveries_stand_between_a_call_and_its_reply() -> None:
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    call = channel.call(amqp091.QueueDeclare, queue="q")
    first, answer, second = client.receive(deliver(1) + octets("queue.declare-ok") + deliver(2), 0.0)
    assert answer.handle is call
    assert (first.method.delivery_tag, second.method.delivery_tag) == (1, 2)


def test_get() -> None:
    pair = Pair()
    ours, theirs = pair.channel()
    call = ours.get("q")
    _, (get,) = pair.run()
    delivery, _ = theirs.get_ok(get, "e", "k", b"body", message_count=4)
    assert delivery is not None
    ((answer,), _) = pair.run()
    assert answer.handle is call
    assert answer.message.method.message_count == 4
    assert answer.message.body_bytes() == b"body"
    ours.ack(answer.message.method.delivery_tag)
    _, (settled,) = pair.run()
    assert settled.deliveries == [delivery]
    assert isinstance(pair.call(ours.get("q")), amqp091.BasicGetEmpty)


# ---- publishing (1.8.3.7, RabbitMQ's confirms)


def test_numbers_of_confirms_begin_at_confirm_select() -> None:
    client, channel = client_channel()
    assert channel.publish("", "q") is None
    channel.confirm_select()
    client.receive(octets("confirm.select-ok"), 0.0)
    assert [channel.publish("", "q").tag for _ in range(3)] == [1, 2, 3]
    channel.confirm_select()  # again: no reset
    assert channel.publish("", "q").tag == 4


def test_confirms_of_one_turn_become_one() -> None:
    """RabbitMQ coalesces what is below the smallest open number; the rest singly, acks and nacks apart."""
    server, _channel = server_channel()
    server.receive(octets("confirm.select"), 0.0)
    messages = server.receive(publish() * 6, 0.0)
    server.data_to_send()
    for k in (1, 0, 2, 4):
        server.acknowledge(messages[k])
    said = frames(server.data_to_send())
    assert [(frame.delivery_tag, frame.multiple) for frame in said] == [(3, True), (5, False)]
    server.reject(messages[3])
    server.acknowledge(messages[5])
    said = frames(server.data_to_send())
    assert [(frame.name, frame.delivery_tag) for frame in said] == [("basic.nack", 4), ("basic.ack", 6)]
    with pytest.raises(LocalProtocolError):
        server.acknowledge(messages[0])


def test_multiple_confirms_and_unknown_ones() -> None:
    client, channel = client_channel()
    channel.confirm_select()
    client.receive(octets("confirm.select-ok"), 0.0)
    handles = [channel.publish("", "q") for _ in range(5)]
    (one,) = client.receive(octets("basic.ack", delivery_tag=2, multiple=False), 0.0)
    assert one.handles == [handles[1]]
    (more,) = client.receive(octets("basic.ack", delivery_tag=3), 0.0)
    assert more.handles == [handles[0], handles[2]]
    assert more.accepted
    assert client.receive(octets("basic.ack", delivery_tag=3), 0.0) == []  # unknown: ignored
    assert client.strays == 1
    (rest,) = client.receive(octets("basic.nack", delivery_tag=0), 0.0)  # 0: all
    assert rest.handles == handles[3:]
    assert not rest.accepted
    assert not client.session.outgoing


def test_a_return_comes_before_its_confirm_and_finds_its_message() -> None:
    """RabbitMQ: basic.return, then the ack. Acks of earlier messages may still be open."""
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = [ours.publish("", key, key.encode(), mandatory=True) for key in ("a", "b", "b", "c")]
    _, events = pair.run()
    pair.server.return_message(events[1])
    for event in events:
        pair.server.acknowledge(event)
    (returned, confirmed), _ = pair.run()
    assert isinstance(returned, amqp091.Returned)
    assert returned.handle is handles[1]
    assert returned.message.method.reply_code == 312
    assert handles[1].returned is returned.message  # type: ignore[union-attr]
    assert confirmed.handles == handles
    with pytest.raises(LocalProtocolError):
        pair.server.return_message(events[1])


def test_a_publish_that_closes_the_channel_is_never_confirmed() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = tuple(ours.publish("gone", "k") for _ in range(3))
    _, events = pair.run()
    (closed,) = pair.server.refuse(events[0], 404, "no exchange 'gone' in vhost '/'")
    assert closed.code == 404
    (told,), _ = pair.run()
    assert told.resumable == handles
    assert list(pair.client.session.outgoing.values()) == list(handles)
    assert pair.server.acknowledge(events[1]) == []  # answers of a channel that is closed are dropped
    assert not pair.server.waits(events[1])
    assert not pair.server.data_to_send()


def test_answers_to_events_of_a_channel_that_was_closed_behind_them_are_dropped() -> None:
    server, _ = server_channel()
    server.receive(octets("confirm.select"), 0.0)
    server.data_to_send()
    events = server.receive(publish() + octets("channel.close"), 0.0)
    assert isinstance(events[-1], amqp091.ChannelClosed)
    assert server.undecided == 0
    server.return_message(events[0])
    server.acknowledge(events[0])
    server.reject(events[0])
    server.refuse(events[0], 404)
    assert names(server.data_to_send()) == ["channel.close-ok"]


@pytest.mark.parametrize("request_name", ["queue.declare", "basic.get"])
def test_an_answer_to_a_request_of_a_channel_that_the_host_has_closed_is_dropped(request_name: str) -> None:
    server, channel = server_channel()
    (request,) = server.receive(octets(request_name) + publish() + octets("channel.close"), 0.0)
    (closed,) = channel.close(320, "maintenance")
    assert closed.by == "local"
    assert server.undecided == 0
    assert server.reply(request) == []
    assert server.refuse(request, 404) == []
    assert names(server.data_to_send()) == ["channel.close", "channel.close-ok"]  # the closes have crossed


def test_the_same_handle_after_sending_again() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = [ours.publish("e", "k", bytes((k,))) for k in range(3)]
    pair.run()
    (gone,) = pair.client.close(immediate=True)
    assert list(gone.resumable) == handles
    again = Pair(session=amqp091.Session.restore(pair.client.session.snapshot()))
    assert [p.message.body_bytes() for p in again.client.session.outgoing.values()] == [b"\0", b"\1", b"\2"]
    channel, _ = again.channel()
    channel.confirm_select()
    again.run()
    kept = list(again.client.session.outgoing.values())
    for publication in kept:
        channel.resend(publication)
        with pytest.raises(LocalProtocolError):
            channel.resend(publication)
    _, events = again.run()
    assert [event.body_bytes() for event in events] == [b"\0", b"\1", b"\2"]
    for event in events:
        again.server.acknowledge(event)
    (confirmed,), _ = again.run()
    assert confirmed.handles == kept
    assert not again.client.session.outgoing


def test_a_session_is_replayed_from_its_changes() -> None:
    session = amqp091.Session(journaled=True)
    pair = Pair(session=session)
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    for k in range(3):
        ours.publish("e", "k", bytes((k,)))
    changes = pair.client.changes()
    _, events = pair.run()
    pair.server.acknowledge(events[1])
    pair.run()
    changes += pair.client.changes()
    again = amqp091.Session.replay(changes)
    assert [p.message.body_bytes() for p in again.outgoing.values()] == [b"\0", b"\2"]
    with pytest.raises(DecodeError):
        amqp091.Session.restore(b"nonsense")
    with pytest.raises(LocalProtocolError):
        amqp091.ClientConnection(0.0, session)  # it belongs to the first connection


def test_the_window_of_unconfirmed_publishes() -> None:
    client, channel = client_channel(OPTIONS(unconfirmed=2))
    channel.confirm_select()
    client.receive(octets("confirm.select-ok"), 0.0)
    channel.publish("", "q")
    channel.publish("", "q")
    assert channel.send_quota == 0
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q")
    _, opened = client.receive(octets("basic.ack", delivery_tag=1, multiple=False), 0.0)
    assert opened == WindowOpened(1, channel)
    assert channel.publish("", "q").tag == 3


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (publish(immediate=True), 540),
        (octets("basic.qos", prefetch_size=1), 540),
        (octets("basic.recover", requeue=False), 540),
        (octets("basic.recover-async", requeue=False), 540),
        (octets("tx.commit"), 406),
        (octets("tx.rollback"), 406),
        (octets("confirm.select") + octets("tx.select"), 406),
        (octets("tx.select") + octets("confirm.select"), 406),
        (octets("basic.ack", delivery_tag=1, multiple=False), 406),
        (octets("basic.ack", delivery_tag=0, multiple=False), 406),
        (octets("basic.ack", delivery_tag=1, multiple=True), 406),
        (octets("basic.nack", delivery_tag=1, multiple=True), 406),
        (octets("basic.reject", delivery_tag=1), 406),
    ],
)
def test_codes_of_faults(said: bytes, code: int) -> None:
    """RabbitMQ's codes; soft ones close the channel, hard ones the connection."""
    server, _channel = server_channel()
    gone = server.receive(said, 0.0)[-1]
    assert gone.code == code
    assert isinstance(gone.error, RemoteProtocolError)
    soft = code == 406
    assert isinstance(gone, amqp091.ChannelClosed if soft else Disconnected)
    assert (server.state is State.OPEN) is soft
    close = frames(server.data_to_send())[-1]
    assert close.reply_code == code
    assert (close.class_id, close.method_id) != (0, 0)


def test_a_message_larger_than_allowed_is_406() -> None:
    server, _ = server_channel(OPTIONS(message_size=10))
    (closed,) = server.receive(publish(b"x" * 11), 0.0)
    assert (closed.code, server.state) == (406, State.OPEN)


# ---- consuming (1.8.3)


def consuming(prefetch: int = 0, shared: bool = False, no_ack: bool = False) -> tuple[Pair, Any, Any]:
    pair = Pair()
    ours, theirs = pair.channel()
    if prefetch:
        ours.qos(prefetch, shared=shared)
    ours.consume("q", "c", no_ack=no_ack)
    _, events = pair.run()
    pair.server.reply(events[-1])
    pair.run()
    return pair, ours, theirs


def test_deliveries_together() -> None:
    """As many as the window allows, each with its own properties and context."""
    pair, ours, theirs = consuming(prefetch=3)
    bodies = [b"%d" % k for k in range(5)]
    properties = [None, amqp091.BasicProperties(message_id="1"), *[None] * 3]
    assert theirs.deliver_all("c", "e", "q", bodies, properties, redelivered=True, contexts=[*range(5)]) == 3
    got, _ = pair.run()
    assert [message.body_bytes() for message in got] == bodies[:3]
    assert [message.method.delivery_tag for message in got] == [1, 2, 3]
    assert all(message.method.redelivered and message.method.exchange == "e" for message in got)
    assert [message.properties.message_id for message in got] == [None, "1", None]
    with pytest.raises(LocalProtocolError):
        theirs.deliver_all("c", "e", "q", bodies, properties)
    ours.ack(2, multiple=True)
    _, (settled,) = pair.run()
    assert [delivery.context for delivery in settled.deliveries] == [0, 1]
    assert theirs.deliver_all("c", "e", "q", bodies[3:], properties[3:]) == 2
    got, _ = pair.run()
    assert [message.body_bytes() for message in got] == bodies[3:]
    assert not any(message.method.redelivered for message in got)
    for wrong in ({"contexts": [1]}, {"properties": []}, {"bodies": ["text"]}):
        with pytest.raises(LocalProtocolError):
            theirs.deliver_all("c", "e", "q", **{"bodies": [b""] * 2, "properties": [None] * 2, **wrong})


def test_deliveries_together_end_at_what_is_queued() -> None:
    pair, _, theirs = consuming(no_ack=True)
    assert theirs.deliver_all("c", "", "q", [bytes(1000)] * 10, [None] * 10, pending_bytes=2500) == 3
    assert pair.server.pending_bytes >= 2500
    too_large = amqp091.BasicProperties(headers={"h": bytes(pair.server.frame_max)})
    assert theirs.deliver_all("c", "", "q", [b""] * 3, [None, too_large, None]) == 1
    with pytest.raises(LocalProtocolError):
        theirs.deliver_all("c", "", "q", [b""] * 2, [too_large, None])


def test_messages_that_may_be_handled_together() -> None:
    pair = Pair()
    first, _ = pair.channel()
    second, _ = pair.channel()
    for routing_key in ("a", "a", "b"):
        first.publish("", routing_key, b"x")
    second.publish("", "b")
    second.confirm_select()
    for _ in range(3):
        second.publish("", "b")
    first.publish("", "b", mandatory=True)
    _, events = pair.run()
    runs, at = [], 0
    while at < len(events):
        end = pair.server.run_of(events, at)
        runs.append(end - at)
        at = end
    assert runs == [2, 1, 1, 3, 1]
    for wrong in (-1, len(events), 1 << 40):
        with pytest.raises(IndexError):
            pair.server.run_of(events, wrong)
    with pytest.raises(TypeError):
        pair.server.run_of([amqp091.Heartbeat()], 0)
    pair.server.acknowledge(*events[4:7])
    (confirmed,), _ = pair.run()
    assert len(confirmed.handles) == 3
    with pytest.raises(LocalProtocolError):
        pair.server.acknowledge(*events[4:7])
    with pytest.raises(LocalProtocolError):
        pair.server.acknowledge(events[0])


def test_acks_of_one_turn_become_one() -> None:
    pair, ours, theirs = consuming()
    handles = [theirs.deliver("c", "", "q", b"", context=k) for k in range(6)]
    deliveries, _ = pair.run()
    for k in (0, 2, 1, 4):
        ours.ack(deliveries[k].method.delivery_tag)
    said = pair.client.data_to_send()
    assert [(frame.delivery_tag, frame.multiple) for frame in frames(said)] == [(3, True), (5, False)]
    first, second = pair.server.receive(said, 0.0)
    assert first.deliveries == handles[:3]
    assert [delivery.context for delivery in second.deliveries] == [4]
    ours.ack(0, multiple=True)
    _, (rest,) = pair.run()
    assert rest.deliveries == [handles[3], handles[5]]
    assert ours.ack(0, multiple=True) == []  # fine if there are none
    assert not pair.client.data_to_send()


def test_acks_are_written_before_what_follows_them() -> None:
    pair, ours, theirs = consuming()
    theirs.deliver("c", "", "q", b"")
    (delivery,), _ = pair.run()
    ours.ack(delivery.method.delivery_tag)
    ours.close()
    assert names(pair.client.data_to_send()) == ["basic.ack", "channel.close"]


def test_no_delivery_is_acknowledged_twice() -> None:
    pair, ours, theirs = consuming()
    for _ in range(4):
        theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.ack(2)
    for call in (ours.ack, ours.reject, ours.nack):
        with pytest.raises(LocalProtocolError):
            call(2)
        with pytest.raises(LocalProtocolError):
            call(9)
    with pytest.raises(LocalProtocolError):
        ours.ack(2, multiple=True)
    ours.reject(3, requeue=False)
    ours.nack(4, multiple=True)
    _, events = pair.run()
    assert [(event.outcome, [d.tag for d in event.deliveries]) for event in events] == [
        ("ack", [2]),
        ("discard", [3]),
        ("requeue", [1, 4]),
    ]


def test_one_ack_for_many_does_not_include_what_is_given_back() -> None:
    """Of deliveries 1 to 5, 1 and 3 are acknowledged, then 2 is given back, then 5 and all up to 4 are acknowledged."""
    for give_back in (lambda channel: channel.nack(2), lambda channel: channel.reject(2)):
        pair, ours, theirs = consuming()
        for _ in range(5):
            theirs.deliver("c", "", "q", b"")
        pair.run()
        ours.ack(1)
        ours.ack(3)
        give_back(ours)
        ours.ack(5)
        ours.ack(4, multiple=True)
        _, events = pair.run()
        settled = {d.tag: event.outcome for event in events for d in event.deliveries}
        assert settled == {1: "ack", 2: "requeue", 3: "ack", 4: "ack", 5: "ack"}


def test_one_confirm_for_many_does_not_include_what_is_rejected() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    ours.confirm_select()
    pair.run()
    handles = [ours.publish("", "q") for _ in range(3)]
    _, events = pair.run()
    pair.server.acknowledge(events[0])
    pair.server.acknowledge(events[2])
    pair.server.reject(events[1])
    confirmed, _ = pair.run()
    accepted = {handle.tag: event.accepted for event in confirmed for handle in event.handles}
    assert accepted == {1: True, 2: False, 3: True}
    assert len(handles) == 3


def test_deliveries_without_acknowledgement_take_numbers() -> None:
    """RabbitMQ: they count, and acknowledging one is 406."""
    pair, ours, theirs = consuming(no_ack=True)
    assert theirs.deliver("c", "", "q", b"") is None
    (delivery,), _ = pair.run()
    assert delivery.method.delivery_tag == 1
    with pytest.raises(LocalProtocolError):
        ours.ack(1)
    (closed,) = pair.server.receive(octets("basic.ack", delivery_tag=1, multiple=False), 0.0)
    assert closed.code == 406


def test_prefetch_of_consumers_started_later() -> None:
    """RabbitMQ: without global it is per consumer; basic.get is not counted."""
    pair, ours, theirs = consuming(prefetch=2)
    ours.qos(5)
    pair.run()
    assert theirs.room("c") == 2
    for _ in range(2):
        theirs.deliver("c", "", "q", b"")
    assert theirs.room("c") == 0
    with pytest.raises(LocalProtocolError):
        theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.get("q")
    _, (get,) = pair.run()
    theirs.get_ok(get, "", "q", b"")
    pair.run()
    ours.ack(1)
    pair.run()
    assert theirs.room("c") == 1


def test_prefetch_shared_by_a_channel() -> None:
    pair, ours, theirs = consuming(prefetch=3, shared=True)
    ours.consume("q", "d")
    _, (consume,) = pair.run()
    pair.server.reply(consume)
    theirs.deliver("c", "", "q", b"")
    theirs.deliver("d", "", "q", b"")
    assert (theirs.room("c"), theirs.room("d")) == (1, 1)
    theirs.deliver("d", "", "q", b"")
    assert (theirs.room("c"), theirs.room("d")) == (0, 0)
    ours.qos(0, shared=True)
    pair.run()
    assert theirs.room("c") > 1000


def test_recover() -> None:
    """RabbitMQ: recover-ok, then the messages come again; the old tags are void."""
    pair, ours, theirs = consuming()
    handles = [theirs.deliver("c", "", "q", b"") for _ in range(3)]
    pair.run()
    call = ours.recover()
    theirs.deliver("c", "", "q", b"")  # sent before recover comes
    _, (settled,) = pair.run()
    assert settled.outcome == "requeue"
    assert settled.deliveries[:3] == handles
    with pytest.raises(LocalProtocolError):
        ours.ack(1)
    assert ours.unacknowledged == 0
    theirs.deliver("c", "", "q", b"", redelivered=True)
    (again,), _ = pair.run()
    assert again.method.redelivered
    ours.ack(again.method.delivery_tag)
    _, (acked,) = pair.run()
    assert acked.outcome == "ack"
    assert call.message.name == "basic.recover"


def test_cancel_by_the_client() -> None:
    """RabbitMQ: cancel-ok also for a consumer that is not there. Deliveries until cancel-ok count."""
    pair, ours, theirs = consuming()
    theirs.deliver("c", "", "q", b"")
    call = ours.cancel("c")
    _, (event,) = pair.run()
    assert event.consumer_tag == "c"
    assert not theirs.consumers
    assert not ours.consumers
    ours.ack(1)
    _, (settled,) = pair.run()
    assert len(settled.deliveries) == 1
    again = ours.cancel("c")
    (answer,), events = pair.run()
    assert (answer.handle, events) == (again, [])
    assert call is not again
    with pytest.raises(LocalProtocolError):
        theirs.deliver("c", "", "q", b"")


def test_deliveries_pending_after_a_cancel_without_reply() -> None:
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    channel.cancel("c", nowait=True)
    (delivery,) = client.receive(deliver(1), 0.0)
    channel.nack(delivery.method.delivery_tag)


def test_cancel_by_the_server() -> None:
    """RabbitMQ: only with consumer_cancel_notify, with nowait, and without an answer."""
    pair, ours, theirs = consuming()
    theirs.cancel("c")
    (cancel,), _ = pair.run()
    assert isinstance(cancel, amqp091.BasicCancel)
    assert cancel.nowait
    assert not ours.consumers
    assert not pair.client.data_to_send()
    plain = server_in(State.OPEN, told=False)
    plain.receive(octets("channel.open"), 0.0)
    (consume,) = plain.receive(octets("basic.consume"), 0.0)
    plain.reply(consume)
    plain.data_to_send()
    plain.channels[1].cancel("c")
    assert not plain.data_to_send()


def test_a_consumer_tag_used_twice() -> None:
    server, _channel = server_channel()
    (first,) = server.receive(octets("basic.consume"), 0.0)
    server.reply(first)
    (gone,) = server.receive(octets("basic.consume"), 0.0)
    assert gone.code == 530


def test_a_delivery_for_a_consumer_that_is_not_there() -> None:
    client, _channel = client_channel()
    (gone,) = client.receive(deliver(1), 0.0)
    assert isinstance(gone.error, RemoteProtocolError)


def test_tags_of_deliveries_rise() -> None:
    client, channel = client_channel()
    channel.consume("q", "c", nowait=True)
    gone = client.receive(deliver(2) + deliver(2), 0.0)[-1]
    assert isinstance(gone.error, RemoteProtocolError)


# ---- transactions (1.9)


def transactional() -> tuple[Pair, Any, Any]:
    pair, ours, theirs = consuming()
    ours.call(amqp091.TxSelect)
    pair.run()
    return pair, ours, theirs


def test_acknowledgements_wait_for_commit() -> None:
    pair, ours, theirs = transactional()
    handle = theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.ack(1)
    assert pair.run()[1] == []
    ours.call(amqp091.TxCommit)
    _, (settled, commit) = pair.run()
    assert settled.deliveries == [handle]
    pair.server.reply(commit)
    (done,), _ = pair.run()
    assert isinstance(done, Acknowledged)


def test_rollback_undoes_acknowledgements() -> None:
    """RabbitMQ: the deliveries stay unacknowledged."""
    pair, ours, theirs = transactional()
    for _ in range(3):
        theirs.deliver("c", "", "q", b"")
    pair.run()
    ours.ack(2)
    ours.call(amqp091.TxRollback)
    _, (rollback,) = pair.run()
    assert isinstance(rollback, amqp091.TxRollback)
    assert theirs.unacknowledged == 3
    (settled, _) = pair.server.receive(octets("basic.ack", delivery_tag=0) + octets("tx.commit"), 0.0)
    assert [delivery.tag for delivery in settled.deliveries] == [1, 2, 3]


def test_the_host_learns_where_a_transaction_begins() -> None:
    """1.9.2.1: what comes before tx.select in the same bytes is not of the transaction."""
    pair = Pair()
    ours, _ = pair.channel()
    ours.publish("", "q", b"before")
    ours.call(amqp091.TxSelect)
    ours.publish("", "q", b"after")
    _, (before, select, after) = pair.run()
    assert [before.body_bytes(), type(select), after.body_bytes()] == [b"before", amqp091.TxSelect, b"after"]


def test_commit_is_refused_without_select() -> None:
    _client, channel = client_channel()
    for name in ("tx.commit", "tx.rollback"):
        with pytest.raises(LocalProtocolError):
            channel.send(method(name))
    channel.confirm_select()
    with pytest.raises(LocalProtocolError):
        channel.call(amqp091.TxSelect)


# ---- blocked, secrets (RabbitMQ)


def test_blocked_and_unblocked() -> None:
    pair = Pair()
    ours, _ = pair.channel()
    assert pair.server.block("low on memory")
    (blocked,), _ = pair.run()
    assert blocked.reason == "low on memory"
    with pytest.raises(LocalProtocolError):
        ours.publish("", "q")
    pair.server.unblock()
    (unblocked, opened), _ = pair.run()
    assert isinstance(unblocked, amqp091.ConnectionUnblocked)
    assert opened.view is ours
    ours.publish("", "q")
    plain = server_in(State.OPEN, told=False)
    assert not plain.block("low")
    assert not plain.data_to_send()


def test_a_deadline_for_blocked() -> None:
    client = client_in(State.OPEN, OPTIONS(blocked_timeout=5, heartbeat=0))
    client.receive(octets("connection.blocked"), 10.0)
    client.handle_timeout(10.0)
    assert client.next_timeout() == 15.0
    (gone,) = client.handle_timeout(15.0)
    assert gone.by == "local"


def test_update_secret() -> None:
    pair = Pair()
    call = pair.client.update_secret(b"token", "renewed")
    _, (event,) = pair.run()
    assert (event.new_secret, event.reason) == (b"token", "renewed")
    assert pair.server.undecided == 1
    pair.server.accept(event)
    (answer,), _ = pair.run()
    assert answer.handle is call
    pair.client.update_secret(b"token")
    _, (event,) = pair.run()
    (gone,) = pair.server.refuse(event)
    assert gone.code == 530


# ---- heartbeats and timers (4.2.7)


def test_heartbeats_begin_with_tune_ok() -> None:
    server = server_in(State.OPENING, OPTIONS(heartbeat=10, handshake_timeout=1000))
    assert not server.data_to_send()
    when = server.next_timeout()
    assert when is not None
    server.handle_timeout(0.0)
    server.handle_timeout(4.9)
    assert not server.data_to_send()
    server.handle_timeout(5.0)
    assert names(server.data_to_send()) == ["Heartbeat"]


def test_a_heartbeat_when_nothing_else_is_sent() -> None:
    """RabbitMQ sends one after half an interval in which nothing was sent."""
    client = client_in(State.OPEN, OPTIONS(heartbeat=60))
    client.handle_timeout(0.0)
    sent: list[float] = []
    now = 0.0
    while now < 119 and (when := client.next_timeout()) is not None:
        now = when
        client.receive(amqp091.Heartbeat().encode(), now)
        client.handle_timeout(now)
        if client.data_to_send():
            sent.append(now)
    assert sent
    assert max(b - a for a, b in zip([0.0, *sent], sent, strict=False)) <= 30


def test_silence_of_two_intervals_ends_the_connection_without_a_word() -> None:
    for connection in (client_in(State.OPEN, OPTIONS(heartbeat=10)), server_in(State.OPEN, OPTIONS(heartbeat=10))):
        connection.handle_timeout(100.0)
        connection.receive(octets("channel.flow-ok")[:3], 110.0)  # a part of a frame is life
        connection.data_to_send()
        events: list[Any] = []
        while not events:
            when = connection.next_timeout()
            assert when is not None
            events = connection.handle_timeout(when)
        (gone,) = events
        assert when == 130.0
        assert gone.code is None
        assert set(names(connection.data_to_send())) <= {"Heartbeat"}


def test_silence_does_not_count_while_we_do_not_read() -> None:
    """A blocked server does not cut a silent client."""
    server = server_in(State.OPEN, OPTIONS(heartbeat=10))
    server.handle_timeout(0.0)
    server.pause()
    for k in range(20):
        assert server.handle_timeout(k * 10.0) == []
    server.resume(200.0)
    assert server.handle_timeout(200.0) == []
    assert server.handle_timeout(219.9) == []
    (gone,) = server.handle_timeout(220.0)
    assert isinstance(gone, Disconnected)


def test_a_deadline_for_the_handshake() -> None:
    server = amqp091.ServerConnection(5.0)
    assert server.next_timeout() == 15.0
    (gone,) = server.handle_timeout(15.0)
    assert gone.by == "local"
    assert server_in(State.OPEN, OPTIONS(heartbeat=0)).next_timeout() is None


# ---- limits


def test_requests_that_wait_stop_reading() -> None:
    server, _channel = server_channel(OPTIONS(undecided=3))
    events = server.receive(octets("queue.declare") * 5, 0.0)
    for left, reading in ((5, False), (4, False), (3, False), (2, True), (1, True)):
        (first,) = events  # one after another: those behind it wait, and count
        assert (server.undecided, server.wants_read) == (min(left, 3), reading)
        events = server.reply(first)
    assert (events, server.undecided, server.wants_read) == ([], 0, True)
    assert names(server.data_to_send()) == ["queue.declare-ok"] * 5
    with pytest.raises(LocalProtocolError):
        server.reply(first)


def test_publishes_that_wait_for_a_confirm_stop_reading() -> None:
    server, channel = server_channel(OPTIONS(undecided=3))
    server.receive(octets("confirm.select"), 0.0)
    events = server.receive(publish() * 5, 0.0)
    assert (len(events), server.wants_read) == (3, False)
    assert len(server.acknowledge(events[0])) == 1
    closed = channel.close(404, "gone")
    assert isinstance(closed[0], amqp091.ChannelClosed)
    assert server.undecided == 0


def test_deliveries_that_wait_stop_the_reading_of_a_client() -> None:
    client, channel = client_channel(OPTIONS(undecided=3, heartbeat=0))
    channel.consume("q", "c", nowait=True)
    events = client.receive(b"".join(deliver(k) for k in range(1, 6)), 0.0)
    assert (len(events), client.wants_read) == (3, False)
    assert [event.method.delivery_tag for event in channel.ack(1)] == [4]
    assert [event.method.delivery_tag for event in channel.nack(2, multiple=True)] == [5]
    assert not client.wants_read
    assert channel.reject(3) == []
    assert client.wants_read


def test_many_publishes_without_a_confirm_stop_reading() -> None:
    """32,000 publishes are on their way, and the host has answered none: no more than the limit become events."""
    count, limit = 32_000, 1000
    server, _channel = server_channel(OPTIONS(undecided=limit))
    server.receive(octets("confirm.select"), 0.0)
    server.data_to_send()
    stream = memoryview(publish() * count)
    at = 0
    waiting: list[Any] = []
    answered = 0
    while answered < count:
        while server.wants_read and at < len(stream):
            waiting += server.receive(stream[at : at + 4096], 0.0)
            at += 4096
            assert server.undecided == len(waiting) <= limit
        assert server.wants_read == (len(waiting) < limit)
        for event in [waiting.pop(0) for _ in range(min(len(waiting), 300))]:
            waiting += server.acknowledge(event)
            answered += 1
            assert len(waiting) <= limit
    assert (server.undecided, server.wants_read) == (0, True)
    last = [frame for frame in frames(server.data_to_send()) if isinstance(frame, amqp091.BasicAck)][-1]
    assert (last.delivery_tag, last.multiple) == (count, True)


def test_an_answer_to_get_goes_on_with_what_waits() -> None:
    server, channel = server_channel(OPTIONS(undecided=1))
    (get,) = server.receive(octets("basic.get", queue="q", no_ack=True) * 3, 0.0)
    for left in (1, 1, 0):
        assert server.wants_read is False
        _, events = channel.get_ok(get, "", "q", b"m")
        assert len(events) == left
        get = events[0] if events else None
    assert server.wants_read
    assert names(server.data_to_send()).count("basic.get-ok") == 3


def test_a_channel_that_is_closed_while_nothing_is_read() -> None:
    """What waits on it holds up nothing: the answer to the close has to be read."""
    server, channel = server_channel(OPTIONS(undecided=3))
    server.receive(octets("channel.open", 2) + octets("confirm.select"), 0.0)
    server.receive(publish() * 5 + octets("queue.declare", 2), 0.0)
    assert not server.wants_read
    closed, declare = channel.close(404, "gone")
    assert isinstance(closed, amqp091.ChannelClosed)
    assert isinstance(declare, amqp091.QueueDeclare)
    assert server.wants_read
    client, ours = client_channel(OPTIONS(undecided=3, heartbeat=0))
    other = client.open_channel(2)
    client.receive(octets("channel.open-ok", 2), 0.0)
    for view, tag in ((ours, "c"), (other, "d")):
        view.consume("q", tag, nowait=True)
    client.receive(b"".join(deliver(k) for k in range(1, 6)) + deliver(1, channel=2, consumer="d"), 0.0)
    assert not client.wants_read
    (event,) = ours.close()  # the fourth and fifth are dropped
    assert event.channel == 2
    assert client.wants_read
    (closed,) = client.receive(octets("channel.close-ok"), 0.0)
    assert isinstance(closed, amqp091.ChannelClosed)


@pytest.mark.parametrize("how", ["recover", "send"])
def test_a_method_that_voids_deliveries_lets_its_reply_be_read(how: str) -> None:
    client, channel = client_channel(OPTIONS(undecided=3, heartbeat=0))
    channel.consume("q", "c", nowait=True)
    client.receive(b"".join(deliver(k) for k in range(1, 4)), 0.0)
    assert not client.wants_read
    if how == "recover":
        channel.recover()
    else:
        channel.send(method("channel.close"))
    assert client.wants_read


def test_returned_messages_cost_what_they_are() -> None:
    """Each return looks for its publication among those that have not been returned."""
    taken = []
    for count in (20, 400):
        client, channel = client_channel()
        channel.confirm_select()
        client.receive(octets("confirm.select-ok"), 0.0)
        handles = [channel.publish("", "q", b"%d" % n, mandatory=True) for n in range(count)]
        returned = [
            amqp091.BasicMessage(
                amqp091.BasicReturn(channel=1, reply_code=312, reply_text="NO_ROUTE", exchange="", routing_key="q"),
                None,
                b"%d" % n,
            ).encode()
            for n in range(count)
        ]
        events = client.receive(b"".join(returned[:-1]), 0.0)
        assert [event.handle for event in events] == handles[:-1]
        taken.append(steps(lambda c=client, r=returned: c.receive(r[-1], 0.0)))  # type: ignore[misc]
        client.receive(octets("basic.ack", delivery_tag=count, multiple=True), 0.0)
        assert not channel.unconfirmed
    assert taken[1] < 1.5 * taken[0]


def test_bytes_that_come_although_we_do_not_read() -> None:
    server, _ = server_channel(OPTIONS(undecided=1, unread_bytes=1000))
    events = server.receive(octets("queue.declare") * 10, 0.0)
    assert len(events) == 1
    (gone,) = server.receive(octets("queue.declare") * 50, 0.0)
    assert gone.code == 506


def test_bytes_of_unfinished_messages() -> None:
    server = server_in(State.OPEN, OPTIONS(unfinished_bytes=1000))
    for k in range(1, 4):
        server.receive(octets("channel.open", k), 0.0)
    begun = b"".join(
        amqp091.BasicPublish(channel=k).encode()
        + amqp091.ContentHeader(channel=k, body_size=600).encode()
        + amqp091.Body(channel=k, payload=b"x" * 400).encode()
        for k in range(1, 4)
    )
    (gone,) = server.receive(begun, 0.0)
    assert isinstance(gone.error, DecodeError)
    assert gone.code == 506


def test_a_body_that_is_not_read_at_all() -> None:
    server, _ = server_channel(OPTIONS(body_size=1000))
    announced = amqp091.BasicPublish(channel=1).encode() + amqp091.ContentHeader(channel=1, body_size=1001).encode()
    (gone,) = server.receive(announced, 0.0)
    assert isinstance(gone.error, DecodeError)
    assert gone.code == 501


def test_bytes_that_are_queued() -> None:
    client, channel = client_channel(OPTIONS(pending_bytes=1000))
    channel.publish("", "q", b"x" * 900)
    with pytest.raises(LocalProtocolError):
        channel.publish("", "q", b"x" * 900)
    with pytest.raises(LocalProtocolError):
        channel.send(method("queue.declare", queue="q" * 200))
    client.data_to_send()
    channel.publish("", "q", b"x" * 2000)  # one message may be larger
    server, opened = server_channel(OPTIONS(pending_bytes=1000))
    (consume,) = server.receive(octets("basic.consume"), 0.0)
    server.reply(consume)
    server.data_to_send()
    opened.deliver("c", "", "q", b"x" * 900)
    with pytest.raises(LocalProtocolError):
        opened.deliver("c", "", "q", b"x" * 900)
    server.data_to_send()
    delivery = opened.deliver("c", "", "q", b"")
    assert delivery is not None
    assert delivery.tag == 2  # a refused one costs no number


def test_a_peer_that_does_not_take_its_answers() -> None:
    server, _ = server_channel(OPTIONS(pending_bytes=1000))
    calls = octets("basic.qos") * 1000
    events: list[Any] = []
    for _ in range(200):
        events = server.receive(calls, 0.0)
        if isinstance(events[-1], Disconnected):
            break
    assert isinstance(events[-1], Disconnected)
    assert events[-1].code == 506
    assert server.pending_bytes < 4_000_000


def test_unacknowledged_deliveries_of_a_channel() -> None:
    server, channel = server_channel(OPTIONS(unacknowledged=3))
    _, consume = server.receive(octets("tx.select") + octets("basic.consume"), 0.0)
    server.reply(consume)
    for _ in range(3):
        channel.deliver("c", "", "q", b"")
    assert channel.room("c") == 0
    server.receive(octets("basic.ack", delivery_tag=0), 0.0)  # in the transaction they still count
    assert channel.room("c") == 0
    server.receive(octets("tx.commit"), 0.0)
    assert channel.room("c") == 3


def test_consumers_of_a_channel() -> None:
    server, _channel = server_channel(OPTIONS(consumers=2))
    for tag in ("a", "b"):
        (consume,) = server.receive(octets("basic.consume", consumer_tag=tag), 0.0)
        server.reply(consume)
    (gone,) = server.receive(octets("basic.consume", consumer_tag="d"), 0.0)
    assert gone.code == 530


def test_settling_costs_time_for_what_is_settled() -> None:
    """Many deliveries, acknowledged one by one and in order, with their acks written each time: linear."""
    client, channel = client_channel(OPTIONS(undecided=200_000))
    channel.consume("q", "c", nowait=True)
    client.receive(b"".join(deliver(k, b"") for k in range(1, 60_001)), 0.0)
    for k in range(1, 60_001):
        channel.ack(k)
        client.data_to_send()
    assert channel.unacknowledged == 0


# ---- the contract


def test_a_send_that_is_refused_changes_nothing() -> None:
    client, channel = client_channel()
    wrong: list[Any] = [
        method("queue.declare-ok"),
        method("queue.declare", channel=2),
        method("connection.close-ok"),
        amqp091.ProtocolHeader(),
        method("basic.qos", prefetch_size=5),
        method("basic.recover", requeue=False),
        method("basic.deliver"),
        amqp091.BasicMessage(amqp091.BasicPublish(channel=1, immediate=True)),
        method("basic.consume", consumer_tag="", nowait=True),
        object(),
    ]
    for message in wrong:
        with pytest.raises(LocalProtocolError):
            client.send(message)
    assert not client.pending_bytes
    with pytest.raises(LocalProtocolError):
        channel.call(amqp091.QueueDeclare, queue=5)
    with pytest.raises(LocalProtocolError):
        channel.publish("", "k" * 256)
    with pytest.raises(LocalProtocolError):
        client.open_channel(70_000)
    assert not client.pending_bytes


def test_pause_and_resume() -> None:
    server, _ = server_channel()
    server.pause()
    assert server.receive(octets("queue.declare"), 0.0) == []
    assert not server.wants_read
    (event,) = server.resume(1.0)
    assert isinstance(event, amqp091.QueueDeclare)
    server.pause()
    server.receive(b"the rest", 1.0)
    assert server.trailing_data == b"the rest"


def test_the_end_of_the_stream_is_read_after_what_waits() -> None:
    server, _ = server_channel(OPTIONS(undecided=1))
    (first,) = server.receive(octets("queue.declare") * 2, 0.0)
    assert server.receive_eof(0.0) == []
    second, gone = server.reply(first)
    assert isinstance(second, amqp091.QueueDeclare)
    assert (gone.by, gone.reason) == ("transport", "the stream ended")


def test_messages_before_a_fault_come_before_it() -> None:
    server, _ = server_channel()
    first, gone = server.receive(octets("queue.declare") + b"\xff" * 20, 0.0)
    assert isinstance(first, amqp091.QueueDeclare)
    assert isinstance(gone.error, DecodeError)


def test_large_bodies_are_not_joined() -> None:
    _, channel = client_channel()
    channel.publish("", "q", b"x" * 100_000)
    assert max(memoryview(b).nbytes for b in channel.connection.buffers_to_send()) >= 100_000


@pytest.mark.parametrize("values", [{"channel_max": 70000}, {"frame_max": 100}, {"undecided": 0}, {"first_frame": 10}])
def test_options_are_checked(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        OPTIONS(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("nowait", [False, True])
def test_a_cancel_that_follows_its_consume_at_once(nowait: bool) -> None:
    """4.7: methods of a channel take effect in their order, also if the host decides late about the first one."""
    server, channel = server_channel()
    consume = octets("basic.consume", queue="q", consumer_tag="c", nowait=nowait)
    cancel = octets("basic.cancel", consumer_tag="c")
    events = server.receive(consume + cancel + consume + cancel, 0.0)
    assert server.data_to_send() == b""
    begun = [] if nowait else ["basic.consume-ok"]
    for rest in ([amqp091.BasicConsume], []):
        cancelled, *events = server.reply(events[0])
        assert type(cancelled) is amqp091.BasicCancel
        assert [type(event) for event in events] == rest
        assert names(server.data_to_send()) == [*begun, "basic.cancel-ok"]
        assert not channel.consumers
    with pytest.raises(LocalProtocolError):
        channel.deliver("c", "", "q")
    (third,) = server.receive(consume, 0.0)
    assert server.reply(third) == []
    assert list(channel.consumers) == ["c"]


#: Methods that a server answers at once, with what has to come before them.
AT_ONCE = [
    ([], "basic.qos", {"prefetch_count": 3}),
    ([], "channel.flow", {"active": True}),
    ([], "confirm.select", {}),
    ([], "tx.select", {}),
    (["tx.select"], "tx.rollback", {}),
    ([], "basic.recover", {"requeue": True}),
    ([], "basic.cancel", {"consumer_tag": "c"}),
    ([], "access.request", {}),
    ([], "channel.close", {}),
]


@pytest.mark.parametrize(("before", "method", "fields"), AT_ONCE, ids=[method for _, method, _ in AT_ONCE])
@pytest.mark.parametrize("pieces", [1, 2], ids=["together", "apart"])
@pytest.mark.parametrize("request_name", ["queue.declare", "basic.get", "basic.consume"])
def test_methods_of_a_channel_are_answered_in_their_order(
    before: list[str], method: str, fields: dict[str, Any], pieces: int, request_name: str
) -> None:
    """4.7: the host decides late about a request; what is answered without it waits."""
    server, _ = server_channel()
    for name in before:
        server.receive(octets(name), 0.0)
    server.data_to_send()
    request = octets(request_name) if request_name == "queue.declare" else octets(request_name, queue="q")
    parts = [request, octets(method, **fields)]
    events: list[Any] = []
    for part in parts if pieces == 2 else [b"".join(parts)]:
        events += server.receive(part, 0.0)
    (asked,) = events
    assert server.data_to_send() == b""
    server.reply(asked)
    answer = "basic.get-empty" if request_name == "basic.get" else f"{request_name}-ok"
    assert names(server.data_to_send()) == [answer, f"{method}-ok"]
    assert server.undecided == 0


def test_methods_take_effect_behind_a_request() -> None:
    """The prefetch of a consumer is that of the last basic.qos before it, and a message before confirm.select has no confirm."""
    server, channel = server_channel()
    one = octets("basic.consume", queue="q", consumer_tag="one")
    two = octets("basic.consume", queue="q", consumer_tag="two")
    qos = octets("basic.qos", prefetch_count=5)
    (asked,) = server.receive(one + qos + publish() + octets("confirm.select") + publish() + two + publish(), 0.0)
    _, plain, confirmed, asked_two = server.reply(asked)
    assert not server.waits(plain)
    server.acknowledge(confirmed)
    (third,) = server.reply(asked_two)
    assert server.waits(third)
    assert (channel.consumers["one"].prefetch, channel.consumers["two"].prefetch) == (0, 5)
    assert names(server.data_to_send()) == [
        "basic.consume-ok",
        "basic.qos-ok",
        "confirm.select-ok",
        "basic.ack",
        "basic.consume-ok",
    ]


def test_a_request_holds_up_its_own_channel_only() -> None:
    server, _ = server_channel()
    server.receive(octets("channel.open", channel=2), 0.0)
    server.data_to_send()
    server.receive(octets("queue.declare") + octets("basic.qos") + octets("basic.qos", channel=2), 0.0)
    assert [frame.channel for frame in frames(server.data_to_send())] == [2]


@pytest.mark.parametrize("end", ["connection.close", "fault", "eof"])
def test_what_waits_behind_a_request_is_handed_over_when_the_client_ends_the_connection(end: str) -> None:
    """A message that was published before the end is the host's."""
    server, _ = server_channel()
    sent = octets("queue.declare") + publish() + octets("queue.declare") + publish()
    events = server.receive(sent, 0.0)
    assert len(events) == 1
    if end == "eof":
        events += server.receive_eof(0.0)
    else:
        events += server.receive(octets("connection.close") if end == "connection.close" else b"\x09" * 8, 0.0)
    kinds = [amqp091.QueueDeclare, amqp091.BasicMessage, amqp091.QueueDeclare, amqp091.BasicMessage, Disconnected]
    assert [type(event) for event in events] == kinds
    assert server.undecided == 0


def test_a_fault_behind_a_request_is_answered_behind_it() -> None:
    """A soft fault closes the channel, and what follows it is dropped; a hard one closes the connection."""
    server, _ = server_channel()
    (asked,) = server.receive(octets("queue.declare") + octets("basic.ack", delivery_tag=9) + publish(), 0.0)
    (closed,) = server.reply(asked)
    assert (type(closed), closed.code) == (amqp091.ChannelClosed, 406)
    assert names(server.data_to_send()) == ["queue.declare-ok", "channel.close"]
    server, _ = server_channel()
    (asked,) = server.receive(octets("queue.declare") + octets("channel.open") + publish(), 0.0)
    (ended,) = server.reply(asked)
    assert isinstance(ended, Disconnected)
    assert names(server.data_to_send()) == ["queue.declare-ok", "connection.close"]
    assert server.undecided == 0
