# Header of the kernel: the message table, and what a capture asks of a protocol.

# ---- table

cdef enum RowStatus:
    ROW_OK = 0
    ROW_PARTIAL = 1             # the stream or the capture ended inside the message
    ROW_GAP = 2                 # octets that were not captured, or in which no frame was found
    ROW_MALFORMED = 3


cdef struct MessageContext:     # what the capture knows about a message, apart from its octets
    int64_t ts_ns, ts_first_ns, frame_no, byte_offset, flow_id, wire_size
    uint64_t vlans              # of its first packet: add_vlan
    int8_t direction            # 0 client to server
    uint16_t src_port, dst_port
    Text src_ip, dst_ip         # written out
    Text capture


cdef enum:
    VLANS_MAX = 5
    VLANS_COUNT = 60            # bits below the count


cdef inline uint64_t add_vlan(uint64_t vlans, uint16_t tag) noexcept nogil:
    """VLAN identifiers and the one of a further tag (IEEE 802.1Q, 9.6). The first has the lowest 12 bits, the upper four bits
    count them; more than VLANS_MAX are left out."""
    cdef uint64_t n = vlans >> VLANS_COUNT
    if n == VLANS_MAX:
        return vlans
    return (vlans | <uint64_t>(tag & 0xFFF) << 12 * n) + (<uint64_t>1 << VLANS_COUNT)


cdef enum:
    MAX_MESSAGE = 16 << 20      # default limit of a message, in octets


cdef struct TableOptions:
    uint8_t payload             # 0: payload column stays null; payload_size is filled
    uint8_t raw, detail, vlan   # 0: that column stays null
    int64_t payload_max         # octets of a payload that are kept; -1: all
    uint64_t max_message        # octets of a payload that is assembled from several frames


