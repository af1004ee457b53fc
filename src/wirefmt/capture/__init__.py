"""Packet captures to the message table: `read` streams batches, `files` finds capture files."""

from wirefmt.capture._engine import CaptureDecoder, PacketScanner
from wirefmt.capture.reader import Reader, Schema, decode_source, read

__all__ = ["CaptureDecoder", "PacketScanner", "Reader", "Schema", "decode_source", "read"]
