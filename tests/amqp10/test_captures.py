"""Every AMQP 1.0 capture of the tests, frame by frame, against tshark's decode of it.

tshark does not join the transfers of a delivery, and reads the sections of the first one as if they were the message: the
frame is "malformed" to it. Here transfers are joined by link, and sections compared where it had all of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest

from lib.captures import captures_of
from lib.tshark import lines_of, rows_of, same, sizes_of, where_from

pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

CAPTURES = captures_of("amqp10")
each_capture = pytest.mark.parametrize("row", CAPTURES)

KINDS = {
    16: "open", 17: "begin", 18: "attach", 19: "flow", 20: "transfer", 21: "disposition", 22: "detach", 23: "end",
    24: "close", 64: "sasl-mechanisms", 65: "sasl-init", 66: "sasl-challenge", 67: "sasl-response", 68: "sasl-outcome",
}  # fmt: skip
#: tshark's words for fields; ours, and whether they are in the struct.
FIELDS = {
    "containerId": "container_id", "hostname": "hostname", "maxFrameSize": "max_frame_size", "channelMax": "channel_max",
    "idleTimeout": "idle_time_out", "remoteChannel": "remote_channel", "nextOutgoingId": "next_outgoing_id",
    "nextIncomingId": "next_incoming_id", "incomingWindow": "incoming_window", "outgoingWindow": "outgoing_window",
    "handleMax": "handle_max", "name": "name", "handle": "handle", "sndSettleMode": "snd_settle_mode",
    "rcvSettleMode": "rcv_settle_mode", "initDeliveryCount": "initial_delivery_count", "maxMessageSize": "max_message_size",
    "deliveryCount": "delivery_count", "linkCredit": "link_credit", "available": "available", "drain": "drain",
    "echo": "echo", "deliveryId": "delivery_id", "deliveryTag": "delivery_tag", "messageFormat": "message_format",
    "resume": "resume", "aborted": "aborted", "batchable": "batchable", "first": "first", "last": "last",
    "closed": "closed", "mechanism": "mechanism", "initResponse": "initial_response", "durable": "durable",
    "priority": "priority", "firstAcquirer": "first_acquirer", "userId": "user_id", "to.string": "to",
    "subject": "subject", "contentEncoding": "content_encoding", "groupId": "group_id",
    "groupSequence": "group_sequence", "replyToGroupId": "reply_to_group_id", "condition": "error_condition",
    "description": "error_description",
}  # fmt: skip
COMMON = {
    "saslCode": "code", "ttl": "ttl_ms", "replyTo.string": "reply_to", "contentType": "content_type",
    "messageId.guid": "message_id", "messageId.string": "message_id", "messageId.uint": "message_id",
    "correlationId.guid": "correlation_id", "correlationId.string": "correlation_id", "correlationId.uint": "correlation_id",
}  # fmt: skip
AREAS = ("amqp.performative.arguments.", "amqp.message.", "amqp.sasl.", "amqp.error.")
STATES = ("accepted", "rejected", "released", "modified")
BINARY = {"initResponse", "deliveryTag", "userId"}


def deliveries(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Frames, transfers with `more` joined to the later ones of their link."""
    found: list[dict[str, Any]] = []
    open_ones: dict[Any, dict[str, Any]] = {}
    for e in lines:
        said = dict(e["fields"])
        handle = said.get("amqp.performative.arguments.handle")
        link = (e["stream"], e["dir"], e.get("channel"), handle)
        message = open_ones.pop(link, None) if e.get("performative") == 20 else None
        if message is None:
            message = {**e, "lengths": 0, "transfers": 0}
        message |= {"frame": e["frame"], "t": e["t"]}
        message["lengths"] += e.get("length", 8)
        message["transfers"] += 1
        if e.get("performative") == 20 and said.get("amqp.performative.arguments.more") == "1":
            open_ones[link] = message
        else:
            found.append(message)
    return found + [m | {"unfinished": True} for m in open_ones.values()]


def kind_of(e: dict[str, Any]) -> str:
    if "ftype" not in e:
        return "protocol-header"
    method = e.get("performative") or int(dict(e["fields"]).get("amqp.sasl.method", 0))
    return KINDS[method] if method else "empty"


def plain(value: Any) -> str:
    """Our value as tshark writes it."""
    if isinstance(value, bool):
        return str(int(value))
    return value.hex(":") if isinstance(value, bytes) else str(value)


