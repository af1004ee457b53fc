# AMQP 1.0 frames of one direction -> columns: decode_batch. Transfers are assembled, sections of messages decoded.
#
# It uses amqp10_parse, amqp10_join and amqp10_parse_message, so its results agree with the objects.
from wirefmt.amqp10.columns import BATCH as AMQP10_BATCH_COLUMNS


cdef Text[AMQP10_SHAPES] AMQP10_KIND_TEXT           # by shape
cdef Text AMQP10_PROTOCOL_HEADER_TEXT = pad_text(b"protocol-header")
cdef Text AMQP10_EMPTY_TEXT = pad_text(b"empty")
cdef const char* AMQP10_ABORTED_TEXT = "delivery was aborted"
cdef const uint8_t* AMQP10_TRUE = b"\x41"           # a value (1.6.2)
cdef Text[3] AMQP10_BODY_TEXT                       # by code - AMQP10_SECTION_DATA
cdef int[AMQP10_FIELDS_MAX] AMQP10_TRANSFER_COLUMN  # field of transfer -> its column; -1: an entry of `fields`


cdef struct Amqp10Cell:             # where a field is put
    uint8_t form                    # an Amqp10Form; AMQP10_FORM_NONE: an entry of `fields`
    uint8_t column


cdef Amqp10Cell[AMQP10_FIELD_ROWS] AMQP10_CELLS     # by row of amqp10_fields
cdef int[AMQP10_FAST_MAPS] AMQP10_FAST_COLUMN     # of the maps of an Amqp10FastView
AMQP10_FAST_COLUMN = [A10B_DELIVERY_ANNOTATIONS, A10B_MESSAGE_ANNOTATIONS, -1, A10B_HEADERS]


cdef int fill_amqp10_tables() except -1:
    cdef int i, k, column
    for i in range(1, AMQP10_SHAPES):
        AMQP10_KIND_TEXT[i] = pad_text(amqp10_shape_name[i])
    for i, name in enumerate((b"data", b"amqp-sequence", b"amqp-value")):
        AMQP10_BODY_TEXT[i] = pad_text(name)
    for i in range(AMQP10_FIELDS_MAX):
        AMQP10_TRANSFER_COLUMN[i] = -1
    for i in range(AMQP10_TRANSFER_HANDLE, AMQP10_TRANSFER_SETTLED + 1):
        AMQP10_TRANSFER_COLUMN[i] = A10B_HANDLE + i
    # columns of a composite are in the order of its fields
    for i, column, count in ((AMQP10_TRANSFER, A10B_HANDLE, AMQP10_TRANSFER_SETTLED + 1),
                             (AMQP10_HEADER, A10B_DURABLE, amqp10_shapes[<int>AMQP10_HEADER].count),
                             (AMQP10_PROPERTIES, A10B_MESSAGE_ID, amqp10_shapes[<int>AMQP10_PROPERTIES].count)):
        for k in range(count):
            AMQP10_CELLS[amqp10_shapes[i].first + k].column = <uint8_t>(column + k)
            AMQP10_CELLS[amqp10_shapes[i].first + k].form = AMQP10_FORMS[AMQP10_BATCH_COLUMNS[column + k].type]
    return 0


fill_amqp10_tables()


