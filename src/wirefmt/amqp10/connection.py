"""AMQP 1.0 connections without input or output: `ClientConnection` and `ServerConnection`.

docs/connections.md describes the contract, docs/amqp10-connection.md the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wirefmt.amqp10._codec import (
    Array,
    Close,
    Error,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from wirefmt.amqp10.codes import ErrorCondition, SaslCode
from wirefmt.amqp10.endpoint import HEADER, SASL_HEADER, Endpoint
from wirefmt.amqp10.events import ClientEvent, ConnectionOptions, Event, Login, ServerEvent, build
from wirefmt.amqp10.states import SASL_RECEIVES, SaslState
from wirefmt.amqp10.states import State as ConnectionState
from wirefmt.connection.sasl import SCRAM_HASHES, Mechanism, ScramCredentials, ScramServer, read_plain
from wirefmt.connection.states import Role, Violation
from wirefmt.errors import LocalProtocolError, RemoteProtocolError


class ClientConnection(Endpoint[ClientEvent]):
    """The client's side.

    Args:
        now: the time of the clock that all calls use.
        container_id: ours.
        sasl: mechanisms in the order in which they are preferred (`wirefmt.connection.sasl`); none: without the SASL layer.
        options: limits and times.

    Events are `Connected`, `SessionBegun`, `SessionEnded`, `LinkAttached`, `LinkDetached`, `Attaching`, `Incoming`, `Part`,
    `Aborted`, `Acknowledged`, `Settled`, `Updated`, `WindowOpened`, `DrainRequested`, `Drained`, `Flowed`, and
    `Disconnected` as the last one. Its code is the error condition; after a failed login it is the code of sasl-outcome.
    """

    role = Role.CLIENT

    def __init__(
        self,
        now: float,
        container_id: str = "",
        *,
        sasl: Mechanism | Sequence[Mechanism] = (),
        options: ConnectionOptions | None = None,
    ) -> None:
        super().__init__(now, container_id, options)
        self._mechanisms: tuple[Mechanism, ...] = tuple(sasl) if isinstance(sasl, Sequence) else (sasl,)
        self._mechanism: Mechanism | None = None
        self._open: Open | None = None
        self._pipelined = False
        if self._mechanisms:
            self.sasl_state = SaslState.START

    def open(self, *, hostname: str | None = None, pipelined: bool = False, **fields: Any) -> None:
        """Begin the connection.

        Args:
            hostname: the host that is asked for, in SASL and open.
            pipelined: True: headers, sasl-init and open leave at once, and sessions and links can follow before the
                server has answered (2.4.4). There is one mechanism then, and the server must offer it.
            fields: further fields of open: capabilities, locales, properties.

        Raises LocalProtocolError if the connection has begun.
        """
        self._check_over()
        self._start(self._make_open(hostname=hostname, **fields), pipelined=pipelined)

    def send(self, message: Open) -> None:
        if isinstance(message, Open):
            self._start(message, pipelined=False)
        else:
            super().send(message)

    def _start(self, message: Open, *, pipelined: bool) -> None:
        self._check_over()
        if self._open is not None:
            raise LocalProtocolError("a second open (2.4.1)", reply=ErrorCondition.NOT_ALLOWED)
        if pipelined and len(self._mechanisms) > 1:
            raise LocalProtocolError("with pipelining there is one mechanism")
        self._open = message
        self._pipelined = pipelined
        self._note_reading()
        self._deadlines.start("open", self.options.open_timeout)
        if self._mechanisms:
            self.put(SASL_HEADER)
            if pipelined:
                self._put_init(self._mechanisms[0])
        if not self._mechanisms or pipelined:
            self._put_open()

    def _put_open(self) -> None:
        assert self._open is not None
        self.put(HEADER)
        self.put(self._open.encode())
        self.state = ConnectionState.OPEN_PIPE

    def _put_init(self, mechanism: Mechanism) -> None:
        assert self._open is not None
        self._mechanism = mechanism
        init = build(
            SaslInit, mechanism=mechanism.name, initial_response=mechanism.start(), hostname=self._open.hostname
        )
        self.put(init.encode())

    def _take_sasl(self, kind: str, message: Any, events: list[Event]) -> None:
        if self.sasl_state is None:
            raise RemoteProtocolError("the server demands the SASL layer (5.3.1)")
        transition = SASL_RECEIVES.get((self.role, self.sasl_state, kind), _NO_SASL)
        if isinstance(transition, Violation):
            raise RemoteProtocolError(transition.rule, reply=transition.reply)
        assert isinstance(transition, SaslState)
        self._spoken = True
        self.sasl_state = transition
        match kind:
            case "sasl-mechanisms":
                offered = _symbols(message.sasl_server_mechanisms)
                if self._pipelined:
                    return
                found = [mechanism for mechanism in self._mechanisms if mechanism.name in offered]
                if not found:
                    raise RemoteProtocolError(f"the server offers {', '.join(offered) or 'no mechanism'} (5.3.2)")
                self._put_init(found[0])
            case "sasl-challenge":
                assert self._mechanism is not None
                self.put(SaslResponse(response=self._mechanism.respond(message.challenge)).encode())
            case "sasl-outcome ok":
                assert self._mechanism is not None
                self._mechanism.finish(message.additional_data)
                if not self._pipelined:
                    self._put_open()
            case "sasl-outcome failed":
                reason = (
                    "the server refuses the credentials"
                    if message.code == SaslCode.AUTH
                    else "the SASL exchange failed"
                )
                self._outbox.clear()
                self._end("peer", message.code, reason, events, message=message)

    def _has_capacity(self) -> bool:
        return self._open is not None and super()._has_capacity()

    def _answer_header(self) -> None:
        pass  # it has been sent

    def _on_open(self, message: Open, after: ConnectionState, events: list[Event]) -> None:
        self._learn(message)
        self.state = after
        if after is ConnectionState.OPENED:
            assert self._open is not None
            self._connected(self._open.hostname, events)
        else:
            self._deadlines.cancel("open")


class ServerConnection(Endpoint[ServerEvent]):
    """The server's side.

    Args:
        now: the time of the clock that all calls use.
        container_id: ours.
        mechanisms: names of the SASL mechanisms offered; none: without the SASL layer.
        without_sasl: True: a client may come without the SASL layer.
        options: limits and times.

    The events are those of a client, `Login`, and the client's `Open`. These two stop reading until they are answered:

    - `accept(login)`; for SCRAM `accept(login, credentials=..., nonce=...)`, whose proof is then checked here;
      `refuse(login, code)` with a code of sasl-outcome; `challenge(login, data)` for mechanisms of the host.
    - `accept(open, **fields)` with further fields of our open; `refuse(open, error)`.

    Attributes:
        login: the Login that was accepted; None: there was none.
    """

    role = Role.SERVER

    def __init__(
        self,
        now: float,
        container_id: str = "",
        *,
        mechanisms: Sequence[str] = ("ANONYMOUS",),
        without_sasl: bool = False,
        options: ConnectionOptions | None = None,
    ) -> None:
        super().__init__(now, container_id, options)
        self.login: Login | None = None
        self._offered = tuple(mechanisms)
        self._without = without_sasl or not mechanisms
        self._scram: ScramServer | None = None
        self._deadlines.start("open", self.options.open_timeout)
        if mechanisms:
            self.sasl_state = SaslState.START

    def _accept(self, event: Any, answer: dict[str, Any]) -> list[ServerEvent]:
        if isinstance(event, Login):
            return self._accept_login(event, **answer)
        if isinstance(event, Open):
            return self._accept_open(event, **answer)
        return super()._accept(event, answer)

    def refuse(self, event: Any, error: Any = None) -> list[ServerEvent]:
        """Answer an `Attaching`, `Open` (with an Error) or `Login` (with a code of sasl-outcome, by default 1) with no.

        Raises LocalProtocolError if the event does not wait for an answer.
        """
        events: list[Event] = []
        if isinstance(event, Login):
            self._take_undecided(event)
            self._refuse_login(SaslCode.AUTH if error is None else error, "the login is refused", events)
            return events
        if isinstance(event, Open):
            self._take_undecided(event)
            error = error or Error(condition=ErrorCondition.NOT_ALLOWED)
            self.put(self._make_open().encode())
            self.put(build(Close, error=error).encode())
            self._end("local", str(error.condition), error.description or "", events)
            return events
        return super().refuse(event, error)

    def challenge(self, event: Login, data: bytes) -> list[ServerEvent]:
        """Send a challenge of a mechanism that the host implements. Another `Login` follows with the response."""
        self._take_undecided(event)
        self.put(SaslChallenge(challenge=data).encode())
        self.sasl_state = SaslState.INIT
        self.login = event
        return self._go_on()

    def _take_undecided(self, event: Login | Open) -> None:
        self._check_over()
        if self._undecided is not event:
            raise LocalProtocolError("this event does not wait for an answer")
        self._undecided = None

    def _accept_login(
        self, event: Login, credentials: ScramCredentials | None = None, nonce: str = "", data: bytes | None = None
    ) -> list[ServerEvent]:
        if self._undecided is event and self._scram is not None and (credentials is None or not nonce):
            raise LocalProtocolError("SCRAM needs credentials and a nonce")
        self._take_undecided(event)
        self.login = event
        if self._scram is not None:
            assert credentials is not None
            self.put(SaslChallenge(challenge=self._scram.challenge(credentials, nonce)).encode())
            self.sasl_state = SaslState.INIT
        else:
            self.put(SaslOutcome(code=SaslCode.OK, additional_data=data).encode())
            self.sasl_state = SaslState.DONE
        self._deadlines.start("open", self.options.open_timeout)
        return self._go_on()

    def _refuse_login(self, code: int, reason: str, events: list[Event]) -> None:
        self.put(build(SaslOutcome, code=code).encode())
        self.sasl_state = SaslState.FAILED
        self._end("local", code, reason, events)

    def _accept_open(self, event: Open, **fields: Any) -> list[ServerEvent]:
        if self._undecided is event:
            made = self._make_open(**fields)
        self._take_undecided(event)
        self.put(made.encode())
        self.state = ConnectionState.OPENED
        events: list[Event] = []
        self._connected(event.hostname, events)
        return events + self._go_on()

    def _take_sasl(self, kind: str, message: Any, events: list[Event]) -> None:
        state = self.sasl_state
        if kind == "AMQP header" and self._without and state in (SaslState.START, None):
            self.sasl_state = None
            self._take(message, events)
            return
        if state is None and self._spoken:
            raise RemoteProtocolError("the connection has no SASL layer (5.3.1)", reply=ErrorCondition.NOT_ALLOWED)
        if state is None or (state is SaslState.START and kind != "SASL header"):
            self._answer_header()
            self._end("local", None, "the SASL layer is demanded here, or not spoken (5.3.1)", events)
            return
        transition = SASL_RECEIVES.get((self.role, state, kind), _NO_SASL)
        if isinstance(transition, Violation):
            raise RemoteProtocolError(transition.rule, reply=transition.reply)
        self._spoken = True
        match kind:
            case "SASL header":
                self.put(SASL_HEADER)
                self.put(SaslMechanisms(sasl_server_mechanisms=self._offered).encode())
                self.sasl_state = SaslState.HEADER
            case "sasl-init":
                self._on_init(message, events)
            case "sasl-response":
                self._on_response(message, events)

    def _on_init(self, message: SaslInit, events: list[Event]) -> None:
        name = str(message.mechanism)
        login = Login(name, message.initial_response or b"", message.hostname)
        self.sasl_state = SaslState.WAITING
        try:
            if name not in self._offered:
                raise RemoteProtocolError(f"the mechanism {name} is not offered (5.3.2)")
            if name == "PLAIN":
                login.authorization, login.user_name, login.password = read_plain(login.response)
            elif name == "EXTERNAL":
                login.authorization = login.response.decode()
            elif name in SCRAM_HASHES:
                self._scram = ScramServer(name, login.response)
                login.user_name, login.authorization = self._scram.user_name, self._scram.authorization
        except (RemoteProtocolError, UnicodeDecodeError) as error:
            self._refuse_login(SaslCode.AUTH, str(error), events)
            return
        self._wait(login, events)

    def _on_response(self, message: SaslResponse, events: list[Event]) -> None:
        assert self.login is not None
        response = message.response or b""
        if self._scram is None:
            self.sasl_state = SaslState.WAITING
            self._wait(Login(self.login.mechanism, response, self.login.hostname), events)
            return
        proof = self._scram.verify(response)
        if proof is None:
            self._refuse_login(SaslCode.AUTH, "the client does not know the password (RFC 5802, 5)", events)
            return
        self.put(SaslOutcome(code=SaslCode.OK, additional_data=proof).encode())
        self.sasl_state = SaslState.DONE

    def _wait(self, event: Login | Open, events: list[Event]) -> None:
        self._undecided = event
        self._deadlines.cancel("open")
        events.append(event)

    def _on_header(self) -> None:
        self.put(HEADER)
        self.state = ConnectionState.HDR_EXCH

    def _answer_header(self) -> None:
        if self._state is ConnectionState.START:
            self.put(SASL_HEADER if self.sasl_state is not None and not self._without else HEADER)

    def _on_open(self, message: Open, after: ConnectionState, events: list[Event]) -> None:
        self._learn(message)
        self.state = after
        self._wait(message, events)


_NO_SASL: Final = Violation("not a part of the SASL exchange (5.3.2)", ErrorCondition.NOT_ALLOWED)


def _symbols(value: Any) -> tuple[str, ...]:
    """The symbols of a field with `multiple`: none, one, or an array of them."""
    if value is None:
        return ()
    return tuple(str(item) for item in value) if isinstance(value, Array) else (str(value),)
