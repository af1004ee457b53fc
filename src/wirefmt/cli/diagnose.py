"""`wirefmt diagnose`: what is wrong in captures, worst first, with what to do."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import rich_click as click

from .grid import rows_of
from .inputs import PANELS, batches, capture_options, open_captures, parse_filter, verdict
from .lines import NARROWEST, folded
from .text import console, printable
from .views import Row, counted, who

#: From the worst on.
SEVERITIES: Final = ("error", "warning", "note")
_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "cyan"}
#: The exit code if --fail-on has found something.
FOUND: Final = 3
#: Frames of a finding that are named.
FRAMES: Final = 6
_PIPE = 100


@click.command()
@capture_options
@click.option("--fail-on", type=click.Choice(SEVERITIES), panel="Output",
              help="The exit code is 3 if there is a finding that is so grave, or graver.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object per finding.", panel="Output")
@click.option_panel(PANELS[0][0], help=PANELS[0][1])
@click.option_panel("Rows", help="The filter names columns of findings, as in: --filter \"severity != 'note'\"")
@click.option_panel("Output", help="The output, as in: --fail-on warning")
def diagnose(files: tuple[str, ...], filter: str | None, fail_on: str | None, as_json: bool, **options: Any) -> int:
    """Say what is wrong in captures, worst first: the cause, who is concerned, where to look, and what to do next.

    FILES are captures (pcap, pcapng, also compressed), directories, globs in quotes, URLs, or - for standard input.

    [b]Examples[/b]

    \b
    wirefmt diagnose trace.pcap
    wirefmt diagnose 'captures/*.pcap' --fail-on warning
    wirefmt diagnose trace.pcap --filter "rule == 'keep-alive-missed'"
    wirefmt diagnose trace.pcap --json | jq .text
    """
    parse_filter(filter, "findings")
    found: list[Row] = []
    with open_captures(files, table="findings", filter=filter, **options) as reader:
        for batch in batches(reader, to_terminal=False):
            found += rows_of(batch)
        found.sort(key=worst_first)
        if as_json:
            for row in found:
                click.echo(json.dumps({k: v for k, v in row.items() if v is not None}, ensure_ascii=False))
        else:
            show(found)
        code = verdict(reader, "findings")
    grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on else ()
    return code or (FOUND if any(row["severity"] in grave for row in found) else 0)


def worst_first(row: Row) -> tuple[Any, ...]:
    """The key that sorts findings."""
    severity = row["severity"]
    return (
        SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES),
        -(row["count"] or 1),
        row["ts"] or "",
    )


def show(found: Sequence[Row], most: int | None = None) -> None:
    """Print findings in this order, at most so many of them."""
    from rich.text import Text

    out = console()
    width = max(shutil.get_terminal_size().columns, NARROWEST) if sys.stdout.isatty() else _PIPE
    if not found:
        click.echo("nothing found: no rule says that something is wrong")
        return
    counts = Counter(row["severity"] for row in found)
    click.echo(", ".join(counted(counts[severity], severity) for severity in SEVERITIES if counts[severity]))
    several = len({row["capture"] for row in found}) > 1
    for row in found[:most]:
        severity = row["severity"]
        concerned = [printable(part) for part in (who(row), row["queue"] or row["destination"]) if part]
        head = Text.assemble((f"{severity:<7}", _STYLES.get(severity, "")), " ", (row["rule"] or "", "bold"))
        often = (row["count"] or 0) > 1 and f"{row['count']:,}" not in (row["text"] or "")
        rest = ", ".join([*concerned, *([f"{row['count']:,} times"] if often else [])])
        out.print()
        out.print(head.append(f"  {rest}") if rest else head, soft_wrap=True)
        for line in folded(printable(row["text"] or ""), 0, width)[1:]:
            click.echo(line)
        if evidence := _evidence(row, several):
            out.print(Text(f"    {evidence}", "dim"), soft_wrap=True)
    if most is not None and len(found) > most:
        click.echo(f"\n{counted(len(found) - most, 'more finding')}: wirefmt diagnose")


def _evidence(row: Row, several: bool) -> str:
    """Where to look: time, frames, capture."""
    frames = row["frames"] or []
    frames = frames if isinstance(frames, list) else [frames]
    parts = [(row["ts"] or "").replace("T", " ")[:23]]
    if frames:
        more = " ..." if len(frames) > FRAMES else ""
        parts.append(f"frame{'s' if len(frames) > 1 else ''} {', '.join(map(str, frames[:FRAMES]))}{more}")
    if several and row["capture"]:
        parts.append(printable(row["capture"]))
    return ", ".join(filter(None, parts))
