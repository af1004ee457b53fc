"""Single messages of a command line: hexadecimal or base64 text, files with bytes, JSON lines."""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rich_click as click

if TYPE_CHECKING:
    from wirefmt.convert import Wire

#: The names for --from and JSON lines, and their sources in wirefmt.convert. PUBLISH of MQTT 3 is one of 5.0 without properties.
SOURCES = {
    "amqp10": "amqp10",
    "amqp091": "amqp091",
    "mqtt5": "mqtt5",
    "mqtt311": "mqtt5",
    "mqtt31": "mqtt5",
}
INPUTS = ("hex", "base64", "raw", "jsonl")

_MQTT_VERSIONS = {"mqtt31": 3, "mqtt311": 4}
_HINTS = {
    "amqp091": "give the content header frame and the body frames, as they are on the wire; see the --help",
    "amqp10": "give the sections of one message, or one transfer frame",
    "mqtt5": "give one PUBLISH packet; one of MQTT 3.1.1 is --from mqtt311",
}
_HINTS |= {"mqtt311": "give one PUBLISH packet; one of MQTT 5.0 is --from mqtt5", "mqtt31": "give one PUBLISH packet"}


class BadMessage(Exception):
    """An invalid message; the text says what to pass instead."""


@dataclass(frozen=True, slots=True)
class Input:
    """A message of the input."""

    name: str  # for errors
    source: str  # of SOURCES
    octets: bytes
    routing_key: str | None = None

    def wire(self) -> Wire:
        """Raises BadMessage."""
        from wirefmt import mqtt
        from wirefmt.convert import Wire
        from wirefmt.convert.messages import wire_of
        from wirefmt.errors import DecodeError

        try:
            if self.source == "amqp091":
                return Wire.from_frames(self.octets)
            if self.source in _MQTT_VERSIONS:
                packet = mqtt.decode(self.octets, version=_MQTT_VERSIONS[self.source])
                if not isinstance(packet, mqtt.Publish):
                    raise BadMessage(f"{type(packet).__name__} is not a message; {_HINTS[self.source]}")
                return wire_of(packet)
        except DecodeError as fault:
            raise BadMessage(f"{fault}; {_HINTS[self.source]}") from None
        return Wire(SOURCES[self.source], _message_of_frame(self.octets) if self.source == "amqp10" else self.octets)  # type: ignore[arg-type]

    def key(self) -> str | None:
        """The routing key, if the frames or the line of the message have it."""
        from wirefmt import amqp091
        from wirefmt.errors import DecodeError

        if self.routing_key is not None or self.source != "amqp091" or self.octets[:1] != b"\1":
            return self.routing_key
        try:
            size = amqp091.frame_size(self.octets)
            method = amqp091.decode(self.octets[:size]) if isinstance(size, int) else None
        except DecodeError:
            return None
        key = getattr(method, "routing_key", None)
        return key if isinstance(key, str) else None

    @property
    def hint(self) -> str:
        return _HINTS[self.source]


def read_inputs(given: tuple[str, ...], form: str, source: str | None) -> Iterator[Input]:
    """The messages, in order. Raises BadMessage for an invalid message, UsageError for invalid arguments."""
    for name in given or ("-",):
        if form == "jsonl":
            yield from _lines(name, source)
            continue
        if source is None:
            raise click.UsageError(f"the protocol of the message is missing: --from {'|'.join(SOURCES)}")
        yield Input(_shown(name), source, _octets(name, form))


def _lines(name: str, source: str | None) -> Iterator[Input]:
    """Objects with `raw` and optionally `protocol` (and `version`) and `routing_key`, as `wirefmt decode` and
    `wirefmt convert` write them."""
    opened: Any = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: SIM115
    with opened as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                where = f"{_shown(name)} line {number}"
                yield _line(line, where, source)


def _line(line: bytes, where: str, source: str | None) -> Input:
    try:
        row = json.loads(line)
    except ValueError as fault:
        raise click.UsageError(f"{where}: not JSON: {fault}") from None
    if not isinstance(row, dict) or "raw" not in row:
        raise click.UsageError(
            f'{where}: no message; a line is {{"protocol": "mqtt5", "raw": {{"hex": "30..."}}}}, '
            "or what wirefmt decode --filter 'raw is not None' --format jsonl writes"
        )
    octets = row["raw"]
    try:
        if isinstance(octets, str):
            octets = octets.encode()
        elif "hex" in octets:
            octets = bytes.fromhex(octets["hex"])
        else:
            octets = base64.b64decode(octets["base64"], validate=True)
    except (TypeError, KeyError, ValueError) as fault:
        raise click.UsageError(f'{where}: raw is a text, {{"hex": "..."}} or {{"base64": "..."}} ({fault})') from None
    protocol = row.get("protocol", source)
    if protocol == "mqtt":  # as in the message table
        protocol = "mqtt" + str(row.get("version", "5.0")).replace(".0", "").replace(".", "")
    if protocol not in SOURCES:
        raise click.UsageError(
            f"{where}: protocol {protocol!r} is not one of {', '.join(SOURCES)}; --from says it for all"
        )
    key = row.get("routing_key")
    return Input(where, protocol, octets, key if isinstance(key, str) else None)


def _octets(name: str, form: str) -> bytes:
    """The contents of a file, of standard input or of the argument itself."""
    if name == "-":
        if sys.stdin.isatty():
            raise click.UsageError(
                "give a message as argument or on standard input: xxd -p packet.bin | wirefmt convert ..."
            )
        data = sys.stdin.buffer.read()
    elif form == "raw" or os.path.exists(name):
        with open(name, "rb") as file:
            data = file.read()
    else:
        data = name.encode()
    if form == "raw":
        return data
    try:
        if form == "base64":
            return base64.b64decode(b"".join(data.split()), validate=True)
        return bytes.fromhex(data.decode().lower().translate(str.maketrans("", "", ":-,_")).replace("0x", ""))
    except (ValueError, binascii.Error) as fault:
        known = {"hex": "hexadecimal digits", "base64": "base64"}[form]
        raise click.UsageError(
            f"{_shown(name)} is neither {known} nor a file of it ({fault}); --input sets the form: {'|'.join(INPUTS)}"
        ) from None


def _message_of_frame(octets: bytes) -> bytes:
    """The payload, if it is one whole transfer frame."""
    from wirefmt import amqp10
    from wirefmt.errors import DecodeError

    if len(octets) >= 8 and int.from_bytes(octets[:4]) == len(octets) and octets[4] >= 2 and octets[5] == 0:
        try:
            frame = amqp10.decode(octets)
        except DecodeError as fault:
            raise BadMessage(f"{fault}; {_HINTS['amqp10']}") from None
        if not isinstance(frame, amqp10.Transfer) or frame.more:
            raise BadMessage(f"not a frame with a whole message; {_HINTS['amqp10']}")
        return frame.payload_bytes()
    return octets


def _shown(name: str) -> str:
    """A name or text, short enough for an error in one line."""
    if name == "-" or os.path.exists(name):
        return "standard input" if name == "-" else name
    return repr(name) if len(name) <= 40 else repr(name[:37] + "...")
