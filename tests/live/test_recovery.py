"""Our clients beside brokers that fail, under load and with journals: nothing that was confirmed is lost, each call has its end.

Each test prints what it counted (`pytest -rP`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from live.test_nsqd import needs_nsqd

from lib import mosquitto
from lib.forwarder import Forwarder
from lib.java import BRIEF, class_path
from lib.loopback import HOST, run, until
from lib.ports import free_port
from lib.rabbitmq import PASSWORD, USER
from lib.rabbitmq import SERVER as RABBITMQ
from lib.rabbitmq import Broker as RabbitMQ
from lib.under_load import AGAIN, TASKS, Amqp091, Amqp10, Load, Mqtt, Nsq
from wirefmt import amqp091
from wirefmt.connection import NotRestored
from wirefmt.errors import Refused

pytestmark = pytest.mark.live

#: Messages that a broker may lose which has forgotten the subscriber's session: those of a second or so.
FORGOTTEN = 500

NSQD = shutil.which("nsqd")
NSQLOOKUPD = shutil.which("nsqlookupd")


def told(load: Load) -> None:
    print(load.report())


# ---- RabbitMQ


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """Debian's, a node of this module: it is stopped and killed."""
    if RABBITMQ is None:
        pytest.skip("needs rabbitmq-server (apt install rabbitmq-server)")
    node = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        node.start()
        yield node
    finally:
        node.stop()


def stops_and_starts(node: RabbitMQ) -> None:
    node.control("stop_app")
    time.sleep(0.5)
    node.control("start_app")


def alarm(node: RabbitMQ) -> None:
    """No disk is left: connections that publish are blocked, and go on."""
    node.control("set_disk_free_limit", "100000GB")
    time.sleep(2.0)
    node.control("set_disk_free_limit", "1MB")


TROUBLES: dict[str, Callable[[RabbitMQ], None]] = {
    "restart": lambda node: node.restart(),
    "kill -9": lambda node: node.restart(kill=True),
    "stop_app": stops_and_starts,
    "SIGSTOP": lambda node: node.frozen(5.0),
    "alarm": alarm,
}
LOADS: dict[str, Callable[[Path, RabbitMQ], Load]] = {
    "amqp091": lambda folder, node: Amqp091(folder, f"amqp://{USER}:{PASSWORD}@{HOST}:{node.port}", heartbeat=2),
    "amqp10": lambda folder, node: Amqp10(
        folder, f"amqp://{USER}:{PASSWORD}@{HOST}:{node.port}", "/amq/queue/load10", idle_timeout=2.0
    ),
    "mqtt": lambda folder, node: Mqtt(folder, f"mqtt://{USER}:{PASSWORD}@{HOST}:{node.mqtt_port}", qos=1, version=4),
}


async def prepared(node: RabbitMQ, queue: str) -> None:
    """A durable, empty queue."""
    async with amqp091.connect(f"amqp://{USER}:{PASSWORD}@{HOST}:{node.port}") as client:
        channel = await client.channel()
        await channel.declare_queue(queue, durable=True)
        await channel.purge_queue(queue)


async def run_together(loads: list[Load], trouble: Callable[[], None], node: RabbitMQ) -> None:
    """Loads of one broker, which is troubled once, when all of them flow.

    A RabbitMQ that is killed half a second after a SUBACK has the session's queue afterwards, and says Session Present, but in
    some kills (3 of some 45 of 3.10.8 on a busy machine) the queue is not bound to amq.topic any more.
    """

    def forgot(load: Mqtt) -> bool:
        if not load.resumed:  # our client has subscribed again, or the fault is its
            return False
        rows = [line.split("\t") for line in node.control("list_bindings").splitlines()]
        bound = [row[0] for row in rows if len(row) > 2 and row[2].startswith("mqtt-subscription-load-in")]
        return bound == [""]  # the default exchange alone

    barrier = asyncio.Barrier(len(loads))

    async def once() -> None:
        if await barrier.wait() == 0:
            await asyncio.to_thread(trouble)
        await barrier.wait()

    async with asyncio.TaskGroup() as group:
        for load in loads:
            group.create_task(load.run(once, forgot=partial(forgot, load) if isinstance(load, Mqtt) else lambda: False))


