# RocketMQ commands and stored messages -> the column `detail`. detail.py lists the fields and their
# order.
from wirefmt.rocketmq.detail import (
    OTHER_REQUEST as ROCKETMQ_OTHER_REQUEST_ROW, OTHER_RESPONSE as ROCKETMQ_OTHER_RESPONSE_ROW,
    REQUEST as ROCKETMQ_REQUEST_ROWS, RESPONSE as ROCKETMQ_RESPONSE_ROWS,
    STORED as ROCKETMQ_STORED_ROW,
)
from wirefmt.rocketmq.spec import (
    RESPONSE_CODES as ROCKETMQ_RESPONSE_NAMES, TRANSACTION_STATES as ROCKETMQ_STATE_NAMES,
)


cdef enum RocketmqDetail:           # fields that are not just the entry of extFields with their name
    ROCKETMQ_DETAIL_RESPONSE = 0
    ROCKETMQ_DETAIL_REMARK
    ROCKETMQ_DETAIL_SIZE
    ROCKETMQ_DETAIL_MESSAGES
    ROCKETMQ_DETAIL_CLIENT_ID
    ROCKETMQ_DETAIL_TOPIC
    ROCKETMQ_DETAIL_GROUP
    ROCKETMQ_DETAIL_PRODUCER_GROUP
    ROCKETMQ_DETAIL_QUEUE_ID
    ROCKETMQ_DETAIL_QUEUE_OFFSET
    ROCKETMQ_DETAIL_RECONSUME_TIMES
    ROCKETMQ_DETAIL_STATE           # commitOrRollback
    ROCKETMQ_DETAIL_PROPERTY = 50   # + row of ROCKETMQ_DETAIL_PROPERTY_NAME
    ROCKETMQ_DETAIL_ENTRY = 100     # + row of ROCKETMQ_DETAIL_NAME: an entry of extFields


cdef enum:
    ROCKETMQ_DETAIL_NAMES = 160     # at least the number of names in detail.py
    ROCKETMQ_DETAIL_PROPERTIES = 4
    ROCKETMQ_DETAIL_MOST = 32       # fields of one form
    ROCKETMQ_RESPONSES = 96         # at least the number of names


cdef struct RocketmqDetailOf:       # the source of the line
    const RocketmqFrameView* m
    const RocketmqFields* fields
    const RocketmqText* topic       # ... and four more, as the header has them
    const RocketmqText* group
    const RocketmqText* producer_group
    const RocketmqText* queue_id
    const RocketmqText* reconsume_times
    Span asked_topic, asked_group   # of a response: the request's; absent if unknown
    Span client_id
    Span properties                 # of the message, valid UTF-8; absent: none
    const RocketmqMessageView* stored  # the message of the row; NULL: the row is the command
    int place                       # of the request's code in rocketmq_requests; -1: unknown
    bint response
    int messages                    # in the body
    RocketmqScratch* scratch


cdef struct RocketmqCodeName:
    int code
    Text name


cdef DetailForm[ROCKETMQ_REQUESTS] ROCKETMQ_REQUEST_FORM
cdef DetailForm[ROCKETMQ_REQUESTS] ROCKETMQ_RESPONSE_FORM
cdef DetailForm ROCKETMQ_OTHER_REQUEST_FORM
cdef DetailForm ROCKETMQ_OTHER_RESPONSE_FORM
cdef DetailForm ROCKETMQ_STORED_FORM
cdef Text[ROCKETMQ_DETAIL_NAMES] ROCKETMQ_DETAIL_NAME
cdef Text[ROCKETMQ_DETAIL_PROPERTY] ROCKETMQ_SPECIAL_NAME      # by RocketmqDetail: the entry of extFields; size 0: none
cdef Text[ROCKETMQ_DETAIL_PROPERTIES] ROCKETMQ_DETAIL_PROPERTY_NAME
cdef RocketmqCodeName[ROCKETMQ_RESPONSES] ROCKETMQ_RESPONSE_NAME
cdef RocketmqCodeName[3] ROCKETMQ_STATE_NAME


