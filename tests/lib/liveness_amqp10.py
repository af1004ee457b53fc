"""The AMQP 1.0 client beside a model server: senders, receivers with several tasks, bad links, windows from 1."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any, ClassVar

from lib.kinds import checked
from wirefmt import amqp10
from wirefmt.amqp10 import Attaching, ConnectionOptions, Incoming, Login
from wirefmt.amqp10.ends import Sender
from wirefmt.amqp10.receiving import Receiver
from wirefmt.broker.amqp10 import Broker, BrokerOptions
from wirefmt.broker.messages import Published
from wirefmt.connection import Acknowledged
from wirefmt.convert import Container
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

from .liveness import FAILURES, ModelServer, World

#: Conditions of refusals that pass, and of some that do not.
PASSING = ("amqp:resource-locked", "amqp:resource-limit-exceeded", "amqp:not-found", "amqp:internal-error")
LASTING = ("amqp:unauthorized-access", "amqp:not-allowed", "amqp:not-implemented")


class Model(ModelServer):
    """The server.

    Attributes:
        refuse_links, end_sessions: how many attaches are answered so, and the condition.
        refuse_opens: the condition with which opens are refused; None: they are not.
        refuse_logins: the code of sasl-outcome; None: logins are good.
    """

    world: Amqp10World
    refuse_links = 0
    end_sessions = 0
    condition = ""
    refuse_opens: str | None = None
    refuse_logins: int | None = None

    def take(self, peer: Any, event: Any) -> None:
        world = self.world
        match event:
            case Login() if self.refuse_logins is not None:
                peer.refuse(event, self.refuse_logins)
                return
            case amqp10.Open() if self.refuse_opens is not None:
                peer.refuse(event, amqp10.Error(condition=self.refuse_opens, description="not now"))
                return
            case amqp10.Open():
                self.accepted(peer)
            case Attaching():
                link = event.link
                if not link.session.mapped:  # ended by the answer to another one
                    return
                terminus = event.message.source if link.sends else event.message.target
                missing = "missing" in str(getattr(terminus, "address", ""))
                if missing or self.end_sessions or self.refuse_links:
                    if missing:
                        condition, end = "amqp:not-found", world.like_rabbitmq
                    else:
                        condition, end = self.condition, bool(self.end_sessions)
                        self.end_sessions -= end
                        self.refuse_links -= not end
                    if condition not in PASSING:
                        world.refused.add(link.name)
                    error = amqp10.Error(condition=condition, description="by the script")
                    world.note(f"refuse {link.name} {condition}{', ending the session' if end else ''}")
                    if end:
                        link.session.end(error=error)
                        peer.update()
                    else:
                        peer.refuse(event, error)
                    return
            case Incoming():
                if self.swallows(peer):
                    return
                world.arrivals[world.name(_body(event.payload))] += 1
            case Acknowledged():
                found = self.broker._clients[peer].sending.get(event.handle)
                if found is not None:
                    world.settled(world.name(_body(found[1].for_amqp10())), event.code)
        super().take(peer, event)


def _body(payload: Any) -> bytes:
    return bytes(checked(amqp10.decode_message(bytes(payload)).payload, memoryview))


class Amqp10World(World):
    PROTOCOL = "amqp10"
    CLUSTER = (7000, 7001)
    HOST: ClassVar[dict[str, float]] = {
        "send": 12, "burst": 4, "new_sender": 2, "new_receiver": 2, "bad_link": 1.5, "close_link": 1, "work": 3,
        "stop_work": 1.5, "cancel_call": 3, "reopen": 1.5, "full_disk": 0.7, "stream": 1,
    }  # fmt: skip
    SERVER: ClassVar[dict[str, float]] = {
        "produce": 8, "hold": 3, "release": 2, "refuse_links": 1.5, "end_sessions": 1.5, "refuse_opens": 0.7,
        "refuse_logins": 0.5, "accept_and_drop": 0.7, "swallow": 1, "end_session": 1, "detach": 1, "close_peers": 1,
        "no_credit": 1, "restart": 1,
    }  # fmt: skip

    def __init__(self, seed: int, script: Any = None) -> None:
        super().__init__(seed, script)
        random = self.random
        self.like_rabbitmq = random.random() < 0.5
        self.options = ConnectionOptions(
            overrun=1000,
            incoming_window=random.choice((1, 2, 7, 2048)),
            unsettled=random.choice((1, 2, 10, 65536)),
            idle_timeout=random.choice((4.0, 10.0)),
        )
        self.server_options = ConnectionOptions(
            incoming_window=random.choice((1, 2, 3, 20, 2048)),
            unsettled=random.choice((2, 10, 65536)),
            idle_timeout=10.0,
        )
        self.credit = random.choice((1, 2, 10, 200))
        self.models = [Model(self, lambda: Broker(BrokerOptions(credit=self.credit)))]
        self.ends: list[Any] = []  # senders and receivers that the program has
        self.queues: dict[Any, str] = {}  # the queue of each
        self.workers: dict[Any, list[asyncio.Task[Any]]] = {}  # of each receiver
        self.refused: set[str] = set()  # links that the server has refused or detached permanently
        self.working: Counter[bytes] = Counter()  # messages that tasks work on, of receivers that accept by themselves
        self.queue_number = 0

    def make_client(self) -> amqp10.Client:
        return amqp10.connect(
            self.urls("amqp"), reconnect=self.reconnect, options=self.options, timeout=3.0,
            container_id="sim", random=Random(self.seed), on_event=self.told, journal=self.journal_path,
        )  # fmt: skip

    async def serve(self) -> None:
        for port in self.ports:
            self.models[0].servers.append(await amqp10.serve(self.models[0], port=port, options=self.server_options))

    def begin(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.do_new_sender(self.random)
        self.do_new_receiver(self.random)
        self.do_new_receiver(self.random)

    # ---- the program

    def _attach(self, kind: str, queue: str, **more: Any) -> None:
        client = self.client
        made = client.sender if kind == "sender" else client.receiver
        bad = queue == "missing"

        def ended(result: Any) -> None:
            if isinstance(result, Sender | Receiver):
                if bad:
                    self.violate("a link to a queue that does not exist is attached")
                self.ends.append(result)
                self.queues[result] = queue
                if isinstance(result, Receiver):
                    self.workers[result] = []
                    if not more["credit"]:
                        try:
                            result.grant(10_000)
                        except ConnectionLost:  # it ended at this moment
                            self.ends.remove(result)
                            self.call("close link", result.close())
                            return
                    for _ in range(self.random.randint(1, 3)):
                        self._work(result)
            elif isinstance(result, Refused) and not bad and not self._was_refused(result):
                self.violate(f"a good {kind} gets the error of another one: {result!r}")

        self.call(
            f"attach {kind} {queue}", made(f"/queues/{queue}", **more), ended, allowed=(*FAILURES, LocalProtocolError)
        )

    def _was_refused(self, error: Refused) -> bool:
        ended = str(error).rstrip() == "the server has ended the session"  # without an error
        return ended or "by the script" in str(error) or not self.client.is_open

    def do_new_sender(self, random: Random) -> None:
        self._attach("sender", f"in{random.randrange(3)}")

    def do_new_receiver(self, random: Random) -> None:
        self.queue_number += 1
        self._attach(
            "receiver", f"out{self.queue_number}",
            credit=random.choice((0, 1, 2, 10, 100)), settle=random.choice(("automatic", "manual")),
        )  # fmt: skip

    def do_bad_link(self, random: Random) -> None:
        kind = random.choice(("sender", "receiver"))
        self._attach(kind, "missing", **({"credit": 1} if kind == "receiver" else {}))

    def _pick(self, random: Random, kind: Any) -> Any:
        found = [end for end in self.ends if isinstance(end, kind)]
        return random.choice(found) if found else None

    def _send(self, sender: Any, payload: bytes) -> None:
        self.publish(payload, f"send on {sender.name}", sender.send(amqp10.Message(body=payload)), self._over(sender))

    def _over(self, sender: Any) -> Any:
        return lambda: sender.error is not None or sender.closing is not None

    def do_send(self, random: Random) -> None:
        if sender := self._pick(random, Sender):
            for _ in range(random.randint(1, 5)):
                self._send(sender, self.message(random))

    def do_burst(self, random: Random) -> None:
        """All senders at once."""
        for end in list(self.ends):
            if isinstance(end, Sender):
                for _ in range(random.randint(1, 20)):
                    self._send(end, self.message(random))

    def do_stream(self, random: Random) -> None:
        if sender := self._pick(random, Sender):
            payload = self.message(random, "s")
            encoded = amqp10.Message(body=payload).encode()
            cut = random.randint(1, len(encoded) - 1)
            self.publish(payload, f"stream on {sender.name}", sender.stream([encoded[:cut], encoded[cut:]]))

    def do_close_link(self, random: Random) -> None:
        if end := self._pick(random, Sender | Receiver):
            self.ends.remove(end)
            self.call(f"close {end.name}", end.close())

    def _work(self, receiver: Any) -> None:
        task = self.program(self._worker(receiver, Random(self.random.random())))
        self.workers[receiver].append(task)
        task.add_done_callback(self.workers[receiver].remove)

    async def _worker(self, receiver: Any, random: Random) -> None:
        """A task that takes deliveries."""
        while True:
            try:
                delivery = await receiver.receive()
            except FAILURES as error:
                if isinstance(error, asyncio.CancelledError):
                    raise
                if receiver.error is None and receiver.closing is None:
                    self.violate(f"receive of {receiver.name} raises {error!r}, and the receiver is not over")
                return
            name = self.name(_body(delivery.payload))
            self.got[name] += 1
            if receiver._automatic:
                self.working[name] += 1
            try:
                await asyncio.sleep(random.choice((0, 0, 0.05, 1.0)))
                if not receiver._automatic:
                    receiver.accept(delivery)
            except asyncio.CancelledError:
                if not delivery.decided and not delivery.settled:
                    receiver.release(delivery)
                raise
            finally:
                if receiver._automatic:
                    self.working[name] -= 1

    def settled(self, name: bytes, code: int) -> None:
        if self.working[name] > 0 and code == 0 and self.got[name] == 1:
            self.violate(f"{name!r} is accepted while a task works on it")

    def do_work(self, random: Random) -> None:
        if receiver := self._pick(random, Receiver):
            self._work(receiver)

    def do_stop_work(self, random: Random) -> None:
        if receiver := self._pick(random, Receiver):
            for task in self.workers[receiver][:1]:
                task.cancel()

    def forget(self) -> None:
        self.ends.clear()

    # ---- the server

    def do_produce(self, random: Random) -> None:
        if receiver := self._pick(random, Receiver):
            for _ in range(random.randint(1, 6)):
                self._produce(receiver, self.message(random, "p"))

    def _produce(self, receiver: Any, payload: bytes) -> None:
        broker = self.models[0].broker
        router, queue = broker.router, broker.queue(self.queues[receiver])
        router.put([queue], Published.of(Container(amqp10.Message(body=payload).encode(), source="amqp10")))

    def _condition(self, random: Random) -> str:
        return random.choice(PASSING if random.random() < 0.8 else LASTING)

    def do_refuse_links(self, random: Random) -> None:
        self.models[0].refuse_links = random.randint(1, 3)
        self.models[0].condition = self._condition(random)

    def do_end_sessions(self, random: Random) -> None:
        self.models[0].end_sessions = random.randint(1, 2)
        self.models[0].condition = self._condition(random)

    def do_refuse_opens(self, random: Random) -> None:
        self._until_later(random, self.models[0], refuse_opens="amqp:connection:forced")

    def do_refuse_logins(self, random: Random) -> None:
        code = random.choice((2, 4, 1))
        self.may_end |= code != 4
        self._until_later(random, self.models[0], refuse_logins=code)

    def _peer(self, random: Random) -> Any:
        peers = [peer for peer in self.models[0].peers() if peer.connection.state is amqp10.State.OPENED]
        return random.choice(sorted(peers, key=lambda peer: peer.address)) if peers else None

    def _sessions(self, random: Random) -> Any:
        peer = self._peer(random)
        sessions = [s for s in peer.connection.sessions.values() if s.mapped] if peer is not None else []
        return (peer, random.choice(sessions)) if sessions else (None, None)

    def do_end_session(self, random: Random) -> None:
        peer, session = self._sessions(random)
        if session is not None:
            session.end(
                random.choice((None, amqp10.Error(condition="amqp:internal-error", description="by the script")))
            )
            peer.update()

    def do_detach(self, random: Random) -> None:
        peer, session = self._sessions(random)
        links = [link for link in session.links.values() if link.attached] if session is not None else []
        if links:
            link = random.choice(links)
            condition = random.choice(("amqp:link:detach-forced", "amqp:resource-deleted"))
            if condition == "amqp:resource-deleted":
                self.refused.add(link.name)
            self.note(f"detach {link.name} {condition}")
            link.detach(amqp10.Error(condition=condition, description="by the script"))
            peer.update()

    def do_close_peers(self, random: Random) -> None:
        """An operator closes the connections."""
        for peer in self.models[0].peers():
            if peer.connection.state is amqp10.State.OPENED:
                peer.close(amqp10.Error(condition="amqp:connection:forced", description="by the operator"))

    def do_no_credit(self, random: Random) -> None:
        """Senders get no credit, for a time."""
        peer, session = self._sessions(random)
        if session is None:
            return
        links = [link for link in session.links.values() if isinstance(link, amqp10.Receiver) and link.attached]
        for link in links:
            link.keep(0)
            link.grant(0)
            self.loop.call_later(1.0, self._credit_again, peer, link)
        peer.update()

    def _credit_again(self, peer: Any, link: Any) -> None:
        if link.attached and peer.connection.state is amqp10.State.OPENED:
            link.keep(self.credit)
            peer.update()

    # ---- well again

    async def prove(self) -> None:
        for end in list(self.ends):
            if end.error is not None:
                if end.name not in self.refused and self.reconnect is not None and not self.may_end:
                    self.violate(f"{end.name} has ended, which was not refused permanently: {end.error!r}")
                self.ends.remove(end)
        await asyncio.gather(*(self._prove_end(end) for end in list(self.ends)))

    async def prove_new(self) -> None:
        random = Random(0)
        self.do_new_sender(random)
        self.do_new_receiver(random)
        self.do_bad_link(random)
        await self.settle()
        if not any(isinstance(end, Sender) for end in self.ends):
            self.violate("no new sender can be made")
        sender = next((end for end in self.ends if isinstance(end, Sender)), None)
        if sender is not None:
            await self.prove_bounded(lambda: sender.send(amqp10.Message(body=b"many ")))
            await self.prove_full_disk(lambda: sender.send(amqp10.Message(body=b"full ")))

    async def _prove_end(self, end: Any) -> None:
        payload = self.message(Random(1), "probe")
        name = self.name(payload)
        if isinstance(end, Sender):
            outcome = await self.within(end.send(amqp10.Message(body=payload)), f"to send a probe on {end.name}")
            if not isinstance(outcome, amqp10.Accepted):
                self.violate(f"the probe of {end.name} is answered {outcome!r}")
        else:
            self._work(end)
            self._produce(end, payload)
            await self.until(lambda: bool(self.got[name]), f"a probe arrives at {end.name}")

    async def closed(self) -> None:
        await self.end_of([task for tasks in self.workers.values() for task in tasks])


WORLD = Amqp10World
