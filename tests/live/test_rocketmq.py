"""Real peers on loopback: a name server and a broker of RocketMQ with the Java client, in both header forms, recorded
while they talk; our own frames and our own client, which the real broker answers; and the Java client at our broker.

Needs a JDK, dumpcap that may record, and the artifacts of tests/live/rocketmq/pom.xml in the folder that the variable
WIREFMT_ROCKETMQ names.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from lib.java import BRIEF, class_path
from lib.loopback import OPENSSL, certificate, run, until
from lib.paths import ROOT
from lib.ports import free_port
from lib.rocketmq_sql import example
from lib.skips import imported
from wirefmt import rocketmq
from wirefmt.broker.rocketmq import Broker, BrokerOptions
from wirefmt.errors import Refused

pytestmark = pytest.mark.live

HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds for something that must come: three Java programs on a small machine
JARS = os.environ.get("WIREFMT_ROCKETMQ", "")
SOURCES = ROOT / "tests" / "live" / "rocketmq"
OPEN = ["--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"]


class Servers(NamedTuple):
    """Ports, the class path, and what trusts them: they take TLS on the same ports, if there is openssl."""

    names: int
    broker: int
    classes: str
    tls: ssl.SSLContext | None


def start(classes: str, folder: Path, *args: str, java: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Server.java, with options of Java; it ends when its standard input does."""
    folder.mkdir()
    log = folder / "log"
    options = [*BRIEF, "-Xmx300m", "-XX:MaxDirectMemorySize=512m", *OPEN, *java]
    command = ["java", *options, "-cp", classes, "Server", str(folder), *args]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
    end = time.monotonic() + PATIENCE
    while b"\nready" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > end:
            stop(process)
            raise RuntimeError(f"no server: {log.read_bytes()[-2000:]!r}")
        time.sleep(0.1)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A class path with the real code and our programs."""
    how = "WIREFMT_ROCKETMQ, see tests/README.md"
    return class_path(JARS, SOURCES, tmp_path_factory.mktemp("classes"), "RocketMQ", how)


@pytest.fixture(scope="module")
def servers(classes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("rocketmq")
    names, broker = free_port(), free_port()
    running, tls = [], None
    java: list[str] = []
    if OPENSSL is not None:
        _, tls = certificate(folder)
        java = [f"-Dtls.server.certPath={folder}/certificate.pem", f"-Dtls.server.keyPath={folder}/key.pem",
                "-Dtls.test.mode.enable=false"]  # fmt: skip
    try:
        running.append(start(classes, folder / "names", str(names), java=java))
        running.append(start(classes, folder / "broker", str(names), str(broker), java=java))
        yield Servers(names, broker, classes, tls)
    finally:
        for process in reversed(running):
            stop(process)


def ask(port: int, *commands: rocketmq.RemotingCommand) -> list[rocketmq.RemotingCommand]:
    decoder = rocketmq.Decoder()
    answers: list[rocketmq.RemotingCommand] = []
    with socket.create_connection((HOST, port), timeout=PATIENCE) as connection:
        connection.sendall(b"".join(c.encode() for c in commands))
        while len(answers) < len(commands):
            data = connection.recv(65536)
            assert data, "the server closed the connection"
            answers += decoder.feed(data)
    return sorted(answers, key=lambda c: c.opaque or 0)


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_servers_take_our_frames(servers: Servers, form: Any) -> None:
    """Key-values at the name server, a message to the broker and back: requests of ours in both header forms."""
    put, get, unknown = ask(
        servers.names,
        rocketmq.RemotingCommand(
            code=100, opaque=1, serialize_type=form,
            header=rocketmq.PutKVConfigRequestHeader(namespace="n", key="k", value="blü \x01\n\"\\"),
        ),
        rocketmq.RemotingCommand(code=21_000, opaque=3, serialize_type=form),
        rocketmq.RemotingCommand(code=21_001, opaque=4, serialize_type=form),
    )  # fmt: skip
    assert (put.code, get.code, unknown.code) == (0, 3, 3)
    assert get.remark == " request type 21000 not supported"
    (got,) = ask(
        servers.names,
        rocketmq.RemotingCommand(
            code=101, opaque=2, serialize_type=form, header=rocketmq.GetKVConfigRequestHeader(namespace="n", key="k")
        ),
    )
    assert got.decode_header(request=101).value == 'blü \x01\n"\\'

    topic = f"Ours_{form}"
    sent = rocketmq.SendMessageRequestHeaderV2(
        a="P", b=topic, c="TBW102", d=4, e=0, f=0, g=1700000000000, h=7,
        i=rocketmq.encode_properties({"UNIQ_KEY": "U", "TAGS": "Tag", "colour": "blü", "WAIT": "true"}), m=False,
    )  # fmt: skip
    (answer,) = ask(
        servers.broker,
        rocketmq.RemotingCommand(code=310, opaque=9, header=sent, body=b"hello", serialize_type=form, language="JAVA"),
    )
    assert (answer.code, answer.remark) == (0, None)
    reply: Any = answer.decode_header(request=310)
    address, port, offset = rocketmq.decode_message_id(reply.msg_id)
    assert (address, port) == (HOST, servers.broker)
    (viewed,) = ask(
        servers.broker,
        rocketmq.RemotingCommand(
            code=33, opaque=5, serialize_type=form, header=rocketmq.ViewMessageRequestHeader(topic=topic, offset=offset)
        ),
    )
    (message,) = viewed.decode_body(request=33, check_crc=True)
    assert (message.topic, message.body, message.flag, message.queue_offset) == (topic, b"hello", 7, reply.queue_offset)
    assert message.properties.items() >= {"TAGS": "Tag", "colour": "blü"}.items()
    assert (message.offset_msg_id, message.physical_offset) == (reply.msg_id, offset)
    fields = {name: getattr(message, name) for name in message.__match_args__}
    assert rocketmq.MessageExt(**fields).encode() == message.encode()


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
def test_a_real_client(servers: Servers, form: str, tmp_path: Path) -> None:
    """All that a real client and real servers say is read, and adds up."""
    pa = imported("pyarrow")
    from wirefmt.capture import read

    dumpcap = shutil.which("dumpcap")
    if dumpcap is None:
        pytest.skip("needs dumpcap (apt install wireshark-common)")
    path = tmp_path / "capture.pcapng"
    ports = f"tcp port {servers.names} or tcp port {servers.broker} or tcp port {servers.broker - 2}"
    recorder = subprocess.Popen(
        [dumpcap, "-q", "-i", "lo", "-f", ports, "-w", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 10
        while not path.exists() or not path.stat().st_size:
            if recorder.poll() is not None or time.monotonic() > end:
                pytest.skip("needs a dumpcap that may record (dpkg-reconfigure wireshark-common)")
            time.sleep(0.1)
        talk = subprocess.run(
            ["java", *BRIEF, "-Xmx128m", f"-Duser.home={tmp_path}", f"-Drocketmq.serialize.type={form}", "-cp", servers.classes,
             "Talk", f"{HOST}:{servers.names}", f"{HOST}:{servers.broker}", form.lower()],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        time.sleep(1)
    finally:
        recorder.terminate()
        recorder.wait()
    steps = [line for line in talk.stdout.splitlines() if line.startswith(("ok ", "no ", "done"))]
    assert steps[-1] == "done", talk.stdout[-2000:]
    with read(path, decode_as=[f"tcp.port=={port},rocketmq" for port in (servers.names, servers.broker)]) as reader:
        rows = [row for batch in reader for row in pa.table(batch).to_pylist()]
    assert {(row["status"], row["error"]) for row in rows} == {("ok", None)}
    kinds = {row["kind"] for row in rows}
    assert len(kinds) >= 35, steps
    sent = {r["message_id"]: r["payload"] for r in rows if r["kind"] == "SEND_MESSAGE_V2" and r["direction"] == 0}
    given = {r["message_id"]: r["payload"] for r in rows if r["kind"] == "PULL_MESSAGE" and r["code"] == 0}
    assert len(sent.keys() & given.keys()) >= 8
    assert all(given[i] == sent[i] for i in sent.keys() & given.keys())


# ---- our client and our broker


async def known(client: rocketmq.Client) -> None:
    """Wait until the broker has registered itself, ten seconds after its start."""
    while True:
        try:
            await client.route("TBW102")
            return
        except Refused:
            await asyncio.sleep(0.2)


def test_our_client_and_the_real_broker(servers: Servers) -> None:
    """All ways to send; push, orderly, broadcasting, pull and pop."""
    topic = "OurClient"
    commit: dict[str, Any] = {"unknown": "commit", "rolled": "rollback"}

    async def main() -> None:
        async with rocketmq.connect(f"{HOST}:{servers.names}") as client:
            await known(client)
            producer = client.producer(
                "OurProducer", check=lambda m: commit.get(bytes(m.body or b"").decode(), "commit")
            )
            await producer.send(topic, b"first", tags="t", keys="k", properties={"colour": "blü"})
            while topic not in client._routes:
                try:
                    await client.route(topic)
                except Refused:
                    await asyncio.sleep(0.1)
            await producer.send_oneway(topic, b"oneway")
            await producer.send(topic, b"big" * 3000)
            await producer.send_batch(topic, [rocketmq.Message(body=b"b%d" % n) for n in range(3)])
            for n in range(4):
                await producer.send(topic, b"o%d" % n, queue=lambda queues: queues[1])
            for decision in ("commit", "unknown", "rollback"):
                body = {"commit": b"committed", "unknown": b"unknown", "rollback": b"rolled"}[decision]
                await producer.send_transaction(topic, body, lambda number, decision=decision: decision)  # type: ignore[misc]
            await producer.send(topic, b"retry")
            await producer.send(topic, b"later", delay_level=1)

            seen: dict[bytes, int] = {}
            order: list[bytes] = []

            def listen(message: rocketmq.MessageExt) -> bool:
                body = bytes(message.body or b"")
                assert message.topic == topic
                seen[body] = max(seen.get(body, 0), message.reconsume_times)
                order.append(body)
                return body != b"retry" or message.reconsume_times > 0

            wanted = {b"first", b"oneway", b"big" * 3000, b"committed", b"unknown", b"retry", b"later"}
            wanted |= {b"b0", b"b1", b"b2", b"o0", b"o1", b"o2", b"o3"}
            async with client.push_consumer(
                "OurPush", {topic: "*"}, listen, begin="first", rebalance_interval=0.5, workers=1
            ):
                await until(lambda: set(seen) == wanted and seen[b"retry"] > 0)
            assert [b for b in order if b in (b"o0", b"o1", b"o2", b"o3")] == [b"o0", b"o1", b"o2", b"o3"]

            pull = client.pull_consumer("OurPush")
            count = 0
            for queue in await pull.queues(topic):
                low, high = await pull.min_offset(queue), await pull.max_offset(queue)
                assert await pull.offset(queue) == high  # the push consumer has stored it
                result = await pull.pull(queue, low, 32)
                assert [m.queue_offset for m in result.messages] == list(range(low, result.next_offset))
                count += high - low
                assert (await pull.pull(queue, high)).status == "NO_NEW_MSG"
                assert (await pull.pull(queue, high + 9)).status == "OFFSET_ILLEGAL"
                assert await pull.search(queue, 0.0) == low

            pop = client.pop_consumer("OurPop")
            popped: set[bytes] = set()
            while len(popped) < len(wanted):
                for each in await pop.pop(topic, invisible=60.0, wait=1.0):
                    popped.add(bytes(each.message.body or b""))
                    if each.message.body == b"first":
                        each = await pop.change_invisible(each, 60.0)
                    await pop.ack(each)
            assert popped == wanted

            places: list[tuple[int, int]] = []
            ordered = client.push_consumer(
                "OurOrderly",
                {topic: "*"},
                lambda m: places.append((m.queue_id, m.queue_offset)),
                begin="first",
                orderly=True,
            )
            async with ordered:
                await until(lambda: len(places) >= count)
            assert all(
                offsets == sorted(set(offsets)) for q in range(4) for offsets in [[o for p, o in places if p == q]]
            )

            tagged: list[Any] = []
            async with client.push_consumer("OurAll", {topic: "t"}, tagged.append, begin="first", model="broadcasting"):
                await until(lambda: tagged)
            assert [m.body for m in tagged] == [b"first"]

    run(main(), PATIENCE * 2)


@pytest.mark.parametrize("place", ["the real broker", "our broker"])
def test_a_real_client_and_ours_exchange_messages(
    place: str, classes: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """What either sends both consume: by push, in order, and by pull. At our broker all requests are signed."""
    topic, group = "Exchange", "ExchangeGroup"
    mine = {b"ours 0", b"ours 1", b"ours 2", b"ours " + b"y" * 6000, b"ours committed", b"ours retry"}
    theirs = {b"java %d" % n for n in range(5)} | {b"java " + b"x" * 6000, b"java oneway", b"java b0", b"java b1",
                                                  b"java chosen", b"java later", b"java committed", b"java unknown"}  # fmt: skip

    async def exchange(address: str, keys: list[str]) -> None:
        credentials = rocketmq.Credentials(*keys) if keys else None
        lines: list[str] = []
        async with rocketmq.connect(address, credentials=credentials) as client:
            await known(client)
            java = await asyncio.create_subprocess_exec(
                "java", *BRIEF, "-Xmx128m", f"-Duser.home={tmp_path}", "-cp", classes, "Exchange", address, topic, group, *keys,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 20,
            )  # fmt: skip
            assert java.stdout is not None
            assert java.stdin is not None
            try:

                async def read(stream: asyncio.StreamReader) -> None:
                    async for line in stream:
                        lines.append(line.decode().rstrip("\n"))

                reading = asyncio.create_task(read(java.stdout))
                await until(lambda: "ready" in lines or reading.done())
                assert "ready" in lines, lines
                assert not [line for line in lines if line.startswith("failed ")]
                assert len([line for line in lines if line.startswith("sent ")]) == 13
                got: dict[bytes, rocketmq.MessageExt] = {}

                def listen(message: rocketmq.MessageExt) -> None:
                    got[bytes(message.body or b"")] = message

                producer = client.producer("OurProducer")
                for body in sorted(mine - {b"ours committed"}):
                    await producer.send(topic, body, tags="ours")
                await producer.send_transaction(topic, b"ours committed", lambda number: "commit", tags="ours")
                async with client.push_consumer("OurExchange", {topic: "*"}, listen, begin="first"):
                    await until(lambda: set(got) == mine | theirs)
                assert got[b"java 0"].tags == "java"
                assert (got[b"java 0"].properties or {})["colour"] == "blü"

                def bodies(way: str) -> set[bytes]:
                    return {line.split(" ", 3)[3].encode() for line in lines if line.startswith(way + " ")}

                await until(lambda: bodies("push") == bodies("pull") == mine | theirs)
                await until(lambda: "push 1 ours ours retry" in lines)
                count = len(mine | theirs)
                await until(lambda: len({line for line in lines if line.startswith("orderly ")}) >= count)
                for queue in range(4):
                    offsets = [int(line.split()[2]) for line in lines if line.startswith(f"orderly {queue} ")]
                    assert offsets == sorted(set(offsets))
                assert "checked java unknown" in lines
                java.stdin.close()
                await reading
                assert lines[-1] == "done"
            finally:
                if java.returncode is None:
                    try:
                        java.kill()
                    except ProcessLookupError:
                        pass
                await java.wait()

    async def main() -> None:
        if place == "the real broker":
            await exchange(f"{HOST}:{request.getfixturevalue('servers').names}", [])
            return
        broker = Broker(BrokerOptions(delay=0.01, check_after=0.5, accounts={"access": "secret"}))
        async with await rocketmq.serve(broker, HOST, 0) as server:
            broker.address = f"{HOST}:{server.port}"
            await exchange(broker.address, ["access", "secret"])
            # all groups have stored how far they are
            for group_ in (group, "O" + group, "OurExchange"):
                for n, queue in enumerate(broker.topics[topic]):
                    assert broker.offsets.get((group_, topic, n), 0) == queue.end
            assert not broker._locks.locks
        broker.close()

    if place == "the real broker":
        request.getfixturevalue("servers")
    run(main(), PATIENCE * 2)


# ---- requests and replies, filter expressions, questions to consumers


class Java:
    """Extras.java: takes a command, and writes lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def __contains__(self, line: str) -> bool:
        return line in self.lines

    async def ask(self, command: str) -> list[str]:
        """What it writes until it has done a command."""
        assert self.process.stdin is not None
        begin, end = len(self.lines), f"done {command.split()[0]}"
        self.process.stdin.write(f"{command}\n".encode())
        await until(lambda: end in self.lines[begin:] or self.reading.done())
        return self.lines[begin : self.lines.index(end, begin)]

    async def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 20)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await self.reading


