# What publishes are found by, and what each consumer has got of them.

cdef inline uint64_t key_of(const Side* s, int index, uint64_t place) noexcept nogil:
    """0: this side has none."""
    if index == I_ID:
        return s.id
    if index == I_CORRELATION:
        return s.correlation
    if index == I_TRACE:
        return s.trace
    if index == I_PAYLOAD:
        return s.payload
    # a payload of no octets says nothing; its size of 0 with the destination does
    return present(avalanche((s.payload if s.payload else 9) ^ avalanche(place))) if place and (
        s.payload or s.payload_size == 0) else 0


cdef Bucket* bucket_of(PathTable* t, int index, uint64_t key) noexcept nogil:
    cdef uint64_t hash = avalanche(key + <uint64_t>index)
    cdef Bucket* b
    if key == 0:
        return NULL
    b = <Bucket*>first_entry(&t.buckets, hash)
    while b != NULL and b.entry.hash != hash:
        b = <Bucket*>b.entry.chain
    return b


cdef Bucket* put_in_bucket(PathTable* t, int index, uint64_t key, Publish* p) noexcept nogil:
    cdef Bucket* b
    cdef Publish** grown
    cdef int64_t room
    if key == 0:
        return NULL
    b = bucket_of(t, index, key)
    if b == NULL:
        b = <Bucket*>take_memory(&t.pool, sizeof(Bucket))
        if b == NULL:
            t.no_memory += 1
            return NULL
        memset(b, 0, sizeof(Bucket))
        b.entry.hash = avalanche(key + <uint64_t>index)
        b.items = &b.one
        b.room = 1
        t.octets += <int64_t>sizeof(Bucket) + BLOCK_OCTETS
        add_entry(&t.buckets, &b.entry)
    if b.start + b.count == b.room:
        if b.start > b.count:                           # room at the front
            memcpy(b.items, b.items + b.start, <size_t>b.count * sizeof(Publish*))
            b.start = 0
        else:
            room = max(<int64_t>4, 2 * b.room)
            grown = <Publish**>malloc(<size_t>room * sizeof(Publish*))
            if grown == NULL:
                t.no_memory += 1
                return NULL
            memcpy(grown, b.items + b.start, <size_t>b.count * sizeof(Publish*))
            if b.items != &b.one:
                free(b.items)
                t.octets -= b.room * <int64_t>sizeof(Publish*)
            t.octets += room * <int64_t>sizeof(Publish*)
            b.items = grown
            b.room = room
            b.start = 0
    b.items[b.start + b.count] = p
    b.count += 1
    return b


cdef void take_first(PathTable* t, Bucket* b) noexcept nogil:
    """The oldest publish leaves its bucket: it is the first there."""
    cdef Progress* following
    if b == NULL:
        return
    b.first += 1
    b.start += 1
    b.count -= 1
    if b.count == 0:
        while b.progress != NULL:
            following = b.progress.following
            remove_entry(&t.progress, &b.progress.entry)
            give_back(&t.pool, b.progress, sizeof(Progress))
            t.octets -= <int64_t>sizeof(Progress) + BLOCK_OCTETS
            b.progress = following
        if b.items != &b.one:
            free(b.items)
            t.octets -= b.room * <int64_t>sizeof(Publish*)
        remove_entry(&t.buckets, &b.entry)
        t.octets -= <int64_t>sizeof(Bucket) + BLOCK_OCTETS
        give_back(&t.pool, b, sizeof(Bucket))


