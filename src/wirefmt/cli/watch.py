"""The output of `wirefmt serve`: a live table on a terminal, otherwise one line of JSON per event."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wirefmt.broker import Broker
from wirefmt.broker.listeners import NAMES, PORTS
from wirefmt.connection.aio import Driver, Tap

from .text import cell, compact_json, console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wirefmt.broker.recording import Recorder

#: Seconds between two updates of the live table, and between two log lines with rates.
REFRESH: Final = 1.0
REPORT: Final = 10.0

#: The maximum number of queues in the live table, and of characters in a name.
SHOWN: Final = 12
WIDTH: Final = 48

#: The port under which a recording has WebSocket connections; others have the usual port of their protocol, also if they use TLS.
WEBSOCKET_PORT: Final = 80


class Count(NamedTuple):
    """Totals of a protocol: messages published, bytes received and bytes sent."""

    published: int = 0
    received: int = 0
    sent: int = 0

    def since(self, before: Count, seconds: float) -> tuple[float, ...]:
        """The rates per second since an earlier count."""
        return tuple((now - then) / seconds for now, then in zip(self, before, strict=True))


class Queue(NamedTuple):
    protocol: str
    name: str
    messages: int
    consumers: int


class Watch:
    """Counts the bytes of all connections, and reports them.

    Args:
        recorder: records all connections; None: no recording.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.octets = {name: [0, 0] for name in NAMES}
        self._recorder = recorder
        self._live = sys.stdout.isatty()
        self._broker: Broker | None = None

    def tap(self, listener: str, driver: Driver) -> asyncio.BaseProtocol:
        """The value of `Options.tap`."""
        counted = Counted(driver, self, listener)
        if self._recorder is None:
            return counted
        protocol, _, over = listener.partition("+")
        return self._recorder.tap(WEBSOCKET_PORT if over == "wss" else PORTS[protocol])(counted)

    def say(self, event: str, **fields: Any) -> None:
        """Write a log line: one JSON object with `time` (ISO 8601, UTC), `event` and the fields that are not None."""
        if not self._live:
            now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
            told = {name: value for name, value in fields.items() if value is not None}
            line = compact_json({"time": now, "event": event, **told})
            print(line.encode(errors="backslashreplace").decode(), flush=True)  # \udcff is an escape of JSON, too

    async def run(self, broker: Broker, stop: asyncio.Event) -> None:
        """Report until `stop` is set."""
        for name in broker.ports:
            self.say("listening", listener=name, url=broker.url(name))
        if self._live:
            await self._show(broker, stop)
            return
        before = self.counts(broker)
        while not await _passed(stop, REPORT):
            counts = self.counts(broker)
            for name in NAMES:
                if counts[name] != before[name]:
                    published, received, sent = counts[name].since(before[name], REPORT)
                    self.say(
                        "rates", protocol=name, clients=_clients(broker, name), published_per_s=round(published, 1),
                        received_bytes_per_s=round(received), sent_bytes_per_s=round(sent),
                    )  # fmt: skip
            before = counts

    async def _show(self, broker: Broker, stop: asyncio.Event) -> None:
        from rich.live import Live

        before, then = self.counts(broker), time.monotonic()
        with Live(self.table(broker, before, before, 1.0), console=console(), auto_refresh=False) as live:
            while not await _passed(stop, REFRESH):
                counts, now = self.counts(broker), time.monotonic()
                live.update(self.table(broker, before, counts, now - then), refresh=True)
                before, then = counts, now

    def counts(self, broker: Broker) -> dict[str, Count]:
        return {name: Count(broker.counts[name], *self.octets[name]) for name in NAMES}

    def table(
        self, broker: Broker, before: dict[str, Count], counts: dict[str, Count], seconds: float
    ) -> RenderableType:
        """The listeners with their clients and rates, and the longest queues."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        listeners = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("protocol", "port", "clients", "published/s", "bytes in/s", "bytes out/s"):
            listeners.add_column(title, justify="left" if title == "protocol" else "right")
        for name in NAMES:
            ports = [str(port) for listener, port in broker.ports.items() if listener.partition("+")[0] == name]
            if ports:
                rates = counts[name].since(before[name], seconds)
                cells = (name, " ".join(ports), f"{_clients(broker, name):,}", *(f"{rate:,.0f}" for rate in rates))
                listeners.add_row(*map(Text, cells))
        queues = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("queue", "", "messages", "consumers"):
            queues.add_column(title, justify="right" if title in ("messages", "consumers") else "left")
        found = sorted(queues_of(broker), key=lambda queue: (-queue.messages, queue.name))
        for queue in found[:SHOWN]:
            cells = (queue.protocol, cell(queue.name, WIDTH), f"{queue.messages:,}", f"{queue.consumers:,}")
            queues.add_row(*map(Text, cells))
        more = Text(f"and {len(found) - SHOWN:,} more" if len(found) > SHOWN else "", style="dim")
        return Group(listeners, Text(), queues, more) if found else Group(listeners)


def queues_of(broker: Broker) -> Iterator[Queue]:
    """Everything that can hold messages for a consumer."""
    for subscriber in broker.mqtt.subscribers.values():
        yield Queue("mqtt", subscriber.identifier, len(subscriber.queue), int(subscriber.peer is not None))
    for host in broker.amqp.hosts.values():
        for queue in host.queues.values():
            yield Queue("amqp", queue.name, len(queue.messages), len(queue.consumers))
    for topic in broker.nsq.topics.values():
        if topic.backlog:
            yield Queue("nsq", topic.name, len(topic.backlog), 0)
        for channel in topic.channels.values():
            waiting = len(channel.queue) + len(channel.deferred)
            yield Queue("nsq", f"{topic.name}/{channel.name}", waiting, len(channel.clients))
    for name, parts in broker.rocketmq.topics.items():
        yield Queue("rocketmq", name, sum(len(part.messages) for part in parts), 0)
    for name, list_ in broker.phpmq.queues.items():
        yield Queue("phpmq", name, len(list_.waiting), len(list_.clients))


def _clients(broker: Broker, name: str) -> int:
    return sum(len(server.drivers) for listener, server in broker.servers.items() if listener.partition("+")[0] == name)


async def _passed(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for some seconds. Returns True as soon as `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True


class Counted(Tap):
    """Counts bytes, and reports when a client connects and disconnects."""

    def __init__(self, driver: Driver, watch: Watch, listener: str) -> None:
        super().__init__(driver)
        self._driver = driver
        self._watch = watch
        self._listener = listener
        self._sums = watch.octets[listener.partition("+")[0]]
        self._own = [0, 0]
        self._begun = time.monotonic()
        self._client: str | None = None

    def made(self) -> None:
        if isinstance(self.address, tuple):
            host, port = self.address[:2]
            self._client = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._watch.say("connected", listener=self._listener, client=self._client)
        super().made()

    def received(self, data: bytes) -> None:
        self._sums[0] += len(data)
        self._own[0] += len(data)
        super().received(data)

    def sent(self, data: bytes) -> None:
        self._sums[1] += len(data)
        self._own[1] += len(data)
        super().sent(data)

    def lost(self, error: Exception | None) -> None:
        super().lost(error)
        seconds = round(time.monotonic() - self._begun, 3)
        received, sent = self._own
        error = error or self._driver.error
        why = str(error) if error is not None else None
        self._watch.say(
            "disconnected", listener=self._listener, client=self._client, seconds=seconds, received_bytes=received,
            sent_bytes=sent, error=why,
        )  # fmt: skip
