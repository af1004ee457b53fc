"""Spark's filters as Arrow masks. Only columns of plain types; null never matches, as in SQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource as ds

from .schema import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = ("boolean", "int8", "int16", "int32", "int64", "string")
_COMPARE = {
    ds.EqualTo: "equal",
    ds.GreaterThan: "greater",
    ds.GreaterThanOrEqual: "greater_equal",
    ds.LessThan: "less",
    ds.LessThanOrEqual: "less_equal",
    ds.StringStartsWith: "starts_with",
    ds.StringEndsWith: "ends_with",
    ds.StringContains: "match_substring",
}


def can_push(condition: ds.Filter, table: str) -> bool:
    """Can this condition be a mask?"""
    if isinstance(condition, ds.Not):
        return can_push(condition.child, table)
    if type(condition) not in (*_COMPARE, ds.In, ds.IsNull, ds.IsNotNull):
        return False
    attribute: tuple[str, ...] = condition.attribute  # type: ignore[attr-defined]
    types = {c.name: c.type for c in columns_of(table)}
    return len(attribute) == 1 and types.get(attribute[0].lower()) in _PLAIN


def mask(conditions: list[ds.Filter], batch: pa.RecordBatch) -> pa.Array:
    """True where every condition holds; null counts as false."""
    import pyarrow.compute as pc

    return reduce(pc.and_kleene, (_mask(c, batch) for c in conditions))


def _mask(condition: Any, batch: pa.RecordBatch) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(condition, ds.Not):
        return pc.invert(_mask(condition.child, batch))
    column = batch.column(condition.attribute[0])
    if isinstance(condition, ds.IsNull):
        return pc.is_null(column)
    if isinstance(condition, ds.IsNotNull):
        return pc.is_valid(column)
    if isinstance(condition, ds.In):
        # SQL: `null in (...)` is null, and so is `x in (..., null)` where x is not among the others
        found = pc.is_in(column, value_set=pa.array([v for v in condition.value if v is not None], column.type))
        unknown = pc.is_null(column) if None not in condition.value else pc.invert(found)
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)
    function: Callable[..., Any] = getattr(pc, _COMPARE[type(condition)])
    if _COMPARE[type(condition)] in ("starts_with", "ends_with", "match_substring"):
        return function(column, pattern=condition.value)
    return function(column, pa.scalar(condition.value, column.type))
