"""MQTT 3.1, 3.1.1 and 5.0: octets to packets and back, and topics.

>>> from wirefmt import mqtt
>>> octets = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5).encode()
>>> mqtt.decode(octets, version=5).topic_name
'a/b'
"""

from wirefmt import _core

Auth = _core.MqttAuth
Connack = _core.MqttConnack
Connect = _core.MqttConnect
Decoder = _core.MqttDecoder
Disconnect = _core.MqttDisconnect
Packet = _core.MqttMessage
Pingreq = _core.MqttPingreq
Pingresp = _core.MqttPingresp
Puback = _core.MqttPuback
Pubcomp = _core.MqttPubcomp
Publish = _core.MqttPublish
Pubrec = _core.MqttPubrec
Pubrel = _core.MqttPubrel
Suback = _core.MqttSuback
Subscribe = _core.MqttSubscribe
Subscription = _core.MqttSubscription
Unsuback = _core.MqttUnsuback
Unsubscribe = _core.MqttUnsubscribe
Will = _core.MqttWill
TopicIndex = _core.TopicIndex
decode = _core.decode_mqtt
decode_batch = _core.mqtt_decode_batch
encode = _core.encode_mqtt
frame_size = _core.mqtt_size
matches = _core.topic_matches
parse_shared = _core.parse_shared
validate_topic_filter = _core.validate_topic_filter
validate_topic_name = _core.validate_topic_name

__all__ = [
    "Auth",
    "Connack",
    "Connect",
    "Decoder",
    "Disconnect",
    "Packet",
    "Pingreq",
    "Pingresp",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
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
