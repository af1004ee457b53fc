"""The arrows of docs/design.md: a room uses only what stands above it; protocols do not know each other;
`spec <- _core <- {faces, capture} <- {cli, spark}`; spark/ and the command line use public names only."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from lib.paths import ROOT

PACKAGE = ROOT / "src" / "wirefmt"
CORE = PACKAGE / "_core"

#: A protocol's rooms begin with its name.
PROTOCOLS = ("mqtt", "amqp091", "amqp10", "rocketmq", "nsq", "phpmq")


# ---- rooms of the core


def rooms() -> list[str]:
    """The contents page: included rooms, in order."""
    return re.findall(r'^include "_core/(\w+)\.pxi"', (PACKAGE / "_core.pyx").read_text(), re.M)


def leaves() -> list[str]:
    return sorted(p.stem for p in CORE.glob("*.pxd") if p.stem != "__init__")


@cache
def text_of(room: str) -> str:
    path = CORE / f"{room}.pxi"
    return (path if path.exists() else CORE / f"{room}.pxd").read_text()


def code_of(room: str) -> str:
    """Without comments, strings and docstrings."""
    text = re.sub(r'"""(?:.|\n)*?"""', '""', text_of(room))
    return "\n".join(
        re.sub(r"#.*", "", re.sub(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", '""', line))
        for line in text.split("\n")
    )


@cache
def defined_in(room: str) -> frozenset[str]:
    """Names that a room gives to others: functions, classes, structs, enums and their values, module variables."""
    code = code_of(room)
    names = set(re.findall(r"^(?:cpdef|cdef) (?:inline )?(?:[\w.\[\], *]+?[ *])?\**(\w+)\(", code, re.M))
    names |= set(re.findall(r"^(?:cdef )?(?:class|struct|union|packed struct|enum) (\w+)", code, re.M))
    names |= set(re.findall(r"^def (\w+)", code, re.M))
    names |= set(re.findall(r"^ctypedef .*?(\w+)(?:\)\(.*)?$", code, re.M))
    names |= set(re.findall(r"^(?:cdef [\w ]+\**)?\b(\w+) = ", code, re.M))
    for block in re.findall(r"^cdef enum[^\n]*:[ \t]*\n((?:[ \t]+[^\n]*\n|\n)+)", code, re.M):
        names |= set(re.findall(r"^\s+(\w+)", block, re.M))
    return frozenset(names)


@cache
def words_of(room: str) -> frozenset[str]:
    """Identifiers a room uses as names of their own: not members, not the names of its methods."""
    methods = re.findall(r"^[ \t]+(?:cp?def|def) (?:[^\n(]*[ *])?(\w+)\(", code_of(room), re.M)
    return frozenset(re.findall(r"(?<![\w.])[A-Za-z_]\w*", code_of(room))) - frozenset(methods)


def protocol_of(room: str) -> str | None:
    return next((p for p in PROTOCOLS if room == p or room.startswith(p + "_")), None)


def test_every_file_is_in_the_contents_page() -> None:
    assert sorted(rooms()) == sorted(p.stem for p in CORE.glob("*.pxi"))
    page = (PACKAGE / "_core.pyx").read_text()
    text = page + "".join(text_of(r) for r in rooms() + leaves())
    for leaf in leaves():
        assert f"wirefmt._core.{leaf} cimport" in text, f"no room uses the leaf {leaf}"
    assert len(page.splitlines()) < 240


def test_the_checks_below_see_names() -> None:
    """So that none of them passes because it reads nothing."""
    assert {"TopicIndex", "match_topic", "TOPIC_EMPTY", "check_utf8", "Span"} <= set().union(
        *(defined_in(r) for r in rooms() + leaves())
    )
    assert "check_utf8" in words_of("mqtt_topics")


@pytest.mark.parametrize("room", rooms())
def test_a_room_uses_only_rooms_above_it(room: str) -> None:
    order = rooms()
    below = order[order.index(room) + 1 :]
    above = set().union(defined_in(room), *(defined_in(r) for r in order[: order.index(room)] + leaves()))
    for other in below:
        wrong = (words_of(room) & defined_in(other)) - above
        assert not wrong, f"{room} uses {sorted(wrong)} of {other}, which stands below it"


@pytest.mark.parametrize("room", rooms())
def test_protocols_do_not_know_each_other(room: str) -> None:
    mine = protocol_of(room)
    for other in rooms():
        theirs = protocol_of(other)
        if mine and theirs and mine != theirs:
            assert not words_of(room) & defined_in(other), f"{room} uses {other}"


@pytest.mark.parametrize("room", [r for r in rooms() if r in ("pcapfile", "packets", "reassembly")])
def test_captures_know_no_protocol_and_no_column(room: str) -> None:
    for other in rooms():
        if protocol_of(other) or other in ("table", "table_columns"):
            common = words_of(room) & (defined_in(other) - defined_in(room))
            assert not common, f"{room} uses {sorted(common)} of {other}"


@pytest.mark.parametrize("leaf", leaves())
def test_a_leaf_uses_only_leaves(leaf: str) -> None:
    used = re.findall(r"from wirefmt\._core\.(\w+) cimport", text_of(leaf))
    assert set(used) <= set(leaves())


@pytest.mark.parametrize("room", rooms() + leaves())
def test_a_room_says_what_it_uses(room: str) -> None:
    """`Uses:` in the header comment names rooms and leaves above, and `nothing` where there are none."""
    text = text_of(room)
    if text.startswith("# GENERATED") or text.count("\n") <= 1:
        return
    header = re.match(r"(?:#[^\n]*\n)+", text)
    assert header, f"{room} has no header comment"
    said = re.search(r"Uses: ((?:[^.]|\.(?!\s))+)\.(?:\s|$)", re.sub(r"\n# ?", " ", header[0]))
    assert said, f"{room} has no `Uses:` line"
    if said[1].startswith("nothing"):
        return
    names = re.findall(r"\w+", re.sub(r"\([^)]*\)", "", said[1]))
    order = rooms()
    allowed = set(leaves()) | (set(order[: order.index(room)]) if room in order else set()) | {"and"}
    assert set(names) <= allowed, f"{room} names {sorted(set(names) - allowed)}"


def test_only_faults_raises_decode_errors() -> None:
    """faults.pxi turns a Fault into an exception; no other room makes one."""
    children = ("DecodeError", "Truncated", "Malformed", "LimitExceeded", "Unsupported")
    for room in rooms():
        if room != "faults":
            wrong = re.findall(rf"\braise (?:{'|'.join(children)})\b", code_of(room))
            assert not wrong, f"{room}: {wrong}"


# ---- modules


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    """Dotted names of wirefmt that a module imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = list(path.relative_to(PACKAGE.parent).parts[: -node.level]) if PACKAGE in path.parents else ["."]
                module = ".".join([*base, module] if module else base)
            found |= {f"{module}.{a.name}" for a in node.names}
    return {name for name in found if name == "wirefmt" or name.startswith("wirefmt.")}


