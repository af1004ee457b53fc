# NSQ in captures: how to recognise and frame its streams, and how to put messages into the message table.
#
# After the answer to IDENTIFY a stream may be compressed or under TLS; `nsq_carrier` reports it, and captures decompress.

cdef enum:
    NSQ_SEARCH_MAX = 1 << 18    # octets: the search for a boundary waits for no larger frame
    NSQ_SHORT_MAX = 1 << 14     # octets: responses and errors that claim to be larger do not begin at a boundary


cdef struct NsqConnection:      # what a capture knows about one connection: a ProtocolState; flow.buffered comes first
    NsqFlow flow
    bint begun                  # the client's magic, or something after it, has been read
    uint8_t reported            # the carrier that the capture knows
    bint secured                # a frame of the server was read under TLS: its OK, after which compression begins


cdef inline void nsq_options(NsqOptions* o, NsqConnection* c, bint strict, int direction) noexcept nogil:
    nsq_plain_options(o, direction, strict)
    if c != NULL and c.begun:
        o.magic = NSQ_MAGIC_BEFORE


cdef inline int nsq_carrier_of(const NsqConnection* c) noexcept nogil:
    if c.flow.tls and not (c.secured and c.flow.compression):
        return CARRIER_TLS
    return (CARRIER_DEFLATE if c.flow.compression == NSQ_DEFLATE else
            CARRIER_SNAPPY if c.flow.compression == NSQ_SNAPPY else CARRIER_PLAIN)


cdef int nsq_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """Does the stream begin with the magic, followed by the beginning of a command if anything follows?"""
    if memcmp(p, b"  V2", min(n, <size_t>4)) != 0:
        return NO
    if n < 4:
        return MORE
    return YES if n == 4 or nsq_may_be_command(p + 4, n - 4) else NO


cdef bint nsq_may_be_command(const uint8_t* p, size_t n) noexcept nogil:
    """Could these be the first octets of a command that nsqd knows?"""
    cdef int kind
    cdef size_t size
    for kind in range(NSQ_IDENTIFY, NSQ_NOP + 1):
        size = nsq_commands[kind].name_size
        if memcmp(p, nsq_kind_name[kind], min(n, size)) == 0 and (
                n <= size or p[size] == 0x20 or p[size] == 0x0A or p[size] == 0x0D):
            return True
    return False


cdef int nsq_next_size(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                       Fault* f) noexcept nogil:
    cdef NsqOptions o
    nsq_options(&o, <NsqConnection*>state, 0, direction)
    o.common.max_frame_size = limit
    return nsq_frame_size(p, n, &o, size, f)


