"""Who may do what: `BrokerOptions.authorise` and `BrokerOptions.permissions`."""

from __future__ import annotations

from typing import Any, Final

from wirefmt import mqtt
from wirefmt.broker.mqtt.options import BrokerOptions
from wirefmt.broker.requests.mqtt import REQUESTS
from wirefmt.mqtt.codes import ReasonCode

#: What `BrokerOptions.authorise` is asked for, by the packet.
_DEEDS: Final[dict[type[Any], str]] = {mqtt.Connect: "will", mqtt.Publish: "publish", mqtt.Subscribe: "subscribe"}


class Rights:
    """What the clients of a broker may do."""

    def __init__(self, options: BrokerOptions) -> None:
        self.options = options

    def ask(self, user: str, client: str, packet: mqtt.Connect | mqtt.Publish | mqtt.Subscribe) -> list[int]:
        """The code to refuse with for each topic and filter that a packet names; 0: it is allowed."""
        kind = type(packet)
        deed = _DEEDS[kind]
        return [self.authorise(user, client, deed, action, name) for action, name, _ in REQUESTS[kind](packet, None)]

    def authorise(self, user: str, client: str, deed: str, action: str, topic: str) -> int:
        """The same for one topic or filter."""
        code = self.options.authorise(client, deed, topic)
        if not code and self.options.permissions is not None:
            code = 0 if self.options.permissions.may(user, action, topic) else ReasonCode.NOT_AUTHORIZED
        return code

    def gets(self, user: str, topic: str) -> bool:
        """May the user have messages of this topic, which a filter of it matches?"""
        permissions = self.options.permissions
        return permissions is None or permissions.may(user, "mqtt.subscribe", topic)
