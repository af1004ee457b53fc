# The usual delivery: one frame, of a form that can violate no rule, read in one pass. These functions can only accept;
# amqp10_parse and amqp10_parse_message read every other frame from its start and find all violations.
#
# The frame is a transfer that is whole, not aborted, and of message format 0. Its message has at most header, annotations,
# properties and application properties, and then one data section. All values are plain (amqp10_plain).

cdef enum:
    AMQP10_USUAL_FIELDS = 29        # of transfer, header and properties
    AMQP10_USUAL_MAPS = 4           # two of annotations, none, application properties
    AMQP10_USUAL_LEAST = 16         # octets: no such frame is smaller


cdef struct Amqp10Usual:            # spans of the octets
    uint16_t channel
    uint32_t handle
    const uint8_t* end              # of the frame
    int count                       # of fields that are not null
    uint8_t field[AMQP10_USUAL_FIELDS]      # rows of amqp10_fields
    const uint8_t* at[AMQP10_USUAL_FIELDS]
    const uint8_t* map[AMQP10_USUAL_MAPS]  # by code - AMQP10_SECTION_DELIVERY_ANNOTATIONS; NULL: absent
    Span payload


cdef size_t amqp10_read_usual(const uint8_t* p, size_t n, const CommonOptions* o, Amqp10Usual* out) noexcept nogil:
    """Read the frame that begins at `p`. Returns its size; 0: amqp10_parse must decide."""
    cdef uint32_t none = <uint32_t>1 << AMQP10_TRANSFER_MESSAGE_FORMAT | 1 << AMQP10_TRANSFER_MORE | 1 << AMQP10_TRANSFER_ABORTED
    cdef const uint8_t* at = p + 11
    cdef const uint8_t* end
    cdef uint64_t most = o.max_elements if o.max_elements else <uint64_t>0xFFFFFFFFFFFFFFFFU
    cdef uint64_t elements = 0
    cdef size_t size
    cdef int code, before = 0
    # DOFF 2, TYPE 0; the descriptor of a transfer
    if n < AMQP10_USUAL_LEAST or p[4] != 2 or p[5] != 0 or load_u32(p + 8) >> 8 != 0x005314:
        return 0
    size = load_u32(p)
    if size > n or size < AMQP10_USUAL_LEAST or (o.max_frame_size and size > o.max_frame_size):
        return 0
    out.end = end = p + size
    out.count = 0
    at = amqp10_read_usual_fields(at, end, AMQP10_TRANSFER, none, out, &elements)
    if at == NULL or elements > most or out.count < 2 or \
            out.field[0] != amqp10_shapes[<int>AMQP10_TRANSFER].first + AMQP10_TRANSFER_HANDLE or \
            out.field[1] != amqp10_shapes[<int>AMQP10_TRANSFER].first + AMQP10_TRANSFER_DELIVERY_ID:
        return 0
    out.channel = load_u16(p + 6)
    out.handle = <uint32_t>amqp10_fixed_at(&amqp10_constructors[out.at[0][0]], out.at[0])
    out.map[0] = out.map[1] = out.map[2] = out.map[3] = NULL
    elements = 0
    while True:
        if end - at < 5 or load_u16(at) != AMQP10_CODE_SMALLULONG or at[2] <= before:
            return 0
        code = before = at[2]
        at += 3
        if code == AMQP10_SECTION_DATA:
            break
        if code == AMQP10_SECTION_HEADER:
            at = amqp10_read_usual_fields(at, end, AMQP10_HEADER, 0, out, &elements)
        elif code == AMQP10_SECTION_PROPERTIES:
            at = amqp10_read_usual_fields(at, end, AMQP10_PROPERTIES, 0, out, &elements)
        elif AMQP10_SECTION_DELIVERY_ANNOTATIONS <= code <= AMQP10_SECTION_APPLICATION_PROPERTIES:
            out.map[code - AMQP10_SECTION_DELIVERY_ANNOTATIONS] = at
            if amqp10_constructors[at[0]].type != AMQP10_MAP:
                return 0
            at = amqp10_plain_entries(code, at, end, &elements)
        else:
            return 0
        if at == NULL or elements > most:
            return 0
    return size if amqp10_read_usual_data(at, end, &out.payload) else 0


cdef inline const uint8_t* amqp10_usual_field(const Amqp10Usual* u, int shape, int i) noexcept nogil:
    """The value of a field; NULL: absent or null."""
    cdef int k
    for k in range(u.count):
        if u.field[k] == amqp10_shapes[shape].first + i:
            return u.at[k]
    return NULL


cdef inline bint amqp10_read_usual_data(const uint8_t* at, const uint8_t* end, Span* out) noexcept nogil:
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


cdef inline const uint8_t* amqp10_read_usual_fields(const uint8_t* at, const uint8_t* end, int shape, uint32_t none,
                                                    Amqp10Usual* out, uint64_t* elements) noexcept nogil:
    """The list of a composite's fields. `none`: bits of those that must be false or zero. Returns what follows it; NULL:
    amqp10_parse must decide."""
    cdef int first = amqp10_shapes[shape].first
    cdef const Amqp10FieldRow* row = &amqp10_fields[first]
    cdef const uint8_t* start
    cdef int k = out.count
    cdef uint32_t size, count, i
    if end - at < 9:
        return NULL
    if at[0] == AMQP10_CODE_LIST8:
        size = at[1]
        count = at[2]
        at += 2
        if size > end - at or size == 0:
            return NULL
        end = at + size
        at += 1
    elif at[0] == AMQP10_CODE_LIST32:
        size = load_u32(at + 1)
        count = load_u32(at + 5)
        at += 5
        if size > end - at or size < 4:
            return NULL
        end = at + size
        at += 4
    else:
        return NULL
    if count > amqp10_shapes[shape].count:
        return NULL
    elements[0] += count
    for i in range(count):
        if at < end and at[0] == AMQP10_CODE_NULL:
            at += 1
            continue
        start = at
        at = amqp10_plain(at, end)
        if at == NULL or not amqp10_is_type(&row[i], amqp10_constructors[start[0]].type) or \
                (none >> i & 1 and start[0] != AMQP10_CODE_FALSE and start[0] != AMQP10_CODE_UINT0):
            return NULL
        out.field[k] = <uint8_t>(first + i)
        out.at[k] = start
        k += 1
    out.count = k
    return end if at == end else NULL
