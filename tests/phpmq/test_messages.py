"""PHPMQ objects: values, octets, columns; what cannot be built; any octets are read or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.phpmq_vectors import of_kind
from lib.values import TEXT, check_value, evaluates, read_or_refused
from wirefmt import phpmq
from wirefmt.errors import EncodeError, LimitExceeded, Malformed

NUMBER = st.integers(-(2**63), 2**63 - 1)
MESSAGES = st.one_of(
    st.builds(phpmq.MessageClientToServer, queue_name=TEXT, content=st.binary(), ttl=st.none() | NUMBER),
    st.builds(phpmq.ConsumeRequest, queue_name=TEXT, message_count=NUMBER),
    st.builds(
        phpmq.MessageServerToClient, queue_name=TEXT, content=st.binary(), message_id=TEXT, ttl=st.none() | NUMBER
    ),
    st.builds(phpmq.Acknowledgement, queue_name=TEXT, message_id=TEXT),
    st.builds(phpmq.ReQueue, queue_name=TEXT, message_id=TEXT, ttl=NUMBER),
    st.builds(phpmq.DeadLetter, queue_name=TEXT, message_id=TEXT),
    st.builds(
        phpmq.Message,
        message_type=st.integers(7, 999),
        packets=st.lists(st.tuples(st.integers(6, 99), st.binary(max_size=40)), max_size=4, unique_by=lambda p: p[0]),
    ),
)


@given(MESSAGES)
def test_messages(message: Any) -> None:
    check_value(message, phpmq.decode(message.encode()))
    evaluates(message, phpmq=phpmq)


@given(st.lists(MESSAGES, max_size=6), st.integers(1, 70))
def test_a_stream_however_cut_and_as_columns(messages: list[Any], size: int) -> None:
    octets = b"".join(m.encode() for m in messages)
    decoder = phpmq.Decoder()
    assert [m for i in range(0, len(octets), size) for m in decoder.feed(octets[i : i + size])] == messages
    decoder.close()
    batch = phpmq.decode_batch(octets)
    assert batch["payload"].tolist() == [m.content_bytes() for m in messages]
    assert batch["kind"].tolist() == [m.kind for m in messages]


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    read_or_refused(phpmq, octets)


def test_what_cannot_be_built() -> None:
    build: Callable[[], object]
    for build in (
        lambda: phpmq.Message(message_type=1, packets=()),
        lambda: phpmq.ConsumeRequest(queue_name="q", message_count=1 << 63),
    ):
        with pytest.raises(EncodeError):
            build()


def test_hostile_sizes() -> None:
    with pytest.raises(LimitExceeded):
        phpmq.frame_size(b"H0100102P01" + b"9" * 29)
    with pytest.raises(Malformed):
        phpmq.frame_size(b"H0100102P01" + b"-" + b"0" * 27 + b"5")


def test_every_class_is_in_the_vectors() -> None:
    assert {row["decoded"]["message_type"] for row in of_kind("message")} >= {1, 2, 3, 4, 5}
