"""`phpmq.connect` and `phpmq.serve` on loopback, with the broker in memory."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from lib.loopback import HOST, OPENSSL, certificate, run, until
from wirefmt import phpmq
from wirefmt.broker.phpmq import Broker, BrokerOptions
from wirefmt.connection.recovery import ConnectionDown
from wirefmt.errors import ConnectionLost, LimitExceeded, LocalProtocolError

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


def test_a_server_that_reads_nothing_is_given_up() -> None:
    """The protocol has no heartbeat; what has not left is sent on the next connection, if there is one."""

    async def main(reconnect: phpmq.Backoff | None) -> None:
        transports: list[Any] = []
        seen: list[bytes] = []
        events: list[Any] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            transports.append(writer.transport)
            if len(transports) == 1:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                return
            decoder = phpmq.Decoder(side="client")
            while data := await reader.read(1 << 18):
                seen.extend((message.content_bytes() or b"")[:1] for message in decoder.feed(data))

        server = await asyncio.start_server(serve, HOST, 0)
        url = f"phpmq://{HOST}:{server.sockets[0].getsockname()[1]}"
        client = phpmq.connect(url, reconnect=reconnect, timeout=0.1, on_event=events.append)
        async with client:
            calls = [client.publish("q", b"%d" % n + bytes(8 << 20)) for n in range(3)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            if reconnect is None:
                assert ConnectionLost in {type(result) for result in results}
            else:
                assert results == [None] * 3
                await until(lambda: len(seen) + results.count(None) >= 3 and b"2" in seen)
                (down,) = [event for event in events if isinstance(event, ConnectionDown)]
                assert "read nothing" in str(down.error)
        for transport in transports:
            transport.abort()
        server.close()
        await server.wait_closed()

    run(main(None))
    run(main(phpmq.Backoff(first=0.01, most=0.02)))


def test_waits_grow_while_a_server_accepts_and_drops() -> None:
    async def main() -> None:
        events: list[Any] = []

        async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.append(writer)
            await until(lambda: client.connections == len(accepted))
            writer.transport.abort()

        accepted: list[asyncio.StreamWriter] = []
        async with await asyncio.start_server(drop, HOST, 0) as server:
            url = f"phpmq://{HOST}:{server.sockets[0].getsockname()[1]}"
            backoff = phpmq.Backoff(first=0.01, jitter=0.0, attempts=3)
            client = phpmq.connect(url, reconnect=backoff, on_event=events.append)
            async with client:
                with pytest.raises(ConnectionLost):
                    await client.get()
                with pytest.raises(ConnectionLost):
                    await client.publish("q", b"x")
        assert [event.wait for event in events if isinstance(event, ConnectionDown)] == [0.01, 0.02, 0.04, None]

    run(main())


def test_a_message_above_our_limit_ends_the_client() -> None:
    """The server would send it again and again."""

    async def main() -> None:
        broker = Broker()
        async with await phpmq.serve(broker, HOST, 0) as server:
            url = f"phpmq://{HOST}:{server.port}"
            async with phpmq.connect(url) as publisher:
                await publisher.publish("q", bytes(2000))
            options = phpmq.ConnectionOptions(frame_size=1000)
            async with phpmq.connect(url, reconnect=phpmq.Backoff(first=0.01), options=options) as client:
                await client.consume("q", 1)
                with pytest.raises(ConnectionLost) as told:
                    await client.get()
                assert isinstance(told.value.__cause__, LimitExceeded)

    run(main())


def test_what_cannot_be_asked_for_is_refused_without_a_connection() -> None:
    """A reconnection would ask for it, and end the client."""

    async def main() -> None:
        broker = Broker()
        async with await phpmq.serve(broker, HOST, 0) as server:
            url = f"phpmq://{HOST}:{server.port}"
            async with phpmq.connect(url, reconnect=phpmq.Backoff(first=0.05, jitter=0.0)) as client:
                for driver in list(server.drivers):
                    driver.abort()
                await until(lambda: not client.connected)
                with pytest.raises(LocalProtocolError):
                    await client.consume("q", 1 << 30)
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(client.get(), 0.001)
                assert client._changed == []  # nothing is left of them
                await client.publish("q", b"x")

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
