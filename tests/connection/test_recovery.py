"""How clients come back: several servers in turn, waits that grow, events (CONNECTIONS, recovery)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from lib.loopback import HOST, run, until
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.connection import ConnectionDown, ConnectionUp, NotRestored, RecoveryEvent, aio
from wirefmt.connection import client as connecting
from wirefmt.connection.address import Address, Scheme, read_urls
from wirefmt.connection.aio import Backoff
from wirefmt.errors import ConnectionLost, Refused

SCHEMES = {"x": Scheme(1)}
Script = list[Exception | float]


class Link(connecting.Link):
    """A connection whose end is scripted: after so many seconds."""

    def __init__(self) -> None:
        super().__init__()

    def lost(self) -> Exception:
        return ConnectionLost("it has ended")


class Client(connecting.Client[Link]):
    """A client whose attempts are scripted: an exception, or a connection of so many seconds."""

    def __init__(self, urls: list[str], script: Script, backoff: Backoff, final: type[Exception] | None = None) -> None:
        self.told: list[RecoveryEvent] = []
        super().__init__(
            read_urls(urls, SCHEMES), reconnect=backoff, random=Random(1), timeout=1.0, on_event=self.told.append
        )
        self.script = script
        self.tried: list[str] = []
        self.final = final

    async def _connect(self, address: Address) -> Link:
        self.tried.append(address.host)
        step = self.script.pop(0) if self.script else ConnectionRefusedError("nobody there")
        if isinstance(step, Exception):
            raise step
        link = Link()
        asyncio.get_running_loop().call_later(step, link.closed, None)
        return link

    def _is_final(self, refused: Refused) -> bool:
        return refused.code == 1

    @property
    def waits(self) -> list[float | None]:
        return [event.wait for event in self.told if isinstance(event, ConnectionDown)]


async def to_the_end(client: Client) -> None:
    """Until the client gives up."""
    await client.open()
    await until(lambda: client._ended)
    await client.close()


def exact(**fields: Any) -> Backoff:
    return Backoff(jitter=0.0, **fields)


def test_waits_grow_while_connections_do_not_last() -> None:
    """Accept and drop counts as a failure, as a connection that cannot be made does."""

    async def check() -> None:
        client = Client(["x://a"], [0.0, 0.0, OSError("no"), 0.0], exact(first=0.001, attempts=4))
        await to_the_end(client)
        assert client.waits == [0.001, 0.002, 0.004, 0.008, None]
        assert len(client.tried) == 5

    run(check())


def test_waits_begin_anew_after_a_connection_that_has_lasted() -> None:
    async def check() -> None:
        client = Client(["x://a"], [0.0, 0.0, 0.1, 0.0], exact(first=0.001, attempts=2, stable=0.05))
        await to_the_end(client)
        assert client.waits == [0.001, 0.002, 0.001, 0.002, None]

    run(check())


def test_servers_are_tried_in_turn() -> None:
    """The first round needs no wait; after a loss the next server comes first; one round is one attempt."""

    async def check() -> None:
        script: Script = [OSError("no"), 0.0, OSError("no"), OSError("no"), 0.0]
        client = Client(["x://a", "x://b", "x://c"], script, exact(first=0.001, attempts=2))
        await to_the_end(client)
        assert "".join(client.tried) == "ab" + "cab" + "cab"
        assert client.waits == [0.001, 0.002, None]
        assert [event.address.host for event in client.told if isinstance(event, ConnectionUp)] == ["b", "b"]

    run(check())


def test_a_final_refusal_of_one_server_leaves_the_others() -> None:
    async def check() -> None:
        script: Script = [Refused("not you", 1), 0.0, Refused("not you", 1), Refused("not you", 1), 0.0]
        client = Client(["x://a", "x://b"], script, exact(first=0.001))
        await to_the_end(client)
        assert "".join(client.tried) == "ab" + "ab"  # b was lost, so a comes next; then both refuse
        assert isinstance(client._error, Refused)

    run(check())


def test_what_the_first_round_raises() -> None:
    async def check() -> None:
        client = Client(["x://a", "x://b"], [OSError("a is down"), Refused("not you", 1)], exact())
        with pytest.raises(OSError, match="a is down"):  # another attempt may be spared that
            await client.open()

    run(check())


def test_shuffled_servers_are_all_tried() -> None:
    urls = [f"x://{name}" for name in "abcdefgh"]
    orders = set()
    for seed in range(5):
        client = connecting.Client[Link](read_urls(urls, SCHEMES), random=Random(seed), timeout=1.0, shuffle=True)
        order = "".join(address.host for address in client._addresses)
        assert sorted(order) == list("abcdefgh")
        orders.add(order)
    assert len(orders) > 1


def test_on_event_that_raises_ends_nothing() -> None:
    async def check() -> None:
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        client = Client(["x://a"], [0.0, 5.0], exact(first=0.001))

        def raises(event: RecoveryEvent) -> None:
            raise RuntimeError("of the program")

        client._on_event = raises
        await client.open()
        await until(lambda: len(client.tried) == 2)
        client._closing = True
        assert client._keeper is not None
        client._keeper.cancel()
        await asyncio.wait([client._keeper])
        assert {str(error) for error in reported} == {"of the program"}

    run(check())


# ---- one thing that is refused

Ask = Callable[[], Coroutine[Any, Any, None]]


def asks(refusals: int) -> Ask:
    """Refused so many times, then granted."""
    left = [refusals]

    async def ask() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise Refused("it is locked", 405)

    return ask


def test_what_becomes_of_a_thing_that_is_refused() -> None:
    async def check() -> None:
        client = Client(["x://a"], [], exact(first=0.001, attempts=3))
        link = Link()

        async def restore(refusals: int, policy: Any, passes: bool) -> bool:
            return await client._restore_one(link, "q", asks(refusals), policy, lambda refused: passes)

        def actions() -> list[tuple[str, float | None]]:
            told, client.told[:] = list(client.told), []
            return [(event.action, event.wait) for event in told if isinstance(event, NotRestored)]

        assert await restore(0, None, False)
        assert actions() == []
        assert await restore(2, None, True)
        assert actions() == [("retry", 0.001), ("retry", 0.002)]
        with pytest.raises(Refused):
            await restore(2, None, False)
        assert actions() == [("fail", None)]
        assert await restore(2, "retry", False)
        assert actions() == [("retry", 0.001), ("retry", 0.002)]
        assert not await restore(2, "skip", True)
        assert actions() == [("skip", None)]
        with pytest.raises(Refused):
            await restore(2, "fail", True)
        assert actions() == [("fail", None)]
        with pytest.raises(Refused):  # attempts count here, too
            await restore(9, None, True)
        assert actions() == [("retry", 0.001), ("retry", 0.002), ("retry", 0.004), ("fail", None)]

    run(check())


# ---- each protocol


CALLS: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
    "mqtt": lambda client: client.publish("t", b"x", qos=1),
    "amqp": lambda client: client.channel(),
    "amqp10": lambda client: client.sender("/queues/q"),
    "nsq": lambda client: client.publish("t", b"x"),
    "phpmq": lambda client: client.publish("q", b"x"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_made_while_open_fails_end(name: str) -> None:
    """A task calls while another one opens the client, and the server ends the connection."""

    async def check() -> None:
        async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if name == "phpmq":  # its client is open once TCP is
                await asyncio.sleep(0.05)
            await reader.read(1)
            writer.close()

        async with await asyncio.start_server(ends, HOST, 0) as server:
            scheme, make = CLIENTS[name]
            client = make([f"{scheme}://{HOST}:{server.sockets[0].getsockname()[1]}"], {})
            opening = asyncio.create_task(client.open())
            await asyncio.sleep(0)
            calling = asyncio.create_task(CALLS[name](client))
            await asyncio.gather(opening, calling, return_exceptions=True)
            assert isinstance(opening.exception(), ConnectionLost) or name == "phpmq"
            assert calling.exception() is not None or name == "phpmq"
            await client.close()

    run(check(), patience=10.0)


Connect = Callable[[list[str], Any], Any]

CLIENTS: dict[str, tuple[str, Connect]] = {
    "mqtt": ("mqtt", lambda urls, more: mqtt.connect(urls, client_identifier="a", **more)),
    "amqp": ("amqp", lambda urls, more: amqp091.connect(urls, **more)),
    "amqp10": ("amqp", lambda urls, more: amqp10.connect(urls, **more)),
    "nsq": ("nsq", lambda urls, more: nsq.connect(*urls, **more)),
    "phpmq": ("phpmq", lambda urls, more: phpmq.connect(urls, **more)),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_the_second_server_serves_when_the_first_is_gone(name: str) -> None:
    """Nobody listens at one URL, one broker ends, another one takes over."""
    scheme, make = CLIENTS[name]

    async def check() -> None:
        with socket.socket() as taken:
            taken.bind((HOST, 0))  # not listening
            async with Broker(ports={name: 0}) as first, Broker(ports={name: 0}) as second:
                urls = [
                    f"{scheme}://{HOST}:{port}"
                    for port in (taken.getsockname()[1], first.port(name), second.port(name))
                ]
                told: list[RecoveryEvent] = []
                client = make(urls, {"reconnect": Backoff(first=0.01), "on_event": told.append})
                async with client:
                    assert client.connected
                    await first.close()
                    await until(lambda: len([event for event in told if isinstance(event, ConnectionUp)]) == 2)
                    ports = [event.address.port for event in told if isinstance(event, ConnectionUp)]
                    assert ports == [first_port(urls, 1), first_port(urls, 2)]
                    await until(lambda: client.connected)

    run(check())


def first_port(urls: list[str], at: int) -> int:
    return int(urls[at].rpartition(":")[2])


@pytest.mark.parametrize("name", [*CLIENTS, "rocketmq"])
def test_a_connection_whose_end_comes_before_the_dial_returns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop may report the end of a connection before the coroutine that made it goes on: it is never up."""
    dial = aio.open_transport

    async def late(driver: aio.Driver, *args: Any, **more: Any) -> None:
        await dial(driver, *args, **more)
        await driver.wait_closed()

    monkeypatch.setattr(aio, "open_transport", late)

    async def check() -> None:
        async with await asyncio.start_server(lambda _, writer: writer.transport.abort(), HOST, 0) as server:
            port = server.sockets[0].getsockname()[1]
            if name == "rocketmq":
                async with rocketmq.connect(f"{HOST}:{port}") as asking:
                    with pytest.raises(ConnectionLost):
                        await asking.route("t")
            else:
                scheme, make = CLIENTS[name]
                with pytest.raises(ConnectionLost):
                    await make([f"{scheme}://{HOST}:{port}"], {}).open()

    run(check(), patience=10.0)
