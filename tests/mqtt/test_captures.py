"""Every MQTT capture of the tests, message by message, against tshark's decode of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from lib.captures import captures_of, name_of
from lib.tshark import lines_of, rows_of, same, where_from
from wirefmt.mqtt.spec import PROPERTIES

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CAPTURES = captures_of("mqtt")

#: Where tshark 4.0.17 is known to be wrong, and how it shows.
ORACLE_FAULTS = {
    # frames after a cut packet are read out of the middle of payloads: `CONNACK` with reserved flags from a publisher,
    # a PUBREL of 201,518,526 octets. Only what comes before the first cut of a direction is comparable.
    "mosquitto-paho-v5-snaplen128.pcap": "reads payload as packets after a packet truncated by the snapshot length",
    # with out-of-order reassembly switched off it drops the PUBLISH whose retransmitted segment fills the hole; its
    # other decode of the same capture and tcpflow with mqtt-packet have the 6,832 messages that we have.
    "l-laura__benign.pcap": "the decode without reordering lacks a message that was sent again",
}
#: tshark takes a stream without CONNECT for 3.1.1: what 5.0 puts between packet identifier and payload is misread.
UNKNOWN_VERSION = "Unknown version (missing the CONNECT packet?)"
#: tshark prints the label of a field whose string is empty.
EMPTY = {"Client ID: ", "Key: ", "Value: "}


def expected(row: dict[str, Any]) -> list[dict[str, Any]]:
    name = row["expected"] if name_of(row) == "l-laura__benign.pcap" else None
    return [e for e in lines_of(row, name) if e["proto"] == "mqtt"]


def unlabelled(value: Any) -> Any:
    return "" if isinstance(value, str) and value in EMPTY else value


def remaining_length(wire_size: int) -> int:
    return next(wire_size - 1 - n for n in (1, 2, 3, 4) if wire_size - 1 - n < 128**n)


def said_by_tshark(e: dict[str, Any]) -> dict[str, Any]:
    """The facts of one line; only those it has."""
    facts: dict[str, Any] = {
        k: e[k] for k in ("frame", "t", "src", "dst", "type", "rl", "dup", "qos", "retain", "msgid") if k in e
    }
    if e["type"] != "PUBLISH":
        for name in ("dup", "qos"):  # of 3.1 packets that say so in their header; not columns of ours
            facts.pop(name, None)
    if e.get("malformed"):
        return facts
    facts |= {k: e[k] for k in ("ver", "protoname", "keepalive", "username") if k in e}
    if "clientid" in e:
        facts["clientid"] = unlabelled(e["clientid"])
    if UNKNOWN_VERSION in e.get("expert", ()):
        return facts | ({"topics": [e["topic"]]} if "topic" in e else {})
    if "topic" in e or "topics" in e:
        facts["topics"] = e.get("topics", [e.get("topic")])
    if "payload" in e:
        facts["payload"] = e["payload"]
    for codes in e.get("rc", {}).values():
        facts["codes"] = codes
    facts["properties"], facts["will_properties"] = properties(e["fields"])
    facts |= {name[5:]: value for name, value in e["fields"] if name == "mqtt.willtopic"}
    return facts


def properties(fields: list[list[str]]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """(identifier, value, ...) of the packet's properties and of its will's, as far as tshark gives values as text."""
    areas: list[list[Any]] = []
    for name, value in fields:
        if name == "mqtt.property_len":
            areas.append([])
        elif name == "mqtt.property_id":
            areas[-1].append([int(value, 16)])
        elif name in ("mqtt.prop_number", "mqtt.property.topic_alias"):
            areas[-1][-1].append(int(value))
        elif name in ("mqtt.prop_string", "mqtt.property.content_type", "mqtt.prop_key", "mqtt.prop_value"):
            areas[-1][-1].append(unlabelled(value))
    ordered = [[tuple(p) for p in area] for area in areas]
    ordered += [[], []]
    return ordered[0], ordered[1]


def said_by_us(r: dict[str, Any]) -> dict[str, Any]:
    m = r["mqtt"] or {}
    facts = where_from(r) | {
        "type": r["kind"],
        "rl": remaining_length(r["wire_size"]),
        "msgid": r["sequence"],
    }
    if r["status"] != "ok":
        return facts
    facts |= {
        "dup": int(m["dup"] or 0),
        "qos": r["qos"],
        "retain": int(m["retain"] or 0),
        "ver": m["protocol_level"],
        "protoname": m["protocol_name"],
        "keepalive": m["keep_alive"],
        "username": m["user_name"],
        "clientid": r["client_id"] or "",
        "topics": m["topic_filters"] if m["topic_filters"] is not None else [r["destination"]],
        "payload": r["payload"],
        "willtopic": m["will_topic"],
        "codes": m["reason_codes"]
        if m["reason_codes"] is not None
        else [o & 3 for o in m["subscription_options"]]
        if m["subscription_options"] is not None
        else [r["code"]],
        "properties": our_properties(r, m),
    }
    return facts


def our_properties(r: dict[str, Any], m: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Without order, which columns do not keep across properties."""
    found: set[tuple[Any, ...]] = {(38, k, v) for k, v in r["headers"] or ()}
    if r["content_type"] is not None:
        found.add((3, r["content_type"]))
    for p in PROPERTIES:
        for name in (p.name, p.name.replace("identifiers_", "identifier_")):
            if m.get(name) is not None:
                found.add((p.identifier, m[name]) if isinstance(m[name], (int, str)) else (p.identifier,))
    found |= {(11, v) for v in m["subscription_identifiers"] or ()}
    return found


