"""What the Spark tests share: cutting captures, and rows that can be compared."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from wirefmt.spec.table import COLUMNS


def records(capture: Path) -> tuple[bytes, list[bytes]]:
    """File header and records of a pcap file, each record with its header; both byte orders."""
    data = capture.read_bytes()
    order: Literal["little", "big"] = "little" if data[0] in (0xD4, 0x4D) else "big"
    found = []
    at = 24
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], order)
        found.append(data[at : at + 16 + size])
        at += 16 + size
    return data[:24], found


def cut(capture: Path, at: Sequence[int], folder: Path) -> list[Path]:
    """The capture as rotated files, cut before the records whose numbers (from 0) are given."""
    header, all_records = records(capture)
    bounds = [0, *sorted(at), len(all_records)]
    files = []
    for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
        path = folder / f"{capture.stem}.pcap{number or ''}"
        path.write_bytes(header + b"".join(all_records[begin:end]))
        files.append(path)
    return files


def rows(table: Any, without: Iterable[str] = ()) -> list[str]:
    """Rows of an Arrow table (or of record batches) in a form that compares and sorts.

    Nulls are left out, as in JSON Lines: Spark's frames lack the columns that are there only on request.
    """
    import pyarrow as pa

    if not isinstance(table, pa.Table):
        table = pa.Table.from_batches(list(table))
    dropped = set(without)
    kept = [c for c in table.column_names if c not in dropped]
    said = ({name: value for name, value in row.items() if value is not None} for row in table.select(kept).to_pylist())
    return sorted(json.dumps(row, default=_plain, sort_keys=True) for row in said)


#: The columns of a frame for which none were chosen.
DEFAULT = [column.name for column in COLUMNS if column.name not in ("raw", "vlan")]


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def one_process(paths: Path | Iterable[Path], without: Iterable[str] = (), **options: Any) -> list[str]:
    """What `wirefmt.capture.read` gives in this process, file by file: the truth for Spark."""
    import pyarrow as pa

    from wirefmt import capture

    names = [str(paths)] if isinstance(paths, Path) else [str(p) for p in paths]
    with capture.read(names, **{"flows": "in-file", **options}) as reader:
        return rows(pa.table(reader), without)
