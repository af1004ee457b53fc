"""An AMQP 1.0 broker in memory: the host of all connections of a server.

Exchanges, bindings and queues are those of `wirefmt.broker.routing`, under RabbitMQ's addresses of version 2: `/queues/NAME` as
source and target, `/exchanges/NAME/KEY` and `/exchanges/NAME` as target, parts percent-encoded. `NAME` alone is a queue. A null
target takes messages by their `to`. A dynamic source or target makes a queue that lives as long as its connection. There are
local transactions. Sources may have filters (`wirefmt.broker.selectors`), and browse: distribution mode `copy`.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

from wirefmt import amqp10
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp10._codec import Incoming, Outgoing
from wirefmt.amqp10.codes import ErrorCondition, SaslCode
from wirefmt.amqp10.events import OUTCOMES, Attaching, DrainRequested, LinkDetached, Login, SessionEnded
from wirefmt.amqp10.links import Link
from wirefmt.amqp10.receiver import Receiver
from wirefmt.amqp10.sender import Sender
from wirefmt.amqp10.server import Peer
from wirefmt.broker import selectors
from wirefmt.broker.credentials import is_password, scram_credentials
from wirefmt.broker.limits import Refusal, Transaction
from wirefmt.broker.messages import Item, Published
from wirefmt.broker.permissions import NOBODY, Permissions
from wirefmt.broker.queues import Queue
from wirefmt.broker.requests.amqp091 import is_reply_name
from wirefmt.broker.requests.amqp10 import REQUESTS, Reach
from wirefmt.broker.routing import Router
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.broker.waiting import View
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.convert import Container
from wirefmt.errors import ConversionError, DecodeError, LocalProtocolError, check_choice

#: What a message costs that is sent (`Driver.spend`).
ALONE: Final = 4
#: The distribution mode of a source that browses (3.5.3).
BROWSING: Final = "copy"

#: The section amqp-value with null (3.2.8).
NULL_BODY: Final = b"\x00\x53\x77\x40"

#: How a footer begins (3.2.9), with each form of its descriptor.
_FOOTERS: Final = (
    b"\x00\x53\x78",
    b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x78",
    b"\x00\xa3\x0famqp:footer:map",
    b"\x00\xb3\x00\x00\x00\x0famqp:footer:map",
)

_OUTCOMES: Final = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]

#: Error conditions for the codes of AMQP 0.9.1 with which the router refuses.
_CONDITIONS: Final[Mapping[int, ErrorCondition]] = {
    ReplyCode.ACCESS_REFUSED: ErrorCondition.UNAUTHORIZED_ACCESS,
    ReplyCode.NOT_FOUND: ErrorCondition.NOT_FOUND,
    ReplyCode.RESOURCE_LOCKED: ErrorCondition.RESOURCE_LOCKED,
    ReplyCode.PRECONDITION_FAILED: ErrorCondition.PRECONDITION_FAILED,
}


WithoutBody = Literal["null", "reject"]


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policy of a broker.

    Attributes:
        users: user name -> password, for PLAIN and SCRAM-SHA-256; None: everybody is let in.
        credit: messages that a sender may have unsettled.
        declare: True: a queue is made when it is first named. False: it must have been made by `Broker.queue`.
        transactions: open at a time on one connection.
        permissions: what the users may do; None: everything.
        without_body: for a message without a body, which 3.2 forbids; a plain `proton.Message()` is one. "null": it gets the body
            null, as an amqp-value section, before its footer. "reject": it is rejected, amqp:decode-error.
    """

    users: Mapping[str, str] | None = None
    credit: int = 200
    declare: bool = True
    transactions: int = 100
    permissions: Permissions | None = None
    without_body: WithoutBody = "null"

    def __post_init__(self) -> None:
        check_choice("without_body", self.without_body, WithoutBody)


class Address(NamedTuple):
    """Where messages go. A queue has the exchange ""."""

    exchange: str
    routing_key: str


