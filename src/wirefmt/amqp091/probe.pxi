# AMQP 0.9.1 in captures: how to recognise and frame its streams, and how to put its messages into the message table.
#
# A content (method, header, bodies) is one row, at the position of its last frame. Memory of pending contents is bounded:
# AMQP091_CONTENTS_MAX contents in each direction, each with the frames of method and header (AMQP091_SEARCH_MAX octets after a
# gap, otherwise the connection's frame-max) and `max_message` octets of the body; and `max_buffered` octets for all connections,
# which the capture checks. A content that a limit ends is a `partial` row.
#
# After a gap contents may have lost their method: they are `partial` rows of kind `header` (with properties and body)
# or `body`. In a direction without a gap such frames are faults of the sender, and their rows `malformed`.

cdef enum:
    AMQP091_CONTENTS_MAX = 256      # pending contents in one direction; another one replaces the oldest
    AMQP091_SEARCH_MAX = 1 << 18    # octets: the search for a boundary waits for no larger frame
    AMQP091_PART_MAX = 1 << 16      # octets: a method or header that claims to be larger does not begin at a boundary


cdef struct Amqp091Connection:      # what a capture knows about one connection: a ProtocolState; flow.buffered comes first
    Amqp091Flow flow
    uint32_t frame_max              # 0: not negotiated yet, or no limit
    Amqp091Contents contents[2]     # by direction
    int64_t counted[2]              # of their memory, in flow.buffered


# ------------------------------------------------------------------------------------------------ frames

cdef int amqp091_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """The protocol header (general 4.2.2), also in the form of older clients, which RabbitMQ accepts."""
    if memcmp(p, b"AMQP", min(n, <size_t>4)) != 0:
        return NO
    if n < 8:
        return MORE if n < 5 or p[4] < 2 else NO
    return YES if load_u32(p + 4) == 0x00000901 or load_u32(p + 4) == 0x01010009 else NO


cdef int amqp091_next_size(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                           Fault* f) noexcept nogil:
    """The frame's size. If its last octet is available it must be frame-end, so that an invalid size is found early."""
    cdef uint32_t frame_max = (<Amqp091Connection*>state).frame_max if state != NULL else 0
    cdef int status = amqp091_frame_size(p, n, limit if limit else frame_max, False, size, f)
    if status == OK and size[0] <= n and p[0] != AMQP091_PROTOCOL_HEADER and p[size[0] - 1] != AMQP091_FRAME_END:
        return amqp091_fault(f, AMQP091_CHECK_FRAME_END, AMQP091_FIELD_FRAME_END, <int64_t>size[0] - 1, 0, 0, 0)
    return status


cdef inline void amqp091_options(Amqp091Options* o, bint strict, int direction) noexcept nogil:
    memset(o, 0, sizeof(Amqp091Options))
    o.common.strict = strict
    o.common.side = <int8_t>direction


