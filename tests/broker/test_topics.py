"""Routing by topic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirefmt import mqtt
from wirefmt.broker.topics import Sharing, TopicTree

NAMES = st.lists(st.sampled_from(["", "a", "b", "$a", "é"]), min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = st.tuples(
    st.lists(st.sampled_from(["", "a", "b", "$a", "+", "é"]), max_size=4), st.sampled_from([[], ["#"]])
).map(lambda parts: "/".join(parts[0] + parts[1]))


@given(st.lists(NAMES), st.lists(NAMES), FILTERS.filter(bool))
def test_a_tree_finds_what_a_filter_matches(topics: list[str], discarded: list[str], topic_filter: str) -> None:
    tree: TopicTree[str] = TopicTree()
    left = {}
    for topic in topics:
        tree.put(topic, topic.upper())
        left[topic] = topic.upper()
    for topic in discarded:
        tree.discard(topic)
        left.pop(topic, None)
    assert len(tree) == len(left)
    assert all(tree.get(topic) == value for topic, value in left.items())
    assert all(tree.get(topic) is None for topic in discarded if topic not in left)
    found = list(tree.match(topic_filter))
    assert len(found) == len(set(found))
    assert dict(found) == {t: v for t, v in left.items() if mqtt.matches(topic_filter, t)}
    for topic in list(left):
        tree.discard(topic)
    assert not tree._root.below


def test_members_take_turns_within_the_best_rank() -> None:
    sharing: Sharing[str] = Sharing()
    sharing.members = ["a", "b", "c"]
    assert [sharing.choose(lambda m: True) for _ in range(4)] == ["a", "b", "c", "a"]
    assert [sharing.choose(lambda m: m != "b") for _ in range(3)] == ["c", "a", "c"]
    assert sharing.choose(lambda m: False, lambda m: m == "b") == "b"
    assert sharing.choose(lambda m: False) is None
    sharing.members.remove("c")
    assert sharing.choose(lambda m: True) in ("a", "b")
    sharing.members.clear()
    assert sharing.choose(lambda m: True) is None
