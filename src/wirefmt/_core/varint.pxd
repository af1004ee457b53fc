# MQTT variable byte integer, MQTT 5.0 section 1.5.5, MQTT 3.1 section 2.1. Header-only, nogil.
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    VARINT_MAX = 268435455

cdef enum VarintStatus:
    VARINT_SHORT = 0        # more octets are needed
    VARINT_TOO_LONG = -1    # a fifth octet would follow


cdef inline int read_varint(const uint8_t* p, size_t size, uint32_t* value) noexcept nogil:
    """Returns the octets used (1 to 4), or a VarintStatus."""
    cdef uint32_t v = 0
    cdef int i
    if size and not p[0] & 0x80:
        value[0] = p[0]
        return 1
    for i in range(4):
        if <size_t>i >= size:
            return VARINT_SHORT
        v |= <uint32_t>(p[i] & 0x7F) << (7 * i)
        if not p[i] & 0x80:
            value[0] = v
            return i + 1
    return VARINT_TOO_LONG


cdef inline int varint_size(uint32_t value) noexcept nogil:
    """Octets of the shortest form."""
    return 1 if value < 0x80 else 2 if value < 0x4000 else 3 if value < 0x200000 else 4


cdef inline int store_varint(uint8_t* p, uint32_t value) noexcept nogil:
    """Write the shortest form. Returns its size."""
    cdef int i = 0
    while value >= 0x80:
        p[i] = <uint8_t>(value | 0x80)
        value >>= 7
        i += 1
    p[i] = <uint8_t>value
    return i + 1
