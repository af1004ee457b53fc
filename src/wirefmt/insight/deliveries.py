"""What the rules of findings count of paths: how long messages took from publisher to consumer, and which did not arrive."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from wirefmt._core import some_rows
from wirefmt.batch import Batch
from wirefmt.insight.counts import SECOND
from wirefmt.spec.insight import PATHS

#: What takes so long may be an outlier, ns.
SLOW_NS: Final = SECOND // 10
#: Outliers that are kept of two connections.
KEPT_MAX: Final = 64
#: Missing messages that are kept of a destination; if there are more, nobody consumes it.
MISSING_MAX: Final = 1024
#: Messages of two connections, below which there is no rule.
FEW: Final = 20


class Slow(NamedTuple):
    """A message that took long."""

    latency_ns: int
    published_ns: int
    frame: int
    destination: str | None
    capture: str | None


class Missing(NamedTuple):
    """A message that no consumer is known to have got."""

    published_ns: int
    frame: int
    flow_id: int
    capture: str | None


class Place:
    """A destination and routing key."""

    __slots__ = ("delivered", "destination", "first_ns", "last_ns", "missing", "protocol", "unknown")

    def __init__(self, protocol: str | None, destination: str | None) -> None:
        self.protocol = protocol
        self.destination = destination
        self.delivered = 0
        self.first_ns = 1 << 63  # when the first and the last message were published that were delivered
        self.last_ns = -1
        self.missing: list[Missing] = []
        self.unknown = 0  # missing, but not kept


def quantile(histogram: Counter[int], part: float) -> int:
    """The step in which not less than this part of the durations end."""
    steps = sorted(histogram)
    seen = accumulate(histogram[step] for step in steps)
    return next(step for step, n in zip(steps, seen, strict=True) if n >= part * histogram.total())


class Deliveries:
    """Counts of one capture.

    Args:
        max_entries: how many keys are counted at most; others are dropped and counted in `dropped`.
    """

    def __init__(self, max_entries: int) -> None:
        self.max_entries = max_entries
        self.dropped = 0
        self.durations: dict[tuple[int, int], Counter[int]] = {}
        self.slow: dict[tuple[int, int], list[Slow]] = {}
        self.places: dict[int, Place] = {}

    def add(self, batch: Batch, places: bytes) -> None:
        """Look at a batch with all columns of PATHS. places: of each row a number of destination and routing key, as int64."""
        valid = batch.validity("deliver_flow_id")
        delivered = np.ones(batch.num_rows, np.bool_) if valid is None else np.asarray(valid)
        self._add_durations(batch, np.flatnonzero(delivered))
        self._add_places(batch, np.frombuffer(places, np.int64), delivered)

    def _add_durations(self, batch: Batch, chosen: Any) -> None:
        if not chosen.size:
            return
        latency = np.maximum(np.asarray(batch["latency_ns"])[chosen], 1)
        steps = (4 * np.log2(latency)).astype(np.int64)
        publishers, first = np.unique(np.asarray(batch["publish_flow_id"])[chosen], return_inverse=True)
        consumers, second = np.unique(np.asarray(batch["deliver_flow_id"])[chosen], return_inverse=True)
        pairs, numbers = np.unique(first * consumers.size + second, return_inverse=True)
        keys = [(int(publishers[n // consumers.size]), int(consumers[n % consumers.size])) for n in pairs.tolist()]
        both, counts = np.unique(numbers * 256 + steps, return_counts=True)
        for one, n in zip(both.tolist(), counts.tolist(), strict=True):
            key = keys[one // 256]
            if key not in self.durations and len(self.durations) >= self.max_entries:
                self.dropped += n
                continue
            self.durations.setdefault(key, Counter())[one % 256] += n
        late = np.flatnonzero(latency >= SLOW_NS)
        if late.size > 4096:
            late = late[np.argpartition(latency[late], late.size - 4096)[-4096:]]
        slow: dict[tuple[int, int], list[Slow]] = {}
        for i, known in zip(late.tolist(), _told(batch, chosen[late]), strict=True):
            one = Slow(int(latency[i]), known.published_ns, known.frame, known.destination, known.capture)
            slow.setdefault(keys[numbers[i]], []).append(one)
        for key, of in slow.items():
            if key in self.durations:
                self.slow[key] = nlargest(KEPT_MAX, [*self.slow.get(key, ()), *of], key=lambda one: one[:3])

    def _add_places(self, batch: Batch, numbers: Any, delivered: Any) -> None:
        found, first, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        times = np.asarray(batch["publish_ts_ns"])
        places = self._places(batch, found, first)
        sorted_ = np.lexsort((times, numbers))
        sorted_ = sorted_[delivered[sorted_]]
        ends = np.cumsum(np.bincount(numbers[delivered], minlength=len(places)))
        for place, start, end in zip(places, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            if place is not None and end > start:
                place.delivered += end - start
                place.first_ns = min(place.first_ns, int(times[sorted_[start]]))
                place.last_ns = max(place.last_ns, int(times[sorted_[end - 1]]))
        left = np.flatnonzero(~delivered)
        kept: list[tuple[int, Place]] = []
        taken: Counter[int] = Counter()
        for i, n in zip(left.tolist(), numbers[left].tolist(), strict=True):
            place = places[n]
            if place is not None and len(place.missing) + taken[n] < MISSING_MAX:
                taken[n] += 1
                kept.append((i, place))
            elif place is not None:
                place.unknown += 1
        for (_, place), known in zip(kept, _told(batch, (i for i, _ in kept)), strict=True):
            place.missing.append(Missing(known.published_ns, known.frame, known.flow_id, known.capture))

    def _places(self, batch: Batch, numbers: Any, first: Any) -> list[Place | None]:
        """The places with these numbers; None: there are too many. first: a row of each."""
        new = [i for i in np.argsort(first).tolist() if int(numbers[i]) not in self.places]
        room = max(self.max_entries - len(self.places), 0)
        self.dropped += len(new[room:])
        kept = new[:room]
        for i, told in zip(kept, _told(batch, first[kept]), strict=True):
            self.places[int(numbers[i])] = Place(told.protocol, told.destination)
        return [self.places.get(number) for number in numbers.tolist()]

    def lost(self, explained: set[tuple[int, int]]) -> Iterator[tuple[str | None, Place, list[Missing]]]:
        """Destinations, and messages of them that did not arrive, although earlier and later ones did."""
        for place in self.places.values():
            if place.protocol == "rocketmq" or place.unknown:
                continue  # consumers choose by tags; nobody consumes them
            lost = [
                one
                for one in place.missing
                if place.first_ns < one.published_ns < place.last_ns and (one.flow_id, one.frame) not in explained
            ]
            if lost:
                yield place.destination, place, sorted(lost)


class Known(NamedTuple):
    """What a finding says of a publish."""

    published_ns: int
    frame: int
    flow_id: int
    destination: str | None
    capture: str | None
    protocol: str | None


_KNOWN: Final = (
    "publish_ts_ns", "publish_frame", "publish_flow_id", "publish_destination", "publish_capture", "publish_protocol",
)  # fmt: skip


def _told(batch: Batch, chosen: Iterable[int]) -> list[Known]:
    """Of these rows."""
    numbers = array("q", (int(i) for i in chosen))
    if not numbers:
        return []
    part = some_rows(batch, numbers, PATHS, _KNOWN)
    rows = zip(*(_cells(part, name) for name in _KNOWN), strict=True)
    return [Known(time, -1 if frame is None else frame, *rest) for time, frame, *rest in rows]


def _cells(batch: Any, name: str) -> list[Any]:
    values: list[Any] = batch[name].tolist()
    valid = batch.validity(name)
    return values if valid is None else [value if ok else None for value, ok in zip(values, valid, strict=True)]
