"""The captures of a command line: find, open and read them with a progress bar, and set the exit code."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import rich_click as click

from wirefmt.spec.options import FLAGS, Options

from . import STOPPED
from .names import complete_filter, complete_protocols

if TYPE_CHECKING:
    import pyarrow as pa

    from wirefmt.capture import Reader
    from wirefmt.spec.filter import Filter

Command = TypeVar("Command", bound=Callable[..., Any])

PANELS = (
    ("Captures", "How captures are read, as in: --decode-as tcp.port==21883,mqtt"),
    ("Rows", 'Which messages come out, as in: --filter "qos >= 1"'),
)


def capture_options(command: Command) -> Command:
    """FILES and the options of every command that reads captures."""
    for decorate in (
        capture_option("filter", "Rows"),
        capture_option("flows", "Captures"),
        capture_option("threads", "Captures"),
        capture_option("tunnels", "Captures"),
        capture_option("keylog", "Captures"),
        capture_option("keys", "Captures"),
        capture_option("decode_as", "Captures"),
        capture_option("protocols", "Captures"),
        click.argument("files", nargs=-1, required=True, metavar="FILES..."),
    ):
        command = decorate(command)
    return command


_COMPLETE = {"protocols": complete_protocols, "decode_as": complete_protocols, "filter": complete_filter}


def capture_option(name: str, panel: str) -> Callable[[Command], Command]:
    """The option of the command line for a field of `capture.Options`: its name, help, values and default are decided there."""
    flag = FLAGS[name]
    default = getattr(Options, name)
    kind = get_type_hints(Options)[name]
    form: dict[str, Any]
    if kind in (bool, bool | None):
        form = {"is_flag": True, "flag_value": default is not True, "default": default}
    elif get_origin(kind) is Literal:
        form = {"type": click.Choice(get_args(kind)), "default": default, "show_default": True}
    elif kind is int:
        form = {"type": click.IntRange(min=1), "default": default, "show_default": True}
    elif kind == str | None:
        form = {"default": default}
    elif kind == int | None:
        form = {"type": click.IntRange(min=0), "default": default}
    else:
        form = {"multiple": True, "callback": lambda context, option, values: values or default}
    if flag.metavar:
        form["metavar"] = flag.metavar
    if complete := _COMPLETE.get(name):
        form["shell_complete"] = complete
    return click.option(flag.name, name, help=flag.help, panel=panel, **form)


def parse_filter(text: str | None, table: str = "messages") -> Filter | None:
    from wirefmt.spec.filter import Filter, FilterError
    from wirefmt.spec.insight import TABLES

    try:
        return Filter(text, TABLES[table]) if text is not None else None
    except FilterError as fault:
        raise _filter_usage(text or "", fault) from None


def tell_empty(condition: Filter | None, *, whole: bool, rows: str = "messages") -> None:
    """Say on standard error that there are no rows, if `whole`, and which values of the filter no message has."""
    hints = condition.hints if condition and rows == "messages" else []
    if whole or hints:
        held = " for which the filter holds" if condition else ""
        click.echo("; ".join([f"no {rows}{held}", *hints]), err=True)


def columns_to_read(shown: Iterable[str] | None, table: str = "messages") -> list[str] | None:
    """The columns of the reader, in table order; None for all."""
    if shown is None:
        return None
    from wirefmt.spec.insight import TABLES

    needed = {name.partition(".")[0] for name in shown}
    return [column.name for column in TABLES[table] if column.name in needed]


@contextmanager
def open_captures(
    files: tuple[str, ...], *, out: str | None = None, tables: Sequence[str] = (), **options: Any
) -> Iterator[Reader]:
    """A reader of all files, of several tables if they are given. UsageError: an option is invalid, or `out` is one of them."""
    from wirefmt import capture
    from wirefmt.capture.reader import open_tables
    from wirefmt.spec.filter import FilterError

    if "-" in files and sys.stdin.isatty():
        raise click.UsageError("- reads a capture from standard input: tcpdump -w - | wirefmt decode -")
    if out is not None and os.path.exists(out) and _is_among(out, files):
        raise click.UsageError(f"-o {out} is one of the captures")
    try:
        # a single file is passed by itself: then it is an error, not a row, if it is not a capture
        source = files[0] if len(files) == 1 else list(files)
        reader = open_tables(source, tables, **options) if tables else capture.read(source, **options)
    except FilterError as fault:
        raise _filter_usage(options["filter"], fault) from None
    except ValueError as fault:
        raise click.UsageError(str(fault)) from None
    from wirefmt.capture.files import passed_over

    for name in files:
        if name != "-" and (others := passed_over(name)):
            click.echo(f"wirefmt: {name}: {others}", err=True)
    with reader, stopped_by(reader, signal.SIGINT):
        yield reader
        for note in reader.notes:
            click.echo(f"wirefmt: {note}", err=True)


@contextmanager
def stopped_by(reader: Reader, *signals: signal.Signals) -> Iterator[None]:
    """The first of these signals ends reading; the rows so far are written as at the end of the captures. A second one aborts."""

    def stop(*_: object) -> None:
        if reader.stopped:
            raise KeyboardInterrupt
        reader.stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def batches(reader: Reader, *, to_terminal: bool) -> Iterator[pa.RecordBatch]:
    """The batches of the reader as pyarrow batches. `to_terminal`: rows go to the terminal, so no progress bar does."""
    import pyarrow as pa

    with _progress(reader, not to_terminal and _has_terminal_alone()) as tell:
        for batch in reader:
            tell()
            if len(batch):
                yield pa.record_batch(batch)


def table_batches(reader: Reader) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches of a reader of several tables, each with the name of its table."""
    import pyarrow as pa

    with _progress(reader, _has_terminal_alone()) as tell:
        for name, batch in reader.tables():
            tell()
            if len(batch):
                yield name, pa.record_batch(batch)


