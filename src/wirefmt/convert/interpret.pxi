# Conversions between protocols: the interpreter of rules. Two protocols meet only in the convert rooms.
#
# A reader (read.pxi) walks a message of the source's protocol and passes each field to convert_take. convert_take finds the
# first row whose condition holds and stores the converted value in a slot, a list or the body of the Converter.
# A writer (write.pxi) encodes these in the target's protocol. No reader knows a target, no writer a
# source: six directions are three readers, three writers and tables.
#
# Values are spans of the message, or of memory that the Converter keeps until it is closed. No Python object is made.


# ------------------------------------------------------------------------------------------------ rows

cdef int convert_take(Converter* x, int field, ConvertValue* v) noexcept nogil:
    """Convert a field of the source by the first row whose condition holds. OK, or CONVERT_REFUSED."""
    cdef const ConvertRow* row
    cdef uint16_t i = x.pair.first[field][v.type]
    cdef int done
    x.field = <uint8_t>field
    while i:
        row = &x.rows[i]
        i = row.next
        if row.key != NULL and not convert_key_fits(row, v):
            continue
        if row.when != WHEN_ANY and not convert_when(x, row, v):
            continue
        if row.how == HOW_DROPPED:
            if v.type != CONVERT_ABSENT:
                convert_note(x, row, field, v, CONVERT_DROPPED, REASON_ROW)
            return OK
        if row.how == HOW_REFUSED:
            x.number = row.number
            return CONVERT_REFUSED
        x.narrowed = REASON_NONE
        x.reason = REASON_NO_TEXT
        x.culprit = NULL
        x.latest = NULL
        done = convert_apply(x, row, field, v)
        if done == DONE_NEXT:
            continue
        if done == DONE_REFUSED:
            x.number = row.number
            return CONVERT_REFUSED
        if done == DONE_NO:
            if x.culprit != NULL or x.reason == REASON_NO_ROW:
                row = x.culprit                 # rows by the value's type, not by the field
            convert_note(x, row, field, v, CONVERT_DROPPED, x.reason)
        elif x.narrowed:
            convert_report(x, row, v, CONVERT_NARROWED, x.narrowed)
        elif row.moved:
            convert_report(x, row, v, CONVERT_MOVED, REASON_ROW)
        elif x.explain:
            convert_report(x, row, v, CONVERT_TAKEN, REASON_ROW)
        return OK
    if v.type != CONVERT_ABSENT:
        convert_note(x, NULL, field, v, CONVERT_DROPPED, REASON_NO_ROW)
    return OK


cdef int convert_admit(Converter* x, int field, ConvertValue* v) noexcept nogil:
    """OK, or CONVERT_REFUSED: a row refuses this value on publishing, so also for a consumer of the same protocol."""
    cdef const ConvertRow* row
    cdef uint16_t i = x.publishing.first[field][v.type]
    while i:
        row = &x.rows[i]
        if row.how == HOW_REFUSED and (row.when == WHEN_ANY or convert_when(x, row, v)):
            x.number = row.number
            return CONVERT_REFUSED
        i = row.next
    return OK


# ------------------------------------------------------------------------------------------------ what rows do

cdef int convert_apply(Converter* x, const ConvertRow* row, int field, ConvertValue* v) noexcept nogil:
    cdef int how = row.how
    cdef uint64_t n = v.number
    cdef Span s = v.octets
    if how == HOW_SAME:
        return convert_put(x, row, v, s, n)
    if how == HOW_BY_TYPE or how == HOW_TEXT:
        return convert_put_item(x, row, v)
    if how == HOW_TRUE_2_FALSE_1 or how == HOW_NOT_0_IS_2:
        if n > 1:
            x.narrowed = REASON_VALUE           # QoS 2
        return convert_put(x, row, v, s, 2 if n else 1)
    if how == HOW_TRUE_1_FALSE_0 or how == HOW_NOT_0_IS_TRUE:
        if n > 1:
            x.narrowed = REASON_VALUE
        return convert_put(x, row, v, s, n != 0)
    if how == HOW_TWO_IS_TRUE or how == HOW_TWO_IS_1:
        if n != 1 and n != 2:
            x.narrowed = REASON_VALUE           # delivery_mode is 1 or 2
        return convert_put(x, row, v, s, n == 2)
    if how == HOW_FALSE or how == HOW_ONE:
        return convert_put(x, row, v, s, how == HOW_ONE)
    if HOW_NUMBER <= how <= HOW_MS_TEXT_TO_S:
        return convert_apply_number(x, row, v)
    if how >= HOW_JOINED:
        return convert_apply_body(x, row, field, v)
    return convert_apply_text(x, row, v)


