# RocketMQ in captures: the state of a connection, and the rows of its commands.
#
# A request is one row, and so is a response, but a body of stored messages (PULL_MESSAGE and similar) has one row per message.
# Such rows cover the frame without overlap: the first includes the header's octets, each has the octets of its message.
#
# A response does not name its request, so the connection remembers its requests by their number (opaque), the last
# ROCKETMQ_ASKED_MOST of each direction, with topic and group.
from wirefmt.rocketmq.columns import OPERATIONS as ROCKETMQ_OPERATION_ROWS


cdef enum:
    ROCKETMQ_ASKED_MOST = 1024          # remembered requests of a direction, by the low bits of their numbers; a power of two
    ROCKETMQ_ASKED_FIRST = 8            # slots to begin with
    ROCKETMQ_NAME_MOST = 255            # octets of a topic or group remembered with a request
    ROCKETMQ_NAMES_NEAR = 29            # octets of both that need no memory of their own
    ROCKETMQ_SEARCH_MAX = 1 << 20       # octets: the search for a boundary waits for no larger frame
    ROCKETMQ_SNIFF_MAX = 1 << 16        # octets: the largest header with which a connection begins


cdef struct RocketmqAsked:              # a request that waits for its response
    int32_t opaque, code
    uint8_t* far                        # owned: topic, then group, if they are longer than `near`; or NULL
    uint8_t topic_size, group_size, live
    uint8_t[ROCKETMQ_NAMES_NEAR] near   # topic, then group


cdef struct RocketmqAskedTable:
    RocketmqAsked* rows                 # by the low bits of opaque; taken slots move on to the next
    uint32_t capacity                       # a power of two, or 0
    uint32_t count                      # live


cdef struct RocketmqConnection:         # what a capture knows about one connection: a ProtocolState
    int64_t buffered                    # octets of memory, without the scratches, which are freed after each frame
    RocketmqAskedTable asked[2]         # by the direction of the request
    Text client_id
    RocketmqScratch names, values, properties
    # a body of stored messages with pending rows: the index and offset of the next one, and how many can be read
    int put_index, put_count            # put_index 0: none
    size_t put_at


# ------------------------------------------------------------------------------------------------ static tables

cdef Text ROCKETMQ_PROTOCOL_TEXT = pad_text(b"rocketmq")
cdef Text ROCKETMQ_RESPONSE_TEXT = pad_text(b"RESPONSE")
cdef Text ROCKETMQ_MANAGE_TEXT = pad_text(b"manage")
cdef Text[ROCKETMQ_REQUESTS] ROCKETMQ_KIND_TEXT
cdef Text[ROCKETMQ_REQUESTS][2] ROCKETMQ_OPERATION_TEXT     # of the request, of the response
cdef Text[ROCKETMQ_VERSIONS] ROCKETMQ_VERSION_TEXT


cdef enum:
    ROCKETMQ_PLACE_FACTOR = <uint32_t>0x9E37E877            # gives each request code another number


cdef uint8_t[1024] ROCKETMQ_PLACE                           # rocketmq_place_number -> row of rocketmq_requests


cdef inline uint32_t rocketmq_place_number(int code) noexcept nogil:
    return (<uint32_t>code * ROCKETMQ_PLACE_FACTOR) >> 22


cdef int fill_rocketmq_tables() except -1:
    cdef int i, d
    if len({rocketmq_place_number(rocketmq_requests[i].code) for i in range(ROCKETMQ_REQUESTS)}) < ROCKETMQ_REQUESTS:
        raise ValueError("ROCKETMQ_PLACE_FACTOR does not distinguish the codes")
    for i in range(ROCKETMQ_REQUESTS):
        ROCKETMQ_PLACE[rocketmq_place_number(rocketmq_requests[i].code)] = <uint8_t>i
        name = rocketmq_requests[i].name.decode("ascii")
        ROCKETMQ_KIND_TEXT[i] = pad_text(name.encode())
        for d in range(2):
            ROCKETMQ_OPERATION_TEXT[i][d] = pad_text(ROCKETMQ_OPERATION_ROWS.get(name, ("manage", "manage"))[d].encode())
    for i in range(ROCKETMQ_VERSIONS):
        ROCKETMQ_VERSION_TEXT[i] = pad_text(rocketmq_versions[i].name)
    return 0


fill_rocketmq_tables()


cdef inline int rocketmq_place_of(int code) noexcept nogil:
    """The row of a request code in the tables above; -1: an unknown code."""
    cdef int i = ROCKETMQ_PLACE[rocketmq_place_number(code)]
    return i if rocketmq_requests[i].code == code else -1


