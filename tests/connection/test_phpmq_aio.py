"""`phpmq.connect` and `phpmq.serve` on loopback, with the broker in memory."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import phpmq
from wirefmt.broker.phpmq import Broker, BrokerOptions
from wirefmt.errors import ConnectionLost, LocalProtocolError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("profile", ["early", "present"])
@pytest.mark.parametrize("secure", [False, True])
def test_what_is_published_is_consumed_in_order(profile: Any, secure: bool, tmp_path: Any) -> None:
    contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None] = (None, None)
    if secure:
        if OPENSSL is None:
            pytest.skip("needs openssl (apt install openssl)")
        contexts = certificate(tmp_path)

    async def main() -> None:
        broker = Broker()
        options = phpmq.ConnectionOptions(profile=profile)
        async with await phpmq.serve(broker, HOST, 0, ssl=contexts[0], options=options) as server:
            url = f"{'phpmqs' if secure else 'phpmq'}://{HOST}:{server.port}"
            large = bytes(range(256)) * 1000
            async with phpmq.connect(url, profile=profile, ssl=contexts[1]) as client:
                for n in range(50):
                    await client.publish("q", f"{n}", ttl=7)
                await client.publish("q", large)
                await client.consume("q", 5)
                seen = []
                async for message in client.messages():
                    seen.append(message.content_bytes())
                    assert message.ttl == (None if profile == "early" else 7 if len(seen) <= 50 else 0)
                    if len(seen) == 51:
                        client.acknowledge(message)
                        break
                assert seen == [b"%d" % n for n in range(50)] + [large]
                await until(lambda: broker.counts["acknowledged"] == 51)
            assert not broker.queue("q").messages

    run(main())


def test_what_is_in_flight_goes_back_and_the_oldest_comes_first() -> None:
    async def main() -> None:
        broker = Broker()
        async with await phpmq.serve(broker, HOST, 0) as server:
            url = f"phpmq://{HOST}:{server.port}"
            async with phpmq.connect(url) as one:
                for n in range(4):
                    await one.publish("q", b"%d" % n)
                await one.consume("q", 2)
                first, second = await one.get(), await one.get()
                assert first is not None
                assert second is not None
                await one.consume("other", 2)
                assert not one.acknowledge(first)
                await until(lambda: broker.counts["given back"] == 2)
            async with phpmq.connect(url) as two:
                await two.consume("q", 10)
                seen = [await two.get() for _ in range(4)]
                assert [message.content_bytes() for message in seen if message] == [b"0", b"1", b"2", b"3"]
            await until(lambda: broker.counts["given back"] == 6)

    run(main())


def test_a_client_connects_again_and_consumes_again() -> None:
    async def main() -> None:
        broker = Broker()
        async with await phpmq.serve(broker, HOST, 0) as server:
            backoff = phpmq.Backoff(first=0.01, most=0.05)
            async with phpmq.connect(f"phpmq://{HOST}:{server.port}", reconnect=backoff) as client:
                await client.consume("q", 2)
                await until(lambda: broker.queue("q").clients)
                for driver in list(server.drivers):
                    driver.abort()
                await until(lambda: client.connections == 2)
                await client.publish("q", b"x")
                message = await client.get()
                assert message is not None
                assert message.content_bytes() == b"x"

    run(main())


def test_the_end_of_the_connection_is_told() -> None:
    async def main() -> None:
        broker = Broker(BrokerOptions(messages=1))
        async with await phpmq.serve(broker, HOST, 0) as server:
            async with phpmq.connect(f"phpmq://{HOST}:{server.port}") as client:
                with pytest.raises(LocalProtocolError):
                    await client.consume("q", -1)
                await client.publish("q", b"x")
                await client.publish("q", b"y")  # one too many
                with pytest.raises(ConnectionLost):
                    await client.get()
                with pytest.raises(ConnectionLost):
                    await client.publish("q", b"z")
            assert broker.counts["refused"] == 1
            assert len(broker.queue("q").messages) == 1
        with pytest.raises(ValueError, match="scheme"):
            phpmq.connect("http://x")

    run(main())


def test_a_handler_of_ones_own() -> None:
    async def main() -> None:
        async def echo(peer: phpmq.Peer) -> None:
            async for event in peer:
                if isinstance(event, phpmq.MessageClientToServer):
                    await until(lambda: peer.connection.send_quota)
                    peer.deliver(event.queue_name or "", event.content_bytes() or b"", "1")

        async with await phpmq.serve(echo, HOST, 0) as server, phpmq.connect(f"phpmq://{HOST}:{server.port}") as client:
            await client.consume("q", 1)
            await client.publish("q", b"x")
            message = await client.get()
            assert message is not None
            assert (message.content_bytes(), message.message_id) == (b"x", "1")

    run(main())
