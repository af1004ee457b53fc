"""`wirefmt watch`: messages of an interface, or of a pipe, as they are captured: line by line, or in a live table.

tcpdump or dumpcap capture, since they may have the right; what they write is read from a pipe, and written to a file on request.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

import rich_click as click

from .inputs import batches, capture_option, parse_filter, stopped_by
from .lines import COLUMNS as LINE_COLUMNS
from .lines import LinesWriter
from .rows import limit_option, to_terminal, write_rows
from .rows import select as columns_of
from .text import cell, console

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType

    from wirefmt.capture import Reader

#: Programs that capture, in the order in which they are tried, and the package that has each. tcpdump passes on each packet at
#: once; dumpcap waits up to a quarter of a second, but has the right on more machines.
PROGRAMS: Final = {"tcpdump": "tcpdump", "dumpcap": "wireshark-common"}
#: Milliseconds that dumpcap waits for further packets, where this can be chosen.
INTERVAL: Final = 50
#: What the kernel buffers for tcpdump, in KiB.
BUFFER: Final = 8192
#: Seconds for which a program may go on after it was asked to end.
PATIENCE: Final = 3.0
#: Updates of the live table in a second; seconds over which its rates are measured.
UPDATES: Final = 5
RATE: Final = 5.0
#: Names of clients and destinations that are counted; others are counted together.
NAMES_MOST: Final = 10_000
#: Rows of each part of the live table, and the narrowest name.
SHOWN: Final = 10
NARROW: Final = 16


@click.command()
@click.argument("source", required=False, metavar="[-]")
@click.option(
    "-i", "--interface", metavar="IFACE", help="Capture on this interface, such as eth0, lo or any.", panel="Captures"
)
@click.option(
    "-f", "--capture-filter", metavar="BPF", help="What is captured at all, such as 'port 1883'.", panel="Captures"
)
@click.option("--write", metavar="FILE", help="Also write the packets to this file, as they come.", panel="Captures")
@capture_option("decode_as", "Captures")
@capture_option("protocols", "Captures")
@capture_option("tunnels", "Captures")
@capture_option("keylog", "Captures")
@capture_option("keys", "Captures")
@capture_option("filter", "Rows")
@limit_option()
@click.option("--live", is_flag=True, help="A live table in place of lines: clients, destinations, rates, findings.",
              panel="Output")  # fmt: skip
@click.option("--format", "fmt", type=click.Choice(["table", "jsonl", "csv"]), default="table", show_default=True,
              help="Format of the lines.", panel="Output")  # fmt: skip
@click.option_panel("Captures", help="What is captured, as in: -i lo -f 'port 1883' --write session.pcapng")
@click.option_panel("Rows", help='Which messages come out, as in: --filter "qos >= 1"')
@click.option_panel("Output", help="Lines as of wirefmt decode, or --live")
def watch(
    source: str | None,
    interface: str | None,
    capture_filter: str | None,
    write: str | None,
    filter: str | None,
    limit: int | None,
    live: bool,
    fmt: str,
    **options: Any,
) -> int:
    """Show messages as they are captured, until Ctrl-C.

    With -i it starts tcpdump or dumpcap, which need the right to capture. With - it reads a capture from standard input, for
    example of another machine.

    [b]Examples[/b]

    \b
    wirefmt watch -i lo
    wirefmt watch -i eth0 -f "port 1883" --filter "kind == 'PUBLISH' and qos >= 1"
    wirefmt watch -i any --live --write session.pcapng
    wirefmt watch -i lo --keylog keys.log
    ssh host tcpdump -i any -U -w - port 1883 | wirefmt watch -
    """
    if (source is None) is (interface is None):
        raise click.UsageError("an interface (-i eth0), or - for a capture on standard input")
    if source is not None and source != "-":
        raise click.UsageError(f"a file is read with wirefmt decode {source}")
    if source is not None and capture_filter is not None:
        raise click.UsageError("-f is for -i: what standard input has is captured already")
    if source is not None and sys.stdin.isatty():
        raise click.UsageError("- reads a capture from standard input: tcpdump -U -w - | wirefmt watch -")
    if live and (fmt != "table" or limit is not None or filter is not None):
        raise click.UsageError("--live is a table of all messages; --format, --filter and --limit are for lines")
    if live and not to_terminal(None):
        raise click.UsageError("--live needs a terminal; without it each message is a line")
    parse_filter(filter)
    with ExitStack() as stack:
        program = stack.enter_context(Program.started(interface, capture_filter)) if interface is not None else None
        copy = stack.enter_context(open(write, "wb", buffering=0)) if write is not None else None
        stream: Any = sys.stdin.buffer if program is None else program.stdout
        feed = Feed(getattr(stream, "raw", stream), copy, "-" if interface is None else interface)
        reader = stack.enter_context(_reader(feed, live, filter, options))
        stack.enter_context(stopped_by(reader, signal.SIGINT, signal.SIGTERM))
        begun = time.monotonic()
        count = _show(reader) if live else _lines(reader, fmt, limit)
        seconds = time.monotonic() - begun
        failure = program.failure() if program is not None and feed.ended and program.has_failed() else None
    stats = reader.stats
    packets, connections = stats["packets"], stats["flows"]
    kept = f"; {write} has {feed.octets:,} bytes" if write is not None else ""
    click.echo(
        f"wirefmt: {count:,} messages, {packets:,} packets, {connections:,} connections in {seconds:,.1f} s{kept}",
        err=True,
    )
    if failure is not None:
        raise click.ClickException(failure)
    return 1 if stats["capture_faults"] and not reader.stopped else 0


class Feed(io.RawIOBase):
    """What comes from a pipe. All of it is also written to `copy`, if there is one.

    Attributes:
        octets: how many bytes there have been.
        ended: there are no more.
    """

    def __init__(self, pipe: Any, copy: IO[bytes] | None, name: str) -> None:
        self._pipe, self._copy, self.name = pipe, copy, name
        self.octets = 0
        self.ended = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        number: int = self._pipe.fileno()
        return number

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        size: int = self._pipe.readinto(view) or 0
        self.octets += size
        self.ended = size == 0
        if self._copy is not None and size:
            written = 0
            while written < size:
                written += self._copy.write(view[written:size]) or 0
        return size


class Program:
    """tcpdump or dumpcap, which captures. It is in a group of processes of its own: Ctrl-C is ours, and we end it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], said: IO[bytes], interface: str) -> None:
        self.name, self.process, self._said, self._interface = name, process, said, interface
        self.stdout = process.stdout

    @classmethod
    @contextmanager
    def started(cls, interface: str, capture_filter: str | None) -> Iterator[Program]:
        """The first program that can capture; leaving the context ends it."""
        found = [(name, path) for name in PROGRAMS if (path := shutil.which(name)) is not None]
        if not found:
            packages = " or ".join(f"apt install {package}" for package in PROGRAMS.values())
            raise click.ClickException(f"-i needs tcpdump or dumpcap: {packages}")
        failures = []
        for name, path in found:
            with tempfile.TemporaryFile() as said:
                program = cls(
                    name, _process([path, *arguments(name, path, interface, capture_filter)], said), said, interface
                )
                try:
                    if program.captures():
                        yield program
                        return
                    failures.append(program.failure())
                finally:
                    program.end()
        raise click.ClickException("\n".join(failures))

    def captures(self) -> bool:
        """Wait until it has written the header of a capture. False: it has ended before."""
        assert self.stdout is not None
        while not select.select([self.stdout], [], [], 0.05)[0]:
            if self.process.poll() is not None:
                return False
        return _waiting(self.stdout.fileno()) > 0  # otherwise it is the end

    def end(self) -> None:
        """End it: first as Ctrl-C does."""
        if self.stdout is not None:
            self.stdout.close()  # it may wait until somebody reads
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)

    def has_failed(self) -> bool:
        """Has it ended by itself, with an error?"""
        try:
            return self.process.wait(PATIENCE) != 0
        except subprocess.TimeoutExpired:
            return False

    def failure(self) -> str:
        """Why it could not capture, and what would be right."""
        self.has_failed()
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read(1 << 16).decode(errors="replace").splitlines()]
        said = next((line for line in lines if "ermission" in line or "permitted" in line or "No such" in line), None)
        said = said or next((line for line in lines if line), "it said nothing")
        text = f"{self.name} cannot capture on {self._interface}: {cell(said, 200)}"
        if "ermission" in said or "permitted" in said:
            path = shutil.which(self.name) or self.name
            text += (
                f"\nCapturing needs a right. Run it as root, or give the right to the program:\n"
                f"  sudo setcap cap_net_raw,cap_net_admin=eip {os.path.realpath(path)}"
            )
        return text


