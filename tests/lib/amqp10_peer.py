"""Both ends of AMQP 1.0 made of wirefmt's own frames, as much of them as tests need: a client with one session, and a server
for one connection that takes messages, hands some out and grants transactions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from lib.kinds import checked
from wirefmt import amqp10

HOST = "127.0.0.1"
PATIENCE = 15.0  # seconds for something that must come
WINDOW = 1000
F = TypeVar("F")


class Peer:
    """One end: sends frames, gives those that come, all of them read under STRICT."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.settimeout(PATIENCE)
        self.decoder = amqp10.Decoder()
        self.waiting: list[Any] = []
        self.frame_size = 512  # what the other side takes: at least this (2.7.1)
        self.next_delivery = 0

    def send(self, *frames: Any) -> None:
        self.socket.sendall(b"".join(frame.encode() for frame in frames))

    def receive(self) -> Any:
        """The next frame that is not empty."""
        while True:
            while not self.waiting:
                octets = self.socket.recv(65536)
                if not octets:
                    self.decoder.close()
                    raise EOFError("the other side closed")
                self.waiting += self.decoder.feed(octets)
            frame = self.waiting.pop(0)
            if not isinstance(frame, amqp10.EmptyFrame):
                return frame

    def expect(self, kind: type[F]) -> F:
        frame = self.receive()
        assert isinstance(frame, kind), frame
        return frame

    def transfers(self, handle: int, message: amqp10.Message | bytes, **more: Any) -> Iterator[amqp10.Transfer]:
        """A delivery, in as many frames as the other side needs."""
        octets = message if isinstance(message, bytes) else message.encode()
        room = self.frame_size - 64
        number = self.next_delivery
        self.next_delivery += 1
        tag = number.to_bytes(4, "big")
        for at in range(0, max(len(octets), 1), room):
            last = at + room >= len(octets)
            first: dict[str, Any] = {} if at else {"delivery_id": number, "delivery_tag": tag, "message_format": 0}
            yield amqp10.Transfer(handle=handle, more=not last, payload=octets[at : at + room], **first, **more)


