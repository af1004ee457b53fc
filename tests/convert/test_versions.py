"""The dialect rabbitmq-3.13: bare conversions. The vectors say what 4.3.5 makes of an input, and what 3.13.7 does where that
means something else: there octets are compared, elsewhere what they mean."""

from __future__ import annotations

import json
from typing import Any

from lib.convert_vectors import VECTORS, Case, cases, equal, octets, run
from wirefmt.convert import Conversion, Wire
from wirefmt.errors import ConversionError, DecodeError

#: What we do not copy.
DEFECTS = {
    "amqp10>mqtt5 body amqp-value list": "the server breaks on a list of entries, and has the empty text for one of none",
    "amqp10>mqtt5 body amqp-value map": "the same",
}


def differences() -> dict[str, dict[str, Any]]:
    with (VECTORS / "rabbitmq-3.13.jsonl").open() as lines:
        return {row["id"]: row for row in map(json.loads, lines)}


def fault(case: Case, differs: dict[str, Any] | None) -> str:
    """What is wrong with our conversion of a case; empty: nothing, or the server has no result."""
    error = (differs or case).get("error")
    if error and error.get("kind") != "refused":
        return ""
    try:
        got = run(case, "rabbitmq-3.13")
    except ConversionError as refusal:
        return "" if error else str(refusal)
    if error:
        return "not refused"
    if differs:
        if case["to"] == "amqp10" and not is_message(differs["output_hex"]):
            return ""  # 3.13 cuts the length of a symbol to eight bits
        return "" if equal({**case, "output_hex": differs["output_hex"]}, got) else got.octets.hex()
    return "" if equal(case, got) or means_the_same(case, got) else got.octets.hex()


def is_message(hexadecimal: str) -> bool:
    try:
        Wire("amqp10", bytes.fromhex(hexadecimal)).message()
    except DecodeError:
        return False
    return True


def means_the_same(case: Case, got: Conversion) -> bool:
    """3.13 writes nulls at the end of lists, where 4.3 has none."""
    return case["to"] == "amqp10" and Wire("amqp10", octets("amqp10", case["output_hex"])).message() == got.message


def test_rabbitmq_3_13() -> None:
    differs = differences()
    wrong = []
    told = [case for case in cases("convert") if case["from"] != case["to"] and case["rule"] not in DEFECTS]
    for case in told:
        why = fault(case, differs.get(case["id"]))
        if why:
            wrong.append(f"{case['id']} {case['rule']}: {why}")
    assert sum(case["id"] in differs for case in told) > 500
    assert not wrong, f"{len(wrong)} of {len(told)}:\n" + "\n".join(wrong[:20])
