# PHPMQ: columns in the shape of decode_batch -> messages, one per row: encode_batch. A message of a known type with exactly its
# packets is valid by construction; phpmq_parse reads other messages back.

cdef class RowEncoder(BatchEncoder):
    """The messages of encode_batch while they are written."""

    cdef PhpmqOptions options
    cdef int kind
    cdef bint broken                # a line break belongs to the end of the message before: it is written with the next message

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef int64_t row
        for row in range(rows):
            self.problem.row = row
            if source_has(self.cols + PHPMQ_B_ERROR, row):
                return refuse_text(&self.problem, self.cols + PHPMQ_B_ERROR, "the row is not a message but a decoding error")
            if self.put_row(row):
                return -1
        return 0

    cdef int put_row(self, int64_t row) noexcept nogil:
        cdef const SourceCol* c = self.cols
        cdef const SourceCol* fields = c[<int>PHPMQ_B_PHPMQ].children
        cdef Problem* x = &self.problem
        cdef bint there = source_has(c + PHPMQ_B_PHPMQ, row)
        cdef const SourceCol* column[PHPMQ_PACKET_TYPES]
        cdef Span[PHPMQ_PACKET_TYPES] content
        cdef char digits[2][24]
        cdef int64_t type = 0, number = 0, count = 0, said
        cdef size_t size = PHPMQ_MESSAGE_HEADER + 1
        cdef bint broken = there and source_flag(fields + PHPMQ_F_LINE_BROKEN, row)
        cdef Span kind
        cdef PhpmqMessageView message
        cdef uint8_t* p
        cdef uint8_t* start
        cdef int i, present = 0         # bit n: packet n is there
        # ---- which message?
        if source_span(x, c + PHPMQ_B_KIND, row, 0xFFFF, &kind):
            return -1
        if kind.at != NULL and kind.size:
            if source_name(x, c + PHPMQ_B_KIND, row, PHPMQ_KIND_TEXT, PHPMQ_MESSAGE_TYPES, &self.kind):
                return -1
            type = self.kind
        said = type
        if there and source_number(x, fields + PHPMQ_F_MESSAGE_TYPE, row, 0, 999, &said):
            return -1
        if (type and said != type) or (type == 0 and 0 < said < PHPMQ_MESSAGE_TYPES):
            return refuse_text(x, fields + PHPMQ_F_MESSAGE_TYPE, "it is not the number of the row's kind")
        if type == 0 and not (there and source_has(fields + PHPMQ_F_MESSAGE_TYPE, row)):
            return refuse(x, REFUSED_NULL, c + PHPMQ_B_KIND)
        # ---- its packets, in the order of their numbers
        column[<int>PHPMQ_PACKET_QUEUE_NAME] = c + PHPMQ_B_DESTINATION
        column[<int>PHPMQ_PACKET_CONTENT] = c + PHPMQ_B_PAYLOAD
        column[<int>PHPMQ_PACKET_MESSAGE_ID] = c + PHPMQ_B_MESSAGE_ID
        column[<int>PHPMQ_PACKET_MESSAGE_COUNT] = fields + PHPMQ_F_MESSAGE_COUNT
        column[<int>PHPMQ_PACKET_TTL] = fields + PHPMQ_F_TTL
        for i in range(1, PHPMQ_PACKET_TYPES):
            content[i].at = NULL
            if i < PHPMQ_PACKET_MESSAGE_COUNT:
                if source_span(x, column[i], row, 0x7FFFFFFF, &content[i]):
                    return -1
            elif there and source_has(column[i], row):
                number = source_integer(column[i], row)
                content[i].at = <const uint8_t*>digits[i - PHPMQ_PACKET_MESSAGE_COUNT]
                content[i].size = <uint32_t>snprintf(digits[i - PHPMQ_PACKET_MESSAGE_COUNT], sizeof(digits[0]), "%lld",
                                                     <long long>number)
            if content[i].at != NULL:
                present |= 1 << i
                count += 1
                size += PHPMQ_PACKET_HEADER + content[i].size + 3
            elif self.options.common.strict and 0 < type and phpmq_messages[type].required >> i & 1:
                return refuse(x, REFUSED_NULL, column[i])
        number = count
        if there and source_number(x, fields + PHPMQ_F_PACKET_COUNT, row, INT64_MIN, INT64_MAX, &number):
            return -1
        if number != count:
            return refuse_text(x, fields + PHPMQ_F_PACKET_COUNT, "the other columns do not hold as many packets")
        # ---- write it
        start = self.need(size)
        if start == NULL:
            return -1
        p = start
        if self.broken:
            p[0] = c"\n"
            p += 1
        p[0] = c"H"
        p = phpmq_store_digits(p + 1, 2, 1)
        p = phpmq_store_digits(p, 3, <uint64_t>said)
        p = phpmq_store_digits(p, 2, <uint64_t>count)
        for i in range(1, PHPMQ_PACKET_TYPES):
            if content[i].at == NULL:
                continue
            if broken:
                p[0] = c"\n"
                p += 1
            p[0] = c"P"
            p = phpmq_store_digits(p + 1, 2, <uint64_t>i)
            p = phpmq_store_digits(p, 29, content[i].size)
            if broken:
                p[0] = c"\n"
                p += 1
            copy_octets(p, content[i].at, content[i].size)
            p += content[i].size
        if not self.is_plain(<int>type, present, broken) and \
                phpmq_parse(start, <size_t>(p - start), &self.options, &message, &x.fault) != OK:
            return refuse(x, REFUSED_FAULT, NULL)
        self.broken = broken
        self.size += <size_t>(p - start)
        return 0

    cdef inline bint is_plain(self, int type, int present, bint broken) noexcept nogil:
        """Whether a message of these packets is certainly valid. False: phpmq_parse decides."""
        cdef const PhpmqMessageRow* row = &phpmq_messages[type]
        return type != 0 and not broken and not self.broken and not present & ~row.packets and \
            not row.required & ~present and (self.options.common.side < 0 or row.sender == self.options.common.side)


