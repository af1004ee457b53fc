"""`read`: a capture, or many, to batches of the message table, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from wirefmt._core import Batch, CaptureDecoder, schema_capsule, stream_capsule
from wirefmt.capture.sources import READ_FAULTS, Chunks, Source, find
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
) -> Reader:
    """Decode packet captures: pcap and pcapng, also inside gzip and zstd.

    Args:
        source: a path, glob, directory, fsspec URL, `-` (standard input), open binary file, or a list of these.
        protocols: names to look for; all by default.
        decode_as: rules like `tcp.port==8884,mqtt` that decide the protocol of a port, whatever its octets look like.
        columns: names of the message table's columns to fill, in the order wanted; all by default.
        payload: False leaves message payloads out.
        payload_max: octets of a payload to keep; None keeps all. `payload_size` is the whole size in both cases.
        expose_credentials: True shows passwords and authentication data.
        strictness: "lax" reads what can be framed and notes breaches in `error`; "strict" calls them malformed.
        batch_rows, batch_bytes: a batch is handed out when it has one of them.
        flows: "in-file": each file stands alone; "across-files": the files are one capture, rotated, in this order.
        tunnels: also look inside VXLAN, GENEVE, GRE, IP in IP ...
        slice: (i, n): only flows whose hash falls to i of n; the n slices together are exactly the whole.
        limits: see `CaptureDecoder.LIMITS`: max_flows, max_out_of_order, max_message, max_buffered,
            max_inflated, idle_seconds.
        octets: True fills the column `octets`, which wirefmt.convert takes.

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
        self._batches = self._run(sources)
        self._first: Batch | None = None
        if alone and len(sources) == 1:
            # up to the first batch, so that what is no capture at all is told at once
            self._first = next(self._batches, None)
            if decoder.not_a_capture:
                self._batches.close()
                raise CaptureError(f"cannot read {sources[0].name!r}: {decoder.fault}")

    @property
    def stats(self) -> dict[str, Any]:
        return self._decoder.stats

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._first is not None:
            batch, self._first = self._first, None
            return batch
        following: Batch = next(self._batches)
        return following

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

    def _run(self, sources: list[Source]) -> Any:
        decoder = self._decoder
        for index, source in enumerate(sources):
            yield from decode_source(decoder, source, index, self._count)
        while not decoder.finish():
            yield decoder.take()
        if (batch := decoder.take(final=True)) is not None:
            yield batch


def decode_source(
    decoder: CaptureDecoder, source: Source, index: int, count: Callable[[int], None] = lambda _: None
) -> Iterator[Batch]:
    """One capture file through a decoder: its full batches, the last of them left in the decoder.

    `count` is told of the octets read. A file that breaks off becomes an error row; one that cannot be opened raises
    CaptureError.
    """
    decoder.begin_file(source.name, index)
    try:
        with Chunks(source, count) as chunks:
            for chunk in chunks:
                at = 0
                while at < len(chunk):
                    at += decoder.feed(chunk[at:])
                    if (batch := decoder.take()) is not None:
                        yield batch
    except READ_FAULTS as fault:
        if isinstance(fault, CaptureError):
            raise
        decoder.report(f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__)
    while not decoder.end_file():
        if (batch := decoder.take()) is not None:
            yield batch
