"""Constructors take what the stubs say: every parameter, by position or keyword as written there, with the default written
there, and no other. stubtest sees only (*args, **kwargs) of them; here objects are made."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest

from lib.paths import ROOT
from wirefmt import amqp091, amqp10, capture, convert, mqtt, nsq, rocketmq
from wirefmt.amqp091._codec import Flows
from wirefmt.errors import EncodeError
from wirefmt.framing import Limits
from wirefmt.nsq import ServerOptions
from wirefmt.protocols import PROTOCOLS


class Parameter(NamedTuple):
    name: str
    type: str
    kind: str  # position, either, keyword
    required: bool
    default: Any  # a literal; ... if the stub does not say


class Constructor(NamedTuple):
    path: str  # mqtt.Publish
    cls: type
    parameters: tuple[Parameter, ...]


def literal(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else ...
    except ValueError:
        return ...


def unparsed(node: ast.expr | None) -> str:
    assert node is not None
    return ast.unparse(node)


def parameters_of(function: ast.FunctionDef) -> Iterator[Parameter]:
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    for arg, default in list(zip(positional, defaults, strict=True))[1:]:
        kind = "position" if arg in a.posonlyargs else "either"
        yield Parameter(arg.arg, unparsed(arg.annotation), kind, default is None, literal(default))
    for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        yield Parameter(arg.arg, unparsed(arg.annotation), "keyword", default is None, literal(default))


def constructors() -> Iterator[Constructor]:
    """Of the classes that the protocols' stubs have."""
    for row in PROTOCOLS:
        module = import_module(row.codec)
        for path in sorted((ROOT / "src" / "wirefmt" / row.name).glob("_c*.pyi")):
            for cls in (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)):
                for function in (n for n in cls.body if isinstance(n, ast.FunctionDef)):
                    # with *args it is a base: the class of Python that derives from it has the parameters
                    if function.name in ("__init__", "__new__") and function.args.vararg is None:
                        made = getattr(module, cls.name)
                        yield Constructor(f"{row.name}.{cls.name}", made, tuple(parameters_of(function)))


CONSTRUCTORS = {c.path: c for c in constructors()}

#: Values by the type that the stub has.
BY_TYPE: dict[str, Any] = {
    "Any": None,
    "BasicProperties": amqp091.BasicProperties(type="t"),
    "BasicConsume": amqp091.BasicConsume(channel=1, queue="q"),
    "BasicMessage": amqp091.BasicMessage(amqp091.BasicPublish(channel=1)),
    "Buffer": b"x",
    "CommandCustomHeader": None,
    "Consumer": amqp091.Consumer("c", amqp091.BasicConsume(channel=1, queue="q")),
    "DataVersion": rocketmq.DataVersion(),
    "Error": amqp10.Error(condition="amqp:internal-error"),
    "Flows": Flows(),
    "Header": amqp10.Header(durable=True),
    "Limits": Limits(),
    "Literal['JSON', 'ROCKETMQ']": "ROCKETMQ",
    "Literal[1, 2]": 2,
    "Mapping": {},
    "Method": amqp091.BasicPublish(channel=1),
    "Properties": amqp10.Properties(subject="s"),
    "ServerOptions": ServerOptions(),
    "Strictness": "lax",
    "SupportsIndex": 1,
    "Will": mqtt.Will(topic="t"),
    "_Form": None,
    "_Host": ("127.0.0.1", 1),
    "_Map": {"k": 1},
    "_Properties": {"k": "v"},
    "_Section": b"x",
    "_Side": "client",
    "_Symbols": "a",
    "_Table": {"k": 1},
    "bool": True,
    "bytes": b"x",
    "float": 0.5,
    "int": 1,
    "str": "a",
}
#: Values that the rules of a protocol ask for, by class and parameter or by parameter.
BY_NAME: dict[str, Any] = {
    "amqp091.BasicMessage.frame_max": 4096,
    "amqp091.FieldValue.letter": "t",
    "amqp091.ProtocolHeader.octets": b"\0\0\x09\1",
    "amqp10.Array.type": "boolean",
    "amqp10.Decimal.value": b"",
    "amqp10.Integer.value": 0,
    "amqp10.Decimal32.value": b"1234",
    "amqp10.Decimal64.value": b"12345678",
    "amqp10.Decimal128.value": b"1234567812345678",
    "amqp10.Outgoing.link": None,
    "amqp10.extended_header": b"1234",
    "mqtt.Auth.properties": (("authentication_method", "m"),),
    "mqtt.Connack.reason_code": 0x80,
    "mqtt.Connect.connect_flags": 0b10,
    "mqtt.Disconnect.reason_code": 0x04,
    "mqtt.Properties.pairs": (("content_type", "text/plain"),),
    "mqtt.Puback.reason_code": 0x10,
    "mqtt.Pubcomp.reason_code": 0x92,
    "mqtt.Pubrec.reason_code": 0x10,
    "mqtt.Pubrel.reason_code": 0x92,
    "mqtt.Auth.reason_code": 0x18,
    "mqtt.reason_codes": (0,),
    "mqtt.subscriptions": (mqtt.Subscription("a"),),
    "mqtt.topic_filters": ("a",),
    "mqtt.properties": (("user_property", ("k", "v")),),
    "mqtt.version": 5,
    "nsq.bodies": (b"x",),
    "nsq.Arrival.message": nsq.MessageFrame(timestamp=1, attempts=1, message_id=b"0123456789abcdef", body=b"x"),
    "nsq.Frame.frame_type": 7,
    "nsq.Request.command": nsq.Nop(),
    "nsq.message_id": b"0123456789abcdef",
    "phpmq.Message.message_type": 9,
    "rocketmq.RemotingCommand.language": "PYTHON",
}
#: Values that another one asks for.
TOGETHER: dict[str, dict[str, Any]] = {
    "mqtt.Auth.reason_code": {"properties": (("authentication_method", "m"),)},
    "mqtt.Publish.dup": {"qos": 1, "packet_identifier": 1},
    **{f"mqtt.{name}.dup": {"version": 3} for name in ("Pubrel", "Subscribe", "Unsubscribe")},
    "mqtt.Publish.packet_identifier": {"qos": 1},
    "mqtt.Publish.qos": {"packet_identifier": 1},
}
#: Parameters that have a default for other versions than the default one.
NEEDED: dict[str, str] = {"mqtt.Unsuback": "reason_codes"}
#: Constructors that need one of two parameters, though each has a default: which one they are given.
EITHER: dict[str, str] = {"nsq.Response": "data"}


