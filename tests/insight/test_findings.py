"""Findings: what the scripts of real brokers' captures caused is found, what is in order is not; rules without a capture by built
rows."""

from __future__ import annotations

import ast
import gzip
import io
import math
import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

import pyarrow as pa

from lib.paths import DATA, ROOT
from lib.truth import FOLDER, NAMES, claims_of, fits, is_so, listed, tables_of
from lib.wire import Tcp, frames_of, pcap
from wirefmt import amqp10, capture
from wirefmt.insight._engine import CONNECTION_FACTS, batch_of
from wirefmt.insight.findings import Findings
from wirefmt.protocols import PROTOCOLS
from wirefmt.spec import rules
from wirefmt.spec.advice import ADVICE, advice
from wirefmt.spec.insight import FINDINGS, OPERATIONS, TLS_REASONS, TRANSPORT
from wirefmt.spec.rules import RULES, SEVERITIES

SECOND = 1_000_000_000
#: A value of `who` may be in either of these columns.
PLACES = {"queue": ("queue", "destination"), "destination": ("destination", "queue")}
#: Whole seconds since 1970, ns: a multiple of all spans.
NOON = 1_795_780_800 * SECOND
AT_NOON = datetime.fromtimestamp(NOON // SECOND, UTC).replace(tzinfo=None)

#: Captures in which nothing is wrong.
ORDERLY = ("mqtt-orderly", "amqp-rpc", "crossing", "amqp10-large")
#: A capture in which a rule finds something, and the port, client or place that it names.
FOUND: dict[str, tuple[str, Any]] = {
    "login-refused": ("mqtt-refused", "meter-3"), "permission-refused": ("mqtt-refused", "meter-5"),
    "refused": ("amqp-errors", "lost-tenant"), "publish-rejected": ("amqp-publish", "full"),
    "rocketmq-no-route": ("rocketmq-talk", "NoSuchTopic"), "takeover-fight": ("mqtt-takeover", "gate-2"),
    "taken-over": ("mqtt-takeover", "gate-1"), "keep-alive-missed": ("amqp-frozen", "frozen"),
    "vanished": ("mqtt-vanished", "ghost"), "reset": ("mqtt-killed-reset", "cutter"),
    "abandoned": ("mqtt-killed-reset", "victim"), "shutdown": ("mqtt-shutdown", "lamp-1"),
    "closed-by-error": ("amqp-errors", "typo"), "protocol-violation": ("amqp-errors", "framer"),
    "consumer-cancelled": ("amqp-errors", "held.q"), "reconnect-storm": ("mqtt-storm", "restless"),
    "connection-per-message": ("amqp-churn", "hasty"), "channel-churn": ("amqp-churn", "spinner"),
    "unroutable": ("amqp-publish", "letters.x"), "no-subscriber": ("mqtt-topics", "empty/room"),
    "publisher-without-confirms": ("amqp-publish", "hope.q"), "lost": ("mqtt-too-large", "huge-old"),
    "expired": ("mqtt-offline", "short/a"), "prefetch-one": ("amqp-slow", "careful.q"),
    "delivery-rejected": ("amqp-poison", "mail.q"), "redelivery-loop": ("amqp-poison", "retrier-poison"),
    "dead-lettered": ("amqp-poison", "mail.q.dead"), "qos2-stuck": ("mqtt-qos2-stuck", "batcher"),
    "window-exhausted": ("mqtt-window", "narrow"), "rdy-starvation": ("nsq-trouble", "thirsty"),
    "blocked": ("amqp-blocked", "presser"), "retained-storm": ("mqtt-retained", "screen"),
    "nsq-requeue": ("nsq-basic", "again"), "nsq-timeout": ("nsq-basic", "late"),
    "retransmissions": ("mqtt-vanished", "ghost"),
}  # fmt: skip


def concerns(row: dict[str, Any], who: dict[str, Any]) -> bool:
    """Does any of these values identify the row?"""
    return any(row[column] in listed(value) for name, value in who.items() for column in PLACES.get(name, (name,)))


@pytest.mark.parametrize("name", NAMES)
def test_truth(name: str) -> None:
    rows = tables_of(name, "findings")["findings"]
    for claim in claims_of(name, "finding"):
        found = [row for row in rows if row["rule"] == claim["rule"] and concerns(row, claim["who"])]
        expected = [row for row in found if all(is_so(value, row[column]) for column, value in claim["expect"].items())]
        assert expected or (claim.get("optional") and not found), claim
    for claim in claims_of(name, "none"):
        if claim["table"] == "findings":
            kinds = {column: value for column, value in claim["where"].items() if column in ("severity", "rule")}
            who = {column: value for column, value in claim["where"].items() if column not in kinds}
            assert not [row for row in rows if fits(kinds, row) and (not who or concerns(row, who))], claim


@pytest.mark.parametrize("rule", FOUND)
def test_a_capture_in_which_it_is_found_and_others_in_which_it_is_not(rule: str) -> None:
    name, who = FOUND[rule]
    values = [
        {row["client_id"], row["destination"], row["queue"], row["message_id"]}
        for row in tables_of(name, "findings")["findings"]
        if row["rule"] == rule
    ]
    assert any(who in of for of in values)
    for orderly in ORDERLY:
        rows = tables_of(orderly, "findings")["findings"]
        assert [row["rule"] for row in rows] in ([], ["no-subscriber"])


@pytest.mark.parametrize("name", NAMES)
def test_rows(name: str) -> None:
    """What every row has."""
    for row in tables_of(name, "findings")["findings"]:
        assert row["severity"] == RULES[row["rule"]].severity
        assert row["text"].count("; next: ") == 1
        assert "\n" not in row["text"]
        assert row["count"] >= 1
        assert row["ts"] is not None
        assert row["frames"] == sorted(set(row["frames"]))
        assert len(row["frames"]) <= 10
        assert row["capture"].endswith(f"{name}.pcap.gz")
        assert (row["flow_id"], row["client_ip"], row["server_ip"]) != (None, None, None)


@pytest.mark.parametrize(
    "name", ["amqp-poison", "mqtt-storm", "mqtt-takeover", "nsq-basic", "rocketmq-talk", "amqp-errors"]
)
@pytest.mark.parametrize("options", [{"batch_rows": 1}, {"batch_rows": 7}, {"threads": 3}], ids=str)
def test_batches_and_threads(name: str, options: dict[str, Any]) -> None:
    assert tables_of(name, "findings", **options) == tables_of(name, "findings")


def test_a_close_with_code_0_is_not_an_error() -> None:
    """What some clients of AMQP 0.9.1 say instead of 200."""
    rows = pa.table(capture.read(ROOT / "tests/data/rabbitmq-amqp091.pcap.gz", table="findings")).to_pylist()
    assert any(row["rule"] == "closed-by-error" for row in rows)
    assert not [row for row in rows if "the client said connection.close" in row["text"]]


def test_columns_and_filter() -> None:
    path = FOLDER / "amqp-errors.pcap.gz"
    assert pa.table(capture.read(path, table="findings")).column_names == [column.name for column in FINDINGS]
    some = pa.table(capture.read(path, table="findings", columns=["rule"], filter='rule == "refused"'))
    assert some.to_pydict() == {"rule": ["refused"]}


def test_other_tables_in_the_same_pass() -> None:
    tables = ("messages", "operations", "connections", "findings")
    together = tables_of("amqp-errors", *tables)
    assert together["findings"] == tables_of("amqp-errors", "findings")["findings"]
    assert all(together.values())


# ---- built rows


def operation(**values: Any) -> dict[str, Any]:
    """A publish to an AMQP 0.9.1 queue, and what differs."""
    row = {
        "flow_id": 1, "capture": "a.pcap", "protocol": "amqp091", "client_id": "app", "client_ip": "10.0.0.2",
        "client_port": 40000, "direction": 0, "destination": "orders", "kind": "publish", "message_kind": "basic.publish",
        "outcome": "none", "transmissions": 1, "started_ns": NOON, "started": NOON // 1000, "request_frame": 1,
    }  # fmt: skip
    if values.get("kind") == "deliver":
        row |= {"direction": 1, "message_kind": "basic.deliver", "queue": "orders"}
    return row | values


def connection(**values: Any) -> dict[str, Any]:
    """A connection of a minute without anything in particular, and what differs."""
    row: dict[str, Any] = {column.name: None for column in CONNECTION_FACTS}
    row |= {
        "flow_id": 1, "capture": "a.pcap", "protocol": "amqp091", "client_id": "app", "client_ip": "10.0.0.2",
        "client_port": 40000, "server_ip": "10.0.0.1", "server_port": 5672, "carrier": "plain", "how": "fin",
        "opened": NOON // 1000,
        "first_ns": NOON, "closed_ns": NOON + 60 * SECOND, "client_last_ns": NOON + 60 * SECOND, "malformed": 0,
        "login_ns": NOON, "logged_in": True, "login_refused": False, "failed": False, "reason": "orderly",
        "reason_text": "it ended",
    }  # fmt: skip
    return row | values


#: An end that names an error.
SAID: dict[str, Any] = {"protocol": "mqtt", "ended_by": "client", "failed": True, "reason": "orderly"}


def misused(**values: Any) -> dict[str, Any]:
    """A connection in which a packet was not what the other side takes."""
    facts = {
        "protocol": "mqtt",
        "misuses": 1,
        "misuse": "x",
        "misuse_ns": NOON,
        "misuse_direction": 0,
        "misuse_frame": 7,
    }
    return connection(**facts | values)


def rules_of(operations: Iterable[dict[str, Any]] = (), connections: Iterable[dict[str, Any]] = ()) -> dict[str, int]:
    """Rules with findings, and their counts."""
    findings = Findings()
    rows = list(operations)
    if rows:
        findings.operations(batch_of(OPERATIONS, rows))
    found = findings.finish(list(connections) or [connection()])
    pa.record_batch(batch_of(FINDINGS, found)).validate(full=True)
    return {row["rule"]: row["count"] for row in found}


def test_nothing() -> None:
    assert rules_of([operation()], [connection()]) == {}


@pytest.mark.parametrize(
    ("rule", "enough", "too_few"),
    [
        ("half-open", [connection(reason="half-open")], [connection(reason="open", how="open")]),
        ("prefetch-unlimited", [connection(most_unsettled=50)], [connection(most_unsettled=49)]),
        ("prefetch-unlimited", [connection(most_unsettled=50)], [connection(most_unsettled=500, client_window=500)]),
        ("prefetch-unlimited", [connection(most_unsettled=50)], [connection(most_unsettled=500, login_ns=None)]),
        ("zero-window", [connection(client_zero_windows=3)], [connection(client_zero_windows=2)]),
        ("capture-gaps", [connection(server_missing_bytes=1)], [connection(server_missing_bytes=0)]),
        ("plaintext-credentials", [connection(secret_ns=NOON)], [connection(secret_ns=NOON, carrier="tls")]),
        ("plaintext-credentials", [connection(secret_ns=NOON)], [connection(secret_ns=NOON, client_ip="127.0.0.1")]),
        (
            "retransmissions",
            [connection(client_retransmitted_bytes=200, client_bytes=10_000)],
            [connection(client_retransmitted_bytes=199, client_bytes=10_000)],
        ),
        (
            "copied-packets",
            [connection(**{f"{side}_{name}": n for side in ("client", "server")
                           for name, n in (("packets", 20), ("bytes", 1000), ("retransmitted_bytes", 500))})],
            [connection(**{f"{side}_{name}": n for side in ("client", "server")
                           for name, n in (("packets", 20), ("bytes", 1000), ("retransmitted_bytes", 10))})],
        ),
        ("large-message", [connection()], []),
        ("property-misuse", [misused()], [misused(opened=None), connection()]),
        ("property-misuse", [misused()], [misused(misuses=0)]),
        ("property-misuse", [connection(**SAID, code=0x9A)], [connection(**SAID, code=0)]),
        ("small-mss", [connection(client_mss=1000, server_mss=1460)], [connection(client_mss=1001, server_mss=1460)]),
        ("clock-backwards", [connection(backwards_ns=1_000_000)], [connection(backwards_ns=999_999)]),
        ("truncated-packets", [connection(truncated=1)], [connection(truncated=0)]),
        ("capture-cut", [connection(opened=None), connection()], [connection(opened=None), connection(), connection()]),
        ("weak-mechanism", [connection(mechanism="ANONYMOUS")], [connection(mechanism="SCRAM-SHA-256")]),
        ("weak-mechanism", [connection(mechanism="CRAM-MD5")], [connection(mechanism="CRAM-MD5", client_ip="::1")]),
        ("window-exhausted", [connection(session_full_ns=SECOND, session_full_at_ns=NOON)],
         [connection(session_full_ns=SECOND - 1, session_full_at_ns=NOON)]),
        ("window-exhausted", [connection(held_ns=SECOND, held_at_ns=NOON, held_for="q")], [connection(held_ns=SECOND - 1)]),
        ("window-exhausted", [connection(held_session_ns=SECOND, held_session_at_ns=NOON)], [connection(held_session_ns=1)]),
    ],
)  # fmt: skip
def test_connections(rule: str, enough: list[dict[str, Any]], too_few: list[dict[str, Any]]) -> None:
    operations = [operation(payload_size=1 << 20)] if rule == "large-message" else []
    assert set(rules_of(operations, enough)) == {rule}
    if too_few:
        assert set(rules_of([], too_few)) <= {"capture-cut"} - {rule}


def test_a_channel_leak() -> None:
    opens = [operation(kind="open", message_kind="channel.open", outcome="acknowledged", channel=i) for i in range(40)]
    closes = [
        operation(kind="close", message_kind="channel.close", outcome="acknowledged", channel=i) for i in range(20)
    ]
    assert rules_of(opens, [connection(channels=40)]) == {"channel-leak": 40}
    assert rules_of(opens + closes, [connection(channels=40)]) == {}
    assert rules_of(opens, [connection(channels=31)]) == {}


def test_channel_churn_needs_more_than_at_one_time() -> None:
    def opened(every: int) -> list[dict[str, Any]]:
        return [
            operation(kind="open", message_kind="channel.open", outcome="acknowledged", started_ns=NOON + i * every)
            for i in range(40)
        ]

    assert rules_of(opened(SECOND // 5), [connection(channels=2)]) == {"channel-churn": 40}
    assert rules_of(opened(SECOND // 5), [connection(channels=20)]) == {}
    assert rules_of(opened(SECOND), [connection(channels=2)]) == {}, "slowly"


def test_a_rebalance_storm() -> None:
    def told(every: int) -> list[dict[str, Any]]:
        notice = {
            "protocol": "rocketmq",
            "kind": "request",
            "message_kind": "NOTIFY_CONSUMER_IDS_CHANGED",
            "direction": 1,
        }
        return [operation(**notice, outcome="none", started_ns=NOON + i * every) for i in range(12)]

    assert rules_of(told(5 * SECOND), [connection(protocol="rocketmq")]) == {"rebalance-storm": 12}
    assert rules_of(told(10 * SECOND), [connection(protocol="rocketmq")]) == {}, "seldom"


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (
            {"protocol": "rocketmq", "kind": "request", "outcome": "refused", "code": 17, "destination": "T"},
            "rocketmq-no-route",
        ),
        (
            {"protocol": "rocketmq", "kind": "request", "outcome": "refused", "code": 17, "destination": "%RETRY%G"},
            None,
        ),
        ({"protocol": "rocketmq", "kind": "publish", "outcome": "refused", "code": 2}, "flow-control"),
        ({"protocol": "rocketmq", "kind": "publish", "outcome": "refused", "code": 215}, "flow-control"),
        ({"protocol": "rocketmq", "kind": "publish", "outcome": "refused", "code": 16}, "permission-refused"),
        ({"protocol": "rocketmq", "kind": "publish", "outcome": "refused", "code": 13}, "refused"),
        (
            {"protocol": "rocketmq", "kind": "publish", "outcome": "refused", "code": 1, "text": "AclException: no"},
            "permission-refused",
        ),
        (
            {"protocol": "nsq", "kind": "publish", "outcome": "refused", "text": "E_AUTH_FIRST AUTH"},
            "permission-refused",
        ),
        (
            {"protocol": "nsq", "kind": "subscribe", "outcome": "refused", "text": "E_UNAUTHORIZED no"},
            "permission-refused",
        ),
        ({"protocol": "mqtt", "kind": "login", "outcome": "refused", "code": 0x8A}, "refused"),
        (
            {
                "protocol": "amqp10",
                "kind": "close",
                "message_kind": "detach",
                "direction": 1,
                "text": "amqp:unauthorized-access",
            },
            "permission-refused",
        ),
        ({"protocol": "rocketmq", "kind": "request", "outcome": "refused", "code": 1}, None),
        ({"protocol": "rocketmq", "kind": "get", "outcome": "acknowledged", "code": 21}, "offset-illegal"),
        ({"protocol": "mqtt", "kind": "login", "outcome": "refused", "code": 5}, "login-refused"),
        ({"protocol": "mqtt", "kind": "login", "outcome": "refused", "code": 3}, "refused"),
        ({"protocol": "mqtt", "kind": "subscribe", "outcome": "refused", "code": 0x80}, "refused"),
        ({"protocol": "mqtt", "kind": "publish", "outcome": "acknowledged", "code": 0x10}, "no-subscriber"),
        ({"protocol": "mqtt", "kind": "publish", "outcome": "acknowledged", "code": 0x10, "retained": True}, None),
        ({"protocol": "amqp10", "kind": "login", "outcome": "refused", "code": 1}, "login-refused"),
        ({"protocol": "amqp10", "kind": "publish", "outcome": "released"}, "unroutable"),
        ({"protocol": "amqp10", "kind": "deliver", "outcome": "released"}, None),
        ({"protocol": "nsq", "kind": "login", "outcome": "refused", "text": "E_AUTH_FAILED no"}, "login-refused"),
        (
            {"kind": "close", "message_kind": "channel.close", "direction": 1, "code": 404, "text": "basic.get: no"},
            "closed-by-error",
        ),
        ({"kind": "close", "message_kind": "channel.close", "direction": 1, "code": 200}, None),
        ({"kind": "close", "message_kind": "channel.close", "direction": 0, "code": 404}, None),
        ({"kind": "publish", "outcome": "rejected"}, "publish-rejected"),
        ({"kind": "publish", "outcome": "returned", "code": 312}, "unroutable"),
        ({"kind": "publish", "outcome": "lost"}, "lost"),
        ({"kind": "publish", "outcome": "cancelled"}, None),
        ({"kind": "deliver", "outcome": "rejected"}, "delivery-rejected"),
        ({"kind": "deliver", "outcome": "requeued"}, None),
    ],
)
def test_one_operation(row: dict[str, Any], rule: str | None) -> None:
    assert set(rules_of([operation(**row)])) == ({rule} if rule else set())


def test_lost_publishes_that_the_next_connection_goes_on_with() -> None:
    lost = [operation(protocol="mqtt", outcome="lost", sequence=i, qos=1) for i in range(3)]
    resumed = [
        operation(protocol="mqtt", outcome="acknowledged", sequence=i, flow_id=2, resumed_from=1) for i in range(3)
    ]
    assert rules_of(lost, [connection(), connection(flow_id=2)]) == {"lost": 3}
    assert rules_of(lost + resumed[:2], [connection(), connection(flow_id=2)]) == {"lost": 1}
    assert rules_of(lost + resumed, [connection(), connection(flow_id=2)]) == {}


def test_what_was_not_captured_is_not_lost() -> None:
    lost = [operation(outcome="lost")]
    assert rules_of(lost, [connection(server_missing_bytes=9)]) == {"capture-gaps": 1}
    assert rules_of([], [connection(reason="abandoned", client_missing_bytes=9)]) == {"capture-gaps": 1}


def answers(kind: str, *times: int) -> dict[str, int]:
    """What the engine says of the answers of a connection: steps of a logarithmic scale, four for each doubling."""
    steps = sorted(int(4 * math.log2(ns)) for ns in times)
    at = {
        name: steps[max(0, math.ceil(part * len(steps)) - 1)]
        for name, part in (("half", 0.5), ("late", 0.99), ("most", 1))
    }
    return {f"{kind}_{name}": value for name, value in ({"answers": len(steps)} | at).items()}


def test_slow_acknowledgements() -> None:
    def published(*times: int) -> list[dict[str, Any]]:
        return [connection(**answers("publish", *times))]

    fast, slow = SECOND // 1000, 2 * SECOND
    assert rules_of([], published(*20 * [slow])) == {"slow-acknowledgement": 20}
    assert rules_of([], published(*19 * [slow])) == {}
    assert rules_of([], published(*990 * [fast], *10 * [slow])) == {"acknowledgement-outlier": 1}, "one in a hundred"
    assert rules_of([], published(*980 * [fast], *20 * [slow])) == {"slow-acknowledgement": 1000}


def test_deliveries_that_are_never_acknowledged() -> None:
    settled = [connection(**answers("deliver", *20 * [SECOND // 100]))]

    def left(n: int, before_end: int) -> list[dict[str, Any]]:
        return [operation(kind="deliver", outcome="lost", started_ns=NOON + 60 * SECOND - before_end) for _ in range(n)]

    assert rules_of(left(50, 2 * SECOND)) == {"unsettled-grows": 50}
    assert rules_of(left(49, 2 * SECOND)) == {}
    assert rules_of(left(50, SECOND // 2)) == {}, "they may be in work"
    assert rules_of(left(50, 2 * SECOND), [connection(how="open")]) == {}, "they may be in work"
    assert rules_of(left(50, 11 * SECOND), [connection(how="open")]) == {"unsettled-grows": 50}
    assert rules_of(left(50, SECOND // 2), settled) == {"unsettled-grows": 50}, "others take a fiftieth of it"
    assert rules_of(left(50, SECOND // 20), settled) == {}


def test_a_qos2_message_that_is_passed_over() -> None:
    """A receiver sends PUBREC in the order of the PUBLISH packets (MQTT 5.0 4.6), so one that has none will not get it."""

    def rules(first: dict[str, Any], **facts: Any) -> dict[str, int]:
        last = NOON + 50_000_000
        return rules_of(
            [first], [connection(protocol="mqtt", how="open", closed_ns=None, client_last_ns=last, **facts)]
        )

    first = operation(protocol="mqtt", kind="deliver", qos=2, outcome="unanswered")
    assert rules(first) == {}
    assert rules(first, deliver_received=NOON + 1_000_000) == {"qos2-stuck": 1}
    assert rules(first, deliver_received=NOON - 1_000_000) == {}
    assert rules(first, publish_received=NOON + 1_000_000) == {}
    assert rules(first | {"received": NOON // 1000 + 3000}, deliver_received=NOON + 1_000_000) == {}, (
        "it has its PUBREC"
    )


def test_a_message_that_is_delivered_twice() -> None:
    one = operation(kind="deliver", outcome="acknowledged", message_id="m", payload_hash=7)
    findings = Findings()
    findings.operations(batch_of(OPERATIONS, [one, one]), [1])
    assert [(row["rule"], row["count"]) for row in findings.finish([connection()])] == [("duplicate", 1)]


def test_a_loop_begins_at_ten() -> None:
    rows = [operation(kind="deliver", outcome="requeued", message_id="m", sequence=i) for i in range(10)]
    assert rules_of(rows) == {"redelivery-loop": 10}
    assert rules_of(rows[:9]) == {}
    assert rules_of([*rows[:9], rows[9] | {"message_id": "n"}]) == {}


def test_messages_that_expire() -> None:
    published = operation(protocol="mqtt", outcome="acknowledged", payload_hash=1, ttl_ms=1000)
    later = operation(protocol="mqtt", kind="deliver", outcome="acknowledged", payload_hash=2, ttl_ms=9000,
                      started_ns=NOON + 2 * SECOND)  # fmt: skip
    itself = later | {"payload_hash": 1}
    assert rules_of([published, later]) == {"expired": 1}
    assert rules_of([published]) == {}, "nobody is known to get messages of this topic"
    assert rules_of([published, later, itself]) == {}
    assert rules_of([itself, later, published]) == {}, "it was acknowledged after its delivery"
    assert rules_of([published | {"ttl_ms": 100_000}, later]) == {}, "the capture ends before"


def test_retained_messages_over_a_long_time() -> None:
    def retained(every: int) -> list[dict[str, Any]]:
        return [
            operation(protocol="mqtt", kind="deliver", retained=True, started_ns=NOON + i * every) for i in range(150)
        ]

    assert rules_of(retained(SECOND // 100)) == {"retained-storm": 150}
    assert rules_of(retained(SECOND // 5)) == {}


def test_connections_that_come_and_go() -> None:
    def many(n: int, every: int, life: int, **values: Any) -> list[dict[str, Any]]:
        return [
            connection(
                flow_id=i, client_port=40000 + i, first_ns=NOON + i * every, closed_ns=NOON + i * every + life, **values
            )
            for i in range(n)
        ]

    assert rules_of([], many(10, SECOND, SECOND)) == {"reconnect-storm": 10}
    assert rules_of([], many(9, SECOND, SECOND)) == {}
    assert rules_of([], many(30, SECOND, 40 * SECOND)) == {}, "they live longer"
    assert rules_of([], many(30, 10 * SECOND, SECOND)) == {}, "seldom"
    assert rules_of([], many(10, SECOND, SECOND, published=1)) == {"connection-per-message": 10}
    named = [row | {"client_id": f"app-{i}"} for i, row in enumerate(many(10, SECOND, SECOND, published=1))]
    assert rules_of([], named) == {"connection-per-message": 10}
    assert rules_of([], [row | {"client_ip": f"10.0.1.{i}"} for i, row in enumerate(named)]) == {}


def test_takeovers() -> None:
    def taken(n: int, every: int) -> list[dict[str, Any]]:
        return [connection(flow_id=i, reason="taken-over", closed_ns=NOON + i * every) for i in range(n)]

    assert rules_of([], taken(3, SECOND)) == {"takeover-fight": 3}
    assert rules_of([], taken(2, SECOND)) == {"taken-over": 2}
    assert rules_of([], taken(5, 40 * SECOND)) == {"taken-over": 5}


def test_what_is_not_counted_is_known() -> None:
    findings = Findings(max_entries=2)
    findings.operations(batch_of(OPERATIONS, [operation(outcome="lost", flow_id=i) for i in range(5)]))
    assert findings.dropped == 3
    assert len(findings.finish([connection()])) == 2
    with capture.read(FOLDER / "amqp-errors.pcap.gz", table="findings") as reader:
        list(reader)


def test_evidence_is_of_one_capture() -> None:
    findings = Findings()
    rows = [operation(outcome="lost", request_frame=i, started_ns=NOON + i, capture=f"{i % 2}.pcap") for i in range(20)]
    findings.operations(batch_of(OPERATIONS, rows))
    [row] = findings.finish([connection()])
    assert (row["capture"], row["frames"]) == ("0.pcap", [0, 2, 4, 6, 8])


@pytest.mark.parametrize(
    ("annotations", "died"),
    [
        ({"x-opt-deaths": [{"reason": "expired", "count": 1, "queue": "a.q"}]}, ("expired", "a.q")),
        ({"x-opt-ORIG-QUEUE": "a.q"}, (None, "a.q")),
        ({"x-opt-deaths": "a text"}, (None, None)),
        ({"x-opt-other": 1}, (None, None)),
    ],
)
def test_dead_letters_of_amqp10(annotations: dict[str, Any], died: tuple[str | None, str | None]) -> None:
    """RabbitMQ names queue and reason of each death, Artemis the queue."""
    message = amqp10.Message(message_annotations=annotations, body=b"x")
    source = amqp10.Source(address="dead.q")
    said: list[tuple[int, Any]] = [
        (0, amqp10.ProtocolHeader(0)), (1, amqp10.ProtocolHeader(0)),
        (0, amqp10.Open(container_id="c")), (1, amqp10.Open(container_id="s")),
        (0, amqp10.Begin(next_outgoing_id=0, incoming_window=9, outgoing_window=9)),
        (1, amqp10.Begin(remote_channel=0, next_outgoing_id=0, incoming_window=9, outgoing_window=9)),
        (0, amqp10.Attach(name="l", handle=0, role=True, source=source)),
        (1, amqp10.Attach(name="l", handle=0, role=False, source=source, initial_delivery_count=0)),
        (0, amqp10.Flow(next_incoming_id=0, incoming_window=9, next_outgoing_id=0, outgoing_window=9, handle=0,
                        delivery_count=0, link_credit=9)),
        (1, amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", payload=message)),
        (0, amqp10.Disposition(role=True, first=0, settled=True, state=amqp10.Accepted())),
    ]  # fmt: skip
    tcp = Tcp(port=5672)
    data = pcap(tcp.open() + [frame for side, frame_ in said for frame in tcp.send(side, frame_.encode())])
    rows: dict[str, list[dict[str, Any]]] = {"operations": [], "findings": []}
    for table, batch in capture.read_tables(io.BytesIO(data), list(rows)):
        rows[table] += pa.table(batch).to_pylist()
    [delivered] = [row for row in rows["operations"] if row["kind"] == "deliver"]
    assert (delivered["death_reason"], delivered["death_queue"], delivered["outcome"]) == (*died, "acknowledged")
    rules = (["dead-lettered"] if died[1] else []) + (["expired"] if died[0] == "expired" else [])
    assert [row["rule"] for row in rows["findings"]] == rules


# ---- captures of mosquitto, recorded for these rules, and others

RECORDED = ROOT / "tests/data/findings"
SAMPLES = ROOT / "samples"


def findings_of(source: Any, **options: Any) -> dict[str, dict[str, Any]]:
    """The first finding of each rule."""
    found: dict[str, dict[str, Any]] = {}
    with capture.read(source, table="findings", **options) as reader:
        for batch in reader:
            for row in pa.record_batch(batch).to_pylist():
                found.setdefault(row["rule"], row)
    return found


@pytest.mark.parametrize(
    ("rule", "path", "who", "count"),
    [
        ("small-mss", RECORDED / "mosquitto-small-mss.pcap.gz", "narrow-path", 1),
        ("acknowledgement-outlier", RECORDED / "mosquitto-pause.pcap.gz", "steady", 1),
        ("delivery-outlier", RECORDED / "mosquitto-pause.pcap.gz", "steady-taker", 1),
        ("not-delivered", RECORDED / "mosquitto-overflow.pcap.gz", "burster", 4),
        ("property-misuse", RECORDED / "mosquitto-misuse.pcap.gz", "alias-0", 1),
        ("property-misuse", FOLDER / "mqtt-too-large.pcap.gz", "huge", 1),
        ("truncated-packets", SAMPLES / "mosquitto-paho-v5-snaplen128.pcap", None, 36),
        ("weak-mechanism", ROOT / "tests/data/proton-amqp10.pcap.gz", None, 17),
    ],
)
@pytest.mark.parametrize("options", [{}, {"batch_rows": 1}, {"threads": 2}], ids=str)
def test_recorded(rule: str, path: Path, who: str | None, count: int, options: dict[str, Any]) -> None:
    row = findings_of(path, **options)[rule]
    assert row["count"] == count
    assert who is None or row["client_id"] == who


def test_what_was_dropped_is_named() -> None:
    """Of the burst of eight the queue took one in flight and three; the client's QoS 1 messages were acknowledged."""
    row = findings_of(RECORDED / "mosquitto-overflow.pcap.gz")["not-delivered"]
    assert "4 messages of client burster (burst/a) did not reach a consumer, 59 did" in row["text"]


def test_payloads_that_a_server_writes_anew_are_not_missing() -> None:
    assert "not-delivered" not in findings_of(ROOT / "tests/data/proton-amqp10.pcap.gz")


def test_each_misuse_is_named() -> None:
    with capture.read(RECORDED / "mosquitto-misuse.pcap.gz", table="findings") as reader:
        rows = [
            row for batch in reader for row in pa.record_batch(batch).to_pylist() if row["rule"] == "property-misuse"
        ]
    assert [row["client_id"] for row in rows] == ["alias-0", "alias-1", "alias-2"]
    for row, word in zip(rows, ("RETAIN", "QoS", "Topic Alias Maximum"), strict=True):
        assert f"client {row['client_id']} sent what the server does not take: PUBLISH: " in row["text"]
        assert word in row["text"]


def records(path: Path) -> list[tuple[bytes, bytes]]:
    return frames_of(gzip.decompress(path.read_bytes()))


def file_of(kept: Iterable[tuple[bytes, bytes]], path: Path) -> io.BytesIO:
    head = gzip.decompress(path.read_bytes())[:24]
    return io.BytesIO(head + b"".join(header + frame for header, frame in kept))


def test_a_capture_that_begins_late() -> None:
    path = FOLDER / "mqtt-orderly.pcap.gz"
    assert "capture-cut" not in findings_of(file_of(records(path), path))
    row = findings_of(file_of(records(path)[60:], path))["capture-cut"]
    assert "began before the capture; next: start the capture before the clients" in row["text"]


def test_a_clock_that_was_set_back() -> None:
    path = RECORDED / "mosquitto-pause.pcap.gz"
    kept = records(path)
    later = [
        (struct.pack("<I", struct.unpack_from("<I", header)[0] - 3) + header[4:], frame) for header, frame in kept[30:]
    ]
    row = findings_of(file_of([*kept[:30], *later], path))["clock-backwards"]
    assert row["severity"] == "note"
    assert "clock-backwards" not in findings_of(path)


# ---- AMQP 1.0: the window of a session


def begun(window: int, remote: int | None = None) -> Any:
    return amqp10.Begin(
        channel=0, remote_channel=remote, next_outgoing_id=0, incoming_window=window, outgoing_window=99
    )


def flowing(window: int, came: int, **link: Any) -> Any:
    return amqp10.Flow(
        channel=0, next_incoming_id=came, incoming_window=window, next_outgoing_id=0, outgoing_window=99, **link
    )


def attached(role: str) -> Any:
    return amqp10.Attach(
        channel=0, name="l", handle=0, role=role == "receiver", initial_delivery_count=0 if role == "sender" else None,
        source=amqp10.Source(address="q"), target=amqp10.Target(address="q"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sender", "first_window", "credit", "opens", "said"),
    [
        (1, 2, 9, {}, "messages for client c (q) waited 2.00 s because the window of its session was full"),
        (0, 2, 9, {}, "publishes of client c (q) waited 2.00 s because the window of the server's session was full"),
        (0, 9, 2, {"handle": 0, "delivery_count": 2, "link_credit": 9},
         "publishes of client c (q) waited 2.00 s because the server gave no credit"),
        (1, 9, 9, {}, None),
    ],
)  # fmt: skip
def test_windows_of_amqp10(
    sender: int, first_window: int, credit: int, opens: dict[str, Any], said: str | None
) -> None:
    """Two messages fill the window; two seconds later a flow opens it, and the third comes at once."""
    receiver = 1 - sender
    windows = [first_window if side == receiver else 9 for side in range(2)]
    message = [
        amqp10.Transfer(
            channel=0,
            handle=0,
            delivery_id=i,
            delivery_tag=b"%d" % i,
            message_format=0,
            payload=amqp10.Message(body=amqp10.Data(b"x")).encode(),
        )
        for i in range(3)
    ]
    before: list[tuple[int, Any]] = [
        (0, amqp10.ProtocolHeader(0)), (1, amqp10.ProtocolHeader(0)),
        (0, amqp10.Open(container_id="c")), (1, amqp10.Open(container_id="s")),
        (0, begun(windows[0])), (1, begun(windows[1], 0)),
        (0, attached("receiver" if sender else "sender")), (1, attached("sender" if sender else "receiver")),
        (receiver, flowing(first_window, 0, handle=0, delivery_count=0, link_credit=credit)),
        (sender, message[0]), (sender, message[1]),
    ]  # fmt: skip
    after = [(receiver, flowing(9, 2, **opens)), (sender, message[2])]
    tcp = Tcp(port=5672)
    first = tcp.open() + [frame for side, one in before for frame in tcp.send(side, one.encode())]
    then = [frame for side, one in after for frame in tcp.send(side, one.encode())] + tcp.close()
    # the last message of the first part is acknowledged in TCP after it
    data = pcap(first) + pcap(then, first=len(first) + 2000 - 2)[24:]
    row = findings_of(io.BytesIO(data)).get("window-exhausted")
    assert (row is None) == (said is None)
    if row is not None and said is not None:
        assert row["text"].startswith(said)


# ---- what to do


@pytest.mark.parametrize(
    ("protocol", "code", "text", "part"),
    [
        ("mqtt", 0x95, None, "smaller messages"),
        ("mqtt", 5, None, "credentials"),
        ("amqp091", 404, "queue.declare: NOT_FOUND - no queue 'a' in vhost '/'", "Create the queue"),
        ("amqp091", 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q'", "arguments that it has"),
        ("amqp091", 406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out", "consumer_timeout"),
        ("amqp091", 530, "NOT_ALLOWED - vhost x not found", "virtual host"),
        ("amqp10", None, "amqp:link:message-size-exceeded", "smaller messages"),
        ("nsq", None, "E_BAD_TOPIC PUB topic name", "1 to 64"),
        ("rocketmq", 26, None, "consumer group"),
        ("phpmq", None, None, None),
        ("amqp091", 200, None, None),
    ],
)
def test_advice(protocol: str, code: int | None, text: str | None, part: str | None) -> None:
    found = advice(protocol, code, text)
    assert (found is None) == (part is None)
    assert part is None or (found is not None and part in found)


def test_every_advice_is_a_sentence_and_can_be_reached() -> None:
    for i, row in enumerate(ADVICE):
        assert row.action.endswith(".")
        assert row.protocol in {protocol.name for protocol in PROTOCOLS}
        assert row.codes or row.words
        assert advice(row.protocol, row.codes[0] if row.codes else None, row.words[0] if row.words else None) in {
            earlier.action for earlier in ADVICE[: i + 1]
        }
        if not row.words:
            assert advice(row.protocol, row.codes[-1], None) == row.action


# ---- TLS


def in_tls(**values: Any) -> dict[str, Any]:
    """A connection of TLS 1.3 that was decrypted, with a certificate that is valid, and what differs."""
    row: dict[str, Any] = {column.name: None for column in TRANSPORT}
    row |= {
        "flow_id": 1, "capture": "a.pcap", "client_ip": "10.0.0.2", "client_port": 40000, "server_ip": "10.0.0.1",
        "server_port": 8883, "carrier": "tls", "first_ns": NOON, "tls_version": "TLS 1.3", "tls_subject": "CN=broker",
        "tls_not_before": AT_NOON - timedelta(days=100), "tls_not_after": AT_NOON + timedelta(days=100),
    }  # fmt: skip
    return row | values


def rules_of_tls(*rows: dict[str, Any], max_entries: int = 100) -> dict[str, int]:
    findings = Findings(max_entries)
    findings.in_tls(rows)
    return {row["rule"]: row["count"] for row in findings.finish([])}


@pytest.mark.parametrize(
    ("rule", "enough", "too_few"),
    [
        ("weak-tls", {"tls_version": "TLS 1.1"}, {"tls_version": "TLS 1.2"}),
        ("weak-tls", {"tls_version": "SSL 3.0"}, {"tls_version": None}),
        ("certificate-not-valid", {"tls_not_after": AT_NOON - timedelta(seconds=1)}, {"tls_not_after": AT_NOON}),
        ("certificate-not-valid", {"tls_not_before": AT_NOON + timedelta(seconds=1)}, {"tls_not_before": AT_NOON}),
        (
            "not-decrypted",
            {"tls_undecrypted": TLS_REASONS["no_secret"]},
            {"tls_undecrypted": TLS_REASONS["no_secrets"]},
        ),
        (
            "not-decrypted",
            {"tls_undecrypted": TLS_REASONS["wrong_secret"]},
            {"tls_undecrypted": TLS_REASONS["no_data"]},
        ),
    ],
)
def test_connections_in_tls(rule: str, enough: dict[str, Any], too_few: dict[str, Any]) -> None:
    assert rules_of_tls(*[in_tls(**enough)] * 3) == {rule: 3}
    assert rules_of_tls(in_tls(**too_few), in_tls(**too_few, tls_subject=None, tls_server_name="x")) == {}


def test_findings_about_tls_are_bounded_and_name_the_first_connection() -> None:
    rows = [in_tls(server_port=port, tls_version="TLS 1.0", flow_id=port, first_ns=NOON - port) for port in range(50)]
    findings = Findings(10)
    findings.in_tls([*rows, rows[3] | {"first_ns": NOON - SECOND, "flow_id": 99}])
    assert findings.dropped == 40
    found = findings.finish([])
    assert len(found) == 10
    assert [row["count"] for row in found if row["flow_id"] == 99] == [2]


IN_TLS = DATA / "tls/recorded"
OF_TLS = {
    "old-tls10": ["weak-tls"], "old-tls11": ["weak-tls"], "expired": ["certificate-not-valid"], "coming": [],
    "alpn-tls12": [], "alpn-tls13": [], "camellia": [],
}  # fmt: skip
OF_DECRYPTED_TLS = OF_TLS | {
    "old-tls10": ["not-decrypted", "weak-tls"],
    "old-tls11": ["not-decrypted", "weak-tls"],
    "coming": ["certificate-not-valid"],  # TLS 1.3 encrypts it
    "camellia": ["not-decrypted"],
}


@pytest.mark.parametrize("name", OF_TLS)
@pytest.mark.parametrize("keys", [True, False], ids=["with a key log", "without"])
def test_findings_of_real_connections_in_tls(name: str, keys: bool) -> None:
    pytest.importorskip("cryptography", reason="needs cryptography (pip install 'wirefmt[tls]')")
    keylog = str(IN_TLS / f"{name}.log") if keys else None
    rows = pa.table(capture.read(IN_TLS / f"{name}.pcap.gz", table="findings", keylog=keylog)).to_pylist()
    found = [row for row in rows if row["rule"] in ("weak-tls", "certificate-not-valid", "not-decrypted")]
    assert sorted(row["rule"] for row in found) == (OF_DECRYPTED_TLS if keys else OF_TLS)[name]
    assert all(row["server_ip"] == "127.0.0.1" and row["count"] == 1 for row in found)


# ---- the table of rules


def test_every_rule_is_told_and_tested() -> None:
    tables = {"operations", "connections", "paths"}
    sources = "".join(
        (ROOT / "src/wirefmt/insight" / f"{name}.py").read_text() for name in ("counts", "findings", "report", "tls")
    )
    tests = Path(__file__).read_text()
    for rule in RULES.values():
        assert f'"{rule.id}"' in sources, rule.id
        assert tests.count(f'"{rule.id}"') >= 1, rule.id
        assert rule.severity in SEVERITIES
        assert rule.meaning.endswith(".")
        assert rule.action.endswith(".")
        assert rule.why
        assert rule.unit
        assert set(rule.looks_at.split(", ")) <= tables


def test_rules_need_no_compiled_code() -> None:
    tree = ast.parse(Path(rules.__file__).read_text())
    modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert modules == ["__future__", "typing"]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
