"""Routing by topic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirefmt import mqtt
from wirefmt.broker.topics import PUT, Sharing, TopicTree, Walk

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
    assert not tree._root.order


CHANGES = st.lists(st.tuples(st.sampled_from(["put", "discard", "step", "step", "step"]), NAMES), max_size=40)


@given(st.lists(NAMES, max_size=20), FILTERS.filter(bool), CHANGES)
def test_a_walk_goes_on_while_the_tree_changes(
    topics: list[str], topic_filter: str, changes: list[tuple[str, str]]
) -> None:
    tree: TopicTree[str] = TopicTree()
    for topic in topics:
        tree.put(topic, "old")
    owed = {topic for topic in topics if mqtt.matches(topic_filter, topic)}
    walk = Walk(tree, topic_filter)
    seen: list[str] = []

    def step() -> None:
        found = walk.step()
        if found is not None:
            assert found[1] == "old"
            seen.append(found[0])
            assert found[0] in owed
            owed.discard(found[0])

    for what, topic in changes:
        if what == "step" and not walk.done:
            step()
        elif what == "put":
            tree.put(topic, "new")
            owed.discard(topic)
        elif what == "discard":
            tree.discard(topic)
            owed.discard(topic)
        for each in {*topics, topic}:
            if mqtt.matches(topic_filter, each):
                assert (walk.ahead(each) == "old") is (each in owed)
    while not walk.done:
        step()
    assert not owed
    assert len(seen) == len(set(seen))


def test_a_walk_meets_each_of_many_levels_once_while_they_are_replaced() -> None:
    tree: TopicTree[int] = TopicTree()
    for number in range(1000):
        tree.put(f"a/{number}", number)
    walk = Walk(tree, "a/+")
    seen: list[int] = []
    for number in range(1000):
        tree.discard(f"a/{999 - number}" if number % 3 else f"a/{number}")
        tree.put(f"a/new {number}", -1)
        found = walk.step()
        if found is not None:
            seen.append(found[1])
    steps = 0
    while not walk.done:
        steps += 1
        found = walk.step()
        if found is not None:
            seen.append(found[1])
    assert seen == sorted(set(seen))
    assert seen[0] >= 0
    assert steps < 3000  # what is gone, and what came later, costs little


def test_members_take_turns_within_the_best_rank() -> None:
    sharing: Sharing[str] = Sharing(3)
    ranks = dict.fromkeys("abc", 0)

    def choose(denied: str = "") -> str | None:
        return sharing.choose(ranks.__getitem__, lambda user: user != denied)

    assert choose() is None
    for member in "abc":
        sharing.add(member, "ann" if member == "a" else "bob")
    assert len(sharing) == 3
    assert sorted(str(choose()) for _ in range(3)) == ["a", "b", "c"]
    assert (
        "".join(str(choose()) for _ in range(300)).count("b") == 100
    )  # users count as many times as they have members
    assert {choose("bob") for _ in range(3)} == {"a"}
    ranks["b"], ranks["c"] = 1, 2
    assert [choose() for _ in range(3)] == ["a"] * 3
    assert [choose("ann") for _ in range(3)] == ["b"] * 3
    assert sharing.discard("b") == "bob"
    assert [choose("ann") for _ in range(3)] == ["c"] * 3
    ranks["c"] = 0
    assert [choose() for _ in range(3)] == ["a"] * 3  # until it is restored
    sharing.move("c", 0)
    sharing.move("c", 0)
    assert {choose() for _ in range(2)} == {"a", "c"}
    sharing.discard("a")
    assert choose("bob") is None
    sharing.discard("c")
    assert choose() is None
    assert not sharing


def test_a_choice_looks_at_few_of_many_members() -> None:
    """However many cannot take a message, or may not have it: at most PUT of a rank, and each of them once."""
    sharing: Sharing[int] = Sharing(3)
    for member in range(10_000):
        sharing.add(member, "ann" if member < 9_000 else "bob")
    for _ in range(1000):
        assert sharing.choose(lambda member: 0, {"bob"}.__contains__) in range(9_000, 10_000)
    assert sharing.work <= 2 * 1000
    looks: list[int] = []
    while True:
        before = sharing.work
        found = sharing.choose(lambda member: 2 if member else 1, lambda user: True)
        looks.append(sharing.work - before)
        if found == 0 and looks[-1] < PUT:
            break
    assert max(looks) <= 2 * PUT
    assert sum(looks) < 12_000
    for _ in range(10):
        assert sharing.choose(lambda member: 2 if member else 1, lambda user: True) == 0
