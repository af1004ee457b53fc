"""All six protocols in one broker: listeners, users, and what a program sees of it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from ssl import SSLContext
from typing import Any, Final, Literal

from wirefmt import amqp091, amqp10, nsq, phpmq, rocketmq
from wirefmt import mqtt as mqtt
from wirefmt.broker import amqp091 as amqp091_broker
from wirefmt.broker import amqp10 as amqp10_broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker import phpmq as phpmq_broker
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.credentials import is_any_password, is_password
from wirefmt.broker.faults import Active, Fault, Faults, FaultyHandler
from wirefmt.broker.routing import Limits, Published, Router
from wirefmt.broker.views import AsyncSeen, Client, Message, SyncSeen
from wirefmt.connection import aio
from wirefmt.errors import LocalProtocolError

#: The protocols, as ports, URLs and views name them. "amqp" is AMQP 0.9.1.
NAMES: Final = ("mqtt", "amqp", "amqp10", "nsq", "rocketmq", "phpmq")

#: The listeners that there can be, and the scheme of their URLs. "+ws" is WebSocket, "+wss" WebSocket over TLS.
SCHEMES: Final = {
    "mqtt": "mqtt", "mqtt+tls": "mqtts", "mqtt+ws": "ws", "mqtt+wss": "wss",
    "amqp": "amqp", "amqp+tls": "amqps",
    "amqp10": "amqp", "amqp10+tls": "amqps", "amqp10+ws": "ws", "amqp10+wss": "wss",
    "nsq": "nsq", "rocketmq": "rocketmq", "rocketmq+tls": "rocketmqs", "phpmq": "phpmq", "phpmq+tls": "phpmqs",
    "nsqlookupd": "http",
}  # fmt: skip

#: Seconds within which the client of a shared port has to send its protocol header.
HEADER_TIMEOUT: Final = 10.0

Tapping = Callable[[str, aio.Driver], asyncio.BaseProtocol]


@dataclass(frozen=True, slots=True)
class Options:
    """What a broker serves, and its limits.

    Attributes:
        ports: the port of each listener (`SCHEMES` has their names); 0: one that is free. A listener without a port is not
            there. "amqp" and "amqp10" may have the same port: the client's protocol header decides.
        host: where to listen.
        tls: for listeners with "+tls" and "+wss", and for NSQ's clients that ask for TLS.
        users: passwords by user name; None: everybody is let in. MQTT: user name and password. AMQP: PLAIN, with 1.0 also
            SCRAM-SHA-256. NSQ: the secret is the password of a user. RocketMQ: access key and secret key. PHPMQ has no users.
        connections: of each protocol at a time. Further ones are closed at once.
        limits: of the exchanges and queues of AMQP, and the dialect in which messages cross between MQTT and AMQP.
        stalled: seconds that a client may take no bytes while there are some for it; then it is dropped. None: for ever.
        grace: seconds that clients have to answer when the broker closes; then they are dropped.
        history: messages of MQTT topics that are remembered for `Broker.topic`, the latest ones.
        tap: called with the name of the listener and the driver of each new connection; returns what lies between transport
            and driver (`wirefmt.connection.aio.Tap`).
        mqtt, amqp, amqp10, nsq, rocketmq, phpmq: policies and limits of each protocol's broker.
        connection: options of the connections of a protocol by its name, for example `{"mqtt": mqtt.ConnectionOptions()}`.
    """

    ports: Mapping[str, int | None] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    host: str = "127.0.0.1"
    tls: SSLContext | None = None
    users: Mapping[str, str] | None = field(default=None, repr=False)
    connections: int = 10_000
    limits: Limits = field(default_factory=Limits)
    stalled: float | None = 60.0
    grace: float = 0.2
    history: int = 1000
    tap: Tapping | None = None
    mqtt: mqtt_broker.BrokerOptions = field(default_factory=mqtt_broker.BrokerOptions)
    amqp: amqp091_broker.BrokerOptions = field(default_factory=lambda: amqp091_broker.BrokerOptions(users=None))
    amqp10: amqp10_broker.BrokerOptions = field(default_factory=amqp10_broker.BrokerOptions)
    nsq: nsq_broker.BrokerOptions = field(default_factory=nsq_broker.BrokerOptions)
    rocketmq: rocketmq_broker.BrokerOptions = field(default_factory=rocketmq_broker.BrokerOptions)
    phpmq: phpmq_broker.BrokerOptions = field(default_factory=phpmq_broker.BrokerOptions)
    connection: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := set(self.ports) - set(SCHEMES):
            raise ValueError(f"no such listeners: {', '.join(sorted(unknown))}; there are {', '.join(SCHEMES)}")
        if unknown := set(self.connection) - set(NAMES):
            raise ValueError(f"no such protocols: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        if self.tls is None and any(name.endswith(("+tls", "+wss")) for name in self.ports):
            raise ValueError("listeners with TLS need `tls`")


class Broker:
    """A broker of all six protocols.

    ::

        async with Broker() as b:
            await run_service(b.url("mqtt"))
            assert (await b.topic("plant/+").wait(1))[0].body == b"21.5"

    Args:
        options: what it serves.
        changes: fields of the options, in their place.

    Attributes:
        options: what it serves.
        mqtt, amqp, amqp10, nsq, rocketmq, phpmq: the brokers of the protocols.
        router: the exchanges and queues that MQTT, AMQP 0.9.1 (virtual host "/") and AMQP 1.0 share.
        servers: of the listeners, by their names.
        faults: what goes wrong on purpose (`wirefmt.broker.faults`).
        published: messages that clients have published, by protocol.
    """

    def __init__(self, options: Options | None = None, **changes: Any) -> None:
        self.options = options = replace(options or Options(), **changes)
        users = options.users
        self.router = Router(options.limits)
        self.mqtt = mqtt_broker.Broker(
            options.mqtt if users is None else replace(options.mqtt, authenticate=self._login), router=self.router
        )
        self.amqp = amqp091_broker.Broker(
            options.amqp if users is None else replace(options.amqp, users=users),
            router=self.router,
            limits=options.limits,
        )
        self.amqp10 = amqp10_broker.Broker(
            options.amqp10 if users is None else replace(options.amqp10, users=users), router=self.router
        )
        self.nsq = nsq_broker.Broker(options.nsq if users is None else replace(options.nsq, authorise=self._is_secret))
        self.rocketmq = rocketmq_broker.Broker(
            options.rocketmq if users is None else replace(options.rocketmq, accounts=users)
        )
        self.phpmq = phpmq_broker.Broker(options.phpmq)
        self.servers: dict[str, aio.Server] = {}
        self.faults = Faults(self._drivers)
        self.published = dict.fromkeys(NAMES, 0)
        self._ports: dict[str, int] = {}
        self._history: deque[Message] = deque(maxlen=options.history)
        if options.history:
            self.mqtt.observe = self._remember
        self._sweep: asyncio.TimerHandle | None = None
        self._open = ExitStack()  # listeners that are no servers

    # ---- starting and ending

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Listen. Raises OSError if a port cannot be had; nothing is listened on then."""
        options = self.options
        ports = {name: port for name, port in options.ports.items() if port is not None}
        try:
            shared = ports.get("amqp")
            if shared and shared == ports.get("amqp10"):
                await self._share(shared)
                del ports["amqp"], ports["amqp10"]
            for name, port in ports.items():
                if name != "nsqlookupd":
                    self._add(name, await self._serve(name, port))
            if "nsqlookupd" in ports:
                lookup = await self.nsq.serve_lookup(self._ports["nsq"], options.host, ports["nsqlookupd"])
                self._ports["nsqlookupd"] = lookup.sockets[0].getsockname()[1]
                self._open.callback(lookup.close)
        except BaseException:
            await self.close()
            raise
        self._drop_stalled()
        if routed := self._ports.get("rocketmq", self._ports.get("rocketmq+tls")):
            self.rocketmq.address = f"{options.host}:{routed}"

    async def close(self) -> None:
        """Stop listening, end the connections in their protocol's way, and forget everything. Clients that do not answer within
        `Options.grace` are dropped."""
        for name, server in self.servers.items():
            for driver in list(server.drivers):
                _say_goodbye(name.partition("+")[0], driver)
        timer = asyncio.get_running_loop().call_later(self.options.grace, self._drop)
        try:
            await asyncio.gather(*(server.close() for server in self.servers.values()))
        finally:
            timer.cancel()
            if self._sweep is not None:
                self._sweep.cancel()
            self._open.close()
        self.servers.clear()
        self._ports.clear()
        self._forget()

    async def restart(self, *, keep_state: bool) -> None:
        """Come back as after a crash: connections are dropped, and the ports are the same.

        Args:
            keep_state: what is in memory stays, as if it had been on a disk. Otherwise everything is forgotten.
        """
        self.options = replace(self.options, ports=dict(self._ports))
        self._drop()
        await asyncio.gather(*(server.close() for server in self.servers.values()))
        self._open.close()
        self.servers.clear()
        self._ports.clear()
        if not keep_state:
            self._forget()
        await self.start()

    def fault(self, protocol: str = "*", **values: Any) -> AbstractContextManager[Active]:
        """Let something go wrong for as long as the block runs: `with b.fault("mqtt", cut_after=10): ...`

        Args:
            protocol: "mqtt", "amqp", "amqp10", "nsq", "rocketmq" or "phpmq"; "*": all.
            values: the fields of `wirefmt.broker.faults.Fault`.

        Raises ValueError.
        """
        return self.faults.fault(protocol, **values)

    def _drivers(self, protocol: str) -> list[aio.Driver]:
        servers = [server for name, server in self.servers.items() if name.partition("+")[0] == protocol]
        return [driver for server in servers for driver in server.drivers]

    async def reset(self) -> None:
        """Drop all clients and all state. The ports stay."""
        for driver in self._drop():
            await driver.wait_closed()
        self._forget()

    def _drop_stalled(self) -> None:
        """Drop clients that have taken no bytes for too long; look again later."""
        limit = self.options.stalled
        if limit is None:
            return
        loop = asyncio.get_running_loop()
        for server in self.servers.values():
            for driver in list(server.drivers):
                if driver.full_since is not None and loop.time() - driver.full_since >= limit:
                    driver.abort(TimeoutError(f"the client has taken no bytes for {limit} s"))
        self._sweep = loop.call_later(limit / 4, self._drop_stalled)

    def _drop(self) -> list[aio.Driver]:
        """Drop all clients."""
        drivers = [driver for server in self.servers.values() for driver in server.drivers]
        for driver in drivers:
            driver.abort()
        return drivers

    def _forget(self) -> None:
        for broker in (self.mqtt, self.amqp, self.amqp10, self.nsq, self.rocketmq, self.phpmq):
            broker.close()
        self._history.clear()

    def _add(self, name: str, server: aio.Server, port: int | None = None) -> None:
        self.servers[name] = server
        self._ports[name] = server.port if port is None else port

    async def _serve(self, name: str, port: int | None) -> aio.Server:
        """The server of a listener; without a port it does not listen."""
        options = self.options
        protocol, _, over = name.partition("+")
        faults, tapping = self.faults, options.tap

        def tap(driver: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
            assert isinstance(driver, aio.Driver)
            faults.accept(protocol, driver)
            return driver if tapping is None else tapping(name, driver)

        def faulty(handler: Any) -> Any:
            return FaultyHandler(handler, protocol, faults, self.published)

        more: dict[str, Any] = {
            "host": options.host,
            "port": port,
            "ssl": options.tls if over in ("tls", "wss") else None,
            "most": options.connections,
            "options": options.connection.get(protocol),
            "tap": tap,
        }
        match protocol:
            case "mqtt":
                return await mqtt.serve(faulty(self.mqtt), websocket=over in ("ws", "wss"), **more)
            case "amqp":
                return await amqp091.serve(faulty(self.amqp), **more)
            case "amqp10":
                return await amqp10.serve(
                    faulty(self.amqp10),
                    mechanisms=("ANONYMOUS", "PLAIN") if options.users is None else ("SCRAM-SHA-256", "PLAIN"),
                    without_sasl=options.users is None,
                    websocket=over in ("ws", "wss"),
                    **more,
                )
            case "nsq":
                limits = options.connection.get("nsq") or nsq.ConnectionOptions()
                limits = replace(
                    limits,
                    auth_required=limits.auth_required or options.users is not None,
                    tls="offered" if options.tls is not None and limits.tls == "no" else limits.tls,
                )
                return await nsq.serve(faulty(self.nsq), **{**more, "options": limits, "ssl": options.tls})
            case "rocketmq":
                return await rocketmq.serve(faulty(self.rocketmq), **more)
            case _:
                return await phpmq.serve(faulty(self.phpmq), **more)

    async def _share(self, port: int) -> None:
        """Both AMQPs on one port."""
        old, new = await self._serve("amqp", None), await self._serve("amqp10", None)
        listener = await asyncio.get_running_loop().create_server(lambda: _Chooser(old, new), self.options.host, port)
        self._add("amqp", old, port)
        self._add("amqp10", new, port)
        self._open.callback(listener.close)

    # ---- users

    def _login(self, connect: mqtt.Connect, peer: Any) -> int:
        return 0 if is_password(self.options.users or {}, connect.user_name or "", connect.password) else 0x86

    def _is_secret(self, secret: bytes) -> bool:
        return is_any_password(self.options.users or {}, secret)

    # ---- what a program sees

    def port(self, name: str) -> int:
        """The port of a listener. Raises KeyError if it is not there."""
        return self._ports[name]

    @property
    def ports(self) -> dict[str, int]:
        """The ports of all listeners."""
        return dict(self._ports)

    def url(self, name: str) -> str:
        """The URL of a listener, without user and password. Raises KeyError if it is not there."""
        path = "/mqtt" if name.startswith("mqtt+ws") else ""
        return f"{SCHEMES[name]}://{self.options.host}:{self.port(name)}{path}"

    @property
    def clients(self) -> AsyncSeen[Client]:
        """The connections of clients."""
        return AsyncSeen("clients", self._clients)

    def queue(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> AsyncSeen[Message]:
        """The messages that wait in a queue, the next one first; none if there is no such queue.

        Args:
            name: of the queue. AMQP: 0.9.1 and 1.0 have the same queues. NSQ: TOPIC/CHANNEL, or TOPIC for what came before there
                was a channel.
        """
        look = {"amqp": self._amqp_queue, "nsq": self._nsq_queue, "phpmq": self._phpmq_queue}[protocol]
        return AsyncSeen(f"queue {name!r}", lambda: look(name))

    def topic(self, name: str, protocol: Literal["mqtt", "rocketmq"] = "mqtt") -> AsyncSeen[Message]:
        """The messages that were published to a topic, the oldest first.

        Args:
            name: MQTT: a topic filter, "plant/+"; the last `Options.history` messages of all topics are remembered, with those
                from AMQP that matched a subscription.
                RocketMQ: a topic; the messages that are stored.
        """
        if protocol == "mqtt":
            mqtt.validate_topic_filter(name)
            return AsyncSeen(f"topic {name!r}", lambda: [m for m in self._history if mqtt.matches(name, m.name)])
        return AsyncSeen(f"topic {name!r}", lambda: self._rocketmq_topic(name))

    def _remember(self, message: mqtt_broker.Message) -> None:
        self._history.append(_of_mqtt(message))

    def _clients(self) -> list[Client]:
        return [
            Client(protocol, _name_of(protocol, driver.connection), driver.host.address)  # type: ignore[attr-defined]
            for listener, server in self.servers.items()
            for protocol in (listener.partition("+")[0],)
            for driver in list(server.drivers)
        ]

    def _amqp_queue(self, name: str) -> list[Message]:
        queue = self.router.queues.get(name)
        return [_of_item(item.published) for item in (queue.messages if queue is not None else ())]

    def _nsq_queue(self, name: str) -> list[Message]:
        topic_name, _, channel_name = name.partition("/")
        topic = self.nsq.topics.get(topic_name)
        if topic is None:
            return []
        if not channel_name:
            return [Message(message.body, topic_name, "nsq") for message, _ in topic.backlog]
        channel = topic.channels.get(channel_name)
        return [Message(message.body, topic_name, "nsq") for message in (channel.queue if channel is not None else ())]

    def _phpmq_queue(self, name: str) -> list[Message]:
        queue = self.phpmq.queues.get(name)
        return [Message(message.content, name, "phpmq") for message in (queue.waiting if queue is not None else ())]

    def _rocketmq_topic(self, name: str) -> list[Message]:
        stored = [m for queue in self.rocketmq.topics.get(name, ()) for m in queue.messages]
        found = [m for s in sorted(stored, key=lambda s: s.physical) for m in rocketmq.decode_messages(s.frame)]
        return [Message(bytes(m.body or b""), m.topic, "rocketmq", properties=m.properties) for m in found]


def _say_goodbye(protocol: str, driver: aio.Driver) -> None:
    """End a connection because the broker ends. MQTT says so by itself; NSQ, RocketMQ and PHPMQ have no word for it."""
    connection: Any = driver.connection
    try:
        match protocol:
            case "amqp":
                driver.update(connection.close(320, "CONNECTION_FORCED - broker forced connection closure"))
            case "amqp10":
                error = amqp10.Error(condition="amqp:connection:forced", description="the broker shuts down")
                driver.update(connection.close(error))
            case _:
                driver.close()
    except LocalProtocolError:
        pass  # it is over


def _of_mqtt(message: mqtt_broker.Message) -> Message:
    return Message(
        message.payload,
        message.topic,
        "mqtt",
        qos=message.qos,
        retain=message.retain,
        properties=message.properties,
    )


def _of_item(published: Published) -> Message:
    container = published.container
    message = container.to(container.protocol).message
    protocol, body = "mqtt", b""
    match container.protocol:
        case "amqp091":
            message, body = message
            protocol = "amqp"
        case "amqp10":
            protocol, body = "amqp10", _body_of(message)
        case "mqtt5":
            body, message = message.payload_bytes(), message.properties
    return Message(body, published.routing_key, protocol, published.exchange, properties=message)


def _body_of(message: amqp10.Message) -> bytes:
    """The data sections; a text or binary value; of other bodies their text."""
    if message.payload is not None:
        return bytes(message.payload)
    values = [getattr(section, "value", section) for section in message.body]
    value = values[0] if len(values) == 1 else values
    return value if isinstance(value, bytes) else str(value).encode()


def _name_of(protocol: str, connection: Any) -> str:
    """How a client calls itself."""
    match protocol:
        case "mqtt":
            return connection.session.client_identifier if connection.session is not None else ""
        case "amqp":
            start_ok = connection.start_ok
            name = start_ok.client_properties.get("connection_name") if start_ok is not None else None
            return str(name or "")
        case "amqp10":
            return connection.remote.container_id or "" if connection.remote is not None else ""
        case "nsq":
            return connection.identify.client_id or "" if connection.identify is not None else ""
    return ""


class _Chooser(asyncio.Protocol):
    """A client of the port that AMQP 0.9.1 and 1.0 share: its protocol header decides (1.0: 2.2 and 5.3.1; 0.9.1: 4.2.2)."""

    def __init__(self, old: aio.Server, new: aio.Server) -> None:
        self._servers = old, new
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(HEADER_TIMEOUT, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._head += data
        if len(self._head) < 8:
            return
        self._timer.cancel()
        old, new = self._servers
        # b"AMQP", protocol id, major, minor, revision: 1.0 has the major version 1; what is neither is for 0.9.1 to answer
        protocol = (new if self._head[:4] == b"AMQP" and self._head[5:8] == b"\1\0\0" else old).accept()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        aio.hand_over(protocol, self._head)


class Running:
    """A broker in a thread of its own, for synchronous programs. `running` makes it; all of it can be used from any thread.

    Attributes:
        broker: the broker, which belongs to its thread.
    """

    def __init__(self, broker: Broker, loop: asyncio.AbstractEventLoop) -> None:
        self.broker = broker
        self._loop = loop
        self._stop = asyncio.Event()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the broker's thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    @contextmanager
    def fault(self, protocol: str = "*", **values: Any) -> Iterator[Active]:
        """As `Broker.fault`."""
        fault = Fault.of({"protocol": protocol, **values})

        async def start() -> Active:
            return self.broker.faults.start(fault)

        async def stop() -> None:
            self.broker.faults.stop(active)

        active: Active = self.run(start())
        try:
            yield active
        finally:
            self.run(stop())

    def restart(self, *, keep_state: bool) -> None:
        """As `Broker.restart`."""
        self.run(self.broker.restart(keep_state=keep_state))

    def port(self, name: str) -> int:
        """As `Broker.port`."""
        return self.broker.port(name)

    def url(self, name: str) -> str:
        """As `Broker.url`."""
        return self.broker.url(name)

    def reset(self) -> None:
        """As `Broker.reset`."""
        self.run(self.broker.reset())

    @property
    def clients(self) -> SyncSeen[Client]:
        """As `Broker.clients`."""
        return SyncSeen(self.broker.clients, self.run)

    def queue(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> SyncSeen[Message]:
        """As `Broker.queue`."""
        return SyncSeen(self.broker.queue(name, protocol), self.run)

    def topic(self, name: str, protocol: Literal["mqtt", "rocketmq"] = "mqtt") -> SyncSeen[Message]:
        """As `Broker.topic`."""
        return SyncSeen(self.broker.topic(name, protocol), self.run)


@contextmanager
def running(options: Options | None = None, **changes: Any) -> Iterator[Running]:
    """Run a broker in a thread of its own; the arguments are those of `Broker`. Raises OSError if a port cannot be had."""
    started: list[Running] = []
    failed: list[BaseException] = []
    ready = threading.Event()

    async def serve() -> None:
        async with Broker(options, **changes) as broker:
            started.append(Running(broker, asyncio.get_running_loop()))
            ready.set()
            await started[0]._stop.wait()

    def main() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=main, name="wirefmt broker", daemon=True)
    thread.start()
    ready.wait()
    if not started:
        thread.join()
        raise failed[0]
    try:
        yield started[0]
    finally:
        started[0]._loop.call_soon_threadsafe(started[0]._stop.set)
        thread.join()
        if failed:
            raise failed[0]
