"""convert/table.pxi from convert/vocabulary.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from types import ModuleType

#: Prefixes of a protocol's fields and types in the engine. The types of AMQP 1.0 are its type system's (Amqp10Type).
PREFIXES = {"amqp10": ("C10_", None), "amqp091": ("C91_", "C91T_"), "mqtt5": ("C5_", "C5T_")}


def convert_table(vocabulary: ModuleType) -> Iterator[str]:
    yield from ("", "", "cdef enum ConvertProtocol:")
    for i, protocol in enumerate(vocabulary.PROTOCOLS):
        yield f"    CONVERT_{protocol.upper()} = {i}"
    yield f"    CONVERT_PROTOCOLS = {len(vocabulary.PROTOCOLS)}"
    yield from _enum("ConvertWhen", "WHEN_", vocabulary.When, (word.text for word in vocabulary.When))
    yield f"    WHEN_COUNT = {len(vocabulary.When)}"
    yield from _enum("ConvertHow", "HOW_", vocabulary.How, (word.text for word in vocabulary.How))
    yield f"    HOW_COUNT = {len(vocabulary.How)}"
    yield from ("", "", "cdef enum:")
    yield f"    CONVERT_ABSENT = {vocabulary.SPECIAL_TYPES['absent']}"
    yield f"    CONVERT_KEY_TYPE = {vocabulary.SPECIAL_TYPES['table.key']}"
    for protocol, (field, type_) in PREFIXES.items():
        yield from _enum("", field, vocabulary.FIELDS[protocol])
        if type_ is not None:
            yield from _enum("", type_, vocabulary.TYPES[protocol])
    letters = "".join(f"\\{ord(c)}" if ord(c) < 32 else c for c in vocabulary.LETTERS)
    yield from ("", "", "# letters of field values by C91T_...", f'cdef const char* CONVERT_LETTERS = b"{letters}"')
    yield from ("", f"cdef tuple CONVERT_PROTOCOL_NAMES = {_tuple(vocabulary.PROTOCOLS)}")
    for name, table in (("FIELD", vocabulary.FIELDS), ("TYPE", vocabulary.TYPES)):
        yield f"cdef tuple CONVERT_{name}_NAMES = ("
        yield from (f"    {_tuple(table[protocol])}," for protocol in vocabulary.PROTOCOLS)
        yield ")"


def _enum(name: str, prefix: str, words: Iterable[str], texts: Iterable[str] | None = None) -> Iterator[str]:
    yield from ("", "", f"cdef enum {name}".rstrip() + ":")
    words = list(words)
    for i, (word, text) in enumerate(zip(words, texts or [""] * len(words), strict=True)):
        if word:
            yield f"    {prefix}{_c_name(word)} = {i}" + (f"  # {text}" if text else "")


def _c_name(word: str) -> str:
    """A name of the document in the engine: "properties.message_id" is MESSAGE_ID, "data (multiple)" DATA_MULTIPLE."""
    word = re.sub(r"^(header|properties)\.", "", word)
    return re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_").upper()


def _tuple(words: Iterable[str]) -> str:
    return "(" + ", ".join(f'"{word}"' for word in words) + ")"
