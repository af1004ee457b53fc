"""What a user of the packages meets first: names, signatures, and errors of mistakes that every new user makes."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from importlib import import_module
from typing import Any, get_args

import pytest

import wirefmt
from lib.kinds import only
from wirefmt import amqp091, amqp10, mqtt, nsq, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.errors import EncodeError, LocalProtocolError, Unsupported
from wirefmt.protocols import PROTOCOLS

CLIENTS = [row.name for row in PROTOCOLS]


PACKAGES = [
    "wirefmt",
    *(f"wirefmt.{name}" for name in (*CLIENTS, "broker", "capture", "connection", "convert")),
    "pyspark_wirefmt",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_lists_what_is_loaded_when_it_is_first_used(name: str) -> None:
    """In a process that has used none of it: every public name, and none that the package does not have."""
    code = f"import {name} as m; print(*(n for n in m.__all__ if n not in dir(m)), *(n for n in dir(m) if not hasattr(m, n)))"
    if name == "pyspark_wirefmt":
        pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    with pytest.raises(AttributeError, match=rf"module '{name}' has no attribute 'nothing'"):
        _ = import_module(name).nothing


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_lists_nothing_that_a_package_only_imports(name: str) -> None:
    assert not {"Any", "TYPE_CHECKING", "annotations", "import_module", "lazy", "sys"} & set(dir(import_module(name)))


def test_packages_and_errors_are_attributes_of_wirefmt() -> None:
    code = (
        "import sys, wirefmt; before = 'wirefmt.capture' in sys.modules; print(before, wirefmt.capture.read.__name__)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False read\n"
    names = {*CLIENTS, "broker", "capture", "connection", "convert", *wirefmt.__all__}
    assert names <= set(dir(wirefmt))
    assert wirefmt.DecodeError is wirefmt.errors.DecodeError
    errors = vars(wirefmt.errors).values()
    assert {e.__name__ for e in errors if isinstance(e, type) and issubclass(e, wirefmt.WireError)} <= names


@pytest.mark.parametrize("name", CLIENTS)
def test_connect_says_what_it_takes_and_returns(name: str) -> None:
    package = import_module(f"wirefmt.{name}")
    told, made = inspect.signature(package.connect), inspect.signature(package.Client)
    assert told.return_annotation == "Client"
    if name not in ("nsq", "rocketmq"):  # connect of these is a function of its own
        assert list(told.parameters) == list(made.parameters)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mqtt.Publish(topic="a"), "mqtt.Publish() got an unexpected keyword argument 'topic'; did you mean topic_name?"),  # type: ignore[call-arg]
        (lambda: mqtt.Will(topik="a"), "mqtt.Will() got an unexpected keyword argument 'topik'; did you mean topic?"),  # type: ignore[call-arg]
        (lambda: amqp091.QueueDeclare(queue="q"), "amqp091.QueueDeclare() needs keyword-only argument channel"),  # type: ignore[call-arg]
        (lambda: amqp091.BasicProperties(content_typ="x"), "amqp091.BasicProperties() got an unexpected keyword argument"),  # type: ignore[call-arg]
        (lambda: amqp10.Message(bod=b""), "did you mean body?"),  # type: ignore[call-arg]
        (lambda: rocketmq.RemotingCommand(cod=1), "rocketmq.RemotingCommand() got an unexpected"),  # type: ignore[call-arg]
        (lambda: nsq.Publish(topik="t", body=b""), "nsq.Publish() got an unexpected"),  # type: ignore[call-arg]
        (lambda: phpmq.ConsumeRequest(queue="q"), "did you mean queue_name?"),  # type: ignore[call-arg]
        (lambda: mqtt.Publish.__new__(mqtt.Publish, topic="a"), "did you mean topic_name?"),  # type: ignore[call-arg]
    ],
)  # fmt: skip
def test_a_wrong_argument_names_the_class_and_what_was_meant(make: Any, says: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert says in str(caught.value)


def test_properties_as_a_dict() -> None:
    given = {"content_type": "x"}
    for make in (
        lambda: mqtt.Publish(topic_name="a", version=5, properties=given),  # type: ignore[arg-type]
        lambda: mqtt.Connect(client_identifier="c", version=5, properties=given),  # type: ignore[arg-type]
        lambda: mqtt.Will(topic="a", payload=b"", properties=given),  # type: ignore[arg-type]
    ):
        with pytest.raises(
            TypeError, match=r"properties are pairs .*properties=\[\('content_type', \.\.\.\)\], not a dict"
        ):
            make()


def test_what_to_do_is_in_the_error() -> None:
    packet = mqtt.Publish(topic_name="a", payload=b"x", version=5).encode()
    with pytest.raises(Unsupported, match="version= is not given"):
        mqtt.decode(packet)
    with pytest.raises(LocalProtocolError, match="when CONNECT and CONNACK have been exchanged"):
        mqtt.ClientConnection(0.0).publish("a", b"")
    server = mqtt.ServerConnection(0.0)
    event = only(server.receive(mqtt.Connect(client_identifier="", version=5).encode(), 0.0), mqtt.Connect)
    with pytest.raises(LocalProtocolError, match=r"properties=\[\('assigned_client_identifier', \.\.\.\)\]"):
        server.accept(event)


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"a": 1, "k": object()}, "headers['k']: no type of field values holds a object"),
        ({"a": 1, "k": 2**70}, "headers['k']: no integer type holds"),
        ([("a", 1), ("k", 2**70)], "headers['k']: no integer type holds"),
        ({"a": 1, "k" * 300: 1}, f"headers['{'k' * 59}...]: 300 bytes, the limit is 255"),
        ({"a": {"b": [1, 2, {"c": 2**70}]}}, "headers['a']['b'][2]['c']: no integer type holds"),
        ({"k": "\ud800"}, "headers['k']: a surrogate has no UTF-8 form"),
        ({1: "a"}, "headers[1] must be a str or bytes, not int"),
    ],
)
def test_errors_of_header_tables_name_the_key(headers: Any, says: str) -> None:
    with pytest.raises((EncodeError, TypeError)) as caught:
        amqp091.BasicProperties(headers=headers)
    assert str(caught.value).startswith(says)
    with pytest.raises((EncodeError, TypeError)) as caught:
        amqp091.QueueDeclare(channel=1, queue="q", arguments=headers)
    assert str(caught.value).startswith(says.replace("headers", "arguments", 1))


def test_errors_of_rocketmq_fields_name_the_field() -> None:
    with pytest.raises(TypeError, match=r"ext_fields\['k'\]: names and values must be str, not int"):
        rocketmq.RemotingCommand(code=1, ext_fields={"a": "b", "k": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"properties\['k'\]: names and values must be str, not int"):
        rocketmq.encode_properties({"a": "b", "k": 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("made", [amqp091.Timestamp(2**63), amqp10.Timestamp(2**62), amqp10.Timestamp(-(2**62))])
def test_a_time_that_datetime_does_not_have(made: Any) -> None:
    with pytest.raises(ValueError, match=rf"datetime has no time {int(made)} m?s .*: use int\(timestamp\)"):
        made.to_datetime()


def test_a_protocol_that_the_broker_does_not_have() -> None:
    broker = Broker()
    for look in (broker.queue, broker.unacked):
        with pytest.raises(ValueError, match="'kafka' has no queues here; there are 'amqp', 'nsq', 'phpmq'"):
            look("q", "kafka")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'kafka' has no topics here; there are 'mqtt', 'rocketmq'"):
        broker.topic("q", "kafka")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CLIENTS)
def test_serve_says_what_it_takes(name: str) -> None:
    serve = import_module(f"wirefmt.{name}").serve
    parameters = inspect.signature(serve).parameters
    assert {"path", "ssl", "backlog", "most", "tap", "proxy_protocol"} <= set(parameters)
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    told = re.findall(r"^    (\w[\w, ]*): ", inspect.getdoc(serve) or "", re.M)
    assert sorted(", ".join(told).split(", ")) == sorted(parameters)
    with pytest.raises(TypeError, match="unexpected keyword argument 'mosst'"):
        asyncio.run(serve(print, port=None, mosst=1))


@pytest.mark.parametrize("name", CLIENTS)
def test_types_of_events_are_those_that_the_connections_document(name: str) -> None:
    package = import_module(f"wirefmt.{name}")
    docs = package.ClientConnection.__doc__
    assert {event.__name__ for event in get_args(package.ClientEvent)} <= set(re.findall(r"\b[A-Z]\w+", docs))
    theirs = package.ServerConnection.__doc__
    if "those of" in theirs:
        theirs += docs
    assert {event.__name__ for event in get_args(package.ServerEvent)} <= set(re.findall(r"\b[A-Z]\w+", theirs))
