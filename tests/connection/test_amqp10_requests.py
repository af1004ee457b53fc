"""`Client.request`, and the URLs of `amqp10.connect`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from lib.kinds import checked
from lib.loopback import HOST, run, until
from wirefmt import amqp10
from wirefmt.amqp10.receiving import Receiver
from wirefmt.amqp10.urls import read_servers, wanted
from wirefmt.broker.amqp10 import Broker
from wirefmt.connection.sasl import Anonymous, External, Plain
from wirefmt.errors import ConnectionLost, LocalProtocolError, Refused

QUICK = amqp10.Backoff(first=0.01, most=0.05)
OPTIONS = amqp10.ConnectionOptions()


def message(text: str, **properties: Any) -> amqp10.Message:
    return amqp10.Message(body=text.encode(), properties=amqp10.Properties(**properties) if properties else None)


def text(reply: Any) -> str:
    return bytes(reply.payload).decode()


def by_correlation_id(request: Any) -> Any:
    return request.properties.correlation_id


def by_message_id(request: Any) -> Any:
    return request.properties.message_id


async def respond(client: amqp10.Client, address: str, identify: Callable[[Any], Any], seen: list[Any]) -> None:
    """Answer requests until cancelled: in capitals; "slow" later, "never" not at all."""
    receiver = await client.receiver(address, settle="manual")
    sender = await client.sender(amqp10.Target())
    async for delivery in receiver:
        request = delivery.message
        seen.append(request)
        receiver.accept(delivery)
        if text(request) == "never":
            continue
        if text(request).startswith("slow"):
            await asyncio.sleep(0.05)
        answer = message(text(request).upper(), to=request.properties.reply_to, correlation_id=identify(request))
        with contextlib.suppress(Refused):  # nobody waits any more
            await sender.send(answer)


@contextlib.asynccontextmanager
async def served(
    identify: Callable[[Any], Any] = by_correlation_id, **options: Any
) -> AsyncIterator[tuple[amqp10.Client, Any, list[Any], Broker]]:
    """A client, its server, the requests that a responder has seen, and the broker."""
    broker = Broker()
    seen: list[Any] = []
    async with await amqp10.serve(broker, HOST, 0) as server:
        url = f"amqp://{HOST}:{server.port}"
        async with amqp10.connect(url, reconnect=QUICK) as other, amqp10.connect(url, **options) as client:
            responder = asyncio.create_task(respond(other, "/queues/rpc", identify, seen))
            try:
                yield client, server, seen, broker
            finally:
                responder.cancel()
                await asyncio.gather(responder, return_exceptions=True)


@pytest.mark.parametrize("identify", [by_correlation_id, by_message_id])
def test_many_requests_over_one_link_for_replies(identify: Callable[[Any], Any]) -> None:
    """The responder may answer with the correlation-id or the message-id of the request (3.2.4)."""

    async def test() -> None:
        async with served(identify) as (client, _, seen, _):
            replies = await asyncio.gather(*(client.request("/queues/rpc", message(f"m{n}")) for n in range(200)))
            assert [text(reply) for reply in replies] == [f"M{n}" for n in range(200)]
            assert len({request.properties.reply_to for request in seen}) == 1
            assert len({request.properties.message_id for request in seen}) == 200
            assert len(client._ends) == 2

    run(test())


def test_what_a_request_has_is_kept() -> None:
    async def test() -> None:
        async with served(by_message_id) as (client, _, seen, _):
            number = UUID(int=7)
            request = amqp10.Message(
                header=amqp10.Header(durable=True, priority=7),
                properties=amqp10.Properties(message_id=number, subject="s", reply_to="/queues/other"),
                application_properties={"a": 1},
                body=b"x",
            )
            reply = await client.request("/queues/rpc", request)
            assert (text(reply), checked(reply.properties, amqp10.Properties).correlation_id) == ("X", number)
            assert seen[0].properties.subject == "s"
            assert seen[0].properties.message_id == number
            assert seen[0].application_properties["a"] == 1
            assert (seen[0].header.durable, seen[0].header.priority) == (True, 7)
            waiting = asyncio.ensure_future(client.request("/queues/rpc", message("slow", message_id=number)))
            await until(lambda: len(seen) == 2)
            with pytest.raises(LocalProtocolError, match="another request"):
                await client.request("/queues/rpc", message("x", message_id=number))
            assert text(await waiting) == "SLOW"

    run(test())


def test_a_reply_that_comes_too_late_is_dropped() -> None:
    async def test() -> None:
        async with served() as (client, _, _, broker):
            with pytest.raises(TimeoutError):
                await client.request("/queues/rpc", message("slow"), timeout=0.02)
            with pytest.raises(TimeoutError):
                await client.request("/queues/rpc", message("never"), timeout=0.02)
            assert text(await client.request("/queues/rpc", message("next"))) == "NEXT"
            await asyncio.sleep(0.1)
            replies = client._requests._replies.end
            assert isinstance(replies, Receiver)
            assert (list(replies._inbox), replies.waiting) == ([], {})  # type: ignore[attr-defined]
            assert all(not queue.count for queue in broker.router.queues.values())

    run(test())


def test_a_request_that_nobody_takes_is_refused() -> None:
    async def test() -> None:
        async with served() as (client, _, _, _):
            with pytest.raises(Refused, match="not-found"):
                await client.request("/other/x", message("x"))
            with pytest.raises(Refused, match="released"):
                await client.request("/exchanges/amq.topic/nobody", message("x"))
            assert text(await client.request("/queues/rpc", message("next"))) == "NEXT"
            assert not client._requests._replies.end.waiting  # type: ignore[union-attr]

    run(test())


def test_cancelled_requests_leave_nothing_behind() -> None:
    async def test() -> None:
        async with served() as (client, _, _, _):
            for moment in range(30):
                tasks = [asyncio.ensure_future(client.request("/queues/rpc", message("x"))) for _ in range(3)]
                for _ in range(moment):
                    await asyncio.sleep(0)
                tasks[0].cancel()
                tasks[1].cancel()
                assert text(await tasks[2]) == "X"
                await asyncio.gather(*tasks, return_exceptions=True)
            replies = client._requests._replies.end
            assert replies is not None
            assert not replies.waiting  # type: ignore[attr-defined]

    run(test())


def test_a_reconnection_ends_the_requests_that_were_sent(tmp_path: Path) -> None:
    """Whether they were answered is not known, and the address for replies is gone: they are not sent again."""

    async def test() -> None:
        async with served(reconnect=QUICK, journal=tmp_path / "j.db") as (client, server, seen, _):
            assert text(await client.request("/queues/rpc", message("first"))) == "FIRST"
            waiting = asyncio.ensure_future(client.request("/queues/rpc", message("never")))
            await until(lambda: len(seen) == 2)
            for driver in list(server.drivers):
                driver.abort()
            with pytest.raises(ConnectionLost, match="not known"):
                await waiting
            # those that are made now wait for the next connection
            assert text(await client.request("/queues/rpc", message("next"))) == "NEXT"
            assert [text(request) for request in seen] == ["first", "never", "next"]
            assert len({request.properties.reply_to for request in seen}) == 2

    run(test())


def test_without_reconnection_requests_end_with_the_connection() -> None:
    async def test() -> None:
        async with served() as (client, _, seen, _):
            waiting = asyncio.ensure_future(client.request("/queues/rpc", message("never")))
            await until(lambda: seen)
            await client.close()
            with pytest.raises(ConnectionLost):
                await waiting
            with pytest.raises(ConnectionLost):
                await client.request("/queues/rpc", message("x"))
            await client.open()
            assert text(await client.request("/queues/rpc", message("again"))) == "AGAIN"

    run(test())


def test_links_for_requests_are_bounded() -> None:
    async def test() -> None:
        async with served() as (client, _, _, _):
            for n in range(40):
                with pytest.raises(TimeoutError):
                    await client.request(f"/queues/{n}", message("x"), timeout=0.01)
            await until(lambda: len(client._ends) <= 18)
            await asyncio.gather(*(client.request("/queues/rpc", message("x")) for _ in range(5)))

    run(test())


def test_a_server_without_dynamic_nodes() -> None:
    """RabbitMQ before 4.2: amqp:not-implemented."""

    class Plainly(Broker):
        def handle(self, peer: amqp10.Peer, event: Any) -> None:
            if isinstance(event, amqp10.Attaching) and event.message.source.dynamic:
                peer.refuse(event, amqp10.Error(condition="amqp:not-implemented", description="dynamic"))
            else:
                super().handle(peer, event)

    async def test() -> None:
        async with (
            await amqp10.serve(Plainly(), HOST, 0) as server,
            amqp10.connect(f"amqp://{HOST}:{server.port}") as c,
        ):
            for _ in range(2):
                with pytest.raises(Refused, match="not-implemented"):
                    await c.request("/queues/a", message("x"))

    run(test())


# ---- URLs


def asked(url: str) -> Any:
    (address,), _ = read_servers(url, "")
    return wanted(address, None, None, OPTIONS)


def test_what_a_url_says() -> None:
    assert (asked("amqp://h").hostname, asked("amqp://h").sasl, asked("amqp://h").options) == (
        "h",
        Anonymous(),
        OPTIONS,
    )
    assert asked("amqp://u:p%40@h").sasl == Plain("u", "p@")
    # RabbitMQ's clients name the virtual host so in the hostname of open
    assert [asked(f"amqp://h{path}").hostname for path in ("", "/", "/%2F", "/v%20w")] == [
        "h",
        "h",
        "vhost:/",
        "vhost:v w",
    ]
    assert asked("ws://h/path?any=thing").hostname == "h"
    assert asked("amqp://h?hostname=other").hostname == "other"
    options = asked("amqps://h?idle_timeout=7&max_frame_size=1024&channel_max=9").options
    assert (options.idle_timeout, options.frame_size, options.sessions) == (7, 1024, 10)
    assert asked("amqp://h?heartbeat=30").options.idle_timeout == 60  # 2.4.5: half of what is enforced is announced
    assert asked("amqp://h?heartbeat=0").options.idle_timeout is None
    assert asked("amqp://u:p@h?sasl=EXTERNAL,plain").sasl == [External(), Plain("u", "p")]
    assert asked("amqp://h?sasl=none").sasl == ()
    assert read_servers(["amqp://a?container_id=x", "amqp://b"], "")[1] == "x"
    assert read_servers("amqp://a?container_id=x", "mine")[1] == "mine"


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("mqtt://host", "scheme"),
        ("amqp://h?heartbeats=7", "did you mean heartbeat"),
        ("amqp://h?idle_timeout=7&idle_timeout=8", "twice"),
        ("amqp://h?idle_timeout=x", "is a number"),
        ("amqp://h?idle_timeout=-1", "is a number"),
        ("amqp://h?idle_timeout=nan", "is a number"),
        ("amqp://h?heartbeat=1&idle_timeout=2", "heartbeat"),
        ("amqp://h?max_frame_size=511", "512"),
        ("amqp://h?channel_max=65536", "sessions"),
        ("amqp://h/v?hostname=x", "virtual host"),
        ("amqp://h?sasl=PLAIN", "needs a user"),
        ("amqp://h?sasl=GSSAPI", "GSSAPI"),
        (["amqp://a?container_id=x", "amqp://b?container_id=y"], "container_id"),
        ([], "at least one"),
    ],
)
def test_urls_that_are_refused(url: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        amqp10.connect(url)


def test_what_a_url_says_is_sent() -> None:
    opens: list[Any] = []

    class Noting(Broker):
        def handle(self, peer: amqp10.Peer, event: Any) -> None:
            if isinstance(event, amqp10.Open):
                opens.append(event)
            super().handle(peer, event)

    async def test() -> None:
        async with await amqp10.serve(Noting(), HOST, 0) as server:
            query = "container_id=meter&heartbeat=15&max_frame_size=2048&channel_max=3"
            async with amqp10.connect(f"amqp://{HOST}:{server.port}/v?{query}"):
                pass
        (sent,) = opens
        assert (sent.container_id, sent.hostname, sent.idle_time_out, sent.max_frame_size, sent.channel_max) == (
            "meter", "vhost:v", 15000, 2048, 3,
        )  # fmt: skip

    run(test())


def test_replies_that_belong_to_no_request() -> None:
    """Those that cannot be read are rejected, others are dropped; an unsettled one is accepted (2.8.2: the sender decides)."""
    outcomes: list[Any] = []

    class Answering(Broker):
        def handle(self, peer: amqp10.Peer, event: Any) -> None:
            match event:
                case amqp10.Attaching() if event.link.sends:
                    source = amqp10.Source(address="replies", dynamic=True)
                    peer.accept(event, source=source, snd_settle_mode=0)
                    self.replies = checked(event.link, amqp10.Sender)
                case amqp10.Incoming():
                    peer.accept(event)
                    identifier = checked(event.message.properties, amqp10.Properties).correlation_id
                    for payload in (
                        b"\x00\x53\x75",
                        message("no properties").encode(),
                        message("another", correlation_id="other").encode(),
                        message("reply", correlation_id=identifier).encode(),
                        message("again", correlation_id=identifier).encode(),
                    ):
                        self.replies.send(payload)
                    peer.update()
                case _ if type(event).__name__ == "Acknowledged":
                    outcomes.append(type(event.message).__name__)
                case _:
                    super().handle(peer, event)

    async def test() -> None:
        async with (
            await amqp10.serve(Answering(), HOST, 0) as server,
            amqp10.connect(f"amqp://{HOST}:{server.port}") as c,
        ):
            request = message("x", correlation_id="mine")
            assert text(await c.request("/queues/a", request)) == "reply"
            await until(lambda: len(outcomes) == 5)
        assert outcomes == ["Rejected"] + ["Accepted"] * 4

    run(test())