cdef inline bint rocketmq_stored(bint response, int code) noexcept nogil:
    """Is the body of a request, or of the response to one, stored messages?"""
    if response:
        return (code == ROCKETMQ_CODE_PULL_MESSAGE or code == ROCKETMQ_CODE_QUERY_MESSAGE or
                code == ROCKETMQ_CODE_VIEW_MESSAGE_BY_ID or code == ROCKETMQ_CODE_LITE_PULL_MESSAGE or
                code == ROCKETMQ_CODE_POP_MESSAGE or code == ROCKETMQ_CODE_PEEK_MESSAGE)
    return code == ROCKETMQ_CODE_CHECK_TRANSACTION_STATE or code == ROCKETMQ_CODE_CONSUME_MESSAGE_DIRECTLY


cdef bint rocketmq_number(const RocketmqText* t, int64_t* out) noexcept nogil:
    """The number in a text. False: not a number."""
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef bint minus
    cdef uint32_t digit
    cdef uint64_t v = 0
    if t.form != ROCKETMQ_OCTETS:
        return False
    p = t.at
    end = p + t.size
    minus = t.size > 0 and p[0] == c"-"
    p += minus
    if p == end or end - p > 19:
        return False
    while p < end:
        digit = <uint32_t>p[0] - c"0"
        if digit > 9:
            return False
        v = v * 10 + digit
        p += 1
    if v > <uint64_t>0x7FFFFFFFFFFFFFFF:
        return False
    out[0] = -<int64_t>v if minus else <int64_t>v
    return True


cdef inline void rocketmq_put_i64(Col* c, int64_t row, const RocketmqText* t) noexcept nogil:
    cdef int64_t v = 0
    if t.form == ROCKETMQ_OCTETS and c.on and rocketmq_number(t, &v):
        put_i64(c, row, v)


cdef inline void rocketmq_put_i32(Col* c, int64_t row, const RocketmqText* t) noexcept nogil:
    cdef int64_t v = 0
    if t.form == ROCKETMQ_OCTETS and c.on and rocketmq_number(t, &v) and -<int64_t>0x80000000 <= v <= <int64_t>0x7FFFFFFF:
        put_i32(c, row, <int32_t>v)


# ------------------------------------------------------------------------------------------------ requests and responses

cdef inline uint32_t rocketmq_asked_slot(const RocketmqAskedTable* t, int32_t opaque) noexcept nogil:
    """The slot of the request whose number has these low bits, or else the free slot for it. A table of ROCKETMQ_ASKED_MOST has
    one slot for each, a smaller one always has a free slot."""
    cdef uint32_t i = <uint32_t>opaque & (t.capacity - 1)
    while t.rows[i].live and (t.rows[i].opaque ^ opaque) & (ROCKETMQ_ASKED_MOST - 1):
        i = (i + 1) & (t.capacity - 1)
    return i


cdef RocketmqAsked* rocketmq_asked(RocketmqAskedTable* t, int32_t opaque) noexcept nogil:
    """The request of that number. NULL: unknown."""
    cdef RocketmqAsked* row
    if t.count == 0:
        return NULL
    row = &t.rows[rocketmq_asked_slot(t, opaque)]
    return row if row.live and row.opaque == opaque else NULL


cdef RocketmqAsked* rocketmq_asked_place(RocketmqConnection* c, RocketmqAskedTable* t, int32_t opaque) noexcept nogil:
    """An empty slot for a request; an older one whose number has the same low bits is forgotten. NULL: out of memory."""
    cdef RocketmqAsked* grown
    cdef RocketmqAskedTable old = t[0]
    cdef RocketmqAsked* row
    cdef uint32_t i
    if t.capacity < ROCKETMQ_ASKED_MOST and 4 * t.count >= 3 * t.capacity:
        grown = <RocketmqAsked*>malloc((2 * t.capacity if t.capacity else ROCKETMQ_ASKED_FIRST) * sizeof(RocketmqAsked))
        if grown == NULL:
            return NULL
        t.capacity = 2 * t.capacity if t.capacity else ROCKETMQ_ASKED_FIRST
        memset(grown, 0, t.capacity * sizeof(RocketmqAsked))     # calloc does not reuse what was just freed
        t.rows = grown
        for i in range(old.capacity):
            if old.rows[i].live:
                grown[rocketmq_asked_slot(t, old.rows[i].opaque)] = old.rows[i]
        free(old.rows)
        c.buffered += <int64_t>((t.capacity - old.capacity) * sizeof(RocketmqAsked))
    row = &t.rows[rocketmq_asked_slot(t, opaque)]
    if row.live:
        rocketmq_forget_names(c, row)
    else:
        t.count += 1
    memset(row, 0, sizeof(RocketmqAsked))
    return row


cdef inline const uint8_t* rocketmq_asked_names(const RocketmqAsked* row) noexcept nogil:
    """Topic, then group."""
    if row.far != NULL:
        return row.far
    return &row.near[0]