cdef int rocketmq_detail_form(str words, dict fields, DetailForm* form) except -1:
    """The form of a row; an unknown name in `fields` is an entry of extFields."""
    cdef int names = fields[""]
    for word in words.split():
        name = word.rstrip("?!").rpartition("=")[2]
        if name not in fields:
            if names >= ROCKETMQ_DETAIL_NAMES:
                raise IndexError("ROCKETMQ_DETAIL_NAMES is too small")
            ROCKETMQ_DETAIL_NAME[names] = pad_text(name.encode())
            fields[name] = ROCKETMQ_DETAIL_ENTRY + names
            names += 1
    fields[""] = names
    if len(words.split()) > ROCKETMQ_DETAIL_MOST:
        raise IndexError("ROCKETMQ_DETAIL_MOST is too small")
    return detail_form(words, fields, form)


cdef int fill_rocketmq_detail() except -1:
    cdef int i
    cdef dict fields = {
        "": 0, "response": ROCKETMQ_DETAIL_RESPONSE, "remark": ROCKETMQ_DETAIL_REMARK, "size": ROCKETMQ_DETAIL_SIZE,
        "messages": ROCKETMQ_DETAIL_MESSAGES, "clientID": ROCKETMQ_DETAIL_CLIENT_ID, "topic": ROCKETMQ_DETAIL_TOPIC,
        "consumerGroup": ROCKETMQ_DETAIL_GROUP, "group": ROCKETMQ_DETAIL_GROUP,
        "producerGroup": ROCKETMQ_DETAIL_PRODUCER_GROUP, "queueId": ROCKETMQ_DETAIL_QUEUE_ID,
        "queueOffset": ROCKETMQ_DETAIL_QUEUE_OFFSET, "reconsumeTimes": ROCKETMQ_DETAIL_RECONSUME_TIMES,
        "commitOrRollback": ROCKETMQ_DETAIL_STATE,
    }
    for name in ("clientID", "commitOrRollback", "queueOffset"):
        ROCKETMQ_SPECIAL_NAME[<int>fields[name]] = pad_text(name.encode())
    for i, name in enumerate(("TAGS", "KEYS", "UNIQ_KEY", "DELAY")):
        ROCKETMQ_DETAIL_PROPERTY_NAME[i] = pad_text(name.encode())
        fields[name] = ROCKETMQ_DETAIL_PROPERTY + i
    rocketmq_detail_form(ROCKETMQ_STORED_ROW, fields, &ROCKETMQ_STORED_FORM)
    rocketmq_detail_form(ROCKETMQ_OTHER_REQUEST_ROW, fields, &ROCKETMQ_OTHER_REQUEST_FORM)
    rocketmq_detail_form(ROCKETMQ_OTHER_RESPONSE_ROW, fields, &ROCKETMQ_OTHER_RESPONSE_FORM)
    for i in range(ROCKETMQ_REQUESTS):
        name = rocketmq_requests[i].name.decode("ascii")
        rocketmq_detail_form(ROCKETMQ_REQUEST_ROWS[name], fields, &ROCKETMQ_REQUEST_FORM[i])
        rocketmq_detail_form(ROCKETMQ_RESPONSE_ROWS[name], fields, &ROCKETMQ_RESPONSE_FORM[i])
    if len(ROCKETMQ_RESPONSE_NAMES) > ROCKETMQ_RESPONSES:
        raise IndexError("ROCKETMQ_RESPONSES is too small")
    for i, (code, name) in enumerate(ROCKETMQ_RESPONSE_NAMES.items()):
        ROCKETMQ_RESPONSE_NAME[i].code = code
        ROCKETMQ_RESPONSE_NAME[i].name = pad_text(name.encode())
    for i, (code, name) in enumerate(ROCKETMQ_STATE_NAMES.items()):
        ROCKETMQ_STATE_NAME[i].code = code
        ROCKETMQ_STATE_NAME[i].name = pad_text(name.encode())
    return 0


fill_rocketmq_detail()


cdef const Text* rocketmq_name_of(const RocketmqCodeName* names, int count, int code) noexcept nogil:
    """NULL: a code without a name."""
    cdef int i
    for i in range(count):
        if names[i].name.size and names[i].code == code:
            return &names[i].name
    return NULL


