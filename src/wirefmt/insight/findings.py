"""What is wrong: findings, made of operations as they complete and of connections at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Final

from wirefmt.batch import Batch
from wirefmt.insight.counts import FRAMES_MAX, MINUTE, PERMISSION, SECOND, Counts, Found, Row, most_within, threshold
from wirefmt.insight.deliveries import FEW, SLOW_NS, Deliveries, quantile
from wirefmt.insight.reasons import MQTT_CODES, seconds
from wirefmt.insight.report import CAUSES, Report, at, begin_of, client, end_of, number, step_end, times
from wirefmt.insight.tls import TlsCounts
from wirefmt.spec.rules import SEVERITIES

#: Of an end that says that the other side broke the protocol.
#: Codes of MQTT 5.0 for what the other side does not take: no violation of the protocol's form or order.
_MQTT_UNSUPPORTED: Final = (0x8F, 0x90, 0x93, 0x94, 0x95, 0x99, 0x9A, 0x9B, 0x9E, 0xA1, 0xA2)
_MQTT_MISUSE: Final = (0x93, 0x94, 0x95, 0x9A, 0x9B, 0x9E, 0xA1, 0xA2)
_AMQP091_VIOLATIONS: Final = (501, 502, 503, 504, 505)
#: Mechanisms that prove little, and why (RFC 4505; RFC 2195 and RFC 6331, which retired them).
_WEAK: Final = {
    "ANONYMOUS": "it proves nothing",
    "CRAM-MD5": "passwords can be guessed from what was captured",
    "DIGEST-MD5": "passwords can be guessed from what was captured",
}
_VIOLATION_WORDS: Final = ("framing-error", "decode-error", "illegal-state", "E_INVALID", "E_BAD_BODY", "E_BAD_MESSAGE")


class Findings:
    """Findings of one capture. Feed it the operations that a rule may count, and at the end all connections.

    Args:
        max_entries: how many keys are counted at most; others are dropped and counted in `dropped`.
    """

    def __init__(self, max_entries: int = 1 << 15) -> None:
        self._counts = Counts(max_entries)
        self._deliveries = Deliveries(max_entries)
        self._tls = TlsCounts(max_entries)

    @property
    def dropped(self) -> int:
        return self._counts.dropped + self._deliveries.dropped + self._tls.dropped

    def in_tls(self, rows: Iterable[Row]) -> None:
        """Look at connections in TLS that have ended: columns of TRANSPORT by name."""
        self._tls.add(rows)

    def operations(self, batch: Batch, again: Sequence[int] = ()) -> None:
        """Look at a batch with all columns of OPERATIONS. again: rows of deliveries that were acknowledged before."""
        self._counts.add(batch, again)

    def paths(self, batch: Batch, places: bytes) -> None:
        """Look at a batch with all columns of PATHS. places: of each row the number of the publish's place, as int64."""
        self._deliveries.add(batch, places)

    def finish(self, connections: Sequence[Row], unmatched: int = 0) -> list[dict[str, Any]]:
        """The findings: rows of FINDINGS as dicts, by time.

        unmatched: deliveries whose publish is not known.
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
        _about_missing(report, self._deliveries, unmatched)
        _about_latency(report, self._deliveries)
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
        reason = c["reason"]
        server = c["protocol"], c["server_ip"], c["server_port"]
        if reason in ("keep-alive", "abandoned") and c["ended_by"] is None and c["client_missing_bytes"]:
            continue  # it may be in what was not captured
        if reason in ("keep-alive", "vanished", "half-open", "reset", "abandoned"):
            rule = "keep-alive-missed" if reason == "keep-alive" else reason
            report.put_connections(rule, _told(c), c, time=end_of(c))
        elif reason == "shutdown" and c["ended_by"] != "client":
            shut.setdefault(server, []).append(c)
        elif reason == "taken-over":
            taken.setdefault((*server, c["client_id"]), []).append(c)
        elif reason == "refused" and not c["login_refused"] and not c["server_missing_bytes"]:
            _about_refusal(report, c)
        elif reason in ("protocol-error", "resource-error"):
            report.put_connections(
                "closed-by-error", f"the connection of {client(c)} ended: {c['reason_text']}", c, time=end_of(c)
            )
    for of in shut.values():
        of.sort(key=end_of)
        said = next((f": {c['reason_text']}" for c in of if c["ended_by"] is not None), " without a word")
        together = " at about the same time" if len(of) > 1 else ""
        cause = f"the server at {of[0]['server_ip']}:{of[0]['server_port']} ended {number(len(of), 'connection')}{together}{said}"
        report.put_connections("shutdown", cause, *of, time=end_of(of[0]))
    for of in taken.values():
        of.sort(key=end_of)
        most = most_within([(end_of(c), 1) for c in of], MINUTE)
        rule = "takeover-fight" if most >= threshold("takeover-fight") else "taken-over"
        cause = f"{client(of[0])} was taken over {times(len(of))}: {of[0]['reason_text']}"
        report.put_connections(rule, cause, *of, time=end_of(of[0]))


#: How reasons begin, and what is said in its place if the client is named.
_BEGINS: Final = {"the client ": "", "nothing from the client for ": "sent nothing for "}


def _told(c: Row) -> str:
    """Why a connection ended, with the client's name."""
    text: str = c["reason_text"]
    if c["reason"] == "keep-alive" and c["ended_by"] == "server":
        return f"{client(c)} was not heard in time: {text}"
    for begin, instead in _BEGINS.items():
        if text.startswith(begin):
            return f"{client(c)} {instead}{text.removeprefix(begin)}"
    return f"{client(c)}: {text}"


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
            cause = f"the {side} sent {c['malformed']} {are} not valid ({client(c)}): {c['fault']}"
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


