"""Hypothesis strategies for MQTT: every packet of every version with every property, and octets that go wrong.

`arguments(version)` gives (class name, constructor arguments, side): what goes in, so that a test can compare it with
what comes out. Which property may stand where is written here from table 2-4 of MQTT 5.0, not taken from the code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from wirefmt import mqtt


class Arguments(NamedTuple):
    kind: str  # name of a class of wirefmt.mqtt
    values: dict[str, Any]
    side: str | None  # who may send it

    def build(self) -> Any:
        return getattr(mqtt, self.kind)(**self.values)


# ---- basic values

#: Any character that a string may hold: no surrogate, no U+0000.
CHARACTER = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.text(CHARACTER, max_size=20)
LEVEL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#/"), max_size=8)
TOPIC = st.lists(LEVEL, min_size=1, max_size=5).map("/".join).filter(bool)
OCTETS = st.binary(max_size=40)
#: Payloads, of which many begin like the properties of 5.0 (Property Length 0 to 3, Payload Format Indicator).
PAYLOAD = st.builds(
    bytes.__add__, st.sampled_from([b"", b"\0", b"\1", b"\2", b"\3", b"\2\1\1"]), st.binary(max_size=300)
)
U8, U16, U32 = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
IDENTIFIER = st.integers(1, 0xFFFF)
QOS = st.integers(0, 2)
BIT = st.integers(0, 1)


@st.composite
def topic_filters(draw: st.DrawFn, version: int, shared: bool = True) -> str:
    levels = draw(st.lists(LEVEL | st.just("+"), min_size=1, max_size=4))
    if draw(st.booleans()):
        levels.append("#")
    text = "/".join(levels) or "a"
    if version == 5 and (text == "$share" or text.startswith("$share/")):
        text = "a" + text
    if version == 5 and shared and draw(st.integers(0, 4)) == 0:
        name = draw(LEVEL.filter(bool))
        text = f"$share/{name}/{text}"
    return text


# ---- properties

PROPERTY_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "payload_format_indicator": BIT,
    "message_expiry_interval": U32,
    "content_type": TEXT,
    "response_topic": TOPIC,
    "correlation_data": OCTETS,
    "subscription_identifier": st.integers(1, 268_435_455),
    "session_expiry_interval": U32,
    "assigned_client_identifier": TEXT,
    "server_keep_alive": U16,
    "authentication_method": TEXT,
    "authentication_data": OCTETS,
    "request_problem_information": BIT,
    "will_delay_interval": U32,
    "request_response_information": BIT,
    "response_information": TEXT,
    "server_reference": TEXT,
    "reason_string": TEXT,
    "receive_maximum": st.integers(1, 0xFFFF),
    "topic_alias_maximum": U16,
    "topic_alias": st.integers(1, 0xFFFF),
    "maximum_qos": BIT,
    "retain_available": BIT,
    "user_property": st.tuples(TEXT, TEXT),
    "maximum_packet_size": st.integers(1, 0xFFFFFFFF),
    "wildcard_subscription_available": BIT,
    "subscription_identifiers_available": BIT,
    "shared_subscription_available": BIT,
}

#: Table 2-4, by packet; User Property is in all of them.
ALLOWED: dict[str, str] = {
    "Connect": "session_expiry_interval authentication_method request_problem_information request_response_information"
    " receive_maximum topic_alias_maximum maximum_packet_size",
    "Will": "payload_format_indicator message_expiry_interval content_type response_topic correlation_data"
    " will_delay_interval",
    "Connack": "session_expiry_interval assigned_client_identifier server_keep_alive authentication_method"
    " authentication_data response_information server_reference reason_string receive_maximum topic_alias_maximum"
    " maximum_qos retain_available maximum_packet_size wildcard_subscription_available"
    " subscription_identifiers_available shared_subscription_available",
    "Publish": "payload_format_indicator message_expiry_interval content_type response_topic correlation_data"
    " topic_alias",
    "Puback": "reason_string",
    "Pubrec": "reason_string",
    "Pubrel": "reason_string",
    "Pubcomp": "reason_string",
    "Subscribe": "subscription_identifier",
    "Suback": "reason_string",
    "Unsubscribe": "",
    "Unsuback": "reason_string",
    "Disconnect": "reason_string",
    "Auth": "reason_string",
}


@st.composite
def properties(draw: st.DrawFn, packet: str, required: tuple[str, ...] = ()) -> tuple[tuple[str, Any], ...]:
    """In any order; User Properties among the others."""
    names = ALLOWED[packet].split()
    chosen = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    chosen += [name for name in required if name not in chosen]
    chosen += ["user_property"] * draw(st.integers(0, 3))
    if "authentication_method" in chosen and draw(st.booleans()) and "authentication_data" not in chosen:
        chosen.append("authentication_data")
    elif "authentication_data" in chosen and "authentication_method" not in chosen:
        chosen.append("authentication_method")
    return tuple((name, draw(PROPERTY_VALUES[name])) for name in draw(st.permutations(chosen)))


# ---- packets

ACK_CODES = [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]
CODES: dict[str, list[int]] = {
    "Connack": [0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F],
    "Puback": ACK_CODES,
    "Pubrec": ACK_CODES,
    "Pubrel": [0x00, 0x92],
    "Pubcomp": [0x00, 0x92],
    "Suback": [0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2],
    "Unsuback": [0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91],
    "Disconnect from client": [0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
    "Disconnect from server": [0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, *range(0x93, 0xA3)],
    "Auth from client": [0x18, 0x19],
    "Auth from server": [0x00, 0x18],
}


@st.composite
def wills(draw: st.DrawFn, version: int) -> Any:
    more = {"properties": draw(properties("Will"))} if version == 5 else {}
    return mqtt.Will(draw(TOPIC), payload=draw(PAYLOAD), qos=draw(QOS), retain=draw(st.booleans()), **more)


@st.composite
def connects(draw: st.DrawFn, version: int) -> Arguments:
    user_name = draw(st.none() | TEXT)
    password = draw(st.none() | OCTETS) if version == 5 or user_name is not None else None
    values = {
        "client_identifier": draw(TEXT),
        "clean_start": draw(st.booleans()),
        "keep_alive": draw(U16),
        "will": draw(st.none() | wills(version)),
        "user_name": user_name,
        "password": password,
    }
    return Arguments("Connect", values, "client")


@st.composite
def connacks(draw: st.DrawFn, version: int) -> Arguments:
    code = draw(st.sampled_from(CODES["Connack"]) if version == 5 else st.integers(0, 5))
    present = draw(st.booleans()) if version > 3 and code == 0 else False if version > 3 else None
    return Arguments("Connack", {"session_present": present, "reason_code": code}, "server")


@st.composite
def publishes(draw: st.DrawFn, version: int) -> Arguments:
    qos = draw(QOS)
    values: dict[str, Any] = {
        "topic_name": draw(TOPIC),
        "payload": draw(PAYLOAD),
        "qos": qos,
        "retain": draw(st.booleans()),
        "dup": draw(st.booleans()) if qos else False,
        "packet_identifier": draw(IDENTIFIER) if qos else None,
    }
    side = draw(st.sampled_from(["client", "server"]))
    if version == 5:
        values["properties"] = draw(properties("Publish"))
        if side == "server":
            numbers = draw(st.lists(PROPERTY_VALUES["subscription_identifier"], max_size=3))
            values["properties"] += tuple(("subscription_identifier", n) for n in numbers)
        if ("topic_alias" in dict(values["properties"])) and draw(st.booleans()):
            values["topic_name"] = ""
    return Arguments("Publish", values, side)


@st.composite
def reasons(draw: st.DrawFn, version: int, kind: str, codes: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Reason Code, properties and form of acknowledgements, DISCONNECT and AUTH."""
    if version < 5:
        return {}
    code = draw(st.sampled_from(CODES[codes]))
    pairs = draw(properties(kind, required))
    forms = ["full"] if pairs else ["full", "reason_only"] if code else ["full", "reason_only", "short"]
    return {"reason_code": code, "properties": pairs, "form": draw(st.sampled_from(forms))}


