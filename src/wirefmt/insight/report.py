"""Rows of findings: the cause in a sentence, of what was counted of operations; `findings.py` has the causes of connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from wirefmt.insight.counts import FRAMES_MAX, MINUTE, SECOND, TICK, WHO, Counts, Found, Row, threshold
from wirefmt.insight.reasons import code_words, seconds
from wirefmt.spec.advice import advice
from wirefmt.spec.rules import RULES


def _sentence(cause: str, action: str) -> str:
    """The cause and the next step."""
    action = action.removesuffix(".")
    first = action.partition(" ")[0]
    return f"{cause}; next: {action if first[1:] != first[1:].lower() else action[0].lower() + action[1:]}"


def number(n: int, one: str) -> str:
    """1 publish, 3 publishes."""
    return f"{n:,} {one if n == 1 else one + ('es' if one.endswith('sh') else 's')}"


def times(n: int) -> str:
    return "once" if n == 1 else "twice" if n == 2 else f"{n:,} times"


def client(row: Row) -> str:
    """A client in a sentence."""
    return (
        f"client {row['client_id']}"
        if row.get("client_id")
        else f"the client at {row.get('client_ip')}:{row.get('client_port')}"
    )


def at(row: Row) -> str:
    place = row.get("queue") or row.get("destination")
    return f" ({place})" if place else ""


def _answer(row: Row) -> str:
    """What an answer says."""
    code = row["code"]
    words = [] if code is None else [code_words(row["protocol"], code)]
    if row["text"]:
        words.append(str(row["text"]).splitlines()[0])
    return f": {' '.join(words)}" if words else ""


class Report:
    """Writes the rows, and knows the connections."""

    def __init__(self, counts: Counts, connections: Sequence[Row]) -> None:
        self.counts = counts
        self.connections = sorted(connections, key=lambda c: (begin_of(c), c["flow_id"]))
        self.by_flow = {c["flow_id"]: c for c in connections}
        self.end = max((end_of(c) for c in connections), default=0)
        self.rows: list[dict[str, Any]] = []

    def counted(self, rule: str, *key: Any) -> int:
        found = self.counts.found.get((rule, key))
        return 0 if found is None else found.count

    def connection(self, found: Found) -> Row:
        return self.by_flow.get(found.first["flow_id"], {})

    def put_operations(self, rule: str, found: Found, cause: str | tuple[str, int]) -> None:
        """A finding about operations. cause: the sentence, with the count if it is not that of all."""
        cause, count = cause if isinstance(cause, tuple) else (cause, found.count)
        row = {name: found.first[name] for name in WHO}
        row["capture"] = found.first["capture"]
        if rule == "blocked":
            row["destination"] = None  # the reason, which the sentence has
        of = self.connection(found)
        row["server_ip"], row["server_port"] = of.get("server_ip"), of.get("server_port")
        action = advice(row["protocol"], found.first["code"], found.first["text"]) if rule in OF_ANSWERS else None
        self._put(rule, found.time, cause, count, row, found.frames, action)

    def put_connections(
        self, rule: str, cause: str, *of: Row, time: int | None = None, count: int | None = None, **more: Any
    ) -> None:
        """A finding about connections; the first of them is named."""
        first = of[0]
        names = ("protocol", "flow_id", "client_ip", "client_port", "client_id", "server_ip", "server_port", "capture")
        row = {name: first.get(name) for name in names}
        consumed = self.counts.found.get(("_consumes", (first["flow_id"],)))
        if rule in OF_CONSUMERS and consumed is not None:
            row["queue"], row["destination"] = consumed.first["queue"], consumed.first["destination"]
        frames = more.pop("frames", None)
        if frames is None:
            ends = {c["ended_frame"] for c in of if c["capture"] == first["capture"] and c["ended_frame"] is not None}
            frames = sorted(ends)[:FRAMES_MAX] if rule in OF_ENDS else []
        row.update(more)
        action = advice(first["protocol"], first["code"], first["text"]) if rule in OF_ANSWERS else None
        self._put(
            rule, begin_of(first) if time is None else time, cause, len(of) if count is None else count, row, frames, action
        )  # fmt: skip

    def _put(
        self, rule: str, time: int, cause: str, count: int, row: dict[str, Any], frames: list[int], action: str | None
    ) -> None:
        of = RULES[rule]
        row.update(
            ts=time // 1000, severity=of.severity, rule=rule, text=_sentence(cause, action or of.action), count=count,
            frames=frames,
        )  # fmt: skip
        self.rows.append(row)


OF_ENDS: Final = (
    "closed-by-error",
    "protocol-violation",
    "shutdown",
    "keep-alive-missed",
    "taken-over",
    "takeover-fight",
)
#: Rules about an answer, whose code and text say what to do.
OF_ANSWERS: Final = ("login-refused", "refused", "closed-by-error", "publish-rejected")
OF_CONSUMERS: Final = ("prefetch-unlimited", "prefetch-one", "window-exhausted", "rdy-starvation")


def begin_of(c: Row) -> int:
    """Time of a connection's first packet or message, ns."""
    times = [
        c[name] for name in ("first_ns", "login_ns", "client_message_ns", "server_message_ns") if c[name] is not None
    ]
    return int(times[0]) if times else 0


