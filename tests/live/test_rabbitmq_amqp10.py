"""A real RabbitMQ on loopback, AMQP 1.0: what python-qpid-proton and the broker say to each other is read under STRICT and
written again octet by octet, and means what they meant by it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from lib.amqp10_dialogue import Dialogue
from lib.amqp10_vectors import node, same
from lib.kinds import checked
from lib.proxy import CLIENT, HOST, SERVER, Proxy
from lib.rabbitmq import PASSWORD, USER
from lib.skips import imported

proton = imported("proton")
from proton.utils import BlockingConnection  # noqa: E402

from lib.proton_values import FOR_RABBITMQ, IDENTIFIER, described, node_of  # noqa: E402
from wirefmt import amqp10  # noqa: E402

pytestmark = pytest.mark.live

PATIENCE = 15.0  # seconds for something that must come


def dialogue(proxy: Proxy) -> Dialogue:
    """The only one."""
    (conversation,) = proxy.finish()
    return Dialogue(conversation)


@contextlib.contextmanager
def connected(port: int, user: str = USER, password: str = PASSWORD, **more: Any) -> Iterator[Any]:
    more = {"allowed_mechs": "PLAIN", "timeout": PATIENCE, **more}
    connection = BlockingConnection(f"amqp://{user}:{password}@{HOST}:{port}", **more)
    try:
        yield connection
    finally:
        with contextlib.suppress(proton.ConnectionException):
            connection.close()


def of_broker(proxy: Proxy, kind: type) -> list[Any]:
    """Frames of the broker so far: proton does not tell of all."""
    frames = amqp10.Decoder().feed(proxy.conversations[0].octets(SERVER))
    return [frame for frame in frames if isinstance(frame, kind)]


# ---- connections


@pytest.mark.parametrize("mechanism", ["PLAIN", "ANONYMOUS"])
def test_handshake(proxy: Proxy, mechanism: str) -> None:
    more: dict[str, Any] = {"properties": {proton.symbol("product"): "wirefmt", proton.symbol("n"): proton.int32(5)}}
    with connected(proxy.port, allowed_mechs=mechanism, max_frame_size=8192, **more) as connection:
        container = connection.container.container_id
        theirs = dict(connection.conn.remote_properties)
    talk = dialogue(proxy)
    for side in (CLIENT, SERVER):
        headers = [f.protocol_id for f in talk.frames[side] if isinstance(f, amqp10.ProtocolHeader)]
        assert headers == [3, 0]
    (mechanisms,) = talk.received(amqp10.SaslMechanisms)
    assert {"PLAIN", "ANONYMOUS"} <= set(checked(mechanisms.sasl_server_mechanisms, amqp10.Array))
    (init,), (outcome,) = talk.sent(amqp10.SaslInit), talk.received(amqp10.SaslOutcome)
    assert init.mechanism == mechanism
    if mechanism == "PLAIN":
        assert init.initial_response == b"\0guest\0guest"
    assert outcome.code == 0
    (opened,), (answer,) = talk.sent(amqp10.Open), talk.received(amqp10.Open)
    assert (opened.container_id, opened.hostname, opened.max_frame_size) == (container, HOST, 8192)
    assert opened.properties == {"product": "wirefmt", "n": 5}
    assert checked(answer.properties, amqp10.Map)["product"] == theirs[proton.symbol("product")] == "RabbitMQ"
    assert len(talk.sent(amqp10.Close)) == len(talk.received(amqp10.Close)) == 1


def test_wrong_password(proxy: Proxy) -> None:
    with pytest.raises(proton.ConnectionException), connected(proxy.port, password="wrong"):
        pass
    talk = dialogue(proxy)
    assert [o.code for o in talk.received(amqp10.SaslOutcome)] == [1]
    assert not talk.received(amqp10.Open)


def test_heartbeats(proxy: Proxy) -> None:
    with connected(proxy.port, heartbeat=4) as connection, contextlib.suppress(proton.Timeout):
        connection.wait(lambda: bool(of_broker(proxy, amqp10.EmptyFrame)))
    talk = dialogue(proxy)
    (opened,) = talk.sent(amqp10.Open)
    assert opened.idle_time_out
    assert talk.received(amqp10.EmptyFrame)


# ---- messages


def test_every_value(proxy: Proxy) -> None:
    """As a body; scalars as an application property too."""
    came = []
    with connected(proxy.port) as connection:
        sender = connection.create_sender("/queue/every value")
        receiver = connection.create_receiver("/queue/every value", credit=1)
        for value in FOR_RABBITMQ:
            message = proton.Message()
            message.inferred = False
            message.body = value
            if is_scalar(value):
                message.properties = {"v": value}
            sender.send(message)
            came.append(receiver.receive(PATIENCE).body)
            receiver.accept()
    talk = dialogue(proxy)
    for side in (CLIENT, SERVER):
        messages = [delivery.message for delivery in talk.deliveries[side]]
        assert len(messages) == len(FOR_RABBITMQ)
        for message, value in zip(messages, FOR_RABBITMQ, strict=True):
            (section,) = message.body
            assert isinstance(section, amqp10.AmqpValue)
            assert same(node(section.value), node_of(value)), value
            if side == CLIENT and is_scalar(value):
                assert same(node(message.application_properties["v"]), node_of(value)), value
    for theirs, value in zip(came, FOR_RABBITMQ, strict=True):
        if not isinstance(value, bytes):  # proton lends out memory that it has freed
            assert same(node_of(theirs), node_of(value))


def is_scalar(value: Any) -> bool:
    return not isinstance(value, (list, dict, proton.Array, proton.Described))


SECTIONS: dict[str, Any] = {
    "durable": True,
    "priority": 7,
    "ttl": 60.0,
    "first_acquirer": True,
    "delivery_count": 3,
    "id": "m-1",
    "user_id": b"guest",
    "address": "/queue/sections",
    "subject": "sübject",
    "reply_to": "/queue/answers",
    "correlation_id": proton.ulong(2**64 - 1),
    "content_type": proton.symbol("text/plain"),
    "content_encoding": proton.symbol("identity"),
    "expiry_time": 1_800_000_000.5,
    "creation_time": 1_700_000_000.25,
    "group_id": "group",
    "group_sequence": 2**31,
    "reply_to_group_id": "other",
}


@pytest.mark.parametrize("identifier", ["text", proton.ulong(7), IDENTIFIER, b"\x00\xff"], ids=described)
def test_every_section(proxy: Proxy, identifier: Any) -> None:
    application = {"text": "é", "n": -(2**40), "yes": True, "double": 1.5, "float": proton.float32(2.5)}
    message = proton.Message(
        annotations={proton.symbol("x-opt-text"): "a"},
        properties=application,
        body=b"\x00body",
        **SECTIONS | {"id": identifier, "correlation_id": identifier},
    )
    message.inferred = True
    with connected(proxy.port) as connection:
        connection.create_sender("/queue/sections").send(message)
        receiver = connection.create_receiver("/queue/sections", credit=1)
        theirs = receiver.receive(PATIENCE)
        receiver.accept()
    talk = dialogue(proxy)
    (sent,), (came,) = ([d.message for d in talk.deliveries[side]] for side in (CLIENT, SERVER))
    header, properties = sent.header, sent.properties
    assert (header.durable, header.priority, header.ttl) == (True, 7, 60000)
    assert (header.first_acquirer, header.delivery_count) == (True, 3)
    wanted = {
        "message_id": identifier,
        "correlation_id": identifier,
        "user_id": b"guest",
        "to": "/queue/sections",
        "subject": "sübject",
        "reply_to": "/queue/answers",
        "content_type": "text/plain",
        "content_encoding": "identity",
        "absolute_expiry_time": 1_800_000_000_500,
        "creation_time": 1_700_000_000_250,
        "group_id": "group",
        "group_sequence": 2**31,
        "reply_to_group_id": "other",
    }
    assert {name: getattr(properties, name) for name in wanted} == wanted
    assert sent.message_annotations == {"x-opt-text": "a"}
    for each in (sent, came):
        assert each.application_properties == application
        assert bytes(each.payload) == b"\x00body"
    assert node(came.properties.message_id) == node_of(identifier)
    assert came.properties.message_id == theirs.id
    assert came.properties.subject == theirs.subject
    assert came.header.durable is theirs.durable is True


@pytest.mark.parametrize("frame_size", [512, 4096])
def test_transfers_of_many_frames(proxy: Proxy, frame_size: int) -> None:
    bodies = [str(n) * size for n, size in enumerate((0, 1, frame_size, 100_000))]
    came = []
    with connected(proxy.port, max_frame_size=frame_size) as connection:
        address = f"/queue/frames of {frame_size}"
        sender = connection.create_sender(address)
        receiver = connection.create_receiver(address, credit=10)
        for body in bodies:
            sender.send(proton.Message(body=body))
        for _ in bodies:
            came.append(receiver.receive(PATIENCE).body)
            receiver.accept()
    talk = dialogue(proxy)
    assert came == bodies
    for side in (CLIENT, SERVER):
        assert [d.message.body[0].value for d in talk.deliveries[side]] == bodies
    assert talk.deliveries[SERVER][-1].transfers > 100_000 // frame_size
    assert all(len(frame.encode()) <= frame_size for frame in talk.frames[SERVER])


# ---- links


def test_outcomes(proxy: Proxy) -> None:
    """What is released comes again; what is accepted or rejected does not."""
    with connected(proxy.port) as connection:
        sender = connection.create_sender("/queue/outcomes")
        receiver = connection.create_receiver("/queue/outcomes", credit=1)
        for settle in (receiver.accept, receiver.reject, lambda: receiver.release(delivered=False)):
            sender.send(proton.Message(body="x"))
            receiver.receive(PATIENCE)
            settle()
        again = receiver.receive(PATIENCE)
        receiver.accept()
    assert again.body == "x"
    talk = dialogue(proxy)
    settled = [d for d in talk.sent(amqp10.Disposition) if d.role]
    assert [type(d.state) for d in settled] == [
        amqp10.Accepted,
        amqp10.Rejected,
        amqp10.Released,
        amqp10.Accepted,
    ]
    assert all(d.settled for d in settled)
    assert [type(d.state) for d in talk.received(amqp10.Disposition) if d.role] == [amqp10.Accepted] * 3
    attached = next(a for a in talk.received(amqp10.Attach) if not a.role)
    assert set(attached.source.outcomes) == {"amqp:accepted:list", "amqp:rejected:list", "amqp:released:list"}


def test_modified_is_refused(proxy: Proxy) -> None:
    """RabbitMQ 3.10 knows no outcome `modified`: it ends the session."""
    with connected(proxy.port) as connection:
        connection.create_sender("/queue/modified").send(proton.Message(body="x"))
        receiver = connection.create_receiver("/queue/modified", credit=1)
        receiver.receive(PATIENCE)
        receiver.release(delivered=True)
        connection.wait(lambda: bool(of_broker(proxy, amqp10.End)))
    talk = dialogue(proxy)
    (state,) = [d.state for d in talk.sent(amqp10.Disposition) if d.role]
    assert isinstance(state, amqp10.Modified)
    assert talk.received(amqp10.End)[0].error.condition.startswith("amqp:")


def test_credit_and_drain(proxy: Proxy) -> None:
    """RabbitMQ 3.10 answers the drain and then ends the session with an internal error: a message still lay there."""
    with connected(proxy.port) as connection:
        sender = connection.create_sender("/queue/credit")
        receiver = connection.create_receiver("/queue/credit", credit=0)
        for n in range(3):
            sender.send(proton.Message(body=n))
        receiver.link.flow(2)
        connection.wait(lambda: len(receiver.fetcher.incoming) == 2)
        receiver.link.drain(10)
        connection.wait(lambda: any(flow.drain for flow in of_broker(proxy, amqp10.Flow)))
    talk = dialogue(proxy)
    asked = [f for f in talk.sent(amqp10.Flow) if f.handle is not None and f.link_credit]
    assert [(f.link_credit, f.delivery_count, f.drain) for f in asked] == [(2, 0, False), (10, 2, True)]
    answers = [f for f in talk.received(amqp10.Flow) if f.handle == asked[0].handle]
    assert [(f.link_credit, f.available, f.drain) for f in answers[:2]] == [(2, 3, False), (10, 1, True)]
    assert [d.message.body[0].value for d in talk.deliveries[SERVER]][:2] == [0, 1]


def test_detach(proxy: Proxy) -> None:
    with connected(proxy.port) as connection:
        sender = connection.create_sender("/queue/detach")
        sender.link.detach()
        connection.wait(lambda: bool(of_broker(proxy, amqp10.Detach)))
    talk = dialogue(proxy)
    (ours,), (theirs,) = talk.sent(amqp10.Detach), talk.received(amqp10.Detach)
    assert (ours.handle, ours.closed, ours.error) == (0, None, None)
    assert theirs.handle == 0


@pytest.mark.parametrize("address", ["/nowhere/at all", "/exchange/absent"])
def test_errors(proxy: Proxy, address: str) -> None:
    """The broker ends the session; BlockingConnection waits on."""
    with connected(proxy.port, timeout=3) as connection, pytest.raises(proton.Timeout):
        connection.create_sender(address)
    talk = dialogue(proxy)
    (end,) = talk.received(amqp10.End)
    assert end.error.condition in ("amqp:invalid-field", "amqp:not-found", "amqp:internal-error")
    assert end.error.description


def test_transactions_are_refused(proxy: Proxy) -> None:
    """A coordinator is read as one; RabbitMQ 3.10 has none."""
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Transactional(MessagingHandler):
        def on_start(self, event: Any) -> None:
            self.connection = event.container.connect(
                f"{HOST}:{proxy.port}", user=USER, password=PASSWORD, allowed_mechs="PLAIN", reconnect=False
            )
            event.container.declare_transaction(self.connection, handler=self)
            event.container.schedule(3, self)

        def on_timer_task(self, event: Any) -> None:
            self.connection.close()
            event.container.stop()

        def on_transport_closed(self, event: Any) -> None:
            event.container.stop()

    Container(Transactional()).run()
    talk = dialogue(proxy)
    (attach,) = talk.sent(amqp10.Attach)
    assert isinstance(attach.target, amqp10.Coordinator)
