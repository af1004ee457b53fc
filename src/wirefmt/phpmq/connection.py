"""PHPMQ connections without I/O: a client's and a server's, in both profiles.

docs/connections.md describes the contract, docs/phpmq-connection.md the states. The protocol has no handshake, no answer to a
published message, no error message, no heartbeat and no closing message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wirefmt import phpmq
from wirefmt.connection.contract import Acknowledged, WindowOpened
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.endpoint import STEP, Endpoint, EventT
from wirefmt.connection.states import Outcome, Role, Violation, by_state
from wirefmt.errors import EncodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits
from wirefmt.phpmq.events import ClientEvent, ConnectionOptions, Delivery, Event, Returned, ServerEvent
from wirefmt.phpmq.states import RECEIVES, SENDS, State, Transition

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KINDS: Final[dict[type[Any], str]] = {
    phpmq.MessageClientToServer: "publish",
    phpmq.ConsumeRequest: "consume",
    phpmq.Acknowledgement: "acknowledge",
    phpmq.ReQueue: "re-queue",
    phpmq.DeadLetter: "dead letter",
    phpmq.MessageServerToClient: "message",
}

#: What the early profile does not have.
_PRESENT_ONLY: Final = ("re-queue", "dead letter")

#: What finishes a message in flight.
Settled = phpmq.Acknowledgement | phpmq.ReQueue | phpmq.DeadLetter


class _Connection(Endpoint[State, EventT]):
    """What both roles share."""

    role: ClassVar[Role]
    options: ConnectionOptions
    _final_state = State.CLOSED
    _receives: ClassVar[dict[State, dict[str, Transition]]]
    _sends: ClassVar[dict[State, dict[str, Transition]]]
    _handlers: ClassVar[dict[str, Callable[[Any, Any, list[Event]], None]]]

    def __init_subclass__(cls) -> None:
        cls._receives = by_state(RECEIVES, cls.role)
        cls._sends = by_state(SENDS, cls.role)

    def __init__(self, now: float, options: ConnectionOptions | None = None) -> None:
        super().__init__(now, options or ConnectionOptions(), State.IDLE)
        self._next_number = 1

    def close(self, *, immediate: bool = False) -> list[EventT]:
        """End. The protocol has no closing message: what is queued still goes, then the transport is closed.

        With `immediate` what is queued is dropped.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        self._end("local", None, "closed by the host", events)
        return events

    def _make_decoder(self) -> phpmq.Decoder:
        side: Any = "server" if self.role is Role.CLIENT else "client"
        return phpmq.Decoder(side=side, limits=Limits(frame_size=self.options.frame_size))

    def _capacity(self) -> int:
        return 0 if self._paused or self._over else STEP

    def _handle(self, messages: list[Any], events: list[Event]) -> None:
        for message in messages:
            kind = _KINDS.get(type(message))
            if kind is None:
                raise RemoteProtocolError(f"message type {message.message_type:03d} is not known")
            if kind in _PRESENT_ONLY and self.options.profile == "early":
                raise RemoteProtocolError(f"the early profile has no {kind}")
            transition = self._receives[self.state][kind]
            if isinstance(transition, Violation):
                raise RemoteProtocolError(transition.rule)
            if transition is Outcome.DROPPED:
                return
            self._handlers[kind](self, message, events)
            assert isinstance(transition, State)
            if transition is not self._state:
                self.state = transition

    def _checked(self, message: phpmq.Message) -> tuple[str, State, bytes]:
        """Kind, next state and bytes of a message to send. Raises LocalProtocolError if it is not legal now."""
        self._check_over()
        kind = _KINDS.get(type(message))
        transition = self._sends[self.state].get(kind) if kind is not None else None
        if kind is None or transition is None:
            raise LocalProtocolError(f"a {self.role.value} does not send {type(message).__name__}")
        if kind in _PRESENT_ONLY and self.options.profile == "early":
            raise LocalProtocolError(f"the early profile has no {kind}")
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule)
        assert isinstance(transition, State)
        try:
            data = phpmq.encode(message, profile=self.options.profile)
        except EncodeError as error:
            raise LocalProtocolError(str(error)) from error
        self._check_pending(len(data))
        return kind, transition, data


