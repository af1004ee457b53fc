"""What every column says of MQTT's packets. See lib/columns.py."""

from __future__ import annotations

from typing import Any

from lib.column_values import Row, text
from lib.wire import connect
from wirefmt.mqtt import columns

STRUCT = {c.name for c in columns.FIELDS}
KINDS = {name: number for number, name in enumerate(columns.OPERATIONS, 1)}
RENAMED = {
    "subscription_identifier": "subscription_identifiers",
    "subscription_identifiers_available": "subscription_identifier_available",
}
VERSIONS = {3: "3.1", 4: "3.1.1", 5: "5.0"}


def bytes_after_filters(message: Any) -> list[int]:
    """The options bytes of a SUBSCRIBE: 3.1 gives the upper six bits no meaning, so an object does not have them."""
    octets, sizes = message.encode(), [2 + len(s.topic_filter.encode()) for s in message.subscriptions]
    at = len(octets) - sum(sizes) - len(sizes)
    options = []
    for size in sizes:
        at += size
        options.append(octets[at])
        at += 1
    return options


def struct_of(message: Any) -> Row:
    kind = type(message).__name__.upper()
    fields: Row = {"flags": message.flags}
    if kind == "PUBLISH" or (message.version == 3 and kind in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE")):
        fields["dup"] = message.dup
    if kind == "PUBLISH":
        fields["retain"] = message.retain
    if kind == "CONNECT":
        for name in ("protocol_name", "connect_flags", "clean_start", "keep_alive", "user_name", "password"):
            fields[name] = getattr(message, name)
        fields["protocol_level"] = message.protocol_version
        if message.will is not None:
            will = message.will
            fields |= {"will_topic": will.topic, "will_payload": will.payload}
            fields |= {"will_qos": will.qos, "will_retain": will.retain}
            if will.properties:
                fields["will_delay_interval"] = dict(will.properties).get("will_delay_interval")
                fields["will_properties"] = [
                    value if name == "user_property" else (name, shown(value)) for name, value in will.properties
                ]
    elif kind == "CONNACK":
        fields["session_present"] = message.session_present
    elif kind == "SUBSCRIBE":
        fields["topic_filters"] = [s.topic_filter for s in message.subscriptions]
        fields["subscription_options"] = [
            s.qos | s.no_local << 2 | s.retain_as_published << 3 | s.retain_handling << 4 for s in message.subscriptions
        ]
        if message.version == 3:
            fields["subscription_options"] = bytes_after_filters(message)
    elif kind == "UNSUBSCRIBE":
        fields["topic_filters"] = list(message.topic_filters)
    elif kind == "SUBACK" or (kind == "UNSUBACK" and message.reason_codes):
        fields["reason_codes"] = list(message.reason_codes)
    for name, value in getattr(message, "properties", ()):
        place = RENAMED.get(name, name)
        if place == "subscription_identifiers":
            fields.setdefault(place, []).append(value)
        elif place in STRUCT:
            fields.setdefault(place, value)
    return fields


def shown(value: Any) -> Any:
    return text(value) if isinstance(value, bytes) else str(value)


def user_properties(message: Any) -> list[tuple[str, str]] | None:
    return [value for name, value in getattr(message, "properties", ()) if name == "user_property"] or None


def row(message: Any, direction: int) -> Row:
    kind = type(message).__name__.upper()
    properties: Row = {}
    for name, value in getattr(message, "properties", ()):
        properties.setdefault(name, value)
    row: Row = {"version": VERSIONS[message.version], "kind": kind, "client_id": "c"}
    row["operation"] = columns.OPERATIONS[kind][direction]
    row |= {"sequence": getattr(message, "packet_identifier", None), "code": getattr(message, "reason_code", None)}
    row |= {"headers": user_properties(message), "content_type": properties.get("content_type")}
    row |= {"reply_to": properties.get("response_topic"), "correlation_id": text(properties.get("correlation_data"))}
    if (seconds := properties.get("message_expiry_interval")) is not None:
        row["ttl_ms"] = seconds * 1000
    row["mqtt"] = fields = struct_of(message)
    row["redelivered"] = fields.get("dup")
    if kind == "PUBLISH":
        row |= {"qos": message.qos, "payload": message.payload_bytes(), "payload_size": len(message.payload_bytes())}
        row |= {"destination": message.topic_name or None}
    elif kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
        first = fields["topic_filters"][0]
        parts = first.split("/", 2)
        if message.version == 5 and parts[0] == "$share":
            row |= {"consumer_group": parts[1], "destination": parts[2]}
        else:
            row["destination"] = first
    elif kind == "CONNECT":
        row["client_id"] = message.client_identifier or None
    elif kind == "CONNACK":
        row["client_id"] = properties.get("assigned_client_identifier") or "c"
    return row


def batch_row(message: Any) -> Row:
    kind = type(message).__name__.upper()
    row: Row = {"packet_type": KINDS[kind], "sequence": getattr(message, "packet_identifier", None)}
    if kind == "PUBLISH":
        row |= {"qos": message.qos, "dup": message.dup, "retain": message.retain, "destination": message.topic_name}
        row["payload"] = message.payload_bytes()
    elif message.version == 3 and kind in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE"):
        row["dup"] = message.dup
    row["code"] = getattr(message, "reason_code", None)
    row["client_id"] = getattr(message, "client_identifier", None)
    row["content_type"] = dict(getattr(message, "properties", ())).get("content_type")
    row["headers"] = user_properties(message)
    row["mqtt"] = struct_of(message)
    return row


def opening(version: int) -> bytes:
    """What a client says first."""
    return connect("c", version)
