"""A transport to a server, and how long a client waits before it tries again."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from ssl import SSLContext
from typing import Any, Final

from wirefmt.connection.aio.driver import Driver
from wirefmt.connection.aio.transports import LINGER

#: Seconds after which the next address of a host is tried beside those before it (RFC 8305, section 5).
NEXT_ADDRESS: Final = 0.25


async def open_transport(
    driver: Driver,
    host: str,
    port: int,
    *,
    path: str | None = None,
    ssl: SSLContext | None = None,
    server_name: str | None = None,
) -> None:
    """Connect a driver over TCP, or over a Unix socket at `path`; TLS with a context. `server_name`: what TLS asks for in place
    of the host. Raises OSError (ssl.SSLError)."""
    loop = asyncio.get_running_loop()
    name = host if server_name is None else server_name
    secure: dict[str, Any] = (
        {"ssl": ssl, "server_hostname": name, "ssl_shutdown_timeout": LINGER} if ssl is not None else {}
    )
    try:
        if path is not None:
            await loop.create_unix_connection(lambda: driver, path, **secure)
        else:
            await loop.create_connection(lambda: driver, sock=await connected(host, port), **secure)
    except BaseException:
        if (transport := driver.transport) is not None:
            # cancelled at the moment of success: asyncio says that the transport is lost, uvloop closes it without a word
            transport.abort()
            loop.call_soon(driver.connection_lost, None)
        raise


async def connected(host: str, port: int) -> socket.socket:
    """A socket that is connected to the first address of a host that answers. The next address is tried when one has failed, or
    after NEXT_ADDRESS. Nothing is left of the other attempts, or of a call that is cancelled. (`happy_eyeballs_delay` of asyncio
    loses a socket if the call is cancelled between the attempt's end and its own.) Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)  # does not wait
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families: dict[int, list[Any]] = {}
    for info in found:
        families.setdefault(info[0], []).append(info)
    infos = [info for row in zip_longest(*families.values()) for info in row if info is not None]
    errors: list[BaseException] = []
    attempts: dict[asyncio.Task[None], socket.socket] = {}
    winner: socket.socket | None = None
    try:
        while winner is None and (infos or attempts):
            if infos:
                family, kind, protocol, _, address = infos.pop(0)
                try:
                    attempted = socket.socket(family, kind, protocol)
                except OSError as error:  # the system has no such family
                    errors.append(error)
                    continue
                attempted.setblocking(False)
                attempts[loop.create_task(loop.sock_connect(attempted, address))] = attempted
            done, _ = await asyncio.wait(
                attempts, timeout=NEXT_ADDRESS if infos else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                failed = attempt.exception()
                if failed is not None:
                    errors.append(failed)
                    attempts.pop(attempt).close()
                elif winner is None:
                    winner = attempts.pop(attempt)
    finally:
        for attempt, attempted in attempts.items():
            attempt.cancel()
            attempt.add_done_callback(lambda ended, attempted=attempted: _give_up(ended, attempted))  # type: ignore[misc]
        if winner is None and attempts:
            await asyncio.wait(attempts)
    if winner is not None:
        return winner  # no await since it is there: a cancellation would lose it
    if len(errors) == 1:
        raise errors[0]
    raise OSError(f"cannot connect to {host}: {', '.join(map(str, errors))}")


def _give_up(attempt: asyncio.Task[None], attempted: socket.socket) -> None:
    """Close the socket of an attempt that has ended and is not wanted."""
    attempted.close()
    if not attempt.cancelled():
        attempt.exception()  # it is seen


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a client waits before it connects again.

    Attributes:
        first: seconds before the first attempt.
        factor: how much longer each further wait is.
        most: seconds; no wait is longer.
        jitter: 0 to 1: the part of each wait that is random, so that clients do not come back all at once.
        attempts: how many attempts there are before the client gives up, all servers together being one; None: any number.
            A connection that has not lasted counts.
        stable: seconds that a connection has to last until waits and attempts begin anew.
    """

    first: float = 1.0
    factor: float = 2.0
    most: float = 60.0
    jitter: float = 0.5
    attempts: int | None = None
    stable: float = 10.0

    def delay(self, attempt: int, random: Random) -> float:
        """Seconds before this attempt, counted from 0."""
        wait = min(self.most, self.first * self.factor ** min(attempt, 64))
        return wait * (1 - self.jitter * random.random())
