# The protocols that captures read: their rows, in the order of the registry, and sets of them.
from importlib import import_module

from wirefmt.framing import NEED_DATA as NEED_DATA_VALUE
from wirefmt.protocols import PROTOCOLS as PROTOCOL_ROWS

cdef enum:
    PROTOCOLS_MAX = 32          # sets of protocols are bits of a uint32_t

cdef uint32_t ALL_ROWS = 0xFFFFFFFF


# If octets can be of several protocols, the earlier row is asked first.
cdef Protocol[PROTOCOLS_MAX] protocols
cdef int PROTOCOLS = 0


cdef int load_protocols() except -1:
    """Get each protocol's row from its module: all that captures know of a protocol."""
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


cdef int sniff_rows(uint32_t rows, const uint8_t* p, size_t n, int* row) noexcept nogil:
    """The Verdict of these protocols about the first octets of a connection. YES, SERVERS: `row` is the protocol."""
    cdef int i, verdict
    cdef bint more = False
    for i in range(PROTOCOLS):
        if not rows >> i & 1:
            continue
        verdict = protocols[i].sniff(p, n)
        if verdict == YES or verdict == SERVERS:
            row[0] = i
            return verdict
        if verdict == MORE:
            more = True
    return MORE if more else NO


def sniff(data):
    """See wirefmt.protocols.sniff."""
    cdef Input octets = take_input(data)
    cdef int row = 0
    cdef int verdict = sniff_rows(ALL_ROWS, octets.at, <size_t>octets.size, &row)
    if verdict == MORE:
        return NEED_DATA_VALUE
    return PROTOCOL_ROWS[row].name if verdict == YES else None
