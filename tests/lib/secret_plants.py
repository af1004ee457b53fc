"""A secret planted in every place of every protocol that the rule of wirefmt/spec/secrets.py names.

`MARKER` is the secret; nothing else in these messages contains it. Messages are made by constructors from the tables of the
specifications, so a new method, packet or field is planted without a line here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from lib.wire import Tcp, pcap
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq
from wirefmt.amqp091 import spec as spec091
from wirefmt.amqp10 import spec as spec10
from wirefmt.mqtt import spec as spec_mqtt
from wirefmt.rocketmq import spec as spec_rocketmq

MARKER = "q7Zk4"
OCTETS = MARKER.encode()
CLIENT, SERVER = 0, 1

#: Names as real programs write them.
NAMES = ("password", "X-Auth-Token", "secretKey", "api_key", "Authorization", "SIGNATURE")


def forms() -> Iterator[str]:
    """The marker as text shows it: itself, hexadecimal, base64 at each of three alignments."""
    yield MARKER
    yield OCTETS.hex()
    yield OCTETS.hex(" ")
    yield OCTETS.hex().upper()
    for before in range(3):
        # the letters of base64 that all of the marker's octets decide
        text = base64.b64encode(b"\0" * before + OCTETS).decode().rstrip("=")
        yield text[-(-before * 8 // 6) : (before + len(OCTETS)) * 8 // 6]


def shows(text: str) -> bool:
    return any(form in text for form in forms())


# ---- MQTT


def user_properties() -> tuple[tuple[str, Any], ...]:
    return tuple(("user_property", (name, MARKER)) for name in NAMES)


def mqtt_objects() -> list[tuple[int, mqtt.Packet]]:
    """(side, packet) of 5.0, the session's CONNECT first."""
    will = mqtt.Will("w", b"bye", properties=user_properties())
    authentication = (("authentication_method", "SCRAM"), ("authentication_data", OCTETS))
    found: list[tuple[int, mqtt.Packet]] = [
        (
            CLIENT,
            mqtt.Connect(
                client_identifier="c", user_name="u", password=OCTETS, will=will,
                properties=authentication + user_properties(),
            ),
        ),
        (SERVER, mqtt.Connack(properties=authentication + user_properties())),
        (CLIENT, mqtt.Auth(reason_code=0x18, properties=authentication + user_properties())),
        (SERVER, mqtt.Auth(reason_code=0x18, properties=authentication)),
        (CLIENT, mqtt.Publish(topic_name="t", payload=b"21.5", properties=user_properties())),
        (SERVER, mqtt.Publish(topic_name="t", payload=b"21.5", qos=1, packet_identifier=9, properties=user_properties())),
    ]  # fmt: skip
    given: dict[str, dict[str, Any]] = {
        "Subscribe": {"subscriptions": [mqtt.Subscription("t")]},
        "Suback": {"reason_codes": [0]},
        "Unsubscribe": {"topic_filters": ["t"]},
        "Unsuback": {"reason_codes": [0]},
        "Disconnect": {},
    }
    (row,) = (row for row in spec_mqtt.PROPERTIES if row.name == "user_property")
    for name in row.sections:
        cls = name.capitalize()
        if cls in ("Connect", "Connack", "Auth", "Publish", "Will"):
            continue
        fields = dict(given.get(cls, {}))
        if cls != "Disconnect":
            fields["packet_identifier"] = 7
        packet = getattr(mqtt, cls)(version=5, properties=user_properties(), **fields)
        found.append((SERVER if name in ("SUBACK", "UNSUBACK", "PUBACK", "PUBREC") else CLIENT, packet))
    return found


# ---- AMQP


def nested(name: str) -> dict[str, Any]:
    """A map with the secret in it, in a map within it, in a list of maps, and in a map that is secret as a whole."""
    return {
        name: MARKER,
        "inner": {name: OCTETS, "deeper": [{name: MARKER}]},
        "credentials": {"user": MARKER, "parts": [MARKER]},
        "site": "north",
    }


