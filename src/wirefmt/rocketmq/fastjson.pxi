# The JSON of headers, as the real reader (fastjson) reads it.
#
# The real reader accepts more than JSON: single quotes, names without quotes, comments, any number of commas, numbers
# with a suffix. This code walks it without building objects; values nest ROCKETMQ_NESTING levels, without recursion.

cdef struct RocketmqJson:
    const uint8_t* base         # for offsets
    const uint8_t* at
    const uint8_t* end
    uint32_t elements, max_elements
    int field                   # the field that faults name
    bint quick                  # so far the header is as the Java code writes it: the real reader then takes a faster path
    int place                   # position of its last member in the order of the Java code; -1: not in order
    Fault* f


cdef int rocketmq_json_stop(RocketmqJson* j, int check) noexcept nogil:
    """The fault at the reader's position."""
    if j.at >= j.end and check == ROCKETMQ_CHECK_JSON_SYNTAX:
        check = ROCKETMQ_CHECK_JSON_TRUNCATED
    return fault(j.f, rocketmq_checks[check].status, check, j.field, j.at - j.base, 0, 0, 0)


cdef inline int rocketmq_json_space(RocketmqJson* j) noexcept nogil:
    """Skip blanks and comments, as before a name."""
    cdef uint8_t c
    cdef int status
    while j.at < j.end:
        c = j.at[0]
        if c > c"/":
            break
        if rocketmq_json_blank(c):
            j.at += 1
        elif c == c"/":
            status = rocketmq_json_comment(j)
            if status != OK:
                return status
        else:
            break
    return OK


cdef inline bint rocketmq_json_blank(uint8_t c) noexcept nogil:
    return c == c" " or c == c"\n" or c == c"\t" or c == c"\r" or c == c"\f" or c == c"\b"


cdef inline int rocketmq_json_gap(RocketmqJson* j) noexcept nogil:
    """Skip blanks, comments and control characters, as around values."""
    cdef uint8_t c
    cdef int status
    while j.at < j.end:
        c = j.at[0]
        if c <= c" " or c == 0x7F:
            j.at += 1
        elif c == c"/":
            status = rocketmq_json_comment(j)
            if status != OK:
                return status
        else:
            break
    return OK


cdef int rocketmq_json_comment(RocketmqJson* j) noexcept nogil:
    cdef const uint8_t* p = j.at + 1
    if p < j.end and p[0] == c"/":
        while p < j.end and p[0] != c"\n":
            p += 1
        j.at = p
        return OK
    if p < j.end and p[0] == c"*":
        p += 1
        while j.end - p >= 2:
            if p[0] == c"*" and p[1] == c"/":
                j.at = p + 2
                return OK
            p += 1
        j.at = j.end                # a comment that is not closed ends with the text
        return OK
    j.at = p
    return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)


cdef extern from *:
    """
    /* ROCKETMQ_MARKS: which of the ROCKETMQ_BLOCK octets at `p` are `a` or `b`; 0: none.
       ROCKETMQ_FIRST: how many octets are before the first of them. */
    #if defined(__SSE2__)
    #include <emmintrin.h>
    enum { ROCKETMQ_BLOCK = 16 };
    static inline uint64_t ROCKETMQ_MARKS(const unsigned char *p, unsigned char a, unsigned char b) {
        __m128i w = _mm_loadu_si128((const __m128i *)p);
        return (uint64_t)(uint32_t)_mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(w, _mm_set1_epi8((char)a)), _mm_cmpeq_epi8(w, _mm_set1_epi8((char)b))));
    }
    #define ROCKETMQ_FIRST(marks) __builtin_ctzll(marks)
    #else
    enum { ROCKETMQ_BLOCK = 8 };
    static inline uint64_t ROCKETMQ_ZEROS(uint64_t w) {
        /* the top bit of each octet that is 0; right up to the first of them */
        return (w - 0x0101010101010101ULL) & ~w & 0x8080808080808080ULL;
    }
    static inline uint64_t ROCKETMQ_MARKS(const unsigned char *p, unsigned char a, unsigned char b) {
        uint64_t w;
        memcpy(&w, p, 8);
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        w = __builtin_bswap64(w);                           /* the first octet in memory is the lowest */
    #endif
        return ROCKETMQ_ZEROS(w ^ 0x0101010101010101ULL * a) | ROCKETMQ_ZEROS(w ^ 0x0101010101010101ULL * b);
    }
    #define ROCKETMQ_FIRST(marks) (__builtin_ctzll(marks) >> 3)
    #endif
    /* Skip the n octets of a constant if they stand at `at`. The compiler compares them as words. */
    #if defined(__GNUC__)
    __attribute__((always_inline))
    #endif
    static inline int ROCKETMQ_WRITTEN(const unsigned char **at, const unsigned char *end, const char *text, size_t n) {
        const unsigned char *p = *at;
        size_t i;
        if ((size_t)(end - p) < n) return 0;
        for (i = 0; i + 8 < n; i += 8) if (memcmp(p + i, text + i, 8) != 0) return 0;
        i = n < 8 ? 0 : n - 8;
        if (memcmp(p + i, text + i, n < 8 ? n : 8) != 0) return 0;
        *at = p + n;
        return 1;
    }
    """
    enum: ROCKETMQ_BLOCK
    uint64_t ROCKETMQ_MARKS(const uint8_t* p, uint8_t a, uint8_t b) nogil
    size_t ROCKETMQ_FIRST(uint64_t marks) nogil
    bint ROCKETMQ_WRITTEN(const uint8_t** at, const uint8_t* end, const char* text, size_t n) nogil


