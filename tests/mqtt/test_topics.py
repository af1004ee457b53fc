"""MQTT topic names, filters and matching: MQTT 5.0 sections 4.7 and 4.8.2, 3.1.1 section 4.7, 3.1 appendix A."""

from __future__ import annotations

import gc
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lib.paths import VECTORS
from wirefmt import mqtt
from wirefmt.errors import EncodeError


def rows(kind: str) -> list[Any]:
    def text(v: Any) -> Any:
        return "".join(part * times for part, times in v["rle"]) if isinstance(v, dict) else v

    with open(VECTORS / "mqtt" / "topics.jsonl", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [
        pytest.param(r["version"], text(r["filter"]), text(r["topic"]), r, id=r["id"])
        for r in found
        if r["kind"] == kind
    ]


def naive(filter: str, topic: str, version: int) -> bool:
    """The rules, word for word: 4.7.1.2, 4.7.1.3, 4.7.2, 4.8.2."""
    if version == 5 and filter.startswith("$share/"):
        filter = filter.split("/", 2)[2]
    if version > 3 and topic.startswith("$") and filter[0] in "+#":
        return False
    levels, names = filter.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels.pop()
        if len(names) < len(levels):
            return False
        names = names[: len(levels)]
    return len(levels) == len(names) and all(a in ("+", b) for a, b in zip(levels, names, strict=True))


# ---- vectors


@pytest.mark.parametrize(("version", "filter", "topic", "row"), rows("match"))
def test_match(version: int, filter: str, topic: str, row: dict[str, Any]) -> None:
    mqtt.validate_topic_filter(filter, version)
    mqtt.validate_topic_name(topic, version)
    assert mqtt.matches(filter, topic, version) is row["match"]
    assert mqtt.matches(filter.encode(), bytearray(topic.encode()), version=version) is row["match"]
    index: mqtt.TopicIndex[int] = mqtt.TopicIndex(version)
    index.add(filter, 1)
    assert index.match(topic) == [1] * row["match"]
    assert naive(filter, topic, version) is row["match"]


def statement(text: str) -> str | None:
    found = re.search(r"\[(MQTT-[\d.]+-\d+)\]", text)
    return found[1] if found else None


#: Where the row names another statement than we do: `+#` breaks the rule of both wildcards, and what a ShareName may
#: hold is 4.8.2-2.
OTHER_STATEMENT = {("+#", 4): "MQTT-4.7.1-3", ("+#", 5): "MQTT-4.7.1-2", ("$share/#", 5): "MQTT-4.8.2-2"}


@pytest.mark.parametrize(("version", "filter", "topic", "row"), rows("filter"))
def test_filter(version: int, filter: str, topic: str | None, row: dict[str, Any]) -> None:
    if row["filter_valid"]:
        mqtt.validate_topic_filter(filter, version)
        mqtt.validate_topic_filter(memoryview(filter.encode()), version)
        return
    with pytest.raises(EncodeError) as error:
        mqtt.validate_topic_filter(filter, version)
    assert statement(str(error.value)) == OTHER_STATEMENT.get((filter, version), statement(row["reason"]))
    index: mqtt.TopicIndex[str] = mqtt.TopicIndex(version)
    for refused in (mqtt.matches, index.add):
        with pytest.raises(EncodeError):
            refused(filter, "a")


@pytest.mark.parametrize(("version", "filter", "topic", "row"), rows("topic"))
def test_name(version: int, filter: str | None, topic: str, row: dict[str, Any]) -> None:
    if row["topic_valid"]:
        mqtt.validate_topic_name(topic, version)
        return
    with pytest.raises(EncodeError) as error:
        mqtt.validate_topic_name(topic, version)
    assert version == 3 or statement(str(error.value)) == statement(row["reason"])


# ---- what the rows leave out


@pytest.mark.parametrize(
    ("octets", "offset"),
    [(b"a\xff", 1), (b"\xc0\x80", 0), (b"ab/\xed\xa0\x80", 3), (b"0123456789\xe2\x82", 10), (b"\xf4\x90\x80\x80", 0)],
)
def test_octets_that_are_not_utf8(octets: bytes, offset: int) -> None:
    for check in (mqtt.validate_topic_name, mqtt.validate_topic_filter):
        with pytest.raises(EncodeError, match=rf"byte {offset} \[MQTT-1.5.4-1\]"):
            check(octets)


def test_surrogates_in_text() -> None:
    check: Callable[[str], object]
    for check in (mqtt.validate_topic_name, mqtt.validate_topic_filter, mqtt.TopicIndex().match):
        with pytest.raises(EncodeError, match=r"MQTT-1\.5\.4-1"):
            check("a\ud800")


@pytest.mark.parametrize("check", [mqtt.validate_topic_name, mqtt.validate_topic_filter])
def test_length(check: Any) -> None:
    check("x" * 65535)
    check("é" * 32767)
    for long in ("x" * 65536, "é" * 32768):
        with pytest.raises(EncodeError, match=r"MQTT-4\.7\.3-3"):
            check(long)


@pytest.mark.parametrize("at", range(20))
@pytest.mark.parametrize("wildcard", "+#")
def test_a_wildcard_is_found_anywhere_in_a_name(at: int, wildcard: str) -> None:
    name = '\x0b\x03\xa3k*,"c\x1b/abc\xabefghijkl'[:20]  # octets that differ from the wildcards by one bit among them
    mqtt.validate_topic_name(name)
    with pytest.raises(EncodeError, match=rf"byte {len(name[:at].encode())} \[MQTT-3.3.2-2\]"):
        mqtt.validate_topic_name(name[:at] + wildcard + name[at + 1 :])


def test_shared_subscriptions() -> None:
    assert mqtt.parse_shared("$share/consumer/sport/+/é") == ("consumer", "sport/+/é")
    assert mqtt.parse_shared(b"$share/g//#") == ("g", "/#")
    assert mqtt.parse_shared("sport/#") is None
    assert mqtt.parse_shared("$shared/g/t") is None
    assert mqtt.parse_shared("$share/g/t", version=4) is None
    for bad in ("$share", "$share/", "$share//t", "$share/g", "$share/g/", "$share/g+/t", "$share/+/t", "$share/g/a#"):
        with pytest.raises(EncodeError):
            mqtt.parse_shared(bad)


@pytest.mark.parametrize("version", [-1, 0, 2, 6, 50])
def test_unknown_versions(version: int) -> None:
    call: Callable[[], object]
    for call in (
        lambda: mqtt.matches("a", "a", version),
        lambda: mqtt.validate_topic_name("a", version),
        lambda: mqtt.validate_topic_filter("a", version),
        lambda: mqtt.parse_shared("a", version),
        lambda: mqtt.TopicIndex(version),
    ):
        with pytest.raises(ValueError, match="version"):
            call()


def test_types() -> None:
    for wrong in (None, 3, ["a"]):
        with pytest.raises(TypeError):
            mqtt.matches(wrong, "a")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            mqtt.matches("a", wrong)  # type: ignore[arg-type]


def test_topics_are_taken_as_they_are() -> None:
    """A capture may hold names that break the rules; they are matched octet by octet."""
    assert mqtt.matches("a/+", "a/#")
    assert mqtt.matches("a/#", b"a/\xff\x00")
    assert mqtt.matches("#", "")
    assert not mqtt.matches("a/b", "a/+")


# ---- against the naive matcher

LEVEL = st.text(alphabet="ab$é/", max_size=3)
NAME = st.one_of(
    st.lists(LEVEL, min_size=1, max_size=6).map("/".join).filter(bool),
    st.sampled_from(["$SYS/a", "$", "/", "//", "$share/g/a", "a"]),
)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.one_of(st.just("+"), st.text(alphabet="ab$é", max_size=2)), min_size=1, max_size=6))
    if draw(st.booleans()):
        levels.append("#")
    text = "/".join(levels)
    if text.startswith("$share") or not text:
        text = "a/" + text
    return draw(st.sampled_from(["", "", "$share/g/", "$share/h1/"])) + text


