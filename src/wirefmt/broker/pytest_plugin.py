"""The pytest fixture `wirefmt_broker`: a broker of all six protocols for one test.

pytest finds it in the installed package (entry point pytest11). Each test has its own broker on free ports, so tests share no
state and can run in parallel (pytest-xdist).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wirefmt.broker import Options, Running


@pytest.fixture
def wirefmt_broker_options() -> Options:
    """The options of `wirefmt_broker`. Override this fixture in a test module or in conftest.py."""
    from wirefmt.broker import Options

    return Options()


@pytest.fixture
def wirefmt_broker(wirefmt_broker_options: Options) -> Iterator[Running]:
    """A broker in its own thread: `url("mqtt")`, `queue("orders").messages`, `topic("plant/+").last`, `clients`."""
    from wirefmt.broker import running

    with running(wirefmt_broker_options) as broker:
        yield broker
