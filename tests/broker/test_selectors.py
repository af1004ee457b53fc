"""Filters of AMQP 1.0 sources: what the real brokers say of them, and their limits."""

from __future__ import annotations

import random
import time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import selector_cases as known
from wirefmt import amqp091, amqp10
from wirefmt.broker import selectors
from wirefmt.broker.messages import Envelope, Item, Published
from wirefmt.convert import Container

JMS = "apache.org:selector-filter:string"
SQL = "amqp:sql-filter"

#: Where Artemis says something else, and why that is not followed.
DIFFERENT = {
    "5 = h": [9],  # a short is compared with an int only if it comes first
    "JMSMessageID IS NULL": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13],  # it is for none
    "XPATH '//a'": "amqp:invalid-field",  # there are no selectors on bodies here
    "99999999999999999999 = l": "amqp:invalid-field",  # a number that no property can have
}


def item(message: amqp10.Message) -> Item:
    container = Container(message.encode(), source="amqp10", exchange="", routing_key="q", dialect="documented")
    return Item(Published.of(container))


ITEMS = [item(message) for message in known.MESSAGES]


def filters(value: Any, kind: Any = JMS) -> selectors.Filter | None:
    return selectors.read({"name": amqp10.Described(kind if isinstance(kind, int) else amqp10.Symbol(kind), value)})[0]


def chosen(value: Any, kind: Any = JMS, items: list[Item] = ITEMS) -> Any:
    """Numbers of the messages, or that the filter is refused."""
    try:
        found = filters(value, kind)
    except ValueError:
        return "amqp:invalid-field"
    return "refused" if found is None else [number for number, item in enumerate(items) if found.matches(item)]


def test_selectors_as_artemis() -> None:
    rows = known.recorded("selectors.jsonl")
    assert len(rows) > 500
    wrong = [(text, result) for text, result in rows if chosen(text) != DIFFERENT.get(text, result)]
    assert not wrong


