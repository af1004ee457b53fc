"""An AMQP 1.0 client and server that exchange their bytes in one process, with a host that accepts everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lib.kinds import checked
from wirefmt import amqp10
from wirefmt.amqp10 import (
    Attaching,
    ClientConnection,
    ConnectionOptions,
    Login,
    Receiver,
    Sender,
    ServerConnection,
    Session,
)

PLENTY = ConnectionOptions(idle_timeout=None)
HEADER = amqp10.ProtocolHeader(0).encode()
SASL_HEADER = amqp10.ProtocolHeader(3).encode()
ERROR = amqp10.Error(condition="amqp:internal-error", description="why")


def frames(data: bytes) -> list[Any]:
    """Decode the frames in `data` under STRICT."""
    return list(amqp10.Decoder().feed(data))


class Pair:
    """`client` and `server`, open. `carry` takes bytes both ways until both are silent.

    Args:
        client, server: options.
        accept: False: attaches are not answered.
    """

    def __init__(
        self,
        client: ConnectionOptions = PLENTY,
        server: ConnectionOptions = PLENTY,
        *,
        accept: bool = True,
        now: float = 0.0,
    ) -> None:
        self.now = now
        self.accepts = accept
        self.answers: dict[str, Any] = {}  # for accept(attaching)
        self.client = ClientConnection(now, "c", options=client)
        self.server = ServerConnection(now, "s", mechanisms=(), options=server)
        self.at_client: list[Any] = []
        self.at_server: list[Any] = []
        self.said: list[bytes] = []  # by the client
        self.answered: list[bytes] = []  # by the server
        self.client.open()
        self.carry()

    def carry(self) -> tuple[list[Any], list[Any]]:
        """The events of both sides since the last call."""
        while True:
            up, down = self.client.data_to_send(), self.server.data_to_send()
            if not up and not down:
                break
            if up:
                self.said.append(up)
                if self.server.state is not amqp10.State.END:
                    self.take(self.server, self.at_server, self.server.receive(up, self.now))
            if down:
                self.answered.append(down)
                if self.client.state is not amqp10.State.END:
                    self.take(self.client, self.at_client, self.client.receive(down, self.now))
        events = self.at_client[:], self.at_server[:]
        self.at_client.clear()
        self.at_server.clear()
        return events

    def take(self, connection: Any, log: list[Any], events: Iterable[Any]) -> None:
        for event in events:
            log.append(event)
            if isinstance(event, amqp10.Open | Login) or (isinstance(event, Attaching) and self.accepts):
                answer = self.answers if isinstance(event, Attaching) else {}
                self.take(connection, log, connection.accept(event, **answer))

    def session(self, **fields: Any) -> tuple[Session, Session]:
        """A session, begun by the client: its view of it and the server's."""
        ours = self.client.begin(**fields)
        _, events = self.carry()
        return ours, next(event.session for event in events if isinstance(event, amqp10.SessionBegun))

    def sender(self, session: Session, credit: int = 100, name: str = "l", **fields: Any) -> tuple[Sender, Receiver]:
        """A link on which the client sends, and the server's end of it."""
        link = session.sender(name, "/queues/q", **fields)
        _, events = self.carry()
        other = checked(next(event.link for event in events if isinstance(event, Attaching)), Receiver)
        if credit:
            other.grant(credit)
            self.carry()
        return link, other

    def receiver(self, session: Session, window: int = 0, name: str = "r", **fields: Any) -> tuple[Receiver, Sender]:
        """A link on which the client receives, and the server's end of it."""
        link = session.receiver(name, "/queues/q", window=window, **fields)
        _, events = self.carry()
        return link, checked(next(event.link for event in events if isinstance(event, Attaching)), Sender)

    def tell(self, *performatives: Any, to: Any = None) -> list[Any]:
        """Pass performatives to the server (or `to`), independent of the client's state. Returns the events."""
        return (to or self.server).receive(b"".join(p.encode() for p in performatives), self.now)


def message(body: bytes = b"m") -> amqp10.Message:
    return amqp10.Message(body=body)


def kinds(events: Iterable[Any]) -> list[str]:
    return [type(event).__name__ for event in events]


def of(events: Iterable[Any], kind: type[Any]) -> list[Any]:
    """The events of one class."""
    return [event for event in events if isinstance(event, kind)]