class Subscriber:
    """A link on which a client consumes (`queues.Consumer`).

    Attributes:
        takes: False: it browses.
        draining: `drain` is answered when it has seen all messages, or its credit is used up.
    """

    def __init__(self, peer: Peer, client: _Client, link: Sender, priority: Any, takes: bool) -> None:
        self.takes = takes
        self.draining = False
        self.peer = peer
        self.client = client
        self.link = link
        self.exclusive = False
        self.priority = priority if isinstance(priority, int) else 0

    def credit(self) -> int:
        ready = self.peer.ready
        capacity = self.link.send_quota if self.link.attached and ready else 0
        self.link.waiting |= not capacity  # `WindowOpened` is wanted
        if not ready:
            self.client.unready[self.link] = None
        return capacity

    def deliver(self, queue: Queue, items: Sequence[Item], at: int) -> int:
        """Send message number `at`."""
        item = items[at]
        payload = item.for_amqp10()
        try:
            handle = self.link.send(payload)
        except LocalProtocolError as error:
            if error.reply == ErrorCondition.LINK_MESSAGE_SIZE_EXCEEDED:
                raise ConversionError(str(error), rule="amqp10:max-message-size") from error
            self.peer.driver.want()
            self.client.unready[self.link] = None
            return 0
        if self.takes and not handle.settled:
            self.client.sending[handle] = (queue, item)
        if self.draining and self.link.credit <= 0:
            self._drained()
        self.peer.update()
        self.peer.driver.spend(ALONE)
        return 1

    def wake(self, queue: Queue) -> None:
        """There may be credit: deliver what there is. `drain` is answered when there is no more (2.6.7)."""
        queue.wake(self)
        waits = queue.looks(self) or (queue.count > 0 and self.link.credit > 0 and self.credit() <= 0)
        if self.draining and not waits:
            self._drained()

    def view(self, wants: selectors.Filter | None) -> View | None:
        """What it needs to have a filter, or to browse. It does not keep it: the queue has both."""
        if wants is not None:
            return View(wants.matches, wants.cost, takes=self.takes, size=wants.size, caught_up=self._caught_up)
        return None if self.takes else View(None, takes=False, caught_up=self._caught_up)

    def _caught_up(self) -> None:
        if self.draining:
            self._drained()
            self.peer.update()

    def _drained(self) -> None:
        self.draining = False
        if self.link.attached:
            self.link.drained()

    def cancelled(self, queue: Queue) -> None:
        self.client.consumers.pop(self.link, None)
        self.client.unready.pop(self.link, None)
        if self.link.attached:
            self.link.detach(
                amqp10.Error(condition=ErrorCondition.RESOURCE_DELETED, description=f"queue {queue.name!r} is deleted")
            )
            self.peer.update()


class _Transaction:
    """What a transaction does when it commits.

    Attributes:
        coordinator: the link on which it was declared.
        posted: messages, each with its destinations.
        retired: deliveries, each with its outcome.
        failed: something in it was refused and its client could not be told: it cannot commit.
    """

    def __init__(self, router: Router, coordinator: Link, holder: Holder) -> None:
        self.coordinator = coordinator
        self.posted = Transaction(router, holder)
        self.retired = Transaction(router, holder)
        self.failed = False

    def post(self, published: Published, destinations: list[Any]) -> None:
        """Add a message. Raises Refused if the transaction is too large."""
        try:
            self.posted.add((published, destinations), published.cost, len(destinations))
        except Refusal as error:
            raise Refused(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, error.reason) from error

    def fits(self) -> bool:
        """Is there space for all messages in the queues that refuse what is too much?"""
        bound_for: dict[Queue, list[Published]] = {}
        for (published, destinations), _ in self.posted.messages:
            for queue in destinations:
                if isinstance(queue, Queue) and queue.rejects:
                    bound_for.setdefault(queue, []).append(published)
        return all(queue.gone or not queue.full_for(*messages) for queue, messages in bound_for.items())


