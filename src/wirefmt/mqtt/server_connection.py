"""The server's side of an MQTT connection without I/O, for 3.1, 3.1.1 and 5.0.

docs/connections.md describes the contract, docs/mqtt-connection.md the states. Sections are those of MQTT 5.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from wirefmt import mqtt
from wirefmt.connection.contract import Connected
from wirefmt.connection.deadlines import Keepalive
from wirefmt.connection.states import Role
from wirefmt.errors import LocalProtocolError, RemoteProtocolError
from wirefmt.mqtt._codec import Flows
from wirefmt.mqtt.codes import ReasonCode, ReturnCode
from wirefmt.mqtt.endpoint import (
    REASONS,
)
from wirefmt.mqtt.events import (
    LARGEST_PACKET,
    Asked,
    ConnectionOptions,
    Event,
    Negotiated,
    Pairs,
    ServerEvent,
    agreed,
    announced,
    check_subscriptions,
    find,
    without,
)
from wirefmt.mqtt.receiving import Receiving
from wirefmt.mqtt.sending import Sending
from wirefmt.mqtt.session import Session
from wirefmt.mqtt.spec import FAILURE
from wirefmt.mqtt.states import State

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ServerConnection(Sending[ServerEvent], Receiving[ServerEvent]):
    """The server's side of one connection.

    Events and their answers:

    - `mqtt.Connect`: `accept`, `refuse`, or `continue_authentication`. Nothing else is read before.
    - `mqtt.Auth`: the same, during an authentication exchange.
    - `mqtt.Publish` of QoS 1 and 2: `acknowledge`. QoS 0 has no answer.
    - `mqtt.Subscribe`, `mqtt.Unsubscribe`: `grant`.
    - `Connected`, `Acknowledged`, `WindowOpened`, `Dropped`, `Released`, `Disconnected`: no answer. `Disconnected.will` is
      the client's will if it has to be published, after its delay.

    Args:
        now: the time at which the transport was accepted.
        options: limits and times.
        random: for a Client Identifier that `accept` assigns; None: `accept` needs `assigned_client_identifier` for a client of
            5.0 that has none.

    Attributes:
        bridge: the client is a bridge of mosquitto's kind (`try_private`): it expects RETAIN as published, and none of its own
            messages.
    """

    role = Role.SERVER
    _late: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "connect": ("no CONNECT has arrived in time", None),
        "authentication": ("no AUTH has arrived in time", ReasonCode.NOT_AUTHORIZED),
        Keepalive.EXPECT: ("nothing has arrived within one and a half Keep Alive", ReasonCode.KEEP_ALIVE_TIMEOUT),
    }

    def __init__(self, now: float, options: ConnectionOptions | None = None, random: Random | None = None) -> None:
        super().__init__(now, options)
        self._random = random
        self._opening = b""  # the first bytes of CONNECT: they say which version to answer in
        self._waiting: mqtt.Connect | None = None  # waits for the host
        self._will_removed = False
        self.bridge = False
        self._deadlines.set("connect", now + self.options.connect_timeout)

    @property
    def session(self) -> Session | None:
        """The session; None: the host has not accepted."""
        return self._session

    def _look_at_opening(self, data: Buffer) -> Buffer:
        return self._read_opening(bytes(data)) if self.state is State.IDLE and len(self._opening) < 16 else data

    def _read_opening(self, data: bytes) -> bytes:
        """Keep the first bytes. Returns the data without the highest bit of the protocol's version, by which mosquitto marks that
        its client is a bridge."""
        before = len(self._opening)
        self._opening = (self._opening + data[:16])[:16]
        at = 1
        while at < len(self._opening) and self._opening[at] & 0x80:
            at += 1
        for name, version in ((b"\0\4MQTT", 4), (b"\0\6MQIsdp", 3)):
            level = at + 1 + len(name)
            if self._opening[at + 1 : level + 1] == name + bytes((0x80 | version,)):
                self.bridge = True
                self._opening = self._opening[:level] + bytes((version,)) + self._opening[level + 1 :]
                at = level - before
                return data[:at] + bytes((version,)) + data[at + 1 :]
        return data

    # ---- answers

    def accept(
        self,
        event: mqtt.Connect | mqtt.Auth,
        session: Session | None = None,
        properties: Pairs = (),
        authentication_data: bytes | None = None,
    ) -> list[ServerEvent]:
        """Accept a CONNECT, or the AUTH that completes an exchange [MQTT-3.1.4-5].

        Limits of ConnectionOptions and the Authentication Method are added to the properties of CONNACK. The connection
        keeps to what the other properties announce (Server Keep Alive, Session Expiry Interval, Maximum QoS, Retain
        Available ...).

        Args:
            event: the event to answer.
            session: the stored session of this Client Identifier, which goes on. None: there was none, or Clean Start is 1.
            properties: of CONNACK. A client of 5.0 without a Client Identifier is given `assigned_client_identifier`, or else one
                that the connection makes [MQTT-3.2.2-16]. Response Information is left out if the client has not asked for it
                [MQTT-3.1.2-28].
            authentication_data: for the client.

        Returns `Connected`, events of what the client has sent after CONNECT, and events of the resumed session. To
        complete a re-authentication: events that had to wait.

        Raises LocalProtocolError if the event does not wait for an answer, or the answer breaks a rule.
        """
        self._check_over()
        if self.state is State.REAUTHENTICATING:
            self._take_auth(event)
            own = self._auth_properties(authentication_data, properties)
            self._put(self._fit(mqtt.Auth, own, reason_code=ReasonCode.SUCCESS))
            self._authentication = None
            self.state = State.CONNECTED
            return self._go_on()
        connect = self._take_request(event)
        negotiated, announced = self._negotiate(connect, session, tuple(properties), authentication_data)
        resumed = session is not None
        self._problem_information = bool(find(connect.properties, "request_problem_information", 1))
        packet = self._fit(mqtt.Connack, announced, session_present=resumed and connect.version != 3)
        self.negotiated = negotiated
        self._put(packet)
        if session is None:
            session = Session(negotiated.client_identifier, journaled=self.options.journaled)
        session.held = True
        session.establish(negotiated.client_identifier, negotiated.session_expiry_interval)
        self._session = session
        self._waiting = self._authentication = None
        self.state = State.CONNECTED
        self._limit(negotiated)
        self._restricted |= negotiated.maximum_qos < 2 or not negotiated.retain_available
        if negotiated.keep_alive:
            # [MQTT-3.1.2-22]: one and a half times
            self._keep_alive(expect_within=negotiated.keep_alive * 1.5)
        connack = mqtt.decode(packet, version=connect.version)
        events: list[Event] = [Connected(negotiated, connack, resumed)]
        self._resume_session(events)
        return events + self._go_on()

    def refuse(self, event: mqtt.Connect | mqtt.Auth, reason_code: int, properties: Pairs = ()) -> list[ServerEvent]:
        """Refuse a CONNECT or an AUTH, and end [MQTT-3.1.4-2, MQTT-4.12.0-4, MQTT-4.12.1-2].

        What the client has sent after it is dropped [MQTT-3.1.4-6].

        Args:
            event: the event to answer.
            reason_code: of CONNACK, or of DISCONNECT if a re-authentication is refused. Before 5.0: a return code of 1 to 5.
            properties: of CONNACK or DISCONNECT, as `server_reference` or `reason_string`.

        Returns the `Disconnected` event. Raises LocalProtocolError as `accept` does.
        """
        self._check_over()
        events: list[Event] = []
        if reason_code == ReasonCode.SUCCESS:
            raise LocalProtocolError("a refusal has a code other than 0")
        if self.state is State.REAUTHENTICATING:
            self._take_auth(event)
            packet = self._fit(mqtt.Disconnect, properties, reason_code=reason_code)
        else:
            self._take_request(event)
            packet = self._fit(mqtt.Connack, properties, reason_code=reason_code)
        self._put(packet)
        self._end("local", reason_code, "refused by the host", events)
        return events

    def continue_authentication(
        self, event: mqtt.Connect | mqtt.Auth, authentication_data: bytes | None = None, properties: Pairs = ()
    ) -> list[ServerEvent]:
        """Ask the client for its next AUTH with AUTH 0x18 [MQTT-4.12.0-2]. The method is added."""
        self._check_over()
        if self._method() is None:
            raise LocalProtocolError(
                "CONNECT has no Authentication Method [MQTT-4.12.0-6]", reply=ReasonCode.PROTOCOL_ERROR
            )
        if self.state is State.REAUTHENTICATING:
            self._take_auth(event)
        else:
            self._take_request(event)
        own = self._auth_properties(authentication_data, properties)
        self._put(self._fit(mqtt.Auth, own, reason_code=ReasonCode.CONTINUE_AUTHENTICATION))
        self._authentication = None
        self._waiting = None
        self._deadlines.start("authentication", self.options.authentication_timeout)
        if self.state is State.CONNECTING:
            self.state = State.AUTHENTICATING
        return self._go_on()

    def grant(self, event: Asked, reason_codes: Iterable[int] = (), properties: Pairs = ()) -> list[ServerEvent]:
        """Answer a SUBSCRIBE or UNSUBSCRIBE with a code for each filter, in their order [MQTT-3.8.4-6, MQTT-3.9.3-1].

        Args:
            event: the event to answer.
            reason_codes: SUBSCRIBE: the granted QoS, or 0x80 and above for a failure; 3.1.1 has 0x80 only, which any
                failure becomes; 3.1 has no failure. UNSUBSCRIBE in 5.0: 0x00, 0x11, or a failure; none: all 0x00.
            properties: of the answer.

        Returns events that had to wait for this answer. Raises LocalProtocolError if the event does not wait for an
        answer, or the answer cannot be written.
        """
        if not self._answers_leave:  # else it has ended after it had read the request, and the answer can leave
            self._check_connected()
        identifier = event.packet_identifier if isinstance(event, mqtt.Subscribe | mqtt.Unsubscribe) else 0
        if self._asked.get(identifier) is not event:
            raise LocalProtocolError("this request does not wait for an answer")
        codes = tuple(reason_codes)
        if isinstance(event, mqtt.Subscribe):
            wanted = len(event.subscriptions)
            if self.version == 4:
                codes = tuple(min(code, FAILURE) for code in codes)
            if len(codes) != wanted or (self.version == 3 and any(code > 2 for code in codes)):
                raise LocalProtocolError(f"{wanted} codes are needed, each of them one of this version")
            packet = self._fit(mqtt.Suback, properties, packet_identifier=identifier, reason_codes=codes)
        elif self.version == 5:
            wanted = len(event.topic_filters)
            codes = codes or (ReasonCode.SUCCESS,) * wanted
            if len(codes) != wanted:
                raise LocalProtocolError(f"{wanted} codes are needed")
            packet = self._fit(mqtt.Unsuback, properties, packet_identifier=identifier, reason_codes=codes)
        else:
            packet = b"\xb0\x02" + identifier.to_bytes(2)
        del self._asked[identifier]
        self._put(packet)
        return self._go_on()

    def close(
        self, reason_code: int = ReasonCode.SERVER_SHUTTING_DOWN, properties: Pairs = (), *, immediate: bool = False
    ) -> list[ServerEvent]:
        """End the connection. In 5.0 the client receives DISCONNECT once it has been accepted [MQTT-3.14.0-1];
        otherwise it receives nothing.

        Close a connection whose session is taken over with 0x8E before the session is given to the other connection
        [MQTT-3.1.4-3]. With `immediate` nothing is sent and what is queued is dropped.

        Returns the `Disconnected` event. Raises LocalProtocolError for a code or property that cannot be sent.
        """
        self._check_over()
        self._flush()
        if immediate:
            return self._drop()
        events: list[Event] = []
        code = None
        if self.version == 5 and self._up:
            if find(properties, "session_expiry_interval") is not None:
                raise LocalProtocolError("a server sends no Session Expiry Interval [MQTT-3.14.2-2]")
            self._put(self._fit(mqtt.Disconnect, properties, reason_code=reason_code))
            code = reason_code
        self._end("local", code, "closed by the host", events)
        return events

    # ---- CONNECT

    def _on_connect(self, message: mqtt.Connect, events: list[Event]) -> None:
        self._deadlines.cancel("connect")
        self.version = message.version
        self.connect = message
        if not message.client_identifier and (
            message.version == 3 or (message.version == 4 and not message.clean_start)
        ):
            # 3.1.1: [MQTT-3.1.3-8]; 3.1, 3.1
            self._put(mqtt.Connack(reason_code=ReturnCode.IDENTIFIER_REJECTED, version=message.version).encode())
            error = RemoteProtocolError("an empty Client Identifier", reply=ReturnCode.IDENTIFIER_REJECTED)
            self._end("local", ReturnCode.IDENTIFIER_REJECTED, str(error), events, error=error)
            return
        self._check_text(message.client_identifier, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
        self._check_text(message.user_name or "", None)
        if message.will is not None:
            self._check_text(message.will.topic)
        self._waiting = message
        events.append(message)

    def _take_request(self, event: mqtt.Connect | mqtt.Auth) -> mqtt.Connect:
        """The CONNECT that the host decides about, by answering it or an AUTH that came for it."""
        waiting = self._waiting if self._authentication is None else self._authentication
        if self.state is not State.CONNECTING or waiting is not event:
            raise LocalProtocolError("this event does not wait for an answer")
        assert self.connect is not None
        return self.connect

    def _negotiate(
        self,
        connect: mqtt.Connect,
        session: Session | None,
        properties: tuple[tuple[str, Any], ...],
        authentication_data: bytes | None,
    ) -> tuple[Negotiated, tuple[tuple[str, Any], ...]]:
        """What is agreed on, and the properties of CONNACK."""
        if session is not None and connect.clean_start:
            raise LocalProtocolError("Clean Start 1: the stored session ends [MQTT-3.1.2-4]")
        if session is not None and session.held:
            raise LocalProtocolError("the session belongs to another connection: close that one first [MQTT-3.1.4-3]")
        if connect.version != 5:
            if properties or authentication_data is not None:
                raise LocalProtocolError("before 5.0 there are no properties")
            identifier = connect.client_identifier or (session.client_identifier if session else self._made_up())
            return agreed(connect, identifier, (), ()), ()
        assigned = find(properties, "assigned_client_identifier")
        if not connect.client_identifier and not assigned:
            assigned = self._made_up()
            if not assigned:
                raise LocalProtocolError(
                    "an empty Client Identifier: accept(..., properties=[('assigned_client_identifier', ...)]), "
                    "or give the connection `random` [MQTT-3.2.2-16]"
                )
            properties = (*properties, ("assigned_client_identifier", assigned))
        method = self._method()
        own: list[tuple[str, Any]] = []
        if method is not None:
            own.append(("authentication_method", method))  # [MQTT-4.12.0-5]
        elif authentication_data is not None:
            raise LocalProtocolError("CONNECT has no Authentication Method [MQTT-4.12.0-6]")
        if authentication_data is not None:
            own.append(("authentication_data", authentication_data))
        asked = connect.properties
        if not find(asked, "request_response_information", 0):
            properties = without(properties, "response_information")  # [MQTT-3.1.2-28]
        negotiated = agreed(connect, connect.client_identifier or assigned, properties, asked)
        will = connect.will
        if will is not None and will.qos > negotiated.maximum_qos:
            raise LocalProtocolError(
                "the will's QoS: refuse with 0x9B [MQTT-3.2.2-12]", reply=ReasonCode.QOS_NOT_SUPPORTED
            )
        if will is not None and will.retain and not negotiated.retain_available:
            raise LocalProtocolError(
                "the will is retained: refuse with 0x9A [MQTT-3.2.2-13]", reply=ReasonCode.RETAIN_NOT_SUPPORTED
            )
        return negotiated, announced((*properties, *own), self.options)

    def _made_up(self) -> str:
        """A Client Identifier for a client that has none: of characters, and as long, as every server takes [MQTT-3.1.3-5]."""
        return self._random.randbytes(10).hex() if self._random is not None else ""

    def _maximum_packet_size(self) -> int:
        """The client's limit holds from the first CONNACK on, refusals too."""
        if self.version != 5 or self.connect is None:
            return LARGEST_PACKET
        most: int = find(self.connect.properties, "maximum_packet_size", LARGEST_PACKET)
        return most

    # ---- other packets

    def _check_publish(self, message: mqtt.Publish) -> None:
        negotiated = self.negotiated
        assert negotiated is not None
        if message.qos > negotiated.maximum_qos:
            raise RemoteProtocolError("QoS above our Maximum QoS [MQTT-3.2.2-11]", reply=ReasonCode.QOS_NOT_SUPPORTED)
        if message.retain and not negotiated.retain_available:
            raise RemoteProtocolError(
                "we do not retain messages [MQTT-3.2.2-14]", reply=ReasonCode.RETAIN_NOT_SUPPORTED
            )

    def _on_request(self, message: Asked, events: list[Event]) -> None:
        identifier = message.packet_identifier
        if identifier in self._asked:
            if self.version == 3 and message.dup:
                return  # 3.1, 4.1: a client may send its requests again while they are not answered
            raise RemoteProtocolError(
                f"packet identifier {identifier} is in use [MQTT-2.2.1-3]", reply=ReasonCode.PROTOCOL_ERROR
            )
        if isinstance(message, mqtt.Subscribe):
            assert self.negotiated is not None
            check_subscriptions(message, self.negotiated, RemoteProtocolError)
            filters = tuple(subscription.topic_filter for subscription in message.subscriptions)
        else:
            filters = message.topic_filters
        for topic_filter in filters:
            self._check_text(topic_filter)
        self._asked[identifier] = message
        events.append(message)

    def _on_pingreq(self, message: mqtt.Pingreq, events: list[Event]) -> None:
        """[MQTT-3.12.4-1]. PINGRESP follows what the host answers at once to the packets before, so that a client that sees it
        knows that they have been handled."""
        if events:
            self._pong_last()
        else:
            self._put(b"\xd0\x00")

    def _on_disconnect(self, message: mqtt.Disconnect, events: list[Event]) -> None:
        code = message.reason_code or 0
        if self._session is not None:
            expiry = find(message.properties, "session_expiry_interval")
            if expiry is not None:
                if expiry and not find(self.connect.properties if self.connect else (), "session_expiry_interval", 0):
                    raise RemoteProtocolError(
                        "a Session Expiry Interval of 0 cannot be raised in DISCONNECT (3.14.2.2.2)",
                        reply=ReasonCode.PROTOCOL_ERROR,
                    )
                self._session.expiry_interval = expiry
                self._session.note_meta()
        self._will_removed = code == ReasonCode.SUCCESS  # [MQTT-3.1.2-10], [MQTT-3.14.4-3]
        reason = find(message.properties, "reason_string") or "the client has disconnected"
        self._end_last()
        self._end("peer", code, reason, events, message=message)

    def _on_auth(self, message: mqtt.Auth, events: list[Event]) -> None:
        if self._authentication is not None:
            raise RemoteProtocolError("AUTH before the last one was answered (4.12)", reply=ReasonCode.PROTOCOL_ERROR)
        if self._method() is None:
            raise RemoteProtocolError(
                "CONNECT has no Authentication Method [MQTT-4.12.0-7]", reply=ReasonCode.PROTOCOL_ERROR
            )
        self._check_method(message)
        self._deadlines.cancel("authentication")
        self._authentication = message
        events.append(message)

    @property
    def undecided(self) -> int:
        waiting = self.state is State.CONNECTING and self._authentication is None
        return super().undecided + waiting

    # ---- the end

    def _tell(self, code: int, reason: str) -> int | None:
        if self.state is State.IDLE:
            return self._refuse_unread(code)
        if self.version == 5 and self.state in (State.CONNECTING, State.AUTHENTICATING):
            code = code if code in REASONS["CONNACK"] else ReasonCode.PROTOCOL_ERROR
            self._put(mqtt.Connack(reason_code=code, version=5).encode())
            return code
        return super()._tell(code, reason)

    def _refuse_unread(self, code: int) -> int | None:
        """Answer a CONNECT that cannot be read, if it shows which version to answer in (3.1.4).

        Level 3 or 4 under the other protocol name gets return code 1, and an unknown level the CONNACK of 5.0 with 0x84, as
        mosquitto does. A first packet other than CONNECT, a CONNECT of another protocol, and one of 3.1 or 3.1.1 with a
        fault get nothing [MQTT-3.1.4-1].
        """
        opening = self._opening
        if not opening or opening[0] != 0x10:
            return None
        at = 1
        while at < len(opening) and opening[at] & 0x80:
            at += 1
        name = opening[at + 3 : at + 3 + int.from_bytes(opening[at + 1 : at + 3])]
        if code == ReturnCode.UNACCEPTABLE_PROTOCOL_VERSION:
            if name not in (b"MQTT", b"MQIsdp"):
                return None
            self._put(b"\x20\x02\x00\x01")
            return code
        if code != ReasonCode.UNSUPPORTED_PROTOCOL_VERSION and opening[at + 1 : at + 8] != b"\x00\x04MQTT\x05":
            return None
        code = code if code in REASONS["CONNACK"] else ReasonCode.MALFORMED_PACKET
        self._put(mqtt.Connack(reason_code=code, version=5).encode())
        return code

    def _end(self, *args: Any, **kwargs: Any) -> None:
        # [MQTT-3.1.2-8]: the will is published unless a normal DISCONNECT has removed it.
        if self._up and self.connect is not None and not self._will_removed:
            kwargs["will"] = self.connect.will
        if not self._answers_leave:
            self._asked.clear()
        self._waiting = None
        super()._end(*args, **kwargs)

    _handlers: ClassVar = {
        mqtt.Connect: _on_connect,
        mqtt.Publish: Receiving._on_publish,
        mqtt.Puback: Flows._on_puback,
        mqtt.Pubrec: Sending._on_pubrec,
        mqtt.Pubrel: Receiving._on_pubrel,
        mqtt.Pubcomp: Sending._on_pubcomp,
        mqtt.Subscribe: _on_request,
        mqtt.Unsubscribe: _on_request,
        mqtt.Pingreq: _on_pingreq,
        mqtt.Disconnect: _on_disconnect,
        mqtt.Auth: _on_auth,
    }
    _senders: ClassVar = {mqtt.Publish: Sending._send_publish}
