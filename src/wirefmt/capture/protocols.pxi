# The protocols that captures read: their rows, in the order of the registry, and sets of them.
from importlib import import_module

from wirefmt.protocols import PROTOCOLS as PROTOCOL_ROWS

cdef enum:
    PROTOCOLS_MAX = 32          # sets of protocols are bits of a uint32_t


# Where octets could be of several protocols, the earlier row is asked first.
cdef Protocol[PROTOCOLS_MAX] protocols
cdef int PROTOCOLS = 0


cdef int load_protocols() except -1:
    """Ask each protocol's module for its row: all that captures know of a protocol."""
    global PROTOCOLS
    for row in PROTOCOL_ROWS:
        if PROTOCOLS == PROTOCOLS_MAX:
            raise SystemError("PROTOCOLS_MAX is too small")
        protocols[PROTOCOLS] = protocol_row(import_module(row.codec).PROTOCOL)[0]
        PROTOCOLS += 1
    return 0


load_protocols()


cdef inline bint is_one(uint32_t rows) noexcept nogil:
    return rows != 0 and rows & (rows - 1) == 0


cdef inline int first_row(uint32_t rows) noexcept nogil:
    """Row + 1 of the first protocol; 0: none."""
    cdef int i
    for i in range(PROTOCOLS):
        if rows >> i & 1:
            return i + 1
    return 0
