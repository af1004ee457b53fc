# NSQ: columns in the shape of decode_batch -> commands or frames, one per row: encode_batch.
#
# Message frames are written without a check: they violate no rule, whatever they contain. A PUB with a valid name and a body is
# valid, too. nsq_parse reads everything else back, so that it decides what is a valid command.

cdef class RowEncoder(BatchEncoder):
    """The commands or frames of encode_batch while they are written."""

    cdef NsqOptions options
    cdef int kind
    cdef bint begun                 # the direction is known

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef int64_t row
        cdef bint server
        for row in range(rows):
            x.row = row
            if source_has(c + NSQ_B_ERROR, row):
                return refuse_text(x, c + NSQ_B_ERROR, "the row is not a command or frame but a decoding error")
            if source_name(x, c + NSQ_B_KIND, row, NSQ_KIND_TEXT, NSQ_KINDS, &self.kind):
                return -1
            server = self.kind >= NSQ_FRAMES
            if self.options.common.side == NSQ_EITHER:
                self.options.common.side = NSQ_SERVER if server else NSQ_CLIENT
            if server != (self.options.common.side == NSQ_SERVER):
                return refuse_text(x, c + NSQ_B_KIND, "it is sent in the other direction")
            if self.kind == NSQ_MESSAGE:
                if self.put_message(row):
                    return -1
            elif self.put_unit(row):
                return -1
            self.options.magic = NSQ_MAGIC_BEFORE
        return 0

    cdef int put_message(self, int64_t row) noexcept nogil:
        """A message frame."""
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef int64_t timestamp = 0, attempts = 0, size = 0
        cdef const uint8_t* body = NULL
        cdef Span id
        cdef uint8_t* p
        if source_needed_span(x, c + NSQ_B_MESSAGE_ID, row, NSQ_MESSAGE_ID_SIZE, &id) or \
                source_needed_number(x, c + NSQ_B_TIMESTAMP_NS, row, INT64_MIN, INT64_MAX, &timestamp) or \
                source_needed_number(x, c + NSQ_B_ATTEMPTS, row, 0, 0xFFFF, &attempts):
            return -1
        if id.size != NSQ_MESSAGE_ID_SIZE:
            return refuse_text(x, c + NSQ_B_MESSAGE_ID, "a message id has 16 bytes")
        if not source_has(c + NSQ_B_PAYLOAD, row):
            return refuse(x, REFUSED_NULL, c + NSQ_B_PAYLOAD)
        if source_octets(x, c + NSQ_B_PAYLOAD, row, &body, &size):
            return -1
        if size > 0x7FFFFFFF - 4 - NSQ_MESSAGE_HEADER_SIZE:
            return refuse_size(x, c + NSQ_B_PAYLOAD, size, 0x7FFFFFFF - 4 - NSQ_MESSAGE_HEADER_SIZE)
        p = self.need(34 + <size_t>size)
        if p == NULL:
            return -1
        store_u32(p, <uint32_t>(4 + NSQ_MESSAGE_HEADER_SIZE + size))
        store_u32(p + 4, 2)
        store_u32(p + 8, <uint32_t>(<uint64_t>timestamp >> 32))
        store_u32(p + 12, <uint32_t>timestamp)
        store_u16(p + 16, <uint16_t>attempts)
        memcpy(p + 18, id.at, NSQ_MESSAGE_ID_SIZE)
        copy_octets(p + 34, body, <size_t>size)
        self.size += 34 + <size_t>size
        return 0

    cdef int put_unit(self, int64_t row) noexcept nogil:
        """Any other command or frame."""
        cdef Octets* o = &self.scratch
        cdef int kind = self.kind
        cdef const uint8_t* body = NULL
        cdef int64_t size = 0
        cdef NsqUnitView unit
        cdef uint8_t* p
        o.size = 0
        if kind == NSQ_MAGIC:
            add_octets(o, b"  V2", 4)
        elif kind == NSQ_RESPONSE or kind == NSQ_ERROR:
            if self.put_frame(row, kind):
                return -1
        elif kind == NSQ_FRAME or kind == NSQ_COMMAND:
            return refuse_text(&self.problem, self.cols + NSQ_B_KIND, "the columns do not hold what is of no known kind")
        elif self.put_command(row, kind, &body, &size):
            return -1
        if o.failed:
            return refuse(&self.problem, REFUSED_MEMORY, NULL)
        p = self.need(o.size + <size_t>size)
        if p == NULL:
            return -1
        if o.size:
            memcpy(p, o.at, o.size)
        if size:
            copy_octets(p + o.size, body, <size_t>size)
        if not (kind == NSQ_PUB and size and nsq_name_fault(p + 4, o.size - 9) == NULL) and \
                nsq_parse(p, o.size + <size_t>size, &self.options, &unit, &self.problem.fault) != OK:
            return refuse(&self.problem, REFUSED_FAULT, NULL)
        self.size += o.size + <size_t>size
        return 0

    # ---- commands

    cdef int put_command(self, int64_t row, int kind, const uint8_t** body, int64_t* size) noexcept nogil:
        """Write a line, the size of a body, and the part of the body that is not one column's value; `body` is the rest."""
        cdef const SourceCol* c = self.cols
        cdef const NsqCommandRow* command = &nsq_commands[kind]
        cdef Octets* o = &self.scratch
        cdef Problem* x = &self.problem
        cdef const SourceCol* column
        cdef size_t mark
        cdef bint over = False                          # LAX: the line ended before a missing word
        cdef int i
        add_octets(o, <const uint8_t*>nsq_kind_name[kind], strlen(nsq_kind_name[kind]))
        for i in range(2):
            if command.words[i] and self.put_word(row, kind, command.words[i], &over):
                return -1
        add_u8(o, c"\n")
        if command.body == NSQ_BODY_NONE:
            return 0
        mark = o.size
        add_u32(o, 0)
        if command.body == NSQ_BODY_MESSAGES:
            if self.put_bodies(row):
                return -1
        elif command.body == NSQ_BODY_JSON:
            if self.put_json(row):
                return -1
        else:
            column = c + NSQ_B_PAYLOAD if command.body == NSQ_BODY_MESSAGE else c[<int>NSQ_B_NSQ].children + NSQ_F_SECRET
            if (command.body != NSQ_BODY_MESSAGE and not source_has(c + NSQ_B_NSQ, row)) or not source_has(column, row):
                return refuse(x, REFUSED_NULL, column)
            if source_octets(x, column, row, body, size):
                return -1
        if size[0] > 0x7FFFFFFF or o.size - mark - 4 > 0x7FFFFFFF:
            return refuse_size(x, NULL, max(size[0], <int64_t>o.size), 0x7FFFFFFF)
        if not o.failed:
            store_u32(o.at + mark, <uint32_t>(o.size - mark - 4) + <uint32_t>size[0])
        return 0

    cdef int put_word(self, int64_t row, int kind, int word, bint* over) noexcept nogil:
        """Write a space and a word of the line. LAX omits missing words."""
        cdef const SourceCol* c = self.cols
        cdef const SourceCol* f = c[<int>NSQ_B_NSQ].children
        cdef const SourceCol* column
        cdef Problem* x = &self.problem
        cdef char[24] digits
        cdef Span v
        cdef int64_t number = 0
        cdef bint is_number = word == NSQ_WORD_COUNT or word == NSQ_WORD_MILLISECONDS
        cdef bint there
        column = (c + NSQ_B_DESTINATION if word == NSQ_WORD_TOPIC else c + NSQ_B_CONSUMER_GROUP if word == NSQ_WORD_CHANNEL else
                  c + NSQ_B_MESSAGE_ID if word == NSQ_WORD_MESSAGE_ID else
                  f + NSQ_F_RDY_COUNT if word == NSQ_WORD_COUNT else f + NSQ_F_TIMEOUT_MS)
        there = source_has(column, row) and (not is_number or source_has(c + NSQ_B_NSQ, row))
        if not there and (self.options.common.strict or word == NSQ_WORD_COUNT):       # RDY without a count is RDY 1
            return refuse(x, REFUSED_NULL, column)
        if there and over[0]:
            return refuse_text(x, column, "the word before it is null")
        over[0] = not there
        if not there:
            return 0
        add_u8(&self.scratch, c" ")
        if is_number:
            if source_number(x, column, row, INT64_MIN if not self.options.common.strict else 0, INT64_MAX, &number):
                return -1
            add_octets(&self.scratch, <const uint8_t*>digits,
                       <size_t>snprintf(digits, sizeof(digits), "%llu", <unsigned long long>number))
            return 0
        if source_span(x, column, row, NSQ_LINE_MAX, &v):
            return -1
        if memchr(v.at, 0x20, v.size) != NULL or memchr(v.at, 0x0A, v.size) != NULL or \
                (v.size and v.at[v.size - 1] == 0x0D):          # a line may end with CR LF
            return refuse_text(x, column, "a word has no space and no line break")
        add_octets(&self.scratch, v.at, v.size)
        return 0

    cdef int put_bodies(self, int64_t row) noexcept nogil:
        """MPUB: a count, and messages after their sizes."""
        cdef const SourceCol* list_ = self.cols[<int>NSQ_B_NSQ].children + NSQ_F_BODIES
        cdef Octets* o = &self.scratch
        cdef int64_t at = 0, end = 0, size = 0
        cdef const uint8_t* p = NULL
        if not source_has(self.cols + NSQ_B_NSQ, row) or not source_has(list_, row):
            return refuse(&self.problem, REFUSED_NULL, list_)
        if source_range(&self.problem, list_, row, &at, &end):
            return -1
        if end - at > 0x7FFFFFFF:
            return refuse_size(&self.problem, list_, end - at, 0x7FFFFFFF)
        add_u32(o, <uint32_t>(end - at))
        while at < end and o.size <= 0x7FFFFFFF:
            if not source_has(list_.children, at):
                return refuse(&self.problem, REFUSED_NULL, list_.children)
            if source_octets(&self.problem, list_.children, at, &p, &size):
                return -1
            if size > 0x7FFFFFFF:
                return refuse_size(&self.problem, list_.children, size, 0x7FFFFFFF)
            add_u32(o, <uint32_t>size)
            add_octets(o, p, <size_t>size)
            at += 1
        return 0

    # ---- JSON of IDENTIFY

    cdef int put_json(self, int64_t row) noexcept nogil:
        """The members that have columns."""
        cdef const SourceCol* f = self.cols[<int>NSQ_B_NSQ].children
        cdef Octets* o = &self.scratch
        cdef char[24] digits
        cdef bint first = True
        cdef int64_t number = 0
        cdef size_t bad = 0
        cdef Span v
        cdef int i
        add_u8(o, c"{")
        for i in range(NSQ_F_HOSTNAME, NSQ_F_PERMISSION_COUNT + 1):
            if not source_has(self.cols + NSQ_B_NSQ, row) or not source_has(f + i, row):
                continue
            if not first:
                add_u8(o, c",")
            first = False
            add_u8(o, c"\"")
            add_octets(o, NSQ_JSON_NAME[i].at, <size_t>NSQ_JSON_NAME[i].size)
            add_octets(o, b"\":", 2)
            if NSQ_JSON_KIND[i] == NSQ_TYPE_STRING:
                if source_span(&self.problem, f + i, row, 0x7FFFFFFF, &v):
                    return -1
                if not is_utf8(v.at, v.size, &bad):
                    return refuse_text(&self.problem, f + i, "ill-formed UTF-8")
                add_json_string(o, v.at, v.size, True)
            elif NSQ_JSON_KIND[i] == NSQ_TYPE_BOOLEAN:
                if source_bit(f + i, row):
                    add_octets(o, b"true", 4)
                else:
                    add_octets(o, b"false", 5)
            else:
                if source_number(&self.problem, f + i, row, INT64_MIN, INT64_MAX, &number):
                    return -1
                add_octets(o, <const uint8_t*>digits,
                           <size_t>snprintf(digits, sizeof(digits), "%lld", <long long>number))
        add_u8(o, c"}")
        return 0

    # ---- frames

    cdef int put_frame(self, int64_t row, int kind) noexcept nogil:
        """A response, or an error: its code and, after a space, its text."""
        cdef const SourceCol* f = self.cols[<int>NSQ_B_NSQ].children
        cdef Octets* o = &self.scratch
        cdef Problem* x = &self.problem
        cdef const SourceCol* column = f + (NSQ_F_RESPONSE if kind == NSQ_RESPONSE else NSQ_F_ERROR_CODE)
        cdef Span v
        cdef size_t bad = 0
        if not source_has(self.cols + NSQ_B_NSQ, row):
            return refuse(x, REFUSED_NULL, column)
        add_u32(o, 0)
        add_u32(o, <uint32_t>(kind - NSQ_RESPONSE))
        if source_needed_span(x, column, row, 0x3FFFFFFF, &v):
            return -1
        if kind == NSQ_ERROR and memchr(v.at, 0x20, v.size) != NULL:
            return refuse_text(x, column, "a code has no space")
        if not is_utf8(v.at, v.size, &bad):
            return refuse_text(x, column, "ill-formed UTF-8")
        add_octets(o, v.at, v.size)
        if kind == NSQ_ERROR and source_has(f + NSQ_F_ERROR_TEXT, row):
            column = f + NSQ_F_ERROR_TEXT
            if source_span(x, column, row, 0x3FFFFFFF, &v):
                return -1
            if not is_utf8(v.at, v.size, &bad):
                return refuse_text(x, column, "ill-formed UTF-8")
            add_u8(o, c" ")
            add_octets(o, v.at, v.size)
        if not o.failed:
            store_u32(o.at, <uint32_t>(o.size - 4))
        return 0


