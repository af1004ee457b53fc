"""What a producer remembers beyond a connection: publishing commands whose answer has not arrived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wirefmt import nsq
from wirefmt.connection.contract import Change, records_of
from wirefmt.errors import DecodeError, LocalProtocolError, Malformed
from wirefmt.nsq._codec import Request
from wirefmt.nsq.events import Publication

_SNAPSHOT: Final = b"wirefmt nsq session 1\0"
_PUBLISHING: Final = (nsq.Publish, nsq.MultiPublish, nsq.DeferredPublish)


class Session:
    """Publishing commands that have not been answered, in the order of sending.

    The next connection with the session sends them again, so each arrives at least once. A session belongs to one
    connection at a time. It is a value: `snapshot` gives bytes, `restore` takes them.

    Args:
        journaled: True: `changes` has something to say.
    """

    def __init__(self, *, journaled: bool = False) -> None:
        self.pending: dict[int, Request] = {}  # by number
        self.held = False  # a connection has it
        self._number = 1
        self._changes: list[Change] | None = [] if journaled else None

    def __repr__(self) -> str:
        return f"<Session: {len(self.pending)} pending>"

    def next_number(self) -> int:
        """A number for a new handle."""
        number = self._number
        self._number += 1
        return number

    def add(self, request: Request) -> None:
        """Remember a publishing command."""
        self.pending[request.number] = request
        if self._changes is not None:
            self._changes.append(Change("put", "outgoing", request.number, request.command.encode()))

    def finish(self, request: Request) -> None:
        """Its answer has arrived. A command that is not remembered is not ours."""
        if self.pending.pop(request.number, None) is not None and self._changes is not None:
            self._changes.append(Change("delete", "outgoing", request.number))

    def discard(self, request: Request) -> None:
        """Give up a command. Raises LocalProtocolError while a connection has the session: an answer may be on its way."""
        if self.held or self.pending.get(request.number) is not request:
            raise LocalProtocolError(f"{request!r} is not pending, or a connection has the session")
        self.finish(request)

    def changes(self) -> list[Change]:
        """Records since the last call. Empty if the session is not journaled."""
        if not self._changes:
            return []
        changes, self._changes = self._changes, []
        return changes

    def snapshot(self) -> bytes:
        """The whole session as bytes."""
        parts = [_SNAPSHOT]
        for number, request in self.pending.items():
            data = request.command.encode()
            parts += [number.to_bytes(8), len(data).to_bytes(8), data]
        return b"".join(parts)

    @classmethod
    def restore(cls, snapshot: bytes, *, journaled: bool = False) -> Session:
        """A session from `snapshot`. Raises DecodeError if the bytes are not a snapshot."""
        at = len(_SNAPSHOT)
        if snapshot[:at] != _SNAPSHOT:
            raise _bad("not a session of this version")
        changes: list[Change] = []
        while at < len(snapshot):
            size = int.from_bytes(snapshot[at + 8 : at + 16])
            if at + 16 + size > len(snapshot):
                raise _bad("a record is cut")
            changes.append(
                Change("put", "outgoing", int.from_bytes(snapshot[at : at + 8]), snapshot[at + 16 : at + 16 + size])
            )
            at += 16 + size
        return cls.replay(changes, journaled=journaled)

    @classmethod
    def replay(cls, changes: Iterable[Change], *, journaled: bool = False) -> Session:
        """A session from a journal: all changes since it was made, or what is left of them when only the last record of
        each key is kept. Raises DecodeError for what is not a record."""
        records = records_of(changes, ("outgoing",), "nsq session")["outgoing"]
        session = cls(journaled=journaled)
        for number, data in records.items():
            session.pending[number] = Request(number, _publication(data))
            session._number = max(session._number, number + 1)
        return session


def _publication(data: bytes) -> Publication:
    try:
        message = nsq.decode(data, side="client")
    except DecodeError as error:
        raise _bad(f"a pending command: {error}") from None
    if not isinstance(message, _PUBLISHING):
        raise _bad("a pending command does not publish")
    return message


def _bad(reason: str) -> DecodeError:
    return Malformed(reason, protocol="nsq session")
