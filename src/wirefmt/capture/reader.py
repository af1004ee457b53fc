"""`read`: a capture, or many, to batches of the message table, in memory that does not grow with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from wirefmt._core import Batch, schema_capsule, stream_capsule
from wirefmt.capture._engine import CaptureDecoder
from wirefmt.capture.sources import LIVE_WAIT, READ_FAULTS, Chunks, Source, find
from wirefmt.errors import CaptureError
from wirefmt.spec.table import COLUMNS, Column


def read(
    source: Any,
    *,
    protocols: Sequence[str] | None = None,
    decode_as: str | Sequence[str] = (),
    columns: Sequence[str] | None = None,
    payload: bool = True,
    payload_max: int | None = None,
    expose_credentials: bool = False,
    strictness: str = "lax",
    batch_rows: int = 16384,
    batch_bytes: int = 16 << 20,
    flows: str = "in-file",
    tunnels: bool = False,
    slice: tuple[int, int] = (0, 1),
    limits: Mapping[str, int] | None = None,
    octets: bool = False,
    detail: bool = False,
) -> Reader:
    """Decode packet captures: pcap and pcapng, also inside gzip and zstd.

    Args:
        source: a path, glob, directory, fsspec URL, `-` (standard input), open binary file, or a list of these. From a
            pipe, rows are handed out as they come, in batches that are not full.
        protocols: names to look for; all by default.
        decode_as: rules like `tcp.port==8884,mqtt` that decide the protocol of a port, whatever its octets look like.
        columns: names of the message table's columns to fill, in the order wanted; all by default.
        payload: False leaves message payloads out.
        payload_max: octets of a payload to keep; None keeps all. `payload_size` is the whole size in both cases.
        expose_credentials: True shows secrets, which are hidden otherwise: docs/secrets.md.
        strictness: "lax" reads what can be framed and notes breaches in `error`; "strict" calls them malformed.
        batch_rows, batch_bytes: a batch is handed out when it has one of them.
        flows: "in-file": each file stands alone; "across-files": the files are one capture, rotated, in this order.
        tunnels: also look inside VXLAN, GENEVE, GRE, IP in IP ...
        slice: (i, n): only flows whose hash falls to i of n; the n slices together are exactly the whole.
        limits: see `CaptureDecoder.LIMITS`: max_flows, max_out_of_order, max_message, max_buffered,
            max_inflated, idle_seconds.
        octets: True fills the column `octets`, which wirefmt.convert takes.
        detail: True fills the column `detail`, the message in one line for people.

    Returns: a Reader.
    Raises: CaptureError where a file is missing or unreadable, or where the one capture given is none at all. Anything
        wrong further on, and a file among several that is no capture, is a row with status malformed. ValueError for an
        option that cannot be.
    """
    decoder = CaptureDecoder(
        protocols=protocols,
        decode_as=decode_as,
        columns=columns,
        payload=payload,
        payload_max=payload_max,
        expose_credentials=expose_credentials,
        strictness=strictness,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        flows=flows,
        tunnels=tunnels,
        slice=slice,
        limits=limits,
        octets=octets,
        detail=detail,
    )
    alone = not isinstance(source, Sequence) or isinstance(source, str)
    return Reader(decoder, find(source), columns, alone=alone)


class Schema:
    """The columns of a reader; `pyarrow.schema(...)` and other Arrow libraries take it as it is."""

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        by_name = {c.name: c for c in COLUMNS}
        self.columns: tuple[Column, ...] = COLUMNS if columns is None else tuple(by_name[name] for name in columns)

    @property
    def names(self) -> list[str]:
        return [c.name for c in self.columns]

    def __arrow_c_schema__(self) -> object:
        return schema_capsule(COLUMNS, self.names)

    def __repr__(self) -> str:
        return f"Schema({self.names})"


class Reader(AbstractContextManager["Reader"]):
    """Iterates `Batch`es of the message table, once; also an Arrow stream: `pyarrow.table(reader)`.

    Attributes:
        schema: the columns, in order.
        stats: counters of everything seen, passed over and limited; see `CaptureDecoder.stats`.
        stopped: stop() was called.
        bytes_read, bytes_total: octets of the files as stored (compressed); the total is None where it is not known.
    """

    def __init__(
        self, decoder: CaptureDecoder, sources: list[Source], columns: Sequence[str] | None, *, alone: bool
    ) -> None:
        self.schema = Schema(columns)
        self.bytes_read = 0
        sizes = [s.size for s in sources]
        self.bytes_total = None if None in sizes else sum(s for s in sizes if s is not None)
        self._decoder = decoder
        self.stopped = False
        self._batches = self._run(sources, alone and len(sources) == 1)
        # the first batch or pause: what is no capture at all is told at once
        self._first: Batch | None = next(self._batches, None) if alone and len(sources) == 1 else None

    @property
    def stats(self) -> dict[str, Any]:
        return self._decoder.stats

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch, self._first = self._first, None
        while batch is None:
            batch = next(self._batches)
        return batch

    def stop(self) -> None:
        """Read no more. The rows of what has been read follow, as at the end of the captures. For signal handlers."""
        self.stopped = True

    def close(self) -> None:
        """Close what is open; no batch follows."""
        self._first = None
        self._batches.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return stream_capsule(COLUMNS, self, self.schema.names)

    def _count(self, octets: int) -> None:
        self.bytes_read += octets

    def _run(self, sources: list[Source], alone: bool) -> Generator[Batch | None]:
        decoder = self._decoder
        for index, source in enumerate(sources):
            for batch in decode_source(decoder, source, index, self._count, lambda: self.stopped):
                if alone and decoder.not_a_capture:
                    break
                yield batch
            if alone and decoder.not_a_capture:
                raise CaptureError(f"cannot read {source.name!r}: {decoder.fault}")
            if self.stopped:
                break
        while not decoder.finish():
            yield decoder.take()
        if (batch := decoder.take(final=True)) is not None:
            yield batch


def decode_source(
    decoder: CaptureDecoder,
    source: Source,
    index: int,
    count: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Batch | None]:
    """One capture file through a decoder: its full batches, the last of them left in the decoder.

    From a pipe, rows are handed out within `sources.LIVE_WAIT` seconds, and None where nothing has come for so long.

    Args:
        count: is told how many bytes were read.
        stopped: asked after each chunk; True ends the file there.

    Raises:
        CaptureError: the file cannot be opened. One that breaks off becomes a row.
    """
    decoder.begin_file(source.name, index)
    try:
        with Chunks(source, count) as chunks:
            handed = time.monotonic()
            for chunk in chunks:
                at = 0
                while at < len(chunk):
                    at += decoder.feed(chunk[at:])
                    if (batch := decoder.take()) is not None:
                        yield batch
                if chunks.live and (not chunk or time.monotonic() - handed > LIVE_WAIT):
                    yield decoder.take(final=True)
                    handed = time.monotonic()
                if stopped():
                    break
    except READ_FAULTS as fault:
        if isinstance(fault, CaptureError):
            raise
        decoder.report(f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__)
    if stopped():
        return  # the rest of a record is no fault of the file
    while not decoder.end_file():
        if (batch := decoder.take()) is not None:
            yield batch
