"""The message table: one row per protocol message, one schema for Arrow, the command line and Spark.

`COLUMNS` is the only place that combines its columns; the compiled core builds its column writers from it. A
protocol's own fields are a struct column, named in the package of the protocol (`wirefmt.mqtt.columns`).
"""

from typing import Final

from wirefmt.protocols import PROTOCOLS
from wirefmt.spec.columns import ON_REQUEST, SHARED, Column, struct

COLUMNS: Final[tuple[Column, ...]] = (
    *SHARED,
    *(Column(row.name, struct(row.columns().FIELDS), f"other fields of {row.title}") for row in PROTOCOLS),
    *ON_REQUEST,
)
