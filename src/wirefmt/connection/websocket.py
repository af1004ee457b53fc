"""The opening handshake of WebSocket (RFC 6455, 4), both sides, without input or output.

`receive` accepts bytes until `done` is true, and returns the bytes after the handshake. It raises DecodeError if the peer
violates a rule; a server's answer to it is queued.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from wirefmt.connection import proxy
from wirefmt.connection.deflate import Agreed, Deflate
from wirefmt.errors import LimitExceeded, Malformed

#: Limit on the bytes of the head of a request or an answer.
HEAD_LIMIT: Final = 8192

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key: str) -> str:
    """Sec-WebSocket-Accept for a Sec-WebSocket-Key (4.2.2)."""
    return base64.b64encode(hashlib.sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()).decode()


def is_allowed(origin: str, host: str, origins: Collection[str]) -> bool:
    """May a client connect whose request has this Origin (RFC 6455, 10.2)? Browsers send that of the page, and pages of anybody
    can connect to a server that the browser reaches.

    Args:
        origin: the field Origin.
        host: the field Host.
        origins: those that are allowed, as `https://panel.example` or `http://localhost:8000`; "*": all.

    Some clients outside browsers send the server's own address. It is allowed if it is an IP address or localhost; a name
    could be one that a page's owner leads to any address.
    """
    if "*" in origins or origin.lower() in (each.lower().rstrip("/") for each in origins):
        return True
    scheme, _, authority = origin.lower().partition("://")
    if scheme not in ("http", "https") or authority != host.lower():
        return False
    try:
        name = urlsplit(f"//{authority}").hostname or ""
        return name == "localhost" or ip_address(name) is not None
    except ValueError:
        return False


class _Handshake:
    _begins: bytes  # the first word of the peer

    def __init__(self) -> None:
        self.done = False
        self.subprotocol: str | None = None
        self.agreed: Agreed | None = None  # on permessage-deflate
        self._kept = b""
        self._out = b""

    def data_to_send(self) -> bytes:
        """Return the bytes for the peer."""
        data, self._out = self._out, b""
        return data

    def receive(self, data: bytes) -> bytes:
        self._kept += data
        if self._kept[: len(self._begins)] != self._begins[: len(self._kept)]:
            begun = proxy.begins(self._kept)
            if begun is None:
                return b""
            raise self._wrong(proxy.REFUSAL if begun else f"not HTTP: {self._kept[:20]!r}", "4")
        end = self._kept.find(b"\r\n\r\n", 0, HEAD_LIMIT)
        if end < 0:
            if len(self._kept) >= HEAD_LIMIT:
                raise self._fault(LimitExceeded("the head exceeds the limit", protocol="websocket", have=HEAD_LIMIT))
            return b""
        head, rest = self._kept[:end], self._kept[end + 4 :]
        self._kept = b""
        lines = head.decode("latin-1").split("\r\n")
        fields: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise self._fault(Malformed(f"invalid header field: {line[:80]!r}", protocol="websocket"))
            name, value = name.lower(), value.strip()
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        self._read(lines[0], fields)
        self.done = True
        return rest

    def _read(self, first: str, fields: Mapping[str, str]) -> None:
        raise NotImplementedError

    def _fault(self, error: LimitExceeded | Malformed) -> LimitExceeded | Malformed:
        return error

    def _wrong(self, reason: str, section: str) -> LimitExceeded | Malformed:
        return self._fault(Malformed(reason, protocol="websocket", spec=f"RFC 6455, {section}"))


class ClientHandshake(_Handshake):
    """The client's side.

    Args:
        host: the Host field, with the port if it is not the default.
        path: the resource, with its query.
        subprotocol: the one that the server must choose: "mqtt" [MQTT-6.0.0-3].
        key: 16 random bytes.
        headers: further fields of the request, such as Authorization.
        deflate: offer permessage-deflate; `agreed` says whether the server has accepted it. None: do not.
    """

    _begins = b"HTTP/1."

    def __init__(
        self,
        host: str,
        path: str,
        subprotocol: str,
        key: bytes,
        headers: Mapping[str, str] | None = None,
        deflate: Deflate | None = None,
    ) -> None:
        super().__init__()
        self._deflate = deflate
        self._asked = subprotocol
        self._key = base64.b64encode(key).decode()
        fields = {
            "Host": host,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": self._key,
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": subprotocol,
            **({"Sec-WebSocket-Extensions": deflate.offer()} if deflate is not None else {}),
            **(headers or {}),
        }
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a line break in the path or in a field")
        self._out = "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _read(self, first: str, fields: Mapping[str, str]) -> None:
        words = first.split(" ", 2)
        if len(words) < 2 or words[1] != "101":
            raise self._wrong(f"the server answered {first[:80]!r}", "4.1")
        if fields.get("upgrade", "").lower() != "websocket" or "upgrade" not in _tokens(fields.get("connection", "")):
            raise self._wrong("the answer is not an upgrade to WebSocket", "4.1")
        if fields.get("sec-websocket-accept") != accept_of(self._key):
            raise self._wrong("Sec-WebSocket-Accept does not match the key", "4.1")
        if answer := fields.get("sec-websocket-extensions"):
            if self._deflate is None:
                raise self._wrong("an extension that was not requested", "4.1")
            try:
                self.agreed = self._deflate.accept(answer)
            except ValueError as error:
                raise self._wrong(str(error), "9.1; RFC 7692, 7") from None
        self.subprotocol = fields.get("sec-websocket-protocol")
        if self.subprotocol != self._asked:
            raise self._wrong(f"the subprotocol is {self.subprotocol!r}, not {self._asked!r}", "4.1")


class ServerHandshake(_Handshake):
    """The server's side.

    Args:
        subprotocols: the supported ones; a client that offers none of them is refused.
        origins: web pages that may connect (`is_allowed`). Others are refused with 403 (10.2).
        deflate: accept permessage-deflate, if the client offers it. None: do not.
    """

    _begins = b"GET "

    def __init__(
        self, subprotocols: Collection[str], origins: Collection[str] = (), deflate: Deflate | None = None
    ) -> None:
        super().__init__()
        self._deflate = deflate
        self._spoken = subprotocols
        self._origins = origins
        self._status = b"400 Bad Request"
        self.path = ""

    def _read(self, first: str, fields: Mapping[str, str]) -> None:
        self.path, _, http = first.removeprefix("GET ").partition(" ")
        if http != "HTTP/1.1":
            raise self._wrong(f"the request is {first[:80]!r}", "4.2.1")
        if fields.get("upgrade", "").lower() != "websocket" or "upgrade" not in _tokens(fields.get("connection", "")):
            raise self._wrong("the request is not an upgrade to WebSocket", "4.2.1")
        key = fields.get("sec-websocket-key", "")
        try:
            size = len(base64.b64decode(key, validate=True))
        except ValueError:
            size = 0
        if size != 16 or "host" not in fields:
            raise self._wrong("no Host, or a Sec-WebSocket-Key that is not 16 bytes", "4.2.1")
        origin = fields.get("origin")
        if origin is not None and not is_allowed(origin, fields["host"], self._origins):
            self._status = b"403 Forbidden"
            raise self._wrong(f"the origin {origin[:80]!r} is not allowed", "10.2")
        if fields.get("sec-websocket-version") != "13":
            raise self._wrong("the WebSocket version is not 13", "4.2.1")
        offered = [name.strip() for name in fields.get("sec-websocket-protocol", "").split(",")]
        self.subprotocol = next((name for name in offered if name in self._spoken), None)
        if self.subprotocol is None:
            raise self._wrong("no supported subprotocol is offered", "4.2.2")
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept_of(key)}",
            f"Sec-WebSocket-Protocol: {self.subprotocol}",
            *self._answer(fields.get("sec-websocket-extensions", "")),
            "",
            "",
        ]
        self._out = "\r\n".join(lines).encode("latin-1")

    def _answer(self, offers: str) -> list[str]:
        answer = self._deflate.answer(offers) if self._deflate is not None else None
        if answer is None:
            return []
        text, self.agreed = answer
        return [f"Sec-WebSocket-Extensions: {text}"]

    def _fault(self, error: LimitExceeded | Malformed) -> LimitExceeded | Malformed:
        self._out = (
            b"HTTP/1.1 %b\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n" % self._status
        )
        return error


def _tokens(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",")]
