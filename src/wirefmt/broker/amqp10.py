"""An AMQP 1.0 broker in memory: the host of all connections of a server.

Addresses are RabbitMQ's of version 2: `/queues/NAME` as source and target, percent-encoded, and `NAME` alone for the same; a
null target with an address takes messages by their `to`. A dynamic source or target makes a queue that lives as long as its
connection. There are local transactions. Everything is bounded: a full queue rejects.
"""

from __future__ import annotations

import itertools
import secrets
from collections import deque
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from wirefmt import amqp10
from wirefmt.amqp10.events import (
    INVALID_FIELD,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    OUTCOMES,
    RESOURCE_LIMIT_EXCEEDED,
    UNKNOWN_ID,
    Attaching,
    DrainRequested,
    Incoming,
    LinkDetached,
    Login,
    Outgoing,
    SessionEnded,
)
from wirefmt.amqp10.links import Link, Receiver, Sender
from wirefmt.amqp10.server import Peer
from wirefmt.connection.contract import Acknowledged, Disconnected, WindowOpened
from wirefmt.connection.sasl import ScramCredentials
from wirefmt.errors import DecodeError

_OUTCOMES: Final = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
_COORDINATOR: Final = "$coordinator"


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Policy of a broker.

    Attributes:
        users: user name -> password, for PLAIN and SCRAM-SHA-256; None: everybody is let in.
        queues: queues at a time.
        queue_messages: messages of one queue; one more is rejected.
        queue_bytes: bytes of the messages of one queue.
        credit: messages that a sender may have unsettled.
        declare: True: a queue is made when it is first named. False: it must have been made by `Broker.queue`.
        transactions: open at a time on one connection.
    """

    users: dict[str, str] | None = None
    queues: int = 1000
    queue_messages: int = 100_000
    queue_bytes: int = 1 << 28
    credit: int = 200
    declare: bool = True
    transactions: int = 100


class Queue:
    """Messages in order, and the links that want some.

    Attributes:
        messages: payload and number of failed deliveries.
        dropped: messages that a consumer has rejected, or that failed permanently.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.messages: deque[tuple[bytes, int]] = deque()
        self.size = 0
        self.consumers: dict[Sender, Peer] = {}
        self.dropped = 0

    def push(self, payload: bytes, failed: int = 0, *, front: bool = False) -> None:
        self.size += len(payload)
        if front:
            self.messages.appendleft((payload, failed))
        else:
            self.messages.append((payload, failed))

    def pop(self) -> tuple[bytes, int]:
        payload, failed = self.messages.popleft()
        self.size -= len(payload)
        return payload, failed


class _Transaction:
    """What a transaction does when it commits."""

    def __init__(self) -> None:
        self.posted: list[tuple[Queue, bytes]] = []
        self.retired: list[tuple[Outgoing, Any]] = []


class _Client:
    """What the broker knows of one connection."""

    def __init__(self) -> None:
        self.targets: dict[Link, Queue | None] = {}  # of links on which it sends to us; None: by `to`
        self.coordinators: set[Link] = set()
        self.sending: dict[Outgoing, tuple[Queue, bytes, int]] = {}
        self.transactions: dict[bytes, _Transaction] = {}
        self.own: list[Queue] = []  # dynamic queues


