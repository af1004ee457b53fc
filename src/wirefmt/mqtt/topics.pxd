# MQTT topic names and filters as octets: the rules of MQTT 5.0 sections 4.7 and 4.8, MQTT 3.1.1 section 4.7 and
# MQTT 3.1 appendix A, and matching. Header-only, nogil.
#
# These functions do not check UTF-8 and U+0000: a packet's strings are checked as strings before they are checked as topics.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy
from wirefmt._core.cursor cimport Span

cdef enum TopicRule:            # the violated rule; spec.CHECKS has its text and its statement
    TOPIC_OK = 0
    TOPIC_EMPTY = 1             # at least one character
    TOPIC_WILDCARD = 2          # no wildcard in a name
    TOPIC_MULTI_LEVEL = 3       # allowed places of #
    TOPIC_SINGLE_LEVEL = 4      # allowed places of +
    TOPIC_SHARE = 5             # $share/ and a ShareName
    TOPIC_SHARE_NAME = 6        # its characters and the filter


cdef inline size_t find_wildcard(const uint8_t* p, size_t size) noexcept nogil:
    """Offset of the first '+' or '#'; `size` if the octets have neither."""
    cdef size_t i = 0
    cdef uint64_t w
    # eight octets at a time: '#' is 0x23 and '+' is 0x2B, so with bit 3 set both are 0x2B, and no other octet is
    while size - i >= 8:
        memcpy(&w, p + i, 8)
        w = (w | 0x0808080808080808ULL) ^ 0x2B2B2B2B2B2B2B2BULL
        if (w - 0x0101010101010101ULL) & ~w & 0x8080808080808080ULL:
            break
        i += 8
    while i < size and (p[i] | 8) != 0x2B:
        i += 1
    return i


cdef inline int check_topic_name(const uint8_t* p, size_t size, size_t* bad) noexcept nogil:
    """A TopicRule; `bad` is the offset of the invalid octet. The same in every version.

    In 5.0 an empty Topic Name means "see the Topic Alias" (3.3.2.1): such a PUBLISH does not call this function.
    """
    if size == 0:
        bad[0] = 0
        return TOPIC_EMPTY
    bad[0] = find_wildcard(p, size)
    return TOPIC_WILDCARD if bad[0] < size else TOPIC_OK


cdef inline bint is_shared(const uint8_t* p, size_t size, int version) noexcept nogil:
    """Whether a filter requests a Shared Subscription, well-formed or not (5.0, 4.8.2).

    A bare `$share` counts: it has no other meaning.
    """
    return version == 5 and size >= 6 and memcmp(p, b"$share", 6) == 0 and (size == 6 or p[6] == c"/")


cdef inline int split_share(const uint8_t* p, size_t size, Span* name, Span* filter, size_t* bad) noexcept nogil:
    """Split `$share/name/filter`, for which is_shared() is true. A TopicRule."""
    cdef const uint8_t* slash
    cdef size_t n
    if size < 8 or p[7] == c"/":
        bad[0] = 7 if size > 7 else size
        return TOPIC_SHARE
    slash = <const uint8_t*>memchr(p + 7, c"/", size - 7)
    n = <size_t>(slash - (p + 7)) if slash != NULL else size - 7
    bad[0] = 7 + find_wildcard(p + 7, n)
    if bad[0] < 7 + n or slash == NULL or 7 + n + 1 == size:
        return TOPIC_SHARE_NAME
    name.at = p + 7
    name.size = <uint32_t>n
    filter.at = slash + 1
    filter.size = <uint32_t>(size - 8 - n)
    return TOPIC_OK


cdef inline int check_topic_filter(const uint8_t* p, size_t size, int version, size_t* bad) noexcept nogil:
    """A TopicRule; `bad` is the offset of the invalid octet."""
    cdef Span name, filter
    cdef size_t base = 0, i = 0
    cdef int rule
    if size == 0:
        bad[0] = 0
        return TOPIC_EMPTY
    if is_shared(p, size, version):
        rule = split_share(p, size, &name, &filter, bad)
        if rule != TOPIC_OK:
            return rule
        base = <size_t>(filter.at - p)
        p = filter.at
        size = filter.size
    while True:
        i += find_wildcard(p + i, size - i)
        if i == size:
            return TOPIC_OK
        bad[0] = base + i
        if p[i] == c"#":
            if i + 1 < size or (i > 0 and p[i - 1] != c"/"):
                return TOPIC_MULTI_LEVEL
        elif (i > 0 and p[i - 1] != c"/") or (i + 1 < size and p[i + 1] != c"/"):
            return TOPIC_SINGLE_LEVEL
        i += 1


cdef inline bint match_topic(const uint8_t* f, size_t fn, const uint8_t* t, size_t tn, bint dollar) noexcept nogil:
    """Whether a valid filter, without its `$share/name/`, matches a topic name. One pass over both.

    `dollar`: a filter that starts with a wildcard does not match names that start with `$`. This rule exists from 3.1.1 on
    [MQTT-4.7.2-1], not in 3.1.
    """
    cdef size_t i = 0, j = 0
    if dollar and tn and t[0] == c"$" and fn and (f[0] | 8) == 0x2B:
        return False
    while True:                                     # both are at the first octet of a level
        if i < fn and f[i] == c"#":
            return True
        if i < fn and f[i] == c"+":
            i += 1
            while j < tn and t[j] != c"/":
                j += 1
        else:
            while i < fn and j < tn and f[i] == t[j] and f[i] != c"/":
                i += 1
                j += 1
        if i == fn or j == tn:                      # `a/#` matches `a`, too: # also matches zero levels
            return j == tn and (i == fn or (fn - i == 2 and f[i] == c"/" and f[i + 1] == c"#"))
        if f[i] != c"/" or t[j] != c"/":
            return False
        i += 1
        j += 1
