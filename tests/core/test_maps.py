"""Maps of many entries, for which room is checked together: what the objects say, whatever the sizes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefmt import mqtt
from wirefmt._core import secret_name

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

Entries = list[tuple[str, str]]

#: Lengths about the borders of short copies, and texts of several octets in a character.
TEXTS = st.one_of(
    st.integers(0, 70).map(lambda n: "v" * n),
    st.sampled_from(["password", "Token", "x-token-2", "k" * 300, "é" * 20, ""]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
)


def maps(rows: list[Entries], exposed: bool) -> list[Entries]:
    """The entries as a column shows them. One CONNECT for each row: no entries, no map."""
    octets = b"".join(
        mqtt.encode(
            mqtt.Connect(
                client_identifier="c", will=mqtt.Will("t", properties=[("user_property", e) for e in row]), version=5
            )
        )
        for row in rows
    )
    batch = mqtt.decode_batch(octets, columns=["mqtt"], expose_credentials=exposed)
    table = pa.record_batch(batch)
    table.validate(full=True)
    return [[*(row["mqtt"]["will_properties"] or ())] for row in table.to_pylist()]


def shown(row: Entries, exposed: bool) -> Entries:
    return [(k, v if exposed or not secret_name(k) else "***") for k, v in row]


@pytest.mark.parametrize("exposed", [False, True])
@given(rows=st.lists(st.lists(st.tuples(TEXTS, TEXTS), max_size=30), max_size=20))
def test_entries_are_those_of_the_message(exposed: bool, rows: list[Entries]) -> None:
    assert maps(rows, exposed) == [shown(row, exposed) for row in rows]


@pytest.mark.parametrize("longest", [0, 3, 17, 200, 3000])
def test_maps_outgrow_their_columns(longest: int) -> None:
    """Keys and values run out of space in the middle of a map, at any place, and not together."""
    sizes = random.Random(longest)
    for ratio in (0, 1, 20):

        def text(most: int) -> str:
            return "n" * sizes.randint(0, most)

        rows = [
            [(text(longest * ratio // 20), text(longest)) for _ in range(sizes.randint(0, 40))]
            for _ in range(40 if longest > 1000 else 150)
        ]
        assert maps(rows, False) == [shown(row, False) for row in rows]


def test_one_map_outgrows_its_columns() -> None:
    row: list[tuple[str, Any]] = [(f"key-{i}", "x" * (i % 97)) for i in range(20_000)]
    assert maps([row, [], row[:5]], False) == [row, [], row[:5]]
