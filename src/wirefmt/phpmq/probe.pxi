# PHPMQ in captures: how to recognise and frame its streams, and how to put messages into the message table.
#
# No port is registered, and port 9100 of the sample configuration is nearly always used by other protocols. Streams are
# recognised by their first octets, or by decode_as.

cdef enum:
    PHPMQ_SEARCH_MAX = 1 << 18  # octets: the search for a boundary waits for no larger message


cdef int phpmq_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """Is this a message header of version 01 and of a known type, then a packet header, with or without line breaks?"""
    cdef size_t i, at = 8
    if memcmp(p, b"H0100", min(n, <size_t>5)) != 0 or (n > 5 and not c"1" <= p[5] < 48 + PHPMQ_MESSAGE_TYPES):
        return NO
    for i in range(6, min(n, <size_t>8)):
        if not c"0" <= p[i] <= c"9":
            return NO
    if at < n and p[at] == 0x0D:
        at += 1
    if at < n and p[at] == 0x0A:
        at += 1
    if at < n and p[at] != c"P":
        return NO
    for i in range(at + 1, min(n, at + PHPMQ_PACKET_HEADER)):
        if not c"0" <= p[i] <= c"9":
            return NO
    if n < at + PHPMQ_PACKET_HEADER:
        return MORE
    return SERVERS if phpmq_messages[p[5] - 48].sender == 1 else YES


cdef int phpmq_next_size(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                         Fault* f) noexcept nogil:
    cdef PhpmqOptions o
    phpmq_plain_options(&o, direction, 0)
    o.common.max_frame_size = limit
    return phpmq_frame_size(p, n, &o, size, f)


cdef int phpmq_probe(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is this a valid message from the side that may send it?"""
    cdef PhpmqOptions o
    cdef PhpmqMessageView m
    cdef Fault f
    cdef int status
    phpmq_plain_options(&o, direction, 1)
    o.common.max_frame_size = PHPMQ_SEARCH_MAX
    status = phpmq_frame_size(p, n, &o, size, &f)
    if status == NEED_DATA:
        size[0] = max(size[0], n + 1)
        return MORE
    if status == OK and size[0] > n:
        return MORE
    return YES if status == OK and phpmq_parse(p, size[0], &o, &m, &f) == OK and phpmq_row_of(&m) else NO


cdef bint phpmq_put(MessageTable t, const MessageContext* m, void* state, bint strict,
                    const uint8_t* p, size_t n) noexcept nogil:
    cdef PhpmqOptions o
    cdef PhpmqMessageView message
    cdef Fault f
    cdef int64_t row = t.begin_row(m)
    phpmq_plain_options(&o, m.direction, strict)
    if phpmq_parse(p, n, &o, &message, &f) != OK:
        put_text(t.cols + T_PROTOCOL, row, &PHPMQ_PROTOCOL_TEXT)
        t.put_malformed(row, &PHPMQ_TABLES, &f)
        return True
    phpmq_put_row(t, row, &message)
    if t.options.detail:
        phpmq_put_detail(t, row, &message)
    t.put_accepted(row, &PHPMQ_TABLES, &message.notes)
    return True


cdef bint phpmq_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                         const char* text, size_t text_size) noexcept nogil:
    """Read the whole packets, and the available octets of an incomplete packet."""
    cdef PhpmqOptions o
    cdef PhpmqMessageView message
    cdef PhpmqReader x
    cdef PhpmqPacket packet
    cdef Fault f
    cdef const uint8_t* at
    cdef uint32_t i
    cdef int64_t row = t.begin_row(m)
    cdef int status
    phpmq_plain_options(&o, m.direction, 0)
    memset(&message, 0, sizeof(message))
    message.frame = p
    phpmq_begin(&x, &o, &message, &f, n)
    status = phpmq_read_header(&x)
    for i in range(message.packet_count if status == OK else 0):
        at = x.at
        status = phpmq_read_packet(&x, <int>i, &packet)
        if status == NEED_DATA and x.at - at >= PHPMQ_PACKET_HEADER:      # its header is complete
            packet.content.at = x.at
            packet.content.size = <uint32_t>(x.end - x.at)
            phpmq_keep_packet(&x, <int>i, &packet)
        if status != OK:
            break
        phpmq_keep_packet(&x, <int>i, &packet)
    if message.packets != NULL:
        phpmq_put_row(t, row, &message)
        if t.options.detail:
            phpmq_put_detail(t, row, &message)
    else:
        put_text(t.cols + T_PROTOCOL, row, &PHPMQ_PROTOCOL_TEXT)
    t.put_status(row, ROW_PARTIAL, text, text_size)
    return True


cdef Protocol phpmq_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = PHPMQ_PROTOCOL_TEXT
    row.sniff = phpmq_sniff
    row.frame_size = phpmq_next_size
    row.probe = phpmq_probe
    row.put = phpmq_put
    row.put_part = phpmq_put_part
    row.tables = &PHPMQ_TABLES
    return row


cdef Protocol PHPMQ_PROTOCOL = phpmq_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&PHPMQ_PROTOCOL)
