"""What the URL of an AMQP 0.9.1 server says: RabbitMQ's URI specification and its query parameters."""

from __future__ import annotations

import ssl as tls
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wirefmt.amqp091.events import ConnectionOptions
from wirefmt.amqp091.sasl import AmqPlain, RabbitCrDemo
from wirefmt.connection.address import Address, Scheme
from wirefmt.connection.sasl import Anonymous, External, Mechanism, Plain
from wirefmt.errors import suggest

SCHEMES: Final = {
    "amqp": Scheme(5672),
    "amqps": Scheme(5671, tls=True),
    "amqp+unix": Scheme(unix=True),
}

_TLS: Final = (
    "cacertfile",
    "certfile",
    "keyfile",
    "password",
    "verify",
    "fail_if_no_peer_cert",
    "server_name_indication",
)

#: Names of query parameters. RabbitMQ's, pika's blocked_connection_timeout, aio-pika's name. One may be given several times.
OPTIONS: Final = (
    "heartbeat",
    "connection_timeout",
    "channel_max",
    "frame_max",
    "auth_mechanism",
    "blocked_connection_timeout",
    "name",
    *_TLS,
)
REPEATED: Final = ("auth_mechanism",)

#: By its name in a URL.
_MECHANISMS: Final = {
    "plain": Plain,
    "amqplain": AmqPlain,
    "rabbit-cr-demo": RabbitCrDemo,
    "external": External,
    "anonymous": Anonymous,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to connect to one server.

    Attributes:
        virtual_host: "/" if the URL has none.
        mechanisms: of SASL, with the credentials of the URL.
        options: those of the client, with those of the URL in their place.
        timeout: seconds; None: the URL does not say.
        name: for client-properties; None: the URL does not say.
        verify: False: the certificate of the server is not checked.
        files: of TLS: CA certificates, certificate, key, the key's password.
        server_name: that TLS asks for and checks; "": none; None: the host.
    """

    virtual_host: str
    mechanisms: tuple[Mechanism, ...]
    options: ConnectionOptions
    timeout: float | None = None
    name: str | None = None
    verify: bool = True
    files: tuple[str | None, str | None, str | None, str | None] = field(default=(None, None, None, None), repr=False)
    server_name: str | None = None

    @property
    def has_tls(self) -> bool:
        """True: the URL says something about TLS."""
        return not self.verify or self.server_name is not None or any(self.files)

    def context(self) -> tls.SSLContext:
        """The context that the URL describes. Its files are read. Raises OSError (ssl.SSLError)."""
        authorities, certificate, key, password = self.files
        context = tls.create_default_context(cafile=authorities)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = tls.CERT_NONE
        elif self.server_name == "":
            context.check_hostname = False
        if certificate is not None:
            context.load_cert_chain(certificate, key, password)
        return context


def settings(address: Address, options: ConnectionOptions) -> Settings:
    """Read what a URL says. Raises ValueError."""
    given = address.options
    if address.path is None and address.resource.partition("?")[0].count("/") > 1:
        raise ValueError("a virtual host in a URL is one segment: write %2F for a slash in its name")
    for name in _TLS:
        if name in given and not address.scheme.tls:
            raise ValueError(f"the option {name!r} is for the scheme amqps")
    changes: dict[str, Any] = {
        name: _whole(name, given[name]) for name in ("heartbeat", "channel_max", "frame_max") if name in given
    }
    if "blocked_connection_timeout" in given:
        changes["blocked_timeout"] = _seconds("blocked_connection_timeout", given["blocked_connection_timeout"])
    milliseconds = _whole("connection_timeout", given["connection_timeout"]) if "connection_timeout" in given else None
    if milliseconds == 0:
        raise ValueError("connection_timeout is a number of milliseconds above 0")
    if "keyfile" in given and "certfile" not in given:
        raise ValueError("keyfile without certfile")
    _one_of("fail_if_no_peer_cert", given.get("fail_if_no_peer_cert", "false"), ("true", "false"))  # a server's
    server_name = given.get("server_name_indication")
    user = address.user if address.user is not None else "guest"
    password = address.password if address.password is not None else "guest"
    mechanisms: list[Mechanism] = []
    for name in given.get("auth_mechanism", "plain").lower().split():
        kind = _MECHANISMS[_one_of("auth_mechanism", name, tuple(_MECHANISMS))]
        mechanisms.append(kind() if kind in (External, Anonymous) else kind(user, password))
    return Settings(
        virtual_host=address.place or "/",
        mechanisms=tuple(mechanisms),
        options=replace(options, **changes) if changes else options,
        timeout=milliseconds / 1000 if milliseconds is not None else None,
        name=given.get("name"),
        verify=_one_of("verify", given.get("verify", "verify_peer"), ("verify_peer", "verify_none")) == "verify_peer",
        files=(given.get("cacertfile"), given.get("certfile"), given.get("keyfile"), given.get("password")),
        server_name="" if server_name == "disable" else server_name,
    )


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"the option {name!r} is a whole number, not {text!r}")
    return int(text)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"the option {name!r} is a number of seconds above 0, not {text!r}")
    return seconds


def _one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise ValueError(f"unknown value {value!r} of the option {name!r}; {suggest(value, values)}")
    return value
