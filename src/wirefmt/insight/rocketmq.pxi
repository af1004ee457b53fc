# RocketMQ: requests and responses have the same `opaque`; each side numbers its own requests. Messages of a pull response are
# deliveries; the group settles them when it commits a later offset, pops are acknowledged one by one.

cdef StructField RM_CODE = field("rocketmq", "code"), RM_FLAG = field("rocketmq", "flag"), RM_ONEWAY = field("rocketmq", "oneway")
cdef StructField RM_REMARK = field("rocketmq", "remark"), RM_MESSAGE_INDEX = field("rocketmq", "message_index")
cdef StructField RM_QUEUE = field("rocketmq", "queue_id")
cdef StructField RM_OFFSET = field("rocketmq", "queue_offset"), RM_BROKER = field("rocketmq", "broker_name")
cdef StructField RM_EXT = field("rocketmq", "ext_fields"), RM_RECONSUME = field("rocketmq", "reconsume_times")
cdef StructField RM_REQUEST = field("rocketmq", "request_code")

cdef enum:
    RM_SUCCESS = 0
    RM_PULL_NOT_FOUND = 19
    RM_PULL_RETRY = 20
    RM_PULL_MOVED = 21
    RM_QUERY_NOT_FOUND = 22
    RM_POLLING_FULL = 209
    RM_POLLING_TIMEOUT = 210
    RM_FLUSH_DISK_TIMEOUT = 10
    RM_SLAVE_NOT_AVAILABLE = 11
    RM_FLUSH_SLAVE_TIMEOUT = 12
    RM_HEART_BEAT = 34
    RM_UPDATE_OFFSET = 15
    RM_PULL = 11
    RM_LITE_PULL = 361
    RM_POP = 200050
    RM_ACK = 200051
    RM_END_TRANSACTION = 37
    RM_UNREGISTER = 35
    RM_COMMITS = 1                  # bit of a pull's sysFlag: it has a commitOffset


cdef inline bint is_answer(int64_t code) noexcept nogil:
    """Is this code of a response an answer, if not the best one? Messages were stored with the codes of flushing."""
    return (code == RM_SUCCESS or RM_FLUSH_DISK_TIMEOUT <= code <= RM_FLUSH_SLAVE_TIMEOUT
            or RM_PULL_NOT_FOUND <= code <= RM_QUERY_NOT_FOUND or code == RM_POLLING_FULL or code == RM_POLLING_TIMEOUT)


cdef uint64_t rocketmq_place(const Row* r) noexcept nogil:
    """The group, topic and queue that offsets belong to."""
    cdef Span group = text_of(r, T_CONSUMER_GROUP), topic = text_of(r, T_DESTINATION)
    return avalanche(hash_span(hash_span(1, &group), &topic) ^ <uint64_t>field_number(r, RM_QUEUE, 0))


cdef void rocketmq_message(OpenOperations e, Conn* c, const Row* r, int direction, Op* o) noexcept nogil:
    cdef int64_t code = field_number(r, RM_CODE, -1)
    cdef uint64_t opaque = <uint64_t>number_of(r, T_SEQUENCE, 0)
    cdef Span s, operation = text_of(r, T_OPERATION)
    cdef Op* found
    cdef bint is_send = is_text(&operation, b"send")
    cdef int64_t request
    if field_number(r, RM_FLAG, 0) & 1:
        request = field_number(r, RM_REQUEST, -1)
        if field_number(r, RM_MESSAGE_INDEX, 0) == 0:
            found = e.find_op(c, S_NUMBERED, 1 - direction, 0, opaque)
            if found != NULL:
                s = field_text(r, RM_REMARK)
                if code == RM_SUCCESS and found.number == RM_HEART_BEAT:
                    c.logged_in = True
                e.answer(found, E_ACKNOWLEDGED if is_answer(code) else E_REFUSED, r, code, &s)
        if field_set(r, RM_MESSAGE_INDEX) and (request == RM_PULL or request == RM_LITE_PULL or request == RM_POP):
            begin_op(o, c, r, O_DELIVER, 0)
            c.numbers[N_DELIVERED] += 1
            rocketmq_queue(r, o)
            if field_set(r, RM_RECONSUME):
                o.attempts = <int32_t>(field_number(r, RM_RECONSUME, 0) + 1)
                o.redelivered = o.attempts > 1
            o.sequence = field_number(r, RM_OFFSET, ABSENT)
            found = e.find_op(c, S_DELIVER, 1, <int32_t>rocketmq_place(r), <uint64_t>o.sequence)
            if found != NULL:
                e.complete(found, E_SUPERSEDED, NULL)
            e.open_op(o, S_DELIVER, <int32_t>rocketmq_place(r), <uint64_t>o.sequence)
        return
    begin_op(o, c, r, O_PUBLISH if is_send else O_HEARTBEAT if code == RM_HEART_BEAT else O_GET if code == RM_PULL or
             code == RM_LITE_PULL or code == RM_POP else O_TRANSACTION if code == RM_END_TRANSACTION else O_REQUEST, 0)
    o.number = code
    rocketmq_queue(r, o)
    if is_send:
        c.numbers[N_PUBLISHED] += 1
        if field_number(r, RM_MESSAGE_INDEX, 0) > 0:    # one answer for all of a batch
            o.sequence = <int64_t>opaque
    elif code == RM_UPDATE_OFFSET:
        rocketmq_committed(e, c, r)
    elif code == RM_PULL or code == RM_LITE_PULL:
        s = entry_of(field_of(r, RM_EXT), r.at, b"sysFlag")
        if decimal_of(&s, 0) & RM_COMMITS:
            rocketmq_committed(e, c, r)
    elif code == RM_ACK:
        s = entry_of(field_of(r, RM_EXT), r.at, b"offset")
        found = e.find_op(c, S_DELIVER, 1, <int32_t>rocketmq_place(r), <uint64_t>decimal_of(&s, -1))
        if found != NULL:
            e.complete(found, E_ACKNOWLEDGED, r)
    elif code == RM_UNREGISTER and direction == 0:
        operation = text_of(r, T_KIND)
        s.at = NULL
        s.size = 0
        end_connection(c, r, 0, False, &operation, &s, 0, False)
    if field_true(r, RM_ONEWAY):
        e.emit_alone(o)
        return
    found = e.find_op(c, S_NUMBERED, direction, 0, opaque)
    if found != NULL and field_number(r, RM_MESSAGE_INDEX, 0) == 0:
        e.complete(found, E_SUPERSEDED, NULL)
    e.open_op(o, S_NUMBERED, 0, opaque)


cdef void rocketmq_queue(const Row* r, Op* o) noexcept nogil:
    o.texts[Z_QUEUE] = field_text(r, RM_BROKER)


cdef void rocketmq_committed(OpenOperations e, Conn* c, const Row* r) noexcept nogil:
    """UPDATE_CONSUMER_OFFSET, or a pull that commits: the group has consumed everything before this offset of the queue."""
    cdef Span s = entry_of(field_of(r, RM_EXT), r.at, b"commitOffset")
    cdef int64_t offset = decimal_of(&s, -1)
    cdef Space* space = e.space_of(c, S_DELIVER, 1, <int32_t>rocketmq_place(r), False)
    cdef Op* o = space.first if space != NULL else NULL
    cdef Op* following
    while o != NULL and o.sequence < offset:
        following = o.after
        e.complete(o, E_ACKNOWLEDGED, r)
        o = following
