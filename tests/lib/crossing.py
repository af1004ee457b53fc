"""Messages that one client publishes, and what a client of each other protocol receives from the broker.

The expected values are those of RabbitMQ's conversions: of its published tables, and of its code (vectors/conversions). A message
is a dictionary of the properties that are set, with the names of its protocol:

- AMQP 0.9.1: pika's names. Headers have types: ("ubyte", 200). A plain text is a longstr.
- AMQP 1.0: the fields of header and properties. "annotations", "application_properties" and "delivery_annotations" have types in
  the same way; a plain text is utf8. "body" is, for example, ("data", b"x"). "header" and "tail" are encoded sections before and
  after the others.
- MQTT 5.0: paho's names of properties; "qos", "retain", "body".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

BODY = b"\x0021.5\xff"
IDENTIFIER = "6c0f9e1a-4f1d-4b7e-9a3f-0d5f5c0e7b11"
URN = f"urn:uuid:{IDENTIFIER}"
LONG = "m" * 256
NOW = "when it came"

Sent = dict[str, Any]


class Refused:
    """The broker refuses the message, and no consumer receives it."""


class Untried:
    """Not sent to RabbitMQ: it would end the session because it cannot write a value, or it refuses the QoS."""


@dataclass(frozen=True)
class Case:
    """A message, and what a consumer of each target protocol receives.

    Attributes:
        name: part of the topic or routing key.
        sets: the properties of the message.
        server: by target, what the consumer receives beyond `PLAIN`, in the dialect rabbitmq-4.3. RabbitMQ 4.0 does the same
            unless `differs` or `untried` has the target.
        documented: by target, what the published tables have instead.
        differs: by target, what RabbitMQ 4.0 does instead. It is older than the dialect.
        untried: targets for which RabbitMQ 4.0 cannot convert the message. The dialect drops the values.
    """

    name: str
    sets: Sent
    server: dict[str, Any]
    documented: dict[str, Any] = field(default_factory=dict)
    differs: dict[str, Any] = field(default_factory=dict)
    untried: tuple[str, ...] = ()

    def expected(self, target: str, judge: str) -> Any:
        """What the consumer receives. `judge` is a dialect, or "4.0" for RabbitMQ 4.0."""
        if judge == "4.0" and target in self.untried:
            return Untried
        over = {"documented": self.documented, "4.0": self.differs}.get(judge, {})
        said = over.get(target, self.server[target])
        if not isinstance(said, dict):
            return said
        plain = PLAIN[target]
        if judge == "4.0" and self in FROM_10 and self.sets.get("header") != NOT_DURABLE:
            plain = {**plain, **DURABLE[target]}
        return {**plain, **said}


#: What a consumer receives of a message without properties.
PLAIN: dict[str, Sent] = {
    "amqp091": {"body": BODY},
    "amqp10": {"body": ("data", BODY), "durable": False, "first_acquirer": True, "delivery_count": 0},
    "mqtt5": {"body": BODY, "qos": 0},
}
#: To RabbitMQ 4.0, an AMQP 1.0 message that does not say it is durable is durable. (3.2.1: the default is false.)
DURABLE: dict[str, Sent] = {"amqp091": {"delivery_mode": 2}, "mqtt5": {"qos": 1}}
NOT_DURABLE = bytes.fromhex("005370c0020142")


# ---- AMQP 0.9.1

NUMBERS = ("byte", "ubyte", "short", "ushort", "int", "uint", "long", "float", "double")
SCALARS_091: Sent = {
    "a-bool": ("bool", True),
    "a-byte": ("byte", -100),
    "a-ubyte": ("ubyte", 200),
    "a-short": ("short", -30_000),
    "a-ushort": ("ushort", 60_000),
    "a-int": ("int", -2_000_000_000),
    "a-uint": ("uint", 4_000_000_000),
    "a-long": ("long", -(2**62)),
    "a-float": ("float", 1.5),
    "a-double": ("double", -2.25),
    "a-timestamp": ("timestamp", 1_750_000_000),
    "a-longstr": "°C",
    "an-empty": "",
    "a-void": ("void", None),
}
SCALARS_091_IN_10: Sent = {
    **{f"a-{name}": SCALARS_091[f"a-{name}"] for name in NUMBERS},
    "a-bool": ("boolean", True),
    "a-timestamp": ("timestamp", 1_750_000_000_000),
    "a-longstr": ("utf8", "°C"),
    "an-empty": ("utf8", ""),
    "a-void": ("null", None),
}
SCALARS_091_AS_TEXT = [
    ("a-bool", "true"),
    ("a-byte", "-100"),
    ("a-ubyte", "200"),
    ("a-short", "-30000"),
    ("a-ushort", "60000"),
    ("a-int", "-2000000000"),
    ("a-uint", "4000000000"),
    ("a-long", "-4611686018427387904"),
    ("a-float", "1.50000000000000000000e+00"),
    ("a-double", "-2.25000000000000000000e+00"),
    ("a-timestamp", "1750000000"),
    ("a-longstr", "°C"),
    ("an-empty", ""),
    ("a-void", ""),
]
PROPERTIES_SECTION = bytes.fromhex("005373c00401a1016d")  # message-id "m"
APPLICATION_SECTION = bytes.fromhex("005374c10702a1016ba10176")  # k is v
ANNOTATIONS_SECTION = bytes.fromhex("005372c10902a303782d71a10176")  # x-q is v
FOOTER_SECTION = bytes.fromhex("005378c10902a303782d66a10176")  # x-f is v
VALUE_SECTION = bytes.fromhex("005377a10474657874")  # "text"

#: The case "basic" where the reply_to does not become an address: in the tables, and in RabbitMQ before 4.2.
UNCHANGED_REPLY_TO = {
    "amqp10": {
        "priority": 7, "reply_to": "an swers", "user_id": b"guest", "group_id": "meter",
        "creation_time": 1_750_000_000_000, "annotations": {"x-basic-type": ("utf8", "reading")},
    }
}  # fmt: skip


def old_section(part: str, section: bytes, read: Sent, *, documented_reads: bool = False) -> Case:
    """An encoded section of AMQP 1.0 in a header of AMQP 0.9.1. RabbitMQ reads it and keeps the header.

    The published tables do one of both. `read`: what the section says.
    """
    name = f"x-amqp-1.0-{part}"
    kept = {"annotations": {name: ("binary", section)}}
    return Case(
        f"old-{part}",
        {"headers": {name: ("binary", section)}},
        {"amqp10": {**read, **kept}, "mqtt5": {}},
        documented={"amqp10": read if documented_reads else kept},
    )


FROM_091 = [
    Case("plain", {}, {"amqp10": {}, "mqtt5": {}}),
    Case(
        "content",
        {"content_type": "application/x-reading", "content_encoding": "identity"},
        {
            "amqp10": {"content_type": "application/x-reading", "content_encoding": "identity"},
            "mqtt5": {"ContentType": "application/x-reading"},
        },
    ),
    Case(
        "identifiers",
        {"message_id": "m-1", "correlation_id": "c-17"},
        {
            "amqp10": {"message_id": ("utf8", "m-1"), "correlation_id": ("utf8", "c-17")},
            "mqtt5": {"CorrelationData": b"c-17"},
        },
    ),
    Case(
        "uuids",
        {"message_id": URN, "correlation_id": URN},
        {
            "amqp10": {"message_id": ("uuid", IDENTIFIER), "correlation_id": ("uuid", IDENTIFIER)},
            "mqtt5": {"CorrelationData": URN.encode()},
        },
    ),
    Case("persistent", {"delivery_mode": 2}, {"amqp10": {"durable": True}, "mqtt5": {"qos": 1}}),
    Case("transient", {"delivery_mode": 1}, {"amqp10": {}, "mqtt5": {}}),
    Case(
        "basic",
        {
            "priority": 7, "reply_to": "an swers", "type": "reading", "user_id": "guest", "app_id": "meter",
            "timestamp": 1_750_000_000, "cluster_id": "c",
        },
        {
            "amqp10": {
                "priority": 7, "reply_to": "/queues/an%20swers", "user_id": b"guest", "group_id": "meter",
                "creation_time": 1_750_000_000_000, "annotations": {"x-basic-type": ("utf8", "reading")},
            },
            "mqtt5": {},
        },
        documented=UNCHANGED_REPLY_TO,
        differs=UNCHANGED_REPLY_TO,
    ),
    Case("expiration", {"expiration": "600000"}, {"amqp10": {"ttl": 600_000}, "mqtt5": {}},
         documented={"mqtt5": {"MessageExpiryInterval": 600}}),
    Case("expiration-refused", {"expiration": "soon"}, {"amqp10": Refused, "mqtt5": Refused}),
    Case("scalars", {"headers": SCALARS_091},
         {"amqp10": {"application_properties": SCALARS_091_IN_10}, "mqtt5": {"UserProperty": SCALARS_091_AS_TEXT}}),
    Case(
        "binary",
        {"headers": {"text": ("binary", b"abc"), "other": ("binary", b"\xff")}},
        {
            "amqp10": {"application_properties": {"text": ("binary", b"abc"), "other": ("binary", b"\xff")}},
            "mqtt5": {},
        },
        documented={"mqtt5": {"UserProperty": [("text", "abc")]}},  # the other is not UTF-8
    ),
    Case("decimal", {"headers": {"d": ("decimal", (2, 150))}}, {"amqp10": {}, "mqtt5": {}},  # the tables have no row for the type
         documented={"mqtt5": {"UserProperty": [("d", "1.50")]}}, untried=("amqp10", "mqtt5")),
    Case(
        "long-strings",
        {"headers": {"long": LONG, "longer": "y" * 4097, "octets": ("longstr", b"\xff")}},
        {
            "amqp10": {
                "application_properties": {
                    "long": ("utf8", LONG), "longer": ("binary", b"y" * 4097), "octets": ("binary", b"\xff"),
                }
            },
            "mqtt5": {"UserProperty": [("long", LONG), ("longer", "y" * 4097)]},
        },
        documented={
            "amqp10": {
                "application_properties": {
                    "long": ("binary", LONG.encode()), "longer": ("binary", b"y" * 4097), "octets": ("binary", b"\xff"),
                }
            }
        },
    ),
    Case("nested", {"headers": {"deep": ("table", {"no": "v"}), "list": ("array", [("int", 1)])}},
         {"amqp10": {}, "mqtt5": {}}),
    Case(
        "x-headers",
        {
            "headers": {
                "x-trace": "t-1", "x-count": ("int", 3), "x-list": ("array", ["a", ("bool", True)]),
                "x-table": ("table", {"k": "v", "x-k": ("uint", 7)}),
            }
        },
        {
            "amqp10": {
                "annotations": {
                    "x-trace": ("utf8", "t-1"), "x-count": ("int", 3),
                    "x-list": ("list", [("utf8", "a"), ("boolean", True)]),
                    "x-table": ("map", {("symbol", "k"): ("utf8", "v"), ("symbol", "x-k"): ("uint", 7)}),
                }
            },
            "mqtt5": {"UserProperty": [("x-trace", "t-1"), ("x-count", "3")]},
        },
        documented={
            "amqp10": {
                "annotations": {
                    "x-trace": ("utf8", "t-1"), "x-count": ("int", 3),
                    "x-list": ("list", [("utf8", "a"), ("boolean", True)]),
                    "x-table": ("map", {("utf8", "k"): ("utf8", "v"), ("symbol", "x-k"): ("uint", 7)}),
                }
            }
        },
    ),
    Case(
        "carbon-copies",
        {"headers": {"CC": ("array", ["elsewhere.1"]), "BCC": ("array", ["elsewhere.2"])}},
        {"amqp10": {"annotations": {"x-cc": ("list", [("utf8", "elsewhere.1")])}}, "mqtt5": {}},
        documented={"amqp10": {}},
    ),
    Case(
        "for-mqtt",
        {"headers": {"x-reply-to-topic": "answers.1", "x-correlation-id": "c-18"}},
        {
            "amqp10": {
                "annotations": {"x-reply-to-topic": ("utf8", "answers.1"), "x-correlation-id": ("utf8", "c-18")}
            },
            "mqtt5": {"ResponseTopic": "answers/1", "CorrelationData": b"c-18"},
        },
    ),
    Case(
        "both-correlations",
        {"correlation_id": "c-17", "headers": {"x-correlation-id": "c-18"}},
        {
            "amqp10": {"correlation_id": ("utf8", "c-17"), "annotations": {"x-correlation-id": ("utf8", "c-18")}},
            "mqtt5": {"CorrelationData": b"c-17", "UserProperty": [("x-correlation-id", "c-18")]},
        },
    ),
    old_section("properties", PROPERTIES_SECTION, {"message_id": ("utf8", "m")}, documented_reads=True),
    Case(
        "old-application-properties",
        {"headers": {"x-amqp-1.0-application-properties": ("binary", APPLICATION_SECTION)}},
        {
            "amqp10": {"annotations": {"x-amqp-1.0-application-properties": ("binary", APPLICATION_SECTION)}},
            "mqtt5": {},
        },
        documented={"amqp10": {"application_properties": {"k": ("utf8", "v")}}},
    ),
    old_section("app-properties", APPLICATION_SECTION, {"application_properties": {"k": ("utf8", "v")}}),
    Case(
        "old-annotations",
        {"headers": {"x-amqp-1.0-message-annotations": ("binary", ANNOTATIONS_SECTION)}},
        {"amqp10": {"annotations": {"x-q": ("utf8", "v")}}, "mqtt5": {}},
    ),
    old_section("footer", FOOTER_SECTION, {"footer": {"x-f": ("utf8", "v")}}),
    Case(
        "amqp-body",
        {"type": "amqp-1.0", "body": VALUE_SECTION},
        {
            "amqp10": {"body": ("value", ("utf8", "text")), "annotations": {"x-basic-type": ("utf8", "amqp-1.0")}},
            "mqtt5": {"body": VALUE_SECTION},
        },
        documented={
            "amqp10": {"body": ("data", VALUE_SECTION), "annotations": {"x-basic-type": ("utf8", "amqp-1.0")}}
        },
    ),
]  # fmt: skip

# ---- AMQP 1.0

SCALARS_10: Sent = {
    **{f"a-{name}": SCALARS_091[f"a-{name}"] for name in NUMBERS},
    "a-boolean": ("boolean", True),
    "a-ulong": ("ulong", 2**63 - 1),
    "a-timestamp": ("timestamp", 1_750_000_000_123),
    "a-utf8": ("utf8", "°C"),
    "an-empty": ("utf8", ""),
    "a-symbol": ("symbol", "symbolic"),
    "a-null": ("null", None),
}
SCALARS_10_IN_091: Sent = {
    **{f"a-{name}": SCALARS_091[f"a-{name}"] for name in NUMBERS},
    "a-boolean": ("bool", True),
    "a-ulong": ("long", 2**63 - 1),
    "a-timestamp": ("timestamp", 1_750_000_000),
    "a-utf8": "°C",
    "an-empty": "",
    "a-symbol": "symbolic",
    "a-null": ("void", None),
}
SCALARS_10_AS_TEXT = [
    ("a-byte", "-100"),
    ("a-ubyte", "200"),
    ("a-short", "-30000"),
    ("a-ushort", "60000"),
    ("a-int", "-2000000000"),
    ("a-uint", "4000000000"),
    ("a-long", "-4611686018427387904"),
    ("a-float", "1.50000000000000000000e+00"),
    ("a-double", "-2.25000000000000000000e+00"),
    ("a-boolean", "true"),
    ("a-ulong", "9223372036854775807"),
    ("a-timestamp", "1750000000"),
    ("a-utf8", "°C"),
    ("an-empty", ""),
    ("a-symbol", "symbolic"),
    ("a-null", ""),
]
NESTED_10: Sent = {
    "a-list": ("list", [("utf8", "a"), ("boolean", True)]),
    "a-map": ("map", {("utf8", "k"): ("uint", 7)}),
    "an-array": ("array", [("int", 1), ("int", 2)]),
}
NESTED_10_IN_091: Sent = {
    "a-list": ("array", ["a", ("bool", True)]),
    "a-map": ("table", {"k": ("uint", 7)}),
    "an-array": ("array", [("int", 1), ("int", 2)]),
}
ENCODED = {"ContentType": "message/vnd.rabbitmq.amqp"}


def prefixed(values: Sent) -> Sent:
    return {f"x-{name}": value for name, value in values.items()}


def identified(name: str, value: Any, amqp091: Sent, correlation: bytes, **others: Any) -> Case:
    """Message-id and correlation-id have the same value."""
    return Case(
        f"identifiers-{name}",
        {"message_id": value, "correlation_id": value},
        {"amqp091": amqp091, "mqtt5": {"CorrelationData": correlation}},
        **others,
    )


def body(name: str, value: Any, section: bytes, documented: dict[str, Any] | None = None, tail: bytes = b"") -> Case:
    """A body that is not of data sections: AMQP 0.9.1 and MQTT get it encoded. `tail`: the sections after it."""
    return Case(
        f"body-{name}",
        {"body": value, "tail": tail},
        {
            "amqp091": {"body": section + tail, "type": "amqp-1.0"},
            "mqtt5": {"body": section + tail, **ENCODED},
        },
        documented=documented or {},
    )


FROM_10 = [
    Case("plain", {}, {"amqp091": {}, "mqtt5": {}}),
    Case("durable", {"durable": True}, {"amqp091": {"delivery_mode": 2}, "mqtt5": {"qos": 1}}),
    Case("not-durable", {"header": NOT_DURABLE}, {"amqp091": {}, "mqtt5": {}}),
    Case("without-header", {"header": b""}, {"amqp091": {}, "mqtt5": {}}),
    Case(
        "header",
        {"durable": True, "priority": 7, "ttl": 600_000, "first_acquirer": True, "delivery_count": 3},
        {"amqp091": {"delivery_mode": 2, "priority": 7, "expiration": "600000"}, "mqtt5": {"qos": 1}},
    ),
    Case("delivery-annotations", {"delivery_annotations": {"x-d": "v"}}, {"amqp091": {}, "mqtt5": {}}),
    identified("utf8", ("utf8", "c-17"), {"message_id": "c-17", "correlation_id": "c-17"}, b"c-17"),
    identified("uuid", ("uuid", IDENTIFIER), {"message_id": URN, "correlation_id": URN}, URN.encode()),
    identified("ulong", ("ulong", 2**64 - 1), {"message_id": str(2**64 - 1), "correlation_id": str(2**64 - 1)},
               str(2**64 - 1).encode()),
    identified(
        "binary", ("binary", b"\xff\x00"),
        {"headers": {"x-message-id": ("binary", b"\xff\x00"), "x-correlation-id": ("binary", b"\xff\x00")}}, b"\xff\x00",
    ),
    identified("long", ("utf8", LONG), {"headers": {"x-message-id": LONG, "x-correlation-id": LONG}}, LONG.encode()),
    Case(
        "properties",
        {
            "user_id": b"guest", "to": "/queues/other", "subject": "s", "content_type": "application/x-reading",
            "content_encoding": "identity", "absolute_expiry_time": 4_102_444_800_000, "creation_time": 1_750_000_000_123,
            "group_id": "meter", "group_sequence": 7, "reply_to_group_id": "r",
        },
        {
            "amqp091": {
                "user_id": "guest", "content_type": "application/x-reading", "content_encoding": "identity",
                "timestamp": 1_750_000_000, "app_id": "meter",
            },
            "mqtt5": {"ContentType": "application/x-reading"},
        },
    ),
    Case(
        "reply-to-topic",
        {"reply_to": "/exchanges/amq.topic/answers.a%20b"},
        {"amqp091": {"reply_to": "/exchanges/amq.topic/answers.a%20b"}, "mqtt5": {"ResponseTopic": "answers/a b"}},
    ),
    Case(
        "reply-to-queue",
        {"reply_to": "/queues/an%20swers"},
        {"amqp091": {"reply_to": "an swers"}, "mqtt5": {}},
        documented={"amqp091": {"reply_to": "/queues/an%20swers"}},
        differs={"amqp091": {"reply_to": "/queues/an%20swers"}},
    ),
    Case(
        "scalars",
        {"application_properties": SCALARS_10},
        {"amqp091": {"headers": SCALARS_10_IN_091}, "mqtt5": {"UserProperty": SCALARS_10_AS_TEXT}},
    ),
    Case(
        "x-scalars",  # with a null, RabbitMQ 4 fails only for a consumer of AMQP 1.0
        {"annotations": prefixed(SCALARS_10)},
        {
            "amqp091": {"headers": prefixed(SCALARS_10_IN_091)},
            "mqtt5": {"UserProperty": [(f"x-{name}", text) for name, text in SCALARS_10_AS_TEXT]},
        },
    ),
    Case(
        "binary",
        {"application_properties": {"b": ("binary", b"\xff")}, "annotations": {"x-b": ("binary", b"\xff")}},
        {"amqp091": {"headers": {"b": ("longstr", b"\xff"), "x-b": ("longstr", b"\xff")}}, "mqtt5": {}},
        documented={"amqp091": {"headers": {"b": ("binary", b"\xff"), "x-b": ("binary", b"\xff")}}},
    ),
    Case(
        "ulong-wraps",
        {"application_properties": {"u": ("ulong", 2**64 - 1)}},
        {"amqp091": {"headers": {"u": ("long", -1)}}, "mqtt5": {"UserProperty": [("u", str(2**64 - 1))]}},
    ),
    Case(
        "not-finite",
        {"application_properties": {"n": ("double", float("nan")), "i": ("float", float("-inf"))}},
        {"amqp091": {}, "mqtt5": {}},
        documented={"mqtt5": {"UserProperty": [("n", "nan"), ("i", "-inf")]}},
        untried=("amqp091", "mqtt5"),
    ),
    Case(
        "decimals",  # 1.50, -0.7, 12
        {
            "application_properties": {
                "d32": ("decimal32", 0x32000096 - 0x00800000), "d64": ("decimal64", 0xB1A0000000000007),
                "d128": ("decimal128", bytes.fromhex("3040" + "00" * 13 + "0c")),
            }
        },
        {"amqp091": {}, "mqtt5": {}},
        documented={"mqtt5": {"UserProperty": [("d32", "1.50"), ("d64", "-0.7"), ("d128", "12")]}},
        untried=("amqp091", "mqtt5"),
    ),
    Case(
        "uuid-and-char",
        {"application_properties": {"u": ("uuid", IDENTIFIER), "c": ("char", "°")}},
        {"amqp091": {}, "mqtt5": {}},
        documented={"mqtt5": {"UserProperty": [("u", IDENTIFIER), ("c", "°")]}},
        untried=("amqp091", "mqtt5"),
    ),
    Case(
        "nested",  # values of application properties are simple (3.2.5); RabbitMQ takes others
        {"application_properties": NESTED_10},
        {"amqp091": {"headers": NESTED_10_IN_091}, "mqtt5": {}},
        untried=("mqtt5",),  # the array
    ),
    Case(
        "x-nested",
        {"annotations": prefixed(NESTED_10)},
        {"amqp091": {"headers": prefixed(NESTED_10_IN_091)}, "mqtt5": {}},
        untried=("mqtt5",),  # the array
    ),
    Case(
        "long-key",
        {"application_properties": {LONG: "v"}},
        {"amqp091": {}, "mqtt5": {"UserProperty": [(LONG, "v")]}},
    ),
    Case(
        "x-basic",
        {
            "header": b"",
            "annotations": {
                "x-basic-type": "reading", "x-basic-priority": ("ubyte", 7), "x-basic-delivery-mode": ("ubyte", 2),
                "x-basic-expiration": "600000", "x-basic-other": "o",
            },
        },
        {
            "amqp091": {"type": "reading", "priority": 7, "delivery_mode": 2, "expiration": "600000"},
            "mqtt5": {
                "qos": 1,
                "UserProperty": [
                    ("x-basic-type", "reading"), ("x-basic-priority", "7"), ("x-basic-delivery-mode", "2"),
                    ("x-basic-expiration", "600000"), ("x-basic-other", "o"),
                ],
            },
        },
        documented={  # all are headers; three are also properties
            "amqp091": {
                "priority": 7, "delivery_mode": 2, "expiration": "600000",
                "headers": {
                    "x-basic-type": "reading", "x-basic-priority": ("ubyte", 7), "x-basic-delivery-mode": ("ubyte", 2),
                    "x-basic-expiration": "600000", "x-basic-other": "o",
                },
            },
        },
    ),
    Case(
        "jms-reply-to",
        {"reply_to": "answers.1", "annotations": {"x-opt-jms-reply-to": ("byte", 1)}},
        {
            "amqp091": {"reply_to": "answers.1", "headers": {"x-opt-jms-reply-to": ("byte", 1)}},
            "mqtt5": {"ResponseTopic": "answers/1", "UserProperty": [("x-opt-jms-reply-to", "1")]},
        },
        documented={"mqtt5": {"UserProperty": [("x-opt-jms-reply-to", "1")]}},
        differs={"mqtt5": {"UserProperty": [("x-opt-jms-reply-to", "1")]}},
    ),
    Case(
        "the-broker's",  # annotations that a broker adds
        {
            "annotations": {
                "x-exchange": "e", "x-routing-key": "k", "x-death": "d", "x-opt-deaths": "no deaths",
                "x-opt-rabbitmq-received-time": ("timestamp", 1_750_000_000_123),
            }
        },
        {
            "amqp091": {"headers": {"timestamp_in_ms": ("long", 1_750_000_000_123)}},
            "mqtt5": {
                "UserProperty": [
                    ("x-exchange", "e"), ("x-routing-key", "k"), ("x-death", "d"), ("x-opt-deaths", "no deaths"),
                    ("x-opt-rabbitmq-received-time", "1750000000"),
                ]
            },
        },
        documented={
            "amqp091": {
                "headers": {
                    "x-exchange": "e", "x-routing-key": "k", "x-death": "d", "x-opt-deaths": "no deaths",
                    "x-opt-rabbitmq-received-time": ("timestamp", 1_750_000_000),
                }
            }
        },
    ),
    Case(
        "carbon-copies",
        {"annotations": {"x-cc": ("list", [("utf8", "elsewhere.1")])}},
        {"amqp091": {"headers": {"CC": ("array", ["elsewhere.1"])}}, "mqtt5": {}},
    ),
    Case("two-data-sections", {"tail": bytes.fromhex("005375a00162")},
         {"amqp091": {"body": BODY + b"b"}, "mqtt5": {"body": BODY + b"b"}},
         documented={
             "amqp091": {"type": "amqp-1.0", "body": b"\x00Su\xa0\x06" + BODY + b"\x00Su\xa0\x01b"},
         }),
    Case("data-and-footer", {"tail": FOOTER_SECTION}, {"amqp091": {}, "mqtt5": {}}),
    body("text", ("value", "text"), VALUE_SECTION, {"mqtt5": {"body": b"text", "PayloadFormatIndicator": 1}}),
    body("text-and-footer", ("value", "text"), VALUE_SECTION, {"mqtt5": {"body": b"text", "PayloadFormatIndicator": 1}},
         tail=FOOTER_SECTION),
    body("octets", ("value", ("binary", b"\xff")), bytes.fromhex("005377a001ff"), {"mqtt5": {"body": b"\xff"}}),
    body("number", ("value", ("long", 3)), bytes.fromhex("0053775503")),
    body("map", ("value", ("map", {("utf8", "k"): ("utf8", "v")})), bytes.fromhex("005377d10000000a00000002a1016ba10176")),
    body("sequence", ("sequence", ("list", [("utf8", "a"), ("boolean", True)])),
         bytes.fromhex("005376d00000000800000002a1016141")),
]  # fmt: skip

# ---- MQTT 5.0

FROM_MQTT = [
    Case("plain", {}, {"amqp091": {"delivery_mode": 2}, "amqp10": {"durable": True}}),
    Case("qos-0", {"qos": 0}, {"amqp091": {"delivery_mode": 1}, "amqp10": {}}),
    Case("qos-2", {"qos": 2}, {"amqp091": {"delivery_mode": 2}, "amqp10": {"durable": True}}, untried=("amqp091", "amqp10")),
    Case("retained", {"retain": True}, {"amqp091": {"delivery_mode": 2}, "amqp10": {"durable": True}}),
    Case(
        "formatted",
        {"PayloadFormatIndicator": 1, "body": "21.5 °C".encode()},
        {
            "amqp091": {"delivery_mode": 2, "body": "21.5 °C".encode()},
            "amqp10": {"durable": True, "body": ("data", "21.5 °C".encode())},
        },
        documented={"amqp10": {"durable": True, "body": ("value", ("utf8", "21.5 °C"))}},
    ),
    Case(
        "expiry",
        {"MessageExpiryInterval": 600},
        {
            "amqp091": {"delivery_mode": 2, "expiration": "600000", "timestamp": NOW},
            "amqp10": {"durable": True},
        },
        documented={"amqp10": {"durable": True, "ttl": 600_000}},
    ),
    Case("alias", {"TopicAlias": 1}, {"amqp091": {"delivery_mode": 2}, "amqp10": {"durable": True}}),
    Case(
        "response",
        {"ResponseTopic": "answers/a b"},
        {
            "amqp091": {"delivery_mode": 2, "headers": {"x-reply-to-topic": "answers.a b"}},
            "amqp10": {"durable": True, "reply_to": "/exchanges/amq.topic/answers.a%20b"},
        },
    ),
    *(
        Case(
            f"correlation-{name}",
            {"CorrelationData": data},
            {
                "amqp091": {"delivery_mode": 2, **cast(dict[str, Any], amqp091)},
                "amqp10": {"durable": True, "correlation_id": amqp10},
            },
        )
        for name, data, amqp091, amqp10 in [
            ("text", b"c-17", {"correlation_id": "c-17"}, ("binary", b"c-17")),
            ("uuid", URN.encode(), {"correlation_id": URN}, ("uuid", IDENTIFIER)),
            ("octets", b"\xff\x00", {"headers": {"x-correlation-id": ("longstr", b"\xff\x00")}}, ("binary", b"\xff\x00")),
            ("long", LONG.encode(), {"headers": {"x-correlation-id": LONG}}, ("binary", LONG.encode())),
        ]
    ),
    Case(
        "user",
        {"UserProperty": [("unit", "°C"), ("b", "1"), ("a", ""), ("unit", "second"), ("X-up", "v")]},
        {
            "amqp091": {"delivery_mode": 2, "headers": {"X-up": "v", "a": "", "b": "1", "unit": "°C"}},
            "amqp10": {
                "durable": True,
                "application_properties": {
                    "unit": ("utf8", "°C"), "b": ("utf8", "1"), "a": ("utf8", ""), "X-up": ("utf8", "v"),
                },
            },
        },
    ),
    Case(
        "user-x",
        {"UserProperty": [("x-trace", "t-1"), ("x-°", "v")]},
        {
            "amqp091": {"delivery_mode": 2, "headers": {"x-trace": "t-1", "x-°": "v"}},
            "amqp10": {"durable": True, "annotations": {"x-trace": ("utf8", "t-1")}},
        },
    ),
    Case(
        "user-long-key",
        {"UserProperty": [(LONG, "v")]},
        {
            "amqp091": {"delivery_mode": 2},
            "amqp10": {"durable": True, "application_properties": {LONG: ("utf8", "v")}},
        },
    ),
    Case(
        "content-type",
        {"ContentType": "application/x-reading"},
        {
            "amqp091": {"delivery_mode": 2, "content_type": "application/x-reading"},
            "amqp10": {"durable": True, "content_type": "application/x-reading"},
        },
    ),
    Case(
        "content-type-not-ascii",
        {"ContentType": "text/°"},
        {"amqp091": {"delivery_mode": 2}, "amqp10": {"durable": True}},
        documented={"amqp091": {"delivery_mode": 2, "content_type": "text/°"}},
    ),
]  # fmt: skip

CASES = {"amqp091": FROM_091, "amqp10": FROM_10, "mqtt5": FROM_MQTT}

#: Rows of the tables that no message of these clients can use, and why.
NOT_SET = {
    "amqp10>amqp091 annotations-x-opt-deaths": "only a broker writes it; vectors/conversions has it",
    "mqtt5>amqp091 dup": "a client sets DUP only on a packet that it sends again",
    "mqtt5>amqp10 dup": "a client sets DUP only on a packet that it sends again",
    "mqtt5>amqp091 subscription-identifier": "a client must not send it [MQTT-3.3.4-6]; the broker ends the connection",
    "mqtt5>amqp10 subscription-identifier": "a client must not send it [MQTT-3.3.4-6]; the broker ends the connection",
}
#: Rows that are used but not reported in every dialect, and the case that uses each. The reasons: the field is absent, a header
#: becomes a section, the message is refused, or the connection has replaced the alias by its topic.
UNREPORTED = {
    "amqp091>amqp10 delivery_mode-absent": "plain",
    "amqp091>amqp10 expiration-refused": "expiration-refused",
    "amqp091>mqtt5 expiration-refused": "expiration-refused",
    "amqp091>amqp10 headers-amqp-properties": "old-properties",
    "amqp091>amqp10 headers-amqp-app-properties": "old-app-properties",
    "amqp091>amqp10 headers-amqp-annotations": "old-annotations",
    "amqp091>amqp10 headers-amqp-footer": "old-footer",
    "amqp10>mqtt5 durable-absent": "without-header",
    "mqtt5>amqp091 topic-alias": "alias",
    "mqtt5>amqp10 topic-alias": "alias",
}