cdef int convert_apply_number(Converter* x, const ConvertRow* row, ConvertValue* v) noexcept nogil:
    """Times, and numbers as text."""
    cdef uint64_t n = v.number
    cdef int64_t ms
    cdef Span s = v.octets
    cdef int how = row.how
    if how == HOW_MS_TO_S:
        ms = <int64_t>n
        if ms <= -1000:
            x.narrowed = REASON_WRAPS           # AMQP 0.9.1 has no earlier time
        elif ms % 1000:
            x.narrowed = REASON_ROUNDS
        return convert_put(x, row, v, s, <uint64_t>(ms / 1000))
    if how == HOW_S_TO_MS or how == HOW_S_TO_MS_TEXT:
        n = convert_ms(x, n)
        if how == HOW_S_TO_MS and row.type == AMQP10_UINT and n > 0xFFFFFFFFU:
            x.narrowed = REASON_WRAPS
            n = 0xFFFFFFFFU
    elif how == HOW_NUMBER or how == HOW_MS_TEXT_TO_S:
        if not convert_number(&s, &n):
            x.reason = REASON_INVALID
            return DONE_NO
        if how == HOW_MS_TEXT_TO_S:
            if n % 1000:
                x.narrowed = REASON_ROUNDS
            n /= 1000
        if n > 0xFFFFFFFFU:
            x.narrowed = REASON_WRAPS           # the writer uses the low bits
    if how == HOW_DECIMAL or how == HOW_S_TO_MS_TEXT:
        s = convert_decimal(x, n)
    return convert_put(x, row, v, s, n)


cdef int convert_apply_text(Converter* x, const ConvertRow* row, ConvertValue* v) noexcept nogil:
    """Identifiers, addresses and topics."""
    cdef Span s = v.octets
    cdef uint8_t* at
    cdef size_t bad = 0
    cdef int how = row.how
    if how == HOW_URN_UUID or how == HOW_UUID:
        at = convert_reserve(x, 45)
        if at == NULL:
            return DONE_NO
        if how == HOW_UUID:
            if row.when == WHEN_URN_UUID_LOOSE and not convert_urn(&s, NULL, True):
                x.narrowed = REASON_UUID
            convert_urn(&s, at, False)
            s.size = 16
        else:
            memcpy(at, b"urn:uuid:", 9)
            write_uuid(s.at, at + 9)
            s.size = 45
        s.at = at
    elif how == HOW_QUEUE_NAME:
        s.at += 8
        s.size -= 8
        if not convert_percent_decoded(x, &s):
            return DONE_NO
    elif (how == HOW_QUEUE_ADDRESS or how == HOW_TOPIC_ADDRESS) and not (x.plain_addresses or is_utf8(s.at, s.size, &bad)):
        return DONE_REFUSED                     # only UTF-8 can be percent-encoded
    elif how == HOW_QUEUE_ADDRESS:
        s = convert_percent_encoded(x, b"/queues/", 8, NULL, s)
    elif how == HOW_TOPIC_ADDRESS:
        s = convert_percent_encoded(x, b"/exchanges/", 11, &x.mqtt_exchange, convert_topic(x, s, False))
    elif how == HOW_OLD_TOPIC_ADDRESS:
        s = convert_old_address(x, s)
    elif how == HOW_ADDRESS_TOPIC or how == HOW_OLD_ADDRESS_TOPIC:
        s.at = convert_key_of_address(x, &v.octets, how == HOW_OLD_ADDRESS_TOPIC)
        s.size = <uint32_t>(v.octets.at + v.octets.size - s.at)
        if how == HOW_ADDRESS_TOPIC and not convert_percent_decoded(x, &s):
            return DONE_NO
        s = convert_topic(x, s, True)
    else:
        s = convert_topic(x, s, how == HOW_TOPIC)
    return convert_put(x, row, v, s, v.number)


