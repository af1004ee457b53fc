"""The PHPMQ client beside a model server. The protocol has no answers and no heartbeats: what is published may be lost, and a
connection that is dead is noticed when something is written."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar, Literal

from wirefmt import phpmq
from wirefmt.broker.phpmq import Broker

from .liveness import FAILURES, ModelServer, World


class Model(ModelServer):
    """The server."""

    world: PhpmqWorld

    def __init__(self, world: Any, make: Any) -> None:
        super().__init__(world, make)
        self.known: set[Any] = set()

    def take(self, peer: Any, event: Any) -> None:
        if peer not in self.known:
            self.known.add(peer)
            self.accepted(peer)
        super().take(peer, event)


class PhpmqWorld(World):
    PROTOCOL = "phpmq"
    CLUSTER = (7000, 7001)
    HOST: ClassVar[dict[str, float]] = {
        "publish": 8, "burst": 3, "consume": 2, "work": 2, "stop_work": 1.5, "cancel_call": 3, "reopen": 1,
    }  # fmt: skip
    SERVER: ClassVar[dict[str, float]] = {
        "produce": 8, "hold": 3, "release": 2, "accept_and_drop": 0.7, "close_peers": 1, "restart": 1,
    }  # fmt: skip
    NETWORK: ClassVar[dict[str, float]] = {name: weight for name, weight in World.NETWORK.items() if name != "vanish"}

    def __init__(self, seed: int, script: Any = None) -> None:
        super().__init__(seed, script)
        self.profile: Literal["early", "present"] = self.random.choice(("early", "present"))
        self.models = [Model(self, lambda: Broker(random=Random(1)))]
        self.queue = ""  # that the program consumes from
        self.workers: list[asyncio.Task[Any]] = []
        self.numbers = 0

    def make_client(self) -> phpmq.Client:
        return phpmq.connect(
            self.urls("phpmq"), profile=self.profile, reconnect=self.reconnect, timeout=3.0,
            random=Random(self.seed), on_event=self.told,
        )  # fmt: skip

    async def serve(self) -> None:
        options = phpmq.ConnectionOptions(profile=self.profile)
        for port in self.ports:
            self.models[0].servers.append(await phpmq.serve(self.models[0], port=port, options=options))

    def begin(self) -> None:
        self.do_consume(self.random)
        self.do_work(self.random)

    def forget(self) -> None:
        self.queue = ""

    # ---- the program

    def _publish(self, random: Random) -> None:
        self.call("publish", self.client.publish("in", self.message(random)))

    def do_consume(self, random: Random) -> None:
        self.numbers += 1
        queue, client = f"out{self.numbers}", self.client

        def ended(result: Any) -> None:
            if result is None and client is self.client and self.serves(client):
                self.queue = queue

        self.queue = ""
        self.call(f"consume {queue}", client.consume(queue, random.choice((1, 2, 10))), ended)

    def do_work(self, random: Random) -> None:
        task = self.program(self._worker(self.client, Random(random.random())))
        self.workers.append(task)
        task.add_done_callback(self.workers.remove)

    async def _worker(self, client: Any, random: Random) -> None:
        while True:
            try:
                message = await client.get()
            except FAILURES as error:
                if isinstance(error, asyncio.CancelledError):
                    raise
                if self.serves(client):
                    self.violate(f"get() raises {error!r}, and the client is not over")
                return
            if message is None:
                return
            self.got[self.name(message.content_bytes())] += 1
            try:
                await asyncio.sleep(random.choice((0, 0, 0.05, 0.5)))
            finally:
                client.acknowledge(message)

    def do_stop_work(self, random: Random) -> None:
        if self.workers:
            random.choice(self.workers).cancel()

    # ---- the server

    def _produce(self, payload: bytes) -> None:
        self.models[0].broker.publish(self.queue, payload)

    def do_produce(self, random: Random) -> None:
        for _ in range(random.randint(1, 6) if self.queue else 0):
            self._produce(self.message(random, "p"))

    def do_close_peers(self, random: Random) -> None:
        for peer in self.models[0].peers():
            peer.close()

    # ---- well again

    async def prove(self) -> None:
        if self.queue:
            self.do_work(Random(1))
            payload = self.message(Random(1), "probe")
            self._produce(payload)
            await self.until(lambda: bool(self.got[self.name(payload)]), f"a probe arrives from {self.queue}")

    async def prove_new(self) -> None:
        self.do_consume(Random(0))
        self._publish(Random(0))
        await self.settle()
        if not self.queue:
            self.violate("nothing can be consumed")
        await self.prove_bounded(lambda: self.client.publish("in", b"many "))

    async def closed(self) -> None:
        await self.end_of(self.workers)


WORLD = PhpmqWorld
