# MQTT sessions: operations that go on in the client's next connection (5.0 4.4; 3.1.1 4.4).

cdef struct Unfinished:         # an operation that ended without its answer
    uint64_t hash               # session_hash
    int64_t flow_id, started_ns


cdef struct UnfinishedList:
    Unfinished* at
    int64_t count, capacity


cdef struct Resumed:            # an operation that has its outcome, and may have begun on an earlier connection
    Resumed* following
    uint64_t hash               # session_hash
    int outcome
    int64_t completed_ns, response_frame
    Op op                       # its texts follow


cdef inline uint64_t session_hash(const Conn* c, int direction, int64_t sequence) noexcept nogil:
    """Of a packet identifier of one side of the session of a client with a server."""
    return avalanche(hash_span(c.server, &c.texts[Y_CLIENT_ID]) ^ <uint64_t>(2 * sequence + direction))


cdef int64_t add_unfinished(UnfinishedList* list_, uint64_t hash, int64_t flow_id, int64_t started_ns) noexcept nogil:
    """Returns the octets of memory that the list has taken; -1: there are none."""
    cdef int64_t capacity = max(2 * list_.capacity, <int64_t>64)
    cdef int64_t taken = 0
    cdef Unfinished* grown
    if list_.count == list_.capacity:
        grown = <Unfinished*>realloc(list_.at, <size_t>capacity * sizeof(Unfinished))
        if grown == NULL:
            return -1
        taken = (capacity - list_.capacity) * <int64_t>sizeof(Unfinished)
        list_.at = grown
        list_.capacity = capacity
    list_.at[list_.count].hash = hash
    list_.at[list_.count].flow_id = flow_id
    list_.at[list_.count].started_ns = started_ns
    list_.count += 1
    return taken


cdef int compare_unfinished(const void* a, const void* b) noexcept nogil:
    """By session, then by time."""
    cdef const Unfinished* x = <const Unfinished*>a
    cdef const Unfinished* y = <const Unfinished*>b
    if x.hash != y.hash:
        return -1 if x.hash < y.hash else 1
    if x.started_ns != y.started_ns:
        return -1 if x.started_ns < y.started_ns else 1
    return -1 if x.flow_id < y.flow_id else x.flow_id > y.flow_id


cdef bint add_resumed(Resumed** last, const Op* o, uint64_t hash, int outcome, int64_t completed_ns,
                      int64_t response_frame) noexcept nogil:
    """Append a copy. False: out of memory."""
    cdef Resumed* k = <Resumed*>malloc(sizeof(Resumed) + text_octets(o))
    if k == NULL:
        return False
    copy_op(&k.op, o, <uint8_t*>k + sizeof(Resumed))
    k.op.conn = NULL
    k.op.space = NULL
    k.op.size = <int64_t>(sizeof(Resumed) + text_octets(o)) + BLOCK_OCTETS
    k.hash = hash
    k.outcome = outcome
    k.completed_ns = completed_ns
    k.response_frame = response_frame
    k.following = NULL
    if last[0] != NULL:
        last[0].following = k
    last[0] = k
    return True


cdef int64_t latest_before(const UnfinishedList* list_, const Resumed* k) noexcept nogil:
    """The flow_id of the latest earlier connection on which it did not end; 0: not found. The list is sorted."""
    cdef int64_t low = 0, high = list_.count, middle
    cdef const Unfinished* u
    while low < high:                                   # the first that is not before k
        middle = (low + high) // 2
        u = &list_.at[middle]
        if u.hash < k.hash or (u.hash == k.hash and u.started_ns < k.op.started_ns):
            low = middle + 1
        else:
            high = middle
    if low == 0 or list_.at[low - 1].hash != k.hash or list_.at[low - 1].flow_id == k.op.flow_id:
        return 0
    return list_.at[low - 1].flow_id
