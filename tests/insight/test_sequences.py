"""Orders of messages that real brokers' captures seldom have: numbers used again, transactions, ends that cross answers."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

from lib.insight_tables import AMQP10, Sent, client, disposition, outcomes, server, tables_of, transfer
from wirefmt import amqp091, amqp10

# ---- AMQP 0.9.1


def content(method: Any) -> amqp091.BasicMessage:
    return amqp091.BasicMessage(method=method, body=b"b")


def published() -> amqp091.BasicMessage:
    return content(amqp091.BasicPublish(channel=1, routing_key="q"))


def delivered(tag: int, consumer: str = "c") -> amqp091.BasicMessage:
    return content(
        amqp091.BasicDeliver(channel=1, consumer_tag=consumer, delivery_tag=tag, exchange="", routing_key="q")
    )


OPEN = [client(amqp091.ChannelOpen(channel=1)), server(amqp091.ChannelOpenOk(channel=1))]
CLOSE_OK = [server(amqp091.ChannelCloseOk(channel=1))]
CLOSE = [client(amqp091.ChannelClose(channel=1, reply_code=200, reply_text="", class_id=0, method_id=0)), *CLOSE_OK]
AMQP091 = [client(b"AMQP\0\0\x09\x01"), *OPEN]


def consuming(tag: str = "c", **fields: Any) -> list[Sent]:
    return [
        client(amqp091.BasicConsume(channel=1, queue=f"{tag}.q", consumer_tag=tag, **fields)),
        server(amqp091.BasicConsumeOk(channel=1, consumer_tag=tag)),
    ]


def test_amqp091_all_tags_after_a_rollback() -> None:
    """What a rollback brings back is older than what came after it: `multiple` settles both."""
    said = [
        *AMQP091,
        *consuming(),
        client(amqp091.TxSelect(channel=1)),
        server(amqp091.TxSelectOk(channel=1)),
        server(*map(delivered, range(1, 6))),
        client(*(amqp091.BasicAck(channel=1, delivery_tag=tag) for tag in (2, 1))),
        client(amqp091.TxRollback(channel=1)),
        server(amqp091.TxRollbackOk(channel=1)),
        client(amqp091.BasicAck(channel=1, delivery_tag=3, multiple=True)),
        client(amqp091.TxCommit(channel=1)),
        server(amqp091.TxCommitOk(channel=1)),
    ]
    assert outcomes(5672, said, "deliver") == [
        ("deliver", tag, "acknowledged" if tag <= 3 else "lost") for tag in range(1, 6)
    ]


def test_amqp091_a_confirm_that_crosses_the_end_of_its_channel() -> None:
    """The server has stored the message before it has read channel.close: the answer is on the wire."""
    said = [
        *AMQP091,
        client(amqp091.ConfirmSelect(channel=1)),
        server(amqp091.ConfirmSelectOk(channel=1)),
        client(published(), published()),
        client(amqp091.ChannelClose(channel=1, reply_code=200, reply_text="", class_id=0, method_id=0)),
        server(amqp091.BasicAck(channel=1, delivery_tag=1)),
        *CLOSE_OK,
    ]
    assert outcomes(5672, said, "publish") == [("publish", 1, "acknowledged"), ("publish", 2, "lost")]


def test_amqp091_publishes_after_the_server_has_closed_the_channel() -> None:
    """The server does not read them."""
    said = [
        *AMQP091,
        client(amqp091.ConfirmSelect(channel=1)),
        server(amqp091.ConfirmSelectOk(channel=1)),
        client(published()),
        server(amqp091.ChannelClose(channel=1, reply_code=404, reply_text="no", class_id=60, method_id=40)),
        client(published(), amqp091.ChannelCloseOk(channel=1)),
    ]
    assert outcomes(5672, said, "publish") == [("publish", 1, "refused"), ("publish", 2, "lost")]


def test_amqp091_a_channel_number_that_is_used_again() -> None:
    """Confirms, tags and the limit of deliveries begin anew."""
    said = [
        *AMQP091,
        client(amqp091.BasicQos(channel=1, prefetch_count=1)),
        server(amqp091.BasicQosOk(channel=1)),
        client(amqp091.ConfirmSelect(channel=1)),
        server(amqp091.ConfirmSelectOk(channel=1)),
        *consuming(),
        client(published()),
        server(delivered(1)),
        *CLOSE,
        *OPEN,
        *consuming(no_ack=True),
        client(published()),
        server(delivered(1)),
    ]
    assert outcomes(5672, said, "publish", "deliver") == [
        ("publish", 1, "lost"),
        ("deliver", 1, "lost"),
        ("publish", None, "none"),
        ("deliver", 1, "none"),
    ]
    (connection,) = tables_of(5672, said)["connections"]
    assert (connection["consumers"], connection["channels"], connection["unsettled"]) == (1, 1, 1)


def test_amqp091_consumers_that_the_server_cancels() -> None:
    """RabbitMQ sends basic.cancel with nowait: it counts once."""
    said = [
        *AMQP091,
        *consuming("a"),
        *consuming("b"),
        *consuming("c"),
        server(amqp091.BasicCancel(channel=1, consumer_tag="a", nowait=True)),
        *consuming("d"),
        *consuming("e"),
    ]
    (connection,) = tables_of(5672, said)["connections"]
    assert connection["consumers"] == 4


def test_amqp091_a_permission_that_is_missing_is_one_finding() -> None:
    """RabbitMQ refuses a request with channel.close 403: the request and the end of the channel say the same."""
    refusal = amqp091.ChannelClose(
        channel=1, reply_code=403, reply_text="ACCESS_REFUSED - q", class_id=50, method_id=10
    )
    said = [
        *AMQP091,
        client(amqp091.QueueDeclare(channel=1, queue="q")),
        server(refusal),
        client(amqp091.ChannelCloseOk(channel=1)),
    ]
    rows = tables_of(5672, said, closed=False)["findings"]
    (row,) = [row for row in rows if row["rule"] != "protocol-violation"]  # there was no handshake
    assert row["rule"] == "permission-refused"
    assert "queue.declare (q): code 403 ACCESS_REFUSED - q; the server closed channel 1" in row["text"]
    assert len(row["frames"]) == 3  # the request, channel.close, channel.close-ok


def test_amqp091_answers_whose_requests_were_sent_before_the_capture() -> None:
    """They have no time of their own. Of `multiple` the last is known."""
    acks = [
        client(amqp091.BasicAck(channel=1, delivery_tag=7)),
        server(amqp091.BasicNack(channel=1, delivery_tag=9, multiple=True)),
    ]
    rows = tables_of(5672, [client(amqp091.BasicQos(channel=1, prefetch_count=9)), *acks], begun=False)["operations"]
    seen = [
        (row["kind"], row["direction"], row["sequence"], row["outcome"]) for row in rows if row["kind"] != "request"
    ]
    assert seen == [("deliver", 1, 7, "acknowledged"), ("publish", 0, 9, "rejected")]
    for row in rows[:2]:
        assert (row["request_frame"], row["started"], row["duration_ns"]) == (None, None, None)
        assert row["response_frame"] is not None
    login = client(
        amqp091.ConnectionStartOk(channel=0, client_properties={}, mechanism="PLAIN", response="", locale="en_US")
    )
    rows = tables_of(5672, [*AMQP091, login, *acks])["operations"]  # from the beginning: there was no such delivery
    assert not [row for row in rows if row["kind"] in ("deliver", "publish")]


# ---- AMQP 1.0


def attach(name: str, handle: int, *, sender: bool = False, target: Any = None) -> list[Sent]:
    fields: dict[str, Any] = {"channel": 0, "name": name, "handle": handle}
    fields["source"] = amqp10.Source(address=None if sender else name)
    fields["target"] = amqp10.Target(address=name if sender else None) if target is None else target
    return [
        client(amqp10.Attach(role=not sender, **fields)),
        server(amqp10.Attach(role=sender, **fields)),
    ]


COORDINATED = [*AMQP10, *attach("control", 1, sender=True, target=amqp10.Coordinator()), *attach("q", 0, sender=True)]


def declare(delivery_id: int, txn_id: bytes) -> list[Sent]:
    return [
        client(transfer(delivery_id, handle=1, body=amqp10.AmqpValue(amqp10.Declare()))),
        server(disposition("receiver", delivery_id, settled=True, state=amqp10.Declared(txn_id=txn_id))),
    ]


def discharge(delivery_id: int, txn_id: bytes, *, fail: bool = False, refused: bool = False) -> list[Sent]:
    state = amqp10.Rejected(error=amqp10.Error(condition="amqp:transaction:rollback")) if refused else amqp10.Accepted()
    return [
        client(transfer(delivery_id, handle=1, body=amqp10.AmqpValue(amqp10.Discharge(txn_id=txn_id, fail=fail)))),
        server(disposition("receiver", delivery_id, settled=True, state=state)),
    ]


def inside(txn_id: bytes, outcome: Any = None) -> amqp10.TransactionalState:
    return amqp10.TransactionalState(txn_id=txn_id, outcome=outcome)


@pytest.mark.parametrize("txn_id", [b"tx", b'a"b,\\', b"\x00\xff\x80"], ids=["text", "quotes", "octets"])
@pytest.mark.parametrize(
    ("end", "published", "settled"),
    [
        ({}, "acknowledged", "rejected"),
        ({"fail": True}, "cancelled", "lost"),
        ({"refused": True}, "cancelled", "lost"),
    ],
    ids=["commit", "rollback", "commit refused"],
)
def test_amqp10_transactions(txn_id: bytes, end: dict[str, bool], published: str, settled: str) -> None:
    """What belongs to a transaction completes when it is discharged (transactions 4.4); what belongs to another one waits."""
    said = [
        *COORDINATED,
        *declare(0, txn_id),
        *declare(1, b"other"),
        client(transfer(2, state=inside(txn_id)), transfer(3, state=inside(b"other")), transfer(4)),
        client(transfer(5, settled=True, state=inside(txn_id))),
        server(disposition("receiver", 2, settled=True, state=inside(txn_id, amqp10.Accepted()))),
        server(disposition("receiver", 3, settled=True, state=inside(b"other", amqp10.Accepted()))),
        server(transfer(0), transfer(1)),
        client(disposition("receiver", 0, settled=True, state=inside(txn_id, amqp10.Rejected()))),
        *discharge(6, txn_id, **end),
        server(disposition("receiver", 4, settled=True, state=amqp10.Accepted())),
    ]
    assert outcomes(5672, said, "publish") == [
        ("publish", 2, published),
        ("publish", 3, "lost"),
        ("publish", 4, "acknowledged"),
        ("publish", 5, published),
    ]
    assert outcomes(5672, said, "deliver") == [("deliver", 0, settled), ("deliver", 1, "lost")]
    tables = tables_of(5672, said)
    assert [row["outcome"] for row in tables["operations"] if row["kind"] == "transaction"] == [
        "acknowledged",
        "acknowledged",
        "rejected" if end.get("refused") else "acknowledged",
    ]
    assert tables["connections"][0]["published"] == 4  # without declare and discharge


def test_amqp10_a_publish_completes_with_its_transaction() -> None:
    said = [
        *COORDINATED,
        *declare(0, b"tx"),
        client(transfer(1, state=inside(b"tx"))),
        server(disposition("receiver", 1, settled=True, state=inside(b"tx", amqp10.Accepted()))),
        *discharge(2, b"tx"),
    ]
    rows = {(row["kind"], row["sequence"]): row for row in tables_of(5672, said)["operations"]}
    assert rows["publish", 1]["response_frame"] == rows["transaction", 2]["response_frame"]


def test_amqp10_a_session_that_ends_and_begins_again() -> None:
    """Its delivery-ids begin again: those that are open have lost their session, they are not superseded."""
    begin, end = AMQP10[2:], [client(amqp10.End(channel=0)), server(amqp10.End(channel=0))]
    said = [
        *AMQP10,
        client(transfer(0)),
        server(transfer(0)),
        *end,
        *begin,
        client(transfer(0)),
        server(disposition("receiver", 0, settled=True, state=amqp10.Accepted())),
    ]
    assert outcomes(5672, said, "publish", "deliver") == [
        ("publish", 0, "lost"),
        ("deliver", 0, "lost"),
        ("publish", 0, "acknowledged"),
    ]


def test_amqp10_a_handle_that_is_used_again() -> None:
    """The queue of a delivery is that of the link that has the handle now."""
    detach = [
        client(amqp10.Detach(channel=0, handle=0, closed=True)),
        server(amqp10.Detach(channel=0, handle=0, closed=True)),
    ]
    said = [*AMQP10, *attach("a", 0), server(transfer(0)), *detach, *attach("b", 0), server(transfer(1))]
    rows = [row for row in tables_of(5672, said)["operations"] if row["kind"] == "deliver"]
    assert [(row["sequence"], row["link"], row["queue"]) for row in rows] == [(0, "a", "a"), (1, "b", "b")]


def test_amqp10_settled_by_the_sender() -> None:
    """Receiver settles second: the outcome is the receiver's, its settlement follows."""
    said = [
        *AMQP10,
        server(transfer(0), transfer(1)),
        client(disposition("receiver", 0, 1, settled=False, state=amqp10.Released())),
        server(disposition("sender", 0, 1, settled=True, state=amqp10.Released())),
    ]
    assert outcomes(5672, said, "deliver") == [("deliver", 0, "released"), ("deliver", 1, "released")]


def test_amqp10_answers_whose_requests_were_sent_before_the_capture() -> None:
    said = [
        client(disposition("receiver", 4, 5, settled=True, state=amqp10.Released())),
        server(disposition("receiver", 8, settled=True, state=amqp10.Accepted())),
        server(transfer(6)),
        client(disposition("receiver", 6, settled=True, state=amqp10.Accepted())),
    ]
    rows = tables_of(5672, said, begun=False)["operations"]
    assert [(row["kind"], row["sequence"], row["outcome"], row["request_frame"] is None) for row in rows] == [
        ("deliver", 5, "released", True),  # of a range the last
        ("publish", 8, "acknowledged", True),
        ("deliver", 6, "acknowledged", False),
    ]
