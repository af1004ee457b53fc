# A chained hash table of structs that begin with an Entry. The table owns none of them.

cdef struct Entry:
    Entry* chain
    uint64_t hash


cdef struct Entries:
    Entry** slots
    size_t mask, count


cdef bint open_entries(Entries* t) noexcept nogil:
    """False: out of memory."""
    t.mask = 255
    t.slots = <Entry**>calloc(t.mask + 1, sizeof(Entry*))
    return t.slots != NULL


cdef inline Entry* first_entry(const Entries* t, uint64_t hash) noexcept nogil:
    """The first of a chain; entries of other hashes may be in it."""
    return t.slots[hash & t.mask]


cdef void add_entry(Entries* t, Entry* e) noexcept nogil:
    cdef Entry** grown
    cdef Entry* other
    cdef size_t i, mask
    if t.count > t.mask:
        mask = 2 * t.mask + 1
        grown = <Entry**>calloc(mask + 1, sizeof(Entry*))
        if grown != NULL:                               # otherwise the chains become longer
            for i in range(t.mask + 1):
                while t.slots[i] != NULL:
                    other = t.slots[i]
                    t.slots[i] = other.chain
                    other.chain = grown[other.hash & mask]
                    grown[other.hash & mask] = other
            free(t.slots)
            t.slots = grown
            t.mask = mask
    e.chain = t.slots[e.hash & t.mask]
    t.slots[e.hash & t.mask] = e
    t.count += 1


cdef void remove_entry(Entries* t, Entry* e) noexcept nogil:
    cdef Entry** at = &t.slots[e.hash & t.mask]
    while at[0] != e:
        at = &at[0].chain
    at[0] = e.chain
    t.count -= 1
