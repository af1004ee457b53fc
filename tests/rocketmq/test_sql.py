"""Filter expressions in SQL92: the real broker's own results, its limits and ours."""

from __future__ import annotations

import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.paths import DATA
from lib.rocketmq_sql import example
from wirefmt.rocketmq import SqlFilter
from wirefmt.rocketmq.sql import DEPTH_MAX, LENGTH_MAX

LINES = (DATA / "rocketmq" / "sql.jsonl").read_text().splitlines()


def result(expression: str, properties: dict[str, str]) -> str:
    try:
        return str(SqlFilter(expression).matches(properties)).lower()
    except ValueError:
        return "bad"


def test_results_are_those_of_the_real_broker() -> None:
    rows = [json.loads(line) for line in LINES]
    assert {row["result"] for row in rows} == {"bad", "true", "false"}
    wrong = [row for row in rows if result(row["expression"], row["properties"]) != row["result"]]
    assert not wrong


@given(st.integers(0, 1 << 32))
def test_any_expression_is_parsed_or_refused(seed: int) -> None:
    expression, properties = example(random.Random(seed))
    assert result(expression, properties) in ("bad", "true", "false")


@given(st.text(string.printable + "ü'", max_size=40), st.dictionaries(st.sampled_from("abc"), st.text(max_size=5)))
def test_any_text_is_parsed_or_refused(expression: str, properties: dict[str, str]) -> None:
    assert result(expression, properties) in ("bad", "true", "false")


@pytest.mark.parametrize(
    ("begin", "end"), [("(", ")"), ("NOT ", ""), ("+", ""), ("(NOT ", ")")], ids=["parentheses", "NOT", "plus", "both"]
)
def test_nesting_is_bounded(begin: str, end: str) -> None:
    deep = DEPTH_MAX // 2 - 2
    SqlFilter(begin * deep + "(a = 1)" + end * deep).matches({"a": "1"})
    for times in (DEPTH_MAX + 1, 10_000):
        with pytest.raises(ValueError, match="levels"):
            SqlFilter(begin * times + "a = 1" + end * times)


def test_chains_of_comparisons_are_nesting() -> None:
    SqlFilter("a = 1" + " IS NULL" * (DEPTH_MAX - 2)).matches({"a": "1"})
    for more in (" IS NULL", " = b", " CONTAINS 'x'", " <> b"):
        with pytest.raises(ValueError, match="levels"):
            SqlFilter("a = 1" + more * 5000)


def test_long_lists_are_not_nesting() -> None:
    terms = LENGTH_MAX // 12
    assert SqlFilter("a = 1" + " OR a = 2" * (terms // 2)).matches({"a": "2"})
    assert SqlFilter("a > 1" + " AND a > 1" * (terms // 2)).matches({"a": "2"})
    assert SqlFilter("a IN ('x'" + ",'y'" * terms + ")").matches({"a": "y"})


def test_an_expression_has_a_length() -> None:
    SqlFilter("a = 1".ljust(LENGTH_MAX))
    with pytest.raises(ValueError, match="characters"):
        SqlFilter("a = 1".ljust(LENGTH_MAX + 1))


@pytest.mark.parametrize(
    "value", ["9" * 30_000, "0" * 30_000 + "1", "1" * 30_000 + "e5", "0x" + "f" * 30_000 + "p99999"]
)
def test_long_numbers_are_compared(value: str) -> None:
    for expression in ("a = 1", "a > 1.5", "a < b", "a = 3000000000"):
        assert SqlFilter(expression).matches({"a": value, "b": value}) in (True, False)


@pytest.mark.parametrize("text", ["/*" + "*" * 60_000, "-- " + "x" * 60_000, "'" * 60_001, "'" + "a''" * 20_000, "1" * 60_000,
                                  "1." + "1" * 60_000 + "e", "+" * 60_000, "/**/" * 15_000])  # fmt: skip
def test_long_tokens_are_refused_in_linear_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|does not begin a token|levels|out of range of a long|neither true"):
        SqlFilter(text)
