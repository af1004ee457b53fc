# AMQP 0.9.1: assembles method, content header and bodies to a content (general 4.2.6), per channel, for one direction of a
# connection. Assembler, decode_batch and captures use it.
#
# Frames are read in place; only a body in several frames is copied. Before the caller frees its input, it calls
# amqp091_leave_input, which copies method and header of the pending contents.
#
# A receiver (objects, decode_batch) refuses frames that violate a rule or a limit. An observer (captures) cannot: it ends
# contents early, keeps only a part of a body, and may have missed the first frames of a content. Its input is valid during a
# call only, so methods and headers are copied at once.


cdef enum Amqp091Join:          # results of amqp091_join
    AMQP091_JOIN_FAULT          # see the Fault; no content was pending on the channel, or the limit of all contents is reached
    AMQP091_JOIN_ALONE          # a whole message
    AMQP091_JOIN_PART           # of the pending content `kept`
    AMQP091_JOIN_LAST           # completes a content: see `done`
    AMQP091_JOIN_ENDED          # not what the channel's content expects, see the Fault; that content is `done`
    AMQP091_JOIN_FULL           # for an observer: there are max_count contents; `done` was the oldest
    AMQP091_JOIN_NO_MEMORY
    # after ENDED and FULL the frame has not been used: the caller may call again with it


cdef enum:
    AMQP091_SPARE_MAX = 1 << 16         # octets of space that the spare content of a receiver keeps
    AMQP091_FEW = 256                   # octets of method and header that need no memory of their own
    AMQP091_CHAINS = 8                  # at first; a power of two


cdef struct Amqp091Content:     # a pending content
    Amqp091Content* next        # begun later, or its header came later
    Amqp091Content* before
    Amqp091Content* chain       # another channel in the same chain
    Amqp091Channel state
    uint64_t size               # octets of its frames
    uint32_t bodies             # frames
    uint16_t channel
    uint8_t in_place            # method or header is in the input
    uint8_t lacks_method        # its method was sent before the capture or in a gap
    Amqp091FrameView method, header     # type 0: absent
    Octets head                 # frames of method and header, once they are copied; begins with `few`
    Span part                   # the body, if it is in place: the payload of its last frame; absent: see `body`
    Octets body                 # copied
    # the caller's
    Octets sizes                # of body frames, uint32_t each
    MessageContext m            # of the last frame, with the time and offset of the first and the size of all
    bint faulty
    Fault fault                 # of a malformed frame
    int64_t fault_base          # octets of the content before that frame
    Notes notes                 # of its frames: the first that LAX accepted
    uint8_t few[AMQP091_FEW]


cdef struct Amqp091Contents:    # of one direction of one connection; all zero is a new one
    Amqp091Content* open        # the latest content; it is added to the lists when another begins, and usually ends before that
    Amqp091Content* first       # the others, by age
    Amqp091Content* last        # those with frames in place are the last ones
    Amqp091Content** chains     # the others, by channel
    Amqp091Content* few[AMQP091_CHAINS]
    uint32_t chain_count        # a power of two, or 0
    uint32_t count              # with `open`
    uint64_t octets             # of all frames of pending contents
    uint64_t max_body           # octets; 0: no limit
    uint64_t max_octets         # of `octets`; 0: no limit
    Amqp091Content* done        # the latest content that was completed or ended, until the next call; NULL: none
    Amqp091Content* spare       # a receiver's
    bint observes
    # an observer's
    bint lost                   # there was a gap before, so frames may be missing
    uint32_t max_count          # limit of pending contents
    uint64_t max_kept           # octets of a body that are kept
    int64_t memory              # octets of memory, with that of `done` and `spare`


