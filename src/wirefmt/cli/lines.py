"""The default table: one message per line, with time, ends, direction, kind and a summary.

    2026-02-03 UTC, server 127.0.0.1:5672
    time         client         ch    kind          detail
    12:00:01.204 orders-7        1 -> basic.publish exchange=shop key=paid size=12 persistent | {"order":17}
    12:00:01.205 10.0.0.7:51044  2 <- channel.close 404 "NOT_FOUND - no queue 'paid' in vhost '/'" method=queue.declare

On a terminal a line is cut to the width; in a file or pipe it is whole. The columns `server` and `ch` (an AMQP channel) are
omitted until a row needs them; then a new header is printed. The kind is never cut. A text that explains a failure is not cut
either: it continues below its line, and so does the error of the row itself (column `error`). Where there is little space,
long words, such as topics, lose their middle first.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns of the message table that make a line.
COLUMNS = (
    "ts", "direction", "src_ip", "src_port", "dst_ip", "dst_port", "kind", "client_id", "channel", "payload", "status",
    "error", "detail",
)  # fmt: skip
#: Rows that determine the widths.
SAMPLE = 500
#: A terminal narrower than this gets shorter times, clients and servers.
WIDE = 110
#: A terminal narrower than this is too narrow for tables.
NARROWEST = 20
#: The most characters of a payload or converted message, and the fewest worth printing.
SHOWN, LEAST = 60, 8
#: A word of a detail is not shortened to fewer characters.
SHORTEST = 16
#: Initial widths for a live capture.
_LIVE = {"client": 15, "kind": 13}
_INDENT = "    "
_ARROWS: dict[object, str] = {0: "->", 1: "<-"}
_BOLD, _DIM, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m"
#: Explanatory text in a detail: a reply text, a reason, a description.
_TEXT = re.compile(r'(?:^| )"')


class Line(NamedTuple):
    date: str
    time: str
    client: str
    server: tuple[str, str]  # address, port; empty if no connection is known
    channel: str
    arrow: str
    kind: str
    detail: str
    tail: str  # the payload, or the converted message, after a mark
    error: str | None


class LinesWriter:
    """Writes batches with the columns above and, optionally, `converted` as text."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._sink = sink
        self._terminal = sink is sys.stdout.buffer and sys.stdout.isatty()
        self._colour = self._terminal and not os.environ.get("NO_COLOR")
        self._capacity = max(shutil.get_terminal_size().columns, NARROWEST) if self._terminal else sys.maxsize
        self._wide = self._capacity >= WIDE
        self._held: list[Line] | None = []
        self._date = ""
        self._server = ("", "")  # the first server
        self._one_host = True  # all servers have the same address
        self._has_server = self._wide
        self._has_channel = False
        # the present widths, and their maxima; a longer kind takes more space
        self._widths = {"client": len("client"), "server": len("server"), "channel": 2, "kind": len("kind")}
        self._bounds = (
            dict.fromkeys(self._widths, SHOWN) | {"kind": 24}
            if not self._terminal
            else {"client": 32, "server": 24, "channel": 5, "kind": 24}
            if self._wide
            else {"client": 15, "server": 12, "channel": 5, "kind": 13}
        )

    def write(self, batch: pa.RecordBatch) -> None:
        lines = _lines(batch)
        if self._held is None:
            self._print(lines)
            return
        self._held += lines
        if len(self._held) >= SAMPLE:
            self._begin()

    def flush(self) -> None:
        """Print the waiting rows: rows of a live capture arrive one by one, so their widths are not known in advance."""
        if self._held:
            self._widths |= _LIVE
            self._begin()
        self._sink.flush()

    def close(self) -> None:
        if self._held:
            self._begin()

    def _begin(self) -> None:
        """Choose the columns by the waiting rows, and print these rows."""
        held, self._held = self._held or [], None
        for line in held[:SAMPLE]:
            self._fit(line)
        self._date = held[0].date
        self._head()
        self._print(held)

    def _fit(self, line: Line) -> bool:
        """Make space for a line. True: it needs a column that was omitted."""
        from rich.cells import cell_len

        missing = False
        if line.channel and not self._has_channel:
            self._has_channel = missing = True
        if not self._server[0]:
            self._server = line.server
        elif line.server[0] and line.server != self._server:
            missing |= not self._has_server or (self._one_host and line.server[0] != self._server[0])
            self._has_server = True
            self._one_host = self._one_host and line.server[0] == self._server[0]
        cells = {"client": line.client, "server": self._shown(line.server), "channel": line.channel, "kind": line.kind}
        for name, cell in cells.items():
            size = cell_len(cell)
            if size > self._widths[name]:
                self._widths[name] = max(self._widths[name], min(size, self._bounds[name]))
        return missing

    def _shown(self, server: tuple[str, str]) -> str:
        """The text of the column: on a narrow terminal only the port, as long as all servers have one address."""
        address, port = server
        if self._wide or not self._one_host:
            return _address(address, port)
        return f":{port}" if port else ""

    def _head(self) -> None:
        where = ""
        if self._server[0] and not self._has_server:
            where = f", server {_address(*self._server)}"
        elif self._server[0] and self._one_host and not self._wide:
            where = f", servers at {self._server[0]}"
        self._put(self._styled(f"{self._date or '-'} UTC{where}", _BOLD))
        head = Line("", "time", "client", ("", ""), "ch", "", "kind", "detail", "", None)
        self._put(self._styled(self._columns(head, "server") + head.detail, _BOLD))

    def _print(self, lines: list[Line]) -> None:
        for i, line in enumerate(lines):
            if self._fit(line) or line.date not in (self._date, ""):
                for later in lines[i : i + SAMPLE]:
                    self._fit(later)
                self._date = line.date or self._date
                self._head()
            self._line(line)

    def _columns(self, line: Line, server: str) -> str:
        """The columns before the detail, followed by a blank."""
        # lines of a terminal are short: milliseconds are enough
        time = 15 if self._wide else 12
        cells = [line.time[:time].ljust(time), padded(line.client, self._widths["client"], self._terminal)]
        if self._has_server:
            cells.append(padded(server, self._widths["server"], self._terminal))
        if self._has_channel:
            cells.append(line.channel.rjust(self._widths["channel"]))
        cells += [line.arrow.ljust(2), line.kind.ljust(self._widths["kind"])]
        return " ".join(cells) + " "

    def _line(self, line: Line) -> None:
        from rich.cells import cell_len

        from .text import printable

        text = self._columns(line, self._shown(line.server))
        left = self._capacity - cell_len(text)
        detail, below = line.detail, list[str]()
        if _TEXT.search(detail):
            if cell_len(detail) > left:
                detail, *below = folded(detail, left, self._capacity)
        else:
            capacity = left - (min(cell_len(line.tail), LEAST) + 1 if line.tail else 0)
            detail = _cut(_shortened(detail, capacity), left)
        text += detail
        left -= cell_len(detail)
        wrong, after = f"! {printable(line.error)}" if line.error is not None else "", ""
        if wrong and not below and left > cell_len(wrong):
            wrong, after = "", wrong
            left -= cell_len(after) + 1
        tail = f"{' ' if detail else ''}{line.tail}" if line.tail else ""
        if tail and not below and left >= min(cell_len(tail), LEAST):
            text += self._styled(_cut(tail, left), _DIM)
        self._put(f"{text.rstrip()} {self._styled(after, _RED)}".rstrip())
        for part in below:
            self._put(part)
        for part in folded(wrong, 0, self._capacity)[1:] if wrong else ():
            self._put(self._styled(part, _RED))

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._colour and text else text

    def _put(self, text: str) -> None:
        self._sink.write(f"{text}\n".encode())


