"""Targets of Arrow arrays as input of encode_batch, json_lines and csv_lines: the same rows in another layout make the same
octets, and text is read back as the same values; invalid arrays are refused, or make frames or text.

The first two octets are those of encode_batch, the third one chooses the layout or damage of the columns.
"""

from __future__ import annotations

import csv
import io
import json
import random
import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from common import pyarrow, same
from targets_encode_batch import PROTOCOLS
from targets_encode_batch import seeds as batch_seeds

from wirefmt import mqtt
from wirefmt._core import stream_capsule
from wirefmt.batch import csv_lines, json_lines
from wirefmt.errors import EncodeError

if pyarrow is not None:
    from lib import lines

# ------------------------------------------------------------------------------------------------ layouts


def retyped(kind: Any, choice: int) -> Any:
    """The same type in another layout: large offsets, views, other integers, also within other types."""
    t = pyarrow.types
    if t.is_string(kind):
        return (pyarrow.large_string(), pyarrow.string_view())[choice & 1]
    if t.is_binary(kind):
        return (pyarrow.large_binary(), pyarrow.binary_view())[choice & 1]
    if t.is_integer(kind):
        return pyarrow.int64() if choice & 2 else kind
    if t.is_list(kind):
        made = retyped(kind.value_type, choice)
        return pyarrow.large_list(made) if choice & 1 else pyarrow.list_(made)
    if t.is_map(kind):
        return pyarrow.map_(retyped(kind.key_type, choice), retyped(kind.item_type, choice))
    if t.is_struct(kind):
        return pyarrow.struct([field.with_type(retyped(field.type, choice)) for field in kind])
    return kind


def relaid(table: Any, choice: int) -> Any:
    """Rows in other types, in chunks, after rows outside the slice."""
    schema = pyarrow.schema([field.with_type(retyped(field.type, choice)) for field in table.schema])
    listed = table.to_pylist()
    made = pyarrow.Table.from_pylist(listed[:1] + listed, schema=schema)[1:] if choice & 4 else pyarrow.Table.from_pylist(
        listed, schema=schema
    )  # fmt: skip
    if choice & 8:
        made = made.drop_columns([name for name in made.column_names if made[name].null_count == len(made)])
    if choice & 16:
        made = pyarrow.concat_tables([made[:1], made[1:]])
    for number, column in enumerate(made.columns):
        sizes = {len(item) for item in column.to_pylist() if item is not None} if retype_fixed(column.type) else set()
        if choice & 32 and len(sizes) == 1:
            fixed = pyarrow.binary(sizes.pop())
            made = made.set_column(number, made.column_names[number], pyarrow.array(column.to_pylist(), fixed))
        elif column.null_count == len(column):
            made = made.set_column(number, made.column_names[number], pyarrow.nulls(len(column)))
    return made


def retype_fixed(kind: Any) -> bool:
    t = pyarrow.types
    return bool(t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind))


# ------------------------------------------------------------------------------------------------ damage


def spoilt(column: Any, r: random.Random) -> Any:
    """An array whose offsets are out of order, or whose text is not UTF-8. The last offset stays, because
    no other size is known."""
    kind = column.type
    t = pyarrow.types
    buffers = column.buffers()
    if column.offset or len(column) < 2 or not (t.is_string(kind) or t.is_binary(kind)):
        return column
    if r.random() < 0.5 and buffers[2] is not None:
        text = bytearray(buffers[2].to_pybytes())
        for i in range(0, len(text), r.randint(1, 9)):
            text[i] = r.choice(b"\xff\xc3\x80\xed\0 \n")
        buffers[2] = pyarrow.py_buffer(bytes(text))
    else:
        offsets = bytearray(buffers[1].to_pybytes())
        struct.pack_into("<i", offsets, 4 * r.randrange(len(column)), r.choice((-1, 1 << 30, 1, -(1 << 31))))
        buffers[1] = pyarrow.py_buffer(bytes(offsets))
    try:
        return pyarrow.Array.from_buffers(kind, len(column), buffers, -1)
    except pyarrow.ArrowInvalid:  # it checks the first and last offset itself
        return column


