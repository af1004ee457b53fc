# AMQP 0.9.1 -> columns: decode_batch for one direction of a stream. A row is one method with its content.
#
# It uses amqp091_parse and amqp091_join like the Assembler, so both give the same results; amqp091_read_fast reads what need not
# be assembled. Only a body in several frames is copied before it is put into its column.
from wirefmt.amqp091.columns import BATCH as AMQP091_BATCH_COLUMNS


cdef Text[AMQP091_METHOD_COUNT] AMQP091_KIND_TEXT
cdef Text AMQP091_HEARTBEAT_TEXT = pad_text(b"heartbeat")
cdef Text AMQP091_PROTOCOL_HEADER_TEXT = pad_text(b"protocol-header")
#: Columns of arguments, by Amqp091ArgumentName; -1: it goes into the map `arguments`.
cdef int8_t[AMQP091_ARGUMENT_NAME_COUNT] AMQP091_ARGUMENT_COLUMN
#: Columns of properties, by Amqp091Property.
cdef int8_t[AMQP091_PROPERTY_COUNT] AMQP091_PROPERTY_COLUMN


cdef int fill_amqp091_columns() except -1:
    cdef list names = [column.name for column in AMQP091_BATCH_COLUMNS]
    cdef int i
    for i in range(1, AMQP091_METHOD_COUNT):
        AMQP091_KIND_TEXT[i] = pad_text(amqp091_methods[i].name)
    own = {"delivery_tag": "sequence", "reply_code": "code"}
    own |= {name: name for name in ("exchange", "routing_key", "queue", "consumer_tag", "redelivered", "reply_text")}
    for i in range(AMQP091_ARGUMENT_NAME_COUNT):
        name = AMQP091_ARGUMENT_NAMES[i]
        AMQP091_ARGUMENT_COLUMN[i] = <int8_t>names.index(own[name]) if name in own else -1
    for i in range(AMQP091_PROPERTY_COUNT):
        AMQP091_PROPERTY_COLUMN[i] = <int8_t>names.index(AMQP091_PROPERTY_NAMES[i])
    return 0


fill_amqp091_columns()


cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are filled."""

    cdef bint payload
    cdef Amqp091Options options
    cdef Amqp091Contents contents

    def __dealloc__(self):
        amqp091_drop_contents(&self.contents)

    # ---- rows

    cdef inline void put_method(self, int64_t offset, int64_t size, const Amqp091FrameView* m) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        self.put_place(offset, size)
        if m.type == AMQP091_PROTOCOL_HEADER:           # not a frame: it has no channel
            put_text(c + A9B_KIND, row, &AMQP091_PROTOCOL_HEADER_TEXT)
            return
        put_i32(c + A9B_CHANNEL, row, m.channel)
        if m.type == AMQP091_FRAME_METHOD:
            put_text(c + A9B_KIND, row, &AMQP091_KIND_TEXT[m.method])
            self.put_arguments(row, m)
        elif m.type == AMQP091_FRAME_HEARTBEAT:
            put_text(c + A9B_KIND, row, &AMQP091_HEARTBEAT_TEXT)

    cdef inline void put_arguments(self, int64_t row, const Amqp091FrameView* m) noexcept nogil:
        cdef const Amqp091MethodRow* method = &amqp091_methods[m.method]
        cdef const Amqp091ArgumentRow* a
        cdef const uint8_t* p
        cdef MapWriter w
        cdef Span s
        cdef Col* c
        cdef int i
        begin_map(&w, self.cols + A9B_ARGUMENTS, row, NULL)
        for i in range(method.first, method.first + method.count):
            a = &amqp091_arguments[i]
            p = m.frame + m.value[a.slot]
            if AMQP091_ARGUMENT_COLUMN[a.name] < 0:
                self.put_argument(&w, a, p)
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
        end_map(&w)

    cdef void put_argument(self, MapWriter* w, const Amqp091ArgumentRow* a, const uint8_t* p) noexcept nogil:
        """An argument that has no column of its own, as an entry of the map."""
        cdef Span name
        cdef Amqp091Entry e
        if not w.map.on:
            return
        name.at = <const uint8_t*>amqp091_argument_name[a.name]
        name.size = <uint32_t>strlen(amqp091_argument_name[a.name])
        amqp091_argument_entry(a, p, &e)
        if AMQP091_ARGUMENT_SECRET[a.name] and not w.exposed:
            e.at = SECRET_SHOWN_TEXT.at
            e.size = <uint32_t>SECRET_SHOWN_TEXT.size
        if e.letter == c"t":
            add_entry_of(w, name.at, name.size, <const uint8_t*>(b"true" if p[0] >> a.bit & 1 else b"false"),
                         4 if p[0] >> a.bit & 1 else 5)
        else:
            amqp091_add_entry(w, &name, &e)

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

    cdef inline void put_message(self, int64_t offset, int64_t size, const Amqp091FrameView* method,
                                 const Amqp091FrameView* header, const uint8_t* body, int64_t body_size) noexcept nogil:
        """Put a method with its content. Header type 0: there is no content header yet."""
        self.put_method(offset, size, method)
        if not header.type:
            return
        self.put_header(header)
        if self.payload:
            put_octets(self.cols + A9B_PAYLOAD, self.row, body if body_size else <const uint8_t*>b"", body_size)

    cdef inline void put_content(self, const Amqp091Content* k) noexcept nogil:
        """Put a method with its content, which may be incomplete."""
        if k.part.at != NULL:
            self.put_message(k.m.byte_offset, <int64_t>k.size, &k.method, &k.header, k.part.at, k.part.size)
        else:
            self.put_message(k.m.byte_offset, <int64_t>k.size, &k.method, &k.header, k.body.at, <int64_t>k.body.size)

    cdef void put_partial(self, const Amqp091Content* k, const Fault* f, int64_t at) noexcept nogil:
        """Put the row of an incomplete content: its available fields, and the reason."""
        self.put_content(k)
        self.put_fault(at, f)
        self.row += 1

    # ---- frames

    cdef int64_t put_fast(self, const uint8_t* data, int64_t at, int64_t size) noexcept nogil:
        cdef Amqp091FastView u
        cdef size_t n
        while at < size:
            n = amqp091_read_fast(&self.contents, data + at, <size_t>(size - at), &self.options, &u)
            if n == 0:
                break
            self.shared.read = at
            self.put_message(at, <int64_t>n, &u.method, &u.header, u.body.at, u.body.size)
            self.row += 1
            at += <int64_t>n
        return at

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return amqp091_frame_size(p, n, self.options.common.max_frame_size, self.options.common.strict, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef Amqp091FrameView m
        cdef int status = amqp091_parse(p, n, &self.options, &m, f)
        return self.put_parsed(at, &m, f) if status == OK else status

    cdef inline int put_parsed(self, int64_t at, const Amqp091FrameView* m, Fault* f) noexcept nogil:
        cdef Amqp091Content* kept = NULL
        cdef int answer = amqp091_join(&self.contents, m, &kept, f)
        if answer == AMQP091_JOIN_ENDED:
            self.put_partial(self.contents.done, f, at)
            if m.type != AMQP091_FRAME_METHOD:
                return OK
            answer = amqp091_join(&self.contents, m, &kept, f)
        if answer == AMQP091_JOIN_FAULT:
            return f.status
        if answer == AMQP091_JOIN_NO_MEMORY:
            self.shared.no_memory = True
        elif answer == AMQP091_JOIN_PART:
            if m.type == AMQP091_FRAME_METHOD:
                kept.m.byte_offset = at
        else:
            if answer == AMQP091_JOIN_LAST:
                self.put_content(self.contents.done)
            else:
                self.put_method(at, m.size, m)
            self.row += 1
        return OK

    cdef void put_unfinished(self, int64_t at) noexcept nogil:
        """Put the incomplete contents at the end of the input, in the order of their methods."""
        cdef const Amqp091Content* k = amqp091_oldest(&self.contents)
        cdef Fault f
        while k != NULL:
            amqp091_unfinished(k, &f)
            self.put_partial(k, &f, at)
            k = k.next


cdef inline void amqp091_argument_entry(const Amqp091ArgumentRow* a, const uint8_t* p, Amqp091Entry* e) noexcept nogil:
    """An argument in the form of a table's entry, so that one function makes the text of both."""
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


def decode_batch(data, *, side=None, strictness="lax", columns=None, bint payload=True,
                 bint expose_credentials=False, frame_max=0, channel_max=0, body_max=AMQP091_BODY_MAX_VALUE,
                 limits=None):
    """Decode a buffer of frames of one direction, one after another, to columns at once.

    data: any contiguous buffer; bytes and views of bytes are read in place, any other buffer is copied once. columns:
    names to keep, in order (wirefmt.amqp091.columns.BATCH has all). payload=False omits bodies. Secrets
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
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    columns_set.contents.max_body = <uint64_t>whole_number(body_max, 0x7FFFFFFFFFFFFFFF, "body_max")
    return columns_set.decode(&AMQP091_TABLES, octets, A9B_PAYLOAD if payload else -1)
