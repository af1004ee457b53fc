# NSQ commands and frames -> columns: rows of the message table, and decode_batch for one direction.
#
# Both use nsq_parse, so they agree with the objects.
from wirefmt.nsq.columns import (
    BATCH as NSQ_BATCH_COLUMNS, FIELDS as NSQ_STRUCT_FIELDS, OPERATIONS as NSQ_OPERATION_ROWS,
)


cdef enum NsqCompression:
    NSQ_PLAIN = 0
    NSQ_DEFLATE
    NSQ_SNAPPY


cdef struct NsqFlow:                # what is known about one TCP connection
    int64_t buffered                # octets of memory: the texts, and what the owner adds
    Text client_id, topic, channel
    uint8_t compression             # an NsqCompression
    bint tls


cdef void nsq_flow_clear(NsqFlow* flow) noexcept nogil:
    """Free the memory of a flow; the result equals a new flow."""
    cdef int64_t buffered = flow.buffered - text_octets(&flow.client_id) - text_octets(&flow.topic) - text_octets(&flow.channel)
    free(<void*>flow.client_id.at)
    free(<void*>flow.topic.at)
    free(<void*>flow.channel.at)
    memset(flow, 0, sizeof(NsqFlow))
    flow.buffered = buffered


cdef inline void nsq_put_shown(Col* c, int64_t row, const Span* octets) noexcept nogil:
    """Octets in a column of text."""
    cdef uint8_t[HEX_SIZE] hex
    cdef Span shown
    if not c.on:
        return
    if is_plain_text(octets.at, octets.size):
        put_octets(c, row, octets.at, octets.size)
        return
    text_or_hex(octets, hex, &shown)
    put_span(c, row, &shown)


cdef void nsq_keep_text(NsqFlow* flow, Text* kept, const Span* text) noexcept nogil:
    """Keep a copy of a column's text; null if memory runs out."""
    cdef uint8_t[HEX_SIZE] hex
    cdef Span shown
    if text.size:
        text_or_hex(text, hex, &shown)
        keep_text(kept, shown.at, shown.size, &flow.buffered)


# ------------------------------------------------------------------------------------------------ static tables

cdef Text NSQ_CUT_TEXT = pad_text(b"... (cut)")


cdef enum:
    NSQ_TEXT_MAX = 4096             # octets of a rewritten JSON string
    NSQ_TEXT_CAPACITY = NSQ_TEXT_MAX - 16       # ... without NSQ_CUT_TEXT
    NSQ_FIELDS = 64                 # more than the struct has

cdef Text[NSQ_KINDS] NSQ_KIND_TEXT
cdef Text[NSQ_KINDS] NSQ_OPERATION_TEXT
cdef Text NSQ_PING_TEXT = pad_text(NSQ_OPERATION_ROWS["heartbeat"].encode())
cdef Text NSQ_PROTOCOL_TEXT = pad_text(b"nsq")
cdef Text NSQ_VERSION_TEXT = pad_text(b"V2")
cdef Text[NSQ_ERRORS] NSQ_ERROR_TEXT
cdef Text[3] NSQ_COMPRESSION_TEXT       # by NsqCompression
NSQ_COMPRESSION_TEXT[1] = pad_text(b"deflate")
NSQ_COMPRESSION_TEXT[2] = pad_text(b"snappy")
cdef Text[NSQ_FIELDS] NSQ_JSON_NAME         # by field of the struct: its member; size 0: none
cdef uint8_t[NSQ_FIELDS] NSQ_JSON_KIND      # an NsqMemberType


cdef int fill_nsq_tables() except -1:
    cdef int i
    for i in range(<int>NSQ_KINDS):
        name = nsq_kind_name[i].decode("ascii")
        NSQ_KIND_TEXT[i] = pad_text(name.encode())
        NSQ_OPERATION_TEXT[i] = pad_text(NSQ_OPERATION_ROWS.get(name, "").encode())
    for i in range(NSQ_ERRORS):
        NSQ_ERROR_TEXT[i] = pad_text(nsq_errors[i].name)
    first = [f.name for f in NSQ_STRUCT_FIELDS].index("hostname")
    last = [f.name for f in NSQ_STRUCT_FIELDS].index("permission_count")
    for i, field in enumerate(NSQ_STRUCT_FIELDS):
        NSQ_JSON_NAME[i] = NO_TEXT
        if first <= i <= last:
            NSQ_JSON_NAME[i] = pad_text(b"version" if field.name == "server_version" else field.name.encode())
        NSQ_JSON_KIND[i] = {"string": NSQ_TYPE_STRING, "boolean": NSQ_TYPE_BOOLEAN}.get(field.type, NSQ_TYPE_INT)
    return 0