cdef void rocketmq_line_code(DetailLine* l, const DetailField* f, int code) noexcept nogil:
    """A response code by name, with its number if it is not a success."""
    cdef const Text* name = rocketmq_name_of(ROCKETMQ_RESPONSE_NAME, ROCKETMQ_RESPONSES, code)
    if name == NULL:
        line_signed(l, f, code)
        return
    line_name(l, f, name)
    if code:
        line_words(l, b" (")
        line_digits(l, code < 0, <uint64_t>-<int64_t>code if code < 0 else <uint64_t>code)
        line_piece(l, b")", 1)


cdef void rocketmq_line_text(DetailLine* l, const DetailField* f, const RocketmqText* text, RocketmqScratch* scratch,
                             bint prose) noexcept nogil:
    """A text of the header. The number 0 counts as zero for a field that is omitted then."""
    cdef Span plain
    if text.form == ROCKETMQ_NULL or not rocketmq_plain(text, scratch, &plain):
        return
    if f.some and plain.size == 1 and plain.at[0] == c"0":
        return
    if prose:
        line_prose(l, f, &plain)
    else:
        line_text(l, f, &plain)


cdef void rocketmq_line_state(DetailLine* l, const DetailField* f, const RocketmqText* text,
                              RocketmqScratch* scratch) noexcept nogil:
    """commitOrRollback by name."""
    cdef const Text* name = NULL
    if text.form == ROCKETMQ_OCTETS and text.size == 1:
        name = rocketmq_name_of(ROCKETMQ_STATE_NAME, 3, text.at[0] - c"0")
    elif rocketmq_is(text, b"12", 2):
        name = rocketmq_name_of(ROCKETMQ_STATE_NAME, 3, 12)
    if name != NULL:
        line_name(l, f, name)
    else:
        rocketmq_line_text(l, f, text, scratch, False)


cdef void rocketmq_line_known(DetailLine* l, const DetailField* f, const RocketmqText* text, const Span* known,
                              const RocketmqDetailOf* x) noexcept nogil:
    """The value in the header, otherwise the value in the request."""
    if text.form != ROCKETMQ_NULL:
        rocketmq_line_text(l, f, text, x.scratch, False)
    else:
        line_text(l, f, known)


cdef void rocketmq_line_property(DetailLine* l, const DetailField* f, const RocketmqDetailOf* x) noexcept nogil:
    """The first property of a name."""
    cdef const Text* wanted = &ROCKETMQ_DETAIL_PROPERTY_NAME[f.what - ROCKETMQ_DETAIL_PROPERTY]
    cdef const uint8_t* p = x.properties.at
    cdef const uint8_t* end = p + x.properties.size
    cdef Span name, value
    while p != NULL:
        p = rocketmq_next_property(p, end, &name, &value)
        if p != NULL and name.size == <uint32_t>wanted.size and memcmp(name.at, wanted.at, name.size) == 0:
            line_text(l, f, &value)
            return


cdef void rocketmq_line_stored(DetailLine* l, const DetailField* f, const RocketmqDetailOf* x) noexcept nogil:
    """A field of a stored message."""
    cdef RocketmqText topic
    if f.what == ROCKETMQ_DETAIL_TOPIC:
        topic.at = x.stored.topic.at
        topic.size = x.stored.topic.size
        topic.form = ROCKETMQ_OCTETS
        rocketmq_line_text(l, f, &topic, x.scratch, False)
    elif f.what == ROCKETMQ_DETAIL_QUEUE_ID:
        line_signed(l, f, x.stored.queue_id)
    elif f.what == ROCKETMQ_DETAIL_QUEUE_OFFSET:
        line_signed(l, f, x.stored.queue_offset)
    elif f.what == ROCKETMQ_DETAIL_RECONSUME_TIMES:
        line_signed(l, f, x.stored.reconsume_times)
    elif f.what == ROCKETMQ_DETAIL_SIZE:
        line_number(l, f, False, x.stored.body.size)
    elif f.what == ROCKETMQ_DETAIL_GROUP:
        rocketmq_line_known(l, f, x.group, &x.asked_group, x)
    elif ROCKETMQ_DETAIL_PROPERTY <= f.what < ROCKETMQ_DETAIL_ENTRY:
        rocketmq_line_property(l, f, x)


