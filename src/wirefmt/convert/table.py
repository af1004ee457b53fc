"""Conversion of the column `raw` of the message table, batch by batch. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np

from .. import _core
from ..spec.columns import CONVERTED, CONVERTED_FIELDS
from . import _engine
from ._engine import topic_of
from .conversion import Topics
from .dialects import compiled
from .messages import Protocol

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns that `convert_table` reads.
NEEDED: Final = ("protocol", "version", "destination", "routing_key", "raw")
#: Rows that are converted at once, so that the columns of the result stay below 2 GiB.
ROWS: Final = 16384

_NO_MESSAGE: Final = 255
_OLD_MQTT: Final = 3


def convert_table(
    batch: pa.RecordBatch,
    *,
    to: Protocol,
    dialect: str = "documented",
    mqtt_exchange: str = "amq.topic",
    topics: Topics = "translated",
    percent_encoding: bool = True,
) -> pa.RecordBatch:
    """Append the column `converted` to rows of the message table.

    A row is a message if its column `raw` is not null: read captures with raw=True. `converted` is a struct of
    `spec.columns.CONVERTED_FIELDS`: raw, losses, rule, error. If a message is refused, `error` says why; rows that are not
    MQTT or AMQP messages get null. A message of the target protocol is unchanged; a PUBLISH of MQTT 3.1 and 3.1.1 is read
    as one of 5.0 without properties. The routing key becomes the topic of a PUBLISH: the one of the method, or the one in
    the AMQP 1.0 address.

    Args:
        batch: has the columns `NEEDED`; all its columns are kept unchanged.
        to, dialect, mqtt_exchange, topics, percent_encoding: as for convert().

    Raises:
        ValueError: a column is missing, or the protocol, dialect or `topics` is unknown.
    """
    import pyarrow as pa

    missing = [name for name in NEEDED if name not in batch.schema.names]
    if missing:
        raise ValueError(f"conversion needs the columns {', '.join(NEEDED)}; missing: {', '.join(missing)}")
    run = _Run(to, dialect, mqtt_exchange, topics, percent_encoding)
    parts = [run.convert(part) for part in _parts(batch)]
    converted = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return pa.record_batch(
        [*batch.columns, converted],
        schema=batch.schema.append(converted_field()),
    )


def converted_field() -> pa.Field:
    """The column that `convert_table` adds."""
    import pyarrow as pa

    return pa.field(CONVERTED.name, pa.struct(list(pa.schema(_Schema()))))


class _Schema:
    def __arrow_c_schema__(self) -> object:
        return _core.schema_capsule(CONVERTED_FIELDS, [field.name for field in CONVERTED_FIELDS])


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for begin in range(0, max(batch.num_rows, 1), ROWS):
        yield batch.slice(begin, ROWS)


class _Run:
    def __init__(self, to: Protocol, dialect: str, mqtt_exchange: str, topics: Topics, percent_encoding: bool) -> None:
        self.target = _engine.protocol_number(to)
        self.rules = compiled(dialect)
        self.exchange = mqtt_exchange.encode()
        self.topics = topics
        topic_of("", topics)  # raises ValueError for an unknown translation
        self.percent_encoding = percent_encoding
        self.keyed = to == "mqtt5"

    def convert(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa

        octets = batch.column("raw")
        kinds = _kinds(batch)
        offsets, data = _buffers(octets)
        if self.keyed:
            key_offsets, keys = _buffers(_keys(batch, kinds))
        else:
            key_offsets, keys = np.zeros(len(octets) + 1, np.int32), b""
        made = _engine.convert_rows(
            self.rules, self.target, kinds, offsets, data, key_offsets, keys,
            exchange=self.exchange, topics=self.topics, percent_encoding=self.percent_encoding,
        )  # fmt: skip
        columns = pa.record_batch(made)
        return pa.StructArray.from_arrays(
            columns.columns, fields=list(columns.schema), mask=pa.array(kinds == _NO_MESSAGE)
        )


def _kinds(batch: pa.RecordBatch) -> Any:
    """The protocol number of each row, for convert_rows."""
    import pyarrow.compute as pc

    def rows(condition: pa.Array) -> Any:
        return np.asarray(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), dtype=bool)

    protocol = batch.column("protocol")
    kinds = np.full(batch.num_rows, _NO_MESSAGE, np.uint8)
    mqtt = rows(pc.equal(protocol, "mqtt"))
    kinds[mqtt] = _OLD_MQTT
    kinds[mqtt & rows(pc.equal(batch.column("version"), "5.0"))] = _engine.protocol_number("mqtt5")
    for name in ("amqp091", "amqp10"):
        kinds[rows(pc.equal(protocol, name))] = _engine.protocol_number(name)
    kinds[rows(batch.column("raw").is_null())] = _NO_MESSAGE
    return kinds


def _keys(batch: pa.RecordBatch, kinds: Any) -> pa.Array:
    """The routing key of each row; empty if it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (kinds == _engine.protocol_number("amqp10")).any():
        return pc.fill_null(batch.column("routing_key"), "")
    addresses = batch.column("destination").dictionary_encode()
    known = pa.array(
        [None if a is None else routing_key_of_address(a) for a in addresses.dictionary.to_pylist()], pa.string()
    )
    of_address = known.take(addresses.indices)
    is_amqp10 = pc.equal(batch.column("protocol"), "amqp10")
    return pc.fill_null(pc.if_else(is_amqp10, of_address, batch.column("routing_key").cast(pa.string())), "")


def routing_key_of_address(address: str) -> str:
    """The routing key in an AMQP 1.0 address of RabbitMQ; for any other address, the address itself.

    Version 2: /queues/:queue, /exchanges/:exchange/:key, percent-encoded. Version 1: /queue/:queue, /amq/queue/:queue,
    /topic/:key, /exchange/:exchange/:key.
    """
    first, _, rest = address.removeprefix("/").partition("/")
    if not address.startswith("/") or not rest:
        return address
    if first in ("queues", "queue", "topic"):
        key = rest
    elif first in ("exchanges", "exchange"):
        key = rest.partition("/")[2]
    elif first == "amq" and rest.startswith("queue/"):
        key = rest.removeprefix("queue/")
    else:
        return address
    return unquote(key) if first in ("queues", "exchanges") else key


def _buffers(column: pa.Array) -> tuple[Any, Any]:
    """Offsets and values of strings or binaries."""
    import pyarrow as pa

    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    if wide or pa.types.is_binary_view(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.binary())
    _, ends, values = column.buffers()
    if ends is None or not len(column):
        return np.zeros(len(column) + 1, np.int32), b""
    offsets = np.frombuffer(ends, np.int32, len(column) + 1, column.offset * 4)
    return offsets, b"" if values is None else memoryview(values).cast("B")
