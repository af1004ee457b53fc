# The fast path of NSQ: the commands and frames that are most of a stream, in forms that can violate no rule, are framed and read
# in one pass: PUB and FIN; messages, and the responses OK and _heartbeat_. nsq_read_fast can only accept; nsq_frame_size and
# nsq_parse read everything else from its start and find every fault.

cdef enum:
    NSQ_FIN_SIZE = 4 + NSQ_MESSAGE_ID_SIZE + 1      # the name and a space, the message id, the newline


cdef inline size_t nsq_read_fast(const uint8_t* p, size_t n, int side, NsqUnitView* out) noexcept nogil:
    """Read the command or frame that begins at `p`; before it there was the magic. `out` gets what nsq_put_row reads. Returns its
    size; 0: nsq_frame_size must decide."""
    out.has_number = False
    out.topic.at = out.message_id.at = NULL
    return nsq_read_fast_frame(p, n, out) if side == NSQ_SERVER else nsq_read_fast_command(p, n, out)


cdef inline size_t nsq_read_fast_frame(const uint8_t* p, size_t n, NsqUnitView* out) noexcept nogil:
    cdef size_t size
    if n < 8 or p[0] & 0x80:
        return 0
    size = <size_t>4 + load_u32(p)
    if size < 8 or size > n:
        return 0
    out.frame_type = <int32_t>load_u32(p + 4)
    out.body.at = p + 8
    out.body.size = <uint32_t>(size - 8)
    if out.frame_type == 0:
        out.kind = NSQ_RESPONSE
        return size if (size == 10 and load_u16(p + 8) == 0x4F4B) or nsq_is_heartbeat(&out.body) else 0
    if out.frame_type != 2 or size < 8 + NSQ_MESSAGE_HEADER_SIZE:
        return 0
    out.kind = NSQ_MESSAGE
    out.timestamp = <int64_t>load_u64(p + 8)
    out.attempts = load_u16(p + 16)
    out.message_id.at = p + 18
    out.message_id.size = NSQ_MESSAGE_ID_SIZE
    out.body.at += NSQ_MESSAGE_HEADER_SIZE
    out.body.size -= NSQ_MESSAGE_HEADER_SIZE
    return size


cdef inline size_t nsq_read_fast_command(const uint8_t* p, size_t n, NsqUnitView* out) noexcept nogil:
    cdef size_t i, last = min(n, <size_t>4 + NSQ_NAME_MAX + 1)
    cdef uint32_t size
    if n < NSQ_FIN_SIZE:
        return 0
    if load_u32(p) == 0x46494E20:                   # "FIN "
        if p[NSQ_FIN_SIZE - 1] != 0x0A or not nsq_is_word(p + 4, NSQ_MESSAGE_ID_SIZE):
            return 0
        out.kind = NSQ_FIN
        out.message_id.at = p + 4
        out.message_id.size = NSQ_MESSAGE_ID_SIZE
        return NSQ_FIN_SIZE
    if load_u32(p) != 0x50554220:                   # "PUB "
        return 0
    i = 4
    while i < last and NSQ_NAME_OCTETS[p[i]]:
        i += 1
    if i == 4 or i == last or p[i] != 0x0A or n - i < 5:
        return 0
    size = load_u32(p + i + 1)
    if size == 0 or size > 0x7FFFFFFF or size > n - i - 5:
        return 0
    out.kind = NSQ_PUB
    out.topic.at = p + 4
    out.topic.size = <uint32_t>(i - 4)
    out.body.at = p + i + 5
    out.body.size = size
    return i + 5 + size


cdef inline bint nsq_is_word(const uint8_t* p, size_t n) noexcept nogil:
    """No octet is a control character or a space: nothing in it ends a word or a line."""
    cdef size_t i
    for i in range(n):
        if p[i] <= 0x20:
            return False
    return True