@given(filters(), NAME, st.sampled_from([3, 4, 5]))
def test_matching_is_what_the_rules_say(filter: str, name: str, version: int) -> None:
    assert mqtt.matches(filter, name, version) is naive(filter, name, version)


@st.composite
def filter_for(draw: st.DrawFn) -> tuple[str, str]:
    """A name, and a filter made of it: most match."""
    name = draw(NAME)
    levels = [draw(st.sampled_from([level, level, "+"])) for level in name.split("/")]
    cut = draw(st.integers(0, len(levels)))
    levels = draw(st.sampled_from([levels, [*levels[:cut], "#"], levels[:cut] or ["#"]]))
    return "/".join(levels) or "#", name


@given(filter_for(), st.sampled_from([3, 4, 5]))
@example(("$share", "$share/g/a"), 5)
@example(("$share/g/a", "$share/g/a"), 5)
@example(("$share/g/a", "$share/g/a"), 4)
def test_matching_of_filters_made_of_the_name(pair: tuple[str, str], version: int) -> None:
    filter, name = pair
    if version == 5 and filter.split("/")[0] == "$share" and not naive_filter_valid(filter, 5):
        with pytest.raises(EncodeError, match=r"MQTT-4\.8\.2"):
            mqtt.matches(filter, name, version)
    else:
        assert mqtt.matches(filter, name, version) is naive(filter, name, version)