cdef inline void rocketmq_forget_names(RocketmqConnection* c, RocketmqAsked* row) noexcept nogil:
    if row.far != NULL:
        c.buffered -= row.topic_size + row.group_size + BLOCK_OCTETS
        free(row.far)


cdef void rocketmq_forget(RocketmqConnection* c, RocketmqAskedTable* t, RocketmqAsked* row) noexcept nogil:
    """Forget an answered request. An empty table keeps no memory: that of many connections would not stay in the cache."""
    cdef uint32_t mask = t.capacity - 1
    cdef uint32_t hole = <uint32_t>(row - t.rows)
    cdef uint32_t i = hole
    rocketmq_forget_names(c, row)
    t.count -= 1
    if t.count == 0:
        c.buffered -= <int64_t>(t.capacity * sizeof(RocketmqAsked))
        free(t.rows)
        t.rows = NULL
        t.capacity = 0
        return
    while True:                                         # linear probing: move later requests back
        i = (i + 1) & mask
        if not t.rows[i].live or i == hole:
            break
        if ((i - <uint32_t>t.rows[i].opaque) & mask) >= ((i - hole) & mask):
            t.rows[hole] = t.rows[i]
            hole = i
    memset(&t.rows[hole], 0, sizeof(RocketmqAsked))


cdef void rocketmq_remember(RocketmqConnection* c, int direction, const RocketmqFrameView* m,
                            const RocketmqSlots* slots) noexcept nogil:
    """Remember a request that expects a response."""
    cdef RocketmqAsked* row
    cdef Span topic = span_of(NULL, 0), group = span_of(NULL, 0)
    cdef uint8_t* names
    if m.flag & (ROCKETMQ_RESPONSE | ROCKETMQ_ONEWAY) or not m.has_opaque:
        return
    row = rocketmq_asked_place(c, &c.asked[direction], m.opaque)
    if row == NULL:
        return
    row.opaque = m.opaque
    row.code = m.code
    row.live = 1
    if not rocketmq_plain_of(m, rocketmq_slot(slots, ROCKETMQ_TOPIC), &c.names, &topic) or topic.size > ROCKETMQ_NAME_MOST:
        topic.size = 0
    if not rocketmq_plain_of(m, rocketmq_slot(slots, ROCKETMQ_GROUP), &c.values, &group) or group.size > ROCKETMQ_NAME_MOST:
        group.size = 0
    names = row.near
    if topic.size + group.size > ROCKETMQ_NAMES_NEAR:
        row.far = names = <uint8_t*>malloc(topic.size + group.size)
        if names == NULL:
            return
        c.buffered += topic.size + group.size + BLOCK_OCTETS
    copy_octets(names, topic.at, topic.size)
    copy_octets(names + topic.size, group.at, group.size)
    row.topic_size = <uint8_t>topic.size
    row.group_size = <uint8_t>group.size


cdef void rocketmq_observe_client(RocketmqConnection* c, const Span* id) noexcept nogil:
    if id.size and (<uint32_t>c.client_id.size != id.size or memcmp(c.client_id.at, id.at, id.size) != 0):
        keep_text(&c.client_id, id.at, id.size, &c.buffered)


cdef void rocketmq_observe_frame(RocketmqConnection* c, const RocketmqFrameView* m, const RocketmqSlots* slots) noexcept nogil:
    """The client's identifier, from HEART_BEAT's body or UNREGISTER_CLIENT."""
    cdef RocketmqJson j
    cdef RocketmqText name, value
    cdef Fault f
    cdef Span id
    if m.flag & ROCKETMQ_RESPONSE:
        return
    if m.code == ROCKETMQ_CODE_UNREGISTER_CLIENT:
        if rocketmq_plain(rocketmq_slot(slots, ROCKETMQ_CLIENT_ID), &c.values, &id):
            rocketmq_observe_client(c, &id)
    elif m.code == ROCKETMQ_CODE_HEART_BEAT and m.body.at != NULL:
        rocketmq_json_begin(&j, m.body.at, m.body.size, 0, &f)
        if rocketmq_json_space(&j) != OK or j.at >= j.end or j.at[0] != c"{":
            return
        j.at += 1
        while rocketmq_json_next(&j) == OK and j.at[0] != c"}":
            if rocketmq_json_name(&j, True, &name) != OK or rocketmq_json_value(&j, &value) != OK:
                return
            if rocketmq_is(&name, b"clientID", 8) and rocketmq_plain(&value, &c.values, &id):
                rocketmq_observe_client(c, &id)
                return


# ------------------------------------------------------------------------------------------------ rows

