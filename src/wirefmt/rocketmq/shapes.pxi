# JSON headers whose form is known from an earlier header: the same members and the same names of extFields in the same order,
# other values. What stands between the values is compared with the earlier header, so no name is searched for or looked up.
#
# A shape accepts a header or leaves it to rocketmq_parse, which reads it from the start. The values that it accepts are ASCII
# without control characters; their escapes are checked. A decoder learns its shapes from headers that rocketmq_written_header
# has read. With shapes a row of a capture takes 5,090 instructions (all columns) and 2,360 (five), without them 7,810 and 3,550.

cdef enum:
    ROCKETMQ_SHAPES = 8             # of one decoder
    ROCKETMQ_SHAPE_WAIT = 16        # once there are as many, every 16th header of another shape replaces one
    ROCKETMQ_TAIL_HALF = 32         # what follows opaque has 46 to 54 octets: its first 32 and its last 32 are compared
    ROCKETMQ_SHAPE_END = 64         # octets after each value, at least: ROCKETMQ_SHAPE_STEP and a block


cdef struct RocketmqShapes:         # all zero: none
    uint32_t count, others          # `others`: headers that came after there were ROCKETMQ_SHAPES
    RocketmqShape[ROCKETMQ_SHAPES] of


cdef extern from *:
    """
    /* ROCKETMQ_STOPS: which of ROCKETMQ_BLOCK octets are a quote, a backslash, a control character or not ASCII; 0: none.
       ROCKETMQ_OTHERS: how a block of which the first n octets count is compared; ROCKETMQ_ALIKE compares it.
       ROCKETMQ_SAME: are n octets equal? Up to ROCKETMQ_ALIKE_BLOCK octets more are read of both. */
    #if defined(__SSE2__)
    enum { ROCKETMQ_ALIKE_BLOCK = 16 };
    typedef uint32_t ROCKETMQ_BITS;
    static inline ROCKETMQ_BITS ROCKETMQ_STOPS(const unsigned char *p) {
        __m128i w = _mm_loadu_si128((const __m128i *)p);
        __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(w, _mm_set1_epi8('"')), _mm_cmpeq_epi8(w, _mm_set1_epi8('\\\\')));
        /* octets above 127 are negative */
        return (uint32_t)_mm_movemask_epi8(_mm_andnot_si128(marks, _mm_cmpgt_epi8(w, _mm_set1_epi8(' ' - 1)))) ^ 0xFFFFu;
    }
    static inline uint32_t ROCKETMQ_OTHERS(size_t n) { return n < 16 ? ~((1u << n) - 1) : ~0xFFFFu; }
    static inline int ROCKETMQ_ALIKE(const unsigned char *p, const unsigned char *q, uint32_t others) {
        __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)p), _mm_loadu_si128((const __m128i *)q));
        return ((uint32_t)_mm_movemask_epi8(same) | others) == ~0u;
    }
    #else
    enum { ROCKETMQ_ALIKE_BLOCK = 8 };
    typedef uint64_t ROCKETMQ_BITS;
    static inline ROCKETMQ_BITS ROCKETMQ_STOPS(const unsigned char *p) {
        const uint64_t ones = 0x0101010101010101ULL;
        uint64_t w;
        memcpy(&w, p, 8);
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        w = __builtin_bswap64(w);
    #endif
        return ROCKETMQ_ZEROS(w ^ ones * '"') | ROCKETMQ_ZEROS(w ^ ones * '\\\\') |
               (((w - ones * ' ') | w) & 0x80 * ones);
    }
    static inline uint32_t ROCKETMQ_OTHERS(size_t n) { return n < 8 ? (uint32_t)n : 8; }
    static inline int ROCKETMQ_ALIKE(const unsigned char *p, const unsigned char *q, uint32_t others) {
        return memcmp(p, q, others) == 0;
    }
    #endif
    /* Calls the function outside of the caller's code: in a larger function its loop has too few registers. */
    typedef const unsigned char *(*ROCKETMQ_TAKER)(const void *, const unsigned char *, const unsigned char *, void *);
    #if defined(__GNUC__)
    __attribute__((noinline))
    #endif
    static const unsigned char *ROCKETMQ_APART(ROCKETMQ_TAKER f, const void *s, const unsigned char *p,
                                               const unsigned char *last, void *fields) {
        return f(s, p, last, fields);
    }
    static inline int ROCKETMQ_SAME(const unsigned char *p, const unsigned char *q, size_t n) {
        for (; n > ROCKETMQ_ALIKE_BLOCK; p += ROCKETMQ_ALIKE_BLOCK, q += ROCKETMQ_ALIKE_BLOCK, n -= ROCKETMQ_ALIKE_BLOCK)
            if (!ROCKETMQ_ALIKE(p, q, ROCKETMQ_OTHERS(ROCKETMQ_ALIKE_BLOCK))) return 0;
        return ROCKETMQ_ALIKE(p, q, ROCKETMQ_OTHERS(n));
    }
    """
    ctypedef const uint8_t* (*ROCKETMQ_TAKER)(const void* s, const uint8_t* p, const uint8_t* last, void* fields) noexcept nogil
    const uint8_t* ROCKETMQ_APART(ROCKETMQ_TAKER f, const void* s, const uint8_t* p, const uint8_t* last, void* fields) nogil
    enum: ROCKETMQ_ALIKE_BLOCK
    ctypedef uint64_t ROCKETMQ_BITS
    ROCKETMQ_BITS ROCKETMQ_STOPS(const uint8_t* p) nogil
    uint32_t ROCKETMQ_OTHERS(size_t n) nogil
    bint ROCKETMQ_ALIKE(const uint8_t* p, const uint8_t* q, uint32_t others) nogil
    bint ROCKETMQ_SAME(const uint8_t* p, const uint8_t* q, size_t n) nogil


