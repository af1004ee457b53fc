"""The RSA key exchange of TLS 1.2: the client's message, and private keys or lines of a key log -> the master secret.

RFC 5246, 7.4.7.1 and 8.1; RFC 7627, 4 (extended master secret). RSA is that of the package `cryptography`.
"""

from __future__ import annotations

import hashlib
from typing import Any

from wirefmt.errors import CaptureError

#: Handshake types.
SERVER_HELLO_DONE, CLIENT_KEY_EXCHANGE = 14, 16
#: Bytes of a premaster secret, of which the first two are the version that the client has offered.
PREMASTER = 48
#: Private keys of a file that are tried for each connection.
KEYS_MOST = 16

#: The first and the last line of a key of PEM (RFC 7468).
_BEGIN, _END = b"-----BEGIN ", b"-----END "


class PrivateKeys:
    """The RSA keys of a PEM file. Raises CaptureError if it has none."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                text = file.read(1 << 20)
        except OSError as fault:
            raise CaptureError(f"cannot read the private key {path!r}: {fault.strerror or fault}") from fault
        self._keys = [key for one in _private_parts(text) if (key := _load(path, one)) is not None][:KEYS_MOST]
        if not self._keys:
            raise CaptureError(f"cannot read the private key {path!r}: it has no RSA private key in PEM")

    def premaster(self, encrypted: bytes, version: int) -> bytes | None:
        """What a client that has offered this version has encrypted. None: it was for another key."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

        for key in self._keys:
            try:
                found: bytes = key.decrypt(encrypted, PKCS1v15())
            except ValueError:
                continue
            if len(found) == PREMASTER and int.from_bytes(found[:2], "big") == version:
                return found  # a library may answer something random for another key
        return None


def _private_parts(text: bytes) -> list[bytes]:
    """The private keys of a file, which may also have certificates."""
    parts: list[bytes] = []
    lines: list[bytes] = []
    for line in text.splitlines():
        if line.startswith(_BEGIN):
            lines = []
        lines.append(line)
        if line.startswith(_END) and b"PRIVATE KEY" in line:
            parts.append(b"\n".join(lines) + b"\n")
    return parts


def _load(path: str, text: bytes) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as fault:
        raise CaptureError("a private key needs the package cryptography: pip install 'wirefmt[tls]'") from fault
    try:
        key = load_pem_private_key(text, None)
    except UnsupportedAlgorithm:
        return None  # not RSA
    except TypeError as fault:
        raise CaptureError(f"cannot read the private key {path!r}: it has a password") from fault
    except ValueError as fault:
        raise CaptureError(f"cannot read the private key {path!r}: {fault}") from fault
    return key if isinstance(key, RSAPrivateKey) else None


class Exchange:
    """The messages of one handshake, up to the client's key.

    Attributes:
        answered: the server has said all: what the client sends follows. A session that is resumed has no such end.
        encrypted: what the client sends; None: it has not yet.
    """

    def __init__(self, name: str, hellos: bytes, extended: bool) -> None:
        self.encrypted: bytes | None = None
        self.extended = extended
        self._hash = hashlib.new(name, hellos)
        self.answered = False
        self._whole = True

    def lost(self) -> None:
        """Octets of the server's messages are missing."""
        self.answered, self._whole = True, False

    def server(self, kind: int, message: bytes) -> bool:
        """True: it was the last of the server's messages."""
        if self.answered:
            return False
        self._hash.update(message)
        self.answered = kind == SERVER_HELLO_DONE
        return self.answered

    def client(self, kind: int, message: bytes) -> bool:
        """False: the server's messages come first."""
        if not self.answered:
            return False
        self._hash.update(message)
        if kind == CLIENT_KEY_EXCHANGE:
            self.encrypted = message[6 : 6 + int.from_bytes(message[4:6], "big")]
        return True

    def label_and_seed(self, randoms: bytes) -> tuple[bytes, bytes] | None:
        """Of the master secret. None: messages that it depends on are missing."""
        if not self.extended:
            return b"master secret", randoms
        return (b"extended master secret", self._hash.digest()) if self._whole else None
