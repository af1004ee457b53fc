"""Why a connection ended: from what was said, and from times. It is decided when all connections are known.

Real servers are often silent: what they do not say is inferred, and the sentence gives the evidence. Where nothing fits, the
reason is `unknown`.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from wirefmt.protocols import PROTOCOLS

#: How many keep-alive intervals of silence a server allows (MQTT 5.0 3.1.2.10; AMQP 0.9.1 4.2.7; AMQP 1.0 2.4.5; NSQ).
ALLOWED: Final = {"mqtt": 1.5, "amqp091": 2.0, "amqp10": 1.0, "nsq": 2.0}
#: Servers end a connection that is taken over within this time of the new login, ns.
TAKEOVER_NS: Final = 5_000_000_000
#: What a server's words may mean, and that a login just before them explains: MQTT 3.1.1 has no word for it.
TAKEOVER_WORDS: Final = ("taken-over", "orderly")
#: Connections of one server that it ends within this time end for the same reason, ns.
TOGETHER_NS: Final = 1_000_000_000
#: What comes within this time after a message may be the answer to it, ns.
AT_ONCE_NS: Final = 100_000_000
#: The end of a connection that was not seen, ns.
FOR_EVER: Final = 1 << 63
#: Protocols that have no message with which a client ends its connection.
WORDLESS: Final = ("rocketmq", "phpmq", "nsq")

MQTT_CODES: Final = {
    0x81: "protocol-error",
    0x82: "protocol-error",
    0x83: "protocol-error",
    0x84: "refused",
    0x85: "refused",
    0x86: "refused",
    0x87: "refused",
    0x88: "refused",
    0x89: "resource-error",
    0x8A: "refused",
    0x8B: "shutdown",
    0x8C: "refused",
    0x8D: "keep-alive",
    0x8E: "taken-over",
    0x8F: "protocol-error",
    0x90: "protocol-error",
    0x93: "protocol-error",
    0x94: "protocol-error",
    0x95: "resource-error",
    0x96: "resource-error",
    0x97: "resource-error",
    0x98: "shutdown",
    0x99: "protocol-error",
    0x9A: "protocol-error",
    0x9B: "protocol-error",
    0x9C: "shutdown",
    0x9D: "shutdown",
    0x9E: "protocol-error",
    0x9F: "resource-error",
    0xA0: "resource-error",
    0xA1: "protocol-error",
    0xA2: "protocol-error",
}
AMQP091_CODES: Final = {
    320: "shutdown",
    402: "refused",
    403: "refused",
    506: "resource-error",
    530: "refused",
    541: "resource-error",
}
#: Parts of AMQP 1.0's conditions and descriptions, in this order.
AMQP10_WORDS: Final = (
    ("idle", "keep-alive"), ("timeout", "keep-alive"), ("connection:forced", "shutdown"), ("connection:redirect", "shutdown"),
    ("unauthorized", "refused"), ("not-allowed", "refused"), ("resource-limit", "resource-error"),
    ("internal-error", "resource-error"),
)  # fmt: skip


class Ended(NamedTuple):
    """Why a connection ended."""

    reason: str
    text: str


def community_id(row: Mapping[str, Any]) -> str:
    """Community ID, version 1, seed 0, of a TCP connection (https://github.com/corelight/community-id-spec)."""
    ends = sorted(
        (ipaddress.ip_address(row[f"{side}_ip"]).packed, row[f"{side}_port"].to_bytes(2, "big"))
        for side in ("client", "server")
    )
    (ip1, port1), (ip2, port2) = ends
    digest = hashlib.sha1(b"\0\0" + ip1 + ip2 + b"\x06\0" + port1 + port2, usedforsecurity=False).digest()
    return "1:" + base64.b64encode(digest).decode()


def seconds(ns: int) -> str:
    """A duration for a sentence: 3.36 s, 250 ms, 0.42 ms."""
    if ns >= 1_000_000_000:
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 1e6:.0f} ms" if ns >= 10_000_000 else f"{ns / 1e6:.2g} ms"


def code_words(protocol: str | None, code: int) -> str:
    """A code in a sentence, with its name: 0x87 (Not authorized)."""
    known: Any = _code_names(protocol or "").get((protocol == "mqtt" and code < 0x10, code))
    if protocol == "mqtt":
        return f"0x{code:02X}" + ("" if known is None else f" ({known.replace('_', ' ').capitalize()})")
    return f"code {code}" + ("" if known is None else f" {known}")


