"""What the URL of an AMQP 1.0 server says beside the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from wirefmt.amqp10.events import ConnectionOptions
from wirefmt.connection.address import Address, Scheme, read_urls
from wirefmt.connection.sasl import Anonymous, External, Mechanism, Plain

SCHEMES: Final = {
    "amqp": Scheme(5672),
    "amqps": Scheme(5671, tls=True),
    "ws": Scheme(80, websocket=True),
    "wss": Scheme(443, tls=True, websocket=True),
}

#: What the query of a URL may have.
OPTIONS: Final = ("channel_max", "container_id", "heartbeat", "hostname", "idle_timeout", "max_frame_size", "sasl")


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a client connects to one server.

    Attributes:
        hostname: of SASL and open.
        sasl: mechanisms in the order in which they are preferred; empty: without the SASL layer.
        options: limits and times.
    """

    hostname: str
    sasl: Mechanism | Sequence[Mechanism]
    options: ConnectionOptions


def read_servers(urls: str | Iterable[str], container_id: str) -> tuple[list[Address], str]:
    """The servers, and the container-id: the one given, or that of the URLs. Raises ValueError for a URL that cannot be used."""
    addresses = read_urls(urls, SCHEMES, OPTIONS)
    for address in addresses:
        wanted(address, None, None, ConnectionOptions())
    found = {address.options["container_id"] for address in addresses if "container_id" in address.options}
    if not container_id and len(found) > 1:
        raise ValueError("the URLs of one client have one container_id")
    return addresses, container_id or next(iter(found), "")


def wanted(
    address: Address,
    hostname: str | None,
    sasl: Mechanism | Sequence[Mechanism] | None,
    options: ConnectionOptions,
) -> Wanted:
    """What a URL asks for; `hostname` and `sasl` go before it. Raises ValueError for a value that cannot be used."""
    chosen = address.options
    virtual_host = "" if address.scheme.websocket else address.place
    if virtual_host and "hostname" in chosen:
        raise ValueError("the path of the URL is the virtual host of RabbitMQ: it has no `hostname` then")
    if hostname is None:
        hostname = chosen.get("hostname") or (f"vhost:{virtual_host}" if virtual_host else address.host)
    if "heartbeat" in chosen and "idle_timeout" in chosen:
        raise ValueError("`heartbeat` or `idle_timeout`: one says what the other is")
    limits: dict[str, int | float | None] = {}
    if "heartbeat" in chosen:  # what is announced is half of what is enforced
        limits["idle_timeout"] = 2 * _number("heartbeat", chosen["heartbeat"]) or None
    if "idle_timeout" in chosen:
        limits["idle_timeout"] = _number("idle_timeout", chosen["idle_timeout"]) or None
    if "max_frame_size" in chosen:
        limits["frame_size"] = int(_number("max_frame_size", chosen["max_frame_size"]))
    if "channel_max" in chosen:
        limits["sessions"] = int(_number("channel_max", chosen["channel_max"])) + 1
    made: ConnectionOptions = replace(options, **limits)  # type: ignore[arg-type]  # the names are those of its fields
    return Wanted(hostname, _mechanisms(address, chosen.get("sasl")) if sasl is None else sasl, made)


def _mechanisms(address: Address, names: str | None) -> Mechanism | Sequence[Mechanism]:
    """`sasl` of the URL: names in the order of preference, or "none"."""
    plain = Plain(address.user or "", address.password or "")
    if names is None:
        return plain if address.user else Anonymous()
    if names.lower() == "none":
        return ()
    known: dict[str, Mechanism] = {"ANONYMOUS": Anonymous(), "EXTERNAL": External(), "PLAIN": plain}
    found = []
    for name in names.upper().split(","):
        if name not in known or (name == "PLAIN" and not address.user):
            raise ValueError(
                "`sasl=PLAIN` needs a user in the URL"
                if name in known
                else f"the SASL mechanism {name!r} of the URL is not one of {', '.join(known)}; others: the argument `sasl`"
            )
        found.append(known[name])
    return found


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"`{name}` of the URL is a number, not {text!r}")
    return number
