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
    POOL_OCTETS = 1 << 20       # that are kept in all; what exceeds them goes back to the system


cdef struct Spare:
    Spare* following


cdef struct Pool:
    Spare* spare[POOL_SIZES]    # by size
    size_t octets               # of all of them


cdef inline size_t pool_size(size_t n) noexcept nogil:
    return (n + POOL_STEP - 1) // POOL_STEP


cdef void* take_memory(Pool* p, size_t n) noexcept nogil:
    """NULL: out of memory."""
    cdef size_t size = pool_size(n)
    cdef Spare* found
    if not POOLED or n > POOL_MOST:
        return malloc(n)
    found = p.spare[size]
    if found == NULL:
        return malloc(size * POOL_STEP)
    p.spare[size] = found.following
    p.octets -= size * POOL_STEP
    return found


cdef void give_back(Pool* p, void* at, size_t n) noexcept nogil:
    cdef size_t size = pool_size(n)
    cdef Spare* spare = <Spare*>at
    if not POOLED or n > POOL_MOST or p.octets > POOL_OCTETS:
        free(at)
        return
    spare.following = p.spare[size]
    p.spare[size] = spare
    p.octets += size * POOL_STEP


cdef void close_pool(Pool* p) noexcept nogil:
    cdef Spare* following
    cdef int i
    for i in range(POOL_SIZES):
        while p.spare[i] != NULL:
            following = p.spare[i].following
            free(p.spare[i])
            p.spare[i] = following
    p.octets = 0
