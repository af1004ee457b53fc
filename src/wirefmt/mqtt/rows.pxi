# MQTT packets -> columns: rows of the message table, and decode_batch for one stream.
#
# Both use mqtt_parse, so they agree with the packet objects.
from wirefmt.mqtt.topics cimport split_share
from wirefmt.mqtt.spec import PROPERTIES as MQTT_PROPERTY_ROWS, VERSIONS as MQTT_VERSION_NAMES
from wirefmt.mqtt.columns import (
    BATCH as MQTT_BATCH_COLUMNS, FIELDS as MQTT_STRUCT_FIELDS, OPERATIONS as MQTT_OPERATION_ROWS,
    PROPERTY_FIELDS as MQTT_PROPERTY_FIELDS,
)


cdef enum:
    ALIAS_OCTETS_MAX = 1 << 20      # limit for the aliases of one direction and their topics; further ones are not remembered
    ALIAS_OCTETS = 64               # memory of an alias apart from its topic: up to 2.7 rows of 16, and a block


cdef struct MqttAlias:
    uint8_t* topic
    uint32_t size                   # of the topic; 0: not kept
    uint32_t alias                  # 0: a free slot


cdef struct MqttAliases:            # Topic Aliases of one direction (5.0, 3.3.2.3.4)
    MqttAlias* rows                 # a hash table, because the first alias may be 65535
    uint32_t capacity, count            # capacity: a power of two, or 0
    int64_t octets                  # of ALIAS_OCTETS_MAX


cdef struct MqttFlow:               # what is known about one TCP connection
    int64_t buffered                # octets of memory: client identifier and aliases, and what the owner adds
    uint8_t version                 # 0: unknown
    Text client_id
    MqttAliases aliases[2]          # by direction


cdef void mqtt_flow_clear(MqttFlow* flow) noexcept nogil:
    """Free the memory of a flow; the result equals a new flow."""
    cdef int64_t buffered = flow.buffered - text_octets(&flow.client_id)
    cdef uint32_t i
    cdef int d
    free(<void*>flow.client_id.at)
    for d in range(2):
        buffered -= flow.aliases[d].octets
        for i in range(flow.aliases[d].capacity):
            free(flow.aliases[d].rows[i].topic)
        free(flow.aliases[d].rows)
    memset(flow, 0, sizeof(MqttFlow))
    flow.buffered = buffered


cdef MqttAlias* place_of(MqttAlias* rows, uint32_t capacity, uint32_t alias) noexcept nogil:
    """The alias' row, or the free row for it. There is always a free row."""
    cdef uint32_t at = keyed_place(alias, capacity)
    while rows[at].alias != 0 and rows[at].alias != alias:
        at = (at + 1) & (capacity - 1)
    return &rows[at]


cdef MqttAlias* find_alias(const MqttAliases* a, uint32_t alias) noexcept nogil:
    """NULL: unknown."""
    cdef MqttAlias* row
    if a.capacity == 0 or alias == 0:
        return NULL
    row = place_of(a.rows, a.capacity, alias)
    return row if row.alias else NULL


cdef MqttAlias* add_alias(MqttAliases* a, uint32_t alias) noexcept nogil:
    """A row for a new alias. NULL: out of memory or over the limit."""
    cdef MqttAlias* grown
    cdef MqttAlias* row
    cdef uint32_t i, capacity = max(2 * a.capacity, <uint32_t>8)
    if 4 * a.count >= 3 * a.capacity:
        grown = <MqttAlias*>calloc(capacity, sizeof(MqttAlias))
        if grown == NULL:
            return NULL
        for i in range(a.capacity):
            if a.rows[i].alias:
                place_of(grown, capacity, a.rows[i].alias)[0] = a.rows[i]
        free(a.rows)
        a.rows = grown
        a.capacity = capacity
    row = place_of(a.rows, a.capacity, alias)
    row.alias = alias
    a.count += 1
    a.octets += ALIAS_OCTETS
    return row