def _process(command: list[str], said: IO[bytes]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=said, bufsize=0, start_new_session=True
    )


def _waiting(pipe: int) -> int:
    """Bytes that can be read from a pipe."""
    import fcntl
    import termios

    size = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return size[0]


def arguments(name: str, path: str, interface: str, capture_filter: str | None) -> list[str]:
    """Of a program that writes packets to standard output as soon as they are there."""
    if name == "dumpcap":
        told = ["-q", "-i", interface, *(["-f", capture_filter] if capture_filter else []), "-w", "-"]
        known = subprocess.run([path, "--help"], capture_output=True, check=False).stdout
        return [*told, "--update-interval", str(INTERVAL)] if b"--update-interval" in known else told
    told = ["-i", interface, "-n", "-s", "0", "-B", str(BUFFER), "--immediate-mode", "-U", "-w", "-"]
    return [*told, *([capture_filter] if capture_filter else [])]


@contextmanager
def _reader(feed: Feed, live: bool, filter: str | None, options: dict[str, Any]) -> Iterator[Reader]:
    from wirefmt import capture
    from wirefmt.capture.reader import open_tables

    try:
        if live:
            reader = open_tables(feed, ("messages", "findings"), **options)
        else:
            reader = capture.read(feed, columns=list(LINE_COLUMNS), filter=filter, **options)
    except ValueError as fault:
        raise click.UsageError(str(fault)) from None
    with reader:
        yield reader


