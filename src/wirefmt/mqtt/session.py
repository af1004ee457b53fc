"""MQTT session state that outlives a connection (MQTT 5.0, 4.1): unfinished messages in both directions."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from wirefmt import mqtt
from wirefmt.connection.contract import Change, records_of
from wirefmt.errors import DecodeError, EncodeError, LocalProtocolError, Malformed
from wirefmt.mqtt._codec import Delivery, SessionFlows, split_packet

__all__ = ["NEVER", "Delivery", "Held", "Session", "changed", "split_packet"]

#: Session Expiry Interval of a session that never expires (3.1.2.11.2).
NEVER = 0xFFFF_FFFF


_SNAPSHOT = b"wirefmt mqtt session 2\0"
_META = struct.Struct(">BIHQ")  # established, Session Expiry Interval, next packet identifier, next number
_OUTGOING = struct.Struct(">BBBH")  # received, version, QoS, packet identifier; the packet follows
_ENTRY = struct.Struct(">QI")  # key, size of the value
_VERSIONS: Final = (3, 4, 5)
_NUMBERS: Final = range(1, 1 << 62)  # of deliveries
_IDENTIFIERS: Final = range(1, 65536)


class Held(NamedTuple):
    """The content of a QoS 2 message of the peer, kept until its PUBREL.

    Attributes:
        version: the protocol version of the packet.
        packet: the PUBLISH, with its full topic.
    """

    version: int
    packet: bytes

    @property
    def message(self) -> mqtt.Publish:
        """The PUBLISH. Raises DecodeError if the packet is not one."""
        # "lax", since a connection may tolerate violations (`ConnectionOptions.tolerate`)
        message = mqtt.decode(self.packet, version=self.version, strictness="lax")
        if not isinstance(message, mqtt.Publish):
            raise _bad(f"a {type(message).__name__} in place of a PUBLISH")
        return message


def changed(
    message: mqtt.Publish,
    properties: Iterable[tuple[str, Any]] | None = None,
    *,
    topic_name: str | None = None,
    packet_identifier: int | None = None,
    version: int | None = None,
) -> mqtt.Publish:
    """The PUBLISH with other fields, and without properties before 5.0. Raises EncodeError if only LAX accepts it."""
    if version is None:
        version = message.version
    if properties is None:
        properties = message.properties if version == 5 else ()
    return mqtt.Publish(
        topic_name=message.topic_name if topic_name is None else topic_name,
        payload=message.payload,
        qos=message.qos,
        retain=message.retain,
        dup=message.dup,
        packet_identifier=message.packet_identifier if packet_identifier is None else packet_identifier,
        properties=properties,
        version=version,
    )


class Session(SessionFlows):
    """What client and server remember between connections, as far as the protocol decides it (4.1).

    Subscriptions, queued messages, retained messages and wills are the host's. A session belongs to one connection at a
    time. It is a value: `snapshot` gives bytes, `restore` takes them.

    Args:
        client_identifier: the key of the session. A connection fills it in.
        expiry_interval: seconds that the session lives after its connection; 0: it ends with it; NEVER. A connection
            sets it. Watching the time is the host's.
        established: True if the other side has a session for this identifier as far as we know. A client whose session
            is not established takes Session Present 1 as a fault [MQTT-3.2.2-4].
        journaled: True: `changes` has something to say.
    """

    def __init__(
        self,
        client_identifier: str = "",
        *,
        expiry_interval: int = 0,
        established: bool = False,
        journaled: bool = False,
    ) -> None:
        self.client_identifier = client_identifier
        self.expiry_interval = expiry_interval
        self.established = established
        self.held = False  # a connection has it
        self._changes = [] if journaled else None
        self.note_meta()

    def __repr__(self) -> str:
        return f"<Session {self.client_identifier!r}: {len(self.outgoing)} outgoing, {len(self.incoming)} incoming>"

    # ---- what a connection does

    def establish(self, client_identifier: str, expiry_interval: int) -> None:
        """CONNECT has been accepted: both sides have the session."""
        self.client_identifier = client_identifier
        self.expiry_interval = expiry_interval
        self.established = True
        self.note_meta()

    def release(self, packet_identifier: int) -> Held | None:
        """QoS 2: PUBREL has arrived. Returns what `hold` was given."""
        held: Held | None = self.incoming.pop(packet_identifier)
        if self._changes is not None:
            self._changes.append(Change("delete", "incoming", packet_identifier))
        return held

    @property
    def held_bytes(self) -> int:
        """Bytes of the packets that wait for PUBREL."""
        return sum(len(held.packet) for held in self.incoming.values() if held is not None)

    def clear(self) -> tuple[Delivery, ...]:
        """The session has ended: forget everything. Returns the deliveries that are lost."""
        lost = self._drop_all()
        if self._changes is not None:
            self._changes += [Change("clear", "outgoing", 0), Change("clear", "incoming", 0)]
        self.established = False
        self.note_meta()
        return lost

    # What is compiled notes its changes by these, if the session is journaled.

    def _note_outgoing(self, delivery: Delivery) -> None:
        self._note(Change("put", "outgoing", delivery.number, _outgoing_value(delivery)))

    def _note_finished(self, delivery: Delivery) -> None:
        self._note(Change("delete", "outgoing", delivery.number))

    def _note_held(self, packet_identifier: int, held: Held | None) -> None:
        self._note(Change("put", "incoming", packet_identifier, _incoming_value(held)))

    def _note(self, change: Change) -> None:
        assert self._changes is not None
        self._changes.append(change)

    def note_meta(self) -> None:
        """Put the session's own record among the changes."""
        if self._changes is not None:
            self._changes.append(Change("put", "session", 0, self._meta_value()))

    # ---- what a host does

    def discard(self, delivery: Delivery) -> None:
        """Give up a delivery before the session is resumed: its message has expired, say. A QoS 2 message that has been
        sent does not expire [MQTT-4.3.3-7].

        Raises LocalProtocolError if it is not outstanding, or while a connection has the session: an acknowledgement may
        be pending.
        """
        if self.held or self.outgoing.get(delivery.packet_identifier) is not delivery:
            raise LocalProtocolError(f"{delivery!r} is not outstanding, or a connection has the session")
        self.finish(delivery)

    def amend(self, delivery: Delivery, properties: Iterable[tuple[str, Any]]) -> Delivery:
        """Give a delivery other properties before the session is resumed: what is left of its Message Expiry Interval, say
        [MQTT-3.3.2-6]. One of an older version, or of QoS 2 once PUBREC has arrived, stays as it is.

        Returns the delivery that takes its place. Raises LocalProtocolError as `discard` does.
        """
        if self.held or self.outgoing.get(delivery.packet_identifier) is not delivery:
            raise LocalProtocolError(f"{delivery!r} is not outstanding, or a connection has the session")
        message = delivery.message
        if message is None or delivery.version != 5:
            return delivery
        packet = changed(message, properties).encode()
        identifier = delivery.packet_identifier
        amended = Delivery(delivery.number, identifier, 5, *split_packet(packet, identifier))
        amended.transmitted = delivery.transmitted
        self._keep(amended)
        if self._changes is not None:
            self._note_outgoing(amended)
        return amended

    def number_after(self, number: int) -> None:
        """Give the next delivery a number after this one."""
        self._number = max(self._number, number + 1)

    def changes(self) -> list[Change]:
        """Records since the last call. Empty if the session is not journaled.

        Tables: "session" (one record, key 0), "outgoing" (key: the delivery's number), "incoming" (key: the packet
        identifier).
        """
        if not self._changes:
            return []
        changes: list[Change] = self._changes
        self._changes = []
        return changes

    def snapshot(self) -> bytes:
        """The whole session as bytes. Deliveries of an open connection count as transmitted."""
        parts = [_SNAPSHOT]
        records = (
            [(0, self._meta_value())],
            [(d.number, _outgoing_value(d)) for d in self.outgoing.values()],
            [(identifier, _incoming_value(held)) for identifier, held in self.incoming.items()],
        )
        for table in records:
            parts.append(len(table).to_bytes(4))
            for key, value in table:
                parts += [_ENTRY.pack(key, len(value)), value]
        return b"".join(parts)

    @classmethod
    def restore(cls, snapshot: bytes, *, journaled: bool = False) -> Session:
        """A session from `snapshot`.

        Raises DecodeError if the bytes are not a snapshot, or one of its records is not what it must be.
        """
        changes: list[Change] = []
        keys: set[tuple[str, int]] = set()
        tables: tuple[Literal["session", "outgoing", "incoming"], ...] = ("session", "outgoing", "incoming")
        at = len(_SNAPSHOT)
        if snapshot[:at] != _SNAPSHOT:
            raise _bad("not a session of this version")
        for table in tables:
            count, at = _number(snapshot, at, 4)
            for _ in range(count):
                key, at = _number(snapshot, at, 8)
                size, at = _number(snapshot, at, 4)
                if size > len(snapshot) - at:
                    raise _bad("a record is cut")
                if (table, key) in keys:
                    raise _bad(f"{table} has two records {key}")
                keys.add((table, key))
                changes.append(Change("put", table, key, snapshot[at : at + size]))
                at += size
        if at != len(snapshot):
            raise _bad("bytes after the last record")
        return cls.replay(changes, journaled=journaled)

    @classmethod
    def replay(cls, changes: Iterable[Change], *, journaled: bool = False) -> Session:
        """A session from a journal: all changes since it was made, or what is left of them when only the last record of
        each table and key is kept.

        Raises DecodeError for what is not a record, in either direction: a packet that is not the PUBLISH of its packet
        identifier in its version, a packet identifier twice, a number out of range.
        """
        tables = records_of(changes, ("session", "outgoing", "incoming"), "mqtt session")
        session = cls()
        session._load(tables)
        if journaled:
            session._changes = []
        return session

    # ---- records

    def _meta_value(self) -> bytes:
        meta = _META.pack(self.established, self.expiry_interval, self.identifiers.next, self._number)
        return meta + self.client_identifier.encode()

    def _load(self, tables: dict[str, dict[int, bytes]]) -> None:
        meta = tables["session"].pop(0, b"")
        if len(meta) < _META.size or tables["session"]:
            raise _bad("the session's own record is missing or cut, or there is another one")
        established, self.expiry_interval, next_identifier, number = _META.unpack_from(meta)
        try:
            identifier = mqtt.Connect(client_identifier=meta[_META.size :].decode()).client_identifier
            self.identifiers.next = next_identifier
        except (EncodeError, ValueError) as error:
            raise _bad(str(error)) from None
        self.client_identifier = identifier
        self.established = bool(established)
        self._number = _in(_NUMBERS, number)
        for number, value in tables["outgoing"].items():
            delivery = _outgoing_from(_in(_NUMBERS, number), value)
            if delivery.packet_identifier in self.outgoing:
                raise _bad("two deliveries have one packet identifier")
            self._keep(delivery)
            if number >= self._number:  # sent after the session's own record was written
                self._number = number + 1
                self.identifiers.next = delivery.packet_identifier % 65535 + 1
        for packet_identifier, value in tables["incoming"].items():
            self.incoming[_in(_IDENTIFIERS, packet_identifier)] = _incoming_from(packet_identifier, value)


