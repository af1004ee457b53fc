"""A RocketMQ client on asyncio: name servers, routes, heartbeats, and what brokers ask.

docs/rocketmq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random, SystemRandom
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wirefmt.errors import ConnectionLost, DecodeError, Refused
from wirefmt.rocketmq._codec import (
    CommandCustomHeader,
    GetRouteInfoRequestHeader,
    HeartbeatData,
    HeartbeatRequestHeader,
    ProducerData,
    RemotingCommand,
    TopicRouteData,
    UnregisterClientRequestHeader,
)
from wirefmt.rocketmq.events import ConnectionOptions, Credentials
from wirefmt.rocketmq.remote import Link, Remote
from wirefmt.rocketmq.states import State

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

    from wirefmt.rocketmq.consumer import Listener, PopConsumer, PullConsumer, PushConsumer
    from wirefmt.rocketmq.producer import Producer

# Request codes
HEART_BEAT: Final = 34
UNREGISTER_CLIENT: Final = 35
CHECK_TRANSACTION_STATE: Final = 39
NOTIFY_CONSUMER_IDS_CHANGED: Final = 40
GET_ROUTEINFO_BY_TOPIC: Final = 105
RESET_CONSUMER_CLIENT_OFFSET: Final = 220
GET_CONSUMER_STATUS_FROM_CLIENT: Final = 221

TOPIC_NOT_EXIST: Final = 17
DEFAULT_TOPIC: Final = "TBW102"  # its route is a template for topics that do not exist
DEFAULT_QUEUES: Final = 4
MASTER: Final = 0
READ, WRITE = 4, 2

#: The real client lists this group in every heartbeat.
INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"


class Queue(NamedTuple):
    """A queue of a topic. Queues are ordered as the real client orders them, so that all members of a group agree."""

    topic: str
    broker: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic is.

    Attributes:
        brokers: name -> broker id -> "host:port". Id 0 is the master.
        read, write: queues that may be read from and written to, in order.
    """

    brokers: Mapping[str, Mapping[int, str]]
    read: tuple[Queue, ...]
    write: tuple[Queue, ...]

    @classmethod
    def of(cls, topic: str, data: TopicRouteData) -> Route:
        brokers = {b.broker_name or "": dict(b.broker_addrs or {}) for b in data.broker_datas or ()}
        read: list[Queue] = []
        write: list[Queue] = []
        for queues in data.queue_datas or ():
            name, perm = queues.broker_name or "", queues.perm or 0
            if perm & READ:
                read += [Queue(topic, name, n) for n in range(queues.read_queue_nums or 0)]
            if perm & WRITE and MASTER in brokers.get(name, ()):
                write += [Queue(topic, name, n) for n in range(queues.write_queue_nums or 0)]
        return cls(brokers, tuple(sorted(read)), tuple(sorted(write)))

    def template(self, topic: str) -> Route:
        """The route that a topic will have once a broker has made it."""

        def of(queues: tuple[Queue, ...]) -> tuple[Queue, ...]:
            return tuple(Queue(topic, q.broker, q.queue_id) for q in queues if q.queue_id < DEFAULT_QUEUES)

        return Route(self.brokers, of(self.read), of(self.write))


def check(response: RemotingCommand, *codes: int) -> RemotingCommand:
    """The response. Raises Refused unless its code is 0 or one of `codes`."""
    if response.code and response.code not in codes:
        raise Refused(f"the server answers {response.code}: {response.remark}", response.code, response)
    return response