cdef int amqp091_probe(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is this a valid frame from the side that may send it, with frame-end at its end?"""
    cdef Amqp091Options o
    cdef Amqp091FrameView m
    cdef Fault f
    cdef int status = amqp091_next_size(state, direction, p, n, 0, size, &f)
    if status == NEED_DATA:
        size[0] = 8
        return MORE
    if status != OK or size[0] > AMQP091_SEARCH_MAX:
        return NO
    if size[0] > n:
        return MORE if amqp091_may_begin(p, n, size[0], direction) else NO
    amqp091_options(&o, True, direction)
    return YES if amqp091_parse(p, size[0], &o, &m, &f) == OK else NO


cdef bint amqp091_may_begin(const uint8_t* p, size_t n, size_t size, int direction) noexcept nogil:
    """Can p[:n] be the beginning of a frame of `size` octets? It has at least seven octets, or is a protocol header."""
    cdef int method
    if p[0] == AMQP091_PROTOCOL_HEADER:
        return True
    if p[0] == AMQP091_FRAME_HEARTBEAT:
        return size == AMQP091_OVERHEAD and load_u16(p + 1) == 0
    if p[0] == AMQP091_FRAME_BODY:
        return load_u16(p + 1) != 0
    if size > AMQP091_PART_MAX:
        return False
    if p[0] == AMQP091_FRAME_HEADER:
        return (size >= AMQP091_OVERHEAD + 14 and load_u16(p + 1) != 0 and
                (n < 9 or load_u16(p + 7) == AMQP091_CLASS_BASIC) and (n < 11 or load_u16(p + 9) == 0))
    if size < AMQP091_OVERHEAD + 4:
        return False
    if n < 11:
        return True
    method = amqp091_method_of(load_u16(p + 7), load_u16(p + 9))
    return (method != 0 and amqp091_methods[method].senders >> direction & 1 and
            (load_u16(p + 1) == 0) == (amqp091_methods[method].class_id == AMQP091_CLASS_CONNECTION))


cdef void amqp091_observe(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil:
    """Called after a gap: drop the pending contents of this direction. The next messages may lack their beginning."""
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Options o
    cdef Amqp091FrameView m
    cdef Fault f
    c.contents[direction].lost = True
    amqp091_options(&o, False, direction)
    if p[0] == AMQP091_FRAME_METHOD and amqp091_parse(p, n, &o, &m, &f) == OK:
        amqp091_observe_limits(c, &m)


cdef inline void amqp091_observe_limits(Amqp091Connection* c, const Amqp091FrameView* m) noexcept nogil:
    cdef const Amqp091ArgumentRow* a
    if m.method == AMQP091_CONNECTION_TUNE_OK:
        a = amqp091_find_argument(m, AMQP091_ARGUMENT_FRAME_MAX)
        c.frame_max = load_u32(m.frame + m.value[a.slot])


# ------------------------------------------------------------------------------------------------ pending contents

cdef Amqp091Contents* amqp091_observed(MessageTable t, Amqp091Connection* c, int direction) noexcept nogil:
    """The contents of a direction, with the limits of an observer: a body is kept as far as the table has it."""
    cdef Amqp091Contents* d = &c.contents[direction]
    d.observes = True
    d.max_count = AMQP091_CONTENTS_MAX
    d.max_kept = t.options.max_message
    if t.options.raw:
        pass                        # all of it
    elif not t.options.payload:
        d.max_kept = 0
    elif t.options.payload_max >= 0:
        d.max_kept = min(d.max_kept, <uint64_t>t.options.payload_max)
    return d


cdef inline void amqp091_count_buffered(Amqp091Connection* c, int direction) noexcept nogil:
    """Count the memory of a direction's contents as memory of the connection."""
    c.flow.buffered += c.contents[direction].memory - c.counted[direction]
    c.counted[direction] = c.contents[direction].memory


cdef void amqp091_add_context(Amqp091Content* k, const MessageContext* m, const Amqp091FrameView* frame) noexcept nogil:
    """A frame was added: the content's time, size and note."""
    cdef MessageContext first = k.m
    if first.wire_size == 0:
        first = m[0]
        first.wire_size = 0
    if frame.notes.check and not k.notes.check:
        k.notes.check = frame.notes.check
        k.notes.offset = first.wire_size + frame.notes.offset
    k.m = m[0]
    k.m.ts_first_ns = first.ts_first_ns
    k.m.vlans = first.vlans
    k.m.byte_offset = first.byte_offset
    k.m.wire_size = first.wire_size + m.wire_size


cdef void amqp091_drop_content(Amqp091Connection* c, Amqp091Contents* d, Amqp091Content* k, int direction) noexcept nogil:
    """Free a content, which is pending or `done`."""
    if k != d.done:
        amqp091_end_content(d, k)
    amqp091_drop_done(d)
    amqp091_count_buffered(c, direction)


# ------------------------------------------------------------------------------------------------ rows

cdef void amqp091_put_content(MessageTable t, Amqp091Connection* c, Amqp091Contents* d, Amqp091Content* k, int status,
                              const char* text, size_t text_size) noexcept nogil:
    """Put the row of a content and free it. `text`: the reason for status ROW_PARTIAL or ROW_MALFORMED."""
    cdef char said[256]
    cdef int64_t row = t.begin_row(&k.m)
    cdef int direction = k.m.direction
    cdef int size = 0
    cdef const uint8_t* body = k.part.at
    cdef size_t kept = k.part.size
    if body == NULL:
        body = k.body.at
        kept = k.body.size
    if k.lacks_method:
        k.method.type = AMQP091_FRAME_HEADER
    if k.method.type == AMQP091_FRAME_METHOD:
        amqp091_put_row(t, row, &k.method, &c.flow, direction)
    else:
        amqp091_put_kind(t, row, &k.method, direction)
        put_struct(t.cols + T_AMQP091, row)
    if k.header.type:
        amqp091_put_header(t, row, &k.header, k.method.method)
    if k.state.stage == AMQP091_AWAITS_BODY or k.bodies or status == ROW_OK:
        put_i32(t.cols[<int>T_AMQP091].children + A9_BODY_FRAMES, row, <int32_t>k.bodies)
        put_i64(t.cols + T_PAYLOAD_SIZE, row, <int64_t>k.state.body_have)
        t.put_payload(row, body if kept else <const uint8_t*>b"", <int64_t>kept)
        if status == ROW_OK and k.part.at == NULL and t.options.payload and t.options.payload_max < 0 and \
                kept < k.state.body_have:
            status = ROW_PARTIAL
            size = snprintf(said, sizeof(said), "limit: %zu of %llu bytes of the body kept", kept,
                            <unsigned long long>k.state.body_have)
    if k.faulty:
        status = ROW_MALFORMED
        size = fault_text(&AMQP091_TABLES, &k.fault, k.fault_base, said, sizeof(said))
    elif status != ROW_OK and text != NULL:
        size = amqp091_say_unfinished(k, said, sizeof(said), text, text_size)
    elif k.lacks_method and d.lost:
        status = ROW_PARTIAL
        size = snprintf(said, sizeof(said), "content whose method was not captured")
    elif k.lacks_method:
        status = ROW_MALFORMED
        size = snprintf(said, sizeof(said), "%s", amqp091_check_text[<int>AMQP091_CHECK_HEADER_UNEXPECTED])
    elif k.notes.check and status == ROW_OK:
        size = note_text(&AMQP091_TABLES, &k.notes, 0, said, sizeof(said))
    if t.options.detail:
        amqp091_put_detail(t, row, &k.method if k.method.type == AMQP091_FRAME_METHOD else NULL,
                           &k.header if k.header.type else NULL)
    if t.options.raw and status == ROW_OK and not amqp091_put_octets(t, row, &k.header, body, kept) and not size:
        size = snprintf(said, sizeof(said), "%s", HIDDEN_OCTETS)
    t.put_status(row, status, said if size else NULL, min(size, <int>sizeof(said) - 1))
    amqp091_drop_content(c, d, k, direction)


cdef bint amqp091_put_octets(MessageTable t, int64_t row, const Amqp091FrameView* h, const uint8_t* body,
                             size_t size) noexcept nogil:
    """Put content header and body, if the whole body is kept, in frames of our own. False: the header has a secret that is
    hidden."""
    cdef Octets o
    cdef const uint8_t* headers
    if not h.type or size != h.body_size:
        return True
    headers = amqp091_property(&h.properties, AMQP091_PROPERTY_HEADERS)
    if headers != NULL and t.hides_octets() and amqp091_holds_secret(headers, True):
        return False
    memset(&o, 0, sizeof(o))
    # after class, weight and body size: property flags and properties
    amqp091_add_content(&o, h.channel, h.frame + 19, h.size - 20, body, size, AMQP091_FRAME_MAX_DEFAULT)
    if o.failed:
        t.cols[<int>T_RAW].shared.no_memory = True
    else:
        t.put_message(row, o.at, o.size)
    free_octets(&o)
    return True


cdef int amqp091_say_unfinished(const Amqp091Content* k, char* out, size_t capacity, const char* text,
                                size_t text_size) noexcept nogil:
    """Write the reason why a content is incomplete, and the size of its available part."""
    cdef int size
    if k.state.stage == AMQP091_AWAITS_BODY:
        size = snprintf(out, capacity, "%.*s: %llu of %llu bytes of the body read", <int>text_size, text,
                        <unsigned long long>k.state.body_have, <unsigned long long>k.state.body_size)
    else:
        size = snprintf(out, capacity, "%.*s: no content header", <int>text_size, text)
    return printed(size, capacity)


cdef void amqp091_put_alone(MessageTable t, const MessageContext* m, Amqp091Connection* c, const Amqp091FrameView* frame,
                            int status, const char* text, size_t text_size) noexcept nogil:
    """Put the row of a frame that is not part of a content, or that its channel does not expect."""
    cdef int64_t row = t.begin_row(m)
    if status == ROW_OK:
        amqp091_put_row(t, row, frame, &c.flow, m.direction)
        if t.options.detail:
            amqp091_put_detail(t, row, frame, NULL)
    else:
        amqp091_put_kind(t, row, frame, m.direction)
    if frame.type == AMQP091_FRAME_BODY and frame.payload.at != NULL:
        t.put_payload(row, frame.payload.at, frame.payload.size)
    t.put_status(row, status, text, <int64_t>text_size)


# ------------------------------------------------------------------------------------------------ what a capture asks

cdef bint amqp091_put(MessageTable t, const MessageContext* m, void* state, bint strict,
                      const uint8_t* p, size_t n) noexcept nogil:
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Contents* d = amqp091_observed(t, c, m.direction)
    cdef Amqp091Content* k = NULL
    cdef Amqp091Options o
    cdef Amqp091FrameView frame
    cdef Fault f
    cdef int answer = AMQP091_JOIN_FULL
    amqp091_options(&o, strict, m.direction)
    if amqp091_parse(p, n, &o, &frame, &f) != OK:
        amqp091_put_faulty(t, m, c, d, &frame, &f)
        return True
    while answer == AMQP091_JOIN_FULL or answer == AMQP091_JOIN_ENDED:
        answer = amqp091_join(d, &frame, &k, &f)
        if answer == AMQP091_JOIN_FULL:
            amqp091_put_content(t, c, d, d.done, ROW_PARTIAL, b"limit", 5)
        elif answer == AMQP091_JOIN_ENDED:
            if f.check == AMQP091_CHECK_BODY_EXCEEDS:
                amqp091_note_fault(d.done, &f)
                amqp091_add_context(d.done, m, &frame)
            amqp091_put_content(t, c, d, d.done, ROW_PARTIAL, amqp091_check_text[f.check], strlen(amqp091_check_text[f.check]))
            if f.check == AMQP091_CHECK_BODY_EXCEEDS:   # that row has the frame
                return True
    if answer == AMQP091_JOIN_PART:
        amqp091_add_context(k, m, &frame)
        amqp091_count_buffered(c, m.direction)
    elif answer == AMQP091_JOIN_LAST:
        amqp091_add_context(d.done, m, &frame)
        amqp091_put_content(t, c, d, d.done, ROW_OK, NULL, 0)
    elif answer == AMQP091_JOIN_NO_MEMORY:
        t.shared.no_memory = True
    else:
        amqp091_put_single(t, m, c, d, &frame, &f if answer == AMQP091_JOIN_FAULT else NULL)
    return True


cdef size_t amqp091_put_fast(MessageTable t, MessageContext* m, void* state, bint strict, const uint8_t* p,
                             size_t n) noexcept nogil:
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Options o
    cdef Amqp091FastView u
    cdef size_t size
    cdef int64_t row
    amqp091_options(&o, strict, m.direction)
    o.common.max_frame_size = c.frame_max
    size = amqp091_read_fast(&c.contents[m.direction], p, n, &o, &u)
    if size == 0:
        return 0
    m.wire_size = <int64_t>size
    row = t.begin_row(m)
    amqp091_put_row(t, row, &u.method, &c.flow, m.direction)
    if amqp091_shows_properties(t.cols):
        amqp091_put_header(t, row, &u.header, u.method.method)
        put_i32(t.cols[<int>T_AMQP091].children + A9_BODY_FRAMES, row, <int32_t>u.bodies)
    t.put_payload(row, u.body.at, u.body.size)
    if t.options.detail:
        amqp091_put_detail(t, row, &u.method, &u.header)
    if t.options.raw and not amqp091_put_octets(t, row, &u.header, u.body.at, u.body.size):
        t.put_status(row, ROW_OK, HIDDEN_OCTETS, <int64_t>strlen(HIDDEN_OCTETS))
    else:
        t.put_status(row, ROW_OK, NULL, 0)
    return size


cdef void amqp091_put_single(MessageTable t, const MessageContext* m, Amqp091Connection* c, const Amqp091Contents* d,
                             const Amqp091FrameView* frame, const Fault* f) noexcept nogil:
    """A frame that is not part of a content; with a fault it is a body whose header is missing."""
    cdef char text[256]
    cdef int size = 0
    cdef int status = ROW_OK
    if f != NULL and d.lost:
        status = ROW_PARTIAL
        size = snprintf(text, sizeof(text), "content whose header was not captured")
    elif f != NULL:
        status = ROW_MALFORMED
        size = fault_text(&AMQP091_TABLES, f, 0, text, sizeof(text))
    else:
        amqp091_observe_limits(c, frame)
        if frame.notes.check:
            size = note_text(&AMQP091_TABLES, &frame.notes, 0, text, sizeof(text))
    amqp091_put_alone(t, m, c, frame, status, text if size else NULL, <size_t>min(size, <int>sizeof(text) - 1))


cdef inline void amqp091_note_fault(Amqp091Content* k, const Fault* f) noexcept nogil:
    """Keep the fault of a content's frame. Its row reports the first one."""
    if not k.faulty:
        k.faulty = True
        k.fault = f[0]
        k.fault_base = k.m.wire_size


cdef void amqp091_put_faulty(MessageTable t, const MessageContext* m, Amqp091Connection* c, Amqp091Contents* d,
                             const Amqp091FrameView* frame, const Fault* f) noexcept nogil:
    """A malformed frame. If it is the method or the header of a content, later frames still belong to that content."""
    cdef Amqp091Content* k = NULL
    cdef char text[256]
    cdef int size
    cdef bint method = frame.type == AMQP091_FRAME_METHOD and f.check != AMQP091_CHECK_FRAME_END
    cdef bint header = frame.type == AMQP091_FRAME_HEADER and f.check != AMQP091_CHECK_FRAME_END
    if method or header:
        k = amqp091_content_on(d, frame.channel)
    if k != NULL and (method or k.state.stage != AMQP091_AWAITS_HEADER):
        size = snprintf(text, sizeof(text), "%s", amqp091_check_text[<int>AMQP091_CHECK_METHOD_UNEXPECTED if method else
                                                                     <int>AMQP091_CHECK_HEADER_UNEXPECTED])
        amqp091_put_content(t, c, d, k, ROW_PARTIAL, text, <size_t>size)
        k = NULL
    if not (method and amqp091_methods[frame.method].content) and not (header and frame.class_id == AMQP091_CLASS_BASIC):
        size = fault_text(&AMQP091_TABLES, f, 0, text, sizeof(text))
        amqp091_put_alone(t, m, c, frame, ROW_MALFORMED, text, <size_t>size)
        return
    if k == NULL:
        if not amqp091_has_capacity(d):
            amqp091_put_content(t, c, d, d.done, ROW_PARTIAL, b"limit", 5)
        k = amqp091_begin_content(d, frame.channel)
        if k == NULL:
            t.shared.no_memory = True
            return
        memset(&k.state, 0, sizeof(k.state))
        amqp091_count_buffered(c, m.direction)
        k.lacks_method = header
        if method:
            k.method.method = frame.method
        k.state.class_id = AMQP091_CLASS_BASIC
    amqp091_note_fault(k, f)
    amqp091_add_context(k, m, frame)
    k.state.stage = AMQP091_AWAITS_HEADER if method else AMQP091_AWAITS_BODY if frame.body_size else AMQP091_IDLE
    k.state.body_size = frame.body_size
    k.state.body_have = 0
    if k.state.stage == AMQP091_IDLE:
        amqp091_put_content(t, c, d, k, ROW_MALFORMED, NULL, 0)


cdef bint amqp091_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                           const char* text, size_t text_size) noexcept nogil:
    """The beginning of a frame. It ends the pending content of its channel, if any."""
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Contents* d = amqp091_observed(t, c, m.direction)
    cdef Amqp091Content* k = NULL
    cdef Amqp091FrameView frame
    memset(&frame, 0, sizeof(frame))
    frame.type = p[0]
    if n >= 7 and frame.type != AMQP091_PROTOCOL_HEADER:
        frame.channel = load_u16(p + 1)
        k = amqp091_content_on(d, frame.channel)
        frame.payload.at = p + 7
        frame.payload.size = <uint32_t>min(n - 7, <size_t>load_u32(p + 3))
    if k != NULL and ((frame.type == AMQP091_FRAME_HEADER and k.state.stage == AMQP091_AWAITS_HEADER) or
                      (frame.type == AMQP091_FRAME_BODY and k.state.stage == AMQP091_AWAITS_BODY)):
        amqp091_add_context(k, m, &frame)
        if frame.type == AMQP091_FRAME_BODY:
            frame.payload.size = <uint32_t>min(<uint64_t>frame.payload.size, k.state.body_size - k.state.body_have)
            k.state.body_have += frame.payload.size
            amqp091_take_body(d, k, &frame.payload, True)
        if k.body.failed:
            t.shared.no_memory = True
        amqp091_put_content(t, c, d, k, ROW_PARTIAL, text, text_size)
        d.lost = True                               # more bodies may follow
        return True
    if frame.type == AMQP091_FRAME_METHOD and n >= 11:
        frame.method = <uint8_t>amqp091_method_of(load_u16(p + 7), load_u16(p + 9))
    d.lost = True
    amqp091_put_alone(t, m, c, &frame, ROW_PARTIAL, text, text_size)
    return True


