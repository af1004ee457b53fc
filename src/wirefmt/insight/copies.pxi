# A delivery, and its publish.

cdef struct Choice:
    Publish* publish
    int64_t number              # of its place in the bucket
    int64_t candidates
    bint again                  # this consumer has got it, and the server does not say that it delivers again


cdef bint match(PathTable* t, Side* d) noexcept nogil:
    """Find the publish of a delivery. False: it was not found."""
    cdef Choice choice, other
    cdef Bucket* b
    cdef uint64_t place
    cdef int k, turn
    choice.publish = by_transport(t, d)
    choice.candidates = 1
    if choice.publish != NULL:
        received(t, d, &choice, M_TRANSPORT)
        return True
    for k in range(RULES):
        for turn in range(2 if MATCHING[k].index == I_PLACE else 1):
            place = d.second_place if turn else d.place
            if turn and place == d.place:
                break
            b = bucket_of(t, MATCHING[k].index, key_of(d, MATCHING[k].index, place))
            if b != NULL and choose(t, b, d, &MATCHING[k], &choice):
                if choice.again and MATCHING[k].matched_by == M_PAYLOAD and MATCHING[k].related:
                    # a queue gets each message once: rather the first of a publisher that has not led to it yet
                    if choose(t, b, d, &MATCHING[RULES - 1], &other) and not other.again:
                        choice = other
                received(t, d, &choice, MATCHING[k].matched_by)
                return True
    return False


cdef Publish* by_transport(PathTable* t, const Side* d) noexcept nogil:
    """The latest publish whose delivery had this identity."""
    cdef Transport* e
    cdef Publish* best = NULL
    if d.transport == 0 or (d.protocol == P_MQTT and d.redelivered != 1):
        return NULL
    e = <Transport*>first_entry(&t.transports, d.transport)
    while e != NULL:
        if e.entry.hash == d.transport and (best == NULL or e.publish.number > best.number):
            best = e.publish
        e = <Transport*>e.entry.chain
    return best


cdef bint fits(const Publish* p, const Side* d, int index) noexcept nogil:
    if index == I_ID:
        return p.side.payload == d.payload or p.side.protocol != d.protocol
    if index == I_PAYLOAD and p.side.protocol == d.protocol and not (d.protocol == P_AMQP091 or d.protocol == P_AMQP10):
        return False                                    # these protocols deliver with the destination of the publish
    if p.side.id and d.id:
        return p.side.id == d.id
    if d.id:                                            # servers that name messages
        return d.protocol == P_NSQ or d.protocol == P_ROCKETMQ or d.protocol == P_PHPMQ
    return p.side.id == 0 or p.side.protocol != d.protocol


cdef bint is_related(PathTable* t, const Publish* p, const Side* d) noexcept nogil:
    return (p.side.place and (p.side.place == d.place or p.side.place == d.second_place)) or (
        stream_of(t, p, d.consumer, False) != NULL)