class Client(Peer):
    """Connected, with a session on channel 0."""

    def __init__(
        self,
        port: int,
        mechanism: str = "PLAIN",
        response: bytes | None = b"\0guest\0guest",
        answers: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> None:
        """answers: by what the server asks (sasl-challenge)."""
        super().__init__(socket.create_connection((HOST, port), timeout=PATIENCE))
        self.assembler = amqp10.Assembler()
        self.handles = 0
        self.send(amqp10.ProtocolHeader(3))
        assert self.expect(amqp10.ProtocolHeader) == amqp10.ProtocolHeader(3)
        self.mechanisms = tuple(checked(self.expect(amqp10.SaslMechanisms).sasl_server_mechanisms, amqp10.Array))
        self.send(amqp10.SaslInit(mechanism=mechanism, initial_response=response, hostname=HOST))
        for _ in answers:
            challenge = checked(self.expect(amqp10.SaslChallenge).challenge, bytes)
            self.send(amqp10.SaslResponse(response=answers[challenge]))
        self.outcome = self.expect(amqp10.SaslOutcome).code
        if self.outcome:
            return
        self.send(amqp10.ProtocolHeader(), amqp10.Open(container_id="wirefmt", hostname=HOST, max_frame_size=4096))
        assert self.expect(amqp10.ProtocolHeader) == amqp10.ProtocolHeader()
        self.opened = self.expect(amqp10.Open)
        self.frame_size = min(checked(self.opened.max_frame_size, int), 4096)
        self.send(amqp10.Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW, handle_max=100))
        self.expect(amqp10.Begin)

    def attach(self, **fields: Any) -> int:
        """A link; the handle is the same on both sides."""
        handle, self.handles = self.handles, self.handles + 1
        self.send(amqp10.Attach(name=f"link {handle}", handle=handle, **fields))
        return handle

    def sender(self, address: str) -> int:
        target = amqp10.Target(address=address)
        handle = self.attach(role=False, source=amqp10.Source(), target=target, initial_delivery_count=0)
        self.expect(amqp10.Attach)
        assert self.expect(amqp10.Flow).link_credit
        return handle

    def receiver(self, address: str, credit: int) -> int:
        handle = self.attach(role=True, source=amqp10.Source(address=address), target=amqp10.Target())
        self.expect(amqp10.Attach)
        self.send(
            amqp10.Flow(
                next_incoming_id=0, incoming_window=WINDOW, next_outgoing_id=self.next_delivery,
                outgoing_window=WINDOW, handle=handle, delivery_count=0, link_credit=credit,
            )
        )  # fmt: skip
        self.expect(amqp10.Flow)
        return handle

    def publish(self, handle: int, message: amqp10.Message) -> Any:
        """The state that the other side gives it."""
        self.send(*self.transfers(handle, message))
        return self.expect(amqp10.Disposition).state

    def delivery(self) -> Any:
        """The next one, accepted."""
        while True:
            transfer = self.expect(amqp10.Transfer)
            for delivery in self.assembler.feed(transfer.encode()):
                assert isinstance(delivery, amqp10.Delivery)
                number = delivery.transfer.delivery_id
                self.send(amqp10.Disposition(role=True, first=number, settled=True, state=amqp10.Accepted()))
                return delivery

    def close(self) -> None:
        self.send(amqp10.Close())
        while not isinstance(self.receive(), amqp10.Close):
            pass

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Server(threading.Thread):
    """For one connection. `outgoing` is sent to each receiver, `outcomes` are given to what comes, in order
    (accepted when there are none left), `closing` is what a frame of a type is answered with instead."""

    def __init__(self, **given: Any) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.mechanisms: list[str] = given.get("mechanisms", ["ANONYMOUS", "PLAIN"])
        self.code: int = given.get("code", 0)
        self.outgoing: list[Any] = list(given.get("outgoing", ()))
        self.outcomes: list[Any] = list(given.get("outcomes", ()))
        self.closing: dict[type, Any] = given.get("closing", {})
        self.frames: list[Any] = []
        self.deliveries: list[Any] = []
        self.links: dict[int, Any] = {}
        self.sent = 0  # deliveries, over all links
        self.assembler = amqp10.Assembler()
        self.error: BaseException | None = None

    def seen(self, kind: type[F]) -> list[F]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join(PATIENCE)
        self.listener.close()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            self.listener.settimeout(PATIENCE)
            connection, _ = self.listener.accept()
            with connection:
                self.serve(Peer(connection))
        except (EOFError, ConnectionError):
            pass
        except BaseException as error:
            self.error = error

    def serve(self, peer: Peer) -> None:
        self.frames.append(peer.expect(amqp10.ProtocolHeader))
        if self.frames[0].protocol_id == 3:
            peer.send(amqp10.ProtocolHeader(3), amqp10.SaslMechanisms(sasl_server_mechanisms=self.mechanisms))
            self.frames.append(peer.expect(amqp10.SaslInit))
            peer.send(amqp10.SaslOutcome(code=self.code))
            if self.code:
                return
            peer.expect(amqp10.ProtocolHeader)
        peer.send(amqp10.ProtocolHeader())
        while True:
            frame = peer.receive()
            self.frames.append(frame)
            if type(frame) in self.closing:
                answer = self.closing.pop(type(frame))
                peer.send(*answer)
                for gone in (checked(a.handle, int) for a in answer if isinstance(a, amqp10.Detach)):
                    del self.links[gone]
                continue
            getattr(self, f"on_{type(frame).__name__.removeprefix('Amqp10').lower()}")(peer, frame)
            if isinstance(frame, amqp10.Close):
                return

    def on_open(self, peer: Peer, opened: Any) -> None:
        peer.frame_size = min(opened.max_frame_size or 65536, 65536)
        peer.send(amqp10.Open(container_id="server", max_frame_size=4096, properties={amqp10.Symbol("product"): "w"}))

    def on_begin(self, peer: Peer, begin: Any) -> None:
        peer.send(
            amqp10.Begin(
                channel=begin.channel, remote_channel=begin.channel, next_outgoing_id=0, incoming_window=WINDOW,
                outgoing_window=WINDOW,
            )
        )  # fmt: skip

    def on_attach(self, peer: Peer, attach: Any) -> None:
        self.links[attach.handle] = attach
        more: dict[str, Any] = {} if attach.role is False else {"initial_delivery_count": 0}
        peer.send(
            amqp10.Attach(
                name=attach.name, handle=attach.handle, role=not attach.role, source=attach.source,
                target=attach.target, **more,
            )
        )  # fmt: skip
        if attach.role is False:
            peer.send(self.flow(handle=attach.handle, delivery_count=0, link_credit=500))

    def flow(self, **link: Any) -> amqp10.Flow:
        windows: dict[str, Any] = {"incoming_window": WINDOW, "outgoing_window": WINDOW, "next_outgoing_id": self.sent}
        return amqp10.Flow(next_incoming_id=0, **windows, **link)

    def on_flow(self, peer: Peer, flow: Any) -> None:
        link = self.links.get(flow.handle)
        if link is None or not link.role:
            return
        count = flow.delivery_count or 0
        for _ in range(min(flow.link_credit - (self.sent - count), len(self.outgoing))):
            for transfer in peer.transfers(flow.handle, self.outgoing.pop(0)):
                peer.send(transfer)
            self.sent += 1
        if flow.drain:
            peer.send(self.flow(handle=flow.handle, delivery_count=count + flow.link_credit, link_credit=0, drain=True))

    def on_transfer(self, peer: Peer, transfer: Any) -> None:
        for delivery in self.assembler.feed(transfer.encode()):
            assert isinstance(delivery, amqp10.Delivery)
            self.deliveries.append(delivery)
            number = delivery.transfer.delivery_id
            if not delivery.settled:
                peer.send(amqp10.Disposition(role=True, first=number, settled=True, state=self.outcome_of(delivery)))

    def outcome_of(self, delivery: Any) -> Any:
        if isinstance(self.links[delivery.transfer.handle].target, amqp10.Coordinator):
            (order,) = delivery.message.body
            return amqp10.Declared(txn_id=b"txn") if isinstance(order.value, amqp10.Declare) else amqp10.Accepted()
        return self.outcomes.pop(0) if self.outcomes else amqp10.Accepted()

    def on_disposition(self, peer: Peer, disposition: Any) -> None:
        pass

    def on_detach(self, peer: Peer, detach: Any) -> None:
        if self.links.pop(detach.handle, None) is not None:
            peer.send(amqp10.Detach(handle=detach.handle, closed=detach.closed))

    def on_end(self, peer: Peer, end: Any) -> None:
        peer.send(amqp10.End(channel=end.channel))

    def on_close(self, peer: Peer, close: Any) -> None:
        peer.send(amqp10.Close())
