"""JSON headers in the form of the Java code, which are read in one pass, and the same members in other forms.

The expected values come from the standard library's json.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirefmt import rocketmq
from wirefmt.errors import DecodeError
from wirefmt.framing import Limits

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

FIELDS: dict[str, dict[str, str]] = {
    "none": {},
    "letters": {"a": "producers", "b": "orders", "d": "4", "i": "KEYS\x01key1\x02WAIT\x01true\x02", "k": "false"},
    "sizes": {f"k{'x' * n}": "v" * n for n in range(40)},
    "escapes": {f"f{n}": "y" * n + '\x01\x1f"\\/\t' + "z" * (n // 2) for n in range(40)},
    "long": {"value": "abcdefgh" * 5000, "name" * 500: "\x02" * 300},
    "other letters": {"größe": "Ω" * 9, "b": "Aufträge", "empty": ""},
}
MEMBERS: list[dict[str, Any]] = [
    {"code": 310, "flag": 0, "language": "JAVA", "opaque": 7},
    {"code": 0, "flag": 1, "language": "GO", "opaque": 999_999_999, "remark": "no topic [orders]"},
    {"code": 1, "flag": 3, "language": "unknown", "opaque": 2_147_483_647, "remark": ""},
]


def header(members: dict[str, Any], fields: dict[str, str] | None) -> dict[str, Any]:
    """A header whose members are in the order of the Java code: alphabetical."""
    ext = {} if fields is None else {"extFields": fields}
    return dict(sorted((members | ext | {"serializeTypeCurrentRPC": "JSON", "version": 401}).items()))


def row_of(text: str) -> dict[str, Any]:
    (row,) = pa.record_batch(rocketmq.decode_batch(frame(text))).to_pylist()
    return row


def frame(text: str, body: bytes = b"body") -> bytes:
    octets = text.encode()
    return (4 + len(octets) + len(body)).to_bytes(4, "big") + len(octets).to_bytes(4, "big") + octets + body


def spellings(said: dict[str, Any]) -> list[str]:
    """The form of the Java code; with blanks; with characters beyond ASCII escaped; in reverse order; with a blank at the end."""
    compact = (",", ":")
    return [
        json.dumps(said, separators=compact, ensure_ascii=False),
        json.dumps(said, indent=1, ensure_ascii=False),
        json.dumps(said, separators=compact),
        json.dumps(dict(reversed(said.items())), separators=compact, ensure_ascii=False),
        json.dumps(said, separators=compact, ensure_ascii=False)[:-1] + " }",
    ]


@pytest.mark.parametrize("fields", [None, *FIELDS.values()], ids=["absent", *FIELDS])
@pytest.mark.parametrize("members", MEMBERS, ids=["request", "response", "largest"])
def test_every_spelling_has_the_values_that_json_has(members: dict[str, Any], fields: dict[str, str] | None) -> None:
    said = header(members, fields)
    language = said["language"] if said["language"] != "unknown" else None
    for text in spellings(said):
        assert json.loads(text) == said
        row = row_of(text)
        assert row["error"] is None
        assert row["ext_fields"] == (None if fields is None else list(fields.items()))
        assert [row[name] for name in ("code", "flag", "sequence", "language", "remark", "version")] == [
            said["code"], said["flag"], said["opaque"], language, said.get("remark"), 401,
        ]  # fmt: skip
        assert row["payload"] == b"body"
        command = rocketmq.decode(frame(text))
        assert command.ext_fields == fields
        assert (command.code, command.flag, command.opaque, command.remark) == (
            said["code"], said["flag"], said["opaque"], said.get("remark"),
        )  # fmt: skip


@pytest.mark.parametrize("name", ["none", "letters", "escapes"])
def test_no_shorter_header_is_read(name: str) -> None:
    text = json.dumps(header(MEMBERS[1], FIELDS[name]), separators=(",", ":"))
    for size in range(len(text)):
        assert row_of(text[:size])["error"] is not None
        with pytest.raises(DecodeError):
            rocketmq.decode(frame(text[:size]))


@pytest.mark.parametrize("members", MEMBERS, ids=["request", "response", "largest"])
def test_the_limit_of_elements_counts_members_and_fields(members: dict[str, Any]) -> None:
    said = header(members, FIELDS["letters"])
    count = len(said) + len(FIELDS["letters"])
    for text in spellings(said):
        assert rocketmq.decode(frame(text), limits=Limits(elements=count)).ext_fields == FIELDS["letters"]
        for elements in range(1, count):
            with pytest.raises(DecodeError):
                rocketmq.decode(frame(text), limits=Limits(elements=elements))


@pytest.mark.parametrize("octet", range(0x20, 0x7F))
def test_a_quote_is_found_at_every_place(octet: int) -> None:
    """Its position is before, in and after each block of bytes that is searched at once."""
    fields = {"k" * n + chr(octet): chr(octet) * n for n in range(1, 36)}
    for text in spellings(header(MEMBERS[0], fields))[:2]:
        assert rocketmq.decode(frame(text)).ext_fields == fields
        assert row_of(text)["ext_fields"] == list(fields.items())
