"""Statements of AMQP 1.0, part 4, on transactions. Test names begin with the section."""

from __future__ import annotations

import pytest

from lib.amqp10_pair import Pair, frames, kinds, message, of
from wirefmt import amqp10
from wirefmt.amqp10 import Attaching, ConnectionOptions
from wirefmt.errors import LocalProtocolError


def test_part_4_transactions_on_the_wire() -> None:
    pair = Pair()
    ours, _ = pair.session()
    controller = ours.sender("txn", amqp10.Coordinator(capabilities=["amqp:local-transactions"]))
    _, events = pair.carry()
    (asked,) = of(events, Attaching)
    assert isinstance(asked.message.target, amqp10.Coordinator)
    asked.link.grant(10)
    sender, _ = pair.sender(ours)
    declaring = controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Declare())))
    _, (request,) = pair.carry()
    assert request.message.body[0].value == amqp10.Declare()
    pair.server.settle(request, amqp10.Declared(txn_id=b"t1"))
    (event,), _ = pair.carry()
    assert (event.handle, event.message.txn_id, event.code) == (declaring, b"t1", 0)
    posted = sender.send(message(), state=amqp10.TransactionalState(txn_id=b"t1"))
    _, (delivery,) = pair.carry()
    assert delivery.remote_state == amqp10.TransactionalState(txn_id=b"t1")
    assert delivery.message == message()
    outcome = amqp10.TransactionalState(txn_id=b"t1", outcome=amqp10.Accepted())
    pair.server.settle(delivery, outcome)
    (event,), _ = pair.carry()
    assert (event.handle, event.message, event.code) == (posted, outcome, 0)
    discharge = controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Discharge(txn_id=b"t1", fail=False))))
    _, (request,) = pair.carry()
    pair.server.reject(request, amqp10.Error(condition="amqp:transaction:rollback"))
    (event,), _ = pair.carry()
    assert (event.handle, event.code) == (discharge, 0x25)


def test_4_4_2_a_delivery_retired_in_a_transaction() -> None:
    pair = Pair()
    ours, _ = pair.session()
    _receiver, sender = pair.receiver(ours, window=10)
    handle = sender.send(message())
    (delivery,), _ = pair.carry()
    state = amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Accepted())
    pair.client.settle(delivery, state, settled=False)
    said = frames(pair.client.data_to_send())
    assert said[0] == amqp10.Disposition(role=True, first=0, settled=False, state=state)
    (event,) = pair.tell(said[0])
    assert event.handle is handle


def test_4_2_and_4_3_a_coordinator_receives_no_settled_message() -> None:
    pair = Pair()
    ours, _ = pair.session()
    controller = ours.sender("txn", amqp10.Coordinator())
    _, events = pair.carry()
    of(events, Attaching)[0].link.grant(10)
    pair.carry()
    with pytest.raises(LocalProtocolError, match="unsettled"):
        controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Declare())), settled=True)
    assert pair.client.data_to_send() == b""
    assert controller.credit == 10


def test_4_4_1_all_transfers_of_a_delivery_name_its_transaction() -> None:
    pair = Pair(server=ConnectionOptions(frame_size=512, idle_timeout=None))
    ours, _ = pair.session()
    sender, _ = pair.sender(ours)
    state = amqp10.TransactionalState(txn_id=b"t1")
    sender.send(message(bytes(2000)), state=state)
    said = frames(pair.client.data_to_send())
    assert len(said) > 3
    assert [transfer.state for transfer in said] == [state] * len(said)
    handle = sender.send(b"\0Su\xa0", state=state, more=True)
    sender.send_more(handle, b"\x01", more=True)
    sender.abort(handle)
    said = frames(pair.client.data_to_send())
    assert [transfer.state for transfer in said] == [state] * 3
    sender.send(message(bytes(2000)), batchable=True)
    said = frames(pair.client.data_to_send())
    assert [transfer.batchable for transfer in said] == [True, *[None] * (len(said) - 1)]


def test_4_3_what_a_transaction_retires_is_said_before_its_discharge() -> None:
    pair = Pair()
    ours, _ = pair.session()
    receiver, back = pair.receiver(ours, window=5)
    controller, _ = pair.sender(ours, name="controller")
    controller.target = amqp10.Coordinator()
    back.send(message())
    (delivery,), _ = pair.carry()
    pair.client.settle(delivery, amqp10.TransactionalState(txn_id=b"t", outcome=amqp10.Accepted()))
    controller.send(amqp10.Message(body=amqp10.AmqpValue(amqp10.Discharge(txn_id=b"t", fail=False))))
    said = [frame for frame in frames(pair.client.data_to_send()) if not isinstance(frame, amqp10.Flow)]
    assert kinds(said) == ["Disposition", "Transfer"]
    assert receiver.unsettled == {}
