"""encode_batch against decode_batch: columns that were decoded are encoded and decoded again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What depends on how long the decoded messages were, not on what they say.
OF_THE_INPUT = ("byte_offset", "wire_size")


def columns_of(batch: Any) -> Any:
    import pyarrow as pa

    return batch if isinstance(batch, pa.RecordBatch) else pa.record_batch(batch)


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """The rows without byte_offset and wire_size."""
    return columns_of(batch).drop_columns(list(OF_THE_INPUT)).to_pylist()


def pieces_of(batch: Any) -> Any:
    """The same rows as a table of chunks that are slices of larger arrays with other rows around them."""
    import pyarrow as pa

    whole = columns_of(batch)
    around = pa.concat_batches([whole, whole, whole])
    n = len(whole)
    cut = n // 3
    return pa.Table.from_batches([around.slice(n, cut), around.slice(2 * n, 0), around.slice(n + cut, n - cut)])


def wide_of(batch: Any) -> Any:
    """The same rows with strings, binaries and lists whose offsets have 64 bits, and integers of 64 bits."""
    import pyarrow as pa

    def wide(type_: Any) -> Any:
        if pa.types.is_string(type_):
            return pa.large_string()
        if pa.types.is_binary(type_):
            return pa.large_binary()
        if pa.types.is_integer(type_):
            return pa.int64()
        if pa.types.is_list(type_):
            return pa.large_list(wide(type_.value_type))
        if pa.types.is_struct(type_):
            return pa.struct([pa.field(f.name, wide(f.type)) for f in type_])
        return type_

    table = pa.Table.from_batches([columns_of(batch)])
    return table.cast(pa.schema([pa.field(f.name, wide(f.type)) for f in table.schema]))


def again(
    octets: bytes, decode: Callable[[bytes], Any], encode: Callable[[Any], bytes], *, other_forms: bool = True
) -> bytes | None:
    """Encode what `octets` decode to, whole, in pieces and in wide types. Fails unless it decodes to the same rows. None:
    not all of `octets` decode."""
    batch = decode(octets)
    columns = columns_of(batch)
    if batch.rest or columns.column("error").null_count != len(columns):
        return None
    made = encode(batch)
    assert rows_of(decode(made)) == rows_of(columns), (octets, made)
    if other_forms:
        assert encode(pieces_of(columns)) == made
        assert encode(wide_of(columns)) == made
    return made
