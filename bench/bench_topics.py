"""How fast is a topic matched against one filter, and against many?

    python bench/bench_topics.py

Peers: paho-mqtt's `topic_matches_sub`, and its `MQTTMatcher` (a trie of dicts) with the same filters. The filters
are those of a plant: 20 % with `+`, 10 % with `#`; a name matches at most a few of them. paho's matcher keeps one value per
filter, so ours does, too.
"""

from __future__ import annotations

import random

from paho.mqtt.client import topic_matches_sub
from paho.mqtt.matcher import MQTTMatcher
from ratios import compare, versions

from wirefmt import mqtt

PAIRS = (
    ("plant/+/line7/sensor/+/temperature", "plant/berlin/line7/sensor/481/temperature"),
    ("plant/berlin/#", "plant/berlin/line7/sensor/481/temperature"),
    ("plant/berlin/line7/sensor/481/temperature", "plant/berlin/line7/sensor/481/temperature"),
    ("plant/+/line7/sensor/+/pressure", "plant/berlin/line7/sensor/481/temperature"),
)


def plant(count: int) -> tuple[list[str], list[str]]:
    """`count` different filters, and 1000 names."""
    choose = random.Random(1)

    def levels() -> list[str]:
        return [
            "plant",
            f"site{choose.randrange(20)}",
            f"line{choose.randrange(40)}",
            f"sensor{choose.randrange(500)}",
            choose.choice(["temperature", "pressure", "state", "alarm"]),
        ]

    filters: set[str] = set()
    while len(filters) < count:
        made = levels()
        kind = choose.random()
        if kind < 0.2:
            made[choose.randrange(1, 5)] = "+"
        elif kind < 0.3:
            made[choose.randrange(2, 5) :] = ["#"]
        filters.add("/".join(made))
    return sorted(filters), ["/".join(levels()) for _ in range(1000)]


def main() -> None:
    print(versions("wirefmt", "paho-mqtt"))

    def ours_pairs() -> None:
        for f, t in PAIRS:
            mqtt.matches(f, t)

    def paho_pairs() -> None:
        for f, t in PAIRS:
            topic_matches_sub(f, t)

    compare(
        "One filter, one topic",
        {"wirefmt matches": ours_pairs, "paho topic_matches_sub": paho_pairs},
        units=len(PAIRS),
        unit="match",
    )
    for count in (100, 10_000, 100_000):
        filters, names = plant(count)
        index: mqtt.TopicIndex[str] = mqtt.TopicIndex()
        matcher = MQTTMatcher()
        for f in filters:
            index.add(f, f)
            matcher[f] = f
        assert all(sorted(index.match(n)) == sorted(matcher.iter_match(n)) for n in names)
        found = sum(len(index.match(n)) for n in names)
        compare(
            f"{count} filters, {found / len(names):.1f} of them match",
            {
                "wirefmt TopicIndex": lambda i=index, n=names: [i.match(name) for name in n],
                "paho MQTTMatcher": lambda m=matcher, n=names: [list(m.iter_match(name)) for name in n],
            },
            units=len(names),
            unit="look-up",
        )

        def build_ours(filters: list[str] = filters) -> None:
            made: mqtt.TopicIndex[str] = mqtt.TopicIndex()
            for f in filters:
                made.add(f, f)

        def build_paho(filters: list[str] = filters) -> None:
            made = MQTTMatcher()
            for f in filters:
                made[f] = f

        compare(
            f"Building an index of {count} filters",
            {"wirefmt TopicIndex": build_ours, "paho MQTTMatcher": build_paho},
            units=count,
            unit="filter",
            rounds=3,
        )


if __name__ == "__main__":
    main()