def end_of(c: Row) -> int:
    """Time of a connection's end, or of the last that was seen of it, ns."""
    if c["closed_ns"] is not None:
        return int(c["closed_ns"])
    names = ("client_last_ns", "server_last_ns", "client_message_ns", "server_message_ns")
    return max((int(c[name]) for name in names if c[name] is not None), default=begin_of(c))


def step_end(step: int) -> int:
    """The upper end of a step of durations, ns."""
    return int(2 ** ((step + 1) / 4))


# ---- sentences about operations


Told = str | tuple[str, int] | None


def _login_refused(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"the server refused {number(found.count, 'login')} of {client(found.first)}{_answer(found.first)}"


#: What a client may not do with a destination.
_MAY: Final = {
    "publish": "to publish to", "deliver": "to consume from", "subscribe": "to subscribe to", "consume": "to consume from",
    "get": "to get from", "declare": "to declare", "delete": "to delete", "bind": "to bind to",
}  # fmt: skip


def _permission_refused(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    if row["protocol"] == "amqp091":  # the request, or the end of the channel, whose text names it
        method = "" if row["kind"] == "close" else f" for {row['message_kind']}"
        return (
            f"{client(row)} has no permission{method}{at(row)}{_answer(row)}; the server closed channel {row['channel']}",
            1,
        )
    place = row["destination"] or row["queue"]
    what = _MAY[row["kind"]] if row["kind"] in _MAY and place else f"for {row['kind']}"
    often = f" ({times(found.count)})" if found.count > 1 else ""
    return f"{client(row)} has no permission {what}{f' {place}' if place else ''}{often}{_answer(row)}"


def _refused(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    return f"the server refused {number(found.count, row['kind'])}{at(row)} of {client(row)}{_answer(row)}"


def _no_route(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    often = f" {times(found.count)}" if found.count > 1 else ""
    return f"{client(row)} asked{often} for the topic {row['destination']}, which has no route{_answer(row)}"


def _flow_control(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"the broker was too busy for {number(found.count, 'request')}{at(found.first)}{_answer(found.first)}"


def _closed_by_error(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    what = {"channel.close": f"channel {row['channel']}", "detach": f"link {row['link']}", "end": "a session"}
    return f"the server closed {what[row['message_kind']]} of {client(row)}{_answer(row)}"


def _offset_illegal(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return (
        f"the broker moved the offset of group {found.first['consumer_group']}{at(found.first)} {times(found.count)}: "
        "what it asked for is not there"
    )


def _rebalance_storm(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    most = found.most_within(MINUTE)
    if most < threshold("rebalance-storm"):
        return None
    group = f" of group {found.first['consumer_group']}" if found.first["consumer_group"] else ""
    return f"the broker told {client(found.first)} {most} times within 60 s that consumers{group} come or go", most


def _publish_rejected(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    return f"the server rejected {number(found.count, 'message')} of {client(row)}{at(row)}{_answer(row)}"


def _unroutable(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    how = "returned" if row["outcome"] == "returned" else "released"
    why = "no queue matches" if how == "returned" else "RabbitMQ does so if no queue is bound"
    return f"the server {how} {number(found.count, 'message')} of {client(row)}{at(row)}: {why}"


def _no_subscriber(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"nobody subscribes to {found.first['destination']}: {number(found.count, 'message')} reached no one"


def _without_confirms(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    if found.count < threshold("publisher-without-confirms"):
        return None
    return f"{client(found.first)} published {found.count} persistent messages{at(found.first)} without confirms"


def _lost(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    count = found.count - report.counted("_resumed", key[0], "publish")
    if count < threshold("lost") or report.connection(found).get("server_missing_bytes"):
        return None
    return (
        f"{number(count, 'publish')} of {client(found.first)}{at(found.first)} had no answer when the connection or channel "
        "ended",
        count,
    )


def _large_message(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    have = "has" if found.count == 1 else "have up to"
    return f"{number(found.count, 'message')} of or for {client(found.first)}{at(found.first)} {have} {found.biggest:,} bytes"


def _unsettled(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    connection = report.connection(found)
    if not connection or connection["client_missing_bytes"]:
        return None
    end = end_of(connection)
    wait = 10 * SECOND if connection["how"] == "open" or connection["protocol"] == "rocketmq" else SECOND
    if (connection["deliver_answers"] or 0) >= 20:
        wait = max(20 * TICK, 10 * step_end(connection["deliver_late"]))
    count = found.before(end - wait) - report.counted("_resumed", key[0], "deliver")
    if count < threshold("unsettled-grows"):
        return None
    return (
        f"{count} deliveries to {client(found.first)}{at(found.first)} were never acknowledged, the oldest for "
        f"{seconds(end - found.time)}",
        count,
    )


def _delivery_rejected(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"{client(found.first)} rejected {number(found.count, 'message')}{at(found.first)}"


def _redelivery_loop(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    if found.count < threshold("redelivery-loop"):
        return None
    row = found.first
    name = f"message {row['message_id']}" if row["message_id"] else "the same message"
    return f"{name}{at(row)} was delivered {times(found.count)} and came back each time"


def _dead_lettered(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    where = f"{row['death_queue']} became dead letters in {row['queue']}"
    return f"{number(found.count, 'message')} of {where}: {row['death_reason'] or 'the server gives no reason'}"


def _expired(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    return f"{number(found.count, 'message')} of {row['death_queue']} expired, and came to {row['queue']}"


def _duplicate(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"{client(found.first)} got {number(found.count, 'message')}{at(found.first)} again that it had acknowledged before"


def _passed_over(report: Report, key: tuple[Any, ...], kind: str) -> int:
    """How many QoS 2 messages have no PUBREC, though later ones of the connection have."""
    silent = report.counts.found.get((f"_passed_{kind}", key))
    received = report.by_flow.get(key[0], {}).get(f"{kind}_received")
    if silent is None or received is None:
        return 0
    return sum(time < received for time, *_ in silent.evidence)


def _qos2_stuck(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    connection = report.connection(found)
    end = end_of(connection) if connection else report.end
    if connection and connection["how"] == "open":
        end = report.end
    wait, usual = threshold("qos2-stuck") * 1_000_000, connection.get(f"{found.first['kind']}_most")
    if usual is not None:
        wait = min(wait, max(2 * TICK, 10 * step_end(usual)))
    count = max(found.before(end - wait), _passed_over(report, key, found.first["kind"]))
    count -= report.counted("_resumed", key[0], found.first["kind"])
    if count < 1 or connection.get("client_missing_bytes") or connection.get("server_missing_bytes"):
        return None
    way = "to" if found.first["kind"] == "deliver" else "from"
    return (
        f"{number(count, 'QoS 2 message')} {way} {client(found.first)}{at(found.first)} stopped half way: no PUBCOMP followed",
        count,
    )


def _blocked(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    row = found.first
    how_long = f"for {seconds(found.total)}" if row["outcome"] == "acknowledged" else "until the end"
    reason = f": {row['destination']}" if row["destination"] else ""
    return f"the server blocked {client(row)} {how_long}{reason}"


def _retained_storm(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    most = found.most_within(10 * SECOND)
    if most < threshold("retained-storm"):
        return None
    return f"{client(found.first)} got {most} retained messages within 10 s", most


def _nsq_requeue(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"{client(found.first)} gave {number(found.count, 'message')}{at(found.first)} back with REQ"


def _nsq_timeout(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"{client(found.first)} did not finish {number(found.count, 'message')}{at(found.first)} within msg_timeout"


def _cancelled(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    return f"the server cancelled a consumer of {client(found.first)}{at(found.first)}: its queue is gone"


def _channel_churn(report: Report, key: tuple[Any, ...], found: Found) -> Told:
    most = found.most_within(10 * SECOND)
    at_one_time = report.connection(found).get("channels") or 1
    if most < threshold("channel-churn") or found.count < 4 * at_one_time:
        return None
    return (
        f"{client(found.first)} opened {found.count} channels, up to {most} within 10 s and never more than "
        f"{at_one_time} at one time"
    )


#: The cause in a sentence, of what was counted; None: it is not worth a finding.
CAUSES: Final[dict[str, Callable[[Report, tuple[Any, ...], Found], Told]]] = {
    "login-refused": _login_refused, "permission-refused": _permission_refused, "refused": _refused,
    "rocketmq-no-route": _no_route, "flow-control": _flow_control, "closed-by-error": _closed_by_error,
    "offset-illegal": _offset_illegal, "publish-rejected": _publish_rejected, "unroutable": _unroutable,
    "no-subscriber": _no_subscriber, "publisher-without-confirms": _without_confirms, "lost": _lost,
    "large-message": _large_message, "unsettled-grows": _unsettled, "delivery-rejected": _delivery_rejected,
    "redelivery-loop": _redelivery_loop, "dead-lettered": _dead_lettered, "expired": _expired, "duplicate": _duplicate,
    "qos2-stuck": _qos2_stuck,
    "blocked": _blocked, "retained-storm": _retained_storm, "nsq-requeue": _nsq_requeue, "nsq-timeout": _nsq_timeout,
    "consumer-cancelled": _cancelled, "channel-churn": _channel_churn, "rebalance-storm": _rebalance_storm,
}  # fmt: skip
