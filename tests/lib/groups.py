"""Tests of many vectors: one item of pytest for a group of them, which reports every vector that fails, by name."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

SIZE = 100  # vectors in a group
SHOWN = 10  # failures of a group that are shown in full


def each_vector(vectors: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """In the place of pytest.mark.parametrize("vector", vectors). A vector has an `id`."""
    named = list(vectors)
    groups = [named[i : i + SIZE] for i in range(0, len(named), SIZE)]
    ids = [f"{group[0].id}..{group[-1].id}" for group in groups]

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def test_group(vector: list[Any], **others: Any) -> None:
            failures: dict[str, BaseException] = {}
            for one in vector:
                try:
                    test(one, **others)
                except (Exception, pytest.fail.Exception) as error:
                    failures[one.id] = error
            if failures:
                pytest.fail(report(failures, len(vector)), pytrace=False)

        return pytest.mark.parametrize("vector", groups, ids=ids)(test_group)

    return decorate


def report(failures: dict[str, BaseException], count: int) -> str:
    """The names of all, and the traces of the first."""
    parts = [f"{len(failures)} of {count} vectors fail: {' '.join(failures)}"]
    for name, error in list(failures.items())[:SHOWN]:
        within = error.__traceback__.tb_next if error.__traceback__ else None  # without the loop over vectors
        parts.append(f"---- {name}\n" + "".join(traceback.format_exception(error.with_traceback(within))).rstrip())
    if len(failures) > SHOWN:
        parts.append(f"---- and {len(failures) - SHOWN} more")
    return "\n".join(parts)
