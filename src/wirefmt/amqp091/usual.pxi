# AMQP 0.9.1: the usual content, read in place. Method, content header and body are three frames, one after another on one
# channel, and violate no rule; then nothing has to be kept between them. amqp091_read_usual can only accept: amqp091_parse and
# amqp091_join read all other frames from their start, and find every violation.


cdef enum:
    AMQP091_USUAL_HEAD = 1 << 12        # octets of method and header


cdef struct Amqp091Usual:
    Amqp091FrameView method, header     # as amqp091_parse reads them, without payload and notes
    Span body
    uint32_t bodies                     # frames: 1; 0: an empty body


cdef inline bint amqp091_usual_frame(Amqp091Reader* x, int type, const uint8_t* p, size_t n,
                                     Amqp091FrameView* m) noexcept nogil:
    """Does p[:n] begin with a whole frame of this type? The reader is then at its payload."""
    cdef uint64_t size
    if n < AMQP091_OVERHEAD or p[0] != type:
        return False
    size = <uint64_t>load_u32(p + 3) + AMQP091_OVERHEAD
    if size > n or (x.o.common.max_frame_size and size > x.o.common.max_frame_size) or p[size - 1] != AMQP091_FRAME_END:
        return False
    m.frame = p
    m.size = <uint32_t>size
    m.type = <uint8_t>type
    m.channel = load_u16(p + 1)
    x.base = p
    x.c.at = p + 7
    x.c.end = p + size - 1
    x.elements = 0
    return True


cdef size_t amqp091_read_usual(const Amqp091Contents* d, const uint8_t* p, size_t n, const Amqp091Options* o,
                               Amqp091Usual* out) noexcept nogil:
    """Read the frames of one content; `d` has the pending ones. Returns their octets; 0: amqp091_parse must decide."""
    cdef Amqp091Reader x
    cdef Amqp091FrameView body
    cdef Fault f
    cdef size_t size
    if d.count or n < 11 or load_u16(p + 7) != AMQP091_CLASS_BASIC or \
            not amqp091_methods[amqp091_method_of(AMQP091_CLASS_BASIC, load_u16(p + 9))].content:
        return 0
    x.o = o
    x.f = &f
    x.notes.count = x.notes.check = 0
    if not amqp091_usual_frame(&x, AMQP091_FRAME_METHOD, p, n, &out.method) or \
            (o.channel_max and out.method.channel > o.channel_max) or amqp091_read_method(&x, &out.method) != OK:
        return 0
    size = out.method.size
    if not amqp091_usual_frame(&x, AMQP091_FRAME_HEADER, p + size, n - size, &out.header) or \
            out.header.channel != out.method.channel or amqp091_read_header(&x, &out.header) != OK or x.notes.check:
        return 0
    size += out.header.size
    if size > AMQP091_USUAL_HEAD or (d.max_body and out.header.body_size > d.max_body):
        return 0
    out.bodies = out.header.body_size != 0
    out.body.at = b""
    out.body.size = 0
    if out.bodies:
        if not amqp091_usual_frame(&x, AMQP091_FRAME_BODY, p + size, n - size, &body) or \
                body.channel != out.method.channel or left(&x.c) != out.header.body_size:
            return 0
        out.body.at = x.c.at
        out.body.size = <uint32_t>left(&x.c)
        size += body.size
    return size
