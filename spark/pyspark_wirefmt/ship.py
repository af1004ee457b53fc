"""Sending the installed package to executors that do not have it, and asking them what they have.

A wheel of this package holds a shared library, which Python cannot import out of a zip: `addPyFile` cannot work. An
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

#: The folder under which executors find the archive.
FOLDER = "wirefmt_lib"


def archive(target: str | Path | None = None) -> Path:
    """Both packages as installed here, in a zip that Spark can unpack (what a renamed wheel would be).

    Executors must run the same Python version on the same kind of machine.
    """
    import pyspark_wirefmt

    path = Path(target) if target else Path(tempfile.mkdtemp(prefix="wirefmt-")) / f"{FOLDER}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for package in (wirefmt, pyspark_wirefmt):
            root = Path(str(package.__file__)).parent
            for file in sorted(root.rglob("*")):
                if file.is_file() and file.suffix in (".py", ".so", ".pyd", ".typed", ".json"):
                    out.write(file, Path(root.name) / file.relative_to(root))
    return path


def ship(spark: SparkSession) -> None:
    """Gives the package of the driver to the executors of a running session; then `check(spark)`.

    For a classic session (not Spark Connect). Before a session starts the same is done by two settings, see
    spark/README.md: `spark.archives` and `spark.executorEnv.PYTHONPATH`.
    """
    context = spark.sparkContext
    context.addArchive(f"{archive()}#{FOLDER}")
    # Archives lie beside files added with addPyFile, and workers put the names listed here on sys.path.
    if FOLDER not in context._python_includes:  # type: ignore[operator]
        context._python_includes.append(FOLDER)  # type: ignore[union-attr]
    check(spark)


def check(spark: SparkSession) -> None:
    """Raises RuntimeError where an executor lacks wirefmt or has another version than the driver.

    One small task per core of the cluster is asked; executors that start later are not.
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
    # nested, so that it travels by value: executors may not have this module
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
