"""The group of commands, and how each command ends: exit codes, one-line errors, no error for a closed pipe."""

from __future__ import annotations

import os
import sys
from typing import Any

import rich_click as click
from click.exceptions import Exit

from . import STOPPED
from .columns import columns
from .convert import convert
from .decode import decode
from .diagnose import diagnose
from .latency import latency
from .live import watch
from .serve import serve
from .sql import sql
from .summary import summary
from .tables import COMMANDS as TABLE_COMMANDS
from .trace import trace

click.rich_click.TEXT_MARKUP = "rich"
click.rich_click.STYLE_OPTION_PANEL_BORDER = "dim"
click.rich_click.STYLE_COMMANDS_PANEL_BORDER = "dim"
click.rich_click.MAX_WIDTH = 110

EXIT_CODES = (
    "[b]Exit codes[/b]  0 done; 1 a capture could not be read to its end (the readable part is in the output), a message could "
    "not be converted, or the output could not be written; 2 wrong usage"
)


class _Group(click.RichGroup):
    def invoke(self, ctx: click.Context) -> Any:
        # here, not around `main`, which would exit with 1
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            # the reader (head, less) has exited; the interpreter's final flush must not report it either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


@click.group(cls=_Group, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="wirefmt")
def wirefmt() -> None:
    """Decode messages of message brokers from packet captures, convert them between protocols, and serve a broker for tests.

    [b]Examples[/b]

    \b
    wirefmt summary trace.pcap
    wirefmt decode trace.pcapng.gz --filter "kind == 'PUBLISH' and qos >= 1"
    wirefmt columns mqtt
    wirefmt decode 'captures/*.pcap' -o messages.parquet
    wirefmt watch -i lo
    tcpdump -i any -w - port 1883 | wirefmt decode - --format jsonl
    wirefmt serve --record session.pcapng
    wirefmt convert --from mqtt5 --to amqp10 300a0003612f620032312e35 --explain
    """


wirefmt.add_command(columns)
wirefmt.add_command(convert)
wirefmt.add_command(decode)
wirefmt.add_command(latency)
wirefmt.add_command(serve)
wirefmt.add_command(sql)
wirefmt.add_command(summary)
wirefmt.add_command(trace)
wirefmt.add_command(watch)
wirefmt.add_command(diagnose)
for command in TABLE_COMMANDS:
    wirefmt.add_command(command)


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = wirefmt.main(arguments, prog_name="wirefmt", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Exit as end:
        return int(end.exit_code)
    except click.UsageError as fault:
        command = fault.ctx.command_path if fault.ctx else "wirefmt"
        print(f"{command}: {fault.format_message()}\n(see {command} --help)", file=sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        print("wirefmt: stopped", file=sys.stderr)
        return STOPPED
    except OSError as fault:
        name = f"{fault.filename}: " if fault.filename else ""
        print(f"wirefmt: {name}{fault.strerror or fault}", file=sys.stderr)
        return 1
