"""A client's messages on disk, in SQLite: those without an outcome outlive the process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from wirefmt.amqp10._codec import List, Target, decode_value, encode_value
from wirefmt.connection.contract import Change, records_of
from wirefmt.connection.journal import Store
from wirefmt.errors import Malformed


class Record(NamedTuple):
    """A message that an earlier process has sent, and whose outcome it has not seen.

    Attributes:
        number: its key in the journal. Numbers give the order of sending.
        target: the target of its link: an address, or a Target.
        message_format: as of the transfer.
        delivery_tag: the tag that the program has given; None: it has given none.
        payload: the encoded message.
    """

    number: int
    target: Any
    message_format: int
    delivery_tag: bytes | None
    payload: bytes


class Journal(Store):
    """The messages of one client that have been sent and have no outcome.

    A message is on disk before its bytes are written to the server. Each transaction is written in a thread, so that the
    event loop does not wait.

    Args:
        path: of the database. Other tables in it are the program's.
        container_id: whose messages.
    """

    def __init__(self, path: str | Path, container_id: str) -> None:
        super().__init__(path, f"amqp10 {container_id}")
        self._number = 0
        self._changes: list[Change] = []

    async def open(self) -> list[Record]:
        """Open the database. Returns the messages in it, in the order of sending. Raises JournalError."""
        records = await self.restore(_records)
        self._number = records[-1].number if records else 0
        return records

    def keep(self, target: Any, message_format: int, delivery_tag: bytes | None, payload: bytes) -> int:
        """A message has been sent. Returns its number."""
        self._number = number = self._number + 1
        value = encode_value(List([target, message_format, delivery_tag, payload]))
        self._changes.append(Change("put", "outgoing", number, value))
        return number

    def forget(self, number: int) -> None:
        """The message has an outcome."""
        self._changes.append(Change("delete", "outgoing", number))

    def put(self, changes: list[Change]) -> asyncio.Future[None] | None:
        mine, self._changes = self._changes, []
        return super().put(mine + changes)

    async def close(self) -> None:
        self.put([])
        await super().close()


def _records(changes: list[Change]) -> list[Record]:
    """Raises DecodeError for what is not a record."""
    records: list[Record] = []
    for number, value in records_of(changes, ("outgoing",), "amqp10")["outgoing"].items():
        items = decode_value(value)
        if not isinstance(items, List) or len(items) != 4:
            raise Malformed("a record is a list of four values", protocol="amqp10")
        target, message_format, delivery_tag, payload = items
        if (
            not (target is None or isinstance(target, str | Target))
            or not isinstance(message_format, int)
            or not 0 <= message_format < 1 << 32
            or not (delivery_tag is None or isinstance(delivery_tag, bytes))
            or not isinstance(payload, bytes)
        ):
            raise Malformed("a record is a target, a message format, a delivery tag and a payload", protocol="amqp10")
        records.append(Record(number, target, message_format, delivery_tag, payload))
    return records
