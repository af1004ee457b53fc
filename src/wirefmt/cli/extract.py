"""Payloads of messages to files of their own, for `wirefmt decode --extract`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

if TYPE_CHECKING:
    import pyarrow as pa

#: The columns that are read.
COLUMNS = ("payload", "destination", "status")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MOST = 80


class Extractor:
    """Writes one file for each payload of a whole message.

    The name is a number and the destination, of which only letters, digits, `.`, `_` and `-` of ASCII remain, so a sender cannot
    choose a folder, a device or an existing file. Files are never replaced.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.count = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise click.UsageError(f"--extract {folder}: {fault.strerror}") from None
        if any(self._folder.iterdir()):
            raise click.UsageError(f"--extract {folder}: the directory is not empty")

    def write(self, rows: pa.RecordBatch) -> None:
        columns = [rows.column(name).to_pylist() for name in COLUMNS]
        for payload, destination, status in zip(*columns, strict=True):
            if payload is not None and status == "ok":
                self.count += 1
                name = _UNSAFE.sub("_", destination or "")[:_NAME_MOST]
                with open(self._folder / f"{self.count:06}-{name}.bin", "xb") as file:
                    file.write(payload)
