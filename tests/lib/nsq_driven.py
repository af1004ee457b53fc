"""An NSQ connection under any bytes, with any decisions of the host: what the robustness test and the fuzz target share."""

from __future__ import annotations

import random
from typing import Any

from wirefmt import nsq
from wirefmt.connection import Disconnected, StartTls
from wirefmt.connection.carriers import Deflate
from wirefmt.errors import LocalProtocolError
from wirefmt.nsq.spec import ServerOptions
from wirefmt.nsq.states import State

PENDING, UNREAD = 100_000, 5000
SERVER = ServerOptions(max_msg_size=2000, max_body_size=4000, max_rdy_count=5)
ID = b"0123456789abcdef"

COMMANDS: list[bytes] = [
    nsq.Nop().encode(),
    nsq.Publish(topic="t", body=b"x").encode(),
    nsq.MultiPublish(topic="t", bodies=[b"x", b"y"]).encode(),
    nsq.DeferredPublish(topic="t", defer_time=5, body=b"x").encode(),
    nsq.Sub(topic="t", channel="c").encode(),
    nsq.Ready(count=3).encode(),
    nsq.Finish(message_id=ID).encode(),
    nsq.Requeue(message_id=b"%016d" % 2, timeout=5).encode(),
    nsq.Touch(message_id=b"%016d" % 1).encode(),
    nsq.Close().encode(),
    nsq.Auth(secret=b"s").encode(),
    nsq.Identify(feature_negotiation=True).encode(),
    nsq.Identify(feature_negotiation=True, deflate=True, tls_v1=True).encode(),
    b"PUB bad$topic\n\0\0\0\1x",
    b"RDY 9\n",
]
FRAMES: list[bytes] = [
    nsq.Response(b"OK").encode(),
    nsq.Response(b"_heartbeat_").encode(),
    nsq.Response(b"CLOSE_WAIT").encode(),
    nsq.Response(members={"version": "1"}).encode(),
    nsq.Response(members={"tls_v1": True, "deflate": True}).encode(),
    nsq.Response(members={"deflate": True, "msg_timeout": -1}).encode(),
    nsq.Error(b"E_FIN_FAILED FIN 0123456789abcdef failed").encode(),
    nsq.Error(b"E_INVALID").encode(),
    *(nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"%016d" % n, body=b"x").encode() for n in range(4)),
]


def connection(role: str, random_: random.Random) -> tuple[Any, bytes]:
    """A connection, and what its peer says first."""
    options = nsq.ConnectionOptions(
        frame_size=3000,
        unanswered=5,
        undecided=4,
        undecided_bytes=3000,
        unread_bytes=UNREAD,
        pending_bytes=PENDING,
        server=SERVER,
        tls=random_.choice(("no", "offered", "offered", "required")),
        auth_required=random_.random() < 0.2,
    )
    if role == "server":
        return nsq.ServerConnection(0.0, options), b"  V2" if random_.random() < 0.9 else b""
    session = nsq.Session(journaled=True) if random_.random() < 0.5 else None
    client = nsq.ClientConnection(0.0, session, options)
    if random_.random() < 0.8:
        client.send(
            nsq.Identify(feature_negotiation=True, deflate=random_.random() < 0.3, tls_v1=random_.random() < 0.3)
        )
        return client, FRAMES[0] if random_.random() < 0.7 else b""
    return client, b""


def host(connection: Any, random_: random.Random, waiting: list[Any]) -> list[Any]:
    """One call of the host, legal or not. Only LocalProtocolError may come of it."""
    event: Any = waiting.pop(random_.randrange(len(waiting))) if waiting and random_.random() < 0.9 else nsq.Nop()
    calls: list[Any] = [connection.pause, lambda: connection.resume(1.0)]
    if isinstance(connection, nsq.ServerConnection):
        body = bytes(random_.randrange(1, 3000))
        calls += [
            lambda: connection.accept(event),
            lambda: connection.accept(event),
            lambda: connection.acknowledge(event),
            lambda: connection.acknowledge(event),
            lambda: connection.secured(1.0),
            lambda: connection.deliver(b"%016d" % random_.randrange(9), body) and None,
            lambda: connection.send(nsq.MessageFrame(timestamp=1, attempts=1, message_id=ID, body=b"x")) and None,
        ]
        if random_.random() < 0.05:
            calls = [lambda: connection.refuse(event, "E_SUB_FAILED"), lambda: connection.tls_failed()]
    else:
        calls += [
            lambda: connection.finish(event),
            lambda: connection.requeue(event, 5),
            lambda: connection.touch(event),
            lambda: connection.secured(1.0),
            lambda: connection.send(nsq.decode(random_.choice(COMMANDS[:12]), side="client")) and None,
            lambda: connection.publish("t", b"x" * random_.randrange(1, 3000)) and None,
        ]
    try:
        return random_.choice(calls)() or []
    except LocalProtocolError:
        return []


def drive(connection: Any, data: bytes, random_: random.Random) -> None:
    """Feed the bytes in pieces, let the host do anything, and check what must always hold."""
    now, waiting, gone = 0.0, [], 0
    carrier = Deflate()
    seen: list[Any] = []  # kept alive, so that no other message has the same identity

    def look(events: list[Any]) -> None:
        nonlocal gone
        assert not gone or not events, "an event after Disconnected"
        kinds = [isinstance(event, Disconnected) for event in events]
        assert not any(kinds[:-1]), "an event after Disconnected"
        gone += sum(kinds)
        for event in events:
            if isinstance(event, StartTls) and random_.random() < 0.8:
                look(connection.secured(now))
            elif isinstance(event, nsq.Command | nsq.MessageFrame):
                assert not any(event is other for other in seen), "a message is an event twice"
                seen.append(event)
                waiting.append(event)

    while data and connection.state is not State.CLOSED:
        size = random_.choice((1, 5, 40, 400, len(data)))
        piece, data = data[:size], data[size:]
        if getattr(connection, "_carrier", None) is not None and random_.random() < 0.9:
            piece = carrier.send(piece)
        look(connection.receive(piece, now))
        for _ in range(random_.choice((0, 0, 1, 3))):
            if connection.state is not State.CLOSED:
                look(host(connection, random_, waiting))
        if random_.random() < 0.3:
            connection.data_to_send()
        now += random_.choice((0.0, 0.0, 0.1, 3.0, 20.0))
        when = connection.next_timeout() if connection.state is not State.CLOSED else None
        if when is not None and when <= now:
            look(connection.handle_timeout(now))
        assert connection.pending_bytes < PENDING + (1 << 20) + 10_000
        assert connection.undecided <= 10
    if connection.state is not State.CLOSED:
        look(connection.receive_eof(now))
    for _ in range(100):
        if connection.state is State.CLOSED:
            break
        try:
            look(connection.resume(now))
        except LocalProtocolError:
            pass
        look(
            connection.close(immediate=True) if random_.random() < 0.2 and connection.state is not State.CLOSED else []
        )
    if connection.state is not State.CLOSED:
        look(connection.close())
    assert gone == 1, "exactly one Disconnected"
    connection.data_to_send()
    assert connection.should_close
    for call in (lambda: connection.receive(b"x", now), lambda: connection.handle_timeout(now), connection.close):
        try:
            call()
        except LocalProtocolError:
            continue
        raise AssertionError("a call after the end is refused")
