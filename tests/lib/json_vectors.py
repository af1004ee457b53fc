"""Vectors in tests/vectors/*/public.jsonl, as dictionaries."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from lib.paths import VECTORS


@cache
def load(folder: str) -> tuple[dict[str, Any], ...]:
    lines = (VECTORS / folder / "public.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]
