"""Conversations of MQTT that mosquitto's own tests hold: packets in a notation of theirs, and what is answered.

They are read from a checkout of eclipse-mosquitto/mosquitto, which WIREFMT_MOSQUITTO names: none of its files is in this one.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from lib.mqtt_conversations import LIMITS, Conversation, Step, opening
from lib.wire import varint
from wirefmt import mqtt

CHECKOUT = os.environ.get("WIREFMT_MOSQUITTO", "")
#: A part of a packet: text in quotes, or a word.
PART = re.compile(r"'([^']*)'|(\S+)")
#: Numbers in decimal, by their first letter: how many octets they have.
WIDTHS = {"i": 1, "H": 2, "k": 2, "m": 2, "s": 2, "L": 4}


def octets_of(text: str) -> bytes:
    octets = b""
    for quoted, word in PART.findall(text):
        if not word:
            octets += quoted.encode()
        elif word[0] in WIDTHS:
            octets += int(word[1:]).to_bytes(WIDTHS[word[0]])
        elif word[0] in "vr":
            octets += varint(int(word[1:]))
        else:
            octets += bytes.fromhex(word)
    return octets


def conversations(role: str) -> list[Conversation]:
    """`server`: to be played against a server; `client`: against a client. Empty without a checkout."""
    folder = Path(CHECKOUT, "test", {"server": "broker", "client": "lib"}[role], "data")
    found = []
    for path in sorted(folder.glob("*.json")) if CHECKOUT else ():
        number = 0
        for group in json.loads(path.read_text(encoding="utf-8")):
            for case in group["tests"]:
                number += 1
                if not group.get("disable"):
                    found.append(conversation(role, f"{path.stem}-{number}", group, case))
    return found


def conversation(role: str, name: str, group: dict[str, Any], case: dict[str, Any]) -> Conversation:
    def told(key: str, default: Any) -> Any:
        return case.get(key, group.get(key, default))

    version: int = told("ver", 4)
    steps: list[Step] = []
    if role == "server":
        connect, connack = opening(f"{group['group']} {case['name']}", version)
        if told("connect", True):
            steps += [Step("send", connect), Step("expect", connack)]
    else:
        connect, _ = opening("fuzzish", version)
        if told("connect", True):
            steps.append(Step("expect", connect))
        if told("connack", True):
            steps.append(
                Step("send", mqtt.Connack(version=version, properties=LIMITS[2:] if version == 5 else ()).encode())
            )
    for message in [*group.get("group_msgs", ()), *case["msgs"]]:
        match message["type"]:
            case "send":
                steps.append(Step("send", octets_of(message["payload"])))
            case "recv":
                steps.append(Step("expect", octets_of(message["payload"])))
            case _:
                steps.append(Step("publish", message=message))
    stays = not told("expect_disconnect", True)
    return Conversation(
        f"{role}-{name}", version, tuple(steps), stays, told("clean_start", True), told("command", None)
    )
