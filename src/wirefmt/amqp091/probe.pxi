# AMQP 0.9.1 in captures: how a stream of it is known, framed, and put into the message table.
#
# A content (method, header, bodies) is kept by its channel until it is complete, then it is one row. What is kept is
# bounded: AMQP091_CONTENTS_MAX contents a direction, of each the method's and the header's frame (AMQP091_SEARCH_MAX
# octets after a gap, else the connection's frame-max) and `max_message` octets of the body; and `max_buffered` octets for
# all connections, which the capture watches over. What a limit ends is a `partial` row.
#
# After a gap contents may have lost their method: they are `partial` rows of kind `header` (with properties and body)
# or `body`. In a direction without a hole such frames are faults of the sender, and their rows `malformed`.

cdef enum:
    AMQP091_CONTENTS_MAX = 256      # pending contents in one direction; the oldest makes room for one more
    AMQP091_SEARCH_MAX = 1 << 18    # octets: the largest frame the search for a boundary waits for
    AMQP091_PART_MAX = 1 << 16      # octets: a method or header that claims to be larger is no frame boundary
    AMQP091_SPARE_MAX = 1 << 12     # octets of room that a direction keeps for its next content


cdef struct Amqp091Content:         # a pending content
    Amqp091Content* next            # begun later
    Amqp091Content* before
    Amqp091Channel state
    uint16_t channel
    bint lacks_method               # it began with its header
    MessageContext m                # of the first frame, with the time of the last and the size of all
    Amqp091FrameView method, header  # header.type 0: not there, or not readable
    Octets octets                   # the frames of method and header
    Octets body
    int32_t bodies
    bint faulty
    Fault fault                     # of a frame that cannot be read
    int64_t fault_base              # octets of the content before that frame
    int note                        # LAX: the first check that was skipped
    int64_t note_offset


cdef struct Amqp091Contents:        # of one direction, by age
    Amqp091Content* first
    Amqp091Content* last
    Amqp091Content* spare
    int count
    bint lost                       # there is a hole somewhere before: methods may be missing


cdef struct Amqp091Connection:      # what a capture knows of one connection: a ProtocolState, flow.held is first
    Amqp091Flow flow
    uint32_t frame_max              # 0: not negotiated yet, or no limit
    Amqp091Contents contents[2]     # by direction


# ------------------------------------------------------------------------------------------------ frames

cdef int amqp091_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """The protocol header (general 4.2.2); as older clients write it, RabbitMQ takes it, too."""
    if memcmp(p, b"AMQP", min(n, <size_t>4)) != 0:
        return NO
    if n < 8:
        return MORE if n < 5 or p[4] < 2 else NO
    return YES if load_u32(p + 4) == 0x00000901 or load_u32(p + 4) == 0x01010009 else NO


cdef int amqp091_next_size(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                           Fault* f) noexcept nogil:
    """Also that the frame ends with its mark, where that octet is there: a wrong size is found before it is believed."""
    cdef uint32_t frame_max = (<Amqp091Connection*>state).frame_max if state != NULL else 0
    cdef int status = amqp091_frame_size(p, n, limit if limit else frame_max, False, size, f)
    if status == OK and size[0] <= n and p[0] != AMQP091_PROTOCOL_HEADER and p[size[0] - 1] != AMQP091_FRAME_END:
        return amqp091_fault(f, AMQP091_CHECK_FRAME_END, AMQP091_FIELD_FRAME_END, <int64_t>size[0] - 1, 0, 0, 0)
    return status


cdef inline void amqp091_options(Amqp091Options* o, bint strict, int direction) noexcept nogil:
    memset(o, 0, sizeof(Amqp091Options))
    o.strict = strict
    o.side = <int8_t>direction


