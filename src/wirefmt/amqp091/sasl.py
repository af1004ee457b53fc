"""SASL mechanisms of AMQP 0.9.1: a client's side, and what a server reads in a response."""

from __future__ import annotations

from typing import Protocol

from wirefmt import amqp091
from wirefmt.errors import DecodeError, Malformed


class Mechanism(Protocol):
    """A client's side of one authentication."""

    @property
    def name(self) -> str: ...

    def start(self) -> bytes:
        """The response of start-ok."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The response to a challenge of the server."""
        ...


class _OneStep:
    def respond(self, challenge: bytes) -> bytes:
        raise ValueError("this mechanism has no challenge")


class Plain(_OneStep):
    """PLAIN (RFC 4616): user name and password as they are."""

    name = "PLAIN"

    def __init__(self, user_name: str = "guest", password: str | bytes = "guest") -> None:
        self.user_name = user_name
        self.password = password.encode() if isinstance(password, str) else password

    def start(self) -> bytes:
        return b"\0" + self.user_name.encode() + b"\0" + self.password


class AmqPlain(_OneStep):
    """AMQPLAIN: a field table with LOGIN and PASSWORD, without its length."""

    name = "AMQPLAIN"

    def __init__(self, user_name: str = "guest", password: str = "guest") -> None:
        self.user_name = user_name
        self.password = password

    def start(self) -> bytes:
        # LOGIN and PASSWORD are long strings; the encoding of a text is one
        return amqp091.FieldTable({"LOGIN": self.user_name, "PASSWORD": self.password}).encode()[4:]


class External(_OneStep):
    """EXTERNAL: the identity is that of the transport, a TLS certificate."""

    name = "EXTERNAL"

    def start(self) -> bytes:
        return b""


class Anonymous(_OneStep):
    """ANONYMOUS (RFC 4505)."""

    name = "ANONYMOUS"

    def __init__(self, trace: str = "") -> None:
        self.trace = trace

    def start(self) -> bytes:
        return self.trace.encode()


class RabbitCrDemo:
    """RABBIT-CR-DEMO: the user name first, the password as the response to a challenge. RabbitMQ has it for tests."""

    name = "RABBIT-CR-DEMO"

    def __init__(self, user_name: str = "guest", password: str = "guest") -> None:
        self.user_name = user_name
        self.password = password

    def start(self) -> bytes:
        return self.user_name.encode()

    def respond(self, challenge: bytes) -> bytes:
        return b"My password is " + self.password.encode()


def read_plain(response: bytes) -> tuple[str, bytes]:
    """User name and password of a response of PLAIN. Raises DecodeError."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise Malformed("not a response of PLAIN", protocol="amqp091", path="response", spec="RFC 4616, 2", reply=502)
    return _text(parts[1]), parts[2]


def read_amqplain(response: bytes) -> tuple[str, bytes]:
    """User name and password of a response of AMQPLAIN. Raises DecodeError."""
    try:
        table = amqp091.FieldTable.decode(len(response).to_bytes(4) + response)
    except DecodeError as error:
        error.reply = 502
        raise
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(login, str | bytes) or not isinstance(password, str | bytes):
        raise Malformed("LOGIN and PASSWORD are strings", protocol="amqp091", path="response", reply=502)
    login = login if isinstance(login, str) else _text(login)
    return login, password.encode() if isinstance(password, str) else password


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Malformed("the user name is not UTF-8", protocol="amqp091", path="response", reply=502) from None


def credentials(start_ok: amqp091.ConnectionStartOk) -> tuple[str, bytes]:
    """User name and password of a start-ok with PLAIN or AMQPLAIN. Raises DecodeError for a response that is not one."""
    if start_ok.mechanism == "AMQPLAIN":
        return read_amqplain(start_ok.response)
    return read_plain(start_ok.response)
