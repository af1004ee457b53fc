"""Everything of the source is in the result or in the losses: all six directions, all dialects.

tests/lib/convert_nodes.py reads source and result by the specifications. Each loss must tell of a value of the source, by field,
key, type and octets; each value of the source that no loss tells of must be in the result, with the same meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib import amqp091_strategies
from lib import convert_nodes as nodes
from lib.convert_nodes import Node
from lib.convert_strategies import MESSAGES
from lib.convert_vectors import cases, octets
from wirefmt import amqp091, amqp10
from wirefmt.convert import DIALECTS, PROTOCOLS, Conversion, Loss, Protocol, Wire, convert
from wirefmt.errors import ConversionError

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
PAIRS = [(a, b) for a in PROTOCOLS for b in PROTOCOLS]

#: Headers of RabbitMQ's old plugin, by dialect: whole sections of AMQP 1.0.
_BOTH = {b"x-amqp-1.0-properties": 0x73, b"x-amqp-1.0-message-annotations": 0x72}
SECTION_KEYS = {
    "documented": {**_BOTH, b"x-amqp-1.0-application-properties": 0x74},
    "rabbitmq-3.13": {**_BOTH, b"x-amqp-1.0-app-properties": 0x74},
    "rabbitmq-4.3": {**_BOTH, b"x-amqp-1.0-app-properties": 0x74, b"x-amqp-1.0-footer": 0x78},
}
#: Keys that the tables give another name.
RENAMED = {
    *(b"x-cc", b"CC", b"x-reply-to-topic", b"x-correlation-id", b"x-opt-deaths", b"x-opt-rabbitmq-received-time"),
    *(b"x-basic-type", b"x-basic-priority", b"x-basic-delivery-mode", b"x-basic-expiration"),
    *SECTION_KEYS["documented"],
}


def read(wire: Wire) -> list[Node]:
    if wire.protocol == "amqp091":
        return nodes.amqp091(wire.octets, wire.body or b"")
    return (nodes.amqp10 if wire.protocol == "amqp10" else nodes.mqtt5)(wire.octets)


def sections(data: bytes, field: str) -> list[Node] | None:
    """Octets that are sections of AMQP 1.0, a node each; None: they are not."""
    out, at = [], 0
    try:
        amqp10.Message.decode(data, strictness="lax")
    except ValueError:
        return None
    while at < len(data):
        reader = nodes.Reader10(data)
        reader.at = at + 1
        reader.value()
        reader.value()
        section = data[at : reader.at]
        inner = nodes.amqp10(section)
        content = inner[0].data if inner else None
        for node in inner:
            node.field = ""
        out.append(Node(field, None, "binary", section, [], [] if content is not None else inner, data=content))
        at = reader.at
    return out


def is_type(found: list[Node], field: str, value: bytes) -> bool:
    return any(node.field == field and node.octets == value for node in found)


def source_nodes(wire: Wire, dialect: str, to: Protocol) -> list[Node]:
    """Values, where AMQP 0.9.1 has sections of AMQP 1.0 within them."""
    found = read(wire)
    if (wire.protocol, to) != ("amqp091", "amqp10"):
        return found
    for node in found:
        code = SECTION_KEYS[dialect].get(node.key or b"")
        if code and node.field == "properties.headers" and node.type in ("longstr", "binary"):
            parts = sections(node.octets, "")
            if parts and len(parts) == 1 and parts[0].octets[2] == code:
                if dialect == "documented":
                    node.words = []  # else it is an annotation as well
                node.inner = parts[0].inner
    if dialect != "documented" and is_type(found, "properties.type", b"amqp-1.0"):
        body = found.pop()
        found += sections(body.octets, "payload") or []
    return found


def result_nodes(wire: Wire) -> list[Node]:
    """Values, a payload of AMQP 1.0 as its sections as well."""
    found = read(wire)
    if is_type(found, "properties.type", b"amqp-1.0") or is_type(found, "Content Type", b"message/vnd.rabbitmq.amqp"):
        try:
            found += nodes.amqp10(found[-1].octets)
        except (AssertionError, IndexError, KeyError):
            pass
    return found


def fits(node: Node, loss: Loss) -> bool:
    key = None if node.key is None else node.key.decode("utf-8", "backslashreplace")
    return (node.field, key, node.type) == (loss.field, loss.key, loss.type) and loss.value in (node.octets, node.also)


def joined(found: list[Node]) -> list[Node]:
    """All data sections as one."""
    data = [node.data for node in found if node.data is not None]
    others = [node for node in found if node.data is None]
    return [*others, Node("data", None, "binary", b"", [nodes.text(b"".join(data))])] if data else others


class Places:
    """The words of a result, each of which is one value of the source. A value that may be one of several words
    leaves its place to another that can only be there: augmenting paths in a bipartite graph (H. W. Kuhn, 1955)."""

    def __init__(self, words: Iterable[Any]) -> None:
        self.of: dict[Any, list[Node | None]] = {}
        for word in words:
            self.of.setdefault(word, []).append(None)

    def place(self, node: Node, seen: set[tuple[Any, int]] | None = None) -> bool:
        seen = set() if seen is None else seen
        for word in node.words:
            places = self.of.get(word, [])
            for i, other in enumerate(places):
                if (word, i) in seen:
                    continue
                seen.add((word, i))
                if other is None or self.place(other, seen):
                    places[i] = node
                    return True
        return False


def check(wire: Wire, got: Conversion, dialect: str) -> None:
    source = source_nodes(wire, dialect, got.protocol)
    every = [inner for node in source for inner in node.all()]
    told: set[int] = set()
    named: set[int] = set()
    gone: set[int] = set()
    # a value may stand in several places: those first that hold others, and then what is not gone with them
    for loss in sorted(got.losses, key=lambda loss: (not loss.field, -len(loss.value))):
        matches = [node for node in every if id(node) not in told and fits(node, loss)]
        assert matches, f"{loss} {loss!r} is not a value of the source"
        match = next((node for node in matches if id(node) not in gone), matches[0])
        told.add(id(match))
        if loss.what == "moved":
            named.add(id(match))
            continue
        gone |= {id(inner) for inner in match.all()}
    result = [inner for node in joined(result_nodes(got.wire)) for inner in node.all()]
    words = Places(word for node in result for word in node.words)
    keys = Counter(node.key for node in result if node.key is not None)
    for node in joined([node for node in source if id(node) not in gone]):
        exempt = node.key in RENAMED or id(node) in named
        for inner in node.all():
            if id(inner) in gone:
                continue
            found = not inner.words or words.place(inner)
            assert found, f"{inner} is neither in the result nor in {got.losses}"
            if inner.key is not None and not (exempt and (inner is node or node.key == b"x-opt-deaths")):
                assert keys[inner.key] > 0, f"the key of {inner} is neither in the result nor in {got.losses}"
                keys[inner.key] -= 1


BODIES = {"data", "data (multiple)", "amqp.sequence", "amqp.value"}


def explained(wire: Wire, to: Protocol, dialect: str) -> None:
    """explain=True reports every value of the source. (All sections of a body are one value, a footer may be in it.)"""
    told = convert(wire, to=to, dialect=dialect, routing_key="a.b", explain=True).losses
    fields = {loss.field for loss in told}
    for node in read(wire):
        if node.field in BODIES or node.field == "footer":
            assert fields & BODIES
        elif node.field == "payload":
            assert "payload" in fields
        else:
            assert any(fits(node, loss) for loss in told), node


def convert_and_check(wire: Wire, to: Protocol, dialect: str) -> Conversion | None:
    try:
        got = convert(wire, to=to, dialect=dialect, routing_key="a.b")
    except ConversionError:
        return None
    assert repr(got) and str(got.losses)
    check(wire, got, dialect)
    if wire.protocol != to:
        explained(wire, to, dialect)
    return got


# ---- messages that are not as they should be


def split(octets: bytes) -> list[bytes]:
    """The sections of a message of AMQP 1.0."""
    return [node.octets for node in sections(octets, "") or []]


SECTIONS = st.lists(MESSAGES["amqp10"].map(lambda wire: split(wire.octets)), min_size=1, max_size=2).flatmap(
    lambda parts: st.lists(st.sampled_from([section for part in parts for section in part]), max_size=6)
)
#: Sections in any order and number, bodies mixed.
SHUFFLED = SECTIONS.map(lambda parts: Wire("amqp10", b"".join(parts)))


def nested(depth: int, table: bool) -> Any:
    value: Any = "innermost"
    for _ in range(depth):
        value = amqp091.FieldValue("F", [("k", value)]) if table else amqp091.FieldValue("A", [value])
    return value


NAMES = st.sampled_from([
    "x-a", "a", "CC", "BCC", "x-basic-type", "x-reply-to-topic", "x-correlation-id", "x-amqp-1.0-properties",
    "x-amqp-1.0-application-properties", "x-amqp-1.0-app-properties", "x-amqp-1.0-message-annotations", "x-amqp-1.0-footer",
])  # fmt: skip
VALUES = st.one_of(
    SECTIONS.map(b"".join),
    SECTIONS.map(lambda parts: parts[0] if parts else b""),
    amqp091_strategies.values,
    st.builds(nested, st.integers(60, 63), st.booleans()),
    st.builds(
        amqp091.FieldValue,
        st.just("F"),
        st.lists(st.tuples(st.sampled_from("kl"), amqp091_strategies.values), max_size=4),
    ),
)


@st.composite
def doubtful_amqp091(draw: st.DrawFn) -> Wire:
    """Headers with one name, sections of AMQP 1.0 in headers and in the payload, values nested deep."""
    made = draw(amqp091_strategies.properties())
    values = {name: getattr(made, name) for name in type(made).__match_args__}
    values["headers"] = amqp091.FieldTable(draw(st.lists(st.tuples(NAMES, VALUES), max_size=4)))
    values["expiration"] = draw(st.sampled_from([None, "1000", "1500"]))
    values["type"] = draw(st.sampled_from([None, "amqp-1.0", "t"]))
    return Wire("amqp091", type(made)(**values).encode(), draw(SECTIONS.map(b"".join) | st.binary(max_size=9)))


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(2) + octets


STRINGS = st.sampled_from(
    [b"", b"a", b"x-a", b"a.b/c*", b"\xff\xfe", b"a\0b", "é".encode(), b"urn:uuid:" + b"0" * 36]
).map(sized)
WIDTHS = {"bits": 1, "ushort": 2, "uint": 4}


def encoded(number: int) -> st.SearchStrategy[bytes]:
    type_ = (nodes.PUBLISH.get(number) or nodes.OTHERS[number])[1]
    if type_ == "utf8 pair":
        value = st.tuples(STRINGS, STRINGS).map(b"".join)
    elif type_ in ("utf8", "binary"):
        value = STRINGS
    elif number == 11:
        value = st.integers(1, 127).map(lambda n: bytes([n]))
    else:
        value = st.binary(min_size=WIDTHS[type_], max_size=WIDTHS[type_])
    return value.map(lambda octets: bytes([number]) + octets)


@st.composite
def doubtful_mqtt5(draw: st.DrawFn) -> Wire:
    """Properties of any packet, any number of times, strings of any octets."""
    flags = draw(st.integers(0, 15).filter(lambda n: n & 6 != 6))
    numbers = st.sampled_from([*nodes.PUBLISH, *nodes.OTHERS])
    properties = b"".join(draw(st.lists(numbers.flatmap(encoded), max_size=6)))
    size = (
        len(properties).to_bytes(1)
        if len(properties) < 128
        else bytes([len(properties) & 127 | 128, len(properties) >> 7])
    )
    rest = sized(b"t") + (b"\0\1" if flags & 6 else b"") + size + properties + draw(st.binary(max_size=9))
    length = bytes([len(rest)]) if len(rest) < 128 else bytes([len(rest) & 127 | 128, len(rest) >> 7])
    return Wire("mqtt5", bytes([0x30 | flags]) + length + rest)


DOUBTFUL = {"amqp10": SHUFFLED, "amqp091": doubtful_amqp091(), "mqtt5": doubtful_mqtt5()}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("source", "to"), PAIRS)
@SETTINGS
@given(data=st.data())
def test_everything_is_in_the_result_or_in_the_losses(
    source: Protocol, to: Protocol, dialect: str, data: st.DataObject
) -> None:
    convert_and_check(data.draw(MESSAGES[source] | DOUBTFUL[source]), to, dialect)


def test_a_value_that_may_be_two_words_leaves_its_place() -> None:
    """`/queues/` is the text or, as a queue, nothing; the payload is nothing."""
    header = b"\x10x-reply-to-topicS\0\0\0\x08/queues/"
    assert convert_and_check(Wire("amqp091", b"\x20\0" + len(header).to_bytes(4) + header, b""), "amqp10", "documented")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_vectors(dialect: str) -> None:
    checked = 0
    for case in cases("convert"):
        if case["from"] == case["to"]:
            continue
        given_ = octets(case["from"], case["input_hex"])
        wire = given_ if isinstance(given_, Wire) else Wire(case["from"], given_)
        checked += convert_and_check(wire, case["to"], dialect) is not None
    assert checked > 1900