def _lines(batch: pa.RecordBatch) -> list[Line]:
    from .text import cell, json_values, printable

    def column(name: str) -> list[object]:
        values: list[object] = batch.column(name).to_pylist()
        return values

    def shown(value: object) -> str:
        return printable(str(value)) if value is not None else ""

    mark, last = ("=>", "converted") if "converted" in batch.schema.names else ("|", "payload")
    rows = zip(json_values(batch.column("ts")), *map(column, COLUMNS[1:]), column(last), strict=True)
    lines = []
    for (
        ts,
        way,
        source,
        source_port,
        target,
        target_port,
        kind,
        client,
        channel,
        _,
        status,
        error,
        detail,
        tail,
    ) in rows:
        ends = [(shown(source), shown(source_port)), (shown(target), shown(target_port))]
        here, server = ends[::-1] if way == 1 else ends
        lines.append(
            Line(
                date=ts[:10] if ts else "",
                time=ts[11:-1] if ts else "",
                client=shown(client) if client is not None else _address(*here),
                server=server,
                channel=shown(channel),
                arrow=_ARROWS.get(way, ""),
                kind=shown(kind) if kind is not None else f"({status})",
                detail=shown(detail),
                tail=f"{mark} {cell(tail, SHOWN)}" if tail else "",
                error=error,
            )
        )
    return lines


def _address(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if host else ""


def padded(text: str, width: int, cut: bool) -> str:
    """The beginning of a text that is too long for the terminal; for an address its end, which has the port."""
    from rich.cells import cell_len

    if cell_len(text) > width and cut:
        text = "…" + text[1 - width :] if re.fullmatch(r"[\d.]+:\d+|\[[\da-f:.]+\]:\d+", text) else _cut(text, width)
    return text + " " * (width - cell_len(text))


def _cut(text: str, width: int) -> str:
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def _shortened(text: str, width: int) -> str:
    """A text whose longest words are cut in the middle, as far as needed: a long topic must not hide what comes after it."""
    from rich.cells import cell_len

    words = text.split(" ")
    over = cell_len(text) - width
    while over > 0:
        sizes = [cell_len(word) for word in words]
        at = sizes.index(max(sizes))
        if sizes[at] <= SHORTEST:
            return text  # no space for all of it anyway
        words[at] = _middle_cut(words[at], max(sizes[at] - over, SHORTEST))
        over = cell_len(" ".join(words)) - width
    return " ".join(words)


def _middle_cut(word: str, width: int) -> str:
    """The beginning and the end of a word; of `name=value` the name, too."""
    from rich.cells import cell_len, set_cell_size

    begin = set_cell_size(word, width // 2).rstrip()
    end = word[len(begin) :]
    while cell_len(begin) + 1 + cell_len(end) > width:
        end = end[1:]
    return f"{begin}…{end}"


def folded(text: str, first: int, capacity: int) -> list[str]:
    """A text broken between words: the first line as far as it fits, then indented lines."""
    from rich.cells import cell_len, set_cell_size

    lines, width = [""], first
    for word in text.split(" "):
        blank = " " if lines[-1].strip() else ""
        if cell_len(lines[-1] + blank + word) > width:
            lines.append(_INDENT)
            width, blank = capacity, ""
        while cell_len(lines[-1] + word) > capacity:
            part = set_cell_size(word, capacity - len(_INDENT)).rstrip()
            lines[-1] += part
            lines.append(_INDENT)
            word = word[len(part) :]
        lines[-1] += blank + word
    return lines