cdef bint amqp091_flush(MessageTable t, void* state, int direction, const char* text, size_t text_size) noexcept nogil:
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Contents* d = &c.contents[direction]
    d.lost = True
    while amqp091_oldest(d) != NULL:
        if t.is_full():
            return False
        amqp091_put_content(t, c, d, d.first, ROW_PARTIAL, text, text_size)
    return True


cdef void amqp091_clear_state(void* state) noexcept nogil:
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef int d
    for d in range(2):
        amqp091_drop_contents(&c.contents[d])
    free(<void*>c.flow.client_id.at)


cdef Protocol amqp091_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = AMQP091_PROTOCOL_TEXT
    row.both_open = True                            # the protocol header, 4.2.2
    row.sniff = amqp091_sniff
    row.frame_size = amqp091_next_size
    row.probe = amqp091_probe
    row.observe = amqp091_observe
    row.put = amqp091_put
    row.put_fast = amqp091_put_fast
    row.fast_buffered = <int64_t>sizeof(Amqp091Content) + 2 * AMQP091_FAST_HEAD + 3 * BLOCK_OCTETS
    row.put_part = amqp091_put_part
    row.flush = amqp091_flush
    row.state_size = sizeof(Amqp091Connection)
    row.clear = amqp091_clear_state
    row.tables = &AMQP091_TABLES
    return row


cdef Protocol AMQP091_PROTOCOL = amqp091_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&AMQP091_PROTOCOL)
