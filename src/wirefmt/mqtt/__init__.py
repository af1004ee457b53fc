"""MQTT 3.1, 3.1.1 and 5.0: bytes to packets and back, and topics.

>>> from wirefmt import mqtt
>>> octets = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5).encode()
>>> mqtt.decode(octets, version=5).topic_name
'a/b'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import on_first_use
from wirefmt.mqtt._codec import (
    Auth,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    TopicIndex,
    Unsuback,
    Unsubscribe,
    Will,
    decode,
    decode_batch,
    encode,
    encode_batch,
    frame_size,
    matches,
    parse_shared,
    validate_topic_filter,
    validate_topic_name,
)
from wirefmt.mqtt._codec import restore as restore  # pickles name it

if TYPE_CHECKING:
    from wirefmt.connection.aio import Backoff
    from wirefmt.mqtt.client import Authenticator, Client, connect
    from wirefmt.mqtt.connection import ClientConnection, ServerConnection
    from wirefmt.mqtt.events import ConnectionOptions, Dropped, Negotiated, Released, Request
    from wirefmt.mqtt.journal import Journal
    from wirefmt.mqtt.server import Handler, Peer, Server, serve
    from wirefmt.mqtt.session import Delivery, Session
    from wirefmt.mqtt.states import State

#: Modules of the connections. They are loaded when one of their names is first used; those of asyncio are the first four.
_MODULES = {
    "wirefmt.connection.aio": ("Backoff",),
    "wirefmt.mqtt.client": ("Authenticator", "Client", "connect"),
    "wirefmt.mqtt.journal": ("Journal",),
    "wirefmt.mqtt.server": ("Handler", "Peer", "Server", "serve"),
    "wirefmt.mqtt.connection": ("ClientConnection", "ServerConnection"),
    "wirefmt.mqtt.events": ("ConnectionOptions", "Dropped", "Negotiated", "Released", "Request"),
    "wirefmt.mqtt.session": ("Delivery", "Session"),
    "wirefmt.mqtt.states": ("State",),
}


__getattr__, __dir__ = on_first_use(__name__, _MODULES)

__all__ = [
    "Auth",
    "Authenticator",
    "Backoff",
    "Client",
    "ClientConnection",
    "Connack",
    "Connect",
    "ConnectionOptions",
    "Decoder",
    "Delivery",
    "Disconnect",
    "Dropped",
    "Handler",
    "Journal",
    "Negotiated",
    "Packet",
    "Peer",
    "Pingreq",
    "Pingresp",
    "Properties",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "Released",
    "Request",
    "Server",
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
    "connect",
    "decode",
    "decode_batch",
    "encode",
    "encode_batch",
    "frame_size",
    "matches",
    "parse_shared",
    "serve",
    "validate_topic_filter",
    "validate_topic_name",
]
