"""A fuzz target of fuzz/targets.py for libFuzzer, by Atheris: build.sh copies this file to fuzz_TARGET.py.

fuzzer.py --list               the names of the targets
fuzzer.py --imports            the modules that targets import, which PyInstaller does not see
fuzzer.py --seeds TARGET ZIP   the seeds of a target as a corpus
"""

from __future__ import annotations

import ast
import hashlib
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: In a program of PyInstaller the sources are files beside it; otherwise this is the checkout.
TREE = Path(getattr(sys, "_MEIPASS", "")) / "tree" if hasattr(sys, "_MEIPASS") else HERE.parents[1]
sys.path[:0] = [str(TREE / "fuzz"), str(TREE / "tests")]


def imports() -> set[str]:
    """Modules named in imports of the targets and of what they share with the tests."""
    found: set[str] = set()
    for path in (*(TREE / "fuzz").glob("*.py"), *(TREE / "tests" / "lib").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    ours = {path.stem for path in (TREE / "fuzz").glob("*.py")} | {"lib", "__future__"}
    return {name for name in found if name.partition(".")[0] not in ours}


def main(arguments: list[str]) -> None:
    if arguments[1:2] == ["--imports"]:
        print(*sorted(imports()), sep="\n")
        return
    from targets import TARGETS

    if arguments[1:2] == ["--list"]:
        print(*TARGETS, sep="\n")
    elif arguments[1:2] == ["--seeds"]:
        _, _, name, path = arguments
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as corpus:
            for seed in {hashlib.sha256(seed).hexdigest(): seed for seed in TARGETS[name].seeds()}.items():
                corpus.writestr(*seed)
    else:
        import atheris

        atheris.Setup(arguments, TARGETS[Path(arguments[0]).stem.removeprefix("fuzz_")].run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
