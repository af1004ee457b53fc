"""What holds for the messages of every protocol as Python objects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import strategies as st

from wirefmt.errors import DecodeError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def check_value(message: Any, again: Any) -> None:
    assert again == message
    assert type(again) is type(message)
    assert hash(again) == hash(message)
    for copied in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), message.detach()):
        assert copied == message
        assert copied.encode() == message.encode()
    for name in type(message).__match_args__:
        assert getattr(again, name) == getattr(message, name)
        with pytest.raises(AttributeError):
            setattr(message, name, None)


def evaluates(message: Any, **modules: Any) -> None:
    """repr makes the message again, unless it is shortened or hides a secret."""
    text = repr(message)
    if "... " not in text and "***" not in text:
        assert eval(text, modules) == message


def read_or_refused(protocol: Any, octets: bytes) -> None:
    for side in ("client", "server"):
        for strictness in ("strict", "lax"):
            try:
                message = protocol.decode(octets, side=side, strictness=strictness)
            except DecodeError:
                continue
            assert message.encode() == octets
