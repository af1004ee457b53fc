"""Rows of columns as text, written by Python's json and by pyarrow.csv, to compare with `json_lines` and `csv_lines`."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def is_octets(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def json_value(kind: pa.DataType, value: Any) -> Any:
    """A value (times: their number) as one of json."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return pc.strftime(pa.array([value], kind), "%Y-%m-%dT%H:%M:%SZ")[0].as_py()
    if is_octets(kind):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if pa.types.is_map(kind):
        return [[json_value(kind.key_type, k), json_value(kind.item_type, v)] for k, v in value]
    if is_list(kind):
        return [json_value(kind.value_type, item) for item in value]
    if pa.types.is_struct(kind):
        told = {field.name: json_value(field.type, value.get(field.name)) for field in kind}
        return {name: item for name, item in told.items() if item is not None}
    return value


def lines_of_json(schema: pa.Schema, rows: list[dict[str, Any]]) -> bytes:
    kind = pa.struct(list(schema))
    return "".join(f"{encoded(json_value(kind, row))}\n" for row in rows).encode()


def csv_text(kind: pa.DataType, value: Any) -> str | None:
    if value is None:
        return None
    if is_text(kind):
        return str(value)
    if not is_octets(kind):
        return encoded(json_value(kind, value))
    try:
        text: str = value.decode()
    except UnicodeDecodeError:
        text = "base64:"
    return text if not text.startswith("base64:") else "base64:" + base64.b64encode(value).decode()


def lines_of_csv(schema: pa.Schema, rows: list[dict[str, Any]]) -> bytes:
    cells: list[tuple[str, pa.DataType, list[Any]]] = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_struct(field.type):
            cells += [
                (f"{field.name}.{child.name}", child.type, [None if v is None else v.get(child.name) for v in values])
                for child in field.type
            ]
        else:
            cells.append((field.name, field.type, values))
    columns = []
    for _, kind, values in cells:
        if is_text(kind) or is_octets(kind) or pa.types.is_nested(kind):
            columns.append(pa.array([csv_text(kind, v) for v in values], pa.string()))
        else:
            columns.append(pa.array(values, kind))
    out = io.BytesIO()
    pyarrow.csv.write_csv(pa.record_batch(columns, [name for name, _, _ in cells]), out)
    return out.getvalue()
