# PHPMQ: octets -> columns, one row per message: decode_batch.

cdef class BatchColumns(ColumnSet):
    """The columns of decode_batch while they are built."""

    cdef bint payload

    cdef void put(self, int64_t row, int64_t offset, const PhpmqMessageView* m) noexcept nogil:
        cdef Col* c = self.cols
        put_i64(c + PHPMQ_B_OFFSET, row, offset)
        put_i64(c + PHPMQ_B_SIZE, row, m.size)
        put_text(c + PHPMQ_B_KIND, row, &PHPMQ_KIND_TEXT[phpmq_row_of(m)])
        phpmq_put_text(c + PHPMQ_B_QUEUE_NAME, row, &m.content[<int>PHPMQ_PACKET_QUEUE_NAME])
        phpmq_put_text(c + PHPMQ_B_MESSAGE_ID, row, &m.content[<int>PHPMQ_PACKET_MESSAGE_ID])
        if self.payload:
            put_span(c + PHPMQ_B_CONTENT, row, &m.content[<int>PHPMQ_PACKET_CONTENT])
        phpmq_put_struct(c + PHPMQ_B_PHPMQ, row, m)

    cdef int64_t run(self, const uint8_t* data, int64_t size, PhpmqOptions* o, int64_t* rows) noexcept nogil:
        """Decode all whole messages; octets used."""
        cdef int64_t at = 0, row = 0
        cdef size_t n = 0
        cdef PhpmqMessageView m
        cdef Fault f
        cdef int status = OK
        if self.payload:
            reserve(self.cols + PHPMQ_B_CONTENT, 0, min(size, <int64_t>OFFSET_MAX))
        while at < size:
            status = phpmq_frame_size(data + at, <size_t>(size - at), o, &n, &f)
            if status == NEED_DATA or (status == OK and <int64_t>n > size - at):
                break
            if status != OK:                            # no telling where the next message begins
                self.put_error(row, at, size - at, &f)
                row += 1
                at = size
                break
            status = phpmq_parse(data + at, n, o, &m, &f)
            if status == OK:
                self.put(row, at, &m)
            else:
                self.put_error(row, at, <int64_t>n, &f)
            row += 1
            at += <int64_t>n
        rows[0] = row
        return at

    cdef void put_error(self, int64_t row, int64_t at, int64_t size, const Fault* f) noexcept nogil:
        cdef char[256] text
        cdef int n = fault_text(&PHPMQ_TABLES, f, at, text, sizeof(text))
        put_i64(self.cols + PHPMQ_B_OFFSET, row, at)
        put_i64(self.cols + PHPMQ_B_SIZE, row, size)
        put_octets(self.cols + PHPMQ_B_ERROR, row, <const uint8_t*>text, n)


def decode_batch(data, *, side=None, strictness="lax", columns=None, bint payload=True, limits=None):
    """Decode a buffer of PHPMQ messages, one after another, to columns at once.

    data: any contiguous buffer; bytes and views of bytes are read in place, any other buffer is copied once. side:
    "client" or "server", the sender. columns: names to keep, in order (wirefmt.phpmq.columns.BATCH has
    all). payload=False omits contents. Others as in decode().

    Raises ValueError for an invalid option, BufferError for data that is not contiguous, OverflowError if a
    column would exceed 2 GiB.

    Returns a Batch of one row per message. A malformed message is a row with `error`, which gives field, offset in
    `data` and reason; decoding continues with the next one. If the size of a message is invalid, the rest of `data`
    is one such row. The bytes of an incomplete last message have no row: `batch.rest` counts them.
    """
    cdef Input octets = take_input(data)
    cdef PhpmqOptions o
    cdef BatchColumns columns_set = BatchColumns(PHPMQ_BATCH_COLUMNS, columns)
    cdef Batch batch
    cdef int64_t used = 0, rows = 0
    phpmq_take_options(&o, side, strictness, limits)
    columns_set.payload = payload
    with nogil:
        used = columns_set.run(octets.at, octets.size, &o, &rows)
    batch = columns_set.finish(rows)
    batch.rest = octets.size - used
    return batch
