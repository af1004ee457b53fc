"""One Spark session and one RabbitMQ for the whole run; a clean memory store for each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lib import proxy as recording
from lib import rabbitmq as node


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two threads on this machine; every schema check Spark has is on. Skips where there is no Java."""
    pytest.importorskip("pyspark", reason="needs pyspark (wirefmt[spark])")
    from pyspark_wirefmt import local_session

    try:
        session = local_session(
            2,
            app="wirefmt tests",
            spark__sql__execution__arrow__pyspark__validateSchema__enabled="true",
            spark__python__authenticate__socketTimeout="120s",  # a busy machine starts Python workers late
            spark__sql__shuffle__partitions="3",
            spark__sql__warehouse__dir=str(tmp_path_factory.mktemp("warehouse")),
            spark__sql__python__filterPushdown__enabled="true",
        )
    except RuntimeError as absent:
        pytest.skip(str(absent))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node.Broker]:
    """A RabbitMQ node that is ours alone, with AMQP 1.0 and MQTT. Skips where there is none."""
    if node.SERVER is None or node.EPMD is None or node.CONTROL is None:
        pytest.skip("needs the program rabbitmq-server (package rabbitmq-server)")
    broker = node.Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def proxy(rabbitmq: node.Broker, request: pytest.FixtureRequest) -> Iterator[recording.Proxy]:
    """Before that RabbitMQ, keeping what is said."""
    proxy = recording.Proxy(rabbitmq.port)
    yield proxy
    proxy.close()
    proxy.keep("rabbitmq-amqp10" if request.module.__name__.endswith("amqp10") else "rabbitmq-amqp091")


def pytest_sessionfinish() -> None:
    recording.write_recorded()


@pytest.fixture(autouse=True)
def an_empty_memory_store() -> Iterator[None]:
    """fsspec's `memory://` is one store for the whole process: what a test leaves there is gone after it."""
    yield
    if memory := sys.modules.get("fsspec.implementations.memory"):
        memory.MemoryFileSystem.store.clear()
        memory.MemoryFileSystem.pseudo_dirs[:] = [""]
