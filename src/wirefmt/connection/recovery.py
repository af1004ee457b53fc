"""What a client says about its connections: the events of `on_event`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from wirefmt.connection.address import Address
from wirefmt.errors import Refused, check_choice

#: What becomes of a thing that the server refuses when it is to be restored. retry: it is asked for again, with the waits of the
#: back-off, while all else goes on. skip: it is left out until the next connection. fail: it is over, and its owner gets the
#: refusal.
OnRefused = Literal["retry", "skip", "fail"]


def check_on_refused(value: OnRefused | None) -> None:
    """Raises ValueError, which names the accepted values."""
    if value is not None:
        check_choice("on_refused", value, OnRefused)


@dataclass(frozen=True, slots=True)
class ConnectionUp:
    """There is a connection, and what it could restore is restored.

    Attributes:
        address: the server.
        connections: how many connections there have been.
    """

    address: Address
    connections: int


@dataclass(frozen=True, slots=True)
class ConnectionDown:
    """A connection is over, or could not be made.

    Attributes:
        error: why.
        wait: seconds until the servers are tried again; None: the client ends.
    """

    error: Exception
    wait: float | None


@dataclass(frozen=True, slots=True)
class NotRestored:
    """The server has refused one thing that was to be restored. All else goes on.

    Attributes:
        entity: what it is: a consumer, a link, a topic filter, the name of a queue ...
        error: the refusal.
        action: what becomes of it.
        wait: seconds until it is asked for again; None: it is not.
    """

    entity: Any
    error: Refused
    action: OnRefused
    wait: float | None


RecoveryEvent = ConnectionUp | ConnectionDown | NotRestored