def test_sql_filters_as_rabbitmq() -> None:
    rows, items = known.recorded("sql-filters.jsonl"), [item(known.finite(message)) for message in known.MESSAGES]
    assert len(rows) > 450
    wrong = [(text, result) for text, result in rows if chosen(text, SQL, items) != result]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a.b = 1", True),
        ("vendor.name = 'x' AND a.b < 2", True),
        ("m.x-opt-a = 'y'", False),  # x - opt - a
        ("\"m.x-opt-a\" = 'y'", True),
        ("amqp.subject = 's' AND amqp.priority = 7 AND amqp.durable", True),
        (
            "amqp.to = 't' AND amqp.reply_to = 'r' AND amqp.correlation_id = '5' AND amqp.message_id = '000000000000'",
            False,
        ),
        ("amqp.message_id = '00000000-0000-0000-0000-000000000005'", True),
        ("JMSMessageID = 'ID:00000000-0000-0000-0000-000000000005'", True),
        ("amqp.delivery_mode = 'PERSISTENT' AND NOT amqp.redelivered AND amqp.delivery_count = 0", True),
        ("amqp.creation_time = 1 AND amqp.absolute_expiry_time = 2", True),
        ("JMSDestination = 't' AND JMSReplyTo = 'r'", True),
    ],
)
def test_names_with_dots(text: str, right: bool) -> None:
    """Those of Qpid's C++ broker, and application properties."""
    message = amqp10.Message(
        header=amqp10.Header(durable=True, priority=7),
        message_annotations={amqp10.Symbol("x-opt-a"): "y"},
        properties=amqp10.Properties(
            subject="s", to="t", reply_to="r", correlation_id=amqp10.ULong(5), message_id=UUID(int=5), creation_time=1,
            absolute_expiry_time=2,
        ),
        application_properties={"a.b": 1, "vendor.name": "x"},
        body=b"",
    )  # fmt: skip
    assert chosen(text, JMS, [item(message)]) == ([0] if right else [])


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("amqp:properties-filter", {"subject": "abc"}, [11]),
        ("amqp:properties-filter", {"subject": "&p:a"}, [11]),
        ("amqp:properties-filter", {"subject": "&s:bc"}, [11]),
        ("amqp:properties-filter", {"subject": "&&abc"}, []),
        ("amqp:properties-filter", {"subject": "&x:a"}, "refused"),
        ("amqp:properties-filter", {"subject": 5}, "refused"),
        ("amqp:properties-filter", {"message-id": "ID:1", "subject": "abc"}, [11]),
        ("amqp:properties-filter", {"message-id": "ID:1", "subject": "abx"}, []),
        ("amqp:properties-filter", {"message_id": "ID:1"}, "refused"),
        ("amqp:properties-filter", {"group-sequence": amqp10.UInt(5)}, [12]),
        ("amqp:properties-filter", {"group-sequence": 5}, "refused"),
        ("amqp:properties-filter", {"user-id": b"ann"}, [13]),
        ("amqp:properties-filter", {"creation-time": amqp10.Timestamp(1_700_000_000_000)}, [13]),
        ("amqp:properties-filter", {"nope": "x"}, "refused"),
        ("amqp:properties-filter", {}, "refused"),
        ("amqp:properties-filter", "x", "refused"),
        (0x173, {"subject": "abc"}, [11]),
        ("amqp:application-properties-filter", {"s": "abc"}, [1]),
        ("amqp:application-properties-filter", {"s": "&p:abc"}, [1, 8, 9]),
        ("amqp:application-properties-filter", {"s": "&s:c", "i": 5}, [1, 8]),
        ("amqp:application-properties-filter", {"i": 5}, [1, 3, 8]),
        ("amqp:application-properties-filter", {"i": 5.0}, [1, 3, 8]),
        ("amqp:application-properties-filter", {"i": "5"}, [4]),
        ("amqp:application-properties-filter", {"t": True}, [1]),
        ("amqp:application-properties-filter", {"b": b"abc"}, [6]),
        ("amqp:application-properties-filter", {"i": None}, [1, 2, 3, 4, 5, 7, 8, 10]),
        ("amqp:application-properties-filter", {f"k{n}": n for n in range(17)}, "refused"),
        ("amqp:application-properties-filter", {amqp10.Symbol("s"): "abc"}, "refused"),
        (0x174, {"s": "abc"}, [1]),
        (0x120, "i = 5", [1, 3, 8]),
        (0x0000_468C_0000_0004, "i = 5", [1, 3, 8]),
        ("amqp:sql-filter", amqp10.Symbol("i = 5"), [1, 3, 8]),
        ("amqp:sql-filter", 5, "refused"),
        ("apache.org:selector-filter:string", 5, "amqp:invalid-field"),
        ("apache.org:no-local-filter:list", amqp10.List(), "refused"),
        ("rabbitmq:stream-offset-spec", "first", "refused"),
    ],
)
def test_property_filters_and_descriptors(kind: Any, value: Any, result: Any) -> None:
    """4.1 and 4.2 of the filter expressions; what there is not is left out, like in RabbitMQ."""
    if isinstance(value, dict):
        names = amqp10.Symbol if kind in (0x173, "amqp:properties-filter") else lambda name: name
        value = amqp10.Map({names(name): wanted for name, wanted in value.items()})
    assert chosen(value, kind) == result


def test_a_message_passes_all_filters_and_the_answer_has_those_that_there_are() -> None:
    asked = {
        amqp10.Symbol("a"): amqp10.Described(amqp10.Symbol(JMS), "i = 5"),
        amqp10.Symbol("b"): amqp10.Described(amqp10.Symbol(SQL), "s LIKE 'abc%'"),
        amqp10.Symbol("c"): amqp10.Described(amqp10.Symbol("other"), "x"),
        amqp10.Symbol("d"): "not described",
    }
    found, applied = selectors.read(asked)
    assert found is not None
    assert [number for number, item in enumerate(ITEMS) if found.matches(item)] == [1, 8]
    assert list(applied) == ["a", "b"]
    assert selectors.read(None) == (None, {})


