"""decode_to_parquet: tasks write the files, and the folder is whole or says that it is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from lib.captures import live
from lib.spark_captures import DEFAULT, one_process, rows
from pyspark_wirefmt import decode_to_parquet, message_schema, parquet, plan
from pyspark_wirefmt.options import Options
from wirefmt.capture.files import expand

pytestmark = pytest.mark.spark

CAPTURE = "mosquitto-paho-v5.pcap"


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_and_manifest(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    out = tmp_path / "out"
    manifest = decode_to_parquet(spark, live(CAPTURE), out, partitions=partitions)
    truth = one_process(live(CAPTURE))
    table = pq.ParquetDataset(str(out)).read()
    assert rows(table) == truth
    assert spark.read.parquet(str(out)).schema == message_schema(DEFAULT)
    assert sum(m.rows for m in manifest) == len(truth)
    assert len(manifest) == partitions
    written = [m for m in manifest if m.file]
    assert sum(m.bytes for m in written) == sum(Path(m.file).stat().st_size for m in written)
    errors = sum(json.loads(row)["status"] != "ok" for row in truth)
    assert sum(m.errors for m in manifest) == errors
    assert files(out) == {Path(m.file).name for m in written} | {"_SUCCESS"}
    assert [m["rows"] for m in json.loads((out / "_SUCCESS").read_text())] == [m.rows for m in manifest]


def test_row_groups_do_not_depend_on_batches(spark: SparkSession, tmp_path: Path) -> None:
    """A group of many columns for each batch makes files larger and queries slower: all rows of this capture are one group."""
    (made,) = decode_to_parquet(spark, live(CAPTURE), tmp_path, partitions=1, batch_rows=7)
    assert made.rows > 7
    assert pq.ParquetFile(made.file).metadata.num_row_groups == 1


def test_columns(spark: SparkSession, tmp_path: Path) -> None:
    decode_to_parquet(spark, live(CAPTURE), tmp_path, columns=["kind", "qos"])
    table = pq.ParquetDataset(str(tmp_path)).read()
    assert rows(table) == one_process(live(CAPTURE), columns=["kind", "qos"])


def test_modes(spark: SparkSession, tmp_path: Path) -> None:
    decode_to_parquet(spark, live(CAPTURE), tmp_path)
    with pytest.raises(FileExistsError):
        decode_to_parquet(spark, live(CAPTURE), tmp_path)
    count = len(one_process(live(CAPTURE)))
    decode_to_parquet(spark, live(CAPTURE), tmp_path, mode="append")
    assert spark.read.parquet(str(tmp_path)).count() == 2 * count
    written = {p.name for p in tmp_path.glob("*.parquet")}
    assert {Path(m["file"]).name for m in json.loads((tmp_path / "_SUCCESS").read_text()) if m["file"]} == written
    decode_to_parquet(spark, live(CAPTURE), tmp_path, mode="overwrite")
    assert spark.read.parquet(str(tmp_path)).count() == count


def test_nothing_to_write(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(FileNotFoundError, match="no capture in"):
        decode_to_parquet(spark, tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_attempts_of_one_task_leave_one_file(tmp_path: Path) -> None:
    """A retry after a lost answer, or a speculative twin: both write, one file stays."""
    options = Options()
    (task,) = plan.tasks(expand([str(live(CAPTURE))]), options)
    folder = parquet._Folder(str(tmp_path))
    folder.prepare("error", "job")
    columns = message_schema().names
    twins = [parquet._write_task(task, 0, options, (), columns, str(tmp_path), "job", "snappy")[0] for _ in range(2)]
    assert twins[0]["rows"] == twins[1]["rows"] > 0
    assert files(tmp_path) == {"_temporary"}
    assert files(tmp_path / "_temporary" / "job") == {"part-00000-job.parquet", "_job"}
    folder.finish("job", [], twins[1:])
    assert files(tmp_path) == {"part-00000-job.parquet", "_SUCCESS"}


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_job_whose_driver_died_leaves_no_rows(tmp_path: Path, moved: Any) -> None:
    """It dies while tasks write, or while the driver moves the files; append removes what it has left, and nothing else."""
    tasks = plan.tasks(expand([str(live(CAPTURE))]), Options(partitions=2))
    folder = parquet._Folder(str(tmp_path))

    def job(name: str, mode: str) -> list[dict[str, object]]:
        earlier = folder.prepare(mode, name)
        made = [
            parquet._write_task(t, n, Options(), (), ["kind"], str(tmp_path), name, "snappy")[0]
            for n, t in enumerate(tasks)
        ]
        if name != "dead":
            folder.finish(name, earlier, made)
        return made

    job("first", "error")
    before, manifest = files(tmp_path), (tmp_path / "_SUCCESS").read_text()
    (tmp_path / "part-00000-foreign.parquet").write_bytes(b"")
    for row in job("dead", "append")[:moved]:
        target = Path(str(row["file"]))
        (tmp_path / "_temporary" / "dead" / target.name).rename(target)
    assert files(tmp_path) - {"_temporary", "part-00000-foreign.parquet"} - before == {
        f"part-{n:05d}-dead.parquet" for n in range(moved)
    }
    assert (tmp_path / "_SUCCESS").read_text() == manifest
    job("again", "append")
    assert not any("dead" in name for name in files(tmp_path))
    assert files(tmp_path) == before | {"part-00000-foreign.parquet"} | {
        f"part-{n:05d}-again.parquet" for n in range(2)
    }
    assert len(json.loads((tmp_path / "_SUCCESS").read_text())) == 4


def test_a_job_that_died_after_its_manifest_is_finished(tmp_path: Path) -> None:
    (task,) = plan.tasks(expand([str(live(CAPTURE))]), Options())
    folder = parquet._Folder(str(tmp_path))
    folder.prepare("error", "first")
    folder.finish("first", [], parquet._write_task(task, 0, Options(), (), ["kind"], str(tmp_path), "first", "snappy"))
    (tmp_path / "_temporary" / "first").mkdir(parents=True)  # removed last
    assert len(folder.prepare("append", "next")) == 1
    folder.discard("next")
    assert files(tmp_path) == {"part-00000-first.parquet", "_SUCCESS"}


def test_a_failed_job_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copyfile(live(CAPTURE), tmp_path / "good.pcap")
    unreadable = tmp_path / "folder.pcap"
    (tmp_path / "bad").mkdir()
    unreadable.symlink_to(tmp_path / "bad")
    out = tmp_path / "out"
    planned = [plan.Task((str(path),), (0,), 0, 1) for path in (tmp_path / "good.pcap", unreadable)]
    folder = parquet._Folder(str(out))
    folder.prepare("error", "job")
    write = parquet._writer(planned, Options(), (), message_schema().names, str(out), "job", "snappy")
    with pytest.raises(Exception, match=r"folder\.pcap"):
        spark.range(0, 2, 1, 2).mapInArrow(write, parquet.MANIFEST).collect()
    folder.discard("job")
    assert files(out) == set()


def test_through_fsspec(tmp_path: Path) -> None:
    """A store that pyarrow does not know itself."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install fsspec)")
    (task,) = plan.tasks(expand([str(live(CAPTURE))]), Options())
    folder = parquet._Folder("memory://out")
    folder.prepare("error", "job")
    (row,) = parquet._write_task(task, 0, Options(), (), ["kind"], "memory://out", "job", "zstd")
    folder.finish("job", [], [row])
    store = fsspec.filesystem("memory")
    try:
        assert sorted(p.rpartition("/")[2] for p in store.ls("/out", detail=False)) == [
            "_SUCCESS",
            "part-00000-job.parquet",
        ]
        with store.open("/out/part-00000-job.parquet") as written:
            assert pq.read_table(written).num_rows == row["rows"]
    finally:
        store.rm("/out", recursive=True)
