"""Packet captures to a Parquet message table.

    python -m pyspark_wirefmt INPUT... --out DIR            on this machine only; installs Java if there is none
    spark-submit spark/jobs/decode.py INPUT... --out DIR    the same on a cluster; any file that calls main() does

INPUT is a capture, glob, directory or URL. Prints a summary; shows progress if stderr is a terminal.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    options = dict(pair.partition("=")[::2] for pair in arguments.option)
    spark = session()
    from pyspark_wirefmt import decode_to_parquet

    mode = "overwrite" if arguments.overwrite else "append" if arguments.append else "error"
    started = time.perf_counter()
    try:
        with progress(spark):
            manifest = decode_to_parquet(spark, arguments.input, arguments.out, mode=mode, **options)
        taken = time.perf_counter() - started
        summary(spark, arguments.out, manifest, taken)
    except (FileExistsError, FileNotFoundError, RuntimeError, ValueError) as fault:
        print(f"decode: {fault}", file=sys.stderr)
        return 2
    finally:
        spark.stop()
    return 0


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m pyspark_wirefmt", description="Packet captures to a Parquet message table.",
        epilog="example: python -m pyspark_wirefmt samples/ --out out/messages -o payload=false",
    )  # fmt: skip
    p.add_argument("input", nargs="+", help="captures, globs, directories or URLs")
    p.add_argument("--out", required=True, help="folder for the Parquet files")
    existing = p.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="empty the folder first")
    existing.add_argument(
        "--append", action="store_true", help="keep existing files, except those of a job whose driver died"
    )
    p.add_argument(
        "-o", "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the data source"
    )
    return p


def session() -> SparkSession:
    """The session that spark-submit has prepared, or one on this machine."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from pyspark.sql import SparkSession

        return SparkSession.builder.appName("wirefmt decode").getOrCreate()
    from pyspark_wirefmt import local_session

    return local_session(app="wirefmt decode", install_java=True)


@contextmanager
def progress(spark: SparkSession) -> Iterator[None]:
    """Progress of tasks, on a terminal if rich is installed; otherwise nothing."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    bar = Progress(
        TextColumn("decoding"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn(),
        console=console, transient=True,
    )  # fmt: skip
    done = threading.Event()
    line = bar.add_task("", total=None)

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(0.2):
            stages = [info for s in tracker.getActiveStageIds() if (info := tracker.getStageInfo(s))]
            if stages:
                bar.update(line, total=stages[-1].numTasks, completed=stages[-1].numCompletedTasks)

    watcher = threading.Thread(target=watch, daemon=True)
    with bar:
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


KINDS = 20  # that are shown


def summary(spark: SparkSession, out: str, manifest: list[Row], seconds: float) -> None:
    """A summary of the Parquet files, read back from them."""
    from pyspark.sql import functions as f

    captures = len({name for m in manifest for name in m.captures})
    written, octets = sum(m.file is not None for m in manifest), sum(m.bytes for m in manifest)
    if not written:
        print(f"{captures:,} captures, no messages")
        return
    table = spark.read.parquet(out).select(
        "ts", "protocol", "version", "kind", "destination", "payload_size", "status", "error"
    )
    table.cache()
    # a row without a kind is not a message: a gap, or an error of a capture file
    messages = table.where("kind is not null")
    count, first, last = messages.agg(f.count("*"), f.min("ts"), f.max("ts")).first() or (0, None, None)
    print(f"{captures:,} captures, {count:,} messages, decoded in {seconds:.1f} s")
    print(f"{written:,} Parquet files, {octets / 1000:,.0f} kB in {out}")
    if first is not None and last is not None:
        length = (last - first).total_seconds()
        rate = f", {count / length:,.1f} messages/s" if length else ""
        print(f"captured {first} to {last} UTC{rate}")
    payload = f.coalesce(f.sum("payload_size"), f.lit(0))
    kinds = messages.groupBy("protocol", "kind", "version").agg(f.count("*").alias("n"), payload)
    rows = by_kind([tuple(row) for row in kinds.collect()])
    title = "Messages" if len(rows) <= KINDS else f"Messages ({KINDS} of {len(rows)} kinds)"
    show(title, ("protocol", "kind", "messages", "payload bytes", "version"), rows[:KINDS])
    named = messages.where("destination is not null").groupBy("destination").agg(f.count("*").alias("n"), payload)
    show("Top destinations", ("destination", "messages", "payload bytes"), _top(named, 10, "destination"))
    # faults that differ only in numbers are one kind
    faults = table.where("status <> 'ok'").withColumn("error", f.regexp_replace("error", "[0-9]+", "N"))
    faults = faults.groupBy("status", "error").agg(f.count("*").alias("n"))
    show("Not decoded in full", ("status", "error", "rows"), _top(faults, 10, "status", "error"))
    table.unpersist()


def by_kind(kinds: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of messages by kind, with the protocol versions in which it occurred."""
    rows: dict[tuple[str, str], dict[str, int]] = {}
    payload: dict[tuple[str, str], int] = {}
    for protocol, kind, version, count, octets in kinds:
        rows.setdefault((protocol, kind), {})[version or "-"] = count
        payload[protocol, kind] = payload.get((protocol, kind), 0) + octets
    ranked = sorted(rows.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return [(*key, sum(counts.values()), payload[key], ", ".join(sorted(counts))) for key, counts in ranked]


def _top(frame: Any, count: int, *names: str) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as f

    return [tuple(row) for row in frame.orderBy(f.desc("n"), *names).limit(count).collect()]


def show(title: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """A table on stdout: by rich if installed, otherwise in plain columns."""
    if not rows:
        return
    cells = [tuple("" if v is None else f"{v:,}" if isinstance(v, int) else str(v) for v in row) for row in rows]
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        print(f"\n{title}")
        for row in (header, *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    grid = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for name, value in zip(header, rows[0], strict=True):
        grid.add_column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
    for row in cells:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    console = Console()
    console.print()
    console.print(grid)


def printable(text: str) -> str:
    """Text from the wire must not control the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


if __name__ == "__main__":
    sys.exit(main())
