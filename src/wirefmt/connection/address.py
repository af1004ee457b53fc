"""Where a server is: the URLs that clients of all protocols take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from wirefmt.errors import suggest


@dataclass(frozen=True, slots=True)
class Scheme:
    """What the scheme of a URL says.

    Attributes:
        port: the usual one.
        tls: from the first byte, or asked for by the protocol.
        websocket: the path and the query are the request's.
        unix: the path is that of a Unix socket.
    """

    port: int = 0
    tls: bool = False
    websocket: bool = False
    unix: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """A server, as its URL names it.

    Attributes:
        url: without the credentials.
        scheme: what the URL's scheme says.
        host, port: the server's.
        user, password: decoded; None: there is none in the URL.
        path: of the Unix socket; None: TCP.
        place: what follows the authority, decoded, without "/" at its begin; None: nothing follows, not even "/".
        authority, resource: for the request of WebSocket; `resource` is "" if the URL has neither path nor query.
        options: of the query, decoded.
    """

    url: str
    scheme: Scheme
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    path: str | None = None
    place: str | None = None
    authority: str = ""
    resource: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.url

    @property
    def key(self) -> tuple[str, int, str | None]:
        """Two addresses of one server have the same."""
        return self.host, self.port, self.path


def read_url(
    url: str, schemes: Mapping[str, Scheme], options: Collection[str] = (), repeated: Collection[str] = ()
) -> Address:
    """Read a URL.

    Args:
        schemes: those that the protocol has.
        options: names that its query may have; a WebSocket's query is its own.
        repeated: those of them that may be given several times: their values are joined by a space.

    Raises ValueError for another scheme, for an option that is unknown or given twice, and for an invalid port.
    """
    parts = urlsplit(url)
    scheme = schemes.get(parts.scheme)
    if scheme is None:
        raise ValueError(f"the scheme of {parts.scheme + ':'!r} is not one of {', '.join(schemes)}")
    chosen: dict[str, str] = {}
    if parts.query and not scheme.websocket:
        for name, value in parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True):
            if name not in options:
                raise ValueError(
                    f"unknown option {name!r} in the URL; {suggest(name, options)}"
                    if options
                    else f"unknown option {name!r}: the URL takes none"
                )
            if name in repeated:
                value = f"{chosen[name]} {value}" if name in chosen else value
            elif name in chosen:
                raise ValueError(f"the option {name!r} is given twice in the URL")
            chosen[name] = value
    authority = parts.netloc.rpartition("@")[2]
    return Address(
        url=parts._replace(netloc=authority).geturl(),
        scheme=scheme,
        host=parts.hostname or "localhost",
        port=parts.port or scheme.port,
        user=unquote(parts.username) if parts.username is not None else None,
        password=unquote(parts.password) if parts.password is not None else None,
        path=unquote(parts.path) if scheme.unix else None,
        place=unquote(parts.path[1:]) if parts.path and not scheme.unix else None,
        authority=authority,
        resource=parts.path + (f"?{parts.query}" if parts.query else ""),
        options=chosen,
    )


def read_urls(
    urls: str | Iterable[str],
    schemes: Mapping[str, Scheme],
    options: Collection[str] = (),
    repeated: Collection[str] = (),
) -> list[Address]:
    """Read one URL or several, as `read_url`. Raises ValueError if there is none."""
    addresses = [read_url(url, schemes, options, repeated) for url in ([urls] if isinstance(urls, str) else urls)]
    if not addresses:
        raise ValueError("the URL of a server, at least one")
    return addresses
