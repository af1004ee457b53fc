"""What is compiled of an NSQ connection does what its readable part does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lib.kinds import all_of, exactly, only
from lib.nsq_driven import FRAMES
from wirefmt import nsq
from wirefmt.connection import Acknowledged, Disconnected
from wirefmt.errors import LocalProtocolError

ID = b"0123456789abcdef"
OK = nsq.Response(b"OK").encode()


class Recorded:
    """Notes what its connection returns and sends."""

    log: list[Any]

    def _note(self, events: list[Any]) -> list[Any]:
        self.log += [repr(event) for event in events]
        return events

    def receive(self, data: Any, now: float) -> list[Any]:
        return self._note(super().receive(data, now))  # type: ignore[misc]

    def handle_timeout(self, now: float) -> list[Any]:
        self.log.append(self.next_timeout())  # type: ignore[attr-defined]
        return self._note(super().handle_timeout(now))  # type: ignore[misc]

    def resume(self, now: float) -> list[Any]:
        return self._note(super().resume(now))  # type: ignore[misc]

    def data_to_send(self) -> bytes:
        data: bytes = super().data_to_send()  # type: ignore[misc]
        self.log.append(data)
        return data


class Client(Recorded, nsq.ClientConnection): ...


class Server(Recorded, nsq.ServerConnection): ...


class ReadableClient(Client):
    def _enter(self, state: nsq.State) -> None:
        super()._enter(state)
        self._flowing = False  # each message goes to its handler

    def _publish(self, command: nsq.Command) -> None:
        """Each command goes through the table."""

    def finish(self, message: nsq.MessageFrame) -> None:
        if not self.holds(message):
            self._refuse_answer()
        self._settle(message, b"FIN %b\n" % message.message_id)


class ReadableServer(Server):
    _frequent = object  # type: ignore[assignment]

    def deliver(
        self, message_id: bytes, body: Any, timestamp: int = 0, attempts: int = 1, host: Any = None
    ) -> nsq.Delivery:
        return self._deliver(message_id, body, timestamp, attempts, host)


def conversation(connection: Any, pieces: list[bytes], opening: bytes, random_: random.Random) -> list[Any]:
    """A subscribed connection with random pieces of its peer and random calls of its host: all that can be seen of it."""
    log = connection.log
    subscribed = connection.receive(opening, 0.0)
    if isinstance(connection, nsq.ServerConnection):
        connection.accept(subscribed[0])
    now = 0.0
    seen: list[Any] = []
    for _ in range(60):
        count = random_.randrange(5)
        try:
            match random_.randrange(5):
                case 0 | 1 if isinstance(connection, nsq.ServerConnection):
                    for _ in range(count):
                        handle = connection.deliver(
                            b"%016d" % random_.randrange(9), bytes(random_.choice((3, 3000))), int(now)
                        )
                        log.append((repr(handle), handle.attempts))
                case 0 | 1:
                    for message in random_.sample(seen, min(count, len(seen))):
                        random_.choice((connection.finish, connection.finish, connection.requeue, connection.touch))(
                            message
                        )
                case 2:
                    now += random_.choice((0.0, 1.0, 20.0, 40.0))
                    connection.handle_timeout(now)
                case _:
                    data = b"".join(random_.choices(pieces, k=count))
                    cut = random_.randrange(len(data) + 1)
                    seen += [e for e in connection.receive(data[:cut], now) if isinstance(e, nsq.MessageFrame)]
                    seen += [e for e in connection.receive(data[cut:], now) if isinstance(e, nsq.MessageFrame)]
        except LocalProtocolError as error:
            log.append(str(error))
        connection.data_to_send()
        log.append((connection.undecided, connection.pending_bytes, connection.next_timeout()))
    return log


def run(kind: type[Any], seed: int) -> list[Any]:
    random_ = random.Random(seed)
    connection = kind(0.0)
    connection.log = []
    if issubclass(kind, nsq.ClientConnection):
        connection.subscribe("t", "c")
        pieces = [*(message(n) for n in range(5)), *FRAMES[6:7], FRAMES[1]]
        connection.receive(OK, 0.0)
        connection.ready(3)
        return conversation(connection, pieces, b"", random_)
    ids = [b"%016d" % n for n in range(5)]
    pieces = [nsq.Finish(message_id=i).encode() for i in ids] * 3
    pieces += [nsq.Requeue(message_id=ids[0], timeout=5).encode(), nsq.Touch(message_id=ids[1]).encode()]
    pieces += [b"RDY 2\n", b"RDY 4\n", b"NOP\n", b"FIN 0000000000000001 more\r\n"]
    return conversation(connection, pieces, b"  V2SUB t c\nRDY 4\n", random_)


@pytest.mark.parametrize("kinds", [(Client, ReadableClient), (Server, ReadableServer)], ids=["client", "server"])
@pytest.mark.parametrize("seed", range(100))
def test_both_paths_of_a_connection_agree(kinds: tuple[type[Any], type[Any]], seed: int) -> None:
    compiled, readable = (run(kind, seed) for kind in kinds)
    assert compiled == readable


def test_the_paths_are_taken() -> None:
    """The test above compares something: both kinds of conversation have what is compiled, often."""
    events = [line for kind in (Client, Server) for seed in range(100) for line in run(kind, seed) if type(line) is str]
    for begin in ("nsq.MessageFrame", "Acknowledged", "WindowOpened", "TimedOut", "this message does not wait"):
        assert sum(line.startswith(begin) for line in events) > 20, begin


def publish(kind: type[Any], seed: int) -> list[Any]:
    """A client with random calls that publish and random answers, within small limits: all that can be seen of it."""
    random_ = random.Random(seed)
    connection = kind(0.0, options=nsq.ConnectionOptions(unanswered=5, pending_bytes=6000))
    log = connection.log = []
    connection.send(nsq.Identify(feature_negotiation=True))
    members = {"auth_required": True} if random_.random() < 0.2 else {}
    connection.receive(nsq.Response(members={"version": "1", **members}).encode(), 0.0)
    if random_.random() < 0.3:
        connection.subscribe("t", "c")
        connection.receive(OK, 0.0)
    awaited = 0
    for _ in range(60):
        try:
            match random_.randrange(8):
                case 0 | 1 | 2:
                    body = bytes(random_.choice((1, 3, 2040, 3000)))
                    handle = connection.publish("t", body, defer=random_.choice((None, None, 7)))
                    log.append((repr(handle), handle.number, handle.command))
                    awaited += 1
                case 3:
                    handle = connection.publish_many("t", [b"one", bytearray(random_.choice((1, 3000)))])
                    log.append((repr(handle), handle.number, handle.command))
                    awaited += 1
                case 4 | 5:
                    count = random_.randrange(awaited + 1)
                    awaited -= count
                    pieces = [OK] * count + [FRAMES[1]] * random_.randrange(2)
                    random_.shuffle(pieces)
                    connection.receive(b"".join(pieces), 0.0)
                case 6:
                    connection.data_to_send()
                case _ if random_.random() < 0.1:
                    connection.receive(random_.choice((OK + OK, FRAMES[7], message(1))), 0.0)
                case _ if random_.random() < 0.1:
                    connection.send(nsq.Close())
                    awaited += 1
        except LocalProtocolError as error:
            log.append(str(error))
        log.append((connection.send_quota, connection.pending_bytes, connection.state))
    connection.data_to_send()
    return log


@pytest.mark.parametrize("seed", range(100))
def test_both_paths_of_publishing_agree(seed: int) -> None:
    assert publish(Client, seed) == publish(ReadableClient, seed)


def test_the_paths_of_publishing_are_taken() -> None:
    """The test above compares something: answers, refusals, errors and full windows are in it often."""
    lines = [repr(line) for seed in range(100) for line in publish(Client, seed)]
    for part in (
        "Acknowledged(",
        "WindowOpened(",
        "Disconnected(",
        "await their answer",
        "are queued and not taken",
        "AUTH",
    ):
        assert sum(part in line for line in lines) > 20, part


def subscribed_client(options: nsq.ConnectionOptions | None = None) -> nsq.ClientConnection:
    client = nsq.ClientConnection(0.0, options=options)
    client.subscribe("t", "c")
    client.receive(OK, 0.0)
    client.ready(2)
    client.data_to_send()
    return client


def message(number: int) -> bytes:
    return nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"%016d" % number, body=b"x").encode()


def test_a_message_is_finished_once() -> None:
    client = subscribed_client()
    first, second = exactly(client.receive(message(1) + message(2), 0.0), nsq.MessageFrame, nsq.MessageFrame)
    assert client.holds(first)
    assert client.holds(second)
    client.finish(second)
    assert not client.holds(second)
    assert client.undecided == 1
    for wrong in (second, nsq.decode(message(1)), nsq.Nop(), None):
        with pytest.raises(LocalProtocolError, match="does not wait for an answer"):
            client.finish(wrong)  # type: ignore[arg-type]
    client.finish(first)
    assert client.data_to_send() == b"FIN 0000000000000002\nFIN 0000000000000001\n"
    client.close()
    with pytest.raises(LocalProtocolError, match="the connection is over"):
        client.finish(first)


def test_finishing_is_a_sign_of_life() -> None:
    """A client says NOP only if it has said nothing else."""
    client = nsq.ClientConnection(0.0)
    client.send(nsq.Identify(heartbeat_interval=10_000))
    client.receive(OK, 0.0)
    client.subscribe("t", "c")
    client.receive(OK, 0.0)
    client.ready(2)
    first, second = all_of(client.receive(message(1) + message(2), 0.0), nsq.MessageFrame)
    client.data_to_send()
    for now, answered in ((5.0, first), (10.0, second)):
        client.finish(answered)
        client.receive(b"", now)
        client.handle_timeout(now)
        assert client.data_to_send() == b"FIN %b\n" % answered.message_id
    client.handle_timeout(15.0)
    assert client.data_to_send() == b"NOP\n"


def test_what_a_server_delivers() -> None:
    """The octets of a message frame, for values at their limits; a large body is not copied."""
    server = nsq.ServerConnection(0.0)
    sub = only(server.receive(b"  V2SUB t c\nRDY 10\n", 0.0), nsq.Sub)
    server.accept(sub)
    server.data_to_send()
    large = bytes(5000)
    cases = [(-1, 0xFFFF, b"x"), (1 << 62, 0x10000, b""), (0, 1, large)]
    handles = []
    for number, (timestamp, attempts, body) in enumerate(cases, 1):
        handles.append(server.deliver(b"%016d" % number, body, timestamp, attempts, host=number))
        buffers = server.buffers_to_send()
        frame = nsq.MessageFrame(
            timestamp=timestamp, attempts=attempts & 0xFFFF, message_id=b"%016d" % number, body=body
        )
        assert b"".join(bytes(buffer) for buffer in buffers) == frame.encode()
        assert any(buffer is body for buffer in buffers) is (body is large)
    assert [(handle.number, handle.host, handle.attempts) for handle in handles] == [
        (1, 1, 65535),
        (2, 2, 65536),
        (3, 3, 1),
    ]
    with pytest.raises(LocalProtocolError, match="has not 16 bytes"):
        server.deliver(b"short", b"")
    with pytest.raises(LocalProtocolError):
        server.deliver(ID, b"", timestamp=1 << 63)
    assert server.in_flight == 3
    assert server.data_to_send() == b""


def test_what_comes_before_a_fault_is_taken() -> None:
    client = subscribed_client()
    first, last = exactly(client.receive(message(1) + bytes(4), 0.0), nsq.MessageFrame, Disconnected)
    assert isinstance(first, nsq.MessageFrame)
    assert last.error is not None
    server = nsq.ServerConnection(0.0)
    sub = only(server.receive(b"  V2SUB t c\nRDY 10\n", 0.0), nsq.Sub)
    server.accept(sub)
    handle = server.deliver(ID, b"x")
    finished, last = exactly(server.receive(b"FIN %b\nRDY x\n" % ID, 0.0), Acknowledged, Disconnected)
    assert finished.handle is handle
    assert last.code == "E_INVALID"
