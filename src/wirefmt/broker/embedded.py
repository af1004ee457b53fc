"""A broker of all six protocols: its listeners, its users, and what a program sees of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from ssl import SSLContext
from typing import Any, Literal
from urllib.parse import quote

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp10.codes import ErrorCondition
from wirefmt.broker import amqp091 as amqp091_broker
from wirefmt.broker import amqp10 as amqp10_broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker import nsq as nsq_broker
from wirefmt.broker import phpmq as phpmq_broker
from wirefmt.broker import rocketmq as rocketmq_broker
from wirefmt.broker.credentials import is_password, user_of
from wirefmt.broker.faults import Active, Faults, FaultyHandler
from wirefmt.broker.history import History
from wirefmt.broker.limits import Limits
from wirefmt.broker.listeners import NAMES, SCHEMES, SharedPort
from wirefmt.broker.messages import Published
from wirefmt.broker.permissions import OTHERS, Permissions, Table
from wirefmt.broker.publishing import PUBLISHERS
from wirefmt.broker.routing import Router
from wirefmt.broker.views import AsyncSeen, Client, Message, named, text_of_body
from wirefmt.connection import aio
from wirefmt.connection.aio.unfinished import UNFINISHED, Unfinished
from wirefmt.connection.deflate import Deflate
from wirefmt.convert import topic_of
from wirefmt.errors import EncodeError, LocalProtocolError, suggest
from wirefmt.mqtt.codes import ReasonCode

Tapping = Callable[[str, aio.Driver], asyncio.BaseProtocol]


@dataclass(frozen=True, slots=True)
class Options:
    """What a broker serves, and its limits.

    Attributes:
        ports: the port of each listener (`wirefmt.broker.listeners.SCHEMES` has the names); 0: any free port; None: no
            listener. "amqp" and "amqp10" may have the same port: the client's protocol header decides.
        host: the address to listen on.
        tls: the context for listeners with "+tls" and "+wss", and for NSQ clients that ask for TLS.
        users: passwords by user name; None: no authentication. MQTT: user name and password. AMQP: PLAIN, and SCRAM-SHA-256
            for AMQP 1.0. NSQ: the secret is the password of any user. RocketMQ: access key and secret key. PHPMQ has no
            authentication.
        permissions: what the users may do: user -> protocol -> right -> patterns (`wirefmt.broker.permissions`). None:
            everything. A user may do nothing that is not listed. The user "*" is for those who are not listed, and for all
            clients if there are no users. PHPMQ is not restricted.
        origins: web pages that may connect over WebSocket, as "https://panel.example"; "*": all. Requests with another Origin are
            refused; clients outside browsers usually send none.
        deflate: accept compression (permessage-deflate) over WebSocket; None: do not.
        proxy_protocol: True: each client comes through a proxy that sends a header of the PROXY protocol first, version 1 or 2,
            before TLS; it says the address of the client. Or the names of the listeners for which this is so. Connections to
            them without a header are refused, and connections to the others with one.
        connections: clients of each listener at a time; further ones are closed immediately. Two protocols on one port are one
            listener.
        unfinished: bytes of packets, frames and messages that have arrived in part, over all connections (`aio.unfinished`).
        limits: limits of AMQP's exchanges and queues, and the dialect for messages between MQTT and AMQP.
        stalled: seconds for which a client may read nothing while data for it waits; then it is dropped. None: no limit.
        grace: seconds that clients have to answer when the broker closes; then they are dropped.
        history: the number of messages that `Broker.published`, `Broker.unrouted` and, for MQTT topics, `Broker.topic` remember,
            each. The oldest are forgotten first. 0: none, which costs a message the least.
        history_bytes: bytes of them, each.
        tap: called with the name of the listener and the driver of each new connection; returns what lies between transport
            and driver (`wirefmt.connection.aio.Tap`).
        mqtt, amqp, amqp10, nsq, rocketmq, phpmq: policies and limits of each protocol's broker.
        connection: the options of a protocol's connections, by protocol: `{"mqtt": mqtt.ConnectionOptions()}`.

    Raises ValueError for unknown names, TLS listeners without `tls`, and permissions that are invalid or of unknown users.
    """

    ports: Mapping[str, int | None] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    host: str = "127.0.0.1"
    tls: SSLContext | None = None
    users: Mapping[str, str] | None = field(default=None, repr=False)
    permissions: Table | None = None
    origins: Collection[str] = ()
    deflate: Deflate | None = None
    proxy_protocol: bool | Collection[str] = False
    connections: int = 10_000
    unfinished: int = UNFINISHED
    limits: Limits = field(default_factory=Limits)
    stalled: float | None = 60.0
    grace: float = 0.2
    history: int = 1000
    history_bytes: int = 1 << 26
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
            raise ValueError(f"unknown listeners: {', '.join(sorted(unknown))}; there are {', '.join(SCHEMES)}")
        if unknown := set(self.connection) - set(NAMES):
            raise ValueError(f"unknown protocols: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        if self.tls is None and any(name.endswith(("+tls", "+wss")) for name in self.ports):
            raise ValueError("listeners with TLS need `tls`")
        listed = isinstance(self.origins, Collection) and not isinstance(self.origins, str)
        if not listed or not all(isinstance(origin, str) for origin in self.origins):
            raise ValueError(f"origins must be a list of strings, not {self.origins!r}")
        proxied = self.proxy_protocol
        if not isinstance(proxied, bool):
            if not isinstance(proxied, Collection) or isinstance(proxied, str):
                raise ValueError(f"proxy_protocol must be true, false or a list of listeners, not {proxied!r}")
            if unknown := set(proxied) - set(SCHEMES):
                raise ValueError(f"proxy_protocol for unknown listeners: {', '.join(sorted(map(str, unknown)))}")
            if ("amqp" in proxied) is not ("amqp10" in proxied) and self._is_shared:
                raise ValueError("proxy_protocol: amqp and amqp10 are on one port, so it is for both or for none")
        if self.permissions is not None:
            Permissions(self.permissions)
            for user in self.permissions:
                if user != OTHERS and not self.users:
                    raise ValueError(f"permissions for {user!r} need users; those for all clients are for {OTHERS!r}")
                if user != OTHERS and user not in (self.users or ()):
                    raise ValueError(f"permissions for an unknown user {user!r}; {suggest(user, self.users or ())}")

    @property
    def _is_shared(self) -> bool:
        """Are AMQP 0.9.1 and AMQP 1.0 on one port?"""
        return bool(self.ports.get("amqp")) and self.ports.get("amqp") == self.ports.get("amqp10")

    def is_proxied(self, listener: str) -> bool:
        """Do connections to this listener begin with a PROXY header?"""
        return self.proxy_protocol if isinstance(self.proxy_protocol, bool) else listener in self.proxy_protocol


class Broker:
    """A broker of all six protocols.

    ::

        async with Broker() as b:
            await run_service(b.url("mqtt"))
            assert (await b.topic("plant/+").wait(1))[0].body == b"21.5"

    Args:
        options: listeners, users and limits.
        changes: fields of the options that are replaced.

    Attributes:
        options: listeners, users and limits.
        mqtt, amqp, amqp10, nsq, rocketmq, phpmq: the brokers of the protocols.
        router: the exchanges and queues that MQTT, AMQP 0.9.1 (virtual host "/") and AMQP 1.0 share.
        servers: the servers, by listener.
        unfinished: what has arrived in part.
        faults: faults on purpose (`wirefmt.broker.faults`).
        counts: the number of messages that clients have published, by protocol.
    """

    def __init__(self, options: Options | None = None, **changes: Any) -> None:
        self.options = options = replace(options or Options(), **changes)
        users = options.users
        self.router = Router(options.limits)
        each: dict[str, dict[str, Any]] = {
            name: {} for name in NAMES
        }  # what users and permissions change in the options
        if users is not None:
            each["mqtt"]["authenticate"] = self._login
            each["amqp"]["users"] = each["amqp10"]["users"] = each["rocketmq"]["accounts"] = users
            each["nsq"]["authorise"] = self._user_of
        if options.permissions is not None:
            for name in ("mqtt", "amqp", "amqp10", "nsq", "rocketmq"):
                each[name]["permissions"] = Permissions(options.permissions)
        self.mqtt = mqtt_broker.Broker(replace(options.mqtt, **each["mqtt"]), router=self.router)
        self.amqp = amqp091_broker.Broker(
            replace(options.amqp, **each["amqp"]), router=self.router, limits=options.limits
        )
        self.amqp10 = amqp10_broker.Broker(replace(options.amqp10, **each["amqp10"]), router=self.router)
        self.nsq = nsq_broker.Broker(replace(options.nsq, **each["nsq"]))
        self.rocketmq = rocketmq_broker.Broker(replace(options.rocketmq, **each["rocketmq"]))
        self.phpmq = phpmq_broker.Broker(options.phpmq)
        self.servers: dict[str, aio.Server] = {}
        self.unfinished = Unfinished(options.unfinished)
        self.faults = Faults(self._drivers)
        self.counts = dict.fromkeys(NAMES, 0)
        bounds = options.history, options.history_bytes
        self._published: History[Message] = History(*bounds)
        self._ports: dict[str, int] = {}
        self._history: History[tuple[str, mqtt_broker.Message | Published]] = History(*bounds)  # with topics
        if options.history:
            self.mqtt.observe = lambda message: self._history.add((message.topic, message), message.size)
            self.router.exchanges[mqtt_broker.EXCHANGE].observe = self._remember
            self.router.unrouted = History(*bounds)
        self._sweep: asyncio.TimerHandle | None = None
        self._shared: SharedPort | None = None
        self._lookup: nsq_broker.LookupServer | None = None

    # ---- starting and ending

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Listen on all ports. Raises OSError if a port is not available; then there is no listener."""
        options = self.options
        ports = {name: port for name, port in options.ports.items() if port is not None}
        try:
            if options._is_shared:
                await self._share(ports["amqp"])
                del ports["amqp"], ports["amqp10"]
            for name, port in ports.items():
                if name != "nsqlookupd":
                    self._add(name, await self._serve(name, port))
            if "nsqlookupd" in ports:
                self._lookup = await self.nsq.serve_lookup(
                    self._ports["nsq"], options.host, ports["nsqlookupd"], most=options.connections,
                    proxy_protocol=options.is_proxied("nsqlookupd"),
                )  # fmt: skip
                self._ports["nsqlookupd"] = self._lookup.port
        except BaseException:
            await self.close()
            raise
        self._drop_stalled()
        if routed := self._ports.get("rocketmq", self._ports.get("rocketmq+tls")):
            self.rocketmq.address = f"{options.host}:{routed}"

    async def close(self) -> None:
        """Stop listening, end each connection with its protocol's closing message, and forget everything. Clients that do not
        answer within `Options.grace` are dropped."""
        await self._close_others()
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
        self.servers.clear()
        self._ports.clear()
        self._forget()

    async def restart(self, *, keep_state: bool) -> None:
        """Restart as after a crash: connections are dropped, and the ports stay the same.

        Args:
            keep_state: True: queues, sessions and messages stay, as if they were on a disk. False: everything is forgotten.

        Raises OSError if a port is not available any more.
        """
        self.options = replace(self.options, ports=dict(self._ports))
        await self._close_others()
        for driver in self._drop():
            await driver.wait_closed()  # what was begun for it is finished
        await asyncio.gather(*(server.close() for server in self.servers.values()))
        self.servers.clear()
        self._ports.clear()
        if not keep_state:
            self._forget()
        await self.start()

    def fault(self, protocol: str = "*", **values: Any) -> AbstractContextManager[Active]:
        """Faults that are active while the block runs: `with b.fault("mqtt", cut_after=10): ...`

        Args:
            protocol: "mqtt", "amqp", "amqp10", "nsq", "rocketmq" or "phpmq"; "*": all.
            values: fields of `wirefmt.broker.faults.Fault`.

        Raises ValueError for an invalid value.
        """
        return self.faults.fault(protocol, **values)

    def _drivers(self, protocol: str) -> list[aio.Driver]:
        servers = [server for name, server in self.servers.items() if name.partition("+")[0] == protocol]
        return [driver for server in servers for driver in server.drivers]

    async def reset(self) -> None:
        """Drop all clients and all state. The ports stay the same."""
        for driver in self._drop():
            await driver.wait_closed()
        self._forget()

    def _drop_stalled(self) -> None:
        """Drop clients that have read nothing for too long, periodically."""
        limit = self.options.stalled
        if limit is None:
            return
        loop = asyncio.get_running_loop()
        for server in self.servers.values():
            for driver in list(server.drivers):
                if driver.full_since is not None and loop.time() - driver.full_since >= limit:
                    driver.abort(TimeoutError(f"the client has read nothing for {limit} s"))
        self._sweep = loop.call_later(limit / 4, self._drop_stalled)

    async def _close_others(self) -> None:
        """Close the listeners that are not a `Server`, and drop their clients."""
        if self._shared is not None:
            self._shared.close()
        if self._lookup is not None:
            await self._lookup.close()
        self._shared = self._lookup = None

    def _drop(self) -> list[aio.Driver]:
        """Drop all clients."""
        drivers = [driver for server in self.servers.values() for driver in server.drivers]
        for driver in drivers:
            driver.abort()
        if self._shared is not None:
            self._shared.drop()
        return drivers

    def _forget(self) -> None:
        for broker in (self.mqtt, self.amqp, self.amqp10, self.nsq, self.rocketmq, self.phpmq):
            broker.close()
        self._history.clear()
        self._published.clear()

    def _add(self, name: str, server: aio.Server, port: int | None = None) -> None:
        server.unfinished = self.unfinished
        self.servers[name] = server
        self._ports[name] = server.port if port is None else port

    async def _serve(self, name: str, port: int | None) -> aio.Server:
        """The server of a listener. Without a port it does not listen."""
        options = self.options
        protocol, _, over = name.partition("+")
        faults, tapping = self.faults, options.tap

        def tap(driver: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
            assert isinstance(driver, aio.Driver)
            faults.accept(protocol, driver)
            return driver if tapping is None else tapping(name, driver)

        def faulty(handler: Any) -> Any:
            remember = self._published.add if options.history else None
            return FaultyHandler(handler, protocol, faults, self.counts, remember)

        more: dict[str, Any] = {
            "host": options.host,
            "port": port,
            "ssl": options.tls if over in ("tls", "wss") else None,
            "most": options.connections,
            "options": options.connection.get(protocol),
            "tap": tap,
            "proxy_protocol": options.is_proxied(name),
        }
        match protocol:
            case "mqtt":
                return await mqtt.serve(
                    faulty(self.mqtt),
                    websocket=over in ("ws", "wss"),
                    origins=options.origins,
                    deflate=options.deflate,
                    **more,
                )
            case "amqp":
                return await amqp091.serve(
                    faulty(self.amqp), mechanisms=self.amqp.mechanisms, properties=self.amqp.properties, **more
                )
            case "amqp10":
                return await amqp10.serve(
                    faulty(self.amqp10),
                    mechanisms=("ANONYMOUS", "PLAIN") if options.users is None else ("SCRAM-SHA-256", "PLAIN"),
                    without_sasl=options.users is None,
                    websocket=over in ("ws", "wss"),
                    origins=options.origins,
                    deflate=options.deflate,
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
        """AMQP 0.9.1 and AMQP 1.0 on one port."""
        old, new = await self._serve("amqp", None), await self._serve("amqp10", None)
        self._shared = SharedPort(old, new, self.options.connections)
        await self._shared.listen(self.options.host, port, proxy_protocol=self.options.is_proxied("amqp"))
        self._add("amqp", old, port)
        self._add("amqp10", new, port)

    # ---- users

    def _login(self, connect: mqtt.Connect, peer: Any) -> int:
        right = is_password(self.options.users or {}, connect.user_name or "", connect.password)
        return ReasonCode.SUCCESS if right else ReasonCode.BAD_USER_NAME_OR_PASSWORD

    def _user_of(self, secret: bytes) -> str | None:
        return user_of(self.options.users or {}, secret)

    # ---- what a program sees

    def port(self, name: str) -> int:
        """The port of a listener. Raises KeyError for a listener that this broker does not have."""
        return self._ports[name]

    @property
    def ports(self) -> dict[str, int]:
        """The ports of all listeners."""
        return dict(self._ports)

    def url(self, name: str) -> str:
        """The URL of a listener, without user and password. Raises KeyError for a listener that this broker does not have."""
        path = "/mqtt" if name.startswith("mqtt+ws") else ""
        return f"{SCHEMES[name]}://{self.options.host}:{self.port(name)}{path}"

    @property
    def clients(self) -> AsyncSeen[Client]:
        """The clients that are connected."""
        return AsyncSeen("clients", self._clients)

    def queue(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> AsyncSeen[Message]:
        """The messages that wait in a queue, in the order of delivery. Empty for an unknown queue.

        Args:
            name: the queue. AMQP 0.9.1 and 1.0 have the same queues. NSQ: TOPIC/CHANNEL, or TOPIC for the messages that were
                published before the topic had a channel.

        Raises ValueError for another protocol.
        """
        look = _of(protocol, "queues", amqp=self._amqp_queue, nsq=self._nsq_queue, phpmq=self._phpmq_queue)
        return AsyncSeen(f"queue {name!r}", lambda: look(name), lambda: named("queues", name, self._waiting(protocol)))

    def unacked(self, name: str, protocol: Literal["amqp", "nsq", "phpmq"] = "amqp") -> AsyncSeen[Message]:
        """The messages of a queue that clients have and that are not settled yet. `name`: as of `queue`; NSQ: TOPIC/CHANNEL.

        Raises ValueError for another protocol.
        """
        _of(protocol, "queues", amqp=None, nsq=None, phpmq=None)
        return AsyncSeen(
            f"unacknowledged messages of queue {name!r}",
            lambda: [message for queue, message in self._in_hand(protocol) if queue == name],
            lambda: named("queues", name, Counter(queue for queue, _ in self._in_hand(protocol))),
        )

    def topic(self, name: str, protocol: Literal["mqtt", "rocketmq"] = "mqtt") -> AsyncSeen[Message]:
        """The messages that were published to a topic, the oldest first.

        Args:
            name: MQTT: a topic filter, "plant/+", for the last `Options.history` messages of all topics. They include the
                messages that AMQP clients publish to the exchange amq.topic, with or without a subscription.
                RocketMQ: a topic; the messages that are stored.

        Raises ValueError for another protocol, EncodeError for a topic filter that is not valid.
        """
        _of(protocol, "topics", mqtt=None, rocketmq=None)
        if protocol == "mqtt":
            mqtt.validate_topic_filter(name)
            return AsyncSeen(
                f"topic {name!r}",
                lambda: self._mqtt_topic(name),
                lambda: named("topics", name, Counter(topic for topic, _ in self._history)),
            )
        return AsyncSeen(
            f"topic {name!r}",
            lambda: self._rocketmq_topic(name),
            lambda: named(
                "topics", name, Counter({topic: sum(map(len, of)) for topic, of in self.rocketmq.topics.items()})
            ),
        )

    def published(self, protocol: str = "*") -> AsyncSeen[Message]:
        """The last `Options.history` messages that clients have published, the oldest first, whatever became of them. `protocol`:
        of the publisher; "*": all."""
        return AsyncSeen(
            "published messages" if protocol == "*" else f"messages published with {protocol}",
            lambda: [message for message in self._published if protocol in ("*", message.protocol)],
            lambda: named("protocols", protocol, Counter(message.protocol for message in self._published)),
        )

    @property
    def unrouted(self) -> AsyncSeen[Message]:
        """The last `Options.history` messages of AMQP 0.9.1 and 1.0 that reached no queue, the oldest first."""
        return AsyncSeen("unrouted messages", lambda: [_of_item(found) for found in self.router.unrouted])

    async def publish(
        self,
        name: str,
        body: bytes | str = b"",
        protocol: Literal["mqtt", "amqp", "amqp10", "nsq", "rocketmq", "phpmq"] = "amqp",
        *,
        user: str | None = None,
        **more: Any,
    ) -> None:
        """Publish a message as a client would, and return when the broker has it.

        Args:
            name: the topic (MQTT, NSQ, RocketMQ), the queue (AMQP, PHPMQ), or with `exchange` the routing key (AMQP 0.9.1).
            user: whose rights it has; needed if the broker has users.
            more: arguments of `publish` of that protocol's client: `qos`, `retain`, `properties`, `exchange`, ...

        Raises KeyError if the broker does not listen for the protocol, Refused and ConnectionLost as the client does.
        """
        address = self.url(protocol)
        if user is not None:
            address = address.replace("://", f"://{quote(user, '')}:{quote((self.options.users or {})[user], '')}@")
        await PUBLISHERS[protocol](address, name, body.encode() if isinstance(body, str) else body, more)

    def _remember(self, published: Published, routing_key: str) -> None:
        """A message from AMQP has reached the exchange of MQTT's topics."""
        try:
            topic = topic_of(routing_key)
            mqtt.validate_topic_name(topic)
        except (UnicodeError, EncodeError):
            return  # MQTT has no such topic
        self._history.add((topic, published), published.cost)

    def _mqtt_topic(self, topic_filter: str) -> list[Message]:
        return [
            replace(_of_item(found), name=topic) if isinstance(found, Published) else _of_mqtt(found)
            for topic, found in self._history
            if mqtt.matches(topic_filter, topic)
        ]

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

    def _waiting(self, protocol: str) -> Counter[str]:
        """How many messages wait, by queue."""
        match protocol:
            case "amqp":
                return Counter({name: len(queue.messages) for name, queue in self.router.queues.items()})
            case "nsq":
                found: Counter[str] = Counter()
                for topic in self.nsq.topics.values():
                    found[topic.name] += len(topic.backlog)
                    for channel in topic.channels.values():
                        found[f"{topic.name}/{channel.name}"] += len(channel.queue)
                return found
        return Counter({name: len(queue.waiting) for name, queue in self.phpmq.queues.items()})

    def _in_hand(self, protocol: str) -> list[tuple[str, Message]]:
        """Queue and message of each delivery that is not settled."""
        match protocol:
            case "amqp":
                found = [*self.amqp.unsettled(), *self.amqp10.unsettled()]
                return [(queue.name, _of_item(item.published)) for queue, item in found]
            case "nsq":
                return [
                    (f"{channel.topic.name}/{channel.name}", Message(message.body, channel.topic.name, "nsq"))
                    for channel, message in self.nsq.unsettled()
                ]
        return [(name, Message(message.content, name, "phpmq")) for name, message in self.phpmq.unsettled()]

    def _rocketmq_topic(self, name: str) -> list[Message]:
        stored = [m for queue in self.rocketmq.topics.get(name, ()) for m in queue.messages]
        found = [m for s in sorted(stored, key=lambda s: s.physical) for m in rocketmq.decode_messages(s.frame)]
        return [Message(bytes(m.body or b""), m.topic, "rocketmq", properties=m.properties) for m in found]


def _of(protocol: str, what: str, **choices: Any) -> Any:
    """The choice of a protocol. ValueError: it has none."""
    if protocol not in choices:
        raise ValueError(f"{protocol!r} has no {what} here; there are {', '.join(map(repr, choices))}")
    return choices[protocol]


def _say_goodbye(protocol: str, driver: aio.Driver) -> None:
    """End a connection because the broker stops. NSQ, RocketMQ and PHPMQ have no closing message."""
    connection: Any = driver.connection
    try:
        match protocol:
            case "amqp":
                driver.update(
                    connection.close(
                        ReplyCode.CONNECTION_FORCED, "broker forced connection closure with reason 'shutdown'"
                    )
                )
            case "amqp10":
                error = amqp10.Error(condition=ErrorCondition.CONNECTION_FORCED, description="the broker shuts down")
                driver.update(connection.close(error))
            case _:
                driver.close()
    except LocalProtocolError:
        pass  # the connection has ended


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
            message, body = message.properties, message.body_bytes()
            protocol = "amqp"
        case "amqp10":
            protocol, body = "amqp10", text_of_body(message)
        case "mqtt5":
            body, message = message.payload_bytes(), message.properties
    return Message(body, published.routing_key, protocol, published.exchange, properties=message)


def _name_of(protocol: str, connection: Any) -> str:
    """The name that a client gives itself."""
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
