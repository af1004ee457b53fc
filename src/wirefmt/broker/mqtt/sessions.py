"""Sessions: CONNECT, the end of a connection, of a session, and wills (3.1, 3.14, 4.1)."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from wirefmt import mqtt
from wirefmt.broker.mqtt.figures import Traffic
from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.mqtt.outgoing import Outgoing
from wirefmt.broker.mqtt.publishing import Publishing
from wirefmt.broker.mqtt.rights import Rights
from wirefmt.broker.mqtt.subscriptions import Subscriptions
from wirefmt.broker.mqtt.values import SESSION_BYTES, Clients, Subscriber, levels, size_of, will_size
from wirefmt.broker.mqtt.walks import Walks
from wirefmt.broker.routing import Router
from wirefmt.broker.shares import Holder
from wirefmt.connection.aio.driver import WORK
from wirefmt.connection.contract import Disconnected
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.codes import ReasonCode, ReturnCode
from wirefmt.mqtt.events import find, without
from wirefmt.mqtt.server import Peer
from wirefmt.mqtt.session import NEVER

#: Return codes of CONNACK before 5.0 for reason codes; SERVER_UNAVAILABLE for others.
OLD_CODES: Final[Mapping[int, ReturnCode]] = {
    ReasonCode.MALFORMED_PACKET: ReturnCode.NOT_AUTHORIZED,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ReturnCode.IDENTIFIER_REJECTED,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ReturnCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED: ReturnCode.NOT_AUTHORIZED,
    ReasonCode.BANNED: ReturnCode.NOT_AUTHORIZED,
}


class Sessions:
    """Begins, resumes and ends the sessions of clients."""

    def __init__(
        self,
        options: BrokerOptions,
        router: Router | None,
        random: Random,
        clients: Clients,
        memory: Memory,
        rights: Rights,
        outgoing: Outgoing,
        walks: Walks,
        subscriptions: Subscriptions,
        publishing: Publishing,
        traffic: Traffic,
        counts: Counter[str],
    ) -> None:
        self.options = options
        self.counts = counts
        self._router = router
        self._random = random
        self._clients = clients
        self._memory = memory
        self._rights = rights
        self._outgoing = outgoing
        self._walks = walks
        self._subscriptions = subscriptions
        self._publishing = publishing
        self._traffic = traffic
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, peer: Peer, connect: mqtt.Connect) -> Iterator[int] | None:
        """CONNECT."""
        authenticate = self.options.authenticate
        code = ReasonCode.SUCCESS if authenticate is None else authenticate(connect, peer)
        if not inspect.isawaitable(code):
            assert isinstance(code, int)
            return self._decide(peer, connect, code)
        later = code

        async def wait() -> None:
            try:
                code = await later
            except Exception as error:
                peer.driver.report(error)
                peer.abort()
                return
            try:
                for _ in self._decide(peer, connect, code) or ():
                    await asyncio.sleep(0)
            except LocalProtocolError:  # the client has gone meanwhile
                pass

        task = asyncio.get_running_loop().create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None

    def _decide(self, peer: Peer, connect: mqtt.Connect, code: int) -> Iterator[int] | None:
        five = connect.version == 5
        will = connect.will
        identifier = connect.client_identifier
        if not code and find(connect.properties, "authentication_method") is not None:
            code = ReasonCode.BAD_AUTHENTICATION_METHOD
        if not code and will is not None:
            (code,) = self._rights.ask(connect.user_name or "", identifier, connect)
        if not code and self.options.authenticate is not None and identifier in self._clients.subscribers:
            # a session belongs to its user: nobody else gets it, ends it, or takes the place of its client
            owner = self._clients.subscribers[identifier].user
            code = ReasonCode.SUCCESS if owner == (connect.user_name or "") else ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
        if not code and will is not None and levels(will.topic) > self.options.topic_levels:
            code = ReasonCode.TOPIC_NAME_INVALID
        size = SESSION_BYTES + size_of(connect.properties) + (will_size(will) if will is not None else 0)
        known = self._clients.subscribers.get(identifier)
        if known is not None:
            holder = known.holder
        else:
            holder = self._memory.holder((connect.user_name or "") if self.options.authenticate is not None else None)
            if not code and self._memory.lacks(holder, "sessions", self.options.sessions):
                code = ReasonCode.QUOTA_EXCEEDED
        if not code and not self._memory.has_capacity(holder, size - (known.size if known is not None else 0)):
            code = ReasonCode.QUOTA_EXCEEDED
        if (
            not code
            and identifier not in self._clients.subscribers
            and len(self._clients.subscribers) >= self.options.sessions
        ):
            oldest = next(iter(self._clients.away), None) if self.options.sessions_overflow == "drop_oldest" else None
            if oldest is None:
                code = ReasonCode.QUOTA_EXCEEDED
            else:
                self.end(oldest)
                self.counts["sessions dropped"] += 1
        if code:
            peer.refuse(connect, code if five else OLD_CODES.get(code, ReturnCode.SERVER_UNAVAILABLE))
            return None
        if known is not None and known.peer is not None:
            return self._take_over(peer, connect, size, holder)
        self._let_in(peer, connect, size, holder)
        return None

    def _take_over(self, peer: Peer, connect: mqtt.Connect, size: int, holder: Holder) -> Iterator[int]:
        """End the client's connection before [MQTT-3.1.4-3]; its session may end with it, and its will may be published. What it
        has sent, and waits for its turn, comes first."""
        while (
            known := self._clients.subscribers.get(connect.client_identifier)
        ) is not None and known.peer is not None:
            if known.peer.connection.state is not mqtt.State.CLOSED:
                known.peer.close(ReasonCode.SESSION_TAKEN_OVER)
            else:
                yield WORK
        self._let_in(peer, connect, size, holder)

    def _let_in(self, peer: Peer, connect: mqtt.Connect, size: int, holder: Holder) -> None:
        five, identifier = connect.version == 5, connect.client_identifier
        properties: list[tuple[str, Any]] = []
        if not identifier:
            identifier = self._random.randbytes(10).hex()
            if five:
                properties.append(("assigned_client_identifier", identifier))
        asked = find(connect.properties, "session_expiry_interval", 0)
        if five:
            if asked > self.options.session_expiry:
                properties.append(("session_expiry_interval", self.options.session_expiry))
            longest = self.options.maximum_keep_alive
            if longest is not None and not 0 < connect.keep_alive <= longest:
                properties.append(("server_keep_alive", longest))
            if self.options.maximum_qos < 2:
                properties.append(("maximum_qos", self.options.maximum_qos))
            if not self.options.retain_available:
                properties.append(("retain_available", 0))
        old = self._clients.subscribers.get(identifier)
        if old is not None and connect.clean_start:
            self.end(old)
            old = None
        if old is not None:
            self._age(old)
        try:
            events = peer.connection.accept(connect, old.session if old is not None else None, properties)
        except LocalProtocolError as error:
            if five and isinstance(error.reply, int) and error.reply != ReasonCode.PACKET_TOO_LARGE:
                peer.refuse(connect, error.reply)
            else:
                peer.abort()
            return
        session = peer.connection.session
        assert session is not None
        if old is not None:
            subscriber = old
        else:
            subscriber = Subscriber(identifier, session, holder)
            holder.count("sessions")
            if self._router is not None:
                named = self.options.authenticate is not None
                subscriber.routed = self._router.shares.holder((connect.user_name or "") if named else None)
        session.client_identifier = identifier
        self._stop_timers(subscriber)
        subscriber.will = None  # [MQTT-3.1.3-9]: within the delay it is not published
        self._memory.resize(subscriber, size)
        subscriber.peer = peer
        subscriber.user = connect.user_name or ""
        if old is not None:
            self._check_rights(subscriber)
        self._clients.away.pop(subscriber, None)
        self._clients.subscribers[identifier] = subscriber
        self._clients.by_peer[peer] = subscriber
        self._clients.most = max(self._clients.most, len(self._clients.by_peer))
        peer.driver.update(events)

    def _age(self, subscriber: Subscriber) -> None:
        """Before messages are sent again: what is left of their time [MQTT-3.3.2-6]. Those of QoS 2 do not expire any more
        [MQTT-4.3.3-7]."""
        session, now = subscriber.session, asyncio.get_running_loop().time()
        for delivery, expires in list(subscriber.expiring.items()):
            del subscriber.expiring[delivery]
            if (
                session.outgoing.get(delivery.packet_identifier) is not delivery
                or (message := delivery.message) is None
            ):
                continue
            if expires <= now and delivery.qos == 1:
                session.discard(delivery)
                self.counts["expired"] += 1
                self._outgoing.settle(subscriber, delivery)
                continue
            left = ("message_expiry_interval", max(1, int(expires - now + 0.5)))
            amended = session.amend(delivery, (*without(message.properties, left[0]), left))
            subscriber.expiring[amended] = expires
            if delivery in subscriber.unacknowledged:
                subscriber.unacknowledged[amended] = subscriber.unacknowledged.pop(delivery)

    def _check_rights(self, subscriber: Subscriber) -> None:
        """A session goes on: its subscriptions need their rights again, and so do the messages that wait."""
        for topic_filter, subscription in list(subscriber.subscriptions.items()):
            packet = mqtt.Subscribe(packet_identifier=1, subscriptions=[subscription.asked], version=5)
            if any(self._rights.ask(subscriber.user, subscriber.identifier, packet)):
                self._subscriptions.remove(subscription)
                del subscriber.subscriptions[topic_filter]
            elif subscription.shared is not None:
                self._subscriptions.rejoin(subscription)
        if self.options.permissions is not None:
            self._memory.sift(subscriber, lambda message: self._rights.gets(subscriber.user, message.topic))

    def disconnected(self, peer: Peer, event: Disconnected) -> None:
        """A connection is over."""
        self._traffic.end(peer.connection)
        subscriber = self._clients.by_peer.pop(peer, None)
        if subscriber is None:
            return
        subscriber.peer = None
        loop = asyncio.get_running_loop()
        expiry = min(subscriber.session.expiry_interval, self.options.session_expiry)
        delay = 0
        if event.will is not None:
            delay = find(event.will.properties, "will_delay_interval", 0)
            subscriber.will = self._publishing.will(event.will, subscriber.identifier)
        if not expiry:
            self.end(subscriber)
            return
        will = subscriber.will.size if subscriber.will is not None and delay else 0
        self._memory.resize(subscriber, SESSION_BYTES + will + subscriber.session.outgoing_bytes)
        self._clients.away[subscriber] = None
        self._subscriptions.leave(subscriber)
        if expiry != NEVER:
            subscriber.expiry_timer = loop.call_later(expiry, self.end, subscriber)
        if subscriber.will is not None:
            if delay:
                subscriber.will_timer = loop.call_later(delay, self._publish_will, subscriber)
            else:
                self._publish_will(subscriber)

    def _publish_will(self, subscriber: Subscriber) -> None:
        will, subscriber.will = subscriber.will, None
        if will is not None and subscriber.size:  # else its session is over
            self._memory.resize(subscriber, max(SESSION_BYTES, subscriber.size - will.size))
        if will is not None and not self._rights.authorise(
            subscriber.user, subscriber.identifier, "will", "mqtt.publish", will.topic
        ):
            if will.expires is not None:  # its time begins now (3.1.3.2.4)
                will.expires += asyncio.get_running_loop().time()
            self._publishing.accept_silently(will)

    def end(self, subscriber: Subscriber) -> None:
        """The session is over: its subscriptions, its queue; a will that waits is published [MQTT-3.1.3-9]."""
        self._stop_timers(subscriber)
        self._clients.away.pop(subscriber, None)
        self._walks.stop(subscriber)
        if subscriber.size:
            subscriber.holder.count("sessions", -1)
        self._memory.resize(subscriber, 0)
        if self._clients.subscribers.get(subscriber.identifier) is subscriber:
            del self._clients.subscribers[subscriber.identifier]
        self._subscriptions.remove_all(subscriber)
        self._publish_will(subscriber)
        # another member of a share gets what has not been acknowledged; of QoS 2, what has not been sent (4.8.2, [MQTT-4.8.2-5])
        shared = list(subscriber.unacknowledged.values())
        for queued in shared:
            self._memory.let_go(queued.message)
        subscriber.unacknowledged.clear()
        while subscriber.queue:
            shared.append(self._memory.dequeue(subscriber))
        for queued in shared:
            if queued.sharing is not None:
                self._publishing.deliver_shared(queued.sharing, queued.message)

    def close(self) -> None:
        """Forget all of them."""
        for subscriber in self._clients.subscribers.values():
            self._stop_timers(subscriber)
            self._subscriptions.remove_all(subscriber)
        self._clients.subscribers.clear()
        self._clients.away.clear()
        for task in self._tasks:
            task.cancel()

    def _stop_timers(self, subscriber: Subscriber) -> None:
        for timer in (subscriber.will_timer, subscriber.expiry_timer):
            if timer is not None:
                timer.cancel()
        subscriber.will_timer = subscriber.expiry_timer = None