class Held:
    """Capsules of an array, passed twice: the second time the array has been moved."""

    def __init__(self, capsules: Any) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.capsules


class HeldStream:
    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.capsule


def failing(batches: list[Any]) -> Iterator[Any]:
    yield from batches
    raise OSError("no more of it")


def damaged(module: Any, table: Any, choice: int, r: random.Random) -> Any:
    """Something that is not a table of these columns."""
    batch = table.combine_chunks().to_batches()[0]
    names = table.column_names
    number = r.randrange(len(names))
    name, column = names[number], batch.column(number)
    others = (
        pyarrow.array([1] * len(batch)), pyarrow.array(["x"] * len(batch)), pyarrow.array([b"x"] * len(batch)),
        pyarrow.array([[1]] * len(batch)), pyarrow.array([1.5] * len(batch)), pyarrow.array([{"a": 1}] * len(batch)),
        pyarrow.array([{"a": None}] * len(batch)), pyarrow.array([True] * len(batch)),
        pyarrow.array([[("a", 1)]] * len(batch), pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        pyarrow.array([-1] * len(batch), pyarrow.int8()), pyarrow.array([2**64 - 1] * len(batch), pyarrow.uint64()),
        pyarrow.array(["é" * 200] * len(batch), pyarrow.string_view()), pyarrow.array([b""] * len(batch), pyarrow.binary(0)),
    )  # fmt: skip
    match choice % 10:
        case 0:
            return batch.set_column(number, name, spoilt(column, r))
        case 1:
            return batch.set_column(number, name, r.choice(others))
        case 2:
            return batch.append_column(r.choice(("no such column", "", name)), r.choice((column, others[0])))
        case 3 if pyarrow.types.is_string(column.type):
            return batch.set_column(number, name, column.dictionary_encode())
        case 4:
            return r.choice(others)
        case 5:
            return pyarrow.array([None, *batch.to_pylist()[:1]], pyarrow.struct(batch.schema))
        case 6:
            held = Held(batch.__arrow_c_array__())
            pyarrow.RecordBatch._import_from_c_capsule(*held.capsules)
            return held
        case 7:
            stream = HeldStream(table.__arrow_c_stream__())
            if r.random() < 0.5:
                pyarrow.RecordBatchReader._import_from_c_capsule(stream.capsule)
            return stream
        case 8:
            # our error: pyarrow's own leaks its text
            columns = import_module(f"{module.__name__}.columns").BATCH
            return HeldStream(stream_capsule(columns, failing([module.decode_batch(b"")] * r.randrange(3))))
        case _:
            spoilt_all = [spoilt(batch.column(i), r) for i in range(len(names))]
            return pyarrow.RecordBatch.from_arrays(spoilt_all, names=names)


def arrow(data: bytes) -> None:
    if len(data) < 3 or pyarrow is None:
        return
    module, decoding, encoding = PROTOCOLS[data[0] % len(PROTOCOLS)]
    table = pyarrow.table(module.decode_batch(data[3:], strictness="lax", **decoding))
    good = table.filter(table.column("error").is_null()).drop_columns(["error"])
    options = dict(encoding)
    if len(good) == 0:
        return
    try:
        octets = module.encode_batch(good, **options)
    except EncodeError as error:
        octets = str(error)
    try:
        again = module.encode_batch(relaid(good, data[2]), **options)
    except EncodeError as error:
        again = str(error)
    same(again, octets, f"in layout {data[2]}")
    if module is mqtt:
        options |= {"version": None}
    if len(good) < len(table):
        try:
            module.encode_batch(table, **options)
        except EncodeError as error:
            same("row " in str(error), True, f"no row is named: {error}")
        else:
            raise AssertionError("a row with an error has been written")
    r = random.Random(data)
    for choice in (data[1], data[2]):
        wrong = damaged(module, good, choice, r)
        for _ in range(2):  # a consumed capsule is empty
            try:
                made = module.encode_batch(wrong, **options)
            except EncodeError as error:
                same("row " in str(error), True, f"no row is named: {error}")
            except (ValueError, TypeError) as error:
                same(bool(str(error)), True, "says why")
            else:
                same(isinstance(made, bytes), True, "octets")
                module.decode_batch(made, strictness="lax", **decoding)


def times_of(data: bytes, count: int) -> Any:
    """A column of times, some of them null, anywhere within the days that Arrow can write."""
    unit, most = (("s", 2**46), ("ms", 2**56), ("us", 2**63), ("ns", 2**63))[data[1] % 4]
    found = [int.from_bytes(data[i % len(data) :][:8], "big", signed=True) for i in range(count)]
    kind = pyarrow.timestamp(unit, "UTC")
    return pyarrow.array([t % most - (most // 2 if t & 1 else 0) if t & 6 else None for t in found], kind)


def check_text(table: Any, rows: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    """Lines are read back as the values of the rows, in which times are numbers."""
    kind = pyarrow.struct(list(table.schema))
    text, cells = json_lines(table), csv_lines(table)
    same([json.loads(line) for line in text.split(b"\n")[:-1]], [lines.json_value(kind, row) for row in rows], "JSON")
    named, *told = csv.reader(io.StringIO(cells.decode(), newline=""))
    same(len(told), len(rows), "lines of CSV")
    for line, row in zip(told, rows, strict=True):
        made = dict(zip(named, line, strict=True))
        for field in table.schema:
            if lines.is_text(field.type) or lines.is_octets(field.type):
                same(made[field.name], lines.csv_text(field.type, row[field.name]) or "", field.name)
            elif lines.is_list(field.type):
                value = json.loads(made[field.name] or "null")
                same(value, lines.json_value(field.type, row[field.name]), field.name)
    return text, cells


def arrow_text(data: bytes) -> None:
    if len(data) < 3 or pyarrow is None:
        return
    module, decoding, _ = PROTOCOLS[data[0] % len(PROTOCOLS)]
    table = pyarrow.table(module.decode_batch(data[3:], strictness="lax", **decoding))
    rows = table.to_pylist()
    times = times_of(data, len(rows))
    timed = table.append_column("ts", times)
    for row, value in zip(rows, times.cast(pyarrow.int64()).to_pylist(), strict=True):
        row["ts"] = value
    text, cells = check_text(timed, rows)
    again = relaid(table, data[2] & ~8).append_column("ts", times) if len(rows) else timed
    same(json_lines(again), text, f"JSON in layout {data[2]}")
    if all(kind != pyarrow.null() for kind in again.schema.types):  # a struct of nulls has become one cell
        same(csv_lines(again), cells, f"CSV in layout {data[2]}")
    if not len(rows):
        return
    r = random.Random(data)
    wrong = damaged(module, table, data[1], r)
    for write in (json_lines, csv_lines):
        try:
            made = write(wrong)
        except EncodeError as error:
            same("row " in str(error), True, f"no row is named: {error}")
        except (ValueError, TypeError) as error:
            same(bool(str(error)), True, "says why")
        else:
            made.decode()


def seeds() -> Iterator[bytes]:
    for number, data in enumerate(batch_seeds()):
        if number % 7 == 0:
            yield data[:1] + bytes((number // 7 % 256, number // 3 % 256)) + data[2:] * (1 + number % 3)
        if number % 49 == 0:  # a row with an error after them
            yield (
                data[:1]
                + bytes((number // 7 % 256, number // 3 % 256))
                + data[2:]
                + b"\xff\x7f\xff\xff\xff\xff\xff\xff"
            )


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "arrow_source": (arrow, seeds),
    "arrow_text": (arrow_text, seeds),
}
