"""Decode one capture file, in one thread or in several.

Several threads share one reading of the file, and each decodes a part of the connections. A thread that takes a chunk first
reads one chunk ahead, so that no thread waits for the file, and dispatches its packets to the threads. No thread is more than
`SPAN` chunks ahead of another. The order of the batches does not depend on which thread is faster: for every span of chunks,
the batches of the first thread come first.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from queue import Queue
from typing import Any, NamedTuple

from wirefmt.batch import Batch
from wirefmt.capture._engine import CaptureDecoder, Dispatcher, Share
from wirefmt.capture.keylog import Secrets
from wirefmt.capture.sources import LIVE_WAIT, READ_FAULTS, Chunks, Source, look_ahead
from wirefmt.errors import CaptureError
from wirefmt.spec.options import Options

#: Chunks that are kept for the slowest thread, and after which a thread tells the caller. It is one number, so that a thread that
#: waits for a slower one has told the caller all that it wants before it goes on with the slower one.
SPAN = 8
#: Batches of a thread that wait for the caller.
WAITING = 1
#: Bytes of a batch of a thread, at least.
LEAST_BATCH = 2 << 20
#: Limits that all threads share.
SHARED = ("max_flows", "max_buffered")

#: Is called with what ended the reading of a file before its end.
Failed = Callable[[str], object]


class Ends(NamedTuple):
    """TCP connections that have ended, as rows of the transport table: all their messages were in earlier batches."""

    batch: Batch


class Mark(Enum):
    """What a thread says beside its batches: it has decoded a span of chunks; it has ended."""

    SPAN = 0
    END = 1


def decoders_for(options: Options, transport: bool = False) -> tuple[list[CaptureDecoder], Dispatcher | None]:
    """A decoder for each of `options.threads`, with its share of the limits; for several, what gives them their segments."""
    count = options.threads
    limits = options.all_limits()
    limits |= {name: max(1, limits[name] // count) for name in SHARED}
    # each thread has a batch that it fills, and WAITING others
    octets = min(options.batch_bytes, max(options.batch_bytes // count, LEAST_BATCH))
    part = replace(options, threads=1, limits=limits, batch_bytes=octets)
    secrets = Secrets(options.keylog, options.keys)
    decoders = [CaptureDecoder(part, transport=transport, secrets=secrets) for _ in range(count)]
    return decoders, Dispatcher(options, secrets) if count > 1 else None


def stats_of(decoders: Sequence[CaptureDecoder], dispatcher: Dispatcher | None) -> dict[str, Any]:
    """The counters of decoders of one capture, as those of one decoder."""
    total: dict[str, Any] = decoders[0].stats
    if dispatcher is None:
        return total
    summed: dict[str, Any] = _sum([total, dispatcher.stats, *(decoder.stats for decoder in decoders[1:])])
    return summed | {"files": total["files"]}


def _sum(parts: Sequence[Any]) -> Any:
    """Of mappings: the sums of their values, by key."""
    if not isinstance(parts[0], Mapping):
        return sum(parts)
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _sum([part[name] for part in parts if name in part]) for name in names}


class Shares:
    """The shares of a capture file for several threads: each takes its own, chunk after chunk."""

    def __init__(
        self, chunks: Chunks, dispatcher: Dispatcher, threads: int, failed: Failed = lambda said: None
    ) -> None:
        self.chunks = chunks
        self._source = _dispatch(chunks, dispatcher, failed)
        self._kept: dict[int, tuple[Share, ...]] = {}
        self._read = 0  # chunks
        self._taken = [0] * threads
        self._reading = self._over = False
        self._fault: BaseException | None = None
        self._changed = threading.Condition()

    def take(self, thread: int) -> Share | None:
        """The next share of this thread; None: the capture has ended. Raises what reading raised, in each thread."""
        at = self._taken[thread]
        while self._begin_read(at):
            self._end_read()
        with self._changed:
            shares = self._kept.get(at)
            if shares is None:
                if self._fault is not None:
                    raise self._fault
                return None
            self._taken[thread] += 1
            if min(self._taken) > at:
                del self._kept[at]
                self._changed.notify_all()
            return shares[thread]

    def stop(self) -> None:
        """No more is read, and no thread waits for another."""
        self.chunks.cut = True
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _begin_read(self, at: int) -> bool:
        """Wait for chunk `at`. True: the caller must read the next one, as that chunk or ahead of it."""
        with self._changed:
            while at == self._read and not self._over and (self._reading or self._is_full()):
                self._changed.wait()
            ahead = not self.chunks.live  # what a pipe has sent is decoded at once
            if self._read > at + ahead or self._over or self._reading or self._is_full():
                return False
            self._reading = True
            return True

    def _is_full(self) -> bool:
        return self._read - min(self._taken) >= SPAN

    def _end_read(self) -> None:
        shares = fault = None
        try:
            shares = next(self._source, None)
        except BaseException as caught:
            fault = caught
        with self._changed:
            self._reading = False
            if shares is None:
                self._over, self._fault = True, fault
            else:
                self._kept[self._read] = shares
                self._read += 1
            self._changed.notify_all()


def _dispatch(chunks: Chunks, dispatcher: Dispatcher, failed: Failed) -> Iterator[tuple[Share, ...]]:
    said = None
    try:
        for chunk in chunks:
            yield dispatcher.dispatch(chunk)
            if dispatcher.not_a_capture:
                break
    except READ_FAULTS as fault:
        failed(said := _said(fault))
    if not chunks.cut:
        yield dispatcher.end_file(said)


class _Part:
    """The shares of one thread; after each span it tells the caller."""

    def __init__(self, shared: Shares, thread: int, out: Queue[Any]) -> None:
        self._shared, self._thread, self._out = shared, thread, out

    @property
    def live(self) -> bool:
        return self._shared.chunks.live

    @property
    def cut(self) -> bool:
        return self._shared.chunks.cut

    def __iter__(self) -> Iterator[Share]:
        count = 0
        while (share := self._shared.take(self._thread)) is not None:
            yield share
            count += 1
            if self.live or count % SPAN == 0:
                self._out.put(Mark.SPAN)


def _work(decoder: CaptureDecoder, part: _Part, out: Queue[Any]) -> None:
    try:
        for batch in _decode_pieces(decoder, part, _feed_share):
            out.put(batch)
    except BaseException as fault:
        out.put(fault)
    out.put(Mark.END)


def _decode_in_threads(
    several: Sequence[CaptureDecoder], dispatcher: Dispatcher, chunks: Chunks, failed: Failed
) -> Iterator[Batch | Ends | None]:
    shared = Shares(chunks, dispatcher, len(several), failed)
    at_work: list[Queue[Any]] = []
    try:
        for i, decoder in enumerate(several):
            out: Queue[Any] = Queue(WAITING)
            # daemon: a program may end while a reader that it has not closed waits for its next batch
            threading.Thread(target=_work, args=(decoder, _Part(shared, i, out), out), daemon=True).start()
            at_work.append(out)
        while at_work:
            for out in list(at_work):
                while not isinstance(item := out.get(), Mark):
                    if isinstance(item, BaseException):
                        raise item
                    yield item
                if item is Mark.END:
                    at_work.remove(out)
    finally:
        shared.stop()
        if not sys.is_finalizing():  # at the end of a program its daemon threads do not run any more
            for out in at_work:
                while out.get() is not Mark.END:
                    pass


def taken(decoder: CaptureDecoder, final: bool = False) -> Iterator[Batch | Ends]:
    """The batch of a decoder if it is full; with `final`, the rows so far. Then its connections that have ended, if it counts
    their traffic: no row of theirs is left in the decoder."""
    if (batch := decoder.take(final)) is not None:
        yield batch
    if decoder.counts_traffic and (final or batch is not None) and (ends := decoder.take_transport()) is not None:
        yield Ends(ends)


def _feed_chunk(decoder: CaptureDecoder, chunk: memoryview) -> Iterator[Batch | Ends]:
    at = 0
    while at < len(chunk):
        at += decoder.feed(chunk[at:])
        yield from taken(decoder)


def _feed_share(decoder: CaptureDecoder, share: Share) -> Iterator[Batch | Ends]:
    done = False
    while not done:
        done = decoder.feed_share(share)
        yield from taken(decoder)


def _decode_pieces(
    decoder: CaptureDecoder,
    pieces: Any,
    feed: Callable[[CaptureDecoder, Any], Iterator[Batch | Ends]],
    failed: Failed = lambda said: None,
) -> Iterator[Batch | Ends | None]:
    """Feed the chunks or shares of a file, and end it."""
    try:
        handed = time.monotonic()
        for piece in pieces:
            yield from feed(decoder, piece)
            if feed is _feed_chunk and decoder.not_a_capture:
                break  # however long it is
            if pieces.live and (not piece or time.monotonic() - handed > LIVE_WAIT):
                items: list[Batch | Ends | None] = list(taken(decoder, final=True))
                yield from items or [None]
                handed = time.monotonic()
    except READ_FAULTS as fault:
        failed(said := _said(fault))
        decoder.report(said)
    if pieces.cut:
        return  # an incomplete record is not an error of the file
    while not decoder.end_file():
        yield from taken(decoder)


def _said(fault: Exception) -> str:
    """The text of a row. Raises an error that is of all captures, not of the bytes read."""
    if isinstance(fault, CaptureError):
        raise fault
    return f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__


def decode_source(
    decoders: Sequence[CaptureDecoder],
    source: Source,
    index: int,
    count: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    dispatcher: Dispatcher | None = None,
    failed: Failed = lambda said: None,
) -> Iterator[Batch | Ends | None]:
    """Decode one capture file: yield its full batches and leave the last rows in the decoders.

    For a pipe, rows are emitted within `sources.LIVE_WAIT` seconds; None is yielded if nothing arrived in this time.

    Args:
        decoders: one, or several with a dispatcher as `decoders_for` makes them, each for a thread.
        count: called with the number of bytes of each read.
        stopped: called after each chunk; True ends the file there.
        failed: called with what ended the reading before the end of the file; it is a row, too.

    Raises:
        CaptureError: the file cannot be opened. A truncated file becomes a row.
        ValueError: several decoders without a dispatcher: only the first would decode.
    """
    if dispatcher is None and len(decoders) > 1:
        raise ValueError("several decoders need a dispatcher; capture.read(..., threads=N) makes them")
    decoders[0].secrets.begin(*look_ahead(source, threads=len(decoders)))
    for decoder in decoders:
        decoder.begin_file(source.name, index)
    with Chunks(source, count, stopped, shared=dispatcher is not None) as chunks:
        if dispatcher is None:
            yield from _decode_pieces(decoders[0], chunks, _feed_chunk, failed)
        else:
            dispatcher.begin_file(index)
            yield from _decode_in_threads(decoders, dispatcher, chunks, failed)
