"""A message as a broker keeps it: the published bytes, and the broker's annotations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from . import _engine
from ._engine import Conversion, routing_key_of, topic_of
from .conversion import Topics
from .dialects import DIALECTS, compiled
from .messages import Protocol, wire_of

Annotation = str | int | bool

_MQTT_EXCHANGE: Final = "amq.topic"


@dataclass(frozen=True, slots=True)
class Death:
    """An entry of the dead-letter history: queue, reason, count and times in milliseconds since 1970."""

    queue: str
    reason: str
    count: int
    first_time_ms: int
    last_time_ms: int
    exchange: str
    routing_keys: tuple[str, ...]
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Annotations:
    """A broker's knowledge about a message. None: unknown.

    Attributes:
        exchange, routing_keys: how the message was published, or last routed.
        durable, priority, ttl_ms, timestamp_ms: derived from the message once, when it arrives.
        received_ms: when it arrived, if an interceptor records it.
        deaths: latest first.
        extra: the broker's own annotations, with keys that begin with x-.
    """

    exchange: str = ""
    routing_keys: tuple[str, ...] = ("",)
    bcc: tuple[str, ...] = ()
    durable: bool | None = None
    priority: int | None = None
    ttl_ms: int | None = None
    timestamp_ms: int | None = None
    received_ms: int | None = None
    deaths: tuple[Death, ...] = ()
    extra: Mapping[str, Annotation] = field(default_factory=dict)


_ANNOTATIONS: Final = tuple(f.name for f in fields(Annotations))


class Container:
    """Keeps a message as it was published and converts it on request.

    The bytes are kept and decoded only on demand. `annotations` are the broker's knowledge about the message; they
    are derived from it once. Containers are immutable: `dead_lettered` and `annotated` return new ones that share the
    bytes.

    Args:
        message: as for convert().
        exchange, routing_key: how it was published. For an MQTT message they are derived from the topic.
        mqtt_exchange, topics, percent_encoding: as for convert().
        now_ms: when it arrived, milliseconds since 1970; None: now.

    Raises:
        ConversionError: RabbitMQ would refuse the message (on the first use of anything except its bytes).
    """

    __slots__ = (
        "_annotations",
        "_cache",
        "_essentials",
        "_given",
        "_stream",
        "dialect",
        "mqtt_exchange",
        "now_ms",
        "percent_encoding",
        "topics",
        "wire",
    )

    def __init__(
        self,
        message: object,
        *,
        source: Protocol | None = None,
        exchange: str = "",
        routing_key: str = "",
        dialect: str = "documented",
        mqtt_exchange: str = _MQTT_EXCHANGE,
        topics: Topics = "translated",
        percent_encoding: bool = True,
        now_ms: int | None = None,
        annotations: Mapping[str, Annotation] | None = None,
    ) -> None:
        self.wire = wire_of(message, source)
        self.dialect = dialect
        self.mqtt_exchange = mqtt_exchange
        self.topics: Topics = topics
        self.percent_encoding = percent_encoding
        self.now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self._given = (exchange, routing_key, dict(annotations or {}))
        self._annotations: Annotations | None = None
        self._essentials: dict[str, Any] | None = None
        self._cache: dict[tuple[object, ...], Conversion] = {}
        self._stream = False
        compiled(dialect)
        topic_of("", topics)  # raises ValueError for an unknown translation

    @property
    def protocol(self) -> Protocol:
        return self.wire.protocol

    @property
    def octets(self) -> bytes:
        """The published bytes."""
        return self.wire.octets

    @property
    def body(self) -> bytes | None:
        """The body of an AMQP 0.9.1 message, which is separate from its properties; otherwise None."""
        return self.wire.body

    @property
    def annotations(self) -> Annotations:
        if self._annotations is None:
            self._annotations = self._learn()
        return self._annotations

    # ---- conversions

    def to(self, protocol: Protocol, *, lossless: bool = False, explain: bool = False) -> Conversion:
        """The message in a protocol, without the broker's additions; in its own protocol, the same bytes."""
        key = ("to", protocol, explain)
        if key not in self._cache:
            if protocol == self.protocol:
                self._cache[key] = _engine.unconverted(self.wire)
            else:
                self._cache[key] = self._convert(protocol, None, explain)
        if lossless:
            _engine.check_lossless(self._cache[key])
        return self._cache[key]

    def deliver(
        self,
        protocol: Protocol,
        *,
        redelivered: bool = False,
        delivery_count: int = 0,
        qos: int = 1,
        retain: bool | None = None,
        packet_identifier: int = 1,
        waited_ms: int = 0,
        explain: bool = False,
    ) -> Conversion:
        """The message that a consumer of a queue or stream receives: converted, with the broker's annotations.

        Args:
            redelivered, delivery_count: of this delivery.
            qos: the QoS of an MQTT consumer's subscription.
            retain: the Retain flag of an MQTT consumer's packet; None: as published.
            waited_ms: how long the message has been in the queue; subtracted from the Message Expiry Interval.
        """
        key = ("deliver", protocol, redelivered, delivery_count, qos, retain, packet_identifier, waited_ms, explain)
        if key not in self._cache:
            delivery = self._delivery(redelivered, delivery_count, qos, retain, waited_ms)
            self._cache[key] = self._convert(protocol, delivery, explain, packet_identifier)
        return self._cache[key]

    def stream_entry(self) -> bytes:
        """The entry that a stream stores: the message as AMQP 1.0, with the broker's annotations."""
        key = ("entry",)
        if key not in self._cache:
            self._cache[key] = self._convert("amqp10", self._delivery(False, 0, 1, None, 0, published=True), False)
        return self._cache[key].octets

    @classmethod
    def from_stream_entry(
        cls,
        entry: bytes,
        *,
        stream: str = "",
        offset: int | None = None,
        dialect: str = "documented",
        mqtt_exchange: str = _MQTT_EXCHANGE,
        topics: Topics = "translated",
        percent_encoding: bool = True,
        now_ms: int | None = None,
    ) -> Container:
        """A message read from a stream. Its annotations say how it was routed; otherwise the stream's name is the routing key."""
        extra: dict[str, Annotation] = {} if offset is None else {"x-stream-offset": offset}
        made = cls(
            entry, source="amqp10", exchange="", routing_key=stream, dialect=dialect, mqtt_exchange=mqtt_exchange,
            topics=topics, percent_encoding=percent_encoding, now_ms=now_ms, annotations=extra,
        )  # fmt: skip
        made._stream = True
        return made

    # ---- changes in a broker

    def annotated(self, **known: Annotation) -> Container:
        """A copy with more broker annotations; their keys begin with x-. `received_ms`: arrival time from an interceptor."""
        received = known.pop("received_ms", None)
        old = self.annotations
        made = self._copy()
        made._annotations = replace(old, extra={**old.extra, **known})
        if received is not None:
            made._annotations = replace(made._annotations, received_ms=int(received), timestamp_ms=int(received))
        return made

    def dead_lettered(
        self,
        queue: str,
        reason: str,
        *,
        exchange: str,
        routing_key: str | None = None,
        now_ms: int | None = None,
        clear_ttl: bool = False,
    ) -> Container:
        """A copy after dead-lettering: the message died in a queue and was published to another exchange.

        One history entry per (queue, reason), latest first. `clear_ttl`: remove the TTL so that it cannot expire again.
        """
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        old = self.annotations
        deaths = list(old.deaths)
        found = next((d for d in deaths if (d.queue, d.reason) == (queue, reason)), None)
        if found:
            deaths.remove(found)
            death = replace(found, count=found.count + 1, last_time_ms=now)
        else:
            death = Death(queue, reason, 1, now, now, old.exchange, old.routing_keys, old.ttl_ms)
        extra = dict(old.extra)
        if not old.deaths:
            extra |= {
                "x-first-death-exchange": old.exchange,
                "x-first-death-queue": queue,
                "x-first-death-reason": reason,
            }
        extra |= {"x-last-death-exchange": old.exchange, "x-last-death-queue": queue, "x-last-death-reason": reason}
        made = self._copy()
        made._annotations = replace(
            old,
            exchange=exchange,
            routing_keys=old.routing_keys if routing_key is None else (routing_key,),
            deaths=(death, *deaths),
            extra=extra,
            ttl_ms=-1 if clear_ttl else old.ttl_ms,
        )
        return made

    def _copy(self) -> Container:
        made = Container.__new__(Container)
        for name in self.__slots__:
            setattr(made, name, getattr(self, name))
        made._cache = {}
        return made

    # ---- internals

    def _learn(self) -> Annotations:
        """Derive the annotations, as the server does when a message arrives; given ones take precedence."""
        said = self._essence()
        exchange, routing_key, extra = self._given
        timestamp = said.get("timestamp_ms")
        if self.protocol == "mqtt5":
            exchange = self.mqtt_exchange
            routing_key = _text(routing_key_of(said["topic"], self.topics))
            if "ttl_ms" in said:
                timestamp = self.now_ms
        elif self._stream:
            exchange = _text(said["exchange"]) if "exchange" in said else exchange
            routing_key = _text(said["routing_key"]) if "routing_key" in said else routing_key
        cc, bcc = said.get("cc", ()), said.get("bcc", ())
        made: Annotations = _engine.frozen(
            Annotations,
            _ANNOTATIONS,
            exchange,
            (routing_key, *map(_text, cc)) if cc else (routing_key,),
            tuple(map(_text, bcc)) if bcc else (),
            said.get("durable", False),
            said.get("priority"),
            said.get("ttl_ms"),
            timestamp,
            said.get("received_ms"),
            (),
            extra,
        )
        return made

    def _essence(self) -> dict[str, Any]:
        if self._essentials is None:
            self._essentials = _engine.essentials_of(
                compiled(self.dialect), _engine.protocol_number(self.protocol), self.wire.octets, self._stream
            )
        return self._essentials

    def _delivery(
        self,
        redelivered: bool,
        delivery_count: int,
        qos: int,
        retain: bool | None,
        waited_ms: int,
        *,
        published: bool = False,
    ) -> _engine.Delivery:
        return _engine.Delivery(
            self.annotations,
            self._essence(),
            redelivered,
            delivery_count,
            qos,
            retain,
            waited_ms,
            self._stream,
            published,
            self.protocol == "mqtt5" or DIALECTS[self.dialect].expiry_delivered,
        )

    def _topic(self) -> bytes:
        """The routing key as the topic of a PUBLISH. If the translation had wildcards, the published topic is kept."""
        key = self.annotations.routing_keys[0].encode("utf-8", "surrogateescape")
        topic = topic_of(key, self.topics)
        if self.protocol == "mqtt5" and DIALECTS[self.dialect].valid and (b"+" in topic or b"#" in topic):
            published: bytes = self._essence()["topic"]
            return published if routing_key_of(published, self.topics) == key else topic
        return topic

    def _convert(
        self, protocol: Protocol, delivery: _engine.Delivery | None, explain: bool, packet_identifier: int = 1
    ) -> Conversion:
        topic = b""
        if protocol == "mqtt5":
            topic = self._topic()
        return _engine.convert_wire(
            self.wire,
            to=protocol,
            dialect=self.dialect,
            topic=topic,
            mqtt_exchange=self.mqtt_exchange,
            packet_identifier=packet_identifier,
            explain=explain,
            delivery=delivery,
            topics=self.topics,
            percent_encoding=self.percent_encoding,
        )

    def __repr__(self) -> str:
        return f"Container({self.protocol!r}, {len(self.octets)} bytes)"


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