cdef int amqp091_join(Amqp091Contents* d, const Amqp091FrameView* frame, Amqp091Content** kept, Fault* f) noexcept nogil:
    """Add the next frame of the stream. Returns an Amqp091Join; after JOIN_PART `kept` is the frame's content."""
    cdef Amqp091Content* k
    cdef Amqp091Channel fresh
    cdef Amqp091Channel* state = &fresh
    cdef uint8_t stage
    cdef int role
    amqp091_drop_done(d)
    if frame.type == AMQP091_FRAME_HEARTBEAT or frame.type == AMQP091_PROTOCOL_HEADER:
        return AMQP091_JOIN_ALONE
    k = amqp091_content_on(d, frame.channel)
    if k != NULL:
        state = &k.state
    else:
        memset(&fresh, 0, sizeof(fresh))
        if d.observes and frame.type == AMQP091_FRAME_HEADER:
            fresh.stage = AMQP091_AWAITS_HEADER
            fresh.class_id = frame.class_id
    stage = state.stage
    role = amqp091_assemble(state, frame, d.max_body, f)
    if role == AMQP091_ALONE:
        return AMQP091_JOIN_ALONE
    if role == AMQP091_UNEXPECTED:
        if k == NULL:
            return AMQP091_JOIN_FAULT
        k.state.stage = stage
        amqp091_end_content(d, k)
        return AMQP091_JOIN_ENDED
    if k == NULL:
        if not amqp091_has_capacity(d):
            return AMQP091_JOIN_FULL
        k = amqp091_begin_content(d, frame.channel)
        if k == NULL:
            return AMQP091_JOIN_NO_MEMORY
        k.lacks_method = frame.type == AMQP091_FRAME_HEADER
        k.state = fresh
    if frame.type == AMQP091_FRAME_BODY:
        amqp091_take_body(d, k, &frame.payload, role == AMQP091_COMPLETES)
    else:
        amqp091_take_head(d, k, frame)
    if k.head.failed or k.body.failed:
        amqp091_end_content(d, k)
        return AMQP091_JOIN_NO_MEMORY
    if role == AMQP091_COMPLETES:
        amqp091_end_content(d, k)
        k.size += frame.size
        return AMQP091_JOIN_LAST
    k.size += frame.size
    d.octets += frame.size
    if d.max_octets and d.octets > d.max_octets:
        amqp091_fault(f, AMQP091_CHECK_PENDING_MAX, AMQP091_FIELD_FRAME, 0, <int64_t>d.octets, <int64_t>d.max_octets, 0)
        return AMQP091_JOIN_FAULT
    kept[0] = k
    return AMQP091_JOIN_PART


cdef bint amqp091_leave_input(Amqp091Contents* d) noexcept nogil:
    """Copy the parts of pending contents that are in the input. False: out of memory."""
    cdef Amqp091Content* k
    amqp091_oldest(d)
    k = d.last
    while k != NULL and k.in_place:
        if k.head.size == 0:
            amqp091_copy_frame(d, k, &k.method)
        if k.header.type and k.head.size == k.method.size:
            amqp091_copy_frame(d, k, &k.header)
        if k.head.failed:
            return False
        k.in_place = False
        k = k.before
    return True


cdef void amqp091_unfinished(const Amqp091Content* k, Fault* f) noexcept nogil:
    """The fault of a stream that ends inside a content."""
    amqp091_fault(f, AMQP091_CHECK_CONTENT_UNFINISHED, AMQP091_FIELD_PAYLOAD, 0, <int64_t>k.state.body_size,
                  <int64_t>k.state.body_have, 0)


cdef void amqp091_drop_contents(Amqp091Contents* d) noexcept nogil:
    """Free all memory: the stream has ended."""
    while amqp091_oldest(d) != NULL:
        amqp091_end_content(d, d.first)
    amqp091_drop_done(d)
    amqp091_free_content(d.spare)
    if d.chains != d.few:
        free(d.chains)
    memset(d, 0, sizeof(Amqp091Contents))


cdef inline void amqp091_free_content(Amqp091Content* k) noexcept nogil:
    if k != NULL:
        free_octets(&k.head)
        free_octets(&k.body)
        free_octets(&k.sizes)
        free(k)


cdef inline int64_t amqp091_content_octets(const Amqp091Content* k) noexcept nogil:
    """Memory of a content."""
    return <int64_t>(sizeof(Amqp091Content) + k.head.capacity - AMQP091_FEW + k.body.capacity + 3 * BLOCK_OCTETS)


