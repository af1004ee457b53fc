"""Every exception of wirefmt.

::

    WireError
      DecodeError(ValueError)     the bytes are not a valid message
        Truncated  Malformed  LimitExceeded  Unsupported
      EncodeError(ValueError)     the message cannot be written
      ProtocolError               a valid frame in the wrong state
        LocalProtocolError  RemoteProtocolError
      ConnectionLost(ConnectionError)  a connection has ended, or could not be made
      Refused                     the peer has refused a request
      ConversionError             a conversion is refused, or would lose something
      CaptureError(OSError)       a capture file cannot be opened
      JournalError(OSError)       a journal cannot be opened, read or written
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, get_args


class WireError(Exception):
    """Base class of all exceptions of wirefmt; never raised itself."""


class DecodeError(WireError, ValueError):
    """The bytes are not a valid message. Only its four subclasses are raised.

    Attributes:
        protocol: "mqtt", "amqp091" ...
        offset: bytes from the start of the input to the error.
        path: the field with the error, for example `properties.user_property[2].value`.
        reason: what is wrong, as text.
        need: bytes (or elements) that the field requires; None if the error is not about a length or count.
        have: bytes (or elements) available.
        limited_by: the field that set the limit.
        spec: statement id or section of the violated specification.
        reply: the answer that the specification requires: MQTT's reason code, AMQP 0.9.1's reply code, AMQP 1.0's
            error condition, NSQ's error code; None: it only closes the connection.
        messages: messages that the same call of a Decoder's feed() completed before the error.
    """

    def __init__(
        self,
        reason: str,
        *,
        protocol: str = "",
        offset: int = 0,
        path: str = "",
        need: int | None = None,
        have: int | None = None,
        limited_by: str = "",
        spec: str = "",
        reply: int | str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.protocol = protocol
        self.offset = offset
        self.path = path
        self.need = need
        self.have = have
        self.limited_by = limited_by
        self.spec = spec
        self.reply = reply
        self.messages: tuple[object, ...] = ()

    def __str__(self) -> str:
        text = f"{self.protocol}: " if self.protocol else ""
        text += f"{self.path}: " if self.path else ""
        text += self.reason
        if self.need is not None:
            text += f" (needs {self.need}, has {self.have}"
            text += f", bounded by {self.limited_by})" if self.limited_by else ")"
        text += f" at offset {self.offset}"
        return f"{text} [{self.spec}]" if self.spec else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, {k: v for k, v in self.__dict__.items() if k != "reason"}))


def _rebuild(cls: type[DecodeError], reason: str, fields: dict[str, object]) -> DecodeError:
    error = cls(reason)
    error.__dict__.update(fields)
    return error


class Truncated(DecodeError):
    """A field runs past the end of its enclosing structure."""


class Malformed(DecodeError):
    """The bytes violate a rule of the specification."""


class LimitExceeded(DecodeError):
    """A limit of the caller (frame size, nesting, count) would be exceeded."""


class Unsupported(DecodeError):
    """Well-formed, but of a protocol or version that this decoder does not support."""


class EncodeError(WireError, ValueError):
    """The message cannot be written: a value is out of range or violates the specification."""


class ProtocolError(WireError):
    """A valid frame in the wrong state. `reply` is what to send to the peer."""

    def __init__(self, reason: str, *, reply: int | str | None = None) -> None:
        super().__init__(reason)
        self.reply = reply


class LocalProtocolError(ProtocolError):
    """The local side tried to violate the protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol."""


class ConnectionLost(WireError, ConnectionError):
    """A connection has ended, or could not be made. The requested action may or may not have happened.

    Attributes:
        event: the `Disconnected` event of the connection; None: there was no connection.
    """

    def __init__(self, reason: str, event: object = None) -> None:
        super().__init__(reason)
        self.event = event


class Refused(WireError):
    """The peer has refused a request: a connection, a message, a subscription.

    Attributes:
        code: the protocol's code.
        message: the peer's answer.
    """

    def __init__(self, reason: str, code: int | str = 0, message: object = None) -> None:
        super().__init__(reason)
        self.code = code
        self.message = message


class ConversionError(WireError):
    """A message is not converted: a rule refuses it, or lossless=True was given and it would lose something.

    Attributes:
        rule: id of the rule.
        losses: what a conversion with lossless=True would lose.
    """

    def __init__(self, reason: str, *, rule: str = "", losses: tuple[object, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule
        self.losses = losses

    def __str__(self) -> str:
        return f"{self.reason} [{self.rule}]" if self.rule else self.reason

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_conversion, (type(self), self.reason, self.rule, self.losses))


def _rebuild_conversion(
    cls: type[ConversionError], reason: str, rule: str, losses: tuple[object, ...]
) -> ConversionError:
    return cls(reason, rule=rule, losses=losses)


class CaptureError(WireError, OSError):
    """A capture file cannot be opened, or is not a capture."""


class JournalError(WireError, OSError):
    """A journal cannot be opened, read or written: the disk is full, say, another client has it, or what is in it is not a
    journal. `__cause__` is the error of SQLite, of the system or of a decoder, if there is one.

    Attributes:
        statement: the statement of the program that SQLite does not carry out; None: the error is about the journal itself.
        pid: the process that has it open; None: the error is another one.
    """

    def __init__(self, reason: str, *, statement: str | None = None, pid: int | None = None) -> None:
        super().__init__(reason)
        self.statement = statement
        self.pid = pid


def suggest(name: str, names: Iterable[str]) -> str:
    """The end of an error about an unknown name: "did you mean ...?" with similar names, or all names if none is similar."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"


def check_choice(name: str, value: object, choices: Any) -> None:
    """Check an option. choices: its type, a Literal, or the accepted values. Raises ValueError, which names them."""
    accepted = get_args(choices) or tuple(choices)
    if value not in accepted:
        raise ValueError(f"{name} must be {' or '.join(map(repr, accepted))}, not {value!r}")
