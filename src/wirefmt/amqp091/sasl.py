"""SASL mechanisms that only AMQP 0.9.1 has, and what a server reads in a response. The others: `wirefmt.connection.sasl`."""

from __future__ import annotations

from wirefmt import amqp091
from wirefmt.amqp091.codes import ReplyCode
from wirefmt.connection.sasl import read_plain
from wirefmt.errors import DecodeError, RemoteProtocolError


class AmqPlain:
    """AMQPLAIN: a field table with LOGIN and PASSWORD, without its length."""

    name = "AMQPLAIN"

    def __init__(self, user_name: str = "guest", password: str = "guest") -> None:
        self.user_name = user_name
        self.password = password

    def start(self) -> bytes:
        return amqp091.FieldTable({"LOGIN": self.user_name, "PASSWORD": self.password}).encode()[4:]

    def respond(self, challenge: bytes) -> bytes:
        raise RemoteProtocolError("this mechanism has no challenges")

    def finish(self, data: bytes | None) -> None:
        pass


class RabbitCrDemo:
    """RABBIT-CR-DEMO: the user name first, the password as the response to a challenge. RabbitMQ offers it for tests."""

    name = "RABBIT-CR-DEMO"

    def __init__(self, user_name: str = "guest", password: str = "guest") -> None:
        self.user_name = user_name
        self.password = password

    def start(self) -> bytes:
        return self.user_name.encode()

    def respond(self, challenge: bytes) -> bytes:
        return b"My password is " + self.password.encode()

    def finish(self, data: bytes | None) -> None:
        pass


def credentials(start_ok: amqp091.ConnectionStartOk) -> tuple[str, str]:
    """User name and password of a start-ok with PLAIN or AMQPLAIN. Raises RemoteProtocolError for a response that is not one."""
    try:
        if start_ok.mechanism != "AMQPLAIN":
            return read_plain(start_ok.response)[1:]
        table = amqp091.FieldTable.decode(len(start_ok.response).to_bytes(4) + start_ok.response)
    except (DecodeError, RemoteProtocolError) as error:
        raise RemoteProtocolError(str(error), reply=ReplyCode.SYNTAX_ERROR) from error
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(login, str) or not isinstance(password, str):
        raise RemoteProtocolError("LOGIN and PASSWORD are texts", reply=ReplyCode.SYNTAX_ERROR)
    return login, password
