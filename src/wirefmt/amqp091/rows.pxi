# AMQP 0.9.1 frames -> rows of the message table. A row is one method with its content.
#
# Arguments and properties go to columns by name (AMQP091_COMMON has those of the common columns, the amqp091
# struct all others). put_destination puts the destination; `attempts` comes from RabbitMQ's header x-delivery-count.
from wirefmt.amqp091.columns import FIELDS as AMQP091_STRUCT_FIELDS, OPERATIONS as AMQP091_OPERATION_ROWS


cdef struct Amqp091Flow:            # what is known about one TCP connection
    int64_t buffered                # octets of memory: client_id, and what the owner adds
    Text client_id                  # connection_name of the client's properties: RabbitMQ's convention


# Arguments and properties that have a common column.
cdef dict AMQP091_COMMON = {
    "routing_key": T_ROUTING_KEY, "delivery_tag": T_SEQUENCE, "redelivered": T_REDELIVERED, "reply_code": T_CODE,
    "content_type": T_CONTENT_TYPE, "headers": T_HEADERS, "correlation_id": T_CORRELATION_ID, "reply_to": T_REPLY_TO,
    "message_id": T_MESSAGE_ID,
}

cdef Text AMQP091_PROTOCOL_TEXT = pad_text(b"amqp091")
cdef Text AMQP091_VERSION_TEXT = pad_text(b"0.9.1")
cdef Text AMQP091_HEADER_TEXT = pad_text(b"header")
cdef Text AMQP091_BODY_TEXT = pad_text(b"body")
cdef Text[AMQP091_METHOD_COUNT][2] AMQP091_OPERATION_TEXT       # by method and direction
cdef Text AMQP091_PING_TEXT = pad_text(AMQP091_OPERATION_ROWS["heartbeat"][0].encode())
cdef Text AMQP091_CONNECT_TEXT = pad_text(AMQP091_OPERATION_ROWS["protocol-header"][0].encode())


cdef enum:
    AMQP091_PROPERTY_COLUMNS = 7    # of the table, to which properties are put


cdef enum Amqp091Shown:             # how a value is put, besides by its Amqp091DataType
    AMQP091_SHOWN_OCTETS = 9        # a long string in a column of binaries
    AMQP091_SHOWN_SECRET = 10       # ... that is null unless secrets are shown


cdef struct Amqp091Place:           # where an argument or property is put
    uint8_t column                  # of the table, or a field of the struct
    uint8_t shown                   # an Amqp091DataType or Amqp091Shown
    uint8_t slot, bit               # of an argument, as in Amqp091ArgumentRow
    uint8_t common                  # a column of the table


cdef struct Amqp091Places:          # of the arguments of one method
    uint8_t first                   # row of AMQP091_PLACE
    uint8_t common, count           # those in a column of the table, which come first, and all


cdef Amqp091Place[AMQP091_ARGUMENT_COUNT] AMQP091_PLACE
cdef Amqp091Places[AMQP091_METHOD_COUNT] AMQP091_PLACES
cdef Amqp091Place[AMQP091_PROPERTY_COUNT] AMQP091_PROPERTY_PLACE
cdef uint32_t AMQP091_COMMON_PROPERTIES         # flags of the properties that columns of the table show
cdef int[AMQP091_PROPERTY_COLUMNS] AMQP091_PROPERTY_COLUMN_OF      # columns of the table that properties are put to
cdef int16_t[AMQP091_METHOD_COUNT] AMQP091_DESTINATION_ARGUMENT     # row of amqp091_arguments; -1: the method has none


cdef int fill_amqp091_places(int method, dict fields) except -1:
    """The places of a method's arguments. `destination` of exchange.bind is only the row's destination."""
    cdef const Amqp091MethodRow* row = &amqp091_methods[method]
    cdef const Amqp091ArgumentRow* a
    cdef Amqp091Places* places = &AMQP091_PLACES[method]
    cdef Amqp091Place* place
    cdef int i
    places.first = <uint8_t>row.first
    for columns in (AMQP091_COMMON, fields):
        for i in range(row.first, row.first + row.count):
            a = &amqp091_arguments[i]
            name = AMQP091_ARGUMENT_NAMES[a.name].rstrip("_")
            if name not in columns or (columns is fields and name in AMQP091_COMMON):
                continue
            place = &AMQP091_PLACE[places.first + places.count]
            place.column = <uint8_t>columns[name]
            place.shown = a.type
            if a.type == AMQP091_LONGSTR and AMQP091_STRUCT_FIELDS[columns[name]].type == "binary":
                place.shown = AMQP091_SHOWN_SECRET if AMQP091_ARGUMENT_SECRET[a.name] else AMQP091_SHOWN_OCTETS
            place.slot = a.slot
            place.bit = a.bit
            places.count += 1
        if columns is AMQP091_COMMON:
            places.common = places.count
    return 0