def amqp091_objects() -> list[tuple[int, Any]]:
    secret = {(row.message, row.field) for row in _fields("amqp091")}
    found: list[tuple[int, Any]] = []
    for cls in spec091.CLASSES:
        for method in cls.methods:
            kind = f"{cls.name}.{method.name}"
            fields: dict[str, Any] = {}
            for argument in method.arguments:
                if (kind, argument.name.replace("-", "_")) in secret:
                    fields[argument.name] = OCTETS
                elif argument.type == "table":
                    fields[argument.name] = nested(NAMES[len(found) % len(NAMES)])
                elif argument.default is None:
                    fields[argument.name] = 1 if "str" not in argument.type else "x"
            if not any(MARKER in str(v) or v == OCTETS for v in fields.values()):
                continue
            name = "".join(word.capitalize() for word in kind.replace(".", "-").split("-"))
            channel = {} if cls.name == "connection" else {"channel": 1}
            fields = {key if hasattr(getattr(amqp091, name), key) else key + "_": v for key, v in fields.items()}
            found.append(
                (SERVER if method.senders == "server" else CLIENT, getattr(amqp091, name)(**fields, **channel))
            )
    headers = dict.fromkeys(NAMES, MARKER) | nested("password")
    message = amqp091.BasicMessage(
        amqp091.BasicPublish(channel=1, exchange="e", routing_key="k"),
        amqp091.BasicProperties(headers=headers),
        b"21.5",
    )
    return [*found, (CLIENT, message)]


def amqp10_objects() -> list[tuple[int, Any]]:
    secret = {(row.message, row.field) for row in _fields("amqp10")}
    found: list[tuple[int, Any]] = []
    given: dict[str, dict[str, Any]] = {
        "open": {"container_id": "c"}, "begin": {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9},
        "attach": {"name": "l", "handle": 0, "role": False, "initial_delivery_count": 0},
        "flow": {"incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9},
        "disposition": {"role": False, "first": 0}, "detach": {"handle": 0}, "sasl-init": {"mechanism": "PLAIN"},
        "sasl-outcome": {"code": 0},
    }  # fmt: skip
    planted = amqp10.Map({amqp10.Symbol(key): value for key, value in nested("password").items()})
    error = amqp10.Error(condition=amqp10.Symbol("amqp:internal-error"), info=planted)
    source = amqp10.Source(
        address="a",
        filter={amqp10.Symbol("f"): amqp10.Described(amqp10.Symbol("f"), {"token": MARKER})},
        dynamic_node_properties=planted,
    )
    states = (
        amqp10.Rejected(error=error),
        amqp10.Modified(message_annotations=planted),
        amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Rejected(error=error)),
    )
    order = ("sasl-init", "sasl-challenge", "sasl-response", "sasl-outcome", "open", "begin", "attach", "flow",
             "disposition", "detach", "end", "close")  # fmt: skip
    for name in order:
        (row,) = (row for row in spec10.COMPOSITES if row.name == name)
        fields = dict(given.get(name, {}))
        for field in row.fields:
            attribute = field.name.replace("-", "_")
            if (name, attribute) in secret:
                fields[attribute] = OCTETS
            elif attribute == "properties":
                fields[attribute] = planted
            elif attribute == "error":
                fields[attribute] = error
            elif attribute == "source":
                fields[attribute] = source
            elif attribute == "target":
                fields[attribute] = amqp10.Target(address="a", dynamic_node_properties=planted)
        cls = getattr(amqp10, "".join(word.capitalize() for word in name.split("-")))
        for state in states if name == "disposition" else (None,):
            more = {} if state is None else {"state": state}
            found.append((SERVER if name in ("sasl-challenge", "sasl-outcome") else CLIENT, cls(**fields, **more)))
        if name == "attach":
            for section in ("application_properties", "message_annotations", "delivery_annotations", "footer"):
                value = {"password": MARKER, "apiKey": MARKER} if section == "application_properties" else planted
                message = amqp10.Message(**{section: value}, body=b"21.5")  # type: ignore[arg-type]
                found.append((CLIENT, amqp10.Transfer(
                    handle=0, delivery_id=len(found), delivery_tag=b"%d" % len(found), message_format=0, settled=True,
                    payload=message.encode())))  # fmt: skip
    return found


