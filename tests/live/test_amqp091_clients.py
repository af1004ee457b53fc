"""Other programs' AMQP 0.9.1 clients, unchanged, against the broker in memory: pika and py-amqp; amqplib and amqp091-go
where they are."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.skips import imported
from wirefmt import amqp091
from wirefmt.broker.amqp091 import Broker

pytestmark = pytest.mark.live
HOST = "127.0.0.1"
PATIENCE = 60.0


class Running:
    """The broker in a thread with a loop of its own."""

    def __init__(self) -> None:
        self.broker: Broker
        self.server: amqp091.Server
        self.loop = asyncio.new_event_loop()
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.main)
        self.thread.start()
        assert self.ready.wait(PATIENCE)
        self.port = self.server.port

    def main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.start())
        self.ready.set()
        self.loop.run_forever()
        self.loop.close()

    async def start(self) -> None:
        self.broker = Broker()
        options = amqp091.ConnectionOptions(heartbeat=2)
        self.server = await amqp091.serve(self.broker, HOST, 0, options=options)

    def do(self, act: Any) -> Any:
        """Call a function in the loop of the broker."""

        async def called() -> Any:
            return act()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(PATIENCE)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.close(), self.loop).result(PATIENCE)
        self.do(self.broker.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE)
        assert not self.errors, self.errors


@pytest.fixture
def running() -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()


# ---- pika


@pytest.fixture
def pika() -> Any:
    return imported("pika")


def test_pika(pika: Any, running: Running) -> None:
    """Declare, publish, confirm, return, consume, ack, nack, reject, get, cancel, tx, errors."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, running.port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("e", "topic")
    channel.exchange_declare("f", "fanout")
    channel.exchange_bind("f", "e", "#")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "f")
    properties = pika.BasicProperties(headers={"n": 1, "deep": {"list": [1, "two"]}}, delivery_mode=2, message_id="m")
    channel.basic_publish("e", "a.b", b"x" * 300_000, properties, mandatory=True)
    method, got, body = channel.basic_get(queue)
    assert (method.routing_key, got.headers, body) == ("a.b", {"n": 1, "deep": {"list": [1, "two"]}}, b"x" * 300_000)
    channel.basic_nack(method.delivery_tag)
    method, _, _ = channel.basic_get(queue)
    assert method.redelivered
    channel.basic_reject(method.delivery_tag, requeue=False)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"", mandatory=True)
    for k in range(20):
        channel.basic_publish("e", "k", b"%d" % k)
    channel.basic_qos(prefetch_count=4)
    found = []
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE):
        assert method is not None
        found.append(body)
        channel.basic_ack(method.delivery_tag, multiple=True)
        if len(found) == 20:
            break
    assert found == [b"%d" % k for k in range(20)]
    channel.cancel()
    assert channel.queue_purge(queue).method.message_count == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        channel.queue_declare("gone", passive=True)
    assert closed.value.reply_code == 404
    transactional = connection.channel()
    transactional.tx_select()
    transactional.basic_publish("", queue, b"1")
    transactional.tx_rollback()
    transactional.basic_publish("", queue, b"2")
    transactional.tx_commit()
    assert transactional.basic_get(queue, auto_ack=True)[2] == b"2"
    assert transactional.basic_get(queue)[0] is None
    connection.close()


def test_pika_hears_of_the_end_of_a_consumer_and_of_blocking(pika: Any, running: Running) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, running.port))
    channel = connection.channel()
    channel.queue_declare("q")
    cancelled: list[Any] = []
    blocked: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    connection.add_on_connection_blocked_callback(lambda *event: blocked.append("blocked"))
    connection.add_on_connection_unblocked_callback(lambda *event: blocked.append("unblocked"))
    channel.basic_consume("q", lambda *event: None)
    connection.channel().queue_delete("q")

    def block() -> None:
        for driver in running.server.drivers:
            peer: Any = driver.host
            peer.connection.block("low")
            peer.connection.unblock()
            peer.update()

    running.do(block)
    while not cancelled or len(blocked) < 2:
        connection.process_data_events(time_limit=0.1)
    assert blocked == ["blocked", "unblocked"]
    connection.close()