cdef void observe_alias(MqttAliases* a, uint32_t alias, const Span* topic) noexcept nogil:
    cdef MqttAlias* row = find_alias(a, alias)
    if row == NULL:
        if alias == 0 or ALIAS_OCTETS > ALIAS_OCTETS_MAX - a.octets:    # 0: a fault that LAX ignores
            return
        row = add_alias(a, alias)
        if row == NULL:
            return
    elif row.size == topic.size and memcmp(row.topic, topic.at, topic.size) == 0:
        return
    a.octets -= row.size                # forget its old topic, whether or not the new one can be kept
    free(row.topic)
    row.topic = NULL
    row.size = 0
    if topic.size > ALIAS_OCTETS_MAX - a.octets:
        return
    row.topic = <uint8_t*>malloc(topic.size)
    if row.topic == NULL:
        return
    memcpy(row.topic, topic.at, topic.size)
    row.size = topic.size
    a.octets += topic.size


# ------------------------------------------------------------------------------------------------ static tables

cdef Text[16] MQTT_KIND_TEXT
cdef Text[16][2] MQTT_OPERATION_TEXT
cdef Text[6] MQTT_VERSION_TEXT
cdef Text MQTT_PROTOCOL_TEXT = pad_text(b"mqtt")
cdef int[64] MQTT_PROPERTY_FIELD        # property -> field of the mqtt struct; -1: it has its own column
cdef Text[64] MQTT_PROPERTY_TEXT


cdef int fill_mqtt_tables() except -1:
    cdef int i, d
    cdef dict fields = {c.name: k for k, c in enumerate(MQTT_STRUCT_FIELDS)}
    for i in range(16):
        name = mqtt_packet_name[i].decode("ascii")
        MQTT_KIND_TEXT[i] = pad_text(name.encode())
        for d in range(2):
            MQTT_OPERATION_TEXT[i][d] = pad_text((MQTT_OPERATION_ROWS[name][d] if name else "").encode())
    for i in range(64):
        MQTT_PROPERTY_FIELD[i] = -1
    for row in MQTT_PROPERTY_ROWS:
        MQTT_PROPERTY_TEXT[<int>row.identifier] = pad_text(row.name.encode())
        if row.identifier != MQTT_PROPERTY_CONTENT_TYPE and row.identifier != MQTT_PROPERTY_USER_PROPERTY:
            MQTT_PROPERTY_FIELD[<int>row.identifier] = fields[MQTT_PROPERTY_FIELDS.get(row.name, row.name)]
    for i, name in MQTT_VERSION_NAMES.items():
        MQTT_VERSION_TEXT[i] = pad_text(name.encode())
    return 0


fill_mqtt_tables()


# ------------------------------------------------------------------------------------------------ properties

cdef struct MqttSink:               # columns for properties; a NULL column is off
    Col* fields                     # of the mqtt struct
    Col* headers                    # User Properties
    Col* content_type
    Col* reply_to
    Col* correlation_id
    Col* ttl_ms


cdef void put_properties(const MqttSink* sink, int64_t row, const Span* area) noexcept nogil:
    cdef const uint8_t* p = area.at
    cdef const uint8_t* end = p + area.size
    cdef MqttProperty v
    while p < end:
        p = mqtt_next_property(p, &v)
        put_property(sink, row, &v)


cdef void put_text_or_hex(Col* c, int64_t row, const Span* octets) noexcept nogil:
    """A binary in a column of text."""
    cdef uint8_t[HEX_SIZE] hex
    cdef Span text
    text_or_hex(octets, hex, &text)
    put_span(c, row, &text)


