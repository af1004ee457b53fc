# Publishes and deliveries, as they come; they are matched in the order of time.

cdef bint is_service(const Span* address) noexcept nogil:
    """Is this a node of the server that answers requests? What is sent there is not for a consumer."""
    if address.size == 0 or (address.at[0] != c"/" and address.at[0] != c"$"):
        return False
    return is_text(address, b"/management") or is_text(address, b"$management") or is_text(address, b"$cbs")


cdef void add_side(PathTable* t, const Op* o) noexcept nogil:
    """A publish or delivery that was sent."""
    cdef bint publishes = o.kind == O_PUBLISH
    cdef int64_t own = sizeof(Publish) if publishes else sizeof(Side)
    cdef int64_t size
    cdef Span text
    cdef const Span* id = &o.texts[Z_MESSAGE_ID]
    cdef const Span* trace = &o.texts[Z_TRACEPARENT]
    cdef Side* s
    cdef Side** grown
    cdef int i
    if o.frame < 0 or not (publishes or o.kind == O_DELIVER) or (publishes and is_service(&o.texts[Z_DESTINATION])):
        return
    if o.request == K_MPUB:
        return                                          # nsq_bodies adds its messages
    if t.pending_count == t.pending_room:
        t.pending_room = max(<int64_t>1024, 2 * t.pending_room)
        grown = <Side**>realloc(t.pending, <size_t>t.pending_room * sizeof(Side*))
        if grown == NULL:
            t.pending_room = t.pending_count
            t.no_memory += 1
            return
        t.pending = grown
    size = own + id.size + trace.size
    s = <Side*>take_memory(&t.pool, <size_t>size)
    if s == NULL:
        t.no_memory += 1
        return
    memset(s, 0, <size_t>own)
    s.size = size + BLOCK_OCTETS
    t.octets += s.size
    s.message_id = id[0]
    s.traceparent = trace[0]
    if id.at != NULL:
        s.message_id.at = <uint8_t*>s + own
        memcpy(<uint8_t*>s + own, id.at, id.size)
    if trace.at != NULL:
        s.traceparent.at = <uint8_t*>s + own + id.size
        memcpy(<uint8_t*>s + own + id.size, trace.at, trace.size)
    s.arrival = t.arrivals
    t.arrivals += 1
    s.ts_ns = o.started_ns
    s.frame = o.frame
    s.flow_id = o.conn.flow_id
    s.login_ns = -1 if o.conn.session_present == 1 else o.conn.numbers[N_LOGIN]
    s.sequence = o.sequence
    s.payload_size = o.payload_size
    s.client_port = o.client_port
    s.attempts = o.attempts
    s.protocol = <uint8_t>o.conn.protocol
    s.direction = not publishes
    s.redelivered = o.redelivered
    for i in range(G_COUNT):
        s.names[i] = shared_name(t, &o.conn.shared[i], &o.texts[SIDE_FROM[i]])
    s.id = hashed(1, id)
    s.correlation = hashed(1, &o.texts[Z_CORRELATION_ID])       # as `id`: a correlation id may be a message id
    if trace.size >= 3 + TRACE_OCTETS:
        text.at = trace.at + 3
        text.size = TRACE_OCTETS
        s.trace = hashed(2, &text)
    if o.has_hash and o.payload_size > 0:
        s.payload = present(o.hash)
    s.place = place_named(s.names[G_ROUTING_KEY])
    if s.place == 0:
        s.place = place_named(s.names[G_DESTINATION])
    if not publishes:
        s.second_place = place_named(s.names[G_QUEUE])
        set_consumer(s)
        set_transport(s)
    t.pending[t.pending_count] = s
    t.pending_count += 1
    if t.pending_count + t.kept >= t.max_sides:
        make_room(t)


cdef void set_consumer(Side* s) noexcept nogil:
    """Who gets each message once: a group, a queue, or a client."""
    s.consumer = name_hash(3, s.names[G_GROUP])
    if s.consumer == 0 and s.protocol != P_MQTT and s.protocol != P_ROCKETMQ:
        s.consumer = avalanche(s.second_place ^ 4) if s.second_place else 0
    s.by_client = s.consumer == 0
    if s.by_client:
        s.consumer = name_hash(5, s.names[G_CLIENT_ID])
        if s.consumer == 0:
            s.consumer = present(avalanche(<uint64_t>s.flow_id ^ 6))