cdef Progress* progress_of(PathTable* t, Bucket* b, uint64_t consumer, bint make) noexcept nogil:
    cdef uint64_t hash = avalanche(b.entry.hash ^ consumer)
    cdef Progress* p = <Progress*>first_entry(&t.progress, hash)
    while p != NULL:
        if p.bucket == b and p.consumer == consumer:
            return p
        p = <Progress*>p.entry.chain
    if not make:
        return NULL
    p = <Progress*>take_memory(&t.pool, sizeof(Progress))
    if p == NULL:
        t.no_memory += 1
        return NULL
    p.entry.hash = hash
    p.bucket = b
    p.consumer = consumer
    p.number = 0
    p.following = b.progress
    b.progress = p
    t.octets += <int64_t>sizeof(Progress) + BLOCK_OCTETS
    add_entry(&t.progress, &p.entry)
    return p


cdef Receipt* receipt_of(PathTable* t, Publish* p, uint64_t consumer, bint make) noexcept nogil:
    cdef uint64_t hash = avalanche(<uint64_t>p.number ^ consumer)
    cdef Receipt* r = <Receipt*>first_entry(&t.receipts, hash)
    while r != NULL:
        if r.publish == p and r.consumer == consumer:
            return r
        r = <Receipt*>r.entry.chain
    if not make:
        return NULL
    r = <Receipt*>take_memory(&t.pool, sizeof(Receipt))
    if r == NULL:
        t.no_memory += 1
        return NULL
    r.entry.hash = hash
    r.publish = p
    r.consumer = consumer
    r.count = 0
    r.following = p.receipts
    p.receipts = r
    t.octets += <int64_t>sizeof(Receipt) + BLOCK_OCTETS
    add_entry(&t.receipts, &r.entry)
    return r


cdef int64_t got_by(PathTable* t, Publish* p, uint64_t consumer) noexcept nogil:
    """How many copies of a publish a consumer has got."""
    cdef const Side* d = p.first
    cdef Receipt* r
    cdef int64_t n = 0
    if p.copies > FEW_COPIES:
        r = receipt_of(t, p, consumer, False)
        return r.count if r != NULL else 0
    while d != NULL:
        n += d.consumer == consumer
        d = d.after
    return n


cdef void count_copy(PathTable* t, Publish* p, const Side* d) noexcept nogil:
    cdef Receipt* r = receipt_of(t, p, d.consumer, True)
    if r != NULL:
        r.count += 1


cdef Stream* stream_of(PathTable* t, const Publish* p, uint64_t consumer, bint make) noexcept nogil:
    cdef uint64_t hash = avalanche(avalanche(<uint64_t>p.side.flow_id ^ consumer) ^ p.side.place)
    cdef Stream* s = <Stream*>first_entry(&t.streams, hash)
    while s != NULL:
        if s.entry.hash == hash:
            return s
        s = <Stream*>s.entry.chain
    if not make:
        return NULL
    if t.streams.count >= STREAMS_MAX:
        forget_streams(t)
    s = <Stream*>take_memory(&t.pool, sizeof(Stream))
    if s == NULL:
        t.no_memory += 1
        return NULL
    s.entry.hash = hash
    s.number = -1
    s.following = t.all_streams
    t.all_streams = s
    t.octets += <int64_t>sizeof(Stream) + BLOCK_OCTETS
    add_entry(&t.streams, &s.entry)
    return s


cdef void forget_streams(PathTable* t) noexcept nogil:
    cdef Stream* s
    while t.all_streams != NULL:
        s = t.all_streams
        t.all_streams = s.following
        remove_entry(&t.streams, &s.entry)
        t.octets -= <int64_t>sizeof(Stream) + BLOCK_OCTETS
        give_back(&t.pool, s, sizeof(Stream))


cdef bint is_receiver(const PathTable* t, uint64_t who) noexcept nogil:
    return who != 0 and bit_at(t.receivers, <int64_t>(who % RECEIVER_BITS))


cdef void add_receiver(PathTable* t, uint64_t who) noexcept nogil:
    if who:
        t.receivers[who % RECEIVER_BITS >> 3] |= <uint8_t>(1 << (who & 7))


cdef inline uint64_t flow_of(const Side* s) noexcept nogil:
    return avalanche(<uint64_t>s.flow_id ^ 11)
