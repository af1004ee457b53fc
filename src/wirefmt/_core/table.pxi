# The message table: one row a protocol message. Here are the columns that every protocol shares; a protocol's columns
# room fills the rest of the row. Names and types: wirefmt/spec/table.py.
#
# Uses: arrow, table_columns. Included by _core.pyx.
from wirefmt.spec.table import COLUMNS as TABLE_COLUMNS


cdef enum RowStatus:
    ROW_OK = 0
    ROW_PARTIAL = 1             # the stream or the capture ended inside the message
    ROW_GAP = 2                 # octets that were not captured, or that no frame could be found in
    ROW_MALFORMED = 3


cdef struct MessageContext:     # what the capture knows about a message, apart from its octets
    int64_t ts_ns, ts_first_ns, frame_no, byte_offset, flow_id, wire_size
    int8_t direction            # 0 client to server
    uint16_t src_port, dst_port
    Text src_ip, dst_ip         # written out; size 0: not known
    Text capture


cdef enum:
    MAX_MESSAGE = 16 << 20      # octets of a message, unless told otherwise


cdef struct TableOptions:
    uint8_t payload             # 0: payload column stays null; payload_size is there all the same
    uint8_t octets, detail      # 0: that column stays null
    int64_t payload_max         # octets of a payload that are kept; -1: all
    uint64_t max_message        # octets of a payload that is put together from several frames


cdef Text[4] STATUS_TEXT
STATUS_TEXT[0] = pad_text(b"ok")
STATUS_TEXT[1] = pad_text(b"partial")
STATUS_TEXT[2] = pad_text(b"gap")
STATUS_TEXT[3] = pad_text(b"malformed")


#: `error` of a row whose octets are not shown.
cdef const char* HIDDEN_OCTETS = "octets are hidden: they hold a secret (expose_credentials shows them)"


cdef inline int64_t floor_us(int64_t ns) noexcept nogil:
    return ns // 1000 if ns >= 0 or ns % 1000 == 0 else ns // 1000 - 1      # C's division: towards zero


cdef class MessageTable(ColumnSet):
    """Rows of the message table under construction."""

    cdef int64_t rows
    cdef int64_t all_rows                       # since the table was made
    cdef int64_t[4] status_rows                 # ... of each RowStatus
    cdef int64_t batch_rows, batch_bytes        # a batch with one of them is full
    cdef TableOptions options

    def __init__(self, names=None, *, bint payload=True, payload_max=None, bint expose_credentials=False,
                 bint octets=False, bint detail=False):
        if payload_max is not None and payload_max < 0:
            raise ValueError(f"payload_max is at least 0, not {payload_max}")
        self.set_columns(TABLE_COLUMNS, names)
        self.options.payload = payload
        self.options.payload_max = -1 if payload_max is None else payload_max
        self.expose(expose_credentials)
        self.options.octets = octets
        self.options.detail = detail and self.cols[<int>T_DETAIL].on
        self.options.max_message = MAX_MESSAGE
        self.batch_rows = self.batch_bytes = 1 << 62

    cdef inline bint is_full(self) noexcept nogil:
        """Take the rows before any more are put."""
        return self.rows >= self.batch_rows or self.tally.octets >= self.batch_bytes

    cdef Batch take(self):
        """The rows so far as a Batch."""
        cdef int64_t rows = self.rows
        self.rows = 0
        return self.finish(rows)

    cdef inline int64_t next_row(self) noexcept nogil:
        """A row of which nothing is known."""
        cdef int64_t row = self.rows
        self.rows += 1
        self.all_rows += 1
        return row

    cdef inline int64_t begin_row(self, const MessageContext* m) noexcept nogil:
        """Write what the capture knows; answers the row for the rest."""
        cdef Col* c = self.cols
        cdef int64_t row = self.next_row()
        put_i64(c + T_TS, row, floor_us(m.ts_ns))
        put_i64(c + T_TS_NS, row, m.ts_ns)
        put_i64(c + T_TS_FIRST, row, floor_us(m.ts_first_ns))
        put_text(c + T_CAPTURE, row, &m.capture)
        put_i64(c + T_FRAME_NO, row, m.frame_no)
        put_i64(c + T_BYTE_OFFSET, row, m.byte_offset)
        put_i64(c + T_WIRE_SIZE, row, m.wire_size)
        if m.src_ip.size:
            put_i64(c + T_FLOW_ID, row, m.flow_id)
            put_i8(c + T_DIRECTION, row, m.direction)
            put_text(c + T_SRC_IP, row, &m.src_ip)
            put_i32(c + T_SRC_PORT, row, m.src_port)
            put_text(c + T_DST_IP, row, &m.dst_ip)
            put_i32(c + T_DST_PORT, row, m.dst_port)
        return row

    cdef inline void put_status(self, int64_t row, int status, const char* error, int64_t size) noexcept nogil:
        """`error`, of `size` octets: why; NULL where there is nothing to say. Once for every row."""
        self.status_rows[status] += 1
        put_text(self.cols + T_STATUS, row, &STATUS_TEXT[status])
        if error != NULL:
            put_octets(self.cols + T_ERROR, row, <const uint8_t*>error, size)

    cdef inline bint hides_octets(self) noexcept nogil:
        """Are the octets of messages wanted, but not of those that hold a secret?"""
        return self.options.octets and not self.tally.exposed

    cdef inline void put_message(self, int64_t row, const uint8_t* p, size_t n) noexcept nogil:
        """The octets of a message that is whole and well-formed."""
        if self.options.octets:
            put_octets(self.cols + T_OCTETS, row, p, <int64_t>n)

    cdef inline void put_payload(self, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
        put_i64(self.cols + T_PAYLOAD_SIZE, row, n)
        if self.options.payload:
            put_octets(self.cols + T_PAYLOAD, row, p,
                       n if self.options.payload_max < 0 else min(n, self.options.payload_max))
