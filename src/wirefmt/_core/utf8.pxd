# UTF-8 as in RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF.
# U+0000 has its own result, for protocols that forbid it. Header-only, nogil.
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy
from wirefmt._core.words cimport unmarked

cdef enum Utf8:
    UTF8_OK = 0
    UTF8_ILL_FORMED = 1
    UTF8_NUL = 2


cdef inline bint is_plain_text(const uint8_t* p, size_t size) noexcept nogil:
    """Whether all octets are ASCII and none is zero."""
    return unmarked(p, size, False)


cdef inline int check_utf8(const uint8_t* p, size_t size, size_t* bad) noexcept nogil:
    """Returns a Utf8; `bad` is the offset of the first invalid octet."""
    return UTF8_OK if is_plain_text(p, size) else check_any_utf8(p, size, bad)


cdef inline int check_any_utf8(const uint8_t* p, size_t size, size_t* bad) noexcept nogil:
    cdef size_t i = 0
    cdef uint64_t w
    cdef uint8_t a, b
    while i < size:
        if size - i >= 8:
            memcpy(&w, p + i, 8)
            # eight octets of ASCII, none of them zero
            if not (w & 0x8080808080808080ULL) and not ((w - 0x0101010101010101ULL) & 0x8080808080808080ULL):
                i += 8
                continue
        a = p[i]
        if a < 0x80:
            if a == 0:
                bad[0] = i
                return UTF8_NUL
            i += 1
            continue
        if a < 0xC2 or a > 0xF4:
            break
        if a < 0xE0:
            if size - i < 2 or p[i + 1] & 0xC0 != 0x80:
                break
            i += 2
            continue
        if size - i < 2:
            break
        b = p[i + 1]
        if a < 0xF0:
            if size - i < 3 or b & 0xC0 != 0x80 or p[i + 2] & 0xC0 != 0x80:
                break
            if (a == 0xE0 and b < 0xA0) or (a == 0xED and b > 0x9F):
                break
            i += 3
            continue
        if size - i < 4 or b & 0xC0 != 0x80 or p[i + 2] & 0xC0 != 0x80 or p[i + 3] & 0xC0 != 0x80:
            break
        if (a == 0xF0 and b < 0x90) or (a == 0xF4 and b > 0x8F):
            break
        i += 4
    else:
        return UTF8_OK
    bad[0] = i
    return UTF8_ILL_FORMED


cdef inline bint is_utf8(const uint8_t* p, size_t size, size_t* bad) noexcept nogil:
    """Is this UTF-8? U+0000 is allowed. `bad` is the offset of the first invalid octet."""
    cdef size_t at = 0, found = 0
    cdef int rule = check_utf8(p, size, &found)
    while rule == UTF8_NUL:
        at += found + 1
        rule = check_utf8(p + at, size - at, &found)
    bad[0] = at + found
    return rule == UTF8_OK
