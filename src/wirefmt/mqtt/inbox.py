"""The messages that an MQTT client has from its server, from their arrival to their acknowledgement."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from wirefmt import mqtt
from wirefmt.connection import aio
from wirefmt.connection import client as connecting
from wirefmt.errors import LocalProtocolError
from wirefmt.mqtt.client_connection import ClientConnection
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.events import Pairs

if TYPE_CHECKING:
    from typing import Self

#: Reading goes on while calls wait for answers, up to so many times the limit of the inbox; QoS 0 is dropped above it.
STRETCH: Final = 10

Record = tuple[str, Sequence[Any]]


class Arrival:
    """A message of the server. `driver`: where its acknowledgement goes; None: it needs none, or its connection is over."""

    __slots__ = ("answer", "driver", "message", "record", "wire")

    def __init__(self, message: mqtt.Publish, driver: aio.Driver | None) -> None:
        self.message = message  # what the host has
        self.wire = message  # what the connection waits for: another object if it has arrived again
        self.driver = driver
        self.answer: tuple[int, Pairs] | None = None  # decided while there was no connection
        self.record: Record | None = None  # for the journal, with the acknowledgement


class Inbox:
    """Messages that wait for the host, and those that it has and has not acknowledged.

    Args:
        limit, limit_bytes: messages, and bytes of their payloads, above which it is full.
        automatic: True: a message is acknowledged when the host asks for the next one.
        note: writes a record into the journal.

    Attributes:
        dropped: QoS 0 messages that came while it was overfull.
        receivers: those who wait for a message.
    """

    def __init__(self, limit: int, limit_bytes: int, automatic: bool, note: Callable[[Record], None]) -> None:
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.dropped = 0
        self.receivers = connecting.Receivers()
        self._automatic = automatic
        self._note = note
        self._waiting: deque[Arrival] = deque()
        self._bytes = 0
        self._owed: dict[int, Arrival] = {}  # the host has them and has not acknowledged them; by id of the message
        self._in_hand: dict[int, Arrival] = {}  # what each iterator has returned; by id of the iterator
        self._left: list[Arrival] = []  # returned by iterators that are gone
        self._again: dict[int, Arrival] = {}  # owed on the connection before this one; by packet identifier
        self._held: list[Arrival] = []  # not taken by the host when the connection ended

    def __len__(self) -> int:
        """Messages that wait."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self.limit or self._bytes >= self.limit_bytes

    def arrive(self, message: mqtt.Publish, driver: aio.Driver) -> None:
        if message.qos:
            known = self._again.pop(message.packet_identifier or 0, None)
            if known is not None and _same(known.message, message):
                known.wire, known.driver = message, driver
                if known.answer is not None:
                    self.answer(known, *known.answer)
                return
        elif len(self._waiting) >= STRETCH * self.limit or self._bytes >= STRETCH * self.limit_bytes:
            self.dropped += 1
            return
        self._waiting.append(Arrival(message, driver if message.qos else None))
        self._bytes += len(message.payload)
        self.receivers.wake()

    # ---- the host

    def take(self, iterator: object) -> mqtt.Publish:
        """The oldest message, for an iterator of the host."""
        arrival = self._waiting.popleft()
        self._bytes -= len(arrival.message.payload)
        if arrival.message.qos:
            self._owed[id(arrival.message)] = arrival
        self._in_hand[id(iterator)] = arrival
        return arrival.message

    def leave(self, iterator: object) -> None:
        """An iterator is gone: what it had counts as done when another message is asked for, or the client is closed."""
        arrival = self._in_hand.pop(id(iterator), None)
        if arrival is not None:
            self._left.append(arrival)

    def settle(self, iterator: object) -> None:
        """An iterator asks for another message: what it had before is done."""
        self.leave(iterator)
        done, self._left = self._left, []
        if self._automatic:
            for arrival in done:
                if self._owed.pop(id(arrival.message), None) is not None:
                    self.answer(arrival, ReasonCode.SUCCESS, ())

    def settle_all(self, connected: bool) -> None:
        """The host closes the client in good order."""
        self._left += self._in_hand.values()
        if connected:
            self.settle(None)

    def acknowledge(self, message: mqtt.Publish, code: int, properties: Pairs, record: Record | None) -> bool:
        """As `Client.acknowledge`."""
        arrival = self._owed.pop(id(message), None)
        if arrival is None:
            raise LocalProtocolError("this message does not wait for an acknowledgement")
        arrival.record = record
        return self.answer(arrival, code, properties)

    def answer(self, arrival: Arrival, code: int, properties: Pairs) -> bool:
        """Acknowledge. Returns False if the connection is over; the answer is kept for the next one."""
        driver = arrival.driver
        connection = driver.connection if driver is not None else None
        if driver is None or not isinstance(connection, ClientConnection) or connection.state is mqtt.State.CLOSED:
            arrival.answer = (code, properties)
            return False
        self._write(arrival)
        driver.update(connection.acknowledge(arrival.wire, code, properties))
        return True

    def _write(self, arrival: Arrival) -> None:
        if arrival.record is not None:
            self._note(arrival.record)

    # ---- connections

    def begin(self, resumed: bool) -> None:
        """There is a connection again. Without the session that was, what was received and not taken does not come again."""
        held, self._held = self._held, []
        if not resumed:
            self._put_back(held)
            for arrival in held:
                arrival.driver = None
                self.receivers.wake()
            for arrival in self._again.values():
                if arrival.answer is not None:
                    self._write(arrival)
            self._again.clear()

    def end(self, driver: aio.Driver, comes_back: bool) -> None:
        """The connection is over."""
        self._again = {}
        for arrival in self._owed.values():
            if arrival.driver is driver:
                arrival.driver = None
                self._again[arrival.wire.packet_identifier or 0] = arrival
        if comes_back:
            self._held = [arrival for arrival in self._waiting if arrival.message.qos]
            self._waiting = deque(arrival for arrival in self._waiting if not arrival.message.qos)
            self._bytes = sum(len(arrival.message.payload) for arrival in self._waiting)
        else:
            for arrival in self._waiting:
                arrival.driver = None

    def finish(self) -> None:
        """There is no further connection."""
        self._put_back(self._held)
        self._held = []
        self.receivers.wake_all()

    def _put_back(self, held: list[Arrival]) -> None:
        self._waiting.extendleft(reversed(held))
        self._bytes += sum(len(arrival.message.payload) for arrival in held)


class Messages:
    """Messages of the server, in order: `async for message in client.messages()`.

    Each is acknowledged when the next one is asked for, so when the body of the loop is done with it. Several iterators share
    the messages: each message goes to one.

    Args:
        inbox: where they wait.
        following: waits for the next message for an iterator; None: the iterator has ended.
    """

    def __init__(self, inbox: Inbox, following: Callable[[Messages], Awaitable[mqtt.Publish | None]]) -> None:
        self._inbox = inbox
        self._following = following

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> mqtt.Publish:
        message = await self._following(self)
        if message is None:
            raise StopAsyncIteration
        return message

    def __del__(self) -> None:
        self._inbox.leave(self)  # a loop that was left


def _same(one: mqtt.Publish, other: mqtt.Publish) -> bool:
    """Is it the same message, come again?"""
    return one.qos == other.qos and one.topic_name == other.topic_name and one.payload_bytes() == other.payload_bytes()