cdef inline uint8_t* phpmq_store_digits(uint8_t* p, int n, uint64_t v) noexcept nogil:
    """Write a number with `n` digits; return the position after them."""
    cdef int i = n
    memset(p, c"0", <size_t>n)
    while v and i:
        i -= 1
        p[i] = <uint8_t>(48 + v % 10)
        v //= 10
    return p + n


def encode_batch(data, *, side=None, strictness="strict"):
    """Encode columns to PHPMQ messages, one per row, in one bytes object.

    data: columns with the names and types of decode_batch's result (wirefmt.phpmq.columns.BATCH): a Batch, a pyarrow
    Table, RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or `__arrow_c_stream__`. Integers may
    have any width, strings 64-bit offsets. `kind` is required (`phpmq.message_type` for an unknown type), and the packets
    of the message; a missing column is a column of nulls. A null `phpmq.ttl` writes the early form. `byte_offset` and `wire_size`
    are ignored. side: "client" or "server", the sender. strictness: "lax" writes what decode_batch accepts by default;
    "strict" refuses what the protocol forbids.

    Raises TypeError for data that is not Arrow columns; ValueError for an invalid option, an unknown column, or a column
    of another type; EncodeError, which names column and row, for a row that does not make a valid message, or has an `error`.

    `decode_batch` of the bytes returns the same columns, except `byte_offset` and `wire_size` if lengths or line breaks were
    written differently, and except what the columns do not contain (docs/columns.md).
    """
    cdef RowEncoder encoder = RowEncoder(PHPMQ_BATCH_COLUMNS)
    encoder.tables = &PHPMQ_TABLES
    phpmq_take_options(&encoder.options, side, strictness, None)
    encoder.options.common.max_frame_size = 0
    return encoder.encode(data)