def _about_misuse(report: Report) -> None:
    for c in report.connections:
        if c["misuses"] and c["opened"] is not None and not c["client_missing_bytes"] and not c["server_missing_bytes"]:
            by_server = c["misuse_direction"] == 1
            who = f"the server sent {client(c)} what it" if by_server else f"{client(c)} sent what the server"
            more = f"; {c['misuses'] - 1} more" if c["misuses"] > 1 else ""
            cause = f"{who} does not take: {c['misuse']}{more}"
            frames = [] if c["misuse_frame"] is None else [c["misuse_frame"]]
            report.put_connections("property-misuse", cause, c, time=c["misuse_ns"], count=c["misuses"], frames=frames)
        elif c["protocol"] == "mqtt" and c["ended_by"] is not None and c["failed"] and c["code"] in _MQTT_MISUSE:
            report.put_connections("property-misuse", f"{client(c)}: {c['reason_text']}", c, time=end_of(c))


def _names_violation(c: Row) -> bool:
    """Does the end say that the other side broke the protocol?"""
    if c["protocol"] == "mqtt":
        return MQTT_CODES.get(c["code"]) == "protocol-error" and c["code"] not in _MQTT_UNSUPPORTED
    if c["protocol"] == "amqp091":
        return c["code"] in _AMQP091_VIOLATIONS and "exchange type" not in (c["text"] or "")
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
            report.put_connections("reconnect-storm", f"{client(of[0])} connected {times(len(of))} within {span}", *of)
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


#: Windows of AMQP 1.0: the facts, of whose messages, and why they waited.
_WINDOWS: Final = (
    ("session_full", "for", "the window of its session was full"),
    ("held", "of", "the server gave no credit"),
    ("held_session", "of", "the window of the server's session was full"),
)


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
        for name, of, why in _WINDOWS:
            if (c[f"{name}_ns"] or 0) >= limit:
                held = c["held_for"] if of == "of" else place
                what = "messages for" if of == "for" else "publishes of"
                cause = f"{what} {client(c)}{at({'queue': held})} waited {seconds(c[f'{name}_ns'])} because {why}"
                report.put_connections("window-exhausted", cause, c, time=c[f"{name}_at_ns"], destination=held)
        rule = "rdy-starvation" if c["protocol"] == "nsq" else "window-exhausted"
        if (c["no_credit_ns"] or 0) >= threshold(rule) * 1_000_000:
            what = "RDY was 0" if c["protocol"] == "nsq" else "it gave no credit"
            cause = f"messages for {client(c)}{at({'queue': place})} waited {seconds(c['no_credit_ns'])} because {what}"
            report.put_connections(rule, cause, c, time=c["no_credit_at_ns"], destination=place)


