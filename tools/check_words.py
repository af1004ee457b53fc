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
    Word(r"\b(has|have|had)( not| already| never)? come\b(?! (to|from|of)\b)", "write: has arrived, was received"),
    Word(r"\broom for\b", "write: space for, capacity. A room is a part of a module"),
    Word(
        r"\b(has|have|there is|makes?|leaves?|no|enough) room\b(?! `)",
        "write: space, capacity, credit. A room is a part of a module",
    ),
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
    Word(r"\btyped face\b", "write: type stub"),
    Word(r"\bboth stand on\b", "write: both use"),
    Word(r"\bfor certain\b", "write: certainly, by construction"),
    Word(r"\bin small letters\b", "write: in lower case"),
    Word(r"\bwhom\b", "write who it is, in a sentence of its own"),
    Word(r"\bwhat it is given\b", "write: its arguments, its input"),
    Word(r"\b(is|are|was|were) at work\b", "write: runs, is running"),
    Word(r"\b(is|are) as new\b", "write: equals a new one"),
    Word(r"\b(is|are) the business of\b", "write: concerns, belongs to"),
    Word(r"\bbut for\b", "write: except"),
    Word(
        r"\b(un)?usual (path|form|reader|record|packet|publish|content|delivery|frame|message)s?\b", "write: fast path"
    ),
    Word(r"\btall(y|ies)\b", "write: counter, count"),
    Word(r"\bseal(s|ed)?\b", "write what is done: finish, close, refuse further items"),
    Word(r"\bbur(y|ied|ies)\b", "write: dead-letter"),
    Word(r"\b(so|it|them|they|done|asked|called|bound|used) no more\b", "write: no longer"),
    Word(r"\bin vain\b", "write: without success, without a match"),
    Word(r"\bof (its|their) own accord\b", "write: by itself"),
    Word(r"\bha(s|ve) no need\b", "write: does not have to"),
    Word(  # not "there is no", also from the line before, and not "is no longer" or "is no larger than"
        r"(?<=[^\s#] )(?<!\bthere )(?<!\bthere (?:may|can) )(?<!\bthere (?:will|must) )"
        r"\b(is|are|was|were|be) no (?!(longer|more|less|[a-z]+er than)\b)",
        "write: is not a, is not valid",
    ),
)
#: In compiled rooms and their headers only: there the phrases have replacements that are always better.
ROOM_WORDS: tuple[Word, ...] = (
    Word(r"\b(none such|there is none)\b", "write what is absent: no journal, at the end, not found"),
    Word(r"\bthat (is|are) (there|to be there)\b", "write: present, available, required"),
    Word(r"\bthat cannot be (read|decompressed|decoded)\b", "write: malformed, not decompressed"),
    Word(r"\bfor ever\b", "write: permanently, never freed"),
    Word(r"\bwhat there is\b", "write: the available part"),
    Word(r"\bfrom here on\b", "write: from the next octet, later, now"),
    Word(r"\basked for\b", "write: on access, requested"),
    Word(r"\bnothing owned\b", "write: it owns nothing"),
    Word(r"\bhands? around\b", "write: state shared by"),
    Word(r"\blet something pass\b", "write: accepted a violation"),
    Word(r"\b(where|that) (it|they) lies?\b", "write: in place, in"),
    Word(r"\bwithout (more ado|memory)\b", "write: out of memory"),
    Word(r"\bstands? (on|after|before)\b", "write: uses, follows, precedes"),
    Word(r"\bmore is to come\b", "write: incomplete, more follows"),
    Word(r"\b(is|are) gone then\b", "write: and free it"),
)
ROOM_SUFFIXES = (".pyx", ".pxd", ".pxi")
#: For lines in lower case.
EVERY = re.compile("|".join(f"(?:{word.pattern})" for word in WORDS + ROOM_WORDS))


def files() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not SKIPPED.search(path.relative_to(ROOT).as_posix()):
                yield path


def hits(text: str, room: bool = False) -> Iterator[tuple[int, str, str]]:
    """(number of the line, the words found, advice), in order. room: the text is of a compiled room."""
    words = WORDS + ROOM_WORDS if room else WORDS
    for number, line in enumerate(text.splitlines(), 1):
        if EVERY.search(line.lower()) and ALLOWED not in line:
            for word in words:
                for found in re.finditer(word.pattern, line.lower()):
                    yield number, found.group(), word.advice


def main() -> int:
    status = 0
    for path in files():
        for number, found, advice in hits(path.read_text(encoding="utf-8"), path.suffix in ROOM_SUFFIXES):
            print(f"{path.relative_to(ROOT)}:{number}: {found!r}: {advice}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
