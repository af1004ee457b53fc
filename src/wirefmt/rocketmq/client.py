"""A RocketMQ client on asyncio: name servers, routes, heartbeats, and what brokers ask.

docs/rocketmq-asyncio.md has examples.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from random import Random, SystemRandom
from ssl import SSLContext, create_default_context
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from wirefmt.connection.aio import Backoff
from wirefmt.errors import ConnectionLost, Refused
from wirefmt.rocketmq._codec import (
    CommandCustomHeader,
    GetRouteInfoRequestHeader,
    HeartbeatData,
    HeartbeatRequestHeader,
    MessageExt,
    ProducerData,
    RemotingCommand,
    TopicRouteData,
    UnregisterClientRequestHeader,
    decode_messages,
)
from wirefmt.rocketmq.asked import reply_of
from wirefmt.rocketmq.codes import RequestCode, ResponseCode
from wirefmt.rocketmq.events import ConnectionOptions, Credentials
from wirefmt.rocketmq.remote import BACKOFF, PASSING, Link, Remote, check, host_and_port
from wirefmt.rocketmq.routes import DEFAULT_TOPIC, MASTER, Route
from wirefmt.rocketmq.states import State
from wirefmt.rocketmq.subscriptions import INNER_GROUP

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer

    from wirefmt.rocketmq.pop_consumer import PopConsumer
    from wirefmt.rocketmq.producer import Producer
    from wirefmt.rocketmq.pull_consumer import PullConsumer
    from wirefmt.rocketmq.push_consumer import Listener, PushConsumer
    from wirefmt.rocketmq.subscriptions import Expression

#: URL scheme -> TLS.
SCHEMES: Final[dict[str, bool]] = {"rocketmq": False, "rocketmqs": True}


class Client:
    """A RocketMQ client, made by `rocketmq.connect`. `async with` opens and closes it.

    ::

        async with rocketmq.connect("127.0.0.1:9876") as client:
            producer = client.producer("orders-producer")
            await producer.send("orders", b"1 pizza", tags="food")
            async with client.push_consumer("kitchen", {"orders": "food"}, cook): ...

    Args:
        names: addresses of name servers: "host:port", several separated by semicolons, or an iterable; or the same as one
            URL, "rocketmq://host:port" or, with TLS, "rocketmqs://host:port", and "KEY:SECRET@" for credentials.
        client_id: unique among the members of a group; None: made of host name, process and a random number.
        credentials: requests are signed with them.
        ssl: TLS with this context, to name servers and brokers. None: TLS, with the default context, only if the URL says so.
        keylog: a file to which the secrets of TLS are appended, so that a capture of the connections can be decrypted. Not with
            `ssl`, which has `keylog_filename`.
        route_interval, heartbeat_interval: seconds. The real client: 30.
        timeout: seconds that a request may take, that an attempt to connect may take, and that a request waits for its turn.
        reconnect: how long attempts to connect to one server wait, after one that has failed and after a connection that has not
            lasted; never longer than `timeout`. Its `attempts` does not count: each call brings an attempt.
        options: limits and defaults of each connection.
        random: the source of random numbers; None: the system's.

    Every coroutine can be cancelled; the client stays usable.

    Attributes:
        ignored: requests of brokers that this client does not serve. They were answered with code 3.
        strays: replies to requests that have timed out.
        replies: futures of requests that wait for a reply, by CORRELATION_ID.
        version: the release that our commands name.
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
        reconnect: Backoff = BACKOFF,
        options: ConnectionOptions | None = None,
        random: Random | None = None,
        keylog: str | os.PathLike[str] | None = None,
    ) -> None:
        if keylog is not None and ssl is not None:
            raise ValueError("keylog is for contexts that are made here: set keylog_filename of `ssl`")
        self.random = random or SystemRandom()
        addresses = names if isinstance(names, str) else ";".join(names)
        if "://" in addresses:
            scheme, _, rest = addresses.partition("://")
            if scheme not in SCHEMES:
                raise ValueError(f"the scheme of {scheme + ':'!r} is not one of {', '.join(SCHEMES)}")
            login, _, addresses = rest.rstrip("/").rpartition("@")
            if login and credentials is None:
                key, _, secret = login.partition(":")
                credentials = Credentials(unquote(key), unquote(secret))
            if SCHEMES[scheme] and ssl is None:
                ssl = create_default_context()
                if keylog is not None:
                    ssl.keylog_filename = os.fspath(keylog)
        self.names = tuple(addresses.split(";"))
        for name in self.names:
            try:
                host_and_port(name)
            except ValueError as error:
                raise ValueError(f"names are host:port, at least one: {error}") from None
        self.client_id = client_id or f"{socket.gethostname()}@{os.getpid()}#{self.random.getrandbits(48):012x}"
        self.ignored = 0
        self.strays = 0
        self.replies: dict[str, asyncio.Future[MessageExt]] = {}
        base = options or ConnectionOptions()
        self.version = base.version
        self._options = replace(base, timeout=timeout, credentials=credentials or base.credentials)
        self._ssl = ssl
        self._timeout = timeout
        self._reconnect = reconnect
        self._route_interval = route_interval
        self._heartbeat_interval = heartbeat_interval
        self._remotes: dict[str, Remote] = {}
        self._current = 0  # which name server answers
        self._routes: dict[str, Route] = {}
        self._greeted: dict[str, int] = {}  # address -> number of its connection that has had our heartbeat
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
        """Start polling routes and sending heartbeats. Connections are made when they are needed."""
        if not self._open:
            self._open = True
            self._closed = False
            self.spawn(self._every(self._route_interval, self.poll_routes))
            self.spawn(self._every(self._heartbeat_interval, self.heartbeat))

    async def close(self) -> None:
        """Close consumers, unregister at the brokers, and end the connections.

        If that fails or is cancelled, the connections are dropped. Pending and later calls raise ConnectionLost.
        """
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
        self, group: str, subscriptions: Mapping[str, Expression], listener: Listener, **options: Any
    ) -> PushConsumer:
        """A consumer that is called with each message. See `PushConsumer` for the arguments."""
        from wirefmt.rocketmq.push_consumer import PushConsumer

        return PushConsumer(self, self._consumers, group, subscriptions, listener, **options)

    def pull_consumer(self, group: str) -> PullConsumer:
        """A consumer that asks for messages of a queue."""
        from wirefmt.rocketmq.pull_consumer import PullConsumer

        return PullConsumer(self, group)

    def pop_consumer(self, group: str) -> PopConsumer:
        """A consumer that asks for messages of a topic and acknowledges each."""
        from wirefmt.rocketmq.pop_consumer import PopConsumer

        return PopConsumer(self, group)

    # ---- requests

    async def ask_names(
        self, code: int, header: CommandCustomHeader | None = None, body: Buffer | None = None
    ) -> RemotingCommand:
        """Ask a name server: the one that answered last, then the others.

        Raises ConnectionLost or TimeoutError if none answers.
        """
        error: Exception | None = None
        turns = [(self._current + turn) % len(self.names) for turn in range(len(self.names))]
        for which in sorted(turns, key=lambda which: self.remote(self.names[which]).resting):
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
        """The route of a topic, from the cache or the name server. Raises Refused with code 17 if the topic does not exist."""
        return self._routes.get(topic) or await self._find_route(topic)

    async def write_route(self, topic: str) -> Route:
        """The route of a topic; if it does not exist, the route that it will have when a broker creates it."""
        try:
            return await self.route(topic)
        except Refused as refused:
            if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        return (await self.route(DEFAULT_TOPIC)).template(topic)

    async def _find_route(self, topic: str) -> Route:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        response = check(await self.ask_names(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        route = Route.of(topic, TopicRouteData.decode(response.body_bytes() or b"{}"))
        self._routes[topic] = route
        return route

    async def poll_routes(self) -> None:
        """Ask for the routes of all topics in use."""
        for topic in list(self._routes):
            try:
                await self._find_route(topic)
            except Refused:
                self._routes.pop(topic, None)
            except PASSING:
                continue  # keep the old route
        for consumer in list(self._consumers.values()):
            consumer.rebalance_soon()

    def forget_route(self, topic: str) -> None:
        """Remove a route from the cache."""
        self._routes.pop(topic, None)

    def remote(self, address: str) -> Remote:
        """The connection to an address."""
        remote = self._remotes.get(address)
        if remote is None:
            if self._closed:
                raise ConnectionLost("the client is closed")
            try:
                remote = Remote(
                    address, self._asked, self._options, self._ssl, self._timeout, self._reconnect, self.random
                )
            except ValueError as error:  # what a name server says
                raise ConnectionLost(str(error)) from error
            self._remotes[address] = remote
        return remote

    def resting(self, name: str, topic: str) -> bool:
        """True: there is no connection to the master of a broker, and the next attempt has to wait."""
        route = self._routes.get(topic)
        remote = self._remotes.get(route.brokers.get(name, {}).get(MASTER, "")) if route is not None else None
        return remote is not None and remote.resting

    async def broker(self, name: str, topic: str, *, any_of: bool = False) -> Remote:
        """The master of a broker of a topic's route; with `any_of` one of its others if there is no master.

        It is connected, has had our heartbeat, and takes bytes: a request made now is sent before anything else happens.
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
        for _ in range(3):
            await remote.ready()
            if self._greeted.get(address) == remote.connections:
                return remote
            await self._greet(remote)
        raise ConnectionLost(f"{address} ends each connection")

    # ---- heartbeats

    async def heartbeat(self) -> None:
        """Send a heartbeat with our groups to all brokers in use."""
        for address in list(self._greeted):
            try:
                await self._greet(self.remote(address))
            except PASSING:
                continue

    async def _greet(self, remote: Remote) -> None:
        data = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=g) for g in (*self._producers, INNER_GROUP)],
            consumer_data_set=[consumer.data() for consumer in self._consumers.values()],
        )
        check(await remote.call(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), data.encode()))
        self._greeted[remote.address] = remote.connections

    async def leave(self, *, producer: str | None = None, consumer: str | None = None) -> None:
        """Unregister a group at all brokers that know it."""
        header = UnregisterClientRequestHeader(
            client_id=self.client_id, producer_group=producer, consumer_group=consumer
        )
        for address in list(self._greeted):
            try:
                await self.remote(address).call(RequestCode.UNREGISTER_CLIENT, header)
            except (ConnectionLost, TimeoutError):
                continue

    async def greet_all(self, topics: Iterable[str]) -> None:
        """Send a heartbeat with our groups to the brokers of these topics and to those in use, now. Raises ConnectionLost or
        TimeoutError if none of them is reached."""
        addresses = dict.fromkeys(self._greeted)
        for topic in topics:
            try:
                route = await self.route(topic)
            except Refused:
                continue
            addresses.update({each[MASTER]: None for each in route.brokers.values() if MASTER in each})
        error: Exception | None = None
        reached = False
        for address in addresses:
            try:
                await self._greet(self.remote(address))
                reached = True
            except (ConnectionLost, TimeoutError) as failed:
                error = failed
        if error is not None and not reached:
            raise error

    # ---- what brokers ask

    def _asked(self, link: Link, request: RemotingCommand) -> None:
        if link.connection.state is State.CLOSED:
            return  # a fault followed the request
        match request.code:
            case RequestCode.CHECK_TRANSACTION_STATE:
                self.spawn(self._check_transaction(link, request))
                self._answer(link, request)
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                consumer = self._consumers.get((request.ext_fields or {}).get("consumerGroup") or "")
                if consumer is not None:
                    consumer.rebalance_soon()
                self._answer(link, request)
            case (
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET
                | RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
                | RequestCode.GET_CONSUMER_RUNNING_INFO
                | RequestCode.CONSUME_MESSAGE_DIRECTLY
            ):
                self._ask_consumer(link, request)
            case RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                self._replied(link, request)
            case _:
                self.ignored += 1
                if not request.is_oneway:
                    link.driver.update(link.connection.refuse(request))

    def _ask_consumer(self, link: Link, request: RemotingCommand) -> None:
        fields, code = request.ext_fields or {}, request.code
        offsets = code in (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
        consumer = self._consumers.get(fields.get("group" if offsets else "consumerGroup") or "")
        if consumer is None:
            missing = ResponseCode.CONSUMER_NOT_ONLINE if offsets else ResponseCode.SYSTEM_ERROR
            self._answer(link, request, code=missing, remark="the client has no consumer of this group")
        elif code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            consumer.reset(request.body_bytes() or b"")
            self._answer(link, request)
        elif code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            self._answer(link, request, consumer.status(fields.get("topic") or ""))
        elif code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            self._answer(link, request, consumer.running_info())
        else:  # CONSUME_MESSAGE_DIRECTLY
            self.spawn(self._consume_directly(consumer, link, request))

    def _answer(
        self,
        link: Link,
        request: RemotingCommand,
        body: bytes | None = None,
        *,
        code: int = 0,
        remark: str | None = None,
    ) -> None:
        if not request.is_oneway and link.connection.state is not State.CLOSED:
            link.driver.update(link.connection.respond(request, code, body=body, remark=remark))

    def _replied(self, link: Link, request: RemotingCommand) -> None:
        """A reply to a request of `Producer.request`."""
        try:
            message = reply_of(request)
        except ValueError as error:
            self._answer(link, request, code=ResponseCode.SYSTEM_ERROR, remark=str(error))
            return
        waiter = self.replies.get((message.properties or {}).get("CORRELATION_ID", ""))
        if waiter is not None and not waiter.done():
            waiter.set_result(message)
        else:
            self.strays += 1
        self._answer(link, request)

    async def _consume_directly(self, consumer: PushConsumer, link: Link, request: RemotingCommand) -> None:
        try:
            (message,) = decode_messages(request.body_bytes() or b"")
        except ValueError:  # DecodeError among them
            self._answer(link, request, code=ResponseCode.SYSTEM_ERROR, remark="the request has no message")
            return
        self._answer(link, request, await consumer.consume_directly(message))

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