# ------------------------------------------------------------------------------------------------ reading

cdef inline const uint8_t* rocketmq_stop(const uint8_t* p, const uint8_t* last) noexcept nogil:
    """The first octet from `p` on that is not plain. NULL: it is past `last`, ROCKETMQ_SHAPE_END octets before the end of the
    header, where no value ends. `p` is at most ROCKETMQ_SHAPE_STEP octets past it."""
    cdef ROCKETMQ_BITS marks
    while True:
        marks = ROCKETMQ_STOPS(p)
        if marks:
            p += ROCKETMQ_FIRST(marks)
            return p if p <= last else NULL
        p += ROCKETMQ_BLOCK
        if p > last:
            return NULL


cdef const uint8_t* rocketmq_pass_parts(RocketmqFields* fields, const uint8_t* p, const uint8_t* last) noexcept nogil:
    """rocketmq_stop after the escapes \\u0001 and \\u0002, which separate names and values. NULL: they do not alternate,
    there are too many, or rocketmq_stop is NULL."""
    cdef const uint8_t** split = fields.splits
    cdef uint32_t mark, next_mark, other
    memcpy(&next_mark, b"0001", 4)
    memcpy(&other, b"0002", 4)
    other ^= next_mark
    while split < fields.splits + ROCKETMQ_PARTS:
        memcpy(&mark, p + 2, 4)
        if p[1] != c"u" or mark != next_mark:
            return NULL
        next_mark ^= other
        split[0] = p
        split += 1
        p = rocketmq_stop(p + 6, last)
        if p == NULL or p[0] != c"\\":
            fields.parts = <int>(split - fields.splits)
            return p
    return NULL


cdef const uint8_t* rocketmq_pass_escapes(const uint8_t* p, const uint8_t* last) noexcept nogil:
    """rocketmq_stop after any escapes. NULL: an escape is invalid, or rocketmq_stop is NULL."""
    cdef int size
    while p != NULL and p[0] == c"\\":
        size = rocketmq_json_escape(p + 1, p + ROCKETMQ_SHAPE_END)
        p = rocketmq_stop(p + 1 + size, last) if size > 0 else NULL
    return p


