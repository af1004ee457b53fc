"""Build the compiled modules with planted faults, all in one build and all asleep: `WIREFMT_MUTANT=17` wakes number 17.

Cython parses the sources; before anything else happens to its trees, an expression of a chosen site becomes
`changed if MUTANT(17) else original`, and a call that frees becomes `if not MUTANT(17): call`. mutant.h has `MUTANT`;
it notes besides which sites a run reaches.

Five kinds of site:

comparison  `<` is `<=`, `>` is `>=` and the reverse; `==` is `!=`
condition   the right side of `and` and `or` is left out
bits        a constant operand of `&`, `|`, `^` has its lowest set bit cleared or its lowest bit flipped; one of `<<` and
            `>>` is one larger
number      a constant operand of `+` or `-` is one larger
free        a call of free() and its like is left out

A site's identifier comes from its function and the text of its line, not from its room or number: it stays the same when
code moves. Of the sites of each kind a share is planted, by identifier (`SHARE`), so that the choice stays as
well.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from Cython.Build import cythonize
from Cython.Compiler import ExprNodes, Nodes, Pipeline
from Cython.Compiler.Visitor import TreeVisitor
from setuptools import Extension

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutants"
#: One site in this many is planted.
SHARE = {"comparison": 40, "condition": 40, "bits": 8, "number": 16, "free": 2}
#: Rooms that tools/gen_tables.py writes.
GENERATED = re.compile(r"(?<!_core/)table\.pxi$|(columns|methods|_table)\.pxi$")
#: The part of a room's path before its name.
PACKAGE = "src/wirefmt/"
#: Called here, because the first call of sysconfig is not thread-safe.
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
INCLUDE = sysconfig.get_path("include")
FREES = re.compile(r"free|free_\w+|\w+_(clear|drop\w*|free)|PyBuffer_Release|Py_X?DECREF")
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
#: Nodes with their own scope, which must not be copied.
SCOPES = (ExprNodes.LambdaNode, ExprNodes.ScopedExprNode, ExprNodes.YieldExprNode)


class Site(NamedTuple):
    identifier: str
    room: str
    function: str
    line: int
    kind: str
    change: str  # as text
    text: str  # of its line


def clone(node: Any) -> Any:
    """A fresh copy of a tree as it was parsed."""
    if isinstance(node, list):
        return [clone(item) for item in node]
    if not isinstance(node, Nodes.Node):
        return node
    if isinstance(node, SCOPES):
        raise ValueError("has a scope")
    new = copy.copy(node)
    for name in node.child_attrs or ():
        if getattr(node, name, None) is not None:
            setattr(new, name, clone(getattr(node, name)))
    return new


def is_truth(node: Any) -> bool:
    """Is it true or false in C, whatever its parts are?"""
    if isinstance(node, ExprNodes.BoolBinopNode):
        return is_truth(node.operand1) and is_truth(node.operand2)
    if isinstance(node, ExprNodes.CondExprNode):
        return is_truth(node.true_val) and is_truth(node.false_val)
    return isinstance(node, ExprNodes.PrimaryCmpNode | ExprNodes.NotNode)


def truth(node: Any) -> Any:
    """`not not node`: with C's type, so that both branches of a choice have the same type."""
    return ExprNodes.NotNode(node.pos, operand=ExprNodes.NotNode(node.pos, operand=node))


class Constant(ExprNodes.AtomicExprNode):
    """One of two literals, `changed` while its fault is awake. C chooses, so that the type in C is that of the literal."""

    def __init__(self, operand: Any, changed: Any, number: int) -> None:
        super().__init__(operand.pos, type=operand.type)
        literals = [node.get_constant_c_result_code() for node in (changed, operand)]
        self.code = f"(MUTANT({number}) ? {literals[0]} : {literals[1]})"

    def calculate_constant_result(self) -> None:
        """Neither is known to Cython."""

    def infer_type(self, env: Any) -> Any:
        return self.type

    def analyse_types(self, env: Any) -> Any:
        return self

    def calculate_result_code(self) -> str:
        return self.code

    def generate_result_code(self, code: Any) -> None:
        """Nothing before the expression it is part of."""


