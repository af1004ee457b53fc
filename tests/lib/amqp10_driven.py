"""Connections of AMQP 1.0 under any bytes, with hosts that decide at random. Used by tests and fuzzing."""

from __future__ import annotations

import random
from typing import Any

from wirefmt import amqp10
from wirefmt.amqp10 import (
    Attaching,
    ClientConnection,
    ConnectionOptions,
    DrainRequested,
    Incoming,
    Login,
    Receiver,
    Sender,
    ServerConnection,
    SessionBegun,
    State,
    Terminus,
)
from wirefmt.connection import Disconnected, WindowOpened
from wirefmt.connection.sasl import Plain, ScramCredentials
from wirefmt.errors import LocalProtocolError

OPTIONS = ConnectionOptions(
    frame_size=512,
    sessions=4,
    links=5,
    incoming_window=8,
    unsettled=20,
    unfinished_bytes=2000,
    message_size=1500,
    undecided=6,
    unread_bytes=4096,
    pending_bytes=1 << 16,
    journaled=True,
)
CREDENTIALS = ScramCredentials.of("p", b"salt", 4096)
HEADER = amqp10.ProtocolHeader(0).encode()
SASL_HEADER = amqp10.ProtocolHeader(3).encode()


def connection(role: str, random_: random.Random) -> tuple[Any, list[bytes]]:
    """A connection, and what the peer says first so that the rest is looked at."""
    sasl = random_.random() < 0.3
    opening = amqp10.Open(container_id="p", max_frame_size=random_.choice((512, 4096, None))).encode()
    if role == "client":
        client = ClientConnection(0.0, "c", sasl=Plain("u", "p") if sasl else (), options=OPTIONS)
        client.open(pipelined=random_.random() < 0.3)
        said = [HEADER, opening]
        if sasl:
            mechanisms = amqp10.SaslMechanisms(sasl_server_mechanisms=["PLAIN"])
            said = [SASL_HEADER, mechanisms.encode(), amqp10.SaslOutcome(code=0).encode(), *said]
        return client, said if random_.random() < 0.9 else []
    server = ServerConnection(
        0.0, "s", mechanisms=["PLAIN", "SCRAM-SHA-256", "MINE"] if sasl else (), without_sasl=True, options=OPTIONS
    )
    said = [HEADER, opening]
    if sasl:
        init = amqp10.SaslInit(mechanism="PLAIN", initial_response=b"\0u\0p")
        said = [SASL_HEADER, init.encode(), *said]
    return server, said if random_.random() < 0.9 else []


class Host:
    """Decides at random, and looks at what has to hold at any time."""

    def __init__(self, connection: Any, random_: random.Random) -> None:
        self.connection = connection
        self.random = random_
        self.waiting: list[Any] = []
        self.over = False
        self.names = 0

    def take(self, events: list[Any]) -> None:
        for event in events:
            assert not self.over, "an event after Disconnected"
            if isinstance(event, Disconnected):
                self.over = True
            elif isinstance(event, Attaching | Login | amqp10.Open) or (
                isinstance(event, Incoming) and not event.settled
            ):
                self.waiting.append(event)
            elif isinstance(event, SessionBegun | WindowOpened | DrainRequested):
                self.act(event)

    def act(self, event: Any) -> None:
        """What a host may want to do when something opens."""
        try:
            if isinstance(event, SessionBegun):
                self.names += 1
                name = f"{self.names}"
                if self.random.random() < 0.5:
                    event.session.receiver(
                        name, "q", window=self.random.randrange(9), streamed=self.random.random() < 0.5
                    )
                else:
                    event.session.sender(name, "q", terminus=Terminus(name, "sender"))
            elif isinstance(event, WindowOpened):
                event.view.send(bytes(self.random.randrange(900)), more=self.random.random() < 0.1)
            else:
                event.link.drained()
        except LocalProtocolError:
            pass

    def decide(self) -> None:
        if not self.waiting:
            return
        event = self.waiting.pop(self.random.randrange(len(self.waiting)))
        connection = self.connection
        yes = self.random.random() < 0.8
        try:
            if isinstance(event, Login):
                scram = {"credentials": CREDENTIALS, "nonce": "n"} if event.mechanism.startswith("SCRAM") else {}
                self.take(connection.accept(event, **scram) if yes else connection.refuse(event))
            elif isinstance(event, Attaching):
                role = "sender" if event.link.sends else "receiver"
                terminus = Terminus(event.message.name or "", role) if self.random.random() < 0.3 else None
                self.take(connection.accept(event, terminus=terminus) if yes else connection.refuse(event))
                if event.link.attached and isinstance(event.link, Receiver):
                    event.link.keep(self.random.randrange(9))
            elif isinstance(event, amqp10.Open):
                self.take(connection.accept(event) if yes else connection.refuse(event))
            else:
                self.random.choice((connection.accept, connection.release, connection.reject, connection.modify))(event)
        except LocalProtocolError:
            assert connection.state in (State.END, State.CLOSE_SENT, State.DISCARDING, State.OPENED)

    def disturb(self) -> None:
        """Something of the host's own."""
        links = [link for session in self.connection.sessions.values() for link in session.links.values()]
        try:
            choice = self.random.randrange(8)
            if choice == 0 and links:
                self.random.choice(links).detach(closed=self.random.random() < 0.5)
            elif choice == 1 and self.connection.sessions:
                self.random.choice(list(self.connection.sessions.values())).end()
            elif choice == 2:
                self.connection.begin()
            elif choice == 3 and self.random.random() < 0.1:
                self.take(self.connection.close())
            elif choice == 4 and links:
                link = self.random.choice(links)
                link.drain() if isinstance(link, Receiver) else link.ask()
            elif links:
                link = self.random.choice(links)
                if isinstance(link, Sender):
                    link.send(bytes(self.random.randrange(900)))
        except LocalProtocolError:
            pass

    def check(self) -> None:
        """Memory is bounded by the options."""
        connection, options = self.connection, self.connection.options
        assert len(connection.sessions) <= options.sessions
        assert connection.attaching <= options.undecided
        assert connection.unfinished <= options.unfinished_bytes + options.frame_size
        assert connection.unfinished >= 0
        for session in connection.sessions.values():
            assert len(session.incoming) <= options.unsettled
            assert len(session.outgoing) <= options.unsettled
            assert len(session.links) <= options.links
            assert len(session._remote_links) <= options.links
            assert 0 <= session.incoming_window <= options.incoming_window


def drive(role: str, connection: Any, data: bytearray, random_: random.Random) -> None:
    """Hand bytes over in pieces, decide, take output, let time pass."""
    host = Host(connection, random_)
    now = 0.0
    peer = amqp10.Decoder()
    while data and not host.over:
        size = min(len(data), random_.choice((1, 7, 60, 500)))
        piece = bytes(data[:size])
        del data[:size]
        now += random_.random()
        host.take(connection.receive(piece, now))
        host.check()
        for _ in range(random_.randrange(3)):
            if not host.over:
                host.decide()
        if not host.over and random_.random() < 0.2:
            host.disturb()
        if not host.over and random_.random() < 0.1:
            host.take(connection.handle_timeout(now))
        connection.changes()
        if random_.random() < 0.7:
            peer.feed(connection.data_to_send())  # what we write can be read
    if not host.over:
        host.take(connection.receive_eof(now))
        while not host.over and host.waiting:
            host.decide()
    if not host.over:
        host.take(connection.close(immediate=True))
    assert host.over
    peer.feed(connection.data_to_send())
    assert connection.should_close
    assert connection.sessions == {}
