# Writers of conversions: encode the contents of a Converter in the target's protocol.


# ------------------------------------------------------------------------------------------------ keys come once

cdef void convert_drop_repeated(Converter* x, int list_) noexcept nogil:
    """If only valid values are converted: of headers, annotations or properties with the same key, keep the first. They may come
    from different places: a header and a property."""
    cdef Octets* o = &x.lists[list_]
    cdef ConvertEntry* entries = convert_entries(x, list_)
    cdef uint32_t count = x.counts[list_], i, kept = 0
    cdef Span* keys
    cdef uint8_t* again
    cdef uint8_t* to = o.at
    cdef size_t size
    if not x.valid or count < 2 or o.failed or x.failed:
        return
    keys = convert_keys(x, list_)
    again = convert_reserve(x, count)
    if keys == NULL or again == NULL:
        return
    memset(again, 0, count)
    convert_mark_again(x, keys, again, count)
    for i in range(count):
        if again[i]:
            convert_drop_entry(x, list_, i, REASON_DUPLICATE)
            continue
        size = convert_entry_size(x, list_, i)
        memmove(to, o.at + entries[i].begin, size)
        entries[kept] = entries[i]
        entries[kept].begin = <size_t>(to - o.at)
        to += size
        kept += 1
    x.counts[list_] = kept
    x.entries[list_].size = kept * sizeof(ConvertEntry)
    o.size = <size_t>(to - o.at)


cdef inline size_t convert_entry_size(const Converter* x, int list_, uint32_t i) noexcept nogil:
    cdef const ConvertEntry* entries = convert_entries(x, list_)
    return (entries[i + 1].begin if i + 1 < x.counts[list_] else x.lists[list_].size) - entries[i].begin


cdef Span* convert_keys(Converter* x, int list_) noexcept nogil:
    """The keys of a list as written. NULL: no memory."""
    cdef uint32_t i, count = x.counts[list_]
    cdef Span* keys = <Span*>convert_reserve(x, count * sizeof(Span))
    cdef const uint8_t* at
    cdef Amqp10ValueView v
    if keys == NULL:
        return NULL
    for i in range(count):
        at = x.lists[list_].at + convert_entries(x, list_)[i].begin
        if x.target == CONVERT_AMQP091:
            keys[i] = amqp091_shortstr_at(at)
        else:
            amqp10_read(at, &v)
            keys[i] = amqp10_octets(&v)
    return keys


# ------------------------------------------------------------------------------------------------ AMQP 1.0

cdef void convert_write_amqp10(Converter* x, Octets* o) noexcept nogil:
    """Header, message annotations, properties, application properties, body; empty sections are omitted."""
    convert_drop_repeated(x, 0)
    convert_drop_repeated(x, 1)
    convert_write_list(x, o, AMQP10_SECTION_HEADER, C10_DURABLE, 5)
    convert_write_map(x, o, AMQP10_SECTION_MESSAGE_ANNOTATIONS, 0)
    convert_write_list(x, o, AMQP10_SECTION_PROPERTIES, C10_MESSAGE_ID, 13)
    convert_write_map(x, o, AMQP10_SECTION_APPLICATION_PROPERTIES, 1)
    if x.sections_body.size:
        convert_rewrite_sections(x, o, x.sections_body)
    elif x.body_field:
        convert_add_section(o, AMQP10_SECTION_DATA if x.body_field == C10_DATA else AMQP10_SECTION_AMQP_VALUE)
        convert_add_variable(x, o, AMQP10_CODE_VBIN8 if x.body_field == C10_DATA else AMQP10_CODE_STR8, x.payload.at,
                             x.payload.size)
    convert_rewrite_section(x, o, AMQP10_SECTION_FOOTER, &x.sections[AMQP10_SECTION_FOOTER - AMQP10_SECTION_FIRST])


