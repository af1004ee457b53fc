"""Layers between the transport and the protocol: none, deflate, snappy, or WebSocket frames.

A carrier turns bytes of the transport into bytes of the protocol (`receive`) and back (`send`). It does no I/O.
`receive` raises DecodeError for bytes that are not in its format; the carrier is then finished. Earlier bytes of the protocol
are in the error's `messages`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from wirefmt.connection.deflate import Agreed, Messages
from wirefmt.errors import DecodeError, LimitExceeded, Malformed

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Bytes that one call of `receive` may produce by default. Compressed data can grow a thousandfold.
LIMIT = 1 << 26

#: Bytes that one call of `read` gives at most.
PIECE = 1 << 16


class Carrier(Protocol):
    def receive(self, data: bytes) -> bytes:
        """Return the bytes of the protocol in `data`, as far as they are complete."""
        ...

    def send(self, data: bytes) -> bytes:
        """Return bytes for the transport that contain all of `data`."""
        ...


class Compression(Carrier, Protocol):
    """A carrier whose output can be larger than its input. It can be read in pieces, so that a reader can stop between two."""

    def feed(self, data: bytes) -> None:
        """Keep bytes of the transport."""
        ...

    def read(self) -> bytes:
        """The next bytes of the protocol, at most PIECE; b"": there are none before more is fed. Raises DecodeError."""
        ...

    @property
    def unread(self) -> int:
        """Bytes of the transport that are kept and from which `read` may get more."""
        ...


class CarriedDecoder:
    """A Decoder whose bytes come through a compression. It reads one piece at a time, so that a reader can stop.

    Args:
        decoder: of the protocol.
        carrier: what the bytes of the transport go through.
    """

    def __init__(self, decoder: Any, carrier: Compression) -> None:
        self.begin(1 << 62, 1 << 62)
        self._decoder = decoder
        self._carrier = carrier
        self._back = b""

    @property
    def pending(self) -> int:
        pending: int = self._decoder.pending
        return pending

    @property
    def unread(self) -> int:
        """Bytes of the protocol and of the transport that have not been read."""
        unread: int = self._decoder.unread
        return unread + self._carrier.unread + len(self._back)

    def begin(self, messages: int, size: int) -> None:
        """A turn of reading begins, for at most so many messages, and not much more than so many bytes."""
        self._messages, self._bytes = messages, size

    @property
    def spent(self) -> bool:
        """True: the turn has had its messages, or its bytes, and what they contain has been read."""
        return self._messages <= 0 or (self._bytes <= 0 and not self._back and not self._decoder.unread)

    def feed(self, data: Buffer, /, count: int | None = None) -> list[Any]:
        """The messages in the next piece, at most `count`, and at most what the turn has left. Raises DecodeError."""
        if memoryview(data).nbytes:
            self._carrier.feed(bytes(data))
        piece, self._back = self._back, b""
        if not piece and count != 0 and not self._decoder.unread:
            piece = self._carrier.read()
            self._bytes -= len(piece)
        most = self._messages if count is None else min(count, self._messages)
        messages: list[Any] = self._decoder.feed(piece, most)
        self._messages -= len(messages)
        return messages

    def rest(self) -> bytes:
        """The bytes of the protocol that have not been read."""
        rest: bytes = self._decoder.rest()
        return self._back + rest

    def put_back(self, data: bytes) -> None:
        """Read these bytes next: what `rest` has returned."""
        self._back = data


class Plain:
    """No carrier: the protocol's bytes, unchanged."""

    def receive(self, data: bytes) -> bytes:
        return data

    def send(self, data: bytes) -> bytes:
        return data