def floor_of(path: Path) -> str:
    """Which floor of the house a module of src/wirefmt is on."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


#: floor -> what it may import; a floor may always import itself
ALLOWED = {
    "__init__": {"amqp091", "amqp10", "capture", "errors", "framing", "mqtt", "nsq", "phpmq", "rocketmq", "strictness"},
    "errors": set[str](),
    "framing": set[str](),
    "strictness": {"spec"},
    "secrets": {"_core"},
    "spec": set[str](),
    "mqtt": {"_core", "errors", "framing", "spec", "strictness"},
    "amqp091": {"_core", "errors", "framing", "spec", "strictness"},
    "rocketmq": {"_core", "errors", "framing", "spec", "strictness"},
    "amqp10": {"_core", "errors", "framing", "spec", "strictness"},
    "nsq": {"_core", "errors", "framing", "spec", "strictness"},
    "phpmq": {"_core", "errors", "framing", "spec", "strictness"},
    "convert": {"_core", "amqp10", "amqp091", "errors", "mqtt", "spec"},
    "capture": {"_core", "errors", "framing", "spec", "strictness"},
    "cli": {
        "amqp091",
        "amqp10",
        "capture",
        "convert",
        "errors",
        "framing",
        "mqtt",
        "secrets",
        "spec",
        "strictness",
        "__version__",
    },
}


@pytest.mark.parametrize("path", modules(PACKAGE), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_is_below(path: Path) -> None:
    floor = floor_of(path)
    assert floor in ALLOWED, f"which floor is {floor} on? Say so in this test and in docs/design.md"
    for name in imports_of(path):
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 else "wirefmt"
        assert target == floor or target in ALLOWED[floor], f"{path.name} imports {name}"


def test_the_core_imports_only_what_is_below() -> None:
    for room in [*rooms(), *leaves()]:
        for floor in re.findall(r"^\s*(?:from|import) wirefmt\.(\w+)[\w.]* import", code_of(room), re.M):
            assert floor in {"errors", "framing", "spec", "strictness"}, f"{room} imports wirefmt.{floor}"


@pytest.mark.parametrize(
    "path", modules(ROOT / "spark") + modules(PACKAGE / "cli") + modules(ROOT / "bench"), ids=lambda p: p.name
)
def test_upper_floors_use_public_names_only(path: Path) -> None:
    for name in imports_of(path):
        private = [part for part in name.split(".") if part.startswith("_") and part != "__version__"]
        assert not private, f"{path.name} imports {name}"


def test_number_of_modules_seen() -> None:
    assert len(modules(PACKAGE)) >= 4
    assert imports_of(PACKAGE / "mqtt.py")


def test_views_are_filled_in_one_place() -> None:
    """PyBuffer_FillInfo within __getbuffer__ leaks a reference to None, which `fill_view` lets go first."""
    assert [room for room in rooms() if "PyBuffer_FillInfo" in text_of(room)] == ["buffers"]


#: Rooms that take a buffer to write what is in it: one copy, nothing is read twice.
WRITERS = {"writer", "amqp091_values", "amqp10_messages", "amqp10_scalars"}


def test_octets_come_in_one_way() -> None:
    """What is read is bytes or a copy: only `buffers` (take_block, take_input, input_head) and writers see other buffers."""
    assert {room for room in rooms() if "PyObject_GetBuffer(" in code_of(room)} == WRITERS | {"buffers"}
    for room in rooms():
        assert not re.search(r"\b(?:u?int\d+_t|char|double|object)\[:", code_of(room)), f"{room}: a typed memoryview"
