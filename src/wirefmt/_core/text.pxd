# Values as text in Octets: digits, hexadecimal, strings of JSON. Header-only, nogil.
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
from wirefmt._core.octets cimport Octets, add_octets, add_u8, extend_octets


cdef enum:
    DIGITS_ROOM = 21            # octets of a number of 64 bits with its sign


cdef inline int write_digits(bint negative, uint64_t v, uint8_t* out) noexcept nogil:
    """Write the decimal digits of v, or of -v, to `out` (DIGITS_ROOM). Returns their size."""
    cdef uint8_t[24] text
    cdef int i = 24
    while True:
        i -= 1
        text[i] = <uint8_t>(c"0" + v % 10)
        v //= 10
        if v == 0:
            break
    if negative:
        i -= 1
        text[i] = c"-"
    memcpy(out, text + i, <size_t>(24 - i))
    return 24 - i


cdef inline int write_signed(int64_t v, uint8_t* out) noexcept nogil:
    return write_digits(v < 0, <uint64_t>0 - <uint64_t>v if v < 0 else <uint64_t>v, out)


cdef inline void add_hex(Octets* o, const uint8_t* p, size_t size) noexcept nogil:
    cdef const uint8_t* digits = <const uint8_t*>b"0123456789abcdef"
    cdef uint8_t* to = extend_octets(o, 2 * size)
    cdef size_t i
    if to != NULL:
        for i in range(size):
            to[2 * i] = digits[p[i] >> 4]
            to[2 * i + 1] = digits[p[i] & 15]


cdef inline char json_letter(uint8_t c) noexcept nogil:
    """The letter of the short escape of a control character; 0: it has none."""
    return (c"b" if c == 0x08 else c"t" if c == 0x09 else c"n" if c == 0x0A else c"f" if c == 0x0C else
            c"r" if c == 0x0D else 0)


cdef inline void add_json_string(Octets* o, const uint8_t* p, size_t size, bint letters) noexcept nogil:
    """UTF-8 as a string of JSON (RFC 8259, 7). letters: escape control characters by letters (\\n), if they have one."""
    cdef size_t i, begin = 0
    cdef uint8_t escaped
    add_u8(o, c'"')
    for i in range(size):
        if p[i] >= 0x20 and p[i] != c'"' and p[i] != c"\\":
            continue
        add_octets(o, p + begin, i - begin)
        begin = i + 1
        escaped = p[i] if p[i] >= 0x20 else <uint8_t>json_letter(p[i]) if letters else 0
        if escaped:
            add_u8(o, c"\\")
            add_u8(o, escaped)
        else:
            add_octets(o, <const uint8_t*>b"\\u00", 4)
            add_hex(o, p + i, 1)
    add_octets(o, p + begin, size - begin)
    add_u8(o, c'"')
