"""The arrows of docs/design.md that neither the compiler nor the import system keeps: the kernel knows no protocol, protocols
do not know each other, captures know protocols by the registry alone, every package has rooms of the same names; spark/ and
the command line use public names only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from lib.compiled import NAMES
from lib.paths import ROOT
from wirefmt.protocols import PROTOCOLS

SRC = ROOT / "src"
PACKAGE = SRC / "wirefmt"
SHARED = {
    "wirefmt._core", "wirefmt.errors", "wirefmt.framing", "wirefmt.signatures", "wirefmt.spec", "wirefmt.strictness",
}  # fmt: skip
#: Rooms of a codec: every one has the first, and no other names than these.
EVERY_CODEC = {"table", "columns", "parse", "objects", "rows", "batch", "probe"}
SOME_CODECS = {
    "detail", "tags", "cells", "channels", "links", "encode_batch", "pending", "content", "stream", "properties",
    "composites", "messages", "values", "text", "types", "scalars", "write", "methods", "headers", "bodies", "json",
    "fastjson", "json_header", "fields", "stored", "slots", "shapes", "secrets", "message", "commands", "frames",
    "topics", "fast", "deliveries", "arrivals", "connection",
}  # fmt: skip


def code_of(path: Path) -> str:
    """Without comments, strings and docstrings."""
    text = re.sub(r'"""(?:.|\n)*?"""', '""', path.read_text())
    return re.sub(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#.*", '""', text)


def sources_of(module: str) -> list[Path]:
    """The page of a compiled module, its header, its rooms and its header-only leaves."""
    folder = PACKAGE / "_core" if module == "wirefmt._core" else PACKAGE / module.split(".")[1]
    pages = SRC / module.replace(".", "/")
    found = [pages.with_suffix(".pyx"), pages.with_suffix(".pxd"), *folder.glob("*.pxi"), *folder.glob("*.pxd")]
    return sorted({path for path in found if path.exists() and path.name != "__init__.pxd"})


def used_by(module: str) -> set[str]:
    """What of wirefmt a compiled module names in its imports and cimports, as package or module: wirefmt.mqtt, wirefmt._core."""
    code = "\n".join(map(code_of, sources_of(module)))
    return {
        ".".join(name.split(".")[:2]) for name in re.findall(r"^\s*(?:from|import|cimport) (wirefmt[\w.]*)", code, re.M)
    }


ALLOWED = {
    "wirefmt._core": SHARED,
    **{row.codec: SHARED | {f"wirefmt.{row.name}"} for row in PROTOCOLS},
    "wirefmt.capture._engine": SHARED | {"wirefmt.capture", "wirefmt.protocols"},
    "wirefmt.insight._engine": SHARED | {"wirefmt.insight", "wirefmt.protocols"},
    "wirefmt.convert._engine": SHARED | {"wirefmt.convert", "wirefmt.mqtt", "wirefmt.amqp091", "wirefmt.amqp10"},
}


@pytest.mark.parametrize("module", NAMES)
def test_a_compiled_module_uses_only_what_is_below(module: str) -> None:
    assert "wirefmt._core" in used_by(module), "the check reads nothing"
    assert used_by(module) <= ALLOWED[module]


def test_the_kernel_names_no_protocol() -> None:
    names = "|".join({row.name.rstrip("0123456789") for row in PROTOCOLS})
    for path in sources_of("wirefmt._core"):
        found = re.findall(rf"\b\w*(?:{names})\w*\b", code_of(path), re.I)
        assert not found, f"{path.name}: {found}"


def test_every_room_is_on_its_page() -> None:
    for module in NAMES:
        pages = "".join(path.read_text() for path in sources_of(module) if path.suffix != ".pxi")
        listed = [Path(name).stem for name in re.findall(r'^include "([\w/]+\.pxi)"', pages, re.M)]
        assert sorted(listed) == sorted(p.stem for p in sources_of(module) if p.suffix == ".pxi"), module


#: Rooms that use a later room of their page. Cython needs only structs and classes above what names them, so functions may
#: call each other both ways. Every other room uses only rooms above it; the kernel and captures have no exception.
LATER: dict[str, dict[str, set[str]]] = {
    "wirefmt.mqtt._codec": {"objects": {"stream"}},
    "wirefmt.amqp10._codec": {
        "values": {"composites"},
        "objects": {"messages", "stream"},
        "messages": {"stream"},
        "connection": {"links"},
    },
    "wirefmt.rocketmq._codec": {"fastjson": {"fields"}},
    "wirefmt.nsq._codec": {"message": {"objects", "frames"}},
    "wirefmt.convert._engine": {
        "interpret": {"read"},
        "learn": {"container"},
        "container": {"delivery", "objects"},
    },
}


def names_of_rooms(module: str) -> tuple[list[str], dict[str, str]]:
    """The rooms of a page in their order, and the code of each. Rooms that the header includes are above all of them."""
    page = SRC / f"{module.replace('.', '/')}.pyx"
    names = re.findall(r'^include "([\w/]+\.pxi)"', page.read_text(), re.M)
    return [Path(name).stem for name in names], {Path(name).stem: code_of(page.parent / name) for name in names}


def headers_of(module: str) -> list[Path]:
    """The header of a page, and what it includes."""
    header = SRC / f"{module.replace('.', '/')}.pxd"
    if not header.exists():
        return []
    return [
        header,
        *(header.parent / name for name in re.findall(r'^include "([\w/]+\.pxi)"', header.read_text(), re.M)),
    ]


def defined(code: str) -> set[str]:
    """Functions, classes, structs and variables of a room. A class without a body is declared only."""
    patterns = (
        r"^(?:cdef |ctypedef )?(?:class|struct|union) (\w+).*:",
        r"^(?:cdef|def) [^\n(=:]*?(\w+)\(.*",
        r"^cdef (?!class |struct |enum)[\w\[\], .*]*?(\w+)(?: = .*)?$",
        r"^([A-Za-z]\w*) = ",
    )
    return {name for pattern in patterns for name in re.findall(pattern, code, re.M)}


def used(code: str) -> set[str]:
    """Names that a room uses: not those of its members and methods, nor attributes."""
    own = set(re.findall(r"^ +(?:cdef|cpdef|def) [^\n(=]*?(\w+)(?:\(| =|\s*$)", code, re.M))
    return set(re.findall(r"(?<![.\w])[A-Za-z]\w*", code)) - own


@pytest.mark.parametrize("module", NAMES)
def test_a_room_uses_only_rooms_above_it(module: str) -> None:
    rooms, code = names_of_rooms(module)
    declared = set(re.findall(r"\w+", "".join(map(code_of, headers_of(module)))))
    found: dict[str, set[str]] = {}
    for at, room in enumerate(rooms):
        declared |= set(re.findall(r"^cdef class (\w+)(?:\(\w+\))?$", code[room], re.M)) | defined(code[room])
        names = used(code[room]) - declared
        for later in rooms[at + 1 :]:
            if names & defined(code[later]):
                found.setdefault(room, set()).add(later)
    assert rooms
    assert found == LATER.get(module, {})


@pytest.mark.parametrize("name", [row.name for row in PROTOCOLS])
def test_packages_have_one_shape(name: str) -> None:
    rooms = {path.stem for path in (PACKAGE / name).glob("*.pxi")}
    assert rooms >= EVERY_CODEC, EVERY_CODEC - rooms
    assert rooms <= EVERY_CODEC | SOME_CODECS, rooms - EVERY_CODEC - SOME_CODECS
    for file in ("__init__.py", "spec.py", "_codec.pyx", "_codec.pxd", "_codec.pyi"):
        assert (PACKAGE / name / file).exists(), file


@pytest.mark.parametrize("name", [row.name for row in PROTOCOLS])
def test_a_protocol_is_loaded_alone(name: str) -> None:
    code = f"import sys, wirefmt.{name}; print(*(m for m in sys.modules if m.startswith('wirefmt')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    others = {f"wirefmt.{row.name}" for row in PROTOCOLS if row.name != name} | {"wirefmt.capture", "wirefmt.convert"}
    assert not [m for m in loaded if ".".join(m.split(".")[:2]) in others]


def test_only_faults_raises_decode_errors() -> None:
    """faults.pxi turns a Fault into an exception; no other room makes one."""
    for path in (p for module in NAMES for p in sources_of(module) if p.name != "faults.pxi"):
        wrong = re.findall(r"\braise (?:DecodeError|Truncated|Malformed|LimitExceeded|Unsupported)\b", code_of(path))
        assert not wrong, f"{path}: {wrong}"


def test_bytes_come_in_and_views_go_out_in_one_way() -> None:
    """What is read is bytes or a copy: only `buffers` (take_block, take_input, input_head) and rooms that write see other
    buffers. PyBuffer_FillInfo within __getbuffer__ leaks a reference to None, which `fill_view` releases first."""
    rooms = {str(p.relative_to(PACKAGE)): p for module in NAMES for p in sources_of(module)}
    takers = {name for name, path in rooms.items() if "PyObject_GetBuffer(" in code_of(path)}
    writers = {"_core/writer.pxi", "amqp091/values.pxi", "amqp10/scalars.pxi"}
    assert takers == writers | {"_core/buffers.pxi"}
    assert [name for name, path in rooms.items() if "PyBuffer_FillInfo(" in path.read_text()] == [
        "_core/objects_head.pxi"
    ]
    for name, path in rooms.items():
        assert not re.search(r"\b(?:u?int\d+_t|char|double|object)\[:", code_of(path)), f"{name}: a typed memoryview"


# ---- modules of Python


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
                base = list(path.relative_to(SRC).parts[: -node.level]) if PACKAGE in path.parents else ["."]
                module = ".".join([*base, module] if module else base)
            found |= {f"{module}.{a.name}" for a in node.names}
    return {name for name in found if name == "wirefmt" or name.startswith("wirefmt.")}


# ---- circles


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


PATHS = {module_of(path): path for path in modules(PACKAGE)}


def arrows_of(path: Path) -> dict[str, bool]:
    """The modules that a module imports, wherever in the file. True: for annotations only. What a package loads on first use does
    not count."""
    found: dict[str, bool] = {}

    def look(node: ast.AST, *, typed: bool) -> None:
        for inner in ast.iter_child_nodes(node):
            names: list[str] = []
            if isinstance(inner, ast.Import):
                names = [each.name for each in inner.names]
            elif isinstance(inner, ast.ImportFrom):
                names = [f"{inner.module}.{each.name}" for each in inner.names]
            for name in names:
                while name and name not in PATHS:
                    name = name.rpartition(".")[0]
                if name:
                    found[name] = found.get(name, True) and typed
            look(inner, typed=typed or (isinstance(inner, ast.If) and ast.unparse(inner.test) == "TYPE_CHECKING"))

    if path.name != "__init__.py":
        look(ast.parse(path.read_text()), typed=False)
    found.pop(module_of(path), None)
    return found


ARROWS = {module: arrows_of(path) for module, path in PATHS.items()}
FIRM = {module: {name for name, typed in arrows.items() if not typed} for module, arrows in ARROWS.items()}


def below(module: str) -> set[str]:
    """What a module loads, in the end."""
    found: set[str] = set()
    left = [module]
    while left:
        more = FIRM[left.pop()] - found
        found |= more
        left += more
    return found


#: Module -> its parents: those above it that it names, in annotations.
PARENTS = {
    module: parents
    for module, arrows in ARROWS.items()
    if (parents := {name for name, typed in arrows.items() if typed and module in below(name)})
}


def test_circles_are_parents_in_annotations() -> None:
    """Without the annotations in which a part names what it is a part of, imports have no circle."""
    TopologicalSorter(FIRM).prepare()  # raises CycleError
    TopologicalSorter(
        {module: arrows.keys() - PARENTS.get(module, set()) for module, arrows in ARROWS.items()}
    ).prepare()
    assert "wirefmt.broker.limits" in PARENTS, "the check finds nothing"


#: Parts that still use underscored names of their parents. Channels are public, and so is the type of their `connection`.
CUT = {"wirefmt.amqp091.client_channel", "wirefmt.amqp091.server_channel"}


def private_names(text: str) -> set[str]:
    """Underscored names that a module gives to its functions, methods and attributes."""
    return set(re.findall(r"(?:def |self\.)(_[a-z]\w*)", text))


@pytest.mark.parametrize("module", sorted(PARENTS))
def test_a_part_uses_public_names_of_its_parents(module: str) -> None:
    """What else it may ask for a Protocol says, and then it does not name them."""
    text = PATHS[module].read_text()
    used = {
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls", "super()")
    }
    found = used & {name for parent in PARENTS[module] for name in private_names(PATHS[parent].read_text())}
    assert bool(found) == (module in CUT), found


BELOW = {"_core", "batch", "errors", "framing", "loading", "spec", "strictness"}
NAMED = {row.name for row in PROTOCOLS}
#: layer -> what it may import; a layer may always import itself
LAYERS = {
    # the packages as types only
    "__init__": {
        "errors",
        "framing",
        "loading",
        "protocols",
        "strictness",
        "broker",
        "capture",
        "connection",
        "convert",
    }
    | NAMED,
    "errors": set[str](),
    "loading": set[str](),
    "framing": set[str](),
    "strictness": set[str](),
    "signatures": {"strictness"},
    "protocols": {"framing"},
    "sql": set[str](),
    "secrets": {"_core"},
    "batch": {"_core"},
    "decoder": {"_core"},
    "spec": {"protocols", "errors"},
    "connection": {"_core", "errors"},
    **dict.fromkeys(NAMED, BELOW | {"connection"}),
    "rocketmq": BELOW | {"connection", "sql"},
    "convert": BELOW | {"mqtt", "amqp091", "amqp10"},
    "broker": {"errors", "loading", "connection", "convert", "protocols", "sql", "__version__"} | NAMED,
    "insight": BELOW | {"protocols"},
    "capture": BELOW | {"protocols", "insight"},
    "cli": (BELOW - {"_core"})
    | NAMED
    | {"broker", "capture", "connection", "convert", "insight", "protocols", "secrets", "__version__"},
}


@pytest.mark.parametrize("path", modules(PACKAGE), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_is_below(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert layer in LAYERS, f"which layer is {layer} in? Say so in this test and in docs/design.md"
    for name in imports_of(path):
        target = [*name.split("."), "wirefmt"][1]
        assert target == layer or target in LAYERS[layer], f"{path.name} imports {name}"


AMQP = {"credentials", "limits", "messages", "permissions", "queues", "requests", "routing", "shares"}

#: Module or package of broker/ -> what it may import of broker/.
BROKER: dict[str, set[str]] = {
    **{name: set() for name in ("bindings", "credentials", "history", "listeners", "permissions", "publishing")},
    **{name: set() for name in ("parts", "recording", "shares", "topics", "views")},
    "messages": {"shares"},
    "waiting": {"messages"},
    "selectors": {"messages"},
    "limits": {"routing", "shares"},  # routing as a type only
    "queues": {"limits", "messages", "routing", "shares", "waiting"},  # likewise
    "routing": {"bindings", "history", "limits", "messages", "queues", "shares"},
    "requests": {"limits", "permissions"},
    "amqp091": AMQP | {"bindings"},
    "amqp10": AMQP | {"selectors", "waiting"},
    "mqtt": {"limits", "messages", "parts", "permissions", "requests", "routing", "shares", "topics"},
    "nsq": {"permissions", "requests", "shares"},
    "phpmq": {"history", "shares"},
    "rocketmq": {"parts", "permissions", "requests", "shares"},
    "faults": {"embedded", "limits", "listeners", "messages", "views"} | NAMED,  # embedded as a type only
    "embedded": {
        "credentials",
        "faults",
        "history",
        "limits",
        "listeners",
        "messages",
        "permissions",
        "publishing",
        "routing",
        "views",
    }
    | NAMED,
    "thread": {"embedded", "faults", "views"},
    "pytest_plugin": {"AsyncRunning", "Options", "Running", "running", "running_async"},
    "__init__": {"embedded", "thread", "views"},
}


@pytest.mark.parametrize("path", modules(PACKAGE / "broker"), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_of_the_broker_imports_only_what_is_below(path: Path) -> None:
    """No protocol's broker knows another's, and the core knows none of them."""
    name = path.relative_to(PACKAGE / "broker").parts[0].removesuffix(".py")
    assert name in BROKER, f"what does {name} import? Say so in this test and in docs/design.md"
    found = {each.split(".")[2] for each in imports_of(path) if each.startswith("wirefmt.broker.")}
    assert found <= BROKER[name] | {name}


#: Modules of the packages of broker/. Each imports only those before it.
PARTS = {
    "mqtt": "values options memory rights retained outgoing walks figures subscriptions publishing sessions broker __init__",
    "rocketmq": "options answers clients waits log selecting locks groups offsets transactions sending pulling reviving popping "
    "relaying names broker __init__",
}


@pytest.mark.parametrize("package", PARTS)
def test_a_part_of_a_broker_knows_those_before_it(package: str) -> None:
    """By their public names: a class is not cut into pieces that know each other's state."""
    order = PARTS[package].split()
    paths = modules(PACKAGE / "broker" / package)
    assert {path.stem for path in paths} == set(order)
    for path in paths:
        found = {each.split(".")[3] for each in imports_of(path) if each.startswith(f"wirefmt.broker.{package}.")}
        assert found <= set(order[: order.index(path.stem)]), path.stem
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
                assert not re.match("_[a-z]", node.attr), f"{path.name}:{node.lineno}: {node.attr}"


@pytest.mark.parametrize(
    "path", modules(ROOT / "spark") + modules(PACKAGE / "cli") + modules(ROOT / "bench"), ids=lambda p: p.name
)
def test_upper_floors_use_public_names_only(path: Path) -> None:
    for name in imports_of(path):
        private = [part for part in name.split(".") if part.startswith("_") and part != "__version__"]
        assert not private, f"{path.name} imports {name}"


def test_number_of_modules_seen() -> None:
    assert len(modules(PACKAGE)) >= 40
    assert imports_of(PACKAGE / "mqtt" / "__init__.py")
