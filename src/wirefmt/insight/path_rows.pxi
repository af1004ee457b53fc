# The rows of paths.
cdef int[2] PLACE_NAMES = [G_DESTINATION, G_ROUTING_KEY]


cdef void put_side_of_path(Col* c, int64_t row, int which, const Side* s) noexcept nogil:
    cdef int i
    for i in range(G_COUNT):
        if s.names[i] != NULL:
            put_octets(c + G_TEXT[which][i], row, <const uint8_t*>s.names[i] + sizeof(Name), s.names[i].size)
    put_i64(c + G_FLOW_ID[which], row, s.flow_id)
    if s.client_port != ABSENT:
        put_i32(c + G_CLIENT_PORT[which], row, s.client_port)
    put_text(c + G_PROTOCOL[which], row, &PROTOCOL_PADDED[s.protocol])
    put_i64(c + G_FRAME[which], row, s.frame)
    put_us(c + G_TS[which], row, s.ts_ns)
    put_i64(c + G_TS_NS[which], row, s.ts_ns)
    put_span(c + G_MESSAGE_ID[which], row, &s.message_id)
    if s.payload_size >= 0:
        put_i64(c + G_PAYLOAD_SIZE[which], row, s.payload_size)
    if s.payload:
        put_i64(c + G_PAYLOAD_HASH[which], row, <int64_t>s.payload)


cdef inline int64_t place_number(const Side* s) noexcept nogil:
    cdef uint64_t hash = <uint64_t>s.protocol
    cdef int i
    for i in range(2):
        hash = avalanche(hash ^ (s.names[PLACE_NAMES[i]].entry.hash + 1 if s.names[PLACE_NAMES[i]] != NULL else 0))
    return <int64_t>hash


cdef void put_path(PathTable* t, const Publish* p, const Side* d) noexcept nogil:
    """A row; d: NULL if nobody has received the publish."""
    cdef Col* c = t.cols
    cdef int64_t row = t.rows
    if c == NULL:
        return
    t.rows += 1
    if t.places_wanted and not note(&t.places, place_number(&p.side)):
        t.no_memory += 1
    put_side_of_path(c, row, 0, &p.side)
    if p.side.names[G_CAPTURE] != NULL:
        put_octets(c + GC_CAPTURE, row, <const uint8_t*>p.side.names[G_CAPTURE] + sizeof(Name), p.side.names[G_CAPTURE].size)
    put_i64(c + GC_COPIES, row, p.copies)
    put_octets(c + GC_TRACE_ID, row, p.trace_id, p.trace_size)
    put_i32(c + GC_HOP, row, p.hop)
    if d == NULL:
        return
    put_side_of_path(c, row, 1, d)
    put_i64(c + GC_LATENCY, row, d.ts_ns - p.side.ts_ns)
    put_i32(c + GC_ATTEMPT, row, <int32_t>d.attempt)
    put_bool(c + GC_REDELIVERED, row, d.again)
    put_text(c + GC_MATCHED_BY, row, &MATCH_TEXT[d.matched_by])
    put_i32(c + GC_CANDIDATES, row, d.candidates)
    put_bool(c + GC_CONVERTED, row, d.protocol != p.side.protocol)


cdef void retire(PathTable* t) noexcept nogil:
    """The oldest publish and its copies have their rows."""
    cdef Publish* p = t.oldest
    cdef Side* d = p.first
    cdef Side* following
    cdef Receipt* receipt
    cdef Transport* e
    cdef int k
    if d == NULL:
        put_path(t, p, NULL)
    while d != NULL:
        following = d.after
        put_path(t, p, d)
        free_side(t, d)
        t.kept -= 1
        d = following
    while p.receipts != NULL:
        receipt = p.receipts
        p.receipts = receipt.following
        remove_entry(&t.receipts, &receipt.entry)
        t.octets -= <int64_t>sizeof(Receipt) + BLOCK_OCTETS
        give_back(&t.pool, receipt, sizeof(Receipt))
    while p.transports != NULL:
        e = p.transports
        p.transports = e.following
        remove_entry(&t.transports, &e.entry)
        t.octets -= <int64_t>sizeof(Transport) + BLOCK_OCTETS
        give_back(&t.pool, e, sizeof(Transport))
    for k in range(I_COUNT):
        take_first(t, p.buckets[k])
    t.oldest = p.newer
    if t.oldest == NULL:
        t.newest = NULL
    t.kept -= 1
    free_side(t, &p.side)