cdef inline void amqp091_drop_done(Amqp091Contents* d) noexcept nogil:
    """`done` becomes the spare content, or is freed. An observer of many connections has none: memory that another connection
    has just freed is in the cache, memory that this one kept is not."""
    cdef Amqp091Content* k = d.done
    if k == NULL:
        return
    d.done = NULL
    if not d.observes and d.spare == NULL and k.head.capacity <= AMQP091_SPARE_MAX and k.body.capacity <= AMQP091_SPARE_MAX and \
            not k.head.failed and not k.body.failed:
        d.spare = k
        return
    d.memory -= amqp091_content_octets(k)
    amqp091_free_content(k)


# ------------------------------------------------------------------------------------------------ begin and end

cdef inline Amqp091Content* amqp091_content_on(const Amqp091Contents* d, uint16_t channel) noexcept nogil:
    """The pending content on a channel; NULL: none. There are as many chains as contents, so a chain has at most 256."""
    cdef Amqp091Content* k = d.open
    if k != NULL and k.channel == channel:
        return k
    if d.first == NULL:
        return NULL
    k = d.chains[channel & (d.chain_count - 1)]
    while k != NULL and k.channel != channel:
        k = k.chain
    return k


cdef inline Amqp091Content* amqp091_oldest(Amqp091Contents* d) noexcept nogil:
    """The oldest pending content; NULL: none."""
    if d.open != NULL:
        amqp091_link(d, d.open)
        d.open = NULL
    return d.first


cdef bint amqp091_has_capacity(Amqp091Contents* d) noexcept nogil:
    """Is there space for another content? Otherwise the oldest one ends and is `done`."""
    if d.max_count == 0 or d.count < d.max_count:
        return True
    amqp091_end_content(d, amqp091_oldest(d))
    d.lost = True
    return False


cdef Amqp091Content* amqp091_begin_content(Amqp091Contents* d, uint16_t channel) noexcept nogil:
    """A new content on a channel that has none; NULL: out of memory."""
    cdef Amqp091Content* k = d.spare
    if k != NULL:
        d.spare = NULL
        k.head.size = k.body.size = k.sizes.size = 0
    else:
        k = <Amqp091Content*>malloc(sizeof(Amqp091Content))
        if k == NULL:
            return NULL
        memset(k, 0, sizeof(Amqp091Content) - AMQP091_FEW)
        k.head = octets_over(k.few, AMQP091_FEW)
        d.memory += amqp091_content_octets(k)
    amqp091_oldest(d)               # `open` goes to the others
    k.channel = channel
    k.in_place = k.lacks_method = k.faulty = False
    k.bodies = 0
    k.size = 0
    k.method.type = k.method.method = k.header.type = 0
    k.method.channel = channel
    k.part.at = NULL
    k.m.wire_size = 0
    k.notes.check = 0
    d.open = k
    d.count += 1
    return k


cdef void amqp091_link(Amqp091Contents* d, Amqp091Content* k) noexcept nogil:
    """Add the latest content to the lists."""
    cdef Amqp091Content** chain
    if d.count > d.chain_count:
        amqp091_more_chains(d)
    chain = d.chains + (k.channel & (d.chain_count - 1))
    k.chain = chain[0]
    chain[0] = k
    amqp091_append(d, k)


cdef void amqp091_more_chains(Amqp091Contents* d) noexcept nogil:
    """Double the number of chains. If memory has run out, the chains grow longer instead."""
    cdef uint32_t count = 2 * d.chain_count
    cdef Amqp091Content** chains
    cdef Amqp091Content** chain
    cdef Amqp091Content* k = d.first
    if count == 0:
        d.chains = d.few
        d.chain_count = AMQP091_CHAINS
        return
    chains = <Amqp091Content**>calloc(count, sizeof(void*))
    if chains == NULL:
        return
    while k != NULL:
        chain = chains + (k.channel & (count - 1))
        k.chain = chain[0]
        chain[0] = k
        k = k.next
    if d.chains != d.few:
        free(d.chains)
        d.memory -= <int64_t>(d.chain_count * sizeof(void*))
    d.memory += <int64_t>(count * sizeof(void*))
    d.chains = chains
    d.chain_count = count