def test_pika_and_credentials(pika: Any, running: Running) -> None:
    wrong = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.ConnectionParameters(HOST, running.port, credentials=wrong))
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="530"):
        pika.BlockingConnection(pika.ConnectionParameters(HOST, running.port, virtual_host="none"))


# ---- py-amqp, kombu's


def test_py_amqp(running: Running) -> None:
    pytest.importorskip("amqp", reason="needs py-amqp (pip install amqp)")
    amqp = importlib.import_module("amqp")
    connection = amqp.Connection(f"{HOST}:{running.port}", heartbeat=2, confirm_publish=True, login_method="AMQPLAIN")
    connection.connect()
    channel = connection.channel()
    channel.exchange_declare("e", "direct", auto_delete=False)
    channel.queue_declare("q", durable=True, auto_delete=False)
    channel.queue_bind("q", "e", "k")
    for k in range(10):
        message = amqp.Message(f"{k}", application_headers={"k": k}, delivery_mode=2)
        channel.basic_publish(message, exchange="e", routing_key="k")
    got = channel.basic_get("q")
    assert (got.body, got.headers) == ("0", {"k": 0})
    channel.basic_ack(got.delivery_tag)
    found: list[str] = []

    def take(message: Any) -> None:
        found.append(message.body)
        channel.basic_ack(message.delivery_tag)

    channel.basic_qos(0, 3, False)
    tag = channel.basic_consume("q", callback=take)
    while len(found) < 9:
        connection.drain_events(timeout=PATIENCE)
    assert found == [str(k) for k in range(1, 10)]
    channel.basic_cancel(tag)
    with pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.01)
    connection.heartbeat_tick()
    with pytest.raises(amqp.exceptions.NotFound):
        channel.queue_bind("q", "gone", "k")
    connection.close()
    connection = amqp.Connection(f"{HOST}:{running.port}")
    connection.connect()
    other = connection.channel()
    other.tx_select()
    other.basic_publish(amqp.Message("tx"), routing_key="q")
    other.tx_commit()
    assert other.basic_get("q", no_ack=True).body == "tx"
    assert other.queue_delete("q") == 0
    connection.close()


# ---- aio-pika


