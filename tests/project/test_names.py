"""What users see of the compiled modules has its public name everywhere: repr, `__module__`, pickles."""

from __future__ import annotations

import pickle
import re
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from lib.compiled import compiled
from wirefmt.batch import Batch
from wirefmt.connection.outbox import Outbox
from wirefmt.connection.outstanding import Identifiers
from wirefmt.connection.windows import Window
from wirefmt.decoder import FrameDecoder
from wirefmt.protocols import PROTOCOLS

FUNCTION = type(import_module("wirefmt.mqtt._codec").decode)
FACES = [f"wirefmt.{row.name}" for row in PROTOCOLS] + ["wirefmt.convert", "wirefmt.capture"]


def defined_in(module: ModuleType) -> list[Any]:
    """Its classes and functions, except those that it imports."""
    package = module.__name__.rpartition(".")[0]
    return [
        thing
        for thing in vars(module).values()
        if isinstance(thing, (type, FUNCTION)) and thing.__module__ in (package, module.__name__)
    ]


@pytest.mark.parametrize("module", compiled(), ids=lambda m: m.__name__)
def test_a_class_or_function_is_where_its_name_says(module: ModuleType) -> None:
    found = defined_in(module)
    assert found
    for thing in found:
        assert getattr(import_module(thing.__module__), thing.__qualname__) is thing, thing
        assert thing.__name__ == thing.__qualname__
        if isinstance(thing, FUNCTION):
            assert pickle.loads(pickle.dumps(thing)) is thing


@pytest.mark.parametrize("cls", [Batch, FrameDecoder, Identifiers, Outbox, Window], ids=lambda cls: cls.__name__)
def test_classes_of_the_kernel_that_users_see(cls: type) -> None:
    assert "_core" not in cls.__module__
    assert getattr(import_module(cls.__module__), cls.__name__) is cls
    assert repr(cls) == f"<class '{cls.__module__}.{cls.__name__}'>"


@pytest.mark.parametrize("name", FACES)
def test_what_a_package_exports_is_named_after_it(name: str) -> None:
    package = import_module(name)
    things = {key: getattr(package, key) for key in package.__all__}
    ours = {key: thing for key, thing in things.items() if isinstance(thing, (type, FUNCTION))}
    assert ours
    for key, thing in ours.items():
        assert thing.__name__ == key
        assert not re.search(r"\._(codec|engine|core)\b", thing.__module__), thing
        if isinstance(thing, type) and thing.__module__ == name:
            assert repr(thing) == f"<class '{name}.{key}'>"


@pytest.mark.parametrize("row", PROTOCOLS, ids=lambda row: row.name)
def test_names_of_a_codec_have_no_prefix(row: Any) -> None:
    """The package is the prefix: mqtt.Publish, not mqtt.MqttPublish."""
    codec = import_module(row.codec)
    for thing in defined_in(codec):
        assert row.name not in thing.__name__.lower().split("_"), thing
        assert not thing.__name__.lower().startswith(row.name), thing


@pytest.mark.parametrize("row", PROTOCOLS, ids=lambda row: row.name)
def test_pickles_name_the_package(row: Any) -> None:
    """`__reduce__` of every message names a function or class of the package, so pickles outlive the modules within."""
    from lib.core_walk import samples

    found = [thing for thing in samples() if type(thing).__module__ == f"wirefmt.{row.name}"]
    assert found
    for thing in found:
        made_by = thing.__reduce_ex__(4)[0]
        assert made_by.__module__ in (f"wirefmt.{row.name}", "copyreg"), thing
        assert b"_codec" not in pickle.dumps(thing), thing
