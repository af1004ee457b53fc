"""Fixtures with the addresses of the broker, which aiormq's package lacks. fetch.py copies this file to its tests."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="session")
def rabbitmq_container() -> SimpleNamespace:
    return SimpleNamespace(host="127.0.0.1", ports={"5672/tcp": 5672, "5671/tcp": 5671})


@pytest.fixture(scope="session")
def amqp_direct_url() -> Any:
    return importlib.import_module("yarl").URL("amqp://guest:guest@127.0.0.1:5672//")
