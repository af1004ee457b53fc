"""The broker in memory and `mqtt.serve` against clients in other languages, unchanged: HiveMQ's for Java, and paho's two for
Go. Each program does the same with every version it has, and prints a line for each thing it sees."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from lib.java import BRIEF, class_path
from lib.loopback import HOST, run
from wirefmt import mqtt
from wirefmt.broker.mqtt import Broker

pytestmark = pytest.mark.live
JARS = os.environ.get("WIREFMT_HIVEMQ", "")
PAHO_GO = os.environ.get("WIREFMT_PAHO_GO", "")


def expected(version: int) -> list[str]:
    """What the specification wants a client to see: sections of 5.0, which 3.1.1 agrees with."""
    said = ["present false"] * 3  # clean: 3.1.2.4
    said += [f"granted {qos}" for qos in range(3)]
    for granted in range(3):  # the lower QoS: 3.8.4; in order: 4.6
        said += [f"q{granted}/é {min(granted, qos)} false m{n}" for qos in range(3) for n in range(10)]
    said += ["q2/large 2 false 300000 octets", "q2/x 1 false for you"]  # nothing of what was unsubscribed: 3.10.4
    if version == 5:  # properties arrive unchanged: 3.3.2.3
        said.append("q2/described 1 false described text/plain answers c1 k=1 k=2")
    # RETAIN is 1 where the message was there before the subscription; an empty payload ends it: 3.3.1.3
    said += ["r 1 true kept", "r 1 false new", "r 1 false", "r 1 false after", "r 1 false after"]
    # a will is sent when the connection breaks, and retained; it is not after DISCONNECT: 3.1.2.5, 3.1.2.7, 3.14.4
    said += ["w 1 false gone", "w 1 true gone", "v 1 false no will"]
    # a session goes on, and what was published while the client was away arrives: 3.1.2.4, 4.1; 3.1 has no such flag
    said += ["present false", "present false" if version == 3 else "present true"]
    said += [f"s/{qos} {qos} false m{n}" for qos in (1, 2) for n in range(10)]
    return [*said, "s/2 2 false again", "done"]


def ordered(said: str) -> list[str]:
    """The lines. The server may send a message before one of another QoS and topic: of the session these are put apart."""
    lines = said.splitlines()
    queued = [k for k, line in enumerate(lines) if line.startswith("s/")][:20]
    for k, line in zip(queued, sorted((lines[k] for k in queued), key=lambda line: line[:3]), strict=True):
        lines[k] = line
    return lines


def see(version: int, *command: str) -> None:
    """Run a program with address, port and version."""

    async def test() -> None:
        broker = Broker()
        async with await mqtt.serve(broker, HOST, 0) as server:
            process = await asyncio.create_subprocess_exec(
                *command,
                HOST,
                str(server.port),
                str(version),
                stdin=subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                said, wrong = await process.communicate()
            except asyncio.CancelledError:
                process.kill()
                await process.communicate()
                raise
            assert process.returncode == 0, (said + wrong).decode(errors="replace")
        broker.close()
        assert ordered(said.decode()) == expected(version)

    run(test(), patience=120)


@pytest.fixture(scope="module")
def hivemq(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A class path with HiveMQ's client and the program."""
    how = "mvn -f tests/live/hivemq/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; WIREFMT_HIVEMQ=DIR"
    sources = Path(__file__).parent / "hivemq"
    return class_path(JARS, sources, tmp_path_factory.mktemp("classes"), "HiveMQ's client for Java", how)


@pytest.mark.parametrize("version", [4, 5])
def test_hivemq(hivemq: str, version: int) -> None:
    see(version, "java", *BRIEF, "-cp", hivemq, "Peer")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_paho_go(version: int) -> None:
    if not PAHO_GO:
        pytest.skip("needs paho's clients for Go (go build -C tests/live/paho-go -o PROGRAM; WIREFMT_PAHO_GO=PROGRAM)")
    see(version, PAHO_GO)
