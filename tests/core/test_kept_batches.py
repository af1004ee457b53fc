"""Batches that a program keeps: beyond 64 MiB they move to other memory, with the same contents."""

import pyarrow
import pytest

from wirefmt import mqtt

BATCHES, PAYLOAD, MESSAGES = 24, 40_000, 100


def batch() -> pyarrow.RecordBatch:
    properties = (("content_type", "text/plain"), ("user_property", ("site", "north")))
    packets = [
        mqtt.Publish(topic_name=f"site/{i}", payload=bytes([i]) * PAYLOAD, properties=properties, version=5).encode()
        for i in range(MESSAGES)
    ]
    packets[MESSAGES // 2 : MESSAGES // 2] = [b"\xc0\x00", b"\x30\x01\x00"]  # PINGREQ, and a PUBLISH that is cut
    return pyarrow.record_batch(mqtt.decode_batch(b"".join(packets), version=5))


@pytest.mark.parametrize("dropped", [range(0), range(0, BATCHES, 2), range(BATCHES - 1)])
def test_kept_batches_have_the_same_contents(dropped: range) -> None:
    first = batch()
    assert first.num_rows == MESSAGES + 2
    assert first["payload"][3].as_py() == b"\x03" * PAYLOAD
    kept: list[pyarrow.RecordBatch | None] = [batch() for _ in range(BATCHES)]  # 96 MB
    for i in dropped:
        kept[i] = None
    kept += [batch() for _ in range(4)]
    for one in kept:
        if one is not None:
            one.validate(full=True)
            assert one.equals(first)
