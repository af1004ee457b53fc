# Short runs of octets, read eight or sixteen at a time: is all ASCII, are two equal, a hash. If fewer octets are left, the last
# word overlaps the previous one, so no octet is read alone. Header-only, nogil.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline uint64_t word_at(const uint8_t* p) noexcept nogil:
    cdef uint64_t w
    memcpy(&w, p, 8)
    return w


cdef inline uint64_t few_octets(const uint8_t* p, size_t n) noexcept nogil:
    """Fewer than eight octets as one word. For runs of one length, equal words mean equal runs."""
    cdef uint32_t a, b
    if n >= 4:
        memcpy(&a, p, 4)
        memcpy(&b, p + n - 4, 4)
        return <uint64_t>a << 32 | b
    if n == 0:
        return 0
    return <uint64_t>p[0] << 16 | <uint64_t>p[n >> 1] << 8 | p[n - 1]


cdef extern from *:
    """
    /* wirefmt_unmarked: whether no octet is marked. Zero and octets above 127 are; '+' and '#' if `wild` is set ('#' is 0x23 and
       '+' is 0x2B: with bit 3 set both are 0x2B, and no other octet is). The last block may overlap the previous one. */
    static inline uint64_t wirefmt_marks(uint64_t w, int wild) {
        const uint64_t ones = 0x0101010101010101ULL;
        uint64_t marks = w | (w - ones), x = (w | 0x08 * ones) ^ 0x2B * ones;
        if (wild) marks |= (x - ones) & ~x;
        return marks & 0x80 * ones;
    }
    #if defined(__SSE2__)
    #include <emmintrin.h>
    static inline __m128i wirefmt_block_marks(const unsigned char *p, int wild) {
        __m128i w = _mm_loadu_si128((const __m128i *)p), marks = w;
        marks = _mm_or_si128(marks, _mm_cmpeq_epi8(w, _mm_setzero_si128()));
        if (wild) marks = _mm_or_si128(marks, _mm_cmpeq_epi8(_mm_or_si128(w, _mm_set1_epi8(8)), _mm_set1_epi8(0x2B)));
        return marks;
    }
    static inline int wirefmt_blocks_unmarked(const unsigned char *p, size_t n, int wild) {    /* n >= 16 */
        __m128i marks = wirefmt_block_marks(p + n - 16, wild);
        for (; n > 16; p += 16, n -= 16) marks = _mm_or_si128(marks, wirefmt_block_marks(p, wild));
        return _mm_movemask_epi8(marks) == 0;
    }
    #else
    static inline int wirefmt_blocks_unmarked(const unsigned char *p, size_t n, int wild) {
        uint64_t w, marks;
        memcpy(&w, p + n - 8, 8);
        marks = wirefmt_marks(w, wild);
        for (; n > 8; p += 8, n -= 8) {
            memcpy(&w, p, 8);
            marks |= wirefmt_marks(w, wild);
        }
        return marks == 0;
    }
    #endif
    static inline int wirefmt_unmarked(const unsigned char *p, size_t n, int wild) {
        uint64_t w, x;
        uint32_t a, b;
        if (n >= 16) return wirefmt_blocks_unmarked(p, n, wild);
        if (n >= 8) {
            memcpy(&w, p, 8);
            memcpy(&x, p + n - 8, 8);
            return (wirefmt_marks(w, wild) | wirefmt_marks(x, wild)) == 0;
        }
        if (n >= 4) {
            memcpy(&a, p, 4);
            memcpy(&b, p + n - 4, 4);
            return wirefmt_marks((uint64_t)a << 32 | b, wild) == 0;
        }
        if (n == 0) return 1;
        return wirefmt_marks(0x0101010101000000ULL | (uint64_t)p[0] << 16 | (uint64_t)p[n >> 1] << 8 | p[n - 1], wild) == 0;
    }
    /* The same of octets above 127 only. For n >= 16 */
    static inline int wirefmt_blocks_ascii(const unsigned char *p, size_t n) {
    #if defined(__SSE2__)
        __m128i all = _mm_loadu_si128((const __m128i *)(p + n - 16));
        for (; n > 16; p += 16, n -= 16) all = _mm_or_si128(all, _mm_loadu_si128((const __m128i *)p));
        return _mm_movemask_epi8(all) == 0;
    #else
        uint64_t w, all;
        memcpy(&all, p + n - 8, 8);
        for (; n > 8; p += 8, n -= 8) {
            memcpy(&w, p, 8);
            all |= w;
        }
        return (all & 0x8080808080808080ULL) == 0;
    #endif
    }
    /* The same where octets before `end` may be read, with no loop for up to 32 */
    static inline int wirefmt_unmarked_before(const unsigned char *p, size_t n, const unsigned char *end, int wild) {
    #if defined(__SSE2__)
        if (n <= 16 && end - p >= 16) return (_mm_movemask_epi8(wirefmt_block_marks(p, wild)) & ((1u << n) - 1)) == 0;
        if (n > 16 && n <= 32)
            return _mm_movemask_epi8(_mm_or_si128(wirefmt_block_marks(p, wild), wirefmt_block_marks(p + n - 16, wild))) == 0;
    #endif
        return wirefmt_unmarked(p, n, wild);
    }
    static inline int wirefmt_ascii_before(const unsigned char *p, size_t n, const unsigned char *end) {
        uint64_t w, x;
    #if defined(__SSE2__)
        if (n <= 16 && end - p >= 16)
            return (_mm_movemask_epi8(_mm_loadu_si128((const __m128i *)p)) & ((1u << n) - 1)) == 0;
    #endif
        if (n >= 16) return wirefmt_blocks_ascii(p, n);
        if (n >= 8) {
            memcpy(&w, p, 8);
            memcpy(&x, p + n - 8, 8);
            return ((w | x) & 0x8080808080808080ULL) == 0;
        }
        for (x = 0; n; n--) x |= p[n - 1];
        return x < 0x80;
    }
    """
    bint unmarked_before "wirefmt_unmarked_before"(const uint8_t* p, size_t n, const uint8_t* end, bint wild) noexcept nogil
    bint ascii_before "wirefmt_ascii_before"(const uint8_t* p, size_t n, const uint8_t* end) noexcept nogil
    bint unmarked "wirefmt_unmarked"(const uint8_t* p, size_t n, bint wild) noexcept nogil
    bint blocks_ascii "wirefmt_blocks_ascii"(const uint8_t* p, size_t n) noexcept nogil


