"""Rows of columns as JSON lines and CSV: the text of Python's json and of pyarrow.csv, for every type and layout of columns."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.paths import ROOT
from wirefmt import capture, mqtt
from wirefmt.batch import csv_lines, json_lines
from wirefmt.errors import EncodeError

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

from lib import lines  # noqa: E402

UNITS = ("s", "ms", "us", "ns")
PLAIN = [
    pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3),
    *(pa.timestamp(unit, "UTC") for unit in UNITS),
]  # fmt: skip
#: A name ends at U+0000: the C data interface has strings of C.
NAMES = st.one_of(
    st.sampled_from(["ts", "mqtt", 'a"b', "c,d", "\\", "é\n", ""]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4),
)


def fields(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(NAMES, kinds), max_size=4, unique_by=lambda pair: pair[0]).map(
        lambda pairs: [pa.field(name, kind) for name, kind in pairs]
    )


def nested(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from([pa.string(), pa.int16()])
    return st.one_of(
        kinds.map(pa.list_),
        kinds.map(pa.large_list),
        st.tuples(keys, kinds).map(lambda pair: pa.map_(*pair)),
        fields(kinds).map(pa.struct),
    )


KINDS = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=5)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text('ab"\\\n\r\t\b\f\0\x1f\x7f\x80é€😀=,', max_size=40),
    st.sampled_from(["", "base64:", "base64:AA==", "x" * 8, 'x"' * 20]),
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    t = pa.types
    if t.is_null(kind):
        return st.none()
    if t.is_boolean(kind):
        found: st.SearchStrategy[Any] = st.booleans()
    elif t.is_integer(kind):
        low, high = (-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1)
        if str(kind).startswith("u"):
            low, high = 0, (1 << kind.bit_width) - 1
        found = st.one_of(st.sampled_from([low, high, 0]), st.integers(low, high))
    elif t.is_timestamp(kind):
        # beyond days of nearly 32 bits Arrow's own text is undefined
        most = min(2**63 - 1, 2**30 * 86400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit] - 1)
        found = st.one_of(
            st.integers(-most, most), st.integers(-(10**10), 10**10), st.sampled_from([0, -1, most, -most])
        )
    elif lines.is_text(kind):
        found = TEXTS
    elif t.is_fixed_size_binary(kind):
        found = st.binary(min_size=3, max_size=3)
    elif lines.is_octets(kind):
        found = st.one_of(st.binary(max_size=30), TEXTS.map(str.encode))
    elif t.is_map(kind):
        entry = st.tuples(values(kind.key_type).filter(lambda key: key is not None), values(kind.item_type))
        return st.none() | st.lists(entry, max_size=3)
    elif lines.is_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=4)
    else:
        return st.none() | st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    return st.none() | found


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, list[dict[str, Any]]]:
    schema = pa.schema(draw(fields(KINDS)))
    row = st.fixed_dictionaries({field.name: values(field.type) for field in schema})
    return schema, draw(st.lists(row, max_size=6))


@given(tables(), st.integers(0, 6))
def test_lines_are_those_of_json_and_arrow(made: tuple[Any, list[dict[str, Any]]], cut: int) -> None:
    schema, rows = made
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    table = pa.RecordBatch.from_arrays(columns, schema=schema)
    rows = rows[: table.num_rows]  # no columns, no rows
    assert json_lines(table) == lines.lines_of_json(schema, rows)
    if sum(
        kind.num_fields if pa.types.is_struct(kind) else 1 for kind in schema.types
    ):  # otherwise pyarrow.csv writes nothing
        assert csv_lines(table) == lines.lines_of_csv(schema, rows)
    # the second part of the rows, and both parts as a stream
    assert json_lines(table.slice(cut)) == lines.lines_of_json(schema, rows[cut:])
    parts = pa.Table.from_batches([table.slice(0, cut), table.slice(cut)])
    assert json_lines(parts) == json_lines(table)
    assert csv_lines(parts, header=False) == csv_lines(table)[len(csv_lines(table.slice(0, 0))) :]
    for line, row in zip(json_lines(table).decode().split("\n"), rows, strict=False):
        assert json.loads(line) == lines.json_value(pa.struct(list(schema)), row)


@pytest.mark.parametrize("name", ["mosquitto-paho-v5.pcap"])
def test_lines_of_a_capture(name: str) -> None:
    with capture.read(ROOT / "samples" / name, raw=True, detail=True, vlan=True) as reader:
        table = pa.table(reader)
    times = [i for i, kind in enumerate(table.schema.types) if pa.types.is_timestamp(kind)]
    plain = table
    for i in times:
        plain = plain.set_column(i, table.column_names[i], table.column(i).cast(pa.int64()))
    rows = plain.to_pylist()
    assert json_lines(table) == lines.lines_of_json(table.schema, rows)
    assert csv_lines(table) == lines.lines_of_csv(table.schema, rows)


def one(value: object, kind: Any) -> Any:
    return pa.record_batch({"x": pa.array([value], kind)})


@pytest.mark.parametrize("size", [4088, 4095, 4096, 4097, 8192, 20_000])
@pytest.mark.parametrize("of", ["x", '"', "\0", "é", "\\\n", "€x"])
def test_long_texts(size: int, of: str) -> None:
    text = (of * size)[:size]
    for value, kind in ((text, pa.string()), (text.encode(), pa.binary()), (text.encode() + b"\xff", pa.binary())):
        rows = [{"x": value}]
        schema = pa.schema({"x": kind})
        assert json_lines(one(value, kind)) == lines.lines_of_json(schema, rows)
        assert csv_lines(one(value, kind)) == lines.lines_of_csv(schema, rows)


def test_many_rows_and_columns_that_begin_late() -> None:
    """The output grows; a column may have its first value in a later array."""
    rows = [{"a": i if i % 3 else None, "b": "x" * (i % 50), "c": [i] if i > 900 else None} for i in range(1000)]
    schema = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.list_(pa.int32())})
    table = pa.Table.from_pylist(rows, schema)
    whole = pa.Table.from_batches([b for i in range(0, 1000, 100) for b in table.slice(i, 100).to_batches()])
    assert json_lines(whole) == lines.lines_of_json(schema, rows)
    assert csv_lines(whole) == lines.lines_of_csv(schema, rows)


def test_batches_of_decoders() -> None:
    octets = mqtt.Publish(topic_name="t", payload=b"\xff", qos=1, packet_identifier=7).encode()
    batch = mqtt.decode_batch(octets * 2, version=5, columns=("byte_offset", "destination", "payload"))
    assert json_lines(batch) == (
        b'{"byte_offset":0,"destination":"t","payload":{"base64":"/w=="}}\n'
        b'{"byte_offset":9,"destination":"t","payload":{"base64":"/w=="}}\n'
    )
    assert csv_lines(batch, header=False) == b'0,"t","base64:/w=="\n9,"t","base64:/w=="\n'
    assert next(csv.reader(io.StringIO(csv_lines(batch).decode()))) == ["byte_offset", "destination", "payload"]


def test_tables_without_rows_or_columns() -> None:
    schema = pa.schema({"a": pa.int8(), "s": pa.struct({"b": pa.string(), 'c"': pa.list_(pa.string())})})
    for empty in (schema.empty_table(), pa.RecordBatch.from_pylist([], schema)):
        assert json_lines(empty) == b""
        assert csv_lines(empty) == b'"a","s.b","s.c"""\n'
        assert csv_lines(empty, header=False) == b""
    assert json_lines(pa.array([{}, {}], pa.struct([]))) == b"{}\n{}\n"