@lru_cache
def _code_names(protocol: str) -> Mapping[tuple[bool, int], str]:
    """The names of codes that answers have without a text: (is it of an MQTT before 5.0?, code)."""
    codes: Any = {row.name: row for row in PROTOCOLS}[protocol].codes() if protocol in ("mqtt", "rocketmq") else None
    if protocol == "mqtt":
        return {
            (old, code): code.name for old in (False, True) for code in (codes.ReturnCode if old else codes.ReasonCode)
        }
    return {} if codes is None else {(False, code): code.name for code in codes.ResponseCode}


def _said(row: Mapping[str, Any]) -> str:
    words = [str(row["end_kind"])]
    if row["code"] is not None:
        words.append(code_words("mqtt", row["code"]) if row["protocol"] == "mqtt" else str(row["code"]))
    if row["text"]:
        words.append(f'"{row["text"]}"')
    return " ".join(words)


def _from_words(row: Mapping[str, Any]) -> Ended:
    """A connection whose end was said in the protocol."""
    who, protocol = row["ended_by"], row["protocol"]
    text = f"the {who} said {_said(row)}"
    if not row["failed"]:
        return Ended("orderly", text)
    if protocol == "mqtt":
        reason = MQTT_CODES.get(row["code"], "protocol-error")
    elif protocol == "amqp091":
        reason = AMQP091_CODES.get(row["code"], "protocol-error")
    elif protocol == "amqp10":
        words = (row["text"] or "").lower()
        reason = next((reason for word, reason in AMQP10_WORDS if word in words), "protocol-error")
    else:
        reason = "protocol-error"
    return Ended(reason, text)


def _silent(row: Mapping[str, Any]) -> str | None:
    """The evidence that the client was silent for longer than it may; None: it was not."""
    if row["keep_alive_ns"] is None or row["protocol"] not in ALLOWED:
        return None
    allowed = int(row["keep_alive_ns"] * ALLOWED[row["protocol"]])
    if (row["client_silence_ns"] or 0) < allowed:
        return None
    return f"nothing from the client for {seconds(row['client_silence_ns'])}, {seconds(allowed)} allowed"


def _is_gone(row: Mapping[str, Any]) -> bool:
    """Did the server send again, and not even TCP of the client answered?"""
    last = row["client_last_ns"]
    return bool(row["server_retransmitted_bytes"]) and last is not None and row["server_last_ns"] - last > 200_000_000


def _just_after(row: Mapping[str, Any]) -> str:
    """What the client had said just before the server closed: it may be the cause, which is not known."""
    silence = row["client_silence_ns"]
    if silence is None or silence > AT_ONCE_NS or not row["client_messages"]:
        return ""
    unanswered = ", which has no answer" if row["unconfirmed"] else ""
    return f" {seconds(silence)} after a message of the client{unanswered}"


def _was_caused(row: Mapping[str, Any]) -> bool:
    """Did the server close at once after the client had sent what it must not send?"""
    if not row["violations"] or row["violation_direction"] != 0 or row["opened"] is None:
        return False
    return bool(row["closed_ns"] - row["violation_ns"] <= AT_ONCE_NS)


def _taken_over(row: Mapping[str, Any], successor: Mapping[str, Any], how: str) -> Ended:
    again = f"{row['client_id']} logged in again from {successor['client_ip']}:{successor['client_port']}"
    return Ended("taken-over", f"{again}, then the server {how}")


def _closed_by_server(row: Mapping[str, Any], together: int, successor: Mapping[str, Any] | None) -> Ended:
    how = "closed" if row["how"] == "fin" else "reset the connection"
    if successor is not None:
        return _taken_over(row, successor, how)
    silent = _silent(row)
    if _is_gone(row):
        return Ended(
            "vanished",
            "the server sent again and the client did not answer"
            + (f"; {silent}" if silent else "")
            + f"; the server {how}",
        )
    if silent:
        return Ended("keep-alive", f"{silent}; the server {how}")
    if row["malformed"]:
        return Ended("protocol-error", f"{row['malformed']} messages were not valid; the server {how} without a word")
    if _was_caused(row):
        return Ended("protocol-error", f"the client sent {row['violation']}; the server {how} without a word")
    if row["login_ns"] is not None and not row["logged_in"] and row["protocol"] not in WORDLESS:
        return Ended("refused", f"the server {how} instead of accepting the login")
    if together > 1:
        return Ended(
            "shutdown", f"the server ended {together} connections within {seconds(TOGETHER_NS)} without a word"
        )
    if row["how"] == "rst":
        return Ended("reset", "the server reset the connection without a word")
    return Ended("unknown", f"the server closed without a word{_just_after(row)}")