cdef int fill_amqp091_rows() except -1:
    global AMQP091_COMMON_PROPERTIES
    cdef dict fields = {column.name: i for i, column in enumerate(AMQP091_STRUCT_FIELDS)}
    cdef int i, d, k
    unknown = AMQP091_COMMON.keys() - {*AMQP091_ARGUMENT_NAMES, *AMQP091_PROPERTY_NAMES}
    if unknown:
        raise KeyError(f"no such arguments or properties: {unknown}")
    for i in range(1, AMQP091_METHOD_COUNT):
        kind = (<bytes>amqp091_methods[i].name).decode("ascii")
        for d in range(2):
            AMQP091_OPERATION_TEXT[i][d] = pad_text(AMQP091_OPERATION_ROWS[kind][d].encode())
        names = {}
        for k in range(amqp091_methods[i].first, amqp091_methods[i].first + amqp091_methods[i].count):
            names[AMQP091_ARGUMENT_NAMES[amqp091_arguments[k].name]] = k
        AMQP091_DESTINATION_ARGUMENT[i] = <int16_t>names.get("queue", names.get("destination", names.get("exchange", -1)))
        fill_amqp091_places(i, fields)
    for i in range(AMQP091_PROPERTY_COUNT):
        name = AMQP091_PROPERTY_NAMES[i]
        AMQP091_PROPERTY_PLACE[i].column = <uint8_t>(AMQP091_COMMON[name] if name in AMQP091_COMMON else fields[name])
        AMQP091_PROPERTY_PLACE[i].shown = amqp091_properties[i].type
        AMQP091_PROPERTY_PLACE[i].common = name in AMQP091_COMMON
        if name in AMQP091_COMMON or i == AMQP091_PROPERTY_EXPIRATION:
            AMQP091_COMMON_PROPERTIES |= amqp091_properties[i].flag
    columns = {T_TTL_MS, T_ATTEMPTS, *(AMQP091_COMMON[name] for name in AMQP091_PROPERTY_NAMES if name in AMQP091_COMMON)}
    if len(columns) != AMQP091_PROPERTY_COLUMNS:
        raise IndexError(f"AMQP091_PROPERTY_COLUMNS must be {len(columns)}")
    for i, k in enumerate(columns):
        AMQP091_PROPERTY_COLUMN_OF[i] = k
    return 0


fill_amqp091_rows()


cdef void amqp091_observe_client(Amqp091Flow* flow, const Amqp091FrameView* m) noexcept nogil:
    """connection.start-ok: the client's name for its connection."""
    cdef const Amqp091ArgumentRow* a = amqp091_find_argument(m, AMQP091_ARGUMENT_CLIENT_PROPERTIES)
    cdef Amqp091Entry e
    cdef Octets o
    memset(&o, 0, sizeof(o))
    if not amqp091_find_entry(m.frame + m.value[a.slot], "connection_name", 15, &e) or e.letter != c"S" or e.size == 0:
        return
    amqp091_add_plain(&o, e.at, e.size)
    if not o.failed:
        keep_text(&flow.client_id, o.at, o.size, &flow.buffered)
    free_octets(&o)


# ------------------------------------------------------------------------------------------------ methods