cdef class BatchColumns(FrameBatch):
    """The columns of decode_batch while they are filled."""

    cdef bint payload
    cdef Amqp10Options options
    cdef Amqp10Deliveries deliveries

    def __dealloc__(self):
        amqp10_drop_deliveries(&self.deliveries)

    # ---- rows

    cdef void put_parsed(self, int64_t offset, int64_t size, const Amqp10FrameView* f) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        self.put_place(offset, size)
        if f.kind == AMQP10_KIND_PROTOCOL_HEADER:
            put_text(c + A10B_KIND, row, &AMQP10_PROTOCOL_HEADER_TEXT)
            return
        if f.type == 0:                     # octets 6 and 7 of a SASL frame are ignored (5.3.1)
            put_i32(c + A10B_CHANNEL, row, f.channel)
        if f.kind == AMQP10_KIND_EMPTY:
            put_text(c + A10B_KIND, row, &AMQP10_EMPTY_TEXT)
            return
        put_text(c + A10B_KIND, row, &AMQP10_KIND_TEXT[f.performative.shape])
        self.put_fields(row, &f.performative)

    cdef void put_fields(self, int64_t row, const Amqp10CompositeView* p) noexcept nogil:
        """Put the fields of a performative, header or properties."""
        cdef int i
        for i in range(amqp10_shapes[p.shape].count):
            if p.at[i] != NULL:
                self.put_field(row, p.shape, amqp10_shapes[p.shape].first + i, p.at[i], p.plain >> i & 1)

    cdef inline void put_field(self, int64_t row, int shape, int k, const uint8_t* at, bint plain) noexcept nogil:
        """Put a field, row `k` of amqp10_fields."""
        cdef const Amqp10Cell* cell = &AMQP10_CELLS[k]
        if cell.form:
            amqp10_put_as(self.cols + cell.column, row, cell.form, at, plain)
        elif self.cols[<int>A10B_FIELDS].on:
            self.put_entry(row, shape, k, at)

    cdef void put_entry(self, int64_t row, int shape, int k, const uint8_t* at) noexcept nogil:
        """Put a field that has no column of its own to the map."""
        cdef Col* map = self.cols + A10B_FIELDS
        cdef Amqp10ValueView v
        cdef Amqp10ValueView name
        memset(&name, 0, sizeof(Amqp10ValueView))
        name.type = AMQP10_SYMBOL
        name.body = <const uint8_t*>amqp10_field_name[k]
        name.size = <uint32_t>strlen(amqp10_field_name[k])
        amqp10_read(at, &v)
        if AMQP10_SECRET[shape][k - amqp10_shapes[shape].first] and not map.shared.exposed:
            put_secret_entry(map, row, name.body, name.size, NULL, 0)
        else:
            amqp10_put_entry(map, row, &name, &v)

    cdef void put_message(self, int64_t offset, const Amqp10CompositeView* transfer, const uint8_t* p, size_t n) noexcept nogil:
        cdef Amqp10MessageView m
        cdef Fault f
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        if amqp10_is_opaque(transfer):
            if self.payload:
                put_octets(c + A10B_PAYLOAD, row, p if n else <const uint8_t*>b"", <int64_t>n)
            return
        if amqp10_parse_message(p, n, &self.options, &m, &f) != OK:
            self.put_fault(offset, &f)
            return
        if m.header.shape:
            self.put_fields(row, &m.header)
        if m.properties.shape:
            self.put_fields(row, &m.properties)
        self.put_section(row, A10B_DELIVERY_ANNOTATIONS, &m, AMQP10_SECTION_DELIVERY_ANNOTATIONS)
        self.put_section(row, A10B_MESSAGE_ANNOTATIONS, &m, AMQP10_SECTION_MESSAGE_ANNOTATIONS)
        self.put_section(row, A10B_HEADERS, &m, AMQP10_SECTION_APPLICATION_PROPERTIES)
        self.put_section(row, A10B_FOOTER, &m, AMQP10_SECTION_FOOTER)
        if m.body == 0:
            return
        put_text(c + A10B_BODY, row, &AMQP10_BODY_TEXT[m.body - AMQP10_SECTION_DATA])
        put_i32(c + A10B_BODY_SECTIONS, row, <int32_t>m.body_count)
        if not self.payload:
            return
        if m.payload.at != NULL:
            put_octets(c + A10B_PAYLOAD, row, m.payload.at, m.payload.size)
        else:
            self.put_body(row, &m)

    cdef inline void put_section(self, int64_t row, int column, const Amqp10MessageView* m, int code) noexcept nogil:
        if m.at[code - AMQP10_SECTION_FIRST] != NULL:
            amqp10_put_entries(self.cols + column, row, m.at[code - AMQP10_SECTION_FIRST],
                               m.plain >> (code - AMQP10_SECTION_FIRST) & 1, m.octets + m.size)

    cdef void put_body(self, int64_t row, const Amqp10MessageView* m) noexcept nogil:
        """Put a body that is not one data section: several joined, other sections as text, with a line for each sequence."""
        cdef Octets o
        cdef const uint8_t* at = m.octets
        cdef Amqp10Section section
        cdef Amqp10ValueView v
        cdef bint first = True
        memset(&o, 0, sizeof(Octets))
        while amqp10_next_section(&at, m.octets + m.size, &section):
            if section.code < AMQP10_SECTION_DATA or section.code > AMQP10_SECTION_AMQP_VALUE:
                continue
            amqp10_read(section.at, &v)
            if section.code == AMQP10_SECTION_DATA or v.type == AMQP10_BINARY:
                add_octets(&o, v.body, v.size)
                continue
            if not first:
                add_u8(&o, c"\n")
            first = False
            amqp10_add_text(&o, &v)
        amqp10_put_written(self.cols + A10B_PAYLOAD, row, &o)

    cdef void put_text_error(self, const char* text) noexcept nogil:
        put_octets(self.cols + A10B_ERROR, self.row, <const uint8_t*>text, <int64_t>strlen(text))

    # ---- deliveries

    cdef void put_delivery(self, const Amqp10Delivery* d, int64_t size, const char* error) noexcept nogil:
        """Put the row of a delivery in several transfers. `error`: the reason if it is incomplete, otherwise NULL."""
        cdef Amqp10FrameView first
        cdef Fault f
        if amqp10_parse(d.first.at, d.first.size, &self.options, &first, &f) != OK:
            self.put_error(d.m.byte_offset, size, &f)
            return
        if d == self.deliveries.done:       # `more` is of a delivery that lacks its last transfer
            first.performative.at[<int>AMQP10_TRANSFER_MORE] = NULL
            if error != NULL:
                first.performative.at[<int>AMQP10_TRANSFER_ABORTED] = AMQP10_TRUE
        if d.settled:                       # the first put counts: any transfer may settle
            put_bool(self.cols + A10B_SETTLED, self.row, True)
        self.put_parsed(d.m.byte_offset, size, &first)
        put_i32(self.cols + A10B_TRANSFERS, self.row, <int32_t>d.transfers)
        if error != NULL:
            self.put_text_error(error)
        else:
            self.put_message(d.m.byte_offset, &first.performative, d.payload.at, d.payload.size)
        self.row += 1

    # ---- frames

    cdef int64_t put_fast(self, const uint8_t* data, int64_t at, int64_t size) noexcept nogil:
        """The fast path: deliveries of one frame."""
        cdef Amqp10FastView u
        cdef size_t n
        while at < size:
            n = amqp10_read_fast(data + at, <size_t>(size - at), &self.options.common, &u)
            if n == 0 or amqp10_find_delivery(&self.deliveries, u.channel, u.handle) != NULL:
                break
            self.shared.read = at
            self.put_whole(at, <int64_t>n, &u)
            at += <int64_t>n
        return at

    cdef inline void put_whole(self, int64_t at, int64_t size, const Amqp10FastView* u) noexcept nogil:
        cdef Col* c = self.cols
        cdef int64_t row = self.row
        cdef int i
        self.put_place(at, size)
        put_i32(c + A10B_CHANNEL, row, u.channel)
        put_text(c + A10B_KIND, row, &AMQP10_KIND_TEXT[<int>AMQP10_TRANSFER])
        put_i32(c + A10B_TRANSFERS, row, 1)
        for i in range(u.count):            # of other shapes all have columns
            self.put_field(row, AMQP10_TRANSFER, u.field[i], u.at[i], True)
        for i in range(AMQP10_FAST_MAPS):
            if u.map[i] != NULL:
                amqp10_put_entries(c + AMQP10_FAST_COLUMN[i], row, u.map[i], True, u.end)
        put_text(c + A10B_BODY, row, &AMQP10_BODY_TEXT[0])
        put_i32(c + A10B_BODY_SECTIONS, row, 1)
        if self.payload:
            put_octets(c + A10B_PAYLOAD, row, u.payload.at, u.payload.size)
        self.row += 1

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept nogil:
        return amqp10_frame_size(p, n, self.options.common.max_frame_size, size, f)

    cdef int put_frame(self, int64_t at, const uint8_t* p, size_t n, Fault* f) noexcept nogil:
        cdef Amqp10FrameView frame
        cdef Amqp10Delivery* kept = NULL
        cdef int answer = AMQP10_JOIN_OTHER
        cdef int status = amqp10_parse(p, n, &self.options, &frame, f)
        if status != OK:
            return status
        if frame.kind == AMQP10_KIND_PERFORMATIVE:
            answer = amqp10_join(&self.deliveries, &frame, self.options.common.strict, &kept, f)
        if answer == AMQP10_JOIN_PART:
            if kept.transfers == 1:
                kept.m.byte_offset = at
            kept.m.wire_size += frame.size
            return OK
        if answer == AMQP10_JOIN_FAULT:
            return f.status
        if answer == AMQP10_JOIN_LAST:
            self.put_delivery(self.deliveries.done, self.deliveries.done.m.wire_size + frame.size, NULL)
            return OK
        if answer == AMQP10_JOIN_ABORTED and self.deliveries.done != NULL:
            self.put_delivery(self.deliveries.done, self.deliveries.done.m.wire_size + frame.size, AMQP10_ABORTED_TEXT)
            return OK
        self.put_parsed(at, frame.size, &frame)
        if frame.performative.shape == AMQP10_TRANSFER:
            put_i32(self.cols + A10B_TRANSFERS, self.row, 1)
        if answer == AMQP10_JOIN_ABORTED:
            self.put_text_error(AMQP10_ABORTED_TEXT)
        elif answer == AMQP10_JOIN_WHOLE:
            self.put_message(at + frame.size - frame.payload.size, &frame.performative, frame.payload.at, frame.payload.size)
        self.row += 1
        return OK

    cdef void put_unfinished(self, int64_t at) noexcept nogil:
        cdef const Amqp10Delivery* delivery = self.deliveries.first
        while delivery != NULL:
            self.put_delivery(delivery, delivery.m.wire_size, "input ends inside the delivery")
            delivery = delivery.next


