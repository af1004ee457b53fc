"""Secrets of TLS connections: lines of an NSS key log, and of the Decryption Secrets Blocks of a pcapng file.

A key log may be large, and almost none of its lines belong to the capture. So a compiled index keeps 16 bytes for each line, a
part of its client random and its place in the file, and a line is read when a connection asks for it. Scanning the file for each
connection would need no index, but its time is the product of both.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator

from wirefmt.capture._engine import KeyLogIndex
from wirefmt.capture.tls import Sessions
from wirefmt.capture.tls_rsa import PrivateKeys
from wirefmt.errors import CaptureError

#: Bytes of secrets blocks that are kept; more are counted and not used.
BLOCKS_MOST = 64 << 20
#: Bytes of a key log that are read at a time, and of its longest line.
PIECE, LINE_MOST = 1 << 20, 1 << 10
#: Bytes at the end of a key log whose master secrets are tried for resumed sessions, and how many are tried for all connections.
TRIED_BYTES, TRIED_MOST = 1 << 20, 1 << 16
#: The type of secrets in a block: an NSS key log ("TLSK"; draft-ietf-opsawg-pcapng, 4.7).
TLS_KEY_LOG = 0x544C534B


class _Log:
    """A key log in a file that may grow."""

    def __init__(self, path: str) -> None:
        self._path, self._at, self._size = path, 0, 0
        self._text = None if _is_file(path) else _whole(path)
        self._index = KeyLogIndex()
        self.refresh()

    def refresh(self) -> None:
        """Index lines that were appended. A file that is shorter now is a new one."""
        if self._text is not None:
            if not self._at:
                self._at = self._index.add(self._text, 0, True)
            return
        try:
            with open(self._path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == self._size:
                    return
                if size < self._size:
                    self._index, self._at = KeyLogIndex(), 0
                self._size = size
                file.seek(self._at)
                while piece := file.read(PIECE):
                    last = (
                        len(piece) < PIECE
                    )  # its last line may still be written: it is read again when the file has grown
                    used = self._index.add(piece, self._at, last)
                    if last:
                        self._at += piece.rfind(b"\n") + 1
                        break
                    self._at += used or PIECE
                    file.seek(self._at)
        except OSError as fault:
            raise CaptureError(f"cannot read the key log {self._path!r}: {fault.strerror or fault}") from fault

    def last_lines(self) -> list[bytes]:
        """Of the last TRIED_BYTES."""
        if self._text is not None:
            return self._text[-TRIED_BYTES:].splitlines()
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, self._size - TRIED_BYTES))
                return file.read(TRIED_BYTES).splitlines()
        except OSError:
            return []

    def lines(self, start: bytes) -> list[bytes]:
        places = self._index.find(start)
        if not places:
            return []
        if self._text is not None:
            return [bytes(self._text[at : at + LINE_MOST]).split(b"\n", 1)[0] for at in places]
        found = []
        try:
            with open(self._path, "rb") as file:
                for at in places:
                    file.seek(at)
                    found.append(file.readline(LINE_MOST))
        except OSError:
            return []
        return found


class _Blocks:
    """The key logs of secrets blocks."""

    def __init__(self) -> None:
        self._text, self._index, self._indexed = bytearray(), KeyLogIndex(), 0

    def __len__(self) -> int:
        return len(self._text)

    def __bytes__(self) -> bytes:
        return bytes(self._text)

    def add(self, text: bytes, last: bool) -> None:
        """The next bytes of a block; last: its end."""
        self._text += text + b"\n" if last else text
        self._indexed += self._index.add(bytes(self._text[self._indexed :]), self._indexed, last)

    def last_lines(self) -> list[bytes]:
        return bytes(self._text[-TRIED_BYTES:]).splitlines()

    def lines(self, start: bytes) -> list[bytes]:
        return [bytes(self._text[at : at + LINE_MOST]).split(b"\n", 1)[0] for at in self._index.find(start)]


def _is_file(path: str) -> bool:
    try:
        return "://" not in path and stat.S_ISREG(os.stat(path).st_mode)
    except OSError as fault:
        raise CaptureError(f"cannot read the key log {path!r}: {fault.strerror or fault}") from fault


def _whole(path: str) -> bytes:
    """Of a pipe or a URL."""
    try:
        if "://" in path:
            import fsspec

            with fsspec.open(path, "rb") as opened:
                return bytes(opened.read())
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError, ImportError) as fault:
        raise CaptureError(f"cannot read the key log {path!r}: {fault}") from fault


def parse_line(line: bytes) -> tuple[str, bytes, bytes] | None:
    """Label, client random and secret of a line; None: it is another line."""
    words = line.split()
    if len(words) != 3 or line.lstrip()[:1] == b"#":
        return None
    try:
        label, random, secret = (
            words[0].decode("ascii"),
            bytes.fromhex(words[1].decode()),
            bytes.fromhex(words[2].decode()),
        )
    except ValueError:
        return None
    return label, random, secret


class Secrets:
    """All secrets of a reader: of its key log, its private keys and the blocks of its captures. Its decoders share it.

    Attributes:
        complete: no further secret can come: a connection without one is given up at once, others wait for it.
        sessions: master secrets of TLS 1.2 that were used.
    """

    def __init__(
        self, keylog: str | os.PathLike[str] | None = None, keys: str | os.PathLike[str] | None = None
    ) -> None:
        self.sessions = Sessions()
        self.complete = self._last = False
        self.blocks_passed = 0  # bytes of secrets blocks beyond BLOCKS_MOST
        self._log = None if keylog is None else _Log(os.fspath(keylog))
        self._keys = None if keys is None else PrivateKeys(os.fspath(keys))
        self._blocks = _Blocks()
        self._ahead: Callable[[Secrets], None] | None = None
        self._looked = False
        self._tries = TRIED_MOST
        self._lock = threading.RLock()

    def begin(self, ahead: Callable[[Secrets], None] | None, complete: bool) -> None:
        """A capture begins. ahead: reads all its blocks, and is called when a secret is missing; complete: it does not grow."""
        with self._lock:
            self._ahead, self.complete = ahead, complete and ahead is None
            self._last, self._looked = complete, False

    def add(self, kind: int, octets: bytes, last: bool) -> None:
        """The next bytes of a secrets block; last: its end."""
        with self._lock:
            if kind != TLS_KEY_LOG or self._looked:
                return
            if len(self._blocks) + len(octets) > BLOCKS_MOST:
                self.blocks_passed += len(octets)
                return
            self._blocks.add(octets, last)

    def blocks(self) -> bytes:
        """The key logs of all secrets blocks so far."""
        with self._lock:
            return bytes(self._blocks)

    def give(self, blocks: Iterable[bytes]) -> None:
        """All there is in the secrets blocks of the captures that are read in pieces: no further secret comes."""
        for text in dict.fromkeys(blocks):
            self.add(TLS_KEY_LOG, text, True)
        self.begin(None, True)

    def _look_ahead(self) -> bool:
        """Read the blocks of the whole capture, once. False: that was done."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return False
        try:
            ahead(self)
        finally:
            self._looked, self.complete = True, self._last
        return True

    def any(self) -> bool:
        """Is there any secret, as far as is known?"""
        with self._lock:
            if self._log is not None or self._keys is not None or len(self._blocks):
                return True
            return self._look_ahead() and len(self._blocks) > 0

    def find(self, random: bytes) -> dict[str, bytes]:
        """Label -> secret, of this client random."""
        with self._lock:
            if self._log is not None and not self.complete:
                self._log.refresh()
            found = self._lines(random)
            if not found and self._look_ahead():
                found = self._lines(random)
            return found

    def premaster(self, encrypted: bytes, version: int) -> bytes | None:
        """What a client that has offered this version has encrypted with a server's RSA key: a line RSA of a key log has it, by
        its first 8 bytes, or a private key opens it."""
        with self._lock:
            for log in (self._log, self._blocks):
                for line in log.lines(encrypted[:8]) if log is not None else ():
                    parsed = parse_line(line)
                    if parsed is not None and parsed[0] == "RSA" and parsed[1] == encrypted[:8]:
                        return parsed[2]
        return None if self._keys is None else self._keys.premaster(encrypted, version)

    def masters(self) -> Iterator[bytes]:
        """Master secrets of TLS 1.2, the last ones first: one of them may be that of a session which is resumed."""
        with self._lock:
            lines = [*self._blocks.last_lines(), *(self._log.last_lines() if self._log is not None else ())]
        for line in reversed(lines):
            parsed = parse_line(line)
            if parsed is not None and parsed[0] == "CLIENT_RANDOM" and self._tries:
                self._tries -= 1
                yield parsed[2]

    def _lines(self, random: bytes) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for log in (self._log, self._blocks):
            for line in log.lines(random[:8]) if log is not None else ():
                parsed = parse_line(line)
                if parsed is not None and parsed[1] == random and parsed[2]:
                    found[parsed[0]] = parsed[2]
        return found