def _about_durations(report: Report) -> None:
    for c in report.connections:
        if (total := c["publish_answers"] or 0) < 20:
            continue
        late = step_end(c["publish_late"])
        if late >= threshold("slow-acknowledgement") * 1_000_000:
            cause = (
                f"of {total} publishes of {client(c)} half were acknowledged within "
                f"{seconds(step_end(c['publish_half']))} and 99 % within {seconds(late)}"
            )
            report.put_connections("slow-acknowledgement", cause, c, count=total)


def _about_outliers(report: Report) -> None:
    """Acknowledgements that took much longer than the others of the connection."""
    for c in report.connections:
        if (total := c["publish_answers"] or 0) < FEW:
            continue
        half, late, most = (step_end(c[f"publish_{part}"]) for part in ("half", "late", "most"))
        limit = max(SLOW_NS, threshold("acknowledgement-outlier") * half)
        if most >= limit and late < threshold("slow-acknowledgement") * 1_000_000:
            cause = (
                f"of {total} publishes of {client(c)} half were acknowledged within {seconds(half)}, but the slowest took "
                f"{seconds(most)}"
            )
            report.put_connections("acknowledgement-outlier", cause, c, count=1)


def _about_latency(report: Report, deliveries: Deliveries) -> None:
    """Messages that took much longer than others from publisher to consumer."""
    for (publisher, consumer), histogram in deliveries.durations.items():
        ends = report.by_flow.get(publisher), report.by_flow.get(consumer)
        total = histogram.total()
        if total < FEW or ends[0] is None or ends[1] is None:
            continue
        half, begun = step_end(quantile(histogram, 0.5)), ends[1]["login_ns"] or begin_of(ends[1])
        limit = max(SLOW_NS, threshold("delivery-outlier") * half)
        slow = [
            one
            for one in deliveries.slow.get((publisher, consumer), ())
            if one.latency_ns >= limit and one.published_ns > begun
        ]
        if slow:
            cause = (
                f"{number(len(slow), 'message')} of {total} from {client(ends[0])} to {client(ends[1])} took up to "
                f"{seconds(slow[0].latency_ns)}, half took less than {seconds(half)}"
            )
            frames = sorted({one.frame for one in slow if one.frame >= 0 and one.capture == slow[0].capture})
            report.put_connections(
                "delivery-outlier", cause, ends[1], time=slow[0].published_ns, count=len(slow), frames=frames[:FRAMES_MAX],
                capture=slow[0].capture, destination=slow[0].destination,
            )  # fmt: skip


def _about_missing(report: Report, deliveries: Deliveries, unmatched: int) -> None:
    """Messages that no consumer is known to have got, between others of their destination. A server may write payloads anew, so
    they may be among the `unmatched` deliveries whose publish is not known."""
    if any(c["client_missing_bytes"] or c["server_missing_bytes"] for c in report.connections):
        return  # they may be in what was not captured
    for destination, place, lost in deliveries.lost(report.counts.explained):
        first = report.by_flow.get(lost[0].flow_id)
        if first is None or unmatched >= len(lost) or place.delivered < threshold("not-delivered") * len(lost):
            continue
        cause = (
            f"{number(len(lost), 'message')} of {client(first)}{at({'queue': destination})} did not reach a consumer, "
            f"{place.delivered} did"
        )
        frames = sorted({one.frame for one in lost if one.frame >= 0 and one.capture == lost[0].capture})
        report.put_connections(
            "not-delivered", cause, first, time=lost[0].published_ns, count=len(lost), frames=frames[:FRAMES_MAX],
            capture=lost[0].capture, destination=destination,
        )  # fmt: skip


def _about_sizes(report: Report) -> None:
    """Messages that are large for the frames that were agreed."""
    for c, kind in product(report.connections, ("publish", "deliver")):
        size = c[f"{kind}_largest"]
        if size is None or size >= threshold("large-message") or not c["frame_max"]:
            continue
        way = "for" if kind == "deliver" else "of"
        if c["protocol"] in ("amqp091", "amqp10") and size > 8 * c["frame_max"]:
            cause = f"a message {way} {client(c)} has {size:,} bytes, frames have {c['frame_max']:,} at most"
        elif c["protocol"] == "mqtt" and kind == "deliver" and 10 * size >= 8 * c["frame_max"]:
            cause = f"a message for {client(c)} has {size:,} bytes, its Maximum Packet Size is {c['frame_max']:,}"
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
                who = client(c) if side == "client" else f"the server of {client(c)}"
                cause = f"{who} stopped reading: it said {times(n)} in TCP that it takes no more bytes"
                report.put_connections("zero-window", cause, c, count=n)
    for of in copied.values():
        report.put_connections(
            "copied-packets", f"the packets of {number(len(of), 'connection')} were captured more than once", *of
        )
    for of in gaps.values():
        octets = sum((c["client_missing_bytes"] or 0) + (c["server_missing_bytes"] or 0) for c in of)
        cause = f"{octets:,} bytes of {number(len(of), 'connection')} were not captured"
        report.put_connections("capture-gaps", cause, *of)
    for of in secrets.values():
        cause = f"{number(len(of), 'login')} sent a password to {of[0]['server_ip']}:{of[0]['server_port']} without TLS"
        report.put_connections("plaintext-credentials", cause, *of, time=of[0]["secret_ns"])


