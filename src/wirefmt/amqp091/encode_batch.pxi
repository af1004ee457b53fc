# AMQP 0.9.1: columns in the shape of decode_batch -> frames: encode_batch. A row is one method; its content header and body
# frames follow it.
#
# amqp091_parse reads each written method and content header back and so decides whether it is valid. Field tables among
# arguments are JSON in columns. Python's json reads them, with the GIL, because only rare methods have them.

cdef enum:
    AMQP091_KIND_HEARTBEAT = AMQP091_METHOD_COUNT
    AMQP091_KIND_PROTOCOL_HEADER = AMQP091_METHOD_COUNT + 1
    AMQP091_KINDS = AMQP091_METHOD_COUNT + 2


cdef Text[AMQP091_KINDS] AMQP091_KIND_NAME      # methods by their row


cdef int fill_amqp091_kind_names() except -1:
    cdef int i
    AMQP091_KIND_NAME[0] = NO_TEXT
    for i in range(1, AMQP091_METHOD_COUNT):
        AMQP091_KIND_NAME[i] = AMQP091_KIND_TEXT[i]
    AMQP091_KIND_NAME[<int>AMQP091_KIND_HEARTBEAT] = AMQP091_HEARTBEAT_TEXT
    AMQP091_KIND_NAME[<int>AMQP091_KIND_PROTOCOL_HEADER] = AMQP091_PROTOCOL_HEADER_TEXT
    return 0


fill_amqp091_kind_names()


cdef object AMQP091_READ_JSON = None            # set at the first table


cdef object amqp091_json_float(str text):
    """A number with a fraction or an exponent: a double if its text is the same, otherwise a decimal."""
    cdef double number = float(text)
    cdef uint8_t[FLOAT_SIZE] shown
    cdef uint64_t bits
    if number - number != 0:
        raise ValueError(text)
    memcpy(&bits, &number, 8)
    if "e" not in text and "E" not in text and text.encode() != (<char*>shown)[:write_float(bits, True, shown)]:
        exact = DECIMAL(text)
        sign, digits, exponent = exact.as_tuple()
        if not sign and int("".join(map(str, digits))) <= 0xFFFFFFFF and exponent >= -255:
            return exact
    return number


cdef object amqp091_json_integer(str text):
    """A number in digits: a signed one of 64 bits, otherwise a timestamp, otherwise a double."""
    number = int(text)
    if text == "-0":
        return -0.0
    if -0x8000000000000000 <= number <= 0x7FFFFFFFFFFFFFFF:
        return number
    return Timestamp(number) if 0 < number <= AMQP091_TOP_U64 else float(number)


cdef bint amqp091_write_json(Octets* o, const Span* text) except -1:
    """A table from a JSON object; names, repeats and order are kept. False: not an object, or a value has no form in a table."""
    global AMQP091_READ_JSON
    if AMQP091_READ_JSON is None:
        import json
        AMQP091_READ_JSON = json.JSONDecoder(object_pairs_hook=FieldTable, parse_float=amqp091_json_float,
                                             parse_int=amqp091_json_integer).decode
    try:
        table = AMQP091_READ_JSON(PyUnicode_DecodeUTF8(<const char*>text.at, text.size, NULL))
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return False
    if not isinstance(table, FieldTable):
        return False
    amqp091_write_table(o, table, "arguments", 0)
    return True