cdef struct RocketmqRow:                # a frame whose rows are being put
    const RocketmqFrameView* m
    const RocketmqFields* fields
    const RocketmqSlots* slots
    RocketmqAsked* asked                # of a response: the request; NULL: unknown
    RocketmqConnection* c
    int place                           # of the request's code in the static tables; -1: unknown
    bint response
    Span properties                     # of the header, as valid UTF-8; at == NULL: none, or not needed, or `parted`
    bint parted                         # they are needed, and are the parts of `fields`
    bint shown                          # none of these parts is a secret, or secrets are shown
    const char* part                    # why the frame is incomplete; NULL: it is complete
    size_t part_size


cdef inline void rocketmq_put_slot(Col* c, int64_t row, const RocketmqRow* x, RocketmqSlot slot) noexcept nogil:
    """Put a field of extFields."""
    cdef const RocketmqText* t = rocketmq_slot(x.slots, slot)
    if t.form == ROCKETMQ_OCTETS and x.m.ascii:
        put_octets(c, row, t.at, t.size)
    else:
        rocketmq_put_text(c, row, t, &x.c.values)


cdef void rocketmq_put_header(MessageTable t, int64_t row, const RocketmqRow* x) noexcept nogil:
    """Put the fields of the header."""
    cdef Col* c = t.cols
    cdef Col* r
    cdef const RocketmqFrameView* m = x.m
    cdef const RocketmqSlots* slots = x.slots
    cdef char[16] digits
    cdef int n
    put_text(c + T_PROTOCOL, row, &ROCKETMQ_PROTOCOL_TEXT)
    if 0 <= m.version < ROCKETMQ_VERSIONS:
        put_text(c + T_VERSION, row, &ROCKETMQ_VERSION_TEXT[m.version])
    else:
        n = snprintf(digits, sizeof(digits), "%d", m.version)
        put_octets(c + T_VERSION, row, <const uint8_t*>digits, n)
    if x.place >= 0:
        put_text(c + T_KIND, row, &ROCKETMQ_KIND_TEXT[x.place])
        put_text(c + T_OPERATION, row, &ROCKETMQ_OPERATION_TEXT[x.place][1 if x.response else 0])
    elif x.response and x.asked == NULL:
        put_text(c + T_KIND, row, &ROCKETMQ_RESPONSE_TEXT)
    else:
        n = snprintf(digits, sizeof(digits), "%d", x.asked.code if x.response else m.code)
        put_octets(c + T_KIND, row, <const uint8_t*>digits, n)
        put_text(c + T_OPERATION, row, &ROCKETMQ_MANAGE_TEXT)
    if x.c.client_id.size:
        put_text(c + T_CLIENT_ID, row, &x.c.client_id)
    if m.has_opaque:
        put_i64(c + T_SEQUENCE, row, m.opaque)
    if x.response:
        put_i32(c + T_CODE, row, m.code)
    rocketmq_put_slot(c + T_CONSUMER_GROUP, row, x, ROCKETMQ_GROUP)
    if x.asked != NULL and x.asked.group_size:
        put_octets(c + T_CONSUMER_GROUP, row, rocketmq_asked_names(x.asked) + x.asked.topic_size, x.asked.group_size)
    if not c[<int>T_ROCKETMQ].on:
        return
    put_struct(c + T_ROCKETMQ, row)
    r = c[<int>T_ROCKETMQ].children
    put_i32(r + RM_CODE, row, m.code)
    if x.asked != NULL:
        put_i32(r + RM_REQUEST_CODE, row, x.asked.code)
    put_i32(r + RM_FLAG, row, m.flag)
    put_bool(r + RM_ONEWAY, row, not x.response and m.flag & ROCKETMQ_ONEWAY)
    if m.language >= 0:
        put_text(r + RM_LANGUAGE, row, &ROCKETMQ_LANGUAGE_TEXT[m.language])
    put_text(r + RM_SERIALIZE_TYPE, row, &ROCKETMQ_SERIALIZE_TEXT[m.serialize_type])
    rocketmq_put_text(r + RM_REMARK, row, &m.remark, &x.c.values)
    rocketmq_put_slot(r + RM_PRODUCER_GROUP, row, x, ROCKETMQ_PRODUCER_GROUP)
    rocketmq_put_slot(r + RM_BROKER_NAME, row, x, ROCKETMQ_BROKER_NAME)
    rocketmq_put_slot(r + RM_TRANSACTION_ID, row, x, ROCKETMQ_TRANSACTION_ID)
    rocketmq_put_slot(r + RM_SUBSCRIPTION, row, x, ROCKETMQ_SUBSCRIPTION)
    rocketmq_put_i64(r + RM_NEXT_BEGIN_OFFSET, row, rocketmq_slot(slots, ROCKETMQ_NEXT_BEGIN_OFFSET))
    rocketmq_put_i64(r + RM_MIN_OFFSET, row, rocketmq_slot(slots, ROCKETMQ_MIN_OFFSET))
    rocketmq_put_i64(r + RM_MAX_OFFSET, row, rocketmq_slot(slots, ROCKETMQ_MAX_OFFSET))
    if r[<int>RM_EXT_FIELDS].on and m.ext.at != NULL:
        rocketmq_put_ext(r + RM_EXT_FIELDS, row, x)


