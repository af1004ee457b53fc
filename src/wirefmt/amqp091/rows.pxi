# AMQP 0.9.1 frames -> rows of the message table. A row is one method with its content.
#
# Arguments and properties go to columns by name (AMQP091_COMMON has those of the common columns, the amqp091
# struct all others). put_destination puts the destination; `attempts` comes from RabbitMQ's header x-delivery-count.
from wirefmt.amqp091.columns import FIELDS as AMQP091_STRUCT_FIELDS, OPERATIONS as AMQP091_OPERATION_ROWS


cdef struct Amqp091Flow:            # what is known about one TCP connection
    int64_t held                    # octets of memory: client_id, and what the owner adds
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
# The columns of arguments (by Amqp091ArgumentName) and properties (by Amqp091Property): a column of the table, or a field of the
# struct; -1: neither. `destination` of exchange.bind is only the row's destination.
cdef int8_t[AMQP091_ARGUMENT_NAME_COUNT] AMQP091_ARGUMENT_COMMON
cdef int8_t[AMQP091_ARGUMENT_NAME_COUNT] AMQP091_ARGUMENT_FIELD
cdef int8_t[AMQP091_PROPERTY_COUNT] AMQP091_PROPERTY_COMMON
cdef int8_t[AMQP091_PROPERTY_COUNT] AMQP091_PROPERTY_FIELD
cdef int16_t[AMQP091_METHOD_COUNT] AMQP091_DESTINATION_ARGUMENT     # row of amqp091_arguments; -1: the method has none


cdef int fill_amqp091_rows() except -1:
    cdef dict fields = {column.name: i for i, column in enumerate(AMQP091_STRUCT_FIELDS)}
    cdef int i, d, k
    for i in range(1, AMQP091_METHOD_COUNT):
        kind = (<bytes>amqp091_methods[i].name).decode("ascii")
        for d in range(2):
            AMQP091_OPERATION_TEXT[i][d] = pad_text(AMQP091_OPERATION_ROWS[kind][d].encode())
        names = {}
        for k in range(amqp091_methods[i].first, amqp091_methods[i].first + amqp091_methods[i].count):
            names[AMQP091_ARGUMENT_NAMES[amqp091_arguments[k].name]] = k
        AMQP091_DESTINATION_ARGUMENT[i] = <int16_t>names.get("queue", names.get("destination", names.get("exchange", -1)))
    for i in range(AMQP091_ARGUMENT_NAME_COUNT):
        name = AMQP091_ARGUMENT_NAMES[i].rstrip("_")
        AMQP091_ARGUMENT_COMMON[i] = <int8_t>AMQP091_COMMON.get(name, -1)
        AMQP091_ARGUMENT_FIELD[i] = <int8_t>fields.get(name, -1)
    for i in range(AMQP091_PROPERTY_COUNT):
        AMQP091_PROPERTY_COMMON[i] = <int8_t>AMQP091_COMMON.get(AMQP091_PROPERTY_NAMES[i], -1)
        AMQP091_PROPERTY_FIELD[i] = <int8_t>fields.get(AMQP091_PROPERTY_NAMES[i], -1)
    return 0


fill_amqp091_rows()


cdef void amqp091_learn_client(Amqp091Flow* flow, const Amqp091FrameView* m) noexcept nogil:
    """connection.start-ok: the client's name for its connection."""
    cdef const Amqp091ArgumentRow* a = amqp091_find_argument(m, AMQP091_ARGUMENT_CLIENT_PROPERTIES)
    cdef Amqp091Entry e
    cdef Octets o
    memset(&o, 0, sizeof(o))
    if not amqp091_find_entry(m.frame + m.value[a.slot], "connection_name", 15, &e) or e.letter != c"S" or e.size == 0:
        return
    amqp091_add_plain(&o, e.at, e.size)
    if not o.failed:
        keep_text(&flow.client_id, o.at, o.size, &flow.held)
    free_octets(&o)


