"""_core/powers.pxd: powers of ten for the shortest text of floats, computed here with whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from tables.text import c_array

#: 10^-k for the k of _core/floats.pxd: of every exponent of two that a binary64 has.
FIRST, LAST = -292, 324
BITS = 128


def power(n: int) -> int:
    """10^n / 2^m, rounded up, where m is the whole number for which this has 128 bits."""
    value, by = 10 ** abs(n), 0
    if n >= 0:
        by = value.bit_length() - BITS
        return value << -by if by <= 0 else -(-value >> by)
    by = value.bit_length() + BITS - 1  # 2^by / value has 128 bits, as `value` is not a power of two
    return -(-(1 << by) // value)


def rows() -> Iterator[str]:
    cells = []
    for n in range(FIRST, LAST + 1):
        found = power(n)
        assert found.bit_length() == BITS
        cells.append(f"{{0x{found >> 64:016x}, 0x{found & (1 << 64) - 1:016x}}}")
    for i in range(0, len(cells), 2):
        yield ", ".join(cells[i : i + 2])


def powers_table(spec: ModuleType) -> list[str]:
    lines = ["from libc.stdint cimport uint64_t", "", "", "cdef enum:"]
    lines += [f"    POWER_FIRST = {spec.FIRST}", "", "", "cdef extern from *:", '    """']
    lines += c_array(f"uint64_t wirefmt_powers[{spec.LAST - spec.FIRST + 1}][2]", rows())
    lines += [
        '    """',
        "    # 10^n from POWER_FIRST on, as two halves of 128 bits, the upper one first: rounded up, the first bit set",
    ]
    lines += ['    const uint64_t (*POWERS "wirefmt_powers")[2]']
    return lines