# ---- addresses and topics

cdef inline bint convert_unreserved(uint8_t c) noexcept nogil:
    """RFC 3986, 2.3."""
    return c"a" <= c <= c"z" or c"A" <= c <= c"Z" or c"0" <= c <= c"9" or c == c"-" or c == c"." or c == c"_" or c == c"~"


cdef inline uint8_t convert_routing_octet(uint8_t c) noexcept nogil:
    """MQTT topic to routing key."""
    return c"." if c == c"/" else c"*" if c == c"+" else c


cdef inline uint8_t convert_topic_octet(uint8_t c) noexcept nogil:
    """Routing key to MQTT topic."""
    return c"/" if c == c"." else c"+" if c == c"*" else c


cdef Span convert_topic(Converter* x, Span s, bint topic) noexcept nogil:
    """Translate a routing key to a topic if `topic`, otherwise a topic to a routing key."""
    cdef uint8_t* at
    cdef uint8_t* start
    cdef uint32_t i, version = 0
    cdef uint8_t octet
    if x.topics == TOPICS_UNCHANGED:
        return s
    at = start = convert_reserve(x, <size_t>s.size + 2)
    if at == NULL:
        s.size = 0
        return s
    if x.topics == TOPICS_SPARKPLUG:
        version = convert_sparkplug(&s, topic)
    i = 0
    while i < s.size:
        if version and i == version:
            memcpy(at, b"." if topic else b"___", 1 if topic else 3)
            at += 1 if topic else 3
            i += 3 if topic else 1
            continue
        octet = s.at[i]
        at[0] = convert_topic_octet(octet) if topic else convert_routing_octet(octet)
        if at[0] == octet and (octet == c"/" or octet == c"+" if topic else octet == c"." or octet == c"*"):
            x.narrowed = REASON_TOPIC           # the reverse conversion could not distinguish it from translated characters
        at += 1
        i += 1
    s.at = start
    s.size = <uint32_t>(at - start)
    return s


cdef uint32_t convert_sparkplug(const Span* s, bint key) noexcept nogil:
    """Position of the version's dot in spAv1.0/ or spBv1.0/, or in RabbitMQ's form of it, spAv1___0. , if it is a `key`; 0:
    another beginning."""
    cdef uint32_t i = 4, at, size = 3 if key else 1
    if s.size < 5 or memcmp(s.at, b"sp", 2) != 0 or (s.at[2] != c"A" and s.at[2] != c"B") or s.at[3] != c"v":
        return 0
    while i < s.size and c"0" <= s.at[i] <= c"9":
        i += 1
    at = i
    if i == 4 or s.size - i < size or memcmp(s.at + i, b"___" if key else b".", size) != 0:
        return 0
    i += size
    while i < s.size and c"0" <= s.at[i] <= c"9":
        i += 1
    if i == at + size or i == s.size or s.at[i] != (<uint8_t>c"." if key else <uint8_t>c"/"):
        return 0
    return at


