"""Packet captures to the message table: `read` streams batches, `files` finds captures."""

from wirefmt.capture.reader import Reader, Schema, read

__all__ = ["Reader", "Schema", "read"]
