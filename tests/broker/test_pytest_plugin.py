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
    result.stdout.fnmatch_lines(["*NotSeen: queue 'orders': 1 expected within 0.01 s, 0 found: []*"])


def test_the_wheel_says_where_the_plugin_is() -> None:
    """pytest loads a plugin once if the entry point has the module's name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}
    assert hasattr(importlib.import_module(PLUGIN), "wirefmt_broker")