def _lines(reader: Reader, fmt: str, limit: int | None) -> int:
    import pyarrow as pa

    from .output import no_rows

    shown = list(LINE_COLUMNS)
    schema = columns_of(no_rows(pa.schema(reader.schema)), shown).schema
    return write_rows(
        batches(reader, to_terminal=True), schema, None, fmt, make=LinesWriter if fmt == "table" else None, limit=limit,
        live=True, change=lambda part: columns_of(part, shown),
    )  # fmt: skip


def _show(reader: Reader) -> int:
    """The live table, until the end. Returns the number of messages."""
    import pyarrow as pa
    from rich.live import Live

    table = Table()
    with Live(get_renderable=table.render, console=console(), refresh_per_second=UPDATES, screen=False) as live:
        for name, batch in reader.tables():
            if len(batch):
                part: Any = pa.record_batch(batch)
                table.messages(part) if name == "messages" else table.findings(part)
        live.refresh()
    return table.count


class Rated:
    """Counts by name, and their rates over the last seconds."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._before: deque[tuple[float, Counter[str]]] = deque()

    def add(self, name: str, count: int) -> None:
        if name not in self.counts and len(self.counts) >= NAMES_MOST:
            name = "(others)"
        self.counts[name] += count

    def busiest(self, now: float) -> list[tuple[str, int, float]]:
        """Name, count and rate of the names with the highest rates."""
        while len(self._before) > 1 and now - self._before[0][0] > RATE:
            self._before.popleft()
        then, counts = self._before[0] if self._before else (now, Counter[str]())
        seconds = max(now - then, 1.0)
        if not self._before or now - self._before[-1][0] >= 1.0:
            self._before.append((now, Counter(self.counts)))
        rates = {name: (count - counts[name]) / seconds for name, count in self.counts.items()}
        first = sorted(self.counts, key=lambda name: (-rates[name], -self.counts[name], name))[:SHOWN]
        return [(name, self.counts[name], rates[name]) for name in first]


class Table:
    """The live table. `render` is called by another thread than the other methods."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._lock = threading.Lock()
        self._clients, self._places, self._total = Rated(), Rated(), Rated()
        self._wrong: deque[tuple[str, str, str]] = deque(maxlen=SHOWN // 2)
        self.count = 0

    def messages(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        asks = pc.equal(batch.column("direction"), pa.scalar(0, batch.column("direction").type))

        def end(side: str) -> Any:
            """Address and port of the client (`src` of what it asks) or of the server."""
            host, port = (
                pc.if_else(asks, batch.column(f"{mine}_{what}"), batch.column(f"{theirs}_{what}"))
                for what in ("ip", "port")
                for mine, theirs in ((side, "dst" if side == "src" else "src"),)
            )
            return pc.binary_join_element_wise(host, pc.cast(port, pa.string()), ":")

        protocol = pc.coalesce(batch.column("protocol"), pa.scalar("-"))
        client = _in_line(pc.coalesce(batch.column("client_id"), end("src"), pa.scalar("-")))
        clients = pc.binary_join_element_wise(client, protocol, pc.coalesce(end("dst"), pa.scalar("-")), "\n")
        places = pc.binary_join_element_wise(
            _in_line(pc.coalesce(batch.column("destination"), pa.scalar(""))), protocol, "\n"
        )
        faults = [(ts, who, why) for ts, who, why in zip(*_faults(batch, client), strict=True)]
        with self._lock:
            self.count += batch.num_rows
            self._total.add("", batch.num_rows)
            for rated, names in ((self._clients, clients), (self._places, places)):
                for pair in pc.value_counts(names).to_pylist():
                    if not pair["values"].startswith("\n"):
                        rated.add(pair["values"], pair["counts"])
            self._wrong.extend(faults)

    def findings(self, batch: pa.RecordBatch) -> None:
        rows = batch.to_pylist()
        with self._lock:
            for row in rows:
                who = row["client_id"] or f"{row['client_ip'] or '-'}:{row['client_port'] or '-'}"
                self._wrong.append((_time(row["ts"]), who, f"{row['severity']}: {row['text']}"))

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        now = self._clock()
        with self._lock:
            total = self._total.busiest(now)
            parts = (self._clients.busiest(now), self._places.busiest(now))
            sizes = (len(self._clients.counts), len(self._places.counts))
            wrong = list(self._wrong)
        rate = total[0][2] if total else 0.0
        seconds = int(now - self._begun)
        shown: list[RenderableType] = [
            Text(
                f"{seconds // 60}:{seconds % 60:02} {self.count:,} messages, {rate:,.0f}/s - Ctrl-C ends", style="bold"
            )
        ]
        titles = (("client", "protocol", "server", "messages", "/s"), ("destination", "protocol", "messages", "/s"))
        for names, rows, size in zip(titles, parts, sizes, strict=True):
            grid = Grid(box=None, pad_edge=False, header_style="dim")
            for name in names:
                number = name in ("messages", "/s")
                grid.add_column(
                    name, justify="right" if number else "left", no_wrap=True, overflow="ellipsis",
                    min_width=NARROW if name == names[0] else None, ratio=None,
                )  # fmt: skip
            for name, count, each in rows:
                cells = [cell(word, 60) for word in name.split("\n")] + [""] * (len(names) - 2)
                grid.add_row(*map(Text, [*cells[: len(names) - 2], f"{count:,}", f"{each:,.1f}"]))
            if rows:
                shown += [Text(), grid]
            if size > SHOWN:
                shown.append(Text(f"and {size - SHOWN:,} more", style="dim"))
        if wrong:
            grid = Grid(box=None, pad_edge=False, header_style="dim")
            grid.add_column("time", no_wrap=True)
            grid.add_column("client", no_wrap=True, overflow="ellipsis", max_width=24)
            grid.add_column("what is wrong")
            for row in wrong:
                grid.add_row(*(Text(cell(word, 300)) for word in row))
            shown += [Text(), grid]
        return Group(*shown)


def _faults(batch: pa.RecordBatch, client: Any) -> tuple[list[str], list[str], list[str]]:
    """Time, client and error of the last rows that have an error."""
    import pyarrow.compute as pc

    at = pc.indices_nonzero(pc.is_valid(batch.column("error")))[-SHOWN:]
    times = [_time(ts) for ts in batch.column("ts").take(at).to_pylist()]
    return times, client.take(at).to_pylist(), [str(why) for why in batch.column("error").take(at).to_pylist()]


def _in_line(names: Any) -> Any:
    """Names without line breaks, which separate the cells of a row here."""
    import pyarrow.compute as pc

    return pc.replace_substring(names, "\n", "\\n")


def _time(ts: Any) -> str:
    return f"{ts:%H:%M:%S}" if ts is not None else "-"
