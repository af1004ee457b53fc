"""The captures named on a command line: found, opened, read with a progress bar, and judged at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

if TYPE_CHECKING:
    import pyarrow as pa

    from wirefmt.capture import Reader

    from .filter import Filter

Command = TypeVar("Command", bound=Callable[..., Any])

PANELS = (
    ("Captures", "How captures are read, as in: wirefmt decode a.pcap --decode-as tcp.port==21883,mqtt"),
    ("Rows", "Which messages come out, as in: --filter \"qos >= 1 and destination.startswith('a/')\""),
)


def capture_options(command: Command) -> Command:
    """FILES and the options that every command which reads captures has."""
    for decorate in (
        click.option(
            "--filter",
            "filter_text",
            metavar="EXPR",
            help="Only messages for which this holds: columns, numbers, 'texts', == != < <= in and or not, "
            ".startswith() .endswith() .contains() .matches(), len(), headers\\['name'].",
            panel="Rows",
        ),
        click.option(
            "--flows",
            type=click.Choice(["in-file", "across-files"]),
            default="in-file",
            show_default=True,
            help="across-files: the files are one capture that was rotated, in the order given.",
            panel="Captures",
        ),
        click.option("--tunnels", is_flag=True, help="Look into VXLAN, GENEVE, GRE and the like.", panel="Captures"),
        click.option(
            "--decode-as",
            multiple=True,
            metavar="RULE",
            help="Take a port for a protocol: tcp.port==N,mqtt. May be given several times.",
            panel="Captures",
        ),
        click.option(
            "--protocol",
            "protocols",
            multiple=True,
            metavar="NAME",
            help="Only this protocol: mqtt. May be given several times.",
            panel="Captures",
        ),
        click.argument("files", nargs=-1, required=True, metavar="FILES..."),
    ):
        command = decorate(command)
    return command


def find(files: tuple[str, ...]) -> list[Any]:
    """Paths, globs, directories and URLs as capture files in order; `-` as standard input."""
    from wirefmt.capture.files import expand

    found: list[Any] = []
    for name in files:
        if name == "-":
            if sys.stdin.isatty():
                raise click.UsageError("- reads a capture from standard input: tcpdump -w - | wirefmt decode -")
            found.append(sys.stdin.buffer)
            continue
        try:
            captures = expand([name])
        except FileNotFoundError:
            raise click.UsageError(f"{name}: no such file, and nothing that matches") from None
        except ValueError as fault:  # fsspec: no such protocol
            raise click.UsageError(f"{name}: {fault}") from None
        if not captures:
            raise click.UsageError(f"{name}: no captures in this directory (.pcap, .pcapng, .cap, also .gz and .zst)")
        found += [capture.name for capture in captures]
    return found


def parse_filter(text: str | None) -> Filter | None:
    from .filter import Filter, FilterError

    try:
        return Filter(text) if text is not None else None
    except FilterError as fault:
        raise _filter_usage(text or "", fault) from None


def columns_to_read(shown: list[str] | None, condition: Filter | None) -> list[str] | None:
    """The columns a reader must give, in the table's order; None for all."""
    if shown is None:
        return None
    from wirefmt.spec.table import COLUMNS

    needed = {*shown, *(condition.columns if condition else ())}
    return [column.name for column in COLUMNS if column.name in needed]


@contextmanager
def open_captures(files: tuple[str, ...], *, out: str | None = None, **options: Any) -> Iterator[Reader]:
    """A reader over all files. Wrong usage: options the reader refuses, and an `out` that is one of the files."""
    from wirefmt import capture

    sources = find(files)
    if out is not None and any(isinstance(s, str) and _same_file(out, s) for s in sources):
        raise click.UsageError(f"-o {out} is one of the captures")
    try:
        reader = capture.read(sources, **options)
    except ValueError as fault:
        raise click.UsageError(str(fault)) from None
    with reader:
        yield reader


def batches(reader: Reader, condition: Filter | None, *, progress: bool) -> Iterator[pa.RecordBatch]:
    """The reader's batches as pyarrow's, with only the rows the filter keeps."""
    import pyarrow as pa

    from .filter import FilterError

    try:
        keep = condition.compile(pa.schema(reader.schema)) if condition else None
    except FilterError as fault:
        assert condition
        raise _filter_usage(condition.text, fault) from None
    with _progress(reader, progress and sys.stderr.isatty()) as tell:
        for ours in reader:
            batch = pa.record_batch(ours)
            if keep is not None:
                batch = batch.filter(keep)
            tell()
            if batch.num_rows:
                yield batch


def verdict(reader: Reader) -> int:
    """The exit code: 1 and a line on stderr where a capture could not be read to its end."""
    faults = reader.stats["capture_faults"]
    if not faults:
        return 0
    what = "a capture" if faults == 1 else f"{faults} captures"
    click.echo(f"wirefmt: {what} could not be read to the end; see rows with status malformed", err=True)
    return 1


@contextmanager
def _progress(reader: Reader, shown: bool) -> Iterator[Callable[[], None]]:
    """Octets read of those there are, on stderr. Gives the function to call now and then."""
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    with bar:
        line = bar.add_task("", total=reader.bytes_total)
        yield lambda: bar.update(line, completed=reader.bytes_read)


def _filter_usage(text: str, fault: Any) -> click.UsageError:
    one_line = text.replace("\n", " ")
    return click.UsageError(f"--filter: {fault}\n\n  {one_line}\n  {' ' * fault.at}^")


def _same_file(a: str, b: str) -> bool:
    return os.path.exists(a) and os.path.exists(b) and os.path.samefile(a, b)