class _Client:
    """What the broker knows of one connection."""

    def __init__(self) -> None:
        self.user = ""
        self.holder = UNOWNED  # what it has
        self.targets: dict[Link, Address | None] = {}  # of links on which it sends to us; None: by `to`
        self.consumers: dict[Link, tuple[Queue, Subscriber]] = {}
        self.unready: dict[Link, None] = {}  # of consumers for which the transport did not take more
        self.coordinators: set[Link] = set()
        self.links: dict[Any, dict[Link, None]] = {}  # all of these, by session
        self.sending: dict[Outgoing, tuple[Queue, Item]] = {}
        self.transactions: dict[bytes, _Transaction] = {}


class Broker:
    """The handler of `amqp10.serve`: `await amqp10.serve(Broker(), port=0)`.

    Args:
        options: policy.
        router: exchanges and queues, which brokers of other protocols may share; None: of its own.

    Attributes:
        router: exchanges and queues.
    """

    def __init__(self, options: BrokerOptions | None = None, *, router: Router | None = None) -> None:
        self.options = options or BrokerOptions()
        self.router = router or Router()
        self._clients: dict[Peer, _Client] = {}
        self._numbers = itertools.count(1)

    def queue(self, name: str, holder: Holder = UNOWNED) -> Queue:
        """The queue of this name, which is made if it does not exist. Raises `routing.Refusal` if there are too many.

        Args:
            holder: who makes it.
        """
        return self.router.queues.get(name) or self.router.make_queue(name, holder=holder)

    def close(self) -> None:
        """Forget everything. Close the servers first, or drop their clients."""
        self.router.close()

    # ---- called by the server

    def handle(self, peer: Peer, event: Any) -> None:
        steps = self._handle(peer, event)
        if steps is not None:
            peer.driver.later(steps)

    def _handle(self, peer: Peer, event: Any) -> Iterator[int] | None:
        """Returns what is left to do for the event."""
        client = self._clients.get(peer)
        if client is None:
            client = self._clients[peer] = _Client()
            client.holder = self.router.shares.holder(None)
        match event:
            case Login():
                client.user = event.user_name or ""
                if self.options.users is not None:
                    client.holder = self.router.shares.holder(client.user)
                self._login(peer, event)
            case amqp10.Open():
                peer.accept(event, offered_capabilities=["ANONYMOUS-RELAY"], properties={"product": "wirefmt"})
            case Attaching():
                self._attach(peer, client, event)
            case Incoming():
                return self._take(peer, client, event)
            case WindowOpened():
                self._pump(client, event.view)
            case DrainRequested():
                queue, subscriber = client.consumers.get(event.link, (None, None))
                if queue is not None and subscriber is not None:
                    subscriber.draining = True
                    subscriber.wake(queue)
                elif event.link.attached:
                    event.link.drained()
            case Acknowledged():
                assert isinstance(event.handle, Outgoing)
                self._answered(peer, client, event.handle, event.message)
            case LinkDetached():
                return self._forget(client, event.link, event.lost)
            case SessionEnded():
                return self._forget_all(client, event.session, event.lost)
            case Disconnected():
                del self._clients[peer]
                left = self._forget_all(client, None, event.lost)
                self.router.release(peer)
                return left
        return None

    def writable(self, peer: Peer) -> None:
        client = self._clients.get(peer)
        if client is None:
            return
        for link in list(client.unready):
            if not peer.ready:
                return
            client.unready.pop(link, None)
            self._pump(client, link)

    def closed(self, peer: Peer) -> None:
        pass

    # ---- links

    def _login(self, peer: Peer, event: Login) -> None:
        users, own = self.options.users, event.authorization in ("", event.user_name)
        if users is None:
            peer.accept(event)
        elif own and event.mechanism == "SCRAM-SHA-256":  # whose proof is checked by the connection
            credentials = scram_credentials(users, event.user_name)
            peer.accept(event, credentials=credentials, nonce=secrets.token_hex(16))
        elif own and event.mechanism == "PLAIN" and is_password(users, event.user_name, event.password):
            peer.accept(event)
        else:
            peer.refuse(event, SaslCode.AUTH)

    def _attach(self, peer: Peer, client: _Client, event: Attaching) -> None:
        link, message = event.link, event.message
        terminus = message.source if link.sends else message.target
        try:
            if isinstance(terminus, amqp10.Coordinator):
                self._permit(client, amqp10.Coordinator, terminus)
                client.coordinators.add(link)
                client.links.setdefault(link.session, {})[link] = None
                peer.accept(event)
                self._keep(peer, link)
                return
            wants: selectors.Filter | None = None
            applied: dict[Any, Any] = {}
            if isinstance(terminus, amqp10.Source):
                wants, applied = _filters(terminus)
                peer.driver.spend(4 * wants.tokens if wants is not None else 0)
            address, answer = self._resolve(peer, client, terminus, link)
            if isinstance(link, Sender):
                assert address is not None
                if address.exchange:
                    raise Refused(ErrorCondition.NOT_IMPLEMENTED, "a source is a queue")
                queue = self.router.queue(address.routing_key, peer)
                takes = terminus.distribution_mode != BROWSING
                priority = dict(message.properties or {}).get("rabbitmq:priority", 0)
                subscriber = Subscriber(peer, client, link, priority, takes)
                view = subscriber.view(wants)
                queue.check(subscriber, view)
            elif address is not None:
                self._check(address, peer)
        except (Refused, Refusal) as error:
            peer.refuse(event, _error_of(error))
            return
        client.links.setdefault(link.session, {})[link] = None
        if isinstance(link, Sender):
            peer.accept(event, source=self._answer(answer, applied, takes))
            client.consumers[link] = queue, subscriber
            queue.insert(subscriber, view)
        else:
            peer.accept(event, target=answer)
            client.targets[link] = address
            self._keep(peer, link)

    def _keep(self, peer: Peer, link: Link) -> None:
        if isinstance(link, Receiver) and link.attached:
            link.keep(self.options.credit)
            peer.update()

    @staticmethod
    def _answer(source: Any, applied: dict[Any, Any], takes: bool) -> Any:
        """A source as it is: only with the filters that there are (3.5.3)."""
        return amqp10.Source(
            address=source.address,
            dynamic=source.dynamic,
            dynamic_node_properties=source.dynamic_node_properties,
            expiry_policy=source.expiry_policy,
            durable=source.durable,
            distribution_mode="move" if takes else BROWSING,
            filter=applied or None,
            default_outcome=amqp10.Released(),
            outcomes=_OUTCOMES,
            capabilities=source.capabilities,
        )

    def _resolve(self, peer: Peer, client: _Client, terminus: Any, link: Link) -> tuple[Address | None, Any]:
        """The address of a terminus, and the terminus as it is answered. Raises Refused, Refusal."""
        if terminus is None:
            raise Refused(ErrorCondition.INVALID_FIELD, "there is no terminus")
        if terminus.dynamic:
            name = f"dynamic-{next(self._numbers)}"
            self._permit(client, amqp10.Attach, Reach("", name, "read" if link.sends else "write", makes=True))
            self.router.make_queue(name, owner=peer, holder=client.holder)
            made = amqp10.Source if link.sends else amqp10.Target
            return Address("", name), made(address=f"/queues/{name}", dynamic=True)
        if terminus.address is None:
            if link.sends:
                raise Refused(ErrorCondition.INVALID_FIELD, "a source has an address")
            return None, terminus
        address = parse_address(str(terminus.address))
        self._declare(client, amqp10.Attach, address, "read" if link.sends else "write")
        return address, terminus

    def _declare(self, client: _Client, request: type[Any], address: Address, right: str) -> None:
        """A queue that is named may have to be made. Raises Refused if the user may not do it."""
        name = address.routing_key
        makes = not (address.exchange or name in self.router.queues or is_reply_name(name)) and self.options.declare
        self._permit(client, request, Reach(*address, right, makes))
        if makes:
            self.queue(address.routing_key, client.holder)

    def _permit(self, client: _Client, request: type[Any], reach: Any) -> None:
        """Raises Refused if the user may not do this."""
        permissions = self.options.permissions
        lacking = permissions.lacks(client.user, REQUESTS, request, reach) if permissions is not None else None
        if lacking is not None:
            what = lacking.name if lacking.action == NOBODY else f"{lacking.right} access to '{lacking.name}'"
            raise Refused(ErrorCondition.UNAUTHORIZED_ACCESS, f"{what} refused for user '{client.user}'")

    def _check_user(self, client: _Client, properties: amqp10.Properties | None) -> None:
        """Raises Refused if a message says that it is another user's (3.2.4)."""
        said = properties.user_id if properties is not None else None
        if said is not None and self.options.users is not None and bytes(said) != client.user.encode():
            text = f"user-id {bytes(said)!r} but authenticated user was '{client.user}'"
            raise Refused(ErrorCondition.UNAUTHORIZED_ACCESS, text)

    def _check(self, address: Address, peer: Peer) -> None:
        """Raises Refusal if there is no such exchange or queue."""
        if address.exchange:
            exchange = self.router.exchange(address.exchange)
            if exchange.internal:
                raise Refusal(ReplyCode.ACCESS_REFUSED, f"exchange '{exchange.name}' is internal")
        elif address.routing_key not in self.router.queues and address.routing_key not in self.router.replies:
            raise Refusal(ReplyCode.NOT_FOUND, f"no queue '{address.routing_key}'")

    # ---- messages of clients

    def _take(self, peer: Peer, client: _Client, delivery: Incoming) -> Iterator[int] | None:
        if delivery.link in client.coordinators:
            return self._coordinate(peer, client, delivery)
        state, transaction = delivery.remote_state, None
        try:
            if isinstance(state, amqp10.TransactionalState):
                transaction = client.transactions.get(bytes(state.txn_id or b""))
                if transaction is None:
                    raise Refused(ErrorCondition.TRANSACTION_UNKNOWN_ID, "no such transaction")
            message, payload = _message_of(delivery, self.options.without_body == "null")
            address, properties = client.targets[delivery.link], message.properties
            self._check_user(client, properties)
            if address is None:
                if properties is None or properties.to is None:
                    raise Refused(ErrorCondition.INVALID_FIELD, "a message to the anonymous terminus has `to`")
                address = parse_address(str(properties.to))
                self._declare(client, amqp10.Transfer, address, "write")
            elif self.options.permissions is not None:
                self._permit(client, amqp10.Transfer, Reach(*address, "write"))
            self._check(address, peer)
            published = Published.of(
                Container(
                    payload,
                    source="amqp10",
                    exchange=address.exchange,
                    routing_key=address.routing_key,
                    dialect=self.router.limits.dialect,
                ),
                client.holder,
            )
            before = self.router.work
            destinations = self.router.route(self.router.exchange(address.exchange), published)
            routed = bool(destinations)
            peer.driver.spend(len(destinations) + self.router.work - before)
            full: Refused | None = None
            if self.router.refuses(destinations, published):
                what = f"the queue {address.routing_key!r}" if not address.exchange else "a queue"
                full = Refused(ErrorCondition.RESOURCE_LIMIT_EXCEEDED, f"{what} is full")
            if transaction is not None:
                if full is not None:
                    raise full
                transaction.post(published, destinations)
                if not delivery.settled:
                    peer.settle(delivery, amqp10.TransactionalState(txn_id=state.txn_id, outcome=amqp10.Accepted()))
                return None
        except (Refused, Refusal, ConversionError, DecodeError) as error:
            if not delivery.settled:
                peer.reject(delivery, _error_of(error))
            elif transaction is not None:
                transaction.failed = True
            return None
        if not routed:
            self.router.note_unroutable(published)
        if not delivery.settled:
            if full is not None:
                peer.reject(delivery, _error_of(full))
            elif routed:
                peer.accept(delivery)
            else:
                peer.release(delivery)  # as RabbitMQ answers a message that no queue is bound for
        self.router.put(destinations, published)
        return None

    def _coordinate(self, peer: Peer, client: _Client, delivery: Incoming) -> Iterator[int]:
        """4.3: declare and discharge."""
        try:
            body = delivery.message.body[0]
            request = body.value if isinstance(body, amqp10.AmqpValue) else None
        except DecodeError:
            request = None
        match request:
            case amqp10.Declare() if len(client.transactions) < self.options.transactions:
                number = next(self._numbers).to_bytes(8)
                client.transactions[number] = _Transaction(self.router, delivery.link, client.holder)
                peer.settle(delivery, amqp10.Declared(txn_id=number), settled=True)
            case amqp10.Discharge():
                transaction = client.transactions.pop(bytes(request.txn_id or b""), None)
                if transaction is None:
                    peer.reject(delivery, amqp10.Error(condition=ErrorCondition.TRANSACTION_UNKNOWN_ID))
                    return
                if request.fail:
                    yield from self._roll_back(client, transaction)
                elif transaction.failed or not transaction.fits():
                    yield from self._roll_back(client, transaction)
                    peer.reject(
                        delivery,
                        amqp10.Error(
                            condition=ErrorCondition.TRANSACTION_ROLLBACK, description="not all of it can be done"
                        ),
                    )
                    return
                else:
                    yield from self._commit(client, transaction)
                peer.accept(delivery)
            case amqp10.Declare():
                peer.reject(delivery, amqp10.Error(condition=ErrorCondition.RESOURCE_LIMIT_EXCEEDED))
            case _:
                peer.reject(delivery, amqp10.Error(condition=ErrorCondition.NOT_IMPLEMENTED))

    def _commit(self, client: _Client, transaction: _Transaction) -> Iterator[int]:
        for handle, outcome in transaction.retired.take():
            self._retire(client, handle, outcome)
            yield 1
        for published, destinations in transaction.posted.take():
            self.router.put([d for d in destinations if not getattr(d, "gone", False)], published)
            yield 1 + len(destinations)

    def _roll_back(self, client: _Client, transaction: _Transaction) -> Iterator[int]:
        transaction.posted.end()
        for handle, _ in transaction.retired.take():
            self._retire(client, handle, amqp10.Released())
            yield 1

    # ---- messages to clients

    def _pump(self, client: _Client, link: Link) -> None:
        """There may be credit on a link."""
        if link in client.consumers:
            queue, subscriber = client.consumers[link]
            subscriber.wake(queue)

    def _answered(self, peer: Peer, client: _Client, handle: Outgoing, state: Any) -> None:
        if isinstance(state, amqp10.TransactionalState):
            transaction = client.transactions.get(bytes(state.txn_id or b""))
            found = client.sending.get(handle)
            if transaction is not None and found is not None:
                try:
                    transaction.retired.add((handle, state.outcome), found[1].published.size)
                    return
                except Refusal as error:  # a disposition cannot be refused, but what brings more of them can end
                    transaction.failed = True
                    if handle.link is not None and handle.link.attached:
                        handle.link.detach(
                            amqp10.Error(condition=ErrorCondition.RESOURCE_LIMIT_EXCEEDED, description=error.reason)
                        )
                        peer.update()
            state = amqp10.Released()
        self._retire(client, handle, state if type(state) in OUTCOMES else amqp10.Released())

    def _retire(self, client: _Client, handle: Outgoing, outcome: Any) -> None:
        found = client.sending.pop(handle, None)
        if found is None:
            return
        queue, item = found
        if queue.gone:
            return
        match outcome:
            case amqp10.Accepted():
                return
            case amqp10.Rejected():
                self.router.dead_letter(queue, item, "rejected")
                return
            case amqp10.Modified() if outcome.undeliverable_here:
                self.router.dead_letter(queue, item, "rejected")
                return
            case amqp10.Modified():
                item.failed += bool(outcome.delivery_failed)
        queue.back([item])

    def unsettled(self) -> list[tuple[Queue, Item]]:
        """What clients have and have not settled."""
        return [found for client in self._clients.values() for found in client.sending.values()]

    def _forget(self, client: _Client, link: Link, lost: tuple[Any, ...]) -> Iterator[int]:
        """A link is gone: its messages go back, in order. Returns the steps of it."""
        client.targets.pop(link, None)
        client.coordinators.discard(link)
        client.unready.pop(link, None)
        client.links.get(link.session, {}).pop(link, None)
        ended = [number for number, one in client.transactions.items() if one.coordinator is link]  # 4.3
        steps = [self._roll_back(client, client.transactions.pop(number)) for number in ended]
        queue, subscriber = client.consumers.pop(link, (None, None))
        if queue is not None and subscriber is not None:
            queue.leave(subscriber)
        return itertools.chain(*steps, self._give_back(client, lost))

    def _forget_all(self, client: _Client, session: Any, lost: tuple[Any, ...]) -> Iterator[int]:
        """A session is gone; None: all of them. Returns the steps of it."""
        steps: list[Iterator[int]] = []
        for ended in list(client.links) if session is None else (session,):
            steps += [self._forget(client, link, ()) for link in list(client.links.get(ended, ()))]
            client.links.pop(ended, None)
        return itertools.chain(*steps, self._give_back(client, lost))

    def _give_back(self, client: _Client, lost: tuple[Any, ...]) -> Iterator[int]:
        for handle in reversed(lost):
            self._retire(client, handle, amqp10.Released())
            yield 1


