"""HAProxy before a broker: its PROXY headers, versions 1 and 2, give the client's address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lib.haproxy import HAPROXY, haproxy
from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import amqp091, mqtt, nsq
from wirefmt.broker import Broker
from wirefmt.errors import ConnectionLost

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(HAPROXY is None, reason="needs haproxy (apt install haproxy)"),
    pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)"),
]

#: options of HAProxy's line `server`; the second one adds a checksum and other records
OPTIONS = ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c,unique-id,authority"]
PACKAGES: dict[str, Any] = {
    "mqtt": mqtt,
    "mqtt+tls": mqtt,
    "mqtt+ws": mqtt,
    "amqp": amqp091,
    "amqp+tls": amqp091,
    "nsq": nsq,
}


#: from where HAProxy connects to the broker: not where the client is
PROXY = "127.0.0.9"


@pytest.mark.parametrize("options", OPTIONS)
def test_the_address_is_that_of_the_client(tmp_path: Path, options: str) -> None:
    server, client_tls = certificate(tmp_path)

    async def test() -> None:
        async with Broker(ports=dict.fromkeys(PACKAGES, 0), tls=server, proxy_protocol=True) as b:
            targets = {name.replace("+", "-"): (b.port(name), f"{options} source {PROXY}") for name in PACKAGES}
            with haproxy(tmp_path, targets) as ports:
                await until(lambda: not b.clients)
                for name, package in PACKAGES.items():
                    port = ports[name.replace("+", "-")]
                    url = b.url(name).replace(str(b.port(name)), str(port))
                    context = client_tls if name.endswith("+tls") else None
                    async with package.connect(url, ssl=context) as client:
                        if name == "nsq":
                            await client.publish("topic", b"x")
                        seen = [each for each in await b.clients.wait(1) if each.protocol == name.partition("+")[0]]
                        assert [each.address[0] for each in seen] == [HOST]
                        (driver,) = b.servers[name].drivers
                        assert driver.transport is not None
                        assert driver.transport.get_extra_info("peername")[0] == PROXY
                    await until(lambda: not b.clients)

    run(test())


def test_health_checks_are_local(tmp_path: Path) -> None:
    """HAProxy's checks connect with LOCAL and leave: nobody reports an error."""
    errors: list[Any] = []

    async def handler(peer: Any) -> None:
        async for event in peer:
            errors.append(event.error)

    async def test() -> None:
        async with await mqtt.serve(handler, HOST, 0, proxy_protocol=True) as server:
            with haproxy(tmp_path, {"mqtt": (server.port, "send-proxy-v2 check-send-proxy check inter 100ms")}):
                await until(lambda: len(errors) >= 3)
        assert set(errors) == {None}

    run(test())


def test_without_the_option_haproxy_is_refused(tmp_path: Path) -> None:
    errors: list[str] = []

    async def handler(peer: Any) -> None:
        async for event in peer:
            errors.append(event.reason)

    async def test() -> None:
        async with await mqtt.serve(handler, HOST, 0) as server:
            target = {"mqtt": (server.port, "send-proxy")}
            with haproxy(tmp_path, target) as ports, pytest.raises((ConnectionLost, ConnectionError)):
                await mqtt.connect(f"mqtt://{HOST}:{ports['mqtt']}").open()
        assert all("this listener does not take them (proxy_protocol)" in each for each in errors)
        assert errors

    run(test())