@st.composite
def acknowledgements(draw: st.DrawFn, version: int) -> Arguments:
    kind = draw(st.sampled_from(["Puback", "Pubrec", "Pubrel", "Pubcomp"]))
    values = {"packet_identifier": draw(IDENTIFIER), **draw(reasons(version, kind, kind))}
    if kind == "Pubrel" and version == 3:
        values["dup"] = draw(st.booleans())
    return Arguments(kind, values, None)


@st.composite
def subscriptions(draw: st.DrawFn, version: int) -> Any:
    text, qos = draw(topic_filters(version)), draw(QOS)
    if version < 5:
        return mqtt.Subscription(text, qos=qos)
    return mqtt.Subscription(
        text,
        qos=qos,
        no_local=draw(st.booleans()) and not text.startswith("$share/"),
        retain_as_published=draw(st.booleans()),
        retain_handling=draw(st.integers(0, 2)),
    )


@st.composite
def requests(draw: st.DrawFn, version: int) -> Arguments:
    kind = draw(st.sampled_from(["Subscribe", "Unsubscribe"]))
    values: dict[str, Any] = {"packet_identifier": draw(IDENTIFIER)}
    if kind == "Subscribe":
        values["subscriptions"] = tuple(draw(st.lists(subscriptions(version), min_size=1, max_size=5)))
    else:
        values["topic_filters"] = tuple(draw(st.lists(topic_filters(version), min_size=1, max_size=5)))
    if version == 3:
        values["dup"] = draw(st.booleans())
    if version == 5:
        values["properties"] = draw(properties(kind))
    return Arguments(kind, values, "client")


