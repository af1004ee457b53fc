"""Values of one kind: what a call returns may be one of many types, and a test knows which one it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, overload

K = TypeVar("K")
L = TypeVar("L")
M = TypeVar("M")
N = TypeVar("N")


def checked(value: object, kind: type[K]) -> K:
    """The value, which is of this kind."""
    assert isinstance(value, kind), value
    return value


def only(values: Iterable[object], kind: type[K]) -> K:
    """The one value there is, which is of this kind."""
    (value,) = values
    return checked(value, kind)


def all_of(values: Iterable[object], kind: type[K]) -> list[K]:
    """The values, all of which are of this kind."""
    return [checked(value, kind) for value in values]


@overload
def exactly(values: Iterable[object], a: type[K], b: type[L], /) -> tuple[K, L]: ...
@overload
def exactly(values: Iterable[object], a: type[K], b: type[L], c: type[M], /) -> tuple[K, L, M]: ...
@overload
def exactly(values: Iterable[object], a: type[K], b: type[L], c: type[M], d: type[N], /) -> tuple[K, L, M, N]: ...


def exactly(values: Iterable[object], *kinds: type[Any]) -> tuple[Any, ...]:
    """The values, as many as kinds, each of its kind."""
    return tuple(checked(value, kind) for value, kind in zip(values, kinds, strict=True))
