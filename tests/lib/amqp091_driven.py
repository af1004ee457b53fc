"""AMQP 0.9.1 connections in any state, one method of each kind, and hosts that decide at random, for tests and fuzz targets."""

from __future__ import annotations

import random
from typing import Any

from wirefmt import amqp091
from wirefmt.amqp091.channel import class_of
from wirefmt.amqp091.states import BY_BOTH, BY_CLIENT, BY_SERVER, LIFE, ChannelState, State
from wirefmt.connection import Disconnected
from wirefmt.connection.states import Role
from wirefmt.errors import LocalProtocolError

HEADER = b"AMQP\x00\x00\x09\x01"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "connection.start": {"server_properties": {}},
    "connection.start-ok": {
        "client_properties": {"capabilities": {"authentication_failure_close": True}},
        "response": b"\0a\0b",
    },
    "connection.secure": {"challenge": b"?"},
    "connection.secure-ok": {"response": b"!"},
    "connection.tune": {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60},
    "connection.tune-ok": {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60},
    "connection.close": {"reply_code": 200, "class_id": 0, "method_id": 0},
    "connection.update-secret": {"new_secret": b"s", "reason": "r"},
    "channel.flow": {"active": True},
    "channel.flow-ok": {"active": True},
    "channel.close": {"reply_code": 200, "class_id": 0, "method_id": 0},
    "exchange.declare": {"exchange": "e"},
    "exchange.delete": {"exchange": "e"},
    "exchange.bind": {"destination": "e", "source": "f"},
    "exchange.unbind": {"destination": "e", "source": "f"},
    "queue.declare": {"queue": "q"},
    "queue.declare-ok": {"queue": "q", "message_count": 0, "consumer_count": 0},
    "queue.bind": {"queue": "q", "exchange": "e"},
    "queue.purge": {"queue": "q"},
    "queue.purge-ok": {"message_count": 0},
    "queue.delete": {"queue": "q"},
    "queue.delete-ok": {"message_count": 0},
    "queue.unbind": {"queue": "q", "exchange": "e"},
    "basic.consume": {"queue": "q", "consumer_tag": "c"},
    "basic.consume-ok": {"consumer_tag": "c"},
    "basic.cancel": {"consumer_tag": "gone"},
    "basic.cancel-ok": {"consumer_tag": "gone"},
    "basic.return": {"reply_code": 312, "exchange": "e", "routing_key": "k"},
    "basic.deliver": {"consumer_tag": "c", "delivery_tag": 1, "exchange": "e", "routing_key": "k"},
    "basic.get": {"queue": "q"},
    "basic.get-ok": {"delivery_tag": 1, "exchange": "e", "routing_key": "k", "message_count": 0},
    "basic.ack": {"multiple": True},
    "basic.nack": {"multiple": True},
    "basic.reject": {"delivery_tag": 1},
    "basic.recover": {"requeue": True},
    "basic.recover-async": {"requeue": True},
}


def method(name: str, channel: int | None = None, **fields: Any) -> Any:
    """A method, or a BasicMessage for a method with content. It is valid by itself."""
    cls = class_of(name)
    number = (0 if name.startswith("connection.") else 1) if channel is None else channel
    made: Any = cls(channel=number, **{**ARGUMENTS.get(name, {}), **fields})  # type: ignore[call-arg]
    return amqp091.BasicMessage(made, None, b"body") if made.has_content else made


def octets(name: str, channel: int | None = None, **fields: Any) -> bytes:
    made = method(name, channel, **fields)
    encoded: bytes = made.encode()
    return encoded


def moved(frames: bytes, channel: int) -> bytes:
    """One frame on another channel, which its constructor may not allow."""
    return frames[:1] + channel.to_bytes(2) + frames[3:]


METHODS = (*LIFE, *BY_CLIENT, *BY_SERVER, *BY_BOTH)