#: Which protocols are beside each other. MQTT is alone at `kill -9`: under the load of the others, a killed RabbitMQ 4 had lost
#: messages that it had confirmed in one run of six.
TOGETHER: list[tuple[str, tuple[str, ...]]] = [
    (trouble, ("amqp091", "amqp10", "mqtt")) for trouble in TROUBLES if trouble != "kill -9"
]
TOGETHER += [("kill -9", ("amqp091", "amqp10")), ("kill -9", ("mqtt",))]


@pytest.mark.parametrize(("trouble", "protocols"), TOGETHER)
def test_rabbitmq(trouble: str, protocols: tuple[str, ...], rabbit: RabbitMQ, tmp_path: Path) -> None:
    loads = [LOADS[protocol](tmp_path, rabbit) for protocol in protocols]

    async def main() -> None:
        await prepared(rabbit, "load10")
        await run_together(loads, lambda: TROUBLES[trouble](rabbit), rabbit)

    run(main(), patience=240.0)
    for load in loads:
        told(load)
        load.check()
        assert load.told  # it was troubled


@pytest.mark.parametrize(("trouble", "protocols"), [case for case in TOGETHER if case[0] != "stop_app"])
def test_rabbitmq_4(trouble: str, protocols: tuple[str, ...], rabbitmq4: RabbitMQ, tmp_path: Path) -> None:
    url = f"{USER}:{PASSWORD}@{HOST}"
    made = LOADS | {
        "amqp10": lambda folder, node: Amqp10(folder, f"amqp://{url}:{node.port}", "/queues/load10", idle_timeout=2.0),
        "mqtt": lambda folder, node: Mqtt(folder, f"mqtt://{url}:{node.mqtt_port}", qos=1, version=5),
    }
    loads = [made[protocol](tmp_path, rabbitmq4) for protocol in protocols]

    async def main() -> None:
        await prepared(rabbitmq4, "load10")
        await run_together(loads, lambda: TROUBLES[trouble](rabbitmq4), rabbitmq4)

    run(main(), patience=240.0)
    for load in loads:
        told(load)
        load.check()


def test_a_bad_link_ends_a_session_of_rabbitmq_4(rabbitmq4: RabbitMQ, tmp_path: Path) -> None:
    """The links beside it go on; the call is refused; there is one connection. What was sent in the session that ended, and has
    no outcome, is sent again in the next one."""
    url = f"amqp://{USER}:{PASSWORD}@{HOST}:{rabbitmq4.port}"
    load = Amqp10(tmp_path, url, "/queues/load10")

    async def bad() -> None:
        for _ in range(3):
            began = load.unfinished(), load.confirmed.copy()
            with pytest.raises(Refused) as refused:
                await load.client.receiver("/queues/nowhere")
            assert refused.value.code == "amqp:not-found"
            load.uncertain |= began[0] | load.unfinished() | (load.confirmed - began[1])
            await asyncio.sleep(0.2)

    async def main() -> None:
        await prepared(rabbitmq4, "load10")
        await load.run(bad)

    run(main(), patience=240.0)
    told(load)
    load.check()
    assert load.client.connections == 1


def test_a_deleted_queue_ends_its_consumer_alone(rabbit: RabbitMQ, tmp_path: Path) -> None:
    load = LOADS["amqp091"](tmp_path, rabbit)
    assert isinstance(load, Amqp091)

    async def deleted() -> None:
        channel = await load.client.channel()
        await channel.declare_queue("doomed", durable=True)
        consumer = await channel.consume("doomed")
        await asyncio.to_thread(rabbit.control, "delete_queue", "doomed")
        with pytest.raises(Refused):
            await anext(aiter(consumer))
        await asyncio.to_thread(TROUBLES["restart"], rabbit)
        await until(lambda: load.client.connected)
        control = await asyncio.to_thread(rabbit.control, "list_queues", "name")
        assert "doomed" not in control  # it is not brought back

    run(load.run(deleted), patience=240.0)
    told(load)
    load.check()


