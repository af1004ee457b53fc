"""AMQP 0.9.1 connections without I/O: a client's and a server's, with RabbitMQ's extensions.

docs/connections.md describes the contract, docs/amqp091-connection.md the states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication, ServerFlows
from wirefmt.amqp091.channel import ids_of, text_of
from wirefmt.amqp091.client_channel import ClientChannel
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.endpoint import Endpoint
from wirefmt.amqp091.events import (
    CLIENT_CAPABILITIES,
    SERVER_CAPABILITIES,
    SOFT,
    Call,
    ChannelWaits,
    ClientEvent,
    ConnectionOptions,
    Event,
    Negotiated,
    ServerEvent,
)
from wirefmt.amqp091.server_channel import ServerChannel
from wirefmt.amqp091.session import Session
from wirefmt.amqp091.spec import FRAME_MIN, PROTOCOL_HEADER
from wirefmt.amqp091.states import SENDS, ChannelState, State
from wirefmt.connection.contract import Acknowledged, Change, Connected
from wirefmt.connection.endpoint import Fault
from wirefmt.connection.sasl import Mechanism, Plain
from wirefmt.connection.states import Role, Violation
from wirefmt.errors import EncodeError, LocalProtocolError, RemoteProtocolError

_MOST = 65535


def smaller(ours: int, theirs: int) -> int:
    """The smaller limit, where 0 means none."""
    return min(ours, theirs) if ours and theirs else max(ours, theirs)


def _capabilities(properties: amqp091.FieldTable) -> frozenset[str]:
    table = properties.get("capabilities")
    if not isinstance(table, amqp091.FieldTable):
        return frozenset()
    return frozenset(text_of(name) for name, value in table.items() if value is True)


class ClientConnection(Endpoint[ClientEvent]):
    """The client's side of one connection.

    ::

        client = amqp091.ClientConnection(now)
        client.open("/", [amqp091.Plain("guest", "guest")])
        ...                                     # write data_to_send(), give what comes to receive(), until Connected
        channel = client.open_channel()
        channel.call(amqp091.QueueDeclare, queue="orders")

    Events: `Connected`; `Acknowledged` with the handle of a call and the reply; `amqp091.BasicMessage` with basic.deliver
    (answer with `ClientChannel.ack`, `nack` or `reject`, unless the consumer has no_ack); `Confirmed`; `Returned`;
    `amqp091.BasicCancel`: the server has ended a consumer; `amqp091.ChannelFlow`, `ChannelFlowOk`;
    `amqp091.ConnectionBlocked`, `ConnectionUnblocked`; `WindowOpened`; `ChannelClosed`; `Disconnected`, whose `message` is the
    method of a content that could not be read.

    Args:
        now: the time at which the transport was connected.
        session: messages of an earlier connection that are not confirmed. None: there are none.
        options: limits and times.
    """

    role = Role.CLIENT
    _channel = ClientChannel
    _sender = "server"
    _free_state = ChannelState.CLOSED

    def __init__(self, now: float, session: Session | None = None, options: ConnectionOptions | None = None) -> None:
        super().__init__(now, options)
        if session is None:
            session = Session()
        if session.held:
            raise LocalProtocolError("the session belongs to another connection")
        session.held = True
        self._session = session
        self._latest = 0  # number of the channel that was opened last without one given
        self._used: set[int] = set()  # numbers that have had a channel
        self._mechanisms: Sequence[Mechanism] = ()
        self._mechanism: Mechanism | None = None
        self._virtual_host = "/"
        self._properties: dict[str, Any] = {}
        self._server_properties = amqp091.FieldTable()
        self._secrets: list[Call] = []
        self._tuned = (0, 0, 0)

    @property
    def session(self) -> Session:
        session: Session = self._session
        return session

    def changes(self) -> list[Change]:
        """What a journal must keep since the last call: see `Session.changes`."""
        return self.session.changes()

    def open(
        self,
        virtual_host: str = "/",
        mechanisms: Sequence[Mechanism] = (Plain("guest", "guest"),),
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Send the protocol header and go through the handshake. `Connected` or `Disconnected` follows.

        Args:
            virtual_host: the virtual host.
            mechanisms: of SASL, the best first: the first one that the server has is used.
            properties: client-properties, for example connection_name; capabilities are added.
        """
        self._check_over()
        transition = SENDS[self.role, self._state, "protocol header"]
        if isinstance(transition, Violation):
            raise LocalProtocolError(transition.rule, reply=transition.reply)
        if not mechanisms:
            raise LocalProtocolError("no mechanism is given")
        given = dict(properties or {})
        capabilities = {**CLIENT_CAPABILITIES, **given.get("capabilities", {})}
        self._properties = {"product": "wirefmt", "platform": "Python", **given, "capabilities": capabilities}
        try:
            start_ok = amqp091.ConnectionStartOk(client_properties=self._properties, response=b"").encode()
            amqp091.ConnectionOpen(virtual_host=virtual_host).encode()
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error
        self._check_size(start_ok)
        self._mechanisms = mechanisms
        self._virtual_host = virtual_host
        self._put(PROTOCOL_HEADER)
        self.state = State.STARTING

    def open_channel(self, number: int | None = None) -> ClientChannel:
        """Open a channel: `Acknowledged` follows. Methods may be sent on it at once.

        Args:
            number: of the channel; None: one that is free.

        Raises LocalProtocolError if all channels are open, or this one is.
        """
        self._check_open()
        assert self.negotiated is not None
        if len(self.channels) >= self.negotiated.channel_max:
            raise LocalProtocolError(
                f"{len(self.channels)} channels are open, more are not allowed", reply=ReplyCode.NOT_ALLOWED
            )
        if number is None:
            number = self._free_number(self.negotiated.channel_max)
        elif not 1 <= number <= _MOST:
            raise LocalProtocolError(f"a channel is a number of 1 to {_MOST}, not {number!r}")
        elif number in self.channels:
            raise LocalProtocolError(f"channel {number} is open or waits for close-ok", reply=ReplyCode.CHANNEL_ERROR)
        channel = ClientChannel(self, number)
        self.channels[number] = channel
        self._used.add(number)
        channel.state = ChannelState.OPENING
        message = amqp091.ChannelOpen(channel=number)
        self._put(message.encode())
        call = Call(self._next_number(), message)
        channel._calls[amqp091.ChannelOpenOk] = deque((call,))
        channel.opened = call
        return channel

    def _free_number(self, most: int) -> int:
        """The next free number. 1.4.2.5: channel-max is the highest one; RabbitMQ only counts channels."""
        number = self._latest % most + 1
        while number in self.channels:
            number = number % most + 1
        self._latest = number
        return number

    def send(self, message: Any) -> Any:
        """Queue a method or a message, on its channel: see `ClientChannel.send`. Of class connection it takes update-secret and
        heartbeats.

        Raises LocalProtocolError if it is not legal now; nothing has changed.
        """
        self._check_over()
        if isinstance(message, amqp091.Heartbeat) and SENDS[self.role, self._state, "heartbeat"] is self._state:
            self._put(message.encode())
            return None
        if isinstance(message, amqp091.ConnectionUpdateSecret):
            return self.update_secret(message.new_secret, text_of(message.reason))
        self._check_open()
        if not isinstance(message, amqp091.Method | amqp091.BasicMessage) or not message.channel:
            raise LocalProtocolError(f"{type(message).__name__} is sent by the connection itself, by open() or close()")
        channel = self.channels.get(message.channel)
        if channel is None:
            raise LocalProtocolError(
                f"channel {message.channel} is not open: open_channel() opens it", reply=ReplyCode.CHANNEL_ERROR
            )
        return channel.send(message)

    def update_secret(self, secret: bytes | str, reason: str = "") -> Call:
        """Give the server a new secret, as a token that replaces one that expires (RabbitMQ). `Acknowledged` follows."""
        self._check_open()
        try:
            message = amqp091.ConnectionUpdateSecret(new_secret=secret, reason=reason)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error
        self._put(message.encode())
        call = Call(self._next_number(), message)
        self._secrets.append(call)
        return call

    def _closed_channel(self, number: int) -> ClientChannel:
        channel = ClientChannel(self, number)
        if number in self._used:
            channel.state = ChannelState.CLOSED
        return channel

    def _waiting(self) -> int:
        waiting = 0
        for channel in self.channels.values():
            waiting += len(channel._tags)
        return waiting

    def _closed(self, channel: Any, events: list[Event]) -> None:
        self._free(channel)
        channel._gone("local", *channel._closed_with, events)

    def _close_channel(
        self, channel: Any, error: RemoteProtocolError, ids: tuple[int, int], events: list[Event]
    ) -> None:
        raise AssertionError  # faults of a server are hard: RabbitMQ's clients know no others

    def _say_fault(self, code: int, reason: str, message: Any) -> int | None:
        if self._state in (State.IDLE, State.STARTING):
            return None
        self._say_close(code, reason, ids_of(message) if isinstance(message, amqp091.Method) else (0, 0))
        return code

    def _finish_eof(self, events: list[Event]) -> None:
        said = "authentication_failure_close" in self.capabilities  # such a server would have said it
        if self._state is State.SECURING and not (said or self._decoder.unread or self._trailing or self._paused):
            self._end("transport", ReplyCode.ACCESS_REFUSED, "the server has closed: credentials are refused", events)
        else:
            super()._finish_eof(events)

    def _handles(self) -> tuple[tuple[Publication, ...], tuple[Any, ...]]:
        _, lost = super()._handles()
        self._session.held = False
        return tuple(self._session.outgoing.values()), (*lost, *self._secrets)

    # ---- handshake

    def _on_header(self, message: amqp091.ProtocolHeader, events: list[Event]) -> None:
        self._end("peer", None, "the server speaks another version, or wants another header", events, message=message)

    def _on_start(self, message: amqp091.ConnectionStart, events: list[Event]) -> None:
        if (message.version_major, message.version_minor) != (0, 9):
            raise RemoteProtocolError(
                f"the server speaks AMQP {message.version_major}-{message.version_minor} (1.4.2.1)",
                reply=ReplyCode.COMMAND_INVALID,
            )
        self._server_properties = message.server_properties
        self.capabilities = _capabilities(message.server_properties)
        offered = message.mechanisms.decode("utf-8", "replace").split()
        mechanism = next((m for m in self._mechanisms if m.name in offered), None)
        if mechanism is None:
            self._end("local", None, f"the server has none of our mechanisms: it has {', '.join(offered)}", events)
            return
        self._mechanism = mechanism
        reply = amqp091.ConnectionStartOk(
            client_properties=self._properties, mechanism=mechanism.name, response=mechanism.start() or b""
        )
        self._put_response(reply, events)

    def _put_response(self, message: amqp091.Method, events: list[Event]) -> None:
        """The mechanism's response may be too large for a frame."""
        try:
            self._put(message.encode())
        except LocalProtocolError as error:
            self._end("local", None, str(error), events)

    def _on_secure(self, message: amqp091.ConnectionSecure, events: list[Event]) -> None:
        assert self._mechanism is not None
        try:
            response = self._mechanism.respond(message.challenge)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(
                f"a challenge for {self._mechanism.name}: {error} (1.4.2.3)", reply=ReplyCode.COMMAND_INVALID
            ) from error
        self._put_response(amqp091.ConnectionSecureOk(response=response), events)

    def _on_tune(self, message: amqp091.ConnectionTune, events: list[Event]) -> None:
        """1.4.2.6: the client lowers what the server proposes; 0: no limit. Heartbeats: the smaller, or the one that is not 0,
        as in RabbitMQ's Java client."""
        options = self.options
        channel_max = smaller(options.channel_max, message.channel_max)
        frame_max = smaller(options.frame_max, message.frame_max)
        if frame_max and frame_max < FRAME_MIN:
            raise RemoteProtocolError(
                f"frame-max {frame_max} is below {FRAME_MIN} (1.4.2.5)", reply=ReplyCode.FRAME_ERROR
            )
        heartbeat = smaller(options.heartbeat, message.heartbeat)
        self._tuned = (channel_max, frame_max, heartbeat)
        tune_ok = amqp091.ConnectionTuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        self._put(tune_ok.encode())
        self._put(amqp091.ConnectionOpen(virtual_host=self._virtual_host).encode())
        self._use_frame_max(frame_max)
        self._begin_heartbeats(heartbeat)

    def _on_open_ok(self, message: amqp091.ConnectionOpenOk, events: list[Event]) -> None:
        assert self._mechanism is not None
        self._deadlines.cancel("handshake")
        self.state = State.OPEN
        channel_max, frame_max, heartbeat = self._tuned
        self.negotiated = Negotiated(
            channel_max=channel_max or _MOST,
            frame_max=frame_max,
            heartbeat=heartbeat,
            mechanism=self._mechanism.name,
            virtual_host=self._virtual_host,
            properties=self._server_properties,
            capabilities=self.capabilities,
        )
        events.append(Connected(self.negotiated, message, bool(self._session.outgoing)))

    # ---- open

    def _on_blocked(self, message: amqp091.ConnectionBlocked, events: list[Event]) -> None:
        self.blocked = True
        if self.options.blocked_timeout is not None and "blocked" not in self._deadlines:
            self._deadlines.start("blocked", self.options.blocked_timeout)
        events.append(message)

    def _on_unblocked(self, message: amqp091.ConnectionUnblocked, events: list[Event]) -> None:
        self.blocked = False
        self._deadlines.cancel("blocked")
        events.append(message)
        for channel in list(self.channels.values()):
            channel._window(events)

    def _on_secret(self, message: amqp091.ConnectionUpdateSecretOk, events: list[Event]) -> None:
        if not self._secrets:
            raise RemoteProtocolError("update-secret-ok without update-secret", reply=ReplyCode.COMMAND_INVALID)
        events.append(Acknowledged(self._secrets.pop(0), message))

    _handlers: ClassVar = {
        amqp091.ProtocolHeader: _on_header,
        amqp091.ConnectionStart: _on_start,
        amqp091.ConnectionSecure: _on_secure,
        amqp091.ConnectionTune: _on_tune,
        amqp091.ConnectionOpenOk: _on_open_ok,
        amqp091.ConnectionBlocked: _on_blocked,
        amqp091.ConnectionUnblocked: _on_unblocked,
        amqp091.ConnectionUpdateSecretOk: _on_secret,
        amqp091.ConnectionClose: Endpoint._on_close,
        amqp091.ConnectionCloseOk: Endpoint._on_close_ok,
    }


