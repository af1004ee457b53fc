"""Options with a few accepted words, of clients, servers and brokers: another word is refused, and the error names those."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

import pytest

from lib.loopback import run
from wirefmt import amqp091, amqp10, mqtt, phpmq, rocketmq
from wirefmt.broker import Broker
from wirefmt.broker.limits import Limits
from wirefmt.broker.mqtt import BrokerOptions as MqttBrokerOptions
from wirefmt.connection.recovery import OnRefused
from wirefmt.protocols import PROTOCOLS
from wirefmt.rocketmq.push_consumer import PushConsumer

PACKAGES = [row.name for row in PROTOCOLS]
#: What is made with options: of connections, and so of clients and servers, and of brokers.
OPTIONS: list[type[Any]] = [
    *(import_module(f"wirefmt.{name}").ConnectionOptions for name in PACKAGES),
    *(import_module(f"wirefmt.broker.{name}").BrokerOptions for name in PACKAGES),
    Limits,
]


def words(hint: Any) -> tuple[Any, ...]:
    """The accepted words of a type; (): it is not a choice. Other types beside a Literal do not matter."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((found for part in get_args(hint) if get_origin(part) is Literal and (found := words(part))), ())


def choices(of: Callable[..., Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name, hint in typing.get_type_hints(of).items():
        if name != "return" and words(hint):
            yield name, words(hint)


FIELDS = [
    pytest.param(cls, name, accepted, id=f"{cls.__module__.removeprefix('wirefmt.')}-{name}")
    for cls in OPTIONS
    for name, accepted in choices(cls)
    if name in {field.name for field in fields(cls)}
]


@pytest.mark.parametrize(("cls", "name", "accepted"), FIELDS)
def test_a_field_of_options(cls: type[Any], name: str, accepted: tuple[Any, ...]) -> None:
    for value in accepted:
        assert getattr(cls(**{name: value}), name) == value
    for wrong in ("sometimes", "", None, accepted[0].swapcase() if isinstance(accepted[0], str) else 9):
        with pytest.raises(ValueError, match=name) as refused:
            cls(**{name: wrong})
        for word in (*map(repr, accepted), repr(wrong)):
            assert word in str(refused.value)


def test_these_are_found() -> None:
    """Names that the type hints must give, or the test above tests nothing."""
    found = {(cls.__module__, name) for cls, name, _ in (param.values for param in FIELDS)}
    for module, name in (
        ("nsq.events", "tls"),
        ("rocketmq.events", "tls"),
        ("rocketmq.events", "serialize_type"),
        ("mqtt.events", "qos2_event"),
        ("phpmq.events", "profile"),
        ("broker.mqtt.options", "maximum_qos"),
        ("broker.mqtt.options", "overflow"),
        ("broker.amqp10", "without_body"),
        ("broker.limits", "overflow"),
    ):
        assert (f"wirefmt.{module}", name) in found
    assert MqttBrokerOptions in OPTIONS


# ---- arguments of clients

#: Client's class or method with choices -> a call with one of them; the broker has all protocols.
Call = Callable[[Broker, dict[str, Any]], Awaitable[Any]]


async def made(client: Any, call: Callable[[Any], Awaitable[Any]]) -> None:
    async with client:
        await call(client)


async def of_mqtt(b: Broker, more: dict[str, Any]) -> None:
    await made(mqtt.connect(b.url("mqtt")), lambda client: client.subscribe("a/#", **more))


async def of_amqp10(b: Broker, more: dict[str, Any], what: str) -> None:
    await made(amqp10.connect(b.url("amqp10")), lambda client: getattr(client, what)("q", **more))


async def of_amqp091(b: Broker, more: dict[str, Any], what: str, *arguments: str) -> None:
    async def call(client: amqp091.Client) -> None:
        channel = await client.channel()
        await channel.declare_queue("q")
        await getattr(channel, what)(*arguments, **more)

    await made(amqp091.connect(b.url("amqp")), call)


async def of_rocketmq(b: Broker, more: dict[str, Any]) -> None:
    async def call(client: rocketmq.Client) -> None:
        client.push_consumer("G", {"T": "*"}, lambda message: None, **more)

    await made(rocketmq.connect(b.url("rocketmq")), call)


async def of_mqtt_client(b: Broker, more: dict[str, Any]) -> None:
    mqtt.Client(b.url("mqtt"), **more)


async def of_phpmq_client(b: Broker, more: dict[str, Any]) -> None:
    phpmq.Client(b.url("phpmq"), **more)


CHANNEL = amqp091.Channel
CALLS: dict[Any, Call] = {
    mqtt.Client.__init__: of_mqtt_client,
    mqtt.Client.subscribe: of_mqtt,
    phpmq.Client.__init__: of_phpmq_client,
    amqp10.Client.sender: lambda b, more: of_amqp10(b, more, "sender"),
    amqp10.Client.receiver: lambda b, more: of_amqp10(b, more, "receiver"),
    CHANNEL.declare_exchange: lambda b, more: of_amqp091(b, more, "declare_exchange", "e"),
    CHANNEL.declare_queue: lambda b, more: of_amqp091(b, more, "declare_queue", "r"),
    CHANNEL.bind_exchange: lambda b, more: of_amqp091(b, more, "bind_exchange", "amq.direct", "amq.topic"),
    CHANNEL.bind_queue: lambda b, more: of_amqp091(b, more, "bind_queue", "q", "amq.topic", "a"),
    CHANNEL.consume: lambda b, more: of_amqp091(b, more, "consume", "q"),
    PushConsumer.__init__: of_rocketmq,
}
#: Arguments with choices that the test does not pass: the versions of MQTT, which CONNECT checks.
OTHERS = {(mqtt.Client.__init__, "version")}


def hints_of(of: Callable[..., Any]) -> dict[str, Any]:
    """Of the parameters whose types can be resolved: some names are imported for the type checker alone."""
    found = {}
    for name, annotation in of.__annotations__.items():
        try:
            found[name] = eval(str(annotation), of.__globals__)
        except NameError:
            continue
    return found


ARGUMENTS = [
    pytest.param(of, name, words(hint), id=f"{of.__qualname__}-{name}")
    for of in CALLS
    for name, hint in hints_of(of).items()
    if words(hint) and (of, name) not in OTHERS
]


@pytest.mark.parametrize(("of", "name", "accepted"), ARGUMENTS)
def test_an_argument_of_a_client(of: Any, name: str, accepted: tuple[Any, ...]) -> None:
    async def test() -> None:
        async with Broker(ports={"mqtt": 0, "amqp": 0, "amqp10": 0, "rocketmq": 0, "phpmq": 0}) as b:
            with pytest.raises(ValueError, match=name) as refused:
                await CALLS[of](b, {name: "sometimes"})
            for word in (*map(repr, accepted), "'sometimes'"):
                assert word in str(refused.value)
            await CALLS[of](b, {name: accepted[-1]})

    run(test())


def test_every_argument_with_choices_is_in_the_table() -> None:
    classes = (mqtt.Client, amqp091.Client, CHANNEL, amqp10.Client, rocketmq.Client, PushConsumer, phpmq.Client)
    nsq = import_module("wirefmt.nsq")
    for cls in (*classes, nsq.Client, nsq.Consumer):
        for method in vars(cls).values():
            if not inspect.isfunction(method) or (method.__name__.startswith("_") and method.__name__ != "__init__"):
                continue
            chosen = {name for name, hint in hints_of(method).items() if words(hint)}
            assert not chosen or method in CALLS, f"{method.__qualname__}: {chosen}"
    assert any(param.values[1] == "settle" for param in ARGUMENTS)
    assert get_args(OnRefused) == ("retry", "skip", "fail")


# ---- what a function of the program returns


def test_a_decision_of_a_transaction() -> None:
    async def test() -> None:
        async with (
            Broker(ports={"rocketmq": 0}) as b,
            rocketmq.connect(b.url("rocketmq")) as client,
        ):
            producer = client.producer("P")
            with pytest.raises(ValueError, match="must be 'commit' or 'rollback' or 'unknown', not 'perhaps'"):
                await producer.send_transaction("T", b"half", lambda number: "perhaps")  # type: ignore[arg-type, return-value]

    run(test())
