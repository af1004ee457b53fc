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


#: Sizes of chunks that a thread keeps for itself when they are freed, and more of them than it keeps (tcache in glibc).
KEPT_SIZES = range(8, 1040, 16)
KEPT_COUNT = 16


def fill_thread_cache(libc: ctypes.CDLL) -> None:
    """Let this thread keep as many freed chunks as it may: mallinfo2 counts them as in use, and their number varies."""
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    chunks = [libc.malloc(size) for size in KEPT_SIZES for _ in range(KEPT_COUNT)]
    for chunk in chunks:
        libc.free(chunk)


def heap() -> int:
    """Bytes in use of the C library's heap; 0 where it does not tell (not glibc 2.33, or under a sanitizer)."""
    try:
        libc = ctypes.CDLL(None)
        mallinfo2 = libc.mallinfo2
    except (AttributeError, OSError):
        return 0
    fill_thread_cache(libc)
    mallinfo2.restype = _Mallinfo
    info = mallinfo2()
    return int(info.uordblks) + int(info.hblkhd)
