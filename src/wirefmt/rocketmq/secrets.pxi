# Which fields and bodies contain secrets.

cdef inline bint rocketmq_letters(int code) noexcept nogil:
    """Do the fields of a request have single letters?"""
    return (code == ROCKETMQ_CODE_SEND_MESSAGE_V2 or code == ROCKETMQ_CODE_SEND_BATCH_MESSAGE or
            code == ROCKETMQ_CODE_SEND_REPLY_MESSAGE_V2)


cdef inline bint rocketmq_carries_message(int code) noexcept nogil:
    """Is the body of a request a message?"""
    return (code == ROCKETMQ_CODE_SEND_MESSAGE or code == ROCKETMQ_CODE_SEND_REPLY_MESSAGE or
            code == ROCKETMQ_CODE_PUSH_REPLY_MESSAGE_TO_CLIENT or rocketmq_letters(code))


cdef bint rocketmq_secret_properties(const uint8_t* p, size_t n) noexcept nogil:
    """Does a properties string contain a secret? A name ends before 0x01 and begins after 0x02."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* mark = rocketmq_either(p, end, 1, 2)
    while mark < end:
        if mark[0] == 1 and is_secret_name(p, <size_t>(mark - p)):
            return True
        p = mark + 1
        mark = rocketmq_either(p, end, 1, 2)
    return False


cdef inline bint rocketmq_is_properties(bint letters, const uint8_t* name, size_t size) noexcept nogil:
    """Is a field of extFields the properties of a message? `letters`: rocketmq_letters of the code."""
    if letters:
        return size == 1 and name[0] == c"i"
    return size == 10 and memcmp(name, b"properties", 10) == 0


cdef inline bint rocketmq_secret_field(int code, const uint8_t* name, size_t name_size, const uint8_t* p,
                                       size_t n) noexcept nogil:
    """Is a field of extFields the properties of a message, and does it contain a secret?"""
    return rocketmq_is_properties(rocketmq_letters(code), name, name_size) and rocketmq_secret_properties(p, n)


cdef bint rocketmq_secret_messages(const Span* body, bint batch) noexcept nogil:
    """Do the properties of stored messages, or of the messages of a SEND_BATCH_MESSAGE, contain a secret?"""
    cdef const uint8_t* p = body.at
    cdef const uint8_t* end = p + body.size
    cdef RocketmqMessageView m
    cdef Fault f
    cdef int status
    while p < end:
        if batch:
            status = rocketmq_read_batch_item(body.at, p, end, 0, &m, &f)
        else:
            status = rocketmq_read_message(body.at, p, end, 0, &m, &f)
        if status != OK:                    # unreadable properties may contain anything
            return holds_secret_word(p, <size_t>(end - p))
        if m.properties.at != NULL and rocketmq_secret_properties(m.properties.at, m.properties.size):
            return True
        p += m.size
    return False


cdef bint rocketmq_secret_body(const RocketmqFrameView* m) noexcept nogil:
    """Does the body contain a secret: as JSON, as `name=value`, or among the properties of messages? The bodies of messages
    belong to the application and are not searched."""
    cdef int code = m.code
    if m.body.at == NULL:
        return False
    if m.flag & ROCKETMQ_RESPONSE:
        if m.body.at[0] >= c"\t":           # otherwise it begins with the size of a stored message
            return holds_secret_member(m.body.at, m.body.size)
        return rocketmq_secret_messages(&m.body, False)
    if (code == ROCKETMQ_CODE_CHECK_TRANSACTION_STATE or code == ROCKETMQ_CODE_CONSUME_MESSAGE_DIRECTLY or
            code == ROCKETMQ_CODE_SEND_BATCH_MESSAGE):
        return rocketmq_secret_messages(&m.body, code == ROCKETMQ_CODE_SEND_BATCH_MESSAGE)
    return not rocketmq_carries_message(code) and holds_secret_member(m.body.at, m.body.size)
