"""What of an AMQP 0.9.1 client outlives a connection: messages that were published and not confirmed."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from wirefmt import amqp091
from wirefmt.amqp091._codec import Publication, SessionFlows
from wirefmt.connection.contract import Change, records_of
from wirefmt.errors import DecodeError, Malformed

_SNAPSHOT = b"wirefmt amqp091 session 1\0"
_ENTRY = struct.Struct(">QQ")  # number, size of the message


class Session(SessionFlows):
    """Messages of a client that wait for their confirms. A value: `snapshot` gives bytes, `restore` takes them.

    A session belongs to one connection at a time. Whether the server has a message of an earlier connection is not known:
    `ClientChannel.resend` sends it again, `forget` drops it.

    Attributes:
        outgoing: publications by number, in the order of sending.

    Args:
        journaled: True: `changes` returns what a journal must keep.
    """

    def __init__(self, *, journaled: bool = False) -> None:
        super().__init__()
        self.journaled = journaled
        self.held = False
        self._changes: list[Change] = []

    def _note(self, publication: Publication) -> None:
        """A message has been published, and there is a journal."""
        self._changes.append(Change("put", "outgoing", publication.number, publication.message.encode()))

    def forget(self, publication: Publication) -> None:
        """The message is confirmed, or must not be sent again."""
        if self.outgoing.pop(publication.number, None) is not None and self.journaled:
            self._changes.append(Change("delete", "outgoing", publication.number))

    def changes(self) -> list[Change]:
        """What has changed since the last call."""
        if not self._changes:
            return []
        changes, self._changes = self._changes, []
        return changes

    def snapshot(self) -> bytes:
        """The whole session."""
        parts = [_SNAPSHOT]
        for number, publication in self.outgoing.items():
            message = publication.message.encode()
            parts += (_ENTRY.pack(number, len(message)), message)
        return b"".join(parts)

    @classmethod
    def restore(cls, data: bytes, *, journaled: bool = False) -> Session:
        """The session of a snapshot. Raises DecodeError."""
        if not data.startswith(_SNAPSHOT):
            raise Malformed("not a snapshot of a session", protocol="amqp091")
        session, at = cls(journaled=journaled), len(_SNAPSHOT)
        while at < len(data):
            if len(data) - at < _ENTRY.size:
                raise Malformed("the snapshot ends inside a record", protocol="amqp091", offset=at)
            number, size = _ENTRY.unpack_from(data, at)
            at += _ENTRY.size
            if len(data) - at < size:
                raise Malformed("the snapshot ends inside a record", protocol="amqp091", offset=at)
            session._take(number, data[at : at + size])
            at += size
        return session

    @classmethod
    def replay(cls, changes: Iterable[Change], *, journaled: bool = False) -> Session:
        """The session that these changes make. Raises DecodeError for a change that is not a record."""
        session, changes = cls(journaled=journaled), tuple(changes)
        for number, value in records_of(changes, ("outgoing",), "amqp091")["outgoing"].items():
            session._take(number, value)
        session._number = max((change.key for change in changes), default=session._number)  # no number is used again
        return session

    def _take(self, number: int, data: bytes) -> None:
        assembler = amqp091.Assembler(side="client", frame_max=0, channel_max=0)
        try:
            messages = assembler.feed(data)
            assembler.close()
        except DecodeError as error:
            error.messages = ()
            raise
        if len(messages) != 1 or not isinstance(messages[0], amqp091.BasicMessage):
            raise Malformed("a record is one message", protocol="amqp091")
        self.outgoing[number] = Publication(number, 0, 0, messages[0])
        self._number = max(self._number, number)
