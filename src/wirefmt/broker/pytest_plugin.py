"""pytest fixtures with a broker of all six protocols: `wirefmt_broker`, `wirefmt_async_broker`, `wirefmt_session_broker`.

pytest finds them in the installed package (entry point pytest11). The first two give each test a broker of its own on free ports,
so tests share no state and can run in parallel (pytest-xdist).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wirefmt.broker import AsyncRunning, Options, Running


@pytest.fixture(scope="session")
def wirefmt_session_broker_options() -> Options:
    """The options of `wirefmt_session_broker`. Override this fixture in conftest.py."""
    from wirefmt.broker import Options

    return Options()


@pytest.fixture
def wirefmt_broker_options() -> Options:
    """The options of `wirefmt_broker` and `wirefmt_async_broker`. Override this fixture in a test module or in conftest.py."""
    from wirefmt.broker import Options

    return Options()


@pytest.fixture
def wirefmt_broker(wirefmt_broker_options: Options) -> Iterator[Running]:
    """A broker in its own thread: `url("mqtt")`, `queue("orders").messages`, `topic("plant/+").last`, `clients`."""
    from wirefmt.broker import running

    with running(wirefmt_broker_options) as broker:
        yield broker


@pytest.fixture
def wirefmt_async_broker(wirefmt_broker_options: Options) -> Iterator[AsyncRunning]:
    """As `wirefmt_broker`, for tests on asyncio (pytest-asyncio, anyio): `await queue("orders").wait(1)`, `await publish(...)`.
    The broker has a thread and a loop of its own."""
    from wirefmt.broker import running_async

    with running_async(wirefmt_broker_options) as broker:
        yield broker


@pytest.fixture(scope="session")
def wirefmt_session_broker(wirefmt_session_broker_options: Options) -> Iterator[Running]:
    """One broker for all tests of the run, or of a worker of pytest-xdist. `reset()` drops clients and state."""
    from wirefmt.broker import running

    with running(wirefmt_session_broker_options) as broker:
        yield broker
