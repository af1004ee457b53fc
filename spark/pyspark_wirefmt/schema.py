"""The tables' columns as Spark types, translated from the core's column lists.

Spark compares the Arrow schema of a reader's batches with its own translation of these types, and matches columns by
position: a batch must be exactly `select(names)` of a schema made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

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

from wirefmt.spec import packets
from wirefmt.spec.columns import CONVERTED, Column
from wirefmt.spec.insight import TABLES

if TYPE_CHECKING:
    from .options import Options

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
    """The columns of option("table", ...). Raises ValueError for an unknown table."""
    if name == "packets":
        return packets.COLUMNS
    if name in TABLES:
        return TABLES[name]
    raise ValueError(f"no table {name!r}; there are {', '.join(TABLES)}, packets")


def message_schema(columns: Iterable[str] | None = None) -> StructType:
    """The message table's schema, or the schema of some of its columns in the given order."""
    return table_schema("messages", columns)


def packet_schema(columns: Iterable[str] | None = None) -> StructType:
    """The packets table's schema."""
    return table_schema("packets", columns)


def ddl(name: str = "messages", columns: Iterable[str] | None = None) -> str:
    """A table's schema as SQL would declare it."""
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in table_schema(name, columns))


def table_schema(name: str, columns: Iterable[str] | None = None) -> StructType:
    """Raises ValueError for an unknown table or column, and for a column named twice."""
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
        raise ValueError("no columns given")
    return StructType([fields[c] for c in chosen])


#: Columns of the message table that exist only if their option is true or the selected columns name
#: them. Without `raw` no message can be converted, and a null in `vlan` says that there was no tag, so a column of nulls would
#: hide that it was not read.
ON_REQUEST: Final = ("raw", "vlan")


def source_schema(options: Options) -> StructType:
    """The schema of a read with these options: the table's columns, and `converted` if messages are converted.

    Columns `ON_REQUEST` are omitted unless they are requested.

    Raises:
        ValueError: an unknown column, or one that is named twice.
    """
    columns = options.columns
    if columns is None:
        columns = tuple(
            column.name
            for column in columns_of(options.table)
            if column.name not in ON_REQUEST or getattr(options, column.name)
        )
    if options.convert_to is None:
        return table_schema(options.table, columns)
    return _converted(columns if CONVERTED.name in columns else [*columns, CONVERTED.name])


def _converted(columns: Iterable[str]) -> StructType:
    """The schema of columns that may include `converted`."""
    names = list(columns)
    made = table_schema("messages", [n for n in names if n != CONVERTED.name] or None)
    fields = {f.name: f for f in (*made.fields, StructField(CONVERTED.name, spark_type(CONVERTED.type)))}
    return StructType([fields[name] for name in names])


def projection(options: Options, asked: StructType) -> list[str]:
    """The columns of a schema a user declared by `.schema(...)`, in any letter case.

    Raises:
        ValueError: a column does not exist, or is declared with another type.
    """
    names = [name.lower() for name in asked.names]
    ours = _converted(names) if options.convert_to else table_schema(options.table, names)
    for want, have in zip(asked, ours, strict=True):
        if want.dataType != have.dataType:
            raise ValueError(
                f"column {want.name!r} is declared {want.dataType.simpleString()} "
                f"but is {have.dataType.simpleString()}; .schema(...) chooses columns, cast() converts them"
            )
        if not want.nullable:
            raise ValueError(f"column {want.name!r} is declared NOT NULL; every column may be null")
    return names


_KEPT = "wirefmt.options"


def keep_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with a table's options in the metadata of its first column.

    Spark stores the schema of CREATE TABLE, but gives a Python data source no options when the table is read.
    """
    first, *others = schema.fields
    kept = {_KEPT: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, kept), *others])


def kept_options(schema: StructType) -> dict[str, str]:
    """The options that `keep_options` stored; empty if there are none."""
    found = (field.metadata.get(_KEPT) for field in schema.fields if field.metadata)
    kept: dict[str, str] = json.loads(next(filter(None, found), "{}"))
    return kept


def spark_type(text: str) -> DataType:
    """A type as in the column lists (spec/table.py) as a Spark type."""
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
    """Split at the commas outside all brackets."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
