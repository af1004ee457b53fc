"""python-qpid-proton as the client of a little server made of wirefmt's own frames: what proton sends we read under STRICT,
what we send proton has as it was meant; every type, every outcome, transactions, drain, errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from lib.amqp10_dialogue import Dialogue
from lib.amqp10_peer import HOST, PATIENCE, Server
from lib.amqp10_vectors import build, node, same
from lib.kinds import checked
from lib.proxy import Proxy
from lib.skips import imported

proton = imported("proton")
from proton.handlers import MessagingHandler  # noqa: E402
from proton.reactor import Container, Filter  # noqa: E402
from proton.utils import BlockingConnection, LinkDetached  # noqa: E402

from lib.proton_values import EVERYTHING, IDENTIFIER, node_of  # noqa: E402
from wirefmt import amqp10  # noqa: E402

pytestmark = pytest.mark.live


@contextlib.contextmanager
def recorded(server: Server) -> Iterator[int]:
    """The port of a proxy; what passed it is read as a whole at the end."""
    proxy = Proxy(server.port)
    try:
        yield proxy.port
        for conversation in proxy.finish():
            Dialogue(conversation)
    finally:
        proxy.close()
        proxy.keep("proton-amqp10")


@contextlib.contextmanager
def connected(server: Server, **more: Any) -> Iterator[Any]:
    with recorded(server) as port:
        connection = BlockingConnection(f"amqp://{HOST}:{port}", timeout=PATIENCE, **more)
        try:
            yield connection
        finally:
            with contextlib.suppress(proton.ConnectionException):
                connection.close()


def value_message(value: Any) -> Any:
    message = proton.Message()
    message.inferred = False
    message.body = value
    return message


# ---- values and messages


def test_we_read_every_value() -> None:
    values = [value for value in EVERYTHING if value is not None]  # of which proton makes no section
    with Server() as server, connected(server, sasl_enabled=False) as connection:
        sender = connection.create_sender("values")
        for value in values:
            sender.send(value_message(value))
    for delivery, value in zip(server.deliveries, values, strict=True):
        (section,) = delivery.message.body
        assert same(node(section.value), node_of(value)), value


def is_binary(value: Any) -> bool:
    """For octets proton gives memory that it has freed."""
    return isinstance(value, bytes) or (isinstance(value, proton.Array) and value.type == proton.Data.BINARY)


def test_proton_reads_every_value() -> None:
    """Built anew from what they mean, in the encodings that wirefmt chooses."""
    values = [value for value in EVERYTHING if value is not None and not is_binary(value)]
    messages = [amqp10.Message(body=amqp10.AmqpValue(build(node_of(value)))) for value in values]
    with Server(outgoing=messages) as server, connected(server) as connection:
        receiver = connection.create_receiver("values", credit=len(values))
        for value in values:
            came = receiver.receive(PATIENCE).body
            receiver.accept()
            assert same(node_of(came), node_of(value)), value


@pytest.mark.parametrize("identifier", ["text", proton.ulong(7), IDENTIFIER, b"\x00\xff"])
def test_proton_reads_every_section(identifier: Any) -> None:
    properties = amqp10.Properties(
        message_id=amqp10.ULong(7) if isinstance(identifier, int) else identifier,
        user_id=b"me",
        to="to/é",
        subject="sübject",
        reply_to="answers",
        correlation_id="c",
        content_type="text/plain",
        content_encoding="identity",
        absolute_expiry_time=1_800_000_000_500,
        creation_time=1_700_000_000_250,
        group_id="group",
        group_sequence=2**32 - 1,
        reply_to_group_id="other",
    )
    message = amqp10.Message(
        header=amqp10.Header(durable=True, priority=7, ttl=60000, first_acquirer=True, delivery_count=3),
        delivery_annotations={amqp10.Symbol("x-d"): amqp10.UInt(1)},
        message_annotations={amqp10.Symbol("x-m"): ["a", 1]},
        properties=properties,
        application_properties={"n": 1, "text": "é", "yes": True},
        body=amqp10.AmqpValue("body"),
        footer={amqp10.Symbol("x-f"): "end"},
    )
    with Server(outgoing=[message]) as server, connected(server) as connection:
        receiver = connection.create_receiver("sections", credit=1)
        came = receiver.receive(PATIENCE)
        receiver.accept()
    assert (came.durable, came.priority, came.ttl, came.first_acquirer, came.delivery_count) == (True, 7, 60, True, 3)
    assert dict(came.instructions) == {proton.symbol("x-d"): 1}
    assert dict(came.annotations) == {proton.symbol("x-m"): ["a", 1]}
    assert came.id == identifier
    assert came.user_id == b"me"
    assert (came.address, came.subject, came.reply_to, came.correlation_id) == ("to/é", "sübject", "answers", "c")
    assert (came.content_type, came.content_encoding) == ("text/plain", "identity")
    assert (came.expiry_time, came.creation_time) == (1_800_000_000.5, 1_700_000_000.25)
    assert (came.group_id, came.group_sequence, came.reply_to_group_id) == ("group", 2**32 - 1, "other")
    assert came.properties == {"n": 1, "text": "é", "yes": True}
    assert came.body == "body"


@pytest.mark.parametrize("frame_size", [512, 4096])
def test_transfers_of_many_frames(frame_size: int) -> None:
    texts = [str(n) * size for n, size in enumerate((0, 1, frame_size, 100_000))]
    messages = [amqp10.Message(body=amqp10.AmqpValue(text)) for text in texts]
    with Server(outgoing=messages) as server, connected(server, max_frame_size=frame_size) as connection:
        sender = connection.create_sender("there")
        for text in texts:
            sender.send(value_message(text))
        receiver = connection.create_receiver("here", credit=10)
        for text in texts:
            assert receiver.receive(PATIENCE).body == text
            receiver.accept()
    assert [d.message.body[0].value for d in server.deliveries] == texts
    # 4096 is what the server said it takes
    assert server.deliveries[-1].transfers >= 100_000 // 4096


# ---- outcomes


def test_outcomes_of_proton() -> None:
    """What its receiver makes of deliveries."""
    outgoing = [amqp10.Message(body=amqp10.AmqpValue(n)) for n in range(4)]
    with Server(outgoing=outgoing) as server, connected(server) as connection:
        receiver = connection.create_receiver("here", credit=4)
        for settle in (
            receiver.accept,
            receiver.reject,
            lambda: receiver.release(delivered=False),
            lambda: receiver.release(delivered=True),
        ):
            receiver.receive(PATIENCE)
            settle()
    said = sorted(
        server.seen(amqp10.Disposition), key=lambda d: checked(d.first, int)
    )  # proton says it in an order of its own
    assert [(d.first, d.role, d.settled) for d in said] == [(n, True, True) for n in range(4)]
    states = [d.state for d in said]
    assert [type(s) for s in states] == [amqp10.Accepted, amqp10.Rejected, amqp10.Released, amqp10.Modified]
    assert (states[3].delivery_failed, states[3].undeliverable_here) == (False, False)


def test_outcomes_for_proton() -> None:
    """What its sender learns."""
    error = amqp10.Error(condition="amqp:not-allowed", description="nö", info={amqp10.Symbol("why"): 1})
    outcomes = [
        amqp10.Accepted(),
        amqp10.Rejected(error=error),
        amqp10.Released(),
        amqp10.Modified(delivery_failed=True, undeliverable_here=True, message_annotations={amqp10.Symbol("x"): 2}),
    ]
    seen: list[Any] = []
    with Server(outcomes=outcomes) as server, connected(server) as connection:
        sender = connection.create_sender("there")
        for _ in outcomes:
            delivery = sender.link.send(proton.Message(body="x"))
            connection.wait(lambda delivery=delivery: delivery.settled)
            remote = delivery.remote
            seen.append(
                (delivery.remote_state, remote.condition, remote.failed, remote.undeliverable, remote.annotations)
            )
    D = proton.Delivery
    assert [row[0] for row in seen] == [D.ACCEPTED, D.REJECTED, D.RELEASED, D.MODIFIED]
    condition = seen[1][1]
    assert (condition.name, condition.description) == ("amqp:not-allowed", "nö")
    assert condition.info == {proton.symbol("why"): 1}
    assert seen[3][2:4] == (True, True)
    assert seen[3][4] == {proton.symbol("x"): 2}


class Transactions(MessagingHandler):
    """Sends a message in a transaction and commits or aborts it."""

    def __init__(self, port: int, commit: bool) -> None:
        super().__init__(auto_settle=False)
        self.port, self.commit = port, commit
        self.ended = ""

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = self.container.connect(f"{HOST}:{self.port}", reconnect=False)
        self.sender = self.container.create_sender(self.connection, "there")
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        event.transaction.send(self.sender, proton.Message(body="in it"))
        (event.transaction.commit if self.commit else event.transaction.abort)()

    def on_transaction_committed(self, event: Any) -> None:
        self.ended = "committed"
        self.connection.close()

    def on_transaction_aborted(self, event: Any) -> None:
        self.ended = "aborted"
        self.connection.close()


@pytest.mark.parametrize("commit", [True, False])
def test_transactions(commit: bool) -> None:
    with Server() as server, recorded(server) as port:
        client = Transactions(port, commit)
        Container(client).run()
    assert client.ended == ("committed" if commit else "aborted")
    (attach,) = [a for a in server.seen(amqp10.Attach) if isinstance(a.target, amqp10.Coordinator)]
    orders = [d.message.body[0].value for d in server.deliveries if d.transfer.handle == attach.handle]
    assert isinstance(orders[0], amqp10.Declare)
    assert isinstance(orders[1], amqp10.Discharge)
    assert (orders[1].txn_id, orders[1].fail) == (b"txn", not commit)
    (sent,) = [d for d in server.deliveries if d.transfer.handle != attach.handle]
    assert isinstance(sent.transfer.state, amqp10.TransactionalState)
    assert sent.transfer.state.txn_id == b"txn"


# ---- connections and links


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
def test_sasl(mechanism: str) -> None:
    user = {"user": "me", "password": "wörd"} if mechanism == "PLAIN" else {}
    with Server() as server, connected(server, allowed_mechs=mechanism, allow_insecure_mechs=True, **user):
        pass
    (init,) = server.seen(amqp10.SaslInit)
    assert init.mechanism == mechanism
    if mechanism == "PLAIN":
        assert init.initial_response == "\0me\0wörd".encode()


def test_sasl_refused() -> None:
    with (
        Server(code=1, mechanisms=["ANONYMOUS"]) as server,
        pytest.raises(proton.ConnectionException, match="unauthorized-access"),
        connected(server, allowed_mechs="ANONYMOUS"),
    ):
        pass


def test_drain() -> None:
    """Three messages where ten are asked for: the server says that there are no more."""
    outgoing = [amqp10.Message(body=amqp10.AmqpValue(n)) for n in range(3)]
    with Server(outgoing=outgoing) as server, connected(server) as connection:
        receiver = connection.create_receiver("here", credit=0)
        receiver.link.drain(10)
        connection.wait(lambda: receiver.link.credit == 0)
        assert len(receiver.fetcher.incoming) == 3
    (asked,) = [flow for flow in server.seen(amqp10.Flow) if flow.link_credit]
    assert (asked.link_credit, asked.drain, asked.delivery_count) == (10, True, 0)


def test_source_and_target() -> None:
    """What a link may ask for: a filter of described values, a node made on demand."""
    selector = proton.Described(proton.symbol("apache.org:selector-filter:string"), "colour = 'green'")
    with Server() as server, connected(server) as connection:
        connection.create_receiver("here", options=Filter({proton.symbol("selector"): selector}))
        connection.create_receiver(None, dynamic=True)
    first, second = server.seen(amqp10.Attach)
    assert first.source.filter["selector"] == amqp10.Described(
        amqp10.Symbol("apache.org:selector-filter:string"), "colour = 'green'"
    )
    assert first.source.address == "here"
    assert (second.source.dynamic, second.source.address) == (True, None)


ERROR = amqp10.Error(
    condition="amqp:not-found", description="nö such nöde", info={amqp10.Symbol("code"): amqp10.UInt(404)}
)


def test_detach_with_an_error() -> None:
    with Server() as server, connected(server) as connection:
        sender = connection.create_sender("there", name="x")
        server.closing[amqp10.Transfer] = (amqp10.Detach(handle=0, closed=True, error=ERROR),)
        with pytest.raises(LinkDetached) as caught:
            sender.send(proton.Message(body="x"))
    assert caught.value.condition == "amqp:not-found"
    assert "nö such nöde" in str(caught.value)


def test_close_with_an_error() -> None:
    with Server() as server, connected(server) as connection:
        sender = connection.create_sender("there")
        server.closing[amqp10.Transfer] = (amqp10.Close(error=ERROR),)
        with pytest.raises(proton.ConnectionException) as caught:
            sender.send(proton.Message(body="x"))
        condition = connection.conn.remote_condition
    assert "amqp:not-found" in str(caught.value)
    assert (condition.name, condition.description) == ("amqp:not-found", "nö such nöde")
    assert condition.info == {proton.symbol("code"): proton.uint(404)}
