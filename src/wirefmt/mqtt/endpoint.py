"""What both roles of an MQTT connection do: which packets may come and leave, the answers to faults, the end.

Sections are those of MQTT 5.0. `v3` means 3.1 and 3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from wirefmt import mqtt
from wirefmt.connection import endpoint
from wirefmt.connection.contract import Acknowledged, Change, WindowOpened
from wirefmt.connection.endpoint import EventT
from wirefmt.connection.states import Outcome, Role, Violation, by_state
from wirefmt.errors import DecodeError, EncodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.framing import Limits
from wirefmt.mqtt._codec import Flows
from wirefmt.mqtt.codes import ReasonCode
from wirefmt.mqtt.events import (
    LARGEST_PACKET,
    Asked,
    ConnectionOptions,
    Event,
    Negotiated,
    Pairs,
    Request,
    find,
    without,
)
from wirefmt.mqtt.session import Delivery, Session
from wirefmt.mqtt.spec import REASON_CODES
from wirefmt.mqtt.states import RECEIVES, SENDS, State

if TYPE_CHECKING:
    from typing_extensions import Buffer

REASONS: dict[str, frozenset[int]] = {
    packet: frozenset(row.code for row in REASON_CODES if packet in row.packets) for packet in ("CONNACK", "DISCONNECT")
}

_KINDS: dict[type[mqtt.Packet], str] = {
    mqtt.Connect: "CONNECT",
    mqtt.Publish: "PUBLISH",
    mqtt.Puback: "PUBACK",
    mqtt.Pubrec: "PUBREC",
    mqtt.Pubrel: "PUBREL",
    mqtt.Pubcomp: "PUBCOMP",
    mqtt.Subscribe: "SUBSCRIBE",
    mqtt.Suback: "SUBACK",
    mqtt.Unsubscribe: "UNSUBSCRIBE",
    mqtt.Unsuback: "UNSUBACK",
    mqtt.Pingreq: "PINGREQ",
    mqtt.Pingresp: "PINGRESP",
    mqtt.Disconnect: "DISCONNECT",
}
_AUTH_KINDS: dict[int, str] = {
    ReasonCode.SUCCESS: "AUTH success",
    ReasonCode.CONTINUE_AUTHENTICATION: "AUTH continue",
    ReasonCode.RE_AUTHENTICATE: "AUTH re-authenticate",
}


#: Control characters and noncharacters (1.5.4).
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)


def kind_of(message: mqtt.Packet) -> str:
    """The kind of a packet in the table of states."""
    kind = _KINDS.get(type(message))
    if kind is not None:
        return kind
    if isinstance(message, mqtt.Connack):
        return "CONNACK refused" if message.reason_code else "CONNACK accepted"
    if isinstance(message, mqtt.Auth):
        return _AUTH_KINDS[message.reason_code or 0]
    raise LocalProtocolError(f"{type(message).__name__} is not an MQTT packet")


RECEIVES_IN = {role: by_state(RECEIVES, role) for role in Role}
SENDS_IN = {role: by_state(SENDS, role) for role in Role}


def numbered(message: Asked, packet_identifier: int) -> bytes:
    """The packet with another packet identifier."""
    packet = message.encode()
    at = 1
    while packet[at] & 0x80:
        at += 1
    return packet[: at + 1] + packet_identifier.to_bytes(2) + packet[at + 3 :]


class Endpoint(endpoint.Endpoint[State, EventT], Flows):
    """What both roles do. `Receiving` and `Sending` add messages in each direction."""

    role: Role
    options: ConnectionOptions
    _final_state = State.CLOSED
    _exhausted = ReasonCode.QUOTA_EXCEEDED
    _unit = "packet"
    _decoder: mqtt.Decoder
    _session: Session | None
    _handlers: ClassVar[dict[type[mqtt.Packet], Callable[[Any, Any, list[Event]], None]]]
    _senders: ClassVar[dict[type[mqtt.Packet], Callable[[Any, Any], Any]]]

    #: For each state the handlers of packets that are legal and leave it as it is.
    _steady_in: dict[State, dict[type[mqtt.Packet], Callable[[Any, Any, list[Event]], None]]]

    def __init_subclass__(cls) -> None:
        if "_handlers" in cls.__dict__:
            cls._steady_in = {
                state: {
                    packet: handler
                    for packet, handler in cls._handlers.items()
                    if packet in _KINDS and RECEIVES_IN[cls.role][state][_KINDS[packet]] is state
                }
                for state in State
            }

    def __init__(self, now: float, options: ConnectionOptions | None) -> None:
        super().__init__(now, options or ConnectionOptions(), State.IDLE)
        self._configure(self.options, Acknowledged, WindowOpened)
        self.negotiated: Negotiated | None = None
        self.connect: mqtt.Connect | None = None
        #: Acknowledgements that named nothing outstanding. They are ignored.
        self.strays = 0
        self._authentication: mqtt.Auth | None = None  # waits for the host
        self._problem_information = True

    def _enter(self, state: State) -> None:
        self._up = state is State.CONNECTED or state is State.REAUTHENTICATING
        self._steady = self._steady_in[state]

    @property
    def undecided(self) -> int:
        """Events that wait for an answer of the host."""
        return len(self._asked) + (self._authentication is not None)

    # ---- out

    def send(self, message: mqtt.Packet) -> Delivery | Request | None:
        """Queue a packet.

        A PUBLISH of QoS 1 or 2, SUBSCRIBE and UNSUBSCRIBE get a packet identifier of ours in place of the one they hold,
        and are answered with `Acknowledged`. Answers to events have methods of their own, and so has DISCONNECT.

        Returns:
            a handle: a `Delivery` for a PUBLISH of QoS 1 or 2, a `Request` for SUBSCRIBE and UNSUBSCRIBE; otherwise None.

        Raises:
            LocalProtocolError: the packet is not legal now. Its `reply` is the reason code that a peer would give, if
                there is one. Nothing has changed.
        """
        self._check_over()
        transition = SENDS_IN[self.role][self.state][kind_of(message)]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=ReasonCode.PROTOCOL_ERROR)
        sender = self._senders.get(type(message))
        if sender is None:
            raise LocalProtocolError(f"{_KINDS.get(type(message), 'this packet')} is sent by {_SENT_BY[type(message)]}")
        if self.version is not None and message.version != self.version:
            raise LocalProtocolError(f"a packet of version {message.version} on a connection of version {self.version}")
        handle: Delivery | Request | None = sender(self, message)
        return handle

    @property
    def sent_bytes(self) -> int:
        """Bytes that have been queued for the peer."""
        return self._outbox.position

    def changes(self) -> list[Change]:
        """What a journal must keep since the last call: see `Session.changes`."""
        return self._session.changes() if self._session is not None else []

    def _resume_session(self, events: list[Event]) -> None:
        """The handshake is complete, and the session is this connection's."""

    # ---- reading

    def _handle(self, messages: list[mqtt.Packet], events: list[Event]) -> None:
        tolerant = bool(self.options.tolerate)
        steady = self._steady
        at, count = 0, len(messages)
        self.packets_in += count
        while True:
            if self._up:
                at = self._run(messages, at, events)
            if at == count:
                return
            message = messages[at]
            at += 1
            if tolerant and message.notes:
                self._check_notes(message)
            handler = steady.get(type(message))
            if handler is not None:
                handler(self, message, events)
                continue
            transition = RECEIVES_IN[self.role][self.state][kind_of(message)]
            if isinstance(transition, Violation):
                raise RemoteProtocolError(transition.rule, reply=ReasonCode.PROTOCOL_ERROR)
            if transition is Outcome.DROPPED:
                return
            before = self.state
            self._handlers[type(message)](self, message, events)
            if self.state is before and isinstance(transition, State):
                self.state = transition
            steady = self._steady

    def _check_notes(self, message: mqtt.Packet) -> None:
        """Raises DecodeError if a packet breaks a rule that is not tolerated."""
        name = type(message).__name__.upper()
        if not {f"{name} {note.check}" for note in message.notes} <= self.options.tolerate:
            mqtt.decode(message.encode(), version=message.version, side=self._peer(), limits=self._limits())

    def _check_text(self, text: str, reply: int | None = ReasonCode.MALFORMED_PACKET) -> None:
        if not self.options.control_characters and _CONTROLS.search(text):
            raise RemoteProtocolError(f"a control character or noncharacter in {text!r} (1.5.4)", reply=reply)

    def _room(self) -> int:
        """How many packets may be read while the handshake is not complete."""
        return 0 if self.role is Role.SERVER and self.state is State.CONNECTING else 1

    def _look_at_opening(self, data: Buffer) -> Buffer:
        """See the first bytes of the peer, which may be changed."""
        return data

    def _wrong_kind(self, what: str, identifier: int) -> RemoteProtocolError:
        """The error for a packet that does not fit what has been said with its packet identifier."""
        return RemoteProtocolError(
            f"{what} does not fit the state of packet identifier {identifier} (4.3)", reply=ReasonCode.PROTOCOL_ERROR
        )

    # ---- writing

    def _put(self, packet: bytes) -> None:
        """Queue a packet."""
        self._outbox.put(packet)
        self.packets_out += 1

    def _acknowledgement(
        self,
        cls: type[mqtt.Puback | mqtt.Pubrec | mqtt.Pubrel | mqtt.Pubcomp],
        identifier: int,
        code: int = ReasonCode.SUCCESS,
        properties: Pairs = (),
    ) -> bytes:
        if self.version != 5:
            code, properties = ReasonCode.SUCCESS, ()
        if not code and not properties:
            return _ACKNOWLEDGEMENTS[cls] + identifier.to_bytes(2)
        return self._fit(cls, properties, packet_identifier=identifier, reason_code=code)

    def _build(self, cls: Callable[..., Any], **fields: Any) -> Any:
        """A packet of this version from the host's values."""
        try:
            return cls(version=self.version, **fields)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error

    def _fit(self, cls: Callable[..., Any], properties: Pairs, **fields: Any) -> bytes:
        """A packet within the peer's Maximum Packet Size. User Pairs are left out first, then the Reason String.

        [MQTT-3.2.2-19, MQTT-3.2.2-20, MQTT-3.4.2-2, MQTT-3.4.2-3 and their like in other packets]
        """
        most = self._maximum_packet_size()
        properties = tuple(properties)
        if not self._problem_information and cls not in (mqtt.Connack, mqtt.Disconnect):
            properties = without(properties, "user_property", "reason_string")  # [MQTT-3.1.2-29]
        for names in ((), ("user_property",), ("user_property", "reason_string")):
            packet: bytes = self._build(cls, properties=without(properties, *names), **fields).encode()
            if len(packet) <= most:
                return packet
        raise LocalProtocolError(
            f"the packet has {len(packet)} bytes, the peer accepts {most} [MQTT-3.1.2-24, MQTT-3.2.2-15]",
            reply=ReasonCode.PACKET_TOO_LARGE,
        )

    def _maximum_packet_size(self) -> int:
        return self.negotiated.maximum_packet_size if self.negotiated is not None else LARGEST_PACKET

    # ---- the end

    def _check_connected(self) -> None:
        self._check_over()
        if not self._up:
            before = (
                ": it becomes possible when CONNECT and CONNACK have been exchanged"
                if self.state.value == "idle"
                else ""
            )
            raise LocalProtocolError(f"not possible while {self.state.value}{before}")

    def _reply_to(self, error: endpoint.Fault) -> int | None:
        """As the specification asks (4.13)."""
        self._end_last()
        reply = error.reply
        if isinstance(error, DecodeError):
            reply = _ANSWERS.get((error.path, error.spec), ReasonCode.MALFORMED_PACKET if reply is None else reply)
        return self._tell(reply, str(error)) if isinstance(reply, int) else None

    def _tell(self, code: int, reason: str) -> int | None:
        if self.version == 5 and self._up:
            code = code if code in REASONS["DISCONNECT"] else ReasonCode.PROTOCOL_ERROR
            self._end_last(mqtt.Disconnect(reason_code=code, version=5).encode())
            return code
        return None

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        resumable: tuple[Delivery, ...] = ()
        lost: tuple[Delivery, ...] = ()
        self._authentication = None
        session = self._session
        if session is not None:
            for delivery in session.outgoing.values():
                # What is queued now still leaves; what `close` has dropped does not.
                if delivery.mark is not None and delivery.mark <= self._outbox.position:
                    delivery.transmitted = True
                delivery.mark = None
                delivery.charged = False
            # [MQTT-3.1.2-23]: a session lives on while its expiry interval is above zero. One that this connection has
            # not reached stays as it was.
            if session.expiry_interval or not self._up:
                resumable = tuple(session.outgoing.values())
            else:
                lost = session.clear()
            session.held = False
        return resumable, lost

    def _take_auth(self, event: mqtt.Connect | mqtt.Auth) -> None:
        """The host answers this AUTH."""
        if self._authentication is None or self._authentication is not event:
            raise LocalProtocolError("this AUTH does not wait for an answer")

    def _method(self) -> str | None:
        """The Authentication Method of CONNECT."""
        if self.version != 5 or self.connect is None:
            return None
        method: str | None = find(self.connect.properties, "authentication_method")
        return method

    def _auth_properties(self, data: bytes | None, properties: Pairs) -> Pairs:
        """Properties of AUTH."""
        own: list[tuple[str, Any]] = [("authentication_method", self._method())]
        if data is not None:
            own.append(("authentication_data", data))
        return (*own, *properties)

    def _check_method(self, message: mqtt.Auth | mqtt.Connack) -> None:
        """[MQTT-4.12.0-5]: every AUTH and the accepting CONNACK repeat the method of CONNECT."""
        method = find(message.properties, "authentication_method")
        if method != self._method():
            raise RemoteProtocolError(
                "the Authentication Method is not that of CONNECT [MQTT-4.12.0-5]", reply=ReasonCode.PROTOCOL_ERROR
            )

    def _make_decoder(self, version: int | None = None) -> mqtt.Decoder:
        strictness = "lax" if self.options.tolerate else "strict"
        return mqtt.Decoder(version=version, side=self._peer(), strictness=strictness, limits=self._limits())

    def _peer(self) -> Literal["client", "server"]:
        return "client" if self.role is Role.SERVER else "server"

    def _limits(self) -> Limits:
        return Limits(frame_size=self.options.packet_size, elements=self.options.elements)