cdef void rocketmq_line_field(DetailLine* l, const DetailField* f, const RocketmqDetailOf* x,
                              const RocketmqText* entry) noexcept nogil:
    """A field of a command. `entry`: the entry of extFields with the field's name."""
    if f.what == ROCKETMQ_DETAIL_RESPONSE:
        rocketmq_line_code(l, f, x.m.code)
    elif f.what == ROCKETMQ_DETAIL_REMARK:
        if x.m.remark.size:
            rocketmq_line_text(l, f, &x.m.remark, x.scratch, True)
    elif f.what == ROCKETMQ_DETAIL_SIZE:
        line_number(l, f, False, x.m.body.size)
    elif f.what == ROCKETMQ_DETAIL_MESSAGES:
        line_signed(l, f, x.messages)
    elif f.what == ROCKETMQ_DETAIL_CLIENT_ID:
        rocketmq_line_known(l, f, entry, &x.client_id, x)
    elif f.what == ROCKETMQ_DETAIL_TOPIC:
        rocketmq_line_known(l, f, x.topic, &x.asked_topic, x)
    elif f.what == ROCKETMQ_DETAIL_GROUP:
        rocketmq_line_known(l, f, x.group, &x.asked_group, x)
    elif f.what == ROCKETMQ_DETAIL_PRODUCER_GROUP:
        rocketmq_line_text(l, f, x.producer_group, x.scratch, False)
    elif f.what == ROCKETMQ_DETAIL_QUEUE_ID:
        rocketmq_line_text(l, f, x.queue_id, x.scratch, False)
    elif f.what == ROCKETMQ_DETAIL_RECONSUME_TIMES:
        rocketmq_line_text(l, f, x.reconsume_times, x.scratch, False)
    elif f.what == ROCKETMQ_DETAIL_STATE:
        rocketmq_line_state(l, f, entry, x.scratch)
    elif ROCKETMQ_DETAIL_PROPERTY <= f.what < ROCKETMQ_DETAIL_ENTRY:
        rocketmq_line_property(l, f, x)
    else:
        rocketmq_line_text(l, f, entry, x.scratch, False)


cdef const Text* rocketmq_entry_name(const DetailField* f) noexcept nogil:
    """The entry of extFields for a field of a command; NULL: none."""
    if f.what >= ROCKETMQ_DETAIL_ENTRY:
        return &ROCKETMQ_DETAIL_NAME[f.what - ROCKETMQ_DETAIL_ENTRY]
    if f.what < ROCKETMQ_DETAIL_PROPERTY and ROCKETMQ_SPECIAL_NAME[f.what].size:
        return &ROCKETMQ_SPECIAL_NAME[f.what]
    return NULL


cdef void rocketmq_entries(const RocketmqDetailOf* x, const DetailForm* form, RocketmqText* entries) noexcept nogil:
    """The entries of extFields that the form names, by position in the form."""
    cdef RocketmqWalk walk
    cdef const Text* name
    cdef int i
    memset(entries, 0, ROCKETMQ_DETAIL_MOST * sizeof(RocketmqText))
    rocketmq_walk(&walk, x.m, x.fields)
    while rocketmq_step(&walk):
        for i in range(form.count):
            name = rocketmq_entry_name(&DETAIL_FIELD[form.first + i])
            if name != NULL and rocketmq_is(walk.key, <const char*>name.at, <uint32_t>name.size):
                entries[i] = walk.value[0]


cdef void rocketmq_put_detail(MessageTable t, int64_t row, const RocketmqDetailOf* x) noexcept nogil:
    cdef RocketmqText[ROCKETMQ_DETAIL_MOST] entries
    cdef const DetailForm* form
    cdef DetailLine l
    cdef int i
    line_begin(&l)
    if x.stored != NULL:
        for i in range(ROCKETMQ_STORED_FORM.first, ROCKETMQ_STORED_FORM.first + ROCKETMQ_STORED_FORM.count):
            rocketmq_line_stored(&l, &DETAIL_FIELD[i], x)
        put_line(t, row, &l)
        return
    if x.place < 0:
        form = &ROCKETMQ_OTHER_RESPONSE_FORM if x.response else &ROCKETMQ_OTHER_REQUEST_FORM
    else:
        form = &ROCKETMQ_RESPONSE_FORM[x.place] if x.response else &ROCKETMQ_REQUEST_FORM[x.place]
    rocketmq_entries(x, form, entries)
    for i in range(form.count):
        rocketmq_line_field(&l, &DETAIL_FIELD[form.first + i], x, &entries[i])
    put_line(t, row, &l)