cdef int amqp091_plausible(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """A frame without any fault, sent by the side that may send it, with its mark at the end."""
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
    """Could p[:n] be the beginning of a frame of `size` octets? Its first seven are there, or it is a protocol header."""
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


cdef void amqp091_learn(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil:
    """Called after a gap: drop what this direction had begun. The next messages may lack their beginning."""
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Options o
    cdef Amqp091FrameView m
    cdef Fault f
    c.contents[direction].lost = True
    amqp091_options(&o, False, direction)
    if p[0] == AMQP091_FRAME_METHOD and amqp091_parse(p, n, &o, &m, &f) == OK:
        amqp091_learn_limits(c, &m)


cdef inline void amqp091_learn_limits(Amqp091Connection* c, const Amqp091FrameView* m) noexcept nogil:
    cdef const Amqp091ArgumentRow* a
    if m.method == AMQP091_CONNECTION_TUNE_OK:
        a = amqp091_find_argument(m, AMQP091_ARGUMENT_FRAME_MAX)
        c.frame_max = load_u32(m.frame + m.value[a.slot])


# ------------------------------------------------------------------------------------------------ pending contents

cdef inline Amqp091Content* amqp091_content_of(Amqp091Contents* d, uint16_t channel) noexcept nogil:
    """The pending content on a channel; NULL: none."""
    cdef Amqp091Content* k = d.last
    while k != NULL and k.channel != channel:
        k = k.before
    return k


cdef inline int64_t amqp091_content_octets(const Amqp091Content* k) noexcept nogil:
    """Memory of a content."""
    return <int64_t>(sizeof(Amqp091Content) + k.octets.room + k.body.room + 3 * BLOCK_OCTETS)


cdef Amqp091Content* amqp091_begin_content(Amqp091Connection* c, Amqp091Contents* d, const MessageContext* m,
                                           uint16_t channel) noexcept nogil:
    """A new content; NULL without memory. There is room for it: see amqp091_make_room."""
    cdef Amqp091Content* k = d.spare
    if k != NULL:
        d.spare = NULL
        k.octets.size = k.body.size = 0
    else:
        k = <Amqp091Content*>calloc(1, sizeof(Amqp091Content))
        if k == NULL:
            return NULL
        c.flow.held += amqp091_content_octets(k)
    k.next = NULL
    k.before = d.last
    if d.last != NULL:
        d.last.next = k
    else:
        d.first = k
    d.last = k
    d.count += 1
    k.channel = channel
    k.m = m[0]
    k.m.wire_size = 0
    k.lacks_method = k.faulty = False
    k.method.type = k.method.method = k.header.type = 0
    k.method.channel = channel
    k.bodies = 0
    k.note = 0
    memset(&k.state, 0, sizeof(k.state))
    return k


cdef void amqp091_end_content(Amqp091Connection* c, Amqp091Contents* d, Amqp091Content* k) noexcept nogil:
    """It is gone; one is kept for the next."""
    if k.before != NULL:
        k.before.next = k.next
    else:
        d.first = k.next
    if k.next != NULL:
        k.next.before = k.before
    else:
        d.last = k.before
    d.count -= 1
    if d.spare == NULL and k.octets.room <= AMQP091_SPARE_MAX and k.body.room <= AMQP091_SPARE_MAX and \
            not k.octets.failed and not k.body.failed:
        d.spare = k
    else:
        c.flow.held -= amqp091_content_octets(k)
        amqp091_free_content(k)


cdef void amqp091_free_content(Amqp091Content* k) noexcept nogil:
    if k != NULL:
        free_octets(&k.octets)
        free_octets(&k.body)
        free(k)


cdef void amqp091_add_frame(Amqp091Connection* c, Amqp091Content* k, const MessageContext* m, const Amqp091FrameView* frame,
                            bint readable) noexcept nogil:
    """Another frame of the content, method or header: its octets are kept."""
    cdef size_t at = k.octets.size
    amqp091_count_frame(k, m, frame)
    if not readable:
        return
    c.flow.held -= amqp091_content_octets(k)
    add_octets(&k.octets, frame.frame, frame.size)
    c.flow.held += amqp091_content_octets(k)
    if k.octets.failed:
        return
    if frame.type == AMQP091_FRAME_METHOD:
        k.method = frame[0]
    else:
        k.header = frame[0]
        k.header.frame = k.octets.at + at
        k.header.properties.at = k.header.frame + (frame.properties.at - frame.frame)
    k.method.frame = k.octets.at


cdef void amqp091_count_frame(Amqp091Content* k, const MessageContext* m, const Amqp091FrameView* frame) noexcept nogil:
    """The content's time, size and notes with another frame."""
    cdef MessageContext first = k.m
    if frame.note and not k.note:
        k.note = frame.note
        k.note_offset = first.wire_size + frame.note_offset
    k.m = m[0]
    k.m.ts_first_ns = first.ts_first_ns
    k.m.byte_offset = first.byte_offset
    k.m.wire_size = first.wire_size + m.wire_size


cdef void amqp091_add_body(MessageTable t, Amqp091Connection* c, Amqp091Content* k, const Span* body) noexcept nogil:
    """Octets of the body, as many as the table wants and the limit allows."""
    cdef uint64_t most = t.options.max_message
    cdef size_t n
    if t.options.raw:
        pass                        # all of it
    elif not t.options.payload:
        most = 0
    elif t.options.payload_max >= 0:
        most = min(most, <uint64_t>t.options.payload_max)
    n = min(<size_t>body.size, <size_t>most - k.body.size if k.body.size < most else 0)
    c.flow.held -= amqp091_content_octets(k)
    add_octets(&k.body, body.at, n)
    c.flow.held += amqp091_content_octets(k)


# ------------------------------------------------------------------------------------------------ rows

cdef void amqp091_put_content(MessageTable t, Amqp091Connection* c, Amqp091Contents* d, Amqp091Content* k,
                              const Span* rest, int status, const char* text, size_t text_size) noexcept nogil:
    """The row of a content, which is gone then. `rest`: octets of the body that are not kept; `text`: why it is not
    whole, with status ROW_PARTIAL or ROW_MALFORMED."""
    cdef char said[256]
    cdef int64_t row = t.begin_row(&k.m)
    cdef int direction = k.m.direction
    cdef int method = k.method.method
    cdef int size = 0
    if k.lacks_method:
        k.method.type = AMQP091_FRAME_HEADER
    if k.method.type == AMQP091_FRAME_METHOD and not k.octets.failed:
        amqp091_put_row(t, row, &k.method, &c.flow, direction)
    else:
        amqp091_put_kind(t, row, &k.method, direction)
        put_struct(t.cols + T_AMQP091, row)
    if k.header.type and not k.octets.failed:
        amqp091_put_header(t, row, &k.header, method == AMQP091_BASIC_DELIVER or method == AMQP091_BASIC_GET_OK)
    if k.state.stage == AMQP091_AWAITS_BODY or k.bodies or status == ROW_OK:
        put_i32(t.cols[<int>T_AMQP091].children + A9_BODY_FRAMES, row, k.bodies)
        put_i64(t.cols + T_PAYLOAD_SIZE, row, <int64_t>k.state.body_have)
        if rest != NULL and k.body.size == 0:
            t.put_payload(row, rest.at if rest.size else <const uint8_t*>b"", rest.size)
        else:
            if rest != NULL:
                amqp091_add_body(t, c, k, rest)
            t.put_payload(row, <const uint8_t*>k.body.at if k.body.size else <const uint8_t*>b"", <int64_t>k.body.size)
            if status == ROW_OK and t.options.payload and t.options.payload_max < 0 and k.body.size < k.state.body_have:
                status = ROW_PARTIAL
                size = snprintf(said, sizeof(said), "limit: %zu of %llu bytes of the body kept", k.body.size,
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
    elif k.note and status == ROW_OK:
        size = snprintf(said, sizeof(said), "%s at offset %lld", amqp091_check_text[k.note], <long long>k.note_offset)
    if t.options.detail and not k.octets.failed:
        amqp091_put_detail(t, row, &k.method if k.method.type == AMQP091_FRAME_METHOD else NULL,
                           &k.header if k.header.type else NULL)
    if t.options.raw and status == ROW_OK and not amqp091_put_octets(t, row, k, rest) and not size:
        size = snprintf(said, sizeof(said), "%s", HIDDEN_OCTETS)
    t.put_status(row, status, said if size else NULL, min(size, <int>sizeof(said) - 1))
    amqp091_end_content(c, d, k)


cdef bint amqp091_put_octets(MessageTable t, int64_t row, const Amqp091Content* k, const Span* rest) noexcept nogil:
    """Content header and body, if all of them is there. Bodies are in other frames than they came in. False: they hold a
    secret that is hidden."""
    cdef Octets o
    cdef const uint8_t* headers
    cdef const uint8_t* body = k.body.at
    cdef uint64_t size = k.body.size
    if rest != NULL and size == 0:
        body = rest.at
        size = rest.size
    if not k.header.type or size != k.header.body_size or k.octets.failed or k.body.failed:
        return True
    headers = amqp091_property(&k.header.properties, AMQP091_PROPERTY_HEADERS)
    if headers != NULL and t.hides_octets() and amqp091_holds_secret(headers, True):
        return False
    memset(&o, 0, sizeof(o))
    # after class, weight and body size: property flags and properties
    amqp091_add_content(&o, k.channel, k.header.frame + 19, k.header.size - 20, body, size, AMQP091_FRAME_MAX_DEFAULT)
    if o.failed:
        t.cols[<int>T_RAW].tally.no_memory = True
    else:
        t.put_message(row, o.at, o.size)
    free_octets(&o)
    return True


cdef int amqp091_say_unfinished(const Amqp091Content* k, char* out, size_t room, const char* text,
                                size_t text_size) noexcept nogil:
    """Why a content ends before it is complete, and what there is of it."""
    if k.state.stage == AMQP091_AWAITS_BODY:
        return snprintf(out, room, "%.*s: %llu of %llu bytes of the body read", <int>text_size, text,
                        <unsigned long long>k.state.body_have, <unsigned long long>k.state.body_size)
    return snprintf(out, room, "%.*s: no content header", <int>text_size, text)


cdef void amqp091_put_alone(MessageTable t, const MessageContext* m, Amqp091Connection* c, const Amqp091FrameView* frame,
                            int status, const char* text, size_t text_size) noexcept nogil:
    """The row of a frame that is not part of a content, or does not belong where it is."""
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
    cdef Amqp091Contents* d = &c.contents[m.direction]
    cdef Amqp091Content* k = NULL
    cdef Amqp091Options o
    cdef Amqp091Channel idle, before
    cdef Amqp091Channel* channel = &idle
    cdef Amqp091FrameView frame
    cdef Fault f
    cdef int fold
    cdef char text[256]
    cdef int size
    amqp091_options(&o, strict, m.direction)
    if amqp091_parse(p, n, &o, &frame, &f) != OK:
        amqp091_put_faulty(t, m, c, &frame, &f)
        return True
    memset(&idle, 0, sizeof(idle))
    if frame.type != AMQP091_FRAME_HEARTBEAT and frame.type != AMQP091_PROTOCOL_HEADER:
        k = amqp091_content_of(d, frame.channel)
    if k != NULL:
        channel = &k.state
    before = channel[0]
    fold = amqp091_fold(channel, &frame, 0, &f)
    if fold == AMQP091_UNEXPECTED and k != NULL:        # the pending content ends here
        size = fault_text(&AMQP091_TABLES, &f, 0, text, sizeof(text))
        k.state = before
        if f.check == AMQP091_CHECK_BODY_EXCEEDS:
            k.faulty = True
            k.fault = f
            k.fault_base = k.m.wire_size
            amqp091_count_frame(k, m, &frame)
        amqp091_put_content(t, c, d, k, NULL, ROW_PARTIAL, amqp091_check_text[f.check],
                            strlen(amqp091_check_text[f.check]))
        if f.check == AMQP091_CHECK_BODY_EXCEEDS:
            return True
        k = NULL
        channel = &idle
        fold = amqp091_fold(channel, &frame, 0, &f)
    if fold == AMQP091_ALONE:
        amqp091_learn_limits(c, &frame)
        if frame.note:
            size = snprintf(text, sizeof(text), "%s at offset %lld", amqp091_check_text[frame.note],
                            <long long>frame.note_offset)
            amqp091_put_alone(t, m, c, &frame, ROW_OK, text, <size_t>min(size, <int>sizeof(text) - 1))
        else:
            amqp091_put_alone(t, m, c, &frame, ROW_OK, NULL, 0)
        return True
    if fold == AMQP091_UNEXPECTED and frame.type == AMQP091_FRAME_BODY:
        size = fault_text(&AMQP091_TABLES, &f, 0, text, sizeof(text))
        if d.lost:
            size = snprintf(text, sizeof(text), "content whose header was not captured")
        amqp091_put_alone(t, m, c, &frame, ROW_PARTIAL if d.lost else ROW_MALFORMED, text, <size_t>size)
        return True
    if k == NULL:
        k = amqp091_new_content(t, c, d, m, frame.channel)
        if k == NULL:
            return True
        if fold == AMQP091_UNEXPECTED:                  # a header without its method
            k.lacks_method = True
            k.state.stage = AMQP091_AWAITS_HEADER
            k.state.class_id = frame.class_id
            fold = amqp091_fold(&k.state, &frame, 0, &f)
        else:
            k.state = idle
    if frame.type != AMQP091_FRAME_BODY:
        amqp091_add_frame(c, k, m, &frame, True)
    else:
        k.bodies += 1
        amqp091_count_frame(k, m, &frame)
        if fold == AMQP091_GOES_ON:
            amqp091_add_body(t, c, k, &frame.payload)
    if fold == AMQP091_COMPLETES:
        amqp091_put_content(t, c, d, k, &frame.payload if frame.type == AMQP091_FRAME_BODY else NULL, ROW_OK, NULL, 0)
    return True


cdef Amqp091Content* amqp091_new_content(MessageTable t, Amqp091Connection* c, Amqp091Contents* d,
                                         const MessageContext* m, uint16_t channel) noexcept nogil:
    """A new content; the oldest ends if there are too many. NULL without memory."""
    cdef Amqp091Content* k
    if d.count >= AMQP091_CONTENTS_MAX:
        amqp091_put_content(t, c, d, d.first, NULL, ROW_PARTIAL, b"limit", 5)
        d.lost = True
    k = amqp091_begin_content(c, d, m, channel)
    if k == NULL:
        t.tally.no_memory = True
    return k


cdef void amqp091_put_faulty(MessageTable t, const MessageContext* m, Amqp091Connection* c, const Amqp091FrameView* frame,
                             const Fault* f) noexcept nogil:
    """A frame that cannot be read. If it is the method or the header of a content, what follows is still part of it."""
    cdef Amqp091Contents* d = &c.contents[m.direction]
    cdef Amqp091Content* k = NULL
    cdef char text[256]
    cdef int size
    cdef bint method = frame.type == AMQP091_FRAME_METHOD and f.check != AMQP091_CHECK_FRAME_END
    cdef bint header = frame.type == AMQP091_FRAME_HEADER and f.check != AMQP091_CHECK_FRAME_END
    if method or header:
        k = amqp091_content_of(d, frame.channel)
    if k != NULL and (method or k.state.stage != AMQP091_AWAITS_HEADER):
        size = snprintf(text, sizeof(text), "%s", amqp091_check_text[<int>AMQP091_CHECK_METHOD_UNEXPECTED if method else
                                                                     <int>AMQP091_CHECK_HEADER_UNEXPECTED])
        amqp091_put_content(t, c, d, k, NULL, ROW_PARTIAL, text, <size_t>size)
        k = NULL
    if not (method and amqp091_methods[frame.method].content) and not (header and frame.class_id == AMQP091_CLASS_BASIC):
        size = fault_text(&AMQP091_TABLES, f, 0, text, sizeof(text))
        amqp091_put_alone(t, m, c, frame, ROW_MALFORMED, text, <size_t>size)
        return
    if k == NULL:
        k = amqp091_new_content(t, c, d, m, frame.channel)
        if k == NULL:
            return
        k.lacks_method = header
        if method:
            k.method.method = frame.method
        k.state.class_id = AMQP091_CLASS_BASIC
    if not k.faulty:
        k.faulty = True
        k.fault = f[0]
        k.fault_base = k.m.wire_size
    amqp091_add_frame(c, k, m, frame, False)
    k.state.stage = AMQP091_AWAITS_HEADER if method else AMQP091_AWAITS_BODY if frame.body_size else AMQP091_IDLE
    k.state.body_size = frame.body_size
    k.state.body_have = 0
    if k.state.stage == AMQP091_IDLE:
        amqp091_put_content(t, c, d, k, NULL, ROW_MALFORMED, NULL, 0)


cdef bint amqp091_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                           const char* text, size_t text_size) noexcept nogil:
    """The beginning of a frame. It ends the pending content of its channel, if any."""
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Contents* d = &c.contents[m.direction]
    cdef Amqp091Content* k = NULL
    cdef Amqp091FrameView frame
    cdef Span part
    memset(&frame, 0, sizeof(frame))
    frame.type = p[0]
    if n >= 7 and frame.type != AMQP091_PROTOCOL_HEADER:
        frame.channel = load_u16(p + 1)
        k = amqp091_content_of(d, frame.channel)
        frame.payload.at = p + 7
        frame.payload.size = <uint32_t>min(n - 7, <size_t>load_u32(p + 3))
    if k != NULL and ((frame.type == AMQP091_FRAME_HEADER and k.state.stage == AMQP091_AWAITS_HEADER) or
                      (frame.type == AMQP091_FRAME_BODY and k.state.stage == AMQP091_AWAITS_BODY)):
        amqp091_count_frame(k, m, &frame)
        part = frame.payload
        if frame.type == AMQP091_FRAME_BODY:
            k.bodies += 1
            part.size = <uint32_t>min(<uint64_t>part.size, k.state.body_size - k.state.body_have)
            k.state.body_have += part.size
        amqp091_put_content(t, c, d, k, &part if frame.type == AMQP091_FRAME_BODY else NULL, ROW_PARTIAL, text, text_size)
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
    while d.first != NULL:
        if t.is_full():
            return False
        amqp091_put_content(t, c, d, d.first, NULL, ROW_PARTIAL, text, text_size)
    return True


cdef void amqp091_clear_state(void* state) noexcept nogil:
    cdef Amqp091Connection* c = <Amqp091Connection*>state
    cdef Amqp091Content* k
    cdef int d
    for d in range(2):
        while c.contents[d].first != NULL:
            k = c.contents[d].first
            c.contents[d].first = k.next
            amqp091_free_content(k)
        amqp091_free_content(c.contents[d].spare)
    free(<void*>c.flow.client_id.at)


cdef Protocol amqp091_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = AMQP091_PROTOCOL_TEXT
    row.both_open = True                            # the protocol header, 4.2.2
    row.sniff = amqp091_sniff
    row.frame_size = amqp091_next_size
    row.plausible = amqp091_plausible
    row.learn = amqp091_learn
    row.put = amqp091_put
    row.put_part = amqp091_put_part
    row.flush = amqp091_flush
    row.state_size = sizeof(Amqp091Connection)
    row.clear = amqp091_clear_state
    row.tables = &AMQP091_TABLES
    return row


cdef Protocol AMQP091_PROTOCOL = amqp091_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&AMQP091_PROTOCOL)