cdef int nsq_probe(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is this a command that nsqd accepts, or a frame as nsqd sends it?"""
    cdef NsqOptions o
    cdef NsqUnitView u
    cdef Fault f
    cdef int status
    nsq_options(&o, <NsqConnection*>state, 1, direction)
    o.common.max_frame_size = NSQ_SEARCH_MAX
    status = nsq_frame_size(p, n, &o, size, &f)
    if status == NEED_DATA:
        size[0] = n + 1
        return MORE if n == 0 or direction == NSQ_SERVER or nsq_may_begin(p, n, &o) else NO
    if status != OK or (direction == NSQ_SERVER and not nsq_looks_like_frame(p, n, size[0])):
        return NO
    if size[0] > n:
        return MORE
    return YES if nsq_parse(p, size[0], &o, &u, &f) == OK else NO


cdef inline bint nsq_may_begin(const uint8_t* p, size_t n, const NsqOptions* o) noexcept nogil:
    return nsq_may_be_command(p, n) or (o.magic != NSQ_MAGIC_BEFORE and p[0] == 0x20)


cdef bint nsq_looks_like_frame(const uint8_t* p, size_t n, size_t size) noexcept nogil:
    """Is this, as far as available, a frame of one of the three types? Responses are text, message ids hexadecimal digits."""
    cdef size_t i
    if n < 8:
        return True
    if p[4] or p[5] or p[6] or p[7] > 2 or (p[7] < 2 and size > NSQ_SHORT_MAX) or (
            p[7] == 2 and size < 8 + NSQ_MESSAGE_HEADER_SIZE):
        return False
    if p[7] == 1:
        return memcmp(p + 8, b"E_", min(n - 8, min(size - 8, <size_t>2))) == 0 and size > 10
    if p[7] == 0:
        return n == 8 or p[8] == c"O" or p[8] == c"C" or p[8] == c"_" or p[8] == c"{"
    for i in range(18, min(n, <size_t>34)):
        if hex_digit(p[i]) == NOT_HEX:
            return False
    return True


cdef bint nsq_put(MessageTable t, const MessageContext* m, void* state, bint strict, const uint8_t* p, size_t n) noexcept nogil:
    cdef NsqConnection* c = <NsqConnection*>state
    cdef NsqOptions o
    cdef NsqUnitView u
    cdef Fault f
    cdef int64_t row = t.begin_row(m)
    nsq_options(&o, c, strict, m.direction)
    if m.direction == NSQ_CLIENT:
        c.begun = True
    elif c.reported == CARRIER_TLS:
        c.secured = True
    if nsq_parse(p, n, &o, &u, &f) != OK:
        nsq_put_kind(t, row, f.kind)
        t.put_malformed(row, &NSQ_TABLES, &f)
        return True
    nsq_put_row(t, row, &u, &c.flow)
    if t.options.detail:
        nsq_put_detail(t, row, &u, &c.flow)
    t.put_accepted(row, &NSQ_TABLES, &u.notes)
    return True


cdef size_t nsq_put_fast(MessageTable t, MessageContext* m, void* state, bint strict, const uint8_t* p,
                         size_t n) noexcept nogil:
    """Put a command or frame that changes nothing that is known about the connection."""
    cdef NsqConnection* c = <NsqConnection*>state
    cdef NsqUnitView u
    cdef size_t size
    cdef int64_t row
    if (m.direction == NSQ_CLIENT and not c.begun) or t.options.detail or c.reported != nsq_carrier_of(c) \
            or (c.reported == CARRIER_TLS and not c.secured):
        return 0
    size = nsq_read_fast(p, n, m.direction, &u)
    if size == 0:
        return 0
    m.wire_size = <int64_t>size
    row = t.begin_row(m)
    nsq_put_row(t, row, &u, &c.flow)
    t.put_status(row, ROW_OK, NULL, 0)
    return size


cdef bint nsq_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                       const char* text, size_t text_size) noexcept nogil:
    """Read the available part of a message; the body ends where the octets end (`cut`)."""
    cdef NsqConnection* c = <NsqConnection*>state
    cdef NsqOptions o
    cdef NsqUnitView u
    cdef Fault f
    cdef size_t head = 0
    cdef int kind = NSQ_FRAME
    cdef int64_t row = t.begin_row(m)
    nsq_options(&o, c, 0, m.direction)
    o.common.cut = 1
    if m.direction == NSQ_SERVER:
        if n >= 8 + NSQ_MESSAGE_HEADER_SIZE and load_u32(p + 4) == 2:
            kind = NSQ_MESSAGE
        elif n >= 8 and load_u32(p + 4) < 3:
            kind = NSQ_RESPONSE + <int>load_u32(p + 4)
    elif nsq_line_size(p, n, &head, &f) == OK:
        kind = nsq_kind_of(p, head)
    else:
        kind = NSQ_COMMAND
    if (kind == NSQ_MESSAGE or kind == NSQ_PUB or kind == NSQ_DPUB) and nsq_parse(p, n, &o, &u, &f) == OK:
        nsq_put_row(t, row, &u, &c.flow)
        if t.options.detail:
            nsq_put_detail(t, row, &u, &c.flow)
    else:
        nsq_put_kind(t, row, kind)
    t.put_status(row, ROW_PARTIAL, text, text_size)
    return True


cdef int nsq_carrier(void* state) noexcept nogil:
    """The encoding of the octets after those that were put."""
    cdef NsqConnection* c = <NsqConnection*>state
    c.reported = <uint8_t>nsq_carrier_of(c)
    return c.reported


cdef void nsq_clear_state(void* state) noexcept nogil:
    nsq_flow_clear(&(<NsqConnection*>state).flow)


cdef Protocol nsq_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = NSQ_PROTOCOL_TEXT
    row.sniff = nsq_sniff
    row.frame_size = nsq_next_size
    row.probe = nsq_probe
    row.put = nsq_put
    row.put_fast = nsq_put_fast
    row.put_part = nsq_put_part
    row.carrier = nsq_carrier
    row.state_size = sizeof(NsqConnection)
    row.clear = nsq_clear_state
    row.tables = &NSQ_TABLES
    return row


cdef Protocol NSQ_PROTOCOL = nsq_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&NSQ_PROTOCOL)
