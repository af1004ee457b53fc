# Big-endian loads and stores. The caller has checked the bounds.
# Header-only, nogil.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t load_u16(const uint8_t* p) noexcept nogil:
    return <uint16_t>((<uint32_t>p[0] << 8) | p[1])


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t load_u64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>load_u32(p) << 32) | load_u32(p + 4)


cdef inline void store_u16(uint8_t* p, uint16_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 8)
    p[1] = <uint8_t>v


cdef inline void store_u32(uint8_t* p, uint32_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 24)
    p[1] = <uint8_t>(v >> 16)
    p[2] = <uint8_t>(v >> 8)
    p[3] = <uint8_t>v