cdef class RowEncoder(BatchEncoder):
    """The frames of encode_batch while it writes them."""

    cdef Amqp091Options options
    cdef uint32_t frame_max
    cdef int kind
    cdef uint16_t given_flags                   # properties whose columns have values
    cdef char[128] said                         # what is wrong with an argument

    cdef void begin(self) noexcept nogil:
        cdef int i
        self.given_flags = 0
        for i in range(AMQP091_PROPERTY_COUNT):
            if self.cols[AMQP091_PROPERTY_COLUMN[i]].on:
                self.given_flags |= amqp091_properties[i].flag

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef int64_t row, channel
        for row in range(rows):
            x.row = row
            if source_has(c + A9B_ERROR, row):
                return refuse_text(x, c + A9B_ERROR, "the row is not a method but a decoding error")
            if source_name(x, c + A9B_KIND, row, AMQP091_KIND_NAME, AMQP091_KINDS, &self.kind):
                return -1
            channel = 0
            if source_number(x, c + A9B_CHANNEL, row, 0, 0xFFFF, &channel):
                return -1
            if not source_has(c + A9B_CHANNEL, row) and self.kind < AMQP091_METHOD_COUNT and \
                    amqp091_methods[self.kind].class_id != AMQP091_CLASS_CONNECTION:
                return refuse(x, REFUSED_NULL, c + A9B_CHANNEL)
            self.scratch.size = 0
            if self.kind >= AMQP091_METHOD_COUNT:
                if self.put_other(<uint16_t>channel):
                    return -1
            elif self.put_method(row, <uint16_t>channel):
                return -1
        return 0

    cdef int validate(self) noexcept nogil:
        """Append the frame in `scratch` to the output."""
        cdef Octets* o = &self.scratch
        cdef Amqp091FrameView frame
        cdef uint8_t* p
        if o.failed:
            return refuse(&self.problem, REFUSED_MEMORY, NULL)
        if amqp091_parse(o.at, o.size, &self.options, &frame, &self.problem.fault) != OK:
            return refuse(&self.problem, REFUSED_FAULT, NULL)
        p = self.need(o.size)
        if p == NULL:
            return -1
        copy_octets(p, o.at, o.size)
        self.size += o.size
        o.size = 0
        return 0

    cdef int put_other(self, uint16_t channel) noexcept nogil:
        """A heartbeat, or the protocol header of 0-9-1."""
        cdef Octets* o = &self.scratch
        cdef size_t opened
        if self.kind == AMQP091_KIND_HEARTBEAT:
            opened = amqp091_open_frame(o, AMQP091_FRAME_HEARTBEAT, channel)
            amqp091_close_frame(o, opened)
        elif channel:
            return refuse_text(&self.problem, self.cols + A9B_CHANNEL, "a protocol header has no channel")
        else:
            add_octets(o, <const uint8_t*>b"AMQP\x00\x00\x09\x01", 8)
        return self.validate()

    # ---- methods

    cdef int put_method(self, int64_t row, uint16_t channel) noexcept nogil:
        cdef const Amqp091MethodRow* method = &amqp091_methods[self.kind]
        cdef const Amqp091ArgumentRow* a
        cdef const SourceCol* c = self.cols
        cdef const SourceCol* map = c + A9B_ARGUMENTS
        cdef const SourceCol* column
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef int64_t first = 0, end = 0, used = 0, v
        cdef size_t opened = amqp091_open_frame(o, AMQP091_FRAME_METHOD, channel)
        cdef Span s
        cdef int i, slot = -1
        cdef bint bit
        if source_has(map, row) and source_range(x, map, row, &first, &end):
            return -1
        add_u16(o, method.class_id)
        add_u16(o, method.method_id)
        for i in range(method.first, method.first + method.count):
            a = &amqp091_arguments[i]
            if AMQP091_ARGUMENT_COLUMN[a.name] < 0:
                if self.put_argument(a, first, end, &used, a.slot == slot):
                    return -1
                slot = a.slot if a.type == AMQP091_BIT else -1
                continue
            column = c + AMQP091_ARGUMENT_COLUMN[a.name]
            v = 0
            if a.type == AMQP091_BIT:
                bit = source_flag(column, row)
                self.put_bit(a, bit, a.slot == slot)
                slot = a.slot
                continue
            slot = -1
            if a.type == AMQP091_SHORTSTR:
                if source_needed_span(x, column, row, 255, &s):
                    return -1
                amqp091_add_name(o, s.at, <uint8_t>s.size)
            elif a.type == AMQP091_LONGLONG:
                if source_needed_number(x, column, row, INT64_MIN, INT64_MAX, &v):
                    return -1
                add_u64(o, <uint64_t>v)
            else:
                if source_needed_number(x, column, row, 0, 0xFFFF, &v):
                    return -1
                add_u16(o, <uint16_t>v)
        if used != end - first:
            return refuse_text(x, map, "an argument that the method does not have, or has twice")
        amqp091_close_frame(o, opened)
        if self.validate():
            return -1
        return self.put_content(row, channel) if method.content else 0

    cdef inline void put_bit(self, const Amqp091ArgumentRow* a, bint bit, bint goes_on) noexcept nogil:
        """A bit; consecutive bits share an octet."""
        cdef Octets* o = &self.scratch
        if not goes_on:
            add_u8(o, 0)
        if bit and not o.failed:
            o.at[o.size - 1] |= <uint8_t>(1 << a.bit)

    cdef int put_argument(self, const Amqp091ArgumentRow* a, int64_t at, int64_t end, int64_t* used, bint goes_on) noexcept nogil:
        """An argument from an entry of the map; False, zero or empty if there is no entry."""
        cdef const SourceCol* map = self.cols + A9B_ARGUMENTS
        cdef const SourceCol* names = map.children.children
        cdef const char* name = amqp091_argument_name[a.name]
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef Span key, text
        cdef uint64_t v = 0
        cdef bint bit
        text.at = NULL
        text.size = 0
        while at < end:
            if source_needed_span(x, names, at, 0xFFFF, &key):
                return -1
            if key.size == strlen(name) and memcmp(key.at, name, key.size) == 0:
                if source_needed_span(x, names + 1, at, 0x7FFFFFFF, &text):
                    return -1
                used[0] += 1
                break
            at += 1
        if a.type == AMQP091_BIT:
            bit = text.size == 4 and memcmp(text.at, b"true", 4) == 0
            if text.at != NULL and not bit and not (text.size == 5 and memcmp(text.at, b"false", 5) == 0):
                return self.refuse_argument(a, "neither true nor false")
            self.put_bit(a, bit, goes_on)
            return 0
        if a.type == AMQP091_SHORTSTR:
            if text.size > 255:
                return self.refuse_argument(a, "more than 255 bytes")
            amqp091_add_name(o, text.at if text.at != NULL else <const uint8_t*>b"", <uint8_t>text.size)
            return 0
        if a.type == AMQP091_LONGSTR:
            self.put_longstr(&text)
            return 0
        if a.type == AMQP091_TABLE:
            return self.put_table(a, &text)
        if text.at != NULL and not decimal_of(&text, &v):
            return self.refuse_argument(a, "no number")
        if a.type == AMQP091_OCTET and v <= 0xFF:
            add_u8(o, <uint8_t>v)
        elif a.type == AMQP091_SHORT and v <= 0xFFFF:
            add_u16(o, <uint16_t>v)
        elif a.type == AMQP091_LONG and v <= <uint64_t>0xFFFFFFFF:
            add_u32(o, <uint32_t>v)
        elif a.type == AMQP091_LONGLONG or a.type == AMQP091_TIMESTAMP:
            add_u64(o, v)
        else:
            return self.refuse_argument(a, "a number that is too large")
        return 0

    cdef int refuse_argument(self, const Amqp091ArgumentRow* a, const char* text) noexcept nogil:
        """Add the name of the map's entry to the problem."""
        snprintf(self.said, sizeof(self.said), "%s: %s", amqp091_argument_name[a.name], text)
        return refuse_text(&self.problem, self.cols + A9B_ARGUMENTS, self.said)

    cdef void put_longstr(self, const Span* text) noexcept nogil:
        """A long string of an argument. The column has octets that are not text in hexadecimal, such as the response of PLAIN."""
        cdef uint8_t[HEX_OCTETS] scratch
        cdef Span octets = octets_shown(text, scratch)
        add_u32(&self.scratch, octets.size)
        add_octets(&self.scratch, octets.at, octets.size)

    cdef int put_table(self, const Amqp091ArgumentRow* a, const Span* text) noexcept nogil:
        cdef bint good = False
        if text.size == 0 or (text.size == 2 and text.at[0] == c"{" and text.at[1] == c"}"):
            add_u32(&self.scratch, 0)
            return 0
        with gil:
            try:
                good = amqp091_write_json(&self.scratch, text)
            except MemoryError:
                self.scratch.failed = True
            except Exception:           # of json, of what makes values of it
                good = False
        if self.scratch.failed:
            return refuse(&self.problem, REFUSED_MEMORY, NULL)
        return 0 if good else self.refuse_argument(a, "no JSON object that a field table can hold")

    # ---- contents

    cdef int put_content(self, int64_t row, uint16_t channel) noexcept nogil:
        """Content header and body frames."""
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef const uint8_t* body = NULL
        cdef int64_t size = 0, said
        cdef size_t opened, part, most = self.frame_max - AMQP091_OVERHEAD
        cdef uint8_t* p
        if not source_has(c + A9B_PAYLOAD, row):
            return refuse(x, REFUSED_NULL, c + A9B_PAYLOAD)
        if source_octets(x, c + A9B_PAYLOAD, row, &body, &size):
            return -1
        said = size
        if source_number(x, c + A9B_BODY_SIZE, row, 0, INT64_MAX, &said):
            return -1
        if said != size:
            return refuse_text(x, c + A9B_BODY_SIZE, "the body is of another size")
        opened = amqp091_open_frame(o, AMQP091_FRAME_HEADER, channel)
        add_u16(o, AMQP091_CLASS_BASIC)
        add_u16(o, 0)
        add_u64(o, <uint64_t>size)
        if self.put_properties(row):
            return -1
        amqp091_close_frame(o, opened)
        if self.validate():
            return -1
        while size:
            part = <size_t>size if <size_t>size < most else most
            p = self.need(part + AMQP091_OVERHEAD)
            if p == NULL:
                return -1
            p[0] = AMQP091_FRAME_BODY
            store_u16(p + 1, channel)
            store_u32(p + 3, <uint32_t>part)
            copy_octets(p + 7, body, part)
            p[7 + part] = AMQP091_FRAME_END
            self.size += part + AMQP091_OVERHEAD
            body += part
            size -= <int64_t>part
        return 0

    cdef int put_properties(self, int64_t row) noexcept nogil:
        """Property flags and properties (4.2.6.1)."""
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef const SourceCol* column
        cdef size_t start = o.size
        cdef uint16_t flags = 0
        cdef int64_t v = 0
        cdef Span s
        cdef int i, type
        add_u16(o, 0)
        for i in range(AMQP091_PROPERTY_COUNT):
            if not self.given_flags & amqp091_properties[i].flag:
                continue
            column = self.cols + AMQP091_PROPERTY_COLUMN[i]
            if not source_has(column, row):
                continue
            flags |= amqp091_properties[i].flag
            type = amqp091_properties[i].type
            if type == AMQP091_SHORTSTR:
                if source_span(x, column, row, 255, &s):
                    return -1
                amqp091_add_name(o, s.at, <uint8_t>s.size)
            elif type == AMQP091_TABLE:
                if self.put_headers(column, row):
                    return -1
            elif type == AMQP091_OCTET:
                if source_number(x, column, row, 0, 255, &v):
                    return -1
                add_u8(o, <uint8_t>v)
            else:
                if source_number(x, column, row, INT64_MIN, INT64_MAX, &v):
                    return -1
                add_u64(o, <uint64_t>v)
        if not o.failed:
            store_u16(o.at + start, flags)
        return 0

    cdef int put_headers(self, const SourceCol* map, int64_t row) noexcept nogil:
        """A table whose values are long strings."""
        cdef const SourceCol* names = map.children.children
        cdef Octets* o = &self.scratch
        cdef int64_t at = 0, end = 0
        cdef size_t opened
        cdef Span name, value
        if source_range(&self.problem, map, row, &at, &end):
            return -1
        opened = amqp091_open(o)
        while at < end:
            if source_needed_span(&self.problem, names, at, 255, &name) or \
                    source_needed_span(&self.problem, names + 1, at, 0x7FFFFFFF, &value):
                return -1
            amqp091_add_name(o, name.at, <uint8_t>name.size)
            amqp091_add_value(o, c"S", value.at, value.size)
            if o.size - opened > AMQP091_FRAME_TOP - 1024:
                return refuse_size(&self.problem, map, <int64_t>(o.size - opened), <int64_t>AMQP091_FRAME_TOP - 1024)
            at += 1
        amqp091_close(o, opened)
        return 0