cdef inline void put_property(const MqttSink* sink, int64_t row, const MqttProperty* v) noexcept nogil:
    cdef Col* field
    cdef int64_t child
    cdef int type
    if v.identifier == MQTT_PROPERTY_USER_PROPERTY:
        put_map(sink.headers, row, v.name.at, v.name.size, v.value.at, v.value.size)
        return
    if v.identifier == MQTT_PROPERTY_CONTENT_TYPE:
        put_span(sink.content_type, row, &v.value)
        return
    if v.identifier == MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL and sink.ttl_ms != NULL:
        put_i64(sink.ttl_ms, row, <int64_t>v.number * 1000)
    elif v.identifier == MQTT_PROPERTY_RESPONSE_TOPIC and sink.reply_to != NULL:
        put_span(sink.reply_to, row, &v.value)
    elif v.identifier == MQTT_PROPERTY_CORRELATION_DATA and sink.correlation_id != NULL:
        put_text_or_hex(sink.correlation_id, row, &v.value)
    field = sink.fields + MQTT_PROPERTY_FIELD[v.identifier]
    type = mqtt_properties[v.identifier].type
    if type == MQTT_BYTE:
        put_i16(field, row, <int16_t>v.number)
    elif type == MQTT_TWO:
        put_i32(field, row, <int32_t>v.number)
    elif type == MQTT_FOUR:
        put_i64(field, row, v.number)
    elif type == MQTT_VARINT:
        child = field.offsets[field.rows] if field.on and field.rows == row + 1 else open_list(field, row)
        if child >= 0:
            put_i32(field.children, child, <int32_t>v.number)
            close_list(field, child + 1)
    elif MQTT_PROPERTY_SECRET[v.identifier]:
        put_secret(field, row, &v.value)
    else:
        put_span(field, row, &v.value)


cdef void put_fast_properties(const MqttSink* sink, int64_t row, const MqttFastView* u) noexcept nogil:
    """put_properties of a PUBLISH that the fast path has read: User Properties are written as entries of one map."""
    cdef const MqttProperty* v = &u.properties[0]
    cdef const MqttProperty* end = v + u.property_count
    cdef MapWriter map
    cdef bint begun = False
    while v < end:
        if v.identifier != MQTT_PROPERTY_USER_PROPERTY:
            put_property(sink, row, v)
        elif begun:
            add_entry(&map, v.name.at, v.name.size, v.value.at, v.value.size)
        elif sink.headers.on:
            begun = begin_map(&map, sink.headers, row, u.payload.at + u.payload.size)
            add_entry(&map, v.name.at, v.name.size, v.value.at, v.value.size)
        v += 1
    if begun:
        end_map(&map)


cdef bint holds_secret_property(const Span* area) noexcept nogil:
    """Is a property of the area secret?"""
    cdef const uint8_t* p = area.at
    cdef const uint8_t* end = p + area.size
    cdef MqttProperty v
    while p < end:
        p = mqtt_next_property(p, &v)
        if MQTT_PROPERTY_SECRET[v.identifier] or (v.identifier == MQTT_PROPERTY_USER_PROPERTY and
                                                  is_secret_name(v.name.at, v.name.size)):
            return True
    return False


cdef void put_will_properties(Col* m, int64_t row, const Span* area) noexcept nogil:
    """Will properties as text by name; User Properties among them under their own names. The delay has a column as well."""
    cdef MapWriter map
    cdef const uint8_t* p = area.at
    cdef const uint8_t* end = p + area.size
    cdef MqttProperty v
    cdef uint8_t[HEX_SIZE] scratch
    begin_map(&map, m + M_WILL_PROPERTIES, row, end)
    while p < end:
        p = mqtt_next_property(p, &v)
        if v.identifier == MQTT_PROPERTY_USER_PROPERTY:
            add_entry(&map, v.name.at, v.name.size, v.value.at, v.value.size)
            continue
        v.name.at = MQTT_PROPERTY_TEXT[v.identifier].at
        v.name.size = <uint32_t>MQTT_PROPERTY_TEXT[v.identifier].size
        if v.value.at == NULL:
            v.value.size = <uint32_t>snprintf(<char*>scratch, sizeof(scratch), "%u", v.number)
            v.value.at = scratch
            if v.identifier == MQTT_PROPERTY_WILL_DELAY_INTERVAL:
                put_i64(m + M_WILL_DELAY_INTERVAL, row, v.number)
        elif mqtt_properties[v.identifier].type == MQTT_BINARY:
            text_or_hex(&v.value, scratch, &v.value)
        add_entry_of(&map, v.name.at, v.name.size, v.value.at, v.value.size)
    end_map(&map)


