# RocketMQ in captures: how to recognise and frame its streams, and how to put messages into the message table.

cdef int rocketmq_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """Is this a request with a readable header? A client's first request is small."""
    cdef RocketmqFrameView m
    cdef Fault f
    cdef size_t header
    cdef int verdict = rocketmq_may_begin(p, n)
    if verdict == NO or n < 8:
        return verdict
    header = load_u32(p + 4) & 0xFFFFFF
    if header > ROCKETMQ_SNIFF_MAX:
        return NO
    if header > n - 8:
        return MORE
    return YES if rocketmq_header_fits(p, header, &m, &f) and not m.flag & ROCKETMQ_RESPONSE else NO


cdef int rocketmq_may_begin(const uint8_t* p, size_t n) noexcept nogil:
    """Can p[:n] be the beginning of a frame? MORE, or NO."""
    cdef uint32_t length, header
    if n == 0:
        return MORE
    if p[0] > 1:
        return NO
    if n < 8:
        return MORE if n < 5 or p[4] <= ROCKETMQ_BINARY else NO
    length = load_u32(p)
    header = load_u32(p + 4) & 0xFFFFFF
    if length > ROCKETMQ_FRAME_MAX - 4 or length < 4 or p[4] > ROCKETMQ_BINARY or header > length - 4:
        return NO
    if p[4] == ROCKETMQ_BINARY:
        return MORE if header >= ROCKETMQ_BINARY_LEAST and (n < 11 or p[10] < ROCKETMQ_LANGUAGES) else NO
    return MORE if header >= 2 and (n < 9 or p[8] == c"{" or p[8] == c" " or p[8] == c"\n") else NO


cdef bint rocketmq_header_fits(const uint8_t* p, size_t header, RocketmqFrameView* m, Fault* f) noexcept nogil:
    """Is a complete header one that programs write? The body is not examined."""
    memset(m, 0, sizeof(RocketmqFrameView))
    m.frame = p
    m.serialize_type = p[4]
    m.header.at = p + 8
    m.header.size = <uint32_t>header
    if p[4] == ROCKETMQ_JSON:
        return rocketmq_read_json(m, 0, NULL, f) == OK and (m.has_opaque or m.code != 0)
    return (rocketmq_read_binary(m, 0, NULL, f) == OK and m.language >= 0 and
            0 <= m.version < 2 * ROCKETMQ_VERSIONS and m.flag & ~(ROCKETMQ_RESPONSE | ROCKETMQ_ONEWAY) == 0)


cdef int rocketmq_frame_size_in(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                                Fault* f) noexcept nogil:
    return rocketmq_frame_size(p, n, min(limit, <uint32_t>ROCKETMQ_FRAME_MAX), size, f)


