# AMQP 1.0: columns in the shape of decode_batch -> frames: encode_batch. A row is one frame, or a delivery in as many transfers
# as the column says.
#
# amqp10_parse reads the written performative back and amqp10_parse_message the sections, and so they decide whether these are
# valid. Lists, maps and described values among fields are JSON in columns, which Python's json reads, with the GIL.

cdef enum:
    AMQP10_KIND_ROW_EMPTY = AMQP10_SHAPES
    AMQP10_KIND_ROW_HEADER = AMQP10_SHAPES + 1
    AMQP10_KIND_ROWS = AMQP10_SHAPES + 2
    AMQP10_TRANSFERS_MAX = 65536        # of a row whose message has fewer octets


cdef Text[AMQP10_KIND_ROWS] AMQP10_KIND_NAME        # by shape; only frames have one


cdef int fill_amqp10_kind_names() except -1:
    cdef int i
    AMQP10_KIND_NAME[0] = NO_TEXT
    for i in range(1, AMQP10_SHAPES):
        AMQP10_KIND_NAME[i] = AMQP10_KIND_TEXT[i] if amqp10_shapes[i].provides & (
            AMQP10_PROVIDES_FRAME | AMQP10_PROVIDES_SASL_FRAME) else NO_TEXT
    AMQP10_KIND_NAME[<int>AMQP10_KIND_ROW_EMPTY] = AMQP10_EMPTY_TEXT
    AMQP10_KIND_NAME[<int>AMQP10_KIND_ROW_HEADER] = AMQP10_PROTOCOL_HEADER_TEXT
    return 0


fill_amqp10_kind_names()


# ------------------------------------------------------------------------------------------------ JSON -> values

cdef object AMQP10_READ_JSON = None                 # set on first use


cdef object amqp10_json_integer(str text):
    """A number in digits; one that does not fit 64 bits is a double."""
    number = int(text)
    if text == "-0":
        return -0.0
    return number if -0x8000000000000000 <= number <= 0xFFFFFFFFFFFFFFFF else amqp10_json_float(text)


cdef object amqp10_json_float(str text):
    number = float(text)
    if number - number != 0:
        raise ValueError(text)
    return number


cdef object amqp10_json_constant(str text):
    raise ValueError(text)


cdef bint amqp10_write_json(Octets* o, const Span* text, const Amqp10FieldRow* row, bint binary_keys) except -1:
    """Write a value for a field from JSON. False: the text is not JSON, or not of the field's type."""
    cdef size_t start = o.size
    global AMQP10_READ_JSON
    if AMQP10_READ_JSON is None:
        import json
        # an object is a tuple of pairs, an array a list
        AMQP10_READ_JSON = json.JSONDecoder(object_pairs_hook=tuple, parse_int=amqp10_json_integer,
                                            parse_float=amqp10_json_float, parse_constant=amqp10_json_constant).decode
    try:
        value = AMQP10_READ_JSON(PyUnicode_DecodeUTF8(<const char*>text.at, text.size, NULL))
        amqp10_encode_json(o, value, row, binary_keys, 0)
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        o.size = start
        return False
    return True


cdef int amqp10_encode_json(Octets* o, object value, const Amqp10FieldRow* row, bint binary_keys, int depth) except -1:
    """A value; `row`: its field; NULL: any type."""
    cdef int type_ = row.type if row != NULL else AMQP10_ANY
    if depth > AMQP10_NESTING_MAX:
        raise ValueError("nested too deep")
    if value is None:
        amqp10_add_null(o)
    elif value is True or value is False:
        amqp10_add_boolean(o, value is True)
    elif type(value) is float:
        amqp10_put_double(o, value)
    elif type(value) is int:
        if AMQP10_UBYTE <= type_ <= AMQP10_LONG or type_ == AMQP10_TIMESTAMP:
            amqp10_put_scalar(o, type_, value)
        elif value > 0x7FFFFFFFFFFFFFFF:
            amqp10_add_ulong(o, value)
        else:
            amqp10_add_long(o, value)
    elif type(value) is str:
        amqp10_encode_json_text(o, value, type_)
    elif type(value) is list:
        if row != NULL and row.multiple:
            amqp10_put_symbols(o, value)
        else:
            amqp10_encode_json_list(o, value, NULL, depth)
    elif type_ != AMQP10_MAP and [pair[0] for pair in value] == ["descriptor", "value"]:
        amqp10_encode_json_described(o, value[0][1], value[1][1], depth)
    else:
        amqp10_encode_json_map(o, value, binary_keys, type_ == AMQP10_MAP, depth)
    return 0


