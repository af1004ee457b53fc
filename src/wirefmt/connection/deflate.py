"""permessage-deflate (RFC 7692): compressed messages of WebSockets, for both ends, without input or output.

The handshake agrees on it (`Deflate.offer`, `Deflate.accept`, `Deflate.answer`); `Messages` compresses and decompresses.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from wirefmt.errors import LimitExceeded, Malformed

NAME: Final = "permessage-deflate"

#: What is removed from the end of a compressed message (7.2.1).
TAIL: Final = b"\0\0\xff\xff"

#: Bytes that are decompressed at once.
PIECE: Final = 1 << 16

_FLAGS: Final = ("server_no_context_takeover", "client_no_context_takeover")
_BITS: Final = ("server_max_window_bits", "client_max_window_bits")


@dataclass(frozen=True, slots=True)
class Deflate:
    """What one end wants of permessage-deflate.

    A side keeps, for each connection, up to 256 KiB for what it compresses and 44 KiB for what it decompresses. Fewer bits of a
    window, and no context, need less and compress less. Do not compress secrets together with what an attacker may choose: the
    size of a message tells about its contents.

    Attributes:
        client_no_context_takeover, server_no_context_takeover: True: each message of that side is compressed without what was
            before it.
        client_max_window_bits, server_max_window_bits: 9 to 15: that side refers back at most 2 ** bits bytes. A client that
            does not offer it may use 15.
        level: of our compression, 1 (fast) to 9 (small).
        smallest: bytes from which our messages are compressed.
    """

    client_no_context_takeover: bool = False
    server_no_context_takeover: bool = False
    client_max_window_bits: int = 15
    server_max_window_bits: int = 15
    level: int = 6
    smallest: int = 64

    def __post_init__(self) -> None:
        for name in _BITS:
            if not 9 <= getattr(self, name) <= 15:
                raise ValueError(f"{name} must be 9 to 15, not {getattr(self, name)!r}")
        if not 1 <= self.level <= 9:
            raise ValueError(f"level must be 1 to 9, not {self.level!r}")

    def offer(self) -> str:
        """A client's Sec-WebSocket-Extensions."""
        words = [NAME, *(name for name in _FLAGS if getattr(self, name))]
        if self.server_max_window_bits < 15:
            words.append(f"server_max_window_bits={self.server_max_window_bits}")
        bits = self.client_max_window_bits
        words.append("client_max_window_bits" if bits == 15 else f"client_max_window_bits={bits}")
        return "; ".join(words)

    def accept(self, answer: str) -> Agreed:
        """What a server's Sec-WebSocket-Extensions agrees on. Raises ValueError: it does not answer our offer (7.1)."""
        extensions = _extensions(answer)
        if len(extensions) != 1 or extensions[0][0] != NAME:
            raise ValueError(f"an extension that was not requested: {answer[:80]!r}")
        told = _parameters(extensions[0][1], False)
        if self.server_no_context_takeover and "server_no_context_takeover" not in told:
            raise ValueError("the server ignores server_no_context_takeover")
        server_bits, client_bits = (told.get(name, 15) for name in _BITS)
        if server_bits > self.server_max_window_bits or told.get(_BITS[1], 8) > self.client_max_window_bits:
            raise ValueError(f"a window that is larger than was requested: {answer[:80]!r}")
        return Agreed(
            self.client_no_context_takeover or "client_no_context_takeover" in told,
            min(client_bits, self.client_max_window_bits),
            "server_no_context_takeover" in told,
            server_bits,
            self.level,
            self.smallest,
        )

    def answer(self, offers: str) -> tuple[str, Agreed] | None:
        """A server's answer to a client's Sec-WebSocket-Extensions, and what it agrees on. None: no offer is accepted (7)."""
        for name, parameters in _extensions(offers):
            if name != NAME:
                continue
            try:
                told = _parameters(parameters, True)
            except ValueError:
                continue  # another offer may follow
            server_fresh, client_fresh = (name in told or getattr(self, name) for name in _FLAGS)
            server_bits = min(self.server_max_window_bits, told.get(_BITS[0], 15))
            client_bits = min(self.client_max_window_bits, told[_BITS[1]]) if _BITS[1] in told else 15
            words = [NAME]
            words += [flag for flag, is_set in zip(_FLAGS, (server_fresh, client_fresh), strict=True) if is_set]
            bits = zip(_BITS, (server_bits, client_bits), strict=True)
            words += [f"{name}={most}" for name, most in bits if most < 15 or (name in told and name == _BITS[0])]
            agreed = Agreed(server_fresh, server_bits, client_fresh, client_bits, self.level, self.smallest)
            return "; ".join(words), agreed
        return None


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a handshake has agreed on, as one end sees it.

    Attributes:
        own_fresh, peer_fresh: each message is compressed without what was before it.
        own_bits, peer_bits: of the window, 8 to 15.
        level, smallest: see `Deflate`.
    """

    own_fresh: bool
    own_bits: int
    peer_fresh: bool
    peer_bits: int
    level: int = 6
    smallest: int = 0


class Messages:
    """Compresses our messages, and decompresses the peer's.

    Args:
        agreed: with the peer.
    """

    def __init__(self, agreed: Agreed) -> None:
        self._agreed = agreed
        self._inflate: zlib._Decompress | None = None
        self._deflate: zlib._Compress | None = None
        self._window = b""  # the last bytes of the peer's

    def compress(self, data: bytes) -> bytes | None:
        """The payload of a message. None: it is to be sent as it is."""
        agreed = self._agreed
        if len(data) < agreed.smallest or agreed.own_bits < 9:  # zlib writes no window of 8 bits
            return None
        stream = self._deflate
        if stream is None:
            stream = zlib.compressobj(agreed.level, zlib.DEFLATED, -agreed.own_bits)
            if not agreed.own_fresh:
                self._deflate = stream
        packed = stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)
        if agreed.own_fresh and len(packed) - 4 >= len(data):
            return None
        return packed[:-4]

    def decompress(self, data: bytes, ends: bool, most: int) -> bytes:
        """What is in these bytes of a message. `ends`: the message ends with them.

        Raises:
            Malformed: it is not compressed data.
            LimitExceeded: there are more than `most` bytes in it.
        """
        size = 1 << max(self._agreed.peer_bits, 9)
        rest = data + TAIL if ends else data
        out = bytearray()
        try:
            while True:
                if self._inflate is None:
                    # what is before a block that said it was the last may be referred to
                    self._inflate = zlib.decompressobj(-max(self._agreed.peer_bits, 9), self._window)
                piece = self._inflate.decompress(rest, PIECE)
                out += piece
                self._window = piece[-size:] if len(piece) >= size else (self._window + piece)[-size:]
                if len(out) > most:
                    raise LimitExceeded(
                        "compressed messages with more bytes than the caller's limit", protocol="websocket", have=most
                    )
                rest = self._inflate.unconsumed_tail
                if self._inflate.eof:
                    rest, self._inflate = self._inflate.unused_data, None
                if not rest and len(piece) < PIECE:
                    break
        except zlib.error as error:
            raise Malformed(
                f"not a compressed message: {error}", protocol="websocket", spec="RFC 7692, 7.2.2"
            ) from None
        if ends and self._agreed.peer_fresh:
            self._inflate, self._window = None, b""
        return bytes(out)


def _extensions(text: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Names and parameters of a Sec-WebSocket-Extensions (RFC 6455, 9.1). Values of ours have neither comma nor semicolon."""
    found = []
    for extension in text.split(","):
        name, *parameters = extension.split(";")
        pairs: list[tuple[str, str | None]] = []
        for parameter in parameters:
            key, equals, value = parameter.partition("=")
            value = value.strip()
            if len(value) > 1 and value[0] == value[-1] == '"':
                value = value[1:-1]
            pairs.append((key.strip(), value if equals else None))
        if name.strip():
            found.append((name.strip().lower(), pairs))
    return found


def _parameters(pairs: list[tuple[str, str | None]], offered: bool) -> dict[str, int]:
    """The parameters of permessage-deflate. Raises ValueError for those that end its negotiation (7.1). `offered`: by a client,
    whose client_max_window_bits needs no value."""
    told: dict[str, int] = {}
    for name, value in pairs:
        if name in told:
            raise ValueError(f"{name} twice")
        if name in _FLAGS and value is None:
            told[name] = 1
        elif name == _BITS[1] and value is None and offered:
            told[name] = 15
        elif name in _BITS and value is not None and value in ("8", "9", "10", "11", "12", "13", "14", "15"):
            told[name] = int(value)
        else:
            raise ValueError(f"{name}={value!r}")
    return told
