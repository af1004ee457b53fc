# The fast path of AMQP 0.9.1: a content is read in place. Method, content header and body are three frames, one after another on
# one channel, and violate no rule; then nothing has to be kept between them. amqp091_read_fast can only accept: amqp091_parse and
# amqp091_join read all other frames from their start, and find every violation.

cdef extern from *:
    """
    /* The number of zero bits before the first set one of v, which is not 0, in 16 bits */
    #define wirefmt_zeros_of_16(v) (__builtin_clz((unsigned int)(v)) - 16)
    """
    int zeros_of_16 "wirefmt_zeros_of_16"(uint32_t v) noexcept nogil


cdef enum:
    AMQP091_FAST_HEAD = 1 << 12        # octets of method and header
    AMQP091_HEADER_LEAST = 22           # octets of a header frame without properties


cdef enum Amqp091FastWidth:            # of a value that has no fixed size, in place of its octets
    AMQP091_FAST_STRING = 0xF0         # a short string
    AMQP091_FAST_TABLE


cdef struct Amqp091FastMethod:         # the arguments of a method with content, by slot
    uint8_t count                       # 0: the fast path reads no content of this method
    uint8_t[AMQP091_SLOTS] width        # octets, or an Amqp091FastWidth


cdef struct Amqp091FastView:
    Amqp091FrameView method, header     # as amqp091_parse reads them, without payload and notes
    Span body
    uint32_t bodies                     # frames: 1; 0: an empty body


cdef Amqp091FastMethod[AMQP091_METHOD_COUNT] AMQP091_FAST_METHODS
cdef uint8_t[AMQP091_PROPERTY_COUNT] AMQP091_FAST_PROPERTIES       # octets, or an Amqp091FastWidth


cdef int fill_amqp091_fast() except -1:
    cdef const Amqp091ArgumentRow* a
    cdef Amqp091FastMethod* row
    cdef int method, i, type
    for method in range(1, AMQP091_METHOD_COUNT):
        if not amqp091_methods[method].content:
            continue
        row = &AMQP091_FAST_METHODS[method]
        for i in range(amqp091_methods[method].first, amqp091_methods[method].first + amqp091_methods[method].count):
            a = &amqp091_arguments[i]
            if a.type == AMQP091_LONGSTR or a.type == AMQP091_TABLE or a.utf8:
                raise ValueError("a method with content has arguments of few octets, and short strings of any octets")
            row.width[a.slot] = AMQP091_FAST_STRING if a.type == AMQP091_SHORTSTR else AMQP091_TYPE_SIZE[a.type]
            row.count = a.slot + 1
    for i in range(AMQP091_PROPERTY_COUNT):
        type = amqp091_properties[i].type
        AMQP091_FAST_PROPERTIES[i] = (AMQP091_FAST_STRING if type == AMQP091_SHORTSTR else
                                      AMQP091_FAST_TABLE if type == AMQP091_TABLE else AMQP091_TYPE_SIZE[type])
    return 0


fill_amqp091_fast()


cdef inline size_t amqp091_fast_frame(int type, const uint8_t* p, size_t n, uint32_t most, Amqp091FrameView* m) noexcept nogil:
    """The octets of a frame of this type; 0: p[:n] does not begin with a whole one."""
    cdef uint64_t size
    if n < AMQP091_OVERHEAD or p[0] != type:
        return 0
    size = <uint64_t>load_u32(p + 3) + AMQP091_OVERHEAD
    if size > n or (most and size > most) or p[size - 1] != AMQP091_FRAME_END:
        return 0
    m.frame = p
    m.size = <uint32_t>size
    m.type = <uint8_t>type
    m.channel = load_u16(p + 1)
    return <size_t>size