cdef inline void amqp091_append(Amqp091Contents* d, Amqp091Content* k) noexcept nogil:
    k.next = NULL
    k.before = d.last
    if d.last != NULL:
        d.last.next = k
    else:
        d.first = k
    d.last = k


cdef inline void amqp091_unlink(Amqp091Contents* d, Amqp091Content* k) noexcept nogil:
    if k.before != NULL:
        k.before.next = k.next
    else:
        d.first = k.next
    if k.next != NULL:
        k.next.before = k.before
    else:
        d.last = k.before


cdef void amqp091_end_content(Amqp091Contents* d, Amqp091Content* k) noexcept nogil:
    """End a pending content: it becomes `done`, and the previous `done` is dropped."""
    cdef Amqp091Content** chain
    amqp091_drop_done(d)
    if k == d.open:
        d.open = NULL
    else:
        chain = d.chains + (k.channel & (d.chain_count - 1))
        while chain[0] != k:
            chain = &chain[0].chain
        chain[0] = k.chain
        amqp091_unlink(d, k)
    d.count -= 1
    d.octets -= k.size
    d.done = k


# ------------------------------------------------------------------------------------------------ frames of a content

cdef inline void amqp091_take_head(Amqp091Contents* d, Amqp091Content* k, const Amqp091FrameView* frame) noexcept nogil:
    """Keep the method or the header of a content."""
    if d.observes:
        amqp091_copy_frame(d, k, frame)
        return
    if frame.type == AMQP091_FRAME_METHOD:
        k.method = frame[0]
    else:
        k.header = frame[0]
    if not k.in_place:
        k.in_place = True
        if k != d.open and k != d.last:
            amqp091_unlink(d, k)
            amqp091_append(d, k)


cdef void amqp091_copy_frame(Amqp091Contents* d, Amqp091Content* k, const Amqp091FrameView* frame) noexcept nogil:
    """Copy the method or the header of a content, which may be its own view of the frame."""
    cdef int64_t before = amqp091_content_octets(k)
    cdef size_t at = k.head.size
    cdef size_t properties = 0
    add_octets(&k.head, frame.frame, frame.size)
    d.memory += amqp091_content_octets(k) - before
    if k.head.failed:
        return
    if frame.type == AMQP091_FRAME_METHOD:
        k.method = frame[0]
    else:
        properties = <size_t>(frame.properties.at - frame.frame)
        k.header = frame[0]
        k.header.frame = k.head.at + at
        k.header.properties.at = k.header.frame + properties
    k.method.frame = k.head.at


cdef inline void amqp091_take_body(Amqp091Contents* d, Amqp091Content* k, const Span* payload, bint last) noexcept nogil:
    """Add the payload of a body frame. The last one stays in place if no other was copied."""
    cdef int64_t before
    k.bodies += 1
    if last and k.body.size == 0:
        k.part = payload[0]
        return
    before = amqp091_content_octets(k)
    amqp091_extend_body(d, k, payload.at, payload.size)
    d.memory += amqp091_content_octets(k) - before


cdef void amqp091_extend_body(Amqp091Contents* d, Amqp091Content* k, const uint8_t* at, size_t n) noexcept nogil:
    """Grow the memory with the received octets, not with the announced size, which is its limit."""
    cdef Octets* body = &k.body
    cdef size_t capacity
    cdef uint8_t* bigger
    if d.observes:
        n = <size_t>min(<uint64_t>n, d.max_kept - min(<uint64_t>body.size, d.max_kept))
    if n > body.capacity - body.size:
        capacity = <size_t>min(<uint64_t>max(body.capacity * 2, body.size + n), k.state.body_size)
        bigger = <uint8_t*>realloc(body.at, capacity)
        if bigger == NULL:
            body.failed = True
            return
        body.at = bigger
        body.capacity = capacity
    add_octets(body, at, n)
