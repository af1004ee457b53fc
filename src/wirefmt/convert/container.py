"""A message as a broker keeps it: the octets that were published, and what the broker knows apart from them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from . import _engine
from .conversion import Conversion, Topics, check_lossless, routing_key_of, topic_of
from .dialects import DIALECTS, compiled
from .messages import Protocol, wire_of

Annotation = str | int | bool

_MQTT_EXCHANGE: Final = "amq.topic"


@dataclass(frozen=True, slots=True)
class Death:
    """An entry of the dead-letter history: a queue and a reason, with how often and when. Times in milliseconds since 1970."""

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
    """What the broker knows. None: it does not know.

    Attributes:
        exchange, routing_keys: how the message was published, or routed since.
        durable, priority, ttl_ms, timestamp_ms: derived from the message once, when it arrives.
        received_ms: when it arrived, if an interceptor notes that.
        deaths: latest first.
        extra: annotations of the broker's own whose keys begin with x-.
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


class Container:
    """Keeps a message as it was published and converts it when a consumer asks.

    The octets are kept; nothing is decoded until asked. `annotations` are the broker's knowledge, apart from the message:
    they are derived from it once. Containers do not change: `dead_lettered` and `annotated` make new ones that share the
    octets.

    Args:
        message: as for convert().
        exchange, routing_key: how it was published. Of an MQTT message they follow from the topic.
        mqtt_exchange, topics, percent_encoding: as for convert().
        now_ms: when it arrived, milliseconds since 1970; None: now.

    Raises:
        ConversionError: RabbitMQ would refuse the message (when it is first asked for anything but its octets).
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
        self._essentials: dict[str, object] | None = None
        self._cache: dict[tuple[object, ...], Conversion] = {}
        self._stream = False
        compiled(dialect)
        topic_of("", topics)  # is there such a translation?

    @property
    def protocol(self) -> Protocol:
        return self.wire.protocol

    @property
    def octets(self) -> bytes:
        """As they were published."""
        return self.wire.octets

    @property
    def body(self) -> bytes | None:
        """Of AMQP 0.9.1, whose body is apart from its properties."""
        return self.wire.body

    @property
    def annotations(self) -> Annotations:
        if self._annotations is None:
            self._annotations = self._learn()
        return self._annotations

    # ---- conversions

    def to(self, protocol: Protocol, *, lossless: bool = False, explain: bool = False) -> Conversion:
        """The message in a protocol, without what the broker adds; of its own protocol, the very octets."""
        key = ("to", protocol, explain)
        if key not in self._cache:
            if protocol == self.protocol:
                self._cache[key] = _engine.unconverted(self.wire)
            else:
                self._cache[key] = self._convert(protocol, None, explain)
        if lossless:
            check_lossless(self._cache[key])
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
        """What a consumer of a queue or stream receives: converted, with the broker's annotations.

        Args:
            redelivered, delivery_count: of this delivery.
            qos: the subscription's, of an MQTT consumer.
            retain: the Retain flag of an MQTT consumer's packet; None: as published.
            waited_ms: how long the message has been in the queue: taken off the Message Expiry Interval.
        """
        key = ("deliver", protocol, redelivered, delivery_count, qos, retain, packet_identifier, waited_ms, explain)
        if key not in self._cache:
            delivery = self._delivery(redelivered, delivery_count, qos, retain, waited_ms)
            self._cache[key] = self._convert(protocol, delivery, explain, packet_identifier)
        return self._cache[key]

    def stream_entry(self) -> bytes:
        """What a stream stores: the message as AMQP 1.0, with the broker's annotations."""
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
        """A message read from a stream. How it was routed is in its annotations; else it went to the stream by its name."""
        extra: dict[str, Annotation] = {} if offset is None else {"x-stream-offset": offset}
        made = cls(
            entry, source="amqp10", exchange="", routing_key=stream, dialect=dialect, mqtt_exchange=mqtt_exchange,
            topics=topics, percent_encoding=percent_encoding, now_ms=now_ms, annotations=extra,
        )  # fmt: skip
        made._stream = True
        return made

    # ---- what happens to it in a broker

    def annotated(self, **known: Annotation) -> Container:
        """With more annotations of the broker's own: keys begin with x-. `received_ms` is when an interceptor saw it arrive."""
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
        """After it died in a queue and was published to another exchange.

        The history has one entry a queue and reason, latest first. `clear_ttl`: it expired, and shall not again.
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

    # ---- within

    def _learn(self) -> Annotations:
        """Section (c) of what is known of the server: annotations are derived when a message arrives, given ones override."""
        said = self._essence()
        exchange, routing_key, extra = self._given
        if self.protocol == "mqtt5":
            exchange = self.mqtt_exchange
            routing_key = _text(routing_key_of(_bytes(said["topic"]), self.topics))
        elif self._stream:
            exchange = _text(_bytes(said.get("exchange", exchange.encode())))
            routing_key = _text(_bytes(said.get("routing_key", routing_key.encode())))
        cc = [_text(_bytes(k)) for k in _list(said.get("cc"))]
        bcc = [_text(_bytes(k)) for k in _list(said.get("bcc"))]
        timestamp = said.get("timestamp_ms")
        if self.protocol == "mqtt5" and "ttl_ms" in said:
            timestamp = self.now_ms
        return Annotations(
            exchange,
            (routing_key, *cc),
            tuple(bcc),
            bool(said.get("durable", False)),
            _int(said.get("priority")),
            _int(said.get("ttl_ms")),
            _int(timestamp),
            _int(said.get("received_ms")),
            (),
            extra,
        )

    def _essence(self) -> dict[str, object]:
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
        known = self.annotations
        said = self._essence()
        expiry = _int(said.get("expiry_s"))
        ttl = known.ttl_ms if known.ttl_ms is not None else -1
        return _engine.Delivery(
            durable=-1 if known.durable is None else int(known.durable),
            priority=-1 if known.priority is None else known.priority,
            ttl_ms=ttl,
            expiry_s=-1 if expiry is None else max(0, expiry - -(-waited_ms // 1000)),
            timestamp_ms=known.timestamp_ms,
            delivery_count=delivery_count,
            first_acquirer=not redelivered and delivery_count == 0 and not known.deaths,
            redelivered=redelivered,
            stored=not self._stream and not published,
            entry=self._stream,
            keeps_expiry=self.protocol == "mqtt5" or DIALECTS[self.dialect].expiry_delivered,
            retain=bool(said.get("retain")) if retain is None else retain,
            clears_ttl=known.ttl_ms == -1,
            qos=qos,
            annotations=list(self._broker_annotations(known)),
            deaths=[
                (d.queue, d.reason, d.count, d.first_time_ms, d.last_time_ms, d.exchange, d.routing_keys, d.ttl_ms)
                for d in known.deaths
            ],
        )

    def _broker_annotations(self, known: Annotations) -> Iterable[tuple[str, object]]:
        """In RabbitMQ's order."""
        for key in sorted(known.extra, reverse=True):
            yield key, known.extra[key]
        if known.received_ms is not None and not self._stream:  # of a stream's entry it is among its own
            yield "x-opt-rabbitmq-received-time", (b"timestamp", known.received_ms)
        yield "x-exchange", known.exchange
        yield "x-routing-key", known.routing_keys[0]

    def _topic(self) -> bytes:
        """Of a PUBLISH: the routing key as a topic. A topic that would come back with wildcards stays as it was published."""
        key = self.annotations.routing_keys[0].encode("utf-8", "surrogateescape")
        topic = topic_of(key, self.topics)
        if self.protocol == "mqtt5" and DIALECTS[self.dialect].valid and (b"+" in topic or b"#" in topic):
            published = _bytes(self._essence()["topic"])
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
        return f"Container({self.protocol!r}, {len(self.octets)} octets)"


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _int(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