class Planter(TreeVisitor):
    """Plants faults into the functions of a tree, and lists them."""

    def __init__(self) -> None:
        super().__init__()
        self.sites: list[Site] = []
        self.seen: dict[str, int] = {}
        self.numbers: dict[tuple[Any, ...], int | None] = {}  # by position
        self.all: dict[str, int] = dict.fromkeys(SHARE, 0)
        self.lines: dict[str, list[str]] = {}
        self.names: list[str] = []

    def __call__(self, tree: Any) -> Any:
        self.visit(tree)
        return tree

    # ---- where we are

    def visit_Node(self, node: Any) -> None:
        self.visit_children(node)

    def visit_children(self, node: Any) -> None:
        """Process children first; then replace some of them."""
        for name in node.child_attrs or ():
            child = getattr(node, name, None)
            if isinstance(child, list):
                for i, item in enumerate(child):
                    if isinstance(item, Nodes.Node):
                        self.visit(item)
                        child[i] = self.replaced(item)
            elif isinstance(child, Nodes.Node):
                self.visit(child)
                setattr(node, name, self.replaced(child))

    def named(self, name: str, visit: Any, node: Any) -> None:
        self.names.append(name)
        visit(node)
        self.names.pop()

    def visit_CClassDefNode(self, node: Any) -> None:
        self.named(node.class_name, self.visit_children, node)

    def visit_PyClassDefNode(self, node: Any) -> None:
        """A Python class: its code is not C."""

    def visit_CFuncDefNode(self, node: Any) -> None:
        declarator = node.declarator
        while not isinstance(declarator, Nodes.CNameDeclaratorNode):
            declarator = declarator.base
        self.named(declarator.name, self.visit_body, node)

    def visit_DefNode(self, node: Any) -> None:
        self.named(node.name, self.visit_body, node)

    def visit_body(self, node: Any) -> None:
        self.visit(node.body)
        node.body = self.replaced(node.body)

    def visit_CVarDefNode(self, node: Any) -> None:
        """Skip sizes of arrays, which are constants."""

    def visit_CEnumDefNode(self, node: Any) -> None:
        pass

    # ---- what is planted

    def replaced(self, node: Any) -> Any:
        if not self.names or not isinstance(node, Nodes.Node):
            return node
        plant = getattr(self, "plant_" + type(node).__name__, None)
        if plant is None:
            plant = self.plant_bits if isinstance(node, ExprNodes.IntBinopNode) else None
        try:
            return plant(node) if plant else node
        except ValueError:
            return node

    def number_of(self, node: Any, kind: str, change: str) -> int | None:
        """The number of a new site; None: it is not selected."""
        source, line, _ = node.pos
        path = str(source.filename)
        if GENERATED.search(path) or PACKAGE not in path:
            return None
        room = path.rpartition(PACKAGE)[2]
        place = (room, node.pos[1:], kind, change)
        if place in self.numbers:  # in a header, which several modules include
            return self.numbers[place]
        if path not in self.lines:
            self.lines[path] = Path(path).read_text(encoding="utf-8").splitlines()
        text = self.lines[path][line - 1].strip()
        function = ".".join(self.names)
        key = f"{function} {text} {kind} {change}"
        self.seen[key] = count = self.seen.get(key, 0) + 1
        identifier = hashlib.sha256(f"{key} {count}".encode()).hexdigest()[:8]
        self.all[kind] += 1
        if int(identifier, 16) % SHARE[kind]:
            self.numbers[place] = None
            return None
        self.sites.append(Site(identifier, room, function, line, kind, change, text))
        self.numbers[place] = len(self.sites)
        return len(self.sites)

    def awake(self, pos: Any, number: int) -> Any:
        return ExprNodes.SimpleCallNode(
            pos, function=ExprNodes.NameNode(pos, name="MUTANT"), args=[ExprNodes.IntNode(pos, value=str(number))]
        )

    def either(self, node: Any, changed: Any, number: int) -> Any:
        return ExprNodes.CondExprNode(
            node.pos, condition=self.awake(node.pos, number), true_val=changed, false_val=node
        )

    def plant_PrimaryCmpNode(self, node: Any) -> Any:
        if node.operator not in COMPARISONS:
            return node
        changed = clone(node)
        changed.operator = COMPARISONS[node.operator]
        number = self.number_of(node, "comparison", f"{node.operator} -> {changed.operator}")
        return node if number is None else self.either(truth(node), truth(changed), number)

    def plant_BoolBinopNode(self, node: Any) -> Any:
        if not is_truth(node):
            return node
        changed = clone(node.operand1)
        number = self.number_of(node, "condition", f"without what follows `{node.operator}`")
        return node if number is None else self.either(truth(node), truth(changed), number)

    def constant(self, node: Any, kind: str, values: Any) -> Any:
        for name in ("operand2", "operand1"):
            operand = getattr(node, name)
            if isinstance(operand, ExprNodes.IntNode):
                value = int(operand.value, 0)
                new = values(value)
                number = self.number_of(node, kind, f"{node.operator} {operand.value} -> {new:#x}")
                if number is not None:
                    changed = copy.copy(operand)
                    changed.value = str(new)
                    plant = self.either if operand.type.is_pyobject else Constant
                    setattr(node, name, plant(operand, changed, number))
                break
        return node

    def plant_AddNode(self, node: Any) -> Any:
        return self.constant(node, "number", lambda value: value + 1)

    plant_SubNode = plant_AddNode

    def plant_bits(self, node: Any) -> Any:
        if node.operator in ("<<", ">>"):
            return self.constant(node, "bits", lambda value: value + 1)
        if node.operator in ("&", "|", "^"):
            return self.constant(node, "bits", lambda value: value & value - 1 if value & value - 1 else value ^ 1)
        return node

    def plant_ExprStatNode(self, node: Any) -> Any:
        call = node.expr
        if not isinstance(call, ExprNodes.SimpleCallNode):
            return node
        function = call.function
        name = getattr(function, "name", None) or getattr(function, "attribute", None)
        if name is None or not FREES.fullmatch(name):
            return node
        number = self.number_of(node, "free", f"without {name}()")
        if number is None:
            return node
        asleep = ExprNodes.NotNode(node.pos, operand=self.awake(node.pos, number))
        clause = Nodes.IfClauseNode(node.pos, condition=asleep, body=Nodes.StatListNode(node.pos, stats=[node]))
        return Nodes.IfStatNode(node.pos, if_clauses=[clause], else_clause=None)


