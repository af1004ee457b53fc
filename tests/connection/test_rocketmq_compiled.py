"""What is compiled of a RocketMQ connection does what its readable part does."""

from __future__ import annotations

import random
from typing import Any, Literal

import pytest

from wirefmt import rocketmq
from wirefmt.connection import Acknowledged
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import RemotingCommand

HEADER = rocketmq.QueryConsumerOffsetRequestHeader(consumer_group="group", topic="topic", queue_id=2)
OPTIONS = rocketmq.ConnectionOptions(pending=5, undecided=4, remembered=3, timeout=2.0, serialize_type="ROCKETMQ")


class ReadableClient(rocketmq.ClientConnection):
    def _flow(self, messages: Any, at: int, events: list[Any]) -> int:
        """None is plain: each goes to `_handle`."""
        return at

    def request(
        self,
        code: int,
        header: Any = None,
        body: Any = None,
        *,
        ext_fields: Any = None,
        oneway: bool = False,
        timeout: float | None = None,
        now: float | None = None,
    ) -> Any:
        return self._request(code, header, body, ext_fields, oneway, timeout, now)

    def respond(
        self,
        event: Any,
        code: int = 0,
        header: Any = None,
        body: Any = None,
        *,
        ext_fields: Any = None,
        remark: str | None = None,
    ) -> list[Any]:
        return self._respond(event, code, header, body, ext_fields, remark)


class ReadableServer(ReadableClient, rocketmq.ServerConnection):
    role = rocketmq.ServerConnection.role


def pieces(random_: random.Random) -> bytes:
    """What a peer may say: requests, one-way requests, responses known and unknown, and seldom GO_AWAY."""
    flag = random_.choice((0, 0, 1, 1, 1, 2, 3))
    code = 1500 if random_.random() < 0.01 else random_.choice((0, 1, 34, 310))
    form: Literal["JSON", "ROCKETMQ"] = random_.choice(("JSON", "ROCKETMQ"))
    return RemotingCommand(code=code, flag=flag, opaque=random_.randrange(12), body=b"x", serialize_type=form).encode()


def run(kind: type[Any], seed: int) -> list[Any]:
    """A connection with random commands of its peer and random calls of its host: all that can be seen of it."""
    random_ = random.Random(seed)
    connection = kind(0.0, OPTIONS)
    log: list[Any] = []
    now = 0.0
    seen: list[Any] = []
    handles: list[Any] = []
    for _ in range(60):
        try:
            match random_.randrange(6):
                case 0 | 1:
                    handle = connection.request(
                        random_.choice((14, 310, 200050, "x")),
                        random_.choice((None, HEADER)),
                        random_.choice((None, b"body", bytes(3000), 5)),
                        ext_fields=random_.choice((None, None, {"k": "v"})),
                        oneway=random_.random() < 0.2,
                        timeout=random_.choice((None, None, 0.5, 0, 3)),
                        now=random_.choice((None, now)),
                    )
                    handles.append(handle)
                    log.append((repr(handle), handle and handle.deadline))
                case 2 if seen:
                    event = random_.choice(seen)
                    header, remark = random_.choice((None, HEADER)), random_.choice((None, "why"))
                    log += map(repr, connection.respond(event, random_.choice((0, 17)), header, b"y", remark=remark))
                case 3 if handles and handles[-1] is not None:
                    connection.cancel(handles[-1])
                case 4:
                    now += random_.choice((0.0, 0.3, 3.0))
                    log += map(repr, connection.handle_timeout(now))
                case _:
                    data = b"".join(pieces(random_) for _ in range(random_.randrange(4)))
                    if random_.random() < 0.02:
                        data += b"\xff\xff\xff\xff"
                    events = connection.receive(data, now)
                    log += map(repr, events)
                    seen += [event for event in events if type(event) is RemotingCommand]
        except LocalProtocolError as error:
            log.append(str(error))
        log.append(connection.data_to_send())
        log.append(
            (connection.undecided, connection.pending, connection.late, connection.strays, connection.wants_read)
        )
        log.append((connection.state, connection.next_timeout()))
    return log


KINDS = [(rocketmq.ClientConnection, ReadableClient), (rocketmq.ServerConnection, ReadableServer)]


@pytest.mark.parametrize("kinds", KINDS, ids=["client", "server"])
@pytest.mark.parametrize("seed", range(100))
def test_both_paths_of_a_connection_agree(kinds: tuple[type[Any], type[Any]], seed: int) -> None:
    compiled, readable = (run(kind, seed) for kind in kinds)
    for left, right in zip(compiled, readable, strict=True):
        assert str(left).replace("Readable", "") == str(right).replace("Readable", "")


def test_the_paths_are_taken() -> None:
    """The test above compares something."""
    lines = [str(line) for kind, _ in KINDS for seed in range(100) for line in run(kind, seed)]
    for begin in ("rocketmq.RemotingCommand", "Acknowledged", "TimedOut", "('<Request", "this request does not wait"):
        assert sum(line.startswith(begin) for line in lines) > 50, begin


def test_what_comes_before_a_fault_is_taken() -> None:
    client = rocketmq.ClientConnection(0.0)
    client.receive(RemotingCommand(code=34).encode(), 0.0)
    request = client.request(34)
    assert request is not None
    response = RemotingCommand(code=0, flag=1, opaque=request.opaque).encode()
    first, last = client.receive(response + b"\xff\xff\xff\xff", 0.0)
    assert isinstance(first, Acknowledged)
    assert first.handle is request
    assert last.error is not None