def _incoming_value(held: Held | None) -> bytes:
    return b"" if held is None else bytes((held.version,)) + held.packet


def _incoming_from(identifier: int, value: bytes) -> Held | None:
    if not value:
        return None
    held = Held(value[0], value[1:])
    _check(held.version, held, identifier, 2)
    return held


def _outgoing_value(delivery: Delivery) -> bytes:
    head = _OUTGOING.pack(delivery.received, delivery.version, delivery.qos, delivery.packet_identifier)
    return b"".join((head, *delivery.buffers))


def _outgoing_from(number: int, value: bytes) -> Delivery:
    if len(value) < _OUTGOING.size:
        raise _bad("a delivery is cut")
    received, version, qos, identifier = _OUTGOING.unpack_from(value)
    packet = value[_OUTGOING.size :]
    if received:
        if received > 1 or packet or qos != 2 or version not in _VERSIONS:
            raise _bad("a delivery that the peer has received has QoS 2, a version and no content")
        delivery = Delivery(number, _in(_IDENTIFIERS, identifier), version, b"\x34", b"")
        delivery.drop_content()
    else:
        _check(version, packet, identifier, qos)
        delivery = Delivery(number, identifier, version, *split_packet(packet, identifier))
    delivery.transmitted = True
    return delivery


def _check(version: int, content: Held | bytes, identifier: int, qos: int) -> None:
    """Raises DecodeError if this is not the PUBLISH of this packet identifier and QoS, with its full topic. What we send keeps
    all rules; what has arrived may break those that its connection tolerated."""
    if version not in _VERSIONS:
        raise _bad(f"no packet has version {version}")
    try:
        message = content.message if isinstance(content, Held) else mqtt.decode(content, version=version)
    except DecodeError as error:
        raise _bad(f"a packet of the session: {error}") from None
    if (
        not isinstance(message, mqtt.Publish)
        or (message.packet_identifier, message.qos) != (identifier, qos)
        or any(name == "topic_alias" for name, _ in message.properties)
        or (message.dup and not isinstance(content, Held))
    ):
        raise _bad(f"a packet of the session is not the PUBLISH of packet identifier {identifier}")


def _in(numbers: range, number: int) -> int:
    if number not in numbers:
        raise _bad(f"{number} is not a number of {numbers[0]} to {numbers[-1]}")
    return number


def _number(data: bytes, at: int, size: int) -> tuple[int, int]:
    if size > len(data) - at:
        raise _bad("the snapshot is cut")
    return int.from_bytes(data[at : at + size]), at + size


def _bad(reason: str) -> DecodeError:
    return Malformed(reason, protocol="mqtt session")
