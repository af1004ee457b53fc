"""Which files of a list are one rotated capture: by their names, and by the times of their packets.

`tcpdump -C`, `-G`, `-W` and `dumpcap -b` begin another file by size or time; connections go on from file to file. A ring (`-W`)
that wrapped has its oldest packets in the middle of the names. Only the beginnings of files are read here.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

from wirefmt.capture._engine import PcapReader
from wirefmt.capture.sources import READ_FAULTS, Chunks, Source
from wirefmt.errors import CaptureError

#: Between the last packet of a file and the first of the next one. Packets may be captured a little out of order.
MOST_NS, LEAST_NS = 600 * 10**9, -(10**9)
#: Files that may be missing in a row.
MISSING = 1000
_DIGITS = re.compile(r"([0-9]+)")
_NUMBERED = re.compile(r"\.(?:pcap|pcapng|cap|ntar|dmp)$", re.IGNORECASE)
_PACKED = re.compile(r"\.(?:gz|zst|bz2|xz|lz4)$", re.IGNORECASE)
_DATE = 8  # digits of a number that is a date or a time


def _name(path: str) -> tuple[str, list[str]]:
    """A name without its numbers, and the numbers. tcpdump -C begins with x.pcap and goes on with x.pcap1."""
    path = _PACKED.sub("", path)
    if _NUMBERED.search(path):
        path += "0"
    folder, base = os.path.split(path)
    parts = _DIGITS.split(base)
    return f"{folder}/{'#'.join(parts[::2])}", parts[1::2]


def missing_between(before: str, after: str) -> int | None:
    """How many files of a rotation are missing between these two, by their names; None: they are not of one rotation."""
    (one, old), (other, new) = _name(before), _name(after)
    changed = [i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b]
    if one != other or not changed:
        return None
    dated = [i for i in changed if len(new[i]) >= _DATE]
    if dated or len(new) > 4:  # a date in one number, or in several
        return 0 if [int(n) for n in new] > [int(n) for n in old] else None
    step = int(new[changed[0]]) - int(old[changed[0]])
    padded = len(old[changed[0]]) == len(new[changed[0]]) > 1
    return step - 1 if len(changed) == 1 and (step == 1 or (padded and 0 < step <= MISSING)) else None


def first_packet(source: Source) -> tuple[int, int] | None:
    """Time in ns and link type of the first packet; None: there is none, or the file cannot be read."""
    reader = PcapReader()
    try:
        with Chunks(source) as chunks:
            for chunk in chunks:
                for part in (chunk[:4096], chunk[4096:]):
                    for _, ts_ns, link_type, _, _ in reader.feed(part):
                        return ts_ns, link_type
    except (CaptureError, *READ_FAULTS):
        pass
    return None


class Rotations:
    """The files of a reader, in order, and which of them go on with the one before.

    Attributes:
        sources: the files; a ring that wrapped begins with its oldest.
        notes: what was found, in words.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = list(sources)
        self.notes: list[str] = []
        self._missing: dict[int, int] = {}  # file that may go on with the one before -> files missing between them
        self._first: dict[int, tuple[int, int] | None] = {}
        self._begin = 0  # of the present rotation
        at = 0
        while at < len(self.sources):
            stop = at + 1
            while stop < len(self.sources) and self._may_follow(stop) is not None:
                stop += 1
            if stop - at > 1:
                self._look_at(at, stop)
            at = stop

    def __bool__(self) -> bool:
        return bool(self._missing)

    def _may_follow(self, i: int) -> int | None:
        before, after = self.sources[i - 1], self.sources[i]
        return missing_between(before.name, after.name) if _is_file(before) and _is_file(after) else None

    def _look_at(self, begin: int, stop: int) -> None:
        """Files whose names follow one another."""
        self._first |= {i: first_packet(self.sources[i]) for i in range(begin, stop)}
        steps = [1 + (self._may_follow(i) or 0) for i in range(begin + 1, stop)]
        self._missing |= {i: step // min(steps) - 1 for i, step in enumerate(steps, begin + 1)}
        times = [(self._first[i] or (0, 0))[0] for i in range(begin, stop)]
        falls = [i for i in range(1, len(times)) if times[i] < times[i - 1]]
        if len(falls) == 1 and times[-1] < times[0] and min(times) > 0:
            order = [begin + (falls[0] + i) % len(times) for i in range(len(times))]
            self.sources[begin:stop] = [self.sources[i] for i in order]
            self._first |= dict(zip(range(begin, stop), [self._first[i] for i in order], strict=True))
            for i in range(begin + 1, stop):
                self._missing[i] = 0
            self.notes.append(f"a ring that wrapped: the oldest of its files is {_base(self.sources[begin])}")

    def goes_on(self, i: int, last_ns: int) -> bool:
        """Does file `i` go on with the file before it, whose last packet had this time?"""
        first = self._first.get(i)
        if i not in self._missing or first is None or self._first[i - 1] is None:
            return False
        gap = first[0] - last_ns
        names = f"{_base(self.sources[i - 1])} and {_base(self.sources[i])}"
        if gap > MOST_NS:
            self.notes.append(f"{gap // 10**9:,} s without a packet between {names}: they are read as two captures")
        if not LEAST_NS <= gap <= MOST_NS:
            return False
        if self._missing[i]:
            self.notes.append(f"a rotated capture has a gap: {self._missing[i]:,} files are missing between {names}")
        return True

    def ended(self, stop: int) -> None:
        """The capture that began with the file after the last one that ended has ended before file `stop`."""
        if stop - self._begin > 1:
            names = f"{_base(self.sources[self._begin])} ... {_base(self.sources[stop - 1])}"
            self.notes.append(f"{names}: {stop - self._begin:,} files are read as one rotated capture")
        self._begin = stop


def _base(source: Source) -> str:
    return os.path.basename(source.name)


def _is_file(source: Source) -> bool:
    try:
        return source.close and stat.S_ISREG(os.stat(source.name).st_mode)
    except OSError:
        return False
