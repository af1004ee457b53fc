"""A recorded AMQP 1.0 connection, read under STRICT, with checks of what is true of all."""

from __future__ import annotations

from typing import Any, TypeVar

from lib.proxy import CLIENT, SERVER, Conversation
from wirefmt import amqp10

F = TypeVar("F")


def rebuilt(frame: Any) -> Any:
    """The same frame from its values alone."""
    if isinstance(frame, (amqp10.ProtocolHeader, amqp10.EmptyFrame)):
        return type(frame)(*(getattr(frame, name) for name in type(frame).__match_args__))
    return type(frame)(**{name: getattr(frame, name) for name in type(frame).__match_args__})


class Dialogue:
    """Making one checks that every frame is read under STRICT as its octets came, is written as it was, and can be built
    from its values; and that the transfers of every link join to deliveries with messages in them."""

    def __init__(self, conversation: Conversation) -> None:
        self.frames = [self.read(conversation, side) for side in (CLIENT, SERVER)]
        self.deliveries = [self.join(side) for side in (CLIENT, SERVER)]

    def read(self, conversation: Conversation, side: int) -> list[Any]:
        decoder = amqp10.Decoder()
        frames = [f for sender, octets in conversation.chunks if sender == side for f in decoder.feed(octets)]
        decoder.close()
        assert b"".join(frame.encode() for frame in frames) == conversation.octets(side)
        for frame in frames:
            again = rebuilt(frame)
            assert again == frame
            assert amqp10.decode(again.encode()) == frame
        return frames

    def join(self, side: int) -> list[Any]:
        assembler = amqp10.Assembler()
        octets = b"".join(frame.encode() for frame in self.frames[side])
        found = [d for d in assembler.feed(octets) if isinstance(d, amqp10.Delivery)]
        assert assembler.unfinished == 0
        for delivery in found:
            assert delivery.message.encode() == bytes(delivery.payload)
        return found

    def sent(self, kind: type[F]) -> list[F]:
        return [f for f in self.frames[CLIENT] if type(f) is kind]

    def received(self, kind: type[F]) -> list[F]:
        return [f for f in self.frames[SERVER] if type(f) is kind]
