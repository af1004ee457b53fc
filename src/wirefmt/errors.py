"""Every exception of wirefmt.

::

    WireError
      DecodeError(ValueError)     octets are not a message
        Truncated  Malformed  LimitExceeded  Unsupported
      EncodeError(ValueError)     a message cannot be written
      ProtocolError               legal octets at an illegal moment
        LocalProtocolError  RemoteProtocolError
      ConversionError             a message that is not converted: refused, or it would lose something
      CaptureError(OSError)       a capture file cannot be opened
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WireError(Exception):
    """Parent of all; never raised itself."""


class DecodeError(WireError, ValueError):
    """Octets that are not a valid message. One of its four children is raised.

    Attributes:
        protocol: "mqtt", "amqp091" ...
        offset: octets from the start of the input to the fault.
        path: the field at fault, as `properties.user_property[2].value`.
        reason: what is wrong, in words.
        need: octets (or elements) the field requires; None where no count is at fault.
        have: octets (or elements) there.
        limited_by: the field that set the limit.
        spec: statement id or section of the specification that is broken.
        reply: what the specification has a receiver answer: MQTT's reason code, AMQP 0.9.1's reply code, AMQP 1.0's
            error condition, NSQ's error code; None: just close.
        messages: from a Decoder's feed(): messages completed before the fault, in the same call.
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
    """A field runs past the end of what holds it."""


class Malformed(DecodeError):
    """The octets break a rule of the specification."""


class LimitExceeded(DecodeError):
    """A limit of the caller's (frame size, nesting, count) would be passed."""


class Unsupported(DecodeError):
    """Well formed, but of a protocol or version that this decoder does not speak."""


class EncodeError(WireError, ValueError):
    """A message that cannot be written: a value out of range or against the specification."""


class ProtocolError(WireError):
    """A legal frame at an illegal moment. `reply` is what to say to the peer."""

    def __init__(self, reason: str, *, reply: int | str | None = None) -> None:
        super().__init__(reason)
        self.reply = reply


class LocalProtocolError(ProtocolError):
    """We were about to break the protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol."""


class ConversionError(WireError):
    """A message is not converted: a rule refuses it, or it was to lose nothing and would.

    Attributes:
        rule: id of the rule.
        losses: of a conversion that was to lose nothing: what it would lose.
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
    """A capture file that cannot be opened or is no capture at all."""


def suggest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: "did you mean ...?" if some are like it, else all names."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"
