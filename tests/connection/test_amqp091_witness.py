"""Recorded conversations of RabbitMQ with pika and py-amqp, through an observing pair: a client and a server connection that hear
what the other side said, and do what their own side did. A good conversation has no violation; in the others the fault is the one
for which RabbitMQ closed the channel or the connection."""

from __future__ import annotations

from typing import Any, Final, Literal

import pytest

from lib.captures import name_of, octets_of, recorded, unpacked_octets
from lib.conversations import CLIENT, SERVER, segments
from lib.paths import DATA
from wirefmt import amqp091
from wirefmt.amqp091.states import State
from wirefmt.connection import Disconnected

OPTIONS = amqp091.ConnectionOptions(channel_max=0, frame_max=0, heartbeat=0)
SIDES: Final[tuple[Literal["client", "server"], ...]] = ("client", "server")


class Pair:
    """One conversation. `closed`: codes that RabbitMQ has closed with; `found`: codes of the violations that ours has seen."""

    def __init__(self) -> None:
        self.client = amqp091.ClientConnection(0.0, options=OPTIONS)
        self.server = amqp091.ServerConnection(
            0.0, OPTIONS, mechanisms=("PLAIN", "AMQPLAIN", "EXTERNAL", "RABBIT-CR-DEMO")
        )
        self.assembler = {side: amqp091.Assembler(frame_max=0, side=name) for side, name in enumerate(SIDES)}
        self.pending: list[Any] = []  # events of the server that wait
        self.found: list[int] = []
        self.closed: list[int] = []
        self.over: set[int] = set()
        self.messages = 0

    def hear(self, speaker: int, octets: bytes) -> None:
        hearer: Any = self.server if speaker == CLIENT else self.client
        if speaker not in self.over and not self.found:
            self.note(1 - speaker, hearer.receive(octets, 0.0))
        for message in self.assembler[speaker].feed(octets):
            self.messages += 1
            if self.found:  # what follows is about the fault
                if speaker == SERVER and isinstance(message, amqp091.ConnectionClose | amqp091.ChannelClose):
                    self.closed.append(message.reply_code)
            elif 1 - speaker not in self.over:
                (self.client_did if speaker == CLIENT else self.server_did)(message)
        self.client.data_to_send()
        self.server.data_to_send()

    def note(self, side: int, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, amqp091.ChannelWaits):
                self.note(SERVER, self.server.proceed(event))
                continue
            if isinstance(event, Disconnected):
                self.over.add(1 - side)  # it hears nothing more
            error = getattr(event, "error", None)
            if error is not None:
                assert side == CLIENT or event.code is not None
                assert side == SERVER, error  # RabbitMQ breaks no rule
                self.found.append(event.code)
            elif side == SERVER:
                self.pending.append(event)

    def waiting(self, kind: type[Any], channel: int = 0) -> Any:
        """The event that the server answers now."""
        event = next(e for e in self.pending if isinstance(e, kind) and getattr(e, "channel", 0) == channel)
        self.pending.remove(event)
        return event

    def client_did(self, message: Any) -> None:
        client = self.client
        match message:
            case amqp091.ProtocolHeader():
                client.open(
                    mechanisms=[
                        amqp091.Plain("guest", "guest"),
                        amqp091.AmqPlain(),
                        amqp091.External(),
                        amqp091.RabbitCrDemo(),
                    ]
                )
            case amqp091.ChannelOpen():
                client.open_channel(message.channel)
            case amqp091.ConnectionClose():
                self.note(CLIENT, client.close(message.reply_code, str(message.reply_text)))
            case amqp091.ChannelCloseOk() | amqp091.ChannelFlowOk() | amqp091.ConnectionCloseOk():
                pass
            case amqp091.Method() if message.name.startswith("connection.") and "update" not in message.name:
                pass
            case amqp091.BasicPublish():
                pass
            case amqp091.BasicMessage() if client.blocked:
                pass  # pika publishes although it is blocked; ours refuses
            case amqp091.Method() | amqp091.BasicMessage() if client.state is State.OPEN:
                client.send(message)
            case _:
                pass

    def server_did(self, message: Any) -> None:
        server = self.server
        number = message.channel
        channel = server.channels.get(number)
        match message:
            case amqp091.ConnectionTune():
                event = next(
                    e
                    for e in reversed(self.pending)
                    if isinstance(e, amqp091.ConnectionStartOk | amqp091.ConnectionSecureOk)
                )
                self.note(SERVER, server.accept(event))
            case amqp091.ConnectionSecure():
                self.note(SERVER, server.challenge(self.waiting(amqp091.ConnectionStartOk), message.challenge))
            case amqp091.ConnectionOpenOk():
                self.note(SERVER, server.accept(self.waiting(amqp091.ConnectionOpen)))
            case amqp091.ConnectionUpdateSecretOk():
                self.note(SERVER, server.accept(self.waiting(amqp091.ConnectionUpdateSecret)))
            case amqp091.ConnectionClose():
                self.note(SERVER, server.close(message.reply_code, str(message.reply_text)))
            case amqp091.ConnectionBlocked():
                server.block(str(message.reason))
            case amqp091.ConnectionUnblocked():
                server.unblock()
            case amqp091.ChannelClose() if channel is not None:
                channel.close(message.reply_code, str(message.reply_text))
            case amqp091.BasicMessage() if isinstance(message.method, amqp091.BasicDeliver):
                method = message.method
                assert channel is not None
                assert channel.credit(str(method.consumer_tag)) > 0, "RabbitMQ keeps to the prefetch"
                delivery = channel.deliver(
                    str(method.consumer_tag),
                    str(method.exchange),
                    str(method.routing_key),
                    message.body,
                    message.properties,
                )
                assert delivery is None or delivery.tag == method.delivery_tag
            case amqp091.BasicMessage() if isinstance(message.method, amqp091.BasicGetOk):
                got = message.method
                assert channel is not None
                get = self.waiting(amqp091.BasicGet, number)
                delivery, _ = channel.get_ok(
                    get, str(got.exchange), str(got.routing_key), message.body, message.properties
                )
                assert delivery is None or delivery.tag == got.delivery_tag
            case amqp091.BasicMessage():
                returned = next(
                    e
                    for e in self.pending
                    if isinstance(e, amqp091.BasicMessage) and e.body_bytes() == message.body_bytes()
                )
                server.return_message(returned, message.method.reply_code)
            case amqp091.BasicGetEmpty():
                server.reply(self.waiting(amqp091.BasicGet, number))
            case amqp091.BasicConsumeOk():
                server.reply(self.waiting(amqp091.BasicConsume, number), consumer_tag=str(message.consumer_tag))
            case amqp091.QueueDeclareOk():
                server.reply(self.waiting(amqp091.QueueDeclare, number), queue=str(message.queue))
            case amqp091.BasicAck() | amqp091.BasicNack():
                self.confirm(message)
            case amqp091.BasicCancel() if channel is not None:
                channel.cancel(str(message.consumer_tag))
            case amqp091.Method() if message.name in REPLIES:
                server.reply(self.waiting(REPLIES[message.name], number))
            case _:
                pass

    def confirm(self, message: Any) -> None:
        """Tags of RabbitMQ's confirms are those of ours: publishes counted from confirm.select."""
        channel = self.server.channels[message.channel]
        for tag in range(1 if message.multiple else message.delivery_tag, message.delivery_tag + 1):
            event = channel._tags.get(tag)
            if event is not None:
                (self.server.acknowledge if isinstance(message, amqp091.BasicAck) else self.server.reject)(event)


