# PHPMQ messages -> the column `detail`. Which fields a message has, and their order: detail.py.
from wirefmt.phpmq.detail import KINDS as PHPMQ_DETAIL_ROWS


cdef enum PhpmqDetail:
    PHPMQ_DETAIL_TYPE = 1
    PHPMQ_DETAIL_QUEUE_NAME
    PHPMQ_DETAIL_MESSAGE_COUNT
    PHPMQ_DETAIL_SIZE
    PHPMQ_DETAIL_TTL
    PHPMQ_DETAIL_MESSAGE_ID


cdef DetailForm[PHPMQ_MESSAGE_TYPES] PHPMQ_DETAIL_FORM


cdef int fill_phpmq_detail() except -1:
    cdef int i
    cdef dict fields = {
        "type": PHPMQ_DETAIL_TYPE, "queue_name": PHPMQ_DETAIL_QUEUE_NAME, "message_count": PHPMQ_DETAIL_MESSAGE_COUNT,
        "size": PHPMQ_DETAIL_SIZE, "ttl": PHPMQ_DETAIL_TTL, "message_id": PHPMQ_DETAIL_MESSAGE_ID,
    }
    for i in range(<int>PHPMQ_MESSAGE_TYPES):
        detail_form(PHPMQ_DETAIL_ROWS[phpmq_message_name[i].decode("ascii")], fields, &PHPMQ_DETAIL_FORM[i])
    return 0


fill_phpmq_detail()


cdef void phpmq_line_field(DetailLine* l, const DetailField* f, const PhpmqMessageView* m) noexcept nogil:
    cdef const Span* content = &m.content[<int>PHPMQ_PACKET_CONTENT]
    if f.what == PHPMQ_DETAIL_TYPE:
        line_signed(l, f, m.type)
    elif f.what == PHPMQ_DETAIL_QUEUE_NAME:
        line_text(l, f, &m.content[<int>PHPMQ_PACKET_QUEUE_NAME])
    elif f.what == PHPMQ_DETAIL_MESSAGE_ID:
        line_text(l, f, &m.content[<int>PHPMQ_PACKET_MESSAGE_ID])
    elif f.what == PHPMQ_DETAIL_MESSAGE_COUNT:
        if m.has_count:
            line_signed(l, f, m.message_count)
    elif f.what == PHPMQ_DETAIL_TTL:
        if m.has_ttl:
            line_signed(l, f, m.ttl)
    elif content.at != NULL:
        line_number(l, f, False, content.size)


cdef void phpmq_put_detail(MessageTable t, int64_t row, const PhpmqMessageView* m) noexcept nogil:
    cdef const DetailForm* form = &PHPMQ_DETAIL_FORM[phpmq_row_of(m)]
    cdef DetailLine l
    cdef int i
    line_begin(&l)
    for i in range(form.first, form.first + form.count):
        phpmq_line_field(&l, &DETAIL_FIELD[i], m)
    put_line(t, row, &l)
