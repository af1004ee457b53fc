"""RabbitMQ's client for Java (AMQP 0.9.1), Qpid JMS and protonj2 (AMQP 1.0), unchanged, against our servers."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lib.java import BRIEF, class_path
from lib.kinds import checked
from lib.loopback import HOST, run
from wirefmt import amqp091, amqp10
from wirefmt.broker import amqp091 as broker091
from wirefmt.broker import amqp10 as broker10

pytestmark = pytest.mark.live

JARS = os.environ.get("WIREFMT_AMQP_JAVA", "")
PROGRAMS = Path(__file__).parent / "amqp-java"
PATIENCE = 120.0


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path."""
    how = (
        "mvn -f tests/live/amqp-java/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; WIREFMT_AMQP_JAVA=DIR"
    )
    name = "RabbitMQ's client for Java, Qpid JMS and protonj2"
    return class_path(JARS, PROGRAMS, tmp_path_factory.mktemp("classes"), name, how)


async def said(classes: str, program: str, *ports: int) -> list[str]:
    """What a program prints."""
    process = await asyncio.create_subprocess_exec(
        "java", *BRIEF, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", classes, program,
        *map(str, ports), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode() + errors.decode()
    return output.decode().splitlines()


def test_rabbitmq_java(classes: str) -> None:
    """Declare, publish, confirm, return, consume, ack, nack, reject, get, recover, cancel, tx, errors, heartbeats, many
    channels."""

    async def test() -> None:
        broker = broker091.Broker()
        async with await amqp091.serve(broker, HOST, 0) as server:
            assert await said(classes, "Rabbit", server.port) == [
                "got 300000 1 [a, 2] a.b",
                "redelivered true",
                "empty true",
                "returned 312",
                "confirmed true",
                "ordered true",
                "again true",
                "recovered again",
                "cancelled",
                "channel error 404",
                "channel closed",
                "transaction 2",
                "nothing true",
                "count 0",
                "refused",
                "done",
            ]
        broker.close()

    run(test(), PATIENCE + 30)


def test_qpid_jms(classes: str) -> None:
    """Send, outcomes, receive, multi-frame messages, recover, transactions, dynamic nodes, the anonymous terminus, errors of
    links and of the login, idle times."""

    async def test() -> None:
        broker = broker10.Broker(broker10.BrokerOptions(users={"user": "secret"}))
        async with await amqp10.serve(broker, HOST, 0, mechanisms=["PLAIN"]) as server:
            assert await said(classes, "Jms", server.port) == [
                "héllo red 7 c false",
                "bytes 500000",
                "map 1",
                "sent true",
                "ordered true",
                "empty true",
                "recover true",
                "transaction committed",
                "transaction again committed",
                "empty true",
                "temporary reply",
                "refused true",
                "login refused",
                "done",
            ]

    run(test(), PATIENCE + 30)


ERROR = amqp10.Error(condition="test:error", description="as asked")


async def obeys(peer: amqp10.Peer) -> None:
    """A host that does to each message what its body says. A receiver gets three messages, then its drain is answered."""
    async for event in peer:
        link: Any
        match event:
            case amqp10.Login() | amqp10.Open():
                peer.accept(event)
            case amqp10.Attaching(link=link):
                peer.accept(event)
                if isinstance(link, amqp10.Receiver):
                    link.keep(10)
            case amqp10.Incoming(link=link):
                body = checked(event.message.body[0], amqp10.AmqpValue).value
                match body:
                    case "accepted":
                        peer.accept(event)
                    case "rejected":
                        peer.reject(event, ERROR)
                    case "released":
                        peer.release(event)
                    case "modified":
                        peer.modify(event, delivery_failed=True)
                    case "detach":
                        link.detach(ERROR)
                    case "end":
                        link.session.end(ERROR)
                    case "close":
                        peer.close(ERROR)
                    case _:
                        raise AssertionError(body)
            case amqp10.DrainRequested(link=link):
                for n in range(3):
                    link.send(amqp10.Message(body=b"%d" % n))
                link.drained()
        peer.update()


def test_protonj2(classes: str) -> None:
    """Every outcome in both directions, credit and drain, settled messages, large and streamed messages, an aborted one,
    transactions, dynamic nodes, the anonymous terminus, errors of links, sessions, connections and the login, idle times."""

    async def test() -> None:
        broker = broker10.Broker(broker10.BrokerOptions(users={"user": "secret"}))
        async with (
            await amqp10.serve(broker, HOST, 0, mechanisms=["PLAIN"]) as server,
            await amqp10.serve(obeys, HOST, 0) as host,
        ):
            assert await said(classes, "Protonj2", server.port, host.port) == [
                "sent ACCEPTED",
                "héllo red c true 0",
                "released héllo",
                "modified héllo 1",
                "bytes true",
                "ordered true",
                "settled true",
                "drained 1 before drain",
                "no credit true",
                "after drain",
                "streamed 100000",
                "transaction committed",
                "empty true",
                "dynamic reply",
                "refused amqp:not-found",
                "login refused",
                "accepted ACCEPTED true",
                "rejected REJECTED true",
                "released RELEASED true",
                "modified MODIFIED true",
                "drained 3",
                "detach link test:error",
                "end session test:error",
                "close connection test:error",
                "done",
            ]
            assert broker.queue("j2").dropped == 1  # the rejected one

    run(test(), PATIENCE + 30)