def _about_captures(report: Report) -> None:
    """Trouble of the captures themselves."""
    captures: dict[Any, list[Row]] = {}
    for c in report.connections:
        captures.setdefault(c["capture"], []).append(c)
    for of in captures.values():
        decoded = [c for c in of if c["protocol"] is not None and c["first_ns"] is not None]
        old = [c for c in decoded if c["opened"] is None]
        if old and 100 * len(old) >= threshold("capture-cut") * len(decoded):
            cause = f"{len(old)} of {number(len(decoded), 'connection')} began before the capture"
            report.put_connections("capture-cut", cause, *old)
        cut = [c for c in of if c["truncated"]]
        if cut:
            n = sum(c["truncated"] for c in cut)
            cause = f"{number(n, 'packet')} of {number(len(cut), 'connection')} {'was' if n == 1 else 'were'} captured in part"
            report.put_connections("truncated-packets", cause, *cut, count=n)
        back = [c for c in of if (c["backwards_ns"] or 0) >= threshold("clock-backwards") * 1_000_000]
        if back:
            most = max(c["backwards_ns"] for c in back)
            cause = f"the times of packets of {number(len(back), 'connection')} run backwards by up to {seconds(most)}"
            report.put_connections("clock-backwards", cause, *back)


def _about_mss(report: Report) -> None:
    small: dict[tuple[Any, ...], list[Row]] = {}
    for c in report.connections:
        sizes = [c[f"{side}_mss"] for side in ("client", "server") if c[f"{side}_mss"] is not None]
        if sizes and min(sizes) <= threshold("small-mss"):
            small.setdefault((c["client_ip"], c["server_ip"], min(sizes)), []).append(c)
    for (client_ip, server_ip, size), of in small.items():
        cause = (
            f"{number(len(of), 'connection')} between {client_ip} and {server_ip} had segments of {size} bytes at most"
        )
        report.put_connections("small-mss", cause, *of)


def _about_mechanisms(report: Report) -> None:
    weak: dict[tuple[Any, ...], list[Row]] = {}
    for c in report.connections:
        if c["mechanism"] in _WEAK and not _is_local(c["client_ip"]):
            weak.setdefault((c["mechanism"], c["server_ip"], c["server_port"]), []).append(c)
    for (mechanism, ip, port), of in weak.items():
        cause = f"{number(len(of), 'login')} to {ip}:{port} used {mechanism}: {_WEAK[mechanism]}"
        report.put_connections("weak-mechanism", cause, *of, time=of[0]["login_ns"])


def _is_local(address: str | None) -> bool:
    return address is None or address.startswith("127.") or address == "::1"


def _about_loss(report: Report, c: Row) -> None:
    for side in ("client", "server"):
        again, all_ = c[f"{side}_retransmitted_bytes"] or 0, c[f"{side}_bytes"] or 0
        lost = c["reason"] in ("keep-alive", "vanished", "half-open")
        if again >= (1 if lost else 100) and 100 * again >= threshold("retransmissions") * all_:
            who = client(c) if side == "client" else f"the server of {client(c)}"
            cause = f"{who} had to send {again:,} of {all_:,} bytes again"
            report.put_connections("retransmissions", cause, c, count=again)


#: Of all connections.
_OF_CONNECTIONS: Final[tuple[Callable[[Report], None], ...]] = (
    _about_ends, _about_violations, _about_misuse, _about_storms, _about_channels, _about_windows, _about_durations,
    _about_outliers, _about_sizes, _about_expiry, _about_tcp, _about_captures, _about_mss, _about_mechanisms,
)  # fmt: skip
