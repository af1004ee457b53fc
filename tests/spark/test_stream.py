"""readStream.format("wirefmt"): rotating captures, in micro-batches, through a restart."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

from pyspark.sql import SparkSession

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


def run(spark: SparkSession, folder: Path, tmp_path: Path, **options: str) -> None:
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


def offsets(tmp_path: Path) -> list[dict[str, Any]]:
    found = sorted(
        (p for p in (tmp_path / "checkpoint" / "offsets").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
    )
    return [json.loads(p.read_text().splitlines()[2]) for p in found]


def test_restart_reads_every_file_once(spark: SparkSession, parts: list[Path], tmp_path: Path) -> None:
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
    assert [len(o["files"]) for o in offsets(tmp_path)] == [2, 4, 5, 7]
    for path in watched.iterdir():
        os.utime(path)  # touched, or copied back
    (watched / parts[0].name).rename(watched / "arriving")
    shutil.copy(watched / "arriving", watched / parts[0].name)
    run(spark, watched, tmp_path)
    assert rows(spark.read.parquet(str(tmp_path / "out")).toArrow()) == one_process([watched / p.name for p in parts])


def test_a_batch_that_was_not_committed_is_done_again(spark: SparkSession, parts: list[Path], tmp_path: Path) -> None:
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


def until_now(paths: list[Path], **options: Any) -> list[str]:
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
def test_connections_go_on_from_file_to_file(
    spark: SparkSession, parts: list[Path], tmp_path: Path, options: Any
) -> None:
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


def stream_of(folder: Path, **options: Any) -> Any:
    from pyspark_wirefmt.options import Options
    from pyspark_wirefmt.stream import CaptureStream
    from pyspark_wirefmt.work import Reading

    return CaptureStream([str(folder)], Reading(Options(**{"settle": 0.0} | options), ["kind"], ["kind"], ()))


def planned(stream: Any, start: Any, end: Any) -> list[str]:
    """The names of the files that a micro-batch reads."""
    return [Path(name).name for work in stream.partitions(start, end) if work.value for name in work.value.names]


def step(stream: Any, start: Any) -> Any:
    """The next offset, as Spark stores it, and the files of the micro-batch."""
    end = json.loads(json.dumps(stream.latestOffset(start)))
    return end, planned(stream, start, end)


def test_context_is_bounded(parts: list[Path], tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxFiles

    stream = stream_of(parts[0].parent, flows="across-files", context_files=2)
    names = [str(p) for p in parts]
    start = stream.latestOffset(stream.initialOffset(), ReadMaxFiles(4))
    end = stream.latestOffset(start, ReadMaxFiles(2))
    (work,) = stream.partitions(start, end)
    assert list(work.value.names) == names[2:6]
    assert work.value.context == 2


def test_files_still_written_wait(parts: list[Path], tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    for path in parts[:2]:
        put(path, watched)
    stream = stream_of(watched, settle=1000.0)
    start, read = step(stream, stream.initialOffset())
    assert read == [p.name for p in parts[:2]]
    put(parts[2], watched)
    os.utime(watched / parts[2].name)  # written a moment ago
    os.utime(watched / parts[0].name)
    assert stream.latestOffset(start) == start
    stream.options = stream_of(watched).options
    assert step(stream, start)[1] == [parts[2].name]


def test_a_file_is_read_once_whatever_its_time(parts: list[Path], tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    for path in parts[1:3]:
        put(path, watched)
    start, read = step(stream_of(watched), stream_of(watched).initialOffset())
    assert read == [p.name for p in parts[1:3]]
    for when in (1_800_000_000, 1_500_000_000):
        os.utime(watched / parts[1].name, (when, when))
        assert stream_of(watched).latestOffset(start) == start
    put(parts[0], watched)  # later, and older
    end, read = step(stream_of(watched), start)
    assert read == [parts[0].name]
    assert planned(stream_of(watched), start, end) == read  # a replay
    (watched / parts[2].name).unlink()
    put(parts[3], watched)
    end, read = step(stream_of(watched), end)
    assert read == [parts[3].name]
    assert sorted(end["files"]) == sorted(str(watched / parts[n].name) for n in (0, 1, 3))  # what is gone is forgotten


def test_a_file_that_grew_is_told_and_one_that_was_replaced_is_read(parts: list[Path], tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    for path in parts[:2]:
        put(path, watched)
    stream = stream_of(watched)
    start, _ = step(stream, stream.initialOffset())
    first = watched / parts[0].name
    with first.open("ab") as file:
        file.write(parts[1].read_bytes()[24:])
    with pytest.warns(RuntimeWarning, match=r"has grown from [0-9,]+ to [0-9,]+ bytes since it was read"):
        assert stream.latestOffset(start) == start
    first.write_bytes(parts[2].read_bytes())  # a ring of names, as tcpdump -W writes
    end, read = step(stream, start)
    assert read == [first.name]
    first.unlink()
    with pytest.warns(RuntimeWarning, match="was removed or replaced before it could be read"):
        assert planned(stream, start, end) == []


def test_spark_without_a_start_offset(parts: list[Path], tmp_path: Path) -> None:
    """Spark 4.0 and 4.1 do not say where a micro-batch starts until it is planned."""
    watched = tmp_path / "watched"
    for path in parts[:2]:
        put(path, watched)
    start = stream_of(watched).latestOffset()
    again = stream_of(watched)
    os.utime(watched / parts[0].name)
    put(parts[2], watched)
    end = again.latestOffset()
    assert planned(again, start, end) == [parts[2].name]
    assert again.latestOffset() == end


def test_captures_in_subdirectories_are_told(parts: list[Path], tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    put(parts[0], watched)
    start, _ = step(stream_of(watched), stream_of(watched).initialOffset())
    for path in watched.iterdir():
        (watched / "done").mkdir()
        path.rename(watched / "done" / path.name)
    assert stream_of(watched).latestOffset(start) == start  # what was read is moved away
    with pytest.raises(FileNotFoundError, match="set the option recursive"):
        stream_of(watched).initialOffset()
    with pytest.raises(FileNotFoundError, match="set the option recursive"):
        stream_of(watched).latestOffset({"files": {}})
    assert stream_of(watched / "*.pcap").initialOffset() == {"files": {}}
    assert len(stream_of(watched, recursive=True).latestOffset({"files": {}})["files"]) == 1


def test_empty_directory(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "watched").mkdir()
    run(spark, tmp_path / "watched", tmp_path)


def test_options_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no option 'colums'"):
        spark.readStream.format("wirefmt").option("colums", "ts").load(str(tmp_path)).schema  # noqa: B018