# ------------------------------------------------------------------------------------------------ the mqtt struct

cdef void put_connect(Col* m, int64_t row, const MqttPacketView* p) noexcept nogil:
    put_span(m + M_PROTOCOL_NAME, row, &p.protocol_name)
    put_i16(m + M_PROTOCOL_LEVEL, row, p.protocol_level)
    put_i16(m + M_CONNECT_FLAGS, row, p.connect_flags)
    put_bool(m + M_CLEAN_START, row, p.connect_flags & 2)
    put_i32(m + M_KEEP_ALIVE, row, p.keep_alive)
    if p.connect_flags & 4:
        put_span(m + M_WILL_TOPIC, row, &p.will_topic)
        put_span(m + M_WILL_PAYLOAD, row, &p.will_payload)
        put_i16(m + M_WILL_QOS, row, p.connect_flags >> 3 & 3)
        put_bool(m + M_WILL_RETAIN, row, p.connect_flags & 0x20)
        if p.will_properties.size:
            put_will_properties(m, row, &p.will_properties)
    put_span(m + M_USER_NAME, row, &p.user_name)
    put_secret(m + M_PASSWORD, row, &p.password)


cdef void put_filters(Col* m, int64_t row, const MqttPacketView* p) noexcept nogil:
    """Topic filters, and for SUBSCRIBE the options octet after each."""
    cdef bint options = p.type == MQTT_SUBSCRIBE
    cdef Col* filters = m + M_TOPIC_FILTERS
    cdef Col* octets = m + M_SUBSCRIPTION_OPTIONS
    cdef int64_t at = open_list(filters, row)
    cdef int64_t option_at = open_list(octets, row) if options else -1
    cdef const uint8_t* c = p.list.at
    cdef uint32_t i, n
    for i in range(p.list_count):
        n = load_u16(c)
        if at >= 0:
            put_octets(filters.children, at + i, c + 2, n)
        c += 2 + n
        if options:
            if option_at >= 0:
                put_i16(octets.children, option_at + i, c[0])
            c += 1
    if at >= 0:
        close_list(filters, at + p.list_count)
    if option_at >= 0:
        close_list(octets, option_at + p.list_count)


cdef void put_codes(Col* m, int64_t row, const MqttPacketView* p) noexcept nogil:
    cdef Col* codes = m + M_REASON_CODES
    cdef int64_t at = open_list(codes, row)
    cdef uint32_t i
    if at < 0:
        return
    for i in range(p.list_count):
        put_i16(codes.children, at + i, p.list.at[i])
    close_list(codes, at + p.list_count)


cdef inline void put_mqtt(Col* mqtt, int64_t row, const MqttPacketView* p, const MqttSink* sink) noexcept nogil:
    """The mqtt struct of a row, without the flags of the fixed header."""
    cdef Col* m = mqtt.children
    if p.type == MQTT_CONNECT:
        put_connect(m, row, p)
    elif p.type == MQTT_CONNACK:
        if p.version >= 4:                              # 3.1: the octet is reserved
            put_bool(m + M_SESSION_PRESENT, row, p.acknowledge_flags & 1)
    elif p.type == MQTT_SUBSCRIBE or p.type == MQTT_UNSUBSCRIBE:
        put_filters(m, row, p)
    elif p.list.at != NULL:
        put_codes(m, row, p)
    if p.properties.size:
        put_properties(sink, row, &p.properties)