fill_nsq_tables()


# ------------------------------------------------------------------------------------------------ JSON

cdef int nsq_field_of(const Span* name) noexcept nogil:
    """The field of the struct for a member of IDENTIFY's or the server's JSON; -1: none, -2: client_id."""
    cdef char folded[NSQ_NAME_CAPACITY]
    cdef int n = nsq_fold_name(name, folded)
    cdef int i
    if n == 9 and memcmp(folded, b"client_id", 9) == 0:
        return -2
    for i in range(NSQ_F_HOSTNAME, NSQ_F_PERMISSION_COUNT + 1):
        if n == NSQ_JSON_NAME[i].size and memcmp(NSQ_JSON_NAME[i].at, folded, <size_t>n) == 0:
            return i
    return -1


cdef void nsq_json_string_to(const Span* raw, uint8_t* scratch, Span* out) noexcept nogil:
    """A JSON string as UTF-8: in place if possible, otherwise rewritten to `scratch` (NSQ_TEXT_MAX). A truncated text ends with
    NSQ_CUT_TEXT."""
    cdef const uint8_t* p = raw.at
    cdef const uint8_t* end = p + raw.size
    cdef size_t bad = 0, used = 0
    cdef uint32_t c
    out[0] = raw[0]
    if memchr(p, 0x5C, raw.size) == NULL and is_utf8(p, raw.size, &bad):
        return
    while p < end and used + 4 <= NSQ_TEXT_CAPACITY:
        if p[0] == 0x5C:
            c = nsq_json_escape(&p, end)
        elif p[0] < 0x80:
            c = p[0]
            p += 1
        elif check_utf8(p, min(<size_t>(end - p), <size_t>4), &bad) == UTF8_ILL_FORMED and bad == 0:
            c = 0xFFFD
            p += 1
        else:                               # a letter's octets, one by one
            scratch[used] = p[0]
            used += 1
            p += 1
            while p < end and p[0] & 0xC0 == 0x80 and used < NSQ_TEXT_CAPACITY:
                scratch[used] = p[0]
                used += 1
                p += 1
            continue
        used += store_utf8(c, scratch + used)
    if p < end:
        memcpy(scratch + used, NSQ_CUT_TEXT.at, <size_t>NSQ_CUT_TEXT.size)
        used += <size_t>NSQ_CUT_TEXT.size
    out.at = scratch
    out.size = <uint32_t>used


cdef bint nsq_find_members(const Span* text, NsqMember* found, NsqMember* client) noexcept nogil:
    """Members of IDENTIFY's JSON or of an answer to IDENTIFY or AUTH: the last member of a name with the right type. `found`: by
    field of the struct, zeroed. `client`: client_id, unless it is empty. False: not a JSON object, or a malformed one."""
    cdef NsqJson j
    cdef NsqMember m
    cdef int i
    cdef int begun = nsq_json_begin(&j, text.at, text.size)
    while begun == NSQ_JSON_OBJECT and nsq_json_next(&j, &m):
        i = nsq_field_of(&m.name)
        if i == -2 and m.type == NSQ_JSON_STRING and m.value.size:
            client[0] = m
        elif i >= 0 and nsq_has_type(&m, NSQ_JSON_KIND[i]):
            found[i] = m
    return j.check == 0


