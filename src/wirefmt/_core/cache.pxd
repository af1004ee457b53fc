# Hints for the processor's caches. They change no result, and any address is allowed. Header-only, nogil.


cdef extern from *:
    """
    #define WIREFMT_LINE 64         /* octets of a cache line */
    static inline void wirefmt_prefetch(const void *p, size_t size) {
        const char *at = (const char *)p, *end = at + size;
        for (; at < end; at += WIREFMT_LINE) __builtin_prefetch(at, 1);
    }
    static inline void wirefmt_prefetch_read(const void *p, size_t size) {
        const char *at = (const char *)p, *end = at + size;
        for (; at < end; at += WIREFMT_LINE) __builtin_prefetch(at, 0);
    }
    static inline void wirefmt_prefetch_ahead(const void *p, size_t from, size_t size) {
        size_t at = ((size_t)p + from) / WIREFMT_LINE + 1, end = ((size_t)p + from + size) / WIREFMT_LINE + 1;
        for (; at < end; at++) __builtin_prefetch((const void *)(at * WIREFMT_LINE), 1, 2);
    }
    """
    # To be written soon
    void prefetch "wirefmt_prefetch"(const void* p, size_t size) noexcept nogil
    # To be read soon, and not written
    void prefetch_read "wirefmt_prefetch_read"(const void* p, size_t size) noexcept nogil
    # To be written later, so to the second cache: the lines after that of p[start], up to that of p[start + size]
    void prefetch_ahead "wirefmt_prefetch_ahead"(const void* p, size_t start, size_t size) noexcept nogil
