# AMQP 0.9.1 -> columns: decode_batch for one direction of a stream. One row is one method with its content folded in.
#
# It stands on amqp091_parse and amqp091_fold, so it says what frames and the Assembler say. Only a body of several
# frames is copied before it gets to its column.
from wirefmt.amqp091.columns import BATCH as AMQP091_BATCH_COLUMNS


cdef Text[AMQP091_METHOD_COUNT] AMQP091_KIND_TEXT
cdef Text AMQP091_HEARTBEAT_TEXT = pad_text(b"heartbeat")
cdef Text AMQP091_PROTOCOL_HEADER_TEXT = pad_text(b"protocol-header")
#: Columns of arguments that have one of their own, by Amqp091ArgumentName; -1: it goes into the map `arguments`.
cdef int8_t[AMQP091_ARGUMENT_NAME_COUNT] AMQP091_ARGUMENT_COLUMN
#: Columns of properties, by Amqp091Property.
cdef int8_t[AMQP091_PROPERTY_COUNT] AMQP091_PROPERTY_COLUMN


cdef int fill_amqp091_columns() except -1:
    cdef list names = [column.name for column in AMQP091_BATCH_COLUMNS]
    cdef int i
    for i in range(1, AMQP091_METHOD_COUNT):
        AMQP091_KIND_TEXT[i] = pad_text(amqp091_methods[i].name)
    own = ("exchange", "routing_key", "queue", "consumer_tag", "delivery_tag", "redelivered", "reply_code", "reply_text")
    for i in range(AMQP091_ARGUMENT_NAME_COUNT):
        name = AMQP091_ARGUMENT_NAMES[i]
        AMQP091_ARGUMENT_COLUMN[i] = <int8_t>names.index(name) if name in own else -1
    for i in range(AMQP091_PROPERTY_COUNT):
        AMQP091_PROPERTY_COLUMN[i] = <int8_t>names.index(AMQP091_PROPERTY_NAMES[i])
    return 0


fill_amqp091_columns()


cdef struct Amqp091Kept:            # a pending content on one channel
    Amqp091Channel state
    int64_t offset, size            # of its method; octets of its frames
    Amqp091FrameView method, header  # views into the input
    Octets body                     # of several frames


cdef struct Amqp091KeptPage:
    Amqp091Kept* kept[256]


cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are built."""

    cdef bint body
    cdef uint64_t body_max
    cdef Amqp091KeptPage* pages[256]        # by channel
    cdef Amqp091Options options

    def __dealloc__(self):
        cdef int i, j
        for i in range(256):
            if self.pages[i] == NULL:
                continue
            for j in range(256):
                if self.pages[i].kept[j] != NULL:
                    free_octets(&self.pages[i].kept[j].body)
                    free(self.pages[i].kept[j])
            free(self.pages[i])

    cdef inline Amqp091Kept* kept_on(self, uint16_t channel) noexcept nogil:
        """The channel's content; NULL without memory."""
        cdef Amqp091KeptPage* page = self.pages[channel >> 8]
        if page == NULL:
            page = <Amqp091KeptPage*>calloc(1, sizeof(Amqp091KeptPage))
            if page == NULL:
                self.tally.no_memory = True
                return NULL
            self.pages[channel >> 8] = page
        if page.kept[channel & 255] == NULL:
            page.kept[channel & 255] = <Amqp091Kept*>calloc(1, sizeof(Amqp091Kept))
            if page.kept[channel & 255] == NULL:
                self.tally.no_memory = True
        return page.kept[channel & 255]

    # ---- rows

    cdef inline void put_method(self, int64_t offset, int64_t size, const Amqp091FrameView* m) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        self.put_place(offset, size)
        put_i32(c + A9B_CHANNEL, row, m.channel)
        if m.type == AMQP091_FRAME_METHOD:
            put_text(c + A9B_KIND, row, &AMQP091_KIND_TEXT[m.method])
            self.put_arguments(row, m)
        elif m.type == AMQP091_FRAME_HEARTBEAT:
            put_text(c + A9B_KIND, row, &AMQP091_HEARTBEAT_TEXT)
        elif m.type == AMQP091_PROTOCOL_HEADER:
            put_text(c + A9B_KIND, row, &AMQP091_PROTOCOL_HEADER_TEXT)

    cdef inline void put_arguments(self, int64_t row, const Amqp091FrameView* m) noexcept nogil:
        cdef const Amqp091MethodRow* method = &amqp091_methods[m.method]
        cdef const Amqp091ArgumentRow* a
        cdef const uint8_t* p
        cdef Span s
        cdef Col* c
        cdef int i
        for i in range(method.first, method.first + method.count):
            a = &amqp091_arguments[i]
            p = m.frame + m.value[a.slot]
            if AMQP091_ARGUMENT_COLUMN[a.name] < 0:
                self.put_argument(row, a, p)
                continue
            c = self.cols + AMQP091_ARGUMENT_COLUMN[a.name]
            if a.type == AMQP091_SHORTSTR:
                s = amqp091_shortstr_at(p)
                amqp091_put_text(c, row, &s)
            elif a.type == AMQP091_BIT:
                put_bool(c, row, p[0] >> a.bit & 1)
            elif a.type == AMQP091_LONGLONG:
                put_i64(c, row, <int64_t>load_u64(p))
            else:
                put_i32(c, row, load_u16(p))

    cdef void put_argument(self, int64_t row, const Amqp091ArgumentRow* a, const uint8_t* p) noexcept nogil:
        """An argument that has no column of its own, as an entry of the map."""
        cdef Col* map = self.cols + A9B_ARGUMENTS
        cdef Span name
        cdef Amqp091Entry e
        if not map.on:
            return
        name.at = <const uint8_t*>amqp091_argument_name[a.name]
        name.size = <uint32_t>strlen(amqp091_argument_name[a.name])
        amqp091_argument_entry(a, p, &e)
        if AMQP091_ARGUMENT_SECRET[a.name] and not map.tally.exposed:
            e.at = SECRET_SHOWN_TEXT.at
            e.size = <uint32_t>SECRET_SHOWN_TEXT.size
        if e.letter == c"t":
            put_map(map, row, name.at, name.size, <const uint8_t*>(b"true" if p[0] >> a.bit & 1 else b"false"),
                    4 if p[0] >> a.bit & 1 else 5)
        else:
            amqp091_put_entry(map, row, &name, &e)

    cdef inline void put_header(self, const Amqp091FrameView* h) noexcept nogil:
        cdef Col* c
        cdef const uint8_t* p
        cdef Span s
        cdef int64_t row = self.row
        cdef int i
        put_i64(self.cols + A9B_BODY_SIZE, row, <int64_t>min(h.body_size, <uint64_t>0x7FFFFFFFFFFFFFFF))
        for i in range(AMQP091_PROPERTY_COUNT):
            p = amqp091_property(&h.properties, i)
            if p == NULL:
                continue
            c = self.cols + AMQP091_PROPERTY_COLUMN[i]
            if amqp091_properties[i].type == AMQP091_SHORTSTR:
                s = amqp091_shortstr_at(p)
                amqp091_put_text(c, row, &s)
            elif amqp091_properties[i].type == AMQP091_TABLE:
                amqp091_put_table(c, row, p)
            elif amqp091_properties[i].type == AMQP091_OCTET:
                put_i16(c, row, p[0])
            else:
                put_i64(c, row, <int64_t>load_u64(p))

    cdef inline void put_body(self, const uint8_t* p, int64_t n) noexcept nogil:
        if self.body:
            put_octets(self.cols + A9B_BODY, self.row, p if n else <const uint8_t*>b"", n)

    cdef void put_partial(self, const Amqp091Kept* k, const Fault* f, int64_t at) noexcept nogil:
        """A row of a content that was not completed: what there is of it, and why."""
        self.put_method(k.offset, k.size, &k.method)
        if k.state.stage == AMQP091_AWAITS_BODY:
            self.put_header(&k.header)
            self.put_body(k.body.at, <int64_t>k.body.size)
        self.put_fault(at, f)
        self.row += 1

    # ---- frames

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return amqp091_frame_size(p, n, self.options.frame_max, self.options.strict, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef Amqp091FrameView m
        cdef int status = amqp091_parse(p, n, &self.options, &m, f)
        return self.put_parsed(at, &m, f) if status == OK else status

    cdef inline int put_parsed(self, int64_t at, const Amqp091FrameView* m, Fault* f) noexcept nogil:
        cdef Amqp091Kept* k = NULL
        cdef Amqp091Channel before
        cdef int fold = AMQP091_ALONE
        if m.type != AMQP091_FRAME_HEARTBEAT and m.type != AMQP091_PROTOCOL_HEADER:
            k = self.kept_on(m.channel)
            if k == NULL:
                return OK               # without memory there is no batch
            before = k.state
            fold = amqp091_fold(&k.state, m, self.body_max, f)
        if fold == AMQP091_UNEXPECTED and before.stage != AMQP091_IDLE:
            k.state = before                # the pending content ends here; the frame may begin a new one
            self.put_partial(k, f, at)
            k.body.size = 0
            memset(&k.state, 0, sizeof(k.state))
            if m.type != AMQP091_FRAME_METHOD:
                return OK
            fold = amqp091_fold(&k.state, m, self.body_max, f)
        if fold == AMQP091_ALONE:
            self.put_method(at, m.size, m)
            self.row += 1
        elif fold == AMQP091_UNEXPECTED:
            return f.status
        else:
            self.keep(k, at, m, fold)
        if k != NULL and k.body.failed:
            self.tally.no_memory = True
        return OK

    cdef inline void keep(self, Amqp091Kept* k, int64_t at, const Amqp091FrameView* m, int fold) noexcept nogil:
        """A frame of a content; its row if that completes it."""
        cdef Span body
        body.at = NULL
        body.size = 0
        if fold == AMQP091_BEGINS:
            k.method = m[0]
            k.offset = at
            k.size = m.size
            return
        k.size += m.size
        if m.type == AMQP091_FRAME_HEADER:
            k.header = m[0]
        elif fold == AMQP091_COMPLETES and k.body.size == 0:
            body = m.payload
        else:
            add_octets(&k.body, m.payload.at, m.payload.size)
        if fold != AMQP091_COMPLETES:
            return
        self.put_method(k.offset, k.size, &k.method)
        self.put_header(&k.header)
        if k.body.size:
            self.put_body(k.body.at, <int64_t>k.body.size)
        else:
            self.put_body(body.at, body.size)
        k.body.size = 0
        self.row += 1

    cdef void put_unfinished(self, int64_t at) noexcept nogil:
        """Contents that the input does not complete, by channel."""
        cdef Amqp091Kept* k
        cdef Fault f
        cdef int i, j
        for i in range(256):
            if self.pages[i] == NULL:
                continue
            for j in range(256):
                k = self.pages[i].kept[j]
                if k != NULL and k.state.stage != AMQP091_IDLE:
                    amqp091_fault(&f, AMQP091_CHECK_CONTENT_UNFINISHED, AMQP091_FIELD_PAYLOAD, 0,
                                  <int64_t>k.state.body_size, <int64_t>k.state.body_have, 0)
                    self.put_partial(k, &f, at)


cdef inline void amqp091_argument_entry(const Amqp091ArgumentRow* a, const uint8_t* p, Amqp091Entry* e) noexcept nogil:
    """An argument as if it were an entry of a table, so that one function makes text of both."""
    e.at = p
    e.size = 0
    if a.type == AMQP091_SHORTSTR:
        e.letter = c"S"
        e.at = p + 1
        e.size = p[0]
    elif a.type == AMQP091_LONGSTR or a.type == AMQP091_TABLE:
        e.letter = c"S" if a.type == AMQP091_LONGSTR else c"F"
        e.at = p + 4
        e.size = load_u32(p)
    elif a.type == AMQP091_BIT:
        e.letter = c"t"
    else:
        e.letter = (c"B" if a.type == AMQP091_OCTET else c"u" if a.type == AMQP091_SHORT else
                    c"i" if a.type == AMQP091_LONG else c"T")


def decode_batch(data, *, side=None, strictness="lax", columns=None, bint body=True,
                 bint expose_credentials=False, frame_max=0, channel_max=0, body_max=AMQP091_BODY_MAX_VALUE,
                 limits=None):
    """Decode a buffer of frames of one direction, one after another, to columns at once.

    data: any contiguous buffer; bytes and views of bytes are read in place, any other buffer is copied once. columns:
    names to keep, in order (wirefmt.amqp091.columns.BATCH has all). body=False omits bodies. Secrets
    (docs/secrets.md) are `***` unless expose_credentials. side, strictness, frame_max, channel_max, limits: as in
    decode(), except that frame_max has no limit by default. body_max: bytes of a body at most.

    Raises ValueError for an invalid option, BufferError for data that is not contiguous, OverflowError if a
    column would exceed 2 GiB.

    Returns a Batch of one row per method, with its content, in the order of completion; heartbeats and
    protocol headers have rows, too. A malformed frame, or one that its channel does not expect, is a row with
    `error`, which gives field, offset in `data` and reason; so is an incomplete content, with the fields that were
    received. If the size of a frame is invalid, the rest of `data` is one such row. The bytes of an incomplete last frame
    have no row: `batch.rest` counts them.
    """
    cdef Input octets = take_input(data)
    cdef BatchColumns columns_set = BatchColumns(AMQP091_BATCH_COLUMNS, columns)
    take_amqp091_options(&columns_set.options, side, strictness, frame_max, channel_max, limits)
    columns_set.body = body
    columns_set.expose(expose_credentials)
    columns_set.body_max = <uint64_t>whole_number(body_max, 0x7FFFFFFFFFFFFFFF, "body_max")
    return columns_set.decode(&AMQP091_TABLES, octets, A9B_BODY if body else -1)