cdef void nsq_put_json(Col* fields, int64_t row, const Span* text, NsqFlow* flow, bint identify) noexcept nogil:
    """Put the members that are fields of the struct; remember those that describe the connection. `identify`: the client's
    members; an answer names no client, whatever it holds."""
    cdef NsqMember[NSQ_FIELDS] found
    cdef NsqMember client
    cdef Span shown
    cdef uint8_t[NSQ_TEXT_MAX] scratch
    cdef int i, type
    cdef bint whole
    memset(found, 0, sizeof(found))
    client.type = NSQ_JSON_NONE
    whole = nsq_find_members(text, found, &client)
    if identify and client.type == NSQ_JSON_STRING:
        nsq_json_string_to(&client.value, scratch, &shown)
        nsq_keep_text(flow, &flow.client_id, &shown)
    if not whole:
        return
    for i in range(NSQ_F_HOSTNAME, NSQ_F_PERMISSION_COUNT + 1):
        type = found[i].type
        if type == NSQ_JSON_STRING:
            nsq_json_string_to(&found[i].value, scratch, &shown)
            put_span(fields + i, row, &shown)
        elif type == NSQ_JSON_INTEGER:
            put_i64(fields + i, row, found[i].number)
        elif type:
            put_bool(fields + i, row, type == NSQ_JSON_TRUE)
    if found[<int>NSQ_F_MAX_RDY_COUNT].type:                # only the answer to IDENTIFY has it: it takes effect now
        flow.tls = found[<int>NSQ_F_TLS_V1].type == NSQ_JSON_TRUE
        flow.compression = (NSQ_DEFLATE if found[<int>NSQ_F_DEFLATE].type == NSQ_JSON_TRUE else
                            NSQ_SNAPPY if found[<int>NSQ_F_SNAPPY].type == NSQ_JSON_TRUE else NSQ_PLAIN)


# ------------------------------------------------------------------------------------------------ the nsq struct

cdef void nsq_put_bodies(Col* list_, int64_t row, const NsqUnitView* u, int64_t most) noexcept nogil:
    """MPUB's messages, at most `most` octets of each; -1: all."""
    cdef const uint8_t* p = u.body.at
    cdef int64_t at = open_list(list_, row)
    cdef int64_t n
    cdef uint32_t i
    if at < 0:
        return
    for i in range(u.message_count):
        n = load_u32(p)
        put_octets(list_.children, at + i, p + 4, n if most < 0 else min(n, most))
        p += 4 + n
    close_list(list_, at + u.message_count)


cdef inline int64_t nsq_payload_size(const NsqUnitView* u) noexcept nogil:
    """Octets of the messages."""
    return <int64_t>u.body.size - 4 * <int64_t>u.message_count


cdef inline bint nsq_describes(const NsqUnitView* u) noexcept nogil:
    """Does its JSON say something about the connection, which is noted whether or not the struct is on?"""
    return u.kind == NSQ_IDENTIFY or (u.kind == NSQ_RESPONSE and u.body.size and u.body.at[0] == c"{")


cdef void nsq_put_struct(Col* c, int64_t row, const NsqUnitView* u, NsqFlow* flow) noexcept nogil:
    """The nsq struct of a row, without MPUB's messages."""
    cdef Col* f = c.children
    cdef const uint8_t* space
    cdef Span word
    cdef int error
    put_struct(c, row)
    if u.kind >= NSQ_FRAMES:
        put_i32(f + NSQ_F_FRAME_TYPE, row, u.frame_type)
    if u.kind == NSQ_MESSAGE:
        put_i64(f + NSQ_F_TIMESTAMP_NS, row, u.timestamp)
    elif u.kind == NSQ_RDY and u.has_number:
        put_i64(f + NSQ_F_RDY_COUNT, row, <int64_t>u.number)
    elif u.has_number:
        put_i64(f + NSQ_F_TIMEOUT_MS, row, <int64_t>u.number)
    elif u.kind == NSQ_MPUB:
        put_i32(f + NSQ_F_MESSAGE_COUNT, row, <int32_t>u.message_count)
    elif u.kind == NSQ_AUTH:
        put_secret(f + NSQ_F_SECRET, row, &u.body)
    elif u.kind == NSQ_IDENTIFY:
        nsq_put_json(f, row, &u.body, flow, True)
    elif u.kind == NSQ_RESPONSE:
        if not c.shared.exposed and holds_secret_member(u.body.at, u.body.size):
            put_text(f + NSQ_F_RESPONSE, row, &SECRET_SHOWN_TEXT)
        else:
            nsq_put_shown(f + NSQ_F_RESPONSE, row, &u.body)
        if nsq_describes(u):
            nsq_put_json(f, row, &u.body, flow, False)
    elif u.kind == NSQ_ERROR:
        error = nsq_error_row(&u.body)
        space = <const uint8_t*>memchr(u.body.at, 0x20, u.body.size)
        word.at = u.body.at
        word.size = u.body.size if space == NULL else <uint32_t>(space - u.body.at)
        nsq_put_shown(f + NSQ_F_ERROR_CODE, row, &word)
        if space != NULL:
            word.at = space + 1
            word.size = u.body.size - word.size - 1
            nsq_put_shown(f + NSQ_F_ERROR_TEXT, row, &word)
        if error >= 0:
            put_bool(f + NSQ_F_FATAL, row, nsq_errors[error].fatal)


