"""Captures as witnesses: what real clients and nsqd have said goes through both machines, and neither sees a violation but the
one that was recorded on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lib.captures import unpacked_octets
from lib.conversations import SERVER, segments
from lib.kinds import only
from lib.paths import DATA
from lib.skips import imported
from wirefmt import nsq
from wirefmt.connection import Disconnected
from wirefmt.connection.carriers import Deflate, Snappy
from wirefmt.errors import LocalProtocolError
from wirefmt.nsq.endpoint import kind_of

CAPTURES = sorted(path for path in (DATA / "nsq").glob("*.pcap.gz") if "tls" not in path.name)  # TLS hides the rest


def chunks_in(path: Path) -> list[list[tuple[int, bytes]]]:
    """(direction, bytes) by connection and in order."""
    flows: dict[int, list[tuple[int, bytes]]] = {}
    for client, speaker, payload in segments(unpacked_octets(path), 4150):
        flows.setdefault(client, []).append((speaker, payload))
    return list(flows.values())


def said_in(chunks: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Commands and frames of a connection, without compression."""
    said: list[tuple[int, bytes]] = []
    decoders: tuple[Any, Any] = (nsq.Decoder(side="client", magic=True), nsq.Decoder(side="server"))
    carriers: tuple[Any, Any] | None = None
    for direction, chunk in chunks:
        data = carriers[direction].receive(chunk) if carriers else chunk
        while data:
            decoder = decoders[direction]
            messages: list[Any] = decoder.feed(data, 1)
            if not messages:
                break
            said.append((direction, messages[0].encode()))
            data = decoder.rest()
            if kind_of(messages[0]) == "JSON with compression":
                snappy = dict(messages[0].members)["snappy"] is True
                carriers = (Snappy(), Snappy()) if snappy else (Deflate(), Deflate())
                data = carriers[SERVER].receive(data)
    return said


class Pair:
    """A client that sends what the real one has said and receives what the real server has; and a server the other way round."""

    def __init__(self) -> None:
        self.client, self.server = nsq.ClientConnection(0.0), nsq.ServerConnection(0.0)
        self.to_client: Any = None  # carriers of the real peers' streams
        self.to_server: Any = None
        self.open: list[Any] = []  # commands that wait for an answer, at the server
        self.handles: dict[bytes, Any] = {}
        self.refused: str | None = None
        self.known: str | None = None  # a violation that both machines see

    def client_says(self, data: bytes) -> None:
        command: Any = nsq.Magic() if data == b"  V2" else nsq.decode(data, side="client")
        stranger = isinstance(command, nsq.Finish) and command.message_id not in self.client._in_flight.by_id
        if not stranger:  # one was sent on purpose, to see E_FIN_FAILED
            try:
                self.client.send(command)
            except LocalProtocolError as error:  # and so was one to see this
                assert error.reply == "E_AUTH_FIRST"
                gone = only(self.server.receive(data, 0.0), Disconnected)
                assert gone.code == self.violation(error.reply)
                return
        self.client.data_to_send()
        events = self.server.receive(self.to_server.send(data) if self.to_server else data, 0.0)
        self.look(events)
        self.open += [e for e in events if isinstance(e, nsq.Command) and not isinstance(e, nsq.Close)]

    def violation(self, code: str) -> str:
        self.known = code
        return code

    def server_says(self, data: bytes) -> None:
        frame: Any = nsq.decode(data, side="server")
        if self.known:
            assert frame.code == self.known
            return
        if kind_of(frame) == "JSON" and dict(frame.members).get("auth_required") is True:
            self.server.options = nsq.ConnectionOptions(auth_required=True)
            self.server._restrict()
        self.look(self.client.receive(self.to_client.send(data) if self.to_client else data, 0.0), frame)
        if self.client._carrier is not None and self.to_client is None:
            kind = Snappy if isinstance(self.client._carrier, Snappy) else Deflate
            self.to_client, self.to_server = kind(), kind()
        if isinstance(frame, nsq.MessageFrame):
            self.handles[frame.message_id] = self.server.deliver(frame.message_id, frame.body_bytes())
        elif isinstance(frame, nsq.Error) and frame.fatal is not False:
            self.refused = frame.code
        elif isinstance(frame, nsq.Response) and not frame.is_heartbeat and frame.data != b"CLOSE_WAIT" and self.open:
            event = self.open.pop(0)
            asked = isinstance(event, nsq.Identify | nsq.Auth | nsq.Sub)
            self.look(self.server.accept(event) if asked else self.server.acknowledge(event))
        self.server.data_to_send()

    def look(self, events: list[Any], frame: Any = None) -> None:
        for event in events:
            if isinstance(event, Disconnected):
                assert event.error is None, event
                assert isinstance(frame, nsq.Error), event


@pytest.mark.parametrize("path", CAPTURES, ids=[path.name for path in CAPTURES])
def test_no_violation_in_what_was_recorded(path: Path) -> None:
    if "snappy" in path.name:
        imported("cramjam")
    for chunks in chunks_in(path):
        pair = Pair()
        messages = 0
        for direction, data in said_in(chunks):
            if direction == 0:
                pair.client_says(data)
            else:
                pair.server_says(data)
                messages += data[4:8] == b"\0\0\0\2"
        if pair.known:
            assert "auth" in path.name
        elif pair.refused is None:
            assert pair.client.state is not nsq.State.CLOSED
            assert pair.server.state is not nsq.State.CLOSED
            assert pair.server.in_flight == 0
            assert len(pair.handles) <= messages
        else:
            assert pair.client.state is nsq.State.CLOSED
            assert pair.refused == "E_AUTH_FAILED"