def test_an_exclusive_queue_whose_owner_is_dead_and_not_missed_yet(rabbit: RabbitMQ, tmp_path: Path) -> None:
    """The connection dies in silence. The client notices first, comes back, and its queue is locked until the server notices."""

    async def main() -> None:
        async with Forwarder(rabbit.port) as forwarder:
            events: list[Any] = []
            async with amqp091.connect(
                f"amqp://{USER}:{PASSWORD}@{HOST}:{forwarder.port}", reconnect=AGAIN, on_event=events.append,
                options=amqp091.ConnectionOptions(heartbeat=4),
            ) as client:  # fmt: skip
                channel = await client.channel()
                await channel.declare_queue("mine", exclusive=True)
                consumer = await channel.consume("mine")
                other = await client.channel()
                await other.publish(b"one", routing_key="mine")
                message = await anext(aiter(consumer))
                assert message.body == b"one"
                message.ack()
                forwarder.silence()
                for half in list(forwarder.halves):  # only the client's side sees an end
                    if half.other is not None and half in clients(forwarder):
                        half.transport.abort()  # type: ignore[union-attr]
                await until(lambda: client.connections >= 2 and client.connected)
                async with asyncio.timeout(40):
                    coming = asyncio.ensure_future(anext(aiter(consumer)))
                    while not coming.done():  # the dead owner's queue takes messages, too, and goes with them
                        with contextlib.suppress(Refused):  # there is no queue for a moment
                            await other.publish(b"two", routing_key="mine", mandatory=True)
                        await asyncio.sleep(0.2)
                    assert coming.result().body == b"two"
                refused = [event for event in events if isinstance(event, NotRestored)]
                assert refused
                assert {event.error.code for event in refused} == {405}
                assert {event.action for event in refused} == {"retry"}
                print(f"{len(refused)} refusals, {client.connections} connections")

    run(main(), patience=120.0)


def clients(forwarder: Forwarder) -> set[Any]:
    """The sides of clients: those that were there before their other half."""
    return {half for half in forwarder.halves if half.transport.get_extra_info("sockname")[1] == forwarder.port}  # type: ignore[union-attr]


def test_a_virtual_host_that_is_full_until_the_old_connection_is_missed(rabbit: RabbitMQ) -> None:
    async def main() -> None:
        await asyncio.to_thread(rabbit.control, "add_vhost", "small")
        await asyncio.to_thread(rabbit.control, "set_permissions", "-p", "small", USER, ".*", ".*", ".*")
        await asyncio.to_thread(rabbit.control, "set_vhost_limits", "-p", "small", '{"max-connections": 1}')
        async with Forwarder(rabbit.port) as forwarder:
            events: list[Any] = []
            async with amqp091.connect(
                f"amqp://{USER}:{PASSWORD}@{HOST}:{forwarder.port}/small", reconnect=AGAIN, on_event=events.append,
                options=amqp091.ConnectionOptions(heartbeat=4),
            ) as client:  # fmt: skip
                channel = await client.channel()
                await channel.declare_queue("q")
                forwarder.silence()
                for half in clients(forwarder):
                    half.transport.abort()
                async with asyncio.timeout(60):
                    await channel.publish(b"after", routing_key="q")
                    message = await channel.get("q")
                    assert message is not None
                    message.ack()
                print(f"{len(events)} events")
        await asyncio.to_thread(rabbit.control, "delete_vhost", "small")

    run(main(), patience=120.0)


# ---- ActiveMQ Artemis