def deep(levels: int) -> Any:
    kind = pa.int8()
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize("write", [json_lines, csv_lines])
@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (one(1.5, pa.float64()), ValueError, "column 'x' is of Arrow format 'g'"),
        (one(0, pa.timestamp("us")), ValueError, "column 'x' is of Arrow format 'tsu:'"),
        (one(0, pa.timestamp("us", "Asia/Tokyo")), ValueError, "Arrow format 'tsu:Asia/Tokyo'"),
        (one([1, 2], pa.list_(pa.int8(), 2)), ValueError, r"Arrow format '\+w:2'"),
        (pa.record_batch({"x": pa.array(["a"]).dictionary_encode()}), ValueError, "dictionary-encoded"),
        (pa.record_batch([pa.array([1]), pa.array([2])], names=["x", "x"]), ValueError, "'x' is there twice"),
        (one(None, deep(17)), ValueError, "at most 16 levels"),
        (pa.array([1]), ValueError, "a table, a record batch or an array of structs"),
        (pa.array([{"a": 1}, None]), EncodeError, "row 1: null"),
        ([{"x": 1}], TypeError, "not list"),
        (b"x", TypeError, "not bytes"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_such_columns(write: Any, data: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        write(data)


def test_nesting_as_deep_as_allowed() -> None:
    value: Any = 1
    for _ in range(15):
        value = [value]
    assert json_lines(one(value, deep(15))) == b'{"x":' + b"[" * 15 + b"1" + b"]" * 15 + b"}\n"


@pytest.mark.parametrize("write", [json_lines, csv_lines])
def test_text_that_is_not_utf_8_and_offsets_out_of_range(write: Any) -> None:
    offsets = pa.array([0, 1, 2, 10], pa.int32()).buffers()[1]
    text = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"ab\xc3 23456789"))
    with pytest.raises(EncodeError, match="column 's', row 2: text that is not UTF-8"):
        write(pa.record_batch({"s": text}))
    inner = pa.record_batch({"s": pa.ListArray.from_arrays([0, 0, 3], text)})
    with pytest.raises(EncodeError, match=r"column 's\.item', row 1: text that is not UTF-8"):
        write(inner)
    offsets = pa.array([0, 9, 2, 3], pa.int32()).buffers()[1]
    with pytest.raises(EncodeError, match="column 's', row 0: offsets out of range"):
        write(
            pa.record_batch({"s": pa.BinaryArray.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"abc")])})
        )
