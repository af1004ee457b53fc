"""What the packets of MQTT need. The rules are called with the packet; a table of `authorise` has the same topics.

A retained message needs what every message needs. A session belongs to the user who began it: the broker sees to that, with or
without permissions. Messages need the right to subscribe to their topics again when they are delivered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from wirefmt import mqtt
from wirefmt.broker.permissions import Free, Need, Nobody, Requests
from wirefmt.errors import EncodeError

_OF_SERVERS: Final = Nobody("only servers send it")
_OF_A_MESSAGE: Final = Free("it is for a message that its sender was allowed to publish or to receive")


def _connect(packet: mqtt.Connect, known: Any) -> Iterable[Need]:
    return (Need("mqtt.publish", packet.will.topic),) if packet.will is not None else ()


def _publish(packet: mqtt.Publish, known: Any) -> Iterable[Need]:
    return (Need("mqtt.publish", packet.topic_name),)


def _subscribe(packet: mqtt.Subscribe, known: Any) -> Iterable[Need]:
    """A need for each filter. That of a shared subscription is without `$share` and the name of the share, in all versions."""
    for asked in packet.subscriptions:
        try:
            shared = mqtt.parse_shared(asked.topic_filter)
        except EncodeError:  # before 5.0 it is like any other filter; the broker refuses it
            shared = None
        yield Need("mqtt.subscribe", shared[1] if shared else asked.topic_filter)


#: By the class of the packet.
REQUESTS: Final[Requests] = {
    mqtt.Connect: _connect,
    mqtt.Connack: _OF_SERVERS,
    mqtt.Publish: _publish,
    mqtt.Puback: _OF_A_MESSAGE,
    mqtt.Pubrec: _OF_A_MESSAGE,
    mqtt.Pubrel: _OF_A_MESSAGE,
    mqtt.Pubcomp: _OF_A_MESSAGE,
    mqtt.Subscribe: _subscribe,
    mqtt.Suback: _OF_SERVERS,
    mqtt.Unsubscribe: Free("it ends the client's own subscriptions"),
    mqtt.Unsuback: _OF_SERVERS,
    mqtt.Pingreq: Free("it asks whether the server is there"),
    mqtt.Pingresp: _OF_SERVERS,
    mqtt.Disconnect: Free("it ends the client's own connection"),
    mqtt.Auth: Free("it says who the client is"),
}
