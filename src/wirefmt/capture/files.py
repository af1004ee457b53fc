"""Find the capture files, with sizes and in order, that a path, glob, directory, list or URL names.

The order matters: with flows="across-files" the files are one capture in the given order. The files of a glob or directory
are sorted by name, with numbers in numerical order (x.pcap, x.pcap2, x.pcap10).
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

#: Names of captures in a directory. tcpdump -C appends a number to the suffix.
CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap|ntar|dmp)[0-9]*(\.(gz|zst|bz2|xz|lz4))?$", re.IGNORECASE)
COMPRESSED_NAME = re.compile(r"\.(gz|zst|bz2|xz|lz4)$", re.IGNORECASE)
_MAGIC = re.compile(r"[*?[]")


class CaptureFile(NamedTuple):
    name: str  # absolute local path, or URL
    size: int  # bytes as stored
    modified: float = 0.0  # seconds since 1970; 0 if the store does not provide it

    @property
    def compressed(self) -> bool:
        return bool(COMPRESSED_NAME.search(self.name))


def parse_paths(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The paths in a string with commas, in a JSON list (as Spark passes on `load([...])`), or in any iterable."""
    if isinstance(paths, os.PathLike):
        return [os.fspath(paths)]
    if not isinstance(paths, str):
        return [os.fspath(p) for p in paths]
    if paths.startswith("["):
        try:
            return [str(p) for p in json.loads(paths)]
        except ValueError:
            pass  # a glob may begin with a bracket
    if "," in paths and not os.path.exists(paths):
        return [p.strip() for p in paths.split(",") if p.strip()]
    return [paths]


def expand(paths: Iterable[str], *, recursive: bool = False, missing_ok: bool = False) -> list[CaptureFile]:
    """The files at `paths`, each once, in order.

    Raises:
        FileNotFoundError: a path or glob matches nothing, or only directories without captures, unless `missing_ok`.
    """
    found: dict[str, CaptureFile] = {}
    for path in paths:
        files = list(_remote(path, recursive) if _is_url(path) else _local(path, recursive))
        captures = sorted((f for f in files if f is not None), key=lambda f: natural(f.name))
        found |= {f.name: f for f in captures if f.name not in found}
        if not captures and not missing_ok:
            why = passed_over(path) if files and not recursive else ""
            raise FileNotFoundError(f"no capture {'in' if files else 'at'} {path!r}" + (f"; {why}" if why else ""))
    return list(found.values())


def passed_over(path: str) -> str:
    """A text that lists what a local directory contains besides the captures that `expand` finds; empty if there is nothing
    else, or no such directory."""
    folder = Path(os.path.abspath(os.path.expanduser(local_path(path))))
    if _is_url(path) or not folder.is_dir():
        return ""
    held = sorted(folder.iterdir(), key=lambda p: natural(p.name))
    others = [p.name for p in held if p.is_file() and not _is_capture(p.name) and p.name[0] not in "._"]
    below = [p.name for p in held if p.is_dir() and not p.name.startswith(".")]
    notes = []
    if others:
        notes.append(f"not named as captures: {_some(others)}")
    if below:
        notes.append(f"subdirectories not read: {_some(below)} (use {os.path.join(path, '**', '*.pcap')!r})")
    return "; ".join(notes)


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def natural(name: str) -> list[tuple[int, int | str]]:
    """Sort key that compares numbers in names numerically."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"([0-9]+)", name) if part]


def local_path(path: str) -> str:
    """A local path from a path or a file: URL."""
    if path.startswith("file:"):
        return unquote(urlparse(path).path)
    return path


def _is_url(path: str) -> bool:
    return "://" in path and not path.startswith("file:")


def _local(path: str, recursive: bool) -> Iterator[CaptureFile | None]:
    # None means that the directory exists, even if it contains no file
    path = os.path.abspath(os.path.expanduser(local_path(path)))
    names = [path] if os.path.exists(path) or not _MAGIC.search(path) else glob.glob(path, recursive=True)
    for name in names:
        if os.path.isdir(name):
            yield None
            inside = Path(name).rglob("*") if recursive else Path(name).iterdir()
            yield from (_local_file(str(p)) for p in inside if _is_capture(p.name) and p.is_file())
        elif os.path.exists(name):
            yield _local_file(name)


def _local_file(name: str) -> CaptureFile:
    stat = os.stat(name)
    return CaptureFile(name, stat.st_size, stat.st_mtime)


def _remote(url: str, recursive: bool) -> Iterator[CaptureFile | None]:
    import fsspec

    fs, path = fsspec.core.url_to_fs(url)
    for name in [path] if fs.exists(path) else fs.glob(path) if _MAGIC.search(path) else []:
        if fs.isdir(name):
            yield None
            inside = fs.find(name, maxdepth=None if recursive else 1, detail=True)
            yield from (_remote_file(fs, n, d) for n, d in inside.items() if _is_capture(n.rpartition("/")[2]))
        else:
            yield _remote_file(fs, name, fs.info(name))


def _remote_file(fs: Any, name: str, info: dict[str, Any]) -> CaptureFile:
    when = next((info[k] for k in ("mtime", "LastModified", "last_modified", "updated", "created") if info.get(k)), 0.0)
    if hasattr(when, "timestamp"):
        when = when.timestamp()
    return CaptureFile(fs.unstrip_protocol(name), int(info["size"] or 0), float(when) if _is_number(when) else 0.0)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _is_capture(name: str) -> bool:
    return not name.startswith((".", "_")) and bool(CAPTURE_NAME.search(name))
