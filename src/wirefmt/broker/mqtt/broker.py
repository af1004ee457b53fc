"""The broker: its parts, put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random, SystemRandom
from typing import Any

from wirefmt import mqtt
from wirefmt.broker.mqtt.figures import Figures, Traffic
from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.outgoing import Outgoing
from wirefmt.broker.mqtt.publishing import Publishing
from wirefmt.broker.mqtt.retained import Retained
from wirefmt.broker.mqtt.rights import Rights
from wirefmt.broker.mqtt.sessions import Sessions
from wirefmt.broker.mqtt.subscriptions import Subscriptions
from wirefmt.broker.mqtt.values import Clients, Message, Subscriber
from wirefmt.broker.mqtt.walks import Walks
from wirefmt.broker.parts import Assembly
from wirefmt.broker.routing import Router
from wirefmt.broker.shares import Shares
from wirefmt.broker.topics import TopicTree
from wirefmt.connection.contract import Acknowledged, Connected, Disconnected, WindowOpened
from wirefmt.mqtt.events import Dropped, Event, Released
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import Delivery


class Broker(Assembly[BrokerOptions]):
    """Routes messages between clients. Give it to `mqtt.serve`, to several servers if wanted, and close it afterwards.

    Attributes:
        subscribers: sessions by Client Identifier.
        retained: retained messages by topic.
        observe: called with each message that is accepted from MQTT, before it is delivered; None: no observer.
        counts: messages "dropped" from full queues, "expired", "too_large" for a client, "unconvertible" from or to AMQP;
            clients "slow" and disconnected.
        shares: its bytes count for `BrokerOptions.memory`, and its messages are those that something keeps.

    Args:
        options: policies and limits.
        router: what connects it with AMQP: messages go to what is bound to its exchange amq.topic, and those published there
            come to MQTT's subscriptions, "a/b" with the routing key "a.b". None: messages stay within MQTT.
        random: for assigned Client Identifiers; None: the system's.
    """

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        router: Router | None = None,
        random: Random | None = None,
    ) -> None:
        self._options = options = options or BrokerOptions()
        self.router = router
        self.counts: Counter[str] = Counter()
        self._traffic = Traffic()
        self._clients = clients = Clients()
        self._memory = memory = Memory(options)
        self._rights = rights = Rights(options)
        self._retained = retained = Retained(options, memory, self.counts)
        self._outgoing = outgoing = Outgoing(options, memory, self.counts)
        self._walks = walks = Walks(retained, outgoing, rights, memory)
        self._figures = Figures(options.sys_interval, self._values, self._say, self._unsay)
        self._subscriptions = subscriptions = Subscriptions(options, clients, memory, rights, walks, self._figures)
        self._publishing = publishing = Publishing(
            options, router, clients, memory, rights, retained, outgoing, walks, subscriptions, self.counts
        )
        self._sessions = Sessions(
            options,
            router,
            random or SystemRandom(),
            clients,
            memory,
            rights,
            outgoing,
            walks,
            subscriptions,
            publishing,
            self._traffic,
            self.counts,
        )
        self._parts = (memory, rights, retained, outgoing, subscriptions, publishing, self._sessions)
        self._handlers: dict[type[Any], Callable[[Peer, Any], Iterator[int] | None]] = {
            mqtt.Connect: self._sessions.connect,
            Connected: self._go_on,
            mqtt.Publish: publishing.publish,
            Released: publishing.release,
            mqtt.Subscribe: subscriptions.subscribe,
            mqtt.Unsubscribe: subscriptions.unsubscribe,
            Acknowledged: self._acknowledged,
            WindowOpened: self._acknowledged,
            Dropped: self._acknowledged,
            mqtt.Auth: self._ignore,
            Disconnected: self._sessions.disconnected,
        }

    @property
    def subscribers(self) -> dict[str, Subscriber]:
        return self._clients.subscribers

    @property
    def retained(self) -> TopicTree[Message]:
        return self._retained.tree

    @property
    def shares(self) -> Shares:
        return self._memory

    @property
    def observe(self) -> Callable[[Message], object] | None:
        return self._publishing.observe

    @observe.setter
    def observe(self, observe: Callable[[Message], object] | None) -> None:
        self._publishing.observe = observe

    def close(self) -> None:
        """Forget everything. Close the servers first, or drop their clients."""
        self._sessions.close()
        self._retained.clear()
        self._memory.clear()
        self._walks.close()
        self._publishing.close()
        self.counts.clear()

    def publish(self, message: Message) -> int:
        """Route a message of the program's own. Returns the code that a client would get."""
        return self._publishing.accept(message)

    def repeat(self, peer: Peer, event: mqtt.Publish) -> None:
        """Route a message of a client once more, if the client is still there and may publish it."""
        self._publishing.repeat(peer, event)

    # ---- called by the server

    def handle(self, peer: Peer, event: Event) -> None:
        steps = self._handlers[type(event)](peer, event)
        if steps is not None:
            peer.driver.later(steps)

    def handle_run(self, peer: Peer, events: list[Any], at: int) -> int:
        """Several events together: see `wirefmt.connection.aio.Host`. They are messages that go on as they are, or
        acknowledgements that nothing waits for."""
        kind = type(events[at])
        if kind is mqtt.Publish:
            return self._publishing.publish_run(peer, events, at)
        if kind is Acknowledged:
            subscriber = self._clients.by_peer.get(peer)
            if subscriber is not None and not (
                subscriber.queue or subscriber.expiring or subscriber.unacknowledged or subscriber.passed_over
            ):
                count = len(events)
                while at < count and type(events[at]) is Acknowledged:
                    at += 1
        return at

    def writable(self, peer: Peer) -> None:
        subscriber = self._clients.by_peer.get(peer)
        if subscriber is not None:
            self._drain(subscriber)

    def closed(self, peer: Peer) -> None:
        pass

    def _go_on(self, peer: Peer, event: Connected) -> None:
        self._drain(self._clients.by_peer[peer])

    def _acknowledged(self, peer: Peer, event: Acknowledged | WindowOpened | Dropped) -> None:
        subscriber = self._clients.by_peer.get(peer)
        if subscriber is None:
            return
        if (subscriber.expiring or subscriber.unacknowledged) and not isinstance(event, WindowOpened):
            assert isinstance(event.handle, Delivery)  # a server sends no requests
            subscriber.expiring.pop(event.handle, None)
            self._outgoing.settle(subscriber, event.handle)
        if subscriber.queue or subscriber.passed_over:
            self._drain(subscriber)

    def _drain(self, subscriber: Subscriber) -> None:
        """A client may be able to take messages again."""
        self._walks.drain(subscriber)
        if subscriber.passed_over and subscriber.peer is not None:
            subscriber.peer.driver.spend(self._subscriptions.restore(subscriber))

    def _ignore(self, peer: Peer, event: Event) -> None:
        pass

    # ---- figures

    def _values(self) -> dict[str, int]:
        """Names below `$SYS/broker/`, and values, as mosquitto's manual has them."""
        connected, total = len(self._clients.by_peer), len(self._clients.subscribers)
        shared = sum(len(sharing) for sharing in self._subscriptions.shared.values())
        return {
            "clients/total": total,
            "clients/connected": connected,
            "clients/disconnected": total - connected,
            "clients/maximum": self._clients.most,
            "messages/stored": self._memory.messages,
            "store/messages/count": self._memory.messages,
            "store/messages/bytes": self._memory.bytes,
            "retained messages/count": len(self._retained.order),
            "subscriptions/count": sum(len(each.subscriptions) for each in self._clients.subscribers.values()) - shared,
            "shared_subscriptions/count": shared,
            "publish/messages/dropped": self.counts["dropped"],
            **self._traffic.now(peer.connection for peer in self._clients.by_peer),
        }

    def _say(self, topic: str, payload: bytes) -> None:
        """Publish a figure, within MQTT."""
        message = Message(topic, payload, retain=True)
        targets = self._subscriptions.index.match(topic)
        if self._walks.count:
            self._walks.bring_forward(topic, targets)
        self._retained.drop(topic)
        self._retained.tree.put(topic, message)
        self._publishing.give(message, targets)

    def _unsay(self, topic: str) -> None:
        if topic not in self._retained.order:
            self._retained.tree.discard(topic)
