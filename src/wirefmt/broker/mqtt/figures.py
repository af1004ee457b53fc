"""The figures of the MQTT broker below `$SYS`, with mosquitto's names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from wirefmt import __version__
from wirefmt.mqtt.server_connection import ServerConnection

#: Where they are.
FIGURES: Final = "$SYS/"

_VERSION: Final = f"wirefmt {__version__}"

#: What a connection counts, by mosquitto's name.
_COUNTED: Final = {
    "messages/received": "packets_in",
    "messages/sent": "packets_out",
    "bytes/received": "bytes_in",
    "publish/messages/received": "publishes_in",
    "publish/messages/sent": "publishes_out",
    "publish/bytes/received": "payload_in",
    "publish/bytes/sent": "payload_out",
}


class Traffic:
    """What all connections of a broker have received and sent. Bytes are those of MQTT, without what TLS and WebSocket add."""

    def __init__(self) -> None:
        self._ended = dict.fromkeys((*_COUNTED, "bytes/sent"), 0)

    def end(self, connection: ServerConnection) -> None:
        """A connection is over."""
        _add(self._ended, connection)

    def now(self, connections: Iterable[ServerConnection]) -> dict[str, int]:
        """With those that are open."""
        found = dict(self._ended)
        for connection in connections:
            _add(found, connection)
        return found


def _add(counts: dict[str, int], connection: ServerConnection) -> None:
    for name, attribute in _COUNTED.items():
        counts[name] += getattr(connection, attribute)
    counts["bytes/sent"] += connection.sent_bytes


class Figures:
    """Publishes figures while somebody subscribes to them: at once, and those that have changed every `interval` seconds.

    Args:
        interval: seconds; 0: never.
        values: returns names below `$SYS/broker/` and their values.
        say: publishes and retains a payload.
        unsay: removes what is retained.
    """

    def __init__(
        self,
        interval: float,
        values: Callable[[], Mapping[str, int]],
        say: Callable[[str, bytes], object],
        unsay: Callable[[str], object],
    ) -> None:
        self._interval = interval
        self._values, self._say, self._unsay = values, say, unsay
        self._started = time.monotonic()
        self._watchers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._said: dict[str, bytes] = {}

    def watch(self) -> None:
        """Somebody subscribes."""
        self._watchers += 1
        if self._interval and self._timer is None:
            self._publish()

    def unwatch(self) -> None:
        """A subscription has ended. After the last one nothing is retained."""
        self._watchers -= 1
        if self._watchers or self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        for topic in self._said:
            self._unsay(topic)
        self._said.clear()

    def _publish(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._publish)
        uptime = f"{int(time.monotonic() - self._started)} seconds"
        for name, value in {"version": _VERSION, "uptime": uptime, **self._values()}.items():
            topic, payload = f"{FIGURES}broker/{name}", str(value).encode()
            if self._said.get(topic) != payload:
                self._said[topic] = payload
                self._say(topic, payload)