# ------------------------------------------------------------------------------------------------ methods

cdef void amqp091_put_kind(MessageTable t, int64_t row, const Amqp091FrameView* m, int direction) noexcept nogil:
    """Put the kind of a frame, which may be only partly readable."""
    cdef Col* c = t.cols
    put_text(c + T_PROTOCOL, row, &AMQP091_PROTOCOL_TEXT)
    put_text(c + T_VERSION, row, &AMQP091_VERSION_TEXT)
    if m.type == AMQP091_PROTOCOL_HEADER:
        put_text(c + T_KIND, row, &AMQP091_PROTOCOL_HEADER_TEXT)
        put_text(c + T_OPERATION, row, &AMQP091_CONNECT_TEXT)
        return
    put_i32(c + T_CHANNEL, row, m.channel)
    if m.method:
        put_text(c + T_KIND, row, &AMQP091_KIND_TEXT[m.method])
        put_text(c + T_OPERATION, row, &AMQP091_OPERATION_TEXT[m.method][direction])
    elif m.type == AMQP091_FRAME_HEARTBEAT:
        put_text(c + T_KIND, row, &AMQP091_HEARTBEAT_TEXT)
        put_text(c + T_OPERATION, row, &AMQP091_PING_TEXT)
    elif m.type == AMQP091_FRAME_HEADER:
        put_text(c + T_KIND, row, &AMQP091_HEADER_TEXT)
    elif m.type == AMQP091_FRAME_BODY:
        put_text(c + T_KIND, row, &AMQP091_BODY_TEXT)


cdef void amqp091_put_value(Col* c, int64_t row, int type, int bit, const uint8_t* p) noexcept nogil:
    """Put an argument or property to a column of its type; long strings are strings or binaries."""
    cdef Span s
    if not c.on:
        return
    if type == AMQP091_BIT:
        put_bool(c, row, p[0] >> bit & 1)
    elif type == AMQP091_OCTET:
        put_i16(c, row, p[0])
    elif type == AMQP091_SHORT:
        put_i32(c, row, load_u16(p))
    elif type == AMQP091_LONG:
        put_i64(c, row, load_u32(p))
    elif type == AMQP091_TABLE:
        amqp091_put_table(c, row, p)
    elif type == AMQP091_SHORTSTR or type == AMQP091_LONGSTR:
        s = amqp091_shortstr_at(p) if type == AMQP091_SHORTSTR else amqp091_longstr_at(p)
        amqp091_put_text(c, row, &s)
    else:
        put_i64(c, row, <int64_t>load_u64(p))


cdef void amqp091_put_arguments(MessageTable t, int64_t row, const Amqp091FrameView* m) noexcept nogil:
    cdef const Amqp091MethodRow* method = &amqp091_methods[m.method]
    cdef const Amqp091ArgumentRow* a
    cdef const uint8_t* p
    cdef Col* fields = t.cols[<int>T_AMQP091].children
    cdef Span s
    cdef int i
    for i in range(method.first, method.first + method.count):
        a = &amqp091_arguments[i]
        p = m.frame + m.value[a.slot]
        if AMQP091_ARGUMENT_COMMON[a.name] >= 0:
            amqp091_put_value(t.cols + AMQP091_ARGUMENT_COMMON[a.name], row, a.type, a.bit, p)
        elif a.type == AMQP091_LONGSTR and a.name != AMQP091_ARGUMENT_MECHANISMS and a.name != AMQP091_ARGUMENT_LOCALES:
            s = amqp091_longstr_at(p)
            if AMQP091_ARGUMENT_SECRET[a.name]:
                put_secret(fields + AMQP091_ARGUMENT_FIELD[a.name], row, &s)
            else:
                put_span(fields + AMQP091_ARGUMENT_FIELD[a.name], row, &s)
        elif AMQP091_ARGUMENT_FIELD[a.name] >= 0:
            amqp091_put_value(fields + AMQP091_ARGUMENT_FIELD[a.name], row, a.type, a.bit, p)


