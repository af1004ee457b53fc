# Stored messages and batches within a body.

# ------------------------------------------------------------------------------------------------ 7.1: stored messages
#
#    0  4  total size          28  8  physical offset        then  4  reconsume times
#    4  4  magic code          36  4  sysFlag                      8  prepared transaction offset
#    8  4  CRC of the body     40  8  born time, ms                4  body length, body
#   12  4  queue id            48  8  born host (or 20: IPv6)    1|2  topic length (2: magic code v2), topic
#   16  4  flag                then 8  store time, ms              2  properties length, properties
#   20  8  queue offset             8  store host (or 20)

cdef int rocketmq_message_cut(const uint8_t* base, const uint8_t* p, const uint8_t* end, int64_t need, int field,
                              int limited_by, int index, Fault* f) noexcept nogil:
    fault(f, TRUNCATED, ROCKETMQ_CHECK_MESSAGE_TRUNCATED, field, p - base, need, end - p, limited_by)
    f.index = index
    return f.status


cdef int rocketmq_message_bad(const uint8_t* base, const uint8_t* p, int check, int field, int index,
                              Fault* f) noexcept nogil:
    fault(f, rocketmq_checks[check].status, check, field, p - base, 0, 0, 0)
    f.index = index
    return f.status


cdef int rocketmq_read_message(const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                               RocketmqMessageView* out, Fault* f) noexcept nogil:
    """Parse the stored message at `p`. Offsets of faults count from `base`; `index`: its position in the body."""
    cdef uint32_t born, store
    cdef int64_t n
    memset(out, 0, sizeof(RocketmqMessageView))
    out.at = p
    if end - p < 48:
        return rocketmq_message_cut(base, p, end, 48, ROCKETMQ_FIELD_MESSAGES_ITEM, 0, index, f)
    out.total_size = <int32_t>load_u32(p)
    out.magic_code = <int32_t>load_u32(p + 4)
    out.body_crc = <int32_t>load_u32(p + 8)
    out.queue_id = <int32_t>load_u32(p + 12)
    out.flag = <int32_t>load_u32(p + 16)
    out.queue_offset = <int64_t>load_u64(p + 20)
    out.physical_offset = <int64_t>load_u64(p + 28)
    out.sys_flag = <int32_t>load_u32(p + 36)
    out.born_timestamp = <int64_t>load_u64(p + 40)
    if out.magic_code != ROCKETMQ_MAGIC_V1 and out.magic_code != ROCKETMQ_MAGIC_V2:
        return rocketmq_message_bad(base, p + 4, ROCKETMQ_CHECK_MESSAGE_MAGIC, ROCKETMQ_FIELD_MESSAGES_MAGIC_CODE, index, f)
    born = 16 if out.sys_flag & 0x10 else 4
    store = 16 if out.sys_flag & 0x20 else 4
    n = 48 + born + 4 + 8 + store + 4 + 4 + 8 + 4
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_ITEM, 0, index, f)
    p += 48
    p = rocketmq_take_host(p, born, &out.born_host, &out.born_port)
    out.store_timestamp = <int64_t>load_u64(p)
    p = rocketmq_take_host(p + 8, store, &out.store_host, &out.store_port)
    if not 0 <= out.born_port <= 65535:
        return rocketmq_message_bad(base, out.born_host.at + born, ROCKETMQ_CHECK_MESSAGE_PORT,
                                    ROCKETMQ_FIELD_MESSAGES_BORN_HOST, index, f)
    if not 0 <= out.store_port <= 65535:
        return rocketmq_message_bad(base, out.store_host.at + store, ROCKETMQ_CHECK_MESSAGE_PORT,
                                    ROCKETMQ_FIELD_MESSAGES_STORE_HOST, index, f)
    out.reconsume_times = <int32_t>load_u32(p)
    out.prepared_transaction_offset = <int64_t>load_u64(p + 4)
    return rocketmq_read_contents(base, p + 12, end, index, out, f)


cdef inline const uint8_t* rocketmq_take_host(const uint8_t* p, uint32_t size, Span* host, int32_t* port) noexcept nogil:
    host.at = p
    host.size = size
    port[0] = <int32_t>load_u32(p + size)
    return p + size + 4