cdef int amqp10_encode_json_text(Octets* o, str value, int type_) except -1:
    cdef bytes octets
    if type_ == AMQP10_SYMBOL and value.isascii():
        amqp10_put_symbol(o, value)
    elif type_ == AMQP10_BINARY:
        octets = value.encode()
        amqp10_add_shown_binary(o, <const uint8_t*>PyBytes_AS_STRING(octets), <uint32_t>PyBytes_GET_SIZE(octets))
    else:
        amqp10_put_string(o, value)
    return 0


cdef int amqp10_encode_json_list(Octets* o, list items, const Amqp10ShapeRow* shape, int depth) except -1:
    """A list; `shape`: the fields of a composite."""
    cdef size_t mark = amqp10_open(o)
    cdef size_t count = 0
    for item in items:
        amqp10_encode_json(o, item, &amqp10_fields[shape.first + count] if shape != NULL and count < shape.count else NULL,
                        False, depth + 1)
        count += 1
    amqp10_close(o, mark, AMQP10_CODE_LIST8, count)
    return 0


cdef int amqp10_encode_json_described(Octets* o, object descriptor, object value, int depth) except -1:
    """A described value; the fields of a known composite have their types."""
    cdef size_t mark = o.size
    cdef bint irregular = False
    cdef int shape = 0
    add_u8(o, 0)
    if type(descriptor) is int and descriptor >= 0:
        amqp10_add_ulong(o, descriptor)
    elif type(descriptor) is str and descriptor.isascii():
        amqp10_put_symbol(o, descriptor)
    else:
        amqp10_encode_json(o, descriptor, NULL, False, depth + 1)
    if type(value) is list and not o.failed:
        shape = amqp10_shape_of(o.at + mark + 1, &irregular)
        return amqp10_encode_json_list(o, value, &amqp10_shapes[shape] if shape else NULL, depth + 1)
    return amqp10_encode_json(o, value, NULL, False, depth + 1)


cdef int amqp10_encode_json_map(Octets* o, object pairs, bint binary_keys, bint symbols, int depth) except -1:
    """A map of pairs; its keys are symbols in fields that are maps, binaries in `unsettled`, otherwise strings."""
    cdef size_t mark = amqp10_open(o)
    cdef size_t count = 0
    for key, item in pairs:
        if type(key) is str:
            amqp10_encode_json_text(o, key, AMQP10_BINARY if binary_keys else AMQP10_SYMBOL if symbols else AMQP10_STRING)
        else:
            amqp10_encode_json(o, key, NULL, False, depth + 1)
        amqp10_encode_json(o, item, NULL, False, depth + 1)
        count += 2
    amqp10_close(o, mark, AMQP10_CODE_MAP8, count)
    return 0


cdef void amqp10_add_shown_binary(Octets* o, const uint8_t* p, uint32_t n) noexcept nogil:
    """A binary from its text, which is hexadecimal in columns if the octets are not text."""
    cdef uint8_t[HEX_OCTETS] scratch
    cdef Span text = span_of(p, n)
    cdef Span octets = octets_shown(&text, scratch)
    amqp10_add_variable(o, AMQP10_CODE_VBIN8, octets.at, octets.size)


# ------------------------------------------------------------------------------------------------ rows

