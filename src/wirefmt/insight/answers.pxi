# What findings need of operations: how long the answers of a connection took, its largest messages, and which rows a rule may
# want. Most operations are none of these, and cost a few comparisons here in place of a row that Python looks at.
from math import isqrt

cdef enum:
    FIRST_STEPS = 4             # of a histogram
    SEEN_SLOTS = 1024           # of a new set


cdef struct Step:
    int number                  # four for each doubling: it begins at 2 ** (number / 4) ns
    int64_t count


cdef struct Answers:            # a histogram of the times that answers took
    Step* steps
    int used, room
    int64_t total


#: 2 ** (63 + k / 4), rounded up: where the steps of a doubling begin.
cdef uint64_t[4] STEP_BEGINS = [1 << 63, isqrt(isqrt(1 << 253)) + 1, isqrt(1 << 127) + 1, isqrt(isqrt(1 << 255)) + 1]


cdef extern from *:
    int __builtin_clzll(unsigned long long n) noexcept nogil


cdef int step_of(uint64_t ns) noexcept nogil:
    """ns: not 0."""
    cdef int doublings = 63 - __builtin_clzll(ns), part = 3
    ns <<= 63 - doublings
    while ns < STEP_BEGINS[part]:
        part -= 1
    return 4 * doublings + part


cdef int64_t add_answer(Answers* a, uint64_t ns) noexcept nogil:
    """Returns the octets of memory that it has taken; -1: there are none."""
    cdef int number = step_of(ns), i, room
    cdef int64_t taken = 0
    cdef Step* grown
    a.total += 1
    for i in range(a.used):
        if a.steps[i].number == number:
            a.steps[i].count += 1
            return 0
    if a.used == a.room:
        room = 2 * a.room if a.room else FIRST_STEPS
        grown = <Step*>realloc(a.steps, <size_t>room * sizeof(Step))
        if grown == NULL:
            a.total -= 1
            return -1
        taken = (room - a.room) * <int64_t>sizeof(Step)
        a.steps = grown
        a.room = room
    a.steps[a.used].number = number
    a.steps[a.used].count = 1
    a.used += 1
    return taken


cdef int step_at(const Answers* a, double part) noexcept nogil:
    """The step in which not less than this part of the answers had arrived; -1: there was no answer."""
    cdef double wanted = part * <double>a.total
    cdef int64_t seen = 0
    cdef int last = -1, next_, i
    while last < 0 or <double>seen < wanted:
        next_ = -1
        for i in range(a.used):
            if a.steps[i].number > last and (next_ < 0 or a.steps[i].number < a.steps[next_].number):
                next_ = i
        if next_ < 0:
            return last
        last = a.steps[next_].number
        seen += a.steps[next_].count
    return last


cdef struct Seen:               # a set of hashes
    uint64_t* slots             # 0: free
    size_t mask, count


cdef bint is_seen(const Seen* s, uint64_t hash) noexcept nogil:
    cdef size_t i = hash & s.mask
    if s.slots == NULL:
        return False
    while s.slots[i]:
        if s.slots[i] == hash:
            return True
        i = (i + 1) & s.mask
    return False


cdef bint add_seen(Seen* s, uint64_t hash) noexcept nogil:
    """A hash that is not 0, and not in the set. False: out of memory."""
    cdef Seen grown
    cdef size_t i
    if s.slots == NULL or 2 * s.count > s.mask:
        memset(&grown, 0, sizeof(Seen))
        grown.mask = 2 * s.mask + 1 if s.slots != NULL else SEEN_SLOTS - 1
        grown.slots = <uint64_t*>calloc(grown.mask + 1, sizeof(uint64_t))
        if grown.slots == NULL:
            return False
        for i in range(s.mask + 1 if s.slots != NULL else 0):
            if s.slots[i]:
                put_seen(&grown, s.slots[i])
        free(s.slots)
        s[0] = grown
    put_seen(s, hash)
    return True


cdef inline void put_seen(Seen* s, uint64_t hash) noexcept nogil:
    cdef size_t i = hash & s.mask
    while s.slots[i]:
        i = (i + 1) & s.mask
    s.slots[i] = hash
    s.count += 1


cdef void forget_seen(Seen* s) noexcept nogil:
    free(s.slots)
    memset(s, 0, sizeof(Seen))


cdef struct Noted:              # numbers of rows
    int64_t* at
    int64_t count, room


cdef bint note(Noted* n, int64_t row) noexcept nogil:
    """False: out of memory."""
    cdef int64_t room = max(<int64_t>256, 2 * n.room)
    cdef int64_t* grown
    if n.count == n.room:
        grown = <int64_t*>realloc(n.at, <size_t>room * sizeof(int64_t))
        if grown == NULL:
            return False
        n.at = grown
        n.room = room
    n.at[n.count] = row
    n.count += 1
    return True


cdef bytes noted_rows(Noted* n):
    """As int64; none is noted then."""
    made = (<const uint8_t*>n.at)[:<size_t>n.count * sizeof(int64_t)] if n.count else b""
    n.count = 0
    return made
