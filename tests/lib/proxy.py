"""A TCP proxy on loopback that keeps what both sides say, in the order in which it passed, and can write it as a capture."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from lib import wire

HOST = "127.0.0.1"
CLIENT, SERVER = 0, 1
#: Folder for captures of what is said; tests/data/README.md.
FOLDER = os.environ.get("WIREFMT_RECORD")
LARGEST = 2_000_000  # octets of a conversation that is kept
RECORDED: dict[str, list[Conversation]] = {}
PATIENCE = 15.0  # seconds for a connection to end


@dataclass
class Conversation:
    """One connection: (side, octets) as they came."""

    chunks: list[tuple[int, bytes]] = field(default_factory=list)

    def octets(self, side: int) -> bytes:
        return b"".join(octets for sender, octets in self.chunks if sender == side)


class Proxy:
    """Listens on `port`; each connection to it becomes one to `target`, and a Conversation."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.listener = socket.create_server((HOST, 0))
        self.port = int(self.listener.getsockname()[1])
        self.conversations: list[Conversation] = []
        self.lock = threading.Lock()
        self.sockets: list[socket.socket] = []
        self.pumps: list[threading.Thread] = []
        self.doorman = threading.Thread(target=self.accept, daemon=True)
        self.doorman.start()

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection((HOST, self.target), timeout=PATIENCE)
            conversation = Conversation()
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.conversations.append(conversation)
                self.sockets += (client, server)
                for side, source, sink in ((CLIENT, client, server), (SERVER, server, client)):
                    pump = threading.Thread(target=self.pump, args=(conversation, side, source, sink), daemon=True)
                    self.pumps.append(pump)
                    pump.start()

    def pump(self, conversation: Conversation, side: int, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while octets := source.recv(65536):
                with self.lock:
                    conversation.chunks.append((side, octets))
                sink.sendall(octets)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def keep(self, name: str) -> None:
        """For write_recorded, if recording was asked for."""
        if FOLDER:
            RECORDED.setdefault(name, []).extend(self.conversations)

    def finish(self) -> list[Conversation]:
        """Everything said, once both sides of every connection have ended it."""
        for pump in list(self.pumps):
            pump.join(PATIENCE)
            assert not pump.is_alive(), "a connection that nobody ends"
        return self.conversations

    def close(self) -> None:
        # shutdown wakes the thread that waits in accept; close alone does not
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.doorman.join(PATIENCE)
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for pump in self.pumps:
            pump.join(PATIENCE)


def capture(conversations: Iterable[Conversation], port: int) -> bytes:
    """The conversations as a pcap file of TCP connections to `port`, one after another, a millisecond a packet."""
    frames: list[bytes] = []
    for number, conversation in enumerate(conversations):
        tcp = wire.Tcp(port=port, client_port=40000 + number)
        frames += tcp.open()
        for side, octets in conversation.chunks:
            frames += tcp.send(side, octets)
        frames += tcp.close()
    return wire.pcap(frames)


def write_recorded() -> None:
    """A capture for each name that conversations were kept by."""
    for name, conversations in RECORDED.items():
        small = [c for c in conversations if sum(len(octets) for _, octets in c.chunks) <= LARGEST]
        path = Path(FOLDER or ".") / f"{name}.pcap.gz"
        path.write_bytes(gzip.compress(capture(small, 5672), mtime=0))
