"""Columns with nulls between their values, in gaps of any length: nulls, values, and zeros under the nulls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefmt import mqtt

numpy = pytest.importorskip("numpy", reason="needs numpy (pip install numpy)")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

#: A value in every kind of column: bits, numbers, texts, maps, structs.
VALUES = mqtt.encode(
    mqtt.Publish(
        topic_name="t" * 40,
        payload=b"p" * 9,
        qos=1,
        dup=True,
        packet_identifier=0xFFFF,
        properties=[("user_property", ("k", "v"))],
    )
)
#: A value in none of them.
NOTHING = mqtt.encode(mqtt.Pingreq())
COLUMNS = ["sequence", "dup", "destination", "payload", "headers", "mqtt"]
#: About the nulls whose offsets are written at once, the rows cleared at once, and the rows that a column begins with.
GAPS = [*range(20), 1023, 1024, 1025, 2048, 3000]


def check(gaps: list[int], after: int) -> None:
    frames = [frame for gap in gaps for frame in [*[NOTHING] * gap, VALUES]] + [NOTHING] * after
    mqtt.decode_batch(VALUES * len(frames), version=5)  # its memory, all ones, is used again
    batch = mqtt.decode_batch(b"".join(frames), version=5, columns=COLUMNS)
    record = pa.record_batch(batch)
    record.validate(full=True)
    filled = [frame is VALUES for frame in frames]
    value = pa.record_batch(mqtt.decode_batch(VALUES, version=5, columns=COLUMNS)).to_pylist()[0]
    nothing: dict[str, Any] = pa.record_batch(mqtt.decode_batch(NOTHING, version=5, columns=COLUMNS)).to_pylist()[0]
    assert nothing["destination"] is None
    assert record.to_pylist() == [value if full else nothing for full in filled]
    assert batch["sequence"].tolist() == [0xFFFF if full else 0 for full in filled]
    assert batch["dup"].tolist() == filled


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("rows", [1, 1024, 3000])
def test_gaps_of_one_length(gap: int, rows: int) -> None:
    check([gap] * max(1, rows // (gap + 1)), after=gap)


@given(gaps=st.lists(st.sampled_from(GAPS), max_size=30), after=st.sampled_from(GAPS))
def test_gaps_of_any_lengths(gaps: list[int], after: int) -> None:
    check(gaps, after)


@pytest.mark.parametrize("first", [1, 7, 1023, 1024, 1025, 3000])
def test_the_first_null_comes_late(first: int) -> None:
    check([0] * first + [1, 9, 2000, 0, 0, 8], after=1)