cdef const uint8_t* rocketmq_take_values(const void* shape, const uint8_t* p, const uint8_t* last, void* out) noexcept nogil:
    """Read the values, of which the first is at `p`, and compare what stands between them. Returns the closing quote of the last
    value. NULL: the header has another shape, or a value contains other octets."""
    cdef const RocketmqShape* s = <const RocketmqShape*>shape
    cdef RocketmqFields* fields = <RocketmqFields*>out
    cdef const RocketmqStep* step = &s.steps[0]
    cdef const RocketmqStep* end = step + s.count
    cdef RocketmqText* text = fields.values
    cdef const uint8_t* value
    cdef const uint8_t* first
    while True:
        value = p
        p = rocketmq_stop(p, last)
        if p == NULL:
            return NULL
        text.form = ROCKETMQ_OCTETS
        if p[0] != c'"':
            if p[0] != c"\\":
                return NULL
            first = p
            p = rocketmq_pass_parts(fields, first, last) if text - fields.values == s.properties else NULL
            if p == NULL:
                fields.parts = 0
                fields.plain = False
                p = rocketmq_pass_escapes(first, last)
            if p == NULL or p[0] != c'"':
                return NULL
            text.form = ROCKETMQ_ESCAPED
        text.at = value
        text.size = <uint32_t>(p - value)
        text += 1
        step += 1
        if step == end:
            return p
        if not ROCKETMQ_ALIKE(p, step.text, step.others):
            return NULL
        if step.size > ROCKETMQ_ALIKE_BLOCK and not ROCKETMQ_SAME(p, step.text, step.size):
            return NULL
        p += step.size


cdef bint rocketmq_fits(const RocketmqShape* s, const uint8_t* p, size_t n, size_t header, RocketmqFrameView* m,
                        RocketmqFields* fields) noexcept nogil:
    """Read a frame if its header, of size `header`, has this shape. False: it has not; `m` is unchanged."""
    cdef const uint8_t* at = p + 8
    cdef const uint8_t* end = at + header
    cdef const uint8_t* close
    cdef const uint8_t* number
    cdef uint32_t digit, opaque = 0
    if header < s.least or not ROCKETMQ_SAME(at, s.head_text, s.head):
        return False
    fields.parts = 0
    fields.plain = True
    at += s.head
    if s.count:
        at = ROCKETMQ_APART(rocketmq_take_values, s, at, end - ROCKETMQ_SHAPE_END, fields)
        if at == NULL:
            return False
    if <size_t>(end - at) <= s.middle + s.tail or not ROCKETMQ_SAME(at, s.middle_text, s.middle):
        return False
    close = at + 1
    at += s.middle
    number = at
    digit = <uint32_t>at[0] - c"0"
    while digit <= 9 and at - number <= 9:
        opaque = opaque * 10 + digit
        at += 1
        digit = <uint32_t>at[0] - c"0"
    if (at == number or at - number > 9 or <size_t>(end - at) != s.tail
            or not ROCKETMQ_SAME(at, s.tail_text, ROCKETMQ_TAIL_HALF)
            or not ROCKETMQ_SAME(end - ROCKETMQ_TAIL_HALF, s.tail_text + s.tail - ROCKETMQ_TAIL_HALF, ROCKETMQ_TAIL_HALF)):
        return False
    memcpy(m, &s.view, sizeof(RocketmqFrameView))
    m.frame = p
    m.size = <uint32_t>n
    m.opaque = <int32_t>opaque
    m.header.at = p + 8
    m.header.size = <uint32_t>header
    if s.ext:
        m.ext.at = p + s.ext
        m.ext.size = <uint32_t>(close - m.ext.at) if s.count else 0
    if n > 8 + header:
        m.body.at = end
        m.body.size = <uint32_t>(n - 8 - header)
    fields.count = s.count
    fields.keys = &s.keys[0]
    fields.shape = s
    fields.values[ROCKETMQ_FIELDS_KEPT].form = ROCKETMQ_NULL
    return True


cdef int rocketmq_read(void** shapes, const uint8_t* p, size_t n, uint32_t max_elements, RocketmqFrameView* out,
                       RocketmqFields* fields, Fault* f) noexcept nogil:
    """rocketmq_parse with the shapes of a decoder. A shape may be replaced: earlier `fields` of it are then invalid."""
    cdef RocketmqShapes* known = <RocketmqShapes*>shapes[0]
    cdef size_t header
    cdef uint32_t i
    cdef int status
    if known != NULL and n >= 8 and <size_t>load_u32(p) + 4 == n and p[4] == ROCKETMQ_JSON:
        header = load_u32(p + 4)
        if header <= n - 8:
            for i in range(known.count):
                if (max_elements == 0 or <uint32_t>known.of[i].count + 8 <= max_elements) and \
                        rocketmq_fits(&known.of[i], p, n, header, out, fields):
                    return OK
    status = rocketmq_parse(p, n, max_elements, out, fields, f)
    if status == OK and out.written:
        rocketmq_learn_shape(shapes, out, fields)
    return status


# ------------------------------------------------------------------------------------------------ learning