cdef void amqp091_put_kind(MessageTable t, int64_t row, const Amqp091FrameView* m, int direction) noexcept nogil:
    """Put the kind of a frame, which may be only partly readable."""
    cdef Col* c = t.cols
    put_text(c + T_PROTOCOL, row, &AMQP091_PROTOCOL_TEXT)
    if c[<int>T_VERSION].on:                # a test here costs less than the call
        put_text(c + T_VERSION, row, &AMQP091_VERSION_TEXT)
    if m.type == AMQP091_PROTOCOL_HEADER:
        put_text(c + T_KIND, row, &AMQP091_PROTOCOL_HEADER_TEXT)
        put_text(c + T_OPERATION, row, &AMQP091_CONNECT_TEXT)
        return
    if c[<int>T_CHANNEL].on:
        put_i32(c + T_CHANNEL, row, m.channel)
    if m.method:
        amqp091_put_method_kind(c, row, m.method, direction)
    elif m.type == AMQP091_FRAME_HEARTBEAT:
        put_text(c + T_KIND, row, &AMQP091_HEARTBEAT_TEXT)
        put_text(c + T_OPERATION, row, &AMQP091_PING_TEXT)
    elif m.type == AMQP091_FRAME_HEADER:
        put_text(c + T_KIND, row, &AMQP091_HEADER_TEXT)
    elif m.type == AMQP091_FRAME_BODY:
        put_text(c + T_KIND, row, &AMQP091_BODY_TEXT)


cdef inline void amqp091_put_method_kind(Col* c, int64_t row, int method, int direction) noexcept nogil:
    put_text(c + T_KIND, row, &AMQP091_KIND_TEXT[method])
    if c[<int>T_OPERATION].on:
        put_text(c + T_OPERATION, row, &AMQP091_OPERATION_TEXT[method][direction])


cdef inline void amqp091_put_value(Col* c, int64_t row, const Amqp091Place* place, const uint8_t* p) noexcept nogil:
    """Put an argument or property to its column."""
    cdef Span s
    if not c.on:
        return
    if place.shown == AMQP091_SHORTSTR:
        s = amqp091_shortstr_at(p)
        amqp091_put_text(c, row, &s)
    elif place.shown == AMQP091_BIT:
        put_bool(c, row, p[0] >> place.bit & 1)
    elif place.shown == AMQP091_OCTET:
        put_i16(c, row, p[0])
    elif place.shown == AMQP091_SHORT:
        put_i32(c, row, load_u16(p))
    elif place.shown == AMQP091_LONG:
        put_i64(c, row, load_u32(p))
    elif place.shown == AMQP091_TABLE:
        amqp091_put_table(c, row, p)
    elif place.shown == AMQP091_LONGLONG or place.shown == AMQP091_TIMESTAMP:
        put_i64(c, row, <int64_t>load_u64(p))
    else:
        s = amqp091_longstr_at(p)
        if place.shown == AMQP091_LONGSTR:
            amqp091_put_text(c, row, &s)
        elif place.shown == AMQP091_SHOWN_SECRET:
            put_secret(c, row, &s)
        else:
            put_span(c, row, &s)


cdef inline void amqp091_put_arguments(MessageTable t, int64_t row, const Amqp091FrameView* m) noexcept nogil:
    cdef const Amqp091Places* places = &AMQP091_PLACES[m.method]
    cdef const Amqp091Place* place = &AMQP091_PLACE[places.first]
    cdef const Amqp091Place* common = place + places.common
    cdef const Amqp091Place* end = place + places.count if t.cols[<int>T_AMQP091].on else common
    cdef Col* c = t.cols
    while place < end:
        if place == common:
            c = t.cols[<int>T_AMQP091].children
        amqp091_put_value(c + place.column, row, place, m.frame + m.value[place.slot])
        place += 1


cdef void amqp091_put_destination(MessageTable t, int64_t row, const Amqp091FrameView* m) noexcept nogil:
    """Put the queue, or otherwise the exchange, that the method concerns. Messages of the default exchange (its name is empty)
    go to the queue that the routing key names (1.7.2.1, 3.1.3.1)."""
    cdef int i = AMQP091_DESTINATION_ARGUMENT[m.method]
    cdef const Amqp091ArgumentRow* a
    cdef Span name
    if i < 0 or not t.cols[<int>T_DESTINATION].on:
        return
    name = amqp091_shortstr_at(m.frame + m.value[amqp091_arguments[i].slot])
    if name.size == 0 and amqp091_methods[m.method].content:
        a = amqp091_find_argument(m, AMQP091_ARGUMENT_ROUTING_KEY)
        name = amqp091_shortstr_at(m.frame + m.value[a.slot])
    if name.size:
        amqp091_put_text(t.cols + T_DESTINATION, row, &name)


