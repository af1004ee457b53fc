"""Other people's AMQP 1.0 clients against `amqp10.serve` with the broker in memory."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lib.loopback import HOST, run
from lib.skips import imported
from wirefmt import amqp10
from wirefmt.broker.amqp10 import Broker, BrokerOptions

pytestmark = pytest.mark.live

NODE = shutil.which("node")
PROGRAMS = Path(__file__).parent / "amqp10"
PATIENCE = 60.0


def with_server(client: Callable[[int, Broker], None], **arguments: Any) -> None:
    """Run a blocking client in a thread, against a broker of its own."""

    async def test() -> None:
        broker = Broker(BrokerOptions(users={"user": "secret"} if arguments.get("mechanisms") == ["PLAIN"] else None))
        async with await amqp10.serve(broker, HOST, 0, **arguments) as server:
            await asyncio.to_thread(client, server.port, broker)

    run(test(), 2 * PATIENCE)


# ---- qpid proton


@pytest.fixture
def proton() -> Any:
    return imported("proton")


def blocking(port: int, **arguments: Any) -> Any:
    from proton.utils import BlockingConnection

    return BlockingConnection(f"amqp://{HOST}:{port}", timeout=PATIENCE, **arguments)


def test_proton_sends_and_receives(proton: Any) -> None:
    def client(port: int, broker: Broker) -> None:
        connection = blocking(port)
        sender = connection.create_sender("/queues/a")
        bodies = [b"x", bytes(200_000), *(b"%d" % n for n in range(200))]
        for body in bodies:
            delivery = sender.send(proton.Message(body=body, inferred=True))
            assert delivery.remote_state == proton.Delivery.ACCEPTED
        receiver = connection.create_receiver("/queues/a", credit=20)
        for body in bodies:
            message = receiver.receive(timeout=PATIENCE)
            assert bytes(message.body) == body
            receiver.accept()
        connection.close()
        assert not broker.queue("a").messages

    with_server(client)


def test_proton_releases_and_rejects(proton: Any) -> None:
    def client(port: int, broker: Broker) -> None:
        connection = blocking(port)
        sender = connection.create_sender("/queues/a")
        sender.send(proton.Message(body=b"x", inferred=True))
        receiver = connection.create_receiver("/queues/a", credit=1)
        receiver.receive(timeout=PATIENCE)
        receiver.release(delivered=True)
        receiver.receive(timeout=PATIENCE)
        receiver.reject()
        connection.close()
        assert broker.queue("a").dropped == 1

    with_server(client)


def test_proton_logs_in_and_is_refused(proton: Any) -> None:
    from proton import ConnectionException
    from proton.utils import LinkDetached

    def client(port: int, broker: Broker) -> None:
        connection = blocking(port, user="user", password="secret", allowed_mechs="PLAIN", allow_insecure_mechs=True)
        with pytest.raises(LinkDetached):
            connection.create_sender("/nowhere/x")
        connection.close()
        with pytest.raises(ConnectionException):
            blocking(port, user="user", password="wrong", allowed_mechs="PLAIN", allow_insecure_mechs=True)

    with_server(client, mechanisms=["PLAIN"])


def test_proton_takes_a_dynamic_node(proton: Any) -> None:
    def client(port: int, broker: Broker) -> None:
        connection = blocking(port)
        receiver = connection.create_receiver(None, dynamic=True, credit=1)
        address = receiver.link.remote_source.address
        sender = connection.create_sender(None)
        sender.send(proton.Message(address=address, body=b"x", inferred=True))
        assert bytes(receiver.receive(timeout=PATIENCE).body) == b"x"
        connection.close()

    with_server(client)


def test_proton_selects_and_browses(proton: Any) -> None:
    from proton.reactor import Copy, Selector
    from proton.utils import LinkDetached

    def client(port: int, broker: Broker) -> None:
        connection = blocking(port)
        sender = connection.create_sender("q")
        for n in range(6):
            properties = {"n": n, "colour": "red" if n % 2 else "blue"}
            sender.send(proton.Message(body=f"{n}", subject=f"s{n}", properties=properties))
        browser = connection.create_receiver("q", options=Copy())
        for n in range(6):
            assert browser.receive(timeout=PATIENCE).body == f"{n}"
            browser.accept()
        red = connection.create_receiver(
            "q", name="red", options=[Selector("colour = 'red' AND amqp.subject <> 's3'"), Copy()]
        )
        assert [red.receive(timeout=PATIENCE).body for _ in range(2)] == ["1", "5"]
        taken = connection.create_receiver("q", name="taken", options=Selector("n >= 4"))
        for n in (4, 5):
            assert taken.receive(timeout=PATIENCE).body == f"{n}"
            taken.accept()
        with pytest.raises(LinkDetached, match="invalid selector"):
            connection.create_receiver("q", name="invalid", options=Selector("n >= "))
        connection.close()

    with_server(client)


def test_proton_sends_a_message_without_a_body(proton: Any) -> None:
    def client(port: int, broker: Broker) -> None:
        connection = blocking(port)
        assert connection.create_sender("q").send(proton.Message()).remote_state == proton.Delivery.ACCEPTED
        assert connection.create_receiver("q").receive(timeout=PATIENCE).body is None
        connection.close()

    with_server(client)


def test_proton_in_transactions(proton: Any) -> None:
    from proton.handlers import MessagingHandler, TransactionHandler
    from proton.reactor import Container

    class Sends(MessagingHandler, TransactionHandler):
        """Two transactions of three messages: the first is aborted, the second is committed."""

        def __init__(self, url: str) -> None:
            super().__init__()
            self.url = url
            self.ends: list[str] = []

        def on_start(self, event: Any) -> None:
            self.container = event.container
            self.connection = event.container.connect(self.url, reconnect=False)
            self.sender = event.container.create_sender(self.connection, "/queues/a")
            self.container.declare_transaction(self.connection, handler=self)

        def on_transaction_declared(self, event: Any) -> None:
            transaction = event.transaction
            for n in range(3):
                transaction.send(self.sender, proton.Message(body=b"%d" % n, inferred=True))
            transaction.commit() if self.ends else transaction.abort()

        def on_transaction_aborted(self, event: Any) -> None:
            self.ends.append("aborted")
            self.container.declare_transaction(self.connection, handler=self)

        def on_transaction_committed(self, event: Any) -> None:
            self.ends.append("committed")
            self.connection.close()

    def client(port: int, broker: Broker) -> None:
        handler = Sends(f"amqp://{HOST}:{port}")
        Container(handler).run()
        assert handler.ends == ["aborted", "committed"]
        assert len(broker.queue("a").messages) == 3

    with_server(client)


# ---- rhea


@pytest.mark.skipif(NODE is None, reason="needs node (apt install nodejs)")
def test_rhea() -> None:
    assert NODE is not None
    found = subprocess.run([NODE, "-e", "require('rhea')"], capture_output=True, check=False, env=os.environ)
    if found.returncode:
        pytest.skip("needs rhea (npm install rhea, and its node_modules in NODE_PATH)")

    def client(port: int, broker: Broker) -> None:
        said = subprocess.run(
            [str(NODE), str(PROGRAMS / "rhea.js"), str(port)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert said.returncode == 0, said.stdout + said.stderr
        assert said.stdout.splitlines()[-1] == "done"
        assert broker.queue("rhea").dropped == 1

    with_server(client)


# ---- go-amqp


def test_go_amqp() -> None:
    """Send, receive, every outcome, both settlement modes, credit and drain, multi-frame messages, errors, dynamic nodes, idle
    times."""
    program = os.environ.get("WIREFMT_GO_AMQP")
    if not program:
        pytest.skip("needs go-amqp (go build -C tests/live/go-amqp -o PROGRAM .; WIREFMT_GO_AMQP=PROGRAM)")

    def client(port: int, broker: Broker) -> None:
        done = subprocess.run(
            [program, f"amqp://{HOST}:{port}"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines() == [
            "ordered", "large 300000", "settled", "drained true", "red", "blue", "true", "reply", "true", "done"
        ]  # fmt: skip

    with_server(client, mechanisms=["PLAIN"])