cdef void rocketmq_put_ext(Col* ext, int64_t row, const RocketmqRow* x) noexcept nogil:
    cdef MapWriter map
    cdef RocketmqWalk walk
    cdef const RocketmqText* key
    cdef const RocketmqText* value
    cdef bint letters = rocketmq_letters(x.m.code)
    cdef int i
    cdef int64_t entries = open_list(ext, row)          # makes an empty map instead of a null
    if entries >= 0:
        close_list(ext, entries)
    begin_map(&map, ext, row, x.m.frame + x.m.size)
    if x.shown and rocketmq_add_fields(&map, x.m, x.fields):
        pass
    elif rocketmq_are_kept(x.m, x.fields):
        for i in range(x.fields.count):
            key = &x.fields.keys[i]
            value = &x.fields.values[i]
            if rocketmq_is_near(x.m, key, value) and not rocketmq_is_properties(letters, key.at, key.size):
                add_entry(&map, key.at, key.size, value.at, value.size)
            else:
                map = rocketmq_put_rewritten(map, x, letters, key, value)
    else:
        rocketmq_walk(&walk, x.m, x.fields)
        while rocketmq_step(&walk):
            map = rocketmq_put_rewritten(map, x, letters, walk.key, walk.value)
    end_map(&map)


cdef MapWriter rocketmq_put_rewritten(MapWriter map, const RocketmqRow* x, bint letters, const RocketmqText* key,
                                      const RocketmqText* value) noexcept nogil:
    """Put an entry that may have to be rewritten or hidden. The writer is passed as a value, as in the kernel."""
    cdef Span name, text
    cdef bint plain = x.properties.at != NULL and value.at == rocketmq_slot(x.slots, ROCKETMQ_PROPERTIES).at
    if plain:                                           # they need not be unescaped again
        text.at = x.properties.at
        text.size = x.properties.size
    else:
        plain = rocketmq_plain_of(x.m, value, &x.c.values, &text)
    if plain and rocketmq_plain_of(x.m, key, &x.c.names, &name):
        return rocketmq_put_field(map, letters, &name, &text)
    if x.c.names.failed or x.c.values.failed:
        map.map.shared.no_memory = True
    return map


cdef bint rocketmq_wants_properties(MessageTable t) noexcept nogil:
    """Is a column selected that shows the properties or has one of them, or the `detail` line?"""
    cdef Col* c = t.cols
    return (c[<int>T_ROCKETMQ].on or c[<int>T_HEADERS].on or c[<int>T_MESSAGE_ID].on or c[<int>T_CORRELATION_ID].on
            or c[<int>T_REPLY_TO].on or c[<int>T_TTL_MS].on or t.options.detail)


cdef void rocketmq_put_properties(MessageTable t, int64_t row, const RocketmqRow* x, const Span* properties) noexcept nogil:
    """The properties of a message, which are valid UTF-8: as headers, and in their own columns. properties.at == NULL: those in
    parts."""
    cdef Col* c = t.cols
    cdef Col* r = c[<int>T_ROCKETMQ].children
    cdef const uint8_t* p = properties.at
    cdef const uint8_t* end = p + properties.size
    cdef const uint8_t* readable = x.m.frame + x.m.size
    cdef MapWriter map
    cdef Span name, value
    cdef RocketmqText number
    cdef bint shown
    cdef int part = 0
    if properties.at == NULL:
        p = rocketmq_slot(x.slots, ROCKETMQ_PROPERTIES).at
    elif p == x.c.properties.p:
        readable = p + x.c.properties.capacity
    shown = begin_map(&map, c + T_HEADERS, row, readable)
    if properties.at == NULL and x.shown:
        map.exposed = True                              # none of these names is secret
    while True:
        if properties.at == NULL:
            p = rocketmq_next_part(x.fields, p, &part, &name, &value)
        else:
            p = rocketmq_next_property(p, end, &name, &value)
        if p == NULL:
            break
        if shown:
            add_entry(&map, name.at, name.size, value.at, value.size)
        if name.size == 4 and memcmp(name.at, b"TAGS", 4) == 0:
            put_span(r + RM_TAGS, row, &value)
        elif name.size == 4 and memcmp(name.at, b"KEYS", 4) == 0:
            put_span(r + RM_KEYS, row, &value)
        elif name.size == 8 and memcmp(name.at, b"UNIQ_KEY", 8) == 0:
            put_span(c + T_MESSAGE_ID, row, &value)
        elif name.size == 6 and memcmp(name.at, b"PGROUP", 6) == 0:
            put_span(r + RM_PRODUCER_GROUP, row, &value)
        elif name.size == 14 and memcmp(name.at, b"CORRELATION_ID", 14) == 0:
            put_span(c + T_CORRELATION_ID, row, &value)
        elif name.size == 15 and memcmp(name.at, b"REPLY_TO_CLIENT", 15) == 0:
            put_span(c + T_REPLY_TO, row, &value)
        elif name.size == 3 and memcmp(name.at, b"TTL", 3) == 0:
            number.at = value.at
            number.size = value.size
            number.form = ROCKETMQ_OCTETS
            rocketmq_put_i64(c + T_TTL_MS, row, &number)
    if shown:
        end_map(&map)


