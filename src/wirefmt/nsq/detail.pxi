# NSQ commands and frames -> the column `detail`. detail.py lists the fields and their order.
from wirefmt.nsq.detail import KINDS as NSQ_DETAIL_ROWS, ANSWER as NSQ_ANSWER_ROW


cdef enum NsqDetail:                # fields that are not members of a JSON object; members are fields of the nsq struct
    NSQ_DETAIL_TOPIC = 64
    NSQ_DETAIL_CHANNEL
    NSQ_DETAIL_SIZE
    NSQ_DETAIL_MESSAGE_COUNT
    NSQ_DETAIL_NUMBER
    NSQ_DETAIL_MESSAGE_ID
    NSQ_DETAIL_ATTEMPTS
    NSQ_DETAIL_RESPONSE
    NSQ_DETAIL_ERROR_CODE
    NSQ_DETAIL_ERROR_TEXT
    NSQ_DETAIL_FATAL
    NSQ_DETAIL_FRAME_TYPE
    NSQ_DETAIL_COMMAND
    NSQ_DETAIL_CLIENT_ID


cdef DetailForm[NSQ_KINDS] NSQ_DETAIL_FORM
cdef DetailForm NSQ_ANSWER_FORM


cdef int fill_nsq_detail() except -1:
    cdef int i
    cdef dict fields = {field.name: i for i, field in enumerate(NSQ_STRUCT_FIELDS) if NSQ_JSON_NAME[i].size}
    fields |= {
        "topic": NSQ_DETAIL_TOPIC, "channel": NSQ_DETAIL_CHANNEL, "size": NSQ_DETAIL_SIZE,
        "message_count": NSQ_DETAIL_MESSAGE_COUNT, "timeout_ms": NSQ_DETAIL_NUMBER, "count": NSQ_DETAIL_NUMBER,
        "message_id": NSQ_DETAIL_MESSAGE_ID, "attempts": NSQ_DETAIL_ATTEMPTS, "response": NSQ_DETAIL_RESPONSE,
        "error_code": NSQ_DETAIL_ERROR_CODE, "error_text": NSQ_DETAIL_ERROR_TEXT, "fatal": NSQ_DETAIL_FATAL,
        "frame_type": NSQ_DETAIL_FRAME_TYPE, "command": NSQ_DETAIL_COMMAND, "client_id": NSQ_DETAIL_CLIENT_ID,
    }
    for i in range(<int>NSQ_KINDS):
        detail_form(NSQ_DETAIL_ROWS[nsq_kind_name[i].decode("ascii")], fields, &NSQ_DETAIL_FORM[i])
    detail_form(NSQ_ANSWER_ROW, fields, &NSQ_ANSWER_FORM)
    return 0


fill_nsq_detail()


cdef void nsq_line_member(DetailLine* l, const DetailField* f, const NsqMember* m) noexcept nogil:
    cdef uint8_t[NSQ_TEXT_MAX] scratch
    cdef Span shown
    if m.type == NSQ_JSON_STRING:
        nsq_json_string_to(&m.value, scratch, &shown)
        line_text(l, f, &shown)
    elif m.type == NSQ_JSON_INTEGER:
        line_signed(l, f, m.number)
    elif m.type != NSQ_JSON_NONE:
        line_flag(l, f, m.type == NSQ_JSON_TRUE)


cdef void nsq_line_error(DetailLine* l, const DetailField* f, const NsqUnitView* u) noexcept nogil:
    """The first word of an error, or the text after it."""
    cdef const uint8_t* space = <const uint8_t*>memchr(u.body.at, 0x20, u.body.size)
    cdef Span word = u.body
    if f.what == NSQ_DETAIL_ERROR_TEXT:
        if space == NULL:
            return
        word = span_of(space + 1, <size_t>(u.body.at + u.body.size - space - 1))
    elif space != NULL:
        word = span_of(u.body.at, <size_t>(space - u.body.at))
    line_prose(l, f, &word)


cdef void nsq_line_topic(DetailLine* l, const DetailField* f, const NsqUnitView* u, const NsqFlow* flow) noexcept nogil:
    """The topic or channel of the command, or of the connection's subscription."""
    cdef const Text* known = &flow.topic if f.what == NSQ_DETAIL_TOPIC else &flow.channel
    cdef Span name = u.topic if f.what == NSQ_DETAIL_TOPIC else u.channel
    if name.at == NULL and known.size:
        name = span_of(known.at, <size_t>known.size)
    line_text(l, f, &name)


cdef void nsq_line_field(DetailLine* l, const DetailField* f, const NsqUnitView* u, const NsqFlow* flow) noexcept nogil:
    """A field that is not a member of a JSON object."""
    cdef int error
    if f.what == NSQ_DETAIL_TOPIC or f.what == NSQ_DETAIL_CHANNEL:
        nsq_line_topic(l, f, u, flow)
    elif f.what == NSQ_DETAIL_SIZE:
        line_signed(l, f, nsq_payload_size(u) if u.kind == NSQ_MPUB else <int64_t>u.body.size)
    elif f.what == NSQ_DETAIL_MESSAGE_COUNT:
        line_number(l, f, False, u.message_count)
    elif f.what == NSQ_DETAIL_NUMBER:
        if u.has_number:
            line_number(l, f, False, u.number)
    elif f.what == NSQ_DETAIL_MESSAGE_ID:
        line_binary(l, f, &u.message_id)
    elif f.what == NSQ_DETAIL_ATTEMPTS:
        line_number(l, f, False, u.attempts)
    elif f.what == NSQ_DETAIL_RESPONSE:
        line_prose(l, f, &u.body)
    elif f.what == NSQ_DETAIL_ERROR_CODE or f.what == NSQ_DETAIL_ERROR_TEXT:
        nsq_line_error(l, f, u)
    elif f.what == NSQ_DETAIL_FATAL:
        error = nsq_error_row(&u.body)
        line_flag(l, f, error >= 0 and nsq_errors[error].fatal)
    elif f.what == NSQ_DETAIL_FRAME_TYPE:
        line_signed(l, f, u.frame_type)
    elif f.what == NSQ_DETAIL_COMMAND:
        line_text(l, f, &u.name)


cdef void nsq_put_detail(MessageTable t, int64_t row, const NsqUnitView* u, const NsqFlow* flow) noexcept nogil:
    cdef NsqMember[NSQ_FIELDS] found
    cdef NsqMember client
    cdef bint answer = u.kind == NSQ_RESPONSE and u.body.size and u.body.at[0] == c"{"
    cdef const DetailForm* form = &NSQ_ANSWER_FORM if answer else &NSQ_DETAIL_FORM[u.kind]
    cdef const DetailField* f
    cdef DetailLine l
    cdef int i
    memset(found, 0, sizeof(found))
    client.type = NSQ_JSON_NONE
    if (answer or u.kind == NSQ_IDENTIFY) and not nsq_find_members(&u.body, found, &client):
        memset(found, 0, sizeof(found))     # as in the column
    line_begin(&l)
    for i in range(form.first, form.first + form.count):
        f = &DETAIL_FIELD[i]
        if f.what == NSQ_DETAIL_CLIENT_ID:
            nsq_line_member(&l, f, &client)
        elif f.what < NSQ_DETAIL_TOPIC:
            nsq_line_member(&l, f, &found[f.what])
        else:
            nsq_line_field(&l, f, u, flow)
    put_line(t, row, &l)