class _Pieces:
    """`feed` and `read` of both compressions."""

    def __init__(self, protocol: str, limit: int) -> None:
        self._protocol = protocol
        self._limit = limit

    def receive(self, data: bytes) -> bytes:
        out = bytearray()
        try:
            self.feed(data)
            while piece := self.read():
                out += piece
                if len(out) > self._limit:
                    raise LimitExceeded("more bytes than the caller's limit", protocol=self._protocol, have=self._limit)
        except DecodeError as error:
            error.messages = (bytes(out[: self._limit]),)
            raise
        return bytes(out)

    def feed(self, data: bytes) -> None:
        raise NotImplementedError

    def read(self) -> bytes:
        raise NotImplementedError


class Deflate(_Pieces):
    """A raw deflate stream (RFC 1951) in each direction, flushed after each `send`.

    Args:
        level: 0 (stored) to 9 (smallest).
        limit: bytes that one call of `receive` may produce.
    """

    def __init__(self, level: int = 6, limit: int = LIMIT) -> None:
        super().__init__("deflate", limit)
        self._inflate = zlib.decompressobj(wbits=-15)
        self._deflate = zlib.compressobj(level, wbits=-15)
        self._kept = b""

    def feed(self, data: bytes) -> None:
        self._kept += data

    def read(self) -> bytes:
        if not self._kept and not self._more:
            return b""
        try:
            out = self._inflate.decompress(self._kept, PIECE)
        except zlib.error as error:
            raise Malformed(f"not a deflate stream: {error}", protocol="deflate") from None
        self._kept = self._inflate.unconsumed_tail
        self._more = len(out) == PIECE  # zlib may hold bytes although it has taken all of its input
        if self._inflate.unused_data:
            raise Malformed("bytes after the end of the deflate stream", protocol="deflate")
        return out

    @property
    def unread(self) -> int:
        return len(self._kept) or int(self._more)

    def send(self, data: bytes) -> bytes:
        return self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    _more = False


class Snappy(_Pieces):
    """Snappy's framing format in each direction: a stream identifier, then chunks with a checksum.

    Args:
        limit: bytes that one call of `receive` may produce.

    Raises ImportError without cramjam (`wirefmt[snappy]`).
    """

    IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
    #: Bytes of a chunk that has 65536 bytes in it, with its checksum.
    CHUNK_MAX = 76490 + 4

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__("snappy", limit)
        from cramjam import snappy

        self._library = snappy
        self._kept = bytearray()
        self._skip = 0  # bytes of a chunk that has nothing for us
        self._begun = False
        self._said = False
        self._wanted = 4  # bytes of _kept from which there is something to do

    def feed(self, data: bytes) -> None:
        self._kept += data

    def read(self) -> bytes:
        kept = self._kept
        while True:
            if self._skip:
                size = min(self._skip, len(kept))
                del kept[:size]
                self._skip -= size
            self._wanted = 4
            if len(kept) < 4:
                return b""
            kind, size = kept[0], int.from_bytes(kept[1:4], "little")
            if 0x80 <= kind < 0xFF:  # padding, and chunks that may be skipped
                self._skip = 4 + size
                continue
            if kind != 0xFF and kind > 1:
                raise Malformed(f"chunk type {kind}", protocol="snappy")
            if size > self.CHUNK_MAX or (kind == 0xFF and size != 6):
                raise Malformed(f"a chunk of {size} bytes", protocol="snappy")
            self._wanted = 4 + size
            if len(kept) < 4 + size:
                return b""
            self._wanted = 4  # another chunk may follow
            chunk = bytes(kept[: 4 + size])
            del kept[: 4 + size]
            if kind == 0xFF:
                if chunk != self.IDENTIFIER:
                    raise Malformed("not the stream identifier", protocol="snappy")
                self._begun = True
            elif not self._begun:
                raise Malformed("no stream identifier", protocol="snappy")
            else:
                try:
                    out = bytes(self._library.decompress(self.IDENTIFIER + chunk))
                except Exception as error:  # cramjam's own, which has no better name
                    raise Malformed(f"not a chunk: {error}", protocol="snappy") from None
                if out:
                    return out

    @property
    def unread(self) -> int:
        return len(self._kept) if len(self._kept) >= self._wanted else 0

    def send(self, data: bytes) -> bytes:
        if not data:
            return b""
        out = bytes(self._library.compress(data))
        if self._said:
            return out[len(self.IDENTIFIER) :]
        self._said = True
        return out


