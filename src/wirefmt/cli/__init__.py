"""The command `wirefmt`: one file per sub-command (convert, decode, latency ...; tables has four), and shared modules.

    app       the group, its errors and exit codes         inputs   captures named on the command line
    rows      options and loop of commands that print rows messages single messages named there
    text      cells and JSON values as text                output   the destinations of rows, one writer per format
    lines     the default table of messages                grid     the default table of the others; views says what it shows
    watch     what serve shows: live table and log lines
    live      messages of an interface or a pipe, as they are captured

Nothing heavy is imported before a command runs: `wirefmt --help` imports neither the core nor pyarrow.
"""

from __future__ import annotations

import signal
import sys

#: The exit code after Ctrl-C.
STOPPED = 130

#: Modules of the extra, by the name in an ImportError.
_EXTRA = {"click", "rich", "rich_click", "pyarrow", "fsspec", "backports", "duckdb"}


def main() -> None:
    """The console script; docs/cli.md lists the exit codes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that incomplete files are removed
    try:
        from .app import run

        code = run()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        extra = "sql" if missing.name == "duckdb" else "cli"
        print(f"wirefmt: the command line needs {missing.name}: pip install 'wirefmt[{extra}]'", file=sys.stderr)
        code = 2
    if code == STOPPED:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # once more, while the interpreter ends: all is written, or removed
    sys.exit(code)
