"""The fixture `wirefmt_broker` of pytest: a broker of all six protocols, of the test alone.

pytest finds it in the installed package (the entry point pytest11). Ports are free ones, so tests can run beside each other
(pytest-xdist); every test has a broker of its own, so nothing is left from the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wirefmt.broker import Options, Running


@pytest.fixture
def wirefmt_broker_options() -> Options:
    """What `wirefmt_broker` serves. Override it in a module or conftest.py."""
    from wirefmt.broker import Options

    return Options()


@pytest.fixture
def wirefmt_broker(wirefmt_broker_options: Options) -> Iterator[Running]:
    """A broker in a thread of its own: `url("mqtt")`, `queue("orders").messages`, `topic("plant/+").last`, `clients`."""
    from wirefmt.broker import running

    with running(wirefmt_broker_options) as broker:
        yield broker
