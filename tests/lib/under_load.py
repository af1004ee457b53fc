"""Numbered messages that flow through a broker while it fails: what was confirmed, what arrived, what came twice."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from wirefmt import amqp091, amqp10, mqtt, nsq
from wirefmt.connection import ConnectionDown, ConnectionUp, NotRestored, RecoveryEvent
from wirefmt.connection.aio import Backoff
from wirefmt.errors import ConnectionLost, Refused

AGAIN = Backoff(first=0.1, most=1.0, stable=2.0)
TASKS = 4  # that publish at the same time
PACE = 0.002  # seconds between two messages of a task
PATIENCE = 60.0  # seconds until everything must have come to an end
SILENCE = 10.0  # seconds after which a broker is asked whether it has forgotten the subscription


class Load:
    """Publishers and a consumer of one broker. A protocol says how it connects, publishes and consumes.

    Attributes:
        confirmed: numbers whose publish has returned.
        failed: numbers whose publish has raised, and what.
        arrived: how often each number has arrived; marked: how often with the protocol's mark of a repetition.
        uncertain: numbers whose end was open when a connection was lost: they may come twice without a mark.
        told: events of the clients' connections.
        before: numbers that had been confirmed when a connection was lost for the first time.
        forgotten: True: the broker has said that it lost the subscription, and with it what was published afterwards.
        marks: False: the broker has no mark for messages whose acknowledgement was lost with its connection.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.confirmed: set[int] = set()
        self.failed: dict[int, Exception] = {}
        self.arrived: Counter[int] = Counter()
        self.marked: Counter[int] = Counter()
        self.uncertain: set[int] = set()
        self.told: list[RecoveryEvent] = []
        self._numbers = 0
        self._stopping = False
        self.before: set[int] | None = None
        self.forgotten = False
        self.marks = True
        self._latest: deque[int] = deque(maxlen=20)  # as many as may be unacknowledged

    # ---- what a protocol adds

    async def open(self) -> None:
        raise NotImplementedError

    async def publish(self, body: bytes) -> None:
        """Publish, and wait for the confirm."""
        raise NotImplementedError

    async def consume(self) -> None:
        """Take messages for ever, and call `came`."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    # ---- the run

    async def run(
        self,
        trouble: Callable[[], Awaitable[None]],
        *,
        before: float = 0.5,
        after: float = 1.0,
        lost: int = 0,
        forgot: Callable[[], bool] = lambda: False,
    ) -> None:
        """Publish and consume, make trouble, go on, and stop once everything has its end. `lost`: what the broker may lose.
        `forgot` asks the broker whether it has lost the subscription, when messages do not come."""
        async with asyncio.timeout(PATIENCE * 3):
            await self.open()
            consuming = asyncio.create_task(self.consume())
            publishing = [asyncio.create_task(self._publish()) for _ in range(TASKS)]
            try:
                await asyncio.sleep(before)
                await trouble()
                await asyncio.sleep(after)
                self._stopping = True
                async with asyncio.timeout(PATIENCE):
                    await asyncio.gather(*publishing)
                waited = 0.0
                async with asyncio.timeout(PATIENCE):
                    while len(self.confirmed - self.arrived.keys()) > lost and not self.forgotten:
                        if consuming.done():
                            consuming.result()
                        await asyncio.sleep(0.02)
                        waited += 0.02
                        if waited > SILENCE:
                            waited = 0.0
                            self.forgotten = await asyncio.to_thread(forgot)
                arrived = -1
                while lost and sum(self.arrived.values()) > arrived:  # until nothing more comes
                    arrived = sum(self.arrived.values())
                    await asyncio.sleep(1.0)
            except TimeoutError as error:
                error.add_note(self.report())
                raise
            finally:
                for task in (*publishing, consuming):
                    task.cancel()
                await asyncio.gather(*publishing, consuming, return_exceptions=True)
                await self.close()

    async def _publish(self) -> None:
        while not self._stopping:
            self._numbers += 1
            number = self._numbers
            try:
                await self.publish(b"%d" % number)
                self.confirmed.add(number)
            except (ConnectionLost, Refused) as error:
                self.failed[number] = error
                await asyncio.sleep(0.05)
            await asyncio.sleep(PACE)

    def came(self, body: bytes, again: bool) -> None:
        number = int(body)
        self.arrived[number] += 1
        self._latest.append(number)
        self.marked[number] += again

    def unfinished(self) -> set[int]:
        """Numbers whose publish has no end yet."""
        return set(range(1, self._numbers + 1)) - self.confirmed - self.failed.keys()

    def on_event(self, event: RecoveryEvent) -> None:
        self.told.append(event)
        if isinstance(event, ConnectionDown):
            if self.before is None:
                self.before = self.confirmed.copy()
            self.uncertain.update(self.unfinished())
            if not self.marks:
                self.uncertain.update(self._latest)

    # ---- what must be true

    def check(self, *, twice: bool = True, failures: int = 0, lost: int = 0, repeated: int = 0) -> None:
        """Nothing that was confirmed is lost; what came twice is marked, or its end was open when a connection was lost.

        Args:
            twice: False: nothing comes twice.
            failures: how many calls may have raised.
            lost: how many confirmed messages the broker may have lost.
            repeated: how many others the broker may have sent twice without a mark.
        """
        report = self.report()
        unseen = self.confirmed - self.arrived.keys()
        if self.forgotten and self.before is not None:  # what it had in the queue before still comes
            unseen &= self.before
        assert len(unseen) <= lost, report
        assert len(self.failed) <= failures, (report, list(self.failed.values())[:3])
        assert len(self.confirmed) + len(self.failed) == self._numbers, report  # each publish has one outcome
        unmarked = {n for n, times in self.arrived.items() if times - self.marked[n] > 1} - self.uncertain
        assert len(unmarked) <= repeated, (report, sorted(unmarked)[:5])
        assert twice or all(times == 1 for times in self.arrived.values()), report

    def report(self) -> str:
        """One line."""
        twice = sum(times > 1 for times in self.arrived.values())
        connections = sum(isinstance(event, ConnectionUp) for event in self.told)
        refusals = sum(isinstance(event, NotRestored) for event in self.told)
        return (
            f"{type(self).__name__}: {self._numbers} published, {len(self.confirmed)} confirmed, {len(self.failed)} raised, "
            f"{len(self.confirmed - self.arrived.keys())} lost, {twice} came twice, {connections} connections, "
            f"{refusals} refusals{', and the subscription was forgotten' * self.forgotten}"
        )


class Amqp091(Load):
    """A durable queue, persistent messages, a channel that publishes and one that consumes, one client with a journal."""

    def __init__(self, folder: Path, url: str, *, arguments: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(folder)
        self.options = amqp091.ConnectionOptions(**options)
        self.url = url
        self.arguments = arguments or {}

    async def open(self) -> None:
        self.client = amqp091.connect(
            self.url, journal=self.folder / "amqp091.db", name="load", reconnect=AGAIN, options=self.options,
            on_event=self.on_event,
        )  # fmt: skip
        await self.client.open()
        self.channel = await self.client.channel()
        await self.channel.declare_queue("load", durable=True, arguments=self.arguments)
        await self.channel.purge_queue("load")
        self.consumer = await (await self.client.channel(prefetch=20)).consume("load")

    async def publish(self, body: bytes) -> None:
        persistent = amqp091.BasicProperties(delivery_mode=2)
        await self.channel.publish(body, routing_key="load", properties=persistent)

    async def consume(self) -> None:
        async for message in self.consumer:
            self.came(message.body, message.redelivered)
            message.ack()

    async def close(self) -> None:
        await self.client.close()


class Amqp10(Load):
    """One client with a journal, a sender and a receiver of one queue."""

    def __init__(self, folder: Path, url: str, address: str, **options: Any) -> None:
        super().__init__(folder)
        self.url = url
        self.address = address
        self.options = options

    async def open(self) -> None:
        self.client = amqp10.connect(
            self.url, container_id="load", journal=self.folder / "amqp10.db", reconnect=AGAIN, on_event=self.on_event,
            options=amqp10.ConnectionOptions(overrun=1000, **self.options),
        )  # fmt: skip
        await self.client.open()
        self.sender = await self.client.sender(self.address)
        self.receiver = await self.client.receiver(self.address, credit=20, settle="manual")

    async def publish(self, body: bytes) -> None:
        await self.sender.send(amqp10.Message(header=amqp10.Header(durable=True), body=body))

    async def consume(self) -> None:
        async for delivery in self.receiver:
            message = delivery.message
            header = message.header
            again = header is not None and (bool(header.delivery_count) or header.first_acquirer is False)
            self.came(bytes(message.payload), again)
            self.receiver.accept(delivery)

    async def close(self) -> None:
        await self.client.close()


class Mqtt(Load):
    """A client that publishes, with a journal, and one that has subscribed, with a session.

    Attributes:
        resumed: did the broker say Session Present when the subscriber came back? Otherwise it had to subscribe again.
    """

    resumed = False

    def __init__(self, folder: Path, url: str, *, qos: int, version: int, **more: Any) -> None:
        super().__init__(folder)
        self.url = url
        self.qos = qos
        self.version = version
        self.more = {"version": version, "reconnect": AGAIN, "on_event": self.on_event, "keep_alive": 2, **more}

    async def open(self) -> None:
        self.subscriber = mqtt.connect(
            self.url, client_identifier="load-in", session_expiry_interval=600, journal=self.folder / "in.db",
            **self.more,
        )  # fmt: skip
        self.publisher = mqtt.connect(
            self.url, client_identifier="load-out", session_expiry_interval=600, journal=self.folder / "out.db",
            **self.more,
        )  # fmt: skip
        await self.subscriber.open()
        await self.subscriber.subscribe("load", qos=self.qos)
        begin = self.subscriber._inbox.begin

        def resume(resumed: bool) -> None:  # no event says it, and a load on a broker that forgets must know
            self.resumed = resumed
            begin(resumed)

        self.subscriber._inbox.begin = resume  # type: ignore[method-assign]
        await self.publisher.open()

    async def publish(self, body: bytes) -> None:
        await self.publisher.publish("load", body, qos=self.qos)

    async def consume(self) -> None:
        async for message in self.subscriber.messages():
            self.came(message.payload_bytes(), bool(message.dup))

    async def close(self) -> None:
        await self.publisher.close()
        await self.subscriber.close()


class Nsq(Load):
    """A producer with a journal and several nsqd, and a consumer that finds them by look-up."""

    def __init__(self, folder: Path, urls: list[str], lookup: str) -> None:
        super().__init__(folder)
        self.urls = urls
        self.lookup = lookup

    async def open(self) -> None:
        self.client = nsq.connect(
            *self.urls, journal=self.folder / "nsq.db", reconnect=AGAIN, on_event=self.on_event, timeout=5.0,
            identify={"heartbeat_interval": 1000},
        )  # fmt: skip
        self.reader = nsq.connect(
            lookup=[self.lookup], lookup_interval=0.5, reconnect=AGAIN, timeout=5.0,
            identify={"heartbeat_interval": 1000, "msg_timeout": 5000},
        )  # fmt: skip
        await self.client.open()
        await self.client.publish("load", b"0")  # the topic is there
        await self.reader.open()

    async def publish(self, body: bytes) -> None:
        await self.client.publish("load", body)

    async def consume(self) -> None:
        async with self.reader.consume("load", "c", max_in_flight=20) as messages:
            async for message in messages:
                self.came(message.body, message.attempts > 1)

    async def close(self) -> None:
        await self.client.close()
        await self.reader.close()