class ClientConnection(_Connection[ClientEvent]):
    """The client's side of one connection.

    ::

        client = phpmq.ClientConnection(now)
        client.publish("orders", b"one")
        client.consume("orders", 10)

    Events: `phpmq.MessageServerToClient` (answer with `acknowledge`, in the present profile also with `requeue` or
    `dead_letter`); `Disconnected`.

    A message that is published has no answer: only what is read by another consumer has surely arrived.

    Args:
        now: the time at which the transport was connected.
        options: limits, and the profile.
    """

    role = Role.CLIENT

    def __init__(self, now: float, options: ConnectionOptions | None = None) -> None:
        super().__init__(now, options)
        #: How many messages the last consume request allows in flight.
        self.count = 0
        self._crossing = 0  # messages of the requests before, which may still come
        self._in_flight: dict[str, phpmq.MessageServerToClient] = {}

    @property
    def undecided(self) -> int:
        """Messages in flight: they wait for `acknowledge`."""
        return len(self._in_flight)

    @property
    def position(self) -> int:
        """How many bytes have been queued on this connection, and not dropped."""
        return self._outbox.position

    @property
    def taken(self) -> int:
        """How many of them have been taken."""
        return self._outbox.taken

    def send(self, message: phpmq.Message) -> None:
        """Queue a message. Raises LocalProtocolError if it is not legal now; nothing has changed then."""
        kind, state, data = self._checked(message)
        if isinstance(message, phpmq.ConsumeRequest):
            count = message.message_count
            if count is None or not 0 <= count <= self.options.in_flight:
                raise LocalProtocolError(
                    f"a consume request is for 0 to {self.options.in_flight} messages, not {count}"
                )
            # nothing says which requests the server has read: each lets it send its count before it reads the next one
            self._crossing = min(self._crossing + self.count, self.options.in_flight)
            self.count = count
            self._in_flight.clear()  # the server puts them into their queue again
        elif kind != "publish":
            assert isinstance(message, Settled)
            if self._in_flight.pop(message.message_id or "", None) is None:
                raise LocalProtocolError("the message is not in flight")
        self._outbox.put(data)
        self.state = state

    def publish(self, queue_name: str, content: Buffer, ttl: int = 0) -> None:
        """Make and send a message: see `send`. `ttl`: seconds; the early profile does not write it."""
        self.send(_build(phpmq.MessageClientToServer, queue_name=queue_name, content=content, ttl=ttl))

    def consume(self, queue_name: str, count: int) -> None:
        """Make and send a consume request: at most `count` messages of the queue may be in flight. It replaces the one
        before, whose messages in flight go back into their queue."""
        self.send(_build(phpmq.ConsumeRequest, queue_name=queue_name, message_count=count))

    def acknowledge(self, message: phpmq.MessageServerToClient) -> None:
        """Answer a message: it is done. Raises LocalProtocolError if it does not wait for an answer."""
        self._settle(message, phpmq.Acknowledgement)

    def requeue(self, message: phpmq.MessageServerToClient, ttl: int = 0) -> None:
        """Answer a message: it goes back into its queue (present profile). Raises as `acknowledge` does."""
        self._settle(message, phpmq.ReQueue, ttl=ttl)

    def dead_letter(self, message: phpmq.MessageServerToClient) -> None:
        """Answer a message: it is a dead letter (present profile). Raises as `acknowledge` does."""
        self._settle(message, phpmq.DeadLetter)

    def _settle(self, message: phpmq.MessageServerToClient, make: Callable[..., Any], **fields: Any) -> None:
        self._check_over()
        if self._in_flight.get(message.message_id or "") is not message:
            raise LocalProtocolError("this message does not wait for an answer")
        self.send(_build(make, queue_name=message.queue_name, message_id=message.message_id, **fields))

    def _on_message(self, message: phpmq.MessageServerToClient, events: list[Event]) -> None:
        message_id = message.message_id or ""
        if message_id not in self._in_flight and len(self._in_flight) >= self.count + self._crossing:
            raise RemoteProtocolError(f"more messages than the {self.count} that were asked for")
        self._in_flight[message_id] = message
        events.append(message)

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._in_flight.clear()
        return (), ()

    _handlers: ClassVar[dict[str, Callable[[Any, Any, list[Event]], None]]] = {"message": _on_message}