cdef bint choose(PathTable* t, Bucket* b, const Side* d, const Rule* rule, Choice* choice) noexcept nogil:
    """Choose a publish of a bucket for a delivery. False: none fits.

    A consumer gets each publish once, and those of a connection to a destination in their order. So the first that it has not got
    is right, if none that was published later on that connection has reached it. A client without a session gets nothing that
    was published before its login. If it has got all, or the server says that it delivers again, it is one that it has got."""
    cdef Publish* p
    cdef Stream* stream
    cdef Progress* progress = progress_of(t, b, d.consumer, False) if b.progress != NULL else NULL
    cdef int64_t begin = 0, i, k, copies
    cdef int64_t new_at = -1, passed_at = -1, got_at = -1       # the best of each kind
    cdef int64_t news = 0, passed = 0, got = 0, fewest = 0, steps = 0
    cdef bint says_again = d.redelivered == 1 or d.attempts > 1
    if rule.oldest and progress != NULL and not says_again:
        begin = max(<int64_t>0, progress.number - b.first)
    for k in range(b.count - begin):
        i = begin + k if rule.oldest and not says_again else b.count - 1 - k
        p = b.items[b.start + i]
        steps += 1
        if steps > STEPS:
            break
        if not fits(p, d, rule.index) or (rule.related and not is_related(t, p, d)):
            continue
        copies = got_by(t, p, d.consumer)
        if copies:
            got += 1
            if says_again:                              # the one with the fewest copies; of those the oldest
                if got_at < 0 or copies <= fewest:
                    got_at = i
                    fewest = copies
            elif got_at < 0 or rule.oldest:
                got_at = i
            continue
        stream = stream_of(t, p, d.consumer, False)
        if (stream != NULL and stream.number > p.number) or (d.by_client and d.login_ns >= 0 and p.side.ts_ns < d.login_ns):
            passed += 1
            if passed_at < 0 or (says_again and rule.oldest):
                passed_at = i
        else:
            news += 1
            if new_at < 0 or (says_again and rule.oldest):
                new_at = i
    if steps > STEPS and new_at >= 0 and rule.oldest:
        news += b.count - begin - STEPS
    if begin and new_at < 0 and passed_at < 0 and got_at < 0:   # it has got all
        for k in range(min(b.count, <int64_t>STEPS)):
            p = b.items[b.start + b.count - 1 - k]
            if fits(p, d, rule.index) and got_by(t, p, d.consumer):
                got += 1
                if got_at < 0:
                    got_at = b.count - 1 - k
    choice.again = False
    if says_again and got_at >= 0:
        i = got_at
        choice.candidates = got
    elif new_at >= 0:
        i = new_at
        choice.candidates = news
    elif passed_at >= 0:
        i = passed_at
        choice.candidates = passed
    elif got_at >= 0:
        i = got_at
        choice.candidates = got
        choice.again = True
    else:
        return False
    choice.publish = b.items[b.start + i]
    if rule.oldest and i == new_at and b.count > FULL_BUCKET:
        progress = progress_of(t, b, d.consumer, True)
        if progress != NULL:
            progress.number = max(progress.number, b.first + i + 1)
    return True


cdef void received(PathTable* t, Side* d, const Choice* choice, int matched_by) noexcept nogil:
    """A delivery has its publish."""
    cdef Publish* p = choice.publish
    cdef Stream* stream = stream_of(t, p, d.consumer, True)
    cdef Transport* e
    cdef Side* other
    cdef int64_t before = got_by(t, p, d.consumer)
    d.matched_by = matched_by
    d.candidates = <int32_t>min(choice.candidates, <int64_t>0x7FFFFFFF)
    d.attempt = d.attempts if d.attempts != ABSENT else before + 1
    d.again = before > 0 or d.redelivered == 1 or d.attempts > 1
    if stream != NULL:
        stream.number = max(stream.number, p.number)
    d.before = p.last
    if p.last != NULL:
        p.last.after = d
    else:
        p.first = d
    p.last = d
    p.copies += 1
    if p.copies > FEW_COPIES:
        other = p.first if p.copies == FEW_COPIES + 1 else d
        while other != NULL:
            count_copy(t, p, other)
            other = other.after
    t.kept += 1
    add_receiver(t, flow_of(d))
    add_receiver(t, name_hash(12, d.names[G_CLIENT_ID]))
    if d.names[G_CLIENT_IP] != p.side.names[G_CLIENT_IP] or d.correlation or d.trace or d.id:
        add_receiver(t, name_hash(13, d.names[G_CLIENT_IP]))
    if d.transport and matched_by != M_TRANSPORT:
        e = <Transport*>take_memory(&t.pool, sizeof(Transport))
        if e == NULL:
            t.no_memory += 1
            return
        e.entry.hash = d.transport
        e.publish = p
        e.following = p.transports
        p.transports = e
        t.octets += <int64_t>sizeof(Transport) + BLOCK_OCTETS
        add_entry(&t.transports, &e.entry)


cdef void give_up(PathTable* t) noexcept nogil:
    """The delivery that has waited longest: its publish was not captured, or left too early."""
    cdef int i
    t.unmatched += 1
    free_side(t, t.waiting[0])
    t.waiting_count -= 1
    for i in range(t.waiting_count):
        t.waiting[i] = t.waiting[i + 1]


cdef void wait(PathTable* t, Side* d) noexcept nogil:
    while t.waiting_count and (t.waiting_count == WAITING_MAX or t.waiting[0].ts_ns + SLACK_NS < d.ts_ns):
        give_up(t)
    t.waiting[t.waiting_count] = d
    t.waiting_count += 1
