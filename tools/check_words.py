"""Phrases that plain technical English avoids, and what to write instead (docs/design.md).

`python tools/check_words.py` prints every hit in comments, docstrings, texts and pages as `file:line: word: advice`; the exit
status is 1 if there is one. A line that has to quote such a word ends with `words: ok`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("bench", "changes", "docs", "examples", "fuzz", "samples", "spark", "src", "tests", "tools")
SUFFIXES = (".md", ".py", ".pyi", ".pyx", ".pxd", ".pxi")
#: Data, build output, and this list with its test.
SKIPPED = re.compile(r"^tests/(data|vectors)/|(^|/)[.]|egg-info/|/build/|/(check|test)_words\.py$")
ALLOWED = "words: ok"


class Word(NamedTuple):
    pattern: str
    advice: str


WORDS: tuple[Word, ...] = (
    Word(r"that cannot be(?=$|[,.;:)\"'`])", "write: an invalid value"),
    Word(r"\b(it|they|that|which) do(es)? not change\b", "write: is immutable, stays the same"),
    Word(r"\bnever built\b", "write: uninitialised"),
    Word(r"\bbehind an?\b", "write: after"),
    Word(r"\bone behind another\b", "write: one after another"),
    Word(r"\bnone at all\b", "write: not a ..., or: no ..."),
    Word(r"\bstands? for\b", "write: is, means, replaces"),
    Word(r"\b(is|are|was|were) told\b", "write: is reported, receives, knows"),
    Word(r"\blets? pass\b", "write: accepts, ignores"),
    Word(r"(?<!anything )(?<!something )(?<!nothing )\belse\.(?=$|[\"' ])", "write: otherwise, by default"),
    Word(r"\ball the same\b", "write: still, in any case"),
    Word(r"\bhanded out\b", "write: returned, emitted"),
    Word(r"\bcut short\b", "write: truncated"),
    Word(r"\bpassed over\b", "write: skipped, ignored"),
    Word(r"\bunder way\b", "write: pending, running"),
    Word(r"\b(one|a) (line|row|queue|direction|file|packet|message) an? [a-z]", "write: one ... per ..."),
    Word(r"\bat hand\b", "write: current, this"),
    Word(r"\bfaultless\b", "write: valid"),
    Word(r"\bwhoever\b", "write who it is: a reader, a sender, the caller"),
    Word(r"\bshall\b", "write: must, will"),
    Word(r"\bbreach(es)?\b", "write: violation"),
    Word(r"\bfor good\b", "write: permanently"),
    Word(r"\blooked into\b", "write: read, searched, examined"),
    Word(r"\bare the most\b", "write: the limit is"),
    Word(r"\bis not within\b", "write: is out of range (low to high)"),
    Word(r"\bwithin each other\b", "write: nested"),
    Word(r"\bunless told\b", "write: by default"),
    Word(r"\bnobody's\b", "write: no ... has it"),
    Word(r"\bfor people\b", "write: readable, for display, explanatory"),
)
#: For lines in lower case.
EVERY = re.compile("|".join(f"(?:{word.pattern})" for word in WORDS))


def files() -> Iterator[Path]:
    yield ROOT / "README.md"
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not SKIPPED.search(path.relative_to(ROOT).as_posix()):
                yield path


def hits(text: str) -> Iterator[tuple[int, str, str]]:
    """(number of the line, the words found, advice), in order."""
    for number, line in enumerate(text.splitlines(), 1):
        if EVERY.search(line.lower()) and ALLOWED not in line:
            for word in WORDS:
                for found in re.finditer(word.pattern, line.lower()):
                    yield number, found.group(), word.advice


def main() -> int:
    status = 0
    for path in files():
        for number, found, advice in hits(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(ROOT)}:{number}: {found!r}: {advice}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
