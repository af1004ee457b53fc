"""Run the fuzz targets.

    python fuzz/run.py --seconds 60                    all targets, the time shared between them
    python fuzz/run.py --seconds 60 --target capture
    python fuzz/run.py --inputs 4000 --seed 7          as many inputs of each target, the same ones every time
    python fuzz/run.py --blocks 9000000 --seed 7       inputs of each target until they have run as many blocks of the core
    python fuzz/run.py --once                          every input that there is, without mutations
    python fuzz/run.py --target capture FILE...        run inputs once, to look into a failure

Seeds are mutated. In the build of fuzz/sanitized.sh the core says which of its branches an input reaches
(coverage.c): inputs that reach branches new to their target are kept in fuzz/corpus/TARGET and mutated further. In any
other build mutations are blind, and quicker. An input that fails is kept as fuzz/corpus/TARGET/crash-*, and the exit
status is 1. The current input is always in fuzz/corpus/TARGET/last, so that it is there after a crash of the process.

In the sanitized build, besides what the targets and the sanitizers find:

- no input may take more memory at once than MEMORY and a multiple of its size (MEMORY_RATIO), Python's objects included;
- inputs that are kept, and some of the others, run several times over: what grows by the same at every turn is a leak;
- LeakSanitizer looks for memory that nothing points to, at the end of each target.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import faulthandler
import gc
import hashlib
import itertools
import math
import mmap
import os
import random
import subprocess
import sys
import time
import traceback
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.urandom = random.Random(0).randbytes  # the keys of the core's tables: the same inputs take the same branches

from targets import TARGETS, Target  # noqa: E402

CORPUS = Path(__file__).parent / "corpus"
LONGEST = 1 << 17  # octets of one input
LONGEST_KEPT = 1 << 14
HANG_S = 60  # no input takes longer, even under sanitizers on a busy machine
#: Memory that one input may use: what decoders keep ready, one message of the largest allowed size, and a multiple of the
#: input's own size. Captures keep 16 MiB of one message, batches and their columns.
MEMORY, MEMORY_RATIO = 96 << 20, 4000
TURNS = 4  # runs of an input that is checked for leaks
LEAK_EVERY = 500  # inputs


class Last:
    """The current input, in a file mapped into memory: the kernel keeps it when the process dies."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "w+b")  # noqa: SIM115 (closed in close())
        self.file.truncate(LONGEST + 4)
        self.map = mmap.mmap(self.file.fileno(), LONGEST + 4)

    def keep(self, data: bytes) -> None:
        self.map[4 : 4 + len(data)] = data
        self.map[:4] = len(data).to_bytes(4, "little")

    def close(self) -> None:
        size = int.from_bytes(self.map[:4], "little")
        data = self.map[4 : 4 + size]
        self.map.close()
        self.file.seek(0)
        self.file.write(data)
        self.file.truncate(size)
        self.file.close()


# ------------------------------------------------------------------------------------------------ mutations

INTERESTING = bytes.fromhex("00 01 02 03 04 0a 10 20 23 24 2b 2f 30 7f 80 81 c0 e0 ed fe ff")