class Refused(Exception):
    """A link or message is refused with an error condition and a description."""


def _error_of(error: Exception) -> amqp10.Error:
    """What is reported to a client."""
    match error:
        case Refused():
            return amqp10.Error(condition=error.args[0], description=error.args[1])
        case Refusal():
            return amqp10.Error(
                condition=_CONDITIONS.get(error.code, ErrorCondition.NOT_ALLOWED), description=error.reason
            )
        case ConversionError():
            return amqp10.Error(condition=ErrorCondition.INVALID_FIELD, description=str(error))
    return amqp10.Error(condition=ErrorCondition.DECODE_ERROR, description=str(error))


def _message_of(delivery: Incoming, adds_body: bool) -> tuple[amqp10.Message, bytes]:
    """The message of a delivery, and its bytes. Raises DecodeError or Refused if the payload is not a valid message.

    3.2.5 has only simple values in application properties. RabbitMQ takes lists, maps and arrays, too.

    Args:
        adds_body: a message without a body gets one, before its footer (3.2).
    """
    message, payload = delivery.message, bytes(delivery.payload)
    for note in message.notes:
        if note.check == "BODY_MISSING" and adds_body:
            at = len(payload)
            if message.footer is not None:
                at -= len(message.footer.encode())
                at -= next(len(form) for form in _FOOTERS if payload.endswith(form, 0, at))
            payload = payload[:at] + NULL_BODY + payload[at:]
        elif note.check != "PROPERTY_VALUE":
            text = f"{note.path or 'message'}: {note.reason} at offset {note.offset} [{note.spec}]"
            raise Refused(ErrorCondition.DECODE_ERROR, text)
    return message, payload


def _filters(source: amqp10.Source) -> tuple[selectors.Filter | None, dict[Any, Any]]:
    """The filters of a source that there are, and as they are answered. Raises Refused for an invalid selector."""
    try:
        return selectors.read(source.filter)
    except ValueError as error:
        raise Refused(ErrorCondition.INVALID_FIELD, f"invalid selector: {error}") from error


def parse_address(text: str) -> Address:
    """An address of version 2, or the name of a queue. Raises Refused."""
    kind, parts = "queues", [text]
    if text.startswith("/"):
        _, kind, *parts = text.split("/")
    if kind not in ("queues", "exchanges") or len(parts) > (2 if kind == "exchanges" else 1):
        raise Refused(ErrorCondition.NOT_FOUND, f"no address {text!r}")
    try:
        names = [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError as error:
        raise Refused(ErrorCondition.INVALID_FIELD, "an address is percent-encoded UTF-8") from error
    if not names or not names[0] or "/" in "".join(parts):
        raise Refused(ErrorCondition.INVALID_FIELD, f"no {kind.removesuffix('s')} in {text!r}")
    return Address("", names[0]) if kind == "queues" else Address(names[0], names[1] if len(names) > 1 else "")
