"""readStream.format("wirefmt"): rotating captures, in micro-batches, through a restart."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

from lib.captures import live
from lib.spark_captures import cut, one_process, rows

pytestmark = pytest.mark.spark

CAPTURE = "mosquitto-paho-v5.pcap"


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Seven rotated files, an hour old, waiting to be put into the directory."""
    (tmp_path / "parts").mkdir()
    made = cut(live(CAPTURE), [50, 100, 150, 200, 250, 300], tmp_path / "parts")
    for number, path in enumerate(made):
        os.utime(path, (1_700_000_000 + number // 2, 1_700_000_000 + number // 2))  # two share a time
    return made


def put(path: Path, folder: Path) -> None:
    """A capture appears in the directory complete, with its time kept."""
    folder.mkdir(exist_ok=True)
    shutil.copy2(path, folder.parent / "arriving")
    (folder.parent / "arriving").rename(folder / path.name)


def run(spark, folder: Path, tmp_path: Path, **options: str) -> None:
    """All there is, then stop."""
    query = (
        spark.readStream.format("wirefmt").options(settle="0", **options).load(str(folder))
        .writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start(str(tmp_path / "out"))
    )  # fmt: skip
    try:
        query.awaitTermination()
    finally:
        query.stop()


def offsets(tmp_path: Path) -> list[dict[str, object]]:
    found = sorted(
        (p for p in (tmp_path / "checkpoint" / "offsets").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
    )
    return [json.loads(p.read_text().splitlines()[2]) for p in found]


def test_restart_reads_every_file_once(spark, parts, tmp_path):
    watched = tmp_path / "watched"
    for path in parts[:5]:
        put(path, watched)
    run(spark, watched, tmp_path, maxFilesPerTrigger="2")
    assert len(offsets(tmp_path)) == 3  # 2 + 2 + 1 files
    for path in parts[5:]:
        put(path, watched)
    run(spark, watched, tmp_path, maxFilesPerTrigger="2")
    run(spark, watched, tmp_path, maxFilesPerTrigger="2")  # nothing new
    written = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert rows(written) == one_process([watched / p.name for p in parts])
    assert all(set(o) == {"modified", "name"} for o in offsets(tmp_path))


def test_a_batch_that_was_not_committed_is_done_again(spark, parts, tmp_path):
    watched = tmp_path / "watched"
    for path in parts[:4]:
        put(path, watched)
    run(spark, watched, tmp_path, maxFilesPerTrigger="2")
    last = tmp_path / "checkpoint" / "commits" / "1"
    last.unlink()  # as if the driver had died between the sink's commit and the stream's
    (last.parent / ".1.crc").unlink(missing_ok=True)
    put(parts[4], watched)
    run(spark, watched, tmp_path, maxFilesPerTrigger="2")
    written = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert rows(written) == one_process([watched / p.name for p in parts[:5]])


def until_now(paths: list[Path], **options: object) -> list[str]:
    """One process that has read these files as one capture, and waits for more."""
    import pyarrow as pa

    from wirefmt.capture import CaptureDecoder

    decoder = CaptureDecoder(flows="across-files", **options)
    for number, path in enumerate(paths):
        decoder.begin_file(str(path), number)
        assert decoder.feed(path.read_bytes()) == path.stat().st_size
        assert decoder.end_file()
    return rows([pa.record_batch(decoder.take(final=True))])


@pytest.mark.parametrize("options", [{}, {"partitions": "2"}])
def test_connections_go_on_from_file_to_file(spark, parts, tmp_path, options):
    watched = tmp_path / "watched"
    for path in parts[:5]:
        put(path, watched)
    run(spark, watched, tmp_path, maxFilesPerTrigger="2", flows="across-files", **options)
    written = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert rows(written) == until_now([watched / p.name for p in parts[:5]])
    for path in parts[5:]:
        put(path, watched)
    run(spark, watched, tmp_path, maxFilesPerTrigger="2", flows="across-files", **options)
    written = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert rows(written) == until_now([watched / p.name for p in parts])
    # the capture ends between messages, so nothing is left waiting
    assert rows(written, ("capture", "frame_no")) == one_process(live(CAPTURE), ("capture", "frame_no"))


def test_context_is_bounded(parts, tmp_path):
    from pyspark_wirefmt.options import Options
    from pyspark_wirefmt.stream import CaptureStream

    stream = CaptureStream([str(parts[0].parent)], Options(flows="across-files", context_files=2), ["kind"])
    names = [str(p) for p in parts]
    start, end = ({"modified": p.stat().st_mtime, "name": str(p)} for p in (parts[3], parts[5]))
    (work,) = stream.partitions(start, end)
    assert list(work.value.names) == names[2:6]
    assert work.value.context == 2


def test_files_still_written_wait(parts, tmp_path):
    from pyspark_wirefmt.options import Options
    from pyspark_wirefmt.stream import CaptureStream

    watched = tmp_path / "watched"
    for path in parts[:2]:
        put(path, watched)
    stream = CaptureStream([str(watched)], Options(settle=1000.0), ["kind"])
    start = stream.initialOffset()
    assert stream.latestOffset(start)["name"] == str(watched / parts[1].name)
    put(parts[2], watched)
    os.utime(watched / parts[2].name)  # written a moment ago
    assert stream.latestOffset(start)["name"] == str(watched / parts[1].name)


def test_empty_directory(spark, tmp_path):
    (tmp_path / "watched").mkdir()
    run(spark, tmp_path / "watched", tmp_path)


def test_options_are_checked(spark, tmp_path):
    with pytest.raises(Exception, match="no option 'colums'"):
        spark.readStream.format("wirefmt").option("colums", "ts").load(str(tmp_path)).schema  # noqa: B018
