# A message as a broker keeps it: the published bytes, what the broker knows of it, and its conversions.
from dataclasses import replace
from time import time_ns

from wirefmt.convert.annotations import Annotations, after_death

cdef Py_ssize_t CONVERT_CACHED = 16         # conversions that a container keeps at most


@cython.final
cdef class Container:
    """Keeps a message as it was published and converts it on request.

    The bytes are kept and decoded only on demand. `annotations` are the broker's knowledge about the message; they
    are derived from it once. Containers are immutable: `dead_lettered` and `annotated` return new ones that share the
    bytes.

    Args:
        message: as for convert().
        exchange, routing_key: how it was published. For an MQTT message they are derived from the topic.
        mqtt_exchange, topics, percent_encoding: as for convert().
        now_ms: when it arrived, milliseconds since 1970; None: now.
        annotations: the broker's own, with keys that begin with x-.

    Raises:
        ConversionError: RabbitMQ would refuse the message (on the first use of anything except its bytes).
        ValueError: unknown protocol, dialect or `topics`.
    """
    cdef readonly object wire               # the published bytes
    cdef readonly str dialect
    cdef readonly object mqtt_exchange
    cdef readonly bint percent_encoding
    cdef ConvertRules rules
    cdef int source, translation
    cdef bytes octets_, body_
    cdef object given_exchange, given_routing_key
    cdef int64_t arrival_ms
    cdef bint stream                        # an entry of a stream
    # ---- what the broker knows
    cdef bint learned
    cdef bint changed                       # not derived from the message alone
    cdef ConvertKnown known
    cdef bytes exchange, routing_key
    cdef bytes topic                        # of a PUBLISH
    cdef list cc, bcc                       # None: none
    cdef dict extra                         # None: none
    cdef tuple deaths                       # None: none
    cdef object annotations_                # None: not yet made
    cdef dict cache                         # of conversions, by ConvertDelivery; None: empty

    def __init__(self, message, *, source=None, exchange="", routing_key="", str dialect="documented",
                 mqtt_exchange=CONVERT_EXCHANGE, topics=CONVERT_TRANSLATED, bint percent_encoding=True, now_ms=None,
                 annotations=None):
        self.wire = message if type(message) is Wire else wire_of(message, source)
        self.source = protocol_number(self.wire.protocol)
        self.octets_ = self.wire.octets
        self.body_ = self.wire.body
        self.dialect = dialect
        self.rules = convert_rules_of(dialect)
        self.mqtt_exchange = mqtt_exchange
        self.translation = convert_topics_of(topics)
        self.percent_encoding = percent_encoding
        self.arrival_ms = time_ns() // 1_000_000 if now_ms is None else now_ms
        self.given_exchange = exchange
        self.given_routing_key = routing_key
        if annotations:
            self.extra = dict(annotations)

    @property
    def protocol(self):
        return CONVERT_PROTOCOL_NAMES[self.source]

    @property
    def octets(self):
        """The published bytes."""
        return self.octets_

    @property
    def body(self):
        """The body of an AMQP 0.9.1 message, which is separate from its properties; otherwise None."""
        return self.body_

    @property
    def topics(self):
        return CONVERT_TOPICS[self.translation]

    @property
    def now_ms(self):
        """When it arrived, milliseconds since 1970."""
        return self.arrival_ms

    @property
    def annotations(self):
        """The broker's knowledge about the message."""
        if self.annotations_ is None:
            self.learn()
            self.annotations_ = self.annotations_of()
        return self.annotations_

    # ---- conversions

    def to(self, protocol, *, bint lossless=False, bint explain=False):
        """The message in a protocol, without the broker's additions; in its own protocol, the same bytes."""
        cdef ConvertDelivery d
        cdef Conversion out
        memset(&d, 0, sizeof(d))
        d.target = <uint8_t>protocol_number(protocol)
        d.explain = explain
        d.packet_identifier = 1
        out = self.converted(&d)
        if lossless:
            check_lossless(out)
        return out

    def deliver(self, protocol, *, bint redelivered=False, uint32_t delivery_count=0, int qos=1, retain=None,
                uint16_t packet_identifier=1, int64_t waited_ms=0, bint explain=False):
        """The message that a consumer of a queue or stream receives: converted, with the broker's annotations.

        Args:
            redelivered, delivery_count: of this delivery.
            qos: the QoS of an MQTT consumer's subscription.
            retain: the Retain flag of an MQTT consumer's packet; None: as published.
            waited_ms: how long the message has been in the queue; subtracted from the Message Expiry Interval.
        """
        cdef ConvertDelivery d
        memset(&d, 0, sizeof(d))
        d.purpose = PURPOSE_DELIVER
        d.target = <uint8_t>protocol_number(protocol)
        d.explain = explain
        d.redelivered = redelivered
        d.retain = -1 if retain is None else <bint>retain
        d.packet_identifier = packet_identifier
        d.delivery_count = delivery_count
        d.qos = qos
        d.waited_ms = waited_ms
        return self.converted(&d)

    def stream_entry(self):
        """The entry that a stream stores: the message as AMQP 1.0, with the broker's annotations."""
        cdef ConvertDelivery d
        memset(&d, 0, sizeof(d))
        d.purpose = PURPOSE_ENTRY
        d.target = CONVERT_AMQP10
        return self.converted(&d).octets

    @staticmethod
    def from_stream_entry(entry, *, stream="", offset=None, str dialect="documented",
                          mqtt_exchange=CONVERT_EXCHANGE, topics=CONVERT_TRANSLATED, bint percent_encoding=True, now_ms=None):
        """A message read from a stream. Its annotations say how it was routed; otherwise the stream's name is the routing key."""
        cdef Container made = Container(
            entry, source="amqp10", routing_key=stream, dialect=dialect, mqtt_exchange=mqtt_exchange, topics=topics,
            percent_encoding=percent_encoding, now_ms=now_ms,
            annotations=None if offset is None else {"x-stream-offset": offset})
        made.stream = True
        return made

    cdef Conversion converted(self, const ConvertDelivery* d):
        """From the cache, or converted now. The cache keeps a few: there is no bound of packet identifiers and waiting times."""
        cdef bytes key = octets_of(<const uint8_t*>d, sizeof(ConvertDelivery))
        cdef Conversion out
        if self.cache is None:
            self.cache = {}
        elif key in self.cache:
            return self.cache[key]
        elif len(self.cache) == CONVERT_CACHED:
            self.cache.clear()
        if d.purpose == PURPOSE_TO and d.target == self.source:
            out = unconverted(self.wire)
        else:
            if d.purpose != PURPOSE_TO or d.target == CONVERT_MQTT5:
                self.learn()
            out = convert_octets(self.rules, self.source, self.octets_, self.body_,
                                 self.topic_of_key() if d.target == CONVERT_MQTT5 else b"",
                                 convert_exchange_of(self.mqtt_exchange), self.translation, self.percent_encoding,
                                 None if d.purpose == PURPOSE_TO else self, d)
        self.cache[key] = out
        return out

    cdef bytes topic_of_key(self):
        """The routing key as the topic of a PUBLISH. If the translation had wildcards, the published topic is kept."""
        cdef bytes made = convert_topic_octets(self.routing_key, True, self.translation)
        if self.source == CONVERT_MQTT5 and self.rules.valid and (b"+" in made or b"#" in made) and \
                convert_topic_octets(self.topic, False, self.translation) == self.routing_key:
            return self.topic
        return made

    # ---- the broker's knowledge

    cdef int learn(self) except -1:
        if not self.learned:
            convert_learn(self)
            self.learned = True
        return 0

    cdef object annotations_of(self):
        cdef const ConvertKnown* k = &self.known
        timestamp = None
        if k.has_timestamp:
            timestamp = <object>k.timestamp_s * 1000 if self.source == CONVERT_AMQP091 else k.timestamp_ms
        return Annotations(
            text_of(self.exchange), (text_of(self.routing_key), *map(text_of, self.cc or ())),
            tuple(map(text_of, self.bcc or ())), k.durable > 0, None if k.priority < 0 else k.priority,
            k.ttl_ms if k.has_ttl else None, timestamp, k.received_ms if k.has_received else None, (), self.extra or {})

    cdef Container with_annotations(self, object a):
        """A copy with other knowledge."""
        cdef Container made = Container.__new__(Container)
        made.wire = self.wire
        made.dialect = self.dialect
        made.mqtt_exchange = self.mqtt_exchange
        made.percent_encoding = self.percent_encoding
        made.rules = self.rules
        made.source = self.source
        made.translation = self.translation
        made.octets_ = self.octets_
        made.body_ = self.body_
        made.given_exchange = self.given_exchange
        made.given_routing_key = self.given_routing_key
        made.arrival_ms = self.arrival_ms
        made.stream = self.stream
        made.learned = made.changed = True
        made.known = self.known                 # with the fields of a PUBLISH
        made.topic = self.topic
        made.exchange = utf8_of(a.exchange)
        made.routing_key = utf8_of(a.routing_keys[0])
        made.extra = dict(a.extra)
        made.deaths = tuple(a.deaths)
        made.annotations_ = a
        made.adopt(&made.known, a)
        return made

    cdef int adopt(self, ConvertKnown* k, object a) except -1:
        """The numbers of Annotations."""
        k.durable = -1 if a.durable is None else a.durable
        k.priority = -1 if a.priority is None else a.priority
        k.clears_ttl = a.ttl_ms == -1
        k.has_ttl = a.ttl_ms is not None and not k.clears_ttl
        k.ttl_ms = a.ttl_ms if k.has_ttl else 0
        k.has_received = a.received_ms is not None
        k.received_ms = a.received_ms if k.has_received else 0
        k.has_timestamp = a.timestamp_ms is not None
        if k.has_timestamp:
            seconds = abs(a.timestamp_ms) // 1000
            k.timestamp_s = (seconds if a.timestamp_ms >= 0 else -seconds) & 0xFFFFFFFFFFFFFFFF
        return 0

    def annotated(self, **known):
        """A copy with more broker annotations; their keys begin with x-. `received_ms`: arrival time from an interceptor."""
        received = known.pop("received_ms", None)
        changed = {"extra": {**self.annotations.extra, **known}}
        if received is not None:
            changed |= {"received_ms": int(received), "timestamp_ms": int(received)}
        return self.with_annotations(replace(self.annotations, **changed))

    def dead_lettered(self, queue, reason, *, exchange, routing_key=None, now_ms=None, bint clear_ttl=False):
        """A copy after dead-lettering: the message died in a queue and was published to another exchange.

        One history entry per (queue, reason), latest first. `clear_ttl`: remove the TTL so that it cannot expire again.
        """
        now = time_ns() // 1_000_000 if now_ms is None else now_ms
        return self.with_annotations(after_death(self.annotations, queue, reason, exchange, routing_key, now, clear_ttl))

    def __reduce__(self):
        return restore_container, (
            self.wire, self.given_exchange, self.given_routing_key, self.dialect, self.mqtt_exchange, self.topics,
            self.percent_encoding, self.arrival_ms, self.extra, self.stream, self.annotations_ if self.changed else None)

    def __repr__(self):
        return f"Container({self.protocol!r}, {len(self.octets_)} bytes)"


cdef str text_of(bytes octets):
    return octets.decode("utf-8", "surrogateescape")


def restore_container(wire, exchange, routing_key, str dialect not None, mqtt_exchange, topics, bint percent_encoding, now_ms,
                      extra, bint stream, annotations):
    """Unpickle a Container. `annotations`: None if they are derived from the message."""
    cdef Container made = Container(
        wire, exchange=exchange, routing_key=routing_key, dialect=dialect, mqtt_exchange=mqtt_exchange, topics=topics,
        percent_encoding=percent_encoding, now_ms=now_ms, annotations=extra)
    made.stream = stream
    if annotations is None:
        return made
    if type(annotations) is not Annotations:
        raise TypeError(f"annotations are {type(annotations).__name__}, not Annotations")
    made.learn()
    return made.with_annotations(annotations)