def client_in(state: State, options: amqp091.ConnectionOptions | None = None) -> amqp091.ClientConnection:
    client = amqp091.ClientConnection(0.0, options=options)
    if state is State.IDLE:
        return client
    client.open()
    said = {
        State.STARTING: b"",
        State.SECURING: octets("connection.start"),
        State.OPENING: octets("connection.start") + octets("connection.tune"),
    }
    client.receive(
        said.get(state, said[State.OPENING] + octets("connection.open-ok")),
        0.0,
    )
    if state is State.CLOSING:
        client.close()
    elif state is State.CLOSED:
        client.close(immediate=True)
    client.data_to_send()
    assert client.state is state
    return client


def server_in(
    state: State, options: amqp091.ConnectionOptions | None = None, capable: bool = True
) -> amqp091.ServerConnection:
    server = amqp091.ServerConnection(0.0, options)
    if state is State.IDLE:
        return server
    server.receive(HEADER, 0.0)
    if state is not State.STARTING:
        announced = {
            "capabilities": dict.fromkeys(
                ("authentication_failure_close", "connection.blocked", "consumer_cancel_notify"), True
            )
        }
        (start_ok,) = server.receive(octets("connection.start-ok", client_properties=announced if capable else {}), 0.0)
        if state is State.SECURING:
            server.challenge(start_ok, b"?")
        elif state is not State.DECIDING:
            server.accept(start_ok)
            if state is not State.TUNING:
                asked = options or server.options
                server.receive(
                    octets(
                        "connection.tune-ok",
                        frame_max=asked.frame_max,
                        channel_max=asked.channel_max,
                        heartbeat=asked.heartbeat,
                    ),
                    0.0,
                )
            if state not in (State.TUNING, State.OPENING):
                (opening,) = server.receive(octets("connection.open"), 0.0)
                server.accept(opening)
    if state is State.CLOSING:
        server.close()
    elif state is State.CLOSED:
        server.close(immediate=True)
    server.data_to_send()
    assert server.state is state
    return server


def connection_in(role: Role, state: State) -> Any:
    return client_in(state) if role is Role.CLIENT else server_in(state)


def channel_in(role: Role, state: ChannelState) -> tuple[Any, Any]:
    """A connection, and its channel 1 in this state; None: the number has no channel."""
    if role is Role.CLIENT:
        client = client_in(State.OPEN)
        if state is ChannelState.UNUSED:
            return client, None
        channel = client.open_channel(1)
        if state is not ChannelState.OPENING:
            client.receive(octets("channel.open-ok"), 0.0)
        if state in (ChannelState.CLOSING, ChannelState.CLOSED):
            channel.close()
        if state is ChannelState.CLOSED:
            client.receive(octets("channel.close-ok"), 0.0)
        client.data_to_send()
        assert channel.state is state
        return client, channel
    server = server_in(State.OPEN)
    if state is ChannelState.UNUSED:
        return server, None
    server.receive(octets("channel.open"), 0.0)
    opened = server.channels[1]
    if state is ChannelState.CLOSING:
        opened.close(404, "gone")
    server.data_to_send()
    assert opened.state is state
    return server, opened


def proceeded(server: amqp091.ServerConnection, events: list[Any]) -> list[Any]:
    """Events of a server whose host handles each of them at once: with what they have held up, in its place."""
    at = 0
    while at < len(events):
        if isinstance(events[at], amqp091.ChannelWaits):
            events[at : at + 1] = server.proceed(events[at])
        else:
            at += 1
    return events


