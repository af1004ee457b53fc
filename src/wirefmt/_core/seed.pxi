# Keys of the hash tables that packets fill. They are random and differ from process to process, so that whoever chooses
# the packets cannot choose collisions.
#
# Nothing that a user sees depends on them: flow identifiers, slices and the shuffle use a fixed hash (packets.pxi).
# `TopicIndex` draws a key of its own for every index.
#
# Uses: nothing. Included by _core.pyx.
import os

cdef enum:
    HASH_KEYS = 8

cdef uint64_t[HASH_KEYS] HASH_KEY       # odd numbers


cdef int draw_hash_keys() except -1:
    cdef int i
    for i in range(HASH_KEYS):
        HASH_KEY[i] = int.from_bytes(os.urandom(8), "little") | 1
    return 0


draw_hash_keys()


cdef inline uint32_t keyed_place(uint64_t v, uint32_t places) noexcept nogil:
    """The place of a number in a table, 0 to places - 1; `places` is a power of two. Multiply-shift (Dietzfelbinger et
    al.): the probability that two numbers have the same place is at most 2 / places."""
    return <uint32_t>((v * HASH_KEY[0] >> 32) * places >> 32)
