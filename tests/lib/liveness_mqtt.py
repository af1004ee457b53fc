"""The MQTT client (3.1.1 and 5.0) beside a model server: all QoS, sessions that the server forgets, journals."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker, Message
from wirefmt.errors import Refused
from wirefmt.mqtt import ConnectionOptions

from .liveness import FAILURES, ModelServer, World

#: Codes of CONNACK that pass, by version, and one that does not.
UNAVAILABLE = {5: (0x88, 0x89, 0x97, 0x9F), 4: (3,)}
DENIED = {5: 0x87, 4: 5}
#: Codes of SUBACK: quota exceeded passes, not authorized does not. 3.1.1 has one code.
QUOTA, NOT_AUTHORIZED, FAILURE = 0x97, 0x87, 0x80


class Model(ModelServer):
    """The server.

    Attributes:
        refuse: the code of CONNACK; None: clients are accepted.
        refuse_filters: how many SUBSCRIBEs are refused, with `code`.
        refuse_messages: how many messages are refused (5.0).
        forget: True: the next client's session is not there any more.
    """

    world: MqttWorld
    refuse: int | None = None
    refuse_filters = 0
    code = 0
    refuse_messages = 0
    forget = False

    def take(self, peer: Any, event: Any) -> None:
        world = self.world
        gone = peer.connection.state is mqtt.State.CLOSED
        match event:
            case mqtt.Connect() if self.refuse is not None and not gone:
                peer.refuse(event, self.refuse)
                return
            case mqtt.Connect():
                if self.forget:
                    self.forget = False
                    subscriber = self.broker.subscribers.get("sim")
                    if subscriber is not None and subscriber.peer is None:
                        world.note("the session is forgotten")
                        world.forgotten = True
                        self.broker._sessions.end(subscriber)
                self.accepted(peer)
            case mqtt.Subscribe() if self.refuse_filters and not gone:
                self.refuse_filters -= 1
                filters = [subscription.topic_filter for subscription in event.subscriptions]
                world.note(f"refuse {filters} {self.code:#x}")
                world.refused.update(filters)
                peer.grant(event, [self.code] * len(filters))
                return
            case mqtt.Publish() if event.qos:
                if gone:  # the server has died before it has looked at it
                    return
                if self.swallows(peer):
                    return
                if self.refuse_messages and peer.connection.version == 5:
                    self.refuse_messages -= 1
                    peer.acknowledge(event, QUOTA)
                    return
                name = world.name(event.payload_bytes())
                world.arrivals[name] += 1
                # a client that does not get the CONNACK cannot know that its session was forgotten
                if event.qos == 2 and world.arrivals[name] > 1 and not world.forgotten:
                    world.violate(f"{name!r} of QoS 2 has arrived twice")
        super().take(peer, event)

    def lose_all(self) -> None:
        self.world.forgotten = True
        super().lose_all()


class MqttWorld(World):
    PROTOCOL = "mqtt"
    CLUSTER = (7000, 7001)
    HOST: ClassVar[dict[str, float]] = {
        "publish": 10, "burst": 3, "subscribe": 3, "unsubscribe": 1, "work": 2, "stop_work": 1.5, "cancel_call": 3,
        "reopen": 1, "full_disk": 0.7,
    }  # fmt: skip
    SERVER: ClassVar[dict[str, float]] = {
        "produce": 8, "hold": 3, "release": 2, "refuse_connects": 1, "deny": 0.2, "refuse_filters": 1.5,
        "refuse_messages": 1, "accept_and_drop": 0.7, "swallow": 1, "close_peers": 1, "forget_session": 1.5, "restart": 1,
    }  # fmt: skip

    def __init__(self, seed: int, script: Any = None) -> None:
        super().__init__(seed, script)
        random = self.random
        self.version = random.choice((4, 5))
        self.in_flight = random.choice((None, 1, 2, 20))
        self.inbox = random.choice((1, 5, 1000))
        self.options = ConnectionOptions(
            receive_maximum=random.choice((1, 2, 10, 1024)), answer_timeout=2.0, connect_timeout=3.0
        )
        self.server_options = ConnectionOptions(
            receive_maximum=random.choice((1, 2, 10, 1024)), undecided=random.choice((1, 5, 1024)), connect_timeout=3.0
        )
        self.models = [Model(self, lambda: Broker(random=Random(1)))]
        self.filters: dict[str, int] = {}  # those that the program has -> QoS
        self.refused: set[str] = set()  # filters that were refused once
        self.workers: list[asyncio.Task[Any]] = []
        self.forgotten = False  # the server has lost a session
        self.numbers = 0

    def make_client(self) -> mqtt.Client:
        return mqtt.connect(
            self.urls("mqtt"), client_identifier="sim", version=self.version, keep_alive=3,
            reconnect=self.reconnect, options=self.options, timeout=3.0, in_flight=self.in_flight, inbox=self.inbox,
            journal=self.journal_path, random=Random(self.seed), on_event=self.told,
        )  # fmt: skip

    async def serve(self) -> None:
        for port in self.ports:
            self.models[0].servers.append(await mqtt.serve(self.models[0], port=port, options=self.server_options))

    def begin(self) -> None:
        for _ in range(3):
            self.do_subscribe(self.random)
        for _ in range(2):
            self.do_work(self.random)

    def forget(self) -> None:
        self.filters.clear()

    # ---- the program

    def _publish(self, random: Random) -> None:
        payload = self.message(random)
        qos = random.choice((0, 1, 1, 2, 2))
        client = self.client
        work = client.publish("in", payload, qos=qos)
        if qos:
            self.publish(
                payload, f"publish qos {qos}", work, lambda: not self.serves(client) or (qos == 2 and self.forgotten)
            )
        else:
            self.call("publish qos 0", work)

    def do_subscribe(self, random: Random) -> None:
        self.numbers += 1
        topic, qos = f"out/{self.numbers}", random.choice((0, 1, 2))
        client = self.client

        def ended(result: Any) -> None:
            if isinstance(result, tuple) and result[0] < 0x80 and client is self.client and self.serves(client):
                self.filters[topic] = qos

        self.call(f"subscribe {topic}", client.subscribe(topic, qos=qos), ended)

    def do_unsubscribe(self, random: Random) -> None:
        if self.filters:
            topic = random.choice(list(self.filters))
            del self.filters[topic]
            self.call(f"unsubscribe {topic}", self.client.unsubscribe(topic))

    def do_work(self, random: Random) -> None:
        task = self.program(self._worker(self.client, Random(random.random())))
        self.workers.append(task)
        task.add_done_callback(self.workers.remove)

    async def _worker(self, client: Any, random: Random) -> None:
        while True:
            try:
                async for message in client.messages():
                    self.got[self.name(message.payload_bytes())] += 1
                    await asyncio.sleep(random.choice((0, 0, 0.05, 1.0)))
                return
            except FAILURES as error:
                if isinstance(error, asyncio.CancelledError):
                    raise
                if not self.serves(client):
                    return
                self.note(f"messages() raises {error!r}")
                if not isinstance(error, Refused) or not self.refused:  # a subscription was not granted again
                    self.violate(f"messages() raises {error!r}, and the client is not over")
                    return

    def do_stop_work(self, random: Random) -> None:
        if self.workers:
            random.choice(self.workers).cancel()

    # ---- the server

    def _produce(self, topic: str, payload: bytes) -> None:
        self.models[0].broker.publish(Message(topic, payload, 2))

    def do_produce(self, random: Random) -> None:
        if self.filters:
            topic = random.choice(list(self.filters))
            for _ in range(random.randint(1, 6)):
                self._produce(topic, self.message(random, "p"))

    def do_refuse_connects(self, random: Random) -> None:
        self._until_later(random, self.models[0], refuse=random.choice(UNAVAILABLE[self.version]))

    def do_deny(self, random: Random) -> None:
        self.may_end = True
        self._until_later(random, self.models[0], refuse=DENIED[self.version])

    def do_refuse_filters(self, random: Random) -> None:
        model = self.models[0]
        model.refuse_filters = random.randint(1, 2)
        model.code = random.choice((QUOTA, NOT_AUTHORIZED)) if self.version == 5 else FAILURE

    def do_refuse_messages(self, random: Random) -> None:
        self.models[0].refuse_messages = random.randint(1, 3)

    def do_close_peers(self, random: Random) -> None:
        """The server's operator ends the connections."""
        for peer in self.models[0].peers():
            if peer.connection.state is mqtt.State.CONNECTED:
                peer.close(random.choice((0x8B, 0x97, 0x98)))

    def do_forget_session(self, random: Random) -> None:
        """The connection is lost, and the server has no session when the client comes back."""
        self.models[0].forget = True
        for peer in self.models[0].peers():
            peer.driver.abort()

    # ---- well again

    async def prove(self) -> None:
        for topic in list(self.filters):
            if topic in self.refused:
                del self.filters[topic]  # the program knows it
        self.do_work(Random(1))
        await asyncio.gather(*(self._prove_filter(topic) for topic in self.filters))
        for _ in range(5):
            self._publish(Random(1))

    async def _prove_filter(self, topic: str) -> None:
        payload = self.message(Random(1), "probe")
        self._produce(topic, payload)
        await self.until(lambda: bool(self.got[self.name(payload)]), f"a probe arrives by {topic}")

    async def prove_new(self) -> None:
        known = set(self.filters)
        self.do_subscribe(Random(0))
        await self.settle()
        if set(self.filters) == known:
            self.violate("no new subscription can be made")
        await self.prove_bounded(lambda: self.client.publish("in", b"many ", qos=1))
        await self.prove_full_disk(lambda: self.client.publish("in", b"full ", qos=1))

    async def closed(self) -> None:
        await self.end_of(self.workers)


WORLD = MqttWorld