class Pair:
    """A client and a server, connected by hand, whose host accepts the handshake."""

    def __init__(
        self,
        client_options: amqp091.ConnectionOptions | None = None,
        server_options: amqp091.ConnectionOptions | None = None,
        session: amqp091.Session | None = None,
    ) -> None:
        self.now = 0.0
        self.client = amqp091.ClientConnection(0.0, session, client_options)
        self.server = amqp091.ServerConnection(0.0, server_options)
        self.client.open()
        self.run()
        assert self.client.negotiated is not None
        assert self.server.negotiated is not None

    def to_server(self) -> list[Any]:
        data = self.client.data_to_send()
        events = self.server.receive(data, self.now) if data else []
        for event in list(events):
            if isinstance(event, amqp091.ConnectionStartOk | amqp091.ConnectionOpen):
                events += self.server.accept(event)
        return proceeded(self.server, events)

    def to_client(self) -> list[Any]:
        data = self.server.data_to_send()
        return self.client.receive(data, self.now) if data else []

    def run(self) -> tuple[list[Any], list[Any]]:
        """Exchange everything. Events of the client, events of the server."""
        ours: list[Any] = []
        theirs: list[Any] = []
        while self.client.pending_bytes or self.server.pending_bytes:
            theirs += self.to_server()
            ours += self.to_client()
        return ours, theirs

    def channel(self, number: int | None = None) -> tuple[amqp091.ClientChannel, amqp091.ServerChannel]:
        """An open channel: both views."""
        ours = self.client.open_channel(number)
        self.run()
        return ours, self.server.channels[ours.number]

    def call(self, handle: Any, **fields: Any) -> Any:
        """Have the server answer the request that waits; the client's answer event's message."""
        _, events = self.run()
        if events:
            self.server.reply(events[-1], **fields)
        ours, _ = self.run()
        (answer,) = [event for event in ours if getattr(event, "handle", None) is handle]
        return answer.message


# ---- any bytes, any decisions

OPTIONS = amqp091.ConnectionOptions(
    channel_max=3,
    frame_max=4096,
    heartbeat=10,
    message_size=2000,
    body_size=5000,
    unfinished_bytes=20_000,
    undecided=4,
    unacknowledged=4,
    unconfirmed=4,
    consumers=3,
    pending_bytes=100_000,
    unread_bytes=20_000,
)


def some_frames(role: str, random_: random.Random) -> bytes:
    """A frame that the peer of this role may send, on a channel at random, now and then broken."""
    by = (
        (*BY_CLIENT, *BY_BOTH, "channel.open", "channel.close", "channel.close-ok")
        if role == "server"
        else (*BY_SERVER, *BY_BOTH, "channel.open-ok", "channel.close", "channel.close-ok")
    )
    name = random_.choice(by)
    if random_.random() < 0.3:
        name = "basic.publish" if role == "server" else "basic.deliver"
    fields: dict[str, Any] = {}
    if name in ("basic.ack", "basic.nack", "basic.reject", "basic.deliver"):
        fields["delivery_tag"] = random_.randrange(6)
    if name in ("basic.ack", "basic.nack"):
        fields["multiple"] = random_.random() < 0.5
    if name in ("basic.consume", "queue.declare") and random_.random() < 0.3:
        fields["nowait"] = True
    made = octets(name, random_.randrange(1, 5), **fields)
    if random_.random() < 0.01:
        at = random_.randrange(len(made))
        made = made[:at] + bytes((random_.randrange(256),)) + made[at + 1 :]
    return made


def connection(role: str, random_: random.Random) -> tuple[Any, list[bytes]]:
    """A connection and what its peer says first."""
    if role == "client":
        client = amqp091.ClientConnection(0.0, options=OPTIONS)
        client.open()
        opening = [octets("connection.start"), octets("connection.tune", frame_max=4096), octets("connection.open-ok")]
        return client, opening if random_.random() < 0.9 else []
    opening = [
        HEADER,
        octets("connection.start-ok"),
        octets("connection.tune-ok", channel_max=3, frame_max=4096, heartbeat=10),
        octets("connection.open"),
    ]
    return amqp091.ServerConnection(0.0, OPTIONS), opening if random_.random() < 0.9 else []