def check(e: dict[str, Any], r: dict[str, Any]) -> int:
    """How many fields were compared."""
    assert {k: e[k] for k in ("src", "dst")} == {k: where_from(r)[k] for k in ("src", "dst")}
    assert r["kind"] == kind_of(e)
    if "unfinished" in e:  # tshark leaves out the frame in which the capture ends
        assert r["status"] == "partial"
        assert r["wire_size"] >= e["lengths"]
        return 0
    assert r["wire_size"] == e["lengths"]
    assert where_from(r) == {k: e[k] for k in ("frame", "t", "src", "dst")}
    assert r["status"] == "ok"
    a, compared = r["amqp10"], 0
    if "ftype" not in e:
        assert (a["protocol_id"], a["version_major"], a["version_minor"]) == (
            int(dict(e["fields"])["amqp.init.id"]),
            1,
            0,
        )
        return 1
    assert r["channel"] == (e["channel"] if e["ftype"] == 0 else None)
    if r["kind"] == "transfer":
        assert a["transfers"] == e["transfers"]
    for name, value in e["fields"]:
        area = next((x for x in AREAS if name.startswith(x)), None)
        word = name[len(area) :] if area else ""
        if name.startswith("amqp.delivery-state.") and name.rpartition(".")[2] in STATES and r["kind"] == "disposition":
            assert a["state"] == name.rpartition(".")[2]
        elif word == "role":
            assert a["role"] == ("receiver" if value == "1" else "sender")
        elif word == "settled":
            assert plain(a["settled"]) == value or e["transfers"] > 1
        elif word == "more":
            assert plain(a["more"]) == value or e["transfers"] > 1
        elif word in FIELDS or word in COMMON:
            ours = r[COMMON[word]] if word in COMMON else a[FIELDS[word]]
            if isinstance(value, str) and "\ufffd" in value:  # it shows strings as ASCII
                ours = re.sub(r"[^\0-\x7f]", lambda c: "\ufffd" * len(c[0].encode()), ours)
            assert same(value, ours if isinstance(value, dict) else plain(ours)), (name, value, ours)
        else:
            continue
        compared += 1
    check_sections(e, r)
    return compared


def check_sections(e: dict[str, Any], r: dict[str, Any]) -> None:
    """Simple application properties, and bodies of one string or symbol, where the whole message was in one frame."""
    if r["kind"] != "transfer" or e["transfers"] > 1:
        return
    names = [name for name, _ in e["fields"]]
    if "amqp.applicationProperties" in names:
        ours = dict(r["headers"])
        for name, value in e["fields"][names.index("amqp.applicationProperties") + 1 :]:
            if name != "amqp.list" or not isinstance(value, str):
                break
            entry = re.fullmatch(
                r"(.*?) \((u?(?:byte|short|int|long)|small\w+|u\w+0|bool|str8-utf8|sym8)\): (.*)", value
            )
            if entry and not value.startswith(" [truncated]") and "\ufffd" not in value:
                assert ours[entry[1]] == entry[3], (value, ours)
    for name, value in e["fields"]:
        body = re.fullmatch(r"AMQP-Value \((?:str8-utf8|sym8)\): (.*)", value, re.S) if name == "amqp.value" else None
        if body and "\ufffd" not in value:
            assert (r["amqp10"]["body"], r["payload"].decode()) == ("amqp-value", body[1])


@each_capture
def test_frames_agree(row: dict[str, Any]) -> None:
    theirs = deliveries([e for e in lines_of(row) if e["proto"] == "amqp"])
    ours = [r for r in rows_of(row) if r["status"] != "gap"]
    assert len(ours) == len(theirs) > 0
    streams: dict[Any, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for e in theirs:
        streams[e["src"], e["dst"]][0].append(e)
    for r in ours:
        streams[where_from(r)["src"], where_from(r)["dst"]][1].append(r)
    compared = 0
    for said, found in streams.values():
        for e, r in zip(said, sorted(found, key=lambda r: r["frame_no"]), strict=True):
            compared += check(e, r)
    assert compared > 3 * len(ours) // 2


@each_capture
def test_every_octet_is_in_one_row(row: dict[str, Any]) -> None:
    for sizes, extent in sizes_of(rows_of(row)):
        assert sizes >= extent


@each_capture
def test_transfers_have_the_address_of_their_link(row: dict[str, Any]) -> None:
    rows = rows_of(row)
    attached = {r["flow_id"] for r in rows if r["kind"] == "attach" and r["destination"]}
    transfers = [r for r in rows if r["kind"] == "transfer" and r["flow_id"] in attached]
    addresses = {
        a for r in rows if r["kind"] == "attach" for a in (r["amqp10"]["source_address"], r["amqp10"]["target_address"])
    }
    assert transfers
    assert {r["destination"] for r in transfers} <= addresses
