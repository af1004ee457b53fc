"""For each row of the tables a message that it takes, and what the document makes of it; for each row with a condition also a
message that just misses it, and the row that takes that instead ("": none). Worked out by hand from the document.

What a row gives is what the result has beside that of the plain message of its protocol: one octet "p" of data, payload or body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from wirefmt import amqp091, amqp10, mqtt

S = amqp10.Symbol
F = amqp091.FieldValue
UUID_TEXT = "urn:uuid:550e8400-e29b-41d4-a716-446655440000"
THE_UUID = UUID("550e8400-e29b-41d4-a716-446655440000")
LOOSE = "urn:uuid:550e-8400e29b41d4a716446655440000---"  # 36 octets behind urn:uuid:, dashes where they please
KEY = "k" * 255
LONG_KEY = "k" * 256
ROUND = "é" * 127 + "e"  # 255 octets


@dataclass(frozen=True)
class Case:
    take: Any
    gives: dict[str, Any] = field(default_factory=dict)
    miss: Any = None
    instead: str = ""  # row that takes the missed value; "": none, or the message is not refused


def m10(body: Any = None, *, header: dict[str, Any] | None = None, ma: dict[str, Any] | None = None,
        da: dict[str, Any] | None = None, ap: dict[str, Any] | None = None, footer: dict[str, Any] | None = None,
        **properties: Any) -> amqp10.Message:  # fmt: skip
    def annotations(given: dict[str, Any] | None) -> Any:
        return None if given is None else amqp10.Map({S(k): v for k, v in given.items()})

    return amqp10.Message(
        header=amqp10.Header(**header) if header else None,
        delivery_annotations=annotations(da),
        message_annotations=annotations(ma),
        properties=amqp10.Properties(**properties) if properties else None,
        application_properties=amqp10.Map(ap) if ap else None,
        body=amqp10.Data(b"p") if body is None else body,
        footer=annotations(footer),
    )


def m91(headers: dict[str, Any] | None = None, body: bytes = b"p", **properties: Any) -> amqp091.BasicMessage:
    if headers:
        properties["headers"] = headers
    given = amqp091.BasicProperties(**properties)
    return amqp091.BasicMessage(amqp091.BasicPublish(channel=1), given, body)


def m5(*properties: tuple[str, Any], payload: bytes = b"p", qos: int = 0, **more: Any) -> mqtt.Publish:
    return mqtt.Publish(
        version=5, topic_name="t", payload=payload, qos=qos, packet_identifier=1 if qos else None, properties=properties, **more
    )  # fmt: skip


def pair(name: str, value: str = "v") -> tuple[str, tuple[str, str]]:
    return "user_property", (name, value)


PLAIN = {"amqp10": m10(), "amqp091": m91(), "mqtt5": m5()}


def value_of(body: Any) -> bytes:
    """The sections of a body, encoded."""
    return bytes(m10(body).encode())


def raw(octets: str) -> amqp10.Message:
    """A message of octets that no constructor writes."""
    return amqp10.Message.decode(bytes.fromhex(octets), strictness="lax")


NAN = float("nan")
INFINITE = float("inf")
NESTED = amqp10.List([amqp10.UByte(1)])
SEQUENCE = amqp10.AmqpSequence([1])
DEATH = amqp10.encode_value(amqp10.Map({
    S("queue"): "q", S("reason"): S("expired"), S("count"): amqp10.ULong(2), S("first-time"): amqp10.Timestamp(5999),
    S("last-time"): amqp10.Timestamp(7000), S("exchange"): "x", S("routing-keys"): amqp10.Array("string", ["a", "b"]),
}))  # fmt: skip


def deaths(entries: bytes) -> amqp10.Message:
    """An annotation x-opt-deaths, an array of one map; as RabbitMQ writes it, the map in its wide encoding (map32)."""
    one = (len(entries) + 4).to_bytes(4) + (14).to_bytes(4) + entries
    array = b"\xf0" + (len(one) + 5).to_bytes(4) + (1).to_bytes(4) + b"\xd1" + one
    content = b"\xa3\x0cx-opt-deaths" + array
    section = b"\0\x53\x72\xd1" + (len(content) + 4).to_bytes(4) + (2).to_bytes(4) + content
    return raw((section + b"\0\x53\x75\xa0\x01p").hex())


DEATHS = deaths(DEATH[3:])  # behind code, size and count
SECTION = {  # whole sections, encoded
    "properties": bytes.fromhex("005373c00401a1016d"),
    "application": bytes.fromhex("005374c10702a1016ba10176"),
    "annotations": bytes.fromhex("005372c10902a303782d71a10176"),
    "footer": bytes.fromhex("005378c10902a303782d71a10176"),
}
DURABLE = {"header.durable": True}

# fmt: off
DOCUMENTED: dict[str, dict[str, Case]] = {
    "amqp10>amqp091": {
        "durable": Case(m10(header={"durable": True}), {"delivery_mode": 2}),
        "priority": Case(m10(header={"priority": 7}), {"priority": 7}),
        "ttl": Case(m10(header={"ttl": 1500}), {"expiration": "1500"}),
        "first_acquirer": Case(m10(header={"first_acquirer": True})),
        "delivery_count": Case(m10(header={"delivery_count": 3})),
        "message_id-utf8": Case(m10(message_id=ROUND), {"message_id": ROUND}, m10(message_id=ROUND + "e"), "message_id-utf8-long"),
        "message_id-utf8-long": Case(m10(message_id="m" * 256), {"headers x-message-id": "m" * 256}, m10(message_id="m" * 255), "message_id-utf8"),
        "message_id-uuid": Case(m10(message_id=THE_UUID), {"message_id": UUID_TEXT}),
        "message_id-ulong": Case(m10(message_id=amqp10.ULong(2**64 - 1)), {"message_id": "18446744073709551615"}),
        "message_id-binary": Case(m10(message_id=b"\0m"), {"headers x-message-id": F("x", b"\0m")}),
        "user_id": Case(m10(user_id=b"u"), {"user_id": "u"}, m10(user_id=b"u\0")),
        "to": Case(m10(to="t")),
        "subject": Case(m10(subject="s")),
        "reply_to": Case(m10(reply_to="/queues/a%20b"), {"reply_to": "/queues/a%20b"}, m10(reply_to="r" * 256)),
        "correlation_id-utf8": Case(m10(correlation_id="c"), {"correlation_id": "c"}, m10(correlation_id="c\0")),
        "correlation_id-utf8-long": Case(m10(correlation_id="c" * 256), {"headers x-correlation-id": "c" * 256}, m10(correlation_id="c" * 254 + "\0")),
        "correlation_id-uuid": Case(m10(correlation_id=THE_UUID), {"correlation_id": UUID_TEXT}),
        "correlation_id-ulong": Case(m10(correlation_id=amqp10.ULong(0)), {"correlation_id": "0"}),
        "correlation_id-binary": Case(m10(correlation_id=b"\xff"), {"headers x-correlation-id": F("x", b"\xff")}),
        "content_type": Case(m10(content_type=S("a/b")), {"content_type": "a/b"}),
        "content_encoding": Case(m10(content_encoding=S("gzip")), {"content_encoding": "gzip"}),
        "absolute_expiry_time": Case(m10(absolute_expiry_time=5)),
        "creation_time": Case(m10(creation_time=5999), {"timestamp": 5}),
        "group_id": Case(m10(group_id="g" * 255), {"app_id": "g" * 255}, m10(group_id="g" * 256)),
        "group_sequence": Case(m10(group_sequence=5)),
        "reply_to_group_id": Case(m10(reply_to_group_id="g")),
        "application_properties": Case(m10(ap={KEY: "v"}), {f"headers {KEY}": "v"}, m10(ap={LONG_KEY: "v"})),
        "annotations-x-cc": Case(m10(ma={"x-cc": amqp10.List(["a"])}), {"headers CC": amqp091.FieldArray(["a"])}, m10(ma={"x-ccc": "v"}), "annotations-x"),
        "annotations-x": Case(m10(ma={"x-" + "a" * 253: "v"}), {"headers x-" + "a" * 253: "v"}, m10(ma={"x-" + "a" * 254: "v"})),
        "delivery_annotations": Case(m10(da={"x-d": "v"})),
        "data": Case(m10(amqp10.Data(b"q")), {"body": b"q"}),
        "data-multiple": Case(m10([amqp10.Data(b"q"), amqp10.Data(b"r")]), {"type": "amqp-1.0", "body": bytes.fromhex("005375a00171" "005375a00172")}),
        "amqp.value": Case(m10(amqp10.AmqpValue("v")), {"type": "amqp-1.0", "body": bytes.fromhex("005377a10176")}),
        "amqp.sequence": Case(m10(SEQUENCE), {"type": "amqp-1.0", "body": bytes.fromhex("005376c003015501")}),
        "footer": Case(m10(footer={"x-f": "v"})),
        "types/utf8": Case(m10(ap={"k": "v" * 300}), {"headers k": "v" * 300}),
        "types/binary": Case(m10(ap={"k": b"v"}), {"headers k": F("x", b"v")}),
        "types/long": Case(m10(ap={"k": -(2**63)}), {"headers k": -(2**63)}),
        "types/ulong": Case(m10(ap={"k": amqp10.ULong(2**64 - 1)}), {"headers k": F("l", -1)}),
        "types/ubyte": Case(m10(ap={"k": amqp10.UByte(255)}), {"headers k": F("B", 255)}),
        "types/short": Case(m10(ap={"k": amqp10.Short(-2)}), {"headers k": F("s", -2)}),
        "types/ushort": Case(m10(ap={"k": amqp10.UShort(65535)}), {"headers k": F("u", 65535)}),
        "types/uint": Case(m10(ap={"k": amqp10.UInt(2**32 - 1)}), {"headers k": F("i", 2**32 - 1)}),
        "types/int": Case(m10(ap={"k": amqp10.Int(-3)}), {"headers k": F("I", -3)}),
        "types/double": Case(m10(ap={"k": 1.5}), {"headers k": 1.5}, m10(ap={"k": NAN})),
        "types/float": Case(m10(ap={"k": amqp10.Float(1.5)}), {"headers k": F("f", 1.5)}, m10(ap={"k": amqp10.Float(INFINITE)})),
        "types/decimal": Case(m10(ap={"k": amqp10.Decimal64(bytes(8))})),
        "types/boolean": Case(m10(ap={"k": True}), {"headers k": True}),
        "types/timestamp": Case(m10(ap={"k": amqp10.Timestamp(2999)}), {"headers k": amqp091.Timestamp(2)}),
        "types/byte": Case(m10(ap={"k": amqp10.Byte(-128)}), {"headers k": F("b", -128)}),
        "types/null": Case(m10(ap={"k": None}), {"headers k": None}),
        "types/list": Case(m10(ma={"x-k": NESTED}), {"headers x-k": amqp091.FieldArray([F("B", 1)])}),
        "types/map": Case(m10(ma={"x-k": amqp10.Map({"a": "b"})}), {"headers x-k": amqp091.FieldTable({"a": "b"})}),
        "types/symbol": Case(m10(ap={"k": S("v")}), {"headers k": "v"}),
        "types/array": Case(m10(ma={"x-k": amqp10.Array("string", ["a"])}), {"headers x-k": amqp091.FieldArray(["a"])}),
    },
    "amqp091>amqp10": {
        "message_id-uuid": Case(m91(message_id=UUID_TEXT), {"properties.message_id": THE_UUID}, m91(message_id=LOOSE), "message_id"),
        "message_id": Case(m91(message_id="m"), {"properties.message_id": "m"}),
        "correlation_id-uuid": Case(m91(correlation_id=UUID_TEXT.upper().replace("URN:UUID", "urn:uuid")), {"properties.correlation_id": THE_UUID}, m91(correlation_id=UUID_TEXT[:-1]), "correlation_id"),
        "correlation_id": Case(m91(correlation_id="c"), {"properties.correlation_id": "c"}),
        "user_id": Case(m91(user_id="u"), {"properties.user_id": b"u"}),
        "expiration": Case(m91(expiration="1500"), {"header.ttl": 1500}, m91(expiration="15s")),
        "type": Case(m91(type="t"), {"annotations x-basic-type": "t"}),
        "reply_to": Case(m91(reply_to="a b"), {"properties.reply_to": "a b"}),
        "app_id": Case(m91(app_id="a"), {"properties.group_id": "a"}),
        "timestamp": Case(m91(timestamp=5), {"properties.creation_time": 5000}),
        "content_type": Case(m91(content_type="a/b"), {"properties.content_type": S("a/b")}),
        "content_encoding": Case(m91(content_encoding="gzip"), {"properties.content_encoding": S("gzip")}),
        "delivery_mode": Case(m91(delivery_mode=2), DURABLE),
        "delivery_mode-absent": Case(m91(), {}),
        "priority": Case(m91(priority=255), {"header.priority": 255}),
        "cluster_id": Case(m91(cluster_id="c")),
        "headers-bcc": Case(m91({"BCC": ["a"]}), {}, m91({"BC": "a"}), "headers"),
        "headers-amqp-properties": Case(m91({"x-amqp-1.0-properties": F("x", SECTION["properties"])}, reply_to="lost"), {"properties.message_id": "m"},
                                        m91({"x-amqp-1.0-propertie": "v"}), "headers-x"),
        "headers-amqp-application-properties": Case(m91({"x-amqp-1.0-application-properties": F("x", SECTION["application"]), "l": "lost"}), {"application k": "v"},
                                                    m91({"x-amqp-1.0-application-propertie": "v"}), "headers-x"),
        "headers-amqp-annotations": Case(m91({"x-amqp-1.0-message-annotations": F("x", SECTION["annotations"]), "x-l": "lost"}), {"annotations x-q": "v"},
                                         m91({"x-amqp-1.0-message-annotation": "v"}), "headers-x"),
        "headers-x": Case(m91({"x-a": ["v"]}), {"annotations x-a": amqp10.List(["v"])}, m91({"X-a": "v"}), "headers"),
        "headers": Case(m91({"k": "v"}), {"application k": "v"}, m91({"k": ["v"]}), "headers-nested"),
        "headers-nested": Case(m91({"k": amqp091.FieldTable({"a": "b"})}), {}, m91({"x-k": amqp091.FieldTable({"a": "b"})}), "headers-x"),
        "payload": Case(m91(body=b"q"), {"data": b"q"}),
        "types/longstr": Case(m91({"k": "v" * 255}), {"application k": "v" * 255}, m91({"k": "v" * 256}), "types/longstr-binary"),
        "types/longstr-binary": Case(m91({"k": "v" * 256}), {"application k": b"v" * 256}),
        "types/long": Case(m91({"k": F("l", -5)}), {"application k": -5}),
        "types/ubyte": Case(m91({"k": F("B", 5)}), {"application k": amqp10.UByte(5)}),
        "types/short": Case(m91({"k": F("s", -5)}), {"application k": amqp10.Short(-5)}),
        "types/ushort": Case(m91({"k": F("u", 5)}), {"application k": amqp10.UShort(5)}),
        "types/uint": Case(m91({"k": F("i", 5)}), {"application k": amqp10.UInt(5)}),
        "types/int": Case(m91({"k": F("I", -5)}), {"application k": amqp10.Int(-5)}),
        "types/double": Case(m91({"k": F("d", INFINITE)}), {"application k": INFINITE}),
        "types/float": Case(m91({"k": F("f", 1.5)}), {"application k": amqp10.Float(1.5)}),
        "types/bool": Case(m91({"k": True}), {"application k": True}),
        "types/binary": Case(m91({"k": F("x", b"v")}), {"application k": b"v"}),
        "types/timestamp": Case(m91({"k": amqp091.Timestamp(3)}), {"application k": amqp10.Timestamp(3000)}),
        "types/byte": Case(m91({"k": F("b", -1)}), {"application k": amqp10.Byte(-1)}),
        "types/void": Case(m91({"k": None}), {"application k": None}),
        "types/array": Case(m91({"x-k": [F("I", 1)]}), {"annotations x-k": amqp10.List([amqp10.Int(1)])}),
        "types/table": Case(m91({"x-k": amqp091.FieldTable({"a": "b"})}), {"annotations x-k": amqp10.Map({"a": "b"})}),
        "types/table.key-x": Case(m91({"x-k": amqp091.FieldTable({"x-a": "b"})}), {"annotations x-k": amqp10.Map({S("x-a"): "b"})}, m91({"x-k": amqp091.FieldTable({"X-a": "b"})}), "types/table.key"),
        "types/table.key": Case(m91({"x-k": amqp091.FieldTable({"x": "b"})}), {"annotations x-k": amqp10.Map({"x": "b"})}),
        "types/shortstr": Case(m91(type="t"), {"annotations x-basic-type": "t"}),
    },
    "mqtt5>amqp10": {
        "dup": Case(m5(qos=1, dup=True), DURABLE),
        "qos": Case(m5(qos=1), DURABLE),
        "retain": Case(m5(retain=True)),
        "payload-format-indicator": Case(m5(("payload_format_indicator", 0))),
        "message-expiry-interval": Case(m5(("message_expiry_interval", 3)), {"header.ttl": 3000}),
        "topic-alias": Case(m5(("topic_alias", 3))),
        "response-topic": Case(m5(("response_topic", "a/b é")), {"properties.reply_to": "/exchanges/amq.topic/a.b%20%C3%A9"}),
        "correlation-data-uuid": Case(m5(("correlation_data", UUID_TEXT.encode())), {"properties.correlation_id": THE_UUID}, m5(("correlation_data", LOOSE.encode())), "correlation-data"),
        "correlation-data": Case(m5(("correlation_data", b"\xff")), {"properties.correlation_id": b"\xff"}),
        "user-property-x": Case(m5(pair("x-a")), {"annotations x-a": "v"}, m5(pair("x-é")), "user-property-x-not-ascii"),
        "user-property-x-not-ascii": Case(m5(pair("x-é")), {}, m5(pair("é")), "user-property"),
        "user-property": Case(m5(pair("é")), {"application é": "v"}),
        "subscription-identifier": Case(m5(("subscription_identifier", 7))),
        "content-type": Case(m5(("content_type", "a/b")), {"properties.content_type": S("a/b")}, m5(("content_type", "é"))),
        "payload-formatted": Case(m5(("payload_format_indicator", 1), payload="é".encode()), {"value": "é"}, m5(("payload_format_indicator", 0), payload=b"q"), "payload"),
        "payload": Case(m5(payload=b"q"), {"data": b"q"}),
        "types/utf8 pair": Case(m5(pair("k", "1"), pair("l", "2"), pair("k", "3")), {"application k": "1", "application l": "2"}),
    },
    "mqtt5>amqp091": {
        "dup": Case(m5(qos=1, dup=True), {"delivery_mode": 2}),
        "qos": Case(m5(qos=1), {"delivery_mode": 2}),
        "retain": Case(m5(retain=True)),
        "payload-format-indicator": Case(m5(("payload_format_indicator", 1))),
        "message-expiry-interval": Case(m5(("message_expiry_interval", 2**32 - 1)), {"expiration": "4294967295000"}),
        "topic-alias": Case(m5(("topic_alias", 3))),
        "response-topic": Case(m5(("response_topic", "a/b")), {"headers x-reply-to-topic": "a.b"}),
        "correlation-data": Case(m5(("correlation_data", ROUND.encode())), {"correlation_id": ROUND}, m5(("correlation_data", b"c" * 256)), "correlation-data-long"),
        "correlation-data-long": Case(m5(("correlation_data", b"\xff")), {"headers x-correlation-id": F("S", b"\xff")}),
        "user-property": Case(m5(pair(KEY)), {f"headers {KEY}": "v"}, m5(pair(LONG_KEY))),
        "subscription-identifier": Case(m5(("subscription_identifier", 7))),
        "content-type": Case(m5(("content_type", ROUND)), {"content_type": ROUND}, m5(("content_type", "c" * 256))),
        "payload": Case(m5(payload=b"q"), {"body": b"q"}),
        "types/utf8 pair": Case(m5(pair("l", "2"), pair("k", "1"), pair("l", "3")), {"headers k": "1", "headers l": "2"}),
    },
    "amqp10>mqtt5": {
        "durable": Case(m10(header={"durable": False}), {"QoS": 0}),
        "durable-absent": Case(m10(header={"priority": 4}), {}),
        "priority": Case(m10(header={"priority": 7})),
        "ttl": Case(m10(header={"ttl": 7})),
        "first_acquirer": Case(m10(header={"first_acquirer": True})),
        "delivery_count": Case(m10(header={"delivery_count": 7})),
        "message_id": Case(m10(message_id="m")),
        "user_id": Case(m10(user_id=b"u")),
        "to": Case(m10(to="t")),
        "subject": Case(m10(subject="s")),
        "reply_to": Case(m10(reply_to="/exchanges/amq.topic/a.b%20c"), {"response_topic": "a/b c"}, m10(reply_to="/exchanges/amq.topics/a")),
        "correlation_id": Case(m10(correlation_id=b"\xff"), {"correlation_data": b"\xff"}, m10(correlation_id=THE_UUID), "correlation_id-uuid"),
        "correlation_id-uuid": Case(m10(correlation_id=THE_UUID), {"correlation_data": UUID_TEXT.encode()}),
        "correlation_id-ulong": Case(m10(correlation_id=amqp10.ULong(7)), {"correlation_data": b"7"}),
        "content_type": Case(m10(content_type=S("a/b")), {"content_type": "a/b"}),
        "content_encoding": Case(m10(content_encoding=S("gzip"))),
        "absolute_expiry_time": Case(m10(absolute_expiry_time=5)),
        "creation_time": Case(m10(creation_time=5)),
        "group_id": Case(m10(group_id="g")),
        "group_sequence": Case(m10(group_sequence=5)),
        "reply_to_group_id": Case(m10(reply_to_group_id="g")),
        "application_properties": Case(m10(ap={"k": amqp10.Int(-5)}), {"user k": "-5"}, m10(ap={"k": b"v"})),
        "annotations-x": Case(m10(ma={"x-k": True}), {"user x-k": "true"}, m10(ma={"x-k": NESTED})),
        "delivery_annotations": Case(m10(da={"x-d": "v"})),
        "data": Case(m10(amqp10.Data(b"q")), {"payload": b"q"}),
        "data-multiple": Case(m10([amqp10.Data(b"q"), amqp10.Data(b"r")]), {"payload": b"qr"}),
        "amqp.value-binary": Case(m10(amqp10.AmqpValue(b"q")), {"payload": b"q"}),
        "amqp.value-utf8": Case(m10(amqp10.AmqpValue("é")), {"payload": "é".encode(), "payload_format_indicator": 1}, m10(amqp10.AmqpValue("a\0")), "amqp.value"),
        "amqp.value": Case(m10(amqp10.AmqpValue(None)), {"payload": bytes.fromhex("00537740"), "content_type": "message/vnd.rabbitmq.amqp"}),
        "amqp.sequence": Case(m10(SEQUENCE), {"payload": bytes.fromhex("005376c003015501"), "content_type": "message/vnd.rabbitmq.amqp"}),
        "footer": Case(m10(footer={"x-f": "v"})),
    },
    "amqp091>mqtt5": {
        "message_id": Case(m91(message_id="m")),
        "correlation_id": Case(m91(correlation_id="c"), {"correlation_data": b"c"}),
        "user_id": Case(m91(user_id="u")),
        "expiration": Case(m91(expiration="2999"), {"message_expiry_interval": 2}),
        "type": Case(m91(type="t")),
        "reply_to": Case(m91(reply_to="r")),
        "app_id": Case(m91(app_id="a")),
        "timestamp": Case(m91(timestamp=5)),
        "content_type": Case(m91(content_type="a/b"), {"content_type": "a/b"}),
        "content_encoding": Case(m91(content_encoding="gzip")),
        "delivery_mode": Case(m91(delivery_mode=2), {"QoS": 1}),
        "priority": Case(m91(priority=5)),
        "cluster_id": Case(m91(cluster_id="c")),
        "headers-bcc": Case(m91({"BCC": ["a"]}), {}, m91({"BC": "a"}), "headers"),
        "headers-reply-to-topic": Case(m91({"x-reply-to-topic": "a.b"}), {"response_topic": "a/b"}, m91({"x-reply-to-topi": "a.b"}), "headers"),
        "headers-correlation-id": Case(m91({"x-correlation-id": "c"}), {"correlation_data": b"c"}, m91({"x-correlation-id": "c"}, correlation_id="d"), "headers"),
        "headers": Case(m91({"k": F("I", -5)}), {"user k": "-5"}, m91({"k": ["v"]}), "headers-nested"),
        "headers-nested": Case(m91({"k": ["v"]}), {}, m91({"k": "v"}), "headers"),
        "payload": Case(m91(body=b"q"), {"payload": b"q"}),
    },
}

#: Rows that rabbitmq-4.3 has in the place of others. Worked out from the known facts of the server.
RABBITMQ_4_3: dict[str, dict[str, Case]] = {
    "amqp10>amqp091": {
        "message_id-utf8": Case(m10(message_id="m\0"), {"message_id": "m\0"}, m10(message_id="m" * 256), "message_id-utf8-long"),
        "correlation_id-utf8": Case(m10(correlation_id="c\0"), {"correlation_id": "c\0"}, m10(correlation_id="c" * 256), "correlation_id-utf8-long"),
        "reply_to-queue": Case(m10(reply_to="/queues/a%20b"), {"reply_to": "a b"}, m10(reply_to="/queue/a%20b"), "reply_to"),
        "reply_to": Case(m10(reply_to="r\0"), {"reply_to": "r\0"}, m10(reply_to="r" * 256)),
        "group_id": Case(m10(group_id="g\0"), {"app_id": "g\0"}, m10(group_id="g" * 256)),
        "application_properties": Case(m10(ap={"k\0": "v"}), {"headers k\0": "v"}, m10(ap={LONG_KEY: "v"})),
        "annotations-x-basic-type": Case(m10(ma={"x-basic-type": "t"}), {"type": "t"}, m10(ma={"x-basic-types": "t"}), "annotations-x-basic"),
        "annotations-x-basic-delivery-mode": Case(m10(ma={"x-basic-delivery-mode": amqp10.UByte(2)}), {"delivery_mode": 2}, m10(ma={"x-basic-delivery-mode": amqp10.UByte(2)}, header={"durable": False}), "annotations-x-basic"),
        "annotations-x-basic-priority": Case(m10(ma={"x-basic-priority": amqp10.UByte(3)}), {"priority": 3}, m10(ma={"x-basic-priority": amqp10.UByte(3)}, header={"priority": 4}), "annotations-x-basic"),
        "annotations-x-basic-expiration": Case(m10(ma={"x-basic-expiration": "5"}), {"expiration": "5"}, m10(ma={"x-basic-expiration": "5"}, header={"ttl": 4}), "annotations-x-basic"),
        "annotations-x-basic": Case(m10(ma={"x-basic-": "v"}), {}, m10(ma={"x-basic": "v"}), "annotations-x"),
        "annotations-x-exchange": Case(m10(ma={"x-exchange": "v"}), {}, m10(ma={"x-exchanges": "v"}), "annotations-x"),
        "annotations-x-routing-key": Case(m10(ma={"x-routing-key": "v"}), {}, m10(ma={"x-routing-keys": "v"}), "annotations-x"),
        "annotations-x-death": Case(m10(ma={"x-death": "v"}), {}, m10(ma={"x-deaths": "v"}), "annotations-x"),
        "annotations-received-time": Case(m10(ma={"x-opt-rabbitmq-received-time": amqp10.Timestamp(1999)}), {"headers timestamp_in_ms": F("l", 1999)}, m10(ma={"x-opt-rabbitmq-received-time": 1999}), "annotations-x"),
        "annotations-x-opt-deaths": Case(DEATHS, {"headers x-death": amqp091.FieldArray([amqp091.FieldTable({
            "count": F("l", 2), "reason": "expired", "queue": "q", "time": amqp091.Timestamp(5), "exchange": "x", "routing-keys": amqp091.FieldArray(["a", "b"])})])},
            m10(ma={"x-opt-deaths": amqp10.Array("string", ["d"])}), "annotations-x-opt-deaths-shape"),
        "annotations-x-opt-deaths-shape": Case(m10(ma={"x-opt-deaths": "d"}), {}, m10(ma={"x-opt-death": "d"}), "annotations-x"),
        "annotations-x": Case(m10(ma={"x-" + "a" * 253: "v"}), {"headers x-" + "a" * 253: "v"}, m10(ma={"x-" + "a" * 254: "v"})),
        "data-multiple": Case(m10([amqp10.Data(b"q"), amqp10.Data(b"r")]), {"body": b"qr"}),
        "types/binary": Case(m10(ap={"k": b"v"}), {"headers k": "v"}),
    },
    "amqp091>amqp10": {
        "message_id-uuid": Case(m91(message_id=LOOSE), {"properties.message_id": THE_UUID}, m91(message_id=LOOSE[:-1]), "message_id"),
        "correlation_id-uuid": Case(m91(correlation_id=LOOSE), {"properties.correlation_id": THE_UUID}, m91(correlation_id=LOOSE + "-"), "correlation_id"),
        "expiration-refused": Case(m91(expiration="315360000001"), {}, m91(expiration="315360000000"), "expiration"),
        "reply_to": Case(m91(reply_to="a b/é"), {"properties.reply_to": "/queues/a%20b%2F%C3%A9"}),
        "headers-cc": Case(m91({"CC": ["a"]}), {"annotations x-cc": amqp10.List(["a"])}, m91({"CCC": ["a"]}), "headers-nested"),
        "headers-amqp-properties": Case(m91({"x-amqp-1.0-properties": F("x", SECTION["properties"])}),
            {"properties.message_id": "m", "annotations x-amqp-1.0-properties": SECTION["properties"]}, m91({"x-amqp-1.0-property": "v"}), "headers-x"),
        "headers-amqp-app-properties": Case(m91({"x-amqp-1.0-app-properties": F("x", SECTION["application"])}),
            {"application k": "v", "annotations x-amqp-1.0-app-properties": SECTION["application"]}, m91({"x-amqp-1.0-application-properties": "v"}), "headers-x"),
        "headers-amqp-annotations": Case(m91({"x-amqp-1.0-message-annotations": F("x", SECTION["annotations"])}), {"annotations x-q": "v"}, m91({"x-amqp-1.0-message-annotation": "v"}), "headers-x"),
        "headers-amqp-footer": Case(m91({"x-amqp-1.0-footer": F("x", SECTION["footer"])}),
            {"footer x-q": "v", "annotations x-amqp-1.0-footer": SECTION["footer"]}, m91({"x-amqp-1.0-footers": "v"}), "headers-x"),
        "payload-amqp": Case(m91(type="amqp-1.0", body=bytes.fromhex("005377a10176")), {"annotations x-basic-type": "amqp-1.0", "value": "v"}, m91(type="amqp-1.1", body=b"p"), "payload"),
        "types/longstr": Case(m91({"k": "v" * 4096}), {"application k": "v" * 4096}, m91({"k": "v" * 4097}), "types/longstr-binary"),
        "types/double": Case(m91({"k": F("d", 1.5)}), {"application k": 1.5}, m91({"k": F("d", NAN)})),
        "types/float": Case(m91({"k": F("f", 1.5)}), {"application k": amqp10.Float(1.5)}, m91({"k": F("f", INFINITE)})),
        "types/table.key": Case(m91({"x-k": amqp091.FieldTable({"x": "b"})}), {"annotations x-k": amqp10.Map({S("x"): "b"})}),
    },
    "mqtt5>amqp10": {
        "message-expiry-interval": Case(m5(("message_expiry_interval", 3))),
        "correlation-data-uuid": Case(m5(("correlation_data", LOOSE.encode())), {"properties.correlation_id": THE_UUID}, m5(("correlation_data", LOOSE[:-1].encode())), "correlation-data"),
        "subscription-identifier": Case(m5(("subscription_identifier", 7))),
    },
    "mqtt5>amqp091": {
        "user-property": Case(m5(pair(KEY)), {f"headers {KEY}": "v"}, m5(pair(LONG_KEY))),
        "subscription-identifier": Case(m5(("subscription_identifier", 7))),
        "content-type": Case(m5(("content_type", "c" * 255)), {"content_type": "c" * 255}, m5(("content_type", "é"))),
    },
    "amqp10>mqtt5": {
        "reply_to-jms": Case(m10(ma={"x-opt-jms-reply-to": amqp10.Byte(3)}, reply_to="a.b"), {"response_topic": "a/b", "user x-opt-jms-reply-to": "3"}, m10(ma={"x-opt-jms-reply-to": amqp10.Byte(2)}, reply_to="a.b")),
        "application_properties": Case(m10(ap={"k": 1.5}), {"user k": "1.50000000000000000000e+00"}, m10(ap={"k": NAN})),
        "annotations-x": Case(m10(ma={"x-k": amqp10.Timestamp(1999)}), {"user x-k": "1"}, m10(ma={"x-k": THE_UUID})),
    },
    "amqp091>mqtt5": {
        "expiration-refused": Case(m91(expiration=""), {}, m91(expiration="+5"), "expiration"),
        "headers": Case(m91({"k": F("f", 1.5)}), {"user k": "1.50000000000000000000e+00"}, m91({"k": F("x", b"v")})),
    },
}

#: The same of rabbitmq-3.13, where it differs from 4.3.
RABBITMQ_3_13: dict[str, dict[str, Case]] = {
    "amqp10>amqp091": {
        "data-multiple": Case(m10([amqp10.Data(b"q"), amqp10.Data(b"r")], footer={"x-f": "v"}), {"type": "amqp-1.0", "body": bytes.fromhex("005375a00171" "005375a00172")}),
        "amqp.value": Case(m10(amqp10.AmqpValue("v"), footer={"x-f": "v"}), {"type": "amqp-1.0", "body": bytes.fromhex("005377a10176")}),
        "amqp.sequence": Case(m10(SEQUENCE, footer={"x-f": "v"}), {"type": "amqp-1.0", "body": bytes.fromhex("005376c003015501")}),
    },
    "mqtt5>amqp10": {
        "response-topic": Case(m5(("response_topic", "a/b é")), {"properties.reply_to": "/exchange/amq.topic/a.b é"}),
    },
    "amqp10>mqtt5": {
        "durable-absent": Case(m10(header={"priority": 4})),
        "reply_to": Case(m10(reply_to="/exchange/amq.topic/a.b%20"), {"response_topic": "a/b%20"}, m10(reply_to="/exchanges/amq.topic/a.b")),
        "amqp.value-text": Case(m10(amqp10.AmqpValue(amqp10.Int(-5))), {"payload": b"-5", "payload_format_indicator": 1}, m10(amqp10.AmqpValue(NAN)), "amqp.value"),
        "amqp.value": Case(m10(amqp10.AmqpValue(NESTED), footer={"x-f": "v"}), {"payload": bytes.fromhex("005377c003015001"), "content_type": "message/vnd.rabbitmq.amqp"}),
        "amqp.sequence": Case(m10(SEQUENCE, footer={"x-f": "v"}), {"payload": bytes.fromhex("005376c003015501"), "content_type": "message/vnd.rabbitmq.amqp"}),
    },
}
# fmt: on

CASES = {"documented": DOCUMENTED, "rabbitmq-4.3": RABBITMQ_4_3, "rabbitmq-3.13": RABBITMQ_3_13}