cdef void convert_write_list(Converter* x, Octets* o, int code, int first, int count) noexcept nogil:
    """Header or properties: nulls after the last field are omitted, except in a dialect that writes all fields."""
    cdef const Span* instead = &x.sections[code - AMQP10_SECTION_FIRST]
    cdef size_t mark
    cdef int i, fields = 0
    if instead.at != NULL:
        for i in range(count):
            convert_displace(x, first + i, REASON_REPLACED)
        convert_rewrite_section(x, o, code, instead)
        return
    for i in range(count):
        if x.slots[first + i].type:
            fields = i + 1
    if fields == 0 and not (code == AMQP10_SECTION_HEADER and x.has_header):
        return
    if x.all_fields:
        fields = count
    convert_add_section(o, code)
    mark = amqp10_open(o)
    for i in range(fields):
        convert_write_slot(x, o, &x.slots[first + i])
    amqp10_close(o, mark, AMQP10_CODE_LIST8, <size_t>fields)


cdef void convert_write_slot(const Converter* x, Octets* o, const ConvertSlot* slot) noexcept nogil:
    cdef int type = slot.type
    if type == 0:
        amqp10_add_null(o)
    elif type == AMQP10_STRING or type == AMQP10_SYMBOL or type == AMQP10_BINARY:
        convert_add_variable(x, o, amqp10_narrow_code(type), slot.octets.at, slot.octets.size)
    elif type == AMQP10_UUID:
        amqp10_add_wide(o, AMQP10_CODE_UUID, slot.octets.at)
    elif type == AMQP10_BOOLEAN:
        amqp10_add_boolean(o, slot.number != 0)
    else:
        convert_add_number(o, type, slot.number)


cdef void convert_write_map(Converter* x, Octets* o, int code, int list_) noexcept nogil:
    """Annotations or application properties."""
    cdef const Span* instead = &x.sections[code - AMQP10_SECTION_FIRST]
    cdef size_t mark
    if instead.at != NULL:
        convert_drop_entries(x, list_, 0, REASON_REPLACED)
        convert_rewrite_section(x, o, code, instead)
        return
    if x.counts[list_] == 0:
        return
    convert_add_section(o, code)
    mark = amqp10_open(o)
    add_octets(o, x.lists[list_].at, x.lists[list_].size)
    amqp10_close(o, mark, AMQP10_CODE_MAP8, <size_t>x.counts[list_] * 2)


# ------------------------------------------------------------------------------------------------ AMQP 0.9.1

cdef void convert_write_amqp091(Converter* x, Octets* o) noexcept nogil:
    """Property flags and properties; the body is x.payload."""
    cdef const ConvertSlot* slot
    cdef size_t at = o.size, opened
    cdef uint16_t flags = 0
    cdef int i
    convert_drop_repeated(x, 0)
    add_u16(o, 0)
    for i in range(AMQP091_PROPERTY_COUNT):
        slot = &x.slots[C91_CONTENT_TYPE + i]
        if i == AMQP091_PROPERTY_HEADERS:
            if x.counts[0] == 0 and not x.headers:
                continue
            opened = amqp091_open(o)
            if x.sorted and x.counts[0] > 1:
                convert_write_sorted(x, o)
            else:
                add_octets(o, x.lists[0].at, x.lists[0].size)
            amqp091_close(o, opened)
        elif slot.type == 0:
            continue
        elif slot.type == C91T_SHORTSTR:
            amqp091_add_name(o, slot.octets.at, <uint8_t>slot.octets.size)
        elif slot.type == C91T_TIMESTAMP:
            add_u64(o, slot.number)
        else:
            add_u8(o, <uint8_t>slot.number)
        flags |= amqp091_properties[i].flag
    if not o.failed:
        store_u16(o.at + at, flags)