# ---- RocketMQ, NSQ


def rocketmq_objects() -> list[tuple[int, Any]]:
    names = "AccessKey accessKey SecretKey secretkey Signature SIGNATURE securityToken SecurityToken"
    fields = dict.fromkeys(names.split(), MARKER)
    properties = f"TAGS\x01a\x02password\x01{MARKER}\x02UNIQ_KEY\x01u\x02"
    user = b'{"username":"u", "password": "%s"}' % OCTETS
    config = b"brokerName=a\naclSecretKey = %s\n" % OCTETS
    found: list[tuple[int, Any]] = []
    for i, row in enumerate(spec_rocketmq.REQUEST_CODES):
        letters = row.code in (310, 320, 325)
        more = {"i": properties, "b": "T"} if letters else {"properties": properties, "topic": "T"}
        body = user if 3001 <= row.code <= 3005 else config if "CONFIG" in row.name else b""
        form = "ROCKETMQ" if i % 2 and row.code < 1 << 15 else "JSON"
        found.append((CLIENT, rocketmq.RemotingCommand(
            code=row.code, opaque=i, ext_fields=fields | more, body=body, serialize_type=form)))  # fmt: skip
        found.append((SERVER, rocketmq.RemotingCommand(code=0, flag=1, opaque=i, ext_fields=fields, body=body)))
    stored = rocketmq.MessageExt(topic="T", body=b"21.5", properties=properties, store_host=("192.0.2.1", 10911))
    found.append((CLIENT, rocketmq.RemotingCommand(code=11, opaque=9000, ext_fields={"topic": "T"})))
    found.append((SERVER, rocketmq.RemotingCommand(code=0, flag=1, opaque=9000, body=stored.encode())))
    return found


def nsq_objects() -> list[tuple[int, Any]]:
    members = {"client_id": "c", "feature_negotiation": True, "auth": nested("password") | {"inner": {"token": 70417}}}
    members["auth"]["inner"]["password"] = MARKER
    members["secret"] = [MARKER, {"a": MARKER}]
    plain = {"max_rdy_count": 2500, "tls_v1": False, "deflate": False, "snappy": False}
    return [
        (CLIENT, nsq.Identify(members=_plain(members))),
        (SERVER, nsq.Response(members=plain | {"session": {"access_token": MARKER}})),
        (CLIENT, nsq.Auth(secret=OCTETS)),
        (SERVER, nsq.Response(members={"identity": "i", "permission_count": 1, "password": MARKER})),
    ]


def _plain(value: Any) -> Any:
    """For JSON: bytes as text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def _fields(protocol: str) -> list[Any]:
    from wirefmt.spec.secrets import FIELDS

    return [row for row in FIELDS if row.protocol == protocol]


# ---- streams and captures

OBJECTS = {
    "mqtt": mqtt_objects,
    "amqp091": amqp091_objects,
    "amqp10": amqp10_objects,
    "rocketmq": rocketmq_objects,
    "nsq": nsq_objects,
}
PORTS = {"mqtt": 1883, "amqp091": 5672, "amqp10": 5672, "rocketmq": 10911, "nsq": 4150}


def turns(protocol: str) -> list[tuple[int, bytes]]:
    """(side, octets) of a connection on which all that is planted is sent."""
    said: list[tuple[int, bytes]] = []
    if protocol == "amqp091":
        said.append((CLIENT, b"AMQP\0\0\x09\x01"))
    elif protocol == "amqp10":
        said.append((CLIENT, b"AMQP\3\1\0\0"))
    elif protocol == "nsq":
        said.append((CLIENT, b"  V2"))
    for side, message in OBJECTS[protocol]():
        if protocol == "amqp10" and isinstance(message, amqp10.Open):
            said.append((CLIENT, b"AMQP\0\1\0\0"))
        said.append((side, message.encode()))
    return said


def planted_capture(protocol: str) -> bytes:
    tcp = Tcp(port=PORTS[protocol], client_port=40000 + len(protocol))
    frames = tcp.open()
    for side, octets in turns(protocol):
        frames += tcp.send(side, octets)
    return pcap(frames + tcp.close())