cdef void amqp091_put_row(MessageTable t, int64_t row, const Amqp091FrameView* m, Amqp091Flow* flow,
                          int direction) noexcept nogil:
    """Fill AMQP's part of a row that begin_row began, except the content. The caller sets status and error."""
    cdef Col* fields = t.cols[<int>T_AMQP091].children
    if m.method == AMQP091_CONNECTION_START_OK:
        amqp091_observe_client(flow, m)
    amqp091_put_kind(t, row, m, direction)
    if flow.client_id.size:
        put_text(t.cols + T_CLIENT_ID, row, &flow.client_id)
    if t.cols[<int>T_AMQP091].on:
        put_struct(t.cols + T_AMQP091, row)
    if m.method:
        amqp091_put_destination(t, row, m)
        amqp091_put_arguments(t, row, m)
    elif m.type == AMQP091_PROTOCOL_HEADER:
        put_i16(fields + A9_VERSION_MAJOR, row, m.payload.at[1])
        put_i16(fields + A9_VERSION_MINOR, row, m.payload.at[2])
        put_i16(fields + A9_VERSION_REVISION, row, m.payload.at[3])


# ------------------------------------------------------------------------------------------------ contents

cdef bint amqp091_milliseconds(const Span* text, int64_t* out) noexcept nogil:
    """`expiration`: RabbitMQ accepts digits only."""
    cdef uint32_t i
    out[0] = 0
    if text.size == 0 or text.size > 18:
        return False
    for i in range(text.size):
        if text.at[i] < c"0" or text.at[i] > c"9":
            return False
        out[0] = out[0] * 10 + (text.at[i] - c"0")
    return True


cdef inline bint amqp091_shows_properties(const Col* cols) noexcept nogil:
    """Is a column on that properties are put to?"""
    cdef int i
    if cols[<int>T_AMQP091].on:
        return True
    for i in range(AMQP091_PROPERTY_COLUMNS):
        if cols[AMQP091_PROPERTY_COLUMN_OF[i]].on:
            return True
    return False


cdef void amqp091_put_header(MessageTable t, int64_t row, const Amqp091FrameView* h, int method) noexcept nogil:
    """Put the properties of a content; `method` is its method's row. If it was delivered to a consumer, RabbitMQ's count of
    deliveries is the column `attempts`."""
    cdef bint on = t.cols[<int>T_AMQP091].on
    cdef Col* fields = t.cols[<int>T_AMQP091].children
    cdef uint32_t flags = h.properties.flags & ~<uint32_t>AMQP091_FLAGS_UNASSIGNED
    cdef const uint8_t* p
    cdef Amqp091Entry e
    cdef Span s
    cdef int64_t number = 0
    cdef int i
    if on:
        put_i64(fields + A9_BODY_SIZE, row, <int64_t>min(h.body_size, <uint64_t>0x7FFFFFFFFFFFFFFF))
    else:
        flags &= AMQP091_COMMON_PROPERTIES
    while flags:                            # the highest bit is that of the first property
        i = zeros_of_16(flags)
        flags ^= 0x8000 >> i
        p = h.properties.at + h.properties.value[i]
        amqp091_put_value((t.cols if AMQP091_PROPERTY_PLACE[i].common else fields) + AMQP091_PROPERTY_PLACE[i].column, row,
                          &AMQP091_PROPERTY_PLACE[i], p)
        if i == AMQP091_PROPERTY_EXPIRATION:
            s = amqp091_shortstr_at(p)
            if amqp091_milliseconds(&s, &number):
                put_i64(t.cols + T_TTL_MS, row, number)
        elif i == AMQP091_PROPERTY_HEADERS and t.cols[<int>T_ATTEMPTS].on and \
                (method == AMQP091_BASIC_DELIVER or method == AMQP091_BASIC_GET_OK) and \
                amqp091_find_entry(p, "x-delivery-count", 16, &e) and \
                amqp091_entry_number(&e, &number) and 0 <= number < 0x7FFFFFFF:
            put_i32(t.cols + T_ATTEMPTS, row, <int32_t>number + 1)