cdef void convert_write_sorted(Converter* x, Octets* o) noexcept nogil:
    """Headers by name; of headers with the same name the first."""
    cdef uint32_t count = x.counts[0], i, k
    cdef Span* names = convert_keys(x, 0)
    cdef Span** ordered = <Span**>convert_reserve(x, count * sizeof(Span*))
    if names == NULL or ordered == NULL or x.lists[0].failed:
        return
    for i in range(count):
        ordered[i] = &names[i]
    qsort(ordered, count, sizeof(Span*), convert_order_of_keys)
    for i in range(count):
        k = <uint32_t>(ordered[i] - names)
        if i and convert_equal(ordered[i], ordered[i - 1]):
            convert_drop_entry(x, 0, k, REASON_DUPLICATE)
        else:
            add_octets(o, x.lists[0].at + convert_entries(x, 0)[k].begin, convert_entry_size(x, 0, k))


# ------------------------------------------------------------------------------------------------ MQTT 5.0

cdef bint convert_write_mqtt5(Converter* x, Octets* o, const Span* topic, bint dup,
                              uint16_t packet_identifier) noexcept nogil:
    """A PUBLISH. False: it would be too large."""
    cdef uint64_t qos = x.slots[C5_QOS].number
    cdef size_t properties = x.lists[0].size, remaining
    cdef uint8_t used[4]
    properties += 2 if x.slots[C5_PAYLOAD_FORMAT_INDICATOR].type else 0
    properties += 5 if x.slots[C5_MESSAGE_EXPIRY_INTERVAL].type else 0
    properties += convert_size_of(&x.slots[C5_RESPONSE_TOPIC])
    properties += convert_size_of(&x.slots[C5_CORRELATION_DATA])
    properties += convert_size_of(&x.slots[C5_CONTENT_TYPE])
    if topic.size > 65535 or properties > VARINT_MAX or x.payload.size > VARINT_MAX:
        return False
    remaining = (<size_t>2 + topic.size + (2 if qos else 0) + <size_t>varint_size(<uint32_t>properties) + properties +
                 x.payload.size)
    if remaining > VARINT_MAX:
        return False
    add_u8(o, <uint8_t>(MQTT_PUBLISH << 4 | (8 if dup and qos else 0) | qos << 1 | (1 if x.slots[C5_RETAIN].number else 0)))
    add_octets(o, used, <size_t>store_varint(used, <uint32_t>remaining))
    add_u16(o, <uint16_t>topic.size)
    add_octets(o, topic.at, topic.size)
    if qos:
        add_u16(o, packet_identifier)
    add_octets(o, used, <size_t>store_varint(used, <uint32_t>properties))
    if x.slots[C5_PAYLOAD_FORMAT_INDICATOR].type:
        add_u8(o, MQTT_PROPERTY_PAYLOAD_FORMAT_INDICATOR)
        add_u8(o, <uint8_t>x.slots[C5_PAYLOAD_FORMAT_INDICATOR].number)
    if x.slots[C5_MESSAGE_EXPIRY_INTERVAL].type:
        add_u8(o, MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL)
        add_u32(o, <uint32_t>x.slots[C5_MESSAGE_EXPIRY_INTERVAL].number)
    convert_add_sized(o, MQTT_PROPERTY_CONTENT_TYPE, &x.slots[C5_CONTENT_TYPE])
    convert_add_sized(o, MQTT_PROPERTY_RESPONSE_TOPIC, &x.slots[C5_RESPONSE_TOPIC])
    convert_add_sized(o, MQTT_PROPERTY_CORRELATION_DATA, &x.slots[C5_CORRELATION_DATA])
    add_octets(o, x.lists[0].at, x.lists[0].size)
    add_octets(o, x.payload.at, x.payload.size)
    return True


cdef inline size_t convert_size_of(const ConvertSlot* slot) noexcept nogil:
    return <size_t>3 + slot.octets.size if slot.type else 0


cdef inline void convert_add_sized(Octets* o, uint8_t identifier, const ConvertSlot* slot) noexcept nogil:
    if slot.type:
        add_u8(o, identifier)
        add_u16(o, <uint16_t>slot.octets.size)
        add_octets(o, slot.octets.at, slot.octets.size)