def _has_terminal_alone() -> bool:
    """True if standard error is a terminal that no other program of a pipeline uses."""
    return sys.stderr.isatty() and not any(_is_pipe(stream) for stream in (sys.stdin, sys.stdout))


def is_live(files: tuple[str, ...]) -> bool:
    """True if one of the captures is a pipe, whose packets arrive as they are captured."""
    return any(_is_pipe(sys.stdin) if name == "-" else os.path.exists(name) and _is_pipe(name) for name in files)


def _is_pipe(stream: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(stream if isinstance(stream, str) else stream.fileno()).st_mode)
    except (AttributeError, OSError, ValueError):
        return False


def verdict(reader: Reader, rows: str = "messages") -> int:
    """The exit code: 130 after Ctrl-C; 1 and a line on stderr if a capture could not be read to its end."""
    if reader.stopped:
        click.echo(f"wirefmt: stopped; the output has the {rows} read so far", err=True)
        return STOPPED
    faults = reader.stats["capture_faults"]
    if not faults:
        return 0
    click.echo(
        f"wirefmt: {faults:,} fault{'s' if faults > 1 else ''} in the capture files; the output has the readable part "
        f"({'' if rows == 'messages' else 'wirefmt decode '}--filter 'kind is None' shows the faults)",
        err=True,
    )
    return 1


#: Seconds of reading before a progress bar appears.
_BAR_AFTER = 1.0


@contextmanager
def _progress(reader: Reader, shown: bool) -> Iterator[Callable[[], None]]:
    """A progress display on stderr, if reading takes long. Yields the function to call repeatedly."""
    if not shown or reader.bytes_total is None:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    bar = Progress(
        TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    line = bar.add_task("", total=reader.bytes_total)
    begin = time.monotonic()

    def tell() -> None:
        if time.monotonic() - begin >= _BAR_AFTER:
            bar.start()
            bar.update(line, completed=reader.bytes_read)

    try:
        yield tell
    finally:
        bar.stop()


def _filter_usage(text: str, fault: Any) -> click.UsageError:
    one_line = " ".join(text.split("\n")).strip()
    return click.UsageError(f"--filter: {fault}\n\n  {one_line}\n  {' ' * fault.at}^")


def _is_among(out: str, files: tuple[str, ...]) -> bool:
    from wirefmt.capture.files import expand

    names = (file.name for file in expand((f for f in files if f != "-"), missing_ok=True))
    return any(os.path.exists(name) and os.path.samefile(name, out) for name in names)
