# The fast path of AMQP 1.0: a delivery in one frame that can violate no rule is read in one pass. These functions can only
# accept; amqp10_parse and amqp10_parse_message read every other frame from its start and find all violations.
#
# The frame is a transfer that is whole, not aborted, and of message format 0. Its message has at most header, annotations,
# properties and application properties, and then one data section. All values are plain (amqp10_plain).

cdef enum:
    AMQP10_FAST_FIELDS = 29        # of transfer, header and properties
    AMQP10_FAST_MAPS = 4           # two of annotations, none, application properties
    AMQP10_FAST_LEAST = 16         # octets: no such frame is smaller
    AMQP10_FAST_REST = 5           # octets: no section is smaller
    AMQP10_FAST_CODE = 0x14        # of a transfer
    AMQP10_FALSE_OR_ZERO = 31       # bit of AMQP10_FAST_TYPES


cdef struct Amqp10FastView:            # spans of the octets
    uint16_t channel
    uint32_t handle
    const uint8_t* end              # of the frame
    int count                       # of fields that are not null
    uint8_t field[AMQP10_FAST_FIELDS]      # rows of amqp10_fields
    const uint8_t* at[AMQP10_FAST_FIELDS]
    const uint8_t* map[AMQP10_FAST_MAPS]  # by code - AMQP10_SECTION_DELIVERY_ANNOTATIONS; NULL: absent
    Span payload


cdef uint32_t[AMQP10_FIELD_ROWS] AMQP10_FAST_TYPES     # by row of amqp10_fields: bits of Amqp10Types, and AMQP10_FALSE_OR_ZERO


cdef int fill_amqp10_fast() except -1:
    cdef int shape, i, type
    for shape in (AMQP10_TRANSFER, AMQP10_HEADER, AMQP10_PROPERTIES):
        for i in range(amqp10_shapes[shape].first, amqp10_shapes[shape].first + amqp10_shapes[shape].count):
            for type in range(<int>AMQP10_DESCRIBED):
                if amqp10_is_type(&amqp10_fields[i], type):
                    AMQP10_FAST_TYPES[i] |= <uint32_t>1 << type
    for i in (AMQP10_TRANSFER_MESSAGE_FORMAT, AMQP10_TRANSFER_MORE, AMQP10_TRANSFER_ABORTED):
        AMQP10_FAST_TYPES[amqp10_shapes[<int>AMQP10_TRANSFER].first + i] |= <uint32_t>1 << AMQP10_FALSE_OR_ZERO
    return 0


fill_amqp10_fast()


cdef size_t amqp10_read_fast(const uint8_t* p, size_t n, const CommonOptions* o, Amqp10FastView* out) noexcept nogil:
    """Read the frame that begins at `p`. Returns its size; 0: amqp10_parse must decide."""
    cdef const uint8_t* at = p + 11
    cdef const uint8_t* end
    cdef uint64_t most = o.max_elements if o.max_elements else <uint64_t>0xFFFFFFFFFFFFFFFFU
    cdef uint64_t elements = 0
    cdef size_t size
    cdef int first = amqp10_shapes[<int>AMQP10_TRANSFER].first
    cdef int code = AMQP10_FAST_CODE, before, shape
    # DOFF 2, TYPE 0; the descriptor of a transfer
    if n < AMQP10_FAST_LEAST or p[4] != 2 or p[5] != 0 or \
            load_u32(p + 8) >> 8 != (AMQP10_CODE_SMALLULONG << 8 | AMQP10_FAST_CODE):
        return 0
    size = load_u32(p)
    if size > n or size < AMQP10_FAST_LEAST or (o.max_frame_size and size > o.max_frame_size):
        return 0
    out.end = end = p + size
    out.count = 0
    out.map[0] = out.map[1] = out.map[2] = out.map[3] = NULL
    while code != AMQP10_SECTION_DATA:
        shape = (AMQP10_PROPERTIES if code == AMQP10_SECTION_PROPERTIES else AMQP10_HEADER if code == AMQP10_SECTION_HEADER else
                 AMQP10_TRANSFER if code == AMQP10_FAST_CODE else 0)
        if shape:
            at = amqp10_read_fast_fields(at, end, shape, out, &elements)
        elif AMQP10_SECTION_DELIVERY_ANNOTATIONS <= code <= AMQP10_SECTION_APPLICATION_PROPERTIES:
            out.map[code - AMQP10_SECTION_DELIVERY_ANNOTATIONS] = at
            if amqp10_constructors[at[0]].type != AMQP10_MAP:
                return 0
            at = amqp10_plain_entries(code, at, end, &elements)
        else:
            return 0
        if at == NULL or elements > most or end - at < AMQP10_FAST_REST or load_u16(at) != AMQP10_CODE_SMALLULONG:
            return 0
        if code == AMQP10_FAST_CODE:
            elements = 0                    # a message has a count of its own
        before = code
        code = at[2]
        if code <= before:
            return 0
        at += 3
    if out.count < 2 or out.field[0] != first + AMQP10_TRANSFER_HANDLE or \
            out.field[1] != first + AMQP10_TRANSFER_DELIVERY_ID or not amqp10_read_fast_data(at, end, &out.payload):
        return 0
    out.channel = load_u16(p + 6)
    out.handle = <uint32_t>amqp10_fixed_at(&amqp10_constructors[out.at[0][0]], out.at[0])
    return size