cdef void set_transport(Side* s) noexcept nogil:
    if s.protocol == P_NSQ or s.protocol == P_PHPMQ:        # the server names each message
        if s.id:
            s.transport = present(avalanche(s.id ^ s.place ^ s.protocol))
    elif s.protocol == P_MQTT and s.sequence != ABSENT:     # a packet identifier of a session
        s.transport = present(avalanche(avalanche(s.consumer ^ <uint64_t>s.sequence) ^ s.payload ^ s.place))


cdef int earlier(const void* a, const void* b) noexcept nogil:
    """For qsort: time, frame, publishes first; arrivals are compared of one connection only."""
    cdef const Side* x = (<const Side**>a)[0]
    cdef const Side* y = (<const Side**>b)[0]
    if x.ts_ns != y.ts_ns:
        return -1 if x.ts_ns < y.ts_ns else 1
    if x.frame != y.frame:
        return -1 if x.frame < y.frame else 1
    if x.direction != y.direction:
        return -1 if x.direction < y.direction else 1
    if x.flow_id != y.flow_id:
        return -1 if x.flow_id < y.flow_id else 1
    return -1 if x.arrival < y.arrival else 1


cdef void reserve(Entries* t, size_t count) noexcept nogil:
    """Make an empty table so large that it need not grow step by step."""
    cdef Entry** slots
    cdef size_t mask = t.mask
    while mask < count:
        mask = 2 * mask + 1
    slots = <Entry**>calloc(mask + 1, sizeof(Entry*)) if mask > t.mask else NULL
    if slots != NULL:
        free(t.slots)
        t.slots = slots
        t.mask = mask


cdef void match_pending(PathTable* t, int64_t count) noexcept nogil:
    """Match the first of those that wait, in the order of time."""
    cdef int64_t i
    cdef Side* s
    if t.pending_count == 0:
        return
    for i in range(1, t.pending_count):                 # captures are nearly always in this order
        if t.pending[i - 1].ts_ns >= t.pending[i].ts_ns and earlier(&t.pending[i - 1], &t.pending[i]) > 0:
            qsort(t.pending, <size_t>t.pending_count, sizeof(Side*), earlier)
            break
    if t.buckets.count == 0:
        reserve(&t.buckets, <size_t>count)
    for i in range(count):
        s = t.pending[i]
        if s.ts_ns < t.now_ns:
            t.late += 1
        else:
            t.now_ns = s.ts_ns
        while t.oldest != NULL and t.oldest.side.ts_ns + t.window_ns < t.now_ns:
            retire(t)
        if s.direction:
            if not match(t, s):
                wait(t, s)
        else:
            published(t, <Publish*>s)
    t.pending_count -= count
    for i in range(t.pending_count):
        t.pending[i] = t.pending[i + count]


cdef void make_room(PathTable* t) noexcept nogil:
    """There are as many as there may be: match the older half of those that wait, then give up the oldest publishes."""
    match_pending(t, (t.pending_count + 1) // 2)
    while t.oldest != NULL and t.pending_count + t.kept > t.max_sides * 3 // 4:
        t.evicted += 1
        retire(t)


cdef bint finish_paths(PathTable* t, int64_t rows) noexcept nogil:
    """No side follows. True when all rows are made; otherwise at least `rows` of them are."""
    match_pending(t, t.pending_count)
    while t.oldest != NULL:
        if t.rows >= rows:
            return False
        retire(t)
    while t.waiting_count:
        give_up(t)
    forget_streams(t)
    return True


cdef bint open_paths(PathTable* t, Col* cols, int64_t window_ns, int64_t max_sides) noexcept nogil:
    """False: out of memory."""
    t.wanted = True
    t.window_ns = window_ns
    t.max_sides = max_sides
    t.cols = cols
    t.now_ns = -1
    return (open_entries(&t.names) and open_entries(&t.buckets) and open_entries(&t.progress) and open_entries(&t.receipts)
            and open_entries(&t.transports) and open_entries(&t.streams))


cdef void close_paths(PathTable* t) noexcept nogil:
    cdef int64_t i
    t.cols = NULL
    free(t.places.at)
    t.places.at = NULL
    if not t.wanted:
        return
    for i in range(t.pending_count):
        free_side(t, t.pending[i])
    t.pending_count = 0
    for i in range(t.waiting_count):
        free_side(t, t.waiting[i])
    t.waiting_count = 0
    while t.oldest != NULL:
        retire(t)
    forget_streams(t)
    free(t.pending)
    free(t.names.slots)
    free(t.buckets.slots)
    free(t.progress.slots)
    free(t.receipts.slots)
    free(t.transports.slots)
    free(t.streams.slots)
    close_pool(&t.pool)