def encode_batch(data, *, side=None, strictness="strict", frame_max=AMQP091_FRAME_MAX_VALUE, channel_max=0):
    """Encode columns to frames, in one bytes object: a method for each row, and its content.

    data: columns with the names and types of decode_batch's result (wirefmt.amqp091.columns.BATCH): a Batch, a pyarrow
    Table, RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or `__arrow_c_stream__`. Integers may
    have any width, strings 64-bit offsets. `kind` is required, and `channel` except in class connection. Arguments with their
    own column are required, except `redelivered`; an argument that is missing in the map `arguments` is false, zero or
    empty. A method with content requires `payload`. A missing column is a column of nulls. `byte_offset` and `wire_size` are
    ignored. Values of `headers` are written as long strings. side, strictness, channel_max: as in decode(); "lax" writes what
    decode_batch accepts by default. frame_max: the largest size of a frame in bytes; 0: no limit.

    Raises TypeError for data that is not Arrow columns; ValueError for an invalid option, an unknown column, or a column
    of another type; EncodeError, which names column and row, for a row that does not make a valid method, or has an `error`.

    `decode_batch` of the bytes returns the same columns, except `byte_offset` and `wire_size` if tables or bodies were written
    differently, and except what the columns do not contain (docs/columns.md).
    """
    cdef RowEncoder encoder = RowEncoder(AMQP091_BATCH_COLUMNS)
    encoder.tables = &AMQP091_TABLES
    take_amqp091_options(&encoder.options, side, strictness, frame_max, channel_max, None)
    encoder.options.common.max_frame_size = <uint32_t>whole_number(frame_max, 0xFFFFFFFF, "frame_max")
    encoder.options.common.max_elements = 0
    encoder.frame_max = encoder.options.common.max_frame_size if encoder.options.common.max_frame_size else 0xFFFFFFFF
    if encoder.frame_max <= AMQP091_OVERHEAD:
        raise ValueError(f"frame_max must be 0 or more than {AMQP091_OVERHEAD} bytes")
    return encoder.encode(data)
