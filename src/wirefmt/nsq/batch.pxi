# NSQ: octets -> columns, one row per command or frame: decode_batch.

cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are built."""

    cdef bint payload
    cdef NsqOptions options
    cdef NsqFlow flow

    def __dealloc__(self):
        nsq_flow_clear(&self.flow)

    cdef void put(self, int64_t offset, const NsqUnitView* u) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        self.put_place(offset, u.size)
        put_text(c + NSQ_B_KIND, row, &NSQ_KIND_TEXT[u.kind])
        put_span(c + NSQ_B_MESSAGE_ID, row, &u.message_id)
        if u.kind == NSQ_MESSAGE:
            put_i64(c + NSQ_B_TIMESTAMP_NS, row, u.timestamp)
            put_i32(c + NSQ_B_ATTEMPTS, row, u.attempts)
        if u.topic.at != NULL:
            nsq_put_shown(c + NSQ_B_DESTINATION, row, &u.topic)
        if u.channel.at != NULL:
            nsq_put_shown(c + NSQ_B_CONSUMER_GROUP, row, &u.channel)
        if self.payload and (u.kind == NSQ_MESSAGE or u.kind == NSQ_PUB or u.kind == NSQ_DPUB):
            put_span(c + NSQ_B_PAYLOAD, row, &u.body)
        nsq_put_struct(c + NSQ_B_NSQ, row, u, &self.flow)
        if self.payload and u.kind == NSQ_MPUB:
            nsq_put_bodies(c[<int>NSQ_B_NSQ].children + NSQ_F_BODIES, row, u, -1)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return nsq_frame_size(p, n, &self.options, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef NsqUnitView u
        cdef int status = nsq_parse(p, n, &self.options, &u, f)
        self.options.magic = NSQ_MAGIC_BEFORE
        if status != OK:
            return status
        self.put(at, &u)
        self.row += 1
        return OK


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
    cdef BatchColumns columns_set = BatchColumns(NSQ_BATCH_COLUMNS, columns)
    cdef NsqOptions* o = &columns_set.options
    nsq_take_options(o, side, strictness, limits, server)
    if o.common.side == NSQ_EITHER and octets.size:
        o.common.side = NSQ_SERVER if nsq_is_frame(o, octets.at[0]) else NSQ_CLIENT
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    return columns_set.decode(&NSQ_TABLES, octets, NSQ_B_PAYLOAD if payload else -1)