cdef inline bint is_ascii(const uint8_t* p, size_t n) noexcept nogil:
    if n >= 16:
        return blocks_ascii(p, n)
    if n >= 8:
        return not (word_at(p) | word_at(p + n - 8)) & 0x8080808080808080ULL
    return not few_octets(p, n) & 0x8080808080808080ULL


cdef inline bint same_octets(const uint8_t* p, const uint8_t* q, size_t n) noexcept nogil:
    """memcmp() == 0 without the call, for runs of a few words."""
    cdef size_t i = 0
    if n < 8:
        return few_octets(p, n) == few_octets(q, n)
    while n - i > 8:
        if word_at(p + i) != word_at(q + i):
            return False
        i += 8
    return word_at(p + n - 8) == word_at(q + n - 8)


cdef inline uint64_t mix(uint64_t h, uint64_t w) noexcept nogil:
    """Add a word to a hash. The highest bits of the result are the best ones."""
    h = (h ^ w) * <uint64_t>0x9E3779B97F4A7C15ULL
    return h ^ h >> 29


cdef inline uint64_t avalanche(uint64_t h) noexcept nogil:
    """Each bit of the result depends on all bits of `h`; different numbers have different results. Flow hashes and flow_id are
    made with it: it stays the same."""
    h = (h ^ (h >> 32)) * <uint64_t>0xD6E8FEB86659FD93ULL
    h = (h ^ (h >> 32)) * <uint64_t>0xD6E8FEB86659FD93ULL
    return h ^ (h >> 32)


cdef inline uint64_t hash_octets(uint64_t h, const uint8_t* p, size_t n) noexcept nogil:
    """Mix the octets into `h`. Runs of different lengths must begin with a different `h`."""
    cdef size_t i = 0
    if n < 8:
        return mix(h, few_octets(p, n))
    while n - i > 8:
        h = mix(h, word_at(p + i))
        i += 8
    return mix(h, word_at(p + n - 8))
