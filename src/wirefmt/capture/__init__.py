"""Packet captures to the message table: `read` streams batches, `files` finds captures."""

from wirefmt._core import CaptureDecoder
from wirefmt.capture.reader import Reader, Schema, read

__all__ = ["CaptureDecoder", "Reader", "Schema", "read"]