cdef inline const uint8_t* amqp10_fast_field(const Amqp10FastView* u, int shape, int i) noexcept nogil:
    """The value of a field; NULL: absent or null."""
    cdef int k
    for k in range(u.count):
        if u.field[k] == amqp10_shapes[shape].first + i:
            return u.at[k]
    return NULL


cdef inline bint amqp10_read_fast_data(const uint8_t* at, const uint8_t* end, Span* out) noexcept nogil:
    """The octets of the binary at `at` (at least two are before `end`). False: it is another value, or does not end at `end`."""
    if at[0] == AMQP10_CODE_VBIN8:
        out.size = at[1]
        out.at = at + 2
    elif at[0] == AMQP10_CODE_VBIN32 and end - at >= 5:
        out.size = load_u32(at + 1)
        out.at = at + 5
    else:
        return False
    return out.size == end - out.at


cdef inline const uint8_t* amqp10_read_fast_fields(const uint8_t* at, const uint8_t* frame_end, int shape, Amqp10FastView* out,
                                                   uint64_t* elements) noexcept nogil:
    """The list of a composite's fields, and a section follows. Returns what follows it; NULL: amqp10_parse must decide."""
    cdef uint32_t first = amqp10_shapes[shape].first
    cdef const uint32_t* types = AMQP10_FAST_TYPES + first
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef int k = out.count
    cdef uint32_t size, count, head, i, accepted
    if frame_end - at < 9:
        return NULL
    head = 1
    size = at[1]
    count = at[2]
    if at[0] != AMQP10_CODE_LIST8:
        if at[0] != AMQP10_CODE_LIST32:
            return NULL
        head = 4
        size = load_u32(at + 1)
        count = load_u32(at + 5)
    at += 1 + head
    if size < head or <int64_t>size + AMQP10_FAST_REST > frame_end - at or count > amqp10_shapes[shape].count:
        return NULL
    end = at + size
    at += head
    elements[0] += count
    for i in range(count):
        if at >= end:
            return NULL
        if at[0] == AMQP10_CODE_NULL:
            at += 1
            continue
        start = at
        accepted = types[i]
        at = amqp10_fast_value(at, end, frame_end)
        if at == NULL or not accepted >> amqp10_constructors[start[0]].type & 1 or \
                (accepted >> AMQP10_FALSE_OR_ZERO and start[0] != AMQP10_CODE_FALSE and start[0] != AMQP10_CODE_UINT0):
            return NULL
        out.field[k] = <uint8_t>(first + i)
        out.at[k] = start
        k += 1
    out.count = k
    return end if at == end else NULL


cdef inline const uint8_t* amqp10_fast_value(const uint8_t* at, const uint8_t* end, const uint8_t* frame_end) noexcept nogil:
    """amqp10_plain of a value that begins before `end` and is not null; at least AMQP10_FAST_REST octets of the frame follow
    `end`. The result may be beyond `end`."""
    cdef uint8_t code = at[0]
    cdef size_t size
    if AMQP10_CODE_TRUE <= code <= AMQP10_CODE_ULONG0:
        return at + 1
    if AMQP10_CODE_UBYTE <= code <= AMQP10_CODE_SMALLLONG:
        return at + 2
    if code != AMQP10_CODE_STR8 and code != AMQP10_CODE_SYM8 and code != AMQP10_CODE_VBIN8:
        return amqp10_plain(at, end)
    size = at[1]
    at += 2
    if <int64_t>size > end - at or (code != AMQP10_CODE_VBIN8 and not ascii_before(at, size, frame_end)):
        return NULL
    return at + size
