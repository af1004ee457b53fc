"""Recorded traffic of the live tests (tests/data): every message of it is in the message table, as often as tshark finds it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from lib.paths import DATA
from wirefmt import capture

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

EXPECTED = json.loads((DATA / "recorded.json").read_text())
LEFT_OUT = {"protocol-header", "heartbeat", "empty", "transfer"}
#: tshark gives up a packet whose transfer is a part of a delivery, and with it a disposition.
UNSEEN = {"rabbitmq-amqp10": Counter(disposition=1)}


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded(name: str) -> None:
    with capture.read(DATA / f"{name}.pcap.gz") as reader:
        table = pa.table(reader)
    assert set(table["status"].to_pylist()) == {"ok"}
    assert set(table["protocol"].to_pylist()) == {name.split("-")[1]}
    kinds = Counter(table["kind"].to_pylist())
    assert {k: n for k, n in kinds.items() if k not in LEFT_OUT} == Counter(EXPECTED[name]) + UNSEEN.get(
        name, Counter()
    )