# ------------------------------------------------------------------------------------------------ the message table

cdef inline bint has_dup(int type, int version) noexcept nogil:
    """Has the DUP bit a meaning here? In PUBLISH; in 3.1 also in the three other packets that are sent again."""
    return type == MQTT_PUBLISH or (version == 3 and (
        type == MQTT_PUBREL or type == MQTT_SUBSCRIBE or type == MQTT_UNSUBSCRIBE))


cdef inline void mqtt_put_bits(Col* m, int64_t row, int type, int version, uint8_t flags) noexcept nogil:
    """The flags of the fixed header in the mqtt struct."""
    put_i16(m + M_FLAGS, row, flags)
    if has_dup(type, version):
        put_bool(m + M_DUP, row, flags & 8)
    if type == MQTT_PUBLISH:
        put_bool(m + M_RETAIN, row, flags & 1)


cdef void put_destination(Col* c, int64_t row, const MqttPacketView* p, MqttFlow* flow, int direction) noexcept nogil:
    """PUBLISH: the topic, or the topic of its Topic Alias if known. SUBSCRIBE, UNSUBSCRIBE: the first filter."""
    cdef MqttAliases* aliases
    cdef MqttAlias* known
    cdef Span name, filter
    cdef MqttProperty v
    cdef size_t bad = 0
    if p.type == MQTT_PUBLISH:
        if p.topic.size:
            put_span(c + T_DESTINATION, row, &p.topic)
        if not p.properties_seen >> MQTT_PROPERTY_TOPIC_ALIAS & 1:
            return
        aliases = &flow.aliases[direction]
        v.number = 0
        mqtt_find_property(&p.properties, MQTT_PROPERTY_TOPIC_ALIAS, &v)
        if p.topic.size:
            flow.buffered -= aliases.octets
            observe_alias(aliases, v.number, &p.topic)
            flow.buffered += aliases.octets
        else:
            known = find_alias(aliases, v.number)
            if known != NULL and known.size:
                put_octets(c + T_DESTINATION, row, known.topic, known.size)
    elif p.list_count and (p.type == MQTT_SUBSCRIBE or p.type == MQTT_UNSUBSCRIBE):
        filter.at = p.list.at + 2
        filter.size = load_u16(p.list.at)
        if is_shared(filter.at, filter.size, p.version) and \
                split_share(filter.at, filter.size, &name, &filter, &bad) == TOPIC_OK:
            put_span(c + T_CONSUMER_GROUP, row, &name)
        put_span(c + T_DESTINATION, row, &filter)


cdef void observe_packet(MqttFlow* flow, const MqttPacketView* p) noexcept nogil:
    cdef MqttProperty v
    if p.type == MQTT_CONNECT:
        mqtt_flow_clear(flow)
        flow.version = p.version
        keep_text(&flow.client_id, p.client_identifier.at, p.client_identifier.size, &flow.buffered)
    elif p.type == MQTT_CONNACK and mqtt_find_property(&p.properties, MQTT_PROPERTY_ASSIGNED_CLIENT_IDENTIFIER, &v):
        keep_text(&flow.client_id, v.value.at, v.value.size, &flow.buffered)


cdef inline void mqtt_put_names(MessageTable t, int64_t row, int type, int version, const MqttFlow* flow,
                                int direction) noexcept nogil:
    cdef Col* c = t.cols
    put_text(c + T_PROTOCOL, row, &MQTT_PROTOCOL_TEXT)
    put_text(c + T_KIND, row, &MQTT_KIND_TEXT[type])
    if c[<int>T_VERSION].on:                # a test here costs less than the call
        put_text(c + T_VERSION, row, &MQTT_VERSION_TEXT[version])
    if c[<int>T_OPERATION].on:
        put_text(c + T_OPERATION, row, &MQTT_OPERATION_TEXT[type][direction])
    if flow.client_id.size and c[<int>T_CLIENT_ID].on:
        put_text(c + T_CLIENT_ID, row, &flow.client_id)


