"""The settings of `wirefmt serve`: every field of the broker's options can be reached."""

from __future__ import annotations

import re
import ssl
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from lib.loopback import OPENSSL, certificate
from lib.paths import ROOT
from wirefmt.broker import Options
from wirefmt.broker.listeners import NAMES
from wirefmt.cli import serve
from wirefmt.cli.app import run
from wirefmt.cli.settings import as_toml, assigned, merged

#: Fields without a setting, and why.
WITHOUT = {
    "tap": "a function of the program",
    "authenticate": "a function; users and permissions make it",
    "authorise": "a function; users and permissions make it",
    "automatic": "the broker acknowledges",
    "journaled": "the broker keeps no journal",
}

#: Fields that the tables `ports`, `tls`, `users` and `permissions` set; tested elsewhere.
TABLES = {"ports", "tls", "users", "accounts", "permissions"}

#: Values for fields that do not take any.
VALUES = {
    "limits.dialect": "rabbitmq-4.3",
    "connection.mqtt.tolerate": ["UNSUBACK UNSUBACK_EMPTY"],
    "connection.rocketmq.language": "JAVA",
}


def sections() -> Iterator[tuple[str, Any]]:
    """The name of each table, and its options."""
    options = Options()
    yield "", options
    for name in ("limits", *NAMES):
        yield name, getattr(options, name)
    for name, found in serve._connection_options().items():
        yield f"connection.{name}", found


def members(where: str, options: Any) -> Iterator[tuple[str, Any, Any]]:
    """The path, the type and the value of each field, also of dataclasses inside."""
    hints = get_type_hints(type(options))
    for field in fields(options):
        value, path = getattr(options, field.name), f"{where}.{field.name}".lstrip(".")
        if field.name in WITHOUT or field.name in TABLES or (not where and path in ("limits", "connection", *NAMES)):
            continue
        if is_dataclass(value):
            yield from members(path, value)
        else:
            yield path, hints[field.name], value


def another(path: str, hint: Any, value: Any) -> Any:
    """A value that is not the default, as TOML has it."""
    if path in VALUES:
        return VALUES[path]
    if isinstance(value, bool):
        return not value
    if get_origin(hint) is Literal:
        return next(each for each in get_args(hint) if each != value)
    if isinstance(value, float | int):
        return value + 1
    if isinstance(value, str):
        return "other"
    if isinstance(value, frozenset | tuple):
        return ["/other"]
    if isinstance(value, dict):
        return {"product": "other"}
    kinds = {kind for kind in get_args(hint) if kind is not NoneType}
    if value is None and len(kinds) == 1:
        (kind,) = kinds
        if is_dataclass(kind):
            return {field.name: "x" for field in fields(kind) if get_type_hints(kind)[field.name] is str}
        return kind(7)
    raise AssertionError(f"{path}: a field of type {hint} cannot be reached")


ALL = [each for where, options in sections() for each in members(where, options)]


@pytest.mark.parametrize(("path", "hint", "value"), ALL, ids=[path for path, *_ in ALL])
def test_every_field_can_be_set(path: str, hint: Any, value: Any) -> None:
    wanted = another(path, hint, value)
    settings = assigned(f"{path}={wanted if isinstance(wanted, str) else ''}")
    if not isinstance(wanted, str):
        *tables, last = path.split(".")
        text = f"[{'.'.join(tables)}]\n" if tables else ""
        settings = tomllib.loads(f"{text}{last} = {as_toml(wanted)}")
    found: Any = serve._options(settings)
    for name in path.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    if is_dataclass(found):
        found = {name: getattr(found, name) for name in wanted}
    assert found != value
    assert (sorted(found) if isinstance(found, frozenset | tuple) else found) == wanted


def test_every_optional_field_can_be_none() -> None:
    optional = [path for path, hint, _ in ALL if NoneType in get_args(hint)]
    assert "stalled" in optional
    for path in optional:
        found: Any = serve._options(assigned(f"{path}=none"))
        for name in path.split("."):
            found = found[name] if isinstance(found, dict) else getattr(found, name)
        assert found is None


def test_the_file_with_all_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """`--settings` prints a file that changes nothing, and has every field."""
    assert run(["serve", "--settings"]) == 0
    text = capsys.readouterr().out
    settings = tomllib.loads(text)
    made, default = serve._options(settings), serve._options({})
    for where, _ in sections():
        if where and not where.startswith("connection"):
            assert getattr(made, where) == getattr(default, where)
    assert made.connection == serve._connection_options()
    for path, *_ in ALL:
        found = settings
        for name in path.split("."):
            found = found[name]


def test_what_is_on_the_command_line() -> None:
    assert assigned("mqtt.overflow=refuse") == {"mqtt": {"overflow": "refuse"}}
    assert assigned("mqtt.queue_bytes = 5") == {"mqtt": {"queue_bytes": 5}}
    assert assigned('connection.mqtt.tolerate=["a b"]') == {"connection": {"mqtt": {"tolerate": ["a b"]}}}
    assert assigned("mqtt.overflow=1\ny=2") == {"mqtt": {"overflow": "1\ny=2"}}


@pytest.mark.parametrize("text", ["mqtt", "=1", "a..b=1", "a b=1"])
def test_an_assignment_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--set", text]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("connection.mqt.copies=1", "unknown protocol 'mqt' in connection; did you mean mqtt"),
        ("connection.mqtt=1", "connection.mqtt must be a table, not 1"),
        (
            "connection.mqtt.recieve_maximum=1",
            "unknown option 'recieve_maximum' in connection.mqtt; did you mean receive_maximum",
        ),
        ("connection.mqtt.receive_maximum=0", "connection.mqtt: receive_maximum is a number of 1 to 65535, not 0"),
        ("connection.mqtt.control_characters=1", "connection.mqtt.control_characters must be of type bool, not 1"),
        ("connection.mqtt.automatic=true", "unknown option 'automatic' in connection.mqtt"),
        ("connection.nsq.server.max_rdy_cuont=1", "unknown option 'max_rdy_cuont' in connection.nsq.server"),
        ("connection.nsq.server=1", "connection.nsq.server must be a table, not 1"),
        ("connection.amqp10.idle_timeout=x", "connection.amqp10.idle_timeout must be of type float, not 'x'"),
        ("mqtt.maximum_qos=true", "mqtt.maximum_qos must be 0 or 1 or 2, not True"),
        ("tls.client_ca=ca.pem", "tls needs a certificate"),
        ("tls.certificate=no.pem", "tls.certificate 'no.pem' cannot be used: No such file or directory"),
        ("tls.certificate=1", "tls.certificate must be a string, not 1"),
        ("stalled=x", "stalled must be of type float, not 'x'"),
        ("historry=1", "unknown setting 'historry'; did you mean history"),
        ("limits.memry=1", "unknown option 'memry' in limits; did you mean memory"),
    ],
)
def test_errors(settings: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--set", settings]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl (apt install openssl)")
def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    section = page[page.index("## serve") :]
    (toml,) = re.findall(r"```toml\n(.*?)```", section[: section.index("## decode --as")], re.DOTALL)
    certificate(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = tomllib.loads(toml)
    for name in ("seed", "fault"):
        settings.pop(name, None)
    options = serve._options(settings)
    assert options.tls is not None
    assert options.tls.verify_mode is ssl.CERT_OPTIONAL
    assert options.connection["mqtt"].receive_maximum == 20
    assert options.mqtt.overflow == "refuse"


def test_a_type_that_cannot_be_written_is_no_setting() -> None:
    with pytest.raises(ValueError, match="unknown option 'tap' in x"):
        merged(Options(), {"tap": 1}, "x")