cdef size_t amqp091_read_fast(const Amqp091Contents* d, const uint8_t* p, size_t n, const Amqp091Options* o,
                              Amqp091FastView* out) noexcept nogil:
    """Read the frames of one content; `d` has the pending ones. Returns their octets; 0: amqp091_parse must decide."""
    cdef uint32_t most = o.common.max_frame_size
    cdef Amqp091FrameView body
    cdef size_t size, more
    cdef int row
    if d.count or n < 11 or load_u16(p + 7) != AMQP091_CLASS_BASIC:
        return 0
    row = amqp091_method_of(AMQP091_CLASS_BASIC, load_u16(p + 9))
    if AMQP091_FAST_METHODS[row].count == 0:
        return 0
    size = amqp091_fast_frame(AMQP091_FRAME_METHOD, p, n, most, &out.method)
    if size == 0 or out.method.channel == 0 or (o.channel_max and out.method.channel > o.channel_max) or \
            (o.common.side >= 0 and not amqp091_methods[row].senders >> o.common.side & 1) or \
            not amqp091_read_fast_method(&AMQP091_FAST_METHODS[row], &out.method):
        return 0
    out.method.method = <uint8_t>row
    out.method.class_id = AMQP091_CLASS_BASIC
    out.method.method_id = load_u16(p + 9)
    more = amqp091_fast_frame(AMQP091_FRAME_HEADER, p + size, n - size, most, &out.header)
    if more < AMQP091_HEADER_LEAST or out.header.channel != out.method.channel or size + more > AMQP091_FAST_HEAD or \
            not amqp091_read_fast_header(&out.header, o.common.max_elements) or \
            (d.max_body and out.header.body_size > d.max_body):
        return 0
    size += more
    out.bodies = out.header.body_size != 0
    out.body.at = b""
    out.body.size = 0
    if out.bodies:
        more = amqp091_fast_frame(AMQP091_FRAME_BODY, p + size, n - size, most, &body)
        if more == 0 or body.channel != out.method.channel or more - AMQP091_OVERHEAD != out.header.body_size:
            return 0
        out.body.at = body.frame + 7
        out.body.size = <uint32_t>out.header.body_size
        size += more
    return size


cdef inline bint amqp091_read_fast_method(const Amqp091FastMethod* row, Amqp091FrameView* m) noexcept nogil:
    """The arguments."""
    cdef const uint8_t* at = m.frame + 11
    cdef const uint8_t* end = m.frame + m.size - 1
    cdef size_t size
    cdef int i
    for i in range(row.count):
        if at >= end:
            return False
        m.value[i] = <uint32_t>(at - m.frame)
        size = row.width[i]
        if size == AMQP091_FAST_STRING:
            size = 1 + at[0]
        at += size
    return at == end


cdef inline bint amqp091_read_fast_header(Amqp091FrameView* m, uint32_t most) noexcept nogil:
    """Class, weight, body size and properties. most: entries of a table; 0: no limit."""
    cdef const uint8_t* p = m.frame + 19
    cdef const uint8_t* at = p + 2
    cdef const uint8_t* end = m.frame + m.size - 1
    cdef uint32_t flags = load_u16(p), size
    cdef int i
    if load_u32(m.frame + 7) != AMQP091_CLASS_BASIC << 16 or flags & AMQP091_FLAGS_UNASSIGNED:
        return False
    m.class_id = AMQP091_CLASS_BASIC
    m.weight = 0
    m.body_size = load_u64(m.frame + 11)
    m.properties.at = p
    m.properties.size = <uint32_t>(end - p)
    m.properties.flags = <uint16_t>flags
    while flags:
        i = zeros_of_16(flags)
        flags ^= 0x8000 >> i
        if at >= end:
            return False
        m.properties.value[i] = <uint32_t>(at - p)
        size = AMQP091_FAST_PROPERTIES[i]
        if size == AMQP091_FAST_STRING:
            size = 1 + at[0]
        elif size == AMQP091_FAST_TABLE:
            at = amqp091_after_flat_table(at, end, most)
            if at == NULL:
                return False
            continue
        at += size
    return at == end


cdef inline const uint8_t* amqp091_after_flat_table(const uint8_t* at, const uint8_t* end, uint32_t most) noexcept nogil:
    """Where a table without tables and arrays ends; NULL: amqp091_take_table must decide."""
    cdef uint32_t count = 0
    cdef size_t size
    if end - at < 4 or <size_t>(end - at) - 4 < load_u32(at):
        return NULL
    end = at + 4 + load_u32(at)
    at += 4
    while at < end:
        count += 1
        size = <size_t>at[0] + 1
        if <size_t>(end - at) <= size or at[size] == c"F" or at[size] == c"A":
            return NULL
        at += size
        size = amqp091_letter_size[at[0]]
        at += 1
        if size == AMQP091_VARIABLE:
            if end - at < 4:
                return NULL
            size = load_u32(at)
            at += 4
        elif size == AMQP091_NO_LETTER:
            return NULL
        if <size_t>(end - at) < size:
            return NULL
        at += size
    return at if most == 0 or count <= most else NULL
