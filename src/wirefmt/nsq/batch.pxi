# NSQ: octets -> columns, one row per command or frame: decode_batch.

cdef class BatchColumns(ColumnSet):
    """The columns of decode_batch while they are built."""

    cdef bint payload

    cdef void put(self, int64_t row, int64_t offset, const NsqUnitView* u, NsqFlow* flow) noexcept nogil:
        cdef Col* c = self.cols
        cdef uint8_t[HEX_ROOM] hex
        cdef Span shown
        put_i64(c + NSQ_B_OFFSET, row, offset)
        put_i32(c + NSQ_B_SIZE, row, <int32_t>u.size)
        put_text(c + NSQ_B_KIND, row, &NSQ_KIND_TEXT[u.kind])
        put_span(c + NSQ_B_MESSAGE_ID, row, &u.message_id)
        if u.kind == NSQ_MESSAGE:
            put_i64(c + NSQ_B_TIMESTAMP, row, u.timestamp)
            put_i32(c + NSQ_B_ATTEMPTS, row, u.attempts)
        if u.topic.at != NULL:
            text_or_hex(&u.topic, hex, &shown)
            put_span(c + NSQ_B_TOPIC, row, &shown)
        if u.channel.at != NULL:
            text_or_hex(&u.channel, hex, &shown)
            put_span(c + NSQ_B_CHANNEL, row, &shown)
        if self.payload and (u.kind == NSQ_MESSAGE or u.kind == NSQ_PUB or u.kind == NSQ_DPUB):
            put_span(c + NSQ_B_BODY, row, &u.body)
        nsq_put_struct(c + NSQ_B_NSQ, row, u, flow)
        if self.payload and u.kind == NSQ_MPUB:
            nsq_put_bodies(c[<int>NSQ_B_NSQ].children + NSQ_F_BODIES, row, u, -1)

    cdef int64_t run(self, const uint8_t* data, int64_t size, NsqOptions* o, int64_t* rows) noexcept nogil:
        """Decode all that is whole; octets used."""
        cdef int64_t at = 0, row = 0
        cdef size_t n = 0
        cdef NsqUnitView u
        cdef NsqFlow flow
        cdef Fault f
        cdef int status = OK
        memset(&flow, 0, sizeof(flow))
        if self.payload:
            reserve(self.cols + NSQ_B_BODY, 0, min(size, <int64_t>OFFSET_MAX))
        if o.side == NSQ_EITHER and size:
            o.side = NSQ_SERVER if nsq_is_frame(o, data[0]) else NSQ_CLIENT
        while at < size:
            status = nsq_frame_size(data + at, <size_t>(size - at), o, &n, &f)
            if status == NEED_DATA or (status == OK and <int64_t>n > size - at):
                break
            if status != OK:                            # no telling where the next one begins
                self.put_error(row, at, size - at, &f)
                row += 1
                at = size
                break
            status = nsq_parse(data + at, n, o, &u, &f)
            if status == OK:
                self.put(row, at, &u, &flow)
            else:
                self.put_error(row, at, <int64_t>n, &f)
            o.magic = NSQ_MAGIC_BEFORE
            row += 1
            at += <int64_t>n
        nsq_flow_clear(&flow)
        rows[0] = row
        return at

    cdef void put_error(self, int64_t row, int64_t at, int64_t size, const Fault* f) noexcept nogil:
        cdef char[256] text
        cdef int n = fault_text(&NSQ_TABLES, f, at, text, sizeof(text))
        put_i64(self.cols + NSQ_B_OFFSET, row, at)
        put_i32(self.cols + NSQ_B_SIZE, row, <int32_t>min(size, <int64_t>0x7FFFFFFF))
        put_octets(self.cols + NSQ_B_ERROR, row, <const uint8_t*>text, n)


def decode_batch(data, *, side=None, strictness="lax", columns=None, bint payload=True,
                 bint expose_credentials=False, limits=None, server=None):
    """Decode a buffer of commands or frames of one direction, one after another, to columns at once.

    data: any contiguous buffer, uncompressed; bytes and views of bytes are read in place, any other buffer is copied
    once. Data of a client may begin with the magic. side: "client" or "server"; None: the first byte decides.
    columns: names to keep, in order (wirefmt.nsq.columns.BATCH has all). payload=False omits the contents of
    messages. Secrets (docs/secrets.md) are hidden unless expose_credentials. Others as in decode().

    Raises ValueError for an invalid option, BufferError for data that is not contiguous, OverflowError if a
    column would exceed 2 GiB.

    Returns a Batch of one row per command or frame. A malformed one is a row with `error`, which gives field, offset
    in `data` and reason; decoding continues with the next one. If a size is invalid, the rest of `data` is one
    such row. The bytes of an incomplete last one have no row: `batch.rest` counts them.
    """
    cdef Input octets = take_input(data)
    cdef NsqOptions o
    cdef BatchColumns columns_set = BatchColumns(NSQ_BATCH_COLUMNS, columns)
    cdef Batch batch
    cdef int64_t used = 0, rows = 0
    nsq_take_options(&o, side, strictness, limits, server)
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    with nogil:
        used = columns_set.run(octets.at, octets.size, &o, &rows)
    batch = columns_set.finish(rows)
    batch.rest = octets.size - used
    return batch