def assert_same(e: dict[str, Any], r: dict[str, Any], where: str) -> None:
    theirs, ours = said_by_tshark(e), said_by_us(r)
    wanted = theirs.pop("properties", [])
    will = theirs.pop("will_properties", [])
    for name, value in theirs.items():
        if r["status"] != "ok" and name not in ours:
            continue
        if isinstance(value, list):
            assert all(map(same, value, ours[name])), (where, name, value, ours[name])
        else:
            assert same(value, ours[name]), (where, name, value, ours[name])
    if r["status"] == "ok":
        assert {p for p in wanted if p[0] not in (9,)} <= ours["properties"] | {(9,)}, (
            where,
            wanted,
            ours["properties"],
        )
        assert len(will) <= len((r["mqtt"] or {}).get("will_properties") or ()) + ((9,) in will), where


def first_cuts(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """(address, port) of a sender -> frame of its first row that is not a whole message."""
    cuts: dict[tuple[str, int], int] = {}
    for r in rows:
        if r["status"] != "ok":
            cuts.setdefault((f"{r['src_ip']}:{r['src_port']}", r["dst_port"]), r["frame_no"])
    return cuts


@pytest.mark.parametrize("row", CAPTURES)
def test_messages_agree(row: dict[str, Any]) -> None:
    theirs = expected(row)
    rows = rows_of(row)
    # what waited after a gap comes late, but with the packet that brought it
    ours = sorted((r for r in rows if r["status"] != "gap"), key=lambda r: r["frame_no"])
    if "snaplen" in row["file"]:
        cuts = first_cuts(rows)

        def before(src: str, port: int, frame: int) -> bool:
            return frame < cuts.get((src, port), 1 << 60)

        theirs = [e for e in theirs if before(e["src"], int(e["dst"].rpartition(":")[2]), e["frame"])]
        ours = [r for r in ours if before(f"{r['src_ip']}:{r['src_port']}", r["dst_port"], r["frame_no"])]
    else:
        assert len(ours) == len(theirs)
    assert theirs
    for e, r in zip(theirs, ours, strict=True):
        assert_same(e, r, f"frame {e['frame']}, message {e['i']}")


@pytest.mark.parametrize("row", CAPTURES)
def test_messages_and_holes_tile_the_stream(row: dict[str, Any]) -> None:
    """No octet of a stream is in two messages, and none is in no row."""
    streams = defaultdict(list)
    for r in rows_of(row):
        streams[r["flow_id"], r["direction"]].append(r)
    for rows in streams.values():
        at = until = rows[0]["byte_offset"]  # until: end of a message of which only parts are there, holes between them
        for r in rows:
            inside = r["status"] == "gap" and r["byte_offset"] < until
            assert at <= r["byte_offset"] <= until if inside else r["byte_offset"] == until, r
            end = r["byte_offset"] + r["wire_size"]
            if r["status"] == "partial":
                at = r["byte_offset"] + int(r["error"].split(": ")[1].split(" ")[0])
                until = end
            else:
                at, until = end, max(until, end)


@pytest.mark.parametrize(
    "row",
    captures_of("mqtt", counted=True),
)
def test_count_agrees_with_a_third_decoder(row: dict[str, Any]) -> None:
    """tcpflow with mqtt-packet, which agrees with tshark but where MANIFEST.jsonl says otherwise."""
    if row.get("expected_inorder") and not name_of(row).endswith("benign.pcap"):
        pytest.skip("a hole: tcpflow stops there")
    assert sum(r["status"] != "gap" for r in rows_of(row)) == row["crosscheck"]["messages"]