class ServerConnection(_Connection[ServerEvent]):
    """The server's side of one connection.

    Events, which have no answer: `phpmq.MessageClientToServer`; `phpmq.ConsumeRequest`, after `Returned` if it replaces
    another one and messages were in flight; `WindowOpened`; `Acknowledged` for a message that this connection has sent, with
    `phpmq.Acknowledgement`, `phpmq.ReQueue` or `phpmq.DeadLetter`; one of these alone if it names a message that another client
    has, which counts, too; `Disconnected`, whose `lost` are the messages in flight: the host puts them into their queue again.

    A fault of the client is answered by closing, since the protocol has no word for it.

    Args:
        now: the time at which the transport was accepted.
        options: limits, and the profile.
    """

    role = Role.SERVER
    _late: ClassVar[Mapping[str, tuple[str, Any]]] = {
        Keepalive.EXPECT: ("nothing has arrived within the idle timeout", None),
        "first": ("no message has arrived in time", None),
    }

    def __init__(self, now: float, options: ConnectionOptions | None = None) -> None:
        super().__init__(now, options)
        if self.options.first_timeout is not None:
            self._deadlines.set("first", now + self.options.first_timeout)
        if self.options.idle_timeout is not None:
            self._keep_alive(expect_within=self.options.idle_timeout)
        #: The last consume request.
        self.request: phpmq.ConsumeRequest | None = None
        self._count = 0
        self._in_flight: dict[str, Delivery] = {}

    @property
    def undecided(self) -> int:
        """Nothing waits for an answer of the host."""
        return 0

    @property
    def in_flight(self) -> int:
        """Messages in flight at the client."""
        return len(self._in_flight)

    @property
    def send_quota(self) -> int:
        """How many messages the client has space for."""
        return 0 if self._over else max(self._count - len(self._in_flight), 0)

    def send(self, message: phpmq.MessageServerToClient) -> Delivery:
        """Send a message. Its handle is in flight until `Acknowledged`, `Returned` or `Disconnected` names it.

        Raises LocalProtocolError if the client has no space, or the message is not legal now; nothing has changed then.
        """
        _, _, data = self._checked(message)
        message_id = message.message_id or ""
        if not self.send_quota:
            raise LocalProtocolError(f"the client has no space: it has asked for {self._count}")
        if message_id in self._in_flight:
            raise LocalProtocolError(f"{message_id!r} is in flight")
        delivery = Delivery(self._next_number, message.queue_name or "", message_id)
        self._next_number += 1
        self._in_flight[message_id] = delivery
        self._outbox.put(data)
        return delivery

    def deliver(self, queue_name: str, content: Buffer, message_id: str, ttl: int = 0, host: Any = None) -> Delivery:
        """Make and send a message: see `send`. `host`: what the handle holds for the host."""
        delivery = self.send(
            _build(phpmq.MessageServerToClient, queue_name=queue_name, content=content, message_id=message_id, ttl=ttl)
        )
        delivery.host = host
        return delivery

    def _handle(self, messages: list[Any], events: list[Event]) -> None:
        if messages:
            self._deadlines.cancel("first")
        super()._handle(messages, events)

    def _on_publish(self, message: phpmq.MessageClientToServer, events: list[Event]) -> None:
        events.append(message)

    def _on_consume(self, message: phpmq.ConsumeRequest, events: list[Event]) -> None:
        if self._in_flight:
            events.append(Returned(tuple(self._in_flight.values())))
            self._in_flight.clear()
        self.request = message
        self._count = min(max(message.message_count or 0, 0), self.options.in_flight)
        events.append(message)
        if self._count:
            events.append(WindowOpened(self._count))

    def _on_settled(self, message: Settled, events: list[Event]) -> None:
        closed = not self.send_quota
        delivery = self._in_flight.get(message.message_id or "")
        if delivery is None or delivery.queue_name != message.queue_name:
            events.append(message)
            return
        del self._in_flight[delivery.message_id]
        events.append(Acknowledged(delivery, message))
        if closed:
            events.append(WindowOpened(self.send_quota))

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        lost = tuple(self._in_flight.values())
        self._in_flight.clear()
        return (), lost

    _handlers: ClassVar[dict[str, Callable[[Any, Any, list[Event]], None]]] = {
        "publish": _on_publish,
        "consume": _on_consume,
        "acknowledge": _on_settled,
        "re-queue": _on_settled,
        "dead letter": _on_settled,
    }


def _build(make: Callable[..., Any], **fields: Any) -> Any:
    """A message of the host's values."""
    try:
        return make(**fields)
    except (EncodeError, TypeError, ValueError) as error:
        raise LocalProtocolError(str(error)) from error
