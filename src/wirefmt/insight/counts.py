"""What the rules of findings count of operations, as they complete.

Most operations are of no interest, and the engine does not pass them on: `may_be_counted` (state.pxi) says which a rule may
count. Of these the rows that a rule wants are chosen with NumPy, and counted by connection or by a key. The counts do not depend
on the order of the connections, so threads and sizes of batches change nothing.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wirefmt._core import some_rows
from wirefmt.batch import Batch
from wirefmt.insight._engine import codes_of
from wirefmt.spec.insight import KINDS, OPERATIONS, OUTCOMES
from wirefmt.spec.rules import RULES

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Row = Mapping[str, Any]

SECOND: Final = 1_000_000_000
TICK: Final = SECOND // 100
MINUTE: Final = 60 * SECOND
#: Frames of evidence in a finding.
FRAMES_MAX: Final = 10
#: Ticks for which one count remembers how many there were.
TICKS_MAX: Final = 8192

#: Columns of an operation that findings and their sentences need.
_WANTED: Final = (
    "protocol", "flow_id", "capture", "client_ip", "client_port", "client_id", "direction", "channel", "link", "sequence",
    "destination", "queue", "consumer_group", "kind", "message_kind", "message_id", "payload_hash", "ttl_ms", "death_reason",
    "death_queue", "request_frame", "response_frame", "outcome", "code", "text", "resumed_from",
)  # fmt: skip
#: Columns that a finding takes from its first operation.
WHO: Final = ("protocol", "flow_id", "client_ip", "client_port", "client_id", "destination", "queue", "message_id")


#: Texts of columns that are compared as numbers.
_CODED: Final = {
    "kind": KINDS,
    "outcome": OUTCOMES,
    "protocol": ("mqtt", "amqp091", "amqp10", "rocketmq", "nsq", "phpmq"),
    "death_reason": ("expired",),
}
_NUMBER: Final = {name: {text: i for i, text in enumerate(texts)} for name, texts in _CODED.items()}

#: Codes that refuse a login because of its credentials.
_CREDENTIALS: Final = {"mqtt": (4, 5, 0x86, 0x87, 0x8C), "amqp091": (403,), "amqp10": (1,)}
#: Codes that refuse a request for want of a permission.
PERMISSION: Final = {"mqtt": (0x87,), "amqp091": (403,), "rocketmq": (16,)}
#: The last three are exceptions that RocketMQ 4 and 5 name in the remark, some of them with the code of any error.
_PERMISSION_WORDS: Final = (
    "unauthorized", "not-allowed", "e_auth_failed", "e_auth_first", "access_refused", "aclexception", "authenticationexception",
    "authorizationexception",
)  # fmt: skip
_ROCKETMQ_BUSY: Final = (2, 215)
_ROCKETMQ_OFFSET_MOVED: Final = 21
_ROCKETMQ_NO_TOPIC: Final = 17
_MQTT_NO_SUBSCRIBER: Final = 0x10
_AMQP_SUCCESS: Final = (None, 0, 200)


class Rows:
    """The columns of a batch of operations, each made when a rule asks for it."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._made: dict[Any, Any] = {}
        self._rows: dict[int, dict[str, Any]] = {}

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def has(self, name: str) -> Mask:
        """Where a column is not null."""
        valid = self._once(("has", name), lambda: self.batch.validity(name))
        return np.ones(self.batch.num_rows, np.bool_) if valid is None else valid

    def number(self, name: str, absent: int = -1) -> Numbers:
        """A column of integers; `absent` where it is null."""

        def make() -> Numbers:
            values: Numbers = np.asarray(self.batch[name])
            valid = self.batch.validity(name)
            return values if valid is None else np.where(valid, values, absent)

        return self._once((name, absent), make)  # type: ignore[no-any-return]

    def true(self, name: str) -> Mask:
        return self._once(("true", name), lambda: self.batch[name].astype(np.bool_) & self.has(name))  # type: ignore[no-any-return]

    def _is(self, column: str, texts: tuple[str, ...]) -> Mask:
        """Where a column has one of these texts."""

        def make() -> Mask:
            coded = self._once(
                ("coded", column), lambda: np.frombuffer(codes_of(self.batch, column, _CODED[column]), np.int8)
            )
            found: Mask = coded == _NUMBER[column][texts[0]]
            for text in texts[1:]:
                found |= coded == _NUMBER[column][text]
            return found

        return self._once((column, texts), make)  # type: ignore[no-any-return]

    def kind(self, *names: str) -> Mask:
        return self._is("kind", names)

    def outcome(self, *names: str) -> Mask:
        return self._is("outcome", names)

    def death(self, *reasons: str) -> Mask:
        return self._is("death_reason", reasons)

    def protocol(self, name: str) -> Mask:
        return self._is("protocol", (name,))

    @cached_property
    def time(self) -> Numbers:
        """When each began; when it was answered if that was not captured. Nanoseconds."""
        started = self.number("started_ns")
        completed = self.batch["completed"].view(np.int64) * 1000
        return np.where(self.has("started_ns"), started, completed)

    @cached_property
    def frame(self) -> Numbers:
        request = self.number("request_frame")
        return np.where(request >= 0, request, self.number("response_frame"))

    @cached_property
    def failed(self) -> Mask:
        """Refused requests, and ends by the server."""
        ends: Mask = self.kind("close") & (self.number("direction") == 1)
        return self.outcome("refused") | ends

    @cached_property
    def published(self) -> Mask:
        return self.kind("publish")

    @cached_property
    def delivered(self) -> Mask:
        return self.kind("deliver")

    @cached_property
    def qos2(self) -> Mask:
        return np.equal(self.number("qos"), 2)

    def rows(self, chosen: Iterable[int]) -> list[dict[str, Any]]:
        """These rows as dicts of the columns that findings need."""
        indices = [int(i) for i in chosen]
        missing = [i for i in indices if i not in self._rows]
        if missing:
            part = some_rows(self.batch, array("q", missing), OPERATIONS, _WANTED)
            columns = []
            for name in _WANTED:
                values, valid = part[name].tolist(), part.validity(name)
                columns.append(
                    values if valid is None else [v if ok else None for v, ok in zip(values, valid, strict=True)]
                )
            for i, values in zip(missing, zip(*columns, strict=True), strict=True):
                self._rows[i] = dict(zip(_WANTED, values, strict=True))
        return [self._rows[i] for i in indices]