class ServerConnection(Endpoint[ServerEvent], ServerFlows):
    """The server's side of one connection.

    Events and their answers:

    - `amqp091.ConnectionStartOk`, `ConnectionSecureOk`: `accept`, `refuse`, or `challenge`. Nothing else is read before.
    - `amqp091.ConnectionOpen`: `accept` or `refuse`. Nothing else is read before.
    - `amqp091.BasicMessage` with basic.publish: on a channel in confirm mode `acknowledge` or `reject`, before it perhaps
      `return_message`; on any channel `refuse`.
    - `amqp091.ExchangeDeclare`, `ExchangeDelete`, `ExchangeBind`, `ExchangeUnbind`, `QueueDeclare`, `QueueBind`,
      `QueuePurge`, `QueueDelete`, `QueueUnbind`, `BasicConsume`, `TxCommit`: `reply` or `refuse`.
    - `amqp091.BasicGet`: `ServerChannel.get_ok`, `reply` (get-empty) or `refuse`.
    - `amqp091.ConnectionUpdateSecret`: `accept` or `refuse`.
    - `Connected`, `ChannelOpened`, `ChannelClosed`, `Settled`, `amqp091.BasicQos`, `BasicCancel`, `TxSelect`,
      `TxRollback`, `ChannelFlow`, `ChannelFlowOk`, `Disconnected`: no answer. Methods among them have been answered.
    - `ChannelWaits`: `proceed`, when the host has handled what came before it.

    The methods of a channel take effect and are answered in their order (4.7), as RabbitMQ does it: while a request waits for
    `reply`, `get_ok` or `refuse`, what comes after it on its channel waits, too, and these methods return the events of it. A
    message that waits for its confirm holds nothing up. After messages, the next other method waits for `proceed`.

    Events of one call of `receive` may be followed by the end of their channel. Answers to them are dropped then.

    From `TxSelect` on the host keeps messages of the channel until `TxCommit`; settlements come just before that event.

    Args:
        now: the time at which the transport was accepted.
        options: limits and times.
        mechanisms: of SASL, offered in start.
        properties: server-properties; capabilities are added.
    """

    role = Role.SERVER
    _channel = ServerChannel
    _sender = None  # a method that only a server sends is judged by the state, as RabbitMQ does it
    _free_state = ChannelState.UNUSED

    def __init__(
        self,
        now: float,
        options: ConnectionOptions | None = None,
        *,
        mechanisms: Iterable[str] = ("PLAIN", "AMQPLAIN"),
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(now, options)
        self.mechanisms = tuple(mechanisms)
        given = dict(properties or {})
        capabilities = {**SERVER_CAPABILITIES, **given.get("capabilities", {})}
        self._properties = {"product": "wirefmt", "platform": "Python", **given, "capabilities": capabilities}
        self._start = amqp091.ConnectionStart(
            server_properties=self._properties, mechanisms=" ".join(self.mechanisms), locales="en_US"
        ).encode()
        self._check_size(self._start)
        #: The client's start-ok, once it has arrived.
        self.start_ok: amqp091.ConnectionStartOk | None = None
        self._waits: Any = None  # the event of the handshake that waits for the host
        self._secret: Any = None
        self._tuned = (0, 0, 0)
        self._postponed: dict[
            int, deque[Any]
        ] = {}  # by channel: what has arrived after a request that waits for the host

    @property
    def undecided(self) -> int:
        """Events that wait for an answer of the host, and messages that wait after them."""
        return self._undecided + (self._waits is not None) + (self._secret is not None)

    # ---- answers of the handshake

    def accept(self, event: Any) -> list[ServerEvent]:
        """Accept credentials (tune is sent), an open (`Connected` is returned), or an update-secret.

        Returns events of bytes that were waiting."""
        self._check_over()
        if event is not None and event is self._secret:
            self._secret = None
            self._put(amqp091.ConnectionUpdateSecretOk().encode())
            return self._go_on()
        self._take(event)
        events: list[Event] = []
        if isinstance(event, amqp091.ConnectionOpen):
            self._put(amqp091.ConnectionOpenOk().encode())
            self._deadlines.cancel("handshake")
            self.state = State.OPEN
            assert self.start_ok is not None
            channel_max, frame_max, heartbeat = self._tuned
            self.negotiated = Negotiated(
                channel_max=channel_max or _MOST,
                frame_max=frame_max,
                heartbeat=heartbeat,
                mechanism=text_of(self.start_ok.mechanism),
                virtual_host=text_of(event.virtual_host),
                properties=self.start_ok.client_properties,
                capabilities=self.capabilities,
            )
            events.append(Connected(self.negotiated, event))
        else:
            options = self.options
            self._put(
                amqp091.ConnectionTune(
                    channel_max=options.channel_max, frame_max=options.frame_max, heartbeat=options.heartbeat
                ).encode()
            )
            self.state = State.TUNING
        return events + self._go_on()

    def challenge(self, event: Any, challenge: bytes) -> list[ServerEvent]:
        """Ask the client for another response (connection.secure)."""
        self._check_over()
        if isinstance(event, amqp091.ConnectionOpen):
            raise LocalProtocolError("credentials have been accepted")
        try:
            secure = amqp091.ConnectionSecure(challenge=challenge)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error
        self._check_size(secure.encode())
        self._take(event)
        self._put(secure.encode())
        self.state = State.SECURING
        return self._go_on()

    def refuse(self, event: Any, code: int | None = None, reason: str = "") -> list[ServerEvent]:
        """Refuse an event. A soft code closes its channel, another one the connection.

        Credentials are refused with 403, an open and a new secret with 530, unless `code` says otherwise. The client receives the
        code if it has announced authentication_failure_close (of credentials). Returns `ChannelClosed` or `Disconnected`.
        """
        self._check_over()
        events: list[Event] = []
        if event is not None and event is self._waits:
            self._take(event)
            if isinstance(event, amqp091.ConnectionOpen):
                code, reason = code or ReplyCode.NOT_ALLOWED, reason or "access to the virtual host is refused"
                answered = True
                ids = event.ids
            else:
                code, reason = code or ReplyCode.ACCESS_REFUSED, reason or "Login was refused"
                answered = "authentication_failure_close" in self.capabilities
                ids = (0, 0)  # nothing says what was wrong
            if answered:
                self._say_close(code, reason, ids)
            self._end("local", code if answered else None, reason, events)
            return events
        if event is not None and event is self._secret:
            self._secret = None
            return self._refuse_hard(event, code or ReplyCode.NOT_ALLOWED, reason or "the new secret is refused")
        channel = self._channel_of(event)
        if channel is None:
            return events
        code = code or ReplyCode.ACCESS_REFUSED
        if code not in SOFT:
            return self._refuse_hard(event, code, reason)
        if type(event) is not amqp091.BasicMessage:
            channel._asked(event)
        return channel.close(code, reason, event)

    def _refuse_hard(self, event: Any, code: int, reason: str) -> list[ServerEvent]:
        events: list[Event] = []
        self._say_close(code, reason, ids_of(event))
        self._end("local", code, reason, events)
        return events

    def _take(self, event: Any) -> None:
        if event is None or event is not self._waits:
            raise LocalProtocolError("this event does not wait for an answer")
        self._waits = None

    # ---- answers

    def reply(self, event: Any, **fields: Any) -> list[ServerEvent]:
        """Answer a request with its reply, and these fields of it: `queue`, `message_count` and `consumer_count` of declare-ok,
        `message_count` of purge-ok and delete-ok, `consumer_tag` of consume-ok. With nowait nothing is sent.

        Returns events of what has arrived after the request, and of bytes that were waiting. Raises LocalProtocolError if the
        event does not wait for it.
        """
        self._check_open()
        channel = self._channel_of(event)
        if channel is None:
            return [] if self._reading else self._go_on()
        channel._reply(event, fields)
        return self._go_on_with(channel)

    def reject(self, event: amqp091.BasicMessage) -> list[ServerEvent]:
        """Tell that a message that was published in confirm mode has not been taken: basic.nack."""
        self._check_open()
        channel = self._channel_of(event)
        if channel is None:
            return []
        tag = channel._take_confirm(event)
        channel._put(amqp091.BasicNack(channel=channel.number, delivery_tag=tag, requeue=False))
        return [] if self._reading else self._go_on()

    def return_message(
        self, event: amqp091.BasicMessage, code: int = ReplyCode.NO_ROUTE, reason: str = "NO_ROUTE"
    ) -> None:
        """Send a message back that cannot be routed: basic.return, before its confirm."""
        self._check_open()
        channel = self._channel_of(event)
        if channel is None:
            return
        channel._check("basic.return")
        published = event.method
        if self._confirmed(event):
            raise LocalProtocolError("this message does not wait for a confirm")
        method = channel._build(
            amqp091.BasicReturn,
            reply_code=code,
            reply_text=reason,
            exchange=published.exchange,
            routing_key=published.routing_key,
        )
        channel._put_content(method, event.properties, event.body_bytes())

    def proceed(self, event: ChannelWaits) -> list[ServerEvent]:
        """The host has handled what came before this event: go on with its channel. Returns the events of it."""
        channel = self.channels.get(event.channel)
        if self._over or channel is None or channel._request is not event:
            return []  # it has been closed meanwhile
        channel._unheard = False
        channel._answered()
        return self._go_on_with(channel)

    def _waits_for_reply(self, event: Any) -> bool:
        channel = self.channels.get(event.channel)
        return channel is not None and channel._request is event

    def _channel_of(self, event: Any) -> ServerChannel | None:
        """The channel of an event; None: it is closed."""
        if not isinstance(event, amqp091.Method | amqp091.BasicMessage):
            raise LocalProtocolError("this event has no answer")
        channel: ServerChannel | None = self.channels.get(event.channel)
        return channel if channel is not None and channel.state is ChannelState.OPEN else None

    def send(self, message: Any) -> Any:
        """Queue a heartbeat, or ChannelFlow on a channel. Everything else has a method of its own: `reply`, `acknowledge`,
        `return_message`, `block`, `ServerChannel.deliver`, `cancel` and `close` ..."""
        self._check_over()
        if isinstance(message, amqp091.Heartbeat) and SENDS[self.role, self._state, "heartbeat"] is self._state:
            self._put(message.encode())
        elif isinstance(message, amqp091.ChannelFlow):
            channel = self._channel_of(message)
            if channel is None:
                raise LocalProtocolError(f"channel {message.channel} is not open")
            channel.flow(message.active)
        else:
            self._check_open()
            raise LocalProtocolError(f"{type(message).__name__} is sent by another method of the connection")

    def block(self, reason: str = "") -> bool:
        """Tell the client that it should not publish, if it has announced connection.blocked; else False. `pause` stops
        reading."""
        self._check_open()
        if self.blocked or "connection.blocked" not in self.capabilities:
            return False
        self.blocked = True
        self._put(amqp091.ConnectionBlocked(reason=reason).encode())
        return True

    def unblock(self) -> None:
        """Take `block` back."""
        self._check_open()
        if self.blocked:
            self.blocked = False
            self._put(amqp091.ConnectionUnblocked().encode())

    # ---- what waits for a request

    def _take_frame(self, message: Any, events: list[Event]) -> None:
        channel = self.channels.get(message.channel) if self._up else None
        if channel is not None and self._holds(channel, message, events):
            self._postponed.setdefault(message.channel, deque()).append(message)
            self._undecided += 1
        else:
            super()._take_frame(message, events)

    def _holds(self, channel: ServerChannel, message: Any, events: list[Event]) -> bool:
        """Does a message wait for the host? The first other method after messages begins to."""
        if not channel._held and channel._unheard and type(message) is not amqp091.BasicMessage:
            channel._ask(ChannelWaits(channel.number), events)
        return channel._held

    def _answer_fault(self, error: RemoteProtocolError, message: Any, events: list[Event]) -> None:
        """A fault is answered in its turn, too: it has changed nothing, so its message is taken again then."""
        channel = self.channels.get(message.channel) if self._up else None
        if channel is not None and channel.state is ChannelState.OPEN and channel._unheard and not channel._held:
            channel._ask(ChannelWaits(channel.number), events)
            self._postponed.setdefault(channel.number, deque()).appendleft(message)
            self._undecided += 1
        else:
            super()._answer_fault(error, message, events)

    def _go_on_with(self, channel: ServerChannel) -> list[ServerEvent]:
        """Take what has arrived after a request of this channel, until one of it has to wait. Then go on reading."""
        events: list[Event] = []
        if channel.number in self._postponed:
            self._take_postponed(channel.number, events)
        return events if self._reading else events + self._go_on()

    def _take_postponed(self, number: int, events: list[Event], *, ending: bool = False) -> None:
        """`ending`: the connection ends, so nothing waits any more, and a violation has no answer."""
        waiting = self._postponed[number]
        while waiting and not self._over:
            channel = self.channels.get(number)
            if channel is not None and channel._held and ending:
                channel._answered()
            if channel is not None and not ending and self._holds(channel, waiting[0], events):
                return
            message = waiting.popleft()
            self._undecided -= 1
            try:
                if not self._flow([message], 0, events):
                    super()._take_frame(message, events)
            except RemoteProtocolError as error:
                if ending:
                    break
                self._answer_fault(error, message, events)
        self._drop_postponed(number)

    def _take_all_postponed(self, events: list[Event]) -> None:
        """The client ends the connection or has made it end: what has arrived before that is the host's."""
        for number in list(self._postponed):
            self._take_postponed(number, events, ending=True)

    def _drop_postponed(self, number: int) -> None:
        self._undecided -= len(self._postponed.pop(number, ()))

    def _on_close(self, message: amqp091.ConnectionClose, events: list[Event]) -> None:
        self._take_all_postponed(events)
        super()._on_close(message, events)

    def _fault(self, error: Fault, events: list[Event], message: Any = None) -> None:
        if message is not None:
            self._drop_postponed(message.channel)
        self._take_all_postponed(events)
        super()._fault(error, events, message)

    def _end(
        self, by: Literal["local", "peer", "transport"], code: Any, reason: str, events: list[Event], **more: Any
    ) -> None:
        if by == "transport":
            self._take_all_postponed(events)
        for number in list(self._postponed):
            self._drop_postponed(number)
        super()._end(by, code, reason, events, **more)

    # ---- what comes

    def _on_header(self, message: amqp091.ProtocolHeader, events: list[Event]) -> None:
        self._put(self._start)

    def _on_start_ok(self, message: amqp091.ConnectionStartOk, events: list[Event]) -> None:
        if message.mechanism not in self.mechanisms:
            raise RemoteProtocolError(
                f"mechanism {text_of(message.mechanism)!r} was not offered (1.4.2.2)", reply=ReplyCode.COMMAND_INVALID
            )
        self.start_ok = message
        self.capabilities = _capabilities(message.client_properties)
        self._waits = message
        events.append(message)

    def _on_secure_ok(self, message: amqp091.ConnectionSecureOk, events: list[Event]) -> None:
        self._waits = message
        events.append(message)

    def _on_tune_ok(self, message: amqp091.ConnectionTuneOk, events: list[Event]) -> None:
        options = self.options
        for name, value, proposed, least in (
            ("channel_max", message.channel_max, options.channel_max, 1),
            ("frame_max", message.frame_max, options.frame_max, FRAME_MIN),
        ):
            if (value == 0 and proposed) or (proposed and value > proposed) or (value and value < least):
                raise RemoteProtocolError(
                    f"negotiated {name} = {value}, proposed was {proposed} (1.4.2.6)", reply=ReplyCode.NOT_ALLOWED
                )
        self._tuned = (message.channel_max, message.frame_max, message.heartbeat)
        self._use_frame_max(message.frame_max)
        self._begin_heartbeats(message.heartbeat)

    def _on_open(self, message: amqp091.ConnectionOpen, events: list[Event]) -> None:
        self._waits = message
        events.append(message)

    def _on_secret(self, message: amqp091.ConnectionUpdateSecret, events: list[Event]) -> None:
        if self._secret is not None:
            raise RemoteProtocolError("update-secret before the last one was answered", reply=ReplyCode.COMMAND_INVALID)
        self._secret = message
        events.append(message)

    def _on_channel(self, message: Any, events: list[Event]) -> None:
        if type(message) is amqp091.ChannelOpen and message.channel not in self.channels:
            assert self.negotiated is not None
            if len(self.channels) >= self.negotiated.channel_max:
                raise RemoteProtocolError(
                    f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max",
                    reply=ReplyCode.NOT_ALLOWED,
                )
            channel = self.channels[message.channel] = ServerChannel(self, message.channel)
            channel._on_open(message, events)
            return
        super()._on_channel(message, events)

    def _close_channel(
        self, channel: Any, error: RemoteProtocolError, ids: tuple[int, int], events: list[Event]
    ) -> None:
        assert isinstance(error.reply, int)
        channel._fail(error.reply, str(error), ids, events, error)

    def _say_fault(self, code: int, reason: str, message: Any) -> int | None:
        if self._state is State.IDLE:
            self._put(PROTOCOL_HEADER)  # 4.2.2: what we speak
            return None
        if self._state not in (State.OPENING, State.OPEN, State.CLOSING):
            return None  # RabbitMQ ends the stream without a word
        ids = ids_of(message) if isinstance(message, amqp091.Method | amqp091.BasicMessage) else (0, 0)
        self._say_close(code, reason, ids)
        return code

    _handlers: ClassVar = {
        amqp091.ProtocolHeader: _on_header,
        amqp091.ConnectionStartOk: _on_start_ok,
        amqp091.ConnectionSecureOk: _on_secure_ok,
        amqp091.ConnectionTuneOk: _on_tune_ok,
        amqp091.ConnectionOpen: _on_open,
        amqp091.ConnectionUpdateSecret: _on_secret,
        amqp091.ConnectionClose: _on_close,
        amqp091.ConnectionCloseOk: Endpoint._on_close_ok,
    }
