"""What every column says of a message, worked out from the fields of its object.

The core writes columns from octets and never from objects, so the two must be compared: `row_of` gives a message's row of
the message table, `batch_row_of` its row of `decode_batch`, both without what is null. `captured` puts messages into a
made-up TCP capture and gives their rows. The tests take the public vectors, the fuzz targets whatever they find.

Rules of columns are those of docs/message-table.md and of wirefmt.spec.table. Each protocol's are in tests/NAME/rows.py: `row`
and `batch_row` of a message, and `opening`, what a client says first. Credentials are exposed everywhere.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from lib.column_values import Json, Row
from lib.protocols import PORTS, part
from lib.wire import START, Tcp, pcap
from wirefmt import capture
from wirefmt.protocols import PROTOCOLS
from wirefmt.spec import table
from wirefmt.spec.columns import ON_REQUEST

#: What a row says of the capture and of its connection, and not of the message.
CONTEXT = tuple(c.name for c in table.COLUMNS[: [c.name for c in table.COLUMNS].index("protocol")])
#: Columns that this page says nothing of: they are asked for by options of their own.
APART = tuple(c.name for c in ON_REQUEST)
ROWS = {row.name: part(row.name, "rows") for row in PROTOCOLS}


def sparse(row: Row) -> Row:
    """Without what is null, in structs as well."""
    return {k: sparse(v) if isinstance(v, dict) else v for k, v in row.items() if v is not None and k not in APART}


def row_of(protocol: str, message: Any, direction: int, **more: Any) -> Row:
    """The row of the message table, without what the capture says. `more`: what the object does not say, as the protocol's
    `row` takes it."""
    return sparse({"protocol": protocol, "status": "ok", **ROWS[protocol].row(message, direction, **more)})


def batch_row_of(protocol: str, message: Any, content: Any = None) -> Row:
    """The row of decode_batch, except byte_offset and wire_size. `content`: the message of a transfer."""
    return sparse(ROWS[protocol].batch_row(message, *(() if content is None else (content,))))


# ------------------------------------------------------------------------------------------------ made-up captures


class Case(NamedTuple):
    """Octets that one side sends, alone on a connection behind what opens it."""

    octets: bytes
    direction: int
    version: int = 0  # MQTT's


def opening(protocol: str, case: Case) -> bytes:
    """What a client says first."""
    return ROWS[protocol].opening(case.version)


def captured(protocol: str, cases: Sequence[Case], **options: Any) -> list[list[Row]]:
    """The rows of each case, with what the capture says of them checked and taken off."""
    frames: list[bytes] = []
    began: list[int] = []
    for number, case in enumerate(cases):
        tcp = Tcp(PORTS[protocol], client_port=20000 + number)
        first = opening(protocol, case)
        frames += [*tcp.open(), *tcp.send(0, first)]
        began.append(len(frames) + 1)
        frames += [*tcp.send(case.direction, case.octets, 1 << 15), *tcp.close()]
    import pyarrow

    decode_as = f"tcp.port=={PORTS[protocol]},{protocol}"
    read = capture.read(
        io.BytesIO(pcap(frames)), decode_as=[decode_as], expose_credentials=True, strictness="strict", **options
    )
    found = pyarrow.table(read)
    found.validate(full=True)
    for name in ("ts", "ts_first"):  # pyarrow 23 leaks where it makes datetimes of them
        found = found.set_column(found.column_names.index(name), name, found[name].cast(pyarrow.int64()))
    rows: list[list[Row]] = [[] for _ in cases]
    for row in found.to_pylist():
        ports = (row["src_port"], row["dst_port"])
        number = ports[row["direction"]] - 20000
        case = cases[number]
        before = len(opening(protocol, case)) if case.direction == 0 else 0
        if row["frame_no"] < began[number]:
            continue  # what opens the connection
        context = {name: row.pop(name) for name in CONTEXT}
        last = row["frame_no"] if "frame_no" in row else context["frame_no"]
        assert context["ts_ns"] == START * 10**9 + (last - 1) * 10**6
        assert context["ts"] == context["ts_ns"] // 1000
        assert context["ts_first"] <= context["ts"]
        assert context["direction"] == case.direction
        assert context["byte_offset"] >= before
        assert context["flow_id"] is not None
        client, server = ("10.0.0.2", 20000 + number), ("10.0.0.1", PORTS[protocol])
        ends = (client, server) if case.direction == 0 else (server, client)
        assert ((context["src_ip"], context["src_port"]), (context["dst_ip"], context["dst_port"])) == ends
        row["byte_offset"] = context["byte_offset"] - before
        rows[number].append(sparse(row))
    return rows


def agree(got: Row, want: Row) -> list[str]:
    """Columns in which two rows differ, with what they say."""
    wrong = []
    if (
        isinstance(want.get("payload"), Json) and got.get("payload") is not None and "status" in want
    ):  # not of decode_batch
        want = want | {"payload_size": len(got["payload"])}
    for name in sorted({*got, *want}):
        a, b = got.get(name), want.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            wrong += [f"{name}.{line}" for line in agree(a, b)]
        elif not same_cell(a, b):
            wrong.append(f"{name}: {a!r}, the object says {b!r}")
    return wrong


def same_cell(a: Any, b: Any) -> bool:
    if isinstance(b, list) and isinstance(a, list):
        return len(a) == len(b) and all(map(same_cell, a, b))
    if isinstance(b, tuple) and isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_cell, a, b))
    if isinstance(b, Json):
        return b == a
    return (type(a) is type(b) and bool(a == b)) or (type(a) in (int, str, bytes) and bool(a == b))