#: Fixed header and Remaining Length of acknowledgements without a code.
_ACKNOWLEDGEMENTS: dict[type[mqtt.Packet], bytes] = {
    mqtt.Puback: b"\x40\x02",
    mqtt.Pubrec: b"\x50\x02",
    mqtt.Pubrel: b"\x62\x02",
    mqtt.Pubcomp: b"\x70\x02",
}

#: Faults with another answer than the codec's, None: no answer; by the field at fault and the rule that it breaks. The
#: standard leaves these answers open (3.1.4, 4.13.1); here they are mosquitto's.
_ANSWERS: dict[tuple[str, str], int | None] = {
    ("client_identifier", "MQTT-1.5.4-1"): ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ("client_identifier", "MQTT-1.5.4-2"): ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ("user_name", "MQTT-1.5.4-1"): None,
    ("user_name", "MQTT-1.5.4-2"): None,
    ("keep_alive", "2.1.4"): None,
    ("will.qos", "MQTT-3.1.2-12"): None,
    ("remaining_length", "1.5.5"): None,
    ("reason_code", "MQTT-3.14.2-1"): None,
}

#: What sends a packet that `send` does not.
_SENT_BY: dict[type[mqtt.Packet], str] = {
    mqtt.Connack: "accept() and refuse()",
    mqtt.Puback: "acknowledge()",
    mqtt.Pubrec: "acknowledge()",
    mqtt.Pubrel: "the connection itself",
    mqtt.Pubcomp: "the connection itself",
    mqtt.Suback: "grant()",
    mqtt.Unsuback: "grant()",
    mqtt.Pingresp: "the connection itself",
    mqtt.Disconnect: "close()",
    mqtt.Auth: "continue_authentication() and accept()",
}
