# Memory of structs that come and go with every message: what is given back is taken again. Sizes are known to who gives back.

cdef extern from *:
    """
    #if defined(__SANITIZE_ADDRESS__)
    #define WIREFMT_POOLED 0    /* the sanitizer sees each struct by itself */
    #else
    #define WIREFMT_POOLED 1
    #endif
    """
    bint POOLED "WIREFMT_POOLED"

cdef enum:
    POOL_STEP = 32              # sizes are rounded up to a multiple of it
    POOL_MOST = 1024            # larger ones are not pooled
    POOL_SIZES = 33             # POOL_MOST // POOL_STEP + 1
    SLAB_OCTETS = 1 << 16


cdef struct Slab:               # what it is cut into follows, POOL_STEP octets after its beginning
    Slab* following


cdef struct Pool:
    Slab* slabs
    Slab* given[POOL_SIZES]     # by size; each names the next
    uint8_t* at                 # what is left of the newest slab
    size_t left


cdef void* take_memory(Pool* p, size_t n) noexcept nogil:
    """NULL: out of memory."""
    cdef size_t size = (n + POOL_STEP - 1) // POOL_STEP
    cdef Slab* found
    if not POOLED or n > POOL_MOST:
        return malloc(n)
    found = p.given[size]
    if found != NULL:
        p.given[size] = found.following
        return found
    size *= POOL_STEP
    if p.left < size:
        found = <Slab*>malloc(SLAB_OCTETS)
        if found == NULL:
            return NULL
        found.following = p.slabs
        p.slabs = found
        p.at = <uint8_t*>found + POOL_STEP
        p.left = SLAB_OCTETS - POOL_STEP
    p.left -= size
    p.at += size
    return p.at - size


cdef void give_back(Pool* p, void* at, size_t n) noexcept nogil:
    cdef size_t size = (n + POOL_STEP - 1) // POOL_STEP
    cdef Slab* given = <Slab*>at
    if not POOLED or n > POOL_MOST:
        free(at)
        return
    given.following = p.given[size]
    p.given[size] = given


cdef void close_pool(Pool* p) noexcept nogil:
    """All that was taken from it is gone."""
    cdef Slab* following
    while p.slabs != NULL:
        following = p.slabs.following
        free(p.slabs)
        p.slabs = following
    memset(p, 0, sizeof(Pool))