cdef Span convert_percent_encoded(Converter* x, const char* before, size_t size, const Span* exchange,
                                  Span s) noexcept nogil:
    """`before`, the exchange and a slash if there is one, and all but unreserved characters as %XX."""
    cdef const char* digits = b"0123456789ABCDEF"
    cdef size_t between = <size_t>exchange.size + 1 if exchange != NULL else 0
    cdef uint8_t* at = convert_reserve(x, size + between + <size_t>s.size * 3)
    cdef uint8_t* start = at
    cdef uint32_t i
    cdef uint8_t c
    if at == NULL:
        s.size = 0
        return s
    memcpy(at, before, size)
    at += size
    if exchange != NULL:
        memcpy(at, exchange.at, exchange.size)
        at[exchange.size] = c"/"
        at += between
    for i in range(s.size):
        c = s.at[i]
        if x.plain_addresses or convert_unreserved(c):
            at[0] = c
            at += 1
        else:
            at[0] = c"%"
            at[1] = <uint8_t>digits[c >> 4]
            at[2] = <uint8_t>digits[c & 15]
            at += 3
    s.at = start
    s.size = <uint32_t>(at - start)
    return s


cdef Span convert_old_address(Converter* x, Span topic) noexcept nogil:
    """/exchange/:exchange/:key, without percent-encoding."""
    cdef Span key = convert_topic(x, topic, False)
    cdef uint32_t between = x.mqtt_exchange.size
    cdef uint8_t* at = convert_reserve(x, <size_t>11 + between + key.size)
    if at == NULL:
        key.size = 0
        return key
    memcpy(at, b"/exchange/", 10)
    memcpy(at + 10, x.mqtt_exchange.at, between)
    at[10 + between] = c"/"
    memcpy(at + 11 + between, key.at, key.size)
    key.at = at
    key.size += 11 + between
    return key


cdef bint convert_percent_decoded(Converter* x, Span* s) noexcept nogil:
    """Decode %XX; characters other than pchar (RFC 3986, 3.3) are invalid."""
    cdef uint8_t* at
    cdef uint32_t i = 0, n = 0
    cdef uint8_t c
    if x.plain_addresses:
        return True
    x.reason = REASON_PERCENT
    at = convert_reserve(x, s.size)
    if at == NULL:
        return False
    while i < s.size:
        c = s.at[i]
        if c == c"%":
            if s.size - i < 3:
                return False
            if hex2(s.at + i + 1) > 0xFF:
                return False
            c = <uint8_t>hex2(s.at + i + 1)
            i += 2
        elif not convert_unreserved(c) and not (c < 0x80 and c and strchr(b"!$&'()*+,;=:@", c) != NULL):
            return False
        at[n] = c
        n += 1
        i += 1
    s.at = at
    s.size = n
    return True


# ------------------------------------------------------------------------------------------------ bodies

cdef int convert_apply_body(Converter* x, const ConvertRow* row, int field, ConvertValue* v) noexcept nogil:
    cdef int how = row.how
    cdef Span text
    if how == HOW_JOINED:
        return convert_put(x, row, v, convert_joined(x), 0)
    if how == HOW_AMQP_ENCODED:
        convert_mark_encoded(x)
        return convert_put(x, row, v, x.body, 0)
    if how == HOW_AMQP_BODY:
        convert_mark_encoded(x)
        convert_rewrite_sections(x, &x.lists[1], x.rest)       # a list that only AMQP 1.0 has
        text.at = x.lists[1].at
        text.size = <uint32_t>x.lists[1].size
        return convert_put(x, row, v, text, 0)
    if how == HOW_FORMATTED:
        if not convert_text(x, v, &text):
            return DONE_NO
        convert_set(x, C5_PAYLOAD_FORMAT_INDICATOR, C5T_BITS, 1)
        return convert_put(x, row, v, text, 0)
    if how == HOW_SECTION or how == HOW_SECTION_TOO:
        return convert_take_section(x, row, v)
    if how == HOW_SECTIONS:
        return convert_take_sections(x, row, v)
    return convert_put_deaths(x, row, v)    # HOW_DEATHS


