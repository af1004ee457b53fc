"""Both sides of a TLS 1.3 connection as octets, with handshakes that have what a capture reads and no more: no certificate is
made and no Finished is right. Written from RFC 8446, not from wirefmt's reader."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

#: Suite -> AEAD, octets of the key, hash.
SUITES: dict[int, tuple[Any, int, str]] = {
    0x1301: (AESGCM, 16, "sha256"),
    0x1302: (AESGCM, 32, "sha384"),
    0x1303: (ChaCha20Poly1305, 32, "sha256"),
    0x1304: (AESCCM, 16, "sha256"),
    0x1305: (lambda key: AESCCM(key, 8), 16, "sha256"),
}
LABELS = (
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
)


def expand_label(name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """7.1."""
    label = b"tls13 " + label
    info, out, block = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0", b"", b""
    for i in range(1, 255):
        if len(out) >= size:
            break
        block = hmac.digest(secret, block + info + bytes([i]), name)
        out += block
    return out[:size]


def record(kind: int, body: bytes) -> bytes:
    """5.1."""
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


def message(kind: int, body: bytes) -> bytes:
    """4."""
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def extension(number: int, body: bytes) -> bytes:
    return number.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body


class Writer:
    """Writes the records of one direction."""

    def __init__(self, suite: int, secret: bytes) -> None:
        aead, size, self._hash = SUITES[suite]
        self._suite, self._secret, self._sequence = suite, secret, 0
        self._aead, self._iv = (
            aead(expand_label(self._hash, secret, b"key", size)),
            expand_label(self._hash, secret, b"iv", 12),
        )
        self._tag = 8 if suite == 0x1305 else 16

    def write(self, octets: bytes, kind: int = 23, padding: int = 0) -> bytes:
        """5.2."""
        nonce = (int.from_bytes(self._iv, "big") ^ self._sequence).to_bytes(12, "big")
        self._sequence += 1
        inner = octets + bytes([kind]) + bytes(padding)
        head = bytes([23, 3, 3]) + (len(inner) + self._tag).to_bytes(2, "big")
        return head + bytes(self._aead.encrypt(nonce, inner, head))

    def update(self) -> tuple[bytes, Writer]:
        """A KeyUpdate, and who writes after it (4.6.3)."""
        secret = expand_label(self._hash, self._secret, b"traffic upd", len(self._secret))
        return self.write(message(24, b"\0"), 22), Writer(self._suite, secret)


class Peers:
    """Attributes: keylog; hello, answer, finished: flights of the client, the server, the client; sides: who writes next."""

    def __init__(self, suite: int = 0x1301, seed: bytes = b"") -> None:
        name = SUITES[suite][2]
        size = hashlib.new(name).digest_size
        self.random = hashlib.sha256(b"random" + seed).digest()
        secrets = [hashlib.new(name, label.encode() + seed).digest()[:size] for label in LABELS]
        self.keylog = "".join(
            f"{label} {self.random.hex()} {s.hex()}\n" for label, s in zip(LABELS, secrets, strict=True)
        )
        chosen = suite.to_bytes(2, "big")
        tail = extension(43, b"\x02\x03\x04")
        self.hello = record(
            22,
            message(
                1,
                b"\x03\x03"
                + self.random
                + b"\0"
                + b"\0\x02"
                + chosen
                + b"\x01\0"
                + len(tail).to_bytes(2, "big")
                + tail,
            ),
        )
        tail = extension(43, b"\x03\x04")
        server = (
            b"\x03\x03"
            + hashlib.sha256(b"server" + seed).digest()
            + b"\0"
            + chosen
            + b"\0"
            + len(tail).to_bytes(2, "big")
            + tail
        )
        flight = message(8, b"\0\0") + message(20, bytes(size))
        self.answer = record(22, message(2, server)) + Writer(suite, secrets[1]).write(flight, 22)
        self.finished = Writer(suite, secrets[0]).write(message(20, bytes(size)), 22)
        self.sides = [Writer(suite, secrets[2]), Writer(suite, secrets[3])]
