# Keys of the hash tables that packets fill. They are random and differ from process to process, so that a sender
# of packets cannot choose collisions.
#
# No visible result depends on them: flow identifiers, slices and the shuffle use a fixed hash (packets.pxi).
# Every `TopicIndex` has its own random key.
import os

cdef uint64_t[HASH_KEYS] HASH_KEY       # odd numbers


cdef int draw_hash_keys() except -1:
    cdef int i
    for i in range(HASH_KEYS):
        HASH_KEY[i] = int.from_bytes(os.urandom(8), "little") | 1
    return 0


draw_hash_keys()