cdef class RowEncoder(BatchEncoder):
    """The frames of encode_batch while it writes them."""

    cdef Amqp10Options options
    cdef uint32_t max_frame_size
    cdef int kind, body_type
    cdef size_t after_header                    # where the last protocol header ends; 0: none
    cdef Octets message                         # sections
    cdef Span[AMQP10_FIELDS_MAX] entry          # of the map `fields`, by field
    cdef char[128] said

    def __dealloc__(self):
        free_octets(&self.message)

    cdef int put_rows(self, int64_t rows) noexcept nogil:
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef int64_t row, channel
        cdef int sasl
        cdef uint8_t* p
        for row in range(rows):
            x.row = row
            if source_has(c + A10B_ERROR, row):
                return refuse_text(x, c + A10B_ERROR, "the row is not a frame but a decoding error")
            if source_name(x, c + A10B_KIND, row, AMQP10_KIND_NAME, AMQP10_KIND_ROWS, &self.kind):
                return -1
            if self.kind == AMQP10_KIND_ROW_HEADER:
                if self.put_protocol_header():
                    return -1
                continue
            sasl = self.kind < AMQP10_SHAPES and amqp10_shapes[self.kind].provides & AMQP10_PROVIDES_SASL_FRAME
            if sasl and self.after_header and self.after_header == self.size:
                self.at[self.size - 4] = 3
            channel = 0
            if source_has(c + A10B_CHANNEL, row) or not sasl:
                if source_needed_number(x, c + A10B_CHANNEL, row, 0, 0xFFFF, &channel):
                    return -1
            o.size = 0
            add_u32(o, 8)
            add_u8(o, 2)
            add_u8(o, sasl != 0)
            add_u8(o, <uint8_t>(channel >> 8))
            add_u8(o, <uint8_t>channel)
            if self.kind == AMQP10_TRANSFER:
                if self.put_transfers(row):
                    return -1
                continue
            if self.kind != AMQP10_KIND_ROW_EMPTY and (self.take_entries(row) or self.put_performative(row)):
                return -1
            if self.validate():
                return -1
            p = self.need(o.size)
            if p == NULL:
                return -1
            memcpy(p, o.at, o.size)
            self.size += o.size
        return 0

    cdef int validate(self) noexcept nogil:
        """Complete the frame in `scratch`, and parse it."""
        cdef Octets* o = &self.scratch
        cdef Amqp10FrameView frame
        if o.failed:
            return refuse(&self.problem, REFUSED_MEMORY, NULL)
        if o.size > <size_t>0xFFFFFFFF:
            return refuse_size(&self.problem, NULL, <int64_t>o.size, 0xFFFFFFFF)
        store_u32(o.at, <uint32_t>o.size)
        if self.max_frame_size and o.size > self.max_frame_size:
            return refuse_size(&self.problem, NULL, <int64_t>o.size, self.max_frame_size)
        if amqp10_parse(o.at, o.size, &self.options, &frame, &self.problem.fault) != OK:
            return refuse(&self.problem, REFUSED_FAULT, NULL)
        return 0

    cdef int put_protocol_header(self) noexcept nogil:
        """The header of AMQP 1.0.0. If a SASL frame follows, put_rows changes it to that of SASL (5.3.1)."""
        cdef uint8_t* p = self.need(8)
        if p == NULL:
            return -1
        memcpy(p, b"AMQP\x00\x01\x00\x00", 8)
        self.size += 8
        self.after_header = self.size
        return 0

    # ---- performatives

    cdef int take_entries(self, int64_t row) noexcept nogil:
        """The entries of the map `fields`, by field."""
        cdef const Amqp10ShapeRow* shape = &amqp10_shapes[self.kind]
        cdef const SourceCol* map = self.cols + A10B_FIELDS
        cdef const SourceCol* names = map.children.children
        cdef int64_t at = 0, end = 0
        cdef Span name
        cdef int i
        memset(self.entry, 0, sizeof(self.entry))
        if not source_has(map, row):
            return 0
        if source_range(&self.problem, map, row, &at, &end):
            return -1
        while at < end:
            if source_needed_span(&self.problem, names, at, 0xFFFF, &name):
                return -1
            for i in range(shape.count):
                if not (self.kind == AMQP10_TRANSFER and AMQP10_TRANSFER_COLUMN[i] >= 0) and self.entry[i].at == NULL and \
                        strlen(amqp10_field_name[shape.first + i]) == name.size and \
                        memcmp(name.at, amqp10_field_name[shape.first + i], name.size) == 0:
                    break
            else:
                return refuse_text(&self.problem, map, "a field that the performative does not have, or has twice")
            if source_needed_span(&self.problem, names + 1, at, 0x7FFFFFFF, &self.entry[i]):
                return -1
            at += 1
        return 0

    cdef int put_performative(self, int64_t row) noexcept nogil:
        """A described list of the fields (1.4), without nulls at its end."""
        cdef const Amqp10ShapeRow* shape = &amqp10_shapes[self.kind]
        cdef Octets* o = &self.scratch
        cdef size_t mark
        cdef int i, count = shape.count
        while count and self.entry[count - 1].at == NULL:
            count -= 1
        amqp10_add_descriptor(o, shape.code)
        mark = amqp10_open(o)
        for i in range(count):
            if self.entry[i].at == NULL:
                amqp10_add_null(o)
            elif self.put_text_field(shape.first + i):
                return -1
        amqp10_close(o, mark, AMQP10_CODE_LIST8, <size_t>count)
        return 0

    cdef int put_text_field(self, int number) noexcept nogil:
        """A field from its text."""
        cdef const Amqp10FieldRow* row = &amqp10_fields[number]
        cdef const Span* text = &self.entry[number - amqp10_shapes[self.kind].first]
        cdef Octets* o = &self.scratch
        cdef int type = row.type
        cdef uint64_t v = 0
        cdef bint good
        cdef Span digits
        if type == AMQP10_BOOLEAN:
            good = text.size == 4 and memcmp(text.at, b"true", 4) == 0
            if not good and not (text.size == 5 and memcmp(text.at, b"false", 5) == 0):
                return self.refuse_field(number, "neither true nor false")
            amqp10_add_boolean(o, good)
            return 0
        if AMQP10_UBYTE <= type <= AMQP10_ULONG:
            if not decimal_of(text, &v) or (type == AMQP10_UBYTE and v > 0xFF) or (type == AMQP10_USHORT and v > 0xFFFF) or \
                    (type == AMQP10_UINT and v > <uint64_t>0xFFFFFFFF):
                return self.refuse_field(number, "no number of its type")
            if type == AMQP10_UINT:
                amqp10_add_uint(o, <uint32_t>v)
            elif type == AMQP10_ULONG:
                amqp10_add_ulong(o, v)
            else:
                amqp10_add_fixed(o, AMQP10_CODE_UBYTE if type == AMQP10_UBYTE else AMQP10_CODE_USHORT, v)
            return 0
        if type == AMQP10_TIMESTAMP:
            digits = text[0]
            if text.size and text.at[0] == c"-":
                digits.at += 1
                digits.size -= 1
            if not decimal_of(&digits, &v):
                return self.refuse_field(number, "no number of its type")
            amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, 0 - v if text.at[0] == c"-" else v)
            return 0
        if type == AMQP10_BINARY:
            amqp10_add_shown_binary(o, text.at, text.size)
            return 0
        if type == AMQP10_STRING or (type == AMQP10_SYMBOL and not (row.multiple and text.size and text.at[0] == c"[")):
            amqp10_add_variable(o, AMQP10_CODE_STR8 if type == AMQP10_STRING else AMQP10_CODE_SYM8, text.at, text.size)
            return 0
        if text.size and (text.at[0] == c"{" or text.at[0] == c"["):
            if self.put_json(o, text, row, strcmp(amqp10_field_name[number], "unsettled") == 0, &good):
                return -1
            if good:
                return 0
        if type != AMQP10_ANY:
            return self.refuse_field(number, "no JSON that its type can hold")
        amqp10_add_variable(o, AMQP10_CODE_STR8, text.at, text.size)
        return 0

    cdef int put_json(self, Octets* o, const Span* text, const Amqp10FieldRow* row, bint of_tags, bint* good) noexcept nogil:
        """Write a value from JSON. good: is it JSON of the types that `row` allows? -1: refused, out of memory."""
        with gil:
            try:
                good[0] = amqp10_write_json(o, text, row, of_tags)
            except MemoryError:
                o.failed = True
            except Exception:       # of json, of what makes values of it
                good[0] = False
        return refuse(&self.problem, REFUSED_MEMORY, NULL) if o.failed else 0

    cdef int refuse_field(self, int number, const char* text) noexcept nogil:
        """The text is not a value of the field's type: LAX writes a string. The problem also names the entry of the map."""
        cdef const Span* given = &self.entry[number - amqp10_shapes[self.kind].first]
        if not self.options.common.strict:
            amqp10_add_variable(&self.scratch, AMQP10_CODE_STR8, given.at, given.size)
            return 0
        snprintf(self.said, sizeof(self.said), "%s: %s", amqp10_field_name[number], text)
        return refuse_text(&self.problem, self.cols + A10B_FIELDS, self.said)

    # ---- transfers

    cdef int put_transfers(self, int64_t row) noexcept nogil:
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef Octets* m = &self.message
        cdef int64_t transfers = 1, handle = 0, format = 0
        cdef uint8_t[64] scratch
        cdef Octets rest = octets_over(scratch, sizeof(scratch))
        cdef Amqp10MessageView message
        cdef const uint8_t* octets = b""
        cdef size_t at, part, most, mark
        cdef bint more, several
        cdef uint8_t* p
        if self.take_entries(row) or source_number(x, c + A10B_TRANSFERS, row, 1, 0x7FFFFFFF, &transfers) or \
                source_needed_number(x, c + A10B_HANDLE, row, 0, 0xFFFFFFFF, &handle):
            return -1
        m.size = 0
        if source_number(x, c + A10B_MESSAGE_FORMAT, row, 0, 0xFFFFFFFF, &format):
            return -1
        if self.put_opaque(row) if format else self.put_message(row):
            return -1
        if m.failed:
            return refuse(x, REFUSED_MEMORY, NULL)
        if m.size:
            octets = m.at
        if not format and amqp10_parse_message(octets, m.size, &self.options, &message, &x.fault) != OK:
            return refuse(x, REFUSED_FAULT, NULL)
        if transfers > AMQP10_TRANSFERS_MAX and <uint64_t>transfers > m.size:
            return refuse_range(x, c + A10B_TRANSFERS, transfers, 1, max(<int64_t>AMQP10_TRANSFERS_MAX, <int64_t>m.size))
        several = transfers > 1
        mark = o.size
        if self.put_transfer(row, handle, several):
            return -1
        if self.max_frame_size and not several and o.size + m.size > self.max_frame_size:
            several = True                                  # with `more`, it may take an octet or two more
            o.size = mark
            if self.put_transfer(row, handle, True):
                return -1
        if several and self.options.common.strict and not source_has(c + A10B_DELIVERY_ID, row):
            return refuse(x, REFUSED_NULL, c + A10B_DELIVERY_ID)        # 2.7.5
        if self.validate():
            return -1
        most = (m.size + <size_t>transfers - 1) // <size_t>transfers
        if self.max_frame_size:
            if o.size >= self.max_frame_size:
                return refuse_size(x, NULL, <int64_t>o.size + 1, self.max_frame_size)
            most = min(most, <size_t>self.max_frame_size - o.size)
        at = 0
        while True:
            part = min(most, m.size - at)
            transfers -= 1
            more = at + part < m.size or transfers > 0
            if at == 0 and rest.size == 0:
                p = self.need(o.size + part)
                if p == NULL:
                    return -1
                memcpy(p, o.at, o.size)
                store_u32(p, <uint32_t>(o.size + part))
                copy_octets(p + o.size, m.at, part)
                self.size += o.size + part
            else:
                rest.size = 0
                self.put_rest(&rest, o, handle, more)
                p = self.need(rest.size + part)
                if p == NULL:
                    return -1
                memcpy(p, rest.at, rest.size)
                store_u32(p, <uint32_t>(rest.size + part))
                copy_octets(p + rest.size, m.at + at, part)
                self.size += rest.size + part
            if rest.size == 0:
                rest.size = 1                               # the first transfer has been written
            at += part
            if not more:
                return 0

    cdef void put_rest(self, Octets* rest, const Octets* first, int64_t handle, bint more) noexcept nogil:
        """A transfer that continues a delivery (2.7.5), which needs less than 64 octets."""
        cdef size_t mark
        add_octets(rest, first.at, 8)
        amqp10_add_descriptor(rest, amqp10_shapes[<int>AMQP10_TRANSFER].code)
        mark = amqp10_open(rest)
        amqp10_add_uint(rest, <uint32_t>handle)
        amqp10_add_null(rest)
        amqp10_add_null(rest)
        amqp10_add_null(rest)
        amqp10_add_null(rest)
        amqp10_add_boolean(rest, more)
        amqp10_close(rest, mark, AMQP10_CODE_LIST8, 6)

    cdef int put_transfer(self, int64_t row, int64_t handle, bint several) noexcept nogil:
        """The performative of the (first) transfer."""
        cdef const Amqp10ShapeRow* shape = &amqp10_shapes[<int>AMQP10_TRANSFER]
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.scratch
        cdef size_t mark
        cdef int64_t v = 0
        cdef Span tag
        cdef int i, count = shape.count
        if self.entry[<int>AMQP10_TRANSFER_MORE].size == 4:
            return refuse_text(x, c + A10B_FIELDS, "more: a row is a whole delivery")
        if self.entry[<int>AMQP10_TRANSFER_ABORTED].size == 4:
            return refuse_text(x, c + A10B_FIELDS, "aborted: an aborted delivery has no message")
        if several:
            self.entry[<int>AMQP10_TRANSFER_MORE] = span_of(<const uint8_t*>b"true", 4)
        while count > AMQP10_TRANSFER_SETTLED + 1 and self.entry[count - 1].at == NULL:
            count -= 1
        while AMQP10_TRANSFER_HANDLE + 1 < count <= AMQP10_TRANSFER_SETTLED + 1 and \
                not source_has(c + AMQP10_TRANSFER_COLUMN[count - 1], row):
            count -= 1
        amqp10_add_descriptor(o, shape.code)
        mark = amqp10_open(o)
        for i in range(count):
            if AMQP10_TRANSFER_COLUMN[i] < 0:
                if self.entry[i].at == NULL:
                    amqp10_add_null(o)
                elif self.put_text_field(shape.first + i):
                    return -1
            elif not source_has(c + AMQP10_TRANSFER_COLUMN[i], row):
                amqp10_add_null(o)
            elif i == AMQP10_TRANSFER_SETTLED:
                amqp10_add_boolean(o, source_bit(c + A10B_SETTLED, row))
            elif i == AMQP10_TRANSFER_DELIVERY_TAG:
                if source_span(x, c + A10B_DELIVERY_TAG, row, 0xFFFF, &tag):
                    return -1
                amqp10_add_variable(o, AMQP10_CODE_VBIN8, tag.at, tag.size)
            else:
                if source_number(x, c + AMQP10_TRANSFER_COLUMN[i], row, 0, 0xFFFFFFFF, &v):
                    return -1
                amqp10_add_uint(o, <uint32_t>v)
        amqp10_close(o, mark, AMQP10_CODE_LIST8, <size_t>count)
        return 0

    # ---- sections

    cdef int put_opaque(self, int64_t row) noexcept nogil:
        """A payload of another message format, which has no sections."""
        cdef const SourceCol* c = self.cols
        cdef const uint8_t* body = NULL
        cdef int64_t size = 0
        cdef int i
        for i in range(<int>A10B_DURABLE, <int>A10B_PAYLOAD):
            if source_has(c + i, row):
                return refuse_text(&self.problem, c + i, "a message whose message_format is not 0 has no sections")
        if source_has(c + A10B_PAYLOAD, row) and source_octets(&self.problem, c + A10B_PAYLOAD, row, &body, &size):
            return -1
        add_octets(&self.message, body, <size_t>size)
        return 0

    cdef int put_message(self, int64_t row) noexcept nogil:
        """3.2: the sections that have values, in order."""
        if self.put_columns(row, AMQP10_HEADER, A10B_DURABLE) or \
                self.put_map(row, A10B_DELIVERY_ANNOTATIONS, AMQP10_SECTION_DELIVERY_ANNOTATIONS) or \
                self.put_map(row, A10B_MESSAGE_ANNOTATIONS, AMQP10_SECTION_MESSAGE_ANNOTATIONS) or \
                self.put_columns(row, AMQP10_PROPERTIES, A10B_MESSAGE_ID) or \
                self.put_map(row, A10B_HEADERS, AMQP10_SECTION_APPLICATION_PROPERTIES) or \
                self.put_body(row) or \
                self.put_map(row, A10B_FOOTER, AMQP10_SECTION_FOOTER):
            return -1
        return 0

    cdef int put_columns(self, int64_t row, int number, int first) noexcept nogil:
        """Header or properties, whose columns are in the order of the fields."""
        cdef const Amqp10ShapeRow* shape = &amqp10_shapes[number]
        cdef const SourceCol* column
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.message
        cdef size_t mark
        cdef int64_t v = 0
        cdef Span s
        cdef int i, type, count = shape.count
        while count and not source_has(self.cols + first + count - 1, row):
            count -= 1
        if count == 0:
            return 0
        amqp10_add_descriptor(o, shape.code)
        mark = amqp10_open(o)
        for i in range(count):
            column = self.cols + first + i
            type = amqp10_fields[shape.first + i].type
            if not source_has(column, row):
                amqp10_add_null(o)
            elif type == AMQP10_BOOLEAN:
                amqp10_add_boolean(o, source_bit(column, row))
            elif type == AMQP10_UBYTE:
                if source_number(x, column, row, 0, 0xFF, &v):
                    return -1
                amqp10_add_fixed(o, AMQP10_CODE_UBYTE, <uint64_t>v)
            elif type == AMQP10_UINT:
                if source_number(x, column, row, 0, 0xFFFFFFFF, &v):
                    return -1
                amqp10_add_uint(o, <uint32_t>v)
            elif type == AMQP10_TIMESTAMP:
                if source_number(x, column, row, INT64_MIN, INT64_MAX, &v):
                    return -1
                amqp10_add_fixed(o, AMQP10_CODE_TIMESTAMP, <uint64_t>v)
            else:
                if source_span(x, column, row, 0x7FFFFFFF, &s):
                    return -1
                amqp10_add_variable(o, AMQP10_CODE_SYM8 if type == AMQP10_SYMBOL else
                                    AMQP10_CODE_VBIN8 if type == AMQP10_BINARY else AMQP10_CODE_STR8, s.at, s.size)
        amqp10_close(o, mark, AMQP10_CODE_LIST8, <size_t>count)
        return 0

    cdef int put_map(self, int64_t row, int column, int section) noexcept nogil:
        """Annotations and the footer have symbols as keys, application properties strings; values are strings."""
        cdef const SourceCol* map = self.cols + column
        cdef const SourceCol* names = map.children.children
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.message
        cdef uint8_t code = AMQP10_CODE_STR8 if section == AMQP10_SECTION_APPLICATION_PROPERTIES else AMQP10_CODE_SYM8
        cdef int64_t at = 0, end = 0
        cdef size_t mark
        cdef Span name, value
        if not source_has(map, row):
            return 0
        if source_range(x, map, row, &at, &end):
            return -1
        amqp10_add_descriptor(o, <uint64_t>section)
        mark = amqp10_open(o)
        section = 0
        while at < end:
            if source_needed_span(x, names, at, 0x7FFFFFFF, &name) or source_needed_span(x, names + 1, at, 0x7FFFFFFF, &value):
                return -1
            amqp10_add_variable(o, code, name.at, name.size)
            amqp10_add_variable(o, AMQP10_CODE_STR8, value.at, value.size)
            section += 2
            at += 1
            if o.size > <size_t>0xFFFFFF00:
                return refuse_size(x, map, <int64_t>o.size, 0xFFFFFF00)
        amqp10_close(o, mark, AMQP10_CODE_MAP8, <size_t>section)
        return 0

    cdef int put_body(self, int64_t row) noexcept nogil:
        """A body of the kind of section in `body`, by default data."""
        cdef const SourceCol* c = self.cols
        cdef Problem* x = &self.problem
        cdef Octets* o = &self.message
        cdef const uint8_t* body = NULL
        cdef int64_t size = 0, sections = 1
        cdef size_t bad = 0
        self.body_type = 0
        if source_has(c + A10B_BODY, row):
            if source_name(x, c + A10B_BODY, row, AMQP10_BODY_TEXT, 3, &self.body_type):
                return -1
        elif not source_has(c + A10B_PAYLOAD, row):
            return 0                            # the parser decides whether a body is required
        if not source_has(c + A10B_PAYLOAD, row):
            return refuse(x, REFUSED_NULL, c + A10B_PAYLOAD)
        if source_octets(x, c + A10B_PAYLOAD, row, &body, &size) or \
                source_number(x, c + A10B_BODY_SECTIONS, row, 1, AMQP10_TRANSFERS_MAX, &sections):
            return -1
        if size > <int64_t>0xFFFFFF00:
            return refuse_size(x, c + A10B_PAYLOAD, size, 0xFFFFFF00)
        if self.body_type == 0:
            amqp10_add_descriptor(o, AMQP10_SECTION_DATA)
            amqp10_add_variable(o, AMQP10_CODE_VBIN8, body, <size_t>size)
            # the other sections are empty, because the columns do not have their sizes
            for sections in range(sections - 1, 0, -1):
                amqp10_add_descriptor(o, AMQP10_SECTION_DATA)
                amqp10_add_variable(o, AMQP10_CODE_VBIN8, body, 0)
            return 0
        if self.body_type == 1:
            return self.put_sequences(row, body, size, sections)
        if sections != 1:
            return refuse_range(x, c + A10B_BODY_SECTIONS, sections, 1, 1)
        amqp10_add_descriptor(o, AMQP10_SECTION_AMQP_VALUE)
        amqp10_add_variable(o, AMQP10_CODE_STR8 if is_utf8(body, <size_t>size, &bad) else AMQP10_CODE_VBIN8, body, <size_t>size)
        return 0

    cdef int put_sequences(self, int64_t row, const uint8_t* body, int64_t size, int64_t sections) noexcept nogil:
        """A section for each line of JSON."""
        cdef Octets* o = &self.message
        cdef const uint8_t* end = body + size
        cdef const uint8_t* stop
        cdef int64_t lines = 0
        cdef bint good = True
        cdef Span line
        while good:
            stop = <const uint8_t*>memchr(body, c"\n", <size_t>(end - body))
            line.at = body
            line.size = <uint32_t>((end if stop == NULL else stop) - body)
            good = line.size and line.at[0] == c"["
            if good:
                amqp10_add_descriptor(o, AMQP10_SECTION_AMQP_SEQUENCE)
                if self.put_json(o, &line, NULL, False, &good):
                    return -1
            lines += 1
            if stop == NULL:
                break
            body = stop + 1
        if not good:
            return refuse_text(&self.problem, self.cols + A10B_PAYLOAD, "an amqp-sequence is a JSON array in each line")
        if source_has(self.cols + A10B_BODY_SECTIONS, row) and lines != sections:
            return refuse_range(&self.problem, self.cols + A10B_BODY_SECTIONS, sections, lines, lines)
        return 0


