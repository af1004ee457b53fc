"""Memory that the C library has given out."""

from __future__ import annotations

import ctypes


class _Mallinfo(ctypes.Structure):
    """What mallinfo2 answers: mallinfo(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def heap() -> int:
    """Bytes in use of the C library's heap; 0 where it does not tell (not glibc 2.33, or under a sanitizer)."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return 0
    mallinfo2.restype = _Mallinfo
    info = mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)
