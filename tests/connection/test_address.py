"""URLs of servers: `wirefmt.connection.address`."""

from __future__ import annotations

import pytest

from wirefmt.connection.address import Scheme, read_url, read_urls

SCHEMES = {
    "amqp": Scheme(5672),
    "amqps": Scheme(5671, tls=True),
    "wss": Scheme(443, tls=True, websocket=True),
    "amqp+unix": Scheme(unix=True),
}


def test_all_parts() -> None:
    address = read_url("amqps://us%40er:p%3Aw@Broker.example:99/v%2Fh?heartbeat=7", SCHEMES, ("heartbeat",))
    assert (address.host, address.port, address.scheme.tls) == ("broker.example", 99, True)
    assert (address.user, address.password) == ("us@er", "p:w")
    assert (address.place, address.path, dict(address.options)) == ("v/h", None, {"heartbeat": "7"})


def test_what_is_usual() -> None:
    address = read_url("amqp://broker", SCHEMES)
    assert (address.host, address.port, address.user, address.password) == ("broker", 5672, None, None)
    assert (address.place, address.path, dict(address.options)) == (None, None, {})
    assert read_url("amqp://", SCHEMES).host == "localhost"
    assert read_url("amqp://broker/", SCHEMES).place == ""  # not the same as none


def test_ipv6() -> None:
    address = read_url("amqp://guest@[::1]:5000/", SCHEMES)
    assert (address.host, address.port, address.authority) == ("::1", 5000, "[::1]:5000")


def test_a_unix_socket() -> None:
    address = read_url("amqp+unix:///run/a%20b.sock", SCHEMES)
    assert (address.path, address.place) == ("/run/a b.sock", None)


def test_a_websocket_has_its_own_query() -> None:
    address = read_url("wss://u:p@host/mq?token=1&token=2", SCHEMES)
    assert (address.resource, address.authority, address.port) == ("/mq?token=1&token=2", "host", 443)
    assert read_url("wss://host", SCHEMES).resource == ""


def test_no_credentials_are_shown() -> None:
    address = read_url("amqp://guest:secret@host:1/v", SCHEMES)
    assert str(address) == "amqp://host:1/v"
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://host", "the scheme of 'http:' is not one of amqp, amqps"),
        ("host:5672", "the scheme of"),
        ("amqp://host?hartbeat=7", "did you mean heartbeat"),
        ("amqp://host?heartbeat=7&heartbeat=8", "given twice"),
        ("amqp://host?heartbeat", "bad query field"),
        ("amqp://host:99999", "[Pp]ort"),
        ("amqp://host:x", "[Pp]ort"),
    ],
)
def test_urls_that_cannot_be_used(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_url(url, SCHEMES, ("heartbeat",))


def test_one_url_or_several() -> None:
    assert [address.host for address in read_urls("amqp://a", SCHEMES)] == ["a"]
    assert [address.host for address in read_urls(["amqp://a", "amqps://b"], SCHEMES)] == ["a", "b"]
    with pytest.raises(ValueError, match="at least one"):
        read_urls([], SCHEMES)
