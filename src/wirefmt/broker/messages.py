"""Messages of AMQP 0.9.1, AMQP 1.0 and MQTT in the broker: as they were published, and as items of queues.

A message is a `wirefmt.convert.Container`: it stays as it was published, and is converted when a consumer of another protocol
gets it, as RabbitMQ does. Sections are those of AMQP 0.9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wirefmt import amqp091
from wirefmt.broker.shares import UNOWNED, Holder
from wirefmt.convert import Container, Wire
from wirefmt.errors import ConversionError

#: Bytes that a message costs besides its own: the objects of one that shares no envelope, and of one that a `Container` has.
ENVELOPE: Final = 350
CONTAINER: Final = 750

#: Bytes of the longest name and routing key of AMQP 0.9.1 (4.2.5.3).
SHORT: Final = 255


#: The header that says how many deliveries have failed (RabbitMQ's quorum queues).
DELIVERY_COUNT: Final = "x-delivery-count"


def changed(properties: amqp091.BasicProperties, **fields: Any) -> amqp091.BasicProperties:
    """Properties with other values for some of them."""
    return amqp091.BasicProperties(
        **{name: fields.get(name, getattr(properties, name)) for name in properties.__match_args__}
    )


class Envelope:
    """All of a message but its body. Messages that are published together share it, if they differ only in that.

    Attributes:
        octets: of AMQP 0.9.1: the properties; otherwise the message.
        exchange, routing_key: how it was published.
        ttl: milliseconds until it expires; None: its queues decide.
        properties: of a message of AMQP 0.9.1, decoded; None: of another protocol, or changed since.
        plain: it is of AMQP 0.9.1 and has no headers, so exchange and routing key alone decide where it goes.
        holder: who has published it: its bytes are his while it waits.
        shared: a message has it already.
        unconvertible: AMQP 0.9.1 cannot have its headers, so a headers exchange has seen none.
    """

    __slots__ = (
        "dialect", "exchange", "holder", "octets", "plain", "priority", "properties", "routing_key", "shared", "ttl",
        "unconvertible",
    )  # fmt: skip

    def __init__(
        self,
        octets: bytes,
        exchange: str,
        routing_key: str,
        ttl: int | None,
        priority: int,
        properties: amqp091.BasicProperties | None,
        dialect: str,
        holder: Holder = UNOWNED,
    ) -> None:
        self.octets = octets
        self.exchange = exchange
        self.routing_key = routing_key
        self.ttl = ttl
        self.priority = priority
        self.properties = properties
        self.dialect = dialect
        self.holder = holder
        self.plain = properties is not None and properties.headers is None
        self.unconvertible = False
        self.shared = False

    def matches(self, other: Envelope) -> bool:
        """Do both go the same way: to the same destinations, with the same priority and time?"""
        return self is other or (
            self.plain
            and other.plain
            and self.exchange == other.exchange
            and self.routing_key == other.routing_key
            and self.ttl == other.ttl
            and self.priority == other.priority
        )


class Published:
    """A message on its way to its queues.

    Attributes:
        envelope: all but the body.
        body: of a message of AMQP 0.9.1; otherwise None.
        size, body_size: bytes of the message, and of its body; of AMQP 1.0 and MQTT both are those of the message.
        cost: bytes that it counts in each queue: `size`, and what its objects cost.
        copies: how many copies dead-lettering has made of it since a client last touched it, shared by all of them; None: it has
            made none.
    """

    __slots__ = ("_container", "body", "body_size", "copies", "cost", "envelope", "size")

    def __init__(self, envelope: Envelope, body: bytes | None, container: Container | None = None) -> None:
        """container: the message, for conversions; None: it is of AMQP 0.9.1."""
        self.envelope = envelope
        self.body = body
        self.copies: list[int] | None = None
        self._container = container
        self.size = size = len(envelope.octets)
        if body is None:
            self.body_size = size
        else:
            self.body_size = len(body)
            self.size += self.body_size
        if container is not None:
            self.cost = self.size + CONTAINER
        elif envelope.shared:
            self.cost = self.size
        else:
            self.cost = self.size + ENVELOPE
            envelope.shared = True

    @classmethod
    def of(cls, container: Container, holder: Holder = UNOWNED) -> Published:
        """With what the container knows. Raises ConversionError if RabbitMQ would refuse the message.

        Args:
            holder: who has published it.
        """
        known = container.annotations
        ttl = known.ttl_ms if known.ttl_ms is not None and known.ttl_ms >= 0 else None
        envelope = Envelope(
            container.octets, known.exchange, known.routing_keys[0], ttl, known.priority or 0, None, "", holder
        )
        return cls(envelope, container.body, container)

    @property
    def exchange(self) -> str:
        return self.envelope.exchange

    @property
    def routing_key(self) -> str:
        return self.envelope.routing_key

    @property
    def unconvertible(self) -> bool:
        return self.envelope.unconvertible

    @property
    def container(self) -> Container:
        """The message, for conversions. It is made when it is needed: a message that stays in AMQP 0.9.1 needs none."""
        if self._container is None:
            assert self.body is not None
            envelope = self.envelope
            self._container = Container(
                Wire("amqp091", envelope.octets, self.body),
                exchange=envelope.exchange,
                routing_key=envelope.routing_key,
                dialect=envelope.dialect,
            )
        return self._container

    @property
    def keys(self) -> tuple[str, ...]:
        """The routing key, and those of CC and BCC. Raises ConversionError if RabbitMQ would refuse the message."""
        if self.envelope.plain:
            return (self.envelope.routing_key,)
        known = self.container.annotations
        return (self.routing_key, *known.routing_keys[1:], *known.bcc)

    def headers(self) -> Mapping[Any, Any]:
        """For headers exchanges: of AMQP 0.9.1, or what the message has in their place."""
        properties = self.envelope.properties
        if properties is None:
            try:
                properties = self.container.to("amqp091").message.properties
            except ConversionError:
                self.envelope.unconvertible = True
                return {}
        return properties.headers or {}


class Item:
    """A message in a queue."""

    __slots__ = ("expires", "failed", "priority", "published", "redelivered", "returns", "where")

    def __init__(self, published: Published) -> None:
        self.published = published
        self.expires: float | None = None
        self.priority = 0
        self.where = 0  # its place in the queue
        self.redelivered = False
        self.failed = 0  # deliveries that have failed
        self.returns = 0  # how often it has been returned by a consumer of a quorum queue

    def __lt__(self, other: Item) -> bool:
        return (-self.priority, self.where) < (-other.priority, other.where)

    @property
    def body(self) -> bytes:
        """The body of AMQP 0.9.1, or the bytes of the message."""
        published = self.published
        return published.envelope.octets if published.body is None else published.body

    def for_amqp091(self) -> tuple[amqp091.BasicProperties, bytes]:
        """Properties and body for a consumer of AMQP 0.9.1. Raises ConversionError; also if its routing key is too long."""
        published, envelope = self.published, self.published.envelope
        for text in (envelope.exchange, envelope.routing_key):
            if len(text) > SHORT or (not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > SHORT):
                raise ConversionError(f"a routing key or exchange of more than {SHORT} bytes", rule="amqp091:shortstr")
        if envelope.properties is not None:
            properties, body = envelope.properties, published.body or b""
        else:
            made = published.container.deliver("amqp091", redelivered=self.redelivered, delivery_count=self.failed)
            properties, body = amqp091.BasicProperties.decode(made.octets), made.body or b""
        if self.returns and self.failed:
            kept = properties.headers.entries if properties.headers is not None else ()
            headers = [
                (name, amqp091.FieldValue(letter, value)) for name, letter, value in kept if name != DELIVERY_COUNT
            ]
            properties = changed(properties, headers=[*headers, (DELIVERY_COUNT, amqp091.FieldValue("l", self.failed))])
        return properties, body

    def for_amqp10(self) -> bytes:
        """The message for a consumer of AMQP 1.0. Raises ConversionError."""
        made = self.published.container.deliver("amqp10", redelivered=self.redelivered, delivery_count=self.failed)
        return made.octets