cdef Text[4] STATUS_TEXT
cdef const char* HIDDEN_OCTETS
cdef inline int64_t floor_us(int64_t ns) noexcept nogil:
    return <int64_t>(<uint64_t>ns // 1000) if ns >= 0 else -1 - (-1 - ns) // 1000       # C's division: towards zero


cdef class MessageTable(ColumnSet):
    cdef int64_t rows
    cdef int64_t all_rows                       # since the table was made
    cdef int64_t[4] status_rows                 # ... of each RowStatus
    cdef int64_t batch_rows, batch_bytes        # a batch with one of them is full
    cdef int64_t ready                          # earlier rows have space in the columns of begin_row, and no null before them
    cdef int64_t foreseen                       # the memory of earlier rows has been prefetched
    cdef TableOptions options

    cdef inline bint is_full(self) noexcept nogil:
        """Must the rows be taken before others are put?"""
        return self.rows >= self.batch_rows or self.shared.octets >= self.batch_bytes

    cdef Batch take(self)

    cdef inline int64_t next_row(self) noexcept nogil:
        """An empty row."""
        cdef int64_t row = self.rows
        self.rows += 1
        self.all_rows += 1
        self.ready = 0
        return row

    cdef inline int64_t begin_row(self, const MessageContext* m) noexcept nogil:
        """Begin a row with the values that the capture knows. Returns its number."""
        cdef Col* c = self.cols
        cdef int64_t row = self.rows
        self.rows += 1
        self.all_rows += 1
        if row >= self.ready and not self.prepare_row(row):
            return row
        if c[<int>T_TS].on:
            set_i64(c + T_TS, row, floor_us(m.ts_ns))
        set_i64(c + T_TS_NS, row, m.ts_ns)
        if c[<int>T_TS_FIRST].on:
            set_i64(c + T_TS_FIRST, row, floor_us(m.ts_first_ns))
        set_text(c + T_CAPTURE, row, &m.capture)
        set_i64(c + T_FRAME_NO, row, m.frame_no)
        set_i64(c + T_BYTE_OFFSET, row, m.byte_offset)
        set_i64(c + T_WIRE_SIZE, row, m.wire_size)
        set_i64(c + T_FLOW_ID, row, m.flow_id)
        set_i8(c + T_DIRECTION, row, m.direction)
        set_text(c + T_SRC_IP, row, &m.src_ip)
        set_i32(c + T_SRC_PORT, row, m.src_port)
        set_text(c + T_DST_IP, row, &m.dst_ip)
        set_i32(c + T_DST_PORT, row, m.dst_port)
        if self.options.vlan and m.vlans:
            self.put_vlans(row, m.vlans)
        return row

    cdef bint prepare_row(self, int64_t row) noexcept nogil
    cdef void put_vlans(self, int64_t row, uint64_t vlans) noexcept nogil

    cdef inline void put_status(self, int64_t row, int status, const char* error, int64_t size) noexcept nogil:
        """Set status and `error` (`size` octets; NULL: null). Called once for every row."""
        self.status_rows[status] += 1
        put_text(self.cols + T_STATUS, row, &STATUS_TEXT[status])
        if error != NULL:
            put_octets(self.cols + T_ERROR, row, <const uint8_t*>error, size)

    cdef inline void put_accepted(self, int64_t row, const ProtocolTables* tables, const Notes* notes) noexcept nogil:
        """The status of a whole message; `error` has the first violation that LAX accepted."""
        cdef char[256] text
        if notes.check:
            self.put_status(row, ROW_OK, text, note_text(tables, notes, 0, text, sizeof(text)))
        else:
            self.put_status(row, ROW_OK, NULL, 0)

    cdef inline void put_malformed(self, int64_t row, const ProtocolTables* tables, const Fault* f) noexcept nogil:
        """The status of a message with a fault."""
        cdef char[256] text
        self.put_status(row, ROW_MALFORMED, text, fault_text(tables, f, 0, text, sizeof(text)))

    cdef inline bint hides_octets(self) noexcept nogil:
        """Does the caller want the octets of messages except those with secrets?"""
        return self.options.raw and not self.shared.exposed

    cdef inline void put_message(self, int64_t row, const uint8_t* p, size_t n) noexcept nogil:
        """Put the octets of a whole, well-formed message."""
        if self.options.raw:
            put_octets(self.cols + T_RAW, row, p, <int64_t>n)

    cdef inline void put_payload(self, int64_t row, const uint8_t* p, int64_t n) noexcept nogil:
        put_i64(self.cols + T_PAYLOAD_SIZE, row, n)
        if self.options.payload and self.cols[<int>T_PAYLOAD].on:
            put_octets(self.cols + T_PAYLOAD, row, p,
                       n if self.options.payload_max < 0 else min(n, self.options.payload_max))


# ---- texts of a connection

cdef void keep_text(Text* kept, const uint8_t* p, size_t size, int64_t* buffered) noexcept nogil
cdef inline int64_t text_octets(const Text* t) noexcept nogil:
    """Memory of an allocated Text with its TEXT_PAD; 0 if it is empty."""
    return t.size + TEXT_PAD + BLOCK_OCTETS if t.size else 0


# ---- detail

cdef enum:
    LINE_MAX = 200                  # octets
    LINE_CUT = 197                  # octets before the ellipsis of a truncated line
    LINE_VALUE = 100                # octets of a name; explanatory texts may fill the line
    LINE_HEX = 16                   # octets of a binary value that are written
    DETAIL_FIELDS = 2048            # of all kinds of messages


cdef struct DetailLine:
    int size
    int safe                        # where it may be truncated: at most LINE_CUT, not inside a character or an escape
    bint cut
    uint8_t[LINE_MAX] at


cdef struct DetailField:
    Text label                      # with its `=`; size 0: no label
    int16_t what                    # which field, in the protocol's numbers
    uint8_t some                    # it is omitted if it is zero or empty
    uint8_t both                    # a flag that is written if it is false, too


cdef struct DetailForm:             # the fields of one kind of message, rows of DETAIL_FIELD
    int first, count


cdef DetailField[DETAIL_FIELDS] DETAIL_FIELD
cdef int detail_form(str words, dict fields, DetailForm* form) except -1
cdef inline void line_begin(DetailLine* l) noexcept nogil:
    l.size = l.safe = 0
    l.cut = False


cdef inline void line_piece(DetailLine* l, const void* p, int n) noexcept nogil:
    """Add octets that must not be separated: a character, an escape."""
    if l.cut:
        return
    if n > LINE_MAX - l.size:
        memcpy(l.at + l.safe, b"\xe2\x80\xa6", 3)
        l.size = l.safe + 3
        l.cut = True
        return
    memcpy(l.at + l.size, p, <size_t>n)
    l.size += n
    if l.size <= LINE_CUT:
        l.safe = l.size


cdef inline void line_ascii(DetailLine* l, const uint8_t* p, int64_t n) noexcept nogil:
    """Add ASCII that needs no escape."""
    cdef int64_t i
    if not l.cut and n <= LINE_CUT - l.size:
        memcpy(l.at + l.size, p, <size_t>n)
        l.size += <int>n
        l.safe = l.size
        return
    for i in range(n):
        line_piece(l, p + i, 1)


cdef inline void line_words(DetailLine* l, const char* text) noexcept nogil:
    line_ascii(l, <const uint8_t*>text, <int64_t>strlen(text))


cdef inline void line_space(DetailLine* l) noexcept nogil:
    """Separate two fields."""
    if l.size:
        line_piece(l, b" ", 1)


cdef void line_field(DetailLine* l, const DetailField* f) noexcept nogil
cdef void line_number(DetailLine* l, const DetailField* f, bint negative, uint64_t v) noexcept nogil
cdef void line_digits(DetailLine* l, bint negative, uint64_t v) noexcept nogil
cdef inline void line_signed(DetailLine* l, const DetailField* f, int64_t v) noexcept nogil:
    line_number(l, f, v < 0, <uint64_t>0 - <uint64_t>v if v < 0 else <uint64_t>v)


cdef void line_flag(DetailLine* l, const DetailField* f, bint set_) noexcept nogil
cdef void line_name(DetailLine* l, const DetailField* f, const Text* name) noexcept nogil
cdef inline void line_text(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil:
    """A field with a name, at most LINE_VALUE octets of it. An absent one is omitted."""
    line_value(l, f, s, LINE_VALUE)


cdef inline void line_prose(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil:
    """A field with explanatory text, truncated to fit the line."""
    line_value(l, f, s, LINE_MAX)


cdef void line_value(DetailLine* l, const DetailField* f, const Span* s, int most) noexcept nogil
cdef void line_string(DetailLine* l, const Span* s, int most) noexcept nogil
cdef void line_binary(DetailLine* l, const DetailField* f, const Span* s) noexcept nogil
cdef void line_octets(DetailLine* l, const Span* s) noexcept nogil
cdef inline Span span_of(const uint8_t* at, size_t size) noexcept nogil:
    cdef Span s
    s.at = at
    s.size = <uint32_t>min(size, <size_t>0xFFFFFFFF)
    return s


cdef inline void put_line(MessageTable t, int64_t row, const DetailLine* l) noexcept nogil:
    """Put the row's `detail`; null if the line is empty."""
    if l.size:
        put_octets(t.cols + T_DETAIL, row, l.at, l.size)


# ---- protocol

cdef enum Verdict:
    NO = 0
    YES = 1
    MORE = 2                    # more octets are needed to decide
    SERVERS = 3                 # sniff: yes, and the server sent them


cdef enum Carrier:              # the encoding that carries a stream
    CARRIER_PLAIN = 0
    CARRIER_DEFLATE             # RFC 1951, one stream per direction
    CARRIER_SNAPPY              # the framing format
    CARRIER_TLS                 # not decoded


cdef struct ProtocolState:      # the beginning of every protocol's state
    int64_t buffered            # octets of memory that the state has allocated, including its own: counted in max_buffered


cdef struct Protocol:           # `state` is one connection's; direction: 0 client to server
    Text name
    Text subprotocol            # Sec-WebSocket-Protocol; size 0: not carried by WebSockets
    bint both_open              # a server's first octets may be those of a client
    # do these octets, the first of a stream, open a connection of this protocol? YES: as a client's; SERVERS: as a server's
    int (*sniff)(const uint8_t* p, size_t n) noexcept nogil
    # the size of a frame. Returns a Status; NEED_DATA until the size is known, `size` may then be the octets that are needed.
    # `limit`: octets of a frame; 0: the protocol's default
    int (*frame_size)(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                      Fault* f) noexcept nogil
    # could a frame begin here? YES: a whole, valid one of `size` octets; MORE: call again when `size` octets are available.
    # `state` may be NULL: nothing is known about the connection
    int (*probe)(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil
    # called for every whole frame found after a gap, before any of them becomes a row: infer the state of the connection.
    # NULL: frames stand alone
    void (*observe)(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil
    # put, put_part and flush return False if the table became full before their last row. When the batch has been taken, they
    # are called again with the same arguments and continue; no other function is called for the connection in between. Every
    # function that puts more than a few rows does this, but not for a frame after which the `carrier` changes.
    #
    # put the rows that exactly one whole frame completes: none (the frame is part of a message), one or several. The row of a
    # message of several frames has `ts_first_ns`, `vlans` and `byte_offset` of the first frame, the sum of the sizes, and other
    # values of the last frame. What a protocol keeps for pending messages is bounded
    bint (*put)(MessageTable t, const MessageContext* m, void* state, bint strict, const uint8_t* p, size_t n) noexcept nogil
    # the fast path: put the row of a message whose frames all lie at p[:n], as frame_size and put of each frame would;
    # `m.wire_size` becomes the sum. Returns their octets; 0: the fast path does not read them, nothing was done. NULL: there
    # is no fast path. Nothing that the state holds changes, and the capture knows its `carrier`
    size_t (*put_fast)(MessageTable t, MessageContext* m, void* state, bint strict, const uint8_t* p,
                       size_t n) noexcept nogil
    int64_t fast_buffered                  # octets that `put` of such frames would buffer meanwhile: they need space
    # put a row for a frame of which only the first `n` octets are available; `text` has the reason. NULL: a row without fields
    bint (*put_part)(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                     const char* text, size_t text_size) noexcept nogil
    # after a gap, or at the end: put `partial` rows for the pending messages of this direction; NULL: every frame is a message
    bint (*flush)(MessageTable t, void* state, int direction, const char* text, size_t text_size) noexcept nogil
    # the encoding of both directions after the frames that were put, as they have negotiated; NULL: always CARRIER_PLAIN
    int (*carrier)(void* state) noexcept nogil
    size_t state_size                       # octets of the state of one connection, which begins with a ProtocolState
    void (*clear)(void* state) noexcept nogil       # free what the state holds; NULL: nothing
    const ProtocolTables* tables            # of the faults of frame_size()


cdef object protocol_capsule(const Protocol* row)
cdef const Protocol* protocol_row(object capsule) except NULL
cdef void* open_state(const Protocol* protocol) noexcept nogil
cdef void close_state(const Protocol* protocol, void* state) noexcept nogil
