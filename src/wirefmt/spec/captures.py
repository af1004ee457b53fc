"""File formats that wirefmt recognises but does not read: magic, name, and how to convert the file to pcap."""

from __future__ import annotations

from typing import NamedTuple

_EDITCAP = "convert it with Wireshark's editcap: editcap -F pcap OLD NEW"
#: Formats with a link type per packet: editcap needs one for the whole file.
_EDITCAP_ETHERNET = "convert it with Wireshark's editcap: editcap -F pcap -T ether OLD NEW"


class Format(NamedTuple):
    """A file format, recognised by `magic` at offset `at`; -1: anywhere in the first 64 bytes.

    An empty magic: the format has no magic, and the core recognises it by its first records (`HEURISTICS` in formats.pxi).
    """

    name: str
    magic: bytes
    remedy: str = _EDITCAP
    at: int = 0


FORMATS: tuple[Format, ...] = (
    Format("a snoop capture (RFC 1761)", b"snoop\0\0\0"),
    Format("a btsnoop capture (Bluetooth)", b"btsnoop\0", "it holds no TCP"),
    Format("a NetXRay or Windows Sniffer capture", b"XCP\0"),
    Format("a NetXRay 1.0 capture", b"VL\0\0"),
    Format("a DOS Sniffer capture", b"TRSNIFF data    \x1a"),
    Format("a Microsoft Network Monitor 1 capture", b"RTSS"),
    Format("a Microsoft Network Monitor 2 capture", b"GMBU"),
    Format("an AIX iptrace capture", b"iptrace 1.0"),
    Format("an AIX iptrace capture", b"iptrace 2.0"),
    Format("a Tektronix K12 capture (.rf5)", b"\x00\x00\x02\x00\x12\x05\x00\x10", _EDITCAP_ETHERNET),
    Format("a Tektronix K12 text capture", b"+---------+---------------+----------+", _EDITCAP_ETHERNET),
    Format("an HP-UX nettl capture", b"TR\0d\0", _EDITCAP_ETHERNET),
    Format("an HP-UX 9 nettl capture", b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x07\xd0\x00", _EDITCAP_ETHERNET),
    Format("a Savvius or WildPackets Peek capture", b"\x7fver"),
    Format("a Visual Networks capture", b"\x05VNF"),
    Format("a Viavi Observer capture", b"ObserverPktBufferVersion="),
    Format("a 5View capture", b"\xaa\xaa\xaa\xaa"),
    Format("a RADCOM capture", b"\x42\xd2\x00\x34\x12\x66\x22\x88"),
    Format("a NetScaler trace", b"NetScaler ", at=-1),
    Format("a LANalyzer capture", b"Trace Display Trace File", at=-1),
    Format("an Endace ERF capture", b""),
    Format("a CommView capture", b"", _EDITCAP_ETHERNET),
    Format("a CommView capture (.ncfx)", b"", _EDITCAP_ETHERNET),
    Format("a gzip file", b"\x1f\x8b", "unpack it: gunzip FILE"),
    Format("a zstd file", b"\x28\xb5\x2f\xfd", "unpack it: unzstd FILE"),
    Format("an xz file", b"\xfd7zXZ\0", "unpack it: unxz FILE"),
    Format("a bzip2 file", b"BZh", "unpack it: bunzip2 FILE"),
    Format("an lz4 file", b"\x04\x22\x4d\x18", "unpack it: unlz4 FILE"),
    Format("a file of compress", b"\x1f\x9d", "unpack it: uncompress FILE"),
    Format("a zip archive", b"PK\x03\x04", "unpack it: unzip FILE"),
    Format("a 7z archive", b"7z\xbc\xaf\x27\x1c", "unpack it: 7z x FILE"),
    Format("a tar archive", b"ustar", "unpack it: tar -xf FILE", at=257),
    Format("a Parquet file", b"PAR1", "it holds no packets"),
)
