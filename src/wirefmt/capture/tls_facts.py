"""What a TLS handshake says of a connection, for the connections table: version, cipher suite, names, the server's certificate.

It is read as far as it is not encrypted, or decrypted: both hellos always, the certificate in TLS 1.2 and before, in TLS 1.3 with
the secrets of the handshake. Certificates (RFC 5280) are parsed by the package `cryptography`.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import OrderedDict
from datetime import datetime
from typing import NamedTuple

from wirefmt.capture.suites import suite_name

# what the package thinks of a stranger's certificate is not for the user's terminal
warnings.filterwarnings("ignore", module=r"wirefmt\.capture\.tls_facts$")

#: ProtocolVersion -> name.
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
#: Extensions: RFC 6066, 3; RFC 7301.
SERVER_NAME, ALPN = 0, 16
#: Bytes of a text that are kept.
TEXT_MOST = 1024
#: Certificates whose facts are remembered: those of a server come with each connection.
CERTIFICATES_MOST = 1024


class Certificate(NamedTuple):
    """Times are microseconds since 1970."""

    subject: str | None = None
    not_before: int | None = None
    not_after: int | None = None


class Facts:
    """Of one connection. What is said first holds: later handshakes of a connection are as the first."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._suite = 0
        self._server_name: str | None = None
        self._offered: str | None = None
        self._chosen: str | None = None
        self._choice = False  # it is known what the server has chosen
        self._certificate: Certificate | None = None

    def client(self, extensions: dict[int, bytes]) -> None:
        """ClientHello."""
        self._server_name = self._server_name or server_name(extensions.get(SERVER_NAME, b""))
        self._offered = self._offered or protocol_names(extensions.get(ALPN, b""))

    def server(self, version: int, suite: int, extensions: dict[int, bytes]) -> None:
        """ServerHello. The extensions of TLS 1.3 are others, and what the server has chosen follows: `chosen`."""
        if self._version is None:
            self._version, self._suite = version, suite
            if version < 0x0304:
                self.chosen(extensions)

    def chosen(self, extensions: dict[int, bytes]) -> None:
        if not self._choice:
            self._choice, self._chosen = True, protocol_names(extensions.get(ALPN, b""))

    def certificate(self, body: bytes) -> None:
        """The server's message Certificate. Raises ImportError if cryptography is not installed."""
        if self._certificate is None:
            octets = first_certificate(body, self._version == 0x0304)
            self._certificate = _certificate_of(octets) if octets else Certificate()

    def cells(self, reason: str | None) -> tuple[str | int | None, ...]:
        """The columns of the connection, in the order of TLS_COLUMNS. reason: why it is not decrypted."""
        version = None if self._version is None else VERSIONS.get(self._version, f"0x{self._version:04X}")
        suite = None if self._version is None else suite_name(self._suite)
        alpn = self._chosen if self._choice else self._offered
        return version, suite, self._server_name, alpn, *(self._certificate or Certificate()), reason


def server_name(body: bytes) -> str | None:
    """The first host name (RFC 6066, 3), if it is one: visible ASCII."""
    size = int.from_bytes(body[3:5], "big")
    name = body[5 : 5 + size]
    if len(body) < 5 or body[2] != 0 or len(name) < size or not 0 < size < 256:
        return None
    return name.decode() if all(0x20 < octet < 0x7F for octet in name) else None


def protocol_names(body: bytes) -> str | None:
    """ProtocolNameList (RFC 7301, 3.1), with commas; without the values of RFC 8701, which mean nothing."""
    found, at = [], 2
    while at < len(body):
        name = body[at + 1 : at + 1 + body[at]]
        if not (len(name) == 2 and name[0] == name[1] and name[0] & 0x0F == 0x0A):
            found.append(name.decode("utf-8", "backslashreplace"))
        at += 1 + body[at]
    return ",".join(found)[:TEXT_MOST] or None


def first_certificate(body: bytes, numbered: bool) -> bytes | None:
    """That of the sender. numbered: as in TLS 1.3, after a context (RFC 8446, 4.4.2), otherwise RFC 5246, 7.4.2."""
    at = 1 + body[0] if numbered and body else 0
    size = int.from_bytes(body[at + 3 : at + 6], "big")
    octets = body[at + 6 : at + 6 + size]
    return octets if size and len(octets) == size else None


_known: OrderedDict[bytes, Certificate] = OrderedDict()


def _certificate_of(octets: bytes) -> Certificate:
    key = hashlib.sha256(octets).digest()
    found = _known.pop(key, None) or _parse(octets)
    _known[key] = found
    while len(_known) > CERTIFICATES_MOST:
        _known.popitem(last=False)
    return found


def _parse(octets: bytes) -> Certificate:
    from cryptography import x509

    try:
        read = x509.load_der_x509_certificate(octets)
        times = _microseconds(read.not_valid_before_utc), _microseconds(read.not_valid_after_utc)
    except (
        Exception
    ):  # ValueError, InvalidVersion, TypeError ...: whatever the package says of octets that anybody has made
        return Certificate()
    try:
        return Certificate(read.subject.rfc4514_string()[:TEXT_MOST], *times)
    except Exception:
        return Certificate(None, *times)


def _microseconds(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000
