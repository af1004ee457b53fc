"""The NSQ client beside three model servers: a producer, consumers that share max_in_flight, look-ups, slow handlers."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

from wirefmt import nsq
from wirefmt.broker.nsq import Broker
from wirefmt.nsq import ConnectionOptions, State

from .liveness import BACKOFF, ModelServer, World
from .virtual_network import WHO

#: Milliseconds that a message may be in flight, and seconds that a slow handler needs.
MSG_TIMEOUT = 1000
SLOW = 3.0
#: Heartbeats of a flood, and how many of them may be answered before the loop does something else.
FLOOD, TURN = 50_000, 5000
LOOKUP_PORT = 7100


class Model(ModelServer):
    """One nsqd.

    Attributes:
        refuse_subs, refuse_publications: how many SUB, PUB, DPUB and MPUB are refused.
        refuse: True: IDENTIFY is refused.
    """

    world: NsqWorld
    refuse_subs = 0
    refuse_publications = 0
    refuse = False

    def take(self, peer: Any, event: Any) -> None:
        world = self.world
        gone = peer.driver._over
        match event:
            case nsq.Identify() if self.refuse and not gone:
                peer.close("E_INVALID", "by the script")
                return
            case nsq.Identify():
                self.accepted(peer)
            case nsq.Sub() if self.refuse_subs and not gone:
                self.refuse_subs -= 1
                peer.refuse(event, "E_SUB_FAILED", "by the script")
                return
            case nsq.Publish() | nsq.DeferredPublish() | nsq.MultiPublish():
                if gone or self.swallows(peer):
                    return
                if self.refuse_publications:
                    self.refuse_publications -= 1
                    peer.refuse(event, "E_PUB_FAILED", "by the script")
                    return
                for body in event.bodies if isinstance(event, nsq.MultiPublish) else (event.body_bytes(),):
                    world.arrivals[world.name(body)] += 1
        if gone and not isinstance(event, nsq.Identify | nsq.Sub):
            try:
                super().take(peer, event)
            except KeyError:  # its channel has been left
                pass
        elif not gone:
            super().take(peer, event)


class Consuming:
    """A consumer as the program has it.

    Attributes:
        topic, consumer, most: what it is; `most` is max_in_flight.
        working: messages that handlers work on.
    """

    def __init__(self, topic: str, consumer: Any, most: int) -> None:
        self.topic = topic
        self.consumer = consumer
        self.most = most
        self.working: set[Any] = set()
        self.workers: list[asyncio.Task[Any]] = []


class NsqWorld(World):
    PROTOCOL = "nsq"
    PORTS = (7000, 7001, 7002)
    HOST: ClassVar[dict[str, float]] = {
        "publish": 10, "burst": 3, "many": 2, "consume": 2, "close_consumer": 1.5, "work": 2, "stop_work": 1,
        "change_in_flight": 1, "cancel_call": 3, "reopen": 1, "full_disk": 0.5,
    }  # fmt: skip
    SERVER: ClassVar[dict[str, float]] = {
        "produce": 8, "hold": 3, "release": 2, "refuse": 1, "refuse_identify": 0.5, "refuse_subs": 1.5,
        "refuse_publications": 1, "accept_and_drop": 0.7, "swallow": 1, "close_peers": 1, "delete_topic": 1, "restart": 1,
    }  # fmt: skip

    def __init__(self, seed: int, script: Any = None) -> None:
        super().__init__(seed, script)
        random = self.random
        self.looked_up = random.random() < 0.4
        self.deflate = random.random() < 0.3
        self.options = ConnectionOptions(unanswered=random.choice((1, 2, 10, 10_000)), answer_timeout=3.0)
        self.server_options = ConnectionOptions(
            undecided=random.choice((1, 5, 1024)), identify_timeout=3.0, heartbeat_interval=2000
        )
        self.models = [Model(self, Broker) for _ in self.PORTS]
        self.lookup: Any = None
        self.consumers: list[Consuming] = []
        self.numbers = 0

    def make_client(self) -> nsq.Client:
        urls = [f"nsq://127.0.0.1:{port}" for port in (self.PORTS[:1] if self.looked_up else self.PORTS)]
        return nsq.connect(
            *urls, lookup=[f"http://127.0.0.1:{LOOKUP_PORT}"] if self.looked_up else (), lookup_interval=2.0,
            identify={"msg_timeout": MSG_TIMEOUT, "heartbeat_interval": 2000}, deflate=self.deflate,
            reconnect=self.reconnect, options=self.options, timeout=3.0, random=Random(self.seed),
            journal=self.journal_path, on_event=self.told,
        )  # fmt: skip

    async def serve(self) -> None:
        for model, port in zip(self.models, self.PORTS, strict=True):
            model.servers.append(await nsq.serve(model, port=port, options=self.server_options))
        if self.looked_up:
            self.lookup = await self.models[0].broker.serve_lookup(0, port=LOOKUP_PORT)
            self.lookup._answer = self._look_up

    def _look_up(self, path: str) -> tuple[int, Any]:
        """What nsqlookupd says: the servers that have the topic."""
        topic = path.rpartition("topic=")[2]
        producers = [
            {"broadcast_address": "127.0.0.1", "tcp_port": port}
            for model, port in zip(self.models, self.PORTS, strict=True)
            if topic in model.broker.topics
        ]
        return (200, {"channels": [], "producers": producers}) if producers else (404, {"message": "TOPIC_NOT_FOUND"})

    def begin(self) -> None:
        for _ in range(2):
            self.do_consume(self.random)

    def forget(self) -> None:
        """Consumers have connections of their own: the program closes them, too."""
        for consuming in self.consumers:
            self.call(f"close consumer of {consuming.topic}", consuming.consumer.close())
        self.consumers.clear()

    # ---- the program

    def _publish(self, random: Random, *, many: bool = False) -> None:
        client = self.client
        payloads = [self.message(random) for _ in range(3 if many else 1)]
        work = client.publish_many("in", payloads) if many else client.publish("in", payloads[0])
        self.publish(payloads[0], "publish", work, lambda: client._ended or client._closing)

    def do_many(self, random: Random) -> None:
        self._publish(random, many=True)

    def do_consume(self, random: Random) -> None:
        self.numbers += 1
        number, most = self.numbers, random.choice((1, 2, 3, 10))
        topic = f"out{number}"
        if self.looked_up:
            for model in self.models[: random.randint(1, 3)]:
                model.broker.topic(topic)
        consuming = Consuming(topic, self.client.consume(topic, "c", max_in_flight=most, backoff=BACKOFF), most)

        async def begin() -> Consuming:
            if not self.looked_up:
                WHO.set(f"consumer {number}")
            await consuming.consumer.open()
            return consuming

        def ended(result: Any) -> None:
            if isinstance(result, Consuming) and consuming.consumer._client is self.client:
                self.consumers.append(consuming)
                for _ in range(random.randint(1, 6)):
                    self._work(consuming)
            elif isinstance(result, Consuming):  # its client is closed meanwhile
                self.call(f"close consumer of {topic}", consuming.consumer.close())

        self.call(f"consume {topic}", begin(), ended)

    def _pick(self, random: Random) -> Consuming | None:
        return random.choice(self.consumers) if self.consumers else None

    def do_close_consumer(self, random: Random) -> None:
        if consuming := self._pick(random):
            self.consumers.remove(consuming)
            self.call(f"close consumer of {consuming.topic}", consuming.consumer.close())

    def do_change_in_flight(self, random: Random) -> None:
        if consuming := self._pick(random):
            consuming.most = max(consuming.most, 5)
            consuming.consumer.change_max_in_flight(5)

    def _work(self, consuming: Consuming) -> None:
        task = self.program(self._worker(consuming, Random(self.random.random())))
        consuming.workers.append(task)
        task.add_done_callback(consuming.workers.remove)

    async def _worker(self, consuming: Consuming, random: Random) -> None:
        working = consuming.working
        while True:
            try:
                message = await consuming.consumer.get()
            except StopAsyncIteration:
                return
            name = self.name(message.body)
            self.got[name] += 1
            working.add(message)
            flying = sum(one.in_flight for one in working)
            if flying > consuming.most:
                self.violate(
                    f"{flying} messages of {consuming.topic} in flight at once, max_in_flight is {consuming.most}"
                )
            try:
                await asyncio.sleep(SLOW if name.startswith(b"slow") else random.choice((0, 0, 0.05, 0.7)))
                if random.random() < 0.05 and not self.healed:
                    message.requeue(0.1)
                else:
                    message.finish()
            except asyncio.CancelledError:
                message.requeue(0, backoff=False)
                raise
            finally:
                working.discard(message)

    def do_work(self, random: Random) -> None:
        if consuming := self._pick(random):
            self._work(consuming)

    def do_stop_work(self, random: Random) -> None:
        consuming = self._pick(random)
        if consuming and consuming.workers:
            consuming.workers[0].cancel()

    # ---- the servers

    def _produce(self, model: Any, topic: str, payload: bytes) -> None:
        model.broker.publish(topic, payload)

    def do_produce(self, random: Random) -> None:
        if consuming := self._pick(random):
            for _ in range(random.randint(1, 6)):
                self._produce(self.model(random), consuming.topic, self.message(random, "p"))

    def do_refuse_identify(self, random: Random) -> None:
        self._until_later(random, self.model(random), refuse=True)

    def do_refuse_subs(self, random: Random) -> None:
        self.model(random).refuse_subs = random.randint(1, 3)

    def do_refuse_publications(self, random: Random) -> None:
        self.model(random).refuse_publications = 1

    def do_close_peers(self, random: Random) -> None:
        for peer in self.model(random).peers():
            if not peer.driver._over:
                peer.close()

    def _delete(self, topic: str) -> None:
        """An operator deletes a topic everywhere: its consumers are disconnected."""
        self.note(f"delete {topic}")
        for model in self.models:
            found = model.broker.topics.pop(topic, None)
            for channel in found.channels.values() if found is not None else ():
                for peer in list(channel.clients):
                    peer.driver.abort()
                channel.close()

    def do_delete_topic(self, random: Random) -> None:
        if consuming := self._pick(random):
            self._delete(consuming.topic)

    # ---- well again

    async def prove(self) -> None:
        await asyncio.gather(*(self._prove_consumer(consuming) for consuming in self.consumers))
        for _ in range(3):
            self._publish(Random(1))

    async def _prove_consumer(self, consuming: Consuming) -> None:
        """A probe from each server arrives; a handler that is slow gets its message once."""
        self._work(consuming)
        probes = {self.name(payload := self.message(Random(1), "probe")): payload for _ in self.models}
        for model, payload in zip(self.models, probes.values(), strict=True):
            self._produce(model, consuming.topic, payload)
        await self.until(lambda: all(self.got[name] for name in probes), f"probes arrive for {consuming.topic}")
        payload = self.message(Random(1), "slow")
        self._produce(self.models[0], consuming.topic, payload)
        await self.until(lambda: bool(self.got[self.name(payload)]), f"a message arrives for {consuming.topic}")
        await asyncio.sleep(2 * SLOW)
        count = self.got[self.name(payload)]
        if count > 1 and consuming in self.consumers:
            self.violate(f"a handler of {SLOW:g} s gets its message {count} times: no TOUCH")

    async def prove_new(self) -> None:
        known = list(self.consumers)
        self.do_consume(Random(0))
        await self.settle()
        if len(self.consumers) == len(known):
            self.violate("no new consumer can be made")
        await self.prove_bounded(lambda: self.client.publish("in", b"many "))
        await self.prove_full_disk(lambda: self.client.publish("in", b"full "))
        if self.deflate:
            await self._flood()
        if self.looked_up and self.consumers:
            topic = self.consumers[-1].topic
            await asyncio.sleep(5.0)  # no SUB is pending
            self._delete(topic)
            await asyncio.sleep(10.0)
            # the first server is in the client's URL: the topic is made again there
            if any(topic in model.broker.topics for model in self.models[1:]):
                self.violate(f"the topic {topic} was deleted, and is there again")

    async def _flood(self) -> None:
        """A server sends very many heartbeats, which are few bytes: the loop goes round meanwhile."""
        peers = [peer for peer in self.models[0].peers() if peer.connection.state is State.SUBSCRIBED]
        if not peers:
            return
        wire = next(wire for wire in self.network.wires if wire.server is peers[0].driver.transport)
        outbox = wire.client.protocol.connection._outbox
        begin = before = outbox.position
        answer = len(b"NOP\n")
        most = 0

        def watch() -> None:
            nonlocal before, most
            most = max(most, outbox.position - before)
            before = outbox.position

        self.loop.watch = watch
        for _ in range(FLOOD):
            peers[0].connection._outbox.put(nsq.Response(b"_heartbeat_").encode())
        peers[0].driver.update()
        await self.until(
            lambda: wire.client.lost or outbox.position >= begin + FLOOD * answer, "a flood of heartbeats is over"
        )
        self.loop.watch = None
        if most > TURN * answer:
            self.violate(f"{most // answer} heartbeats are answered before the loop does anything else")

    async def closed(self) -> None:
        for consuming in self.consumers:
            await self.within(consuming.consumer.close(), f"to close the consumer of {consuming.topic}")
        await self.end_of([task for consuming in self.consumers for task in consuming.workers], 2 * SLOW)
        if self.lookup is not None:
            await self.lookup.close()


WORLD = NsqWorld