class Client:
    """A RocketMQ client, made by `rocketmq.connect`. `async with` opens and closes it.

    ::

        async with rocketmq.connect("127.0.0.1:9876") as client:
            producer = client.producer("orders-producer")
            await producer.send("orders", b"1 pizza", tags="food")
            async with client.push_consumer("kitchen", {"orders": "food"}, cook): ...

    Args:
        names: addresses of name servers: "host:port", several separated by semicolons, or an iterable.
        client_id: unique among the members of a group. None: made of host name, process and a random number.
        credentials: requests are signed with them.
        ssl: TLS with this context, to name servers and brokers.
        route_interval, heartbeat_interval: seconds. The real client: 30.
        timeout: seconds that a request may take.
        options: limits and habits of each connection.
        random: None: the system's.

    Every coroutine can be cancelled; the client stays usable.

    Attributes:
        ignored: requests of brokers that this client does not serve. They were answered with code 3.
    """

    def __init__(
        self,
        names: str | Iterable[str],
        *,
        client_id: str | None = None,
        credentials: Credentials | None = None,
        ssl: SSLContext | None = None,
        route_interval: float = 30.0,
        heartbeat_interval: float = 30.0,
        timeout: float = 3.0,
        options: ConnectionOptions | None = None,
        random: Random | None = None,
    ) -> None:
        self.random = random or SystemRandom()
        self.names = tuple(names.split(";") if isinstance(names, str) else names)
        if not self.names or any(":" not in name for name in self.names):
            raise ValueError("names are host:port, at least one")
        self.client_id = client_id or f"{socket.gethostname()}@{os.getpid()}#{self.random.getrandbits(48):012x}"
        self.ignored = 0
        base = options or ConnectionOptions()
        self._options = replace(base, timeout=timeout, credentials=credentials or base.credentials)
        self._ssl = ssl
        self._timeout = timeout
        self._route_interval = route_interval
        self._heartbeat_interval = heartbeat_interval
        self._remotes: dict[str, Remote] = {}
        self._current = 0  # which name server answers
        self._routes: dict[str, Route] = {}
        self._greeted: dict[str, int] = {}  # address -> how often we had connected when it heard of our groups
        self._producers: dict[str, Producer] = {}
        self._consumers: dict[str, PushConsumer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = False
        self._closed = False

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def open(self) -> None:
        """Begin to poll routes and to send heartbeats. Connections are made when they are needed."""
        if not self._open:
            self._open = True
            self._closed = False
            self.spawn(self._every(self._route_interval, self.poll_routes))
            self.spawn(self._every(self._heartbeat_interval, self.heartbeat))

    async def close(self) -> None:
        """Close consumers, take leave of brokers, and end the connections. If that fails or is cancelled, the connections are
        dropped. Calls that still wait raise ConnectionLost, and so do calls that come later."""
        self._open = False
        journals = [p.journal for p in self._producers.values() if p.journal is not None]
        try:
            for consumer in list(self._consumers.values()):
                await consumer.close()
            for group in list(self._producers):
                await self.leave(producer=group)
            self._end_tasks()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._closed = True
            for remote in list(self._remotes.values()):
                await remote.close()
        finally:
            self._closed = True
            self._end_tasks()
            remotes, self._remotes = self._remotes, {}
            for remote in remotes.values():
                remote.abort()
            self._producers.clear()
            self._consumers.clear()
            self._greeted.clear()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for remote in remotes.values():
                await remote.close()
            for journal in journals:
                await journal.close()

    def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()

    # ---- what is made of it

    def producer(
        self, group: str, *, check: Callable[[Any], Any] | None = None, retries: int = 2, **options: Any
    ) -> Producer:
        """A producer. See `Producer` for the arguments."""
        from wirefmt.rocketmq.producer import Producer

        producer = self._producers[group] = Producer(self, group, check=check, retries=retries, **options)
        self._greeted.clear()
        return producer

    def push_consumer(
        self, group: str, subscriptions: Mapping[str, str], listener: Listener, **options: Any
    ) -> PushConsumer:
        """A consumer that is called with each message. See `PushConsumer` for the arguments."""
        from wirefmt.rocketmq.consumer import PushConsumer

        return PushConsumer(self, group, subscriptions, listener, **options)

    def pull_consumer(self, group: str) -> PullConsumer:
        """A consumer that asks for messages of a queue."""
        from wirefmt.rocketmq.consumer import PullConsumer

        return PullConsumer(self, group)

    def pop_consumer(self, group: str) -> PopConsumer:
        """A consumer that asks for messages of a topic and acknowledges each."""
        from wirefmt.rocketmq.consumer import PopConsumer

        return PopConsumer(self, group)

    # ---- requests

    async def ask_names(
        self, code: int, header: CommandCustomHeader | None = None, body: Buffer | None = None
    ) -> RemotingCommand:
        """Ask a name server: the one that answered last, then the others.

        Raises ConnectionLost or TimeoutError if none answers.
        """
        error: Exception | None = None
        for turn in range(len(self.names)):
            which = (self._current + turn) % len(self.names)
            try:
                response = await self.remote(self.names[which]).call(code, header, body)
            except (ConnectionLost, TimeoutError) as failed:
                error = failed
                continue
            self._current = which
            return response
        assert error is not None
        raise error

    async def route(self, topic: str) -> Route:
        """Where a topic is, from the cache or the name server. Raises Refused with code 17 if there is no such topic."""
        return self._routes.get(topic) or await self._find_route(topic)

    async def write_route(self, topic: str) -> Route:
        """The same; for a topic that does not exist, the route that brokers will make for it."""
        try:
            return await self.route(topic)
        except Refused as refused:
            if refused.code != TOPIC_NOT_EXIST:
                raise
        return (await self.route(DEFAULT_TOPIC)).template(topic)

    async def _find_route(self, topic: str) -> Route:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = check(await self.ask_names(GET_ROUTEINFO_BY_TOPIC, header))
        route = Route.of(topic, TopicRouteData.decode(response.body_bytes() or b"{}"))
        self._routes[topic] = route
        return route

    async def poll_routes(self) -> None:
        """Ask for the routes of all topics in use."""
        for topic in list(self._routes):
            try:
                await self._find_route(topic)
            except (ConnectionLost, TimeoutError, DecodeError):
                continue  # the route as it was
            except Refused:
                self._routes.pop(topic, None)
        for consumer in list(self._consumers.values()):
            consumer.rebalance_soon()

    def forget_route(self, topic: str) -> None:
        """Ask for the route when it is needed next."""
        self._routes.pop(topic, None)

    def remote(self, address: str) -> Remote:
        """The connection to an address."""
        remote = self._remotes.get(address)
        if remote is None:
            if self._closed:
                raise ConnectionLost("the client is closed")
            remote = self._remotes[address] = Remote(address, self._asked, self._options, self._ssl, self._timeout)
        return remote

    async def broker(self, name: str, topic: str, *, any_of: bool = False) -> Remote:
        """The master of a broker of a topic's route; with `any_of` one of its others if there is no master.

        It is connected, knows our groups, and takes bytes: a request made now is sent before anything else happens.
        """
        route = self._routes.get(topic) or await self.write_route(topic)
        addresses = route.brokers.get(name, {})
        address = addresses.get(MASTER)
        if address is None and any_of and addresses:
            address = addresses[min(addresses)]
        if address is None:
            self.forget_route(topic)
            raise ConnectionLost(f"no master of broker {name} is known")
        remote = self.remote(address)
        while True:
            await remote.ready()
            if self._greeted.get(address) == remote.connections:
                return remote
            await self._greet(remote)

    # ---- heartbeats

    async def heartbeat(self) -> None:
        """Tell all brokers in use of our groups."""
        for address in list(self._greeted):
            try:
                await self._greet(self.remote(address))
            except (ConnectionLost, TimeoutError, Refused):
                continue

    async def _greet(self, remote: Remote) -> None:
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=g) for g in (*self._producers, INNER_GROUP)],
            consumer_data_set=[consumer.data() for consumer in self._consumers.values()],
        )
        check(await remote.call(HEART_BEAT, HeartbeatRequestHeader(), data.encode()))
        self._greeted[remote.address] = remote.connections

    async def leave(self, *, producer: str | None = None, consumer: str | None = None) -> None:
        """Take leave of all brokers that know this group."""
        header = UnregisterClientRequestHeader(
            client_id=self.client_id, producer_group=producer, consumer_group=consumer
        )
        for address in list(self._greeted):
            try:
                await self.remote(address).call(UNREGISTER_CLIENT, header)
            except (ConnectionLost, TimeoutError):
                continue

    async def greet_all(self, topics: Iterable[str]) -> None:
        """Tell the brokers of these topics of our groups, at once."""
        for topic in topics:
            try:
                route = await self.route(topic)
            except Refused:
                continue
            for addresses in route.brokers.values():
                if MASTER in addresses:
                    await self._greet(self.remote(addresses[MASTER]))

    # ---- what brokers ask

    def _asked(self, link: Link, request: RemotingCommand) -> None:
        if link.connection.state is State.CLOSED:
            return  # a fault came right behind the request
        match request.code:
            case 39:  # CHECK_TRANSACTION_STATE
                self.spawn(self._check_transaction(link, request))
            case 40:  # NOTIFY_CONSUMER_IDS_CHANGED
                consumer = self._consumers.get((request.ext_fields or {}).get("consumerGroup", ""))
                if consumer is not None:
                    consumer.rebalance_soon()
            case 220 | 221:  # RESET_CONSUMER_CLIENT_OFFSET, GET_CONSUMER_STATUS_FROM_CLIENT
                fields = request.ext_fields or {}
                consumer = self._consumers.get(fields.get("group", ""))
                if consumer is not None:
                    body = consumer.reset_or_status(request, fields.get("topic", ""))
                    self._answer(link, request, body)
                else:
                    self._answer(link, request, None, 206)  # CONSUMER_NOT_ONLINE
                return
            case _:
                self.ignored += 1
                if not request.is_oneway:
                    link.driver.update(link.connection.refuse(request))
                return
        self._answer(link, request, None)

    def _answer(self, link: Link, request: RemotingCommand, body: bytes | None, code: int = 0) -> None:
        if not request.is_oneway:
            link.driver.update(link.connection.respond(request, code, body=body))

    async def _check_transaction(self, link: Link, request: RemotingCommand) -> None:
        for producer in list(self._producers.values()):
            if await producer.checked(link, request):
                return

    # ---- tasks

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that ends with the client."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a task of a client raised", "exception": error}
            )

    async def _every(self, seconds: float, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await call()


def connect(names: str | Iterable[str], **arguments: Any) -> Client:
    """A client of RocketMQ, for `async with`. See `Client` for the arguments."""
    return Client(names, **arguments)