cdef inline void mqtt_put_flags(MessageTable t, int64_t row, int type, int version, uint8_t flags) noexcept nogil:
    """The flags of the fixed header, in columns of the table and of the mqtt struct."""
    cdef Col* c = t.cols
    if type == MQTT_PUBLISH and c[<int>T_QOS].on:
        put_i8(c + T_QOS, row, flags >> 1 & 3)
    if has_dup(type, version) and c[<int>T_REDELIVERED].on:
        put_bool(c + T_REDELIVERED, row, flags & 8)
    if not c[<int>T_MQTT].on:
        return
    put_struct(c + T_MQTT, row)
    mqtt_put_bits(c[<int>T_MQTT].children, row, type, version, flags)


cdef inline MqttSink mqtt_sink(MessageTable t) noexcept nogil:
    """Where properties are put."""
    cdef Col* c = t.cols
    cdef MqttSink sink
    sink.fields = c[<int>T_MQTT].children
    sink.headers = c + T_HEADERS
    sink.content_type = c + T_CONTENT_TYPE
    sink.reply_to = c + T_REPLY_TO
    sink.correlation_id = c + T_CORRELATION_ID
    sink.ttl_ms = c + T_TTL_MS
    return sink


cdef void mqtt_put_row(MessageTable t, int64_t row, const MqttPacketView* p, MqttFlow* flow, int direction) noexcept nogil:
    """Fill MQTT's part of a row that begin_row began. The caller sets status and error."""
    cdef Col* c = t.cols
    cdef MqttSink sink
    if p.type == MQTT_CONNECT or p.type == MQTT_CONNACK:
        observe_packet(flow, p)
    mqtt_put_names(t, row, p.type, p.version, flow, direction)
    put_destination(c, row, p, flow, direction)
    if p.has_packet_identifier:
        put_i64(c + T_SEQUENCE, row, p.packet_identifier)
    if p.has_reason_code:
        put_i32(c + T_CODE, row, p.reason_code)
    mqtt_put_flags(t, row, p.type, p.version, p.flags)
    if p.type == MQTT_PUBLISH:
        t.put_payload(row, p.payload.at, p.payload.size)
        if p.properties.size == 0:
            return
    sink = mqtt_sink(t)
    put_mqtt(c + T_MQTT, row, p, &sink)


cdef inline void mqtt_put_publish(MessageTable t, int64_t row, const MqttFastView* u, int version, const MqttFlow* flow,
                                  int direction) noexcept nogil:
    """mqtt_put_row of a PUBLISH that the fast path has read, without Topic Alias."""
    cdef Col* c = t.cols
    cdef MqttSink sink
    mqtt_put_names(t, row, MQTT_PUBLISH, version, flow, direction)
    put_octets(c + T_DESTINATION, row, u.topic.at, u.topic.size)
    if u.flags & 6 and c[<int>T_SEQUENCE].on:
        put_i64(c + T_SEQUENCE, row, u.packet_identifier)
    mqtt_put_flags(t, row, MQTT_PUBLISH, version, u.flags)
    t.put_payload(row, u.payload.at, u.payload.size)
    if u.property_count:
        sink = mqtt_sink(t)
        put_fast_properties(&sink, row, u)


cdef inline void mqtt_put_acknowledgement(MessageTable t, int64_t row, const uint8_t* p, int version, const MqttFlow* flow,
                                          int direction) noexcept nogil:
    """mqtt_put_row of an acknowledgement of four octets."""
    cdef int type = p[0] >> 4
    mqtt_put_names(t, row, type, version, flow, direction)
    put_i64(t.cols + T_SEQUENCE, row, load_u16(p + 2))
    if version == 5:
        put_i32(t.cols + T_CODE, row, 0)
    mqtt_put_flags(t, row, type, version, p[0] & 0x0F)
