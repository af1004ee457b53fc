"""Files in formats that are not read: refused with a sentence that says what they are and what converts them."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest

from lib.paths import ROOT
from lib.skips import imported
from lib.wire import Tcp, connect, pcap
from wirefmt import capture
from wirefmt.errors import CaptureError
from wirefmt.spec.captures import FORMATS

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")

#: The first octets that editcap 4.0.17 writes for `-F NAME`, and words of the sentence.
EDITCAP: dict[str, tuple[str, str]] = {
    "5views": (
        "5View",
        "aaaaaaaa20000000000001001800000000100018000000000000000000000000"
        "0700008004000100df7e026b00000020"
    ),
    "commview-ncf": (
        "CommView",
        "4a004a0000ea070b150215077ba50b0000000000000000000000000000000000"
        "0000000008004500003c619640004006"
    ),
    "commview-ncfx": (
        "CommView",
        "4a000000ea070b150215077ba50b000000000000000000000000000000000000"
        "08004500003c619640004006db237f00"
    ),
    "erf": (
        "Endace ERF",
        "00000000000000009b0400800000006811000000000000000002000800000000"
        "00000000ff000004000000540010004545646974636170202857697265736861"
        "726b2920342e302e313720284769742076342e302e3137207061636b61676564"
        "20617320342e302e31372d302b6465623132753329000000ff01000400000008"
    ),
    "k12text": (
        "K12 text",
        "2b2d2d2d2d2d2d2d2d2d2b2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2b2d2d2d2d2d"
        "2d2d2d2d2d2b0d0a30323a32313a3037"
    ),
    "lanalyzer": (
        "LANalyzer",
        "01104c000105547261636520446973706c61792054726163652046696c650000"
        "00000000000000000000000000000000"
    ),
    "netmon1": (
        "Network Monitor 1",
        "5254535301010100ea070b0006001500020015000700fb02b802000018000000"
        "00000000000000000000000000000000"
    ),
    "netmon2": (
        "Network Monitor 2",
        "474d425500020100ea070b0006001500020015000700fb02e802000018000000"
        "00000000000000000000000000000000"
    ),
    "nettl": (
        "nettl",
        "5452006400000000000000802f746d702f77697265736861726b2e5452433030"
        "30000000000000000000000000000000"
    ),
    "ngsniffer": (
        "DOS Sniffer",
        "5452534e4946462064617461202020201a010012000000040000000000755d04"
        "01010100000000000004005800000008"
    ),
    "ngwsniffer_1_1": (
        "NetXRay",
        "584350003030312e313030001300016b06000000000000008000000030030000"
        "00000000000000000000000000000000"
    ),
    "ngwsniffer_2_0": (
        "NetXRay",
        "584350003030322e303031001300016b06000000000000008000000078030000"
        "00000000000000000000000000000000"
    ),
    "observer": (
        "Observer",
        "4f62736572766572506b7442756666657256657273696f6e3d31352e30300000"
        "73000002020043005468697320636170"
    ),
    "snoop": (
        "snoop",
        "736e6f6f7000000000000002000000040000004a0000004a0000006400000000"
        "6b010013000ba57b0000000000000000"
    ),
    "visual": (
        "Visual Networks",
        "05564e46060000001300016b0600ffff01000100000000000000000000000000"
        "00000000000000000000000000000000"
    ),
}  # fmt: skip

#: Formats that editcap does not write, by their documented first octets (those of archives: file(1)).
OTHERS = {
    "iptrace 1": ("AIX iptrace", b"iptrace 1.0" + bytes(40)),
    "iptrace 2": ("AIX iptrace", b"iptrace 2.0" + bytes(40)),
    "NetXRay 1.0": ("NetXRay 1.0", b"VL\0\0" + bytes(40)),
    "K12": ("Tektronix K12 capture", bytes.fromhex("0000020012050010") + bytes(40)),
    "btsnoop": ("Bluetooth", b"btsnoop\0" + bytes(40)),
    "Peek": ("Peek", b"\x7fver" + bytes(40)),
    "compress": ("uncompress", bytes.fromhex("1f9d90") + bytes(40)),
    "zip": ("unzip", b"PK\3\4" + bytes(40)),
    "7z": ("7z x", bytes.fromhex("377abcaf271c") + bytes(40)),
    "tar": ("tar -xf", b"a.pcap".ljust(257, b"\0") + b"ustar\x0000" + bytes(300)),
    "Parquet": ("no packets", b"PAR1" + bytes(40)),
}


@pytest.mark.parametrize("name", [*EDITCAP, *OTHERS])
def test_the_sentence(name: str, tmp_path: Path) -> None:
    words, octets = OTHERS.get(name) or (EDITCAP[name][0], bytes.fromhex(EDITCAP[name][1]))
    path = tmp_path / "old.cap"
    path.write_bytes(octets)
    with pytest.raises(CaptureError, match=r"cannot read '.*old\.cap': this is an? ") as refused:
        capture.read(path)
    assert words in str(refused.value)
    assert name not in EDITCAP or "editcap -F pcap" in str(refused.value)


def test_among_several_it_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "a.cap").write_bytes(bytes.fromhex(EDITCAP["snoop"][1]))
    tcp = Tcp()
    (tmp_path / "b.cap").write_bytes(pcap([*tcp.open(), *tcp.send(0, connect())]))
    found = pa.table(capture.read([tmp_path / "a.cap", tmp_path / "b.cap"])).to_pylist()
    assert [(r["status"], r["kind"]) for r in found] == [("malformed", None), ("ok", "CONNECT")]
    assert found[0]["error"].startswith("this is a snoop capture (RFC 1761); convert it with Wireshark's editcap")


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_chunks_do_not_matter(chunk: int) -> None:
    octets = bytes.fromhex(EDITCAP["erf"][1])
    decoder = capture.CaptureDecoder()
    decoder.begin_file("x")
    for at in range(0, len(octets), chunk):
        decoder.feed(octets[at : at + chunk])
    assert decoder.end_file()
    assert decoder.not_a_capture
    assert "Endace ERF" in (decoder.fault or "")


def told(octets: bytes) -> str:
    decoder = capture.CaptureDecoder()
    decoder.begin_file("x")
    decoder.feed(octets)
    assert decoder.end_file()
    return decoder.fault or ""


#: From the first octets of a packet of CommView: year, month, day, hours, minutes, seconds.
MOMENTS = [
    (1995, 1, 1, 0, 0, 0), (2099, 12, 31, 23, 59, 60), (2024, 2, 29, 0, 30, 1), (2024, 6, 30, 12, 0, 30), (2024, 6, 15, 1, 1, 0),
]  # fmt: skip
NO_MOMENTS = [
    (1994, 6, 15, 12, 30, 30), (2100, 6, 15, 12, 30, 30), (2024, 0, 15, 12, 30, 30), (2024, 13, 15, 12, 30, 30),
    (2024, 6, 0, 12, 30, 30), (2024, 6, 32, 12, 30, 30), (2024, 6, 15, 24, 30, 30), (2024, 6, 15, 12, 60, 30),
    (2024, 6, 15, 12, 30, 61),
]  # fmt: skip


@pytest.mark.parametrize("name", ["commview-ncf", "commview-ncfx"])
@pytest.mark.parametrize(("moment", "good"), [(m, True) for m in MOMENTS] + [(m, False) for m in NO_MOMENTS])
def test_a_packet_of_commview_has_a_moment(name: str, moment: tuple[int, ...], good: bool) -> None:
    octets = bytes.fromhex(EDITCAP[name][1])
    at = octets.index(b"\xea\x07")  # 2026
    changed = octets[:at] + moment[0].to_bytes(2, "little") + bytes(moment[1:]) + octets[at + 7 :]
    assert ("CommView" in told(changed)) == good


@pytest.mark.parametrize(("apart", "good"), [(0, True), (86400, True), (86401, False), (-86400, True), (-86401, False)])
def test_records_of_erf_are_a_day_apart_at_most(apart: int, good: bool) -> None:
    """Time (8 octets, little-endian; seconds above), type, flags, record length, lost, wire length (Endace's ERF manual)."""
    octets = b""
    for seconds in (1_700_000_000, 1_700_000_000 + apart):
        octets += bytes(4) + seconds.to_bytes(4, "little") + bytes((2, 4)) + (80).to_bytes(2) + bytes(4) + b"\x55" * 64
    assert ("Endace ERF" in told(octets)) == good


def test_octets_of_no_format() -> None:
    for octets in (b"GET / HTTP/1.1\r\n" * 20, b"\0" * 5000, bytes(range(256)) * 20, b"a,b,c\n1,2,3\n" * 900):
        with pytest.raises(CaptureError, match="not a packet capture: unknown magic number"):
            capture.read(io.BytesIO(octets))


def test_formats_that_are_read_are_not_in_the_table() -> None:
    assert not any(f.magic and b"\xa1\xb2\xc3\xd4".startswith(f.magic) for f in FORMATS)
    for name in ("mosquitto-paho-v5.pcap", "mosquitto-paho-v311-lossy-outoforder.pcap.gz"):
        with capture.read(ROOT / "samples" / name) as reader:
            assert sum(map(len, reader)) > 100


@pytest.mark.parametrize("name", EDITCAP)
def test_what_editcap_writes_is_refused_and_what_it_converts_is_read(name: str, tmp_path: Path) -> None:
    editcap = shutil.which("editcap")
    if editcap is None:
        pytest.skip("needs editcap (apt install wireshark-common)")
    old, new = tmp_path / "old.cap", tmp_path / "new.pcap"
    sample = ROOT / "samples" / "mosquitto-paho-v5.pcap"
    if subprocess.run([editcap, "-F", name, "-r", sample, old, "1-30"], check=False, capture_output=True).returncode:
        pytest.skip("this editcap does not write it")
    with pytest.raises(CaptureError, match=r"this is an? ") as refused:
        capture.read(old)
    assert EDITCAP[name][0] in str(refused.value)
    if name in ("observer", "commview-ncfx"):
        return  # editcap 4.0.17 does not read what it writes itself
    command = str(refused.value).partition("editcap: editcap ")[2].split()
    assert command[-2:] == ["OLD", "NEW"]
    subprocess.run([editcap, *command[:-2], old, new], check=True, capture_output=True)
    with capture.read(new) as reader:
        assert sum(map(len, reader)) > 5


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["gzip", "bz2", "lzma", "lz4.frame"])
def test_a_compressed_file_that_is_damaged_is_not_called_empty(name: str, threads: int, tmp_path: Path) -> None:
    """Nothing of it can be read: the error says what the decompressor says."""
    pack = imported(name).compress
    octets = bytearray(pack(b"x" * 1000))
    path = tmp_path / "a.pcap"
    path.write_bytes(octets[:12])
    with pytest.raises(CaptureError, match=r"cannot read .*a\.pcap.: \w+: "):
        list(capture.read(path, threads=threads))
    octets[12:] = bytes(len(octets) - 12)
    path.write_bytes(octets)
    with pytest.raises(CaptureError, match=r"cannot read .*a\.pcap.: \w+: "):
        list(capture.read(path, threads=threads))
    path.write_bytes(pack(b""))
    with pytest.raises(CaptureError, match="empty file"):
        list(capture.read(path, threads=threads))