def test_a_shared_filter_is_compared_without_its_share_name() -> None:
    """4.8.2: `$share` marks a Shared Subscription, and the filter is what follows the ShareName; 4.7.2: a Topic Name that
    begins with `$` is a name like others, and no wildcard at the first level matches it. Before 5.0 `$share` has no meaning."""
    assert mqtt.matches("$share/g/a", "a", 5)
    assert not mqtt.matches("$share/g/a", "$share/g/a", 5)
    assert mqtt.matches("$share/x/$share/g/a", "$share/g/a", 5)
    assert not mqtt.matches("$share/g/#", "$share/g/a", 5)
    assert not mqtt.matches("#", "$share/g/a", 5)
    for version in (3, 4):
        assert mqtt.matches("$share/g/a", "$share/g/a", version)
        assert not mqtt.matches("$share/g/a", "a", version)
        assert mqtt.matches("$share", "$share", version)
    for filter in ("$share", "$share/", "$share/g", "$share//a"):
        with pytest.raises(EncodeError, match=r"MQTT-4\.8\.2"):
            mqtt.matches(filter, "$share", 5)


def naive_filter_valid(text: str, version: int) -> bool:
    if not text or "\0" in text:
        return False
    levels = text.split("/")
    if version == 5 and levels[0] == "$share":
        return (
            len(levels) > 2
            and bool(levels[1])
            and not set(levels[1]) & set("+#")
            and naive_filter_valid("/".join(levels[2:]), 4)
        )
    return all(level == "+" or not set(level) & set("+#") or (level == "#" and i == len(levels) - 1)
               for i, level in enumerate(levels))  # fmt: skip


@given(
    st.text(alphabet="a$+#/\0é", max_size=12) | st.text(alphabet="+#/g").map("$share/".__add__),
    st.sampled_from([3, 4, 5]),
)
@settings(max_examples=300)
def test_validity_is_what_the_rules_say(text: str, version: int) -> None:
    try:
        mqtt.validate_topic_filter(text, version)
        valid = True
    except EncodeError:
        valid = False
    assert valid is naive_filter_valid(text, version)
    try:
        mqtt.validate_topic_name(text, version)
        valid = True
    except EncodeError:
        valid = False
    assert valid is (bool(text) and not set(text) & set("+#\0"))


# ---- the index


class IndexMachine(RuleBasedStateMachine):
    """An index against a dict of filters: adding, discarding and matching in any order."""

    @initialize(version=st.sampled_from([3, 4, 5]))
    def start(self, version: int) -> None:
        self.version = version
        self.index: mqtt.TopicIndex[int] = mqtt.TopicIndex(version)
        self.model: set[tuple[str, int]] = set()

    @rule(filter=filters(), value=st.integers(0, 3))
    def add(self, filter: str, value: int) -> None:
        assert self.index.add(filter, value) is ((filter, value) not in self.model)
        self.model.add((filter, value))

    @rule(filter=filters(), value=st.integers(0, 3))
    def discard_any(self, filter: str, value: int) -> None:
        assert self.index.discard(filter, value) is ((filter, value) in self.model)
        self.model.discard((filter, value))

    @rule(data=st.data())
    def discard_one(self, data: st.DataObject) -> None:
        if self.model:
            pair = data.draw(st.sampled_from(sorted(self.model)))
            assert self.index.discard(*pair) is True
            self.model.remove(pair)

    @rule(name=NAME)
    def match(self, name: str) -> None:
        expected = Counter(value for filter, value in self.model if naive(filter, name, self.version))
        assert Counter(self.index.match(name)) == expected

    @invariant()
    def length(self) -> None:
        assert not hasattr(self, "index") or len(self.index) == len(self.model)


TestIndex = IndexMachine.TestCase


def test_index_keeps_shared_and_plain_apart() -> None:
    index: mqtt.TopicIndex[str] = mqtt.TopicIndex()
    for filter in ("a/+", "$share/g/a/+", "$share/h/a/+"):
        assert index.add(filter, "one")
    assert index.match("a/b") == ["one"] * 3
    assert index.discard("$share/g/a/+", "one")
    assert not index.discard("$share/g/a/+", "one")
    assert index.match("a/b") == ["one"] * 2
    assert index.discard("a/+", "one")
    assert index.match("a/b") == ["one"]