cdef void rocketmq_put_body(MessageTable t, int64_t row, const Span* body, int sys_flag) noexcept nogil:
    """A message's body, decompressed if possible, and the row's status."""
    cdef RocketmqScratch inflated
    cdef char[128] why
    cdef int n
    if not sys_flag & ROCKETMQ_COMPRESSED or body.at == NULL:
        if body.at != NULL:
            t.put_payload(row, body.at, body.size)
        t.put_status(row, ROW_OK, NULL, 0)
        return
    memset(&inflated, 0, sizeof(inflated))
    n = rocketmq_inflate(body, sys_flag, &inflated, why, sizeof(why))
    if n < 0:
        t.put_payload(row, inflated.p, <int64_t>inflated.capacity)
        t.put_status(row, ROW_OK, NULL, 0)
    else:
        t.put_payload(row, body.at, body.size)
        t.put_status(row, ROW_OK, why, n)
    free(inflated.p)


cdef int rocketmq_inflate(const Span* body, int sys_flag, RocketmqScratch* out, char* why, size_t capacity) noexcept with gil:
    """Decompress to `out` (with `capacity` octets); -1, or the length of the reason in `why`."""
    cdef bytes text, octets
    try:
        if sys_flag >> 8 & 7 > 3:
            raise ValueError("unknown compression type")
        octets = decompressed(body.at, body.size, sys_flag, ROCKETMQ_FRAME_MAX, 0, -1)
        out.p = <uint8_t*>malloc(<size_t>PyBytes_GET_SIZE(octets) + 1)
        if out.p == NULL:
            raise MemoryError
        out.capacity = <size_t>PyBytes_GET_SIZE(octets)
        memcpy(out.p, PyBytes_AS_STRING(octets), out.capacity)
        return -1
    except Exception as error:
        text = f"body is compressed: {getattr(error, 'reason', error)}".encode("ascii", "replace")[:<Py_ssize_t>capacity]
        memcpy(why, PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))
        return <int>PyBytes_GET_SIZE(text)


cdef void rocketmq_put_line(MessageTable t, int64_t row, const RocketmqRow* x, const Span* properties,
                            const RocketmqMessageView* stored, int messages) noexcept nogil:
    """The row's `detail`: for a stored message, or (NULL) for the command with `messages` in its body."""
    cdef RocketmqDetailOf of
    of.m = x.m
    of.fields = x.fields
    of.topic = rocketmq_slot(x.slots, ROCKETMQ_TOPIC)
    of.group = rocketmq_slot(x.slots, ROCKETMQ_GROUP)
    of.producer_group = rocketmq_slot(x.slots, ROCKETMQ_PRODUCER_GROUP)
    of.queue_id = rocketmq_slot(x.slots, ROCKETMQ_QUEUE_ID)
    of.reconsume_times = rocketmq_slot(x.slots, ROCKETMQ_RECONSUME_TIMES)
    of.asked_topic = of.asked_group = of.client_id = span_of(NULL, 0)
    if x.asked != NULL and x.asked.topic_size:
        of.asked_topic = span_of(rocketmq_asked_names(x.asked), x.asked.topic_size)
    if x.asked != NULL and x.asked.group_size:
        of.asked_group = span_of(rocketmq_asked_names(x.asked) + x.asked.topic_size, x.asked.group_size)
    if x.c.client_id.size:
        of.client_id = span_of(x.c.client_id.at, <size_t>x.c.client_id.size)
    of.properties = properties[0]
    of.stored = stored
    of.place = x.place
    of.response = x.response
    of.messages = messages
    of.scratch = &x.c.values
    rocketmq_put_detail(t, row, &of)


