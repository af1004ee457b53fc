"""`inspect.signature` and help() of compiled classes: constructors written in C have no signature of their own.

It is read from the stubs beside the compiled modules when somebody asks, so that nothing is made of it at import.
tests/project/test_constructors.py holds each constructor to what its stub says.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast
    import inspect

_HEAP_TYPE = 1 << 9  # of a class that a class statement made


def signature_of(owner: type) -> inspect.Signature | None:
    """The signature of a class of the core, or of the base that it has its constructor from; None: it has no constructor, or one
    that Python knows the signature of."""
    for cls in owner.__mro__:
        if cls.__module__.startswith("wirefmt.") and (found := _signature(cls.__module__, cls.__name__)):
            return found
        if not cls.__flags__ & _HEAP_TYPE or "__init__" in vars(cls) or "__new__" in vars(cls):
            break
    return None


@cache
def _signature(module: str, name: str) -> inspect.Signature | None:
    import inspect

    classes, aliases = _stubs(module)
    while (cls := classes.get(name)) is not None:
        for function in cls.body:
            if getattr(function, "name", None) in ("__init__", "__new__"):
                return inspect.Signature(list(_parameters(function, aliases)))
        name = next(map(_name, cls.bases), "")
    return None


@cache
def _stubs(module: str) -> tuple[dict[str, ast.ClassDef], dict[str, ast.expr]]:
    """The classes in the stubs of a package, and the types that only the stubs name."""
    import ast
    from importlib import import_module
    from importlib.resources import files

    package, _, inner = module.rpartition(".")
    package = package if inner.startswith("_") else module
    found = files(package).iterdir() if hasattr(import_module(package), "__path__") else ()
    classes: dict[str, ast.ClassDef] = {}
    aliases: dict[str, ast.expr] = {}
    for file in found:
        if file.name.startswith("_") and file.name.endswith(".pyi"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    classes[node.name] = node
                elif (
                    isinstance(node, ast.AnnAssign) and node.value is not None and _name(node.annotation) == "TypeAlias"
                ):
                    aliases[_name(node.target)] = node.value
    return classes, aliases


def _name(node: ast.expr) -> str:
    return str(getattr(node, "id", ""))


def _parameters(function: Any, aliases: dict[str, ast.expr]) -> Any:
    """The parameters of a constructor after the first, which is the object or the class."""
    import ast
    from inspect import Parameter

    class Written(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return self.visit(aliases[node.id]) if node.id in aliases else node

    def parameter(arg: ast.arg, kind: Any, default: ast.expr | None = None) -> Parameter:
        annotation = ast.unparse(Written().visit(arg.annotation)) if arg.annotation else Parameter.empty
        return Parameter(arg.arg, kind, default=_value(default) if default else Parameter.empty, annotation=annotation)

    a = function.args
    kinds = [Parameter.POSITIONAL_ONLY] * len(a.posonlyargs) + [Parameter.POSITIONAL_OR_KEYWORD] * len(a.args)
    defaults = [None] * (len(kinds) - len(a.defaults)) + a.defaults
    yield from list(map(parameter, a.posonlyargs + a.args, kinds, defaults))[1:]
    if a.vararg:
        yield parameter(a.vararg, Parameter.VAR_POSITIONAL)
    for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        yield parameter(arg, Parameter.KEYWORD_ONLY, default)
    if a.kwarg:
        yield parameter(a.kwarg, Parameter.VAR_KEYWORD)


def _value(node: ast.expr) -> Any:
    """A default: a literal, or a Strictness."""
    import ast

    from wirefmt.strictness import Strictness

    return getattr(Strictness, node.attr) if isinstance(node, ast.Attribute) else ast.literal_eval(node)