DECLARATION = '\ncdef extern from "mutant.h" nogil:\n    bint MUTANT(int number)\n'


def copy_sources() -> Path:
    """The package as symbolic links; the pages that are compiled declare MUTANT at their ends, so that lines stay the same."""
    source, tree = ROOT / "src" / "wirefmt", BUILD / "src" / "wirefmt"
    tree.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*")):
        target = tree / path.relative_to(source)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.suffix in (".pyx", ".pxd") and path.stat().st_size:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text(encoding="utf-8") + DECLARATION, encoding="utf-8")
        elif path.suffix not in (".so", ".pyc", ".c"):
            target.unlink(missing_ok=True)
            target.symlink_to(path)
    return tree


def compile_page(page: Path, sites: int) -> None:
    """Translate a module to C beside its page."""
    (made,) = (BUILD / "c").rglob(str(page.relative_to(BUILD).with_suffix(".c")))
    out = page.with_name(page.stem + SUFFIX)
    command = ["gcc", "-std=gnu11", "-fno-strict-aliasing", "-O0", "-g0", "-w", "-fPIC", "-shared", "-DWIREFMT_DEBUG=1"]
    command += [f"-DMUTANTS={sites + 1}", "-DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION"]
    command += [f"-I{Path(__file__).parent}", f"-I{INCLUDE}", "-o", str(out), str(made)]
    subprocess.run(command, check=True)


def build() -> list[Site]:
    tree = copy_sources()
    planter = Planter()
    create = Pipeline.create_pipeline
    Pipeline.create_pipeline = lambda *args, **options: [planter, *create(*args, **options)]
    try:
        pages = sorted(tree.rglob("*.pyx"))
        cythonize(
            [Extension(".".join(page.relative_to(tree.parent).with_suffix("").parts), [str(page)]) for page in pages],
            include_path=[str(tree.parent)],
            build_dir=str(BUILD / "c"),
            force=True,
            quiet=True,
        )
    finally:
        Pipeline.create_pipeline = create
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda page: compile_page(page, len(planter.sites)), pages))
    (BUILD / "sites.json").write_text(json.dumps([site._asdict() for site in planter.sites], indent=1))
    print(f"{len(planter.sites)} planted of {sum(planter.all.values())} sites: {planter.all}", file=sys.stderr)
    return planter.sites


if __name__ == "__main__":
    build()
