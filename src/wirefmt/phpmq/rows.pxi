# PHPMQ messages -> columns: rows of the message table, and decode_batch for one direction.
#
# Both use phpmq_parse, so they agree with the message objects.
from wirefmt.phpmq.columns import BATCH as PHPMQ_BATCH_COLUMNS, OPERATIONS as PHPMQ_OPERATION_ROWS


cdef Text[PHPMQ_MESSAGE_TYPES] PHPMQ_KIND_TEXT
cdef Text[PHPMQ_MESSAGE_TYPES] PHPMQ_OPERATION_TEXT
cdef Text PHPMQ_PROTOCOL_TEXT = pad_text(b"phpmq")
cdef Text PHPMQ_VERSION_TEXT = pad_text(b"01")
cdef int64_t PHPMQ_TTL_MAX = (1 << 63) // 1000      # seconds that milliseconds in 64 bits can express


cdef int fill_phpmq_tables() except -1:
    cdef int i
    for i in range(<int>PHPMQ_MESSAGE_TYPES):
        name = phpmq_message_name[i].decode("ascii")
        PHPMQ_KIND_TEXT[i] = pad_text(name.encode())
        PHPMQ_OPERATION_TEXT[i] = pad_text(PHPMQ_OPERATION_ROWS.get(name, "").encode())
    return 0


fill_phpmq_tables()


cdef inline int phpmq_row_of(const PhpmqMessageView* m) noexcept nogil:
    """The message type's row; 0: unknown."""
    return <int>m.type if 0 < m.type < PHPMQ_MESSAGE_TYPES else 0


cdef void phpmq_put_text(Col* c, int64_t row, const Span* v) noexcept nogil:
    """Put a packet into a text column."""
    cdef uint8_t[HEX_SIZE] hex
    cdef Span shown
    if v.at != NULL:
        text_or_hex(v, hex, &shown)
        put_span(c, row, &shown)


cdef void phpmq_put_struct(Col* c, int64_t row, const PhpmqMessageView* m) noexcept nogil:
    cdef Col* f = c.children
    put_struct(c, row)
    put_i64(f + PHPMQ_F_MESSAGE_TYPE, row, m.type)
    put_i32(f + PHPMQ_F_PACKET_COUNT, row, <int32_t>m.packet_count)
    if m.has_count:
        put_i64(f + PHPMQ_F_MESSAGE_COUNT, row, m.message_count)
    if m.has_ttl:
        put_i64(f + PHPMQ_F_TTL, row, m.ttl)
    put_bool(f + PHPMQ_F_LINE_BROKEN, row, m.line_broken)


cdef void phpmq_put_row(MessageTable t, int64_t row, const PhpmqMessageView* m) noexcept nogil:
    """Fill PHPMQ's part of a row that begin_row began. The caller sets status and error."""
    cdef Col* c = t.cols
    cdef const Span* content = &m.content[<int>PHPMQ_PACKET_CONTENT]
    put_text(c + T_PROTOCOL, row, &PHPMQ_PROTOCOL_TEXT)
    if m.version == 1:
        put_text(c + T_VERSION, row, &PHPMQ_VERSION_TEXT)
    if phpmq_row_of(m):
        put_text(c + T_KIND, row, &PHPMQ_KIND_TEXT[phpmq_row_of(m)])
        put_text(c + T_OPERATION, row, &PHPMQ_OPERATION_TEXT[phpmq_row_of(m)])
    phpmq_put_text(c + T_DESTINATION, row, &m.content[<int>PHPMQ_PACKET_QUEUE_NAME])
    phpmq_put_text(c + T_MESSAGE_ID, row, &m.content[<int>PHPMQ_PACKET_MESSAGE_ID])
    if m.has_ttl and -PHPMQ_TTL_MAX <= m.ttl <= PHPMQ_TTL_MAX:
        put_i64(c + T_TTL_MS, row, m.ttl * 1000)
    if content.at != NULL:
        t.put_payload(row, content.at, content.size)
    phpmq_put_struct(c + T_PHPMQ, row, m)