cdef void rocketmq_put_command(MessageTable t, const MessageContext* m, const RocketmqRow* x) noexcept nogil:
    """Put a command that is one row. A SEND has the message's properties, topic and body."""
    cdef Col* c = t.cols
    cdef Col* r = c[<int>T_ROCKETMQ].children
    cdef const RocketmqSlots* slots = x.slots
    cdef int64_t row = t.begin_row(m), sys_flag = 0
    cdef RocketmqMessageView item
    cdef Fault f
    cdef const uint8_t* p
    cdef int count = 0
    if x.part != NULL:
        t.put_status(row, ROW_PARTIAL, x.part, <int64_t>x.part_size)
    rocketmq_put_header(t, row, x)
    rocketmq_put_slot(c + T_DESTINATION, row, x, ROCKETMQ_TOPIC)
    if x.asked != NULL and x.asked.topic_size:
        put_octets(c + T_DESTINATION, row, rocketmq_asked_names(x.asked), x.asked.topic_size)
    if x.parted or x.properties.at != NULL:
        rocketmq_put_properties(t, row, x, &x.properties)
    rocketmq_put_slot(c + T_MESSAGE_ID, row, x, ROCKETMQ_MESSAGE_ID)
    if c[<int>T_ROCKETMQ].on:
        rocketmq_put_i32(r + RM_QUEUE_ID, row, rocketmq_slot(slots, ROCKETMQ_QUEUE_ID))
        rocketmq_put_i64(r + RM_QUEUE_OFFSET, row, rocketmq_slot(slots, ROCKETMQ_QUEUE_OFFSET))
        rocketmq_put_i64(r + RM_PHYSICAL_OFFSET, row, rocketmq_slot(slots, ROCKETMQ_PHYSICAL_OFFSET))
        rocketmq_put_i32(r + RM_MESSAGE_FLAG, row, rocketmq_slot(slots, ROCKETMQ_MESSAGE_FLAG))
        rocketmq_put_i32(r + RM_SYS_FLAG, row, rocketmq_slot(slots, ROCKETMQ_SYS_FLAG))
        rocketmq_put_i64(r + RM_BORN_TIMESTAMP, row, rocketmq_slot(slots, ROCKETMQ_BORN_TIMESTAMP))
        rocketmq_put_i64(r + RM_STORE_TIMESTAMP, row, rocketmq_slot(slots, ROCKETMQ_STORE_TIMESTAMP))
        rocketmq_put_i32(r + RM_RECONSUME_TIMES, row, rocketmq_slot(slots, ROCKETMQ_RECONSUME_TIMES))
    if not x.response and x.m.code == ROCKETMQ_CODE_SEND_BATCH_MESSAGE and x.m.body.at != NULL:
        p = x.m.body.at
        while p < x.m.body.at + x.m.body.size and \
                rocketmq_read_batch_item(p, p, x.m.body.at + x.m.body.size, 0, &item, &f) == OK:
            count += 1
            p += item.size
        put_i32(r + RM_MESSAGE_COUNT, row, count)
    if t.options.detail:
        rocketmq_put_line(t, row, x, &x.properties, NULL, count)
    if not x.response and rocketmq_slot(slots, ROCKETMQ_PROPERTIES).form != ROCKETMQ_NULL:
        rocketmq_number(rocketmq_slot(slots, ROCKETMQ_SYS_FLAG), &sys_flag)
    if not t.shared.exposed and rocketmq_secret_body(x.m):
        put_i64(c + T_PAYLOAD_SIZE, row, x.m.body.size)
        t.put_status(row, ROW_OK, NULL, 0)
    else:
        rocketmq_put_body(t, row, &x.m.body, <int>sys_flag)


cdef bint rocketmq_put_messages(MessageTable t, const MessageContext* m, const RocketmqRow* x) noexcept nogil:
    """Put a row for each stored message of the body, up to the first unreadable one. False: the table is full before the
    last row; the next call continues there."""
    cdef const uint8_t* end = x.m.body.at + x.m.body.size
    cdef const uint8_t* p = x.m.body.at
    cdef const uint8_t* begin = x.m.frame
    cdef MessageContext context = m[0]
    cdef RocketmqMessageView message
    cdef Fault f
    cdef int64_t row
    cdef int index = x.c.put_index, count = x.c.put_count
    if index:
        p = begin = x.m.frame + x.c.put_at
    else:
        count = 0
        while p < end and rocketmq_read_message(x.m.frame, p, end, count, &message, &f) == OK:
            count += 1
            p += message.size
        p = x.m.body.at
    while p < end:
        if index and t.is_full():
            return rocketmq_stop_at(x, index, count, begin)
        if rocketmq_read_message(x.m.frame, p, end, index, &message, &f) == OK:
            message.size = <uint32_t>(p + message.size - begin)         # with the header, for the first
        else:
            message.size = <uint32_t>(end - begin)
        context.byte_offset = m.byte_offset + (begin - x.m.frame)
        context.wire_size = message.size
        row = t.begin_row(&context)
        rocketmq_put_header(t, row, x)
        put_i32(t.cols[<int>T_ROCKETMQ].children + RM_MESSAGE_INDEX, row, index)
        put_i32(t.cols[<int>T_ROCKETMQ].children + RM_MESSAGE_COUNT, row, count)
        begin += message.size
        p = begin
        if index < count:
            rocketmq_put_message(t, row, x, &message)
        elif x.part != NULL:
            t.put_status(row, ROW_PARTIAL, x.part, <int64_t>x.part_size)
        else:
            t.put_malformed(row, &ROCKETMQ_TABLES, &f)
        index += 1
    if x.part != NULL and index == count:               # the body ends between two messages
        if index and t.is_full():
            return rocketmq_stop_at(x, index, count, begin)
        context.byte_offset = m.byte_offset + (end - x.m.frame)
        context.wire_size = 0
        row = t.begin_row(&context)
        rocketmq_put_header(t, row, x)
        t.put_status(row, ROW_PARTIAL, x.part, <int64_t>x.part_size)
    x.c.put_index = 0
    return True