def host(role: str, connection: Any, random_: random.Random, waiting: list[Any]) -> list[Any]:
    """One call of the host, legal or not. Only LocalProtocolError may come of it."""
    event = waiting.pop(random_.randrange(len(waiting))) if waiting and random_.random() < 0.8 else None
    code = random_.choice((200, 404, 406, 530))
    channels = list(connection.channels.values())
    channel = random_.choice(channels) if channels else None
    tag = random_.randrange(6)
    calls: list[Any] = [
        lambda: connection.pause(),
        lambda: connection.resume(1.0),
        lambda: connection.handle_timeout(random_.random() * 3),
        lambda: connection.close(code) if random_.random() < 0.05 else None,
        lambda: connection.data_to_send() and None,
    ]
    if role == "client":
        calls += [
            lambda: connection.open_channel() and None,
            lambda: connection.open_channel(random_.randrange(4)) and None,
        ]
        if channel is not None:
            name = random_.choice((*BY_CLIENT, "channel.close", *BY_BOTH))
            calls += [
                lambda: connection.send(method(name, channel.number)) and None,
                lambda: channel.publish("", "q", bytes(random_.randrange(3000)), mandatory=True) and None,
                lambda: channel.confirm_select() and None,
                lambda: channel.consume("q", random_.choice("cd"), no_ack=random_.random() < 0.3) and None,
                lambda: channel.ack(tag, random_.random() < 0.3),
                lambda: channel.nack(tag, random_.random() < 0.3),
                lambda: channel.reject(tag),
                lambda: channel.close(),
            ]
    else:
        if isinstance(event, amqp091.ChannelWaits):
            calls = [lambda: connection.proceed(event), lambda: connection.reply(event)]
        elif event is not None:
            calls = [
                lambda: connection.accept(event),
                lambda: connection.accept(event),
                lambda: connection.challenge(event, b"?"),
                lambda: connection.refuse(event, code) if random_.random() < 0.1 else None,
                lambda: connection.reply(event),
                lambda: connection.reply(event),
                lambda: connection.acknowledge(event),
                lambda: connection.acknowledge(event),
                lambda: connection.reject(event),
                lambda: connection.return_message(event),
            ]
        elif channel is not None:
            calls += [
                lambda: channel.deliver("c", "", "q", bytes(random_.randrange(3000))) and None,
                lambda: channel.deliver_all("c", "", "q", [bytes(random_.randrange(900))] * 3, [None] * 3) and None,
                lambda: channel.cancel("c"),
                lambda: channel.close(404, "gone"),
                lambda: connection.block("low") and None,
                lambda: connection.unblock(),
            ]
    try:
        return random_.choice(calls)() or []
    except LocalProtocolError:
        return []


def drive(role: str, connection_: Any, data: bytearray, random_: random.Random) -> None:
    """Give it the bytes in pieces, and decide at random, until it is over. It raises nothing but LocalProtocolError, stays in its
    limits, and ends with one `Disconnected`."""
    events: list[Any] = []
    waiting: list[Any] = []

    def take(new: list[Any]) -> None:
        events.extend(new)
        waiting.extend(e for e in new if isinstance(e, amqp091.Method | amqp091.BasicMessage | amqp091.ChannelWaits))
        if role == "server" and random_.random() < 0.9:
            for event in new:
                if isinstance(event, amqp091.ConnectionStartOk | amqp091.ConnectionSecureOk | amqp091.ConnectionOpen):
                    try:
                        take(connection_.accept(event))
                    except LocalProtocolError:
                        pass

    def over() -> bool:
        return bool(events) and isinstance(events[-1], Disconnected)

    while data and not over():
        size = random_.choice((1, 3, 20, 200, len(data)))
        piece = bytes(data[:size])
        del data[:size]
        take(connection_.receive(piece, 0.0))
        limits = OPTIONS
        assert len(connection_.channels) <= limits.channel_max
        for channel in connection_.channels.values():
            assert len(channel.consumers) <= limits.consumers
            assert channel.unacknowledged <= max(limits.unacknowledged, limits.undecided)
        assert connection_.undecided <= limits.undecided + 2
        while random_.random() < 0.5 and not over():
            take(host(role, connection_, random_, waiting))
        del waiting[:-20]
    if not over():
        take(connection_.receive_eof(1.0))
    if not over():
        take(connection_.close(immediate=True))
    assert over()
    assert sum(isinstance(event, Disconnected) for event in events) == 1
    connection_.data_to_send()
    assert connection_.should_close
