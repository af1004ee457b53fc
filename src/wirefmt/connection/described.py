"""Functions that take the keywords of another one as `**more`: their signatures and docs tell these keywords, too."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def describe(
    function: Callable[..., Any],
    docs: str | None,
    common: Callable[..., Any],
    names: Iterable[str],
    *,
    first: Mapping[str, str] | None = None,
    then: str = "",
) -> str | None:
    """Give `function` a signature with the keywords `names` of `common` in place of `**more`.

    Args:
        docs: what documents its arguments.
        first: texts of arguments that come before the others, by name.
        then: a paragraph after the arguments.

    Returns the docs with those of the keywords. What the function documents itself stays.
    """
    signature, more = inspect.signature(function), inspect.signature(common).parameters
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=[*own, *(more[name] for name in names)])  # type: ignore[attr-defined]
    if docs is None or common.__doc__ is None:
        return docs
    head, told, tail = _arguments(docs)
    shared = _arguments(common.__doc__)[1]
    texts = {**(first or {}), **told, **{name: shared[name] for name in names}, **told}
    lines = "\n".join(texts.values()).replace("\n", "\n    ")
    return "\n\n".join(filter(None, (head, f"Args:\n    {lines}", then, tail))) + "\n"


def _arguments(docs: str) -> tuple[str, dict[str, str], str]:
    """What is before the arguments, each of them by its names, and what is after them."""
    head, _, rest = inspect.cleandoc(docs).partition("\n\nArgs:\n")
    told, _, tail = rest.partition("\n\n")
    return head, {text.partition(":")[0]: text for text in re.split(r"\n(?! )", inspect.cleandoc(told))}, tail
