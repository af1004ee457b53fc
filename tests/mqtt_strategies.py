"""Hypothesis strategies for MQTT: packets of every type and version, as constructors take them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from wirefmt import mqtt
from wirefmt.spec import mqtt as spec

#: UTF-8 strings of MQTT: no surrogates, no U+0000.
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
binary = st.binary(max_size=40)
identifiers = st.integers(1, 65535)
topic_names = st.text(st.characters(codec="utf-8", exclude_characters="\0#+"), min_size=1, max_size=40)
levels = st.one_of(st.just("+"), st.text(st.characters(codec="utf-8", exclude_characters="\0#+/$"), max_size=8))
topic_filters = st.builds(
    lambda parts, last: "/".join([*parts, last]), st.lists(levels, max_size=4), st.one_of(st.just("#"), levels)
).filter(bool)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.integers(0, 255),
    "two": st.integers(0, 0xFFFF),
    "four": st.integers(0, 0xFFFFFFFF),
    "varint": st.integers(0, spec.REMAINING_LENGTH_MAX),
    "string": text,
    "binary": binary,
    "pair": st.tuples(text, text),
}
RULES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "boolean": {"byte": st.integers(0, 1)},
    "non_zero": {
        "two": st.integers(1, 0xFFFF),
        "four": st.integers(1, 0xFFFFFFFF),
        "varint": st.integers(1, spec.REMAINING_LENGTH_MAX),
    },
    "topic": {"string": topic_names},
}


def value_of(p: spec.Property) -> st.SearchStrategy[Any]:
    return RULES.get(p.rule, VALUES)[p.type]


@st.composite
def properties(draw: st.DrawFn, packet: str, version: int) -> tuple[tuple[str, Any], ...]:
    """Properties the packet may have, in any order; none before 5.0."""
    if version < 5:
        return ()
    allowed = [p for p in spec.PROPERTIES if packet in p.sections]
    chosen = draw(st.lists(st.sampled_from(allowed), max_size=6))
    pairs, seen = [], set()
    for p in chosen:
        if p.name in seen and packet not in p.repeats_in:
            continue
        seen.add(p.name)
        pairs.append((p.name, draw(value_of(p))))
    if packet == "CONNECT" and "authentication_data" in seen and "authentication_method" not in seen:
        pairs.append(("authentication_method", draw(text)))
    if packet == "AUTH" and "authentication_method" not in seen:
        pairs.append(("authentication_method", draw(text)))
    return tuple(draw(st.permutations(pairs)))


def codes(packet: str, version: int) -> st.SearchStrategy[int]:
    if version == 5:
        return st.sampled_from([row.code for row in spec.REASON_CODES if packet in row.packets])
    return st.sampled_from(
        list(spec.CONNACK_RETURN_CODES if packet == "CONNACK" else spec.SUBACK_RETURN_CODES[version])
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> mqtt.Packet:
    will = None
    if draw(st.booleans()):
        will = mqtt.Will(
            draw(topic_names),
            draw(binary),
            draw(st.integers(0, 2)),
            draw(st.booleans()),
            draw(properties("WILL", version)),
        )
    user_name = draw(st.none() | text)
    return mqtt.Connect(
        client_identifier=draw(text),
        clean_start=draw(st.booleans()),
        keep_alive=draw(st.integers(0, 65535)),
        will=will,
        user_name=user_name,
        password=draw(st.none() | binary) if version == 5 or user_name is not None else None,
        properties=draw(properties("CONNECT", version)),
        version=version,
    )


@st.composite
def publishes(draw: st.DrawFn, version: int) -> mqtt.Packet:
    qos = draw(st.integers(0, 2))
    return mqtt.Publish(
        topic_name=draw(topic_names),
        payload=draw(st.binary(max_size=300)),
        qos=qos,
        retain=draw(st.booleans()),
        dup=qos > 0 and draw(st.booleans()),
        packet_identifier=draw(identifiers) if qos else None,
        properties=draw(properties("PUBLISH", version)),
        version=version,
    )


@st.composite
def others(draw: st.DrawFn, version: int) -> mqtt.Packet:
    name = draw(st.sampled_from([p.name for p in spec.PACKET_TYPES if p.name not in ("CONNECT", "PUBLISH")]))
    if name == "AUTH" and version < 5:
        name = "PINGREQ"
    arguments: dict[str, Any] = {"version": version}
    if name not in ("PINGREQ", "PINGRESP"):
        arguments["properties"] = draw(properties(name, version))
    if name in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "UNSUBSCRIBE", "SUBACK", "UNSUBACK"):
        arguments["packet_identifier"] = draw(identifiers)
    if name == "CONNACK":
        arguments["reason_code"] = draw(codes(name, version))
        arguments["session_present"] = version > 3 and arguments["reason_code"] == 0 and draw(st.booleans())
    elif name in ("SUBACK", "UNSUBACK"):
        some = (
            st.lists(codes(name, version), min_size=1, max_size=9) if version == 5 or name == "SUBACK" else st.just([])
        )
        arguments["reason_codes"] = draw(some)
    elif name == "SUBSCRIBE":
        options = (
            st.builds(
                mqtt.Subscription, topic_filters, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2)
            )
            if version == 5
            else st.builds(mqtt.Subscription, topic_filters, st.integers(0, 2))
        )
        arguments["subscriptions"] = draw(st.lists(options, min_size=1, max_size=5))
    elif name == "UNSUBSCRIBE":
        arguments["topic_filters"] = draw(st.lists(topic_filters, min_size=1, max_size=5))
    elif version == 5 and name not in ("PINGREQ", "PINGRESP"):
        arguments["reason_code"] = draw(codes(name, version))
        arguments["form"] = draw(st.none() | st.just("full"))
    return getattr(mqtt, name.capitalize())(**arguments)


def packets(version: int) -> st.SearchStrategy[mqtt.Packet]:
    return st.one_of(connects(version), publishes(version), others(version))
