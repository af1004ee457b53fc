"""The unsettled deliveries of a link, which outlive it (2.6.13)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wirefmt.amqp10._codec import Incoming, List, Outgoing, decode_value, encode_value
from wirefmt.amqp10.events import Change, State


class Terminus:
    """The unsettled deliveries of one end of a link. A new link with the same Terminus resumes them.

    It belongs to one link at a time.

    Args:
        name: the link's name.
        role: "sender" or "receiver": our end.
        established: True: the peer may know the link, so it is resumed and not begun anew.

    Attributes:
        outgoing: of a sender: deliveries that are not settled, in the order of sending, by delivery-tag.
        incoming: of a receiver: the state that we have given to each delivery that is not settled (None: none), by tag.
    """

    def __init__(self, name: str, role: str, *, established: bool = False) -> None:
        if role not in ("sender", "receiver"):
            raise ValueError(f"the role is 'sender' or 'receiver', not {role!r}")
        self.name = name
        self.role = role
        self.established = established
        self.held = False  # by a link
        self.outgoing: dict[bytes, Outgoing] = {}
        self.incoming: dict[bytes, State] = {}
        self.undecided: dict[bytes, Incoming] = {}  # those of `incoming` that the host has and has not answered
        self.next_number = 0

    @property
    def table(self) -> str:
        return f"{self.role} {self.name}"

    def take_number(self) -> tuple[int, bytes]:
        """The number of the next delivery, and its tag."""
        while True:
            number = self.next_number
            self.next_number = number + 1
            tag = (number & 0xFFFFFFFF).to_bytes(4)
            if tag not in self.outgoing:
                return number, tag

    def put(self, tag: bytes) -> Change:
        """The record of a delivery's current state."""
        return Change("put", self.table, tag, self._value(tag))

    def delete(self, tag: bytes) -> Change:
        return Change("delete", self.table, tag)

    def _value(self, tag: bytes) -> bytes:
        if self.role == "sender":
            delivery = self.outgoing[tag]
            items: list[Any] = [delivery.number, delivery.message_format, delivery.payload or b"", delivery.state]
        else:
            items = [self.incoming[tag]]
        return encode_value(List(items))

    def snapshot(self) -> bytes:
        """All deliveries as bytes, for `restore`."""
        tags = self.outgoing if self.role == "sender" else self.incoming
        records = [[tag, self._value(tag)] for tag in tags]
        return encode_value(
            List([self.name, self.role, self.established, self.next_number, List([List(row) for row in records])])
        )

    @staticmethod
    def restore(data: bytes) -> Terminus:
        """From `snapshot`. Raises DecodeError or ValueError for other bytes."""
        name, role, established, number, records = decode_value(data)
        made = Terminus(name, role, established=established)
        for tag, value in records:
            made._load(bytes(tag), bytes(value))
        made.next_number = max(made.next_number, int(number))
        return made

    @staticmethod
    def replay(name: str, role: str, changes: Iterable[Change]) -> Terminus:
        """From all records of `connection.changes()` that have its table, in their order."""
        made = Terminus(name, role, established=True)
        last: dict[bytes, bytes] = {}
        for change in changes:
            if change.table == made.table:
                if change.op == "put":
                    last[change.key] = change.value
                else:
                    last.pop(change.key, None)
        for tag, value in last.items():
            made._load(tag, value)
        if role == "sender":
            made.outgoing = dict(sorted(made.outgoing.items(), key=lambda item: item[1].number))
        return made

    def _load(self, tag: bytes, value: bytes) -> None:
        items = decode_value(value)
        if self.role == "sender":
            number, message_format, payload, state = items
            delivery = Outgoing(None, int(number), tag, False)
            delivery.message_format = int(message_format)
            delivery.payload = bytes(payload)
            delivery.size = len(delivery.payload)
            delivery.state = state
            self.outgoing[tag] = delivery
            self.next_number = max(self.next_number, delivery.number + 1)
        else:
            (self.incoming[tag],) = items


def section_end(payload: bytes, section_number: int) -> int:
    """Where the section with this number begins in the bytes of a message; len(payload) if the message has no such section."""
    at = 0
    for _ in range(section_number):
        if at >= len(payload):
            break
        at = _end_of_value(payload, at)
    return min(at, len(payload))


def _end_of_value(data: bytes, at: int) -> int:
    """The end of the value that begins at `at` (part 1, 1.2); len(data) if it runs past the end."""
    if at >= len(data):
        return len(data)
    code = data[at]
    if code == 0:  # a descriptor, then a value
        return _end_of_value(data, _end_of_value(data, at + 1)) if _shallow(data, at) else len(data)
    width = code >> 4
    if width < 0xA:
        return at + 1 + (0, 1, 2, 4, 8, 16)[width - 4] if width >= 4 else len(data)
    size = 1 if width in (0xA, 0xC, 0xE) else 4
    return at + 1 + size + int.from_bytes(data[at + 1 : at + 1 + size])


def _shallow(data: bytes, at: int) -> bool:
    """The descriptor of a section is a number or a symbol, not described itself."""
    return at + 1 < len(data) and data[at + 1] != 0