async def extras(
    place: str, classes: str, address: str, keys: list[str], home: Path, trusting: ssl.SSLContext | None
) -> None:
    topic, group = "Extras", "ExtrasGroup"
    credentials = rocketmq.Credentials(*keys) if keys else None
    names = f"{HOST}:1;{address}"  # nobody listens at the first one
    async with rocketmq.connect(names, credentials=credentials, client_id="ours@1", ssl=trusting) as client:
        await known(client)
        producer = client.producer("OurExtras")
        await producer.send(topic, b"first", tags="other")
        process = await asyncio.create_subprocess_exec(
            "java", *BRIEF, "-Xmx128m", f"-Duser.home={home}", f"-Dtls.enable={str(trusting is not None).lower()}",
            "-cp", classes, "Extras", address, topic, group, "ours@1", *keys,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        java = Java(process)
        try:
            await until(lambda: "ready" in java or java.reading.done())
            assert "ready" in java, java.lines
            got: list[bytes] = []

            async def listen(message: rocketmq.MessageExt) -> None:
                body = bytes(message.body or b"")
                got.append(body)
                if message.tags == "request":
                    await producer.reply(message, b"ours " + body)

            consumer = client.push_consumer(
                group,
                {topic: "other || request"},
                listen,
                begin="first",
                rebalance_interval=0.5,
                store_interval=0.2,
                poll_time=1.0,  # the real broker resets an offset with the answer to the next pull
            )
            async with consumer:
                await until(lambda: b"first" in got)
                # Java asks, we reply; we ask, Java replies
                assert await java.ask("request from java") == ["reply ours from java"]
                assert await java.ask("replier ask") == []
                reply = await producer.request(topic, b"from us", tags="ask", timeout=60.0)
                assert reply.body == b"java from us"
                assert (reply.properties or {})["MSG_TYPE"] == "reply"

                # what our consumer does, and one message for it alone
                first = await producer.send(topic, b"direct", tags="nobody")
                await until(lambda: sum(work.committed for work in consumer._works.values()) >= 4)
                running = await java.ask("running")
                assert {line for line in running if line.startswith("queue ")} == {
                    f"queue {queue.topic} {queue.queue_id} {work.committed}" for queue, work in consumer._works.items()
                }
                assert running[-3:-1] == ["subscriptions 2", "type CONSUME_PASSIVELY"]
                assert int(running[-1].removeprefix("start ")) > 1_700_000_000_000
                assert await java.ask(f"direct {first.offset_message_id}") == ["result CR_SUCCESS false"]
                assert got.count(b"direct") == 1
                if place == "the real broker":  # ours has no administration of offsets
                    (status,) = await java.ask("status")
                    assert int(status.removeprefix("status ")) == sum(
                        work.committed for queue, work in consumer._works.items() if queue.topic == topic
                    )
                    assert not (await java.ask("reset"))[0].startswith("failed")
                    await until(lambda: got.count(b"first") == 2)

            # a member of Java and one of ours share the queues of a group, and have each message once
            taken: list[str] = []
            async with client.push_consumer(
                "Shared",
                {topic: "shared"},
                lambda m: taken.append(f"shared {bytes(m.body or b'').decode()}"),
                begin="first",
                rebalance_interval=0.5,
            ) as member:
                assert await java.ask("member Shared") == []

                def ours() -> list[int]:
                    return [queue.queue_id for queue in member.assigned if queue.topic == topic]

                await until(lambda: len(ours()) == 2)
                for n in range(8):
                    await producer.send(topic, b"%d" % n, tags="shared", queue=lambda queues, n=n: queues[n % 4])  # type: ignore[misc]
                both = {f"shared {n}" for n in range(8)}
                await until(lambda: {*taken, *java.lines} >= both)
                assert sorted(taken) == sorted(f"shared {n}" for n in range(8) if n % 4 in ours())

            # what is refused again and again becomes a dead letter
            async with client.push_consumer(
                "Dead", {topic: "dead"}, lambda m: False, begin="first", most_attempts=0, rebalance_interval=0.5
            ):
                await producer.send(topic, b"dead", tags="dead")
                pull = client.pull_consumer("DeadPull")
                dead: list[Any] = []
                while not dead:
                    try:  # a name server hears of the topic up to 30 seconds later
                        dead += (await pull.pull(rocketmq.Queue("%DLQ%Dead", "broker-a", 0), 0, wait=1.0)).messages
                    except Refused:
                        await asyncio.sleep(0.1)
                assert [m.body for m in dead] == [b"dead"]

            # Java's subscription by an expression, and ours
            expression = "price BETWEEN 5 AND 7 AND colour IS NOT NULL OR name STARTSWITH 'gr'"
            for price in range(4, 10):
                await producer.send(topic, b"price %d" % price, properties={"price": str(price), "colour": "blü"})
            await producer.send(topic, b"named", properties={"name": "green"})
            wanted = {b"price 5", b"price 6", b"price 7", b"named"}
            assert await java.ask(f"sql {expression}") == []
            chosen: list[bytes] = []
            async with client.push_consumer(
                "OurSql",
                {topic: rocketmq.Sql(expression)},
                lambda m: chosen.append(bytes(m.body or b"")),
                begin="first",
                rebalance_interval=0.5,
            ):
                await until(
                    lambda: len(chosen) >= 4 and len([1 for line in java.lines if line.startswith("sql ")]) >= 4
                )
            assert sorted(chosen) == sorted(wanted)
            assert {line[4:].encode() for line in java.lines if line.startswith("sql ")} == wanted
            seen = set()
            for queue in await client.pull_consumer("OurSqlPull").queues(topic):
                pulled = await client.pull_consumer("OurSqlPull").pull(queue, 0, expression=rocketmq.Sql(expression))
                seen |= {m.body for m in pulled.messages}
            assert seen == wanted
            assert await java.ask("sql price > 'x'") == ["refused 23"]
            with pytest.raises(Refused) as refused:
                await client.push_consumer("Bad", {topic: rocketmq.Sql("price > 'x'")}, print).start()
            assert refused.value.code == 23
            with pytest.raises(Refused) as refused:
                await client.pop_consumer("Bad").pop(topic, expression=rocketmq.Sql("price > 'x'"), wait=1.0)
            assert refused.value.code == 23
            assert not [line for line in java.lines if line.startswith("failed ")]
        finally:
            await java.stop()


@pytest.mark.parametrize("place", ["the real broker", "our broker"])
def test_requests_filters_and_questions(
    place: str, classes: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The Java client and ours ask each other, subscribe by expressions, and Java's administration asks our consumer. All of it
    over TLS, at our broker also signed."""

    async def main() -> None:
        if place == "the real broker":
            servers = request.getfixturevalue("servers")
            await extras(place, classes, f"{HOST}:{servers.names}", [], tmp_path, servers.tls)
            return
        own, trusting = certificate(tmp_path) if OPENSSL is not None else (None, None)
        broker = Broker(BrokerOptions(accounts={"access": "secret"}))
        async with await rocketmq.serve(broker, HOST, 0, ssl=own) as server:
            broker.address = f"{HOST}:{server.port}"
            await extras(place, classes, broker.address, ["access", "secret"], tmp_path, trusting)
        broker.close()

    if place == "the real broker":
        request.getfixturevalue("servers")
    run(main(), PATIENCE * 2)


def test_filter_expressions_as_the_real_broker(classes: str) -> None:
    """Random expressions have the same results, and the same are refused. `SIMULATE_SEED` makes others."""
    seed = int(os.environ.get("SIMULATE_SEED", "0"))
    random = Random(seed)
    examples = [example(random) for _ in range(5000)]

    def octets(text: str) -> str:
        return base64.b64encode(text.encode()).decode() or "="

    asked = [" ".join((octets(e), *(octets(f"{k}={v}") for k, v in p.items()))) for e, p in examples]
    java = subprocess.run(
        ["java", *BRIEF, "-Xmx128m", "-cp", classes, "Filter"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    for (expression, properties), expected in zip(examples, java.stdout.split(), strict=True):
        try:
            found = str(rocketmq.SqlFilter(expression).matches(properties)).lower()
        except ValueError:
            found = "bad"
        assert found == expected, (seed, expression, properties)