def decode_batch(data, *, strictness="lax", columns=None, bint payload=True, bint expose_credentials=False,
                 limits=None):
    """Decode a buffer of frames of one direction, one after another, to columns at once.

    data: any contiguous buffer; bytes and views of bytes are read in place, any other buffer is copied once. columns:
    names to keep, in order (wirefmt.amqp10.columns.BATCH has all). payload=False omits bodies. Secrets
    (docs/secrets.md) are *** unless expose_credentials. limits: wirefmt.framing.Limits; `frame_size` also limits
    the bytes kept of pending deliveries.

    Raises ValueError for an invalid option, BufferError for data that is not contiguous, OverflowError if a
    column would exceed 2 GiB.

    Returns a Batch of one row per protocol header or frame; the transfers of a delivery are one row, in the place of the
    last. A malformed frame is a row with `error`, which gives field, offset and reason; so are a malformed message, an
    aborted delivery and, after all others, a delivery that `data` does not complete. If the length of a frame is invalid,
    the rest of `data` is one such row. The bytes of an incomplete last frame have no row:
    `batch.rest` counts them.
    """
    cdef Input octets = take_input(data)
    cdef BatchColumns columns_set = BatchColumns(AMQP10_BATCH_COLUMNS, columns)
    take_amqp10_options(&columns_set.options, strictness, limits)
    columns_set.deliveries.max_octets = columns_set.options.common.max_frame_size
    columns_set.deliveries.max_count = AMQP10_MAX_DELIVERIES
    columns_set.payload = payload
    columns_set.expose(expose_credentials)
    return columns_set.decode(&AMQP10_TABLES, octets, A10B_PAYLOAD if payload else -1)
