# RocketMQ: columns in the shape of decode_batch -> frames, one per row: encode_batch.
#
# The checks here exclude everything that the real reader refuses, so the frames are not read back.

cdef enum:
    ROCKETMQ_LANGUAGE_NONE = 0xFF   # a number of no language: null in the binary header


cdef void rocketmq_add_string(Octets* o, const uint8_t* p, size_t n) noexcept nogil:
    """UTF-8 in quotes, as write_java_octets writes it."""
    cdef const uint8_t* end = p + n
    cdef size_t start = o.size
    cdef uint8_t* begin = extend_octets(o, 6 * n + 2 + JAVA_STEP)
    cdef uint8_t* out = begin
    if begin == NULL:
        return
    out[0] = c'"'
    out += 1
    while p < end:
        write_java_step(&p, end, &out)
    out[0] = c'"'
    o.size = start + <size_t>(out + 1 - begin)


cdef void rocketmq_add_decimal(Octets* o, int64_t number) noexcept nogil:
    cdef uint8_t[DIGITS_CAPACITY] digits
    add_octets(o, digits, <size_t>write_signed(number, digits))


cdef inline void rocketmq_add_words(Octets* o, const char* text) noexcept nogil:
    add_octets(o, <const uint8_t*>text, strlen(text))


cdef class RowEncoder(BatchEncoder):
    """The frames of encode_batch while they are written."""

    cdef int serialize_type, language

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef int64_t row
        for row in range(rows):
            self.problem.row = row
            if source_has(self.cols + RB_ERROR, row):
                return refuse_text(&self.problem, self.cols + RB_ERROR, "the row is not a frame but a decoding error")
            if self.put_row(row):
                return -1
        return 0

    cdef int put_row(self, int64_t row) noexcept nogil:
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef const uint8_t* body = NULL
        cdef int64_t size = 0, low = INT32_MIN, high = INT32_MAX
        cdef int64_t code = 0, flag = 0, version = 0, opaque = 0
        cdef bint binary
        cdef uint8_t* p
        o.size = 0
        if source_name(x, c + RB_SERIALIZE_TYPE, row, ROCKETMQ_SERIALIZE_TEXT, 2, &self.serialize_type):
            return -1
        binary = self.serialize_type == ROCKETMQ_BINARY
        if binary:
            low, high = -0x8000, 0x7FFF
        if source_needed_number(x, c + RB_CODE, row, low, high, &code) or \
                source_number(x, c + RB_VERSION, row, low, high, &version) or \
                source_number(x, c + RB_FLAG, row, INT32_MIN, INT32_MAX, &flag) or \
                source_number(x, c + RB_SEQUENCE, row, INT32_MIN, INT32_MAX, &opaque):
            return -1
        if source_has(c + RB_LANGUAGE, row) and \
                source_name(x, c + RB_LANGUAGE, row, ROCKETMQ_LANGUAGE_TEXT, ROCKETMQ_LANGUAGES, &self.language):
            return -1
        if binary:
            if not source_has(c + RB_SEQUENCE, row):
                return refuse(x, REFUSED_NULL, c + RB_SEQUENCE)
            add_u16(o, <uint16_t>code)
            add_u8(o, <uint8_t>(self.language if source_has(c + RB_LANGUAGE, row) else ROCKETMQ_LANGUAGE_NONE))
            add_u16(o, <uint16_t>version)
            add_u32(o, <uint32_t>opaque)
            add_u32(o, <uint32_t>flag)
            if self.put_binary_remark(row) or self.put_fields(row, <int>code, True):
                return -1
        elif self.put_json(row, code, flag, version, opaque):
            return -1
        if o.failed:
            return refuse(x, REFUSED_MEMORY, NULL)
        if source_has(c + RB_PAYLOAD, row) and source_octets(x, c + RB_PAYLOAD, row, &body, &size):
            return -1
        if o.size > 0xFFFFFF:
            return refuse_size(x, c + RB_EXT_FIELDS, <int64_t>o.size, 0xFFFFFF)
        if size > ROCKETMQ_FRAME_MAX - 8 - <int64_t>o.size:
            return refuse_size(x, c + RB_PAYLOAD, size, ROCKETMQ_FRAME_MAX - 8 - <int64_t>o.size)
        p = self.need(8 + o.size + <size_t>size)
        if p == NULL:
            return -1
        store_u32(p, <uint32_t>(4 + o.size + <size_t>size))
        store_u32(p + 4, <uint32_t>(o.size | <uint32_t>self.serialize_type << 24))
        copy_octets(p + 8, o.at, o.size)
        copy_octets(p + 8 + o.size, body, <size_t>size)
        self.size += 8 + o.size + <size_t>size
        return 0

    cdef int put_json(self, int64_t row, int64_t code, int64_t flag, int64_t version, int64_t opaque) noexcept nogil:
        """Section 2: members in the order of their names."""
        cdef const SourceCol* c = self.cols
        cdef Octets* o = &self.scratch
        cdef Span remark
        rocketmq_add_words(o, '{"code":')
        rocketmq_add_decimal(o, code)
        if source_has(c + RB_EXT_FIELDS, row):
            rocketmq_add_words(o, ',"extFields":{')
            if self.put_fields(row, <int>code, False):
                return -1
            add_u8(o, c"}")
        elif self.check_absent(row):
            return -1
        rocketmq_add_words(o, ',"flag":')
        rocketmq_add_decimal(o, flag)
        if source_has(c + RB_LANGUAGE, row):
            rocketmq_add_words(o, ',"language":"')
            add_octets(o, ROCKETMQ_LANGUAGE_TEXT[self.language].at, <size_t>ROCKETMQ_LANGUAGE_TEXT[self.language].size)
            add_u8(o, c'"')
        else:                                           # the default would be JAVA
            rocketmq_add_words(o, ',"language":null')
        if source_has(c + RB_SEQUENCE, row):
            rocketmq_add_words(o, ',"opaque":')
            rocketmq_add_decimal(o, opaque)
        if self.take_text(c + RB_REMARK, row, &remark):
            return -1
        if remark.at != NULL:
            rocketmq_add_words(o, ',"remark":')
            rocketmq_add_string(o, remark.at, remark.size)
        rocketmq_add_words(o, ',"serializeTypeCurrentRPC":"JSON","version":')
        rocketmq_add_decimal(o, version)
        add_u8(o, c"}")
        return 0

    cdef int put_binary_remark(self, int64_t row) noexcept nogil:
        cdef Span remark
        if self.take_text(self.cols + RB_REMARK, row, &remark):
            return -1
        add_u32(&self.scratch, remark.size)
        if remark.size:
            add_octets(&self.scratch, remark.at, remark.size)
        return 0

    cdef int take_text(self, const SourceCol* column, int64_t row, Span* out) noexcept nogil:
        """A string that fits a header."""
        cdef size_t bad = 0
        if source_span(&self.problem, column, row, 0xFFFFFF, out):
            return -1
        if out.at != NULL and not is_ascii(out.at, out.size) and not is_utf8(out.at, out.size, &bad):
            return refuse_text(&self.problem, column, "ill-formed UTF-8")
        return 0

    # ---- extFields

    cdef int check_absent(self, int64_t row) noexcept nogil:
        """The columns `destination` and `properties` are fields, too."""
        cdef const SourceCol* c = self.cols
        if source_has(c + RB_DESTINATION, row):
            return refuse_text(&self.problem, c + RB_DESTINATION, "ext_fields has no such field")
        if source_has(c + RB_PROPERTIES, row):
            return refuse_text(&self.problem, c + RB_PROPERTIES, "ext_fields has no such field")
        return 0

    cdef int put_fields(self, int64_t row, int code, bint binary) noexcept nogil:
        """Fields in the order of the map, as JSON or binary; the binary form begins with the map's length."""
        cdef const SourceCol* map = self.cols + RB_EXT_FIELDS
        cdef const SourceCol* names = map.children.children
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef int64_t at = 0, end = 0
        cdef size_t mark = o.size
        cdef bint letters = rocketmq_letters(code)
        cdef Span name, value, topic, properties
        cdef bint first = True
        if binary:
            add_u32(o, 0)
            if not source_has(map, row):
                return self.check_absent(row)
        if source_range(x, map, row, &at, &end) or self.take_text(self.cols + RB_DESTINATION, row, &topic) or \
                self.take_text(self.cols + RB_PROPERTIES, row, &properties):
            return -1
        while at < end:
            if self.take_text(names, at, &name) or self.take_text(names + 1, at, &value):
                return -1
            if name.at == NULL or value.at == NULL:
                return refuse(x, REFUSED_NULL, names if name.at == NULL else names + 1)
            if letters and name.size == 1:
                if (name.at[0] == c"b" and self.meet(&topic, &value, RB_DESTINATION)) or \
                        (name.at[0] == c"i" and self.meet(&properties, &value, RB_PROPERTIES)):
                    return -1
            elif not letters and ((name.size == 5 and memcmp(name.at, b"topic", 5) == 0 and
                                   self.meet(&topic, &value, RB_DESTINATION)) or
                                  (name.size == 10 and memcmp(name.at, b"properties", 10) == 0 and
                                   self.meet(&properties, &value, RB_PROPERTIES))):
                return -1
            if binary:
                if name.size > 0x7FFF:
                    return refuse_size(x, names, name.size, 0x7FFF)
                add_u16(o, <uint16_t>name.size)
                add_octets(o, name.at, name.size)
                add_u32(o, value.size)
                add_octets(o, value.at, value.size)
            else:
                if not first:
                    add_u8(o, c",")
                first = False
                rocketmq_add_string(o, name.at, name.size)
                add_u8(o, c":")
                rocketmq_add_string(o, value.at, value.size)
            at += 1
            if o.size > 0xFFFFFF:
                return refuse_size(x, map, <int64_t>o.size, 0xFFFFFF)
        if topic.at != NULL or properties.at != NULL:
            return refuse_text(x, self.cols + (RB_DESTINATION if topic.at != NULL else RB_PROPERTIES),
                               "ext_fields has no such field")
        if binary and not o.failed:
            store_u32(o.at + mark, <uint32_t>(o.size - mark - 4))
        return 0

    cdef int meet(self, Span* given, const Span* value, int column) noexcept nogil:
        """The field that a column repeats: the first one of its name."""
        if given.at != NULL and (given.size != value.size or memcmp(given.at, value.at, value.size) != 0):
            return refuse_text(&self.problem, self.cols + column, "ext_fields has another value")
        given.at = NULL
        return 0


def encode_batch(data):
    """Encode columns to frames, one per row, in one bytes object.

    data: columns with the names and types of decode_batch's result (wirefmt.rocketmq.columns.BATCH): a Batch, a pyarrow
    Table, RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or `__arrow_c_stream__`. Integers may
    have any width, strings 64-bit offsets. `code` and `serialize_type` are required, and `sequence` if it is ROCKETMQ; a null
    `flag` or `version` is 0. `destination` and `properties` repeat fields of `ext_fields` and are compared with them. A
    missing column is a column of nulls. `byte_offset` and `wire_size` are ignored.

    Raises TypeError for data that is not Arrow columns; ValueError for an unknown column or a column of another type;
    EncodeError, which names column and row, for a row that does not make a valid frame, or has an `error`.

    `decode_batch` of the bytes returns the same columns, except `byte_offset` and `wire_size` if a header was written
    differently, and except what the columns do not contain (docs/columns.md).
    """
    cdef RowEncoder encoder = RowEncoder(ROCKETMQ_BATCH_COLUMNS)
    encoder.tables = &ROCKETMQ_TABLES
    return encoder.encode(data)
