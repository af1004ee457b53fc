"""Findings look at the rows of operations that a rule may count, and only at these."""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence

import numpy as np
import pytest

from lib.truth import FOLDER, NAMES
from lib.wire import Tcp, connack, connect, pcap, puback, publish
from wirefmt import amqp091, capture, insight
from wirefmt.insight.counts import COUNTED, Rows, threshold


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_notes_every_row_that_a_rule_wants(name: str) -> None:
    """A rule that wants other rows needs a line in `may_be_counted`."""
    engine = insight.Insight(findings=True, large_message=threshold("large-message"))
    with capture.read(FOLDER / f"{name}.pcap.gz") as reader:
        for batch in reader:
            engine.messages(batch)
    engine.finish()
    noted, again = engine.take_noted()
    rows = engine.take_operations()
    if rows is None:
        assert not noted
        return
    kept = np.zeros(rows.num_rows, np.bool_)
    kept[np.array(array("q", noted), np.int64)] = True
    assert all(0 <= place < len(noted) // 8 for place in array("q", again))
    looked_at = Rows(rows)
    for rule, counted in COUNTED.items():
        wanted = np.asarray(counted.choose(looked_at))
        assert not (wanted & ~kept).any(), rule


@pytest.mark.parametrize("name", NAMES)
def test_findings_alone_make_no_other_rows(name: str) -> None:
    made = []
    for operations in (True, False):
        engine = insight.Insight(operations=operations, findings=True)
        with capture.read(FOLDER / f"{name}.pcap.gz") as reader:
            for batch in reader:
                engine.messages(batch)
        engine.finish()
        noted = engine.take_noted()
        rows = engine.take_operations()
        made.append((len(noted[0]), len(noted[1]), 0 if rows is None else rows.num_rows))
    assert made[0][:2] == made[1][:2]
    assert made[1][2] == made[1][0] // 8


def test_the_times_of_answers() -> None:
    """Frames are a millisecond apart. Step k begins at 2 ** (k / 4) ns."""
    tcp = Tcp()
    frames = [*tcp.open(), *tcp.send(0, connect()), *tcp.send(1, connack())]
    for i in range(1, 11):
        frames += tcp.send(0, publish("t", bytes(i), identifier=i))
        frames += [tcp.segment(0)] * (99 if i == 10 else i % 2)
        frames += tcp.send(1, puback(i))
    frames += tcp.close()
    engine = insight.Insight(findings=True)
    with capture.read(io.BytesIO(pcap(frames))) as reader:
        for batch in reader:
            engine.messages(batch)
    engine.finish()
    facts = engine.take_connections()
    assert facts is not None
    found = {name: facts[name].tolist() for name in ("publish_answers", "publish_half", "publish_late", "publish_most")}
    # four after 1 ms, five after 2 ms, one after 100 ms: log2 is 19.93, 20.93, 26.575
    assert found == {"publish_answers": [10], "publish_half": [83], "publish_late": [106], "publish_most": [106]}
    assert facts["publish_largest"].tolist() == [10]
    assert facts.validity("deliver_answers").tolist() == [False]


def delivered(tag: int, message: str, body: bytes, consumer: str = "c") -> list[tuple[int, bytes]]:
    method = amqp091.BasicDeliver(channel=1, consumer_tag=consumer, delivery_tag=tag, exchange="", routing_key="q")
    properties = amqp091.BasicProperties(message_id=message)
    return [
        (1, amqp091.BasicMessage(method, properties, body).encode()),
        (0, amqp091.BasicAck(channel=1, delivery_tag=tag).encode()),
    ]


def again_of(said: Sequence[tuple[int, bytes]], **options: int) -> int:
    tcp = Tcp(5672)
    frames = [*tcp.open(), *tcp.send(0, b"AMQP\0\0\x09\x01")]
    for side, octets in said:
        frames += tcp.send(side, octets)
    engine = insight.Insight(findings=True, **options)  # type: ignore[arg-type]
    with capture.read(io.BytesIO(pcap(frames)), batch_rows=3) as reader:
        for batch in reader:
            engine.messages(batch)
    return len(engine.take_noted()[1]) // 8


def test_a_message_that_is_acknowledged_again() -> None:
    one = delivered(1, "m", b"body")
    assert again_of([*one, *delivered(2, "m", b"body")]) == 1
    assert again_of([*one, *delivered(2, "n", b"body")]) == 0
    assert again_of([*one, *delivered(2, "m", b"other")]) == 0
    assert again_of([*one, *delivered(2, "m", b"body", "d")]) == 0
    assert again_of([*one, delivered(2, "m", b"body")[0]]) == 0, "it has no answer"


def test_only_the_latest_are_remembered() -> None:
    said = [pair for i in range(9) for pair in delivered(i + 1, f"m{i}", b"")]
    assert again_of([*said, *delivered(10, "m0", b"")]) == 1
    assert again_of([*said, *delivered(10, "m0", b"")], max_seen=3) == 0
    assert again_of([*said, *delivered(10, "m5", b"")], max_seen=3) == 1
