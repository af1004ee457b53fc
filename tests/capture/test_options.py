"""`capture.Options`: the options of reading, as one value or as keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pyarrow as pa
import pytest

from lib.paths import ROOT
from wirefmt import capture
from wirefmt.capture import Options

SAMPLE = ROOT / "samples" / "mosquitto-paho-v5.pcap"


def test_keywords_are_the_fields() -> None:
    words = {p.name: p.default for p in inspect.signature(capture.read).parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert words == {f.name: f.default for f in fields(Options)}


def test_one_value_or_keywords() -> None:
    given: dict[str, Any] = {"columns": ["kind", "payload"], "payload_max": 3, "protocols": ["mqtt"]}
    by_words = pa.table(capture.read(SAMPLE, **given))
    assert by_words == pa.table(capture.read(SAMPLE, Options(**given)))
    assert by_words != pa.table(capture.read(SAMPLE, replace(Options(**given), payload_max=4)))
    with pytest.raises(TypeError, match="not both"):
        capture.read(SAMPLE, Options(), payload=False)  # type: ignore[call-overload]
    calls: list[Callable[[], object]] = [
        lambda: capture.read(SAMPLE, colums=["kind"]),  # type: ignore[call-overload]
        lambda: capture.CaptureDecoder(colums=["kind"]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="colums"):
            call()
    with pytest.raises(FrozenInstanceError):
        Options().payload = False  # type: ignore[misc]


@pytest.mark.parametrize("name", ["raw", "detail"])
def test_naming_a_column_is_asking_for_it(name: str) -> None:
    def filled(**given: Any) -> int:
        column = pa.table(capture.read(SAMPLE, **given)).column(name)
        return len(column) - int(column.null_count)

    assert filled() == filled(columns=["kind", name], **{name: False}) == 0
    assert filled(columns=["kind", name]) == filled(**{name: True}) > 50


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"strictness": "mild"}, "strictness must be 'lax' or 'strict', not 'mild'"),
        ({"flows": "some"}, "flows must be 'auto' or 'in-file' or 'across-files'"),
        ({"batch_rows": 0}, "must be at least 1"),
        ({"batch_bytes": 0}, "must be at least 1"),
        ({"payload_max": -1}, "payload_max must be at least 0, not -1"),
        ({"slice": (2, 2)}, "slice must be"),
        ({"protocols": ["mqqt"]}, "no protocol 'mqqt'; did you mean mqtt"),
        ({"decode_as": "tcp.port==1,mqqt"}, "decode_as .*: no protocol 'mqqt'"),
        ({"decode_as": ["udp.port==1,mqtt"]}, "decode_as must be like"),
        ({"limits": {"max_flow": 1}}, "no limit 'max_flow'"),
        ({"limits": {"max_flows": 0}}, "at least 1"),
        ({"limits": {"max_message": (1 << 28) + 1}}, "at most 268435456"),
    ],
)
def test_a_value_is_checked_at_once(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Options(**given)