def test_aio_pika(running: Running) -> None:
    """Topology, confirms, a return, consumers, ack, nack, reject, get, transactions, errors, and its own reconnection."""
    aio_pika = imported("aio_pika")
    aiormq = importlib.import_module("aiormq")

    async def plain() -> None:
        connection = await aio_pika.connect(f"amqp://guest:guest@{HOST}:{running.port}/")
        async with connection:
            channel = await connection.channel(on_return_raises=True)
            await channel.set_qos(prefetch_count=5)
            exchange = await channel.declare_exchange("e", aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue("q")
            await queue.bind(exchange, "a.#")
            for k in range(100):
                message = aio_pika.Message(b"%d" % k, headers={"k": k}, message_id=str(k))
                await exchange.publish(message, "a.b")
            got = await queue.get(timeout=PATIENCE)
            assert (got.body, got.headers, got.routing_key, got.redelivered) == (b"0", {"k": 0}, "a.b", False)
            await got.nack()
            found = []
            async with queue.iterator() as messages:
                async for message in messages:
                    found.append(message.body)
                    if len(found) < 100:
                        await message.ack()
                    else:
                        await message.reject()
                        break
            assert found == [b"%d" % k for k in range(100)]
            assert await queue.get(fail=False) is None
            with pytest.raises(aio_pika.exceptions.DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b""), "nowhere", mandatory=True)
            await exchange.publish(aio_pika.Message(bytes(300_000)), "a")
            large = await queue.get()
            assert large.body == bytes(300_000)
            await large.ack()
            other = await connection.channel()
            with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
                await other.get_queue("gone", ensure=True)
            transactional = await connection.channel(publisher_confirms=False)
            transaction = transactional.transaction()
            await transaction.select()
            await transactional.default_exchange.publish(aio_pika.Message(b"1"), "q")
            await transaction.rollback()
            async with transactional.transaction():
                await transactional.default_exchange.publish(aio_pika.Message(b"2"), "q")
            assert (await queue.get(no_ack=True)).body == b"2"

    async def robust() -> None:
        connection = await aio_pika.connect_robust(f"amqp://guest:guest@{HOST}:{running.port}/", reconnect_interval=0.1)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("robust", auto_delete=False)
            arrived: asyncio.Queue[bytes] = asyncio.Queue()

            async def take(message: Any) -> None:
                async with message.process():
                    arrived.put_nowait(message.body)

            await queue.consume(take)
            await channel.default_exchange.publish(aio_pika.Message(b"before"), "robust")
            assert await arrived.get() == b"before"
            connections = [*running.server.drivers]
            running.do(lambda: [driver.abort() for driver in connections])  # type: ignore[func-returns-value]
            while not [driver for driver in running.server.drivers if driver not in connections]:
                await asyncio.sleep(0.01)
            while True:
                try:
                    await connection.ready()
                    await channel.default_exchange.publish(aio_pika.Message(b"after"), "robust")
                    break
                except (aiormq.exceptions.ChannelInvalidStateError, aiormq.exceptions.AMQPError):
                    await asyncio.sleep(0.01)  # a channel is restored later than its connection
            while (body := await arrived.get()) == b"before":
                pass  # its ack may not have arrived
            assert body == b"after"

    async def both() -> None:
        async with asyncio.timeout(PATIENCE):
            await plain()
            await robust()

    asyncio.run(both())


# ---- amqplib

PROGRAM = r"""
const amqp = require('amqplib');
(async () => {
  const connection = await amqp.connect(process.argv[2]);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  await channel.assertExchange('e', 'topic', { durable: false });
  await channel.bindQueue(queue, 'e', 'a.#');
  for (let k = 0; k < 20; k++) channel.publish('e', 'a.b', Buffer.from(String(k)));
  await channel.waitForConfirms();
  await channel.prefetch(5);
  const found = [];
  await new Promise(async (resolve) => {
    await channel.consume(queue, (m) => {
      found.push(m.content.toString());
      channel.ack(m);
      if (found.length === 20) resolve();
    });
  });
  const plain = await connection.createChannel();
  plain.on('error', () => {});
  let code = 0;
  try { await plain.checkQueue('gone'); } catch (error) { code = error.code; }
  await channel.close();
  await connection.close();
  console.log(JSON.stringify({ found, code }));
})().catch((error) => { console.error(error); process.exit(1); });
"""


def test_amqplib(running: Running, tmp_path: Path) -> None:
    node = shutil.which("node")
    modules = [Path(part) / "amqplib" for part in os.environ.get("NODE_PATH", "").split(os.pathsep) if part]
    if node is None or not any(path.is_dir() for path in modules):
        pytest.skip("needs amqplib (npm install --prefix DIR amqplib; NODE_PATH=DIR/node_modules)")
    program = tmp_path / "program.js"
    program.write_text(PROGRAM)
    url = f"amqp://guest:guest@{HOST}:{running.port}"
    done = subprocess.run([node, str(program), url], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    expected = '{"found":[' + ",".join(f'"{k}"' for k in range(20)) + '],"code":404}'
    assert done.stdout.strip() == expected


# ---- amqp091-go


def test_amqp091_go(running: Running) -> None:
    """Confirms one by one, a return, consume with acks, an error of a channel."""
    program = os.environ.get("WIREFMT_AMQP091_GO")
    if not program:
        pytest.skip("needs amqp091-go (go build -C tests/live/amqp091-go -o PROGRAM; WIREFMT_AMQP091_GO=PROGRAM)")
    url = f"amqp://guest:guest@{HOST}:{running.port}/"
    done = subprocess.run([program, url], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["312", "404", "done"]
