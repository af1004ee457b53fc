"""The AMQP 0.9.1 client beside a model server: channels with confirms, consumers of all kinds of queues, refusals that pass."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

from wirefmt import amqp091
from wirefmt.amqp091 import ConnectionOptions
from wirefmt.amqp091.states import ChannelState, State
from wirefmt.broker.amqp091 import Broker
from wirefmt.broker.messages import Envelope, Published
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

from .liveness import FAILURES, ModelServer, World

#: Kind of consumer -> fields of queue.declare, fields of basic.consume.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "durable": ({"durable": True}, {}),
    "exclusive": ({"exclusive": True}, {}),
    "auto-delete": ({"auto_delete": True}, {}),
    "exclusive-consumer": ({}, {"exclusive": True}),
}
#: Reply codes of refusals that pass when a queue is declared or consumed from, and of some that do not.
PASSING = (405, 404)
LASTING = (403, 406)
#: Bytes of a body that the client reads.
BODY = 4000


class Model(ModelServer):
    """The server.

    Attributes:
        refuse_calls: how many queue.declare and basic.consume are refused, with `code`.
        refuse_opens: connection.open is refused with this code; None: it is not.
        refuse_logins: True: credentials are refused.
        reject: messages that get basic.nack.
    """

    world: Amqp091World
    refuse_calls = 0
    code = 0
    refuse_opens: int | None = None
    refuse_logins = False
    reject = 0

    def take(self, peer: Any, event: Any) -> None:
        world = self.world
        match event:
            case amqp091.ConnectionStartOk() if self.refuse_logins:
                peer.refuse(event, 403, "by the script")
                return
            case amqp091.ConnectionOpen() if self.refuse_opens is not None:
                peer.refuse(event, self.refuse_opens, "the limit of connections is reached, by the script")
                return
            case amqp091.ConnectionOpen():
                self.accepted(peer)
            case amqp091.QueueDeclare() | amqp091.BasicConsume() if self.refuse_calls and not getattr(
                event, "passive", False
            ):
                self.refuse_calls -= 1
                if self.code in LASTING:
                    world.refused.add(str(event.queue))
                world.note(f"refuse {type(event).__name__} {event.queue!r} {self.code}")
                peer.refuse(event, self.code, "by the script")
                return
            case amqp091.QueueDeclare():
                world.declared[str(event.queue)] = peer
            case amqp091.BasicMessage():
                view = peer.channels.get(event.channel)
                if view is None or view.state is not ChannelState.OPEN:
                    return
                if self.swallows(peer):
                    return
                if self.reject and peer.connection.waits(event):
                    self.reject -= 1
                    peer.reject(event)
                    return
                world.arrivals[world.name(event.body_bytes())] += 1
        super().take(peer, event)


class Consuming:
    """A consumer as the program has it.

    Attributes:
        kind, queue, channel, consumer: what it is.
        poisoned: it gets messages that are larger than the client takes.
        workers: tasks that iterate.
    """

    def __init__(self, kind: str, queue: str, channel: Any, consumer: Any) -> None:
        self.kind = kind
        self.queue = queue
        self.channel = channel
        self.consumer = consumer
        self.poisoned = False
        self.workers: list[asyncio.Task[Any]] = []


class Amqp091World(World):
    PROTOCOL = "amqp091"
    CLUSTER = (7000, 7001)
    HOST: ClassVar[dict[str, float]] = {
        "publish": 10, "burst": 3, "new_channel": 2, "close_channel": 0.7, "consume": 3, "cancel_consumer": 1.5, "work": 2,
        "stop_work": 1.5, "bad_call": 1.5, "get": 1, "big_method": 0.5, "poison": 0.3, "cancel_call": 3, "reopen": 1,
        "full_disk": 0.7,
    }  # fmt: skip
    SERVER: ClassVar[dict[str, float]] = {
        "produce": 8, "hold": 3, "release": 2, "refuse_calls": 2, "refuse_opens": 1, "refuse_logins": 0.2,
        "accept_and_drop": 0.7, "swallow": 1, "reject": 1, "close_channels": 1, "close_peers": 1, "delete_queue": 1,
        "block": 1, "restart": 1,
    }  # fmt: skip

    def __init__(self, seed: int, script: Any = None) -> None:
        super().__init__(seed, script)
        random = self.random
        self.options = ConnectionOptions(
            unconfirmed=random.choice((1, 2, 10, 65535)), heartbeat=random.choice((2, 5)), body_size=BODY,
            handshake_timeout=3.0, close_timeout=2.0, blocked_timeout=None,
        )  # fmt: skip
        self.server_options = ConnectionOptions(
            frame_max=random.choice((4096, 131_072)), heartbeat=5, undecided=random.choice((1, 5, 65535)),
            handshake_timeout=3.0, close_timeout=2.0,
        )  # fmt: skip
        self.models = [Model(self, lambda: Broker(random=Random(1)))]
        self.inbox = random.choice((1, 5, 1000))
        self.channels: list[Any] = []
        self.consumers: list[Consuming] = []
        self.refused: set[str] = set()  # queues of which something was refused permanently, or that were deleted
        self.declared: dict[str, Any] = {}  # queue -> the peer that has declared it last
        self.auto_delete: set[str] = set()  # queues of this kind that have had a consumer
        self.numbers = 0

    def make_client(self) -> amqp091.Client:
        return amqp091.connect(
            self.urls("amqp"), reconnect=self.reconnect, options=self.options, timeout=3.0, inbox=self.inbox,
            random=Random(self.seed), on_event=self.told, journal=self.journal_path,
        )  # fmt: skip

    async def serve(self) -> None:
        for port in self.ports:
            self.models[0].servers.append(await amqp091.serve(self.models[0], port=port, options=self.server_options))

    def begin(self) -> None:
        for _ in range(2):
            self.do_new_channel(self.random)
        for _ in range(3):
            self.do_consume(self.random)

    def forget(self) -> None:
        self.auto_delete.clear()
        self.channels.clear()
        self.consumers.clear()

    # ---- the program

    def _is_over(self, channel: Any) -> bool:
        return channel._closed or channel._error is not None or not self.serves(channel._client)

    async def _new_channel(self, random: Random, **more: Any) -> Any:
        return await self.client.channel(prefetch=random.choice((1, 2, 10, 100)), **more)

    def do_new_channel(self, random: Random) -> None:
        def ended(result: Any) -> None:
            if isinstance(result, amqp091.Channel):
                self.channels.append(result)

        self.call("channel", self._new_channel(random), ended)

    def _channel(self, random: Random) -> Any:
        self.channels = [channel for channel in self.channels if not self._is_over(channel)]
        return random.choice(self.channels) if self.channels else None

    def do_close_channel(self, random: Random) -> None:
        if channel := self._channel(random):
            self.channels.remove(channel)
            self.call("close channel", channel.close())

    def _publish_on(self, channel: Any, random: Random) -> None:
        payload = self.message(random)
        self.publish(payload, "publish", self._published(channel, payload, "in"), lambda: self._is_over(channel))

    async def _published(self, channel: Any, payload: bytes, queue: str) -> None:
        """A channel that is closed meanwhile says so in its own words."""
        try:
            await channel.publish(payload, routing_key=queue)
        except LocalProtocolError as error:
            if not self._is_over(channel):
                raise
            raise ConnectionLost(str(error)) from error

    def do_publish(self, random: Random) -> None:
        if channel := self._channel(random):
            for _ in range(random.randint(1, 5)):
                self._publish_on(channel, random)

    def do_burst(self, random: Random) -> None:
        """All channels at once."""
        for channel in self.channels:
            if not self._is_over(channel):
                for _ in range(random.randint(1, 20)):
                    self._publish_on(channel, random)

    async def _consume(self, random: Random, kind: str, queue: str) -> Consuming:
        declared, consumed = KINDS[kind]
        channel = await self._new_channel(random)
        try:
            await channel.declare_queue(queue, **declared)
            consumer = await channel.consume(queue, **consumed)
        except LocalProtocolError as error:
            if not self._is_over(channel):
                raise
            raise ConnectionLost(str(error)) from error
        return Consuming(kind, queue, channel, consumer)

    def do_consume(self, random: Random, *, poisoned: bool = False) -> None:
        self.numbers += 1
        kind = "durable" if poisoned else random.choice(list(KINDS))
        queue = f"{kind}-{self.numbers}"
        client = self.client

        def ended(result: Any) -> None:
            if isinstance(result, Consuming):
                if result.channel._client is not self.client or not self.serves(client):
                    return
                if kind == "auto-delete":
                    self.auto_delete.add(queue)
                result.poisoned = poisoned
                self.consumers.append(result)
                for _ in range(self.random.randint(1, 3)):
                    self._work(result)
                if poisoned:
                    self._produce(queue, b"poison " + bytes(2 * BODY))

        self.call(f"consume {queue}", self._consume(random, kind, queue), ended)

    def do_poison(self, random: Random) -> None:
        """A consumer whose queue gets a message that is larger than the client takes."""
        self.do_consume(random, poisoned=True)

    def _pick(self, random: Random) -> Consuming | None:
        return random.choice(self.consumers) if self.consumers else None

    def do_cancel_consumer(self, random: Random) -> None:
        if consuming := self._pick(random):
            self.consumers.remove(consuming)
            self.note(f"end the consumer of {consuming.queue}")
            how = consuming.consumer.cancel if random.random() < 0.5 else consuming.channel.close
            self.call(f"end consumer of {consuming.queue}", self._ending(consuming.channel, how()))

    async def _ending(self, channel: Any, work: Any) -> None:
        try:
            await work
        except LocalProtocolError:
            if not self._is_over(channel):
                raise

    def _work(self, consuming: Consuming) -> None:
        task = self.program(self._worker(consuming, Random(self.random.random())))
        consuming.workers.append(task)
        task.add_done_callback(consuming.workers.remove)

    async def _worker(self, consuming: Consuming, random: Random) -> None:
        consumer = consuming.consumer
        while True:
            try:
                message = await anext(consumer)
            except StopAsyncIteration:
                return
            except FAILURES as error:
                if isinstance(error, asyncio.CancelledError):
                    raise
                self.note(f"consumer of {consuming.queue} raises {error!r}")
                return
            self.got[self.name(message.body)] += 1
            try:
                await asyncio.sleep(random.choice((0, 0, 0.05, 1.0)))
            except asyncio.CancelledError:
                message.nack()
                raise
            message.ack()

    def do_work(self, random: Random) -> None:
        if consuming := self._pick(random):
            self._work(consuming)

    def do_stop_work(self, random: Random) -> None:
        consuming = self._pick(random)
        if consuming and consuming.workers:
            consuming.workers[0].cancel()

    def do_bad_call(self, random: Random) -> None:
        """A call that the server refuses: it ends its channel, and no other one."""

        async def bad() -> None:
            channel = await self._new_channel(random)
            await channel.declare_queue("missing", passive=True)

        def ended(result: Any) -> None:
            if not isinstance(result, Exception | asyncio.CancelledError):
                self.violate("a queue that does not exist is declared passively")

        self.call("declare missing", bad(), ended)

    def do_get(self, random: Random) -> None:
        channel = self._channel(random)
        consuming = self._pick(random)
        if channel and consuming and consuming.kind == "durable" and not consuming.poisoned:

            async def get() -> None:
                try:
                    message = await channel.get(consuming.queue)
                except LocalProtocolError:
                    if not self._is_over(channel):
                        raise
                    return
                if message is not None:
                    message.nack()

            self.call("get", get())

    def do_big_method(self, random: Random) -> None:
        """A method that is larger than a frame is not sent."""

        async def big() -> None:
            channel = await self._new_channel(random)
            try:
                await channel.declare_queue("big", arguments={"a": "x" * 140_000})
            except LocalProtocolError:
                await channel.close()

        def ended(result: Any) -> None:
            if isinstance(result, Refused) and "by the" not in str(result):
                self.violate(f"a method that does not fit into a frame: {result!r}")

        self.call("declare big", big(), ended)

    # ---- the server

    @property
    def router(self) -> Any:
        return self.models[0].broker.hosts["/"]

    def _produce(self, queue: str, payload: bytes) -> bool:
        found = self.router.queues.get(queue)
        if found is None:
            return False
        properties = amqp091.BasicProperties()
        self.router.put([found], Published(Envelope(properties.encode(), "", queue, None, 0, properties, ""), payload))
        return True

    def do_produce(self, random: Random) -> None:
        if consuming := self._pick(random):
            for _ in range(random.randint(1, 6)):
                self._produce(consuming.queue, self.message(random, "p"))

    def do_refuse_calls(self, random: Random) -> None:
        model = self.models[0]
        model.refuse_calls = random.randint(1, 3)
        model.code = random.choice(PASSING if random.random() < 0.8 else LASTING)

    def do_refuse_opens(self, random: Random) -> None:
        """The virtual host has all the connections that it may have."""
        self._until_later(random, self.models[0], refuse_opens=530)

    def do_refuse_logins(self, random: Random) -> None:
        self.may_end = True
        self._until_later(random, self.models[0], refuse_logins=True)

    def do_reject(self, random: Random) -> None:
        self.models[0].reject = random.randint(1, 3)

    def _open_peers(self) -> list[Any]:
        return [peer for peer in self.models[0].peers() if peer.connection.state is State.OPEN]

    def do_close_channels(self, random: Random) -> None:
        """An operator's fault ends channels."""
        for peer in self._open_peers():
            for view in list(peer.channels.values()):
                if view.state is ChannelState.OPEN and random.random() < 0.3:
                    peer.update(view.close(406, "by the operator"))

    def do_close_peers(self, random: Random) -> None:
        for peer in self._open_peers():
            peer.close(random.choice((320, 541)), "by the operator")

    def do_delete_queue(self, random: Random) -> None:
        queues = sorted(self.router.queues)
        if queues:
            name = random.choice(queues)
            self.note(f"delete queue {name}")
            self.refused.add(name)
            self.router.delete_queue(self.router.queues[name])

    def do_block(self, random: Random) -> None:
        """A resource alarm."""
        for peer in self._open_peers():
            peer.connection.block("alarm")
            peer.update()
            self.loop.call_later(random.choice((0.5, 4.0)), self._unblock, peer)

    def _unblock(self, peer: Any) -> None:
        if peer.connection.state is State.OPEN:
            peer.connection.unblock()
            peer.update()

    # ---- well again

    async def prove(self) -> None:
        for consuming in list(self.consumers):
            if self._over(consuming):
                self.consumers.remove(consuming)
        await asyncio.gather(*(self._prove_consumer(consuming) for consuming in self.consumers))
        for channel in self.channels:
            if not self._is_over(channel):
                self._publish_on(channel, Random(1))

    def _over(self, consuming: Consuming) -> bool:
        """True: it has ended for a reason."""
        consumer, channel = consuming.consumer, consuming.channel
        if not consumer._ended and not self._is_over(channel):
            return False
        error = consumer._error or channel._error
        reason = consuming.queue in self.refused or "by the operator" in str(error) or consuming.poisoned
        if not reason and self.reconnect is not None and not self.may_end:
            self.violate(f"the consumer of {consuming.queue} has ended: {error!r}")
        return True

    async def _prove_consumer(self, consuming: Consuming) -> None:
        if consuming.poisoned:
            self._produce(consuming.queue, b"poison " + bytes(2 * BODY))
            await self.until(
                lambda: consuming.consumer._ended, f"the consumer of {consuming.queue} knows of its poison"
            )
            return
        self._work(consuming)
        payload = self.message(Random(1), "probe")
        name = self.name(payload)
        # it is restored when the refusals that pass have passed
        await self.until(
            lambda: self._over(consuming) or self._consumed(consuming), f"{consuming.queue} is consumed from"
        )
        for _ in range(20):
            if self._over(consuming) or self.got[name]:
                return
            self._produce(consuming.queue, payload)  # a queue that is exclusive may die with it
            await asyncio.sleep(5.0)
        self.violate(f"no probe arrives from {consuming.queue}")

    def _consumed(self, consuming: Consuming) -> bool:
        queue = self.router.queues.get(consuming.queue)
        return queue is not None and bool(queue.consumers)

    async def prove_new(self) -> None:
        random = Random(0)
        self.do_new_channel(random)
        self.do_consume(random)
        self.do_bad_call(random)
        await self.settle()
        if not self.channels:
            self.violate("no new channel can be opened")
        await self.prove_bounded(lambda: self.channels[-1].publish(b"many ", routing_key="in"))
        await self.prove_full_disk(lambda: self.channels[-1].publish(b"full ", routing_key="in"))
        for name, queue in self.router.queues.items():
            # a connection that ends between declare and consume leaves a queue that has had no consumer
            lives = name in self.declared and not self.declared[name].driver._over
            if queue.auto_delete and not queue.consumers and name in self.auto_delete - self.refused and lives:
                self.violate(f"the auto-delete queue {name} is there without a consumer")

    async def closed(self) -> None:
        await self.end_of([task for consuming in self.consumers for task in consuming.workers])


WORLD = Amqp091World