cdef int convert_take_section(Converter* x, const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    """Octets that should be one whole section, which replaces the present one; refused if they are not valid AMQP 1.0."""
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef Amqp10Section section
    cdef Fault f
    cdef const uint8_t* at = v.octets.at
    cdef int code = (AMQP10_SECTION_MESSAGE_ANNOTATIONS if row.target == C10_MESSAGE_ANNOTATIONS else
                     AMQP10_SECTION_APPLICATION_PROPERTIES if row.target == C10_APPLICATION_PROPERTIES else
                     AMQP10_SECTION_FOOTER if row.target == C10_FOOTER else AMQP10_SECTION_PROPERTIES)
    memset(&o, 0, sizeof(o))
    if amqp10_parse_message(at, v.octets.size, &o, &m, &f) != OK:
        return DONE_REFUSED
    if x.valid and m.notes.count and m.notes.check != AMQP10_CHECK_BODY_MISSING:
        return DONE_REFUSED                     # faults that only STRICT reports; the body comes from elsewhere
    if v.octets.size == 0 or not amqp10_next_section(&at, at + v.octets.size, &section):
        return DONE_NEXT
    if section.code != code or at != v.octets.at + v.octets.size:
        return DONE_NEXT
    if not convert_section_allowed(x, &section):
        return DONE_REFUSED
    convert_set_section(x, &section, row, v)
    return DONE_NEXT if row.how == HOW_SECTION_TOO else DONE_YES


cdef bint convert_section_allowed(const Converter* x, const Amqp10Section* section) noexcept nogil:
    if x.annotation_keys and not convert_keys_allowed(section):
        return False
    return not x.short_arrays or convert_arrays_readable(section.at)


cdef void convert_set_section(Converter* x, const Amqp10Section* section, const ConvertRow* row,
                              const ConvertValue* v) noexcept nogil:
    """Replace a section, or an earlier replacement of it, by a whole section."""
    cdef int i = section.code - AMQP10_SECTION_FIRST
    cdef Span* s = &x.sections[i]
    if s.at != NULL:
        convert_note_origin(x, &x.section_origins[i], CONVERT_DROPPED, REASON_REPLACED)
    s.at = section.at
    s.size = <uint32_t>(section.end - section.at)
    x.latest = &x.section_origins[i]
    convert_remember(x.latest, row, x.field, v)


cdef int convert_take_sections(Converter* x, const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    """A payload that is AMQP 1.0: its sections replace the present ones. Refused if it is not valid."""
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef Amqp10Section section
    cdef ConvertValue part
    cdef Fault f
    cdef const uint8_t* at = v.octets.at
    cdef const uint8_t* end = v.octets.at + v.octets.size
    memset(&o, 0, sizeof(o))
    memset(&m, 0, sizeof(m))
    if v.octets.size and amqp10_parse_message(at, v.octets.size, &o, &m, &f) != OK:
        return DONE_REFUSED
    x.body_field = 0
    part.type = C91T_BINARY
    convert_plain(&part)
    while at < end:
        part.octets.at = at
        amqp10_next_section(&at, end, &section)
        part.octets.size = <uint32_t>(at - part.octets.at)
        if not convert_section_allowed(x, &section):
            return DONE_REFUSED
        if AMQP10_SECTION_DATA <= section.code <= AMQP10_SECTION_AMQP_VALUE:
            continue
        if section.code == 0 or section.code == AMQP10_SECTION_DELIVERY_ANNOTATIONS:
            convert_note(x, row, x.field, &part, CONVERT_DROPPED, REASON_WITHHELD)
        elif section.code == AMQP10_SECTION_FOOTER and x.sections[AMQP10_SECTION_FOOTER - AMQP10_SECTION_FIRST].at != NULL:
            convert_note(x, row, x.field, &part, CONVERT_DROPPED, REASON_REPLACED)      # by the section of a header
        else:
            convert_set_section(x, &section, row, &part)
    convert_choose_body(x, v.octets.at, end, row, &m)
    x.sections_body = x.rest
    return DONE_YES


cdef void convert_choose_body(Converter* x, const uint8_t* at, const uint8_t* end, const ConvertRow* row,
                              Amqp10MessageView* m) noexcept nogil:
    """Find the body: x.body with everything after it, x.rest without. If RabbitMQ accepts bodies of different kinds, an
    amqp-value replaces the sections before it; a section after it would crash the server."""
    cdef const uint8_t* start
    cdef const uint8_t* next_ = at
    cdef const uint8_t* value = NULL
    cdef Amqp10Section section
    cdef ConvertValue part
    part.type = C91T_BINARY                     # from a payload of AMQP 0.9.1
    convert_plain(&part)
    m.body = 0
    m.body_count = 0
    while amqp10_next_section(&next_, end, &section):
        if section.code == AMQP10_SECTION_AMQP_VALUE:
            value = section.at
    while at < end:
        start = at
        amqp10_next_section(&at, end, &section)
        if section.code < AMQP10_SECTION_DATA or section.code > AMQP10_SECTION_AMQP_VALUE:
            continue
        if value != NULL and section.at != value:
            if x.source == CONVERT_AMQP10:
                convert_leave_section(x, section.code, section.at)
            else:
                part.octets.at = start
                part.octets.size = <uint32_t>(at - start)
                convert_note(x, row, x.field, &part, CONVERT_DROPPED, REASON_REPLACED)
            continue
        if m.body_count == 0:
            x.body.at = x.rest.at = start
            x.body.size = <uint32_t>((at if value != NULL else end) - start)
        x.rest.size = <uint32_t>(at - x.rest.at)
        m.body_count += 1
        if m.body == 0 or section.code == AMQP10_SECTION_AMQP_SEQUENCE:
            m.body = section.code
            m.at[section.code - AMQP10_SECTION_FIRST] = section.at


cdef void convert_leave_section(Converter* x, int code, const uint8_t* at) noexcept nogil:
    """A section of AMQP 1.0 that another section of the message replaces, or that concerns one connection: note each of
    its fields or entries."""
    cdef int reason = REASON_WITHHELD if code == AMQP10_SECTION_DELIVERY_ANNOTATIONS else REASON_REPLACED
    cdef Amqp10Items items
    cdef Amqp10ValueView section, item
    cdef ConvertValue v
    cdef int field
    amqp10_read(at, &section)
    convert_plain(&v)
    convert_of_amqp10(&section, &v)
    field = (C10_DATA if code == AMQP10_SECTION_DATA else C10_AMQP_SEQUENCE if code == AMQP10_SECTION_AMQP_SEQUENCE else
             C10_AMQP_VALUE if code == AMQP10_SECTION_AMQP_VALUE else C10_FOOTER if code == AMQP10_SECTION_FOOTER else
             C10_APPLICATION_PROPERTIES if code == AMQP10_SECTION_APPLICATION_PROPERTIES else
             C10_DELIVERY_ANNOTATIONS if code == AMQP10_SECTION_DELIVERY_ANNOTATIONS else C10_MESSAGE_ANNOTATIONS)
    if AMQP10_SECTION_DATA <= code <= AMQP10_SECTION_AMQP_VALUE:
        convert_note(x, NULL, field, &v, CONVERT_DROPPED, reason)
        return
    items = amqp10_items(&section)
    if section.type == AMQP10_LIST:             # header, properties
        field = C10_DURABLE if code == AMQP10_SECTION_HEADER else C10_MESSAGE_ID
    while amqp10_next(&items, &item):
        if section.type == AMQP10_MAP:
            v.key = convert_key_octets(&item)
            amqp10_next(&items, &item)
        convert_of_amqp10(&item, &v)
        if section.type == AMQP10_MAP or item.type != AMQP10_NULL:
            convert_note(x, NULL, field, &v, CONVERT_DROPPED, reason)
        field += section.type == AMQP10_LIST


cdef void convert_mark_encoded(Converter* x) noexcept nogil:
    """Mark the payload as AMQP 1.0: by the type amqp-1.0, by the content type message/vnd.rabbitmq.amqp."""
    cdef Span s
    if x.target == CONVERT_AMQP091:
        s.at = <const uint8_t*>b"amqp-1.0"
        s.size = 8
        convert_set_text(x, C91_TYPE, C91T_SHORTSTR, s)
    else:
        s.at = <const uint8_t*>b"message/vnd.rabbitmq.amqp"
        s.size = 25
        convert_set_text(x, C5_CONTENT_TYPE, C5T_UTF8, s)


cdef Span convert_joined(Converter* x) noexcept nogil:
    """The contents of all data sections, one after another."""
    cdef const uint8_t* at = x.rest.at
    cdef const uint8_t* end = x.rest.at + x.rest.size
    cdef uint8_t* to = convert_reserve(x, x.rest.size)
    cdef Amqp10Section section
    cdef Amqp10ValueView v
    cdef Span s
    s.at = to
    s.size = 0
    if to == NULL:
        s.at = x.scratch
        return s
    while amqp10_next_section(&at, end, &section):
        if section.code != AMQP10_SECTION_DATA:
            continue
        amqp10_read(section.at, &v)
        memcpy(to + s.size, v.body, v.size)
        s.size += v.size
    return s


# ------------------------------------------------------------------------------------------------ targets

cdef inline int convert_no(Converter* x, int reason) noexcept nogil:
    x.reason = <uint8_t>reason
    return DONE_NO


cdef int convert_put(Converter* x, const ConvertRow* row, const ConvertValue* v, Span s, uint64_t n) noexcept nogil:
    """Put a value into the field that the row names: `s` or `n`, depending on the row's type."""
    cdef int target = row.target
    cdef size_t bad = 0
    if x.failed:
        return convert_no(x, REASON_TOO_LONG)
    if x.target == CONVERT_AMQP10:
        if C10_DATA <= target <= C10_AMQP_VALUE:
            x.body_field = <uint8_t>target
            x.payload = s
            return DONE_YES
        if x.valid and row.type == AMQP10_SYMBOL and not is_ascii(s.at, s.size):
            return convert_no(x, REASON_INVALID)
        if x.valid and row.type == AMQP10_STRING and not is_utf8(s.at, s.size, &bad):
            return convert_no(x, REASON_INVALID)
    elif x.target == CONVERT_AMQP091:
        if target == C91_PAYLOAD:
            x.payload = s
            return DONE_YES
        if target == C91_HEADERS:
            return convert_put_header(x, row, v, s, n)
        if row.type == C91T_SHORTSTR and s.size > 255:
            return convert_no(x, REASON_TOO_LONG)
        if row.type == C91T_OCTET and n > 255:
            x.narrowed = REASON_WRAPS
            n &= 255
    else:
        if target == C5_PAYLOAD:
            x.payload = s
            return DONE_YES
        if s.size > 65535 and (row.type == C5T_UTF8 or row.type == C5T_BINARY):
            return convert_no(x, REASON_TOO_LONG)
        if x.valid and row.type == C5T_UTF8 and not convert_is_text(&s):
            return convert_no(x, REASON_INVALID)
        if x.valid and target == C5_RESPONSE_TOPIC and (s.size == 0 or memchr(s.at, c"#", s.size) != NULL
                                                        or memchr(s.at, c"+", s.size) != NULL):
            return convert_no(x, REASON_INVALID)
    convert_fill(x, target, row.type, s, n, row, v)
    return DONE_YES


cdef int convert_put_header(Converter* x, const ConvertRow* row, const ConvertValue* v, Span s, uint64_t n) noexcept nogil:
    """Put a header of AMQP 0.9.1 whose type the row gives."""
    cdef uint8_t letter = <uint8_t>CONVERT_LETTERS[row.type]
    cdef size_t begin = x.lists[0].size
    if not convert_add_name(x, row, v):
        return DONE_NO
    if amqp091_letter_size[letter] == AMQP091_VARIABLE:
        amqp091_add_value(&x.lists[0], letter, s.at, s.size)
    else:
        amqp091_add_i64(&x.lists[0], letter, <int64_t>n)
    convert_keep(x, 0, begin, row, x.field, v)
    return DONE_YES


cdef bint convert_add_name(Converter* x, const ConvertRow* row, const ConvertValue* v) noexcept nogil:
    """The name of a header of AMQP 0.9.1. False: not a valid name."""
    if row.name != NULL:
        amqp091_add_name(&x.lists[0], <const uint8_t*>row.name, <uint8_t>row.name_size)
        return True
    if v.key.size > 255:
        x.reason = REASON_KEY
        return False
    amqp091_add_name(&x.lists[0], v.key.at, <uint8_t>v.key.size)
    return True


cdef int convert_put_item(Converter* x, const ConvertRow* row, ConvertValue* v) noexcept nogil:
    """Put a header, annotation or property; the table of types converts its value, or it becomes text."""
    cdef int list_ = 1 if x.target == CONVERT_AMQP10 and row.target == C10_APPLICATION_PROPERTIES else 0
    cdef Octets* o = &x.lists[list_]
    cdef size_t before = o.size
    cdef Span s
    cdef int reason
    if row.how == HOW_TEXT and row.target != C5_USER_PROPERTY:
        if not convert_text(x, v, &s):
            return DONE_NO
        return convert_put(x, row, v, s, v.number)
    if x.target == CONVERT_MQTT5:
        return convert_put_pair(x, row, v)
    if x.target == CONVERT_AMQP091:
        if not convert_add_name(x, row, v):
            return DONE_NO
    elif not convert_add_key(x, row, list_, v):
        return DONE_NO
    reason = convert_item(x, o, v, 0)
    if reason != REASON_NONE:
        o.size = before
        return convert_no(x, reason)
    convert_keep(x, list_, before, row, x.field, v)
    return DONE_YES


cdef bint convert_add_key(Converter* x, const ConvertRow* row, int list_, const ConvertValue* v) noexcept nogil:
    """The key of an annotation (a symbol) or application property of AMQP 1.0. False: not a valid key, or the broker's."""
    cdef Span key = v.key
    cdef size_t bad = 0
    if row.name != NULL:
        key.at = <const uint8_t*>row.name
        key.size = row.name_size
    x.reason = REASON_KEY
    if x.valid and (not is_ascii(key.at, key.size) if list_ == 0 else not is_utf8(key.at, key.size, &bad)):
        return False
    if list_ == 0 and x.broker and convert_has_key(x, &key):
        x.reason = REASON_DUPLICATE
        return False
    convert_add_variable(x, &x.lists[list_], AMQP10_CODE_SYM8 if list_ == 0 else AMQP10_CODE_STR8, key.at, key.size)
    return True


cdef bint convert_has_key(Converter* x, const Span* key) noexcept nogil:
    """Does one of the broker's annotations have this key?"""
    cdef Amqp10Items items
    cdef Amqp10ValueView v
    items.at = x.lists[0].at
    items.constructor = NULL
    items.left = x.broker * 2
    while amqp10_next(&items, &v):
        if v.size == key.size and memcmp(v.body, key.at, key.size) == 0:
            return True
        amqp10_next(&items, &v)
    return False


cdef int convert_put_pair(Converter* x, const ConvertRow* row, ConvertValue* v) noexcept nogil:
    """A User Property."""
    cdef Octets* o = &x.lists[0]
    cdef Span s
    if not convert_text(x, v, &s):
        return DONE_NO
    if v.key.size > 65535 or s.size > 65535:
        return convert_no(x, REASON_TOO_LONG)
    if x.valid and not (convert_is_text(&v.key) and convert_is_text(&s)):
        return convert_no(x, REASON_INVALID)
    add_u8(o, MQTT_PROPERTY_USER_PROPERTY)
    add_u16(o, <uint16_t>v.key.size)
    add_octets(o, v.key.at, v.key.size)
    add_u16(o, <uint16_t>s.size)
    add_octets(o, s.at, s.size)
    x.counts[0] += 1
    return DONE_YES
