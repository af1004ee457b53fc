"""MQTT 3.1, 3.1.1 and 5.0: bytes to packets and back, and topics.

>>> from wirefmt import mqtt
>>> octets = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5).encode()
>>> mqtt.decode(octets, version=5).topic_name
'a/b'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from wirefmt.mqtt import _codec

if TYPE_CHECKING:
    from wirefmt.mqtt.connection import ClientConnection, ServerConnection
    from wirefmt.mqtt.events import ConnectionOptions, Dropped, Negotiated, Released, Request
    from wirefmt.mqtt.session import Change, Delivery, Session
    from wirefmt.mqtt.states import State

#: Modules of the connections. They are loaded when one of their names is first used.
_MODULES = {
    "wirefmt.mqtt.connection": ("ClientConnection", "ServerConnection"),
    "wirefmt.mqtt.events": ("ConnectionOptions", "Dropped", "Negotiated", "Released", "Request"),
    "wirefmt.mqtt.session": ("Change", "Delivery", "Session"),
    "wirefmt.mqtt.states": ("State",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Auth = _codec.MqttAuth
Connack = _codec.MqttConnack
Connect = _codec.MqttConnect
Decoder = _codec.MqttDecoder
Disconnect = _codec.MqttDisconnect
Packet = _codec.MqttMessage
Pingreq = _codec.MqttPingreq
Pingresp = _codec.MqttPingresp
Puback = _codec.MqttPuback
Pubcomp = _codec.MqttPubcomp
Publish = _codec.MqttPublish
Pubrec = _codec.MqttPubrec
Pubrel = _codec.MqttPubrel
Suback = _codec.MqttSuback
Subscribe = _codec.MqttSubscribe
Subscription = _codec.MqttSubscription
Unsuback = _codec.MqttUnsuback
Unsubscribe = _codec.MqttUnsubscribe
Will = _codec.MqttWill
TopicIndex = _codec.TopicIndex
decode = _codec.decode_mqtt
decode_batch = _codec.mqtt_decode_batch
encode = _codec.encode_mqtt
frame_size = _codec.mqtt_size
matches = _codec.topic_matches
parse_shared = _codec.parse_shared
validate_topic_filter = _codec.validate_topic_filter
validate_topic_name = _codec.validate_topic_name

# what pickles name
restore_mqtt = _codec.restore_mqtt

__all__ = [
    "Auth",
    "Change",
    "ClientConnection",
    "Connack",
    "Connect",
    "ConnectionOptions",
    "Decoder",
    "Delivery",
    "Disconnect",
    "Dropped",
    "Negotiated",
    "Packet",
    "Pingreq",
    "Pingresp",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "Released",
    "Request",
    "ServerConnection",
    "Session",
    "State",
    "Suback",
    "Subscribe",
    "Subscription",
    "TopicIndex",
    "Unsuback",
    "Unsubscribe",
    "Will",
    "decode",
    "decode_batch",
    "encode",
    "frame_size",
    "matches",
    "parse_shared",
    "validate_topic_filter",
    "validate_topic_name",
]
