"""A RocketMQ connection under any bytes, with any decisions of the host: what the robustness test and the fuzz target share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from lib.driven import check_over
from wirefmt import rocketmq
from wirefmt.connection import Acknowledged, Disconnected, StartTls
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import RemotingCommand, State, TimedOut

OPTIONS = rocketmq.ConnectionOptions(
    frame_size=2000,
    pending=6,
    undecided=4,
    pending_bytes=20_000,
    unread_bytes=3000,
    remembered=3,
    timeout=1.0,
    tls="permissive",
    proxy=True,
)


def connection(role: str, random_: random.Random) -> Any:
    if role == "server":
        return rocketmq.ServerConnection(0.0, OPTIONS)
    client = rocketmq.ClientConnection(0.0, OPTIONS)
    for code in range(random_.randrange(5)):
        client.request(code)
    return client


def host(connection: Any, random_: random.Random, waiting: list[Any], handles: list[Any]) -> list[Any]:
    """One call of the host, legal or not. Only LocalProtocolError may come of it."""
    event = (
        waiting.pop(random_.randrange(len(waiting))) if waiting and random_.random() < 0.9 else RemotingCommand(code=1)
    )
    if event == "TLS":
        connection.secured()
        return []
    code = random_.choice((0, 1, 19, 1500))
    body = bytes(random_.randrange(3000)) if random_.random() < 0.2 else None

    def request() -> None:
        handle = connection.request(
            code, body=body, timeout=random_.choice((None, 0.5, 2.0)), oneway=random_.random() < 0.2
        )
        if handle is not None:
            handles.append(handle)

    calls: list[Callable[[], Any]] = [
        lambda: connection.respond(event, code, body=body),
        lambda: connection.respond(event, code, body=body),
        lambda: connection.refuse(event),
        lambda: connection.ignore(event),
        lambda: connection.forward(event, RemotingCommand(code=0, flag=1, opaque=random_.randrange(9))),
        request,
        request,
        lambda: connection.send(event, timeout=9.0) and None,
        lambda: connection.cancel(random_.choice(handles)) if handles else None,
        lambda: connection.pause(),
        lambda: connection.resume(1.0),
        lambda: connection.handle_timeout(random_.random() * 3),
        lambda: connection.data_to_send() and None,
        lambda: connection.close(random_.choice((0.0, 1.0))) if random_.random() < 0.05 else None,
    ]
    try:
        return random_.choice(calls)() or []
    except LocalProtocolError:
        return []


def drive(connection_: Any, data: bytearray, random_: random.Random) -> None:
    """Give it the bytes in pieces, and decide at random, until it is over. It raises nothing but LocalProtocolError, stays in
    its limits, gives each request one outcome at most, and ends with one `Disconnected`."""
    events: list[Any] = []
    waiting: list[Any] = []
    handles: list[Any] = []
    said = b""
    calls = 0
    while connection_.state is not State.CLOSED:
        if data and (connection_.wants_read or random_.random() < 0.1):
            size = random_.choice((1, 3, 20, 100, len(data)))
            new = connection_.receive(bytes(data[:size]), calls / 100)
            del data[:size]
        elif not data and random_.random() < 0.1:
            new = connection_.receive_eof(calls / 100)
        else:
            new = host(connection_, random_, waiting, handles)
        events += new
        waiting += [e for e in new if isinstance(e, RemotingCommand)]
        if StartTls() in new:
            waiting.append("TLS")
        assert connection_.undecided <= OPTIONS.undecided
        assert connection_.pending <= OPTIONS.pending
        assert connection_.pending_bytes <= OPTIONS.pending_bytes + (1 << 20) + 4000
        assert len(connection_._gone) <= OPTIONS.remembered
        calls += 1
        if not data and random_.random() < 0.2 and connection_.state is not State.CLOSED:
            events += connection_.resume(calls / 100)
        if calls > 3000 and connection_.state is not State.CLOSED:
            events += connection_.close()
    said += connection_.data_to_send()
    assert [type(e) for e in events].count(Disconnected) == 1
    assert isinstance(events[-1], Disconnected)
    finished = [e.handle for e in events if isinstance(e, Acknowledged | TimedOut)] + list(events[-1].lost)
    assert len(set(map(id, finished))) == len(finished), "two outcomes of a request"
    check_over(connection_)
    assert connection_.next_timeout() is None
    commands = rocketmq.Decoder().feed(said)  # whole and valid
    assert b"".join(command.encode() for command in commands) == said
