"""Conversions as RabbitMQ 4.3 makes them, octet for octet, in three paths."""

from __future__ import annotations

import pytest

from lib.convert_vectors import cases, failures


@pytest.mark.parametrize("path", ["convert", "deliver", "stream"])
def test_every_vector(path: str) -> None:
    wrong = list(failures(path, "rabbitmq-4.3"))
    assert not wrong, f"{len(wrong)} of {len(cases(path))}:\n" + "\n".join(wrong[:20])


def test_number_of_vectors() -> None:
    assert len(cases()) == 4677