@st.composite
def answers(draw: st.DrawFn, version: int) -> Arguments:
    kind = draw(st.sampled_from(["Suback", "Unsuback"]))
    values: dict[str, Any] = {"packet_identifier": draw(IDENTIFIER)}
    codes = {3: [0, 1, 2], 4: [0, 1, 2, 0x80], 5: CODES[kind]}[version]
    if kind == "Suback" or version == 5:
        values["reason_codes"] = tuple(draw(st.lists(st.sampled_from(codes), min_size=1, max_size=8)))
    if version == 5:
        values["properties"] = draw(properties(kind))
    return Arguments(kind, values, "server")


@st.composite
def ends(draw: st.DrawFn, version: int) -> Arguments:
    kind = draw(st.sampled_from(["Pingreq", "Pingresp", "Disconnect"] + ["Auth"] * (version == 5)))
    if kind.startswith("Ping"):
        return Arguments(kind, {}, "client" if kind == "Pingreq" else "server")
    side = draw(st.sampled_from(["client", "server"])) if version == 5 else "client"
    required: tuple[str, ...] = ("authentication_method",) if kind == "Auth" else ()
    if kind == "Disconnect" and version == 5 and draw(st.booleans()):
        required = ("session_expiry_interval",) if side == "client" else ("server_reference",)
    return Arguments(kind, draw(reasons(version, kind, f"{kind} from {side}", required)), side)


def arguments(version: int) -> st.SearchStrategy[Arguments]:
    """Constructor arguments of any packet of a version."""

    def finished(a: Arguments, pairs: Any) -> Arguments:
        values = dict(a.values)
        if version == 5 and a.kind in ("Connect", "Connack"):
            values["properties"] = pairs[a.kind]
        return Arguments(a.kind, {**values, "version": version}, a.side)

    kinds = st.one_of(
        connects(version),
        connacks(version),
        publishes(version),
        acknowledgements(version),
        requests(version),
        answers(version),
        ends(version),
    )
    if version < 5:
        return kinds.map(lambda a: finished(a, {}))
    pairs = st.fixed_dictionaries({kind: properties(kind) for kind in ("Connect", "Connack")})
    return st.builds(finished, kinds, pairs)


VERSIONS = st.sampled_from([3, 4, 5])
ANY = VERSIONS.flatmap(arguments)


@st.composite
def broken(draw: st.DrawFn) -> tuple[int, bytes]:
    """A version, and the octets of one of its packets with some of them changed."""
    version = draw(VERSIONS)
    octets = bytearray(draw(arguments(version)).build().encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(octets)))
        kind = draw(st.sampled_from(["set", "insert", "remove", "cut"]))
        if kind == "set" and at < len(octets):
            octets[at] = draw(U8)
        elif kind == "insert":
            octets[at:at] = draw(st.binary(min_size=1, max_size=4))
        elif kind == "remove":
            del octets[at : at + draw(st.integers(1, 4))]
        else:
            del octets[at:]
    if len(octets) > 1 and draw(st.booleans()):  # a fixed header that fits, so that the fault lies deeper
        body = bytes(octets[2:])
        if len(body) < 128:
            octets[1] = len(body)
    return version, bytes(octets)
