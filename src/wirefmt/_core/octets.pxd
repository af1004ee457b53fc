# Growable octets for writers without the GIL. When memory runs out, `failed` is set and stays set: check it once, at the end.
# Header-only, nogil.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from wirefmt._core.be cimport store_u16, store_u32


cdef enum:
    BLOCK_OCTETS = 16           # memory that malloc uses for a block besides the requested size


cdef struct Octets:             # all zero: empty and ready to use
    uint8_t* at
    size_t size, capacity
    uint8_t* start              # the caller's memory that it began with, which is not freed; NULL: none
    bint failed
    bint hides                  # secrets are hidden in the text that is written (secrets.pxi)


cdef inline Octets octets_over(uint8_t* start, size_t capacity) noexcept nogil:
    """Empty octets that need no allocation up to `capacity`."""
    cdef Octets o
    o.at = o.start = start
    o.size = 0
    o.capacity = capacity
    o.failed = False
    o.hides = False
    return o


cdef inline void free_octets(Octets* o) noexcept nogil:
    if o.at != o.start:
        free(o.at)
    o.at = o.start
    o.size = 0


cdef inline uint8_t* extend_octets(Octets* o, size_t n) noexcept nogil:
    """Append `n` octets. Returns where to write them; NULL: out of memory."""
    cdef size_t capacity
    cdef uint8_t* p
    if n > o.capacity - o.size:
        if o.failed:
            return NULL
        capacity = max(o.capacity * 2, o.size + n)
        p = <uint8_t*>realloc(NULL if o.at == o.start else o.at, capacity)
        if p == NULL:
            o.failed = True
            return NULL
        if o.at == o.start and o.size:
            memcpy(p, o.at, o.size)
        o.at = p
        o.capacity = capacity
    p = o.at + o.size
    o.size += n
    return p


cdef inline void add_u8(Octets* o, uint8_t v) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, 1)
    if p != NULL:
        p[0] = v


cdef inline void add_u16(Octets* o, uint16_t v) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, 2)
    if p != NULL:
        store_u16(p, v)


cdef inline void add_u32(Octets* o, uint32_t v) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, 4)
    if p != NULL:
        store_u32(p, v)


cdef inline void add_u64(Octets* o, uint64_t v) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, 8)
    if p != NULL:
        store_u32(p, <uint32_t>(v >> 32))
        store_u32(p + 4, <uint32_t>v)


cdef inline void add_octets(Octets* o, const uint8_t* from_, size_t n) noexcept nogil:
    cdef uint8_t* p = extend_octets(o, n)
    if p != NULL and n:
        memcpy(p, from_, n)