def flip(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    d[r.randrange(len(d))] ^= 1 << r.randrange(8)


def octet(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    d[r.randrange(len(d))] = r.choice(INTERESTING) if r.random() < 0.7 else r.randrange(256)


def step(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    i = r.randrange(len(d))
    d[i] = (d[i] + r.choice((-2, -1, 1, 2))) & 0xFF


def number(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    """Replace two or four octets by a number near a boundary, in either byte order."""
    size = r.choice((2, 4))
    if len(d) >= size:
        edge = r.choice(
            (0, 1, len(d), 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, (1 << 8 * size) - 1, 1 << 8 * size - 1)
        )
        i = r.randrange(len(d) - size + 1)
        value = (edge + r.choice((-1, 0, 0, 1))) & ((1 << 8 * size) - 1)
        d[i : i + size] = value.to_bytes(size, r.choice(("big", "little")))


def insert(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    i = r.randrange(len(d) + 1)
    d[i:i] = bytes(r.choice(INTERESTING) for _ in range(r.randint(1, 8)))


def remove(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    i = r.randrange(len(d))
    del d[i : i + r.randint(1, 1 + len(d) // 8)]


def cut(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    del d[r.randrange(len(d)) + 1 :]


def repeat(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    i = r.randrange(len(d))
    part = d[i : i + r.randint(1, 64)]
    d[i:i] = part * r.randint(1, 4 if r.random() < 0.98 else 300)


def splice(d: bytearray, r: random.Random, seeds: list[bytes]) -> None:
    other = r.choice(seeds)
    i = r.randrange(len(other) + 1)
    at = r.randrange(len(d) + 1)
    d[at : at + (0 if r.random() < 0.5 else r.randint(0, 64))] = other[i : i + r.randint(1, 200)]


MUTATIONS: list[Callable[[bytearray, random.Random, list[bytes]], None]] = [
    flip, flip, octet, octet, octet, step, number, insert, remove, cut, repeat, splice,
]  # fmt: skip


def mutate(seed: bytes, r: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(seed)
    for _ in range(r.choice((1, 1, 1, 2, 2, 3, 5, 10))):
        if not data:
            data.append(r.randrange(256))
        r.choice(MUTATIONS)(data, r, seeds)
    return bytes(data[:LONGEST])


# ------------------------------------------------------------------------------------------------ the loop


clear_type_cache: Callable[[], None] = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache


class Coverage:
    """coverage.c if it is loaded; otherwise no input counts as new."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(None)
        self.on = hasattr(self.library, "coverage_begin")

        if self.on:
            self.library.coverage_held.restype = self.library.coverage_most.restype = ctypes.c_int64
            self.library.coverage_blocks.restype = ctypes.c_int64
            self.library.coverage_forget()

    def begin(self) -> None:
        if self.on:
            self.library.coverage_begin()

    def held(self) -> int:
        """Memory that is allocated and not freed."""
        return int(self.library.coverage_held())

    def most(self) -> int:
        """... the largest amount since begin()."""
        return int(self.library.coverage_most())

    def grows(self, run: Callable[[bytes], None], data: bytes) -> int:
        """Memory that every run leaves behind."""
        if not self.on:
            return 0
        return self.least(run, data, TURNS) and self.least(run, data, 4 * TURNS)  # free lists fill

    def least(self, run: Callable[[bytes], None], data: bytes, turns: int) -> int:
        held = array("q", bytes(8 * turns))  # its numbers are not objects
        for turn in range(turns):
            run(data)
            gc.collect()
            clear_type_cache()  # it keys attribute names by address, which are new in every run
            held[turn] = self.held()
        return max(0, min(b - a for a, b in itertools.pairwise(held[1:])))

    def lost(self) -> bool:
        """Does LeakSanitizer find unreachable memory? It prints what it finds."""
        check = getattr(self.library, "__lsan_do_recoverable_leak_check", None)
        gc.collect()
        return bool(check()) if self.on and check is not None else False

    def blocks(self) -> int:
        """Blocks of the core that were run, since the process began."""
        return int(self.library.coverage_blocks()) if self.on else 0

    def is_new(self) -> bool:
        return self.on and self.library.coverage_end() > 0

    def total(self) -> int:
        return int(self.library.coverage_total()) if self.on else 0


class Inputs:
    """Seeds, inputs found by earlier runs, and inputs found by this one."""

    def __init__(self, name: str, target: Target, r: random.Random) -> None:
        self.folder = CORPUS / name
        self.folder.mkdir(parents=True, exist_ok=True)
        found = [p.read_bytes() for p in sorted(self.folder.iterdir()) if p.name.startswith("found-")]
        self.all = [s for s in [*target.seeds(), *found] if len(s) <= LONGEST] or [b"\0"]
        self.first = list(dict.fromkeys(self.all))  # each runs once unchanged
        r.shuffle(self.first)
        self.fresh: list[bytes] = []

    def next(self, r: random.Random) -> bytes:
        if self.first:
            return self.first.pop()
        pool = self.fresh[-200:] if self.fresh and r.random() < 0.5 else self.all
        return mutate(r.choice(pool), r, self.all)

    def keep(self, data: bytes) -> None:
        if not self.first and len(data) <= LONGEST_KEPT:
            self.fresh.append(data)
            self.all.append(data)
            (self.folder / f"found-{digest(data)}").write_bytes(data)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def report(name: str, data: bytes) -> None:
    path = CORPUS / name / f"crash-{digest(data)}"
    path.write_bytes(data)
    print(f"{name}: FAILED on {len(data)} octets, kept as {path}", file=sys.stderr)
    if len(data) <= LONGEST_KEPT:  # the files of a CI machine are lost
        print(f"{name}: base64 {base64.b64encode(data).decode()}", file=sys.stderr)


class TooMuch(AssertionError):
    """Memory above its limit, or left behind."""


def once(run: Callable[[bytes], None], data: bytes, coverage: Coverage, turns: bool) -> bool:
    """Run an input; return whether to keep it. Any exception is a finding."""
    before = coverage.held() if coverage.on else 0
    coverage.begin()
    run(data)
    fresh = coverage.is_new()
    if coverage.on and (taken := coverage.most() - before) > MEMORY + MEMORY_RATIO * len(data):
        raise TooMuch(f"{taken} octets of memory for an input of {len(data)}")
    if (fresh or turns) and (grown := coverage.grows(run, data)) > 0:
        raise TooMuch(f"a leak: {grown} octets more at every turn")
    return fresh


def loop(name: str, target: Target, seconds: float, most: float, blocks: float, seed: int) -> bool:
    """At most `most` inputs, until they have run `blocks` blocks or `seconds` are over. Whether nothing was found."""
    r = random.Random(seed)
    inputs = Inputs(name, target, r)
    coverage = Coverage()
    last = Last(CORPUS / name / "last")
    began, blocks, before = time.monotonic(), coverage.blocks() + blocks, threads()
    count = 0
    gc.collect()
    gc.freeze()  # what is here already is not looked through at every turn
    try:
        while count < most and coverage.blocks() < blocks and time.monotonic() - began < seconds:
            data = inputs.next(r)
            last.keep(data)
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            try:
                fresh = once(target.run, data, coverage, count % LEAK_EVERY == 0)
            except BaseException:  # any exception is a finding, also one that is not an Exception
                report(name, data)
                traceback.print_exc()
                return False
            if fresh:
                inputs.keep(data)
            count += 1
        end_watchdog(before)
        if coverage.lost():
            print(f"{name}: LeakSanitizer has found what is above (seed {seed})", file=sys.stderr)
            return False
    finally:
        faulthandler.cancel_dump_traceback_later()
        last.close()
    reached = f", {coverage.total()} branches reached, {len(inputs.fresh)} inputs added" if coverage.on else ""
    left = f", {len(inputs.first)} seeds not run" if inputs.first else ""
    spent = time.monotonic() - began
    print(f"{name}: {count} inputs in {spent:.0f} s, nothing found{reached}{left} (seed {seed})", flush=True)
    return True


def threads() -> int:
    """Of this process; 0: the system does not say."""
    tasks = Path("/proc/self/task")
    return len([*tasks.iterdir()]) if tasks.exists() else 0


def end_watchdog(before: int) -> None:
    """Cancel faulthandler's dump, and wait until its threads, one for each input, have left: LeakSanitizer may crash on one that
    is just ending. before: threads that there were before the first."""
    faulthandler.cancel_dump_traceback_later()
    end = time.monotonic() + 5
    while threads() > before and time.monotonic() < end:
        time.sleep(0.001)


def all_once(name: str, target: Target) -> bool:
    """Run every existing input. Returns whether nothing was found."""
    good = True
    first = Inputs(name, target, random.Random(0)).first
    for data in first:
        try:
            target.run(data)
        except BaseException:  # see loop()
            report(name, data)
            traceback.print_exc()
            good = False
    print(f"{name}: {len(first)} inputs once", flush=True)
    return good


def main() -> int:
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=None, help="for all targets together; without any limit 60")
    parser.add_argument("--inputs", type=int, default=math.inf, help="of each target, at most")
    parser.add_argument(
        "--blocks", type=int, default=math.inf, help="of the core that the inputs of each target run, at most"
    )
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations; else the clock's")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time; else one per processor"
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--once", action="store_true", help="every seed and all that is kept, once; no mutations")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.once:
        passed = [all_once(name, TARGETS[name]) for name in names]
        return 0 if all(passed) else 1
    if options.files:
        for name in names:
            for path in options.files:
                TARGETS[name].run(path.read_bytes())
                print(f"{name}: {path} passes")
        return 0
    seed = time.time_ns() & 0xFFFFFFFF if options.seed is None else options.seed
    coverage = Coverage()
    if coverage.on:
        coverage.library.coverage_count_memory()
    limited = math.isfinite(options.inputs) or (math.isfinite(options.blocks) and coverage.on)
    seconds = options.seconds or (math.inf if limited else 60)
    if len(names) > 1:
        return 0 if in_processes(names, seconds, options.jobs, ["--seed", str(seed), *limits(options)]) else 1
    good = loop(names[0], TARGETS[names[0]], seconds, options.inputs, options.blocks, seed)
    status = 0 if good else 1
    if coverage.on:  # each target was checked for leaks: memory that the interpreter leaves at its end is not ours
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def limits(options: argparse.Namespace) -> list[str]:
    named = {"--inputs": options.inputs, "--blocks": options.blocks}
    return [word for name, most in named.items() if math.isfinite(most) for word in (name, str(most))]


def in_processes(names: list[str], seconds: float, jobs: int, arguments: list[str]) -> bool:
    """Run each target in a process of its own, `jobs` at a time: so nothing that one target leaves in memory changes what the
    next one keeps, and a crash ends one target only. Whether nothing was found."""
    end = time.monotonic() + seconds
    left = len(names)

    def run(name: str) -> bool:
        nonlocal left
        share = jobs * (end - time.monotonic()) / left  # what one target leaves of its share goes to those after it
        left -= 1
        command = [sys.executable, __file__, "--target", name, *arguments]
        if math.isfinite(end):
            command += ["--seconds", str(max(min(share, end - time.monotonic()), 0.001))]
        status = subprocess.run(command).returncode
        if status < 0:
            print(f"{name}: FAILED with signal {-status} on {CORPUS / name / 'last'}", file=sys.stderr, flush=True)
        return status == 0

    with ThreadPoolExecutor(jobs) as pool:
        return all([*pool.map(run, names)])


if __name__ == "__main__":
    sys.exit(main())
