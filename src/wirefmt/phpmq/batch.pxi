# PHPMQ: octets -> columns, one row per message: decode_batch.

cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are built."""

    cdef bint payload
    cdef PhpmqOptions options

    cdef void put(self, int64_t offset, const PhpmqMessageView* m) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        self.put_place(offset, m.size)
        put_text(c + PHPMQ_B_KIND, row, &PHPMQ_KIND_TEXT[phpmq_row_of(m)])
        phpmq_put_text(c + PHPMQ_B_DESTINATION, row, &m.content[<int>PHPMQ_PACKET_QUEUE_NAME])
        phpmq_put_text(c + PHPMQ_B_MESSAGE_ID, row, &m.content[<int>PHPMQ_PACKET_MESSAGE_ID])
        if self.payload:
            put_span(c + PHPMQ_B_PAYLOAD, row, &m.content[<int>PHPMQ_PACKET_CONTENT])
        phpmq_put_struct(c + PHPMQ_B_PHPMQ, row, m)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return phpmq_frame_size(p, n, &self.options, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef PhpmqMessageView m
        cdef int status = phpmq_parse(p, n, &self.options, &m, f)
        if status != OK:
            return status
        self.put(at, &m)
        self.row += 1
        return OK


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
    cdef BatchColumns columns_set = BatchColumns(PHPMQ_BATCH_COLUMNS, columns)
    phpmq_take_options(&columns_set.options, side, strictness, limits)
    columns_set.payload = payload
    return columns_set.decode(&PHPMQ_TABLES, octets, PHPMQ_B_PAYLOAD if payload else -1)