def value_of(c: Constructor, p: Parameter) -> Any:
    if c.path.startswith("amqp091.Connection") and p.name == "channel":
        return 0
    for name in (f"{c.path}.{p.name}", f"{c.path.split('.')[0]}.{p.name}"):
        if name in BY_NAME:
            return BY_NAME[name]
    kind = p.type.split(" | ")[0]
    return BY_TYPE[kind] if kind in BY_TYPE else () if kind.startswith("Iterable[") else BY_TYPE[kind.split("[")[0]]


def least(c: Constructor, tried: Parameter | None = None) -> dict[str, Any]:
    """What a constructor needs, and what it needs to try one more parameter."""
    named = (EITHER.get(c.path), NEEDED.get(c.path))
    needed = {p.name: value_of(c, p) for p in c.parameters if p.required or p.name in named}
    if tried is None:
        return needed
    if c.path in EITHER:
        needed = {}
    return needed | TOGETHER.get(f"{c.path}.{tried.name}", {})


def made(c: Constructor, given: dict[str, Any]) -> Any:
    """An object of these values, those without a keyword by position."""
    values = [given[p.name] for p in c.parameters if p.kind == "position" and p.name in given]
    words = {p.name: given[p.name] for p in c.parameters if p.kind != "position" and p.name in given}
    return c.cls(*values, **words)


def state(thing: Any) -> Any:
    """What is compared: messages have values, decoders do not."""
    return thing if type(thing).__eq__ is not object.__eq__ else type(thing)  # type: ignore[comparison-overlap]


every = pytest.mark.parametrize("c", CONSTRUCTORS.values(), ids=CONSTRUCTORS)


@every
def test_every_parameter_is_taken(c: Constructor) -> None:
    assert type(made(c, least(c))) is c.cls
    for p in c.parameters:
        assert type(made(c, least(c, p) | {p.name: value_of(c, p)})) is c.cls, p.name


@every
def test_what_is_required_is_required(c: Constructor) -> None:
    for p in c.parameters:
        if p.required:
            rest = {name: value for name, value in least(c).items() if name != p.name}
            with pytest.raises((TypeError, EncodeError), match=rf"{p.name}|positional argument"):
                made(c, rest)


