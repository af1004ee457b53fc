"""The tables' columns as Spark types: one translation of the core's column lists, nothing named twice.

Spark compares the Arrow schema of what a reader yields with its own translation of these types, and places columns by
position: a batch must be exactly `select(names)` of a schema made here.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from wirefmt.spec import packets, table
from wirefmt.spec.table import Column

_SCALARS: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "int8": ByteType,
    "int16": ShortType,
    "int32": IntegerType,
    "int64": LongType,
    "string": StringType,
    "binary": BinaryType,
    "timestamp": TimestampType,
}


def columns_of(name: str) -> tuple[Column, ...]:
    """The columns behind option("table", ...). Raises ValueError for a table there is not."""
    if name == "messages":
        return table.COLUMNS
    if name == "packets":
        return packets.COLUMNS
    raise ValueError(f"no table {name!r}; there are messages, packets")


def message_schema(columns: Iterable[str] | None = None) -> StructType:
    """The message table's schema, or that of some of its columns in the order given."""
    return table_schema("messages", columns)


def packet_schema(columns: Iterable[str] | None = None) -> StructType:
    """The packets table's schema."""
    return table_schema("packets", columns)


def ddl(name: str = "messages", columns: Iterable[str] | None = None) -> str:
    """A table's schema as SQL would declare it."""
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in table_schema(name, columns))


def table_schema(name: str, columns: Iterable[str] | None = None) -> StructType:
    """Raises ValueError for a table or column there is not, and for a column named twice."""
    fields = {c.name: StructField(c.name, spark_type(c.type)) for c in columns_of(name)}
    if columns is None:
        return StructType(list(fields.values()))
    chosen = list(columns)
    unknown = [c for c in chosen if c not in fields]
    if unknown:
        raise ValueError(f"the {name} table has no column {', '.join(map(repr, unknown))}; it has {', '.join(fields)}")
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"a column is named twice in {chosen}")
    if not chosen:
        raise ValueError("no column asked for")
    return StructType([fields[c] for c in chosen])


def projection(name: str, asked: StructType) -> list[str]:
    """The column names of a schema a user declared by `.schema(...)`.

    Raises ValueError where a column does not exist or is declared with another type than it has.
    """
    ours = table_schema(name, asked.names)
    for want, have in zip(asked, ours, strict=True):
        if want.dataType != have.dataType:
            raise ValueError(
                f"column {want.name!r} is declared {want.dataType.simpleString()} "
                f"but is {have.dataType.simpleString()}; .schema(...) chooses columns, cast() converts them"
            )
        if not want.nullable:
            raise ValueError(f"column {want.name!r} is declared NOT NULL; every column may be null")
    return list(asked.names)


def spark_type(text: str) -> DataType:
    """A type as the column lists write it (spec/table.py) as a Spark type."""
    if text in _SCALARS:
        return _SCALARS[text]()
    outer, _, inner = text.removesuffix(">").partition("<")
    parts = list(_split(inner))
    if outer == "list":
        return ArrayType(spark_type(parts[0]))
    if outer == "map":
        return MapType(spark_type(parts[0]), spark_type(parts[1]))
    if outer == "struct":
        named = (part.partition(":") for part in parts)
        return StructType([StructField(field, spark_type(kind)) for field, _, kind in named])
    raise ValueError(f"type {text!r}")


def _split(text: str) -> Iterable[str]:
    """The parts between the commas that stand outside all brackets."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
