# The message table: one row per protocol message. This room has the columns that all protocols share; the room `rows` of a
# protocol fills the rest of the row. Names and types: wirefmt/spec/columns.py and columns.py of the protocols.


cdef Text[4] STATUS_TEXT
STATUS_TEXT[0] = pad_text(b"ok")
STATUS_TEXT[1] = pad_text(b"partial")
STATUS_TEXT[2] = pad_text(b"gap")
STATUS_TEXT[3] = pad_text(b"malformed")


#: `error` of a row whose octets are hidden.
cdef const char* HIDDEN_OCTETS = "raw is hidden: it holds a secret (expose_credentials shows it)"


cdef int[13] ROW_COLUMNS        # of begin_row
ROW_COLUMNS = [T_TS, T_TS_NS, T_TS_FIRST, T_CAPTURE, T_FRAME_NO, T_BYTE_OFFSET, T_WIRE_SIZE, T_FLOW_ID, T_DIRECTION, T_SRC_IP,
               T_SRC_PORT, T_DST_IP, T_DST_PORT]


cdef class MessageTable(ColumnSet):
    """Rows of the message table while they are filled. columns: wirefmt.spec.table.COLUMNS, which the caller passes because it
    has the columns of all protocols."""


    def __init__(self, columns, names=None, *, bint payload=True, payload_max=None, bint expose_credentials=False,
                 bint raw=False, bint detail=False, bint vlan=False):
        self.set_columns(columns, names)
        self.options.payload = payload
        self.options.payload_max = -1 if payload_max is None else payload_max
        self.expose(expose_credentials)
        self.options.raw = raw
        self.options.detail = detail and self.cols[<int>T_DETAIL].on
        self.options.vlan = vlan and self.cols[<int>T_VLAN].on
        self.options.max_message = MAX_MESSAGE
        self.batch_rows = self.batch_bytes = 1 << 62

    cdef bint prepare_row(self, int64_t row) noexcept nogil:
        """Make `row` the next row of all columns of begin_row, and find out for how many more they have space. False: no memory.
        Prefetch the next rows: a batch is larger than the second cache, and has more columns than the processor foresees."""
        cdef int64_t ready = row + ROWS_AHEAD
        cdef Col* c
        cdef int i
        for i in ROW_COLUMNS:
            c = &self.cols[i]
            if c.on:
                if not reach_row(c, row):
                    return False
                ready = min(ready, c.capacity if c.validity == NULL else 0)
        self.ready = ready
        if row >= self.foreseen:
            if row:
                prefetch_columns(self.cols, self.n, <double>ROWS_AHEAD / <double>row)
            self.foreseen = row + ROWS_AHEAD
        return True

    cdef void put_vlans(self, int64_t row, uint64_t vlans) noexcept nogil:
        cdef Col* c = self.cols + T_VLAN
        cdef int64_t at = open_list(c, row)
        cdef int64_t i, n = <int64_t>(vlans >> VLANS_COUNT)
        if at < 0:
            return
        for i in range(n):
            put_i32(c.children, at + i, <int32_t>(vlans >> 12 * i & 0xFFF))
        close_list(c, at + n)

    cdef Batch take(self):
        """The rows so far as a Batch."""
        cdef int64_t rows = self.rows
        self.rows = self.ready = self.foreseen = 0
        return self.finish(rows)


cdef void keep_text(Text* kept, const uint8_t* p, size_t size, int64_t* buffered) noexcept nogil:
    """Replace a text that later rows repeat by a copy of these octets, and count its memory in `buffered`. Nothing changes
    if there are no octets, or memory has run out."""
    cdef uint8_t* copy
    if size == 0:
        return
    copy = <uint8_t*>calloc(1, size + TEXT_PAD)
    if copy == NULL:
        return
    memcpy(copy, p, size)
    buffered[0] -= text_octets(kept)
    free(<void*>kept.at)
    kept.at = copy
    kept.size = <int32_t>size
    kept.number = 0
    buffered[0] += text_octets(kept)
