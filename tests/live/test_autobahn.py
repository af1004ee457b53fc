"""The cases of Autobahn's test suite for WebSocket, run by kosoku against our frames, both sides, on our driver.

Our protocols use binary messages without regard to their boundaries, and refuse text [MQTT-6.0.0-1]. The cases want echoes,
mostly of text: `EchoFrames` lets text pass as if it were binary and keeps the messages, and adds nothing else to
`WebSocket`. So the cases of UTF-8 in text (6.*) are not run, nor those of compression (12.*, 13.*), which is never agreed on.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from lib.loopback import HOST
from lib.skips import imported
from wirefmt.connection.aio import Driver, open_transport
from wirefmt.connection.carriers import WebSocket
from wirefmt.connection.contract import Disconnected
from wirefmt.connection.websocket import ClientHandshake, ServerHandshake

pytestmark = pytest.mark.live

NOT_RUN = ["6.*", "12.*", "13.*"]

FIELD = b"\r\nSec-WebSocket-Protocol: echo"


class EchoFrames(WebSocket):
    """The frames of `WebSocket`; messages are kept, and `send` writes them."""

    def __init__(self, mask: Any = None) -> None:
        super().__init__(mask)
        self.messages: list[tuple[int, bytes]] = []
        self._opcode = 0
        self._parts: list[bytes] = []

    def _check(self, first: int, second: int) -> None:
        super()._check(first + 1 if first & 15 == 1 else first, second)

    def _frame(self, data: bytes, at: int) -> tuple[int, bytes, int] | None:
        frame = super()._frame(data, at)
        if frame is not None and frame[0] & 15 < 8:
            self._opcode = frame[0] & 15 or self._opcode
            self._parts.append(frame[1])
            if frame[0] & 0x80:
                self.messages.append((self._opcode, b"".join(self._parts)))
                self._parts.clear()
        return frame

    def receive(self, data: bytes) -> bytes:
        return super().receive(data) or bytes(bool(self.messages))  # an empty message is one, too

    def send(self, data: bytes) -> bytes:
        messages, self.messages = self.messages, []
        return b"".join(self._write(opcode, payload) for opcode, payload in messages)


class Echo:
    """A connection without a protocol: what comes in goes out."""

    wants_read = True
    pending_bytes = 0
    undecided = 0
    trailing_data = b""

    def __init__(self) -> None:
        self.over = False
        self.got = False

    @property
    def should_close(self) -> bool:
        return self.over

    def receive(self, data: Any, now: float) -> list[Any]:
        self.got = self.got or bool(data)
        return []

    def receive_eof(self, now: float) -> list[Any]:
        self.over = True
        return [Disconnected("transport")]

    def close(self, *, immediate: bool = False) -> list[Any]:
        self.over = True
        return [Disconnected("local")]

    def buffers_to_send(self) -> list[bytes]:
        got, self.got = self.got, False
        return [b"."] if got else []

    def changes(self) -> list[Any]:
        return []

    def next_timeout(self) -> None:
        return None


class Host:
    def __init__(self) -> None:
        self.gone = asyncio.get_running_loop().create_future()

    def handle(self, event: Any) -> None: ...
    def writable(self) -> None: ...
    def closed(self, error: Exception | None) -> None:
        self.gone.set_result(error)


class EchoServerHandshake(ServerHandshake):
    """Without a subprotocol, which the suite does not offer."""

    def receive(self, data: bytes) -> bytes:
        return super().receive(data.replace(b"\r\n\r\n", FIELD + b"\r\n\r\n", 1))

    def data_to_send(self) -> bytes:
        return super().data_to_send().replace(FIELD, b"")


class EchoClientHandshake(ClientHandshake):
    def receive(self, data: bytes) -> bytes:
        return super().receive(data.replace(b"\r\n\r\n", FIELD + b"\r\n\r\n", 1))

    def data_to_send(self) -> bytes:
        return super().data_to_send().replace(FIELD, b"")


def failures(results: list[Any]) -> list[str]:
    return [
        f"{r.case_id}: {r.behavior.value} ({r.result}), {r.behavior_close.value} ({r.result_close})"
        for r in results
        if not r.passed
    ]


def test_cases_of_a_server() -> None:
    kosoku = imported("kosoku")

    def accept() -> Driver:
        driver = Driver(Echo(), Host(), opening=EchoServerHandshake(("echo",)), carrier=EchoFrames())  # type: ignore[arg-type]
        drivers.append(driver)
        return driver

    drivers: list[Driver] = []

    async def test() -> None:
        server = await asyncio.get_running_loop().create_server(accept, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        try:
            results = await kosoku.run_fuzzingclient(f"ws://{HOST}:{port}", exclude_cases=NOT_RUN)
        except kosoku.FailureError as error:
            results = error.results
        server.close()
        for driver in drivers:
            await driver.wait_closed()
        assert failures(results) == []
        assert len(results) >= 156

    asyncio.run(asyncio.wait_for(test(), 300.0))  # not lib.loopback's: kosoku keeps descriptors


async def ask(port: int, path: str) -> bytes:
    """A connection to the suite's server until it ends; the last message that came."""
    seen: list[bytes] = []

    class Kept(EchoFrames):
        def send(self, data: bytes) -> bytes:
            seen.extend(payload for _, payload in self.messages)
            return super().send(data)

    host = Host()
    opening = EchoClientHandshake(f"{HOST}:{port}", path, "echo", os.urandom(16))
    driver = Driver(Echo(), host, opening=opening, carrier=Kept(lambda: os.urandom(4)))  # type: ignore[arg-type]
    await open_transport(driver, HOST, port)
    await driver.wait_closed()
    return seen[-1] if seen else b""


def test_cases_of_a_client() -> None:
    kosoku = imported("kosoku")

    async def test() -> None:
        async with kosoku.run_fuzzingserver(exclude_cases=NOT_RUN, host=HOST, port=0) as server:
            count = int(await ask(server.port, "/getCaseCount"))
            assert count >= 156
            for case in range(1, count + 1):
                await ask(server.port, f"/runCase?case={case}&agent=wirefmt")
            await ask(server.port, "/updateReports?agent=wirefmt")
            try:
                results = await server.get_result()
            except kosoku.FailureError as error:
                results = error.results
        assert failures(results) == []

    asyncio.run(asyncio.wait_for(test(), 300.0))  # not lib.loopback's: kosoku keeps descriptors
