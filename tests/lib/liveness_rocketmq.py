"""The RocketMQ client beside a model of a name server and broker: producers, consumers of all kinds, requests and replies."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar, Literal

from wirefmt import rocketmq
from wirefmt.broker.rocketmq import Broker, BrokerOptions
from wirefmt.errors import LocalProtocolError
from wirefmt.rocketmq import ConnectionOptions, RemotingCommand

from .liveness import FAILURES, ModelServer, World

ADDRESS = "127.0.0.1:7000"
SEND_MESSAGE = 310
#: Codes of refusals: system error, busy, the topic does not exist, no permission, go away.
CODES = (1, 2, 17, 16, 1500)


class Model(ModelServer):
    """The server.

    Attributes:
        refuse: how many requests are answered with `code`.
    """

    world: RocketmqWorld
    refuse = 0
    code = 0

    def take(self, peer: Any, event: Any) -> None:
        world = self.world
        if isinstance(event, RemotingCommand):
            if peer not in self.known:
                self.known.add(peer)
                self.accepted(peer)
            if event.code == SEND_MESSAGE and self.swallows(peer):
                return
            if self.refuse and not event.is_oneway and not peer.driver._over:
                self.refuse -= 1
                peer.respond(event, self.code, remark="by the script")
                return
            if event.code == SEND_MESSAGE and not peer.driver._over:
                world.arrivals[world.name(event.body_bytes() or b"")] += 1
        super().take(peer, event)

    def __init__(self, world: Any, make: Any) -> None:
        super().__init__(world, make)
        self.known: set[Any] = set()


class RocketmqWorld(World):
    PROTOCOL = "rocketmq"
    HOST: ClassVar[dict[str, float]] = {
        "send": 10, "burst": 3, "oneway": 1, "transact": 1, "ask": 1.5, "consume": 2, "close_consumer": 1.5, "pull": 2,
        "pop": 2, "cancel_call": 3, "reopen": 1,
    }  # fmt: skip
    SERVER: ClassVar[dict[str, float]] = {
        "hold": 3, "release": 2, "refuse_requests": 2, "accept_and_drop": 0.7, "swallow": 1, "close_peers": 1, "restart": 1,
    }  # fmt: skip

    def __init__(self, seed: int, script: Any = None) -> None:
        super().__init__(seed, script)
        random = self.random
        self.serialize: Literal["JSON", "ROCKETMQ"] = random.choice(("JSON", "ROCKETMQ"))
        self.options = ConnectionOptions(serialize_type=self.serialize)
        broker = BrokerOptions(delay=0.001, lock=3.0, check_after=1.0, ask=1.0, queues=random.choice((1, 4)))
        self.models = [Model(self, lambda: Broker(broker, ADDRESS))]
        self.reconnect = None  # connections are made as calls need them
        self.producer: Any = None
        self.consumers: dict[str, Any] = {}  # topic -> push consumer
        self.numbers = 0

    def make_client(self) -> rocketmq.Client:
        return rocketmq.connect(
            ADDRESS, client_id="sim", route_interval=3.0, heartbeat_interval=3.0, timeout=1.0, options=self.options,
            random=Random(self.seed),
        )  # fmt: skip

    def serves(self, client: Any) -> bool:
        return bool(client._open)

    async def open(self, client: Any) -> None:
        client.open()
        self.producer = client.producer("producers", check=lambda message: "commit")

    async def serve(self) -> None:
        self.models[0].servers.append(await rocketmq.serve(self.models[0], port=7000))

    def begin(self) -> None:
        for _ in range(2):
            self.do_consume(self.random)

    def forget(self) -> None:
        self.consumers.clear()

    # ---- the program

    def _send(self, payload: bytes, topic: str) -> None:
        self.publish(payload, f"send to {topic}", self._sent(payload, topic))

    async def _sent(self, payload: bytes, topic: str) -> None:
        result = await self.producer.send(topic, payload)
        if result.status != "SEND_OK":
            self.violate(f"send returns {result!r}")

    def do_send(self, random: Random) -> None:
        for _ in range(random.randint(1, 5)):
            self._send(self.message(random), "in")

    def do_burst(self, random: Random) -> None:
        for _ in range(random.randint(10, 40)):
            self._send(self.message(random), "in")
        for topic in self.consumers:
            self._send(self.message(random), topic)

    def do_oneway(self, random: Random) -> None:
        self.call("send one-way", self.producer.send_oneway("in", self.message(random)))

    def do_transact(self, random: Random) -> None:
        decision = random.choice(("commit", "rollback", "unknown"))
        work = self.producer.send_transaction("in", self.message(random), lambda identifier: decision)
        self.call("send in a transaction", work)

    def do_ask(self, random: Random) -> None:
        """A request whose reply a consumer sends."""
        if self.consumers:
            topic = random.choice(list(self.consumers))
            self.call(f"request to {topic}", self.producer.request(topic, b"ask ", timeout=3.0))

    def do_consume(self, random: Random) -> None:
        self.numbers += 1
        topic = f"out{self.numbers}"
        self.models[0].broker.topic(topic)
        client, producer = self.client, self.producer
        pause = random.choice((0.0, 0.05, 0.5))

        async def listen(message: Any) -> bool:
            name = self.name(message.body)
            self.got[name] += 1
            if name == b"ask":
                try:
                    await producer.reply(message, b"answer ")
                except FAILURES as error:
                    if isinstance(error, asyncio.CancelledError):
                        raise
                return True
            await asyncio.sleep(pause)
            return self.healed or random.random() > 0.1

        consumer = client.push_consumer(
            f"group{self.numbers}", {topic: "*"}, listen, begin="first", orderly=random.random() < 0.3, workers=2,
            poll_time=2.0, rebalance_interval=2.0, store_interval=1.0, lock_interval=1.0, pause=0.3, cached=5,
        )  # fmt: skip

        def ended(result: Any) -> None:
            if result is None and client is self.client and self.serves(client):
                self.consumers[topic] = consumer
            elif not isinstance(result, LocalProtocolError):
                self.call(f"close the consumer of {topic}", consumer.close())

        self.call(f"consume {topic}", consumer.start(), ended)

    def do_close_consumer(self, random: Random) -> None:
        if self.consumers:
            topic = random.choice(list(self.consumers))
            self.call(f"close the consumer of {topic}", self.consumers.pop(topic).close())

    def do_pull(self, random: Random) -> None:
        async def pull() -> None:
            consumer = self.client.pull_consumer("pullers")
            for queue in await consumer.queues("in"):
                await consumer.pull(queue, await consumer.min_offset(queue), 5)

        self.call("pull", pull())

    def do_pop(self, random: Random) -> None:
        async def pop() -> None:
            consumer = self.client.pop_consumer("poppers")
            for message in await consumer.pop("in", invisible=1.0, wait=1.0):
                if random.random() < 0.7:
                    await consumer.ack(message)

        self.call("pop", pop())

    # ---- the server

    def do_refuse_requests(self, random: Random) -> None:
        self.models[0].refuse = random.randint(1, 5)
        self.models[0].code = random.choice(CODES)

    def do_close_peers(self, random: Random) -> None:
        """The server goes away, as for an upgrade."""
        for peer in self.models[0].peers():
            if not peer.driver._over:
                peer.close()

    # ---- well again

    async def prove(self) -> None:
        payload = self.message(Random(1), "probe")
        await self.sooner_or_later(lambda: self.producer.send("in", payload), "to send a probe")
        await asyncio.gather(*(self._prove_consumer(topic) for topic in self.consumers))

    async def _prove_consumer(self, topic: str) -> None:
        payload = self.message(Random(1), "probe")
        name = self.name(payload)
        self.models[0].broker.topic(topic)
        await self.sooner_or_later(lambda: self.producer.send(topic, payload), f"to send a probe to {topic}")
        await self.until(lambda: bool(self.got[name]) or topic not in self.consumers, f"a probe arrives from {topic}")
        answer = await self.sooner_or_later(
            lambda: self.producer.request(topic, b"ask ", timeout=10.0), f"to ask {topic}"
        )
        if answer.body != b"answer ":
            self.violate(f"the reply is {answer.body!r}")

    async def prove_new(self) -> None:
        known = len(self.consumers)
        self.do_consume(Random(0))
        self.do_pull(Random(0))
        self.do_pop(Random(0))
        await self.settle()
        if len(self.consumers) == known:
            self.violate("no new consumer can be made")
        await self.prove_bounded(lambda: self.producer.send("in", b"many "))


WORLD = RocketmqWorld
