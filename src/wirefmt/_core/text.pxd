# Values as text in Octets: digits, hexadecimal, strings of JSON; characters and digits of text. Header-only, nogil.
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from wirefmt._core.octets cimport Octets, add_octets, add_u8, extend_octets


cdef enum:
    DIGITS_CAPACITY = 21            # octets of a number of 64 bits with its sign
    UUID_SIZE = 36
    NOT_HEX = 0x10000           # more than four hexadecimal digits write


cdef extern from *:
    """
    /* The decimal digits of v at `out` (20 octets). Returns their number. Digits are made in a register: octets that are
       written one by one delay a read of them as a word right after. */
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static inline uint64_t wirefmt_eight_digits(uint32_t v) {       /* v < 10^8; a digit in each octet, the first the lowest */
        uint64_t x = v / 10000 | (uint64_t)(v % 10000) << 32, t;
        t = (x * 10486 >> 20) & 0x0000007F0000007FULL;              /* the first two of each four digits */
        x = t | (x - 100 * t) << 16;
        t = (x * 103 >> 10) & 0x000F000F000F000FULL;                /* the first of each two */
        return t | (x - 10 * t) << 8;
    }
    static inline int wirefmt_write_digits(uint64_t v, unsigned char *out) {
        const uint64_t zeros = 0x3030303030303030ULL;
        uint64_t x;
        int skipped, n = 0;
        if (v >= 100000000) {
            n = wirefmt_write_digits(v / 100000000, out);
            x = wirefmt_eight_digits((uint32_t)(v % 100000000)) | zeros;
            memcpy(out + n, &x, 8);
            return n + 8;
        }
        x = wirefmt_eight_digits((uint32_t)v);
        skipped = x ? __builtin_ctzll(x) >> 3 : 7;
        x = (x | zeros) >> 8 * skipped;
        memcpy(out, &x, 8);
        return 8 - skipped;
    }
    #else
    static inline int wirefmt_write_digits(uint64_t v, unsigned char *out) {
        int n = v >= 10 ? wirefmt_write_digits(v / 10, out) : 0;
        out[n] = (unsigned char)('0' + v % 10);
        return n + 1;
    }
    #endif
    """
    int write_unsigned "wirefmt_write_digits"(uint64_t v, uint8_t* out) noexcept nogil


cdef inline int printed(int n, size_t capacity) noexcept nogil:
    """The size of the text that snprintf has put in `capacity` octets, of its result `n`: the text may have been truncated."""
    return n if <size_t>n < capacity else <int>capacity - 1


cdef inline int write_digits(bint negative, uint64_t v, uint8_t* out) noexcept nogil:
    """Write the decimal digits of v, or of -v, to `out` (DIGITS_ROOM). Returns their size."""
    if negative:
        out[0] = c"-"
        return 1 + write_unsigned(v, out + 1)
    return write_unsigned(v, out)


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