cdef int rocketmq_probe(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is this a whole frame with a header that programs write?"""
    cdef RocketmqFrameView m
    cdef Fault f
    cdef int verdict = rocketmq_may_begin(p, n)
    if verdict == NO:
        return NO
    if n < 8:
        size[0] = n + 1
        return MORE
    size[0] = <size_t>load_u32(p) + 4
    if size[0] > ROCKETMQ_SEARCH_MAX:
        return NO
    if size[0] > n:
        return MORE
    return YES if rocketmq_header_fits(p, load_u32(p + 4) & 0xFFFFFF, &m, &f) else NO


cdef void rocketmq_observe(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil:
    cdef RocketmqConnection* c = <RocketmqConnection*>state
    cdef RocketmqFrameView m
    cdef RocketmqSlots slots
    cdef Fault f
    if rocketmq_parse(p, n, 0, &m, NULL, &f) == OK:
        rocketmq_slots(&m, NULL, not m.flag & ROCKETMQ_RESPONSE and rocketmq_letters(m.code), &slots)
        rocketmq_observe_frame(c, &m, &slots)
        rocketmq_drop_scratches(c)


cdef void rocketmq_drop_scratches(RocketmqConnection* c) noexcept nogil:
    """Most frames need no scratch; the scratch of a large frame is not kept for the life of the connection."""
    rocketmq_drop_scratch(&c.names)
    rocketmq_drop_scratch(&c.values)
    rocketmq_drop_scratch(&c.properties)


cdef bint rocketmq_put(MessageTable t, const MessageContext* m, void* state, bint strict,
                       const uint8_t* p, size_t n) noexcept nogil:
    cdef RocketmqFrameView frame
    cdef RocketmqFields fields
    cdef Fault f
    cdef RocketmqConnection* c = <RocketmqConnection*>state
    cdef int64_t row
    if rocketmq_read(&t.shapes, p, n, 0, &frame, &fields, &f) != OK:
        row = t.begin_row(m)
        put_text(t.cols + T_PROTOCOL, row, &ROCKETMQ_PROTOCOL_TEXT)
        t.put_malformed(row, &ROCKETMQ_TABLES, &f)
        return True
    return rocketmq_put_rows(t, m, c, &frame, &fields, NULL, 0)


cdef bint rocketmq_put_rows(MessageTable t, const MessageContext* m, RocketmqConnection* c, const RocketmqFrameView* frame,
                            const RocketmqFields* fields, const char* part, size_t part_size) noexcept nogil:
    """The rows of a frame; `part`: why it is incomplete, NULL if it is complete. False: the table is full before the last row."""
    cdef uint8_t[ROCKETMQ_STACK_TEXT] values
    cdef uint8_t[ROCKETMQ_STACK_TEXT] properties
    cdef bint done
    rocketmq_lend(&c.values, values, sizeof(values))
    rocketmq_lend(&c.properties, properties, sizeof(properties))
    done = rocketmq_put_frame(t, m, c, frame, fields, part, part_size)
    rocketmq_drop_scratches(c)
    return done


cdef bint rocketmq_put_frame(MessageTable t, const MessageContext* m, RocketmqConnection* c, const RocketmqFrameView* frame,
                             const RocketmqFields* fields, const char* part, size_t part_size) noexcept nogil:
    cdef RocketmqSlots slots
    cdef RocketmqRow x
    cdef const RocketmqText* text
    cdef bint wanted = rocketmq_wants_properties(t)
    cdef int code = frame.code
    x.m = frame
    x.fields = fields
    x.slots = &slots
    x.c = c
    x.part = part
    x.part_size = part_size
    x.asked = NULL
    x.parted = False
    x.shown = wanted and (t.shared.exposed or not rocketmq_secret_parts(fields))
    x.properties = span_of(NULL, 0)
    x.response = frame.flag & ROCKETMQ_RESPONSE
    rocketmq_slots(frame, fields, not x.response and rocketmq_letters(code), &slots)
    rocketmq_observe_frame(c, frame, &slots)
    if x.response:
        if frame.has_opaque:
            x.asked = rocketmq_asked(&c.asked[1 - m.direction], frame.opaque)
        code = x.asked.code if x.asked != NULL else -1
    x.place = rocketmq_place_of(code)
    if frame.body.at != NULL and (rocketmq_stored(x.response, code) and (not x.response or frame.code == 0) or
                                  (x.response and x.asked == NULL and rocketmq_begins_stored(&frame.body))):
        if not rocketmq_put_messages(t, m, &x):
            return False
    else:
        if wanted:
            x.parted = fields.parts and not t.options.detail
            text = rocketmq_slot(&slots, ROCKETMQ_PROPERTIES)
            if not x.parted and not rocketmq_plain_of(frame, text, &c.properties, &x.properties):
                x.properties = span_of(NULL, 0)
        rocketmq_put_command(t, m, &x)
    if x.asked != NULL:
        rocketmq_forget(c, &c.asked[1 - m.direction], x.asked)
    elif not x.response:
        rocketmq_remember(c, m.direction, frame, &slots)
    return True


cdef bint rocketmq_begins_stored(const Span* body) noexcept nogil:
    """For a response to an unknown request: is its body stored messages? Their magic code decides."""
    cdef int32_t magic
    if body.size < 8:
        return False
    magic = <int32_t>load_u32(body.at + 4)
    return magic == ROCKETMQ_MAGIC_V1 or magic == ROCKETMQ_MAGIC_V2


cdef bint rocketmq_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                            const char* text, size_t text_size) noexcept nogil:
    """If the header is complete, read it and the available part of the body."""
    cdef RocketmqFrameView frame
    cdef RocketmqFields fields
    cdef Fault f
    cdef int64_t row, first = t.rows
    if n >= 8 and rocketmq_parse_cut(p, n, 0, &frame, &fields, &f) == OK:
        if not rocketmq_put_rows(t, m, <RocketmqConnection*>state, &frame, &fields, text, text_size):
            return False
    if t.rows == first:
        row = t.begin_row(m)
        put_text(t.cols + T_PROTOCOL, row, &ROCKETMQ_PROTOCOL_TEXT)
        t.put_status(row, ROW_PARTIAL, text, text_size)
    return True


cdef void rocketmq_clear_state(void* state) noexcept nogil:
    cdef RocketmqConnection* c = <RocketmqConnection*>state
    cdef uint32_t i
    cdef int d
    for d in range(2):
        for i in range(c.asked[d].capacity):
            free(c.asked[d].rows[i].far)
        free(c.asked[d].rows)
    free(<void*>c.client_id.at)
    rocketmq_drop_scratches(c)


cdef Protocol rocketmq_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = ROCKETMQ_PROTOCOL_TEXT
    row.sniff = rocketmq_sniff
    row.frame_size = rocketmq_frame_size_in
    row.probe = rocketmq_probe
    row.observe = rocketmq_observe
    row.put = rocketmq_put
    row.put_part = rocketmq_put_part
    row.state_size = sizeof(RocketmqConnection)
    row.clear = rocketmq_clear_state
    row.tables = &ROCKETMQ_TABLES
    return row


cdef Protocol ROCKETMQ_PROTOCOL = rocketmq_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&ROCKETMQ_PROTOCOL)