@pytest.mark.parametrize("trouble", ["restart", "kill -9", "SIGSTOP"])
def test_artemis(trouble: str, tmp_path: Path) -> None:
    how = "mvn -f tests/live/artemis/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; WIREFMT_ARTEMIS=DIR"
    path = class_path(
        os.environ.get("WIREFMT_ARTEMIS", ""), Path(__file__).parent / "artemis", tmp_path, "ActiveMQ Artemis", how
    )
    port = free_port()

    def start() -> subprocess.Popen[bytes]:
        command = ["java", *BRIEF, "-cp", path, "Artemis", str(port), str(tmp_path), "durable"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        assert process.stdout.readline().split()[0] == b"up"
        return process

    def end(process: subprocess.Popen[bytes], *, kill: bool) -> None:
        if kill:
            process.kill()
        process.communicate(timeout=30)  # its input ends

    running = [start()]

    def trouble_() -> None:
        if trouble == "SIGSTOP":
            running[0].send_signal(signal.SIGSTOP)
            time.sleep(5.0)
            running[0].send_signal(signal.SIGCONT)
            return
        end(running[0], kill=trouble == "kill -9")
        running[0] = start()

    load = Amqp10(tmp_path, f"amqp://{HOST}:{port}", "load", idle_timeout=2.0)
    load.marks = False  # delivery-count is not kept over a restart
    try:
        asyncio.run(load.run(lambda: asyncio.to_thread(trouble_)))  # the new process has other pipes
    finally:
        end(running[0], kill=True)
    told(load)
    load.check()


# ---- mosquitto


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("trouble", ["restart", "SIGSTOP"])
def test_mosquitto(trouble: str, qos: int, version: int, tmp_path: Path) -> None:
    """QoS 2 arrives once, whatever happens.

    mosquitto writes its data when it ends, so after kill -9 it has forgotten them. Debian's 2.0.11 forgets sessions of 5.0 at a
    restart, too (session present 0): what is published before the subscriber is back has no receiver there.
    """
    if mosquitto.MOSQUITTO is None:
        pytest.skip("needs mosquitto (apt install mosquitto)")
    process, port = mosquitto.start_broker(tmp_path, "max_queued_messages 100000\n", persistent=True)
    running = [process]

    def trouble_() -> None:
        if trouble == "SIGSTOP":
            running[0].send_signal(signal.SIGSTOP)
            time.sleep(4.0)
            running[0].send_signal(signal.SIGCONT)
            return
        mosquitto.stop(running[0])
        running[0] = mosquitto.start_again(tmp_path, port)

    load = Mqtt(tmp_path, f"mqtt://{HOST}:{port}", qos=qos, version=version)
    lost = FORGOTTEN if version == 5 and trouble == "restart" else 0
    try:
        run(load.run(lambda: asyncio.to_thread(trouble_), lost=lost), patience=240.0)
    finally:
        mosquitto.stop(running[0])
    told(load)
    # a QoS 2 message that may have arrived is not sent again if the server has lost the session, as this one does at a restart
    load.check(twice=qos == 1, failures=TASKS if qos == 2 and trouble == "restart" else 0, lost=lost)


# ---- NSQ


@needs_nsqd
@pytest.mark.parametrize("trouble", ["restart", "kill -9", "SIGSTOP"])
def test_three_nsqd_and_a_lookup(trouble: str, tmp_path: Path) -> None:
    """One of three nsqd fails after the other. Each writes every message to its disk; but those that are in flight when it is
    killed are in its memory alone. The place up to which a queue has been read goes to the disk after a message has been passed
    on (go-diskqueue, `ioLoop`): one that is killed in between passes it on again, as if for the first time, from the topic to the
    channel or from there to the consumer."""
    if NSQLOOKUPD is None:
        pytest.skip("needs nsqlookupd (go build github.com/nsqio/nsq/apps/nsqlookupd)")
    tcp, http = free_port(), free_port()
    lookup = subprocess.Popen(
        [NSQLOOKUPD, f"-tcp-address={HOST}:{tcp}", f"-http-address={HOST}:{http}", "-log-level=error"],
        stderr=subprocess.DEVNULL,
    )
    ports = [free_port() for _ in range(3)]

    def start(number: int) -> subprocess.Popen[bytes]:
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        assert NSQD is not None
        command = [
            NSQD, f"-tcp-address={HOST}:{ports[number]}", f"-http-address={HOST}:0", f"-broadcast-address={HOST}",
            f"-lookupd-tcp-address={HOST}:{tcp}", f"-data-path={folder}", "-mem-queue-size=0", "-sync-every=1",
            "-log-level=error",
        ]  # fmt: skip
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    nodes = [start(number) for number in range(3)]

    def trouble_() -> None:
        for number in range(3):
            node = nodes[number]
            if trouble == "SIGSTOP":
                node.send_signal(signal.SIGSTOP)
                time.sleep(3.0)
                node.send_signal(signal.SIGCONT)
            else:
                (node.kill if trouble == "kill -9" else node.terminate)()
                node.wait(10)
                time.sleep(0.3)
                nodes[number] = start(number)
            time.sleep(0.7)

    in_flight = 40 if trouble == "kill -9" else 0  # 20 at one, 10 at each of two
    load = Nsq(tmp_path, [f"nsq://{HOST}:{port}" for port in ports], f"http://{HOST}:{http}")
    try:
        time.sleep(0.5)
        run(load.run(lambda: asyncio.to_thread(trouble_), after=2.0, lost=in_flight), patience=240.0)
    finally:
        for process in (*nodes, lookup):
            process.kill()
            process.wait()
    told(load)
    load.check(lost=in_flight, repeated=2 * len(nodes) if trouble == "kill -9" else 0)