def _reason(row: Mapping[str, Any], together: int, successor: Mapping[str, Any] | None) -> Ended:
    if row["login_refused"]:
        return Ended("refused", f"the server refused the login: {_said(row)}")
    if row["ended_by"] is not None:
        said = _from_words(row)
        if row["ended_by"] == "client" or said.reason not in TAKEOVER_WORDS:
            return said
        if successor is None or successor["login_ns"] > row["closed_ns"]:
            return said
        return _taken_over(row, successor, f"said {_said(row)}")
    if row["closed_by"] == "server":
        return _closed_by_server(row, together, successor)
    if row["closed_by"] == "client":
        if row["how"] == "rst":
            return Ended("reset", "the client reset the connection without a word")
        if row["protocol"] in WORDLESS and not row["unconfirmed"] and not row["unsettled"]:
            return Ended("orderly", "the client closed with nothing unanswered; the protocol has no message for it")
        return Ended("abandoned", "the client closed without the protocol's own end")
    if row["how"] == "reused":
        return Ended("half-open", "another connection between the same ends began; this one was never closed")
    if _is_gone(row):
        return Ended("vanished", "the server sent again and the client did not answer; nobody closed")
    if row["how"] == "open":
        silent = _silent(row)
        if silent:
            return Ended("half-open", f"{silent}; nobody has closed")
        return Ended("open", "still open at the end of the capture")
    return Ended("unknown", "no end was captured" if row["how"] else "only its messages are known")


def _server(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["server_ip"], row["server_port"]


def _successors(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Of connections that the server closed just after the client's next login: that connection."""
    found: dict[int, Mapping[str, Any]] = {}
    by_client: dict[tuple[Any, ...], list[int]] = {}
    for i, row in enumerate(rows):
        if row["client_id"] and row["login_ns"] is not None and row["protocol"] in ("mqtt", "amqp10"):
            by_client.setdefault((row["protocol"], row["client_id"], *_server(row)), []).append(i)
    for numbers in by_client.values():
        numbers.sort(key=lambda i: rows[i]["login_ns"])
        for i, later in pairwise(numbers):
            end, login = rows[i]["closed_ns"], rows[later]["login_ns"]
            if end is not None and -TAKEOVER_NS // 50 <= end - login <= TAKEOVER_NS:
                found[i] = rows[later]
    return found


def _latest_ends(lives: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The times at which connections began, sorted, and of each the latest end of those that had begun until then."""
    lives.sort()
    return [begin for begin, _ in lives], list(accumulate((end for _, end in lives), max))


def _goes_on(lives: tuple[list[int], list[int]], row: Mapping[str, Any]) -> bool:
    """Does the server keep another connection that it had when it closed this one?"""
    begins, ends = lives
    at = bisect_left(begins, row["closed_ns"])
    return at > 0 and ends[at - 1] > row["closed_ns"] + TOGETHER_NS


def _together(rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Of connections that the server closed without a word, or saying that it stops: how many of its connections ended at about
    that time. A server that keeps others has not stopped."""
    by_server: dict[tuple[Any, ...], list[int]] = {}
    lives: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for i, row in enumerate(rows):
        end = row["closed_ns"]
        if row["first_ns"] is not None:
            lives.setdefault(_server(row), []).append((row["first_ns"], FOR_EVER if end is None else end))
        if row["closed_by"] != "server" or end is None:
            continue
        if row["ended_by"] is None or (row["ended_by"] == "server" and _from_words(row).reason == "shutdown"):
            by_server.setdefault(row["server_ip"], []).append(i)
    until = {server: _latest_ends(of) for server, of in lives.items()}
    for numbers in by_server.values():
        numbers[:] = [i for i in numbers if rows[i]["ended_by"] or not _goes_on(until[_server(rows[i])], rows[i])]
    counts: dict[int, int] = {}
    for numbers in by_server.values():
        numbers.sort(key=lambda i: rows[i]["closed_ns"])
        first = 0
        for at, i in enumerate(numbers):
            while rows[i]["closed_ns"] - rows[numbers[first]]["closed_ns"] > TOGETHER_NS:
                first += 1
            for j in numbers[first : at + 1]:
                counts[j] = max(counts.get(j, 0), at + 1 - first)
    return counts


def reasons(rows: Sequence[Mapping[str, Any]]) -> Iterable[Ended]:
    """Why each of these connections ended. rows: columns of `CONNECTION_FACTS` by name, of all connections of a capture."""
    successors, together = _successors(rows), _together(rows)
    return [_reason(row, together.get(i, 0), successors.get(i)) for i, row in enumerate(rows)]