def test_index_of_many_filters_against_the_naive_matcher() -> None:
    choose = random.Random(5)
    words = ["a", "b", "c", "", "+", "$x", "é"]
    made = {"/".join(choose.choice(words) for _ in range(choose.randint(1, 6))) for _ in range(3000)} - {""}
    made |= {f"{f}/#" for f in list(made)[::7]} | {f"$share/{k % 5}/{f}" for k, f in enumerate(list(made)[::5])} | {"#"}
    index: mqtt.TopicIndex[str] = mqtt.TopicIndex()
    for f in made:
        index.add(f, f)
    for _ in range(200):
        name = (
            "/".join(choose.choice(["a", "b", "c", "", "$x", "é", "new"]) for _ in range(choose.randint(1, 7))) or "a"
        )
        assert sorted(index.match(name)) == sorted(f for f in made if naive(f, name, 5))
    for f in list(made)[::2]:
        index.discard(f, f)
    left = list(made)[1::2]
    for name in ("a/b/c", "a", "$x/a", "/a", "a//b", "é/b/c/a/b/b"):
        assert sorted(index.match(name)) == sorted(f for f in left if naive(f, name, 5))
    for f in left:
        index.discard(f, f)
    assert len(index) == 0
    assert index.match("a/b") == []


def test_index_with_the_deepest_topics() -> None:
    """65,535 octets of separators are 65,536 levels: no recursion, and a cost of levels and filters only."""
    index: mqtt.TopicIndex[str] = mqtt.TopicIndex()
    deepest = "/" * 65535
    deep_plus = "+/" * 32767 + "+"
    for filter in (deepest, deep_plus, "+/" * 32766 + "#", "/" * 65534 + "#"):
        index.add(filter, filter)
    assert sorted(index.match(deepest)) == sorted([deepest, "+/" * 32766 + "#", "/" * 65534 + "#"])
    assert sorted(index.match("a/" * 32767 + "a")) == sorted([deep_plus, "+/" * 32766 + "#"])
    assert mqtt.matches(deep_plus, "a/" * 32767 + "a")
    for filter in (deepest, deep_plus, "+/" * 32766 + "#", "/" * 65534 + "#"):
        assert index.discard(filter, filter)
    assert index.match(deepest) == []


def test_index_values() -> None:
    index = mqtt.TopicIndex[object](version=5)
    with pytest.raises(TypeError):
        index.add("a", [])
    assert len(index) == 0
    value = object()
    assert index.add("a", value)
    assert not index.add("a", value)
    assert index.match("a") == [value]


class Meddler:
    """A value whose comparison changes the index it is in."""

    def __init__(self, index: mqtt.TopicIndex[Any]) -> None:
        self.index = index

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        index, self.index = self.index, mqtt.TopicIndex()
        for filter in ("a/b/c", "a/b", "a"):
            for value in index.match(filter):
                index.discard(filter, value)
        index.add("a/b/c/d", 2)
        return False


def test_index_changed_by_its_own_values() -> None:
    for _ in range(50):
        index: mqtt.TopicIndex[Any] = mqtt.TopicIndex()
        first = Meddler(index)
        index.add("a/b/c", first)
        index.add("a/b/c", Meddler(index))
        index.discard("a/b/c", Meddler(index))
        index.match("a/b/c/d")
        del first
        gc.collect()


def test_index_raises_what_comparison_raises() -> None:
    class Angry:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

    index: mqtt.TopicIndex[Any] = mqtt.TopicIndex()
    index.add("a/b", Angry())
    with pytest.raises(RuntimeError):
        index.add("a/b", Angry())
    with pytest.raises(RuntimeError):
        index.discard("a/b", Angry())
    assert len(index.match("a/b")) == len(index) == 1


def test_index_gives_values_back() -> None:
    class Value:
        alive = 0

        def __init__(self) -> None:
            Value.alive += 1

        def __del__(self) -> None:
            Value.alive -= 1

    index: mqtt.TopicIndex[Value] = mqtt.TopicIndex()
    for k in range(100):
        index.add(f"a/{k}/+", Value())
    for value in index.match("a/5/x"):
        index.discard("a/5/+", value)
    del value
    assert Value.alive == 99
    del index
    gc.collect()
    assert Value.alive == 0
