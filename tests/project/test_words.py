"""tools/check_words.py finds each of its phrases, and nothing in plain sentences."""

from __future__ import annotations

import pytest

from lib.modules import load
from lib.paths import ROOT

check_words = load("check_words", ROOT / "tools" / "check_words.py")

#: One sentence for each phrase, in the order of the list.
FOUND = (
    "ValueError for an option that cannot be.",
    "A message: it does not change.",
    "The object was never built.",
    "The next frame behind a hole.",
    "A message has not come.",
    "Space and room for it.",
    "A queue without enough room.",
    "Frames, one behind another.",
    "The file given is none at all",
    "0 stands for no limit.",
    "What was wrong is told once.",
    "What LAX lets pass.",
    "They are left out else.",
    "More may follow all the same.",
    "A batch is handed out.",
    "The frame is cut short",
    "42 octets passed over",
    "A content under way.",
    "One row a message.",
    "The value at hand",
    "A chain of faultless frames",
    "Whoever reads it",
    "--help shall work",
    "A breach of the rule",
    "It is finished for good",
    "The body is not looked into.",
    "300 octets, 255 are the most",
    "7 is not within 0 and 5",
    "Lists within each other",
    "16 MiB unless told otherwise",
    "The root is nobody's child.",
    "A text for people.",
    "The typed face of the codec.",
    "Objects and columns both stand on this.",
    "A message that is good for certain.",
    "The name in small letters.",
    "Users whom that time matters to.",
    "It checks what it is given.",
    "While another call is at work.",
    "Freed; it is as new then.",
    "An empty topic is the business of the parser.",
    "All columns but for the message.",
    "A PUBLISH in its usual form.",
    "The tally of a set.",
    "A batch is sealed.",
    "Bury what is dead.",
    "Ask it no more.",
    "A search in vain.",
    "It ends of its own accord.",
    "It has no need to arrive.",
    "ValueError: 5 is no QoS",
)
#: The same for the phrases of compiled rooms.
FOUND_IN_ROOMS = (
    "None: there is none such",
    "A value that is there.",
    "A frame that cannot be read.",
    "C strings that live for ever",
    "The row of a content: what there is of it.",
    "The version of the connection from here on.",
    "Fields become objects when they are asked for.",
    "views into the octets; nothing owned",
    "What the functions below hand around.",
    "LAX let something pass.",
    "Frames are read where they lie.",
    "False without memory.",
    "Conversions stand on it.",
    "A transfer: more is to come.",
    "The row of a delivery, which is gone then.",
)
#: Sentences that come near the phrases.
PLAIN = """
A frame that cannot be read is malformed. The value is one of those, or something else. False: anything else.
The note stays as it was. It changed. A row a, b. The room behind. In words of 32 bits. Bytes after a gap are skipped.
`a row` and `a message` are parts. He was untold. Tell it. The most are small.
There is no journal. If there are no rows, there was no error. There may be no header, and there
are no octets. It is no longer open. 5 is no more than 6, and is no larger than 7. Is there no name?
"""


@pytest.mark.parametrize(("number", "text"), list(enumerate(FOUND)))
def test_each_phrase_is_found(number: int, text: str) -> None:
    (hit,) = check_words.hits(f"A plain line.\n# {text}\n")
    assert (hit[0], hit[2]) == (2, check_words.WORDS[number].advice)
    assert list(check_words.hits(f"# {text} words: ok\n")) == []


@pytest.mark.parametrize(("number", "text"), list(enumerate(FOUND_IN_ROOMS)))
def test_phrases_of_rooms_are_found_in_rooms_only(number: int, text: str) -> None:
    hits = list(check_words.hits(f"A plain line.\n# {text}\n", room=True))
    assert {hit[0] for hit in hits} == {2}
    assert check_words.ROOM_WORDS[number].advice in [hit[2] for hit in hits]
    assert list(check_words.hits(f"# {text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "f'{name} is no packet'",
        "octets that are no text",
        "it may be no header",
        "column 'a' is no {type}",
        "This IS NO UTF-8",
    ],
)
def test_is_not_a_is_written_for_is_no(text: str) -> None:
    assert [hit[2] for hit in check_words.hits(text)] == ["write: is not a, is not valid"]


def test_every_phrase_has_its_sentence() -> None:
    assert len(FOUND) == len(check_words.WORDS)
    assert len(FOUND_IN_ROOMS) == len(check_words.ROOM_WORDS)


def test_plain_sentences_have_none() -> None:
    assert list(check_words.hits(PLAIN)) == []


def test_files_of_every_kind_are_read() -> None:
    read = {path.suffix for path in check_words.files()}
    assert read == set(check_words.SUFFIXES)
    assert ROOT / "tools" / "check_words.py" not in set(check_words.files())