def encode_batch(data, *, side=None, strictness="strict"):
    """Encode columns to NSQ commands or frames, one per row, in one bytes object.

    data: columns with the names and types of decode_batch's result (wirefmt.nsq.columns.BATCH): a Batch, a pyarrow Table,
    RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or `__arrow_c_stream__`. Integers may have
    any width, strings and lists 64-bit offsets. `kind` is required, and the values that the command or frame must have; a
    missing column is a column of nulls. `byte_offset`, `wire_size`, `nsq.frame_type`, `nsq.message_count` and `nsq.fatal` are
    ignored. side: "client" or "server", the sender; None: the first row decides. strictness: "lax" writes what decode_batch
    accepts by default; "strict" refuses what no nsqd accepts.

    Raises TypeError for data that is not Arrow columns; ValueError for an invalid option, an unknown column, or a column
    of another type; EncodeError, which names column and row, for a row that does not make a valid command or frame, or has an
    `error`.

    `decode_batch` of the bytes returns the same columns, except `byte_offset` and `wire_size` if JSON or a line was written
    differently, and except what the columns do not contain (docs/columns.md).
    """
    cdef RowEncoder encoder = RowEncoder(NSQ_BATCH_COLUMNS)
    encoder.tables = &NSQ_TABLES
    nsq_take_options(&encoder.options, side, strictness, None, None)
    nsq_plain_options(&encoder.options, encoder.options.common.side, encoder.options.common.strict)
    encoder.options.magic = NSQ_MAGIC_PERHAPS
    return encoder.encode(data)