class Broker:
    """The handler of `amqp10.serve`: `await amqp10.serve(Broker(), port=0)`.

    Attributes:
        queues: by name.
    """

    def __init__(self, options: BrokerOptions | None = None) -> None:
        self.options = options or BrokerOptions()
        self.queues: dict[str, Queue] = {}
        self._clients: dict[Peer, _Client] = {}
        self._numbers = itertools.count(1)

    def queue(self, name: str) -> Queue:
        """The queue of this name; it is made if there is none. Raises ValueError if there are too many."""
        found = self.queues.get(name)
        if found is None:
            if len(self.queues) >= self.options.queues:
                raise ValueError(f"there are {len(self.queues)} queues")
            found = self.queues[name] = Queue(name)
        return found

    def close(self) -> None:
        """Forget everything. Close the servers first, or drop their clients."""
        self.queues.clear()

    # ---- called by the server

    def handle(self, peer: Peer, event: Any) -> None:
        client = self._clients.get(peer)
        if client is None:
            client = self._clients[peer] = _Client()
        match event:
            case Login():
                self._login(peer, event)
            case amqp10.Open():
                peer.accept(event, offered_capabilities=["ANONYMOUS-RELAY"], properties={"product": "wirefmt"})
            case Attaching():
                self._attach(peer, client, event)
            case Incoming():
                self._take(peer, client, event)
            case WindowOpened():
                self._serve_link(event.view)
            case DrainRequested():
                self._serve_link(event.link)
                if event.link.attached:
                    event.link.drained()
            case Acknowledged():
                assert isinstance(event.handle, Outgoing)
                self._answered(client, event.handle, event.message)
            case LinkDetached():
                self._forget(client, event.link, event.lost)
            case SessionEnded():
                self._forget_all(client, peer, event.session, event.lost)
            case Disconnected():
                self._forget_all(client, peer, None, event.lost)
                for transaction in client.transactions.values():
                    self._roll_back(client, transaction)
                for queue in client.own:
                    self.queues.pop(queue.name, None)
                del self._clients[peer]

    def writable(self, peer: Peer) -> None:
        for queue in list(self.queues.values()):
            if peer in queue.consumers.values():
                self._serve(queue)

    def closed(self, peer: Peer) -> None:
        pass

    # ---- links

    def _login(self, peer: Peer, event: Login) -> None:
        users = self.options.users
        password = users.get(event.user_name) if users is not None else None
        if password is not None and event.mechanism == "SCRAM-SHA-256":
            credentials = ScramCredentials.of(password, secrets.token_bytes(16))
            peer.accept(event, credentials=credentials, nonce=secrets.token_hex(16))
        elif users is None or (event.mechanism == "PLAIN" and password is not None and password == event.password):
            peer.accept(event)
        else:
            peer.refuse(event, 1)

    def _attach(self, peer: Peer, client: _Client, event: Attaching) -> None:
        link, message = event.link, event.message
        terminus = message.source if link.sends else message.target
        if isinstance(terminus, amqp10.Coordinator):
            client.coordinators.add(link)
            peer.accept(event)
            self._keep(peer, link)
            return
        try:
            queue, terminus = self._resolve(client, terminus, link)
        except LookupError as error:
            peer.refuse(event, amqp10.Error(condition=error.args[0], description=error.args[1]))
            return
        if link.sends:
            assert queue is not None
            assert isinstance(link, Sender)
            source = self._with_outcomes(terminus)
            peer.accept(event, source=source)
            queue.consumers[link] = peer
            self._serve(queue)
        else:
            peer.accept(event, target=terminus)
            client.targets[link] = queue
            self._keep(peer, link)

    def _keep(self, peer: Peer, link: Link) -> None:
        if isinstance(link, Receiver) and link.attached:
            link.keep(self.options.credit)
            peer.update()

    @staticmethod
    def _with_outcomes(source: Any) -> Any:
        return amqp10.Source(
            address=source.address,
            dynamic=source.dynamic,
            dynamic_node_properties=source.dynamic_node_properties,
            expiry_policy=source.expiry_policy,
            durable=source.durable,
            distribution_mode=source.distribution_mode,
            default_outcome=amqp10.Released(),
            outcomes=_OUTCOMES,
            capabilities=source.capabilities,
        )

    def _resolve(self, client: _Client, terminus: Any, link: Link) -> tuple[Queue | None, Any]:
        """The queue of a terminus, and the terminus as it is answered. Raises LookupError(condition, description)."""
        if terminus is None:
            raise LookupError(INVALID_FIELD, "there is no terminus")
        if terminus.dynamic:
            name = f"dynamic-{next(self._numbers)}"
            queue = self._named(name, make=True)
            client.own.append(queue)
            made = amqp10.Source if link.sends else amqp10.Target
            return queue, made(address=f"/queues/{name}", dynamic=True)
        if terminus.address is None:
            if link.sends:
                raise LookupError(INVALID_FIELD, "a source has an address")
            return None, terminus
        return self._named(queue_name(str(terminus.address)), make=self.options.declare), terminus

    def _named(self, name: str, *, make: bool) -> Queue:
        if name not in self.queues and not make:
            raise LookupError(NOT_FOUND, f"no queue {name!r}")
        try:
            return self.queue(name)
        except ValueError as error:
            raise LookupError(RESOURCE_LIMIT_EXCEEDED, str(error)) from error

    # ---- messages of clients

    def _take(self, peer: Peer, client: _Client, delivery: Incoming) -> None:
        if delivery.link in client.coordinators:
            self._coordinate(peer, client, delivery)
            return
        try:
            queue = client.targets[delivery.link]
            if queue is None:
                properties = delivery.message.properties
                if properties is None or properties.to is None:
                    raise LookupError(INVALID_FIELD, "a message to the anonymous terminus has `to`")
                queue = self._named(queue_name(str(properties.to)), make=self.options.declare)
            else:
                _ = delivery.message  # it is one
            payload = bytes(delivery.payload)
            if (
                len(queue.messages) >= self.options.queue_messages
                or queue.size + len(payload) > self.options.queue_bytes
            ):
                raise LookupError(RESOURCE_LIMIT_EXCEEDED, f"the queue {queue.name!r} is full")
            state = delivery.remote_state
            if isinstance(state, amqp10.TransactionalState):
                transaction = client.transactions.get(bytes(state.txn_id or b""))
                if transaction is None:
                    raise LookupError(UNKNOWN_ID, "no such transaction")
                transaction.posted.append((queue, payload))
                if not delivery.settled:
                    peer.settle(delivery, amqp10.TransactionalState(txn_id=state.txn_id, outcome=amqp10.Accepted()))
                return
        except (LookupError, DecodeError) as error:
            condition, text = error.args if isinstance(error, LookupError) else ("amqp:decode-error", str(error))
            if not delivery.settled:
                peer.reject(delivery, amqp10.Error(condition=condition, description=text))
            return
        queue.push(payload)
        if not delivery.settled:
            peer.accept(delivery)
        self._serve(queue)

    def _coordinate(self, peer: Peer, client: _Client, delivery: Incoming) -> None:
        """4.3: declare and discharge."""
        try:
            body = delivery.message.body[0]
            request = body.value if isinstance(body, amqp10.AmqpValue) else None
        except DecodeError:
            request = None
        match request:
            case amqp10.Declare() if len(client.transactions) < self.options.transactions:
                number = next(self._numbers).to_bytes(8)
                client.transactions[number] = _Transaction()
                peer.settle(delivery, amqp10.Declared(txn_id=number), settled=True)
            case amqp10.Discharge():
                transaction = client.transactions.pop(bytes(request.txn_id or b""), None)
                if transaction is None:
                    peer.reject(delivery, amqp10.Error(condition=UNKNOWN_ID))
                    return
                if request.fail:
                    self._roll_back(client, transaction)
                else:
                    self._commit(client, transaction)
                peer.accept(delivery)
            case amqp10.Declare():
                peer.reject(delivery, amqp10.Error(condition=RESOURCE_LIMIT_EXCEEDED))
            case _:
                peer.reject(delivery, amqp10.Error(condition=NOT_IMPLEMENTED))

    def _commit(self, client: _Client, transaction: _Transaction) -> None:
        for handle, outcome in transaction.retired:
            self._retire(client, handle, outcome)
        for queue, payload in transaction.posted:
            queue.push(payload)
        for queue, _ in transaction.posted:
            self._serve(queue)

    def _roll_back(self, client: _Client, transaction: _Transaction) -> None:
        for handle, _ in transaction.retired:
            self._retire(client, handle, amqp10.Released())

    # ---- messages to clients

    def _serve(self, queue: Queue) -> None:
        """Hand out messages, one to each link in turn."""
        while queue.messages:
            ready = [link for link, peer in queue.consumers.items() if link.send_quota and peer.ready]
            if not ready:
                return
            for link in ready:
                if queue.messages and link.send_quota:
                    self._send(queue, link)
            # those served last come last
            for link in ready:
                if link in queue.consumers:
                    queue.consumers[link] = queue.consumers.pop(link)

    def _serve_link(self, link: Sender) -> None:
        for queue in self.queues.values():
            if link in queue.consumers:
                self._serve(queue)
                return

    def _send(self, queue: Queue, link: Sender) -> None:
        peer = queue.consumers[link]
        payload, failed = queue.pop()
        handle = link.send(payload)
        if not handle.settled:
            self._clients[peer].sending[handle] = (queue, payload, failed)
        peer.update()

    def _answered(self, client: _Client, handle: Outgoing, state: Any) -> None:
        if isinstance(state, amqp10.TransactionalState):
            transaction = client.transactions.get(bytes(state.txn_id or b""))
            if transaction is not None:
                transaction.retired.append((handle, state.outcome))
                return
            state = amqp10.Released()
        self._retire(client, handle, state if type(state) in OUTCOMES else amqp10.Released())

    def _retire(self, client: _Client, handle: Outgoing, outcome: Any) -> None:
        found = client.sending.pop(handle, None)
        if found is None:
            return
        queue, payload, failed = found
        match outcome:
            case amqp10.Accepted():
                return
            case amqp10.Rejected():
                queue.dropped += 1
                return
            case amqp10.Modified() if outcome.undeliverable_here:
                queue.dropped += 1
                return
            case amqp10.Modified():
                failed += bool(outcome.delivery_failed)
        queue.push(payload, failed, front=True)
        self._serve(queue)

    def _forget(self, client: _Client, link: Link, lost: tuple[Any, ...]) -> None:
        """A link is gone: its messages go back, in order."""
        client.targets.pop(link, None)
        client.coordinators.discard(link)
        for queue in self.queues.values():
            if isinstance(link, Sender):
                queue.consumers.pop(link, None)
        for handle in reversed(lost):
            self._retire(client, handle, amqp10.Released())

    def _forget_all(self, client: _Client, peer: Peer, session: Any, lost: tuple[Any, ...]) -> None:
        for queue in self.queues.values():
            for sender in [k for k, p in queue.consumers.items() if p is peer and session in (None, k.session)]:
                del queue.consumers[sender]
        for link in [k for k in client.targets if session in (None, k.session)]:
            del client.targets[link]
        client.coordinators = {k for k in client.coordinators if session not in (None, k.session)}
        for handle in reversed(lost):
            self._retire(client, handle, amqp10.Released())


def queue_name(address: str) -> str:
    """The queue of an address. Raises LookupError(condition, description)."""
    if address.startswith("/queues/"):
        address = address.removeprefix("/queues/")
    elif address.startswith("/"):
        raise LookupError(NOT_FOUND, f"no address {address!r}")
    try:
        name = unquote(address, errors="strict")
    except UnicodeDecodeError as error:
        raise LookupError(INVALID_FIELD, "an address is percent-encoded UTF-8") from error
    if not name or "/" in address:
        raise LookupError(INVALID_FIELD, f"no queue in {address!r}")
    return name