class WebSocket:
    """Binary WebSocket messages (RFC 6455, 5), after the opening handshake. Frames and protocol messages need not coincide.

    Answers to pings and to a close are in `replies`: bytes for the transport, to be sent before anything else. `closed` becomes
    True with the peer's close frame; bytes after it are dropped.

    Args:
        mask: makes the 4 bytes of a mask for each frame. The client's side has it, because its frames are masked (5.3). None: the
            server's side, whose frames are not masked.
        limit: the largest frame, in bytes, and what the compressed messages of one call of `receive` may contain.
        agreed: the handshake has agreed on permessage-deflate: messages may be compressed (RFC 7692). None: they are not.
    """

    BINARY, CLOSE, PING, PONG = 0x2, 0x8, 0x9, 0xA

    #: Codes of close frames below those of libraries and applications. 1012 to 1014 are in IANA's registry only.
    CODES = frozenset((*range(1000, 1004), *range(1007, 1015)))

    def __init__(
        self, mask: Callable[[], bytes] | None = None, limit: int = LIMIT, agreed: Agreed | None = None
    ) -> None:
        self._mask = mask
        self._limit = limit
        self._kept = bytearray()
        self._needed = 2  # bytes from the start of _kept needed to continue
        self._in_message = False
        self._messages: Messages | None = None
        self._packed = False  # the message is compressed
        if agreed is not None:
            self.agree(agreed)
        self.replies = bytearray()
        self.closed = False

    def agree(self, agreed: Agreed) -> None:
        """The handshake has agreed on permessage-deflate."""
        self._messages = Messages(agreed)

    def receive(self, data: bytes) -> bytes:
        if self._kept or len(data) < self._needed:
            self._kept += data
            if len(self._kept) < self._needed:
                return b""
            data = bytes(self._kept)
        out: list[bytes] = []
        at = 0
        left = self._limit  # what compressed messages may contain
        while not self.closed:
            try:
                frame = self._frame(data, at)
                if frame is not None and frame[0] & 0x0F == self.CLOSE:
                    self._check_close(frame[1])
                elif frame is not None and frame[0] & 0x0F < 0x8:
                    first, payload, after = frame
                    if first & 0x0F:
                        self._packed = first & 0x40 != 0
                    if self._packed and self._messages is not None:
                        payload = self._messages.decompress(payload, first & 0x80 != 0, left)
                        left -= len(payload)
                        frame = first, payload, after
            except DecodeError as error:
                error.messages = (b"".join(out),)
                raise
            if frame is None:
                break
            first, payload, at = frame
            opcode = first & 0x0F
            if opcode == self.PING:
                self.replies += self._write(self.PONG, payload)
            elif opcode == self.CLOSE:
                self.replies += self._write(self.CLOSE, payload[:2])
                self.closed = True
            elif opcode < 0x8:
                self._in_message = not first & 0x80
                out.append(payload)
        self._kept = bytearray() if self.closed else bytearray(data[at:])
        self._needed -= at
        return b"".join(out)

    def send(self, data: bytes) -> bytes:
        packed = self._messages.compress(data) if self._messages is not None and data else None
        if packed is not None:
            return self._write(self.BINARY | 0x40, packed)
        return self._write(self.BINARY, data) if data else b""

    def close(self, code: int = 1000) -> bytes:
        """A close frame with this code (7.4)."""
        return self._write(self.CLOSE, code.to_bytes(2))

    def _frame(self, data: bytes, at: int) -> tuple[int, bytes, int] | None:
        """First byte and payload of the frame at `at`, and the position of the next one; None: it is incomplete."""
        if not self._has(data, at, 2):
            return None
        first, second = data[at], data[at + 1]
        self._check(first, second)
        size, at = second & 0x7F, at + 2
        if size > 125:
            width = 2 if size == 126 else 8
            if not self._has(data, at, width):
                return None
            size, at = int.from_bytes(data[at : at + width]), at + width
            if size < (126 if width == 2 else 1 << 16):
                raise Malformed("a length that is longer than it has to be", protocol="websocket", spec="RFC 6455, 5.2")
        if size > self._limit:
            raise LimitExceeded(
                "a frame larger than the caller's limit", protocol="websocket", need=size, have=self._limit
            )
        masked = 4 if second & 0x80 else 0
        if not self._has(data, at, masked + size):
            return None
        payload = data[at + masked : at + masked + size]
        return first, _masked(payload, data[at : at + 4]) if masked else payload, at + masked + size

    def _has(self, data: bytes, at: int, size: int) -> bool:
        """Are this many bytes available? Stores the number, so that a large frame in small pieces is parsed once."""
        self._needed = at + size
        return len(data) >= self._needed

    def _check(self, first: int, second: int) -> None:
        opcode, final, size = first & 0x0F, first & 0x80, second & 0x7F
        if first & 0x70 and self._messages is None:
            raise Malformed("reserved bits are set, no extension is in use", protocol="websocket", spec="RFC 6455, 5.2")
        if first & (0x30 if opcode == self.BINARY else 0x70):
            raise Malformed(
                "a reserved bit on a frame that has none", protocol="websocket", spec="RFC 6455, 5.2; RFC 7692, 6"
            )
        if bool(second & 0x80) is (self._mask is not None):
            raise Malformed(
                "a client must mask its frames, a server must not", protocol="websocket", spec="RFC 6455, 5.1"
            )
        if opcode in (self.CLOSE, self.PING, self.PONG):
            if not final or size > 125:
                raise Malformed(
                    "a control frame must be unfragmented and at most 125 bytes",
                    protocol="websocket",
                    spec="RFC 6455, 5.5",
                )
        elif opcode not in (0x0, self.BINARY):  # these protocols do not use text [MQTT-6.0.0-1]
            raise Malformed(f"opcode {opcode} instead of binary data", protocol="websocket", spec="RFC 6455, 5.6")
        elif (opcode == 0) is not self._in_message:
            raise Malformed("an unexpected fragment", protocol="websocket", spec="RFC 6455, 5.4")

    def _check_close(self, payload: bytes) -> None:
        """A close frame has no payload, or a code and a reason (5.5.1)."""
        code = int.from_bytes(payload[:2])
        if len(payload) == 1 or (payload and code not in self.CODES and not 3000 <= code < 5000):
            raise Malformed(
                f"a close frame of {len(payload)} bytes with code {code}", protocol="websocket", spec="RFC 6455, 7.4"
            )
        try:
            payload[2:].decode()
        except UnicodeDecodeError:
            raise Malformed(
                "the reason of a close frame is not UTF-8", protocol="websocket", spec="RFC 6455, 5.5.1"
            ) from None

    def _write(self, opcode: int, payload: bytes) -> bytes:
        size = len(payload)
        bit = 0x80 if self._mask is not None else 0
        if size < 126:
            head = bytes((0x80 | opcode, bit | size))
        elif size < 1 << 16:
            head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2)
        else:
            head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8)
        if self._mask is None:
            return head + payload
        mask = self._mask()
        return head + mask + _masked(payload, mask)


#: A table for `bytes.translate` for each byte of a mask.
_XOR: Final = tuple(bytes(byte ^ mask for byte in range(256)) for mask in range(256))

#: Bytes from which tables are faster than one large integer.
_LARGE: Final = 1024


def _masked(payload: bytes, mask: bytes) -> bytes:
    """RFC 6455, 5.3: each byte XOR the mask's byte; the same call masks and unmasks."""
    size = len(payload)
    if size < _LARGE:
        repeated = (mask * (size // 4 + 1))[:size]
        return (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)
    out = bytearray(payload)
    for at in range(4):
        out[at::4] = out[at::4].translate(_XOR[mask[at]])
    return bytes(out)