REPLIES: dict[str, type[Any]] = {
    "exchange.declare-ok": amqp091.ExchangeDeclare,
    "exchange.delete-ok": amqp091.ExchangeDelete,
    "exchange.bind-ok": amqp091.ExchangeBind,
    "exchange.unbind-ok": amqp091.ExchangeUnbind,
    "queue.bind-ok": amqp091.QueueBind,
    "queue.unbind-ok": amqp091.QueueUnbind,
    "queue.purge-ok": amqp091.QueuePurge,
    "queue.delete-ok": amqp091.QueueDelete,
    "tx.commit-ok": amqp091.TxCommit,
}


def captures() -> list[Any]:
    found = {name_of(row): octets_of(row) for row in recorded() if "amqp091" in row["protocols"]}
    found |= {f"data {path.name}": unpacked_octets(path) for path in sorted(DATA.glob("*-amqp091.pcap.gz"))}
    return [pytest.param(octets, id=name) for name, octets in found.items()]


@pytest.mark.parametrize("octets", captures())
def test_recorded_conversations(octets: bytes) -> None:
    pairs: dict[int, Pair] = {}
    for port, speaker, payload in segments(octets, 5672):
        pairs.setdefault(port, Pair()).hear(speaker, payload)
    assert sum(pair.messages for pair in pairs.values()) > 40
    for pair in pairs.values():
        assert pair.found == pair.closed[: len(pair.found)], "RabbitMQ closed with another code"
