"""MQTT 3.1, 3.1.1 and 5.0: bytes to packets and back, and topics.

>>> from wirefmt import mqtt
>>> octets = mqtt.Publish(topic_name="a/b", payload=b"21.5", version=5).encode()
>>> mqtt.decode(octets, version=5).topic_name
'a/b'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirefmt.loading import lazy
from wirefmt.mqtt._codec import (
    Auth as Auth,
    Connack as Connack,
    Connect as Connect,
    Decoder as Decoder,
    Disconnect as Disconnect,
    Packet as Packet,
    Pingreq as Pingreq,
    Pingresp as Pingresp,
    Properties as Properties,
    Puback as Puback,
    Pubcomp as Pubcomp,
    Publish as Publish,
    Pubrec as Pubrec,
    Pubrel as Pubrel,
    Suback as Suback,
    Subscribe as Subscribe,
    Subscription as Subscription,
    TopicIndex as TopicIndex,
    Unsuback as Unsuback,
    Unsubscribe as Unsubscribe,
    Will as Will,
    decode as decode,
    decode_batch as decode_batch,
    encode as encode,
    encode_batch as encode_batch,
    frame_size as frame_size,
    matches as matches,
    parse_shared as parse_shared,
    restore as restore,
    validate_topic_filter as validate_topic_filter,
    validate_topic_name as validate_topic_name,
)

if TYPE_CHECKING:
    from wirefmt.connection.aio import Backoff as Backoff
    from wirefmt.mqtt.client import Authenticator as Authenticator, Client as Client, connect as connect
    from wirefmt.mqtt.client_connection import ClientConnection as ClientConnection
    from wirefmt.mqtt.codes import ReasonCode as ReasonCode, ReturnCode as ReturnCode
    from wirefmt.mqtt.events import (
        ClientEvent as ClientEvent,
        ServerEvent as ServerEvent,
        ConnectionOptions as ConnectionOptions,
        Dropped as Dropped,
        Negotiated as Negotiated,
        Released as Released,
        Request as Request,
    )
    from wirefmt.mqtt.journal import Journal as Journal
    from wirefmt.mqtt.server import Handler as Handler, Peer as Peer, Server as Server, serve as serve
    from wirefmt.mqtt.server_connection import ServerConnection as ServerConnection
    from wirefmt.mqtt.session import Delivery as Delivery, Session as Session
    from wirefmt.mqtt.states import State as State

#: Modules of the connections. They are loaded when one of their names is first used; those of asyncio are the first four.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "wirefmt.connection.aio": "Backoff",
        "wirefmt.mqtt.client": "Authenticator Client connect",
        "wirefmt.mqtt.journal": "Journal",
        "wirefmt.mqtt.server": "Handler Peer Server serve",
        "wirefmt.mqtt.client_connection": "ClientConnection",
        "wirefmt.mqtt.server_connection": "ServerConnection",
        "wirefmt.mqtt.events": "ClientEvent ConnectionOptions Dropped Negotiated Released Request ServerEvent",
        "wirefmt.mqtt.session": "Delivery Session",
        "wirefmt.mqtt.states": "State",
        "wirefmt.mqtt.codes": "ReasonCode ReturnCode",
    },
)