@every
def test_defaults_are_those_of_the_stub(c: Constructor) -> None:
    for p in c.parameters:
        if p.default is not ... and p.kind != "position" and p.name not in least(c):
            assert state(made(c, least(c) | {p.name: p.default})) == state(made(c, least(c))), p.name


@every
def test_positions_and_keywords_are_those_of_the_stub(c: Constructor) -> None:
    needed = least(c)
    places = [value_of(c, p) for p in c.parameters if p.kind != "keyword"]
    words = {p.name: needed[p.name] for p in c.parameters if p.kind == "keyword" and p.name in needed}
    if not EITHER.get(c.path):
        assert type(c.cls(*places, **words)) is c.cls
    with pytest.raises(TypeError, match="positional"):
        c.cls(*places, None, **words)
    for p in c.parameters:
        if p.kind == "position":
            with pytest.raises(TypeError, match=r"positional|keyword"):
                c.cls(**needed, **{p.name: value_of(c, p)} if p.name not in needed else {})


@every
def test_an_unknown_keyword_is_refused(c: Constructor) -> None:
    needed = least(c)
    values = [needed.pop(p.name) for p in c.parameters if p.kind == "position" and p.name in needed]
    with pytest.raises(TypeError, match=r"no_such_parameter|no keyword arguments"):
        c.cls(*values, **needed, no_such_parameter=None)


def test_there_are_constructors_of_every_protocol() -> None:
    counts = {row.name: sum(path.startswith(f"{row.name}.") for path in CONSTRUCTORS) for row in PROTOCOLS}
    assert all(counts[name] >= n for name, n in {"mqtt": 19, "amqp091": 70, "amqp10": 45, "nsq": 17}.items()), counts
    assert all(counts.values()), counts


# ---- inspect.signature and help()

_KINDS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "position",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


@every
def test_the_signature_is_that_of_the_stub(c: Constructor) -> None:
    found = [p for p in inspect.signature(c.cls).parameters.values() if p.kind is not p.VAR_KEYWORD]
    written = [(p.name, p.kind, p.required) for p in c.parameters]
    assert [(p.name, _KINDS[p.kind], p.default is p.empty) for p in found] == written
    for of_stub, p in zip(c.parameters, found, strict=True):
        assert p.default is not ..., p.name
        if of_stub.default is not ...:
            assert p.default == of_stub.default
    given = least(c)
    values = [given[p.name] for p in c.parameters if p.kind == "position" and p.name in given]
    words = {p.name: given[p.name] for p in c.parameters if p.kind != "position" and p.name in given}
    inspect.signature(c.cls).bind(*values, **words)


def test_every_public_class_has_a_signature_or_makes_no_object() -> None:
    without = set()
    for module in (*(import_module(f"wirefmt.{row.name}") for row in PROTOCOLS), capture, convert):
        for name in module.__all__:
            cls = getattr(module, name)
            if isinstance(cls, type) and not issubclass(cls, int | str):  # which Python gives no signature
                try:
                    inspect.signature(cls)
                except ValueError:
                    without.add(cls)
    assert mqtt.Packet in without
    for cls in without:
        with pytest.raises((TypeError, EncodeError)):
            cls()


def test_types_in_a_signature_are_public() -> None:
    text = str(inspect.signature(mqtt.Publish))
    assert text.startswith("(*, topic_name: 'str', payload: 'Buffer' = b'', qos: 'int' = 0, ")
    assert "properties: 'Iterable[tuple[str, Any]]' = ()" in text
    for c in CONSTRUCTORS.values():
        for p in inspect.signature(c.cls).parameters.values():
            text = "" if p.annotation is p.empty else p.annotation  # of classes written in Python
            names = [node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
            assert not [name for name in names if name.startswith("_")], c.path


def test_a_derived_class_has_its_own_signature_or_its_base_s() -> None:
    class Same(nsq.Frame):
        pass

    class Other(nsq.Frame):
        def __init__(self, number: int) -> None:
            pass

    assert inspect.signature(Same) == inspect.signature(nsq.Frame)
    assert list(inspect.signature(Other).parameters) == ["number"]
    assert not hasattr(nsq.Nop(), "__signature__")


def test_import_reads_no_stubs() -> None:
    script = "import sys, wirefmt.capture, wirefmt.convert, wirefmt.rocketmq as r; print('wirefmt.signatures' in sys.modules); "
    script += "import inspect; inspect.signature(r.Message); print(sys.modules['wirefmt.signatures']._stubs.cache_info().misses)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "1"]
