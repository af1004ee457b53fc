"""The pytest plugin, as its users have it: in a pytest of its own, with client libraries that are not ours."""

from __future__ import annotations

import importlib
import tomllib

import pytest

from lib.paths import ROOT

pytest_plugins = ["pytester"]

PLUGIN = "wirefmt.broker.pytest_plugin"

TESTS = """
import paho.mqtt.publish
import paho.mqtt.subscribe
import pika
import pytest


@pytest.mark.parametrize("number", range(8))
def test_every_test_begins_with_nothing(wirefmt_broker, number):
    assert not wirefmt_broker.topic("#") and not wirefmt_broker.queue("orders") and not wirefmt_broker.clients
    connection = pika.BlockingConnection(pika.URLParameters(wirefmt_broker.url("amqp")))
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.basic_publish("", "orders", b"%d" % number)
    paho.mqtt.publish.single("plant/line", "21.5", qos=1, retain=True, port=wirefmt_broker.port("mqtt"))
    assert wirefmt_broker.queue("orders").wait(1)[0].body == b"%d" % number
    assert wirefmt_broker.topic("plant/+").last.body == b"21.5"
    # pika's connection stays open: the broker ends it
"""

OPTIONS = """
import socket
import pytest
from wirefmt import broker

@pytest.fixture
def wirefmt_broker_options():
    return broker.Options(ports={"nsq": 0}, history=0)

def test_options(wirefmt_broker):
    assert list(wirefmt_broker.broker.servers) == ["nsq"]
    socket.create_connection(("127.0.0.1", wirefmt_broker.port("nsq"))).close()

def test_what_a_failure_says(wirefmt_broker):
    wirefmt_broker.queue("orders", "nsq").wait(1, timeout=0.01)
"""


ASYNC = """
import asyncio
import aio_pika
import pytest

{mark}
async def test_a_service(wirefmt_async_broker):
    b = wirefmt_async_broker

    async def later():
        await asyncio.sleep(0.05)
        connection = await aio_pika.connect(b.url("amqp"))
        async with connection:
            channel = await connection.channel()
            await channel.declare_queue("orders")
            await channel.default_exchange.publish(aio_pika.Message(b"1"), routing_key="orders")

    task = asyncio.create_task(later())
    assert [m.body for m in await b.queue("orders").wait(1)] == [b"1"]
    await task
    await b.publish("plant/a", b"2", "mqtt")
    assert (await b.topic("plant/+").wait(1))[0].body == b"2"
    with pytest.raises(AssertionError, match="orders"):
        await b.queue("ordrs").wait(1, 0.01)


{mark}
async def test_the_synchronous_one_says_what_to_use(wirefmt_broker):
    assert wirefmt_broker.queue("orders").messages == []
    with pytest.raises(RuntimeError, match="wirefmt_async_broker"):
        wirefmt_broker.queue("orders").wait(1)
"""

SESSION = """
import pytest
from wirefmt import broker

ports = set()

@pytest.mark.parametrize("number", range(3))
def test_one_for_all(wirefmt_session_broker, number):
    b = wirefmt_session_broker
    ports.add(b.port("mqtt"))
    assert len(ports) == 1
    assert len(b.published()) == number
    b.publish("t", str(number), "mqtt")
    b.published().wait(number + 1)

def test_reset(wirefmt_session_broker):
    wirefmt_session_broker.reset()
    assert wirefmt_session_broker.published() == []
"""


@pytest.mark.parametrize("plugin", ["pytest_asyncio", "anyio"])
def test_tests_on_asyncio(pytester: pytest.Pytester, plugin: str) -> None:
    for name in ("aio_pika", plugin):
        pytest.importorskip(name, reason=f"needs {name} (pip install aio-pika pytest-asyncio anyio)")
    mark = "@pytest.mark.asyncio" if plugin == "pytest_asyncio" else "@pytest.mark.anyio"
    backend = "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n" if plugin == "anyio" else ""
    pytester.makepyfile(ASYNC.format(mark=mark) + backend)
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2)


def test_one_broker_for_all_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SESSION)
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=4)


@pytest.mark.parametrize("workers", ["0", "4"])
def test_tests_with_other_client_libraries(pytester: pytest.Pytester, workers: str) -> None:
    for name in ("paho.mqtt", "pika", "xdist"):
        pytest.importorskip(name, reason=f"needs {name} (pip install paho-mqtt pika pytest-xdist)")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-n", workers, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=8)


def test_options_and_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OPTIONS)
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*NotSeen: queue 'orders': 1 expected within 0.01 s, none found; there are no queues with messages*"]
    )
    assert "concurrent/futures" not in result.stdout.str()
    assert "asyncio/" not in result.stdout.str()
    assert "broker/views.py" not in result.stdout.str()


def test_the_wheel_says_where_the_plugin_is() -> None:
    """pytest loads a plugin once if the entry point has the module's name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}
    assert hasattr(importlib.import_module(PLUGIN), "wirefmt_broker")
