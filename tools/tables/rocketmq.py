"""RocketMQ: the checks, and the names of codes sorted by code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import ModuleType

from tables.text import c_array, c_row, codes, faults, quoted


def named(name: str, codes: Mapping[int, str]) -> Iterable[str]:
    yield from c_array(
        f"RocketmqNamed rocketmq_{name}[]", (c_row(code, quoted(text)) for code, text in sorted(codes.items()))
    )


def rocketmq_table(spec: ModuleType) -> list[str]:
    requests = {row.code: row.name for row in spec.REQUEST_CODES}
    lines = codes("ROCKETMQ_CODE", ((row.name, row.code) for row in spec.REQUEST_CODES))
    lines += faults("rocketmq", spec)
    lines += [
        "",
        "",
        "cdef extern from *:",
        '    """',
        "    typedef struct { int code; const char *name; } RocketmqNamed;",
    ]
    lines += named("requests", requests)
    lines += named("versions", spec.VERSIONS)
    lines += c_array("char *const rocketmq_languages[]", map(quoted, spec.LANGUAGES.values()))
    lines += [
        '    """',
        "    ctypedef struct RocketmqNamed:",
        "        int code",
        "        const char* name",
        "    const RocketmqNamed* rocketmq_requests          # by code",
        "    const RocketmqNamed* rocketmq_versions",
        "    const CText* rocketmq_languages                 # by number",
        "",
        "",
        "cdef enum:",
        f"    ROCKETMQ_FRAME_MAX = {spec.FRAME_SIZE_MAX}",
        f"    ROCKETMQ_REQUESTS = {len(requests)}",
        f"    ROCKETMQ_VERSIONS = {len(spec.VERSIONS)}",
        f"    ROCKETMQ_LANGUAGES = {len(spec.LANGUAGES)}",
    ]
    return lines


# ------------------------------------------------------------------------------------------------ rocketmq/_classes.pyi

PYTHON_TYPES = {"string": "str", "int": "int", "long": "int", "boolean": "bool"}


def python_name(name: str) -> str:
    """producerGroup -> producer_group"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def python_type(type_name: str) -> str:
    """The type of a member of a JSON body."""
    if type_name.startswith("["):
        return f"tuple[{python_type(type_name[1:-1])}, ...]"
    if type_name.startswith("{"):
        key, value = type_name[1:-1].split(":", 1)
        return f"Mapping[{python_type(key)}, {python_type(value)}]"
    return PYTHON_TYPES.get(type_name, type_name)


def given_type(type_name: str) -> str:
    """The type of the constructor's argument."""
    return python_type(type_name).replace("tuple[", "Iterable[").replace(", ...]", "]")


def stub_class(
    name: str, base: str, own: list[tuple[str, str, str]], inherited: list[tuple[str, str, str]]
) -> list[str]:
    """Fields are (attribute, its type, type of the argument)."""
    every = own + inherited
    lines = ["", f"class {name}({base}):"]
    if not every:
        return [*lines, "    def __init__(self) -> None: ..."]
    given = [f"{name}: {kind}{' = None' if kind.endswith('None') else ''}" for name, _, kind in every]
    lines.append(f"    __match_args__ = ({', '.join(quoted(name) for name, _, _ in every)},)")
    lines.append(f"    def __init__(self, *, {', '.join(given)}) -> None: ...")
    for attribute, type_name, _ in own:
        lines += ["    @property", f"    def {attribute}(self) -> {type_name}: ..."]
    return lines


def header_fields(text: str) -> list[tuple[str, str, str]]:
    out = []
    for word in text.split():
        wire, kind = word.split(":")
        name = PYTHON_TYPES[kind.rstrip("?")] + (" | None" if kind.endswith("?") else "")
        out.append((python_name(wire), name, name))
    return out


def rocketmq_stub(spec: ModuleType) -> list[str]:
    """The classes that headers.pxi and json.pxi make of HEADERS and BODIES."""
    lines = ['"""The typed headers and JSON bodies of RocketMQ, which the codec makes of wirefmt.rocketmq.spec."""', ""]
    lines += ["from collections.abc import Iterable, Mapping", ""]
    lines += ["from wirefmt.rocketmq._codec import CommandCustomHeader, RemotingSerializable"]
    topic = header_fields(spec.TOPIC.removesuffix(spec.RPC))
    rpc = header_fields(spec.RPC)
    lines += stub_class("RpcRequestHeader", "CommandCustomHeader", rpc, [])
    lines += stub_class("TopicRequestHeader", "RpcRequestHeader", topic, rpc)
    bases = {
        "": ("CommandCustomHeader", []),
        spec.RPC: ("RpcRequestHeader", rpc),
        spec.TOPIC: ("TopicRequestHeader", topic + rpc),
    }
    for row in spec.HEADERS:
        base, inherited = bases[row.inherits]
        lines += stub_class(row.name, base, header_fields(row.fields), inherited)
    for row in spec.BODIES:
        members = [word.split(":", 1) for word in row.fields.split()]
        lines += stub_class(
            row.name,
            "RemotingSerializable",
            [
                (python_name(name), f"{python_type(kind)} | None", f"{given_type(kind)} | None")
                for name, kind in members
            ],
            [],
        )
    return lines