cdef inline const uint8_t* rocketmq_either(const uint8_t* p, const uint8_t* end, uint8_t a, uint8_t b) noexcept nogil:
    """The first of two octets; `end`: none."""
    cdef uint64_t marks
    while end - p >= ROCKETMQ_BLOCK:
        marks = ROCKETMQ_MARKS(p, a, b)
        if marks:
            return p + ROCKETMQ_FIRST(marks)
        p += ROCKETMQ_BLOCK
    while p < end and p[0] != a and p[0] != b:
        p += 1
    return p


cdef inline const uint8_t* rocketmq_special(const uint8_t* p, const uint8_t* end, uint8_t quote) noexcept nogil:
    """The first quote or backslash; `end`: none."""
    return rocketmq_either(p, end, quote, c"\\")


cdef inline int rocketmq_json_string(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Read a string whose opening quote, `"` or `'`, is at the reader's position."""
    cdef const uint8_t* p = j.at + 1
    cdef uint8_t quote = j.at[0]
    cdef int n
    out.at = p
    out.form = ROCKETMQ_OCTETS
    while True:
        p = rocketmq_special(p, j.end, quote)
        if p >= j.end:
            j.at = p
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        if p[0] == quote:
            out.size = <uint32_t>(p - out.at)
            j.at = p + 1
            return OK
        p += 1
        out.form = ROCKETMQ_ESCAPED
        n = rocketmq_json_escape(p, j.end)
        if n < 0:
            j.at = p
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        p += n


cdef inline bint rocketmq_plain_member(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Read a member's name and its colon exactly as the Java code writes them, `"name":`, before a value that begins at once;
    False: anything else."""
    cdef const uint8_t* p = j.at
    if j.end - p < 4 or p[0] != c'"' or (j.max_elements and j.elements == j.max_elements):
        return False
    p = rocketmq_special(p + 1, j.end, c'"')
    if j.end - p < 3 or p[0] != c'"' or p[1] != c":" or p[2] <= c" " or p[2] == c"/" or p[2] == 0x7F:
        return False
    out.at = j.at + 1
    out.size = <uint32_t>(p - out.at)
    out.form = ROCKETMQ_OCTETS
    j.elements += 1
    j.at = p + 2
    return True


cdef inline int rocketmq_json_escape(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Octets of an escape after its backslash; -1: not an escape."""
    cdef uint8_t c
    if p >= end:
        return -1
    c = p[0]
    if c == c"u":
        return 5 if end - p > 4 and hex4(p + 1) <= 0xFFFF else -1
    if c == c"x":
        return 3 if end - p > 2 and hex2(p + 1) <= 0xFF else -1
    if c"0" <= c <= c"7" or c == c"b" or c == c"t" or c == c"n" or c == c"v" or c == c"f" or c == c"F" or c == c"r" or \
            c == c'"' or c == c"'" or c == c"/" or c == c"\\":
        return 1
    return -1


cdef inline bint rocketmq_is_split(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Is this, after a backslash, one of u0000 to u0007? The Java code writes u0001 and u0002 between properties."""
    return end - p >= 5 and memcmp(p, b"u000", 4) == 0 and p[4] & 0xF8 == c"0"


cdef inline bint rocketmq_is_name(uint8_t c, bint first) noexcept nogil:
    """May an octet occur in a name without quotes?"""
    return c"a" <= (c | 0x20) <= c"z" or c == c"_" or c >= 0x80 or (c == c"$" if first else c"0" <= c <= c"9")


cdef int rocketmq_json_name(RocketmqJson* j, bint inner, RocketmqText* out) noexcept nogil:
    """Read a member's name and its colon; `inner`: in a nested object, where the name may be a bare number."""
    cdef const uint8_t* p = j.at
    cdef int status
    if p < j.end and (p[0] == c'"' or p[0] == c"'"):
        status = rocketmq_json_string(j, out)
    elif p < j.end and inner and (c"0" <= p[0] <= c"9" or p[0] == c"-"):
        status = rocketmq_json_scalar(j, out)
    else:
        if p >= j.end or not rocketmq_is_name(p[0], True):
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        while p < j.end and rocketmq_is_name(p[0], p == j.at):
            p += 1
        out.at = j.at
        out.size = <uint32_t>(p - j.at)
        out.form = ROCKETMQ_NULL if not inner and rocketmq_is(out, b"null", 4) else ROCKETMQ_OCTETS
        j.at = p
        status = OK
    if status == OK:
        status = rocketmq_json_space(j)
    if status == OK and (j.at >= j.end or j.at[0] != c":"):
        status = rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    if status != OK:
        return status
    j.at += 1
    if j.max_elements and j.elements == j.max_elements:
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_ELEMENTS)
    j.elements += 1
    return rocketmq_json_gap(j)


cdef inline bint rocketmq_json_word(RocketmqJson* j, const char* word, int size) noexcept nogil:
    """Skip a word if it stands here and ends there."""
    if j.end - j.at < size or memcmp(j.at, word, <size_t>size) != 0 or \
            (j.end - j.at > size and rocketmq_is_name(j.at[size], False)):
        return False
    j.at += size
    return True


cdef inline bint rocketmq_json_literal(RocketmqJson* j, const char* word, int size, bint commented) noexcept nogil:
    """Skip null, true or false. The real reader requires a blank, a comma or a bracket directly after it; `commented`: it
    also accepts a comment. It accepts neither a semicolon nor a control character."""
    cdef uint8_t c
    if j.end - j.at < size or memcmp(j.at, word, <size_t>size) != 0:
        return False
    if j.end - j.at > size:
        c = j.at[size]
        if not rocketmq_json_blank(c) and c != c"," and c != c"}" and c != c"]" and not (commented and c == c"/"):
            return False
    j.at += size
    return True


cdef inline bint rocketmq_is_word(const RocketmqText* text) noexcept nogil:
    """Is a text that began as a scalar true or false?"""
    return text.size and (text.at[0] == c"t" or text.at[0] == c"f")


cdef int rocketmq_json_scalar(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """A string, a number, true, false, or null, for which undefined and NaN are also accepted. Numbers without fraction, true and
    false are their own text."""
    cdef const uint8_t* p = j.at
    if p < j.end and (p[0] == c'"' or p[0] == c"'"):
        return rocketmq_json_string(j, out)
    out.at = p
    out.form = ROCKETMQ_OCTETS
    if p < j.end and (p[0] == c"-" or p[0] == c"+" or c"0" <= p[0] <= c"9"):
        return rocketmq_json_number(j, out)
    if rocketmq_json_literal(j, b"null", 4, False) or rocketmq_json_word(j, b"undefined", 9) or \
            rocketmq_json_word(j, b"NaN", 3):
        out.form = ROCKETMQ_NULL
    elif not rocketmq_json_literal(j, b"true", 4, True) and not rocketmq_json_literal(j, b"false", 5, True):
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    out.size = <uint32_t>(j.at - p)
    return OK


cdef int rocketmq_json_number(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """[+-]?digits(.digits)?([eE][+-]?digits)?[LSBFD]?: anything beyond a whole number makes it a ROCKETMQ_VALUE."""
    cdef const uint8_t* p = j.at + (1 if j.at[0] == c"-" else 0)
    if j.at[0] == c"+":                 # not part of the number
        j.at = out.at = p = p + 1
    while p < j.end and c"0" <= p[0] <= c"9":
        p += 1
    out.size = <uint32_t>(p - j.at)
    if p < j.end and p[0] == c".":
        out.form = ROCKETMQ_VALUE
        p += 1
        while p < j.end and c"0" <= p[0] <= c"9":
            p += 1
    if p < j.end and (p[0] == c"e" or p[0] == c"E"):
        out.form = ROCKETMQ_VALUE
        p += 1
        if p < j.end and (p[0] == c"+" or p[0] == c"-"):
            p += 1
        while p < j.end and c"0" <= p[0] <= c"9":
            p += 1
    if out.form == ROCKETMQ_VALUE:
        out.size = <uint32_t>(p - j.at)
    if p < j.end and (p[0] == c"F" or p[0] == c"D"):
        out.form = ROCKETMQ_VALUE
        p += 1
    elif p < j.end and (p[0] == c"L" or p[0] == c"S" or p[0] == c"B") and out.form == ROCKETMQ_OCTETS:
        p += 1
    if p < j.end and rocketmq_is_name(p[0], True):
        j.at = p
        return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
    j.at = p
    return OK


cdef int rocketmq_json_value(RocketmqJson* j, RocketmqText* out) noexcept nogil:
    """Any value; objects and arrays are a ROCKETMQ_VALUE."""
    cdef const uint8_t* begin = j.at
    cdef RocketmqText inner
    cdef uint64_t objects = 0           # bit n: the container at depth n + 1 is an object
    cdef int depth = 0
    cdef bint value = True              # a value is expected
    cdef bint comma = False             # a comma or the end is expected
    cdef int status
    cdef uint8_t c
    if begin >= j.end or (begin[0] != c"{" and begin[0] != c"["):
        return rocketmq_json_scalar(j, out)
    while True:
        status = rocketmq_json_gap(j)
        if status != OK:
            return status
        c = j.at[0] if j.at < j.end else 0
        if value and (c == c"{" or c == c"["):
            if depth == ROCKETMQ_NESTING:
                return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_NESTING)
            objects = objects << 1 | (c == c"{")
            depth += 1
            j.at += 1
            value = comma = False
        elif value:
            status = rocketmq_json_scalar(j, &inner)
            value = False
            comma = True
        elif c == c",":
            j.at += 1
            comma = False
        elif c == (c"}" if objects & 1 else c"]"):
            j.at += 1
            objects >>= 1
            depth -= 1
            comma = True
            if depth == 0:
                out.at = begin
                out.size = <uint32_t>(j.at - begin)
                out.form = ROCKETMQ_VALUE
                return OK
        elif comma and objects & 1:
            return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
        elif objects & 1:
            status = rocketmq_json_name(j, True, &inner)
            value = True
        else:
            if j.at >= j.end:
                return rocketmq_json_stop(j, ROCKETMQ_CHECK_JSON_SYNTAX)
            if j.max_elements and j.elements == j.max_elements:
                return rocketmq_json_stop(j, ROCKETMQ_CHECK_ELEMENTS)
            j.elements += 1
            value = True
        if status != OK:
            return status


# ---- escapes

cdef size_t rocketmq_unescape(const uint8_t* p, size_t n, uint8_t* out) noexcept nogil:
    """The octets of a string with checked escapes, in UTF-8; `out` has space for `n`. An unpaired surrogate
    becomes U+FFFD."""
    cdef const uint8_t* end = p + n
    cdef uint8_t* o = out
    cdef uint64_t marks
    cdef uint32_t u, low
    cdef size_t run
    cdef uint8_t c
    while p < end:
        if p[0] != c"\\":
            if end - p >= ROCKETMQ_BLOCK:           # `out` has as much space left as there are octets
                memcpy(o, p, ROCKETMQ_BLOCK)
                marks = ROCKETMQ_MARKS(p, c"\\", c"\\")
                run = ROCKETMQ_FIRST(marks) if marks else ROCKETMQ_BLOCK
            else:
                o[0] = p[0]
                run = 1
            o += run
            p += run
            continue
        if rocketmq_is_split(p + 1, end):
            o[0] = p[5] - c"0"
            o += 1
            p += 6
            continue
        c = p[1]
        p += 2
        if c == c"u" or c == c"x":
            u = hex4(p) if c == c"u" else hex2(p)
            p += 4 if c == c"u" else 2
            if 0xD800 <= u < 0xE000:
                low = 0
                if u < 0xDC00 and end - p >= 6 and p[0] == c"\\" and p[1] == c"u":
                    low = hex4(p + 2)
                if 0xDC00 <= low < 0xE000:
                    u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00)
                    p += 6
                else:
                    u = 0xFFFD
            o += store_utf8(u, o)
            continue
        if c"0" <= c <= c"7":
            c -= c"0"
        elif c == c"b":
            c = 8
        elif c == c"t":
            c = 9
        elif c == c"n":
            c = 10
        elif c == c"v":
            c = 11
        elif c == c"f" or c == c"F":
            c = 12
        elif c == c"r":
            c = 13
        o[0] = c
        o += 1
    return <size_t>(o - out)