cdef bint rocketmq_stop_at(const RocketmqRow* x, int index, int count, const uint8_t* at) noexcept nogil:
    x.c.put_index = index
    x.c.put_count = count
    x.c.put_at = <size_t>(at - x.m.frame)
    return False


cdef void rocketmq_put_message(MessageTable t, int64_t row, const RocketmqRow* x, const RocketmqMessageView* m) noexcept nogil:
    """Put the fields of a stored message."""
    cdef Col* c = t.cols
    cdef Col* r = c[<int>T_ROCKETMQ].children
    cdef RocketmqText text
    cdef Span span = span_of(NULL, 0)
    cdef uint8_t[56] digits
    cdef int n
    text.at = m.topic.at
    text.size = m.topic.size
    text.form = ROCKETMQ_OCTETS
    rocketmq_put_text(c + T_DESTINATION, row, &text, &x.c.values)
    if m.properties.at != NULL and rocketmq_wants_properties(t):
        text.at = m.properties.at
        text.size = m.properties.size
        if rocketmq_plain(&text, &x.c.properties, &span):
            rocketmq_put_properties(t, row, x, &span)
    n = rocketmq_write_id(m, digits)
    put_octets(c + T_MESSAGE_ID, row, digits, n)
    put_octets(r + RM_OFFSET_MESSAGE_ID, row, digits, n)
    put_bool(c + T_REDELIVERED, row, m.reconsume_times > 0)
    if m.reconsume_times < 0x7FFFFFFF:
        put_i32(c + T_ATTEMPTS, row, m.reconsume_times + 1)
    put_i32(r + RM_QUEUE_ID, row, m.queue_id)
    put_i64(r + RM_QUEUE_OFFSET, row, m.queue_offset)
    put_i64(r + RM_PHYSICAL_OFFSET, row, m.physical_offset)
    put_i32(r + RM_MESSAGE_FLAG, row, m.flag)
    put_i32(r + RM_SYS_FLAG, row, m.sys_flag)
    put_i32(r + RM_BODY_CRC, row, m.body_crc)
    put_i64(r + RM_BORN_TIMESTAMP, row, m.born_timestamp)
    put_i64(r + RM_STORE_TIMESTAMP, row, m.store_timestamp)
    rocketmq_put_host(r + RM_BORN_HOST, row, &m.born_host, m.born_port)
    rocketmq_put_host(r + RM_STORE_HOST, row, &m.store_host, m.store_port)
    put_i32(r + RM_RECONSUME_TIMES, row, m.reconsume_times)
    put_i64(r + RM_PREPARED_TRANSACTION_OFFSET, row, m.prepared_transaction_offset)
    if t.options.detail:
        rocketmq_put_line(t, row, x, &span, m, 0)
    rocketmq_put_body(t, row, &m.body, m.sys_flag)


cdef void rocketmq_put_host(Col* c, int64_t row, const Span* host, int port) noexcept nogil:
    """address:port; IPv6 in brackets, with all eight groups, without leading zeros."""
    cdef char[64] text
    cdef const uint8_t* p = host.at
    cdef int n = 0, i
    if not c.on:
        return
    if host.size == 4:
        n = snprintf(text, sizeof(text), "%d.%d.%d.%d:%d", p[0], p[1], p[2], p[3], port)
    else:
        text[0] = c"["
        n = 1
        for i in range(8):
            n += snprintf(text + n, sizeof(text) - <size_t>n, "%x%s", load_u16(p + 2 * i), b":" if i < 7 else b"")
        n += snprintf(text + n, sizeof(text) - <size_t>n, "]:%d", port)
    put_octets(c, row, <const uint8_t*>text, n)
