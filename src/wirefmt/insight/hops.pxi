# A publish, and the message that its publisher had received.

cdef void published(PathTable* t, Publish* p) noexcept nogil:
    cdef Bucket* b
    cdef const Publish* other
    cdef Side* d
    cdef int64_t i
    cdef int k
    if p.side.redelivered == 1 and p.side.protocol == P_MQTT:
        # DUP: the client sends again what it had sent on its connection before
        b = bucket_of(t, I_PLACE, key_of(&p.side, I_PLACE, p.side.place))
        for i in range(min(b.count, <int64_t>STEPS) if b != NULL else 0):
            other = b.items[b.start + b.count - 1 - i]
            if other.side.sequence == p.side.sequence and other.side.names[G_CLIENT_ID] == p.side.names[G_CLIENT_ID]:
                free_side(t, &p.side)
                return
    p.number = t.numbers
    t.numbers += 1
    for k in range(I_COUNT):
        p.buckets[k] = put_in_bucket(t, k, key_of(&p.side, k, p.side.place), p)
    if t.newest != NULL:
        t.newest.newer = p
    else:
        t.oldest = p
    t.newest = p
    t.kept += 1
    set_hop(t, p)
    while t.waiting_count and t.waiting[0].ts_ns + SLACK_NS < p.side.ts_ns:
        give_up(t)
    i = 0
    while i < t.waiting_count:                          # deliveries that came a little before their publish
        d = t.waiting[i]
        if ((d.id and d.id == p.side.id) or d.payload == p.side.payload) and match(t, d):
            t.waiting_count -= 1
            for k in range(<int>i, t.waiting_count):
                t.waiting[k] = t.waiting[k + 1]
        else:
            i += 1


cdef struct Origin:             # what a publish may be the next hop of
    Publish* publish
    Side* copy                  # that its client had received
    int tier
    int64_t rank


cdef void set_hop(PathTable* t, Publish* p) noexcept nogil:
    """Had the publisher received this message, or the one that it answers?"""
    cdef Origin origin
    cdef Span s
    cdef int k
    cdef bint may = is_receiver(t, flow_of(&p.side)) or is_receiver(t, name_hash(12, p.side.names[G_CLIENT_ID])) or is_receiver(
        t, name_hash(13, p.side.names[G_CLIENT_IP]))
    memset(&origin, 0, sizeof(origin))
    for k in range(HOP_RULES if may else 0):
        find_origin(t, bucket_of(t, HOPS[k].index, key_of(&p.side, HOPS[k].of, 0)), p, HOPS[k].told, &origin)
        if origin.tier:
            origin.copy.republished = True
            p.hop = origin.publish.hop + 1
            p.trace_size = origin.publish.trace_size
            memcpy(p.trace_id, origin.publish.trace_id, TRACE_OCTETS)
            return
    p.hop = 1
    s = p.side.traceparent
    if p.side.trace:
        p.trace_size = TRACE_OCTETS
        memcpy(p.trace_id, s.at + 3, TRACE_OCTETS)
    else:
        p.trace_size = TRACE_OCTETS // 2
        put_hex(p.trace_id, avalanche(avalanche(<uint64_t>p.side.flow_id ^ avalanche(<uint64_t>p.side.ts_ns)) ^ p.side.payload
                                      ^ avalanche(<uint64_t>p.side.frame ^ p.side.id)))


cdef void put_hex(uint8_t* to, uint64_t n) noexcept nogil:
    cdef const char* digits = "0123456789abcdef"
    cdef int i
    for i in range(16):
        to[i] = <uint8_t>digits[n >> (60 - 4 * i) & 15]


cdef void find_origin(PathTable* t, const Bucket* b, const Publish* p, bint told, Origin* origin) noexcept nogil:
    """The message that a publisher had received: of the nearest client; of its messages the one that went farthest, and of those
    the oldest that was not republished, otherwise the latest."""
    cdef Publish* other
    cdef Side* d
    cdef int64_t i, n, rank
    cdef int tier
    cdef bint shared = False
    for i in range(min(b.count, <int64_t>STEPS) if b != NULL else 0):
        other = b.items[b.start + b.count - 1 - i]
        if other == p or (other.hop == 1 and is_same_client(&other.side, &p.side)):
            continue                                    # a client that gets its own messages does not republish them
        if other.side.place == p.side.place:
            shared = True
        d = other.last
        n = 0
        while d != NULL and n < COPY_STEPS:
            tier = hop_tier(&other.side, d, &p.side, told)
            rank = 0 if d.republished else 1 if told else FRESH
            rank += 2 * other.hop if told else other.hop
            if tier > origin.tier or (tier and tier == origin.tier and (
                    rank > origin.rank or (rank == origin.rank and not d.republished))):
                origin.tier = tier
                origin.rank = rank
                origin.copy = d
                origin.publish = other
            d = d.before
            n += 1
    if shared and origin.tier == 1:                     # others send such messages there, too: it is one of several origins
        origin.tier = 0


cdef inline bint is_same_client(const Side* a, const Side* b) noexcept nogil:
    return a.flow_id == b.flow_id or (a.names[G_CLIENT_ID] != NULL and a.names[G_CLIENT_ID].size != 0
                                      and a.names[G_CLIENT_ID] == b.names[G_CLIENT_ID])


cdef int hop_tier(const Side* origin, const Side* d, const Side* p, bint told) noexcept nogil:
    """How near is the client of a delivery to the publisher of `p`? 3 the same connection, 2 the same client, 1 the same address,
    0 another. An address alone counts if the application says that the messages belong together, or if it is not the first
    publisher's, too."""
    if d.ts_ns > p.ts_ns:
        return 0
    if d.flow_id == p.flow_id:
        return 3
    if is_same_client(d, p):
        return 2
    if d.names[G_CLIENT_IP] == p.names[G_CLIENT_IP] and (told or origin.names[G_CLIENT_IP] != p.names[G_CLIENT_IP]):
        return 1
    return 0
