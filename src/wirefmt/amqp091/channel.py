"""What channels of both roles of an AMQP 0.9.1 connection share: state, frames, flow, closing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from wirefmt import amqp091
from wirefmt.amqp091 import spec
from wirefmt.amqp091._codec import ChannelFlows, Publication
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.amqp091.events import ChannelClosed, Event, reply_text
from wirefmt.amqp091.states import CHANNEL_RECEIVES, CHANNEL_SENDS, ChannelState, ChannelTransition
from wirefmt.connection.states import Role, Violation, by_state
from wirefmt.errors import EncodeError, LocalProtocolError, RemoteProtocolError


def class_of(method: str) -> type[amqp091.Method]:
    """The class of a method by its name in the specification."""
    name = "".join(part.capitalize() for word in method.split(".") for part in word.split("-"))
    cls: type[amqp091.Method] = getattr(amqp091, name)
    return cls


#: Names of methods by class.
NAME_OF: dict[type[Any], str] = {
    class_of(name): name for name in (f"{c.name}.{m.name}" for c in spec.CLASSES for m in c.methods)
}

#: The reply of each synchronous method.
REPLY_OF: dict[type[Any], type[amqp091.Method]] = {
    class_of(f"{c.name}.{m.name}"): class_of(f"{c.name}.{m.responses[0]}")
    for c in spec.CLASSES
    for m in c.methods
    if m.responses
}


class Channel(ChannelFlows):
    """What channels of both roles share. What happens for every message is compiled: `ChannelFlows`.

    Attributes:
        number: of the channel.
        state: a ChannelState.
        consumers: by consumer-tag.
        mode: "plain", "confirm" (RabbitMQ) or "tx".
        active: False: the peer has asked us to send no content (1.5.2.3).
    """

    role: Role
    _handlers: ClassVar[dict[type[Any], Callable[[Any, Any, list[Event]], None]]]
    _receives: dict[ChannelState, dict[str, ChannelTransition]]
    _sends: dict[ChannelState, dict[str, ChannelTransition]]
    _steady: dict[type[Any], Callable[[Any, Any, list[Event]], None]]

    def __init_subclass__(cls) -> None:
        cls._receives = by_state(CHANNEL_RECEIVES, cls.role)
        cls._sends = by_state(CHANNEL_SENDS, cls.role)
        cls._steady = {
            kind: handler
            for kind, handler in cls._handlers.items()
            if cls._receives[ChannelState.OPEN][NAME_OF[kind]] is ChannelState.OPEN
        }

    def __init__(self, connection: Any, number: int) -> None:
        super().__init__(connection, number)
        self.state = ChannelState.UNUSED

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number}: {self.state.value}>"

    def _put(self, method: amqp091.Method) -> None:
        self._flush()
        self.connection._put(method.encode())

    def _check(self, kind: str) -> None:
        """Raises LocalProtocolError if this method must not be sent now."""
        self.connection._check_open()
        transition = self._sends[self.state][kind]
        if isinstance(transition, Violation):
            raise LocalProtocolError(f"channel {self.number}: {transition.rule}", reply=transition.reply)

    def _build(self, cls: Any, **fields: Any) -> Any:
        try:
            return cls(channel=self.number, **fields)
        except (EncodeError, TypeError, ValueError) as error:
            raise LocalProtocolError(str(error)) from error

    def flow(self, active: bool) -> None:
        """Ask the peer to stop or to go on sending content (1.5.2.3). RabbitMQ refuses False with 540."""
        self._check("channel.flow")
        self._put(amqp091.ChannelFlow(channel=self.number, active=active))

    def _on_flow(self, message: amqp091.ChannelFlow, events: list[Event]) -> None:
        self.active = message.active
        self._put(amqp091.ChannelFlowOk(channel=self.number, active=message.active))
        events.append(message)

    def _on_flow_ok(self, message: amqp091.ChannelFlowOk, events: list[Event]) -> None:
        events.append(message)

    def _on_content(self, message: amqp091.BasicMessage, events: list[Event]) -> None:
        """A message that the compiled part has left: it is not one of the frequent ones."""
        raise NotImplementedError

    def _close(self, code: int, reason: str, ids: tuple[int, int] = (0, 0)) -> amqp091.ChannelClose:
        """Send channel.close."""
        text = (
            reply_text(code, reason)
            if code != ReplyCode.REPLY_SUCCESS
            else reason.encode()[:255].decode(errors="ignore")
        )
        close = amqp091.ChannelClose(
            channel=self.number, reply_code=code, reply_text=text, class_id=ids[0], method_id=ids[1]
        )
        self._put(close)
        return close

    def _on_close(self, message: amqp091.ChannelClose, events: list[Event]) -> None:
        self._put(amqp091.ChannelCloseOk(channel=self.number))
        if self.state is ChannelState.CLOSING:
            return  # closes have crossed: close-ok answers ours
        self._gone("peer", message.reply_code, text_of(message.reply_text), events, message=message)
        self.connection._free(self)

    def _on_close_ok(self, message: amqp091.ChannelCloseOk, events: list[Event]) -> None:
        self.connection._closed(self, events)

    def _gone(
        self,
        by: Literal["local", "peer"],
        code: int,
        reason: str,
        events: list[Event],
        *,
        error: Exception | None = None,
        message: amqp091.ChannelClose | None = None,
    ) -> None:
        closed = ChannelClosed(
            channel=self.number,
            by=by,
            code=code,
            reason=reason,
            error=error,
            message=message,
            resumable=self._unconfirmed_handles(),
            lost=self._lost(),
            consumers=tuple(self.consumers.values()),
        )
        self._drop()
        events.append(closed)

    def _drop(self) -> None:
        """The channel has ended: drop what belongs to it."""
        self._forget()
        self.consumers.clear()
        self._tags.clear()

    def _unconfirmed_handles(self) -> tuple[Publication, ...]:
        return ()

    def _lost(self) -> tuple[Any, ...]:
        return ()

    def _forget(self) -> None:
        """Drop what only this role has."""


def text_of(value: str | bytes) -> str:
    """A short string, which may be malformed UTF-8, as text."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def wrong_reply(message: amqp091.Method) -> RemoteProtocolError:
    """The fault of a reply that nothing has asked for."""
    return RemoteProtocolError(f"{message.name}, but no call waits for it (4.7)", reply=ReplyCode.COMMAND_INVALID)


def ids_of(event: Any) -> tuple[int, int]:
    """Class and method of an event, as channel.close and connection.close name them."""
    method = event.method if type(event) is amqp091.BasicMessage else event
    ids: tuple[int, int] = method.ids
    return ids
