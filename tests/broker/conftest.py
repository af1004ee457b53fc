"""A broker for tests that are synchronous."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wirefmt import broker
from wirefmt.broker.thread import Running


@pytest.fixture
def b() -> Iterator[Running]:
    with broker.running() as found:
        yield found
