"""MQTT 3.1, 3.1.1 and 5.0: bytes to packets and back, and topics.

>>> from wirefmt import mqtt
>>> octets = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5).encode()
>>> mqtt.decode(octets, version=5).topic_name
'a/b'
"""

from wirefmt.mqtt import _codec

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
