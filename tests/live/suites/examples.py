"""Run the examples of a client as a suite: `examples.py SUITE.toml FOLDER`.

An entry of the table has a producer, a consumer or both, and for each the texts that it must print and how often at least. The
producer runs to its end, or with `producer_ends = false` until it has printed its texts. Then the consumer runs until it has
printed its texts. The output is that of `go test -v`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

PATIENCE = 60.0


def enough(output: Path, texts: dict[str, int]) -> bool:
    said = output.read_text(errors="replace")
    return all(said.count(text) >= number for text, number in texts.items())


def run(folder: Path, name: str, texts: dict[str, int], output: Path, *, ends: bool) -> bool:
    """Whether the program has printed its texts. If it `ends` by itself, its exit status must be 0."""
    with open(output, "w") as file:
        program = subprocess.Popen(
            [folder / "programs" / name.replace("/", "-")], stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    deadline = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < deadline and program.poll() is None and (ends or not enough(output, texts)):
            time.sleep(0.05)
        went_well = program.poll() == 0 if ends else True
    finally:
        program.kill()
        program.wait()
    return went_well and enough(output, texts)


def main(spec: Path, folder: Path) -> int:
    entries: list[dict[str, Any]] = tomllib.loads(spec.read_text())["example"]
    with tempfile.TemporaryDirectory() as work:
        output = Path(work) / "output"
        for entry in entries:
            for role in ("producer", "consumer"):
                if role in entry:
                    name = f"{role}/{entry[role]}"
                    ends = role == "producer" and entry.get("producer_ends", True)
                    done = run(folder, name, entry[f"{role}_prints"], output, ends=ends)
                    if not done:
                        print(output.read_text(errors="replace")[-4000:])
                    print(f"--- {'PASS' if done else 'FAIL'}: {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
