"""wirefmt on Apache Spark.

`spark.read.format("wirefmt")` works if this package can be imported: Spark 4 finds `DefaultSource` by the
package's name. Everything else is a function::

    read(spark, paths, **options)                    DataFrame by packet shuffle; also on Spark 3.5
    decode_to_parquet(spark, paths, out, **options)  tasks write Parquet themselves; the cheapest way
    convert_messages(df, to)                         messages of the table in another protocol
    local_session(**conf)                            a quiet session on this machine; finds or installs Java
    ship(spark)                                      sends the installed package to executors that lack it
    check(spark)                                     do the executors have this version?
    message_schema(), packet_schema(), ddl()         the tables' columns as Spark types

Names load on first use, because Spark imports every `pyspark_*` package of the driver at its first look-up.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .convert import convert_messages
    from .parquet import decode_to_parquet
    from .schema import ddl, message_schema, packet_schema
    from .session import local_session
    from .shipping import check, ship
    from .shuffle import read
    from .source import DefaultSource

__all__ = [
    "DefaultSource",
    "check",
    "convert_messages",
    "ddl",
    "decode_to_parquet",
    "local_session",
    "message_schema",
    "packet_schema",
    "read",
    "ship",
]

_HOME = {
    "DefaultSource": "source",
    "check": "shipping",
    "convert_messages": "convert",
    "ddl": "schema",
    "decode_to_parquet": "parquet",
    "local_session": "session",
    "message_schema": "schema",
    "packet_schema": "schema",
    "read": "shuffle",
    "ship": "shipping",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME} - {"Any", "TYPE_CHECKING", "annotations", "import_module"})