def encode_batch(data, *, strictness="strict", max_frame_size=0):
    """Encode columns to frames, in one bytes object: one frame per row, or the transfers of a delivery.

    data: columns with the names and types of decode_batch's result (wirefmt.amqp10.columns.BATCH): a Batch, a pyarrow
    Table, RecordBatch or reader, a polars DataFrame: anything with `__arrow_c_array__` or `__arrow_c_stream__`. Integers may
    have any width, strings 64-bit offsets. `kind` is required, `channel` except for a protocol header, `handle` for a transfer.
    A missing column is a column of nulls. `byte_offset` and `wire_size` are ignored. Values of annotations and application
    properties are written as strings, a payload without `body` as data, a message in `transfers` transfers of similar size.
    strictness: "lax" writes what decode_batch accepts by default. max_frame_size: the largest frame in bytes; a message that does
    not fit takes more transfers; 0: no limit.

    Raises TypeError for data that is not Arrow columns; ValueError for an invalid option, an unknown column, or a column
    of another type; EncodeError, which names column and row, for a row that does not make a valid frame, or has an `error`.

    `decode_batch` of the bytes returns the same columns, except `byte_offset` and `wire_size` if values were written differently,
    and except what the columns do not contain (docs/columns.md).
    """
    cdef RowEncoder encoder = RowEncoder(AMQP10_BATCH_COLUMNS)
    encoder.tables = &AMQP10_TABLES
    take_amqp10_options(&encoder.options, strictness, None)
    encoder.options.common.max_frame_size = encoder.options.common.max_elements = 0
    encoder.max_frame_size = <uint32_t>whole_number(max_frame_size, 0xFFFFFFFF, "max_frame_size")
    return encoder.encode(data)
