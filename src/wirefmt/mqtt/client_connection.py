"""The client's side of an MQTT connection without I/O, for 3.1, 3.1.1 and 5.0.

docs/connections.md describes the contract, docs/mqtt-connection.md the states. Sections are those of MQTT 5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from wirefmt import mqtt
from wirefmt.connection.contract import Acknowledged, Connected
from wirefmt.connection.endpoint import Fault
from wirefmt.connection.states import Role, Violation
from wirefmt.errors import DecodeError, LocalProtocolError, RemoteProtocolError
from wirefmt.mqtt._codec import Flows
from wirefmt.mqtt.codes import ReasonCode, ReturnCode
from wirefmt.mqtt.endpoint import (
    SENDS_IN,
    numbered,
)
from wirefmt.mqtt.events import (
    Asked,
    ClientEvent,
    ConnectionOptions,
    Event,
    Pairs,
    Request,
    agreed,
    announced,
    check_subscriptions,
    find,
)
from wirefmt.mqtt.receiving import Receiving
from wirefmt.mqtt.sending import Sending
from wirefmt.mqtt.session import Session
from wirefmt.mqtt.spec import CONNACK_RETURN_CODES, REASON_CODES
from wirefmt.mqtt.states import State

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ClientConnection(Sending[ClientEvent], Receiving[ClientEvent]):
    """The client's side of one connection.

    ::

        client = mqtt.ClientConnection(now, session=mqtt.Session())
        client.send(mqtt.Connect(client_identifier="meter-7", keep_alive=60))
        ...                                     # write data_to_send(), give what comes to receive()

    Events: `Connected`; `mqtt.Publish` (of QoS 1 and 2: answer with `acknowledge`); `Acknowledged`; `WindowOpened`;
    `mqtt.Auth` (0x18: answer with `continue_authentication`; 0x00: re-authentication has succeeded); `mqtt.Pingresp` for a
    PINGREQ of the host; `Dropped`; `Released`; `Disconnected`.

    Args:
        now: the time at which the transport was connected.
        session: the state of an earlier connection. None: a new one.
        options: limits and times.
    """

    role = Role.CLIENT
    _late: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "connect": ("no CONNACK has arrived in time", None),
        "answer": ("no answer to PINGREQ has arrived in time", None),
        "authentication": (
            "no AUTH has arrived in time",
            ReasonCode.UNSPECIFIED_ERROR,
        ),  # 0x87 is the server's (3.14.2.1)
    }
    _session: Session

    def __init__(self, now: float, session: Session | None = None, options: ConnectionOptions | None = None) -> None:
        super().__init__(now, options)
        if session is None:
            session = Session(journaled=self.options.journaled)
        if session.held:
            raise LocalProtocolError("the session belongs to another connection")
        session.held = True
        self._session = session
        self._opening = b""  # what the server says first
        self._requests: dict[int, Request] = {}  # by packet identifier
        self._host_pings = 0
        self._ping_unanswered = False

    @property
    def session(self) -> Session:
        """What the connection keeps, and what outlives it."""
        return self._session

    def subscribe(self, subscriptions: Iterable[mqtt.Subscription], properties: Pairs = ()) -> Request:
        """Make and send a SUBSCRIBE: see `send`."""
        self._check_connected()
        message = self._build(mqtt.Subscribe, packet_identifier=1, subscriptions=subscriptions, properties=properties)
        handle = self.send(message)
        assert isinstance(handle, Request)
        return handle

    def unsubscribe(self, topic_filters: Iterable[str], properties: Pairs = ()) -> Request:
        """Make and send an UNSUBSCRIBE: see `send`."""
        self._check_connected()
        message = self._build(mqtt.Unsubscribe, packet_identifier=1, topic_filters=topic_filters, properties=properties)
        handle = self.send(message)
        assert isinstance(handle, Request)
        return handle

    def continue_authentication(
        self, event: mqtt.Auth, authentication_data: bytes | None = None, properties: Pairs = ()
    ) -> list[ClientEvent]:
        """Answer an `Auth` event of code 0x18 with AUTH 0x18 [MQTT-4.12.0-3]. The method is added."""
        self._check_over()
        self._take_auth(event)
        self._put(
            self._fit(
                mqtt.Auth,
                self._auth_properties(authentication_data, properties),
                reason_code=ReasonCode.CONTINUE_AUTHENTICATION,
            )
        )
        self._authentication = None
        self._deadlines.start("authentication", self.options.authentication_timeout)
        return self._go_on()

    def close(
        self, reason_code: int = ReasonCode.SUCCESS, properties: Pairs = (), *, immediate: bool = False
    ) -> list[ClientEvent]:
        """Send DISCONNECT and end. 0x04 asks the server to publish the will (3.14.2.1).

        With `immediate` nothing is sent and what is queued is dropped, so the server publishes the will.

        Returns the `Disconnected` event. Raises LocalProtocolError for a code or property that cannot be sent.
        """
        self._check_over()
        if immediate:
            return self._drop()
        events: list[Event] = []
        if isinstance(SENDS_IN[self.role][self.state]["DISCONNECT"], Violation):
            self._end("local", None, "closed before CONNECT", events)
            return events
        expiry = find(properties, "session_expiry_interval")
        if expiry and self._session.expiry_interval == 0:
            raise LocalProtocolError(
                "a Session Expiry Interval of 0 cannot be raised in DISCONNECT (3.14.2.2.2)",
                reply=ReasonCode.PROTOCOL_ERROR,
            )
        five = self.version == 5
        packet = self._fit(mqtt.Disconnect, properties, reason_code=reason_code) if five else b"\xe0\x00"
        self._put(packet)
        if expiry is not None:
            self._session.expiry_interval = expiry
            self._session.note_meta()
        self._end("local", reason_code, "closed by the host", events)
        return events

    # ---- sending

    def _send_connect(self, message: mqtt.Connect) -> None:
        if message.version == 5:
            message = mqtt.Connect(
                client_identifier=message.client_identifier,
                clean_start=message.clean_start,
                keep_alive=message.keep_alive,
                will=message.will,
                user_name=message.user_name,
                password=message.password,
                properties=announced(message.properties, self.options),
                version=5,
            )
        elif not message.client_identifier and (message.version == 3 or not message.clean_start):
            raise LocalProtocolError(
                "an empty Client Identifier needs Clean Session 1 and MQTT 3.1.1 or later (3.1.1: [MQTT-3.1.3-7])",
                reply=ReturnCode.IDENTIFIER_REJECTED,
            )
        self._put(message.encode())
        self.connect = message
        self.version = message.version
        self._decoder = self._make_decoder(message.version)
        self._deadlines.start("connect", self.options.connect_timeout)
        self.state = State.CONNECTING

    def _check_publish_out(self, message: mqtt.Publish) -> None:
        negotiated = self.negotiated
        assert negotiated is not None
        if message.qos > negotiated.maximum_qos:
            raise LocalProtocolError(
                f"the server's Maximum QoS is {negotiated.maximum_qos} [MQTT-3.2.2-11]",
                reply=ReasonCode.QOS_NOT_SUPPORTED,
            )
        if message.retain and not negotiated.retain_available:
            raise LocalProtocolError(
                "the server does not retain messages [MQTT-3.2.2-14]", reply=ReasonCode.RETAIN_NOT_SUPPORTED
            )
        if message.properties and find(message.properties, "subscription_identifier") is not None:
            raise LocalProtocolError(
                "a client sends no Subscription Identifier [MQTT-3.3.4-6]", reply=ReasonCode.PROTOCOL_ERROR
            )

    def _send_request(self, message: Asked) -> Request:
        assert self.negotiated is not None
        if isinstance(message, mqtt.Subscribe):
            check_subscriptions(message, self.negotiated, LocalProtocolError)
        if not self._session.identifiers.free:
            raise LocalProtocolError("all packet identifiers are in use [MQTT-2.2.1-3]")
        packet = message.encode()
        if len(packet) > self.negotiated.maximum_packet_size:
            raise LocalProtocolError(
                f"the packet has {len(packet)} bytes, the server accepts {self.negotiated.maximum_packet_size} "
                "[MQTT-3.2.2-15]",
                reply=ReasonCode.PACKET_TOO_LARGE,
            )
        self._check_pending(len(packet))
        identifier = self._session.identifiers.take()
        assert identifier is not None
        request = Request(self._session.next_number(), identifier, message)
        self._requests[identifier] = request
        self._put(numbered(message, identifier))
        return request

    def _send_pingreq(self, message: mqtt.Pingreq) -> None:
        self._host_pings += 1
        self._send_keepalive()

    def _send_auth(self, message: mqtt.Auth) -> None:
        if message.reason_code != ReasonCode.RE_AUTHENTICATE:
            raise LocalProtocolError("AUTH 0x18 is sent by continue_authentication()")
        if self._method() is None or find(message.properties, "authentication_method") != self._method():
            raise LocalProtocolError(
                "re-authentication uses the Authentication Method of CONNECT [MQTT-4.12.1-1]",
                reply=ReasonCode.PROTOCOL_ERROR,
            )
        self._put(self._fit(mqtt.Auth, message.properties, reason_code=ReasonCode.RE_AUTHENTICATE))
        self._deadlines.start("authentication", self.options.authentication_timeout)
        self.state = State.REAUTHENTICATING

    def _send_keepalive(self) -> None:
        self._put(b"\xc0\x00")
        self._ping_unanswered = True
        self._await_answer()

    def _heard(self) -> None:
        super()._heard()
        self._ping_unanswered = False
        self._deadlines.cancel("answer")

    def _note_reading(self) -> None:
        super()._note_reading()
        self._await_answer()

    def _await_answer(self) -> None:
        """PINGRESP is awaited only while we read."""
        if not self._ping_unanswered or not self._reading:
            self._deadlines.cancel("answer")
        elif "answer" not in self._deadlines:
            self._deadlines.start("answer", self.options.answer_timeout)

    # ---- receiving

    def _look_at_opening(self, data: Buffer) -> Buffer:
        if self.state is State.CONNECTING and len(self._opening) < _LARGEST_OPENING:
            self._opening += bytes(data)
        return data

    def _fault(self, error: Fault, events: list[Event]) -> None:
        refusal = self._refusal_of_another_version() if self.state is State.CONNECTING else None
        if refusal is None:
            super()._fault(error, events)
        else:
            self._on_connack(refusal, events)

    def _refusal_of_another_version(self) -> mqtt.Connack | None:
        """A server that does not speak our version refuses in its own: one of 3.1.1 with two bytes (3.1.1, 3.1.2.2), one of 5.0
        with properties behind the code (3.1.2.2)."""
        try:
            size = mqtt.frame_size(self._opening)
            packet = self._opening[: size if isinstance(size, int) else 0]
            message = mqtt.decode(packet, version=4 if self.version == 5 else 5, side="server")
        except DecodeError:
            return None
        return message if isinstance(message, mqtt.Connack) and message.reason_code else None

    def _on_connack(self, message: mqtt.Connack, events: list[Event]) -> None:
        connect, session = self.connect, self._session
        assert connect is not None
        self._opening = b""
        self._authentication = None
        self._deadlines.cancel("connect")
        self._deadlines.cancel("authentication")
        if message.reason_code:
            self._end("peer", message.reason_code, _why(message, connect.version), events, message=message)
            return
        self.state = State.CONNECTED
        clean = connect.clean_start
        if message.session_present and (clean or not session.established):
            raise RemoteProtocolError(
                "Session Present 1, but there is no session on this side [MQTT-3.2.2-4]",
                reply=ReasonCode.PROTOCOL_ERROR,
            )
        self._check_method(message)
        properties = message.properties
        if connect.client_identifier and find(properties, "assigned_client_identifier") is not None:
            raise RemoteProtocolError(
                "an Assigned Client Identifier, but CONNECT had one (3.2.2.3.7)", reply=ReasonCode.PROTOCOL_ERROR
            )
        identifier = find(properties, "assigned_client_identifier") or connect.client_identifier
        self.negotiated = agreed(connect, identifier, properties, properties)
        # MQTT 3.1 has no Session Present: a client that asks for its old session gets it.
        known = session.established
        resumed = not clean and (message.session_present is not False)
        lost = () if resumed else session.clear()  # [MQTT-3.1.2-4], [MQTT-3.2.2-5]
        session.establish(identifier, self.negotiated.session_expiry_interval)
        self._limit(self.negotiated)
        keep_alive = self.negotiated.keep_alive
        if keep_alive:
            margin = min(keep_alive / 10, 5.0)
            self._keep_alive(send_every=keep_alive - margin)
        events.append(Connected(self.negotiated, message, resumed and known, lost))
        self._resume_session(events)

    def _on_answer(self, message: mqtt.Suback | mqtt.Unsuback, events: list[Event]) -> None:
        identifier = message.packet_identifier
        request = self._requests.get(identifier)
        if request is None:
            if identifier in self._session.outgoing:
                raise self._wrong_kind(type(message).__name__.upper(), identifier)
            self.strays += 1
            return
        asked = request.message
        if isinstance(message, mqtt.Suback):
            fits = isinstance(asked, mqtt.Subscribe) and len(message.reason_codes) == len(asked.subscriptions)
        else:
            count = len(asked.topic_filters) if isinstance(asked, mqtt.Unsubscribe) else -1
            fits = count >= 0 and len(message.reason_codes) in (0, count)  # none: before 5.0, or tolerated
        if not fits:
            raise RemoteProtocolError(
                f"the answer does not fit the request with packet identifier {identifier} [MQTT-3.8.4-6]",
                reply=ReasonCode.PROTOCOL_ERROR,
            )
        del self._requests[identifier]
        self._session.identifiers.release(identifier)
        events.append(Acknowledged(request, message))
        self._note_window(events)

    def _stray(self, kind: str, identifier: int) -> None:
        if identifier in self._requests:
            raise self._wrong_kind(kind, identifier)
        super()._stray(kind, identifier)

    def _on_pingresp(self, message: mqtt.Pingresp, events: list[Event]) -> None:
        if self._host_pings:
            self._host_pings -= 1
            events.append(message)

    def _on_disconnect(self, message: mqtt.Disconnect, events: list[Event]) -> None:
        reason = find(message.properties, "reason_string") or "the server has disconnected"
        self._end_last()
        self._end("peer", message.reason_code or 0, reason, events, message=message)

    def _on_auth(self, message: mqtt.Auth, events: list[Event]) -> None:
        if self._authentication is not None:
            raise RemoteProtocolError("AUTH before the last one was answered (4.12)", reply=ReasonCode.PROTOCOL_ERROR)
        self._check_method(message)
        self._deadlines.cancel("authentication")
        if message.reason_code == ReasonCode.CONTINUE_AUTHENTICATION:
            self._authentication = message
            if "connect" in self._deadlines:  # the host's time does not count
                self._deadlines.cancel("connect")
        events.append(message)

    def _forget(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        requests = tuple(self._requests.values())
        for request in requests:
            self._session.identifiers.release(request.packet_identifier)
        self._requests.clear()
        resumable, lost = super()._forget()
        return resumable, requests + lost

    _handlers: ClassVar = {
        mqtt.Connack: _on_connack,
        mqtt.Publish: Receiving._on_publish,
        mqtt.Puback: Flows._on_puback,
        mqtt.Pubrec: Sending._on_pubrec,
        mqtt.Pubrel: Receiving._on_pubrel,
        mqtt.Pubcomp: Sending._on_pubcomp,
        mqtt.Suback: _on_answer,
        mqtt.Unsuback: _on_answer,
        mqtt.Pingresp: _on_pingresp,
        mqtt.Disconnect: _on_disconnect,
        mqtt.Auth: _on_auth,
    }
    _senders: ClassVar = {
        mqtt.Connect: _send_connect,
        mqtt.Publish: Sending._send_publish,
        mqtt.Subscribe: _send_request,
        mqtt.Unsubscribe: _send_request,
        mqtt.Pingreq: _send_pingreq,
        mqtt.Auth: _send_auth,
    }


def _why(message: mqtt.Connack, version: int) -> str:
    """Why the server has refused a CONNECT of this version."""
    code = message.reason_code
    said: str | None = find(message.properties, "reason_string")
    if code in (ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION):
        name = f"the server does not speak MQTT {_NAMES[version]}"
        return f"{name}: {said}" if said else name
    return said or _CONNACK_CODES.get(code, "the server has refused")


_NAMES = {3: "3.1", 4: "3.1.1", 5: "5.0"}
_CONNACK_CODES = {**CONNACK_RETURN_CODES, **{row.code: row.name for row in REASON_CODES if "CONNACK" in row.packets}}

#: Bytes of CONNACK that a client keeps until it is read: more than its strings can have.
_LARGEST_OPENING = 1 << 18
