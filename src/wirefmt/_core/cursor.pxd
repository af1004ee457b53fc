# A bounded reader over octets: compare, then load. Header-only, nogil.
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from wirefmt._core.be cimport load_u16


cdef struct Span:
    const uint8_t* at   # NULL: absent
    uint32_t size       # octets


cdef struct Cursor:
    const uint8_t* base     # start of the frame, for offsets
    const uint8_t* at
    const uint8_t* end


cdef inline Cursor cursor_over(const uint8_t* base, size_t size) noexcept nogil:
    cdef Cursor c
    c.base = base
    c.at = base
    c.end = base + size
    return c


cdef inline size_t left(const Cursor* c) noexcept nogil:
    return <size_t>(c.end - c.at)


cdef inline bint read_u8(Cursor* c, uint8_t* v) noexcept nogil:
    if c.at >= c.end:
        return False
    v[0] = c.at[0]
    c.at += 1
    return True


cdef inline bint read_u16(Cursor* c, uint16_t* v) noexcept nogil:
    if left(c) < 2:
        return False
    v[0] = load_u16(c.at)
    c.at += 2
    return True


cdef inline bint read_span(Cursor* c, size_t size, Span* v) noexcept nogil:
    if left(c) < size:
        return False
    v.at = c.at
    v.size = <uint32_t>size
    c.at += size
    return True
