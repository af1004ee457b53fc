"""Codes of the specifications are written once, in spec.py: what uses them names the enums that are generated from it."""

from __future__ import annotations

import ast
import pickle
import re
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from lib.paths import ROOT
from wirefmt import amqp091, amqp10, mqtt, nsq, rocketmq

PACKAGE = ROOT / "src" / "wirefmt"
ENUMS: list[type[Enum]] = [
    mqtt.ReasonCode,
    mqtt.ReturnCode,
    amqp091.ReplyCode,
    amqp10.ErrorCondition,
    amqp10.SaslCode,
    nsq.ErrorCode,
    rocketmq.RequestCode,
    rocketmq.ResponseCode,
]
NAMES = {(name, member.value) for enum in ENUMS for name, member in enum.__members__.items()}
TEXTS = {str(member.value) for enum in ENUMS if issubclass(enum, StrEnum) for member in enum}
#: What carries a code: parameters, attributes and variables; and methods that take one after an event.
CARRIERS = {"code", "reply", "reason_code", "return_code", "condition"}
METHODS = {"refuse", "respond", "request", "acknowledge", "return_message", "Refused", "Refusal", "Answer", "Violation"}
WRITTEN = {"spec.py", "codes.py", "columns.py", "detail.py"}  # the tables, and texts about them
FILES = [
    path
    for folder in ("mqtt", "amqp091", "amqp10", "nsq", "rocketmq", "phpmq", "broker", "cli")
    for path in sorted((PACKAGE / folder).rglob("*.py"))
    if path.name not in WRITTEN
]


def number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value != 0


def named(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def by_hand(tree: ast.AST) -> list[tuple[int, str]]:
    """Lines that repeat a code of a table, or use its number."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text in TEXTS:
                found.append((node.lineno, text))
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=value))
            ) if (name.strip("_"), value) in NAMES:
                found.append((node.lineno, name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.AST() as value) if name in CARRIERS and number(
                value
            ):
                found.append((node.lineno, name))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]) if named(left) in CARRIERS:
                if number(right):
                    found.append((node.lineno, ast.unparse(node)))
            case ast.Match(subject=subject) if named(subject) in CARRIERS:
                found += [
                    (case.pattern.lineno, ast.unparse(case.pattern))
                    for case in node.cases
                    for part in ast.walk(case.pattern)
                    if isinstance(part, ast.MatchValue) and number(part.value)
                ]
            case ast.Call(func=func):
                given = [word.value for word in node.keywords if word.arg in CARRIERS]
                given += node.args if named(func) in METHODS else []
                found += [(node.lineno, ast.unparse(node)) for value in given if number(value)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_code_is_written_by_hand(path: Path) -> None:
    assert by_hand(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "TOPIC_NOT_EXIST: Final = 17",
        "_NOT_FOUND = 404",
        "code: int = 503",
        "raise RemoteProtocolError('', reply=501)",
        "if refused.code == 17: pass",
        "peer.refuse(event, 320, '')",
        "peer.request(40, header)",
        "Error(condition='amqp:not-found')",
        "code = 'E_INVALID'",
        "match request.code:\n case 220 | 221: pass",
    ],
)
def test_codes_by_hand_are_found(text: str) -> None:
    assert by_hand(ast.parse(text))


def test_rooms_use_the_generated_enums() -> None:
    rooms = [path for path in PACKAGE.rglob("*.px[di]") if path.name not in ("table.pxi", "columns.pxi")]
    for path in rooms:
        if path.parent.name in ("mqtt", "amqp091", "nsq", "rocketmq"):
            text = re.sub(r"#.*", "", path.read_text())
            assert not re.findall(r"\b(?:code|reply) (?:==|!=) [1-9]\d*|\b(?:reply|code)=[1-9]\d*", text), path.name


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_a_code_is_its_number_or_text(enum: type[Any]) -> None:
    for member in enum:
        assert member == member.value
        assert str(member) == f"{member}" == str(member.value)
        assert {member.value: 1}[member] == 1
        assert pickle.loads(pickle.dumps(member)) is member


def test_messages_take_codes() -> None:
    assert mqtt.Disconnect(reason_code=mqtt.ReasonCode.SESSION_TAKEN_OVER, version=5).encode() == b"\xe0\x01\x8e"
    assert amqp091.ChannelClose(
        channel=1, reply_code=amqp091.ReplyCode.NOT_FOUND, reply_text="", class_id=0, method_id=0
    ).encode() == bytes.fromhex("01 0001 0000000b 0014 0028 0194 00 0000 0000 ce")
    error = amqp10.Error(condition=amqp10.ErrorCondition.NOT_FOUND)
    assert error.condition == "amqp:not-found"
    assert b"amqp:not-found" in amqp10.Detach(handle=0, closed=True, error=error).encode()
    assert nsq.Error(data=f"{nsq.ErrorCode.E_INVALID} x".encode()).encode() == b"\0\0\0\x0f\0\0\0\x01E_INVALID x"
    request = rocketmq.RemotingCommand(code=rocketmq.RequestCode.HEART_BEAT, opaque=1)
    assert rocketmq.decode(request.encode()).name == "HEART_BEAT"
