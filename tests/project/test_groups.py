"""lib/groups.py: a group fails if one of its vectors does, and names every one that does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lib.groups import SIZE, each_vector


@dataclass(frozen=True)
class Vector:
    id: str
    value: int


VECTORS = [Vector(f"v{i}", i) for i in range(2 * SIZE + 1)]


@each_vector(VECTORS)
def test_a_group_is_one_item(vector: Vector) -> None:
    assert vector.id == f"v{vector.value}"


def test_no_vector_is_left_out() -> None:
    (mark,) = test_a_group_is_one_item.pytestmark
    assert [vector for group in mark.args[1] for vector in group] == VECTORS
    assert mark.kwargs["ids"] == ["v0..v99", "v100..v199", "v200..v200"]


def test_every_failure_is_named() -> None:
    @each_vector(VECTORS)
    def check(vector: Vector) -> None:
        assert vector.value % 5, "a multiple of five"
        if vector.value == 7:
            raise KeyError("seven")
        if vector.value == 9:
            pytest.fail("nine")

    with pytest.raises(pytest.fail.Exception) as failed:
        check(VECTORS[:20])
    lines = str(failed.value).splitlines()
    assert lines[0] == "6 of 20 vectors fail: v0 v5 v7 v9 v10 v15"
    assert "KeyError: 'seven'" in lines
    assert sum(line.endswith("a multiple of five") for line in lines) == 4
    check(VECTORS[1:5])