cdef bint rocketmq_has_shape(const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
    """Can a header of the Java code's form have a shape? It has no remark, its names differ, and none is long."""
    cdef const RocketmqText* key
    cdef size_t names = 0
    cdef int i, k
    if not m.ascii or m.remark.form != ROCKETMQ_NULL or fields.count > ROCKETMQ_FIELDS_KEPT:
        return False
    for i in range(fields.count):
        key = &fields.keys[i]
        names += key.size
        if key.size + strlen(b'","":"') > ROCKETMQ_SHAPE_STEP:
            return False
        for k in range(i):
            if fields.keys[k].size == key.size and same_octets(fields.keys[k].at, key.at, key.size):
                return False
    return names <= ROCKETMQ_SHAPE_NAMES


cdef RocketmqShape* rocketmq_shape_place(void** shapes) noexcept nogil:
    """Where the next shape is stored. NULL: it is not learned."""
    cdef RocketmqShapes* known = <RocketmqShapes*>shapes[0]
    if known == NULL:
        shapes[0] = known = <RocketmqShapes*>malloc(sizeof(RocketmqShapes))
        if known == NULL:
            return NULL
        known.count = known.others = 0
    if known.count < ROCKETMQ_SHAPES:
        known.count += 1
        return &known.of[known.count - 1]
    known.others += 1
    if known.others % ROCKETMQ_SHAPE_WAIT:
        return NULL
    return &known.of[known.others // ROCKETMQ_SHAPE_WAIT % ROCKETMQ_SHAPES]


cdef void rocketmq_learn_shape(void** shapes, const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
    """Learn the shape of a header that rocketmq_written_header has read."""
    cdef RocketmqShape* s
    cdef RocketmqSlots slots
    cdef const uint8_t* begin = m.header.at
    cdef const uint8_t* end = begin + m.header.size
    cdef const uint8_t* tail = end - 1
    cdef const uint8_t* opaque
    cdef const uint8_t* middle = begin + strlen(b'{"code":')
    cdef const RocketmqText* key
    cdef const RocketmqText* value
    cdef bint letters = rocketmq_letters(m.code)
    cdef size_t n = 0
    cdef int i, properties = -1, topic = -1
    if not rocketmq_has_shape(m, fields):
        return
    rocketmq_find_slots(m, fields, letters, &slots)
    for i in range(fields.count):
        key = &fields.keys[i]
        if rocketmq_is_properties(letters, key.at, key.size):
            properties = i
        if key.size == 1 and key.at[0] == c"b" if letters else rocketmq_is(key, b"topic", 5):
            topic = i
    i = slots.at[<int>ROCKETMQ_PROPERTIES]
    if (i if i < fields.count else -1) != properties or (letters and m.flag & ROCKETMQ_RESPONSE):
        return                                          # the general path takes another field for the properties, or for a slot
    while c"0" <= (tail - 1)[0] <= c"9":                # the version
        tail -= 1
    tail -= strlen(b',"serializeTypeCurrentRPC":"JSON","version":')
    opaque = tail
    while c"0" <= (opaque - 1)[0] <= c"9":
        opaque -= 1
    if fields.count:
        middle = fields.values[fields.count - 1].at + fields.values[fields.count - 1].size
    if opaque - middle > ROCKETMQ_SHAPE_ENDS:           # the name of an unknown language
        return
    s = rocketmq_shape_place(shapes)
    if s == NULL:
        return
    memset(s, 0, sizeof(RocketmqShape))
    s.view = m[0]
    s.view.body = span_of(NULL, 0)
    s.count = fields.count
    s.topic = topic
    s.properties = properties
    s.ext = <uint32_t>(m.ext.at - m.frame) if m.ext.at != NULL else 0
    memset(s.slots, ROCKETMQ_FIELDS_KEPT, sizeof(s.slots))
    if fields.count:
        memcpy(s.slots, slots.at, ROCKETMQ_SLOTS)
    s.head = rocketmq_copy_piece(s.head_text, begin, fields.values[0].at if fields.count else middle)
    s.middle = rocketmq_copy_piece(s.middle_text, middle, opaque)
    s.tail = rocketmq_copy_piece(s.tail_text, tail, end)
    s.least = s.head + s.middle + s.tail + 1
    for i in range(fields.count):
        key = &fields.keys[i]
        value = &fields.values[i]
        if i:
            s.steps[i].size = rocketmq_copy_piece(s.steps[i].text, (value - 1).at + (value - 1).size, value.at)
            s.steps[i].others = ROCKETMQ_OTHERS(s.steps[i].size)
            s.least += s.steps[i].size
        rocketmq_set_text(&s.keys[i], s.names + n, s.names + n + key.size, ROCKETMQ_OCTETS)
        memcpy(s.names + n, key.at, key.size)
        n += key.size
        s.name_ends[i] = <int32_t>n
        s.secret |= is_secret_name(key.at, key.size)


cdef uint32_t rocketmq_copy_piece(uint8_t* to, const uint8_t* p, const uint8_t* end) noexcept nogil:
    memcpy(to, p, <size_t>(end - p))
    return <uint32_t>(end - p)


# ------------------------------------------------------------------------------------------------ using

cdef bint rocketmq_secret_parts(const RocketmqFields* fields) noexcept nogil:
    """rocketmq_secret_properties of properties with `parts`."""
    cdef const uint8_t* p
    cdef int i
    if fields.parts == 0:
        return False
    p = fields.values[fields.shape.properties].at
    for i in range(0, fields.parts, 2):
        if is_secret_name(p, <size_t>(fields.splits[i] - p)):
            return True
        if i + 1 < fields.parts:
            p = fields.splits[i + 1] + 6
    return False


cdef uint8_t* rocketmq_join(const RocketmqFields* fields, uint8_t* out) noexcept nogil:
    """Write the properties without escapes to `out`, which has space for them with escapes and AHEAD_OCTETS. Returns the end."""
    cdef const RocketmqText* t = &fields.values[fields.shape.properties]
    cdef const uint8_t* p = t.at
    cdef int i
    for i in range(fields.parts):
        copy_ahead(out, p, <size_t>(fields.splits[i] - p))
        out += fields.splits[i] - p
        out[0] = <uint8_t>(1 + (i & 1))
        out += 1
        p = fields.splits[i] + 6
    copy_ahead(out, p, <size_t>(t.at + t.size - p))
    return out + (t.at + t.size - p)


cdef inline const uint8_t* rocketmq_next_part(const RocketmqFields* fields, const uint8_t* p, int* i, Span* name,
                                              Span* value) noexcept nogil:
    """rocketmq_next_property of properties with `parts`. `i`: parts before `p`."""
    cdef const RocketmqText* t = &fields.values[fields.shape.properties]
    cdef const uint8_t* split
    cdef const uint8_t* stop
    while i[0] < fields.parts:
        split = fields.splits[i[0]]
        stop = fields.splits[i[0] + 1] if i[0] + 1 < fields.parts else t.at + t.size
        i[0] += 2
        name.at = p
        name.size = <uint32_t>(split - p)
        value.at = split + 6
        value.size = <uint32_t>(stop - value.at)
        p = stop + 6
        if name.size and value.size:
            return p
    return NULL


cdef bint rocketmq_add_fields(MapWriter* w, const RocketmqFrameView* m, const RocketmqFields* fields) noexcept nogil:
    """Add all entries of extFields to a map at once; the caller knows that the properties are not secret. False: one of the
    entries needs more than a copy; nothing was added."""
    cdef const RocketmqShape* s = fields.shape
    cdef const RocketmqText* value
    cdef uint8_t* out
    cdef const uint8_t* values = w.values
    cdef int32_t* key_offsets = w.key_offsets + w.at
    cdef int32_t* value_offsets = w.value_offsets + w.at
    cdef int32_t key_end = <int32_t>w.key_end
    cdef int k
    if s == NULL or s.count == 0 or not fields.plain or s.count > w.most - w.at or m.ext.size > w.spare or \
            (s.secret and not w.exposed):
        return False
    copy_ahead(w.keys + key_end, s.names, <size_t>s.name_ends[s.count - 1])
    out = w.values + w.value_end
    for k in range(s.count):
        value = &fields.values[k]
        if value.form == ROCKETMQ_OCTETS:
            copy_ahead(out, value.at, value.size)       # ROCKETMQ_SHAPE_END octets follow it
            out += value.size
        else:
            out = rocketmq_join(fields, out)
        key_offsets[k] = key_end + s.name_ends[k]
        value_offsets[k] = <int32_t>(out - values)
    w.at += s.count
    w.key_end += s.name_ends[s.count - 1]
    w.spare -= s.name_ends[s.count - 1] + (out - w.values - w.value_end)
    w.value_end = out - w.values
    return True