# ------------------------------------------------------------------------------------------------ the message table

cdef void nsq_observe_unit(NsqFlow* flow, const NsqUnitView* u) noexcept nogil:
    if u.kind == NSQ_SUB:
        nsq_keep_text(flow, &flow.topic, &u.topic)
        nsq_keep_text(flow, &flow.channel, &u.channel)


cdef void nsq_put_row(MessageTable t, int64_t row, const NsqUnitView* u, NsqFlow* flow) noexcept nogil:
    """Fill NSQ's part of a row that begin_row began. The caller sets status and error."""
    cdef Col* c = t.cols
    cdef Col* f = c[<int>T_NSQ].children
    nsq_observe_unit(flow, u)
    nsq_put_kind(t, row, u.kind)
    if not c[<int>T_OPERATION].on:
        pass
    elif u.kind == NSQ_RESPONSE and nsq_is_heartbeat(&u.body):
        put_text(c + T_OPERATION, row, &NSQ_PING_TEXT)
    elif NSQ_OPERATION_TEXT[u.kind].size:
        put_text(c + T_OPERATION, row, &NSQ_OPERATION_TEXT[u.kind])
    if u.topic.at != NULL:
        nsq_put_shown(c + T_DESTINATION, row, &u.topic)
    elif flow.topic.size and (u.kind == NSQ_MESSAGE or u.message_id.at != NULL):
        put_text(c + T_DESTINATION, row, &flow.topic)
    if flow.channel.size and (u.kind == NSQ_MESSAGE or u.kind == NSQ_SUB or u.message_id.at != NULL):
        put_text(c + T_CONSUMER_GROUP, row, &flow.channel)
    if u.message_id.at != NULL:
        nsq_put_shown(c + T_MESSAGE_ID, row, &u.message_id)
    if flow.compression:
        put_text(f + NSQ_F_COMPRESSION, row, &NSQ_COMPRESSION_TEXT[flow.compression])
    if c[<int>T_NSQ].on or nsq_describes(u):
        nsq_put_struct(c + T_NSQ, row, u, flow)
    if flow.client_id.size:
        put_text(c + T_CLIENT_ID, row, &flow.client_id)
    if u.kind == NSQ_MESSAGE:
        put_i32(c + T_ATTEMPTS, row, u.attempts)
        put_bool(c + T_REDELIVERED, row, u.attempts > 1)
    if u.kind == NSQ_MESSAGE or u.kind == NSQ_PUB or u.kind == NSQ_DPUB:
        t.put_payload(row, u.body.at, u.body.size)
    elif u.kind == NSQ_MPUB:
        put_i64(c + T_PAYLOAD_SIZE, row, nsq_payload_size(u))
        if t.options.payload:
            nsq_put_bodies(f + NSQ_F_BODIES, row, u, t.options.payload_max)


cdef inline void nsq_put_kind(MessageTable t, int64_t row, int kind) noexcept nogil:
    put_text(t.cols + T_PROTOCOL, row, &NSQ_PROTOCOL_TEXT)
    if t.cols[<int>T_VERSION].on:           # a test here costs less than the call
        put_text(t.cols + T_VERSION, row, &NSQ_VERSION_TEXT)
    put_text(t.cols + T_KIND, row, &NSQ_KIND_TEXT[kind])
