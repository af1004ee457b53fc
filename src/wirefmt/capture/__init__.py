"""Packet captures to the message table: `read` streams batches, `Options` says how, `files` finds capture files."""

from wirefmt.capture._engine import CaptureDecoder, PacketScanner
from wirefmt.capture.decode import decode_source
from wirefmt.capture.reader import Reader, Schema, read, read_tables
from wirefmt.spec.options import Options

__all__ = ["CaptureDecoder", "Options", "PacketScanner", "Reader", "Schema", "decode_source", "read", "read_tables"]
