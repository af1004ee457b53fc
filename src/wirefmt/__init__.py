"""Wire formats of message brokers, read and written at native speed."""

from wirefmt.framing import NEED_DATA, Limits
from wirefmt.protocols import sniff
from wirefmt.strictness import LAX, STRICT, Strictness

__all__ = ["LAX", "NEED_DATA", "STRICT", "Limits", "Strictness", "sniff"]

__version__ = "0.1.0"