cdef void amqp091_put_destination(MessageTable t, int64_t row, const Amqp091FrameView* m) noexcept nogil:
    """Put the queue, or otherwise the exchange, that the method concerns. Messages of the default exchange (its name is empty)
    go to the queue that the routing key names (1.7.2.1, 3.1.3.1)."""
    cdef int i = AMQP091_DESTINATION_ARGUMENT[m.method]
    cdef const Amqp091ArgumentRow* a
    cdef Span name
    if i < 0:
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
        amqp091_learn_client(flow, m)
    amqp091_put_kind(t, row, m, direction)
    if flow.client_id.size:
        put_text(t.cols + T_CLIENT_ID, row, &flow.client_id)
    put_struct(t.cols + T_AMQP091, row)
    if m.method:
        amqp091_put_destination(t, row, m)
        amqp091_put_arguments(t, row, m)
    elif m.type == AMQP091_PROTOCOL_HEADER:
        put_i16(fields + A9_VERSION_MAJOR, row, m.payload.at[1])
        put_i16(fields + A9_VERSION_MINOR, row, m.payload.at[2])
        put_i16(fields + A9_VERSION_REVISION, row, m.payload.at[3])


# ------------------------------------------------------------------------------------------------ contents

cdef bint amqp091_entry_number(const Amqp091Entry* e, int64_t* out) noexcept nogil:
    """The value of an entry that is an integer."""
    if e.letter == c"b":
        out[0] = <int8_t>e.at[0]
    elif e.letter == c"B":
        out[0] = e.at[0]
    elif e.letter == c"s":
        out[0] = <int16_t>load_u16(e.at)
    elif e.letter == c"u":
        out[0] = load_u16(e.at)
    elif e.letter == c"I":
        out[0] = <int32_t>load_u32(e.at)
    elif e.letter == c"i":
        out[0] = load_u32(e.at)
    elif e.letter == c"l" or e.letter == c"L":
        out[0] = <int64_t>load_u64(e.at)
    else:
        return False
    return True


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


cdef void amqp091_put_header(MessageTable t, int64_t row, const Amqp091FrameView* h, bint delivered) noexcept nogil:
    """Put the properties of a content. `delivered`: to a consumer, so RabbitMQ's count of deliveries is the column `attempts`."""
    cdef Col* fields = t.cols[<int>T_AMQP091].children
    cdef const uint8_t* p
    cdef Amqp091Entry e
    cdef Col* c
    cdef Span s
    cdef int64_t number = 0
    cdef int i
    put_i64(fields + A9_BODY_SIZE, row, <int64_t>min(h.body_size, <uint64_t>0x7FFFFFFFFFFFFFFF))
    for i in range(AMQP091_PROPERTY_COUNT):
        p = amqp091_property(&h.properties, i)
        if p == NULL:
            continue
        c = t.cols + AMQP091_PROPERTY_COMMON[i] if AMQP091_PROPERTY_COMMON[i] >= 0 else fields + AMQP091_PROPERTY_FIELD[i]
        amqp091_put_value(c, row, amqp091_properties[i].type, 0, p)
        if i == AMQP091_PROPERTY_EXPIRATION:
            s = amqp091_shortstr_at(p)
            if amqp091_milliseconds(&s, &number):
                put_i64(t.cols + T_TTL_MS, row, number)
        elif i == AMQP091_PROPERTY_HEADERS and delivered and t.cols[<int>T_ATTEMPTS].on and \
                amqp091_find_entry(p, "x-delivery-count", 16, &e) and \
                amqp091_entry_number(&e, &number) and 0 <= number < 0x7FFFFFFF:
            put_i32(t.cols + T_ATTEMPTS, row, <int32_t>number + 1)
