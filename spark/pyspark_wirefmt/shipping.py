"""Send the installed package to executors that lack it, and check the executors' versions.

A wheel of this package contains shared libraries, which Python cannot import from a zip: `addPyFile` cannot work. An
archive can, because Spark unpacks archives on every executor.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wirefmt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = (".py", ".so", ".pyd", ".typed", ".json")


def archive(target: Path) -> Path:
    """Both packages as installed here, in one zip with the structure of a wheel."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for package in _packages():
            _pack(out, package, package.name)
    return target


def ship(spark: SparkSession) -> None:
    """Send the driver's packages to the executors of a running session; then call `check(spark)`.

    For a classic session (not Spark Connect), and executors that run the same Python version on the same kind of
    machine and have pyarrow and numpy. Before a session starts, the wheel itself can be shipped: see spark/README.md.
    """
    # Spark unpacks an archive into a folder with the name after the #, and workers have the parent of these folders on
    # sys.path, so an archive of a package's contents, under the package's name, can be imported
    folder = Path(tempfile.mkdtemp(prefix="wirefmt-"))
    for package in _packages():
        with zipfile.ZipFile(folder / f"{package.name}.zip", "w", zipfile.ZIP_DEFLATED) as out:
            _pack(out, package, "")
        spark.sparkContext.addArchive(f"{folder / package.name}.zip#{package.name}")
    check(spark)


def _packages() -> list[Path]:
    import pyspark_wirefmt

    return [Path(str(package.__file__)).parent for package in (wirefmt, pyspark_wirefmt)]


def _pack(out: zipfile.ZipFile, package: Path, prefix: str) -> None:
    for file in sorted(package.rglob("*")):
        if file.is_file() and file.suffix in _KINDS:
            out.write(file, Path(prefix) / file.relative_to(package))


def check(spark: SparkSession) -> None:
    """Raises RuntimeError if an executor lacks wirefmt or has another version than the driver.

    Runs one small task per core of the cluster; executors that start later are not checked.
    """
    driver = wirefmt.__version__
    probes = spark.sparkContext.defaultParallelism
    versions = _probe()
    rows = spark.range(0, probes, 1, probes).mapInArrow(versions, "host string, version string").distinct().collect()
    wrong = [f"{row.host}: {row.version}" for row in rows if row.version != driver]
    if wrong:
        raise RuntimeError(
            f"wirefmt {driver} runs here, but on the executors: {'; '.join(sorted(wrong))}. "
            "Install the same wheel there or ship it: pyspark_wirefmt.ship(spark), or see spark/README.md"
        )


def _probe() -> Any:
    # nested, so that it is pickled by value: executors may not have this module
    def versions(batches: Iterator[Any]) -> Iterator[Any]:
        import socket

        import pyarrow as pa

        try:
            import wirefmt.mqtt  # loads the compiled core

            version = wirefmt.__version__
        except ImportError as fault:
            version = f"absent ({fault})"
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"host": [socket.gethostname()], "version": [version]})

    return versions
