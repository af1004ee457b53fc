"""What is wrong: findings, made of operations as they complete and of connections at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from wirefmt.batch import Batch
from wirefmt.insight.counts import FRAMES_MAX, MINUTE, PERMISSION, SECOND, Counts, Found, Row, most_within, threshold
from wirefmt.insight.reasons import MQTT_CODES, seconds
from wirefmt.insight.report import CAUSES, Report, at, client, end_of, number, quantile
from wirefmt.insight.tls import TlsCounts
from wirefmt.spec.rules import SEVERITIES

#: Of an end that says that the other side broke the protocol.
_AMQP091_VIOLATIONS: Final = (501, 502, 503, 504, 505)
_VIOLATION_WORDS: Final = ("framing-error", "decode-error", "illegal-state", "E_INVALID", "E_BAD_BODY", "E_BAD_MESSAGE")


class Findings:
    """Findings of one capture. Feed it all operations, and at the end all connections.

    Args:
        max_entries: how many keys are counted at most; others are dropped and counted in `dropped`.
    """

    def __init__(self, max_entries: int = 1 << 15) -> None:
        self._counts = Counts(max_entries)
        self._tls = TlsCounts(max_entries)

    @property
    def dropped(self) -> int:
        return self._counts.dropped + self._tls.dropped

    def in_tls(self, rows: Iterable[Row]) -> None:
        """Look at connections in TLS that have ended: columns of TRANSPORT by name."""
        self._tls.add(rows)

    def operations(self, batch: Batch) -> None:
        """Look at a batch with all columns of OPERATIONS."""
        self._counts.add(batch)

    def finish(self, connections: Sequence[Row]) -> list[dict[str, Any]]:
        """The findings: rows of FINDINGS as dicts, by time.

        connections: columns of CONNECTION_FACTS by name, reason and reason_text.
        """
        report = Report(self._counts, connections)
        for (rule, key), found in self._counts.found.items():
            if rule in CAUSES and found.count >= 1:
                cause = CAUSES[rule](report, key, found)
                if cause is not None:
                    report.put_operations(rule, found, cause)
        for tell in _OF_CONNECTIONS:
            tell(report)
        self._tls.tell(report)
        severities = {name: i for i, name in enumerate(SEVERITIES)}
        report.rows.sort(
            key=lambda row: (
                row["ts"], severities[row["severity"]], row["rule"], row.get("flow_id") or 0, row["text"], row["frames"],
            )
        )  # fmt: skip
        return report.rows


def _about_ends(report: Report) -> None:
    """Reasons of ends that are findings by themselves."""
    shut: dict[tuple[Any, ...], list[Row]] = {}
    taken: dict[tuple[Any, ...], list[Row]] = {}
    for c in report.connections:
        reason, text = c["reason"], c["reason_text"]
        server = c["protocol"], c["server_ip"], c["server_port"]
        if reason in ("keep-alive", "abandoned") and c["ended_by"] is None and c["client_missing_bytes"]:
            continue  # it may be in what was not captured
        if reason in ("keep-alive", "vanished", "half-open", "reset", "abandoned"):
            rule = "keep-alive-missed" if reason == "keep-alive" else reason
            report.put_connections(rule, f"{client(c)}: {text}", c, time=end_of(c))
        elif reason == "shutdown" and c["ended_by"] != "client":
            shut.setdefault(server, []).append(c)
        elif reason == "taken-over":
            taken.setdefault((*server, c["client_id"]), []).append(c)
        elif reason == "refused" and not c["login_refused"] and not c["server_missing_bytes"]:
            _about_refusal(report, c)
        elif reason in ("protocol-error", "resource-error"):
            report.put_connections("closed-by-error", f"the connection of {client(c)} ended: {text}", c, time=end_of(c))
    for of in shut.values():
        of.sort(key=end_of)
        said = next((c["reason_text"] for c in of if c["ended_by"] is not None), "it said nothing")
        cause = f"the server ended {number(len(of), 'connection')} at about one time: {said}"
        report.put_connections("shutdown", cause, *of, time=end_of(of[0]))
    for of in taken.values():
        of.sort(key=end_of)
        most = most_within([(end_of(c), 1) for c in of], MINUTE)
        rule = "takeover-fight" if most >= threshold("takeover-fight") else "taken-over"
        cause = f"{client(of[0])} was taken over {number(len(of), 'time')}"
        report.put_connections(rule, cause, *of, time=end_of(of[0]))


def _about_refusal(report: Report, c: Row) -> None:
    """A connection that the server refused without an answer to the login, or after it."""
    if not c["logged_in"]:
        report.put_connections(
            "login-refused", f"{client(c)}: {c['reason_text']}; probably the credentials", c, time=end_of(c)
        )
    elif c["code"] in PERMISSION.get(c["protocol"] or "", ()):
        report.put_connections(
            "permission-refused", f"the connection of {client(c)} ended: {c['reason_text']}", c, time=end_of(c)
        )
    else:
        report.put_connections(
            "closed-by-error", f"the connection of {client(c)} ended: {c['reason_text']}", c, time=end_of(c)
        )


def _about_violations(report: Report) -> None:
    for c in report.connections:
        if c["malformed"] and not c["client_missing_bytes"] and not c["server_missing_bytes"]:
            side = "server" if c["fault_direction"] == 1 else "client"
            are = "message that is" if c["malformed"] == 1 else "messages that are"
            cause = f"the {side} sent {c['malformed']} {are} not valid: {c['fault']}"
            frames = [] if c["fault_frame"] is None else [c["fault_frame"]]
            report.put_connections(
                "protocol-violation", cause, c, time=c["fault_ns"], count=c["malformed"], frames=frames
            )
        elif (
            c["violations"]
            and c["opened"] is not None
            and not c["client_missing_bytes"]
            and not c["server_missing_bytes"]
        ):
            side = "server" if c["violation_direction"] == 1 else "client"
            more = f"; {c['violations'] - 1} more" if c["violations"] > 1 else ""
            cause = f"the {side} sent what it must not send then ({client(c)}): {c['violation']}{more}"
            frames = [] if c["violation_frame"] is None else [c["violation_frame"]]
            report.put_connections(
                "protocol-violation", cause, c, time=c["violation_ns"], count=c["violations"], frames=frames
            )
        elif c["ended_by"] is not None and c["failed"] and _names_violation(c):
            report.put_connections("protocol-violation", f"{client(c)}: {c['reason_text']}", c, time=end_of(c))


def _names_violation(c: Row) -> bool:
    """Does the end say that the other side broke the protocol?"""
    if c["protocol"] == "mqtt":
        return MQTT_CODES.get(c["code"]) == "protocol-error"
    if c["protocol"] == "amqp091":
        return c["code"] in _AMQP091_VIOLATIONS
    return any(word in (c["text"] or "") for word in _VIOLATION_WORDS)


def _about_storms(report: Report) -> None:
    """Connections that come and go."""
    short: dict[tuple[Any, ...], list[Row]] = {}
    singles: dict[tuple[Any, ...], list[Row]] = {}
    for c in report.connections:
        if c["closed_ns"] is None or c["first_ns"] is None or c["protocol"] is None:
            continue
        life = c["closed_ns"] - c["first_ns"]
        sent, got = c["published"] or 0, c["delivered"] or 0
        server = c["protocol"], c["client_ip"], c["server_ip"], c["server_port"]
        if (
            life <= 5 * SECOND
            and 1 <= sent <= 2
            and got == 0
            and not c["subscriptions"]
            and c["reason"] in ("orderly", "abandoned")
        ):
            singles.setdefault((*server, c["client_id"]), []).append(c)
        elif life <= 30 * SECOND and c["client_id"]:
            short.setdefault((*server, c["client_id"]), []).append(c)
    for of in short.values():
        if most_within([(c["first_ns"], 1) for c in of], MINUTE) >= threshold("reconnect-storm"):
            span = seconds(of[-1]["first_ns"] - of[0]["first_ns"])
            report.put_connections("reconnect-storm", f"{client(of[0])} connected {len(of)} times within {span}", *of)
    limit = threshold("connection-per-message")
    others: dict[tuple[Any, ...], list[Row]] = {}  # client identifiers that are made up each time
    for key, of in singles.items():
        if len(of) >= limit:
            others[key] = of
        else:
            others.setdefault(key[:-1], []).extend(of)
    for of in others.values():
        of.sort(key=lambda c: c["first_ns"])
        if most_within([(c["first_ns"], 1) for c in of], MINUTE) >= limit:
            cause = f"{client(of[0])} opened {len(of)} connections, each for one or two messages"
            report.put_connections("connection-per-message", cause, *of)


def _about_channels(report: Report) -> None:
    for c in report.connections:
        most = c["channels"] or 0
        if c["protocol"] in ("amqp091", "amqp10") and most >= threshold("channel-leak"):
            opened, closed = report.counted("channel-churn", c["flow_id"]), report.counted("_closes", c["flow_id"])
            if closed * 10 <= opened:
                cause = f"{client(c)} had {most} channels open at one time and closed {closed} of {opened}"
                report.put_connections("channel-leak", cause, c, count=most)


def _about_windows(report: Report) -> None:
    for c in report.connections:
        delivered, most = c["delivered"] or 0, c["most_unsettled"] or 0
        if c["protocol"] == "amqp091":
            if c["login_ns"] is not None and not c["client_window"] and most >= threshold("prefetch-unlimited"):
                cause = f"{client(c)} has no prefetch limit and held {most} deliveries at one time"
                report.put_connections("prefetch-unlimited", cause, c, count=most)
            elif c["client_window"] == 1 and delivered >= threshold("prefetch-one"):
                cause = f"{client(c)} takes one message at a time: {delivered} deliveries, one after the other"
                report.put_connections("prefetch-one", cause, c, count=delivered)
        limit = threshold("window-exhausted") * 1_000_000
        place = c["waited_for"]
        if (c["window_full_ns"] or 0) >= limit:
            cause = (
                f"messages for {client(c)}{at({'queue': place})} waited {seconds(c['window_full_ns'])} "
                "because as many as it allows were not acknowledged"
            )
            report.put_connections("window-exhausted", cause, c, time=c["window_full_at_ns"], destination=place)
        rule = "rdy-starvation" if c["protocol"] == "nsq" else "window-exhausted"
        if (c["no_credit_ns"] or 0) >= threshold(rule) * 1_000_000:
            what = "RDY was 0" if c["protocol"] == "nsq" else "it gave no credit"
            cause = f"messages for {client(c)}{at({'queue': place})} waited {seconds(c['no_credit_ns'])} because {what}"
            report.put_connections(rule, cause, c, time=c["no_credit_at_ns"], destination=place)


def _about_durations(report: Report) -> None:
    for (flow, kind), histogram in report.counts.durations.items():
        if kind != "publish" or histogram.total() < 20 or flow not in report.by_flow:
            continue
        late = quantile(histogram, 0.99)
        if late >= threshold("slow-acknowledgement") * 1_000_000:
            c = report.by_flow[flow]
            cause = (
                f"of {histogram.total()} publishes of {client(c)} half were acknowledged within "
                f"{seconds(quantile(histogram, 0.5))} and 99 % within {seconds(late)}"
            )
            report.put_connections("slow-acknowledgement", cause, c, count=histogram.total())


def _about_sizes(report: Report) -> None:
    """Messages that are large for the frames that were agreed."""
    for (flow, kind), size in sorted(report.counts.sizes.items()):
        c = report.by_flow.get(flow)
        if c is None or size >= threshold("large-message") or not c["frame_max"]:
            continue
        way = "for" if kind == "deliver" else "of"
        if c["protocol"] in ("amqp091", "amqp10") and size > 8 * c["frame_max"]:
            cause = f"a message {way} {client(c)} has {size:,} octets, frames have {c['frame_max']:,} at most"
        elif c["protocol"] == "mqtt" and kind == "deliver" and 10 * size >= 8 * c["frame_max"]:
            cause = f"a message for {client(c)} has {size:,} octets, its Maximum Packet Size is {c['frame_max']:,}"
        else:
            continue
        report.put_connections("large-message", cause, c, count=1)


def _about_expiry(report: Report) -> None:
    """Messages whose time to live ran out, and that were not delivered, while later ones were."""
    by_place: dict[tuple[Any, ...], list[tuple[int, Row]]] = {}
    for published, until, row in report.counts.dated.values():
        if until < report.end and report.counts.dated_places.get(row["destination"] or "", 0) > published:
            by_place.setdefault((row["flow_id"], row["destination"]), []).append((published, row))
    for of in by_place.values():
        of.sort(key=lambda one: one[0])
        row = of[0][1]
        found = Found()
        found.count, found.first = len(of), row
        frames = [(t, one["request_frame"] or -1, -1, one["capture"] or "") for t, one in of[:FRAMES_MAX]]
        found.evidence = frames
        after = seconds(1_000_000 * row["ttl_ms"])
        cause = f"{number(len(of), 'message')} of {client(row)}{at(row)} expired after {after}; no delivery was seen"
        report.put_operations("expired", found, cause)


def _is_copied(c: Row) -> bool:
    """Was every packet captured twice?"""
    share = threshold("copied-packets")
    return all(
        c[f"{side}_bytes"] and (c[f"{side}_packets"] or 0) >= 8
        and 100 * (c[f"{side}_retransmitted_bytes"] or 0) >= share * c[f"{side}_bytes"]
        for side in ("client", "server")
    )  # fmt: skip


def _about_tcp(report: Report) -> None:
    copied: dict[Any, list[Row]] = {}
    gaps: dict[Any, list[Row]] = {}
    secrets: dict[tuple[Any, ...], list[Row]] = {}
    for c in report.connections:
        if _is_copied(c):
            copied.setdefault(c["capture"], []).append(c)
        else:
            _about_loss(report, c)
        if (c["client_missing_bytes"] or 0) + (c["server_missing_bytes"] or 0):
            gaps.setdefault(c["capture"], []).append(c)
        if (
            c["secret_ns"] is not None
            and c["carrier"] in (None, "plain", "websocket")
            and not _is_local(c["client_ip"])
        ):
            secrets.setdefault((c["protocol"], c["server_ip"], c["server_port"]), []).append(c)
        for side in ("client", "server"):
            n = c[f"{side}_zero_windows"] or 0
            if n >= threshold("zero-window"):
                cause = f"the {side} said {n} times in TCP that it takes no more octets ({client(c)})"
                report.put_connections("zero-window", cause, c, count=n)
    for of in copied.values():
        report.put_connections(
            "copied-packets", f"the packets of {number(len(of), 'connection')} were captured twice", *of
        )
    for of in gaps.values():
        octets = sum((c["client_missing_bytes"] or 0) + (c["server_missing_bytes"] or 0) for c in of)
        cause = f"{octets:,} octets of {number(len(of), 'connection')} were not captured"
        report.put_connections("capture-gaps", cause, *of)
    for of in secrets.values():
        cause = f"{number(len(of), 'login')} sent a password to {of[0]['server_ip']}:{of[0]['server_port']} without TLS"
        report.put_connections("plaintext-credentials", cause, *of, time=of[0]["secret_ns"])


def _is_local(address: str | None) -> bool:
    return address is None or address.startswith("127.") or address == "::1"


def _about_loss(report: Report, c: Row) -> None:
    for side in ("client", "server"):
        again, all_ = c[f"{side}_retransmitted_bytes"] or 0, c[f"{side}_bytes"] or 0
        lost = c["reason"] in ("keep-alive", "vanished", "half-open")
        if again >= (1 if lost else 100) and 100 * again >= threshold("retransmissions") * all_:
            cause = f"the {side} sent {again:,} of {all_:,} octets again ({client(c)})"
            report.put_connections("retransmissions", cause, c, count=again)


#: Of all connections.
_OF_CONNECTIONS: Final[tuple[Callable[[Report], None], ...]] = (
    _about_ends, _about_violations, _about_storms, _about_channels, _about_windows, _about_durations, _about_sizes,
    _about_expiry, _about_tcp,
)  # fmt: skip
