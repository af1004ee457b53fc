"""What nsqd 1.3 says in the error frame for a command that it refuses, word for word: clients compare the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from wirefmt.errors import DecodeError
from wirefmt.nsq.spec import CHECKS, ServerOptions

_CHECK_OF: Final = {check.text: check.name for check in CHECKS}


class _Refused(NamedTuple):
    """What is known of a refused command.

    Attributes:
        words: of its line; the first one is the command.
        at: the bytes at the fault.
        size: the number in the four bytes after the line; 0: they have not arrived.
        need, have: of a limit: what is asked for, and the limit.
        place: of the message in an MPUB; None: the fault is elsewhere.
        server: the limits.
    """

    words: list[bytes]
    at: bytes
    size: int
    need: int | None
    have: int | None
    place: str | None
    server: ServerOptions

    def word(self, number: int) -> str:
        return _text(self.words[number]) if number < len(self.words) else ""

    @property
    def command(self) -> str:
        return self.word(0)

    @property
    def number(self) -> int:
        """The four bytes at the fault."""
        return int.from_bytes(self.at[:4], "big", signed=True)

    @property
    def digits(self) -> str:
        """The number of JSON at the fault."""
        found = re.match(rb"-?[0-9]+", self.at)
        return found[0].decode() if found else "0"


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def quoted(text: str) -> str:
    """As %q of Go writes a string. Malformed UTF-8 is escaped by surrogates."""
    escapes = {
        '"': '\\"',
        "\\": "\\\\",
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
    }
    out = []
    for character in text:
        code = ord(character)
        if character in escapes:
            out.append(escapes[character])
        elif 0xDC80 <= code <= 0xDCFF:  # no UTF-8
            out.append(f"\\x{code - 0xDC00:02x}")
        elif character.isprintable():
            out.append(character)
        else:
            out.append(f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(out)}"'


def _missing(r: _Refused) -> str:
    what = "params" if r.command in ("FIN", "REQ", "TOUCH") else "parameters"
    return f"{r.command} insufficient number of {what}"


def _topic(r: _Refused) -> str:
    twice = "E_BAD_TOPIC " if r.command == "MPUB" else ""
    return f"{twice}{r.command} topic name {quoted(r.word(1))} is not valid"


def _number(r: _Refused) -> str:
    what = "count" if r.command == "RDY" else "timeout"
    return f"{r.command} could not parse {what} {r.word(len(r.words) - 1)}"


def _message_size(r: _Refused) -> str:
    if r.place is not None:
        return f"MPUB invalid message({r.place}) body size {r.number}"
    return f"{r.command} invalid message body size {r.size}"


def _body_size(r: _Refused) -> str:
    return f"{r.command} invalid body size {r.size}"


def _message_count(r: _Refused) -> str:
    return f"MPUB invalid message count {r.number}"


def _no_json(r: _Refused) -> str:
    return "IDENTIFY failed to decode JSON body"


def _member(name: str) -> Callable[[_Refused], str]:
    return lambda r: f"IDENTIFY {name} ({r.digits}) is invalid"


#: The text for a row of CHECKS; those that are not here have no counterpart in nsqd.
_TEXTS: Final[dict[str, Callable[[_Refused], str]]] = {
    "COMMAND_UNKNOWN": lambda r: f"invalid command {r.command}",
    "WORDS_MISSING": _missing,
    "WORDS_TOO_MANY": lambda r: f"{r.command} invalid number of parameters",
    "TOPIC_NAME": _topic,
    "CHANNEL_NAME": lambda r: f"SUB channel name {quoted(r.word(2))} is not valid",
    "MESSAGE_ID": lambda r: "invalid message ID",
    "NUMBER": _number,
    "RDY_RANGE": lambda r: f"RDY count {r.word(1)} out of range 0-{r.server.max_rdy_count}",
    "DPUB_RANGE": lambda r: f"DPUB timeout {r.word(2)} out of range 0-{r.server.max_req_timeout}",
    "BODY_EMPTY": _body_size,
    "BODY_NEGATIVE": _body_size,
    "BODY_TOO_BIG": lambda r: f"{r.command} body too big {r.need} > {r.have}",
    "MESSAGE_EMPTY": _message_size,
    "MESSAGE_NEGATIVE": _message_size,
    "MESSAGE_TOO_BIG": lambda r: f"{r.command} message too big {r.need} > {r.have}",
    "MPUB_EMPTY": _message_count,
    "MPUB_COUNT": _message_count,
    "JSON_SYNTAX": _no_json,
    "JSON_OBJECT": _no_json,
    "JSON_TYPE": _no_json,
    "HEARTBEAT_INTERVAL": _member("heartbeat interval"),
    "OUTPUT_BUFFER_TIMEOUT": _member("output buffer timeout"),
    "OUTPUT_BUFFER_SIZE": _member("output buffer size"),
    "SAMPLE_RATE": _member("sample rate"),
    "MSG_TIMEOUT": _member("msg timeout"),
}


def refusal(error: DecodeError, faulty: tuple[bytes, bytes], server: ServerOptions) -> bytes:
    """What nsqd says after the code.

    Args:
        error: the fault of the command.
        faulty: the command's line with what follows it, and the bytes at the fault: `Decoder._faulty`.
        server: the limits.
    """
    make = _TEXTS.get(_CHECK_OF.get(error.reason, ""))
    if make is None:
        return error.reason.encode()
    line, _, rest = faulty[0].partition(b"\n")
    place = re.search(r"\[([0-9]+)\]", error.path)
    refused = _Refused(
        words=line.removesuffix(b"\r").split(b" "),
        at=faulty[1],
        size=int.from_bytes(rest[:4], "big", signed=True),
        need=error.need,
        have=error.have,
        place=place[1] if place else None,
        server=server,
    )
    return make(refused).encode("utf-8", "surrogateescape")
