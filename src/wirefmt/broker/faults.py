"""Faults on purpose: what goes wrong between clients and a broker, so that a test sees what a client does then.

`FAULTS` is the table of all of them. docs/broker-faults.md describes their effect for each protocol.

A fault acts at one of two places. `FaultyConnection` stands between a connection and its driver, where the protocol's bytes
pass: it cuts, delays, holds, drops and changes them. `FaultyHandler` stands between the server and the broker, where the
messages pass: it refuses them and repeats them.
"""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.amqp10._codec import Incoming
from wirefmt.amqp10.events import Login
from wirefmt.broker import amqp10 as amqp10_broker
from wirefmt.broker import mqtt as mqtt_broker
from wirefmt.broker.routing import Published
from wirefmt.connection.contract import Disconnected
from wirefmt.convert import Container
from wirefmt.errors import ConversionError, DecodeError, LocalProtocolError, suggest

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from wirefmt.connection.aio import Driver

#: Seconds that `reorder` waits for other clients.
REORDER_WAIT: Final = 0.5

#: Bytes of an incomplete frame that are held back at most; a longer one passes uncounted.
HELD_BYTES: Final = 1 << 20


class Kind(NamedTuple):
    name: str  # keyword of `fault`
    value: str
    effect: str
    where: str


#: Every fault. All but `refuse`, `duplicate` and `full` count for each connection apart, from the moment the fault begins.
FAULTS: Final[tuple[Kind, ...]] = (
    Kind("cut_after", "messages", "The connection is dropped once so many messages have passed, both ways together.", "bytes"),
    Kind("cut_after_bytes", "bytes", "The connection is dropped once so many bytes have passed, both ways together.", "bytes"),
    Kind("delay", "seconds", "What the broker says is written so much later.", "bytes"),
    Kind("stall_after", "messages", "Once so many messages have passed, nothing is read or written. 0: at once.", "bytes"),
    Kind("refuse", "true", "New clients are refused as the protocol says it, or dropped if it cannot.", "messages"),
    Kind("lose_acknowledgements", "number", "The broker's next acknowledgements do not reach the client.", "bytes"),
    Kind("duplicate", "number", "Every so many messages that clients publish, one is taken twice. 1: each.", "messages"),
    Kind("reorder", "clients", "So many clients are held until all of them have spoken, then heard in another order.", "bytes"),
    Kind("corrupt", "bytes", "About one byte in so many that the broker says has a wrong bit.", "bytes"),
    Kind("full", '"memory" or "disk"', "Messages are refused as the protocol says that there is no room.", "messages"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Faults that begin and end together; FAULTS says what each does. None: not that one.

    Attributes:
        protocol: "mqtt", "amqp" (0.9.1), "amqp10", "nsq", "rocketmq" or "phpmq"; "*": all.

    Raises ValueError or TypeError for an invalid value.
    """

    protocol: str = "*"
    cut_after: int | None = None
    cut_after_bytes: int | None = None
    delay: float | None = None
    stall_after: int | None = None
    refuse: bool | None = None
    lose_acknowledgements: int | None = None
    duplicate: int | None = None
    reorder: int | None = None
    corrupt: int | None = None
    full: str | None = None

    def __post_init__(self) -> None:
        if self.protocol != "*" and self.protocol not in PROTOCOLS:
            raise ValueError(f"no protocol {self.protocol!r}; {suggest(self.protocol, list(PROTOCOLS))}")
        least = {"duplicate": 1, "reorder": 2, "corrupt": 1, "lose_acknowledgements": 1}
        given = 0
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            given += value is not None
            if field.name == "full":
                if value not in (None, "memory", "disk"):
                    raise ValueError(f'full is "memory" or "disk", not {value!r}')
            elif field.name == "refuse":
                if value not in (None, True):
                    raise ValueError(f"refuse is true, not {value!r}")
            elif value is not None:
                if isinstance(value, bool) or not isinstance(value, int | float if field.name == "delay" else int):
                    raise TypeError(f"{field.name} is a number, not {value!r}")
                if value < least.get(field.name, 0):
                    raise ValueError(f"{field.name} is at least {least.get(field.name, 0)}, not {value}")
        if not given:
            raise ValueError(f"no fault; there are {', '.join(kind.name for kind in FAULTS)}")

    @classmethod
    def parse(cls, text: str) -> Fault:
        """From the form of the command line: `mqtt:cut_after=10,delay=0.2`. Raises ValueError."""
        protocol, colon, rest = text.partition(":")
        if not colon:
            protocol, rest = "*", text
        values: dict[str, Any] = {}
        for item in rest.split(","):
            name, _, value = item.partition("=")
            try:
                values[name.strip()] = tomllib.loads(f"v = {value or 'true'}")["v"]
            except tomllib.TOMLDecodeError:
                values[name.strip()] = value
        return cls.of({"protocol": protocol, **values})

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Fault:
        """From names and values. Raises ValueError, which says what is wrong."""
        known = [kind.name for kind in FAULTS]
        for name in values:
            if name != "protocol" and name not in known:
                raise ValueError(f"no fault {name!r}; {suggest(name, known)}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from None


class Active:
    """A fault in force.

    Attributes:
        fault: which.
        taken: messages that clients have published since it began.
        happened: how often it has done something.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.taken = 0
        self.happened = 0
        self.waiting: list[FaultyConnection] = []  # of `reorder`, in the order in which they spoke
        self.kept: list[tuple[FaultyHandler, Any, Any]] = []  # of `full`: messages and their peers, until there is room
        self.timer: asyncio.TimerHandle | None = None


# ---- what differs between the protocols


class Manners(NamedTuple):
    """What faults need to know of a protocol.

    Attributes:
        size: of the frame that begins the bytes of a side; NEED_DATA: they are too few.
        decoder: of what the server says, for a connection.
        opening: events that ask to be let in. Empty: the first event does.
        publications: events that are messages for the broker.
        is_delivery: is what the server says a message for the client?
        is_acknowledgement: does it acknowledge a message? It is called with the connection.
        refuse: a client is not let in.
        full: there is no room for a message.
        again: take a message once more. It is called with the broker, the peer and the event.
    """

    size: Callable[[memoryview, Literal["client", "server"]], Any]
    decoder: Callable[[Any], Any]
    opening: tuple[type[Any], ...]
    publications: tuple[type[Any], ...]
    is_delivery: Callable[[Any, FaultyConnection], bool]
    is_acknowledgement: Callable[[Any, FaultyConnection], bool]
    refuse: Callable[[Any, Any], None]
    full: Callable[[Any, Any, str], None]
    again: Callable[[Any, Any, Any], None]


def _drop(peer: Any, *_: Any) -> None:
    peer.abort()


# MQTT

_ANSWERS: Final = (mqtt.Puback, mqtt.Pubrec, mqtt.Pubcomp)


def _mqtt_refuse(peer: Any, event: Any) -> None:
    peer.refuse(event, 0x88 if event.version == 5 else 3)  # server unavailable


def _mqtt_full(peer: Any, event: Any, why: str) -> None:
    """0x97: quota exceeded. Before 5.0 nothing can be said: the client is disconnected. QoS 0: the message is dropped."""
    if event.qos and event.version != 5:
        peer.abort()
    elif event.qos:
        peer.acknowledge(event, 0x97)


def _mqtt_again(broker: mqtt_broker.Broker, peer: Any, event: mqtt.Publish) -> None:
    broker.publish(
        mqtt_broker.Message(event.topic_name, event.payload_bytes(), event.qos, event.retain, event.properties)
    )


# AMQP 0.9.1


def _amqp091_refuse(peer: Any, event: Any) -> None:
    peer.refuse(event, 320, "CONNECTION_FORCED - the broker takes no clients")


def _amqp091_again(broker: Any, peer: Any, event: amqp091.BasicMessage) -> None:
    if not event.method.mandatory:  # it could be returned twice
        broker.handle(peer, event)  # it is confirmed only once


def _amqp091_full(peer: Any, event: Any, why: str) -> None:
    raise NotImplementedError  # the client is blocked instead


# AMQP 1.0


def _amqp10_refuse(peer: Any, event: Any) -> None:
    if isinstance(event, Login):
        peer.refuse(event, 4)  # sasl-outcome sys-temp: a transient fault of the system
    else:
        peer.refuse(event, amqp10.Error(condition="amqp:connection:forced", description="the broker takes no clients"))


def _amqp10_full(peer: Any, event: Incoming, why: str) -> None:
    if not event.settled:
        peer.reject(
            event, amqp10.Error(condition="amqp:resource-limit-exceeded", description=f"the broker is out of {why}")
        )


def _amqp10_again(broker: amqp10_broker.Broker, peer: Any, event: Incoming) -> None:
    address = broker._clients[peer].targets.get(event.link)
    if address is None:
        return  # a message to the anonymous terminus is not repeated
    router = broker.router
    try:
        published = Published.of(
            Container(
                bytes(event.payload),
                source="amqp10",
                exchange=address.exchange,
                routing_key=address.routing_key,
                dialect=router.limits.dialect,
            )
        )
    except (ConversionError, DecodeError):
        return  # it was rejected
    destinations = router.route(router.exchange(address.exchange), published)
    if not router.refuses(destinations, published):
        router.put(destinations, published)


# NSQ

_NSQ_ANSWERED: Final = (nsq.Identify, nsq.Auth, nsq.Sub, nsq.Publish, nsq.MultiPublish, nsq.DeferredPublish)
_NSQ_PUBLICATIONS: Final = (nsq.Publish, nsq.MultiPublish, nsq.DeferredPublish)


def _nsq_is_acknowledgement(message: Any, connection: FaultyConnection) -> bool:
    if not isinstance(message, nsq.Response) or bytes(message.data) == b"_heartbeat_" or not connection.asked:
        return False
    return connection.asked.popleft() in _NSQ_PUBLICATIONS


def _nsq_full(peer: Any, event: Any, why: str) -> None:
    peer.refuse(event, f"E_{event.name}_FAILED", f"{event.name} failed: the broker is out of {why}")


def _nsq_again(broker: Any, peer: Any, event: Any) -> None:
    bodies = event.bodies if isinstance(event, nsq.MultiPublish) else (event.body_bytes(),)
    defer = (event.defer_time or 0) if isinstance(event, nsq.DeferredPublish) else 0
    broker.publish(event.topic, *bodies, defer=defer)


# RocketMQ

#: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE; PULL_MESSAGE, LITE_PULL_MESSAGE, POP_MESSAGE
_SENDS: Final = frozenset((10, 310, 320))
_PULLS: Final = frozenset((11, 361, 200050))
_SYSTEM_BUSY: Final = 2


def _rocketmq_answers(message: Any, connection: FaultyConnection, codes: frozenset[int]) -> bool:
    return message.is_response and connection.requests.get(message.opaque) in codes


def _rocketmq_full(peer: Any, event: Any, why: str) -> None:
    if not event.is_oneway:
        peer.respond(event, _SYSTEM_BUSY, remark=f"system busy: the broker is out of {why}")


#: By the names of `wirefmt.broker`.
PROTOCOLS: Final[dict[str, Manners]] = {
    "mqtt": Manners(
        size=lambda data, side: mqtt.frame_size(data),
        decoder=lambda connection: mqtt.Decoder(version=connection.version or 5, side="server"),
        opening=(mqtt.Connect,),
        publications=(mqtt.Publish,),
        is_delivery=lambda message, _: isinstance(message, mqtt.Publish),
        is_acknowledgement=lambda message, _: isinstance(message, _ANSWERS),
        refuse=_mqtt_refuse,
        full=_mqtt_full,
        again=_mqtt_again,
    ),
    "amqp": Manners(
        size=lambda data, side: amqp091.frame_size(data, frame_max=0),
        decoder=lambda connection: amqp091.Assembler(side="server", frame_max=0),
        opening=(amqp091.ConnectionOpen,),
        publications=(amqp091.BasicMessage,),
        is_delivery=lambda message, _: isinstance(message, amqp091.BasicMessage),
        is_acknowledgement=lambda message, _: isinstance(message, amqp091.BasicAck | amqp091.BasicNack),
        refuse=_amqp091_refuse,
        full=_amqp091_full,
        again=_amqp091_again,
    ),
    "amqp10": Manners(
        size=lambda data, side: amqp10.frame_size(data),
        decoder=lambda connection: amqp10.Assembler(),
        opening=(Login, amqp10.Open),
        publications=(Incoming,),
        is_delivery=lambda message, _: isinstance(message, amqp10.Delivery),
        is_acknowledgement=lambda message, _: isinstance(message, amqp10.Disposition) and bool(message.role),
        refuse=_amqp10_refuse,
        full=_amqp10_full,
        again=_amqp10_again,
    ),
    "nsq": Manners(
        size=lambda data, side: nsq.frame_size(data, side=side),
        decoder=lambda connection: nsq.Decoder(side="server"),
        opening=(),
        publications=_NSQ_PUBLICATIONS,
        is_delivery=lambda message, _: isinstance(message, nsq.MessageFrame),
        is_acknowledgement=_nsq_is_acknowledgement,
        refuse=_drop,
        full=_nsq_full,
        again=_nsq_again,
    ),
    "rocketmq": Manners(
        size=lambda data, side: rocketmq.frame_size(data),
        decoder=lambda connection: rocketmq.Decoder(),
        opening=(),
        publications=(rocketmq.RemotingCommand,),
        is_delivery=lambda message, connection: (
            bool(message.body_bytes()) and _rocketmq_answers(message, connection, _PULLS)
        ),
        is_acknowledgement=lambda message, connection: _rocketmq_answers(message, connection, _SENDS),
        refuse=_drop,
        full=_rocketmq_full,
        again=lambda broker, peer, event: broker._send(peer, event),
    ),
    "phpmq": Manners(
        size=lambda data, side: phpmq.frame_size(data),
        decoder=lambda connection: phpmq.Decoder(side="server"),
        opening=(),
        publications=(phpmq.MessageClientToServer,),
        is_delivery=lambda message, _: isinstance(message, phpmq.MessageServerToClient),
        is_acknowledgement=lambda message, _: False,  # the server has none
        refuse=_drop,
        full=_drop,
        again=lambda broker, peer, event: broker.publish(
            event.queue_name or "", event.content_bytes() or b"", event.ttl or 0
        ),
    ),
}


def _is_publication(name: str, event: Any) -> bool:
    return isinstance(event, PROTOCOLS[name].publications) and (name != "rocketmq" or event.code in _SENDS)


# ---- between the driver and the connection


class FaultyConnection:
    """A connection with faults, in the place of `Driver.connection`. Without a fault in force it passes everything on.

    Args:
        connection: the real one.
        name: of the protocol.
    """

    def __init__(self, connection: Any, name: str, driver: Driver, faults: Faults) -> None:
        self.connection = connection
        self.driver = driver
        self.asked: deque[type[Any]] = deque()  # NSQ: commands that have an answer
        self.requests: dict[int | None, int | None] = {}  # RocketMQ: codes by opaque
        self._name = name
        self._manners = PROTOCOLS[name]
        self._faults = faults
        self._active = faults.active[name]
        self._passed: dict[Active, list[int]] = {}  # messages, bytes and lost acknowledgements since the fault began
        self._frame = b""  # the beginning of a frame of the client
        self._split = False  # the connection has had whole frames since messages are counted
        self._kept = b""  # what the client has said while it is not heard
        self._late: deque[tuple[float, bytes]] = deque()  # what the broker has said, and when it is written
        self._decoder: Any = None
        self._decoding = True
        self._stalled = False
        self._cut = False
        self._next_wrong = 0
        #: It came while clients were refused, and its protocol has no word for that.
        self.refused = not self._manners.opening and any(active.fault.refuse for active in self._active)
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    # ---- in

    def receive(self, data: Buffer, now: float) -> list[Any]:
        if not self._active and not self._frame:
            return self.connection.receive(data, now)  # type: ignore[no-any-return]
        self._kept += bytes(data)
        self._count(0, 0)
        if self.refused:
            self._drop()
        for active in self._active:
            if active.fault.reorder:
                self._faults.hold(active, self)
                return []
        return self.hear(now)

    def receive_eof(self, now: float) -> list[Any]:
        events = self.hear(now, last=True)
        if not any(type(event) is Disconnected for event in events):
            events += self.connection.receive_eof(now)
        return events

    def hear(self, now: float, *, last: bool = False) -> list[Any]:
        """Give the connection what was kept, as far as the faults let it pass."""
        kept, self._kept = self._kept, b""
        events: list[Any] = []
        pieces = self._pieces(kept, last)
        while pieces and not self._stalled and not self._cut:
            piece = pieces.popleft()[: self._room()]
            found = self.connection.receive(piece, now)
            self._note(found)
            events += found
            self._count(sum(_is_publication(self._name, event) for event in found), len(piece))
            if any(type(event) is Disconnected for event in found):
                return events
        self._kept = b"".join(pieces) if self._stalled else b""
        return events

    @property
    def wants_read(self) -> bool:
        return self.connection.wants_read and not self._stalled and not self._kept

    def _pieces(self, data: bytes, last: bool) -> deque[bytes]:
        """Frames, if messages are counted. The beginning of a frame waits for the rest."""
        data, self._frame = self._frame + data, b""
        if not self._counts_messages() or last or (not self._split and self.connection._decoder.pending):
            return deque([data] if data else [])
        self._split = True
        pieces, rest, fault = self._frames_in(data, "client")
        if fault or len(rest) > HELD_BYTES:
            self._split = False
            pieces.append(rest)
        else:
            self._frame = rest
        return pieces

    def _frames_in(self, data: bytes, side: Literal["client", "server"]) -> tuple[deque[bytes], bytes, bool]:
        """Whole frames, the rest, and whether the rest is no frame."""
        frames: deque[bytes] = deque()
        view, at = memoryview(data), 0
        try:
            while at < len(data) and isinstance(size := self._manners.size(view[at:], side), int):
                frames.append(data[at : at + size])
                at += size
        except DecodeError:
            return frames, data[at:], True
        return frames, data[at:], False

    def _note(self, events: list[Any]) -> None:
        """What will be answered."""
        for event in events:
            if isinstance(event, _NSQ_ANSWERED):
                self.asked.append(type(event))
            elif isinstance(event, rocketmq.RemotingCommand) and not event.is_response and not event.is_oneway:
                self.requests[event.opaque] = event.code

    # ---- out

    def data_to_send(self) -> bytes:
        return b"".join(self.buffers_to_send())

    def buffers_to_send(self) -> Sequence[Buffer]:
        if not self._active and not self._late:
            return self.connection.buffers_to_send()  # type: ignore[no-any-return]
        self._count(0, 0)
        now = self._loop.time()
        if not self._stalled and not self._cut and (data := self.connection.data_to_send()):
            data = self._changed(data)
            due = now + sum(active.fault.delay or 0 for active in self._active)
            if self._late:
                due = max(due, self._late[-1][0])
            self._late.append((due, data))
            if due > now:
                self._loop.call_at(due, self.driver.queued)
        out = []
        while self._late and self._late[0][0] <= now:
            out.append(self._late.popleft()[1])
        return out

    @property
    def pending_bytes(self) -> int:
        return self.connection.pending_bytes + sum(len(data) for _, data in self._late)  # type: ignore[no-any-return]

    @property
    def should_close(self) -> bool:
        return self.connection.should_close and not self._late

    def _changed(self, data: bytes) -> bytes:
        """What the client gets of what the broker says."""
        out = bytearray()
        for frame in self._frames(data):
            if self._stalled or self._cut:
                break
            messages = self._messages(frame)
            lost = [self._is_lost(message) for message in messages]
            if any(lost):
                continue
            frame = frame[: self._room()]
            out += frame
            deliveries = sum(self._manners.is_delivery(message, self) for message in messages)
            self._count(deliveries, len(frame))
            for message in messages:
                if isinstance(message, rocketmq.RemotingCommand):
                    self.requests.pop(message.opaque, None)
        for active in self._active:
            if active.fault.corrupt:
                self._corrupt(active, out)
        return bytes(out)

    def _frames(self, data: bytes) -> Iterable[bytes]:
        """The server's frames, if messages are looked at. It always queues whole ones."""
        if not self._decoding or not self._counts_messages():
            return [data]
        frames, rest, fault = self._frames_in(data, "server")
        if fault:  # compressed, or what this codec does not know
            self._decoding = False
        return [*frames, rest] if rest else frames

    def _messages(self, frame: bytes) -> list[Any]:
        if not self._decoding or not self._counts_messages():
            return []
        if self._decoder is None:
            self._decoder = self._manners.decoder(self.connection)
        try:
            return self._decoder.feed(frame)  # type: ignore[no-any-return]
        except DecodeError:  # the rest of a message that began before the fault
            self._decoder = None
            return []

    def _is_lost(self, message: Any) -> bool:
        if not self._manners.is_acknowledgement(message, self):
            return False
        for active in self._active:
            passed = self._passed.setdefault(active, [0, 0, 0])
            if passed[2] < (active.fault.lose_acknowledgements or 0):
                passed[2] += 1
                active.happened += 1
                return True
        return False

    def _corrupt(self, active: Active, data: bytearray) -> None:
        random, about = self._faults.random, active.fault.corrupt or 1
        self._next_wrong = self._next_wrong or random.randrange(2 * about)
        while self._next_wrong < len(data):
            data[self._next_wrong] ^= 1 << random.randrange(8)
            active.happened += 1
            self._next_wrong += 1 + random.randrange(2 * about)
        self._next_wrong -= len(data)

    # ---- both ways

    def _counts_messages(self) -> bool:
        return any(
            fault.cut_after is not None or fault.stall_after is not None or fault.lose_acknowledgements
            for fault in (active.fault for active in self._active)
        )

    def _room(self) -> int:
        """Bytes that may pass before the connection is dropped."""
        return min(
            (
                max(active.fault.cut_after_bytes - self._passed.get(active, (0, 0))[1], 0)
                for active in self._active
                if active.fault.cut_after_bytes is not None
            ),
            default=sys.maxsize,
        )

    def _count(self, messages: int, octets: int) -> None:
        """So much has passed."""
        for active in self._active:
            fault, passed = active.fault, self._passed.setdefault(active, [0, 0, 0])
            passed[0] += messages
            passed[1] += octets
            if (fault.cut_after is not None and passed[0] >= fault.cut_after) or (
                fault.cut_after_bytes is not None and passed[1] >= fault.cut_after_bytes
            ):
                active.happened += not self._cut
                self._drop()
            if fault.stall_after is not None and passed[0] >= fault.stall_after and not self._stalled:
                active.happened += 1
                self._stalled = True

    def _drop(self) -> None:
        if not self._cut:
            self._cut = True
            self._loop.call_soon(self._close)

    def _close(self) -> None:
        """Without a word; what has passed still arrives."""
        if self.driver.transport is not None:
            self.driver.transport.close()

    def begin(self) -> None:
        """A fault has begun."""
        self._count(0, 0)
        if not self._cut:
            self.driver.update()

    def end(self, active: Active) -> None:
        """A fault is over. What it has held goes on."""
        self._passed.pop(active, None)
        self._stalled = any(
            other.fault.stall_after is not None and self._passed.get(other, [0])[0] >= other.fault.stall_after
            for other in self._active
        )
        if not self._counts_messages():
            self._decoder, self._decoding, self._split = None, True, False
            self.asked.clear()
            self.requests.clear()
        try:
            events = self.hear(self._loop.time()) if self._kept or self._frame else []
            self.driver.update(events)
        except LocalProtocolError:
            pass  # it ended meanwhile


# ---- between the server and the broker


class FaultyHandler:
    """The handler of a server, with faults: it decides which events the broker sees.

    Args:
        handler: the broker.
        name: of the protocol.
        published: counts the messages that clients publish, by protocol.
    """

    def __init__(self, handler: Any, name: str, faults: Faults, published: dict[str, int]) -> None:
        self.handler = handler
        self._name = name
        self._manners = PROTOCOLS[name]
        self._active = faults.active[name]
        self._published = published

    def handle(self, peer: Any, event: Any) -> None:
        if _is_publication(self._name, event):
            self._published[self._name] += 1
        if not self._active or isinstance(event, Disconnected):
            self.handler.handle(peer, event)
            return
        publication = _is_publication(self._name, event)
        for active in self._active:
            if active.fault.refuse and isinstance(event, self._manners.opening):
                active.happened += 1
                self._manners.refuse(peer, event)
                return
            if active.fault.full and publication:
                active.happened += 1
                self._full(active, peer, event)
                return
        self.handler.handle(peer, event)
        for active in self._active:
            if active.fault.duplicate and publication:
                active.taken += 1
                if active.taken % active.fault.duplicate == 0:
                    active.happened += 1
                    self._manners.again(self.handler, peer, event)
            if active.fault.full and isinstance(event, amqp091.ConnectionOpen):
                block(peer.driver, active)

    def _full(self, active: Active, peer: Any, event: Any) -> None:
        if self._name != "amqp":
            self._manners.full(peer, event, active.fault.full or "")
            return
        active.kept.append((self, peer, event))  # it is not heard until there is room, as RabbitMQ does
        peer.driver.pause()

    def writable(self, peer: Any) -> None:
        self.handler.writable(peer)

    def closed(self, peer: Any) -> None:
        self.handler.closed(peer)


def block(driver: Driver, active: Active) -> None:
    """AMQP 0.9.1 (RabbitMQ): tell a client that it should not publish."""
    connection: Any = driver.connection
    try:
        if connection.block(f"low on {active.fault.full}"):
            driver.update()
    except LocalProtocolError:
        pass  # it is not open, or over


def unblock(driver: Driver) -> None:
    connection: Any = driver.connection
    try:
        connection.unblock()
        driver.update()
    except LocalProtocolError:
        pass


# ---- all of a broker


class Faults:
    """The faults of a broker, by the protocols' names.

    Attributes:
        active: faults in force.
        seed: what all randomness comes from. It is printed to standard error when it is first needed, if it was not given.
        random: made from it.

    Args:
        drivers: of a protocol, by its name.
        seed: None: any.
    """

    def __init__(self, drivers: Callable[[str], Iterable[Driver]], seed: int | None = None) -> None:
        self.active: dict[str, list[Active]] = {name: [] for name in PROTOCOLS}
        self._drivers = drivers
        self._told = seed is not None
        self.sow(SystemRandom().randrange(1 << 32) if seed is None else seed)

    def sow(self, seed: int) -> None:
        """Begin again with this seed."""
        self.seed = seed
        self.random = Random(seed)

    def accept(self, name: str, driver: Driver) -> None:
        """A new driver."""
        if self.active[name]:
            self._connection(name, driver)

    def _connection(self, name: str, driver: Driver) -> FaultyConnection:
        """It is put between driver and connection when a fault needs it, and stays."""
        connection: Any = driver.connection
        if isinstance(connection, FaultyConnection):
            return connection
        driver.connection = made = FaultyConnection(connection, name, driver, self)
        return made

    def start(self, fault: Fault) -> Active:
        """Let a fault begin."""
        if (fault.reorder or fault.corrupt) and not self._told:
            self._told = True
            print(f"wirefmt: the seed of faults is {self.seed}", file=sys.stderr)
        active = Active(fault)
        for name in self._names(fault):
            self.active[name].append(active)
            for connection in self._of(name):
                if fault.full and name == "amqp":
                    block(connection.driver, active)
                connection.begin()
        return active

    def stop(self, active: Active) -> None:
        """Let a fault end. What it held back goes on; a connection that it dropped stays dropped."""
        if active.timer is not None:
            active.timer.cancel()
        for name in self._names(active.fault):
            if active not in self.active[name]:
                continue
            self.active[name].remove(active)
            for connection in self._of(name):
                if active.fault.full and name == "amqp":
                    unblock(connection.driver)
                connection.end(active)
        for handler, peer, event in active.kept:
            try:
                handler.handle(peer, event)
                peer.driver.resume()
            except LocalProtocolError:
                pass  # it is gone
        active.kept.clear()

    @contextmanager
    def fault(self, protocol: str = "*", **values: Any) -> Iterator[Active]:
        """Faults for as long as the block runs. Raises ValueError."""
        active = self.start(Fault.of({"protocol": protocol, **values}))
        try:
            yield active
        finally:
            self.stop(active)

    def hold(self, active: Active, connection: FaultyConnection) -> None:
        """`reorder`: let a client wait until enough others have spoken."""
        if connection not in active.waiting:
            active.waiting.append(connection)
        if len(active.waiting) >= (active.fault.reorder or 0):
            self._hear(active)
        elif active.timer is None:
            active.timer = asyncio.get_running_loop().call_later(REORDER_WAIT, self._hear, active)

    def _hear(self, active: Active) -> None:
        if active.timer is not None:
            active.timer.cancel()
            active.timer = None
        spoken, active.waiting = active.waiting, []
        order = list(spoken)
        while len(order) > 1 and order == spoken:
            self.random.shuffle(order)
        active.happened += len(order) > 1
        now = asyncio.get_running_loop().time()
        for connection in order:
            try:
                connection.driver.update(connection.hear(now))
            except LocalProtocolError:
                pass  # it ended meanwhile

    def _names(self, fault: Fault) -> tuple[str, ...]:
        return tuple(PROTOCOLS) if fault.protocol == "*" else (fault.protocol,)

    def _of(self, name: str) -> list[FaultyConnection]:
        return [self._connection(name, driver) for driver in list(self._drivers(name))]


# ---- scripts


class Step(NamedTuple):
    """One entry of a script.

    Attributes:
        after: seconds since the script began.
        seconds: how long the fault lasts; None: to the end.
        fault: which; None: none.
        restart: "with state" or "without state"; None: no restart.
    """

    after: float
    seconds: float | None
    fault: Fault | None
    restart: str | None


class Script(NamedTuple):
    """Faults for a whole test. `seed`: of its randomness; None: any."""

    seed: int | None
    steps: tuple[Step, ...]


def read_script(text: str) -> Script:
    """Read a script in TOML; docs/broker-faults.md has its form. Raises ValueError, which says what is wrong."""
    return script_of(tomllib.loads(text))


def script_of(data: Mapping[str, Any]) -> Script:
    """From the values of a TOML file. Raises ValueError."""
    if unknown := set(data) - {"seed", "fault"}:
        raise ValueError(f"a script has seed and [[fault]], not {', '.join(sorted(unknown))}")
    seed, steps = data.get("seed"), []
    if seed is not None and not isinstance(seed, int):
        raise ValueError(f"seed is an integer, not {seed!r}")
    for entry in map(dict, data.get("fault", [])):
        after, seconds, restart = (entry.pop(name, None) for name in ("after", "for", "restart"))
        for name, value in (("after", after), ("for", seconds)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
                raise ValueError(f"{name} is a number of seconds, not {value!r}")
        if restart not in (None, "with state", "without state"):
            raise ValueError(f'restart is "with state" or "without state", not {restart!r}')
        if restart is not None and entry:
            raise ValueError("a restart stands alone in its [[fault]]")
        steps.append(Step(after or 0.0, seconds, None if restart else Fault.of(entry), restart))
    return Script(seed, tuple(sorted(steps, key=lambda step: step.after)))


async def play(broker: Any, script: Script) -> None:
    """Run a script against a `wirefmt.broker.Broker`. What is in force when it is cancelled ends."""
    faults: Faults = broker.faults
    if script.seed is not None:
        faults.sow(script.seed)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    in_force: dict[Active, float | None] = {}
    steps = deque(script.steps)
    try:
        while steps or any(end is not None for end in in_force.values()):
            ends = [end for end in in_force.values() if end is not None]
            due = min([*ends, *([begun + steps[0].after] if steps else [])])
            await asyncio.sleep(due - loop.time())
            for active in [active for active, end in in_force.items() if end is not None and end <= due]:
                del in_force[active]
                faults.stop(active)
            while steps and begun + steps[0].after <= due:
                step = steps.popleft()
                if step.fault is None:
                    await broker.restart(keep_state=step.restart == "with state")
                else:
                    in_force[faults.start(step.fault)] = None if step.seconds is None else due + step.seconds
        if in_force:
            await loop.create_future()  # to the end
    finally:
        for active in in_force:
            faults.stop(active)
