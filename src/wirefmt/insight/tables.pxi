# Rows of the message table, one after another, to the room of their protocol.

cdef void read_messages(Insight e, const Col* cols, int64_t rows) noexcept nogil:
    cdef Row r
    cdef Op o
    cdef Conn* c
    cdef Span s
    cdef int64_t flow_id
    cdef int direction, kind, protocol
    r.cols = cols
    for r.at in range(rows):
        if not is_set(cols + T_FLOW_ID, r.at):
            continue                                    # a fault of a file
        flow_id = number_of(&r, T_FLOW_ID, 0)
        c = e.current
        if c == NULL or c.flow_id != flow_id:
            c = e.conn_of(flow_id, True)
            if c == NULL:
                continue
            e.current = c
        direction = <int>number_of(&r, T_DIRECTION, 0) & 1
        s = text_of(&r, T_STATUS)
        if not is_text(&s, b"ok"):
            c.numbers[N_MALFORMED] += is_text(&s, b"malformed")
            continue
        s = text_of(&r, T_PROTOCOL)
        protocol = protocol_number(&s)
        if protocol != P_NONE:
            c.protocol = protocol
        c.numbers[N_CLIENT_MESSAGE + direction] = number_of(&r, T_TS_NS, -1)
        s = text_of(&r, T_VERSION)
        keep_span(&c.texts[Y_VERSION], &s)
        s = text_of(&r, T_CLIENT_ID)
        keep_span(&c.texts[Y_CLIENT_ID], &s)
        s = text_of(&r, T_KIND)
        kind = kind_number(protocol, &s)
        if protocol != P_ROCKETMQ or field_number(&r, RM_MESSAGE_INDEX, 0) == 0:
            c.numbers[N_CLIENT_MESSAGES + direction] += 1
        if protocol == P_MQTT:
            mqtt_message(e, c, &r, kind, direction, &o)
        elif protocol == P_AMQP091:
            amqp091_message(e, c, &r, kind, direction, &o)
        elif protocol == P_AMQP10:
            amqp10_message(e, c, &r, kind, direction, &o)
        elif protocol == P_ROCKETMQ:
            rocketmq_message(e, c, &r, direction, &o)
        elif protocol == P_NSQ:
            nsq_message(e, c, &r, kind, direction, &o)
        elif protocol == P_PHPMQ:
            phpmq_message(e, c, &r, kind, direction, &o)


def with_values(Batch batch not None, columns, values, names=None):
    """A Batch with these columns, or those of them in `names`, in that order: the columns of `values` (name: a str, int or None for
    each row; only strings and int64), the others of `batch`."""
    cdef ColumnSet made = ColumnSet(columns, names)
    cdef Col* to
    cdef const Col* of
    cdef bytes octets
    cdef int64_t i
    for k in made.chosen:
        name = columns[k].name
        to = &made.cols[<int>k]
        if name not in values:
            of = &batch.memory.cols[batch.index(name)]
            for i in range(batch.num_rows):
                copy_value(to, i, of, i)
            continue
        for i, value in enumerate(values[name]):
            if isinstance(value, str):
                octets = value.encode("utf-8", "replace")
                put_octets(to, i, <const uint8_t*><const char*>octets, len(octets))
            elif value is not None:
                put_i64(to, i, value)
    return made.finish(batch.num_rows)


def payload_hash(const unsigned char[::1] payload):
    """The column `payload_hash` of operations for a payload."""
    cdef Span s
    s.size = <uint32_t>payload.shape[0]
    s.at = &payload[0] if s.size else NULL
    return <int64_t>hash_span(0, &s)
