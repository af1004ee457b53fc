# Values as text in Octets: digits, hexadecimal, strings of JSON; characters and digits of text. Header-only, nogil.
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy
from wirefmt._core.octets cimport Octets, add_octets, add_u8, extend_octets


cdef enum:
    DIGITS_ROOM = 21            # octets of a number of 64 bits with its sign
    UUID_ROOM = 36
    NOT_HEX = 0x10000           # more than four hexadecimal digits write


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


cdef inline void write_hex(const uint8_t* p, size_t size, uint8_t* out) noexcept nogil:
    """Write octets in hexadecimal, two digits each."""
    cdef const uint8_t* digits = <const uint8_t*>b"0123456789abcdef"
    cdef size_t i
    for i in range(size):
        out[2 * i] = digits[p[i] >> 4]
        out[2 * i + 1] = digits[p[i] & 15]


cdef inline void add_hex(Octets* o, const uint8_t* p, size_t size) noexcept nogil:
    cdef uint8_t* to = extend_octets(o, 2 * size)
    if to != NULL:
        write_hex(p, size, to)


cdef inline void write_uuid(const uint8_t* p, uint8_t* out) noexcept nogil:
    """Write 16 octets in UUID_ROOM octets: 8-4-4-4-12 hexadecimal digits (RFC 4122, 3)."""
    cdef int i
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            out[0] = c"-"
            out += 1
        write_hex(p + i, 1, out)
        out += 2


cdef inline uint32_t hex_digit(uint8_t c) noexcept nogil:
    """The value of a hexadecimal digit in either case; NOT_HEX: another octet."""
    return c - 48 if 48 <= c <= 57 else (c | 32) - 87 if 97 <= c | 32 <= 102 else <uint32_t>NOT_HEX


cdef inline uint32_t hex2(const uint8_t* p) noexcept nogil:
    """The number that two hexadecimal digits write; more than 0xFF: one of them is not a digit."""
    return hex_digit(p[0]) << 4 | hex_digit(p[1])


cdef inline uint32_t hex4(const uint8_t* p) noexcept nogil:
    """The number that four hexadecimal digits write; more than 0xFFFF: one of them is not a digit."""
    return hex2(p) << 8 | hex2(p + 2)


cdef inline size_t store_utf8(uint32_t c, uint8_t* out) noexcept nogil:
    """Write a character, which is not a surrogate, as UTF-8: up to four octets. Returns their number."""
    if c < 0x80:
        out[0] = <uint8_t>c
        return 1
    if c < 0x800:
        out[0] = <uint8_t>(0xC0 | c >> 6)
        out[1] = <uint8_t>(0x80 | (c & 0x3F))
        return 2
    if c < 0x10000:
        out[0] = <uint8_t>(0xE0 | c >> 12)
        out[1] = <uint8_t>(0x80 | (c >> 6 & 0x3F))
        out[2] = <uint8_t>(0x80 | (c & 0x3F))
        return 3
    out[0] = <uint8_t>(0xF0 | c >> 18)
    out[1] = <uint8_t>(0x80 | (c >> 12 & 0x3F))
    out[2] = <uint8_t>(0x80 | (c >> 6 & 0x3F))
    out[3] = <uint8_t>(0x80 | (c & 0x3F))
    return 4


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