def test_a_message_of_amqp091_is_what_its_consumer_would_get() -> None:
    properties = amqp091.BasicProperties(headers={"colour": "red", "n": 5}, priority=3, type="abc", delivery_mode=2)
    envelope = Envelope(properties.encode(), "", "q", None, 3, properties, "documented")
    (found,) = [Item(Published(envelope, b"x"))]
    for text, right in {"colour = 'red'": True, "n > 5": False, "JMSPriority = 3": True, "amqp.durable": True}.items():
        assert chosen(text, JMS, [found]) == ([0] if right else [])


def test_expressions_are_bounded() -> None:
    assert chosen("i = 5".ljust(4096)) == [1, 3, 8]
    assert chosen("i = 5".ljust(4097)) == "amqp:invalid-field"
    assert chosen(" OR ".join(["i = 5"] * 200)) == [1, 3, 8]
    assert chosen(" OR ".join(["i=5"] * 260)) == "amqp:invalid-field"  # too many tokens
    assert chosen("(" * 40 + "i = 5" + ")" * 40) == [1, 3, 8]
    assert chosen("(" * 1000 + "i = 5" + ")" * 1000) == "amqp:invalid-field"
    assert chosen("NOT " * 900 + "t") == "amqp:invalid-field"
    assert chosen("i = " + "1+" * 400 + "1") == "amqp:invalid-field"
    assert chosen("i IN (" + ",".join(["'5'"] * 101) + ")", SQL) == "refused"
    assert chosen("(" * 60 + "i = 5" + ")" * 60, SQL) == "refused"
    assert chosen("NOT " * 150 + "t", SQL) == "refused"


def test_like_does_not_go_back() -> None:
    """A pattern that would take a regular expression years."""
    message = item(amqp10.Message(application_properties={"s": "a" * 60_000}, body=b""))
    begin = time.process_time()
    assert chosen("s LIKE '" + "%a" * 1000 + "%b'", JMS, [message]) == []
    assert chosen("s LIKE '%a" + "%a_" * 1000 + "b'", JMS, [message]) == []
    assert chosen("s LIKE '%" + "a%" * 1000 + "'", JMS, [message]) == [0]
    assert time.process_time() - begin < 2.0
    for size, right in ((65_536, True), (65_537, False)):
        made = item(amqp10.Message(application_properties={"s": "a" * size}, body=b""))
        assert bool(chosen("s LIKE 'a%'", JMS, [made])) is right


def test_numbers_do_not_grow() -> None:
    message = item(amqp10.Message(application_properties={"l": (1 << 63) - 1}, body=b""))
    products = "*".join(["l"] * 90) + " > 0"
    for text, kind in ((products, JMS), (products, SQL), ("l / l * 1.0E300 * 1.0E300 > 1", SQL)):
        assert chosen(text, kind, [message]) in ([], [0])


@given(st.sampled_from(["selectors.jsonl", "sql-filters.jsonl"]), st.randoms(use_true_random=False))
def test_any_text_is_parsed_or_refused(name: str, rnd: random.Random) -> None:
    rows = known.recorded(name)
    text = rnd.choice(rows)[0] + rnd.choice(["", " AND ", " OR NOT ", "*", "("]) + rnd.choice(rows)[0]
    at = rnd.randrange(len(text) + 1)
    between = rnd.choice(["", "'", '"', "(", ")", "%", " NOT ", " LIKE ", "\0", "ü", "[", "."])
    text = text[:at] + between + text[at + rnd.randrange(3) :]
    assert chosen(text, JMS if name == "selectors.jsonl" else SQL) is not None