cdef int rocketmq_read_contents(const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                                RocketmqMessageView* out, Fault* f) noexcept nogil:
    """Body, topic and properties, each after its length; `p` points to the length of the first."""
    cdef int64_t n = <int32_t>load_u32(p)
    cdef int width = 2 if out.magic_code == ROCKETMQ_MAGIC_V2 else 1
    p += 4
    if n > 0:
        if end - p < n:
            return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_BODY,
                                        ROCKETMQ_FIELD_MESSAGES_BODY_LENGTH, index, f)
        if out.sys_flag & 1 and (out.sys_flag >> 8 & 7) > 3:
            return rocketmq_message_bad(base, out.at + 36, ROCKETMQ_CHECK_MESSAGE_COMPRESSION,
                                        ROCKETMQ_FIELD_MESSAGES_SYS_FLAG, index, f)
        out.body.at = p
        out.body.size = <uint32_t>n
        p += n
    if end - p < width:
        return rocketmq_message_cut(base, p, end, width, ROCKETMQ_FIELD_MESSAGES_TOPIC_LENGTH, 0, index, f)
    n = <int8_t>p[0] if width == 1 else <int16_t>load_u16(p)
    if n < 0:
        return rocketmq_message_bad(base, p, ROCKETMQ_CHECK_MESSAGE_TOPIC_LENGTH, ROCKETMQ_FIELD_MESSAGES_TOPIC_LENGTH,
                                    index, f)
    p += width
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_TOPIC, ROCKETMQ_FIELD_MESSAGES_TOPIC_LENGTH,
                                    index, f)
    out.topic.at = p
    out.topic.size = <uint32_t>n
    p += n
    if end - p < 2:
        return rocketmq_message_cut(base, p, end, 2, ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, 0, index, f)
    n = <int16_t>load_u16(p)
    p += 2
    if n > 0:
        if end - p < n:
            return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_PROPERTIES,
                                        ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, index, f)
        out.properties.at = p
        out.properties.size = <uint32_t>n
        p += n
    out.size = <uint32_t>(p - out.at)
    return OK


# ---- 7.2: batches: total size, magic code, CRC (both 0), flag, body length, body, 2 octets properties length, properties

cdef int rocketmq_read_batch_item(const uint8_t* base, const uint8_t* p, const uint8_t* end, int index,
                                  RocketmqMessageView* out, Fault* f) noexcept nogil:
    """Parse the item of a batch at `p`."""
    cdef int64_t n
    memset(out, 0, sizeof(RocketmqMessageView))
    out.at = p
    if end - p < 20:
        return rocketmq_message_cut(base, p, end, 20, ROCKETMQ_FIELD_MESSAGES_ITEM, 0, index, f)
    out.total_size = <int32_t>load_u32(p)
    out.magic_code = <int32_t>load_u32(p + 4)
    out.body_crc = <int32_t>load_u32(p + 8)
    out.flag = <int32_t>load_u32(p + 12)
    n = <int32_t>load_u32(p + 16)
    if n < 0:
        return rocketmq_message_bad(base, p + 16, ROCKETMQ_CHECK_BATCH_LENGTH, ROCKETMQ_FIELD_MESSAGES_BODY_LENGTH, index, f)
    p += 20
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_BODY, ROCKETMQ_FIELD_MESSAGES_BODY_LENGTH,
                                    index, f)
    out.body.at = p
    out.body.size = <uint32_t>n
    p += n
    if end - p < 2:
        return rocketmq_message_cut(base, p, end, 2, ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, 0, index, f)
    n = <int16_t>load_u16(p)
    if n < 0:
        return rocketmq_message_bad(base, p, ROCKETMQ_CHECK_BATCH_LENGTH, ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, index,
                                    f)
    p += 2
    if end - p < n:
        return rocketmq_message_cut(base, p, end, n, ROCKETMQ_FIELD_MESSAGES_PROPERTIES,
                                    ROCKETMQ_FIELD_MESSAGES_PROPERTIES_LENGTH, index, f)
    out.properties.at = p
    out.properties.size = <uint32_t>n
    out.size = <uint32_t>(p + n - out.at)
    return OK


cdef const uint8_t* rocketmq_next_property(const uint8_t* p, const uint8_t* end, Span* name, Span* value) noexcept nogil:
    """The property at `p` of a properties string: name 0x01 value 0x02. Returns the position of the next one, NULL after the
    last. An entry without name or value is skipped."""
    cdef const uint8_t* stop
    cdef const uint8_t* split
    while p < end:
        split = stop = rocketmq_either(p, end, 1, 2)
        while stop < end and stop[0] == 1:              # a value may contain 0x01
            stop = rocketmq_either(stop + 1, end, 2, 2)
        if split > p and split < stop - 1:
            name.at = p
            name.size = <uint32_t>(split - p)
            value.at = split + 1
            value.size = <uint32_t>(stop - split - 1)
            return stop + 1 if stop < end else end
        p = stop + 1
    return NULL
