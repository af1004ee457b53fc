"""Messages from clients, from the program and from AMQP: retained, and given to their subscriptions."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final, TypeAlias

from wirefmt import mqtt
from wirefmt.broker.limits import Refusal
from wirefmt.broker.messages import Item, Published
from wirefmt.broker.mqtt.memory import Memory
from wirefmt.broker.mqtt.options import RESERVED, BrokerOptions, default_authorise
from wirefmt.broker.mqtt.outgoing import COPY, Outgoing
from wirefmt.broker.mqtt.retained import Retained
from wirefmt.broker.mqtt.rights import Rights
from wirefmt.broker.mqtt.subscriptions import Subscriptions, Target
from wirefmt.broker.mqtt.values import EXPIRY, Clients, Message, Queued, Rank, Subscriber, Subscription
from wirefmt.broker.mqtt.walks import Walks
from wirefmt.broker.routing import Router
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.broker.topics import Sharing
from wirefmt.connection.aio.driver import READY_BYTES, WORK
from wirefmt.convert import Container, topic_of
from wirefmt.errors import ConversionError, EncodeError, LocalProtocolError
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.events import Released, find, without
from wirefmt.mqtt.server import Peer

#: The exchange that MQTT's topics are in.
EXCHANGE: Final = "amq.topic"

#: Copies of a message that are made together. One for more subscribers goes to them in steps.
TOGETHER: Final = 1024

#: Messages from elsewhere than clients that may wait for their turn to go to their subscribers; more finish the first one.
WAITING: Final = 16


#: The outcome of a message: the code for its publisher, and what is left to do before it, with the work of each step.
Outcome: TypeAlias = tuple[int, Iterator[int] | None]

#: The search for space for a message, with the work of each step. It returns the code to refuse the message with; 0: it is taken.
Search: TypeAlias = Generator[int, None, int]

#: Read for each message: on Python 3.11 an attribute of an enum takes some 0.1 us.
_SUCCESS, _NO_SUBSCRIBERS = ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS
_DONE: Final[Outcome] = (_SUCCESS, None)
_FOR_NOBODY: Final[Outcome] = (_NO_SUBSCRIBERS, None)


class Publishing:
    """Takes messages, and gives them to what they are for. It is a sink of the exchange amq.topic (`routing.Sink`).

    Attributes:
        observe: called with each message that is accepted from MQTT, before it is delivered; None: no observer.
        work: copies of messages that have been made so far, and what else it took.
        counts: those of the broker.
    """

    def __init__(
        self,
        options: BrokerOptions,
        router: Router | None,
        clients: Clients,
        memory: Memory,
        rights: Rights,
        retained: Retained,
        outgoing: Outgoing,
        walks: Walks,
        subscriptions: Subscriptions,
        counts: Counter[str],
    ) -> None:
        self.options = options
        self.counts = counts
        self.observe: Callable[[Message], object] | None = None
        self.work = 0
        self._router = router
        self._bindings: Mapping[Any, Any] = {}  # of amq.topic: not empty if messages go there
        if router is not None:
            exchange = router.exchanges[EXCHANGE]
            exchange.sinks.append(self)
            self._bindings = exchange.bindings
        self._clients = clients
        self._by_peer = clients.by_peer
        self._memory = memory
        self._rights = rights
        self._retained = retained
        self._outgoing = outgoing
        self._walks = walks
        self._subscriptions = subscriptions
        self._index = subscriptions.index
        self._spreading: deque[Iterator[int]] = deque()  # messages from elsewhere than clients, as far as they are left
        self._stepping = False
        self._turn: asyncio.Handle | None = None

    def close(self) -> None:
        self._spreading.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def publish(self, peer: Peer, event: mqtt.Publish) -> Iterator[int] | None:
        """PUBLISH of a client, in steps if it has many subscribers."""
        subscriber = self._by_peer[peer]
        client = subscriber.identifier
        permissions = self.options.permissions
        if permissions is None:  # the usual case, and the fast one
            code = self.options.authorise(client, "publish", event.topic_name)
        else:
            (code,) = self._rights.ask(subscriber.user, client, event)
        if not code and event.topic_name.count("/") >= self.options.topic_levels:
            code = ReasonCode.TOPIC_NAME_INVALID
        if not code:
            plain = not (self._bindings or event.retain or permissions) and not expires(event)
            outcome = self._forward(peer, client, event) if plain else None
            if outcome is None:
                before = self.work
                message = self.message(event, client)
                found = self._refusal(message)
                if not isinstance(found, int):
                    return self._publish_after(found, peer, event, message)
                outcome = self._take(peer, event, message, found)
                peer.driver.spend(self.work - before)
            code, steps = outcome
            if steps is not None:
                return self._acknowledge_after(steps, peer, event, code)
        if event.qos:
            peer.acknowledge(event, code)
        return None

    def publish_run(self, peer: Peer, events: list[Any], at: int) -> int:
        """PUBLISHes of a client from number `at` on, as far as they go to a few clients as they are, and everybody may publish to
        their topics. Returns the number of the first other event. It does no more than an iteration of the loop should."""
        options = self.options
        if self._bindings or options.permissions is not None or options.authorise is not default_authorise:
            return at
        subscriber, driver = self._by_peer[peer], peer.driver
        client = subscriber.identifier
        for number in range(at, min(len(events), at + TOGETHER)):
            event = events[number]
            if type(event) is not mqtt.Publish or event.retain:
                break
            topic, qos = event.topic_name, event.qos
            if qos == 2 or (qos and options.overflow == "refuse") or expires(event) or topic.startswith(RESERVED):
                break
            way = self._index.plain_way(topic)
            if way is None or len(way) > TOGETHER or topic.count("/") >= options.topic_levels:
                break
            message: Message | None = None
            if self.observe is not None:
                message = self.message(event, client)
                self.observe(message)
            self._copy(event, message, client, way)
            at = number + 1
            if qos:
                try:
                    later = peer.connection.acknowledge(event, 0 if way else _NO_SUBSCRIBERS)
                except LocalProtocolError:  # the copies have ended its connection
                    if peer.connection.state is not mqtt.State.CLOSED:
                        raise
                else:
                    driver.update(later)
            if way:
                driver.spend(len(way))
                if driver.spent:
                    break
        return at

    def _acknowledge_after(self, steps: Iterator[int], peer: Peer, event: mqtt.Publish, code: int) -> Iterator[int]:
        yield from steps
        if event.qos:
            peer.acknowledge(event, code)

    def _publish_after(self, search: Search, peer: Peer, event: mqtt.Publish, message: Message) -> Iterator[int]:
        code = yield from search
        code, steps = self._take(peer, event, message, code, taken=True)
        yield from self._acknowledge_after(steps or iter(()), peer, event, code)

    def _take(self, peer: Peer, event: mqtt.Publish, message: Message, code: int, *, taken: bool = False) -> Outcome:
        """Take a message over unless it is refused, and deliver it unless its PUBREL has to come first."""
        if code:
            return code, None
        if message.qos == 2 and peer.connection.options.qos2_event == "release":
            if message.expires is not None and event.packet_identifier is not None:
                self._by_peer[peer].held[event.packet_identifier] = message.expires
            return code, None
        return self._accept(message, taken=taken)

    def _forward(self, peer: Peer, client: str, event: mqtt.Publish) -> Outcome | None:
        """Deliver a message that is neither retained nor expires, without an object for each subscriber. None: it needs
        more, and nothing has been done."""
        qos = event.qos
        if qos == 2 or (qos and self.options.overflow == "refuse"):
            return None
        subscribers = self._index.plain_way(event.topic_name)
        if subscribers is None:
            return None
        message: Message | None = None
        if self.observe is not None:
            message = self.message(event, client)
            self.observe(message)
        if len(subscribers) > TOGETHER:
            message = message or self.message(event, client)
            return _SUCCESS, self._forward_in_steps(event, message, self._index.match(event.topic_name))
        peer.driver.spend(len(subscribers))
        self._copy(event, message, client, subscribers)
        return _DONE if subscribers else _FOR_NOBODY

    def _copy(self, event: mqtt.Publish, message: Message | None, client: str, to: dict[Subscriber, int]) -> None:
        """Forward copies to subscribers, with the QoS that each has at most."""
        qos = event.qos
        for subscriber, most in to.items():
            there = subscriber.peer
            granted = qos and min(qos, most)
            if (
                there is not None
                and not subscriber.queue
                and (driver := there.driver).full_since is None
                and there.connection.forward(event, granted, READY_BYTES) is not NotImplemented
            ):
                driver.queued()
                continue
            if message is None:
                message = self.message(event, client)
            self._outgoing.deliver(subscriber, Queued(message, granted, False, ()))

    def _forward_in_steps(self, event: mqtt.Publish, message: Message, targets: list[Target]) -> Iterator[int]:
        for at in range(0, len(targets), TOGETHER):
            plain: dict[Subscriber, int] = {}
            for found in self._still(message, targets[at : at + TOGETHER]):
                if isinstance(found, Subscription) and found.plain:
                    plain[found.subscriber] = found.qos
                else:  # another one has taken its place
                    self._route(message, [found], False)
            self._copy(event, message, message.publisher or "", plain)
            yield TOGETHER

    def repeat(self, peer: Peer, event: mqtt.Publish) -> None:
        """The same once more, without an answer, if the client is still there and may do it."""
        subscriber = self._by_peer.get(peer)
        if subscriber is not None and not any(self._rights.ask(subscriber.user, subscriber.identifier, event)):
            self.accept_silently(self.message(event, subscriber.identifier))

    def release(self, peer: Peer, event: Released) -> Iterator[int] | None:
        """PUBREL of a client, whose message is delivered now, in steps if it has many subscribers."""
        subscriber = self._by_peer[peer]
        message = self.message(event.message, subscriber.identifier)
        if message.expires is not None:  # it has waited for PUBREL, too
            message.expires = subscriber.held.pop(event.message.packet_identifier or 0, message.expires)
        before = self.work
        _, steps = self._accept(message, told=True, taken=True)
        peer.driver.spend(self.work - before)
        return steps

    def _refusal(self, message: Message) -> int | Search:
        """The code to refuse the message with, before anything is done for it; 0: it is taken. Or how to find it in steps, if it
        has many subscriptions."""
        if self._is_not_retained(message):
            return ReasonCode.QUOTA_EXCEEDED
        if self.options.overflow != "refuse" or not message.qos:
            return _SUCCESS
        targets = self._index.match(message.topic)
        search = self._search(message, targets)
        return search if len(targets) > TOGETHER // COPY else _end(search)

    def _is_not_retained(self, message: Message) -> bool:
        """Is it to be retained, and there is no space for that?"""
        wanted = message.retain and len(message.packet.payload) and self.options.retain_available
        return bool(wanted) and self._retained.refuses(message)

    def _search(self, message: Message, targets: list[Target]) -> Search:
        """Have all of these space for the message? Otherwise it goes to none."""
        copies: Counter[Subscriber] = Counter()
        for at in range(0, len(targets), TOGETHER):
            for found in self._subscriptions.allowed(message.topic, targets[at : at + TOGETHER]):
                if not isinstance(found, Sharing) and found.asked.qos:
                    subscriber = found.subscriber
                    copies[subscriber] += self.options.overlap == "each" or subscriber not in copies
                    if self._memory.full_for(subscriber, message, copies[subscriber]):
                        return ReasonCode.QUOTA_EXCEEDED
            yield TOGETHER
        capacity = not copies or self._memory.may_wait(message)
        # others may have been retained between the steps
        return _SUCCESS if capacity and not self._is_not_retained(message) else ReasonCode.QUOTA_EXCEEDED

    def wants(self, routing_key: str) -> bool:
        """A message is published to amq.topic: does a subscription match? (`routing.Sink`)"""
        try:
            topic = topic_of(routing_key)
            mqtt.validate_topic_name(topic)
        except (UnicodeError, EncodeError):
            return False  # MQTT has no such topic
        if topic.startswith(RESERVED):
            return False
        return bool(self._index.match(topic))

    def put(self, item: Item) -> None:
        """A message from amq.topic. One that MQTT cannot carry is counted and dropped."""
        try:
            packet = item.published.container.deliver("mqtt5", qos=1).message
        except ConversionError:
            self.counts["unconvertible"] += 1
        else:
            before = self.work
            message = self.message(packet, "")
            self._spread(self._accept(message, crossed=True, elsewhere=True))
            if self._router is not None:
                self._router.work += self.work - before

    def _cross(self, message: Message) -> tuple[bool, bool]:
        """Give a message to what is bound to amq.topic. Returns whether something is bound that the message matches, and whether
        a queue was full and has refused it; the others have it then (RabbitMQ).

        Raises ConversionError if AMQP cannot have the message, and EncodeError as `Message.at`.
        """
        assert self._router is not None
        publisher = self._clients.subscribers.get(message.publisher or "")
        published = Published.of(
            Container(message.at(asyncio.get_running_loop().time()), dialect=self._router.limits.dialect),
            publisher.routed if publisher is not None else UNOWNED,
        )
        before = self._router.work
        destinations = self._router.route(self._router.exchanges[EXCHANGE], published, besides=self)
        self.work += len(destinations) + self._router.work - before
        if published.unconvertible:
            self.counts["unconvertible"] += 1
        routed = bool(destinations)
        refused = self._router.refuses(destinations, published)
        self._router.put(destinations, published)
        return routed, refused

    def accept(self, message: Message) -> int:
        """Retain a message that comes from no client's packet, and deliver it. Returns the code for its publisher."""
        found = self._refusal(message)
        code = found if isinstance(found, int) else _end(found)
        return code or self._spread(self._accept(message, elsewhere=True))

    def accept_silently(self, message: Message) -> None:
        """The same if nobody gets the code, as of a will: in steps if it has many subscribers."""
        found = self._refusal(message)
        if not isinstance(found, int):
            self._spread((_SUCCESS, self._accept_after(found, message)))
        elif not found:
            self._spread(self._accept(message, elsewhere=True))

    def _accept_after(self, search: Search, message: Message) -> Iterator[int]:
        code = yield from search
        if not code:
            _, steps = self._accept(message, taken=True, elsewhere=True)
            yield from steps or ()

    def give(self, message: Message, targets: list[Target]) -> None:
        """Deliver a message that does so, within MQTT."""
        self._spread((_SUCCESS, self._route_or_wait(message, targets, taken=False, elsewhere=True)))

    def _spread(self, outcome: Outcome) -> int:
        """Take steps that belong to no connection in the next iterations of the event loop. Returns the code."""
        code, steps = outcome
        if steps is not None:
            self._spreading.append(steps)
            self._finish()
            if self._turn is None:
                self._turn = asyncio.get_running_loop().call_soon(self._spread_on)
        return code

    def _spread_on(self) -> None:
        """The next turn."""
        self._turn, left = None, WORK
        try:
            while self._spreading and left > 0:
                left -= self._step()
            self._finish()
        finally:
            if self._spreading and self._turn is None:
                self._turn = asyncio.get_running_loop().call_soon(self._spread_on)

    def _finish(self) -> None:
        """Finish the first messages if too many wait; not within a step of one, which may end clients that have wills."""
        while len(self._spreading) > WAITING and not self._stepping:
            self._step()

    def _step(self) -> int:
        """Take one step of the first message; its work."""
        self._stepping = True
        try:
            work = next(self._spreading[0], 0)
        finally:
            self._stepping = False
        if not work and self._spreading:  # else the broker has been closed
            self._spreading.popleft()
        return work

    def _targets(self, topic: str) -> list[Target]:
        """What a message goes to. If they are many, the steps ask for the rights."""
        targets = self._index.match(topic)
        return self._subscriptions.allowed(topic, targets) if len(targets) <= TOGETHER // COPY else targets

    def _accept(
        self,
        message: Message,
        *,
        taken: bool = False,
        told: bool = False,
        crossed: bool = False,
        elsewhere: bool = False,
    ) -> Outcome:
        """Retain a message that is not refused, and deliver it.

        Args:
            taken: there was space for it some time ago: see `Outgoing.deliver`.
            told: its publisher knows already that it is taken.
            crossed: it comes from AMQP.
            elsewhere: it does not come from a packet of a client, which has steps of its own.
        """
        code: int = _SUCCESS
        if self.observe is not None and not crossed:
            self.observe(message)
        routed = False
        if self._bindings and not crossed:
            try:
                routed, refused = self._cross(message)
            except (ConversionError, EncodeError, Refusal):
                self.counts["unconvertible"] += 1
            else:
                code = ReasonCode.QUOTA_EXCEEDED if refused else _SUCCESS
                if refused and (told or not message.qos):  # its publisher does not learn it
                    self.counts["dropped"] += 1
        targets = self._targets(message.topic)
        if self._walks.count:
            self._walks.bring_forward(message.topic, targets)
        if message.retain and self.options.retain_available:
            self._retained.put(message)
        if not targets:
            return code or (_SUCCESS if routed else _NO_SUBSCRIBERS), None
        return code, self._route_or_wait(message, targets, taken=taken, elsewhere=elsewhere)

    def _route_or_wait(
        self, message: Message, targets: list[Target], *, taken: bool, elsewhere: bool
    ) -> Iterator[int] | None:
        """Give a message to its subscriptions, or return steps that do it, if they are many, or others wait before it."""
        if len(targets) > TOGETHER // COPY or (elsewhere and self._spreading):
            return self._route_in_steps(message, targets, taken)
        self._route(message, targets, taken)
        return None

    def _route_in_steps(self, message: Message, targets: list[Target], taken: bool) -> Iterator[int]:
        """`_route`, with a client's subscriptions together."""
        groups: dict[object, list[Target]] = {}
        shared: list[Target] = []
        for number, found in enumerate(targets, 1):
            if isinstance(found, Sharing):
                shared.append(found)
            else:
                groups.setdefault(found.subscriber, []).append(found)
            if not number % TOGETHER:
                yield TOGETHER
        for one in shared:
            groups[one] = [one]
        before = self.work
        for group in groups.values():
            self._route(message, self._still(message, group), taken)
            if self.work - before >= TOGETHER:
                yield TOGETHER
                before = self.work

    def _still(self, message: Message, targets: list[Target]) -> list[Target]:
        """Those of the subscriptions that have not ended meanwhile, or what has taken their places [MQTT-3.8.4-4]."""
        still: list[Target] = []
        for found in self._subscriptions.allowed(message.topic, targets):
            if isinstance(found, Sharing):
                still.append(found)
            elif (now := found.subscriber.subscriptions.get(found.asked.topic_filter)) is not None:
                still.append(now)
        if self._walks.count:
            self._walks.bring_forward(message.topic, still)
        return still

    def _route(self, message: Message, targets: list[Target], taken: bool) -> None:
        """Give a message to these subscriptions. `taken`: see `Outgoing.deliver`."""
        self.work += COPY * len(targets)
        apart = self.options.overlap == "each" or len(targets) == 1
        merged: dict[Subscriber, Queued] = {}
        shared: list[Sharing[Subscription]] = []
        for found in targets:
            if isinstance(found, Sharing):
                shared.append(found)
            elif not (found.asked.no_local and found.subscriber.identifier == message.publisher):
                identifiers = (found.identifier,) if found.identifier is not None else ()
                queued = self._queued(found, message, identifiers)
                if apart:
                    self._outgoing.deliver(found.subscriber, queued, taken)
                    continue
                before = merged.get(found.subscriber)
                if before is not None:
                    queued.qos = max(queued.qos, before.qos)
                    queued.retain |= before.retain
                    queued.identifiers = before.identifiers + identifiers
                merged[found.subscriber] = queued
        for subscriber, queued in merged.items():
            self._outgoing.deliver(subscriber, queued, taken)
        for sharing in shared:  # last: the space that was found is that of the subscribers' own
            self.deliver_shared(sharing, message)

    def _queued(self, subscription: Subscription, message: Message, identifiers: tuple[int, ...]) -> Queued:
        asked = subscription.asked
        return Queued(
            message,
            min(message.qos, asked.qos),
            message.retain and asked.retain_as_published,  # [MQTT-3.3.1-12, MQTT-3.3.1-13]
            identifiers,
        )

    def deliver_shared(self, sharing: Sharing[Subscription], message: Message) -> None:
        """To one member: best one that can take it now, else one that is connected, else one whose session goes on."""
        gets = self._rights.gets

        def rank(member: Subscription) -> Rank:
            found = Rank.of(member.subscriber)
            if found is not Rank.ABLE:
                member.subscriber.passed_over[member] = None
            return found

        before = sharing.work
        member = sharing.choose(rank, lambda user: gets(user, message.topic))
        self.work += sharing.work - before
        if member is not None:
            identifiers = (member.identifier,) if member.identifier is not None else ()
            queued = self._queued(member, message, identifiers)
            queued.sharing = sharing
            self._outgoing.deliver(member.subscriber, queued)

    def message(self, packet: mqtt.Publish, publisher: str) -> Message:
        """The message of a packet."""
        expires: float | None = find(packet.properties, EXPIRY)
        if expires is not None:
            expires += asyncio.get_running_loop().time()
        return Message.of(packet, expires, publisher, self._holder(publisher))

    def will(self, will: mqtt.Will, publisher: str) -> Message | None:
        """The message of a will. None: only LAX accepts it; it is counted and dropped."""
        properties, expires = without(will.properties, EXPIRY, "will_delay_interval"), find(will.properties, EXPIRY)
        holder = self._holder(publisher)
        try:
            return Message(will.topic, will.payload, will.qos, will.retain, properties, expires, publisher, holder)
        except EncodeError:
            self.counts["unconvertible"] += 1
            return None

    def _holder(self, publisher: str) -> Holder:
        known = self._clients.subscribers.get(publisher)
        return known.holder if known is not None else UNOWNED


def expires(packet: mqtt.Publish) -> bool:
    """Has it a Message Expiry Interval?"""
    properties = packet.properties
    return bool(properties) and properties.get(EXPIRY) is not None


def _end(search: Search) -> int:
    """All of it at once."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            return int(end.value)