class Found:
    """What a rule has counted of one key."""

    __slots__ = ("biggest", "count", "evidence", "first", "ticks", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0  # of what the rule measures
        self.biggest = -1
        self.first: Row = {}
        self.evidence: list[tuple[int, int, int, str]] = []  # time, frame, frame of the answer, capture; the earliest
        self.ticks: Counter[int] = Counter()  # how many in each tick

    @property
    def time(self) -> int:
        return self.evidence[0][0]

    @property
    def frames(self) -> list[int]:
        capture = self.evidence[0][3]
        numbers = {n for _, request, answer, of in self.evidence if of == capture for n in (request, answer) if n >= 0}
        return sorted(numbers)[:FRAMES_MAX]

    def before(self, time: int) -> int:
        """How many there were before a time."""
        return sum(n for tick, n in self.ticks.items() if (tick + 1) * TICK <= time)

    def most_within(self, span: int) -> int:
        """The most within a span of time."""
        return most_within(sorted(self.ticks.items()), span // TICK)


def most_within(counts: Sequence[tuple[int, int]], span: int) -> int:
    """counts: (time, how many), sorted."""
    most = now = first = 0
    for time, n in counts:
        now += n
        while counts[first][0] <= time - span:
            now -= counts[first][1]
            first += 1
        most = max(most, now)
    return most


class Counted(NamedTuple):
    """What a rule counts of operations.

    Attributes:
        choose: which rows.
        key: what is counted together beside the rule: of the row as a dict; None of it: the row is not counted. Without a
            key they are counted by connection.
        measure: a column to add up.
        timed: remember when they were.
    """

    choose: Callable[[Rows], Mask]
    key: Callable[[Row], tuple[Any, ...] | None] | None = None
    measure: str | None = None
    timed: bool = False


def _is_permission(row: Row) -> bool:
    if row["kind"] == "login":
        return False
    text = (row["text"] or "").lower()
    return row["code"] in PERMISSION.get(row["protocol"], ()) or any(word in text for word in _PERMISSION_WORDS)


def _is_busy(row: Row) -> bool:
    return row["protocol"] == "rocketmq" and row["code"] in _ROCKETMQ_BUSY


def _login_key(row: Row) -> tuple[Any, ...] | None:
    text = (row["text"] or "").lower()
    credentials = (
        row["code"] in _CREDENTIALS.get(row["protocol"], ()) or "e_auth_failed" in text or "e_unauthorized" in text
    )
    if row["kind"] != "login" or not credentials:
        return None
    return row["protocol"], row["client_ip"], row["client_id"], row["code"]


def _permission_key(row: Row) -> tuple[Any, ...] | None:
    if not _is_permission(row):
        return None
    if row["protocol"] == "amqp091":  # the request, if it has a row, and the channel.close that refuses it
        return row["flow_id"], (row["text"] or "").rpartition(": ")[2]
    return row["flow_id"], row["kind"], row["destination"]


def _refused_key(row: Row) -> tuple[Any, ...] | None:
    kind = row["kind"]
    if kind == "login":
        if _login_key(row) is not None:
            return None
        return row["protocol"], row["client_ip"], row["client_id"], row["code"]
    if kind not in ("publish", "subscribe", "consume", "bind", "open") or row["protocol"] == "amqp091":
        return None  # a request that RocketMQ answers with a code, or an error that closes the channel
    if _is_permission(row) or _is_busy(row) or _no_route_key(row) is not None:
        return None
    return row["flow_id"], kind, row["destination"], row["code"]


def _no_route_key(row: Row) -> tuple[Any, ...] | None:
    topic = row["destination"] or ""
    if row["protocol"] != "rocketmq" or row["code"] != _ROCKETMQ_NO_TOPIC or topic.startswith("%") or topic == "TBW102":
        return None  # topics for retries, and the template of new topics, may have no route
    return row["flow_id"], topic


def _rebalance_key(row: Row) -> tuple[Any, ...] | None:
    return (row["flow_id"],) if row["message_kind"] == "NOTIFY_CONSUMER_IDS_CHANGED" else None


def _busy_key(row: Row) -> tuple[Any, ...] | None:
    return (row["flow_id"], row["destination"]) if _is_busy(row) else None


def _closed_key(row: Row) -> tuple[Any, ...] | None:
    if row["kind"] != "close" or row["direction"] != 1 or row["message_kind"] not in ("channel.close", "detach", "end"):
        return None
    if row["code"] in _AMQP_SUCCESS if row["protocol"] == "amqp091" else not row["text"]:
        return None
    if _is_permission(row):
        return None  # a finding of its own
    return row["flow_id"], row["message_kind"], row["link"], row["text"]


def _opened_key(row: Row) -> tuple[Any, ...] | None:
    return (row["flow_id"],) if row["message_kind"] in ("channel.open", "begin") else None


def _closes_key(row: Row) -> tuple[Any, ...] | None:
    return (row["flow_id"],) if row["message_kind"] in ("channel.close", "end") else None


def _place(row: Row) -> tuple[Any, ...]:
    return row["flow_id"], row["destination"]


def _message_key(row: Row) -> tuple[Any, ...]:
    """A message, for its deliveries to be counted."""
    name = row["message_id"] or row["payload_hash"] or row["sequence"]
    return row["protocol"], row["queue"] or row["destination"], row["consumer_group"], name


def _again(r: Rows) -> Mask:
    """Deliveries that are not the first, or will not be the last."""
    failed = r.outcome("requeued", "released", "modified", "timed-out")
    return r.delivered & (failed | r.true("redelivered"))


def _unanswered(r: Rows) -> Mask:
    return r.outcome("lost", "unanswered")


#: What is counted of operations. Names that begin with _ are facts for other rules.
COUNTED: Final[dict[str, Counted]] = {
    "login-refused": Counted(lambda r: r.failed, _login_key),
    "permission-refused": Counted(lambda r: r.failed, _permission_key),
    "refused": Counted(lambda r: r.failed, _refused_key),
    "rocketmq-no-route": Counted(lambda r: r.failed, _no_route_key),
    "flow-control": Counted(lambda r: r.failed, _busy_key),
    "closed-by-error": Counted(lambda r: r.failed, _closed_key),
    "offset-illegal": Counted(
        lambda r: r.protocol("rocketmq") & r.kind("get") & (r.number("code") == _ROCKETMQ_OFFSET_MOVED), _place
    ),
    "rebalance-storm": Counted(
        lambda r: r.protocol("rocketmq") & r.kind("request") & (r.number("direction") == 1), _rebalance_key, timed=True
    ),
    "publish-rejected": Counted(lambda r: r.published & r.outcome("rejected"), _place),
    "unroutable": Counted(
        lambda r: r.published & (r.outcome("returned") | (r.outcome("released") & r.protocol("amqp10"))),
        lambda row: (*_place(row), row["outcome"]),
    ),
    "no-subscriber": Counted(
        lambda r: (
            r.published & (r.number("code") == _MQTT_NO_SUBSCRIBER) & r.outcome("acknowledged") & ~r.true("retained")
        ),
        _place,
    ),
    "publisher-without-confirms": Counted(
        lambda r: r.published & r.true("persistent") & r.outcome("none") & r.protocol("amqp091")
    ),
    "lost": Counted(lambda r: r.published & r.outcome("lost")),
    "large-message": Counted(
        lambda r: r.number("payload_size") >= threshold("large-message"), measure="payload_size"
    ),
    "unsettled-grows": Counted(lambda r: r.delivered & _unanswered(r), timed=True),
    "delivery-rejected": Counted(
        lambda r: r.delivered & r.outcome("rejected"), lambda row: (row["flow_id"], row["queue"] or row["destination"])
    ),
    "redelivery-loop": Counted(_again, _message_key),
    "dead-lettered": Counted(
        lambda r: r.delivered & r.has("death_queue"),
        lambda row: (row["protocol"], row["death_queue"], row["queue"], row["death_reason"]),
    ),
    "expired": Counted(
        lambda r: r.delivered & r.death("expired"),
        lambda row: (row["protocol"], row["death_queue"], row["queue"]),
    ),
    "qos2-stuck": Counted(lambda r: r.qos2 & _unanswered(r), timed=True),
    # a receiver sends PUBREC in the order of the PUBLISH packets (MQTT 5.0 4.6)
    "_passed_publish": Counted(lambda r: r.published & r.qos2 & _unanswered(r) & ~r.has("received")),
    "_passed_deliver": Counted(lambda r: r.delivered & r.qos2 & _unanswered(r) & ~r.has("received")),
    "blocked": Counted(lambda r: r.kind("blocked"), measure="duration_ns"),
    "retained-storm": Counted(lambda r: r.delivered & r.true("retained"), timed=True),
    "nsq-requeue": Counted(lambda r: r.delivered & r.outcome("requeued") & r.protocol("nsq"), _place),
    "nsq-timeout": Counted(lambda r: r.delivered & r.outcome("timed-out") & r.protocol("nsq"), _place),
    "consumer-cancelled": Counted(
        lambda r: r.kind("cancel") & (r.number("direction") == 1), lambda row: (row["flow_id"], row["link"])
    ),
    "channel-churn": Counted(lambda r: r.kind("open"), _opened_key, timed=True),
    "_closes": Counted(lambda r: r.kind("close"), _closes_key),
    "_consumes": Counted(lambda r: r.kind("consume", "subscribe")),
    "_resumed": Counted(lambda r: r.has("resumed_from"), lambda row: (row["resumed_from"], row["kind"])),
}  # fmt: skip


def threshold(rule: str) -> int:
    value = RULES[rule].threshold
    assert value is not None, rule
    return value


class Counts:
    """Counts of one capture.

    Args:
        max_entries: how many keys are counted at most; others are dropped and counted in `dropped`.
    """

    def __init__(self, max_entries: int = 1 << 15) -> None:
        self.max_entries = max_entries
        self.dropped = 0
        self.found: dict[tuple[str, tuple[Any, ...]], Found] = {}
        self.explained: set[tuple[int, int]] = set()  # connection and frame of publishes that may reach nobody
        self.dated: dict[int, tuple[int, int, Row]] = {}  # publishes with a time to live, by the hash of the payload
        self._dated_seen: set[int] = set()
        self.dated_places: dict[str, int] = {}  # when the last message with a time to live was delivered

    def add(self, batch: Batch, again: Sequence[int] = ()) -> None:
        """Look at a batch with all columns of OPERATIONS: those that `may_be_counted` (state.pxi). again: rows of deliveries that
        the same consumer had acknowledged before."""
        r = Rows(batch)
        for rule, counted in COUNTED.items():
            chosen = np.flatnonzero(counted.choose(r))
            if chosen.size:
                self._count(r, rule, counted, chosen)
        if again:
            self._add_duplicates(r, again)
        self._add_dated(r)
        self._add_explained(r)

    def _entry(self, rule: str, key: tuple[Any, ...]) -> Found | None:
        found = self.found.get((rule, key))
        if found is None:
            if len(self.found) >= self.max_entries:
                self.dropped += 1
                return None
            found = self.found[rule, key] = Found()
        return found

    def _count(self, r: Rows, rule: str, counted: Counted, chosen: NDArray[np.intp]) -> None:
        keys: list[tuple[Any, ...]]
        if counted.key is None:
            flows, numbers = np.unique(r.number("flow_id")[chosen], return_inverse=True)
            keys = [(flow,) for flow in flows.tolist()]
        else:
            made = [counted.key(row) for row in r.rows(chosen)]
            chosen = chosen[np.fromiter((key is not None for key in made), np.bool_, len(made))]
            order: dict[tuple[Any, ...], int] = {}
            numbers = np.array([order.setdefault(key, len(order)) for key in made if key is not None], np.int64)
            keys = list(order)
        if not keys:
            return
        sorted_ = np.lexsort((r.frame[chosen], r.time[chosen], numbers))
        chosen = chosen[sorted_]
        ends = np.cumsum(np.bincount(numbers, minlength=len(keys)))
        parts = []
        for key, start, end in zip(keys, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            found = self._entry(rule, key)
            if found is not None:
                parts.append((found, chosen[start:end]))
        r.rows(i for found, part in parts if len(found.evidence) < FRAMES_MAX for i in part[:FRAMES_MAX])  # all at once
        for found, part in parts:
            self._add(found, r, counted, part)

    def _add(self, found: Found, r: Rows, counted: Counted, chosen: NDArray[np.intp]) -> None:
        """Rows of one key, in the order of time."""
        found.count += int(chosen.size)
        times = r.time[chosen]
        if counted.measure is not None:
            values = r.number(counted.measure, 0)[chosen]
            found.total += int(values.sum())
            found.biggest = max(found.biggest, int(values.max()))
        if counted.timed and len(found.ticks) < TICKS_MAX:
            ticks, counts = np.unique(times // TICK, return_counts=True)
            for tick, n in zip(ticks.tolist(), counts.tolist(), strict=True):
                found.ticks[tick] += n
        evidence = found.evidence
        for i, time in zip(chosen[:FRAMES_MAX], times.tolist(), strict=False):
            if len(evidence) == FRAMES_MAX and time >= evidence[-1][0]:
                break
            [row] = r.rows([i])
            request, answer = row["request_frame"], row["response_frame"]
            entry = (time, -1 if request is None else request, -1 if answer is None else answer, row["capture"] or "")
            if not evidence or entry < evidence[0]:
                found.first = row
            insort(evidence, entry)
            del evidence[FRAMES_MAX:]

    def _add_duplicates(self, r: Rows, again: Sequence[int]) -> None:
        """Deliveries with a message id that the same consumer had acknowledged before."""
        counted = Counted(lambda r: r.delivered, lambda row: (row["flow_id"], row["queue"] or row["destination"]))
        self._count(r, "duplicate", counted, np.array(again, np.intp))

    def _add_explained(self, r: Rows) -> None:
        """Publishes that failed or may expire: that nobody gets them is to be expected."""
        failed = ~r.outcome("none", "acknowledged") | (r.number("code") > 0) | (r.number("ttl_ms") > 0)
        for i in np.flatnonzero(r.published & failed):
            if len(self.explained) < 4 * self.max_entries:
                self.explained.add((int(r.number("flow_id")[i]), int(r.frame[i])))

    def _add_dated(self, r: Rows) -> None:
        """Messages with a time to live: what was published, and what of it was delivered."""
        dated = (r.number("ttl_ms") > 0) & r.has("payload_hash") & (r.published | r.delivered)
        chosen = np.flatnonzero(dated)
        for i, row in zip(chosen, r.rows(chosen), strict=True):
            name, time = hash((row["payload_hash"], row["message_id"])), int(r.time[i])
            if row["kind"] == "deliver":
                self.dated.pop(name, None)
                if len(self._dated_seen) < 2 * self.max_entries:
                    self._dated_seen.add(name)
                place = row["destination"] or ""
                if place in self.dated_places or len(self.dated_places) < self.max_entries:
                    self.dated_places[place] = max(time, self.dated_places.get(place, 0))
            elif name not in self._dated_seen and row["outcome"] in ("acknowledged", "none"):
                if len(self.dated) < self.max_entries:
                    self.dated[name] = time, time + 1_000_000 * row["ttl_ms"], row
                else:
                    self.dropped += 1
